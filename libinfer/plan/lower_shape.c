/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that move data: views where strides can express them. */
#include <string.h>

#include "kernels/base/scalar.h"
#include "libinfer/plan/lower.h"

/* True if the output is read by a concatenation alone, which has a place for
 * it. */
static bool has_place(const struct lower *l)
{
    const struct plan *plan = l->plan;
    const struct plan_value *v = &plan->value[l->node->out[0]];

    return v->concat >= 0 && v->uses == 1 &&
           !(plan->integers &&
             plan->integers[plan->g->value[v->concat].producer]);
}

/* Writes elements that have to be copied to their place in a concatenation. */
static int reshape_into(const struct lower *l, const struct view *x, bool *done)
{
    struct plan_value *v = &l->plan->value[l->node->out[0]];
    struct view dest;
    int rc = plan_concat_dest(l->plan, l->node->out[0],
                              lower_is_last(x) ? KERN_NHWC : KERN_NCHW, l->err,
                              &dest);

    *done = false;
    if (rc < 0 || dest.t.dtype != x->t.dtype)
        return rc;
    rc = lower_copy_reshaped(l, x, &dest, done);
    if (rc < 0 || !*done)
        return rc;
    v->in_dest = true;
    return lower_set(l, 0, &dest);
}

/* Reshape, flatten, squeeze, unsqueeze: the shape rule did the work. */
int lower_reshaped(const struct lower *l)
{
    const struct graph_value *out = lower_out(l, 0);
    const struct view *x = lower_in(l, 0);
    bool done = false;
    struct view v;
    int rc = 0;

    if (view_reshape(x, out->rank, out->dim, &v))
        return lower_set(l, 0, &v);
    if (has_place(l) && kern_tensor_count(&x->t) > 0)
        rc = reshape_into(l, x, &done);
    if (rc < 0 || done)
        return rc;
    rc = lower_reshape(l, x, out->rank, out->dim, &v);
    return rc < 0 ? rc : lower_set(l, 0, &v);
}

/* Slice, split, transpose and expand. */
int lower_parts(const struct lower *l)
{
    int64_t at = 0;
    int rc = 0;

    for (int k = 0; rc == 0 && k < l->node->n_out; k++) {
        struct view v;

        rc = problem_part(l->plan->g, l->node, k, lower_in(l, 0), &at, l->err,
                          &v);
        if (rc == 0)
            rc = lower_set(l, k, &v);
    }
    return rc;
}

/* ---- gather -------------------------------------------------------- */

/* More indices are not looked at: they are gathered. */
#define MOST_INDICES 4096

/* Reads indices of a dimension of `size` as first, first + step, ...; false
 * where they are not evenly spaced or out of range. */
static bool read_progression(const struct constant *index, int64_t size,
                             int64_t *first, int64_t *step)
{
    const int64_t count = constant_count(index);
    int64_t last = 0;

    *step = 1;
    for (int64_t i = 0; i < count; i++) {
        int64_t at = scalar_load_i64(index->dtype, index->data, i);

        at += at < 0 ? size : 0;
        if (at < 0 || at >= size)
            return false;
        if (i == 0)
            *first = at;
        else if (i == 1)
            *step = at - last;
        if (*step < 1 || (i > 0 && at - last != *step))
            return false;
        last = at;
    }
    return count > 0;
}

/* The part of x that constant indices name, *done where they are evenly spaced.
 */
static int gather_part(const struct lower *l, const struct view *x, int axis,
                       bool *done, struct view *part)
{
    struct constant *c = l->plan->g->value[l->node->in[1]].data;
    int64_t first = 0, step;
    int rc = 0;

    *done = false;
    if (!c || constant_count(c) > MOST_INDICES)
        return 0;
    rc = constant_in_memory(c, &l->plan->config->device->host, l->err, &c);
    if (rc < 0)
        return rc;
    *done = read_progression(c, x->t.dim[axis], &first, &step);
    if (*done)
        *part = view_slice(x, axis, first, step, constant_count(c));
    constant_unref(c);
    return 0;
}

/* A part of the input where the indices are constants that are evenly spaced,
 * as where one of several tensors is taken from one that holds them all. */
int lower_gather(const struct lower *l)
{
    const struct graph_value *out = lower_out(l, 0);
    const struct view *x = lower_in(l, 0);
    struct view part;
    bool done = false;
    int axis, rc = problem_axis(l->node, l->node->attr.axis.axis, x->t.rank,
                                l->err, &axis);

    if (rc == 0)
        rc = gather_part(l, x, axis, &done, &part);
    if (rc < 0)
        return rc;
    return done && view_reshape(&part, out->rank, out->dim, &part)
               ? lower_set(l, 0, &part)
               : lower_layer(l);
}

/* ---- concat -------------------------------------------------------- */

/* The layout of the first part of full rank, for a buffer nobody made yet. */
static enum kern_layout concat_layout(const struct lower *l)
{
    const struct view *x = lower_in(l, 0);

    return x->t.rank < 3 || kern_tensor_is_dense(&x->t, KERN_NCHW)
               ? KERN_NCHW
               : view_layout(&x->t);
}

int lower_concat(const struct lower *l)
{
    const int out = l->node->out[0];
    struct plan *plan = l->plan;
    struct view dest, part;
    int64_t at = 0;
    int i, rc;

    if (lower_is_integer(l))
        return lower_concat_integers(l);
    if (l->node->n_in == 1)
        return lower_identity(l);
    rc = plan_concat_dest(plan, out, concat_layout(l), l->err, &dest);
    for (i = 0; rc == 0 && i < l->node->n_in; i++) {
        struct plan_value *v = &plan->value[l->node->in[i]];

        rc = problem_place(plan->g, l->node, i, &dest, &at, l->err, &part);
        if (rc < 0)
            break;
        if (v->in_dest && view_same(&v->dest, &part))
            continue; /* it was built here */
        rc = plan_copy_to(plan, l->index, &v->view, &part, l->err);
        /* An enclosing concatenation finds it in place now. */
        if (v->has_dest && view_same(&v->dest, &part))
            v->in_dest = true;
    }
    plan->value[out].in_dest = true;
    return rc < 0 ? rc : lower_set(l, 0, &dest);
}

/* ---- tile ---------------------------------------------------------- */

/* One dimension repeated: [outer, d, inner] becomes [outer, r, d, inner],
 * copied from a view whose r has stride 0. */
static int tile_one(const struct lower *l, const struct view *x, int axis,
                    int64_t repeats, struct view *out)
{
    int64_t dim[INFER_MAX_RANK], merged[3] = {1, 1, 1};
    struct view dense, flat, from, to;
    int i, rc;

    for (i = 0; i < x->t.rank; i++) {
        dim[i] = x->t.dim[i];
        merged[i < axis ? 0 : i == axis ? 1 : 2] *= dim[i];
    }
    dim[axis] *= repeats;
    rc = plan_dense(l->plan, l->index, x, KERN_NCHW, l->err, &dense);
    if (rc == 0)
        rc = lower_reshape(l, &dense, 3, merged, &flat);
    if (rc == 0)
        rc = plan_buffer(l->plan, l->index, x->t.dtype, x->t.rank, dim,
                         KERN_NCHW, l->err, out);
    if (rc < 0)
        return rc;
    merged[1] *= repeats;
    to = *out;
    to.t = kern_tensor_dense(x->t.dtype, 3, merged, KERN_NCHW);
    to = view_split(&to, 1, repeats);
    from = view_split(&flat, 1, 1);
    from = view_expand(&from, to.t.dim);
    return plan_copy_to(l->plan, l->index, &from, &to, l->err);
}

int lower_tile(const struct lower *l)
{
    const struct graph_value *out = lower_out(l, 0);
    struct view v = *lower_in(l, 0);
    bool empty = kern_tensor_count(&v.t) == 0;
    int rc = 0;

    for (int i = 0; rc == 0 && !empty && i < out->rank; i++) {
        const int64_t repeats = out->dim[i] / v.t.dim[i];

        empty = repeats == 0;
        if (repeats > 1)
            rc = tile_one(l, &v, i, repeats, &v);
    }
    if (empty)
        rc = plan_buffer(l->plan, l->index, v.t.dtype, out->rank, out->dim,
                         KERN_NCHW, l->err, &v);
    return rc < 0 ? rc : lower_set(l, 0, &v);
}

/* ---- depth and space ----------------------------------------------- */

/* Both are one copy between six-dimensional views N, b, b, C, H, W (in the
 * order that the attribute says) and N, C, H, b, W, b. */
static struct view as_depth(const struct view *deep, int64_t b, bool crd)
{
    static const int64_t dcr[6] = {0, 3, 4, 1, 5, 2};
    static const int64_t channels_first[6] = {0, 1, 4, 2, 5, 3};
    struct view v;

    if (crd) { /* C, b, b, H, W */
        v = view_split(deep, 1, deep->t.dim[1] / (b * b));
        v = view_split(&v, 2, b);
        return view_permute(&v, channels_first);
    }
    v = view_split(deep, 1, b); /* b, b, C, H, W */
    v = view_split(&v, 2, b);
    return view_permute(&v, dcr);
}

static struct view as_space(const struct view *wide, int64_t b)
{
    struct view v = view_split(wide, 2, wide->t.dim[2] / b);

    return view_split(&v, 4, v.t.dim[4] / b);
}

static int depth_space(const struct lower *l, bool to_space)
{
    const struct graph_depth_space *a = &l->node->attr.depth_space;
    const struct view *x = lower_in(l, 0);
    const struct graph_value *y = lower_out(l, 0);
    struct view out, from, to;
    int rc = plan_buffer(l->plan, l->index, x->t.dtype, y->rank, y->dim,
                         view_layout(&x->t), l->err, &out);

    if (rc < 0)
        return rc;
    if (kern_tensor_count(&x->t) > 0) {
        from = to_space ? as_depth(x, a->block, a->crd) : as_space(x, a->block);
        to = to_space ? as_space(&out, a->block)
                      : as_depth(&out, a->block, a->crd);
        rc = plan_copy_to(l->plan, l->index, &from, &to, l->err);
        if (rc < 0)
            return rc;
    }
    return lower_set(l, 0, &out);
}

int lower_depth_to_space(const struct lower *l)
{
    return depth_space(l, true);
}

int lower_space_to_depth(const struct lower *l)
{
    return depth_space(l, false);
}
