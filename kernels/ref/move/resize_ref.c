/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX Resize in every dimension at once: the sum over the product of the
 * tables of all dimensions (kernels/resize.h). */
#include "kernels/ref/move/resize.h"

static int prepare(struct kern_exec *e, const struct kern_device *device,
                   struct infer_error *err)
{
    (void)device;
    return ref_resize_prepare(e, &e->problem, err);
}

/* The weighted sum for one output. */
static double sum_taps(const struct ref_resize *s, const int64_t *index,
                       enum infer_dtype dtype, const void *x)
{
    struct ref_walk w;
    int64_t offset;
    double sum = 0;

    for (ref_resize_start(&w, s); !w.done; ref_walk_next(&w)) {
        const double weight = ref_resize_tap(s, index, &w, &offset);
        if (weight != 0)
            sum += weight * ref_load(dtype, x, offset);
    }
    return sum;
}

static int64_t only_tap(const struct ref_resize *s, const int64_t *index)
{
    int64_t offset = 0;

    for (int d = 0; d < s->rank; d++)
        offset += s->table[d].index[index[d]];
    return offset;
}

static bool moves(const struct kern_problem *p)
{
    return p->attr.resize.mode == KERN_NEAREST &&
           p->in[0].dtype == p->out[0].dtype;
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *y = &p->out[0];
    const struct ref_resize *s = e->state;
    struct ref_walk w;

    (void)err;
    ref_walk_start(&w, y->rank, y->dim);
    ref_walk_add(&w, y);
    for (; !w.done; ref_walk_next(&w)) {
        if (moves(p))
            ref_move(infer_dtype_size(y->dtype), args->out[0], w.offset[0],
                     args->in[0], only_tap(s, w.index));
        else
            ref_store(y->dtype, args->out[0], w.offset[0],
                      sum_taps(s, w.index, p->in[0].dtype, args->in[0]));
    }
    return 0;
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    const int r = resize_check(p, why);

    if (r < 0)
        return r;
    return moves(p) ? ref_supports_all(p, d, why)
                    : ref_supports_double(p, d, why);
}

KERN_FUNCTIONS(resize_ref) = {
    .supports = supports,
    .prepare = prepare,
    .launch = launch,
    .release = ref_resize_release,
};
