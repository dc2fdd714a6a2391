/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A network as C99: one file and its header, without a library but libm.
 *
 * The network is planned as for the reference backend (libinfer/plan), with
 * channels last.  Each step of the plan becomes a function, functions that are
 * equal but for numbers become one (merge.c), constants become arrays, buffers
 * become places in one static arena.  tools/emit/emitters.def lists the
 * operations.
 */
#ifndef TOOLS_EMIT_EMIT_H
#define TOOLS_EMIT_EMIT_H

#include "kernels/base/file_write.h"
#include "libinfer/graph/graph.h"

/* What was written. */
struct emit_summary {
    size_t arena_bytes;  /* static memory of activations */
    size_t weight_bytes; /* constants */
    size_t source_bytes; /* of both files */
    int functions;       /* one for each distinct step */
    int steps;           /* calls of them in a run */
};

/* Writes path, which ends in ".c", and the header beside it.  The shapes of the
 * graph are known; free sizes of dimension 0 become 1.  EUNSUPPORTED: a step
 * has no emitter (the error names the node and the operation), or a size is
 * free; EARGUMENT: the name does not end in ".c"; EIO, EMEMORY.  out: may be
 * NULL. */
int emit_c(const struct graph *g, const char *path, struct infer_error *err,
           struct emit_summary *out);
/* The same, with both files left to the caller to commit or to abort, maybe
 * with others.  None is open after a failure.  pictures: what the first input
 * expects of pictures, for a comment of the header, or NULL. */
enum { EMIT_FILES = 2 };
int emit_c_put(const struct graph *g, const char *path, const char *pictures,
               struct infer_error *err, struct emit_summary *out,
               struct file_writer w[EMIT_FILES]);

#endif
