/* SPDX-License-Identifier: Apache-2.0 */
/* Values that are known not to be negative, by what makes them. */
#ifndef LIBINFER_GRAPH_GRAPH_SIGN_H
#define LIBINFER_GRAPH_GRAPH_SIGN_H

#include "libinfer/graph/graph.h"

/* Sets value[v] of the values that are known not to be negative; the others
 * stay.  The nodes of g are sorted.  Inputs may be anything. */
void graph_not_negative(const struct graph *g, bool *value);
/* The lowest integer of a quantised type; INT_MIN of others. */
int graph_lowest_integer(enum infer_dtype dtype);

#endif
