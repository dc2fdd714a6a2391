/* SPDX-License-Identifier: Apache-2.0 */
/* Scaled dot-product attention, one query of one head at a time: all its
 * scores, their softmax with the maximum taken off first, the sum of values. */
#include <math.h>

#include "kernels/ref/ref.h"

enum { Q, K, V, BIAS, BIAS2, Y, TENSORS };

/* A tensor of ..., L, H, X as ..., H, M without X: where L is of the keys, it
 * stands still along M. */
static struct kern_tensor without_depth(const struct kern_tensor *t,
                                        int64_t queries, bool of_keys)
{
    struct kern_tensor v = *t;
    const int r = t->rank;

    v.rank = r - 1;
    v.dim[r - 3] = t->dim[r - 2];
    v.stride[r - 3] = t->stride[r - 2];
    v.dim[r - 2] = of_keys ? 1 : queries;
    v.stride[r - 2] = of_keys ? 0 : t->stride[r - 3];
    return v;
}

/* A bias without the keys; one of rank 0 stands still. */
static struct kern_tensor without_keys(const struct kern_tensor *bias)
{
    struct kern_tensor v = *bias;

    v.rank = bias->rank > 0 ? bias->rank - 1 : 0;
    return v;
}

/* Element of a bias for key n, from the offset of its query; 0 if absent. */
static double bias_of(const struct kern_exec *e, const struct kern_args *args,
                      int i, int64_t offset, int64_t n)
{
    const struct kern_tensor *b = kern_problem_in(&e->problem, i);
    const int last = b ? b->rank - 1 : -1;

    if (!b)
        return 0;
    if (last >= 0 && b->dim[last] > 1)
        offset += n * b->stride[last];
    return ref_load(b->dtype, args->in[i], offset);
}

/* The softmax of a query's scores, without dividing; returns the sum. */
static double weigh_keys(const struct kern_exec *e,
                         const struct kern_args *args, const int64_t *offset,
                         double *weight)
{
    const struct kern_tensor *q = &e->problem.in[Q], *k = &e->problem.in[K];
    const int r = q->rank;
    const int64_t keys = k->dim[r - 3];
    const size_t q_size = infer_dtype_size(q->dtype);
    const size_t k_size = infer_dtype_size(k->dtype);
    double max = -INFINITY, sum = 0;

    for (int64_t n = 0; n < keys; n++) {
        const int64_t at = offset[K] + n * k->stride[r - 3];
        const double dot = ref_dot(
            q->dtype, (const char *)args->in[Q] + offset[Q] * (int64_t)q_size,
            q->stride[r - 1], k->dtype,
            (const char *)args->in[K] + at * (int64_t)k_size, k->stride[r - 1],
            q->dim[r - 1]);
        weight[n] = (double)e->problem.attr.attention.scale * dot +
                    bias_of(e, args, BIAS, offset[BIAS], n) +
                    bias_of(e, args, BIAS2, offset[BIAS2], n);
        if (weight[n] > max)
            max = weight[n];
    }
    for (int64_t n = 0; n < keys; n++) {
        weight[n] = exp(weight[n] - max);
        sum += weight[n];
    }
    return sum;
}

static void attend(const struct kern_exec *e, const struct kern_args *args,
                   const int64_t *offset)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *v = &p->in[V], *y = &p->out[0];
    const int r = v->rank;
    const int64_t keys = v->dim[r - 3], depth = v->dim[r - 1];
    double *weight = args->workspace, *total = weight + keys;
    const double sum = weigh_keys(e, args, offset, weight);

    for (int64_t i = 0; i < depth; i++)
        total[i] = 0;
    for (int64_t n = 0; n < keys; n++)
        ref_add_scaled(total, weight[n], v->dtype, args->in[V],
                       offset[V] + n * v->stride[r - 3], v->stride[r - 1],
                       depth);
    for (int64_t i = 0; i < depth; i++)
        ref_store(y->dtype, args->out[0], offset[Y] + i * y->stride[r - 1],
                  ref_epilogue(&p->epilogue, total[i] / sum, 0));
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const int64_t queries = p->in[Q].dim[p->in[Q].rank - 3];
    struct kern_tensor walked[TENSORS];
    struct ref_walk w;

    (void)err;
    for (int i = Q; i <= V; i++)
        walked[i] = without_depth(&p->in[i], queries, i != Q);
    walked[Y] = without_depth(&p->out[0], queries, false);
    for (int i = BIAS; i <= BIAS2; i++) {
        const struct kern_tensor none = {.rank = 0};
        const struct kern_tensor *b = kern_problem_in(p, i);

        walked[i] = without_keys(b ? b : &none);
    }
    ref_walk_start(&w, walked[Q].rank, walked[Q].dim);
    for (int i = 0; i < TENSORS; i++)
        ref_walk_add(&w, &walked[i]);
    for (; !w.done; ref_walk_next(&w))
        attend(e, args, w.offset);
    return 0;
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    const struct kern_tensor *v = &e->problem.in[V];

    (void)d;
    (void)err;
    e->workspace =
        (size_t)(v->dim[v->rank - 3] + v->dim[v->rank - 1]) * sizeof(double);
    return 0;
}

KERN_FUNCTIONS(attention_ref) = {
    .supports = ref_supports_double,
    .prepare = prepare,
    .launch = launch,
};
