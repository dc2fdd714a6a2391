/* SPDX-License-Identifier: Apache-2.0 */
/* Mutator of inputs that are several files: changes one and states its length
 * anew.  SECTIONS is their number. */
#include "tests/fuzz/mutate/sections.h"

#include "tests/fuzz/mutate/mutate.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size,
                               unsigned seed)
{
    struct section section[SECTIONS];
    unsigned state = mutate_seed(seed);
    uint8_t *out = malloc(max_size + 1), *copy;
    size_t bytes, at = 0;
    int which;

    mutate_random(&state);
    which = (int)(mutate_random(&state) % SECTIONS);
    sections_split(data, size, SECTIONS, section);
    bytes = section[which].bytes;
    copy = out ? mutate_copy(section[which].data, &bytes, 64) : NULL;
    if (!copy) {
        free(out);
        return LLVMFuzzerMutate(data, size, max_size);
    }
    section[which].data = copy;
    section[which].bytes = bytes;
    for (int i = 0; i < SECTIONS; i++) {
        const size_t head = i + 1 < SECTIONS ? 2 : 0;

        bytes = section[i].bytes;
        if (max_size - at < head)
            break;
        if (bytes > max_size - at - head)
            bytes = max_size - at - head;
        if (head && bytes > UINT16_MAX)
            bytes = UINT16_MAX;
        if (head) {
            out[at++] = (uint8_t)bytes;
            out[at++] = (uint8_t)(bytes >> 8);
        }
        if (bytes > 0)
            memcpy(out + at, section[i].data, bytes);
        at += bytes;
    }
    memcpy(data, out, at);
    free(copy);
    free(out);
    return at;
}
