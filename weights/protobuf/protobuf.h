/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bounded reader of the protobuf wire format (proto2/proto3, without
 * groups).  It walks the fields of one message inside a buffer, allocates
 * nothing and never reads outside the message.
 *
 *     struct pb_reader r;
 *     struct pb_field f;
 *     pb_open(&r, data, bytes);
 *     while ((status = pb_next(&r, &f, err)) > 0)
 *         switch (f.number) { ... }
 *
 * Fields that the caller does not know are skipped by ignoring them.  Messages
 * inside are opened only where the caller asks for it, with pb_enter(), so
 * nesting costs nothing until then; the depth is capped all the same.
 */
#ifndef WEIGHTS_PROTOBUF_PROTOBUF_H
#define WEIGHTS_PROTOBUF_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "include/infer.h"

#define PB_MAX_DEPTH 32

enum pb_wire { PB_VARINT = 0, PB_FIXED64 = 1, PB_BYTES = 2, PB_FIXED32 = 5 };

/* Part of the buffer: a string, a packed array or a message. */
struct pb_span {
    unsigned char *data;
    size_t bytes;
};

/* Whether the part is this text. */
bool pb_span_is(struct pb_span s, const char *text);
/* For bsearch(): orders a struct pb_span against the text to which the first
 * member of a table's row points. */
int pb_span_order(const void *span, const void *row);
/* The part's first `most` bytes as two arguments for %.*s. */
#define PB_TEXT(s, most)                                                       \
    (int)((s).bytes < (most) ? (s).bytes : (most)),                            \
        (s).bytes ? (char *)(s).data : ""

struct pb_reader {
    unsigned char *start; /* of the outermost message, for offsets in errors */
    unsigned char *at, *end;
    int depth;
};

struct pb_field {
    uint32_t number;
    enum pb_wire wire;
    unsigned char *tag;  /* where the field starts */
    uint64_t value;      /* varint, fixed32 and fixed64 as raw bits */
    struct pb_span span; /* PB_BYTES; the raw bytes of a fixed field */
};

void pb_open(struct pb_reader *r, unsigned char *data, size_t bytes);
/* Opens the message that field f of r holds. */
int pb_enter(const struct pb_reader *r, const struct pb_field *f,
             struct infer_error *err, struct pb_reader *out);

/* 1: *out is the next field; 0: the message ends; negative: EFORMAT naming the
 * byte offset. */
int pb_next(struct pb_reader *r, struct pb_field *out, struct infer_error *err);

/* Calls fn for each field of a message; a negative result ends it. */
typedef int pb_field_fn(void *user, const struct pb_reader *r,
                        const struct pb_field *f, struct infer_error *err);
int pb_each(struct pb_reader *r, pb_field_fn *fn, void *user,
            struct infer_error *err);
/* The same for the message that field f of r holds. */
int pb_each_in(const struct pb_reader *r, const struct pb_field *f,
               pb_field_fn *fn, void *user, struct infer_error *err);

/* EFORMAT unless the field has this wire type. */
int pb_expect(const struct pb_reader *r, const struct pb_field *f,
              enum pb_wire wire, const char *what, struct infer_error *err);

/* Elements of a repeated scalar field, packed or not.  `wire` is that of one
 * element.  pb_count() gives how many elements this field adds; pb_item()
 * walks them, *at starting at 0. */
int pb_count(const struct pb_reader *r, const struct pb_field *f,
             enum pb_wire wire, const char *what, struct infer_error *err,
             size_t *out);
/* Next element of a field that pb_count() accepted; false at the end. */
bool pb_item(const struct pb_field *f, enum pb_wire wire, size_t *at,
             uint64_t *out);

#endif
