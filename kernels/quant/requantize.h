/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums of integers as integers of another scale, in fixed point: what
 * TensorFlow Lite's kernels compute after a sum
 * (MultiplyByQuantizedMultiplier).  Used by all backends, so that their
 * integers are equal.
 */
#ifndef KERNELS_QUANT_REQUANTIZE_H
#define KERNELS_QUANT_REQUANTIZE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/kern.h"

#ifdef __CUDACC__
#define REQUANTIZE_FORM static __device__ __forceinline__
#else
#define REQUANTIZE_FORM static inline __attribute__((always_inline))
#endif

/* The upper 32 bits of twice the product, halves up, then the quotient by
 * 2^-shift, halves away from zero. */
REQUANTIZE_FORM int32_t requantize_twice(int32_t x, int32_t multiplier,
                                         int32_t shift)
{
    const int32_t down = shift > 0 ? 0 : -shift;
    const int64_t product = (int64_t)x * multiplier + ((int64_t)1 << 30);
    const int32_t v = (int32_t)(uint32_t)((uint64_t)product >> 31);
    const int32_t mask = (int32_t)(((uint32_t)1 << down) - 1);

    return (v >> down) + ((v & mask) > (mask >> 1) + (v < 0));
}

/* Halves up. */
REQUANTIZE_FORM int32_t requantize_once(int32_t x, int32_t multiplier,
                                        int32_t shift)
{
    const int total = 31 - shift;
    const int64_t half = (int64_t)1 << (total - 1);

    return (int32_t)(uint32_t)(((int64_t)x * multiplier + half) >> total);
}

/* x 2^left + addend, below 2^47, times 15 or all 31 bits of a factor, halves
 * up. */
REQUANTIZE_FORM int32_t requantize_wide(int32_t x, int32_t left, bool all,
                                        int32_t addend, int32_t multiplier,
                                        int32_t shift)
{
    const int32_t s = shift > 14 ? 14 : shift;
    const uint64_t sum =
        ((uint64_t)(int64_t)x << (left & 31)) + (uint64_t)(int64_t)addend;
    const uint64_t factor = (uint64_t)(all ? multiplier : multiplier >> 16);
    /* Of all bits the product has 78: its lower 16 are dropped first. */
    const uint64_t half = (uint64_t)1 << ((all ? 30 : 14) - s);
    const uint64_t high = (uint64_t)((int64_t)sum >> 16) * factor;
    const uint64_t low = ((sum & 0xffff) * factor + half) >> 16;
    const int64_t v =
        all ? (int64_t)(high + low) : (int64_t)(sum * factor + half);

    return (int32_t)(uint32_t)(uint64_t)(v >> (15 - s));
}

/* An element: shift lies within -31 .. 30, multiplier is not negative. */
REQUANTIZE_FORM int32_t requantize(const struct kern_requantize *a, bool once,
                                   bool wide_sum, int32_t x, int32_t multiplier,
                                   int32_t shift, int32_t addend)
{
    if (wide_sum) {
        const int32_t w =
            requantize_wide(x, a->left, once, addend, multiplier, shift);
        return w < a->low ? a->low : w > a->high ? a->high : w;
    }
    const int32_t up = a->left + (!once && shift > 0 ? shift : 0);
    const int32_t wide =
        (int32_t)(((uint32_t)x << (up & 31)) & -(uint32_t)(up < 32));
    const int32_t v = once ? requantize_once(wide, multiplier, shift)
                           : requantize_twice(wide, multiplier, shift);
    const int32_t sum = (int32_t)((uint32_t)v + (uint32_t)addend);

    return sum < a->low ? a->low : sum > a->high ? a->high : sum;
}

/* Factors that are none give 0 in all backends, and nothing undefined. */
REQUANTIZE_FORM bool requantize_fits(int32_t multiplier, int32_t shift)
{
    return (multiplier >= 0) & (shift >= -31) & (shift <= 30);
}

/* The integer of 32 bits that is nearest, halves to even; 0 for NaN. */
REQUANTIZE_FORM int32_t requantize_integer(double v)
{
    if (!(v > -2147483648.0))
        return v <= 0 ? INT32_MIN : 0;
    return v < 2147483647.0 ? (int32_t)rint(v) : INT32_MAX;
}

#undef REQUANTIZE_FORM

#endif
