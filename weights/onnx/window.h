/* SPDX-License-Identifier: Apache-2.0 */
/* What convolutions and pools of ONNX share. */
#ifndef WEIGHTS_ONNX_WINDOW_H
#define WEIGHTS_ONNX_WINDOW_H

#include "weights/onnx/onnx.h"

/* Spatial rank of input 0 (1 to 3), or EUNSUPPORTED. */
int onnx_spatial_rank(struct onnx_import *im, int *out);
/* An attribute with one entry >= min for each spatial dimension. */
int onnx_spatial_ints(struct onnx_import *im, const char *name, int spatial,
                      int64_t min, int *out);
/* auto_pad and pads. */
int onnx_pads(struct onnx_import *im, int spatial,
              enum graph_auto_pad *auto_pad, int *begin, int *end);
/* group, kernel_shape (which repeats what input `weight` says), strides,
 * dilations and pads. */
int onnx_conv_attributes(struct onnx_import *im, int spatial, int weight,
                         struct graph_conv *conv);
/* Of a pool: window, strides, dilations, pads and ceil_mode. */
int onnx_pool_attributes(struct onnx_import *im, int spatial,
                         struct graph_pool *pool);
/* Output 1 of MaxPool: where the maxima y of x stand in the whole of x. */
int onnx_pool_indices(struct onnx_import *im, const struct graph_pool *pool,
                      int spatial, int x, int y);

#endif
