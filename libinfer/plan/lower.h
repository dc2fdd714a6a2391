/* SPDX-License-Identifier: Apache-2.0 */
/* What the functions that lower one operation share. */
#ifndef LIBINFER_PLAN_LOWER_H
#define LIBINFER_PLAN_LOWER_H

#include "libinfer/plan/plan.h"

struct lower {
    struct plan *plan;
    const struct graph_node *node;
    int index; /* of the node */
    struct infer_error *err;
};

typedef int lower_fn(const struct lower *l);

/* View of input i, or NULL where it is absent. */
const struct view *lower_in(const struct lower *l, int i);
/* Shape and declared type of output k. */
const struct graph_value *lower_out(const struct lower *l, int k);
/* Output k is this view, whose dims are those of the output. */
int lower_set(const struct lower *l, int k, const struct view *v);

/* The only reader of the value, if it reads it as its first input and comes
 * shortly after this node; else -1. */
int lower_only_reader(const struct lower *l, int value);

/* The node's problem: its inputs in order, its residual and epilogue included,
 * and output 0. */
int lower_begin(const struct lower *l, struct plan_emit *e);
/* Emits it and sets output 0. */
int lower_end(const struct lower *l, const struct plan_emit *e);
/* Lowers a node that is one step, plus copies. */
lower_fn lower_layer;
/* Defers a product that a convolution may fuse as the scale of its input
 * (lower_input_scale.c): true if the node was lowered to its image. */
bool lower_defer_scale(const struct lower *l);
/* Called for that convolution: puts the scale of its input, if there is one,
 * into e if `may` and a row takes it, else emits the product first. */
int lower_fuse_input_scale(const struct lower *l, bool may,
                           struct plan_emit *e);

/* Chains of convolutions (lower_chain.c).  Defers a convolution, of which
 * lower_begin() says `first`, that a row may compute with its reader: *done if
 * the node was lowered to its input. */
int lower_defer_chain(const struct lower *l, const struct plan_emit *first,
                      bool *done);
/* Called for the reader, of which lower_begin() says `second`.  Emits the chain
 * and sets *done if that is cheaper than its parts; else emits the deferred
 * convolution, if there is one, and makes its output the first input. */
int lower_end_chain(const struct lower *l, struct plan_emit *second,
                    bool *done);

/* True of a convolution of three dimensions, of which lower_begin() says e,
 * that is done as one of two (conv/lower_volume.c), and that. */
bool lower_is_volume(const struct lower *l, const struct plan_emit *e);
int lower_volume(const struct lower *l, struct plan_emit *e);

/* Layers on integers (lower_integers.c).  True of a layer, and of a node
 * quantize or dequantize, that needs no step of its own. */
bool lower_is_integer(const struct lower *l);
/* Lowers such a layer; a pool or function of two arguments; a concatenation
 * (lower_scaled.c). */
lower_fn lower_integers, lower_scaled, lower_concat_integers;

/* v with other dims: a view where strides can express it, else a view of a
 * dense copy. */
int lower_reshape(const struct lower *l, const struct view *v, int rank,
                  const int64_t *dim, struct view *out);
/* True of an image whose last dimension is not innermost. */
bool lower_is_last(const struct view *v);
/* Copies v's elements, in their order, to a tensor of other dims: *done where
 * strides can express v's dims in it. */
int lower_copy_reshaped(const struct lower *l, const struct view *v,
                        const struct view *to, bool *done);
/* For a mean over each channel's image: if squeeze-and-excitation begins with
 * it and the first tier has a row for that, emits one step for the whole and
 * sets *done. */
int lower_squeeze(const struct lower *l, bool *done);

/* A product of two matrices, or attention (lower_attention.c). */
lower_fn lower_product;
lower_fn lower_conv, lower_conv_transpose, lower_pool, lower_reduce,
    lower_arg_reduce, lower_unary, lower_resize, lower_scale_shift,
    lower_binary, lower_cast, lower_identity, lower_quantize, lower_dequantize;
lower_fn lower_concat, lower_gather, lower_parts, lower_reshaped, lower_tile,
    lower_depth_to_space, lower_space_to_depth;

#endif
