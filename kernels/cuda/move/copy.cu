/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between any strides and data types.
 *
 * vec: where both sides have the same innermost dimension, dense on both.  One
 * thread converts 16 bytes of the wider type, in a loop over the grid; of one
 * type they are moved in words (copy_words.cuh).
 *
 * transpose: where the innermost dimensions differ and both are dense, as
 * between channels first and last (copy_transpose.cuh).
 *
 * fill: one element to a whole dense tensor.  One thread stores 16 bytes at a
 * time, in a loop over the grid; the first threads store what is left behind
 * the last vector.
 *
 * strided: anything.  Of one type in words, else, and beyond 32-bit offsets,
 * one thread an element of the output in the order of its memory, in a loop
 * over the grid.
 */
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/move/convert.cuh"
#include "kernels/cuda/move/copy_transpose.cuh"
#include "kernels/cuda/move/copy_words.cuh"
#include "kernels/cuda/types.cuh"

#define THREADS 256
/* Below this a tile would be mostly empty, in whatever form. */
#define TILE_LEAST 8

struct copy_args {
    struct cuda_strided<2> walk;
    enum infer_dtype from, to;
    const void *x;
    void *y;
};

static void init(struct copy_args *a, const struct kern_problem *p)
{
    const struct kern_tensor *const t[2] = {&p->in[0], &p->out[0]};

    a->walk.init(p->out[0].rank, p->out[0].dim, t);
    a->from = p->in[0].dtype;
    a->to = p->out[0].dtype;
}

/* Calls run<In, Out>(arguments), with integers of the same size for moves. */
#define COPY_DISPATCH(from, to, run, ...)                                      \
    ((from) != (to)                                                            \
         ? (from) == INFER_F32                                                 \
               ? ((to) == INFER_F16 ? run<float, __half>(__VA_ARGS__)          \
                                    : run<float, __nv_bfloat16>(__VA_ARGS__))  \
           : (from) == INFER_F16                                               \
               ? ((to) == INFER_F32 ? run<__half, float>(__VA_ARGS__)          \
                                    : run<__half, __nv_bfloat16>(__VA_ARGS__)) \
               : ((to) == INFER_F32 ? run<__nv_bfloat16, float>(__VA_ARGS__)   \
                                    : run<__nv_bfloat16, __half>(__VA_ARGS__)) \
     : infer_dtype_size(to) == 8 ? run<uint64_t, uint64_t>(__VA_ARGS__)        \
     : infer_dtype_size(to) == 4 ? run<uint32_t, uint32_t>(__VA_ARGS__)        \
     : infer_dtype_size(to) == 2 ? run<uint16_t, uint16_t>(__VA_ARGS__)        \
                                 : run<uint8_t, uint8_t>(__VA_ARGS__))

static int check_pair(const struct kern_problem *p, struct infer_error *why)
{
    const enum infer_dtype from = p->in[0].dtype, to = p->out[0].dtype;

    if (from == to || (cuda_is_real(from) && cuda_is_real(to)))
        return 0;
    return error_set(why, INFER_EUNSUPPORTED, "copy: %s to %s is not supported",
                     infer_dtype_name(from), infer_dtype_name(to));
}

/* ---- vec ----------------------------------------------------------- */

template <typename In, typename Out, int V>
static __device__ __forceinline__ void vec_element(const struct copy_args &a,
                                                   const int64_t *at)
{
    vec<Out, V> y;
    const vec<In, V> x = load_vec<In, V>((const In *)a.x + at[0]);
#pragma unroll
    for (int j = 0; j < V; j++)
        y.at[j] = convert<Out>(x.at[j]);
    store_vec<Out, V>((Out *)a.y + at[1], y);
}

template <typename In, typename Out>
static int run(struct copy_args *a, const struct kern_args *args,
               struct infer_error *err)
{
    const int wide = 16 / (sizeof(In) > sizeof(Out) ? sizeof(In) : sizeof(Out));
    const void *const at[2] = {a->x, a->y};
    const size_t size[2] = {sizeof(In), sizeof(Out)};

    return a->walk.vectorise(wide, at, size)
               ? walk_launch<vec_element<In, Out, wide>, true>(*a, args, err)
               : walk_launch<vec_element<In, Out, 1>, true>(*a, args, err);
}

static int find_vectors(struct copy_args *t, const struct copy_args *c,
                        struct infer_error *why)
{
    const int last = c->walk.rank - 1;

    *t = *c;
    if (last < 0 ||
        (c->walk.stride[0][last] == 1 && c->walk.stride[1][last] == 1))
        return 0;
    return error_set(why, INFER_EUNSUPPORTED,
                     "copy: the innermost dimension must be dense on both "
                     "sides");
}

/* ---- transpose ----------------------------------------------------- */

/* True if less than half of the tiles is used and words are possible. */
static bool words_are_better(const struct kern_problem *p,
                             const struct transpose_args *t)
{
    const int64_t side = TILE;
    const int64_t all = (t->rows + side - 1) / side * side *
                        ((t->columns + side - 1) / side * side);
    struct words_form form;

    return p->in[0].dtype == p->out[0].dtype &&
           2 * t->rows * t->columns < all &&
           words_form_of(p, NULL, NULL, &form);
}

/* Finds the two dimensions. */
static int find_tile(struct transpose_args *t, const struct copy_args *c,
                     struct infer_error *why)
{
    const struct cuda_strided<2> *w = &c->walk;
    const int last = w->rank - 1;
    int row = -1;

    for (int d = 0; d < last; d++)
        if (w->stride[0][d] == 1)
            row = d;
    if (row < 0 || w->stride[1][last] != 1 || w->dim[row] < TILE_LEAST ||
        w->dim[last] < TILE_LEAST)
        return error_set(why, INFER_EUNSUPPORTED,
                         "copy: two dimensions of %d and more must be dense, "
                         "one on either side",
                         TILE_LEAST);
    t->x = c->x;
    t->y = c->y;
    t->rows = w->dim[row];
    t->columns = w->dim[last];
    t->y_row = w->stride[1][row];
    t->x_column = w->stride[0][last];
    t->batch = 1;
    for (int d = 0; d < last; d++) {
        if (d == row)
            continue;
        t->dim[t->rank] = w->dim[d];
        t->x_stride[t->rank] = w->stride[0][d];
        t->y_stride[t->rank] = w->stride[1][d];
        t->batch *= w->dim[d];
        t->rank++;
    }
    if (t->batch >= (int64_t)1 << 31)
        return error_set(why, INFER_EUNSUPPORTED, "copy: 2^31 tiles or more");
    for (int d = 0; d < t->rank; d++)
        t->divide[d].init((uint32_t)t->dim[d]);
    return 0;
}

/* ---- interleave ---------------------------------------------------- */

/* Pictures from planes to pixels: x[n][c][i] to y[n][i][c] with C = 3 channels,
 * too few for tiles.  A thread takes V adjacent pixels: one vector of each
 * plane, C vectors of the output.  Thread j takes pixels V * (j % (pixels / V))
 * of picture j / (pixels / V). */
#define COLORS 3

struct interleave_args {
    int64_t count; /* threads with work */
    struct fast_div groups;
    int64_t pixels, batch;
    int64_t x_plane, x_image, y_image;
    const void *x;
    void *y;
};

template <typename In, typename Out, int V>
static __global__ void __launch_bounds__(THREADS)
    interleave_kernel(const __grid_constant__ struct interleave_args a)
{
    const int64_t j = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    uint32_t group;

    launch_wait();
    if (j >= a.count)
        return;
    const int64_t n = a.groups.divmod((uint32_t)j, &group);
    const In *x = (const In *)a.x + n * a.x_image + (int64_t)group * V;
    Out *y = (Out *)a.y + n * a.y_image + (int64_t)group * (V * COLORS);
    Out pixel[V * COLORS];
#pragma unroll
    for (int c = 0; c < COLORS; c++) {
        const vec<In, V> v = load_vec<In, V>(x + c * a.x_plane);
#pragma unroll
        for (int i = 0; i < V; i++)
            pixel[i * COLORS + c] = convert<Out>(v.at[i]);
    }
#pragma unroll
    for (int k = 0; k < COLORS; k++) {
        vec<Out, V> v;
#pragma unroll
        for (int i = 0; i < V; i++)
            v.at[i] = pixel[k * V + i];
        store_vec<Out, V>(y + k * V, v);
    }
}

/* Finds planes and pixels. */
static int find_planes(struct interleave_args *t, const struct copy_args *c,
                       struct infer_error *why)
{
    const struct cuda_strided<2> *w = &c->walk;
    const int last = w->rank - 1;

    if (w->rank < 2 || w->rank > 3 || w->count >= (int64_t)1 << 31 ||
        w->dim[last] != COLORS || w->stride[1][last] != 1 ||
        w->stride[1][last - 1] != COLORS || w->stride[0][last - 1] != 1)
        return error_set(why, INFER_EUNSUPPORTED,
                         "copy: not %d dense planes to pixels of %d", COLORS,
                         COLORS);
    t->x = c->x;
    t->y = c->y;
    t->pixels = w->dim[last - 1];
    t->x_plane = w->stride[0][last];
    t->batch = last == 2 ? w->dim[0] : 1;
    t->x_image = last == 2 ? w->stride[0][0] : 0;
    t->y_image = last == 2 ? w->stride[1][0] : 0;
    return 0;
}

/* True if all vectors of V start at multiples of their size. */
template <typename In, typename Out, int V>
static bool is_even(const struct interleave_args *t)
{
    return t->pixels % V == 0 && t->x_plane % V == 0 && t->x_image % V == 0 &&
           t->y_image % V == 0 && (uintptr_t)t->x % (V * sizeof(In)) == 0 &&
           (uintptr_t)t->y % (V * sizeof(Out)) == 0;
}

template <typename In, typename Out, int V>
static int start_interleave(struct interleave_args *t,
                            const struct kern_args *args,
                            struct infer_error *err)
{
    t->groups.init((uint32_t)(t->pixels / V));
    t->count = t->pixels / V * t->batch;
    return launch_chained(interleave_kernel<In, Out, V>,
                          cuda_blocks(t->count, THREADS), THREADS, 0,
                          args->stream, *t, err);
}

template <typename In, typename Out>
static int run(struct interleave_args *t, const struct kern_args *args,
               struct infer_error *err)
{
    const int widest = sizeof(In) > sizeof(Out) ? sizeof(In) : sizeof(Out);
    const int wide = widest > 4 ? 16 / widest : 4;

    if (is_even<In, Out, wide>(t))
        return start_interleave<In, Out, wide>(t, args, err);
    return start_interleave<In, Out, 1>(t, args, err);
}

/* ---- rows for one form of copies ----------------------------------- */

/* find() fills the arguments of the kernels, or fails with what it looked for.
 */
template <typename Args,
          int (*find)(Args *, const struct copy_args *, struct infer_error *)>
static int supports_form(const struct kern_problem *p,
                         const struct kern_device *d, struct infer_error *why)
{
    struct copy_args a = {};
    Args form = {};
    const int rc = check_pair(p, why);

    (void)d;
    if (rc < 0)
        return rc;
    init(&a, p);
    return find(&form, &a, why);
}

template <typename Args,
          int (*find)(Args *, const struct copy_args *, struct infer_error *)>
static int launch_form(const struct kern_exec *e, const struct kern_args *args,
                       struct infer_error *err)
{
    struct copy_args a = {};
    Args form = {};

    init(&a, &e->problem);
    if (a.walk.count == 0)
        return 0;
    a.x = args->in[0];
    a.y = args->out[0];
    const int rc = find(&form, &a, err);
    return rc < 0 ? rc : COPY_DISPATCH(a.from, a.to, run, &form, args, err);
}

/* Elements of one type in words; 1: not with 32-bit offsets. */
static int launch_words(const struct kern_exec *e, const struct kern_args *args,
                        struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    struct words_form form;

    if (p->in[0].dtype != p->out[0].dtype ||
        !words_form_of(p, args->in[0], args->out[0], &form))
        return 1;
    return words_launch(&form, args->in[0], args->out[0], args->stream, err);
}

static int launch_vectors(const struct kern_exec *e,
                          const struct kern_args *args, struct infer_error *err)
{
    const int rc = launch_words(e, args, err);

    return rc > 0 ? launch_form<struct copy_args, find_vectors>(e, args, err)
                  : rc;
}

KERN_FUNCTIONS(copy_cuda_vec) = {
    .supports = supports_form<struct copy_args, find_vectors>,
    .launch = launch_vectors,
};
static int supports_transpose(const struct kern_problem *p,
                              const struct kern_device *d,
                              struct infer_error *why)
{
    struct copy_args a = {};
    struct transpose_args t = {};
    int rc = check_pair(p, why);

    (void)d;
    if (rc < 0)
        return rc;
    init(&a, p);
    rc = find_tile(&t, &a, why);
    if (rc == 0 && words_are_better(p, &t))
        rc = error_set(why, INFER_EUNSUPPORTED,
                       "copy: half of its tiles would be empty");
    return rc;
}

KERN_FUNCTIONS(copy_cuda_transpose) = {
    .supports = supports_transpose,
    .launch = launch_form<struct transpose_args, find_tile>,
};
KERN_FUNCTIONS(copy_cuda_interleave) = {
    .supports = supports_form<struct interleave_args, find_planes>,
    .launch = launch_form<struct interleave_args, find_planes>,
};

/* ---- strided ------------------------------------------------------- */

template <typename In, typename Out>
static __device__ __forceinline__ void move_element(const struct copy_args &a,
                                                    const int64_t *at)
{
    ((Out *)a.y)[at[1]] = convert<Out>(((const In *)a.x)[at[0]]);
}

/* Integers to integers: exact beyond the 53 bits of a double. */
static __device__ __forceinline__ void
integer_element(const struct copy_args &a, const int64_t *at)
{
    const int64_t v = load_i64(a.from, a.x, at[0]);
    const bool huge = a.from == INFER_U64 && v < 0; /* 2^63 and above */

    if (a.to == INFER_U64 && a.from == INFER_U64)
        ((int64_t *)a.y)[at[1]] = v;
    else
        store_i64(a.to, a.y, at[1], huge ? INT64_MAX : v);
}

static __device__ __forceinline__ void any_element(const struct copy_args &a,
                                                   const int64_t *at)
{
    store_any(a.to, a.y, at[1], load_any(a.from, a.x, at[0]));
}

template <typename In, typename Out>
static int run_move(const struct copy_args *a, const struct kern_args *args,
                    struct infer_error *err)
{
    return walk_launch<move_element<In, Out>>(*a, args, err);
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    struct copy_args a = {};
    const int rc = launch_words(e, args, err);

    if (rc <= 0)
        return rc;
    init(&a, &e->problem);
    a.x = args->in[0];
    a.y = args->out[0];
    if (check_pair(&e->problem, NULL) == 0)
        return COPY_DISPATCH(a.from, a.to, run_move, &a, args, err);
    return is_integer(a.from) && is_integer(a.to)
               ? walk_launch<integer_element>(a, args, err)
               : walk_launch<any_element>(a, args, err);
}

KERN_FUNCTIONS(copy_cuda_strided) = {
    .supports = supports_all,
    .launch = launch,
};

/* ---- fill ---------------------------------------------------------- */

struct fill_args {
    int64_t count;
    enum infer_dtype from;
    const void *x;
    void *y;
};

template <typename T>
static __global__ void __launch_bounds__(THREADS)
    fill_kernel(const __grid_constant__ struct fill_args a)
{
    constexpr int V = 16 / (int)sizeof(T);
    const int64_t first = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    const int64_t vectors = a.count / V;
    vec<T, V> all;

    launch_wait();
    const T value = from_float<T>((float)load_any(a.from, a.x, 0));
#pragma unroll
    for (int j = 0; j < V; j++)
        all.at[j] = value;
    for (int64_t i = first; i < vectors; i += (int64_t)gridDim.x * THREADS)
        store_vec<T, V>((T *)a.y + i * V, all);
    if (first < a.count - vectors * V)
        ((T *)a.y)[vectors * V + first] = value;
}

static int supports_fill(const struct kern_problem *p,
                         const struct kern_device *d, struct infer_error *why)
{
    const struct kern_tensor *x = &p->in[0], *y = &p->out[0];
    bool one = cuda_is_real(x->dtype) && cuda_is_real(y->dtype) &&
               kern_tensor_count(y) > 0 &&
               (kern_tensor_is_dense(y, KERN_NCHW) ||
                kern_tensor_is_dense(y, KERN_NHWC));

    (void)d;
    for (int i = 0; one && i < x->rank; i++)
        one = x->dim[i] == 1 || x->stride[i] == 0;
    if (one)
        return 0;
    return error_set(why, INFER_EUNSUPPORTED,
                     "copies one F32, F16 or BF16 element to a dense tensor");
}

template <typename T>
static int run_fill(const struct fill_args *a, void *stream,
                    struct infer_error *err)
{
    const int64_t vectors = a->count * (int64_t)sizeof(T) / 16 + 1;

    return launch_chained(fill_kernel<T>, cuda_grid(vectors, THREADS), THREADS,
                          0, stream, *a, err);
}

static int launch_fill(const struct kern_exec *e, const struct kern_args *args,
                       struct infer_error *err)
{
    struct fill_args a = {};

    a.count = kern_tensor_count(&e->problem.out[0]);
    a.from = e->problem.in[0].dtype;
    a.x = args->in[0];
    a.y = args->out[0];
    return CUDA_DISPATCH(e->problem.out[0].dtype, run_fill, &a, args->stream,
                         err);
}

/* Rows that are not flagged strided get aligned tensors. */
KERN_FUNCTIONS(copy_cuda_fill) = {
    .supports = supports_fill,
    .launch = launch_fill,
};

bool cuda_has_code(void)
{
    struct cudaFuncAttributes a;
    const cudaError_t code = cudaFuncGetAttributes(
        &a, reinterpret_cast<const void *>(
                walk_kernel<move_element<uint32_t, uint32_t>, false,
                            struct copy_args>));

    (void)cudaGetLastError();
    return code == cudaSuccess;
}
