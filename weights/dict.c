/* SPDX-License-Identifier: Apache-2.0 */
/* Dictionaries of named tensors: an array in the order of the file and an
 * open-addressing index over it.  Names come from strangers, so that they are
 * hashed with a key that differs from run to run (SipHash-1-3): no file can
 * choose names that collide. */
#include "config.h"

#include "weights/weights.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kernels/checked.h"
#include "kernels/error.h"
#include "weights/bytes.h"

#define NO_ENTRY UINT32_MAX /* a slot that names no entry */

static uint64_t rotate(uint64_t x, int n)
{
    return x << n | x >> (64 - n);
}

static void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[0] = rotate(v[0], 32);
    v[2] += v[3];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[2] = rotate(v[2], 32);
}

/* SipHash with one round for each word and three to finish. */
static uint64_t hash_name(const uint64_t key[2], const char *name)
{
    const unsigned char *p = (const unsigned char *)name;
    size_t bytes = strlen(name), left = bytes, i;
    uint64_t v[4] = {key[0] ^ 0x736f6d6570736575u,
                     key[1] ^ 0x646f72616e646f6du,
                     key[0] ^ 0x6c7967656e657261u,
                     key[1] ^ 0x7465646279746573u};
    uint64_t word;

    for (; left >= 8; left -= 8, p += 8) {
        word = bytes_le64(p);
        v[3] ^= word;
        sip_round(v);
        v[0] ^= word;
    }
    word = (uint64_t)bytes << 56;
    for (i = 0; i < left; i++)
        word |= (uint64_t)p[i] << (8 * i);
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
    v[2] ^= 0xff;
    for (i = 0; i < 3; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

void weights_dict_init(struct weights_dict *dict)
{
    *dict = (struct weights_dict){0};
}

void weights_dict_clear(struct weights_dict *dict)
{
    size_t i;

    for (i = 0; i < dict->count; i++) {
        free(dict->entry[i].name);
        constant_unref(dict->entry[i].value);
    }
    for (i = 0; i < dict->stripped_count; i++)
        free(dict->stripped[i].name);
    free(dict->entry);
    free(dict->slot);
    free(dict->stripped);
    *dict = (struct weights_dict){0};
}

/* The slot that holds name, or the free one where it belongs. */
static size_t slot_of(const struct weights_dict *dict, const char *name)
{
    size_t mask = dict->slots - 1;
    size_t s = (size_t)hash_name(dict->key, name) & mask;

    while (dict->slot[s] != NO_ENTRY &&
           strcmp(dict->entry[dict->slot[s]].name, name) != 0)
        s = (s + 1) & mask;
    return s;
}

/* Unpredictable from a file; where the system gives no randomness, the clock
 * and the heap's address serve. */
static void choose_key(struct weights_dict *dict)
{
    struct timespec now = {0, 0};

    if (getentropy(dict->key, sizeof dict->key) == 0)
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    dict->key[0] = (uint64_t)now.tv_nsec * 0x9e3779b97f4a7c15u;
    dict->key[1] = (uint64_t)(uintptr_t)dict->slot ^ (uint64_t)now.tv_sec;
}

/* Room for one more entry: at most three quarters of the slots are taken. */
static bool make_room(struct weights_dict *dict)
{
    struct weights_entry *entry;
    size_t i, slots, capacity;
    uint32_t *slot;

    if (dict->count == dict->capacity) {
        if (dict->count >= NO_ENTRY / 2)
            return false;
        capacity = dict->capacity ? dict->capacity + dict->capacity / 2 : 16;
        entry = realloc(dict->entry, capacity * sizeof *entry);
        if (!entry)
            return false;
        dict->entry = entry;
        dict->capacity = capacity;
    }
    if (dict->slots && (dict->count + 1) <= dict->slots / 4 * 3)
        return true;
    slots = dict->slots ? dict->slots * 2 : 32;
    slot = malloc(slots * sizeof *slot);
    if (!slot)
        return false;
    memset(slot, 0xff, slots * sizeof *slot);
    free(dict->slot);
    dict->slot = slot;
    if (dict->slots == 0)
        choose_key(dict);
    dict->slots = slots;
    for (i = 0; i < dict->count; i++)
        dict->slot[slot_of(dict, dict->entry[i].name)] = (uint32_t)i;
    return true;
}

int weights_dict_add(struct weights_dict *dict, const char *name,
                     struct constant *value, struct infer_error *err)
{
    char *copy;
    size_t s;

    if (!make_room(dict) || !(copy = strdup(name))) {
        constant_unref(value);
        return error_set(err, INFER_EMEMORY, "tensor '%s': out of memory",
                         name);
    }
    s = slot_of(dict, name);
    if (dict->slot[s] != NO_ENTRY) {
        free(copy);
        constant_unref(value);
        return error_set(err, INFER_EFORMAT, "two tensors are named '%s'",
                         name);
    }
    dict->slot[s] = (uint32_t)dict->count;
    dict->entry[dict->count++] = (struct weights_entry){copy, value};
    return 0;
}

struct constant *weights_dict_find(const struct weights_dict *dict,
                                   const char *name)
{
    size_t s;

    if (dict->count == 0)
        return NULL;
    s = slot_of(dict, name);
    return dict->slot[s] == NO_ENTRY ? NULL : dict->entry[dict->slot[s]].value;
}

int weights_dict_strip(struct weights_dict *dict, const char *name,
                       size_t bytes, const char *why)
{
    struct weights_stripped *s;
    size_t capacity;
    char *copy;

    if (dict->stripped_count == dict->stripped_capacity) {
        capacity =
            dict->stripped_capacity ? dict->stripped_capacity * 2 : 16;
        s = realloc(dict->stripped, capacity * sizeof *s);
        if (!s)
            return INFER_EMEMORY;
        dict->stripped = s;
        dict->stripped_capacity = capacity;
    }
    copy = strdup(name);
    if (!copy)
        return INFER_EMEMORY;
    dict->stripped[dict->stripped_count++] =
        (struct weights_stripped){copy, bytes, why};
    return 0;
}
