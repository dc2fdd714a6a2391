/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Squeeze-and-excitation as one step: a mean over the image, two layers over
 * its channels and their activations, if no other node reads a value between
 * them. The product after it stays a node.
 *
 * The step is emitted when the mean is lowered; the other nodes of the chain
 * are removed from the plan's graph.
 */
#include <string.h>

#include "kernels/rows.h"
#include "libinfer/graph/ops/op.h"
#include "libinfer/plan/lower.h"
#include "libinfer/plan/plan_choice.h"

enum { X, W, W2, BIAS, BIAS2 };

/* Two layers, their activations, and a few reshapes before each. */
#define MOST_NODES 12

/* Microseconds of the chain as separate steps, without reading the image: three
 * launches (EfficientNet-B0 at batch 1, measured on an H200). */
#define CHAIN_TIME 8.5

struct chain {
    int node[MOST_NODES], n;
    const struct graph_node *layer[2];
    struct kern_unary act[2];
    int value; /* the last one's output */
};

/* ---- the chain ----------------------------------------------------- */

/* One number an image and channel: N, features, ones. */
static bool is_vector(const struct lower *l, int value)
{
    const struct graph_value *v = &l->plan->g->value[value];
    int i;

    if (v->rank < 2 || v->dim[0] != lower_in(l, 0)->t.dim[0])
        return false;
    for (i = 2; i < v->rank; i++)
        if (v->dim[i] != 1)
            return false;
    return true;
}

/* Extends the chain by a node; false if the chain ends before it. */
static bool take(const struct lower *l, struct chain *c, int node)
{
    const int to = l->plan->g->node[node].out[0];

    if (c->n == MOST_NODES || !is_vector(l, to))
        return false;
    c->node[c->n++] = node;
    c->value = to;
    return true;
}

/* True if the values of a vector stay as they are. */
static bool keeps_values(enum graph_op op)
{
    return op == GRAPH_RESHAPE || op == GRAPH_FLATTEN || op == GRAPH_SQUEEZE ||
           op == GRAPH_UNSQUEEZE || op == GRAPH_DROPOUT;
}

static bool skip_reshapes(const struct lower *l, struct chain *c)
{
    int i = lower_only_reader(l, c->value);

    while (i >= 0 && keeps_values(l->plan->g->node[i].op) && take(l, c, i))
        i = lower_only_reader(l, c->value);
    return i >= 0 && !keeps_values(l->plan->g->node[i].op);
}

/* True if the value is a constant of the file. */
static bool is_constant(const struct plan *plan, int value)
{
    return plan->value[value].ready &&
           plan->buffers.at[plan->value[value].view.buffer].memory ==
               PLAN_CONSTANT;
}

/* A window of one pixel and no padding about it. */
static bool is_pointwise(const struct lower *l, const struct graph_node *n)
{
    const struct graph_value *w = &l->plan->g->value[n->in[1]];
    int64_t extent[KERN_MAX_SPATIAL], window[KERN_MAX_SPATIAL],
        out[KERN_MAX_SPATIAL];
    struct kern_conv conv;
    int i;

    if (w->rank < 3 || w->rank - 2 > KERN_MAX_SPATIAL)
        return false;
    for (i = 0; i < w->rank - 2; i++) {
        extent[i] = 1;
        window[i] = w->dim[i + 2];
        if (window[i] != 1)
            return false;
    }
    if (op_conv_resolve(&n->attr.conv, w->rank - 2, extent, window, &conv, out,
                        NULL) < 0 ||
        conv.groups != 1)
        return false;
    for (i = 0; i < w->rank - 2; i++)
        if (conv.pad_begin[i] != 0 || conv.pad_end[i] != 0)
            return false;
    return true;
}

static bool is_layer(const struct lower *l, const struct graph_node *n)
{
    const struct graph *g = l->plan->g;
    const int residual = graph_op_info(n->op)->max_in;

    if ((n->op != GRAPH_CONV && n->op != GRAPH_DENSE) ||
        (n->n_in > residual && n->in[residual] >= 0) ||
        !is_constant(l->plan, n->in[1]) ||
        (n->n_in > 2 && n->in[2] >= 0 && !is_constant(l->plan, n->in[2])))
        return false;
    return n->op == GRAPH_CONV ? is_pointwise(l, n)
                               : g->value[n->in[0]].rank == 2;
}

/* Extends the chain by a layer and the activation after it. */
static bool take_layer(const struct lower *l, struct chain *c, int which)
{
    const struct graph *g = l->plan->g;
    int i;

    if (!skip_reshapes(l, c))
        return false;
    i = lower_only_reader(l, c->value);
    if (!is_layer(l, &g->node[i]) || !take(l, c, i))
        return false;
    c->layer[which] = &g->node[i];
    c->act[which] = g->node[i].epilogue.act;
    i = lower_only_reader(l, c->value);
    if (i >= 0 && c->act[which].kind == KERN_IDENTITY &&
        g->node[i].op == GRAPH_UNARY && take(l, c, i))
        c->act[which] = g->node[i].attr.unary;
    return true;
}

static bool find_chain(const struct lower *l, struct chain *c)
{
    memset(c, 0, sizeof *c);
    c->value = l->node->out[0];
    return l->node->epilogue.act.kind == KERN_IDENTITY &&
           is_vector(l, c->value) && take_layer(l, c, 0) && take_layer(l, c, 1);
}

/* ---- the step ------------------------------------------------------ */

/* Input i of the problem: weights as a matrix, biases in single precision. */
static int set_constant(const struct lower *l, const struct graph_node *layer,
                        int from, struct plan_emit *e, int to, bool *good)
{
    const struct view *v;

    if (from >= layer->n_in || layer->in[from] < 0)
        return 0;
    v = &l->plan->value[layer->in[from]].view;
    if (e->p.n_in <= to)
        e->p.n_in = to + 1;
    if (from == 2)
        return plan_constant_as(l->plan, v, INFER_F32, l->err, &e->in[to]);
    if (!view_reshape(v, 2, v->t.dim, &e->in[to]))
        *good = false;
    return 0;
}

static int make_problem(const struct lower *l, const struct chain *c,
                        struct plan_emit *e, bool *good)
{
    const struct graph_value *y = &l->plan->g->value[c->value];
    const struct view *x = lower_in(l, 0);
    int64_t dim[KERN_MAX_RANK];
    int i, rc = 0;

    for (i = 0; i < x->t.rank; i++)
        dim[i] = i < 2 ? y->dim[i] : 1;
    plan_single(KERN_SQUEEZE_EXCITE, PLAN_IMAGE, x,
                plan_dtype(l->plan, y->dtype), x->t.rank, dim, e);
    if (y->rank == x->t.rank)
        e->value = c->value;
    e->p.attr.squeeze_excite.act = c->act[0];
    e->p.epilogue.act = c->act[1];
    *good = true;
    for (i = 0; i < 2 && rc == 0; i++) {
        rc = set_constant(l, c->layer[i], 1, e, W + i, good);
        if (rc == 0)
            rc = set_constant(l, c->layer[i], 2, e, BIAS + i, good);
    }
    return rc;
}

/* True if the first tier computes the step from the image without a copy, and
 * its estimate is below the chain's time. */
static bool is_better(const struct lower *l, const struct plan_emit *e)
{
    const struct plan *plan = l->plan;
    struct plan_choice c;
    double image;

    if (!plan_find(plan, e, plan->config->tiers.tier[0], false, NULL, &c) ||
        plan_moves(e, X, &c.attempt) ||
        (plan_is_batch_invariant(plan) && !kern_row_is_invariant(c.row)))
        return false;
    image = (double)kern_tensor_count(&e->in[X].t) *
            (double)infer_dtype_size(e->in[X].t.dtype);
    return !c.row->fn->estimate ||
           c.row->fn->estimate(&c.problem, &plan->config->device->kern) <=
               CHAIN_TIME + image / 2.5e6;
}

int lower_squeeze(const struct lower *l, bool *done)
{
    struct plan *plan = l->plan;
    const struct graph_value *y;
    struct chain c;
    struct plan_emit e;
    struct view out;
    bool good;
    int i, rc;

    *done = false;
    if (plan->config->keep_tensors || plan->config->products ||
        plan->config->spelled_out || !find_chain(l, &c))
        return 0;
    rc = make_problem(l, &c, &e, &good);
    if (rc < 0 || !good || !is_better(l, &e))
        return rc;
    y = &plan->g->value[c.value];
    rc = plan_emit(plan, l->index, &e, l->err, &out);
    if (rc == 0)
        rc = lower_reshape(l, &out, y->rank, y->dim, &out);
    if (rc < 0)
        return rc;
    plan_set(plan, c.value, &out);
    for (i = 0; i < c.n; i++)
        graph_remove_node(plan->g, c.node[i]);
    *done = true;
    return 0;
}
