/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the forward and of the backward pass share: one node, or
 * one chain, being lowered. */
#ifndef TOOLS_TRAIN_NET_NET_RULES_H
#define TOOLS_TRAIN_NET_NET_RULES_H

#include "kernels/table/product_slope.h"
#include "tools/train/net/net.h"

struct lowering {
    struct net *n;
    struct net_where where; /* its node: the head */
    const struct net_chain *chain;
    const struct graph_node *node; /* the head */
    int out;                       /* value that the chain ends in */
    struct view y, dy;             /* of it, in the backward pass */
};

typedef void net_rule(const struct lowering *l);

static inline int source(const struct lowering *l, int i)
{
    return i < l->node->n_in ? l->node->in[i] : -1;
}

static inline struct view input(const struct lowering *l, int i, bool matrix)
{
    return net_operand(l->n, l->where.list, source(l, i), matrix);
}

/* ---- forward pass -------------------------------------------------- */

static inline enum net_memory memory_of(const struct lowering *f)
{
    return f->where.list == NET_LIST_EVAL ? NET_EVAL : NET_TRAIN;
}

static inline struct view *slot(const struct lowering *f, int value)
{
    return &f->n->value[value].view[f->where.list == NET_LIST_EVAL];
}

/* The problem of the chain's head, with its operands and the chain's
 * activation. */
struct net_launch net_fwd_begin(const struct lowering *f);
/* A fresh tensor for a value; integers keep their type. */
struct view net_fwd_make(const struct lowering *f, int value);
/* Launches a problem whose only output is the chain's. */
void net_fwd_finish(const struct lowering *f, struct net_launch *e);
/* True if the node is one of zeros round its input that a copy makes. */
bool net_fwd_pads_zeros(const struct lowering *f, const struct kern_pad *a);

/* net_forward_moves.c: nodes that move data; parts: slice, split, transpose and
 * expand. */
net_rule net_fwd_reshape, net_fwd_concat, net_fwd_parts, net_fwd_tile;
/* net_forward_norm.c */
net_rule net_fwd_batch_norm;

/* ---- backward pass ------------------------------------------------- */

static inline bool wants(const struct lowering *b, int i)
{
    const int value = source(b, i);

    return value >= 0 && b->n->value[value].needs_grad;
}

static inline int param(const struct lowering *b, int i)
{
    const int value = source(b, i);

    return value < 0 ? -1 : b->n->value[value].param;
}

static inline bool trains(const struct lowering *b, int i)
{
    return net_is_trained(b->n, param(b, i));
}

/* The stage of a parameter's gradient. */
static inline struct net_where wgrad(const struct lowering *b)
{
    return (struct net_where){NET_LIST_TRAIN, NET_WGRAD, b->where.node};
}

/* A data gradient with the attributes of the node. */
struct net_launch net_bwd_begin(const struct lowering *b, enum kern_op op);
/* Launches what makes, or adds to (through input `plus`), the gradient of input
 * 0. */
void net_bwd_dx(const struct lowering *b, struct net_launch *e, int plus);
/* Launches what turns dy into the gradient of input 0, in place. */
void net_bwd_in_place(const struct lowering *b, struct net_launch *e);
/* g becomes the gradient of input i, or is added to it. */
void net_bwd_give(const struct lowering *b, int i, const struct view *g);
/* Activation gradient: turns dy into the gradient before the chain's
 * activation, in place. */
void net_bwd_act_grad(const struct lowering *b);
/* A bias's gradient: dz summed over everything but the channels. */
void net_bwd_bias(const struct lowering *b, int channel_axis);

/* The operands of a convolution's dgrad and wgrad. */
struct net_product {
    struct kern_conv attr;
    struct view x, w, dz;
    bool side;   /* wgrad may run on the side stream */
    bool turned; /* x is the gradient, dz the input: a transposed convolution */
};
void net_bwd_weights(const struct lowering *b, const struct net_product *p);

/* Adds g, of the output's shape, to the gradient of input i, summed over the
 * dimensions that were broadcast; give: g is not read afterwards. */
void net_bwd_unbroadcast(const struct lowering *b, int i, const struct view *g,
                         bool give);
/* True if the arithmetic has a gradient. */
bool net_bwd_has_binary(enum kern_binary_kind kind);
/* The dimensions in which g is larger than dim, one bit each. */
uint32_t net_bwd_axes(const struct view *g, const int64_t *dim);
/* The gradient of input i is the sum of g, which has these dims then. */
void net_bwd_give_sum(const struct lowering *b, int i, const struct view *g,
                      const int64_t *dim, enum kern_layout layout,
                      const char *otherwise);

/* net_backward_moves.c: rules of nodes that move data; parts: slice and split.
 */
net_rule net_bwd_reshape, net_bwd_concat, net_bwd_parts, net_bwd_transpose,
    net_bwd_expand, net_bwd_tile, net_bwd_pad;
/* net_backward_pointwise.c: arithmetic and softmax. */
net_rule net_bwd_binary, net_bwd_softmax;
/* net_backward_layers.c; norm: layer and group norm. */
net_rule net_bwd_conv_transpose, net_bwd_batch_norm, net_bwd_norm,
    net_bwd_scale_shift, net_bwd_prelu, net_bwd_resize;

#endif
