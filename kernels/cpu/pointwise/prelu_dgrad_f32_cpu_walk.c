/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of PReLU, any strides: dx, and dslope before it is summed. */
#include "config.h"

#include "kernels/cpu/cpu.h"

#include "kernels/problem.h"

enum { RESIDUAL = 3 };

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    (void)d;
    return cpu_need_f32(p, why);
}

/* Operands: dx, dy, x, slope, then these where there are such; 0: none. */
struct context {
    int residual, dslope;
};

/* dx may be the residual's memory or dy's. */
CPU_INLINE void dx_row(const float *const *at, const int64_t *s,
                       const float *residual, int64_t sr, float *dx, int64_t n)
{
    const float *dy = at[1], *x = at[2], *slope = at[3];

#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float g = dy[i * s[1]];

        dx[i * s[0]] = (x[i * s[2]] < 0.0f ? slope[i * s[3]] * g : g) +
                       (residual ? residual[i * sr] : 0.0f);
    }
}

CPU_INLINE void dslope_row(const float *const *at, const int64_t *s,
                           float *dslope, int64_t ss, int64_t n)
{
    const float *dy = at[1], *x = at[2];

#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float v = x[i * s[2]];

        dslope[i * ss] = v < 0.0f ? dy[i * s[1]] * v : 0.0f;
    }
}

/* One row, with strides that the compiler knows where they are the usual
 * ones. */
CPU_CLONES static void row_of(const struct context *c, const float *const *at,
                              const int64_t *s, float *dx, float *dslope,
                              int64_t n)
{
    static const int64_t ones[4] = {1, 1, 1, 1}, same[4] = {1, 1, 1, 0};
    const bool dense = s[0] == 1 && s[1] == 1 && s[2] == 1;
    const float *residual = c->residual ? at[c->residual] : NULL;
    const int64_t sr = s[c->residual], ss = s[c->dslope];

    /* dslope first: dx may lie where dy does. */
    if (dslope && dense && ss == 1)
        dslope_row(at, ones, dslope, 1, n);
    else if (dslope)
        dslope_row(at, s, dslope, ss, n);
    if (dense && s[3] == 1 && !residual)
        dx_row(at, ones, NULL, 0, dx, n);
    else if (dense && s[3] == 0 && !residual)
        dx_row(at, same, NULL, 0, dx, n);
    else
        dx_row(at, s, residual, sr, dx, n);
}

static void rows_of(const void *context, int64_t rows, int64_t n,
                    float *const *at, const int64_t *row_stride,
                    const int64_t *stride)
{
    const struct context *c = context;
    const int operands = 4 + (c->residual > 0) + (c->dslope > 0);

    for (int64_t r = 0; r < rows; r++) {
        const float *from[CPU_MAX_OPERAND];

        for (int i = 0; i < operands; i++)
            from[i] = at[i] + r * row_stride[i];
        row_of(c, from, stride, at[0] + r * row_stride[0],
               c->dslope ? at[c->dslope] + r * row_stride[c->dslope] : NULL, n);
    }
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const int residual = kern_problem_in(p, RESIDUAL) ? 4 : 0;
    const struct context c = {residual,
                              kern_problem_out(p, 1) ? (residual ? 5 : 4) : 0};

    (void)err;
    return cpu_walk_problem(e, args, rows_of, &c);
}

KERN_FUNCTIONS(prelu_dgrad_f32_cpu_walk) = {
    .supports = supports,
    .prepare = cpu_prepare,
    .launch = launch,
    .release = cpu_release,
};
