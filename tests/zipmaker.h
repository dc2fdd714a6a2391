/* SPDX-License-Identifier: Apache-2.0 */
/* Writes small zip archives in memory, right or deliberately wrong ones, for
 * tests and fuzz targets. */
#ifndef TESTS_ZIPMAKER_H
#define TESTS_ZIPMAKER_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

struct maker {
    unsigned char *data;
    size_t bytes, capacity;
};

static inline void maker_bytes(struct maker *m, const void *data, size_t bytes)
{
    if (m->bytes + bytes > m->capacity) {
        m->capacity = (m->bytes + bytes) * 2 + 64;
        m->data = realloc(m->data, m->capacity);
        if (!m->data)
            abort();
    }
    if (bytes > 0)
        memcpy(m->data + m->bytes, data, bytes);
    m->bytes += bytes;
}

static inline void maker_text(struct maker *m, const char *text)
{
    maker_bytes(m, text, strlen(text));
}

/* A little-endian integer. */
static inline void maker_int(struct maker *m, uint64_t value, unsigned size)
{
    unsigned char b[8];
    unsigned i;

    for (i = 0; i < size; i++)
        b[i] = (unsigned char)(value >> (8 * i));
    maker_bytes(m, b, size);
}

static inline void maker_clear(struct maker *m)
{
    free(m->data);
    *m = (struct maker){0};
}

/* A member as the headers shall describe it. */
struct zipmaker_entry {
    const char *name;
    size_t name_bytes; /* 0: strlen(name) */
    const void *data;
    size_t bytes;
    unsigned method; /* 0 or 8; anything else is written as stored */
    unsigned flags;
    unsigned version_by;
    uint32_t attributes;
    const void *extra; /* of the central header */
    size_t extra_bytes;
    /* Lies: added to what is true, in both headers. */
    uint32_t crc_plus, packed_plus, bytes_plus;
    /* Lies of the local header alone. */
    uint32_t local_crc_plus, local_bytes_plus, local_method_plus;
    const char *local_name;
    int header_back; /* offset of the local header is less by so much */
    int descriptor;  /* 0 none; 1 with signature; 2 without; 3 wide */
};

struct zipmaker {
    struct maker file, central;
    unsigned count;
};

static inline size_t zipmaker_deflate(const void *data, size_t bytes,
                                      unsigned char **out)
{
    z_stream z = {0};
    size_t n;

    if (deflateInit2(&z, 9, Z_DEFLATED, -MAX_WBITS, 9, 0) != Z_OK)
        abort();
    n = deflateBound(&z, bytes);
    *out = malloc(n + 1);
    z.next_in = (unsigned char *)(uintptr_t)data;
    z.avail_in = (uInt)bytes;
    z.next_out = *out;
    z.avail_out = (uInt)n;
    if (!*out || deflate(&z, Z_FINISH) != Z_STREAM_END)
        abort();
    n = z.total_out;
    deflateEnd(&z);
    return n;
}

static inline void zipmaker_put(struct zipmaker *z,
                                const struct zipmaker_entry *e)
{
    uint32_t crc = (uint32_t)crc32(0, e->data, (uInt)e->bytes) + e->crc_plus;
    size_t name_bytes = e->name_bytes ? e->name_bytes : strlen(e->name);
    const char *local_name = e->local_name ? e->local_name : e->name;
    size_t packed = e->bytes, header = z->file.bytes;
    unsigned flags = e->flags | (e->descriptor ? 8 : 0);
    unsigned char *deflated = NULL;
    int stream = e->descriptor != 0;

    if (e->bytes == 0)
        crc = e->crc_plus;
    if (e->method == 8)
        packed = zipmaker_deflate(e->data, e->bytes, &deflated);
    maker_int(&z->file, 0x04034b50, 4);
    maker_int(&z->file, 20, 2);
    maker_int(&z->file, flags, 2);
    maker_int(&z->file, e->method + e->local_method_plus, 2);
    maker_int(&z->file, 0, 4);
    maker_int(&z->file, stream ? 0 : crc + e->local_crc_plus, 4);
    maker_int(&z->file, stream ? 0 : packed + e->packed_plus, 4);
    maker_int(&z->file,
              stream ? 0 : e->bytes + e->bytes_plus + e->local_bytes_plus, 4);
    maker_int(&z->file, name_bytes, 2);
    maker_int(&z->file, 0, 2);
    maker_bytes(&z->file, local_name, name_bytes);
    maker_bytes(&z->file, deflated ? deflated : e->data, packed);
    free(deflated);
    if (e->descriptor) {
        unsigned wide = e->descriptor == 3 ? 8 : 4;

        if (e->descriptor != 2)
            maker_int(&z->file, 0x08074b50, 4);
        maker_int(&z->file, crc, 4);
        maker_int(&z->file, packed, wide);
        maker_int(&z->file, e->bytes, wide);
    }
    maker_int(&z->central, 0x02014b50, 4);
    maker_int(&z->central, e->version_by, 2);
    maker_int(&z->central, 20, 2);
    maker_int(&z->central, flags, 2);
    maker_int(&z->central, e->method, 2);
    maker_int(&z->central, 0, 4);
    maker_int(&z->central, crc, 4);
    maker_int(&z->central, packed + e->packed_plus, 4);
    maker_int(&z->central, e->bytes + e->bytes_plus, 4);
    maker_int(&z->central, name_bytes, 2);
    maker_int(&z->central, e->extra_bytes, 2);
    maker_int(&z->central, 0, 2); /* comment */
    maker_int(&z->central, 0, 4); /* disk, internal attributes */
    maker_int(&z->central, e->attributes, 4);
    maker_int(&z->central, header - (size_t)e->header_back, 4);
    maker_bytes(&z->central, e->name, name_bytes);
    maker_bytes(&z->central, e->extra, e->extra_bytes);
    z->count++;
}

static inline void zipmaker_add(struct zipmaker *z, const char *name,
                                const void *data, size_t bytes)
{
    struct zipmaker_entry e = {.name = name, .data = data, .bytes = bytes};

    zipmaker_put(z, &e);
}

/* Ends the archive; the bytes are z->file. */
static inline void zipmaker_end(struct zipmaker *z)
{
    size_t start = z->file.bytes;

    maker_bytes(&z->file, z->central.data, z->central.bytes);
    maker_int(&z->file, 0x06054b50, 4);
    maker_int(&z->file, 0, 4);
    maker_int(&z->file, z->count, 2);
    maker_int(&z->file, z->count, 2);
    maker_int(&z->file, z->central.bytes, 4);
    maker_int(&z->file, start, 4);
    maker_int(&z->file, 0, 2);
}

static inline void zipmaker_clear(struct zipmaker *z)
{
    maker_clear(&z->file);
    maker_clear(&z->central);
    z->count = 0;
}

#endif
