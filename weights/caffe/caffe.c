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
    static const struct layers_pair pair = {".prototxt", ".caffemodel",
                                            caffe_read};

    return layers_read_pair(&pair, file, is_text(file), options, err, out);
}

const struct weights_format weights_format_caffe = {
    .name = "caffe",
    .description = "Caffe: .prototxt and .caffemodel",
    .probe = probe,
    .is_network = is_text,
    .read = read_file,
};
