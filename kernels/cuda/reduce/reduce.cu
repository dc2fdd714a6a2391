/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions over any set of dimensions, and the index of the extreme along
 * one.
 *
 * Reals: a block of 256 threads is X outputs by Y = 256 / X parts of each
 * output's elements, as many parts as an output has elements, and at least 32
 * outputs where the innermost dimension of the input stays (so that a warp
 * reads neighbours).  Parts are joined in shared memory (1 KiB) in a fixed
 * order.  Integers: one thread an output.  Index:
 * one warp an output.
 */
#include "kernels/cuda/integer.cuh"
#include "kernels/cuda/reduce/reduce.cuh"

#define THREADS 256

/* ---- reals --------------------------------------------------------- */

struct block_args {
    struct reduce_args reduce;
    int columns; /* X */
};

/* A part for each element, as far as that goes; where the innermost dimension
 * stays, a warp reads neighbours. */
static int columns_of(const struct reduce_args *a)
{
    int columns = THREADS;

    while (columns > (a->inner_kept ? 32 : 1) &&
           THREADS / columns < a->gone.count)
        columns /= 2;
    return columns;
}

template <typename T>
static __global__ void __launch_bounds__(THREADS)
    reduce_kernel(const __grid_constant__ struct block_args b)
{
    __shared__ float part[THREADS];
    const struct reduce_args &a = b.reduce;
    const int columns = b.columns, parts = THREADS / columns;
    const int column = threadIdx.x % columns, mine = threadIdx.x / columns;
    const int64_t groups = (a.kept.count + columns - 1) / columns;

    launch_wait();
    for (int64_t group = blockIdx.x; group < groups; group += gridDim.x) {
        const int64_t output = group * columns + column;
        const bool here = output < a.kept.count;
        int64_t at[3] = {0, 0, 0}, step[1];
        float acc = reduce_start(a.kind);

        if (here) {
            a.kept.offsets(output, at);
            for (int64_t i = mine; i < a.gone.count; i += parts) {
                a.gone.offsets(i, step);
                const float x = to_float(((const T *)a.x)[at[2] + step[0]]);
                acc = reduce_join(a.kind, acc, reduce_term(a.kind, x));
            }
        }
        part[threadIdx.x] = acc;
        for (int half = parts / 2; half > 0; half /= 2) {
            __syncthreads();
            if (mine < half)
                part[threadIdx.x] =
                    reduce_join(a.kind, part[threadIdx.x],
                                part[threadIdx.x + half * columns]);
        }
        if (here && mine == 0) {
            float y = reduce_end(a.kind, part[threadIdx.x], a.gone.count);
            if (a.residual)
                y += to_float(((const T *)a.residual)[at[1]]);
            ((T *)a.y)[at[0]] = from_float<T>(y);
        }
        __syncthreads(); /* before the next group overwrites */
    }
}

template <typename T>
static int run(const struct kern_problem *p, const struct kern_args *args,
               struct infer_error *err)
{
    struct block_args a = {};

    reduce_walks(&a.reduce, p);
    a.reduce.x = args->in[0];
    a.reduce.residual = args->in[1];
    a.reduce.y = args->out[0];
    a.columns = columns_of(&a.reduce);
    if (a.reduce.kept.count == 0)
        return 0;
    return launch_chained(reduce_kernel<T>,
                          cuda_grid(a.reduce.kept.count, a.columns), THREADS, 0,
                          args->stream, a, err);
}

CUDA_LAUNCH(launch, run, &e->problem)

KERN_FUNCTIONS(reduce_cuda_block) = {
    .supports = supports_types<>,
    .launch = launch,
};

/* ---- integers ------------------------------------------------------ */

static __device__ int64_t join_i64(enum kern_reduce_kind kind, int64_t acc,
                                   int64_t x, bool first)
{
    switch (kind) {
    case KERN_REDUCE_MAX:
        return first || x > acc ? x : acc;
    case KERN_REDUCE_MIN:
        return first || x < acc ? x : acc;
    case KERN_REDUCE_PROD:
        return integer_multiply(acc, x);
    case KERN_REDUCE_L1:
        return integer_add(acc, x < 0 ? integer_multiply(x, -1) : x);
    case KERN_REDUCE_L2:
        return integer_add(acc, integer_multiply(x, x));
    }
    return integer_add(acc, x); /* sums and means */
}

static __global__ void __launch_bounds__(THREADS)
    integer_kernel(const __grid_constant__ struct reduce_args a,
                   enum infer_dtype to)
{
    for (int64_t o = blockIdx.x * (int64_t)THREADS + threadIdx.x;
         o < a.kept.count; o += (int64_t)gridDim.x * THREADS) {
        int64_t at[3], step[1];
        int64_t acc = a.kind == KERN_REDUCE_PROD;

        a.kept.offsets(o, at);
        for (int64_t i = 0; i < a.gone.count; i++) {
            a.gone.offsets(i, step);
            acc = join_i64(a.kind, acc, load_i64(a.type, a.x, at[2] + step[0]),
                           i == 0);
        }
        if (a.kind == KERN_REDUCE_MEAN)
            acc = a.gone.count ? acc / a.gone.count : 0;
        if (a.kind == KERN_REDUCE_L2)
            acc = (int64_t)sqrt((double)(uint64_t)acc);
        store_wrapped(to, a.y, at[0], acc);
    }
}

static int supports_integer(const struct kern_problem *p,
                            const struct kern_device *d,
                            struct infer_error *why)
{
    (void)d;
    if (kern_problem_in(p, 1))
        return error_set(why, INFER_EUNSUPPORTED,
                         "reduce: integers take no residual");
    if (is_integer(p->in[0].dtype) && is_integer(p->out[0].dtype) &&
        p->in[0].dtype != INFER_U64)
        return 0;
    return error_set(why, INFER_EUNSUPPORTED,
                     "reduce: %s to %s, supported are integers but U64",
                     infer_dtype_name(p->in[0].dtype),
                     infer_dtype_name(p->out[0].dtype));
}

static int launch_integer(const struct kern_exec *e,
                          const struct kern_args *args, struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    struct reduce_args a = {};

    reduce_walks(&a, p);
    a.type = p->in[0].dtype;
    a.x = args->in[0];
    a.y = args->out[0];
    if (a.kept.count == 0)
        return 0;
    integer_kernel<<<cuda_grid(a.kept.count, THREADS), THREADS, 0,
                     cuda_stream(args)>>>(a, p->out[0].dtype);
    return CUDA_LAUNCHED(err);
}

KERN_FUNCTIONS(reduce_cuda_integer) = {
    .supports = supports_integer,
    .launch = launch_integer,
};

/* ---- index of the extreme ------------------------------------------ */

struct arg_args {
    struct cuda_strided<2> walk; /* x, y */
    int64_t n, stride;           /* along the axis */
    bool min, last;
    enum infer_dtype type;
    const void *x;
    int64_t *y;
};

/* True if element i of value x wins over element j of value y; j < 0:
 * there is none yet.  NaN counts as greatest and as smallest. */
static __device__ bool wins(const struct arg_args &a, double x, int64_t i,
                            double y, int64_t j)
{
    const bool ahead = a.last ? i > j : i < j;

    if (i < 0 || j < 0)
        return i >= 0;
    if (y != y)
        return x != x && ahead;
    if (x != x)
        return true;
    if (x == y)
        return ahead;
    return a.min ? x < y : x > y;
}

static __global__ void __launch_bounds__(THREADS)
    arg_kernel(const __grid_constant__ struct arg_args a)
{
    const int lane = threadIdx.x % 32;
    const int64_t warps = (int64_t)gridDim.x * (THREADS / 32);

    /* The warp stays whole: the loop's bound is the same for all lanes. */
    for (int64_t o = blockIdx.x * (int64_t)(THREADS / 32) + threadIdx.x / 32;
         o < a.walk.count; o += warps) {
        int64_t at[2], best = -1;
        double value = 0;

        a.walk.offsets(o, at);
        for (int64_t i = lane; i < a.n; i += 32) {
            const double x = load_any(a.type, a.x, at[0] + i * a.stride);
            if (wins(a, x, i, value, best)) {
                value = x;
                best = i;
            }
        }
        for (int step = 16; step > 0; step /= 2) {
            const double x = __shfl_down_sync(~0u, value, step);
            const long long i = __shfl_down_sync(~0u, (long long)best, step);
            if (wins(a, x, i, value, best)) {
                value = x;
                best = i;
            }
        }
        if (lane == 0)
            a.y[at[1]] = best;
    }
}

static int supports_arg(const struct kern_problem *p,
                        const struct kern_device *d, struct infer_error *why)
{
    const enum infer_dtype t = p->in[0].dtype;

    (void)d;
    if (t != INFER_I64 && t != INFER_U64)
        return 0;
    return error_set(why, INFER_EUNSUPPORTED,
                     "arg_reduce: %s, supported are floating point and "
                     "integers up to 32 bits",
                     infer_dtype_name(t));
}

static int launch_arg(const struct kern_exec *e, const struct kern_args *args,
                      struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_arg_reduce *r = &p->attr.arg_reduce;
    struct kern_tensor x = p->in[0];
    const struct kern_tensor *const t[2] = {&x, &p->out[0]};
    struct arg_args a = {};

    x.dim[r->axis] = 1;
    a.walk.init(x.rank, p->out[0].dim, t);
    a.n = p->in[0].dim[r->axis];
    a.stride = p->in[0].stride[r->axis];
    a.min = r->min;
    a.last = r->select_last;
    a.type = x.dtype;
    a.x = args->in[0];
    a.y = (int64_t *)args->out[0];
    if (a.walk.count == 0)
        return 0;
    arg_kernel<<<cuda_grid(a.walk.count, THREADS / 32), THREADS, 0,
                 cuda_stream(args)>>>(a);
    return CUDA_LAUNCHED(err);
}

KERN_FUNCTIONS(arg_reduce_cuda_warp) = {
    .supports = supports_arg,
    .launch = launch_arg,
};
