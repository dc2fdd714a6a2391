/* SPDX-License-Identifier: Apache-2.0 */
/* The reader of zip members; the directory is read by zip_directory.c. */
#include "weights/zip.h"

#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "kernels/base/error.h"

/* zlib counts in unsigned int: larger members go through in pieces. */
#define PIECE ((uint64_t)1 << 30)

int64_t zipfile_find(const struct zipfile *zip, const char *name)
{
    size_t low = 0, high = zip->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        uint32_t i = zip->by_name[middle];
        int order = strcmp(name, zip->entry[i].name);

        if (order == 0)
            return i;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return -1;
}

static uint32_t crc_of(const unsigned char *data, uint64_t bytes)
{
    return (uint32_t)crc32_z(0, data, (z_size_t)bytes);
}

/* Inflates exactly e->bytes into out, which has room for them alone.  The
 * stream must end there, and must use up all packed bytes. */
static int inflate_raw(const struct zipfile_entry *e, const unsigned char *in,
                       unsigned char *out, struct infer_error *err)
{
    uint64_t in_left = e->packed, out_left = e->bytes;
    unsigned char beyond; /* takes a byte too many, to notice it */
    z_stream z = {0};
    int rc = Z_OK;

    if (inflateInit2(&z, -MAX_WBITS) != Z_OK)
        return error_set(err, INFER_EMEMORY, "member '%s': out of memory",
                         e->name);
    z.next_in = (unsigned char *)(uintptr_t)in;
    z.next_out = out;
    while (rc == Z_OK) {
        if (z.avail_in == 0 && in_left > 0) {
            z.avail_in = (uInt)(in_left < PIECE ? in_left : PIECE);
            in_left -= z.avail_in;
        }
        if (z.avail_out == 0 && out_left > 0) {
            z.avail_out = (uInt)(out_left < PIECE ? out_left : PIECE);
            out_left -= z.avail_out;
        } else if (z.avail_out == 0) {
            z.next_out = &beyond;
            z.avail_out = 1;
        }
        rc = inflate(&z, Z_NO_FLUSH);
        if (z.next_out == &beyond + 1)
            break;
    }
    in_left += z.avail_in;
    if (z.next_out == &beyond) /* nothing was written there */
        z.avail_out = 0;
    out_left += z.avail_out;
    bool more = z.next_out == &beyond + 1;
    inflateEnd(&z);
    if (more)
        return error_set(err, INFER_EFORMAT,
                         "member '%s' inflates to more than the %llu bytes "
                         "it declares",
                         e->name, (unsigned long long)e->bytes);
    if (rc != Z_STREAM_END)
        return error_set(err, rc == Z_MEM_ERROR ? INFER_EMEMORY : INFER_EFORMAT,
                         "member '%s': the deflate stream is damaged or cut "
                         "short",
                         e->name);
    if (out_left > 0)
        return error_set(err, INFER_EFORMAT,
                         "member '%s' inflates to %llu bytes, but declares "
                         "%llu",
                         e->name, (unsigned long long)(e->bytes - out_left),
                         (unsigned long long)e->bytes);
    if (in_left > 0)
        return error_set(err, INFER_EFORMAT,
                         "member '%s': %llu bytes follow its deflate stream",
                         e->name, (unsigned long long)in_left);
    return 0;
}

static int wrong_crc(const struct zipfile_entry *e, uint32_t found,
                     struct infer_error *err)
{
    return error_set(err, INFER_EFORMAT,
                     "member '%s' is damaged: its CRC-32 is %08x, expected "
                     "%08x",
                     e->name, (unsigned)found, (unsigned)e->crc);
}

static int read_deflated(struct zipfile *zip, struct zipfile_entry *e,
                         struct infer_error *err, struct zipfile_data *out)
{
    unsigned char *data = malloc(e->bytes ? (size_t)e->bytes : 1);
    struct blob *blob;
    uint32_t crc;
    int rc;

    if (!data)
        return error_set(err, INFER_EMEMORY,
                         "member '%s': no memory for %llu bytes", e->name,
                         (unsigned long long)e->bytes);
    rc = inflate_raw(e, zip->blob->data + e->at, data, err);
    if (rc < 0) {
        free(data);
        return rc;
    }
    crc = crc_of(data, e->bytes);
    if (crc != e->crc) {
        free(data);
        return wrong_crc(e, crc, err);
    }
    blob = blob_new(data, (size_t)e->bytes);
    if (!blob)
        return error_set(err, INFER_EMEMORY, "member '%s': out of memory",
                         e->name);
    *out = (struct zipfile_data){blob, blob->data, (size_t)e->bytes};
    return 0;
}

/* A local header has 30 bytes before the payload, which nothing else uses
 * (the directory checked that), so that a payload can move back by up to
 * ZIPFILE_ALIGN - 1. */
static int read_stored(struct zipfile *zip, struct zipfile_entry *e,
                       struct infer_error *err, struct zipfile_data *out)
{
    unsigned char *data = zip->blob->data + e->at;
    size_t over = (uintptr_t)data % ZIPFILE_ALIGN;

    if (!e->checked) {
        uint32_t crc = crc_of(data, e->bytes);

        if (crc != e->crc)
            return wrong_crc(e, crc, err);
        e->checked = true;
        if (over) {
            memmove(data - over, data, (size_t)e->bytes);
            data -= over;
            e->at -= over;
        }
    }
    *out = (struct zipfile_data){blob_ref(zip->blob), data, (size_t)e->bytes};
    return 0;
}

int zipfile_read(struct zipfile *zip, size_t i, struct infer_error *err,
                 struct zipfile_data *out)
{
    struct zipfile_entry *e = &zip->entry[i];

    if (e->method == 0)
        return read_stored(zip, e, err, out);
    return read_deflated(zip, e, err, out);
}

void zipfile_data_clear(struct zipfile_data *data)
{
    blob_unref(data->blob);
    *data = (struct zipfile_data){0};
}

void zipfile_close(struct zipfile *zip)
{
    size_t i;

    for (i = 0; i < zip->count; i++)
        free(zip->entry[i].name);
    free(zip->entry);
    free(zip->by_name);
    blob_unref(zip->blob);
    *zip = (struct zipfile){0};
}
