/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Indices of the largest or smallest elements along one axis, best first.
 *
 * One thread an element of x, in a loop over the grid: it counts the elements
 * of its line that come before its own, which is its place in the output.  The
 * count ends at the number of places.  Work is the square of the line, which
 * fits the lines of detectors' heads (10^4 elements).  No shared memory.
 */
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/strided.cuh"
#include "kernels/cuda/types.cuh"

struct top_args {
    struct cuda_strided<3> walk; /* x, the line's first of x, that of y */
    const void *x;
    int64_t *y;
    int64_t n, k, x_step, y_step; /* along the axis */
    enum infer_dtype type;
    bool smallest;
};

/* -1, 0, 1: the element at i is below, like or above that at j. */
template <bool INTEGER>
static __device__ __forceinline__ int order(const struct top_args &a, int64_t i,
                                            int64_t j)
{
    if (INTEGER) {
        const int64_t v = load_i64(a.type, a.x, i),
                      w = load_i64(a.type, a.x, j);
        return (v > w) - (v < w);
    }
    const double v = load_any(a.type, a.x, i), w = load_any(a.type, a.x, j);
    if (v != v || w != w)
        return (v != v) - (w != w);
    return (v > w) - (v < w);
}

template <bool INTEGER>
static __device__ __forceinline__ void top_element(const struct top_args &a,
                                                   const int64_t *at)
{
    /* The axis' step is not 0 where the line has more than one element. */
    const int64_t own = a.x_step ? (at[0] - at[1]) / a.x_step : 0;
    int64_t place = 0;

    for (int64_t i = 0; i < a.n && place < a.k; i++) {
        const int o = order<INTEGER>(a, at[1] + i * a.x_step, at[0]);
        place += (a.smallest ? o < 0 : o > 0) || (o == 0 && i < own);
    }
    if (place < a.k)
        a.y[at[2] + place * a.y_step] = own;
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    const int axis = p->attr.top_k.axis;

    (void)d;
    if (p->in[0].dtype == INFER_U64)
        return error_set(why, INFER_EUNSUPPORTED,
                         "top_k: U64 is not supported");
    if (p->in[0].dim[axis] > 1 && p->in[0].stride[axis] == 0)
        return error_set(why, INFER_EUNSUPPORTED,
                         "top_k: a line of one element, repeated");
    return 0;
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const int axis = p->attr.top_k.axis;
    const struct kern_tensor *x = &p->in[0];
    struct kern_tensor x_line = *x, y_line = *x;
    struct top_args a = {};

    for (int d = 0; d < x->rank; d++)
        y_line.stride[d] = d == axis ? 0 : p->out[0].stride[d];
    x_line.stride[axis] = 0;
    const struct kern_tensor *const t[3] = {x, &x_line, &y_line};
    a.walk.init(x->rank, x->dim, t);
    a.x = args->in[0];
    a.y = (int64_t *)args->out[0];
    a.n = x->dim[axis];
    a.k = p->out[0].dim[axis];
    a.x_step = x->stride[axis];
    a.y_step = p->out[0].stride[axis];
    a.type = x->dtype;
    a.smallest = p->attr.top_k.smallest;
    return is_integer(a.type) ? walk_launch<top_element<true>>(a, args, err)
                              : walk_launch<top_element<false>>(a, args, err);
}

KERN_FUNCTIONS(top_k_cuda_rank) = {
    .supports = supports,
    .launch = launch,
};
