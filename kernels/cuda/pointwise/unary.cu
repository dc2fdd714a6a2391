/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of one argument: pointwise.cuh has the index map; integers go one
 * by one. */
#include "kernels/cuda/pointwise/pointwise.cuh"

struct unary {
    static const int N = 1;
    static __device__ __forceinline__ float neutral(int)
    {
        return 0;
    }
    static __device__ __forceinline__ float apply(const struct pointwise<1> &a,
                                                  const float *x)
    {
        return apply_unary(a.f.unary, x[0]);
    }
};

template <typename T>
static int run(const struct kern_problem *p, const struct kern_args *args,
               struct infer_error *err)
{
    struct pointwise<1> a = {
    };

    pointwise_init<unary>(&a, p, args, 1, 0);
    a.f.unary = p->attr.unary;
    return pointwise_run<unary, T, T>(&a, args, err);
}

CUDA_LAUNCH(launch, run, &e->problem)

const struct kern_functions unary_cuda_vec = {
    .supports = supports_types<>,
    .launch = launch,
};

/* ---- integers ------------------------------------------------------ */

struct integer_args {
    struct cuda_strided<2> walk;
    const void *x;
    void *y;
    enum infer_dtype from, to;
    enum kern_unary_kind kind;
    int64_t low, high; /* of a clip */
};

static __device__ int64_t negate(int64_t x)
{
    return x == INT64_MIN ? INT64_MAX : -x;
}

static __device__ int64_t apply_i64(const struct integer_args &a, int64_t x)
{
    switch (a.kind) {
    case KERN_RELU:
        return x < 0 ? 0 : x;
    case KERN_CLIP:
        x = x < a.low ? a.low : x;
        return x > a.high ? a.high : x;
    case KERN_ABS:
        return x < 0 ? negate(x) : x;
    case KERN_NEG:
        return negate(x);
    case KERN_SIGN:
        return (x > 0) - (x < 0);
    case KERN_NOT:
        return x == 0;
    default: /* identity and the roundings */
        return x;
    }
}

static __device__ __forceinline__ void
integer_element(const struct integer_args &a, const int64_t *at)
{
    store_i64(a.to, a.y, at[1], apply_i64(a, load_i64(a.from, a.x, at[0])));
}

static int64_t bound(double v)
{
    if (v >= 9223372036854775808.0)
        return INT64_MAX;
    return v <= -9223372036854775808.0 ? INT64_MIN : (int64_t)v;
}

static int supports_integer(const struct kern_problem *p,
                            const struct kern_device *d,
                            struct infer_error *why)
{
    (void)d;
    switch (p->attr.unary.kind) {
    case KERN_IDENTITY:
    case KERN_RELU:
    case KERN_CLIP:
    case KERN_ABS:
    case KERN_NEG:
    case KERN_SIGN:
    case KERN_FLOOR:
    case KERN_CEIL:
    case KERN_ROUND:
    case KERN_NOT:
        break;
    default:
        return error_set(why, INFER_EUNSUPPORTED,
                         "unary: this function of integers is not supported");
    }
    if (!is_integer(p->in[0].dtype) || !is_integer(p->out[0].dtype) ||
        p->in[0].dtype == INFER_U64)
        return error_set(why, INFER_EUNSUPPORTED,
                         "unary: %s to %s, supported are integers but U64",
                         infer_dtype_name(p->in[0].dtype),
                         infer_dtype_name(p->out[0].dtype));
    return 0;
}

static int launch_integer(const struct kern_exec *e,
                          const struct kern_args *args, struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *const t[2] = {&p->in[0], &p->out[0]};
    struct integer_args a = {};

    a.walk.init(p->out[0].rank, p->out[0].dim, t);
    a.x = args->in[0];
    a.y = args->out[0];
    a.from = p->in[0].dtype;
    a.to = p->out[0].dtype;
    a.kind = p->attr.unary.kind;
    if (a.kind == KERN_CLIP) {
        a.low = bound(__builtin_ceil((double)p->attr.unary.a));
        a.high = bound(__builtin_floor((double)p->attr.unary.b));
    }
    return walk_launch<integer_element>(a, args, err);
}

const struct kern_functions unary_cuda_integer = {
    .supports = supports_integer,
    .launch = launch_integer,
};
