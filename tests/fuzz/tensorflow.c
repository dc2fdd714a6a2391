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

    if (blob &&
        fuzz_tell(tf_bundle_parse(blob, "fuzz/none", &err, &b), &err, 0) == 0)
        tf_bundle_close(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0 && data[0] == 'I')
        read_index(data + 1, size - 1);
    else
        fuzz_graph(&weights_format_tensorflow, data, size);
    return 0;
}
