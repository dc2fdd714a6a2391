/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bare weights, converted from TensorFlow's layout to the graph's.
 *
 *                      channels first (graph)   channels last (file)
 *     conv             K, C/groups, window      window, C/groups, K
 *     depthwise conv   C*M, 1, window           window, C, M
 *     conv_transpose   C, K/groups, window      window, K/groups, C
 *     dense            K, C                     C, K
 *
 * The C inputs of a dense layer after a flattened picture are in the order of
 * that picture: C,H,W or H,W,C.
 */
#include "weights/layout.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"

/* A layer's weight in both layouts.  order[] transposes the last shape to the
 * first, except for the two axes C, M that a depthwise one joins. */
struct layer {
    int rank;
    int64_t first[INFER_MAX_RANK], last[INFER_MAX_RANK];
    int order[INFER_MAX_RANK];
};

static bool has_shape(const struct constant *c, int rank, const int64_t *dim)
{
    return c->rank == rank &&
           memcmp(c->dim, dim, (size_t)rank * sizeof(dim[0])) == 0;
}

/* The node whose weight (input 1) the value is, or NULL. */
static const struct graph_node *node_of(const struct graph *g, int value)
{
    int node = value >= 0 ? graph_single_user(g, value) : -1;
    const struct graph_node *n = node >= 0 ? &g->node[node] : NULL;

    if (!n || n->in[1] != value ||
        (n->op != GRAPH_CONV && n->op != GRAPH_CONV_TRANSPOSE &&
         n->op != GRAPH_DENSE))
        return NULL;
    return n;
}

/* Both shapes from the one that the graph states. */
static void from_graph(const struct graph_node *n, const struct graph_value *w,
                       struct layer *l)
{
    const int window = w->rank - 2, groups = n->attr.conv.conv.groups;
    const bool depthwise = n->op == GRAPH_CONV && groups > 1 && w->dim[1] == 1;

    l->rank = w->rank;
    memcpy(l->first, w->dim, sizeof(l->first));
    for (int i = 0; i < window; i++) {
        l->last[i] = w->dim[i + 2];
        l->order[i + 2] = i;
    }
    l->last[window] = depthwise ? groups : w->dim[1];
    l->last[window + 1] = depthwise ? w->dim[0] / groups : w->dim[0];
    l->order[0] = depthwise ? window : window + 1;
    l->order[1] = depthwise ? window + 1 : window;
}

/* Both shapes from a channels-last tensor, where the graph states none. */
static void from_file(const struct graph_node *n, const struct constant *c,
                      struct layer *l)
{
    const int window = c->rank - 2, groups = n->attr.conv.conv.groups;
    const bool depthwise =
        n->op == GRAPH_CONV && groups > 1 && c->dim[window] == groups;

    l->rank = c->rank;
    memcpy(l->last, c->dim, sizeof(l->last));
    for (int i = 0; i < window; i++) {
        l->first[i + 2] = c->dim[i];
        l->order[i + 2] = i;
    }
    l->first[0] =
        depthwise ? c->dim[window] * c->dim[window + 1] : c->dim[window + 1];
    l->first[1] = depthwise ? 1 : c->dim[window];
    l->order[0] = depthwise ? window : window + 1;
    l->order[1] = depthwise ? window + 1 : window;
}

/* False where the value is no layer's weight or its shape cannot be known:
 * that of the file helps only where its layout was named. */
static bool find_layer(const struct graph *g, int value,
                       const struct constant *c, bool last_is_known,
                       struct layer *l)
{
    const struct graph_node *n = node_of(g, value);
    const struct graph_value *w = n ? &g->value[value] : NULL;

    if (!n)
        return false;
    for (int i = 0; i < w->rank; i++)
        if (w->dim[i] < 1)
            return false;
    if (w->rank >= 2)
        from_graph(n, w, l);
    else if (w->rank < 0 && c->rank >= 2 && last_is_known)
        from_file(n, c, l);
    else
        return false;
    return true;
}

/* Whether the file is channels last: every layer fits so, and some only so. */
static bool looks_channels_last(const struct graph *g,
                                const struct weights_dict *dict,
                                const int *target)
{
    size_t last_only = 0;

    for (size_t i = 0; i < dict->count; i++) {
        const struct constant *c = dict->entry[i].value;
        struct layer l;

        if (!find_layer(g, target[i], c, false, &l))
            continue;
        if (!has_shape(c, l.rank, l.last))
            return false;
        last_only += !has_shape(c, l.rank, l.first);
    }
    return last_only > 0;
}

/* Replaces the entry's tensor; takes the reference to c. */
static int replace(struct weights_entry *entry, struct constant *c,
                   struct infer_error *err)
{
    if (!c)
        return error_set(err, INFER_EMEMORY, "tensor '%s': out of memory",
                         entry->name);
    if (c->data != entry->value->data)
        constant_give_back(entry->value);
    else
        constant_unref(entry->value);
    entry->value = c;
    return 0;
}

static int to_channels_first(const struct layer *l, struct weights_entry *entry,
                             struct infer_error *err)
{
    int rc;

    if (!has_shape(entry->value, l->rank, l->last))
        return error_add(err, INFER_EFORMAT,
                         "tensor '%s' has not the shape that this "
                         "architecture has in channels-last (nhwc) layout",
                         entry->name);
    rc = constant_transpose_here(entry->value, l->order)
             ? 0
             : replace(entry, constant_transpose(entry->value, l->order), err);
    if (rc < 0)
        return rc;
    return replace(entry, constant_reshape(entry->value, l->rank, l->first),
                   err);
}

/* ---- the order of dense inputs ------------------------------------- */

/* The picture (N,C,spatial) that a dense layer reads flattened, or NULL:
 * what stands between may only be element by element. */
static const struct graph_value *flattened_picture(const struct graph *g,
                                                   const struct graph_node *n)
{
    int v = n->in[0];

    for (int steps = 0; steps < g->n_nodes; steps++) {
        const struct graph_node *p;

        if (g->value[v].rank > 2)
            return &g->value[v];
        if (g->value[v].producer < 0)
            return NULL;
        p = &g->node[g->value[v].producer];
        if (p->op != GRAPH_FLATTEN && p->op != GRAPH_RESHAPE &&
            p->op != GRAPH_DROPOUT && p->op != GRAPH_UNARY)
            return NULL;
        v = p->in[0];
    }
    return NULL;
}

/* Columns of a K,C weight from spatial,channels to channels,spatial. */
static struct constant *columns_channels_first(const struct constant *c,
                                               int64_t channels)
{
    struct constant *to = constant_new(c->dtype, c->rank, c->dim);
    const size_t size = infer_dtype_size(c->dtype);
    const int64_t columns = c->dim[1], pixels = columns / channels;

    if (!to)
        return NULL;
    for (int64_t k = 0; k < c->dim[0]; k++)
        for (int64_t p = 0; p < pixels; p++)
            for (int64_t ch = 0; ch < channels; ch++)
                memcpy((unsigned char *)to->data +
                           (size_t)(k * columns + ch * pixels + p) * size,
                       (const unsigned char *)c->data +
                           (size_t)(k * columns + p * channels + ch) * size,
                       size);
    return to;
}

/* The node's K,C weight, where it reads a picture in H,W,C order. */
static int reorder_dense(struct graph *g, const struct graph_node *n,
                         struct infer_error *err)
{
    const struct graph_value *x = flattened_picture(g, n);
    const struct constant *c = g->value[n->in[1]].data;
    struct constant *to;

    if (!x || !c || c->rank != 2 || c->dim[1] == x->dim[1])
        return 0;
    if (x->dim[1] < 1 || c->dim[1] % x->dim[1] != 0)
        return error_add(err, INFER_EFORMAT,
                         "tensor '%s' cannot be reordered: its %lld inputs are "
                         "not so many pixels of %lld channels",
                         g->value[n->in[1]].name, (long long)c->dim[1],
                         (long long)x->dim[1]);
    to = columns_channels_first(c, x->dim[1]);
    if (!to)
        return error_set(err, INFER_EMEMORY, "tensor '%s': out of memory",
                         g->value[n->in[1]].name);
    return graph_set_constant(g, n->in[1], to, err);
}

int weights_reorder_dense(struct graph *g, struct infer_error *err)
{
    int rc = graph_sort(g, err), one;

    if (rc == 0)
        rc = graph_infer_shapes(g, NULL, err);
    if (rc < 0)
        return rc;
    for (int i = 0; i < g->n_nodes && rc != INFER_EMEMORY; i++)
        if (g->node[i].op == GRAPH_DENSE &&
            (one = reorder_dense(g, &g->node[i], err)) < 0)
            rc = one;
    return rc;
}

/* ---- the whole file ------------------------------------------------- */

int weights_to_channels_first(const struct graph *g, struct weights_dict *dict,
                              const int *target, enum weights_layout *layout,
                              struct infer_error *err)
{
    int rc = 0, one;

    if (*layout == WEIGHTS_LAYOUT_AUTO)
        *layout = looks_channels_last(g, dict, target) ? WEIGHTS_CHANNELS_LAST
                                                       : WEIGHTS_CHANNELS_FIRST;
    if (*layout != WEIGHTS_CHANNELS_LAST)
        return 0;
    for (size_t i = 0; i < dict->count && rc != INFER_EMEMORY; i++) {
        struct weights_entry *entry = &dict->entry[i];
        struct layer l;

        if (find_layer(g, target[i], entry->value, true, &l) &&
            (one = to_channels_first(&l, entry, err)) < 0)
            rc = one;
    }
    return rc;
}
