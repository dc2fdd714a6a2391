/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory of a zip archive, checked to the last byte.
 *
 *     local header, name, extra, payload, [descriptor]   for each member
 *     central header, name, extra, comment               for each member
 *     [zip64 end record, zip64 locator]
 *     end record, comment                                end of the file
 *
 * Readers differ in what they make of archives where these overlap, disagree
 * or leave gaps at the end, so that such archives are refused.
 */
#include "weights/zip.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "kernels/base/text.h"
#include "weights/bytes.h"

#define SIG_LOCAL         0x04034b50u
#define SIG_CENTRAL       0x02014b50u
#define SIG_DESCRIPTOR    0x08074b50u
#define SIG_END           0x06054b50u
#define SIG_END64         0x06064b50u
#define SIG_LOCATOR64     0x07064b50u
#define END_BYTES         22
#define END64_BYTES       56
#define LOCATOR64_BYTES   20
#define CENTRAL_BYTES     46
#define LOCAL_BYTES       30
#define EXTRA_ZIP64       1
#define FLAG_ENCRYPTED    0x0001u
#define FLAG_DESCRIPTOR   0x0008u
#define FLAG_PATCH        0x0020u
#define FLAG_STRONG       0x0040u
#define FLAG_HIDDEN       0x2000u
#define UNIX_TYPE_MASK    0170000u
#define UNIX_TYPE_SYMLINK 0120000u
#define FULL16            0xffffu
#define FULL32            0xffffffffu

/* Where the central directory lies, and how many members it has. */
struct directory {
    uint64_t count, bytes, offset;
    uint64_t end; /* of the directory: the next record starts here */
};

bool zipfile_probe(const struct blob *blob)
{
    return blob->bytes >= END_BYTES && (bytes_le32(blob->data) == SIG_LOCAL ||
                                        bytes_le32(blob->data) == SIG_END);
}

/* ---- end of the archive -------------------------------------------- */

/* Finds the end record whose comment reaches exactly to the end of the file;
 * there must be only one. */
static int find_end(const struct blob *blob, struct infer_error *err,
                    size_t *out)
{
    size_t last, first, at, found = SIZE_MAX;

    if (blob->bytes < END_BYTES)
        return error_set(err, INFER_EFORMAT,
                         "zip: %zu bytes are too few for an archive",
                         blob->bytes);
    last = blob->bytes - END_BYTES;
    first = last > FULL16 ? last - FULL16 : 0;
    for (at = last + 1; at-- > first;) {
        const unsigned char *p = blob->data + at;

        if (bytes_le32(p) != SIG_END || bytes_le16(p + 20) != last - at)
            continue;
        if (found != SIZE_MAX)
            return error_set(err, INFER_EFORMAT,
                             "zip: two end records, at %zu and %zu", at, found);
        found = at;
    }
    if (found == SIZE_MAX)
        return error_set(err, INFER_EFORMAT,
                         "zip: no end record: the archive is cut short, or "
                         "other data follows it");
    *out = found;
    return 0;
}

/* Reads the zip64 end record, where its locator stands right before the end
 * record.  Fields of the end record that are not full must agree. */
static int read_end64(const struct blob *blob, size_t locator,
                      struct infer_error *err, struct directory *dir)
{
    const unsigned char *p = blob->data + locator;
    uint64_t at = bytes_le64(p + 8), size;

    if (bytes_le32(p + 4) != 0 || bytes_le32(p + 16) > 1)
        return error_set(err, INFER_EUNSUPPORTED,
                         "zip: archives on several disks are not supported");
    if (!checked_range(at, END64_BYTES, locator))
        return error_set(err, INFER_EFORMAT,
                         "zip: the zip64 locator points to %llu, outside the "
                         "archive",
                         (unsigned long long)at);
    p = blob->data + at;
    size = bytes_le64(p + 4);
    if (bytes_le32(p) != SIG_END64 || size != locator - at - 12)
        return error_set(err, INFER_EFORMAT,
                         "zip: the zip64 end record at %llu is damaged",
                         (unsigned long long)at);
    if (bytes_le32(p + 16) != 0 || bytes_le32(p + 20) != 0)
        return error_set(err, INFER_EUNSUPPORTED,
                         "zip: archives on several disks are not supported");
    struct directory d = {bytes_le64(p + 32), bytes_le64(p + 40),
                          bytes_le64(p + 48), at};
    if ((dir->count != FULL16 && dir->count != d.count) ||
        (dir->bytes != FULL32 && dir->bytes != d.bytes) ||
        (dir->offset != FULL32 && dir->offset != d.offset) ||
        bytes_le64(p + 24) != d.count)
        return error_set(err, INFER_EFORMAT,
                         "zip: the end record and the zip64 end record "
                         "disagree");
    *dir = d;
    return 0;
}

static int read_end(const struct blob *blob, struct infer_error *err,
                    struct directory *out)
{
    const unsigned char *p;
    size_t end = 0;
    int rc = find_end(blob, err, &end);

    if (rc < 0)
        return rc;
    p = blob->data + end;
    if (bytes_le16(p + 4) != 0 || bytes_le16(p + 6) != 0)
        return error_set(err, INFER_EUNSUPPORTED,
                         "zip: archives on several disks are not supported");
    struct directory dir = {bytes_le16(p + 10), bytes_le32(p + 12),
                            bytes_le32(p + 16), end};
    if (bytes_le16(p + 8) != dir.count)
        return error_set(err, INFER_EFORMAT,
                         "zip: the end record's two counts disagree");
    if (end >= LOCATOR64_BYTES &&
        bytes_le32(p - LOCATOR64_BYTES) == SIG_LOCATOR64) {
        rc = read_end64(blob, end - LOCATOR64_BYTES, err, &dir);
        if (rc < 0)
            return rc;
    }
    if (!checked_range(dir.offset, dir.bytes, dir.end) ||
        dir.offset + dir.bytes != dir.end)
        return error_set(err, INFER_EFORMAT,
                         "zip: the directory (offset %llu, %llu bytes) does "
                         "not end where the end record starts, at %llu",
                         (unsigned long long)dir.offset,
                         (unsigned long long)dir.bytes,
                         (unsigned long long)dir.end);
    if (dir.count > dir.bytes / CENTRAL_BYTES || dir.count > UINT32_MAX)
        return error_set(err, INFER_EFORMAT,
                         "zip: %llu members do not fit into a directory of "
                         "%llu bytes",
                         (unsigned long long)dir.count,
                         (unsigned long long)dir.bytes);
    *out = dir;
    return 0;
}

/* ---- names --------------------------------------------------------- */

/* Names are never used as paths, but a name that would be dangerous as one has
 * no place in a model.  Returns what is wrong, or NULL. */
static const char *name_fault(const char *name, size_t bytes)
{
    const char *part = name, *slash;

    if (bytes == 0)
        return "is empty";
    if (memchr(name, 0, bytes))
        return "has a NUL";
    if (!text_is_utf8(name, bytes))
        return "is not UTF-8";
    if (memchr(name, '\\', bytes))
        return "has a backslash";
    if (name[0] == '/')
        return "is an absolute path";
    if (bytes >= 3 && name[1] == ':' && name[2] == '/')
        return "starts with a drive letter"; /* "x:0" is TensorFlow's */
    for (; part; part = slash ? slash + 1 : NULL) {
        size_t left = bytes - (size_t)(part - name), n;

        slash = memchr(part, '/', left);
        n = slash ? (size_t)(slash - part) : left;
        if (n == 2 && part[0] == '.' && part[1] == '.')
            return "leads out of its folder";
    }
    return NULL;
}

/* ---- members ------------------------------------------------------- */

/* Takes the 64-bit values that stand in for full 32-bit fields, in the order
 * of the fields, from the extra area of a header. */
struct wide {
    uint64_t *field[3];
    int count;
};

static const char *read_extra(struct bytes extra, const struct wide *wide)
{
    bool seen = false;
    int i;

    /* Fewer than four bytes left are padding that some writers add. */
    while (bytes_left(&extra) >= 4) {
        uint16_t id = 0, size = 0;
        const unsigned char *p;

        bytes_u16(&extra, &id);
        bytes_u16(&extra, &size);
        p = bytes_take(&extra, size);
        if (!p)
            return "an extra field longer than the extra area";
        if (id != EXTRA_ZIP64)
            continue;
        if (seen)
            return "two zip64 extra fields";
        seen = true;
        struct bytes values = bytes_over(p, size);
        for (i = 0; i < wide->count; i++)
            if (!bytes_u64(&values, wide->field[i]))
                return "a zip64 extra field that is too short";
    }
    if (wide->count > 0 && !seen)
        return "no zip64 extra field, though a size needs one";
    return NULL;
}

static void widen(struct wide *wide, uint64_t *field)
{
    if (*field == FULL32)
        wide->field[wide->count++] = field;
}

static int check_flags(const struct zipfile_entry *e, unsigned version_by,
                       uint32_t attributes, struct infer_error *err)
{
    unsigned host = version_by >> 8;

    if (e->flags & (FLAG_ENCRYPTED | FLAG_STRONG | FLAG_HIDDEN))
        return error_set(err, INFER_EUNSUPPORTED,
                         "zip: member '%s' is encrypted", e->name);
    if (e->flags & FLAG_PATCH)
        return error_set(err, INFER_EUNSUPPORTED, "zip: member '%s' is a patch",
                         e->name);
    if (e->method != 0 && e->method != 8)
        return error_set(err, INFER_EUNSUPPORTED,
                         "zip: member '%s' is packed by method %u (supported: "
                         "0 stored, 8 deflate)",
                         e->name, e->method);
    if ((host == 3 || host == 19) &&
        ((attributes >> 16) & UNIX_TYPE_MASK) == UNIX_TYPE_SYMLINK)
        return error_set(err, INFER_EFORMAT,
                         "zip: member '%s' is a symbolic link", e->name);
    return 0;
}

/* One header of the central directory. */
static int read_central(struct bytes *in, struct infer_error *err,
                        struct zipfile_entry *e)
{
    size_t start = in->at;
    const unsigned char *p = bytes_take(in, CENTRAL_BYTES), *name, *extra;
    struct wide wide = {{0}, 0};
    const char *fault;
    size_t name_bytes;

    if (!p || bytes_le32(p) != SIG_CENTRAL)
        return error_set(err, INFER_EFORMAT,
                         "zip: no directory header at byte %zu of the "
                         "directory",
                         start);
    e->flags = bytes_le16(p + 8);
    e->method = bytes_le16(p + 10);
    e->crc = bytes_le32(p + 16);
    e->packed = bytes_le32(p + 20);
    e->bytes = bytes_le32(p + 24);
    e->header = bytes_le32(p + 42);
    name_bytes = bytes_le16(p + 28);
    name = bytes_take(in, name_bytes);
    extra = bytes_take(in, bytes_le16(p + 30));
    if (!name || !extra || !bytes_take(in, bytes_le16(p + 32)))
        return error_set(err, INFER_EFORMAT,
                         "zip: the directory header at byte %zu is cut short",
                         start);
    fault = name_fault((const char *)name, name_bytes);
    if (fault)
        return error_set(err, INFER_EFORMAT, "zip: the member name '%.*s' %s",
                         (int)(name_bytes < 256 ? name_bytes : 256),
                         (const char *)name, fault);
    e->name = malloc(name_bytes + 1);
    if (!e->name)
        return error_set(err, INFER_EMEMORY, "zip: out of memory");
    memcpy(e->name, name, name_bytes);
    e->name[name_bytes] = 0;
    e->directory = name[name_bytes - 1] == '/';
    if (bytes_le16(p + 34) != 0)
        return error_set(err, INFER_EUNSUPPORTED,
                         "zip: archives on several disks are not supported");
    widen(&wide, &e->bytes);
    widen(&wide, &e->packed);
    widen(&wide, &e->header);
    fault = read_extra(bytes_over(extra, bytes_le16(p + 30)), &wide);
    if (fault)
        return error_set(err, INFER_EFORMAT, "zip: member '%s' has %s", e->name,
                         fault);
    return check_flags(e, bytes_le16(p + 4), bytes_le32(p + 38), err);
}

static int disagree(const struct zipfile_entry *e, const char *what,
                    struct infer_error *err)
{
    return error_set(err, INFER_EFORMAT,
                     "zip: member '%s': local header and directory disagree "
                     "about its %s",
                     e->name, what);
}

/* A descriptor follows the payload of members that were written as a stream:
 * [signature] CRC, packed size, size; sizes of 4 or 8 bytes. */
static bool descriptor_agrees(const struct zipfile_entry *e, struct bytes in)
{
    size_t start = in.at;
    int sig, wide;

    for (sig = 1; sig >= 0; sig--) {
        for (wide = 0; wide <= 1; wide++) {
            uint32_t magic = SIG_DESCRIPTOR, crc;
            uint64_t packed, bytes;

            in.at = start;
            if ((!sig || bytes_u32(&in, &magic)) && bytes_u32(&in, &crc) &&
                bytes_uint(&in, wide ? 8 : 4, &packed) &&
                bytes_uint(&in, wide ? 8 : 4, &bytes) &&
                magic == SIG_DESCRIPTOR && crc == e->crc &&
                packed == e->packed && bytes == e->bytes)
                return true;
        }
    }
    return false;
}

/* Compares the local header with the directory, and finds the payload.
 * limit: start of the directory. */
static int read_local(const struct blob *blob, uint64_t limit,
                      struct zipfile_entry *e, struct infer_error *err)
{
    struct bytes in = bytes_over(blob->data, (size_t)limit);
    bool stream = e->flags & FLAG_DESCRIPTOR;
    const unsigned char *p, *name, *extra;
    struct wide wide = {{0}, 0};
    uint64_t packed, bytes;
    const char *fault;
    uint32_t crc;

    if (!bytes_seek(&in, e->header) || !(p = bytes_take(&in, LOCAL_BYTES)) ||
        !(name = bytes_take(&in, bytes_le16(p + 26))) ||
        !(extra = bytes_take(&in, bytes_le16(p + 28))))
        return error_set(err, INFER_EFORMAT,
                         "zip: member '%s': its header at %llu lies outside "
                         "the archive",
                         e->name, (unsigned long long)e->header);
    if (bytes_le32(p) != SIG_LOCAL)
        return error_set(err, INFER_EFORMAT,
                         "zip: member '%s': no local header at %llu", e->name,
                         (unsigned long long)e->header);
    if (bytes_le16(p + 26) != strlen(e->name) ||
        memcmp(name, e->name, bytes_le16(p + 26)) != 0)
        return disagree(e, "name", err);
    if (bytes_le16(p + 8) != e->method)
        return disagree(e, "method", err);
    if ((bytes_le16(p + 6) ^ e->flags) & (FLAG_ENCRYPTED | FLAG_DESCRIPTOR))
        return disagree(e, "flags", err);
    crc = bytes_le32(p + 14);
    packed = bytes_le32(p + 18);
    bytes = bytes_le32(p + 22);
    widen(&wide, &bytes);
    widen(&wide, &packed);
    fault = read_extra(bytes_over(extra, bytes_le16(p + 28)), &wide);
    if (fault)
        return error_set(err, INFER_EFORMAT,
                         "zip: member '%s' has, in its local header, %s",
                         e->name, fault);
    /* A stream's header may leave all three at zero. */
    if (crc != e->crc && !(stream && crc == 0))
        return disagree(e, "CRC", err);
    if ((bytes != e->bytes && !(stream && bytes == 0)) ||
        (packed != e->packed && !(stream && packed == 0)))
        return disagree(e, "size", err);
    e->at = in.at;
    if (!bytes_take(&in, e->packed))
        return error_set(err, INFER_EFORMAT,
                         "zip: member '%s': its %llu bytes at %llu do not fit "
                         "before the directory at %llu",
                         e->name, (unsigned long long)e->packed,
                         (unsigned long long)e->at, (unsigned long long)limit);
    if (stream && !descriptor_agrees(e, in))
        return disagree(e, "descriptor", err);
    return 0;
}

/* Declared sizes: what inflating them all could cost. */
static int check_sizes(const struct blob *blob, const struct zipfile_entry *e,
                       uint64_t *inflated, struct infer_error *err)
{
    uint64_t cap =
        ZIPFILE_INFLATED_BASE + ZIPFILE_INFLATED_FACTOR * blob->bytes;

    if (e->method == 0 && e->packed != e->bytes)
        return error_set(err, INFER_EFORMAT,
                         "zip: stored member '%s' has two sizes, %llu and "
                         "%llu",
                         e->name, (unsigned long long)e->packed,
                         (unsigned long long)e->bytes);
    if (e->directory && e->bytes > 0)
        return error_set(err, INFER_EFORMAT, "zip: folder '%s' has %llu bytes",
                         e->name, (unsigned long long)e->bytes);
    if (e->method == 0)
        return 0;
    if (e->bytes / ZIPFILE_MAX_RATIO > e->packed)
        return error_set(err, INFER_EFORMAT,
                         "zip: member '%s' declares %llu bytes from %llu, "
                         "more than deflate can give",
                         e->name, (unsigned long long)e->bytes,
                         (unsigned long long)e->packed);
    *inflated += e->bytes; /* each is below 1033 times the file: no wrap */
    if (*inflated > cap)
        return error_set(err, INFER_EMEMORY,
                         "zip: the members inflate to more than %llu bytes, "
                         "the limit for an archive of %zu",
                         (unsigned long long)cap, blob->bytes);
    return 0;
}

/* ---- the archive as a whole ---------------------------------------- */

struct order {
    const struct zipfile_entry *entry;
    uint32_t index;
};

static int by_name(const void *a, const void *b)
{
    const struct order *x = a, *y = b;

    return strcmp(x->entry->name, y->entry->name);
}

static int by_header(const void *a, const void *b)
{
    const struct order *x = a, *y = b;

    return (x->entry->header > y->entry->header) -
           (x->entry->header < y->entry->header);
}

static int check_overlap(const struct order *order, size_t count,
                         struct infer_error *err)
{
    size_t i;

    for (i = 1; i < count; i++) {
        const struct zipfile_entry *a = order[i - 1].entry;
        const struct zipfile_entry *b = order[i].entry;

        if (b->header < a->at + a->packed)
            return error_set(err, INFER_EFORMAT,
                             "zip: members '%s' and '%s' overlap", a->name,
                             b->name);
    }
    return 0;
}

static int check_names(const struct order *order, size_t count,
                       struct infer_error *err)
{
    size_t i;

    for (i = 1; i < count; i++)
        if (by_name(&order[i - 1], &order[i]) == 0)
            return error_set(err, INFER_EFORMAT,
                             "zip: two members are named '%s'",
                             order[i].entry->name);
    return 0;
}

static int index_members(struct zipfile *zip, struct infer_error *err)
{
    struct order *order = malloc((zip->count + 1) * sizeof *order);
    size_t i;
    int rc;

    zip->by_name = malloc((zip->count + 1) * sizeof *zip->by_name);
    if (!order || !zip->by_name) {
        free(order);
        return error_set(err, INFER_EMEMORY, "zip: out of memory");
    }
    for (i = 0; i < zip->count; i++)
        order[i] = (struct order){&zip->entry[i], (uint32_t)i};
    qsort(order, zip->count, sizeof *order, by_header);
    rc = check_overlap(order, zip->count, err);
    if (rc == 0) {
        qsort(order, zip->count, sizeof *order, by_name);
        rc = check_names(order, zip->count, err);
    }
    for (i = 0; i < zip->count; i++)
        zip->by_name[i] = order[i].index;
    free(order);
    return rc;
}

static int read_members(struct zipfile *zip, const struct directory *dir,
                        struct infer_error *err)
{
    struct bytes in =
        bytes_over(zip->blob->data + dir->offset, (size_t)dir->bytes);
    uint64_t inflated = 0, i;
    int rc;

    for (i = 0; i < dir->count; i++) {
        struct zipfile_entry *e = &zip->entry[zip->count++];

        *e = (struct zipfile_entry){0};
        if ((rc = read_central(&in, err, e)) < 0 ||
            (rc = read_local(zip->blob, dir->offset, e, err)) < 0 ||
            (rc = check_sizes(zip->blob, e, &inflated, err)) < 0)
            return rc;
    }
    if (bytes_left(&in) > 0)
        return error_set(err, INFER_EFORMAT,
                         "zip: %zu bytes follow the last of %zu directory "
                         "headers",
                         bytes_left(&in), zip->count);
    return index_members(zip, err);
}

int zipfile_open(struct blob *blob, struct infer_error *err,
                 struct zipfile *out)
{
    struct zipfile zip = {0};
    struct directory dir = {0};
    int rc = read_end(blob, err, &dir);

    if (rc < 0)
        return rc;
    zip.entry = malloc(((size_t)dir.count + 1) * sizeof *zip.entry);
    if (!zip.entry)
        return error_set(err, INFER_EMEMORY, "zip: out of memory");
    zip.blob = blob_ref(blob);
    rc = read_members(&zip, &dir, err);
    if (rc < 0) {
        zipfile_close(&zip);
        return rc;
    }
    *out = zip;
    return 0;
}
