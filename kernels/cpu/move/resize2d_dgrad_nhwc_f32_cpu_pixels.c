/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradient of resizing height and width, channels last, in all of ONNX's modes:
 * each pixel of dy is added, times the product of two weights, to the pixels
 * that it was made of.  An item of work is one image.
 */
#include "config.h"

#include "kernels/cpu/cpu.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/problem.h"
#include "kernels/resize.h"

enum { DY, RESIDUAL };

struct state {
    struct cpu_state base; /* first: cpu_threads_of() reads it */
    struct resize_table table[2];
};

/* The forward problem, which the tables belong to. */
static struct kern_problem forward_of(const struct kern_problem *p)
{
    struct kern_problem f = *p;

    f.in[0] = p->out[0];
    f.out[0] = p->in[DY];
    return f;
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    const struct kern_problem f = forward_of(p);
    const float *scale = p->attr.resize.scale;

    (void)d;
    if (p->in[DY].rank != 4 || !cpu_is_dense(&p->in[DY], KERN_NHWC) ||
        !cpu_is_dense(&p->out[0], KERN_NHWC) ||
        !cpu_is_dense(kern_problem_in(p, RESIDUAL), KERN_NHWC))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes dense channels-last F32 tensors of rank 4");
    if (scale[0] != 1.0f || scale[1] != 1.0f)
        return error_set(why, INFER_EUNSUPPORTED,
                         "resizes height and width only");
    if (kern_tensor_count(&p->in[DY]) == 0 ||
        kern_tensor_count(&p->out[0]) == 0)
        return error_set(why, INFER_EUNSUPPORTED, "takes no empty tensors");
    return resize_check(&f, why);
}

static void release(struct kern_exec *e)
{
    struct state *s = e->state;

    if (!s)
        return;
    for (int i = 0; i < 2; i++)
        resize_table_free(&s->table[i]);
    free(s);
    e->state = NULL;
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    const struct kern_problem f = forward_of(&e->problem);
    struct state *s = calloc(1, sizeof *s);

    if (!s)
        return error_set(err, INFER_EMEMORY, "%s: out of memory", e->row->name);
    s->base.threads = d->threads;
    e->state = s;
    for (int i = 0; i < 2; i++) {
        const int r = resize_table_make(&f, 2 + i, err, &s->table[i]);

        if (r < 0) {
            release(e);
            return r;
        }
    }
    return 0;
}

CPU_CLONES static void add(const float *dy, float factor, float *dx, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dx[i] += factor * dy[i];
}

/* One row of dy to the row of dx at `to`, times a weight. */
static void give_row(const struct resize_table *t, const float *dy,
                     int64_t width, int64_t channels, double weight, float *to)
{
    for (int64_t w = 0; w < width; w++)
        for (int64_t i = w * t->taps; i < (w + 1) * t->taps; i++)
            if (t->weight[i] != 0)
                add(dy + w * channels, (float)(weight * t->weight[i]),
                    to + t->index[i], channels);
}

struct context {
    const struct kern_exec *e;
    const struct kern_args *args;
};

static void image(void *context, int64_t n)
{
    const struct context *c = context;
    const struct kern_problem *p = &c->e->problem;
    const struct state *s = c->e->state;
    const struct resize_table *rows = &s->table[0];
    const int64_t channels = p->in[DY].dim[1], height = p->in[DY].dim[2];
    const int64_t width = p->in[DY].dim[3];
    const int64_t each = channels * p->out[0].dim[2] * p->out[0].dim[3];
    const float *dy =
        (const float *)c->args->in[DY] + n * channels * height * width;
    const float *residual = c->args->in[RESIDUAL];
    float *dx = (float *)c->args->out[0] + n * each;

    if (!kern_problem_in(p, RESIDUAL))
        memset(dx, 0, (size_t)each * sizeof *dx);
    else if (residual + n * each != dx)
        memcpy(dx, residual + n * each, (size_t)each * sizeof *dx);
    for (int64_t h = 0; h < height; h++)
        for (int64_t i = h * rows->taps; i < (h + 1) * rows->taps; i++)
            if (rows->weight[i] != 0)
                give_row(&s->table[1], dy + h * width * channels, width,
                         channels, rows->weight[i], dx + rows->index[i]);
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    struct context c = {e, args};

    (void)err;
    kern_cpu_each(
        cpu_threads(cpu_threads_of(e), kern_tensor_count(&e->problem.in[DY])),
        e->problem.in[DY].dim[0], image, &c);
    return 0;
}

KERN_FUNCTIONS(resize2d_dgrad_nhwc_f32_cpu_pixels) = {
    .supports = supports,
    .prepare = prepare,
    .launch = launch,
    .release = release,
};
