/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: ncnn networks, the text and after its NUL the weights.  The
 * graph that comes out must hold together. */
#include "tests/fuzz/layers.h"
#include "weights/ncnn/ncnn.h"

extern const struct weights_format weights_format_ncnn;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_layers(&weights_format_ncnn, ncnn_read, data, size);
    return 0;
}
