/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fold-constants: nodes whose inputs are all constant are computed now, on
 * the reference backend, and become constants.
 *
 * Nodes that only give elements another shape or order are done in place of
 * that; the rest is gathered into one small graph and run once.  A node that
 * the reference does not compute stays in the graph.
 */
#include "weights/passes/pass.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "weights/evaluate.h"

/* Folding must not make a small file large: results beyond the size of what
 * they were computed from are limited to this, all together. */
#define MAX_GROWTH ((int64_t)64 << 20)

/* The same of memory and work (evaluate.h), and what each byte of the weights
 * allows in addition: networks standardise all of their weights, in ten steps
 * or so. */
#define MAX_LIVE       ((uint64_t)96 << 20)
#define LIVE_OF_A_BYTE 12
#define MAX_WORK       4e9
#define WORK_OF_A_BYTE 200

/* When the nodes cannot be run together, this many are tried alone. */
#define MAX_SINGLE 64

struct folding {
    struct pass *p;
    unsigned char *folded; /* of each node: will be computed */
    int64_t growth;        /* bytes so far */
    struct weights_limits most;
};

/* ---- reshaping ----------------------------------------------------- */

/* The node's output becomes constant c (taken over), the node goes. */
static void replace(struct pass *p, int node, struct constant *c)
{
    int value = p->g->node[node].out[0];

    pass_note(p, 0, "%s (%s)", p->g->node[node].name,
              graph_op_info(p->g->node[node].op)->name);
    pass_kill(p, node);
    p->g->value[value].producer = -1;
    pass_put_constant(p, value, c);
}

static struct constant *copy_with_shape(const struct constant *c,
                                        const struct graph_value *v)
{
    struct constant *to = constant_new(c->dtype, v->rank, v->dim);

    if (to && to->bytes == c->bytes)
        memcpy(to->data, c->data, c->bytes);
    return to;
}

static struct constant *transpose(const struct constant *c,
                                  const struct graph_dims *dims)
{
    int order[INFER_MAX_RANK];

    for (int i = 0; i < c->rank; i++)
        order[i] = dims->n == c->rank ? (int)dims->dim[i] : c->rank - 1 - i;
    return constant_transpose(c, order);
}

/* Nodes that only rename the places of elements.  1, 0 or an error. */
static int fold_movement(struct pass *p, int node)
{
    const struct graph_node *n = &p->g->node[node];
    const struct graph_value *out = &p->g->value[n->out[0]];
    struct constant *c = pass_constant(p, n, 0);
    struct constant *to;

    if (!c || n->n_in < 1 || p->is_output[n->out[0]] || !pass_known_shape(out))
        return 0;
    if (n->op == GRAPH_TRANSPOSE)
        to = transpose(c, &n->attr.dims);
    else if (!pass_is_reshape(n))
        return 0;
    /* Weights are edited in place later: bytes that another node, or a copy of
     * the graph, still reads may not be shared. */
    else if (p->readers[n->in[0]] == 1 && c->refs == 1)
        to = constant_reshape(c, out->rank, out->dim);
    else
        to = copy_with_shape(c, out);
    if (!to)
        return pass_no_memory(p);
    replace(p, node, to);
    return 1;
}

/* ---- computing ----------------------------------------------------- */

static int64_t value_bytes(const struct graph_value *v)
{
    int64_t n;

    if (!checked_count(v->rank, v->dim, &n) ||
        !checked_mul_i64(n, (int64_t)infer_dtype_size(v->dtype), &n))
        return INT64_MAX;
    return n;
}

static bool is_folded(const struct folding *f, int value)
{
    int producer = f->p->g->value[value].producer;

    if (producer < 0)
        return pass_value_constant(f->p, value) != NULL;
    return f->folded[producer];
}

/* True for weights and biases that a layer reads: they stay integers in the
 * file, and kernels for integers take them. */
static bool is_quantised_weight(const struct pass *p,
                                const struct graph_node *n)
{
    const int reader =
        n->op == GRAPH_DEQUANTIZE ? pass_reader(p, n->out[0]) : -1;
    const struct graph_node *layer = reader >= 0 ? &p->g->node[reader] : NULL;

    return layer && (layer->op == GRAPH_CONV || layer->op == GRAPH_DENSE) &&
           n->out[0] != layer->in[0];
}

static bool can_fold(struct folding *f, int node)
{
    const struct graph *g = f->p->g;
    const struct graph_node *n = &g->node[node];
    int64_t in = 0, out = 0;

    if (n->n_in < 1 || is_quantised_weight(f->p, n))
        return false;
    for (int i = 0; i < n->n_in; i++) {
        if (n->in[i] < 0)
            continue;
        if (!is_folded(f, n->in[i]))
            return false;
        if (!checked_add_i64(in, value_bytes(&g->value[n->in[i]]), &in))
            return false;
    }
    for (int i = 0; i < n->n_out; i++) {
        const struct graph_value *v = &g->value[n->out[i]];

        if (f->p->is_output[n->out[i]] || !pass_known_shape(v) ||
            v->dtype == INFER_NONE ||
            !checked_add_i64(out, value_bytes(v), &out))
            return false;
    }
    if (out > in) {
        if (out - in > MAX_GROWTH - f->growth)
            return false;
        f->growth += out - in;
    }
    return true;
}

/* Whether something outside the small graph reads a value. */
static bool wanted(const struct folding *f, int value)
{
    const struct graph *g = f->p->g;
    int reader = pass_reader(f->p, value);

    return f->p->readers[value] > 0 &&
           (reader < 0 || g->node[reader].op == GRAPH_NONE ||
            !f->folded[reader]);
}

/* Takes the results over.  A node goes once its wanted value is there, which is
 * why a failed read leaves the graph as it was. */
static int take_results(struct folding *f, const int *value, int n,
                        struct constant **result)
{
    int changes = 0;

    for (int i = 0; i < n; i++)
        if (result[i]) {
            replace(f->p, f->p->g->value[value[i]].producer, result[i]);
            changes++;
        }
    return changes;
}

/* Runs the marked nodes.  Returns how many results were taken, or a negative
 * status where the run failed. */
static int run_marked(struct folding *f)
{
    struct graph *g = f->p->g;
    int *value = malloc(((size_t)g->n_nodes + 1) * sizeof *value);
    struct constant **result =
        calloc((size_t)g->n_nodes + 1, sizeof(struct constant *));
    int count = 0, rc = INFER_EMEMORY;

    for (int n = 0; n < g->n_nodes && value; n++)
        if (f->folded[n] && g->node[n].n_out == 1 &&
            wanted(f, g->node[n].out[0]))
            value[count++] = g->node[n].out[0];
    if (value && result)
        rc = count ? weights_evaluate(g, f->folded, &f->most, value, count,
                                      result, NULL)
                   : 0;
    if (rc == 0)
        rc = take_results(f, value, count, result);
    free(value);
    free(result);
    return rc;
}

/* One node after the other, each with constant inputs of its own. */
static int run_singly(struct folding *f, int n_nodes)
{
    int changes = 0, tries = 0;
    unsigned char *all = f->folded;
    unsigned char *one = calloc((size_t)n_nodes + 1, 1);

    if (!one)
        return pass_no_memory(f->p);
    f->folded = one;
    f->most.work /= MAX_SINGLE / 4;
    for (int n = 0; n < n_nodes && tries < MAX_SINGLE; n++) {
        if (!all[n] || f->p->g->node[n].op == GRAPH_NONE || !can_fold(f, n))
            continue;
        one[n] = 1;
        tries++;
        if (run_marked(f) > 0)
            changes++;
        one[n] = 0;
    }
    f->folded = all;
    free(one);
    return changes;
}

/* ---- what is larger as a constant ----------------------------------- */

/* Expansions of this many bytes stay nodes where nothing but moves and
 * arithmetic of the runtime reads them: the pass store-fills makes such nodes.
 */
#define LEAST_STORED 65536

static bool is_expansion(const struct folding *f, int node)
{
    const struct graph *g = f->p->g;
    const struct graph_node *n = &g->node[node];
    const int x = pass_input(n, 0);
    const int from = x >= 0 ? g->value[x].producer : -1;
    const struct constant *c = x >= 0 ? pass_value_constant(f->p, x) : NULL;

    if (n->op == GRAPH_EXPAND)
        return c && constant_count(c) == 1;
    return (n->op == GRAPH_CUMULATE || n->op == GRAPH_CAST) && from >= 0 &&
           f->folded[from] && is_expansion(f, from);
}

/* Takes the marks of expansions back, readers before what they read.  Returns
 * how many. */
static int keep_expansions(struct folding *f)
{
    const struct graph *g = f->p->g;
    unsigned char *wanted_whole = calloc((size_t)g->n_values + 1, 1);
    int kept = 0;

    if (!wanted_whole)
        return pass_no_memory(f->p);
    for (int n = g->n_nodes - 1; n >= 0; n--) {
        const struct graph_node *node = &g->node[n];
        bool kept_here = false;

        if (node->op == GRAPH_NONE)
            continue;
        if (f->folded[n] && is_expansion(f, n) && !wanted_whole[node->out[0]] &&
            value_bytes(&g->value[node->out[0]]) >= LEAST_STORED) {
            kept_here = true;
            kept++;
        }
        for (int i = 0; i < node->n_in; i++)
            if (node->in[i] >= 0 && !kept_here &&
                (f->folded[n] || !pass_takes_nodes(node, node->in[i])))
                wanted_whole[node->in[i]] = 1;
        if (kept_here)
            f->folded[n] = 2;
    }
    for (int n = 0; n < g->n_nodes; n++)
        if (f->folded[n] == 2)
            f->folded[n] = 0;
    free(wanted_whole);
    return kept;
}

static int fold(struct folding *f)
{
    struct graph *g = f->p->g;
    int n_nodes = g->n_nodes;
    int moved = 0, marked = 0, rc = 0;

    for (int n = 0; n < n_nodes && rc >= 0; n++) {
        if (g->node[n].op == GRAPH_NONE)
            continue;
        rc = fold_movement(f->p, n);
        if (rc > 0)
            moved++;
        else if (rc == 0 && can_fold(f, n))
            marked += f->folded[n] = 1;
    }
    if (rc >= 0 && marked > 0) {
        rc = keep_expansions(f);
        marked -= rc;
    }
    if (rc < 0 || marked == 0)
        return rc < 0 ? rc : moved;
    f->growth = 0;
    rc = run_marked(f);
    if (rc < 0)
        rc = run_singly(f, n_nodes);
    return rc < 0 ? rc : moved + rc;
}

int pass_fold_constants(struct pass *p)
{
    const double weights = (double)weights_constant_bytes(p->g);
    struct folding f = {
        p,
        NULL,
        0,
        {MAX_LIVE + (uint64_t)(LIVE_OF_A_BYTE * weights),
         MAX_WORK + WORK_OF_A_BYTE * weights},
    };
    int rc;

    f.folded = calloc((size_t)p->g->n_nodes + 1, 1);
    rc = f.folded ? fold(&f) : pass_no_memory(p);
    free(f.folded);
    return rc;
}
