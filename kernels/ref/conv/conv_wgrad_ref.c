/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient of a convolution's weights, 1 to 3 dimensions: each weight is the
 * sum of the products of what it joined. */
#include "kernels/ref/conv/accumulated.h"
#include "kernels/ref/conv/product.h"
#include "kernels/ref/window.h"

struct wgrad {
    const struct kern_problem *p;
    const struct kern_args *args;
    struct ref_window w;
    struct ref_table table;
    float point; /* of the weight, where table.slope is there */
};

/* A row's sum by the derivatives; x and y are the offsets of its first
 * elements, sx and sy the steps. */
static double sum_slopes(const struct wgrad *v, int64_t x, int64_t sx,
                         int64_t y, int64_t sy, int64_t n)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += ref_slope(
            &v->table, ref_load(v->p->in[0].dtype, v->args->in[0], x + i * sx),
            ref_load(v->p->in[1].dtype, v->args->in[1], y + i * sy), v->point);
    return sum;
}

/* Products along one row of dy; x and y are the offsets of the rows. */
static double sum_row(const struct wgrad *v, int64_t r, int64_t x, int64_t y)
{
    const struct ref_window *w = &v->w;
    const struct kern_tensor *in = &v->p->in[0], *dy = &v->p->in[1];
    int64_t lo, hi;

    ref_window_range(w, 2, r, w->in[2], w->out[2], &lo, &hi);
    if (lo >= hi)
        return 0;
    x += ref_window_tap(w, 2, lo, r) * w->x_stride[2];
    y += lo * w->y_stride[2];
    if (v->table.slope)
        return sum_slopes(v, x, w->step[2] * w->x_stride[2], y, w->y_stride[2],
                          hi - lo);
    return ref_dot_products(
        &v->table, in->dtype,
        (const char *)v->args->in[0] + x * (int64_t)infer_dtype_size(in->dtype),
        w->step[2] * w->x_stride[2], dy->dtype,
        (const char *)v->args->in[1] + y * (int64_t)infer_dtype_size(dy->dtype),
        w->y_stride[2], hi - lo);
}

/* Over one image; x and y are the offsets of the channels. */
static double sum_image(const struct wgrad *v, const int64_t *tap, int64_t x,
                        int64_t y)
{
    const struct ref_window *w = &v->w;
    double sum = 0;

    for (int64_t od = 0; od < w->out[0]; od++) {
        const int64_t d = ref_window_tap(w, 0, od, tap[0]);
        if (!ref_window_in_input(w, 0, d))
            continue;
        for (int64_t oh = 0; oh < w->out[1]; oh++) {
            const int64_t h = ref_window_tap(w, 1, oh, tap[1]);
            if (ref_window_in_input(w, 1, h))
                sum += sum_row(v, tap[2],
                               x + d * w->x_stride[0] + h * w->x_stride[1],
                               y + od * w->y_stride[0] + oh * w->y_stride[1]);
        }
    }
    return sum;
}

/* The weight of the given index: k, c, window. */
static double sum_weight(const struct wgrad *v, const int64_t *index)
{
    const struct kern_tensor *x = &v->p->in[0], *dy = &v->p->in[1];
    const struct kern_tensor *dw = &v->p->out[0];
    const int64_t k = index[0];
    const int64_t per_group = dw->dim[0] / v->p->attr.conv.groups;
    const int64_t c = k / per_group * dw->dim[1] + index[1];
    int64_t tap[3] = {0, 0, 0};
    double sum = 0;

    for (int i = 2; i < dw->rank; i++)
        tap[3 - dw->rank + i] = index[i];
    for (int64_t n = 0; n < x->dim[0]; n++)
        sum += sum_image(v, tap, n * x->stride[0] + c * x->stride[1],
                         n * dy->stride[0] + k * dy->stride[1]);
    return sum;
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *dw = &p->out[0];
    const struct kern_tensor *residual = kern_problem_in(p, 2);
    const bool slopes = product_slope_of(p) != NULL;
    struct kern_problem fprop = *p;
    struct wgrad v = {.p = p, .args = args, .table = ref_table_of(p, args)};
    struct ref_walk walk;

    (void)err;
    if (accumulator_of(p)) {
        ref_accumulated_run(p, args);
        return 0;
    }
    fprop.op = KERN_CONV_FPROP;
    fprop.n_in = 2;
    fprop.in[1] = p->out[0];
    fprop.out[0] = p->in[1];
    ref_window_conv(&v.w, &fprop);
    ref_walk_start(&walk, dw->rank, dw->dim);
    ref_walk_add(&walk, dw);
    if (residual)
        ref_walk_add(&walk, residual);
    if (slopes)
        ref_walk_add(&walk, &p->in[product_point_in(p)]);
    for (; !walk.done; ref_walk_next(&walk)) {
        if (slopes)
            v.point = ref_point(p, args, walk.offset[residual ? 2 : 1]);
        ref_store(dw->dtype, args->out[0], walk.offset[0],
                  sum_weight(&v, walk.index) +
                      ref_optional(residual, args->in[2], walk.offset[1], 0));
    }
    return 0;
}

KERN_FUNCTIONS(conv_wgrad_ref) = {
    .supports = ref_supports_double,
    .launch = launch,
};
