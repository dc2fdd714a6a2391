/* SPDX-License-Identifier: Apache-2.0 */
/* Element-wise functions of one or two tensors for which ONNX has no
 * operator: they are made of those that it has. */
#include <math.h>

#include "kernels/base/error.h"
#include "weights/aten/aten.h"

#define PI 3.14159265358979323846

/* self and other in their common type, which is one of floats. */
static int floats(struct onnx_import *im, struct pb_span *in)
{
    aten_operands(im, "self", "other", in);
    if (im->rc == 0 && !aten_is_float(aten_type_of(im, in[0])))
        for (int i = 0; i < 2; i++)
            in[i] = aten_cast(im, in[i], INFER_F32);
    return im->rc;
}

static struct pb_span zero_of(struct onnx_import *im, struct pb_span x)
{
    return aten_scalar(im, aten_type_of(im, x), 0);
}

/* Whether the sign of x is negative, that of a zero too. */
static struct pb_span sign_bit(struct onnx_import *im, struct pb_span x)
{
    const struct pb_span zero = zero_of(im, x);
    const struct pb_span below = ATEN_STEP(im, "Less", NULL, x, zero);
    struct pb_span y;

    if (!aten_is_float(aten_type_of(im, x)))
        return below;
    /* 1 / -0 is negative, and so is 1 / x for what is below. */
    y = ATEN_STEP(im, "Less", NULL, ATEN_STEP(im, "Reciprocal", NULL, x), zero);
    return ATEN_STEP(im, "Or", NULL, below, y);
}

int aten_signbit(struct onnx_import *im)
{
    return aten_same(im, 0, sign_bit(im, aten_tensor(im, "self")));
}

/* The size of self with the sign of other. */
int aten_copysign(struct onnx_import *im)
{
    struct pb_span in[2], x;

    floats(im, in);
    x = ATEN_STEP(im, "Abs", NULL, in[0]);
    return ATEN_LAST(im, "Where", NULL, sign_bit(im, in[1]),
                     ATEN_STEP(im, "Neg", NULL, x), x);
}

/* The angle of the point (other, self): atan(y / x), moved by half a turn where
 * x is negative; at (0, 0) as for a positive or negative x. */
int aten_atan2(struct onnx_import *im)
{
    struct pb_span in[2], y, x, half, angle, none;

    floats(im, in);
    y = in[0];
    x = in[1];
    none = ATEN_STEP(im, "Equal", NULL, y, zero_of(im, y));
    angle = ATEN_STEP(im, "Atan", NULL, ATEN_STEP(im, "Div", NULL, y, x));
    angle = ATEN_STEP(im, "Where", NULL, none, zero_of(im, y), angle);
    half = ATEN_STEP(im, "Where", NULL, sign_bit(im, y),
                     aten_scalar(im, aten_type_of(im, x), -PI),
                     aten_scalar(im, aten_type_of(im, x), PI));
    return ATEN_LAST(im, "Where", NULL, sign_bit(im, x),
                     ATEN_STEP(im, "Add", NULL, angle, half), angle);
}

/* The square root of the sum of squares. */
int aten_hypot(struct onnx_import *im)
{
    struct pb_span in[2];

    floats(im, in);
    for (int i = 0; i < 2; i++)
        in[i] = ATEN_STEP(im, "Mul", NULL, in[i], in[i]);
    return ATEN_LAST(im, "Sqrt", NULL, aten_step(im, "Add", NULL, 2, in));
}

/* The larger or smaller of two (Max, Min): of a NaN and a number, the number.
 */
int aten_number_max(struct onnx_import *im)
{
    const char *const op = aten_row(im)->onnx;
    struct pb_span in[2], x;

    aten_operands(im, "self", "other", in);
    if (im->rc < 0 || !aten_is_float(aten_type_of(im, in[0])))
        return aten_give(im, 0, op, NULL, 2, in);
    x = ATEN_STEP(im, "Where", NULL, ATEN_STEP(im, "IsNaN", NULL, in[1]), in[0],
                  aten_step(im, op, NULL, 2, in));
    return ATEN_LAST(im, "Where", NULL, ATEN_STEP(im, "IsNaN", NULL, in[0]),
                     in[1], x);
}

/* self log(other), and 0 where self is 0. */
int aten_xlogy(struct onnx_import *im)
{
    struct pb_span in[2], y, zero;

    floats(im, in);
    zero = ATEN_STEP(im, "Equal", NULL, in[0], zero_of(im, in[0]));
    zero = ATEN_STEP(
        im, "And", NULL, zero,
        ATEN_STEP(im, "Not", NULL, ATEN_STEP(im, "IsNaN", NULL, in[1])));
    y = ATEN_STEP(im, "Mul", NULL, in[0], ATEN_STEP(im, "Log", NULL, in[1]));
    return ATEN_LAST(im, "Where", NULL, zero, zero_of(im, y), y);
}

/* 0 below 0, 1 above, `values` at 0. */
int aten_heaviside(struct onnx_import *im)
{
    struct pb_span in[2], y;

    aten_operands(im, "self", "values", in);
    y = aten_cast(im, ATEN_STEP(im, "Greater", NULL, in[0], zero_of(im, in[0])),
                  aten_type_of(im, in[0]));
    return ATEN_LAST(im, "Where", NULL,
                     ATEN_STEP(im, "Equal", NULL, in[0], zero_of(im, in[0])),
                     in[1], y);
}

/* log2(2^a + 2^b) = the larger + log2(1 + 2^-|a - b|). */
int aten_logaddexp2(struct onnx_import *im)
{
    struct pb_span in[2], x, most;

    floats(im, in);
    most = aten_step(im, "Max", NULL, 2, in);
    x = ATEN_STEP(im, "Abs", NULL, aten_step(im, "Sub", NULL, 2, in));
    /* Equal infinities have no difference. */
    x = ATEN_STEP(im, "Where", NULL, aten_step(im, "Equal", NULL, 2, in),
                  zero_of(im, x), x);
    x = ATEN_STEP(im, "Exp", NULL, aten_mul(im, x, -log(2)));
    x = ATEN_STEP(im, "Add", NULL, x, aten_scalar(im, aten_type_of(im, x), 1));
    x = aten_mul(im, ATEN_STEP(im, "Log", NULL, x), 1 / log(2));
    return ATEN_LAST(im, "Add", NULL, most, x);
}

/* self times 2 to the power of other. */
int aten_ldexp(struct onnx_import *im)
{
    struct pb_span in[2];

    floats(im, in);
    in[1] = ATEN_STEP(im, "Pow", NULL,
                      aten_scalar(im, aten_type_of(im, in[1]), 2), in[1]);
    return aten_give(im, 0, "Mul", NULL, 2, in);
}

/* |self - other| <= atol + rtol |other|, or equal. */
int aten_is_close(struct onnx_import *im)
{
    const double rtol = aten_number(im, "rtol", 1e-5);
    const double atol = aten_number(im, "atol", 1e-8);
    const bool nan = aten_flag(im, "equal_nan", false);
    struct pb_span in[2], equal, bound, away;

    aten_operands(im, "self", "other", in);
    equal = aten_step(im, "Equal", NULL, 2, in);
    if (im->rc < 0 || !aten_is_float(aten_type_of(im, in[0])))
        for (int i = 0; i < 2; i++)
            in[i] = aten_cast(im, in[i], INFER_F32);
    if (nan)
        equal = ATEN_STEP(im, "Or", NULL, equal,
                          ATEN_STEP(im, "And", NULL,
                                    ATEN_STEP(im, "IsNaN", NULL, in[0]),
                                    ATEN_STEP(im, "IsNaN", NULL, in[1])));
    away = ATEN_STEP(im, "Abs", NULL, aten_step(im, "Sub", NULL, 2, in));
    bound = aten_mul(im, ATEN_STEP(im, "Abs", NULL, in[1]), rtol);
    bound = ATEN_STEP(im, "Add", NULL, bound,
                      aten_scalar(im, aten_type_of(im, bound), atol));
    /* An infinity is close to itself alone. */
    away = ATEN_STEP(
        im, "And", NULL, ATEN_STEP(im, "LessOrEqual", NULL, away, bound),
        ATEN_STEP(im, "Less", NULL, away,
                  aten_scalar(im, aten_type_of(im, away), INFINITY)));
    return ATEN_LAST(im, "Or", NULL, equal, away);
}

/* param 1: of positive ones alone, 0: of negative ones. */
int aten_is_inf_of(struct onnx_import *im)
{
    struct pb_span x = aten_tensor(im, "self");
    struct aten_attrs a = {.n = 0};

    if (im->rc == 0 && !aten_is_float(aten_type_of(im, x)))
        x = aten_cast(im, x, INFER_F32);
    aten_set_int(
        &a, aten_row(im)->param ? "detect_negative" : "detect_positive", 0);
    return ATEN_LAST(im, "IsInf", &a, x);
}

/* The angle of a real number: half a turn where it is negative. */
int aten_angle(struct onnx_import *im)
{
    struct pb_span x = aten_tensor(im, "self"), y;

    if (im->rc == 0 && !aten_is_float(aten_type_of(im, x)))
        x = aten_cast(im, x, INFER_F32);
    y = ATEN_STEP(im, "Where", NULL,
                  ATEN_STEP(im, "Less", NULL, x, zero_of(im, x)),
                  aten_scalar(im, aten_type_of(im, x), PI), zero_of(im, x));
    return ATEN_LAST(im, "Where", NULL, ATEN_STEP(im, "IsNaN", NULL, x), x, y);
}

/* Degrees to radians (param 0) and back (1). */
int aten_degrees(struct onnx_import *im)
{
    struct pb_span x = aten_tensor(im, "self");

    if (im->rc == 0 && !aten_is_float(aten_type_of(im, x)))
        x = aten_cast(im, x, INFER_F32);
    return aten_same(
        im, 0, aten_mul(im, x, aten_row(im)->param ? 180 / PI : PI / 180));
}

/* sin(pi x) / (pi x), and 1 at 0. */
int aten_sinc(struct onnx_import *im)
{
    struct pb_span x = aten_tensor(im, "self"), y;

    if (im->rc == 0 && !aten_is_float(aten_type_of(im, x)))
        x = aten_cast(im, x, INFER_F32);
    y = aten_mul(im, x, PI);
    y = ATEN_STEP(im, "Div", NULL, ATEN_STEP(im, "Sin", NULL, y), y);
    return ATEN_LAST(im, "Where", NULL,
                     ATEN_STEP(im, "Equal", NULL, x, zero_of(im, x)),
                     aten_scalar(im, aten_type_of(im, x), 1), y);
}
