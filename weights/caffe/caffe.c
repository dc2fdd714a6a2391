/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Caffe: the format row.
 *
 *   NAME.prototxt      the network, protobuf's text format
 *   NAME.caffemodel    the weights, binary protobuf
 *
 * Either is given, and the other is read from beside it, by the same stem; or
 * the .caffemodel with the .prototxt as its architecture.  A network alone
 * gives a graph without data.
 */
#include "kernels/base/error.h"
#include "weights/caffe/caffe.h"

static bool is_text(const struct weights_file *file)
{
    return caffe_text_probe(file->blob->data, file->blob->bytes);
}

static int probe(const struct weights_file *file)
{
    return is_text(file) ? 80 : caffe_weights_probe(file->blob);
}

static int read_file(struct weights_file *file,
                     const struct weights_options *options,
                     struct infer_error *err, struct weights_import *out)
{
    struct weights_file other = {0};
    int rc;

    if (is_text(file)) {
        rc = layers_read_beside(file->path, ".caffemodel", out, err, &other);
        if (rc >= 0)
            rc = caffe_read(file, rc > 0 ? &other : NULL, options, err, out);
    } else {
        rc = layers_read_arch(options, out, err, &other);
        if (rc == 0)
            rc = layers_read_beside(file->path, ".prototxt", out, err, &other);
        if (rc == 0)
            rc = error_set(err, INFER_EUNSUPPORTED,
                           "weights without their network: put the .prototxt "
                           "beside them, by the same name, or name it with "
                           "--arch");
        else if (rc > 0)
            rc = caffe_read(&other, file, options, err, out);
    }
    weights_file_close(&other);
    return rc;
}

const struct weights_format weights_format_caffe = {
    .name = "caffe",
    .description = "Caffe: .prototxt and .caffemodel",
    .probe = probe,
    .read = read_file,
};
