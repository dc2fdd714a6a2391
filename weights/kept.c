/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of a file, kept once while it is read: see kept.h. */
#include "weights/kept.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The slot of the key, or the free one where it belongs.  slots > 0 is a power
 * of two, and one slot at least is free. */
static struct weights_kept_tensor *slot_of(struct weights_kept_tensor *at,
                                           size_t slots, const void *key)
{
    const uint64_t mixed = (uint64_t)(uintptr_t)key * 0x9E3779B97F4A7C15u;
    size_t i = (size_t)(mixed >> 32) & (slots - 1);

    while (at[i].key && at[i].key != key)
        i = (i + 1) & (slots - 1);
    return &at[i];
}

static struct weights_kept_tensor *find(const struct weights_kept *k,
                                        const void *key)
{
    struct weights_kept_tensor *t =
        k->slots ? slot_of(k->at, k->slots, key) : NULL;

    return t && t->key ? t : NULL;
}

void weights_kept_clear(struct weights_kept *k)
{
    for (size_t i = 0; i < k->slots; i++)
        constant_unref(k->at[i].c);
    free(k->at);
    *k = (struct weights_kept){0};
}

/* At least half of the slots stay free. */
static bool reserve(struct weights_kept *k)
{
    const size_t slots = k->slots ? 2 * k->slots : 64;
    struct weights_kept_tensor *at;

    if (2 * (k->count + 1) <= k->slots)
        return true;
    at = calloc(slots, sizeof *at);
    if (!at)
        return false;
    for (size_t i = 0; i < k->slots; i++)
        if (k->at[i].key)
            *slot_of(at, slots, k->at[i].key) = k->at[i];
    free(k->at);
    k->at = at;
    k->slots = slots;
    return true;
}

bool weights_kept_add(struct weights_kept *k, const void *key,
                      struct constant *c)
{
    struct weights_kept_tensor *t;

    if (!reserve(k))
        return false;
    t = slot_of(k->at, k->slots, key);
    t->key = key;
    t->c = constant_ref(c);
    k->count++;
    return true;
}

bool weights_kept_has(const struct weights_kept *k, const void *key)
{
    return find(k, key) != NULL;
}

struct constant *weights_kept_get(const struct weights_kept *k, const void *key)
{
    const struct weights_kept_tensor *t = find(k, key);
    int back[INFER_MAX_RANK];

    if (!t)
        return NULL;
    if (!t->moved)
        return constant_ref(t->c);
    for (int i = 0; i < t->c->rank; i++)
        back[t->order[i]] = i;
    return constant_transpose(t->c, back);
}

struct constant *weights_kept_transpose(struct weights_kept *k, const void *key,
                                        const int *order)
{
    struct weights_kept_tensor *t = find(k, key);
    struct constant *from, *to;
    size_t bytes;

    if (!t)
        return NULL;
    bytes = (size_t)t->c->rank * sizeof *order;
    if (t->moved && memcmp(t->order, order, bytes) == 0)
        return constant_ref(t->c);
    if (!t->moved && constant_transpose_here(t->c, order)) {
        t->moved = true;
        memcpy(t->order, order, bytes);
        return constant_ref(t->c);
    }
    from = weights_kept_get(k, key);
    to = from ? constant_transpose(from, order) : NULL;
    if (!to) {
        constant_unref(from);
        return NULL;
    }
    constant_unref(t->c);
    constant_give_back(from);
    t->c = constant_ref(to);
    t->moved = true;
    memcpy(t->order, order, bytes);
    return to;
}
