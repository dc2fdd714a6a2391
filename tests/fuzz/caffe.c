/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: Caffe networks, the text and after its NUL the weights.  The
 * graph that comes out must hold together. */
#include "tests/fuzz/layers.h"
#include "weights/caffe/caffe.h"

extern const struct weights_format weights_format_caffe;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_layers(&weights_format_caffe, caffe_read, data, size);
    return 0;
}
