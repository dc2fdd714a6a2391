/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: Darknet networks, the text and after its NUL the weights.  The
 * graph that comes out must hold together. */
#include "tests/fuzz/layers.h"
#include "weights/darknet/darknet.h"

extern const struct weights_format weights_format_darknet;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_layers(&weights_format_darknet, darknet_read, data, size);
    return 0;
}
