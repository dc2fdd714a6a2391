/* SPDX-License-Identifier: Apache-2.0 */
/* drop-cells: exporters write the states of an LSTM whether they are read or
 * not, and initial states of 0. */
#include "kernels/base/scalar.h"
#include "kernels/recurrent/recurrent.h"
#include "weights/passes/pass.h"

/* All of h and nothing of c, of states N,S,2H. */
static bool is_first_half(const struct graph_slice *s, int64_t width)
{
    return s->n_axes == 1 && (s->axis[0] == 2 || s->axis[0] == -1) &&
           s->begin[0] == 0 && s->step[0] == 1 && width % 2 == 0 &&
           s->end[0] == width / 2;
}

/* A slice of h alone, which is all that is read of the states. */
static int drop_cell(struct pass *p, int node)
{
    const struct graph_node *n = &p->g->node[node];
    const int states = pass_input(n, 0);
    const int layer = pass_producer(p, states, GRAPH_RECURRENT);

    if (layer < 0 || !p->g->node[layer].attr.recurrent.with_cell ||
        pass_reader(p, states) != node || p->g->value[states].rank != 3 ||
        !is_first_half(&n->attr.slice, p->g->value[states].dim[2]))
        return 0;
    p->g->node[layer].attr.recurrent.with_cell = false;
    pass_absorb(p, layer, node);
    pass_note(p, 0, "state c of %s", p->g->node[layer].name);
    return 1;
}

static bool is_zero(const struct constant *c)
{
    for (int64_t i = 0; i < constant_count(c); i++)
        if (scalar_load(c->dtype, c->data, i) != 0)
            return false;
    return true;
}

/* Nodes between a constant and a state that repeat it for each sequence and
 * take the part of a layer. */
#define REACH 8

/* The constant whose elements input i is made of, or NULL. */
static const struct constant *constant_state(const struct pass *p,
                                             const struct graph_node *n, int i)
{
    int value = pass_input(n, i);

    for (int k = 0; k < REACH && value >= 0; k++) {
        const int maker = p->g->value[value].producer;
        const enum graph_op op = maker < 0 ? GRAPH_NONE : p->g->node[maker].op;

        if (op != GRAPH_EXPAND && op != GRAPH_SLICE && op != GRAPH_SQUEEZE &&
            op != GRAPH_UNSQUEEZE && op != GRAPH_RESHAPE)
            break;
        value = pass_input(&p->g->node[maker], 0);
    }
    return value < 0 ? NULL : pass_value_constant(p, value);
}

static int drop_zeros(struct pass *p, int node)
{
    int changed = 0;

    for (int i = RECURRENT_H; i <= RECURRENT_C; i++) {
        const struct graph_node *n = &p->g->node[node];
        const struct constant *c = constant_state(p, n, i);
        int rc;

        if (!c || !is_zero(c))
            continue;
        rc = pass_set_input(p, node, i, -1);
        if (rc < 0)
            return rc;
        pass_note(p, 0, "initial state of %s", p->g->node[node].name);
        changed = 1;
    }
    return changed;
}

int pass_drop_cells(struct pass *p, int node)
{
    switch ((int)p->g->node[node].op) {
    case GRAPH_SLICE:
        return drop_cell(p, node);
    case GRAPH_RECURRENT:
        return drop_zeros(p, node);
    default:
        return 0;
    }
}
