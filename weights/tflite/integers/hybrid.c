/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TensorFlow Lite: layers of floats whose weights are integers ("dynamic
 * range").
 *
 * The kernels quantise the activations of each image, or of each row of a dense
 * layer, to 8 bits at run time, by their own smallest and largest value, and
 * multiply integers.  Here the weights become floats, which is nearer to the
 * network that was trained; with the option dynamic_range the activations are
 * rounded as the kernels round them, q = round(x / s) + z.  The layer
 * multiplies the whole numbers q - z and those of the weights, whose sums are
 * exact up to 2^24, and its result times both scales is the kernel's.
 */
#include <math.h>
#include <stdlib.h>

#include "weights/tflite/tflite.h"

/* Scale of an input that is all zeros: any will do that is not 0.  Quotients
 * are those that the kernels round: a last bit can move a number by a step. */
#define LEAST_SCALE 1e-30f

/* CONV_2D, FULLY_CONNECTED, SVDF, and the sequences of RNN and LSTM: beside
 * floats their kernels read UINT8 weights as INT8, without a zero point. */
bool tflite_signed_weights(struct tflite_import *im)
{
    static const int codes[] = {3, 9, 27, 35, 44};
    struct infer_error fault;
    struct tflite_tensor t;

    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (im->op.code == codes[i] && tflite_has(im, 0))
            return tflite_model_tensor(im->m, fb_list_i32(&im->op.in, 0),
                                       &fault, &t) == 0 &&
                   t.type == TFLITE_FLOAT32;
    return false;
}

bool tflite_is_hybrid(struct tflite_import *im, int x, int w)
{
    return im->options->dynamic_range &&
           tflite_input_tensor(im, x).type == TFLITE_FLOAT32 &&
           (tflite_input_tensor(im, w).type == TFLITE_INT8 ||
            (tflite_input_tensor(im, w).type == TFLITE_UINT8 &&
             im->signed_weights)) &&
           tflite_known(im, w, 0);
}

/* The smallest or largest element of all dimensions from `axis` on. */
static int extreme(struct tflite_import *im, int x, int axis,
                   enum kern_reduce_kind kind)
{
    union graph_attr attr;

    if (im->status < 0)
        return -1;
    tflite_defaults(GRAPH_REDUCE, &attr);
    attr.reduce.kind = kind;
    attr.reduce.keep_dims = true;
    for (int d = axis; d < tflite_value_type(im, x, 0)->rank; d++)
        attr.reduce.axis[attr.reduce.n_axes++] = d;
    return tflite_emit(im, GRAPH_REDUCE, &attr, &x, 1);
}

/* To -127 .. 127 by the largest magnitude. */
static int symmetric(struct tflite_import *im, int x, int axis, int *scale_out)
{
    int scale =
        extreme(im, tflite_plain_unary(im, x, KERN_ABS), axis, KERN_REDUCE_MAX);
    int q;

    scale = tflite_unary(im, scale, KERN_CLIP, LEAST_SCALE, INFINITY);
    q = tflite_binary(im, KERN_DIV, tflite_scalar(im, 127), scale);
    q = tflite_round_away(im, tflite_binary(im, KERN_MUL, x, q));
    scale = tflite_binary(im, KERN_DIV, scale, tflite_scalar(im, 127));
    *scale_out = scale;
    return tflite_unary(im, q, KERN_CLIP, -127, 127);
}

/* To -128 .. 127, so that the smallest element and the largest, of which one
 * may be 0 instead, are the ends. */
static int asymmetric(struct tflite_import *im, int x, int axis, int *scale_out)
{
    int low = extreme(im, x, axis, KERN_REDUCE_MIN);
    int high = extreme(im, x, axis, KERN_REDUCE_MAX);
    int scale, zero, q;

    low = tflite_unary(im, low, KERN_CLIP, -INFINITY, 0);
    high = tflite_unary(im, high, KERN_CLIP, 0, INFINITY);
    scale = tflite_binary(im, KERN_SUB, high, low);
    scale = tflite_binary(im, KERN_DIV, scale, tflite_scalar(im, 255));
    scale = tflite_unary(im, scale, KERN_CLIP, LEAST_SCALE, INFINITY);
    zero = tflite_binary(im, KERN_DIV, low, scale);
    zero = tflite_round_away(im, tflite_unary(im, zero, KERN_LINEAR, -1, -128));
    zero = tflite_unary(im, zero, KERN_CLIP, -128, 127);
    q = tflite_binary(im, KERN_DIV, tflite_scalar(im, 1), scale);
    q = tflite_binary(im, KERN_MUL, x, q);
    q = tflite_round_away(im, tflite_binary(im, KERN_ADD, q, zero));
    q = tflite_unary(im, q, KERN_CLIP, -128, 127);
    *scale_out = scale;
    return tflite_binary(im, KERN_SUB, q, zero);
}

int tflite_rounded_to_8(struct tflite_import *im, int x, int axis, bool offset,
                        int *scale)
{
    *scale = -1;
    if (im->status < 0)
        return -1;
    return offset ? asymmetric(im, x, axis, scale)
                  : symmetric(im, x, axis, scale);
}

/* n numbers along the channels: the last dimension of rows, the second of
 * pictures. */
static int along_channels(struct tflite_import *im, int x, int64_t n,
                          bool picture)
{
    const int64_t dim[3] = {n, 1, 1};

    return picture && n > 1 && im->status == 0
               ? tflite_dims(im, GRAPH_RESHAPE, x, 3, dim)
               : x;
}

/* The scales of the weights of input w: one, or one a channel. */
static int scales_of(struct tflite_import *im, int w, int64_t channels,
                     bool picture)
{
    const struct tflite_tensor t = tflite_input_tensor(im, w);
    const int64_t n = (int64_t)t.scale.count;
    float *factor;
    int x;

    if (n != 1 && n != channels)
        return tflite_fail(im, INFER_EFORMAT, "%lld scales for %lld channels",
                           (long long)n, (long long)channels);
    factor = calloc((size_t)n, sizeof *factor);
    if (!factor)
        return tflite_fail(im, INFER_EMEMORY, "out of memory");
    for (int64_t i = 0; i < n; i++)
        factor[i] = fb_list_f32(&t.scale, (size_t)i);
    x = tflite_vector(im, factor, n);
    free(factor);
    return along_channels(im, x, n, picture);
}

int tflite_scaled_from_8(struct tflite_import *im, int y, int scale, int w,
                         int bias, bool picture)
{
    const struct graph_type *t;
    int64_t channels;

    if (im->status < 0)
        return -1;
    t = tflite_value_type(im, y, 0);
    channels = t->dim[picture ? 1 : t->rank - 1];
    w = scales_of(im, w, channels, picture);
    y = tflite_binary(im, KERN_MUL, y, tflite_binary(im, KERN_MUL, scale, w));
    if (bias < 0)
        return y;
    return tflite_binary(im, KERN_ADD, y,
                         along_channels(im, bias, channels, picture));
}
