/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan's graph where some nodes compute in floats although the file has their
 * form of 8 bits.
 *
 * They read the value in front of a pair of nodes quantize and dequantize,
 * unless the node that makes it gives 8 bits and another reader wants these:
 * then they read what the pair gives.  Pairs that nobody reads go.  Weights of
 * 8 bits become floats while planning (lower_quantize.c).
 *
 * A pair may go only if all that it does is to round and to limit what lies
 * beyond the calibrated range.  With the lowest integer as zero point it also
 * cuts negative values off, as a ReLU does: quantisers remove a ReLU or clip in
 * front of such a pair (onnxruntime's quantize_static, asymmetric activations).
 * So that pair counts only where its input is known not to be negative.
 */
#include "libinfer/plan/best/best.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "libinfer/graph/graph_sign.h"
#include "libinfer/plan/integers.h"

/* ---- pairs --------------------------------------------------------- */

static bool same_bytes(const struct constant *a, const struct constant *b)
{
    return a->dtype == b->dtype && a->rank == b->rank &&
           memcmp(a->dim, b->dim, (size_t)a->rank * sizeof a->dim[0]) == 0 &&
           a->bytes == b->bytes && memcmp(a->data, b->data, a->bytes) == 0;
}

/* True if input i of both is one value, equal constants, or absent. */
static bool same_input(const struct graph *g, const struct graph_node *a,
                       const struct graph_node *b, int i)
{
    const int x = i < a->n_in ? a->in[i] : -1;
    const int y = i < b->n_in ? b->in[i] : -1;
    struct constant *c = NULL, *d = NULL;
    bool same;

    if (x == y || x < 0 || y < 0)
        return x == y;
    same = g->value[x].data && g->value[y].data &&
           constant_in_memory(g->value[x].data, NULL, NULL, &c) == 0 &&
           constant_in_memory(g->value[y].data, NULL, NULL, &d) == 0 &&
           same_bytes(c, d);
    constant_unref(c);
    constant_unref(d);
    return same;
}

/* True if the node quantize cuts off nothing but what its range leaves out. */
static bool only_rounds(const struct graph *g, const struct graph_node *q,
                        const bool *not_negative)
{
    float scale;
    int zero;

    return not_negative[q->in[0]] ||
           (integers_scale(g, q, &scale, &zero) && scale > 0 &&
            zero > graph_lowest_integer(q->attr.quantize.to));
}

/* The node quantize that makes a pair with the node d, or -1. */
static int pair_of(const struct graph *g, const struct graph_node *d,
                   const bool *not_negative)
{
    const struct graph_node *q;
    int node;

    if (d->op != GRAPH_DEQUANTIZE || d->in[0] < 0)
        return -1;
    node = g->value[d->in[0]].producer;
    q = node >= 0 ? &g->node[node] : NULL;
    return q && q->op == GRAPH_QUANTIZE && q->in[0] >= 0 &&
                   g->value[q->in[0]].dtype == g->value[d->out[0]].dtype &&
                   q->attr.quantize.axis == d->attr.quantize.axis &&
                   same_input(g, q, d, 1) && same_input(g, q, d, 2) &&
                   only_rounds(g, q, not_negative)
               ? node
               : -1;
}

/* pair[value]: the node quantize whose pair makes the value, or -1. */
static void find_pairs(const struct graph *g, const bool *not_negative,
                       int *pair)
{
    for (int i = 0; i < g->n_values; i++)
        pair[i] = -1;
    for (int i = 0; i < g->n_nodes; i++)
        if (g->node[i].op == GRAPH_DEQUANTIZE)
            pair[g->node[i].out[0]] = pair_of(g, &g->node[i], not_negative);
}

/* ---- readers ------------------------------------------------------- */

/* Marks the nodes quantize whose 8 bits are wanted. */
static void mark_wanted(const struct graph *g, const bool *bytes,
                        const int *pair, bool *wanted)
{
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; bytes[i] && k < g->node[i].n_in; k++) {
            const int x = g->node[i].in[k];

            if (x >= 0 && pair[x] >= 0)
                wanted[pair[x]] = true;
        }
    for (int i = 0; i < g->n_outputs; i++)
        if (pair[g->output[i]] >= 0)
            wanted[pair[g->output[i]]] = true;
}

/* Nodes in floats read what lies in front of pairs. */
static void read_floats(struct graph *g, const bool *bytes, const int *pair,
                        const bool *wanted)
{
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; !bytes[i] && k < g->node[i].n_in; k++) {
            const int read = g->node[i].in[k];
            const int q = read >= 0 ? pair[read] : -1;
            const int x = q >= 0 ? g->node[q].in[0] : -1;
            const int maker = x >= 0 ? g->value[x].producer : -1;

            if (q >= 0 && (maker < 0 || !bytes[maker] || !wanted[q]))
                g->node[i].in[k] = x;
        }
}

int best_rewire(struct graph *g, const bool *bytes, struct infer_error *err)
{
    const size_t values = (size_t)g->n_values + 1;
    bool *wanted = calloc((size_t)g->n_nodes + 1, sizeof *wanted);
    bool *not_negative = calloc(values, sizeof *not_negative);
    int *pair = calloc(values, sizeof *pair);
    bool done = wanted && not_negative && pair;

    if (done) {
        graph_not_negative(g, not_negative);
        find_pairs(g, not_negative, pair);
        mark_wanted(g, bytes, pair, wanted);
        read_floats(g, bytes, pair, wanted);
        done = graph_remove_dead(g) >= 0;
    }
    free(wanted);
    free(not_negative);
    free(pair);
    return done ? INFER_OK
                : error_set(err, INFER_EMEMORY, "plan: out of memory");
}
