/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operands prepared for packed.cuh and pairs.cuh, once for a launch; engine.cuh
 * says what x', first and power are.
 *
 * For packed.cuh, a word an element:
 *   x'      with its zero padding, so that no pixel is outside
 *   w       (first, power) of each term and scalar, rows of terms, scalars
 *           padded to whole tiles, terms to whole chunks, with zeros
 *   place   of each term: its offset in x', relative to that of a column
 * An element of x' of a column and a term is at the sum of their offsets.
 *
 * For pairs.cuh two terms are joined in a word, as BF16, the first in the lower
 * half: neighbouring channels, or in gradients of weights the same pixel of
 * neighbouring images.  An odd one's partner is zero.  w lies in blocks of 16
 * pairs of terms and 64 scalars: the first words of all, then the powers, 4 KiB
 * each, [pairs / 8][scalar][t][half] for pair 4 half + t of 8, as the lanes of
 * an m16n8k16 product read them; then what pairs_reach.cuh has of them.
 */
#ifndef KERNELS_CUDA_TABLE_PACKED_PREPARE_CUH
#define KERNELS_CUDA_TABLE_PACKED_PREPARE_CUH

#include "kernels/cuda/strided.cuh"
#include "kernels/cuda/table/engine.cuh"
#include "kernels/cuda/table/pairs_reach.cuh"

#define PACKED_THREADS 256
#define PACKED_TILE    32

/* One axis of taps and of pixels in x'. */
struct packed_axis {
    int extent, pad; /* of x, and zeros before it in x' */
    int padded;      /* extent of x' */
};

/* x' is [n][h][w][c] in any order: strides of it and of x. */
struct packed_x_args {
    bool tiles; /* x has channels innermost, x' has them outermost */
    bool wide;  /* both elements of a pair can be read at once */
    const uint32_t *x;
    uint32_t *to;
    int64_t from_stride[4]; /* n, h, w, c */
    struct fast_div by[3];  /* of x' from the innermost dimension on */
    int order[4];           /* which dimension that is */
    int64_t count;
    int channels;        /* of x' */
    int64_t pair_stride; /* from an element to its partner */
    bool by_images;      /* pairs are of images, not of channels */
    int pair_extent;     /* images or channels of x */
    struct packed_axis h, w;
};

/* Rows of terms: up to 4 dimensions, the innermost last, and scalars. */
struct packed_w_args {
    const uint32_t *w;
    uint32_t *to;
    int terms, scalars, pitch; /* pitch: scalars with padding */
    int64_t rows;              /* terms with padding */
    struct fast_div by_pitch, by[3];
    int64_t stride[4], scalar_stride;
    int64_t pair_stride;
    int pair_extent;
    bool by_images; /* pairs are of the second dimension, not of the last */
    /* Offsets of the terms in x'. */
    int place_stride[4];
    int *place;
};

struct packed_prepare_args {
    struct packed_x_args x;
    struct packed_w_args w;
    const uint32_t *table;
    struct table_facts *facts;
    int m;
    size_t room;
    int64_t column; /* of the table, if the engine reads it in memory */
    bool pairs;     /* pairs.cuh computes sums */
};

/* Most significands whose sum with another may reach 4 (pairs.cuh). */
#define PAIRS_MOST_ROWS 4

/* Whether products are sums and a constant that pairs.cuh can add: the number
 * of the largest significands for which it is left out with some partner; -1:
 * they are not.  The constant is a BF16, and a multiple of 2^-8 as sums are. */
static __device__ __forceinline__ int pairs_rows(const struct table_facts &f,
                                                 int m, uint32_t first_entry)
{
    const float add = table_constant(first_entry);
    /* Half of the least sum that reaches 4 with it, in units of 2^-m. */
    const int least = (int)ceilf((4 - add) * (float)(1 << m) / 2);
    const int rows = max(0, (2 << m) - 1 - least);

    if (f.cut_least + f.cut_below_24 <= 24 || !f.wrong_sum || f.wrong_sum_add ||
        add <= 0 || add * 256 != floorf(add * 256) ||
        (__float_as_uint(add) & 0xffff) != 0)
        return -1;
    return rows <= PAIRS_MOST_ROWS ? rows : -1;
}

/* True if pairs.cuh, which a launch has beside packed.cuh, computes it. */
static __device__ __forceinline__ bool
packed_is_pairs(const struct table_facts &f, bool pairs, int m,
                uint32_t first_entry)
{
    return pairs && (table_is_sum(f) || pairs_rows(f, m, first_entry) >= 0);
}

/* ---- x ------------------------------------------------------------- */

/* What x' has of an element of x, or of it and its partner. */
template <bool PAIRS>
static __device__ __forceinline__ uint32_t
packed_x_word(const struct packed_x_args &a, const struct table_rules &r,
              const uint32_t *from, bool inside, bool partner, bool *plain)
{
    uint32_t v = 0, second = 0;

    if (PAIRS && a.wide && inside && partner) {
        const uint2 both = *reinterpret_cast<const uint2 *>(from);
        v = both.x;
        second = both.y;
    } else if (inside) {
        v = *from;
        if (PAIRS && partner)
            second = from[a.pair_stride];
    }
    *plain = table_x_is_plain(r, v) && *plain;
    if (!PAIRS)
        return table_take_x(r, v);
    *plain = table_x_is_plain(r, second) && *plain;
    return __byte_perm(table_take_x(r, v), table_take_x(r, second), 0x7632);
}

template <bool PAIRS>
static __device__ __forceinline__ bool
packed_x(const struct packed_x_args &a, const struct table_rules &r, int64_t i)
{
    uint32_t at[4], rest = (uint32_t)i;
    bool plain = true;

    for (int d = 0; d < 3; d++)
        rest = a.by[d].divmod(rest, &at[a.order[d]]);
    at[a.order[3]] = rest;
    const int h = (int)at[1] - a.h.pad, w = (int)at[2] - a.w.pad;
    const bool inside = (unsigned)h < (unsigned)a.h.extent &&
                        (unsigned)w < (unsigned)a.w.extent;
    const int first = (int)at[a.by_images ? 0 : 3] * 2;
    a.to[i] = packed_x_word<PAIRS>(
        a, r,
        a.x + at[0] * a.from_stride[0] + h * a.from_stride[1] +
            w * a.from_stride[2] + at[3] * a.from_stride[3],
        inside, first + 1 < a.pair_extent, &plain);
    return plain;
}

/* Tiles of 32 positions of x' by 32 channels, transposed through shared memory.
 * x' has w, h and n innermost, which the divisors count. */
template <bool PAIRS>
static __device__ bool packed_x_tiles(const struct packed_x_args &a,
                                      const struct table_rules &r,
                                      uint32_t (*tile)[PACKED_TILE + 1])
{
    const int64_t positions = a.count / a.channels;
    const int64_t across = (positions + PACKED_TILE - 1) / PACKED_TILE;
    const int along = (a.channels + PACKED_TILE - 1) / PACKED_TILE;
    const int tx = threadIdx.x % PACKED_TILE, ty = threadIdx.x / PACKED_TILE;
    bool plain = true;

    for (int64_t t = blockIdx.x; t < across * along; t += gridDim.x) {
        const int64_t p0 = t % across * PACKED_TILE;
        const int c0 = (int)(t / across) * PACKED_TILE, c = c0 + tx;
        for (int i = ty; i < PACKED_TILE; i += PACKED_THREADS / PACKED_TILE) {
            uint32_t at[2], n = (uint32_t)(p0 + i);
            n = a.by[1].divmod(a.by[0].divmod(n, &at[0]), &at[1]);
            const int h = (int)at[1] - a.h.pad, w = (int)at[0] - a.w.pad;
            const bool inside = p0 + i < positions && c < a.channels &&
                                (unsigned)h < (unsigned)a.h.extent &&
                                (unsigned)w < (unsigned)a.w.extent;
            tile[i][tx] = packed_x_word<PAIRS>(
                a, r,
                a.x + n * a.from_stride[0] + h * a.from_stride[1] +
                    w * a.from_stride[2] + c * a.from_stride[3],
                inside, 2 * c + 1 < a.pair_extent, &plain);
        }
        __syncthreads();
        for (int i = ty; i < PACKED_TILE; i += PACKED_THREADS / PACKED_TILE)
            if (p0 + tx < positions && c0 + i < a.channels)
                a.to[(c0 + i) * positions + p0 + tx] = tile[tx][i];
        __syncthreads();
    }
    return plain;
}

/* ---- w ------------------------------------------------------------- */

/* Where a term's weights begin; notes its place if it is to. */
static __device__ __forceinline__ const uint32_t *
packed_term(const struct packed_w_args &a, uint32_t term, uint32_t scalar,
            uint32_t (&at)[4])
{
    const uint32_t *from = a.w + scalar * a.scalar_stride;
    uint32_t rest = term;
    int place = 0;

#pragma unroll
    for (int d = 3; d > 0; d--)
        rest = a.by[3 - d].divmod(rest, &at[d]);
    at[0] = rest;
#pragma unroll
    for (int d = 0; d < 4; d++) {
        from += at[d] * a.stride[d];
        place += (int)at[d] * a.place_stride[d];
    }
    if (scalar == 0)
        a.place[term] = place;
    return from;
}

static __device__ __forceinline__ bool packed_w(const struct packed_w_args &a,
                                                const struct table_rules &r,
                                                uint32_t step, int64_t i)
{
    uint2 *to = reinterpret_cast<uint2 *>(a.to) + i;
    uint32_t scalar, at[4];
    const uint32_t term = a.by_pitch.divmod((uint32_t)i, &scalar);

    if (term >= (uint32_t)a.terms || scalar >= (uint32_t)a.scalars) {
        *to = make_uint2(table_take_w(r, 0, step).x, 0);
        if (scalar == 0 && term >= (uint32_t)a.terms)
            a.place[term] = 0;
        return true;
    }
    const uint32_t v = *packed_term(a, term, scalar, at);
    *to = table_take_w(r, v, step);
    return table_w_is_plain(r, v);
}

/* 8 pairs of terms of a scalar; *reach: a bit for each of the 16 terms whose
 * significand is one of the `rows` largest. */
static __device__ __forceinline__ bool
pairs_w_eight(const struct packed_w_args &a, const struct table_rules &r,
              int rows, uint32_t eight, uint32_t scalar, uint32_t *to,
              uint32_t *reach)
{
    const uint32_t least = ((1u << r.m) - (uint32_t)rows) << (23 - r.m);
    uint32_t first[8], power[8];
    bool plain = true;

    *reach = 0;
#pragma unroll
    for (int j = 0; j < 8; j++) {
        const uint32_t term = eight * 8 + j;
        const int at_j = j % 4 * 2 + j / 4;
        uint32_t at[4], v[2] = {};
        if (term < (uint32_t)a.terms && scalar < (uint32_t)a.scalars) {
            const uint32_t *from = packed_term(a, term, scalar, at);
            const uint32_t n = a.by_images ? at[1] : at[3];
            v[0] = *from;
            if ((int)n * 2 + 1 < a.pair_extent)
                v[1] = from[a.pair_stride];
        } else if (scalar == 0) {
            a.place[term] = 0;
        }
        const uint2 one = table_take_w(r, v[0], 0);
        const uint2 two = table_take_w(r, v[1], 0);
        plain = table_w_is_plain(r, v[0]) && table_w_is_plain(r, v[1]) && plain;
        first[at_j] = __byte_perm(one.x, two.x, 0x7632);
        power[at_j] = __byte_perm(one.y, two.y, 0x7632);
        *reach |= (uint32_t)(one.x >= least && one.y << 1 != 0) << 2 * j;
        *reach |= (uint32_t)(two.x >= least && two.y << 1 != 0) << (2 * j + 1);
    }
#pragma unroll
    for (int j = 0; j < 8; j += 4) {
        *reinterpret_cast<uint4 *>(to + j) =
            make_uint4(first[j], first[j + 1], first[j + 2], first[j + 3]);
        *reinterpret_cast<uint4 *>(to + PAIRS_BLOCK / 2 + j) =
            make_uint4(power[j], power[j + 1], power[j + 2], power[j + 3]);
    }
    return plain;
}

/* A chunk's pairs of terms of a scalar, the i-th such of all.  All lanes of a
 * warp, which have scalars of one block. */
static __device__ __forceinline__ bool pairs_w(const struct packed_w_args &a,
                                               const struct table_rules &r,
                                               int rows, int64_t i)
{
    uint32_t scalar, reach[2];
    const uint32_t chunk = a.by_pitch.divmod((uint32_t)i, &scalar);
    const uint32_t blocks = (uint32_t)a.pitch / PACKED_SCALARS;
    uint32_t *block =
        a.to +
        (int64_t)(chunk * blocks + scalar / PACKED_SCALARS) * PAIRS_WORDS;
    bool plain = true;

#pragma unroll
    for (int h = 0; h < 2; h++)
        plain = pairs_w_eight(a, r, rows, chunk * 2 + h, scalar,
                              block + h * (PAIRS_BLOCK / 4) +
                                  scalar % PACKED_SCALARS * 8,
                              &reach[h]) &&
                plain;
    if (rows > 0)
        pairs_reach_write(block, scalar % PACKED_SCALARS, r.m, rows, r.add,
                          reach[0] | reach[1] << 16);
    return plain;
}

/* ---- both ---------------------------------------------------------- */

/* Prepares both operands; marks facts.rough where one is not plain. */
template <bool PAIRS>
static __global__ void __launch_bounds__(PACKED_THREADS)
    packed_prepare(const __grid_constant__ struct packed_prepare_args a)
{
    __shared__ struct table_rules rules;
    __shared__ uint32_t tile[PACKED_TILE][PACKED_TILE + 1];
    const int64_t grid = (int64_t)gridDim.x * PACKED_THREADS;
    const int64_t count = a.w.rows * a.w.pitch / (PAIRS ? PACKED_TERMS : 1);
    bool plain = true;

    launch_wait();
    if (packed_is_pairs(*a.facts, a.pairs, a.m, a.table[0]) != PAIRS)
        return;
    if (threadIdx.x == 0)
        rules = table_rules_of(*a.facts, a.m, a.room, a.table[0]);
    __syncthreads();
    const uint32_t step = table_row_step(rules, a.column);
    const int rows =
        table_is_sum(*a.facts) ? 0 : pairs_rows(*a.facts, a.m, a.table[0]);
    const int64_t first = blockIdx.x * (int64_t)PACKED_THREADS + threadIdx.x;
    if (a.x.tiles)
        plain = packed_x_tiles<PAIRS>(a.x, rules, tile);
    else
        for (int64_t i = first; i < a.x.count; i += grid)
            plain = packed_x<PAIRS>(a.x, rules, i) && plain;
    for (int64_t i = first; i < count; i += grid)
        plain = (PAIRS ? pairs_w(a.w, rules, rows, i)
                       : packed_w(a.w, rules, step, i)) &&
                plain;
    if (!plain)
        a.facts->rough = 1;
}

#endif
