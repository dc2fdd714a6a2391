/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inner loops of convolution with any window, on channels-last tensors, for the
 * row conv_fprop_nhwc_f32_cpu_window.
 *
 * The sums of an output pixel are products of U with what the pixel's window
 * holds, which lies in segments: each is contiguous, and the same segment of
 * the next pixel lies x_step floats on.  Every sum adds its products one by
 * one, in the order of U's rows, whatever else is computed beside it: its bits
 * depend on the window alone.
 */
#ifndef KERNELS_CPU_CONV_WINDOW_H
#define KERNELS_CPU_CONV_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

struct vector_epilogue;

/* `length` rows of U from `at` floats behind the start of a pixel's window: one
 * float a row, or one vector a row where channels are spread. */
struct window_segment {
    int64_t at, length;
};

/* Pixels of one output row, one panel of outputs, a part of the segments. */
struct window_run {
    const float *x;
    int64_t x_step;
    const float *u; /* the part's first row */
    const struct window_segment *segment;
    int segments;
    /* Bytes of U that are fetched into the L2 cache meanwhile: `share` of them
     * from `next` on. */
    const char *next;
    int64_t share;
    /* Sums, a panel a pixel: those of the parts before, unless `first`; `last`
     * applies the epilogue and stores them to y. */
    float *sums;
    bool first, last;
    float *y;
    const float *residual; /* or NULL */
    int64_t y_step, r_step;
    int64_t k, n; /* the first output, for the bias; outputs from it on */
    const struct vector_epilogue *epilogue;
};

/* Pixels whose channels are spread over vectors: vector c holds in lane i
 * channel lane[c][i]. */
struct window_spread {
    const float *x;
    int64_t x_step, pixels;
    int64_t channels; /* that are there, at most one vector */
    int vectors;
    const int32_t *lane; /* vectors x lanes; NULL: one vector, in order */
    float *to;
};

#endif
