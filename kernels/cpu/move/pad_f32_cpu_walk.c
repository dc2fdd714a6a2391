/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Padding and cropping of 4-byte elements, any strides.
 *
 * Constant padding fills the result, then copies the part of the input that
 * remains into it.  The other modes look up, for each index along a padded
 * dimension, the index of the input; rows along the innermost dimension of the
 * result are copied whole where that one is not padded.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/cpu/cpu.h"

struct state {
    struct cpu_state cpu;
    int inner; /* dimension with the smallest stride of the result */
    /* Offset in the input of each index along a dimension. */
    int64_t *offset[KERN_MAX_RANK];
    int64_t all[]; /* their memory */
};

/* Extent of what cropping leaves. */
static int64_t remaining(const struct kern_problem *p, int d)
{
    const struct kern_pad *a = &p->attr.pad;

    return p->in[0].dim[d] + (a->begin[d] < 0 ? a->begin[d] : 0) +
           (a->end[d] < 0 ? a->end[d] : 0);
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    (void)d;
    if (!cpu_is_f32(&p->in[0]) || !cpu_is_f32(&p->out[0]))
        return error_set(why, INFER_EUNSUPPORTED, "takes F32");
    for (int i = 0; i < p->in[0].rank; i++)
        if (p->attr.pad.mode != KERN_PAD_CONSTANT && remaining(p, i) < 1)
            return error_set(why, INFER_EUNSUPPORTED,
                             "repeats no empty dimensions");
    return 0;
}

/* ---- preparation --------------------------------------------------- */

static int64_t modulo(int64_t i, int64_t n)
{
    return (i % n + n) % n;
}

/* The index of n that stands at position i, which may lie outside. */
static int64_t source(enum kern_pad_mode mode, int64_t i, int64_t n)
{
    const int64_t turn = n > 1 ? modulo(i, 2 * (n - 1)) : 0;

    switch (mode) {
    case KERN_PAD_WRAP:
        return modulo(i, n);
    case KERN_PAD_REFLECT:
        return turn < n ? turn : 2 * (n - 1) - turn;
    case KERN_PAD_EDGE:
    case KERN_PAD_CONSTANT:
        break;
    }
    return i < 0 ? 0 : i < n ? i : n - 1;
}

static void fill_offsets(const struct kern_problem *p, struct state *s)
{
    const struct kern_pad *a = &p->attr.pad;
    const struct kern_tensor *y = &p->out[0];
    int64_t *next = s->all;

    for (int d = 0; d < y->rank; d++) {
        const int64_t low = a->begin[d] < 0 ? -(int64_t)a->begin[d] : 0;
        const int64_t before = a->begin[d] > 0 ? a->begin[d] : 0;

        if (y->dim[d] > 1 &&
            (y->dim[s->inner] == 1 || y->stride[d] < y->stride[s->inner]))
            s->inner = d;
        s->offset[d] = next;
        for (int64_t i = 0; i < y->dim[d]; i++)
            *next++ = (low + source(a->mode, i - before, remaining(p, d))) *
                      p->in[0].stride[d];
    }
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const bool constant = p->attr.pad.mode == KERN_PAD_CONSTANT;
    size_t n = 0;
    struct state *s;

    for (int i = 0; i < p->out[0].rank && !constant; i++)
        n += (size_t)p->out[0].dim[i];
    s = calloc(1, sizeof *s + n * sizeof s->all[0]);
    if (!s)
        return error_set(err, INFER_EMEMORY, "%s: out of memory", e->row->name);
    s->cpu.threads = d->threads;
    if (!constant && kern_tensor_count(&p->out[0]) > 0)
        fill_offsets(p, s);
    e->state = s;
    return 0;
}

/* ---- other modes --------------------------------------------------- */

/* Rows [from, to) of the result along its innermost dimension. */
static void repeat_rows(const struct state *s, const struct kern_problem *p,
                        const float *x, float *y, int64_t from, int64_t to)
{
    const struct kern_tensor *t = &p->out[0];
    const struct kern_pad *a = &p->attr.pad;
    const int inner = s->inner;
    const bool whole = a->begin[inner] <= 0 && a->end[inner] <= 0 &&
                       t->stride[inner] == 1 && p->in[0].stride[inner] == 1;

    for (int64_t row = from; row < to; row++) {
        int64_t rest = row, at_x = 0, at_y = 0;

        for (int d = t->rank - 1; d >= 0; d--) {
            if (d == inner)
                continue;
            at_x += s->offset[d][rest % t->dim[d]];
            at_y += rest % t->dim[d] * t->stride[d];
            rest /= t->dim[d];
        }
        if (whole)
            memcpy(y + at_y, x + at_x + s->offset[inner][0],
                   (size_t)t->dim[inner] * sizeof *y);
        for (int64_t i = 0; i < t->dim[inner] && !whole; i++)
            y[at_y + i * t->stride[inner]] = x[at_x + s->offset[inner][i]];
    }
}

static void repeat(const struct state *s, const struct kern_problem *p,
                   const float *x, float *y)
{
    const int64_t all = kern_tensor_count(&p->out[0]);
    const int64_t rows = all / p->out[0].dim[s->inner];
    const int count = cpu_threads(s->cpu.threads, all);

#pragma omp parallel for num_threads(count) schedule(static, 1) if (count > 1)
    for (int i = 0; i < count; i++) {
        int64_t from, to;

        cpu_share(rows, i, count, &from, &to);
        repeat_rows(s, p, x, y, from, to);
    }
}

/* ---- constant ------------------------------------------------------ */

static void fill_rows(const void *context, int64_t rows, int64_t n,
                      float *const *at, const int64_t *row_stride,
                      const int64_t *stride)
{
    const float value = *(const float *)context;
    int64_t r, i;

    for (r = 0; r < rows; r++)
        for (i = 0; i < n; i++)
            at[0][r * row_stride[0] + i * stride[0]] = value;
}

static void copy_rows(const void *context, int64_t rows, int64_t n,
                      float *const *at, const int64_t *row_stride,
                      const int64_t *stride)
{
    int64_t r, i;

    (void)context;
    for (r = 0; r < rows; r++)
        for (i = 0; i < n; i++)
            at[0][r * row_stride[0] + i * stride[0]] =
                at[1][r * row_stride[1] + i * stride[1]];
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_pad *a = &p->attr.pad;
    struct kern_tensor x = p->in[0], y = p->out[0];
    const struct kern_tensor *t[] = {&y, &x};
    int64_t x_first = 0, y_first = 0;
    void *base[2] = {args->out[0], NULL};
    struct cpu_walk w;
    int i;

    (void)err;
    if (kern_tensor_count(&y) == 0)
        return 0;
    if (a->mode != KERN_PAD_CONSTANT) {
        repeat(e->state, p, args->in[0], args->out[0]);
        return 0;
    }
    cpu_walk_init(&w, 1, t);
    cpu_walk_run(&w, cpu_threads_of(e), base, fill_rows, &a->value);
    /* What remains: negative amounts drop elements at either end. */
    for (i = 0; i < x.rank; i++) {
        const int64_t begin = a->begin[i], end = a->end[i];

        x_first += begin < 0 ? -begin * x.stride[i] : 0;
        y_first += begin > 0 ? begin * y.stride[i] : 0;
        x.dim[i] += (begin < 0 ? begin : 0) + (end < 0 ? end : 0);
        if (x.dim[i] < 1)
            return 0;
        y.dim[i] = x.dim[i];
    }
    base[0] = (float *)args->out[0] + y_first;
    base[1] = (float *)args->in[0] + x_first;
    cpu_walk_init(&w, 2, t);
    cpu_walk_run(&w, cpu_threads_of(e), base, copy_rows, NULL);
    return 0;
}

KERN_FUNCTIONS(pad_f32_cpu_walk) = {
    .supports = supports,
    .prepare = prepare,
    .launch = launch,
    .release = cpu_release,
};
