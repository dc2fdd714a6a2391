/* SPDX-License-Identifier: Apache-2.0 */
/* Resizing pictures, and moving between depth and space. */
#include <string.h>

#include "kernels/base/error.h"
#include "weights/tensorflow/tensorflow.h"

/* TensorFlow's coordinates: x in / out as written first, with the centres of
 * the pixels from 2.0 on, or with the corners fixed.  The nearest neighbour is
 * rounded down; from the centres that is half up of ONNX's coordinate. */
static void resize_attributes(struct onnx_import *im, bool nearest,
                              struct onnx_attr *attr)
{
    bool corners = false, centres = false;

    onnx_flag(im, "align_corners", &corners);
    onnx_flag(im, "half_pixel_centers", &centres);
    if (corners && centres)
        onnx_fail(im, INFER_EFORMAT,
                  "both align_corners and half_pixel_centers");
    attr[0] = tf_set_word("mode", nearest ? "nearest" : "linear");
    attr[1] =
        tf_set_word("coordinate_transformation_mode", corners ? "align_corners"
                                                      : centres ? "half_pixel"
                                                                : "asymmetric");
    attr[2] = tf_set_word("nearest_mode",
                          corners || centres ? "round_prefer_ceil" : "floor");
}

int tf_resize(struct onnx_import *im)
{
    static const int64_t order[2][4] = {{0, 3, 1, 2}, {0, 2, 3, 1}};
    static const int64_t space[2] = {2, 3};
    const struct onnx_attr first = tf_set_ints("perm", order[0], 4);
    const struct onnx_attr last = tf_set_ints("perm", order[1], 4);
    const struct pb_span out = tf_temp(im, "resized");
    struct pb_span in[4] = {{NULL, 0}};
    struct onnx_attr attr[4];
    struct graph_type t;

    onnx_arity(im, 2, 2);
    resize_attributes(im, tf_row(im)->param, attr);
    attr[3] = tf_set_ints("axes", space, 2);
    if (onnx_input_type(im, 0, 0, &t) < 0)
        return im->rc;
    if (t.rank != 4)
        return onnx_fail(im, INFER_EFORMAT, "a picture of rank %d", t.rank);
    in[0] = tf_temp(im, "nchw");
    in[3] = im->node->in[1];
    onnx_step(im, "Transpose", im->node->in, 1, in[0], &first, 1);
    onnx_step(im, "Resize", in, 4, out, attr, 4);
    return tf_last(im, "Transpose", &out, 1, &last, 1);
}

int tf_block(struct onnx_import *im)
{
    const enum graph_op op = (enum graph_op)tf_row(im)->param;
    const bool first = tf_channels_first(im);
    union graph_attr attr;
    int64_t block = 0;
    int in;

    onnx_arity(im, 1, 1);
    onnx_defaults(op, &attr);
    onnx_int(im, "block_size", 1, INT32_MAX, &block);
    if (im->rc == 0 && block == 0)
        onnx_fail(im, INFER_EFORMAT, "attribute 'block_size' is missing");
    tf_picture(im, 0, first, &in);
    attr.depth_space.block = (int)block;
    return tf_emit_picture(im, op, &attr, &in, 1, first);
}
