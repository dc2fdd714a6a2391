/* SPDX-License-Identifier: Apache-2.0 */
/* What convolution and its transpose share. */
#include "kernels/ref/conv/accumulated.h"
#include "kernels/ref/conv/conv.h"
#include "kernels/ref/conv/quantised.h"

#include <string.h>

int ref_conv_prepare(struct kern_exec *e, const struct kern_device *d,
                     struct infer_error *err)
{
    const struct kern_tensor *y = &e->problem.out[0];

    (void)d;
    (void)err;
    e->workspace = (size_t)y->dim[y->rank - 1] * sizeof(double);
    return 0;
}

/* A row of a convolution of integers: at and from are the offsets of its first
 * elements in y and in the residual. */
static void store_quantised(const struct ref_conv *v, int64_t k, int64_t at,
                            int64_t from)
{
    const struct ref_window *w = &v->w;
    const struct kern_problem *p = v->p;

    for (int64_t i = 0; i < w->out[2]; i++)
        ref_store_quantised(p, v->args, v->sum[i], k, at + i * w->y_stride[2],
                            from + i * w->r_stride[2]);
}

static void store_row(const struct ref_conv *v, int64_t n, int64_t k,
                      int64_t od, int64_t oh)
{
    const struct ref_window *w = &v->w;
    const struct kern_problem *p = v->p;
    const struct kern_tensor *y = &p->out[0];
    const struct kern_tensor *bias = kern_problem_in(p, 2);
    const struct kern_tensor *residual = kern_problem_in(p, 3);
    const int64_t at = n * y->stride[0] + k * y->stride[1] +
                       od * w->y_stride[0] + oh * w->y_stride[1];
    const int64_t from =
        residual ? n * residual->stride[0] + k * residual->stride[1] +
                       od * w->r_stride[0] + oh * w->r_stride[1]
                 : 0;
    const double b =
        ref_optional(bias, v->args->in[2], bias ? k * bias->stride[0] : 0, 0);

    if (quant_of(p)) {
        store_quantised(v, k, at, from);
        return;
    }
    for (int64_t i = 0; i < w->out[2]; i++) {
        const double r = ref_optional(residual, v->args->in[3],
                                      from + i * w->r_stride[2], 0);
        ref_store(y->dtype, v->args->out[0], at + i * w->y_stride[2],
                  ref_epilogue(&p->epilogue, v->sum[i] + b, r));
    }
}

/* Finds the row of operands that derivatives are taken at. */
static void find_points(struct ref_conv *v, int64_t n, int64_t k, int64_t od,
                        int64_t oh)
{
    const struct kern_tensor *t = &v->p->in[product_point_in(v->p)];
    const int64_t at[2] = {od, oh};

    v->point = n * t->stride[0] + k * t->stride[1];
    for (int i = 2; i < t->rank - 1; i++)
        v->point += at[4 + i - 1 - t->rank] * t->stride[i];
    v->point_step = t->stride[t->rank - 1];
}

void ref_conv_run(const struct kern_exec *e, const struct kern_args *args,
                  ref_conv_fn *add_row)
{
    const struct kern_tensor *y = &e->problem.out[0];
    struct ref_conv v = {
        .p = &e->problem, .args = args, .sum = args->workspace};

    v.table = ref_table_of(&e->problem, args);
    if (kern_tensor_count(y) == 0)
        return;
    if (accumulator_of(&e->problem)) {
        ref_accumulated_run(&e->problem, args);
        return;
    }
    ref_window_conv(&v.w, &e->problem);
    for (int64_t n = 0; n < y->dim[0]; n++)
        for (int64_t k = 0; k < y->dim[1]; k++)
            for (int64_t od = 0; od < v.w.out[0]; od++)
                for (int64_t oh = 0; oh < v.w.out[1]; oh++) {
                    memset(v.sum, 0, (size_t)v.w.out[2] * sizeof(*v.sum));
                    if (v.table.slope)
                        find_points(&v, n, k, od, oh);
                    add_row(&v, n, k, od, oh);
                    store_row(&v, n, k, od, oh);
                }
}
