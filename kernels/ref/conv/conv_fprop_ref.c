/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution of 1 to 3 dimensions: one row of outputs at a time, each output
 * summed in the order of the window, then the channels. */
#include "kernels/input_scale.h"
#include "kernels/bn_stats.h"
#include "kernels/ref/conv/conv.h"
#include "kernels/ref/conv/quantised.h"

/* A weight, times the input's factor at the offset s where it has factors. */
static double weight(const struct ref_conv *v, int64_t f, int64_t s)
{
    return ref_load(v->p->in[1].dtype, v->args->in[1], f) *
           ref_optional(input_scale_of(v->p), v->args->in[INPUT_SCALE_IN], s,
                        1);
}

/* Takes the zero point's share of one tap off the sums: padding has none. */
static void take_zero(const struct ref_conv *v, int64_t f, int64_t lo,
                      int64_t hi)
{
    const struct kern_tensor *weights = &v->p->in[1];
    double share = 0;

    for (int64_t c = 0; c < weights->dim[1]; c++)
        share += ref_load(weights->dtype, v->args->in[1],
                          f + c * weights->stride[1]);
    share *= v->p->quant.x_zero;
    for (int64_t i = lo; i < hi; i++)
        v->sum[i] -= share;
}

/* Adds one tap of a channel by the derivatives: outputs lo to hi - 1, the first
 * of which reads the input at x, the others `step` apart. */
static void add_slopes(const struct ref_conv *v, double weight, int64_t x,
                       int64_t step, int64_t lo, int64_t hi)
{
    for (int64_t i = lo; i < hi; i++)
        v->sum[i] += ref_slope(
            &v->table,
            ref_load(v->p->in[0].dtype, v->args->in[0], x + (i - lo) * step),
            weight, ref_point(v->p, v->args, v->point + i * v->point_step));
}

/* Adds one tap of all channels to the sums; x, f and s are the offsets of its
 * first element in the input's row, in the weights and in the factors. */
static void add_tap(const struct ref_conv *v, int64_t r, int64_t x, int64_t f,
                    int64_t s)
{
    const struct kern_tensor *factors = input_scale_of(v->p);
    const int64_t step = factors ? factors->stride[1] : 0;
    const struct ref_window *w = &v->w;
    const struct kern_tensor *in = &v->p->in[0], *weights = &v->p->in[1];
    int64_t lo, hi;

    ref_window_range(w, 2, r, w->in[2], w->out[2], &lo, &hi);
    const int64_t column = lo * w->step[2] + r * w->dilation[2] - w->pad[2];
    for (int64_t c = 0; c < weights->dim[1] && v->table.slope; c++)
        add_slopes(v, weight(v, f + c * weights->stride[1], 0),
                   x + c * in->stride[1] + column * w->x_stride[2],
                   w->step[2] * w->x_stride[2], lo, hi);
    for (int64_t c = 0; c < weights->dim[1] && lo < hi && !v->table.slope; c++)
        ref_add_products(&v->table, v->sum + lo,
                         weight(v, f + c * weights->stride[1], s + c * step),
                         in->dtype, v->args->in[0],
                         x + c * in->stride[1] + column * w->x_stride[2],
                         w->step[2] * w->x_stride[2], hi - lo);
    if (v->p->quant.x_zero != 0)
        take_zero(v, f, lo, hi);
    if (!quant_of(v->p) || !product_table_of(v->p))
        return;
    for (int64_t c = 0; c < weights->dim[1]; c++)
        for (int64_t i = lo; i < hi; i++)
            v->sum[i] += ref_quant_error(v->p, v->args,
                                         x + c * in->stride[1] +
                                             (column + (i - lo) * w->step[2]) *
                                                 w->x_stride[2],
                                         f + c * weights->stride[1]);
}

/* Adds the whole window to the row (od, oh). */
static void add_window(const struct ref_conv *v, int64_t od, int64_t oh,
                       int64_t x, int64_t f, int64_t s)
{
    const struct ref_window *w = &v->w;

    for (int64_t kd = 0; kd < w->kernel[0]; kd++) {
        const int64_t d = od * w->step[0] + kd * w->dilation[0] - w->pad[0];
        if (d < 0 || d >= w->in[0])
            continue;
        for (int64_t kh = 0; kh < w->kernel[1]; kh++) {
            const int64_t h = oh * w->step[1] + kh * w->dilation[1] - w->pad[1];
            if (h < 0 || h >= w->in[1])
                continue;
            for (int64_t r = 0; r < w->kernel[2]; r++)
                add_tap(v, r, x + d * w->x_stride[0] + h * w->x_stride[1],
                        f + kd * w->w_stride[0] + kh * w->w_stride[1] +
                            r * w->w_stride[2],
                        s);
        }
    }
}

static void add_row(const struct ref_conv *v, int64_t n, int64_t k, int64_t od,
                    int64_t oh)
{
    const struct kern_tensor *x = &v->p->in[0], *f = &v->p->in[1];
    const struct kern_tensor *s = input_scale_of(v->p);
    const int64_t channels = f->dim[1];
    const int64_t per_group = v->p->out[0].dim[1] / v->p->attr.conv.groups;
    const int64_t first = k / per_group * channels;

    add_window(v, od, oh, n * x->stride[0] + first * x->stride[1],
               k * f->stride[0],
               s ? n * s->stride[0] + first * s->stride[1] : 0);
}

/* ---- bn_stats ------------------------------------------------------- */

/* Pixels first .. end - 1 of channel k of y, as it was stored. */
static void measure_part(const struct kern_tensor *y, const void *base,
                         int64_t k, int64_t first, int64_t end, double *mean,
                         double *squares)
{
    const int64_t n = end - first;

    *mean = *squares = 0;
    for (int pass = 0; pass < 2; pass++) {
        double sum = 0;
        for (int64_t i = first; i < end; i++) {
            int64_t at = k * y->stride[1], rest = i;
            for (int d = y->rank - 1; d >= 0; d--)
                if (d != 1) {
                    at += rest % y->dim[d] * y->stride[d];
                    rest /= y->dim[d];
                }
            const double v = ref_load(y->dtype, base, at) - *mean;
            sum += pass == 0 ? v : v * v;
        }
        if (pass == 0)
            *mean = sum / (double)n;
        else
            *squares = sum;
    }
}

static void measure(const struct kern_problem *p, const struct kern_args *args)
{
    const struct kern_tensor *t = bn_stats_of(p), *y = &p->out[0];
    const int64_t pixels = kern_tensor_count(y) / y->dim[1];
    const int64_t part = bn_stats_part(t->dim[0], pixels);

    for (int64_t i = 0; i < t->dim[0]; i++)
        for (int64_t k = 0; k < y->dim[1]; k++) {
            const int64_t end = (i + 1) * part;
            const int64_t at = i * t->stride[0] + k * t->stride[2];
            double mean, squares;
            measure_part(y, args->out[0], k, i * part,
                         end < pixels ? end : pixels, &mean, &squares);
            ref_store(t->dtype, args->out[1], at, mean);
            ref_store(t->dtype, args->out[1], at + t->stride[1], squares);
        }
}

/* ---- all ----------------------------------------------------------- */

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    (void)err;
    ref_conv_run(e, args, add_row);
    if (bn_stats_of(&e->problem) && kern_tensor_count(&e->problem.out[0]) > 0)
        measure(&e->problem, args);
    return 0;
}

KERN_FUNCTIONS(conv_fprop_ref) = {
    .supports = ref_supports_double,
    .prepare = ref_conv_prepare,
    .launch = launch,
};
