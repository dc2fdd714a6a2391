/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs, outputs and order of a graph's nodes. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "weights/tensorflow/tensorflow.h"

/* ---- walking from results to inputs -------------------------------- */

enum { FRESH, OPEN, DONE };

/* Depth first without recursion. */
struct walk {
    struct tf_graph *g;
    unsigned char *state; /* a node */
    struct frame {
        int node, next; /* input to look at next */
    } * stack;
    int *order, n_order; /* nodes that are done */
    int cycle;           /* a node on one, or -1 */
};

static void walk_close(struct walk *w)
{
    free(w->state);
    free(w->stack);
    free(w->order);
}

static int walk_open(struct walk *w, struct tf_graph *g,
                     struct infer_error *err)
{
    const size_t n = (size_t)g->n_nodes;

    memset(w, 0, sizeof *w);
    w->g = g;
    w->cycle = -1;
    w->state = calloc(n, 1);
    w->stack = malloc(n * sizeof *w->stack);
    w->order = malloc(n * sizeof *w->order);
    if (w->state && w->stack && w->order)
        return 0;
    walk_close(w);
    memset(w, 0, sizeof *w);
    return error_set(err, INFER_EMEMORY, "out of memory");
}

static void push(struct walk *w, int *depth, int node)
{
    if (w->state[node] == OPEN)
        w->cycle = node;
    if (w->state[node] != FRESH)
        return;
    w->state[node] = OPEN;
    w->stack[*depth] = (struct frame){node, 0};
    ++*depth;
}

static int walk_from(struct walk *w, int node, struct infer_error *err)
{
    int depth = 0;

    push(w, &depth, node);
    while (depth > 0) {
        struct frame *f = &w->stack[depth - 1];
        struct tf_edge e;

        if (f->next == w->g->node[f->node].n_in || tf_is_input(w->g, f->node)) {
            w->state[f->node] = DONE;
            w->order[w->n_order++] = f->node;
            depth--;
            continue;
        }
        const int rc = tf_input(w->g, f->node, f->next++, err, &e);
        if (rc < 0)
            return rc;
        push(w, &depth, e.node);
    }
    return 0;
}

/* ---- inputs and outputs -------------------------------------------- */

/* The front end of speech networks (DecodeWav, AudioSpectrogram, Mfcc) stays
 * outside: the network's input are the features. */
bool tf_is_input(const struct tf_graph *g, int node)
{
    const struct tf_node *n = &g->node[node];

    return !n->alias && (pb_span_is(n->op, "Placeholder") ||
                         pb_span_is(n->op, "PlaceholderV2") ||
                         pb_span_is(n->op, "PlaceholderWithDefault") ||
                         pb_span_is(n->op, "Mfcc"));
}

/* Switches between training and inference have a default: it is taken. */
int tf_take_defaults(struct tf_graph *g, struct infer_error *err)
{
    for (int i = 0; i < g->n_nodes; i++) {
        int64_t type = 0, dim[INFER_MAX_RANK];
        struct pb_span shape;
        int rank = -1, rc;
        bool found;

        if (!pb_span_is(g->node[i].op, "PlaceholderWithDefault"))
            continue;
        rc = tf_attr_int(g, i, "dtype", &type, &found, err);
        if (rc == 0)
            rc = tf_attr_span(g, i, "shape", err, &shape);
        if (rc == 0 && shape.bytes > 0) {
            struct pb_reader r = tf_reader(g, shape);
            struct pb_field f;

            while ((rc = pb_next(&r, &f, err)) > 0 && rc >= 0)
                if (f.number == 7 && f.wire == PB_BYTES)
                    rc = tf_shape_parse(g, f.span, &rank, dim, err);
        }
        if (rc < 0)
            return rc;
        if (g->node[i].n_in == 1 && (type == TF_BOOL || rank == 0))
            g->node[i].alias = true;
    }
    return tf_take_branches(g, err);
}

/* Nodes that do something other than computing a result. */
static bool has_effect_only(struct pb_span op)
{
    static const char *const names[] = {"NoOp",  "Assert", "SaveV2",
                                        "Const", "Print",  "PrintV2"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (pb_span_is(op, names[i]))
            return true;
    return false;
}

static bool is_switch(const struct tf_node *n)
{
    return pb_span_is(n->op, "Switch") || pb_span_is(n->op, "RefSwitch");
}

/* A Switch that feeds nothing but a branch that is not taken is dead, too. */
static void drop_switches(struct tf_graph *g, const bool *live,
                          const bool *read)
{
    for (int i = 0; i < g->n_outer; i++)
        if (is_switch(&g->node[i]) && read[i] && !live[i])
            g->node[i].dead = true;
}

/* Nodes that another one reads; live: one that is not dead. */
static void find_read(const struct tf_graph *g, bool *live, bool *read)
{
    for (int i = 0; i < g->n_outer; i++)
        for (int k = 0; k < g->node[i].n_in; k++) {
            const int from = g->edge[g->node[i].first + k].node;

            read[from] = true;
            live[from] = live[from] || !g->node[i].dead;
        }
}

/* What only a branch reads that is not taken is an end of the network. */
static bool *mark_read(struct tf_graph *g)
{
    bool *live = calloc((size_t)g->n_nodes, sizeof *live);
    bool *read = calloc((size_t)g->n_nodes, sizeof *read);

    if (live && read) {
        find_read(g, live, read);
        drop_switches(g, live, read);
        memset(live, 0, (size_t)g->n_nodes * sizeof *live);
        find_read(g, live, read);
    } else {
        free(live);
        live = NULL;
    }
    free(read);
    return live;
}

/* Nodes whose values depend on an input. */
static bool *mark_computed(struct walk *w, struct infer_error *err)
{
    bool *computed = calloc((size_t)w->g->n_nodes, sizeof *computed);

    if (!computed)
        error_set(err, INFER_EMEMORY, "out of memory");
    for (int i = 0; computed && i < w->n_order; i++) {
        const int node = w->order[i];
        struct tf_edge e;

        computed[node] = tf_is_input(w->g, node);
        for (int k = 0; k < w->g->node[node].n_in && !computed[node]; k++)
            if (tf_input(w->g, node, k, NULL, &e) == 0)
                computed[node] = computed[e.node];
    }
    return computed;
}

static int add_io(struct tf_io **list, int *n, struct tf_edge e,
                  struct pb_span name, struct infer_error *err)
{
    struct tf_io *p;

    if (*n == GRAPH_MAX_INPUTS)
        return error_set(err, INFER_EUNSUPPORTED,
                         "more than %d inputs or outputs", GRAPH_MAX_INPUTS);
    if ((*n & (*n - 1)) == 0) {
        p = realloc(*list, (*n ? 2 * (size_t)*n : 1) * sizeof *p);
        if (!p)
            return error_set(err, INFER_EMEMORY, "out of memory");
        *list = p;
    }
    (*list)[(*n)++] = (struct tf_io){.edge = e, .name = name};
    return 0;
}

int tf_add_input(struct tf_import *tf, struct tf_edge e, struct pb_span name,
                 struct infer_error *err)
{
    return add_io(&tf->input, &tf->n_inputs, e, name, err);
}

int tf_add_output(struct tf_import *tf, struct tf_edge e, struct pb_span name,
                  struct infer_error *err)
{
    return add_io(&tf->output, &tf->n_outputs, e, name, err);
}

static int add_outputs(struct tf_import *tf, const bool *read,
                       const bool *computed, struct infer_error *err)
{
    struct tf_graph *g = &tf->graph;
    int rc = 0;

    for (int i = 0; i < g->n_outer && rc == 0; i++) {
        const struct tf_node *n = &g->node[i];
        struct tf_edge e;

        /* What only a function reads, whose call is gone, is an input. */
        if (read[i] || n->dead || has_effect_only(n->op) || tf_is_input(g, i) ||
            (n->alias && n->n_in == 0))
            continue;
        rc = tf_resolve(g, (struct tf_edge){i, 0}, err, &e);
        if (rc == 0 && computed[e.node] && !tf_is_training_flag(g, e.node))
            rc = tf_add_output(tf, e, n->name, err);
    }
    if (rc == 0 && tf->n_outputs == 0)
        rc = error_set(err, INFER_EFORMAT,
                       "no node computes a result from an input");
    return rc;
}

int tf_find_ends(struct tf_import *tf, struct infer_error *err)
{
    struct tf_graph *g = &tf->graph;
    bool *read, *computed = NULL;
    struct walk w;
    int rc = tf_take_defaults(g, err);

    if (rc == 0)
        rc = walk_open(&w, g, err);
    if (rc < 0)
        return rc;
    read = mark_read(g);
    if (!read)
        rc = error_set(err, INFER_EMEMORY, "out of memory");
    for (int i = 0; i < g->n_outer && rc == 0; i++)
        if (!read[i] && !g->node[i].alias)
            rc = walk_from(&w, i, err);
        else if (!read[i]) {
            struct tf_edge e = {i, 0};

            if (g->node[i].n_in > 0)
                rc = tf_resolve(g, e, err, &e);
            if (rc == 0 && !g->node[e.node].alias)
                rc = walk_from(&w, e.node, err);
        }
    if (rc == 0) {
        computed = mark_computed(&w, err);
        rc = computed ? add_outputs(tf, read, computed, err) : INFER_EMEMORY;
    }
    free(read);
    free(computed);
    walk_close(&w);
    return rc;
}

/* ---- what is not supported ----------------------------------------- */

#define MAX_REFUSED 32

struct refused {
    struct pb_span op;
    int count, first;
};

static bool is_control_flow(struct pb_span op)
{
    static const char *const names[] = {
        "Enter",    "Exit",       "Merge", "NextIteration",
        "LoopCond", "Switch",     "While", "StatelessWhile",
        "If",       "StatelessIf"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (pb_span_is(op, names[i]))
            return true;
    return false;
}

static void count_refused(struct refused *list, int *n, struct pb_span op,
                          int node)
{
    int i = 0;

    while (i < *n && !tf_same(list[i].op, op))
        i++;
    if (i == MAX_REFUSED)
        return;
    if (i == *n)
        list[(*n)++] = (struct refused){op, 0, node};
    list[i].count++;
}

static int report_refused(const struct tf_import *tf, struct infer_error *err)
{
    const struct tf_graph *g = &tf->graph;
    struct refused list[MAX_REFUSED];
    int n = 0, rc = 0;

    for (int i = 0; i < tf->n_order; i++) {
        const struct tf_node *node = &g->node[tf->order[i]];

        if (!tf_is_input(g, tf->order[i]) && !pb_span_is(node->op, "Const") &&
            !node->restored && !tf_op_find(node->op))
            count_refused(list, &n, node->op, tf->order[i]);
    }
    for (int i = 0; i < n; i++) {
        const struct tf_node *first = &g->node[list[i].first];

        rc = error_add(
            err, INFER_EUNSUPPORTED, "%.*s %.*s: %s is not supported (%d %s)",
            PB_TEXT(first->op, 128), PB_TEXT(first->name, 128),
            is_control_flow(first->op) ? "control flow (a loop or a condition)"
                                       : "the operator",
            list[i].count, list[i].count == 1 ? "node" : "nodes");
    }
    return rc;
}

/* ---- order --------------------------------------------------------- */

/* The inputs in the order of the file, unless a signature lists them. */
static int list_inputs(struct tf_import *tf, struct infer_error *err)
{
    struct tf_graph *g = &tf->graph;
    bool *needed;
    int rc = 0;

    if (tf->n_inputs > 0)
        return 0;
    needed = calloc((size_t)g->n_nodes, sizeof *needed);
    if (!needed)
        return error_set(err, INFER_EMEMORY, "out of memory");
    for (int i = 0; i < tf->n_order; i++)
        needed[tf->order[i]] = true;
    for (int i = 0; i < g->n_nodes && rc == 0; i++)
        if (needed[i] && tf_is_input(g, i))
            rc = tf_add_input(tf, (struct tf_edge){i, 0}, g->node[i].name, err);
    free(needed);
    return rc;
}

int tf_find_order(struct tf_import *tf, struct infer_error *err)
{
    struct walk w;
    int rc = walk_open(&w, &tf->graph, err);

    for (int i = 0; i < tf->n_outputs && rc == 0; i++)
        rc = walk_from(&w, tf->output[i].edge.node, err);
    tf->order = w.order;
    tf->n_order = w.n_order;
    w.order = NULL;
    if (rc == 0) {
        error_clear(err);
        rc = report_refused(tf, err);
    }
    if (rc == 0 && w.cycle >= 0)
        rc = error_set(err, INFER_EFORMAT, "%.*s is part of a cycle",
                       PB_TEXT(tf->graph.node[w.cycle].name, 128));
    walk_close(&w);
    return rc < 0 ? rc : list_inputs(tf, err);
}
