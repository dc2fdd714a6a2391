/* SPDX-License-Identifier: Apache-2.0 */
/* Squeeze and excitation without the final product: the mean over space, then
 * two dense layers.  What lies between is kept in double. */
#include "kernels/base/checked.h"
#include "kernels/ref/ref.h"

enum { X, W, W2, BIAS, BIAS2 };

/* in[b] at i, or 0 where it is absent. */
static double bias_at(const struct kern_problem *p,
                      const struct kern_args *args, int b, int64_t i)
{
    const struct kern_tensor *t = kern_problem_in(p, b);

    return ref_optional(t, args->in[b], t ? i * t->stride[0] : 0, 0);
}

/* Of the image whose first element lies at `from`. */
static void take_means(const struct kern_tensor *x, const void *base,
                       int64_t from, double *mean)
{
    for (int64_t c = 0; c < x->dim[1]; c++) {
        struct kern_tensor space = *x;
        struct ref_walk walk;
        double sum = 0, count = 0;

        space.dim[0] = space.dim[1] = 1;
        ref_walk_start(&walk, space.rank, space.dim);
        ref_walk_add(&walk, &space);
        for (; !walk.done; ref_walk_next(&walk), count++)
            sum += ref_load(x->dtype, base,
                            from + c * x->stride[1] + walk.offset[0]);
        mean[c] = sum / count;
    }
}

/* Row r of the weights in[w] times v, and the bias in[b]. */
static double layer(const struct kern_problem *p, const struct kern_args *args,
                    int w, int b, int64_t r, const double *v)
{
    const struct kern_tensor *t = &p->in[w];
    const char *row = (const char *)args->in[w] +
                      r * t->stride[0] * (int64_t)infer_dtype_size(t->dtype);

    return bias_at(p, args, b, r) +
           ref_dot(INFER_F64, v, 1, t->dtype, row, t->stride[1], t->dim[1]);
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    size_t values;

    (void)d;
    if (!checked_add((size_t)e->problem.in[W].dim[0],
                     (size_t)e->problem.in[W].dim[1], &values) ||
        !checked_mul(values, sizeof(double), &e->workspace))
        return error_set(err, INFER_EMEMORY, "squeeze: does not fit in memory");
    return 0;
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *x = &p->in[X], *y = &p->out[0];
    double *mean = (double *)args->workspace, *hidden = mean + x->dim[1];

    (void)err;
    for (int64_t n = 0; n < x->dim[0]; n++) {
        take_means(x, args->in[X], n * x->stride[0], mean);
        for (int64_t r = 0; r < p->in[W].dim[0]; r++)
            hidden[r] = ref_unary(&p->attr.squeeze_excite.act,
                                  layer(p, args, W, BIAS, r, mean));
        for (int64_t k = 0; k < y->dim[1]; k++)
            ref_store(y->dtype, args->out[0],
                      n * y->stride[0] + k * y->stride[1],
                      ref_unary(&p->epilogue.act,
                                layer(p, args, W2, BIAS2, k, hidden)));
    }
    return 0;
}

KERN_FUNCTIONS(squeeze_ref) = {
    .supports = ref_supports_double,
    .prepare = prepare,
    .launch = launch,
};
