/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ONNX NonMaxSuppression.
 *
 * How many boxes are chosen depends on the data.  Of constants the result has
 * its own size; else it has room for the most that there can be, and rows of -1
 * fill it up: the rows from 0 on count the boxes.
 */
#include <float.h>
#include <string.h>

#include "weights/onnx/composed/compose.h"

/* Attributes and the inputs from 2 on, which have to be constant. */
static int read_limits(struct onnx_import *im, struct graph_nms *nms)
{
    int64_t most = 0, center = 0;
    int n = 1;

    onnx_int(im, "center_point_box", 0, 1, &center);
    onnx_input_ints(im, 2, "max_output_boxes_per_class", 1, &most, &n);
    nms->score = -FLT_MAX;
    onnx_input_float(im, 3, "iou_threshold", &nms->iou);
    onnx_input_float(im, 4, "score_threshold", &nms->score);
    nms->center = center != 0;
    nms->most = most < 0 ? 0 : most > INT32_MAX ? INT32_MAX : (int)most;
    return im->rc;
}

/* The rows of a constant result that are no filling, as a new constant. */
static int take_rows(struct onnx_import *im, const struct constant *all)
{
    const int64_t *data = (const int64_t *)(const void *)all->data;
    int64_t dim[2] = {0, 3};
    struct constant *c;

    while (dim[0] < all->dim[0] && data[dim[0] * 3] >= 0)
        dim[0]++;
    if (onnx_new_constant(im, INFER_I64, 2, dim, &c) < 0)
        return im->rc;
    if (c->bytes)
        memcpy(c->data, data, c->bytes);
    return onnx_set_constant(im, 0, c);
}

int onnx_import_nms(struct onnx_import *im)
{
    struct onnx_value v = {.state = ONNX_GRAPH};
    const int64_t line = -1;
    union graph_attr attr;
    int in[2], at;

    onnx_arity(im, 2, 5);
    onnx_defaults(GRAPH_NMS, &attr);
    read_limits(im, &attr.nms);
    in[0] = compose_input(im, 0);
    in[1] = compose_input(im, 1);
    if (onnx_emit(im, GRAPH_NMS, &attr, in, 2, -1, &v.graph) < 0)
        return im->rc;
    if (im->fixed[v.graph] && onnx_value_evaluate(im, &v) == 0 && v.constant) {
        take_rows(im, v.constant);
        constant_unref(v.constant);
        return im->rc;
    }
    compose_output(im, 0, v.graph);
    at = compose_slice(im, v.graph, 1, 0, 1, 1);
    at = compose_binary(im, KERN_GREATER_EQUAL, at,
                        compose_integer(im, INFER_I64, 0));
    at = compose_reshape(im, compose_cast(im, INFER_I64, at), 1, &line);
    return onnx_set_counted(im, 0, 0,
                            compose_reduce(im, KERN_REDUCE_SUM, at, 0));
}
