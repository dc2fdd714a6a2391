/* SPDX-License-Identifier: Apache-2.0 */
/* What the functions share that find and lower steps on integers of 8 bits
 * (lower_integers.c, lower_scaled.c). */
#ifndef LIBINFER_PLAN_INTEGERS_H
#define LIBINFER_PLAN_INTEGERS_H

#include "libinfer/plan/lower.h"

/* The node that makes input i of a node, if it is this operation; else NULL. */
const struct graph_node *integers_maker(const struct graph *g,
                                        const struct graph_node *n, int i,
                                        enum graph_op op);
/* Scale and zero point of a node quantize or dequantize of a whole tensor;
 * false: they are computed, or vectors, or no scale but 0, NaN or infinity. */
bool integers_scale(const struct graph *g, const struct graph_node *n,
                    float *scale, int *zero);
/* The node quantize to 8 bits that output k of a node goes to and nowhere else,
 * or -1. */
int integers_quantize_after(const struct plan *plan, int node, int k);
/* The integers that input i is dequantised from. */
struct view integers_of(const struct lower *l, int i);

/* Adds `by` to the readings of the integers behind input i, by its value. */
void integers_count(const struct graph *g, const struct graph_node *n, int i,
                    int by, int *reads);
/* Marks pools and functions of two arguments, then moves, that compute on
 * integers, and the nodes quantize that are part of them. */
void integers_mark_scaled(struct plan *plan, int *reads);
void integers_mark_moves(struct plan *plan, int *reads);

#endif
