/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes of a graph whose inputs are constants, computed while converting. */
#ifndef WEIGHTS_EVALUATE_H
#define WEIGHTS_EVALUATE_H

#include "libinfer/graph/constant.h"
#include "libinfer/graph/graph.h"

/* Bytes of all constants of a graph. */
uint64_t weights_constant_bytes(const struct graph *g);

/* What a computation may cost: bytes of its plan beside the constants, and
 * operations and bytes moved (max_work of infer.h). */
struct weights_limits {
    uint64_t bytes;
    double work;
};

/* Runs a graph without inputs, which it takes over, on the reference backend.
 * out[i] receives output i as a constant of the caller's, or NULL where it
 * cannot be read.  0, or the status of the session that could not run it, which
 * is EUNSUPPORTED where it would cost more; nothing is left in out[] then. */
int weights_run_constants(struct graph *g, const struct weights_limits *most,
                          int n, struct constant **out,
                          struct infer_error *err);

/* Runs the nodes marked in node[] (one byte a node of g) in the same way.
 * Each input of a marked node is a constant, or the output of a
 * marked node before it.  out[i] receives value[i].  g is not
 * changed. */
int weights_evaluate(const struct graph *g, const unsigned char *node,
                     const struct weights_limits *most, const int *value,
                     int n_values, struct constant **out,
                     struct infer_error *err);

#endif
