/* SPDX-License-Identifier: Apache-2.0 */
/* Element-wise operators of one tensor. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "kernels/base/error.h"
#include "weights/aten/aten.h"

/* The same function in ONNX. */
int aten_unary(struct onnx_import *im)
{
    struct pb_span x = aten_tensor(im, "self");

    /* Functions of reals make floats of integers. */
    if (aten_row(im)->param && im->rc == 0 &&
        !aten_is_float(aten_type_of(im, x)))
        x = aten_cast(im, x, INFER_F32);
    return ATEN_LAST(im, aten_row(im)->onnx, NULL, x);
}

/* Dropout and others that do nothing in inference, copies, and changes of the
 * memory's order. */
int aten_identity(struct onnx_import *im)
{
    if (aten_flag(im, "train", false) || aten_flag(im, "training", false))
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "the program was exported in training mode: call "
                         "eval() before the export");
    return aten_same(im, 0,
                     aten_tensor(im, aten_has(im, "self") ? "self" : "input"));
}

/* Asserts and hints on sizes. */
int aten_nothing(struct onnx_import *im)
{
    return im->rc;
}

/* One attribute whose name and default are the row's. */
static int with_attr(struct onnx_import *im, const char *op,
                     const char *parameter, const char *attr, double otherwise)
{
    struct aten_attrs a = {.n = 0};

    aten_set_float(&a, attr, aten_number(im, parameter, otherwise));
    return ATEN_LAST(im, op, &a, aten_tensor(im, "self"));
}

int aten_leaky_relu(struct onnx_import *im)
{
    return with_attr(im, "LeakyRelu", "negative_slope", "alpha", 0.01);
}

int aten_celu(struct onnx_import *im)
{
    return with_attr(im, "Celu", "alpha", "alpha", 1);
}

/* scale (x > 0 ? x : alpha (exp(input_scale x) - 1)) */
int aten_elu(struct onnx_import *im)
{
    const double scale = aten_number(im, "scale", 1);
    const struct pb_span x = aten_tensor(im, "self");
    struct aten_attrs a = {.n = 0};

    if (aten_number(im, "input_scale", 1) != 1)
        return onnx_fail(im, INFER_EUNSUPPORTED, "an elu of a scaled input");
    aten_set_float(&a, "alpha", aten_number(im, "alpha", 1));
    if (scale == 1)
        return ATEN_LAST(im, "Elu", &a, x);
    return ATEN_LAST(im, "Mul", NULL, ATEN_STEP(im, "Elu", &a, x),
                     aten_scalar(im, aten_type_of(im, x), scale));
}

/* The mean of the slopes that training draws from. */
int aten_rrelu(struct onnx_import *im)
{
    struct aten_attrs a = {.n = 0};

    if (aten_flag(im, "training", false))
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "the program was exported in training mode: call "
                         "eval() before the export");
    aten_set_float(
        &a, "alpha",
        (aten_number(im, "lower", 0.125) + aten_number(im, "upper", 1.0 / 3)) /
            2);
    return ATEN_LAST(im, "LeakyRelu", &a, aten_tensor(im, "self"));
}

int aten_gelu(struct onnx_import *im)
{
    const struct pb_span how = aten_text(im, "approximate");
    struct aten_attrs a = {.n = 0};

    if (pb_span_is(how, "tanh"))
        aten_set_word(&a, "approximate", "tanh");
    else if (how.bytes && !pb_span_is(how, "none"))
        return onnx_fail(im, INFER_EUNSUPPORTED, "gelu by '%.*s'",
                         PB_TEXT(how, 64));
    return ATEN_LAST(im, "Gelu", &a, aten_tensor(im, "self"));
}

int aten_prelu(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");
    struct pb_span w = aten_tensor(im, "weight");
    const int rank = aten_rank(im, x);
    int64_t shape[INFER_MAX_RANK];

    /* One number a channel, which is dimension 1. */
    if (im->rc == 0 && aten_rank(im, w) == 1 && rank > 2) {
        for (int d = 0; d < rank - 1; d++)
            shape[d] = 1;
        shape[0] = -1;
        w = ATEN_STEP(im, "Reshape", NULL, w, aten_list(im, rank - 1, shape));
    }
    return ATEN_LAST(im, "PRelu", NULL, x, w);
}

/* Bounds that are numbers or tensors, and may be absent. */
static struct pb_span bound(struct onnx_import *im, const char *name,
                            enum infer_dtype dtype)
{
    const struct aten_arg *a = aten_find(im, name);

    if (!a)
        return aten_no_input();
    if (a->kind == ATEN_VALUE)
        return aten_cast(im, aten_tensor(im, name), dtype);
    return aten_scalar(im, dtype, aten_number(im, name, 0));
}

int aten_clamp(struct onnx_import *im)
{
    struct pb_span x = aten_tensor(im, "self");
    enum infer_dtype dtype = aten_type_of(im, x);
    const char *const low = aten_row(im)->param ? "min_val" : "min";
    const char *const high = aten_row(im)->param ? "max_val" : "max";
    const struct aten_arg *a = aten_find(im, low), *b = aten_find(im, high);

    if (!aten_is_float(dtype) &&
        ((a && a->kind == ATEN_FLOAT) || (b && b->kind == ATEN_FLOAT)))
        x = aten_cast(im, x, dtype = INFER_F32);
    if (!a && !b && !aten_row(im)->param)
        return onnx_fail(im, INFER_EFORMAT, "a clamp without bounds");
    if (aten_row(im)->param && !a && !b)
        return ATEN_LAST(im, "Clip", NULL, x, aten_scalar(im, dtype, -1),
                         aten_scalar(im, dtype, 1));
    /* Bounds with shapes of their own. */
    if ((a && a->kind == ATEN_VALUE) || (b && b->kind == ATEN_VALUE)) {
        if (a)
            x = ATEN_STEP(im, "Max", NULL, x, bound(im, low, dtype));
        return b ? ATEN_LAST(im, "Min", NULL, x, bound(im, high, dtype))
                 : aten_same(im, 0, x);
    }
    return ATEN_LAST(im, "Clip", NULL, x, bound(im, low, dtype),
                     bound(im, high, dtype));
}

int aten_relu6(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");
    const enum infer_dtype dtype = aten_type_of(im, x);

    return ATEN_LAST(im, "Clip", NULL, x, aten_scalar(im, dtype, 0),
                     aten_scalar(im, dtype, 6));
}

int aten_silu(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");

    return ATEN_LAST(im, "Mul", NULL, x, ATEN_STEP(im, "Sigmoid", NULL, x));
}

int aten_hardsigmoid(struct onnx_import *im)
{
    struct aten_attrs a = {.n = 0};

    aten_set_float(&a, "alpha", 1.0 / 6);
    return ATEN_LAST(im, "HardSigmoid", &a, aten_tensor(im, "self"));
}

/* ln(1 + exp(beta x)) / beta, and x itself above the threshold, where the two
 * are equal in fp32. */
int aten_softplus(struct onnx_import *im)
{
    const double beta = aten_number(im, "beta", 1);
    struct pb_span x = aten_tensor(im, "self");

    if (aten_number(im, "threshold", 20) < 20)
        return onnx_fail(im, INFER_EUNSUPPORTED, "a softplus with threshold %g",
                         aten_number(im, "threshold", 20));
    if (beta == 1)
        return ATEN_LAST(im, "Softplus", NULL, x);
    x = ATEN_STEP(im, "Softplus", NULL, aten_mul(im, x, beta));
    return ATEN_LAST(im, "Mul", NULL, x,
                     aten_scalar(im, aten_type_of(im, x), 1 / beta));
}

/* -softplus(-x) */
int aten_log_sigmoid(struct onnx_import *im)
{
    struct pb_span x = ATEN_STEP(im, "Neg", NULL, aten_tensor(im, "self"));

    x = ATEN_STEP(im, "Softplus", NULL, x);
    aten_give(im, 0, "Neg", NULL, 1, &x);
    return im->rc;
}

/* x where x > threshold, else value. */
int aten_threshold(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");
    const enum infer_dtype dtype = aten_type_of(im, x);
    const struct pb_span above =
        ATEN_STEP(im, "Greater", NULL, x,
                  aten_scalar(im, dtype, aten_number(im, "threshold", 0)));

    return ATEN_LAST(im, "Where", NULL, above, x,
                     aten_scalar(im, dtype, aten_number(im, "value", 0)));
}

/* param 1: soft, which is moved towards zero by lambd. */
int aten_shrink(struct onnx_import *im)
{
    const double lambda = aten_number(im, "lambd", 0.5);
    struct aten_attrs a = {.n = 0};

    aten_set_float(&a, "lambd", lambda);
    aten_set_float(&a, "bias", aten_row(im)->param ? lambda : 0);
    return ATEN_LAST(im, "Shrink", &a, aten_tensor(im, "self"));
}

int aten_tanhshrink(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");

    return ATEN_LAST(im, "Sub", NULL, x, ATEN_STEP(im, "Tanh", NULL, x));
}

/* The first half times the sigmoid of the second. */
int aten_glu(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");
    const int axis = aten_axis(im, "dim", aten_rank(im, x), -1);
    const int64_t size = aten_dim(im, x, axis);

    if (im->rc == 0 && (size < 2 || size % 2))
        return onnx_fail(im, INFER_EUNSUPPORTED, "glu of %lld elements",
                         (long long)size);
    return ATEN_LAST(
        im, "Mul", NULL, aten_cut(im, x, axis, 0, size / 2),
        ATEN_STEP(im, "Sigmoid", NULL, aten_cut(im, x, axis, size / 2, size)));
}

/* x to this power: squares, roots. */
int aten_rsqrt(struct onnx_import *im)
{
    const struct pb_span x = aten_cast(im, aten_tensor(im, "self"), INFER_F32);

    return ATEN_LAST(im, "Reciprocal", NULL, ATEN_STEP(im, "Sqrt", NULL, x));
}

int aten_square(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");

    return ATEN_LAST(im, "Mul", NULL, x, x);
}

/* exp(x) - 1 (param 0), ln(1 + x) (1), 2 to the x (2). */
int aten_exp_log(struct onnx_import *im)
{
    const struct pb_span x = aten_cast(im, aten_tensor(im, "self"), INFER_F32);
    struct pb_span y;

    switch (aten_row(im)->param) {
    case 0:
        y = ATEN_STEP(im, "Exp", NULL, x);
        return ATEN_LAST(im, "Sub", NULL, y, aten_scalar(im, INFER_F32, 1));
    case 1:
        y = ATEN_STEP(im, "Add", NULL, x, aten_scalar(im, INFER_F32, 1));
        return ATEN_LAST(im, "Log", NULL, y);
    default:
        return ATEN_LAST(im, "Pow", NULL, aten_scalar(im, INFER_F32, 2), x);
    }
}

/* Logarithms to the base param. */
int aten_log_base(struct onnx_import *im)
{
    struct pb_span x = aten_cast(im, aten_tensor(im, "self"), INFER_F32);

    x = ATEN_STEP(im, "Log", NULL, x);
    return ATEN_LAST(
        im, "Mul", NULL, x,
        aten_scalar(im, INFER_F32, 1 / log((double)aten_row(im)->param)));
}

int aten_trunc(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");
    const struct pb_span y =
        ATEN_STEP(im, "Floor", NULL, ATEN_STEP(im, "Abs", NULL, x));

    return ATEN_LAST(im, "Mul", NULL, ATEN_STEP(im, "Sign", NULL, x), y);
}

/* To a number of decimals, as PyTorch does: 10^d x, rounded, divided by 10^d.
 */
int aten_round(struct onnx_import *im)
{
    struct pb_span x = aten_tensor(im, "self");
    const int64_t decimals = aten_int(im, "decimals", 0);
    const double scale = pow(10, (double)llabs(decimals));

    if (im->rc < 0 || decimals == 0)
        return ATEN_LAST(im, "Round", NULL, x);
    if (decimals < -30 || decimals > 30 || !aten_is_float(aten_type_of(im, x)))
        return onnx_fail(im, INFER_EUNSUPPORTED, "rounding to %lld decimals",
                         (long long)decimals);
    x = ATEN_STEP(im, decimals > 0 ? "Mul" : "Div", NULL, x,
                  aten_scalar(im, aten_type_of(im, x), scale));
    x = ATEN_STEP(im, "Round", NULL, x);
    return ATEN_LAST(im, decimals > 0 ? "Div" : "Mul", NULL, x,
                     aten_scalar(im, aten_type_of(im, x), scale));
}

int aten_erfc(struct onnx_import *im)
{
    struct pb_span x = aten_tensor(im, "self");

    return ATEN_LAST(im, "Sub", NULL, aten_scalar(im, aten_type_of(im, x), 1),
                     ATEN_STEP(im, "Erf", NULL, x));
}

/* What stands behind the point, with the number's sign. */
int aten_frac(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");
    const struct pb_span y =
        ATEN_STEP(im, "Floor", NULL, ATEN_STEP(im, "Abs", NULL, x));

    return ATEN_LAST(
        im, "Sub", NULL, x,
        ATEN_STEP(im, "Mul", NULL, ATEN_STEP(im, "Sign", NULL, x), y));
}

int aten_is_finite(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");
    const struct pb_span nan = ATEN_STEP(im, "IsNaN", NULL, x);
    const struct pb_span inf = ATEN_STEP(im, "IsInf", NULL, x);

    return ATEN_LAST(im, "Not", NULL, ATEN_STEP(im, "Or", NULL, nan, inf));
}

/* Numbers in the places of NaN and of the infinities. */
int aten_nan_to_num(struct onnx_import *im)
{
    struct pb_span x = aten_tensor(im, "self");
    const enum infer_dtype dtype = aten_type_of(im, x);
    const double most = dtype == INFER_F16    ? 65504
                        : dtype == INFER_BF16 ? 3.3895313892515355e38
                                              : FLT_MAX;
    const struct pb_span high =
        aten_scalar(im, dtype, aten_number(im, "posinf", most));
    const struct pb_span low =
        aten_scalar(im, dtype, aten_number(im, "neginf", -most));
    struct aten_attrs up = {.n = 0}, down = {.n = 0};

    if (im->rc < 0 || !aten_is_float(dtype))
        return aten_same(im, 0, x);
    aten_set_int(&up, "detect_negative", 0);
    aten_set_int(&down, "detect_positive", 0);
    x = ATEN_STEP(im, "Where", NULL, ATEN_STEP(im, "IsInf", &up, x), high, x);
    x = ATEN_STEP(im, "Where", NULL, ATEN_STEP(im, "IsInf", &down, x), low, x);
    return ATEN_LAST(im, "Where", NULL, ATEN_STEP(im, "IsNaN", NULL, x),
                     aten_scalar(im, dtype, aten_number(im, "nan", 0)), x);
}

/* log(x / (1 - x)), x within eps and 1 - eps if there is one. */
int aten_logit(struct onnx_import *im)
{
    struct pb_span x = aten_tensor(im, "self");
    const enum infer_dtype dtype = aten_type_of(im, x);
    const double eps = aten_number(im, "eps", 0);

    if (im->rc == 0 && eps > 0.5)
        return onnx_fail(im, INFER_EUNSUPPORTED, "eps of %g", eps);
    if (aten_has(im, "eps"))
        x = ATEN_STEP(im, "Clip", NULL, x, aten_scalar(im, dtype, eps),
                      aten_scalar(im, dtype, 1 - eps));
    return ATEN_LAST(
        im, "Log", NULL,
        ATEN_STEP(im, "Div", NULL, x,
                  ATEN_STEP(im, "Sub", NULL, aten_scalar(im, dtype, 1), x)));
}

/* ---- types --------------------------------------------------------- */

int aten_to(struct onnx_import *im)
{
    const enum infer_dtype dtype = aten_dtype(im, "dtype");
    const struct pb_span x = aten_tensor(im, "self");

    return dtype == INFER_NONE ? aten_same(im, 0, x)
                               : aten_same(im, 0, aten_cast(im, x, dtype));
}

/* The type of another tensor. */
int aten_type_as(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");

    return aten_same(
        im, 0, aten_cast(im, x, aten_type_of(im, aten_tensor(im, "other"))));
}

/* The type is in the operator's name. */
int aten_to_type(struct onnx_import *im)
{
    return aten_same(im, 0,
                     aten_cast(im, aten_tensor(im, "self"),
                               (enum infer_dtype)aten_row(im)->param));
}
