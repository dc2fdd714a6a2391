/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradients by the derivatives of an approximate product.
 *
 * The table in[PRODUCT_TABLE_IN] of a convolution or of one of its gradients is
 * then F32, [2^m][2^m], m from 1 to 11, and another input, the point, F32 and
 * of output 0's shape, has the operands o that the derivatives are taken at.
 * One of in[0] and in[1] is a gradient g, the other the operand q that o was
 * multiplied by.
 * In place of the product of g and q a sum has
 *     g * (table[o's index][q's index] * q')
 * where an index is the operand's first m mantissa bits (product_table.h) and
 * q' is q with significand 1: a derivative of significands with q's sign and
 * exponent.  g is not cut.  Both products round to single precision; a row may
 * join the second with the sum.  Subnormal q count as zero of their sign, a NaN
 * gives NaN; else infinities and zeros are as IEEE 754 has them.
 *
 * The place of the point says which is the gradient:
 *     in[7]   in[0] of a convolution and of its transpose, in[1] of
 *             KERN_CONV_WGRAD
 *     in[5]   in[0] of KERN_CONV_WGRAD, as a transposed convolution has it
 */
#ifndef KERNELS_PRODUCT_SLOPE_H
#define KERNELS_PRODUCT_SLOPE_H

#include "kernels/base/product_table.h"
#include "kernels/problem.h"

/* in[] of the point. */
#define PRODUCT_POINT_IN       7
#define PRODUCT_POINT_FIRST_IN 5 /* of KERN_CONV_WGRAD where in[0] is g */

/* The table of derivatives that a problem has, or NULL. */
static inline const struct kern_tensor *
product_slope_of(const struct kern_problem *p)
{
    const struct kern_tensor *t = product_table_of(p);

    return t && t->dtype == INFER_F32 ? t : NULL;
}

/* in[] of the point of a problem of derivatives. */
static inline int product_point_in(const struct kern_problem *p)
{
    return p->op == KERN_CONV_WGRAD &&
                   kern_problem_in(p, PRODUCT_POINT_FIRST_IN)
               ? PRODUCT_POINT_FIRST_IN
               : PRODUCT_POINT_IN;
}

/* Which of in[] is the gradient, 0 or 1. */
static inline int product_slope_gradient(const struct kern_problem *p)
{
    return p->op == KERN_CONV_WGRAD && product_point_in(p) == PRODUCT_POINT_IN;
}

/* The derivative by an entry of the table and the bit pattern of q. */
static inline float product_slope(float entry, uint32_t q)
{
    const bool nan = (q << 1) > (PRODUCT_TABLE_EXPONENT << 1);
    const uint32_t bits = nan ? q : q & ~PRODUCT_TABLE_FRACTION;
    float scale;

    memcpy(&scale, &bits, sizeof scale);
    return entry * scale;
}

#endif
