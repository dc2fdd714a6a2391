/* SPDX-License-Identifier: Apache-2.0 */
/* Equalises the channels between two layers. */
#include "weights/quantize/equalize.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "weights/quantize/range.h"

/* A channel is made larger or smaller at most this many times: one that the
 * samples hardly reach says little about the pictures to come. */
#define MOST 64.0

enum { X, W, BIAS };

struct equalizer {
    const struct graph *g;
    struct equalize_pair *pair;
    struct range *range;
    int *first, *second; /* nodes */
    int *value;          /* between them */
    int n;
};

/* ---- pairs --------------------------------------------------------- */

/* How often each value is read, by nodes and as an output of the network. */
static int *count_reads(const struct graph *g)
{
    int *reads = calloc((size_t)g->n_values + 1, sizeof *reads);

    for (int i = 0; reads && i < g->n_nodes; i++)
        for (int k = 0; g->node[i].op != GRAPH_NONE && k < g->node[i].n_in; k++)
            if (g->node[i].in[k] >= 0)
                reads[g->node[i].in[k]]++;
    for (int i = 0; reads && i < g->n_outputs; i++)
        reads[g->output[i]]++;
    return reads;
}

/* Constant floats that one node reads: they may be changed. */
static bool is_own(const struct graph *g, const int *reads, int value)
{
    const struct constant *c = g->value[value].data;

    return c && c->data && scalar_is_float(c->dtype) && reads[value] == 1;
}

static bool is_layer(const struct graph *g, const int *reads,
                     const struct graph_node *n)
{
    const int rank = g->value[n->in[X]].rank;

    return ((n->op == GRAPH_CONV && rank >= 3) ||
            (n->op == GRAPH_DENSE && rank == 2)) &&
           is_own(g, reads, n->in[W]);
}

/* f(t x) = t f(x) for t > 0, up to an upper limit (INFINITY: none). */
static bool is_homogeneous(const struct kern_unary *f, double *limit)
{
    *limit = f->kind == KERN_CLIP ? (double)f->b : INFINITY;
    return f->kind == KERN_IDENTITY || f->kind == KERN_RELU ||
           f->kind == KERN_LEAKY_RELU ||
           (f->kind == KERN_CLIP && f->a == 0 && f->b > 0);
}

/* The first layer of a pair whose second reads `value`, or -1. */
static int find_first(const struct graph *g, const int *reads, int value,
                      double *limit)
{
    const int at = g->value[value].producer;
    const struct graph_node *a = at >= 0 ? &g->node[at] : NULL;
    int residual;

    if (!a || (a->op != GRAPH_CONV && a->op != GRAPH_DENSE) ||
        !is_layer(g, reads, a) || reads[value] != 1 ||
        !is_homogeneous(&a->epilogue.act, limit))
        return -1;
    residual = graph_op_info(a->op)->max_in;
    if ((a->n_in > residual && a->in[residual] >= 0) ||
        (a->n_in > BIAS && a->in[BIAS] >= 0 && !is_own(g, reads, a->in[BIAS])))
        return -1;
    return at;
}

static void find_pairs(struct equalizer *e, const int *reads)
{
    const struct graph *g = e->g;

    for (int i = 0; i < g->n_nodes; i++) {
        const struct graph_node *b = &g->node[i];
        double limit;
        int a;

        if ((b->op != GRAPH_CONV && b->op != GRAPH_DENSE) ||
            !is_layer(g, reads, b) ||
            (a = find_first(g, reads, b->in[X], &limit)) < 0)
            continue;
        e->first[e->n] = a;
        e->second[e->n] = i;
        e->value[e->n] = b->in[X];
        e->pair[e->n++] = (struct equalize_pair){
            .first = g->node[a].name ? g->node[a].name : "",
            .second = b->name ? b->name : "",
            .clipped = limit < INFINITY};
    }
}

int equalizer_open(const struct graph *g, struct infer_error *err,
                   struct equalizer **out)
{
    const size_t n = (size_t)g->n_nodes + 1;
    struct equalizer *e = calloc(1, sizeof *e);
    int *reads;

    if (!e)
        return error_set(err, INFER_EMEMORY, "out of memory");
    e->g = g;
    e->pair = calloc(n, sizeof *e->pair);
    e->range = calloc(n, sizeof *e->range);
    e->first = calloc(n, sizeof *e->first);
    e->second = calloc(n, sizeof *e->second);
    e->value = calloc(n, sizeof *e->value);
    reads = count_reads(g);
    if (!e->pair || !e->range || !e->first || !e->second || !e->value ||
        !reads) {
        free(reads);
        equalizer_close(e);
        return error_set(err, INFER_EMEMORY, "out of memory");
    }
    find_pairs(e, reads);
    free(reads);
    *out = e;
    return INFER_OK;
}

void equalizer_close(struct equalizer *e)
{
    if (!e)
        return;
    for (int i = 0; e->range && i < e->n; i++)
        range_clear(&e->range[i]);
    free(e->pair);
    free(e->range);
    free(e->first);
    free(e->second);
    free(e->value);
    free(e);
}

int equalizer_watched(const struct equalizer *e, const int **values)
{
    *values = e->value;
    return e->n;
}

int equalizer_pairs(const struct equalizer *e,
                    const struct equalize_pair **pairs)
{
    *pairs = e->pair;
    return e->n;
}

int equalizer_observe(struct equalizer *e, int i, const float *data, int rank,
                      const int64_t *dim, struct infer_error *err)
{
    const int rc = range_observe(&e->range[i], data, rank, dim, err);

    if (rc < 0)
        error_prefix(err, "tensor '%s'", e->g->value[e->value[i]].name);
    return rc;
}

/* ---- weights ------------------------------------------------------- */

/* The weights of the second layer that read one channel: `rows` runs of
 * `window` elements, `stride` apart. */
struct column {
    int64_t first, rows, window, stride;
};

static struct column column_of(const struct graph_node *n,
                               const struct constant *w, int64_t c)
{
    const int64_t groups = n->op == GRAPH_CONV ? n->attr.conv.conv.groups : 1;
    const int64_t inner = w->dim[1], rows = w->dim[0] / groups;
    struct column col = {.rows = rows, .window = 1};

    for (int d = 2; d < w->rank; d++)
        col.window *= w->dim[d];
    col.stride = inner * col.window;
    col.first = c / inner * rows * col.stride + c % inner * col.window;
    return col;
}

static float *floats(struct constant *c)
{
    return (float *)(void *)c->data;
}

static double largest_in(struct constant *w, const struct column *col)
{
    double top = 0;

    for (int64_t r = 0; r < col->rows; r++)
        for (int64_t i = 0; i < col->window; i++)
            top = fmax(
                top, fabs((double)floats(w)[col->first + r * col->stride + i]));
    return top;
}

static void scale_column(struct constant *w, const struct column *col, double t)
{
    for (int64_t r = 0; r < col->rows; r++)
        for (int64_t i = 0; i < col->window; i++) {
            float *v = &floats(w)[col->first + r * col->stride + i];

            *v = (float)((double)*v * t);
        }
}

static void scale_row(struct constant *w, int64_t k, double t)
{
    const int64_t each = constant_count(w) / w->dim[0];

    for (int64_t i = 0; i < each; i++)
        floats(w)[k * each + i] = (float)((double)floats(w)[k * each + i] * t);
}

/* The constant of a value as F32 of this graph's own. */
static int open_constant(struct graph *g, int value, struct constant **out,
                         struct infer_error *err)
{
    struct constant *c = constant_convert(g->value[value].data, INFER_F32);
    struct constant *own = c ? constant_writable(c) : NULL;
    int rc;

    if (c && !own)
        constant_unref(c);
    rc = own ? graph_set_constant(g, value, own, err)
             : error_set(err, INFER_EMEMORY, "out of memory");

    *out = rc < 0 ? NULL : g->value[value].data;
    return rc;
}

/* ---- factors ------------------------------------------------------- */

static double bounded(double v, double low, double high)
{
    return fmin(fmax(v, low), high);
}

/* Sets the factors of all channels, 1 for those that are always 0. */
static void choose_factors(const struct range *x, const struct graph_node *b,
                           struct constant *w, double limit, double *t)
{
    const bool depthwise = w->dim[1] == 1 && x->channels > 1;
    double top = 0, least = INFINITY, most = 0;

    for (int64_t c = 0; c < x->channels; c++)
        top = fmax(top, x->peak[c]);
    for (int64_t c = 0; c < x->channels; c++) {
        const struct column col = column_of(b, w, c);
        const double read = depthwise ? 1 : largest_in(w, &col);

        t[c] = 0;
        if (!(x->peak[c] > 0) || !(read > 0))
            continue;
        t[c] = depthwise ? fmax(top / (EQUALIZE_ROOM * x->peak[c]), 1)
                         : sqrt(read / x->peak[c]);
        least = fmin(least, t[c]);
        most = fmax(most, t[c] * x->peak[c]);
    }
    for (int64_t c = 0; c < x->channels; c++) {
        if (t[c] == 0) {
            t[c] = 1;
        } else if (limit < INFINITY) {
            const double room = limit / (EQUALIZE_ROOM * x->peak[c]);

            t[c] = fmax(1, fmin(fmin(t[c] / least, MOST), room));
        } else if (depthwise) {
            t[c] = fmin(t[c], MOST);
        } else {
            t[c] = bounded(t[c] * top / most, 1 / MOST, MOST);
        }
    }
}

static double spread(const struct range *x, const double *t)
{
    double least = INFINITY, most = 0;

    for (int64_t c = 0; c < x->channels; c++)
        if (x->peak[c] > 0) {
            const double v = x->peak[c] * (t ? t[c] : 1);

            least = fmin(least, v);
            most = fmax(most, v);
        }
    return most > 0 ? most / least : 1;
}

static int equalize(struct equalizer *e, int i, struct graph *g, double *t,
                    struct infer_error *err)
{
    const struct graph_node *a = &g->node[e->first[i]];
    const struct graph_node *b = &g->node[e->second[i]];
    const struct range *x = &e->range[i];
    struct constant *wa, *wb, *bias = NULL;
    double limit;
    int rc = open_constant(g, a->in[W], &wa, err);

    if (rc == INFER_OK)
        rc = open_constant(g, b->in[W], &wb, err);
    if (rc == INFER_OK && a->n_in > BIAS && a->in[BIAS] >= 0)
        rc = open_constant(g, a->in[BIAS], &bias, err);
    if (rc < 0)
        return rc;
    (void)is_homogeneous(&a->epilogue.act, &limit);
    choose_factors(x, b, wb, limit, t);
    for (int64_t c = 0; c < x->channels; c++) {
        const struct column col = column_of(b, wb, c);

        scale_row(wa, c, t[c]);
        if (bias)
            floats(bias)[c] = (float)((double)floats(bias)[c] * t[c]);
        scale_column(wb, &col, 1 / t[c]);
    }
    e->pair[i].spread_before = spread(x, NULL);
    e->pair[i].spread_after = spread(x, t);
    return INFER_OK;
}

/* The channels that the samples had are those of both layers' weights. */
static bool fits(const struct equalizer *e, int i)
{
    const struct graph *g = e->g;
    const struct graph_node *a = &g->node[e->first[i]];
    const struct graph_node *b = &g->node[e->second[i]];
    const struct constant *w = g->value[b->in[W]].data;
    const int64_t groups = b->op == GRAPH_CONV ? b->attr.conv.conv.groups : 1;
    const int64_t channels = e->range[i].channels;

    return channels > 0 && g->value[a->in[W]].data->dim[0] == channels &&
           w->rank >= 2 && w->dim[1] * groups == channels &&
           (a->n_in <= BIAS || a->in[BIAS] < 0 ||
            constant_count(g->value[a->in[BIAS]].data) == channels);
}

int equalizer_apply(struct equalizer *e, struct graph *g,
                    struct infer_error *err)
{
    int64_t most = 1;
    double *t;
    int rc = INFER_OK;

    for (int i = 0; i < e->n; i++)
        most = e->range[i].channels > most ? e->range[i].channels : most;
    t = calloc((size_t)most, sizeof *t);
    if (!t)
        return error_set(err, INFER_EMEMORY, "out of memory");
    for (int i = 0; rc == INFER_OK && i < e->n; i++)
        if (fits(e, i))
            rc = equalize(e, i, g, t, err);
    free(t);
    return rc;
}
