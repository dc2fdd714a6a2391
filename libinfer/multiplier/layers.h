/* SPDX-License-Identifier: Apache-2.0 */
/* Layers of a network that multiply exactly beside an approximate multiplier.
 */
#ifndef LIBINFER_MULTIPLIER_LAYERS_H
#define LIBINFER_MULTIPLIER_LAYERS_H

#include "libinfer/graph/graph.h"

/* Layers are convolutions, transposed convolutions and dense layers.  words:
 * names, separated by commas, in which * and ? match; "first" and "last" mean
 * the first and the last layer of the graph too.  NULL: none.  *out: of each
 * node of the graph, whether a word means it; to be freed.  EARGUMENT: a word
 * means no layer; EMEMORY. */
int multiplier_exact_layers(const struct graph *g, const char *words,
                            struct infer_error *err, bool **out);

#endif
