/* SPDX-License-Identifier: Apache-2.0 */
/* Variables of a SavedModel: see bundle.h. */
#include "weights/tensorflow/bundle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "weights/tensorflow/tensorflow.h"

#define MAX_INDEX   ((size_t)64 << 20)
#define MAX_ENTRIES (1 << 15)
#define MAX_NAMES   ((size_t)32 << 20)
/* At the end of a table: two places of blocks, padding, this number. */
#define FOOTER_BYTES 48
#define MAGIC        UINT64_C(0xdb4775248b80fb57)
/* After a block: its compression and its checksum. */
#define TRAILER_BYTES 5

static int malformed(const char *what, struct infer_error *err)
{
    return error_set(err, INFER_EFORMAT, "variables.index: %s", what);
}

/* ---- bytes --------------------------------------------------------- */

/* A part of the table. */
struct part {
    unsigned char *at, *end;
};

static bool read_varint(struct part *p, uint64_t *out)
{
    uint64_t value = 0;

    for (int i = 0; i < 9 && p->at < p->end; i++) {
        const unsigned char c = *p->at++;

        value |= (uint64_t)(c & 0x7f) << (7 * i);
        if (!(c & 0x80)) {
            *out = value;
            return true;
        }
    }
    return false;
}

static uint64_t little_endian(const unsigned char *p, int n)
{
    uint64_t value = 0;

    for (int i = 0; i < n; i++)
        value |= (uint64_t)p[i] << (8 * i);
    return value;
}

/* ---- blocks -------------------------------------------------------- */

/* The entries of the block at a place, without the list of restarts. */
static int open_block(const struct tf_bundle *b, struct part *place,
                      struct part *out, struct infer_error *err)
{
    uint64_t offset, bytes, restarts;
    unsigned char *p;

    if (!read_varint(place, &offset) || !read_varint(place, &bytes) ||
        !checked_range(offset, bytes, b->index->bytes) ||
        !checked_range(offset + bytes, TRAILER_BYTES, b->index->bytes))
        return malformed("a block lies outside the file", err);
    p = b->index->data + offset;
    if (p[bytes] != 0)
        return error_set(err, INFER_EUNSUPPORTED,
                         "variables.index: blocks of compression %d", p[bytes]);
    if (bytes < 4)
        return malformed("a block is too short", err);
    restarts = little_endian(p + bytes - 4, 4);
    if (restarts > (bytes - 4) / 4)
        return malformed("a block has too many restarts", err);
    out->at = p;
    out->end = p + bytes - 4 - 4 * restarts;
    return 0;
}

/* The key of an entry is the end of its own after the start of the one before
 * it; both lie in `key`. */
struct key {
    unsigned char *data;
    size_t bytes;
};

static int next_entry(struct part *block, struct key *key,
                      struct pb_span *value, struct infer_error *err)
{
    uint64_t shared, own, bytes;
    unsigned char *p;

    if (!read_varint(block, &shared) || !read_varint(block, &own) ||
        !read_varint(block, &bytes) || shared > key->bytes ||
        own > ONNX_MAX_NAME - shared ||
        own > (uint64_t)(block->end - block->at) ||
        bytes > (uint64_t)(block->end - block->at) - own)
        return malformed("a malformed entry", err);
    p = realloc(key->data, (size_t)(shared + own) + 1);
    if (!p)
        return error_set(err, INFER_EMEMORY, "out of memory");
    memcpy(p + shared, block->at, (size_t)own);
    key->data = p;
    key->bytes = (size_t)(shared + own);
    block->at += own;
    *value = (struct pb_span){block->at, (size_t)bytes};
    block->at += bytes;
    return 0;
}

static int add_entry(struct tf_bundle *b, const struct key *key,
                     struct pb_span value, struct infer_error *err)
{
    unsigned char *name;

    if (b->n_entries == b->capacity) {
        const int capacity = b->capacity ? 2 * b->capacity : 64;
        void *p;

        if (capacity > MAX_ENTRIES)
            return malformed("too many entries", err);
        p = realloc(b->entry, (size_t)capacity * sizeof *b->entry);
        if (!p)
            return error_set(err, INFER_EMEMORY, "out of memory");
        b->entry = p;
        b->capacity = capacity;
    }
    if (key->bytes > MAX_NAMES - b->made)
        return malformed("names take too much room", err);
    name = onnx_alloc(&b->arena, key->bytes);
    if (!name)
        return error_set(err, INFER_EMEMORY, "out of memory");
    b->made += key->bytes;
    if (key->bytes)
        memcpy(name, key->data, key->bytes);
    b->entry[b->n_entries++] =
        (struct tf_bundle_entry){{name, key->bytes}, value, NULL};
    return 0;
}

static int read_block(struct tf_bundle *b, struct pb_span place,
                      struct infer_error *err)
{
    struct part at = {place.data, place.data + place.bytes}, block;
    struct key key = {NULL, 0};
    struct pb_span value;
    int rc = open_block(b, &at, &block, err);

    while (rc == 0 && block.at < block.end) {
        rc = next_entry(&block, &key, &value, err);
        if (rc == 0)
            rc = add_entry(b, &key, value, err);
    }
    free(key.data);
    return rc;
}

/* The index block lists the blocks with entries.  Each block is read once: all
 * of them together are no longer than the file. */
static int read_table(struct tf_bundle *b, struct infer_error *err)
{
    const size_t n = b->index->bytes;
    struct part footer, index;
    struct key key = {NULL, 0};
    struct pb_span place;
    uint64_t ignored, read = 0;
    int rc;

    if (n < FOOTER_BYTES || little_endian(b->index->data + n - 8, 8) != MAGIC)
        return malformed("it is no table of TensorFlow's", err);
    footer.at = b->index->data + n - FOOTER_BYTES;
    footer.end = footer.at + FOOTER_BYTES - 8;
    if (!read_varint(&footer, &ignored) || !read_varint(&footer, &ignored))
        return malformed("a malformed footer", err);
    rc = open_block(b, &footer, &index, err);
    while (rc == 0 && index.at < index.end) {
        struct part at;
        uint64_t offset = 0, bytes = 0;

        rc = next_entry(&index, &key, &place, err);
        if (rc < 0)
            break;
        at = (struct part){place.data, place.data + place.bytes};
        if (read_varint(&at, &offset) && read_varint(&at, &bytes))
            read += bytes;
        if (read > n)
            rc = malformed("blocks overlap", err);
        if (rc == 0)
            rc = read_block(b, place, err);
    }
    free(key.data);
    return rc;
}

/* ---- entries ------------------------------------------------------- */

static int compare_entries(const void *a, const void *b)
{
    const struct pb_span x = ((const struct tf_bundle_entry *)a)->name;
    const struct pb_span y = ((const struct tf_bundle_entry *)b)->name;
    const size_t n = x.bytes < y.bytes ? x.bytes : y.bytes;
    const int order = n ? memcmp(x.data, y.data, n) : 0;

    return order != 0 ? order : (x.bytes > y.bytes) - (x.bytes < y.bytes);
}

bool tf_bundle_find(const struct tf_bundle *b, struct pb_span name,
                    struct pb_span *out)
{
    const struct tf_bundle_entry key = {.name = name};
    const struct tf_bundle_entry *found = NULL;

    if (b->n_entries > 0)
        found = bsearch(&key, b->entry, (size_t)b->n_entries, sizeof *b->entry,
                        compare_entries);
    if (found)
        *out = found->value;
    return found != NULL;
}

bool tf_bundle_has(const struct tf_bundle *b, struct pb_span entry)
{
    return b->index && entry.data >= b->index->data &&
           entry.data <= b->index->data + b->index->bytes;
}

/* BundleHeaderProto, the entry with the empty name. */
static int read_header(struct tf_bundle *b, struct infer_error *err)
{
    const struct pb_span empty = {NULL, 0};
    struct pb_span header;
    struct pb_reader r;
    struct pb_field f;
    int rc;

    b->shards = 1;
    if (!tf_bundle_find(b, empty, &header))
        return malformed("it has no header", err);
    pb_open(&r, header.data, header.bytes);
    while ((rc = pb_next(&r, &f, err)) > 0) {
        if (f.number == 1 && f.wire == PB_VARINT)
            b->shards = (int64_t)f.value;
        else if (f.number == 2 && f.wire == PB_VARINT && f.value != 0)
            return error_set(err, INFER_EUNSUPPORTED,
                             "variables.index: big-endian data");
    }
    if (rc == 0 && (b->shards < 1 || b->shards > 99999))
        rc = malformed("an impossible number of data files", err);
    return rc;
}

/* Where an entry's data lie. */
struct extent {
    uint64_t shard, offset, size;
};

static int compare_extents(const void *a, const void *b)
{
    const struct extent *x = a, *y = b;

    if (x->shard != y->shard)
        return x->shard < y->shard ? -1 : 1;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

static int read_extent(struct pb_span span, struct extent *out,
                       struct infer_error *err)
{
    struct pb_reader r;
    struct pb_field f;
    int rc;

    *out = (struct extent){0, 0, 0};
    pb_open(&r, span.data, span.bytes);
    while ((rc = pb_next(&r, &f, err)) > 0) {
        if (f.wire != PB_VARINT)
            continue;
        if (f.number == 3)
            out->shard = f.value;
        else if (f.number == 4)
            out->offset = f.value;
        else if (f.number == 5)
            out->size = f.value;
    }
    return rc;
}

/* Entries may not share data: all of them together are then no larger than
 * the files. */
static int check_overlap(const struct tf_bundle *b, struct infer_error *err)
{
    struct extent *e = calloc((size_t)b->n_entries + 1, sizeof *e);
    int n = 0, rc = e ? 0 : error_set(err, INFER_EMEMORY, "out of memory");

    for (int i = 0; i < b->n_entries && rc == 0; i++) {
        if (b->entry[i].name.bytes == 0)
            continue; /* the header */
        rc = read_extent(b->entry[i].value, &e[n], err);
        n += e[n].size > 0;
    }
    if (rc == 0 && n > 0)
        qsort(e, (size_t)n, sizeof *e, compare_extents);
    for (int i = 1; i < n && rc == 0; i++)
        if (e[i].shard == e[i - 1].shard &&
            e[i].offset - e[i - 1].offset < e[i - 1].size)
            rc = malformed("two variables share data", err);
    free(e);
    return rc;
}

int tf_bundle_parse(struct blob *index, const char *path,
                    struct infer_error *err, struct tf_bundle *b)
{
    int rc;

    memset(b, 0, sizeof *b);
    b->index = index;
    b->path = path;
    b->bytes = index->bytes;
    rc = read_table(b, err);
    if (rc == 0 && b->n_entries > 0)
        qsort(b->entry, (size_t)b->n_entries, sizeof *b->entry,
              compare_entries);
    if (rc == 0)
        rc = read_header(b, err);
    if (rc == 0)
        rc = check_overlap(b, err);
    if (rc < 0)
        tf_bundle_close(b);
    return rc;
}

int tf_bundle_open(const char *path, struct infer_error *err,
                   struct tf_bundle *b)
{
    static const char name[] = "variables/variables.index";
    const struct weights_location location = {name, sizeof name - 1};
    struct blob *index = NULL;
    int rc = weights_external_read(path, location, MAX_INDEX, err, &index);

    memset(b, 0, sizeof *b);
    return rc < 0 ? rc : tf_bundle_parse(index, path, err, b);
}

void tf_bundle_close(struct tf_bundle *b)
{
    for (int i = 0; i < b->n_entries; i++)
        constant_unref(b->entry[i].loaded);
    weights_external_clear(&b->external);
    blob_unref(b->index);
    free(b->entry);
    onnx_arena_clear(&b->arena);
    memset(b, 0, sizeof *b);
}

/* ---- tensors ------------------------------------------------------- */

struct entry {
    uint64_t type, offset, size, shard;
    int rank;
    int64_t dim[INFER_MAX_RANK];
};

static int read_entry(const struct tf_bundle *b, struct pb_span span,
                      struct entry *e, struct infer_error *err)
{
    const struct tf_graph g = {.blob = b->index};
    struct pb_reader r = tf_reader(&g, span);
    struct pb_field f;
    int rc;

    memset(e, 0, sizeof *e);
    while ((rc = pb_next(&r, &f, err)) > 0) {
        if (f.number == 2)
            rc = pb_expect(&r, &f, PB_BYTES, "a shape", err);
        else if (f.number == 7)
            rc = error_set(err, INFER_EUNSUPPORTED,
                           "a variable that is stored in slices");
        else if (f.number == 1 || (f.number >= 3 && f.number <= 5))
            rc = pb_expect(&r, &f, PB_VARINT, "an entry", err);
        if (rc >= 0 && f.number == 2)
            rc = tf_shape_parse(&g, f.span, &e->rank, e->dim, err);
        if (rc < 0)
            return rc;
        if (f.number == 1)
            e->type = f.value;
        else if (f.number == 3)
            e->shard = f.value;
        else if (f.number == 4)
            e->offset = f.value;
        else if (f.number == 5)
            e->size = f.value;
    }
    return rc;
}

static int load_entry(struct tf_bundle *b, struct pb_span span,
                      struct infer_error *err, struct constant **out)
{
    struct infer_tensor_info shape = {0};
    struct weights_location location;
    char name[64];
    int64_t count;
    size_t bytes;
    struct entry e;
    int rc = read_entry(b, span, &e, err);

    if (rc < 0)
        return rc;
    if (tf_dtype(e.type) == INFER_NONE)
        return error_set(err, INFER_EUNSUPPORTED,
                         "a variable of TensorFlow's type %llu",
                         (unsigned long long)e.type);
    if (e.rank < 0 || !checked_count(e.rank, e.dim, &count) ||
        !checked_mul((size_t)count, infer_dtype_size(tf_dtype(e.type)),
                     &bytes) ||
        bytes != e.size)
        return error_set(err, INFER_EFORMAT,
                         "a variable's shape does not match its %llu bytes",
                         (unsigned long long)e.size);
    if (e.shard >= (uint64_t)b->shards)
        return error_set(err, INFER_EFORMAT, "data file %llu of %lld",
                         (unsigned long long)e.shard, (long long)b->shards);
    shape.dtype = tf_dtype(e.type);
    shape.rank = e.rank;
    memcpy(shape.dim, e.dim, sizeof shape.dim);
    snprintf(name, sizeof name, "variables/variables.data-%05d-of-%05d",
             (int)e.shard, (int)b->shards);
    location = (struct weights_location){name, strlen(name)};
    rc = weights_external_load(b->path, location, e.offset, &shape, bytes,
                               &b->external, err, out);
    if (rc == 0)
        b->bytes += bytes;
    return rc;
}

static struct tf_bundle_entry *entry_of(const struct tf_bundle *b,
                                        struct pb_span span)
{
    for (int i = 0; i < b->n_entries; i++)
        if (b->entry[i].value.data == span.data)
            return &b->entry[i];
    return NULL;
}

int tf_bundle_load(struct tf_bundle *b, struct pb_span span,
                   struct infer_error *err, struct constant **out)
{
    struct tf_bundle_entry *e = entry_of(b, span);
    int rc = 0;

    if (!e)
        return malformed("no such entry", err);
    if (!e->loaded)
        rc = load_entry(b, span, err, &e->loaded);
    if (rc == 0)
        *out = constant_ref(e->loaded);
    return rc;
}

void tf_bundle_forget(struct tf_bundle *b, struct pb_span span)
{
    struct tf_bundle_entry *e = entry_of(b, span);

    if (e) {
        constant_unref(e->loaded);
        e->loaded = NULL;
    }
}
