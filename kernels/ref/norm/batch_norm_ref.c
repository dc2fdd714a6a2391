/* SPDX-License-Identifier: Apache-2.0 */
/* Batch normalisation with given statistics, along dimension 1. */
#include <math.h>

#include "kernels/ref/ref.h"

/* Element c of the vector that is input i. */
static double channel(const struct kern_problem *p,
                      const struct kern_args *args, int i, int64_t c)
{
    return ref_load(p->in[i].dtype, args->in[i], c * p->in[i].stride[0]);
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *x = &p->in[0], *y = &p->out[0];
    const struct kern_tensor *residual = kern_problem_in(p, 5);
    struct ref_walk w;

    (void)err;
    ref_walk_start(&w, y->rank, y->dim);
    ref_walk_add(&w, x);
    ref_walk_add(&w, y);
    if (residual)
        ref_walk_add(&w, residual);
    for (; !w.done; ref_walk_next(&w)) {
        const int64_t c = w.index[1];
        const double centred = ref_load(x->dtype, args->in[0], w.offset[0]) -
                               channel(p, args, 3, c);
        const double deviation =
            sqrt(channel(p, args, 4, c) + (double)p->attr.norm.epsilon);
        const double v = centred / deviation * channel(p, args, 1, c) +
                         channel(p, args, 2, c);
        const double r = ref_optional(residual, args->in[5], w.offset[2], 0);
        ref_store(y->dtype, args->out[0], w.offset[1],
                  ref_epilogue(&p->epilogue, v, r));
    }
    return 0;
}

KERN_FUNCTIONS(batch_norm_ref) = {
    .supports = ref_supports_double,
    .launch = launch,
};
