/* SPDX-License-Identifier: Apache-2.0 */
/* Transposed convolution, which is also a convolution's dgrad: each output
 * gathers the inputs that reach it, one row of outputs at a time. */
#include "kernels/ref/conv/conv.h"

/* The input position whose tap r falls on output o along dimension d, or -1. */
static int64_t source(const struct ref_window *w, int d, int64_t o, int64_t r)
{
    const int64_t reach = o + w->pad[d] - r * w->dilation[d];

    if (reach < 0 || reach % w->step[d] || reach / w->step[d] >= w->in[d])
        return -1;
    return reach / w->step[d];
}

/* Adds an input row to the sums through one row of the window. */
static void add_window_row(const struct ref_conv *v, int64_t x, int64_t f)
{
    const struct ref_window *w = &v->w;
    const struct kern_problem *p = v->p;

    for (int64_t r = 0; r < w->kernel[2]; r++) {
        const double factor =
            ref_load(p->in[1].dtype, v->args->in[1], f + r * w->w_stride[2]);
        int64_t lo, hi;
        ref_window_range(w, 2, r, w->out[2], w->in[2], &lo, &hi);
        for (int64_t i = lo; i < hi; i++) {
            const double dy = ref_load(p->in[0].dtype, v->args->in[0],
                                       x + i * w->x_stride[2]);
            const int64_t to = i * w->step[2] + r * w->dilation[2] - w->pad[2];
            v->sum[to] +=
                v->table.entry ? ref_product(&v->table, dy, factor)
                : v->table.slope
                    ? ref_slope(
                          &v->table, dy, factor,
                          ref_point(p, v->args, v->point + to * v->point_step))
                    : factor * dy;
        }
    }
}

static void add_channel(const struct ref_conv *v, int64_t od, int64_t oh,
                        int64_t x, int64_t f)
{
    const struct ref_window *w = &v->w;

    for (int64_t kd = 0; kd < w->kernel[0]; kd++) {
        const int64_t d = source(w, 0, od, kd);
        if (d < 0)
            continue;
        for (int64_t kh = 0; kh < w->kernel[1]; kh++) {
            const int64_t h = source(w, 1, oh, kh);
            if (h >= 0)
                add_window_row(v, x + d * w->x_stride[0] + h * w->x_stride[1],
                               f + kd * w->w_stride[0] + kh * w->w_stride[1]);
        }
    }
}

static void add_row(const struct ref_conv *v, int64_t n, int64_t k, int64_t od,
                    int64_t oh)
{
    const struct kern_tensor *x = &v->p->in[0], *f = &v->p->in[1];
    const int64_t outputs = f->dim[1];
    const int64_t inputs = x->dim[1] / v->p->attr.conv.groups;
    const int64_t first = k / outputs * inputs;

    for (int64_t c = first; c < first + inputs; c++)
        add_channel(v, od, oh, n * x->stride[0] + c * x->stride[1],
                    c * f->stride[0] + k % outputs * f->stride[1]);
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    (void)err;
    ref_conv_run(e, args, add_row);
    return 0;
}

KERN_FUNCTIONS(conv_transpose_fprop_ref) = {
    .supports = ref_supports_double,
    .prepare = ref_conv_prepare,
    .launch = launch,
};
