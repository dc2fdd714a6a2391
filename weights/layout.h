/* SPDX-License-Identifier: Apache-2.0 */
/* Bare weights in TensorFlow's layout: see layout.c for the shapes. */
#ifndef WEIGHTS_LAYOUT_H
#define WEIGHTS_LAYOUT_H

#include "libinfer/graph.h"
#include "weights/weights.h"

/* Turns the weights of conv, conv_transpose and dense layers into the graph's
 * layout, and the inputs of a dense layer behind a flattened picture into
 * C,H,W order, as the options say or (auto) the shapes show: where no layout
 * fits every weight, auto leaves all as they are for weights_bind() to name.
 * target[i] is the value of g that entry i of the dictionary is for, or -1. May
 * sort g. EFORMAT lists what is not in the layout asked for, EMEMORY. */
int weights_to_channels_first(struct graph *g, struct weights_dict *dict,
                              const int *target,
                              const struct weights_options *options,
                              struct infer_error *err);

#endif
