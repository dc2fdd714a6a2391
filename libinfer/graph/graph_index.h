/* SPDX-License-Identifier: Apache-2.0 */
/* The name index of a graph: two hash tables, values and nodes.  An entry
 * whose value or node has since lost or changed its name is simply passed
 * over, so that removing and renaming need no bookkeeping but adding the new
 * name.  Where memory runs out the index gives up and look-ups go through the
 * whole graph. */
#ifndef LIBINFER_GRAPH_GRAPH_INDEX_H
#define LIBINFER_GRAPH_GRAPH_INDEX_H

#include <stdbool.h>

#include "libinfer/graph/graph.h"

struct graph_index *graph_index_new(void);
void graph_index_free(struct graph_index *index); /* NULL is fine */

/* Notes the present name of a value or node. */
void graph_index_value(struct graph *g, int value);
void graph_index_node(struct graph *g, int node);
/* Starts again from the names in the graph, after renumbering. */
void graph_index_rebuild(struct graph *g);

/* A name "stem_N" that no value (or node) has; malloc()ed, NULL when out of
 * memory.  N only rises, so that making names stays linear. */
char *graph_index_fresh(struct graph *g, const char *stem, bool node);

#endif
