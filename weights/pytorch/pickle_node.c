/* SPDX-License-Identifier: Apache-2.0 */
/* The values that a pickle builds, their memory, and its budget. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text.h"
#include "weights/pytorch/pickle.h"
#include "weights/pytorch/pickle_machine.h"

#define BLOCK_BYTES 65536

struct pickle_block {
    struct pickle_block *next;
    size_t bytes, used;
    max_align_t data[];
};

bool pickle_charge(struct pickle *p, size_t bytes)
{
    if (bytes > p->budget - p->charged)
        return false;
    p->charged += bytes;
    return true;
}

bool pickle_grow(struct pickle *p, uint32_t **item, size_t *capacity,
                 size_t count)
{
    size_t wanted;
    uint32_t *larger;

    if (count < *capacity)
        return true;
    wanted = *capacity ? *capacity * 2 : 8;
    if (wanted > UINT32_MAX ||
        !pickle_charge(p, (wanted - *capacity) * sizeof **item))
        return false;
    larger = realloc(*item, wanted * sizeof **item);
    if (!larger)
        return false;
    *item = larger;
    *capacity = wanted;
    return true;
}

bool pickle_new(struct pickle *p, enum pickle_kind kind, uint32_t *out)
{
    struct pickle_node *node;
    size_t wanted;

    if (p->count == p->capacity) {
        wanted = p->capacity ? p->capacity + p->capacity / 2 : 64;
        if (wanted >= UINT32_MAX ||
            !pickle_charge(p, (wanted - p->capacity) * sizeof *node))
            return false;
        node = realloc(p->node, wanted * sizeof *node);
        if (!node)
            return false;
        p->node = node;
        p->capacity = wanted;
    }
    p->node[p->count] =
        (struct pickle_node){.kind = (uint8_t)kind, .row = PICKLE_NO_ROW};
    *out = (uint32_t)p->count++;
    return true;
}

void *pickle_alloc(struct pickle *p, size_t bytes)
{
    struct pickle_block *block = p->block;
    size_t size = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
    unsigned char *at;

    bytes = (bytes + 7) & ~(size_t)7;
    if (size < bytes)
        size = bytes;
    if (!block || bytes > block->bytes - block->used) {
        if (!pickle_charge(p, size))
            return NULL;
        block = malloc(sizeof *block + size);
        if (!block)
            return NULL;
        *block = (struct pickle_block){p->block, size, 0};
        p->block = block;
    }
    at = (unsigned char *)block->data + block->used;
    block->used += bytes;
    return at;
}

bool pickle_set_items(struct pickle *p, uint32_t node, const uint32_t *item,
                      size_t count)
{
    uint32_t *copy = NULL;

    if (count > 0) {
        copy = pickle_alloc(p, count * sizeof *copy);
        if (!copy)
            return false;
        memcpy(copy, item, count * sizeof *copy);
    }
    p->node[node].u.item = copy;
    p->node[node].count = (uint32_t)count;
    p->node[node].capacity = 0;
    return true;
}

int pickle_new_class(struct pickle *p, const unsigned char *module,
                     size_t module_bytes, const unsigned char *name,
                     size_t name_bytes, uint32_t *out)
{
    unsigned char *text;

    if (!text_is_utf8(module, module_bytes) || !text_is_utf8(name, name_bytes))
        return INFER_EFORMAT;
    text = pickle_alloc(p, module_bytes + 1 + name_bytes);
    if (!text || !pickle_new(p, PICKLE_CLASS, out))
        return INFER_EMEMORY;
    memcpy(text, module, module_bytes);
    text[module_bytes] = '.';
    memcpy(text + module_bytes + 1, name, name_bytes);
    p->node[*out].u.bytes = text;
    p->node[*out].count = (uint32_t)(module_bytes + 1 + name_bytes);
    return 0;
}

bool pickle_append(struct pickle *p, uint32_t node, uint32_t item)
{
    struct pickle_node *n = &p->node[node];
    size_t capacity = n->capacity;

    if (!pickle_grow(p, &n->u.item, &capacity, n->count))
        return false;
    n->capacity = (uint32_t)capacity;
    n->u.item[n->count++] = item;
    return true;
}

bool pickle_is(const struct pickle_node *node, const char *text)
{
    return node->kind == PICKLE_STR && node->count == strlen(text) &&
           memcmp(node->u.bytes, text, node->count) == 0;
}

int64_t pickle_find(const struct pickle *p, const struct pickle_node *dict,
                    const char *key)
{
    uint32_t i;

    if (dict->kind != PICKLE_DICT)
        return -1;
    for (i = 0; i + 1 < dict->count; i += 2)
        if (pickle_is(pickle_at(p, dict->u.item[i]), key))
            return dict->u.item[i + 1];
    return -1;
}

void pickle_clear(struct pickle *p)
{
    struct pickle_block *block = p->block, *next;
    size_t i;

    for (i = 0; i < p->count; i++)
        if (p->node[i].capacity > 0)
            free(p->node[i].u.item);
    for (; block; block = next) {
        next = block->next;
        free(block);
    }
    free(p->node);
    *p = (struct pickle){0};
}
