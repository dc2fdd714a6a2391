/* SPDX-License-Identifier: Apache-2.0 */
/* struct infer_model as the rooms above see it. */
#ifndef LIBINFER_MODEL_MODEL_H
#define LIBINFER_MODEL_MODEL_H

#include "include/infer.h"
#include "libinfer/graph/graph.h"

/* A model on a graph in memory, which it takes over (freed on failure too):
 * for verification of conversions, constant folding and tests. */
int model_from_graph(struct graph *g, struct infer_error *err,
                     struct infer_model **out);
/* The graph of a model; it belongs to the model. */
const struct graph *model_graph(const struct infer_model *model);

/* Models are counted: a session holds one reference, the caller of open
 * another.  infer_model_close() drops one. */
struct infer_model *model_ref(struct infer_model *model);

/* The packed constants that the sessions of the model share. */
struct packed_cache *model_packed(struct infer_model *model);

#endif
