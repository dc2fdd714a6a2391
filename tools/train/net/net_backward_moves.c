/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of nodes that move data: the same views, copied in the opposite
 * direction. */
#include "tools/train/net/net_backward.h"

#include "kernels/base/error.h"
#include "libinfer/graph/ops/op.h"

int net_bwd_reshape(const struct backward *b)
{
    const struct view x = input(b, 0, false);
    struct view g;

    if (!view_reshape(&b->dy, x.t.rank, x.t.dim, &g))
        return error_set(b->err, INFER_EUNSUPPORTED,
                         "node '%s': its gradient is scattered", b->node->name);
    return net_grad_give(b->n, b->at, source(b, 0), &g, b->err);
}

int net_bwd_concat(const struct backward *b)
{
    int64_t at = 0;
    int axis,
        rc = op_axis(b->node->attr.axis.axis, b->dy.t.rank, &axis, b->err);

    for (int i = 0; rc == 0 && i < b->node->n_in; i++) {
        const int64_t size = input(b, i, false).t.dim[axis];
        const struct view part = view_slice(&b->dy, axis, at, 1, size);

        at += size;
        rc = net_grad_add(b->n, b->at, b->node->in[i], &part, b->err);
    }
    return rc;
}

/* Elements outside the slice have gradient 0. */
int net_bwd_slice(const struct backward *b)
{
    struct view whole, part;
    bool add;
    int rc = net_grad_slot(b->n, source(b, 0), b->err, &whole, &add);

    if (rc == 0 && !add)
        rc = net_fill_zero(b->n, NET_LIST_TRAIN, b->at, &whole, b->err);
    if (rc == 0)
        rc = problem_slice(b->node, &whole, b->err, &part);
    if (rc < 0)
        return rc;
    if (!add)
        return net_copy(b->n, NET_LIST_TRAIN, NET_DGRAD, b->at, &b->dy, &part,
                        b->err);
    return net_grad_sum(b->n, b->at, &part, &b->dy, b->err);
}

int net_bwd_pad(const struct backward *b)
{
    const struct kern_pad *a = &b->node->attr.pad;
    const struct view x = input(b, 0, false);
    struct view g = b->dy;

    for (int i = 0; i < x.t.rank; i++)
        g = view_slice(&g, i, a->begin[i], 1, x.t.dim[i]);
    return net_grad_give(b->n, b->at, source(b, 0), &g, b->err);
}

/* Outputs without a reader have gradient 0. */
int net_bwd_split(const struct backward *b)
{
    const struct graph_node *node = b->node;
    struct view whole;
    int64_t at = 0;
    bool add;
    int axis, rc = op_axis(node->attr.split.axis,
                           b->n->g->value[node->in[0]].rank, &axis, b->err);

    if (rc == 0)
        rc = net_grad_slot(b->n, source(b, 0), b->err, &whole, &add);
    for (int i = 0; rc == 0 && i < node->n_out; i++) {
        const struct net_value *out = &b->n->value[node->out[i]];
        const int64_t size = b->n->g->value[node->out[i]].dim[axis];
        const struct view part = view_slice(&whole, axis, at, 1, size);

        at += size;
        if (out->grad.t.dtype == INFER_NONE)
            rc =
                add ? 0
                    : net_fill_zero(b->n, NET_LIST_TRAIN, b->at, &part, b->err);
        else if (add)
            rc = net_grad_sum(b->n, b->at, &part, &out->grad, b->err);
        else
            rc = net_copy(b->n, NET_LIST_TRAIN, NET_DGRAD, b->at, &out->grad,
                          &part, b->err);
    }
    return rc;
}

int net_bwd_transpose(const struct backward *b)
{
    int64_t order[KERN_MAX_RANK], inverse[KERN_MAX_RANK];
    struct view g;

    problem_transpose_order(b->node, b->dy.t.rank, order);
    for (int i = 0; i < b->dy.t.rank; i++)
        inverse[order[i]] = i;
    g = view_permute(&b->dy, inverse);
    return net_grad_give(b->n, b->at, source(b, 0), &g, b->err);
}

int net_bwd_expand(const struct backward *b)
{
    return net_bwd_unbroadcast(b, 0, &b->dy, true);
}

/* The sum over the repetitions. */
int net_bwd_tile(const struct backward *b)
{
    const struct view x = input(b, 0, false);
    struct view ones, parts, sum;
    struct net_emit e;
    int rc;

    begin(b, KERN_REDUCE, NET_DGRAD, &e);
    e.p.attr.reduce.kind = KERN_REDUCE_SUM;
    rc = net_tile_views(b->node, &b->dy, &x, b->err, &parts, &ones);
    if (rc < 0)
        return rc;
    for (int i = 0; i < parts.t.rank; i++)
        if (ones.t.dim[i] != parts.t.dim[i])
            e.p.attr.reduce.axes |= 1u << i;
    if (e.p.attr.reduce.axes == 0)
        return net_grad_give(b->n, b->at, source(b, 0), &b->dy, b->err);
    e.in[0] = parts;
    rc = net_tensor(b->n, NET_TRAIN, b->dy.t.dtype, parts.t.rank, ones.t.dim,
                    KERN_NCHW, b->err, &e.out[0]);
    if (rc == 0)
        rc = net_emit(b->n, &e, b->err);
    if (rc < 0)
        return rc;
    if (!view_reshape(&e.out[0], x.t.rank, x.t.dim, &sum))
        return error_set(b->err, INFER_EUNSUPPORTED,
                         "node '%s': its repetition cannot be undone",
                         b->node->name);
    return net_grad_give(b->n, b->at, source(b, 0), &sum, b->err);
}
