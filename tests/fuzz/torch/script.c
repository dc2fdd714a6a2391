/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: programs of TorchScript.  An input that starts with 'P' 'K' is
 * an archive; of any other the bytes up to a NUL are the code of __torch__.py,
 * and those behind it data.pkl, of an archive that is made round them.  The
 * input has a free batch.  The graph that comes out must hold together. */
#include "tests/fuzz/fuzz.h"
#include "tests/zipmaker.h"

extern const struct weights_format weights_format_torchscript;

/* An object of __torch__.M with k = 3, l = [2, 5] and w, a tensor of 4 x 3. */
static const char object[] = "\x80\x02"
                             "c__torch__\nM\n)\x81}("
                             "X\x01\0\0\0kK\x03"
                             "X\x01\0\0\0l(K\x02K\x05l"
                             "X\x01\0\0\0w"
                             "ctorch._utils\n_rebuild_tensor_v2\n"
                             "((X\x07\0\0\0storagectorch\nFloatStorage\n"
                             "X\x01\0\0\0000X\x03\0\0\0cpuK\x0ctQ"
                             "K\0K\x04K\x03\x86K\x03K\x01\x86\x89"
                             "ccollections\nOrderedDict\n)RtR"
                             "ub.";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const float storage[12] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const struct weights_input_shape shape = {NULL, 4, {-1, 3, 8, 6}};
    const uint8_t *end = size ? memchr(data, 0, size) : NULL;
    const size_t code = end ? (size_t)(end - data) : size;
    struct weights_options options;
    struct zipmaker zip = {0};

    weights_options_init(&options);
    options.input_count = 1;
    options.input_shape = &shape;
    if (size >= 2 && data[0] == 'P' && data[1] == 'K') {
        fuzz_graph(&weights_format_torchscript, data, size);
        return 0;
    }
    zipmaker_add(&zip, "a/data.pkl", end ? (const char *)end + 1 : object,
                 end ? size - code - 1 : sizeof object - 1);
    zipmaker_add(&zip, "a/constants.pkl", "\x80\2).", 4);
    zipmaker_add(&zip, "a/code/__torch__.py", data, code);
    zipmaker_add(&zip, "a/data/0", storage, sizeof storage);
    zipmaker_end(&zip);
    fuzz_graph_with(&weights_format_torchscript, &options, zip.file.data,
                    zip.file.bytes);
    zipmaker_clear(&zip);
    return 0;
}
