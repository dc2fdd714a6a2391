/* SPDX-License-Identifier: Apache-2.0 */
/* Mutator of PNG files: changes a chunk, its place or its number, or what is
 * compressed in it, and states lengths and CRCs anew.  Other inputs (JPEG) are
 * changed as bytes. */
#include <zlib.h>

#include "tests/fuzz/mutate/mutate.h"

#define MAX_CHUNKS 64
#define MAX_PLAIN  ((size_t)1 << 16)

struct chunk {
    uint8_t type[4];
    const uint8_t *data;
    size_t bytes;
    uint8_t *own; /* to be freed; NULL: data lies in the input */
};

static const uint8_t signature[8] = {137, 'P', 'N', 'G', 13, 10, 26, 10};

static uint32_t big_endian(const uint8_t *b)
{
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 |
           b[3];
}

static void put_big_endian(uint8_t *to, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(v >> 8 * (3 - i));
}

/* The chunks that the file holds whole; a last one may be cut. */
static int png_split(const uint8_t *data, size_t size, struct chunk *out)
{
    size_t at = sizeof signature;
    int n = 0;

    while (n < MAX_CHUNKS && size - at >= 12) {
        struct chunk *c = &out[n++];
        size_t bytes = big_endian(data + at);

        if (bytes > size - at - 12)
            bytes = size - at - 12;
        memcpy(c->type, data + at + 4, 4);
        c->data = data + at + 8;
        c->bytes = bytes;
        c->own = NULL;
        at += 12 + bytes;
    }
    return n;
}

/* Replaces a chunk's data by changed ones. */
static void png_change(struct chunk *c)
{
    size_t bytes = c->bytes;
    uint8_t *copy = mutate_copy(c->data, &bytes, 64);

    if (!copy)
        return;
    free(c->own);
    c->data = c->own = copy;
    c->bytes = bytes;
}

/* The same of data under deflate; false if the chunk holds none. */
static int change_plain(struct chunk *c)
{
    uint8_t *plain = malloc(MAX_PLAIN + 64), *packed = NULL;
    uLongf bytes = MAX_PLAIN, packed_bytes;
    int done = 0;

    if (plain && uncompress(plain, &bytes, c->data, c->bytes) == Z_OK) {
        bytes = LLVMFuzzerMutate(plain, bytes, bytes + 64);
        packed_bytes = compressBound(bytes);
        packed = malloc(packed_bytes);
        done =
            packed && compress2(packed, &packed_bytes, plain, bytes, 1) == Z_OK;
    }
    free(plain);
    if (!done) {
        free(packed);
        return 0;
    }
    free(c->own);
    c->data = c->own = packed;
    c->bytes = packed_bytes;
    return 1;
}

static size_t png_join(uint8_t *out, size_t room, const struct chunk *chunk,
                       int n)
{
    size_t at = sizeof signature;

    memcpy(out, signature, sizeof signature);
    for (int i = 0; i < n && room - at >= 12 + chunk[i].bytes; i++) {
        const size_t bytes = chunk[i].bytes;

        put_big_endian(out + at, (uint32_t)bytes);
        memcpy(out + at + 4, chunk[i].type, 4);
        if (bytes > 0)
            memcpy(out + at + 8, chunk[i].data, bytes);
        put_big_endian(out + at + 8 + bytes,
                       (uint32_t)crc32(0, out + at + 4, (uInt)(bytes + 4)));
        at += 12 + bytes;
    }
    return at;
}

/* Changes the list; n is its new length. */
static int change_list(struct chunk *chunk, int n, unsigned way,
                       unsigned *state)
{
    static const char types[] = "IHDRPLTEIDATIENDtRNSgAMAiCCPtEXtzTXtsRGBacTL";
    const int i = (int)(mutate_random(state) % (unsigned)n);
    const int j = (int)(mutate_random(state) % (unsigned)n);
    const struct chunk saved = chunk[i];

    switch (way) {
    case 0: /* changes places */
        chunk[i] = chunk[j];
        chunk[j] = saved;
        break;
    case 1: /* removes */
        free(saved.own);
        memmove(chunk + i, chunk + i + 1, (size_t)(n - i - 1) * sizeof(*chunk));
        return n - 1;
    case 2: /* twice */
        if (n == MAX_CHUNKS)
            break;
        memmove(chunk + i + 1, chunk + i, (size_t)(n - i) * sizeof(*chunk));
        chunk[i].own = NULL;
        return n + 1;
    case 3: /* another type */
        memcpy(chunk[i].type,
               types + 4 * (mutate_random(state) % (sizeof types / 4)), 4);
        break;
    case 4:
    case 5:
    case 6:
        if (change_plain(&chunk[i]))
            break;
        png_change(&chunk[i]);
        break;
    case 7:
        png_change(&chunk[i]);
        break;
    }
    return n;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size,
                               unsigned seed)
{
    struct chunk chunk[MAX_CHUNKS];
    unsigned state = mutate_seed(seed);
    uint8_t *out;
    int n = 0;

    mutate_random(&state);
    if (size > sizeof signature && max_size > sizeof signature &&
        memcmp(data, signature, sizeof signature) == 0)
        n = png_split(data, size, chunk);
    out = malloc(max_size);
    if (n == 0 || !out || mutate_random(&state) % 16 == 0) {
        free(out);
        return LLVMFuzzerMutate(data, size, max_size);
    }
    n = change_list(chunk, n, mutate_random(&state) % 8, &state);
    size = png_join(out, max_size, chunk, n);
    memcpy(data, out, size);
    free(out);
    for (int i = 0; i < n; i++)
        free(chunk[i].own);
    return size;
}
