/* SPDX-License-Identifier: Apache-2.0 */
/* The network of a run: from a name, an architecture file or weights; and as
 * text, for checkpoints. */
#ifndef TOOLS_TRAIN_NETWORK_H
#define TOOLS_TRAIN_NETWORK_H

#include "libinfer/graph/graph.h"

/* network.c */
/* The network of a weight file without folding or fusing; arch names it where
 * the file holds bare weights, NULL: the file states it. */
int train_read_network(const char *path, const char *arch,
                       struct infer_error *err, struct graph **out);
/* A new graph of a built-in architecture with that many classes (0: the usual
 * number), of an architecture file, or, arch NULL, of a weight file. */
int train_open_network(const char *arch, int classes, const char *weights,
                       struct infer_error *err, struct graph **out);
/* The network that a checkpoint describes. */
int train_resumed_network(const char *path, struct infer_error *err,
                          struct graph **out);

/* describe.c */
/* Replaces the names of the classes; bytes that are no UTF-8 are escaped. */
int train_set_labels(struct graph *g, const char *const *label, int count,
                     struct infer_error *err);
/* The graph as JSON, without what no output needs; train_text_free() frees
 * it. */
int train_graph_text(const struct graph *g, struct infer_error *err,
                     char **out);
void train_text_free(char *text);

#endif
