/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model file (extension .infer): a valid safetensors file whose metadata
 * hold the graph as JSON.  doc/model-format.md describes its bytes and its
 * JSON.
 */
#ifndef LIBINFER_GRAPH_MODEL_FILE_H
#define LIBINFER_GRAPH_MODEL_FILE_H

#include "include/infer.h"
#include "libinfer/graph/graph.h"

#define MODEL_FILE_VERSION 1

/* Reads and validates a model file.  Constants stay in the file. */
int model_file_read(const char *path, struct infer_error *err,
                    struct graph **out);
/* Writes a temporary file beside path, syncs it and renames it: path holds
 * either the old or the whole new file.  *bytes_written may be NULL. */
int model_file_write(const struct graph *g, const char *path,
                     uint64_t *bytes_written, struct infer_error *err);
/* Reads an architecture file: graph JSON alone. */
int model_file_read_arch(const char *path, struct infer_error *err,
                         struct graph **out);
/* The same of text in memory, which need not end with a NUL. */
int model_file_parse_arch(const char *text, size_t bytes,
                          struct infer_error *err, struct graph **out);

#endif
