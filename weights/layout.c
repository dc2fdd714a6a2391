/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bare weights in TensorFlow's layout, turned into the graph's.
 *
 *                      channels first (graph)   channels last (file)
 *     conv             K, C/groups, window      window, C/groups, K
 *     depthwise conv   C*M, 1, window           window, C, M
 *     conv_transpose   C, K/groups, window      window, K/groups, C
 *     dense            K, C                     C, K
 *
 * A dense layer behind a flattened picture also has its C inputs in the order
 * of that picture: C,H,W or H,W,C.
 */
#include "weights/layout.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/error.h"

static bool has_shape(const struct constant *c, int rank, const int64_t *dim)
{
    return c->rank == rank &&
           memcmp(c->dim, dim, (size_t)rank * sizeof(dim[0])) == 0;
}

static bool is_layer(const struct graph_node *n)
{
    return n->op == GRAPH_CONV || n->op == GRAPH_CONV_TRANSPOSE ||
           n->op == GRAPH_DENSE;
}

static bool is_depthwise(const struct graph_node *n,
                         const struct graph_value *w)
{
    return n->op == GRAPH_CONV && n->attr.conv.conv.groups > 1 &&
           w->dim[1] == 1;
}

/* The channels-last shape of a layer's weight; the order that turns it into
 * channels first is order[0..rank), but for the joined axes of depthwise. */
static void channels_last(const struct graph_node *n,
                          const struct graph_value *w, int64_t *dim, int *order)
{
    const int rank = w->rank, window = rank - 2;
    const bool depthwise = is_depthwise(n, w);
    const int64_t groups = n->attr.conv.conv.groups;

    for (int i = 0; i < window; i++) {
        dim[i] = w->dim[i + 2];
        order[i + 2] = i;
    }
    dim[window] = depthwise ? groups : w->dim[1];
    dim[window + 1] = depthwise ? w->dim[0] / groups : w->dim[0];
    order[0] = depthwise ? window : window + 1;
    order[1] = depthwise ? window + 1 : window;
}

/* The node whose weight (input 1) the entry is, or NULL. */
static const struct graph_node *layer_of(const struct graph *g, int value)
{
    int node = value >= 0 ? graph_single_user(g, value) : -1;
    const struct graph_node *n = node >= 0 ? &g->node[node] : NULL;

    if (!n || !is_layer(n) || n->in[1] != value || g->value[value].rank < 2)
        return NULL;
    for (int i = 0; i < g->value[value].rank; i++)
        if (g->value[value].dim[i] < 1)
            return NULL;
    return n;
}

/* Whether the file is channels last: some layer fits only so, and none only
 * the other way.  A file all of whose weights fit both ways is taken as it
 * stands. */
static bool looks_channels_last(const struct graph *g,
                                const struct weights_dict *dict,
                                const int *target)
{
    size_t last_only = 0;

    for (size_t i = 0; i < dict->count; i++) {
        const struct graph_node *n = layer_of(g, target[i]);
        const struct constant *c = dict->entry[i].value;
        int64_t dim[INFER_MAX_RANK];
        int order[INFER_MAX_RANK];
        const struct graph_value *w;

        if (!n)
            continue;
        w = &g->value[target[i]];
        channels_last(n, w, dim, order);
        if (!has_shape(c, w->rank, dim))
            return false;
        last_only += !has_shape(c, w->rank, w->dim);
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
    constant_unref(entry->value);
    entry->value = c;
    return 0;
}

static int to_channels_first(const struct graph_node *n,
                             const struct graph_value *w,
                             struct weights_entry *entry,
                             struct infer_error *err)
{
    int64_t dim[INFER_MAX_RANK];
    int order[INFER_MAX_RANK], status;
    struct constant *c;

    channels_last(n, w, dim, order);
    if (!has_shape(entry->value, w->rank, dim))
        return error_add(err, INFER_EFORMAT,
                         "tensor '%s' has not the shape that this "
                         "architecture has in channels-last (nhwc) layout",
                         entry->name);
    status = replace(entry, constant_transpose(entry->value, order), err);
    if (status < 0 || !is_depthwise(n, w))
        return status;
    c = constant_reshape(entry->value, w->rank, w->dim);
    return replace(entry, c, err);
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

static int reorder_dense(const struct graph *g, const struct graph_node *n,
                         struct weights_entry *entry, struct infer_error *err)
{
    const struct graph_value *x = flattened_picture(g, n);
    const struct constant *c = entry->value;

    if (!x || c->rank != 2 || x->dim[1] < 1 || c->dim[1] % x->dim[1] != 0 ||
        c->dim[1] == x->dim[1])
        return 0;
    return replace(entry, columns_channels_first(c, x->dim[1]), err);
}

int weights_to_channels_first(struct graph *g, struct weights_dict *dict,
                              const int *target,
                              const struct weights_options *options,
                              struct infer_error *err)
{
    bool last = options->layout == WEIGHTS_CHANNELS_LAST;
    bool hwc = options->dense_order == WEIGHTS_DENSE_HWC;
    int status = 0;

    if (options->layout == WEIGHTS_LAYOUT_AUTO)
        last = looks_channels_last(g, dict, target);
    if (options->dense_order == WEIGHTS_DENSE_AUTO)
        hwc = last;
    if (!last && !hwc)
        return 0;
    if (hwc && (status = graph_sort(g, err)) == 0)
        status = graph_infer_shapes(g, NULL, err);
    for (size_t i = 0; i < dict->count && status != INFER_EMEMORY; i++) {
        const struct graph_node *n = layer_of(g, target[i]);
        struct weights_entry *entry = &dict->entry[i];
        int one = 0;

        if (n && last)
            one = to_channels_first(n, &g->value[target[i]], entry, err);
        if (n && hwc && n->op == GRAPH_DENSE && one == 0)
            one = reorder_dense(g, n, entry, err);
        if (one < 0)
            status = one;
    }
    return status;
}
