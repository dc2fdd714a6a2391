/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions.  Filters lie as R,S,C,K. */
#include <string.h>

#include "kernels/base/error.h"
#include "weights/tensorflow/tensorflow.h"

/* ---- filters ------------------------------------------------------- */

/* The constant of value `own` with its axes in another order; NULL where it is
 * none.  One that was not needed so far is not kept in the order of the file as
 * well. */
static struct constant *filter_transposed(struct onnx_import *im, int own,
                                          int i, const int *perm)
{
    const struct tf_import *tf = im->context;
    struct onnx_value *v = &im->value[own];
    struct constant *c = NULL, *made = NULL;

    /* Its type was asked for: it can be loaded again. */
    if (v->state == ONNX_CONSTANT && v->graph < 0 && v->tensor.bytes > 0 &&
        weights_kept_has(&tf->kept, v->tensor.data)) {
        constant_unref(v->constant);
        v->constant = NULL;
        v->state = ONNX_LAZY;
    }
    if (v->state == ONNX_LAZY) {
        tf_load_transposed(im, v->tensor, 4, perm, &made);
        return made;
    }
    onnx_input_constant(im, i, &c);
    if (!c)
        return NULL;
    if (c->rank != 4) {
        onnx_fail(im, INFER_EFORMAT, "a filter of rank %d, expected 4",
                  c->rank);
        return NULL;
    }
    made = constant_transpose(c, perm);
    if (!made)
        onnx_no_memory(im);
    return made;
}

/* A constant filter in another order of its axes, made once for all readers
 * under a name of its own: its value, or -1 where input i is no constant. */
static int transposed_filter(struct onnx_import *im, int i,
                             const int64_t *order, const char *word)
{
    const struct pb_span filter = im->node->in[i];
    const int own = onnx_value_find(im, filter);
    int perm[4] = {(int)order[0], (int)order[1], (int)order[2], (int)order[3]};
    struct constant *transposed;
    struct pb_span name;
    int v;

    name.bytes = filter.bytes + 1 + strlen(word);
    name.data = onnx_alloc(&im->keep, name.bytes);
    if (!name.data || own < 0)
        return onnx_no_memory(im);
    memcpy(name.data, filter.data, filter.bytes);
    name.data[filter.bytes] = ':';
    memcpy(name.data + filter.bytes + 1, word, strlen(word));
    v = onnx_value_find(im, name);
    if (v >= 0)
        return v;
    transposed = filter_transposed(im, own, i, perm);
    if (!transposed)
        return -1;
    if (onnx_value_get(im, name, &v) < 0) {
        constant_unref(transposed);
        return -1;
    }
    im->value[v].constant = transposed;
    im->value[v].state = ONNX_CONSTANT;
    return v;
}

/* Input i with its axes in another order. */
static int get_filter(struct onnx_import *im, int i, const int64_t *order,
                      const char *word, int *out)
{
    int v;

    if (im->rc < 0)
        return im->rc;
    v = transposed_filter(im, i, order, word);
    if (im->rc == 0 && v >= 0)
        return onnx_value_graph(im, v, out);
    if (onnx_input(im, i, out) < 0)
        return im->rc;
    im->emitted++;
    return onnx_emit_dims(im, GRAPH_TRANSPOSE, *out, 4, order, -1, out);
}

/* ---- attributes ---------------------------------------------------- */

static int conv_attributes(struct onnx_import *im, bool channels_first,
                           struct graph_conv *conv)
{
    tf_window_ints(im, "strides", channels_first, conv->conv.stride);
    tf_window_ints(im, "dilations", channels_first, conv->conv.dilation);
    return tf_padding(im, channels_first, &conv->auto_pad, conv->conv.pad_begin,
                      conv->conv.pad_end);
}

/* Types of the picture (input `x`) and the filter; the number of channels. */
static int conv_types(struct onnx_import *im, int x, bool channels_first,
                      struct graph_type *filter, int64_t *channels)
{
    struct graph_type picture;

    onnx_input_type(im, x, 0, &picture);
    if (onnx_input_type(im, 1, 0, filter) < 0)
        return im->rc;
    if (picture.rank != 4 || filter->rank != 4)
        return onnx_fail(im, INFER_EFORMAT,
                         "a picture of rank %d and a filter of rank %d, "
                         "expected 4",
                         picture.rank, filter->rank);
    for (int d = 0; d < 4; d++)
        if (filter->dim[d] < 1 || filter->dim[d] > INT32_MAX)
            return onnx_fail(im, INFER_EFORMAT,
                             "a filter with a dimension "
                             "of %lld",
                             (long long)filter->dim[d]);
    *channels = picture.dim[channels_first ? 1 : 3];
    return 0;
}

static int wrong_channels(struct onnx_import *im, int64_t channels,
                          int64_t filter)
{
    return onnx_fail(im, INFER_EFORMAT,
                     "%lld channels, but the filter has %lld",
                     (long long)channels, (long long)filter);
}

/* ---- operators ----------------------------------------------------- */

int tf_conv(struct onnx_import *im)
{
    static const int64_t order[4] = {3, 2, 0, 1};
    const bool first = tf_channels_first(im);
    struct graph_type w;
    union graph_attr attr;
    int64_t channels;
    int in[2];

    onnx_arity(im, 2, 2);
    onnx_defaults(GRAPH_CONV, &attr);
    conv_attributes(im, first, &attr.conv);
    tf_take_dilation(im, attr.conv.conv.dilation);
    if (conv_types(im, 0, first, &w, &channels) < 0)
        return im->rc;
    if (channels % w.dim[2] != 0 || channels / w.dim[2] > INT32_MAX)
        return wrong_channels(im, channels, w.dim[2]);
    attr.conv.conv.groups = (int)(channels / w.dim[2]);
    tf_picture(im, 0, first, &in[0]);
    get_filter(im, 1, order, "kcrs", &in[1]);
    return tf_emit_picture(im, GRAPH_CONV, &attr, in, 2, first);
}

/* A filter R,S,C,M makes M channels of each: output channel c M + m. */
int tf_depthwise(struct onnx_import *im)
{
    static const int64_t order[4] = {2, 3, 0, 1};
    const bool first = tf_channels_first(im);
    struct graph_type w;
    union graph_attr attr;
    int64_t channels, shape[4];
    int in[2];

    onnx_arity(im, 2, 2);
    onnx_defaults(GRAPH_CONV, &attr);
    conv_attributes(im, first, &attr.conv);
    tf_take_dilation(im, attr.conv.conv.dilation);
    if (conv_types(im, 0, first, &w, &channels) < 0)
        return im->rc;
    if (channels != w.dim[2])
        return wrong_channels(im, channels, w.dim[2]);
    attr.conv.conv.groups = (int)w.dim[2];
    shape[0] = w.dim[2] * w.dim[3];
    shape[1] = 1;
    shape[2] = w.dim[0];
    shape[3] = w.dim[1];
    tf_picture(im, 0, first, &in[0]);
    if (get_filter(im, 1, order, "cmrs", &in[1]) < 0)
        return im->rc;
    onnx_emit_dims(im, GRAPH_RESHAPE, in[1], 4, shape, -1, &in[1]);
    return tf_emit_picture(im, GRAPH_CONV, &attr, in, 2, first);
}

/* ---- transposed ---------------------------------------------------- */

/* Pads of one dimension: the convolution of which this is the gradient takes
 * `out` elements to `in`.  Below 0: elements at the end that it leaves out. */
static int transposed_pad(struct onnx_import *im, int64_t in, int64_t out,
                          int64_t window, const struct graph_conv *conv, int d,
                          int64_t *total)
{
    const int64_t stride = conv->conv.stride[d];
    const int64_t reach = (window - 1) * conv->conv.dilation[d] + 1;
    int64_t pads = 0, expected;

    if (out < 1 || out > INT32_MAX)
        return onnx_fail(im, INFER_EFORMAT, "input_sizes gives %lld",
                         (long long)out);
    if (conv->auto_pad == GRAPH_PAD_EXPLICIT)
        pads = (int64_t)conv->conv.pad_begin[d] + conv->conv.pad_end[d];
    expected = conv->auto_pad == GRAPH_PAD_SAME_UPPER
                   ? (out + stride - 1) / stride
                   : (out + pads - reach + stride) / stride;
    if (in == expected)
        *total = stride * (in - 1) + reach - out - pads;
    /* More than -stride. */
    if (in != expected || *total > INT32_MAX)
        return onnx_fail(im, INFER_EFORMAT,
                         "input_sizes gives %lld, which does not belong to an "
                         "input of %lld",
                         (long long)out, (long long)in);
    return 0;
}

/* Filters of fewer channels than input_sizes gives are those of groups, as in
 * tf_conv(). */
static int transposed_groups(struct onnx_import *im, int64_t channels,
                             const struct graph_type *w,
                             struct graph_conv *conv)
{
    if (channels < 1 || channels % w->dim[2] != 0 ||
        channels / w->dim[2] > INT32_MAX)
        return onnx_fail(im, INFER_EFORMAT,
                         "input_sizes gives %lld channels, the filter %lld",
                         (long long)channels, (long long)w->dim[2]);
    conv->conv.groups = (int)(channels / w->dim[2]);
    return 0;
}

/* The pads must be the same at all probes. */
static int transposed_pads(struct onnx_import *im, bool first,
                           const struct graph_type *w, struct graph_conv *conv)
{
    int64_t size[ONNX_PROBES][INFER_MAX_RANK], total[2] = {0, 0}, here = 0;
    const int space = tf_space(first);
    int n = -1;

    if (onnx_input_lists(im, 0, "input_sizes", size, &n) < 0)
        return im->rc;
    if (n != 4 && n != 2)
        return onnx_fail(im, INFER_EFORMAT,
                         "input_sizes must be 2 or 4 integers");
    for (int p = 0; p < im->probes; p++) {
        struct graph_type x;

        onnx_input_type(im, 2, p, &x);
        if (n == 4)
            transposed_groups(im, size[p][first ? 1 : 3], w, conv);
        for (int d = 0; d < 2 && im->rc == 0; d++) {
            transposed_pad(im, x.dim[space + d],
                           size[p][n == 2 ? d : space + d], w->dim[d], conv, d,
                           &here);
            if (p > 0 && here != total[d])
                onnx_fail(im, INFER_EUNSUPPORTED,
                          "pads that depend on a free dimension; "
                          "--input-shape fixes it");
            total[d] = here;
        }
    }
    for (int d = 0; d < 2; d++) {
        if (conv->auto_pad != GRAPH_PAD_EXPLICIT && total[d] > 0) {
            conv->conv.pad_begin[d] = (int)(total[d] / 2);
            conv->conv.pad_end[d] = (int)(total[d] - total[d] / 2);
        }
        conv->output_pad[d] = total[d] < 0 ? (int)-total[d] : 0;
    }
    conv->auto_pad = GRAPH_PAD_EXPLICIT;
    return im->rc;
}

/* Inputs: input_sizes, filter R,S,K,C, out_backprop. */
int tf_conv_transpose(struct onnx_import *im)
{
    static const int64_t order[4] = {3, 2, 0, 1};
    const bool first = tf_channels_first(im);
    struct graph_type w;
    union graph_attr attr;
    int64_t channels;
    int in[2];

    onnx_arity(im, 3, 3);
    onnx_defaults(GRAPH_CONV_TRANSPOSE, &attr);
    conv_attributes(im, first, &attr.conv);
    if (conv_types(im, 2, first, &w, &channels) < 0)
        return im->rc;
    if (channels != w.dim[3])
        return wrong_channels(im, channels, w.dim[3]);
    transposed_pads(im, first, &w, &attr.conv);
    tf_picture(im, 2, first, &in[0]);
    get_filter(im, 1, order, "ckrs", &in[1]);
    return tf_emit_picture(im, GRAPH_CONV_TRANSPOSE, &attr, in, 2, first);
}
