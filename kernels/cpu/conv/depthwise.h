/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inner loop of depthwise convolution on channels-last tensors, for the row
 * conv_fprop_nhwc_f32_cpu_depthwise.
 *
 * A block is one vector of outputs.  Each sum adds its taps one by one, in the
 * order of the window; one in the padding adds nothing or 0 times its weight,
 * which is 0 where the weight is finite: the bits depend on the window alone.
 */
#ifndef KERNELS_CPU_CONV_DEPTHWISE_H
#define KERNELS_CPU_CONV_DEPTHWISE_H

#include <stdint.h>

struct vector_epilogue;

/* One output row of one block. */
struct depthwise_run {
    /* Input at the first tap of output 0, in the first row of taps that lies
     * inside; the tap itself may lie in the padding. */
    const float *x;
    int64_t step, tap, row; /* floats between outputs, taps, rows of taps */
    int64_t pixel;          /* floats between input positions */
    int64_t rows, window;   /* rows of taps inside; taps in a row */
    const float *u;         /* a vector a tap, from the first row inside */
    /* Outputs; those in [left, right) have all taps of a row inside. */
    int64_t pixels, left, right;
    /* Positions: output i has tap t at i * stride + t * dilation - pad, which
     * lies inside if in [0, in). */
    int64_t stride, dilation, pad, in;
    int64_t channels;    /* of the input in the block */
    const int32_t *lane; /* lane i reads channel lane[i]; NULL: channel i */
    float *y;
    const float *residual; /* or NULL */
    int64_t y_step, r_step;
    int64_t k, n; /* first output, for the bias; outputs in the block */
    const struct vector_epilogue *epilogue;
};

#endif
