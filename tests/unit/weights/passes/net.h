/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small networks for the tests of the passes: built in code, with random
 * weights, run on the reference backend before and after a pass.
 *
 * The two outputs are compared element by element.  The bound comes from the
 * magnitude network: the same graph on absolute values, with activations and
 * subtractions replaced so that nothing can cancel.  Its output at an element
 * is the sum of the absolute values of all terms that make that element, so a
 * rounding error anywhere is at most that sum times the unit roundoff
 * u = 2^-24.  Each node before and after rounds its output once and a folded
 * weight is rounded once more: the bound is 4 (nodes + 1) u times the
 * magnitude.
 */
#ifndef TESTS_UNIT_WEIGHTS_PASSES_NET_H
#define TESTS_UNIT_WEIGHTS_PASSES_NET_H

#include "libinfer/graph/graph.h"
#include "tests/unit/test.h"
#include "weights/passes.h"

struct net {
    struct graph *g;
    uint64_t seed;
};

void net_begin(struct net *net, uint64_t seed);
void net_end(struct net *net);
/* Begins with an input, and returns its value. */
int net_start(struct net *net, uint64_t seed, int rank, const int64_t *dim);
/* A uniform number in -1 .. 1. */
double net_random(struct net *net);

int net_input(struct net *net, int rank, const int64_t *dim);
/* Random constants in -1 .. 1; in 0.5 .. 1.5 where positive. */
int net_weight(struct net *net, int rank, const int64_t *dim);
int net_positive(struct net *net, int rank, const int64_t *dim);
/* A constant with all elements x. */
int net_fill(struct net *net, double x, int rank, const int64_t *dim);
int net_number(struct net *net, double x);
/* A node with one output; its value.  Attributes are filled through
 * net_attr(), the attributes of the latest node. */
int net_node(struct net *net, enum graph_op op, const int *in, int n_in);
union graph_attr *net_attr(struct net *net);
struct graph_node *net_latest(struct net *net);

/* Layers that most tests use. */
int net_conv(struct net *net, int x, int out, int in, int kernel, int pad);
int net_batch_norm(struct net *net, int x, int channels);
int net_dense(struct net *net, int x, int out, int in);
int net_unary(struct net *net, int x, enum kern_unary_kind kind);
int net_binary(struct net *net, enum kern_binary_kind kind, int a, int b);
int net_transpose(struct net *net, int x, int rank, const int64_t *order);
int net_reshape(struct net *net, int x, int rank, const int64_t *dim);
int net_reduce(struct net *net, int x, enum kern_reduce_kind kind, int n_axes,
               const int64_t *axis, bool keep_dims);
void net_output(struct net *net, int value);

/* Runs the one pass of this name until it changes nothing, then compares. The
 * number of its changes must be `changes` (-1: any but 0).  factor widens the
 * derived bound for functions that amplify rounding; 1 for linear ones.
 * Leaves the changed graph in net->g, so that it can be looked at. */
void net_check(struct net *net, const char *pass, int changes, double factor);
/* All passes at level 2. */
void net_check_all(struct net *net, double factor);
/* The pass must leave the graph as it is. */
void net_refuses(struct net *net, const char *pass);

/* The same without running, for graphs whose values the bound does not fit
 * (divisions by computed values, statistics that are inputs). */
void net_refuses_unrun(struct net *net, const char *pass);

/* Nodes of an operation in the graph. */
int net_count(const struct net *net, enum graph_op op);

#endif
