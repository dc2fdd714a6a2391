/* SPDX-License-Identifier: Apache-2.0 */
/* Window operations of 1 to 3 dimensions, brought to 3: depth, height, width;
 * those that a problem lacks have extent 1. */
#ifndef KERNELS_CUDA_WINDOW_CUH
#define KERNELS_CUDA_WINDOW_CUH

#include "kernels/cuda/cuda_rt.h"
#include "kernels/cuda/types.cuh"
#include "kernels/cuda/strided.cuh"

struct cuda_window {
    int in[3], out[3], kernel[3];
    int step[3], dilation[3], pad[3], pad_end[3];
    int64_t x_stride[5], y_stride[5], r_stride[5]; /* n, c, d, h, w */
    int64_t w_stride[5];                           /* k, c, d, h, w */
    /* Splits an output's number: channels are innermost where they are so in
     * memory, else next to the batch. */
    bool channels_last;
    struct fast_div channels, extent[3];

    void fill(const struct kern_problem *p, const int *stride, const int *dil,
              const int *begin, const int *end)
    {
        const struct kern_tensor *x = &p->in[0], *y = &p->out[0];
        const int spatial = x->rank - 2;

        for (int d = 0; d < 3; d++) {
            in[d] = out[d] = kernel[d] = step[d] = dilation[d] = 1;
            pad[d] = pad_end[d] = 0;
        }
        spread(x, x_stride);
        spread(y, y_stride);
        for (int i = 0; i < spatial; i++) {
            const int d = 3 - spatial + i;
            in[d] = (int)x->dim[i + 2];
            out[d] = (int)y->dim[i + 2];
            step[d] = stride[i];
            dilation[d] = dil[i];
            pad[d] = begin[i];
            pad_end[d] = end[i];
        }
    }
    void fill_pool(const struct kern_problem *p)
    {
        const struct kern_pool *a = &p->attr.pool;

        fill(p, a->stride, a->dilation, a->pad_begin, a->pad_end);
        for (int i = 0; i < p->in[0].rank - 2; i++)
            kernel[5 - p->in[0].rank + i] = a->window[i];
    }
    /* Strides of a tensor by n, c, d, h, w. */
    static void spread(const struct kern_tensor *t, int64_t *stride)
    {
        for (int i = 0; i < 5; i++)
            stride[i] = 0;
        stride[0] = t->stride[0];
        stride[1] = t->stride[1];
        for (int i = 2; i < t->rank; i++)
            stride[5 - t->rank + i] = t->stride[i];
    }
    /* units: channels, or vectors of them. */
    void split_by(int units)
    {
        split_extent(units, out, y_stride);
    }
    /* The same for a tensor of extent size[3]. */
    void split_extent(int units, const int *size, const int64_t *stride)
    {
        const int64_t c = stride[1], w = stride[4];

        channels.init((uint32_t)units);
        for (int d = 0; d < 3; d++)
            extent[d].init((uint32_t)size[d]);
        channels_last = units > 1 && (c < 0 ? -c : c) <= (w < 0 ? -w : w);
        channels_last = channels_last || size[2] == 1;
    }
    /* o: n, c, d, h, w. */
    __device__ __forceinline__ void index(uint32_t i, uint32_t *o) const
    {
        if (channels_last)
            i = channels.divmod(i, &o[1]);
        i = extent[2].divmod(i, &o[4]);
        i = extent[1].divmod(i, &o[3]);
        i = extent[0].divmod(i, &o[2]);
        if (!channels_last)
            i = channels.divmod(i, &o[1]);
        o[0] = i;
    }
};

/* supports() of pools, whose kernels compute positions in 32 bits. */
template <bool DGRAD>
static int pool_supports(const struct kern_problem *p,
                         const struct kern_device *d, struct infer_error *why)
{
    const struct kern_tensor *image = DGRAD ? &p->out[0] : &p->in[0];
    const struct kern_tensor *pooled = DGRAD ? &p->in[0] : &p->out[0];
    const struct kern_pool *a = &p->attr.pool;
    double taps = 1;
    int r = check_types(p, 1, 0, why);

    (void)d;
    if (r == 0)
        r = check_count(p, why);
    for (int i = 0; r == 0 && i < image->rank - 2; i++) {
        const double reach = (double)image->dim[i + 2] + a->pad_begin[i] +
                             a->pad_end[i] +
                             (double)a->window[i] * a->dilation[i] +
                             (double)pooled->dim[i + 2] * a->stride[i];
        taps *= a->window[i];
        if (reach > 1e9 || taps > 1e9)
            r = error_set(why, INFER_EUNSUPPORTED,
                          "pool: the window reaches beyond 10^9 positions");
    }
    return r;
}

/* True if v channels of every position can be moved as one; true for a tensor
 * that is absent (NULL). */
static inline bool pool_in_vectors(const struct kern_tensor *t, const void *at,
                                   int v)
{
    if (!t)
        return true;
    if (t->dim[1] % v != 0 || t->stride[1] != 1 || (uintptr_t)at % 16 != 0)
        return false;
    for (int d = 0; d < t->rank; d++)
        if (d != 1 && t->dim[d] > 1 && t->stride[d] % v != 0)
            return false;
    return true;
}

/* Smallest tap r >= 0 with base + r * dilation >= bound. */
static __device__ __forceinline__ int window_first_tap(int base, int dilation,
                                                       int bound)
{
    return base >= bound ? 0 : (bound - base + dilation - 1) / dilation;
}

#endif
