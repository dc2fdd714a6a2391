/* SPDX-License-Identifier: Apache-2.0 */
/* HDF5: object headers of both versions, and shared messages. */
#include <string.h>

#include "weights/hdf5/internal.h"

/* One stretch of messages: the first chunk or a continuation. */
struct stretch {
    uint64_t address, bytes;
};

/* While a header is read. */
struct header {
    struct hdf5_file *f;
    struct hdf5_object *out;
    unsigned version;
    bool creation_order; /* version 2: two more bytes a message */
    struct stretch *next;
    size_t n_next, next_capacity;
    uint64_t continued; /* bytes of all continuations so far */
};

static bool is_known(unsigned type)
{
    return type <= HDF5_MSG_LAST && type != 0x09; /* 0x09 is for tests */
}

static int add_continuation(struct header *h, const unsigned char *data,
                            size_t bytes, struct infer_error *err)
{
    struct hdf5_cursor c = hdf5_cursor(data, bytes);
    struct stretch s;

    s.address = hdf5_address(&c, h->f);
    s.bytes = hdf5_length(&c, h->f);
    if (c.bad)
        return hdf5_malformed(err, h->out->address,
                              "continuation message cut short");
    /* Continuations that add up to more than the file are a loop. */
    h->continued += s.bytes < h->f->bytes ? s.bytes : h->f->bytes;
    if (s.bytes == 0 || h->continued > h->f->bytes)
        return hdf5_malformed(err, h->out->address,
                              "object header continues in a loop");
    const int rc = hdf5_grow(h->f, (void **)&h->next, h->n_next,
                             &h->next_capacity, sizeof *h->next, err);
    if (rc == 0)
        h->next[h->n_next++] = s;
    return rc;
}

static int add_message(struct header *h, unsigned type, unsigned flags,
                       const unsigned char *data, size_t bytes,
                       struct infer_error *err)
{
    struct hdf5_object *o = h->out;

    if (type == HDF5_MSG_NIL)
        return 0;
    if (type == HDF5_MSG_CONTINUATION)
        return add_continuation(h, data, bytes, err);
    if (!is_known(type)) {
        if (flags & HDF5_MSG_FLAG_MUST_KNOW)
            return hdf5_unsupported(err, o->address,
                                    "object header message 0x%02x", type);
        return 0;
    }
    const int rc = hdf5_grow(h->f, (void **)&o->message, o->count, &o->capacity,
                             sizeof *o->message, err);
    if (rc == 0)
        o->message[o->count++] =
            (struct hdf5_message){type, flags, data, bytes};
    return rc;
}

static int read_messages(struct header *h, uint64_t address,
                         const unsigned char *data, size_t bytes,
                         struct infer_error *err)
{
    struct hdf5_cursor c = hdf5_cursor(data, bytes);
    const size_t head = h->version == 1 ? 8 : h->creation_order ? 6 : 4;

    /* Fewer bytes than a message head are a gap. */
    while (hdf5_left(&c) >= head) {
        const uint64_t at = address + (uint64_t)(c.at - data);
        const unsigned type = (unsigned)hdf5_uint(&c, h->version == 1 ? 2 : 1);
        const size_t size = (size_t)hdf5_uint(&c, 2);
        const unsigned flags = (unsigned)hdf5_uint(&c, 1);
        if (h->version == 1)
            hdf5_skip(&c, 3);
        else if (h->creation_order)
            hdf5_skip(&c, 2);
        const unsigned char *body = hdf5_skip(&c, size);
        if (body == NULL)
            return hdf5_malformed(err, at,
                                  "message 0x%02x of %zu bytes reaches past "
                                  "its object header",
                                  type, size);
        const int rc = add_message(h, type, flags, body, size, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int read_continuation(struct header *h, struct stretch s,
                             struct infer_error *err)
{
    const unsigned char *data;
    int rc = hdf5_block(h->f, s.address, s.bytes, "object header continuation",
                        err, &data);

    if (rc < 0)
        return rc;
    if (h->version == 1)
        return read_messages(h, s.address, data, (size_t)s.bytes, err);
    if (s.bytes < 8 || memcmp(data, "OCHK", 4) != 0)
        return hdf5_malformed(err, s.address,
                              "no object header continuation here");
    rc = hdf5_check(s.address, data, (size_t)s.bytes - 4,
                    "object header continuation", err);
    if (rc < 0)
        return rc;
    return read_messages(h, s.address + 4, data + 4, (size_t)s.bytes - 8, err);
}

/* Version 1: version, reserved, number of messages, references, bytes of the
 * first chunk, four bytes of padding.  The number is not relied upon: some
 * versions of the library wrote it wrong. */
static int read_first1(struct header *h, uint64_t address,
                       struct infer_error *err)
{
    const unsigned char *p;
    int rc = hdf5_block(h->f, address, 16, "object header", err, &p);

    if (rc < 0)
        return rc;
    struct hdf5_cursor c = hdf5_cursor(p + 8, 4);
    const uint64_t bytes = hdf5_uint(&c, 4);
    rc = hdf5_block(h->f, address + 16, bytes, "object header", err, &p);
    if (rc < 0)
        return rc;
    return read_messages(h, address + 16, p, (size_t)bytes, err);
}

/* Version 2: signature, version, flags, optional times and attribute limits,
 * bytes of the first chunk in 1 to 8 bytes, messages, checksum. */
static int read_first2(struct header *h, uint64_t address,
                       struct infer_error *err)
{
    const unsigned char *p;
    int rc = hdf5_block(h->f, address, 6, "object header", err, &p);

    if (rc < 0)
        return rc;
    const unsigned flags = p[5];
    if (p[4] != 2)
        return hdf5_unsupported(err, address, "object header version %u", p[4]);
    const unsigned width = 1u << (flags & 3);
    const size_t head =
        6 + (flags & 0x20 ? 16u : 0u) + (flags & 0x10 ? 4u : 0u);
    rc = hdf5_block(h->f, address, head + width, "object header", err, &p);
    if (rc < 0)
        return rc;
    struct hdf5_cursor c = hdf5_cursor(p + head, width);
    const uint64_t bytes = hdf5_uint(&c, width);
    if (bytes > h->f->bytes)
        return hdf5_malformed(err, address,
                              "object header larger than the file");
    const size_t start = head + width;
    rc = hdf5_block(h->f, address, start + bytes + 4, "object header", err, &p);
    if (rc < 0)
        return rc;
    rc = hdf5_check(address, p, start + (size_t)bytes, "object header", err);
    if (rc < 0)
        return rc;
    h->creation_order = (flags & 4) != 0;
    return read_messages(h, address + start, p + start, (size_t)bytes, err);
}

int hdf5_object_read(struct hdf5_file *f, uint64_t address,
                     struct infer_error *err, struct hdf5_object *out)
{
    struct header h = {.f = f, .out = out};
    const unsigned char *p;

    memset(out, 0, sizeof *out);
    out->address = address;
    int rc = hdf5_block(f, address, 4, "object header", err, &p);
    if (rc < 0)
        return rc;
    if (memcmp(p, "OHDR", 4) == 0) {
        h.version = 2;
        rc = read_first2(&h, address, err);
    } else if (p[0] == 1) {
        h.version = 1;
        rc = read_first1(&h, address, err);
    } else {
        rc = hdf5_malformed(err, address, "no object header here");
    }
    for (size_t i = 0; rc == 0 && i < h.n_next; i++)
        rc = read_continuation(&h, h.next[i], err);
    hdf5_release(f, h.next, h.next_capacity * sizeof *h.next);
    if (rc < 0)
        hdf5_object_clear(f, out);
    return rc;
}

void hdf5_object_clear(struct hdf5_file *f, struct hdf5_object *object)
{
    hdf5_release(f, object->message,
                 object->capacity * sizeof *object->message);
    memset(object, 0, sizeof *object);
}

enum hdf5_object_kind hdf5_object_kind(const struct hdf5_object *object)
{
    for (size_t i = 0; i < object->count; i++)
        if (object->message[i].type == HDF5_MSG_LAYOUT)
            return HDF5_DATASET;
    for (size_t i = 0; i < object->count; i++)
        if (object->message[i].type == HDF5_MSG_TYPE)
            return HDF5_NAMED_TYPE;
    return HDF5_GROUP;
}

int hdf5_object_message(const struct hdf5_object *object, unsigned type,
                        struct infer_error *err,
                        const struct hdf5_message **out)
{
    *out = NULL;
    for (size_t i = 0; i < object->count; i++) {
        if (object->message[i].type != type)
            continue;
        if (*out != NULL)
            return hdf5_malformed(err, object->address,
                                  "object has two messages 0x%02x", type);
        *out = &object->message[i];
    }
    return 0;
}

/* A shared message names the object header of a named type, or an entry of the
 * file's table of shared messages. */
int hdf5_resolve_shared(struct hdf5_file *f, unsigned type,
                        const unsigned char *data, size_t bytes,
                        struct infer_error *err, struct hdf5_message *out)
{
    struct hdf5_cursor c = hdf5_cursor(data, bytes);
    const unsigned version = (unsigned)hdf5_uint(&c, 1);
    const unsigned where = (unsigned)hdf5_uint(&c, 1);

    if (version < 1 || version > 3)
        return hdf5_malformed(err, HDF5_UNDEFINED,
                              "shared message of version %u", version);
    if (version == 3 && where == 1)
        return hdf5_unsupported(err, HDF5_UNDEFINED,
                                "message kept in the shared message table");
    if (version == 1)
        hdf5_skip(&c, 6);
    const uint64_t address = hdf5_address(&c, f);
    if (c.bad)
        return hdf5_malformed(err, HDF5_UNDEFINED, "shared message cut short");
    struct hdf5_object object;
    int rc = hdf5_object_read(f, address, err, &object);
    if (rc < 0)
        return rc;
    const struct hdf5_message *m;
    rc = hdf5_object_message(&object, type, err, &m);
    if (rc == 0 && m == NULL)
        rc = hdf5_malformed(err, address, "shared message 0x%02x is not here",
                            type);
    /* A shared message that is shared again could go on for ever. */
    if (rc == 0 && (m->flags & HDF5_MSG_FLAG_SHARED))
        rc = hdf5_malformed(err, address, "shared message is shared again");
    if (rc == 0)
        *out = *m; /* its data lie in the file, not in the object */
    hdf5_object_clear(f, &object);
    return rc;
}

int hdf5_object_shared(struct hdf5_file *f, const struct hdf5_object *object,
                       unsigned type, struct infer_error *err,
                       struct hdf5_message *out, bool *found)
{
    const struct hdf5_message *m;
    const int rc = hdf5_object_message(object, type, err, &m);

    *found = rc == 0 && m != NULL;
    if (rc < 0 || m == NULL)
        return rc;
    if (m->flags & HDF5_MSG_FLAG_SHARED)
        return hdf5_resolve_shared(f, type, m->data, m->bytes, err, out);
    *out = *m;
    return 0;
}
