/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of values by the arithmetic of intervals. */
#include <math.h>
#include <stdlib.h>

#include "kernels/base/scalar.h"
#include "weights/onnx/regions/regions.h"

/* How deep one answer looks. */
#define MAX_DEPTH 256

struct search {
    const struct onnx_import *im;
    struct region_bounds *found;
    unsigned char *known;
    int depth;
};

static struct region_bounds bounds_of(struct search *s, int value);

static const struct region_bounds everything = {-INFINITY, INFINITY};

static struct region_bounds either(struct region_bounds a,
                                   struct region_bounds b)
{
    return (struct region_bounds){fmin(a.low, b.low), fmax(a.high, b.high)};
}

/* The least and the largest of four numbers; everything where one is none. */
static struct region_bounds of_four(double a, double b, double c, double d)
{
    if (isnan(a + b + c + d))
        return everything;
    return (struct region_bounds){fmin(fmin(a, b), fmin(c, d)),
                                  fmax(fmax(a, b), fmax(c, d))};
}

static struct region_bounds of_constant(const struct graph_value *v)
{
    struct region_bounds b = {INFINITY, -INFINITY};
    const int64_t count = constant_count(v->data);

    if (!v->data->data)
        return everything;
    for (int64_t i = 0; i < count; i++) {
        const double x = scalar_load(v->dtype, v->data->data, i);

        if (isnan(x))
            return everything;
        b.low = fmin(b.low, x);
        b.high = fmax(b.high, x);
    }
    return count ? b : everything;
}

static struct region_bounds of_unary(const struct kern_unary *u,
                                     struct region_bounds x)
{
    switch ((int)u->kind) {
    case KERN_IDENTITY:
        return x;
    case KERN_RELU:
        return (struct region_bounds){fmax(x.low, 0), fmax(x.high, 0)};
    case KERN_CLIP:
        return (struct region_bounds){
            fmin(fmax(x.low, (double)u->a), (double)u->b),
            fmin(fmax(x.high, (double)u->a), (double)u->b)};
    case KERN_SIGMOID:
        return (struct region_bounds){0, 1};
    case KERN_LINEAR:
        return of_four((double)u->a * x.low + (double)u->b,
                       (double)u->a * x.high + (double)u->b,
                       (double)u->a * x.low + (double)u->b,
                       (double)u->a * x.high + (double)u->b);
    case KERN_ABS:
        return (struct region_bounds){0, fmax(fabs(x.low), fabs(x.high))};
    case KERN_NEG:
        return (struct region_bounds){-x.high, -x.low};
    case KERN_FLOOR:
    case KERN_CEIL:
    case KERN_ROUND:
        return (struct region_bounds){floor(x.low), ceil(x.high)};
    case KERN_SQRT:
        return (struct region_bounds){0, sqrt(fmax(x.high, 0))};
    default:
        return everything;
    }
}

static struct region_bounds of_binary(enum kern_binary_kind kind,
                                      struct region_bounds a,
                                      struct region_bounds b)
{
    switch ((int)kind) {
    case KERN_ADD:
        return of_four(a.low + b.low, a.high + b.high, a.low + b.low,
                       a.high + b.high);
    case KERN_SUB:
        return of_four(a.low - b.high, a.high - b.low, a.low - b.high,
                       a.high - b.low);
    case KERN_MUL:
        return of_four(a.low * b.low, a.low * b.high, a.high * b.low,
                       a.high * b.high);
    case KERN_DIV:
        if (b.low <= 0 && b.high >= 0)
            return everything;
        return of_four(a.low / b.low, a.low / b.high, a.high / b.low,
                       a.high / b.high);
    case KERN_MIN:
        return (struct region_bounds){fmin(a.low, b.low), fmin(a.high, b.high)};
    case KERN_MAX:
        return (struct region_bounds){fmax(a.low, b.low), fmax(a.high, b.high)};
    default:
        return everything;
    }
}

static struct region_bounds of_cast(enum infer_dtype to, struct region_bounds x)
{
    if (to == INFER_BOOL)
        return (struct region_bounds){0, 1};
    /* Narrower integers wrap, narrower floats round beyond the limits. */
    if (to == INFER_I64 ||
        (to == INFER_I32 && x.low >= INT32_MIN && x.high <= INT32_MAX))
        return (struct region_bounds){floor(x.low), ceil(x.high)};
    return to == INFER_F32 || to == INFER_F64 ? x : everything;
}

static struct region_bounds of_node(struct search *s,
                                    const struct graph_node *n, int value)
{
    struct region_bounds b;

    if (n->epilogue.act.kind != KERN_IDENTITY)
        return everything;
    switch ((int)n->op) {
    case GRAPH_UNARY:
        return of_unary(&n->attr.unary, bounds_of(s, n->in[0]));
    case GRAPH_BINARY:
        return of_binary(n->attr.binary.kind, bounds_of(s, n->in[0]),
                         bounds_of(s, n->in[1]));
    case GRAPH_CAST:
        return of_cast(n->attr.cast.to, bounds_of(s, n->in[0]));
    case GRAPH_WHERE:
        return either(bounds_of(s, n->in[1]), bounds_of(s, n->in[2]));
    case GRAPH_SCATTER_ELEMENTS:
        if (n->attr.scatter.kind != KERN_SCATTER_SET)
            return everything;
        return either(bounds_of(s, n->in[0]), bounds_of(s, n->in[2]));
    case GRAPH_CONCAT:
        b = bounds_of(s, n->in[0]);
        for (int i = 1; i < n->n_in; i++)
            b = either(b, bounds_of(s, n->in[i]));
        return b;
    case GRAPH_REDUCE:
        if (n->attr.reduce.kind != KERN_REDUCE_MAX &&
            n->attr.reduce.kind != KERN_REDUCE_MIN &&
            n->attr.reduce.kind != KERN_REDUCE_MEAN)
            return everything;
        return bounds_of(s, n->in[0]);
    case GRAPH_TOP_K:
        return value == n->out[0] ? bounds_of(s, n->in[0]) : everything;
    case GRAPH_SPLIT:
    case GRAPH_SLICE:
    case GRAPH_RESHAPE:
    case GRAPH_FLATTEN:
    case GRAPH_SQUEEZE:
    case GRAPH_UNSQUEEZE:
    case GRAPH_TRANSPOSE:
    case GRAPH_EXPAND:
    case GRAPH_TILE:
    case GRAPH_GATHER:
    case GRAPH_GATHER_ELEMENTS:
        return bounds_of(s, n->in[0]);
    default:
        return everything;
    }
}

static struct region_bounds bounds_of(struct search *s, int value)
{
    const struct graph_value *v;

    if (value < 0 || s->depth >= MAX_DEPTH)
        return everything;
    if (s->known[value])
        return s->found[value];
    v = &s->im->g->value[value];
    s->depth++;
    s->found[value] = v->data ? of_constant(v)
                      : v->producer >= 0
                          ? of_node(s, &s->im->g->node[v->producer], value)
                          : everything;
    s->depth--;
    s->known[value] = 1;
    return s->found[value];
}

struct region_bounds region_bounds(const struct onnx_import *im, int value)
{
    const size_t n = (size_t)im->g->n_values;
    struct search s = {.im = im};
    struct region_bounds b = everything;

    s.found = malloc((n + 1) * sizeof *s.found);
    s.known = calloc(n + 1, 1);
    if (s.found && s.known)
        b = bounds_of(&s, value);
    free(s.found);
    free(s.known);
    return b;
}
