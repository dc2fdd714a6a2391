/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which inputs and outputs are pictures N,H,W,C: the model has them as N,C,H,W.
 *
 * An input is one if the first operation on pictures that reads it, perhaps
 * behind operations that keep the order of the axes, says so by its
 * data_format; an output if it comes from such an operation in the same way.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "weights/tensorflow/tensorflow.h"

struct layouts {
    struct tf_import *tf;
    /* By node: the input that it is in another form, + 1; whether its result
     * is N,H,W,C. */
    int *origin;
    bool *last;
    bool *decided; /* by input */
};

/* The operations' first operand; a transposed convolution has it third. */
static int picture_of(const struct tf_graph *g, int node)
{
    return pb_span_is(g->node[node].op, "Conv2DBackpropInput") ? 2 : 0;
}

static bool is_channels_first(const struct tf_graph *g, int node)
{
    struct pb_span format;

    return tf_attr_text(g, node, "data_format", &format, NULL) == 0 &&
           pb_span_is(format, "NCHW");
}

/* A transpose of four axes means that its input has the other order. */
static bool is_transpose(const struct tf_graph *g, int node)
{
    return pb_span_is(g->node[node].op, "Transpose");
}

static void decide(struct layouts *l, int input, bool swapped)
{
    if (input > 0 && !l->decided[input - 1]) {
        l->decided[input - 1] = true;
        l->tf->input[input - 1].swapped = swapped;
    }
}

static void note_reader(struct layouts *l, int input, int node)
{
    if (input > 0 && l->tf->input[input - 1].reader == 0 &&
        pb_span_is(l->tf->graph.node[node].op, "Conv2D"))
        l->tf->input[input - 1].reader = node + 1;
}

static void visit(struct layouts *l, int node)
{
    struct tf_graph *g = &l->tf->graph;
    const struct tf_op *op = tf_op_find(g->node[node].op);
    struct tf_edge e;

    if (!op)
        return;
    switch (op->layout) {
    case TF_IMAGE:
        if (tf_input(g, node, picture_of(g, node), NULL, &e) < 0)
            return;
        l->last[node] = !is_channels_first(g, node);
        decide(l, l->origin[e.node], l->last[node]);
        note_reader(l, l->origin[e.node], node);
        break;
    case TF_EACH:
        for (int i = 0; i < g->node[node].n_in; i++) {
            if (tf_input(g, node, i, NULL, &e) < 0)
                return;
            if (l->origin[node] == 0)
                l->origin[node] = l->origin[e.node];
            l->last[node] |= l->last[e.node];
        }
        break;
    case TF_OTHER:
        if (is_transpose(g, node) && tf_input(g, node, 0, NULL, &e) == 0)
            decide(l, l->origin[e.node], true);
        break;
    }
}

/* Pictures that no operation on pictures reads: few channels, and last. */
static int decide_rest(struct layouts *l, struct infer_error *err)
{
    for (int i = 0; i < l->tf->n_inputs; i++) {
        struct onnx_value_info info;
        int rc = tf_input_info(l->tf, i, err, &info);

        if (rc < 0)
            return rc;
        if (!l->decided[i] && info.rank == 4)
            l->tf->input[i].swapped = info.dim[3] >= 1 && info.dim[3] <= 4;
        /* A rank that only the user knows is that of a picture. */
        if (info.rank >= 0 && info.rank != 4)
            l->tf->input[i].swapped = false;
    }
    return 0;
}

static int find(struct layouts *l, struct infer_error *err)
{
    struct tf_import *tf = l->tf;
    int rc;

    for (int i = 0; i < tf->n_inputs; i++)
        l->origin[tf->input[i].edge.node] = i + 1;
    for (int i = 0; i < tf->n_order; i++)
        visit(l, tf->order[i]);
    rc = decide_rest(l, err);
    if (rc < 0)
        return rc;
    /* Once more, now that the inputs are known. */
    for (int i = 0; i < tf->n_inputs; i++)
        l->last[tf->input[i].edge.node] = tf->input[i].swapped;
    for (int i = 0; i < tf->n_order; i++)
        visit(l, tf->order[i]);
    for (int i = 0; i < tf->n_outputs; i++)
        tf->output[i].swapped = l->last[tf->output[i].edge.node];
    return 0;
}

int tf_find_layouts(struct tf_import *tf, struct infer_error *err)
{
    const size_t n = (size_t)tf->graph.n_nodes;
    struct layouts l = {.tf = tf};
    int rc;

    l.origin = calloc(n, sizeof *l.origin);
    l.last = calloc(n, sizeof *l.last);
    l.decided = calloc((size_t)tf->n_inputs + 1, sizeof *l.decided);
    if (l.origin && l.last && l.decided)
        rc = find(&l, err);
    else
        rc = error_set(err, INFER_EMEMORY, "out of memory");
    free(l.origin);
    free(l.last);
    free(l.decided);
    return rc;
}

/* ---- shapes of inputs ---------------------------------------------- */

/* Shape and type of a Const, without its values. */
static int const_shape(const struct tf_graph *g, int node, int *rank,
                       int64_t *dim, struct infer_error *err)
{
    struct pb_span value, message = {NULL, 0}, shape = {NULL, 0};
    struct pb_reader r;
    struct pb_field f;
    int rc = tf_attr_span(g, node, "value", err, &value);

    *rank = -1;
    if (rc < 0 || !pb_span_is(g->node[node].op, "Const"))
        return rc;
    r = tf_reader(g, value);
    while ((rc = pb_next(&r, &f, err)) > 0)
        if (f.number == 8 && f.wire == PB_BYTES)
            message = f.span;
    if (rc < 0)
        return rc;
    r = tf_reader(g, message);
    while ((rc = pb_next(&r, &f, err)) > 0)
        if (f.number == 2 && f.wire == PB_BYTES)
            shape = f.span;
    return rc < 0 ? rc : tf_shape_parse(g, shape, rank, dim, err);
}

/* N,H,W,C of an input without a shape, from the filter of the convolution that
 * reads it. */
static int shape_by_reader(struct tf_import *tf, int input,
                           struct onnx_value_info *out, struct infer_error *err)
{
    struct tf_graph *g = &tf->graph;
    const int node = tf->input[input].reader - 1;
    int64_t dim[INFER_MAX_RANK];
    struct tf_edge w;
    int rank, rc;

    if (node < 0)
        return 0;
    rc = tf_input(g, node, 1, err, &w);
    if (rc == 0)
        rc = const_shape(g, w.node, &rank, dim, err);
    if (rc < 0 || rank != 4)
        return rc;
    out->rank = 4;
    for (int d = 0; d < 4; d++)
        out->dim[d] = -1;
    out->dim[is_channels_first(g, node) ? 1 : 3] = dim[2];
    return 0;
}

/* Frames and coefficients of a front end: [channels, frames, coefficients]. */
static int features(struct tf_graph *g, int node, struct onnx_value_info *out,
                    struct infer_error *err)
{
    int64_t samples = 0, window = 0, stride = 0, coefficients = 13;
    struct tf_edge spectrum = {-1, 0}, wave = {-1, 0};
    bool found;
    int rc = tf_attr_int(g, node, "dct_coefficient_count", &coefficients,
                         &found, err);

    out->elem_type = ONNX_FLOAT;
    if (rc == 0)
        rc = tf_input(g, node, 0, err, &spectrum);
    if (rc == 0 && pb_span_is(g->node[spectrum.node].op, "AudioSpectrogram"))
        rc = tf_input(g, spectrum.node, 0, err, &wave);
    if (rc < 0 || wave.node < 0)
        return rc;
    if ((rc = tf_attr_int(g, spectrum.node, "window_size", &window, &found,
                          err)) < 0 ||
        (rc = tf_attr_int(g, spectrum.node, "stride", &stride, &found, err)) <
            0 ||
        (rc = tf_attr_int(g, wave.node, "desired_samples", &samples, &found,
                          err)) < 0)
        return rc;
    if (stride < 1 || window < 1 || samples < window || samples > INT32_MAX)
        return 0; /* no shape: --input-shape gives it */
    out->rank = 3;
    out->dim[0] = 1;
    out->dim[1] = 1 + (samples - window) / stride;
    out->dim[2] = coefficients;
    return 0;
}

static int stated_shape(const struct tf_graph *g, int node,
                        struct onnx_value_info *out, struct infer_error *err)
{
    struct pb_span value;
    struct pb_reader r;
    struct pb_field f;
    int rc = tf_attr_span(g, node, "shape", err, &value);

    if (rc < 0)
        return rc;
    r = tf_reader(g, value);
    while ((rc = pb_next(&r, &f, err)) > 0) {
        if (f.number != 7 || f.wire != PB_BYTES)
            continue;
        rc = tf_shape_parse(g, f.span, &out->rank, out->dim, err);
        if (rc < 0)
            return rc;
    }
    /* Old writers state rank 0 where they know nothing. */
    if (out->rank == 0)
        out->rank = -1;
    return rc;
}

int tf_input_info(struct tf_import *tf, int i, struct infer_error *err,
                  struct onnx_value_info *out)
{
    struct tf_graph *g = &tf->graph;
    const int node = tf->input[i].edge.node;
    int64_t type = 0;
    bool found;
    int rc;

    memset(out, 0, sizeof *out);
    out->name = tf->input[i].name;
    out->is_tensor = true;
    out->rank = -1;
    if (pb_span_is(g->node[node].op, "Mfcc"))
        return features(g, node, out, err);
    rc = tf_attr_int(g, node, "dtype", &type, &found, err);
    out->elem_type = tf_onnx_type((uint64_t)type);
    if (rc == 0 && out->elem_type == 0)
        rc = error_set(err, INFER_EUNSUPPORTED,
                       "%.*s %.*s: an input of TensorFlow's type %lld",
                       PB_TEXT(g->node[node].op, 128),
                       PB_TEXT(g->node[node].name, 128), (long long)type);
    if (rc == 0)
        rc = stated_shape(g, node, out, err);
    if (rc == 0 && out->rank < 0)
        rc = shape_by_reader(tf, i, out, err);
    return rc;
}
