/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dense layers on few rows, with the weights as they lie in the file.
 *
 * With few rows a dense layer is limited by reading its weights once.  They are
 * neither repacked nor copied: each output is a dot product along a row of W.
 * A block of 4 outputs and up to 4 rows of x keeps 16 sums in registers, each a
 * vector of partial sums along C.  Threads divide the outputs.
 */
#include "config.h"

#include "kernels/base/error.h"
#include "kernels/cpu/cpu.h"
#include "kernels/problem.h"

/* in[] of a dense layer */
enum { X, W, BIAS, RESIDUAL };

/* Most rows of x: they stay in the cache while the weights stream through it.
 * Fewest columns. */
#define MOST_ROWS   4
#define LEAST_INPUT 64

/* Rows of x and outputs in a block; floats in a vector of sums. */
#define ROWS    4
#define OUTPUTS 4
#define LANES   16

typedef float vec __attribute__((vector_size(64), aligned(4), may_alias));

static int64_t rows_of(const struct kern_tensor *t)
{
    return t->rank > 0 && t->dim[t->rank - 1] > 0
               ? kern_tensor_count(t) / t->dim[t->rank - 1]
               : 0;
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    const struct kern_tensor *x = &p->in[X], *w = &p->in[W];
    int i;

    (void)d;
    for (i = 0; i < p->n_in; i++)
        if (!cpu_is_dense(kern_problem_in(p, i), KERN_NCHW))
            return error_set(why, INFER_EUNSUPPORTED,
                             "takes dense row-major F32");
    if (!cpu_is_dense(&p->out[0], KERN_NCHW))
        return error_set(why, INFER_EUNSUPPORTED, "gives dense row-major F32");
    if (w->rank != 2 || w->dim[1] < LEAST_INPUT || rows_of(x) < 1 ||
        rows_of(x) > MOST_ROWS)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes up to %d rows of at least %d values", MOST_ROWS,
                         LEAST_INPUT);
    if (!cpu_act_known(&p->epilogue.act))
        return error_set(why, INFER_EUNSUPPORTED, "lacks this activation");
    return 0;
}

CPU_INLINE float sum_lanes(vec v)
{
    float part[LANES], sum = 0.0f;
    int i;

    *(vec *)part = v;
#pragma omp simd reduction(+ : sum)
    for (i = 0; i < LANES; i++)
        sum += part[i];
    return sum;
}

/* y[r][k] for `rows` rows of x and `outputs` rows of w, n values each. */
CPU_INLINE void dot_block(int rows, int outputs, const float *x, const float *w,
                          int64_t n, float *y, int64_t y_step)
{
    vec sum[ROWS][OUTPUTS];
    int64_t c;
    int r, k;

#pragma GCC unroll 4
    for (r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (k = 0; k < outputs; k++)
            sum[r][k] = (vec){0};
    for (c = 0; c + LANES <= n; c += LANES)
#pragma GCC unroll 4
        for (k = 0; k < outputs; k++) {
            const vec u = *(const vec *)(w + k * n + c);

#pragma GCC unroll 4
            for (r = 0; r < rows; r++)
                sum[r][k] += u * *(const vec *)(x + r * n + c);
        }
#pragma GCC unroll 4
    for (r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (k = 0; k < outputs; k++) {
            float total = sum_lanes(sum[r][k]);
            int64_t i;

            for (i = c; i < n; i++)
                total += x[r * n + i] * w[k * n + i];
            y[r * y_step + k] = total;
        }
}

/* Outputs [0, to) of `rows` rows. */
CPU_INLINE void dot_outputs(int rows, const float *x, const float *w, int64_t n,
                            float *y, int64_t y_step, int64_t to)
{
    int64_t k;

    for (k = 0; k + OUTPUTS <= to; k += OUTPUTS)
        dot_block(rows, OUTPUTS, x, w + k * n, n, y + k, y_step);
    for (; k < to; k++)
        dot_block(rows, 1, x, w + k * n, n, y + k, y_step);
}

CPU_CLONES static void dot_rows(int64_t rows, const float *x, const float *w,
                                int64_t n, float *y, int64_t y_step, int64_t to)
{
    if (rows == 1)
        dot_outputs(1, x, w, n, y, y_step, to);
    else if (rows == 2)
        dot_outputs(2, x, w, n, y, y_step, to);
    else if (rows == 3)
        dot_outputs(3, x, w, n, y, y_step, to);
    else
        dot_outputs(4, x, w, n, y, y_step, to);
}

/* Outputs whose sums wait for the epilogue together. */
#define STRIP 64

static void dot_part(const struct kern_problem *p, const struct kern_args *args,
                     float *y, int64_t from, int64_t to)
{
    const int64_t rows = rows_of(&p->in[X]), outputs = p->in[W].dim[0];
    const float *bias =
        kern_problem_in(p, BIAS) ? (const float *)args->in[BIAS] : NULL;
    const float *residual =
        kern_problem_in(p, RESIDUAL) ? (const float *)args->in[RESIDUAL] : NULL;
    int64_t k, r;

    for (k = from; k < to; k += STRIP) {
        const int64_t n = to - k < STRIP ? to - k : STRIP;
        /* Sums go through t, as the residual may lie in y. */
        float t[MOST_ROWS * STRIP];

        dot_rows(rows, args->in[X],
                 (const float *)args->in[W] + k * p->in[W].dim[1],
                 p->in[W].dim[1], t, STRIP, n);
        for (r = 0; r < rows; r++) {
            float *to_row = y + r * outputs + k;

            if (bias)
                cpu_add(bias + k, t + r * STRIP, n);
            cpu_epilogue(&p->epilogue, t + r * STRIP,
                         residual ? residual + r * outputs + k : NULL, n);
            cpu_copy(t + r * STRIP, to_row, n, 1);
        }
    }
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const int count = cpu_threads(
        cpu_threads_of(e), kern_tensor_count(&p->in[W]) * rows_of(&p->in[X]));
    int i;

    (void)err;
#pragma omp parallel for num_threads(count) schedule(static, 1) if (count > 1)
    for (i = 0; i < count; i++) {
        int64_t from, to;

        cpu_share(p->in[W].dim[0], i, count, &from, &to);
        dot_part(p, args, args->out[0], from, to);
    }
    return 0;
}

KERN_FUNCTIONS(dense_fprop_f32_cpu_dot) = {
    .supports = supports,
    .prepare = cpu_prepare,
    .launch = launch,
    .release = cpu_release,
};
