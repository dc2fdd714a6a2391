/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of one argument, alone and as the activation of others. */
#include <math.h>

#include "kernels/ref/ref.h"

/* NaN passes through both bounds. */
static double clip(double x, double low, double high)
{
    if (x < low)
        x = low;
    return x > high ? high : x;
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* log(exp x + 1) without overflow for large x. */
static double softplus(double x)
{
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

static double gelu(double x)
{
    return 0.5 * x * (1 + erf(x * 0.70710678118654752440)); /* 1/sqrt(2) */
}

static double gelu_tanh(double x)
{
    const double root = 0.79788456080286535588; /* sqrt(2/pi) */

    return 0.5 * x * (1 + tanh(root * (x + 0.044715 * x * x * x)));
}

static double sign(double x)
{
    if (x > 0)
        return 1;
    return x < 0 ? -1 : x; /* zero and NaN stay */
}

double ref_unary(const struct kern_unary *f, double x)
{
    const double a = (double)f->a, b = (double)f->b;

    switch (f->kind) {
    case KERN_IDENTITY:
        return x;
    case KERN_RELU:
        return x < 0 ? 0 : x;
    case KERN_LEAKY_RELU:
        return x < 0 ? a * x : x;
    case KERN_CLIP:
        return clip(x, a, b);
    case KERN_SIGMOID:
        return sigmoid(x);
    case KERN_TANH:
        return tanh(x);
    case KERN_SILU:
        return x * sigmoid(a * x);
    case KERN_HARD_SIGMOID:
        return clip(a * x + b, 0, 1);
    case KERN_HARD_SWISH:
        return x * clip(x / 6 + 0.5, 0, 1);
    case KERN_ELU:
        return x < 0 ? a * expm1(x) : x;
    case KERN_SELU:
        return b * (x < 0 ? a * expm1(x) : x);
    case KERN_CELU:
        return x < 0 ? a * expm1(x / a) : x;
    case KERN_SOFTPLUS:
        return softplus(x);
    case KERN_SOFTSIGN:
        return x / (1 + fabs(x));
    case KERN_MISH:
        return x * tanh(softplus(x));
    case KERN_GELU:
        return gelu(x);
    case KERN_GELU_TANH:
        return gelu_tanh(x);
    case KERN_THRESHOLDED_RELU:
        return x > a || isnan(x) ? x : 0;
    case KERN_LINEAR:
        return a * x + b;
    case KERN_ERF:
        return erf(x);
    case KERN_EXP:
        return exp(x);
    case KERN_LOG:
        return log(x);
    case KERN_SQRT:
        return sqrt(x);
    case KERN_RECIPROCAL:
        return 1 / x;
    case KERN_ABS:
        return fabs(x);
    case KERN_NEG:
        return -x;
    case KERN_SIGN:
        return sign(x);
    case KERN_FLOOR:
        return floor(x);
    case KERN_CEIL:
        return ceil(x);
    case KERN_ROUND:
        return nearbyint(x);
    case KERN_NOT:
        return x == 0;
    case KERN_UNARY_COUNT:
        break;
    }
    return x;
}

/* Kinds whose value on an integer is an integer: computed without double. */
static bool is_exact_kind(enum kern_unary_kind kind)
{
    switch (kind) {
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
        return true;
    default:
        return false;
    }
}

/* The bounds are cut to 64 bits; scalar_load_i64() of a double saturates. */
static int64_t clip_i64(int64_t x, float low, float high)
{
    const double l = ceil((double)low), h = floor((double)high);
    const int64_t from = scalar_load_i64(INFER_F64, &l, 0);
    const int64_t to = scalar_load_i64(INFER_F64, &h, 0);

    if (x < from)
        x = from;
    return x > to ? to : x;
}

static int64_t unary_i64(const struct kern_unary *f, int64_t x)
{
    switch (f->kind) {
    case KERN_RELU:
        return x < 0 ? 0 : x;
    case KERN_CLIP:
        return clip_i64(x, f->a, f->b);
    case KERN_ABS:
        return x < 0 ? ref_mul_i64(x, -1) : x;
    case KERN_NEG:
        return ref_mul_i64(x, -1);
    case KERN_SIGN:
        return (x > 0) - (x < 0);
    case KERN_NOT:
        return x == 0;
    default: /* identity and the roundings */
        return x;
    }
}

static bool is_exact(const struct kern_problem *p)
{
    return scalar_is_integer(p->in[0].dtype) &&
           is_exact_kind(p->attr.unary.kind);
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    return is_exact(p) ? ref_supports_all(p, d, why)
                       : ref_supports_double(p, d, why);
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *x = &p->in[0], *y = &p->out[0];
    const struct kern_unary *f = &p->attr.unary;
    const bool exact = is_exact(p);
    struct ref_walk w;

    (void)err;
    ref_walk_start(&w, y->rank, y->dim);
    ref_walk_add(&w, x);
    ref_walk_add(&w, y);
    for (; !w.done; ref_walk_next(&w)) {
        if (exact)
            scalar_store_i64(y->dtype, args->out[0], w.offset[1],
                             unary_i64(f, scalar_load_i64(x->dtype, args->in[0],
                                                          w.offset[0])));
        else
            ref_store(
                y->dtype, args->out[0], w.offset[1],
                ref_unary(f, ref_load(x->dtype, args->in[0], w.offset[0])));
    }
    return 0;
}

const struct kern_row unary_ref = {
    REF_ROW(unary_ref, KERN_UNARY),
    .supports = supports,
    .launch = launch,
};
