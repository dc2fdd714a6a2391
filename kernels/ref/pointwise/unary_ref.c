/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of one argument, alone and as the activation of others, and their
 * derivatives: kernels/unary.def in double precision. */
#include <math.h>

#include "kernels/ref/ref.h"
#include "kernels/unary.h"

typedef double real;

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

#define REAL(c)               c
#define REAL_ABS              fabs
#define REAL_CEIL             ceil
#define REAL_ERF              erf
#define REAL_EXP              exp
#define REAL_EXPM1            expm1
#define REAL_FLOOR            floor
#define REAL_LOG              log
#define REAL_RINT             nearbyint
#define REAL_SQRT             sqrt
#define REAL_TANH             tanh
#define REAL_SIN              sin
#define REAL_COS              cos
#define REAL_TAN              tan
#define REAL_ASIN             asin
#define REAL_ACOS             acos
#define REAL_ATAN             atan
#define REAL_SINH             sinh
#define REAL_COSH             cosh
#define REAL_ASINH            asinh
#define REAL_ACOSH            acosh
#define REAL_ATANH            atanh
#define REAL_SIGMOID          sigmoid
#define REAL_SOFTPLUS         softplus
#define REAL_CLIP             clip
#define REAL_MADD(a, x, b)    ((a) * (x) + (b))
#define REAL_DIV_ADD(x, c, b) ((x) / (c) + (b))
#define REAL_ABOVE(x, a)      ((x) > (a) || isnan(x))
#define REAL_FLAT(x)          0
#define FORM                  static inline
#include "kernels/unary_forms.h"

/* Override: multiplies in another order than single precision does. */
#define DERIVATIVE_KERN_GELU                                                   \
    , 0.5 * (1 + erf(x * 0.70710678118654752440)) +                            \
          x *(exp(-0.5 * x * x) * 0.39894228040143267794)

double ref_unary(const struct kern_unary *f, double x)
{
    const double a = (double)f->a, b = (double)f->b;

    switch (f->kind) {
#define UNARY(kind, name, facts, value, derivative)                            \
    case kind:                                                                 \
        return value;
#include "kernels/unary.def"
    case KERN_UNARY_COUNT:
        break;
    }
    return NAN;
}

double ref_unary_derivative(const struct kern_unary *f, double x)
{
    const double a = (double)f->a, b = (double)f->b;

    switch (f->kind) {
#define UNARY(kind, name, facts, value, derivative)                            \
    case kind:                                                                 \
        return OVERRIDE_OR(DERIVATIVE_##kind, derivative);
#include "kernels/unary.def"
    case KERN_UNARY_COUNT:
        break;
    }
    return NAN;
}

double ref_unary_derivative_from_output(const struct kern_unary *f, double y)
{
    const double a = (double)f->a, b = (double)f->b;

    switch (f->kind) {
#define UNARY(kind, name, facts, value, derivative)                            \
    case kind:                                                                 \
        return ref_unary_derivative(f, y);
#define UNARY_FROM_OUTPUT(kind, name, facts, value, derivative, from_output)   \
    case kind:                                                                 \
        return from_output;
#include "kernels/unary.def"
    case KERN_UNARY_COUNT:
        break;
    }
    return NAN;
}

/* ---- integers ------------------------------------------------------ */

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

#define INT_NEG(x)  ref_mul_i64(x, -1)
#define INT_CLIP(x) clip_i64(x, f->a, f->b)

/* f keeps integers: kern_unary_keeps_integers(). */
static int64_t unary_i64(const struct kern_unary *f, int64_t x)
{
#define UNARY_INTEGER(of, value)                                               \
    if (f->kind == (of))                                                       \
        return value;
#include "kernels/unary.def"
    return 0;
}

static bool is_exact(const struct kern_problem *p)
{
    return scalar_is_integer(p->in[0].dtype) &&
           kern_unary_keeps_integers(p->attr.unary.kind);
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
            ref_wrap_i64(y->dtype, args->out[0], w.offset[1],
                         unary_i64(f, scalar_load_i64(x->dtype, args->in[0],
                                                      w.offset[0])));
        else
            ref_store(
                y->dtype, args->out[0], w.offset[1],
                ref_unary(f, ref_load(x->dtype, args->in[0], w.offset[0])));
    }
    return 0;
}

KERN_FUNCTIONS(unary_ref) = {
    .supports = supports,
    .launch = launch,
};
