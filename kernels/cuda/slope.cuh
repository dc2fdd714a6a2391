/* SPDX-License-Identifier: Apache-2.0 */
/* Derivatives of the functions of one argument, on the device: as
 * ref_unary_slope() and ref_unary_slope_by_y(). */
#ifndef KERNELS_CUDA_SLOPE_CUH
#define KERNELS_CUDA_SLOPE_CUH

#include "kernels/cuda/element.cuh"

/* The rarer kinds, kept out of line so that the common ones stay small. */
static __device__ __noinline__ float slope_rare(struct kern_unary f, float x)
{
    switch (f.kind) {
    case KERN_ELU:
        return x < 0 ? f.a * expf(x) : 1;
    case KERN_SELU:
        return f.b * (x < 0 ? f.a * expf(x) : 1);
    case KERN_CELU:
        return x < 0 ? expf(x / f.a) : 1;
    case KERN_SOFTPLUS:
        return sigmoid(x);
    case KERN_SOFTSIGN:
        return 1 / ((1 + fabsf(x)) * (1 + fabsf(x)));
    case KERN_MISH: {
        const float t = tanhf(softplus(x));
        return t + x * (1 - t * t) * sigmoid(x);
    }
    case KERN_GELU: /* Phi(x) + x phi(x) */
        return 0.5f * (1 + erff(x * 0.70710678118654752440f)) +
               x * expf(-0.5f * x * x) * 0.39894228040143267794f;
    case KERN_GELU_TANH: {
        const float root = 0.79788456080286535588f; /* sqrt(2/pi) */
        const float t = tanhf(root * (x + 0.044715f * x * x * x));
        return 0.5f * (1 + t) +
               0.5f * x * (1 - t * t) * root * (1 + 3 * 0.044715f * x * x);
    }
    case KERN_THRESHOLDED_RELU:
        return x > f.a;
    case KERN_LINEAR:
        return f.a;
    case KERN_ERF: /* 2/sqrt(pi) */
        return expf(-x * x) * 1.12837916709551257390f;
    case KERN_EXP:
        return expf(x);
    case KERN_LOG:
        return 1 / x;
    case KERN_SQRT:
        return 0.5f / sqrtf(x);
    case KERN_RECIPROCAL:
        return -1 / (x * x);
    case KERN_ABS:
        return (float)((x > 0) - (x < 0));
    case KERN_NEG:
        return -1;
    default: /* roundings, sign, NOT */
        return 0;
    }
}

static __device__ __forceinline__ float unary_slope(struct kern_unary f,
                                                    float x)
{
    float s;

    switch (f.kind) {
    case KERN_IDENTITY:
        return 1;
    case KERN_RELU:
        return x > 0;
    case KERN_LEAKY_RELU:
        return x < 0 ? f.a : 1;
    case KERN_CLIP:
        return x > f.a && x < f.b;
    case KERN_SIGMOID:
        s = sigmoid(x);
        return s * (1 - s);
    case KERN_TANH:
        s = tanhf(x);
        return 1 - s * s;
    case KERN_SILU:
        s = sigmoid(f.a * x);
        return s * (1 + f.a * x * (1 - s));
    case KERN_HARD_SIGMOID:
        s = fmaf(f.a, x, f.b);
        return s > 0 && s < 1 ? f.a : 0;
    case KERN_HARD_SWISH:
        return x <= -3 ? 0 : x < 3 ? fmaf(x, 1.0f / 3, 0.5f) : 1;
    default:
        return slope_rare(f, x);
    }
}

static __device__ __forceinline__ float unary_slope_by_y(struct kern_unary f,
                                                         float y)
{
    switch (f.kind) {
    case KERN_SIGMOID:
        return y * (1 - y);
    case KERN_TANH:
        return 1 - y * y;
    case KERN_ELU:
        return y < 0 ? y + f.a : 1;
    case KERN_SELU:
        return y < 0 ? y + f.a * f.b : f.b;
    case KERN_SOFTPLUS:
        return -expm1f(-y);
    case KERN_EXP:
        return y;
    case KERN_SQRT:
        return 0.5f / y;
    case KERN_RECIPROCAL:
        return -y * y;
    default: /* where y lies on the same side as x */
        return unary_slope(f, y);
    }
}

#endif
