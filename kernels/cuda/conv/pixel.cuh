/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of the elements of an implicit GEMM's operand A: output pixels and
 * filter positions, on the device. */
#ifndef KERNELS_CUDA_CONV_PIXEL_CUH
#define KERNELS_CUDA_CONV_PIXEL_CUH

extern "C" {
#include "kernels/cuda/conv/conv.h"
}

/* A position in the depth. */
struct conv_depth {
    int r, s, c;
};

static __device__ __forceinline__ struct conv_depth
conv_depth_at(const struct conv_geometry &g, int d)
{
    const int rs = d / g.cg;

    return {rs / g.s, rs % g.s, d % g.cg};
}

static __device__ __forceinline__ void
conv_depth_advance(const struct conv_geometry &g, struct conv_depth *d, int by)
{
    d->c += by;
    while (d->c >= g.cg) {
        d->c -= g.cg;
        if (++d->s == g.s) {
            d->s = 0;
            d->r++;
        }
    }
}

/* The top left pixel of the window of output m: its row and column, which may
 * lie outside, and its offset in x.  Beyond the last output the row is so far
 * outside that no window reaches the image. */
struct conv_pixel {
    int offset, h, w;
};

static __device__ __forceinline__ struct conv_pixel
conv_pixel_at(const struct conv_geometry &g, int m, int group)
{
    struct conv_pixel p = {0, -(1 << 30), 0};

    if (m < g.m) {
        const int n = m / (g.p * g.q), pq = m % (g.p * g.q);
        p.h = pq / g.q * g.stride_h - g.pad_top;
        p.w = pq % g.q * g.stride_w - g.pad_left;
        p.offset = ((n * g.h + p.h) * g.w + p.w) * g.x_pitch + group * g.cg;
    }
    return p;
}

/* True if filter position d of the window at p lies in the image and in the
 * window. */
static __device__ __forceinline__ bool
conv_inside(const struct conv_geometry &g, int h, int w,
            const struct conv_depth &d)
{
    return (unsigned)(h + d.r * g.dilation_h) < (unsigned)g.h &&
           (unsigned)(w + d.s * g.dilation_w) < (unsigned)g.w && d.r < g.r;
}

static __device__ __forceinline__ int
conv_tap_offset(const struct conv_geometry &g, const struct conv_depth &d)
{
    return (d.r * g.dilation_h * g.w + d.s * g.dilation_w) * g.x_pitch + d.c;
}

#endif
