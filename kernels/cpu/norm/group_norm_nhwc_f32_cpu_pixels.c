/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Group and instance normalisation of channels-last tensors.
 *
 * An item of work is one image.  Sums and squares are kept for each channel
 * while pixels stream by, first the sums, then the squares about the group's
 * mean; a third pass scales and shifts.  The sums of long columns are kept in
 * double precision.
 */
#include "config.h"

#include "kernels/cpu/cpu.h"

#include <math.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "kernels/problem.h"

enum { X, SCALE, SHIFT };

/* Pixels one stride apart: the spatial dimensions merge into one. */
static bool even_pixels(const struct kern_tensor *t)
{
    int i;

    for (i = 2; i + 1 < t->rank; i++)
        if (t->dim[i] != 1 && t->stride[i] != t->dim[i + 1] * t->stride[i + 1])
            return false;
    return true;
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    const struct kern_tensor *x = &p->in[X], *y = &p->out[0];
    int i;

    (void)d;
    if (!cpu_is_f32(x) || !cpu_is_f32(y) || x->rank < 3 ||
        !cpu_channels_inner(x) || !cpu_channels_inner(y) || !even_pixels(x) ||
        !even_pixels(y))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes channels-last F32 tensors");
    for (i = SCALE; i <= SHIFT; i++)
        if (kern_problem_in(p, i) &&
            (!cpu_is_f32(&p->in[i]) ||
             (p->in[i].stride[0] != 1 && x->dim[1] != 1)))
            return error_set(why, INFER_EUNSUPPORTED,
                             "takes dense F32 scale and shift");
    return 0;
}

/* sum[c] += x[c] - mean[c], or its square */
CPU_CLONES static void add_pixel(const float *x, const float *mean, bool square,
                                 double *sum, int64_t channels)
{
    int64_t c;

    if (square) {
#pragma omp simd
        for (c = 0; c < channels; c++)
            sum[c] += (double)((x[c] - mean[c]) * (x[c] - mean[c]));
        return;
    }
#pragma omp simd
    for (c = 0; c < channels; c++)
        sum[c] += (double)x[c];
}

CPU_CLONES static void scale_pixel(const float *x, const float *mean,
                                   const float *factor, const float *shift,
                                   float *y, int64_t channels)
{
    int64_t c;

#pragma omp simd
    for (c = 0; c < channels; c++)
        y[c] = (x[c] - mean[c]) * factor[c] + shift[c];
}

/* One image: how its pixels lie, and its part of the workspace. */
struct image {
    const float *x;
    float *y;
    int64_t pixels, x_step, y_step, channels, group;
    double *sum;
    float *mean, *factor, *shift; /* one per channel */
};

/* Replaces each channel's sum by its group's mean over all elements. */
static void group_means(const struct image *im, double *sum)
{
    const double count = (double)(im->group * im->pixels);
    int64_t c, i;

    for (c = 0; c < im->channels; c += im->group) {
        double total = 0.0;

        for (i = 0; i < im->group; i++)
            total += sum[c + i];
        for (i = 0; i < im->group; i++)
            sum[c + i] = total / count;
    }
}

static void fold(const struct image *im, bool square)
{
    int64_t i;

    memset(im->sum, 0, (size_t)im->channels * sizeof *im->sum);
    for (i = 0; i < im->pixels; i++)
        add_pixel(im->x + i * im->x_step, im->mean, square, im->sum,
                  im->channels);
    group_means(im, im->sum);
}

static void norm_image(const struct image *im, const struct kern_norm *norm,
                       const float *scale, const float *shift)
{
    int64_t c, i;

    memset(im->mean, 0, (size_t)im->channels * sizeof *im->mean);
    if (!norm->rms) {
        fold(im, false);
        for (c = 0; c < im->channels; c++)
            im->mean[c] = (float)im->sum[c];
    }
    fold(im, true);
    for (c = 0; c < im->channels; c++) {
        const double inverse = 1.0 / sqrt(im->sum[c] + (double)norm->epsilon);

        im->factor[c] = (float)(inverse * (scale ? (double)scale[c] : 1.0));
        im->shift[c] = shift ? shift[c] : 0.0f;
    }
    for (i = 0; i < im->pixels; i++)
        scale_pixel(im->x + i * im->x_step, im->mean, im->factor, im->shift,
                    im->y + i * im->y_step, im->channels);
}

/* A double and four floats a channel (one to spare, for alignment), for each
 * thread. */
static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    const size_t channels = (size_t)e->problem.in[X].dim[1];

    if (!checked_mul(channels, 24 * (size_t)d->threads, &e->workspace))
        return error_set(err, INFER_EMEMORY, "%s: too many channels",
                         e->row->name);
    return cpu_prepare(e, d, err);
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *x = &p->in[X], *y = &p->out[0];
    const int64_t elements = kern_tensor_count(x);
    const int count = cpu_threads(cpu_threads_of(e), elements);
    int64_t pixels = 1;
    int i;

    (void)err;
    if (elements == 0)
        return 0;
    for (i = 2; i < x->rank; i++)
        pixels *= x->dim[i];
#pragma omp parallel for num_threads(count) schedule(static, 1) if (count > 1)
    for (i = 0; i < count; i++) {
        const int64_t channels = x->dim[1];
        struct image im = {.pixels = pixels,
                           .x_step = x->stride[x->rank - 1],
                           .y_step = y->stride[y->rank - 1],
                           .channels = channels,
                           .group = channels / p->attr.norm.groups};
        int64_t from, to;

        im.sum = (double *)args->workspace + 3 * i * channels;
        im.mean = (float *)(im.sum + channels);
        im.factor = im.mean + channels;
        im.shift = im.factor + channels;
        cpu_share(x->dim[0], i, count, &from, &to);
        for (; from < to; from++) {
            im.x = (const float *)args->in[X] + from * x->stride[0];
            im.y = (float *)args->out[0] + from * y->stride[0];
            norm_image(&im, &p->attr.norm,
                       kern_problem_in(p, SCALE) ? args->in[SCALE] : NULL,
                       kern_problem_in(p, SHIFT) ? args->in[SHIFT] : NULL);
        }
    }
    return 0;
}

KERN_FUNCTIONS(group_norm_nhwc_f32_cpu_pixels) = {
    .supports = supports,
    .prepare = prepare,
    .launch = launch,
    .release = cpu_release,
};
