/* SPDX-License-Identifier: Apache-2.0 */
/* What an ONNX file says of itself beside its graph: MetadataProps. */
#ifndef WEIGHTS_ONNX_METADATA_METADATA_H
#define WEIGHTS_ONNX_METADATA_METADATA_H

#include "libinfer/graph/graph.h"
#include "weights/onnx/onnx.h"

/* The colours and the range of pixels: sets the preprocessing of the first
 * input where `word`, one span of each enum onnx_metadata, states them. */
void onnx_picture_apply(const struct pb_span *word, struct graph *g);

/* An export of Ultralytics (YOLO, RT-DETR): names of classes, task and
 * preprocessing.  Names that cannot be read are left out.  EMEMORY. */
int onnx_ultralytics_apply(const struct pb_span *word, struct graph *g,
                           struct infer_error *err);

#endif
