/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors between guard zones. */
#include <stdlib.h>
#include <string.h>

#include "tests/checkkern/checkkern.h"

/* Bytes on either side; a multiple of the alignment that kernels may expect. */
#define GUARD  256
#define POISON 0xff /* NaN in every floating-point type */

/* Device memory that all problems of a thread share: asking the driver for
 * every buffer takes longer than the checks.  Twins are taken from the front
 * and all given back together. */
#define POOL ((size_t)64 << 20)

static _Thread_local struct {
    const struct device *device;
    unsigned char *memory;
    size_t used;
    int twins; /* in use */
} pool;

static bool separate;

void guarded_separate(void)
{
    separate = true;
}

/* What of a block has its twin on a device: all of it, or where allocations are
 * separate what lies between the guards, so that reading those is found too. */
static size_t twin_start(void)
{
    return separate ? GUARD : 0;
}

static size_t twin_bytes(const struct guarded *g)
{
    return g->bytes - (separate ? 2 * GUARD : 0);
}

static unsigned char *take(const struct device *d, size_t bytes)
{
    struct infer_error ignored;
    const size_t rounded = (bytes + GUARD - 1) / GUARD * GUARD;
    void *memory;

    if (!separate && !pool.memory &&
        d->ops->alloc(d, POOL, &ignored, &memory) == 0) {
        pool.memory = memory;
        pool.device = d;
    }
    if (!pool.memory || pool.device != d || rounded > POOL - pool.used)
        return NULL;
    unsigned char *at = pool.memory + pool.used;
    pool.used += rounded;
    pool.twins++;
    return at;
}

static bool in_pool(const unsigned char *at)
{
    return pool.memory && (uintptr_t)at - (uintptr_t)pool.memory < POOL;
}

static void give_back(const struct device *d, unsigned char *twin)
{
    if (!in_pool(twin))
        d->ops->free(d, twin);
    else if (--pool.twins == 0)
        pool.used = 0;
}

void guarded_pool_close(void)
{
    if (pool.memory)
        pool.device->ops->free(pool.device, pool.memory);
    memset(&pool, 0, sizeof(pool));
}

static bool allocate(struct guarded *g, size_t span, size_t lead)
{
    g->front = GUARD + lead;
    g->bytes = g->front + span + GUARD;
    /* aligned_alloc() wants a multiple of the alignment. */
    const size_t rounded = (g->bytes + 63) / 64 * 64;
    g->block = aligned_alloc(64, rounded);
    g->copy = malloc(g->bytes);
    if (!g->block || !g->copy) {
        guarded_free(g);
        return false;
    }
    memset(g->block, POISON, rounded);
    return true;
}

bool guarded_new(struct guarded *g, const struct kern_tensor *t, size_t lead)
{
    const int64_t size = (int64_t)infer_dtype_size(t->dtype);
    int64_t low = 0;

    memset(g, 0, sizeof(*g));
    g->tensor = *t;
    for (int i = 0; i < t->rank; i++)
        if (t->stride[i] < 0 && t->dim[i] > 0)
            low += (t->dim[i] - 1) * t->stride[i];
    if (!allocate(g, kern_tensor_span(t), lead))
        return false;
    g->origin = g->block + g->front - low * size;
    return true;
}

bool guarded_bytes(struct guarded *g, size_t bytes, size_t lead)
{
    memset(g, 0, sizeof(*g));
    if (!allocate(g, bytes, lead))
        return false;
    g->origin = g->block + g->front;
    return true;
}

void guarded_free(struct guarded *g)
{
    if (g->device)
        give_back(g->device, g->twin);
    free(g->block);
    free(g->copy);
    memset(g, 0, sizeof(*g));
}

bool guarded_mirror(struct guarded *g, const struct device *d,
                    struct infer_error *err)
{
    void *twin = take(d, twin_bytes(g));

    if (!twin && d->ops->alloc(d, twin_bytes(g), err, &twin) < 0)
        return false;
    g->device = d;
    g->twin = twin;
    return true;
}

bool guarded_send(struct guarded *g, struct infer_error *err)
{
    return !g->device ||
           g->device->ops->copy_in(g->device, g->twin, g->block + twin_start(),
                                   twin_bytes(g), err) == 0;
}

bool guarded_fetch(struct guarded *g, struct infer_error *err)
{
    return !g->device ||
           g->device->ops->copy_out(g->device, g->block + twin_start(), g->twin,
                                    twin_bytes(g), err) == 0;
}

bool guarded_send_scratch(struct guarded *g, struct infer_error *err)
{
    return separate || guarded_send(g, err);
}

bool guarded_fetch_scratch(struct guarded *g, struct infer_error *err)
{
    return separate || guarded_fetch(g, err);
}

void *guarded_at(const struct guarded *g)
{
    return g->device ? g->twin + (g->origin - g->block) - twin_start()
                     : g->origin;
}

void guarded_poison(struct guarded *g, int byte)
{
    memset(g->block, byte, g->bytes);
}

/* Offset in elements of the dense element i. */
static int64_t offset_of(const struct kern_tensor *t, int64_t i)
{
    int64_t offset = 0;

    for (int d = t->rank - 1; d >= 0; d--) {
        offset += i % t->dim[d] * t->stride[d];
        i /= t->dim[d];
    }
    return offset;
}

void guarded_scatter(struct guarded *g, const void *dense)
{
    const size_t size = infer_dtype_size(g->tensor.dtype);
    const int64_t n = kern_tensor_count(&g->tensor);

    for (int64_t i = 0; i < n; i++)
        memcpy(g->origin + offset_of(&g->tensor, i) * (int64_t)size,
               (const char *)dense + (size_t)i * size, size);
}

void guarded_gather(const struct guarded *g, void *dense)
{
    const size_t size = infer_dtype_size(g->tensor.dtype);
    const int64_t n = kern_tensor_count(&g->tensor);

    for (int64_t i = 0; i < n; i++)
        memcpy((char *)dense + (size_t)i * size,
               g->origin + offset_of(&g->tensor, i) * (int64_t)size, size);
}

void guarded_remember(struct guarded *g)
{
    memcpy(g->copy, g->block, g->bytes);
}

bool guarded_unchanged(const struct guarded *g)
{
    return memcmp(g->copy, g->block, g->bytes) == 0;
}

bool guarded_bytes_unchanged(const struct guarded *g, size_t bytes)
{
    return memcmp(g->copy + (g->origin - g->block), g->origin, bytes) == 0;
}

bool guarded_intact(struct guarded *g, int byte)
{
    const int64_t size = (int64_t)infer_dtype_size(g->tensor.dtype);
    const int64_t n = kern_tensor_count(&g->tensor);

    memcpy(g->copy, g->block, g->bytes);
    for (int64_t i = 0; i < n; i++)
        memset(g->copy + (g->origin - g->block) +
                   offset_of(&g->tensor, i) * size,
               byte, (size_t)size);
    for (size_t i = 0; i < g->bytes; i++)
        if (g->copy[i] != byte)
            return false;
    return true;
}

bool guarded_bytes_intact(const struct guarded *g, size_t bytes, int byte)
{
    for (size_t i = 0; i < g->front; i++)
        if (g->block[i] != byte)
            return false;
    for (size_t i = g->front + bytes; i < g->bytes; i++)
        if (g->block[i] != byte)
            return false;
    return true;
}
