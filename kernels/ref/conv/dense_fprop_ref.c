/* SPDX-License-Identifier: Apache-2.0 */
/* Fully connected layer over the last dimension: y = act(x W^T + bias + r). */
#include "kernels/ref/conv/accumulated.h"
#include "kernels/ref/conv/product.h"
#include "kernels/ref/conv/quantised.h"

/* What the input's zero point adds to the sum of column k. */
static double zero_share(const struct kern_problem *p,
                         const struct kern_args *args, int64_t k)
{
    const struct kern_tensor *w = &p->in[1];
    double share = 0;

    for (int64_t c = 0; c < w->dim[1] && p->quant.x_zero != 0; c++)
        share += ref_load(w->dtype, args->in[1],
                          k * w->stride[0] + c * w->stride[1]);
    return share * p->quant.x_zero;
}

/* The errors in the products of column k with the row of x at an offset. */
static double errors(const struct kern_problem *p, const struct kern_args *args,
                     int64_t row, int64_t k)
{
    const struct kern_tensor *x = &p->in[0], *w = &p->in[1];
    double sum = 0;

    for (int64_t c = 0; c < w->dim[1] && product_table_of(p); c++)
        sum += ref_quant_error(p, args, row + c * x->stride[x->rank - 1],
                               k * w->stride[0] + c * w->stride[1]);
    return sum;
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *x = &p->in[0], *w = &p->in[1], *y = &p->out[0];
    const struct kern_tensor *bias = kern_problem_in(p, 2);
    const struct kern_tensor *residual = kern_problem_in(p, 3);
    const size_t size = infer_dtype_size(x->dtype);
    const size_t w_size = infer_dtype_size(w->dtype);
    const struct ref_table table = ref_table_of(p, args);
    struct kern_tensor rows = *x;
    struct ref_walk walk;

    (void)err;
    if (accumulator_of(p)) {
        ref_accumulated_run(p, args);
        return 0;
    }
    /* Walks the outputs; x is broadcast along the last dimension. */
    rows.dim[rows.rank - 1] = 1;
    ref_walk_start(&walk, y->rank, y->dim);
    ref_walk_add(&walk, &rows);
    ref_walk_add(&walk, y);
    if (residual)
        ref_walk_add(&walk, residual);
    for (; !walk.done; ref_walk_next(&walk)) {
        const int64_t k = walk.index[y->rank - 1];
        const double dot = ref_dot_products(
            &table, x->dtype,
            (const char *)args->in[0] + walk.offset[0] * (int64_t)size,
            x->stride[x->rank - 1], w->dtype,
            (const char *)args->in[1] + k * w->stride[0] * (int64_t)w_size,
            w->stride[1], w->dim[1]);
        if (quant_of(p)) {
            const double more = errors(p, args, walk.offset[0], k);
            ref_store_quantised(p, args, dot - zero_share(p, args, k) + more, k,
                                walk.offset[1], walk.offset[2]);
            continue;
        }
        const double b =
            ref_optional(bias, args->in[2], bias ? k * bias->stride[0] : 0, 0);
        const double r = ref_optional(residual, args->in[3], walk.offset[2], 0);
        ref_store(y->dtype, args->out[0], walk.offset[1],
                  ref_epilogue(&p->epilogue, dot + b, r));
    }
    return 0;
}

KERN_FUNCTIONS(dense_fprop_ref) = {
    .supports = ref_supports_double,
    .launch = launch,
};
