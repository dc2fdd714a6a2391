/* SPDX-License-Identifier: Apache-2.0 */
/* The forward pass of nodes that move data: views where strides express them,
 * and one copy. */
#include "tools/train/net/net_rules.h"

/* The same elements in the same logical order under other dimensions: a view
 * where the picture has one pixel, else a row-major copy. */
void net_fwd_reshape(const struct lowering *f)
{
    const struct graph_value *to = &f->n->g->value[f->out];
    const struct view x = input(f, 0, false);
    struct view copy;

    if (view_reshape(&x, to->rank, to->dim, slot(f, f->out)))
        return;
    copy =
        net_tensor(f->n, memory_of(f), x.t.dtype, x.t.rank, x.t.dim, KERN_NCHW);
    net_copy(f->n, f->where, &x, &copy);
    *slot(f, f->out) = net_reshape(f->n, f->node, &copy, to->rank, to->dim,
                                   "shapes before and after do not agree");
}

void net_fwd_concat(const struct lowering *f)
{
    const struct view whole = net_fwd_make(f, f->out);
    int64_t at = 0;

    for (int i = 0; f->n->rc == 0 && i < f->node->n_in; i++) {
        const struct view x = input(f, i, false);
        struct view part;

        net_check(f->n, problem_place(f->n->g, f->node, i, &whole, &at,
                                      net_err(f->n), &part));
        net_copy(f->n, f->where, &x, &part);
    }
}

/* True if the only reader is a padding with zeros, which copies the view
 * itself. */
static bool is_copied_next(const struct lowering *f)
{
    const int user = graph_single_user(f->n->g, f->out);
    const struct graph_node *node = user >= 0 ? &f->n->g->node[user] : NULL;

    return node && node->op == GRAPH_PAD &&
           net_fwd_pads_zeros(f, &node->attr.pad);
}

/* True if a transposed picture may stay where it lies: a layer norm alone reads
 * its rows, or it is as pictures lie. */
static bool stays(const struct lowering *f, const struct view *part)
{
    const int user = graph_single_user(f->n->g, f->out);

    return f->node->op == GRAPH_TRANSPOSE && f->chain->act < 0 &&
           (kern_tensor_is_dense(&part->t, NET_LAYOUT) ||
            (user >= 0 && f->n->g->node[user].op == GRAPH_LAYER_NORM &&
             kern_tensor_is_dense(&part->t, KERN_NCHW)));
}

void net_fwd_parts(const struct lowering *f)
{
    const struct view x = input(f, 0, false);
    int64_t at = 0;

    for (int i = 0; i < f->node->n_out; i++) {
        struct view part, whole;

        net_check(f->n, problem_part(f->n->g, f->node, i, &x, &at,
                                     net_err(f->n), &part));
        if (f->n->rc < 0)
            return;
        if ((f->node->op == GRAPH_SLICE && is_copied_next(f)) ||
            stays(f, &part)) {
            *slot(f, f->out) = part;
            return;
        }
        whole = net_fwd_make(f, f->node->out[i]);
        net_copy(f->n, f->where, &part, &whole);
    }
}

void net_fwd_tile(const struct lowering *f)
{
    struct view x = input(f, 0, false), whole = net_fwd_make(f, f->out);

    net_tile_views(f->n, f->node, &whole, &x);
    x = view_expand(&x, whole.t.dim);
    net_copy(f->n, f->where, &x, &whole);
}
