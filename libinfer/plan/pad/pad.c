/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channels padded once.
 *
 * Kernels of 16-bit types on a GPU read and write 8 channels at a time, and
 * most of them refuse other counts.  A plan therefore gives values whose
 * channels no multiple of 8 divides more channels (sets.h), before its nodes
 * are lowered: weights get rows, columns and biases of zeros, so that every
 * channel of before has its value of before, and what the further channels
 * hold, which is finite, meets weights of 0.
 *
 * A node that appends channels of zeros, as before a residual of fewer
 * channels, is left out where its input can be given as many channels as its
 * output has, if those hold zeros.
 */
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "libinfer/plan/pad/sets.h"

/* Channels of a value after padding. */
static int64_t padded(struct pad_sets *s, int v)
{
    return pad_place(s, v, pad_channels_before(s, v));
}

/* Copies `outer` blocks of one dimension's entries to their places as channels
 * of a value; `line` bytes each. */
static void spread(struct pad_sets *s, int channels, int64_t outer, size_t line,
                   const unsigned char *from, unsigned char *to)
{
    const int64_t was = pad_channels_before(s, channels);
    const int64_t size = padded(s, channels);
    int64_t end;

    for (int64_t c = 0; c < was; c = end) {
        end = pad_piece_end(s, channels, c);
        for (int64_t i = 0; i < outer; i++)
            memcpy(to + (size_t)(i * size + pad_place(s, channels, c)) * line,
                   from + (size_t)(i * was + c) * line,
                   (size_t)(end - c) * line);
    }
}

/* The constant with one dimension as the channels of a value will lie, the rest
 * filled with a number. */
static int widen(struct pad_sets *s, int v, int dim, int channels, double fill,
                 struct infer_error *err)
{
    struct graph_value *value = &s->g->value[v];
    const struct host_memory *host = &s->plan->config->device->host;
    const int64_t size = padded(s, channels);
    struct constant *from, *to;
    int64_t shape[INFER_MAX_RANK], outer = 1, inner = 1;
    int rc;

    if (value->dim[dim] == size)
        return 0;
    rc = constant_in_memory(value->data, host, err, &from);
    if (rc < 0)
        return rc;
    memcpy(shape, value->dim, sizeof shape);
    shape[dim] = size;
    for (int i = 0; i < value->rank; i++)
        *(i < dim ? &outer : &inner) *= i == dim ? 1 : value->dim[i];
    to = constant_new_in(host, from->dtype, from->rank, shape);
    if (!to) {
        constant_unref(from);
        return error_set(err, INFER_EMEMORY, "plan: out of memory");
    }
    for (int64_t i = 0; fill != 0 && i < constant_count(to); i++)
        scalar_store(to->dtype, to->data, i, fill);
    spread(s, channels, outer, (size_t)inner * infer_dtype_size(from->dtype),
           from->data, to->data);
    constant_unref(from);
    constant_unref(value->data);
    value->data = to;
    value->dim[dim] = size;
    return 0;
}

static int widen_layer(struct pad_sets *s, struct graph_node *n,
                       struct infer_error *err)
{
    const bool depthwise = n->op == GRAPH_CONV && pad_is_depthwise(s, n);
    int rc;

    if (padded(s, n->in[0]) == pad_channels_before(s, n->in[0]) &&
        padded(s, n->out[0]) == pad_channels_before(s, n->out[0]))
        return 0;
    rc = widen(s, n->in[1], 0, n->out[0], 0, err);
    if (rc == 0 && !depthwise)
        rc = widen(s, n->in[1], 1, n->in[0], 0, err);
    if (rc == 0 && pad_input(n, 2) >= 0)
        rc = widen(s, n->in[2], 0, n->out[0], 0, err);
    if (depthwise)
        n->attr.conv.conv.groups = (int)padded(s, n->out[0]);
    return rc;
}

/* Constant operands of one number a channel. */
static int widen_operands(struct pad_sets *s, const struct graph_node *n,
                          struct infer_error *err)
{
    int rc = 0;

    for (int i = 0; i < n->n_in && rc == 0; i++) {
        const int v = n->in[i];
        const int dim = v < 0 || !s->g->value[v].data ? -1
                        : n->op == GRAPH_BINARY
                            ? pad_channel_dim(s, v, n->out[0])
                            : 0;

        if (dim >= 0)
            rc = widen(s, v, dim, n->out[0],
                       n->op == GRAPH_BATCH_NORM && i == 4 ? 1 : 0, err);
    }
    return rc;
}

/* The constants and attributes of a node, for the channels that its values will
 * have. */
static int widen_node(struct pad_sets *s, struct graph_node *n,
                      struct infer_error *err)
{
    struct graph_slice *slice = &n->attr.slice;

    switch ((int)n->op) {
    case GRAPH_CONV:
    case GRAPH_DENSE:
        return widen_layer(s, n, err);
    case GRAPH_BINARY:
    case GRAPH_SCALE_SHIFT:
    case GRAPH_BATCH_NORM:
        return padded(s, n->out[0]) == pad_channels_before(s, n->out[0])
                   ? 0
                   : widen_operands(s, n, err);
    case GRAPH_RESIZE:
        if (padded(s, n->out[0]) != pad_channels_before(s, n->out[0]))
            n->attr.resize.size[1] = 0; /* as the input */
        break;
    case GRAPH_SLICE:
        if (padded(s, n->in[0]) == pad_channels_before(s, n->in[0]) ||
            slice->n_axes != 1 ||
            (slice->axis[0] + s->g->value[n->in[0]].rank) %
                    s->g->value[n->in[0]].rank !=
                1)
            break;
        if (slice->begin[0] < 0)
            slice->begin[0] += pad_channels_before(s, n->in[0]);
        slice->begin[0] = pad_place(s, n->in[0], slice->begin[0]);
        slice->end[0] = slice->begin[0] + padded(s, n->out[0]);
        break;
    }
    return 0;
}

/* After padding: appends what is left to append. */
static void append_rest(struct pad_sets *s, int node)
{
    struct graph_node *n = &s->g->node[node];
    const int64_t left =
        pad_channels_before(s, n->out[0]) - pad_channels_before(s, n->in[0]);

    n->attr.pad.end[1] = (int)left;
    if (left == 0) {
        graph_replace_value(s->g, n->out[0], n->in[0]);
        graph_remove_node(s->g, node);
    }
}

/* Gives the values their channels; what is asked of the sets counts from these
 * afterwards. */
static void set_channels(struct pad_sets *s)
{
    struct graph *g = s->g;

    for (int i = 0; i < g->n_values; i++)
        if (!g->value[i].data && g->value[i].rank >= 2)
            s->width[i] = padded(s, i);
    for (int i = 0; i < g->n_values; i++)
        if (!g->value[i].data && g->value[i].rank >= 2)
            g->value[i].dim[1] = s->width[i];
    for (int i = 0; i < g->n_nodes; i++)
        if (g->node[i].op == GRAPH_PAD && pad_appends_zeros(&g->node[i]))
            append_rest(s, i);
}

int plan_pad_channels(struct plan *plan, struct infer_error *err)
{
    struct graph *g = plan->g;
    struct pad_sets s;
    int rc;

    if (!plan->config->pad_channels || plan->config->keep_tensors ||
        plan->config->products)
        return 0;
    rc = pad_sets_find(plan, err, &s);
    if (rc < 0)
        return rc;
    for (int i = 0; i < g->n_nodes && rc == 0; i++)
        if (g->node[i].op != GRAPH_NONE)
            rc = widen_node(&s, &g->node[i], err);
    if (rc == 0)
        set_channels(&s);
    pad_sets_clear(&s);
    return rc;
}
