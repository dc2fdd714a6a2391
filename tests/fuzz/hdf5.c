/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: HDF5 files, every object and attribute of them. */
#include "tests/fuzz/fuzz.h"
#include "tests/unit/weights/hdf5_walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct walk w = {0};
    struct infer_error err;

    hdf5_probe(data, size);
    fuzz_tell(walk_bytes(data, size, &w, &err), &err, 0);
    return 0;
}
