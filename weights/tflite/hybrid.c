/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TensorFlow Lite: layers of floats whose weights are integers ("dynamic
 * range").
 *
 * The kernels quantise the activations of each image, or of each row of a dense
 * layer, to 8 bits at run time, by their own smallest and largest value, and
 * multiply integers.  Here the weights become floats, which is nearer to the
 * network that was trained; with the option dynamic_range the activations are
 * rounded as the kernels round them, q = round(x / s) + z, and s (q - z) goes
 * into the layer, whose sums are then those of the integers but for rounding.
 */
#include <math.h>

#include "weights/tflite/tflite.h"

/* Scale of an input that is all zeros: any will do that is not 0. */
#define LEAST_SCALE 1e-30f

bool tflite_is_hybrid(struct tflite_import *im, int x, int w)
{
    return im->options->dynamic_range &&
           tflite_input_tensor(im, x).type == TFLITE_FLOAT32 &&
           tflite_input_tensor(im, w).type == TFLITE_INT8 &&
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

/* round(x), halves away from zero: sign(x) floor(|x| + 1/2). */
static int rounded(struct tflite_import *im, int x)
{
    int y = tflite_plain_unary(im, x, KERN_ABS);

    y = tflite_unary(im, y, KERN_LINEAR, 1, 0.5f);
    y = tflite_plain_unary(im, y, KERN_FLOOR);
    return tflite_binary(im, KERN_MUL, y, tflite_plain_unary(im, x, KERN_SIGN));
}

/* To -127 .. 127 by the largest magnitude. */
static int symmetric(struct tflite_import *im, int x, int axis)
{
    int scale =
        extreme(im, tflite_plain_unary(im, x, KERN_ABS), axis, KERN_REDUCE_MAX);
    int q;

    scale = tflite_unary(im, scale, KERN_LINEAR, 1 / 127.0f, 0);
    scale = tflite_unary(im, scale, KERN_CLIP, LEAST_SCALE, INFINITY);
    q = rounded(im, tflite_binary(im, KERN_DIV, x, scale));
    q = tflite_unary(im, q, KERN_CLIP, -127, 127);
    return tflite_binary(im, KERN_MUL, q, scale);
}

/* To -128 .. 127, so that the smallest element and the largest, of which one
 * may be 0 instead, are the ends. */
static int asymmetric(struct tflite_import *im, int x, int axis)
{
    int low = extreme(im, x, axis, KERN_REDUCE_MIN);
    int high = extreme(im, x, axis, KERN_REDUCE_MAX);
    int scale, zero, q;

    low = tflite_unary(im, low, KERN_CLIP, -INFINITY, 0);
    high = tflite_unary(im, high, KERN_CLIP, 0, INFINITY);
    scale = tflite_binary(im, KERN_SUB, high, low);
    scale = tflite_unary(im, scale, KERN_LINEAR, 1 / 255.0f, 0);
    scale = tflite_unary(im, scale, KERN_CLIP, LEAST_SCALE, INFINITY);
    zero = tflite_binary(im, KERN_DIV, low, scale);
    zero = rounded(im, tflite_unary(im, zero, KERN_LINEAR, -1, -128));
    zero = tflite_unary(im, zero, KERN_CLIP, -128, 127);
    q = tflite_binary(im, KERN_DIV, x, scale);
    q = rounded(im, tflite_binary(im, KERN_ADD, q, zero));
    q = tflite_unary(im, q, KERN_CLIP, -128, 127);
    q = tflite_binary(im, KERN_SUB, q, zero);
    return tflite_binary(im, KERN_MUL, q, scale);
}

int tflite_rounded_to_8(struct tflite_import *im, int x, int axis, bool offset)
{
    if (im->status < 0)
        return -1;
    return offset ? asymmetric(im, x, axis) : symmetric(im, x, axis);
}
