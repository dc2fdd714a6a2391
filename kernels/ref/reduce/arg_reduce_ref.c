/* SPDX-License-Identifier: Apache-2.0 */
/* Index of the greatest or smallest element along one axis.  NaN counts as
 * greatest and as smallest. */
#include <math.h>

#include "kernels/ref/ref.h"

/* True where element i beats the best so far; `last` lets equals win. */
static bool beats(const struct kern_arg_reduce *a, enum infer_dtype dtype,
                  const void *base, int64_t i, int64_t best)
{
    if (scalar_is_integer(dtype)) {
        const int64_t x = scalar_load_i64(dtype, base, i);
        const int64_t y = scalar_load_i64(dtype, base, best);
        return (a->min ? x < y : x > y) || (a->select_last && x == y);
    }
    const double x = ref_load(dtype, base, i);
    const double y = ref_load(dtype, base, best);
    if (isnan(y))
        return isnan(x) && a->select_last;
    return isnan(x) || (a->min ? x < y : x > y) || (a->select_last && x == y);
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_arg_reduce *a = &p->attr.arg_reduce;
    const struct kern_tensor *y = &p->out[0];
    const int64_t n = p->in[0].dim[a->axis];
    const int64_t step = p->in[0].stride[a->axis];
    struct kern_tensor x = p->in[0];
    struct ref_walk w;

    (void)err;
    x.dim[a->axis] = 1;
    ref_walk_start(&w, y->rank, y->dim);
    ref_walk_add(&w, &x);
    ref_walk_add(&w, y);
    for (; !w.done; ref_walk_next(&w)) {
        int64_t best = 0;
        for (int64_t i = 1; i < n; i++)
            if (beats(a, x.dtype, args->in[0], w.offset[0] + i * step,
                      w.offset[0] + best * step))
                best = i;
        scalar_store_i64(y->dtype, args->out[0], w.offset[1], best);
    }
    return 0;
}

KERN_FUNCTIONS(arg_reduce_ref) = {
    .supports = ref_supports_all,
    .launch = launch,
};
