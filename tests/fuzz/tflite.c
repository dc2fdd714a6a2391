/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: TensorFlow Lite files.  The graph that comes out must hold
 * together. */
#include "tests/fuzz/fuzz.h"

extern const struct weights_format weights_format_tflite;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weights_file file = {"fuzz", fuzz_blob(data, size)};
    struct weights_options options;
    struct weights_import import;
    struct infer_error err;

    if (!file.blob)
        return 0;
    weights_options_init(&options);
    weights_import_init(&import);
    weights_format_tflite.probe(&file);
    /* A graph that the reader accepts has known shapes throughout. */
    if (weights_format_tflite.read(&file, &options, &err, &import) == 0 &&
        (graph_infer_shapes(import.graph, NULL, &err) < 0 ||
         graph_validate(import.graph, &err) < 0))
        abort();
    weights_import_clear(&import);
    weights_file_close(&file);
    return 0;
}
