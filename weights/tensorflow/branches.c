/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditions of TensorFlow 1: Switch sends a tensor to one of two branches,
 * Merge takes the branch that computed something.  Where the file tells the
 * condition, the branch that is not taken goes.  A boolean placeholder that is
 * named after training, such as is_training or keras_learning_phase, is false,
 * unless something else than a Switch reads it.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "kernels/base/error.h"
#include "weights/tensorflow/tensorflow.h"

/* Times that all nodes are looked at, forwards and backwards in turn: a node
 * that comes before those that it reads needs another one. */
#define MAX_PASSES 64

enum { UNKNOWN = -1 };

struct branches {
    struct tf_graph *g;
    bool *dead;         /* by node */
    bool *elsewhere;    /* by node: of a flag that is read by no Switch alone */
    signed char *taken; /* by node: of a Switch, the live output or UNKNOWN */
    bool any;
};

static bool is_switch(struct pb_span op)
{
    return pb_span_is(op, "Switch") || pb_span_is(op, "RefSwitch");
}

static bool is_merge(struct pb_span op)
{
    return pb_span_is(op, "Merge") || pb_span_is(op, "RefMerge");
}

/* Placeholders of this name, behind the last '/', say whether the network is
 * being trained. */
static bool is_flag_name(struct pb_span name)
{
    static const char *const words[] = {
        "training",         "is_training",    "train",
        "is_train",         "train_phase",    "phase_train",
        "train_mode",       "learning_phase", "keras_learning_phase",
        "is_training_phase"};
    size_t begin = name.bytes;

    while (begin > 0 && name.data[begin - 1] != '/')
        begin--;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (name.bytes - begin == strlen(words[i]) &&
            strncasecmp((const char *)name.data + begin, words[i],
                        name.bytes - begin) == 0)
            return true;
    return false;
}

bool tf_is_training_flag(const struct tf_graph *g, int node)
{
    int64_t type = 0;
    bool found;

    return tf_is_input(g, node) && is_flag_name(g->node[node].name) &&
           tf_attr_int(g, node, "dtype", &type, &found, NULL) == 0 &&
           type == TF_BOOL;
}

/* What else reads a flag would see the value that it is fed. */
static void find_other_readers(struct branches *b)
{
    struct tf_graph *g = b->g;
    struct tf_edge e;

    for (int i = 0; i < g->n_nodes; i++) {
        const struct tf_node *n = &g->node[i];

        if (n->alias || is_switch(n->op))
            continue;
        for (int k = 0; k < n->n_in; k++)
            if (tf_input(g, i, k, NULL, &e) == 0 &&
                tf_is_training_flag(g, e.node))
                b->elsewhere[e.node] = true;
    }
}

/* The output that a Switch sends its tensor to: 0, 1 or UNKNOWN. */
static int condition(const struct branches *b, int node)
{
    struct tf_graph *g = b->g;
    int64_t value[TF_MAX_LIST];
    struct tf_edge e;
    int n = 0;

    if (tf_input_ints(g, node, 1, value, &n))
        return n == 1 ? value[0] != 0 : UNKNOWN;
    return tf_input(g, node, 1, NULL, &e) == 0 && e.port == 0 &&
                   tf_is_training_flag(g, e.node) && !b->elsewhere[e.node]
               ? 0
               : UNKNOWN;
}

static bool is_dead(const struct branches *b, struct tf_edge e)
{
    return b->dead[e.node] ||
           (b->taken[e.node] != UNKNOWN && b->taken[e.node] != e.port);
}

/* True where node i turns out to be dead. */
static bool dies(const struct branches *b, int i)
{
    const struct tf_node *n = &b->g->node[i];
    int dead = 0;

    for (int k = 0; k < n->n_in; k++)
        dead += is_dead(b, b->g->edge[n->first + k]);
    return is_merge(n->op) ? n->n_in > 0 && dead == n->n_in : dead > 0;
}

/* Merge becomes its one live input, Switch its tensor. */
static void rewrite(struct branches *b)
{
    struct tf_graph *g = b->g;

    for (int i = 0; i < g->n_nodes; i++) {
        struct tf_node *n = &g->node[i];
        int live = -1, n_live = 0;

        if (!is_merge(n->op) || n->alias || b->dead[i])
            continue;
        for (int k = 0; k < n->n_in; k++)
            if (!is_dead(b, g->edge[n->first + k])) {
                live = k;
                n_live++;
            }
        if (n_live != 1 || n->n_in < 2)
            continue;
        n->first += live;
        n->n_in = 1;
        n->alias = true;
    }
    for (int i = 0; i < g->n_nodes; i++) {
        struct tf_node *n = &g->node[i];

        if (b->taken[i] != UNKNOWN && !b->dead[i]) {
            g->edge[n->first + 1] = g->edge[n->first];
            n->alias = true;
        }
        n->dead = b->dead[i];
    }
}

int tf_take_branches(struct tf_graph *g, struct infer_error *err)
{
    const size_t nodes = (size_t)g->n_nodes;
    struct branches b = {.g = g};
    bool more = true;

    b.dead = calloc(nodes + 1, sizeof *b.dead);
    b.elsewhere = calloc(nodes + 1, sizeof *b.elsewhere);
    b.taken = malloc(nodes + 1);
    if (!b.dead || !b.elsewhere || !b.taken) {
        free(b.dead);
        free(b.elsewhere);
        free(b.taken);
        return error_set(err, INFER_EMEMORY, "out of memory");
    }
    find_other_readers(&b);
    for (int i = 0; i < g->n_nodes; i++) {
        const struct tf_node *n = &g->node[i];

        b.taken[i] = UNKNOWN;
        if (!n->alias && is_switch(n->op) && n->n_in == 2)
            b.taken[i] = (signed char)condition(&b, i);
        b.any |= b.taken[i] != UNKNOWN;
    }
    for (int pass = 0; b.any && more && pass < MAX_PASSES; pass++) {
        more = false;
        for (int k = 0; k < g->n_nodes; k++) {
            const int i = pass % 2 ? g->n_nodes - 1 - k : k;

            if (!b.dead[i] && dies(&b, i))
                b.dead[i] = more = true;
        }
    }
    if (b.any && !more)
        rewrite(&b);
    free(b.dead);
    free(b.elsewhere);
    free(b.taken);
    return 0;
}
