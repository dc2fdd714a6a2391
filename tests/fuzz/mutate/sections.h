/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs that are several files: of each its length (2 bytes, little-endian)
 * and its bytes; the last has what is left, and no length. */
#ifndef TESTS_FUZZ_MUTATE_SECTIONS_H
#define TESTS_FUZZ_MUTATE_SECTIONS_H

#include <stddef.h>
#include <stdint.h>

struct section {
    const uint8_t *data;
    size_t bytes;
};

/* Takes an input apart into n sections; those that it lacks are empty. */
static inline void sections_split(const uint8_t *data, size_t size, int n,
                                  struct section *out)
{
    for (int i = 0; i < n; i++) {
        const size_t head = i + 1 < n && size >= 2 ? 2 : 0;
        size_t bytes = head ? data[0] | (size_t)data[1] << 8 : size;

        if (bytes > size - head)
            bytes = size - head;
        out[i].data = data + head;
        out[i].bytes = bytes;
        data += head + bytes;
        size -= head + bytes;
    }
}

#endif
