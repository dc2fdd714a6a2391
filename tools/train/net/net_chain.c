/* SPDX-License-Identifier: Apache-2.0 */
/* Chains of nodes that are one launch: batch normalisation with the addition
 * and the activation after it, convolutions and dense layers with their
 * activation. An activation is fused only if its derivative follows from its
 * output: the backward pass has nothing else. */
#include "tools/train/net/net.h"

#include <stdlib.h>
#include <string.h>

static bool is_head(const struct graph_node *node)
{
    return node->op == GRAPH_CONV || node->op == GRAPH_DENSE ||
           node->op == GRAPH_BATCH_NORM;
}

/* The only reader of a value, if it is this operation. */
static int reader(const struct net *n, int value, enum graph_op op)
{
    const int user = graph_single_user(n->g, value);

    return user >= 0 && n->g->node[user].op == op && !n->absorbed[user] ? user
                                                                        : -1;
}

/* An addition of two tensors of one shape. */
static bool adds_alike(const struct net *n, const struct graph_node *node)
{
    const struct graph_value *a = &n->g->value[node->in[0]];
    const struct graph_value *b = &n->g->value[node->in[1]];

    return node->attr.binary.kind == KERN_ADD && a->rank == b->rank &&
           node->in[0] != node->in[1] && n->value[node->in[0]].param < 0 &&
           n->value[node->in[1]].param < 0 && !a->data && !b->data &&
           memcmp(a->dim, b->dim, (size_t)a->rank * sizeof(a->dim[0])) == 0;
}

/* The addition that is fused after a batch norm; it is fused with one of its
 * operands only. */
static int addition(const struct net *n, const struct graph_node *bn,
                    const bool *taken, int *residual)
{
    const int value = bn->out[0];
    const int add = reader(n, value, GRAPH_BINARY);
    const struct graph_node *node;

    if (add < 0 || taken[add] || !adds_alike(n, &n->g->node[add]))
        return -1;
    node = &n->g->node[add];
    *residual = node->in[0] == value ? node->in[1] : node->in[0];
    return add;
}

static void chain_from(struct net *n, int head, bool *taken)
{
    const struct graph_node *node = &n->g->node[head];
    struct net_chain c = {head, -1, -1, -1};
    int end = head, act;

    if (node->op == GRAPH_BATCH_NORM) {
        c.add = addition(n, node, taken, &c.residual);
        if (c.add >= 0) {
            taken[c.add] = true;
            end = c.add;
        }
    }
    act = is_head(node) ? reader(n, n->g->node[end].out[0], GRAPH_UNARY) : -1;
    if (act >= 0 && kern_unary_grad_from_output(&n->g->node[act].attr.unary)) {
        c.act = act;
        end = act;
    }
    if (end != head)
        n->absorbed[head] = true;
    if (c.add >= 0 && c.add != end)
        n->absorbed[c.add] = true;
    n->chain[end] = c;
}

void net_find_chains(struct net *n)
{
    const size_t nodes = (size_t)n->g->n_nodes;
    bool *taken = calloc(nodes + 1, sizeof(*taken));

    n->chain = calloc(nodes + 1, sizeof(*n->chain));
    n->absorbed = calloc(nodes + 1, sizeof(*n->absorbed));
    if (!taken || !n->chain || !n->absorbed) {
        free(taken);
        net_fail(n, INFER_EMEMORY, "out of memory");
        return;
    }
    for (int i = 0; i < n->g->n_nodes; i++)
        n->chain[i] = (struct net_chain){i, -1, -1, -1};
    for (int i = 0; i < n->g->n_nodes; i++)
        if (is_head(&n->g->node[i]))
            chain_from(n, i, taken);
    free(taken);
}
