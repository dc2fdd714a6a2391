/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Partial statistics (kernels/bn_stats.h) that a convolution writes for the
 * batch norm after it: asked for if they save the batch norm more time than
 * they cost the convolution.  Both launches are measured with and without;
 * without a tuner estimates decide.
 */
#include "tools/train/net/net.h"

#include <string.h>

#include "kernels/bn_stats.h"

/* The batch norm in training that is the value's only reader; -1: none. */
static int norm_after(const struct net *n, int value)
{
    const int user = graph_single_user(n->g, value);
    const bool fits = user >= 0 && n->g->node[user].op == GRAPH_BATCH_NORM &&
                      n->g->node[user].in[0] == value &&
                      !net_norm_is_frozen(n, &n->g->node[user]);

    return fits ? user : -1;
}

/* True if the statistics cost the convolution less time than the batch norm
 * saves by not reading its input, at an H200's bandwidth. A row without an
 * estimate is as fast with them as without. */
static bool pay_by_estimate(const struct net *n, const struct net_emit *with,
                            const struct net_emit *without)
{
    const struct kern_device *d = &n->options.device->kern;
    const double bytes = (double)kern_tensor_span(&with->out[0].t);
    struct net_emit a = *with, b = *without;
    const struct kern_row *x = net_row(n, &a), *y = net_row(n, &b);

    if (!x || !y || !x->fn->estimate || !y->fn->estimate)
        return x && x == y;
    return x->fn->estimate(&a.p, d) - y->fn->estimate(&b.p, d) <= bytes / 4e6;
}

/* The batch norm's launch without its bit mask; the convolution's output stands
 * for the residual. */
static void norm_launch(const struct net *n, int node,
                        const struct net_emit *conv, struct net_emit *e)
{
    const struct graph_node *norm = &n->g->node[node];
    const struct net_chain *c = NULL;

    for (int i = 0; i < n->g->n_nodes; i++)
        if (!n->absorbed[i] && n->chain[i].head == node)
            c = &n->chain[i];
    net_emit_begin(e, NET_LIST_TRAIN, KERN_BATCH_NORM_TRAIN, NET_FPROP, node);
    e->p.attr.norm = norm->attr.norm;
    e->p.attr.norm.momentum = n->options.bn_momentum;
    e->in[0] = e->out[0] = conv->out[0];
    for (int i = 1; i < 5; i++)
        e->in[i] = net_operand(n, NET_LIST_TRAIN, norm->in[i], false);
    for (int i = 1; i < 5; i++)
        e->out[i] = e->in[i < 3 ? 1 : i];
    if (c && c->act >= 0)
        e->p.epilogue.act = n->g->node[c->act].attr.unary;
    if (c && c->residual >= 0)
        e->in[5] = conv->out[0];
    e->in[6] = conv->out[1];
}

/* Seconds of the convolution and of the batch norm; 0: not measured. */
static int time_both(struct net *n, int norm, const struct net_emit *conv,
                     struct infer_error *err, double *seconds)
{
    struct net_emit launch[2] = {*conv};
    double each[2] = {0, 0};
    int rc = 0;

    norm_launch(n, norm, conv, &launch[1]);
    for (int i = 0; rc == 0 && i < 2; i++)
        rc = net_seconds(n, &launch[i], err, &each[i]);
    *seconds = each[0] > 0 && each[1] > 0 ? each[0] + each[1] : 0;
    return rc;
}

static int bn_stats_pay(struct net *n, int norm, const struct net_emit *with,
                        const struct net_emit *without, struct infer_error *err,
                        bool *pay)
{
    double a = 0, b = 0;
    int rc = 0;

    if (!net_syncs_norms(n))
        rc = time_both(n, norm, with, err, &a);
    if (rc == 0 && a > 0)
        rc = time_both(n, norm, without, err, &b);
    *pay = a > 0 && b > 0 ? a < b : pay_by_estimate(n, with, without);
    return rc;
}

int net_add_bn_stats(struct net *n, int value, struct net_emit *e,
                     struct infer_error *err)
{
    const struct kern_tensor *y = &e->out[0].t;
    const enum infer_dtype type = net_wide(n);
    const int64_t pixels = kern_tensor_count(y) / y->dim[1];
    const int64_t dim[3] = {bn_stats_parts(BN_STATS_PART, pixels), 2,
                            y->dim[1]};
    const int norm = e->list == NET_LIST_TRAIN ? norm_after(n, value) : -1;
    struct net_emit with = *e, ask;
    bool pay = false;
    int rc;

    if (norm < 0)
        return 0;
    with.out[1].t = kern_tensor_dense(type, 3, dim, KERN_NCHW);
    ask = with;
    if (!net_row(n, &ask))
        return 0;
    rc = bn_stats_pay(n, norm, &with, e, err, &pay);
    if (rc < 0 || !pay)
        return rc;
    rc = net_tensor(n, NET_TRAIN, type, 3, dim, KERN_NCHW, err, &e->out[1]);
    n->value[value].moments = e->out[1];
    return rc;
}
