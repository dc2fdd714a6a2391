/* SPDX-License-Identifier: Apache-2.0 */
/* Which layers and tensors are quantised, and their ranges; rewrite.c changes
 * the graph. */
#include "weights/quantize/quantizer.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/scalar.h"

void quantize_options_init(struct quantize_options *options)
{
    *options = (struct quantize_options){
        .dtype = INFER_I8, .method = QUANTIZE_MSE, .bias_correction = true};
}

/* ---- patterns ------------------------------------------------------ */

/* True if pattern number *at of the list meets the name, or another one. */
static bool meets(const char *patterns, const char *name, unsigned *met)
{
    char one[256];
    bool found = false;
    unsigned bit = 1;

    while (patterns && *patterns) {
        const size_t n = strcspn(patterns, ",");

        if (n < sizeof one) {
            memcpy(one, patterns, n);
            one[n] = '\0';
            if (fnmatch(one, name, 0) == 0) {
                found = true;
                *met |= bit;
            }
        }
        bit <<= 1;
        patterns += n + (patterns[n] == ',');
    }
    return found;
}

static int check_patterns(const struct quantizer *q, unsigned met,
                          struct infer_error *err)
{
    const char *p = q->options.keep_float;

    for (unsigned bit = 1; p && *p; bit <<= 1) {
        const size_t n = strcspn(p, ",");

        if (bit == 0)
            return error_set(err, INFER_EARGUMENT,
                             "more than 32 patterns of layers");
        if (!(met & bit))
            return error_set(err, INFER_EARGUMENT,
                             "no layer with weights is named '%.*s'", (int)n,
                             p);
        p += n + (p[n] == ',');
    }
    return INFER_OK;
}

/* ---- layers -------------------------------------------------------- */

/* Why a layer stays in floats whatever its input holds, or NULL. */
static const char *refusal(const struct graph *g, const struct graph_node *n)
{
    const struct graph_value *x = &g->value[n->in[0]];
    const struct constant *w = g->value[n->in[1]].data;

    if (n->op == GRAPH_CONV_TRANSPOSE)
        return "a transposed convolution";
    if (n->op == GRAPH_MATMUL)
        return "a product of two computed matrices";
    if (!w || !w->data || !scalar_is_float(w->dtype))
        return "its weights are no constant floats";
    if (n->n_in > 2 && n->in[2] >= 0 &&
        (!g->value[n->in[2]].data || !g->value[n->in[2]].data->data))
        return "its bias is computed";
    if (x->data)
        return "its input is constant";
    if (x->dtype != INFER_NONE && x->dtype != INFER_F32)
        return scalar_is_float(x->dtype)
                   ? "its input is not F32 (--dtype=fp32 converts)"
                   : "its input holds integers";
    return NULL;
}

static bool is_layer(const struct graph_node *n)
{
    return n->op == GRAPH_CONV || n->op == GRAPH_CONV_TRANSPOSE ||
           n->op == GRAPH_DENSE || n->op == GRAPH_MATMUL;
}

static int find_layers(struct quantizer *q, struct infer_error *err)
{
    const struct graph *g = q->g;
    unsigned met = 0;

    for (int i = 0; i < g->n_nodes; i++) {
        const struct graph_node *n = &g->node[i];
        struct quantize_layer *l = &q->layer[q->n_layers];

        if (!is_layer(n))
            continue;
        l->name = n->name ? n->name : "";
        l->x = n->in[0];
        l->y = n->out[0];
        l->why = refusal(g, n);
        if (meets(q->options.keep_float, l->name, &met) && !l->why)
            l->why = "asked for";
        q->fixed[q->n_layers] = l->why != NULL;
        q->node[q->n_layers++] = i;
    }
    return check_patterns(q, met, err);
}

/* ---- tensors ------------------------------------------------------- */

/* The tensor of a value, added if there is none yet. */
static int add_tensor(struct quantizer *q, int value)
{
    int t = q->tensor_of[value];

    if (t < 0) {
        t = q->n_tensors++;
        q->tensor_of[value] = t;
        q->value[t] = value;
        q->group[t] = t;
    }
    return t;
}

/* The first tensor of those that share a scale with t. */
int quantizer_group(const struct quantizer *q, int t)
{
    while (q->group[t] != t)
        t = q->group[t];
    return t;
}

/* True of a resize to the nearest neighbour by whole factors. */
static bool repeats_elements(const struct graph *g, const struct graph_node *n)
{
    const struct graph_value *x, *y;

    if (n->op != GRAPH_RESIZE || n->in[0] < 0 ||
        n->attr.resize.resize.mode != KERN_NEAREST)
        return false;
    x = &g->value[n->in[0]];
    y = &g->value[n->out[0]];
    for (int d = 0; d < x->rank; d++)
        if (x->dim[d] != y->dim[d] &&
            (x->dim[d] < 1 || y->dim[d] < 1 || y->dim[d] % x->dim[d] != 0))
            return false;
    return x->rank > 0 && x->rank == y->rank;
}

/* True for operations whose output holds elements of their inputs alone: they
 * run on integers if both have one scale. */
static bool moves_elements(const struct graph *g, const struct graph_node *n)
{
    if (repeats_elements(g, n))
        return true;
    if (n->op == GRAPH_POOL)
        return n->attr.pool.pool.kind == KERN_POOL_MAX &&
               n->epilogue.act.kind == KERN_IDENTITY;
    return n->op != GRAPH_NONE && graph_op_info(n->op)->moves;
}

/* The mean over a whole image, which is a pool in 8 bits. */
static bool is_plain_mean(const struct graph *g, const struct graph_node *n)
{
    const struct graph_reduce *a = &n->attr.reduce;
    unsigned axes = 0;
    int rank;

    if (n->op != GRAPH_REDUCE || a->kind != KERN_REDUCE_MEAN || n->in[0] < 0)
        return false;
    rank = g->value[n->in[0]].rank;
    if (rank < 3)
        return false;
    for (int i = 0; i < a->n_axes; i++)
        axes |= 1u << (a->axis[i] < 0 ? a->axis[i] + rank : a->axis[i]);
    return axes == (1u << rank) - 4;
}

/* Operands of other ranks have no step in 8 bits. */
static bool is_plain_binary(const struct graph *g, const struct graph_node *n)
{
    const enum kern_binary_kind kind = n->attr.binary.kind;

    return n->op == GRAPH_BINARY && n->n_in == 2 && n->in[0] >= 0 &&
           n->in[1] >= 0 &&
           g->value[n->in[0]].rank == g->value[n->in[1]].rank &&
           (kind == KERN_ADD || kind == KERN_SUB || kind == KERN_MUL) &&
           (n->epilogue.act.kind == KERN_IDENTITY ||
            n->epilogue.act.kind == KERN_RELU ||
            n->epilogue.act.kind == KERN_CLIP);
}

/* A concatenation stays float: there it is built in place, in 8 bits by
 * copies. */
static bool is_plain_scale(const struct graph *g, const struct graph_node *n)
{
    const int producer = n->in[0] >= 0 ? g->value[n->in[0]].producer : -1;

    return n->op == GRAPH_SCALE_SHIFT && n->n_in <= 3 &&
           (producer < 0 || g->node[producer].op != GRAPH_CONCAT) &&
           (n->epilogue.act.kind == KERN_IDENTITY ||
            n->epilogue.act.kind == KERN_RELU ||
            n->epilogue.act.kind == KERN_CLIP);
}

/* True for operations that have kernels from 8 bits of one scale to 8 bits of
 * another: sums, differences, products, scales with shifts, and means. */
static bool computes_in_bytes(const struct graph *g, const struct graph_node *n)
{
    return is_plain_binary(g, n) || is_plain_mean(g, n) ||
           is_plain_scale(g, n) ||
           (n->op == GRAPH_POOL &&
            n->attr.pool.pool.kind == KERN_POOL_AVERAGE &&
            n->epilogue.act.kind == KERN_IDENTITY);
}

/* True unless input i is broadcast to the output: one number a channel, as the
 * gate of squeeze-and-excitation, stays float. */
static bool is_whole(const struct graph *g, const struct graph_node *n, int i)
{
    const struct graph_value *x = &g->value[n->in[i]];
    const struct graph_value *y = &g->value[n->out[0]];

    return n->op != GRAPH_BINARY ||
           (x->rank == y->rank && x->rank > 1 &&
            memcmp(x->dim, y->dim, (size_t)x->rank * sizeof x->dim[0]) == 0);
}

/* Inputs of a node that are in 8 bits where its output is: the first so many,
 * of which is_whole() says more. */
static int inputs_in_bytes(const struct graph *g, const struct graph_node *n)
{
    if (n->op == GRAPH_CONCAT)
        return n->n_in;
    if (moves_elements(g, n))
        return 1;
    return computes_in_bytes(g, n) ? (n->op == GRAPH_BINARY ? 2 : 1) : 0;
}

/* A node that computes a tensor in 8 bits: its inputs become tensors with
 * scales of their own. */
static void add_inputs(struct quantizer *q, const struct graph_node *n)
{
    if (n->out[0] < 0 || q->tensor_of[n->out[0]] < 0)
        return;
    for (int i = 0; i < inputs_in_bytes(q->g, n); i++)
        if (n->in[i] >= 0 && !q->g->value[n->in[i]].data &&
            is_whole(q->g, n, i))
            add_tensor(q, n->in[i]);
}

/* A node that moves elements of a tensor: its inputs become tensors of the same
 * group. */
static void join_inputs(struct quantizer *q, const struct graph_node *n)
{
    const int inputs = inputs_in_bytes(q->g, n);

    for (int k = 0; k < n->n_out; k++) {
        if (n->out[k] < 0 || q->tensor_of[n->out[k]] < 0)
            continue;
        for (int i = 0; i < inputs; i++) {
            int a, b;

            if (n->in[i] < 0 || q->g->value[n->in[i]].data)
                continue;
            a = quantizer_group(q, q->tensor_of[n->out[k]]);
            b = quantizer_group(q, add_tensor(q, n->in[i]));
            q->group[a > b ? a : b] = a > b ? b : a;
        }
    }
}

/* The residual of a layer if it is computed, or -1. */
static int residual_of(const struct graph *g, const struct graph_node *n)
{
    const int at = graph_op_info(n->op)->max_in;

    return n->n_in > at && n->in[at] >= 0 && !g->value[n->in[at]].data
               ? n->in[at]
               : -1;
}

/* Inputs and residuals of the layers; then, against the order of the graph,
 * what these are made of in 8 bits. */
static void find_tensors(struct quantizer *q)
{
    const struct graph *g = q->g;

    for (int i = 0; i < q->n_layers; i++) {
        const struct graph_node *n = &g->node[q->node[i]];
        const int residual = residual_of(g, n);

        if (q->layer[i].why)
            continue;
        add_tensor(q, n->in[0]);
        if (residual >= 0)
            add_tensor(q, residual);
    }
    for (int i = g->n_nodes - 1; i >= 0; i--)
        if (moves_elements(g, &g->node[i]))
            join_inputs(q, &g->node[i]);
        else if (g->node[i].op != GRAPH_NONE)
            add_inputs(q, &g->node[i]);
}

/* Inputs of a node that moves elements, or computes in 8 bits, are wanted where
 * an output is. */
static void want_inputs(const struct quantizer *q, const struct graph_node *n,
                        bool *wanted)
{
    const int inputs = inputs_in_bytes(q->g, n);

    for (int k = 0; k < n->n_out; k++) {
        const int t = n->out[k] < 0 ? -1 : q->tensor_of[n->out[k]];

        for (int i = 0; t >= 0 && wanted[t] && i < inputs; i++)
            if (n->in[i] >= 0 && q->tensor_of[n->in[i]] >= 0 &&
                is_whole(q->g, n, i))
                wanted[q->tensor_of[n->in[i]]] = true;
    }
}

void quantizer_mark_wanted(const struct quantizer *q, bool *wanted)
{
    const struct graph *g = q->g;

    for (int t = 0; t < q->n_tensors; t++)
        wanted[t] = false;
    for (int i = 0; i < q->n_layers; i++) {
        const struct graph_node *n = &g->node[q->node[i]];
        const int residual = residual_of(g, n);

        if (q->layer[i].why)
            continue;
        wanted[q->tensor_of[n->in[0]]] = true;
        if (residual >= 0)
            wanted[q->tensor_of[residual]] = true;
    }
    for (int i = g->n_nodes - 1; i >= 0; i--)
        if (g->node[i].op != GRAPH_NONE)
            want_inputs(q, &g->node[i], wanted);
}

void quantizer_keep(struct quantizer *q, int i, const char *why)
{
    if (!q->fixed[i])
        q->layer[i].why = why;
}

/* ---- open and close ------------------------------------------------ */

static int allocate(struct quantizer *q, struct infer_error *err)
{
    const size_t nodes = (size_t)q->g->n_nodes + 1;
    const size_t values = (size_t)q->g->n_values + 1;

    q->layer = calloc(nodes, sizeof *q->layer);
    q->node = calloc(nodes, sizeof *q->node);
    q->fixed = calloc(nodes, sizeof *q->fixed);
    q->value = calloc(values, sizeof *q->value);
    q->group = calloc(values, sizeof *q->group);
    q->range = calloc(values, sizeof *q->range);
    q->tensor_of = calloc(values, sizeof *q->tensor_of);
    if (!q->layer || !q->node || !q->fixed || !q->value || !q->group ||
        !q->range || !q->tensor_of)
        return error_set(err, INFER_EMEMORY, "out of memory");
    for (size_t v = 0; v < values; v++)
        q->tensor_of[v] = -1;
    return INFER_OK;
}

int quantizer_open(const struct graph *g,
                   const struct quantize_options *options,
                   struct infer_error *err, struct quantizer **out)
{
    struct quantizer *q = calloc(1, sizeof *q);
    int rc;

    if (!q)
        return error_set(err, INFER_EMEMORY, "out of memory");
    q->g = g;
    q->n_values = g->n_values;
    q->options = *options;
    rc = allocate(q, err);
    if (rc == INFER_OK)
        rc = find_layers(q, err);
    if (rc < 0) {
        quantizer_close(q);
        return rc;
    }
    find_tensors(q);
    *out = q;
    return INFER_OK;
}

void quantizer_close(struct quantizer *q)
{
    if (!q)
        return;
    for (int t = 0; q->range && t < q->n_tensors; t++)
        range_clear(&q->range[t]);
    free(q->layer);
    free(q->node);
    free(q->fixed);
    free(q->value);
    free(q->group);
    free(q->range);
    free(q->tensor_of);
    free(q);
}

int quantizer_watched(const struct quantizer *q, const int **values)
{
    *values = q->value;
    return q->n_tensors;
}

int quantizer_layers(const struct quantizer *q,
                     const struct quantize_layer **layers)
{
    *layers = q->layer;
    return q->n_layers;
}

/* ---- samples ------------------------------------------------------- */

int quantizer_observe(struct quantizer *q, int i, const float *data, int rank,
                      const int64_t *dim, struct infer_error *err)
{
    int64_t n = 1;
    int rc;

    for (int d = 0; d < rank; d++)
        n *= dim[d];
    rc = q->round == 0 ? range_observe(&q->range[i], data, rank, dim, err)
                       : range_count(&q->range[i], data, n, err);
    if (rc < 0)
        error_prefix(err, "tensor '%s'", q->g->value[q->value[i]].name);
    return rc;
}

/* Gives all tensors of a group the limits of all. */
static void join_limits(struct quantizer *q)
{
    for (int pass = 0; pass < 2; pass++)
        for (int t = 0; t < q->n_tensors; t++) {
            const int first = quantizer_group(q, t);

            range_join(&q->range[pass ? t : first],
                       &q->range[pass ? first : t]);
        }
}

/* Gathers the magnitudes of each group in its first tensor. */
static void join_counts(struct quantizer *q)
{
    for (int t = 0; t < q->n_tensors; t++)
        if (quantizer_group(q, t) != t)
            range_add_counts(&q->range[quantizer_group(q, t)], &q->range[t]);
}

int quantizer_next(struct quantizer *q)
{
    if (q->round == 0)
        join_limits(q); /* magnitudes of a group are counted alike */
    else
        join_counts(q);
    return q->round++ == 0 && q->options.method != QUANTIZE_MAX;
}
