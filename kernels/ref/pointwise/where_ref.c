/* SPDX-License-Identifier: Apache-2.0 */
/* y = condition ? a : b, all broadcast; elements are moved, not computed. */
#include "kernels/ref/ref.h"

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *y = &p->out[0];
    const size_t size = infer_dtype_size(y->dtype);
    struct ref_walk w;

    (void)err;
    ref_walk_start(&w, y->rank, y->dim);
    for (int i = 0; i < 3; i++)
        ref_walk_add(&w, &p->in[i]);
    ref_walk_add(&w, y);
    for (; !w.done; ref_walk_next(&w)) {
        const int from =
            ref_load(p->in[0].dtype, args->in[0], w.offset[0]) != 0 ? 1 : 2;
        ref_move(size, args->out[0], w.offset[3], args->in[from],
                 w.offset[from]);
    }
    return 0;
}

KERN_FUNCTIONS(where_ref) = {
    .supports = ref_supports_all,
    .launch = launch,
};
