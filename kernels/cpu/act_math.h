/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of one argument in single precision, inlined into each clone, and
 * with them the words of kernels/unary.def.
 *
 * The transcendental ones are polynomials without branches or tables, within a
 * few units in the last place of the exact value:
 * exp: 2^n 2^f, |f| <= 1/2, minimax polynomial in f of degree 6;
 * log: argument scaled to [sqrt 1/2, sqrt 2), Cephes' polynomial of degree 8;
 * tanh and erf: odd rational approximations on a clamped argument.
 */
#ifndef KERNELS_CPU_ACT_MATH_H
#define KERNELS_CPU_ACT_MATH_H

#include <math.h>

#include "kernels/cpu/cpu.h"

/* Adding 1.5 * 2^23 rounds to an integer, which then stands in the low bits. */
#define MAGIC      12582912.0f
#define MAGIC_BITS 0x4b400000u
/* log2 e as the sum of two floats */
#define LOG2_E     1.4426950216293335f
#define LOG2_E_LOW 1.9259629911266175e-8f

/* exp(x) = 2^n (1 + r): returns r, in [-0.3, 0.42], and stores n. */
CPU_INLINE float exp_split(float x, uint32_t *n)
{
    const float t = x * LOG2_E + MAGIC, whole = t - MAGIC;
    const float f = x * LOG2_E_LOW + (x * LOG2_E - whole);
    float p = 1.5353360504377633e-4f;

    p = p * f + 1.3398875016719103e-3f;
    p = p * f + 9.61843691766262e-3f;
    p = p * f + 5.5503323674201965e-2f;
    p = p * f + 2.4022647738456726e-1f;
    p = p * f + 6.931471824645996e-1f;
    *n = float_bits(t) - MAGIC_BITS;
    return p * f;
}

/* 2^n, n in [-126, 127] */
CPU_INLINE float pow2(uint32_t n)
{
    return float_of_bits((n + 127u) << 23);
}

CPU_INLINE float exp_of(float x)
{
    uint32_t n, half;
    float r;

    /* Beyond these the result is infinite or 0 in any case. */
    x = x > 89.0f ? 89.0f : x;
    x = x < -104.0f ? -104.0f : x;
    r = exp_split(x, &n);
    /* In two steps, as 2^n alone may overflow or be denormal. */
    half = (uint32_t)((int32_t)n >> 1);
    return (1.0f + r) * pow2(half) * pow2(n - half);
}

/* exp(x) - 1 for x <= 0, exact near 0. */
CPU_INLINE float expm1_of(float x)
{
    uint32_t n;
    float r, s;

    x = x < -80.0f ? -80.0f : x;
    x = x > 0.0f ? 0.0f : x;
    r = exp_split(x, &n);
    s = pow2(n);
    return s * r + (s - 1.0f);
}

/* log(x) for normal x > 0 */
CPU_INLINE float log_normal(float x)
{
    /* Splits at sqrt(1/2): exponent of x / sqrt(1/2). */
    const uint32_t u = float_bits(x) - 0x3f3504f3u;
    const float e = (float)((int32_t)u >> 23);
    const float m = float_of_bits((u & 0x7fffffu) + 0x3f3504f3u) - 1.0f;
    const float z = m * m;
    float p = 7.0376836292e-2f;

    p = p * m - 1.1514610310e-1f;
    p = p * m + 1.1676998740e-1f;
    p = p * m - 1.2420140846e-1f;
    p = p * m + 1.4249322787e-1f;
    p = p * m - 1.6668057665e-1f;
    p = p * m + 2.0000714765e-1f;
    p = p * m - 2.4999993993e-1f;
    p = p * m + 3.3333331174e-1f;
    /* e ln 2 in two parts, the first with few bits so that e times it is
     * exact. */
    return m + (p * m * z - e * 2.12194440e-4f - 0.5f * z) + e * 0.693359375f;
}

/* Where it is below 1e-37 it stays there. */
CPU_INLINE float sigmoid_of(float x)
{
    uint32_t n;
    float r;

    x = x > 86.0f ? 86.0f : x;
    x = x < -86.0f ? -86.0f : x;
    r = exp_split(-x, &n);
    return 1.0f / (1.0f + float_of_bits(float_bits(1.0f + r) + (n << 23)));
}

CPU_INLINE float tanh_of(float x)
{
    const float limit = 7.90531110763549805f;
    float z, p, q;

    x = x > limit ? limit : x;
    x = x < -limit ? -limit : x;
    z = x * x;
    p = -2.76076847742355e-16f;
    p = p * z + 2.00018790482477e-13f;
    p = p * z - 8.60467152213735e-11f;
    p = p * z + 5.12229709037114e-8f;
    p = p * z + 1.48572235717979e-5f;
    p = p * z + 6.37261928875436e-4f;
    p = p * z + 4.89352455891786e-3f;
    q = 1.19825839466702e-6f;
    q = q * z + 1.18534705686654e-4f;
    q = q * z + 2.26843463243900e-3f;
    q = q * z + 4.89352518554385e-3f;
    return x * p / q;
}

CPU_INLINE float erf_of(float x)
{
    float z, p, q;

    x = x > 4.0f ? 4.0f : x;
    x = x < -4.0f ? -4.0f : x;
    z = x * x;
    p = -2.72614225801306e-10f;
    p = p * z + 2.77068142495902e-8f;
    p = p * z - 2.10102402082508e-6f;
    p = p * z - 5.69250639462346e-5f;
    p = p * z - 7.34990630326855e-4f;
    p = p * z - 2.95459980854025e-3f;
    p = p * z - 1.60960333262415e-2f;
    q = -1.45660718464996e-5f;
    q = q * z - 2.13374055278905e-4f;
    q = q * z - 1.68282697438203e-3f;
    q = q * z - 7.37332916720468e-3f;
    q = q * z - 1.42647390514189e-2f;
    return x * p / q;
}

/* log(1 + e^x), through log1p of e^-|x|: w - 1 is what w kept of e. */
CPU_INLINE float softplus_of(float x)
{
    const float e = exp_of(x > 0.0f ? -x : x);
    const float w = 1.0f + e;

    return (x > 0.0f ? x : 0.0f) + log_normal(w) + (e - (w - 1.0f)) / w;
}

/* x tanh(log(1 + e)) = x (e^2 + 2 e) / (e^2 + 2 e + 2), e = exp x */
CPU_INLINE float mish_of(float x)
{
    const float e = exp_of(x > 20.0f ? 20.0f : x);
    const float n = e * (e + 2.0f);

    return x * n / (n + 2.0f);
}

CPU_INLINE float clip_of(float x, float low, float high)
{
    x = x < low ? low : x;
    return x > high ? high : x;
}

/* ---- the words of kernels/unary.def -------------------------------- */

typedef float real;

#define REAL(c)               c##f
#define REAL_ABS              fabsf
#define REAL_CEIL             ceilf
#define REAL_ERF              erf_of
#define REAL_EXP              exp_of
#define REAL_EXPM1            expm1_of
#define REAL_FLOOR            floorf
#define REAL_LOG              logf
#define REAL_RINT             rintf
#define REAL_SQRT             sqrtf
#define REAL_TANH             tanh_of
#define REAL_SIN              sinf
#define REAL_COS              cosf
#define REAL_TAN              tanf
#define REAL_ASIN             asinf
#define REAL_ACOS             acosf
#define REAL_ATAN             atanf
#define REAL_SINH             sinhf
#define REAL_COSH             coshf
#define REAL_ASINH            asinhf
#define REAL_ACOSH            acoshf
#define REAL_ATANH            atanhf
#define REAL_SIGMOID          sigmoid_of
#define REAL_SOFTPLUS         softplus_of
#define REAL_CLIP             clip_of
#define REAL_MADD(a, x, b)    ((a) * (x) + (b))
#define REAL_DIV_ADD(x, c, b) ((x) / REAL(c) + REAL(b))
/* Here NaN is not above: a comparison less. */
#define REAL_ABOVE(x, a) ((x) > (a))
/* NaN and infinity give NaN. */
#define REAL_FLAT(x) (0.0f * (x))
#define FORM         CPU_INLINE
#include "kernels/unary_forms.h"

#endif
