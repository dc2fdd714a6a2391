/* SPDX-License-Identifier: Apache-2.0 */
/*
 * y = act(x scale[c] + shift[c] + residual), any strides: the scale-shift row,
 * and batch normalisation, which is the same once its four vectors have become
 * two.
 */
#include "config.h"

#include "kernels/cpu/cpu.h"

#include <math.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "kernels/problem.h"

/* Elements that stay in the L1 cache between the product and its epilogue. */
#define BLOCK 2048

/* in[] of both operations */
enum { X, SCALE, SHIFT, MEAN, VAR };

static int residual_of(const struct kern_problem *p)
{
    return p->op == KERN_BATCH_NORM ? VAR + 1 : SHIFT + 1;
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    int i;

    (void)d;
    for (i = 0; i < p->n_in; i++)
        if (kern_problem_in(p, i) && !cpu_is_f32(&p->in[i]))
            return error_set(why, INFER_EUNSUPPORTED, "takes F32 only");
    if (!cpu_is_f32(&p->out[0]) || p->in[X].rank < 2)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes F32 tensors of rank 2 and more");
    if (!cpu_act_known(&p->epilogue.act))
        return error_set(why, INFER_EUNSUPPORTED, "lacks this activation");
    return 0;
}

/* ---- rows ---------------------------------------------------------- */

struct context {
    const struct kern_epilogue *epilogue;
    bool residual;
};

CPU_INLINE void scale_row(const float *x, int64_t sx, const float *scale,
                          const float *shift, int64_t sc, float *y, int64_t sy,
                          int64_t n)
{
    int64_t i;

#pragma omp simd
    for (i = 0; i < n; i++)
        y[i * sy] = x[i * sx] * scale[i * sc] + shift[i * sc];
}

CPU_CLONES static void scale_any(const float *x, int64_t sx, const float *scale,
                                 const float *shift, int64_t sc, float *y,
                                 int64_t sy, int64_t n)
{
    if (sx == 1 && sy == 1 && sc == 1)
        scale_row(x, 1, scale, shift, 1, y, 1, n);
    else if (sx == 1 && sy == 1 && sc == 0)
        scale_row(x, 1, scale, shift, 0, y, 1, n);
    else
        scale_row(x, sx, scale, shift, sc, y, sy, n);
}

/* One block: through t where there is a residual, which may lie in y.
 * Operands: y, x, scale, shift, residual; scale and shift step alike. */
static void block_of(const struct context *c, float *const *at,
                     const int64_t *stride, int64_t n, float *t)
{
    const bool direct = !c->residual && stride[0] == 1;
    float *y = direct ? at[0] : t, *r = c->residual ? at[4] : NULL;
    int64_t i;

    scale_any(at[1], stride[1], at[2], at[3], stride[2], y, 1, n);
    if (!c->residual || stride[4] == 1)
        cpu_epilogue(c->epilogue, y, r, n);
    else
        for (i = 0; i < n; i++)
            cpu_epilogue(c->epilogue, y + i, r + i * stride[4], 1);
    if (!direct)
        for (i = 0; i < n; i++)
            at[0][i * stride[0]] = y[i];
}

static void rows_of(const void *context, int64_t rows, int64_t n,
                    float *const *at, const int64_t *row_stride,
                    const int64_t *stride)
{
    const struct context *c = context;
    const int operands = c->residual ? 5 : 4;
    float t[BLOCK];
    int64_t r, i;
    int k;

    for (r = 0; r < rows; r++)
        for (i = 0; i < n; i += BLOCK) {
            float *block[5];

            for (k = 0; k < operands; k++)
                block[k] = at[k] + r * row_stride[k] + i * stride[k];
            block_of(c, block, stride, n - i < BLOCK ? n - i : BLOCK, t);
        }
}

/* ---- launch -------------------------------------------------------- */

/* Scale and shift, one pair a channel, in the workspace. */
static void fill_vectors(const struct kern_problem *p,
                         const struct kern_args *args, float *scale,
                         float *shift)
{
    const int64_t channels = p->in[X].dim[1];
    const float *in[KERN_MAX_IN];
    int64_t c, step[KERN_MAX_IN];
    int i;

    for (i = 0; i < KERN_MAX_IN; i++) {
        in[i] = kern_problem_in(p, i) ? args->in[i] : NULL;
        step[i] = in[i] && p->in[i].dim[0] != 1 ? p->in[i].stride[0] : 0;
    }
    for (c = 0; c < channels; c++) {
        const float a = in[SCALE] ? in[SCALE][c * step[SCALE]] : 1.0f;
        const float b = in[SHIFT] ? in[SHIFT][c * step[SHIFT]] : 0.0f;

        scale[c] = a;
        shift[c] = b;
        if (p->op == KERN_BATCH_NORM) {
            const double var = in[VAR][c * step[VAR]];
            const double mean = in[MEAN][c * step[MEAN]];
            const double s = a / sqrt(var + (double)p->attr.norm.epsilon);

            scale[c] = (float)s;
            shift[c] = (float)(b - mean * s);
        }
    }
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    const size_t channels = (size_t)e->problem.in[X].dim[1];

    if (!checked_mul(channels, 2 * sizeof(float), &e->workspace))
        return error_set(err, INFER_EMEMORY, "%s: too many channels",
                         e->row->name);
    return cpu_prepare(e, d, err);
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const int residual = residual_of(p);
    const struct context c = {&p->epilogue,
                              kern_problem_in(p, residual) != NULL};
    struct kern_tensor vector = {
        .dtype = INFER_F32, .rank = p->in[X].rank, .dim = {0}};
    const struct kern_tensor *t[] = {
        &p->out[0], &p->in[X], &vector, &vector,
        &p->in[residual < KERN_MAX_IN ? residual : 0]};
    float *scale = args->workspace, *shift = scale + p->in[X].dim[1];
    void *base[] = {args->out[0], (void *)args->in[X], scale, shift,
                    c.residual ? (void *)args->in[residual] : NULL};
    struct cpu_walk w;
    int i;

    (void)err;
    if (kern_tensor_count(t[0]) == 0)
        return 0;
    for (i = 0; i < vector.rank; i++)
        vector.dim[i] = 1;
    vector.dim[1] = p->in[X].dim[1];
    vector.stride[1] = 1;
    fill_vectors(p, args, scale, shift);
    cpu_walk_init(&w, c.residual ? 5 : 4, t);
    cpu_walk_run(&w, cpu_threads_of(e), base, rows_of, &c);
    return 0;
}

const struct kern_functions scale_shift_f32_cpu_walk = {
    .supports = supports,
    .prepare = prepare,
    .launch = launch,
    .release = cpu_release,
};
