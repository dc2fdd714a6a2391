/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the way forward share: one node, or one chain, being
 * lowered. */
#ifndef TOOLS_TRAIN_NET_FORWARD_H
#define TOOLS_TRAIN_NET_FORWARD_H

#include "tools/train/net.h"

struct forward {
    struct net *n;
    int list;
    const struct net_chain *chain;
    const struct graph_node *node; /* the head */
    int out;                       /* value that the chain ends in */
    struct infer_error *err;
};

static inline enum net_home home(const struct forward *f)
{
    return f->list == NET_LIST_EVAL ? NET_EVAL : NET_TRAIN;
}

static inline struct view *slot(const struct forward *f, int value)
{
    return &f->n->value[value].view[f->list == NET_LIST_EVAL];
}

static inline int node_index(const struct forward *f)
{
    return (int)(f->node - f->n->g->node);
}

static inline struct view input(const struct forward *f, int i, bool matrix)
{
    return i < f->node->n_in
               ? net_operand(f->n, f->list, f->node->in[i], matrix)
               : net_operand(f->n, f->list, -1, false);
}

/* A fresh tensor for a value; integers keep their type. */
int net_fore_make(const struct forward *f, int value, struct view *out);

/* Whether the node is one of zeros round its input that a copy makes. */
bool net_fore_pads_zeros(const struct forward *f, const struct kern_pad *a);

/* net_forward_moves.c: nodes that move data. */
int net_fore_reshape(const struct forward *f);
int net_fore_concat(const struct forward *f);
int net_fore_slice(const struct forward *f);
int net_fore_split(const struct forward *f);
int net_fore_transpose(const struct forward *f);
int net_fore_expand(const struct forward *f);
int net_fore_tile(const struct forward *f);

#endif
