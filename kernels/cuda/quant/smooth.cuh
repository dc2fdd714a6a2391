/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Smooth activations of layers on integers of 8 bits (kernels/quant/act.h): by
 * the stated steps, and by the special function unit, from which the stated
 * integer follows wherever the value is not near the middle of two.
 */
#ifndef KERNELS_CUDA_QUANT_SMOOTH_CUH
#define KERNELS_CUDA_QUANT_SMOOTH_CUH

#include "kernels/cuda/activation.cuh"

extern "C" {
#include "kernels/quant/act.h"
}

struct quant_curve_args {
    struct quant_smooth s;
    float e0, e1, e2; /* c0, c1 and c2 times -log2(e) */
    float margin; /* distance from an integer up to which a guess is enough; 0:
                     none is */
};

/* inverse: of y's scale, 0 of other types; low, high: limits of v / scale.  A
 * guess needs v g = 0 where the exponential overflows, and a unit of outputs
 * that is not near the errors: 2^-22 of 1 where a sum cancels (tanh), else
 * 1.3e-6 of the output. */
static inline struct quant_curve_args
quant_curve_of(struct kern_unary f, float inverse, float low, float high)
{
    const float largest = -low > high ? -low : high;
    struct quant_curve_args a;

    a.s = quant_smooth_of(f);
    a.e0 = -LOG2_E * a.s.c0;
    a.e1 = -LOG2_E * a.s.c1;
    a.e2 = -LOG2_E * a.s.c2;
    a.margin = 0.5f - 4e-5f - 1.4e-6f * largest;
    if (!(inverse < (a.s.beta == 0 ? 0x1p20f : 64)) || !(a.s.c0 >= 0.25f))
        a.margin = 0;
    return a;
}

/* act(v) of a form with g, by the stated steps. */
static __device__ __forceinline__ float
quant_logistic_end(const struct quant_curve_args &a, float v)
{
    const float x = a.s.c1 == 0 ? QUANT_MUL(a.s.c0, v) : quant_curve(&a.s, v);

    return quant_smooth_end(&a.s, v, quant_logistic(x));
}

/* The same of N values of any form. */
template <int N>
static __device__ __forceinline__ void
quant_smooth_exact(const struct quant_curve_args &a, float *v)
{
    if (a.s.hard) {
#pragma unroll
        for (int i = 0; i < N; i++)
            v[i] = quant_smooth_end(&a.s, v[i], quant_hard(&a.s, v[i]));
    } else {
#pragma unroll
        for (int i = 0; i < N; i++)
            v[i] = quant_logistic_end(a, v[i]);
    }
}

/* y = act(v) of a form with g, within 1.3e-6 of itself or 2^-40, and stated
 * values are: the exponent, up to 32 where y is not below that, is off by two
 * roundings, 2^-20 in all, each function and product by 2^-22 at most. */
template <int N>
static __device__ __forceinline__ void
quant_smooth_guess(const struct quant_curve_args &a, const float *v, float *y)
{
    float x[N];

    if (a.s.c1 == 0) {
#pragma unroll
        for (int i = 0; i < N; i++)
            x[i] = a.e0 * v[i];
    } else {
#pragma unroll
        for (int i = 0; i < N; i++) {
            const float w = fminf(v[i] * v[i], 64);
            x[i] = v[i] * fmaf(w, fmaf(w, a.e2, a.e1), a.e0);
        }
    }
#pragma unroll
    for (int i = 0; i < N; i++)
        y[i] = flushed_reciprocal(1 + flushed_exp2(x[i]));
    if (a.s.times) {
#pragma unroll
        for (int i = 0; i < N; i++)
            y[i] *= fmaxf(v[i], -0x1p60f); /* -infinity gives 0 */
    } else {
#pragma unroll
        for (int i = 0; i < N; i++)
            y[i] = fmaf(a.s.alpha, y[i], a.s.beta);
    }
}

#endif
