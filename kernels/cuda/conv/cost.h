/* SPDX-License-Identifier: Apache-2.0 */
/* Costs that the estimates of several kernels use. */
#ifndef KERNELS_CUDA_CONV_COST_H
#define KERNELS_CUDA_CONV_COST_H

#ifdef __cplusplus
extern "C" {
#endif

#include "kernels/cuda/conv/conv.h"

/* Time of products and bytes that overlap: the longer, and `part` of the
 * shorter, which is not hidden. */
static inline double cost_overlapped(double products, double bytes, double part)
{
    return products > bytes ? products + part * bytes : bytes + part * products;
}

/* Bytes that a convolution reads and writes: a window smaller than its stride
 * skips pixels. */
static inline double cost_conv_bytes(const struct kern_problem *p,
                                     const struct conv_geometry *g)
{
    const double x =
        (double)infer_dtype_size(p->in[0].dtype) * g->n * g->c * g->h * g->w;
    const double rows = g->r < g->stride_h ? (double)g->r / g->stride_h : 1;
    const double columns = g->s < g->stride_w ? (double)g->s / g->stride_w : 1;

    return kern_problem_bytes(p) - x * (1 - rows * columns);
}

#ifdef __cplusplus
}
#endif

#endif
