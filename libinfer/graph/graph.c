/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs: building, finding, editing.  Order and dead parts: graph_order.c. */
#include "libinfer/graph/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/array.h"
#include "kernels/base/error.h"
#include "libinfer/graph/graph_index.h"

/* ---- memory -------------------------------------------------------- */

struct graph *graph_new(void)
{
    struct graph *g = calloc(1, sizeof(*g));

    if (g == NULL)
        return NULL;
    g->index = graph_index_new();
    g->name = strdup("");
    if (g->index == NULL || g->name == NULL) {
        graph_free(g);
        return NULL;
    }
    return g;
}

static void clear_node(struct graph_node *node)
{
    free(node->name);
    free(node->in);
    free(node->out);
    memset(node, 0, sizeof(*node));
}

void graph_free(struct graph *g)
{
    int i;

    if (g == NULL)
        return;
    for (i = 0; i < g->n_values; i++) {
        free(g->value[i].name);
        constant_unref(g->value[i].data);
    }
    for (i = 0; i < g->n_nodes; i++)
        clear_node(&g->node[i]);
    for (i = 0; i < g->n_labels; i++)
        free(g->label[i]);
    free(g->label);
    free(g->value);
    free(g->node);
    free(g->input);
    free(g->output);
    free(g->preprocess);
    free(g->name);
    free(g->task);
    graph_multiplier_free(g->multiplier);
    graph_index_free(g->index);
    free(g);
}

int graph_no_room(const struct graph *g, struct infer_error *err)
{
    if (g->n_nodes >= GRAPH_MAX_NODES)
        return error_set(err, INFER_EMEMORY, "more nodes than the limit of %d",
                         GRAPH_MAX_NODES);
    if (g->n_values >= GRAPH_MAX_VALUES)
        return error_set(err, INFER_EMEMORY,
                         "more tensors in one network than the limit of %d",
                         GRAPH_MAX_VALUES);
    return error_set(err, INFER_EMEMORY, "out of memory");
}

/* ---- values -------------------------------------------------------- */

/* Adds a value of unknown type; takes over name. */
static int push_value(struct graph *g, char *name)
{
    struct graph_value *v;
    void *array;

    if (name == NULL || g->n_values >= GRAPH_MAX_VALUES) {
        free(name);
        return INFER_EMEMORY;
    }
    array = array_reserve(g->value, g->n_values, &g->values_capacity,
                          sizeof(*g->value));
    if (array == NULL) {
        free(name);
        return INFER_EMEMORY;
    }
    g->value = array;
    v = &g->value[g->n_values];
    memset(v, 0, sizeof(*v));
    v->name = name;
    v->rank = -1;
    v->producer = -1;
    graph_index_value(g, g->n_values);
    return g->n_values++;
}

int graph_add_value(struct graph *g, const char *name)
{
    if (name == NULL)
        return push_value(g, graph_index_fresh(g, "value", false));
    if (graph_find_value(g, name) >= 0)
        return INFER_EARGUMENT;
    return push_value(g, strdup(name));
}

int graph_add_constant(struct graph *g, const char *name, struct constant *c)
{
    int i = c != NULL ? graph_add_value(g, name) : INFER_EMEMORY;

    if (i < 0) {
        constant_unref(c);
        return i;
    }
    graph_set_constant(g, i, c, NULL);
    return i;
}

/* Appends to g->input or g->output, which grow by one: they are short. */
static bool push_int(int **array, int *count, int item)
{
    int *grown = realloc(*array, ((size_t)*count + 1) * sizeof(*grown));

    if (grown == NULL)
        return false;
    grown[(*count)++] = item;
    *array = grown;
    return true;
}

int graph_add_input(struct graph *g, const char *name, enum infer_dtype dtype,
                    int rank, const int64_t *dim)
{
    struct graph_preprocess *pre;
    int i, k;

    if (rank < -1 || rank > INFER_MAX_RANK || g->n_inputs >= GRAPH_MAX_INPUTS)
        return INFER_EARGUMENT;
    pre = realloc(g->preprocess, ((size_t)g->n_inputs + 1) * sizeof(*pre));
    if (pre == NULL)
        return INFER_EMEMORY;
    g->preprocess = pre;
    pre = &pre[g->n_inputs];
    memset(pre, 0, sizeof(*pre));
    pre->scale = 1;
    for (k = 0; k < 4; k++)
        pre->std[k] = 1;

    i = graph_add_value(g, name);
    if (i < 0)
        return i;
    if (!push_int(&g->input, &g->n_inputs, i)) {
        /* The value becomes a hole. */
        free(g->value[i].name);
        g->value[i].name = NULL;
        return INFER_EMEMORY;
    }
    g->value[i].dtype = dtype;
    g->value[i].rank = rank;
    for (k = 0; k < rank; k++)
        g->value[i].dim[k] = dim[k] < 0 ? -1 : dim[k];
    return i;
}

int graph_add_output(struct graph *g, int value)
{
    if (value < 0 || value >= g->n_values || g->value[value].name == NULL ||
        g->n_outputs >= GRAPH_MAX_INPUTS || graph_is_output(g, value))
        return INFER_EARGUMENT;
    if (!push_int(&g->output, &g->n_outputs, value))
        return INFER_EMEMORY;
    return g->n_outputs - 1;
}

int graph_set_constant(struct graph *g, int value, struct constant *c,
                       struct infer_error *err)
{
    struct graph_value *v;
    int i;

    if (c == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    if (value < 0 || value >= g->n_values || g->value[value].name == NULL) {
        constant_unref(c);
        return error_set(err, INFER_EARGUMENT, "no value has index %d", value);
    }
    v = &g->value[value];
    if (v->producer >= 0) {
        constant_unref(c);
        return error_set(err, INFER_EARGUMENT,
                         "'%s' is an output of a node, not a weight", v->name);
    }
    constant_unref(v->data);
    v->data = c;
    v->dtype = c->dtype;
    v->rank = c->rank;
    for (i = 0; i < c->rank; i++)
        v->dim[i] = c->dim[i];
    return INFER_OK;
}

int graph_rename_value(struct graph *g, int value, const char *name)
{
    char *copy;

    if (value < 0 || value >= g->n_values || g->value[value].name == NULL)
        return INFER_EARGUMENT;
    if (strcmp(g->value[value].name, name) == 0)
        return INFER_OK;
    if (graph_find_value(g, name) >= 0)
        return INFER_EARGUMENT;
    copy = strdup(name);
    if (copy == NULL)
        return INFER_EMEMORY;
    free(g->value[value].name);
    g->value[value].name = copy;
    graph_index_value(g, value);
    return INFER_OK;
}

/* ---- nodes --------------------------------------------------------- */

static int *copy_ints(const int *from, int n)
{
    int *to = malloc((n > 0 ? (size_t)n : 1) * sizeof(*to));

    if (to != NULL && n > 0)
        memcpy(to, from, (size_t)n * sizeof(*to));
    return to;
}

/* True if the inputs exist and no other node produces the outputs. */
static bool ends_are_valid(const struct graph *g, const int *in, int n_in,
                           const int *out, int n_out)
{
    int i;

    if (n_in < 0 || n_in > GRAPH_MAX_INPUTS || n_out < 1 ||
        n_out > GRAPH_MAX_INPUTS)
        return false;
    for (i = 0; i < n_in; i++)
        if (in[i] < -1 || in[i] >= g->n_values ||
            (in[i] >= 0 && g->value[in[i]].name == NULL))
            return false;
    for (i = 0; i < n_out; i++) {
        const struct graph_value *v;

        if (out[i] < 0 || out[i] >= g->n_values)
            return false;
        v = &g->value[out[i]];
        if (v->name == NULL || v->producer >= 0 || v->data != NULL)
            return false;
    }
    return true;
}

int graph_add_node(struct graph *g, enum graph_op op, const char *name,
                   const int *in, int n_in, const int *out, int n_out)
{
    const struct graph_op_info *info;
    struct graph_node *node;
    void *array;
    int i;

    if (op <= GRAPH_NONE || op >= GRAPH_OP_COUNT ||
        !ends_are_valid(g, in, n_in, out, n_out) ||
        (name != NULL && graph_find_node(g, name) >= 0))
        return INFER_EARGUMENT;
    if (g->n_nodes >= GRAPH_MAX_NODES)
        return INFER_EMEMORY;
    array = array_reserve(g->node, g->n_nodes, &g->nodes_capacity,
                          sizeof(*g->node));
    if (array == NULL)
        return INFER_EMEMORY;
    g->node = array;
    info = graph_op_info(op);
    node = &g->node[g->n_nodes];
    memset(node, 0, sizeof(*node));
    node->op = op;
    node->n_in = n_in;
    node->n_out = n_out;
    node->name =
        name != NULL ? strdup(name) : graph_index_fresh(g, info->name, true);
    node->in = copy_ints(in, n_in);
    node->out = copy_ints(out, n_out);
    if (node->name == NULL || node->in == NULL || node->out == NULL) {
        clear_node(node);
        return INFER_EMEMORY;
    }
    graph_index_node(g, g->n_nodes);
    node->attr = info->defaults;
    for (i = 0; i < n_out; i++)
        g->value[out[i]].producer = g->n_nodes;
    return g->n_nodes++;
}

void graph_remove_node(struct graph *g, int node)
{
    struct graph_node *n = &g->node[node];
    int i;

    for (i = 0; i < n->n_out; i++)
        if (g->value[n->out[i]].producer == node)
            g->value[n->out[i]].producer = -1;
    clear_node(n);
}

/* ---- uses ---------------------------------------------------------- */

bool graph_is_output(const struct graph *g, int value)
{
    int i;

    for (i = 0; i < g->n_outputs; i++)
        if (g->output[i] == value)
            return true;
    return false;
}

int graph_count_uses(const struct graph *g, int value)
{
    int i, k, uses = 0;

    for (i = 0; i < g->n_nodes; i++)
        for (k = 0; k < g->node[i].n_in; k++)
            uses += g->node[i].in[k] == value;
    for (i = 0; i < g->n_outputs; i++)
        uses += g->output[i] == value;
    return uses;
}

int *graph_count_all_uses(const struct graph *g)
{
    int *uses =
        calloc(g->n_values > 0 ? (size_t)g->n_values : 1, sizeof(*uses));
    int i, k;

    if (uses == NULL)
        return NULL;
    for (i = 0; i < g->n_nodes; i++)
        for (k = 0; k < g->node[i].n_in; k++)
            if (g->node[i].in[k] >= 0)
                uses[g->node[i].in[k]]++;
    for (i = 0; i < g->n_outputs; i++)
        uses[g->output[i]]++;
    return uses;
}

int graph_single_user(const struct graph *g, int value)
{
    int i, k, user = -1;

    if (graph_is_output(g, value))
        return -1;
    for (i = 0; i < g->n_nodes; i++)
        for (k = 0; k < g->node[i].n_in; k++)
            if (g->node[i].in[k] == value) {
                if (user >= 0)
                    return -1;
                user = i;
            }
    return user;
}

static bool is_input(const struct graph *g, int value)
{
    int i;

    for (i = 0; i < g->n_inputs; i++)
        if (g->input[i] == value)
            return true;
    return false;
}

void graph_replace_value(struct graph *g, int from, int to)
{
    int i, k;

    if (from == to)
        return;
    if (graph_is_output(g, from) && !graph_is_output(g, to) &&
        !is_input(g, to)) {
        char *name = g->value[from].name;

        g->value[from].name = g->value[to].name;
        g->value[to].name = name;
        graph_index_value(g, from);
        graph_index_value(g, to);
    }
    for (i = 0; i < g->n_nodes; i++)
        for (k = 0; k < g->node[i].n_in; k++)
            if (g->node[i].in[k] == from)
                g->node[i].in[k] = to;
    for (i = 0; i < g->n_outputs; i++)
        if (g->output[i] == from)
            g->output[i] = to;
}

/* ---- copies -------------------------------------------------------- */

static bool copy_node(struct graph_node *to, const struct graph_node *from)
{
    if (from->op == GRAPH_NONE)
        return true; /* a hole owns nothing, and to is zeroed */
    *to = *from;
    to->name = from->name != NULL ? strdup(from->name) : NULL;
    to->in = copy_ints(from->in, from->n_in);
    to->out = copy_ints(from->out, from->n_out);
    return to->in != NULL && to->out != NULL &&
           (from->name == NULL || to->name != NULL);
}

static void *copy_array(const void *from, int n, size_t size)
{
    void *to = calloc(n > 0 ? (size_t)n : 1, size);

    if (to != NULL && n > 0)
        memcpy(to, from, (size_t)n * size);
    return to;
}

/* Values, nodes and labels one after the other: counts rise as they are
 * filled, so that a half-built copy can be freed. */
static bool copy_parts(struct graph *to, const struct graph *g)
{
    int i;

    for (i = 0; i < g->n_values; i++) {
        struct graph_value *v = &to->value[i];

        *v = g->value[i];
        v->name = g->value[i].name != NULL ? strdup(g->value[i].name) : NULL;
        if (v->data != NULL)
            constant_ref(v->data);
        to->n_values = i + 1;
        if (g->value[i].name != NULL && v->name == NULL)
            return false;
    }
    for (i = 0; i < g->n_nodes; i++) {
        to->n_nodes = i + 1;
        if (!copy_node(&to->node[i], &g->node[i]))
            return false;
    }
    for (i = 0; i < g->n_labels; i++) {
        to->label[i] = strdup(g->label[i]);
        to->n_labels = i + 1;
        if (to->label[i] == NULL)
            return false;
    }
    if (g->task != NULL && (to->task = strdup(g->task)) == NULL)
        return false;
    if (g->multiplier != NULL &&
        (to->multiplier = graph_multiplier_copy(g->multiplier)) == NULL)
        return false;
    graph_index_rebuild(to);
    return true;
}

struct graph *graph_copy(const struct graph *g)
{
    struct graph *to = graph_new();

    if (to == NULL)
        return NULL;
    free(to->name);
    to->name = strdup(g->name);
    to->value =
        calloc(g->n_values > 0 ? (size_t)g->n_values : 1, sizeof(*to->value));
    to->node =
        calloc(g->n_nodes > 0 ? (size_t)g->n_nodes : 1, sizeof(*to->node));
    to->label =
        calloc(g->n_labels > 0 ? (size_t)g->n_labels : 1, sizeof(*to->label));
    to->values_capacity = g->n_values;
    to->nodes_capacity = g->n_nodes;
    to->input = copy_array(g->input, g->n_inputs, sizeof(*g->input));
    to->output = copy_array(g->output, g->n_outputs, sizeof(*g->output));
    to->preprocess =
        copy_array(g->preprocess, g->n_inputs, sizeof(*g->preprocess));
    if (to->name == NULL || to->value == NULL || to->node == NULL ||
        to->label == NULL || to->input == NULL || to->output == NULL ||
        to->preprocess == NULL)
        goto fail;
    to->n_inputs = g->n_inputs;
    to->n_outputs = g->n_outputs;
    if (!copy_parts(to, g))
        goto fail;
    return to;
fail:
    graph_free(to);
    return NULL;
}
