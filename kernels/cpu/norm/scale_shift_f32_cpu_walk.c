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

/* in[] of both operations */
enum { X, SCALE, SHIFT, MEAN, VAR };

static int residual_of(const struct kern_problem *p)
{
    return p->op == KERN_BATCH_NORM ? VAR + 1 : SHIFT + 1;
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    const int rc = cpu_need_f32(p, why);

    (void)d;
    if (rc < 0)
        return rc;
    if (p->in[X].rank < 2)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes F32 tensors of rank 2 and more");
    if (!cpu_act_known(&p->epilogue.act))
        return error_set(why, INFER_EUNSUPPORTED, "lacks this activation");
    return 0;
}

/* ---- rows ---------------------------------------------------------- */

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

/* Operands: y, x, scale, shift, residual; scale and shift step alike. */
static void compute(const void *context, float *const *at,
                    const int64_t *stride, float *y, int64_t n)
{
    (void)context;
    scale_any(at[1], stride[1], at[2], at[3], stride[2], y, 1, n);
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
    const bool adds = kern_problem_in(p, residual) != NULL;
    const struct cpu_blocks blocks = {.compute = compute,
                                      .epilogue = &p->epilogue,
                                      .operands = adds ? 5 : 4,
                                      .residual = adds};
    struct kern_tensor vector = {
        .dtype = INFER_F32, .rank = p->in[X].rank, .dim = {0}};
    const struct kern_tensor *t[] = {
        &p->out[0], &p->in[X], &vector, &vector,
        &p->in[residual < KERN_MAX_IN ? residual : 0]};
    float *scale = args->workspace, *shift = scale + p->in[X].dim[1];
    void *base[] = {args->out[0], (void *)args->in[X], scale, shift,
                    adds ? (void *)args->in[residual] : NULL};
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
    cpu_walk_init(&w, blocks.operands, t);
    cpu_walk_run(&w, cpu_threads_of(e), base, cpu_walk_blocks, &blocks);
    return 0;
}

KERN_FUNCTIONS(scale_shift_f32_cpu_walk) = {
    .supports = supports,
    .prepare = prepare,
    .launch = launch,
    .release = cpu_release,
};
