/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TensorFlow reader: frozen graphs (GraphDef) and SavedModels.
 *
 * The nodes that the outputs need are told to the importer of ONNX one after
 * the other; see tensorflow.h.
 */
#include "weights/tensorflow/tensorflow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"

/* ---- operators ----------------------------------------------------- */

static const struct tf_op ops[] = {
#define TF_OP(name, layout, function, onnx, param)                             \
    {name, layout, function, onnx, param},
#include "weights/tensorflow/ops.def"
#undef TF_OP
};

/* The table is sorted by name; a test holds it to that. */
const struct tf_op *tf_op_find(struct pb_span name)
{
    return bsearch(&name, ops, sizeof ops / sizeof *ops, sizeof *ops,
                   pb_span_order);
}

/* ---- constants ----------------------------------------------------- */

/* The tensor of a Const. */
static int const_tensor(const struct tf_graph *g, int node, struct pb_span *out,
                        struct infer_error *err)
{
    struct pb_span value;
    struct pb_reader r;
    struct pb_field f;
    int rc = tf_attr_span(g, node, "value", err, &value);

    *out = (struct pb_span){NULL, 0};
    if (rc < 0)
        return rc;
    r = tf_reader(g, value);
    while ((rc = pb_next(&r, &f, err)) > 0)
        if (f.number == 8 && f.wire == PB_BYTES)
            *out = f.span;
    return rc;
}

static int add_constant(struct onnx_import *im, int node)
{
    const struct tf_import *tf = im->context;
    const struct tf_node *n = &tf->graph.node[node];
    struct pb_span tensor = n->message;
    int v;

    if (!n->restored)
        im->rc = const_tensor(&tf->graph, node, &tensor, im->err);
    if (onnx_value_get(im, tf_value_name(im, (struct tf_edge){node, 0}), &v) ==
            0 &&
        im->value[v].state != ONNX_UNKNOWN)
        onnx_fail(im, INFER_EFORMAT, "two nodes have this name");
    if (im->rc < 0) {
        error_prefix(im->err, "%.*s %.*s", PB_TEXT(n->op, 128),
                     PB_TEXT(n->name, 128));
        return im->rc;
    }
    im->value[v].state = ONNX_LAZY;
    im->value[v].tensor = tensor;
    return 0;
}

static int add_constants(struct onnx_import *im)
{
    const struct tf_import *tf = im->context;

    for (int i = 0; i < tf->n_order && im->rc == 0; i++) {
        const struct tf_node *n = &tf->graph.node[tf->order[i]];

        if (n->restored || pb_span_is(n->op, "Const"))
            add_constant(im, tf->order[i]);
    }
    return im->rc;
}

/* Tensors of this many bytes and more are kept once, see kept.h. */
#define LARGE_BYTES 65536

static int load(struct onnx_import *im, struct pb_span tensor,
                struct constant **out)
{
    struct tf_import *tf = im->context;
    const bool variable = tf_bundle_has(&tf->bundle, tensor);
    int rc;

    if (weights_kept_has(&tf->kept, tensor.data)) {
        *out = weights_kept_get(&tf->kept, tensor.data);
        return *out ? 0 : error_set(im->err, INFER_EMEMORY, "out of memory");
    }
    rc = variable ? tf_bundle_load(&tf->bundle, tensor, im->err, out)
                  : tf_tensor_load(im, tensor, out);
    if (rc < 0 || (*out)->bytes < LARGE_BYTES)
        return rc;
    if (!weights_kept_add(&tf->kept, tensor.data, *out)) {
        constant_unref(*out);
        return error_set(im->err, INFER_EMEMORY, "out of memory");
    }
    if (variable)
        tf_bundle_forget(&tf->bundle, tensor);
    else
        tf_tensor_give_back(&tf->graph, tensor);
    return 0;
}

int tf_load_transposed(struct onnx_import *im, struct pb_span tensor, int rank,
                       const int *order, struct constant **out)
{
    struct tf_import *tf = im->context;
    struct constant *c;
    int rc = load(im, tensor, &c);

    if (rc < 0)
        return im->rc = rc;
    if (c->rank != rank) {
        onnx_fail(im, INFER_EFORMAT, "a filter of rank %d, expected %d",
                  c->rank, rank);
        constant_unref(c);
        return im->rc;
    }
    if (weights_kept_has(&tf->kept, tensor.data)) {
        constant_unref(c);
        *out = weights_kept_transpose(&tf->kept, tensor.data, order);
    } else {
        *out = constant_transpose(c, order);
        constant_unref(c);
    }
    return *out ? 0 : onnx_no_memory(im);
}

static bool is_large(struct onnx_import *im, struct pb_span tensor)
{
    const struct tf_import *tf = im->context;

    return !tf_bundle_has(&tf->bundle, tensor) &&
           tf_tensor_count(&tf->graph, tensor) > ONNX_MAX_SMALL;
}

/* ---- inputs and outputs -------------------------------------------- */

/* The model has pictures as N,C,H,W. */
static int give_input(struct onnx_import *im, size_t i,
                      struct onnx_value_info *out)
{
    struct tf_import *tf = im->context;
    int64_t channels;
    int rc;

    if (i == (size_t)tf->n_inputs)
        return 0;
    rc = tf_input_info(tf, (int)i, im->err, out);
    if (rc < 0)
        return rc;
    if (tf->input[i].swapped && out->rank == 4) {
        channels = out->dim[3];
        out->dim[3] = out->dim[2];
        out->dim[2] = out->dim[1];
        out->dim[1] = channels;
    }
    return 1;
}

static int give_output(struct onnx_import *im, size_t i, struct pb_span *out)
{
    const struct tf_import *tf = im->context;

    if (i == (size_t)tf->n_outputs)
        return 0;
    *out = tf->output[i].name;
    return 1;
}

/* A node of no file, to which steps belong. */
static struct onnx_node *stand_in(struct onnx_import *im, int index)
{
    struct tf_import *tf = im->context;
    struct onnx_node *node = &tf->current;

    memset(node, 0, sizeof *node);
    node->name = node->op = node->domain = (char *)"";
    tf->node = index;
    im->node = node;
    im->emitted = 0;
    return node;
}

/* What the file reads as N,H,W,C. */
static int turn_input(struct onnx_import *im, const struct tf_io *io)
{
    static const int64_t order[4] = {0, 2, 3, 1};
    int v;

    stand_in(im, io->edge.node);
    if (onnx_value_get(im, io->name, &v) < 0)
        return im->rc;
    if (im->type[im->value[v].graph][0].rank != 4)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "input '%.*s' must have 4 dimensions (N,C,H,W)",
                         PB_TEXT(io->name, 128));
    return onnx_emit_dims(im, GRAPH_TRANSPOSE, im->value[v].graph, 4, order, -1,
                          &im->value[v].graph);
}

/* An output that lies as N,H,W,C is turned; one whose value has another name,
 * since it is an input or stands in the list twice, gets its own. */
static int finish_output(struct onnx_import *im, const struct tf_io *io)
{
    static const int64_t order[4] = {0, 3, 1, 2};
    const struct onnx_attr perm = tf_set_ints("perm", order, 4);
    struct pb_span from = tf_value_name(im, io->edge);
    struct onnx_node *node = stand_in(im, io->edge.node);
    struct graph_type t;
    bool turn = false;

    node->in = &from;
    node->n_in = 1;
    if (from.bytes == 0)
        onnx_no_memory(im);
    else if (onnx_value_find(im, from) < 0)
        onnx_fail(im, INFER_EUNSUPPORTED,
                  "output '%.*s' is an extra output of its node",
                  PB_TEXT(io->name, 128));
    else if (io->swapped && onnx_input_type(im, 0, 0, &t) == 0)
        turn = t.rank == 4;
    if (im->rc == 0 && (turn || !tf_same(from, io->name)))
        onnx_step(im, turn ? "Transpose" : "Identity", &from, 1, io->name,
                  &perm, turn ? 1 : 0);
    node->in = NULL;
    node->n_in = 0;
    return im->rc;
}

/* ---- nodes --------------------------------------------------------- */

/* 1: an input of it was refused. */
static int run_node(struct onnx_import *im, int index)
{
    struct tf_import *tf = im->context;
    int rc;

    if (tf_node_parse(im, index, stand_in(im, index)) < 0)
        return im->rc;
    rc = onnx_check_node(im);
    if (rc != 0)
        return rc;
    tf->op = tf_op_find(tf->graph.node[index].op);
    if (!tf->op)
        return onnx_fail(im, INFER_EUNSUPPORTED, "it is not supported");
    tf->op->import(im);
    return im->rc < 0 ? im->rc : onnx_check_attributes(im);
}

static bool is_given(const struct tf_import *tf, int node)
{
    return tf_is_input(&tf->graph, node) || tf->graph.node[node].restored ||
           pb_span_is(tf->graph.node[node].op, "Const");
}

static int run_nodes(struct onnx_import *im)
{
    struct tf_import *tf = im->context;
    struct infer_error *err = im->err, fault;
    char label[512] = "";
    int rc, result = 0;

    for (int i = 0; i < tf->n_inputs && im->rc == 0; i++)
        if (tf->input[i].swapped)
            turn_input(im, &tf->input[i]);
    if (im->rc < 0)
        return im->rc;
    memset(tf->list, 0, (size_t)tf->graph.n_nodes * sizeof(*tf->list));
    for (int i = 0; i < tf->n_order; i++) {
        if (is_given(tf, tf->order[i]))
            continue;
        onnx_arena_reset(&im->scratch);
        error_clear(&fault);
        im->err = &fault;
        rc = run_node(im, tf->order[i]);
        im->err = err;
        if (rc < 0)
            snprintf(label, sizeof label, "%s %s", tf->current.op,
                     tf->current.name);
        if (onnx_end_node(im, rc, &fault, label, &result) < 0)
            return INFER_EMEMORY;
    }
    for (int i = 0; i < tf->n_outputs && result == 0; i++)
        result = finish_output(im, &tf->output[i]);
    return result;
}

/* ---- the whole ----------------------------------------------------- */

/* The node that makes an output takes the output's name, where it can: most
 * outputs are identities of something. */
static void name_outputs(struct tf_import *tf)
{
    for (int i = 0; i < tf->n_outputs; i++) {
        const struct tf_io *io = &tf->output[i];
        struct tf_node *n = &tf->graph.node[io->edge.node];
        const int taken = tf_find(&tf->graph, io->name);
        bool again = false;

        for (int k = 0; k < i; k++)
            again |= tf->output[k].edge.node == io->edge.node;
        if (again || io->edge.port != 0 || is_given(tf, io->edge.node))
            continue;
        if (taken < 0 || tf->graph.node[taken].alias ||
            taken == io->edge.node) {
            n->name = io->name;
            n->renamed = io->swapped;
        }
    }
    for (int i = 0; i < tf->n_inputs; i++)
        tf->graph.node[tf->input[i].edge.node].name = tf->input[i].name;
}

int tf_import_graph(struct tf_import *tf, const struct weights_options *options,
                    struct infer_error *err, struct graph **out)
{
    static const struct onnx_source source = {
        .constants = add_constants,
        .input = give_input,
        .nodes = run_nodes,
        .output = give_output,
        .load = load,
        .large = is_large,
    };
    int rc = tf_find_order(tf, err);

    if (rc == 0)
        rc = tf_find_dilations(tf, err);
    if (rc == 0)
        rc = tf_find_layouts(tf, err);
    if (rc < 0)
        return rc;
    name_outputs(tf);
    tf->list = calloc((size_t)tf->graph.n_nodes + 1, sizeof(*tf->list));
    if (!tf->list)
        return error_set(err, INFER_EMEMORY, "out of memory");
    return onnx_import_graph(&source, tf, TF_OPSET, (struct pb_span){NULL, 0},
                             options, err, out);
}

void tf_import_close(struct tf_import *tf)
{
    tf_graph_close(&tf->graph);
    weights_kept_clear(&tf->kept);
    tf_bundle_close(&tf->bundle);
    free(tf->list);
    free(tf->dilated);
    free(tf->input);
    free(tf->output);
    free(tf->order);
    memset(tf, 0, sizeof *tf);
}

static int read_tensorflow(struct weights_file *file,
                           const struct weights_options *options,
                           struct infer_error *err, struct weights_import *out)
{
    const bool saved = tf_saved_model_probe(file->blob);
    struct infer_error local;
    struct tf_import tf = {.path = file->path};
    int rc;

    if (!err)
        err = &local;
    if (saved) {
        rc = tf_saved_model_open(file->blob, file->path, err, &tf);
    } else {
        const struct pb_span all = {file->blob->data, file->blob->bytes};

        rc = tf_graph_open(file->blob, all, err, &tf.graph);
        if (rc == 0)
            rc = tf_find_ends(&tf, err);
    }
    if (rc == 0)
        rc = tf_import_graph(&tf, options, err, &out->graph);
    if (rc == 0) {
        snprintf(out->detail, sizeof out->detail,
                 "%s, %d nodes, GraphDef version %lld",
                 saved ? "SavedModel" : "frozen graph", tf.graph.n_nodes,
                 (long long)tf.graph.producer);
        out->bytes = file->blob->bytes + tf.bundle.bytes;
    }
    tf_import_close(&tf);
    return rc;
}

/* ---- recognition --------------------------------------------------- */

static bool is_operator(struct pb_span s)
{
    for (size_t i = 0; i < s.bytes; i++) {
        const unsigned char c = s.data[i];

        if (!(c >= 'A' && c <= 'Z') && !(c >= 'a' && c <= 'z') && c != '_' &&
            (i == 0 || (c != '>' && !(c >= '0' && c <= '9'))))
            return false;
    }
    return s.bytes > 0;
}

/* A GraphDef begins with its first node: field 1, a message that holds a name
 * (field 1) and an operator (field 2).  ONNX has a number there. */
static int probe(const struct weights_file *file)
{
    const struct blob *blob = file->blob;
    struct pb_reader r;
    struct pb_field f;
    bool name = false;

    if (tf_saved_model_probe(file->blob))
        return 95;
    pb_open(&r, blob->data, blob->bytes);
    if (pb_next(&r, &f, NULL) <= 0 || f.number != 1 || f.wire != PB_BYTES)
        return 0;
    r.at = f.span.data;
    r.end = f.span.data + f.span.bytes;
    while (pb_next(&r, &f, NULL) > 0) {
        if (f.number == 1 && f.wire == PB_BYTES && f.span.bytes > 0)
            name = true;
        else if (f.number == 2 && f.wire == PB_BYTES && name)
            return is_operator(f.span) ? 90 : 0;
        else
            return 0;
    }
    return 0;
}

const struct weights_format weights_format_tensorflow = {
    .name = "tensorflow",
    .description = "TensorFlow frozen graph (.pb) and SavedModel",
    .probe = probe,
    .read = read_tensorflow,
};
