/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient of functions of one argument, from x or from y. */
#include "kernels/ref/ref.h"

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_unary *f = &p->attr.unary;
    const struct kern_tensor *x = kern_problem_in(p, 1);
    const struct kern_tensor *residual = kern_problem_in(p, 3);
    const struct kern_tensor *dy = &p->in[0], *dx = &p->out[0];
    const struct kern_tensor *from = x ? x : &p->in[2];
    const void *base = x ? args->in[1] : args->in[2];
    struct ref_walk w;

    (void)err;
    ref_walk_start(&w, dx->rank, dx->dim);
    ref_walk_add(&w, dy);
    ref_walk_add(&w, from);
    ref_walk_add(&w, dx);
    if (residual)
        ref_walk_add(&w, residual);
    for (; !w.done; ref_walk_next(&w)) {
        const double v = ref_load(from->dtype, base, w.offset[1]);
        const double derivative = x ? ref_unary_derivative(f, v)
                                    : ref_unary_derivative_from_output(f, v);
        ref_store(dx->dtype, args->out[0], w.offset[2],
                  ref_load(dy->dtype, args->in[0], w.offset[0]) * derivative +
                      ref_optional(residual, args->in[3], w.offset[3], 0));
    }
    return 0;
}

KERN_FUNCTIONS(unary_dgrad_ref) = {
    .supports = ref_supports_double,
    .launch = launch,
};
