/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batch normalisation in training, channels last: one pass over x for its sums,
 * one for the result, which adds the residual and applies the activation.
 *
 * The variance comes from sums of x - shift and its square, where the shift is
 * the channel's first element: that keeps a mean far from 0 from cancelling
 * what is left of the squares.
 */
#include "config.h"

#include "kernels/cpu/channel_sums.h"

#include <math.h>

#include "kernels/base/error.h"
#include "kernels/problem.h"

enum { X, SCALE, SHIFT, MEAN, VAR, RESIDUAL };
enum { Y, BATCH_MEAN, BATCH_INVERSE, NEW_MEAN, NEW_VAR, SIGNS };

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    struct channel_shape s;
    int i;

    if (!channel_shape_of(&p->in[X], d->threads, &s) ||
        !cpu_is_dense(&p->out[Y], KERN_NHWC) ||
        !cpu_is_dense(kern_problem_in(p, RESIDUAL), KERN_NHWC))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes dense channels-last F32 tensors");
    for (i = SCALE; i <= VAR; i++)
        if (!cpu_is_dense(kern_problem_in(p, i), KERN_NCHW) ||
            !cpu_is_dense(kern_problem_out(p, i), KERN_NCHW))
            return error_set(why, INFER_EUNSUPPORTED, "takes F32 vectors");
    if (!cpu_act_known(&p->epilogue.act))
        return error_set(why, INFER_EUNSUPPORTED, "lacks this activation");
    if (kern_problem_out(p, SIGNS))
        return error_set(why, INFER_EUNSUPPORTED, "keeps no signs");
    return 0;
}

/* The workspace: factor and offset of a row, then that of the sums. */
static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    struct channel_shape s;

    (void)channel_shape_of(&e->problem.in[X], d->threads, &s);
    e->workspace =
        2 * channel_row_floats(&s) * sizeof(float) + channel_sum_bytes(&s);
    return cpu_prepare(e, d, err);
}

/* ---- sums ---------------------------------------------------------- */

struct source {
    const float *x, *shift; /* shift: of a row */
};

CPU_CLONES static void add_rows(const float *x, const float *shift,
                                int64_t rows, int64_t n, float *a, float *b)
{
    for (int64_t r = 0; r < rows; r++, x += n)
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            const float v = x[i] - shift[i];

            a[i] += v;
            b[i] += v * v;
        }
}

static void add(const struct channel_sums *s, int64_t at, int64_t rows,
                int64_t n, float *a, float *b)
{
    const struct source *f = s->context;

    add_rows(f->x + at, f->shift, rows, n, a, b);
}

/* ---- statistics ---------------------------------------------------- */

static void move(const struct kern_problem *p, const struct kern_args *args,
                 int i, int64_t c, double batch)
{
    const float *from = args->in[i];
    float *to = args->out[i];

    if (kern_problem_in(p, i))
        to[c] = (float)((double)from[c] + (double)p->attr.norm.momentum *
                                              (batch - (double)from[c]));
}

/* Turns the sums of x - factor[c] into statistics, and factor and offset into
 * what makes y of x. */
static void fill_statistics(const struct kern_problem *p,
                            const struct kern_args *args,
                            const struct channel_shape *s, const double *sum,
                            float *factor, float *offset)
{
    const double n = (double)s->pixels;
    const double free = s->pixels > 1 ? n - 1 : 1;
    const float *scale = args->in[SCALE], *shift = args->in[SHIFT];

    for (int64_t c = 0; c < s->channels; c++) {
        const double d = sum[c] / n, square = sum[s->channels + c] / n - d * d;
        const double mean = (double)factor[c] + d;
        const double var = square > 0 ? square : isnan(square) ? square : 0;
        const double inverse = 1 / sqrt(var + (double)p->attr.norm.epsilon);

        ((float *)args->out[BATCH_MEAN])[c] = (float)mean;
        ((float *)args->out[BATCH_INVERSE])[c] = (float)inverse;
        move(p, args, MEAN, c, mean);
        move(p, args, VAR, c, var * n / free);
        factor[c] = (float)((double)scale[c] * inverse);
        offset[c] =
            (float)((double)shift[c] - mean * (double)scale[c] * inverse);
    }
}

/* ---- result -------------------------------------------------------- */

struct target {
    const struct kern_problem *p;
    const float *x, *residual, *factor, *offset;
    float *y;
};

/* y = factor x + offset + residual, and where `relu`, no less than 0. */
CPU_INLINE void row_of(bool relu, const float *x, const float *factor,
                       const float *offset, const float *residual, float *y,
                       int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float v = x[i] * factor[i] + offset[i];

        if (residual)
            v += residual[i];
        y[i] = relu && v < 0.0f ? 0.0f : v;
    }
}

CPU_CLONES static void normalise(bool relu, const struct target *t, int64_t at,
                                 int64_t rows, int64_t n)
{
    for (int64_t r = 0; r < rows; r++, at += n) {
        const float *x = t->x + at, *f = t->factor, *o = t->offset;
        const float *residual = t->residual + (t->residual ? at : 0);
        float *y = t->y + at;

        if (relu && t->residual)
            row_of(true, x, f, o, residual, y, n);
        else if (relu)
            row_of(true, x, f, o, NULL, y, n);
        else if (t->residual)
            row_of(false, x, f, o, residual, y, n);
        else
            row_of(false, x, f, o, NULL, y, n);
    }
}

static void store(const void *context, int64_t at, int64_t rows, int64_t n)
{
    const struct target *t = context;
    const struct kern_unary *act = &t->p->epilogue.act;

    if (act->kind == KERN_RELU || act->kind == KERN_IDENTITY) {
        normalise(act->kind == KERN_RELU, t, at, rows, n);
        return;
    }
    for (; rows > 0; rows--, at += n) {
        normalise(false, t, at, 1, n);
        cpu_act(act, t->y + at, t->y + at, n);
    }
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    struct channel_shape s;
    float *factor = args->workspace, *offset;
    struct target t = {
        .p = p,
        .x = args->in[X],
        .residual = kern_problem_in(p, RESIDUAL) ? args->in[RESIDUAL] : NULL,
        .factor = factor,
        .y = args->out[Y]};
    const struct source source = {t.x, factor};
    const struct channel_sums sums = {&s, add, &source};

    (void)err;
    (void)channel_shape_of(&p->in[X], cpu_threads_of(e), &s);
    t.offset = offset = factor + channel_row_floats(&s);
    for (int64_t c = 0; c < s.channels; c++)
        factor[c] = t.x[c];
    channel_widen(&s, factor);
    fill_statistics(p, args, &s,
                    channel_sum(&sums, offset + channel_row_floats(&s)), factor,
                    offset);
    channel_widen(&s, factor);
    channel_widen(&s, offset);
    channel_each(&s, store, &t);
    return 0;
}

KERN_FUNCTIONS(batch_norm_train_nhwc_f32_cpu_sums) = {
    .supports = supports,
    .prepare = prepare,
    .launch = launch,
    .release = cpu_release,
};
