/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remove-transposes: graphs that compute on N,H,W,C between transposes are
 * rewritten to N,C,H,W.
 *
 * A transpose to channels-last order sinks through the operations that follow
 * it (their axes, pads and constants are rewritten) until it meets its
 * inverse, or an operation that needs it.  A transpose to channels-first order
 * rises through single operations before it.  Two transposes in a row become
 * one; one that moves only dimensions of size 1 becomes a reshape.
 *
 * The layout of graph inputs and outputs is part of the model's interface: a
 * transpose that has reached them stays.
 */
#include "weights/passes/pass.h"

#include <string.h>

/* order[i]: the input dimension that becomes output dimension i. */
struct order {
    int rank;
    int of[INFER_MAX_RANK];
};

static bool read_order(const struct pass *p, int node, struct order *out)
{
    const struct graph_node *n = &p->g->node[node];
    const struct graph_dims *dims = &n->attr.dims;
    int rank = p->g->value[n->in[0]].rank;
    unsigned seen = 0;

    if (rank < 1)
        return false;
    out->rank = rank;
    for (int i = 0; i < rank; i++) {
        int64_t d = dims->n == rank ? dims->dim[i] : rank - 1 - i;

        if (d < 0 || d >= rank)
            return false;
        out->of[i] = (int)d;
        seen |= 1u << d;
    }
    return seen == (1u << rank) - 1;
}

static struct order inverse(const struct order *o)
{
    struct order out = {o->rank, {0}};

    for (int i = 0; i < o->rank; i++)
        out.of[o->of[i]] = i;
    return out;
}

static bool equal(const struct order *a, const struct order *b)
{
    return a->rank == b->rank &&
           memcmp(a->of, b->of, (size_t)a->rank * sizeof(a->of[0])) == 0;
}

/* N,spatial,C from N,C,spatial. */
static bool to_channels_last(const struct order *o)
{
    if (o->rank < 3 || o->of[0] != 0 || o->of[o->rank - 1] != 1)
        return false;
    for (int i = 1; i < o->rank - 1; i++)
        if (o->of[i] != i + 1)
            return false;
    return true;
}

static bool to_channels_first(const struct order *o)
{
    const struct order back = inverse(o);

    /* Of rank 3 the two orders are one: those sink. */
    return o->rank > 3 && to_channels_last(&back);
}

static void set_order(struct graph_node *n, const struct order *o)
{
    n->attr.dims.n = o->rank;
    for (int i = 0; i < o->rank; i++)
        n->attr.dims.dim[i] = o->of[i];
}

/* ---- what an operation does to an order ---------------------------- */

static int positive(int axis, int rank)
{
    return axis < 0 ? axis + rank : axis;
}

static void map_pad(struct kern_pad *pad, const struct order *o)
{
    struct kern_pad old = *pad;

    /* Dimension i of the node's view is dimension of[i] of what it will
     * see. */
    for (int i = 0; i < o->rank; i++) {
        pad->begin[o->of[i]] = old.begin[i];
        pad->end[o->of[i]] = old.end[i];
    }
}

static void map_resize(struct graph_resize *r, const struct order *o)
{
    struct graph_resize old = *r;

    for (int i = 0; i < o->rank; i++) {
        r->resize.scale[o->of[i]] = old.resize.scale[i];
        r->size[o->of[i]] = old.size[i];
    }
}

static void map_axes(int *axis, int n, const struct order *o)
{
    for (int i = 0; i < n; i++)
        axis[i] = o->of[positive(axis[i], o->rank)];
}

static bool axes_valid(const int *axis, int n, int rank)
{
    for (int i = 0; i < n; i++)
        if (positive(axis[i], rank) < 0 || positive(axis[i], rank) >= rank)
            return false;
    return true;
}

/* Whether the axes of the operation can be renamed. */
static bool attributes_allow(struct graph_node *n, int rank)
{
    int count;
    const int *axis = graph_axes(n->op, &n->attr, &count);

    if (!graph_op_info(n->op)->any_order)
        return false;
    if (n->op == GRAPH_RESIZE)
        return n->attr.resize.n_sizes == 0 || n->attr.resize.n_sizes == rank;
    if (n->op == GRAPH_SOFTMAX && n->attr.axis.flatten)
        return false;
    return axes_valid(axis, count, rank);
}

/* For operations that attributes_allow() has accepted. */
static void map_attributes(struct graph_node *n, const struct order *o)
{
    int count;
    int *axis = graph_axes(n->op, &n->attr, &count);

    map_axes(axis, count, o);
    if (n->op == GRAPH_PAD)
        map_pad(&n->attr.pad, o);
    else if (n->op == GRAPH_RESIZE)
        map_resize(&n->attr.resize, o);
}

/* The order of what a node gives when its input had order o: the same, but for
 * reductions that drop dimensions. */
static struct order output_order(const struct graph_node *n,
                                 const struct order *o)
{
    struct order out = {0, {0}};
    bool dropped[INFER_MAX_RANK] = {false};
    int place[INFER_MAX_RANK];
    int kept = 0;

    if (n->op != GRAPH_REDUCE || n->attr.reduce.keep_dims)
        return *o;
    for (int i = 0; i < o->rank; i++)
        dropped[i] = n->attr.reduce.n_axes == 0;
    for (int i = 0; i < n->attr.reduce.n_axes; i++)
        dropped[positive(n->attr.reduce.axis[i], o->rank)] = true;
    /* place[d]: where dimension d of the new view stands among the kept. */
    for (int d = 0; d < o->rank; d++) {
        int seen_at = inverse(o).of[d];

        place[d] = kept;
        kept += !dropped[seen_at];
    }
    for (int i = 0; i < o->rank; i++)
        if (!dropped[i])
            out.of[out.rank++] = place[o->of[i]];
    return out;
}

static bool in_order(const struct order *o)
{
    for (int i = 0; i < o->rank; i++)
        if (o->of[i] != i)
            return false;
    return true;
}

/* ---- operands ------------------------------------------------------ */

/* A constant under the order: its dimensions, filled up with ones in front,
 * put in the places of N,C,spatial.  A value or an error. */
static int reorder_constant(struct pass *p, int value, const struct order *o)
{
    const struct order back = inverse(o);
    struct constant *c = pass_value_constant(p, value);
    int64_t dim[INFER_MAX_RANK];
    struct constant *full, *transposed;

    if (constant_count(c) == 1)
        return value;
    for (int i = 0; i < o->rank; i++)
        dim[i] = i < o->rank - c->rank ? 1 : c->dim[i - (o->rank - c->rank)];
    full = constant_new(c->dtype, o->rank, dim);
    if (!full)
        return pass_no_memory(p);
    memcpy(full->data, c->data, c->bytes);
    transposed = constant_transpose(full, back.of);
    constant_unref(full);
    if (!transposed)
        return pass_no_memory(p);
    return pass_add_constant(p, p->g->value[value].name, ".nchw", transposed);
}

/* All but the first and the last dimension are 1, so that the transpose costs
 * nothing: the gate of a squeeze-and-excitation block. */
static bool is_flat(const struct graph_value *v, int rank)
{
    if (v->rank != rank)
        return false;
    for (int i = 1; i < rank - 1; i++)
        if (v->dim[i] != 1)
            return false;
    return true;
}

enum operand { TURNED, CONSTANT, FLAT, OTHER };

static enum operand classify(const struct pass *p, int value,
                             const struct order *o)
{
    const struct graph_value *v = &p->g->value[value];
    int producer = pass_producer(p, value, GRAPH_TRANSPOSE);
    const struct constant *c = pass_value_constant(p, value);
    struct order other;

    if (producer >= 0 && read_order(p, producer, &other) && equal(&other, o))
        return TURNED;
    if (c && c->rank <= o->rank)
        return CONSTANT;
    return !c && is_flat(v, o->rank) ? FLAT : OTHER;
}

/* How many inputs lie as the output does: scales and zero points of
 * quantisation are numbers or vectors. */
static int operand_count(const struct graph_node *n)
{
    return n->op == GRAPH_QUANTIZE || n->op == GRAPH_DEQUANTIZE ? 1 : n->n_in;
}

/* The first order to channels-last among the inputs. */
static bool find_order(const struct pass *p, const struct graph_node *n,
                       struct order *o)
{
    for (int i = 0; i < operand_count(n); i++) {
        int producer =
            n->in[i] < 0 ? -1 : pass_producer(p, n->in[i], GRAPH_TRANSPOSE);

        if (producer >= 0 && read_order(p, producer, o) && to_channels_last(o))
            return true;
    }
    return false;
}

static bool operands_allow(const struct pass *p, const struct graph_node *n,
                           const struct order *o)
{
    bool broadcasts = n->op == GRAPH_BINARY || n->op == GRAPH_WHERE ||
                      n->op == GRAPH_PRELU || n->op == GRAPH_REQUANTIZE;

    for (int i = 0; i < operand_count(n); i++) {
        enum operand kind = n->in[i] < 0 ? OTHER : classify(p, n->in[i], o);

        if (kind == OTHER || (kind == CONSTANT && !broadcasts))
            return false;
        if (kind == FLAT && n->op != GRAPH_BINARY)
            return false;
    }
    return true;
}

/* ---- sinking ------------------------------------------------------- */

/* Input i of a node, seen before the transpose. */
static int turn_input(struct pass *p, int node, int i, const struct order *o)
{
    const struct order back = inverse(o);
    int value = p->g->node[node].in[i];
    int transposed = INFER_EUNSUPPORTED;

    switch (classify(p, value, o)) {
    case TURNED:
        transposed = p->g->node[p->g->value[value].producer].in[0];
        break;
    case CONSTANT:
        transposed = reorder_constant(p, value, o);
        break;
    case FLAT:
    case OTHER:
        transposed = pass_add_node(p, GRAPH_TRANSPOSE, &value, 1);
        if (transposed >= 0)
            set_order(&p->g->node[p->g->value[transposed].producer], &back);
        break;
    }
    return transposed < 0 ? transposed : pass_set_input(p, node, i, transposed);
}

/* A transpose between output i of a node and its readers. */
static int turn_output(struct pass *p, int node, int i, const struct order *o)
{
    struct graph *g = p->g;
    int old = g->node[node].out[i];
    int fresh = pass_add_node(p, GRAPH_TRANSPOSE, &old, 1);
    int transpose;

    if (fresh < 0)
        return fresh;
    /* The new node was made to read the old value and give a fresh one: the
     * two change places, so that readers and names stay with the old one. */
    transpose = g->value[fresh].producer;
    g->node[node].out[i] = fresh;
    g->node[transpose].out[0] = old;
    g->value[fresh].producer = node;
    g->value[old].producer = transpose;
    pass_set_input(p, transpose, 0, fresh);
    set_order(&g->node[transpose], o);
    g->value[fresh].dtype = g->value[old].dtype;
    g->value[fresh].rank = g->value[old].rank;
    for (int d = 0; d < o->rank; d++)
        g->value[fresh].dim[o->of[d]] = g->value[old].dim[d];
    return 0;
}

static int sink(struct pass *p, int node)
{
    struct graph *g = p->g;
    struct order o, after;
    int rc = 0;

    if (!find_order(p, &g->node[node], &o) ||
        !attributes_allow(&g->node[node], o.rank) ||
        pass_residual(&g->node[node]) >= 0 ||
        !operands_allow(p, &g->node[node], &o))
        return 0;
    after = output_order(&g->node[node], &o);
    for (int i = 0; i < g->node[node].n_out; i++)
        if (g->value[g->node[node].out[i]].rank != after.rank)
            return 0;
    for (int i = 0; i < operand_count(&g->node[node]) && rc >= 0; i++)
        rc = turn_input(p, node, i, &o);
    map_attributes(&g->node[node], &o);
    for (int i = 0; i < g->node[node].n_out && rc >= 0; i++)
        if (!in_order(&after))
            rc = turn_output(p, node, i, &after);
    if (rc < 0)
        return rc;
    pass_note(p, 0, "through %s", g->node[node].name);
    return 1;
}

/* ---- rising -------------------------------------------------------- */

/* Moves a transpose to channels-first order from after a node of one variable
 * input to before it. */
static int rise(struct pass *p, int node)
{
    struct graph *g = p->g;
    struct order o, back;
    int before, variable = -1, transposed, rc = 0;

    if (g->node[node].op != GRAPH_TRANSPOSE || !read_order(p, node, &o) ||
        !to_channels_first(&o))
        return 0;
    before = g->value[g->node[node].in[0]].producer;
    if (before < 0 || pass_reader(p, g->node[node].in[0]) != node ||
        g->node[before].n_out != 1 || g->node[before].op == GRAPH_REDUCE ||
        pass_residual(&g->node[before]) >= 0 ||
        !attributes_allow(&g->node[before], o.rank))
        return 0;
    for (int i = 0; i < g->node[before].n_in; i++) {
        int in = g->node[before].in[i];

        if (in >= 0 && pass_value_constant(p, in) &&
            g->value[in].rank <= o.rank && g->node[before].op == GRAPH_BINARY)
            continue;
        if (in < 0 || variable >= 0 || g->value[in].rank != o.rank)
            return 0;
        variable = i;
    }
    if (variable < 0)
        return 0;
    /* Seen from the node before, its view is the inverse of what it gets. */
    back = inverse(&o);
    for (int i = 0; i < g->node[before].n_in && rc >= 0; i++) {
        int in = g->node[before].in[i];

        if (i != variable) {
            transposed = reorder_constant(p, in, &back);
        } else {
            transposed = pass_add_node(p, GRAPH_TRANSPOSE, &in, 1);
            if (transposed >= 0)
                set_order(&g->node[g->value[transposed].producer], &o);
        }
        rc = transposed < 0 ? transposed
                            : pass_set_input(p, before, i, transposed);
    }
    if (rc < 0)
        return rc;
    map_attributes(&g->node[before], &back);
    pass_note(p, 0, "before %s", g->node[before].name);
    pass_absorb(p, before, node);
    return 1;
}

/* ---- transposes alone ---------------------------------------------- */

/* Two in a row: this one reads what the other read. */
static int join(struct pass *p, int node)
{
    struct graph *g = p->g;
    int before = pass_producer(p, g->node[node].in[0], GRAPH_TRANSPOSE);
    struct order first, second, both;
    int rc;

    if (before < 0 || !read_order(p, before, &first) ||
        !read_order(p, node, &second) || first.rank != second.rank)
        return 0;
    both.rank = first.rank;
    for (int i = 0; i < both.rank; i++)
        both.of[i] = first.of[second.of[i]];
    rc = pass_set_input(p, node, 0, g->node[before].in[0]);
    if (rc < 0)
        return rc;
    set_order(&g->node[node], &both);
    pass_note(p, 0, "%s and %s", g->node[before].name, g->node[node].name);
    return 1;
}

/* Dimensions that are not 1 keep their order: nothing moves in memory. */
static int to_reshape(struct pass *p, int node)
{
    struct graph *g = p->g;
    int x = g->node[node].in[0];
    const struct graph_value *v = &g->value[x];
    struct graph_dims target;
    struct order o;
    int last = -1, unknown = 0, rc;

    if (!read_order(p, node, &o) || in_order(&o))
        return 0;
    for (int i = 0; i < o.rank; i++) {
        if (v->dim[o.of[i]] == 1)
            continue;
        if (o.of[i] < last)
            return 0;
        last = o.of[i];
        unknown += v->dim[last] < 0;
        /* Size 0 would mean "as the input" in a reshape. */
        if (v->dim[last] == 0)
            return 0;
    }
    if (unknown > 1)
        return 0;
    target.n = o.rank;
    for (int i = 0; i < o.rank; i++)
        target.dim[i] = v->dim[o.of[i]];
    rc = pass_become(p, node, GRAPH_RESHAPE, &x, 1);
    if (rc < 0)
        return rc;
    g->node[node].attr.dims = target;
    pass_note(p, 0, "%s is a reshape", g->node[node].name);
    return 1;
}

int pass_remove_transposes(struct pass *p, int node)
{
    int rc;

    if (p->g->node[node].op != GRAPH_TRANSPOSE)
        return sink(p, node);
    rc = join(p, node);
    if (rc == 0)
        rc = to_reshape(p, node);
    return rc == 0 ? rise(p, node) : rc;
}
