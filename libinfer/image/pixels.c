/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model that takes pixels: the values of a picture (colour order, mean,
 * scale) are computed by layers of the network, so on the session's device, and
 * a picture gets there as one byte a channel.
 *
 *     pixels U8 N,H,W,C -> transpose -> [channels reversed] -> cast ->
 *     scale_shift -> what read the input before
 *
 * The transposition and the reversal are views: nothing moves until the cast.
 */
#include <string.h>

#include "kernels/base/error.h"
#include "libinfer/graph/graph_json.h"
#include "libinfer/image/preprocess.h"
#include "libinfer/model/model.h"

/* One node more, which reads *value; *value is its output then: a new one, or
 * `out` where that is not -1.  Negative: EMEMORY. */
static int append(struct graph *g, enum graph_op op, const int *in, int n_in,
                  int out, int *value, union graph_attr **attr)
{
    int node;

    if (out < 0)
        out = graph_add_value(g, NULL);
    if (out < 0)
        return out;
    node = graph_add_node(g, op, NULL, in, n_in, &out, 1);
    if (node < 0)
        return node;
    *value = out;
    *attr = &g->node[node].attr;
    return INFER_OK;
}

static int put_channels_second(struct graph *g, int *value)
{
    static const int64_t order[4] = {0, 3, 1, 2};
    union graph_attr *attr;
    const int rc = append(g, GRAPH_TRANSPOSE, value, 1, -1, value, &attr);

    if (rc < 0)
        return rc;
    attr->dims.n = 4;
    memcpy(attr->dims.dim, order, sizeof(order));
    return INFER_OK;
}

static int reverse_channels(struct graph *g, int channels, int *value)
{
    union graph_attr *attr;
    const int rc = append(g, GRAPH_SLICE, value, 1, -1, value, &attr);

    if (rc < 0)
        return rc;
    attr->slice.n_axes = 1;
    attr->slice.axis[0] = 1;
    attr->slice.begin[0] = channels - 1;
    attr->slice.end[0] = -channels - 1; /* before the first */
    attr->slice.step[0] = -1;
    return INFER_OK;
}

static int cast(struct graph *g, enum infer_dtype to, int *value)
{
    union graph_attr *attr;
    const int rc = append(g, GRAPH_CAST, value, 1, -1, value, &attr);

    if (rc == INFER_OK)
        attr->cast.to = to;
    return rc;
}

/* A constant of one number a channel. */
static int add_numbers(struct graph *g, const struct graph_preprocess *p,
                       int channels,
                       float (*number)(const struct graph_preprocess *, int))
{
    const int64_t dim = channels;
    struct constant *c = constant_new(INFER_F32, 1, &dim);

    for (int i = 0; c && i < channels; i++) {
        const float v = number(p, i);
        memcpy(c->data + (size_t)i * sizeof(v), &v, sizeof(v));
    }
    return graph_add_constant(g, NULL, c);
}

/* Makes `to` from *value. */
static int scale_and_shift(struct graph *g, const struct graph_preprocess *p,
                           int channels, int to, int *value)
{
    const int scale = add_numbers(g, p, channels, preprocess_scale);
    const int shift =
        scale < 0 ? scale : add_numbers(g, p, channels, preprocess_shift);
    const int in[3] = {*value, scale, shift};
    union graph_attr *attr;

    return shift < 0 ? shift
                     : append(g, GRAPH_SCALE_SHIFT, in, 3, to, value, &attr);
}

/* The layers in front of input `index`. */
static int add_layers(struct graph *g, int index)
{
    const struct graph_preprocess *p = preprocess_of(g, index);
    const int input = g->input[index];
    const int to = graph_add_value(g, NULL);
    struct graph_value *v = &g->value[input];
    const enum infer_dtype dtype = v->dtype;
    const int64_t channels = v->dim[1];
    int value = input, rc;

    if (to < 0)
        return to;
    graph_replace_value(g, input, to);
    v->dtype = INFER_U8;
    v->dim[1] = v->dim[2];
    v->dim[2] = v->dim[3];
    v->dim[3] = channels;
    rc = put_channels_second(g, &value);
    if (rc == INFER_OK && preprocess_source(p, 0, (int)channels) != 0)
        rc = reverse_channels(g, (int)channels, &value);
    if (rc == INFER_OK)
        rc = cast(g, dtype, &value);
    if (rc == INFER_OK)
        rc = scale_and_shift(g, p, (int)channels, to, &value);
    return rc;
}

int infer_model_take_pixels(const struct infer_model *model, int index,
                            struct infer_error *err, struct infer_model **out)
{
    const struct graph *from = model ? model_graph(model) : NULL;
    struct graph *g;
    int rc;

    if (!from || !out)
        return error_set(err, INFER_EARGUMENT, "no model or no room given");
    rc = preprocess_check(from, index, err);
    if (rc < 0)
        return rc;
    if (from->value[from->input[index]].rank != 4)
        return error_set(err, INFER_EUNSUPPORTED,
                         "input '%s' is one picture without a batch",
                         from->value[from->input[index]].name);
    if (graph_is_output(from, from->input[index]))
        return error_set(err, INFER_EUNSUPPORTED, "input '%s' is an output too",
                         from->value[from->input[index]].name);
    g = graph_copy(from);
    if (!g)
        return error_set(err, INFER_EMEMORY, "model: out of memory");
    rc = add_layers(g, index);
    if (rc < 0) {
        rc = graph_no_room(g, err);
        graph_free(g);
        return rc;
    }
    g->preprocess[index] = graph_preprocess_default();
    g->preprocess[index].present = false; /* the layers do it now */
    return model_from_graph(g, err, out);
}
