/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arithmetic between two tensors, each broadcast to the result, any strides.
 *
 * The cases that matter have the result's innermost dimension contiguous and
 * each operand contiguous or constant along it: two feature maps; a feature
 * map and one value a channel or a (image, channel) pair, channels last.
 */
#include "config.h"

#include <math.h>

#include "kernels/base/error.h"
#include "kernels/cpu/cpu.h"
#include "kernels/problem.h"
#include "kernels/unary.h"

enum { RESIDUAL = 2 };

/* True for functions that vectorise, and for powers. */
static bool is_known(enum kern_binary_kind kind)
{
    if (kind == KERN_POW)
        return true;
    switch (kind) {
#define BINARY_INLINE(kind, name, value, integer)                              \
    case kind:                                                                 \
        return true;
#define BINARY(kind, name, value, integer)                                     \
    case kind:                                                                 \
        break;
#include "kernels/binary.def"
    case KERN_BINARY_COUNT:
        break;
    }
    return false;
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
                         "does add, sub, mul, div, pow, min and max");
    if (!cpu_act_known(&p->epilogue.act))
        return error_set(why, INFER_EUNSUPPORTED, "lacks this activation");
    return 0;
}

/* Overrides: if either operand is NaN, so is a + b. */
#define VALUE_KERN_MIN , a < b ? a : b <= a ? b : a + b
#define VALUE_KERN_MAX , a > b ? a : b >= a ? b : a + b

/* kind: of is_known(). */
CPU_INLINE float apply(enum kern_binary_kind kind, float a, float b)
{
    switch (kind) {
#define BINARY_INLINE(kind, name, value, integer)                              \
    case kind:                                                                 \
        return OVERRIDE_OR(VALUE_##kind, value);
#define BINARY(kind, name, value, integer)                                     \
    case kind:                                                                 \
        break;
#include "kernels/binary.def"
    case KERN_BINARY_COUNT:
        break;
    }
    return NAN;
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
    switch (kind) {
#define BINARY_INLINE(kind, name, value, integer)                              \
    case kind:                                                                 \
        rows_of_kind(kind, a, sa, b, sb, y, sy, n);                            \
        break;
#define BINARY(kind, name, value, integer)                                     \
    case kind:                                                                 \
        break;
#include "kernels/binary.def"
    case KERN_BINARY_COUNT:
        break;
    }
}

/* A call an element.  Powers that many elements share are most often 2, 3, 1/2
 * or 1/3: squares and cubes are products, a cube's in double. */
static void power_row(const float *a, int64_t sa, const float *b, int64_t sb,
                      float *y, int64_t sy, int64_t n)
{
    if (sb == 0 && *b == 2) {
        binary_row(KERN_MUL, a, sa, a, sa, y, sy, n);
    } else if (sb == 0 && *b == 3) {
        for (int64_t i = 0; i < n; i++) {
            const double v = a[i * sa];
            y[i * sy] = (float)(v * v * v);
        }
    } else {
        for (int64_t i = 0; i < n; i++)
            y[i * sy] = powf(a[i * sa], b[i * sb]);
    }
}

static void compute(const void *context, float *const *at,
                    const int64_t *stride, float *y, int64_t n)
{
    const struct kern_problem *p = context;

    if (p->attr.binary.kind == KERN_POW) {
        power_row(at[1], stride[1], at[2], stride[2], y, 1, n);
        return;
    }
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

KERN_FUNCTIONS(binary_f32_cpu_walk) = {
    .supports = supports,
    .prepare = cpu_prepare,
    .launch = launch,
    .release = cpu_release,
};
