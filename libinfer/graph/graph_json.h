/* SPDX-License-Identifier: Apache-2.0 */
/* The words of a graph's JSON that its writer and its reader share. */
#ifndef LIBINFER_GRAPH_GRAPH_JSON_H
#define LIBINFER_GRAPH_GRAPH_JSON_H

#include "libinfer/graph/graph.h"

/* Version of the graph's JSON, the member "infer". */
#define GRAPH_JSON_VERSION 1

struct cJSON;

/* graph_to_json() as an architecture file: with the types and shapes of the
 * constants, so that train can start from it.  The result belongs to the
 * caller; NULL when out of memory. */
struct cJSON *graph_to_architecture(const struct graph *g);

/* The fields of struct graph_preprocess but for fill, which is a byte. */
extern const struct graph_field graph_preprocess_fields[];
/* Preprocessing as graph_add_input() leaves it, but present. */
struct graph_preprocess graph_preprocess_default(void);

#endif
