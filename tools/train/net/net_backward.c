/* SPDX-License-Identifier: Apache-2.0 */
/* The backward pass: for every chain, in reverse order, the launches that
 * compute the gradients of its inputs and parameters from that of its output.
 */
#include "tools/train/net/net_rules.h"

#include <stdlib.h>

struct net_launch net_bwd_begin(const struct lowering *b, enum kern_op op)
{
    struct net_launch e = net_begin_launch(b->where, op);

    net_check(b->n,
              problem_of_node(b->n->g, b->node, net_err(b->n), &e.p, NULL));
    e.p.op = op;
    return e;
}

void net_bwd_dx(const struct lowering *b, struct net_launch *e, int plus)
{
    bool add;

    e->out[0] = net_grad_slot(b->n, source(b, 0), &add);
    if (add)
        e->in[plus] = e->out[0];
    net_launch(b->n, e);
}

void net_bwd_give(const struct lowering *b, int i, const struct view *g)
{
    net_grad_give(b->n, b->where.node, source(b, i), g);
}

void net_bwd_in_place(const struct lowering *b, struct net_launch *e)
{
    e->out[0] = b->dy;
    net_launch(b->n, e);
    net_bwd_give(b, 0, &b->dy);
}

/* ---- activations --------------------------------------------------- */

void net_bwd_act_grad(const struct lowering *b)
{
    struct net_launch e = net_begin_launch(b->where, KERN_UNARY_DGRAD);

    if (b->chain->act < 0)
        return;
    e.p.attr.unary = b->n->g->node[b->chain->act].attr.unary;
    e.in[0] = b->dy;
    e.in[2] = b->y;
    e.out[0] = b->dy;
    net_launch(b->n, &e);
}

static void unary(const struct lowering *b)
{
    struct net_launch e = net_bwd_begin(b, KERN_UNARY_DGRAD);

    e.in[0] = b->dy;
    if (kern_unary_grad_from_output(&b->node->attr.unary))
        e.in[2] = b->y;
    else
        e.in[1] = input(b, 0, false);
    if (b->n->value[source(b, 0)].grad.t.dtype != INFER_NONE)
        net_bwd_dx(b, &e, 3);
    else
        net_bwd_in_place(b, &e);
}

/* ---- products ------------------------------------------------------ */

void net_bwd_bias(const struct lowering *b, int channel_axis)
{
    int64_t dim[KERN_MAX_RANK];
    struct view db;
    bool add;

    if (!trains(b, 2))
        return;
    for (int i = 0; i < b->dy.t.rank; i++)
        dim[i] = i == channel_axis ? b->dy.t.dim[i] : 1;
    db = net_grad_param(b->n, param(b, 2), &add);
    view_reshape(&db, b->dy.t.rank, dim, &db);
    net_sum(b->n, wgrad(b), &b->dy,
            ((1u << b->dy.t.rank) - 1) & ~(1u << channel_axis), &db, add);
}

/* Largest product (bytes of x and dz) that leaves much of a GPU idle. */
#define SMALL_BYTES (32 << 20)

/* No step of the backward pass reads a weight gradient: small ones run on the
 * side stream. All uses of one weight run on the same stream, in order. */
static bool runs_on_side(const struct lowering *b, const struct net_product *p)
{
    struct net_param *w = &b->n->param[param(b, 1)];

    if (!w->written)
        w->side = p->side && b->n->options.device->ops->branch &&
                  kern_tensor_span(&p->x.t) + kern_tensor_span(&p->dz.t) <=
                      SMALL_BYTES;
    return w->side;
}

void net_bwd_weights(const struct lowering *b, const struct net_product *p)
{
    struct net_launch e = net_begin_launch(wgrad(b), KERN_CONV_WGRAD);
    struct view dw;
    bool add;

    if (!trains(b, 1))
        return;
    e.side = runs_on_side(b, p);
    e.p.attr.conv = p->attr;
    e.in[0] = p->x;
    e.in[1] = p->dz;
    dw = net_grad_param(b->n, param(b, 1), &add);
    view_reshape(&dw, p->w.t.rank, p->w.t.dim, &e.out[0]);
    if (add)
        e.in[2] = e.out[0];
    net_set_point(b->n, &e,
                  p->turned ? PRODUCT_POINT_FIRST_IN : PRODUCT_POINT_IN, &p->w);
    net_launch(b->n, &e);
}

static void conv(const struct lowering *b)
{
    struct net_launch e = net_bwd_begin(b, KERN_CONV_DGRAD);
    const struct net_product p = {.attr = e.p.attr.conv,
                                  .x = input(b, 0, false),
                                  .w = input(b, 1, true),
                                  .dz = b->dy,
                                  .side = true};

    net_bwd_act_grad(b);
    net_bwd_bias(b, 1);
    net_bwd_weights(b, &p);
    if (!wants(b, 0))
        return;
    e.in[0] = p.dz;
    e.in[1] = p.w;
    net_set_point(b->n, &e, PRODUCT_POINT_IN, &p.x);
    net_bwd_dx(b, &e, 3);
}

/* A dense layer is a 1x1 convolution over one pixel. */
static void dense(const struct lowering *b)
{
    const struct view x = input(b, 0, false), w = input(b, 1, true);
    const struct net_product p = {.attr = net_pixel_conv(),
                                  .x = net_as_pixels(b->n, b->node, &x),
                                  .w = net_as_pixels(b->n, b->node, &w),
                                  .dz = net_as_pixels(b->n, b->node, &b->dy),
                                  .side = true};
    struct net_launch e = net_begin_launch(b->where, KERN_CONV_DGRAD);
    struct view dx;
    bool add;

    net_bwd_act_grad(b);
    net_bwd_bias(b, b->dy.t.rank - 1);
    net_bwd_weights(b, &p);
    if (!wants(b, 0))
        return;
    e.p.attr.conv = p.attr;
    e.in[0] = p.dz;
    e.in[1] = p.w;
    dx = net_grad_slot(b->n, source(b, 0), &add);
    e.out[0] = net_as_pixels(b->n, b->node, &dx);
    if (add)
        e.in[3] = e.out[0];
    net_set_point(b->n, &e, PRODUCT_POINT_IN, &p.x);
    net_launch(b->n, &e);
}

/* ---- normalisation ------------------------------------------------- */

static void lrn(const struct lowering *b)
{
    struct net_launch e = net_bwd_begin(b, KERN_LRN_DGRAD);

    e.in[0] = b->dy;
    e.in[1] = input(b, 0, false);
    net_bwd_dx(b, &e, 2);
}

/* ---- pooling and reductions ---------------------------------------- */

static void pool(const struct lowering *b)
{
    struct net_launch e = net_bwd_begin(b, KERN_POOL_DGRAD);

    e.in[0] = b->dy;
    if (e.p.attr.pool.kind == KERN_POOL_MAX)
        e.in[1] = input(b, 0, false);
    net_bwd_dx(b, &e, 2);
}

static bool reads_x(enum kern_reduce_kind kind)
{
    return kind != KERN_REDUCE_MEAN && kind != KERN_REDUCE_SUM;
}

static void reduce(const struct lowering *b)
{
    struct net_launch e = net_bwd_begin(b, KERN_REDUCE_DGRAD);

    view_reshape(&b->dy, e.p.out[0].rank, e.p.out[0].dim, &e.in[0]);
    if (reads_x(e.p.attr.reduce.kind))
        e.in[1] = input(b, 0, false);
    net_bwd_dx(b, &e, 2);
}

/* ---- dropout ------------------------------------------------------- */

/* The same random numbers as in the forward pass. */
static void dropout(const struct lowering *b)
{
    struct net_launch e = net_bwd_begin(b, KERN_DROPOUT);

    e.p.attr.dropout.stream = b->n->stream[b->where.node];
    e.in[0] = b->dy;
    e.in[1] = b->n->random;
    net_bwd_in_place(b, &e);
}

/* ---- all nodes ----------------------------------------------------- */

/* NULL: the operation cannot be trained. */
static net_rule *const rules[GRAPH_OP_COUNT] = {
    [GRAPH_CONV] = conv,
    [GRAPH_DENSE] = dense,
    [GRAPH_BATCH_NORM] = net_bwd_batch_norm,
    [GRAPH_POOL] = pool,
    [GRAPH_CONV_TRANSPOSE] = net_bwd_conv_transpose,
    [GRAPH_LAYER_NORM] = net_bwd_norm,
    [GRAPH_GROUP_NORM] = net_bwd_norm,
    [GRAPH_SCALE_SHIFT] = net_bwd_scale_shift,
    [GRAPH_PRELU] = net_bwd_prelu,
    [GRAPH_RESIZE] = net_bwd_resize,
    [GRAPH_UNARY] = unary,
    [GRAPH_BINARY] = net_bwd_binary,
    [GRAPH_LRN] = lrn,
    [GRAPH_PAD] = net_bwd_pad,
    [GRAPH_REDUCE] = reduce,
    [GRAPH_DROPOUT] = dropout,
    [GRAPH_RESHAPE] = net_bwd_reshape,
    [GRAPH_FLATTEN] = net_bwd_reshape,
    [GRAPH_SQUEEZE] = net_bwd_reshape,
    [GRAPH_UNSQUEEZE] = net_bwd_reshape,
    [GRAPH_CONCAT] = net_bwd_concat,
    [GRAPH_SLICE] = net_bwd_parts,
    [GRAPH_SPLIT] = net_bwd_parts,
    [GRAPH_TRANSPOSE] = net_bwd_transpose,
    [GRAPH_EXPAND] = net_bwd_expand,
    [GRAPH_TILE] = net_bwd_tile,
    [GRAPH_SOFTMAX] = net_bwd_softmax,
};

bool net_has_backward(const struct graph_node *node)
{
    const struct kern_pad *pad = &node->attr.pad;
    bool ok = rules[node->op] != NULL;

    if (node->op == GRAPH_BINARY)
        ok = net_bwd_has_binary(node->attr.binary.kind);
    if (node->op == GRAPH_REDUCE)
        ok = node->attr.reduce.kind != KERN_REDUCE_PROD;
    if (node->op == GRAPH_PAD)
        for (int i = 0; i < KERN_MAX_RANK; i++)
            ok = ok && pad->mode == KERN_PAD_CONSTANT && pad->begin[i] >= 0 &&
                 pad->end[i] >= 0;
    return ok;
}

/* True if any output has a gradient. */
static bool has_gradient(const struct net *n, const struct graph_node *node)
{
    for (int i = 0; i < node->n_out; i++) {
        const struct net_value *out = &n->value[node->out[i]];
        if (out->needs_grad && out->grad.t.dtype != INFER_NONE)
            return true;
    }
    return false;
}

void net_backward(struct net *n)
{
    int *order = NULL;
    const int count = net_bwd_order(n, &order);

    for (int k = 0; n->rc == 0 && k < count; k++) {
        const struct graph_node *end = &n->g->node[order[k]];
        const struct net_chain *c = &n->chain[order[k]];
        const struct net_value *out = &n->value[end->out[0]];
        const struct lowering b = {
            .n = n,
            .where = {NET_LIST_TRAIN, NET_DGRAD, c->head},
            .chain = c,
            .node = &n->g->node[c->head],
            .out = end->out[0],
            .y = out->view[0],
            .dy = out->grad};

        if (has_gradient(n, end))
            rules[b.node->op](&b);
    }
    free(order);
}
