/* SPDX-License-Identifier: Apache-2.0 */
/* HDF5: local heaps (names of old groups), global heap collections (strings of
 * variable length) and fractal heaps (dense links and attributes). */
#include <string.h>

#include "weights/hdf5/internal.h"

/* ---- local heap ---------------------------------------------------- */

/* "HEAP", version, reserved (3), segment size, free list, segment address.
 * The free list is of no use to a reader and is not walked. */
int hdf5_local_name(struct hdf5_file *f, uint64_t heap, uint64_t offset,
                    struct infer_error *err, const char **name, size_t *bytes)
{
    const size_t head = 8 + 2 * (size_t)f->length_size + f->offset_size;
    const unsigned char *p;
    int rc = hdf5_block(f, heap, head, "local heap", err, &p);

    if (rc < 0)
        return rc;
    if (memcmp(p, "HEAP", 4) != 0 || p[4] != 0)
        return hdf5_malformed(err, heap, "no local heap here");
    struct hdf5_cursor c = hdf5_cursor(p + 8, head - 8);
    const uint64_t segment_bytes = hdf5_length(&c, f);
    hdf5_length(&c, f);
    const uint64_t segment = hdf5_address(&c, f);
    if (segment == HDF5_UNDEFINED ||
        !checked_range(segment, segment_bytes, f->bytes))
        return hdf5_malformed(err, heap,
                              "local heap data of %llu bytes reach past the "
                              "end",
                              (unsigned long long)segment_bytes);
    if (offset >= segment_bytes)
        return hdf5_malformed(
            err, heap, "name at %llu of a local heap of %llu bytes",
            (unsigned long long)offset, (unsigned long long)segment_bytes);
    const unsigned char *text = f->data + segment + offset;
    const unsigned char *end =
        memchr(text, 0, (size_t)(segment_bytes - offset));
    if (end == NULL)
        return hdf5_malformed(err, segment + offset,
                              "name without end in a local heap");
    *name = (const char *)text;
    *bytes = (size_t)(end - text);
    return hdf5_work(f, *bytes, err);
}

/* ---- global heap --------------------------------------------------- */

/* "GCOL", version, reserved (3), bytes of the collection with this head, then
 * objects: index (2), references (2), reserved (4), bytes, data padded to 8.
 * Object 0 is the free space at the end. */
int hdf5_global_object(struct hdf5_file *f, uint64_t collection, uint64_t index,
                       struct infer_error *err, const unsigned char **data,
                       size_t *bytes)
{
    const size_t head = 8 + (size_t)f->length_size;
    const size_t object_head = 8 + (size_t)f->length_size;
    const unsigned char *p;
    int rc = hdf5_block(f, collection, head, "global heap collection", err, &p);

    if (rc < 0)
        return rc;
    if (memcmp(p, "GCOL", 4) != 0 || p[4] != 1)
        return hdf5_malformed(err, collection,
                              "no global heap collection here");
    struct hdf5_cursor c = hdf5_cursor(p + 8, f->length_size);
    const uint64_t total = hdf5_length(&c, f);
    if (total < head || !checked_range(collection, total, f->bytes))
        return hdf5_malformed(err, collection,
                              "global heap collection of %llu bytes",
                              (unsigned long long)total);
    c = hdf5_cursor(p + head, (size_t)total - head);
    while (hdf5_left(&c) >= object_head) {
        const uint64_t number = hdf5_uint(&c, 2);
        hdf5_skip(&c, 6);
        const uint64_t size = hdf5_length(&c, f);
        if (number == 0)
            break;
        if (size > hdf5_left(&c))
            return hdf5_malformed(err, collection,
                                  "global heap object %llu of %llu bytes "
                                  "reaches past its collection",
                                  (unsigned long long)number,
                                  (unsigned long long)size);
        rc = hdf5_work(f, object_head, err);
        if (rc < 0)
            return rc;
        const unsigned char *body = hdf5_skip(&c, (size_t)size);
        if (number == index) {
            *data = body;
            *bytes = (size_t)size;
            return hdf5_work(f, size, err);
        }
        const size_t pad = (8 - (size_t)size % 8) % 8;
        hdf5_skip(&c, pad < hdf5_left(&c) ? pad : hdf5_left(&c));
    }
    return hdf5_malformed(err, collection, "no global heap object %llu here",
                          (unsigned long long)index);
}

/* ---- fractal heap -------------------------------------------------- */

static bool is_power_of_two(uint64_t v)
{
    return v != 0 && (v & (v - 1)) == 0;
}

/* The doubling table: rows of `width` blocks; rows 0 and 1 have blocks of the
 * starting size, and each later row doubles. */
static int check_table(const struct hdf5_heap *h, struct infer_error *err)
{
    if (!is_power_of_two(h->width) || !is_power_of_two(h->start_bytes) ||
        !is_power_of_two(h->max_direct_bytes) ||
        h->max_direct_bytes < h->start_bytes || h->width > 4096 ||
        h->max_direct_bytes > (uint64_t)1 << 40 || h->max_bits == 0 ||
        h->max_bits > 64 || h->root_rows > 64)
        return hdf5_malformed(err, h->address,
                              "fractal heap with a senseless block table");
    return 0;
}

static unsigned smaller(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

int hdf5_heap_open(struct hdf5_file *f, uint64_t address,
                   struct infer_error *err, struct hdf5_heap *out)
{
    const size_t bytes =
        22 + 12 * (size_t)f->length_size + 3 * (size_t)f->offset_size;
    const unsigned char *p;
    int rc = hdf5_block(f, address, bytes + 4, "fractal heap", err, &p);

    memset(out, 0, sizeof *out);
    out->address = address;
    if (rc < 0)
        return rc;
    if (memcmp(p, "FRHP", 4) != 0 || p[4] != 0)
        return hdf5_malformed(err, address, "no fractal heap here");
    struct hdf5_cursor c = hdf5_cursor(p + 5, bytes - 5);
    out->id_bytes = (unsigned)hdf5_uint(&c, 2);
    const uint64_t filter_bytes = hdf5_uint(&c, 2);
    if (filter_bytes != 0)
        return hdf5_unsupported(err, address, "fractal heap with filters");
    rc = hdf5_check(address, p, bytes, "fractal heap", err);
    if (rc < 0)
        return rc;
    out->checksums = (hdf5_uint(&c, 1) & 2) != 0;
    out->max_managed = hdf5_uint(&c, 4);
    hdf5_length(&c, f); /* next huge ID */
    out->huge_tree = hdf5_address(&c, f);
    hdf5_length(&c, f);  /* free space */
    hdf5_address(&c, f); /* its manager */
    for (int i = 0; i < 8; i++)
        hdf5_length(&c, f); /* statistics */
    out->width = (unsigned)hdf5_uint(&c, 2);
    out->start_bytes = hdf5_length(&c, f);
    out->max_direct_bytes = hdf5_length(&c, f);
    out->max_bits = (unsigned)hdf5_uint(&c, 2);
    hdf5_uint(&c, 2); /* starting rows */
    out->root_block = hdf5_address(&c, f);
    out->root_rows = (unsigned)hdf5_uint(&c, 2);
    rc = check_table(out, err);
    if (rc < 0)
        return rc;
    out->offset_bytes = (out->max_bits + 7) / 8;
    out->length_bytes = smaller((hdf5_log2(out->max_direct_bytes) + 7) / 8,
                                hdf5_bytes_for(out->max_managed));
    return 0;
}

/* Checks a direct block once: its checksum covers the block with the checksum
 * itself zero, so the sum is taken over a copy. */
static int check_direct(struct hdf5_file *f, struct hdf5_heap *h,
                        uint64_t address, uint64_t bytes,
                        struct infer_error *err)
{
    const size_t head = 5 + (size_t)f->offset_size + h->offset_bytes;
    uint64_t *seen = &h->checked[(address >> 9) % HDF5_HEAP_CHECKED];
    const unsigned char *p;

    /* The bounds are always checked: another table may state another size for
     * the same address. */
    if (address != HDF5_UNDEFINED && *seen == address + 1 &&
        checked_range(address, bytes, f->bytes))
        return 0;
    int rc = hdf5_block(f, address, bytes, "heap block", err, &p);
    if (rc < 0)
        return rc;
    if (bytes < head + 4 || memcmp(p, "FHDB", 4) != 0 || p[4] != 0)
        return hdf5_malformed(err, address, "no heap block here");
    if (h->checksums) {
        void *copy;
        rc = hdf5_alloc(f, (size_t)bytes, err, &copy);
        if (rc < 0)
            return rc;
        memcpy(copy, p, (size_t)bytes);
        memset((unsigned char *)copy + head, 0, 4);
        const uint32_t found = hdf5_checksum(copy, (size_t)bytes);
        hdf5_release(f, copy, (size_t)bytes);
        struct hdf5_cursor c = hdf5_cursor(p + head, 4);
        if (hdf5_uint(&c, 4) != found)
            return hdf5_malformed(err, address,
                                  "heap block has a wrong checksum");
    }
    *seen = address + 1;
    return 0;
}

/* Blocks of a row, and where the row starts in the heap's address space. */
static uint64_t row_block(const struct hdf5_heap *h, unsigned row)
{
    return row < 2 ? h->start_bytes : h->start_bytes << (row - 1);
}

/* Child address of an indirect block: "FHIB", version, heap address, offset,
 * then addresses row by row, first the direct blocks, then indirect ones. */
static int indirect_child(struct hdf5_file *f, struct hdf5_heap *h,
                          uint64_t address, unsigned rows, unsigned row,
                          uint64_t column, struct infer_error *err,
                          uint64_t *child)
{
    const size_t head = 5 + (size_t)f->offset_size + h->offset_bytes;
    const size_t bytes = head + (size_t)rows * h->width * f->offset_size;
    const unsigned char *p;
    int rc = hdf5_block(f, address, bytes + 4, "heap block table", err, &p);

    if (rc < 0)
        return rc;
    if (memcmp(p, "FHIB", 4) != 0 || p[4] != 0)
        return hdf5_malformed(err, address, "no heap block table here");
    rc = hdf5_check(address, p, bytes, "heap block table", err);
    if (rc < 0)
        return rc;
    const size_t index = (size_t)row * h->width + (size_t)column;
    struct hdf5_cursor c =
        hdf5_cursor(p + head + index * f->offset_size, f->offset_size);
    *child = hdf5_address(&c, f);
    return 0;
}

/* Bytes at an offset of the heap's address space, which may not cross the end
 * of their block. */
static int managed(struct hdf5_file *f, struct hdf5_heap *h, uint64_t offset,
                   uint64_t bytes, struct infer_error *err,
                   const unsigned char **data)
{
    const unsigned max_direct_rows =
        hdf5_log2(h->max_direct_bytes) - hdf5_log2(h->start_bytes) + 2;
    uint64_t block = h->root_block, size = h->start_bytes;
    unsigned rows = h->root_rows;
    int rc;

    /* rows == 0: the block is a direct one. */
    while (rows > 0) {
        const uint64_t first = h->start_bytes * h->width;
        const unsigned row =
            offset < first ? 0 : hdf5_log2(offset) - hdf5_log2(first) + 1;
        if (row >= rows)
            return hdf5_malformed(err, h->address,
                                  "heap offset %llu is past the heap",
                                  (unsigned long long)offset);
        const uint64_t row_start = row ? first << (row - 1) : 0;
        size = row_block(h, row);
        const uint64_t column = (offset - row_start) / size;
        offset -= row_start + column * size;
        rc = indirect_child(f, h, block, rows, row, column, err, &block);
        if (rc < 0)
            return rc;
        if (row < max_direct_rows) {
            rows = 0;
        } else {
            /* Rows of a child get fewer with every step, so this ends. */
            const unsigned below = hdf5_log2(size) - hdf5_log2(first) + 1;
            if (below >= rows)
                return hdf5_malformed(err, h->address,
                                      "heap block tables do not shrink");
            rows = below;
        }
    }
    if (!checked_range(offset, bytes, size))
        return hdf5_malformed(err, h->address,
                              "heap object reaches past its block");
    rc = check_direct(f, h, block, size, err);
    if (rc < 0)
        return rc;
    *data = f->data + block + offset;
    return 0;
}

/* A record of the tree of huge objects: address, length, ID. */
struct huge_search {
    struct hdf5_file *f;
    uint64_t id, address, bytes;
};

static int match_huge(void *user, const unsigned char *record, size_t bytes,
                      struct infer_error *err)
{
    struct huge_search *s = user;
    struct hdf5_cursor c = hdf5_cursor(record, bytes);
    const uint64_t address = hdf5_address(&c, s->f);
    const uint64_t length = hdf5_length(&c, s->f);
    const uint64_t id = hdf5_length(&c, s->f);

    if (c.bad)
        return hdf5_malformed(err, HDF5_UNDEFINED,
                              "record of a huge heap object cut short");
    if (id != s->id)
        return 0;
    s->address = address;
    s->bytes = length;
    return 1;
}

static int huge(struct hdf5_file *f, const struct hdf5_heap *h,
                struct hdf5_cursor *c, struct infer_error *err,
                const unsigned char **data, size_t *bytes)
{
    struct huge_search s = {f, 0, HDF5_UNDEFINED, 0};
    const size_t direct = (size_t)f->offset_size + f->length_size;

    if (h->id_bytes - 1 >= direct) {
        s.address = hdf5_address(c, f);
        s.bytes = hdf5_length(c, f);
    } else {
        s.id = hdf5_uint(c, smaller(f->length_size, h->id_bytes - 1));
        const int rc =
            hdf5_btree2_walk(f, h->huge_tree, 1, match_huge, &s, err);
        if (rc < 0)
            return rc;
    }
    const int rc =
        hdf5_block(f, s.address, s.bytes, "huge heap object", err, data);
    *bytes = (size_t)s.bytes;
    return rc;
}

int hdf5_heap_object(struct hdf5_file *f, struct hdf5_heap *h,
                     const unsigned char *id, struct infer_error *err,
                     const unsigned char **data, size_t *bytes)
{
    struct hdf5_cursor c = hdf5_cursor(id, h->id_bytes);
    const unsigned first = (unsigned)hdf5_uint(&c, 1);
    const unsigned kind = first >> 4 & 3;

    if (first >> 6 != 0 || h->id_bytes < 2 || kind == 3)
        return hdf5_malformed(err, h->address, "senseless heap ID");
    if (kind == 1)
        return huge(f, h, &c, err, data, bytes);
    if (kind == 2) {
        /* The object lies in the ID itself. */
        size_t n = first & 15;
        if (h->id_bytes > 18)
            n = n << 8 | (size_t)hdf5_uint(&c, 1);
        *bytes = n + 1;
        *data = hdf5_skip(&c, *bytes);
        return *data != NULL ? 0
                             : hdf5_malformed(err, h->address,
                                              "tiny heap object cut short");
    }
    const uint64_t offset = hdf5_uint(&c, h->offset_bytes);
    const uint64_t length = hdf5_uint(&c, h->length_bytes);
    if (c.bad)
        return hdf5_malformed(err, h->address, "heap ID cut short");
    *bytes = (size_t)length;
    return managed(f, h, offset, length, err, data);
}
