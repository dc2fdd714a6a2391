/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of the way back.  It is that of the way forward reversed, but for
 * nodes that read their input in part (every second pixel, say): those wait
 * until the other readers have put their gradients, and add to what is there.
 * Were they first, they would have to fill the rest with zeros, and the next
 * to read it all again.
 */
#include "tools/train/net/net.h"

#include <stdlib.h>

#include "kernels/base/error.h"

/* A convolution whose steps are longer than its window, on a GPU, where adding
 * in place costs no pass over what stays as it is; any slice. */
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

/* The first chain that reads the input of chain i, which is undone last. */
static int first_reader(const struct net *n, int i)
{
    const int x = n->g->node[n->chain[i].head].in[0];

    for (int k = 0; k < i; k++)
        if (!n->absorbed[k] && reads(n, k, x))
            return k;
    return i;
}

int net_bwd_order(const struct net *n, struct infer_error *err, int **out)
{
    const int nodes = n->g->n_nodes;
    int *after = malloc(((size_t)nodes + 1) * sizeof(*after)), count = 0;
    int *order = malloc(((size_t)nodes + 1) * sizeof(*order));

    if (!after || !order) {
        free(after);
        free(order);
        return error_set(err, INFER_EMEMORY, "out of memory");
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
