/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradient of means, sums and sums of magnitudes: each element gets the
 * gradient of its output, divided by the number of elements or with the sign of
 * the element.  Any strides.
 */
#include "config.h"

#include "kernels/cpu/cpu.h"

#include "kernels/base/error.h"
#include "kernels/problem.h"

enum { DY, X, RESIDUAL };

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    const enum kern_reduce_kind kind = p->attr.reduce.kind;
    const int rc = cpu_need_f32(p, why);

    (void)d;
    if (rc < 0)
        return rc;
    if (kind != KERN_REDUCE_MEAN && kind != KERN_REDUCE_SUM &&
        kind != KERN_REDUCE_L1)
        return error_set(why, INFER_EUNSUPPORTED, "does mean, sum and L1");
    return 0;
}

/* Operands: dx, dy, then x and the residual where there are such. */
struct context {
    float factor;
    int x, residual; /* operand; 0: none */
};

/* dx = factor dy + residual, with strides that the compiler knows. */
CPU_INLINE void scale_row(float factor, const float *dy, int64_t sdy,
                          const float *residual, int64_t sr, float *dx,
                          int64_t sdx, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dx[i * sdx] =
            factor * dy[i * sdy] + (residual ? residual[i * sr] : 0.0f);
}

CPU_CLONES static void scale(float factor, const float *dy, int64_t sdy,
                             const float *residual, int64_t sr, float *dx,
                             int64_t sdx, int64_t n)
{
    if (sdx == 1 && sdy == 1 && !residual)
        scale_row(factor, dy, 1, NULL, 0, dx, 1, n);
    else if (sdx == 1 && sdy == 0 && !residual)
        scale_row(factor, dy, 0, NULL, 0, dx, 1, n);
    else if (sdx == 1 && sdy == 1 && sr == 1)
        scale_row(factor, dy, 1, residual, 1, dx, 1, n);
    else if (sdx == 1 && sdy == 0 && sr == 1)
        scale_row(factor, dy, 0, residual, 1, dx, 1, n);
    else
        scale_row(factor, dy, sdy, residual, sr, dx, sdx, n);
}

CPU_CLONES static void sign_row(const float *dy, int64_t sdy, const float *x,
                                int64_t sx, const float *residual, int64_t sr,
                                float *dx, int64_t sdx, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float v = x[i * sx], g = dy[i * sdy];

        dx[i * sdx] = (v > 0.0f   ? g
                       : v < 0.0f ? -g
                                  : 0.0f) +
                      (residual ? residual[i * sr] : 0.0f);
    }
}

static void rows_of(const void *context, int64_t rows, int64_t n,
                    float *const *at, const int64_t *row_stride,
                    const int64_t *stride)
{
    const struct context *c = context;
    const int64_t sr = stride[c->residual];

    for (int64_t r = 0; r < rows; r++) {
        const float *residual =
            c->residual ? at[c->residual] + r * row_stride[c->residual] : NULL;
        const float *dy = at[1] + r * row_stride[1];
        float *dx = at[0] + r * row_stride[0];

        if (c->x)
            sign_row(dy, stride[1], at[c->x] + r * row_stride[c->x],
                     stride[c->x], residual, sr, dx, stride[0], n);
        else
            scale(c->factor, dy, stride[1], residual, sr, dx, stride[0], n);
    }
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const int x = kern_problem_in(p, X) ? 2 : 0;
    struct context c = {1.0f, x,
                        kern_problem_in(p, RESIDUAL) ? (x ? 3 : 2) : 0};

    if (p->attr.reduce.kind == KERN_REDUCE_MEAN)
        c.factor = (float)((double)kern_tensor_count(&p->in[DY]) /
                           (double)kern_tensor_count(&p->out[0]));
    (void)err;
    return cpu_walk_problem(e, args, rows_of, &c);
}

KERN_FUNCTIONS(reduce_dgrad_f32_cpu_walk) = {
    .supports = supports,
    .prepare = cpu_prepare,
    .launch = launch,
    .release = cpu_release,
};
