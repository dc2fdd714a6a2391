/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Derivatives of element-wise functions, times a gradient, over arrays.
 *
 * What is transcendental in them comes from act.c, block by block: t, and s
 * where two such values are needed.  Everything else is a loop that the
 * compiler vectorises.
 */
#include "config.h"

#include "kernels/cpu/cpu.h"

#include <math.h>

#define BLOCK 512

/* dx = dy times an expression in v (x or y), t and s. */
#define EACH(expression)                                                       \
    _Pragma("omp simd") for (i = 0; i < n; i++)                                \
    {                                                                          \
        const float v = x[i];                                                  \
        dx[i] = dy[i] * (expression);                                          \
    }                                                                          \
    break

#define EACH_T(expression)                                                     \
    _Pragma("omp simd") for (i = 0; i < n; i++)                                \
    {                                                                          \
        const float v = x[i], w = t[i];                                        \
        (void)v, (void)w;                                                      \
        dx[i] = dy[i] * (expression);                                          \
    }                                                                          \
    break

/* t = act(a v) over a block */
static void block_of(enum kern_unary_kind kind, float a, const float *v,
                     float *t, int64_t n)
{
    const struct kern_unary scale = {.kind = KERN_LINEAR, .a = a};
    const struct kern_unary act = {.kind = kind, .a = 1.0f};

    if (a != 1.0f) {
        cpu_act(&scale, v, t, n);
        v = t;
    }
    cpu_act(&act, v, t, n);
}

/* ---- by y ---------------------------------------------------------- */

CPU_CLONES static void by_y(const struct kern_unary *act, const float *dy,
                            const float *x, const float *t, float *dx,
                            int64_t n)
{
    const float a = act->a, b = act->b;
    int64_t i;

    switch (act->kind) {
    case KERN_RELU:
        EACH(v > 0.0f ? 1.0f : 0.0f);
    case KERN_LEAKY_RELU:
        EACH(v < 0.0f ? a : 1.0f);
    case KERN_CLIP:
        EACH(v > a && v < b ? 1.0f : 0.0f);
    case KERN_SIGMOID:
        EACH(v * (1.0f - v));
    case KERN_TANH:
        EACH(1.0f - v * v);
    case KERN_ELU:
        EACH(v < 0.0f ? v + a : 1.0f);
    case KERN_SELU:
        EACH(v < 0.0f ? v + a * b : b);
    case KERN_SOFTPLUS: /* t: exp(-y) */
        EACH_T(1.0f - w);
    case KERN_LINEAR:
        EACH_T(a);
    case KERN_EXP:
        EACH(v);
    case KERN_SQRT:
        EACH(0.5f / v);
    case KERN_RECIPROCAL:
        EACH(-v * v);
    case KERN_NEG:
        EACH_T(-1.0f);
    default: /* KERN_IDENTITY */
        EACH_T(1.0f);
    }
}

void cpu_slope_by_y(const struct kern_unary *act, const float *dy,
                    const float *y, float *dx, int64_t n)
{
    float t[BLOCK];

    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t count = n - i < BLOCK ? n - i : BLOCK;

        if (act->kind == KERN_SOFTPLUS)
            block_of(KERN_EXP, -1.0f, y + i, t, count);
        by_y(act, dy + i, y + i, act->kind == KERN_SOFTPLUS ? t : y + i, dx + i,
             count);
    }
}

/* ---- by x ---------------------------------------------------------- */

CPU_CLONES static void by_x(const struct kern_unary *act, const float *dy,
                            const float *x, float *dx, int64_t n)
{
    const float a = act->a, b = act->b;
    int64_t i;

    switch (act->kind) {
    case KERN_HARD_SIGMOID:
        EACH(a * v + b > 0.0f && a * v + b < 1.0f ? a : 0.0f);
    case KERN_HARD_SWISH:
        EACH(v <= -3.0f ? 0.0f : v < 3.0f ? v / 3.0f + 0.5f : 1.0f);
    case KERN_SOFTSIGN:
        EACH(1.0f / ((1.0f + fabsf(v)) * (1.0f + fabsf(v))));
    case KERN_THRESHOLDED_RELU:
        EACH(v > a ? 1.0f : 0.0f);
    case KERN_LOG:
        EACH(1.0f / v);
    case KERN_SQRT:
        EACH(0.5f / sqrtf(v));
    case KERN_RECIPROCAL:
        EACH(-1.0f / (v * v));
    case KERN_ABS:
        EACH(v > 0.0f ? 1.0f : v < 0.0f ? -1.0f : 0.0f);
    default: /* roundings, sign, NOT */
        EACH(0.0f * v);
    }
}

/* With t, a function of x that block_of() has made. */
CPU_CLONES static void by_x_and_t(const struct kern_unary *act, const float *dy,
                                  const float *x, const float *t, float *dx,
                                  int64_t n)
{
    const float a = act->a, b = act->b;
    int64_t i;

    switch (act->kind) {
    case KERN_SIGMOID: /* t: sigmoid x */
        EACH_T(w * (1.0f - w));
    case KERN_TANH: /* t: tanh x */
        EACH_T(1.0f - w * w);
    case KERN_SILU: /* t: sigmoid(a x) */
        EACH_T(w * (1.0f + a * v * (1.0f - w)));
    case KERN_ELU: /* t: exp x */
        EACH_T(v < 0.0f ? a * w : 1.0f);
    case KERN_SELU: /* t: exp x */
        EACH_T(b * (v < 0.0f ? a * w : 1.0f));
    case KERN_CELU: /* t: exp(x / a) */
        EACH_T(v < 0.0f ? w : 1.0f);
    default: /* KERN_SOFTPLUS, t: sigmoid x; KERN_EXP, t: exp x */
        EACH_T(w);
    }
}

/* With t and s. */
CPU_CLONES static void by_x_t_and_s(const struct kern_unary *act,
                                    const float *dy, const float *x,
                                    const float *t, const float *s, float *dx,
                                    int64_t n)
{
    const float root = 0.79788456080286536f; /* sqrt(2/pi) */
    int64_t i;

    switch (act->kind) {
    case KERN_MISH: /* t: tanh(softplus x), s: sigmoid x */
        EACH_T(w + v * (1.0f - w * w) * s[i]);
    case KERN_GELU: /* t: erf(x / sqrt 2), s: exp(-x^2 / 2) */
        EACH_T(0.5f * (1.0f + w) + v * s[i] * 0.39894228040143268f);
    case KERN_GELU_TANH: /* t: tanh(root (x + 0.044715 x^3)) */
        EACH_T(0.5f * (1.0f + w) + 0.5f * v * (1.0f - w * w) * root *
                                       (1.0f + 3.0f * 0.044715f * v * v));
    default: /* KERN_ERF, s: exp(-x^2) */
        EACH_T(s[i] * 1.1283791670955126f);
    }
}

/* What t and s are of, before the function of block_of(). */
CPU_CLONES static void squares(float factor, const float *x, float *s,
                               int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        s[i] = factor * x[i] * x[i];
}

CPU_CLONES static void cubes(const float *x, float *t, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        t[i] = 0.79788456080286536f * (x[i] + 0.044715f * x[i] * x[i] * x[i]);
}

static void slope_of_two(const struct kern_unary *act, const float *dy,
                         const float *x, float *dx, int64_t n)
{
    float t[BLOCK], s[BLOCK];

    switch (act->kind) {
    case KERN_MISH:
        block_of(KERN_SOFTPLUS, 1.0f, x, t, n);
        block_of(KERN_TANH, 1.0f, t, t, n);
        block_of(KERN_SIGMOID, 1.0f, x, s, n);
        break;
    case KERN_GELU:
        block_of(KERN_ERF, 0.70710678118654752f, x, t, n);
        squares(-0.5f, x, s, n);
        block_of(KERN_EXP, 1.0f, s, s, n);
        break;
    case KERN_GELU_TANH:
        cubes(x, t, n);
        block_of(KERN_TANH, 1.0f, t, t, n);
        break;
    default: /* KERN_ERF */
        squares(-1.0f, x, s, n);
        block_of(KERN_EXP, 1.0f, s, s, n);
    }
    by_x_t_and_s(act, dy, x, act->kind == KERN_ERF ? x : t, s, dx, n);
}

/* The function of x that is t, and the factor of its argument. */
static bool inner_of(const struct kern_unary *act, enum kern_unary_kind *kind,
                     float *factor)
{
    *factor = 1.0f;
    switch (act->kind) {
    case KERN_SIGMOID:
    case KERN_SOFTPLUS:
        *kind = KERN_SIGMOID;
        return true;
    case KERN_SILU:
        *kind = KERN_SIGMOID;
        *factor = act->a;
        return true;
    case KERN_TANH:
        *kind = KERN_TANH;
        return true;
    case KERN_CELU:
        *factor = 1.0f / act->a;
        *kind = KERN_EXP;
        return true;
    case KERN_ELU:
    case KERN_SELU:
    case KERN_EXP:
        *kind = KERN_EXP;
        return true;
    default:
        return false;
    }
}

static void slope_block(const struct kern_unary *act, const float *dy,
                        const float *x, float *dx, int64_t n)
{
    enum kern_unary_kind kind;
    float t[BLOCK], factor;

    switch (act->kind) {
    case KERN_IDENTITY: /* as by y: the side of 0 is the same */
    case KERN_RELU:
    case KERN_LEAKY_RELU:
    case KERN_CLIP:
    case KERN_LINEAR:
    case KERN_NEG:
        by_y(act, dy, x, x, dx, n);
        return;
    case KERN_MISH:
    case KERN_GELU:
    case KERN_GELU_TANH:
    case KERN_ERF:
        slope_of_two(act, dy, x, dx, n);
        return;
    default:
        break;
    }
    if (!inner_of(act, &kind, &factor)) {
        by_x(act, dy, x, dx, n);
        return;
    }
    block_of(kind, factor, x, t, n);
    by_x_and_t(act, dy, x, t, dx, n);
}

void cpu_slope_by_x(const struct kern_unary *act, const float *dy,
                    const float *x, float *dx, int64_t n)
{
    for (int64_t i = 0; i < n; i += BLOCK)
        slope_block(act, dy + i, x + i, dx + i, n - i < BLOCK ? n - i : BLOCK);
}
