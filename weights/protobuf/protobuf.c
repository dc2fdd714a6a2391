/* SPDX-License-Identifier: Apache-2.0 */
/* The protobuf wire format: see protobuf.h. */
#include "weights/protobuf/protobuf.h"

#include <string.h>

#include "kernels/base/error.h"

/* A field number has 29 bits. */
#define PB_MAX_FIELD 0x1fffffffu

bool pb_span_is(struct pb_span s, const char *text)
{
    return s.bytes == strlen(text) &&
           (s.bytes == 0 || memcmp(s.data, text, s.bytes) == 0);
}

int pb_span_order(const void *span, const void *row)
{
    const struct pb_span *s = span;
    const char *text = *(const char *const *)row;
    const size_t own = strlen(text), n = own < s->bytes ? own : s->bytes;
    const int order = n ? memcmp(s->data, text, n) : 0;

    return order ? order : (s->bytes > own) - (s->bytes < own);
}

void pb_open(struct pb_reader *r, unsigned char *data, size_t bytes)
{
    r->start = data;
    r->at = data;
    r->end = data + bytes;
    r->depth = 0;
}

static unsigned long long offset_of(const struct pb_reader *r,
                                    const unsigned char *at)
{
    return (unsigned long long)(at - r->start);
}

int pb_enter(const struct pb_reader *r, const struct pb_field *f,
             struct infer_error *err, struct pb_reader *out)
{
    int rc = pb_expect(r, f, PB_BYTES, "a message", err);

    if (rc < 0)
        return rc;
    if (r->depth >= PB_MAX_DEPTH)
        return error_set(err, INFER_EFORMAT,
                         "byte %llu: messages nest deeper than %d",
                         offset_of(r, f->tag), PB_MAX_DEPTH);
    out->start = r->start;
    out->at = f->span.data;
    out->end = f->span.data + f->span.bytes;
    out->depth = r->depth + 1;
    return 0;
}

/* Reads a varint of at most 10 bytes that fits 64 bits.  Longer spellings of
 * small numbers are legal.  Returns bytes used, or 0 where it is malformed. */
static size_t varint(const unsigned char *p, const unsigned char *end,
                     uint64_t *out)
{
    uint64_t value = 0;
    size_t i;

    for (i = 0; i < 10 && p + i < end; i++) {
        value |= (uint64_t)(p[i] & 0x7f) << (7 * i);
        if (!(p[i] & 0x80)) {
            if (i == 9 && p[i] > 1)
                return 0; /* above 2^64 */
            *out = value;
            return i + 1;
        }
    }
    return 0;
}

static uint64_t little_endian(const unsigned char *p, size_t n)
{
    uint64_t value = 0;
    size_t i;

    for (i = 0; i < n; i++)
        value |= (uint64_t)p[i] << (8 * i);
    return value;
}

static int malformed(const struct pb_reader *r, const unsigned char *at,
                     const char *what, struct infer_error *err)
{
    return error_set(err, INFER_EFORMAT, "byte %llu: %s", offset_of(r, at),
                     what);
}

/* Reads the payload that follows a tag. */
static int payload(struct pb_reader *r, struct pb_field *f,
                   struct infer_error *err)
{
    uint64_t length;
    size_t n;

    f->value = 0;
    f->span.data = r->at;
    f->span.bytes = 0;
    switch (f->wire) {
    case PB_VARINT:
        n = varint(r->at, r->end, &f->value);
        if (n == 0)
            return malformed(r, f->tag, "malformed or cut off number", err);
        f->span.bytes = n;
        break;
    case PB_FIXED32:
    case PB_FIXED64:
        n = f->wire == PB_FIXED32 ? 4 : 8;
        if ((size_t)(r->end - r->at) < n)
            return malformed(r, f->tag, "number is cut off", err);
        f->value = little_endian(r->at, n);
        f->span.bytes = n;
        break;
    case PB_BYTES:
        n = varint(r->at, r->end, &length);
        if (n == 0)
            return malformed(r, f->tag, "malformed length", err);
        r->at += n;
        if (length > (uint64_t)(r->end - r->at))
            return error_set(err, INFER_EFORMAT,
                             "byte %llu: field of %llu bytes, but only %llu "
                             "are left: the file is cut short or damaged",
                             offset_of(r, f->tag), (unsigned long long)length,
                             (unsigned long long)(r->end - r->at));
        f->span.data = r->at;
        f->span.bytes = (size_t)length;
        break;
    }
    r->at += f->span.bytes;
    return 1;
}

int pb_next(struct pb_reader *r, struct pb_field *out, struct infer_error *err)
{
    struct pb_field f;
    uint64_t tag;
    size_t n;
    int rc;

    if (r->at == r->end)
        return 0;
    memset(&f, 0, sizeof(f));
    f.tag = r->at;
    n = varint(r->at, r->end, &tag);
    if (n == 0)
        return malformed(r, f.tag, "malformed field tag", err);
    if ((tag >> 3) == 0 || (tag >> 3) > PB_MAX_FIELD)
        return malformed(r, f.tag, "field number out of range", err);
    if ((tag & 7) == 3 || (tag & 7) == 4)
        return malformed(r, f.tag, "protobuf groups are not supported", err);
    if ((tag & 7) > 5)
        return malformed(r, f.tag, "unknown wire type", err);
    f.number = (uint32_t)(tag >> 3);
    f.wire = (enum pb_wire)(tag & 7);
    r->at += n;
    rc = payload(r, &f, err);
    if (rc > 0)
        *out = f;
    return rc;
}

int pb_expect(const struct pb_reader *r, const struct pb_field *f,
              enum pb_wire wire, const char *what, struct infer_error *err)
{
    if (f->wire == wire)
        return 0;
    return error_set(err, INFER_EFORMAT,
                     "byte %llu: field %u has wire type %d, but %s needs %d",
                     offset_of(r, f->tag), f->number, (int)f->wire, what,
                     (int)wire);
}

int pb_count(const struct pb_reader *r, const struct pb_field *f,
             enum pb_wire wire, const char *what, struct infer_error *err,
             size_t *out)
{
    size_t width = wire == PB_FIXED32 ? 4 : 8;
    size_t count = 0, at;

    if (f->wire == wire) {
        *out = 1;
        return 0;
    }
    if (f->wire != PB_BYTES)
        return pb_expect(r, f, wire, what, err);
    if (wire != PB_VARINT) {
        if (f->span.bytes % width != 0)
            return malformed(r, f->tag, "packed array ends inside a number",
                             err);
        *out = f->span.bytes / width;
        return 0;
    }
    for (at = 0; at < f->span.bytes; count++) {
        uint64_t ignored;
        size_t n =
            varint(f->span.data + at, f->span.data + f->span.bytes, &ignored);

        if (n == 0)
            return malformed(r, f->tag, "malformed number in packed array",
                             err);
        at += n;
    }
    *out = count;
    return 0;
}

bool pb_item(const struct pb_field *f, enum pb_wire wire, size_t *at,
             uint64_t *out)
{
    size_t n;

    if (*at >= f->span.bytes)
        return false;
    if (wire == PB_VARINT) {
        n = varint(f->span.data + *at, f->span.data + f->span.bytes, out);
    } else {
        n = wire == PB_FIXED32 ? 4 : 8;
        *out = little_endian(f->span.data + *at, n);
    }
    *at += n;
    return n != 0;
}

int pb_each(struct pb_reader *r, pb_field_fn *fn, void *user,
            struct infer_error *err)
{
    struct pb_field f;
    int rc;

    while ((rc = pb_next(r, &f, err)) > 0)
        if ((rc = fn(user, r, &f, err)) < 0)
            return rc;
    return rc;
}

int pb_each_in(const struct pb_reader *r, const struct pb_field *f,
               pb_field_fn *fn, void *user, struct infer_error *err)
{
    struct pb_reader inner;
    int rc = pb_enter(r, f, err, &inner);

    return rc < 0 ? rc : pb_each(&inner, fn, user, err);
}
