/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a file that states a batch of 1 may be read as one for any batch.
 *
 * Shapes that work out are not enough: a sum over all dimensions, say, is a sum
 * over one picture for a batch of 1 and over all of them for a larger one.  So
 * no node may combine elements along a dimension that follows the batch.  Only
 * the batch is free in this reading: whatever differs between the probes does
 * so for its sake.
 */
#include "kernels/base/error.h"
#include "weights/onnx/onnx.h"

static bool varies(const struct onnx_import *im, int value, int d)
{
    int p;

    for (p = 1; p < im->probes; p++)
        if (im->type[value][p].dim[d] != im->type[value][0].dim[d])
            return true;
    return false;
}

/* Any of the dimensions from d on. */
static bool varies_from(const struct onnx_import *im, int value, int d)
{
    for (; d < im->type[value][0].rank; d++)
        if (varies(im, value, d))
            return true;
    return false;
}

/* A dimension that may be counted from the end; those out of range have been
 * refused by the shape rule. */
static int from_front(const struct onnx_import *im, int value, int axis)
{
    return axis < 0 ? axis + im->type[value][0].rank : axis;
}

/* ---- rules --------------------------------------------------------- */

/* True if a node combines elements along a dimension that follows the batch. */
typedef bool mixing_fn(const struct onnx_import *im,
                       const struct graph_node *n);

/* Element by element, or elements only move. */
static bool never(const struct onnx_import *im, const struct graph_node *n)
{
    (void)im;
    (void)n;
    return false;
}

/* Over all dimensions but the first. */
static bool below_first(const struct onnx_import *im,
                        const struct graph_node *n)
{
    return varies_from(im, n->in[0], 1);
}

static bool over_last(const struct onnx_import *im, const struct graph_node *n)
{
    return varies_from(im, n->in[0], im->type[n->in[0]][0].rank - 1);
}

/* Over the axes that the node states. */
static bool over_axes(const struct onnx_import *im, const struct graph_node *n)
{
    union graph_attr attr = n->attr;
    int count;
    const int *axis = graph_axes(n->op, &attr, &count);

    for (int i = 0; i < count; i++)
        if (varies(im, n->in[0], from_front(im, n->in[0], axis[i])))
            return true;
    return false;
}

/* From the axis that the node states on. */
static bool from_axis(const struct onnx_import *im, const struct graph_node *n)
{
    union graph_attr attr = n->attr;
    int count;
    const int *axis = graph_axes(n->op, &attr, &count);

    return varies_from(im, n->in[0], from_front(im, n->in[0], axis[0]));
}

static bool softmax_mixes(const struct onnx_import *im,
                          const struct graph_node *n)
{
    return n->attr.axis.flatten ? from_axis(im, n) : over_axes(im, n);
}

/* No axes: all dimensions. */
static bool reduce_mixes(const struct onnx_import *im,
                         const struct graph_node *n)
{
    return n->attr.reduce.n_axes == 0 ? varies_from(im, n->in[0], 0)
                                      : over_axes(im, n);
}

static bool matmul_mixes(const struct onnx_import *im,
                         const struct graph_node *n)
{
    const int rank = im->type[n->in[0]][0].rank;

    return varies(im, n->in[0], rank - (n->attr.matmul.transpose_a ? 2 : 1));
}

static bool slice_mixes(const struct onnx_import *im,
                        const struct graph_node *n)
{
    const struct graph_slice *slice = &n->attr.slice;
    const int x = n->in[0], out = n->out[0];

    for (int i = 0; i < slice->n_axes; i++) {
        const int d = from_front(im, x, slice->axis[i]);
        if (!varies(im, x, d))
            continue;
        for (int p = 0; p < im->probes; p++)
            if (slice->step[i] != 1 ||
                im->type[out][p].dim[d] != im->type[x][p].dim[d])
                return true;
    }
    return false;
}

static bool pad_mixes(const struct onnx_import *im, const struct graph_node *n)
{
    const struct kern_pad *pad = &n->attr.pad;

    for (int d = 0; d < im->type[n->in[0]][0].rank; d++)
        if ((pad->begin[d] != 0 || pad->end[d] != 0) && varies(im, n->in[0], d))
            return true;
    return false;
}

/* Along the steps and the gates; the sequences are apart. */
static bool recurrent_mixes(const struct onnx_import *im,
                            const struct graph_node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] >= 0 && varies_from(im, n->in[i], 1))
            return true;
    return false;
}

/* Along the axis, or because not every image has indices of its own. */
static bool elements_mix(const struct onnx_import *im,
                         const struct graph_node *n)
{
    union graph_attr attr = n->attr;
    int count;
    const int axis =
        from_front(im, n->in[0], *graph_axes(n->op, &attr, &count));

    for (int d = 0; d < im->type[n->in[0]][0].rank; d++)
        if (d != axis && varies(im, n->in[0], d) != varies(im, n->in[1], d))
            return true;
    return varies(im, n->in[0], axis);
}

/* An operation without a rule keeps the batch of its file. */
static mixing_fn *const rule[GRAPH_OP_COUNT] = {
    [GRAPH_ARG_REDUCE] = over_axes,
    [GRAPH_BATCH_NORM] = below_first,
    [GRAPH_BINARY] = never,
    [GRAPH_CAST] = never,
    [GRAPH_CONCAT] = over_axes,
    [GRAPH_CONV] = below_first,
    [GRAPH_CONV_TRANSPOSE] = below_first,
    [GRAPH_CUMULATE] = over_axes,
    [GRAPH_DENSE] = over_last,
    [GRAPH_DEPTH_TO_SPACE] = below_first,
    [GRAPH_DEQUANTIZE] = never, /* a number, or a vector along the channels */
    [GRAPH_DROPOUT] = never,
    [GRAPH_EXPAND] = never,
    [GRAPH_FLATTEN] = never,
    [GRAPH_GATHER] = over_axes,
    [GRAPH_GATHER_ELEMENTS] = elements_mix,
    [GRAPH_GROUP_NORM] = below_first,
    [GRAPH_LAYER_NORM] = from_axis,
    [GRAPH_LRN] = below_first,
    [GRAPH_MATMUL] = matmul_mixes,
    [GRAPH_NMS] = below_first,
    [GRAPH_PAD] = pad_mixes,
    [GRAPH_POOL] = below_first,
    [GRAPH_PRELU] = never,
    [GRAPH_QUANTIZE] = never,
    [GRAPH_RECURRENT] = recurrent_mixes,
    [GRAPH_REDUCE] = reduce_mixes,
    [GRAPH_RESHAPE] = never,
    [GRAPH_RESIZE] = below_first,
    [GRAPH_SCALE_SHIFT] = below_first,
    [GRAPH_SCATTER_ELEMENTS] = elements_mix,
    [GRAPH_SLICE] = slice_mixes,
    [GRAPH_SOFTMAX] = softmax_mixes,
    [GRAPH_SPACE_TO_DEPTH] = below_first,
    [GRAPH_SPLIT] = over_axes,
    [GRAPH_SQUEEZE] = never,
    [GRAPH_TILE] = never,
    [GRAPH_TOP_K] = over_axes,
    [GRAPH_TRANSPOSE] = never,
    [GRAPH_UNARY] = never,
    [GRAPH_UNSQUEEZE] = never,
    [GRAPH_WHERE] = never,
};

int onnx_keep_batch(struct onnx_import *im, int node)
{
    const struct graph_node *n = &im->g->node[node];

    if (im->rc == 0 && im->freed_batch && (!rule[n->op] || rule[n->op](im, n)))
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "works along a dimension that follows the batch");
    return im->rc;
}
