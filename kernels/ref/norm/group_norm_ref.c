/* SPDX-License-Identifier: Apache-2.0 */
/* Group and instance normalisation over channels of a group and space. */
#include "kernels/ref/norm/norm.h"

static void normalise(const struct kern_problem *p,
                      const struct kern_args *args, const struct ref_block *b,
                      int64_t n, int64_t first)
{
    const struct kern_tensor *x = &p->in[0], *y = &p->out[0];
    const struct kern_tensor *scale = kern_problem_in(p, 1);
    const struct kern_tensor *shift = kern_problem_in(p, 2);
    const int64_t from = n * x->stride[0] + first * x->stride[1];
    const int64_t to = n * y->stride[0] + first * y->stride[1];
    const struct ref_moments m =
        ref_block_stats(b, x->dtype, args->in[0], from, &p->attr.norm);
    struct ref_walk w;

    for (ref_block_walk(b, &w); !w.done; ref_walk_next(&w)) {
        const int64_t c = first + w.index[0];
        const double v =
            (ref_load(x->dtype, args->in[0], from + w.offset[0]) - m.mean) *
            m.inverse;
        const double a = ref_optional(scale, args->in[1],
                                      scale ? c * scale->stride[0] : 0, 1);
        const double s = ref_optional(shift, args->in[2],
                                      shift ? c * shift->stride[0] : 0, 0);
        ref_store(y->dtype, args->out[0], to + w.offset[1], v * a + s);
    }
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *x = &p->in[0], *y = &p->out[0];
    const int64_t channels = x->dim[1] / p->attr.norm.groups;
    struct ref_block b = {.rank = x->rank - 1};

    (void)err;
    if (kern_tensor_count(x) == 0)
        return 0;
    for (int i = 0; i < b.rank; i++) {
        b.dim[i] = i == 0 ? channels : x->dim[i + 1];
        b.x_stride[i] = x->stride[i + 1];
        b.y_stride[i] = y->stride[i + 1];
    }
    for (int64_t n = 0; n < x->dim[0]; n++)
        for (int64_t c = 0; c < x->dim[1]; c += channels)
            normalise(p, args, &b, n, c);
    return 0;
}

KERN_FUNCTIONS(group_norm_ref) = {
    .supports = ref_supports_double,
    .launch = launch,
};
