/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of one argument for several values in registers, with the choice
 * made once. */
#ifndef KERNELS_CUDA_ACTIVATION_CUH
#define KERNELS_CUDA_ACTIVATION_CUH

#include "kernels/cuda/element.cuh"

/* The larger or smaller of two, NaN where x is. */
static __device__ __forceinline__ float max_nan(float x, float low)
{
#if __CUDA_ARCH__ >= 800
    asm("max.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(low));
    return x;
#else
    return x < low ? low : x;
#endif
}

static __device__ __forceinline__ float min_nan(float x, float high)
{
#if __CUDA_ARCH__ >= 800
    asm("min.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(high));
    return x;
#else
    return x > high ? high : x;
#endif
}

/* Kinds of one or two instructions a value: they bend a line. */
static inline __host__ __device__ bool unary_bends(enum kern_unary_kind kind)
{
    return kind <= KERN_CLIP;
}

/* Kinds that unary_in_place() computes: no calls, which would push the values
 * out of the registers. */
static inline __host__ __device__ bool
unary_is_in_place(enum kern_unary_kind kind)
{
    return unary_bends(kind) || kind == KERN_SIGMOID || kind == KERN_SILU ||
           kind == KERN_HARD_SIGMOID || kind == KERN_HARD_SWISH ||
           kind == KERN_GELU;
}

/* v = act(v) for N values, with the choice made once. */
template <int N>
static __device__ __forceinline__ void unary_bend(struct kern_unary f, float *v)
{
    if (f.kind == KERN_RELU) {
#pragma unroll
        for (int i = 0; i < N; i++)
            v[i] = max_nan(v[i], 0);
    } else if (f.kind == KERN_CLIP) {
#pragma unroll
        for (int i = 0; i < N; i++)
            v[i] = min_nan(max_nan(v[i], f.a), f.b);
    } else if (f.kind == KERN_LEAKY_RELU) {
#pragma unroll
        for (int i = 0; i < N; i++)
            v[i] = v[i] < 0 ? f.a * v[i] : v[i];
    }
}

template <int N>
static __device__ __forceinline__ void unary_in_place(struct kern_unary f,
                                                      float *v)
{
    const bool times = f.kind == KERN_SILU || f.kind == KERN_HARD_SWISH;

    if (f.kind == KERN_SILU || f.kind == KERN_SIGMOID) {
        const float scale = times ? f.a : 1.0f;
#pragma unroll
        for (int i = 0; i < N; i++) {
            const float s = __fdividef(1.0f, 1.0f + __expf(-scale * v[i]));
            v[i] = times ? v[i] * s : s;
        }
    } else if (f.kind == KERN_HARD_SIGMOID || f.kind == KERN_HARD_SWISH) {
        const float scale = times ? 1.0f / 6 : f.a;
        const float shift = times ? 0.5f : f.b;
#pragma unroll
        for (int i = 0; i < N; i++) {
            const float s = min_nan(max_nan(fmaf(scale, v[i], shift), 0), 1);
            v[i] = times ? v[i] * s : s;
        }
    } else if (f.kind == KERN_GELU) {
#pragma unroll
        for (int i = 0; i < N; i++)
            v[i] = 0.5f * v[i] * (1 + erff(v[i] * 0.70710678118654752440f));
    } else {
        unary_bend<N>(f, v);
    }
}

/* Any kind, out of line. */
static __device__ __noinline__ float unary_any(struct kern_unary f, float x)
{
    return apply_unary(f, x);
}

/* Any kind. */
template <int N>
static __device__ __forceinline__ void unary_vector(struct kern_unary f,
                                                    float *v)
{
    /* GELU stays out of line here, where code is small and rows are many. */
    if (unary_is_in_place(f.kind) && f.kind != KERN_GELU) {
        unary_in_place<N>(f, v);
    } else {
        /* Unrolled, or the values would have to be in memory. */
#pragma unroll
        for (int i = 0; i < N; i++)
            v[i] = unary_any(f, v[i]);
    }
}

#endif
