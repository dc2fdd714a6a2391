/* SPDX-License-Identifier: Apache-2.0 */
/* The loss, whose gradient starts the backward pass, and the update of all
 * parameters. */
#include "tools/train/net/net.h"

#include <string.h>

#include "kernels/base/error.h"

int net_loss(struct net *n, int list, struct infer_error *err)
{
    const bool train = list == NET_LIST_TRAIN;
    const struct net_options *o = &n->options;
    struct net_value *v = &n->value[n->logits];
    struct net_emit e;
    bool add;
    int rc = 0;

    net_emit_begin(&e, list, KERN_CROSS_ENTROPY, NET_LOSS, -1);
    e.p.attr.cross_entropy.smoothing = train ? o->smoothing : 0;
    e.p.attr.cross_entropy.scale =
        (float)(1 / ((double)o->batch * o->accumulate * net_ranks(n)));
    e.in[0] = v->view[!train];
    e.in[1] = n->label;
    e.out[0] = n->loss;
    e.out[2] = n->hit;
    if (train) {
        e.in[2] = n->state;
        rc = net_grad_slot(n, n->logits, err, &e.out[1], &add);
    }
    return rc < 0 ? rc : net_emit(n, &e, err);
}

/* A range of a flat array. */
static struct view range(const struct net *n, enum net_memory memory,
                         enum infer_dtype dtype, int64_t from, int64_t to)
{
    const int64_t count = to - from;
    struct view v;

    memset(&v, 0, sizeof(v));
    if (n->flat[memory] < 0)
        return v;
    v.buffer = n->flat[memory];
    v.offset = from;
    v.t = kern_tensor_dense(dtype, 1, &count, KERN_NCHW);
    return v;
}

static int update_range(struct net *n, enum net_role role,
                        struct infer_error *err)
{
    const struct net_options *o = &n->options;
    const int64_t from = n->role_begin[role], to = n->role_begin[role + 1];
    struct net_emit e;

    if (from == to)
        return 0;
    net_emit_begin(&e, NET_LIST_UPDATE, KERN_UPDATE, NET_STEP, -1);
    e.p.attr.update = o->rule;
    if (role != NET_DECAY)
        e.p.attr.update.decay = 0;
    e.in[0] = range(n, NET_WEIGHTS, INFER_F32, from, to);
    e.in[1] = range(n, NET_GRADS, INFER_F32, from, to);
    e.in[2] = n->rate;
    e.in[3] = n->state;
    e.in[4] = range(n, NET_M, INFER_F32, from, to);
    e.in[5] = range(n, NET_V, INFER_F32, from, to);
    e.in[6] = range(n, NET_AVERAGE, INFER_F32, from, to);
    e.out[KERN_UPDATE_W] = e.in[0];
    e.out[KERN_UPDATE_M] = e.in[4];
    e.out[KERN_UPDATE_V] = e.in[5];
    e.out[KERN_UPDATE_AVERAGE] = e.in[6];
    e.out[KERN_UPDATE_COPY] = range(n, NET_HALF, o->dtype, from, to);
    return net_emit(n, &e, err);
}

/* The norm of all gradients: a step with one that is not finite is skipped; a
 * larger one than allowed clips. */
static int norm_and_step(struct net *n, struct infer_error *err)
{
    struct net_emit e;
    int rc;

    net_emit_begin(&e, NET_LIST_UPDATE, KERN_REDUCE, NET_STEP, -1);
    e.p.attr.reduce.kind = KERN_REDUCE_L2;
    e.p.attr.reduce.axes = 1;
    e.in[0] = range(n, NET_GRADS, INFER_F32, 0, n->role_begin[NET_FROZEN]);
    e.out[0] = n->norm;
    rc = net_emit(n, &e, err);
    if (rc < 0)
        return rc;
    net_emit_begin(&e, NET_LIST_UPDATE, KERN_STEP, NET_STEP, -1);
    e.p.attr.step = n->options.step;
    e.in[0] = n->norm;
    e.in[1] = n->state;
    e.out[0] = n->state;
    return net_emit(n, &e, err);
}

int net_make_update(struct net *n, struct infer_error *err)
{
    const int64_t all = n->role_begin[NET_ROLES];
    struct view to;
    int rc = 0;

    if (n->options.accumulate > 1) {
        to = range(n, NET_GRADS, INFER_F32, 0, n->role_begin[NET_FROZEN]);
        rc = net_fill_zero(n, NET_LIST_CLEAR, -1, &to, err);
    }
    if (rc == 0 && n->flat[NET_HALF] >= 0) {
        const struct view from = range(n, NET_WEIGHTS, INFER_F32, 0, all);

        to = range(n, NET_HALF, n->options.dtype, 0, all);
        rc = net_copy(n, NET_LIST_HALF, NET_STEP, -1, &from, &to, err);
    }
    if (rc == 0)
        rc = norm_and_step(n, err);
    if (rc == 0)
        rc = update_range(n, NET_DECAY, err);
    return rc < 0 ? rc : update_range(n, NET_PLAIN, err);
}
