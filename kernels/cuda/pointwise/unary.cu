/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of one argument: pointwise.cuh has the index map; integers go one
 * by one. */
#include "kernels/cuda/integer.cuh"
#include "kernels/cuda/pointwise/pointwise.cuh"
#include "kernels/unary.h"

struct unary : pointwise_function<1> {
    static void set(struct pointwise<1> *a, const struct kern_problem *p)
    {
        a->f.unary = p->attr.unary;
    }
    static __device__ __forceinline__ float apply(const struct pointwise<1> &a,
                                                  const float *x)
    {
        return apply_unary(a.f.unary, x[0]);
    }
};

KERN_FUNCTIONS(unary_cuda_vec) = {
    .supports = supports_types<>,
    .launch = pointwise_launch<unary>,
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

#define INT_NEG(x)  integer_subtract(0, x)
#define INT_CLIP(x) min(max(x, a.low), a.high)

/* Of kinds that kern_unary_keeps_integers(). */
static __device__ int64_t apply_i64(const struct integer_args &a, int64_t x)
{
#define UNARY_INTEGER(of, value)                                               \
    if (a.kind == of)                                                          \
        return value;
#include "kernels/unary.def"
    return 0;
}

static __device__ __forceinline__ void
integer_element(const struct integer_args &a, const int64_t *at)
{
    store_wrapped(a.to, a.y, at[1], apply_i64(a, load_i64(a.from, a.x, at[0])));
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
    if (!kern_unary_keeps_integers(p->attr.unary.kind))
        return error_set(why, INFER_EUNSUPPORTED,
                         "unary: this function of integers is not supported");
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

KERN_FUNCTIONS(unary_cuda_integer) = {
    .supports = supports_integer,
    .launch = launch_integer,
};
