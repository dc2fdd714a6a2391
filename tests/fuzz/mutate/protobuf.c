/* SPDX-License-Identifier: Apache-2.0 */
/* Mutator of messages of Protocol Buffers (ONNX, TensorFlow, Caffe): changes a
 * field somewhere in the tree, and states the lengths of all messages round it
 * anew. */
#include "tests/fuzz/mutate/mutate.h"

#define MAX_FIELDS 256
#define MAX_DEPTH  8

struct field {
    uint64_t tag;
    const uint8_t *data; /* the value's bytes as they stand; of type 2 without
                          * their length */
    size_t bytes;
};

struct output {
    uint8_t *data;
    size_t bytes, room;
};

static void put(struct output *o, const void *data, size_t bytes)
{
    if (bytes > o->room - o->bytes)
        bytes = o->room - o->bytes;
    if (bytes > 0)
        memcpy(o->data + o->bytes, data, bytes);
    o->bytes += bytes;
}

static void put_varint(struct output *o, uint64_t v)
{
    do {
        const uint8_t b = (uint8_t)((v & 127) | (v > 127 ? 128 : 0));

        put(o, &b, 1);
        v >>= 7;
    } while (v > 0);
}

static int take_varint(const uint8_t *data, size_t size, size_t *at,
                       uint64_t *out)
{
    *out = 0;
    for (int shift = 0; shift < 64 && *at < size; shift += 7) {
        const uint8_t b = data[(*at)++];

        *out |= (uint64_t)(b & 127) << shift;
        if (b < 128)
            return 1;
    }
    return 0;
}

/* The fields of a message; -1 if the bytes are none. */
static int message_split(const uint8_t *data, size_t size, struct field *out)
{
    static const size_t fixed[8] = {0, 8, 0, 0, 0, 4, 0, 0};
    size_t at = 0;
    int n = 0;

    while (at < size && n < MAX_FIELDS) {
        struct field *f = &out[n++];
        uint64_t length;

        if (!take_varint(data, size, &at, &f->tag))
            return -1;
        f->data = data + at;
        if ((f->tag & 7) == 0) {
            if (!take_varint(data, size, &at, &length))
                return -1;
            f->bytes = (size_t)(data + at - f->data);
            continue;
        }
        length = fixed[f->tag & 7];
        if ((f->tag & 7) == 2 && !take_varint(data, size, &at, &length))
            return -1;
        if (length == 0 && (f->tag & 7) != 2)
            return -1;
        if (length > size - at)
            return -1;
        f->data = data + at;
        f->bytes = (size_t)length;
        at += f->bytes;
    }
    return at == size ? n : -1;
}

static void put_field(struct output *o, const struct field *f)
{
    put_varint(o, f->tag);
    if ((f->tag & 7) == 2)
        put_varint(o, f->bytes);
    put(o, f->data, f->bytes);
}

/* Another number in the place of a scalar; NULL: out of memory. */
static uint8_t *change_scalar(struct field *f, unsigned *state)
{
    static const uint64_t interesting[] = {
        0, 1, 2, 7, 255, UINT32_MAX, INT64_MAX, UINT64_MAX};
    const unsigned bit = mutate_random(state) % 64;
    struct output o = {.data = malloc(16), .room = 16};
    uint64_t value = 0;
    size_t at = 0;

    if (!o.data)
        return NULL;
    if ((f->tag & 7) != 0) { /* of 4 or 8 bytes */
        memcpy(o.data, f->data, f->bytes);
        o.data[bit / 8 % f->bytes] ^= (uint8_t)(1u << bit % 8);
        return o.data;
    }
    take_varint(f->data, f->bytes, &at, &value);
    put_varint(&o, mutate_random(state) % 2 ? interesting[bit % 8]
                                            : value ^ (uint64_t)1 << bit);
    f->bytes = o.bytes;
    return o.data;
}

/* A copy of a message with one change in it; *bytes becomes its size. */
static uint8_t *message_change(const uint8_t *data, size_t *bytes,
                               unsigned *state, int depth)
{
    struct field *field = malloc(MAX_FIELDS * sizeof *field);
    const int n =
        field && depth < MAX_DEPTH ? message_split(data, *bytes, field) : -1;
    const unsigned way = mutate_random(state) % 16;
    struct output o = {.room = *bytes + 512};
    uint8_t *copy = NULL;
    int at;

    if (n <= 0) {
        free(field);
        return mutate_copy(data, bytes, 16);
    }
    at = (int)(mutate_random(state) % (unsigned)n);
    o.data = malloc(o.room);
    if (way > 2 && (field[at].tag & 7) == 2)
        copy =
            message_change(field[at].data, &field[at].bytes, state, depth + 1);
    else if (way > 2)
        copy = change_scalar(&field[at], state);
    if (copy)
        field[at].data = copy;
    for (int i = 0; o.data && i < n; i++) {
        if (way == 0 && i == at) /* left out */
            continue;
        put_field(&o, &field[i]);
        if (way == 1 && i == at) /* twice */
            put_field(&o, &field[i]);
    }
    if (way == 2 && o.data) /* another one behind it */
        put_field(&o, &field[mutate_random(state) % (unsigned)n]);
    free(copy);
    free(field);
    *bytes = o.data ? o.bytes : 0;
    return o.data;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size,
                               unsigned seed)
{
    unsigned state = mutate_seed(seed);
    size_t bytes = size;
    uint8_t *changed;

    mutate_random(&state);
    if (mutate_random(&state) % 16 == 0)
        return LLVMFuzzerMutate(data, size, max_size);
    changed = message_change(data, &bytes, &state, 0);
    if (!changed || bytes == 0 || bytes > max_size) {
        free(changed);
        return LLVMFuzzerMutate(data, size, max_size);
    }
    memcpy(data, changed, bytes);
    free(changed);
    return bytes;
}
