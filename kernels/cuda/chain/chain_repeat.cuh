/* SPDX-License-Identifier: Apache-2.0 */
/* The outputs of a block of a chain, product by product, without the padding
 * and without zeros of diagonal matrices: for blocks that found a NaN. */
#ifndef KERNELS_CUDA_CHAIN_CHAIN_REPEAT_CUH
#define KERNELS_CUDA_CHAIN_CHAIN_REPEAT_CUH

#include "kernels/cuda/chain/chain_depthwise.cuh"

/* Middle value c of an output pixel. */
template <typename T, int R>
static __device__ __forceinline__ float chain_middle(const struct chain_args &a,
                                                     int m, int c)
{
    enum { WORDS = (R * R + 3) / 4 * 4 };
    const int q = m % a.g.q, p = m / a.g.q % a.g.p, n = m / a.g.q / a.g.p;
    const T *const w = (const T *)a.w + c / 2 * WORDS * 2 + c % 2;
    float sum = a.bias ? a.bias[c] : 0;

    for (int r = 0; r < R; r++) {
        const int h = p * a.g.stride_h - a.g.pad_top + r;
        if ((unsigned)h >= (unsigned)a.g.h)
            continue;
        for (int s = 0; s < R; s++) {
            const int at = q * a.g.stride_w - a.g.pad_left + s;
            if ((unsigned)at < (unsigned)a.g.w)
                sum = fmaf(
                    to_float((
                        (const T *)a.x)[(size_t)((n * a.g.h + h) * a.g.w + at) *
                                            a.g.x_pitch +
                                        c]),
                    to_float(w[(r * R + s) * 2]), sum);
        }
    }
    chain_activate<1>(a.act, &sum);
    return sum;
}

/* Output k of a pixel, of which `middle` holds the middle values. */
template <typename T>
static __device__ __forceinline__ float chain_sum(const struct chain_args &a,
                                                  const T *middle, int k)
{
    const T *const w =
        (const T *)a.w2 + k / 16 * 256 + k % 8 * 32 + k / 8 % 2 * 4;
    float sum = 0;

    for (int c = 0; c < a.g.c; c++)
        sum = fmaf(to_float(middle[c]),
                   to_float(w[c / 16 * a.t.pairs * 256 + c / 2 % 4 * 8 +
                              c / 8 % 2 * 2 + c % 2]),
                   sum);
    return sum;
}

/* Output i of the block, or -1. */
static __device__ __forceinline__ int
chain_output_number(const struct chain_args &a, const struct chain_place &at,
                    int i)
{
    return chain_output(a, at, i / a.t.mt, i % a.t.mt);
}

/* room: elements that `middle` holds, at least those of a pixel. */
template <typename T, int R>
static __device__ __noinline__ void chain_repeat(const struct chain_args &a,
                                                 T *middle, int room)
{
    const struct chain_place at = chain_place_of(a);
    const int count = a.t.images * a.t.rows * a.t.columns;
    const int each = max(1, room / a.g.c);

    for (int first = 0; first < count; first += each) {
        const int here = min(each, count - first);

        for (int i = threadIdx.x; i < here * a.g.c; i += blockDim.x) {
            const int m = chain_output_number(a, at, first + i / a.g.c);
            if (m >= 0)
                middle[i] = from_float<T>(chain_middle<T, R>(a, m, i % a.g.c));
        }
        __syncthreads();
        for (int i = threadIdx.x; i < here * a.out.k; i += blockDim.x) {
            const int m = chain_output_number(a, at, first + i / a.out.k);
            const int k = i % a.out.k;
            float sum;
            if (m < 0)
                continue;
            sum = chain_sum<T>(a, middle + i / a.out.k * a.g.c, k);
            output_vector<T, 1>(a.out, m, k, &sum);
        }
        __syncthreads();
    }
}

#endif
