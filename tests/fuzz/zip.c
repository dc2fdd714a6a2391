/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the zip reader. */
#include "tests/fuzz/fuzz.h"
#include "weights/zip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct blob *blob = fuzz_blob(data, size);
    struct infer_error err;
    struct zipfile zip;
    size_t i;

    if (blob && fuzz_tell(zipfile_open(blob, &err, &zip), &err, 0) == 0) {
        for (i = 0; i < zip.count; i++) {
            struct zipfile_data member;

            if (zipfile_find(&zip, zip.entry[i].name) != (int64_t)i)
                abort();
            if (fuzz_tell(zipfile_read(&zip, i, &err, &member), &err, 0) == 0)
                zipfile_data_clear(&member);
        }
        zipfile_close(&zip);
    }
    blob_unref(blob);
    return 0;
}
