/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of PReLU: dx, and dslope before it is summed. */
#include "kernels/ref/ref.h"

enum { DY, X, SLOPE, RESIDUAL };

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *dx = &p->out[0];
    const struct kern_tensor *dslope = kern_problem_out(p, 1);
    const struct kern_tensor *residual = kern_problem_in(p, RESIDUAL);
    struct ref_walk w, more;

    (void)err;
    ref_walk_start(&w, dx->rank, dx->dim);
    ref_walk_start(&more, dx->rank, dx->dim);
    for (int i = DY; i <= SLOPE; i++)
        ref_walk_add(&w, &p->in[i]);
    ref_walk_add(&w, dx);
    ref_walk_add(&more, residual ? residual : dx);
    ref_walk_add(&more, dslope ? dslope : dx);
    for (; !w.done; ref_walk_next(&w), ref_walk_next(&more)) {
        const double g = ref_load(p->in[DY].dtype, args->in[DY], w.offset[0]);
        const double x = ref_load(p->in[X].dtype, args->in[X], w.offset[1]);
        const double slope =
            ref_load(p->in[SLOPE].dtype, args->in[SLOPE], w.offset[2]);
        ref_store(dx->dtype, args->out[0], w.offset[3],
                  (x < 0 ? slope * g : g) + ref_optional(residual,
                                                         args->in[RESIDUAL],
                                                         more.offset[0], 0));
        if (dslope)
            ref_store(dslope->dtype, args->out[1], more.offset[1],
                      x < 0 ? g * x : 0);
    }
    return 0;
}

KERN_FUNCTIONS(prelu_dgrad_ref) = {
    .supports = ref_supports_double,
    .launch = launch,
};
