/* SPDX-License-Identifier: Apache-2.0 */
/* The backward pass: for every chain, in reverse order, the launches that
 * compute the gradients of its inputs and parameters from that of its output.
 */
#include "tools/train/net/net_backward.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"

int net_bwd_begin(const struct backward *b, enum kern_op op, struct net_emit *e)
{
    int rc;

    begin(b, op, NET_DGRAD, e);
    rc = problem_of_node(b->n->g, b->node, b->err, &e->p, NULL);
    e->p.op = op;
    return rc;
}

int net_bwd_dx(const struct backward *b, struct net_emit *e, int plus)
{
    bool add;
    int rc = net_grad_slot(b->n, source(b, 0), b->err, &e->out[0], &add);

    if (rc < 0)
        return rc;
    if (add)
        e->in[plus] = e->out[0];
    return net_emit(b->n, e, b->err);
}

/* ---- activations --------------------------------------------------- */

int net_bwd_act_grad(const struct backward *b)
{
    struct net_emit e;

    if (b->chain->act < 0)
        return 0;
    begin(b, KERN_UNARY_DGRAD, NET_DGRAD, &e);
    e.p.attr.unary = b->n->g->node[b->chain->act].attr.unary;
    e.in[0] = b->dy;
    e.in[2] = b->y;
    e.out[0] = b->dy;
    return net_emit(b->n, &e, b->err);
}

static int unary(const struct backward *b)
{
    const int x = source(b, 0);
    struct net_emit e;

    begin(b, KERN_UNARY_DGRAD, NET_DGRAD, &e);
    e.p.attr.unary = b->node->attr.unary;
    e.in[0] = b->dy;
    if (kern_unary_grad_from_output(&b->node->attr.unary))
        e.in[2] = b->y;
    else
        e.in[1] = input(b, 0, false);
    if (b->n->value[x].grad.t.dtype != INFER_NONE)
        return net_bwd_dx(b, &e, 3);
    e.out[0] = b->dy;
    int rc = net_emit(b->n, &e, b->err);
    return rc < 0 ? rc : net_grad_give(b->n, b->at, x, &b->dy, b->err);
}

/* ---- products ------------------------------------------------------ */

int net_bwd_bias(const struct backward *b, int channel_axis)
{
    int64_t dim[KERN_MAX_RANK];
    struct net_emit e;
    struct view db;
    bool add;

    if (!trains(b, 2))
        return 0;
    begin(b, KERN_REDUCE, NET_WGRAD, &e);
    e.p.attr.reduce.kind = KERN_REDUCE_SUM;
    for (int i = 0; i < b->dy.t.rank; i++) {
        dim[i] = i == channel_axis ? b->dy.t.dim[i] : 1;
        if (i != channel_axis)
            e.p.attr.reduce.axes |= 1u << i;
    }
    db = net_grad_param(b->n, param(b, 2), &add);
    view_reshape(&db, b->dy.t.rank, dim, &e.out[0]);
    e.in[0] = b->dy;
    if (add)
        e.in[1] = e.out[0];
    return net_emit(b->n, &e, b->err);
}

/* The operands of a convolution's dgrad and wgrad. */
struct product {
    struct kern_conv attr;
    struct view x, w, dz;
};

/* Largest product (bytes of x and dz) that leaves much of a GPU idle. */
#define SMALL_BYTES (32 << 20)

/* No step of the backward pass reads a weight gradient: small ones run on the
 * side stream. All uses of one weight run on the same stream, in order. */
static bool runs_on_side(const struct backward *b, const struct product *p)
{
    struct net_param *w = &b->n->param[param(b, 1)];

    if (!w->written)
        w->side = b->n->options.device->ops->branch &&
                  kern_tensor_span(&p->x.t) + kern_tensor_span(&p->dz.t) <=
                      SMALL_BYTES;
    return w->side;
}

static int weight_grad(const struct backward *b, const struct product *p)
{
    struct net_emit e;
    struct view dw;
    bool add;

    if (!trains(b, 1))
        return 0;
    begin(b, KERN_CONV_WGRAD, NET_WGRAD, &e);
    e.side = runs_on_side(b, p);
    e.p.attr.conv = p->attr;
    e.in[0] = p->x;
    e.in[1] = p->dz;
    dw = net_grad_param(b->n, param(b, 1), &add);
    view_reshape(&dw, p->w.t.rank, p->w.t.dim, &e.out[0]);
    if (add)
        e.in[2] = e.out[0];
    return net_emit(b->n, &e, b->err);
}

static int conv(const struct backward *b)
{
    struct product p = {
        .x = input(b, 0, false), .w = input(b, 1, true), .dz = b->dy};
    struct net_emit e;
    int rc = net_bwd_begin(b, KERN_CONV_DGRAD, &e);

    p.attr = e.p.attr.conv;
    if (rc == 0)
        rc = net_bwd_act_grad(b);
    if (rc == 0)
        rc = net_bwd_bias(b, 1);
    if (rc == 0)
        rc = weight_grad(b, &p);
    if (rc < 0 || !wants(b, 0))
        return rc;
    e.in[0] = p.dz;
    e.in[1] = p.w;
    return net_bwd_dx(b, &e, 3);
}

static int as_pixels(const struct backward *b, const struct view *v,
                     struct view *out)
{
    return net_as_pixels(b->node, v, b->err, out);
}

/* A dense layer is a 1x1 convolution over one pixel. */
static int dense(const struct backward *b)
{
    const struct view x = input(b, 0, false), w = input(b, 1, true);
    struct product p = {.attr = net_pixel_conv()};
    struct view dx;
    struct net_emit e;
    bool add;
    int rc = as_pixels(b, &x, &p.x);

    if (rc == 0)
        rc = as_pixels(b, &w, &p.w);
    if (rc == 0)
        rc = as_pixels(b, &b->dy, &p.dz);
    if (rc == 0)
        rc = net_bwd_act_grad(b);
    if (rc == 0)
        rc = net_bwd_bias(b, b->dy.t.rank - 1);
    if (rc == 0)
        rc = weight_grad(b, &p);
    if (rc < 0 || !wants(b, 0))
        return rc;
    begin(b, KERN_CONV_DGRAD, NET_DGRAD, &e);
    e.p.attr.conv = p.attr;
    e.in[0] = p.dz;
    e.in[1] = p.w;
    rc = net_grad_slot(b->n, source(b, 0), b->err, &dx, &add);
    if (rc == 0)
        rc = as_pixels(b, &dx, &e.out[0]);
    if (rc == 0 && add)
        e.in[3] = e.out[0];
    return rc < 0 ? rc : net_emit(b->n, &e, b->err);
}

/* ---- normalisation ------------------------------------------------- */

static int lrn(const struct backward *b)
{
    struct net_emit e;
    const int rc = net_bwd_begin(b, KERN_LRN_DGRAD, &e);

    e.in[0] = b->dy;
    e.in[1] = input(b, 0, false);
    return rc < 0 ? rc : net_bwd_dx(b, &e, 2);
}

/* ---- pooling and reductions ---------------------------------------- */

static int pool(const struct backward *b)
{
    struct net_emit e;
    const int rc = net_bwd_begin(b, KERN_POOL_DGRAD, &e);

    e.in[0] = b->dy;
    if (e.p.attr.pool.kind == KERN_POOL_MAX)
        e.in[1] = input(b, 0, false);
    return rc < 0 ? rc : net_bwd_dx(b, &e, 2);
}

static bool reads_x(enum kern_reduce_kind kind)
{
    return kind != KERN_REDUCE_MEAN && kind != KERN_REDUCE_SUM;
}

static int reduce(const struct backward *b)
{
    const struct view x = input(b, 0, false);
    struct net_emit e;
    const int rc = net_bwd_begin(b, KERN_REDUCE_DGRAD, &e);

    if (rc < 0)
        return rc;
    view_reshape(&b->dy, e.p.out[0].rank, e.p.out[0].dim, &e.in[0]);
    if (reads_x(e.p.attr.reduce.kind))
        e.in[1] = x;
    return net_bwd_dx(b, &e, 2);
}

/* ---- dropout ------------------------------------------------------- */

/* The same random numbers as in the forward pass. */
static int dropout(const struct backward *b)
{
    struct net_emit e;
    int rc = net_bwd_begin(b, KERN_DROPOUT, &e);

    e.p.attr.dropout.stream = b->n->stream[b->at];
    e.in[0] = b->dy;
    e.in[1] = b->n->random;
    e.out[0] = b->dy;
    if (rc == 0)
        rc = net_emit(b->n, &e, b->err);
    return rc < 0 ? rc
                  : net_grad_give(b->n, b->at, source(b, 0), &b->dy, b->err);
}

/* ---- all nodes ----------------------------------------------------- */

static int (*rule(const struct graph_node *node))(const struct backward *)
{
    switch (node->op) {
    case GRAPH_CONV:
        return conv;
    case GRAPH_DENSE:
        return dense;
    case GRAPH_BATCH_NORM:
        return net_bwd_batch_norm;
    case GRAPH_POOL:
        return pool;
    case GRAPH_CONV_TRANSPOSE:
        return net_bwd_conv_transpose;
    case GRAPH_LAYER_NORM:
    case GRAPH_GROUP_NORM:
        return net_bwd_norm;
    case GRAPH_SCALE_SHIFT:
        return net_bwd_scale_shift;
    case GRAPH_PRELU:
        return net_bwd_prelu;
    case GRAPH_RESIZE:
        return net_bwd_resize;
    case GRAPH_UNARY:
        return unary;
    case GRAPH_BINARY:
        return node->attr.binary.kind <= KERN_DIV ||
                       node->attr.binary.kind == KERN_MIN ||
                       node->attr.binary.kind == KERN_MAX
                   ? net_bwd_binary
                   : NULL;
    case GRAPH_LRN:
        return lrn;
    case GRAPH_PAD:
        for (int i = 0; i < KERN_MAX_RANK; i++)
            if (node->attr.pad.begin[i] < 0 || node->attr.pad.end[i] < 0)
                return NULL;
        return node->attr.pad.mode == KERN_PAD_CONSTANT ? net_bwd_pad : NULL;
    case GRAPH_REDUCE:
        return node->attr.reduce.kind == KERN_REDUCE_PROD ? NULL : reduce;
    case GRAPH_DROPOUT:
        return dropout;
    case GRAPH_RESHAPE:
    case GRAPH_FLATTEN:
    case GRAPH_SQUEEZE:
    case GRAPH_UNSQUEEZE:
        return net_bwd_reshape;
    case GRAPH_CONCAT:
        return net_bwd_concat;
    case GRAPH_SLICE:
        return net_bwd_slice;
    case GRAPH_SPLIT:
        return net_bwd_split;
    case GRAPH_TRANSPOSE:
        return net_bwd_transpose;
    case GRAPH_EXPAND:
        return net_bwd_expand;
    case GRAPH_TILE:
        return net_bwd_tile;
    case GRAPH_SOFTMAX:
        return net_bwd_softmax;
    default:
        return NULL;
    }
}

bool net_has_backward(const struct graph_node *node)
{
    return rule(node) != NULL;
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

/* Emits the gradients of the chain that node i ends. */
static int lower_backward(struct net *n, int i, struct infer_error *err)
{
    const struct net_chain *c = &n->chain[i];
    const struct net_value *out = &n->value[n->g->node[i].out[0]];
    const struct backward b = {.n = n,
                               .chain = c,
                               .node = &n->g->node[c->head],
                               .at = c->head,
                               .y = out->view[0],
                               .dy = out->grad,
                               .err = err};

    return has_gradient(n, &n->g->node[i]) ? rule(b.node)(&b) : 0;
}

int net_backward(struct net *n, struct infer_error *err)
{
    int *order = NULL;
    const int count = net_bwd_order(n, err, &order);
    int rc = count < 0 ? count : 0;

    for (int k = 0; rc == 0 && k < count; k++)
        rc = lower_backward(n, order[k], err);
    free(order);
    return rc;
}
