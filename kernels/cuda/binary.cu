/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of two arguments that broadcast to each other, with a residual and
 * an activation behind them: pointwise.cuh has the index map.  Comparisons
 * give BOOL; integers go one by one. */
#include "kernels/cuda/pointwise.cuh"

#define THREADS 256

/* 0 for what is no comparison. */
template <typename V>
static __device__ __forceinline__ bool compare(enum kern_binary_kind kind, V a,
                                               V b)
{
    switch (kind) {
    case KERN_EQUAL:
        return a == b;
    case KERN_LESS:
        return a < b;
    case KERN_LESS_EQUAL:
        return a <= b;
    case KERN_GREATER:
        return a > b;
    case KERN_GREATER_EQUAL:
        return a >= b;
    case KERN_AND:
        return a != 0 && b != 0;
    case KERN_OR:
        return a != 0 || b != 0;
    default:
        return false;
    }
}

/* The sign of the divisor, as Python's %. */
static __device__ float modulo(float a, float b)
{
    const float r = fmodf(a, b);

    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static __device__ __noinline__ float binary_rare(enum kern_binary_kind kind,
                                                 float a, float b)
{
    switch (kind) {
    case KERN_POW:
        return powf(a, b);
    case KERN_MOD:
        return modulo(a, b);
    default:
        return compare(kind, a, b);
    }
}

static __device__ __forceinline__ float apply_binary(enum kern_binary_kind kind,
                                                     float a, float b)
{
    switch (kind) {
    case KERN_ADD:
        return a + b;
    case KERN_SUB:
        return a - b;
    case KERN_MUL:
        return a * b;
    case KERN_DIV:
        return a / b;
    case KERN_MIN: /* NaN wins */
        return a < b || a != a ? a : b;
    case KERN_MAX:
        return a > b || a != a ? a : b;
    default:
        return binary_rare(kind, a, b);
    }
}

struct binary {
    static const int N = 3;
    static __device__ __forceinline__ float neutral(int)
    {
        return 0;
    }
    static __device__ __forceinline__ float apply(const struct pointwise<3> &a,
                                                  const float *x)
    {
        return apply_epilogue(a.epilogue, apply_binary(a.f.binary, x[0], x[1]),
                              x[2]);
    }
};

template <typename T>
static int run(const struct kern_problem *p, const struct kern_args *args,
               struct infer_error *err)
{
    struct pointwise<3> a = {
    };

    pointwise_init<binary>(&a, p, args, 1, 0);
    a.f.binary = p->attr.binary.kind;
    if (p->out[0].dtype == INFER_BOOL)
        return pointwise_run<binary, T, uint8_t>(&a, args, err);
    return pointwise_run<binary, T, T>(&a, args, err);
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    struct kern_problem same = *p;

    (void)d;
    if (p->out[0].dtype == INFER_BOOL)
        same.out[0].dtype = p->in[0].dtype;
    return check_types(&same, 1, 0, why);
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    return CUDA_DISPATCH(e->problem.in[0].dtype, run, &e->problem, args, err);
}

CUDA_ROWS(binary, vec, KERN_BINARY, supports, launch)

/* ---- integers ------------------------------------------------------ */

struct integer_args {
    struct cuda_walk<3> walk;
    const void *x, *z;
    void *y;
    enum infer_dtype x_type, z_type, y_type;
    enum kern_binary_kind kind;
};

/* Sums and products saturate, as those of the reference do. */
static __device__ int64_t add_i64(int64_t a, int64_t b)
{
    const int64_t r = (int64_t)((uint64_t)a + (uint64_t)b);

    if (((a ^ r) & (b ^ r)) < 0)
        return a < 0 ? INT64_MIN : INT64_MAX;
    return r;
}

static __device__ int64_t subtract_i64(int64_t a, int64_t b)
{
    const int64_t r = (int64_t)((uint64_t)a - (uint64_t)b);

    if (((a ^ b) & (a ^ r)) < 0)
        return a < 0 ? INT64_MIN : INT64_MAX;
    return r;
}

static __device__ int64_t multiply_i64(int64_t a, int64_t b)
{
    const int64_t low = (int64_t)((uint64_t)a * (uint64_t)b);
    const int64_t high = __mul64hi(a, b);

    if (high != low >> 63)
        return (a < 0) != (b < 0) ? INT64_MIN : INT64_MAX;
    return low;
}

static __device__ int64_t divide_i64(int64_t a, int64_t b)
{
    if (b == 0)
        return 0;
    return b == -1 ? multiply_i64(a, -1) : a / b;
}

static __device__ int64_t modulo_i64(int64_t a, int64_t b)
{
    if (b == 0 || b == -1)
        return 0;
    const int64_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

/* By squaring; a negative power is 1 / a^|b|, truncated. */
static __device__ int64_t power_i64(int64_t a, int64_t b)
{
    int64_t r = 1;

    if (b < 0)
        return a == 1 || a == -1 ? (b & 1 ? a : 1) : 0;
    while (b > 0) {
        if (b & 1)
            r = multiply_i64(r, a);
        b >>= 1;
        if (b > 0)
            a = multiply_i64(a, a);
    }
    return r;
}

static __device__ int64_t apply_i64(enum kern_binary_kind kind, int64_t a,
                                    int64_t b)
{
    switch (kind) {
    case KERN_ADD:
        return add_i64(a, b);
    case KERN_SUB:
        return subtract_i64(a, b);
    case KERN_MUL:
        return multiply_i64(a, b);
    case KERN_DIV:
        return divide_i64(a, b);
    case KERN_POW:
        return power_i64(a, b);
    case KERN_MIN:
        return a < b ? a : b;
    case KERN_MAX:
        return a > b ? a : b;
    case KERN_MOD:
        return modulo_i64(a, b);
    default:
        return compare(kind, a, b);
    }
}

static __global__ void __launch_bounds__(THREADS)
    integer_kernel(const __grid_constant__ struct integer_args a)
{
    for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
         i < a.walk.count; i += (int64_t)gridDim.x * THREADS) {
        int64_t at[3];
        a.walk.offsets(i, at);
        store_i64(a.y_type, a.y, at[2],
                  apply_i64(a.kind, load_i64(a.x_type, a.x, at[0]),
                            load_i64(a.z_type, a.z, at[1])));
    }
}

static int supports_integer(const struct kern_problem *p,
                            const struct kern_device *d,
                            struct infer_error *why)
{
    (void)d;
    if (!is_integer(p->in[0].dtype) || !is_integer(p->in[1].dtype) ||
        !is_integer(p->out[0].dtype) || p->in[0].dtype == INFER_U64 ||
        p->in[1].dtype == INFER_U64)
        return error_set(why, INFER_EUNSUPPORTED,
                         "binary: %s and %s to %s, supported are integers but "
                         "U64",
                         infer_dtype_name(p->in[0].dtype),
                         infer_dtype_name(p->in[1].dtype),
                         infer_dtype_name(p->out[0].dtype));
    if (kern_problem_in(p, 2) || p->epilogue.act.kind != KERN_IDENTITY)
        return error_set(why, INFER_EUNSUPPORTED,
                         "binary: nothing may follow a function of integers");
    return 0;
}

static int launch_integer(const struct kern_exec *e,
                          const struct kern_args *args, struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *const t[3] = {&p->in[0], &p->in[1], &p->out[0]};
    struct integer_args a = {};

    a.walk.init(p->out[0].rank, p->out[0].dim, t);
    a.x = args->in[0];
    a.z = args->in[1];
    a.y = args->out[0];
    a.x_type = p->in[0].dtype;
    a.z_type = p->in[1].dtype;
    a.y_type = p->out[0].dtype;
    a.kind = p->attr.binary.kind;
    if (a.walk.count == 0)
        return 0;
    integer_kernel<<<cuda_grid(a.walk.count, THREADS), THREADS, 0,
                     cuda_stream(args)>>>(a);
    return CUDA_LAUNCHED(err);
}

CUDA_ROW(binary_cuda_integer, KERN_BINARY, INFER_NONE, supports_integer,
         launch_integer)
