/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel of products by a table that are added by an accumulator
 * (kernels/table/accumulator.h): tiles, places and loading are those of
 * tile.cuh, operands are stored as they are, and the table is read as that of
 * slope.cuh, with w outermost.
 *
 * A thread keeps two sums an output, of the chunk and of the run, as bit
 * patterns.  A block computes one run of terms; where there are several,
 * accumulate_join() adds them in order.
 */
#ifndef KERNELS_CUDA_TABLE_ACCUMULATE_CUH
#define KERNELS_CUDA_TABLE_ACCUMULATE_CUH

#include "kernels/cuda/table/slope.cuh"
#include "kernels/table/accumulator.h"

struct accumulate_args {
    struct slope_args slope; /* of which tile alone counts */
    const int32_t *accumulator;
};

/* Adds a chunk's products. */
template <int KIND, int SCALARS, typename Shape, typename Table>
static __device__ __forceinline__ void
accumulate_add(const struct tile_args &a, const struct tile_shared<Shape> *s,
               const Table &table, int lower, int buffer, int column,
               int scalar, uint32_t (&sum)[SCALARS][TILE_LANE])
{
#pragma unroll 1
    for (int k = 0; k < Shape::terms; k++) {
        const uint4 v =
            *reinterpret_cast<const uint4 *>(&s->x[buffer][k][column]);
        const uint32_t x[TILE_LANE] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int j = 0; j < SCALARS; j++) {
            const uint32_t w = s->w[buffer][k][scalar + j].x;
            const uint32_t row = product_table_index(a.m, w) * table.q;
            const bool odd =
                (w & PRODUCT_TABLE_EXPONENT) == PRODUCT_TABLE_EXPONENT;
#pragma unroll
            for (int i = 0; i < TILE_LANE; i++) {
                const uint32_t entry = __float_as_uint(table.entry(
                    row + product_table_index(a.m, x[i]) * table.o));
                const uint32_t product = product_table_join(x[i], w, entry);
                /* Padding is zero, which only such w make something of. */
                if (!odd || slope_is_inside(a.g, s, buffer, k, column + i))
                    sum[j][i] =
                        accumulator_add(KIND, lower, sum[j][i], product);
            }
        }
    }
}

/* Adds the products of one tile; buffers are those of slope_run(). */
template <int KIND, int SCALARS, typename Shape, typename Table>
static __device__ __forceinline__ void
accumulate_run(const struct tile_args &a, const struct tile_task &t,
               const Table &table, int lower, int column, int scalar,
               struct tile_shared<Shape> *s, float (&total)[SCALARS][TILE_LANE])
{
    uint32_t x[Shape::x_own], w[Shape::w_own];
    uint32_t chunk[SCALARS][TILE_LANE] = {}, run[SCALARS][TILE_LANE] = {};

    __syncthreads(); /* the tile before has been multiplied */
    tile_place_columns(a, t, s);
    tile_place_terms(a, t, t.first, 0, s);
    tile_place_terms(a, t, t.first + Shape::terms, 1, s);
    __syncthreads();
    tile_load(a, t, t.first, 0, s, x, w);
    slope_store(a, 0, x, w, s);
    __syncthreads();
    for (int k = t.first, b = 0; k < t.end; k += Shape::terms, b ^= 1) {
        const bool last = k + Shape::terms >= t.end;
        if (!last)
            tile_load(a, t, k + Shape::terms, b ^ 1, s, x, w);
        accumulate_add<KIND, SCALARS>(a, s, table, lower, b, column, scalar,
                                      chunk);
        if (last || (k + Shape::terms) % ACCUMULATOR_CHUNK == 0) {
#pragma unroll
            for (int j = 0; j < SCALARS; j++)
#pragma unroll
                for (int i = 0; i < TILE_LANE; i++) {
                    run[j][i] =
                        accumulator_add(KIND, lower, run[j][i], chunk[j][i]);
                    chunk[j][i] = 0;
                }
        }
        if (!last)
            slope_store(a, b ^ 1, x, w, s);
        __syncthreads();
        tile_place_terms(a, t, k + 2 * Shape::terms, b, s);
        __syncthreads();
    }
#pragma unroll
    for (int j = 0; j < SCALARS; j++)
#pragma unroll
        for (int i = 0; i < TILE_LANE; i++)
            total[j][i] = table_float(run[j][i]);
}

template <bool SHARED, int WARPS, int SCALARS, int TERMS>
static __global__ void __launch_bounds__(TILE_THREADS, 2)
    accumulate_kernel(const __grid_constant__ struct accumulate_args a)
{
    typedef struct tile_shape<WARPS, SCALARS, TERMS> Shape;
    static_assert(ACCUMULATOR_CHUNK % TERMS == 0, "chunks of whole buffers");
    LAUNCH_SHARED(memory);
    struct tile_shared<Shape> *s = (struct tile_shared<Shape> *)memory;
    const struct tile_args &tile = a.slope.tile;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int column = (warp % WARPS * 32 + lane) * TILE_LANE;
    const int scalar = warp / WARPS * SCALARS;

    launch_wait();
    const int kind = a.accumulator[0], lower = a.accumulator[1];
    const struct slope_table<SHARED> table =
        slope_load<SHARED>(a.slope, (float *)(s + 1));
    if (threadIdx.x == 0) /* sums are not scaled */
        s->rules.unscale[0] = s->rules.unscale[1] = 1;
    for (int64_t i = blockIdx.x; i < tile.tasks; i += gridDim.x) {
        const struct tile_task t =
            tile_task_of(tile, i, Shape::columns, Shape::scalars);
        float sum[SCALARS][TILE_LANE];
        if (kind == ACCUMULATOR_FP32)
            accumulate_run<ACCUMULATOR_FP32, SCALARS>(tile, t, table, 0, column,
                                                      scalar, s, sum);
        else if (kind == ACCUMULATOR_BF16)
            accumulate_run<ACCUMULATOR_BF16, SCALARS>(tile, t, table, 0, column,
                                                      scalar, s, sum);
        else
            accumulate_run<ACCUMULATOR_LOA, SCALARS>(tile, t, table, lower,
                                                     column, scalar, s, sum);
        tile_results<SCALARS>(tile, t, column, scalar, s->rules, sum);
    }
}

/* Adds the runs' sums: one thread an output. */
static __global__ void __launch_bounds__(TILE_THREADS)
    accumulate_join(const __grid_constant__ struct accumulate_args args)
{
    const struct tile_args &a = args.slope.tile;
    const struct table_geometry &g = a.g;
    const int64_t columns = g.columns();
    const int64_t count = (int64_t)g.groups * g.scalars * columns;

    launch_wait();
    const int kind = args.accumulator[0], lower = args.accumulator[1];
    for (int64_t i = blockIdx.x * (int64_t)TILE_THREADS + threadIdx.x;
         i < count; i += (int64_t)gridDim.x * TILE_THREADS) {
        const int k = (int)(i / columns);
        const struct tile_column place =
            tile_column_of(a, k / g.scalars, (int)(i % columns));
        uint32_t sum = 0;
        if (!place.valid)
            continue;
        for (int s = 0; s < a.splits; s++)
            sum = accumulator_add(kind, lower, sum,
                                  __float_as_uint(a.parts[s * count + i]));
        tile_finish(a, place.out, place.add, k, table_float(sum));
    }
}

#endif
