/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax and its logarithm along one axis, the maximum taken off first. */
#include <math.h>

#include "kernels/ref/ref.h"

/* One line along the axis, from offset `from` of x to offset `to` of y. */
static void normalise(const struct kern_problem *p,
                      const struct kern_args *args, int64_t from, int64_t to)
{
    const struct kern_tensor *x = &p->in[0], *y = &p->out[0];
    const int axis = p->attr.softmax.axis;
    const int64_t n = x->dim[axis];
    double max = -INFINITY, sum = 0;

    for (int64_t i = 0; i < n; i++) {
        const double v =
            ref_load(x->dtype, args->in[0], from + i * x->stride[axis]);
        if (v > max)
            max = v;
    }
    for (int64_t i = 0; i < n; i++)
        sum += exp(ref_load(x->dtype, args->in[0], from + i * x->stride[axis]) -
                   max);
    for (int64_t i = 0; i < n; i++) {
        const double v =
            ref_load(x->dtype, args->in[0], from + i * x->stride[axis]) - max;
        ref_store(y->dtype, args->out[0], to + i * y->stride[axis],
                  p->attr.softmax.log ? v - log(sum) : exp(v) / sum);
    }
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    struct kern_tensor x = p->in[0], y = p->out[0];
    const int axis = p->attr.softmax.axis;
    struct ref_walk w;

    (void)err;
    if (kern_tensor_count(&x) == 0)
        return 0;
    x.dim[axis] = y.dim[axis] = 1;
    ref_walk_start(&w, y.rank, y.dim);
    ref_walk_add(&w, &x);
    ref_walk_add(&w, &y);
    for (; !w.done; ref_walk_next(&w))
        normalise(p, args, w.offset[0], w.offset[1]);
    return 0;
}

KERN_FUNCTIONS(softmax_ref) = {
    .supports = ref_supports_double,
    .launch = launch,
};
