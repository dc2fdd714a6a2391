/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: safetensors files, and indexes of files, which are JSON. */
#include "tests/fuzz/fuzz.h"

extern const struct weights_format weights_format_safetensors;
extern const struct weights_format weights_format_shards;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weights_file file = {"fuzz", fuzz_blob(data, size)};

    if (file.blob)
        fuzz_read(weights_format_shards.probe(&file) > 0
                      ? &weights_format_shards
                      : &weights_format_safetensors,
                  data, size);
    weights_file_close(&file);
    return 0;
}
