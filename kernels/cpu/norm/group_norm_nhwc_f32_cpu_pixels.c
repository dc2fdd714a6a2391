/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Group and instance normalisation of channels-last tensors.
 *
 * An item of work is one image.  Sums and squares are kept for each channel
 * while pixels stream by, first the sums, then the squares about the group's
 * mean; a third pass scales and shifts.  Sums of a block of pixels are in
 * single precision, those of the blocks in double.
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

#define LANES 16
typedef float vector __attribute__((vector_size(4 * LANES)));

/* Pixels whose sums are in single precision, on their way into the double
 * ones. */
#define BLOCK 32

/* x - m, or its square. */
static inline vector term(const float *x, vector m, bool square)
{
    vector v;

    memcpy(&v, x, sizeof v);
    v -= m;
    return square ? v * v : v;
}

/* The terms of LANES channels. */
static inline vector terms(const float *x, int64_t step, int64_t pixels,
                           vector m, bool square)
{
    vector a = {0}, b = {0}, c = {0}, d = {0};
    int64_t i = 0;

    for (; i + 4 <= pixels; i += 4) {
        a += term(x + i * step, m, square);
        b += term(x + (i + 1) * step, m, square);
        c += term(x + (i + 2) * step, m, square);
        d += term(x + (i + 3) * step, m, square);
    }
    for (; i < pixels; i++)
        a += term(x + i * step, m, square);
    return (a + b) + (c + d);
}

/* sum[c] += x[c], or (x[c] - mean[c])^2, of `pixels` pixels, at most BLOCK. */
CPU_CLONES static void add_pixels(const float *x, int64_t step, int64_t pixels,
                                  const float *mean, bool square, double *sum,
                                  int64_t channels)
{
    int64_t c = 0;

    for (; c + LANES <= channels; c += LANES) {
        vector m = {0}, part;

        if (square) {
            memcpy(&m, mean + c, sizeof m);
            part = terms(x + c, step, pixels, m, true);
        } else {
            part = terms(x + c, step, pixels, m, false);
        }
        for (int i = 0; i < LANES; i++)
            sum[c + i] += (double)part[i];
    }
    for (; c < channels; c++) {
        const float m = square ? mean[c] : 0.0f;
        float part = 0.0f;

        for (int64_t i = 0; i < pixels; i++) {
            const float v = x[i * step + c] - m;

            part += square ? v * v : v;
        }
        sum[c] += (double)part;
    }
}

/* y[c] = (x[c] - mean[c]) factor[c] + shift[c], likewise. */
CPU_CLONES static void scale_pixels(const float *x, int64_t x_step,
                                    int64_t pixels, const float *mean,
                                    const float *factor, const float *shift,
                                    float *y, int64_t y_step, int64_t channels)
{
    int64_t c = 0;

    for (; c + LANES <= channels; c += LANES) {
        vector v, m, f, s;

        memcpy(&m, mean + c, sizeof m);
        memcpy(&f, factor + c, sizeof f);
        memcpy(&s, shift + c, sizeof s);
        for (int64_t i = 0; i < pixels; i++) {
            memcpy(&v, x + i * x_step + c, sizeof v);
            v = (v - m) * f + s;
            memcpy(y + i * y_step + c, &v, sizeof v);
        }
    }
    for (; c < channels; c++)
        for (int64_t i = 0; i < pixels; i++)
            y[i * y_step + c] =
                (x[i * x_step + c] - mean[c]) * factor[c] + shift[c];
}

/* One image: how its pixels lie, and its part of the workspace.  Pixels without
 * gaps are taken several at once, as one of `copies` times the channels, so
 * that these fill vectors. */
struct image {
    const float *x;
    float *y;
    int64_t pixels, x_step, y_step, channels, group, copies;
    double *sum;
    float *mean, *factor, *shift; /* one per channel */
};

/* Replaces each channel's sum by its group's mean over all elements. */
static void group_means(const struct image *im, double *sum)
{
    const int64_t channels = im->channels / im->copies;
    const double count = (double)(im->group * im->copies * im->pixels);

    for (int64_t c = 0; c < channels; c += im->group) {
        double total = 0.0;

        for (int64_t k = c; k < im->channels; k += channels)
            for (int64_t i = 0; i < im->group; i++)
                total += sum[k + i];
        for (int64_t k = c; k < im->channels; k += channels)
            for (int64_t i = 0; i < im->group; i++)
                sum[k + i] = total / count;
    }
}

/* Pixels of the block that begins at pixel i. */
static int64_t block_at(const struct image *im, int64_t i)
{
    return im->pixels - i < BLOCK ? im->pixels - i : BLOCK;
}

static void fold(const struct image *im, bool square)
{
    memset(im->sum, 0, (size_t)im->channels * sizeof *im->sum);
    for (int64_t i = 0; i < im->pixels; i += BLOCK)
        add_pixels(im->x + i * im->x_step, im->x_step, block_at(im, i),
                   im->mean, square, im->sum, im->channels);
    group_means(im, im->sum);
}

static void norm_image(const struct image *im, const struct kern_norm *norm,
                       const float *scale, const float *shift)
{
    const int64_t channels = im->channels / im->copies;
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

        im->factor[c] =
            (float)(inverse * (scale ? (double)scale[c % channels] : 1.0));
        im->shift[c] = shift ? shift[c % channels] : 0.0f;
    }
    for (i = 0; i < im->pixels; i += BLOCK)
        scale_pixels(im->x + i * im->x_step, im->x_step, block_at(im, i),
                     im->mean, im->factor, im->shift, im->y + i * im->y_step,
                     im->y_step, im->channels);
}

static int64_t pixels_of(const struct kern_tensor *t)
{
    int64_t pixels = 1;

    for (int i = 2; i < t->rank; i++)
        pixels *= t->dim[i];
    return pixels;
}

/* How many pixels are taken as one: the fewest whose channels fill vectors. */
static int64_t copies_of(const struct kern_problem *p)
{
    const struct kern_tensor *x = &p->in[X], *y = &p->out[0];
    const int64_t channels = x->dim[1];
    int64_t n = 1;

    while (n < LANES && channels * n % LANES != 0)
        n *= 2;
    return x->stride[x->rank - 1] == channels &&
                   y->stride[y->rank - 1] == channels && pixels_of(x) % n == 0
               ? n
               : 1;
}

/* A double and four floats a channel (one to spare, for alignment), for each
 * thread. */
static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    const size_t channels = (size_t)e->problem.in[X].dim[1];
    const size_t copies = (size_t)copies_of(&e->problem);

    if (!checked_mul(channels, 24 * copies * (size_t)d->threads, &e->workspace))
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
    const int64_t copies = copies_of(p);
    int i;

    (void)err;
    if (elements == 0)
        return 0;
#pragma omp parallel for num_threads(count) schedule(static, 1) if (count > 1)
    for (i = 0; i < count; i++) {
        const int64_t channels = x->dim[1] * copies;
        struct image im = {.pixels = pixels_of(x) / copies,
                           .x_step = x->stride[x->rank - 1] * copies,
                           .y_step = y->stride[y->rank - 1] * copies,
                           .channels = channels,
                           .group = x->dim[1] / p->attr.norm.groups,
                           .copies = copies};
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
