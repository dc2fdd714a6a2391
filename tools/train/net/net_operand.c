/* SPDX-License-Identifier: Apache-2.0 */
/* What the nodes of a network read: values, parameters, constants; and their
 * attributes with all extents known. */
#include "libinfer/multiplier/layers.h"
#include "tools/train/net/net.h"

#include <stdlib.h>
#include <string.h>

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

void net_constants(struct net *n)
{
    for (int i = 0; i < n->g->n_values; i++) {
        const struct constant *c = n->g->value[i].data;
        struct net_value *v = &n->value[i];

        if (c && v->param < 0)
            v->view[0] = v->view[1] =
                net_tensor(n, NET_FIXED, c->dtype, c->rank, c->dim, KERN_NCHW);
    }
}

void net_products(struct net *n)
{
    net_check(n, multiplier_exact_layers(n->g, n->options.multiplier_exact,
                                         n->err, &n->exact_layers));
    for (int s = 0; s < NET_STAGES; s++) {
        const struct multiplier *m = n->options.multiplier[s];
        struct view *v = &n->products[s];

        if (!m)
            continue;
        const int64_t side = INT64_C(1) << m->bits, dim[2] = {side, side};
        if (n->options.gradient[s] != NET_BY_PRODUCTS) {
            *v = net_tensor(n, NET_FIXED, INFER_F32, 2, dim, KERN_NCHW);
            continue;
        }
        *v = net_tensor(n, NET_FIXED, INFER_U32, 2, dim, KERN_NCHW);
        v->t.stride[0] = 1;
        v->t.stride[1] = side;
        if (m->accumulated) {
            n->factors[s] = net_vector(n, NET_FIXED, INFER_I32, 2);
            continue;
        }
        uint16_t *factors = NULL;
        const int rank = multiplier_factors(m, n->err, &factors);
        const int64_t size[3] = {2, side, rank};
        free(factors);
        net_check(n, rank < 0 ? rank : 0);
        if (rank > 0)
            n->factors[s] =
                net_tensor(n, NET_FIXED, INFER_BF16, 3, size, KERN_NCHW);
    }
}

void net_set_point(const struct net *n, struct net_launch *e, int i,
                   const struct view *point)
{
    if (n->products[e->where.stage].t.dtype == INFER_F32 &&
        !n->exact_layers[e->where.node])
        e->in[i] = *point;
}

/* ---- other dims ---------------------------------------------------- */

struct view net_problem_view(struct net *n, const struct graph_node *node,
                             const struct kern_tensor *t, const struct view *v)
{
    const size_t bytes = (size_t)t->rank * sizeof t->dim[0];

    return t->rank == v->t.rank && memcmp(t->dim, v->t.dim, bytes) == 0
               ? *v
               : net_reshape(n, node, v, t->rank, t->dim,
                             "softmax over several dimensions of a picture "
                             "with its channels last");
}

void net_tile_views(struct net *n, const struct graph_node *node,
                    struct view *tiled, struct view *one)
{
    for (int i = one->t.rank - 1; i >= 0; i--) {
        const int64_t size = one->t.dim[i], all = tiled->t.dim[i];

        if (size == all)
            continue;
        if (size == 0 || tiled->t.rank == KERN_MAX_RANK) {
            net_fail(n, INFER_EUNSUPPORTED,
                     "node '%s': repeats along too many dimensions",
                     node->name);
            return;
        }
        *tiled = view_split(tiled, i, all / size);
        *one = view_split(one, i, 1);
    }
}

bool net_norm_is_frozen(const struct net *n, const struct graph_node *node)
{
    return !net_is_trained(n, n->value[node->in[1]].param) &&
           !net_is_trained(n, n->value[node->in[2]].param);
}

/* ---- dense layers as convolutions ---------------------------------- */

struct view net_as_pixels(struct net *n, const struct graph_node *node,
                          const struct view *v)
{
    const int64_t columns = v->t.dim[v->t.rank - 1];
    const int64_t dim[4] = {kern_tensor_count(&v->t) / columns, columns, 1, 1};

    return net_reshape(n, node, v, 4, dim, "a tensor of its rows is scattered");
}

struct kern_conv net_pixel_conv(void)
{
    struct kern_conv c = {.groups = 1};

    for (int i = 0; i < KERN_MAX_SPATIAL; i++)
        c.stride[i] = c.dilation[i] = 1;
    return c;
}
