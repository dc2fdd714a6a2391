/* SPDX-License-Identifier: Apache-2.0 */
/* A quantiser: what quantize.c finds and rewrite.c writes into the graph. */
#ifndef WEIGHTS_QUANTIZE_QUANTIZER_H
#define WEIGHTS_QUANTIZE_QUANTIZER_H

#include "weights/quantize/quantize.h"
#include "weights/quantize/range.h"

struct quantizer {
    const struct graph *g;
    struct quantize_options options;
    struct quantize_layer *layer;
    int *node;   /* of each layer */
    bool *fixed; /* of each layer: its `why` is not the caller's choice */
    int n_layers;
    /* The tensors that layers read: their values, their ranges, and a tensor
     * of the same group, all of which have one scale. */
    int *value, *group;
    struct range *range;
    int n_tensors;
    int *tensor_of; /* by value: its tensor, or -1 */
    int n_values;   /* of the graph as it was opened */
    int round;      /* rounds over the samples so far */
};

/* The tensor that stands for the group of tensor t. */
int quantizer_group(const struct quantizer *q, int t);

/* Sets wanted[t] of each tensor that a layer to be quantised reads, and of
 * those that it is made of without arithmetic. */
void quantizer_mark_wanted(const struct quantizer *q, bool *wanted);

#endif
