/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of an implicit GEMM's tile: from sums staged in shared memory, rows
 * of `pitch` floats, to outputs.
 *
 *     vectors   16, 8 or 4 bytes of a pixel's channels, where channels and
 *               pitches are multiples of them
 *     flat      16 bytes of the tile's outputs as they lie in memory, where the
 *               tile has all channels of its pixels: any number of channels
 *     scalars   else
 *
 * The tile's biases lie in shared memory: they were loaded before the kernel in
 * front had ended, if they are constant.
 */
#ifndef KERNELS_CUDA_MMA_IGEMM_FINISH_CUH
#define KERNELS_CUDA_MMA_IGEMM_FINISH_CUH

#include "kernels/cuda/conv/output.cuh"

enum igemm_end {
    IGEMM_VECTORS,
    IGEMM_HALF_VECTORS,
    IGEMM_QUARTER_VECTORS,
    IGEMM_FLAT,
    IGEMM_SCALARS
};

/* A tile: its first pixel and its pixels, its first channel and its channels.
 */
struct igemm_place {
    int m, rows, k, columns;
};

template <typename T> struct igemm_lane {
    enum { N = 16 / (int)sizeof(T) };
};

/* How outputs are stored, where one tile has `columns` of kg channels. */
template <typename T>
static enum igemm_end igemm_end_of(const struct output_args &o, int groups,
                                   int kg, int columns)
{
    const int n = igemm_lane<T>::N;

    if (kg % n == 0 && output_is_wide(&o, n))
        return IGEMM_VECTORS;
    if (groups == 1 && kg <= columns && o.y_pitch == kg &&
        (!o.residual || o.r_pitch == kg))
        return IGEMM_FLAT;
    if (kg % (n / 2) == 0 && output_is_wide(&o, n / 2))
        return IGEMM_HALF_VECTORS;
    return n > 4 && kg % (n / 4) == 0 && output_is_wide(&o, n / 4)
               ? IGEMM_QUARTER_VECTORS
               : IGEMM_SCALARS;
}

/* Sums of a part of the depth, for output_reduce(). */
template <typename T, int COLUMNS, int THREADS>
static __device__ __forceinline__ void
igemm_store_parts(float *parts, int k, const struct igemm_place &at,
                  const float *tile, int pitch)
{
    const int N = igemm_lane<T>::N, per_row = COLUMNS / N;
    const bool whole = k % 4 == 0 && at.k % 4 == 0;

#pragma unroll 2
    for (int i = threadIdx.x; i < at.rows * per_row; i += THREADS) {
        const int row = i / per_row, column = i % per_row * N;
        const float *from = tile + row * pitch + column;
        float *to = parts + (size_t)(at.m + row) * k + at.k + column;
        float v[N];
        if (column >= at.columns)
            continue;
#pragma unroll
        for (int j = 0; j < N; j += 4) {
            load_floats<float, 4>(from + j, v + j);
            if (whole && column + j + 4 <= at.columns)
                store_floats<float, 4>(to + j, v + j);
            else
                for (int e = j; e < j + 4 && column + e < at.columns; e++)
                    to[e] = from[e];
        }
    }
}

/* N channels of a pixel at a time. */
template <typename T, int N, int COLUMNS, int THREADS>
static __device__ __forceinline__ void
igemm_store_vectors(const struct output_args &o, const struct igemm_place &at,
                    const float *tile, int pitch, const float *bias)
{
    constexpr int per_row = COLUMNS / N, L = N < 4 ? N : 4;

#pragma unroll 2
    for (int i = threadIdx.x; i < at.rows * per_row; i += THREADS) {
        const int row = i / per_row, column = i % per_row * N;
        float v[N], r[N];
        if (column >= at.columns)
            continue;
        if (o.residual)
            output_load_residual<T, N>(o, at.m + row, at.k + column, r);
#pragma unroll
        for (int j = 0; j < N; j += L)
            load_floats<float, L>(tile + row * pitch + column + j, v + j);
#pragma unroll
        for (int j = 0; j < N; j++)
            v[j] += bias[column + j];
        output_with_residual<T, N>(o, at.m + row, at.k + column, v, r);
    }
}

template <typename T, int THREADS>
static __device__ __forceinline__ void
igemm_store_scalars(const struct output_args &o, const struct igemm_place &at,
                    const float *tile, int pitch, const float *bias)
{
#pragma unroll 2
    for (int i = threadIdx.x; i < at.rows * at.columns; i += THREADS) {
        const int row = i / at.columns, column = i % at.columns;
        float v = tile[row * pitch + column] + bias[column], r = 0;
        if (o.residual)
            output_load_residual<T, 1>(o, at.m + row, at.k + column, &r);
        output_with_residual<T, 1>(o, at.m + row, at.k + column, &v, &r);
    }
}

/* y and the residual are one run of elements, as if of one pixel. */
template <typename T, int THREADS>
static __device__ __forceinline__ void
igemm_store_flat(const struct output_args &o, const struct igemm_place &at,
                 const float *tile, int pitch, const float *bias)
{
    const int N = igemm_lane<T>::N, count = at.rows * at.columns;
    struct output_args run = o;

    run.y = (T *)o.y + (size_t)at.m * at.columns;
    if (o.residual)
        run.residual = (const T *)o.residual + (size_t)at.m * at.columns;
    for (int i = (int)threadIdx.x * N; i < count; i += THREADS * N) {
        int row = i / at.columns, column = i % at.columns;
        float v[N], r[N];
        const bool whole = i + N <= count;
        if (o.residual && whole)
            output_load_residual<T, N>(run, 0, i, r);
#pragma unroll
        for (int j = 0; j < N; j++) {
            v[j] =
                row < at.rows ? tile[row * pitch + column] + bias[column] : 0;
            if (++column == at.columns) {
                column = 0;
                row++;
            }
        }
        if (whole) {
            output_with_residual<T, N>(run, 0, i, v, r);
            continue;
        }
#pragma unroll
        for (int j = 0; j < N; j++)
            if (i + j < count) {
                if (o.residual)
                    output_load_residual<T, 1>(run, 0, i + j, r + j);
                output_with_residual<T, 1>(run, 0, i + j, v + j, r + j);
            }
    }
}

#endif
