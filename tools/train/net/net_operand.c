/* SPDX-License-Identifier: Apache-2.0 */
/* What the nodes of a network read: values, parameters, constants; and their
 * attributes with all extents known. */
#include "tools/train/net/net.h"

#include <string.h>

#include "kernels/base/error.h"

/* A parameter as the list sees it: evaluation reads averages where there are
 * any, and matrices are read in the type of the activations. */
static struct view param_of(const struct net *n, int list, int param,
                            bool matrix)
{
    const bool average =
        list == NET_LIST_EVAL && n->options.average && net_is_trained(n, param);
    const bool half = matrix && net_is_half(n);
    struct view v;

    if (!average)
        return net_param_view(n, param, half ? NET_HALF : NET_WEIGHTS);
    if (!half)
        return net_param_view(n, param, NET_AVERAGE);
    v = net_param_view(n, param, NET_HALF);
    v.buffer = n->averages.buffer;
    return v;
}

struct view net_operand(const struct net *n, int list, int value, bool matrix)
{
    struct view none;

    memset(&none, 0, sizeof(none));
    if (value < 0)
        return none;
    if (n->value[value].param >= 0)
        return param_of(n, list, n->value[value].param, matrix);
    return n->value[value].view[list == NET_LIST_EVAL];
}

int net_constants(struct net *n, struct infer_error *err)
{
    for (int i = 0; i < n->g->n_values; i++) {
        const struct constant *c = n->g->value[i].data;
        struct net_value *v = &n->value[i];
        int rc;

        if (!c || v->param >= 0)
            continue;
        rc = net_tensor(n, NET_FIXED, c->dtype, c->rank, c->dim, KERN_NCHW, err,
                        &v->view[0]);
        if (rc < 0)
            return rc;
        v->view[1] = v->view[0];
    }
    return 0;
}

/* ---- attributes ---------------------------------------------------- */

int net_problem_view(const struct graph_node *node, const struct kern_tensor *t,
                     const struct view *v, struct infer_error *err,
                     struct view *out)
{
    *out = *v;
    if ((t->rank == v->t.rank &&
         memcmp(t->dim, v->t.dim, (size_t)t->rank * sizeof t->dim[0]) == 0) ||
        view_reshape(v, t->rank, t->dim, out))
        return 0;
    return error_set(err, INFER_EUNSUPPORTED,
                     "node '%s': %s over several dimensions of a picture with "
                     "its channels last",
                     node->name, graph_op_info(node->op)->name);
}

int net_tile_views(const struct graph_node *node, const struct view *tiled,
                   const struct view *one, struct infer_error *err,
                   struct view *tiled_out, struct view *one_out)
{
    *tiled_out = *tiled;
    *one_out = *one;
    for (int i = one->t.rank - 1; i >= 0; i--) {
        const int64_t size = one->t.dim[i], all = tiled->t.dim[i];

        if (size == all)
            continue;
        if (size == 0 || tiled_out->t.rank == KERN_MAX_RANK)
            return error_set(err, INFER_EUNSUPPORTED,
                             "node '%s': repeats along too many dimensions",
                             node->name);
        *tiled_out = view_split(tiled_out, i, all / size);
        *one_out = view_split(one_out, i, 1);
    }
    return 0;
}

bool net_norm_is_frozen(const struct net *n, const struct graph_node *node)
{
    return !net_is_trained(n, n->value[node->in[1]].param) &&
           !net_is_trained(n, n->value[node->in[2]].param);
}

/* ---- dense layers as convolutions ---------------------------------- */

int net_as_pixels(const struct graph_node *node, const struct view *v,
                  struct infer_error *err, struct view *out)
{
    const int64_t columns = v->t.dim[v->t.rank - 1];
    const int64_t dim[4] = {kern_tensor_count(&v->t) / columns, columns, 1, 1};

    if (view_reshape(v, 4, dim, out))
        return 0;
    return error_set(err, INFER_EUNSUPPORTED,
                     "node '%s': a tensor of its rows is scattered",
                     node->name);
}

struct kern_conv net_pixel_conv(void)
{
    struct kern_conv c = {.groups = 1};

    for (int i = 0; i < KERN_MAX_SPATIAL; i++)
        c.stride[i] = c.dilation[i] = 1;
    return c;
}
