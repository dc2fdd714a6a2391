/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient of reductions: each output's goes to all that it was made from, or
 * to its first extreme. */
#include <math.h>

#include "kernels/ref/ref.h"

/* What one output was made from. */
struct block {
    enum kern_reduce_kind kind;
    double count, norm;
    int64_t extreme; /* number within the block */
};

static void see(struct block *b, double *best, int64_t i, double x)
{
    const bool above = b->kind == KERN_REDUCE_MAX ? x > *best : x < *best;

    if (b->kind == KERN_REDUCE_L2)
        b->norm += x * x;
    if (i == 0 || above || isnan(x)) {
        *best = x;
        b->extreme = i;
    }
}

static double derivative(const struct block *b, int64_t i, double x)
{
    switch (b->kind) {
    case KERN_REDUCE_MEAN:
        return 1 / b->count;
    case KERN_REDUCE_MAX:
    case KERN_REDUCE_MIN:
        return i == b->extreme;
    case KERN_REDUCE_L1:
        return (x > 0) - (x < 0);
    case KERN_REDUCE_L2:
        return b->norm > 0 ? x / sqrt(b->norm) : 0;
    case KERN_REDUCE_SUM:
        return 1;
    case KERN_REDUCE_PROD: /* refused */
    case KERN_REDUCE_KIND_COUNT:
        break;
    }
    return NAN;
}

/* The dimensions of t that go, from an offset on. */
static void add_block(struct ref_walk *w, const struct kern_tensor *t,
                      uint32_t axes, const int64_t *index)
{
    struct kern_tensor gone = *t;
    int64_t from = 0;

    for (int i = 0; i < t->rank; i++)
        if (!(axes >> i & 1)) {
            gone.dim[i] = 1;
            from += index[i] * t->stride[i];
        }
    if (w->n == 0)
        ref_walk_start(w, gone.rank, gone.dim);
    ref_walk_add(w, &gone);
    w->offset[w->n - 1] = from;
}

static void give(const struct kern_problem *p, const struct kern_args *args,
                 const int64_t *index, double dy)
{
    const uint32_t axes = p->attr.reduce.axes;
    const struct kern_tensor *x = kern_problem_in(p, 1), *dx = &p->out[0];
    const struct kern_tensor *residual = kern_problem_in(p, 2);
    struct block b = {.kind = p->attr.reduce.kind};
    struct ref_walk w = {.n = 0};
    double best = 0;

    add_block(&w, x ? x : dx, axes, index);
    for (int64_t i = 0; !w.done; ref_walk_next(&w), i++) {
        if (x)
            see(&b, &best, i, ref_load(x->dtype, args->in[1], w.offset[0]));
        b.count++;
    }
    w.n = 0;
    add_block(&w, dx, axes, index);
    add_block(&w, x ? x : dx, axes, index);
    if (residual)
        add_block(&w, residual, axes, index);
    for (int64_t i = 0; !w.done; ref_walk_next(&w), i++) {
        const double v = x ? ref_load(x->dtype, args->in[1], w.offset[1]) : 0;
        ref_store(dx->dtype, args->out[0], w.offset[0],
                  dy * derivative(&b, i, v) +
                      ref_optional(residual, args->in[2], w.offset[2], 0));
    }
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *dy = &p->in[0];
    struct ref_walk w;

    (void)err;
    ref_walk_start(&w, dy->rank, dy->dim);
    ref_walk_add(&w, dy);
    for (; !w.done; ref_walk_next(&w))
        give(p, args, w.index, ref_load(dy->dtype, args->in[0], w.offset[0]));
    return 0;
}

KERN_FUNCTIONS(reduce_dgrad_ref) = {
    .supports = ref_supports_double,
    .launch = launch,
};
