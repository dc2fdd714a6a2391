/* SPDX-License-Identifier: Apache-2.0 */
/* y = x < 0 ? slope x : x, the slope broadcast to x. */
#include "kernels/ref/ref.h"

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *y = &p->out[0];
    struct ref_walk w;

    (void)err;
    ref_walk_start(&w, y->rank, y->dim);
    ref_walk_add(&w, &p->in[0]);
    ref_walk_add(&w, &p->in[1]);
    ref_walk_add(&w, y);
    for (; !w.done; ref_walk_next(&w)) {
        const double x = ref_load(p->in[0].dtype, args->in[0], w.offset[0]);
        const double slope = ref_load(p->in[1].dtype, args->in[1], w.offset[1]);
        ref_store(y->dtype, args->out[0], w.offset[2], x < 0 ? slope * x : x);
    }
    return 0;
}

KERN_FUNCTIONS(prelu_ref) = {
    .supports = ref_supports_double,
    .launch = launch,
};
