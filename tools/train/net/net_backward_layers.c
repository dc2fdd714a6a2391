/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of layers whose parameters are broadcast to their input (batch,
 * layer and group norm, scale and shift, PReLU), of resizing and of transposed
 * convolution. */
#include "tools/train/net/net_backward.h"

/* ---- batch norm ---------------------------------------------------- */

/* The gradient of a batch norm's scale or shift. The kernel always writes it:
 * for a frozen parameter to a scratch tensor. */
static int vector_grad(const struct backward *b, int i, struct net_emit *e)
{
    const struct view scale = input(b, i, false);
    bool add = false;
    int rc = 0;

    if (trains(b, i))
        e->out[i] = net_grad_param(b->n, param(b, i), &add);
    else
        rc = net_like(b->n, &scale, b->err, &e->out[i]);
    if (add)
        e->in[5 + i] = e->out[i];
    return rc;
}

void net_batch_norm_dgrad(const struct net *n, const struct net_chain *chain,
                          const struct view *y, const struct view *dy,
                          bool by_sign, struct net_emit *e)
{
    const struct graph_node *node = &n->g->node[chain->head];

    net_emit_begin(e, NET_LIST_TRAIN, KERN_BATCH_NORM_DGRAD, NET_DGRAD,
                   chain->head);
    e->p.attr.norm = node->attr.norm;
    e->in[0] = *dy;
    e->in[1] = net_operand(n, NET_LIST_TRAIN, node->in[0], false);
    e->in[2] = net_operand(n, NET_LIST_TRAIN, node->in[1], false);
    e->in[3] = n->mean[chain->head];
    e->in[4] = n->deviation[chain->head];
    if (chain->act >= 0) {
        e->p.epilogue.act = n->g->node[chain->act].attr.unary;
        e->in[5] = by_sign ? n->signs[chain->head] : *y;
    }
}

/* True if this chain has a bit mask, and the residual is the output of a batch
 * norm in training without an epilogue and is read by this chain alone: the
 * gradient of that batch norm then applies the mask to dy itself, and no
 * gradient between the two is stored. */
static bool passes_on(const struct backward *b, int residual)
{
    const struct net *n = b->n;
    int from = 0;

    if (n->signs[b->at].t.dtype == INFER_NONE ||
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
static int batch_norm_slots(const struct backward *b, struct net_emit *e)
{
    const int residual = b->chain->residual;
    const bool split = residual >= 0 && b->n->value[residual].needs_grad;
    struct net_value *r = split ? &b->n->value[residual] : NULL;

    e->out[0] = b->dy;
    if (split && passes_on(b, residual)) {
        r->grad = b->dy;
        r->passed = b->n->signs[b->at];
        return net_like(b->n, &b->dy, b->err, &e->out[0]);
    }
    return split ? net_like(b->n, &r->view[0], b->err, &e->out[3]) : 0;
}

static int batch_norm_of_batch(const struct backward *b)
{
    const struct view *passed = &b->n->value[b->node->out[0]].passed;
    struct net_emit e;
    int rc;

    net_batch_norm_dgrad(b->n, b->chain, &b->y, &b->dy,
                         b->n->signs[b->at].t.dtype != INFER_NONE, &e);
    if (passed->t.dtype != INFER_NONE) {
        e.p.epilogue.act.kind = KERN_RELU;
        e.in[5] = *passed;
    }
    rc = batch_norm_slots(b, &e);
    if (rc == 0)
        rc = vector_grad(b, 1, &e);
    if (rc == 0)
        rc = vector_grad(b, 2, &e);
    if (rc == 0)
        rc = net_syncs_norms(b->n) ? net_sync_norm_bwd(b->n, &e, b->err)
                                   : net_emit(b->n, &e, b->err);
    if (rc == 0 && e.out[3].t.dtype != INFER_NONE)
        rc = net_grad_give(b->n, b->at, b->chain->residual, &e.out[3], b->err);
    if (rc == 0 && wants(b, 0))
        rc = net_grad_give(b->n, b->at, source(b, 0), &e.out[0], b->err);
    return rc;
}

/* With frozen statistics batch norm is a scale a channel: dx is dy normalised
 * with mean 0 and shift 0. */
static int batch_norm_frozen(const struct backward *b)
{
    const int residual = b->chain->residual;
    struct net_emit e;
    struct view none;
    int rc = net_bwd_act_grad(b);

    if (rc == 0 && residual >= 0)
        rc = net_grad_add(b->n, b->at, residual, &b->dy, b->err);
    if (rc < 0 || !wants(b, 0))
        return rc;
    begin(b, KERN_BATCH_NORM, NET_DGRAD, &e);
    e.p.attr.norm = b->node->attr.norm;
    e.in[1] = input(b, 1, false);
    /* Memory of the network starts with zeros, and nothing writes here. */
    rc = net_tensor(b->n, NET_FIXED, e.in[1].t.dtype, 1, e.in[1].t.dim,
                    KERN_NCHW, b->err, &none);
    if (rc < 0)
        return rc;
    e.in[0] = b->dy;
    e.in[2] = e.in[3] = none;
    e.in[4] = input(b, 4, false);
    e.out[0] = b->dy;
    rc = net_emit(b->n, &e, b->err);
    return rc < 0 ? rc
                  : net_grad_give(b->n, b->at, source(b, 0), &b->dy, b->err);
}

int net_bwd_batch_norm(const struct backward *b)
{
    return net_norm_is_frozen(b->n, b->node) ? batch_norm_frozen(b)
                                             : batch_norm_of_batch(b);
}

/* ---- broadcast parameters ------------------------------------------ */

/* The gradient of parameter i is g, of the input's shape, summed over all
 * dimensions but those from `first` on that the parameter has. */
static int sum_to_param(const struct backward *b, int i, const struct view *g,
                        int first)
{
    const struct kern_tensor p = input(b, i, false).t;
    int64_t dim[KERN_MAX_RANK];
    struct net_emit e;
    struct view to;
    bool add;

    begin(b, KERN_REDUCE, NET_WGRAD, &e);
    e.p.attr.reduce.kind = KERN_REDUCE_SUM;
    for (int d = 0; d < g->t.rank; d++) {
        dim[d] = d < first || d - first >= p.rank ? 1 : p.dim[d - first];
        if (dim[d] != g->t.dim[d])
            e.p.attr.reduce.axes |= 1u << d;
    }
    to = net_grad_param(b->n, param(b, i), &add);
    view_reshape(&to, g->t.rank, dim, &e.out[0]);
    e.in[0] = *g;
    if (add)
        e.in[1] = e.out[0];
    return net_emit(b->n, &e, b->err);
}

/* Emits a launch that writes dx and parameter 1's gradient for each element of
 * the input, then sums the latter; `first` as above. */
static int dx_and_param(const struct backward *b, struct net_emit *e, int first)
{
    int rc = 0;

    e->in[0] = b->dy;
    e->in[1] = input(b, 0, false);
    if (trains(b, 1))
        rc = net_like(b->n, &e->in[1], b->err, &e->out[1]);
    if (rc == 0 && !wants(b, 0)) {
        rc = net_like(b->n, &e->in[1], b->err, &e->out[0]);
        if (rc == 0)
            rc = net_emit(b->n, e, b->err);
    } else if (rc == 0) {
        rc = net_bwd_dx(b, e, 3);
    }
    if (rc == 0 && trains(b, 1))
        rc = sum_to_param(b, 1, &e->out[1], first);
    return rc;
}

int net_bwd_norm(const struct backward *b)
{
    const bool layer = b->node->op == GRAPH_LAYER_NORM;
    struct net_emit e;
    int first = 1;
    int rc = net_bwd_begin(
        b, layer ? KERN_LAYER_NORM_DGRAD : KERN_GROUP_NORM_DGRAD, &e);

    if (rc < 0)
        return rc;
    if (layer)
        first = e.p.attr.norm.axis;
    e.in[2] = input(b, 1, false);
    if (trains(b, 2))
        rc = sum_to_param(b, 2, &b->dy, first);
    return rc < 0 ? rc : dx_and_param(b, &e, first);
}

int net_bwd_prelu(const struct backward *b)
{
    struct net_emit e;

    begin(b, KERN_PRELU_DGRAD, NET_DGRAD, &e);
    e.in[2] = input(b, 1, true);
    return dx_and_param(b, &e, b->dy.t.rank - e.in[2].t.rank);
}

/* dscale is the sum of dy x, dx is dy scaled. */
int net_bwd_scale_shift(const struct backward *b)
{
    struct net_emit e;
    int rc = 0;

    if (trains(b, 2))
        rc = sum_to_param(b, 2, &b->dy, 1);
    if (rc == 0 && trains(b, 1)) {
        begin(b, KERN_BINARY, NET_WGRAD, &e);
        e.p.attr.binary.kind = KERN_MUL;
        e.in[0] = b->dy;
        e.in[1] = input(b, 0, false);
        rc = net_like(b->n, &b->dy, b->err, &e.out[0]);
        if (rc == 0)
            rc = net_emit(b->n, &e, b->err);
        if (rc == 0)
            rc = sum_to_param(b, 1, &e.out[0], 1);
    }
    if (rc < 0 || !wants(b, 0))
        return rc;
    begin(b, KERN_SCALE_SHIFT, NET_DGRAD, &e);
    e.in[0] = b->dy;
    e.in[1] = input(b, 1, false);
    e.out[0] = b->dy;
    rc = net_emit(b->n, &e, b->err);
    return rc < 0 ? rc
                  : net_grad_give(b->n, b->at, source(b, 0), &b->dy, b->err);
}

/* ---- pictures ------------------------------------------------------ */

int net_bwd_resize(const struct backward *b)
{
    struct net_emit e;
    const int rc = net_bwd_begin(b, KERN_RESIZE_DGRAD, &e);

    e.in[0] = b->dy;
    return rc < 0 ? rc : net_bwd_dx(b, &e, 1);
}

/* A transposed convolution is a convolution with x and y exchanged: dx is the
 * convolution of dy, dw its weight gradient with dy for x and x for dy. */
int net_bwd_conv_transpose(const struct backward *b)
{
    const struct view w = input(b, 1, true);
    struct net_emit e, dgrad;
    struct view dw;
    bool add;
    int rc = net_bwd_begin(b, KERN_CONV_FPROP, &dgrad);

    if (rc == 0)
        rc = net_bwd_bias(b, 1);
    if (rc == 0 && trains(b, 1)) {
        begin(b, KERN_CONV_WGRAD, NET_WGRAD, &e);
        e.p.attr = dgrad.p.attr;
        e.in[0] = b->dy;
        e.in[1] = input(b, 0, false);
        dw = net_grad_param(b->n, param(b, 1), &add);
        view_reshape(&dw, w.t.rank, w.t.dim, &e.out[0]);
        if (add)
            e.in[2] = e.out[0];
        rc = net_emit(b->n, &e, b->err);
    }
    if (rc < 0 || !wants(b, 0))
        return rc;
    dgrad.in[0] = b->dy;
    dgrad.in[1] = w;
    return net_bwd_dx(b, &dgrad, 3);
}
