/* SPDX-License-Identifier: Apache-2.0 */
/* Operators on volumes N,D,H,W,C, filters D,R,S,C,K.
 *
 * "SAME" with a stride above the window needs no pads; TensorFlow's kernel for
 * a CPU starts at entry 1 there, other than its documentation and its kernel
 * for a GPU. */
#include <string.h>

#include "weights/onnx/composed/compose.h"
#include "weights/tensorflow/tensorflow.h"

static const int64_t to_planes[5] = {0, 4, 1, 2, 3};
static const int64_t from_planes[5] = {0, 2, 3, 4, 1};

static bool channels_last(struct onnx_import *im)
{
    static const char *const words[] = {"NDHWC", "NCDHW", NULL};
    int word = 0;

    onnx_word(im, "data_format", words, &word);
    return word == 0;
}

/* Three numbers of an attribute of five. */
static void volume_ints(struct onnx_import *im, const char *name, bool last,
                        int *out)
{
    int64_t value[5] = {0};
    int n = -1;

    onnx_ints(im, name, 5, value, &n);
    if (im->rc < 0 || n < 0)
        return;
    if (n != 5 || value[0] != 1 || value[last ? 4 : 1] != 1) {
        onnx_fail(im, INFER_EUNSUPPORTED,
                  "attribute '%s' is not 5 numbers with 1 for batch and "
                  "channels",
                  name);
        return;
    }
    for (int d = 0; d < 3; d++) {
        const int64_t v = value[d + (last ? 1 : 2)];

        if (v < 1 || v > INT32_MAX)
            onnx_fail(im, INFER_EFORMAT, "attribute '%s' is %lld", name,
                      (long long)v);
        else
            out[d] = (int)v;
    }
}

static enum graph_auto_pad padding(struct onnx_import *im)
{
    static const char *const words[] = {"VALID", "SAME", NULL};
    int word = -1;

    onnx_word(im, "padding", words, &word);
    if (im->rc == 0 && word < 0)
        onnx_fail(im, INFER_EFORMAT, "attribute 'padding' is missing");
    return word == 1 ? GRAPH_PAD_SAME_UPPER : GRAPH_PAD_VALID;
}

static int planes(struct onnx_import *im, int x, bool last)
{
    compose_need_rank(im, x, 5, 5);
    return last ? compose_transpose(im, x, 5, to_planes) : x;
}

static int give(struct onnx_import *im, enum graph_op op,
                const union graph_attr *attr, const int *in, int n, bool last)
{
    int y = -1;

    onnx_emit(im, op, attr, in, n, -1, &y);
    return compose_output(im, 0,
                          last ? compose_transpose(im, y, 5, from_planes) : y);
}

int tf_conv_volume(struct onnx_import *im)
{
    static const int64_t order[5] = {4, 3, 0, 1, 2};
    const bool last = channels_last(im);
    union graph_attr attr;
    int64_t channels, own;
    int in[2];

    onnx_arity(im, 2, 2);
    onnx_defaults(GRAPH_CONV, &attr);
    volume_ints(im, "strides", last, attr.conv.conv.stride);
    volume_ints(im, "dilations", last, attr.conv.conv.dilation);
    attr.conv.auto_pad = padding(im);
    in[0] = planes(im, compose_input(im, 0), last);
    in[1] = compose_input(im, 1);
    compose_need_rank(im, in[1], 5, 5);
    channels = compose_dim(im, in[0], 1);
    own = compose_dim(im, in[1], 3);
    if (im->rc == 0 && (own < 1 || channels % own))
        return onnx_fail(im, INFER_EFORMAT,
                         "%lld channels, but the filter has %lld",
                         (long long)channels, (long long)own);
    attr.conv.conv.groups = (int)(channels / own);
    in[1] = compose_transpose(im, in[1], 5, order);
    return give(im, GRAPH_CONV, &attr, in, 2, last);
}

/* Pads of the convolution whose gradient this is; what it leaves out at the
 * end is output_pad. */
static void transposed_edge(struct onnx_import *im, struct graph_conv *c, int d,
                            int64_t in, int64_t out, int64_t window)
{
    const int64_t stride = c->conv.stride[d];
    const int64_t reach = (window - 1) * c->conv.dilation[d] + 1;
    const int64_t total = stride * (in - 1) + reach - out;
    const bool same = c->auto_pad == GRAPH_PAD_SAME_UPPER;
    const int64_t due =
        same ? (out + stride - 1) / stride : (out - reach + stride) / stride;

    if (im->rc == 0 && (out < 1 || out > INT32_MAX || in != due))
        onnx_fail(im, INFER_EFORMAT,
                  "input_sizes gives %lld, which does not belong to an input "
                  "of %lld",
                  (long long)out, (long long)in);
    if (im->rc < 0)
        return;
    if (same && total > 0) {
        c->conv.pad_begin[d] = (int)(total / 2);
        c->conv.pad_end[d] = (int)(total - total / 2);
    }
    c->output_pad[d] = total < 0 ? (int)-total : 0;
}

/* Inputs: input_sizes, filter D,R,S,K,C, out_backprop. */
int tf_conv_volume_transpose(struct onnx_import *im)
{
    static const int64_t order[5] = {4, 3, 0, 1, 2};
    const bool last = channels_last(im);
    int64_t size[ONNX_PROBES][INFER_MAX_RANK];
    union graph_attr attr;
    int in[2], n = -1;

    onnx_arity(im, 3, 3);
    onnx_defaults(GRAPH_CONV_TRANSPOSE, &attr);
    volume_ints(im, "strides", last, attr.conv.conv.stride);
    volume_ints(im, "dilations", last, attr.conv.conv.dilation);
    attr.conv.auto_pad = padding(im);
    in[0] = planes(im, compose_input(im, 2), last);
    in[1] = compose_input(im, 1);
    compose_need_rank(im, in[1], 5, 5);
    onnx_input_lists(im, 0, "input_sizes", size, &n);
    if (im->rc == 0 && n != 5)
        return onnx_fail(im, INFER_EFORMAT, "input_sizes has %d entries", n);
    for (int d = 0; d < 3 && im->rc == 0; d++)
        transposed_edge(im, &attr.conv, d, compose_dim(im, in[0], 2 + d),
                        size[0][d + (last ? 1 : 2)], compose_dim(im, in[1], d));
    attr.conv.auto_pad = GRAPH_PAD_EXPLICIT;
    in[1] = compose_transpose(im, in[1], 5, order);
    return give(im, GRAPH_CONV_TRANSPOSE, &attr, in, 2, last);
}

int tf_pool_volume(struct onnx_import *im)
{
    const bool last = channels_last(im);
    union graph_attr attr;
    int in;

    onnx_arity(im, 1, 1);
    onnx_defaults(GRAPH_POOL, &attr);
    attr.pool.pool.kind = (enum kern_pool_kind)tf_row(im)->param;
    volume_ints(im, "ksize", last, attr.pool.pool.window);
    volume_ints(im, "strides", last, attr.pool.pool.stride);
    attr.pool.auto_pad = padding(im);
    in = planes(im, compose_input(im, 0), last);
    return give(im, GRAPH_POOL, &attr, &in, 1, last);
}
