/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradients of batch normalisation in training, channels last: one pass over
 * dy, x and y for the sums of dz and dz (x - mean), one for dx and dresidual.
 * With xn = (x - mean) inverse and means over a channel,
 *     dx = scale inverse (dz - mean dz - xn mean(dz xn))
 *        = a dz + b (x - mean) + c.
 */
#include "config.h"

#include "kernels/cpu/channel_sums.h"

#include "kernels/base/error.h"
#include "kernels/problem.h"

enum { DY, X, SCALE, MEAN, INVERSE, Y, OLD_DSCALE, OLD_DSHIFT };
enum { DX, DSCALE, DSHIFT, DRESIDUAL };

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    struct channel_shape s;
    int i;

    if (!channel_shape_of(&p->in[DY], d->threads, &s) ||
        !cpu_is_dense(&p->in[X], KERN_NHWC) ||
        !cpu_is_dense(kern_problem_in(p, Y), KERN_NHWC) ||
        !cpu_is_dense(&p->out[DX], KERN_NHWC) ||
        !cpu_is_dense(kern_problem_out(p, DRESIDUAL), KERN_NHWC))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes dense channels-last F32 tensors");
    for (i = SCALE; i <= OLD_DSHIFT; i++)
        if (i != Y && !cpu_is_dense(kern_problem_in(p, i), KERN_NCHW))
            return error_set(why, INFER_EUNSUPPORTED, "takes F32 vectors");
    if (!cpu_is_dense(&p->out[DSCALE], KERN_NCHW) ||
        !cpu_is_dense(&p->out[DSHIFT], KERN_NCHW))
        return error_set(why, INFER_EUNSUPPORTED, "takes F32 vectors");
    return 0;
}

/* The workspace: mean, a, b and c, each as wide as a row; then that of the
 * sums. */
static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    struct channel_shape s;

    (void)channel_shape_of(&e->problem.in[DY], d->threads, &s);
    e->workspace =
        4 * channel_row_floats(&s) * sizeof(float) + channel_sum_bytes(&s);
    return cpu_prepare(e, d, err);
}

struct source {
    const struct kern_problem *p;
    const float *dy, *x, *y, *mean, *a, *b, *c;
    float *dx, *dresidual;
};

static enum kern_unary_kind kind_of(const struct source *f)
{
    return f->y ? f->p->epilogue.act.kind : KERN_IDENTITY;
}

/* Elements of dz that are made at a time where no loop below makes them. */
#define BLOCK 512

/* ---- sums ---------------------------------------------------------- */

CPU_INLINE void add_row(bool relu, const float *dy, const float *x,
                        const float *y, const float *mean, int64_t n, float *a,
                        float *b)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float dz = relu && !(y[i] > 0.0f) ? 0.0f : dy[i];

        a[i] += dz;
        b[i] += dz * (x[i] - mean[i]);
    }
}

CPU_CLONES static void add_rows(bool relu, const struct source *f, int64_t at,
                                int64_t rows, int64_t n, float *a, float *b)
{
    for (int64_t r = 0; r < rows; r++, at += n)
        if (relu)
            add_row(true, f->dy + at, f->x + at, f->y + at, f->mean, n, a, b);
        else
            add_row(false, f->dy + at, f->x + at, NULL, f->mean, n, a, b);
}

static void add(const struct channel_sums *s, int64_t at, int64_t rows,
                int64_t n, float *a, float *b)
{
    const struct source *f = s->context;
    const enum kern_unary_kind kind = kind_of(f);
    struct source part = *f;
    float dz[BLOCK];

    if (kind == KERN_RELU || kind == KERN_IDENTITY) {
        add_rows(kind == KERN_RELU, f, at, rows, n, a, b);
        return;
    }
    part.dy = dz;
    for (; rows > 0; rows--, at += n)
        for (int64_t i = 0; i < n; i += BLOCK) {
            const int64_t count = n - i < BLOCK ? n - i : BLOCK;

            cpu_act_grad_from_output(&f->p->epilogue.act, f->dy + at + i,
                                     f->y + at + i, dz, count);
            part.x = f->x + at + i;
            part.mean = f->mean + i;
            add_rows(false, &part, 0, 1, count, a + i, b + i);
        }
}

/* ---- result -------------------------------------------------------- */

/* dz may lie where dx goes. */
CPU_INLINE void store_row(bool relu, const struct source *f, const float *dy,
                          const float *x, const float *y, float *dx,
                          float *dresidual, int64_t from, int64_t n)
{
    const float *mean = f->mean + from, *a = f->a + from, *b = f->b + from;
    const float *c = f->c + from;

#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float dz = relu && !(y[i] > 0.0f) ? 0.0f : dy[i];

        dx[i] = a[i] * dz + (b[i] * (x[i] - mean[i]) + c[i]);
        if (dresidual)
            dresidual[i] = dz;
    }
}

CPU_CLONES static void store_rows(bool relu, const struct source *f, int64_t at,
                                  int64_t rows, int64_t n)
{
    for (int64_t r = 0; r < rows; r++, at += n) {
        const float *dy = f->dy + at, *x = f->x + at, *y = relu ? f->y + at : 0;
        float *dx = f->dx + at;

        if (relu && f->dresidual)
            store_row(true, f, dy, x, y, dx, f->dresidual + at, 0, n);
        else if (relu)
            store_row(true, f, dy, x, y, dx, NULL, 0, n);
        else if (f->dresidual)
            store_row(false, f, dy, x, y, dx, f->dresidual + at, 0, n);
        else
            store_row(false, f, dy, x, y, dx, NULL, 0, n);
    }
}

CPU_CLONES static void store_block(const struct source *f, const float *dz,
                                   int64_t at, int64_t from, int64_t n)
{
    if (f->dresidual)
        store_row(false, f, dz, f->x + at + from, NULL, f->dx + at + from,
                  f->dresidual + at + from, from, n);
    else
        store_row(false, f, dz, f->x + at + from, NULL, f->dx + at + from, NULL,
                  from, n);
}

static void store(const void *context, int64_t at, int64_t rows, int64_t n)
{
    const struct source *f = context;
    const enum kern_unary_kind kind = kind_of(f);
    float dz[BLOCK];

    if (kind == KERN_RELU || kind == KERN_IDENTITY) {
        store_rows(kind == KERN_RELU, f, at, rows, n);
        return;
    }
    for (; rows > 0; rows--, at += n)
        for (int64_t i = 0; i < n; i += BLOCK) {
            const int64_t count = n - i < BLOCK ? n - i : BLOCK;

            cpu_act_grad_from_output(&f->p->epilogue.act, f->dy + at + i,
                                     f->y + at + i, dz, count);
            store_block(f, dz, at, i, count);
        }
}

/* ---- launch -------------------------------------------------------- */

/* Adds to what was there before, in double precision. */
static void store_vector(const struct kern_problem *p,
                         const struct kern_args *args, int out, int old,
                         int64_t c, double v)
{
    if (kern_problem_in(p, old))
        v += (double)((const float *)args->in[old])[c];
    ((float *)args->out[out])[c] = (float)v;
}

static void fill_input_scale(const struct kern_problem *p,
                             const struct kern_args *args,
                             const struct channel_shape *s, const double *sum,
                             float *a, float *b, float *d)
{
    const float *scale = args->in[SCALE], *inverse = args->in[INVERSE];
    const double n = (double)s->pixels;

    for (int64_t c = 0; c < s->channels; c++) {
        const double i = (double)inverse[c], factor = (double)scale[c] * i;
        const double dshift = sum[c], dscale = sum[s->channels + c] * i;

        a[c] = (float)factor;
        b[c] = (float)(-factor * i * dscale / n);
        d[c] = (float)(-factor * dshift / n);
        store_vector(p, args, DSCALE, OLD_DSCALE, c, dscale);
        store_vector(p, args, DSHIFT, OLD_DSHIFT, c, dshift);
    }
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    struct channel_shape s;
    float *mean = args->workspace, *a, *b, *c;
    struct source f = {.p = p,
                       .dy = args->in[DY],
                       .x = args->in[X],
                       .y = kern_problem_in(p, Y) ? args->in[Y] : NULL,
                       .mean = mean,
                       .dx = args->out[DX],
                       .dresidual = kern_problem_out(p, DRESIDUAL)
                                        ? args->out[DRESIDUAL]
                                        : NULL};
    const struct channel_sums sums = {&s, add, &f};

    (void)err;
    (void)channel_shape_of(&p->in[DY], cpu_threads_of(e), &s);
    f.a = a = mean + channel_row_floats(&s);
    f.b = b = a + channel_row_floats(&s);
    f.c = c = b + channel_row_floats(&s);
    for (int64_t i = 0; i < s.channels; i++)
        mean[i] = ((const float *)args->in[MEAN])[i];
    channel_widen(&s, mean);
    fill_input_scale(p, args, &s,
                     channel_sum(&sums, c + channel_row_floats(&s)), a, b, c);
    channel_widen(&s, a);
    channel_widen(&s, b);
    channel_widen(&s, c);
    channel_each(&s, store, &f);
    return 0;
}

KERN_FUNCTIONS(batch_norm_dgrad_nhwc_f32_cpu_sums) = {
    .supports = supports,
    .prepare = prepare,
    .launch = launch,
    .release = cpu_release,
};
