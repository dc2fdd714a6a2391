/* SPDX-License-Identifier: Apache-2.0 */
/* What counted.c gives to the rules of operators (rules.c), and loops
 * of sizes that are computed. */
#ifndef WEIGHTS_ONNX_COMPOSED_COUNTED_H
#define WEIGHTS_ONNX_COMPOSED_COUNTED_H

#include "weights/onnx/composed/compose.h"

/* The axis of a tensor of which only the first entries count. */
struct counted {
    int axis, count; /* count: a value of the graph, -1 where all count */
};

/* That of input i, and of the first input that has one; its number in *i. */
struct counted counted_part(const struct onnx_import *im, int i);
struct counted counted_first(const struct onnx_import *im, int *i);
/* EUNSUPPORTED: the operator may mix entries. */
int counted_mixes(struct onnx_import *im);
int counted_rank(struct onnx_import *im, int i);
/* Whether input i is a number that is computed from such a size. */
bool counted_input_is_sized(const struct onnx_import *im, int i);
/* EUNSUPPORTED: input i is such a number, and is used as data. */
int counted_as_data(struct onnx_import *im, int i);
/* The element of input i that is the size itself; -1 where that is not known.
 */
int counted_size_at(struct onnx_import *im, int i);
/* The same of one that is the size or, where that is less, a fixed number; or a
 * fixed number less so many times the size.  *count: how many there are. */
int counted_limit_at(struct onnx_import *im, int i, int64_t less, int *count);
/* How many entries count, where input i is true if none does and only then; -1
 * where it is something else. */
int counted_none(const struct onnx_import *im, int i);
/* Type of an output that was made, at a probe. */
struct graph_type counted_output(struct onnx_import *im, int i, int probe);
/* Whether dimension d of output 0 has the size of dimension `axis` of input 0
 * at every probe. */
bool counted_same_size(struct onnx_import *im, int axis);
/* Elements of dimensions begin .. end - 1 together; -1 beyond 2^63. */
int64_t counted_elements(const struct graph_type *t, int begin, int end);
/* x, with this number behind the count. */
int counted_masked(struct onnx_import *im, int x, struct counted p,
                   double fill);
/* The same with a value of the graph. */
int counted_masked_by(struct onnx_import *im, int x, struct counted p,
                      int other);
/* A name for a value of the graph. */
struct pb_span counted_name(struct onnx_import *im, int value);
/* Imports the node with another value as input i; with that input masked. */
int counted_import_with(struct onnx_import *im, const struct onnx_op *op, int i,
                        int value);
int counted_import_masked(struct onnx_import *im, const struct onnx_op *op,
                          int i, double fill);
/* The smaller of a count and a number. */
int counted_at_most(struct onnx_import *im, int count, int64_t most);
/* Indices of the elements of a flat I64 tensor of 0 and 1 that are 1, in
 * order; -1 behind them.  *count of one element. */
int counted_ones(struct onnx_import *im, int flags, int *count);
/* Imports the current Loop, of `most` iterations and this true condition, where
 * it resizes a part of each box of a detector to the box's size: 1 where that
 * was done, 0 where it is another loop (regions/loop.c). */
int onnx_import_region_loop(struct onnx_import *im,
                            const struct onnx_graph *body,
                            struct pb_span condition, int64_t most);

#endif
