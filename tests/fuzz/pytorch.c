/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: PyTorch files.  An input that starts with 'P' 'K' or a pickle
 * is a file; any other is the data.pkl of an archive that is made round it,
 * because no mutation gets past the CRCs of a zip. */
#include "tests/fuzz/fuzz.h"
#include "tests/zipmaker.h"

extern const struct weights_format weights_format_pytorch;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const unsigned char storage[64] = {1, 2, 3, 4, 5, 6, 7, 8};
    struct zipmaker zip = {0};

    if (size < 2 || (data[0] == 'P' && data[1] == 'K') || data[0] == 0x80) {
        fuzz_read(&weights_format_pytorch, data, size);
        if (size < 2 || data[0] != 0x80)
            return 0;
    }
    zipmaker_add(&zip, "a/data.pkl", data, size);
    zipmaker_add(&zip, "a/data/0", storage, 64);
    zipmaker_add(&zip, "a/data/1", storage, 24);
    zipmaker_add(&zip, "a/data/2", storage, 4);
    zipmaker_add(&zip, "a/version", "3\n", 2);
    zipmaker_end(&zip);
    fuzz_read(&weights_format_pytorch, zip.file.data, zip.file.bytes);
    zipmaker_clear(&zip);
    return 0;
}
