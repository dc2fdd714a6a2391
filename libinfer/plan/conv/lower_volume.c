/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions of three dimensions on a GPU, whose fast rows have two.
 *
 * The first dimension, depth, is taken apart: a volume of D slices is D images,
 * and what a window sees of T slices becomes T times as many channels of one
 * image, slice by slice, zeros where the pads are.  One copy a slice of the
 * window lays them beside each other; a window of one slice needs none.  The
 * result's images are the slices of the output.
 */
#include <string.h>

#include "libinfer/plan/conv/weights.h"

enum { X = 0, W = 1 };

/* Dimensions of a volume and of its weights. */
enum { DEPTH = 2, VOLUME_RANK = 5 };

bool lower_is_volume(const struct lower *l, const struct plan_emit *e)
{
    const struct plan_config *config = l->plan->config;
    const int w = l->node->n_in > W ? l->node->in[W] : -1;

    return config->apart && !config->products && e->p.op == KERN_CONV_FPROP &&
           e->in[X].t.rank == VOLUME_RANK && e->p.attr.conv.groups == 1 &&
           w >= 0 && l->plan->g->value[w].data && l->plan->value[w].uses == 1 &&
           kern_tensor_count(&e->in[X].t) > 0 && e->p.out[0].dim[DEPTH] > 0;
}

/* Slices first: N,C,D,H,W becomes N,D,C,H,W. */
static struct view slices_of(const struct view *v)
{
    static const int64_t order[VOLUME_RANK] = {0, 2, 1, 3, 4};

    return view_permute(v, order);
}

/* The volume as images N D,C,H,W, copied where its strides do not allow it. */
static int as_images(const struct lower *l, const struct view *volume,
                     struct view *out)
{
    const struct view slices = slices_of(volume);
    const int64_t *d = slices.t.dim;
    const int64_t dim[4] = {d[0] * d[1], d[2], d[3], d[4]};
    struct view to;
    int rc;

    if (view_reshape(&slices, 4, dim, out))
        return 0;
    rc = plan_buffer(l->plan, l->index, volume->t.dtype, 4, dim, KERN_NHWC,
                     l->err, out);
    if (rc < 0)
        return rc;
    to = view_split(out, 0, d[0]);
    return plan_copy_to(l->plan, l->index, &slices, &to, l->err);
}

/* ---- the window's slices as channels ------------------------------- */

/* One zero of the type: the border of an element that is cut off. */
static int make_zero(const struct lower *l, const struct view *x,
                     struct view *out)
{
    struct view one = *x;
    struct plan_emit e;

    for (int i = 0; i < one.t.rank; i++)
        one = view_slice(&one, i, 0, 1, 1);
    plan_single(KERN_PAD, PLAN_IMAGE, &one, one.t.dtype, one.t.rank, one.t.dim,
                &e);
    e.p.attr.pad.begin[0] = 1;
    e.p.attr.pad.end[0] = -1;
    return plan_emit(l->plan, l->index, &e, l->err, out);
}

/* Zeros in so many slices of `to` from `first`. */
static int fill(const struct lower *l, const struct view *zero,
                const struct view *to, int64_t first, int64_t count)
{
    const struct view part = view_slice(to, 1, first, 1, count);
    const struct view zeros = view_expand(zero, part.t.dim);

    return count > 0 ? plan_copy_to(l->plan, l->index, &zeros, &part, l->err)
                     : 0;
}

/* What tap t of the window sees, in the slices `to` of the outputs. */
static int lay_tap(const struct lower *l, const struct kern_conv *c, int64_t t,
                   const struct view *slices, const struct view *zero,
                   const struct view *to)
{
    const int64_t depth = slices->t.dim[1], outputs = to->t.dim[1];
    const int64_t stride = c->stride[0];
    /* Output i sees slice stride i + at. */
    const int64_t at = t * c->dilation[0] - c->pad_begin[0];
    int64_t first = at < 0 ? (-at + stride - 1) / stride : 0;
    int64_t end = depth - at > 0 ? (depth - at + stride - 1) / stride : 0;
    struct view from, part;
    int rc;

    end = end < outputs ? end : outputs;
    first = first < end ? first : end;
    rc = fill(l, zero, to, 0, first);
    if (rc == 0)
        rc = fill(l, zero, to, end, outputs - end);
    if (rc < 0 || first == end)
        return rc;
    from = view_slice(slices, 1, stride * first + at, stride, end - first);
    part = view_slice(to, 1, first, 1, end - first);
    return plan_copy_to(l->plan, l->index, &from, &part, l->err);
}

static int lay_taps(const struct lower *l, const struct plan_emit *e,
                    int64_t taps, struct view *out)
{
    const struct view slices = slices_of(&e->in[X]);
    const int64_t *d = slices.t.dim, outputs = e->p.out[0].dim[DEPTH];
    const int64_t dim[4] = {d[0] * outputs, taps * d[2], d[3], d[4]};
    struct view all, zero;
    int rc = make_zero(l, &slices, &zero);

    if (rc == 0)
        rc = plan_buffer(l->plan, l->index, e->in[X].t.dtype, 4, dim, KERN_NHWC,
                         l->err, out);
    if (rc < 0)
        return rc;
    all = view_split(out, 0, d[0]);
    for (int64_t t = 0; rc == 0 && t < taps; t++) {
        const struct view to = view_slice(&all, 2, t * d[2], 1, d[2]);

        rc = lay_tap(l, &e->p.attr.conv, t, &slices, &zero, &to);
    }
    return rc;
}

/* The images that the convolution of two dimensions reads. */
static int lay_input(const struct lower *l, const struct plan_emit *e,
                     int64_t taps, struct view *out)
{
    const struct kern_conv *c = &e->p.attr.conv;
    struct view seen;

    if (taps > 1 || c->pad_begin[0] != 0 || c->pad_end[0] != 0)
        return lay_taps(l, e, taps, out);
    seen =
        view_slice(&e->in[X], DEPTH, 0, c->stride[0], e->p.out[0].dim[DEPTH]);
    return as_images(l, &seen, out);
}

/* ---- weights ------------------------------------------------------- */

/* K,T C,R,S of K,C,T,R,S. */
static int64_t turned(int64_t i, const int64_t *dim)
{
    const int64_t channels = dim[1], taps = dim[DEPTH];
    const int64_t window = dim[3] * dim[4];
    const int64_t at = i % window, c = i / window % channels,
                  t = i / window / channels % taps,
                  k = i / window / channels / taps;

    return ((k * channels + c) * taps + t) * window + at;
}

static int turn_weights(const struct lower *l, int value)
{
    const struct graph_value *w = &l->plan->g->value[value];
    const int64_t dim[4] = {w->dim[0], w->dim[DEPTH] * w->dim[1], w->dim[3],
                            w->dim[4]};

    return lower_turn_weights(l, value, 4, dim, turned);
}

/* ---- the convolution ----------------------------------------------- */

static void shift_window(struct kern_conv *c)
{
    for (int i = 0; i < 2; i++) {
        c->stride[i] = c->stride[i + 1];
        c->dilation[i] = c->dilation[i + 1];
        c->pad_begin[i] = c->pad_begin[i + 1];
        c->pad_end[i] = c->pad_end[i + 1];
    }
    c->stride[2] = c->dilation[2] = 1;
    c->pad_begin[2] = c->pad_end[2] = 0;
}

int lower_volume(const struct lower *l, struct plan_emit *e)
{
    static const int64_t order[VOLUME_RANK] = {0, 2, 1, 3, 4};
    const int64_t *y = lower_out(l, 0)->dim;
    const int64_t batch = e->p.out[0].dim[0], taps = e->in[W].t.dim[DEPTH];
    const int64_t dim[4] = {batch * y[DEPTH], y[1], y[3], y[4]};
    const int w = l->node->in[W];
    struct view x, out;
    int rc = lay_input(l, e, taps, &x);

    if (rc == 0 && taps > 1)
        rc = turn_weights(l, w);
    if (rc < 0)
        return rc;
    e->in[X] = x;
    e->in[W] = taps > 1 ? l->plan->value[w].view : view_drop(&e->in[W], DEPTH);
    if (e->residual >= 0) {
        const struct view residual = e->in[e->residual];

        rc = as_images(l, &residual, &e->in[e->residual]);
    }
    shift_window(&e->p.attr.conv);
    e->p.out[0].rank = 4;
    memcpy(e->p.out[0].dim, dim, sizeof dim);
    e->value = -1;
    if (rc == 0)
        rc = plan_emit(l->plan, l->index, e, l->err, &out);
    if (rc < 0)
        return rc;
    out = view_split(&out, 0, batch);
    out = view_permute(&out, order);
    return lower_set(l, 0, &out);
}
