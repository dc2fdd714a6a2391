/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the forward pass share: one node being lowered. */
#ifndef TOOLS_TRAIN_NET_NET_FORWARD_H
#define TOOLS_TRAIN_NET_NET_FORWARD_H

#include "tools/train/net/net.h"

/* One node, or one chain, being lowered. */
struct forward {
    struct net *n;
    int list;
    const struct net_chain *chain;
    const struct graph_node *node; /* the head */
    int out;                       /* value that the chain ends in */
    struct infer_error *err;
};

static inline enum net_memory memory_of(const struct forward *f)
{
    return f->list == NET_LIST_EVAL ? NET_EVAL : NET_TRAIN;
}

static inline struct view *slot(const struct forward *f, int value)
{
    return &f->n->value[value].view[f->list == NET_LIST_EVAL];
}

static inline struct view input(const struct forward *f, int i, bool matrix)
{
    return i < f->node->n_in
               ? net_operand(f->n, f->list, f->node->in[i], matrix)
               : net_operand(f->n, f->list, -1, false);
}

static inline int node_index(const struct forward *f)
{
    return (int)(f->node - f->n->g->node);
}

/* The problem of the chain's head, with its operands and the chain's
 * activation. */
int net_fwd_begin(const struct forward *f, struct net_emit *e);
/* A fresh tensor for a value; integers keep their type. */
int net_fwd_make(const struct forward *f, int value, struct view *out);
/* Emits a problem whose only output is the chain's. */
int net_fwd_finish(const struct forward *f, struct net_emit *e);

/* Whether the node is one of zeros round its input that a copy makes. */
bool net_fwd_pads_zeros(const struct forward *f, const struct kern_pad *a);

/* net_forward_moves.c: nodes that move data. */
int net_fwd_reshape(const struct forward *f);
int net_fwd_concat(const struct forward *f);
int net_fwd_slice(const struct forward *f);
int net_fwd_split(const struct forward *f);
int net_fwd_transpose(const struct forward *f);
int net_fwd_expand(const struct forward *f);
int net_fwd_tile(const struct forward *f);

/* net_forward_norm.c */
int net_fwd_batch_norm(const struct forward *f);

#endif
