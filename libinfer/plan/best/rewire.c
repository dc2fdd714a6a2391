/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan's graph where some nodes compute in floats although the file has their
 * form of 8 bits.
 *
 * They read the value in front of a pair of nodes quantize and dequantize,
 * unless the node that makes it gives 8 bits and another reader wants these:
 * then they read what the pair gives.  Pairs that nobody reads go.  Weights of
 * 8 bits become floats while planning (lower_quantize.c).
 */
#include "libinfer/plan/best/best.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"

/* The node quantize whose pair makes the value, or -1. */
static int pair_of(const struct graph *g, int value)
{
    const int d = value >= 0 ? g->value[value].producer : -1;
    int q;

    if (d < 0 || g->node[d].op != GRAPH_DEQUANTIZE || g->node[d].in[0] < 0)
        return -1;
    q = g->value[g->node[d].in[0]].producer;
    return q >= 0 && g->node[q].op == GRAPH_QUANTIZE && g->node[q].in[0] >= 0 &&
                   g->value[g->node[q].in[0]].dtype == g->value[value].dtype
               ? q
               : -1;
}

/* Marks the nodes quantize whose 8 bits are wanted. */
static void mark_wanted(const struct graph *g, const bool *bytes, bool *wanted)
{
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; bytes[i] && k < g->node[i].n_in; k++) {
            const int q = pair_of(g, g->node[i].in[k]);

            if (q >= 0)
                wanted[q] = true;
        }
    for (int i = 0; i < g->n_outputs; i++) {
        const int q = pair_of(g, g->output[i]);

        if (q >= 0)
            wanted[q] = true;
    }
}

int best_rewire(struct graph *g, const bool *bytes, struct infer_error *err)
{
    bool *wanted = calloc((size_t)g->n_nodes + 1, sizeof *wanted);

    if (!wanted)
        return error_set(err, INFER_EMEMORY, "plan: out of memory");
    mark_wanted(g, bytes, wanted);
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; !bytes[i] && k < g->node[i].n_in; k++) {
            const int q = pair_of(g, g->node[i].in[k]);
            const int x = q >= 0 ? g->node[q].in[0] : -1;
            const int maker = x >= 0 ? g->value[x].producer : -1;

            if (q >= 0 && (maker < 0 || !bytes[maker] || !wanted[q]))
                g->node[i].in[k] = x;
        }
    free(wanted);
    return graph_remove_dead(g) < 0
               ? error_set(err, INFER_EMEMORY, "plan: out of memory")
               : INFER_OK;
}
