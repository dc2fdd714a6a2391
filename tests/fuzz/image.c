/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: pictures, PNG and JPEG. */
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct blob *blob = fuzz_blob(data, size);
    struct infer_image image = {0};
    struct infer_error err;
    volatile unsigned sum = 0;

    if (!blob)
        return 0;
    if (fuzz_tell(infer_image_decode(blob->data, size, 1 << 20, &err, &image),
                  &err, 0) == 0) {
        const size_t n =
            (size_t)image.width * (size_t)image.height * (size_t)image.channels;

        for (size_t i = 0; i < n; i++)
            sum += image.pixels[i];
        infer_image_free(&image);
    }
    (void)sum;
    blob_unref(blob);
    return 0;
}
