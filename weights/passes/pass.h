/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the passes: an index of readers, matching of nodes, editing of
 * nodes and of weights.
 *
 * A pass is a visit function that looks at one node and the nodes before it,
 * and changes the graph where its pattern matches.  Patterns are anchored
 * at their last node, which keeps its output value, so that no reader has to
 * be redirected.  Nodes that lose their last reader are left for
 * graph_remove_dead(), which runs after each pass that changed something.
 */
#ifndef WEIGHTS_PASSES_PASS_H
#define WEIGHTS_PASSES_PASS_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/base/error.h"
#include "libinfer/graph/graph.h"
#include "weights/passes.h"

/* A running pass.  The index is kept by the pass_* functions below; graph_*
 * functions that change inputs must not be used meanwhile. */
struct pass {
    struct graph *g;
    struct pass_report *report;
    struct infer_error *err;
    const char *name;
    int capacity;        /* entries of the arrays that follow */
    int *readers;        /* node inputs and graph outputs that read a value */
    int64_t *reader_sum; /* sum of the reading nodes: the node if only one */
    unsigned char *is_output;
};

/* Reports "out of memory" for this pass; returns INFER_EMEMORY. */
int pass_no_memory(struct pass *p);
/* Notes a change for the report.  bytes: weight bytes saved. */
#define pass_note(p, bytes, ...)                                               \
    pass_report_add((p)->report, (p)->name, (bytes), __VA_ARGS__)

/* ---- looking ------------------------------------------------------- */

/* The only reader of a value, or -1 (none, several, or a graph output). */
int pass_reader(const struct pass *p, int value);
/* True if a value reaches a node whose result jumps (rounding, a comparison,
 * levels of 8 bits), over nodes that keep exact numbers exact; also where too
 * many nodes would have to be looked at. */
bool pass_reaches_jump(const struct pass *p, int value);
/* The node of this operation that produces a value, or -1. */
int pass_producer(const struct pass *p, int value, enum graph_op op);
/* Input i of a node, -1 where absent. */
int pass_input(const struct graph_node *n, int i);
/* The constant, in memory, of input i of a node, or NULL. */
struct constant *pass_constant(const struct pass *p, const struct graph_node *n,
                               int i);
/* The constant of a value, or NULL. */
struct constant *pass_value_constant(const struct pass *p, int value);
/* The value as a number where it is a constant of one element, which is
 * stored in *out. */
bool pass_scalar(const struct pass *p, int value, double *out);
/* A scalar that is exactly `want`. */
bool pass_is_scalar(const struct pass *p, int value, double want);
/* A binary node of this kind without activation and residual; its constant
 * operand (second one for the others' sake where both are) and its variable
 * one.  *swapped: the constant comes first. */
bool pass_binary(const struct pass *p, int node, enum kern_binary_kind kind);
bool pass_binary_constant(const struct pass *p, int node, int *variable,
                          int *constant, bool *swapped);
/* x op k, or k op x where swapped, as a x + b; false where it is no such
 * function. */
bool pass_linear(enum kern_binary_kind kind, bool swapped, double k, double *a,
                 double *b);
/* A unary node of this kind. */
bool pass_unary(const struct pass *p, int node, enum kern_unary_kind kind);

/* A function that networks use behind layers, as a node of its own.  The others
 * are left as nodes: no backend gains by them. */
bool pass_is_activation(const struct graph_node *n);

/* The residual of a node, or -1. */
int pass_residual(const struct graph_node *n);
/* Reshape, flatten, squeeze or unsqueeze: the elements stay in order. */
bool pass_is_reshape(const struct graph_node *n);
/* True where the node has neither activation nor residual. */
bool pass_plain(const struct graph_node *n);

/* Ranks known and equal, dimensions equal; a free dimension equals a free one
 * at the same place. */
bool pass_same_shape(const struct graph_value *a, const struct graph_value *b);
/* Rank and all dimensions known. */
bool pass_known_shape(const struct graph_value *v);
bool pass_is_float(const struct graph_value *v);
/* x is `want` to the precision of the tensors of this value's type: for
 * numbers of a formula, which a model states in its own type. */
bool pass_near(const struct graph_value *v, double x, double want);
/* All n numbers are finite and stay so in this type; NULL is fine. */
bool pass_fits(enum infer_dtype dtype, int64_t n, const double *x);

/* A constant operand as one number a channel of a tensor: scalars and arrays
 * that broadcast along dimension `axis` of `tensor` alone.  out (channels
 * entries) is filled where this holds. */
bool pass_channel_operand(const struct graph_value *tensor, int axis,
                          const struct constant *c, int64_t channels,
                          double *out);

/* The plain norm of this operation whose result a node multiplies by a constant
 * (*which 1) or adds one to (2), and that can take it as that input; else -1.
 * No other node reads the result. */
int pass_norm_before(const struct pass *p, int node, enum graph_op op,
                     int *constant, int *which);

/* True where a node only moves, chooses or combines the elements of this input,
 * which may have any strides: a large constant of equal elements is better
 * stored as nodes that compute it (store_fills.c). */
bool pass_takes_nodes(const struct graph_node *n, int value);

/* ---- changing ------------------------------------------------------ */

/* Makes input i of a node read value (-1: nothing), adding inputs as needed.
 */
int pass_set_input(struct pass *p, int node, int i, int value);
/* Turns a node into another operation with default attributes, no epilogue
 * and these inputs; its outputs stay. */
int pass_become(struct pass *p, int node, enum graph_op op, const int *in,
                int n_in);
void pass_kill(struct pass *p, int node);
/* `node` produces what `last`, a later node with one output, produced; `last`
 * is removed. */
void pass_absorb(struct pass *p, int node, int last);
/* A new node with one new output value.  Returns the value or an error. */
int pass_add_node(struct pass *p, enum graph_op op, const int *in, int n_in);
/* A new constant value named `base` and `suffix`, or by a fresh name where
 * that is taken.  Takes over the reference.  Returns the value or an error. */
int pass_add_constant(struct pass *p, const char *base, const char *suffix,
                      struct constant *c);
/* A new float constant of one dimension; dtype is that of `like`. */
int pass_add_vector(struct pass *p, const char *base, const char *suffix,
                    enum infer_dtype dtype, int64_t n, const double *x);
/* Input i of a node, which is a constant in memory, as one that only this
 * node reads and that may be written.  NULL where memory is out. */
struct constant *pass_edit_constant(struct pass *p, int node, int i);
/* Puts c (reference taken over) in place of the constant of a value that the
 * caller has made sure nobody else reads. */
void pass_put_constant(struct pass *p, int value, struct constant *c);

/* ---- linear layers (passes/linear.c) ------------------------------- */

/* y = scale[k] * y + shift[k] for each output channel k of a conv,
 * conv_transpose or dense node without epilogue: edits weights and bias.
 * Returns 1, or 0 where the node does not allow it, or an error. */
int pass_scale_outputs(struct pass *p, int node, int64_t n, const double *scale,
                       const double *shift);
/* The node reads scale[c] * x + shift[c] instead of x for each input channel
 * c, folded into weights and bias, so that it can be given x itself.  Exact
 * with zero pads or shift 0 only; returns 0 otherwise. */
int pass_scale_inputs(struct pass *p, int node, int64_t n, const double *scale,
                      const double *shift);
/* Output channels of such a node, or -1; and the dimension of its output that
 * holds them. */
int64_t pass_output_channels(const struct pass *p, int node, int *axis);

#endif
