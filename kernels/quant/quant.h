/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions and dense layers in 8 bits: on integers, and on F8E4M3.
 *
 * Integers: x is I8 or U8 and w is I8, with zero point 0 and one scale an
 * output channel: in[5], F32 [K], whose presence makes a problem one of these.
 * Padding stands for the value 0, that is for x's zero point.  With the sums in
 * 32 bits, which are exact, s = sum (x - x_zero) w v = fma(s, x_scale *
 * scale[k], bias[k]) v = act(v + r), or act(v) + r where the epilogue says
 * residual_last where r is the residual; an I8 or U8 one is added by
 *     fma(residual - residual_zero, residual_scale, v)
 * Each operation is rounded to single precision; act is what
 * kernels/quant/act.h says where it is one of the forms there.  y is v where it
 * is of a floating type; of an I8 or U8 one it is y_zero + round(v * (1 /
 * y_scale)) to the nearest, ties to even, limited to the type.  A row gives
 * these bits.
 *
 * F8E4M3: x and w are, and what is 8 bits of the residual and of y.  There are
 * no zero points: they are 0.  Products of two values are exact in single
 * precision, their sums are not: s is the exact sum of products, rounded to
 * single precision, from which a row may differ as far as its accumulator says
 * (tools/verify/bound.c).  From there on each operation is as above, and y is
 * v * (1 / y_scale) to the nearest, ties to even, 448 of its sign beyond that;
 * NaN stays NaN.  No problem has tensors of both kinds.
 * Beside F8E4M3, y may also be F64 with a y_scale: v * (1 / y_scale), not
 * rounded, for tests.
 *
 * An approximate multiplier is a table in[PRODUCT_TABLE_IN] of its errors, I32
 * [256][256]: error[i][k] is its product of two codes less their exact product,
 * where x is the value i of its type, from the least on, and w is k - 128.
 * Then
 *     s = sum (x - x_zero) w + error
 * Zero points take exact shares of the products of codes, so that they change
 * no error.  Padding is no product: it has neither.  Errors are from -2^18 to
 * 2^18, so that 8,192 terms fit into 32 bits; sums of more are exact too.
 */
#ifndef KERNELS_QUANT_QUANT_H
#define KERNELS_QUANT_QUANT_H

#include "kernels/problem.h"

/* in[] of the weights' scales. */
#define QUANT_IN 5

/* Most terms of a sum: 255 * 128 times as many, and what padding adds, fit 32
 * bits. */
#define QUANT_MAX_TERMS 32768

/* The weights' scales of a problem on integers, or NULL. */
static inline const struct kern_tensor *quant_of(const struct kern_problem *p)
{
    return p->op == KERN_CONV_FPROP || p->op == KERN_DENSE_FPROP
               ? kern_problem_in(p, QUANT_IN)
               : NULL;
}

/* act(v) of an activation for which quant_is_smooth() (kernels/quant/act.h). */
float quant_act(const struct kern_unary *f, float v);

/* True of the types that scales stand for. */
static inline bool quant_is_byte(enum infer_dtype dtype)
{
    return dtype == INFER_I8 || dtype == INFER_U8 || dtype == INFER_F8E4M3;
}

static inline bool quant_is_integer(enum infer_dtype dtype)
{
    return dtype == INFER_I8 || dtype == INFER_U8;
}

/* The type of weights beside this one of x. */
static inline enum infer_dtype quant_weights_of(enum infer_dtype x)
{
    return x == INFER_F8E4M3 ? INFER_F8E4M3 : INFER_I8;
}

/* True of a copy, pool, function of two arguments, or scale and shift in 8 bits
 * with scales. */
static inline bool quant_is_scaled(const struct kern_problem *p)
{
    return (p->op == KERN_COPY || p->op == KERN_POOL_FPROP ||
            p->op == KERN_BINARY || p->op == KERN_SCALE_SHIFT) &&
           (p->quant.x_scale != 0 || p->quant.y_scale != 0 ||
            p->quant.residual_scale != 0);
}

/* Limits of a tensor's v / scale before it is rounded to 8 bits. */
static inline void quant_limits(enum infer_dtype dtype, int zero, float *low,
                                float *high)
{
    if (dtype == INFER_F8E4M3) {
        *low = -448;
        *high = 448;
        return;
    }
    *low = (float)((dtype == INFER_U8 ? 0 : -128) - zero);
    *high = (float)((dtype == INFER_U8 ? 255 : 127) - zero);
}

#endif
