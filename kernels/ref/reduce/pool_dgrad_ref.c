/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient of pooling: the gradient of a window is added to its first maximum,
 * or in equal parts to all elements that it averaged.  Sums are kept in the
 * workspace, which has an element for each of dx, row-major. */
#include <math.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/ref/window.h"

struct pool {
    const struct kern_problem *p;
    const void *x;
    struct ref_window w; /* x_stride: of x, where there is one */
    double *sum;         /* of one n and c */
    int64_t top, inside, counted;
    double best;
};

/* Calls `visit` for the elements of a window inside the input, by their number
 * within the image; x is the offset of the image. */
static void walk_window(struct pool *v, const int64_t *o, int64_t x, double dy,
                        void (*visit)(struct pool *v, int64_t i, int64_t x,
                                      double dy))
{
    const struct ref_window *w = &v->w;

    for (int64_t kd = 0; kd < w->kernel[0]; kd++)
        for (int64_t kh = 0; kh < w->kernel[1]; kh++)
            for (int64_t kw = 0; kw < w->kernel[2]; kw++) {
                const int64_t d = ref_window_tap(w, 0, o[0], kd);
                const int64_t h = ref_window_tap(w, 1, o[1], kh);
                const int64_t c = ref_window_tap(w, 2, o[2], kw);
                if (ref_window_in_input(w, 0, d) &&
                    ref_window_in_input(w, 1, h) &&
                    ref_window_in_input(w, 2, c))
                    visit(v, (d * w->in[1] + h) * w->in[2] + c,
                          x + d * w->x_stride[0] + h * w->x_stride[1] +
                              c * w->x_stride[2],
                          dy);
            }
}

static void see(struct pool *v, int64_t i, int64_t x, double dy)
{
    (void)dy;
    v->inside++;
    if (v->p->attr.pool.kind == KERN_POOL_AVERAGE)
        return;
    const double f = ref_load(v->p->in[1].dtype, v->x, x);
    if (v->top < 0 || f > v->best || isnan(f)) {
        v->best = f;
        v->top = i;
    }
}

static void spread(struct pool *v, int64_t i, int64_t x, double dy)
{
    (void)x;
    v->sum[i] += dy;
}

/* Elements of a window along dimension d that are not in the overhang. */
static int64_t counted(const struct ref_window *w, int d, int64_t o)
{
    int64_t n = 0;

    for (int64_t r = 0; r < w->kernel[d]; r++)
        n += ref_window_in_padding(w, d, ref_window_tap(w, d, o, r));
    return n;
}

static void give(struct pool *v, const int64_t *o, int64_t x, double dy)
{
    const struct kern_pool *a = &v->p->attr.pool;

    v->top = -1;
    v->inside = 0;
    walk_window(v, o, x, 0, see);
    if (a->kind == KERN_POOL_MAX) {
        if (v->top >= 0)
            v->sum[v->top] += dy;
        return;
    }
    const int64_t n = a->count_include_pad
                          ? counted(&v->w, 0, o[0]) * counted(&v->w, 1, o[1]) *
                                counted(&v->w, 2, o[2])
                          : v->inside;
    if (v->inside > 0)
        walk_window(v, o, x, dy / (double)n, spread);
}

/* All windows of one image and channel. */
static void give_image(struct pool *v, const struct kern_args *args, int64_t n,
                       int64_t c)
{
    const struct kern_tensor *dy = &v->p->in[0];
    const struct kern_tensor *x = kern_problem_in(v->p, 1);
    const struct ref_window *w = &v->w;
    const int64_t from = x ? n * x->stride[0] + c * x->stride[1] : 0;
    int64_t o[3];

    for (o[0] = 0; o[0] < w->out[0]; o[0]++)
        for (o[1] = 0; o[1] < w->out[1]; o[1]++)
            for (o[2] = 0; o[2] < w->out[2]; o[2]++)
                give(v, o, from,
                     ref_load(dy->dtype, args->in[0],
                              n * dy->stride[0] + c * dy->stride[1] +
                                  o[0] * w->y_stride[0] +
                                  o[1] * w->y_stride[1] +
                                  o[2] * w->y_stride[2]));
}

static int64_t image(const struct kern_tensor *t)
{
    int64_t n = 1;

    for (int i = 2; i < t->rank; i++)
        n *= t->dim[i];
    return n;
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    size_t bytes;

    (void)d;
    if (!checked_mul((size_t)image(&e->problem.out[0]), sizeof(double), &bytes))
        return error_set(err, INFER_EMEMORY, "pool_dgrad: sums overflow");
    e->workspace = bytes;
    return 0;
}

static void store_image(const struct pool *v, const struct kern_args *args,
                        int64_t n, int64_t c)
{
    const struct kern_tensor *residual = kern_problem_in(v->p, 2);
    struct kern_tensor dx = v->p->out[0], r = dx;
    struct ref_walk w;

    dx.dim[0] = dx.dim[1] = 1;
    ref_walk_start(&w, dx.rank, dx.dim);
    ref_walk_add(&w, &dx);
    w.offset[0] = n * dx.stride[0] + c * dx.stride[1];
    if (residual) {
        r = *residual;
        r.dim[0] = r.dim[1] = 1;
        ref_walk_add(&w, &r);
        w.offset[1] = n * r.stride[0] + c * r.stride[1];
    }
    for (int64_t i = 0; !w.done; ref_walk_next(&w), i++)
        ref_store(dx.dtype, args->out[0], w.offset[0],
                  v->sum[i] +
                      ref_optional(residual, args->in[2], w.offset[1], 0));
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *x = kern_problem_in(p, 1);
    struct kern_problem fprop = *p;
    struct pool v = {.p = p, .x = args->in[1], .sum = args->workspace};

    (void)err;
    fprop.in[0] = x ? *x : p->out[0];
    fprop.out[0] = p->in[0];
    ref_window_pool(&v.w, &fprop);
    if (kern_tensor_count(&p->out[0]) == 0)
        return 0;
    for (int64_t n = 0; n < p->out[0].dim[0]; n++)
        for (int64_t c = 0; c < p->out[0].dim[1]; c++) {
            memset(v.sum, 0, e->workspace);
            give_image(&v, args, n, c);
            store_image(&v, args, n, c);
        }
    return 0;
}

KERN_FUNCTIONS(pool_dgrad_ref) = {
    .supports = ref_supports_double,
    .prepare = prepare,
    .launch = launch,
};
