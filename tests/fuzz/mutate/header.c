/* SPDX-License-Identifier: Apache-2.0 */
/* Mutator of safetensors files, model files and checkpoints: changes the header
 * or the data, and states the header's length and CRC anew. */
#include "tests/fuzz/mutate/header.h"
#include "tests/fuzz/mutate/mutate.h"

/* Puts another number in the place of one of the header's. */
static void change_number(uint8_t *text, size_t bytes, unsigned *state)
{
    static const char digits[] = "0000111248963579";
    size_t at = mutate_random(state) % bytes, i;

    for (i = 0; i < bytes && (text[at] < '0' || text[at] > '9'); i++)
        at = (at + 1) % bytes;
    for (; at < bytes && text[at] >= '0' && text[at] <= '9'; at++)
        if (mutate_random(state) & 1)
            text[at] = (uint8_t)digits[mutate_random(state) & 15];
}

/* Writes length, header and data; what exceeds the room is left out. */
static size_t header_join(uint8_t *out, size_t room, const uint8_t *text,
                          size_t bytes, const uint8_t *data, size_t data_bytes)
{
    if (bytes > room - 8)
        bytes = room - 8;
    if (data_bytes > room - 8 - bytes)
        data_bytes = room - 8 - bytes;
    for (int i = 0; i < 8; i++)
        out[i] = (uint8_t)((uint64_t)bytes >> 8 * i);
    memcpy(out + 8, text, bytes);
    if (data_bytes > 0)
        memcpy(out + 8 + bytes, data, data_bytes);
    header_repair(out, 8 + bytes + data_bytes);
    return 8 + bytes + data_bytes;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size,
                               unsigned seed)
{
    const long header = header_bytes(data, size);
    unsigned state = mutate_seed(seed);
    size_t text_bytes, data_bytes;
    uint8_t *text, *rest;
    unsigned way;

    mutate_random(&state);
    way = mutate_random(&state) % 8;
    if (header <= 0 || max_size < 16 || way == 0)
        return LLVMFuzzerMutate(data, size, max_size);
    text_bytes = (size_t)header;
    data_bytes = size - 8 - text_bytes;
    text = malloc(text_bytes + 65);
    rest = malloc(data_bytes + 65);
    if (text && rest) {
        memcpy(text, data + 8, text_bytes);
        memcpy(rest, data + 8 + text_bytes, data_bytes);
        if (way == 1)
            data_bytes = LLVMFuzzerMutate(rest, data_bytes, data_bytes + 64);
        else if (way < 5)
            change_number(text, text_bytes, &state);
        else
            text_bytes = LLVMFuzzerMutate(text, text_bytes, text_bytes + 64);
        size = header_join(data, max_size, text, text_bytes, rest, data_bytes);
    }
    free(text);
    free(rest);
    return size;
}
