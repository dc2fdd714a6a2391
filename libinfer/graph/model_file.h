/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model file (extension .infer): a valid safetensors file.
 *
 *   bytes 0-7     length H of the header, little-endian u64
 *   bytes 8-8+H   header: one JSON object, padded with spaces so that the
 *                 data starts at a multiple of 64
 *     "__metadata__":
 *       "infer.version"       "1"
 *       "infer.header_crc32"  8 hex digits, lower case: CRC-32 (zlib) of the
 *                             header's H bytes with these digits read as
 *                             00000000
 *       "infer.graph"         the graph as JSON text, see below
 *       "infer.crc32"         JSON text: {"tensor name": crc32 of its bytes}
 *     "tensor name": {"dtype": "F32", "shape": [...], "data_offsets": [b, e]}
 *   then the tensors' bytes, in the order of the header; each tensor starts at
 *   a multiple of 64 where the one before it allows it without a hole
 *   (safetensors forbids holes), so readers must not rely on alignment.
 *
 * The graph:
 *
 *   {"infer": 1, "name": "...",
 *    "inputs": [{"name": "x", "dtype": "F32", "shape": [-1, 3, 224, 224],
 *                "preprocess": {...}}],
 *    "nodes": [{"name": "conv1", "op": "conv", "in": ["x", "w", null],
 *               "out": ["y"], "attr": {...},
 *               "act": {"kind": "relu"}, "residual_last": true}],
 *    "outputs": ["y"], "labels": ["..."],
 *    "weights": {"w": {"dtype": "F32", "shape": [64, 3, 7, 7]}}}
 *
 * Fields equal to their default are left out.  "attr" has the fields of the
 * operation's table (ops/); lists with an entry a spatial dimension ("stride",
 * "dilation", "pad", ...) may be given as one number; "pad" holds the begins of
 * all dimensions, then the ends; an infinite number is "inf" or "-inf".
 * "weights" appears only in architecture files, where it and everything in it
 * is optional: a name that nothing produces is a weight.  A version above ours
 * is refused, and so is everything that is not known.
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

#endif
