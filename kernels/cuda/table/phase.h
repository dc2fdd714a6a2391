/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions, their transposes and dense layers as convolutions of two
 * spatial dimensions.
 *
 * A transposed convolution is one convolution of stride 1 for each remainder of
 * the output's pixels by the strides (a phase), with every stride-th filter
 * position, from the last one back.  Along an axis, for remainder a, the first
 * is (a + pad) mod stride: see conv/conv2d_dgrad_nhwc_cuda_phases.cu.
 */
#ifndef KERNELS_CUDA_TABLE_PHASE_H
#define KERNELS_CUDA_TABLE_PHASE_H

#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif
#include "kernels/base/error.h"
#include "kernels/cuda/conv/conv.h"
#include "kernels/problem.h"
#ifdef __cplusplus
}
#endif

#define TABLE_MAX_PHASES 4

struct table_phase {
    /* n, h, w; p, q, k of all groups; r, s (0: there are no products), strides,
     * dilation and leading pads. */
    struct conv_geometry g;
    /* Filter position of (i, j) of the window, rows of S. */
    int tap, tap_h, tap_w;
    int first[2], step[2]; /* of its outputs' rows and columns in y */
};

/* The strides of an image's batch, rows, columns and channels.  The leading
 * dimensions of a dense layer take the place of the first three; a vector has
 * none. */
static inline void table_read_strides(const struct kern_problem *p,
                                      const struct kern_tensor *t,
                                      int64_t *stride, int64_t *dim)
{
    const bool dense = p->op == KERN_DENSE_FPROP;
    const int spatial = t->rank - 2;

    for (int i = 0; i < 3; i++) {
        stride[i] = 0;
        dim[i] = 1;
    }
    if (spatial >= 0) {
        stride[0] = t->stride[0];
        dim[0] = t->dim[0];
    }
    stride[3] = t->stride[dense ? t->rank - 1 : 1];
    for (int i = 0; i < spatial; i++) {
        const int from = dense ? i + 1 : i + 2;
        stride[3 - spatial + i] = t->stride[from];
        dim[3 - spatial + i] = t->dim[from];
    }
}

/* The filter positions that meet the outputs of a remainder, along one axis. */
struct table_taps {
    int first, count, pad, extent;
};

static inline struct table_taps table_taps_of(int remainder, int stride,
                                              int dilation, int pad, int window,
                                              int extent)
{
    const int at = remainder + pad;
    struct table_taps t = {0, window, dilation * (window - 1) - pad, extent};

    if (stride == 1)
        return t;
    t.first = at % stride;
    t.count = t.first < window ? (window - t.first + stride - 1) / stride : 0;
    t.pad = t.count - 1 - (at - t.first) / stride;
    t.extent = (extent - remainder + stride - 1) / stride;
    return t;
}

/* The attributes of both axes; those of a missing one are neutral. */
struct table_axes {
    int stride[2], dilation[2], pad[2];
};

static inline struct table_axes table_axes_of(const struct kern_problem *p)
{
    const struct kern_conv *c = &p->attr.conv;
    const int spatial = p->op == KERN_DENSE_FPROP ? 0 : p->in[0].rank - 2;
    struct table_axes a = {{1, 1}, {1, 1}, {0, 0}};

    for (int i = 0; i < spatial; i++) {
        const int to = 2 - spatial + i;
        a.stride[to] = c->stride[i];
        a.dilation[to] = c->dilation[i];
        a.pad[to] = c->pad_begin[i];
    }
    return a;
}

/* Fills in the phases, but for what channels take, and returns their number.
 * The problem is one that table_check_attributes() accepts. */
static inline int table_read_phases(const struct kern_problem *p,
                                    struct table_phase *phase)
{
    const bool transposed = p->op == KERN_CONV_TRANSPOSE_FPROP;
    const struct kern_tensor *w = &p->in[1];
    const int window[2] = {w->rank > 3 ? (int)w->dim[2] : 1,
                           w->rank > 2 ? (int)w->dim[w->rank - 1] : 1};
    const struct table_axes a = table_axes_of(p);
    const int phases = transposed ? a.stride[0] * a.stride[1] : 1;
    /* Weights of a transposed convolution have the outputs of one group. */
    const int groups = transposed ? p->attr.conv.groups : 1;
    int64_t stride[4], in[3], out[3];

    table_read_strides(p, &p->in[0], stride, in);
    table_read_strides(p, &p->out[0], stride, out);
    for (int i = 0; i < phases; i++) {
        struct table_phase *f = &phase[i];
        struct conv_geometry *g = &f->g;

        memset(f, 0, sizeof *f);
        g->n = (int)in[0];
        g->h = (int)in[1];
        g->w = (int)in[2];
        g->k = g->kg = (int)w->dim[transposed ? 1 : 0] * groups;
        g->groups = 1;
        g->p = (int)out[1];
        g->q = (int)out[2];
        g->r = window[0];
        g->s = window[1];
        g->stride_h = a.stride[0];
        g->stride_w = a.stride[1];
        g->dilation_h = a.dilation[0];
        g->dilation_w = a.dilation[1];
        g->pad_top = a.pad[0];
        g->pad_left = a.pad[1];
        f->tap_h = g->s;
        f->tap_w = 1;
        f->step[0] = f->step[1] = 1;
        if (transposed) {
            const int rest[2] = {i / a.stride[1], i % a.stride[1]};
            const struct table_taps h =
                table_taps_of(rest[0], a.stride[0], a.dilation[0], a.pad[0],
                              window[0], (int)out[1]);
            const struct table_taps v =
                table_taps_of(rest[1], a.stride[1], a.dilation[1], a.pad[1],
                              window[1], (int)out[2]);
            g->p = h.extent;
            g->q = v.extent;
            g->r = h.count;
            g->s = v.count;
            g->stride_h = g->stride_w = 1;
            g->pad_top = h.pad;
            g->pad_left = v.pad;
            /* From the last position back. */
            f->tap = (h.first + a.stride[0] * (h.count - 1)) * window[1] +
                     v.first + a.stride[1] * (v.count - 1);
            f->tap_h = -a.stride[0] * window[1];
            f->tap_w = -a.stride[1];
            for (int d = 0; d < 2; d++) {
                f->first[d] = rest[d];
                f->step[d] = a.stride[d];
            }
            if (g->r == 0 || g->s == 0)
                g->r = g->s = f->tap = 0;
        }
        g->m = g->n * g->p * g->q;
    }
    return phases;
}

/* What fits into 16 bits, so that products of two do not overflow. */
static inline int table_check_attributes(const struct kern_problem *p,
                                         struct infer_error *why)
{
    const struct kern_conv *c = &p->attr.conv;
    const bool transposed = p->op == KERN_CONV_TRANSPOSE_FPROP;
    int phases = 1;

    if (p->op == KERN_DENSE_FPROP)
        return p->in[0].rank <= 4
                   ? 0
                   : error_set(why, INFER_EUNSUPPORTED,
                               "takes 4 dimensions at most, found %d",
                               p->in[0].rank);
    if (p->in[0].rank > 4)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes 1 or 2 spatial dimensions");
    for (int i = 0; i < p->in[0].rank - 2; i++) {
        if (c->stride[i] > 255 || c->dilation[i] > 255 ||
            abs(c->pad_begin[i]) > 255 || p->in[1].dim[i + 2] > 255 ||
            p->in[1].dim[i + 2] < 1)
            return error_set(why, INFER_EUNSUPPORTED,
                             "window, strides or pads are too large");
        phases *= c->stride[i];
        if (transposed && c->stride[i] > 1 && c->dilation[i] > 1)
            return error_set(why, INFER_EUNSUPPORTED,
                             "takes no strides and dilation at once");
        if (transposed && p->out[0].dim[i + 2] < c->stride[i])
            return error_set(why, INFER_EUNSUPPORTED,
                             "the output is smaller than the stride");
    }
    if (transposed && phases > TABLE_MAX_PHASES)
        return error_set(why, INFER_EUNSUPPORTED, "takes strides up to %d",
                         TABLE_MAX_PHASES / 2);
    return 0;
}

#endif
