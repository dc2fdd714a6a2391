/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX convolutions.  Pads come as all begins, then all ends. */
#include <limits.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "weights/onnx/onnx.h"
#include "weights/onnx/window.h"

/* The spatial rank of a window operation on input 0. */
int onnx_spatial_rank(struct onnx_import *im, int *out)
{
    struct graph_type t;

    if (onnx_input_type(im, 0, 0, &t) < 0)
        return im->rc;
    if (t.rank < 3 || t.rank > 2 + KERN_MAX_SPATIAL)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "an input of rank %d; 3 to %d are supported", t.rank,
                         2 + KERN_MAX_SPATIAL);
    *out = t.rank - 2;
    return 0;
}

int onnx_spatial_ints(struct onnx_import *im, const char *name, int spatial,
                      int64_t min, int *out)
{
    int64_t value[KERN_MAX_SPATIAL];
    int i, n = -1;

    onnx_ints(im, name, KERN_MAX_SPATIAL, value, &n);
    if (im->rc < 0 || n < 0)
        return im->rc;
    if (n != spatial)
        return onnx_fail(im, INFER_EFORMAT,
                         "attribute '%s' has %d entries, expected %d", name, n,
                         spatial);
    for (i = 0; i < n; i++) {
        if (value[i] < min || value[i] > INT32_MAX)
            return onnx_fail(im, INFER_EFORMAT, "attribute '%s' is %lld", name,
                             (long long)value[i]);
        out[i] = (int)value[i];
    }
    return 0;
}

int onnx_pads(struct onnx_import *im, int spatial,
              enum graph_auto_pad *auto_pad, int *begin, int *end)
{
    static const char *const words[] = {"NOTSET", "SAME_UPPER", "SAME_LOWER",
                                        "VALID", NULL};
    int64_t pad[2 * KERN_MAX_SPATIAL];
    int word = 0, n = -1, i;

    onnx_word(im, "auto_pad", words, &word);
    if (onnx_ints(im, "pads", 2 * KERN_MAX_SPATIAL, pad, &n) < 0)
        return im->rc;
    *auto_pad = (enum graph_auto_pad)word;
    if (n < 0)
        return 0;
    if (n != 2 * spatial)
        return onnx_fail(im, INFER_EFORMAT,
                         "attribute 'pads' has %d entries, expected %d", n,
                         2 * spatial);
    for (i = 0; i < n; i++) {
        if (pad[i] < INT32_MIN || pad[i] > INT32_MAX)
            return onnx_fail(im, INFER_EFORMAT, "attribute 'pads' is %lld",
                             (long long)pad[i]);
        /* Some writers give pads of 0 in addition to auto_pad. */
        if (word != 0 && pad[i] != 0)
            return onnx_fail(im, INFER_EFORMAT,
                             "both 'pads' and 'auto_pad' are given");
        if (i < spatial)
            begin[i] = (int)pad[i];
        else
            end[i - spatial] = (int)pad[i];
    }
    return 0;
}

/* kernel_shape only repeats what the weight says. */
static int check_kernel_shape(struct onnx_import *im, int spatial, int weight)
{
    int window[KERN_MAX_SPATIAL] = {0};
    struct graph_type w;
    int i;

    onnx_input_type(im, weight, 0, &w);
    if (onnx_spatial_ints(im, "kernel_shape", spatial, 1, window) < 0)
        return im->rc;
    if (w.rank != spatial + 2)
        return onnx_fail(im, INFER_EFORMAT,
                         "the weight has rank %d, the input %d", w.rank,
                         spatial + 2);
    for (i = 0; i < spatial; i++)
        if (window[i] != 0 && window[i] != w.dim[i + 2])
            return onnx_fail(im, INFER_EFORMAT,
                             "kernel_shape says %d, the weight %lld", window[i],
                             (long long)w.dim[i + 2]);
    return 0;
}

int onnx_conv_attributes(struct onnx_import *im, int spatial, int weight,
                         struct graph_conv *conv)
{
    int64_t groups = 1;

    onnx_int(im, "group", 1, INT32_MAX, &groups);
    check_kernel_shape(im, spatial, weight);
    onnx_spatial_ints(im, "strides", spatial, 1, conv->conv.stride);
    onnx_spatial_ints(im, "dilations", spatial, 1, conv->conv.dilation);
    onnx_pads(im, spatial, &conv->auto_pad, conv->conv.pad_begin,
              conv->conv.pad_end);
    conv->conv.groups = (int)groups;
    return im->rc;
}

/* The size of a dimension of a transposed convolution: the convolution of which
 * this is the gradient takes it, with some pads, to the input's. */
static int check_output_size(struct onnx_import *im, int d, int64_t size,
                             const struct graph_conv *conv)
{
    const int64_t stride = conv->conv.stride[d];
    const int64_t more = conv->output_pad[d] < stride
                             ? stride - 1
                             : (int64_t)conv->output_pad[d];

    for (int p = 0; p < im->probes; p++) {
        struct graph_type x, w;
        int64_t reach, full;

        onnx_input_type(im, 0, p, &x);
        if (onnx_input_type(im, 1, p, &w) < 0)
            return im->rc;
        if (!checked_mul_i64(x.dim[2 + d] - 1, stride, &full) ||
            !checked_mul_i64(w.dim[2 + d] - 1, conv->conv.dilation[d],
                             &reach) ||
            !checked_add_i64(full, reach, &full) ||
            (full >= 0 && size - 1 - full > more))
            return onnx_fail(im, INFER_EFORMAT,
                             "attribute 'output_shape' is %lld, which no pads "
                             "give from an input of %lld",
                             (long long)size, (long long)x.dim[2 + d]);
    }
    return 0;
}

/* What only the transposed form has. */
static int transpose_attributes(struct onnx_import *im, int spatial,
                                struct graph_conv *conv)
{
    int64_t size[INFER_MAX_RANK];
    int i, n = 0;

    onnx_spatial_ints(im, "output_padding", spatial, 0, conv->output_pad);
    onnx_ints(im, "output_shape", INFER_MAX_RANK, size, &n);
    for (i = 0; i < spatial && im->rc == 0; i++)
        if (conv->output_pad[i] >= conv->conv.stride[i] &&
            conv->output_pad[i] >= conv->conv.dilation[i])
            return onnx_fail(im, INFER_EFORMAT,
                             "attribute 'output_padding' is %d with stride %d "
                             "and dilation %d",
                             conv->output_pad[i], conv->conv.stride[i],
                             conv->conv.dilation[i]);
    if (im->rc < 0 || n == 0)
        return im->rc;
    /* Old writers give N and K too. */
    if (n != spatial && n != spatial + 2)
        return onnx_fail(im, INFER_EFORMAT,
                         "attribute 'output_shape' has %d entries, expected %d",
                         n, spatial);
    for (i = 0; i < spatial; i++) {
        if (size[n - spatial + i] < 1)
            return onnx_fail(im, INFER_EFORMAT,
                             "attribute 'output_shape' is %lld",
                             (long long)size[n - spatial + i]);
        conv->output_size[i] = size[n - spatial + i];
        if (check_output_size(im, i, conv->output_size[i], conv) < 0)
            return im->rc;
    }
    return 0;
}

int onnx_import_conv(struct onnx_import *im)
{
    enum graph_op op = im->param ? GRAPH_CONV_TRANSPOSE : GRAPH_CONV;
    union graph_attr attr;
    int spatial = 0;

    onnx_arity(im, 2, 3);
    onnx_defaults(op, &attr);
    onnx_spatial_rank(im, &spatial);
    onnx_conv_attributes(im, spatial, 1, &attr.conv);
    if (op == GRAPH_CONV_TRANSPOSE)
        transpose_attributes(im, spatial, &attr.conv);
    return onnx_emit_node(im, op, &attr, 3);
}
