/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Constants on demand: a value that the graph computes from constants alone is
 * computed when a node asks for its elements.
 *
 * Such values come from every operator that fold.c has no row for.  They are
 * part of the graph like any other; what no node asks for is left to the pass
 * fold-constants.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "weights/evaluate.h"
#include "weights/onnx/onnx.h"

/* Bytes by which one node may enlarge what it reads, and the largest value
 * that is computed at all. */
#define MAX_GROWTH ((int64_t)64 << 20)

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

static bool bytes_of(const struct onnx_import *im, int value, int64_t *out)
{
    const struct graph_type *t = &im->type[value][0];

    return checked_count(t->rank, t->dim, out) &&
           checked_mul_i64(*out, (int64_t)infer_dtype_size(t->dtype), out);
}

static bool grows_little(const struct onnx_import *im,
                         const struct graph_node *n)
{
    int64_t in = 0, out = 0, bytes;

    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] >= 0 && (!bytes_of(im, n->in[i], &bytes) ||
                              !checked_add_i64(in, bytes, &in)))
            return false;
    for (int i = 0; i < n->n_out; i++)
        if (!bytes_of(im, n->out[i], &bytes) ||
            !checked_add_i64(out, bytes, &out))
            return false;
    return out - in <= MAX_GROWTH;
}

/* Marks the nodes that `value` needs; false where one of them grows. */
static bool mark(const struct onnx_import *im, int value, unsigned char *node,
                 unsigned char *needed)
{
    const struct graph *g = im->g;

    needed[value] = 1;
    for (int n = g->value[value].producer; n >= 0; n--) {
        bool wanted = false;

        for (int i = 0; i < g->node[n].n_out; i++)
            wanted |= needed[g->node[n].out[i]] != 0;
        if (!wanted || g->node[n].op == GRAPH_NONE)
            continue;
        if (!grows_little(im, &g->node[n]))
            return false;
        node[n] = 1;
        for (int i = 0; i < g->node[n].n_in; i++)
            if (g->node[n].in[i] >= 0)
                needed[g->node[n].in[i]] = 1;
    }
    return true;
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
    struct constant *c = NULL;
    unsigned char *node, *needed;
    int rc = 0;

    if (im->rc < 0)
        return im->rc;
    if (v->constant || v->state != ONNX_GRAPH || !im->fixed[v->graph])
        return 0;
    node = calloc((size_t)g->n_nodes + 1, 1);
    needed = calloc((size_t)g->n_values + 1, 1);
    if (!node || !needed)
        rc = INFER_EMEMORY;
    else if (mark(im, v->graph, node, needed))
        rc = weights_evaluate(g, node, &v->graph, 1, &c, NULL);
    free(node);
    free(needed);
    if (c) {
        replace(im->g, v->graph, c);
        v->constant = c;
    }
    /* What the reference does not compute stays in the graph. */
    return rc == INFER_EMEMORY ? onnx_no_memory(im) : 0;
}
