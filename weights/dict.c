/* SPDX-License-Identifier: Apache-2.0 */
/* Dictionaries of named tensors: an array in the order of the file and an
 * open-addressing index over it. */
#include "weights/weights.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/hash.h"

#define NO_ENTRY UINT32_MAX /* a slot that names no entry */

void weights_dict_init(struct weights_dict *dict)
{
    *dict = (struct weights_dict){0};
}

void weights_dict_drop_entries(struct weights_dict *dict)
{
    size_t i;

    for (i = 0; i < dict->count; i++) {
        free(dict->entry[i].name);
        constant_unref(dict->entry[i].value);
    }
    free(dict->entry);
    free(dict->slot);
    dict->entry = NULL;
    dict->slot = NULL;
    dict->count = dict->capacity = dict->slots = 0;
}

void weights_dict_clear(struct weights_dict *dict)
{
    size_t i;

    weights_dict_drop_entries(dict);
    for (i = 0; i < dict->stripped_count; i++)
        free(dict->stripped[i].name);
    free(dict->stripped);
    *dict = (struct weights_dict){0};
}

/* The slot that holds name, or the free one where it belongs. */
static size_t slot_of(const struct weights_dict *dict, const char *name)
{
    size_t mask = dict->slots - 1;
    size_t s = (size_t)hash_name(name) & mask;

    while (dict->slot[s] != NO_ENTRY &&
           strcmp(dict->entry[dict->slot[s]].name, name) != 0)
        s = (s + 1) & mask;
    return s;
}

/* Room for one more entry: at most three quarters of the slots are taken. */
static bool make_room(struct weights_dict *dict)
{
    struct weights_entry *entry;
    size_t i, slots, capacity;
    uint32_t *slot;

    if (dict->count == dict->capacity) {
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

    if (dict->count >= WEIGHTS_MAX_TENSORS) {
        constant_unref(value);
        return error_set(err, INFER_EFORMAT, "more than %d tensors",
                         WEIGHTS_MAX_TENSORS);
    }
    if (strnlen(name, WEIGHTS_MAX_NAME + 1) > WEIGHTS_MAX_NAME) {
        constant_unref(value);
        return error_set(err, INFER_EUNSUPPORTED,
                         "tensor '%.64s...': its name has more than %d bytes",
                         name, WEIGHTS_MAX_NAME);
    }
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
        capacity = dict->stripped_capacity ? dict->stripped_capacity * 2 : 16;
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
