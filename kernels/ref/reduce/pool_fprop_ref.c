/* SPDX-License-Identifier: Apache-2.0 */
/* Maximum and average pooling of 1 to 3 dimensions. */
#include <math.h>

#include "kernels/ref/scaled.h"
#include "kernels/ref/window.h"

struct pool {
    const struct kern_problem *p;
    const void *x;
    struct ref_window w;
};

/* The elements of a window read so far. */
struct seen {
    double sum, max;
    int64_t top;             /* the maximum of integers */
    int64_t inside, counted; /* elements, and those that an average counts */
};

static void see(const struct pool *v, struct seen *s, int64_t offset)
{
    const enum infer_dtype dtype = v->p->in[0].dtype;

    if (v->p->attr.pool.kind == KERN_POOL_AVERAGE) {
        s->sum += ref_load(dtype, v->x, offset);
    } else if (scalar_is_integer(dtype)) {
        const int64_t i = scalar_load_i64(dtype, v->x, offset);
        if (s->inside == 0 || i > s->top)
            s->top = i;
    } else {
        const double f = ref_load(dtype, v->x, offset);
        if (s->inside == 0 || f > s->max || isnan(f))
            s->max = f;
    }
    s->inside++;
}

static void see_window(const struct pool *v, struct seen *s, const int64_t *o,
                       int64_t base)
{
    const struct ref_window *w = &v->w;

    for (int64_t kd = 0; kd < w->kernel[0]; kd++)
        for (int64_t kh = 0; kh < w->kernel[1]; kh++)
            for (int64_t kw = 0; kw < w->kernel[2]; kw++) {
                const int64_t d = ref_window_tap(w, 0, o[0], kd);
                const int64_t h = ref_window_tap(w, 1, o[1], kh);
                const int64_t c = ref_window_tap(w, 2, o[2], kw);
                if (!ref_window_in_padding(w, 0, d) ||
                    !ref_window_in_padding(w, 1, h) ||
                    !ref_window_in_padding(w, 2, c))
                    continue;
                s->counted++;
                if (ref_window_in_input(w, 0, d) &&
                    ref_window_in_input(w, 1, h) &&
                    ref_window_in_input(w, 2, c))
                    see(v, s,
                        base + d * w->x_stride[0] + h * w->x_stride[1] +
                            c * w->x_stride[2]);
            }
}

static double result(const struct pool *v, const struct seen *s)
{
    const struct kern_pool *a = &v->p->attr.pool;

    if (s->inside == 0)
        return 0;
    if (a->kind == KERN_POOL_MAX)
        return s->max;
    return s->sum / (double)(a->count_include_pad ? s->counted : s->inside);
}

/* The value of a window of 8 bits with a scale. */
static double scaled_result(const struct pool *v, const struct seen *s)
{
    const struct kern_pool *a = &v->p->attr.pool;
    const struct kern_quant *q = &v->p->quant;
    const int64_t n = a->count_include_pad ? s->counted : s->inside;

    if (s->inside == 0)
        return 0;
    if (a->kind == KERN_POOL_MAX && v->p->in[0].dtype == INFER_F8E4M3)
        return (double)((float)s->max * q->x_scale);
    if (a->kind == KERN_POOL_MAX)
        return (double)((float)(s->top - q->x_zero) * q->x_scale);
    return (double)((float)(s->sum - (double)(s->inside * q->x_zero)) *
                    (q->x_scale / (float)n));
}

static void compute(const struct pool *v, const int64_t *index, void *out,
                    int64_t at)
{
    const struct kern_tensor *x = &v->p->in[0], *y = &v->p->out[0];
    const int64_t base = index[0] * x->stride[0] + index[1] * x->stride[1];
    const int spatial = x->rank - 2;
    int64_t o[3] = {0, 0, 0};
    struct seen s = {0};

    for (int i = 0; i < spatial; i++)
        o[3 - spatial + i] = index[2 + i];
    see_window(v, &s, o, base);
    if (quant_is_scaled(v->p) && quant_is_byte(x->dtype)) {
        ref_store_scaled(v->p, out, at,
                         (double)(float)ref_unary(&v->p->epilogue.act,
                                                  scaled_result(v, &s)));
        return;
    }
    /* Integers stay exact where nothing has to be computed from them. */
    if (v->p->attr.pool.kind == KERN_POOL_MAX && scalar_is_integer(x->dtype) &&
        v->p->epilogue.act.kind == KERN_IDENTITY) {
        scalar_store_i64(y->dtype, out, at, s.top);
        return;
    }
    if (scalar_is_integer(x->dtype))
        s.max = (double)s.top;
    ref_store(y->dtype, out, at, ref_unary(&v->p->epilogue.act, result(v, &s)));
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *y = &p->out[0];
    struct pool v = {.p = p, .x = args->in[0]};
    struct ref_walk walk;

    (void)err;
    ref_window_pool(&v.w, p);
    ref_walk_start(&walk, y->rank, y->dim);
    ref_walk_add(&walk, y);
    for (; !walk.done; ref_walk_next(&walk))
        compute(&v, walk.index, args->out[0], walk.offset[0]);
    return 0;
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    if (p->attr.pool.kind == KERN_POOL_MAX &&
        p->epilogue.act.kind == KERN_IDENTITY)
        return ref_supports_all(p, d, why);
    return ref_supports_double(p, d, why);
}

KERN_FUNCTIONS(pool_fprop_ref) = {
    .supports = supports,
    .launch = launch,
};
