/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums of bit patterns (Mitchell's products of up to 7 mantissa bits, and those
 * with a constant, as MBM's) for the layers of packed.cuh, two products an
 * instruction, added on tensor cores.
 *
 * A product's value is a BF16 number, the sum of the bit patterns of x' and of
 * the fraction of w; one addition of words gives those of two terms, as no sum
 * of 16 bits overflows.  The register is an A operand of
 * mma.m16n8k16: rows are columns of the tile, the depth is terms.  B has the
 * powers of w of one scalar in the column of that scalar, and zeros in the
 * others: 8 products, for 8 scalars, add to one accumulator.
 *
 * A block of 256 threads computes tiles of 32 LANE columns times 64 scalars,
 * warps of 64 columns and 8 LANE / 2 scalars.  Lane 4 g + t reads columns
 * 4 g to 4 g + 3 of each 32, and pairs of terms t and t + 4 of each 8.
 *
 * A constant c that products have beside the sum unless they would reach 4 is
 * added as products of their own: those of c times the power of two of x and
 * the power of w, 8 scalars at a time; and the same with the other sign for
 * those pairs that reach 4.  With a and b, what the fractions of x and w lack
 * to the largest one, these are the pairs with a + b < `rows`.  Slots of
 * pairs_reach.cuh have the w with b < rows, each its x with a < rows - b; where
 * a chunk has too many of them it is one product for each a, of the x that have
 * it and the w with b < rows - a.
 *
 * A value of x = 0 is below 2^-125 and its product below 2^-151, where other
 * products are multiples of 2^-109; sums below 2^-110 become zero at the end.
 *
 * Shared memory: 3 stages of 16 pairs of terms, x' rows of 32 LANE + 8 words
 * (conflict-free reads of 16 bytes) and a block of w (10,784 bytes).
 */
#ifndef KERNELS_CUDA_TABLE_PAIRS_CUH
#define KERNELS_CUDA_TABLE_PAIRS_CUH

#include <cuda_bf16.h>

#include "kernels/cuda/table/packed.cuh"

template <int LANE> struct pairs_stage {
    alignas(16) uint32_t x[PACKED_TERMS][32 * LANE + 8];
    alignas(16) uint32_t w[PAIRS_BLOCK];
    struct pairs_reach reach; /* as in memory, behind w */
};

template <int LANE> struct pairs_shared {
    struct pairs_stage<LANE> stage[PACKED_STAGES];
    struct table_rules rules;
};

template <int LANE> struct pairs_shape {
    enum {
        ACROSS = LANE / 2,    /* warps along columns, 64 each */
        SCALARS = 8 * ACROSS, /* of a warp: 64 / (8 / ACROSS) */
        EIGHTS = SCALARS / 8, /* of scalars */
        BLOCKS = 4            /* of 16 columns */
    };
};

static __device__ __forceinline__ void
pairs_mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    PACKED_ASM("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* words: of a block, of w alone or with the slots. */
template <int LANE>
static __device__ __forceinline__ void
pairs_load(const struct packed_args &a, const struct packed_task &t, int chunk,
           int words, const uint32_t *x, struct pairs_stage<LANE> *s)
{
    const uint32_t *w =
        (const uint32_t *)a.w +
        ((int64_t)chunk * a.scalar_blocks + t.scalar / PACKED_SCALARS) *
            PAIRS_WORDS;
    const uint32_t to =
        (uint32_t)__cvta_generic_to_shared(&s->w[4 * threadIdx.x]);

    packed_load_x<LANE>(a, chunk, x, s->x);
#pragma unroll
    for (int i = 0; i < PAIRS_WORDS; i += 4 * PACKED_THREADS)
        if (i + 4 * (int)threadIdx.x < words)
            packed_copy_16(to + 4 * i, w + i + 4 * threadIdx.x);
}

/* Adds a chunk's products: blocks of 16 columns, eights of scalars. */
template <int LANE>
static __device__ __forceinline__ void
pairs_add(const struct pairs_stage<LANE> *s,
          float (&sum)[4][pairs_shape<LANE>::EIGHTS][4])
{
    typedef struct pairs_shape<LANE> P;
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int warp = threadIdx.x / 32, across = warp % P::ACROSS;
    const int scalar = warp / P::ACROSS * P::SCALARS;

#pragma unroll
    for (int k = 0; k < PACKED_TERMS / 8; k++) {
        const uint32_t *w = s->w + k * (PAIRS_BLOCK / 4) + scalar * 8 + t * 2;
        uint4 x[2][2]; /* of 32 columns, of pairs t and t + 4 */
#pragma unroll
        for (int i = 0; i < 4; i++)
            x[i / 2][i % 2] = *reinterpret_cast<const uint4 *>(
                &s->x[k * 8 + i % 2 * 4 + t][across * 64 + i / 2 * 32 + g * 4]);
#pragma unroll
        for (int e = 0; e < P::EIGHTS; e++) {
            const uint2 power = *reinterpret_cast<const uint2 *>(
                w + PAIRS_BLOCK / 2 + (e * 8 + g) * 8);
#pragma unroll
            for (int j = 0; j < 8; j++) {
                const uint2 f =
                    *reinterpret_cast<const uint2 *>(w + (e * 8 + j) * 8);
                const uint32_t b0 = g == j ? power.x : 0;
                const uint32_t b1 = g == j ? power.y : 0;
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    const uint4 p = x[i][0], q = x[i][1];
                    const uint32_t upper[4] = {p.x + f.x, p.y + f.x, q.x + f.y,
                                               q.y + f.y};
                    const uint32_t lower[4] = {p.z + f.x, p.w + f.x, q.z + f.y,
                                               q.w + f.y};
                    pairs_mma(sum[i * 2][e], upper, b0, b1);
                    pairs_mma(sum[i * 2 + 1][e], lower, b0, b1);
                }
            }
        }
    }
}

/* ---- constants ----------------------------------------------------- */

/* rows: -1: there is none.  Two BF16 a word: the constant, and as significands
 * the x of row 0 and the least w that reach 4 with it. */
struct pairs_constant {
    int rows;
    uint32_t add, x, w, step; /* step: from row to row */
};

static __device__ __forceinline__ struct pairs_constant
pairs_constant_of(const struct packed_args &a)
{
    const uint32_t both = 0x10001, unit = 1u << (7 - a.m), one = 127u << 7;
    struct pairs_constant c = {};

    c.rows =
        table_is_sum(*a.facts) ? -1 : pairs_rows(*a.facts, a.m, a.table[0]);
    c.add = (__float_as_uint(table_constant(a.table[0])) >> 16) * both;
    c.x = (one + ((1u << a.m) - 1) * unit) * both;
    c.w = (one + ((1u << a.m) - (uint32_t)max(c.rows, 0)) * unit) * both;
    c.step = unit * both;
    return c;
}

#if __CUDA_ARCH__ >= 800
#define PAIRS_MASK(f, a, b)                                                    \
    f(*(const __nv_bfloat162 *)&(a), *(const __nv_bfloat162 *)&(b))
#define PAIRS_BF16(f, a, b) pairs_word(PAIRS_MASK(f, a, b))

static __device__ __forceinline__ uint32_t pairs_word(__nv_bfloat162 v)
{
    return *(const uint32_t *)&v;
}
#else /* the plan is for 8.0 and up */
#define PAIRS_MASK(f, a, b) ((a) ^ (b))
#define PAIRS_BF16(f, a, b) ((a) ^ (b))
#endif

/* Two fractions as significands. */
static __device__ __forceinline__ uint32_t pairs_significands(uint32_t v)
{
    uint32_t r;

    /* (v & fractions) | ones, which two instructions would be else */
    asm("lop3.b32 %0, %1, %2, %3, 0xea;"
        : "=r"(r)
        : "r"(v), "r"(0x007f007fu), "r"(0x3f803f80u));
    return r;
}

/* The powers of two of two slots' x: of those of at least a significand. */
static __device__ __forceinline__ uint32_t
pairs_slot_x(const struct pairs_slots &slots, uint32_t select, uint32_t even,
             uint32_t odd)
{
    const uint32_t x = __byte_perm(even, odd, select);
    const uint32_t z = pairs_significands(x);

    return x & 0xff80ff80u & PAIRS_MASK(__hge2_mask, z, slots.least);
}

/* Takes the constant off the products in the first 8 HALVES slots of 8 scalars.
 * x: the stage's terms of this lane's first columns. */
template <int LANE, int HALVES>
static __device__ __forceinline__ void
pairs_take_slots(const struct pairs_reach &r, int eight, const uint32_t *x,
                 float (&s0)[4], float (&s1)[4], float (&s2)[4], float (&s3)[4])
{
    const int lane = threadIdx.x % 32;
    const uint2 w = r.w[eight][lane];
    const uint32_t *row[2][2]; /* of slots 2 t and 2 t + 1 */
    struct pairs_slots slots[2];
    uint32_t select[2];

#pragma unroll
    for (int h = 0; h < HALVES; h++) {
        slots[h] = r.x[eight][lane % 4][h];
        row[h][0] = x + (slots[h].where >> 8 & 15) * (32 * LANE + 8);
        row[h][1] = x + (slots[h].where >> 24) * (32 * LANE + 8);
        select[h] = __byte_perm(slots[h].where, 0, 0x4420);
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        uint32_t u[2][4] = {};
#pragma unroll
        for (int h = 0; h < HALVES; h++) {
            const uint4 p =
                *reinterpret_cast<const uint4 *>(row[h][0] + i * 32);
            const uint4 q =
                *reinterpret_cast<const uint4 *>(row[h][1] + i * 32);
            u[0][h * 2] = pairs_slot_x(slots[h], select[h], p.x, q.x);
            u[0][h * 2 + 1] = pairs_slot_x(slots[h], select[h], p.y, q.y);
            u[1][h * 2] = pairs_slot_x(slots[h], select[h], p.z, q.z);
            u[1][h * 2 + 1] = pairs_slot_x(slots[h], select[h], p.w, q.w);
        }
        pairs_mma(i == 0 ? s0 : s2, u[0], w.x, w.y);
        pairs_mma(i == 0 ? s1 : s3, u[1], w.x, w.y);
    }
}

/* The same of all products of 8 scalars and 8 pairs of terms: for each of the
 * rows, of the x that have its significand and the w that reach 4 with it.
 * x, w: those of this lane. */
template <int LANE>
static __device__ __noinline__ void
pairs_take_rows(const struct pairs_constant &c, const uint32_t *x,
                const uint32_t *w, float (&sum)[4][4])
{
    const uint2 f = *reinterpret_cast<const uint2 *>(w);
    const uint2 power = *reinterpret_cast<const uint2 *>(w + PAIRS_BLOCK / 2);
    const uint32_t constant = c.add ^ 0x80008000u;
    const uint32_t z0 = pairs_significands(f.x), z1 = pairs_significands(f.y);

#pragma unroll 1
    for (int row = 0; row < c.rows; row++) {
        const uint32_t from = c.x - (uint32_t)row * c.step;
        const uint32_t to = c.w + (uint32_t)row * c.step;
        const uint32_t b0 = power.x & PAIRS_MASK(__hge2_mask, z0, to);
        const uint32_t b1 = power.y & PAIRS_MASK(__hge2_mask, z1, to);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint32_t *at = x + i * 32;
            const uint4 p = *reinterpret_cast<const uint4 *>(at);
            const uint4 q =
                *reinterpret_cast<const uint4 *>(at + 4 * (32 * LANE + 8));
            uint32_t u[2][4] = {{p.x, p.y, q.x, q.y}, {p.z, p.w, q.z, q.w}};
#pragma unroll
            for (int h = 0; h < 2; h++)
#pragma unroll
                for (int r = 0; r < 4; r++) {
                    const uint32_t z = pairs_significands(u[h][r]);
                    const uint32_t size = u[h][r] & 0xff80ff80u &
                                          PAIRS_MASK(__heq2_mask, z, from);
                    u[h][r] = PAIRS_BF16(__hmul2, size, constant);
                }
            pairs_mma(sum[i * 2], u[0], b0, b1);
            pairs_mma(sum[i * 2 + 1], u[1], b0, b1);
        }
    }
}

/* Takes the constant off a chunk's products that reach 4 with it. */
template <int LANE>
static __device__ __forceinline__ void
pairs_take_constant(const struct pairs_constant &c,
                    const struct pairs_stage<LANE> *s,
                    float (&sum)[4][pairs_shape<LANE>::EIGHTS][4])
{
    typedef struct pairs_shape<LANE> P;
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int warp = threadIdx.x / 32, across = warp % P::ACROSS;
    const int scalar = warp / P::ACROSS * P::SCALARS;
    const uint32_t *x = &s->x[0][across * 64 + g * 4];

#pragma unroll
    for (int e = 0; e < P::EIGHTS; e++) {
        const int eight = scalar / 8 + e;
        const uint32_t count = s->reach.count[eight];
        if (count == 0)
            continue;
        if (count <= PAIRS_SLOTS / 2) {
            pairs_take_slots<LANE, 1>(s->reach, eight, x, sum[0][e], sum[1][e],
                                      sum[2][e], sum[3][e]);
            continue;
        }
        if (count <= PAIRS_SLOTS) {
            pairs_take_slots<LANE, 2>(s->reach, eight, x, sum[0][e], sum[1][e],
                                      sum[2][e], sum[3][e]);
            continue;
        }
        float taken[4][4]; /* what is passed on has an address */
#pragma unroll
        for (int i = 0; i < 16; i++)
            taken[i / 4][i % 4] = sum[i / 4][e][i % 4];
        for (int k = 0; k < PACKED_TERMS / 8; k++)
            pairs_take_rows<LANE>(c, x + (k * 8 + t) * (32 * LANE + 8),
                                  s->w + k * (PAIRS_BLOCK / 4) +
                                      (eight * 8 + g) * 8 + t * 2,
                                  taken);
#pragma unroll
        for (int i = 0; i < 16; i++)
            sum[i / 4][e][i % 4] = taken[i / 4][i % 4];
    }
}

/* Adds the constant to a chunk's products. */
template <int LANE>
static __device__ __forceinline__ void
pairs_add_constant(const struct pairs_constant &c,
                   const struct pairs_stage<LANE> *s,
                   float (&sum)[4][pairs_shape<LANE>::EIGHTS][4])
{
    typedef struct pairs_shape<LANE> P;
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int warp = threadIdx.x / 32, across = warp % P::ACROSS;
    const int scalar = warp / P::ACROSS * P::SCALARS;

#pragma unroll 1
    for (int k = 0; k < PACKED_TERMS / 8; k++) {
        const uint32_t *w = s->w + PAIRS_BLOCK / 2 + k * (PAIRS_BLOCK / 4) +
                            (scalar + g) * 8 + t * 2;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint32_t *at = &s->x[k * 8 + t][across * 64 + i * 32 + g * 4];
            const uint4 p = *reinterpret_cast<const uint4 *>(at);
            const uint4 q = *reinterpret_cast<const uint4 *>(
                at + 4 * (sizeof s->x[0] / sizeof *at));
            uint32_t v[2][4] = {{p.x, p.y, q.x, q.y}, {p.z, p.w, q.z, q.w}};
#pragma unroll
            for (int h = 0; h < 2; h++)
#pragma unroll
                for (int r = 0; r < 4; r++) {
                    const uint32_t size = v[h][r] & 0xff80ff80u;
                    v[h][r] = PAIRS_BF16(__hmul2, size, c.add);
                }
#pragma unroll
            for (int e = 0; e < P::EIGHTS; e++) {
                const uint2 power =
                    *reinterpret_cast<const uint2 *>(w + e * 64);
                pairs_mma(sum[i * 2][e], v[0], power.x, power.y);
                pairs_mma(sum[i * 2 + 1][e], v[1], power.x, power.y);
            }
        }
    }
}

template <int LANE>
static __device__ __forceinline__ void
pairs_run(const struct packed_args &a, const struct packed_task &t,
          const struct pairs_constant &c, struct pairs_shared<LANE> *s,
          float (&sum)[4][pairs_shape<LANE>::EIGHTS][4])
{
    typedef struct pairs_stage<LANE> Stage;
    const int words = c.rows > 0 ? PAIRS_WORDS : PAIRS_BLOCK;

    packed_stream<LANE>(
        a, t, s->stage,
        [&](int chunk, const uint32_t *x, Stage *to) {
            pairs_load<LANE>(a, t, chunk, words, x, to);
        },
        [&](const Stage *at) {
            pairs_add<LANE>(at, sum);
            if (c.rows >= 0)
                pairs_add_constant<LANE>(c, at, sum);
            if (c.rows > 0)
                pairs_take_constant<LANE>(c, at, sum);
        });
}

/* ---- results ------------------------------------------------------- */

static __device__ __forceinline__ float
pairs_unscaled(const struct table_rules &r, float sum)
{
    return fabsf(sum) < 0x1p-110f ? 0 : sum * r.unscale[0] * r.unscale[1];
}

/* Stores the sums of one column, scalars k and k + 1. */
static __device__ __forceinline__ void
pairs_store(const struct packed_args &a, int column, int k, float v, float next)
{
    const struct packed_place p = packed_place_of(a, column);

    if (a.twos && k + 1 < a.scalars) {
        *reinterpret_cast<float2 *>(a.y + p.y + k) = make_float2(v, next);
    } else if (a.plain) {
        a.y[p.y + k * a.y_scalar] = v;
        if (k + 1 < a.scalars)
            a.y[p.y + (k + 1) * a.y_scalar] = next;
    } else {
        packed_finish(a, p, k, v);
        if (k + 1 < a.scalars)
            packed_finish(a, p, k + 1, next);
    }
}

template <int LANE>
static __device__ __forceinline__ void
pairs_results(const struct packed_args &a, const struct packed_task &t,
              const struct table_rules &r,
              const float (&sum)[4][pairs_shape<LANE>::EIGHTS][4])
{
    typedef struct pairs_shape<LANE> P;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int first = t.column + warp % P::ACROSS * 64 + lane / 4 * 4;
    const int k0 = t.scalar + warp / P::ACROSS * P::SCALARS + lane % 4 * 2;

#pragma unroll
    for (int i = 0; i < 8; i++) { /* columns of this lane */
        const int column = first + i / 4 * 32 + i % 4;
        if (column >= a.columns)
            continue;
#pragma unroll
        for (int e = 0; e < P::EIGHTS; e++) {
            const int k = k0 + e * 8;
            const float v = pairs_unscaled(r, sum[i / 2][e][i % 2 * 2]);
            const float next = pairs_unscaled(r, sum[i / 2][e][i % 2 * 2 + 1]);
            if (k >= a.scalars)
                continue;
            if (!a.parts) {
                pairs_store(a, column, k, v, next);
                continue;
            }
            float *to = a.parts +
                        ((int64_t)t.split * a.scalars + k) * a.columns + column;
            *to = v;
            if (k + 1 < a.scalars)
                to[a.columns] = next;
        }
    }
}

template <int LANE>
static __global__ void __launch_bounds__(PACKED_THREADS, 2)
    pairs_kernel(const __grid_constant__ struct packed_args a)
{
    LAUNCH_SHARED(memory);
    struct pairs_shared<LANE> *s = (struct pairs_shared<LANE> *)memory;

    launch_wait();
    const struct pairs_constant c = pairs_constant_of(a);
    if (a.facts->rough || (c.rows < 0 && !table_is_sum(*a.facts)))
        return;
    if (threadIdx.x == 0)
        s->rules = table_rules_of(*a.facts, a.m, a.room, a.table[0]);
    __syncthreads();
    for (int64_t i = blockIdx.x; i < a.tasks; i += gridDim.x) {
        const struct packed_task t = packed_task_of(a, i, 32 * LANE);
        float sum[4][pairs_shape<LANE>::EIGHTS][4] = {};
        pairs_run<LANE>(a, t, c, s, sum);
        pairs_results<LANE>(a, t, s->rules, sum);
    }
}

/* That of a plan's lane (pairs.cu, a file of its own since it is compiled for
 * long). */
typedef void packed_function(const struct packed_args);
packed_function *pairs_function(int lane);

#endif
