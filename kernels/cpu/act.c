/* SPDX-License-Identifier: Apache-2.0 */
/* Element-wise functions over arrays, vectorised by the compiler. */
#include "config.h"

#include <math.h>
#include <string.h>

#include "kernels/cpu/act_math.h"
#include "kernels/unary.h"

/* Overrides of plain forms. */
#define VALUE_KERN_MISH , mish_of(x)

CPU_CLONES static void act_of(const struct kern_unary *act, const float *from,
                              float *y, int64_t n)
{
    const float a = act->a, b = act->b;

    switch (act->kind) {
#define UNARY(kind, name, facts, value, derivative)                            \
    case kind:                                                                 \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++)                    \
        {                                                                      \
            const float x = from[i];                                           \
            y[i] = OVERRIDE_OR(VALUE_##kind, value);                           \
        }                                                                      \
        break;
#include "kernels/unary.def"
    case KERN_UNARY_COUNT:
        break;
    }
}

bool cpu_act_known(const struct kern_unary *act)
{
    /* log: its special cases cost more than the rarity of its use is worth.
     * celu: for alpha < 0 both branches of its formula count. */
    return act->kind != KERN_LOG && act->kind != KERN_NOT &&
           (act->kind != KERN_CELU || act->a > 0.0f);
}

bool cpu_act_bounds(const struct kern_unary *act, float *low, float *high)
{
    *low = act->kind == KERN_RELU ? 0.0f : -INFINITY;
    *high = INFINITY;
    if (act->kind == KERN_CLIP) {
        *low = act->a;
        *high = act->b;
    }
    return act->kind == KERN_IDENTITY || act->kind == KERN_RELU ||
           act->kind == KERN_CLIP;
}

void cpu_act(const struct kern_unary *act, const float *x, float *y, int64_t n)
{
    if (act->kind == KERN_IDENTITY && x == y)
        return;
    if (act->kind == KERN_IDENTITY)
        memcpy(y, x, (size_t)n * sizeof *y);
    else if (act->kind == KERN_SILU && cpu_has_avx512())
        cpu_sigmoid_avx512(act->a, true, x, y, n);
    else if (act->kind == KERN_SIGMOID && cpu_has_avx512())
        cpu_sigmoid_avx512(1.0f, false, x, y, n);
    else if (act->kind == KERN_GELU && cpu_has_avx512())
        cpu_gelu_avx512(x, y, n);
    else
        act_of(act, x, y, n);
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
