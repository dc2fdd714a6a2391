/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX element-wise operators. */
#include <float.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "kernels/unary.h"
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

int onnx_import_unary(struct onnx_import *im, int kind, struct infer_error *err)
{
    const struct kern_unary_info *info =
        kern_unary_info((enum kern_unary_kind)kind);
    float a = info->a, b = info->b;
    int in, rc = onnx_arity(im, 1, 1, err);

    old_selu(im, (enum kern_unary_kind)kind, &a, &b);
    if (rc == 0 && info->a_name)
        rc = onnx_float(im, info->a_name, &a, err);
    if (rc == 0 && info->b_name)
        rc = onnx_float(im, info->b_name, &b, err);
    if (rc == 0)
        rc = onnx_input(im, 0, &in, err);
    if (rc < 0)
        return rc;
    return onnx_emit_unary(im, (enum kern_unary_kind)kind, a, b, in, 0, NULL,
                           err);
}

int onnx_import_gelu(struct onnx_import *im, int param, struct infer_error *err)
{
    static const char *const words[] = {"none", "tanh", NULL};
    int word = 0, in;
    int rc = onnx_arity(im, 1, 1, err);

    (void)param;
    if (rc == 0)
        rc = onnx_word(im, "approximate", words, &word, err);
    if (rc == 0)
        rc = onnx_input(im, 0, &in, err);
    if (rc < 0)
        return rc;
    return onnx_emit_unary(im, word ? KERN_GELU_TANH : KERN_GELU, 0, 0, in, 0,
                           NULL, err);
}

/* ---- Clip ---------------------------------------------------------- */

static int clip_attributes(struct onnx_import *im, int in,
                           struct infer_error *err)
{
    float min = -FLT_MAX, max = FLT_MAX;
    int rc = onnx_float(im, "min", &min, err);

    if (rc == 0)
        rc = onnx_float(im, "max", &max, err);
    if (rc < 0)
        return rc;
    return onnx_emit_unary(im, KERN_CLIP, min, max, in, 0, NULL, err);
}

/* Limits as inputs: constants become one clip; integers, which a float could
 * not hold, and computed limits become a maximum and a minimum. */
int onnx_import_clip(struct onnx_import *im, int param, struct infer_error *err)
{
    struct constant *low = NULL, *high = NULL;
    float min = -FLT_MAX, max = FLT_MAX;
    struct graph_type t;
    int in, limit, rc = onnx_arity(im, 1, 3, err);

    (void)param;
    if (rc == 0)
        rc = onnx_input(im, 0, &in, err);
    if (rc == 0 && im->opset < 11)
        return clip_attributes(im, in, err);
    if (rc == 0)
        rc = onnx_input_type(im, 0, 0, &t, err);
    if (rc == 0)
        rc = onnx_input_constant(im, 1, &low, err);
    if (rc == 0)
        rc = onnx_input_constant(im, 2, &high, err);
    if (rc < 0)
        return rc;
    if (scalar_is_float(t.dtype) && (low || !onnx_has_input(im, 1)) &&
        (high || !onnx_has_input(im, 2))) {
        rc = onnx_input_float(im, 1, "min", &min, err);
        if (rc == 0)
            rc = onnx_input_float(im, 2, "max", &max, err);
        if (rc < 0)
            return rc;
        return onnx_emit_unary(im, KERN_CLIP, min, max, in, 0, NULL, err);
    }
    if (onnx_has_input(im, 1)) {
        rc = onnx_input(im, 1, &limit, err);
        if (rc == 0)
            rc = onnx_emit_binary(im, KERN_MAX, in, limit,
                                  onnx_has_input(im, 2) ? -1 : 0, &in, err);
    }
    if (rc == 0 && onnx_has_input(im, 2)) {
        rc = onnx_input(im, 2, &limit, err);
        if (rc == 0)
            rc = onnx_emit_binary(im, KERN_MIN, in, limit, 0, &in, err);
    }
    if (rc == 0 && im->emitted == 0)
        rc = onnx_emit_unary(im, KERN_IDENTITY, 0, 0, in, 0, NULL, err);
    return rc;
}

/* ---- two arguments ------------------------------------------------- */

/* Before opset 7, "broadcast" with "axis" lines the second shape up with the
 * first from that axis on. */
static int old_broadcast(struct onnx_import *im, int *b,
                         struct infer_error *err)
{
    struct graph_type ta, tb;
    int64_t axis = 0, axes[INFER_MAX_RANK], broadcast = 0;
    int n = 0, rc;

    if (im->opset >= 7)
        return 0;
    if ((rc = onnx_int(im, "broadcast", 0, 1, &broadcast, err)) < 0 ||
        (rc = onnx_input_type(im, 0, 0, &ta, err)) < 0 ||
        (rc = onnx_input_type(im, 1, 0, &tb, err)) < 0)
        return rc;
    if (!onnx_has_attr(im, "axis"))
        return 0;
    rc = onnx_int(im, "axis", -INFER_MAX_RANK, INFER_MAX_RANK, &axis, err);
    if (rc < 0 || !broadcast)
        return rc;
    if (axis < 0)
        axis += ta.rank;
    if (axis < 0 || axis + tb.rank > ta.rank)
        return error_set(err, INFER_EFORMAT,
                         "axis %lld with shapes of rank %d and %d",
                         (long long)axis, ta.rank, tb.rank);
    for (; axis + tb.rank + n < ta.rank; n++)
        axes[n] = tb.rank + n;
    if (n == 0)
        return 0;
    return onnx_emit_dims(im, GRAPH_UNSQUEEZE, *b, n, axes, -1, b, err);
}

static int two_inputs(struct onnx_import *im, int *a, int *b,
                      struct infer_error *err)
{
    int rc = onnx_arity(im, 2, 2, err);

    if (rc == 0)
        rc = onnx_input(im, 0, a, err);
    if (rc == 0)
        rc = onnx_input(im, 1, b, err);
    if (rc == 0)
        rc = old_broadcast(im, b, err);
    return rc;
}

int onnx_import_binary(struct onnx_import *im, int kind,
                       struct infer_error *err)
{
    bool fmod = false;
    int a, b, rc;

    if (kind == KERN_MOD) {
        rc = onnx_flag(im, "fmod", &fmod, err);
        if (rc < 0)
            return rc;
        if (fmod)
            return error_set(err, INFER_EUNSUPPORTED,
                             "fmod 1 (C's remainder) is not supported");
    }
    rc = two_inputs(im, &a, &b, err);
    if (rc < 0)
        return rc;
    return onnx_emit_binary(im, (enum kern_binary_kind)kind, a, b, 0, NULL,
                            err);
}

/* The exponent may have another type than the base, whose type the result
 * has.  Integers to a broken power go through floats. */
int onnx_import_pow(struct onnx_import *im, int param, struct infer_error *err)
{
    struct graph_type ta, tb;
    int a, b, rc = two_inputs(im, &a, &b, err);

    (void)param;
    if (rc < 0)
        return rc;
    ta = im->type[a][0];
    tb = im->type[b][0];
    if (ta.dtype == tb.dtype)
        return onnx_emit_binary(im, KERN_POW, a, b, 0, NULL, err);
    if (scalar_is_float(ta.dtype) || !scalar_is_float(tb.dtype)) {
        rc = onnx_emit_cast(im, ta.dtype, b, -1, &b, err);
        if (rc < 0)
            return rc;
        return onnx_emit_binary(im, KERN_POW, a, b, 0, NULL, err);
    }
    rc = onnx_emit_cast(im, INFER_F32, a, -1, &a, err);
    if (rc == 0)
        rc = onnx_emit_binary(im, KERN_POW, a, b, -1, &a, err);
    if (rc == 0)
        rc = onnx_emit_cast(im, ta.dtype, a, 0, NULL, err);
    return rc;
}

/* Exclusive or of truth values is their inequality. */
int onnx_import_xor(struct onnx_import *im, int param, struct infer_error *err)
{
    int a, b, rc = two_inputs(im, &a, &b, err);

    (void)param;
    if (rc == 0)
        rc = onnx_emit_binary(im, KERN_EQUAL, a, b, -1, &a, err);
    if (rc == 0)
        rc = onnx_emit_unary(im, KERN_NOT, 0, 0, a, 0, NULL, err);
    return rc;
}

/* ---- more arguments ------------------------------------------------ */

/* Sum, Max, Min: a chain of two-argument nodes. */
static int chain(struct onnx_import *im, enum kern_binary_kind kind,
                 int last_out, int *value, struct infer_error *err)
{
    int n = im->node->n_in, i, a, b;
    int rc = onnx_arity(im, 1, -1, err);

    for (i = 1; i < n && rc == 0; i++)
        if (!onnx_has_input(im, i))
            rc = error_set(err, INFER_EFORMAT, "input %d is missing", i);
    if (rc == 0)
        rc = onnx_input(im, 0, &a, err);
    if (rc == 0 && n == 1 && last_out >= 0)
        return onnx_emit_unary(im, KERN_IDENTITY, 0, 0, a, last_out, value,
                               err);
    for (i = 1; i < n && rc == 0; i++) {
        rc = onnx_input(im, i, &b, err);
        if (rc == 0)
            rc = onnx_emit_binary(im, kind, a, b, i == n - 1 ? last_out : -1,
                                  &a, err);
    }
    if (rc == 0 && value)
        *value = a;
    return rc;
}

int onnx_import_variadic(struct onnx_import *im, int kind,
                         struct infer_error *err)
{
    return chain(im, (enum kern_binary_kind)kind, 0, NULL, err);
}

int onnx_import_mean(struct onnx_import *im, int param, struct infer_error *err)
{
    int sum, rc = chain(im, KERN_ADD, -1, &sum, err);

    (void)param;
    if (rc < 0)
        return rc;
    return onnx_emit_unary(im, KERN_LINEAR, 1.0f / (float)im->node->n_in, 0.0f,
                           sum, 0, NULL, err);
}

int onnx_import_where(struct onnx_import *im, int param,
                      struct infer_error *err)
{
    int in[3], i, rc = onnx_arity(im, 3, 3, err);

    (void)param;
    for (i = 0; i < 3 && rc == 0; i++)
        rc = onnx_input(im, i, &in[i], err);
    if (rc < 0)
        return rc;
    return onnx_emit(im, GRAPH_WHERE, NULL, in, 3, 0, NULL, err);
}

/* Before opset 7 a slope of one a channel is a plain vector; later it
 * broadcasts as numpy has it. */
int onnx_import_prelu(struct onnx_import *im, int param,
                      struct infer_error *err)
{
    int64_t axes[INFER_MAX_RANK];
    struct graph_type x, slope;
    int in[2], n = 0, rc = onnx_arity(im, 2, 2, err);

    (void)param;
    if (rc == 0)
        rc = onnx_input_type(im, 0, 0, &x, err);
    if (rc == 0)
        rc = onnx_input_type(im, 1, 0, &slope, err);
    if (rc == 0)
        rc = onnx_input(im, 0, &in[0], err);
    if (rc == 0)
        rc = onnx_input(im, 1, &in[1], err);
    if (rc == 0 && im->opset < 7 && slope.rank == 1 && slope.dim[0] > 1) {
        for (; n < x.rank - 2; n++)
            axes[n] = n + 1;
        if (n > 0)
            rc = onnx_emit_dims(im, GRAPH_UNSQUEEZE, in[1], n, axes, -1, &in[1],
                                err);
    }
    if (rc < 0)
        return rc;
    return onnx_emit(im, GRAPH_PRELU, NULL, in, 2, 0, NULL, err);
}

/* ---- Cast ---------------------------------------------------------- */

/* Target type: a number, or a word before opset 6. */
static int cast_target(struct onnx_import *im, enum infer_dtype *out,
                       struct infer_error *err)
{
    struct onnx_attr *a = onnx_attr(im, "to");
    int64_t type;

    if (!a || (a->type != ONNX_ATTR_INT && a->type != ONNX_ATTR_STRING))
        return error_set(err, INFER_EFORMAT, "attribute 'to' is missing");
    type = a->i;
    if (a->type == ONNX_ATTR_STRING)
        for (type = ONNX_BFLOAT16; type > 0; type--)
            if (a->s.bytes == strlen(onnx_type_name(type)) &&
                memcmp(a->s.data, onnx_type_name(type), a->s.bytes) == 0)
                break;
    *out = onnx_dtype(type);
    if (*out == INFER_NONE)
        return error_set(err, INFER_EUNSUPPORTED, "a cast to %s",
                         onnx_type_name(type));
    return 0;
}

int onnx_import_cast(struct onnx_import *im, int param, struct infer_error *err)
{
    enum infer_dtype to = INFER_NONE;
    struct graph_type t;
    struct constant *c;
    int in, rc = onnx_arity(im, 1, 1, err);

    (void)param;
    onnx_ignore(im, "saturate"); /* of 8-bit floats */
    onnx_ignore(im, "round_mode");
    if (rc == 0)
        rc = cast_target(im, &to, err);
    if (rc == 0)
        rc = onnx_input_type(im, 0, 0, &t, err);
    if (rc == 0)
        rc = onnx_input_constant(im, 0, &c, err);
    if (rc < 0)
        return rc;
    if (c) {
        c = constant_convert(c, to);
        if (!c)
            return error_set(err, INFER_EMEMORY, "out of memory");
        return onnx_set_constant(im, 0, c, err);
    }
    if (to == INFER_F64 || to == INFER_F16 || to == INFER_BF16)
        to = INFER_F32; /* what all floats are computed in */
    rc = onnx_input(im, 0, &in, err);
    if (rc < 0)
        return rc;
    if (to == t.dtype)
        return onnx_emit_unary(im, KERN_IDENTITY, 0, 0, in, 0, NULL, err);
    return onnx_emit_cast(im, to, in, 0, NULL, err);
}
