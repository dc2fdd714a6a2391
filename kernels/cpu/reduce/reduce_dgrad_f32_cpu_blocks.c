/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradient of maxima, minima and norms over any axes, any strides: the block of
 * an output is read for its extreme or its norm, and then written.  Contiguous
 * outputs are handled together, element by element of their blocks.
 */
#include "config.h"

#include "kernels/cpu/reduce/reduce_blocks.h"

#include <math.h>

#include "kernels/base/error.h"
#include "kernels/problem.h"

enum { DY, X, RESIDUAL };

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    const enum kern_reduce_kind kind = p->attr.reduce.kind;
    const struct kern_tensor *x = kern_problem_in(p, X);
    int rc;

    (void)d;
    if (!x || (kind != KERN_REDUCE_MAX && kind != KERN_REDUCE_MIN &&
               kind != KERN_REDUCE_L2))
        return error_set(why, INFER_EUNSUPPORTED, "does max, min and L2");
    rc = cpu_need_f32(p, why);
    if (rc < 0)
        return rc;
    if (kern_tensor_count(x) == 0 ||
        reduce_block_count(x, p->attr.reduce.axes) > REDUCE_MAX_BLOCK)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes 1 to %d elements an output", REDUCE_MAX_BLOCK);
    return 0;
}

/* The lists of x, dx and the residual. */
static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *t[] = {&p->in[X], &p->out[0], &p->in[RESIDUAL]};

    return reduce_blocks_make(e, d, t, kern_problem_in(p, RESIDUAL) ? 3 : 2,
                              p->attr.reduce.axes, err);
}

struct tile {
    float top[REDUCE_TILE];
    int32_t best[REDUCE_TILE]; /* number within the block */
    double norm[REDUCE_TILE];
};

CPU_CLONES static void keep_extreme(bool max, const float *x, int64_t step,
                                    int32_t number, struct tile *t, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float v = x[i * step];
        const bool take = (max ? v > t->top[i] : v < t->top[i]) || v != v;

        t->top[i] = take ? v : t->top[i];
        t->best[i] = take ? number : t->best[i];
    }
}

CPU_CLONES static void add_squares(const float *x, int64_t step, struct tile *t,
                                   int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        t->norm[i] += (double)x[i * step] * (double)x[i * step];
}

/* The gradient of an element of a block. */
static float gradient(bool norm, const struct tile *t, int64_t i, int64_t k,
                      float x, float dy)
{
    if (!norm)
        return t->best[i] == k ? dy : 0.0f;
    return t->norm[i] > 0 ? (float)((double)dy * (double)x / sqrt(t->norm[i]))
                          : 0.0f;
}

static void measure(const struct kern_problem *p, const struct reduce_blocks *s,
                    const float *x, int64_t step, struct tile *t, int64_t n)
{
    const enum kern_reduce_kind kind = p->attr.reduce.kind;

    for (int64_t i = 0; i < n; i++) {
        t->norm[i] = 0;
        t->top[i] = x[s->at[0] + i * step];
        t->best[i] = 0;
    }
    for (int64_t k = kind == KERN_REDUCE_L2 ? 0 : 1; k < s->count; k++)
        if (kind == KERN_REDUCE_L2)
            add_squares(x + s->at[k], step, t, n);
        else
            keep_extreme(kind == KERN_REDUCE_MAX, x + s->at[k], step,
                         (int32_t)k, t, n);
}

/* Operands: dx, dy, x, residual. */
static void rows_of(const void *context, int64_t rows, int64_t n,
                    float *const *at, const int64_t *row_stride,
                    const int64_t *stride)
{
    const struct kern_exec *e = context;
    const struct reduce_blocks *s = e->state;
    const bool residual = kern_problem_in(&e->problem, RESIDUAL) != NULL;
    const bool norm = e->problem.attr.reduce.kind == KERN_REDUCE_L2;
    const int64_t *of_dx = s->at + s->count, *of_residual = of_dx + s->count;
    struct tile t;

    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < n; i += REDUCE_TILE) {
            const int64_t count = n - i < REDUCE_TILE ? n - i : REDUCE_TILE;
            float *dx = at[0] + r * row_stride[0] + i * stride[0];
            const float *dy = at[1] + r * row_stride[1] + i * stride[1];
            const float *x = at[2] + r * row_stride[2] + i * stride[2];
            const float *old =
                residual ? at[3] + r * row_stride[3] + i * stride[3] : NULL;

            measure(&e->problem, s, x, stride[2], &t, count);
            for (int64_t k = 0; k < s->count; k++)
                for (int64_t j = 0; j < count; j++)
                    dx[of_dx[k] + j * stride[0]] =
                        gradient(norm, &t, j, k, x[s->at[k] + j * stride[2]],
                                 dy[j * stride[1]]) +
                        (old ? old[of_residual[k] + j * stride[3]] : 0.0f);
        }
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct reduce_blocks *s = e->state;
    const uint32_t axes = p->attr.reduce.axes;
    const bool residual = kern_problem_in(p, RESIDUAL) != NULL;
    const struct kern_tensor dx = reduce_kept(&p->out[0], axes);
    const struct kern_tensor x = reduce_kept(&p->in[X], axes);
    const struct kern_tensor old = reduce_kept(&p->in[RESIDUAL], axes);
    const struct kern_tensor *t[] = {&dx, &p->in[DY], &x, &old};
    void *base[] = {args->out[0], (void *)args->in[DY], (void *)args->in[X],
                    (void *)args->in[RESIDUAL]};
    struct cpu_walk w;

    (void)err;
    cpu_walk_init(&w, residual ? 4 : 3, t);
    w.weight = s->count;
    cpu_walk_run(&w, cpu_threads_of(e), base, rows_of, e);
    return 0;
}

KERN_FUNCTIONS(reduce_dgrad_f32_cpu_blocks) = {
    .supports = supports,
    .prepare = prepare,
    .launch = launch,
    .release = reduce_blocks_release,
};
