/* SPDX-License-Identifier: Apache-2.0 */
/* kbench multiplier: its page, and how often a model has which operand. */
#ifndef TOOLS_KBENCH_MULTIPLIER_REPORT_H
#define TOOLS_KBENCH_MULTIPLIER_REPORT_H

#include <stdio.h>

#include "libinfer/graph/graph.h"
#include "libinfer/multiplier/multiplier.h"

/* A page: begun, one or more multipliers, ended.  model: NULL, or whose weights
 * weight the figures. */
void kb_multiplier_begin(FILE *f);
void kb_multiplier_put(FILE *f, const struct multiplier *m,
                       const struct multiplier_errors *e, const char *model);
void kb_multiplier_end(FILE *f);

/* How many weights of the convolutions and dense layers of a graph have each
 * index of the second operand; those that are zero or not finite are none.
 * Floating point takes weights in floating point, integers of 8 bits those in
 * I8, of an unsigned table with 128 added.  *out: 2^bits numbers, to be freed.
 * EUNSUPPORTED: the graph has no such weights; EMEMORY, EIO, EFORMAT. */
int kb_multiplier_count(const struct multiplier *m, const struct graph *g,
                        struct infer_error *err, double **out);

#endif
