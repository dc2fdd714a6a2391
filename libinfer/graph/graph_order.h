/* SPDX-License-Identifier: Apache-2.0 */
/* The order in which a graph's nodes can run. */
#ifndef LIBINFER_GRAPH_GRAPH_ORDER_H
#define LIBINFER_GRAPH_GRAPH_ORDER_H

#include "libinfer/graph/graph.h"

/* Writes the nodes, holes left out, producers first, into order[n_nodes]; a
 * graph that is sorted keeps its order.  EFORMAT where nodes form a cycle or
 * produce the same value. */
int graph_order(const struct graph *g, int *order, int *count,
                struct infer_error *err);

#endif
