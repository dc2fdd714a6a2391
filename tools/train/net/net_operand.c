/* SPDX-License-Identifier: Apache-2.0 */
/* What the nodes of a network read: values, parameters, constants; and their
 * attributes with all extents known. */
#include "tools/train/net/net.h"

#include <string.h>

#include "kernels/base/error.h"
#include "libinfer/graph/ops/op.h"

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

static int spatial(const struct graph_value *v, int64_t *extent)
{
    for (int i = 2; i < v->rank && i - 2 < KERN_MAX_SPATIAL; i++)
        extent[i - 2] = v->dim[i];
    return v->rank - 2;
}

static int named(const struct graph_node *node, int rc, struct infer_error *err)
{
    if (rc < 0)
        error_prefix(err, "node '%s'", node->name ? node->name : "");
    return rc;
}

int net_conv_attr(const struct net *n, const struct graph_node *node,
                  struct kern_conv *out, struct infer_error *err)
{
    int64_t extent[KERN_MAX_SPATIAL], window[KERN_MAX_SPATIAL],
        ignored[KERN_MAX_SPATIAL];
    const int dims = spatial(&n->g->value[node->in[0]], extent);

    spatial(&n->g->value[node->in[1]], window);
    return named(node,
                 op_conv_resolve(&node->attr.conv, dims, extent, window, out,
                                 ignored, err),
                 err);
}

int net_pool_attr(const struct net *n, const struct graph_node *node,
                  struct kern_pool *out, struct infer_error *err)
{
    int64_t extent[KERN_MAX_SPATIAL], ignored[KERN_MAX_SPATIAL];
    const int dims = spatial(&n->g->value[node->in[0]], extent);

    return named(
        node,
        op_pool_resolve(&node->attr.pool, dims, extent, out, ignored, err),
        err);
}

int net_conv_transpose_attr(const struct net *n, const struct graph_node *node,
                            struct kern_conv *out, struct infer_error *err)
{
    int64_t extent[KERN_MAX_SPATIAL], window[KERN_MAX_SPATIAL],
        ignored[KERN_MAX_SPATIAL];
    const int dims = spatial(&n->g->value[node->in[0]], extent);

    spatial(&n->g->value[node->in[1]], window);
    return named(node,
                 op_conv_transpose_resolve(&node->attr.conv, dims, extent,
                                           window, out, ignored, err),
                 err);
}

int net_norm_attr(const struct graph_node *node, int rank,
                  struct kern_norm *out, struct infer_error *err)
{
    *out = node->attr.norm;
    if (node->op != GRAPH_LAYER_NORM)
        return 0;
    return named(node, op_axis(node->attr.norm.axis, rank, &out->axis, err),
                 err);
}

/* Sizes that the model states instead of scales become scales. */
struct kern_resize net_resize_attr(const struct net *n,
                                   const struct graph_node *node)
{
    const struct graph_resize *a = &node->attr.resize;
    const struct graph_value *x = &n->g->value[node->in[0]];
    const struct graph_value *y = &n->g->value[node->out[0]];
    struct kern_resize out = a->resize;

    for (int i = 0; i < x->rank; i++)
        if (a->n_sizes > 0 && x->dim[i] > 0)
            out.scale[i] = (float)((double)y->dim[i] / (double)x->dim[i]);
        else if (out.scale[i] == 0.0f)
            out.scale[i] = 1.0f;
    return out;
}

int net_softmax_view(const struct graph_node *node, const struct view *v,
                     struct infer_error *err, int *axis, struct view *out)
{
    const struct graph_axis *a = &node->attr.axis;
    int64_t dim[2] = {1, 1};
    int rc = named(node, op_axis(a->axis, v->t.rank, axis, err), err);

    *out = *v;
    if (rc < 0 || !a->flatten || *axis == v->t.rank - 1)
        return rc;
    for (int i = 0; i < v->t.rank; i++)
        dim[i >= *axis] *= v->t.dim[i];
    *axis = 1;
    if (view_reshape(v, 2, dim, out))
        return 0;
    return error_set(err, INFER_EUNSUPPORTED,
                     "node '%s': softmax over several dimensions of a picture "
                     "with its channels last",
                     node->name);
}

void net_transpose_order(const struct graph_node *node, int rank,
                         int64_t *order)
{
    const struct graph_dims *d = &node->attr.dims;

    for (int i = 0; i < rank; i++)
        order[i] = d->n > 0 ? d->dim[i] : rank - 1 - i;
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
