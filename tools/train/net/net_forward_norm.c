/* SPDX-License-Identifier: Apache-2.0 */
/* Batch normalisation in the forward pass, and the bit mask of its ReLU. */
#include "tools/train/net/net_forward.h"

#include <string.h>

/* ---- batch norm ---------------------------------------------------- */

/* The gradient of ReLU reads only which elements of y are above 0. The forward
 * pass writes a bit mask of them if the rows of both passes stay the same with
 * it. e: the forward pass. */
static int keep_signs(const struct forward *f, struct net_emit *e)
{
    struct net *n = f->n;
    const int act = f->chain->act;
    struct view *signs = &n->signs[e->node];
    struct net_emit with = *e, without = *e, by_y, by_sign;
    struct kern_tensor t = e->out[0].t;
    int rc;

    if (act < 0 || n->g->node[act].attr.unary.kind != KERN_RELU ||
        t.dim[1] % 8 != 0 || !n->value[f->out].needs_grad)
        return 0;
    t.dim[1] /= 8;
    rc = net_tensor(n, NET_TRAIN, INFER_U8, t.rank, t.dim, NET_LAYOUT, f->err,
                    signs);
    if (rc < 0)
        return rc;
    with.out[5] = *signs;
    net_batch_norm_dgrad(n, f->chain, &e->out[0], &e->out[0], false, &by_y);
    net_batch_norm_dgrad(n, f->chain, &e->out[0], &e->out[0], true, &by_sign);
    by_y.out[0] = by_sign.out[0] = e->out[0];
    by_y.out[1] = by_y.out[2] = by_sign.out[1] = by_sign.out[2] = e->in[1];
    if (net_row(n, &with) == net_row(n, &without) &&
        net_row(n, &by_sign) == net_row(n, &by_y))
        e->out[5] = *signs;
    else
        signs->t.dtype = INFER_NONE;
    return 0;
}

/* Statistics of the batch in training; running statistics are updated in place.
 */
static int norm_of_batch(const struct forward *f, struct net_emit *e)
{
    struct net *n = f->n;
    const int at = e->node;
    const int64_t channels = e->in[0].t.dim[1];
    const enum infer_dtype type = e->in[1].t.dtype;
    int rc;

    e->p.attr.norm.momentum = n->options.bn_momentum;
    rc = net_tensor(n, NET_TRAIN, type, 1, &channels, KERN_NCHW, f->err,
                    &n->mean[at]);
    if (rc == 0)
        rc = net_tensor(n, NET_TRAIN, type, 1, &channels, KERN_NCHW, f->err,
                        &n->deviation[at]);
    if (rc < 0)
        return rc;
    e->out[1] = n->mean[at];
    e->out[2] = n->deviation[at];
    e->out[3] = e->in[3];
    e->out[4] = e->in[4];
    rc = net_fwd_make(f, f->out, &e->out[0]);
    if (rc == 0)
        rc = keep_signs(f, e);
    return rc < 0 ? rc : net_emit(n, e, f->err);
}

/* The same where the batch is that of all processes. */
static int norm_of_all(const struct forward *f, struct net_emit *e)
{
    const int rc = net_fwd_make(f, f->out, &e->out[0]);

    return rc < 0 ? rc : net_sync_norm(f->n, e, f->err);
}

int net_fwd_batch_norm(const struct forward *f)
{
    const bool train =
        f->list == NET_LIST_TRAIN && !net_norm_is_frozen(f->n, f->node);
    struct net_emit e;

    const int rc = net_fwd_begin(f, &e);

    if (rc < 0)
        return rc;
    if (train)
        e.p.op = KERN_BATCH_NORM_TRAIN;
    e.in[5] = net_operand(f->n, f->list, f->chain->residual, false);
    if (!train)
        return net_fwd_finish(f, &e);
    e.in[6] = f->n->value[f->node->in[0]].moments;
    return net_syncs_norms(f->n) ? norm_of_all(f, &e) : norm_of_batch(f, &e);
}
