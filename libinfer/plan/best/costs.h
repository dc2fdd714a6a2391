/* SPDX-License-Identifier: Apache-2.0 */
/* What layers and conversions of a network cost in floats and in 8 bits. */
#ifndef LIBINFER_PLAN_BEST_COSTS_H
#define LIBINFER_PLAN_BEST_COSTS_H

#include "libinfer/plan/best/best.h"
#include "libinfer/plan/best/cut.h"

/* Seconds of a type that a layer must not have. */
#define COSTS_NEVER 1e4

struct costs {
    struct cut cut;
    int *node;    /* of the graph, of each layer of the cut */
    int *layer;   /* of each node: its layer, or -1 */
    double *time; /* seconds of each layer: in floats, then in 8 bits */
    struct cut_tensor *tensor;
    int *reader;
};

/* Lists the nodes that compute in 8 bits in `bytes`, a plan with all that can.
 * To be freed in any case. */
int costs_open(struct costs *c, const struct plan *bytes,
               struct infer_error *err);
void costs_free(struct costs *c);

/* Measures the steps of both plans, and conversions between the types.  Layers
 * that floats compute together with others, as one step, cost COSTS_NEVER in 8
 * bits. */
int costs_measure(struct costs *c, struct plan *bytes, struct plan *floats,
                  struct infer_error *err);

#endif
