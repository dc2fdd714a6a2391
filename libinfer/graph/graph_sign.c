/* SPDX-License-Identifier: Apache-2.0 */
/* Values that are known not to be negative, by what makes them. */
#include "libinfer/graph/graph_sign.h"

#include <limits.h>
#include <math.h>

#include "kernels/base/scalar.h"

int graph_lowest_integer(enum infer_dtype dtype)
{
    if (dtype == INFER_U8 || dtype == INFER_U16)
        return 0;
    if (dtype == INFER_I8)
        return INT8_MIN;
    return dtype == INFER_I16 ? INT16_MIN : INT_MIN;
}

/* True of a function that gives nothing negative, whatever it is given. */
static bool removes_sign(const struct kern_unary *f)
{
    if (f->kind == KERN_CLIP)
        return f->a >= 0 && f->b >= 0;
    if (f->kind == KERN_THRESHOLDED_RELU)
        return f->a >= 0;
    return f->kind == KERN_RELU || f->kind == KERN_SIGMOID ||
           f->kind == KERN_HARD_SIGMOID || f->kind == KERN_SOFTPLUS ||
           f->kind == KERN_EXP || f->kind == KERN_SQRT || f->kind == KERN_ABS;
}

/* True of an operation that gives nothing negative where its inputs are not
 * negative. */
static bool keeps_sign(const struct graph_node *n)
{
    if (n->epilogue.act.kind != KERN_IDENTITY)
        return false;
    if (n->op == GRAPH_BINARY)
        return n->attr.binary.kind == KERN_ADD ||
               n->attr.binary.kind == KERN_MUL ||
               n->attr.binary.kind == KERN_MAX;
    if (n->op == GRAPH_RESIZE)
        return n->attr.resize.resize.mode != KERN_BICUBIC;
    if (n->op == GRAPH_PAD)
        return n->attr.pad.value >= 0;
    return n->op == GRAPH_POOL || n->op == GRAPH_REDUCE ||
           graph_op_info(n->op)->moves;
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

/* True of a constant whose elements lie within the limits. */
static bool lies_within(const struct graph *g, int value, double low,
                        double high)
{
    struct constant *c;
    bool within = true;

    if (!g->value[value].data ||
        constant_in_memory(g->value[value].data, NULL, NULL, &c) < 0)
        return false;
    for (int64_t i = 0; within && i < constant_count(c); i++) {
        const double v = scalar_load(c->dtype, c->data, i);
        within = v >= low && v <= high;
    }
    constant_unref(c);
    return within;
}

/* True of a node dequantize of integers that are its zero point or more. */
static bool dequantizes_none(const struct graph *g, const struct graph_node *n)
{
    const int zero = n->n_in > 2 ? n->in[2] : -1;
    int lowest;

    if (n->in[0] < 0 || n->in[1] < 0)
        return false;
    lowest = graph_lowest_integer(g->value[n->in[0]].dtype);
    return lies_within(g, n->in[1], 0, INFINITY) &&
           (zero < 0 ? lowest >= 0 : lies_within(g, zero, -INFINITY, lowest));
}

/* True of a node whose outputs are not negative. */
static bool gives_none(const struct graph *g, const struct graph_node *n,
                       const bool *value)
{
    if (n->op == GRAPH_DEQUANTIZE)
        return dequantizes_none(g, n);
    if (n->op == GRAPH_UNARY)
        return removes_sign(&n->attr.unary);
    if (n->op == GRAPH_SOFTMAX)
        return !n->attr.axis.log;
    if (removes_sign(&n->epilogue.act))
        return !n->epilogue.residual_last;
    return keeps_sign(n) && are_not_negative(n, value);
}

void graph_not_negative(const struct graph *g, bool *value)
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
