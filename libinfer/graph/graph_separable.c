/* SPDX-License-Identifier: Apache-2.0 */
/* Decides whether the images of a batch are independent of each other. */
#include <stdlib.h>
#include <string.h>

#include "libinfer/graph/graph.h"
#include "libinfer/graph/ops/op.h"

/* Two graphs and, for each value, whether it depends on an input. */
struct pair {
    const struct graph *whole, *part;
    bool *varies;
    int64_t whole_batch, part_batch;
    /* The inputs of one node, for its rule. */
    bool *in_varies;
    const struct graph_value **in;
};

/* Dimension 0 is the batch, and the rest does not depend on it. */
static bool sizes_follow(const struct pair *p, int value)
{
    const struct graph_value *w = &p->whole->value[value];
    const struct graph_value *t = &p->part->value[value];

    return w->rank >= 1 && w->rank == t->rank && w->dim[0] == p->whole_batch &&
           t->dim[0] == p->part_batch &&
           memcmp(w->dim + 1, t->dim + 1,
                  (size_t)(w->rank - 1) * sizeof w->dim[0]) == 0;
}

static bool node_separable(struct pair *p, const struct graph_node *n)
{
    const struct graph_op_info *info = graph_op_info(n->op);
    struct graph_separable_args args = {.attr = &n->attr,
                                        .n_in = n->n_in,
                                        .residual = info->max_in,
                                        .varies = p->in_varies,
                                        .in = p->in};
    bool any = false;
    int i;

    for (i = 0; i < n->n_in; i++) {
        const int v = n->in[i];

        p->in[i] = v >= 0 ? &p->whole->value[v] : NULL;
        p->in_varies[i] = v >= 0 && p->varies[v];
        any = any || p->in_varies[i];
    }
    if (!any)
        return true;
    for (i = 0; i < n->n_out; i++) {
        if (n->out[i] < 0)
            continue;
        p->varies[n->out[i]] = true;
        if (!sizes_follow(p, n->out[i]))
            return false;
    }
    args.out = &p->whole->value[n->out[0]];
    return info->separable && info->separable(&args);
}

static bool inputs_separable(struct pair *p)
{
    const struct graph *g = p->whole;
    int i;

    for (i = 0; i < g->n_inputs; i++) {
        p->varies[g->input[i]] = true;
        if (g->value[g->input[i]].rank < 1)
            return false;
        if (i == 0) {
            p->whole_batch = g->value[g->input[0]].dim[0];
            p->part_batch = p->part->value[g->input[0]].dim[0];
        }
        if (!sizes_follow(p, g->input[i]))
            return false;
    }
    return g->n_inputs > 0 && p->whole_batch != p->part_batch;
}

static bool all_separable(struct pair *p)
{
    const struct graph *g = p->whole;
    int i;

    if (!inputs_separable(p))
        return false;
    for (i = 0; i < g->n_nodes; i++)
        if (g->node[i].op != GRAPH_NONE && !node_separable(p, &g->node[i]))
            return false;
    for (i = 0; i < g->n_outputs; i++)
        if (!p->varies[g->output[i]])
            return false;
    return true;
}

int graph_separable(const struct graph *whole, const struct graph *part)
{
    struct pair p = {.whole = whole, .part = part};
    size_t most = 1;
    int apart = INFER_EMEMORY;
    int i;

    for (i = 0; i < whole->n_nodes; i++)
        if ((size_t)whole->node[i].n_in > most)
            most = (size_t)whole->node[i].n_in;
    p.varies = calloc((size_t)whole->n_values + 1, sizeof *p.varies);
    p.in_varies = calloc(most, sizeof *p.in_varies);
    p.in = calloc(most, sizeof(const struct graph_value *));
    if (p.varies && p.in_varies && p.in)
        apart = all_separable(&p);
    free(p.varies);
    free(p.in_varies);
    free(p.in);
    return apart;
}
