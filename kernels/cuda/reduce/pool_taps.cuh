/* SPDX-License-Identifier: Apache-2.0 */
/* Which taps of a pooling window lie inside the input. */
#ifndef KERNELS_CUDA_REDUCE_POOL_TAPS_CUH
#define KERNELS_CUDA_REDUCE_POOL_TAPS_CUH

#include "kernels/cuda/window.cuh"

/* Taps of one window along one dimension: those inside the input, and those
 * that an average with padding counts (not the overhang of ceil mode). */
struct taps {
    int first, last; /* half open */
    int counted;
};

/* PLAIN: not dilated, which spares the divisions. */
template <bool PLAIN>
static __device__ __forceinline__ struct taps
taps_of(const struct cuda_window &w, int d, uint32_t o)
{
    const int base = (int)o * w.step[d] - w.pad[d];
    const int dilation = PLAIN ? 1 : w.dilation[d], n = w.kernel[d];
    const int low = -w.pad[d], high = w.in[d] + w.pad_end[d];
    struct taps t;

    t.first = min(window_first_tap(base, dilation, max(low, 0)), n);
    t.last = min(window_first_tap(base, dilation, min(high, w.in[d])), n);
    t.counted = min(window_first_tap(base, dilation, high), n) -
                min(window_first_tap(base, dilation, low), n);
    return t;
}

#endif
