/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of pictures.
 *
 * CropAndResize: a part of a picture for each box, resized.
 * Row i of a crop of n rows lies at y1 + i (y2 - y1) / (n - 1) of the picture's
 * height less one, where y1 and y2 are those of the box; a single row lies in
 * the middle.  That is GridSample with its corners fixed, whose coordinates go
 * from -1 to 1.  What lies outside of the picture is a number of the node's.
 */
#include <string.h>

#include "kernels/base/error.h"
#include "weights/onnx/composed/compose.h"
#include "weights/tensorflow/tensorflow.h"

/* Most rows or columns of a crop. */
#define MAX_CROP (1 << 14)

static struct pb_span step(struct onnx_import *im, const char *op,
                           const char *word, int n, const struct pb_span *in,
                           const struct onnx_attr *attr, int n_attr)
{
    const struct pb_span out = tf_temp(im, word);

    onnx_step(im, op, in, n, out, attr, n_attr);
    return out;
}

static struct pb_span two(struct onnx_import *im, const char *op,
                          const char *word, struct pb_span a, struct pb_span b)
{
    return step(im, op, word, 2, (struct pb_span[]){a, b}, NULL, 0);
}

/* 1,n: how far row i is on its way from one end to the other, or a number. */
static struct pb_span row_of(struct onnx_import *im, int64_t n, float value)
{
    const int64_t dim[2] = {1, n};
    struct constant *c = NULL;

    if (onnx_new_constant(im, INFER_F32, n ? 2 : 0, dim, &c) < 0)
        return (struct pb_span){NULL, 0};
    for (int64_t i = 0; i < n; i++)
        ((float *)c->data)[i] =
            n == 1 ? 0.5f : (float)((double)i / (double)(n - 1));
    if (!n)
        *(float *)c->data = value;
    return onnx_step_constant(im, c);
}

static struct pb_span number(struct onnx_import *im, float value)
{
    return row_of(im, 0, value);
}

/* N,n: coordinates of n rows or columns; column `from` of the boxes has the
 * first end, from + 2 the other. */
static struct pb_span coordinates(struct onnx_import *im, int from, int64_t n)
{
    static const char *const words[2][7] = {
        {"y1", "y2", "height", "ways", "rows", "twice", "y"},
        {"x1", "x2", "width", "steps", "columns", "double", "x"}};
    const char *const *w = words[from];
    const struct onnx_attr axis = tf_set_int("axis", 1);
    struct pb_span end[2], y;

    for (int i = 0; i < 2; i++) {
        const int64_t column = from + 2 * i;
        end[i] = step(im, "Gather", w[i], 2,
                      (struct pb_span[]){im->node->in[1],
                                         onnx_step_ints(im, 1, 1, &column)},
                      &axis, 1);
    }
    y = two(im, "Sub", w[2], end[1], end[0]);
    y = two(im, "Mul", w[3], y, row_of(im, n, 0));
    y = two(im, "Add", w[4], y, end[0]);
    y = two(im, "Mul", w[5], y, number(im, 2));
    return two(im, "Sub", w[6], y, number(im, 1));
}

/* N,h,w of one coordinate: `own` along its axis, and 0 times the other. */
static struct pb_span spread(struct onnx_import *im, struct pb_span own,
                             struct pb_span other, const char *word,
                             const char *nought)
{
    return two(im, "Add", word, own,
               two(im, "Mul", nought, other, number(im, 0)));
}

static struct pb_span unsqueezed(struct onnx_import *im, struct pb_span x,
                                 int64_t axis, const char *word)
{
    return two(im, "Unsqueeze", word, x, onnx_step_ints(im, 1, 1, &axis));
}

static int check(struct onnx_import *im, int64_t *size)
{
    static const char *const words[] = {"bilinear", NULL};
    struct graph_type t;
    int word = 0, n = -1;

    onnx_arity(im, 4, 4);
    onnx_word(im, "method", words, &word);
    onnx_input_ints(im, 3, "the size of its crops", 2, size, &n);
    if (onnx_input_type(im, 0, 0, &t) < 0)
        return im->rc;
    if (n != 2 || size[0] < 1 || size[1] < 1 || size[0] > MAX_CROP ||
        size[1] > MAX_CROP)
        return onnx_fail(im, INFER_EFORMAT, "no size of crops, or a bad one");
    if (t.rank != 4)
        return onnx_fail(im, INFER_EFORMAT, "a picture of rank %d", t.rank);
    if (t.dim[1] == 1 || t.dim[2] == 1)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "crops of a picture of one row or column");
    return 0;
}

int tf_crop_and_resize(struct onnx_import *im)
{
    static const int64_t order[2][4] = {{0, 3, 1, 2}, {0, 2, 3, 1}};
    const struct onnx_attr first = tf_set_ints("perm", order[0], 4);
    const struct onnx_attr last = tf_set_ints("perm", order[1], 4);
    const struct onnx_attr axis = tf_set_int("axis", -1);
    const struct onnx_attr sample[3] = {tf_set_word("mode", "linear"),
                                        tf_set_word("padding_mode", "border"),
                                        tf_set_int("align_corners", 1)};
    const struct onnx_attr real = tf_set_int("to", ONNX_FLOAT);
    struct pb_span x, grid[2], y[2], far;
    float outside = 0;
    int64_t size[2];

    onnx_float(im, "extrapolation_value", &outside);
    if (check(im, size) < 0)
        return im->rc;
    x = step(im, "Transpose", "nchw", 1, im->node->in, &first, 1);
    x = step(im, "Cast", "real", 1, &x, &real, 1);
    x = two(im, "Gather", "pictures", x, im->node->in[2]);
    y[0] = unsqueezed(im, coordinates(im, 0, size[0]), 2, "down");
    y[1] = unsqueezed(im, coordinates(im, 1, size[1]), 1, "across");
    grid[0] = spread(im, y[1], y[0], "all_x", "no_y");
    grid[1] = spread(im, y[0], y[1], "all_y", "no_x");
    far = two(im, "Max", "far", tf_next(im, "Abs", grid[0], "abs_x"),
              tf_next(im, "Abs", grid[1], "abs_y"));
    far = two(im, "Greater", "outside", far, number(im, 1));
    far = unsqueezed(im, far, 1, "outside_nchw");
    grid[0] = unsqueezed(im, grid[0], 3, "grid_x");
    grid[1] = unsqueezed(im, grid[1], 3, "grid_y");
    y[0] = step(im, "Concat", "grid", 2, grid, &axis, 1);
    x = step(im, "GridSample", "sampled", 2, (struct pb_span[]){x, y[0]},
             sample, 3);
    x = step(im, "Where", "crops", 3,
             (struct pb_span[]){far, number(im, outside), x}, NULL, 0);
    return tf_last(im, "Transpose", &x, 1, &last, 1);
}

/* ---- patches ------------------------------------------------------- */

/* Slices of one patch's pixels, at most. */
#define MAX_PATCH 1024

struct patches {
    int window[2], stride[2], rate[2];
    int64_t out[2];
};

/* How many patches there are; pads x where they hang over. */
static int place_patches(struct onnx_import *im, struct patches *p, int x)
{
    static const char *const words[] = {"VALID", "SAME", NULL};
    int word = -1;

    onnx_word(im, "padding", words, &word);
    for (int i = 0; i < 2 && im->rc == 0; i++) {
        const int64_t size = compose_dim(im, x, 2 + i);
        const int64_t wide = (int64_t)(p->window[i] - 1) * p->rate[i] + 1;
        int64_t extra;

        p->out[i] = word == 1      ? (size + p->stride[i] - 1) / p->stride[i]
                    : size >= wide ? (size - wide) / p->stride[i] + 1
                                   : 0;
        if (word < 0 || p->out[i] < 1) {
            onnx_fail(im, INFER_EFORMAT, "no patch fits into %lld pixels",
                      (long long)size);
            break;
        }
        extra = (p->out[i] - 1) * p->stride[i] + wide - size;
        if (word == 1 && extra > OP_MAX_STEP)
            onnx_fail(im, INFER_EUNSUPPORTED, "patches of %lld pixels",
                      (long long)wide);
        if (word == 1 && extra > 0 && im->rc == 0)
            x = compose_pad(im, x, 2 + i, (int)(extra / 2),
                            (int)(extra - extra / 2), 0);
    }
    return im->rc < 0 ? -1 : x;
}

/* Patches side by side: the picture cut into a grid. */
static int cut_patches(struct onnx_import *im, const struct patches *p, int x)
{
    static const int64_t order[6] = {0, 3, 5, 1, 2, 4};
    const int64_t c = compose_dim(im, x, 1);
    const int64_t grid[6] = {0,         c,           p->out[0], p->window[0],
                             p->out[1], p->window[1]};
    const int64_t flat[4] = {0, c * p->window[0] * p->window[1], p->out[0],
                             p->out[1]};

    for (int i = 0; i < 2; i++)
        x = compose_slice(im, x, 2 + i, 0, p->out[i] * p->window[i], 1);
    x = compose_reshape(im, x, 6, grid);
    return compose_reshape(im, compose_transpose(im, x, 6, order), 4, flat);
}

/* One picture for each pixel of the patches. */
static int slice_patches(struct onnx_import *im, const struct patches *p, int x)
{
    int part[MAX_PATCH], n = 0;

    if ((int64_t)p->window[0] * p->window[1] > MAX_PATCH)
        return onnx_fail(im, INFER_EUNSUPPORTED, "patches of %dx%d pixels",
                         p->window[0], p->window[1]);
    for (int r = 0; r < p->window[0]; r++)
        for (int s = 0; s < p->window[1]; s++) {
            const int64_t at[2] = {(int64_t)r * p->rate[0],
                                   (int64_t)s * p->rate[1]};

            part[n] = x;
            for (int i = 0; i < 2; i++)
                part[n] = compose_slice(
                    im, part[n], 2 + i, at[i],
                    at[i] + (p->out[i] - 1) * p->stride[i] + 1, p->stride[i]);
            n++;
        }
    return n == 1 ? part[0] : compose_concat(im, n, part, 1);
}

int tf_extract_patches(struct onnx_import *im)
{
    struct patches p = {.stride = {0}};
    int x;

    onnx_arity(im, 1, 1);
    tf_window_ints(im, "ksizes", false, p.window);
    tf_window_ints(im, "strides", false, p.stride);
    tf_window_ints(im, "rates", false, p.rate);
    if (im->rc == 0 && (p.window[0] < 1 || p.stride[0] < 1 || p.rate[0] < 1))
        return onnx_fail(im, INFER_EFORMAT,
                         "one of ksizes, strides and rates is missing");
    if (tf_picture(im, 0, false, &x) < 0)
        return im->rc;
    x = place_patches(im, &p, x);
    if (im->rc < 0)
        return im->rc;
    if (p.window[0] == p.stride[0] && p.window[1] == p.stride[1] &&
        p.rate[0] == 1 && p.rate[1] == 1)
        x = cut_patches(im, &p, x);
    else
        x = slice_patches(im, &p, x);
    return compose_output(im, 0, compose_channels_last(im, x));
}
