/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the pickle machine. */
#include "tests/fuzz/fuzz.h"
#include "weights/pytorch/pickle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct blob *blob = fuzz_blob(data, size);
    struct infer_error err;
    struct pickle pickle;

    if (blob &&
        fuzz_tell(pickle_read(blob->data, size, &err, &pickle), &err, 0) == 0) {
        /* What it holds may not outgrow its budget. */
        if (pickle.charged > pickle.budget || pickle.used > size)
            abort();
        pickle_clear(&pickle);
    }
    blob_unref(blob);
    return 0;
}
