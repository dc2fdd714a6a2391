/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PyTorch files from before 1.6: five pickles, then the storages.
 *
 *     pickle   magic number 0x1950a86a20f9469cfc6c
 *     pickle   protocol 1001
 *     pickle   {"little_endian": True, "type_sizes": {...}, ...}
 *     pickle   the value; its tensors refer to storages
 *     pickle   list of the keys of the storages, in the order that follows
 *     each     int64 number of elements, then the elements
 *
 * The integers of the system that wrote the file are in its byte order; only
 * little-endian files are read.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "weights/bytes.h"
#include "weights/pytorch/torch.h"

#define ALIGN 8 /* of storages: the count before each has 8 bytes */

static const unsigned char magic[10] = {0x6c, 0xfc, 0x9c, 0x46, 0xf9,
                                        0x20, 0x6a, 0xa8, 0x50, 0x19};

bool torch_legacy_probe(const struct blob *blob)
{
    size_t i, n = sizeof magic;

    /* PROTO n, perhaps FRAME, LONG1 10: the number starts within 16 bytes. */
    for (i = 2; i < 16 && i + n <= blob->bytes; i++)
        if (blob->data[0] == 0x80 && memcmp(blob->data + i, magic, n) == 0)
            return true;
    return false;
}

/* Reads the next of the concatenated pickles. */
static int next_pickle(struct bytes *in, const char *what,
                       struct infer_error *err, struct pickle *out)
{
    int rc = pickle_read(in->data + in->at, bytes_left(in), err, out);

    if (rc < 0) {
        error_prefix(err, "%s, at byte %zu", what, in->at);
        return rc;
    }
    in->at += out->used;
    return 0;
}

static const struct pickle_node *root(const struct pickle *p)
{
    return pickle_at(p, p->root);
}

static int check_magic(struct bytes *in, struct infer_error *err)
{
    struct pickle p = {0};
    bool ok;
    int rc = next_pickle(in, "magic number", err, &p);

    if (rc < 0)
        return rc;
    ok = root(&p)->kind == PICKLE_BIGINT && root(&p)->count == sizeof magic &&
         memcmp(root(&p)->u.bytes, magic, sizeof magic) == 0;
    pickle_clear(&p);
    return ok ? 0 : error_set(err, INFER_EFORMAT, "the magic number is wrong");
}

static int check_protocol(struct bytes *in, struct infer_error *err)
{
    struct pickle p = {0};
    int64_t version;
    int rc = next_pickle(in, "protocol", err, &p);

    if (rc < 0)
        return rc;
    version = root(&p)->kind == PICKLE_INT ? root(&p)->u.integer : -1;
    pickle_clear(&p);
    if (version != 1001)
        return error_set(err, INFER_EUNSUPPORTED,
                         "legacy protocol %lld is not supported (supported: "
                         "1001)",
                         (long long)version);
    return 0;
}

/* The sizes of C types on the machine that wrote the file, of which only the
 * byte order matters: elements have fixed sizes by now. */
static int check_system(struct bytes *in, struct infer_error *err)
{
    struct pickle p = {0};
    int64_t little, sizes, item;
    bool ok = true;
    int rc = next_pickle(in, "system description", err, &p);

    if (rc < 0)
        return rc;
    little = pickle_find(&p, root(&p), "little_endian");
    if (little < 0 || pickle_at(&p, (uint32_t)little)->kind != PICKLE_BOOL)
        rc = error_set(err, INFER_EFORMAT,
                       "the description of the system is malformed");
    else if (!pickle_at(&p, (uint32_t)little)->u.integer)
        rc = error_set(err, INFER_EUNSUPPORTED,
                       "the file was written on a big-endian machine");
    sizes = rc == 0 ? pickle_find(&p, root(&p), "type_sizes") : -1;
    if (sizes >= 0) {
        const struct pickle_node *dict = pickle_at(&p, (uint32_t)sizes);

        item = pickle_find(&p, dict, "short");
        ok = item < 0 || pickle_at(&p, (uint32_t)item)->u.integer == 2;
        item = pickle_find(&p, dict, "int");
        ok = ok && (item < 0 || pickle_at(&p, (uint32_t)item)->u.integer == 4);
    }
    pickle_clear(&p);
    if (rc == 0 && !ok)
        rc = error_set(err, INFER_EUNSUPPORTED,
                       "the file was written where short and int have not 2 "
                       "and 4 bytes");
    return rc;
}

/* One storage: its count, and the elements, which move back by up to 7 bytes,
 * over the count, into alignment. */
static int take_storage(struct blob *blob, struct bytes *in,
                        struct torch_storage *s, struct infer_error *err)
{
    uint64_t count;
    size_t wanted = 0, over;
    unsigned char *data;
    int rc;

    if (s->loaded)
        return error_set(err, INFER_EFORMAT, "it is listed twice");
    rc = torch_storage_bytes(s, err, &wanted);
    if (rc < 0)
        return rc;
    if (!bytes_u64(in, &count))
        return error_set(err, INFER_EFORMAT,
                         "the file ends before its element count");
    if (count != s->count)
        return error_set(err, INFER_EFORMAT,
                         "it holds %lld elements, but its tensors say %lld",
                         (long long)count, (long long)s->count);
    data = blob->data + in->at;
    if (!bytes_take(in, wanted))
        return error_set(err, INFER_EFORMAT,
                         "the file ends before its %zu bytes", wanted);
    over = (uintptr_t)data % ALIGN;
    if (over)
        memmove(data - over, data, wanted);
    s->blob = blob_ref(blob);
    s->data = data - over;
    s->bytes = wanted;
    s->loaded = true;
    torch_storage_settle(s, false);
    return 0;
}

static int take_storages(struct torch_source *source, struct blob *blob,
                         struct bytes *in, const struct pickle *keys,
                         struct infer_error *err)
{
    const struct pickle_node *list = root(keys);
    uint32_t i;
    int rc;

    if (list->kind != PICKLE_LIST)
        return error_set(err, INFER_EFORMAT,
                         "the list of storages is malformed");
    if (list->count != source->storages)
        return error_set(err, INFER_EFORMAT,
                         "%u storages are listed, but tensors use %zu",
                         list->count, source->storages);
    for (i = 0; i < list->count; i++) {
        const struct pickle_node *key = pickle_at(keys, list->u.item[i]);
        struct torch_storage *s =
            key->kind == PICKLE_STR
                ? torch_source_find(source, key->u.bytes, key->count)
                : NULL;

        if (!s)
            return error_set(err, INFER_EFORMAT,
                             "storage %u of the list belongs to no tensor", i);
        rc = take_storage(blob, in, s, err);
        if (rc < 0) {
            error_prefix(err, "storage '%.*s'",
                         (int)(key->count < 64 ? key->count : 64),
                         (const char *)key->u.bytes);
            return rc;
        }
    }
    if (bytes_left(in) > 0)
        return error_set(err, INFER_EFORMAT,
                         "%zu bytes follow the last storage", bytes_left(in));
    return 0;
}

static int import_value(struct torch_source *source, struct blob *blob,
                        struct bytes *in, struct infer_error *err,
                        struct weights_import *out)
{
    struct pickle keys = {0};
    int rc = next_pickle(in, "list of storages", err, &keys);

    if (rc < 0)
        return rc;
    rc = take_storages(source, blob, in, &keys, err);
    pickle_clear(&keys);
    return rc < 0 ? rc : torch_import_state(source, err, out);
}

int torch_legacy_read(struct weights_file *file, struct infer_error *err,
                      struct weights_import *out)
{
    struct blob *blob = file->blob;
    struct bytes in = bytes_over(blob->data, blob->bytes);
    struct torch_source source;
    struct pickle value = {0};
    int rc;

    if ((rc = check_magic(&in, err)) < 0 ||
        (rc = check_protocol(&in, err)) < 0 ||
        (rc = check_system(&in, err)) < 0 ||
        (rc = next_pickle(&in, "value", err, &value)) < 0)
        return rc;
    rc = torch_source_init(&source, &value, blob->bytes, err);
    if (rc == 0) {
        rc = import_value(&source, blob, &in, err, out);
        torch_source_clear(&source);
    }
    pickle_clear(&value);
    snprintf(out->detail, sizeof out->detail, "legacy format, %zu tensors",
             out->dict.count);
    return rc;
}
