/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a graph node asks of a kernel: the operation, its attributes, and the
 * shapes of its first input and its output.  Sessions and the forward pass of
 * training lower nodes through these functions, and backward rules read a
 * node's attributes through them.
 */
#ifndef LIBINFER_PLAN_PROBLEM_H
#define LIBINFER_PLAN_PROBLEM_H

#include "kernels/kern.h"
#include "libinfer/graph/graph.h"
#include "libinfer/memory/view.h"

/* Which inputs of a problem follow the layout of its output. */
enum plan_class {
    PLAN_IMAGE,     /* in[0], the residual and the output have one layout */
    PLAN_POINTWISE, /* all of them; any layout will do */
    PLAN_ROWS       /* row-major unless the row takes what is there */
};

/* Sets op, attr and n_out of p, and rank and dim of p->in[0] and p->out[0] as a
 * kernel sees them: a softmax over several dimensions works on a matrix, and a
 * dimension that a reduction removes has size 1.  p: zeros otherwise; all
 * shapes of the graph are known.  class: may be NULL. EUNSUPPORTED where the
 * node is no problem of a kernel; EFORMAT. */
int problem_of_node(const struct graph *g, const struct graph_node *node,
                    struct infer_error *err, struct kern_problem *p,
                    enum plan_class *class);

/* The axis of a node counted from the front; the error names the node. */
int problem_axis(const struct graph_node *node, int axis, int rank,
                 struct infer_error *err, int *out);

/* Nodes that only move data are the same views in sessions and in both passes
 * of training.  *at, 0 for the first part, is where the next one begins. */

/* The elements of x, a tensor of the input's shape, that output k of a slice,
 * split, transpose or expand holds. */
int problem_part(const struct graph *g, const struct graph_node *node, int k,
                 const struct view *x, int64_t *at, struct infer_error *err,
                 struct view *out);
/* The elements of y, a tensor of the output's shape, that input k of a
 * concatenation or padding fills. */
int problem_place(const struct graph *g, const struct graph_node *node, int k,
                  const struct view *y, int64_t *at, struct infer_error *err,
                  struct view *out);

/* Dimension i of a transpose's output is dimension order[i] of its input. */
void problem_transpose_order(const struct graph_node *node, int rank,
                             int64_t *order);

#endif
