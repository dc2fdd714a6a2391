/* SPDX-License-Identifier: Apache-2.0 */
/* Batch normalisation in the forward pass, and the bit mask of its ReLU. */
#include "tools/train/net/net_rules.h"

/* The gradient of ReLU reads only which elements of y are above 0. The forward
 * pass writes a bit mask of them if the rows of both passes stay the same with
 * it. e: the forward pass. */
static void keep_mask(const struct lowering *f, struct net_launch *e)
{
    struct net *n = f->n;
    const int act = f->chain->act;
    struct view *mask = &n->relu_mask[f->where.node];
    struct net_launch with = *e, without = *e, by_y, by_mask;
    struct kern_tensor t = e->out[0].t;

    if (act < 0 || n->g->node[act].attr.unary.kind != KERN_RELU ||
        t.dim[1] % 8 != 0 || !n->value[f->out].needs_grad)
        return;
    t.dim[1] /= 8;
    *mask = net_tensor(n, NET_TRAIN, INFER_U8, t.rank, t.dim, NET_LAYOUT);
    with.out[5] = *mask;
    by_y = net_batch_norm_dgrad(n, f->chain, &e->out[0], &e->out[0], false);
    by_mask = net_batch_norm_dgrad(n, f->chain, &e->out[0], &e->out[0], true);
    by_y.out[0] = by_mask.out[0] = e->out[0];
    by_y.out[1] = by_y.out[2] = by_mask.out[1] = by_mask.out[2] = e->in[1];
    if (net_row(n, &with) == net_row(n, &without) &&
        net_row(n, &by_mask) == net_row(n, &by_y))
        e->out[5] = *mask;
    else
        mask->t.dtype = INFER_NONE;
}

/* Statistics of the batch in training; running statistics are updated in place.
 */
static void norm_of_batch(const struct lowering *f, struct net_launch *e)
{
    struct net *n = f->n;
    const int at = f->where.node;
    const int64_t channels = e->in[0].t.dim[1];
    const enum infer_dtype type = e->in[1].t.dtype;

    e->p.attr.norm.momentum = n->options.bn_momentum;
    e->out[1] = n->mean[at] = net_vector(n, NET_TRAIN, type, channels);
    e->out[2] = n->deviation[at] = net_vector(n, NET_TRAIN, type, channels);
    e->out[3] = e->in[3];
    e->out[4] = e->in[4];
    e->out[0] = net_fwd_make(f, f->out);
    keep_mask(f, e);
    net_launch(n, e);
}

/* The same where the batch is that of all processes. */
static void norm_of_all(const struct lowering *f, struct net_launch *e)
{
    e->out[0] = net_fwd_make(f, f->out);
    net_sync_norm(f->n, e);
}

void net_fwd_batch_norm(const struct lowering *f)
{
    const bool train =
        f->where.list == NET_LIST_TRAIN && !net_norm_is_frozen(f->n, f->node);
    struct net_launch e = net_fwd_begin(f);

    e.in[5] = net_operand(f->n, f->where.list, f->chain->residual, false);
    if (!train) {
        net_fwd_finish(f, &e);
        return;
    }
    e.p.op = KERN_BATCH_NORM_TRAIN;
    e.in[6] = f->n->value[f->node->in[0]].bn_stats;
    (net_syncs_norms(f->n) ? norm_of_all : norm_of_batch)(f, &e);
}
