/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: programs of torch.export.  An input that starts with 'P' 'K' is
 * an archive; of any other the bytes up to a NUL are the graph, and those
 * behind it the list of the weights, of an archive that is made round them.
 * The graph that comes out must hold together. */
#include "tests/fuzz/fuzz.h"
#include "tests/zipmaker.h"

extern const struct weights_format weights_format_export;

static const char weights[] =
    "{\"config\":{\"w\":{\"path_name\":\"weight_0\",\"tensor_meta\":{\"dtype\":"
    "7,"
    "\"sizes\":[{\"as_int\":4},{\"as_int\":3}],\"strides\":[{\"as_int\":3},"
    "{\"as_int\":1}],\"storage_offset\":{\"as_int\":0}}},"
    "\"b\":{\"path_name\":\"weight_1\",\"tensor_meta\":{\"dtype\":7,"
    "\"sizes\":[{\"as_int\":4}],\"strides\":[{\"as_int\":1}],"
    "\"storage_offset\":{\"as_int\":0}}}}}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const float storage[64] = {1, 2, 3, 4, 5, 6, 7, 8};
    const uint8_t *end = size ? memchr(data, 0, size) : NULL;
    const size_t graph = end ? (size_t)(end - data) : size;
    struct zipmaker zip = {0};

    if (size >= 2 && data[0] == 'P' && data[1] == 'K') {
        fuzz_graph(&weights_format_export, data, size);
        return 0;
    }
    zipmaker_add(&zip, "a/archive_format", "pt2", 3);
    zipmaker_add(&zip, "a/models/model.json", data, graph);
    zipmaker_add(&zip, "a/data/weights/model_weights_config.json",
                 end ? (const char *)end + 1 : weights,
                 end ? size - graph - 1 : sizeof weights - 1);
    zipmaker_add(&zip, "a/data/weights/weight_0", storage, sizeof storage);
    zipmaker_add(&zip, "a/data/weights/weight_1", storage, 16);
    zipmaker_end(&zip);
    fuzz_graph(&weights_format_export, zip.file.data, zip.file.bytes);
    zipmaker_clear(&zip);
    return 0;
}
