/* SPDX-License-Identifier: Apache-2.0 */
/*
 * split-shuffle, reorder-channels and swap-halves: shuffles of channels, which
 * networks spell as a reshape to N,B,A,..., a transpose to N,A,B,... and a
 * reshape to N,C,... (ShuffleNet).
 *
 * Parts of a shuffled tensor are shuffles of parts, so that each is copied once
 * to where it is read.  A convolution of all channels takes them in any order
 * if its weights are in that order too, and so do depthwise convolutions and
 * functions of single channels before it.
 *
 * Of two halves that are concatenated for a shuffle, one is made by a layer and
 * one was moved.  The layer's comes first, where it is aligned for kernels that
 * write it there; copies do not mind.
 */
#include "weights/passes/pass.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Channel i * b + j of the output is channel j * a + i of the input. */
struct shuffle {
    int transpose;
    int x; /* the value N,B,A,... */
    int64_t a, b;
};

/* True if dimensions 1 and 2 of the input change places. */
static bool swaps_two(const struct graph_dims *order, int rank)
{
    if (order->n != rank || rank < 3)
        return false;
    for (int i = 0; i < rank; i++)
        if (order->dim[i] != (i == 1 ? 2 : i == 2 ? 1 : i))
            return false;
    return true;
}

/* True if v is t with dimensions 1 and 2 as one, and a reshape can be told its
 * sizes. */
static bool joins_two(const struct graph_value *t, const struct graph_value *v)
{
    int64_t channels;
    int free = 0;

    if (v->rank < 2 || t->rank != v->rank + 1 || t->dim[1] < 1 ||
        t->dim[2] < 1 || t->dim[0] != v->dim[0] ||
        __builtin_mul_overflow(t->dim[1], t->dim[2], &channels) ||
        channels != v->dim[1])
        return false;
    for (int i = 0; i < v->rank; i++) {
        if (v->dim[i] == 0 || (i > 1 && v->dim[i] != t->dim[i + 1]))
            return false;
        free += v->dim[i] < 0;
    }
    return free <= 1;
}

/* The shuffle that makes a value. */
static bool find_shuffle(const struct pass *p, int value, struct shuffle *s)
{
    const struct graph *g = p->g;
    const int reshape = value < 0 ? -1 : g->value[value].producer;
    const struct graph_value *t;

    if (reshape < 0 || !pass_is_reshape(&g->node[reshape]))
        return false;
    s->transpose = pass_producer(p, g->node[reshape].in[0], GRAPH_TRANSPOSE);
    if (s->transpose < 0)
        return false;
    t = &g->value[g->node[reshape].in[0]];
    s->x = g->node[s->transpose].in[0];
    s->a = t->dim[1];
    s->b = t->dim[2];
    return swaps_two(&g->node[s->transpose].attr.dims, t->rank) &&
           joins_two(t, &g->value[value]);
}

/* Makes the node a reshape to these sizes, of which one may be free. */
static void set_sizes(struct graph_node *n, const struct graph_value *sizes)
{
    n->attr.dims.n = sizes->rank;
    for (int i = 0; i < sizes->rank; i++)
        n->attr.dims.dim[i] = sizes->dim[i];
}

/* ---- split-shuffle ------------------------------------------------- */

/* Puts a new node behind output k of a node: it gives the old value. */
static int put_behind(struct pass *p, int node, int k, enum graph_op op)
{
    struct graph *g = p->g;
    int old = g->node[node].out[k];
    const int fresh = pass_add_node(p, op, &old, 1);
    int behind, rc;

    if (fresh < 0)
        return fresh;
    behind = g->value[fresh].producer;
    g->node[node].out[k] = fresh;
    g->node[behind].out[0] = old;
    g->value[fresh].producer = node;
    g->value[old].producer = behind;
    g->value[fresh].dtype = g->value[old].dtype;
    rc = pass_set_input(p, behind, 0, fresh);
    return rc < 0 ? rc : behind;
}

/* Shuffles part k of x anew, which has `count` of its a channels. */
static int shuffle_part(struct pass *p, int node, int k,
                        const struct shuffle *s, int64_t count)
{
    struct graph *g = p->g;
    const struct graph_dims order = g->node[s->transpose].attr.dims;
    const int reshape = put_behind(p, node, k, GRAPH_RESHAPE);
    struct graph_value *v;
    int transpose;

    if (reshape < 0)
        return reshape;
    set_sizes(&g->node[reshape], &g->value[g->node[reshape].out[0]]);
    transpose = put_behind(p, node, k, GRAPH_TRANSPOSE);
    if (transpose < 0)
        return transpose;
    g->node[transpose].attr.dims = order;
    for (int i = 0; i < 2; i++) {
        v = &g->value[g->node[i ? node : transpose].out[i ? k : 0]];
        v->rank = g->value[s->x].rank;
        memcpy(v->dim, g->value[s->x].dim, sizeof v->dim);
        v->dim[i ? 1 : 2] = s->b;
        v->dim[i ? 2 : 1] = count;
    }
    return 0;
}

static bool is_channel_axis(int axis, int rank)
{
    return axis == 1 || axis + rank == 1;
}

/* The first channels of the node's parts, `first`[n_out + 1]; false where it is
 * no plain split or slice of channels.  v: its input. */
static bool find_parts(const struct graph *g, const struct graph_node *n,
                       const struct graph_value *v, int64_t *first)
{
    const struct graph_slice *slice = &n->attr.slice;

    if (n->op == GRAPH_SPLIT) {
        if (n->n_out > GRAPH_MAX_PARTS ||
            !is_channel_axis(n->attr.split.axis, v->rank))
            return false;
        first[0] = 0;
    } else if (n->op == GRAPH_SLICE) {
        if (slice->n_axes != 1 || slice->step[0] != 1 ||
            !is_channel_axis(slice->axis[0], v->rank))
            return false;
        first[0] = slice->begin[0] + (slice->begin[0] < 0 ? v->dim[1] : 0);
        if (first[0] < 0)
            return false;
    } else {
        return false;
    }
    for (int k = 0; k < n->n_out; k++) {
        const struct graph_value *out = &g->value[n->out[k]];

        if (out->rank != v->rank || out->dim[1] < 1)
            return false;
        first[k + 1] = first[k] + out->dim[1];
    }
    return first[n->n_out] <= v->dim[1] && v->dim[1] <= INT_MAX;
}

/* True if every reader is a slice. */
static bool only_sliced(const struct pass *p, int value)
{
    if (p->is_output[value])
        return false;
    for (int i = 0; i < p->g->n_nodes; i++) {
        const struct graph_node *n = &p->g->node[i];

        for (int k = 0; n->op != GRAPH_NONE && k < n->n_in; k++)
            if (n->in[k] == value && n->op != GRAPH_SLICE)
                return false;
    }
    return true;
}

int pass_split_shuffle(struct pass *p, int node)
{
    struct graph *g = p->g;
    struct graph_node *n = &g->node[node];
    const int value = n->n_in > 0 ? n->in[0] : -1;
    int64_t first[GRAPH_MAX_PARTS + 1];
    struct shuffle s;
    int rc;

    if ((n->op != GRAPH_SPLIT && n->op != GRAPH_SLICE) ||
        !find_shuffle(p, value, &s) ||
        !find_parts(g, n, &g->value[value], first))
        return 0;
    for (int k = 0; k <= n->n_out; k++)
        if (first[k] % s.b != 0)
            return 0;
    if (n->op == GRAPH_SPLIT ? pass_reader(p, value) != node
                             : !only_sliced(p, value))
        return 0;
    pass_note(p, 0, "%s before %s", n->name, g->node[s.transpose].name);
    rc = pass_set_input(p, node, 0, s.x);
    if (n->op == GRAPH_SPLIT) {
        n->attr.split.axis = 2;
        n->attr.split.n_sizes = n->n_out;
        for (int k = 0; k < n->n_out; k++)
            n->attr.split.size[k] = (int)((first[k + 1] - first[k]) / s.b);
    } else {
        n->attr.slice.axis[0] = 2;
        n->attr.slice.begin[0] = first[0] / s.b;
        n->attr.slice.end[0] = first[1] / s.b;
    }
    for (int k = 0; rc >= 0 && k < g->node[node].n_out; k++)
        rc = shuffle_part(p, node, k, &s, (first[k + 1] - first[k]) / s.b);
    return rc < 0 ? rc : 1;
}

/* ---- reorder-channels ---------------------------------------------- */

/* Nodes between a shuffle and the convolution, at most. */
#define MOST_BETWEEN 8

/* A convolution with one filter a channel, of constants. */
static bool is_depthwise(const struct pass *p, const struct graph_node *n,
                         int64_t channels)
{
    const struct constant *w = pass_constant(p, n, 1);
    const struct constant *bias = pass_constant(p, n, 2);

    return n->op == GRAPH_CONV && n->attr.conv.conv.groups == channels && w &&
           w->rank > 2 && w->dim[0] == channels && w->dim[1] == 1 &&
           (bias ? constant_count(bias) == channels : pass_input(n, 2) < 0);
}

/* Each channel of its output comes from that channel of its input. */
static bool keeps_channels(const struct pass *p, int node, int64_t channels)
{
    const struct graph_node *n = &p->g->node[node];

    if (n->op == GRAPH_UNARY)
        return pass_plain(n);
    return is_depthwise(p, n, channels) && pass_residual(n) < 0;
}

/* A copy of c with its `extent` slices along a dimension, each of `inner`
 * bytes, in the order that lies before the shuffle. */
static struct constant *unshuffle(const struct constant *c, int axis,
                                  const struct shuffle *s)
{
    struct constant *to = constant_new(c->dtype, c->rank, c->dim);
    const int64_t channels = s->a * s->b;
    int64_t outer = 1;
    size_t inner;

    if (!to)
        return NULL;
    for (int i = 0; i < axis; i++)
        outer *= c->dim[i];
    inner = c->bytes / (size_t)(outer * channels);
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < s->a; i++)
            for (int64_t j = 0; j < s->b; j++)
                memcpy((char *)to->data +
                           (size_t)(o * channels + j * s->a + i) * inner,
                       (const char *)c->data +
                           (size_t)(o * channels + i * s->b + j) * inner,
                       inner);
    return to;
}

/* Puts the constant of input i into the order before the shuffle. */
static int reorder_input(struct pass *p, int node, int i, int axis,
                         const struct shuffle *s)
{
    const int value = pass_input(&p->g->node[node], i);
    struct constant *c = pass_value_constant(p, value);
    int fresh;

    if (!c)
        return 0;
    c = unshuffle(c, axis, s);
    if (!c)
        return pass_no_memory(p);
    if (pass_reader(p, value) == node) {
        pass_put_constant(p, value, c);
        return 0;
    }
    fresh = pass_add_constant(p, p->g->value[value].name, ".order", c);
    return fresh < 0 ? fresh : pass_set_input(p, node, i, fresh);
}

/* A convolution of all channels, with constant weights. */
static bool takes_any_order(const struct pass *p, const struct graph_node *n,
                            int64_t channels)
{
    const struct constant *w = pass_constant(p, n, 1);

    return n->op == GRAPH_CONV && n->attr.conv.conv.groups == 1 && w &&
           w->rank > 2 && w->dim[1] == channels;
}

/* The nodes from the convolution back to behind a shuffle, in between[]; their
 * number or -1. */
static int walk_back(const struct pass *p, int conv, struct shuffle *s,
                     int *between)
{
    const struct graph *g = p->g;
    int n = 0, node = conv;

    while (!find_shuffle(p, g->node[node].in[0], s)) {
        const int value = g->node[node].in[0];
        const int before = value < 0 ? -1 : g->value[value].producer;

        if (n == MOST_BETWEEN || before < 0 || g->node[before].n_out != 1 ||
            pass_reader(p, value) != node || g->value[value].rank < 2 ||
            !keeps_channels(p, before, g->value[value].dim[1]))
            return -1;
        between[n++] = before;
        node = before;
    }
    return n;
}

int pass_reorder_channels(struct pass *p, int node)
{
    struct graph *g = p->g;
    int between[MOST_BETWEEN], n, first, value, rc;
    struct shuffle s;

    if (g->node[node].op != GRAPH_CONV ||
        g->node[node].attr.conv.conv.groups != 1)
        return 0;
    n = walk_back(p, node, &s, between);
    if (n < 0 || !takes_any_order(p, &g->node[node], s.a * s.b))
        return 0;
    first = n > 0 ? between[n - 1] : node;
    value = pass_add_node(p, GRAPH_RESHAPE, &s.x, 1);
    if (value < 0)
        return value;
    set_sizes(&g->node[g->value[value].producer],
              &g->value[g->node[first].in[0]]);
    g->value[value].dtype = g->value[s.x].dtype;
    g->value[value].rank = g->value[g->node[first].in[0]].rank;
    memcpy(g->value[value].dim, g->value[g->node[first].in[0]].dim,
           sizeof g->value[value].dim);
    pass_note(p, 0, "%s into %s", g->node[s.transpose].name,
              g->node[node].name);
    rc = pass_set_input(p, first, 0, value);
    if (rc >= 0)
        rc = reorder_input(p, node, 1, 1, &s);
    for (int i = 0; rc >= 0 && i < n; i++) {
        if (g->node[between[i]].op != GRAPH_CONV)
            continue;
        rc = reorder_input(p, between[i], 1, 0, &s);
        if (rc >= 0)
            rc = reorder_input(p, between[i], 2, 0, &s);
    }
    return rc < 0 ? rc : 1;
}

/* ---- swap-halves --------------------------------------------------- */

/* Channels that are whole vectors of any type: their end is aligned. */
#define ALIGNED 8

/* True of a node that moves elements alone. */
static bool is_moved(const struct graph *g, int value)
{
    const int node = g->value[value].producer;

    return node >= 0 && graph_op_info(g->node[node].op)->moves;
}

/* True if the concatenation of two equal halves of channels ends the first at
 * no aligned place, and the second is a convolution's. */
static bool halves_swap(const struct graph *g, const struct graph_node *concat)
{
    const struct graph_value *a, *b;
    int layer;

    if (concat->n_in != 2)
        return false;
    a = &g->value[concat->in[0]];
    b = &g->value[concat->in[1]];
    layer = b->producer;
    return is_channel_axis(concat->attr.axis.axis, a->rank) && a->rank > 2 &&
           b->rank == a->rank && a->dim[1] > 0 && a->dim[1] == b->dim[1] &&
           a->dim[1] % ALIGNED != 0 && layer >= 0 &&
           g->node[layer].op == GRAPH_CONV && is_moved(g, concat->in[0]);
}

int pass_swap_halves(struct pass *p, int node)
{
    struct graph *g = p->g;
    const struct graph_value *out;
    struct graph_slice *slice;
    int concat, first, second, behind, rc;

    if (!pass_is_reshape(&g->node[node]))
        return 0;
    concat = pass_producer(p, g->node[node].in[0], GRAPH_CONCAT);
    out = &g->value[g->node[node].out[0]];
    if (concat < 0 || pass_reader(p, g->node[node].in[0]) != node ||
        !halves_swap(g, &g->node[concat]))
        return 0;
    first = g->node[concat].in[0];
    second = g->node[concat].in[1];
    if (!joins_two(out, &g->value[g->node[node].in[0]]) || out->dim[1] != 2)
        return 0;
    pass_note(p, 0, "%s", g->node[concat].name);
    behind = put_behind(p, node, 0, GRAPH_SLICE);
    if (behind < 0)
        return behind;
    out = &g->value[g->node[behind].out[0]];
    g->value[g->node[node].out[0]].rank = out->rank;
    memcpy(g->value[g->node[node].out[0]].dim, out->dim, sizeof out->dim);
    slice = &g->node[behind].attr.slice;
    slice->n_axes = 1;
    slice->axis[0] = 1;
    slice->begin[0] = -1;
    slice->end[0] = INT64_MIN + 1;
    slice->step[0] = -1;
    rc = pass_set_input(p, concat, 0, second);
    if (rc >= 0)
        rc = pass_set_input(p, concat, 1, first);
    return rc < 0 ? rc : 1;
}
