/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Concatenation in place: which values are built inside the result of a
 * concatenation, so that nothing is left to copy when it is reached.
 *
 * A value is hosted by the last concatenation that holds it once.  A
 * concatenation's own result is hosted where it is part of another, or where
 * its inputs stand side by side in another: in a dense block, where every
 * concatenation is the beginning of the next, all lie in the last one.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "libinfer/graph/ops/op.h"
#include "libinfer/plan/plan.h"

/* Hosts inside hosts; beyond this depth values are copied. */
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

/* Host for the result of concatenation n where its inputs follow one another
 * in a later concatenation along the same axis. */
static void host_beginning(struct plan *plan, const struct graph_node *n,
                           int axis)
{
    const struct graph *g = plan->g;
    const struct plan_value *first = &plan->value[n->in[0]];
    struct plan_value *out = &plan->value[n->out[0]];
    int64_t at;
    int i;

    if (first->host < 0 || first->host_axis != axis)
        return;
    at = first->host_offset;
    for (i = 0; i < n->n_in; i++) {
        const struct plan_value *v = &plan->value[n->in[i]];

        if (v->host != first->host || v->host_axis != axis ||
            v->host_offset != at)
            return;
        at += g->value[n->in[i]].dim[axis];
    }
    out->host = first->host;
    out->host_axis = axis;
    out->host_offset = first->host_offset;
    out->host_depth = first->host_depth;
}

static void host_parts(struct plan *plan, const struct graph_node *n, int axis)
{
    const struct graph *g = plan->g;
    const struct plan_value *out = &plan->value[n->out[0]];
    int64_t at = 0;
    int i;

    if (out->host_depth >= MAX_DEPTH)
        return;
    for (i = 0; i < n->n_in; i++) {
        int index = n->in[i];
        struct plan_value *v = &plan->value[index];

        /* Counting is quadratic, and a part of thousands is rarely worth it. */
        if (v->host < 0 && g->value[index].producer >= 0 && n->n_in <= 256 &&
            count_in(n, index) == 1 &&
            g->value[index].dtype == g->value[n->out[0]].dtype) {
            v->host = n->out[0];
            v->host_axis = axis;
            v->host_offset = at;
            v->host_depth = out->host_depth + 1;
        }
        at += g->value[index].dim[axis];
    }
}

void plan_host(struct plan *plan)
{
    const struct graph *g = plan->g;
    int i, axis;

    for (i = 0; i < g->n_values; i++)
        plan->value[i].host = -1;
    for (i = g->n_nodes - 1; i >= 0; i--) {
        const struct graph_node *n = &g->node[i];

        if (n->op != GRAPH_CONCAT || n->n_in < 2 || !concat_axis(g, n, &axis))
            continue;
        if (plan->value[n->out[0]].host < 0)
            host_beginning(plan, n, axis);
        host_parts(plan, n, axis);
    }
}

int plan_home(struct plan *plan, int value, enum kern_layout layout,
              struct infer_error *err, struct view *out)
{
    int chain[MAX_DEPTH + 2];
    int n = 0, at, rc;

    /* Up to the first host that is known, or to the outermost. */
    for (at = value; !plan->value[at].has_home && plan->value[at].host >= 0;
         at = plan->value[at].host)
        chain[n++] = at;
    if (!plan->value[at].has_home) {
        const struct graph_value *v = &plan->g->value[at];

        rc = plan_buffer(plan, v->producer, plan_dtype(plan, v->dtype), v->rank,
                         v->dim, layout, err, &plan->value[at].home);
        if (rc < 0)
            return rc;
        plan->value[at].has_home = true;
    }
    while (n > 0) {
        struct plan_value *v = &plan->value[chain[--n]];
        int axis = v->host_axis;

        v->home = view_slice(&plan->value[v->host].home, axis, v->host_offset,
                             1, plan->g->value[chain[n]].dim[axis]);
        v->has_home = true;
    }
    *out = plan->value[value].home;
    return 0;
}
