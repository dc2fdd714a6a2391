/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: PyTorch files from before 1.6.  Three sections: the pickle of
 * the value, that of the storages' keys, and the storages; magic number,
 * protocol and the description of the system are put before them. */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/mutate/sections.h"

extern const struct weights_format weights_format_pytorch;

static const unsigned char head[] =
    "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."
    "\x80\x02M\xe9\x03."
    "\x80\x02}X\x0d\x00\x00\x00little_endian\x88s.";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct section section[3];
    size_t bytes = sizeof head - 1;
    unsigned char *file = malloc(bytes + size);

    if (!file)
        return 0;
    memcpy(file, head, bytes);
    sections_split(data, size, 3, section);
    for (int i = 0; i < 3; i++) {
        if (section[i].bytes > 0)
            memcpy(file + bytes, section[i].data, section[i].bytes);
        bytes += section[i].bytes;
    }
    fuzz_read(&weights_format_pytorch, file, bytes);
    free(file);
    return 0;
}
