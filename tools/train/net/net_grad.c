/* SPDX-License-Identifier: Apache-2.0 */
/* Accumulation of gradients: the first launch that computes a part of a value's
 * gradient writes it, later ones add to it. */
#include "tools/train/net/net.h"

#include <string.h>

#include "kernels/base/error.h"

int net_like(struct net *n, const struct view *v, struct infer_error *err,
             struct view *out)
{
    return net_tensor(n, NET_TRAIN, v->t.dtype, v->t.rank, v->t.dim,
                      view_layout(&v->t), err, out);
}

int net_grad_slot(struct net *n, int value, struct infer_error *err,
                  struct view *out, bool *add)
{
    struct net_value *v = &n->value[value];
    int rc = 0;

    *add = v->grad.t.dtype != INFER_NONE;
    if (!*add)
        rc = net_like(n, &v->view[0], err, &v->grad);
    *out = v->grad;
    return rc;
}

int net_grad_sum(struct net *n, int node, const struct view *to,
                 const struct view *g, struct infer_error *err)
{
    struct net_emit e;

    net_emit_begin(&e, NET_LIST_TRAIN, KERN_BINARY, NET_DGRAD, node);
    e.p.attr.binary.kind = KERN_ADD;
    e.in[0] = *to;
    e.in[1] = *g;
    e.out[0] = *to;
    return net_emit(n, &e, err);
}

int net_grad_add(struct net *n, int node, int value, const struct view *g,
                 struct infer_error *err)
{
    struct view to;
    bool add;
    int rc;

    if (!n->value[value].needs_grad)
        return 0;
    rc = net_grad_slot(n, value, err, &to, &add);
    if (rc < 0)
        return rc;
    return add ? net_grad_sum(n, node, &to, g, err)
               : net_copy(n, NET_LIST_TRAIN, NET_DGRAD, node, g, &to, err);
}

/* True if the value's producer only moves elements and takes a gradient that is
 * not dense. */
static bool takes_scattered(const struct net *n, int value)
{
    const int producer = n->g->value[value].producer;

    return producer >= 0 && (n->g->node[producer].op == GRAPH_SLICE ||
                             n->g->node[producer].op == GRAPH_PAD);
}

int net_grad_give(struct net *n, int node, int value, const struct view *g,
                  struct infer_error *err)
{
    struct net_value *v = &n->value[value];

    if (v->needs_grad && v->grad.t.dtype == INFER_NONE &&
        (takes_scattered(n, value) ||
         kern_tensor_is_dense(&g->t, view_layout(&v->view[0].t)))) {
        v->grad = *g;
        return 0;
    }
    return net_grad_add(n, node, value, g, err);
}

struct view net_grad_param(struct net *n, int param, bool *add)
{
    struct net_param *p = &n->param[param];

    *add = p->written || n->options.accumulate > 1;
    p->written = true;
    return net_param_view(n, param, NET_GRADS);
}

int net_fill_zero(struct net *n, int list, int node, const struct view *to,
                  struct infer_error *err)
{
    const struct view zero = view_raise(&n->zero, to->t.rank);
    const struct view from = view_expand(&zero, to->t.dim);

    return net_copy(n, list, NET_DGRAD, node, &from, to, err);
}
