/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX BitShift, BitwiseNot, BitCast, IsNaN and IsInf. */
#include <math.h>
#include <string.h>

#include "kernels/base/scalar.h"
#include "weights/onnx/composed/compose.h"

static bool has_sign(enum infer_dtype t)
{
    return t == INFER_I8 || t == INFER_I16 || t == INFER_I32 || t == INFER_I64;
}

/* Casts saturate; this does not. */
int compose_wrap(struct onnx_import *im, int wide, int bits, bool is_signed,
                 enum infer_dtype to)
{
    if (bits == 64)
        return wide;
    wide = compose_binary(
        im, KERN_BIT_AND, wide,
        compose_integer(im, INFER_I64, ((int64_t)1 << bits) - 1));
    if (is_signed) {
        const int sign =
            compose_integer(im, INFER_I64, (int64_t)1 << (bits - 1));

        wide = compose_binary(
            im, KERN_SUB, compose_binary(im, KERN_BIT_XOR, wide, sign), sign);
    }
    return compose_cast(im, to, wide);
}

int onnx_import_bit_shift(struct onnx_import *im)
{
    static const char *const words[] = {"LEFT", "RIGHT", NULL};
    int way = -1, a, b;
    enum infer_dtype type;

    onnx_arity(im, 2, 2);
    onnx_word(im, "direction", words, &way);
    a = compose_input(im, 0);
    b = compose_input(im, 1);
    type = compose_dtype(im, a);
    if (im->rc == 0 && way < 0)
        return onnx_fail(im, INFER_EFORMAT, "no direction");
    if (im->rc == 0 && !scalar_is_integer(type))
        return onnx_fail(im, INFER_EFORMAT, "bits of %s",
                         infer_dtype_name(type));
    if (way == 1)
        return onnx_emit_binary(im, KERN_SHIFT_RIGHT, a, b, 0, NULL);
    if (type != INFER_U64) {
        a = compose_cast(im, INFER_I64, a);
        b = compose_cast(im, INFER_I64, b);
    }
    a = compose_binary(im, KERN_SHIFT_LEFT, a, b);
    return compose_output(im, 0,
                          compose_wrap(im, a, 8 * (int)infer_dtype_size(type),
                                       has_sign(type), type));
}

/* The exclusive or with ones. */
int onnx_import_bit_not(struct onnx_import *im)
{
    int x, ones;
    enum infer_dtype type;

    onnx_arity(im, 1, 1);
    x = compose_input(im, 0);
    type = compose_dtype(im, x);
    if (im->rc == 0 && !scalar_is_integer(type))
        return onnx_fail(im, INFER_EFORMAT, "bits of %s",
                         infer_dtype_name(type));
    if (im->rc == 0 && type == INFER_U64)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "the bits of 64-bit integers without a sign");
    ones = compose_integer(
        im, type,
        has_sign(type) ? -1 : ((int64_t)1 << 8 * infer_dtype_size(type)) - 1);
    return onnx_emit_binary(im, KERN_BIT_XOR, x, ones, 0, NULL);
}

/* The same bytes under another type.  Constants alone: values at run time are
 * kept in other types than those of the file. */
int onnx_import_bit_cast(struct onnx_import *im)
{
    int64_t type = 0;
    struct constant *c, *r;
    enum infer_dtype to;

    onnx_arity(im, 1, 1);
    onnx_int(im, "to", 1, INT32_MAX, &type);
    if (onnx_input_constant(im, 0, &c) < 0)
        return im->rc;
    to = onnx_dtype(type);
    if (to == INFER_NONE)
        return onnx_fail(im, INFER_EUNSUPPORTED, "a cast to %s",
                         onnx_type_name(type));
    if (!c)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "the bits of values that are computed at run time");
    if (infer_dtype_size(to) != infer_dtype_size(c->dtype))
        return onnx_fail(im, INFER_EFORMAT, "%s has not the size of %s",
                         infer_dtype_name(to), infer_dtype_name(c->dtype));
    if (onnx_new_constant(im, to, c->rank, c->dim, &r) < 0)
        return im->rc;
    if (c->bytes)
        memcpy(r->data, c->data, c->bytes);
    return onnx_set_constant(im, 0, r);
}

/* NaN is not equal to itself. */
int onnx_import_is_nan(struct onnx_import *im)
{
    int x;

    onnx_arity(im, 1, 1);
    x = compose_input(im, 0);
    x = compose_binary(im, KERN_EQUAL, x, x);
    return onnx_emit_unary(im, KERN_NOT, 0, 0, x, 0, NULL);
}

int onnx_import_is_inf(struct onnx_import *im)
{
    bool positive = true, negative = true;
    int x;

    onnx_arity(im, 1, 1);
    onnx_flag(im, "detect_positive", &positive);
    onnx_flag(im, "detect_negative", &negative);
    x = compose_input(im, 0);
    if (positive && negative)
        x = compose_unary(im, KERN_ABS, x);
    if (!positive && !negative) /* never: NaN is above nothing */
        return onnx_emit_binary(im, KERN_GREATER, x,
                                compose_number(im, INFER_F32, INFINITY), 0,
                                NULL);
    return onnx_emit_binary(
        im, KERN_EQUAL, x,
        compose_number(im, INFER_F32, positive ? INFINITY : -INFINITY), 0,
        NULL);
}
