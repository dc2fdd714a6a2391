/* SPDX-License-Identifier: Apache-2.0 */
/* Masks and keypoints of all boxes, of tensors of fixed sizes. */
#include <math.h>
#include <string.h>

#include "weights/onnx/regions/regions.h"

/* Rows or columns of a resized part that are computed at most. */
#define MAX_ROOM 8192
/* Taps that lie beyond the ends of an axis, for cubic weights. */
#define BORDER 2

static int number(struct onnx_import *im, double x)
{
    return compose_number(im, INFER_F32, x);
}

static int binary(struct onnx_import *im, enum kern_binary_kind kind, int a,
                  int b)
{
    return compose_binary(im, kind, a, b);
}

/* Places in an axis of `in` entries of the rows of one resized to `size`
 * entries; row: floats, counted from 0: (row + 1/2) in / size - 1/2. */
static int places(struct onnx_import *im, int row, int size, int64_t in)
{
    const int scale = binary(im, KERN_DIV, size, number(im, (double)in));

    return compose_linear(
        im, 1, -0.5,
        binary(im, KERN_DIV, compose_linear(im, 1, 0.5, row), scale));
}

/* 1,1,n of first, first + 1, ... as floats. */
static int taps(struct onnx_import *im, int64_t first, int64_t n)
{
    const int64_t dim[3] = {1, 1, n};
    float *data;
    const int c = compose_floats(im, 3, dim, &data);

    for (int64_t k = 0; c >= 0 && k < n; k++)
        data[k] = (float)(first + k);
    return c;
}

/* ---- masks --------------------------------------------------------- */

/* Column i of the boxes as N,1,1 floats. */
static int column(struct onnx_import *im, int boxes, int i)
{
    const int64_t dim[3] = {-1, 1, 1};

    return compose_cast(
        im, INFER_F32,
        compose_reshape(im, compose_slice(im, boxes, 1, i, i + 1, 1), 3, dim));
}

/* N,size,in: the weights of a mask's entries in each pixel along an axis of a
 * picture of `size` pixels; 0 beyond the box from first to last. */
static int mask_weights(struct onnx_import *im, int first, int last,
                        int64_t size, int64_t in)
{
    const int64_t line[3] = {1, size, 1};
    const int one = number(im, 1), end = binary(im, KERN_ADD, last, one);
    const int pixel = compose_reshape(im, taps(im, 0, size), 3, line);
    const int width =
        binary(im, KERN_MAX, binary(im, KERN_SUB, end, first), one);
    const int inside =
        binary(im, KERN_AND, binary(im, KERN_GREATER_EQUAL, pixel, first),
               binary(im, KERN_LESS, pixel, end));
    int x = places(im, binary(im, KERN_SUB, pixel, first), width, in);

    x = compose_clip(im, 0, (double)(in - 1), x);
    x = compose_unary(im, KERN_ABS, binary(im, KERN_SUB, x, taps(im, 0, in)));
    x = compose_unary(im, KERN_RELU, compose_linear(im, -1, 1, x));
    return compose_where(im, inside, x, number(im, 0));
}

int region_masks(struct onnx_import *im, const int *in, int64_t height,
                 int64_t width)
{
    const int boxes = in[REGION_BOXES];
    const int maps = compose_squeeze(im, in[REGION_MAPS], 1);
    int rows, columns;

    compose_need_rank(im, maps, 3, 3);
    rows = mask_weights(im, column(im, boxes, 1), column(im, boxes, 3), height,
                        compose_dim(im, maps, 1));
    columns = mask_weights(im, column(im, boxes, 0), column(im, boxes, 2),
                           width, compose_dim(im, maps, 2));
    return compose_matmul(im, compose_matmul(im, rows, maps, false, 1), columns,
                          true, 1);
}

/* ---- keypoints ----------------------------------------------------- */

/* N,1,1 of N numbers. */
static int upright(struct onnx_import *im, int x)
{
    const int64_t dim[3] = {-1, 1, 1};

    return compose_cast(im, INFER_F32, compose_reshape(im, x, 3, dim));
}

/* The cubic kernel with a = -3/4 of distances. */
static int cubic(struct onnx_import *im, int x)
{
    const double a = -0.75;
    int near, far;

    x = compose_unary(im, KERN_ABS, x);
    near = binary(im, KERN_MUL, compose_linear(im, a + 2, -(a + 3), x),
                  binary(im, KERN_MUL, x, x));
    near = compose_linear(im, 1, 1, near);
    far = compose_linear(im, a, -5 * a, x);
    far = compose_linear(im, 1, 8 * a, binary(im, KERN_MUL, far, x));
    far = compose_linear(im, 1, -4 * a, binary(im, KERN_MUL, far, x));
    far = compose_where(im, binary(im, KERN_LESS, x, number(im, 2)), far,
                        number(im, 0));
    return compose_where(im, binary(im, KERN_LESS, x, number(im, 1)), near,
                         far);
}

/* N,room,in + 2 BORDER: weights of an axis of `in` entries, repeated at its
 * ends, in the rows of one resized to N sizes. */
static int cubic_weights(struct onnx_import *im, int size, int64_t room,
                         int64_t in)
{
    const int64_t line[3] = {1, room, 1};
    const int row = compose_reshape(im, taps(im, 0, room), 3, line);
    const int x = places(im, row, upright(im, size), in);

    return cubic(im, binary(im, KERN_SUB, x,
                            taps(im, -BORDER, in + 2 * (int64_t)BORDER)));
}

/* x with its first and last entry along an axis repeated. */
static int repeat_ends(struct onnx_import *im, int x, int axis)
{
    const int64_t in = compose_dim(im, x, axis), n = in + 2 * (int64_t)BORDER;
    int64_t *data;
    const int at = compose_i64(im, 1, &n, &data);

    for (int64_t k = 0; at >= 0 && k < n; k++)
        data[k] = k < BORDER ? 0 : k - BORDER >= in ? in - 1 : k - BORDER;
    return compose_gather(im, x, at, axis);
}

/* N,room of which the first `size` are true. */
static int counts(struct onnx_import *im, int size, int64_t room, int axis)
{
    int64_t dim[3] = {1, 1, 1};

    dim[axis] = room;
    return binary(im, KERN_LESS, compose_reshape(im, taps(im, 0, room), 3, dim),
                  upright(im, size));
}

/* The largest size that there can be. */
static int64_t room_of(struct onnx_import *im, int size)
{
    const struct region_bounds b = region_bounds(im, size);

    if (im->rc < 0)
        return 1;
    if (!(b.high >= 1 && b.high <= MAX_ROOM)) {
        onnx_fail(im, INFER_EUNSUPPORTED,
                  "parts are resized to sizes that depend on data and have no "
                  "limit up to %d",
                  MAX_ROOM);
        return 1;
    }
    return (int64_t)b.high;
}

/* Entry n of a tensor, as a part of size 1. */
static int entry(struct onnx_import *im, int x, int64_t n)
{
    return compose_slice(im, x, 0, n, n + 1, 1);
}

struct search {
    int maps, rows, columns, inside; /* of all boxes */
    int64_t boxes, points, height, width;
};

/* 1,K: where the map of box n, resized, is largest (I64), and that value. */
static int search_box(struct onnx_import *im, const struct search *s, int64_t n,
                      int *score)
{
    const int64_t flat[3] = {1, s->points, s->height * s->width};
    const int64_t line[2] = {1, s->points};
    union graph_attr attr;
    int x = entry(im, s->maps, n), at;

    x = compose_matmul(im, compose_unsqueeze(im, entry(im, s->rows, n), 1), x,
                       false, 1);
    x = compose_matmul(
        im, x, compose_unsqueeze(im, entry(im, s->columns, n), 1), true, 1);
    x = compose_where(im, compose_unsqueeze(im, entry(im, s->inside, n), 1), x,
                      number(im, -INFINITY));
    x = compose_reshape(im, x, 3, flat);
    onnx_defaults(GRAPH_ARG_REDUCE, &attr);
    attr.axis.axis = 2;
    attr.axis.keep_dims = true;
    onnx_emit(im, GRAPH_ARG_REDUCE, &attr, &x, 1, -1, &at);
    *score =
        compose_reshape(im, compose_reduce(im, KERN_REDUCE_MAX, x, 2), 2, line);
    return compose_reshape(im, at, 2, line);
}

/* (place + 1/2) length / size + corner as N,1,K, of integers N,K. */
static int position(struct onnx_import *im, int place, int length, int size,
                    int corner)
{
    int x = compose_unsqueeze(im, compose_cast(im, INFER_F32, place), 1);

    x = binary(im, KERN_MUL, compose_linear(im, 1, 0.5, x),
               binary(im, KERN_DIV, upright(im, length), upright(im, size)));
    return binary(im, KERN_ADD, x, upright(im, corner));
}

static int ones(struct onnx_import *im, int64_t boxes, int64_t points)
{
    const int64_t dim[3] = {boxes, 1, points};
    float *data;
    const int c = compose_floats(im, 3, dim, &data);

    for (int64_t i = 0; c >= 0 && i < boxes * points; i++)
        data[i] = 1;
    return c;
}

int region_keypoints(struct onnx_import *im, const int *in, int *scores)
{
    const int rows = in[REGION_ROWS], columns = in[REGION_COLUMNS];
    struct search s = {.maps = in[REGION_MAPS]};
    int *at, *score, part[3], x, y, width;

    compose_need_rank(im, s.maps, 4, 4);
    s.boxes = compose_dim(im, s.maps, 0);
    s.points = compose_dim(im, s.maps, 1);
    s.height = room_of(im, rows);
    s.width = room_of(im, columns);
    if (im->rc == 0 && (s.boxes < 1 || s.boxes > GRAPH_MAX_INPUTS))
        return onnx_fail(im, INFER_EUNSUPPORTED, "%lld boxes",
                         (long long)s.boxes);
    at = onnx_alloc(&im->scratch, 2 * (size_t)s.boxes * sizeof *at);
    if (!at)
        return onnx_no_memory(im);
    score = at + s.boxes;
    s.rows = cubic_weights(im, rows, s.height, compose_dim(im, s.maps, 2));
    s.columns = cubic_weights(im, columns, s.width, compose_dim(im, s.maps, 3));
    s.maps = repeat_ends(im, repeat_ends(im, s.maps, 2), 3);
    s.inside = binary(im, KERN_AND, counts(im, rows, s.height, 1),
                      counts(im, columns, s.width, 2));
    for (int64_t n = 0; n < s.boxes && im->rc == 0; n++)
        at[n] = search_box(im, &s, n, &score[n]);
    if (im->rc < 0)
        return im->rc;
    *scores = compose_concat(im, (int)s.boxes, score, 0);
    x = compose_concat(im, (int)s.boxes, at, 0);
    width = compose_integer(im, INFER_I64, s.width);
    y = binary(im, KERN_DIV, x, width);
    x = binary(im, KERN_SUB, x, binary(im, KERN_MUL, y, width));
    part[0] = position(im, x, in[REGION_WIDTH], columns, in[REGION_X]);
    part[1] = position(im, y, in[REGION_HEIGHT], rows, in[REGION_Y]);
    part[2] = ones(im, s.boxes, s.points);
    return compose_concat(im, 3, part, 1);
}
