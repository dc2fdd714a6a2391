/* SPDX-License-Identifier: Apache-2.0 */
/* The forward pass of nodes that move data: views where strides express them,
 * and one copy. */
#include "tools/train/net/net_forward.h"

#include "kernels/base/error.h"
#include "libinfer/graph/ops/op.h"

/* The same elements in the same logical order under other dimensions: a view
 * where the picture has one pixel, else a row-major copy. */
int net_fwd_reshape(const struct forward *f)
{
    const struct graph_value *to = &f->n->g->value[f->out];
    const struct view x = input(f, 0, false);
    struct view copy;
    int rc;

    if (view_reshape(&x, to->rank, to->dim, slot(f, f->out)))
        return 0;
    rc = net_tensor(f->n, memory_of(f), x.t.dtype, x.t.rank, x.t.dim, KERN_NCHW,
                    f->err, &copy);
    if (rc == 0)
        rc = net_copy(f->n, f->list, NET_FPROP, node_index(f), &x, &copy,
                      f->err);
    if (rc < 0)
        return rc;
    if (!view_reshape(&copy, to->rank, to->dim, slot(f, f->out)))
        return error_set(f->err, INFER_EFORMAT,
                         "node '%s': shapes before and after do not agree",
                         f->node->name);
    return 0;
}

int net_fwd_concat(const struct forward *f)
{
    struct view whole;
    int64_t at = 0;
    int axis, rc = net_fwd_make(f, f->out, &whole);

    if (rc == 0)
        rc = op_axis(f->node->attr.axis.axis, whole.t.rank, &axis, f->err);
    for (int i = 0; rc == 0 && i < f->node->n_in; i++) {
        const struct view x = input(f, i, false);
        const struct view part = view_slice(&whole, axis, at, 1, x.t.dim[axis]);

        at += x.t.dim[axis];
        rc = net_copy(f->n, f->list, NET_FPROP, node_index(f), &x, &part,
                      f->err);
    }
    return rc;
}

/* True if the only reader is a padding with zeros, which copies the view
 * itself. */
static bool is_copied_next(const struct forward *f)
{
    const int user = graph_single_user(f->n->g, f->out);
    const struct graph_node *node = user >= 0 ? &f->n->g->node[user] : NULL;

    return node && node->op == GRAPH_PAD &&
           net_fwd_pads_zeros(f, &node->attr.pad);
}

int net_fwd_slice(const struct forward *f)
{
    const struct view x = input(f, 0, false);
    struct view v, whole;
    int rc = problem_slice(f->node, &x, f->err, &v);

    if (rc == 0 && is_copied_next(f)) {
        *slot(f, f->out) = v;
        return 0;
    }
    if (rc == 0)
        rc = net_fwd_make(f, f->out, &whole);
    return rc < 0 ? rc
                  : net_copy(f->n, f->list, NET_FPROP, node_index(f), &v,
                             &whole, f->err);
}

/* The elements of `from` as the node's result. */
static int copy_out(const struct forward *f, const struct view *from)
{
    struct view whole;
    int rc = net_fwd_make(f, f->out, &whole);

    return rc < 0 ? rc
                  : net_copy(f->n, f->list, NET_FPROP, node_index(f), from,
                             &whole, f->err);
}

int net_fwd_split(const struct forward *f)
{
    const struct view x = input(f, 0, false);
    int64_t at = 0;
    int axis, rc = op_axis(f->node->attr.split.axis, x.t.rank, &axis, f->err);

    for (int i = 0; rc == 0 && i < f->node->n_out; i++) {
        struct view part, whole;

        rc = net_fwd_make(f, f->node->out[i], &whole);
        if (rc < 0)
            break;
        part = view_slice(&x, axis, at, 1, whole.t.dim[axis]);
        at += whole.t.dim[axis];
        rc = net_copy(f->n, f->list, NET_FPROP, node_index(f), &part, &whole,
                      f->err);
    }
    return rc;
}

int net_fwd_transpose(const struct forward *f)
{
    const struct view x = input(f, 0, false);
    int64_t order[KERN_MAX_RANK];

    problem_transpose_order(f->node, x.t.rank, order);
    const struct view turned = view_permute(&x, order);
    return copy_out(f, &turned);
}

int net_fwd_expand(const struct forward *f)
{
    const struct graph_value *to = &f->n->g->value[f->out];
    const struct view x = input(f, 0, false);
    const struct view raised = view_raise(&x, to->rank);
    const struct view whole = view_expand(&raised, to->dim);

    return copy_out(f, &whole);
}

int net_fwd_tile(const struct forward *f)
{
    struct view x = input(f, 0, false), from, whole, to;
    int rc = net_fwd_make(f, f->out, &whole);

    if (rc == 0)
        rc = net_tile_views(f->node, &whole, &x, f->err, &to, &from);
    if (rc < 0)
        return rc;
    from = view_expand(&from, to.t.dim);
    return net_copy(f->n, f->list, NET_FPROP, node_index(f), &from, &to,
                    f->err);
}
