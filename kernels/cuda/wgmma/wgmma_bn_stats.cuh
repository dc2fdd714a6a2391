/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Partial statistics for batch norm (kernels/bn_stats.h): means and sums of
 * squared deviations of 64 rows of outputs, from the epilogue stage that holds
 * them as halves (wgmma_finish.cuh).
 *
 * Warp w of a warpgroup takes columns 16 w to 16 w + 15 of a stage's 64, all 64
 * rows.  Loaded as transposed 8x8 matrices, lane 4g + t has rows 8 i + 2t and
 * the next of columns g and g + 8, which is an A operand of mma.sync with
 * columns for rows: multiplied with ones, it gives the sums of the lane's own
 * two columns, exact but for the rounding of an F32 sum.  Deviations from the
 * mean are squared in single precision and added across the 4 lanes of a
 * column.
 */
#ifndef KERNELS_CUDA_WGMMA_WGMMA_BN_STATS_CUH
#define KERNELS_CUDA_WGMMA_WGMMA_BN_STATS_CUH

#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/wgmma/wgmma_finish.cuh"

extern "C" {
#include "kernels/bn_stats.h"
}

/* Two numbers of 1. */
template <typename T> constexpr uint32_t wgmma_ones = 0x3c003c00u;
template <> constexpr uint32_t wgmma_ones<__nv_bfloat16> = 0x3f803f80u;

/* Clears the sums of rows from `rows` on, past the last pixel, of 64. v: in
 * wgmma's layout. */
template <int N>
static __device__ __forceinline__ void wgmma_clear_rest(float *v, int rows)
{
    const int row = threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;

    if (rows >= 64)
        return;
#pragma unroll
    for (int i = 0; i < N; i++)
        if (row + i / 2 % 2 * 8 >= rows)
            v[i] = 0;
}

/* Sums of squared deviations of this lane's columns g and g + 8 from their
 * means, over its rows below `rows` where not WHOLE. */
template <typename T, bool WHOLE>
static __device__ __forceinline__ void
wgmma_square(const uint32_t (&y)[4][4], float mean0, float mean1, int rows,
             float *squares0, float *squares1)
{
    float s[2] = {0, 0};

#pragma unroll
    for (int i = 0; i < 16; i++) {
        const int row = i / 4 * 16 + i % 2 * 8 + threadIdx.x % 4 * 2;
        const float mean = i / 2 % 2 ? mean1 : mean0;
        const float2 f = wgmma_floats<T>(y[i / 4][i % 4]);
        const float x = WHOLE || row < rows ? f.x - mean : 0;
        const float z = WHOLE || row + 1 < rows ? f.y - mean : 0;
        s[i / 2 % 2] = fmaf(z, z, fmaf(x, x, s[i / 2 % 2]));
    }
    *squares0 = s[0];
    *squares1 = s[1];
}

/* Statistics of a full stage's first `rows` rows, at most 64: this lane's one
 * of the four numbers of columns g and g + 8, see wgmma_store_statistics(). */
template <typename T>
static __device__ __forceinline__ float wgmma_stage_statistics(uint32_t epi,
                                                               int rows)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const uint32_t from =
        epi + lane % 16 * 128 + ((warp * 2 + lane / 16 ^ lane % 8) << 4);
    const float inverse = rows >= 64 ? 1.0f / 64 : 1.0f / (float)rows;
    uint32_t y[4][4];
    const uint32_t ones[2] = {wgmma_ones<T>, wgmma_ones<T>};
    float sum[4] = {0, 0, 0, 0}, squares0, squares1;

#pragma unroll
    for (int i = 0; i < 4; i++)
        ptx_ldmatrix_x4_trans(y[i], from + i * 2048);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const uint32_t a[4] = {y[i][0], y[i][2], y[i][1], y[i][3]};
        ptx_mma(T(), sum, a, ones);
    }
    const float mean0 = sum[0] * inverse, mean1 = sum[2] * inverse;
    if (rows >= 64)
        wgmma_square<T, true>(y, mean0, mean1, 64, &squares0, &squares1);
    else
        wgmma_square<T, false>(y, mean0, mean1, rows, &squares0, &squares1);
    for (int step = 1; step < 4; step *= 2) {
        squares0 += __shfl_xor_sync(~0u, squares0, step);
        squares1 += __shfl_xor_sync(~0u, squares1, step);
    }
    if (lane & 2)
        return lane & 1 ? squares1 : squares0;
    return lane & 1 ? mean1 : mean0;
}

/* Stores the result of wgmma_stage_statistics(): row `part` of the partial
 * statistics, columns from channel n of k on. */
static __device__ __forceinline__ void
wgmma_store_statistics(float *bn_stats, int k, int part, int n, float number)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const int column = n + warp * 16 + lane % 2 * 8 + lane / 4;

    if (column < k)
        bn_stats[((size_t)part * 2 + lane / 2 % 2) * k + column] = number;
}

#endif
