/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators of the domain com.microsoft on quantised tensors, which ONNX
 * Runtime's quantizer writes: dequantised inputs, the function on floats, and
 * its result quantised.  The result has the type of the first tensor.
 */
#include <string.h>

#include "weights/onnx/composed/compose.h"
#include "weights/onnx/window.h"

/* ---- tensors with their scales ------------------------------------- */

/* Inputs i, i + 1, i + 2: a tensor, its scale and its zero point, which may be
 * absent.  Scales are one number. */
static int dequantized(struct onnx_import *im, int i)
{
    const int scale = compose_input(im, i + 1);

    if (im->rc == 0 && compose_rank(im, scale) > 0 &&
        compose_dim(im, scale, 0) != 1)
        onnx_fail(im, INFER_EUNSUPPORTED, "a scale for each channel");
    return compose_dequantize(im, compose_input(im, i), scale,
                              compose_input(im, i + 2), 0);
}

/* Output 0: y by the scale of input i and the zero point of input i + 1. */
static int quantized(struct onnx_import *im, int y, int i, int like)
{
    return compose_output(
        im, 0,
        compose_quantize(im, y, compose_input(im, i), compose_input(im, i + 1),
                         compose_dtype(im, compose_input(im, like))));
}

/* ---- element-wise -------------------------------------------------- */

/* The row's kind of A and B: A, B and C with scale and zero point each. */
int onnx_import_qlinear_binary(struct onnx_import *im)
{
    int y;

    onnx_arity(im, 7, 8);
    y = compose_binary(im, (enum kern_binary_kind)im->param, dequantized(im, 0),
                       dequantized(im, 3));
    return quantized(im, y, 6, 0);
}

int onnx_import_qlinear_unary(struct onnx_import *im)
{
    const enum kern_unary_kind kind = (enum kern_unary_kind)im->param;
    const struct kern_unary f = kern_unary_default(kind);
    float a = f.a;
    int x, y = -1;

    onnx_arity(im, 4, 5);
    if (kind == KERN_LEAKY_RELU)
        onnx_float(im, "alpha", &a);
    x = dequantized(im, 0);
    onnx_emit_unary(im, kind, a, f.b, x, -1, &y);
    return quantized(im, y, 3, 0);
}

int onnx_import_qlinear_softmax(struct onnx_import *im)
{
    union graph_attr attr;
    int64_t opset = 0;
    int x, y = -1;

    onnx_arity(im, 4, 5);
    onnx_defaults(GRAPH_SOFTMAX, &attr);
    onnx_int(im, "opset", 1, INT32_MAX, &opset);
    x = dequantized(im, 0);
    attr.axis.axis = compose_axis(im, x, opset < 13 ? 1 : -1);
    attr.axis.flatten = opset < 13;
    onnx_emit(im, GRAPH_SOFTMAX, &attr, &x, 1, -1, &y);
    return quantized(im, y, 3, 0);
}

/* condition, then X, Y and Z with scale and zero point each. */
int onnx_import_qlinear_where(struct onnx_import *im)
{
    int y;

    onnx_arity(im, 9, 9);
    y = compose_where(im, compose_input(im, 0), dequantized(im, 1),
                      dequantized(im, 4));
    return quantized(im, y, 7, 1);
}

/* Scale and zero point of the result, then tensors with theirs. */
int onnx_import_qlinear_concat(struct onnx_import *im)
{
    enum { MOST = 256 };
    int part[MOST];
    const int n = (im->node->n_in - 2) / 3;

    onnx_arity(im, 5, -1);
    if (im->rc < 0)
        return im->rc;
    if (im->node->n_in % 3 != 2 || n > MOST)
        return onnx_fail(im, INFER_EFORMAT, "%d inputs", im->node->n_in);
    for (int i = 0; i < n && im->rc == 0; i++)
        part[i] = dequantized(im, 2 + 3 * i);
    if (im->rc < 0)
        return im->rc;
    return quantized(
        im, compose_concat(im, n, part, compose_axis(im, part[0], 0)), 0, 2);
}

int onnx_import_qlinear_reduce_mean(struct onnx_import *im)
{
    int64_t axes[INFER_MAX_RANK], keep = 1;
    int x, rank, n = -1;

    onnx_arity(im, 4, 5);
    onnx_ints(im, "axes", INFER_MAX_RANK, axes, &n);
    onnx_int(im, "keepdims", 0, 1, &keep);
    x = dequantized(im, 0);
    rank = compose_rank(im, x);
    if (n < 0)
        for (n = 0; n < rank; n++)
            axes[n] = n;
    for (int i = 0; i < n && im->rc == 0; i++) {
        int axis = 0;

        if (axes[i] < -rank || axes[i] >= rank)
            return onnx_fail(im, INFER_EFORMAT, "axis %lld of %d dimensions",
                             (long long)axes[i], rank);
        im->rc = op_axis((int)axes[i], rank, &axis, im->err);
        axes[i] = axis;
        x = compose_reduce(im, KERN_REDUCE_MEAN, x, axis);
    }
    if (!keep)
        onnx_emit_dims(im, GRAPH_SQUEEZE, x, n, axes, -1, &x);
    return quantized(im, x, 3, 0);
}

/* ---- pools --------------------------------------------------------- */

/* The row's parameter: the whole picture. */
int onnx_import_qlinear_average_pool(struct onnx_import *im)
{
    const bool global = im->param != 0;
    union graph_attr attr;
    bool last = false;
    int spatial = 1, x, y = -1;

    onnx_arity(im, 4, 5);
    onnx_defaults(GRAPH_POOL, &attr);
    attr.pool.pool.kind = KERN_POOL_AVERAGE;
    onnx_flag(im, "channels_last", &last);
    if (onnx_spatial_rank(im, &spatial) < 0)
        return im->rc;
    if (global)
        memset(attr.pool.pool.window, 0, sizeof attr.pool.pool.window);
    else
        onnx_pool_attributes(im, spatial, &attr.pool);
    x = dequantized(im, 0);
    if (last)
        x = compose_channels_first(im, x);
    onnx_emit(im, GRAPH_POOL, &attr, &x, 1, -1, &y);
    if (last)
        y = compose_channels_last(im, y);
    return quantized(im, y, 3, 0);
}

/* MaxPool of integers with channels last. */
int onnx_import_nhwc_max_pool(struct onnx_import *im)
{
    enum infer_dtype type;
    union graph_attr attr;
    int spatial = 1, x, y = -1;

    onnx_arity(im, 1, 1);
    onnx_defaults(GRAPH_POOL, &attr);
    attr.pool.pool.kind = KERN_POOL_MAX;
    if (onnx_spatial_rank(im, &spatial) < 0)
        return im->rc;
    onnx_pool_attributes(im, spatial, &attr.pool);
    x = compose_input(im, 0);
    type = compose_dtype(im, x);
    x = compose_channels_first(im, compose_cast(im, INFER_F32, x));
    onnx_emit(im, GRAPH_POOL, &attr, &x, 1, -1, &y);
    return compose_output(im, 0,
                          compose_cast(im, type, compose_channels_last(im, y)));
}

/* ---- products ------------------------------------------------------ */

/* alpha A B + C as integers of scales a and b; floats where input 7 is absent.
 * Scales of B may be one a column. */
int onnx_import_qgemm(struct onnx_import *im)
{
    bool trans_a = false, trans_b = false;
    float alpha = 1;
    int a, b, y, scale;

    onnx_arity(im, 6, 9);
    onnx_float(im, "alpha", &alpha);
    onnx_flag(im, "transA", &trans_a);
    onnx_flag(im, "transB", &trans_b);
    a = compose_centred(im, compose_input(im, 0), compose_input(im, 2));
    b = compose_input(im, 3);
    compose_need_rank(im, a, 2, 2);
    compose_need_rank(im, b, 2, 2);
    if (trans_a)
        a = compose_swap(im, a, 0, 1);
    if (trans_b)
        b = compose_swap(im, b, 0, 1);
    b = compose_centred(im, b, compose_input(im, 5));
    y = compose_matmul(im, a, b, false, 1);
    scale = compose_binary(im, KERN_MUL, compose_input(im, 1),
                           compose_input(im, 4));
    /* C has the scale alpha a b. */
    if (onnx_has_input(im, 6))
        y = compose_binary(im, KERN_ADD, y,
                           compose_cast(im, INFER_F32, compose_input(im, 6)));
    if (alpha != 1.0f)
        scale = compose_linear(im, (double)alpha, 0, scale);
    y = compose_binary(im, KERN_MUL, y, scale);
    return onnx_has_input(im, 7) ? quantized(im, y, 7, 0)
                                 : compose_output(im, 0, y);
}

/* A B of integers times both scales, plus a bias: A, B, a scale, b scale, a
 * zero, b zero, bias. */
int onnx_import_matmul_integer_to_float(struct onnx_import *im)
{
    int y, scale;

    onnx_arity(im, 4, 7);
    y = compose_matmul(
        im, compose_centred(im, compose_input(im, 0), compose_input(im, 4)),
        compose_centred(im, compose_input(im, 1), compose_input(im, 5)), false,
        1);
    scale = compose_binary(im, KERN_MUL, compose_input(im, 2),
                           compose_input(im, 3));
    y = compose_binary(im, KERN_MUL, y, scale);
    if (onnx_has_input(im, 6))
        y = compose_binary(im, KERN_ADD, y, compose_input(im, 6));
    return compose_output(im, 0, y);
}

/* Floats A, which are quantised at run time, by integers B: A, B, b scale, b
 * zero, bias. */
int onnx_import_dynamic_quantize_matmul(struct onnx_import *im)
{
    int a, y, scale, zero;

    onnx_arity(im, 3, 5);
    a = compose_quantize_dynamically(im, compose_input(im, 0), &scale, &zero);
    y = compose_matmul(
        im, compose_centred(im, a, zero),
        compose_centred(im, compose_input(im, 1), compose_input(im, 3)), false,
        1);
    y = compose_binary(
        im, KERN_MUL, y,
        compose_binary(im, KERN_MUL, scale, compose_input(im, 2)));
    if (onnx_has_input(im, 4))
        y = compose_binary(im, KERN_ADD, y, compose_input(im, 4));
    return compose_output(im, 0, y);
}
