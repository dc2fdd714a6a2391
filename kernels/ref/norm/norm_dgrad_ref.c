/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of layer and group normalisation.  With xn = (x - mean) * inverse,
 * h = dy * scale and means over a block,
 * dx = inverse * (h - mean(h) - xn * mean(h * xn)); RMS norm takes off no mean,
 * so that its gradient has no mean(h). */
#include "kernels/ref/norm/norm.h"

enum { DY, X, SCALE, RESIDUAL };
enum { DX, DSCALE };

/* A block: dim[] elements from index[] on. */
struct block {
    const struct kern_problem *p;
    const struct kern_args *args;
    int64_t index[KERN_MAX_RANK], dim[KERN_MAX_RANK];
    struct ref_moments m;
};

/* The part of t that the block is, with the offset of its first element. */
static struct kern_tensor part_of(const struct block *b,
                                  const struct kern_tensor *t, int64_t *from)
{
    struct kern_tensor part = *t;

    *from = 0;
    for (int i = 0; i < t->rank; i++) {
        part.dim[i] = b->dim[i];
        *from += b->index[i] * t->stride[i];
    }
    return part;
}

static void add(struct ref_walk *w, const struct block *b,
                const struct kern_tensor *t)
{
    int64_t from;
    const struct kern_tensor part = part_of(b, t, &from);

    if (w->n == 0)
        ref_walk_start(w, part.rank, part.dim);
    ref_walk_add(w, &part);
    w->offset[w->n - 1] = from;
}

/* The scale of the element at the walk's index. */
static double scale_at(const struct block *b, const struct ref_walk *w)
{
    const struct kern_problem *p = b->p;
    const struct kern_tensor *scale = kern_problem_in(p, SCALE);
    const int axis = p->attr.norm.axis;
    int64_t at = 0;

    if (!scale)
        return 1;
    if (p->op == KERN_GROUP_NORM_DGRAD)
        at = (b->index[1] + w->index[1]) * scale->stride[0];
    else
        for (int i = axis; i < p->in[X].rank; i++)
            at += w->index[i] * scale->stride[i - axis];
    return ref_load(scale->dtype, b->args->in[SCALE], at);
}

/* dy * scale and xn at the walk's place; offset 0 is dy's, 1 is x's. */
static double h_at(const struct block *b, const struct ref_walk *w)
{
    return ref_load(b->p->in[DY].dtype, b->args->in[DY], w->offset[0]) *
           scale_at(b, w);
}

static double xn_at(const struct block *b, const struct ref_walk *w)
{
    return (ref_load(b->p->in[X].dtype, b->args->in[X], w->offset[1]) -
            b->m.mean) *
           b->m.inverse;
}

static void start(struct ref_walk *w, const struct block *b)
{
    w->n = 0;
    add(w, b, &b->p->in[DY]);
    add(w, b, &b->p->in[X]);
}

static void store_dx(const struct block *b, double mean_h, double mean_h_xn)
{
    const struct kern_tensor *dx = &b->p->out[DX];
    const struct kern_tensor *residual = kern_problem_in(b->p, RESIDUAL);
    struct ref_walk w;

    start(&w, b);
    add(&w, b, dx);
    if (residual)
        add(&w, b, residual);
    for (; !w.done; ref_walk_next(&w)) {
        const double r = ref_optional(residual, b->args->in[RESIDUAL],
                                      residual ? w.offset[3] : 0, 0);
        ref_store(dx->dtype, b->args->out[DX], w.offset[2],
                  b->m.inverse *
                          (h_at(b, &w) - mean_h - xn_at(b, &w) * mean_h_xn) +
                      r);
    }
}

static void store_dscale(const struct block *b)
{
    const struct kern_tensor *dscale = kern_problem_out(b->p, DSCALE);
    struct ref_walk w;

    if (!dscale)
        return;
    start(&w, b);
    add(&w, b, dscale);
    for (; !w.done; ref_walk_next(&w))
        ref_store(dscale->dtype, b->args->out[DSCALE], w.offset[2],
                  ref_load(b->p->in[DY].dtype, b->args->in[DY], w.offset[0]) *
                      xn_at(b, &w));
}

static void measure(struct block *b)
{
    const struct kern_tensor *x = &b->p->in[X];
    struct ref_block r = {.rank = x->rank};
    int64_t from;

    (void)part_of(b, x, &from);
    for (int i = 0; i < x->rank; i++) {
        r.dim[i] = b->dim[i];
        r.x_stride[i] = x->stride[i];
    }
    b->m =
        ref_block_stats(&r, x->dtype, b->args->in[X], from, &b->p->attr.norm);
}

static void run_block(struct block *b)
{
    double h = 0, h_xn = 0, count = 0;
    struct ref_walk w;

    measure(b);
    for (start(&w, b); !w.done; ref_walk_next(&w)) {
        h += h_at(b, &w);
        h_xn += h_at(b, &w) * xn_at(b, &w);
        count++;
    }
    store_dx(b, b->p->attr.norm.rms ? 0 : h / count, h_xn / count);
    store_dscale(b);
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *x = &p->in[X];
    const bool layer = p->op == KERN_LAYER_NORM_DGRAD;
    const int outer = layer ? p->attr.norm.axis : 1;
    struct block b = {.p = p, .args = args};
    int64_t dim[KERN_MAX_RANK];
    struct ref_walk w;

    (void)err;
    if (kern_tensor_count(x) == 0)
        return 0;
    for (int i = 0; i < x->rank; i++) {
        b.dim[i] = i < outer ? 1 : x->dim[i];
        dim[i] = i < outer ? x->dim[i] : 1;
    }
    if (!layer) {
        b.dim[1] = x->dim[1] / p->attr.norm.groups;
        dim[1] = p->attr.norm.groups;
    }
    for (ref_walk_start(&w, x->rank, dim); !w.done; ref_walk_next(&w)) {
        for (int i = 0; i < x->rank; i++)
            b.index[i] = w.index[i];
        if (!layer)
            b.index[1] *= b.dim[1];
        run_block(&b);
    }
    return 0;
}

KERN_FUNCTIONS(norm_dgrad_ref) = {
    .supports = ref_supports_double,
    .launch = launch,
};
