/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of layers whose parameters are broadcast to their input (batch,
 * layer and group norm, scale and shift, PReLU), of resizing and of transposed
 * convolution. */
#include "tools/train/net/net_rules.h"

/* ---- batch norm ---------------------------------------------------- */

/* The gradient of a batch norm's scale or shift. The kernel always writes it:
 * for a frozen parameter to a scratch tensor. */
static void vector_grad(const struct lowering *b, int i, struct net_launch *e)
{
    const struct view scale = input(b, i, false);
    bool add = false;

    e->out[i] = trains(b, i) ? net_grad_param(b->n, param(b, i), &add)
                             : net_like(b->n, &scale);
    if (add)
        e->in[5 + i] = e->out[i];
}

struct net_launch net_batch_norm_dgrad(const struct net *n,
                                       const struct net_chain *chain,
                                       const struct view *y,
                                       const struct view *dy, bool by_mask)
{
    const struct graph_node *node = &n->g->node[chain->head];
    const struct net_where where = {NET_LIST_TRAIN, NET_DGRAD, chain->head};
    struct net_launch e = net_begin_launch(where, KERN_BATCH_NORM_DGRAD);

    e.p.attr.norm = node->attr.norm;
    e.in[0] = *dy;
    e.in[1] = net_operand(n, NET_LIST_TRAIN, node->in[0], false);
    e.in[2] = net_operand(n, NET_LIST_TRAIN, node->in[1], false);
    e.in[3] = n->mean[chain->head];
    e.in[4] = n->deviation[chain->head];
    if (chain->act >= 0) {
        e.p.epilogue.act = n->g->node[chain->act].attr.unary;
        e.in[5] = by_mask ? n->relu_mask[chain->head] : *y;
    }
    return e;
}

/* True if this chain has a bit mask, and the residual is the output of a batch
 * norm in training without an epilogue and is read by this chain alone: the
 * gradient of that batch norm then applies the mask to dy itself, and no
 * gradient between the two is stored. */
static bool hands_mask_on(const struct lowering *b, int residual)
{
    const struct net *n = b->n;
    int from = 0;

    if (n->relu_mask[b->where.node].t.dtype == INFER_NONE ||
        n->value[residual].grad.t.dtype != INFER_NONE ||
        graph_single_user(n->g, residual) != b->chain->add)
        return false;
    while (from < n->g->n_nodes && n->g->node[from].out[0] != residual)
        from++;
    return from < n->g->n_nodes && n->chain[from].head == from &&
           n->g->node[from].op == GRAPH_BATCH_NORM &&
           n->mean[from].t.dtype != INFER_NONE;
}

/* The outputs of the launch: dx overwrites dy unless dy is read afterwards; the
 * residual's gradient has its own. */
static void batch_norm_slots(const struct lowering *b, struct net_launch *e)
{
    const int residual = b->chain->residual;
    struct net_value *r = residual >= 0 ? &b->n->value[residual] : NULL;

    e->out[0] = b->dy;
    if (!r || !r->needs_grad)
        return;
    if (hands_mask_on(b, residual)) {
        r->grad = b->dy;
        r->grad_mask = b->n->relu_mask[b->where.node];
        e->out[0] = net_like(b->n, &b->dy);
    } else {
        e->out[3] = net_like(b->n, &r->view[0]);
    }
}

static void batch_norm_of_batch(const struct lowering *b)
{
    const struct view *mask = &b->n->value[b->node->out[0]].grad_mask;
    struct net_launch e = net_batch_norm_dgrad(
        b->n, b->chain, &b->y, &b->dy,
        b->n->relu_mask[b->where.node].t.dtype != INFER_NONE);

    if (mask->t.dtype != INFER_NONE) {
        e.p.epilogue.act.kind = KERN_RELU;
        e.in[5] = *mask;
    }
    batch_norm_slots(b, &e);
    vector_grad(b, 1, &e);
    vector_grad(b, 2, &e);
    if (net_syncs_norms(b->n))
        net_sync_norm_bwd(b->n, &e);
    else
        net_launch(b->n, &e);
    if (e.out[3].t.dtype != INFER_NONE)
        net_grad_give(b->n, b->where.node, b->chain->residual, &e.out[3]);
    if (wants(b, 0))
        net_bwd_give(b, 0, &e.out[0]);
}

/* With frozen statistics batch norm is a scale a channel: dx is dy normalised
 * with mean 0 and shift 0. */
static void batch_norm_frozen(const struct lowering *b)
{
    struct net_launch e = net_begin_launch(b->where, KERN_BATCH_NORM);

    net_bwd_act_grad(b);
    if (b->chain->residual >= 0)
        net_grad_add(b->n, b->where.node, b->chain->residual, &b->dy);
    if (!wants(b, 0))
        return;
    e.p.attr.norm = b->node->attr.norm;
    e.in[0] = b->dy;
    e.in[1] = input(b, 1, false);
    /* Memory of the network starts with zeros, and nothing writes here. */
    e.in[2] = e.in[3] =
        net_vector(b->n, NET_FIXED, e.in[1].t.dtype, e.in[1].t.dim[0]);
    e.in[4] = input(b, 4, false);
    net_bwd_in_place(b, &e);
}

void net_bwd_batch_norm(const struct lowering *b)
{
    (net_norm_is_frozen(b->n, b->node) ? batch_norm_frozen
                                       : batch_norm_of_batch)(b);
}

/* ---- broadcast parameters ------------------------------------------ */

/* The gradient of parameter i is g, of the input's shape, summed over all
 * dimensions but those from `first` on that the parameter has. */
static void sum_to_param(const struct lowering *b, int i, const struct view *g,
                         int first)
{
    const struct kern_tensor p = input(b, i, false).t;
    int64_t dim[KERN_MAX_RANK];
    struct view to;
    bool add;

    for (int d = 0; d < g->t.rank; d++)
        dim[d] = d < first || d - first >= p.rank ? 1 : p.dim[d - first];
    to = net_grad_param(b->n, param(b, i), &add);
    view_reshape(&to, g->t.rank, dim, &to);
    net_sum(b->n, wgrad(b), g, net_bwd_axes(g, dim), &to, add);
}

/* Launches what writes dx and parameter 1's gradient for each element of the
 * input, then sums the latter; `first` as above. */
static void dx_and_param(const struct lowering *b, struct net_launch *e,
                         int first)
{
    e->in[0] = b->dy;
    e->in[1] = input(b, 0, false);
    if (trains(b, 1))
        e->out[1] = net_like(b->n, &e->in[1]);
    if (wants(b, 0)) {
        net_bwd_dx(b, e, 3);
    } else {
        e->out[0] = net_like(b->n, &e->in[1]);
        net_launch(b->n, e);
    }
    if (trains(b, 1))
        sum_to_param(b, 1, &e->out[1], first);
}

void net_bwd_norm(const struct lowering *b)
{
    const bool layer = b->node->op == GRAPH_LAYER_NORM;
    struct net_launch e =
        net_bwd_begin(b, layer ? KERN_LAYER_NORM_DGRAD : KERN_GROUP_NORM_DGRAD);
    const int first = layer ? e.p.attr.norm.axis : 1;

    e.in[2] = input(b, 1, false);
    if (trains(b, 2))
        sum_to_param(b, 2, &b->dy, first);
    dx_and_param(b, &e, first);
}

void net_bwd_prelu(const struct lowering *b)
{
    struct net_launch e = net_begin_launch(b->where, KERN_PRELU_DGRAD);

    e.in[2] = input(b, 1, true);
    dx_and_param(b, &e, b->dy.t.rank - e.in[2].t.rank);
}

/* dscale is the sum of dy x, dx is dy scaled. */
void net_bwd_scale_shift(const struct lowering *b)
{
    const struct view x = input(b, 0, false);
    struct net_launch e = net_begin_launch(b->where, KERN_SCALE_SHIFT);

    if (trains(b, 2))
        sum_to_param(b, 2, &b->dy, 1);
    if (trains(b, 1)) {
        const struct view product = net_like(b->n, &b->dy);

        net_binary(b->n, wgrad(b), KERN_MUL, &b->dy, &x, &product);
        sum_to_param(b, 1, &product, 1);
    }
    if (!wants(b, 0))
        return;
    e.in[0] = b->dy;
    e.in[1] = input(b, 1, false);
    net_bwd_in_place(b, &e);
}

/* ---- pictures ------------------------------------------------------ */

void net_bwd_resize(const struct lowering *b)
{
    struct net_launch e = net_bwd_begin(b, KERN_RESIZE_DGRAD);

    e.in[0] = b->dy;
    net_bwd_dx(b, &e, 1);
}

/* A transposed convolution is a convolution with x and y exchanged: dx is the
 * convolution of dy, dw its weight gradient with dy for x and x for dy. */
void net_bwd_conv_transpose(const struct lowering *b)
{
    struct net_launch e = net_bwd_begin(b, KERN_CONV_FPROP);
    const struct net_product p = {.attr = e.p.attr.conv,
                                  .x = b->dy,
                                  .w = input(b, 1, true),
                                  .dz = input(b, 0, false),
                                  .turned = true};

    net_bwd_bias(b, 1);
    net_bwd_weights(b, &p);
    if (!wants(b, 0))
        return;
    e.in[0] = b->dy;
    e.in[1] = p.w;
    net_set_point(b->n, &e, PRODUCT_POINT_IN, &p.dz);
    net_bwd_dx(b, &e, 3);
}
