/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX convolutions.  Pads come as all begins, then all ends. */
#include <limits.h>
#include <string.h>

#include "kernels/base/error.h"
#include "weights/onnx/onnx.h"
#include "weights/onnx/window.h"

/* The spatial rank of a window operation on input 0. */
int onnx_spatial_rank(struct onnx_import *im, int *out, struct infer_error *err)
{
    struct graph_type t;
    int rc = onnx_input_type(im, 0, 0, &t, err);

    if (rc < 0)
        return rc;
    if (t.rank < 3 || t.rank > 2 + KERN_MAX_SPATIAL)
        return error_set(err, INFER_EUNSUPPORTED,
                         "an input of rank %d; 3 to %d are supported", t.rank,
                         2 + KERN_MAX_SPATIAL);
    *out = t.rank - 2;
    return 0;
}

int onnx_spatial_ints(struct onnx_import *im, const char *name, int spatial,
                      int64_t min, int *out, struct infer_error *err)
{
    int64_t value[KERN_MAX_SPATIAL];
    int i, n = -1;
    int rc = onnx_ints(im, name, KERN_MAX_SPATIAL, value, &n, err);

    if (rc < 0 || n < 0)
        return rc;
    if (n != spatial)
        return error_set(err, INFER_EFORMAT,
                         "attribute '%s' has %d entries, expected %d", name, n,
                         spatial);
    for (i = 0; i < n; i++) {
        if (value[i] < min || value[i] > INT32_MAX)
            return error_set(err, INFER_EFORMAT, "attribute '%s' is %lld", name,
                             (long long)value[i]);
        out[i] = (int)value[i];
    }
    return 0;
}

int onnx_pads(struct onnx_import *im, int spatial,
              enum graph_auto_pad *auto_pad, int *begin, int *end,
              struct infer_error *err)
{
    static const char *const words[] = {"NOTSET", "SAME_UPPER", "SAME_LOWER",
                                        "VALID", NULL};
    int64_t pad[2 * KERN_MAX_SPATIAL];
    int word = 0, n = -1, i;
    int rc = onnx_word(im, "auto_pad", words, &word, err);

    if (rc == 0)
        rc = onnx_ints(im, "pads", 2 * KERN_MAX_SPATIAL, pad, &n, err);
    if (rc < 0)
        return rc;
    *auto_pad = (enum graph_auto_pad)word;
    if (n < 0)
        return 0;
    if (n != 2 * spatial)
        return error_set(err, INFER_EFORMAT,
                         "attribute 'pads' has %d entries, expected %d", n,
                         2 * spatial);
    for (i = 0; i < n; i++) {
        if (pad[i] < INT32_MIN || pad[i] > INT32_MAX)
            return error_set(err, INFER_EFORMAT, "attribute 'pads' is %lld",
                             (long long)pad[i]);
        /* Some writers give pads of 0 in addition to auto_pad. */
        if (word != 0 && pad[i] != 0)
            return error_set(err, INFER_EFORMAT,
                             "both 'pads' and 'auto_pad' are given");
        if (i < spatial)
            begin[i] = (int)pad[i];
        else
            end[i - spatial] = (int)pad[i];
    }
    return 0;
}

/* kernel_shape only repeats what the weight says. */
static int check_kernel_shape(struct onnx_import *im, int spatial,
                              struct infer_error *err)
{
    int window[KERN_MAX_SPATIAL] = {0};
    struct graph_type w;
    int i, rc = onnx_input_type(im, 1, 0, &w, err);

    if (rc == 0)
        rc = onnx_spatial_ints(im, "kernel_shape", spatial, 1, window, err);
    if (rc < 0)
        return rc;
    if (w.rank != spatial + 2)
        return error_set(err, INFER_EFORMAT,
                         "the weight has rank %d, the input %d", w.rank,
                         spatial + 2);
    for (i = 0; i < spatial; i++)
        if (window[i] != 0 && window[i] != w.dim[i + 2])
            return error_set(err, INFER_EFORMAT,
                             "kernel_shape says %d, the weight %lld", window[i],
                             (long long)w.dim[i + 2]);
    return 0;
}

static int conv_attributes(struct onnx_import *im, int spatial,
                           struct graph_conv *conv, struct infer_error *err)
{
    int64_t groups = 1;
    int rc = onnx_int(im, "group", 1, INT32_MAX, &groups, err);

    if (rc == 0)
        rc = check_kernel_shape(im, spatial, err);
    if (rc == 0)
        rc = onnx_spatial_ints(im, "strides", spatial, 1, conv->conv.stride,
                               err);
    if (rc == 0)
        rc = onnx_spatial_ints(im, "dilations", spatial, 1, conv->conv.dilation,
                               err);
    if (rc == 0)
        rc = onnx_pads(im, spatial, &conv->auto_pad, conv->conv.pad_begin,
                       conv->conv.pad_end, err);
    conv->conv.groups = (int)groups;
    return rc;
}

/* What only the transposed form has. */
static int transpose_attributes(struct onnx_import *im, int spatial,
                                struct graph_conv *conv,
                                struct infer_error *err)
{
    int64_t size[INFER_MAX_RANK];
    int i, n = 0;
    int rc = onnx_spatial_ints(im, "output_padding", spatial, 0,
                               conv->output_pad, err);

    if (rc == 0)
        rc = onnx_ints(im, "output_shape", INFER_MAX_RANK, size, &n, err);
    if (rc < 0 || n == 0)
        return rc;
    /* Old writers give N and K too. */
    if (n != spatial && n != spatial + 2)
        return error_set(err, INFER_EFORMAT,
                         "attribute 'output_shape' has %d entries, expected %d",
                         n, spatial);
    for (i = 0; i < spatial; i++) {
        if (size[n - spatial + i] < 1)
            return error_set(err, INFER_EFORMAT,
                             "attribute 'output_shape' is %lld",
                             (long long)size[n - spatial + i]);
        conv->output_size[i] = size[n - spatial + i];
    }
    return 0;
}

int onnx_import_conv(struct onnx_import *im, int transposed,
                     struct infer_error *err)
{
    enum graph_op op = transposed ? GRAPH_CONV_TRANSPOSE : GRAPH_CONV;
    union graph_attr attr;
    int in[3], i, spatial = 0;
    int rc = onnx_arity(im, 2, 3, err);

    onnx_defaults(op, &attr);
    if (rc == 0)
        rc = onnx_spatial_rank(im, &spatial, err);
    if (rc == 0)
        rc = conv_attributes(im, spatial, &attr.conv, err);
    if (rc == 0 && transposed)
        rc = transpose_attributes(im, spatial, &attr.conv, err);
    for (i = 0; i < 3 && rc == 0; i++)
        rc = onnx_input(im, i, &in[i], err);
    if (rc < 0)
        return rc;
    return onnx_emit(im, op, &attr, in, in[2] < 0 ? 2 : 3, 0, NULL, err);
}
