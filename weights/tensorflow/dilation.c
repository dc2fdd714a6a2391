/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SpaceToBatchND, a convolution, BatchToSpaceND: how TensorFlow writes dilated
 * convolutions.  The first becomes a padding, the last one a slice, and the
 * convolution is dilated by the blocks; between it and the last node stand
 * element-wise operators alone.
 *
 * A node has a role only if the whole chain has the form; otherwise pictures go
 * into the batch as the file says.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "weights/tensorflow/tensorflow.h"

/* Readers of each node: how many, and the last one. */
struct readers {
    int *count, *last;
};

static bool is(const struct tf_import *tf, int node, const char *op)
{
    return pb_span_is(tf->graph.node[node].op, op);
}

static int find_readers(struct tf_import *tf, struct readers *r,
                        struct infer_error *err)
{
    for (int i = 0; i < tf->n_order; i++) {
        const int node = tf->order[i];

        for (int k = 0; k < tf->graph.node[node].n_in; k++) {
            struct tf_edge e;
            const int rc = tf_is_input(&tf->graph, node)
                               ? 1
                               : tf_input(&tf->graph, node, k, err, &e);

            if (rc < 0)
                return rc;
            if (rc > 0)
                break;
            r->count[e.node]++;
            r->last[e.node] = node;
        }
    }
    for (int o = 0; o < tf->n_outputs; o++)
        r->count[tf->output[o].edge.node] += 2; /* somebody else's, too */
    return 0;
}

/* Whether input 0 of a node is the output of another. */
static bool reads_first(struct tf_import *tf, int node, int from)
{
    struct tf_edge e;

    return tf_input(&tf->graph, node, 0, NULL, &e) == 0 && e.node == from &&
           e.port == 0;
}

/* Whether two nodes have the same constant as input 1. */
static bool same_blocks(struct tf_import *tf, int a, int b)
{
    int64_t x[TF_MAX_LIST], y[TF_MAX_LIST];
    int n = 0, m = 0;

    return tf_input_ints(&tf->graph, a, 1, x, &n) &&
           tf_input_ints(&tf->graph, b, 1, y, &m) && n == 2 && m == 2 &&
           memcmp(x, y, 2 * sizeof *x) == 0;
}

/* A convolution of stride 1 without pads and without dilation of its own, over
 * N,H,W,C: attributes of other forms are absent or all 1. */
static bool is_plain(struct tf_import *tf, int node)
{
    struct pb_span text;

    if (!is(tf, node, "Conv2D") && !is(tf, node, "DepthwiseConv2dNative"))
        return false;
    if (tf_attr_text(&tf->graph, node, "padding", &text, NULL) < 0 ||
        !pb_span_is(text, "VALID") ||
        tf_attr_text(&tf->graph, node, "data_format", &text, NULL) < 0 ||
        (text.bytes > 0 && !pb_span_is(text, "NHWC")))
        return false;
    return tf_attr_all_one(&tf->graph, node, "strides") &&
           tf_attr_all_one(&tf->graph, node, "dilations");
}

static bool is_each(const struct tf_import *tf, int node)
{
    static const char *const each[] = {"BiasAdd", "Relu", "Relu6", "Tanh",
                                       "Sigmoid", "Elu",  "Selu"};

    for (size_t i = 0; i < sizeof each / sizeof *each; i++)
        if (is(tf, node, each[i]))
            return true;
    return false;
}

/* The chain that begins with a SpaceToBatchND. */
static void mark_chain(struct tf_import *tf, const struct readers *r, int first)
{
    int conv = r->count[first] == 1 ? r->last[first] : -1, at = conv;

    if (conv < 0 || !reads_first(tf, conv, first) || !is_plain(tf, conv))
        return;
    do {
        const int next = r->count[at] == 1 ? r->last[at] : -1;

        if (next < 0 || !reads_first(tf, next, at))
            return;
        at = next;
    } while (is_each(tf, at));
    if (!is(tf, at, "BatchToSpaceND") || !same_blocks(tf, first, at))
        return;
    tf->dilated[first] = tf->dilated[at] = true;
    tf->dilated[conv] = true;
}

int tf_find_dilations(struct tf_import *tf, struct infer_error *err)
{
    const size_t n = (size_t)tf->graph.n_nodes + 1;
    struct readers r = {calloc(n, sizeof(int)), calloc(n, sizeof(int))};
    int rc = 0;

    tf->dilated = calloc(n, sizeof *tf->dilated);
    if (!tf->dilated || !r.count || !r.last)
        rc = error_set(err, INFER_EMEMORY, "out of memory");
    else
        rc = find_readers(tf, &r, err);
    for (int i = 0; i < tf->n_order && rc == 0; i++)
        if (is(tf, tf->order[i], "SpaceToBatchND"))
            mark_chain(tf, &r, tf->order[i]);
    free(r.count);
    free(r.last);
    return rc;
}

void tf_take_dilation(struct onnx_import *im, int *dilation)
{
    struct tf_import *tf = im->context;
    int64_t block[TF_MAX_LIST];
    struct tf_edge e;
    int n = 0;

    if (!tf->dilated[tf->node] || im->rc < 0)
        return;
    im->rc = tf_input(&tf->graph, tf->node, 0, im->err, &e);
    if (im->rc < 0 || !tf_input_ints(&tf->graph, e.node, 1, block, &n))
        return;
    for (int d = 0; d < 2 && d < n; d++)
        if (block[d] >= 1 && block[d] <= INT32_MAX)
            dilation[d] = (int)block[d];
}
