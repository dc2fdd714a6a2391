/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient of ONNX Resize: the gradient of an output is added to its inputs,
 * times the weights of the forward pass.  Sums are kept in the workspace, an
 * element for each of dx, row-major. */
#include <string.h>

#include "kernels/ref/move/resize.h"

/* The forward problem with a dense x: its tables hold offsets in the sums. */
static struct kern_problem forward_of(const struct kern_problem *p)
{
    struct kern_problem f = *p;

    f.in[0] =
        kern_tensor_dense(INFER_F64, p->out[0].rank, p->out[0].dim, KERN_NCHW);
    f.out[0] = p->in[0];
    return f;
}

static int prepare(struct kern_exec *e, const struct kern_device *device,
                   struct infer_error *err)
{
    const struct kern_problem f = forward_of(&e->problem);

    (void)device;
    e->workspace = kern_tensor_span(&f.in[0]);
    return ref_resize_prepare(e, &f, err);
}

static void scatter(const struct ref_resize *s, const int64_t *index, double dy,
                    double *sum)
{
    struct ref_walk w;
    int64_t offset;

    for (ref_resize_start(&w, s); !w.done; ref_walk_next(&w)) {
        const double weight = ref_resize_tap(s, index, &w, &offset);
        sum[offset] += weight * dy;
    }
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *dy = &p->in[0], *dx = &p->out[0];
    const struct kern_tensor *residual = kern_problem_in(p, 1);
    double *sum = args->workspace;
    struct ref_walk w;

    (void)err;
    memset(sum, 0, e->workspace);
    ref_walk_start(&w, dy->rank, dy->dim);
    ref_walk_add(&w, dy);
    for (; !w.done; ref_walk_next(&w))
        scatter(e->state, w.index,
                ref_load(dy->dtype, args->in[0], w.offset[0]), sum);
    ref_walk_start(&w, dx->rank, dx->dim);
    ref_walk_add(&w, dx);
    if (residual)
        ref_walk_add(&w, residual);
    for (int64_t i = 0; !w.done; ref_walk_next(&w), i++)
        ref_store(dx->dtype, args->out[0], w.offset[0],
                  sum[i] + ref_optional(residual, args->in[1], w.offset[1], 0));
    return 0;
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    const struct kern_problem f = forward_of(p);
    const int r = resize_check(&f, why);

    return r < 0 ? r : ref_supports_double(p, d, why);
}

KERN_FUNCTIONS(resize_dgrad_ref) = {
    .supports = supports,
    .prepare = prepare,
    .launch = launch,
    .release = ref_resize_release,
};
