/* SPDX-License-Identifier: Apache-2.0 */
/* The spatial dimensions of pooling, of 1 to 3 dimensions. */
#ifndef KERNELS_CPU_REDUCE_POOL_AXIS_H
#define KERNELS_CPU_REDUCE_POOL_AXIS_H

#include "kernels/cpu/cpu.h"

/* One dimension; x and y are those of the forward pass. */
struct pool_axis {
    int64_t in, out, window, stride, dilation, begin, end;
    int64_t x_stride, y_stride;
};

/* Fills D,H,W, of size 1 where absent; attr NULL: a window of one element. */
static inline void pool_axes(struct pool_axis axis[KERN_MAX_SPATIAL],
                             const struct kern_tensor *x,
                             const struct kern_tensor *y,
                             const struct kern_pool *attr)
{
    const int absent = KERN_MAX_SPATIAL - (x->rank - 2);

    for (int i = 0; i < KERN_MAX_SPATIAL; i++) {
        struct pool_axis *a = &axis[i];
        const int d = i - absent;

        *a = (struct pool_axis){1, 1, 1, 1, 1, 0, 0, 0, 0};
        if (d < 0)
            continue;
        a->in = x->dim[2 + d];
        a->out = y->dim[2 + d];
        a->x_stride = x->stride[2 + d];
        a->y_stride = y->stride[2 + d];
        if (!attr)
            continue;
        a->window = attr->window[d];
        a->stride = attr->stride[d];
        a->dilation = attr->dilation[d];
        a->begin = attr->pad_begin[d];
        a->end = attr->pad_end[d];
    }
}

/* The taps [*from, *to) of output o inside the input, and how many lie inside
 * the padded input: the overhang of ceil mode does not. */
CPU_INLINE void pool_taps(const struct pool_axis *a, int64_t o, int64_t *from,
                          int64_t *to, int64_t *counted)
{
    const int64_t origin = o * a->stride - a->begin;
    const int64_t room = a->in - origin, padded = room + a->end;
    int64_t last = room <= 0 ? 0 : (room - 1) / a->dilation + 1;

    *from = origin < 0 ? (-origin + a->dilation - 1) / a->dilation : 0;
    last = last < a->window ? last : a->window;
    *to = last < *from ? *from : last;
    *counted = padded <= 0 ? 0 : (padded - 1) / a->dilation + 1;
    *counted = *counted < a->window ? *counted : a->window;
}

#endif
