/* SPDX-License-Identifier: Apache-2.0 */
/* HDF5: finding the chunks of a dataset through whichever index it has. */
#include <string.h>

#include "weights/hdf5/internal.h"

struct walk {
    struct hdf5_file *f;
    const struct hdf5_dataset *d;
    size_t chunk_bytes;
    hdf5_chunk_fn *fn;
    void *user;
    /* The chunk before, for the order that trees promise. */
    bool any;
    uint64_t last[INFER_MAX_RANK];
    /* Arrays: chunks below one step of a dimension, by slowest first. */
    int order[INFER_MAX_RANK];
    uint64_t step[INFER_MAX_RANK];
};

static uint64_t chunks_along(const struct hdf5_dataset *d, int i, int64_t size)
{
    return size == 0 ? 0 : ((uint64_t)size - 1) / d->chunk_dim[i] + 1;
}

/* Trees hold their chunks in ascending order, so a chunk that does not come
 * after the one before is there twice. */
static int emit(struct walk *w, const struct hdf5_chunk *chunk, bool ordered,
                struct infer_error *err)
{
    const struct hdf5_dataset *d = w->d;
    int order = 0;

    for (int i = 0; i < d->chunk_rank; i++) {
        if (chunk->scaled[i] >= chunks_along(d, i, d->space.dim[i]))
            return hdf5_malformed(err, chunk->address,
                                  "chunk %llu of dimension %d lies outside",
                                  (unsigned long long)chunk->scaled[i], i);
        if (order == 0 && chunk->scaled[i] != w->last[i])
            order = chunk->scaled[i] > w->last[i] ? 1 : -1;
    }
    if (ordered && w->any && order <= 0)
        return hdf5_malformed(err, chunk->address,
                              "chunks are out of order or there twice");
    w->any = true;
    memcpy(w->last, chunk->scaled, sizeof w->last);
    return w->fn(w->user, chunk, err);
}

/* ---- B-tree 1 ------------------------------------------------------ */

/* Key: bytes (4), filter mask (4), element offsets (8 each), a last 0. */
static int from_btree1(void *user, const unsigned char *key, uint64_t child,
                       struct infer_error *err)
{
    struct walk *w = user;
    const struct hdf5_dataset *d = w->d;
    struct hdf5_cursor c = hdf5_cursor(key, 16 + 8 * (size_t)d->chunk_rank);
    struct hdf5_chunk chunk = {.address = child};

    chunk.bytes = hdf5_uint(&c, 4);
    chunk.mask = (uint32_t)hdf5_uint(&c, 4);
    for (int i = 0; i < d->chunk_rank; i++) {
        const uint64_t offset = hdf5_uint(&c, 8);
        if (offset % d->chunk_dim[i] != 0)
            return hdf5_malformed(err, child,
                                  "chunk at %llu of dimension %d, chunks are "
                                  "%llu long",
                                  (unsigned long long)offset, i,
                                  (unsigned long long)d->chunk_dim[i]);
        chunk.scaled[i] = offset / d->chunk_dim[i];
    }
    return emit(w, &chunk, true, err);
}

/* ---- B-tree 2 ------------------------------------------------------ */

/* Record: address, where filtered bytes (1 to 8) and mask (4), then scaled
 * offsets (8 each). */
static int from_btree2(void *user, const unsigned char *record, size_t bytes,
                       struct infer_error *err)
{
    struct walk *w = user;
    const struct hdf5_dataset *d = w->d;
    const size_t fixed = w->f->offset_size + 8 * (size_t)d->chunk_rank;
    struct hdf5_cursor c = hdf5_cursor(record, bytes);
    struct hdf5_chunk chunk = {.bytes = w->chunk_bytes};

    chunk.address = hdf5_address(&c, w->f);
    if (d->filters.count > 0) {
        if (bytes < fixed + 5 || bytes > fixed + 12)
            return hdf5_malformed(err, chunk.address,
                                  "chunk record of %zu bytes", bytes);
        chunk.bytes = hdf5_uint(&c, (unsigned)(bytes - fixed - 4));
        chunk.mask = (uint32_t)hdf5_uint(&c, 4);
    }
    for (int i = 0; i < d->chunk_rank; i++)
        chunk.scaled[i] = hdf5_uint(&c, 8);
    if (c.bad)
        return hdf5_malformed(err, chunk.address, "chunk record of %zu bytes",
                              bytes);
    return emit(w, &chunk, true, err);
}

/* ---- arrays -------------------------------------------------------- */

/* Arrays number the chunks row-major over the dataset's maximum size; in an
 * extensible array the unlimited dimension comes first. */
static int plan_order(struct walk *w, struct infer_error *err)
{
    const struct hdf5_dataset *d = w->d;
    int slowest = -1, n = 0;
    uint64_t step = 1;

    for (int i = 0; i < d->chunk_rank; i++)
        if (d->space.max_dim[i] < 0) {
            if (slowest >= 0 || d->index != HDF5_INDEX_EXTENSIBLE_ARRAY)
                return hdf5_malformed(err, d->address,
                                      "chunk array over several unlimited "
                                      "dimensions");
            slowest = i;
        }
    if (slowest >= 0)
        w->order[n++] = slowest;
    for (int i = 0; i < d->chunk_rank; i++)
        if (i != slowest)
            w->order[n++] = i;
    for (int k = n - 1; k >= 0; k--) {
        const int i = w->order[k];
        w->step[i] = step;
        /* The slowest dimension's own extent does not enter any step. */
        if (k > 0 && __builtin_mul_overflow(
                         step, chunks_along(d, i, d->space.max_dim[i]), &step))
            return hdf5_malformed(err, d->address,
                                  "number of chunks overflows");
        if (step == 0)
            step = 1;
    }
    return 0;
}

static int from_array(void *user, uint64_t index,
                      const struct hdf5_chunk *element, struct infer_error *err)
{
    struct walk *w = user;
    const struct hdf5_dataset *d = w->d;
    struct hdf5_chunk chunk = *element;

    for (int k = 0; k < d->chunk_rank; k++) {
        const int i = w->order[k];
        chunk.scaled[i] = index / w->step[i];
        index %= w->step[i];
        /* What a dataset lost by shrinking may still stand in the array. */
        if (chunk.scaled[i] >= chunks_along(d, i, d->space.dim[i]))
            return 0;
    }
    return emit(w, &chunk, false, err);
}

/* Chunks one after the other, all there, unfiltered. */
static int from_implicit(struct walk *w, struct infer_error *err)
{
    const struct hdf5_dataset *d = w->d;
    uint64_t total = d->chunk_rank ? 1 : 0, bytes;
    int rc = 0;

    for (int i = 0; i < d->chunk_rank; i++)
        if (__builtin_mul_overflow(
                total, chunks_along(d, i, d->space.max_dim[i]), &total))
            return hdf5_malformed(err, d->address,
                                  "number of chunks overflows");
    if (__builtin_mul_overflow(total, (uint64_t)w->chunk_bytes, &bytes) ||
        !checked_range(d->data_address, bytes, w->f->bytes))
        return hdf5_malformed(err, d->data_address,
                              "%llu chunks of %zu bytes reach past the end",
                              (unsigned long long)total, w->chunk_bytes);
    for (uint64_t i = 0; i < total && rc == 0; i++) {
        const struct hdf5_chunk chunk = {.address = d->data_address +
                                                    i * w->chunk_bytes,
                                         .bytes = w->chunk_bytes};
        rc = from_array(w, i, &chunk, err);
    }
    return rc;
}

int hdf5_chunks_each(struct hdf5_file *f, const struct hdf5_dataset *d,
                     size_t chunk_bytes, hdf5_chunk_fn *fn, void *user,
                     struct infer_error *err)
{
    struct walk w = {
        .f = f, .d = d, .chunk_bytes = chunk_bytes, .fn = fn, .user = user};
    struct hdf5_chunk only = {.address = d->data_address, .bytes = chunk_bytes};
    const bool filtered = d->filters.count > 0;
    int rc;

    if (d->data_address == HDF5_UNDEFINED)
        return 0; /* no chunk was ever written */
    switch (d->index) {
    case HDF5_INDEX_BTREE1:
        return hdf5_btree1_walk(f, d->data_address, 1,
                                16 + 8 * (size_t)d->chunk_rank, 2 * f->chunk_k,
                                from_btree1, &w, err);
    case HDF5_INDEX_BTREE2:
        return hdf5_btree2_walk(f, d->data_address, filtered ? 11 : 10,
                                from_btree2, &w, err);
    case HDF5_INDEX_SINGLE:
        if (d->single_filtered) {
            only.bytes = d->single_bytes;
            only.mask = d->single_mask;
        }
        return emit(&w, &only, false, err);
    case HDF5_INDEX_IMPLICIT:
    case HDF5_INDEX_FIXED_ARRAY:
    case HDF5_INDEX_EXTENSIBLE_ARRAY:
        break;
    }
    rc = plan_order(&w, err);
    if (rc < 0)
        return rc;
    if (d->index == HDF5_INDEX_IMPLICIT)
        return from_implicit(&w, err);
    return (d->index == HDF5_INDEX_FIXED_ARRAY ? hdf5_fixed_array_each
                                               : hdf5_extensible_array_each)(
        f, d->data_address, filtered, chunk_bytes, from_array, &w, err);
}
