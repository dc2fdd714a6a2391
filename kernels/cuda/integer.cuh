/* SPDX-License-Identifier: Apache-2.0 */
/* Integer arithmetic that wraps, as that of the reference does. */
#ifndef KERNELS_CUDA_INTEGER_CUH
#define KERNELS_CUDA_INTEGER_CUH

#include <stdint.h>

#include "kernels/cuda/cuda_rt.h"

static __device__ __forceinline__ int64_t integer_add(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static __device__ __forceinline__ int64_t integer_subtract(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static __device__ __forceinline__ int64_t integer_multiply(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

/* Stores the low bits of v in a type of integers; BOOL is whether v is not 0.
 */
static __device__ __forceinline__ void
store_wrapped(enum infer_dtype t, void *p, int64_t i, int64_t v)
{
    switch (t) {
    case INFER_I32:
    case INFER_U32:
        ((uint32_t *)p)[i] = (uint32_t)v;
        break;
    case INFER_I16:
    case INFER_U16:
        ((uint16_t *)p)[i] = (uint16_t)v;
        break;
    case INFER_I8:
    case INFER_U8:
        ((uint8_t *)p)[i] = (uint8_t)v;
        break;
    case INFER_BOOL:
        ((uint8_t *)p)[i] = v != 0;
        break;
    case INFER_I64:
    case INFER_U64:
        ((uint64_t *)p)[i] = (uint64_t)v;
        break;
    default: /* no type of integers */
        break;
    }
}

#endif
