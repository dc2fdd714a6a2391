/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of a resize, from ONNX's definitions. */
#include "kernels/resize.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"

/* Below this the antialias filter spans more than 2^20 inputs. */
#define MIN_SCALE 0x1p-18

/* The filter and the extents of one dimension. */
struct line {
    const struct kern_resize *attr;
    int64_t in, out;
    double scale;   /* output / input */
    double squeeze; /* < 1: the filter is widened to 1 / squeeze inputs */
    int64_t first;  /* taps stand at floor(x) + first .. */
};

/* Scales are stored in single precision; one that is the rounded quotient of
 * the extents means that quotient. */
static double exact_scale(float scale, int64_t in, int64_t out)
{
    const double quotient = (double)out / (double)in;

    return (float)quotient == scale ? quotient : (double)scale;
}

/* Position in the input of output o. */
static double coordinate(const struct line *l, int64_t o)
{
    const double x = (double)o, length = l->scale * (double)l->in;
    const double half = (x + 0.5) / l->scale - 0.5;
    double centre;

    switch (l->attr->coord) {
    case KERN_HALF_PIXEL:
        return half;
    case KERN_PYTORCH_HALF_PIXEL:
        return length > 1 ? half : 0;
    case KERN_ALIGN_CORNERS:
        /* A length between 1 and 2 has one output, at 0. */
        return l->out > 1 ? x * (double)(l->in - 1) / (length - 1) : 0;
    case KERN_ASYMMETRIC:
        return x / l->scale;
    case KERN_HALF_PIXEL_SYMMETRIC:
        centre = (double)l->in / 2;
        return centre * (1 - (double)l->out / length) + half;
    }
    return x;
}

static double nearest(enum kern_nearest_mode mode, double x)
{
    switch (mode) {
    case KERN_ROUND_PREFER_FLOOR:
        return ceil(x - 0.5);
    case KERN_ROUND_PREFER_CEIL:
        return floor(x + 0.5);
    case KERN_FLOOR_NEAREST:
        return floor(x);
    case KERN_CEIL_NEAREST:
        return ceil(x);
    }
    return x;
}

/* The triangle, or Keys' cubic with parameter a, at distance t. */
static double filter(const struct kern_resize *attr, double t)
{
    const double a = (double)attr->cubic_a;

    t = fabs(t);
    if (attr->mode == KERN_BILINEAR)
        return t < 1 ? 1 - t : 0;
    if (t <= 1)
        return ((a + 2) * t - (a + 3)) * t * t + 1;
    return t < 2 ? ((a * t - 5 * a) * t + 8 * a) * t - 4 * a : 0;
}

static int64_t clamp(int64_t i, int64_t n)
{
    return i < 0 ? 0 : i >= n ? n - 1 : i;
}

static void fill_nearest(const struct line *l, struct resize_table *t,
                         int64_t stride)
{
    for (int64_t o = 0; o < l->out; o++) {
        const double x = nearest(l->attr->nearest, coordinate(l, o));
        t->index[o] = clamp((int64_t)x, l->in) * stride;
        t->weight[o] = 1;
    }
}

/* Weights of one output, renormalised where they need not sum to 1. */
static void fill_taps(const struct line *l, struct resize_table *t, int64_t o,
                      int64_t stride)
{
    const double x = coordinate(l, o), base = floor(x);
    double *weight = t->weight + o * t->taps, sum = 0;

    for (int64_t i = 0; i < t->taps; i++) {
        const int64_t at = (int64_t)base + l->first + i;
        const bool outside = at < 0 || at >= l->in;
        weight[i] =
            l->attr->exclude_outside && outside
                ? 0
                : filter(l->attr,
                         ((double)(l->first + i) - (x - base)) * l->squeeze);
        t->index[o * t->taps + i] = clamp(at, l->in) * stride;
        sum += weight[i];
    }
    if ((l->attr->antialias || l->attr->exclude_outside) && sum != 0)
        for (int64_t i = 0; i < t->taps; i++)
            weight[i] /= sum;
}

/* Sets up the filter of dimension d and returns its number of taps. */
static int64_t start_line(const struct kern_problem *p, int d, struct line *l)
{
    const struct kern_resize *a = &p->attr.resize;
    const double reach = a->mode == KERN_BILINEAR ? 1 : 2;

    l->attr = a;
    l->in = p->in[0].dim[d];
    l->out = p->out[0].dim[d];
    l->scale = exact_scale(a->scale[d], l->in, l->out);
    l->squeeze = a->antialias && l->scale < 1 ? l->scale : 1;
    l->first = (int64_t)floor(-reach / l->squeeze) + 1;
    if (a->scale[d] == 1.0f || a->mode == KERN_NEAREST)
        return 1;
    return 2 - 2 * l->first;
}

int resize_table_make(const struct kern_problem *p, int d,
                      struct infer_error *err, struct resize_table *t)
{
    const int64_t stride = p->in[0].stride[d];
    struct line l;
    size_t n;

    t->taps = start_line(p, d, &l);
    if (!checked_mul((size_t)t->taps, (size_t)l.out, &n) || n > SIZE_MAX / 8)
        return error_set(err, INFER_EMEMORY, "resize: table too large");
    t->index = malloc(n * sizeof(*t->index) + 1);
    t->weight = malloc(n * sizeof(*t->weight) + 1);
    if (!t->index || !t->weight)
        return error_set(err, INFER_EMEMORY, "resize: out of memory");
    if (p->attr.resize.scale[d] == 1.0f)
        for (int64_t o = 0; o < l.out; o++) {
            t->index[o] = o * stride;
            t->weight[o] = 1;
        }
    else if (p->attr.resize.mode == KERN_NEAREST)
        fill_nearest(&l, t, stride);
    else
        for (int64_t o = 0; o < l.out; o++)
            fill_taps(&l, t, o, stride);
    return 0;
}

void resize_table_free(struct resize_table *t)
{
    free(t->index);
    free(t->weight);
    t->index = NULL;
    t->weight = NULL;
}

int resize_check(const struct kern_problem *p, struct infer_error *why)
{
    const struct kern_resize *a = &p->attr.resize;

    for (int i = 0; i < p->in[0].rank; i++)
        if (a->antialias && (double)a->scale[i] < MIN_SCALE)
            return error_set(why, INFER_EUNSUPPORTED,
                             "resize: scale %g is below %g",
                             (double)a->scale[i], MIN_SCALE);
    return 0;
}
