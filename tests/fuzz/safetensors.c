/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: safetensors files. */
#include "tests/fuzz/fuzz.h"

extern const struct weights_format weights_format_safetensors;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_read(&weights_format_safetensors, data, size);
    return 0;
}
