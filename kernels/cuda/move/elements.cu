/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elements named by indices along one axis: gathered, and scattered into a
 * copy.
 *
 * One thread an element of the output, in the order of the output's memory, in
 * a loop over the grid.  A scatter's thread searches the indices of its line
 * for its own place and applies those updates in their order: so the result
 * does not depend on the order of threads.  No shared memory.
 */
#include "kernels/cuda/integer.cuh"
#include "kernels/cuda/move/gather.cuh"

/* ---- gather -------------------------------------------------------- */

static int launch_gather(const struct kern_exec *e,
                         const struct kern_args *args, struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const int axis = p->attr.gather.axis;
    struct kern_tensor from = p->out[0];

    for (int d = 0; d < from.rank; d++)
        from.stride[d] = d == axis ? 0 : p->in[0].stride[d];
    return gather_launch(e, &from, &p->in[1], args, err);
}

KERN_FUNCTIONS(gather_elements_cuda_move) = {
    .supports = supports_all,
    .launch = launch_gather,
};

/* ---- scatter ------------------------------------------------------- */

/* Dimensions but the axis, which comes last, in the order of the output's
 * strides. */
struct scatter_args {
    int rank; /* without the axis */
    int64_t count;
    int64_t dim[KERN_MAX_RANK];  /* of x and y; [rank] is the axis */
    int64_t list[KERN_MAX_RANK]; /* of the indices */
    int64_t x_stride[KERN_MAX_RANK], y_stride[KERN_MAX_RANK];
    int64_t index_stride[KERN_MAX_RANK], update_stride[KERN_MAX_RANK];
    const void *x, *index, *update;
    void *y;
    enum infer_dtype type, index_type;
    enum kern_scatter_kind kind;
};

/* The places of one element. */
struct scatter_place {
    int64_t x, y, index, update; /* index and update: of the line's first */
    int64_t own;                 /* index along the axis */
    bool listed;                 /* the line has indices */
};

static __device__ struct scatter_place place_of(const struct scatter_args &a,
                                                int64_t i)
{
    struct scatter_place at = {0, 0, 0, 0, 0, true};
    int64_t rest = i;

    for (int d = a.rank; d >= 0; d--) {
        const int64_t index = rest % a.dim[d];
        rest /= a.dim[d];
        at.x += index * a.x_stride[d];
        at.y += index * a.y_stride[d];
        if (d == a.rank) {
            at.own = index;
            continue;
        }
        at.index += index * a.index_stride[d];
        at.update += index * a.update_stride[d];
        at.listed = at.listed && index < a.list[d];
    }
    return at;
}

/* True where index k of the line names this element. */
static __device__ bool names(const struct scatter_args &a,
                             const struct scatter_place &at, int64_t k)
{
    const int64_t v =
        load_i64(a.index_type, a.index, at.index + k * a.index_stride[a.rank]);

    return v == at.own || v + a.dim[a.rank] == at.own;
}

struct set {
    template <typename U>
    static __device__ void run(const struct scatter_args &a,
                               const struct scatter_place &at, int64_t n)
    {
        U v = ((const U *)a.x)[at.x];

        for (int64_t k = 0; k < n; k++)
            if (names(a, at, k))
                v = ((const U *)
                         a.update)[at.update + k * a.update_stride[a.rank]];
        ((U *)a.y)[at.y] = v;
    }
};

static __device__ double join(enum kern_scatter_kind kind, double a, double b)
{
    if (kind == KERN_SCATTER_ADD)
        return a + b;
    if (kind == KERN_SCATTER_MUL)
        return a * b;
    if (kind == KERN_SCATTER_MIN)
        return a < b || a != a ? a : b;
    return a > b || a != a ? a : b;
}

static __device__ int64_t join_i64(enum kern_scatter_kind kind, int64_t a,
                                   int64_t b)
{
    if (kind == KERN_SCATTER_ADD)
        return integer_add(a, b);
    if (kind == KERN_SCATTER_MUL)
        return integer_multiply(a, b);
    if (kind == KERN_SCATTER_MIN)
        return a < b ? a : b;
    return a > b ? a : b;
}

/* U: double, or int64_t for integers */
struct joined {
    template <typename U>
    static __device__ void run(const struct scatter_args &a,
                               const struct scatter_place &at, int64_t n);
};

template <>
__device__ void joined::run<double>(const struct scatter_args &a,
                                    const struct scatter_place &at, int64_t n)
{
    double v = load_any(a.type, a.x, at.x);

    for (int64_t k = 0; k < n; k++)
        if (names(a, at, k))
            v = join(a.kind, v,
                     load_any(a.type, a.update,
                              at.update + k * a.update_stride[a.rank]));
    store_any(a.type, a.y, at.y, v);
}

template <>
__device__ void joined::run<int64_t>(const struct scatter_args &a,
                                     const struct scatter_place &at, int64_t n)
{
    int64_t v = load_i64(a.type, a.x, at.x);

    for (int64_t k = 0; k < n; k++)
        if (names(a, at, k)) {
            v = join_i64(a.kind, v,
                         load_i64(a.type, a.update,
                                  at.update + k * a.update_stride[a.rank]));
            /* Narrow types wrap at every step: MIN and MAX compare them. */
            store_wrapped(a.type, a.y, at.y, v);
            v = load_i64(a.type, a.y, at.y);
        }
    store_wrapped(a.type, a.y, at.y, v);
}

template <typename How, typename U>
static __global__ void __launch_bounds__(WALK_THREADS)
    scatter_kernel(const __grid_constant__ struct scatter_args a)
{
    for (int64_t i = blockIdx.x * (int64_t)WALK_THREADS + threadIdx.x;
         i < a.count; i += (int64_t)gridDim.x * WALK_THREADS) {
        const struct scatter_place at = place_of(a, i);

        How::template run<U>(a, at, at.listed ? a.list[a.rank] : 0);
    }
}

template <typename How, typename U>
static int run_scatter(const struct scatter_args &a,
                       const struct kern_args *args, struct infer_error *err)
{
    return launch_kernel(scatter_kernel<How, U>,
                         cuda_grid(a.count, WALK_THREADS), WALK_THREADS, 0,
                         args->stream, a, err);
}

static void add_dimension(struct scatter_args *a, int i,
                          const struct kern_problem *p, int d)
{
    a->dim[i] = p->out[0].dim[d];
    a->list[i] = p->in[1].dim[d];
    a->x_stride[i] = p->in[0].stride[d];
    a->y_stride[i] = p->out[0].stride[d];
    a->index_stride[i] = p->in[1].stride[d];
    a->update_stride[i] = p->in[2].stride[d];
}

static int launch_scatter(const struct kern_exec *e,
                          const struct kern_args *args, struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const int axis = p->attr.scatter.axis;
    const enum infer_dtype type = p->out[0].dtype;
    int order[KERN_MAX_RANK];
    struct scatter_args a = {};

    cuda_sort_dimensions(&p->out[0], order);
    for (int i = 0; i < p->out[0].rank; i++)
        if (order[i] != axis)
            add_dimension(&a, a.rank++, p, order[i]);
    add_dimension(&a, a.rank, p, axis);
    a.count = kern_tensor_count(&p->out[0]);
    a.x = args->in[0];
    a.index = args->in[1];
    a.update = args->in[2];
    a.y = args->out[0];
    a.type = type;
    a.index_type = p->in[1].dtype;
    a.kind = p->attr.scatter.kind;
    if (a.count == 0)
        return 0;
    if (a.kind == KERN_SCATTER_SET)
        return by_size(type, [&](auto u) {
            return run_scatter<set, decltype(u)>(a, args, err);
        });
    return is_integer(type) ? run_scatter<joined, int64_t>(a, args, err)
                            : run_scatter<joined, double>(a, args, err);
}

static int supports_scatter(const struct kern_problem *p,
                            const struct kern_device *d,
                            struct infer_error *why)
{
    (void)d;
    if (p->attr.scatter.kind != KERN_SCATTER_SET &&
        p->out[0].dtype == INFER_U64)
        return error_set(why, INFER_EUNSUPPORTED,
                         "scatter_elements: updates of U64 can only replace");
    return 0;
}

KERN_FUNCTIONS(scatter_elements_cuda_search) = {
    .supports = supports_scatter,
    .launch = launch_scatter,
};
