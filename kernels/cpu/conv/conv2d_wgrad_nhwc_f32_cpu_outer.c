/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradient of a 2-D convolution's weights as a sum of outer products.
 *
 * A task is one tap of the window for up to 8 channels of one side and 64 of
 * the other, whose sums stay in the first-level cache: 8 times 256 bytes.  The
 * side with more channels in a group is the vector; four pixels of a row are
 * added at once, so that each sum is loaded and stored once for four products.
 * Each image has sums of its own, which keeps long sums accurate.  The tasks do
 * not depend on the number of threads, so neither do the bits.
 */
#include "config.h"

#include <string.h>

#include "kernels/cpu/cpu.h"

#include "kernels/base/error.h"
#include "kernels/problem.h"

#define SCALARS 8
#define VECTOR  64

/* in[] of a weight gradient */
enum { X, DY, RESIDUAL };

struct side {
    const float *at;
    int64_t channels;   /* of all groups: the distance of pixels */
    int64_t group;      /* of one */
    int64_t per, count; /* channels of a block, blocks of a group */
};

struct wgrad {
    const struct kern_problem *p;
    const struct kern_args *args;
    struct side x, dy;
    bool x_is_vector;
};

struct block {
    int64_t group, r, s; /* r, s: the tap */
    int64_t first[2];    /* channel in the group: of x, of dy */
    int64_t width[2];
};

/* sum[i][j] += scalar[i] * vector[j] over n pixels. */
CPU_CLONES static void add_pixels(float (*sum)[VECTOR], const float *scalar,
                                  int64_t scalar_step, int64_t scalars,
                                  const float *vector, int64_t vector_step,
                                  int64_t width, int64_t n)
{
    int64_t q = 0, i, j;

    for (; q + 4 <= n; q += 4) {
        const float *s = scalar + q * scalar_step;
        const float *v0 = vector + q * vector_step;
        const float *v1 = v0 + vector_step, *v2 = v1 + vector_step;
        const float *v3 = v2 + vector_step;

        for (i = 0; i < scalars; i++) {
            const float a = s[i], b = s[scalar_step + i];
            const float c = s[2 * scalar_step + i], d = s[3 * scalar_step + i];
            float *to = sum[i];

#pragma omp simd
            for (j = 0; j < width; j++)
                to[j] += a * v0[j] + b * v1[j] + (c * v2[j] + d * v3[j]);
        }
    }
    for (; q < n; q++)
        for (i = 0; i < scalars; i++) {
            const float a = scalar[q * scalar_step + i];
            const float *v = vector + q * vector_step;
            float *to = sum[i];

#pragma omp simd
            for (j = 0; j < width; j++)
                to[j] += a * v[j];
        }
}

/* Outputs lo .. hi-1 along dimension d whose tap t falls inside the input. */
static void range(const struct kern_problem *p, int d, int64_t t, int64_t *lo,
                  int64_t *hi)
{
    const struct kern_conv *a = &p->attr.conv;
    const int64_t base = t * a->dilation[d] - a->pad_begin[d];
    const int64_t step = a->stride[d], room = p->in[X].dim[d + 2] - base;

    *lo = base >= 0 ? 0 : (-base + step - 1) / step;
    *hi = room <= 0 ? 0 : (room - 1) / step + 1;
    if (*hi > p->in[DY].dim[d + 2])
        *hi = p->in[DY].dim[d + 2];
}

static void add_image(const struct wgrad *w, const struct block *b, int64_t n,
                      float (*sum)[VECTOR])
{
    const struct kern_problem *p = w->p;
    const struct kern_conv *a = &p->attr.conv;
    const int64_t *in = p->in[X].dim, *out = p->in[DY].dim;
    int64_t top, bottom, left, right, h;

    range(p, 0, b->r, &top, &bottom);
    range(p, 1, b->s, &left, &right);
    for (h = top; h < bottom && left < right; h++) {
        const int64_t row =
            h * a->stride[0] + b->r * a->dilation[0] - a->pad_begin[0];
        const int64_t column =
            left * a->stride[1] + b->s * a->dilation[1] - a->pad_begin[1];
        const float *x = w->x.at +
                         ((n * in[2] + row) * in[3] + column) * w->x.channels +
                         b->group * w->x.group + b->first[0];
        const float *dy = w->dy.at +
                          ((n * out[2] + h) * out[3] + left) * w->dy.channels +
                          b->group * w->dy.group + b->first[1];
        const int64_t x_step = a->stride[1] * w->x.channels;

        if (w->x_is_vector)
            add_pixels(sum, dy, w->dy.channels, b->width[1], x, x_step,
                       b->width[0], right - left);
        else
            add_pixels(sum, x, x_step, b->width[0], dy, w->dy.channels,
                       b->width[1], right - left);
    }
}

static void store(const struct wgrad *w, const struct block *b,
                  float (*sum)[VECTOR])
{
    const struct kern_tensor *dw = &w->p->out[0];
    const struct kern_tensor *residual = kern_problem_in(w->p, RESIDUAL);
    float *to = w->args->out[0];
    int64_t c, k;

    for (c = 0; c < b->width[0]; c++)
        for (k = 0; k < b->width[1]; k++) {
            const int64_t index[4] = {b->group * w->dy.group + b->first[1] + k,
                                      b->first[0] + c, b->r, b->s};
            int64_t at = 0, from = 0;
            float v = w->x_is_vector ? sum[k][c] : sum[c][k];
            int i;

            for (i = 0; i < 4; i++) {
                at += index[i] * dw->stride[i];
                from += residual ? index[i] * residual->stride[i] : 0;
            }
            if (residual)
                v += ((const float *)w->args->in[RESIDUAL])[from];
            to[at] = v;
        }
}

static void task(void *context, int64_t i)
{
    const struct wgrad *w = context;
    const int64_t *window = w->p->out[0].dim + 2;
    const struct side *side[2] = {&w->x, &w->dy};
    float total[SCALARS][VECTOR] = {{0}};
    struct block b;
    int64_t n;
    int d;

    for (d = 0; d < 2; d++) {
        b.first[d] = i % side[d]->count * side[d]->per;
        b.width[d] = side[d]->group - b.first[d] < side[d]->per
                         ? side[d]->group - b.first[d]
                         : side[d]->per;
        i /= side[d]->count;
    }
    b.s = i % window[1];
    i /= window[1];
    b.r = i % window[0];
    b.group = i / window[0];
    for (n = 0; n < w->p->in[X].dim[0]; n++) {
        float sum[SCALARS][VECTOR] = {{0}};
        int64_t j, k;

        add_image(w, &b, n, sum);
        for (j = 0; j < SCALARS; j++)
            for (k = 0; k < VECTOR; k++)
                total[j][k] += sum[j][k];
    }
    store(w, &b, total);
}

static void fill_side(struct side *s, const float *at, int64_t channels,
                      int64_t group, bool vector)
{
    s->at = at;
    s->channels = channels;
    s->group = group;
    s->per = vector ? VECTOR : SCALARS;
    s->count = (group + s->per - 1) / s->per;
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *dw = &p->out[0];
    const int64_t groups = p->attr.conv.groups;
    struct wgrad w = {.p = p, .args = args};

    (void)err;
    if (kern_tensor_count(dw) == 0)
        return 0;
    w.x_is_vector = dw->dim[1] >= dw->dim[0] / groups;
    fill_side(&w.x, args->in[X], p->in[X].dim[1], dw->dim[1], w.x_is_vector);
    fill_side(&w.dy, args->in[DY], p->in[DY].dim[1], dw->dim[0] / groups,
              !w.x_is_vector);
    kern_cpu_each(cpu_threads_of(e),
                  groups * dw->dim[2] * dw->dim[3] * w.x.count * w.dy.count,
                  task, &w);
    return 0;
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    const struct kern_tensor *residual = kern_problem_in(p, RESIDUAL);

    (void)d;
    if (p->in[X].rank == 4 && cpu_is_dense(&p->in[X], KERN_NHWC) &&
        cpu_is_dense(&p->in[DY], KERN_NHWC) && cpu_is_f32(&p->out[0]) &&
        (!residual || cpu_is_f32(residual)))
        return 0;
    return error_set(why, INFER_EUNSUPPORTED,
                     "takes 2-D channels-last F32 activations");
}

KERN_FUNCTIONS(conv2d_wgrad_nhwc_f32_cpu_outer) = {
    .supports = supports,
    .prepare = cpu_prepare,
    .launch = launch,
    .release = cpu_release,
};
