/* SPDX-License-Identifier: Apache-2.0 */
/* The cache of packed constants.  Each thread reads, converts and packs one
 * constant at a time into memory that it uses again for the next, so that
 * loading peaks at the packed weights plus one tensor a thread. */
#include "libinfer/model/packed.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "kernels/base/hash.h"
#include "kernels/base/scalar.h"

/* The key of an entry: the constant and its packing.  Two problems that differ
 * only in padding bytes count as different, which costs a second packing and
 * nothing else. */
struct key {
    const struct kern_row *row; /* NULL: plain */
    int input;
    int64_t offset;
    int64_t count; /* elements: plans may have padded the constant */
    enum infer_dtype dtype;
    int threads, ordinal, variant;
    enum kern_device_kind device;
    /* Memory goes back to its allocator with the last session that has it: no
     * entry is shared with the sessions of another. */
    struct host_memory host;
    struct kern_problem problem;
};

/* Another problem that came to the same bytes. */
struct packed_key {
    struct packed_key *next;
    struct key key;
};

struct packed {
    struct packed *next;
    int value, refs;
    void *data;
    size_t bytes;
    uint64_t hash;           /* of packed bytes in a device's memory */
    bool owned;              /* false: data is that of the lender */
    struct constant *lender; /* a constant in memory; or NULL */
    struct device device;
    struct packed_key *keys;
};

/* A constant at work, not packed yet; reused from one to the next: a fresh
 * block for each would leave holes between the packed ones. */
struct scratch {
    struct scratch *next;
    struct host_memory host;
    void *data;
    size_t bytes;
};

/* The entries of one value.  One thread makes an entry, outside of the mutex;
 * others that want the value wait for it. */
struct chain {
    struct packed *first;
    bool busy;
};

struct packed_cache {
    pthread_mutex_t mutex;
    pthread_cond_t made;
    struct scratch *idle;
    int n_values;
    struct chain chain[]; /* by value */
};

struct packed_cache *packed_cache_new(int n_values)
{
    struct packed_cache *cache =
        calloc(1, sizeof *cache + (size_t)n_values * sizeof cache->chain[0]);

    if (!cache)
        return NULL;
    cache->n_values = n_values;
    if (pthread_mutex_init(&cache->mutex, NULL) != 0) {
        free(cache);
        return NULL;
    }
    if (pthread_cond_init(&cache->made, NULL) != 0) {
        pthread_mutex_destroy(&cache->mutex);
        free(cache);
        return NULL;
    }
    return cache;
}

static void entry_free(struct packed *p)
{
    struct packed_key *next;

    for (; p->keys; p->keys = next) {
        next = p->keys->next;
        free(p->keys);
    }
    if (p->owned)
        p->device.ops->free(&p->device, p->data);
    constant_unref(p->lender);
    free(p);
}

void packed_cache_free(struct packed_cache *cache)
{
    struct packed *next;
    int i;

    if (!cache)
        return;
    for (i = 0; i < cache->n_values; i++)
        for (; cache->chain[i].first; cache->chain[i].first = next) {
            next = cache->chain[i].first->next;
            entry_free(cache->chain[i].first);
        }
    packed_cache_trim(cache, NULL);
    pthread_cond_destroy(&cache->made);
    pthread_mutex_destroy(&cache->mutex);
    free(cache);
}

/* Frees an entry without users; the mutex is held. */
static void unlink_entry(struct packed_cache *cache, struct packed *p)
{
    struct packed **at = &cache->chain[p->value].first;

    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    entry_free(p);
}

static bool key_equal(const struct key *a, const struct key *b)
{
    return a->row == b->row && a->input == b->input && a->offset == b->offset &&
           a->count == b->count && a->dtype == b->dtype &&
           a->threads == b->threads && a->ordinal == b->ordinal &&
           a->variant == b->variant && a->device == b->device &&
           host_memory_equal(&a->host, &b->host) &&
           memcmp(&a->problem, &b->problem, sizeof a->problem) == 0;
}

static struct packed *find(struct packed *p, const struct key *key)
{
    const struct packed_key *k;

    for (; p; p = p->next)
        for (k = p->keys; k; k = k->next)
            if (key_equal(&k->key, key))
                return p;
    return NULL;
}

/* An entry of the same row and input with the same bytes; in a device's memory
 * with the same hash of 64 bits under a secret key. */
static struct packed *find_bytes(struct packed *p, const struct key *key,
                                 const struct packed *made)
{
    for (; p; p = p->next)
        if (p->keys && p->keys->key.row == key->row &&
            p->keys->key.variant == key->variant &&
            p->keys->key.input == key->input &&
            p->keys->key.dtype == key->dtype &&
            p->device.kern.kind == made->device.kern.kind &&
            p->device.kern.ordinal == made->device.kern.ordinal &&
            host_memory_equal(&p->device.host, &made->device.host) &&
            p->bytes == made->bytes &&
            (p->device.ops->host_memory
                 ? memcmp(p->data, made->data, made->bytes) == 0
                 : p->hash == made->hash))
            return p;
    return NULL;
}

/* Blocks that are kept even if they are far larger than what is needed. */
#define SMALL_SCRATCH (256 << 10)

static int reserve(struct scratch *s, size_t bytes, struct infer_error *err)
{
    if (s->data && bytes <= s->bytes &&
        (s->bytes <= SMALL_SCRATCH || bytes >= s->bytes / 4))
        return 0;
    host_memory_free(&s->host, s->data);
    s->data = NULL;
    s->bytes = 0;
    const int rc = host_memory_alloc(&s->host, bytes, err, &s->data);
    if (rc == 0)
        s->bytes = bytes;
    return rc;
}

/* The constant as dtype: where it lies if it can be, else in the scratch
 * memory. */
static int load(struct scratch *work, const struct constant *c,
                enum infer_dtype dtype, struct infer_error *err,
                const void **out)
{
    size_t bytes;
    int rc;

    if (c->data && c->dtype == dtype) {
        *out = c->data;
        return 0;
    }
    if (!checked_mul((size_t)constant_count(c), infer_dtype_size(dtype),
                     &bytes))
        return error_set(err, INFER_EMEMORY, "constant too large");
    rc = reserve(work, bytes, err);
    if (rc == 0)
        rc = constant_load_as(c, dtype, work->data, err);
    *out = work->data;
    return rc;
}

/* Host bytes into fresh memory of the device. */
static int upload(const struct device *d, const void *src, size_t bytes,
                  struct infer_error *err, void **out)
{
    void *memory;
    int rc = d->ops->alloc(d, bytes ? bytes : 1, err, &memory);

    if (rc < 0)
        return rc;
    rc = d->ops->copy_in(d, memory, src, bytes, err);
    if (rc < 0) {
        d->ops->free(d, memory);
        return rc;
    }
    *out = memory;
    return 0;
}

/* Fills p->data, p->bytes, and p->owned or p->lender. */
static int make_plain(struct scratch *work, struct packed *p,
                      const struct constant *c, enum infer_dtype dtype,
                      struct infer_error *err)
{
    const void *src;
    int rc;

    p->bytes = (size_t)constant_count(c) * infer_dtype_size(dtype);
    if (!c->data && c->dtype == dtype && p->device.ops->host_memory) {
        rc = p->device.ops->alloc(&p->device, p->bytes ? p->bytes : 1, err,
                                  &p->data);
        p->owned = rc == 0;
        return rc < 0 ? rc : constant_load(c, p->data, err);
    }
    rc = load(work, c, dtype, err, &src);
    if (rc < 0)
        return rc;
    if (src == c->data && p->device.ops->host_memory) {
        /* It may be a plan's own, of dequantised weights, which others share.
         */
        p->lender = constant_ref((struct constant *)(uintptr_t)c);
        p->data = c->data;
        return 0;
    }
    rc = upload(&p->device, src, p->bytes, err, &p->data);
    p->owned = rc == 0;
    return rc;
}

static int make_packed(struct scratch *work, struct packed *p,
                       const struct constant *c, const struct kern_exec *exec,
                       int i, int64_t offset, struct infer_error *err)
{
    enum infer_dtype dtype = exec->problem.in[i].dtype;
    const struct device *d = &p->device;
    const void *src;
    void *dst;
    int rc = load(work, c, dtype, err, &src);

    if (rc < 0)
        return rc;
    p->bytes = exec->packed[i];
    /* Rows pack on the CPU; the result is uploaded to a device later, if no
     * other plan has uploaded it. */
    rc = device_cpu.alloc(d, p->bytes, err, &dst);
    if (rc < 0)
        return rc;
    src = (const char *)src + offset * (int64_t)infer_dtype_size(dtype);
    if (!d->ops->host_memory)
        memset(dst, 0, p->bytes); /* see pack() in kern.h */
    rc = exec->row->fn->pack(exec, i, src, dst, err);
    if (rc < 0) {
        device_cpu.free(d, dst);
        return rc;
    }
    p->data = dst;
    if (d->ops->host_memory)
        p->owned = true;
    else
        p->hash = hash_bytes(dst, p->bytes);
    return 0;
}

/* Moves the result of make_packed() to the device, unless `same` is there
 * already. */
static int send_packed(struct packed *p, const struct packed *same,
                       struct infer_error *err)
{
    void *host = p->data;
    int rc = 0;

    if (p->device.ops->host_memory)
        return 0;
    p->data = NULL;
    if (!same) {
        rc = upload(&p->device, host, p->bytes, err, &p->data);
        p->owned = rc == 0;
    }
    device_cpu.free(&p->device, host);
    return rc;
}

/* Takes idle scratch memory of the allocator, or makes it; NULL: out of
 * memory. */
static struct scratch *take_scratch(struct packed_cache *cache,
                                    const struct host_memory *host)
{
    struct scratch **at, *work;

    pthread_mutex_lock(&cache->mutex);
    for (at = &cache->idle; *at && !host_memory_equal(&(*at)->host, host);
         at = &(*at)->next)
        ;
    work = *at;
    if (work)
        *at = work->next;
    pthread_mutex_unlock(&cache->mutex);
    if (!work) {
        work = calloc(1, sizeof *work);
        if (work)
            work->host = *host;
    }
    return work;
}

/* Makes an entry that nobody else has; the mutex is not held. */
static int make(struct packed_cache *cache, struct packed *p,
                const struct constant *c, const struct key *key,
                const struct kern_exec *exec, struct infer_error *err)
{
    struct scratch *work = take_scratch(cache, &p->device.host);
    int rc;

    if (!work)
        return error_set(err, INFER_EMEMORY, "out of memory");
    rc = exec ? make_packed(work, p, c, exec, key->input, key->offset, err)
              : make_plain(work, p, c, key->dtype, err);
    pthread_mutex_lock(&cache->mutex);
    work->next = cache->idle;
    cache->idle = work;
    pthread_mutex_unlock(&cache->mutex);
    return rc;
}

/* Makes the entry that the chain lacks, or finds one of the same bytes.  The
 * chain is busy, so nobody else changes it; its entries may be counted up and
 * down meanwhile, but those are kept that have users. */
static int add(struct packed_cache *cache, struct packed *p,
               const struct constant *c, const struct key *key,
               const struct kern_exec *exec, struct infer_error *err,
               struct packed **out)
{
    struct chain *chain = &cache->chain[p->value];
    struct packed *same = NULL;
    int rc = make(cache, p, c, key, exec, err);

    if (rc < 0)
        return rc;
    /* Under the mutex, since entries without users are freed. */
    pthread_mutex_lock(&cache->mutex);
    if (exec)
        same = find_bytes(chain->first, key, p);
    if (same)
        same->refs++;
    pthread_mutex_unlock(&cache->mutex);
    rc = exec ? send_packed(p, same, err) : 0;
    pthread_mutex_lock(&cache->mutex);
    if (same) {
        if (rc < 0 && --same->refs == 0)
            unlink_entry(cache, same);
    } else if (rc == 0) {
        p->next = chain->first;
        chain->first = p;
        p->refs = 1;
    }
    pthread_mutex_unlock(&cache->mutex);
    *out = same ? same : p;
    return rc;
}

/* Finds or makes the entry. */
static int get(struct packed_cache *cache, int value, const struct constant *c,
               const struct key *key, const struct kern_exec *exec,
               const struct device *d, struct infer_error *err,
               struct packed **out)
{
    struct chain *chain = &cache->chain[value];
    struct packed *p, *found = NULL;
    struct packed_key *k;
    int rc = 0;

    pthread_mutex_lock(&cache->mutex);
    while (chain->busy)
        pthread_cond_wait(&cache->made, &cache->mutex);
    found = find(chain->first, key);
    if (found)
        found->refs++;
    else
        chain->busy = true;
    pthread_mutex_unlock(&cache->mutex);
    if (found) {
        *out = found;
        return 0;
    }
    p = calloc(1, sizeof *p);
    k = calloc(1, sizeof *k);
    if (p && k) {
        p->value = value;
        p->device = *d;
        rc = add(cache, p, c, key, exec, err, &found);
    } else {
        rc = error_set(err, INFER_EMEMORY, "out of memory");
    }
    pthread_mutex_lock(&cache->mutex);
    if (rc == 0) {
        k->key = *key;
        k->next = found->keys;
        found->keys = k;
    }
    chain->busy = false;
    pthread_cond_broadcast(&cache->made);
    pthread_mutex_unlock(&cache->mutex);
    if (rc < 0)
        free(k);
    if (p && (rc < 0 || found != p))
        entry_free(p);
    if (rc == 0)
        *out = found;
    return rc;
}

int packed_plain(struct packed_cache *cache, int value,
                 const struct constant *c, enum infer_dtype dtype,
                 const struct device *d, struct infer_error *err,
                 struct packed **out)
{
    struct key key;

    memset(&key, 0, sizeof key);
    key.count = constant_count(c);
    key.dtype = dtype;
    key.host = d->host;
    key.device = d->kern.kind;
    key.ordinal = d->kern.ordinal;
    return get(cache, value, c, &key, NULL, d, err, out);
}

int packed_for(struct packed_cache *cache, int value, const struct constant *c,
               const struct kern_exec *exec, int i, int64_t offset,
               const struct device *d, struct infer_error *err,
               struct packed **out)
{
    struct key key;

    memset(&key, 0, sizeof key);
    key.row = exec->row;
    key.variant = exec->variant;
    key.input = i;
    key.offset = offset;
    key.count = constant_count(c);
    key.dtype = exec->problem.in[i].dtype;
    key.threads = d->kern.threads;
    key.host = d->host;
    key.device = d->kern.kind;
    key.ordinal = d->kern.ordinal;
    memcpy(&key.problem, &exec->problem, sizeof key.problem);
    return get(cache, value, c, &key, exec, d, err, out);
}

void packed_cache_trim(struct packed_cache *cache,
                       const struct host_memory *host)
{
    struct scratch **at, *work;

    pthread_mutex_lock(&cache->mutex);
    for (at = &cache->idle; (work = *at) != NULL;) {
        if (host && !host_memory_equal(&work->host, host)) {
            at = &work->next;
            continue;
        }
        *at = work->next;
        host_memory_free(&work->host, work->data);
        free(work);
    }
    pthread_mutex_unlock(&cache->mutex);
}

const void *packed_data(const struct packed *p)
{
    return p->data;
}

size_t packed_bytes(const struct packed *p)
{
    return p->bytes;
}

void packed_unref(struct packed_cache *cache, struct packed *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&cache->mutex);
    if (--p->refs == 0)
        unlink_entry(cache, p);
    pthread_mutex_unlock(&cache->mutex);
}
