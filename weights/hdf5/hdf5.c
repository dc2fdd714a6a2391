/* SPDX-License-Identifier: Apache-2.0 */
/* HDF5: the superblock, and the bounds and budgets that every other part of
 * the reader goes through. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weights/hdf5/internal.h"

static const unsigned char signature[8] = {0x89, 'H',  'D',  'F',
                                           '\r', '\n', 0x1a, '\n'};

/* ---- errors -------------------------------------------------------- */

int hdf5_fail(struct infer_error *err, int code, uint64_t address,
              const char *fmt, ...)
{
    char text[512];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (address == HDF5_UNDEFINED)
        return error_set(err, code, "HDF5: %s", text);
    return error_set(err, code, "HDF5, byte %llu: %s",
                     (unsigned long long)address, text);
}

/* ---- bounds and budgets -------------------------------------------- */

int hdf5_work(struct hdf5_file *f, uint64_t units, struct infer_error *err)
{
    if (units > f->work_left)
        return hdf5_malformed(err, HDF5_UNDEFINED,
                              "the structure costs more work than a file of "
                              "%zu bytes can be worth (blocks shared or "
                              "repeated beyond measure)",
                              f->bytes);
    f->work_left -= units;
    return 0;
}

int hdf5_block(struct hdf5_file *f, uint64_t address, uint64_t bytes,
               const char *what, struct infer_error *err,
               const unsigned char **out)
{
    if (address == HDF5_UNDEFINED)
        return hdf5_malformed(err, address, "%s has no address", what);
    if (!checked_range(address, bytes, f->bytes))
        return hdf5_malformed(err, address,
                              "%s of %llu bytes reaches past the end (%zu)",
                              what, (unsigned long long)bytes, f->bytes);
    /* 16 units for the visit itself, so that empty blocks are not free. */
    int rc = hdf5_work(f, bytes + 16, err);
    if (rc == 0)
        *out = f->data + address;
    return rc;
}

int hdf5_alloc(struct hdf5_file *f, size_t bytes, struct infer_error *err,
               void **out)
{
    if (bytes > f->memory_limit - f->memory)
        return error_set(err, INFER_EMEMORY,
                         "HDF5: %zu bytes more are needed beside %zu; the "
                         "limit for this file is %zu",
                         bytes, f->memory, f->memory_limit);
    void *p = calloc(1, bytes ? bytes : 1);
    if (p == NULL)
        return error_set(err, INFER_EMEMORY, "HDF5: no memory for %zu bytes",
                         bytes);
    f->memory += bytes;
    *out = p;
    return 0;
}

void hdf5_release(struct hdf5_file *f, void *p, size_t bytes)
{
    if (p == NULL)
        return;
    f->memory -= bytes;
    free(p);
}

int hdf5_grow(struct hdf5_file *f, void **array, size_t count, size_t *capacity,
              size_t element, struct infer_error *err)
{
    if (count < *capacity)
        return 0;
    const size_t wanted = *capacity ? *capacity * 2 : 8;
    size_t bytes;
    if (!checked_mul(wanted, element, &bytes))
        return error_set(err, INFER_EMEMORY, "HDF5: too many entries");
    void *fresh;
    const int rc = hdf5_alloc(f, bytes, err, &fresh);
    if (rc < 0)
        return rc;
    if (count)
        memcpy(fresh, *array, count * element);
    hdf5_release(f, *array, *capacity * element);
    *array = fresh;
    *capacity = wanted;
    return 0;
}

/* ---- cursor -------------------------------------------------------- */

struct hdf5_cursor hdf5_cursor(const unsigned char *data, size_t bytes)
{
    return (struct hdf5_cursor){data, data + bytes, false};
}

size_t hdf5_left(const struct hdf5_cursor *c)
{
    return (size_t)(c->end - c->at);
}

const unsigned char *hdf5_skip(struct hdf5_cursor *c, size_t n)
{
    if (c->bad || n > hdf5_left(c)) {
        c->bad = true;
        return NULL;
    }
    const unsigned char *p = c->at;
    c->at += n;
    return p;
}

uint64_t hdf5_uint(struct hdf5_cursor *c, unsigned n)
{
    const unsigned char *p = hdf5_skip(c, n);
    uint64_t v = 0;

    if (p == NULL)
        return 0;
    for (unsigned i = 0; i < n; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

uint64_t hdf5_address(struct hdf5_cursor *c, const struct hdf5_file *f)
{
    const uint64_t v = hdf5_uint(c, f->offset_size);
    const uint64_t ones = f->offset_size == 8
                              ? UINT64_MAX
                              : ((uint64_t)1 << (8 * f->offset_size)) - 1;

    return v == ones ? HDF5_UNDEFINED : v;
}

uint64_t hdf5_length(struct hdf5_cursor *c, const struct hdf5_file *f)
{
    return hdf5_uint(c, f->length_size);
}

unsigned hdf5_log2(uint64_t v)
{
    unsigned n = 0;

    while (v >>= 1)
        n++;
    return n;
}

unsigned hdf5_bytes_for(uint64_t limit)
{
    return hdf5_log2(limit) / 8 + 1;
}

/* ---- checksum ------------------------------------------------------ */

static uint32_t rotate(uint32_t x, unsigned k)
{
    return (x << k) | (x >> (32 - k));
}

static uint32_t word(const unsigned char *p, size_t n)
{
    uint32_t v = 0;

    for (size_t i = 0; i < n && i < 4; i++)
        v |= (uint32_t)p[i] << (8 * i);
    return v;
}

/* hashlittle() of Bob Jenkins' lookup3.c (public domain), written from its
 * description: three words are mixed for every 12 bytes, the last 1 to 12
 * bytes finish. */
uint32_t hdf5_checksum(const unsigned char *data, size_t bytes)
{
    uint32_t a, b, c;

    a = b = c = 0xdeadbeefu + (uint32_t)bytes;
    for (; bytes > 12; bytes -= 12, data += 12) {
        a += word(data, 4);
        b += word(data + 4, 4);
        c += word(data + 8, 4);
        a = (a - c) ^ rotate(c, 4), c += b;
        b = (b - a) ^ rotate(a, 6), a += c;
        c = (c - b) ^ rotate(b, 8), b += a;
        a = (a - c) ^ rotate(c, 16), c += b;
        b = (b - a) ^ rotate(a, 19), a += c;
        c = (c - b) ^ rotate(b, 4), b += a;
    }
    if (bytes == 0)
        return c;
    a += word(data, bytes);
    if (bytes > 4)
        b += word(data + 4, bytes - 4);
    if (bytes > 8)
        c += word(data + 8, bytes - 8);
    c = (c ^ b) - rotate(b, 14);
    a = (a ^ c) - rotate(c, 11);
    b = (b ^ a) - rotate(a, 25);
    c = (c ^ b) - rotate(b, 16);
    a = (a ^ c) - rotate(c, 4);
    b = (b ^ a) - rotate(a, 14);
    c = (c ^ b) - rotate(b, 24);
    return c;
}

int hdf5_check(uint64_t address, const unsigned char *data, size_t bytes,
               const char *what, struct infer_error *err)
{
    const uint32_t stated = word(data + bytes, 4);
    const uint32_t found = hdf5_checksum(data, bytes);

    if (stated != found)
        return hdf5_malformed(err, address,
                              "%s has checksum %08x, its bytes give %08x", what,
                              stated, found);
    return 0;
}

/* ---- superblock ---------------------------------------------------- */

static bool find_signature(const unsigned char *data, size_t bytes,
                           size_t *offset)
{
    size_t at = 0;

    while (bytes >= sizeof signature && at <= bytes - sizeof signature) {
        if (memcmp(data + at, signature, sizeof signature) == 0) {
            *offset = at;
            return true;
        }
        if (at > SIZE_MAX / 2)
            break;
        at = at ? at * 2 : 512;
    }
    return false;
}

bool hdf5_probe(const unsigned char *data, size_t bytes)
{
    size_t offset;

    return find_signature(data, bytes, &offset);
}

static int read_sizes(struct hdf5_file *f, struct hdf5_cursor *c,
                      struct infer_error *err)
{
    f->offset_size = (unsigned)hdf5_uint(c, 1);
    f->length_size = (unsigned)hdf5_uint(c, 1);
    for (int i = 0; i < 2; i++) {
        const unsigned n = i ? f->length_size : f->offset_size;
        if (n == 2 || n == 4 || n == 8)
            continue;
        return n == 16 || n == 32
                   ? hdf5_unsupported(err, 0,
                                      "%s of %u bytes; 2, 4 and 8 "
                                      "are supported",
                                      i ? "lengths" : "offsets", n)
                   : hdf5_malformed(err, 0, "superblock states %s of %u bytes",
                                    i ? "lengths" : "offsets", n);
    }
    return 0;
}

/* Versions 0 and 1: the root group is a symbol table entry. */
static int read_superblock0(struct hdf5_file *f, struct hdf5_cursor *c,
                            unsigned version, struct infer_error *err,
                            uint64_t *base, uint64_t *end)
{
    hdf5_skip(c, 4); /* versions of parts, reserved */
    const int rc = read_sizes(f, c, err);
    if (rc < 0)
        return rc;
    hdf5_skip(c, 1);
    f->group_leaf_k = (unsigned)hdf5_uint(c, 2);
    f->group_k = (unsigned)hdf5_uint(c, 2);
    hdf5_skip(c, 4);
    if (version == 1) {
        f->chunk_k = (unsigned)hdf5_uint(c, 2);
        hdf5_skip(c, 2);
    }
    *base = hdf5_address(c, f);
    hdf5_address(c, f); /* free space */
    *end = hdf5_address(c, f);
    const uint64_t driver = hdf5_address(c, f);
    hdf5_length(c, f); /* name of the root entry: always empty */
    f->root = hdf5_address(c, f);
    if (!c->bad && driver != HDF5_UNDEFINED)
        return hdf5_unsupported(err, driver,
                                "the file is one part of a split file");
    return 0;
}

/* Versions 2 and 3: shorter, with a checksum. */
static int read_superblock2(struct hdf5_file *f, struct hdf5_cursor *c,
                            struct infer_error *err, uint64_t *base,
                            uint64_t *end, uint64_t *extension)
{
    const int rc = read_sizes(f, c, err);
    if (rc < 0)
        return rc;
    hdf5_skip(c, 1); /* consistency flags */
    *base = hdf5_address(c, f);
    *extension = hdf5_address(c, f);
    *end = hdf5_address(c, f);
    f->root = hdf5_address(c, f);
    const size_t bytes = (size_t)(c->at - f->data);
    if (hdf5_skip(c, 4) == NULL)
        return 0; /* the caller reports the truncation */
    return hdf5_check(0, f->data, bytes, "superblock", err);
}

/* What the superblock extension may hold: tree sizes matter, a driver or a
 * cache image means that the file cannot be read as it lies. */
static int read_extension(struct hdf5_file *f, uint64_t address,
                          struct infer_error *err)
{
    struct hdf5_object object;
    int rc = hdf5_object_read(f, address, err, &object);

    if (rc < 0)
        return rc;
    for (size_t i = 0; i < object.count && rc == 0; i++) {
        const struct hdf5_message *m = &object.message[i];
        if (m->type == HDF5_MSG_DRIVER_INFO) {
            rc = hdf5_unsupported(err, address,
                                  "the file is one part of a split file");
        } else if (m->type == HDF5_MSG_CACHE_IMAGE) {
            rc = hdf5_unsupported(err, address,
                                  "the file holds a metadata cache image");
        } else if (m->type == HDF5_MSG_BTREE_K) {
            struct hdf5_cursor c = hdf5_cursor(m->data, m->bytes);
            hdf5_skip(&c, 1);
            f->chunk_k = (unsigned)hdf5_uint(&c, 2);
            f->group_k = (unsigned)hdf5_uint(&c, 2);
            f->group_leaf_k = (unsigned)hdf5_uint(&c, 2);
            if (c.bad)
                rc = hdf5_malformed(err, address, "B-tree sizes cut short");
        }
    }
    hdf5_object_clear(f, &object);
    return rc;
}

static int read_superblock(struct hdf5_file *f, struct infer_error *err)
{
    struct hdf5_cursor c = hdf5_cursor(f->data, f->bytes);
    uint64_t base = 0, end = 0, extension = HDF5_UNDEFINED;
    int rc;

    hdf5_skip(&c, sizeof signature);
    const unsigned version = (unsigned)hdf5_uint(&c, 1);
    if (version > 3)
        return hdf5_unsupported(
            err, 8, "superblock version %u; 0 to 3 are supported", version);
    rc = version < 2 ? read_superblock0(f, &c, version, err, &base, &end)
                     : read_superblock2(f, &c, err, &base, &end, &extension);
    if (rc < 0)
        return rc;
    if (c.bad)
        return hdf5_malformed(err, 0, "superblock cut short");
    /* Addresses count from the superblock even where a user block was added or
     * removed after the fact; `end` alone counts from the stated base. */
    if (base == HDF5_UNDEFINED || end == HDF5_UNDEFINED || end < base)
        return hdf5_malformed(err, 0, "superblock states no sane extent");
    if (end - base > f->bytes)
        return hdf5_malformed(err, 0,
                              "the file is cut short: %llu bytes are stated, "
                              "%zu are here",
                              (unsigned long long)(end - base), f->bytes);
    return extension == HDF5_UNDEFINED ? 0 : read_extension(f, extension, err);
}

int hdf5_open(struct blob *blob, unsigned char *data, size_t bytes,
              struct infer_error *err, struct hdf5_file **out)
{
    size_t offset;

    if (!find_signature(data, bytes, &offset))
        return error_set(err, INFER_EFORMAT, "no HDF5 signature");
    struct hdf5_file *f = calloc(1, sizeof *f);
    if (f == NULL)
        return error_set(err, INFER_EMEMORY, "no memory for an HDF5 file");
    f->blob = blob_ref(blob);
    f->data = data + offset;
    f->bytes = bytes - offset;
    f->group_leaf_k = 4; /* defaults of the library */
    f->group_k = 16;
    f->chunk_k = 32;
    f->memory_limit = f->bytes + HDF5_SPARE_MEMORY;
    /* An honest file is looked at a few times over; unpacked data counts
     * too. */
    f->work_left = (uint64_t)f->bytes * 64 + ((uint64_t)128 << 20);
    const int rc = read_superblock(f, err);
    if (rc < 0) {
        hdf5_close(f);
        return rc;
    }
    *out = f;
    return 0;
}

void hdf5_close(struct hdf5_file *f)
{
    if (f == NULL)
        return;
    blob_unref(f->blob);
    free(f->claimed);
    free(f);
}

uint64_t hdf5_root(const struct hdf5_file *f)
{
    return f->root;
}
