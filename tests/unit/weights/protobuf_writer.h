/* SPDX-License-Identifier: Apache-2.0 */
/* Writes protobuf messages, right ones and wrong ones, for tests. */
#ifndef TESTS_UNIT_WEIGHTS_PROTOBUF_WRITER_H
#define TESTS_UNIT_WEIGHTS_PROTOBUF_WRITER_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A growing message; starts as {0}. */
struct pb_message {
    unsigned char *data;
    size_t size, capacity;
};

static inline void pb_raw(struct pb_message *m, const void *data, size_t size)
{
    if (!m->data || m->size + size > m->capacity) {
        m->capacity = 2 * (m->size + size) + 16;
        m->data = realloc(m->data, m->capacity);
        if (!m->data) {
            fprintf(stderr, "out of memory\n");
            exit(99);
        }
    }
    if (size)
        memcpy(m->data + m->size, data, size);
    m->size += size;
}

static inline void pb_free(struct pb_message *m)
{
    free(m->data);
    m->data = NULL;
    m->size = m->capacity = 0;
}

static inline void pb_varint(struct pb_message *m, uint64_t v)
{
    unsigned char byte;

    do {
        byte = (unsigned char)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));
        pb_raw(m, &byte, 1);
        v >>= 7;
    } while (v);
}

static inline void pb_tag(struct pb_message *m, unsigned number, unsigned wire)
{
    pb_varint(m, (uint64_t)number << 3 | wire);
}

static inline void pb_int(struct pb_message *m, unsigned number, int64_t v)
{
    pb_tag(m, number, 0);
    pb_varint(m, (uint64_t)v);
}

static inline void pb_bytes(struct pb_message *m, unsigned number,
                            const void *data, size_t size)
{
    pb_tag(m, number, 2);
    pb_varint(m, size);
    pb_raw(m, data, size);
}

static inline void pb_text(struct pb_message *m, unsigned number,
                           const char *text)
{
    pb_bytes(m, number, text, strlen(text));
}

static inline void pb_float(struct pb_message *m, unsigned number, float v)
{
    pb_tag(m, number, 5);
    pb_raw(m, &v, sizeof(v)); /* little-endian machines only, as the reader */
}

/* Adds a message inside another and releases it. */
static inline void pb_nested(struct pb_message *m, unsigned number,
                             struct pb_message *inner)
{
    pb_bytes(m, number, inner->data, inner->size);
    pb_free(inner);
}

#endif
