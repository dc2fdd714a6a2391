/* SPDX-License-Identifier: Apache-2.0 */
/* Pooling and normalisation. */
#include <string.h>

#include "kernels/base/error.h"
#include "weights/tensorflow/tensorflow.h"

/* ---- pooling ------------------------------------------------------- */

int tf_pool(struct onnx_import *im)
{
    const bool first = tf_channels_first(im);
    union graph_attr attr;
    int in;

    onnx_arity(im, 1, 1);
    onnx_ignore(im, "include_batch_in_index"); /* of places, no output here */
    onnx_ignore(im, "Targmax");
    onnx_defaults(GRAPH_POOL, &attr);
    attr.pool.pool.kind = (enum kern_pool_kind)tf_row(im)->param;
    for (int d = 0; d < KERN_MAX_SPATIAL; d++) {
        attr.pool.pool.stride[d] = 1;
        attr.pool.pool.dilation[d] = 1;
    }
    if (!onnx_has_attr(im, "ksize"))
        return onnx_fail(im, INFER_EFORMAT, "attribute 'ksize' is missing");
    tf_window_ints(im, "ksize", first, attr.pool.pool.window);
    tf_window_ints(im, "strides", first, attr.pool.pool.stride);
    tf_padding(im, first, &attr.pool.auto_pad, attr.pool.pool.pad_begin,
               attr.pool.pool.pad_end);
    tf_picture(im, 0, first, &in);
    return tf_emit_picture(im, GRAPH_POOL, &attr, &in, 1, first);
}

/* ---- batch normalisation ------------------------------------------- */

static int get_epsilon(struct onnx_import *im, float *epsilon)
{
    *epsilon = 1e-4f;
    onnx_float(im, "epsilon", epsilon);
    if (*epsilon < 0.0f)
        return onnx_fail(im, INFER_EFORMAT, "attribute 'epsilon' is %g",
                         (double)*epsilon);
    return im->rc;
}

/* Mean over all dimensions but the channels, which keeps them all. */
static int mean_of(struct onnx_import *im, int in, bool first, int *out)
{
    union graph_attr attr;

    onnx_defaults(GRAPH_REDUCE, &attr);
    attr.reduce.kind = KERN_REDUCE_MEAN;
    attr.reduce.keep_dims = true;
    attr.reduce.n_axes = 3;
    attr.reduce.axis[0] = 0;
    attr.reduce.axis[1] = tf_space(first);
    attr.reduce.axis[2] = tf_space(first) + 1;
    return onnx_emit(im, GRAPH_REDUCE, &attr, &in, 1, -1, out);
}

/* Input i, one number a channel, in the shape of the channels. */
static int channel_input(struct onnx_import *im, int i, bool first, int *out)
{
    static const int64_t shape[3] = {-1, 1, 1};

    if (onnx_input(im, i, out) < 0 || !first)
        return im->rc;
    return onnx_emit_dims(im, GRAPH_RESHAPE, *out, 3, shape, -1, out);
}

/* is_training: mean and variance are those of the batch at hand. */
static int batch_statistics(struct onnx_import *im, bool first, float epsilon)
{
    struct constant *c = constant_new(INFER_F32, 0, NULL);
    int x, scale, shift, mean, d, square, variance, eps;

    if (c)
        memcpy(c->data, &epsilon, sizeof epsilon);
    if (onnx_add_constant(im, c, &eps) < 0 || onnx_input(im, 0, &x) < 0 ||
        channel_input(im, 1, first, &scale) < 0 ||
        channel_input(im, 2, first, &shift) < 0 ||
        mean_of(im, x, first, &mean) < 0 ||
        onnx_emit_binary(im, KERN_SUB, x, mean, -1, &d) < 0 ||
        onnx_emit_binary(im, KERN_MUL, d, d, -1, &square) < 0 ||
        mean_of(im, square, first, &variance) < 0 ||
        onnx_emit_binary(im, KERN_ADD, variance, eps, -1, &variance) < 0 ||
        onnx_emit_unary(im, KERN_SQRT, 0, 0, variance, -1, &variance) < 0 ||
        onnx_emit_binary(im, KERN_DIV, d, variance, -1, &d) < 0 ||
        onnx_emit_binary(im, KERN_MUL, d, scale, -1, &d) < 0)
        return im->rc;
    return onnx_emit_binary(im, KERN_ADD, d, shift, 0, NULL);
}

int tf_batch_norm(struct onnx_import *im)
{
    const bool first = tf_channels_first(im);
    bool training = true;
    union graph_attr attr;
    struct graph_type t;
    int in[5];

    onnx_arity(im, 5, 5);
    onnx_defaults(GRAPH_BATCH_NORM, &attr);
    get_epsilon(im, &attr.norm.epsilon);
    onnx_flag(im, "is_training", &training);
    if (onnx_input_type(im, 0, 0, &t) < 0)
        return im->rc;
    if (t.rank != 4)
        return onnx_fail(im, INFER_EFORMAT, "an input of rank %d, expected 4",
                         t.rank);
    if (training)
        return batch_statistics(im, first, attr.norm.epsilon);
    for (int i = 1; i < 5; i++)
        onnx_input(im, i, &in[i]);
    tf_picture(im, 0, first, &in[0]);
    return tf_emit_picture(im, GRAPH_BATCH_NORM, &attr, in, 5, first);
}

/* ---- across channels ----------------------------------------------- */

/* TensorFlow's alpha belongs to each of the 2 depth_radius + 1 channels. */
int tf_lrn(struct onnx_import *im)
{
    float alpha = 1.0f, beta = 0.5f, bias = 1.0f;
    int64_t radius = 5;
    union graph_attr attr;
    int in;

    onnx_arity(im, 1, 1);
    onnx_defaults(GRAPH_LRN, &attr);
    onnx_int(im, "depth_radius", 0, 1 << 20, &radius);
    onnx_float(im, "alpha", &alpha);
    onnx_float(im, "beta", &beta);
    onnx_float(im, "bias", &bias);
    tf_picture(im, 0, false, &in);
    attr.lrn.size = (int)(2 * radius + 1);
    attr.lrn.alpha = alpha * (float)attr.lrn.size;
    attr.lrn.beta = beta;
    attr.lrn.bias = bias;
    return tf_emit_picture(im, GRAPH_LRN, &attr, &in, 1, false);
}
