/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations that move elements without looking at them: where, gather, pad.
 *
 * One thread an element of the output, in the order of the output's memory, in
 * a loop over the grid.  No shared memory.
 */
#include "kernels/cuda/move/gather.cuh"

#define THREADS 256

/* ---- where --------------------------------------------------------- */

struct where_args {
    struct cuda_strided<4> walk; /* condition, a, b, y */
    const void *condition, *a, *b;
    void *y;
    enum infer_dtype type; /* of the condition */
};

template <typename U>
static __device__ __forceinline__ void where_element(const struct where_args &a,
                                                     const int64_t *at)
{
    const bool first = load_any(a.type, a.condition, at[0]) != 0;
    ((U *)a.y)[at[3]] =
        first ? ((const U *)a.a)[at[1]] : ((const U *)a.b)[at[2]];
}

static int launch_where(const struct kern_exec *e, const struct kern_args *args,
                        struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *const t[4] = {&p->in[0], &p->in[1], &p->in[2],
                                            &p->out[0]};
    struct where_args a = {};

    a.walk.init(p->out[0].rank, p->out[0].dim, t);
    a.condition = args->in[0];
    a.a = args->in[1];
    a.b = args->in[2];
    a.y = args->out[0];
    a.type = p->in[0].dtype;
    return by_size(p->out[0].dtype, [&](auto u) {
        return walk_launch<where_element<decltype(u)>>(a, args, err);
    });
}

KERN_FUNCTIONS(where_cuda_move) = {
    .supports = supports_all,
    .launch = launch_where,
};

/* ---- gather -------------------------------------------------------- */

static int launch_gather(const struct kern_exec *e,
                         const struct kern_args *args, struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *x = &p->in[0], *list = &p->in[1];
    const int axis = p->attr.gather.axis;
    struct kern_tensor from = p->out[0], names = p->out[0];

    for (int d = 0; d < from.rank; d++) {
        const bool listed = d >= axis && d < axis + list->rank;
        const int own = d < axis ? d : d - list->rank + 1;

        from.stride[d] = listed ? 0 : x->stride[own];
        names.stride[d] = listed ? list->stride[d - axis] : 0;
    }
    return gather_launch(e, &from, &names, args, err);
}

KERN_FUNCTIONS(gather_cuda_move) = {
    .supports = supports_all,
    .launch = launch_gather,
};

/* ---- pad ----------------------------------------------------------- */

/* Dimensions in the order of the output's strides, outermost first. */
struct pad_args {
    int rank;
    int64_t count;
    int64_t dim[KERN_MAX_RANK];    /* of y */
    int64_t before[KERN_MAX_RANK]; /* elements put in front */
    int64_t low[KERN_MAX_RANK];    /* elements of x cropped in front */
    int64_t left[KERN_MAX_RANK];   /* elements of x that stay */
    int64_t x_stride[KERN_MAX_RANK], y_stride[KERN_MAX_RANK];
    enum kern_pad_mode mode;
    enum infer_dtype type;
    float value;
    const void *x;
    void *y;
};

static __device__ int64_t wrap(int64_t i, int64_t n)
{
    const int64_t r = i % n;

    return r < 0 ? r + n : r;
}

/* The element that stands at position i of a line of n, or -1 for none. */
static __device__ int64_t source(enum kern_pad_mode mode, int64_t i, int64_t n)
{
    if (i >= 0 && i < n)
        return i;
    if (mode == KERN_PAD_CONSTANT)
        return -1;
    if (mode == KERN_PAD_EDGE)
        return i < 0 ? 0 : n - 1;
    if (mode == KERN_PAD_WRAP)
        return wrap(i, n);
    if (n == 1)
        return 0;
    const int64_t r = wrap(i, 2 * (n - 1));
    return r < n ? r : 2 * (n - 1) - r;
}

template <typename U>
static __global__ void __launch_bounds__(THREADS)
    pad_kernel(const __grid_constant__ struct pad_args a)
{
    for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x; i < a.count;
         i += (int64_t)gridDim.x * THREADS) {
        int64_t rest = i, from = 0, to = 0;
        bool inside = true;

        for (int d = a.rank - 1; d >= 0; d--) {
            const int64_t index = rest % a.dim[d];
            rest /= a.dim[d];
            const int64_t s = source(a.mode, index - a.before[d], a.left[d]);
            inside = inside && s >= 0;
            from += (a.low[d] + s) * a.x_stride[d];
            to += index * a.y_stride[d];
        }
        if (inside)
            ((U *)a.y)[to] = ((const U *)a.x)[from];
        else
            store_any(a.type, a.y, to, a.value);
    }
}

static int launch_pad(const struct kern_exec *e, const struct kern_args *args,
                      struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_pad *pad = &p->attr.pad;
    const struct kern_tensor *x = &p->in[0], *y = &p->out[0];
    int order[KERN_MAX_RANK];
    struct pad_args a = {};

    cuda_sort_dimensions(y, order);
    a.rank = y->rank;
    a.count = kern_tensor_count(y);
    for (int i = 0; i < y->rank; i++) {
        const int d = order[i];
        const int64_t high = pad->end[d] < 0 ? -(int64_t)pad->end[d] : 0;

        a.dim[i] = y->dim[d];
        a.before[i] = pad->begin[d] > 0 ? pad->begin[d] : 0;
        a.low[i] = pad->begin[d] < 0 ? -(int64_t)pad->begin[d] : 0;
        a.left[i] = x->dim[d] - a.low[i] - high;
        a.x_stride[i] = x->stride[d];
        a.y_stride[i] = y->stride[d];
    }
    a.mode = pad->mode;
    a.type = y->dtype;
    a.value = pad->value;
    a.x = args->in[0];
    a.y = args->out[0];
    if (a.count == 0)
        return 0;
    return by_size(y->dtype, [&](auto u) {
        return launch_kernel(pad_kernel<decltype(u)>,
                             cuda_grid(a.count, THREADS), THREADS, 0,
                             args->stream, a, err);
    });
}

KERN_FUNCTIONS(pad_cuda_move) = {
    .supports = supports_all,
    .launch = launch_pad,
};
