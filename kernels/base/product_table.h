/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The product of two numbers of single precision by a multiplier that need not
 * be exact: sign and exponent are exact, the product of the mantissas comes
 * from a table.
 *
 * Operands are cut to m mantissa bits (1 to PRODUCT_TABLE_MAX_BITS), which are
 * the index: table[a << m | b], a of the first operand, b of the second.  The
 * table need not be symmetric.  An entry is below 2^24: bit 23 is the carry
 * (the product of the significands is 2 or more), bits 22 to 0 are the fraction
 * of the normalised product.  It is the number to be added to the sum of the
 * exponents, shifted by 23.
 *
 * Edges:
 *   - The sign of the product is that of an exact one, also of zero and
 *     infinity.
 *   - Subnormal operands count as zero of their sign.
 *   - Zero times a finite number is zero; infinity times anything but zero is
 *     infinity; zero times infinity, and NaN times anything, is NaN.
 *   - A product with an exponent below that of the least normal number is zero,
 *     one above that of the largest is infinity.
 */
#ifndef KERNELS_BASE_PRODUCT_TABLE_H
#define KERNELS_BASE_PRODUCT_TABLE_H

#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define PRODUCT_TABLE_FUNCTION static inline __host__ __device__
#else
#define PRODUCT_TABLE_FUNCTION static inline
#endif

#define PRODUCT_TABLE_MAX_BITS 11

/* Parts of a number of single precision. */
#define PRODUCT_TABLE_FRACTION UINT32_C(0x007fffff)
#define PRODUCT_TABLE_EXPONENT UINT32_C(0x7f800000)
#define PRODUCT_TABLE_SIGN     UINT32_C(0x80000000)
#define PRODUCT_TABLE_NAN      UINT32_C(0x7fc00000)

/* Entries of a table of m bits. */
static inline int64_t product_table_entries(int m)
{
    return INT64_C(1) << (2 * m);
}

/* Index of an operand's bit pattern. */
PRODUCT_TABLE_FUNCTION uint32_t product_table_index(int m, uint32_t bits)
{
    return (bits & PRODUCT_TABLE_FRACTION) >> (23 - m);
}

/* Product of the bit patterns a and b, whose entry is given. */
PRODUCT_TABLE_FUNCTION uint32_t product_table_join(uint32_t a, uint32_t b,
                                                   uint32_t entry)
{
    const uint32_t sign = (a ^ b) & PRODUCT_TABLE_SIGN;
    const uint32_t ea = a & PRODUCT_TABLE_EXPONENT;
    const uint32_t eb = b & PRODUCT_TABLE_EXPONENT;

    if (ea == PRODUCT_TABLE_EXPONENT || eb == PRODUCT_TABLE_EXPONENT) {
        const uint32_t infinite = PRODUCT_TABLE_EXPONENT << 1;
        if (a << 1 > infinite || b << 1 > infinite || ea == 0 || eb == 0)
            return PRODUCT_TABLE_NAN;
        return sign | PRODUCT_TABLE_EXPONENT;
    }
    if (ea == 0 || eb == 0)
        return sign;
    /* Biased twice; below 2^32, since entries are below 2^24. */
    const uint32_t sum = ea + eb + entry;
    const uint32_t bias = UINT32_C(127) << 23;
    if (sum < bias + (UINT32_C(1) << 23))
        return sign;
    if (sum - bias >= PRODUCT_TABLE_EXPONENT)
        return sign | PRODUCT_TABLE_EXPONENT;
    return sign | (sum - bias);
}

/* Product of the bit patterns a and b by a table of rows of a. */
static inline uint32_t product_table_bits(const uint32_t *table, int m,
                                          uint32_t a, uint32_t b)
{
    return product_table_join(
        a, b,
        table[product_table_index(m, a) << m | product_table_index(m, b)]);
}

static inline float product_table_product(const uint32_t *table, int m, float x,
                                          float y)
{
    uint32_t a, b;
    float product;

    memcpy(&a, &x, sizeof a);
    memcpy(&b, &y, sizeof b);
    a = product_table_bits(table, m, a, b);
    memcpy(&product, &a, sizeof a);
    return product;
}

#endif
