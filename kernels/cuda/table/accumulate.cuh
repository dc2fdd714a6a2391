/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel of products by a table that are added by an accumulator
 * (kernels/table/accumulator.h): tiles, places and loading are those of
 * tile.cuh.
 *
 * A product is the mantissa of the table, in [1, 4), times the powers of two of
 * x and of w, each an exact product in single precision: what is too small
 * becomes zero and what is too large infinity, as product_table_join() has it.
 * A buffer of terms with an infinity, a NaN or an x of 2^127 and more is loaded
 * again as it is and multiplied by that function.  A buffer whose x are all
 * zero is skipped.
 *
 * The table is kept in shared memory with w outermost, in bytes if all its
 * entries are such: then the lanes of a warp, which have one w, read it without
 * bank conflicts.
 *
 * A thread keeps an output's sums of the chunk and of the run.  A block
 * computes one run of terms, or stores the sum of each chunk, where runs alone
 * give a GPU too few blocks; accumulate_join() adds runs or chunks in order.
 *
 * Zeros: a chunk's sum of zero may have the other sign than that of
 * accumulator_add(); no sum of chunks depends on it.
 */
#ifndef KERNELS_CUDA_TABLE_ACCUMULATE_CUH
#define KERNELS_CUDA_TABLE_ACCUMULATE_CUH

#include "kernels/cuda/table/accumulate_plan.cuh"
#include "kernels/table/accumulator.h"

struct accumulate_args {
    struct tile_args tile;
    const int32_t *accumulator;
    bool chunks; /* parts are sums of chunks, else of runs */
    int count;   /* of parts */
};

/* Exponents of x from here on are not taken by the fast path. */
#define ACCUMULATE_X_MOST 253

/* ---- the table ----------------------------------------------------- */

enum accumulate_form { ACCUMULATE_BYTES, ACCUMULATE_WORDS, ACCUMULATE_GLOBAL };

/* What is kept of x: where its column begins, and its power of two. */
struct accumulate_operand {
    uint32_t at;
    float power;
};

static __device__ __forceinline__ float accumulate_power(uint32_t v)
{
    return table_float(v & ~PRODUCT_TABLE_FRACTION);
}

/* Mantissas of products as numbers, for entries of a byte (the highest of 24
 * bits), in shared memory. */
struct accumulate_bytes_table {
    uint32_t table;
    int shift;
    uint32_t mask;

    __device__ __forceinline__ uint32_t column(uint32_t x) const
    {
        return table + (x >> shift & mask);
    }
    __device__ __forceinline__ float mantissa(uint32_t at) const
    {
        uint32_t entry;

        asm("ld.shared.u8 %0, [%1];" : "=r"(entry) : "r"(at));
        return table_float((entry << 16) + (127u << 23));
    }
};

/* Of any entries, which are numbers in shared memory already. */
struct accumulate_words_table {
    uint32_t table;
    int shift;
    uint32_t mask;

    __device__ __forceinline__ uint32_t column(uint32_t x) const
    {
        return table + (x >> shift & mask) * 4;
    }
    __device__ __forceinline__ float mantissa(uint32_t at) const
    {
        float v;

        asm("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(at));
        return v;
    }
};

/* Where it is. */
struct accumulate_global_table {
    const uint32_t *table;
    int shift;
    uint32_t mask, x_step;

    __device__ __forceinline__ uint32_t column(uint32_t x) const
    {
        return (x >> shift & mask) * x_step;
    }
    __device__ __forceinline__ float mantissa(uint32_t at) const
    {
        return table_float(__ldg(table + at) + (127u << 23));
    }
};

/* The place of the i-th of the entries, or of the quadruples of x: eight
 * neighbouring lanes have one x, or four, and neighbouring w. */
static __device__ __forceinline__ void
accumulate_entry(uint32_t i, uint32_t side, uint32_t each, uint32_t *x,
                 uint32_t *w)
{
    const uint32_t across = min(side, 8u), rest = i / across;

    *x = rest % (side / each) * each;
    *w = rest / (side / each) * across + i % across;
}

/* Brings the table to shared memory; true if it is there in bytes. */
static __device__ bool accumulate_load(const struct tile_args &a,
                                       unsigned char *to)
{
    const uint32_t side = 1u << a.m, all = side * side;
    const uint32_t each = min(side, 4u);
    uint32_t bits = 0, x, w;

#pragma unroll 4
    for (uint32_t i = threadIdx.x; i < all / each; i += TILE_THREADS) {
        accumulate_entry(i, side, each, &x, &w);
        uint32_t v = 0;
#pragma unroll
        for (uint32_t j = 0; j < 4; j++) {
            if (j >= each)
                continue;
            const uint32_t entry = a.table[(x + j) * a.row + w * a.column];
            bits |= entry;
            v |= (entry >> 16) << 8 * j;
        }
        if (each == 4)
            *(uint32_t *)(to + w * side + x) = v;
        else
            *(uint16_t *)(to + w * side + x) = (uint16_t)v;
    }
    if (!__syncthreads_or((bits & 0xffff) != 0))
        return true;
#pragma unroll 8
    for (uint32_t i = threadIdx.x; i < all; i += TILE_THREADS) {
        accumulate_entry(i, side, 1, &x, &w);
        ((uint32_t *)to)[w * side + x] =
            a.table[x * a.row + w * a.column] + (127u << 23);
    }
    return false;
}

/* What a thread has to know: its place in the tile, the accumulator, the table
 * and the step from row to row in it. */
struct accumulate_place {
    int column, scalar, kind, lower;
    enum accumulate_form form;
    uint32_t table, row_step;
};

/* ---- storing a buffer of terms ------------------------------------- */

/* x as it is, and of w the place of its row and its power of two, or (RAW) w as
 * it is. */
template <bool RAW, typename Shape>
static __device__ __forceinline__ void
accumulate_store(const struct tile_args &a, uint32_t row_step, int buffer,
                 int mark, const uint32_t *x, const uint32_t *w,
                 struct tile_shared<Shape> *s)
{
    bool more = false, rough = false;
    int term, across;

#pragma unroll
    for (int i = 0; i < Shape::x_own; i++) {
        tile_element<Shape::terms, Shape::columns>(a.x_along_terms, i, &term,
                                                   &across);
        const uint32_t e = (x[i] & PRODUCT_TABLE_EXPONENT) >> 23;
        more = more || e != 0;
        rough = rough || e > ACCUMULATE_X_MOST;
        s->x[buffer][term][across] = x[i];
    }
#pragma unroll
    for (int i = 0; i < Shape::w_own; i++) {
        tile_element<Shape::terms, Shape::scalars>(a.w_along_terms, i, &term,
                                                   &across);
        if (term >= Shape::terms || across >= Shape::scalars)
            continue;
        rough =
            rough || (w[i] & PRODUCT_TABLE_EXPONENT) == PRODUCT_TABLE_EXPONENT;
        s->w[buffer][term][across] =
            RAW ? make_uint2(w[i], 0)
                : make_uint2(product_table_index(a.m, w[i]) * row_step,
                             __float_as_uint(accumulate_power(w[i])));
    }
    if (more)
        s->more[mark] = 1;
    if (rough)
        s->rough[mark] = 1;
}

/* ---- products and sums --------------------------------------------- */

static __device__ __forceinline__ float flushed_product(float a, float b)
{
    float v;

    asm("mul.rn.ftz.f32 %0, %1, %2;" : "=f"(v) : "f"(a), "f"(b));
    return v;
}

static __device__ __forceinline__ float flushed_sum(float a, float b)
{
    float v;

    asm("add.rn.ftz.f32 %0, %1, %2;" : "=f"(v) : "f"(a), "f"(b));
    return v;
}

/* Both rounded to 8 significant bits. */
static __device__ __forceinline__ void accumulate_round(float *a, float *b)
{
#if __CUDA_ARCH__ >= 800
    uint32_t both;

    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(*b), "f"(*a));
    *a = table_float(both << 16);
    *b = table_float(both & 0xffff0000u);
#else
    *a = table_float(accumulator_to_bf16(__float_as_uint(*a)));
    *b = table_float(accumulator_to_bf16(__float_as_uint(*b)));
#endif
}

/* sum + term, of any kind. */
static __device__ __noinline__ float accumulate_any(int kind, int lower,
                                                    float sum, float term)
{
    return table_float(accumulator_add(kind, lower, __float_as_uint(sum),
                                       __float_as_uint(term)));
}

/* The same of this kind, whose code is too long to be everywhere. */
static __device__ __noinline__ float accumulate_loa(int lower, float sum,
                                                    float term)
{
    return table_float(accumulator_add(
        ACCUMULATOR_LOA, lower, __float_as_uint(sum), __float_as_uint(term)));
}

/* Adds two finite or infinite terms to the sums of their chunks. */
template <int KIND>
static __device__ __forceinline__ void
accumulate_pair(int lower, float a, float b, float *sum_a, float *sum_b)
{
    if constexpr (KIND == ACCUMULATOR_LOA) {
        *sum_a = accumulate_loa(lower, *sum_a, a);
        *sum_b = accumulate_loa(lower, *sum_b, b);
    } else {
        *sum_a = flushed_sum(*sum_a, a);
        *sum_b = flushed_sum(*sum_b, b);
        if constexpr (KIND == ACCUMULATOR_BF16)
            accumulate_round(sum_a, sum_b);
    }
}

/* Adds a buffer's products. */
template <int KIND, int SCALARS, typename Shape, typename Table>
static __device__ __forceinline__ void
accumulate_add(const Table &table, const struct tile_shared<Shape> *s,
               int buffer, int column, int scalar, int lower,
               float (&sum)[SCALARS][TILE_LANE])
{
#pragma unroll 1
    for (int k = 0; k < Shape::terms; k++) {
        const uint4 v =
            *reinterpret_cast<const uint4 *>(&s->x[buffer][k][column]);
        const uint32_t x[TILE_LANE] = {v.x, v.y, v.z, v.w};
        struct accumulate_operand o[TILE_LANE];
#pragma unroll
        for (int i = 0; i < TILE_LANE; i++)
            o[i] = {table.column(x[i]), accumulate_power(x[i])};
#pragma unroll
        for (int j = 0; j < SCALARS; j++) {
            const uint2 w = s->w[buffer][k][scalar + j];
            const float power = table_float(w.y);
            float term[TILE_LANE];
#pragma unroll
            for (int i = 0; i < TILE_LANE; i++)
                term[i] = flushed_product(
                    table.mantissa(o[i].at + w.x) * o[i].power, power);
#pragma unroll
            for (int i = 0; i < TILE_LANE; i += 2)
                accumulate_pair<KIND>(lower, term[i], term[i + 1], &sum[j][i],
                                      &sum[j][i + 1]);
        }
    }
}

/* Adds a buffer's products from a table of any form. */
template <int KIND, int SCALARS, typename Shape>
static __device__ __forceinline__ void
accumulate_add_from(const struct tile_args &a, enum accumulate_form form,
                    uint32_t table, const struct tile_shared<Shape> *s,
                    int buffer, int column, int scalar, int lower,
                    float (&sum)[SCALARS][TILE_LANE])
{
    const int shift = 23 - a.m;
    const uint32_t mask = (1u << a.m) - 1;

    if (form == ACCUMULATE_BYTES)
        accumulate_add<KIND, SCALARS>(
            accumulate_bytes_table{table, shift, mask}, s, buffer, column,
            scalar, lower, sum);
    else if (form == ACCUMULATE_WORDS)
        accumulate_add<KIND, SCALARS>(
            accumulate_words_table{table, shift, mask}, s, buffer, column,
            scalar, lower, sum);
    else
        accumulate_add<KIND, SCALARS>(
            accumulate_global_table{a.table, shift, mask, (uint32_t)a.row}, s,
            buffer, column, scalar, lower, sum);
}

/* sum + x w, operands as they are. */
static __device__ __noinline__ float
accumulate_rough_product(const struct tile_args &a, int kind, int lower,
                         uint32_t x, uint32_t w, float sum)
{
    const uint32_t entry = a.table[product_table_index(a.m, x) * a.row +
                                   product_table_index(a.m, w) * a.column];

    return table_float(accumulator_add(kind, lower, __float_as_uint(sum),
                                       product_table_join(x, w, entry)));
}

/* Adds the products of a buffer of any operands, stored as they are. */
template <int SCALARS, typename Shape>
static __device__ __forceinline__ void accumulate_add_rough(
    const struct tile_args &a, const struct tile_shared<Shape> *s, int buffer,
    const struct accumulate_place &p, float (&sum)[SCALARS][TILE_LANE])
{
#pragma unroll 1
    for (int k = 0; k < Shape::terms; k++) {
#pragma unroll
        for (int i = 0; i < TILE_LANE; i++) {
            if (!tile_is_inside(a.g, s, buffer, k, p.column + i))
                continue;
#pragma unroll
            for (int j = 0; j < SCALARS; j++)
                sum[j][i] = accumulate_rough_product(
                    a, p.kind, p.lower, s->x[buffer][k][p.column + i],
                    s->w[buffer][k][p.scalar + j].x, sum[j][i]);
        }
    }
}

/* ---- a tile -------------------------------------------------------- */

/* Stores a tile's sums of a run or of a chunk. */
template <int SCALARS>
static __device__ __forceinline__ void
accumulate_part(const struct tile_args &a, const struct tile_task &t, int part,
                int column, int scalar, const float (&sum)[SCALARS][TILE_LANE])
{
    const struct table_geometry &g = a.g;
    const int columns = g.columns();

#pragma unroll
    for (int j = 0; j < SCALARS; j++) {
        const int k = t.scalar + scalar + j;
        if (k >= g.scalars)
            continue;
        float *to = a.parts + ((int64_t)part * g.groups * g.scalars +
                               t.group * g.scalars + k) *
                                  columns;
#pragma unroll
        for (int i = 0; i < TILE_LANE; i++)
            if (t.column + column + i < columns)
                to[t.column + column + i] = sum[j][i];
    }
}

/* Adds the products of a buffer. */
template <int SCALARS, typename Shape>
static __device__ __forceinline__ void
accumulate_add_any(const struct tile_args &a, const struct accumulate_place &p,
                   const struct tile_shared<Shape> *s, int buffer,
                   float (&sum)[SCALARS][TILE_LANE])
{
    if (p.kind == ACCUMULATOR_FP32)
        accumulate_add_from<ACCUMULATOR_FP32, SCALARS>(
            a, p.form, p.table, s, buffer, p.column, p.scalar, p.lower, sum);
    else if (p.kind == ACCUMULATOR_BF16)
        accumulate_add_from<ACCUMULATOR_BF16, SCALARS>(
            a, p.form, p.table, s, buffer, p.column, p.scalar, p.lower, sum);
    else
        accumulate_add_from<ACCUMULATOR_LOA, SCALARS>(
            a, p.form, p.table, s, buffer, p.column, p.scalar, p.lower, sum);
}

/* Ends a chunk: its sums are added to those of the run, or stored. */
template <int SCALARS>
static __device__ __forceinline__ void accumulate_end_chunk(
    const struct accumulate_args &args, const struct tile_task &t, int chunk,
    const struct accumulate_place &p, float (&sum)[SCALARS][TILE_LANE],
    float (&run)[SCALARS][TILE_LANE])
{
    if (args.chunks)
        accumulate_part<SCALARS>(args.tile, t, chunk, p.column, p.scalar, sum);
#pragma unroll
    for (int j = 0; j < SCALARS; j++)
#pragma unroll
        for (int i = 0; i < TILE_LANE; i++) {
            if (!args.chunks)
                run[j][i] =
                    accumulate_any(p.kind, p.lower, run[j][i], sum[j][i]);
            sum[j][i] = 0;
        }
}

/* Adds the products of one tile; buffers and marks are those of tile_run().
 * What is left is the sum of the run. */
template <int SCALARS, typename Shape>
static __device__ __forceinline__ void
accumulate_run(const struct accumulate_args &args, const struct tile_task &t,
               const struct accumulate_place &p, struct tile_shared<Shape> *s,
               float (&run)[SCALARS][TILE_LANE])
{
    const struct tile_args &a = args.tile;
    uint32_t x[Shape::x_own], w[Shape::w_own];
    float sum[SCALARS][TILE_LANE] = {};
    int mark = 0;

    __syncthreads(); /* the tile before has been multiplied */
    if (threadIdx.x < 3)
        s->more[threadIdx.x] = s->rough[threadIdx.x] = 0;
    tile_place_columns(a, t, s);
    tile_place_terms(a, t, t.first, 0, s);
    tile_place_terms(a, t, t.first + Shape::terms, 1, s);
    __syncthreads();
    tile_load(a, t, t.first, 0, s, x, w);
    accumulate_store<false>(a, p.row_step, 0, 0, x, w, s);
    __syncthreads();
    for (int k = t.first, b = 0; k < t.end; k += Shape::terms, b ^= 1) {
        const bool last = k + Shape::terms >= t.end;
        const int next = mark == 2 ? 0 : mark + 1;
        const bool rough = s->rough[mark], more = s->more[mark];
        if (rough) { /* all threads, or none */
            tile_load(a, t, k, b, s, x, w);
            __syncthreads();
            accumulate_store<true>(a, p.row_step, b, mark, x, w, s);
            __syncthreads();
            accumulate_add_rough<SCALARS>(a, s, b, p, sum);
        }
        if (!last)
            tile_load(a, t, k + Shape::terms, b ^ 1, s, x, w);
        if (more && !rough)
            accumulate_add_any<SCALARS>(a, p, s, b, sum);
        if (threadIdx.x == 0) {
            const int after = next == 2 ? 0 : next + 1;
            s->more[after] = s->rough[after] = 0;
        }
        if (!last)
            accumulate_store<false>(a, p.row_step, b ^ 1, next, x, w, s);
        if (rough) /* which looked at the places of these terms */
            __syncthreads();
        tile_place_terms(a, t, k + 2 * Shape::terms, b, s);
        if (last || (k + Shape::terms) % ACCUMULATOR_CHUNK == 0)
            accumulate_end_chunk<SCALARS>(args, t, k / ACCUMULATOR_CHUNK, p,
                                          sum, run);
        __syncthreads();
        mark = next;
    }
}

/* room: bytes of shared memory for the table; 0: it stays where it is. */
template <int WARPS, int SCALARS, int TERMS>
static __global__ void __launch_bounds__(TILE_THREADS, 2)
    accumulate_kernel(const __grid_constant__ struct accumulate_args a)
{
    typedef struct tile_shape<WARPS, SCALARS, TERMS> Shape;
    static_assert(ACCUMULATOR_CHUNK % TERMS == 0, "chunks of whole buffers");
    LAUNCH_SHARED(memory);
    struct tile_shared<Shape> *s = (struct tile_shared<Shape> *)memory;
    unsigned char *table = (unsigned char *)(s + 1);
    const struct tile_args &tile = a.tile;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    struct accumulate_place p;

    launch_wait();
    p.column = (warp % WARPS * 32 + lane) * TILE_LANE;
    p.scalar = warp / WARPS * SCALARS;
    p.kind = a.accumulator[0];
    p.lower = a.accumulator[1];
    p.table = (uint32_t)__cvta_generic_to_shared(table);
    p.form = tile.room == 0                 ? ACCUMULATE_GLOBAL
             : accumulate_load(tile, table) ? ACCUMULATE_BYTES
                                            : ACCUMULATE_WORDS;
    p.row_step = p.form == ACCUMULATE_GLOBAL  ? (uint32_t)tile.column
                 : p.form == ACCUMULATE_WORDS ? 4u << tile.m
                                              : 1u << tile.m;
    if (threadIdx.x == 0) /* sums are not scaled */
        s->rules.unscale[0] = s->rules.unscale[1] = 1;
    for (int64_t i = blockIdx.x; i < tile.tasks; i += gridDim.x) {
        const struct tile_task t =
            tile_task_of(tile, i, Shape::columns, Shape::scalars);
        float run[SCALARS][TILE_LANE] = {};
        accumulate_run<SCALARS>(a, t, p, s, run);
        if (a.chunks)
            continue;
        if (tile.parts)
            accumulate_part<SCALARS>(tile, t, t.split, p.column, p.scalar, run);
        else
            tile_results<SCALARS>(tile, t, p.column, p.scalar, s->rules, run);
    }
}

/* ---- sums of parts ------------------------------------------------- */

/* Adds the sums of the runs, or of the chunks: one thread an output. */
static __global__ void __launch_bounds__(TILE_THREADS)
    accumulate_join(const __grid_constant__ struct accumulate_args args)
{
    enum { AT_ONCE = 8 };
    const struct tile_args &a = args.tile;
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
        float sum = 0, run = 0;
        if (!place.valid)
            continue;
        for (int first = 0; first < args.count; first += AT_ONCE) {
            float part[AT_ONCE];
#pragma unroll
            for (int j = 0; j < AT_ONCE; j++) /* zeros are not added */
                part[j] = first + j < args.count
                              ? a.parts[(first + j) * count + i]
                              : 0;
#pragma unroll
            for (int j = 0; j < AT_ONCE; j++)
                run = accumulate_any(kind, lower, run, part[j]);
            if (args.chunks && (first + AT_ONCE) % ACCUMULATOR_CHUNK == 0) {
                sum = accumulate_any(kind, lower, sum, run);
                run = 0;
            }
        }
        sum = args.chunks ? accumulate_any(kind, lower, sum, run) : run;
        tile_finish(a, place.out, place.add, k, sum);
    }
}

#endif
