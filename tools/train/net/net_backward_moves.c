/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of nodes that move data: the same views, copied in the opposite
 * direction. */
#include "tools/train/net/net_rules.h"

void net_bwd_reshape(const struct lowering *b)
{
    const struct view x = input(b, 0, false);
    const struct view g = net_reshape(b->n, b->node, &b->dy, x.t.rank, x.t.dim,
                                      "its gradient is scattered");

    net_bwd_give(b, 0, &g);
}

/* The part of dy that is the gradient of input i. */
static struct view place_of(const struct lowering *b, int i, int64_t *at)
{
    struct view part;

    net_check(b->n, problem_place(b->n->g, b->node, i, &b->dy, at,
                                  net_err(b->n), &part));
    return part;
}

void net_bwd_concat(const struct lowering *b)
{
    int64_t at = 0;

    for (int i = 0; b->n->rc == 0 && i < b->node->n_in; i++) {
        const struct view part = place_of(b, i, &at);

        net_grad_add(b->n, b->where.node, b->node->in[i], &part);
    }
}

void net_bwd_pad(const struct lowering *b)
{
    int64_t at = 0;
    const struct view g = place_of(b, 0, &at);

    net_bwd_give(b, 0, &g);
}

/* Elements outside a slice have gradient 0, and so have outputs of a split
 * without a reader. */
void net_bwd_parts(const struct lowering *b)
{
    bool add;
    const struct view whole = net_grad_slot(b->n, source(b, 0), &add);
    int64_t at = 0;

    if (b->node->op == GRAPH_SLICE && !add)
        net_fill_zero(b->n, b->where, &whole);
    for (int i = 0; b->n->rc == 0 && i < b->node->n_out; i++) {
        const struct net_value *out = &b->n->value[b->node->out[i]];
        struct view part;

        net_check(b->n, problem_part(b->n->g, b->node, i, &whole, &at,
                                     net_err(b->n), &part));
        if (out->grad.t.dtype != INFER_NONE)
            net_grad_put(b->n, b->where.node, &part, &out->grad, add);
        else if (!add)
            net_fill_zero(b->n, b->where, &part);
    }
}

void net_bwd_transpose(const struct lowering *b)
{
    int64_t order[KERN_MAX_RANK], inverse[KERN_MAX_RANK];
    struct view g;

    problem_transpose_order(b->node, b->dy.t.rank, order);
    for (int i = 0; i < b->dy.t.rank; i++)
        inverse[order[i]] = i;
    g = view_permute(&b->dy, inverse);
    net_bwd_give(b, 0, &g);
}

void net_bwd_expand(const struct lowering *b)
{
    net_bwd_unbroadcast(b, 0, &b->dy, true);
}

/* The sum over the repetitions. */
void net_bwd_tile(const struct lowering *b)
{
    struct view one = input(b, 0, false), parts = b->dy;

    net_tile_views(b->n, b->node, &parts, &one);
    if (net_bwd_axes(&parts, one.t.dim) == 0)
        net_bwd_give(b, 0, &b->dy);
    else
        net_bwd_give_sum(b, 0, &parts, one.t.dim, KERN_NCHW,
                         "its repetition cannot be undone");
}
