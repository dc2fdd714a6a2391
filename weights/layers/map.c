/* SPDX-License-Identifier: Apache-2.0 */
/* Names of a text file and a number for each. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/hash.h"
#include "weights/layers/layers.h"

/* The entry of the name, or the free one where it belongs. */
static struct layers_map_entry *place(const struct layers_map *m,
                                      struct layers_text name)
{
    size_t i = (size_t)hash_bytes(name.data, name.bytes) & (m->slots - 1);

    while (m->entry[i].name.data != NULL &&
           (m->entry[i].name.bytes != name.bytes ||
            memcmp(m->entry[i].name.data, name.data, name.bytes) != 0))
        i = (i + 1) & (m->slots - 1);
    return &m->entry[i];
}

/* At most half of the slots are taken. */
static bool grow(struct layers_map *m)
{
    struct layers_map bigger = {NULL, m->slots ? m->slots * 2 : 64, m->count};
    size_t i;

    bigger.entry = calloc(bigger.slots, sizeof(*bigger.entry));
    if (bigger.entry == NULL)
        return false;
    for (i = 0; i < m->slots; i++)
        if (m->entry[i].name.data != NULL)
            *place(&bigger, m->entry[i].name) = m->entry[i];
    free(m->entry);
    *m = bigger;
    return true;
}

int *layers_map_at(struct layers_map *m, struct layers_text name)
{
    struct layers_map_entry *e;

    if (m->count * 2 >= m->slots && !grow(m))
        return NULL;
    if (name.data == NULL)
        name.data = "";
    e = place(m, name);
    if (e->name.data == NULL) {
        e->name = name;
        e->number = -1;
        m->count++;
    }
    return &e->number;
}

int layers_map_find(const struct layers_map *m, struct layers_text name)
{
    const struct layers_map_entry *e = m->slots > 0 ? place(m, name) : NULL;

    return e != NULL && e->name.data != NULL ? e->number : -1;
}

void layers_map_clear(struct layers_map *m)
{
    free(m->entry);
    memset(m, 0, sizeof(*m));
}
