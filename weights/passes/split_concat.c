/* SPDX-License-Identifier: Apache-2.0 */
/*
 * split-concat: a scale and shift a channel, or an activation, behind a
 * concatenation of layers' outputs is applied to each part, so that it can go
 * into the layer that makes it.  Multi-branch blocks whose branches share one
 * batch normalisation are built so (MixNet).
 */
#include "weights/passes/pass.h"

#include <stdlib.h>

#include "kernels/base/scalar.h"

/* Parts of a concatenation, at most. */
#define MOST_PARTS 64

/* The concatenation that makes the node's input, if nothing else reads it. */
static int concat_before(const struct pass *p, int node)
{
    const int x = p->g->node[node].in[0];
    const int concat = pass_producer(p, x, GRAPH_CONCAT);
    const struct graph_value *v = &p->g->value[x];
    int axis;

    if (concat < 0 || pass_reader(p, x) != node || v->rank < 2 ||
        p->g->node[concat].n_in > MOST_PARTS)
        return -1;
    axis = p->g->node[concat].attr.axis.axis;
    return axis == 1 || axis + v->rank == 1 ? concat : -1;
}

/* True if every part is made for this concatenation alone, by a layer that can
 * take what follows; its channels in channels[]. */
static bool parts_take(const struct pass *p, int concat, int64_t *channels,
                       int64_t *all)
{
    const struct graph_node *c = &p->g->node[concat];

    *all = 0;
    for (int i = 0; i < c->n_in; i++) {
        const int layer = p->g->value[c->in[i]].producer;
        int axis = 0;

        if (layer < 0 || pass_reader(p, c->in[i]) != concat ||
            !pass_plain(&p->g->node[layer]))
            return false;
        channels[i] = pass_output_channels(p, layer, &axis);
        if (channels[i] < 1 || axis != 1)
            return false;
        *all += channels[i];
    }
    return true;
}

/* A part of the constant of input i, of `count` numbers from `first` on, as a
 * new value; -1 where there is no such input. */
static int part_of(struct pass *p, int node, int i, int64_t first,
                   int64_t count)
{
    const struct graph_node *n = &p->g->node[node];
    const struct constant *c = pass_constant(p, n, i);
    double *x;
    int value;

    if (!c)
        return -1;
    x = malloc((size_t)count * sizeof *x);
    if (!x)
        return pass_no_memory(p);
    for (int64_t k = 0; k < count; k++)
        x[k] = scalar_load(c->dtype, c->data, first + k);
    value = pass_add_vector(p, n->name, i == 1 ? ".scale" : ".shift", c->dtype,
                            count, x);
    free(x);
    return value;
}

/* Puts the node's function between part i and the concatenation. */
static int apply_to_part(struct pass *p, int node, int concat, int i,
                         int64_t first, int64_t count)
{
    struct graph *g = p->g;
    const bool scales = g->node[node].op == GRAPH_SCALE_SHIFT;
    int in[3] = {g->node[concat].in[i], -1, -1};
    struct graph_node *own;
    int value;

    for (int k = 1; scales && k < 3; k++) {
        in[k] = part_of(p, node, k, first, count);
        if (in[k] < -1)
            return in[k];
    }
    value = pass_add_node(p, g->node[node].op, in, scales ? 3 : 1);
    if (value < 0)
        return value;
    own = &g->node[g->value[value].producer];
    own->attr = g->node[node].attr;
    own->epilogue = g->node[node].epilogue;
    return pass_set_input(p, concat, i, value);
}

/* True if the scale or shift is a constant of this many numbers, or absent. */
static bool is_vector(const struct pass *p, const struct graph_node *n, int i,
                      int64_t count)
{
    const struct constant *c = pass_constant(p, n, i);

    return c ? constant_count(c) == count : pass_input(n, i) < 0;
}

static bool is_divisible(const struct pass *p, const struct graph_node *n,
                         int64_t channels)
{
    if (n->op == GRAPH_UNARY)
        return true;
    return is_vector(p, n, 1, channels) && is_vector(p, n, 2, channels);
}

int pass_split_concat(struct pass *p, int node)
{
    struct graph *g = p->g;
    int64_t channels[MOST_PARTS], all, first = 0;
    int concat, rc = 0;

    if (!pass_is_activation(&g->node[node]) &&
        (g->node[node].op != GRAPH_SCALE_SHIFT ||
         pass_residual(&g->node[node]) >= 0))
        return 0;
    concat = concat_before(p, node);
    if (concat < 0 || !parts_take(p, concat, channels, &all) ||
        !is_divisible(p, &g->node[node], all))
        return 0;
    for (int i = 0; rc >= 0 && i < g->node[concat].n_in; i++) {
        rc = apply_to_part(p, node, concat, i, first, channels[i]);
        first += channels[i];
    }
    if (rc < 0)
        return rc;
    pass_note(p, 0, "%s before %s", g->node[node].name, g->node[concat].name);
    pass_absorb(p, concat, node);
    return 1;
}
