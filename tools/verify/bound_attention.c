/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far a row of attention may be from the reference.
 *
 * A score, a sum of D products, loses 8 sqrt(D) u sum |q| |k| scale, and u of
 * itself and of each bias; its exponential passes on what the score and the
 * largest of its query have lost, and loses 16 u (1 + |score - largest|)
 * itself. Rows may round the weights to the type of the values.  All of that is
 * a part of the sum of |weight| |value|, as is what the two sums over N keys
 * lose.
 */
#include <math.h>
#include <stdlib.h>

#include "kernels/ref/ref.h"
#include "tools/verify/verify.h"

enum { Q, K, V, BIAS, BIAS2 };

/* Where a query of a head stands: dense tensors of ..., L, H, X. */
struct query {
    const struct reference *t;
    int64_t batch, m, h;
    int64_t queries, heads, keys, depth, width;
};

static double load_line(const struct query *q, int i, int64_t line,
                        int64_t lines, int64_t at, int64_t width)
{
    const int64_t index =
        ((q->batch * lines + line) * q->heads + q->h) * width + at;

    return scalar_load(q->t->p.in[i].dtype, q->t->in[i], index);
}

/* Element (batch, h, m, n) of a bias that broadcasts to the scores; 0 where it
 * is absent. */
static double load_bias(const struct query *q, int i, int64_t n)
{
    const struct kern_tensor *b = kern_problem_in(&q->t->p, i);
    const struct kern_tensor *x = &q->t->p.in[Q];
    int64_t index[KERN_MAX_RANK], batch = q->batch, at = 0;

    if (!b)
        return 0;
    for (int d = x->rank - 4; d >= 0; d--) {
        index[d] = batch % x->dim[d];
        batch /= x->dim[d];
    }
    index[x->rank - 3] = q->h;
    index[x->rank - 2] = q->m;
    index[x->rank - 1] = n;
    for (int d = 0; d < b->rank; d++)
        at =
            at * b->dim[d] + (b->dim[d] > 1 ? index[x->rank - b->rank + d] : 0);
    return scalar_load(b->dtype, q->t->in[i], at);
}

/* The scores in weight[], and behind them what each may lose.  Returns the
 * largest. */
static double take_scores(const struct query *q, double u, double *weight)
{
    const double scale = (double)q->t->p.attr.attention.scale;
    double largest = -INFINITY;

    for (int64_t n = 0; n < q->keys; n++) {
        const double bias = load_bias(q, BIAS, n),
                     more = load_bias(q, BIAS2, n);
        double sum = 0, total = 0;

        for (int64_t d = 0; d < q->depth; d++) {
            const double product =
                load_line(q, Q, q->m, q->queries, d, q->depth) *
                load_line(q, K, n, q->keys, d, q->depth);
            sum += product;
            total += fabs(product);
        }
        weight[n] = scale * sum + bias + more;
        weight[q->keys + n] =
            8 * sqrt((double)q->depth) * u * total * fabs(scale) +
            4 * u * (fabs(bias) + fabs(more) + fabs(weight[n]));
        largest = fmax(largest, weight[n]);
    }
    return largest;
}

static void bound_query(const struct query *q, enum infer_dtype values,
                        double u, double *weight, double *tol)
{
    const struct kern_problem *p = &q->t->p;
    const struct kern_unary *act = &p->epilogue.act;
    const double stored = bound_unit(values);
    const double tiny = bound_tiny(values);
    const double largest = take_scores(q, u, weight);
    const int64_t first =
        ((q->batch * q->queries + q->m) * q->heads + q->h) * q->width;
    double lost = 0, sum = 0;

    for (int64_t n = 0; n < q->keys; n++) {
        const double below = largest - weight[n];

        weight[n] = exp(-below);
        sum += weight[n];
        /* What weighs nothing loses nothing. */
        if (weight[n] > 0)
            lost = fmax(lost, 2 * weight[q->keys + n] + 16 * u * (1 + below));
    }
    lost = 2 * lost + 2 * stored + 16 * sqrt((double)q->keys) * u;
    for (int64_t e = 0; e < q->width; e++) {
        const double y = ((const double *)q->t->out[0])[first + e];
        double total = 0, plain = 0;

        for (int64_t n = 0; n < q->keys; n++) {
            const double v = fabs(load_line(q, V, n, q->keys, e, q->width));
            total += weight[n] / sum * v;
            plain += v;
        }
        tol[first + e] =
            kern_unary_steepest(act) * (lost * total + tiny * plain) +
            bound_function(act, total, y, u);
    }
}

bool bound_attention(const struct reference *t, enum infer_dtype values,
                     double u, double *tol)
{
    const struct kern_tensor *x = &t->p.in[Q];
    const int r = x->rank;
    struct query q = {.t = t,
                      .queries = x->dim[r - 3],
                      .heads = x->dim[r - 2],
                      .depth = x->dim[r - 1],
                      .keys = t->p.in[K].dim[r - 3],
                      .width = t->p.in[V].dim[r - 1]};
    double *weight = calloc(2 * (size_t)q.keys + 1, sizeof(*weight));
    const bool ok = weight != NULL;
    int64_t batches = 1;

    for (int d = 0; d < r - 3; d++)
        batches *= x->dim[d];
    for (q.batch = 0; ok && q.batch < batches; q.batch++)
        for (q.m = 0; q.m < q.queries; q.m++)
            for (q.h = 0; q.h < q.heads; q.h++)
                bound_query(&q, values, u, weight, tol);
    free(weight);
    return ok;
}
