/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model file (extension .infer): a valid safetensors file whose metadata
 * hold the graph as JSON.  doc/model-format.md describes its bytes and its
 * JSON.
 */
#ifndef LIBINFER_GRAPH_MODEL_FILE_H
#define LIBINFER_GRAPH_MODEL_FILE_H

#include "include/infer.h"
#include "kernels/base/file_write.h"
#include "libinfer/graph/graph.h"

#define MODEL_FILE_VERSION 1

/* What messages call a model that is no file. */
#define MODEL_IN_MEMORY "model in memory"

/* Reads and validates a model file.  Constants stay in the file. */
int model_file_read(const char *path, struct infer_error *err,
                    struct graph **out);
/* The same of the bytes of one in memory, which stay there until release(user)
 * (NULL: nothing) is called: when no constant needs them any more, on failure
 * before the return. */
int model_file_read_memory(const void *data, size_t bytes,
                           void (*release)(void *user), void *user,
                           struct infer_error *err, struct graph **out);
/* Writes a temporary file beside path, syncs it and renames it: path holds
 * either the old or the whole new file.  *bytes_written may be NULL. */
int model_file_write(const struct graph *g, const char *path,
                     uint64_t *bytes_written, struct infer_error *err);
/* The same into a writer, which the caller commits or aborts. */
int model_file_put(const struct graph *g, struct file_writer *w,
                   uint64_t *bytes_written, struct infer_error *err);
/* Reads an architecture file: graph JSON alone. */
int model_file_read_arch(const char *path, struct infer_error *err,
                         struct graph **out);
/* The same of text in memory, which need not end with a NUL. */
int model_file_parse_arch(const char *text, size_t bytes,
                          struct infer_error *err, struct graph **out);

#endif
