/* SPDX-License-Identifier: Apache-2.0 */
/* The order of a graph's nodes, its dead nodes and values, and renumbering. */
#include "libinfer/graph/graph_order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "libinfer/graph/graph_index.h"

/* ---- order --------------------------------------------------------- */

enum mark { UNSEEN, OPEN, DONE };

/* A depth-first walk from consumers to producers, without recursion: a chain
 * of a million nodes must not need a deep stack. */
struct walk {
    const struct graph *g;
    int *producer; /* of each value, taken from the nodes themselves */
    unsigned char *mark;
    int *stack, *next; /* nodes that are open; next input to look at */
    int depth;
    int *order, count;
};

/* Names the nodes from the top of the stack down to `node`, which the walk
 * has met a second time. */
static int report_cycle(const struct walk *w, int node, struct infer_error *err)
{
    char names[512];
    size_t used = 0;
    int i;

    for (i = w->depth - 1; i >= 0; i--) {
        const char *name = w->g->node[w->stack[i]].name;
        size_t length = strlen(name);

        if (used + length + 10 > sizeof(names)) {
            memcpy(names + used, ", ...", 6);
            break;
        }
        used += (size_t)snprintf(names + used, sizeof(names) - used, "%s'%s'",
                                 used > 0 ? ", " : "", name);
        if (w->stack[i] == node)
            break;
    }
    names[sizeof(names) - 1] = '\0';
    return error_set(err, INFER_EFORMAT, "nodes depend on themselves: %s",
                     names);
}

/* Opens a node, or ends the walk at one that is open already. */
static int visit(struct walk *w, int node, struct infer_error *err)
{
    if (w->mark[node] == OPEN)
        return report_cycle(w, node, err);
    if (w->mark[node] == UNSEEN) {
        w->mark[node] = OPEN;
        w->stack[w->depth] = node;
        w->next[w->depth] = 0;
        w->depth++;
    }
    return INFER_OK;
}

static int walk_from(struct walk *w, int root, struct infer_error *err)
{
    int rc = w->mark[root] == DONE ? INFER_OK : visit(w, root, err);

    while (rc == INFER_OK && w->depth > 0) {
        int node = w->stack[w->depth - 1];
        const struct graph_node *n = &w->g->node[node];

        if (w->next[w->depth - 1] < n->n_in) {
            int value = n->in[w->next[w->depth - 1]++];

            if (value >= 0 && w->producer[value] >= 0)
                rc = visit(w, w->producer[value], err);
        } else {
            w->mark[node] = DONE;
            w->order[w->count++] = node;
            w->depth--;
        }
    }
    return rc;
}

static int find_producers(struct walk *w, struct infer_error *err)
{
    const struct graph *g = w->g;
    int i, k;

    for (i = 0; i < g->n_values; i++)
        w->producer[i] = -1;
    for (i = 0; i < g->n_nodes; i++) {
        for (k = 0; k < g->node[i].n_out; k++) {
            int v = g->node[i].out[k];

            if (w->producer[v] >= 0)
                return error_set(err, INFER_EFORMAT,
                                 "nodes '%s' and '%s' both produce '%s'",
                                 g->node[w->producer[v]].name, g->node[i].name,
                                 g->value[v].name);
            w->producer[v] = i;
        }
    }
    return INFER_OK;
}

int graph_order(const struct graph *g, int *order, int *count,
                struct infer_error *err)
{
    size_t nodes = g->n_nodes > 0 ? (size_t)g->n_nodes : 1;
    size_t values = g->n_values > 0 ? (size_t)g->n_values : 1;
    struct walk w = {.g = g, .order = order};
    int i, rc;

    w.producer = malloc(values * sizeof(int));
    w.mark = calloc(nodes, 1);
    w.stack = malloc(nodes * sizeof(int));
    w.next = malloc(nodes * sizeof(int));
    if (w.producer == NULL || w.mark == NULL || w.stack == NULL ||
        w.next == NULL)
        rc = error_set(err, INFER_EMEMORY, "out of memory");
    else
        rc = find_producers(&w, err);
    for (i = 0; rc == INFER_OK && i < g->n_nodes; i++)
        if (g->node[i].op != GRAPH_NONE)
            rc = walk_from(&w, i, err);
    if (rc == INFER_OK)
        *count = w.count;
    free(w.producer);
    free(w.mark);
    free(w.stack);
    free(w.next);
    return rc;
}

/* Moves the nodes into the given order, holes after them, and gives values
 * their producers' new indices. */
static int reorder(struct graph *g, const int *order, int count,
                   struct infer_error *err)
{
    struct graph_node *sorted;
    int i, k;

    sorted = calloc(g->n_nodes > 0 ? (size_t)g->n_nodes : 1, sizeof(*sorted));
    if (sorted == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    for (i = 0; i < g->n_values; i++)
        g->value[i].producer = -1;
    for (i = 0; i < count; i++) {
        sorted[i] = g->node[order[i]];
        for (k = 0; k < sorted[i].n_out; k++)
            g->value[sorted[i].out[k]].producer = i;
    }
    free(g->node);
    g->node = sorted;
    g->nodes_capacity = g->n_nodes;
    graph_index_rebuild(g);
    return INFER_OK;
}

int graph_sort(struct graph *g, struct infer_error *err)
{
    int *order =
        malloc((g->n_nodes > 0 ? (size_t)g->n_nodes : 1) * sizeof(*order));
    int count, i, rc;

    if (order == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    rc = graph_order(g, order, &count, err);
    for (i = 0; rc == INFER_OK && i < count; i++)
        if (order[i] != i)
            break;
    /* Most graphs are sorted already. */
    if (rc == INFER_OK && i < count)
        rc = reorder(g, order, count, err);
    free(order);
    return rc;
}

/* ---- dead parts ---------------------------------------------------- */

/* Marks in need[] every node that an output needs. */
static bool mark_needed(const struct graph *g, unsigned char *need)
{
    size_t nodes = g->n_nodes > 0 ? (size_t)g->n_nodes : 1;
    int *stack = malloc(nodes * sizeof(*stack));
    int depth = 0, i;

    if (stack == NULL)
        return false;
    for (i = 0; i < g->n_outputs; i++) {
        int p = g->value[g->output[i]].producer;

        if (p >= 0 && !need[p]) {
            need[p] = 1;
            stack[depth++] = p;
        }
    }
    while (depth > 0) {
        const struct graph_node *n = &g->node[stack[--depth]];

        for (i = 0; i < n->n_in; i++) {
            int p = n->in[i] >= 0 ? g->value[n->in[i]].producer : -1;

            if (p >= 0 && !need[p]) {
                need[p] = 1;
                stack[depth++] = p;
            }
        }
    }
    free(stack);
    return true;
}

static void drop_value(struct graph_value *v)
{
    free(v->name);
    constant_unref(v->data);
    memset(v, 0, sizeof(*v));
    v->rank = -1;
    v->producer = -1;
}

/* Removes the values that neither a node nor an end of the graph names. */
static void drop_unused_values(struct graph *g, unsigned char *used)
{
    int i, k;

    for (i = 0; i < g->n_nodes; i++) {
        for (k = 0; k < g->node[i].n_in; k++)
            if (g->node[i].in[k] >= 0)
                used[g->node[i].in[k]] = 1;
        for (k = 0; k < g->node[i].n_out; k++)
            used[g->node[i].out[k]] = 1;
    }
    for (i = 0; i < g->n_inputs; i++)
        used[g->input[i]] = 1;
    for (i = 0; i < g->n_outputs; i++)
        used[g->output[i]] = 1;
    for (i = 0; i < g->n_values; i++)
        if (!used[i] && g->value[i].name != NULL)
            drop_value(&g->value[i]);
}

int graph_remove_dead(struct graph *g)
{
    size_t most =
        (size_t)(g->n_nodes > g->n_values ? g->n_nodes : g->n_values) + 1;
    unsigned char *seen = calloc(most, 1);
    int i, removed = 0;

    if (seen == NULL || !mark_needed(g, seen)) {
        free(seen);
        return INFER_EMEMORY;
    }
    for (i = 0; i < g->n_nodes; i++)
        if (g->node[i].op != GRAPH_NONE && !seen[i]) {
            graph_remove_node(g, i);
            removed++;
        }
    memset(seen, 0, most);
    drop_unused_values(g, seen);
    free(seen);
    return removed;
}

/* ---- compaction ---------------------------------------------------- */

static void renumber(int *list, int n, const int *to)
{
    int i;

    for (i = 0; i < n; i++)
        if (list[i] >= 0)
            list[i] = to[list[i]];
}

static int compact_values(struct graph *g, struct infer_error *err)
{
    int *to = malloc((g->n_values > 0 ? (size_t)g->n_values : 1) * sizeof(*to));
    int i, count = 0;

    if (to == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    for (i = 0; i < g->n_values; i++) {
        to[i] = -1;
        if (g->value[i].name != NULL) {
            to[i] = count;
            g->value[count++] = g->value[i];
        }
    }
    g->n_values = count;
    for (i = 0; i < g->n_nodes; i++) {
        renumber(g->node[i].in, g->node[i].n_in, to);
        renumber(g->node[i].out, g->node[i].n_out, to);
    }
    renumber(g->input, g->n_inputs, to);
    renumber(g->output, g->n_outputs, to);
    free(to);
    return INFER_OK;
}

int graph_compact(struct graph *g, struct infer_error *err)
{
    int i, rc = graph_sort(g, err);

    if (rc < 0)
        return rc;
    /* Sorting has put the holes after the nodes. */
    for (i = 0; i < g->n_nodes && g->node[i].op != GRAPH_NONE; i++)
        ;
    g->n_nodes = i;
    rc = compact_values(g, err);
    graph_index_rebuild(g);
    return rc;
}
