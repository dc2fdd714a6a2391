/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradient of functions of one argument, by x or by y, any strides; quick where
 * the innermost dimension is contiguous in all tensors.
 */
#include "config.h"

#include "kernels/cpu/cpu.h"

#include "kernels/base/error.h"
#include "kernels/problem.h"

enum { X = 1, RESIDUAL = 3 };

/* Elements that stay in the L1 cache between the product and the sum. */
#define BLOCK 512

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    const struct kern_unary *f = &p->attr.unary;
    const int rc = cpu_need_f32(p, why);

    (void)d;
    if (rc < 0)
        return rc;
    /* For alpha <= 0 both branches of celu's formula count. */
    if (f->kind == KERN_CELU && !(f->a > 0.0f))
        return error_set(why, INFER_EUNSUPPORTED, "takes celu's alpha above 0");
    return 0;
}

struct context {
    const struct kern_unary *act;
    bool by_x, residual;
};

/* n contiguous elements; residual may be NULL or dx. */
static void block_of(const struct context *c, const float *dy, const float *v,
                     const float *residual, float *dx, int64_t n)
{
    float t[BLOCK];
    float *to = residual ? t : dx;

    if (c->by_x)
        cpu_act_grad(c->act, dy, v, to, n);
    else
        cpu_act_grad_from_output(c->act, dy, v, to, n);
    if (!residual)
        return;
    if (residual != dx)
        cpu_copy(residual, dx, n, 1);
    cpu_add(t, dx, n);
}

/* Operands: dx, dy, x or y (there is one of them), residual. */
static void rows_of(const void *context, int64_t rows, int64_t n,
                    float *const *at, const int64_t *row_stride,
                    const int64_t *stride)
{
    const struct context *c = context;
    const bool dense = stride[0] == 1 && stride[1] == 1 && stride[2] == 1 &&
                       (!c->residual || stride[3] == 1);
    const int64_t step = dense ? BLOCK : 1;

    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < n; i += step) {
            const float *residual =
                c->residual ? at[3] + r * row_stride[3] + i * stride[3] : NULL;

            block_of(c, at[1] + r * row_stride[1] + i * stride[1],
                     at[2] + r * row_stride[2] + i * stride[2], residual,
                     at[0] + r * row_stride[0] + i * stride[0],
                     n - i < step ? n - i : step);
        }
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct context c = {&p->attr.unary, kern_problem_in(p, X) != NULL,
                              kern_problem_in(p, RESIDUAL) != NULL};

    (void)err;
    return cpu_walk_problem(e, args, rows_of, &c);
}

KERN_FUNCTIONS(unary_dgrad_f32_cpu_walk) = {
    .supports = supports,
    .prepare = cpu_prepare,
    .launch = launch,
    .release = cpu_release,
};
