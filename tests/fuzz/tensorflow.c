/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: TensorFlow graphs, and the index of a SavedModel's variables
 * (a file that begins with 'I').  The graph that comes out must hold
 * together. */
#include "tests/fuzz/fuzz.h"
#include "weights/tensorflow/bundle.h"

extern const struct weights_format weights_format_tensorflow;

static void read_index(const uint8_t *data, size_t size)
{
    struct blob *blob = fuzz_blob(data, size);
    struct infer_error err;
    struct tf_bundle b;

    if (blob && tf_bundle_parse(blob, "fuzz/none", &err, &b) == 0)
        tf_bundle_close(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weights_file file = {"fuzz/none", NULL};
    struct weights_options options;
    struct weights_import import;
    struct infer_error err;

    if (size > 0 && data[0] == 'I') {
        read_index(data + 1, size - 1);
        return 0;
    }
    file.blob = fuzz_blob(data, size);
    if (!file.blob)
        return 0;
    weights_options_init(&options);
    weights_import_init(&import);
    weights_format_tensorflow.probe(&file);
    /* A graph that the reader accepts has known shapes throughout. */
    if (weights_format_tensorflow.read(&file, &options, &err, &import) == 0 &&
        (graph_infer_shapes(import.graph, NULL, &err) < 0 ||
         graph_validate(import.graph, &err) < 0))
        abort();
    weights_import_clear(&import);
    weights_file_close(&file);
    return 0;
}
