/* SPDX-License-Identifier: Apache-2.0 */
/* Accumulation of gradients: the first launch that computes a part of a value's
 * gradient writes it, later ones add to it. */
#include "tools/train/net/net.h"

struct view net_like(struct net *n, const struct view *v)
{
    return net_tensor(n, NET_TRAIN, v->t.dtype, v->t.rank, v->t.dim,
                      view_layout(&v->t));
}

struct view net_grad_slot(struct net *n, int value, bool *add)
{
    struct net_value *v = &n->value[value];

    *add = v->grad.t.dtype != INFER_NONE;
    if (!*add)
        v->grad = net_like(n, &v->view[0]);
    return v->grad;
}

void net_grad_put(struct net *n, int node, const struct view *to,
                  const struct view *g, bool add)
{
    const struct net_where where = {NET_LIST_TRAIN, NET_DGRAD, node};

    if (add)
        net_binary(n, where, KERN_ADD, to, g, to);
    else
        net_copy(n, where, g, to);
}

void net_grad_add(struct net *n, int node, int value, const struct view *g)
{
    struct view to;
    bool add;

    if (!n->value[value].needs_grad)
        return;
    to = net_grad_slot(n, value, &add);
    net_grad_put(n, node, &to, g, add);
}

/* True if the value's producer only moves elements and takes a gradient that is
 * not dense. */
static bool takes_scattered(const struct net *n, int value)
{
    const int producer = n->g->value[value].producer;

    return producer >= 0 && (n->g->node[producer].op == GRAPH_SLICE ||
                             n->g->node[producer].op == GRAPH_PAD);
}

void net_grad_give(struct net *n, int node, int value, const struct view *g)
{
    struct net_value *v = &n->value[value];

    if (v->needs_grad && v->grad.t.dtype == INFER_NONE &&
        (takes_scattered(n, value) ||
         kern_tensor_is_dense(&g->t, view_layout(&v->view[0].t))))
        v->grad = *g;
    else
        net_grad_add(n, node, value, g);
}

struct view net_grad_param(struct net *n, int param, bool *add)
{
    struct net_param *p = &n->param[param];

    *add = p->written || n->options.accumulate > 1;
    p->written = true;
    return net_param_view(n, param, NET_GRADS);
}
