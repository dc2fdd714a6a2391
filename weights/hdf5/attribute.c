/* SPDX-License-Identifier: Apache-2.0 */
/* HDF5: attributes, in object headers and dense (fractal heap and B-tree). */
#include <string.h>

#include "weights/hdf5/internal.h"

/* A part of an attribute message; padded to 8 bytes in version 1. */
static const unsigned char *part(struct hdf5_cursor *c, unsigned version,
                                 size_t bytes)
{
    const unsigned char *p = hdf5_skip(c, bytes);

    if (version == 1)
        hdf5_skip(c, (8 - bytes % 8) % 8);
    return p;
}

static int attribute_type(struct hdf5_file *f, uint64_t address, bool shared,
                          const unsigned char *data, size_t bytes,
                          struct infer_error *err, struct hdf5_attribute *out)
{
    struct hdf5_message m = {.data = data, .bytes = bytes};

    if (shared) {
        const int rc =
            hdf5_resolve_shared(f, HDF5_MSG_TYPE, data, bytes, err, &m);
        if (rc < 0)
            return rc;
    }
    return hdf5_type_parse(f, address, m.data, m.bytes, err, &out->type);
}

/* Version, flags (1: shared type, 2: shared space), bytes of name, type and
 * space (2 each), version 3: character set; the three, then the data. */
static int parse_attribute(struct hdf5_file *f, uint64_t address,
                           const unsigned char *data, size_t bytes,
                           struct infer_error *err, struct hdf5_attribute *out)
{
    struct hdf5_cursor c = hdf5_cursor(data, bytes);
    const unsigned version = (unsigned)hdf5_uint(&c, 1);
    const unsigned flags = (unsigned)hdf5_uint(&c, 1);
    const size_t name_bytes = (size_t)hdf5_uint(&c, 2);
    const size_t type_bytes = (size_t)hdf5_uint(&c, 2);
    const size_t space_bytes = (size_t)hdf5_uint(&c, 2);

    memset(out, 0, sizeof *out);
    if (version < 1 || version > 3)
        return hdf5_malformed(err, address, "attribute of version %u", version);
    if (version == 3)
        hdf5_skip(&c, 1);
    const unsigned char *name = part(&c, version, name_bytes);
    const unsigned char *type = part(&c, version, type_bytes);
    const unsigned char *space = part(&c, version, space_bytes);
    if (c.bad || name_bytes == 0)
        return hdf5_malformed(err, address,
                              "attribute of %zu bytes, with parts of %zu, %zu "
                              "and %zu",
                              bytes, name_bytes, type_bytes, space_bytes);
    const unsigned char *end = memchr(name, 0, name_bytes);
    if (end == NULL || end == name)
        return hdf5_malformed(err, address,
                              "attribute with an empty or endless name");
    out->name = (const char *)name;
    out->name_bytes = (size_t)(end - name);
    if (version > 1 && (flags & 2))
        return hdf5_unsupported(err, address,
                                "attribute with a shared dataspace");
    int rc = attribute_type(f, address, version > 1 && (flags & 1), type,
                            type_bytes, err, out);
    if (rc == 0)
        rc = hdf5_space_parse(f, address, space, space_bytes, err, &out->space);
    if (rc < 0)
        return rc;
    out->bytes = hdf5_left(&c);
    out->data = hdf5_skip(&c, out->bytes);
    return 0;
}

/* Record of a name index: heap ID, message flags (1), creation order (4),
 * hash (4). */
static const struct hdf5_dense dense = {.what = "attribute",
                                        .index_bytes = 2,
                                        .record_type = 8,
                                        .after_id = 9,
                                        .has_flags = true};

struct each {
    hdf5_attribute_fn *fn;
    void *user;
};

static int dense_attribute(struct hdf5_file *f, uint64_t heap,
                           const unsigned char *data, size_t bytes, void *user,
                           struct infer_error *err)
{
    const struct each *each = user;
    struct hdf5_attribute a;
    int rc = parse_attribute(f, heap, data, bytes, err, &a);

    return rc < 0 ? rc : each->fn(each->user, &a, err);
}

int hdf5_attributes_each(struct hdf5_file *f, const struct hdf5_object *object,
                         hdf5_attribute_fn *fn, void *user,
                         struct infer_error *err)
{
    int rc = 0;

    for (size_t i = 0; i < object->count && rc == 0; i++) {
        const struct hdf5_message *m = &object->message[i];
        struct hdf5_attribute a;
        if (m->type == HDF5_MSG_ATTRIBUTE_INFO) {
            struct each each = {fn, user};

            rc = hdf5_dense_each(f, m, object->address, &dense, dense_attribute,
                                 &each, err);
        } else if (m->type == HDF5_MSG_ATTRIBUTE) {
            if (m->flags & HDF5_MSG_FLAG_SHARED)
                return hdf5_unsupported(
                    err, object->address,
                    "attribute kept in the shared message table");
            rc = hdf5_work(f, m->bytes, err);
            if (rc == 0)
                rc = parse_attribute(f, object->address, m->data, m->bytes, err,
                                     &a);
            if (rc == 0)
                rc = fn(user, &a, err);
        }
    }
    return rc;
}

struct search {
    const char *name;
    size_t name_bytes;
    struct hdf5_attribute *out;
};

static int match(void *user, const struct hdf5_attribute *a,
                 struct infer_error *err)
{
    struct search *s = user;

    (void)err;
    if (a->name_bytes != s->name_bytes ||
        memcmp(a->name, s->name, s->name_bytes) != 0)
        return 0;
    *s->out = *a;
    return 1;
}

int hdf5_attribute_find(struct hdf5_file *f, const struct hdf5_object *object,
                        const char *name, struct infer_error *err,
                        struct hdf5_attribute *out)
{
    struct search s = {name, strlen(name), out};

    return hdf5_attributes_each(f, object, match, &s, err);
}

/* Elements of an attribute, with their bytes known to be there. */
static int attribute_count(const struct hdf5_attribute *a,
                           struct infer_error *err, size_t *count)
{
    const int rc = hdf5_count(&a->type, &a->space, err, count);

    if (rc == 0 && *count * a->type.size > a->bytes)
        return error_set(err, INFER_EFORMAT,
                         "HDF5: attribute '%.*s' has %zu bytes for %zu "
                         "elements of %zu",
                         (int)(a->name_bytes & 0xff), a->name, a->bytes, *count,
                         a->type.size);
    return rc;
}

int hdf5_attribute_strings(struct hdf5_file *f, const struct hdf5_attribute *a,
                           struct infer_error *err, struct hdf5_strings *out)
{
    size_t count;

    memset(out, 0, sizeof *out);
    /* h5py writes an empty list of names as an empty array of doubles. */
    int rc = hdf5_count(&a->type, &a->space, err, &count);
    if (rc < 0 || count == 0)
        return rc;
    rc = attribute_count(a, err, &count);
    if (rc == 0)
        rc = hdf5_decode_strings(f, &a->type, a->data, count, err, out);
    if (rc < 0)
        error_prefix(err, "attribute '%.*s'", (int)(a->name_bytes & 0xff),
                     a->name);
    return rc;
}

int hdf5_attribute_numbers(struct hdf5_file *f, const struct hdf5_attribute *a,
                           struct infer_error *err, struct constant **out)
{
    int64_t dim[INFER_MAX_RANK];
    size_t count;
    int rank;

    if (a->type.kind != HDF5_NUMBER)
        return hdf5_unsupported(err, HDF5_UNDEFINED,
                                "attribute '%.*s' is not numeric",
                                (int)(a->name_bytes & 0xff), a->name);
    int rc = attribute_count(a, err, &count);
    if (rc == 0)
        rc = hdf5_shape(&a->type, &a->space, err, &rank, dim);
    if (rc == 0)
        rc = hdf5_work(f, count * a->type.size, err);
    if (rc < 0)
        return rc;
    if (a->space.null) {
        rank = 1;
        dim[0] = 0;
    }
    struct constant *c = constant_new(a->type.dtype, rank, dim);
    if (c == NULL)
        return error_set(err, INFER_EMEMORY, "no memory for an attribute");
    memcpy(c->data, a->data, count * a->type.size);
    hdf5_to_host(&a->type, c->data, count);
    *out = c;
    return 0;
}
