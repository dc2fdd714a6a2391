/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layers in 8 bits, integers and F8E4M3 (kernels/quant/quant.h).  What is said
 * of integers here is meant of both.
 *
 * A convolution or dense layer whose input and weights come from nodes
 * dequantize becomes one step on the integers, if a row takes it.  A node
 * quantize that is the only reader of its output is part of that step.  Pools,
 * functions of two arguments and moves between such nodes are steps on integers
 * too (lower_scaled.c).  Nodes dequantize that only such steps read need no
 * step of their own: their output is lowered to the integers themselves.  All
 * others compute in floats.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "kernels/quant/quant.h"
#include "libinfer/plan/integers.h"

enum { X, W, BIAS, RESIDUAL };

const struct graph_node *integers_maker(const struct graph *g,
                                        const struct graph_node *n, int i,
                                        enum graph_op op)
{
    int producer;

    if (i >= n->n_in || n->in[i] < 0)
        return NULL;
    producer = g->value[n->in[i]].producer;
    return producer >= 0 && g->node[producer].op == op ? &g->node[producer]
                                                       : NULL;
}

/* ---- scales -------------------------------------------------------- */

/* Element 0 of a constant of one element; false: it is no such. */
static bool one_number(const struct graph *g, int value, double *out)
{
    struct constant *c;

    if (!g->value[value].data || constant_count(g->value[value].data) != 1 ||
        constant_in_memory(g->value[value].data, NULL, NULL, &c) < 0)
        return false;
    *out = scalar_load(c->dtype, c->data, 0);
    constant_unref(c);
    return true;
}

bool integers_scale(const struct graph *g, const struct graph_node *n,
                    float *scale, int *zero)
{
    double s, z = 0;

    if (n->in[1] < 0 || !one_number(g, n->in[1], &s) ||
        (n->n_in > 2 && n->in[2] >= 0 && !one_number(g, n->in[2], &z)))
        return false;
    /* A scale of 0 means none to kernels (struct kern_quant). */
    if (!isfinite(s) || (float)s == 0 || !(fabs(z) <= UINT16_MAX))
        return false;
    *scale = (float)s;
    *zero = (int)z;
    return *zero == z;
}

static bool all_zero(const struct graph *g, int value)
{
    struct constant *c;
    bool zero = true;

    if (!g->value[value].data ||
        constant_in_memory(g->value[value].data, NULL, NULL, &c) < 0)
        return false;
    for (int64_t i = 0; zero && i < constant_count(c); i++)
        zero = scalar_load(c->dtype, c->data, i) == 0;
    constant_unref(c);
    return zero;
}

/* Constant weights without zero points, one scale or one per row. */
static bool are_weights(const struct graph *g, const struct graph_node *n)
{
    const struct graph_value *w, *s;

    if (n->in[0] < 0 || n->in[1] < 0)
        return false;
    w = &g->value[n->in[0]];
    s = &g->value[n->in[1]];
    if (!w->data || (w->dtype != INFER_I8 && w->dtype != INFER_F8E4M3) ||
        !s->data || w->rank < 2 || !scalar_is_float(s->data->dtype) ||
        (n->n_in > 2 && n->in[2] >= 0 && !all_zero(g, n->in[2])))
        return false;
    return constant_count(s->data) == 1 ||
           ((n->attr.quantize.axis == 0 || n->attr.quantize.axis == -w->rank) &&
            s->data->rank == 1 && s->data->dim[0] == w->dim[0]);
}

/* ---- which layers -------------------------------------------------- */

/* A bias is absent, constant, or dequantised from constants. */
static bool is_bias(const struct graph *g, const struct graph_node *n)
{
    const struct graph_node *d = integers_maker(g, n, BIAS, GRAPH_DEQUANTIZE);

    if (n->n_in <= BIAS || n->in[BIAS] < 0 || g->value[n->in[BIAS]].data)
        return true;
    for (int i = 0; d && i < d->n_in; i++)
        if (d->in[i] >= 0 && !g->value[d->in[i]].data)
            return false;
    return d && !graph_is_output(g, n->in[BIAS]);
}

int integers_quantize_after(const struct plan *plan, int node, int k)
{
    const struct lower l = {(struct plan *)plan, &plan->g->node[node], node,
                            NULL};
    const int reader = lower_only_reader(&l, l.node->out[k]);
    float scale;
    int zero;

    if (reader < 0 || plan->g->node[reader].op != GRAPH_QUANTIZE ||
        !quant_is_byte(plan->g->node[reader].attr.quantize.to) ||
        !integers_scale(plan->g, &plan->g->node[reader], &scale, &zero))
        return -1;
    return reader;
}

static void set_dense(struct kern_tensor *t, enum infer_dtype dtype,
                      const struct graph_value *v, enum kern_layout layout)
{
    *t = kern_tensor_dense(dtype, v->rank, v->dim, layout);
}

/* Attributes, types and scales of a layer on integers; false: it is none. */
static bool describe(const struct plan *plan, int node, struct kern_problem *p,
                     enum plan_class *class)
{
    const struct graph *g = plan->g;
    const struct graph_node *n = &g->node[node];
    const struct graph_node *x = integers_maker(g, n, X, GRAPH_DEQUANTIZE);
    const struct graph_node *w = integers_maker(g, n, W, GRAPH_DEQUANTIZE);
    const struct graph_node *r =
        integers_maker(g, n, RESIDUAL, GRAPH_DEQUANTIZE);
    struct infer_error ignored;

    memset(p, 0, sizeof *p);
    if ((n->op != GRAPH_CONV && n->op != GRAPH_DENSE) || !x || !w ||
        x->in[0] < 0 || !quant_is_byte(g->value[x->in[0]].dtype) ||
        g->value[x->in[0]].data || !are_weights(g, w) || !is_bias(g, n) ||
        !integers_scale(g, x, &p->quant.x_scale, &p->quant.x_zero) ||
        problem_of_node(g, n, &ignored, p, class) < 0)
        return false;
    p->epilogue = n->epilogue;
    p->in[W].dtype = g->value[w->in[0]].dtype;
    p->in[X].dtype = g->value[x->in[0]].dtype;
    p->n_in = QUANT_IN + 1;
    if (n->n_in > RESIDUAL && n->in[RESIDUAL] >= 0) {
        p->in[RESIDUAL].dtype = plan_dtype(plan, INFER_F32);
        if (r && r->in[0] >= 0 && quant_is_byte(g->value[r->in[0]].dtype) &&
            !g->value[r->in[0]].data &&
            integers_scale(g, r, &p->quant.residual_scale,
                           &p->quant.residual_zero))
            p->in[RESIDUAL].dtype = g->value[r->in[0]].dtype;
    }
    node = integers_quantize_after(plan, node, 0);
    p->out[0].dtype = plan_dtype(plan, g->value[n->out[0]].dtype);
    if (node < 0)
        return true;
    p->out[0].dtype = g->node[node].attr.quantize.to;
    return integers_scale(g, &g->node[node], &p->quant.y_scale,
                          &p->quant.y_zero);
}

/* The table of the session's multiplier, if the layer has it; adds it to the
 * problem.  false: products are exact. */
static bool add_errors(const struct plan *plan, int node,
                       struct kern_problem *p, struct view *v)
{
    const struct plan_products *products = plan->config->products;

    if (!products || !products->integers || plan->exact_layers[node])
        return false;
    *v = plan_products_view(plan);
    p->in[PRODUCT_TABLE_IN] = v->t;
    p->n_in = PRODUCT_TABLE_IN + 1;
    return true;
}

/* True if a row of the first tier takes the layer, its tensors being dense.
 * With all of its epilogue: integers have none of their own behind the layer.
 */
static bool is_taken(const struct plan *plan, int node,
                     const struct kern_problem *like, enum plan_class class,
                     struct infer_error *why)
{
    const struct graph_node *n = &plan->g->node[node];
    const enum kern_layout layout = class == PLAN_IMAGE ? KERN_NHWC : KERN_NCHW;
    const struct graph *g = plan->g;
    const int64_t outputs = g->value[n->in[W]].dim[0];
    struct kern_problem p = *like;
    struct view table;

    set_dense(&p.in[X], like->in[X].dtype, &g->value[n->in[X]], layout);
    set_dense(&p.in[W], like->in[W].dtype, &g->value[n->in[W]], KERN_NCHW);
    p.in[QUANT_IN] = kern_tensor_dense(INFER_F32, 1, &outputs, KERN_NCHW);
    if (n->n_in > BIAS && n->in[BIAS] >= 0)
        p.in[BIAS] = p.in[QUANT_IN];
    if (like->in[RESIDUAL].dtype != INFER_NONE)
        set_dense(&p.in[RESIDUAL], like->in[RESIDUAL].dtype,
                  &g->value[n->out[0]], layout);
    set_dense(&p.out[0], like->out[0].dtype, &g->value[n->out[0]], layout);
    (void)add_errors(plan, node, &p, &table);
    p.constant_in = 1u << W | 1u << BIAS | 1u << QUANT_IN;
    p.deterministic = plan->config->deterministic;
    const struct row_query q = plan_ask(plan, &p);
    for (size_t r = 0; r < kern_row_count(); r++)
        if (row_is_of(kern_row_at(r), plan->config->tiers.tier[0], p.op) &&
            row_takes(&q, kern_row_at(r), why))
            return true;
    return false;
}

/* ---- the search ---------------------------------------------------- */

void integers_count(const struct graph *g, const struct graph_node *n, int i,
                    int by, int *reads)
{
    if (integers_maker(g, n, i, GRAPH_DEQUANTIZE))
        reads[n->in[i]] += by;
}

/* Whether the layer is to multiply by a table of integers. */
static bool wants_errors(const struct plan *plan, int node)
{
    const enum graph_op op = plan->g->node[node].op;
    const struct plan_products *products = plan->config->products;

    return products && products->integers && !plan->exact_layers[node] &&
           (op == GRAPH_CONV || op == GRAPH_DENSE ||
            op == GRAPH_CONV_TRANSPOSE);
}

/* Refuses a layer that cannot multiply by the session's table of integers. */
static int check_errors(const struct plan *plan, int node,
                        const struct infer_error *why, struct infer_error *err)
{
    const char *name = plan->g->node[node].name;

    if (!wants_errors(plan, node))
        return 0;
    return error_set(err, INFER_EUNSUPPORTED,
                     "layer '%.100s' cannot multiply by a table of integers of "
                     "8 bits: %s (--multiplier-exact leaves layers out)",
                     name ? name : "",
                     why && why->text[0]
                         ? why->text
                         : "it is not quantised (wconv --quantize=int8)");
}

static int mark_layers(struct plan *plan, int *reads, struct infer_error *err)
{
    const struct graph *g = plan->g;
    int rc = 0;

    for (int i = 0; i < g->n_nodes; i++) {
        const struct graph_node *n = &g->node[i];
        enum plan_class class;
        struct infer_error why = {0};
        struct kern_problem p;
        int after;

        if (!plan_may_be_bytes(plan, i) || !describe(plan, i, &p, &class) ||
            !is_taken(plan, i, &p, class, &why)) {
            rc = rc < 0 ? rc : check_errors(plan, i, &why, err);
            continue;
        }
        plan->integers[i] = true;
        integers_count(g, n, X, 1, reads);
        integers_count(g, n, W, 1, reads);
        if (quant_is_byte(p.in[RESIDUAL].dtype))
            integers_count(g, n, RESIDUAL, 1, reads);
        after = integers_quantize_after(plan, i, 0);
        if (after >= 0)
            plan->integers[after] = true;
    }
    return rc;
}

int plan_find_integers(struct plan *plan, struct infer_error *err)
{
    const struct graph *g = plan->g;
    const struct plan_products *products = plan->config->products;
    int *reads = calloc((size_t)g->n_values + 1, sizeof *reads);
    int rc = 0;

    plan->integers = calloc((size_t)g->n_nodes + 1, sizeof *plan->integers);
    if (!reads || !plan->integers) {
        free(reads);
        return error_set(err, INFER_EMEMORY, "plan: out of memory");
    }
    /* Every value is wanted as it is, or products are floats of a table. */
    if (plan->config->keep_tensors && products && products->integers)
        rc = error_set(err, INFER_EUNSUPPORTED,
                       "a multiplier of integers needs whole layers on "
                       "integers: not where every tensor is kept");
    else if (!plan->config->keep_tensors && (!products || products->integers)) {
        rc = mark_layers(plan, reads, err);
        integers_mark_scaled(plan, reads);
        integers_mark_moves(plan, reads);
    }
    for (int i = 0; i < g->n_nodes; i++)
        if (g->node[i].op == GRAPH_DEQUANTIZE && reads[g->node[i].out[0]] > 0 &&
            reads[g->node[i].out[0]] == plan->value[g->node[i].out[0]].uses)
            plan->integers[i] = true;
    free(reads);
    return rc;
}

/* ---- the layer ----------------------------------------------------- */

struct view integers_of(const struct lower *l, int i)
{
    const struct graph *g = l->plan->g;
    const struct graph_node *d =
        integers_maker(g, l->node, i, GRAPH_DEQUANTIZE);
    const int producer = g->value[l->node->in[i]].producer;
    const struct view *v = &l->plan->value[d->in[0]].view;

    /* A node that is lowered to floats too has read them already: nothing may
     * take their place. */
    if (!l->plan->integers[producer])
        l->plan->buffers.at[v->buffer].pending++;
    return *v;
}

/* The scales of the weights, one an output. */
static int weight_scales(const struct lower *l, int64_t outputs,
                         struct view *out)
{
    const struct graph *g = l->plan->g;
    const struct graph_node *d =
        integers_maker(g, l->node, W, GRAPH_DEQUANTIZE);
    const struct view *v = &l->plan->value[d->in[1]].view;
    const int rc = plan_constant_as(l->plan, v, INFER_F32, l->err, out);

    if (rc < 0)
        return rc;
    out->t.stride[0] = kern_tensor_count(&v->t) == 1 ? 0 : 1;
    out->t.rank = 1;
    out->t.dim[0] = outputs;
    return 0;
}

bool lower_is_integer(const struct lower *l)
{
    return l->plan->integers[l->index];
}

int lower_integers(const struct lower *l)
{
    struct kern_problem like;
    struct plan_emit e;
    int rc = lower_begin(l, &e);

    if (rc < 0)
        return rc;
    if (!describe(l->plan, l->index, &like, &e.class))
        return error_set(l->err, INFER_EFORMAT, "node '%s': not on integers",
                         l->node->name ? l->node->name : "");
    e.p.quant = like.quant;
    e.p.out[0].dtype = like.out[0].dtype;
    e.in[X] = integers_of(l, X);
    e.in[W] = integers_of(l, W);
    if (quant_is_byte(like.in[RESIDUAL].dtype))
        e.in[RESIDUAL] = integers_of(l, RESIDUAL);
    if (e.p.n_in > BIAS && e.in[BIAS].t.dtype != INFER_NONE &&
        e.in[BIAS].t.dtype != INFER_F32)
        rc = plan_constant_as(l->plan, lower_in(l, BIAS), INFER_F32, l->err,
                              &e.in[BIAS]);
    e.p.n_in = QUANT_IN + 1;
    if (rc == 0)
        rc = weight_scales(l, e.in[W].t.dim[0], &e.in[QUANT_IN]);
    (void)add_errors(l->plan, l->index, &e.p, &e.in[PRODUCT_TABLE_IN]);
    return rc < 0 ? rc : lower_end(l, &e);
}
