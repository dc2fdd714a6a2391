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

/* True for kinds of one or two instructions a value. */
static inline __host__ __device__ bool
unary_is_piecewise_linear(enum kern_unary_kind kind)
{
    return kind <= KERN_CLIP;
}

/* True for kinds that unary_inline() computes: without calls, which would move
 * the values out of registers. */
static inline __host__ __device__ bool
unary_is_inline(enum kern_unary_kind kind)
{
    return unary_is_piecewise_linear(kind) || kind == KERN_SIGMOID ||
           kind == KERN_SILU || kind == KERN_HARD_SIGMOID ||
           kind == KERN_HARD_SWISH || kind == KERN_GELU ||
           kind == KERN_GELU_TANH || kind == KERN_MISH;
}

/* v = act(v) for N values, with the choice made once. */
template <int N>
static __device__ __forceinline__ void
unary_piecewise_linear(struct kern_unary f, float *v)
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

/* 2^x and 1 / x as the special function unit gives them, subnormals flushed,
 * which spares the scaling around them. */
static __device__ __forceinline__ float flushed_exp2(float x)
{
    float y;

    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

static __device__ __forceinline__ float flushed_reciprocal(float x)
{
    float y;

    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#define LOG2_E 1.44269504088896340736f

template <int N> static __device__ __forceinline__ void unary_sigmoid(float *v)
{
#pragma unroll
    for (int i = 0; i < N; i++)
        v[i] = flushed_reciprocal(1 + flushed_exp2(-LOG2_E * v[i]));
}

/* v = v / (1 + exp(-scale v)).  The special function unit is the bottleneck, 16
 * results a clock on a multiprocessor: an exponential and a reciprocal a value
 * take as long as the value's transfer from and to memory.  So two values share
 * a reciprocal: 1 / a = b (1 / (a b)).  The exponential is clamped to 2^60, so
 * that a b stays finite; results beyond the clamp are below 2^-54 for v above
 * -64, and shrink no further.  NaN affects no other value. */
template <int N>
static __device__ __forceinline__ void unary_silu(float scale, float *v)
{
    const float to_exponent = -LOG2_E * scale;
    float a[N];

#pragma unroll
    for (int i = 0; i < N; i++)
        a[i] = 1 + flushed_exp2(fminf(to_exponent * v[i], 60));
#pragma unroll
    for (int i = 0; i + 1 < N; i += 2) {
        const float r = flushed_reciprocal(a[i] * a[i + 1]);
        v[i] *= r * a[i + 1];
        v[i + 1] *= r * a[i];
    }
    if (N % 2 == 1)
        v[N - 1] *= flushed_reciprocal(a[N - 1]);
}

/* v = v / 2 (1 + erf(v / sqrt(2))), from erfc(z) = t (a1 + t (a2 + ...))
 * exp(-z^2) with t = 1 / (1 + p z) for z >= 0, within 1.5e-7 (Hastings, as
 * Abramowitz and Stegun 7.1.26 have it).  Below zero the result is a product,
 * not a difference of near equals.  Two values share a reciprocal, as in
 * unary_silu(); beyond z = 16 the exponential is 0. */
template <int N> static __device__ __forceinline__ void unary_gelu(float *v)
{
    float z[N], t[N];

#pragma unroll
    for (int i = 0; i < N; i++) {
        z[i] = fminf(fabsf(v[i]) * 0.70710678118654752440f, 16);
        t[i] = fmaf(0.3275911f, z[i], 1);
    }
#pragma unroll
    for (int i = 0; i + 1 < N; i += 2) {
        const float r = flushed_reciprocal(t[i] * t[i + 1]), first = t[i];
        t[i] = r * t[i + 1];
        t[i + 1] = r * first;
    }
    if (N % 2 == 1)
        t[N - 1] = flushed_reciprocal(t[N - 1]);
#pragma unroll
    for (int i = 0; i < N; i++) {
        float sum = 0.5f * 1.061405429f;
        sum = fmaf(t[i], sum, 0.5f * -1.453152027f);
        sum = fmaf(t[i], sum, 0.5f * 1.421413741f);
        sum = fmaf(t[i], sum, 0.5f * -0.284496736f);
        sum = fmaf(t[i], sum, 0.5f * 0.254829592f);
        sum *= t[i] * flushed_exp2(-LOG2_E * z[i] * z[i]);
        v[i] *= v[i] < 0 ? sum : 1 - sum;
    }
}

/* v = v / 2 (1 + tanh(u)) = v / (1 + exp(-2 u)) with u = sqrt(2 / pi) (v +
 * 0.044715 v^3). */
template <int N>
static __device__ __forceinline__ void unary_gelu_tanh(float *v)
{
    const float scale = -2 * LOG2_E * 0.79788456080286535588f;

#pragma unroll
    for (int i = 0; i < N; i++) {
        const float u = v[i] * fmaf(0.044715f * v[i], v[i], 1);
        v[i] *= flushed_reciprocal(1 + flushed_exp2(fminf(scale * u, 60)));
    }
}

/* v = v tanh(log(1 + e)) = v n / (n + 2) with e = exp(v) and n = e (e + 2);
 * beyond 20 the quotient is 1. */
template <int N> static __device__ __forceinline__ void unary_mish(float *v)
{
#pragma unroll
    for (int i = 0; i < N; i++) {
        const float e = flushed_exp2(LOG2_E * fminf(v[i], 20));
        const float n = e * (e + 2);
        v[i] *= n * flushed_reciprocal(n + 2);
    }
}

template <int N>
static __device__ __forceinline__ void unary_inline(struct kern_unary f,
                                                    float *v)
{
    const bool times = f.kind == KERN_HARD_SWISH;

    if (f.kind == KERN_SILU) {
        unary_silu<N>(f.a, v);
    } else if (f.kind == KERN_SIGMOID) {
        unary_sigmoid<N>(v);
    } else if (f.kind == KERN_HARD_SIGMOID || f.kind == KERN_HARD_SWISH) {
        const float scale = times ? 1.0f / 6 : f.a;
        const float shift = times ? 0.5f : f.b;
#pragma unroll
        for (int i = 0; i < N; i++) {
            const float s = min_nan(max_nan(fmaf(scale, v[i], shift), 0), 1);
            v[i] = times ? v[i] * s : s;
        }
    } else if (f.kind == KERN_GELU) {
        unary_gelu<N>(v);
    } else if (f.kind == KERN_GELU_TANH) {
        unary_gelu_tanh<N>(v);
    } else if (f.kind == KERN_MISH) {
        unary_mish<N>(v);
    } else {
        unary_piecewise_linear<N>(f, v);
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
    if (unary_is_inline(f.kind)) {
        unary_inline<N>(f, v);
    } else {
        /* Unrolled, or the values would have to be in memory. */
#pragma unroll
        for (int i = 0; i < N; i++)
            v[i] = unary_any(f, v[i]);
    }
}

#endif
