/* SPDX-License-Identifier: Apache-2.0 */
/* HDF5: fixed and extensible arrays, the chunk indices of newer files.
 *
 * An element is an address, and for filtered chunks their size and filter
 * mask too.  Undefined addresses are chunks that were never written. */
#include <string.h>

#include "weights/hdf5/internal.h"

/* What both kinds of array share. */
struct array {
    struct hdf5_file *f;
    uint64_t address; /* of the header */
    bool filtered;
    size_t element_bytes, chunk_bytes;
    hdf5_element_fn *fn;
    void *user;
};

/* Width of the chunk size in a filtered element, from the element's width:
 * address, size (1 to 8 bytes), mask (4). */
static int check_element(struct array *a, unsigned client,
                         struct infer_error *err)
{
    const size_t plain = a->f->offset_size;

    if (client != (a->filtered ? 1u : 0u))
        return hdf5_malformed(err, a->address,
                              "chunk array is for %sfiltered chunks",
                              client ? "" : "un");
    if (a->filtered
            ? a->element_bytes < plain + 5 || a->element_bytes > plain + 12
            : a->element_bytes != plain)
        return hdf5_malformed(err, a->address,
                              "chunk array with elements of %zu bytes",
                              a->element_bytes);
    return 0;
}

/* Visits n elements that lie at p, the first of which has this index. */
static int visit(struct array *a, const unsigned char *p, size_t n,
                 uint64_t index, struct infer_error *err)
{
    int rc = 0;

    for (size_t i = 0; i < n && rc == 0; i++) {
        struct hdf5_cursor c =
            hdf5_cursor(p + i * a->element_bytes, a->element_bytes);
        struct hdf5_chunk chunk = {.bytes = a->chunk_bytes};
        chunk.address = hdf5_address(&c, a->f);
        if (a->filtered) {
            chunk.bytes = hdf5_uint(
                &c, (unsigned)(a->element_bytes - a->f->offset_size - 4));
            chunk.mask = (uint32_t)hdf5_uint(&c, 4);
        }
        if (chunk.address != HDF5_UNDEFINED)
            rc = a->fn(a->user, index + i, &chunk, err);
    }
    return rc;
}

/* A block: signature, version, client, header address; checked for those. */
static int array_block(struct array *a, uint64_t address, const char *sign,
                       uint64_t bytes, struct infer_error *err,
                       const unsigned char **out)
{
    const unsigned char *p;
    int rc = hdf5_block(a->f, address, bytes, "chunk array block", err, &p);

    if (rc < 0)
        return rc;
    struct hdf5_cursor c = hdf5_cursor(p + 6, a->f->offset_size);
    if (memcmp(p, sign, 4) != 0 || p[4] != 0 ||
        hdf5_address(&c, a->f) != a->address)
        return hdf5_malformed(err, address, "no %s block of this array here",
                              sign);
    *out = p;
    return 0;
}

static bool bit(const unsigned char *bits, uint64_t i)
{
    return bits[i / 8] >> (7 - i % 8) & 1;
}

/* Pages of elements with a checksum each; pages whose bit in init is not set
 * were never written.  The last page may be short. */
static int visit_pages(struct array *a, uint64_t address,
                       const unsigned char *init, uint64_t elements,
                       uint64_t page, uint64_t first, struct infer_error *err)
{
    const uint64_t pages = (elements + page - 1) / page;
    uint64_t bytes;

    if (__builtin_mul_overflow(page, (uint64_t)a->element_bytes, &bytes) ||
        bytes > a->f->bytes)
        return hdf5_malformed(err, address, "chunk array page of %llu elements",
                              (unsigned long long)page);
    for (uint64_t i = 0; i < pages; i++) {
        const uint64_t left = elements - i * page;
        const uint64_t n = left < page ? left : page;
        const unsigned char *p;
        int rc = hdf5_work(a->f, 1, err);
        if (rc < 0)
            return rc;
        if (!bit(init, i))
            continue;
        uint64_t at;
        if (__builtin_mul_overflow(i, bytes + 4, &at) ||
            __builtin_add_overflow(at, address, &at))
            return hdf5_malformed(err, address, "chunk array overflows");
        const size_t used = (size_t)n * a->element_bytes;
        rc = hdf5_block(a->f, at, used + 4, "chunk array page", err, &p);
        if (rc == 0)
            rc = hdf5_check(at, p, used, "chunk array page", err);
        if (rc == 0)
            rc = visit(a, p, (size_t)n, first + i * page, err);
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* ---- fixed array --------------------------------------------------- */

/* Data block: head, then either all elements and a checksum, or a bitmap of
 * pages with a checksum, and the pages. */
static int fixed_data(struct array *a, uint64_t address, uint64_t elements,
                      unsigned page_bits, struct infer_error *err)
{
    const size_t head = 6 + (size_t)a->f->offset_size;
    const unsigned char *p;
    uint64_t bytes;
    int rc;

    if (page_bits > 62)
        return hdf5_malformed(err, a->address, "pages of 2^%u elements",
                              page_bits);
    const uint64_t page = (uint64_t)1 << page_bits;
    if (elements > page) {
        const uint64_t pages = (elements - 1) / page + 1;
        const uint64_t bitmap = pages / 8 + (pages % 8 != 0);
        if (bitmap > a->f->bytes)
            return hdf5_malformed(err, address, "chunk array of %llu elements",
                                  (unsigned long long)elements);
        rc = array_block(a, address, "FADB", head + bitmap + 4, err, &p);
        if (rc == 0)
            rc = hdf5_check(address, p, head + (size_t)bitmap,
                            "chunk array block", err);
        if (rc < 0)
            return rc;
        return visit_pages(a, address + head + bitmap + 4, p + head, elements,
                           page, 0, err);
    }
    if (__builtin_mul_overflow(elements, (uint64_t)a->element_bytes, &bytes) ||
        bytes > a->f->bytes)
        return hdf5_malformed(err, address, "chunk array of %llu elements",
                              (unsigned long long)elements);
    rc = array_block(a, address, "FADB", head + bytes + 4, err, &p);
    if (rc == 0)
        rc = hdf5_check(address, p, head + (size_t)bytes, "chunk array block",
                        err);
    return rc < 0 ? rc : visit(a, p + head, (size_t)elements, 0, err);
}

/* "FAHD", version, client, element bytes, page bits, elements, data block. */
int hdf5_fixed_array_each(struct hdf5_file *f, uint64_t address, bool filtered,
                          size_t chunk_bytes, hdf5_element_fn *fn, void *user,
                          struct infer_error *err)
{
    struct array a = {f, address, filtered, 0, chunk_bytes, fn, user};
    const size_t bytes = 8 + (size_t)f->length_size + f->offset_size;
    const unsigned char *p;
    int rc = hdf5_block(f, address, bytes + 4, "chunk array", err, &p);

    if (rc < 0)
        return rc;
    if (memcmp(p, "FAHD", 4) != 0 || p[4] != 0)
        return hdf5_malformed(err, address, "no fixed array here");
    rc = hdf5_check(address, p, bytes, "fixed array", err);
    if (rc < 0)
        return rc;
    a.element_bytes = p[6];
    rc = check_element(&a, p[5], err);
    struct hdf5_cursor c = hdf5_cursor(p + 8, bytes - 8);
    const uint64_t elements = hdf5_length(&c, f);
    const uint64_t data = hdf5_address(&c, f);
    if (rc < 0 || data == HDF5_UNDEFINED || elements == 0)
        return rc;
    return fixed_data(&a, data, elements, p[7], err);
}

/* ---- extensible array ---------------------------------------------- */

/* The header's creation parameters and what follows from them.  Data blocks
 * double in size every second super block; the first blocks hang directly off
 * the index block. */
struct extensible {
    struct array a;
    unsigned max_bits;       /* of an index */
    unsigned in_index;       /* elements in the index block itself */
    unsigned first_elements; /* of the smallest data block */
    unsigned min_pointers;   /* of the smallest super block in use */
    unsigned page_bits;
    unsigned offset_bytes; /* of block offsets */
    uint64_t limit;        /* one past the highest index that was set */
};

static uint64_t super_blocks_data(unsigned level)
{
    return (uint64_t)1 << level / 2;
}

static uint64_t data_block_elements(const struct extensible *e, unsigned level)
{
    return ((uint64_t)1 << (level + 1) / 2) * e->first_elements;
}

/* Data block: head, block offset, then elements and checksum, or the head's
 * checksum and pages. */
static int extensible_data(struct extensible *e, uint64_t address,
                           uint64_t elements, uint64_t first,
                           const unsigned char *init, struct infer_error *err)
{
    struct array *a = &e->a;
    const size_t head = 6 + (size_t)a->f->offset_size + e->offset_bytes;
    const uint64_t page = (uint64_t)1 << e->page_bits;
    const unsigned char *p;
    uint64_t bytes;
    int rc;

    if (address == HDF5_UNDEFINED)
        return 0;
    if (elements > page) {
        if (init == NULL)
            return hdf5_malformed(err, address,
                                  "paged data block in an index block");
        rc = array_block(a, address, "EADB", head + 4, err, &p);
        if (rc == 0)
            rc = hdf5_check(address, p, head, "chunk array block", err);
        if (rc < 0)
            return rc;
        return visit_pages(a, address + head + 4, init, elements, page, first,
                           err);
    }
    if (__builtin_mul_overflow(elements, (uint64_t)a->element_bytes, &bytes) ||
        bytes > a->f->bytes)
        return hdf5_malformed(err, address, "data block of %llu elements",
                              (unsigned long long)elements);
    rc = array_block(a, address, "EADB", head + bytes + 4, err, &p);
    if (rc == 0)
        rc = hdf5_check(address, p, head + (size_t)bytes, "chunk array block",
                        err);
    return rc < 0 ? rc : visit(a, p + head, (size_t)elements, first, err);
}

/* Super block: head, block offset, page bitmaps of its data blocks where they
 * are paged, their addresses, checksum. */
static int extensible_super(struct extensible *e, uint64_t address,
                            unsigned level, uint64_t first,
                            struct infer_error *err)
{
    struct array *a = &e->a;
    const size_t head = 6 + (size_t)a->f->offset_size + e->offset_bytes;
    const uint64_t blocks = super_blocks_data(level);
    const uint64_t elements = data_block_elements(e, level);
    const uint64_t page = (uint64_t)1 << e->page_bits;
    const uint64_t bitmap = elements > page ? (elements / page + 7) / 8 : 0;
    const unsigned char *p;

    if (address == HDF5_UNDEFINED)
        return 0;
    if (blocks > a->f->bytes || bitmap > a->f->bytes / blocks)
        return hdf5_malformed(err, address, "chunk array super block %u",
                              level);
    const size_t maps = (size_t)(blocks * bitmap);
    const size_t bytes = head + maps + (size_t)blocks * a->f->offset_size;
    int rc = array_block(a, address, "EASB", (uint64_t)bytes + 4, err, &p);
    if (rc == 0)
        rc = hdf5_check(address, p, bytes, "chunk array block", err);
    if (rc < 0)
        return rc;
    struct hdf5_cursor c =
        hdf5_cursor(p + head + maps, (size_t)blocks * a->f->offset_size);
    for (uint64_t i = 0; i < blocks && rc == 0; i++)
        rc = extensible_data(e, hdf5_address(&c, a->f), elements,
                             first + i * elements,
                             bitmap ? p + head + i * bitmap : NULL, err);
    return rc;
}

/* Index block: head, elements, addresses of data blocks of the first super
 * blocks, addresses of the other super blocks, checksum. */
static int extensible_index(struct extensible *e, uint64_t address,
                            struct infer_error *err)
{
    struct array *a = &e->a;
    const size_t head = 6 + (size_t)a->f->offset_size;
    const unsigned levels = 1 + e->max_bits - hdf5_log2(e->first_elements);
    const unsigned direct_levels = 2 * hdf5_log2(e->min_pointers);
    const unsigned direct = 2 * (e->min_pointers - 1);
    const unsigned supers = levels > direct_levels ? levels - direct_levels : 0;
    const size_t bytes = head + e->in_index * a->element_bytes +
                         ((size_t)direct + supers) * a->f->offset_size;
    const unsigned char *p;
    int rc = array_block(a, address, "EAIB", (uint64_t)bytes + 4, err, &p);

    if (rc == 0)
        rc = hdf5_check(address, p, bytes, "chunk array block", err);
    if (rc == 0)
        rc = visit(a, p + head, e->in_index, 0, err);
    const size_t used = head + e->in_index * a->element_bytes;
    uint64_t first = e->in_index;
    if (rc < 0)
        return rc;
    struct hdf5_cursor c = hdf5_cursor(p + used, bytes - used);
    for (unsigned level = 0; level < levels && rc == 0; level++) {
        const uint64_t blocks = super_blocks_data(level);
        const uint64_t elements = data_block_elements(e, level);
        if (first >= e->limit)
            break; /* nothing was set from here on */
        if (level >= direct_levels)
            rc = extensible_super(e, hdf5_address(&c, a->f), level, first, err);
        for (uint64_t i = 0; level < direct_levels && i < blocks && rc == 0;
             i++)
            rc = extensible_data(e, hdf5_address(&c, a->f), elements,
                                 first + i * elements, NULL, err);
        first += blocks * elements;
    }
    if (rc == 0 && c.bad)
        return hdf5_malformed(err, address, "chunk array cut short");
    return rc;
}

/* "EAHD", version, client, element bytes, index bits, elements in the index
 * block, smallest data block, pointers of the smallest super block, page bits,
 * six counts, index block. */
int hdf5_extensible_array_each(struct hdf5_file *f, uint64_t address,
                               bool filtered, size_t chunk_bytes,
                               hdf5_element_fn *fn, void *user,
                               struct infer_error *err)
{
    struct extensible e = {
        .a = {f, address, filtered, 0, chunk_bytes, fn, user}};
    const size_t bytes = 12 + 6 * (size_t)f->length_size + f->offset_size;
    const unsigned char *p;
    int rc = hdf5_block(f, address, bytes + 4, "chunk array", err, &p);

    if (rc < 0)
        return rc;
    if (memcmp(p, "EAHD", 4) != 0 || p[4] != 0)
        return hdf5_malformed(err, address, "no extensible array here");
    rc = hdf5_check(address, p, bytes, "extensible array", err);
    if (rc < 0)
        return rc;
    e.a.element_bytes = p[6];
    e.max_bits = p[7];
    e.in_index = p[8];
    e.first_elements = p[9];
    e.min_pointers = p[10];
    e.page_bits = p[11];
    e.offset_bytes = (e.max_bits + 7) / 8;
    rc = check_element(&e.a, p[5], err);
    if (rc < 0)
        return rc;
    if (e.max_bits == 0 || e.max_bits > 62 || e.page_bits > 62 ||
        e.first_elements == 0 || e.min_pointers == 0 ||
        (e.first_elements & (e.first_elements - 1)) != 0 ||
        (e.min_pointers & (e.min_pointers - 1)) != 0 ||
        hdf5_log2(e.first_elements) > e.max_bits)
        return hdf5_malformed(err, address,
                              "extensible array with senseless sizes");
    struct hdf5_cursor c = hdf5_cursor(p + 12, bytes - 12);
    for (int i = 0; i < 4; i++)
        hdf5_length(&c, f); /* counts and bytes of blocks */
    e.limit = hdf5_length(&c, f);
    hdf5_length(&c, f); /* elements with room */
    const uint64_t index = hdf5_address(&c, f);
    return index == HDF5_UNDEFINED ? 0 : extensible_index(&e, index, err);
}
