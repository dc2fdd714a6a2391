/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reassociate: factors that broadcast are joined before they meet the large
 * tensor, which is then read and written once.
 *
 *     b (x s)        = x (b s)
 *     x + x s        = x (s + 1)
 *     x + (b + x s)  = x (s + 1) + b
 *
 * with s and b smaller than x.  ConvNeXt-v2's response normalisation and gates
 * that are added to what they gate are written so.
 */
#include "weights/passes/pass.h"

/* True if a value broadcasts to `out` along some dimension. */
static bool is_smaller(const struct graph_value *v,
                       const struct graph_value *out)
{
    const int missing = out->rank - v->rank;
    bool smaller = false;

    if (v->rank < 0 || missing < 0)
        return false;
    for (int d = 0; d < out->rank; d++) {
        const int64_t own = d < missing ? 1 : v->dim[d - missing];

        if (own != out->dim[d] && own != 1)
            return false;
        smaller = smaller || own != out->dim[d];
    }
    return smaller;
}

/* True if two of these are smaller than `out` together as well. */
static bool are_smaller(const struct graph_value *a,
                        const struct graph_value *b,
                        const struct graph_value *out)
{
    if (!is_smaller(a, out) || !is_smaller(b, out))
        return false;
    for (int d = 1; d <= out->rank; d++) {
        const bool from_a = d <= a->rank && a->dim[a->rank - d] != 1;
        const bool from_b = d <= b->rank && b->dim[b->rank - d] != 1;

        if (out->dim[out->rank - d] != 1 && !from_a && !from_b)
            return true;
    }
    return false;
}

/* The node of this kind that makes a value for `reader` alone, or -1. */
static int operand(const struct pass *p, int reader, int value,
                   enum kern_binary_kind kind)
{
    const int node = pass_producer(p, value, GRAPH_BINARY);

    return node >= 0 && pass_reader(p, value) == reader &&
                   pass_binary(p, node, kind)
               ? node
               : -1;
}

/* x s, where x has the shape of `out` and s is smaller. */
struct product {
    int node, x, s;
};

/* The product that input `value` of a node is, for it alone; with x of the same
 * value as `like` (-1: any).  False where it is none. */
static bool read_product(const struct pass *p, int reader, int value, int like,
                         const struct graph_value *out, struct product *m)
{
    const struct graph_value *v = p->g->value;

    m->node = operand(p, reader, value, KERN_MUL);
    for (int i = 0; i < 2 && m->node >= 0; i++) {
        m->x = p->g->node[m->node].in[i];
        m->s = p->g->node[m->node].in[1 - i];
        if ((like < 0 || m->x == like) && pass_same_shape(&v[m->x], out) &&
            is_smaller(&v[m->s], out))
            return true;
    }
    return false;
}

/* A new value: a function of two others. */
static int add_binary(struct pass *p, enum kern_binary_kind kind, int a, int b)
{
    const int value = pass_add_node(p, GRAPH_BINARY, (const int[]){a, b}, 2);

    if (value >= 0)
        p->g->node[p->g->value[value].producer].attr.binary.kind = kind;
    return value;
}

/* s + 1 */
static int add_one(struct pass *p, int s)
{
    const int value = pass_add_node(p, GRAPH_UNARY, &s, 1);

    if (value >= 0)
        p->g->node[p->g->value[value].producer].attr.unary =
            (struct kern_unary){.kind = KERN_LINEAR, .a = 1, .b = 1};
    return value;
}

/* The node becomes this function of two values, the first of which may be the
 * error of making it. */
static int become_binary(struct pass *p, int node, enum kern_binary_kind kind,
                         int a, int b)
{
    const int in[2] = {a, b};
    int rc;

    if (a < 0 || b < 0)
        return a < 0 ? a : b;
    pass_note(p, 0, "%s", p->g->node[node].name);
    rc = pass_become(p, node, GRAPH_BINARY, in, 2);
    if (rc < 0)
        return rc;
    p->g->node[node].attr.binary.kind = kind;
    return 1;
}

/* b (x s) */
static int join_factors(struct pass *p, int node)
{
    const struct graph_value *v = p->g->value;
    const struct graph_node *n = &p->g->node[node];

    for (int i = 0; i < 2; i++) {
        const struct graph_value *out = &v[n->out[0]];
        const int b = n->in[i];
        struct product m;

        if (read_product(p, node, n->in[1 - i], -1, out, &m) &&
            are_smaller(&v[b], &v[m.s], out) &&
            !pass_reaches_jump(p, n->out[0]))
            return become_binary(p, node, KERN_MUL,
                                 add_binary(p, KERN_MUL, b, m.s), m.x);
    }
    return 0;
}

/* x + x s, or x + (b + x s) */
static int join_terms(struct pass *p, int node)
{
    const struct graph_value *v = p->g->value;
    const struct graph_node *n = &p->g->node[node];
    const struct graph_value *out = &v[n->out[0]];
    struct product m;

    for (int i = 0; i < 2; i++) {
        const int x = n->in[i], term = n->in[1 - i];
        const int sum = operand(p, node, term, KERN_ADD);

        if (read_product(p, node, term, x, out, &m) &&
            !pass_reaches_jump(p, n->out[0]))
            return become_binary(p, node, KERN_MUL, add_one(p, m.s), x);
        for (int k = 0; k < 2 && sum >= 0; k++) {
            const int b = p->g->node[sum].in[k];
            int scale;

            if (!is_smaller(&v[b], out) ||
                !read_product(p, sum, p->g->node[sum].in[1 - k], x, out, &m) ||
                pass_reaches_jump(p, n->out[0]))
                continue;
            scale = add_one(p, m.s);
            return become_binary(
                p, node, KERN_ADD,
                scale < 0 ? scale : add_binary(p, KERN_MUL, x, scale), b);
        }
    }
    return 0;
}

int pass_reassociate(struct pass *p, int node)
{
    if (!pass_is_float(&p->g->value[p->g->node[node].out[0]]))
        return 0;
    if (pass_binary(p, node, KERN_MUL))
        return join_factors(p, node);
    return pass_binary(p, node, KERN_ADD) ? join_terms(p, node) : 0;
}
