/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX element-wise operators. */
#include <float.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "kernels/unary.h"
#include "weights/narrow.h"
#include "weights/onnx/onnx.h"

/* ---- one argument -------------------------------------------------- */

/* Selu of opset 1 had less exact constants. */
static void old_selu(const struct onnx_import *im, enum kern_unary_kind kind,
                     float *a, float *b)
{
    if (kind == KERN_SELU && im->opset < 6) {
        *a = 1.6732f;
        *b = 1.0507f;
    }
}

int onnx_import_unary(struct onnx_import *im)
{
    const enum kern_unary_kind kind = (enum kern_unary_kind)im->param;
    const struct kern_unary_info *info = kern_unary_info(kind);
    float a = info->a, b = info->b;
    int in;

    onnx_arity(im, 1, 1);
    old_selu(im, kind, &a, &b);
    if (info->a_name)
        onnx_float(im, info->a_name, &a);
    if (info->b_name)
        onnx_float(im, info->b_name, &b);
    onnx_input(im, 0, &in);
    return onnx_emit_unary(im, kind, a, b, in, 0, NULL);
}

int onnx_import_gelu(struct onnx_import *im)
{
    static const char *const words[] = {"none", "tanh", NULL};
    int word = 0, in;

    onnx_arity(im, 1, 1);
    onnx_word(im, "approximate", words, &word);
    onnx_input(im, 0, &in);
    return onnx_emit_unary(im, word ? KERN_GELU_TANH : KERN_GELU, 0, 0, in, 0,
                           NULL);
}

/* a sigmoid(alpha a) b */
int onnx_import_swiglu(struct onnx_import *im)
{
    float alpha = 1;
    int a, b;

    onnx_arity(im, 2, 2);
    onnx_float(im, "alpha", &alpha);
    onnx_input(im, 0, &a);
    onnx_input(im, 1, &b);
    onnx_emit_unary(im, KERN_SILU, alpha, 0, a, -1, &a);
    return onnx_emit_binary(im, KERN_MUL, a, b, 0, NULL);
}

/* ---- Clip ---------------------------------------------------------- */

static int clip_attributes(struct onnx_import *im, int in)
{
    float min = -FLT_MAX, max = FLT_MAX;

    onnx_float(im, "min", &min);
    onnx_float(im, "max", &max);
    return onnx_emit_unary(im, KERN_CLIP, min, max, in, 0, NULL);
}

/* Limits as inputs: constants become one clip; integers, which a float could
 * not hold, and computed limits become a maximum and a minimum. */
int onnx_import_clip(struct onnx_import *im)
{
    struct constant *low = NULL, *high = NULL;
    float min = -FLT_MAX, max = FLT_MAX;
    struct graph_type t;
    int in, limit;

    onnx_arity(im, 1, 3);
    onnx_input(im, 0, &in);
    if (im->opset < 11)
        return clip_attributes(im, in);
    onnx_input_type(im, 0, 0, &t);
    onnx_input_constant(im, 1, &low);
    if (onnx_input_constant(im, 2, &high) < 0)
        return im->rc;
    if (scalar_is_float(t.dtype) && (low || !onnx_has_input(im, 1)) &&
        (high || !onnx_has_input(im, 2))) {
        onnx_input_float(im, 1, "min", &min);
        onnx_input_float(im, 2, "max", &max);
        return onnx_emit_unary(im, KERN_CLIP, min, max, in, 0, NULL);
    }
    if (onnx_has_input(im, 1)) {
        onnx_input(im, 1, &limit);
        onnx_emit_binary(im, KERN_MAX, in, limit,
                         onnx_has_input(im, 2) ? -1 : 0, &in);
    }
    if (onnx_has_input(im, 2)) {
        onnx_input(im, 2, &limit);
        onnx_emit_binary(im, KERN_MIN, in, limit, 0, &in);
    }
    if (im->emitted == 0)
        onnx_emit_unary(im, KERN_IDENTITY, 0, 0, in, 0, NULL);
    return im->rc;
}

/* ---- two arguments ------------------------------------------------- */

/* Before opset 7, "broadcast" with "axis" lines the second shape up with the
 * first from that axis on. */
static int old_broadcast(struct onnx_import *im, int *b)
{
    struct graph_type ta, tb;
    int64_t axes[INFER_MAX_RANK], broadcast = 0;
    int axis, n = 0;

    if (im->opset >= 7)
        return 0;
    onnx_int(im, "broadcast", 0, 1, &broadcast);
    onnx_input_type(im, 0, 0, &ta);
    onnx_input_type(im, 1, 0, &tb);
    axis = onnx_axis(im, 0);
    if (im->rc < 0 || !onnx_has_attr(im, "axis") || !broadcast)
        return im->rc;
    if (axis < 0)
        axis += ta.rank;
    if (axis < 0 || axis + tb.rank > ta.rank)
        return onnx_fail(im, INFER_EFORMAT,
                         "axis %lld with shapes of rank %d and %d",
                         (long long)axis, ta.rank, tb.rank);
    for (; axis + tb.rank + n < ta.rank; n++)
        axes[n] = tb.rank + n;
    if (n == 0)
        return 0;
    return onnx_emit_dims(im, GRAPH_UNSQUEEZE, *b, n, axes, -1, b);
}

static int two_inputs(struct onnx_import *im, int *a, int *b)
{
    onnx_arity(im, 2, 2);
    onnx_input(im, 0, a);
    onnx_input(im, 1, b);
    old_broadcast(im, b);
    return im->rc;
}

/* C's remainder, which has the sign of a: sign(a) (|a| mod |b|). */
static int import_remainder(struct onnx_import *im, int a, int b)
{
    int sign;

    onnx_emit_unary(im, KERN_SIGN, 0, 0, a, -1, &sign);
    onnx_emit_unary(im, KERN_ABS, 0, 0, a, -1, &a);
    onnx_emit_unary(im, KERN_ABS, 0, 0, b, -1, &b);
    onnx_emit_binary(im, KERN_MOD, a, b, -1, &a);
    return onnx_emit_binary(im, KERN_MUL, a, sign, 0, NULL);
}

int onnx_import_binary(struct onnx_import *im)
{
    const enum kern_binary_kind kind = (enum kern_binary_kind)im->param;
    bool fmod = false;
    int a, b;

    if (kind == KERN_MOD)
        onnx_flag(im, "fmod", &fmod);
    two_inputs(im, &a, &b);
    if (fmod)
        return import_remainder(im, a, b);
    return onnx_emit_binary(im, kind, a, b, 0, NULL);
}

/* The exponent may have another type than the base, whose type the result
 * has.  Integers to a broken power go through floats. */
int onnx_import_pow(struct onnx_import *im)
{
    struct graph_type ta, tb;
    int a, b;

    two_inputs(im, &a, &b);
    if (im->rc < 0)
        return im->rc;
    ta = im->type[a][0];
    tb = im->type[b][0];
    if (ta.dtype == tb.dtype)
        return onnx_emit_binary(im, KERN_POW, a, b, 0, NULL);
    if (scalar_is_float(ta.dtype) || !scalar_is_float(tb.dtype)) {
        onnx_emit_cast(im, ta.dtype, b, -1, &b);
        return onnx_emit_binary(im, KERN_POW, a, b, 0, NULL);
    }
    onnx_emit_cast(im, INFER_F32, a, -1, &a);
    onnx_emit_binary(im, KERN_POW, a, b, -1, &a);
    return onnx_emit_cast(im, ta.dtype, a, 0, NULL);
}

/* Exclusive or of truth values is their inequality. */
int onnx_import_xor(struct onnx_import *im)
{
    int a, b;

    two_inputs(im, &a, &b);
    onnx_emit_binary(im, KERN_EQUAL, a, b, -1, &a);
    return onnx_emit_unary(im, KERN_NOT, 0, 0, a, 0, NULL);
}

/* ---- more arguments ------------------------------------------------ */

/* Sum, Max, Min: a chain of two-argument nodes. */
static int chain(struct onnx_import *im, enum kern_binary_kind kind,
                 int last_out, int *value)
{
    int n = im->node->n_in, i, a, b;

    onnx_arity(im, 1, -1);
    for (i = 1; i < n; i++)
        if (!onnx_has_input(im, i))
            onnx_fail(im, INFER_EFORMAT, "input %d is missing", i);
    onnx_input(im, 0, &a);
    if (n == 1 && last_out >= 0)
        return onnx_emit_unary(im, KERN_IDENTITY, 0, 0, a, last_out, value);
    for (i = 1; i < n; i++) {
        onnx_input(im, i, &b);
        onnx_emit_binary(im, kind, a, b, i == n - 1 ? last_out : -1, &a);
    }
    if (value)
        *value = a;
    return im->rc;
}

int onnx_import_variadic(struct onnx_import *im)
{
    return chain(im, (enum kern_binary_kind)im->param, 0, NULL);
}

int onnx_import_mean(struct onnx_import *im)
{
    int sum;

    chain(im, KERN_ADD, -1, &sum);
    return onnx_emit_unary(im, KERN_LINEAR, 1.0f / (float)im->node->n_in, 0.0f,
                           sum, 0, NULL);
}

int onnx_import_where(struct onnx_import *im)
{
    onnx_arity(im, 3, 3);
    return onnx_emit_node(im, GRAPH_WHERE, NULL, 3);
}

/* Before opset 7 a slope of one a channel is a plain vector; later it
 * broadcasts as numpy has it. */
int onnx_import_prelu(struct onnx_import *im)
{
    int64_t axes[INFER_MAX_RANK];
    struct graph_type x, slope;
    int in[2], n = 0;

    onnx_arity(im, 2, 2);
    onnx_input_type(im, 0, 0, &x);
    onnx_input_type(im, 1, 0, &slope);
    onnx_input(im, 0, &in[0]);
    onnx_input(im, 1, &in[1]);
    if (im->opset < 7 && slope.rank == 1 && slope.dim[0] > 1) {
        for (; n < x.rank - 2; n++)
            axes[n] = n + 1;
        if (n > 0)
            onnx_emit_dims(im, GRAPH_UNSQUEEZE, in[1], n, axes, -1, &in[1]);
    }
    return onnx_emit(im, GRAPH_PRELU, NULL, in, 2, 0, NULL);
}

/* ---- Cast ---------------------------------------------------------- */

/* Target type: a number, or a word before opset 6.  *narrow: its number where
 * it is in narrow.h. */
static int cast_target(struct onnx_import *im, enum infer_dtype *out,
                       int *narrow)
{
    struct onnx_attr *a = onnx_attr(im, "to");
    int64_t type;

    if (!a || (a->type != ONNX_ATTR_INT && a->type != ONNX_ATTR_STRING))
        return onnx_fail(im, INFER_EFORMAT, "attribute 'to' is missing");
    type = a->i;
    if (a->type == ONNX_ATTR_STRING)
        for (type = ONNX_BFLOAT16; type > 0; type--)
            if (pb_span_is(a->s, onnx_type_name(type)))
                break;
    *out = onnx_dtype(type);
    *narrow = narrow_dtype(type) == INFER_NONE ? 0 : (int)type;
    if (*out == INFER_NONE && *narrow == 0)
        return onnx_fail(im, INFER_EUNSUPPORTED, "a cast to %s",
                         onnx_type_name(type));
    return 0;
}

/* True where there is room for what the other type takes in addition; without
 * it the graph computes the cast. */
static bool takes_little(struct onnx_import *im, const struct constant *c,
                         enum infer_dtype to)
{
    const uint64_t bytes = (uint64_t)constant_count(c) * infer_dtype_size(to);

    if (c->unfilled || bytes <= c->bytes)
        return true;
    return bytes - c->bytes <= onnx_room(im) &&
           onnx_charge(im, bytes - c->bytes) == 0;
}

int onnx_import_cast(struct onnx_import *im)
{
    enum infer_dtype to = INFER_NONE;
    struct graph_type t;
    struct constant *c;
    int64_t saturate = 1;
    int in, narrow = 0;

    onnx_arity(im, im->param ? 2 : 1, im->param ? 2 : 1);
    if (im->param && onnx_input_type(im, 1, 0, &t) == 0) {
        to = t.dtype; /* CastLike: its type is all that counts */
        narrow = onnx_input_narrow(im, 1);
    } else if (im->rc == 0) {
        cast_target(im, &to, &narrow);
    }
    if (narrow != 0)
        return onnx_cast_narrow(im, narrow);
    onnx_int(im, "saturate", 0, 1, &saturate); /* of 8-bit floats */
    onnx_ignore(im, "round_mode");
    onnx_input_type(im, 0, 0, &t);
    if (onnx_input_constant(im, 0, &c) < 0)
        return im->rc;
    if (c && (to != INFER_F8E4M3 || saturate) && takes_little(im, c, to))
        return onnx_set_constant(im, 0, constant_convert(c, to));
    onnx_input(im, 0, &in);
    if (to == INFER_F8E4M3 && !saturate)
        in = onnx_f8_not_saturated(im, in, -1);
    /* All floats are computed in single precision: narrower ones are rounded,
     * and kept in it. */
    if ((to == INFER_F16 || to == INFER_BF16) && to != t.dtype) {
        onnx_emit_cast(im, to, in, -1, &in);
        return onnx_emit_cast(im, INFER_F32, in, 0, NULL);
    }
    if (to == INFER_F64 || to == INFER_F16 || to == INFER_BF16)
        to = INFER_F32;
    if (to == t.dtype)
        return onnx_emit_unary(im, KERN_IDENTITY, 0, 0, in, 0, NULL);
    return onnx_emit_cast(im, to, in, 0, NULL);
}
