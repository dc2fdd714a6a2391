/* SPDX-License-Identifier: Apache-2.0 */
/* Bare weights in TensorFlow's layout: see layout.c for the shapes. */
#ifndef WEIGHTS_LAYOUT_H
#define WEIGHTS_LAYOUT_H

#include "libinfer/graph/graph.h"
#include "weights/weights.h"

/* Turns the weights of conv, conv_transpose and dense layers from *layout into
 * the graph's.  AUTO becomes what the shapes show: channels last where every
 * layer fits so and some fit only so.  target[i] is the value of g that entry
 * i of the dictionary is for, or -1.  EFORMAT lists what is not in the layout
 * asked for; EMEMORY. */
int weights_to_channels_first(const struct graph *g, struct weights_dict *dict,
                              const int *target, enum weights_layout *layout,
                              struct infer_error *err);

/* Turns the inputs of every dense layer that reads a flattened picture from
 * H,W,C order into C,H,W.  Sorts g and infers its shapes; EFORMAT where they
 * do not tell the channels, EMEMORY. */
int weights_reorder_dense(struct graph *g, struct infer_error *err);

#endif
