/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: .npy and .npz files. */
#include "tests/fuzz/fuzz.h"

extern const struct weights_format weights_format_npz;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_read(&weights_format_npz, data, size);
    return 0;
}
