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

static bool reduces_batch(const struct onnx_import *im, int x,
                          const struct graph_reduce *reduce)
{
    int i;

    for (i = 0; i < reduce->n_axes; i++)
        if (varies(im, x, from_front(im, x, reduce->axis[i])))
            return true;
    return reduce->n_axes == 0 && varies_from(im, x, 0);
}

static bool cuts_batch(const struct onnx_import *im, int x,
                       const struct graph_slice *slice, int out)
{
    int i, p;

    for (i = 0; i < slice->n_axes; i++) {
        int d = from_front(im, x, slice->axis[i]);

        if (!varies(im, x, d))
            continue;
        for (p = 0; p < im->probes; p++)
            if (slice->step[i] != 1 ||
                im->type[out][p].dim[d] != im->type[x][p].dim[d])
                return true;
    }
    return false;
}

static bool pads_batch(const struct onnx_import *im, int x,
                       const struct kern_pad *pad)
{
    int d;

    for (d = 0; d < im->type[x][0].rank; d++)
        if ((pad->begin[d] != 0 || pad->end[d] != 0) && varies(im, x, d))
            return true;
    return false;
}

static bool multiplies_batch(const struct onnx_import *im, int a,
                             const struct kern_matmul *matmul)
{
    int rank = im->type[a][0].rank;

    return varies(im, a, rank - (matmul->transpose_a ? 2 : 1));
}

/* Along the axis, or because not every picture has indices of its own. */
static bool mixes_elements(const struct onnx_import *im,
                           const struct graph_node *n, int axis)
{
    for (int d = 0; d < im->type[n->in[0]][0].rank; d++)
        if (d != axis && varies(im, n->in[0], d) != varies(im, n->in[1], d))
            return true;
    return varies(im, n->in[0], axis);
}

static bool mixes(const struct onnx_import *im, const struct graph_node *n)
{
    const union graph_attr *attr = &n->attr;
    int x = n->in[0];

    switch (n->op) {
    case GRAPH_CONV:
    case GRAPH_CONV_TRANSPOSE:
    case GRAPH_POOL:
    case GRAPH_BATCH_NORM:
    case GRAPH_SCALE_SHIFT:
    case GRAPH_GROUP_NORM:
    case GRAPH_LRN:
    case GRAPH_RESIZE:
    case GRAPH_DEPTH_TO_SPACE:
    case GRAPH_SPACE_TO_DEPTH:
        return varies_from(im, x, 1);
    case GRAPH_DENSE:
        return varies_from(im, x, im->type[x][0].rank - 1);
    case GRAPH_MATMUL:
        return multiplies_batch(im, x, &attr->matmul);
    case GRAPH_LAYER_NORM:
        return varies_from(im, x, attr->norm.axis);
    case GRAPH_SOFTMAX:
        return attr->axis.flatten
                   ? varies_from(im, x, from_front(im, x, attr->axis.axis))
                   : varies(im, x, from_front(im, x, attr->axis.axis));
    case GRAPH_REDUCE:
        return reduces_batch(im, x, &attr->reduce);
    case GRAPH_ARG_REDUCE:
    case GRAPH_GATHER:
    case GRAPH_CONCAT:
        return varies(im, x, from_front(im, x, attr->axis.axis));
    case GRAPH_GATHER_ELEMENTS:
        return mixes_elements(im, n, from_front(im, x, attr->axis.axis));
    case GRAPH_SCATTER_ELEMENTS:
        return mixes_elements(im, n, from_front(im, x, attr->scatter.axis));
    case GRAPH_CUMULATE:
        return varies(im, x, from_front(im, x, attr->cumulate.axis));
    case GRAPH_TOP_K:
        return varies(im, x, from_front(im, x, attr->top_k.axis));
    case GRAPH_NMS:
        return varies_from(im, x, 1);
    case GRAPH_SPLIT:
        return varies(im, x, from_front(im, x, attr->split.axis));
    case GRAPH_SLICE:
        return cuts_batch(im, x, &attr->slice, n->out[0]);
    case GRAPH_PAD:
        return pads_batch(im, x, &attr->pad);
    case GRAPH_UNARY: /* element by element, or only moves elements */
    case GRAPH_BINARY:
    case GRAPH_PRELU:
    case GRAPH_WHERE:
    case GRAPH_CAST:
    case GRAPH_QUANTIZE: /* one number, or a vector along the channels */
    case GRAPH_DEQUANTIZE:
    case GRAPH_DROPOUT:
    case GRAPH_RESHAPE:
    case GRAPH_FLATTEN:
    case GRAPH_SQUEEZE:
    case GRAPH_UNSQUEEZE:
    case GRAPH_TRANSPOSE:
    case GRAPH_EXPAND:
    case GRAPH_TILE:
        return false;
    case GRAPH_NONE:
    case GRAPH_OP_COUNT:
        break;
    }
    return true;
}

int onnx_keep_batch(struct onnx_import *im, int node)
{
    if (im->rc == 0 && im->freed_batch && mixes(im, &im->g->node[node]))
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "works along a dimension that follows the batch");
    return im->rc;
}
