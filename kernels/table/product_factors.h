/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of a table as sums of products of factors, for tensor cores.
 *
 * in[product_factors_in()] of a problem whose table has products (U32) is BF16,
 * [2][2^m][r], r from 1 to PRODUCT_FACTORS_MOST: u = factors[0] belongs to
 * operands of in[0], v = factors[1] to those of in[1].  The product of the
 * significands of a and b, in [1, 4), is exactly
 *     sum over i of u[a][i] v[b][i],
 * a and b being the operands' indices (product_table.h).  With sign and
 * exponent of an operand in its factors, a convolution of products by a table
 * is an exact one of r times as many channels.  Rows may compute from the
 * factors or from the table; the reference reads the table.
 *
 * The input has the place of the point, which problems of products do not have,
 * and in a dense layer, which has none, one that is free.
 */
#ifndef KERNELS_PRODUCT_FACTORS_H
#define KERNELS_PRODUCT_FACTORS_H

#include "kernels/base/product_table.h"
#include "kernels/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PRODUCT_FACTORS_MOST 16

/* in[] of the factors. */
static inline int product_factors_in(enum kern_op op)
{
    return op == KERN_DENSE_FPROP ? 4 : 7;
}

/* The factors of a problem, or NULL. */
static inline const struct kern_tensor *
product_factors_of(const struct kern_problem *p)
{
    const struct kern_tensor *t = product_table_of(p);
    const struct kern_tensor *factors =
        t ? kern_problem_in(p, product_factors_in(p->op)) : NULL;

    return factors && t->dtype == INFER_U32 && factors->dtype == INFER_BF16
               ? factors
               : NULL;
}

/* Finds the fewest factors that give every entry of a table of m bits exactly;
 * entry of a and b: table[a * row + b * column].  Writes them to factors
 * ([2][2^m][r], bit patterns of BF16; room for r = PRODUCT_FACTORS_MOST) and
 * returns r, or 0: none were found.  EMEMORY.
 *
 * Tried are, for rows and for columns, for the products and for what they
 * differ by from exact ones, which have a factor of their own:
 *   - classes of rows that are multiples of each other: r is their number.
 *     Exact products have one, DRUM's too, any table at most 2^m: one-hot
 *     factors, u[a][i] = [a == i] and v[b][i] the entry.
 *   - rows that are sums of a row for each set of bits of the index, of which
 *     those that are multiples of each other count once (broken arrays, and
 *     circuits of few such sets).
 * What BF16 does not hold is the sum of two factors. */
int product_factors_find(const uint32_t *table, int64_t row, int64_t column,
                         int m, uint16_t *factors);

#ifdef __cplusplus
}
#endif

#endif
