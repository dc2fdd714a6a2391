/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: ONNX models.  The graph that comes out must hold together. */
#include "tests/fuzz/fuzz.h"

extern const struct weights_format weights_format_onnx;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_graph(&weights_format_onnx, data, size);
    return 0;
}
