/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Derivatives of element-wise functions, times a gradient, over arrays.
 *
 * The transcendental parts of a derivative come from act.c, block by block, in
 * t and, where two are needed, s.  All else is a loop that the compiler
 * vectorises.
 */
#include "config.h"

#include "kernels/cpu/act_math.h"
#include "kernels/unary.h"

#define BLOCK 512

/* t = act(a x) over a block */
static void block_of(enum kern_unary_kind kind, float a, const float *x,
                     float *t, int64_t n)
{
    const struct kern_unary scale = {.kind = KERN_LINEAR, .a = a};
    const struct kern_unary act = {.kind = kind, .a = 1.0f};

    if (a != 1.0f) {
        cpu_act(&scale, x, t, n);
        x = t;
    }
    cpu_act(&act, x, t, n);
}

/* s = exp(factor x^2) */
CPU_CLONES static void squares(float factor, const float *x, float *s,
                               int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        s[i] = factor * x[i] * x[i];
}

static void gauss_of(float factor, const float *x, float *s, int64_t n)
{
    squares(factor, x, s, n);
    block_of(KERN_EXP, 1.0f, s, s, n);
}

CPU_CLONES static void cubes(const float *x, float *t, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        t[i] = 0.79788456080286536f * (x[i] + 0.044715f * x[i] * x[i] * x[i]);
}

/* ---- from x -------------------------------------------------------- */

/* Overrides: what t, and s where there are two, hold of a block, and the
 * derivative from x, t and s. */
#define BLOCKS_KERN_SIGMOID  , block_of(KERN_SIGMOID, 1.0f, from, tb, n)
#define BLOCKS_KERN_SOFTPLUS BLOCKS_KERN_SIGMOID
#define BLOCKS_KERN_SILU     , block_of(KERN_SIGMOID, a, from, tb, n)
#define BLOCKS_KERN_TANH     , block_of(KERN_TANH, 1.0f, from, tb, n)
#define BLOCKS_KERN_EXP      , block_of(KERN_EXP, 1.0f, from, tb, n)
#define BLOCKS_KERN_ELU      BLOCKS_KERN_EXP
#define BLOCKS_KERN_SELU     BLOCKS_KERN_EXP
#define BLOCKS_KERN_CELU     , block_of(KERN_EXP, 1.0f / a, from, tb, n)
#define BLOCKS_KERN_ERF      , gauss_of(-1.0f, from, sb, n)
#define BLOCKS_KERN_MISH                                                       \
    , (block_of(KERN_SOFTPLUS, 1.0f, from, tb, n),                             \
       block_of(KERN_TANH, 1.0f, tb, tb, n),                                   \
       block_of(KERN_SIGMOID, 1.0f, from, sb, n))
#define BLOCKS_KERN_GELU                                                       \
    , (block_of(KERN_ERF, 0.70710678118654752f, from, tb, n),                  \
       gauss_of(-0.5f, from, sb, n))
#define BLOCKS_KERN_GELU_TANH                                                  \
    , (cubes(from, tb, n), block_of(KERN_TANH, 1.0f, tb, tb, n))

#define GRAD_KERN_SIGMOID  , (t * (1.0f - t))
#define GRAD_KERN_SOFTPLUS , (t)
#define GRAD_KERN_SILU     , (t * (1.0f + a * x * (1.0f - t)))
#define GRAD_KERN_TANH     , (1.0f - t * t)
#define GRAD_KERN_EXP      , (t)
#define GRAD_KERN_ELU      , (x < 0.0f ? a * t : 1.0f)
#define GRAD_KERN_SELU     , (b * (x < 0.0f ? a * t : 1.0f))
#define GRAD_KERN_CELU     , (x < 0.0f ? t : 1.0f)
#define GRAD_KERN_ERF      , (s * 1.1283791670955126f)
#define GRAD_KERN_MISH     , (t + x * (1.0f - t * t) * s)
#define GRAD_KERN_GELU     , (0.5f * (1.0f + t) + x * s * 0.39894228040143268f)
#define GRAD_KERN_GELU_TANH                                                    \
    , (0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * 0.79788456080286536f *  \
                               (1.0f + 3.0f * 0.044715f * x * x))

/* dx = dy times the derivative, which may use t and s. */
#define EACH(derivative)                                                       \
    _Pragma("omp simd") for (int64_t i = 0; i < n; i++)                        \
    {                                                                          \
        const float x = from[i], t = tb[i], s = sb[i];                         \
        (void)x, (void)t, (void)s;                                             \
        dx[i] = dy[i] * (derivative);                                          \
    }

/* n: up to BLOCK, the length of tb and sb */
CPU_CLONES static void gradient(const struct kern_unary *act, const float *dy,
                                const float *from, float *dx, int64_t n,
                                float *tb, float *sb)
{
    const float a = act->a, b = act->b;

    switch (act->kind) {
#define UNARY(kind, name, facts, value, derivative)                            \
    case kind:                                                                 \
        OVERRIDE_OR(BLOCKS_##kind, (void)0);                                   \
        EACH(OVERRIDE_OR(GRAD_##kind, derivative))                             \
        break;
#include "kernels/unary.def"
    case KERN_UNARY_COUNT:
        break;
    }
}

void cpu_act_grad(const struct kern_unary *act, const float *dy, const float *x,
                  float *dx, int64_t n)
{
    float t[BLOCK], s[BLOCK];

    for (int64_t i = 0; i < n; i += BLOCK)
        gradient(act, dy + i, x + i, dx + i, n - i < BLOCK ? n - i : BLOCK, t,
                 s);
}

/* ---- from y -------------------------------------------------------- */

/* Override: t holds exp(-y). */
#define OUT_BLOCKS_KERN_SOFTPLUS , block_of(KERN_EXP, -1.0f, from, tb, n)
#define OUT_GRAD_KERN_SOFTPLUS   , (1.0f - t)

CPU_CLONES static void gradient_from_output(const struct kern_unary *act,
                                            const float *dy, const float *from,
                                            float *dx, int64_t n, float *tb,
                                            float *sb)
{
    const float a = act->a, b = act->b;

    switch (act->kind) {
#define UNARY(kind, name, facts, value, derivative)                            \
    case kind:                                                                 \
        gradient(act, dy, from, dx, n, tb, sb);                                \
        break;
#define UNARY_FROM_OUTPUT(kind, name, facts, value, derivative, from_output)   \
    case kind:                                                                 \
        OVERRIDE_OR(OUT_BLOCKS_##kind, (void)0);                               \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++)                    \
        {                                                                      \
            const float y = from[i], t = tb[i];                                \
            (void)y, (void)t;                                                  \
            dx[i] = dy[i] * (OVERRIDE_OR(OUT_GRAD_##kind, from_output));       \
        }                                                                      \
        break;
#include "kernels/unary.def"
    case KERN_UNARY_COUNT:
        break;
    }
}

void cpu_act_grad_from_output(const struct kern_unary *act, const float *dy,
                              const float *y, float *dx, int64_t n)
{
    float t[BLOCK], s[BLOCK];

    for (int64_t i = 0; i < n; i += BLOCK)
        gradient_from_output(act, dy + i, y + i, dx + i,
                             n - i < BLOCK ? n - i : BLOCK, t, s);
}
