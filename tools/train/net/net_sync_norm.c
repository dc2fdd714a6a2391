/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batch normalisation by the statistics of the whole batch where several
 * processes share it, each with the same number of pixels n.
 *
 * Forward: each part's mean and variance, from the kernel that normalises by
 * them (what it normalises is written over); the mean of the means is that of
 * the whole, and the mean of (variance + squared distance of the means) is its
 * variance.  No large numbers are subtracted: the parts differ by little.
 *
 * Gradient: the kernel for one process makes dx with the means m0 of dz and m1
 * of dz xn over its own part,
 *
 *     dx = scale inverse (dz - m0 - xn m1),
 *
 * and what it lacks is scale inverse ((m0 - M0) + xn (m1 - M1)), M0 and M1 over
 * the whole: a factor and a summand a channel, as the batch norm of inference
 * applies them.
 *
 * All else are launches on vectors of one element per channel.  Every process
 * makes the same bits of the same sums, running statistics too.
 */
#include "tools/train/net/net.h"

#include <string.h>

/* Elements that a row of a block is aligned to. */
#define ALIGN 4

bool net_syncs_norms(const struct net *n)
{
    return n->options.sync_norm && n->options.exchange;
}

/* ---- vectors ------------------------------------------------------- */

/* The launches of one node. */
struct sync {
    struct net *n;
    struct net_where where;
    enum infer_dtype type;
    int64_t channels;
};

static struct sync begin(struct net *n, const struct net_launch *e,
                         const struct view *x)
{
    return (struct sync){n, e->where, e->in[2].t.dtype, x->t.dim[1]};
}

/* A new buffer of some rows. */
static struct view block(const struct sync *s, int rows)
{
    const int64_t width = (s->channels + ALIGN - 1) / ALIGN * ALIGN;

    return net_vector(s->n, NET_TRAIN, s->type, rows * width);
}

static struct view row(const struct sync *s, const struct view *v, int i)
{
    const int64_t width = (s->channels + ALIGN - 1) / ALIGN * ALIGN;
    struct view part = *v;

    part.offset += i * width;
    part.t = kern_tensor_dense(s->type, 1, &s->channels, KERN_NCHW);
    return part;
}

/* out = a op b; out may be a. */
static void combine(const struct sync *s, enum kern_binary_kind kind,
                    struct view a, struct view b, struct view out)
{
    net_binary(s->n, s->where, kind, &a, &b, &out);
}

/* out = f(a), for a linear f factor a + summand; out may be a. */
static void apply(const struct sync *s, enum kern_unary_kind kind,
                  double factor, double summand, struct view a, struct view out)
{
    const struct kern_unary f = {kind, (float)factor, (float)summand};

    net_unary(s->n, s->where, f, &a, &out);
}

/* Replaces v by its mean over all processes. */
static void mean_of_all(const struct sync *s, struct view v)
{
    const struct view none = {.buffer = 0};

    net_launch_transfer(s->n, NET_LIST_TRAIN, NET_MEAN, s->where.node, &v);
    net_launch_transfer(s->n, NET_LIST_TRAIN, NET_JOIN, s->where.node, &none);
}

static int64_t pixels(const struct view *x)
{
    return kern_tensor_count(&x->t) / x->t.dim[1];
}

/* ---- forwards ------------------------------------------------------ */

/* Mean of this process's part, twice, and its variance as / (n - 1): running
 * statistics that begin at 0 and move all the way. */
static void measure(const struct sync *s, const struct net_launch *whole,
                    struct view again, struct view var)
{
    struct net_launch e = *whole;
    /* Memory of the network is zero to begin with, and this stays so. */
    const struct view zero = net_vector(s->n, NET_FIXED, s->type, s->channels);

    memset(&e.p.epilogue, 0, sizeof(e.p.epilogue));
    memset(&e.in[5], 0, sizeof(e.in[5]));
    e.p.attr.norm.momentum = 1;
    e.in[3] = e.in[4] = zero;
    e.out[1] = s->n->mean[s->where.node];
    e.out[2] = s->n->deviation[s->where.node];
    e.out[3] = again;
    e.out[4] = var;
    net_launch(s->n, &e);
}

/* running += momentum (batch - running) */
static void move(const struct sync *s, struct view running, struct view batch,
                 double factor, struct view scratch)
{
    const double momentum = (double)s->n->options.bn_momentum;

    apply(s, KERN_LINEAR, 1 - momentum, 0, running, running);
    apply(s, KERN_LINEAR, momentum * factor, 0, batch, scratch);
    combine(s, KERN_ADD, running, scratch, running);
}

void net_sync_norm(struct net *n, struct net_launch *e)
{
    const double count = (double)pixels(&e->in[0]);
    const double all = count * net_ranks(n);
    const struct sync s = begin(n, e, &e->in[0]);
    const struct view kept = block(&s, 3), rest = block(&s, 2);
    const struct view mean = row(&s, &kept, 0), var = row(&s, &kept, 1);
    const struct view inverse = row(&s, &kept, 2);
    const struct view own = row(&s, &rest, 0), scratch = row(&s, &rest, 1);

    n->mean[e->where.node] = mean;
    n->variance[e->where.node] = var;
    n->deviation[e->where.node] = inverse;
    measure(&s, e, own, var);
    mean_of_all(&s, mean);
    combine(&s, KERN_SUB, own, mean, own);
    combine(&s, KERN_MUL, own, own, own);
    apply(&s, KERN_LINEAR, (count - 1) / count, 0, var, var);
    combine(&s, KERN_ADD, var, own, var);
    mean_of_all(&s, var);
    move(&s, e->in[3], mean, 1, scratch);
    move(&s, e->in[4], var, all / (all - 1), scratch);
    apply(&s, KERN_LINEAR, 1, (double)e->p.attr.norm.epsilon, var, inverse);
    apply(&s, KERN_SQRT, 0, 0, inverse, inverse);
    apply(&s, KERN_RECIPROCAL, 0, 0, inverse, inverse);
    e->p.op = KERN_BATCH_NORM;
    memset(&e->in[6], 0, sizeof(e->in[6])); /* bn_stats, which have served */
    e->in[3] = mean;
    e->in[4] = var;
    net_launch(n, e);
}

/* ---- gradient ------------------------------------------------------ */

/* Writes or adds a part's sum to the gradient of scale or shift. */
static void give(const struct sync *s, const struct net_launch *e, int i,
                 struct view sum)
{
    if (e->in[5 + i].t.dtype != INFER_NONE)
        combine(s, KERN_ADD, e->in[5 + i], sum, e->out[i]);
    else
        net_copy(s->n, s->where, &sum, &e->out[i]);
}

void net_sync_norm_bwd(struct net *n, const struct net_launch *e)
{
    const struct sync s = begin(n, e, &e->in[1]);
    const struct view own = block(&s, 2), all = block(&s, 2);
    const struct view factor = block(&s, 1), line = row(&s, &factor, 0);
    const struct view scale = row(&s, &own, 0), shift = row(&s, &own, 1);
    struct net_launch part = *e;
    struct net_launch rest = net_begin_launch(s.where, KERN_BATCH_NORM);

    part.out[1] = scale;
    part.out[2] = shift;
    memset(&part.in[6], 0, sizeof(part.in[6]));
    memset(&part.in[7], 0, sizeof(part.in[7]));
    net_launch(n, &part);
    give(&s, e, 1, scale);
    give(&s, e, 2, shift);
    for (int i = 0; i < 2; i++) {
        const struct view from = row(&s, &own, i), to = row(&s, &all, i);

        net_copy(n, s.where, &from, &to);
    }
    mean_of_all(&s, all);
    /* The sums' distance from their means over all parts, / n, is the means'.
     */
    combine(&s, KERN_MUL, e->in[4], e->in[2], line);
    apply(&s, KERN_LINEAR, 1 / (double)pixels(&e->in[1]), 0, line, line);
    for (int i = 0; i < 2; i++) {
        const struct view to = row(&s, &own, i);

        combine(&s, KERN_SUB, to, row(&s, &all, i), to);
        combine(&s, KERN_MUL, to, line, to);
    }
    rest.p.attr.norm.epsilon = e->p.attr.norm.epsilon;
    rest.in[0] = e->in[1];
    rest.in[1] = scale;
    rest.in[2] = shift;
    rest.in[3] = e->in[3];
    rest.in[4] = n->variance[e->where.node];
    rest.in[5] = rest.out[0] = e->out[0];
    net_launch(n, &rest);
}
