/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of x along one axis, each named by an index of its own.  Negative
 * indices count from the end. */
#include "kernels/ref/ref.h"

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *x = &p->in[0], *y = &p->out[0];
    const int axis = p->attr.gather.axis;
    const size_t size = infer_dtype_size(y->dtype);
    struct ref_walk w;

    ref_walk_start(&w, y->rank, y->dim);
    ref_walk_add(&w, &p->in[1]);
    ref_walk_add(&w, y);
    for (; !w.done; ref_walk_next(&w)) {
        const int64_t named =
            scalar_load_i64(p->in[1].dtype, args->in[1], w.offset[0]);
        const int64_t i = named < 0 ? named + x->dim[axis] : named;
        int64_t offset = i * x->stride[axis];

        if (i < 0 || i >= x->dim[axis])
            return error_set(err, INFER_EARGUMENT,
                             "gather_elements: index %lld is outside "
                             "dimension %d of extent %lld",
                             (long long)named, axis, (long long)x->dim[axis]);
        for (int d = 0; d < x->rank; d++)
            offset += d == axis ? 0 : w.index[d] * x->stride[d];
        ref_move(size, args->out[0], w.offset[1], args->in[0], offset);
    }
    return 0;
}

KERN_FUNCTIONS(gather_elements_ref) = {
    .supports = ref_supports_all,
    .launch = launch,
};
