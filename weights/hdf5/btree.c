/* SPDX-License-Identifier: Apache-2.0 */
/* HDF5: B-trees of version 1 (old groups, chunks) and 2 (dense links and
 * attributes, chunks, huge heap objects).  Both walks go down one level with
 * every call, and the work budget bounds how often a block is seen. */
#include <string.h>

#include "weights/hdf5/internal.h"

/* Deeper trees cannot occur: each level at least doubles the entries. */
#define MAX_LEVEL 40

/* ---- version 1 ----------------------------------------------------- */

struct walk1 {
    struct hdf5_file *f;
    unsigned type, max_entries;
    size_t key_bytes;
    hdf5_btree1_fn *fn;
    void *user;
};

/* Node: "TREE", type, level, entries (2), two sibling addresses, then
 * key 0, child 0, key 1, child 1, ..., key n.  Siblings are not followed. */
static int walk1_node(struct walk1 *w, uint64_t address, int level,
                      struct infer_error *err)
{
    struct hdf5_file *f = w->f;
    const size_t head = 8 + 2 * (size_t)f->offset_size;
    const unsigned char *p;
    int rc = hdf5_block(f, address, head, "B-tree node", err, &p);

    if (rc < 0)
        return rc;
    const unsigned entries = p[6] | (unsigned)p[7] << 8;
    if (memcmp(p, "TREE", 4) != 0 || p[4] != w->type)
        return hdf5_malformed(err, address, "no B-tree node here");
    if (level >= 0 ? p[5] != level : p[5] > MAX_LEVEL)
        return hdf5_malformed(err, address,
                              "B-tree node of level %u where %d is due", p[5],
                              level >= 0 ? level : MAX_LEVEL);
    if (entries > w->max_entries)
        return hdf5_malformed(err, address,
                              "B-tree node of %u entries; at most %u fit",
                              entries, w->max_entries);
    const size_t step = w->key_bytes + f->offset_size;
    level = p[5];
    rc = hdf5_block(f, address, head + entries * step + w->key_bytes,
                    "B-tree node", err, &p);
    for (unsigned i = 0; rc == 0 && i < entries; i++) {
        const unsigned char *key = p + head + i * step;
        struct hdf5_cursor c = hdf5_cursor(key + w->key_bytes, f->offset_size);
        const uint64_t child = hdf5_address(&c, f);
        rc = level > 0 ? walk1_node(w, child, level - 1, err)
                       : w->fn(w->user, key, child, err);
    }
    return rc;
}

int hdf5_btree1_walk(struct hdf5_file *f, uint64_t address, unsigned type,
                     size_t key_bytes, unsigned max_entries, hdf5_btree1_fn *fn,
                     void *user, struct infer_error *err)
{
    struct walk1 w = {f, type, max_entries, key_bytes, fn, user};

    return walk1_node(&w, address, -1, err);
}

/* ---- version 2 ----------------------------------------------------- */

struct walk2 {
    struct hdf5_file *f;
    unsigned type, depth;
    size_t node_bytes, record_bytes;
    unsigned count_bytes;            /* of a child's own records */
    uint64_t max_records[MAX_LEVEL]; /* of a node, by level */
    unsigned total_bytes[MAX_LEVEL]; /* of a subtree's count */
    hdf5_btree2_fn *fn;
    void *user;
};

/* Nodes have one size; how many records fit, and how wide the counts in child
 * pointers are, follows from it level by level. */
static int plan_levels(struct walk2 *w, uint64_t address,
                       struct infer_error *err)
{
    const size_t frame = 10; /* signature, version, type, checksum */
    uint64_t total;

    if (w->record_bytes == 0 || w->node_bytes < frame + w->record_bytes)
        return hdf5_malformed(err, address,
                              "B-tree nodes of %zu bytes for records of %zu",
                              w->node_bytes, w->record_bytes);
    w->max_records[0] = (w->node_bytes - frame) / w->record_bytes;
    w->total_bytes[0] = 0;
    w->count_bytes = hdf5_bytes_for(w->max_records[0]);
    total = w->max_records[0];
    for (unsigned u = 1; u <= w->depth; u++) {
        const size_t pointer =
            w->f->offset_size + w->count_bytes + w->total_bytes[u - 1];
        if (w->node_bytes < frame + 2 * pointer + w->record_bytes)
            return hdf5_malformed(err, address,
                                  "B-tree nodes of %zu bytes cannot have "
                                  "children",
                                  w->node_bytes);
        w->max_records[u] =
            (w->node_bytes - frame - pointer) / (w->record_bytes + pointer);
        if (__builtin_mul_overflow(w->max_records[u] + 1, total, &total) ||
            __builtin_add_overflow(total, w->max_records[u], &total))
            return hdf5_malformed(err, address, "B-tree of depth %u", w->depth);
        w->total_bytes[u] = hdf5_bytes_for(total);
    }
    return 0;
}

static int walk2_node(struct walk2 *w, uint64_t address, uint64_t records,
                      unsigned level, struct infer_error *err)
{
    struct hdf5_file *f = w->f;
    const unsigned char *p;

    if (records > w->max_records[level])
        return hdf5_malformed(err, address,
                              "B-tree node of %llu records; %llu fit",
                              (unsigned long long)records,
                              (unsigned long long)w->max_records[level]);
    const size_t pointer =
        level ? f->offset_size + w->count_bytes + w->total_bytes[level - 1] : 0;
    const size_t bytes = 6 + (size_t)records * w->record_bytes +
                         (level ? (size_t)(records + 1) * pointer : 0);
    int rc = hdf5_block(f, address, bytes + 4, "B-tree node", err, &p);
    if (rc < 0)
        return rc;
    if (memcmp(p, level ? "BTIN" : "BTLF", 4) != 0 || p[4] != 0 ||
        p[5] != w->type)
        return hdf5_malformed(err, address, "no B-tree node here");
    rc = hdf5_check(address, p, bytes, "B-tree node", err);
    const unsigned char *record = p + 6;
    struct hdf5_cursor c =
        hdf5_cursor(record + (size_t)records * w->record_bytes,
                    level ? (size_t)(records + 1) * pointer : 0);
    for (uint64_t i = 0; rc == 0; i++) {
        if (level > 0) {
            const uint64_t child = hdf5_address(&c, f);
            const uint64_t n = hdf5_uint(&c, w->count_bytes);
            hdf5_skip(&c, w->total_bytes[level - 1]);
            rc = walk2_node(w, child, n, level - 1, err);
        }
        if (rc != 0 || i == records)
            break;
        rc = w->fn(w->user, record + i * w->record_bytes, w->record_bytes, err);
    }
    return rc;
}

int hdf5_btree2_walk(struct hdf5_file *f, uint64_t address, unsigned type,
                     hdf5_btree2_fn *fn, void *user, struct infer_error *err)
{
    struct walk2 w = {.f = f, .type = type, .fn = fn, .user = user};
    const size_t bytes = 18 + f->offset_size + f->length_size;
    const unsigned char *p;
    int rc = hdf5_block(f, address, bytes + 4, "B-tree header", err, &p);

    if (rc < 0)
        return rc;
    if (memcmp(p, "BTHD", 4) != 0 || p[4] != 0 || p[5] != type)
        return hdf5_malformed(err, address, "no B-tree of type %u here", type);
    rc = hdf5_check(address, p, bytes, "B-tree header", err);
    if (rc < 0)
        return rc;
    struct hdf5_cursor c = hdf5_cursor(p + 6, bytes - 6);
    w.node_bytes = (size_t)hdf5_uint(&c, 4);
    w.record_bytes = (size_t)hdf5_uint(&c, 2);
    w.depth = (unsigned)hdf5_uint(&c, 2);
    hdf5_skip(&c, 2); /* when to split and merge */
    const uint64_t root = hdf5_address(&c, f);
    const uint64_t records = hdf5_uint(&c, 2);
    if (w.depth >= MAX_LEVEL)
        return hdf5_malformed(err, address, "B-tree of depth %u", w.depth);
    rc = plan_levels(&w, address, err);
    if (rc < 0)
        return rc;
    if (root == HDF5_UNDEFINED && records == 0)
        return 0; /* an empty tree */
    return walk2_node(&w, root, records, w.depth, err);
}
