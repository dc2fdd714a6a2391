/* SPDX-License-Identifier: Apache-2.0 */
/* Mutator of FlatBuffers (TensorFlow Lite): walks from the root along offsets,
 * as a reader does, and changes a number, a length, an offset or a table's list
 * of fields where it stops.  The schema is not known: a place is taken for a
 * table where its list of fields lies in the file, and for a vector where its
 * elements do. */
#include <stdbool.h>

#include "tests/fuzz/mutate/mutate.h"

#define MAX_STEPS 16

struct buffer {
    uint8_t *data;
    size_t size;
    unsigned state;
};

static unsigned below(struct buffer *b, size_t n)
{
    return n ? mutate_random(&b->state) % (unsigned)n : 0;
}

static unsigned read16(const struct buffer *b, size_t at)
{
    return b->data[at] | (unsigned)b->data[at + 1] << 8;
}

static uint32_t read32(const struct buffer *b, size_t at)
{
    return read16(b, at) | (uint32_t)read16(b, at + 2) << 16;
}

static void write32(struct buffer *b, size_t at, uint32_t v)
{
    for (size_t i = 0; i < 4 && at + i < b->size; i++)
        b->data[at + i] = (uint8_t)(v >> 8 * i);
}

/* Where an offset leads; 0: out of the file. */
static size_t target(const struct buffer *b, size_t slot)
{
    const size_t to =
        slot + 4 <= b->size ? slot + (size_t)read32(b, slot) : SIZE_MAX;

    return to > slot && b->size >= 4 && to <= b->size - 4 ? to : 0;
}

/* The place of a table's list of fields and their number; 0: no table. */
static int fields(const struct buffer *b, size_t table, size_t *list)
{
    const int64_t at = table && table + 4 <= b->size
                           ? (int64_t)table - (int32_t)read32(b, table)
                           : -1;
    size_t bytes;

    if (at < 0 || (size_t)at + 4 > b->size)
        return 0;
    bytes = read16(b, (size_t)at);
    *list = (size_t)at + 4;
    return bytes < 4 || bytes % 2 || bytes > 256 || bytes > b->size - (size_t)at
               ? 0
               : (int)(bytes - 4) / 2;
}

/* Elements of 1 byte that a vector has; 0: no vector. */
static size_t elements(const struct buffer *b, size_t vector)
{
    const uint32_t n = vector ? read32(b, vector) : 0;

    return n <= b->size - vector - 4 ? n : 0;
}

static bool is_table(const struct buffer *b, size_t at)
{
    size_t list;

    return fields(b, at, &list) > 0;
}

static void change_number(struct buffer *b, size_t at)
{
    static const uint32_t some[] = {
        0,         1,          2,          3,          4,          7,
        127,       128,        255,        0x7fffffff, 0x80000000, 65536,
        0xfffffff, 0xffffffff, 0x7fc00000, 0x3f800000};
    const unsigned way = below(b, 4);

    if (at + 4 > b->size)
        return;
    if (way == 0)
        b->data[at] = (uint8_t)below(b, 160);
    else if (way == 1)
        write32(b, at, read32(b, at) + below(b, 5) - 2);
    else
        write32(b, at, some[below(b, sizeof some / sizeof some[0])]);
}

/* A field that is not there, or another one's place. */
static void change_fields(struct buffer *b, size_t list, int n)
{
    const size_t one = list + 2 * (size_t)below(b, (size_t)n);
    const size_t other = list + 2 * (size_t)below(b, (size_t)n);
    const bool absent = below(b, 2);

    b->data[one] = absent ? 0 : b->data[other];
    b->data[one + 1] = absent ? 0 : b->data[other + 1];
}

/* Lets an offset lead to where another one of the file does. */
static void redirect(struct buffer *b, size_t slot)
{
    for (int i = 0; i < 64; i++) {
        const size_t to = target(b, 4 * (size_t)below(b, b->size / 4));

        if (to > slot && is_table(b, to)) {
            write32(b, slot, (uint32_t)(to - slot));
            return;
        }
    }
    change_number(b, slot);
}

/* Changes a vector of `bytes` bytes at least, or goes on to one of its tables:
 * *table becomes its place. */
static bool enter_vector(struct buffer *b, size_t vector, size_t *table)
{
    const size_t n = elements(b, vector);
    const size_t slot = vector + 4 + 4 * (size_t)below(b, n);
    const size_t to = 4 * n <= b->size - vector - 4 ? target(b, slot) : 0;

    if (!is_table(b, to) || below(b, 12) == 0) {
        if (below(b, 4) == 0)
            change_number(b, vector);
        else if (is_table(b, to))
            redirect(b, slot);
        else
            change_number(b, slot < b->size ? slot : vector + 4);
        return false;
    }
    *table = to;
    return true;
}

static void walk(struct buffer *b)
{
    size_t table = target(b, 0), list;

    for (int step = 0; step < MAX_STEPS; step++) {
        const int n = fields(b, table, &list);
        size_t slot, to;

        if (n == 0 || below(b, 24) == 0) {
            if (n > 0)
                change_fields(b, list, n);
            return;
        }
        slot = table + read16(b, list + 2 * (size_t)below(b, (size_t)n));
        if (slot == table) /* an absent field: another one */
            continue;
        to = target(b, slot);
        if (is_table(b, to) && below(b, 12) != 0) {
            table = to;
        } else if (is_table(b, to)) {
            redirect(b, slot);
            return;
        } else if (elements(b, to) == 0) {
            change_number(b, slot);
            return;
        } else if (!enter_vector(b, to, &table)) {
            return;
        }
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size,
                               unsigned seed)
{
    struct buffer b = {data, size, mutate_seed(seed)};
    int changes;

    mutate_random(&b.state);
    if (size < 8 || below(&b, 16) == 0)
        return LLVMFuzzerMutate(data, size, max_size);
    changes = 1 + (int)below(&b, 3);
    while (changes-- > 0)
        walk(&b);
    return size;
}
