/* SPDX-License-Identifier: Apache-2.0 */
/* Names to indices: open addressing with linear probing. */
#include "libinfer/graph/graph_index.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/hash.h"

struct slot {
    uint32_t tag;  /* upper half of the hash: spares most comparisons */
    int32_t index; /* 0: empty, else value or node + 1 */
};

struct table {
    struct slot *slot;
    size_t size; /* power of two, or 0 */
    size_t used; /* stale entries included */
    bool lost;   /* out of memory: search the graph instead */
    unsigned fresh;
};

struct graph_index {
    struct table value, node;
};

struct graph_index *graph_index_new(void)
{
    return calloc(1, sizeof(struct graph_index));
}

void graph_index_free(struct graph_index *index)
{
    if (index == NULL)
        return;
    free(index->value.slot);
    free(index->node.slot);
    free(index);
}

static const char *name_of(const struct graph *g, bool node, int i)
{
    return node ? g->node[i].name : g->value[i].name;
}

static struct table *table_of(const struct graph *g, bool node)
{
    return node ? &g->index->node : &g->index->value;
}

/* Puts an entry into a table that has room. */
static void insert(struct table *t, const char *name, int i)
{
    uint64_t hash = hash_name(name);
    size_t at = (size_t)hash & (t->size - 1);

    while (t->slot[at].index != 0)
        at = (at + 1) & (t->size - 1);
    t->slot[at].tag = (uint32_t)(hash >> 32);
    t->slot[at].index = i + 1;
    t->used++;
}

/* Builds the table anew from entries 0 .. count-1, leaving stale ones out and
 * at least half of it empty. */
static void rebuild(struct graph *g, bool node, int count)
{
    struct table *t = table_of(g, node);
    size_t size = 64;
    int i;

    while (size < (size_t)count * 4)
        size *= 2;
    free(t->slot);
    t->slot = calloc(size, sizeof(*t->slot));
    t->size = t->slot != NULL ? size : 0;
    t->used = 0;
    t->lost = t->slot == NULL;
    for (i = 0; i < count && !t->lost; i++)
        if (name_of(g, node, i) != NULL)
            insert(t, name_of(g, node, i), i);
}

void graph_index_rebuild(struct graph *g)
{
    rebuild(g, false, g->n_values);
    rebuild(g, true, g->n_nodes);
}

static void add(struct graph *g, bool node, int i, int count)
{
    struct table *t = table_of(g, node);

    if (!t->lost && (t->used + 1) * 2 > t->size)
        rebuild(g, node, count);
    if (!t->lost)
        insert(t, name_of(g, node, i), i);
}

void graph_index_value(struct graph *g, int value)
{
    add(g, false, value, g->n_values);
}

void graph_index_node(struct graph *g, int node)
{
    add(g, true, node, g->n_nodes);
}

static int search(const struct graph *g, bool node, const char *name)
{
    int count = node ? g->n_nodes : g->n_values, i;

    for (i = 0; i < count; i++)
        if (name_of(g, node, i) != NULL &&
            strcmp(name_of(g, node, i), name) == 0)
            return i;
    return -1;
}

static int find(const struct graph *g, bool node, const char *name)
{
    const struct table *t = table_of(g, node);
    uint64_t hash;
    size_t at;

    if (t->lost)
        return search(g, node, name);
    if (t->size == 0)
        return -1;
    hash = hash_name(name);
    for (at = (size_t)hash & (t->size - 1); t->slot[at].index != 0;
         at = (at + 1) & (t->size - 1)) {
        const char *other;

        if (t->slot[at].tag != (uint32_t)(hash >> 32))
            continue;
        other = name_of(g, node, t->slot[at].index - 1);
        if (other != NULL && strcmp(other, name) == 0)
            return t->slot[at].index - 1;
    }
    return -1;
}

int graph_find_value(const struct graph *g, const char *name)
{
    return find(g, false, name);
}

int graph_find_node(const struct graph *g, const char *name)
{
    return find(g, true, name);
}

char *graph_index_fresh(struct graph *g, const char *stem, bool node)
{
    struct table *t = table_of(g, node);
    size_t bytes = strlen(stem) + 12;
    char *name = malloc(bytes);

    if (name == NULL)
        return NULL;
    do
        snprintf(name, bytes, "%s_%u", stem, t->fresh++);
    while (find(g, node, name) >= 0);
    return name;
}
