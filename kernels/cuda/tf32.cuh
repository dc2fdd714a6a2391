/* SPDX-License-Identifier: Apache-2.0 */
/* F32 for tensor cores that take TF32: 10 bits after the point.  The last 13
 * bits of an operand are ignored, so they need not be cleared. */
#ifndef KERNELS_CUDA_TF32_CUH
#define KERNELS_CUDA_TF32_CUH

#include <stdint.h>

/* To the nearest TF32, ties away from zero.  What is not finite stays, since
 * rounding would carry the last bits of a NaN into its sign. */
static __device__ __forceinline__ uint32_t tf32_round(uint32_t x)
{
    return (x & 0x7fffffffu) < 0x7f800000u ? x + 0x1000 : x;
}

/* x = big + small, both TF32 to nearest.  An x that is not finite goes into
 * small, which is multiplied by the big part of the other operand alone:
 * infinity times a small part of 0 would be NaN.  Its big part is 1 with its
 * sign instead of 0, so that the product of two infinities is infinite. */
static __device__ __forceinline__ void tf32_split(uint32_t x, uint32_t *big,
                                                  uint32_t *small)
{
    const uint32_t size = x & 0x7fffffffu;
    uint32_t b = (x + 0x1000) & 0xffffe000u;

    if (size >= 0x7f7ff000u) /* which would round to infinity, or is it */
        b = size < 0x7f800000u ? x & 0xffffe000u
                               : x & 0x80000000u | 0x3f800000u;
    *big = b;
    *small =
        tf32_round(__float_as_uint(__uint_as_float(x) - __uint_as_float(b)));
}

#endif
