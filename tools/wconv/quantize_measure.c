/* SPDX-License-Identifier: Apache-2.0 */
/* What quantisation costs: the ratio of signal to noise, the top class, and
 * right classes where they are known. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "tools/array.h"
#include "tools/wconv/quantize.h"

struct noise {
    double signal, noise;
    bool measured;
};

static double decibels(const struct noise *n)
{
    return n->noise > 0      ? 10 * log10(n->signal / n->noise)
           : isnan(n->noise) ? NAN
                             : INFINITY;
}

static void add_noise(const struct infer_array *a, const struct infer_array *b,
                      struct noise *sum)
{
    sum->measured = true;
    for (int64_t i = 0; i < array_count(a); i++) {
        const double x = scalar_load(a->dtype, a->data, i);
        const double d = x - scalar_load(b->dtype, b->data, i);

        sum->signal += x * x;
        sum->noise += d * d;
    }
}

static int64_t top_of(const struct infer_array *a, int64_t row)
{
    const int64_t columns = a->dim[1];
    int64_t best = 0;

    for (int64_t c = 1; c < columns; c++)
        if (scalar_load(a->dtype, a->data, row * columns + c) >
            scalar_load(a->dtype, a->data, row * columns + best))
            best = c;
    return best;
}

/* Compares the top classes of one sample; class: the right ones, or NULL. */
static void add_classes(const struct infer_array *a,
                        const struct infer_array *b, const int64_t *class,
                        struct wconv_verdict_quantized *v)
{
    if (a->rank != 2 || a->dim[1] < 2 || b->rank != 2 ||
        b->dim[0] != a->dim[0] || b->dim[1] != a->dim[1])
        return;
    for (int64_t r = 0; r < a->dim[0]; r++) {
        const int64_t x = top_of(a, r), y = top_of(b, r);
        const bool labelled = class != NULL && class[r] != SAMPLES_NO_CLASS;

        v->rows++;
        v->agree += x == y;
        v->labelled += labelled;
        v->right[0] += labelled && class[r] == x;
        v->right[1] += labelled && class[r] == y;
    }
}

struct comparison {
    const struct quantize_subject *of;
    struct probe a, b;
    struct noise *sum; /* of each layer, then of each output */
};

/* The value that output k is judged by: behind a softmax the error of an image
 * depends on how near its classes are, so that its input is compared; of
 * integers (an argmax, a cast of it) the floats that they come from are. */
static int judged_value(const struct graph *g, int k)
{
    int value = g->output[k];

    for (int at; (at = g->value[value].producer) >= 0;) {
        const bool floats = scalar_is_float(g->value[value].dtype);
        const struct graph_node *n = &g->node[at];

        if (floats && n->op != GRAPH_SOFTMAX)
            return value;
        if (n->n_in < 1 || n->in[0] < 0)
            break;
        value = n->in[0];
        if (floats)
            return value;
    }
    return g->output[k];
}

/* Probes the layers' outputs, then the values by which the network's are
 * judged. */
static int open_probes(struct comparison *c, struct infer_error *err)
{
    const struct quantize_subject *s = c->of;
    const int n = s->n_layers + s->before->n_outputs;
    int *left = calloc((size_t)n + 1, sizeof *left);
    int *right = calloc((size_t)n + 1, sizeof *right);
    int rc = left && right ? INFER_OK
                           : error_set(err, INFER_EMEMORY, "out of memory");

    for (int i = 0; rc == INFER_OK && i < n; i++) {
        left[i] = i < s->n_layers ? s->layer[i].y
                                  : judged_value(s->before, i - s->n_layers);
        right[i] = graph_find_value(s->after, s->before->value[left[i]].name);
        if (right[i] < 0)
            rc = error_set(err, INFER_EARGUMENT, "tensor '%s' is gone",
                           s->before->value[left[i]].name);
    }
    if (rc == INFER_OK)
        rc = probe_open(s->before, left, n, err, &c->a);
    if (rc == INFER_OK)
        rc = probe_open(s->after, right, n, err, &c->b);
    free(left);
    free(right);
    return rc;
}

/* Classes that the network does not have. */
static int check_classes(const struct quantize_subject *s,
                         const struct infer_array *y, struct infer_error *err)
{
    const int64_t n = s->samples->class ? s->samples->n : 0;

    if (n > 0 && y->rank == 2 && y->dim[0] != s->samples->rows)
        return error_set(err, INFER_EARGUMENT,
                         "a sample has %lld classes, but the first output has "
                         "%lld rows",
                         (long long)s->samples->rows, (long long)y->dim[0]);
    for (int64_t i = 0; i < n * s->samples->rows; i++)
        if (s->samples->class[i] != SAMPLES_NO_CLASS &&
            (y->rank != 2 || s->samples->class[i] < 0 ||
             s->samples->class[i] >= y->dim[1]))
            return error_set(err, INFER_EARGUMENT,
                             "a sample is of class %lld, but the network has "
                             "%lld classes",
                             (long long)s->samples->class[i],
                             y -> rank == 2 ? (long long)y -> dim[1] : 0LL);
    return INFER_OK;
}

static int run_sample(struct comparison *c, int i,
                      struct wconv_verdict_quantized *v,
                      struct infer_error *err)
{
    const struct quantize_subject *s = c->of;
    int rc = probe_run(&c->a, s->samples, i, err);

    if (rc == INFER_OK)
        rc = probe_run(&c->b, s->samples, i, err);
    if (rc == INFER_OK)
        rc = check_classes(s, &c->a.out[0], err);
    if (rc < 0)
        return rc;
    for (int k = 0; k < c->a.n; k++) {
        const struct infer_array *x = &c->a.out[c->a.place[k]];
        const struct infer_array *y = &c->b.out[c->b.place[k]];

        if (scalar_is_float(x->dtype) && array_count(x) == array_count(y))
            add_noise(x, y, &c->sum[k]);
        else if (scalar_is_float(x->dtype))
            c->sum[k].noise = NAN; /* another length: nothing to compare */
    }
    add_classes(
        &c->a.out[0], &c->b.out[0],
        s->samples->class ? s->samples->class + i * s->samples->rows : NULL, v);
    return INFER_OK;
}

/* The ratio of the worst output; NaN where one is no number.  False: no output
 * comes from floats. */
static bool worst_of(const struct noise *n, int count, double *worst)
{
    bool measured = false;

    *worst = INFINITY;
    for (int i = 0; i < count; i++) {
        const double v = decibels(&n[i]);

        *worst = isnan(v) || isnan(*worst) ? NAN : fmin(*worst, v);
        measured |= n[i].measured || isnan(v);
    }
    return measured;
}

int quantize_measure(const struct quantize_subject *s, struct cli *cli,
                     const char *what, struct wconv_verdict_quantized *out,
                     double *layer_sqnr, struct infer_error *err)
{
    const int all = s->samples->n;
    const int n = s->most > 0 && s->most < all ? s->most : all;
    struct comparison c = {.of = s};
    int rc;

    memset(out, 0, sizeof *out);
    c.sum =
        calloc((size_t)(s->n_layers + s->before->n_outputs) + 1, sizeof *c.sum);
    rc = c.sum ? open_probes(&c, err)
               : error_set(err, INFER_EMEMORY, "out of memory");
    for (int i = 0; rc == INFER_OK && i < n; i++) {
        cli_progress(cli, what, (uint64_t)i, (uint64_t)n);
        rc = run_sample(&c, (int)((int64_t)i * all / n), out, err);
    }
    for (int i = 0; rc == INFER_OK && i < s->n_layers; i++)
        layer_sqnr[i] = decibels(&c.sum[i]);
    if (rc == INFER_OK)
        out->measured =
            worst_of(c.sum + s->n_layers, s->before->n_outputs, &out->sqnr);
    probe_close(&c.a);
    probe_close(&c.b);
    free(c.sum);
    return rc;
}

double quantize_drop(const struct wconv_verdict_quantized *v)
{
    return v->labelled > 0 ? 100.0 * (v->right[0] - v->right[1]) / v->labelled
                           : 100.0 * (v->rows - v->agree) / v->rows;
}
