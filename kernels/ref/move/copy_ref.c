/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between any strides, data types and scales.  Floating point becomes
 * integer by truncation; anything but zero becomes true. */
#include <string.h>

#include "kernels/ref/scaled.h"

static bool same_order(const struct kern_tensor *x, const struct kern_tensor *y,
                       enum kern_layout layout)
{
    return kern_tensor_is_dense(x, layout) && kern_tensor_is_dense(y, layout);
}

static void move_all(const struct kern_problem *p, const struct kern_args *args,
                     struct ref_walk *w)
{
    const size_t size = infer_dtype_size(p->out[0].dtype);

    for (; !w->done; ref_walk_next(w))
        ref_move(size, args->out[0], w->offset[1], args->in[0], w->offset[0]);
}

static void convert_all(const struct kern_problem *p,
                        const struct kern_args *args, struct ref_walk *w)
{
    const enum infer_dtype from = p->in[0].dtype, to = p->out[0].dtype;
    const bool exact = scalar_is_integer(from) && scalar_is_integer(to);

    for (; !w->done; ref_walk_next(w)) {
        if (exact)
            scalar_store_i64(to, args->out[0], w->offset[1],
                             scalar_load_i64(from, args->in[0], w->offset[0]));
        else
            scalar_store(to, args->out[0], w->offset[1],
                         scalar_load(from, args->in[0], w->offset[0]));
    }
}

static void scale_all(const struct kern_problem *p,
                      const struct kern_args *args, struct ref_walk *w)
{
    for (; !w->done; ref_walk_next(w))
        ref_store_scaled(p, args->out[0], w->offset[1],
                         ref_load_scaled(p->in[0].dtype, args->in[0],
                                         w->offset[0], p->quant.x_scale,
                                         p->quant.x_zero));
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *x = &p->in[0], *y = &p->out[0];
    struct ref_walk w;

    (void)err;
    if (kern_tensor_count(y) == 0)
        return 0;
    if (!quant_is_scaled(p) &&
        (same_order(x, y, KERN_NCHW) || same_order(x, y, KERN_NHWC))) {
        scalar_convert(x->dtype, args->in[0], y->dtype, args->out[0],
                       (size_t)kern_tensor_count(y));
        return 0;
    }
    ref_walk_start(&w, y->rank, y->dim);
    ref_walk_add(&w, x);
    ref_walk_add(&w, y);
    if (quant_is_scaled(p))
        scale_all(p, args, &w);
    else if (x->dtype == y->dtype)
        move_all(p, args, &w);
    else
        convert_all(p, args, &w);
    return 0;
}

KERN_FUNCTIONS(copy_ref) = {
    .supports = ref_supports_all,
    .launch = launch,
};
