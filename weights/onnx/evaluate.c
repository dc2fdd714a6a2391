/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Constants on demand: a value that the graph computes from constants alone is
 * computed when a node asks for its elements.
 *
 * Such values come from every operator that has no rule in fold/rules.c.  They
 * are part of the graph like any other; what no node asks for is left to the
 * pass fold-constants.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "weights/evaluate.h"
#include "weights/onnx/onnx.h"

/* Operations and bytes moved for all constants of an import, beside those that
 * its weights pay for. */
#define MAX_WORK       2e9
#define WORK_OF_A_BYTE 100
/* Of a session. */
#define LEAST_WORK 1e5
/* Nodes of one: a plan takes about 7 KiB for each. */
#define MAX_NODES 1024

bool onnx_computes_constant(const struct onnx_import *im, int graph_value)
{
    const struct graph_value *v = &im->g->value[graph_value];
    const struct graph_node *n;
    int used = 0;

    if (v->producer < 0)
        return v->data != NULL;
    n = &im->g->node[v->producer];
    for (int i = 0; i < n->n_in; i++) {
        if (n->in[i] < 0)
            continue;
        used++;
        if (!im->fixed[n->in[i]])
            return false;
    }
    return used > 0;
}

/* Nodes and values, a byte each, that a value is computed from. */
struct needs {
    unsigned char *node, *value;
    int pending;    /* marked values whose node was not looked at */
    int nodes;      /* marked */
    uint64_t fills; /* bytes of marked fills that are not written */
};

static void mark_value(const struct onnx_import *im, struct needs *n, int value)
{
    const struct graph_value *v = &im->g->value[value];

    if (n->value[value])
        return;
    n->value[value] = 1;
    n->pending += v->producer >= 0;
    if (v->data && v->data->unfilled)
        n->fills += v->data->bytes;
}

/* Marks what `value` needs, from its node back to the first of them. */
static void mark(const struct onnx_import *im, struct needs *needs, int value)
{
    const struct graph *g = im->g;

    mark_value(im, needs, value);
    for (int n = g->value[value].producer; n >= 0 && needs->pending > 0; n--) {
        bool wanted = false;

        for (int i = 0; i < g->node[n].n_out; i++)
            if (needs->value[g->node[n].out[i]]) {
                wanted = true;
                needs->pending--;
            }
        if (!wanted || g->node[n].op == GRAPH_NONE)
            continue;
        needs->node[n] = 1;
        needs->nodes++;
        for (int i = 0; i < g->node[n].n_in; i++)
            if (g->node[n].in[i] >= 0)
                mark_value(im, needs, g->node[n].in[i]);
    }
}

/* Fills that are needed are written; false where there is no room. */
static bool fill_needed(struct onnx_import *im, const struct needs *needs)
{
    if (needs->fills > onnx_room(im))
        return false;
    for (int i = 0; needs->fills > 0 && i < im->g->n_values; i++)
        if (needs->value[i])
            onnx_fill(im, im->g->value[i].data);
    return true;
}

static double count_of(const struct onnx_import *im, int value)
{
    int64_t count = 0;

    if (value >= 0)
        checked_count(im->type[value][0].rank, im->type[value][0].dim, &count);
    return (double)count;
}

/* Operations and bytes moved of the marked nodes, roughly: what is taken off
 * the limit. */
static double work_of(const struct onnx_import *im, const unsigned char *node)
{
    double sum = LEAST_WORK;

    for (int k = 0; k < im->g->n_nodes; k++) {
        const struct graph_node *n = &im->g->node[k];
        double out = 0;

        if (!node[k])
            continue;
        for (int i = 0; i < n->n_out; i++)
            out += count_of(im, n->out[i]);
        for (int i = 0; i < n->n_in; i++)
            sum += 4 * count_of(im, n->in[i]);
        sum += 4 * out;
        /* A sum of products an output, over what each column of the second
         * factor holds. */
        if (n->op == GRAPH_CONV || n->op == GRAPH_DENSE ||
            n->op == GRAPH_CONV_TRANSPOSE || n->op == GRAPH_MATMUL) {
            const struct graph_type *w = &im->type[n->in[1]][0];
            const int64_t columns =
                w->rank < 1 ? 1
                            : w->dim[n->op == GRAPH_MATMUL ? w->rank - 1 : 0];

            sum += 2 * out * count_of(im, n->in[1]) /
                   (double)(columns > 0 ? columns : 1);
        }
    }
    return sum;
}

/* The elements of a value of the graph, NULL where the reference does not
 * compute them or the limits do not allow it. */
static int compute(struct onnx_import *im, int value, struct needs *needs,
                   struct constant **out)
{
    const struct weights_limits most = {
        onnx_room(im), MAX_WORK + WORK_OF_A_BYTE * (double)im->held - im->work};
    int rc;

    mark(im, needs, value);
    im->work += work_of(im, needs->node);
    if (most.work <= 0 || needs->nodes > MAX_NODES || !fill_needed(im, needs))
        return 0;
    rc = weights_evaluate(im->g, needs->node, &most, &value, 1, out, NULL);
    if (*out)
        im->generated += (*out)->bytes;
    return rc;
}

/* The value becomes a constant of the graph in place of a node's output. */
static void replace(struct graph *g, int value, struct constant *c)
{
    struct graph_value *v = &g->value[value];

    if (g->node[v->producer].n_out == 1) {
        graph_remove_node(g, v->producer);
        v->data = constant_ref(c);
        v->dtype = c->dtype;
        v->rank = c->rank;
        memcpy(v->dim, c->dim, sizeof v->dim);
    }
}

int onnx_value_evaluate(struct onnx_import *im, struct onnx_value *v)
{
    const struct graph *g = im->g;
    struct needs needs = {0};
    struct constant *c = NULL;
    int rc = 0;

    if (im->rc < 0)
        return im->rc;
    if (v->constant || v->state != ONNX_GRAPH || !im->fixed[v->graph])
        return 0;
    needs.node = calloc((size_t)g->n_nodes + 1, 1);
    needs.value = calloc((size_t)g->n_values + 1, 1);
    if (!needs.node || !needs.value)
        rc = INFER_EMEMORY;
    else
        rc = compute(im, v->graph, &needs, &c);
    free(needs.node);
    free(needs.value);
    if (c) {
        replace(im->g, v->graph, c);
        v->constant = c;
    }
    /* What the reference does not compute stays in the graph. */
    return rc == INFER_EMEMORY ? onnx_no_memory(im) : 0;
}
