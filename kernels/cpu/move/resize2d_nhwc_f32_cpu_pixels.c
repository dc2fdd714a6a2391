/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nearest and bilinear resizing of height and width, channels last, in all of
 * ONNX's coordinate modes, without antialiasing.
 *
 * prepare() tabulates for each output row and column the two input rows or
 * columns that it lies between and the share of the second (0 for nearest).  A
 * launch then handles output rows in parallel, pixel by pixel over channels.
 */
#include "config.h"

#include "kernels/cpu/cpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"

/* The two inputs of an output row or column: offsets in elements, and the share
 * of the second. */
struct tap {
    int64_t first, second;
    float share;
};

struct state {
    struct cpu_state base;
    struct tap *tap[2]; /* of rows, of columns */
};

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    const struct kern_tensor *x = &p->in[0], *y = &p->out[0];
    const struct kern_resize *a = &p->attr.resize;
    int i;

    (void)d;
    if (x->rank != 4 || !cpu_is_f32(x) || !cpu_is_f32(y) ||
        !cpu_channels_inner(x) || !cpu_channels_inner(y) ||
        x->dim[0] != y->dim[0] || x->dim[1] != y->dim[1] ||
        a->scale[0] != 1.0f || a->scale[1] != 1.0f)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes height and width of channels-last F32 images");
    if (a->mode == KERN_BICUBIC ||
        (a->mode == KERN_BILINEAR && (a->antialias || a->exclude_outside)))
        return error_set(why, INFER_EUNSUPPORTED,
                         "does nearest and plain bilinear");
    for (i = 2; i < 4; i++)
        if (x->dim[i] < 1 || y->dim[i] < 1 || !(a->scale[i] > 0.0f))
            return error_set(why, INFER_EUNSUPPORTED, "takes no empty images");
    return 0;
}

/* ---- tables -------------------------------------------------------- */

/* Position in the input of output o.  Scales are stored in single precision;
 * one that is the rounded quotient of the extents means that quotient. */
static double coordinate(const struct kern_resize *a, float stored, int64_t in,
                         int64_t out, int64_t o)
{
    const double quotient = (double)out / (double)in;
    const double scale = (float)quotient == stored ? quotient : (double)stored;
    const double length = scale * (double)in, x = (double)o;
    const double half = (x + 0.5) / scale - 0.5, centre = (double)in / 2;

    switch (a->coord) {
    case KERN_PYTORCH_HALF_PIXEL:
        return length > 1 ? half : 0;
    case KERN_ALIGN_CORNERS:
        return out > 1 ? x * (double)(in - 1) / (length - 1) : 0;
    case KERN_ASYMMETRIC:
        return x / scale;
    case KERN_HALF_PIXEL_SYMMETRIC:
        return centre * (1 - (double)out / length) + half;
    case KERN_HALF_PIXEL:
        break;
    }
    return half;
}

static double round_to(enum kern_nearest_mode mode, double x)
{
    switch (mode) {
    case KERN_ROUND_PREFER_FLOOR:
        return ceil(x - 0.5);
    case KERN_ROUND_PREFER_CEIL:
        return floor(x + 0.5);
    case KERN_CEIL_NEAREST:
        return ceil(x);
    case KERN_FLOOR_NEAREST:
        break;
    }
    return floor(x);
}

static int64_t clamped(double x, int64_t n)
{
    if (!(x > 0.0))
        return 0;
    return x >= (double)n ? n - 1 : (int64_t)x;
}

static void fill_taps(const struct kern_problem *p, int d, struct tap *tap)
{
    const struct kern_resize *a = &p->attr.resize;
    const int64_t in = p->in[0].dim[d], out = p->out[0].dim[d];
    const int64_t stride = p->in[0].stride[d];
    int64_t o;

    for (o = 0; o < out; o++) {
        double x = a->scale[d] == 1.0f ? (double)o
                                       : coordinate(a, a->scale[d], in, out, o);
        const bool linear = a->mode == KERN_BILINEAR && a->scale[d] != 1.0f;

        if (a->mode == KERN_NEAREST && a->scale[d] != 1.0f)
            x = round_to(a->nearest, x);
        tap[o].first = clamped(floor(x), in) * stride;
        tap[o].second = clamped(floor(x) + 1, in) * stride;
        tap[o].share = linear ? (float)(x - floor(x)) : 0.0f;
    }
}

static void release(struct kern_exec *e)
{
    struct state *s = e->state;

    if (!s)
        return;
    free(s->tap[0]);
    free(s->tap[1]);
    free(s);
    e->state = NULL;
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    struct state *s = calloc(1, sizeof *s);
    int i;

    if (!s)
        return error_set(err, INFER_EMEMORY, "%s: out of memory", e->row->name);
    s->base.threads = d->threads;
    e->state = s;
    for (i = 0; i < 2; i++) {
        s->tap[i] =
            calloc((size_t)e->problem.out[0].dim[2 + i], sizeof *s->tap[i]);
        if (!s->tap[i]) {
            release(e);
            return error_set(err, INFER_EMEMORY, "%s: out of memory",
                             e->row->name);
        }
        fill_taps(&e->problem, 2 + i, s->tap[i]);
    }
    return 0;
}

/* ---- pixels -------------------------------------------------------- */

/* y = the four neighbours, weighted: v down the rows, h along the columns. */
CPU_INLINE void blend(const float *a, const float *b, const float *c,
                      const float *d, float v, float h, float *y, int64_t n)
{
    int64_t i;

#pragma omp simd
    for (i = 0; i < n; i++) {
        const float top = a[i] + (b[i] - a[i]) * h;
        const float bottom = c[i] + (d[i] - c[i]) * h;

        y[i] = top + (bottom - top) * v;
    }
}

CPU_CLONES static void blend_row(const float *x, const struct tap *row,
                                 const struct tap *columns, int64_t width,
                                 float *y, int64_t y_step, int64_t channels)
{
    const float *top = x + row->first, *bottom = x + row->second;
    int64_t i;

    for (i = 0; i < width; i++) {
        const struct tap *t = &columns[i];

        blend(top + t->first, top + t->second, bottom + t->first,
              bottom + t->second, row->share, t->share, y + i * y_step,
              channels);
    }
}

static void move_row(const float *x, const struct tap *row,
                     const struct tap *columns, int64_t width, float *y,
                     int64_t y_step, int64_t channels)
{
    int64_t i;

    for (i = 0; i < width; i++)
        memcpy(y + i * y_step, x + row->first + columns[i].first,
               (size_t)channels * sizeof *y);
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct state *s = e->state;
    const struct kern_tensor *x = &e->problem.in[0], *y = &e->problem.out[0];
    const bool moves = e->problem.attr.resize.mode == KERN_NEAREST;
    const int64_t height = y->dim[2], rows = y->dim[0] * height;
    const int count = cpu_threads(s->base.threads, kern_tensor_count(y));
    int64_t r;

    (void)err;
    (void)count; /* of use with OpenMP only */
#pragma omp parallel for num_threads(count) schedule(static) if (count > 1)
    for (r = 0; r < rows; r++) {
        const float *from =
            (const float *)args->in[0] + r / height * x->stride[0];
        float *to = (float *)args->out[0] + r / height * y->stride[0] +
                    r % height * y->stride[2];

        (moves ? move_row : blend_row)(from, &s->tap[0][r % height], s->tap[1],
                                       y->dim[3], to, y->stride[3], y->dim[1]);
    }
    return 0;
}

KERN_FUNCTIONS(resize2d_nhwc_f32_cpu_pixels) = {
    .supports = supports,
    .prepare = prepare,
    .launch = launch,
    .release = release,
};
