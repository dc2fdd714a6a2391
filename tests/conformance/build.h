/* SPDX-License-Identifier: Apache-2.0 */
/* From a weight file to a model, as wconv does it. */
#ifndef TESTS_CONFORMANCE_BUILD_H
#define TESTS_CONFORMANCE_BUILD_H

#include "libinfer/graph.h"
#include "libinfer/infer.h"

/* Largest difference from recorded outputs, relative to the largest of them. */
#define CONFORMANCE_RELATIVE 1e-4

/* The graph of folder/weights/path as read.  arch: a built-in name, a file of
 * tests/arch, or NULL.  Bare weights without arch: INFER_OK and *out NULL. */
int build_graph(const char *folder, const char *path, const char *arch,
                struct graph **out, struct infer_error *err);

/* The optimised graph, through a model file on disk. */
int build_model(const struct graph *g, struct infer_model **out,
                struct infer_error *err);

#endif
