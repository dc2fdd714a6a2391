/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transposition of the two innermost dimensions of a copy.
 *
 * Pairs: a block of 32 x 8 threads moves a tile of 64 x 64 through shared
 * memory in pairs, 33 pairs a row so that columns spread over the banks (33 KiB
 * for 8-byte elements at most).  A thread loads 8 pairs before it stores the
 * first.
 *
 * Units, for elements of 1 and 2 bytes: a unit is 8 bytes, V elements.  A block
 * of 16 x 16 threads moves a tile of 16 V x 16 V; a thread turns V x V elements
 * in registers.  Unit u of row r lies at u ^ r / V, so that neither writing
 * columns nor reading rows of units meets a bank twice.
 *
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
#define UNITS     16

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
transpose_pairs(const struct transpose_args &a, const In *x, Out *y,
                int64_t rows, int64_t columns)
{
    constexpr int STEPS = TILE / 2 / TILE_ROWS;
    __shared__ vec<Out, 2> tile[TILE][TILE / 2 + 1];
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

/* V neighbours, 0 where there are fewer. */
template <typename T, int V>
static __device__ __forceinline__ vec<T, V> load_unit(const T *p, int64_t left)
{
    vec<T, V> v = {};

    if (left >= V)
        return load_vec<T, V>(p);
#pragma unroll
    for (int i = 0; i < V; i++)
        if (i < left)
            v.at[i] = p[i];
    return v;
}

template <typename T, int V>
static __device__ __forceinline__ void store_unit(T *p, int64_t left,
                                                  const vec<T, V> &v)
{
    if (left >= V) {
        store_vec<T, V>(p, v);
        return;
    }
#pragma unroll
    for (int i = 0; i < V; i++)
        if (i < left)
            p[i] = v.at[i];
}

template <typename In, typename Out>
static __device__ __forceinline__ void
transpose_units(const struct transpose_args &a, const In *x, Out *y,
                int64_t rows, int64_t columns)
{
    constexpr int V = 8 / (int)sizeof(Out);
    __shared__ vec<Out, V> tile[UNITS * V][UNITS];
    const int lane = V * threadIdx.x, first = V * threadIdx.y;
    vec<In, V> v[V];

#pragma unroll
    for (int j = 0; j < V; j++)
        v[j] = load_unit<In, V>(x + lane + (first + j) * a.x_column,
                                first + j < columns ? rows - lane : 0);
#pragma unroll
    for (int i = 0; i < V; i++) {
        vec<Out, V> turned;
#pragma unroll
        for (int j = 0; j < V; j++)
            turned.at[j] = convert<Out>(v[j].at[i]);
        tile[lane + i][threadIdx.y ^ threadIdx.x] = turned;
    }
    __syncthreads();
#pragma unroll
    for (int s = 0; s < V; s++) {
        const int r = s * UNITS + threadIdx.y;
        store_unit<Out, V>(y + lane + r * a.y_row,
                           r < rows ? columns - lane : 0,
                           tile[r][threadIdx.x ^ (r / V)]);
    }
    __syncthreads();
}

/* The sides of a block's tile. */
template <typename Out, bool IN_UNITS>
static __host__ __device__ constexpr int tile_side(void)
{
    return IN_UNITS ? UNITS * 8 / (int)sizeof(Out) : TILE;
}

template <typename In, typename Out, bool IN_UNITS>
static __global__ void __launch_bounds__(256)
    transpose_kernel(const __grid_constant__ struct transpose_args a)
{
    constexpr int SIDE = tile_side<Out, IN_UNITS>();
    const int64_t column = blockIdx.x * (int64_t)SIDE;

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
        for (int64_t row = blockIdx.y * (int64_t)SIDE; row < a.rows;
             row += gridDim.y * (int64_t)SIDE) {
            const In *x = (const In *)a.x + from + row;
            Out *y = (Out *)a.y + to + row * a.y_row;

            if constexpr (IN_UNITS)
                transpose_units(a, x, y, a.rows - row, a.columns - column);
            else
                transpose_pairs(a, x, y, a.rows - row, a.columns - column);
        }
    }
}

/* True if all groups of n of one side start at multiples of their size. */
static bool has_groups(const void *at, size_t size, int n, int64_t side,
                       int rank, const int64_t *stride)
{
    bool even = (uintptr_t)at % (n * size) == 0 && side % n == 0;

    for (int d = 0; even && d < rank; d++)
        even = stride[d] % n == 0;
    return even;
}

template <typename In, typename Out, bool IN_UNITS>
static int start_transpose(const struct transpose_args *t,
                           const struct kern_args *args,
                           struct infer_error *err)
{
    constexpr int SIDE = tile_side<Out, IN_UNITS>();
    const int64_t rows = (t->rows + SIDE - 1) / SIDE;
    const dim3 grid(cuda_blocks(t->columns, SIDE),
                    (unsigned)(rows < 65535 ? rows : 65535),
                    (unsigned)(t->batch < 65535 ? t->batch : 65535));
    const dim3 block =
        IN_UNITS ? dim3(UNITS, UNITS) : dim3(TILE / 2, TILE_ROWS);

    return launch_chained(transpose_kernel<In, Out, IN_UNITS>, grid, block, 0,
                          args->stream, *t, err);
}

template <typename In, typename Out>
static int run(struct transpose_args *t, const struct kern_args *args,
               struct infer_error *err)
{
    if constexpr (sizeof(In) == sizeof(Out) && sizeof(Out) <= 2) {
        constexpr int V = 8 / (int)sizeof(Out);

        if (has_groups(t->x, sizeof(In), V, t->x_column, t->rank,
                       t->x_stride) &&
            has_groups(t->y, sizeof(Out), V, t->y_row, t->rank, t->y_stride))
            return start_transpose<In, Out, true>(t, args, err);
    }
    t->x_pairs =
        has_groups(t->x, sizeof(In), 2, t->x_column, t->rank, t->x_stride);
    t->y_pairs =
        has_groups(t->y, sizeof(Out), 2, t->y_row, t->rank, t->y_stride);
    return start_transpose<In, Out, false>(t, args, err);
}

#endif
