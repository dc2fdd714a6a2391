/* SPDX-License-Identifier: Apache-2.0 */
/* What kernels share that reduce each channel of an image, channels last, to
 * one number: where the pixels lie, and a thread's walk over them. */
#ifndef KERNELS_CUDA_REDUCE_WHOLE_IMAGE_CUH
#define KERNELS_CUDA_REDUCE_WHOLE_IMAGE_CUH

#include "kernels/cuda/element.cuh"

/* Pixels that a thread fetches together. */
#define IMAGE_BATCH 8

/* NaN stays: nothing is above it. */
static __device__ __forceinline__ float image_join(bool max, float a, float b)
{
    if (!max)
        return a + b;
    return b > a || b != b ? b : a;
}

/* Joins every lanes-th of `left` pixels from x on, of one vector; x_pixel is
 * the distance of pixels in elements. */
template <typename T, int V>
static __device__ __forceinline__ void
image_join_pixels(bool max, const T *x, int64_t x_pixel, int left, int lanes,
                  float (&acc)[V])
{
    const int64_t step = lanes * x_pixel;

    for (; left > 0; left -= IMAGE_BATCH * lanes, x += IMAGE_BATCH * step) {
        vec<T, V> v[IMAGE_BATCH];
#pragma unroll
        for (int u = 0; u < IMAGE_BATCH; u++)
            if (u * lanes < left)
                v[u] = load_vec<T, V>(x + u * step);
#pragma unroll
        for (int u = 0; u < IMAGE_BATCH; u++)
            if (u * lanes < left)
#pragma unroll
                for (int j = 0; j < V; j++)
                    acc[j] = image_join(max, acc[j], to_float(v[u].at[j]));
    }
}

/* The distance of neighbouring pixels in elements; 0 or less if they overlap or
 * are not evenly spaced. */
static inline int64_t image_pixel_step(const struct kern_tensor *x)
{
    int64_t step = 0, pixels = 1;

    for (int i = x->rank - 1; i >= 2; i--) {
        if (x->dim[i] == 1)
            continue;
        if (step == 0)
            step = x->stride[i];
        if (x->stride[i] != step * pixels)
            return 0;
        pixels *= x->dim[i];
    }
    return pixels == 1 ? x->dim[1] : step;
}

/* Sizes and strides of images, channels last, and of one result a channel. */
struct image_shape {
    int n, c, pixels;
    int64_t x_image, x_pixel, y_image; /* strides */
};

static inline struct image_shape image_shape_of(const struct kern_problem *p)
{
    const struct kern_tensor *x = &p->in[0];
    int64_t pixels = 1;

    for (int i = 2; i < x->rank; i++)
        pixels *= x->dim[i];
    return {(int)x->dim[0], (int)x->dim[1],      (int)pixels,
            x->stride[0],   image_pixel_step(x), p->out[0].stride[0]};
}

/* Channels of 16 bytes where everything is aligned to them, else 1. */
static inline int image_vector(const struct kern_tensor *x)
{
    const int v = 16 / (int)infer_dtype_size(x->dtype);
    const bool wide = x->dim[1] % v == 0 && image_pixel_step(x) % v == 0 &&
                      (x->dim[0] == 1 || x->stride[0] % v == 0);

    return wide ? v : 1;
}

#endif
