/* SPDX-License-Identifier: Apache-2.0 */
/* Values that are known not to be negative, by what makes them. */
#include "libinfer/plan/best/best.h"

#include <limits.h>

#include "libinfer/plan/integers.h"

int best_lowest(enum infer_dtype dtype)
{
    switch (dtype) {
    case INFER_U8:
    case INFER_U16:
        return 0;
    case INFER_I8:
        return INT8_MIN;
    case INFER_I16:
        return INT16_MIN;
    default:
        return INT_MIN;
    }
}

/* True of a function that gives nothing negative, whatever it is given. */
static bool removes_sign(const struct kern_unary *f)
{
    switch (f->kind) {
    case KERN_RELU:
    case KERN_SIGMOID:
    case KERN_HARD_SIGMOID:
    case KERN_SOFTPLUS:
    case KERN_EXP:
    case KERN_SQRT:
    case KERN_ABS:
        return true;
    case KERN_CLIP:
        return f->a >= 0 && f->b >= 0;
    case KERN_THRESHOLDED_RELU:
        return f->a >= 0;
    default:
        return false;
    }
}

/* True of an operation that gives nothing negative where its inputs are not
 * negative. */
static bool keeps_sign(const struct graph_node *n)
{
    if (n->epilogue.act.kind != KERN_IDENTITY)
        return false;
    switch (n->op) {
    case GRAPH_POOL:
    case GRAPH_REDUCE:
        return true;
    case GRAPH_BINARY:
        return n->attr.binary.kind == KERN_ADD ||
               n->attr.binary.kind == KERN_MUL ||
               n->attr.binary.kind == KERN_MAX;
    case GRAPH_RESIZE:
        return n->attr.resize.resize.mode != KERN_BICUBIC;
    case GRAPH_PAD:
        return n->attr.pad.value >= 0;
    default:
        return graph_op_info(n->op)->moves;
    }
}

static bool are_not_negative(const struct graph_node *n, const bool *value)
{
    /* What follows input 0 of the others is read for its shape alone. */
    const int inputs =
        n->op == GRAPH_CONCAT || n->op == GRAPH_BINARY ? n->n_in : 1;

    for (int i = 0; i < inputs; i++)
        if (i >= n->n_in || n->in[i] < 0 || !value[n->in[i]])
            return false;
    return true;
}

/* True of a node whose outputs are not negative. */
static bool gives_none(const struct graph *g, const struct graph_node *n,
                       const bool *value)
{
    float scale;
    int zero;

    if (n->op == GRAPH_DEQUANTIZE)
        return n->in[0] >= 0 && integers_scale(g, n, &scale, &zero) &&
               scale > 0 && zero <= best_lowest(g->value[n->in[0]].dtype);
    if (n->op == GRAPH_UNARY)
        return removes_sign(&n->attr.unary);
    if (n->op == GRAPH_SOFTMAX)
        return !n->attr.axis.log;
    if (removes_sign(&n->epilogue.act))
        return !n->epilogue.residual_last;
    return keeps_sign(n) && are_not_negative(n, value);
}

void best_not_negative(const struct graph *g, bool *value)
{
    for (int i = 0; i < g->n_nodes; i++) {
        const struct graph_node *n = &g->node[i];

        if (n->op == GRAPH_NONE || !gives_none(g, n, value))
            continue;
        for (int k = 0; k < n->n_out; k++)
            if (n->out[k] >= 0)
                value[n->out[k]] = true;
    }
}
