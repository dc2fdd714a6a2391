/* SPDX-License-Identifier: Apache-2.0 */
/* Passes: whether a number is rounded to an integer, compared or the like once
 * it was computed: then a sum in another order is another result. */
#include "weights/passes/pass.h"

#include "kernels/base/scalar.h"

/* Nodes behind a value that are looked at for one that jumps. */
#define MOST_BEHIND 64

/* True of a node whose result jumps: numbers that are exact before it, such as
 * 2.1 / 0.3, must not be rounded in another way. */
static bool jumps(const struct graph_node *n)
{
    if (n->op == GRAPH_QUANTIZE)
        return true;
    if (n->op == GRAPH_CAST)
        return scalar_is_integer(n->attr.cast.to) ||
               n->attr.cast.to == INFER_BOOL;
    if (n->op == GRAPH_UNARY)
        return n->attr.unary.kind == KERN_FLOOR ||
               n->attr.unary.kind == KERN_CEIL ||
               n->attr.unary.kind == KERN_ROUND ||
               n->attr.unary.kind == KERN_SIGN;
    return n->op == GRAPH_BINARY &&
           (n->attr.binary.kind == KERN_MOD ||
            (n->attr.binary.kind >= KERN_EQUAL &&
             n->attr.binary.kind <= KERN_GREATER_EQUAL));
}

/* True of a node behind which a number is still the exact one: it picks or
 * moves elements, clips them, or is another step of a chain. */
static bool hands_on(const struct pass *p, const struct graph_node *n)
{
    if (n->op == GRAPH_UNARY)
        return n->attr.unary.kind == KERN_LINEAR ||
               n->attr.unary.kind == KERN_NEG ||
               n->attr.unary.kind == KERN_ABS ||
               n->attr.unary.kind == KERN_RELU ||
               n->attr.unary.kind == KERN_CLIP;
    if (n->op == GRAPH_BINARY)
        return n->attr.binary.kind == KERN_MIN ||
               n->attr.binary.kind == KERN_MAX || pass_constant(p, n, 0) ||
               pass_constant(p, n, 1);
    return n->op == GRAPH_SCALE_SHIFT || n->op == GRAPH_CAST ||
           n->op == GRAPH_PAD || n->op == GRAPH_WHERE || n->op == GRAPH_POOL ||
           graph_op_info(n->op)->moves;
}

/* True if a value reaches a node that jumps; also where more than `*left`
 * nodes would have to be looked at. */
static bool reaches_jump(const struct pass *p, int value, int *left)
{
    const struct graph *g = p->g;

    for (int i = 0; p->readers[value] > 0 && i < g->n_nodes; i++) {
        const struct graph_node *n = &g->node[i];
        bool reads = false;

        for (int k = 0; k < n->n_in; k++)
            reads |= n->in[k] == value;
        if (!reads)
            continue;
        if (jumps(n) || --*left < 0)
            return true;
        for (int k = 0; k < n->n_out && hands_on(p, n); k++)
            if (n->out[k] >= 0 && reaches_jump(p, n->out[k], left))
                return true;
    }
    return false;
}

bool pass_reaches_jump(const struct pass *p, int value)
{
    int left = MOST_BEHIND;

    return reaches_jump(p, value, &left);
}
