/* SPDX-License-Identifier: Apache-2.0 */
/*
 * INFER_PRECISION_BEST: of a network whose file has layers in 8 bits
 * (wconv --quantize) those that are quicker so run in 8 bits, the others in
 * floats.
 *
 * The file says what may run in 8 bits, which its accuracy was measured with.
 * A part of that in floats leaves out rounding, and nothing that the function
 * needs (rewire.c).  Times say what runs in 8 bits:
 *
 * 1. A plan with everything in 8 bits and one with everything in floats are
 *    made; every step and every conversion between the types is measured.
 * 2. A minimum cut (cut.h) finds the layers for which 8 bits pay.
 * 3. The network so mixed is run as a whole, by turns with the two others; the
 *    quickest is taken, of equal ones that in floats.
 *
 * All times are in the tuning cache, the last as the choice itself, so that a
 * later session chooses alike without measuring.
 */
#ifndef LIBINFER_PLAN_BEST_BEST_H
#define LIBINFER_PLAN_BEST_BEST_H

#include "libinfer/plan/plan.h"

/* True if the graph has a layer in 8 bits. */
bool best_has_bytes(const struct graph *g);

/* Lets nodes without bytes[node] read floats where that leaves out rounding
 * alone, and drops what nobody reads any more.  bytes: one a node of g, whose
 * nodes are sorted.  EMEMORY */
int best_rewire(struct graph *g, const bool *bytes, struct infer_error *err);

/* Chooses types for the plan, which plan_new() made and nobody prepared, and
 * prepares it so: *plan then holds the quickest of the plans. `log`, which may
 * be NULL, is told a line a layer. */
typedef void best_log_fn(void *user, int level, const char *text);
int best_prepare(struct plan *plan, best_log_fn *log, void *user,
                 struct infer_error *err);

/* ---- the parts of best.c ------------------------------------------- */

/* Prepared plans are bound to memory of their own and run by turns; seconds[i]
 * of a run of plan[i]: the median of its turns.  0 where an input holds no real
 * numbers: then nothing is run. */
int best_race(struct plan *const *plan, int n, struct infer_error *err,
              double *seconds);

#endif
