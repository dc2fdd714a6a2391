/* SPDX-License-Identifier: Apache-2.0 */
/*
 * numpy arrays: one (.npy) or a zip archive of them (.npz).
 *
 *     0   "\x93NUMPY"
 *     6   version, 1 to 3; minor version, 0
 *     8   header length: 2 bytes in version 1, 4 in 2 and 3
 *         header: a Python dictionary as text, see npy_header.c
 *         elements, dense
 *
 * Untrusted: the header is read by a grammar of literals, never evaluated;
 * arrays of objects, which hold pickles, are refused.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "kernels/base/text.h"
#include "weights/bytes.h"
#include "weights/numpy/npy.h"
#include "weights/numpy/numpy.h"
#include "weights/weights.h"
#include "weights/zip.h"

static bool is_npy(const unsigned char *data, size_t bytes)
{
    return bytes >= 6 && memcmp(data, "\x93NUMPY", 6) == 0;
}

static int probe_zip(const struct blob *blob)
{
    struct zipfile zip;
    size_t i, arrays = 0, first;
    int score = 0;

    if (zipfile_open((struct blob *)(uintptr_t)blob, NULL, &zip) == 0) {
        for (i = 0; i < zip.count; i++)
            arrays += text_ends(zip.entry[i].name, ".npy");
        score = arrays > 0 ? 80 : 0;
        zipfile_close(&zip);
        return score;
    }
    if (blob->bytes >= 30) {
        first = bytes_le16(blob->data + 26);
        if (first <= blob->bytes - 30 &&
            text_part_ends((const char *)blob->data + 30, first, ".npy"))
            score = 60;
    }
    return score;
}

static int probe(const struct weights_file *file)
{
    if (is_npy(file->blob->data, file->blob->bytes))
        return 100;
    return zipfile_probe(file->blob) ? probe_zip(file->blob) : 0;
}

/* Finds and reads the header; in stands at the elements afterwards. */
static int read_header(struct bytes *in, struct infer_error *err,
                       struct npy_header *header)
{
    const unsigned char *text, *version;
    uint64_t length = 0;

    if (!is_npy(in->data, in->bytes))
        return error_set(err, INFER_EFORMAT, "it does not start as a .npy");
    bytes_take(in, 6);
    version = bytes_take(in, 2);
    if (!version)
        return error_set(err, INFER_EFORMAT, "the header is cut short");
    if (version[0] < 1 || version[0] > 3 || version[1] != 0)
        return error_set(err, INFER_EUNSUPPORTED,
                         ".npy version %d.%d is not supported (supported: "
                         "1.0, 2.0, 3.0)",
                         version[0], version[1]);
    if (!bytes_uint(in, version[0] == 1 ? 2 : 4, &length) ||
        !(text = bytes_take(in, length)))
        return error_set(err, INFER_EFORMAT,
                         "the header of %llu bytes does not fit into the file",
                         (unsigned long long)length);
    return npy_header_read(text, (size_t)length, version[0] == 3, err, header);
}

/* Elements of a blob as a constant: in place where they are aligned or can be
 * moved back over the header, of at least 10 bytes, that was read already. */
static int take_elements(struct blob *blob, unsigned char *data,
                         const struct npy_header *h, struct infer_error *err,
                         struct constant **out)
{
    size_t size = infer_dtype_size(h->dtype), bytes = 0, over;
    struct constant *c, *transposed;

    if (!checked_mul((size_t)h->count, size, &bytes))
        return error_set(err, INFER_EFORMAT, "its shape is beyond all memory");
    over = (uintptr_t)data % size;
    memmove(data - over, data, bytes);
    data -= over;
    numpy_settle(h->dtype, h->swapped, data, bytes);
    c = constant_in_blob(h->dtype, h->rank, h->dim, blob, data);
    if (c && h->fortran && h->rank > 1) {
        transposed = numpy_from_fortran(c);
        constant_unref(c);
        c = transposed;
    }
    if (!c)
        return error_set(err, INFER_EMEMORY, "out of memory");
    *out = c;
    return 0;
}

static int read_array(struct blob *blob, unsigned char *data, size_t bytes,
                      struct infer_error *err, struct constant **out)
{
    struct bytes in = bytes_over(data, bytes);
    struct npy_header header = {0};
    size_t wanted = 0;
    int rc = read_header(&in, err, &header);

    if (rc < 0)
        return rc;
    if (!checked_mul((size_t)header.count, infer_dtype_size(header.dtype),
                     &wanted) ||
        wanted != bytes_left(&in))
        return error_set(err, INFER_EFORMAT,
                         "%zu bytes of elements, but %lld of type %s are "
                         "declared",
                         bytes_left(&in), (long long)header.count,
                         infer_dtype_name(header.dtype));
    return take_elements(blob, data + in.at, &header, err, out);
}

/* ---- archives ------------------------------------------------------ */

static int read_member(struct zipfile *zip, size_t i, struct infer_error *err,
                       struct weights_import *out)
{
    const char *name = zip->entry[i].name;
    size_t length = strlen(name);
    struct constant *value = NULL;
    struct zipfile_data data;
    char *key;
    int rc = zipfile_read(zip, i, err, &data);

    if (rc < 0)
        return rc;
    rc = read_array(data.blob, data.data, data.bytes, err, &value);
    zipfile_data_clear(&data);
    if (rc < 0) {
        error_prefix(err, "array '%s'", name);
        return rc;
    }
    key = malloc(length);
    if (!key) {
        constant_unref(value);
        return error_set(err, INFER_EMEMORY, "out of memory");
    }
    memcpy(key, name, length - 4);
    key[length - 4] = 0;
    rc = weights_dict_add(&out->dict, key, value, err);
    free(key);
    return rc;
}

static int read_zip(struct blob *blob, struct infer_error *err,
                    struct weights_import *out)
{
    struct zipfile zip;
    size_t i;
    int rc = zipfile_open(blob, err, &zip);

    if (rc < 0)
        return rc;
    for (i = 0; rc == 0 && i < zip.count; i++) {
        if (zip.entry[i].directory)
            continue;
        if (!text_ends(zip.entry[i].name, ".npy"))
            rc = error_set(err, INFER_EFORMAT, "member '%s' is no .npy array",
                           zip.entry[i].name);
        else
            rc = read_member(&zip, i, err, out);
    }
    zipfile_close(&zip);
    if (rc == 0 && out->dict.count == 0)
        rc = error_set(err, INFER_EFORMAT, "the archive holds no array");
    snprintf(out->detail, sizeof out->detail, "archive of %zu arrays",
             out->dict.count);
    return rc;
}

static int read(struct weights_file *file,
                const struct weights_options *options, struct infer_error *err,
                struct weights_import *out)
{
    struct constant *value = NULL;
    int rc;

    (void)options;
    if (!is_npy(file->blob->data, file->blob->bytes))
        return read_zip(file->blob, err, out);
    rc = read_array(file->blob, file->blob->data, file->blob->bytes, err,
                    &value);
    if (rc < 0)
        return rc;
    snprintf(out->detail, sizeof out->detail, "one array");
    return weights_dict_add(&out->dict, "array", value, err);
}

const struct weights_format weights_format_npz = {
    .name = "npz",
    .description = "numpy arrays (.npz, .npy)",
    .probe = probe,
    .read = read,
};
