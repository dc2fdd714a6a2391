/* SPDX-License-Identifier: Apache-2.0 */
/* Derivatives of the functions of one argument, on the device: as
 * ref_unary_derivative() and ref_unary_derivative_from_output(). */
#ifndef KERNELS_CUDA_DERIVATIVE_CUH
#define KERNELS_CUDA_DERIVATIVE_CUH

#include "kernels/cuda/element.cuh"

static __device__ __noinline__ float derivative_rare(struct kern_unary f,
                                                     float x)
{
    const float a = f.a, b = f.b;

    switch (f.kind) {
#define UNARY(kind, name, facts, value, derivative)                            \
    case kind:                                                                 \
        if (!unary_is_common(kind))                                            \
            return derivative;                                                 \
        break;
#include "kernels/unary.def"
    case KERN_UNARY_COUNT:
        break;
    }
    return 0;
}

static __device__ __forceinline__ float unary_derivative(struct kern_unary f,
                                                         float x)
{
    const float a = f.a, b = f.b;

    switch (f.kind) {
#define UNARY(kind, name, facts, value, derivative)                            \
    case kind:                                                                 \
        if (unary_is_common(kind))                                             \
            return derivative;                                                 \
        break;
#include "kernels/unary.def"
    case KERN_UNARY_COUNT:
        break;
    }
    return derivative_rare(f, x);
}

static __device__ __forceinline__ float
unary_derivative_from_output(struct kern_unary f, float y)
{
    const float a = f.a, b = f.b;

    switch (f.kind) {
#define UNARY(kind, name, facts, value, derivative)                            \
    case kind:                                                                 \
        break;
#define UNARY_FROM_OUTPUT(kind, name, facts, value, derivative, from_output)   \
    case kind:                                                                 \
        return from_output;
#include "kernels/unary.def"
    case KERN_UNARY_COUNT:
        break;
    }
    return unary_derivative(f, y);
}

#endif
