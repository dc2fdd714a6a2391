/* SPDX-License-Identifier: Apache-2.0 */
/* Resizing pictures, and moving between depth and space. */
#include <string.h>

#include "kernels/base/error.h"
#include "weights/filters/filter.h"
#include "weights/onnx/composed/compose.h"
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

/* ---- filters ------------------------------------------------------- */

/* N,C,H,W with one axis resized by a product with a matrix; axis 2 or 3. */
static int filtered(struct onnx_import *im, int x, int axis, int64_t out,
                    struct filter f)
{
    const int64_t in = compose_dim(im, x, axis);
    const int64_t dim[2] = {axis == 2 ? out : in, axis == 2 ? in : out};
    float *data = NULL;
    int m;

    if (im->rc < 0)
        return -1;
    if (out < 1 || in < 1 || in > FILTER_MAX_MATRIX ||
        out > FILTER_MAX_MATRIX / in)
        return onnx_fail(im, INFER_EUNSUPPORTED, "%lld pixels from %lld",
                         (long long)out, (long long)in);
    m = compose_floats(im, 2, dim, &data);
    if (im->rc == 0 && !filter_fill(&f, in, out, axis == 2, data))
        return onnx_no_memory(im);
    return axis == 2 ? compose_matmul(im, m, x, false, 1)
                     : compose_matmul(im, x, m, false, 1);
}

static int picture_size(struct onnx_import *im, int64_t *size)
{
    int n = -1;

    onnx_input_ints(im, 1, "the size", 2, size, &n);
    return im->rc == 0 && n != 2
               ? onnx_fail(im, INFER_EFORMAT, "no height and width")
               : im->rc;
}

int tf_resize_cubic(struct onnx_import *im)
{
    const struct filter f = {.kind = FILTER_CUBIC_TABLE};
    bool corners = false, centres = false;
    int64_t size[2];
    int x;

    onnx_arity(im, 2, 2);
    onnx_flag(im, "align_corners", &corners);
    onnx_flag(im, "half_pixel_centers", &centres);
    if (im->rc == 0 && (corners || !centres))
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "bicubic resizing of TensorFlow 1");
    if (picture_size(im, size) < 0 || tf_picture(im, 0, false, &x) < 0)
        return im->rc;
    x = filtered(im, x, 3, size[1], f);
    x = filtered(im, x, 2, size[0], f);
    return compose_output(im, 0, compose_channels_last(im, x));
}

/* Two numbers of a constant input. */
static int two_floats(struct onnx_import *im, int i, const char *what,
                      double *out)
{
    struct constant *c = NULL;

    if (onnx_input_constant(im, i, &c) < 0)
        return im->rc;
    if (!c || c->dtype != INFER_F32 || constant_count(c) != 2)
        return onnx_fail(im, INFER_EUNSUPPORTED, "%s that is computed", what);
    for (int k = 0; k < 2; k++)
        out[k] = (double)((const float *)(const void *)c->data)[k];
    return 0;
}

int tf_scale_and_translate(struct onnx_import *im)
{
    static const char *const words[] = {
        "lanczos3", "lanczos5",  "gaussian",      "box",
        "triangle", "keyscubic", "mitchellcubic", NULL};
    double scale[2], translate[2];
    struct filter f = {.antialias = true};
    int64_t size[2];
    int word = 0, x;

    onnx_arity(im, 4, 4);
    onnx_word(im, "kernel_type", words, &word);
    onnx_flag(im, "antialias", &f.antialias);
    if (picture_size(im, size) < 0 || two_floats(im, 2, "a scale", scale) < 0 ||
        two_floats(im, 3, "an offset", translate) < 0 ||
        tf_picture(im, 0, false, &x) < 0)
        return im->rc;
    if (!(scale[0] > 0) || !(scale[1] > 0))
        return onnx_fail(im, INFER_EFORMAT, "a scale of %g",
                         scale[0] > 0 ? scale[1] : scale[0]);
    f.kind = (enum filter_kind)(FILTER_LANCZOS3 + word);
    for (int i = 1; i >= 0; i--) {
        f.scale = scale[i];
        f.translate = translate[i];
        x = filtered(im, x, 2 + i, size[i], f);
    }
    return compose_output(im, 0, compose_channels_last(im, x));
}

/* The distance of each pixel from its channel's mean, by a factor. */
int tf_adjust_contrast(struct onnx_import *im)
{
    int x, mean, factor;

    onnx_arity(im, 2, 2);
    x = compose_input(im, 0);
    factor = compose_input(im, 1);
    if (compose_need_rank(im, x, 3, INFER_MAX_RANK) < 0)
        return im->rc;
    mean = compose_reduce(im, KERN_REDUCE_MEAN, x, compose_rank(im, x) - 3);
    mean = compose_reduce(im, KERN_REDUCE_MEAN, mean, compose_rank(im, x) - 2);
    x = compose_binary(im, KERN_SUB, x, mean);
    x = compose_binary(im, KERN_MUL, x, factor);
    return compose_output(im, 0, compose_binary(im, KERN_ADD, x, mean));
}
