/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loops over the boxes of a detector that resize a part of each to the box's
 * own size: the pasting of masks of torchvision's Mask R-CNN, and the search
 * for keypoints of its Keypoint R-CNN.
 *
 * Sizes of the graph do not depend on data.  What such a loop computes does not
 * need them: masks have the picture's size, a keypoint is a position.  Resizing
 * along an axis is a product with a matrix of weights, whose rows are computed
 * from the box; rows beyond the box do not count.
 */
#ifndef WEIGHTS_ONNX_REGIONS_REGIONS_H
#define WEIGHTS_ONNX_REGIONS_REGIONS_H

#include "weights/onnx/composed/compose.h"

enum region_kind { REGION_NONE, REGION_MASKS, REGION_KEYPOINTS };

/* What a loop reads of each box, by the names of tensors outside of it. */
enum region_input {
    REGION_MAPS,  /* N,1,M,M masks, or N,K,H,W heat maps */
    REGION_BOXES, /* masks: N,4 of I64, x0 y0 x1 y1 */
    /* keypoints, N of floats each: sizes of a box as integers and as they are,
     * and its corner */
    REGION_ROWS = 1,
    REGION_COLUMNS,
    REGION_HEIGHT,
    REGION_WIDTH,
    REGION_X,
    REGION_Y,
    REGION_INPUTS
};

struct region_loop {
    enum region_kind kind;
    int inputs; /* as many as the kind has */
    struct pb_span input[REGION_INPUTS];
};

/* The kind that a body looks like and its inputs; REGION_NONE: another loop. */
int region_match(struct onnx_import *im, const struct onnx_graph *body,
                 struct region_loop *out);

/* Values of the graph for the inputs; a value with an entry a box:
 * N,H,W masks of pictures of this size. */
int region_masks(struct onnx_import *im, const int *in, int64_t height,
                 int64_t width);
/* N,3,K positions and N,K scores. */
int region_keypoints(struct onnx_import *im, const int *in, int *scores);

/* Limits of the elements of a value of the graph, from the operations that
 * compute it; infinite where nothing limits them. */
struct region_bounds {
    double low, high;
};
struct region_bounds region_bounds(const struct onnx_import *im, int value);

#endif
