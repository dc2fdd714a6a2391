/* SPDX-License-Identifier: Apache-2.0 */
/* Element-wise operators of two tensors, and types that are promoted. */
#include <math.h>
#include <string.h>

#include "kernels/base/error.h"
#include "weights/aten/aten.h"

/* ---- common types -------------------------------------------------- */

/* 0 booleans, 1 integers, 2 floats. */
static int category(enum infer_dtype dtype)
{
    return aten_is_float(dtype) ? 2 : dtype != INFER_BOOL;
}

static enum infer_dtype larger(enum infer_dtype a, enum infer_dtype b)
{
    const size_t x = infer_dtype_size(a), y = infer_dtype_size(b);

    if (category(a) != category(b))
        return category(a) > category(b) ? a : b;
    if (x == y && a != b)
        return category(a) == 2 ? INFER_F32 : INFER_I16;
    return x >= y ? a : b;
}

/* An operand: its type, and whether it is a number or a tensor of rank 0, which
 * count for their category alone. */
struct operand {
    enum infer_dtype dtype;
    bool weak;
};

static struct operand operand_of(struct onnx_import *im, const char *name)
{
    const struct aten_arg *a = aten_find(im, name);
    struct operand o = {INFER_F32, true};
    struct pb_span now;

    if (!a || im->rc < 0)
        return o;
    if (a->kind == ATEN_INT)
        o.dtype = INFER_I64;
    else if (a->kind == ATEN_BOOL)
        o.dtype = INFER_BOOL;
    else if (a->kind == ATEN_VALUE && aten_alias_read(im, a->text, &now) == 0) {
        o.dtype = aten_type_of(im, now);
        o.weak = aten_rank(im, now) == 0;
    }
    return o;
}

static enum infer_dtype common(struct operand a, struct operand b)
{
    if (a.weak == b.weak)
        return larger(a.dtype, b.dtype);
    if (a.weak)
        return common(b, a);
    return category(b.dtype) > category(a.dtype) ? b.dtype : a.dtype;
}

/* An argument as a tensor of this type; a number is one from the start. */
static struct pb_span as_type(struct onnx_import *im, const char *name,
                              enum infer_dtype dtype)
{
    const struct aten_arg *a = aten_find(im, name);

    if (a &&
        (a->kind == ATEN_FLOAT || a->kind == ATEN_INT || a->kind == ATEN_BOOL))
        return aten_scalar(im, dtype, aten_number(im, name, 0));
    return aten_cast(im, aten_tensor(im, name), dtype);
}

int aten_operands(struct onnx_import *im, const char *a, const char *b,
                  struct pb_span *out)
{
    const enum infer_dtype dtype = common(operand_of(im, a), operand_of(im, b));

    out[0] = as_type(im, a, dtype);
    out[1] = as_type(im, b, dtype);
    return im->rc;
}

void aten_promote(struct onnx_import *im, int n, struct pb_span *x)
{
    struct operand all = {INFER_BOOL, true};

    for (int i = 0; i < n && im->rc == 0; i++) {
        const struct operand one = {aten_type_of(im, x[i]),
                                    aten_rank(im, x[i]) == 0};

        all.dtype = i == 0 ? one.dtype : common(all, one);
        all.weak = (i == 0 || all.weak) && one.weak;
    }
    for (int i = 0; i < n && im->rc == 0; i++)
        x[i] = aten_cast(im, x[i], all.dtype);
}

/* ---- two operands -------------------------------------------------- */

/* Comparisons, logic, products, powers. */
int aten_binary(struct onnx_import *im)
{
    struct pb_span in[2];

    aten_operands(im, "self", "other", in);
    return aten_give(im, 0, aten_row(im)->onnx, NULL, 2, in);
}

int aten_power(struct onnx_import *im)
{
    struct pb_span in[2];

    aten_operands(im, "self", "exponent", in);
    return aten_give(im, 0, "Pow", NULL, 2, in);
}

int aten_not_equal(struct onnx_import *im)
{
    struct pb_span in[2], equal;

    aten_operands(im, "self", "other", in);
    equal = aten_step(im, "Equal", NULL, 2, in);
    return ATEN_LAST(im, "Not", NULL, equal);
}

/* Refuses what may be the sum of two truth values, which is one: both are of a
 * type that is not stated, or one is and the other is a truth value. */
static int need_truths(struct onnx_import *im)
{
    const char *const name[] = {"self", "other"};
    const struct aten_arg *a, *b;

    for (int i = 0; i < 2; i++) {
        const struct pb_span *from = NULL;

        a = aten_find(im, name[i]);
        b = aten_find(im, name[!i]);
        if (im->rc < 0 || !a || a->kind != ATEN_VALUE || !b)
            continue;
        if (b->kind == ATEN_VALUE)
            from = aten_assumed(im, aten_tensor(im, name[!i]));
        if ((from && from->bytes) ||
            operand_of(im, name[!i]).dtype == INFER_BOOL)
            aten_need_type(im, aten_tensor(im, name[i]), "a sum");
    }
    return im->rc;
}

/* a + alpha b, a - alpha b, and b - alpha a (param 1). */
int aten_add(struct onnx_import *im)
{
    const double alpha = aten_number(im, "alpha", 1);
    struct pb_span in[2], left;

    /* Truth values are neither subtracted nor multiplied by an alpha. */
    if (alpha == 1 && strcmp(aten_row(im)->onnx, "Add") == 0)
        need_truths(im);
    aten_operands(im, "self", "other", in);
    if (aten_row(im)->param) {
        left = in[0];
        in[0] = in[1];
        in[1] = left;
    }
    if (alpha != 1)
        in[1] = aten_mul(im, in[1], alpha);
    /* The sum of truths is whether one of them holds. */
    if (im->rc == 0 && aten_type_of(im, in[0]) == INFER_BOOL)
        return aten_give(im, 0, "Or", NULL, 2, in);
    return aten_give(im, 0, aten_row(im)->onnx, NULL, 2, in);
}

int aten_product(struct onnx_import *im)
{
    struct pb_span in[2];

    aten_operands(im, "self", "other", in);
    if (im->rc == 0 && aten_type_of(im, in[0]) == INFER_BOOL)
        return aten_give(im, 0, "And", NULL, 2, in);
    return aten_give(im, 0, "Mul", NULL, 2, in);
}

/* Integers: a - (a mod b), which b divides; floats: rounded down. */
static int floor_divide(struct onnx_import *im, const struct pb_span *in)
{
    struct pb_span x;

    if (aten_is_float(aten_type_of(im, in[0]))) {
        x = aten_step(im, "Div", NULL, 2, in);
        return ATEN_LAST(im, "Floor", NULL, x);
    }
    x = aten_step(im, "Mod", NULL, 2, in);
    x = ATEN_STEP(im, "Sub", NULL, in[0], x);
    return ATEN_LAST(im, "Div", NULL, x, in[1]);
}

/* Floats rounded towards zero: sign |a / b|. */
static int trunc_divide(struct onnx_import *im, const struct pb_span *in)
{
    struct pb_span x, sign;

    if (!aten_is_float(aten_type_of(im, in[0])))
        return aten_give(im, 0, "Div", NULL, 2, in);
    x = aten_step(im, "Div", NULL, 2, in);
    sign = ATEN_STEP(im, "Sign", NULL, x);
    x = ATEN_STEP(im, "Floor", NULL, ATEN_STEP(im, "Abs", NULL, x));
    return ATEN_LAST(im, "Mul", NULL, sign, x);
}

/* param 1: rounded down without being told to. */
int aten_div(struct onnx_import *im)
{
    const struct pb_span mode = aten_text(im, "rounding_mode");
    struct pb_span in[2];

    aten_operands(im, "self", "other", in);
    if (im->rc < 0)
        return im->rc;
    if (aten_row(im)->param || pb_span_is(mode, "floor"))
        return floor_divide(im, in);
    if (pb_span_is(mode, "trunc"))
        return trunc_divide(im, in);
    if (mode.bytes)
        return onnx_fail(im, INFER_EUNSUPPORTED, "rounding mode '%.*s'",
                         PB_TEXT(mode, 64));
    if (!aten_is_float(aten_type_of(im, in[0])))
        for (int i = 0; i < 2; i++)
            in[i] = aten_cast(im, in[i], INFER_F32);
    return aten_give(im, 0, "Div", NULL, 2, in);
}

/* remainder (param 0) has the divisor's sign, fmod (param 1) the dividend's. */
int aten_remainder(struct onnx_import *im)
{
    struct aten_attrs a = {.n = 0};
    struct pb_span in[2], x;

    aten_operands(im, "self", "other", in);
    if (im->rc < 0)
        return im->rc;
    if (!aten_row(im)->param && aten_is_float(aten_type_of(im, in[0]))) {
        x = ATEN_STEP(im, "Floor", NULL, aten_step(im, "Div", NULL, 2, in));
        x = ATEN_STEP(im, "Mul", NULL, x, in[1]);
        return ATEN_LAST(im, "Sub", NULL, in[0], x);
    }
    aten_set_int(&a, "fmod", aten_row(im)->param);
    return aten_give(im, 0, "Mod", &a, 2, in);
}

/* |= and &= of truths and of integers: param is the operator on integers. */
int aten_bitwise(struct onnx_import *im)
{
    static const char *const integers[] = {"BitwiseAnd", "BitwiseOr",
                                           "BitwiseXor"};
    static const char *const names[] = {"self", "other"};
    struct pb_span in[2];

    for (int i = 0; i < 2; i++)
        aten_need_type(im, aten_optional(im, names[i]), "an operator on bits");
    aten_operands(im, "self", "other", in);
    if (im->rc < 0)
        return im->rc;
    return aten_give(im, 0,
                     aten_type_of(im, in[0]) == INFER_BOOL
                         ? aten_row(im)->onnx
                         : integers[aten_row(im)->param],
                     NULL, 2, in);
}

int aten_bitwise_not(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");

    if (aten_need_type(im, x, "an operator on bits") == 0 &&
        aten_type_of(im, x) == INFER_BOOL)
        return ATEN_LAST(im, "Not", NULL, x);
    return ATEN_LAST(im, "BitwiseNot", NULL, x);
}

/* Of any type: what is not zero is true. */
int aten_logical(struct onnx_import *im)
{
    struct pb_span in[2] = {aten_no_input(), aten_no_input()};

    in[0] = aten_cast(im, aten_tensor(im, "self"), INFER_BOOL);
    if (aten_has(im, "other"))
        in[1] = aten_cast(im, aten_tensor(im, "other"), INFER_BOOL);
    return aten_give(im, 0, aten_row(im)->onnx, NULL, 2, in);
}

/* ---- three operands ------------------------------------------------ */

int aten_where(struct onnx_import *im)
{
    struct pb_span in[3];

    in[0] = aten_cast(im, aten_tensor(im, "condition"), INFER_BOOL);
    aten_operands(im, "self", "other", in + 1);
    return aten_give(im, 0, "Where", NULL, 3, in);
}

int aten_masked_fill(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");
    struct pb_span value = as_type(im, "value", aten_type_of(im, x));

    return ATEN_LAST(im, "Where", NULL,
                     aten_cast(im, aten_tensor(im, "mask"), INFER_BOOL), value,
                     x);
}

/* self + value t1 t2, and self + value t1 / t2. */
int aten_addcmul(struct onnx_import *im)
{
    const double value = aten_number(im, "value", 1);
    struct pb_span in[3] = {aten_tensor(im, "self"), aten_tensor(im, "tensor1"),
                            aten_tensor(im, "tensor2")};
    struct pb_span x;

    aten_promote(im, 3, in);
    x = aten_step(im, aten_row(im)->onnx, NULL, 2, in + 1);
    if (value != 1)
        x = aten_mul(im, x, value);
    return ATEN_LAST(im, "Add", NULL, in[0], x);
}

/* self + weight (end - self) */
int aten_lerp(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");
    struct pb_span y = ATEN_STEP(im, "Sub", NULL, aten_tensor(im, "end"), x);

    y = ATEN_STEP(im, "Mul", NULL, y,
                  as_type(im, "weight", aten_type_of(im, x)));
    return ATEN_LAST(im, "Add", NULL, x, y);
}

/* ---- products of matrices ------------------------------------------ */

int aten_linear(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "input");
    const struct pb_span w = aten_tensor(im, "weight");
    const struct pb_span bias = aten_optional(im, "bias");
    static const int64_t turned[2] = {1, 0};
    struct aten_attrs a = {.n = 0};
    const char *op = "MatMul";
    struct pb_span y;

    if (im->rc < 0)
        return im->rc;
    if (aten_rank(im, x) == 2 && aten_rank(im, w) == 2) {
        aten_set_int(&a, "transB", 1);
        return ATEN_LAST(im, "Gemm", &a, x, w, bias);
    }
    if (aten_rank(im, x) > 2 && aten_rank(im, w) == 2) {
        aten_set_int(&a, "transB", 1);
        y = w;
        op = "FusedMatMul";
    } else {
        y = aten_rank(im, w) == 2 ? aten_permute(im, w, 2, turned) : w;
    }
    if (bias.bytes == 0)
        return ATEN_LAST(im, op, &a, x, y);
    y = ATEN_STEP(im, op, &a, x, y);
    return ATEN_LAST(im, "Add", NULL, y, bias);
}

/* beta self + alpha mat1 mat2; param 1: batches of matrices. */
int aten_addmm(struct onnx_import *im)
{
    const bool batch = aten_row(im)->param;
    const double beta = aten_number(im, "beta", 1);
    const double alpha = aten_number(im, "alpha", 1);
    const struct pb_span self = aten_tensor(im, "self");
    const struct pb_span one = aten_tensor(im, batch ? "batch1" : "mat1");
    const struct pb_span two = aten_tensor(im, batch ? "batch2" : "mat2");
    struct aten_attrs a = {.n = 0};
    struct pb_span y, bias = self;

    if (!batch) {
        aten_set_float(&a, "alpha", alpha);
        aten_set_float(&a, "beta", beta);
        return ATEN_LAST(im, "Gemm", &a, one, two, self);
    }
    y = ATEN_STEP(im, "MatMul", NULL, one, two);
    if (alpha != 1)
        y = aten_mul(im, y, alpha);
    if (beta == 0)
        return aten_same(im, 0, y);
    if (beta != 1)
        bias = aten_mul(im, self, beta);
    return ATEN_LAST(im, "Add", NULL, y, bias);
}

int aten_matmul(struct onnx_import *im)
{
    return ATEN_LAST(im, "MatMul", NULL, aten_tensor(im, "self"),
                     aten_tensor(im, aten_row(im)->onnx));
}

int aten_einsum(struct onnx_import *im)
{
    const struct pb_span text = aten_text(im, "equation");
    struct aten_attrs a = {.n = 0};
    struct pb_span in[16];
    const int n = aten_tensors(im, "tensors", 16, in);

    aten_set_word(&a, "equation", "");
    a.item[0].s = text;
    return aten_give(im, 0, "Einsum", &a, n, in);
}
