/* SPDX-License-Identifier: Apache-2.0 */
/* A spatial dimension of a convolution of one or two, as the rows of this
 * folder see it: of 1-D problems the first has the size 1. */
#ifndef KERNELS_CPU_CONV_AXIS_H
#define KERNELS_CPU_CONV_AXIS_H

#include <stdbool.h>

#include "kernels/problem.h"

struct axis {
    int64_t in, out, window, stride, dilation, pad;
    int64_t x_step, y_step, r_step; /* of input, output, residual */
};

/* Fills spatial dimension d (0 or 1) of conv_fprop problem p. */
static inline void axis_fill(const struct kern_problem *p, int d,
                             struct axis *a)
{
    enum { X, W, BIAS, RESIDUAL }; /* in[] of a convolution */
    const struct kern_conv *conv = &p->attr.conv;
    const int i = p->in[X].rank - 2 + d; /* tensor dimension */
    const int s = p->in[X].rank - 4 + d; /* spatial dimension */
    const struct kern_tensor *r = kern_problem_in(p, RESIDUAL);

    *a = (struct axis){1, 1, 1, 1, 1, 0, 0, 0, 0};
    if (s < 0)
        return;
    *a = (struct axis){.in = p->in[X].dim[i],
                       .out = p->out[0].dim[i],
                       .window = p->in[W].dim[i],
                       .stride = conv->stride[s],
                       .dilation = conv->dilation[s],
                       .pad = conv->pad_begin[s],
                       .x_step = p->in[X].stride[i],
                       .y_step = p->out[0].stride[i],
                       .r_step = r ? r->stride[i] : 0};
}

/* Input positions that `out` outputs look at. */
static inline int64_t axis_extent(const struct axis *a, int64_t out)
{
    return (out - 1) * a->stride + (a->window - 1) * a->dilation + 1;
}

#endif
