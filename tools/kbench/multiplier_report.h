/* SPDX-License-Identifier: Apache-2.0 */
/* kbench multiplier: its page, and how often a model has which operand. */
#ifndef TOOLS_KBENCH_MULTIPLIER_REPORT_H
#define TOOLS_KBENCH_MULTIPLIER_REPORT_H

#include <stdio.h>

#include "libinfer/graph/graph.h"
#include "libinfer/multiplier/multiplier.h"
#include "tools/samples.h"

/* A page: begun, one or more multipliers, ended.  model: NULL, or whose weights
 * weight the figures. */
void kb_multiplier_begin(FILE *f);
void kb_multiplier_put(FILE *f, const struct multiplier *m,
                       const struct multiplier_errors *e, const char *model);
void kb_multiplier_end(FILE *f);

/* How often a graph has which operand: of the convolutions and dense layers,
 * weights by the index of the second operand, and, if there are samples, what
 * the layers read in them by that of the first.  Zeros and what is not finite
 * do not count.  Floating point takes weights in floating point, integers of 8
 * bits those in I8, of an unsigned table with 128 added, and no samples.
 * EUNSUPPORTED: the graph has no such weights; EMEMORY, EIO, EFORMAT. */
struct kb_operands {
    double *first, *second; /* 2^bits numbers each, or NULL: all the same */
};
int kb_multiplier_count(const struct multiplier *m, const struct graph *g,
                        const struct samples *samples, struct infer_error *err,
                        struct kb_operands *out);
void kb_multiplier_clear(struct kb_operands *operands);

#endif
