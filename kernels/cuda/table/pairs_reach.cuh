/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The products of a chunk that could reach 4 with the constant, from which it
 * is taken off again (pairs.cuh): those of the w whose significands are among
 * the few largest ones.  They are noted when w is prepared, for each 8 scalars
 * of a block up to 16 of the chunk's 32 terms times 8 scalars, in any order:
 * the depth of one m16n8k16 product, in which a slot has one w, in the column
 * of its scalar, and the x of its term.
 *
 * Random weights of 7 mantissa bits have 8 such of 256, more than 16 in one of
 * 300 cases; there the kernel goes through all terms.
 */
#ifndef KERNELS_CUDA_TABLE_PAIRS_REACH_CUH
#define KERNELS_CUDA_TABLE_PAIRS_REACH_CUH

#include <stdint.h>

#define PACKED_SCALARS 64 /* of a tile */
#define PACKED_TERMS   16 /* of a chunk; of pairs.cuh pairs of terms */

/* Words of a block of w: of its first words and powers, and with the slots. */
#define PAIRS_BLOCK (2 * PACKED_TERMS * PACKED_SCALARS)
#define PAIRS_WORDS (PAIRS_BLOCK + (int)sizeof(struct pairs_reach) / 4)

#define PAIRS_SLOTS 16

/* A slot's half word says where its x is: the pair of terms in bits 8 to 11,
 * below what __byte_perm selects of the words of the slots 2 t and 2 t + 1.
 * least: the least significand of x, as BF16, that reaches 4. */
struct pairs_slots {
    uint32_t where, least; /* of slots 2 t, 2 t + 1 */
};

struct alignas(16) pairs_reach {
    struct pairs_slots x[8][4][2]; /* [8 scalars][t][half]: t + 4 half */
    uint2 w[8][32]; /* [8 scalars][lane]: second operand, less the constant */
    uint32_t count[8]; /* of slots; above 16: they are not there */
};

static __device__ __forceinline__ uint32_t pairs_slot_where(uint32_t pair,
                                                            uint32_t half,
                                                            uint32_t odd)
{
    return pair << 8 | (0x10u + half * 0x22u + odd * 0x44u);
}

/* Notes the w of a scalar, `terms` having a bit for each.  The constant is a
 * BF16 of 2^-8 or more, times which no power is subnormal (TABLE_SPAN).  All
 * lanes of a warp, neighbours having neighbouring scalars of one block. */
static __device__ __forceinline__ void
pairs_reach_write(uint32_t *block, uint32_t scalar, int m, int rows,
                  float constant, uint32_t terms)
{
    struct pairs_reach *to = (struct pairs_reach *)(block + PAIRS_BLOCK);
    const uint32_t eight = scalar / 8, g = scalar % 8;
    const uint32_t none = pairs_slot_where(0, 0, 0) | pairs_slot_where(0, 0, 1)
                                                          << 16;
    uint16_t *x = (uint16_t *)&to->x[eight][0][0];
    uint16_t *w = (uint16_t *)&to->w[eight][g * 4];
    const int own = __popc(terms);
    int end = own;

    for (int step = 1; step < 8; step *= 2) {
        const int before = __shfl_up_sync(~0u, end, step, 8);
        if ((int)g >= step)
            end += before;
    }
    to->x[eight][g / 2][g % 2] = {none, 0x7f807f80u};
    for (int t = 0; t < 4; t++)
        to->w[eight][g * 4 + t] = make_uint2(0, 0);
    if (g == 7)
        to->count[eight] = (uint32_t)end;
    __syncwarp();
    for (int i = end - own; terms != 0 && i < PAIRS_SLOTS; i++) {
        const uint32_t term = (uint32_t)__ffs((int)terms) - 1, pair = term / 2;
        const uint32_t at = pair / 8 * (PAIRS_BLOCK / 4) + scalar * 8 +
                            pair % 4 * 2 + pair % 8 / 4;
        const uint32_t shift = term % 2 * 16;
        const uint32_t fraction = (block[at] >> shift & 127) >> (7 - m);
        /* What w lacks to the largest one, x may not lack. */
        const uint32_t lacks = (1u << m) - 1 - fraction;
        const uint32_t least = (1u << m) - ((uint32_t)rows - lacks);
        const int half = i % 8 / 2 * 8 + i / 8 * 4 + i % 2;
        x[half] = (uint16_t)pairs_slot_where(pair, term % 2, (uint32_t)i % 2);
        x[half + 2] = (uint16_t)((127u << 7) + (least << (7 - m)));
        const uint32_t power = block[PAIRS_BLOCK / 2 + at] >> shift << 16;
        w[i % 8 / 2 * 4 + i / 8 * 2 + i % 2] =
            (uint16_t)(__float_as_uint(__uint_as_float(power) * -constant) >>
                       16);
        terms &= terms - 1;
    }
}

#endif
