/* SPDX-License-Identifier: Apache-2.0 */
/* Running sums and products along one axis: one thread a line, in a loop over
 * the grid.  No shared memory. */
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/integer.cuh"
#include "kernels/cuda/strided.cuh"
#include "kernels/cuda/types.cuh"

struct cumulate_args {
    struct cuda_strided<2> walk; /* the first elements of x and y's lines */
    const void *x;
    void *y;
    int64_t n, x_step, y_step; /* along the axis, in the sum's direction */
    enum infer_dtype from, to;
    bool exclusive, product;
};

static __device__ __forceinline__ void real_line(const struct cumulate_args &a,
                                                 const int64_t *at)
{
    double total = a.product ? 1 : 0;

    for (int64_t i = 0; i < a.n; i++) {
        const double v = load_any(a.from, a.x, at[0] + i * a.x_step);
        const double next = a.product ? total * v : total + v;

        store_any(a.to, a.y, at[1] + i * a.y_step, a.exclusive ? total : next);
        total = next;
    }
}

static __device__ __forceinline__ void
integer_line(const struct cumulate_args &a, const int64_t *at)
{
    int64_t total = a.product ? 1 : 0;

    for (int64_t i = 0; i < a.n; i++) {
        const int64_t v = load_i64(a.from, a.x, at[0] + i * a.x_step);
        const int64_t next =
            a.product ? integer_multiply(total, v) : integer_add(total, v);

        store_wrapped(a.to, a.y, at[1] + i * a.y_step,
                      a.exclusive ? total : next);
        total = next;
    }
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    (void)d;
    if (p->in[0].dtype == INFER_U64 || p->out[0].dtype == INFER_U64)
        return error_set(why, INFER_EUNSUPPORTED,
                         "cumulate: U64 is not supported");
    return 0;
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_cumulate *c = &p->attr.cumulate;
    struct kern_tensor x = p->in[0], y = p->out[0];
    const struct kern_tensor *const t[2] = {&x, &y};
    struct cumulate_args a = {};
    int64_t x_first = 0, y_first = 0;

    a.n = x.dim[c->axis];
    a.x_step = x.stride[c->axis];
    a.y_step = y.stride[c->axis];
    if (a.n == 0)
        return 0;
    if (c->reverse) {
        x_first = (a.n - 1) * a.x_step;
        y_first = (a.n - 1) * a.y_step;
        a.x_step = -a.x_step;
        a.y_step = -a.y_step;
    }
    x.dim[c->axis] = y.dim[c->axis] = 1;
    a.walk.init(y.rank, y.dim, t);
    a.from = x.dtype;
    a.to = y.dtype;
    a.x =
        (const char *)args->in[0] + x_first * (int64_t)infer_dtype_size(a.from);
    a.y = (char *)args->out[0] + y_first * (int64_t)infer_dtype_size(a.to);
    a.exclusive = c->exclusive;
    a.product = c->product;
    return is_integer(a.from) ? walk_launch<integer_line>(a, args, err)
                              : walk_launch<real_line>(a, args, err);
}

KERN_FUNCTIONS(cumulate_cuda_lines) = {
    .supports = supports,
    .launch = launch,
};
