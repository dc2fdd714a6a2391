/* SPDX-License-Identifier: Apache-2.0 */
/* Weights whose numbers get other places when a plan is made. */
#ifndef LIBINFER_PLAN_CONV_WEIGHTS_H
#define LIBINFER_PLAN_CONV_WEIGHTS_H

#include "libinfer/plan/lower.h"

/* Where number i of the weights comes from, of a constant of these dims. */
typedef int64_t weights_source(int64_t i, const int64_t *dim);

/* Gives a constant of the plan's graph, which one node alone reads, other dims
 * and the numbers that source() names. */
int lower_turn_weights(const struct lower *l, int value, int rank,
                       const int64_t *dim, weights_source *source);

#endif
