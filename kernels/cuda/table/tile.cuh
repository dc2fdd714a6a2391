/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel of products by a table.
 *
 * A block of 256 threads computes tiles of 128 WARPS columns times
 * (8 / WARPS) SCALARS scalars (geometry.cuh).  A lane has 4 adjacent columns,
 * a warp SCALARS scalars, so that all lanes of a warp multiply by the same w:
 * they read one row of the table.  TERMS terms at a time are brought to shared
 * memory, x' and (first, power) of w, while those before are multiplied.  Sums
 * are in single precision, in the order of the terms; terms may be split over
 * blocks, whose sums finish.cuh adds in order.
 *
 * Shared memory: the table, if the engine has one there; two buffers of TERMS
 * rows of x' (4 bytes) and of w (8 bytes), padded by 4 and 2 elements to spread
 * stores along terms over banks; places of columns and terms.
 *
 * A chunk of terms without an x that is not zero is skipped.  A chunk with an
 * operand that is not plain (engine.cuh) is loaded again as it is, and
 * multiplied by product_table_join().
 */
#ifndef KERNELS_CUDA_TABLE_TILE_CUH
#define KERNELS_CUDA_TABLE_TILE_CUH

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/table/conditional.h"
#include "kernels/cuda/table/engine.cuh"
#include "kernels/cuda/table/geometry.cuh"

#define TILE_THREADS 256
#define TILE_WARPS   (TILE_THREADS / 32)
#define TILE_LANE    4 /* columns of a lane */

struct tile_args {
    struct table_geometry g;
    const uint32_t *x, *w, *table;
    const struct table_facts *facts;
    const struct factor_facts *unless; /* plain; NULL: always */
    bool rough_alone;                  /* runs only where facts say rough */
    int64_t row, column;               /* strides of the table */
    int m;
    size_t room; /* bytes of shared memory for the table */
    bool x_along_terms, w_along_terms; /* neighbouring threads load these */
    int column_blocks, scalar_blocks, splits, split_terms;
    int64_t tasks;
    float *parts; /* [splits][groups x scalars][columns], or NULL */
    enum infer_dtype bias_type;
    int64_t bias_step;
    bool residual;
    struct kern_epilogue epilogue;
    const void *bias;
    const float *r;
    float *y;
};

template <int WARPS, int SCALARS, int TERMS> struct tile_shape {
    static const int columns = 32 * TILE_LANE * WARPS;
    static const int scalars = TILE_WARPS / WARPS * SCALARS;
    static const int terms = TERMS;
    static const int x_pitch = columns + 4;
    static const int w_pitch = scalars + 2;
    static const int x_own = columns * TERMS / TILE_THREADS; /* of a thread */
    static const int w_own =
        (scalars * TERMS + TILE_THREADS - 1) / TILE_THREADS;
};

/* Shared memory of a block, followed by the table. */
template <typename Shape> struct tile_shared {
    alignas(16) uint32_t x[2][Shape::terms][Shape::x_pitch];
    alignas(16) uint2 w[2][Shape::terms][Shape::w_pitch];
    alignas(16) struct table_place column[Shape::columns];
    alignas(16) struct table_place term[2][Shape::terms];
    uint32_t term_w[2][Shape::terms]; /* offsets in w */
    int more[3];                      /* a chunk has an x that is not zero */
    int rough[3]; /* a chunk has an operand that is not plain */
    struct table_rules rules;
};

/* What a block works on. */
struct tile_task {
    int group, column, scalar, split, first, end; /* terms first .. end - 1 */
};

static __device__ __forceinline__ struct tile_task
tile_task_of(const struct tile_args &a, int64_t i, int columns, int scalars)
{
    struct tile_task t;

    t.scalar = (int)(i % a.scalar_blocks) * scalars;
    i /= a.scalar_blocks;
    t.column = (int)(i % a.column_blocks) * columns;
    i /= a.column_blocks;
    t.split = (int)(i % a.splits);
    t.group = (int)(i / a.splits);
    t.first = t.split * a.split_terms;
    t.end = min(a.g.terms(), t.first + a.split_terms);
    return t;
}

/* ---- places -------------------------------------------------------- */

template <typename Shape>
static __device__ void tile_place_columns(const struct tile_args &a,
                                          const struct tile_task &t,
                                          struct tile_shared<Shape> *s)
{
    int at[4];

    for (int i = threadIdx.x; i < Shape::columns; i += TILE_THREADS) {
        const int c = t.column + i;
        const bool valid = c < a.g.columns();
        s->column[i] = a.g.wgrad ? a.g.tap_place(c, valid, t.group, at)
                                 : a.g.pixel_place(c, valid, at);
    }
}

/* Places of the terms from `first` on. */
template <typename Shape>
static __device__ void
tile_place_terms(const struct tile_args &a, const struct tile_task &t,
                 int first, int buffer, struct tile_shared<Shape> *s)
{
    const struct table_geometry &g = a.g;
    const int i = threadIdx.x, term = first + i;
    const bool valid = term < t.end;
    int at[4] = {};

    if (i >= Shape::terms)
        return;
    s->term[buffer][i] = g.wgrad ? g.pixel_place(term, valid, at)
                                 : g.tap_place(term, valid, t.group, at);
    s->term_w[buffer][i] = g.wgrad ? g.pixel_offset(g.p_stride, at)
                                   : g.tap_offset(g.w_stride, t.group, at);
}

/* Whether column i of a tile and term k of a buffer meet inside x. */
template <typename Shape>
static __device__ __noinline__ bool
tile_is_inside(const struct table_geometry &g,
               const struct tile_shared<Shape> *s, int buffer, int k,
               int column)
{
    const struct table_place &c = s->column[column];
    const struct table_place &t = s->term[buffer][k];
    uint32_t offset;

    return g.meet(g.wgrad ? t : c, g.wgrad ? c : t, &offset);
}

/* ---- loading ------------------------------------------------------- */

/* Element i of thread threadIdx.x in a tile of TERMS terms times ACROSS columns
 * or scalars, neighbouring threads along the terms or across. */
template <int TERMS, int ACROSS>
static __device__ __forceinline__ void tile_element(bool along_terms, int i,
                                                    int *term, int *across)
{
    const int n = (int)threadIdx.x + i * TILE_THREADS;

    *term = along_terms ? n % TERMS : n / ACROSS;
    *across = along_terms ? n / TERMS : n % ACROSS;
}

template <typename Shape>
static __device__ __forceinline__ void
tile_load(const struct tile_args &a, const struct tile_task &t, int first,
          int buffer, const struct tile_shared<Shape> *s, uint32_t *x,
          uint32_t *w)
{
    const struct table_geometry &g = a.g;
    const int step = g.w_scalar_stride();
    /* Scalars of other groups, where w has them in one dimension. */
    const int before = g.transposed ? 0 : t.group * g.scalars;
    int term, across;

#pragma unroll
    for (int i = 0; i < Shape::x_own; i++) {
        uint32_t offset;
        tile_element<Shape::terms, Shape::columns>(a.x_along_terms, i, &term,
                                                   &across);
        const struct table_place &c = s->column[across];
        const struct table_place &k = s->term[buffer][term];
        x[i] = g.meet(g.wgrad ? k : c, g.wgrad ? c : k, &offset)
                   ? a.x[(int)offset]
                   : 0;
    }
#pragma unroll
    for (int i = 0; i < Shape::w_own; i++) {
        tile_element<Shape::terms, Shape::scalars>(a.w_along_terms, i, &term,
                                                   &across);
        w[i] = 0;
        if (term < Shape::terms && across < Shape::scalars &&
            first + term < t.end && t.scalar + across < g.scalars)
            w[i] = a.w[(int)(s->term_w[buffer][term] +
                             (uint32_t)(before + t.scalar + across) * step)];
    }
}

/* Stores a chunk, prepared or as it is (RAW). */
template <bool RAW, typename Shape>
static __device__ __forceinline__ void
tile_store(const struct tile_args &a, uint32_t row_step, int buffer, int mark,
           const uint32_t *x, const uint32_t *w, struct tile_shared<Shape> *s)
{
    const struct table_rules &r = s->rules;
    bool more = false, rough = false;
    int term, across;

#pragma unroll
    for (int i = 0; i < Shape::x_own; i++) {
        tile_element<Shape::terms, Shape::columns>(a.x_along_terms, i, &term,
                                                   &across);
        more = more || (x[i] & PRODUCT_TABLE_EXPONENT);
        rough = rough || !table_x_is_plain(r, x[i]);
        s->x[buffer][term][across] = RAW ? x[i] : table_take_x(r, x[i]);
    }
#pragma unroll
    for (int i = 0; i < Shape::w_own; i++) {
        tile_element<Shape::terms, Shape::scalars>(a.w_along_terms, i, &term,
                                                   &across);
        if (term >= Shape::terms || across >= Shape::scalars)
            continue;
        rough = rough || !table_w_is_plain(r, w[i]);
        s->w[buffer][term][across] =
            RAW ? make_uint2(w[i], 0) : table_take_w(r, w[i], row_step);
    }
    if (more)
        s->more[mark] = 1;
    if (rough)
        s->rough[mark] = 1;
}

/* ---- products ------------------------------------------------------ */

/* Adds a chunk's products. */
template <int SCALARS, typename Shape, typename Engine>
static __device__ __forceinline__ void
tile_add(const Engine &engine, const struct tile_shared<Shape> *s, int buffer,
         int column, int scalar, float (*sum)[TILE_LANE])
{
#pragma unroll 2
    for (int k = 0; k < Shape::terms; k++) {
        const uint4 v =
            *reinterpret_cast<const uint4 *>(&s->x[buffer][k][column]);
        const typename Engine::operand x[TILE_LANE] = {
            engine.take(v.x), engine.take(v.y), engine.take(v.z),
            engine.take(v.w)};
        const uint2 *w = &s->w[buffer][k][scalar];
#pragma unroll
        for (int j = 0; j < SCALARS; j += 2) {
            /* Two w at a time: 16 bytes. */
            const uint4 f = SCALARS == 1
                                ? make_uint4(w->x, w->y, 0, 0)
                                : *reinterpret_cast<const uint4 *>(w + j);
#pragma unroll
            for (int i = 0; i < TILE_LANE; i++)
                sum[j][i] = fma_flushed(engine.value(x[i], f.x),
                                        table_float(f.y), sum[j][i]);
            if constexpr (SCALARS > 1) {
#pragma unroll
                for (int i = 0; i < TILE_LANE; i++)
                    sum[j + 1][i] =
                        fma_flushed(engine.value(x[i], f.z), table_float(f.w),
                                    sum[j + 1][i]);
            }
        }
    }
}

/* A product of any operands, scaled as the others are. */
static __device__ __noinline__ float
tile_rough_product(const struct tile_args &a, uint32_t x, uint32_t w,
                   float2 scale)
{
    const uint32_t entry = a.table[product_table_index(a.m, x) * a.row +
                                   product_table_index(a.m, w) * a.column];

    return table_float(product_table_join(x, w, entry)) * scale.x * scale.y;
}

/* Adds the products of a chunk of any operands, stored as they are. */
template <int SCALARS, typename Shape>
static __device__ __forceinline__ void
tile_add_rough(const struct tile_args &a, const struct tile_shared<Shape> *s,
               int buffer, int column, int scalar, float (*sum)[TILE_LANE])
{
    const float2 scale = make_float2(s->rules.scale[0], s->rules.scale[1]);

#pragma unroll 1
    for (int k = 0; k < Shape::terms; k++)
#pragma unroll
        for (int j = 0; j < SCALARS; j++)
#pragma unroll
            for (int i = 0; i < TILE_LANE; i++)
                sum[j][i] +=
                    tile_rough_product(a, s->x[buffer][k][column + i],
                                       s->w[buffer][k][scalar + j].x, scale);
}

/* Adds a chunk's products with the engine of the table. */
template <int SCALARS, typename Shape>
static __device__ __forceinline__ void
tile_add_any(const struct tile_args &a, const unsigned char *table,
             const struct tile_shared<Shape> *s, int buffer, int column,
             int scalar, float (*sum)[TILE_LANE])
{
    const struct table_rules &r = s->rules;
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(table);
    const int shift = 23 - a.m;
    const uint32_t mask = (1u << a.m) - 1;

    switch (r.engine) {
    case TABLE_PRODUCT:
        tile_add<SCALARS>(engine_product{r.keep}, s, buffer, column, scalar,
                          sum);
        break;
    case TABLE_SUM:
        tile_add<SCALARS>(engine_sum{}, s, buffer, column, scalar, sum);
        break;
    case TABLE_SUM_ADD:
        tile_add<SCALARS>(engine_sum_add{r.add}, s, buffer, column, scalar,
                          sum);
        break;
    case TABLE_8:
        tile_add<SCALARS>(engine_shared<uint8_t>{at, shift, mask}, s, buffer,
                          column, scalar, sum);
        break;
    case TABLE_16:
        tile_add<SCALARS>(engine_shared<uint16_t>{at, shift, mask}, s, buffer,
                          column, scalar, sum);
        break;
    case TABLE_32:
        tile_add<SCALARS>(engine_shared<uint32_t>{at, shift, mask}, s, buffer,
                          column, scalar, sum);
        break;
    case TABLE_GLOBAL:
        tile_add<SCALARS>(engine_global{a.table, shift, mask, (uint32_t)a.row},
                          s, buffer, column, scalar, sum);
        break;
    }
}

/* ---- results ------------------------------------------------------- */

/* Where the outputs of a column are, but for the scalar's part; offsets are
 * numbers of 32 bits with a sign, computed without. */
struct tile_column {
    bool valid;
    uint32_t out, add; /* in y and in the residual */
};

static __device__ __forceinline__ struct tile_column
tile_column_of(const struct tile_args &a, int group, int column)
{
    const struct table_geometry &g = a.g;
    int at[4];

    if (column >= g.columns())
        return {false, 0, 0};
    if (g.wgrad) {
        g.tap(column, at);
        return {true, g.tap_offset(g.w_stride, group, at),
                g.tap_offset(g.r_stride, group, at)};
    }
    const bool valid = g.pixel(column, at);
    return {valid, g.pixel_offset(g.p_stride, at),
            g.pixel_offset(g.r_stride, at)};
}

/* Finishes and stores the output of scalar k, counted over all groups:
 * y = act(sum + bias + residual). */
static __device__ __noinline__ void tile_finish(const struct tile_args &a,
                                                uint32_t out, uint32_t add,
                                                int k, float sum)
{
    float r = 0;

    if (a.bias_type != INFER_NONE)
        sum += (float)load_any(a.bias_type, a.bias, k * a.bias_step);
    if (a.residual)
        r = a.r[(int)(add + (uint32_t)k * a.g.r_scalar_stride())];
    a.y[(int)(out + (uint32_t)k * a.g.y_scalar_stride())] =
        apply_epilogue(a.epilogue, sum, r);
}

template <int SCALARS>
static __device__ __forceinline__ void
tile_results(const struct tile_args &a, const struct tile_task &t, int column,
             int scalar, const struct table_rules &r, float (*sum)[TILE_LANE])
{
    const struct table_geometry &g = a.g;
    const int scalars = g.groups * g.scalars;

#pragma unroll
    for (int i = 0; i < TILE_LANE; i++) {
        const int c = t.column + column + i;
        const struct tile_column place = tile_column_of(a, t.group, c);
#pragma unroll
        for (int j = 0; j < SCALARS; j++) {
            const int k = t.group * g.scalars + t.scalar + scalar + j;
            const float v = sum[j][i] * r.unscale[0] * r.unscale[1];
            if (!place.valid || t.scalar + scalar + j >= g.scalars)
                continue;
            if (a.parts)
                a.parts[((int64_t)t.split * scalars + k) * g.columns() + c] = v;
            else
                tile_finish(a, place.out, place.add, k, v);
        }
    }
}

/* ---- the kernel ---------------------------------------------------- */

/* True if another kernel has computed everything. */
static __device__ __forceinline__ bool tile_is_spared(const struct tile_args &a)
{
    return (a.unless && factor_facts_are_plain(*a.unless)) ||
           (a.rough_alone && !a.facts->rough);
}

template <typename Shape>
static __device__ unsigned char *tile_start(const struct tile_args &a,
                                            struct tile_shared<Shape> *s,
                                            uint32_t *row_step)
{
    unsigned char *table = (unsigned char *)(s + 1);

    if (threadIdx.x == 0)
        s->rules = table_rules_of(*a.facts, a.m, a.room, a.table[0]);
    __syncthreads();
    *row_step = table_row_step(s->rules, a.column);
    table_load(s->rules, a.table, a.row, a.column, table);
    return table;
}

/* Multiplies one tile.  Chunk c is in buffer c % 2 and has marks c % 3. */
template <int SCALARS, typename Shape>
static __device__ __forceinline__ void
tile_run(const struct tile_args &a, const struct tile_task &t,
         const unsigned char *table, uint32_t row_step, int column, int scalar,
         struct tile_shared<Shape> *s, float (*sum)[TILE_LANE])
{
    uint32_t x[Shape::x_own], w[Shape::w_own];

    __syncthreads(); /* the tile before has been multiplied */
    if (threadIdx.x < 3)
        s->more[threadIdx.x] = s->rough[threadIdx.x] = 0;
    tile_place_columns(a, t, s);
    tile_place_terms(a, t, t.first, 0, s);
    tile_place_terms(a, t, t.first + Shape::terms, 1, s);
    __syncthreads();
    tile_load(a, t, t.first, 0, s, x, w);
    tile_store<false>(a, row_step, 0, 0, x, w, s);
    __syncthreads();
    int mark = 0;
    for (int k = t.first, b = 0; k < t.end; k += Shape::terms, b ^= 1) {
        const bool last = k + Shape::terms >= t.end;
        const int next = mark == 2 ? 0 : mark + 1;
        const bool rough = s->rough[mark], more = s->more[mark];
        if (rough) { /* all threads, or none */
            tile_load(a, t, k, b, s, x, w);
            __syncthreads();
            tile_store<true>(a, row_step, b, mark, x, w, s);
            __syncthreads();
            tile_add_rough<SCALARS>(a, s, b, column, scalar, sum);
        }
        if (!last)
            tile_load(a, t, k + Shape::terms, b ^ 1, s, x, w);
        if (more && !rough)
            tile_add_any<SCALARS>(a, table, s, b, column, scalar, sum);
        if (threadIdx.x == 0) {
            const int after = next == 2 ? 0 : next + 1;
            s->more[after] = s->rough[after] = 0;
        }
        if (!last)
            tile_store<false>(a, row_step, b ^ 1, next, x, w, s);
        tile_place_terms(a, t, k + 2 * Shape::terms, b, s);
        __syncthreads();
        mark = next;
    }
}

template <int WARPS, int SCALARS, int TERMS>
static __global__ void __launch_bounds__(TILE_THREADS, 2)
    tile_kernel(const __grid_constant__ struct tile_args a)
{
    typedef struct tile_shape<WARPS, SCALARS, TERMS> Shape;
    LAUNCH_SHARED(memory);
    struct tile_shared<Shape> *s = (struct tile_shared<Shape> *)memory;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int column = (warp % WARPS * 32 + lane) * TILE_LANE;
    const int scalar = warp / WARPS * SCALARS;
    uint32_t row_step;

    launch_wait();
    if (tile_is_spared(a))
        return;
    const unsigned char *table = tile_start(a, s, &row_step);
    for (int64_t i = blockIdx.x; i < a.tasks; i += gridDim.x) {
        const struct tile_task t =
            tile_task_of(a, i, Shape::columns, Shape::scalars);
        float sum[SCALARS][TILE_LANE] = {};
        tile_run<SCALARS>(a, t, table, row_step, column, scalar, s, sum);
        tile_results<SCALARS>(a, t, column, scalar, s->rules, sum);
    }
}

#endif
