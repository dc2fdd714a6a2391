/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions over any axes, any strides: contiguous outputs are reduced
 * together, element by element of their blocks. */
#include "config.h"

#include "kernels/cpu/reduce/reduce_blocks.h"

#include <math.h>

#include "kernels/base/error.h"
#include "kernels/problem.h"

enum { X, RESIDUAL };

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    const int rc = cpu_need_f32(p, why);

    (void)d;
    if (rc < 0)
        return rc;
    if (p->attr.reduce.kind == KERN_REDUCE_PROD)
        return error_set(why, INFER_EUNSUPPORTED, "does no products");
    if (kern_tensor_count(&p->in[X]) == 0 ||
        reduce_block_count(&p->in[X], p->attr.reduce.axes) > REDUCE_MAX_BLOCK)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes 1 to %d elements an output", REDUCE_MAX_BLOCK);
    return 0;
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    const struct kern_tensor *t[] = {&e->problem.in[X]};

    return reduce_blocks_make(e, d, t, 1, e->problem.attr.reduce.axes, err);
}

/* Sums are kept in double precision: a block may be long. */
CPU_CLONES static void add_element(enum kern_reduce_kind kind, const float *x,
                                   int64_t step, double *sum, int64_t n)
{
    if (kind == KERN_REDUCE_L1) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            sum[i] += (double)fabsf(x[i * step]);
    } else if (kind == KERN_REDUCE_L2) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            sum[i] += (double)x[i * step] * (double)x[i * step];
    } else if (step == 1) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            sum[i] += (double)x[i];
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            sum[i] += (double)x[i * step];
    }
}

/* A NaN wins, and stays. */
CPU_CLONES static void keep_extreme(bool max, const float *x, int64_t step,
                                    double *top, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const double v = (double)x[i * step];
        const bool take = max ? v > top[i] : v < top[i];

        top[i] = take || v != v ? v : top[i];
    }
}

/* Blocks of so few elements that their sums stay in registers, and how many
 * sums there are at once. */
#define FEW   8
#define WIDTH 16

/* Sums, or means, of few contiguous rows. */
CPU_CLONES static void sum_few(const float *x, const struct reduce_blocks *s,
                               double divisor, float *y, int64_t n)
{
    int64_t i = 0;

    for (; i + WIDTH <= n; i += WIDTH) {
        double sum[WIDTH] = {0};

        for (int64_t k = 0; k < s->count; k++)
            for (int j = 0; j < WIDTH; j++)
                sum[j] += (double)x[s->at[k] + i + j];
        for (int j = 0; j < WIDTH; j++)
            y[i + j] = (float)(sum[j] / divisor);
    }
    for (; i < n; i++) {
        double sum = 0;

        for (int64_t k = 0; k < s->count; k++)
            sum += (double)x[s->at[k] + i];
        y[i] = (float)(sum / divisor);
    }
}

/* Up to REDUCE_TILE outputs. */
static void tile(const struct kern_problem *p, const struct reduce_blocks *s,
                 const float *x, int64_t step, double *total, int64_t n)
{
    const enum kern_reduce_kind kind = p->attr.reduce.kind;
    const bool extreme = kind == KERN_REDUCE_MAX || kind == KERN_REDUCE_MIN;

    for (int64_t i = 0; i < n; i++)
        total[i] = extreme ? (double)x[s->at[0] + i * step] : 0;
    for (int64_t k = extreme ? 1 : 0; k < s->count; k++)
        if (extreme)
            keep_extreme(kind == KERN_REDUCE_MAX, x + s->at[k], step, total, n);
        else
            add_element(kind, x + s->at[k], step, total, n);
    for (int64_t i = 0; i < n; i++)
        if (kind == KERN_REDUCE_MEAN)
            total[i] /= (double)s->count;
        else if (kind == KERN_REDUCE_L2)
            total[i] = sqrt(total[i]);
}

/* Operands: y, x, residual. */
static void rows_of(const void *context, int64_t rows, int64_t n,
                    float *const *at, const int64_t *row_stride,
                    const int64_t *stride)
{
    const struct kern_exec *e = context;
    const bool residual = kern_problem_in(&e->problem, RESIDUAL) != NULL;
    const struct reduce_blocks *s = e->state;
    const enum kern_reduce_kind kind = e->problem.attr.reduce.kind;
    const bool mean = kind == KERN_REDUCE_MEAN;
    double total[REDUCE_TILE];

    if (stride[0] == 1 && stride[1] == 1 && !residual && s->count <= FEW &&
        (mean || kind == KERN_REDUCE_SUM)) {
        for (int64_t r = 0; r < rows; r++)
            sum_few(at[1] + r * row_stride[1], s, mean ? (double)s->count : 1,
                    at[0] + r * row_stride[0], n);
        return;
    }
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < n; i += REDUCE_TILE) {
            const int64_t count = n - i < REDUCE_TILE ? n - i : REDUCE_TILE;
            float *y = at[0] + r * row_stride[0] + i * stride[0];
            const float *old =
                residual ? at[2] + r * row_stride[2] + i * stride[2] : NULL;

            tile(&e->problem, e->state,
                 at[1] + r * row_stride[1] + i * stride[1], stride[1], total,
                 count);
            for (int64_t k = 0; k < count; k++)
                y[k * stride[0]] =
                    (float)(total[k] + (old ? (double)old[k * stride[2]] : 0));
        }
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct reduce_blocks *s = e->state;
    const struct kern_tensor x = reduce_kept(&p->in[X], p->attr.reduce.axes);
    const struct kern_tensor *t[] = {&p->out[0], &x, &p->in[RESIDUAL]};
    void *base[] = {args->out[0], (void *)args->in[X],
                    (void *)args->in[RESIDUAL]};
    struct cpu_walk w;

    (void)err;
    cpu_walk_init(&w, kern_problem_in(p, RESIDUAL) ? 3 : 2, t);
    w.weight = s->count;
    cpu_walk_run(&w, cpu_threads_of(e), base, rows_of, e);
    return 0;
}

KERN_FUNCTIONS(reduce_f32_cpu_blocks) = {
    .supports = supports,
    .prepare = prepare,
    .launch = launch,
    .release = reduce_blocks_release,
};
