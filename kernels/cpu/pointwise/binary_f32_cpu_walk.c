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

/* Elements for which result and operands stay in the L1 cache between the
 * operation and its epilogue. */
#define BLOCK 2048

enum { RESIDUAL = 2 };

static bool is_known(enum kern_binary_kind kind)
{
    return kind == KERN_ADD || kind == KERN_SUB || kind == KERN_MUL ||
           kind == KERN_DIV || kind == KERN_MIN || kind == KERN_MAX;
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    (void)d;
    if (!cpu_is_f32(&p->in[0]) || !cpu_is_f32(&p->in[1]) ||
        !cpu_is_f32(&p->out[0]) ||
        (kern_problem_in(p, RESIDUAL) && !cpu_is_f32(&p->in[RESIDUAL])))
        return error_set(why, INFER_EUNSUPPORTED, "takes F32 only");
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

/* One block: through t where there is a residual, which may lie in y. */
static void block_of(const struct kern_problem *p, float *const *at,
                     const int64_t *stride, int64_t n, float *t)
{
    const struct kern_epilogue *ep = &p->epilogue;
    const bool residual = kern_problem_in(p, RESIDUAL) != NULL;
    const bool direct = !residual && stride[0] == 1;
    float *y = direct ? at[0] : t, *r = residual ? at[3] : NULL;
    int64_t i;

    binary_row(p->attr.binary.kind, at[1], stride[1], at[2], stride[2], y, 1,
               n);
    if (!residual || stride[3] == 1)
        cpu_epilogue(ep, y, r, n);
    else
        for (i = 0; i < n; i++)
            cpu_epilogue(ep, y + i, r + i * stride[3], 1);
    if (!direct)
        for (i = 0; i < n; i++)
            at[0][i * stride[0]] = y[i];
}

static void rows_of(const void *context, int64_t rows, int64_t n,
                    float *const *at, const int64_t *row_stride,
                    const int64_t *stride)
{
    const struct kern_problem *p = context;
    const int operands = kern_problem_in(p, RESIDUAL) ? 4 : 3;
    float t[BLOCK];
    int64_t r, i;
    int k;

    for (r = 0; r < rows; r++)
        for (i = 0; i < n; i += BLOCK) {
            float *block[4];

            for (k = 0; k < operands; k++)
                block[k] = at[k] + r * row_stride[k] + i * stride[k];
            block_of(p, block, stride, n - i < BLOCK ? n - i : BLOCK, t);
        }
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *t[] = {&p->out[0], &p->in[0], &p->in[1],
                                     &p->in[RESIDUAL]};
    void *base[] = {args->out[0], (void *)args->in[0], (void *)args->in[1],
                    (void *)args->in[RESIDUAL]};
    struct cpu_walk w;

    (void)err;
    if (kern_tensor_count(t[0]) == 0)
        return 0;
    cpu_walk_init(&w, kern_problem_in(p, RESIDUAL) ? 4 : 3, t);
    cpu_walk_run(&w, cpu_threads_of(e), base, rows_of, p);
    return 0;
}

const struct kern_functions binary_f32_cpu_walk = {
    .supports = supports,
    .prepare = cpu_prepare,
    .launch = launch,
    .release = cpu_release,
};
