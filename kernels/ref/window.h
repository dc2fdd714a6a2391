/* SPDX-License-Identifier: Apache-2.0 */
/* Window operations of 1 to 3 dimensions, brought to 3. */
#ifndef KERNELS_REF_WINDOW_H
#define KERNELS_REF_WINDOW_H

#include "kernels/ref/ref.h"

/* Depth, height, width; those that the problem lacks have extent 1.  Strides
 * of tensors are in elements; `step` is the stride of the window. */
struct ref_window {
    int64_t in[3], out[3], kernel[3];
    int64_t step[3], dilation[3], pad[3], pad_end[3];
    int64_t x_stride[3], w_stride[3], y_stride[3], r_stride[3];
};

/* Conv and transposed conv; in and out are those of x and y. */
void ref_window_conv(struct ref_window *w, const struct kern_problem *p);
void ref_window_pool(struct ref_window *w, const struct kern_problem *p);

/* The position along dimension d that tap r of output o falls on: inside the
 * input, else inside the padding, else in the overhang of ceil mode; negative
 * pads crop the input. */
static inline int64_t ref_window_tap(const struct ref_window *w, int d,
                                     int64_t o, int64_t r)
{
    return o * w->step[d] + r * w->dilation[d] - w->pad[d];
}

static inline bool ref_window_in_padding(const struct ref_window *w, int d,
                                         int64_t i)
{
    return i >= -w->pad[d] && i < w->in[d] + w->pad_end[d];
}

static inline bool ref_window_in_input(const struct ref_window *w, int d,
                                       int64_t i)
{
    return i >= 0 && i < w->in[d];
}

/* Outputs lo .. hi-1 of n along dimension d whose tap r lies inside [0, m):
 * 0 <= i * step + r * dilation - pad < m. */
void ref_window_range(const struct ref_window *w, int d, int64_t r, int64_t m,
                      int64_t n, int64_t *lo, int64_t *hi);

#endif
