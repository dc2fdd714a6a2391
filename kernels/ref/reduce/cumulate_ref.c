/* SPDX-License-Identifier: Apache-2.0 */
/* Running sums and products along one axis. */
#include "kernels/ref/ref.h"

/* One line; x and y are the offsets of its first element, sx and sy the steps
 * in the direction of the sum. */
static void line(const struct kern_problem *p, const struct kern_args *args,
                 int64_t x, int64_t sx, int64_t y, int64_t sy, int64_t n)
{
    const struct kern_cumulate *a = &p->attr.cumulate;
    double total = a->product ? 1 : 0;

    for (int64_t i = 0; i < n; i++) {
        const double v = ref_load(p->in[0].dtype, args->in[0], x + i * sx);
        const double next = a->product ? total * v : total + v;

        ref_store(p->out[0].dtype, args->out[0], y + i * sy,
                  a->exclusive ? total : next);
        total = next;
    }
}

static void line_i64(const struct kern_problem *p, const struct kern_args *args,
                     int64_t x, int64_t sx, int64_t y, int64_t sy, int64_t n)
{
    const struct kern_cumulate *a = &p->attr.cumulate;
    int64_t total = a->product ? 1 : 0;

    for (int64_t i = 0; i < n; i++) {
        const int64_t v =
            scalar_load_i64(p->in[0].dtype, args->in[0], x + i * sx);
        const int64_t next =
            a->product ? ref_mul_i64(total, v) : ref_add_i64(total, v);

        ref_wrap_i64(p->out[0].dtype, args->out[0], y + i * sy,
                     a->exclusive ? total : next);
        total = next;
    }
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_cumulate *a = &p->attr.cumulate;
    struct kern_tensor x = p->in[0], y = p->out[0];
    const int64_t n = x.dim[a->axis];
    int64_t sx = x.stride[a->axis], sy = y.stride[a->axis], fx = 0, fy = 0;
    struct ref_walk w;

    (void)err;
    if (a->reverse) {
        fx = (n - 1) * sx;
        fy = (n - 1) * sy;
        sx = -sx;
        sy = -sy;
    }
    x.dim[a->axis] = y.dim[a->axis] = 1;
    ref_walk_start(&w, y.rank, y.dim);
    ref_walk_add(&w, &x);
    ref_walk_add(&w, &y);
    for (; !w.done; ref_walk_next(&w))
        (scalar_is_integer(x.dtype) ? line_i64 : line)(
            p, args, w.offset[0] + fx, sx, w.offset[1] + fy, sy, n);
    return 0;
}

KERN_FUNCTIONS(cumulate_ref) = {
    .supports = ref_supports_all,
    .launch = launch,
};
