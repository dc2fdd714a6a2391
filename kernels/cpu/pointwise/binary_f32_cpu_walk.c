/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arithmetic between two tensors, each broadcast to the result, any strides.
 *
 * The cases that matter have the result's innermost dimension contiguous and
 * each operand contiguous or constant along it: two feature maps; a feature
 * map and one value a channel or a (image, channel) pair, channels last.
 */
#include "config.h"

#include "kernels/base/error.h"
#include "kernels/cpu/cpu.h"
#include "kernels/problem.h"

enum { RESIDUAL = 2 };

static bool is_known(enum kern_binary_kind kind)
{
    return kind == KERN_ADD || kind == KERN_SUB || kind == KERN_MUL ||
           kind == KERN_DIV || kind == KERN_MIN || kind == KERN_MAX;
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    const int rc = cpu_need_f32(p, why);

    (void)d;
    if (rc < 0)
        return rc;
    if (!is_known(p->attr.binary.kind))
        return error_set(why, INFER_EUNSUPPORTED,
                         "does add, sub, mul, div, min and max");
    if (!cpu_act_known(&p->epilogue.act))
        return error_set(why, INFER_EUNSUPPORTED, "lacks this activation");
    return 0;
}

CPU_INLINE float apply(enum kern_binary_kind kind, float a, float b)
{
    if (kind == KERN_ADD)
        return a + b;
    if (kind == KERN_SUB)
        return a - b;
    if (kind == KERN_MUL)
        return a * b;
    if (kind == KERN_DIV)
        return a / b;
    /* NaN in either operand comes through: a + b is NaN then. */
    if (kind == KERN_MIN)
        return a < b ? a : b <= a ? b : a + b;
    return a > b ? a : b >= a ? b : a + b;
}

/* One row with constant kind and strides, so that the loop vectorises. */
CPU_INLINE void row(enum kern_binary_kind kind, const float *a, int64_t sa,
                    const float *b, int64_t sb, float *y, int64_t sy, int64_t n)
{
    int64_t i;

#pragma omp simd
    for (i = 0; i < n; i++)
        y[i * sy] = apply(kind, a[i * sa], b[i * sb]);
}

CPU_INLINE void rows_of_kind(enum kern_binary_kind kind, const float *a,
                             int64_t sa, const float *b, int64_t sb, float *y,
                             int64_t sy, int64_t n)
{
    if (sy == 1 && sa == 1 && sb == 1)
        row(kind, a, 1, b, 1, y, 1, n);
    else if (sy == 1 && sa == 1 && sb == 0)
        row(kind, a, 1, b, 0, y, 1, n);
    else if (sy == 1 && sa == 0 && sb == 1)
        row(kind, a, 0, b, 1, y, 1, n);
    else
        row(kind, a, sa, b, sb, y, sy, n);
}

CPU_CLONES static void binary_row(enum kern_binary_kind kind, const float *a,
                                  int64_t sa, const float *b, int64_t sb,
                                  float *y, int64_t sy, int64_t n)
{
    if (kind == KERN_ADD)
        rows_of_kind(KERN_ADD, a, sa, b, sb, y, sy, n);
    else if (kind == KERN_SUB)
        rows_of_kind(KERN_SUB, a, sa, b, sb, y, sy, n);
    else if (kind == KERN_MUL)
        rows_of_kind(KERN_MUL, a, sa, b, sb, y, sy, n);
    else if (kind == KERN_DIV)
        rows_of_kind(KERN_DIV, a, sa, b, sb, y, sy, n);
    else if (kind == KERN_MIN)
        rows_of_kind(KERN_MIN, a, sa, b, sb, y, sy, n);
    else if (kind == KERN_MAX)
        rows_of_kind(KERN_MAX, a, sa, b, sb, y, sy, n);
}

static void compute(const void *context, float *const *at,
                    const int64_t *stride, float *y, int64_t n)
{
    const struct kern_problem *p = context;

    binary_row(p->attr.binary.kind, at[1], stride[1], at[2], stride[2], y, 1,
               n);
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const bool residual = kern_problem_in(p, RESIDUAL) != NULL;
    const struct cpu_blocks blocks = {.compute = compute,
                                      .context = p,
                                      .epilogue = &p->epilogue,
                                      .operands = residual ? 4 : 3,
                                      .residual = residual};

    (void)err;
    return cpu_walk_problem(e, args, cpu_walk_blocks, &blocks);
}

const struct kern_functions binary_f32_cpu_walk = {
    .supports = supports,
    .prepare = cpu_prepare,
    .launch = launch,
    .release = cpu_release,
};
