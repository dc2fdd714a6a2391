/* SPDX-License-Identifier: Apache-2.0 */
/* A copy of x with elements replaced by updates, or joined with them, each at
 * an index along one axis, in row-major order of the updates. */
#include <math.h>
#include <string.h>

#include "kernels/ref/ref.h"

static double join(enum kern_scatter_kind kind, double a, double b)
{
    switch (kind) {
    case KERN_SCATTER_SET:
        break;
    case KERN_SCATTER_ADD:
        return a + b;
    case KERN_SCATTER_MUL:
        return a * b;
    case KERN_SCATTER_MIN:
        return a < b || isnan(a) ? a : b;
    case KERN_SCATTER_MAX:
        return a > b || isnan(a) ? a : b;
    }
    return b;
}

static int64_t join_i64(enum kern_scatter_kind kind, int64_t a, int64_t b)
{
    switch (kind) {
    case KERN_SCATTER_SET:
        break;
    case KERN_SCATTER_ADD:
        return ref_add_i64(a, b);
    case KERN_SCATTER_MUL:
        return ref_mul_i64(a, b);
    case KERN_SCATTER_MIN:
        return a < b ? a : b;
    case KERN_SCATTER_MAX:
        return a > b ? a : b;
    }
    return b;
}

static void copy(const struct kern_problem *p, const struct kern_args *args)
{
    const struct kern_tensor *y = &p->out[0];
    struct ref_walk w;

    ref_walk_start(&w, y->rank, y->dim);
    ref_walk_add(&w, &p->in[0]);
    ref_walk_add(&w, y);
    for (; !w.done; ref_walk_next(&w))
        ref_move(infer_dtype_size(y->dtype), args->out[0], w.offset[1],
                 args->in[0], w.offset[0]);
}

/* y[at] and update[from] become one. */
static void update(const struct kern_problem *p, const struct kern_args *args,
                   int64_t at, int64_t from)
{
    const enum kern_scatter_kind kind = p->attr.scatter.kind;
    const enum infer_dtype t = p->out[0].dtype;
    void *y = args->out[0];

    if (kind == KERN_SCATTER_SET)
        ref_move(infer_dtype_size(t), y, at, args->in[2], from);
    else if (scalar_is_integer(t))
        ref_wrap_i64(t, y, at,
                     join_i64(kind, scalar_load_i64(t, y, at),
                              scalar_load_i64(t, args->in[2], from)));
    else
        ref_store(
            t, y, at,
            join(kind, ref_load(t, y, at), ref_load(t, args->in[2], from)));
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *index = &p->in[1], *y = &p->out[0];
    const int axis = p->attr.scatter.axis;
    struct ref_walk w;

    copy(p, args);
    ref_walk_start(&w, index->rank, index->dim);
    ref_walk_add(&w, index);
    ref_walk_add(&w, &p->in[2]);
    for (; !w.done; ref_walk_next(&w)) {
        const int64_t named =
            scalar_load_i64(index->dtype, args->in[1], w.offset[0]);
        const int64_t i = named < 0 ? named + y->dim[axis] : named;
        int64_t at = i * y->stride[axis];

        if (i < 0 || i >= y->dim[axis])
            return error_set(err, INFER_EARGUMENT,
                             "scatter_elements: index %lld is outside "
                             "dimension %d of extent %lld",
                             (long long)named, axis, (long long)y->dim[axis]);
        for (int d = 0; d < y->rank; d++)
            at += d == axis ? 0 : w.index[d] * y->stride[d];
        update(p, args, at, w.offset[1]);
    }
    return 0;
}

/* Each update is rounded to the output's type: half precision would lose what
 * single precision, which networks run in on a CPU, does not. */
static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    const enum infer_dtype t = p->out[0].dtype;

    (void)d;
    if (p->attr.scatter.kind != KERN_SCATTER_SET &&
        (t == INFER_F16 || t == INFER_BF16))
        return error_set(why, INFER_EUNSUPPORTED,
                         "scatter_elements: updates of %s can only replace",
                         infer_dtype_name(t));
    return 0;
}

KERN_FUNCTIONS(scatter_elements_ref) = {
    .supports = supports,
    .launch = launch,
};
