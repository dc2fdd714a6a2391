/* SPDX-License-Identifier: Apache-2.0 */
/* fuse-activation and fuse-residual: what follows an operation becomes its
 * epilogue, applied before the result is stored. */
#include "weights/passes/pass.h"

bool pass_is_activation(const struct graph_node *n)
{
    const enum kern_unary_kind kind =
        n->op == GRAPH_UNARY ? n->attr.unary.kind : KERN_IDENTITY;

    return kind > KERN_IDENTITY && kind <= KERN_LINEAR && pass_plain(n);
}

int pass_fuse_activation(struct pass *p, int node)
{
    struct graph *g = p->g;
    struct graph_node *n = &g->node[node];
    struct graph_node *before;
    int producer;

    if (!pass_is_activation(n))
        return 0;
    producer = g->value[n->in[0]].producer;
    if (producer < 0 || pass_reader(p, n->in[0]) != node)
        return 0;
    before = &g->node[producer];
    if (!graph_op_info(before->op)->activation || before->n_out != 1 ||
        before->epilogue.act.kind != KERN_IDENTITY ||
        before->epilogue.residual_last || !pass_is_float(&g->value[n->in[0]]))
        return 0;
    before->epilogue.act = n->attr.unary;
    pass_note(p, 0, "%s into %s", n->name, before->name);
    pass_absorb(p, producer, node);
    return 1;
}

/* Whether operand `side` of an addition comes from a layer that can add the
 * other operand itself. */
static bool can_take(const struct pass *p, int add, int side)
{
    const struct graph *g = p->g;
    const struct graph_node *n = &g->node[add];
    int producer = g->value[n->in[side]].producer;
    const struct graph_node *layer;

    if (producer < 0 || pass_reader(p, n->in[side]) != add)
        return false;
    layer = &g->node[producer];
    if (layer->op != GRAPH_CONV && layer->op != GRAPH_DENSE)
        return false;
    if (!graph_op_info(layer->op)->residual || pass_residual(layer) >= 0)
        return false;
    /* y = act(conv + b + r), or act(conv + b) + r; never two activations. */
    return layer->epilogue.act.kind == KERN_IDENTITY ||
           n->epilogue.act.kind == KERN_IDENTITY;
}

/* The side whose layer comes later in the order of execution, so that the
 * other operand is ready when it runs; -1 where neither side can. */
static int choose_side(const struct pass *p, int add)
{
    const struct graph_node *n = &p->g->node[add];
    int later = p->g->value[n->in[1]].producer > p->g->value[n->in[0]].producer;

    if (can_take(p, add, later))
        return later;
    return can_take(p, add, !later) ? !later : -1;
}

/* The layer's residual is `value`, what follows it is the addition's. */
static int take_residual(struct pass *p, int layer, int add, int value)
{
    const struct graph_node *n = &p->g->node[add];
    struct graph_node *l;
    int rc = pass_set_input(p, layer,
                            graph_op_info(p->g->node[layer].op)->max_in, value);

    if (rc < 0)
        return rc;
    l = &p->g->node[layer];
    if (l->epilogue.act.kind != KERN_IDENTITY)
        l->epilogue.residual_last = true;
    else
        l->epilogue.act = n->epilogue.act;
    pass_note(p, 0, "%s into %s", n->name, l->name);
    return 0;
}

/* The transpose between a dense layer and operand `side`, which nothing else
 * reads, or -1. */
static int transpose_before(const struct pass *p, int add, int side)
{
    const struct graph *g = p->g;
    const int value = g->node[add].in[side];
    const int t = pass_producer(p, value, GRAPH_TRANSPOSE);
    const struct graph_value *x;

    if (t < 0 || pass_reader(p, value) != add)
        return -1;
    x = &g->value[g->node[t].in[0]];
    return g->node[t].attr.dims.n == x->rank &&
                   pass_producer(p, g->node[t].in[0], GRAPH_DENSE) >= 0
               ? t
               : -1;
}

/* dense -> transpose -> addition, as channels-last blocks have it: the other
 * operand is transposed back, which in memory of channels last moves nothing,
 * and becomes the residual. */
static int fuse_through(struct pass *p, int add)
{
    struct graph *g = p->g;

    for (int side = 0; side < 2; side++) {
        const int t = transpose_before(p, add, side);
        const int other = g->node[add].in[!side];
        struct graph_dims back = {0};
        int value, rc;

        if (t < 0 || !can_take(p, t, 0) ||
            (g->node[g->value[g->node[t].in[0]].producer].epilogue.act.kind !=
                 KERN_IDENTITY &&
             g->node[add].epilogue.act.kind != KERN_IDENTITY))
            continue;
        back.n = g->node[t].attr.dims.n;
        for (int i = 0; i < back.n; i++)
            back.dim[g->node[t].attr.dims.dim[i]] = i;
        value = pass_add_node(p, GRAPH_TRANSPOSE, &other, 1);
        if (value < 0)
            return value;
        g->node[g->value[value].producer].attr.dims = back;
        rc = take_residual(p, g->value[g->node[t].in[0]].producer, add, value);
        if (rc < 0)
            return rc;
        pass_absorb(p, t, add);
        return 1;
    }
    return 0;
}

int pass_fuse_residual(struct pass *p, int node)
{
    struct graph *g = p->g;
    struct graph_node *n = &g->node[node];
    const struct graph_value *out;
    int side, producer, rc;

    if (n->op != GRAPH_BINARY || n->attr.binary.kind != KERN_ADD ||
        n->n_in < 2 || n->in[0] < 0 || n->in[1] < 0 || n->in[0] == n->in[1] ||
        pass_residual(n) >= 0)
        return 0;
    out = &g->value[n->out[0]];
    for (int i = 0; i < 2; i++)
        if (!pass_same_shape(&g->value[n->in[i]], out) ||
            g->value[n->in[i]].dtype != out->dtype)
            return 0;
    side = choose_side(p, node);
    if (side < 0)
        return fuse_through(p, node);
    producer = g->value[n->in[side]].producer;
    rc = take_residual(p, producer, node, n->in[!side]);
    if (rc < 0)
        return rc;
    pass_absorb(p, producer, node);
    return 1;
}
