/* SPDX-License-Identifier: Apache-2.0 */
/* The loss, whose gradient starts the backward pass, and the update of all
 * parameters. */
#include "tools/train/net/net.h"

void net_loss(struct net *n, int list)
{
    const bool train = list == NET_LIST_TRAIN;
    const struct net_where where = {list, NET_LOSS, -1};
    const struct net_options *o = &n->options;
    struct net_launch e = net_begin_launch(where, KERN_CROSS_ENTROPY);
    bool add;

    e.p.attr.cross_entropy.smoothing = train ? o->smoothing : 0;
    e.p.attr.cross_entropy.scale =
        (float)(1 / ((double)o->batch * o->accumulate * net_ranks(n)));
    e.in[0] = n->value[n->logits].view[!train];
    e.in[1] = n->label;
    e.out[0] = n->loss;
    e.out[2] = n->hit;
    if (train) {
        e.in[2] = n->state;
        e.out[1] = net_grad_slot(n, n->logits, &add);
    }
    net_launch(n, &e);
}

static struct net_launch begin(enum kern_op op)
{
    return net_begin_launch((struct net_where){NET_LIST_UPDATE, NET_STEP, -1},
                            op);
}

static void update_range(struct net *n, enum net_role role)
{
    const struct net_options *o = &n->options;
    const int64_t from = n->role_begin[role], to = n->role_begin[role + 1];
    struct net_launch e = begin(KERN_UPDATE);

    if (from == to)
        return;
    e.p.attr.update = o->rule;
    if (role != NET_DECAY)
        e.p.attr.update.decay = 0;
    e.in[0] = net_range(n, NET_WEIGHTS, INFER_F32, from, to);
    e.in[1] = net_range(n, NET_GRADS, INFER_F32, from, to);
    e.in[2] = n->rate;
    e.in[3] = n->state;
    e.in[4] = net_range(n, NET_M, INFER_F32, from, to);
    e.in[5] = net_range(n, NET_V, INFER_F32, from, to);
    e.in[6] = net_range(n, NET_AVERAGE, INFER_F32, from, to);
    e.out[KERN_UPDATE_W] = e.in[0];
    e.out[KERN_UPDATE_M] = e.in[4];
    e.out[KERN_UPDATE_V] = e.in[5];
    e.out[KERN_UPDATE_AVERAGE] = e.in[6];
    e.out[KERN_UPDATE_COPY] = net_range(n, NET_HALF, o->dtype, from, to);
    net_launch(n, &e);
}

/* The norm of all gradients: a step with one that is not finite is skipped; a
 * larger one than allowed clips. */
static void norm_and_step(struct net *n)
{
    struct net_launch norm = begin(KERN_REDUCE), step = begin(KERN_STEP);

    norm.p.attr.reduce.kind = KERN_REDUCE_L2;
    norm.p.attr.reduce.axes = 1;
    norm.in[0] =
        net_range(n, NET_GRADS, INFER_F32, 0, n->role_begin[NET_FROZEN]);
    norm.out[0] = n->norm;
    net_launch(n, &norm);
    step.p.attr.step = n->options.step;
    step.in[0] = n->norm;
    step.in[1] = n->state;
    step.out[0] = n->state;
    net_launch(n, &step);
}

void net_make_update(struct net *n)
{
    const struct net_where clear = {NET_LIST_CLEAR, NET_DGRAD, -1};
    const struct net_where half = {NET_LIST_HALF, NET_STEP, -1};
    const int64_t all = n->role_begin[NET_ROLES];
    struct view from, to;

    if (n->options.accumulate > 1) {
        to = net_range(n, NET_GRADS, INFER_F32, 0, n->role_begin[NET_FROZEN]);
        net_fill_zero(n, clear, &to);
    }
    if (n->flat[NET_HALF] >= 0) {
        from = net_range(n, NET_WEIGHTS, INFER_F32, 0, all);
        to = net_range(n, NET_HALF, n->options.dtype, 0, all);
        net_copy(n, half, &from, &to);
    }
    norm_and_step(n);
    update_range(n, NET_DECAY);
    update_range(n, NET_PLAIN);
}
