/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the backward pass share: one chain whose gradients are
 * computed. */
#ifndef TOOLS_TRAIN_NET_NET_BACKWARD_H
#define TOOLS_TRAIN_NET_NET_BACKWARD_H

#include "tools/train/net/net.h"

struct backward {
    struct net *n;
    const struct net_chain *chain;
    const struct graph_node *node; /* the head */
    int at;                        /* its index */
    struct view y, dy;             /* of the chain's output */
    struct infer_error *err;
};

static inline int source(const struct backward *b, int i)
{
    return i < b->node->n_in ? b->node->in[i] : -1;
}

static inline struct view input(const struct backward *b, int i, bool matrix)
{
    return net_operand(b->n, NET_LIST_TRAIN, source(b, i), matrix);
}

static inline bool wants(const struct backward *b, int i)
{
    const int value = source(b, i);

    return value >= 0 && b->n->value[value].needs_grad;
}

static inline int param(const struct backward *b, int i)
{
    const int value = source(b, i);

    return value < 0 ? -1 : b->n->value[value].param;
}

static inline bool trains(const struct backward *b, int i)
{
    return net_is_trained(b->n, param(b, i));
}

static inline void begin(const struct backward *b, enum kern_op op,
                         enum net_stage stage, struct net_emit *e)
{
    net_emit_begin(e, NET_LIST_TRAIN, op, stage, b->at);
}

/* begin() for the data gradient, with the attributes of the node. */
int net_bwd_begin(const struct backward *b, enum kern_op op,
                  struct net_emit *e);
/* Emits a launch that makes, or adds to (through input `plus`), the gradient of
 * input 0. */
int net_bwd_dx(const struct backward *b, struct net_emit *e, int plus);
/* Activation gradient: turns dy into the gradient before the chain's
 * activation, in place. */
int net_bwd_act_grad(const struct backward *b);
/* A bias's gradient: dz summed over everything but the channels. */
int net_bwd_bias(const struct backward *b, int channel_axis);

/* Adds g, of the output's shape, to the gradient of input i, summed over the
 * dimensions that were broadcast; give: g is not read afterwards. */
int net_bwd_unbroadcast(const struct backward *b, int i, const struct view *g,
                        bool give);

/* net_backward_moves.c: rules of nodes that move data. */
int net_bwd_reshape(const struct backward *b);
int net_bwd_concat(const struct backward *b);
int net_bwd_slice(const struct backward *b);
int net_bwd_split(const struct backward *b);
int net_bwd_transpose(const struct backward *b);
int net_bwd_expand(const struct backward *b);
int net_bwd_tile(const struct backward *b);
int net_bwd_pad(const struct backward *b);

/* net_backward_pointwise.c: arithmetic and softmax. */
int net_bwd_binary(const struct backward *b);
int net_bwd_softmax(const struct backward *b);

/* net_backward_layers.c: rules of nodes. */
int net_bwd_conv_transpose(const struct backward *b);
int net_bwd_batch_norm(const struct backward *b);
int net_bwd_norm(const struct backward *b); /* layer and group norm */
int net_bwd_scale_shift(const struct backward *b);
int net_bwd_prelu(const struct backward *b);
int net_bwd_resize(const struct backward *b);

#endif
