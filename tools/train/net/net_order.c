/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of the backward pass: that of the forward pass reversed, except for
 * nodes that read a part of their input (every second pixel, say).  Those come
 * after the input's other readers and add to the gradient.  If they came first,
 * they would have to fill the rest with zeros, which the next reader reads
 * again.
 */
#include "tools/train/net/net.h"

#include <stdlib.h>

/* True for a slice, and on a GPU for a convolution with strides above its
 * window: adding in place leaves the other elements untouched there. */
static bool reads_part(const struct net *n, const struct graph_node *node)
{
    const struct graph_value *w;

    if (node->op == GRAPH_SLICE)
        return true;
    if (node->op != GRAPH_CONV || n->options.device->ops->host_memory)
        return false;
    w = &n->g->value[node->in[1]];
    for (int i = 2; i < w->rank && i - 2 < KERN_MAX_SPATIAL; i++)
        if (node->attr.conv.conv.stride[i - 2] <= w->dim[i])
            return false;
    return true;
}

static bool reads(const struct net *n, int chain, int value)
{
    const struct graph_node *node = &n->g->node[n->chain[chain].head];

    if (n->chain[chain].residual == value)
        return true;
    for (int i = 0; i < node->n_in; i++)
        if (node->in[i] == value)
            return true;
    return false;
}

/* The first chain that reads the input of chain i: the last one in the backward
 * pass. */
static int first_reader(const struct net *n, int i)
{
    const int x = n->g->node[n->chain[i].head].in[0];

    for (int k = 0; k < i; k++)
        if (!n->absorbed[k] && reads(n, k, x))
            return k;
    return i;
}

int net_bwd_order(struct net *n, int **out)
{
    const int nodes = n->g->n_nodes;
    int *after = malloc(((size_t)nodes + 1) * sizeof(*after)), count = 0;
    int *order = malloc(((size_t)nodes + 1) * sizeof(*order));

    if (!after || !order) {
        free(after);
        free(order);
        net_fail(n, INFER_EMEMORY, "out of memory");
        return 0;
    }
    for (int i = 0; i < nodes; i++)
        after[i] =
            !n->absorbed[i] && reads_part(n, &n->g->node[n->chain[i].head])
                ? first_reader(n, i)
                : i;
    for (int i = nodes - 1; i >= 0; i--) {
        if (n->absorbed[i] || after[i] != i)
            continue;
        order[count++] = i;
        for (int k = nodes - 1; k > i; k--)
            if (after[k] == i)
                order[count++] = k;
    }
    free(after);
    *out = order;
    return count;
}
