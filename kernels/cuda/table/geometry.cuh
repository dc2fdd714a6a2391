/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A convolution, a gradient or a dense layer as sums over terms of an element
 * of in[0] (x) times one of in[1] (w):
 *
 *                 columns            terms              scalars
 *     fprop       pixels of y        taps x channels    channels of y
 *     transposed  pixels of y        taps x channels    channels of y
 *     wgrad       taps x channels    pixels of dy       channels of dy
 *     dense       rows of x          columns of x       columns of y
 *
 * Pixels and taps are brought to 3 dimensions.  Channels are the innermost part
 * of a tap.  Pixels of a transposed convolution are sorted by their remainders
 * by the strides, since those of one remainder meet the same taps: a tile then
 * finds nothing but zeros at the others, and skips them.  So pixels are counted
 * in whole strides, and some lie outside y.
 */
#ifndef KERNELS_CUDA_TABLE_GEOMETRY_CUH
#define KERNELS_CUDA_TABLE_GEOMETRY_CUH

#include "kernels/cuda/strided.cuh"

/* A position that is outside x wherever it is added, or taken off. */
#define TABLE_OUTSIDE (1 << 30)

/* A pixel or a tap.  An element of x is that of one pixel and one tap, at the
 * sum of their bases; d, h, w add up to its position.  In a transposed
 * convolution the tap's position is subtracted instead and the rest divided by
 * the strides. */
struct table_place {
    uint32_t base;
    int d, h, w;
};

struct table_geometry {
    bool transposed, wgrad;
    int groups, channels, scalars; /* channels of x and scalars, of a group */
    int pixels, taps;              /* taps: with channels */
    int in[3], out[3];             /* extents of x and of y or dy */
    int step[3], dilation[3], pad[3];
    struct fast_div by_channels, by_kernel[3], by_step[3];
    struct fast_div by_extent[3]; /* of pixels, in strides if transposed */
    struct fast_div by_batch;
    int x_stride[5], p_stride[5], w_stride[5], r_stride[5];

    __host__ __device__ __forceinline__ int columns() const
    {
        return wgrad ? taps : pixels;
    }
    __host__ __device__ __forceinline__ int terms() const
    {
        return wgrad ? pixels : taps;
    }
    /* Index of channels of taps in w_stride, and of scalars there. */
    __host__ __device__ __forceinline__ int tap_channel() const
    {
        return transposed ? 0 : 1;
    }
    __host__ __device__ __forceinline__ int w_scalar_stride() const
    {
        return wgrad ? p_stride[1] : w_stride[transposed ? 1 : 0];
    }
    __host__ __device__ __forceinline__ int y_scalar_stride() const
    {
        return wgrad ? w_stride[0] : p_stride[1];
    }
    __host__ __device__ __forceinline__ int r_scalar_stride() const
    {
        return wgrad ? r_stride[0] : r_stride[1];
    }

    /* Indices n, d, h, w of pixel i; false if it is outside y. */
    __device__ __forceinline__ bool pixel(uint32_t i, int *at) const
    {
        uint32_t v[4], phase[3] = {};

        i = by_extent[2].divmod(i, &v[3]);
        i = by_extent[1].divmod(i, &v[2]);
        i = by_extent[0].divmod(i, &v[1]);
        if (transposed) {
            i = by_batch.divmod(i, &v[0]);
            i = by_step[2].divmod(i, &phase[2]);
            i = by_step[1].divmod(i, &phase[1]);
            phase[0] = i;
        } else {
            v[0] = i;
        }
        at[0] = (int)v[0];
        for (int d = 0; d < 3; d++)
            at[d + 1] = transposed ? (int)(v[d + 1] * step[d] + phase[d])
                                   : (int)v[d + 1];
        return at[1] < out[0] && at[2] < out[1] && at[3] < out[2];
    }
    /* Indices c, d, h, w of tap i. */
    __device__ __forceinline__ void tap(uint32_t i, int *at) const
    {
        uint32_t v[4];

        i = by_channels.divmod(i, &v[0]);
        i = by_kernel[2].divmod(i, &v[3]);
        i = by_kernel[1].divmod(i, &v[2]);
        v[1] = i;
        for (int d = 0; d < 4; d++)
            at[d] = (int)v[d];
    }

    __device__ __forceinline__ struct table_place
    pixel_place(uint32_t i, bool valid, int *at) const
    {
        if (!valid || !pixel(i, at))
            return {0, -TABLE_OUTSIDE, 0, 0};
        struct table_place v = {(uint32_t)at[0] * x_stride[0], at[1], at[2],
                                at[3]};
        if (transposed) {
            v.d += pad[0];
            v.h += pad[1];
            v.w += pad[2];
            return v;
        }
        v.d = v.d * step[0] - pad[0];
        v.h = v.h * step[1] - pad[1];
        v.w = v.w * step[2] - pad[2];
        v.base += (uint32_t)v.d * x_stride[2] + (uint32_t)v.h * x_stride[3] +
                  (uint32_t)v.w * x_stride[4];
        return v;
    }
    __device__ __forceinline__ struct table_place
    tap_place(uint32_t i, bool valid, int group, int *at) const
    {
        if (!valid)
            return {0, transposed ? TABLE_OUTSIDE : -TABLE_OUTSIDE, 0, 0};
        tap(i, at);
        struct table_place v = {
            (uint32_t)(group * channels + at[0]) * x_stride[1],
            at[1] * dilation[0], at[2] * dilation[1], at[3] * dilation[2]};
        if (!transposed)
            v.base += (uint32_t)v.d * x_stride[2] +
                      (uint32_t)v.h * x_stride[3] + (uint32_t)v.w * x_stride[4];
        return v;
    }
    /* Offsets by the four indices, without the scalar's. */
    __device__ __forceinline__ uint32_t pixel_offset(const int *stride,
                                                     const int *at) const
    {
        return (uint32_t)at[0] * stride[0] + (uint32_t)at[1] * stride[2] +
               (uint32_t)at[2] * stride[3] + (uint32_t)at[3] * stride[4];
    }
    __device__ __forceinline__ uint32_t tap_offset(const int *stride, int group,
                                                   const int *at) const
    {
        const int c = transposed ? group * channels + at[0] : at[0];

        return (uint32_t)c * stride[tap_channel()] +
               (uint32_t)at[1] * stride[2] + (uint32_t)at[2] * stride[3] +
               (uint32_t)at[3] * stride[4];
    }

    /* One axis of a transposed convolution: at becomes a position of x. */
    __device__ __forceinline__ bool undo_step(int d, int *at) const
    {
        uint32_t rest;

        if (*at < 0)
            return false;
        *at = (int)by_step[d].divmod((uint32_t)*at, &rest);
        return rest == 0 && *at < in[d];
    }
    /* True if a pixel and a tap meet inside x; *offset: where. */
    __device__ __forceinline__ bool meet(const struct table_place &p,
                                         const struct table_place &t,
                                         uint32_t *offset) const
    {
        *offset = p.base + t.base;
        if (!transposed) {
            return (unsigned)(p.d + t.d) < (unsigned)in[0] &&
                   (unsigned)(p.h + t.h) < (unsigned)in[1] &&
                   (unsigned)(p.w + t.w) < (unsigned)in[2];
        }
        int d = p.d - t.d, h = p.h - t.h, w = p.w - t.w;
        if (!undo_step(0, &d) || !undo_step(1, &h) || !undo_step(2, &w))
            return false;
        *offset += (uint32_t)d * x_stride[2] + (uint32_t)h * x_stride[3] +
                   (uint32_t)w * x_stride[4];
        return true;
    }
};

/* ---- on the host --------------------------------------------------- */

/* Strides of n, c, d, h, w; of a matrix of any leading dimensions, the columns
 * being c. */
static inline void table_strides(const struct kern_tensor *t, bool dense,
                                 int *stride)
{
    for (int i = 0; i < 5; i++)
        stride[i] = 0;
    if (dense) {
        stride[1] = (int)t->stride[t->rank - 1];
        for (int i = 0; i < t->rank - 1; i++) /* w is the innermost */
            stride[t->rank - 2 - i == 3 ? 0 : 4 - (t->rank - 2 - i)] =
                (int)t->stride[i];
        return;
    }
    stride[0] = (int)t->stride[0];
    stride[1] = (int)t->stride[1];
    for (int i = 2; i < t->rank; i++)
        stride[5 - t->rank + i] = (int)t->stride[i];
}

static inline int table_count(const struct kern_tensor *t, int from)
{
    int n = 1;

    for (int i = from; i < t->rank; i++)
        n *= (int)t->dim[i];
    return n;
}

static inline void table_fill_spatial(struct table_geometry *g,
                                      const struct kern_problem *p,
                                      const struct kern_tensor *pixel,
                                      const struct kern_tensor *w)
{
    const struct kern_conv *c = &p->attr.conv;

    for (int i = 2; i < pixel->rank; i++) {
        const int d = 3 - pixel->rank + i;
        g->in[d] = (int)p->in[0].dim[i];
        g->out[d] = (int)pixel->dim[i];
        g->step[d] = c->stride[i - 2];
        g->dilation[d] = c->dilation[i - 2];
        g->pad[d] = c->pad_begin[i - 2];
        g->by_kernel[d].init((uint32_t)w->dim[i]);
    }
}

static inline void table_fill(struct table_geometry *g,
                              const struct kern_problem *p)
{
    const bool dense = p->op == KERN_DENSE_FPROP;
    const struct kern_tensor *x = &p->in[0], *w = &p->in[1], *y = &p->out[0];
    const struct kern_tensor *r = kern_problem_in(p, kern_op_residual(p->op));

    g->transposed = p->op == KERN_CONV_TRANSPOSE_FPROP;
    g->wgrad = p->op == KERN_CONV_WGRAD;
    const struct kern_tensor *pixel = g->wgrad ? w : y;
    const struct kern_tensor *filter = g->wgrad ? y : w;
    for (int d = 0; d < 3; d++) {
        g->in[d] = g->out[d] = g->step[d] = g->dilation[d] = 1;
        g->pad[d] = 0;
        g->by_kernel[d].init(1);
    }
    g->groups = dense ? 1 : p->attr.conv.groups;
    g->channels = (int)x->dim[dense ? x->rank - 1 : 1] / g->groups;
    g->scalars = (int)pixel->dim[dense ? pixel->rank - 1 : 1] / g->groups;
    if (dense)
        for (int i = 0; i < y->rank - 1 && y->rank - 2 - i < 3; i++)
            g->in[2 - (y->rank - 2 - i)] = g->out[2 - (y->rank - 2 - i)] =
                (int)y->dim[i];
    else
        table_fill_spatial(g, p, pixel, filter);
    const int batch =
        dense ? y->rank == 5 ? (int)y->dim[0] : 1 : (int)x->dim[0];
    g->pixels = batch;
    for (int d = 0; d < 3; d++) {
        const int step = g->transposed ? g->step[d] : 1;
        const int whole = (g->out[d] + step - 1) / step;
        g->by_extent[d].init((uint32_t)whole);
        g->by_step[d].init((uint32_t)g->step[d]);
        g->pixels *= whole * step;
    }
    g->by_batch.init((uint32_t)batch);
    g->by_channels.init((uint32_t)g->channels);
    g->taps = dense ? g->channels : g->channels * table_count(filter, 2);
    table_strides(x, dense, g->x_stride);
    table_strides(pixel, dense, g->p_stride);
    table_strides(filter, false, g->w_stride);
    if (r)
        table_strides(r, dense, g->r_stride);
}

#endif
