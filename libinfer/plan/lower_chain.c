/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chains of two convolutions as one step (kernels/chain/chain.h).
 *
 * A convolution whose only reader is a convolution with a window of one pixel
 * is deferred if the device has a row for the two: its node is lowered to its
 * input, which the value then names.  When the reader is lowered, the chain is
 * priced against its parts, by measurement where the tuner measures and by
 * estimates elsewhere, and the cheaper of the two is emitted.
 */
#include <string.h>

#include "kernels/chain/chain.h"
#include "libinfer/plan/lower.h"
#include "libinfer/plan/plan_choice.h"
#include "libinfer/tune/tune.h"

/* ---- the pattern --------------------------------------------------- */

/* The only reader of a value, which is a plain convolution; -1 if none. */
static int reader_of(const struct lower *l)
{
    const int i = lower_only_reader(l, l->node->out[0]);

    return i >= 0 && l->plan->g->node[i].op == GRAPH_CONV ? i : -1;
}

static bool is_constant(const struct plan *plan, int value)
{
    return plan->value[value].ready &&
           plan->buffers.at[plan->value[value].view.buffer].memory ==
               PLAN_CONSTANT;
}

/* One pixel, one group, steps of 1 and no pads. */
static bool is_pointwise(const struct plan_emit *e)
{
    const struct kern_conv *c = &e->p.attr.conv;
    const struct kern_tensor *w = &e->in[1].t;
    int i;

    for (i = 0; i < w->rank - 2; i++)
        if (w->dim[i + 2] != 1 || c->stride[i] != 1 || c->pad_begin[i] != 0 ||
            c->pad_end[i] != 0)
            return false;
    return c->groups == 1;
}

/* ---- the problem --------------------------------------------------- */

static void put(struct plan_emit *e, int to, const struct view *v)
{
    if (v->t.dtype == INFER_NONE)
        return;
    e->in[to] = *v;
    if (e->p.n_in <= to)
        e->p.n_in = to + 1;
}

/* The chain of what lower_begin() says of the two convolutions. */
static void join(const struct plan_emit *first, const struct plan_emit *second,
                 struct plan_emit *e)
{
    memset(e, 0, sizeof *e);
    e->class = PLAN_IMAGE;
    e->p.op = KERN_CHAIN;
    e->p.n_out = 1;
    e->p.out[0] = second->p.out[0];
    e->p.attr.chain.conv = first->p.attr.conv;
    e->p.attr.chain.act = first->p.epilogue.act;
    e->p.epilogue = second->p.epilogue;
    e->value = second->value;
    e->residual = -1;
    put(e, CHAIN_X, &first->in[0]);
    put(e, CHAIN_W, &first->in[1]);
    put(e, CHAIN_BIAS, &first->in[2]);
    put(e, CHAIN_W2, &second->in[1]);
    put(e, CHAIN_BIAS2, &second->in[2]);
    if (second->residual >= 0) {
        put(e, CHAIN_RESIDUAL, &second->in[second->residual]);
        e->residual = CHAIN_RESIDUAL;
    }
}

/* A row of the first tier for the chain; vectors count as single precision, as
 * plan_emit() makes them. */
static bool find(const struct plan *plan, const struct plan_emit *e,
                 struct plan_choice *c)
{
    struct plan_emit wide;
    int i;

    memcpy(&wide, e, sizeof wide);
    for (i = 0; i < wide.p.n_in; i++)
        if (kern_op_is_vector(wide.p.op, i) && wide.in[i].t.dtype != INFER_NONE)
            wide.in[i].t.dtype = INFER_F32;
    return plan_find(plan, &wide, plan->config->tiers.tier[0], false, NULL,
                     c) &&
           !plan_moves(&wide, CHAIN_X, &c->attempt);
}

/* ---- the first convolution ----------------------------------------- */

/* The reader's problem as far as it is known; its other inputs may not have
 * been lowered yet. */
static int begin_reader(const struct lower *l, int node, struct plan_emit *e)
{
    const struct graph_node *n = &l->plan->g->node[node];
    int i, rc;

    memset(e, 0, sizeof *e);
    rc = problem_of_node(l->plan->g, n, l->err, &e->p, &e->class);
    if (rc < 0)
        return rc;
    e->p.epilogue = n->epilogue;
    e->p.out[0].dtype = plan_dtype(l->plan, l->plan->g->value[n->out[0]].dtype);
    e->value = e->residual = -1;
    for (i = 1; i <= 2 && i < n->n_in; i++)
        if (n->in[i] >= 0)
            e->in[i] = l->plan->value[n->in[i]].view;
    return 0;
}

static bool may_chain(const struct plan *plan)
{
    /* The price depends on the batch, and so would the bits. */
    return plan->config->chains && !plan->config->keep_tensors &&
           !plan->config->deterministic && !plan->config->products;
}

/* True of both weights. */
static bool weights_constant(const struct lower *l, int reader)
{
    return is_constant(l->plan, l->node->in[1]) &&
           is_constant(l->plan, l->plan->g->node[reader].in[1]);
}

int lower_defer_chain(const struct lower *l, const struct plan_emit *first,
                      bool *done)
{
    struct plan *plan = l->plan;
    const int reader = reader_of(l);
    struct plan_emit second, chain;
    struct plan_choice c;
    int rc;

    *done = false;
    if (reader < 0 || !may_chain(plan) || first->residual >= 0 ||
        plan->value[l->node->in[0]].has_input_scale ||
        plan->value[l->node->in[0]].chain ||
        (plan->integers && plan->integers[reader]) ||
        !weights_constant(l, reader))
        return 0;
    rc = begin_reader(l, reader, &second);
    if (rc < 0 || !is_pointwise(&second))
        return rc;
    join(first, &second, &chain);
    if (!find(plan, &chain, &c))
        return 0;
    lower_set(l, 0, lower_in(l, 0));
    plan->value[l->node->out[0]].chain = true;
    *done = true;
    return 0;
}

/* ---- the price ----------------------------------------------------- */

/* In a network the second of two launches begins while the first ends: it costs
 * so many seconds less there than alone (MNASNet at batch 1, H200). */
#define HIDDEN 1.5e-6

/* What is only estimated must be so much better. */
#define ESTIMATE_MARGIN 1.1

struct price {
    double seconds; /* 0: unknown */
    bool measured;
};

/* By the tuner or, where it does not measure, by the estimate of the row. */
static int price(const struct plan *plan, const struct kern_problem *p,
                 struct infer_error *err, struct price *out)
{
    const struct plan_config *config = plan->config;
    struct row_query q = plan_ask(plan, p);
    struct tune_choice choice;
    double us = 0;
    int rc = 0;

    memset(&choice, 0, sizeof choice);
    choice.row = row_best(&q, config->tiers.tier[0], NULL, &us);
    *out = (struct price){1e-6 * us, false};
    if (!choice.row || !config->tuner)
        return 0;
    rc = tuner_pick(config->tuner, &q, config->tiers.tier,
                    plan_tiers(plan, p->op), err, &choice);
    if (rc == 0 && choice.seconds > 0)
        *out = (struct price){choice.seconds, true};
    return rc;
}

static int is_cheaper(const struct plan *plan, const struct kern_problem *chain,
                      struct infer_error *err, bool *out)
{
    const enum infer_dtype type = chain->in[CHAIN_X].dtype;
    struct price whole = {0}, first = {0}, second = {0};
    struct kern_problem part;
    double margin;
    int rc = price(plan, chain, err, &whole);

    chain_first(chain, type, KERN_NHWC, &part);
    if (rc == 0)
        rc = price(plan, &part, err, &first);
    chain_second(chain, type, KERN_NHWC, &part);
    if (rc == 0)
        rc = price(plan, &part, err, &second);
    margin = whole.measured && first.measured && second.measured
                 ? 1
                 : ESTIMATE_MARGIN;
    /* Where nothing has a price, as in the reference, one step it is. */
    *out = whole.seconds > 0 ? first.seconds > 0 && second.seconds > 0 &&
                                   margin * whole.seconds + HIDDEN <=
                                       first.seconds + second.seconds
                             : first.seconds == 0 && second.seconds == 0;
    return rc;
}

/* ---- the second ---------------------------------------------------- */

int lower_end_chain(const struct lower *l, struct plan_emit *second, bool *done)
{
    struct plan *plan = l->plan;
    const int value = l->node->in[0];
    const int node = plan->g->value[value].producer;
    const struct lower before = {plan, &plan->g->node[node], node, l->err};
    struct plan_emit first, chain;
    struct plan_choice c;
    bool cheaper = false;
    int rc;

    *done = false;
    if (!plan->value[value].chain)
        return 0;
    rc = lower_begin(&before, &first);
    if (rc < 0)
        return rc;
    join(&first, second, &chain);
    if (find(plan, &chain, &c))
        rc = is_cheaper(plan, &c.problem, l->err, &cheaper);
    if (rc < 0)
        return rc;
    *done = cheaper;
    if (cheaper)
        return lower_end(l, &chain);
    first.value = -1;
    return plan_emit(plan, node, &first, l->err, &second->in[0]);
}
