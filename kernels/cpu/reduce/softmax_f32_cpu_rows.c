/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Softmax and log-softmax along a dimension whose elements lie side by side:
 * the last of a row-major tensor, the channels of a channels-last one.
 */
#include "config.h"

#include "kernels/cpu/cpu.h"

#include <math.h>

#include "kernels/base/error.h"

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    const struct kern_tensor *x = &p->in[0], *y = &p->out[0];
    const int axis = p->attr.softmax.axis;

    (void)d;
    if (!cpu_is_f32(x) || !cpu_is_f32(y) || x->dim[axis] < 1)
        return error_set(why, INFER_EUNSUPPORTED, "takes F32 only");
    if ((x->stride[axis] != 1 || y->stride[axis] != 1) && x->dim[axis] != 1)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes rows whose elements lie side by side");
    return 0;
}

/* Sixteen running maxima: not every compiler vectorises a reduction with this
 * comparison, since NaN makes its order matter. */
#define LANES 16

CPU_CLONES static float row_max(const float *x, int64_t n)
{
    float top[LANES];
    int64_t i;
    int k;

    for (k = 0; k < LANES; k++)
        top[k] = x[0];
    for (i = 0; i + LANES <= n; i += LANES)
        for (k = 0; k < LANES; k++)
            top[k] = x[i + k] > top[k] ? x[i + k] : top[k];
    for (; i < n; i++)
        top[0] = x[i] > top[0] ? x[i] : top[0];
    for (k = 1; k < LANES; k++)
        top[0] = top[k] > top[0] ? top[k] : top[0];
    return top[0];
}

CPU_CLONES static void row_affine(const float *x, float factor, float shift,
                                  float *y, int64_t n)
{
    int64_t i;

#pragma omp simd
    for (i = 0; i < n; i++)
        y[i] = x[i] * factor + shift;
}

static void softmax_row(const float *x, float *y, int64_t n, bool log_wanted)
{
    const float top = row_max(x, n);
    float sum;

    /* x may be y: with log wanted, x must outlive the exponentials. */
    if (log_wanted) {
        sum = cpu_exp_sum(x, top, NULL, n);
        row_affine(x, 1.0f, -top - logf(sum), y, n);
        return;
    }
    sum = cpu_exp_sum(x, top, y, n);
    row_affine(y, 1.0f / sum, 0.0f, y, n);
}

/* Walks all dimensions but the axis, one row an element. */
static void rows_of(const void *context, int64_t rows, int64_t n,
                    float *const *at, const int64_t *row_stride,
                    const int64_t *stride)
{
    const struct kern_problem *p = context;
    const int64_t length = p->in[0].dim[p->attr.softmax.axis];
    int64_t r, i;

    for (r = 0; r < rows; r++)
        for (i = 0; i < n; i++)
            softmax_row(at[1] + r * row_stride[1] + i * stride[1],
                        at[0] + r * row_stride[0] + i * stride[0], length,
                        p->attr.softmax.log);
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const int axis = p->attr.softmax.axis;
    struct kern_tensor x = p->in[0], y = p->out[0];
    const struct kern_tensor *t[] = {&y, &x};
    void *base[] = {args->out[0], (void *)args->in[0]};
    struct cpu_walk w;
    int64_t length = x.dim[axis];

    (void)err;
    if (kern_tensor_count(&x) == 0)
        return 0;
    x.dim[axis] = y.dim[axis] = 1;
    cpu_walk_init(&w, 2, t);
    w.weight = length;
    cpu_walk_run(&w, cpu_threads_of(e), base, rows_of, p);
    return 0;
}

KERN_FUNCTIONS(softmax_f32_cpu_rows) = {
    .supports = supports,
    .prepare = cpu_prepare,
    .launch = launch,
    .release = cpu_release,
};
