/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layer and RMS normalisation over trailing dimensions that are contiguous.
 * Three passes over a row: mean, variance about it, result.
 */
#include "config.h"

#include "kernels/cpu/cpu.h"

#include <math.h>

#include "kernels/base/error.h"
#include "kernels/problem.h"

enum { X, SCALE, SHIFT };

/* The dimensions from axis on lie row-major without gaps. */
static bool contiguous(const struct kern_tensor *t, int axis)
{
    int64_t stride = 1;
    int i;

    for (i = t->rank - 1; i >= axis; i--) {
        if (t->dim[i] != 1 && t->stride[i] != stride)
            return false;
        stride *= t->dim[i];
    }
    return true;
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    const int axis = p->attr.norm.axis;
    int i;

    (void)d;
    for (i = 0; i < 3; i++)
        if (kern_problem_in(p, i) &&
            (!cpu_is_f32(&p->in[i]) ||
             !contiguous(&p->in[i], i == X ? axis : 0)))
            return error_set(why, INFER_EUNSUPPORTED,
                             "takes F32 rows without gaps");
    if (!cpu_is_f32(&p->out[0]) || !contiguous(&p->out[0], axis))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes F32 rows without gaps");
    return 0;
}

CPU_CLONES static float row_sum(const float *x, int64_t n)
{
    float sum = 0.0f;
    int64_t i;

#pragma omp simd reduction(+ : sum)
    for (i = 0; i < n; i++)
        sum += x[i];
    return sum;
}

CPU_CLONES static float row_squares(const float *x, float mean, int64_t n)
{
    float sum = 0.0f;
    int64_t i;

#pragma omp simd reduction(+ : sum)
    for (i = 0; i < n; i++)
        sum += (x[i] - mean) * (x[i] - mean);
    return sum;
}

CPU_CLONES static void row_result(const float *x, float mean, float inverse,
                                  const float *scale, const float *shift,
                                  float *y, int64_t n)
{
    int64_t i;

    if (scale && shift) {
#pragma omp simd
        for (i = 0; i < n; i++)
            y[i] = (x[i] - mean) * inverse * scale[i] + shift[i];
        return;
    }
    for (i = 0; i < n; i++)
        y[i] = (x[i] - mean) * inverse * (scale ? scale[i] : 1.0f) +
               (shift ? shift[i] : 0.0f);
}

struct context {
    const struct kern_norm *norm;
    const float *scale, *shift;
    int64_t length;
};

static void norm_row(const struct context *c, const float *x, float *y)
{
    const float n = (float)c->length;
    const float mean = c->norm->rms ? 0.0f : row_sum(x, c->length) / n;
    const float var = row_squares(x, mean, c->length) / n;

    row_result(x, mean, 1.0f / sqrtf(var + c->norm->epsilon), c->scale,
               c->shift, y, c->length);
}

/* Walks the leading dimensions, one row an element. */
static void rows_of(const void *context, int64_t rows, int64_t n,
                    float *const *at, const int64_t *row_stride,
                    const int64_t *stride)
{
    int64_t r, i;

    for (r = 0; r < rows; r++)
        for (i = 0; i < n; i++)
            norm_row(context, at[1] + r * row_stride[1] + i * stride[1],
                     at[0] + r * row_stride[0] + i * stride[0]);
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    struct kern_tensor x = p->in[X], y = p->out[0];
    const struct kern_tensor *t[] = {&y, &x};
    void *base[] = {args->out[0], (void *)args->in[X]};
    struct context c = {&p->attr.norm,
                        kern_problem_in(p, SCALE) ? args->in[SCALE] : NULL,
                        kern_problem_in(p, SHIFT) ? args->in[SHIFT] : NULL, 1};
    struct cpu_walk w;
    int i;

    (void)err;
    if (kern_tensor_count(&x) == 0)
        return 0;
    for (i = p->attr.norm.axis; i < x.rank; i++) {
        c.length *= x.dim[i];
        x.dim[i] = y.dim[i] = 1;
    }
    cpu_walk_init(&w, 2, t);
    w.weight = 3 * c.length;
    cpu_walk_run(&w, cpu_threads_of(e), base, rows_of, &c);
    return 0;
}

KERN_FUNCTIONS(layer_norm_f32_cpu_rows) = {
    .supports = supports,
    .prepare = cpu_prepare,
    .launch = launch,
    .release = cpu_release,
};
