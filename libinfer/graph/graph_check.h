/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by validation and shape inference. */
#ifndef LIBINFER_GRAPH_GRAPH_CHECK_H
#define LIBINFER_GRAPH_GRAPH_CHECK_H

#include <stdbool.h>

#include "libinfer/graph/graph.h"
#include "libinfer/graph/ops/op.h"

/* Longest name that a message shows. */
#define GRAPH_SHOWN 100

/* Everything about one node that needs no shapes.  Adds a line to err for each
 * fault; returns the first one's code. */
int graph_check_node(const struct graph *g, int node, struct infer_error *err);

/* Runs the shape rules over the nodes of order[0 .. count-1] and fills
 * type[n_values].  Faults add lines to err and leave a node's outputs unknown;
 * nodes that graph_check_node() refuses are not run, their faults not
 * repeated. */
int graph_run_shapes(const struct graph *g, const int *order, int count,
                     const struct graph_shape *shapes, struct graph_type *type,
                     struct infer_error *err);

/* graph_validate(), where weights without data may be wanted (unbound). */
int graph_check(const struct graph *g, bool unbound, struct infer_error *err);

#endif
