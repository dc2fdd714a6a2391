/* SPDX-License-Identifier: Apache-2.0 */
/*
 * widen-residual: a residual of fewer channels, added to the first channels of
 * a tensor alone, as ReXNet spells it out:
 *
 *   concat(y[:, :c] + x, y[:, c:])  becomes  y + pad(x)
 *
 * The addition can then go into the layer that makes y.
 */
#include "weights/passes/pass.h"

/* The value whose channels from *first up to *end are `value`, which `reader`
 * alone reads; -1 where it is no such part. */
static int part_of(const struct pass *p, int value, int reader, int64_t *first,
                   int64_t *end)
{
    const int node = pass_producer(p, value, GRAPH_SLICE);
    const struct graph_slice *a;
    const struct graph_value *x;

    if (node < 0 || pass_reader(p, value) != reader)
        return -1;
    a = &p->g->node[node].attr.slice;
    x = &p->g->value[p->g->node[node].in[0]];
    if (a->n_axes != 1 || x->rank < 2 ||
        (a->axis[0] + x->rank) % x->rank != 1 || a->step[0] != 1 ||
        a->begin[0] < 0 || a->end[0] < 0 || x->dim[1] < 1)
        return -1;
    *first = a->begin[0];
    *end = a->end[0] < x->dim[1] ? a->end[0] : x->dim[1];
    return p->g->node[node].in[0];
}

/* The sum of the first *channels of a value, which is returned, and another
 * tensor; -1 where the node is no such sum. */
static int partial_sum(const struct pass *p, int add, int64_t *channels,
                       int *other)
{
    const struct graph_node *n = &p->g->node[add];
    int64_t first;

    for (int side = 0; side < 2; side++) {
        const int y = part_of(p, n->in[side], add, &first, channels);

        *other = n->in[!side];
        if (y >= 0 && first == 0 && *other >= 0 &&
            pass_same_shape(&p->g->value[*other], &p->g->value[n->out[0]]) &&
            !pass_value_constant(p, *other))
            return y;
    }
    return -1;
}

int pass_widen_residual(struct pass *p, int node)
{
    struct graph *g = p->g;
    const struct graph_node *n = &g->node[node];
    const struct graph_value *out;
    int64_t channels, first, end;
    int in[2], add, x, rc;

    if (n->op != GRAPH_CONCAT || n->n_in != 2)
        return 0;
    out = &g->value[n->out[0]];
    if (out->rank < 2 || (n->attr.axis.axis + out->rank) % out->rank != 1)
        return 0;
    add = pass_producer(p, n->in[0], GRAPH_BINARY);
    if (add < 0 || !pass_binary(p, add, KERN_ADD) ||
        pass_reader(p, n->in[0]) != node)
        return 0;
    in[0] = partial_sum(p, add, &channels, &x);
    if (in[0] < 0 || part_of(p, n->in[1], node, &first, &end) != in[0] ||
        first != channels || end != g->value[in[0]].dim[1] ||
        !pass_same_shape(&g->value[in[0]], out))
        return 0;
    in[1] = pass_add_node(p, GRAPH_PAD, &x, 1);
    if (in[1] < 0)
        return in[1];
    g->node[g->value[in[1]].producer].attr.pad.end[1] = (int)(end - channels);
    pass_note(p, 0, "%s adds to %lld of %lld channels", g->node[add].name,
              (long long)channels, (long long)end);
    rc = pass_become(p, node, GRAPH_BINARY, in, 2);
    if (rc < 0)
        return rc;
    g->node[node].attr.binary.kind = KERN_ADD;
    return 1;
}
