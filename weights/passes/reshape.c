/* SPDX-License-Identifier: Apache-2.0 */
/* merge-reshapes and reorder-dense: changes of shape alone, and the dense
 * layer after a flattened N,H,W,C tensor. */
#include "weights/passes/pass.h"

#include <string.h>

#include "kernels/base/checked.h"

/* A reshape of a reshape reads what the first one read. */
int pass_merge_reshapes(struct pass *p, int node)
{
    struct graph *g = p->g;
    const struct graph_value *out;
    struct graph_dims target;
    int before, x, unknown = 0, rc;

    if (!pass_is_reshape(&g->node[node]) || g->node[node].in[0] < 0)
        return 0;
    before = g->value[g->node[node].in[0]].producer;
    if (before < 0 || !pass_is_reshape(&g->node[before]))
        return 0;
    out = &g->value[g->node[node].out[0]];
    x = g->node[before].in[0];
    if (x < 0 || out->rank < 0)
        return 0;
    target.n = out->rank;
    for (int i = 0; i < out->rank; i++) {
        /* Size 0 would mean "as the input" in a reshape. */
        if (out->dim[i] == 0)
            return 0;
        target.dim[i] = out->dim[i];
        unknown += out->dim[i] < 0;
    }
    if (unknown > 1)
        return 0;
    rc = pass_become(p, node, GRAPH_RESHAPE, &x, 1);
    if (rc < 0)
        return rc;
    g->node[node].attr.dims = target;
    pass_note(p, 0, "%s and %s", g->node[before].name, g->node[node].name);
    return 1;
}

/* ---- dense --------------------------------------------------------- */

/* N,d1,d2,.. to N,d1*d2*..: the rest of the dimensions are known, and each
 * picture keeps its own row. */
static bool flattens(const struct graph_value *x, const struct graph_value *out)
{
    int64_t rest;

    if (x->rank < 3 || out->rank != 2 || x->dim[0] != out->dim[0])
        return false;
    for (int i = 1; i < x->rank; i++)
        if (x->dim[i] < 1)
            return false;
    return checked_count(x->rank - 1, x->dim + 1, &rest) && rest == out->dim[1];
}

/* The weights with columns in the order of the transpose's input. */
static struct constant *reorder(struct constant *w, const struct graph_value *t,
                                const struct graph_dims *order)
{
    int64_t dim[INFER_MAX_RANK] = {w->dim[0]};
    int back[INFER_MAX_RANK] = {0};
    struct constant *split, *transposed, *joined;

    /* Column dimensions are t's; dimension order[i] of the input is t's i. */
    for (int i = 1; i < t->rank; i++) {
        dim[i] = t->dim[i];
        back[order->dim[i]] = i;
    }
    split = constant_reshape(w, t->rank, dim);
    if (!split)
        return NULL;
    transposed = constant_transpose(split, back);
    constant_unref(split);
    if (!transposed)
        return NULL;
    joined = constant_reshape(transposed, 2, w->dim);
    constant_unref(transposed);
    return joined;
}

static bool keeps_batch(const struct graph_dims *order, int rank)
{
    unsigned seen = 0;

    if (order->n != rank || order->dim[0] != 0)
        return false;
    for (int i = 0; i < rank; i++) {
        if (order->dim[i] < 0 || order->dim[i] >= rank)
            return false;
        seen |= 1u << order->dim[i];
    }
    return seen == (1u << rank) - 1;
}

/* transpose, flatten, dense: flatten, dense with other columns. */
int pass_reorder_dense(struct pass *p, int node)
{
    struct graph *g = p->g;
    int flatten, transpose, value, rc;
    const struct graph_value *t;
    struct graph_dims target;
    struct constant *w;

    if (g->node[node].op != GRAPH_DENSE)
        return 0;
    flatten = g->value[g->node[node].in[0]].producer;
    if (flatten < 0 || !pass_is_reshape(&g->node[flatten]) ||
        pass_reader(p, g->node[node].in[0]) != node)
        return 0;
    transpose = pass_producer(p, g->node[flatten].in[0], GRAPH_TRANSPOSE);
    w = pass_constant(p, &g->node[node], 1);
    if (transpose < 0 || !w || w->rank != 2)
        return 0;
    t = &g->value[g->node[flatten].in[0]];
    if (!flattens(t, &g->value[g->node[flatten].out[0]]) ||
        w->dim[1] != g->value[g->node[flatten].out[0]].dim[1] ||
        !keeps_batch(&g->node[transpose].attr.dims, t->rank))
        return 0;
    target.n = 2;
    target.dim[0] = t->dim[0];
    target.dim[1] = w->dim[1];
    w = reorder(w, t, &g->node[transpose].attr.dims);
    if (!w)
        return pass_no_memory(p);
    value = g->node[node].in[1];
    if (pass_reader(p, value) == node) {
        pass_put_constant(p, value, w);
    } else {
        value = pass_add_constant(p, g->value[value].name, ".chw", w);
        rc = value < 0 ? value : pass_set_input(p, node, 1, value);
        if (rc < 0)
            return rc;
    }
    pass_note(p, 0, "%s before %s", g->node[transpose].name,
              g->node[node].name);
    value = g->node[transpose].in[0];
    rc = pass_become(p, flatten, GRAPH_RESHAPE, &value, 1);
    if (rc < 0)
        return rc;
    g->node[flatten].attr.dims = target;
    return 1;
}
