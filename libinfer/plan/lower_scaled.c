/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools, functions of two arguments, scales with shifts, and moves in 8 bits
 * with scales (kernels/quant/quant.h).
 *
 * A pool or function whose inputs come from nodes dequantize, and whose output
 * goes to a node quantize or stays float, is one step.  A mean over the image
 * is a pool.  A node that only moves elements, from nodes dequantize to nodes
 * quantize of one scale, moves the integers: it is lowered as ever, since the
 * views that it reads are those of integers.  A concatenation changes the scale
 * of parts that have another one.
 */
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/quant/quant.h"
#include "kernels/resize.h"
#include "libinfer/plan/integers.h"

/* ---- pools and functions ------------------------------------------- */

/* The mean over all of a channel's image is a pool of one window. */
static bool mean_as_pool(const struct graph *g, const struct graph_node *n,
                         struct kern_problem *p)
{
    const struct kern_reduce a = p->attr.reduce;
    const struct graph_value *x = &g->value[n->in[0]];
    struct kern_pool *pool = &p->attr.pool;

    if (a.kind != KERN_REDUCE_MEAN || x->rank < 3 ||
        x->rank - 2 > KERN_MAX_SPATIAL || a.axes != (1u << x->rank) - 4)
        return false;
    memset(&p->attr, 0, sizeof p->attr);
    p->op = KERN_POOL_FPROP;
    pool->kind = KERN_POOL_AVERAGE;
    for (int i = 0; i < x->rank - 2; i++) {
        pool->window[i] = (int)x->dim[i + 2];
        pool->stride[i] = pool->dilation[i] = 1;
        if (pool->window[i] != x->dim[i + 2])
            return false;
    }
    return true;
}

/* Type and scale of input i of a node: integers, or floats as they are. */
static bool describe_input(const struct plan *plan, const struct graph_node *n,
                           int i, struct kern_tensor *t, float *scale,
                           int *zero)
{
    const struct graph *g = plan->g;
    const struct graph_node *d = integers_maker(g, n, i, GRAPH_DEQUANTIZE);

    if (n->in[i] < 0)
        return false;
    t->dtype = plan_dtype(plan, g->value[n->in[i]].dtype);
    if (!d || d->in[0] < 0 || !quant_is_byte(g->value[d->in[0]].dtype) ||
        g->value[d->in[0]].data || !integers_scale(g, d, scale, zero))
        return tune_is_real(t->dtype);
    t->dtype = g->value[d->in[0]].dtype;
    return true;
}

/* True of the constant scale and shift of a node. */
static bool is_vector(const struct graph *g, const struct graph_node *n, int i)
{
    return n->op == GRAPH_SCALE_SHIFT && (i == 1 || i == 2) &&
           g->value[n->in[i]].data != NULL && g->value[n->in[i]].rank == 1;
}

/* Attributes, types and scales of a step on integers; false: it is none. */
static bool describe(const struct plan *plan, int node, struct kern_problem *p,
                     enum plan_class *class)
{
    const struct graph *g = plan->g;
    const struct graph_node *n = &g->node[node];
    const int inputs = n->op == GRAPH_BINARY ? 2 : 1;
    struct kern_quant *q = &p->quant;
    struct infer_error ignored;
    int after;

    memset(p, 0, sizeof *p);
    if ((n->op != GRAPH_POOL && n->op != GRAPH_BINARY &&
         n->op != GRAPH_REDUCE && n->op != GRAPH_SCALE_SHIFT) ||
        n->n_in < inputs || n->in[0] < 0 || g->value[n->in[0]].rank < 1 ||
        problem_of_node(g, n, &ignored, p, class) < 0 ||
        (n->op == GRAPH_REDUCE && !mean_as_pool(g, n, p)))
        return false;
    for (int i = inputs; i < n->n_in; i++) /* shapes, or a residual */
        if (n->in[i] >= 0 && n->op != GRAPH_REDUCE && !is_vector(g, n, i))
            return false;
    p->epilogue = n->epilogue;
    p->n_in = n->op == GRAPH_SCALE_SHIFT ? n->n_in : inputs;
    for (int i = inputs; i < p->n_in; i++)
        p->in[i].dtype = n->in[i] >= 0 ? INFER_F32 : INFER_NONE;
    p->n_out = 1;
    *class = inputs == 2 ? PLAN_POINTWISE : PLAN_IMAGE;
    if (!describe_input(plan, n, 0, &p->in[0], &q->x_scale, &q->x_zero) ||
        (inputs == 2 &&
         !describe_input(plan, n, 1, &p->in[1], &q->residual_scale,
                         &q->residual_zero)) ||
        (!quant_is_byte(p->in[0].dtype) && !quant_is_byte(p->in[1].dtype) &&
         n->op != GRAPH_SCALE_SHIFT))
        return false;
    after = integers_quantize_after(plan, node, 0);
    /* From floats, as of a concatenation in place, to 8 bits at once. */
    if (after < 0 && !quant_is_byte(p->in[0].dtype) &&
        n->op == GRAPH_SCALE_SHIFT)
        return false;
    p->out[0].dtype = plan_dtype(plan, g->value[n->out[0]].dtype);
    if (after < 0)
        return tune_is_real(p->out[0].dtype);
    p->out[0].dtype = g->node[after].attr.quantize.to;
    return integers_scale(g, &g->node[after], &q->y_scale, &q->y_zero);
}

/* Dims of the step's output: those of a mean are kept. */
static int output_dims(const struct graph *g, const struct graph_node *n,
                       int64_t dim[INFER_MAX_RANK])
{
    const struct graph_value *v =
        &g->value[n->op == GRAPH_REDUCE ? n->in[0] : n->out[0]];

    for (int i = 0; i < v->rank; i++)
        dim[i] = n->op == GRAPH_REDUCE && i >= 2 ? 1 : v->dim[i];
    return v->rank;
}

/* True if a row of the first tier takes the step, its tensors being dense. */
static bool is_taken(const struct plan *plan, const struct graph_node *n,
                     const struct kern_problem *like, enum plan_class class)
{
    const enum kern_layout layout = class == PLAN_IMAGE ? KERN_NHWC : KERN_NCHW;
    const struct graph *g = plan->g;
    int64_t dim[INFER_MAX_RANK];
    const int rank = output_dims(g, n, dim);
    struct kern_problem p = *like;
    const struct row_query q = plan_ask(plan, &p);

    for (int i = 0; i < p.n_in; i++) {
        const struct graph_value *v = &g->value[n->in[i]];
        const bool vector = n->in[i] >= 0 && is_vector(g, n, i);

        if (n->in[i] < 0)
            continue;
        if (v->rank != (vector ? 1 : rank))
            return false;
        p.in[i] = kern_tensor_dense(like->in[i].dtype, v->rank, v->dim,
                                    vector ? KERN_NCHW : layout);
    }
    p.out[0] = kern_tensor_dense(like->out[0].dtype, rank, dim, layout);
    p.deterministic = plan->config->deterministic;
    for (size_t r = 0; r < kern_row_count(); r++)
        if (row_is_of(kern_row_at(r), plan->config->tiers.tier[0], p.op) &&
            row_takes(&q, kern_row_at(r), NULL))
            return true;
    return false;
}

void integers_mark_scaled(struct plan *plan, int *reads)
{
    const struct graph *g = plan->g;

    for (int i = 0; i < g->n_nodes; i++) {
        const struct graph_node *n = &g->node[i];
        enum plan_class class;
        struct kern_problem p;
        int after;

        if (n->op == GRAPH_NONE || !plan_may_be_bytes(plan, i) ||
            !describe(plan, i, &p, &class) || !is_taken(plan, n, &p, class))
            continue;
        plan->integers[i] = true;
        for (int k = 0; k < p.n_in; k++)
            if (quant_is_byte(p.in[k].dtype))
                integers_count(g, n, k, 1, reads);
        after = integers_quantize_after(plan, i, 0);
        if (after >= 0)
            plan->integers[after] = true;
    }
}

int lower_scaled(const struct lower *l)
{
    struct kern_problem like;
    struct plan_emit e;
    struct view out;
    int rc = 0;

    memset(&e, 0, sizeof e);
    if (!describe(l->plan, l->index, &like, &e.class))
        return error_set(l->err, INFER_EFORMAT, "node '%s': not on integers",
                         l->node->name ? l->node->name : "");
    e.p = like;
    e.value = e.residual = -1;
    e.p.out[0].rank = output_dims(l->plan->g, l->node, e.p.out[0].dim);
    for (int i = 0; rc == 0 && i < e.p.n_in; i++)
        if (quant_is_byte(like.in[i].dtype))
            e.in[i] = integers_of(l, i);
        else if (like.in[i].dtype != INFER_NONE &&
                 is_vector(l->plan->g, l->node, i))
            rc = plan_constant_as(l->plan, lower_in(l, i), INFER_F32, l->err,
                                  &e.in[i]);
        else if (like.in[i].dtype != INFER_NONE)
            e.in[i] = *lower_in(l, i);
    if (rc == 0)
        rc = plan_emit(l->plan, l->index, &e, l->err, &out);
    for (int i = e.p.out[0].rank - 1;
         rc == 0 && i >= 2 && out.t.rank > lower_out(l, 0)->rank; i--)
        out = view_drop(&out, i);
    return rc < 0 ? rc : lower_set(l, 0, &out);
}

/* ---- repeats ------------------------------------------------------- */

/* A resize to the nearest neighbour by whole factors is one copy from a view
 * that repeats elements. */

/* Most outputs along a repeated dimension, whose table of indices is made for
 * the question alone; longer ones stay in floats. */
#define MOST_REPEATED 65536

/* True if output i along dimension d is input i / by. */
static bool is_repeat(const struct kern_problem *p, int d, int64_t by)
{
    struct resize_table t = {0};
    bool same = resize_table_make(p, d, NULL, &t) == 0 && t.taps == 1;

    for (int64_t i = 0; same && i < p->out[0].dim[d]; i++)
        same = t.index[i] == i / by * p->in[0].stride[d];
    resize_table_free(&t);
    return same;
}

/* True of a resize that repeats each element by[d] times along dimension d. */
static bool repeats(const struct graph *g, const struct graph_node *n,
                    int64_t by[INFER_MAX_RANK])
{
    const struct graph_value *x, *y;
    struct kern_problem p = {0};
    struct infer_error ignored;
    enum plan_class class;
    int rank;

    if (n->op != GRAPH_RESIZE || n->in[0] < 0 ||
        n->attr.resize.resize.mode != KERN_NEAREST ||
        problem_of_node(g, n, &ignored, &p, &class) < 0)
        return false;
    x = &g->value[n->in[0]];
    y = &g->value[n->out[0]];
    rank = x->rank;
    p.op = KERN_RESIZE;
    p.in[0] = kern_tensor_dense(INFER_F32, x->rank, x->dim, KERN_NCHW);
    p.out[0] = kern_tensor_dense(INFER_F32, y->rank, y->dim, KERN_NCHW);
    for (int d = 0; d < x->rank; d++) {
        if (x->dim[d] < 1 || y->dim[d] % x->dim[d] != 0)
            return false;
        by[d] = y->dim[d] / x->dim[d];
        rank += by[d] > 1;
        if (by[d] < 1 || (by[d] > 1 && (y->dim[d] > MOST_REPEATED ||
                                        !is_repeat(&p, d, by[d]))))
            return false;
    }
    return rank <= INFER_MAX_RANK;
}

static int lower_repeat(const struct lower *l)
{
    const struct graph_value *y = lower_out(l, 0);
    struct view from = *lower_in(l, 0), to, dest;
    int64_t by[INFER_MAX_RANK];
    int rc;

    if (!repeats(l->plan->g, l->node, by))
        return error_set(l->err, INFER_EFORMAT, "node '%s': not on integers",
                         l->node->name ? l->node->name : "");
    rc = plan_buffer(l->plan, l->index, from.t.dtype, y->rank, y->dim,
                     view_layout(&from.t), l->err, &dest);
    to = dest;
    for (int d = y->rank - 1; rc == 0 && d >= 0; d--) {
        if (by[d] == 1)
            continue;
        to = view_split(&to, d, from.t.dim[d]);
        from = view_split(&from, d, from.t.dim[d]);
        from.t.dim[d + 1] = by[d];
        from.t.stride[d + 1] = 0;
    }
    if (rc == 0)
        rc = plan_copy_to(l->plan, l->index, &from, &to, l->err);
    return rc < 0 ? rc : lower_set(l, 0, &dest);
}

int lower_resize(const struct lower *l)
{
    return lower_is_integer(l) ? lower_repeat(l) : lower_layer(l);
}

/* ---- moves --------------------------------------------------------- */

/* Lowering only moves or repeats the elements of input 0, or of all inputs of
 * a concatenation. */
static bool is_move(const struct graph *g, const struct graph_node *n)
{
    int64_t by[INFER_MAX_RANK];

    return n->op != GRAPH_NONE &&
           (graph_op_info(n->op)->moves || repeats(g, n, by));
}

/* What integers of a value stand for. */
struct meaning {
    enum infer_dtype dtype;
    float scale;
    int zero;
};

static bool same_meaning(const struct meaning *a, const struct meaning *b)
{
    return a->dtype == b->dtype && a->scale == b->scale && a->zero == b->zero;
}

static bool input_meaning(const struct graph *g, const struct graph_node *n,
                          int i, struct meaning *m)
{
    const struct graph_node *d = integers_maker(g, n, i, GRAPH_DEQUANTIZE);

    if (!d || d->in[0] < 0 || !quant_is_byte(g->value[d->in[0]].dtype) ||
        g->value[d->in[0]].data || graph_is_output(g, n->in[i]))
        return false;
    m->dtype = g->value[d->in[0]].dtype;
    return integers_scale(g, d, &m->scale, &m->zero);
}

static bool output_meaning(const struct plan *plan, int node, int k,
                           struct meaning *m)
{
    const int after = integers_quantize_after(plan, node, k);

    if (after < 0)
        return false;
    m->dtype = plan->g->node[after].attr.quantize.to;
    return integers_scale(plan->g, &plan->g->node[after], &m->scale, &m->zero);
}

static int moved_inputs(const struct graph_node *n)
{
    return n->op == GRAPH_CONCAT ? n->n_in : 1;
}

/* True if integers come in and go out, of one meaning but for the parts of a
 * concatenation. */
static bool moves_integers(const struct plan *plan, int node)
{
    const struct graph_node *n = &plan->g->node[node];
    struct meaning to, m;

    if (n->op == GRAPH_NONE || n->n_in < 1 || n->n_out < 1 ||
        !output_meaning(plan, node, 0, &to) || !is_move(plan->g, n))
        return false;
    for (int k = 1; k < n->n_out; k++)
        if (n->out[k] < 0 || !output_meaning(plan, node, k, &m) ||
            !same_meaning(&m, &to))
            return false;
    for (int i = 0; i < moved_inputs(n); i++)
        if (n->in[i] < 0 || !input_meaning(plan->g, n, i, &m) ||
            (n->op != GRAPH_CONCAT && !same_meaning(&m, &to)) ||
            quant_is_integer(m.dtype) != quant_is_integer(to.dtype))
            return false;
    return true;
}

static void mark_move(struct plan *plan, int node, bool on, int *reads)
{
    const struct graph_node *n = &plan->g->node[node];

    plan->integers[node] = on;
    for (int i = 0; i < moved_inputs(n); i++)
        integers_count(plan->g, n, i, on ? 1 : -1, reads);
    for (int k = 0; k < n->n_out; k++)
        plan->integers[integers_quantize_after(plan, node, k)] = on;
}

/* True if nothing reads floats of the move's inputs. */
static bool reads_integers(const struct plan *plan, int node, const int *reads)
{
    const struct graph_node *n = &plan->g->node[node];

    for (int i = 0; i < moved_inputs(n); i++)
        if (reads[n->in[i]] != plan->value[n->in[i]].uses)
            return false;
    return true;
}

/* A move that is given up leaves floats to others: until none is. */
void integers_mark_moves(struct plan *plan, int *reads)
{
    const struct graph *g = plan->g;
    bool changed = true;

    for (int i = 0; i < g->n_nodes; i++)
        if (moves_integers(plan, i))
            mark_move(plan, i, true, reads);
    while (changed) {
        changed = false;
        for (int i = 0; i < g->n_nodes; i++)
            /* A resize in 8 bits is a move: it is not asked again. */
            if (plan->integers[i] &&
                (g->node[i].op == GRAPH_RESIZE || is_move(g, &g->node[i])) &&
                !reads_integers(plan, i, reads)) {
                mark_move(plan, i, false, reads);
                changed = true;
            }
    }
}

/* ---- concatenation ------------------------------------------------- */

/* Copies part i to its place, in the output's scale. */
static int put_part(const struct lower *l, int i, const struct meaning *to,
                    const struct view *part)
{
    const struct view *from = lower_in(l, i);
    struct kern_quant q = {.y_scale = to->scale, .y_zero = to->zero};
    struct meaning m;
    bool taken;
    int rc;

    if (!input_meaning(l->plan->g, l->node, i, &m))
        return error_set(l->err, INFER_EFORMAT, "node '%s': not on integers",
                         l->node->name ? l->node->name : "");
    if (same_meaning(&m, to))
        return plan_copy_to(l->plan, l->index, from, part, l->err);
    q.x_scale = m.scale;
    q.x_zero = m.zero;
    rc = plan_copy_scaled(l->plan, l->index, from, part, &q, l->err, &taken);
    return rc < 0 || taken ? rc
                           : error_set(l->err, INFER_EUNSUPPORTED,
                                       "node '%s': no kernel changes scales",
                                       l->node->name ? l->node->name : "");
}

int lower_concat_integers(const struct lower *l)
{
    const struct graph_value *y = lower_out(l, 0);
    const struct view *x = lower_in(l, 0);
    struct meaning to;
    struct view dest, part;
    int64_t at = 0;
    int rc;

    if (!output_meaning(l->plan, l->index, 0, &to))
        return error_set(l->err, INFER_EFORMAT, "node '%s': not on integers",
                         l->node->name ? l->node->name : "");
    rc = plan_buffer(l->plan, l->index, to.dtype, y->rank, y->dim,
                     view_layout(&x->t), l->err, &dest);
    for (int i = 0; rc == 0 && i < l->node->n_in; i++) {
        rc = problem_place(l->plan->g, l->node, i, &dest, &at, l->err, &part);
        if (rc == 0)
            rc = put_part(l, i, &to, &part);
    }
    return rc < 0 ? rc : lower_set(l, 0, &dest);
}
