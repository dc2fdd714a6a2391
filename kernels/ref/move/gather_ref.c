/* SPDX-License-Identifier: Apache-2.0 */
/* Slices of x along one axis, in the order that indices name them.  Negative
 * indices count from the end. */
#include "kernels/ref/ref.h"

/* Offset in x that belongs to an index of y, but for the axis itself; *at is
 * the offset in the indices. */
static int64_t split(const struct kern_problem *p, const int64_t *index,
                     int64_t *at)
{
    const struct kern_tensor *x = &p->in[0], *list = &p->in[1];
    const int axis = p->attr.gather.axis;
    int64_t offset = 0;

    *at = 0;
    for (int i = 0; i < axis; i++)
        offset += *index++ * x->stride[i];
    for (int i = 0; i < list->rank; i++)
        *at += *index++ * list->stride[i];
    for (int i = axis + 1; i < x->rank; i++)
        offset += *index++ * x->stride[i];
    return offset;
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *x = &p->in[0], *y = &p->out[0];
    const int axis = p->attr.gather.axis;
    const size_t size = infer_dtype_size(y->dtype);
    struct ref_walk w;

    ref_walk_start(&w, y->rank, y->dim);
    ref_walk_add(&w, y);
    for (; !w.done; ref_walk_next(&w)) {
        int64_t at;
        const int64_t offset = split(p, w.index, &at);
        const int64_t named = scalar_load_i64(p->in[1].dtype, args->in[1], at);
        const int64_t i = named < 0 ? named + x->dim[axis] : named;
        if (i < 0 || i >= x->dim[axis])
            return error_set(err, INFER_EARGUMENT,
                             "gather: index %lld is outside dimension %d of "
                             "extent %lld",
                             (long long)named, axis, (long long)x->dim[axis]);
        ref_move(size, args->out[0], w.offset[0], args->in[0],
                 offset + i * x->stride[axis]);
    }
    return 0;
}

KERN_FUNCTIONS(gather_ref) = {
    .supports = ref_supports_all,
    .launch = launch,
};
