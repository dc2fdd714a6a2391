/* SPDX-License-Identifier: Apache-2.0 */
/* Element-wise operators, reductions and products. */
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "weights/tensorflow/tensorflow.h"

/* ---- the same in ONNX ---------------------------------------------- */

int tf_rename(struct onnx_import *im)
{
    const struct tf_op *op = tf_row(im);
    const int n = op->param;

    onnx_ignore(im, "incompatible_shape_error");
    onnx_ignore(im, "bad_indices_policy"); /* of GatherNd */
    onnx_arity(im, n > 0 ? n : 1, n > 0 ? n : -1);
    return tf_last(im, op->onnx, im->node->in, im->node->n_in, NULL, 0);
}

/* Functions of kernels/unary.def with TensorFlow's own numbers. */
int tf_unary(struct onnx_import *im)
{
    const enum kern_unary_kind kind = (enum kern_unary_kind)tf_row(im)->param;
    float a = kind == KERN_LEAKY_RELU ? 0.2f : 0.0f;
    int in;

    onnx_arity(im, 1, 1);
    if (kind == KERN_LEAKY_RELU)
        onnx_float(im, "alpha", &a);
    onnx_input(im, 0, &in);
    return onnx_emit_unary(im, kind, a, kind == KERN_CLIP ? 6 : 0, in, 0, NULL);
}

/* ---- compositions -------------------------------------------------- */

/* 1 / sqrt(x) */
int tf_rsqrt(struct onnx_import *im)
{
    struct pb_span root;

    if (onnx_arity(im, 1, 1) < 0)
        return im->rc;
    root = tf_next(im, "Sqrt", im->node->in[0], "sqrt");
    return tf_last(im, "Reciprocal", &root, 1, NULL, 0);
}

/* exp(x) - 1 and log(1 + x), each in two roundings. */
int tf_expm1(struct onnx_import *im)
{
    int x;

    onnx_arity(im, 1, 1);
    onnx_input(im, 0, &x);
    onnx_emit_unary(im, KERN_EXP, 0, 0, x, -1, &x);
    return onnx_emit_unary(im, KERN_LINEAR, 1, -1, x, 0, NULL);
}

int tf_log1p(struct onnx_import *im)
{
    int x;

    onnx_arity(im, 1, 1);
    onnx_input(im, 0, &x);
    onnx_emit_unary(im, KERN_LINEAR, 1, 1, x, -1, &x);
    return onnx_emit_unary(im, KERN_LOG, 0, 0, x, 0, NULL);
}

/* 1 - erf(x) */
int tf_erfc(struct onnx_import *im)
{
    struct pb_span in[2];
    struct graph_type t;
    struct constant *one;

    onnx_arity(im, 1, 1);
    if (onnx_input_type(im, 0, 0, &t) < 0)
        return im->rc;
    in[1] = tf_next(im, "Erf", im->node->in[0], "erf");
    one = constant_new(t.dtype, 0, NULL);
    if (one)
        scalar_store(t.dtype, one->data, 0, 1);
    in[0] = onnx_step_constant(im, one);
    return tf_last(im, "Sub", in, 2, NULL, 0);
}

/* x x, and with two inputs (x - y) (x - y). */
int tf_square(struct onnx_import *im)
{
    const int n = tf_row(im)->param;
    struct pb_span in[2];

    if (onnx_arity(im, n, n) < 0)
        return im->rc;
    in[0] = im->node->in[0];
    if (n == 2) {
        in[0] = tf_temp(im, "difference");
        onnx_step(im, "Sub", im->node->in, 2, in[0], NULL, 0);
    }
    in[1] = in[0];
    return tf_last(im, "Mul", in, 2, NULL, 0);
}

/* Rounds down; for integers (a - a mod b) / b, which divides without rest. */
int tf_floor_div(struct onnx_import *im)
{
    struct pb_span first = tf_temp(im, "first"), in[2];
    struct graph_type t;

    onnx_arity(im, 2, 2);
    if (onnx_input_type(im, 0, 0, &t) < 0)
        return im->rc;
    if (scalar_is_float(t.dtype)) {
        onnx_step(im, "Div", im->node->in, 2, first, NULL, 0);
        return tf_last(im, "Floor", &first, 1, NULL, 0);
    }
    onnx_step(im, "Mod", im->node->in, 2, first, NULL, 0);
    in[0] = im->node->in[0];
    in[1] = first;
    first = tf_temp(im, "whole");
    onnx_step(im, "Sub", in, 2, first, NULL, 0);
    in[0] = first;
    in[1] = im->node->in[1];
    return tf_last(im, "Div", in, 2, NULL, 0);
}

int tf_not_equal(struct onnx_import *im)
{
    const struct pb_span equal = tf_temp(im, "equal");

    onnx_arity(im, 2, 2);
    onnx_ignore(im, "incompatible_shape_error");
    onnx_step(im, "Equal", im->node->in, 2, equal, NULL, 0);
    return tf_last(im, "Not", &equal, 1, NULL, 0);
}

/* Select of old graphs takes a vector of conditions for whole rows. */
int tf_select(struct onnx_import *im)
{
    struct graph_type condition, x;

    onnx_arity(im, 3, 3);
    onnx_input_type(im, 0, 0, &condition);
    if (onnx_input_type(im, 1, 0, &x) < 0)
        return im->rc;
    if (condition.rank != x.rank && condition.rank != 0)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "conditions of rank %d for values of rank %d",
                         condition.rank, x.rank);
    return tf_last(im, "Where", im->node->in, 3, NULL, 0);
}

/* ---- bias ---------------------------------------------------------- */

/* Along the channels: the last dimension, or dimension 1. */
int tf_bias_add(struct onnx_import *im)
{
    const bool first = tf_channels_first(im);
    int64_t shape[INFER_MAX_RANK];
    struct graph_type x, bias;
    int a, b;

    onnx_arity(im, 2, 2);
    onnx_input_type(im, 0, 0, &x);
    if (onnx_input_type(im, 1, 0, &bias) < 0)
        return im->rc;
    if (bias.rank != 1 || x.rank < 2 ||
        bias.dim[0] != x.dim[first ? 1 : x.rank - 1])
        return onnx_fail(im, INFER_EFORMAT,
                         "the bias has not one number a channel");
    if (!first || x.rank == 2)
        return tf_last(im, "Add", im->node->in, 2, NULL, 0);
    onnx_input(im, 0, &a);
    onnx_input(im, 1, &b);
    shape[0] = bias.dim[0];
    for (int d = 1; d < x.rank - 1; d++)
        shape[d] = 1;
    im->emitted++; /* the node's name is for the sum */
    onnx_emit_dims(im, GRAPH_RESHAPE, b, x.rank - 1, shape, -1, &b);
    im->emitted = 0;
    return onnx_emit_binary(im, KERN_ADD, a, b, 0, NULL);
}

/* ---- reductions ---------------------------------------------------- */

/* An empty list of axes reduces nothing. */
int tf_reduce(struct onnx_import *im)
{
    int64_t axes[INFER_MAX_RANK];
    struct onnx_attr attr[2];
    struct pb_span in[2];
    bool keep = false;
    int n = 0;

    onnx_arity(im, 2, 2);
    onnx_flag(im, "keep_dims", &keep);
    if (onnx_input_ints(im, 1, "the axes", INFER_MAX_RANK, axes, &n) < 0)
        return im->rc;
    in[0] = im->node->in[0];
    in[1] = tf_ints(im, "axes", axes, n);
    attr[0] = tf_set_int("keepdims", keep);
    attr[1] = tf_set_int("noop_with_empty_axes", 1);
    return tf_last(im, tf_row(im)->onnx, in, 2, attr, 2);
}

int tf_arg_reduce(struct onnx_import *im)
{
    const struct onnx_attr *type = onnx_attr(im, "output_type");
    const struct pb_span index = tf_temp(im, "index");
    struct onnx_attr attr[2];
    int64_t axis = 0;

    onnx_arity(im, 2, 2);
    tf_axis(im, 1, &axis);
    attr[0] = tf_set_int("axis", axis);
    attr[1] = tf_set_int("keepdims", 0);
    onnx_step(im, tf_row(im)->onnx, im->node->in, 1, index, attr, 2);
    attr[0] =
        tf_set_int("to", type ? tf_onnx_type((uint64_t)type->i) : ONNX_INT64);
    return tf_last(im, "Cast", &index, 1, attr, 1);
}

/* ---- softmax and casts --------------------------------------------- */

int tf_softmax(struct onnx_import *im)
{
    const struct onnx_attr axis = tf_set_int("axis", -1);

    onnx_arity(im, 1, 1);
    return tf_last(im, tf_row(im)->onnx, im->node->in, 1, &axis, 1);
}

int tf_cast(struct onnx_import *im)
{
    const struct onnx_attr *type = onnx_attr(im, "DstT");
    struct onnx_attr to;

    onnx_arity(im, 1, 1);
    onnx_ignore(im, "Truncate"); /* of narrow floats alone */
    if (!type || tf_onnx_type((uint64_t)type->i) == 0)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "a cast to TensorFlow's type %lld",
                         type ? (long long)type->i : 0);
    to = tf_set_int("to", tf_onnx_type((uint64_t)type->i));
    return tf_last(im, "Cast", im->node->in, 1, &to, 1);
}

/* ---- products ------------------------------------------------------ */

/* An input with its last two axes exchanged, where asked for. */
static struct pb_span turned(struct onnx_import *im, int i, bool turn)
{
    int64_t order[INFER_MAX_RANK];
    struct onnx_attr perm;
    struct graph_type t;
    struct pb_span out;

    if (im->rc < 0 || !turn)
        return im->rc < 0 ? (struct pb_span){NULL, 0} : im->node->in[i];
    out = tf_temp(im, i ? "right" : "left");
    if (onnx_input_type(im, i, 0, &t) == 0 && t.rank < 2)
        onnx_fail(im, INFER_EFORMAT, "a matrix of rank %d", t.rank);
    if (im->rc < 0)
        return out;
    for (int d = 0; d < t.rank; d++)
        order[d] = d;
    order[t.rank - 1] = t.rank - 2;
    order[t.rank - 2] = t.rank - 1;
    perm = tf_set_ints("perm", order, t.rank);
    onnx_step(im, "Transpose", &im->node->in[i], 1, out, &perm, 1);
    return out;
}

/* MatMul has two matrices, BatchMatMul any number of them side by side. */
int tf_matmul(struct onnx_import *im)
{
    const bool batch = tf_row(im)->param;
    struct onnx_attr attr[2];
    bool a = false, b = false;
    struct pb_span in[2];

    onnx_arity(im, 2, 2);
    onnx_flag(im, batch ? "adj_x" : "transpose_a", &a);
    onnx_flag(im, batch ? "adj_y" : "transpose_b", &b);
    if (!batch && (a || b)) {
        attr[0] = tf_set_int("transA", a);
        attr[1] = tf_set_int("transB", b);
        return tf_last(im, "Gemm", im->node->in, 2, attr, 2);
    }
    in[0] = turned(im, 0, a);
    in[1] = turned(im, 1, b);
    return tf_last(im, "MatMul", in, 2, NULL, 0);
}
