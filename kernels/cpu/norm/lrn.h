/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over windows of channels that lie side by side. */
#ifndef KERNELS_CPU_NORM_LRN_H
#define KERNELS_CPU_NORM_LRN_H

#include "kernels/cpu/cpu.h"

/* s[i] = bias + factor * the sum of a[j] b[j], channels j from first + i -
 * below to first + i - below + size - 1 that exist, for i < n.  To be inlined
 * into a clone. */
CPU_INLINE void lrn_window(const float *a, const float *b, int64_t channels,
                           int64_t first, int64_t n, int64_t below, int size,
                           float bias, float factor, float *s)
{
    int64_t i, tap;

    for (i = 0; i < n; i++)
        s[i] = 0.0f;
    for (tap = 0; tap < size; tap++) {
        /* Channel first + i + shift must be one of the tensor's. */
        const int64_t shift = tap - below;
        int64_t from = -first - shift, to = channels - first - shift;

        from = from < 0 ? 0 : from;
        to = to > n ? n : to;
#pragma omp simd
        for (i = from; i < to; i++)
            s[i] += a[first + i + shift] * b[first + i + shift];
    }
#pragma omp simd
    for (i = 0; i < n; i++)
        s[i] = bias + factor * s[i];
}

#endif
