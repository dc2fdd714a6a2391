/* SPDX-License-Identifier: Apache-2.0 */
/* HDF5: the filter pipeline of chunked datasets.  Three filters are part of
 * the format and need no plug-in: deflate, shuffle and fletcher32.  All others
 * are refused by number and name; nothing is ever loaded to decode them. */
#include <string.h>

#include <zlib.h>

#include "weights/hdf5/internal.h"

enum { DEFLATE = 1, SHUFFLE = 2, FLETCHER32 = 3 };

static const char *filter_word(uint64_t id)
{
    static const struct {
        unsigned id;
        const char *word;
    } words[] = {{4, "szip"},      {5, "n-bit"},         {6, "scale-offset"},
                 {305, "lzo"},     {307, "bzip2"},       {32000, "lzf"},
                 {32001, "blosc"}, {32004, "lz4"},       {32008, "bitshuffle"},
                 {32013, "zfp"},   {32015, "zstandard"}, {32026, "blosc2"}};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i].id == id)
            return words[i].word;
    return "unknown";
}

/* Version 1: version, count, reserved (6); each filter: id, name bytes, flags,
 * number of client values (2 each), name padded to 8, values (4 each), padding
 * to an even number.  Version 2: no reserved bytes and no padding, and no name
 * below id 256. */
int hdf5_filters_parse(struct hdf5_file *f, uint64_t address,
                       const unsigned char *data, size_t bytes,
                       struct infer_error *err, struct hdf5_filters *out)
{
    struct hdf5_cursor c = hdf5_cursor(data, bytes);
    const unsigned version = (unsigned)hdf5_uint(&c, 1);
    const int count = (int)hdf5_uint(&c, 1);

    (void)f;
    memset(out, 0, sizeof *out);
    if (version == 1)
        hdf5_skip(&c, 6);
    if (c.bad || version < 1 || version > 2 || count > HDF5_MAX_FILTERS)
        return hdf5_malformed(err, address,
                              "filter pipeline of version %u with %d filters",
                              version, count);
    for (int i = 0; i < count; i++) {
        const unsigned id = (unsigned)hdf5_uint(&c, 2);
        size_t name = 0;
        if (version == 1 || id >= 256)
            name = (size_t)hdf5_uint(&c, 2);
        hdf5_skip(&c, 2); /* flags: optional filters were applied too */
        const size_t values = (size_t)hdf5_uint(&c, 2);
        if (version == 1)
            name = (name + 7) / 8 * 8;
        hdf5_skip(&c, name);
        for (size_t k = 0; k < values && !c.bad; k++) {
            const uint32_t v = (uint32_t)hdf5_uint(&c, 4);
            if (k == 0)
                out->client[i] = v;
        }
        if (version == 1 && values % 2)
            hdf5_skip(&c, 4);
        if (c.bad)
            return hdf5_malformed(err, address, "filter pipeline cut short");
        if (id != DEFLATE && id != SHUFFLE && id != FLETCHER32)
            return hdf5_unsupported(err, address,
                                    "filter %u (%s); deflate, shuffle and "
                                    "fletcher32 are supported",
                                    id, filter_word(id));
        out->id[i] = id;
    }
    out->count = count;
    return 0;
}

/* ---- the filters --------------------------------------------------- */

/* Writes at most capacity bytes: more is a bomb or damage. */
static int undo_deflate(uint64_t address, const unsigned char *in,
                        size_t in_bytes, unsigned char *out, size_t capacity,
                        struct infer_error *err, size_t *out_bytes)
{
    z_stream z = {0};

    if (in_bytes > UINT32_MAX || capacity > UINT32_MAX)
        return hdf5_unsupported(err, address, "chunk of 4 GiB and more");
    if (inflateInit(&z) != Z_OK)
        return error_set(err, INFER_EMEMORY, "no memory for zlib");
    /* zlib takes a pointer to non-const but does not write through it. */
    memcpy(&z.next_in, &in, sizeof in);
    z.avail_in = (uInt)in_bytes;
    z.next_out = out;
    z.avail_out = (uInt)capacity;
    const int rc = inflate(&z, Z_FINISH);
    *out_bytes = (size_t)z.total_out;
    inflateEnd(&z);
    if (rc == Z_MEM_ERROR)
        return error_set(err, INFER_EMEMORY, "no memory for zlib");
    if (rc != Z_STREAM_END)
        return hdf5_malformed(
            err, address,
            "deflated chunk is damaged or unpacks to more than "
            "%zu bytes",
            capacity);
    return 0;
}

/* Byte k of all elements lie together; a remainder below one element stays at
 * the end. */
static void undo_shuffle(const unsigned char *in, size_t bytes, size_t element,
                         unsigned char *out)
{
    const size_t n = bytes / element;

    /* An element size above the chunk's would make the loop below long. */
    if (n == 0)
        element = 0;
    for (size_t k = 0; k < element; k++)
        for (size_t i = 0; i < n; i++)
            out[i * element + k] = in[k * n + i];
    memcpy(out + n * element, in + n * element, bytes - n * element);
}

/* Fletcher's checksum over big-endian words of 16 bits, an odd byte being the
 * upper half of a last word.  360 words are the most whose sums fit 32 bits
 * before they are folded. */
static uint32_t fletcher32(const unsigned char *p, size_t bytes)
{
    uint32_t a = 0, b = 0;
    size_t words = bytes / 2;

    while (words > 0) {
        size_t n = words < 360 ? words : 360;
        words -= n;
        for (; n > 0; n--, p += 2) {
            a += (uint32_t)p[0] << 8 | p[1];
            b += a;
        }
        a = (a & 0xffff) + (a >> 16);
        b = (b & 0xffff) + (b >> 16);
    }
    if (bytes % 2) {
        a += (uint32_t)*p << 8;
        b += a;
        a = (a & 0xffff) + (a >> 16);
        b = (b & 0xffff) + (b >> 16);
    }
    a = (a & 0xffff) + (a >> 16);
    b = (b & 0xffff) + (b >> 16);
    return b << 16 | a;
}

static int undo_fletcher32(uint64_t address, const unsigned char *in,
                           size_t *bytes, struct infer_error *err)
{
    if (*bytes < 4)
        return hdf5_malformed(err, address, "chunk too short for fletcher32");
    *bytes -= 4;
    struct hdf5_cursor c = hdf5_cursor(in + *bytes, 4);
    const uint32_t stated = (uint32_t)hdf5_uint(&c, 4);
    const uint32_t found = fletcher32(in, *bytes);
    if (stated != found)
        return hdf5_malformed(err, address,
                              "chunk has fletcher32 %08x, its bytes give %08x",
                              stated, found);
    return 0;
}

int hdf5_filters_undo(struct hdf5_file *f, const struct hdf5_filters *filters,
                      uint32_t mask, uint64_t address, const unsigned char *in,
                      size_t in_bytes, size_t raw_bytes,
                      struct hdf5_scratch *scratch, struct infer_error *err,
                      const unsigned char **out)
{
    size_t bytes = in_bytes;
    int rc;

    for (int i = filters->count - 1; i >= 0; i--) {
        unsigned char *to = in == scratch->a ? scratch->b : scratch->a;
        if (mask >> i & 1)
            continue;
        if (filters->id[i] == FLETCHER32) {
            rc = undo_fletcher32(address, in, &bytes, err);
        } else if (filters->id[i] == DEFLATE) {
            rc = undo_deflate(address, in, bytes, to, scratch->capacity, err,
                              &bytes);
            in = to;
        } else {
            const size_t element = filters->client[i];
            if (element == 0 || bytes > scratch->capacity)
                return hdf5_malformed(err, address,
                                      "shuffled chunk of %zu bytes, element "
                                      "size %zu",
                                      bytes, element);
            undo_shuffle(in, bytes, element, to);
            in = to;
            rc = 0;
        }
        if (rc == 0)
            rc = hdf5_work(f, bytes, err);
        if (rc < 0)
            return rc;
    }
    if (bytes != raw_bytes)
        return hdf5_malformed(err, address,
                              "chunk unpacks to %zu bytes, %zu are due", bytes,
                              raw_bytes);
    *out = in;
    return 0;
}
