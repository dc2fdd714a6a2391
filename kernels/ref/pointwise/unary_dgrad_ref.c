/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient of functions of one argument, by x or by y. */
#include <math.h>

#include "kernels/ref/ref.h"

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double silu_slope(double a, double x)
{
    const double s = sigmoid(a * x);

    return s * (1 + a * x * (1 - s));
}

static double hard_swish_slope(double x)
{
    if (x <= -3)
        return 0;
    return x < 3 ? x / 3 + 0.5 : 1;
}

/* x tanh(s), s = softplus x, whose derivative is sigmoid x. */
static double mish_slope(double x)
{
    const double t = tanh(x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)));

    return t + x * (1 - t * t) * sigmoid(x);
}

static double gelu_slope(double x)
{
    const double density = exp(-0.5 * x * x) * 0.39894228040143267794;

    return 0.5 * (1 + erf(x * 0.70710678118654752440)) + x * density;
}

static double gelu_tanh_slope(double x)
{
    const double root = 0.79788456080286535588; /* sqrt(2/pi) */
    const double t = tanh(root * (x + 0.044715 * x * x * x));

    return 0.5 * (1 + t) +
           0.5 * x * (1 - t * t) * root * (1 + 3 * 0.044715 * x * x);
}

double ref_unary_slope(const struct kern_unary *f, double x)
{
    const double a = (double)f->a, b = (double)f->b;

    switch (f->kind) {
    case KERN_IDENTITY:
        return 1;
    case KERN_RELU:
        return x > 0;
    case KERN_LEAKY_RELU:
        return x < 0 ? a : 1;
    case KERN_CLIP:
        return x > a && x < b;
    case KERN_SIGMOID:
        return sigmoid(x) * (1 - sigmoid(x));
    case KERN_TANH:
        return 1 - tanh(x) * tanh(x);
    case KERN_SILU:
        return silu_slope(a, x);
    case KERN_HARD_SIGMOID:
        return a * x + b > 0 && a * x + b < 1 ? a : 0;
    case KERN_HARD_SWISH:
        return hard_swish_slope(x);
    case KERN_ELU:
        return x < 0 ? a * exp(x) : 1;
    case KERN_SELU:
        return b * (x < 0 ? a * exp(x) : 1);
    case KERN_CELU:
        return x < 0 ? exp(x / a) : 1;
    case KERN_SOFTPLUS:
        return sigmoid(x);
    case KERN_SOFTSIGN:
        return 1 / ((1 + fabs(x)) * (1 + fabs(x)));
    case KERN_MISH:
        return mish_slope(x);
    case KERN_GELU:
        return gelu_slope(x);
    case KERN_GELU_TANH:
        return gelu_tanh_slope(x);
    case KERN_THRESHOLDED_RELU:
        return x > a;
    case KERN_LINEAR:
        return a;
    case KERN_ERF:
        return exp(-x * x) * 1.12837916709551257390; /* 2/sqrt(pi) */
    case KERN_EXP:
        return exp(x);
    case KERN_LOG:
        return 1 / x;
    case KERN_SQRT:
        return 0.5 / sqrt(x);
    case KERN_RECIPROCAL:
        return -1 / (x * x);
    case KERN_ABS:
        return (x > 0) - (x < 0);
    case KERN_NEG:
        return -1;
    default: /* roundings, sign, NOT */
        return 0;
    }
}

double ref_unary_slope_by_y(const struct kern_unary *f, double y)
{
    const double a = (double)f->a, b = (double)f->b;

    switch (f->kind) {
    case KERN_SIGMOID:
        return y * (1 - y);
    case KERN_TANH:
        return 1 - y * y;
    case KERN_ELU:
        return y < 0 ? y + a : 1;
    case KERN_SELU:
        return y < 0 ? y + a * b : b;
    case KERN_SOFTPLUS:
        return -expm1(-y);
    case KERN_EXP:
        return y;
    case KERN_SQRT:
        return 0.5 / y;
    case KERN_RECIPROCAL:
        return -y * y;
    default: /* where y lies on the same side as x */
        return ref_unary_slope(f, y);
    }
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_unary *f = &p->attr.unary;
    const struct kern_tensor *x = kern_problem_in(p, 1);
    const struct kern_tensor *residual = kern_problem_in(p, 3);
    const struct kern_tensor *dy = &p->in[0], *dx = &p->out[0];
    const struct kern_tensor *from = x ? x : &p->in[2];
    const void *base = x ? args->in[1] : args->in[2];
    struct ref_walk w;

    (void)err;
    ref_walk_start(&w, dx->rank, dx->dim);
    ref_walk_add(&w, dy);
    ref_walk_add(&w, from);
    ref_walk_add(&w, dx);
    if (residual)
        ref_walk_add(&w, residual);
    for (; !w.done; ref_walk_next(&w)) {
        const double v = ref_load(from->dtype, base, w.offset[1]);
        const double slope =
            x ? ref_unary_slope(f, v) : ref_unary_slope_by_y(f, v);
        ref_store(dx->dtype, args->out[0], w.offset[2],
                  ref_load(dy->dtype, args->in[0], w.offset[0]) * slope +
                      ref_optional(residual, args->in[3], w.offset[3], 0));
    }
    return 0;
}

const struct kern_row unary_dgrad_ref = {
    REF_ROW(unary_dgrad_ref, KERN_UNARY_DGRAD),
    .supports = ref_supports_double,
    .launch = launch,
};
