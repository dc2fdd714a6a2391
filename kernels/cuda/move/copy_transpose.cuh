/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transposition of the two innermost dimensions of a copy.
 *
 * A block of 32 x 8 threads moves a tile of 64 x 64 through shared memory in
 * pairs, 33 pairs a row so that columns spread over the banks (33 KiB for
 * 8-byte elements at most).  A thread loads 8 pairs before it stores the first.
 * blockIdx: tiles along the output's innermost dimension, along the input's,
 * the rest.
 */
#ifndef KERNELS_CUDA_MOVE_COPY_TRANSPOSE_CUH
#define KERNELS_CUDA_MOVE_COPY_TRANSPOSE_CUH

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/move/convert.cuh"
#include "kernels/cuda/strided.cuh"

#define TILE      64
#define TILE_ROWS 8

struct transpose_args {
    int64_t rows, columns;   /* innermost of the input, of the output */
    int64_t y_row, x_column; /* strides; the others are 1 */
    int64_t batch;
    bool x_pairs, y_pairs; /* two neighbours are one access */
    int rank;              /* of what is left */
    int64_t dim[KERN_MAX_RANK], x_stride[KERN_MAX_RANK],
        y_stride[KERN_MAX_RANK];
    struct fast_div divide[KERN_MAX_RANK];
    const void *x;
    void *y;
};

/* Two neighbours, 0 where there are fewer. */
template <typename T>
static __device__ __forceinline__ vec<T, 2> load_pair(const T *p, int64_t left,
                                                      bool pairs)
{
    vec<T, 2> v = {};

    if (pairs && left > 1)
        return load_vec<T, 2>(p);
    if (left > 0)
        v.at[0] = p[0];
    if (left > 1)
        v.at[1] = p[1];
    return v;
}

template <typename T>
static __device__ __forceinline__ void
store_pair(T *p, int64_t left, bool pairs, const vec<T, 2> &v)
{
    if (pairs && left > 1) {
        store_vec<T, 2>(p, v);
        return;
    }
    if (left > 0)
        p[0] = v.at[0];
    if (left > 1)
        p[1] = v.at[1];
}

/* tile[r][c]: row r of columns 2 c and 2 c + 1. */
template <typename In, typename Out>
static __device__ __forceinline__ void
transpose_tile(const struct transpose_args &a, const In *x, Out *y,
               int64_t rows, int64_t columns, vec<Out, 2> (*tile)[TILE / 2 + 1])
{
    constexpr int STEPS = TILE / 2 / TILE_ROWS;
    const int lane = 2 * threadIdx.x;
    vec<In, 2> v[STEPS][2];

#pragma unroll
    for (int s = 0; s < STEPS; s++)
#pragma unroll
        for (int j = 0; j < 2; j++) {
            const int c = 2 * (s * TILE_ROWS + threadIdx.y) + j;
            v[s][j] = load_pair(x + lane + c * a.x_column,
                                c < columns ? rows - lane : 0, a.x_pairs);
        }
#pragma unroll
    for (int s = 0; s < STEPS; s++)
#pragma unroll
        for (int i = 0; i < 2; i++)
            tile[lane + i][s * TILE_ROWS + threadIdx.y] = {
                {convert<Out>(v[s][0].at[i]), convert<Out>(v[s][1].at[i])}};
    __syncthreads();
#pragma unroll
    for (int s = 0; s < 2 * STEPS; s++) {
        const int r = s * TILE_ROWS + threadIdx.y;
        store_pair(y + lane + r * a.y_row, r < rows ? columns - lane : 0,
                   a.y_pairs, tile[r][threadIdx.x]);
    }
    __syncthreads();
}

template <typename In, typename Out>
static __global__ void __launch_bounds__(TILE / 2 * TILE_ROWS)
    transpose_kernel(const __grid_constant__ struct transpose_args a)
{
    __shared__ vec<Out, 2> tile[TILE][TILE / 2 + 1];
    const int64_t column = blockIdx.x * (int64_t)TILE;

    launch_wait();
    for (int64_t z = blockIdx.z; z < a.batch; z += gridDim.z) {
        uint32_t rest = (uint32_t)z;
        int64_t from = column * a.x_column, to = column;

        for (int d = a.rank - 1; d >= 0; d--) {
            uint32_t i;
            rest = a.divide[d].divmod(rest, &i);
            from += i * a.x_stride[d];
            to += i * a.y_stride[d];
        }
        for (int64_t row = blockIdx.y * (int64_t)TILE; row < a.rows;
             row += gridDim.y * (int64_t)TILE)
            transpose_tile(a, (const In *)a.x + from + row,
                           (Out *)a.y + to + row * a.y_row, a.rows - row,
                           a.columns - column, tile);
    }
}

/* True if all pairs of one side start at multiples of their size. */
static bool has_pairs(const void *at, size_t size, int64_t side, int rank,
                      const int64_t *stride)
{
    bool even = (uintptr_t)at % (2 * size) == 0 && side % 2 == 0;

    for (int d = 0; even && d < rank; d++)
        even = stride[d] % 2 == 0;
    return even;
}

template <typename In, typename Out>
static int run(struct transpose_args *t, const struct kern_args *args,
               struct infer_error *err)
{
    const int64_t rows = (t->rows + TILE - 1) / TILE;
    const dim3 grid(cuda_blocks(t->columns, TILE),
                    (unsigned)(rows < 65535 ? rows : 65535),
                    (unsigned)(t->batch < 65535 ? t->batch : 65535));

    t->x_pairs = has_pairs(t->x, sizeof(In), t->x_column, t->rank, t->x_stride);
    t->y_pairs = has_pairs(t->y, sizeof(Out), t->y_row, t->rank, t->y_stride);
    return launch_chained(transpose_kernel<In, Out>, grid,
                          dim3(TILE / 2, TILE_ROWS), 0, args->stream, *t, err);
}

#endif
