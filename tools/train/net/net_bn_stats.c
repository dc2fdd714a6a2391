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
static bool pay_by_estimate(const struct net *n, const struct net_launch *with,
                            const struct net_launch *without)
{
    const struct kern_device *d = &n->options.device->kern;
    const double bytes = (double)kern_tensor_span(&with->out[0].t);
    struct net_launch a = *with, b = *without;
    const struct kern_row *x = net_row(n, &a), *y = net_row(n, &b);

    if (!x || !y || !x->fn->estimate || !y->fn->estimate)
        return x && x == y;
    return x->fn->estimate(&a.p, d) - y->fn->estimate(&b.p, d) <= bytes / 4e6;
}

/* The batch norm's launch without its bit mask; the convolution's output stands
 * for the residual. */
static struct net_launch norm_launch(const struct net *n, int node,
                                     const struct net_launch *conv)
{
    const struct net_where where = {NET_LIST_TRAIN, NET_FPROP, node};
    struct net_launch e = net_begin_launch(where, KERN_BATCH_NORM_TRAIN);
    const struct graph_node *norm = &n->g->node[node];
    const struct net_chain *c = NULL;

    for (int i = 0; i < n->g->n_nodes; i++)
        if (!n->absorbed[i] && n->chain[i].head == node)
            c = &n->chain[i];
    e.p.attr.norm = norm->attr.norm;
    e.p.attr.norm.momentum = n->options.bn_momentum;
    e.in[0] = e.out[0] = conv->out[0];
    for (int i = 1; i < 5; i++)
        e.in[i] = net_operand(n, NET_LIST_TRAIN, norm->in[i], false);
    for (int i = 1; i < 5; i++)
        e.out[i] = e.in[i < 3 ? 1 : i];
    if (c && c->act >= 0)
        e.p.epilogue.act = n->g->node[c->act].attr.unary;
    if (c && c->residual >= 0)
        e.in[5] = conv->out[0];
    e.in[6] = conv->out[1];
    return e;
}

/* Seconds of the convolution and of the batch norm; 0: not measured. */
static double time_both(struct net *n, int norm, const struct net_launch *conv)
{
    struct net_launch first = *conv, second = norm_launch(n, norm, conv);
    const double a = net_seconds(n, &first), b = net_seconds(n, &second);

    return a > 0 && b > 0 ? a + b : 0;
}

static bool bn_stats_pay(struct net *n, int norm, const struct net_launch *with,
                         const struct net_launch *without)
{
    const double a = net_syncs_norms(n) ? 0 : time_both(n, norm, with);
    const double b = a > 0 ? time_both(n, norm, without) : 0;

    return a > 0 && b > 0 ? a < b : pay_by_estimate(n, with, without);
}

void net_add_bn_stats(struct net *n, int value, struct net_launch *e)
{
    const struct kern_tensor *y = &e->out[0].t;
    const enum infer_dtype type = net_wide(n);
    const int64_t pixels = kern_tensor_count(y) / y->dim[1];
    const int64_t dim[3] = {bn_stats_parts(BN_STATS_PART, pixels), 2,
                            y->dim[1]};
    const int norm =
        e->where.list == NET_LIST_TRAIN ? norm_after(n, value) : -1;
    struct net_launch with = *e, ask;

    if (norm < 0)
        return;
    with.out[1].t = kern_tensor_dense(type, 3, dim, KERN_NCHW);
    ask = with;
    if (!net_row(n, &ask) || !bn_stats_pay(n, norm, &with, e))
        return;
    e->out[1] = net_tensor(n, NET_TRAIN, type, 3, dim, KERN_NCHW);
    n->value[value].bn_stats = e->out[1];
}
