/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums over everything but the channels of a dense channels-last tensor (the
 * gradient of a bias), and sums over all of a dense one (the norm of all
 * gradients), which has one channel.
 */
#include "config.h"

#include "kernels/cpu/channel_sums.h"

#include <math.h>

#include "kernels/base/error.h"
#include "kernels/problem.h"

enum { X, RESIDUAL };

/* The dimensions that stay: none, or the channels of `flat`, which is x or x
 * as one row of elements. */
static bool flatten(const struct kern_problem *p, struct kern_tensor *flat)
{
    const struct kern_tensor *x = &p->in[X];
    const int64_t all[2] = {kern_tensor_count(x), 1};
    bool whole = true, channels = x->rank >= 2;

    for (int i = 0; i < x->rank; i++) {
        const bool reduced = (p->attr.reduce.axes >> i & 1) || x->dim[i] == 1;

        whole = whole && reduced;
        channels = channels && (i == 1 || reduced);
    }
    *flat = *x;
    if (whole && (kern_tensor_is_dense(x, KERN_NCHW) ||
                  kern_tensor_is_dense(x, KERN_NHWC)))
        *flat = kern_tensor_dense(INFER_F32, 2, all, KERN_NCHW);
    else if (!channels || (p->attr.reduce.axes >> 1 & 1))
        return false;
    return true;
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    const enum kern_reduce_kind kind = p->attr.reduce.kind;
    struct channel_shape s;
    struct kern_tensor flat;

    if (kind != KERN_REDUCE_SUM && kind != KERN_REDUCE_MEAN &&
        kind != KERN_REDUCE_L1 && kind != KERN_REDUCE_L2)
        return error_set(why, INFER_EUNSUPPORTED, "does sum, mean, L1 and L2");
    if (!cpu_is_f32(&p->in[X]) || !flatten(p, &flat) ||
        !channel_shape_of(&flat, d->threads, &s))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes dense F32 tensors of which the channels, that "
                         "lie last, or nothing stays");
    if (!cpu_is_dense(&p->out[0], KERN_NCHW) ||
        !cpu_is_dense(kern_problem_in(p, RESIDUAL), KERN_NCHW))
        return error_set(why, INFER_EUNSUPPORTED, "makes dense F32 sums");
    return 0;
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    struct channel_shape s;
    struct kern_tensor flat;

    (void)flatten(&e->problem, &flat);
    (void)channel_shape_of(&flat, d->threads, &s);
    e->workspace = channel_sum_bytes(&s);
    return cpu_prepare(e, d, err);
}

struct source {
    enum kern_reduce_kind kind;
    const float *x;
};

CPU_CLONES static void add_rows(enum kern_reduce_kind kind, const float *x,
                                int64_t rows, int64_t n, float *a)
{
    for (int64_t r = 0; r < rows; r++, x += n)
        if (kind == KERN_REDUCE_L2) {
#pragma omp simd
            for (int64_t i = 0; i < n; i++)
                a[i] += x[i] * x[i];
        } else if (kind == KERN_REDUCE_L1) {
#pragma omp simd
            for (int64_t i = 0; i < n; i++)
                a[i] += fabsf(x[i]);
        } else {
#pragma omp simd
            for (int64_t i = 0; i < n; i++)
                a[i] += x[i];
        }
}

static void add(const struct channel_sums *s, int64_t at, int64_t rows,
                int64_t n, float *a, float *b)
{
    const struct source *f = s->context;

    (void)b;
    add_rows(f->kind, f->x + at, rows, n, a);
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct source source = {p->attr.reduce.kind, args->in[X]};
    struct channel_shape s;
    const struct channel_sums sums = {&s, add, &source};
    struct kern_tensor flat;
    const double *total;

    (void)err;
    (void)flatten(p, &flat);
    (void)channel_shape_of(&flat, cpu_threads_of(e), &s);
    total = channel_sum(&sums, args->workspace);
    for (int64_t c = 0; c < s.channels; c++) {
        double v = total[c];

        if (source.kind == KERN_REDUCE_MEAN)
            v /= (double)s.pixels;
        if (source.kind == KERN_REDUCE_L2)
            v = sqrt(v);
        if (kern_problem_in(p, RESIDUAL))
            v += (double)((const float *)args->in[RESIDUAL])[c];
        ((float *)args->out[0])[c] = (float)v;
    }
    return 0;
}

KERN_FUNCTIONS(reduce_f32_cpu_channels) = {
    .supports = supports,
    .prepare = prepare,
    .launch = launch,
    .release = cpu_release,
};
