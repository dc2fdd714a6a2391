/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel of gradients by derivatives of a product
 * (kernels/table/product_slope.h): tiles, places and loading are those of
 * tile.cuh.
 *
 * A column and a scalar have one point, so that the indices of a thread's
 * points stay in registers.  Of q = w all lanes of a warp have the same one:
 * the table is kept with q outermost, in shared memory if it fits there.
 *
 * Operands are stored as they are.  Where w is infinite or NaN each product
 * looks again whether its x is inside: padding has no product.  Derivatives may
 * be infinite too: a tile whose sums are not all numbers is computed again, and
 * every product looks then.
 */
#ifndef KERNELS_CUDA_TABLE_SLOPE_CUH
#define KERNELS_CUDA_TABLE_SLOPE_CUH

#include "kernels/cuda/table/tile.cuh"

struct slope_args {
    struct tile_args tile;
    const uint32_t *point;
    int point_stride[5]; /* as those of the residual */
    bool w_is_gradient;  /* else x is */
};

/* The table as a thread reads it: steps from o to o and from q to q, of bytes
 * from an address of shared memory on, or of elements where it lies. */
template <bool SHARED> struct slope_table {
    const float *at;
    uint32_t address, o, q;

    __device__ __forceinline__ float entry(uint32_t place) const
    {
        if constexpr (SHARED) {
            float v;
            asm("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(address + place));
            return v;
        } else {
            return __ldg(at + place);
        }
    }
};

/* q with significand 1; a NaN stays one, subnormal numbers become zero. */
static __device__ __forceinline__ float slope_scale(uint32_t q)
{
    const bool nan = (q << 1) > (PRODUCT_TABLE_EXPONENT << 1);

    return table_float(nan ? q : q & ~PRODUCT_TABLE_FRACTION);
}

/* Brings the table to shared memory, q outermost. */
template <bool SHARED>
static __device__ __forceinline__ struct slope_table<SHARED>
slope_load(const struct slope_args &a, float *to) {
    const struct tile_args &t = a.tile;
    const float *from = (const float *)t.table;
    const uint32_t side = 1u << t.m;

    if constexpr (SHARED) {
        for (uint32_t i = threadIdx.x; i >> 2 * t.m == 0; i += TILE_THREADS)
            to[i] = from[(i & (side - 1)) * t.row + (i >> t.m) * t.column];
        return {to, (uint32_t)__cvta_generic_to_shared(to), sizeof(float),
                side * (uint32_t)sizeof(float)};
    } else {
        return {from, 0, (uint32_t)t.row, (uint32_t)t.column};
    }
}

/* Stores a chunk as it is. */
template <typename Shape>
static __device__ __forceinline__ void
slope_store(const struct tile_args &a, int buffer, const uint32_t *x,
            const uint32_t *w, struct tile_shared<Shape> *s)
{
    int term, across;

#pragma unroll
    for (int i = 0; i < Shape::x_own; i++) {
        tile_element<Shape::terms, Shape::columns>(a.x_along_terms, i, &term,
                                                   &across);
        s->x[buffer][term][across] = x[i];
    }
#pragma unroll
    for (int i = 0; i < Shape::w_own; i++) {
        tile_element<Shape::terms, Shape::scalars>(a.w_along_terms, i, &term,
                                                   &across);
        if (term < Shape::terms && across < Shape::scalars)
            s->w[buffer][term][across] = make_uint2(w[i], 0);
    }
}

/* What the points of this thread's outputs add to an entry's place. */
template <int SCALARS>
static __device__ __forceinline__ void
slope_points(const struct slope_args &a, const struct tile_task &t,
             uint32_t o_step, int column, int scalar,
             uint32_t (&o)[SCALARS][TILE_LANE])
{
    const struct table_geometry &g = a.tile.g;
    const int step = a.point_stride[g.wgrad ? 0 : 1];

#pragma unroll
    for (int i = 0; i < TILE_LANE; i++) {
        const int c = t.column + column + i;
        int at[4];
        bool valid = c < g.columns();
        uint32_t offset = 0;
        if (valid && g.wgrad) {
            g.tap(c, at);
            offset = g.tap_offset(a.point_stride, t.group, at);
        } else if (valid) {
            valid = g.pixel(c, at);
            offset = g.pixel_offset(a.point_stride, at);
        }
#pragma unroll
        for (int j = 0; j < SCALARS; j++) {
            const int k = t.scalar + scalar + j;
            const uint32_t of_k = (uint32_t)(t.group * g.scalars + k) * step;
            o[j][i] = 0;
            if (valid && k < g.scalars)
                o[j][i] = product_table_index(a.tile.m,
                                              a.point[(int)(offset + of_k)]) *
                          o_step;
        }
    }
}

/* Adds a chunk's products; W: w is the gradient; LOOK: each looks whether its x
 * is inside. */
template <bool W, bool LOOK, int SCALARS, typename Shape, typename Table>
static __device__ __forceinline__ void
slope_add(const struct slope_args &a, const struct tile_shared<Shape> *s,
          const Table &table, int buffer, int column, int scalar,
          const uint32_t (&o)[SCALARS][TILE_LANE],
          float (&sum)[SCALARS][TILE_LANE])
{
    const int m = a.tile.m;

#pragma unroll 1
    for (int k = 0; k < Shape::terms; k++) {
        const uint4 v =
            *reinterpret_cast<const uint4 *>(&s->x[buffer][k][column]);
        const uint32_t x[TILE_LANE] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int j = 0; j < SCALARS; j++) {
            const uint32_t w = s->w[buffer][k][scalar + j].x;
            const bool odd =
                LOOK || (w & PRODUCT_TABLE_EXPONENT) == PRODUCT_TABLE_EXPONENT;
#pragma unroll
            for (int i = 0; i < TILE_LANE; i++) {
                const uint32_t q = W ? x[i] : w, g = W ? w : x[i];
                const float slope =
                    table.entry(product_table_index(m, q) * table.q + o[j][i]) *
                    slope_scale(q);
                if (!odd || tile_is_inside(a.tile.g, s, buffer, k, column + i))
                    sum[j][i] = fmaf(table_float(g), slope, sum[j][i]);
            }
        }
    }
}

/* Multiplies one tile; chunk c is in buffer c % 2. */
template <bool W, bool LOOK, int SCALARS, typename Shape, typename Table>
static __device__ __forceinline__ void
slope_run(const struct slope_args &a, const struct tile_task &t,
          const Table &table, int column, int scalar,
          struct tile_shared<Shape> *s, float (&sum)[SCALARS][TILE_LANE])
{
    uint32_t x[Shape::x_own], w[Shape::w_own], o[SCALARS][TILE_LANE];

    __syncthreads(); /* the tile before has been multiplied */
    tile_place_columns(a.tile, t, s);
    tile_place_terms(a.tile, t, t.first, 0, s);
    tile_place_terms(a.tile, t, t.first + Shape::terms, 1, s);
    slope_points<SCALARS>(a, t, table.o, column, scalar, o);
    __syncthreads();
    tile_load(a.tile, t, t.first, 0, s, x, w);
    slope_store(a.tile, 0, x, w, s);
    __syncthreads();
    for (int k = t.first, b = 0; k < t.end; k += Shape::terms, b ^= 1) {
        const bool last = k + Shape::terms >= t.end;
        if (!last)
            tile_load(a.tile, t, k + Shape::terms, b ^ 1, s, x, w);
        slope_add<W, LOOK, SCALARS>(a, s, table, b, column, scalar, o, sum);
        if (!last)
            slope_store(a.tile, b ^ 1, x, w, s);
        __syncthreads();
        tile_place_terms(a.tile, t, k + 2 * Shape::terms, b, s);
        __syncthreads();
    }
}

/* The sums of one tile. */
template <bool W, int SCALARS, typename Shape, typename Table>
static __device__ __forceinline__ void
slope_tile(const struct slope_args &a, const struct tile_task &t,
           const Table &table, int column, int scalar,
           struct tile_shared<Shape> *s, float (&sum)[SCALARS][TILE_LANE])
{
    bool nan = false;

    slope_run<W, false, SCALARS>(a, t, table, column, scalar, s, sum);
#pragma unroll
    for (int j = 0; j < SCALARS; j++)
#pragma unroll
        for (int i = 0; i < TILE_LANE; i++)
            nan = nan || isnan(sum[j][i]);
    if (!__syncthreads_or(nan))
        return;
#pragma unroll
    for (int j = 0; j < SCALARS; j++)
#pragma unroll
        for (int i = 0; i < TILE_LANE; i++)
            sum[j][i] = 0;
    slope_run<W, true, SCALARS>(a, t, table, column, scalar, s, sum);
}

template <bool SHARED, int WARPS, int SCALARS, int TERMS>
static __global__ void __launch_bounds__(TILE_THREADS, 2)
    slope_kernel(const __grid_constant__ struct slope_args a)
{
    typedef struct tile_shape<WARPS, SCALARS, TERMS> Shape;
    LAUNCH_SHARED(memory);
    struct tile_shared<Shape> *s = (struct tile_shared<Shape> *)memory;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int column = (warp % WARPS * 32 + lane) * TILE_LANE;
    const int scalar = warp / WARPS * SCALARS;

    launch_wait();
    const struct slope_table<SHARED> table =
        slope_load<SHARED>(a, (float *)(s + 1));
    if (threadIdx.x == 0) /* sums are not scaled */
        s->rules.unscale[0] = s->rules.unscale[1] = 1;
    for (int64_t i = blockIdx.x; i < a.tile.tasks; i += gridDim.x) {
        const struct tile_task t =
            tile_task_of(a.tile, i, Shape::columns, Shape::scalars);
        float sum[SCALARS][TILE_LANE] = {};
        if (a.w_is_gradient)
            slope_tile<true, SCALARS>(a, t, table, column, scalar, s, sum);
        else
            slope_tile<false, SCALARS>(a, t, table, column, scalar, s, sum);
        tile_results<SCALARS>(a.tile, t, column, scalar, s->rules, sum);
    }
}

#endif
