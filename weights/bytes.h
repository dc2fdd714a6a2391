/* SPDX-License-Identifier: Apache-2.0 */
/* Reading bytes of untrusted files: unaligned little- and big-endian loads and
 * a cursor that never passes its end. */
#ifndef WEIGHTS_BYTES_H
#define WEIGHTS_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline uint16_t bytes_le16(const unsigned char *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t bytes_le32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
           (uint32_t)p[3] << 24;
}

static inline uint64_t bytes_le64(const unsigned char *p)
{
    return (uint64_t)bytes_le32(p) | (uint64_t)bytes_le32(p + 4) << 32;
}

/* A window of memory and a place in it.  A read that does not fit returns
 * false (or NULL) and moves nothing. */
struct bytes {
    const unsigned char *data;
    size_t bytes;
    size_t at; /* <= bytes */
};

static inline struct bytes bytes_over(const void *data, size_t bytes)
{
    return (struct bytes){(const unsigned char *)data, bytes, 0};
}

static inline size_t bytes_left(const struct bytes *b)
{
    return b->bytes - b->at;
}

/* The next n bytes in place, or NULL.  n may come from the file unchecked. */
static inline const unsigned char *bytes_take(struct bytes *b, uint64_t n)
{
    const unsigned char *p = b->data + b->at;

    if (n > bytes_left(b))
        return NULL;
    b->at += (size_t)n;
    return p;
}

static inline bool bytes_seek(struct bytes *b, uint64_t at)
{
    if (at > b->bytes)
        return false;
    b->at = (size_t)at;
    return true;
}

/* bytes_u8() and so on: the next number; false at the end. */
#define BYTES_NUMBER(name, type, value)                                        \
    static inline bool bytes_##name(struct bytes *b, type *out)                \
    {                                                                          \
        const unsigned char *p = bytes_take(b, sizeof(type));                  \
                                                                               \
        if (p)                                                                 \
            *out = (value);                                                    \
        return p != NULL;                                                      \
    }
BYTES_NUMBER(u8, uint8_t, *p)
BYTES_NUMBER(u16, uint16_t, bytes_le16(p))
BYTES_NUMBER(u32, uint32_t, bytes_le32(p))
BYTES_NUMBER(u64, uint64_t, bytes_le64(p))
#undef BYTES_NUMBER

/* A little-endian unsigned integer of size 1 to 8 bytes. */
static inline bool bytes_uint(struct bytes *b, unsigned size, uint64_t *out)
{
    const unsigned char *p;
    uint64_t v = 0;
    unsigned i;

    if (size < 1 || size > 8 || !(p = bytes_take(b, size)))
        return false;
    for (i = 0; i < size; i++)
        v |= (uint64_t)p[i] << (8 * i);
    *out = v;
    return true;
}

/* Steps over white space in a text, from *at on. */
void bytes_skip_space(const unsigned char *text, size_t bytes, size_t *at);
/* The same, then over this character; false where another one stands there. */
bool bytes_take_char(const unsigned char *text, size_t bytes, size_t *at,
                     char wanted);

/* Reverses the bytes of each of n elements of size bytes, in place. */
void bytes_swap(void *data, size_t n, size_t size);

#endif
