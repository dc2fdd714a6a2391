/* SPDX-License-Identifier: Apache-2.0 */
/* What the fuzz targets of networks in two files share. */
#ifndef TESTS_FUZZ_LAYERS_H
#define TESTS_FUZZ_LAYERS_H

#include "tests/fuzz/fuzz.h"

typedef int fuzz_reader(const struct weights_file *net,
                        const struct weights_file *weights,
                        const struct weights_options *options,
                        struct infer_error *err, struct weights_import *out);

/* Reads the bytes before the first NUL as the network and those after it as its
 * weights; without a NUL, a network alone.  Aborts where the graph is not
 * whole. */
static inline void fuzz_layers(const struct weights_format *format,
                               fuzz_reader *reader, const uint8_t *data,
                               size_t size)
{
    const uint8_t *nul = size > 0 ? memchr(data, 0, size) : NULL;
    const size_t text = nul ? (size_t)(nul - data) : size;
    struct weights_file whole = {"fuzz", fuzz_blob(data, size)};
    struct weights_file net = {"fuzz", fuzz_blob(data, text)};
    struct weights_file weights = {NULL, NULL};
    struct weights_options options;
    struct weights_import import;
    struct infer_error err;

    if (nul) {
        weights.path = "fuzz";
        weights.blob = fuzz_blob(nul + 1, size - text - 1);
    }
    weights_options_init(&options);
    weights_import_init(&import);
    if (whole.blob && net.blob && (!nul || weights.blob)) {
        format->probe(&whole);
        if (fuzz_tell(
                reader(&net, nul ? &weights : NULL, &options, &err, &import),
                &err, 0) == 0 &&
            (graph_sort(import.graph, &err) < 0 ||
             graph_infer_shapes(import.graph, NULL, &err) < 0 ||
             (nul && graph_validate(import.graph, &err) < 0)))
            abort();
    }
    weights_import_clear(&import);
    weights_file_close(&whole);
    weights_file_close(&net);
    if (weights.blob)
        weights_file_close(&weights);
}

#endif
