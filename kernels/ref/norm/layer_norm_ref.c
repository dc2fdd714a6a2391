/* SPDX-License-Identifier: Apache-2.0 */
/* Layer and RMS normalisation over the dimensions from an axis on. */
#include <string.h>

#include "kernels/ref/norm/norm.h"

static void normalise(const struct kern_problem *p,
                      const struct kern_args *args, const struct ref_block *b,
                      int64_t from, int64_t to)
{
    const struct kern_tensor *x = &p->in[0], *y = &p->out[0];
    const struct kern_tensor *scale = kern_problem_in(p, 1);
    const struct kern_tensor *shift = kern_problem_in(p, 2);
    const struct kern_tensor none = {.rank = 0};
    const struct ref_moments m =
        ref_block_stats(b, x->dtype, args->in[0], from, &p->attr.norm);
    struct ref_walk w;

    ref_block_walk(b, &w);
    ref_walk_add(&w, scale ? scale : &none);
    ref_walk_add(&w, shift ? shift : &none);
    for (; !w.done; ref_walk_next(&w)) {
        const double v =
            (ref_load(x->dtype, args->in[0], from + w.offset[0]) - m.mean) *
            m.inverse;
        const double a = ref_optional(scale, args->in[1], w.offset[2], 1);
        const double s = ref_optional(shift, args->in[2], w.offset[3], 0);
        ref_store(y->dtype, args->out[0], to + w.offset[1], v * a + s);
    }
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *x = &p->in[0], *y = &p->out[0];
    const int axis = p->attr.norm.axis;
    struct ref_block b = {.rank = x->rank - axis};
    struct kern_tensor outer_x = *x, outer_y = *y;
    struct ref_walk w;

    (void)err;
    for (int i = 0; i < b.rank; i++) {
        b.dim[i] = x->dim[axis + i];
        b.x_stride[i] = x->stride[axis + i];
        b.y_stride[i] = y->stride[axis + i];
    }
    if (kern_tensor_count(x) == 0)
        return 0;
    outer_x.rank = outer_y.rank = axis;
    ref_walk_start(&w, axis, x->dim);
    ref_walk_add(&w, &outer_x);
    ref_walk_add(&w, &outer_y);
    for (; !w.done; ref_walk_next(&w))
        normalise(p, args, &b, w.offset[0], w.offset[1]);
    return 0;
}

KERN_FUNCTIONS(layer_norm_ref) = {
    .supports = ref_supports_double,
    .launch = launch,
};
