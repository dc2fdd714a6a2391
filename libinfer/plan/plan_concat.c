/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Concatenation in place: values that alias a part of a concatenation's output
 * are written there by their producers, and no copy remains.
 *
 * A value aliases the last concatenation that has it as an input once.  The
 * output of a concatenation aliases another one that has it as an input, or
 * that has all its inputs side by side: in a dense block, where every
 * concatenation is a prefix of the next, all alias the last one.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "libinfer/graph/ops/op.h"
#include "libinfer/plan/plan.h"

/* Concatenations inside concatenations; deeper values are copied. */
#define MAX_DEPTH 256

static bool concat_axis(const struct graph *g, const struct graph_node *n,
                        int *axis)
{
    const struct graph_value *out = &g->value[n->out[0]];

    return out->rank > 0 &&
           op_axis(n->attr.axis.axis, out->rank, axis, NULL) == 0;
}

/* How often the node reads the value; stops counting at 2. */
static int count_in(const struct graph_node *n, int value)
{
    int i, count = 0;

    for (i = 0; i < n->n_in && count < 2; i++)
        count += n->in[i] == value;
    return count;
}

/* Lets the output of concatenation n alias a later one if its inputs lie side
 * by side there, along the same axis. */
static void alias_prefix(struct plan *plan, const struct graph_node *n,
                         int axis)
{
    const struct graph *g = plan->g;
    const struct plan_value *first = &plan->value[n->in[0]];
    struct plan_value *out = &plan->value[n->out[0]];
    int64_t at;
    int i;

    if (first->concat < 0 || first->concat_along != axis)
        return;
    at = first->concat_offset;
    for (i = 0; i < n->n_in; i++) {
        const struct plan_value *v = &plan->value[n->in[i]];

        if (v->concat != first->concat || v->concat_along != axis ||
            v->concat_offset != at)
            return;
        at += g->value[n->in[i]].dim[axis];
    }
    out->concat = first->concat;
    out->concat_along = axis;
    out->concat_offset = first->concat_offset;
    out->concat_depth = first->concat_depth;
}

static void alias_inputs(struct plan *plan, const struct graph_node *n,
                         int axis)
{
    const struct graph *g = plan->g;
    const struct plan_value *out = &plan->value[n->out[0]];
    int64_t at = 0;
    int i;

    if (out->concat_depth >= MAX_DEPTH)
        return;
    for (i = 0; i < n->n_in; i++) {
        int index = n->in[i];
        struct plan_value *v = &plan->value[index];

        /* Counting is quadratic, and one input of thousands is rarely worth it.
         */
        if (v->concat < 0 && g->value[index].producer >= 0 && n->n_in <= 256 &&
            count_in(n, index) == 1 &&
            g->value[index].dtype == g->value[n->out[0]].dtype) {
            v->concat = n->out[0];
            v->concat_along = axis;
            v->concat_offset = at;
            v->concat_depth = out->concat_depth + 1;
        }
        at += g->value[index].dim[axis];
    }
}

void plan_find_aliases(struct plan *plan)
{
    const struct graph *g = plan->g;
    int i, axis;

    for (i = 0; i < g->n_values; i++)
        plan->value[i].concat = -1;
    for (i = g->n_nodes - 1; i >= 0; i--) {
        const struct graph_node *n = &g->node[i];

        if (n->op != GRAPH_CONCAT || n->n_in < 2 || !concat_axis(g, n, &axis))
            continue;
        if (plan->value[n->out[0]].concat < 0)
            alias_prefix(plan, n, axis);
        alias_inputs(plan, n, axis);
    }
}

int plan_concat_dest(struct plan *plan, int value, enum kern_layout layout,
                     struct infer_error *err, struct view *out)
{
    int chain[MAX_DEPTH + 2];
    int n = 0, at, rc;

    /* Up to the first concatenation with a destination, or to the outermost. */
    for (at = value; !plan->value[at].has_dest && plan->value[at].concat >= 0;
         at = plan->value[at].concat)
        chain[n++] = at;
    if (!plan->value[at].has_dest) {
        const struct graph_value *v = &plan->g->value[at];

        rc = plan_buffer(plan, v->producer, plan_dtype(plan, v->dtype), v->rank,
                         v->dim, layout, err, &plan->value[at].dest);
        if (rc < 0)
            return rc;
        plan->value[at].has_dest = true;
    }
    while (n > 0) {
        struct plan_value *v = &plan->value[chain[--n]];
        int axis = v->concat_along;

        v->dest =
            view_slice(&plan->value[v->concat].dest, axis, v->concat_offset, 1,
                       plan->g->value[chain[n]].dim[axis]);
        v->has_dest = true;
    }
    *out = plan->value[value].dest;
    return 0;
}
