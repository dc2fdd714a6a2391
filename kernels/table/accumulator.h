/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accumulators of products of a table: how and in which order they are added.
 *
 * in[accumulator_in()] of a problem whose table has products (U32) is I32[2]:
 * the kind of adder (enum accumulator_kind) and its parameter.  It has the
 * place of the factors, whose rows add on tensor cores.  A problem without it
 * is added in single precision, in an order that its row chooses.
 *
 * Order.  Terms of an output are numbered
 *     convolution, its transpose  taps in row-major order, the channels of the
 *                                 group innermost
 *     gradient of weights         images, then pixels of dy in row-major order
 *     dense                       columns of x
 * padding included, which is counted and not added.  Each
 * ACCUMULATOR_CHUNK terms are added from zero on, one after the other; each
 * ACCUMULATOR_CHUNK sums of these from zero on; these in turn, from zero on
 * (Wang and others, Training deep neural networks with 8-bit floating point
 * numbers, 2018, add in chunks).  What an epilogue adds is added to the total
 * exactly.  So all rows give the same bits.
 *
 * Adders take and give single precision.  Subnormal terms, zeros among them,
 * are not added; subnormal sums become zero of their sign.  Infinities and NaN
 * are as IEEE 754 has them; which NaN it is, differs for ACCUMULATOR_FP32.
 *     ACCUMULATOR_FP32  the sum rounded to single precision
 *     ACCUMULATOR_BF16  then rounded to 8 significant bits, ties to even
 *     ACCUMULATOR_LOA   an adder of significands of 24 bits that ors the
 *                       lowest k: the lower-part OR adder (Mahdiani and others,
 *                       Bio-inspired imprecise computational blocks, 2010)
 *
 * The last one shifts the significand of the term of the lower exponent to the
 * right and cuts it.  Terms of one sign: the upper parts are added with a carry
 * that is the and of the two bits k - 1; the lower k bits are those of the or.
 * Terms of two signs: the same with the complement of the smaller one, in ones'
 * complement; the carry is 1 for k = 0, so that this is exact.  A difference
 * below zero is zero.  Where the smaller significand is shifted out, the larger
 * term is the sum.  The sum is normalised, and cut where it has 25 bits.
 */
#ifndef KERNELS_ACCUMULATOR_H
#define KERNELS_ACCUMULATOR_H

#include "kernels/base/float_bits.h"
#include "kernels/table/product_factors.h"

#define ACCUMULATOR_CHUNK 64
#define ACCUMULATOR_RUN   (ACCUMULATOR_CHUNK * ACCUMULATOR_CHUNK)

enum accumulator_kind {
    ACCUMULATOR_FP32,
    ACCUMULATOR_BF16,
    ACCUMULATOR_LOA,
    ACCUMULATOR_KINDS
};

/* Most bits of the lower part. */
#define ACCUMULATOR_MAX_LOWER 23

/* in[] of the accumulator. */
static inline int accumulator_in(enum kern_op op)
{
    return product_factors_in(op);
}

/* The accumulator of a problem, or NULL. */
static inline const struct kern_tensor *
accumulator_of(const struct kern_problem *p)
{
    const struct kern_tensor *t = product_table_of(p);
    const struct kern_tensor *a =
        t ? kern_problem_in(p, accumulator_in(p->op)) : NULL;

    return a && t->dtype == INFER_U32 && a->dtype == INFER_I32 ? a : NULL;
}

/* ---- adders, on bit patterns ---------------------------------------- */

/* Zero of its sign for a subnormal number. */
PRODUCT_TABLE_FUNCTION uint32_t accumulator_flush(uint32_t v)
{
    return v & PRODUCT_TABLE_EXPONENT ? v : v & PRODUCT_TABLE_SIGN;
}

/* Rounded to 8 significant bits. */
PRODUCT_TABLE_FUNCTION uint32_t accumulator_to_bf16(uint32_t v)
{
    const bool nan = (v & ~PRODUCT_TABLE_SIGN) > PRODUCT_TABLE_EXPONENT;
    const uint32_t even = (v >> 16) & 1;

    return nan ? PRODUCT_TABLE_NAN : (v + 0x7fff + even) & 0xffff0000u;
}

/* The exact sum of two terms that are not zero, rounded once. */
PRODUCT_TABLE_FUNCTION uint32_t accumulator_exact(uint32_t a, uint32_t b)
{
#ifdef __CUDA_ARCH__
    const float sum = __fadd_rn(float_of_bits(a), float_of_bits(b));
#else
    const float sum = float_of_bits(a) + float_of_bits(b);
#endif

    return accumulator_flush(float_bits(sum));
}

/* The sum by the lower-part OR adder, its lower part having k bits. */
PRODUCT_TABLE_FUNCTION uint32_t accumulator_loa(int k, uint32_t a, uint32_t b)
{
    const uint32_t one = 1u << 23;
    const bool less = (a << 1) < (b << 1);
    const uint32_t large = less ? b : a, small = less ? a : b;
    const bool differ = (a ^ b) >> 31;
    const uint32_t exponent = (large & PRODUCT_TABLE_EXPONENT) >> 23;
    const uint32_t shift = exponent - ((small & PRODUCT_TABLE_EXPONENT) >> 23);
    const uint32_t x = (large & PRODUCT_TABLE_FRACTION) | one;
    const uint32_t cut =
        ((small & PRODUCT_TABLE_FRACTION) | one) >> (shift < 24 ? shift : 24);
    const uint32_t y = differ ? ~cut & 0xffffffu : cut;
    const uint32_t mask = (1u << k) - 1;
    /* Bits k - 1 of both, or none. */
    const uint32_t carry =
        k == 0 ? (uint32_t)differ : (x & y) >> (k > 0 ? k - 1 : 0) & 1;
    uint32_t upper = (x >> k) + (y >> k) + carry;
    const uint32_t top = 1u << (24 - k);
    const bool below = differ && upper < top;
    uint32_t s = ((differ ? upper - top : upper) << k) | ((x | y) & mask);
    const bool wide = s >> 24;
    s = wide ? s >> 1 : s;
    /* s is below 2^24: exact as a float, which normalises it. */
    const uint32_t normal = float_bits((float)(int32_t)s);
    const int32_t e =
        (int32_t)(normal >> 23) + (int32_t)exponent + (int32_t)wide - 150;
    const uint32_t sign = large & PRODUCT_TABLE_SIGN;
    uint32_t sum = sign | (uint32_t)e << 23 | (normal & PRODUCT_TABLE_FRACTION);

    sum = e >= 255 ? sign | PRODUCT_TABLE_EXPONENT : sum;
    sum = e <= 0 ? sign : sum;
    sum = below || s == 0 ? 0 : sum;
    sum = cut == 0 ? large : sum;
    if (exponent == 255) {
        const uint32_t infinite = PRODUCT_TABLE_EXPONENT << 1;
        const bool nan =
            large << 1 > infinite || (small << 1 == infinite && differ);
        sum = nan ? PRODUCT_TABLE_NAN : large;
    }
    return sum;
}

/* sum + term; kind and k: of the accumulator. */
PRODUCT_TABLE_FUNCTION uint32_t accumulator_add(int kind, int k, uint32_t sum,
                                                uint32_t term)
{
    const bool no_sum = (sum & PRODUCT_TABLE_EXPONENT) == 0;
    const bool no_term = (term & PRODUCT_TABLE_EXPONENT) == 0;
    uint32_t v;

    if (kind == ACCUMULATOR_LOA)
        v = no_sum ? term : accumulator_loa(k, sum, term);
    else
        v = no_sum ? term : accumulator_exact(sum, term);
    if (kind == ACCUMULATOR_BF16)
        v = accumulator_to_bf16(v);
    return no_term ? sum : v;
}

#endif
