/* SPDX-License-Identifier: Apache-2.0 */
/* remove-identity and remove-dropout: nodes whose output equals their first
 * input, always or outside training.  Readers are redirected once, at the end,
 * so that the time is linear in the graph. */
#include "weights/passes/pass.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/base/scalar.h"

/* Every element of a constant equals x; an absent one too where allowed. */
static bool all_equal(const struct pass *p, const struct graph_node *n, int i,
                      double x)
{
    const struct constant *c = pass_constant(p, n, i);

    if (!c)
        return pass_input(n, i) < 0;
    for (int64_t e = 0; e < constant_count(c); e++)
        if (scalar_load(c->dtype, c->data, e) != x)
            return false;
    return true;
}

static int free_dimensions(const struct graph_value *v)
{
    int n = 0;

    for (int i = 0; i < v->rank; i++)
        n += v->dim[i] < 0;
    return n;
}

/* ---- operations that may give their first input unchanged ---------- */

/* Asked once type and shape of input x and of the output are equal. */
typedef bool identity_fn(const struct pass *p, const struct graph_node *n,
                         const struct graph_value *x);

static bool always(const struct pass *p, const struct graph_node *n,
                   const struct graph_value *x)
{
    (void)p;
    (void)n;
    (void)x;
    return true;
}

static bool single_part(const struct pass *p, const struct graph_node *n,
                        const struct graph_value *x)
{
    (void)p;
    (void)x;
    return n->n_in == 1;
}

/* A free dimension looks the same when it is repeated. */
static bool no_repeats(const struct pass *p, const struct graph_node *n,
                       const struct graph_value *x)
{
    (void)p;
    (void)x;
    for (int i = 0; i < n->attr.dims.n; i++)
        if (n->attr.dims.dim[i] != 1)
            return false;
    return true;
}

/* A free dimension looks the same when one entry of it is repeated. */
static bool no_widening(const struct pass *p, const struct graph_node *n,
                        const struct graph_value *x)
{
    const struct graph_dims *d = &n->attr.dims;

    (void)p;
    for (int i = 0; i < d->n; i++)
        if (d->dim[i] != 1 && d->dim[i] != -1 &&
            (d->n > x->rank || x->dim[x->rank - d->n + i] < 0))
            return false;
    return true;
}

/* With two free dimensions sizes could move between them. */
static bool same_dimensions(const struct pass *p, const struct graph_node *n,
                            const struct graph_value *x)
{
    (void)p;
    (void)n;
    return free_dimensions(x) <= 1;
}

static bool in_order(const struct pass *p, const struct graph_node *n,
                     const struct graph_value *x)
{
    const struct graph_dims *order = &n->attr.dims;

    (void)p;
    (void)x;
    for (int i = 0; i < order->n; i++)
        if (order->dim[i] != i)
            return false;
    return order->n > 0;
}

static bool whole_slice(const struct pass *p, const struct graph_node *n,
                        const struct graph_value *x)
{
    const struct graph_slice *s = &n->attr.slice;

    (void)p;
    for (int i = 0; i < s->n_axes; i++) {
        int axis = s->axis[i] < 0 ? s->axis[i] + x->rank : s->axis[i];

        if (axis < 0 || axis >= x->rank || s->step[i] != 1)
            return false;
        /* The end of a free dimension is not known: only a slice without an end
         * takes all of it. */
        if (x->dim[axis] < 0 && (s->begin[i] != 0 || s->end[i] < INT32_MAX))
            return false;
    }
    return true;
}

static bool no_padding(const struct pass *p, const struct graph_node *n,
                       const struct graph_value *x)
{
    const struct kern_pad *pad = &n->attr.pad;

    (void)p;
    for (int i = 0; i < x->rank; i++)
        if (pad->begin[i] != 0 || pad->end[i] != 0)
            return false;
    return true;
}

static bool no_scaling(const struct pass *p, const struct graph_node *n,
                       const struct graph_value *x)
{
    const struct graph_resize *r = &n->attr.resize;

    (void)p;
    if (pass_input(n, 1) >= 0)
        return false;
    for (int i = 0; i < x->rank; i++)
        if (r->n_sizes == 0 && r->resize.scale[i] != 1.0f)
            return false;
    return true;
}

/* A window of one element that takes every element; or global pooling of
 * planes of one element. */
static bool single_element_pool(const struct pass *p,
                                const struct graph_node *n,
                                const struct graph_value *x)
{
    const struct graph_pool *pool = &n->attr.pool;

    (void)p;
    for (int i = 0; i < x->rank - 2; i++) {
        int window = pool->pool.window[i];

        if (window == 0 ? x->dim[2 + i] != 1
                        : window != 1 || pool->pool.stride[i] != 1 ||
                              pool->pool.pad_begin[i] != 0 ||
                              pool->pool.pad_end[i] != 0)
            return false;
    }
    return true;
}

static bool single_element_reduce(const struct pass *p,
                                  const struct graph_node *n,
                                  const struct graph_value *x)
{
    const struct graph_reduce *r = &n->attr.reduce;

    (void)p;
    if (!r->keep_dims || r->n_axes == 0 || r->kind == KERN_REDUCE_L1 ||
        r->kind == KERN_REDUCE_L2)
        return false;
    for (int i = 0; i < r->n_axes; i++) {
        int axis = r->axis[i] < 0 ? r->axis[i] + x->rank : r->axis[i];

        if (axis < 0 || axis >= x->rank || x->dim[axis] != 1)
            return false;
    }
    return true;
}

static bool no_scale_shift(const struct pass *p, const struct graph_node *n,
                           const struct graph_value *x)
{
    (void)x;
    return all_equal(p, n, 1, 1) && all_equal(p, n, 2, 0);
}

static identity_fn *const identity[GRAPH_OP_COUNT] = {
    [GRAPH_CAST] = always,
    [GRAPH_CONCAT] = single_part,
    [GRAPH_EXPAND] = no_widening,
    [GRAPH_FLATTEN] = same_dimensions,
    [GRAPH_PAD] = no_padding,
    [GRAPH_POOL] = single_element_pool,
    [GRAPH_REDUCE] = single_element_reduce,
    [GRAPH_RESHAPE] = same_dimensions,
    [GRAPH_RESIZE] = no_scaling,
    [GRAPH_SCALE_SHIFT] = no_scale_shift,
    [GRAPH_SLICE] = whole_slice,
    [GRAPH_SPLIT] = always,
    [GRAPH_SQUEEZE] = same_dimensions,
    [GRAPH_TILE] = no_repeats,
    [GRAPH_TRANSPOSE] = in_order,
    [GRAPH_UNSQUEEZE] = same_dimensions,
};

/* ---- functions ----------------------------------------------------- */

static bool identity_function(const struct kern_unary *u)
{
    return u->kind == KERN_IDENTITY ||
           (u->kind == KERN_CLIP && u->a == -INFINITY && u->b == INFINITY) ||
           (u->kind == KERN_LEAKY_RELU && u->a == 1.0f) ||
           (u->kind == KERN_LINEAR && u->a == 1.0f && u->b == 0.0f);
}

/* x + 0, x - 0, x * 1, x / 1, x ^ 1 with the constant second, or first where
 * the function is symmetric: *keep is the operand that stays. */
static bool neutral_operand(const struct pass *p, int node, int *keep)
{
    const struct graph_node *n = &p->g->node[node];
    const enum kern_binary_kind kind = n->attr.binary.kind;
    const bool sum = kind == KERN_ADD || kind == KERN_SUB;
    int variable, constant;
    bool swapped;

    if (!pass_binary_constant(p, node, &variable, &constant, &swapped) ||
        (!sum && kind != KERN_MUL && kind != KERN_DIV && kind != KERN_POW) ||
        (swapped && kind != KERN_ADD && kind != KERN_MUL))
        return false;
    *keep = variable;
    return all_equal(p, n, swapped ? 0 : 1, sum ? 0 : 1);
}

/* ---- the passes ---------------------------------------------------- */

/* A node has an input and only its first output is read. */
static bool has_ends(const struct pass *p, const struct graph_node *n)
{
    if (n->n_in < 1 || n->n_out < 1 || n->in[0] < 0 || !pass_plain(n))
        return false;
    for (int i = 1; i < n->n_out; i++)
        if (n->out[i] >= 0 && p->readers[n->out[i]] != 0)
            return false;
    return true;
}

/* The value that a node passes on unchanged, or -1. */
typedef int passes_fn(const struct pass *p, int node);

static int dropout_passes(const struct pass *p, int node)
{
    const struct graph_node *n = &p->g->node[node];

    return n->op == GRAPH_DROPOUT && has_ends(p, n) ? n->in[0] : -1;
}

static int identity_passes(const struct pass *p, int node)
{
    const struct graph *g = p->g;
    const struct graph_node *n = &g->node[node];
    int from;

    if (n->op == GRAPH_DROPOUT || !has_ends(p, n))
        return -1;
    if (n->op == GRAPH_UNARY)
        return identity_function(&n->attr.unary) ? n->in[0] : -1;
    from = n->in[0];
    if (n->op == GRAPH_BINARY) {
        if (!neutral_operand(p, node, &from))
            return -1;
    }
    if (g->value[from].dtype != g->value[n->out[0]].dtype ||
        !pass_same_shape(&g->value[from], &g->value[n->out[0]]))
        return -1;
    if (n->op != GRAPH_BINARY &&
        (!identity[n->op] || !identity[n->op](p, n, &g->value[from])))
        return -1;
    return from;
}

/* The value that stands for v at last.  Links are shortened on the way, so
 * that long chains cost linear time. */
static int resolve(int *alias, int v)
{
    int root = v;

    while (alias[root] != root)
        root = alias[root];
    while (alias[v] != root) {
        int next = alias[v];

        alias[v] = root;
        v = next;
    }
    return root;
}

/* Merges the output of a node into the value that it passes on.  The name of
 * a graph output must live, so there the merge goes the other way; 0 where
 * that cannot be. */
static int merge(struct pass *p, int node, int from, int *alias)
{
    struct graph *g = p->g;
    int out = g->node[node].out[0];
    int root = resolve(alias, from);
    int producer = g->value[root].producer;

    if (!p->is_output[out]) {
        alias[out] = root;
        return 1;
    }
    if (p->is_output[root] || producer < 0)
        return 0;
    for (int i = 0; i < g->node[producer].n_out; i++)
        if (g->node[producer].out[i] == root)
            g->node[producer].out[i] = out;
    g->node[node].out[0] = root;
    g->value[out].producer = producer;
    g->value[root].producer = node;
    alias[root] = out;
    return 1;
}

static void redirect(struct graph_node *n, int *alias)
{
    for (int i = 0; n->op != GRAPH_NONE && i < n->n_in; i++)
        if (n->in[i] >= 0)
            n->in[i] = resolve(alias, n->in[i]);
}

static int remove_all(struct pass *p, passes_fn *passes, int *alias)
{
    struct graph *g = p->g;
    int changes = 0;

    for (int v = 0; v < g->n_values; v++)
        alias[v] = v;
    for (int n = 0; n < g->n_nodes; n++) {
        int from;

        if (g->node[n].op == GRAPH_NONE)
            continue;
        /* Producers come first, so this node sees what they became. */
        redirect(&g->node[n], alias);
        from = passes(p, n);
        if (from < 0 || !merge(p, n, from, alias))
            continue;
        changes++;
        pass_note(p, 0, "%s (%s)", g->node[n].name,
                  graph_op_info(g->node[n].op)->name);
        pass_kill(p, n);
    }
    for (int n = 0; changes && n < g->n_nodes; n++)
        redirect(&g->node[n], alias);
    return changes;
}

static int run(struct pass *p, passes_fn *passes)
{
    int *alias = malloc(((size_t)p->g->n_values + 1) * sizeof(*alias));
    int rc = alias ? remove_all(p, passes, alias) : pass_no_memory(p);

    free(alias);
    return rc;
}

int pass_remove_identity(struct pass *p)
{
    return run(p, identity_passes);
}

int pass_remove_dropout(struct pass *p)
{
    return run(p, dropout_passes);
}

int pass_remove_dead(struct pass *p)
{
    int n = graph_remove_dead(p->g);

    if (n < 0)
        return error_set(p->err, n, "pass remove-dead: out of memory");
    if (n > 0)
        pass_note(p, 0, "%d nodes", n);
    return n;
}
