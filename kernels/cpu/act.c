/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Element-wise functions over arrays, vectorised by the compiler.
 *
 * The transcendental ones are polynomials without branches or tables, within a
 * few units in the last place of the exact value:
 * exp: 2^n 2^f, |f| <= 1/2, minimax polynomial in f of degree 6;
 * log: argument scaled to [sqrt 1/2, sqrt 2), Cephes' polynomial of degree 8;
 * tanh and erf: odd rational approximations on a clamped argument.
 */
#include "config.h"

#include "kernels/cpu/cpu.h"

#include <math.h>
#include <string.h>

/* ---- scalar bodies, inlined into each clone ------------------------ */

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
    *n = cpu_bits_of(t) - MAGIC_BITS;
    return p * f;
}

/* 2^n, n in [-126, 127] */
CPU_INLINE float pow2(uint32_t n)
{
    return cpu_float_of((n + 127u) << 23);
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
    const uint32_t u = cpu_bits_of(x) - 0x3f3504f3u;
    const float e = (float)((int32_t)u >> 23);
    const float m = cpu_float_of((u & 0x7fffffu) + 0x3f3504f3u) - 1.0f;
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
    return 1.0f / (1.0f + cpu_float_of(cpu_bits_of(1.0f + r) + (n << 23)));
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

/* ---- arrays -------------------------------------------------------- */

#define EACH(expression)                                                       \
    _Pragma("omp simd") for (i = 0; i < n; i++)                                \
    {                                                                          \
        const float v = x[i];                                                  \
        y[i] = (expression);                                                   \
    }                                                                          \
    break

/* Functions that need no polynomial. */
CPU_CLONES static void act_simple(const struct kern_unary *act, const float *x,
                                  float *y, int64_t n)
{
    const float a = act->a, b = act->b;
    int64_t i;

    switch (act->kind) {
    case KERN_RELU:
        EACH(v < 0.0f ? 0.0f : v);
    case KERN_LEAKY_RELU:
        EACH(v < 0.0f ? a * v : v);
    case KERN_CLIP:
        EACH(clip_of(v, a, b));
    case KERN_HARD_SIGMOID:
        EACH(clip_of(a * v + b, 0.0f, 1.0f));
    case KERN_HARD_SWISH:
        EACH(v * clip_of(v / 6.0f + 0.5f, 0.0f, 1.0f));
    case KERN_SOFTSIGN:
        EACH(v / (1.0f + fabsf(v)));
    case KERN_THRESHOLDED_RELU:
        EACH(v > a ? v : 0.0f);
    case KERN_LINEAR:
        EACH(a * v + b);
    case KERN_SQRT:
        EACH(sqrtf(v));
    case KERN_RECIPROCAL:
        EACH(1.0f / v);
    case KERN_ABS:
        EACH(fabsf(v));
    case KERN_NEG:
        EACH(-v);
    case KERN_SIGN:
        EACH(v > 0.0f ? 1.0f : v < 0.0f ? -1.0f : v);
    case KERN_FLOOR:
        EACH(floorf(v));
    case KERN_CEIL:
        EACH(ceilf(v));
    case KERN_ROUND:
        EACH(rintf(v));
    default: /* KERN_IDENTITY */
        if (x != y)
            memcpy(y, x, (size_t)n * sizeof *y);
    }
}

CPU_CLONES static void act_transcendental(const struct kern_unary *act,
                                          const float *x, float *y, int64_t n)
{
    const float a = act->a, b = act->b;
    int64_t i;

    switch (act->kind) {
    case KERN_SIGMOID:
        EACH(sigmoid_of(v));
    case KERN_TANH:
        EACH(tanh_of(v));
    case KERN_SILU:
        EACH(v * sigmoid_of(a * v));
    case KERN_ELU:
        EACH(v < 0.0f ? a * expm1_of(v) : v);
    case KERN_SELU:
        EACH(b * (v < 0.0f ? a * expm1_of(v) : v));
    case KERN_CELU:
        EACH(v < 0.0f ? a * expm1_of(v / a) : v);
    case KERN_SOFTPLUS:
        EACH(softplus_of(v));
    case KERN_MISH:
        EACH(mish_of(v));
    case KERN_GELU:
        EACH(0.5f * v * (1.0f + erf_of(v * 0.70710678118654752f)));
    case KERN_GELU_TANH:
        EACH(0.5f * v *
             (1.0f +
              tanh_of(0.79788456080286536f * (v + 0.044715f * v * v * v))));
    case KERN_ERF:
        EACH(erf_of(v));
    default: /* KERN_EXP */
        EACH(exp_of(v));
    }
}

static bool is_transcendental(enum kern_unary_kind kind)
{
    switch (kind) {
    case KERN_SIGMOID:
    case KERN_TANH:
    case KERN_SILU:
    case KERN_ELU:
    case KERN_SELU:
    case KERN_CELU:
    case KERN_SOFTPLUS:
    case KERN_MISH:
    case KERN_GELU:
    case KERN_GELU_TANH:
    case KERN_ERF:
    case KERN_EXP:
        return true;
    default:
        return false;
    }
}

bool cpu_act_known(const struct kern_unary *act)
{
    /* log: its special cases cost more than the rarity of its use is worth.
     * celu: for alpha < 0 both branches of its formula count. */
    return act->kind != KERN_LOG && act->kind != KERN_NOT &&
           (act->kind != KERN_CELU || act->a > 0.0f);
}

void cpu_act(const struct kern_unary *act, const float *x, float *y, int64_t n)
{
    if (act->kind == KERN_SILU && cpu_has_avx512())
        cpu_sigmoid_avx512(act->a, true, x, y, n);
    else if (act->kind == KERN_SIGMOID && cpu_has_avx512())
        cpu_sigmoid_avx512(1.0f, false, x, y, n);
    else if (is_transcendental(act->kind))
        act_transcendental(act, x, y, n);
    else
        act_simple(act, x, y, n);
}

/* The clones are static behind plain functions: a function that is declared in
 * a header and used by it before its definition cannot get clones there. */
CPU_CLONES static void add(const float *x, float *y, int64_t n)
{
    int64_t i;

#pragma omp simd
    for (i = 0; i < n; i++)
        y[i] += x[i];
}

void cpu_add(const float *x, float *y, int64_t n)
{
    add(x, y, n);
}

CPU_CLONES static float exp_sum(const float *x, float shift, float *y,
                                int64_t n)
{
    float sum = 0.0f;
    int64_t i;

    if (!y) {
#pragma omp simd reduction(+ : sum)
        for (i = 0; i < n; i++)
            sum += exp_of(x[i] - shift);
        return sum;
    }
#pragma omp simd reduction(+ : sum)
    for (i = 0; i < n; i++) {
        y[i] = exp_of(x[i] - shift);
        sum += y[i];
    }
    return sum;
}

float cpu_exp_sum(const float *x, float shift, float *y, int64_t n)
{
    return exp_sum(x, shift, y, n);
}

CPU_CLONES static void log_all(const float *x, float *y, int64_t n)
{
    int64_t i;

#pragma omp simd
    for (i = 0; i < n; i++)
        y[i] = log_normal(x[i]);
}

void cpu_log(const float *x, float *y, int64_t n)
{
    log_all(x, y, n);
}
