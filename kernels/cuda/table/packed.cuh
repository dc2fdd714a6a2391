/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel of products by a table for layers of one group and many scalars
 * (geometry.cuh): operands are prepared once (packed_prepare.cuh), so that
 * loading a tile is copying.
 *
 * A block of 256 threads computes tiles of 32 LANE columns times 64 scalars; a
 * lane has LANE columns, a warp 8 scalars, so that all lanes of a warp multiply
 * by the same w.  Chunks of 16 terms go through a ring of 3 stages by cp.async;
 * sums are in single precision, in the order of the terms.  Terms may be split
 * over blocks, whose sums packed_join adds in order.
 *
 * Shared memory: the stages (x' 64 LANE * 32 bytes, w 8 KiB each), then the
 * table, if the engine has one there.
 *
 * Where an operand is not plain the kernel ends at once, and that of tile.cuh
 * computes the whole.
 */
#ifndef KERNELS_CUDA_TABLE_PACKED_CUH
#define KERNELS_CUDA_TABLE_PACKED_CUH

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/table/packed_prepare.cuh"
#include "kernels/cuda/table/tile.cuh"

#define PACKED_STAGES 3

/* ---- the product --------------------------------------------------- */

struct packed_args {
    const uint32_t *x, *table;
    const uint2 *w;
    const int *place;
    const struct table_facts *facts;
    int64_t row, column; /* strides of the table */
    int m;
    size_t room;
    int pitch, columns, scalars;
    /* Offsets in x' of columns, whose dimensions count from the innermost. */
    struct fast_div by[3];
    int column_stride[4];
    int column_blocks, scalar_blocks, splits, chunks, split_chunks;
    int64_t tasks;
    /* The output of a column: dimensions as above; then of a scalar. */
    int64_t y_stride[4], y_scalar, r_stride[4], r_scalar;
    float *parts;  /* [splits][scalars][columns], or NULL */
    bool plain;    /* neither bias nor residual nor activation */
    bool fours;    /* plain, and 4 scalars can be stored at a time */
    bool twos;     /* the same of 2 */
    bool pairs;    /* pairs.cuh computes sums */
    bool of_pairs; /* these are its arguments */
    enum infer_dtype bias_type;
    int64_t bias_step;
    struct kern_epilogue epilogue;
    const void *bias;
    const float *residual;
    float *y;
};

template <int LANE> struct packed_stage {
    alignas(16) uint32_t x[PACKED_TERMS][32 * LANE];
    alignas(16) uint2 w[PACKED_TERMS][PACKED_SCALARS];
};

template <int LANE> struct packed_shared {
    struct packed_stage<LANE> stage[PACKED_STAGES];
    struct table_rules rules;
};

/* cp.async, which other targets than the plan's (compute capability 8.0 and up)
 * do not have. */
#if __CUDA_ARCH__ >= 800
#define PACKED_ASM(...) asm volatile(__VA_ARGS__)
#else
#define PACKED_ASM(...)
#endif

static __device__ __forceinline__ void packed_copy_4(uint32_t to,
                                                     const void *from)
{
    PACKED_ASM("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from)
               : "memory");
}

static __device__ __forceinline__ void packed_copy_16(uint32_t to,
                                                      const void *from)
{
    PACKED_ASM("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from)
               : "memory");
}

static __device__ __forceinline__ void packed_commit(void)
{
    PACKED_ASM("cp.async.commit_group;" ::: "memory");
}

template <int PENDING> static __device__ __forceinline__ void packed_wait(void)
{
    PACKED_ASM("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

/* A tile's part of a task. */
struct packed_task {
    int column, scalar, split, first, end; /* chunks */
};

static __device__ __forceinline__ struct packed_task
packed_task_of(const struct packed_args &a, int64_t i, int columns)
{
    struct packed_task t;

    t.scalar = (int)(i % a.scalar_blocks) * PACKED_SCALARS;
    i /= a.scalar_blocks;
    t.column = (int)(i % a.column_blocks) * columns;
    t.split = (int)(i / a.column_blocks);
    t.first = t.split * a.split_chunks;
    t.end = min(a.chunks, t.first + a.split_chunks);
    return t;
}

static __device__ __forceinline__ int packed_column(const struct packed_args &a,
                                                    int column)
{
    uint32_t at, rest = (uint32_t)min(column, a.columns - 1);
    int offset = 0;

#pragma unroll
    for (int d = 0; d < 3; d++) {
        rest = a.by[d].divmod(rest, &at);
        offset += (int)at * a.column_stride[d];
    }
    return offset + (int)rest * a.column_stride[3];
}

/* Starts the copy of a chunk's terms to rows of PITCH words.  A thread has one
 * column, and every TURN-th term. */
template <int LANE, int PITCH>
static __device__ __forceinline__ void
packed_load_x(const struct packed_args &a, int chunk, const uint32_t *x,
              uint32_t (*rows)[PITCH])
{
    enum {
        COLUMNS = 32 * LANE,
        TURN = PACKED_THREADS / COLUMNS, /* 1 or 2 */
        EACH = PACKED_TERMS / TURN
    };
    const int column = threadIdx.x % COLUMNS, first = threadIdx.x / COLUMNS;
    const int4 *place = reinterpret_cast<const int4 *>(
        a.place + chunk * PACKED_TERMS + first * EACH);
    const uint32_t to =
        (uint32_t)__cvta_generic_to_shared(&rows[first * EACH][column]);

#pragma unroll
    for (int i = 0; i < EACH; i += 4) {
        const int4 p = __ldg(place + i / 4);
        packed_copy_4(to + (i + 0) * PITCH * 4, x + p.x);
        packed_copy_4(to + (i + 1) * PITCH * 4, x + p.y);
        packed_copy_4(to + (i + 2) * PITCH * 4, x + p.z);
        packed_copy_4(to + (i + 3) * PITCH * 4, x + p.w);
    }
}

template <int LANE>
static __device__ __forceinline__ void
packed_load(const struct packed_args &a, const struct packed_task &t, int chunk,
            const uint32_t *x, struct packed_stage<LANE> *s)
{
    packed_load_x<LANE>(a, chunk, x, s->x);
#pragma unroll
    for (int i = 0; i < PACKED_TERMS * PACKED_SCALARS / 2;
         i += PACKED_THREADS) {
        const int at = i + threadIdx.x, term = at / (PACKED_SCALARS / 2);
        const int pair = at % (PACKED_SCALARS / 2) * 2;
        packed_copy_16((uint32_t)__cvta_generic_to_shared(&s->w[term][pair]),
                       a.w + (int64_t)(chunk * PACKED_TERMS + term) * a.pitch +
                           t.scalar + pair);
    }
}

/* Adds a chunk's products: scalars 8 warp + j, columns 4 lane + i % 4 of half
 * i / 4. */
template <int LANE, typename Engine>
static __device__ __forceinline__ void
packed_add(const Engine &engine, const struct packed_stage<LANE> *s,
           float (&sum)[8][LANE])
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

#pragma unroll 2
    for (int k = 0; k < PACKED_TERMS; k++) {
        typename Engine::operand x[LANE];
#pragma unroll
        for (int i = 0; i < LANE; i += 4) {
            const uint4 v =
                *reinterpret_cast<const uint4 *>(&s->x[k][i * 32 + lane * 4]);
            x[i] = engine.take(v.x);
            x[i + 1] = engine.take(v.y);
            x[i + 2] = engine.take(v.z);
            x[i + 3] = engine.take(v.w);
        }
#pragma unroll
        for (int j = 0; j < 8; j += 2) {
            const uint4 f =
                *reinterpret_cast<const uint4 *>(&s->w[k][warp * 8 + j]);
#pragma unroll
            for (int i = 0; i < LANE; i++)
                sum[j][i] = fma_flushed(engine.value(x[i], f.x),
                                        table_float(f.y), sum[j][i]);
#pragma unroll
            for (int i = 0; i < LANE; i++)
                sum[j + 1][i] = fma_flushed(engine.value(x[i], f.z),
                                            table_float(f.w), sum[j + 1][i]);
        }
    }
}

/* The chunks of a tile through the stages: load(chunk, x, stage) starts the
 * copy of one, add(stage) adds the products of one that has arrived. */
template <int LANE, typename Stage, typename Load, typename Add>
static __device__ __forceinline__ void
packed_stream(const struct packed_args &a, const struct packed_task &t,
              Stage *stages, const Load &load, const Add &add)
{
    const uint32_t *x =
        a.x + packed_column(a, t.column + threadIdx.x % (32 * LANE));
    int stage = 0, next = PACKED_STAGES - 1;

    __syncthreads(); /* the tile before has been multiplied */
#pragma unroll
    for (int i = 0; i < PACKED_STAGES - 1; i++) {
        if (t.first + i < t.end)
            load(t.first + i, x, &stages[i]);
        packed_commit();
    }
#pragma unroll 1
    for (int c = t.first; c < t.end; c++) {
        packed_wait<PACKED_STAGES - 2>();
        __syncthreads();
        if (c + PACKED_STAGES - 1 < t.end)
            load(c + PACKED_STAGES - 1, x, &stages[next]);
        packed_commit();
        add(&stages[stage]);
        stage = stage == PACKED_STAGES - 1 ? 0 : stage + 1;
        next = next == PACKED_STAGES - 1 ? 0 : next + 1;
    }
}

template <int LANE, typename Engine>
static __device__ __forceinline__ void
packed_run(const struct packed_args &a, const struct packed_task &t,
           const Engine &engine, struct packed_shared<LANE> *s,
           float (&sum)[8][LANE])
{
    typedef struct packed_stage<LANE> Stage;

    packed_stream<LANE>(
        a, t, s->stage,
        [&](int chunk, const uint32_t *x, Stage *to) {
            packed_load<LANE>(a, t, chunk, x, to);
        },
        [&](const Stage *at) { packed_add<LANE>(engine, at, sum); });
}

/* ---- results ------------------------------------------------------- */

/* Offsets of a column's outputs in y and in the residual. */
struct packed_place {
    int64_t y, r;
};

static __device__ __forceinline__ struct packed_place
packed_place_of(const struct packed_args &a, int column)
{
    uint32_t at, rest = (uint32_t)column;
    struct packed_place p = {};

#pragma unroll
    for (int d = 0; d < 3; d++) {
        rest = a.by[d].divmod(rest, &at);
        p.y += at * a.y_stride[d];
        p.r += at * a.r_stride[d];
    }
    p.y += rest * a.y_stride[3];
    p.r += rest * a.r_stride[3];
    return p;
}

static __device__ __noinline__ void packed_finish(const struct packed_args &a,
                                                  struct packed_place p, int k,
                                                  float sum)
{
    float r = 0;

    if (a.bias_type != INFER_NONE)
        sum += (float)load_any(a.bias_type, a.bias, k * a.bias_step);
    if (a.residual)
        r = a.residual[p.r + k * a.r_scalar];
    a.y[p.y + k * a.y_scalar] = apply_epilogue(a.epilogue, sum, r);
}

/* Stores the sums of one column, scalars k to k + 7. */
static __device__ __forceinline__ void packed_store(const struct packed_args &a,
                                                    int column, int k,
                                                    const float (&v)[8])
{
    const struct packed_place p = packed_place_of(a, column);
    const int n = min(8, a.scalars - k);

    if (a.fours && n == 8) {
        float4 *to = reinterpret_cast<float4 *>(a.y + p.y + k);
        to[0] = make_float4(v[0], v[1], v[2], v[3]);
        to[1] = make_float4(v[4], v[5], v[6], v[7]);
        return;
    }
#pragma unroll
    for (int j = 0; j < 8; j++) {
        if (j >= n)
            continue;
        if (a.plain)
            a.y[p.y + (k + j) * a.y_scalar] = v[j];
        else
            packed_finish(a, p, k + j, v[j]);
    }
}

template <int LANE>
static __device__ __forceinline__ void
packed_results(const struct packed_args &a, const struct packed_task &t,
               const struct table_rules &r, float (&sum)[8][LANE])
{
    const int lane = threadIdx.x % 32, k = t.scalar + threadIdx.x / 32 * 8;

#pragma unroll
    for (int i = 0; i < LANE; i++) {
        const int column = t.column + i / 4 * 128 + lane * 4 + i % 4;
        float v[8];
        if (column >= a.columns)
            continue;
#pragma unroll
        for (int j = 0; j < 8; j++)
            v[j] = sum[j][i] * r.unscale[0] * r.unscale[1];
        if (!a.parts) {
            packed_store(a, column, k, v);
            continue;
        }
#pragma unroll
        for (int j = 0; j < 8; j++)
            if (k + j < a.scalars)
                a.parts[((int64_t)t.split * a.scalars + k + j) * a.columns +
                        column] = v[j];
    }
}

/* ---- the kernel ---------------------------------------------------- */

template <int LANE, typename Engine>
static __device__ __forceinline__ void
packed_tasks(const struct packed_args &a, const Engine &engine,
             struct packed_shared<LANE> *s)
{
    for (int64_t i = blockIdx.x; i < a.tasks; i += gridDim.x) {
        const struct packed_task t = packed_task_of(a, i, 32 * LANE);
        float sum[8][LANE] = {};
        packed_run<LANE>(a, t, engine, s, sum);
        packed_results<LANE>(a, t, s->rules, sum);
    }
}

template <int LANE>
static __global__ void __launch_bounds__(PACKED_THREADS, 2)
    packed_kernel(const __grid_constant__ struct packed_args a)
{
    LAUNCH_SHARED(memory);
    struct packed_shared<LANE> *s = (struct packed_shared<LANE> *)memory;
    unsigned char *table = (unsigned char *)(s + 1);
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(table);
    const int shift = 23 - a.m;
    const uint32_t mask = (1u << a.m) - 1;

    launch_wait();
    if (a.facts->rough || packed_is_pairs(*a.facts, a.pairs, a.m, a.table[0]))
        return;
    if (threadIdx.x == 0)
        s->rules = table_rules_of(*a.facts, a.m, a.room, a.table[0]);
    __syncthreads();
    table_load(s->rules, a.table, a.row, a.column, table);
    switch (s->rules.engine) {
    case TABLE_PRODUCT:
        packed_tasks<LANE>(a, engine_product{s->rules.keep}, s);
        break;
    case TABLE_SUM:
        packed_tasks<LANE>(a, engine_sum{}, s);
        break;
    case TABLE_SUM_ADD:
        packed_tasks<LANE>(a, engine_sum_add{s->rules.add}, s);
        break;
    case TABLE_8:
        packed_tasks<LANE>(a, engine_shared<uint8_t>{at, shift, mask}, s);
        break;
    case TABLE_16:
        packed_tasks<LANE>(a, engine_shared<uint16_t>{at, shift, mask}, s);
        break;
    case TABLE_32:
        packed_tasks<LANE>(a, engine_shared<uint32_t>{at, shift, mask}, s);
        break;
    case TABLE_GLOBAL:
        packed_tasks<LANE>(
            a, engine_global{a.table, shift, mask, (uint32_t)a.row}, s);
        break;
    }
}

#endif
