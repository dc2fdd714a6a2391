/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Smooth activations of layers in 8 bits (kernels/quant/quant.h), in single
 * precision by steps that round alike everywhere: products, sums, and products
 * with a sum that round once.  So every row gives the reference's bytes.
 *
 *     x = v (c0 + w (c1 + w c2)),  w = min(v^2, 64)
 *     g = 1 / (1 + exp(-x))
 *     y = max(v, -2^60) g            SiLU, GELU of either form
 *     y = alpha g + beta             sigmoid, tanh
 *     h = min(max(a v + b, 0), 1)    y = h or v h, the hard forms
 *
 * exp and 1 / x are within 2^-22 of themselves; GELU by this g is within 2.6e-5
 * of v Phi(v), which is a thousandth of the unit of an output of up to 3.  g is
 * exp(-60) at least, hence the limit of v: 2^60 exp(-60) is 1e-8.
 *
 * The words QUANT_* are the steps.  A product never meets a sum but in
 * QUANT_FMA: compilers may join the two.
 */
#ifndef KERNELS_QUANT_ACT_H
#define KERNELS_QUANT_ACT_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/base/float_bits.h"
#include "kernels/kern.h"

#ifdef __CUDACC__
#define QUANT_FORM         static __device__ __forceinline__
#define QUANT_FMA(a, b, c) __fmaf_rn(a, b, c)
#define QUANT_MUL(a, b)    __fmul_rn(a, b)
#define QUANT_ADD_OF(a, b) __fadd_rn(a, b)
#else
#define QUANT_FORM         static inline __attribute__((always_inline))
#define QUANT_FMA(a, b, c) __builtin_fmaf(a, b, c)
#define QUANT_MUL(a, b)    ((a) * (b))
#define QUANT_ADD_OF(a, b) ((a) + (b))
#endif

/* What an activation is of the forms above. */
struct quant_smooth {
    float c0, c1, c2;  /* c1 of 0: x is c0 v */
    float alpha, beta; /* of the hard forms: a and b */
    bool hard, times;  /* times: y is a product with v */
};

/* True of activations that are one of these forms. */
static inline bool quant_is_smooth(enum kern_unary_kind kind)
{
    return kind == KERN_SIGMOID || kind == KERN_TANH || kind == KERN_SILU ||
           kind == KERN_HARD_SIGMOID || kind == KERN_HARD_SWISH ||
           kind == KERN_GELU || kind == KERN_GELU_TANH;
}

static inline struct quant_smooth quant_smooth_of(struct kern_unary f)
{
    struct quant_smooth s = {1, 0, 0, 1, 0, false, false};

    s.times = f.kind != KERN_SIGMOID && f.kind != KERN_TANH &&
              f.kind != KERN_HARD_SIGMOID;
    s.hard = f.kind == KERN_HARD_SIGMOID || f.kind == KERN_HARD_SWISH;
    if (f.kind == KERN_SILU) {
        s.c0 = f.a;
    } else if (f.kind == KERN_TANH) {
        s.c0 = 2;
        s.alpha = 2;
        s.beta = -1;
    } else if (f.kind == KERN_GELU_TANH) { /* 2 sqrt(2 / pi), 0.044715 of it */
        s.c0 = 1.5957691216f;
        s.c1 = 0.0713548162726f;
    } else if (f.kind == KERN_GELU) { /* least error over [-8, 8] */
        s.c0 = 1.59501551f;
        s.c1 = 7.40115108e-2f;
        s.c2 = -7.03066894e-4f;
    } else if (f.kind == KERN_HARD_SIGMOID) {
        s.alpha = f.a;
        s.beta = f.b;
    } else if (f.kind == KERN_HARD_SWISH) {
        s.alpha = 1.0f / 6;
        s.beta = 0.5f;
    }
    return s;
}

/* NaN gives a limit. */
QUANT_FORM float quant_limit(float v, float low, float high)
{
    v = v > low ? v : low;
    return v < high ? v : high;
}

/* exp(-x) for |x| up to 60, beyond which it stays what it is there: 2^n times a
 * polynomial of degree 5 in the rest f of x log2(e), |f| <= 1/2, of least
 * relative error.  The sum with 1.5 2^23 has n in its lowest bits. */
QUANT_FORM float quant_exp_minus(float x)
{
    const float log2_e = -1.44269504088896340736f;
    const float limited = quant_limit(x, -60, 60);
    const float t = QUANT_FMA(limited, log2_e, 12582912.0f);
    const float n = QUANT_ADD_OF(t, -12582912.0f);
    const float f = QUANT_FMA(limited, log2_e, -n);
    float p = 0x1.5c082ap-10f;

    p = QUANT_FMA(p, f, 0x1.3d0c5p-7f);
    p = QUANT_FMA(p, f, 0x1.c6b6e6p-5f);
    p = QUANT_FMA(p, f, 0x1.ebf918p-3f);
    p = QUANT_FMA(p, f, 0x1.62e428p-1f);
    p = QUANT_FMA(p, f, 1.0f);
    return float_of_bits(float_bits(p) + (float_bits(t) << 23));
}

/* 1 / d for d from 1 to 2^90: a guess within an eighth, each step squares its
 * relative error. */
QUANT_FORM float quant_reciprocal(float d)
{
    float r = float_of_bits(0x7ef311c7u - float_bits(d));

    r = QUANT_FMA(r, QUANT_FMA(-d, r, 1.0f), r);
    r = QUANT_FMA(r, QUANT_FMA(-d, r, 1.0f), r);
    return QUANT_FMA(r, QUANT_FMA(-d, r, 1.0f), r);
}

QUANT_FORM float quant_curve(const struct quant_smooth *s, float v)
{
    const float square = QUANT_MUL(v, v);
    const float w = square < 64 ? square : 64;

    return QUANT_MUL(v, QUANT_FMA(w, QUANT_FMA(w, s->c2, s->c1), s->c0));
}

/* g of x, not below exp(-60); NaN comes through in quant_smooth_end(). */
QUANT_FORM float quant_logistic(float x)
{
    return quant_reciprocal(QUANT_ADD_OF(1.0f, quant_exp_minus(x)));
}

/* v g; NaN stays NaN. */
QUANT_FORM float quant_times(float v, float g)
{
    return QUANT_MUL(v < -0x1p60f ? -0x1p60f : v, g);
}

/* y of v and g. */
QUANT_FORM float quant_smooth_end(const struct quant_smooth *s, float v,
                                  float g)
{
    if (s->times)
        return quant_times(v, g);
    g = s->hard ? g : QUANT_FMA(s->alpha, g, s->beta);
    return v != v ? v : g;
}

QUANT_FORM float quant_hard(const struct quant_smooth *s, float v)
{
    return quant_limit(QUANT_FMA(s->alpha, v, s->beta), 0, 1);
}

/* The activation of one value. */
QUANT_FORM float quant_smooth(const struct quant_smooth *s, float v)
{
    float g;

    if (s->hard)
        g = quant_hard(s, v);
    else if (s->c1 == 0)
        g = quant_logistic(QUANT_MUL(s->c0, v));
    else
        g = quant_logistic(quant_curve(s, v));
    return quant_smooth_end(s, v, g);
}

#endif
