/* SPDX-License-Identifier: Apache-2.0 */
/* Measures what the minimum cut adds up. */
#include "libinfer/plan/best/costs.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/quant/quant.h"
#include "libinfer/plan/integers.h"

static bool is_conversion(const struct graph_node *n)
{
    return n->op == GRAPH_QUANTIZE || n->op == GRAPH_DEQUANTIZE;
}

/* ---- layers -------------------------------------------------------- */

int costs_open(struct costs *c, const struct plan *bytes,
               struct infer_error *err)
{
    const struct graph *g = bytes->g;
    const size_t nodes = (size_t)g->n_nodes + 1;
    size_t inputs = 1;

    memset(c, 0, sizeof *c);
    for (int i = 0; i < g->n_nodes; i++)
        inputs += (size_t)g->node[i].n_in;
    c->node = calloc(nodes, sizeof *c->node);
    c->layer = calloc(nodes, sizeof *c->layer);
    c->time = calloc(2 * nodes, sizeof *c->time);
    c->tensor = calloc(nodes, sizeof *c->tensor);
    c->reader = calloc(inputs, sizeof *c->reader);
    if (!c->node || !c->layer || !c->time || !c->tensor || !c->reader)
        return error_set(err, INFER_EMEMORY, "types: out of memory");
    for (int i = 0; i < g->n_nodes; i++) {
        c->layer[i] = -1;
        if (!bytes->integers[i] || is_conversion(&g->node[i]))
            continue;
        c->layer[i] = c->cut.n;
        c->node[c->cut.n++] = i;
    }
    c->cut.floats = c->time;
    c->cut.bytes = c->time + nodes;
    c->cut.tensor = c->tensor;
    c->cut.reader = c->reader;
    return INFER_OK;
}

void costs_free(struct costs *c)
{
    free(c->node);
    free(c->layer);
    free(c->time);
    free(c->tensor);
    free(c->reader);
    memset(c, 0, sizeof *c);
}

/* ---- steps --------------------------------------------------------- */

/* Adds the seconds of a plan's steps to those of their nodes; joint[node]: a
 * step computes it with others. */
static int add_steps(struct plan *plan, double *seconds, bool *joint,
                     struct infer_error *err)
{
    int rc = plan_tune(plan, err);

    for (int i = 0; rc == 0 && i < plan->steps.n; i++) {
        const struct plan_step *s = plan->steps.at[i];
        const enum kern_op op = s->exec.problem.op;
        double each;

        if (s->once || s->node < 0)
            continue;
        rc = tuner_seconds(plan->config->tuner, &s->exec.problem, &s->choice,
                           err, &each);
        seconds[s->node] += each;
        joint[s->node] |= op == KERN_SQUEEZE_EXCITE || op == KERN_ATTENTION ||
                          op == KERN_CHAIN;
    }
    return rc;
}

/* True of a node without a step that only moves elements: it is a view. */
static bool is_view(const struct graph *g, int node)
{
    return g->node[node].op != GRAPH_NONE &&
           graph_op_info(g->node[node].op)->moves;
}

/* ---- conversions --------------------------------------------------- */

/* Seconds of one copy of a tensor with a scale: to 8 bits, or from them. */
static int time_copy(const struct plan *plan, const struct graph_node *quantize,
                     bool back, struct infer_error *err, double *seconds)
{
    const struct graph_value *v = &plan->g->value[quantize->in[0]];
    const enum infer_dtype wide = plan_dtype(plan, v->dtype);
    const enum infer_dtype narrow = quantize->attr.quantize.to;
    const enum kern_layout layout = v->rank == 4 ? KERN_NHWC : KERN_NCHW;
    struct kern_problem p = {.op = KERN_COPY, .n_in = 1, .n_out = 1};
    struct tune_choice choice = {.row = NULL};

    *seconds = 0;
    if (!integers_scale(plan->g, quantize,
                        back ? &p.quant.x_scale : &p.quant.y_scale,
                        back ? &p.quant.x_zero : &p.quant.y_zero))
        return 0;
    p.in[0] = kern_tensor_dense(back ? narrow : wide, v->rank, v->dim, layout);
    p.out[0] = kern_tensor_dense(back ? wide : narrow, v->rank, v->dim, layout);
    choice.row = plan_find_copy(plan, &p, true);
    return choice.row
               ? tuner_seconds(plan->config->tuner, &p, &choice, err, seconds)
               : 0;
}

/* The readers of what the pair of this node quantize gives. */
static void list_readers(struct costs *c, const struct graph *g, int quantize,
                         int *at, struct cut_tensor *t)
{
    const int narrow = g->node[quantize].out[0];

    t->reader = *at;
    for (int d = 0; d < g->n_nodes; d++) {
        if (g->node[d].op != GRAPH_DEQUANTIZE || g->node[d].in[0] != narrow)
            continue;
        t->floats_read |= graph_is_output(g, g->node[d].out[0]);
        for (int i = 0; i < g->n_nodes; i++)
            for (int k = 0; k < g->node[i].n_in; k++) {
                if (g->node[i].in[k] != g->node[d].out[0])
                    continue;
                if (c->layer[i] >= 0)
                    c->reader[(*at)++] = c->layer[i];
                else
                    t->floats_read = true;
            }
    }
    t->n_reader = *at - t->reader;
}

/* Whether anybody but the node reads the value. */
static bool has_others(const struct graph *g, int value, int node)
{
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->node[i].n_in; k++)
            if (i != node && g->node[i].in[k] == value)
                return true;
    return graph_is_output(g, value);
}

/* A tensor for each node quantize of values.  Where the plan has steps for a
 * conversion their time counts, else that of a copy of the tensor. */
static int add_tensors(struct costs *c, const struct plan *bytes,
                       const double *seconds, struct infer_error *err)
{
    const struct graph *g = bytes->g;
    int at = 0, rc = 0;

    for (int i = 0; rc == 0 && i < g->n_nodes; i++) {
        const struct graph_node *n = &g->node[i];
        struct cut_tensor *t = &c->tensor[c->cut.n_tensors];
        int maker;

        if (n->op != GRAPH_QUANTIZE || n->in[0] < 0 || g->value[n->in[0]].data)
            continue;
        *t = (struct cut_tensor){.maker = -1};
        maker = g->value[n->in[0]].producer;
        /* A step of its own whatever the maker computes in. */
        if (maker >= 0 && !has_others(g, n->in[0], i))
            t->maker = c->layer[maker];
        list_readers(c, g, i, &at, t);
        t->quantise = seconds[i];
        if (t->quantise == 0)
            rc = time_copy(bytes, n, false, err, &t->quantise);
        if (rc == 0 && t->maker >= 0)
            rc = time_copy(bytes, n, true, err, &t->dequantise);
        c->cut.n_tensors++;
    }
    return rc;
}

/* ---- all ----------------------------------------------------------- */

int costs_measure(struct costs *c, struct plan *bytes, struct plan *floats,
                  struct infer_error *err)
{
    const size_t n =
        (size_t)(bytes->g->n_nodes > floats->g->n_nodes ? bytes->g->n_nodes
                                                        : floats->g->n_nodes);
    double *seconds = calloc(2 * (n + 1), sizeof *seconds);
    double *narrow = seconds, *wide = seconds ? seconds + n + 1 : NULL;
    bool *joint = calloc(n + 1, sizeof *joint);
    double *to_floats = c->time, *to_bytes = c->time + bytes->g->n_nodes + 1;
    int rc = seconds && joint
                 ? 0
                 : error_set(err, INFER_EMEMORY, "types: out of memory");

    if (rc == 0)
        rc = add_steps(floats, wide, joint, err);
    if (rc == 0)
        rc = add_steps(bytes, narrow, joint, err);
    for (int i = 0; rc == 0 && i < c->cut.n; i++) {
        const int node = c->node[i];

        to_floats[i] = wide[node];
        to_bytes[i] = narrow[node];
        if (joint[node] || (wide[node] == 0 && !is_view(floats->g, node)))
            to_bytes[i] = COSTS_NEVER;
    }
    if (rc == 0)
        rc = add_tensors(c, bytes, narrow, err);
    free(seconds);
    free(joint);
    return rc;
}
