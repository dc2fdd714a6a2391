/* SPDX-License-Identifier: Apache-2.0 */
/* HDF5: datasets: what their object header says, and their data. */
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "weights/hdf5/internal.h"

/* ---- layout message ------------------------------------------------ */

/* Chunk sizes: version 3 and below count 4 bytes each and end with the element
 * size; version 4 states the width. */
static int parse_chunk_dims(struct hdf5_cursor *c, struct hdf5_dataset *d,
                            int rank, unsigned width, struct infer_error *err)
{
    if (rank < 2 || rank > 33)
        return hdf5_malformed(err, d->address, "chunks of rank %d", rank - 1);
    if (rank - 1 > INFER_MAX_RANK)
        return hdf5_unsupported(err, d->address, "chunks of rank %d", rank - 1);
    d->chunk_rank = rank - 1;
    for (int i = 0; i < rank; i++) {
        const uint64_t n = hdf5_uint(c, width);
        if (c->bad || n == 0 || n > UINT32_MAX)
            return hdf5_malformed(err, d->address, "chunk dimension of %llu",
                                  (unsigned long long)n);
        *(i < rank - 1 ? &d->chunk_dim[i] : &d->chunk_element) = n;
    }
    return 0;
}

/* Versions 1 and 2: version, rank, class, reserved (5), address unless
 * compact, sizes (4 each), compact: bytes (4) and data. */
static int parse_layout1(struct hdf5_file *f, struct hdf5_cursor *c,
                         struct hdf5_dataset *d, struct infer_error *err)
{
    const int rank = (int)hdf5_uint(c, 1);
    const unsigned class = (unsigned)hdf5_uint(c, 1);

    hdf5_skip(c, 5);
    if (class > 2)
        return hdf5_malformed(err, d->address, "data layout %u", class);
    d->layout = (enum hdf5_layout) class;
    if (class != 0)
        d->data_address = hdf5_address(c, f);
    if (class == 2)
        return parse_chunk_dims(c, d, rank, 4, err);
    if (rank > 33)
        return hdf5_malformed(err, d->address, "data layout of rank %d", rank);
    hdf5_skip(c, 4 * (size_t)rank);
    if (class == 0) {
        d->compact_bytes = (size_t)hdf5_uint(c, 4);
        d->compact = hdf5_skip(c, d->compact_bytes);
    }
    return 0;
}

/* Version 4: flags, rank, width of sizes, sizes, kind of index, its
 * parameters, address. */
static int parse_chunked4(struct hdf5_file *f, struct hdf5_cursor *c,
                          struct hdf5_dataset *d, struct infer_error *err)
{
    const unsigned flags = (unsigned)hdf5_uint(c, 1);
    const int rank = (int)hdf5_uint(c, 1);
    const unsigned width = (unsigned)hdf5_uint(c, 1);

    if (c->bad || width < 1 || width > 8)
        return hdf5_malformed(err, d->address, "chunk sizes of %u bytes",
                              width);
    const int rc = parse_chunk_dims(c, d, rank, width, err);
    if (rc < 0)
        return rc;
    d->plain_edges = (flags & 1) != 0;
    switch (hdf5_uint(c, 1)) {
    case 1:
        d->index = HDF5_INDEX_SINGLE;
        d->single_filtered = (flags & 2) != 0;
        if (d->single_filtered) {
            d->single_bytes = hdf5_length(c, f);
            d->single_mask = (uint32_t)hdf5_uint(c, 4);
        }
        break;
    case 2:
        d->index = HDF5_INDEX_IMPLICIT;
        break;
    case 3:
        d->index = HDF5_INDEX_FIXED_ARRAY;
        hdf5_skip(c, 1);
        break;
    case 4:
        d->index = HDF5_INDEX_EXTENSIBLE_ARRAY;
        hdf5_skip(c, 5);
        break;
    case 5:
        d->index = HDF5_INDEX_BTREE2;
        hdf5_skip(c, 6);
        break;
    default:
        return hdf5_malformed(err, d->address, "unknown chunk index");
    }
    d->data_address = hdf5_address(c, f);
    return 0;
}

/* Versions 3 and 4: version, class, then by class. */
static int parse_layout3(struct hdf5_file *f, struct hdf5_cursor *c,
                         unsigned version, struct hdf5_dataset *d,
                         struct infer_error *err)
{
    const unsigned class = (unsigned)hdf5_uint(c, 1);

    switch (class) {
    case 0:
        d->layout = HDF5_COMPACT;
        d->compact_bytes = (size_t)hdf5_uint(c, 2);
        d->compact = hdf5_skip(c, d->compact_bytes);
        return 0;
    case 1:
        d->layout = HDF5_CONTIGUOUS;
        d->data_address = hdf5_address(c, f);
        d->stated_bytes = hdf5_length(c, f);
        d->size_known = true;
        return 0;
    case 2:
        d->layout = HDF5_CHUNKED;
        if (version == 4)
            return parse_chunked4(f, c, d, err);
        const int rank = (int)hdf5_uint(c, 1);
        d->data_address = hdf5_address(c, f);
        return parse_chunk_dims(c, d, rank, 4, err);
    case 3:
        return hdf5_unsupported(err, d->address,
                                "virtual dataset; other files are never "
                                "opened");
    default:
        return hdf5_malformed(err, d->address, "data layout %u", class);
    }
}

static int parse_layout(struct hdf5_file *f, const struct hdf5_message *m,
                        struct hdf5_dataset *d, struct infer_error *err)
{
    struct hdf5_cursor c = hdf5_cursor(m->data, m->bytes);
    const unsigned version = (unsigned)hdf5_uint(&c, 1);
    int rc;

    d->data_address = HDF5_UNDEFINED;
    if (version == 1 || version == 2)
        rc = parse_layout1(f, &c, d, err);
    else if (version == 3 || version == 4)
        rc = parse_layout3(f, &c, version, d, err);
    else
        return hdf5_unsupported(err, d->address,
                                "data layout version %u; 1 to 4 are supported",
                                version);
    if (rc == 0 && c.bad)
        return hdf5_malformed(err, d->address, "data layout cut short");
    return rc;
}

/* ---- fill value ---------------------------------------------------- */

/* Versions 1 and 2: version, two times, defined, bytes (4), value.  Version 3:
 * version, flags (0x20: defined), bytes (4), value.  The older message is
 * bytes (4) and value alone. */
static int parse_fill(const struct hdf5_message *m, struct hdf5_dataset *d,
                      struct infer_error *err)
{
    struct hdf5_cursor c = hdf5_cursor(m->data, m->bytes);
    bool defined = true;

    if (m->type == HDF5_MSG_FILL) {
        const unsigned version = (unsigned)hdf5_uint(&c, 1);
        if (version == 3) {
            defined = (hdf5_uint(&c, 1) & 0x20) != 0;
        } else if (version == 1 || version == 2) {
            hdf5_skip(&c, 2);
            defined = hdf5_uint(&c, 1) != 0 || version == 1;
        } else {
            return hdf5_malformed(err, d->address, "fill value of version %u",
                                  version);
        }
    }
    if (c.bad)
        return hdf5_malformed(err, d->address, "fill value cut short");
    if (!defined)
        return 0;
    const uint64_t bytes = hdf5_uint(&c, 4);
    if (c.bad || bytes > hdf5_left(&c))
        /* A size of -1 says "undefined" in version 1. */
        return bytes == UINT32_MAX
                   ? 0
                   : hdf5_malformed(err, d->address, "fill value cut short");
    d->fill_bytes = (size_t)bytes;
    d->fill = bytes ? hdf5_skip(&c, (size_t)bytes) : NULL;
    return 0;
}

/* ---- object header ------------------------------------------------- */

/* Bytes of an element of the dataspace: a whole array for array types. */
static bool element_bytes(const struct hdf5_type *type, size_t *bytes)
{
    int64_t n;

    return checked_count(type->array_rank, type->array_dim, &n) &&
           checked_mul((size_t)n, type->size, bytes);
}

static int check_dataset(struct hdf5_file *f, struct hdf5_dataset *d,
                         struct infer_error *err)
{
    size_t element, bytes = 0;

    if (d->type.kind == HDF5_UNSUPPORTED)
        return 0; /* reading the data reports it */
    if (!element_bytes(&d->type, &element))
        return hdf5_malformed(err, d->address, "element size overflows");
    if (d->fill != NULL && d->fill_bytes != element)
        return hdf5_malformed(err, d->address,
                              "fill value of %zu bytes for elements of %zu",
                              d->fill_bytes, element);
    const int rc = hdf5_dataset_bytes(d, err, &bytes);
    if (rc < 0)
        return rc;
    if (d->layout == HDF5_COMPACT && d->compact_bytes != bytes)
        return hdf5_malformed(err, d->address,
                              "compact data of %zu bytes, %zu are due",
                              d->compact_bytes, bytes);
    if (d->layout == HDF5_CONTIGUOUS && d->data_address != HDF5_UNDEFINED) {
        if (d->size_known && d->stated_bytes != bytes)
            return hdf5_malformed(err, d->address,
                                  "data of %llu bytes, %zu are due",
                                  (unsigned long long)d->stated_bytes, bytes);
        if (!checked_range(d->data_address, bytes, f->bytes))
            return hdf5_malformed(err, d->data_address,
                                  "data of %zu bytes reach past the end",
                                  bytes);
    }
    if (d->layout == HDF5_CHUNKED &&
        (d->chunk_rank != d->space.rank || d->chunk_element != element))
        return hdf5_malformed(err, d->address,
                              "chunks of rank %d and elements of %llu bytes "
                              "for a dataset of rank %d and %zu",
                              d->chunk_rank,
                              (unsigned long long)d->chunk_element,
                              d->space.rank, element);
    if (d->layout != HDF5_CHUNKED && d->filters.count > 0)
        return hdf5_malformed(err, d->address,
                              "filters on data that are not chunked");
    return 0;
}

static int parse_messages(struct hdf5_file *f, const struct hdf5_object *o,
                          struct hdf5_dataset *d, struct infer_error *err)
{
    static const unsigned order[] = {HDF5_MSG_TYPE,          HDF5_MSG_SPACE,
                                     HDF5_MSG_LAYOUT,        HDF5_MSG_FILTERS,
                                     HDF5_MSG_OLD_FILL,      HDF5_MSG_FILL,
                                     HDF5_MSG_EXTERNAL_FILES};
    int rc = 0;

    for (size_t i = 0; i < sizeof order / sizeof *order && rc == 0; i++) {
        struct hdf5_message m;
        bool found;
        rc = hdf5_object_shared(f, o, order[i], err, &m, &found);
        if (rc < 0)
            break;
        if (!found) {
            if (i < 3)
                rc = hdf5_malformed(err, o->address,
                                    "dataset without message 0x%02x", order[i]);
            continue;
        }
        switch (order[i]) {
        case HDF5_MSG_TYPE:
            rc = hdf5_type_parse(f, o->address, m.data, m.bytes, err, &d->type);
            break;
        case HDF5_MSG_SPACE:
            rc = hdf5_space_parse(f, o->address, m.data, m.bytes, err,
                                  &d->space);
            break;
        case HDF5_MSG_LAYOUT:
            rc = parse_layout(f, &m, d, err);
            break;
        case HDF5_MSG_FILTERS:
            rc = hdf5_filters_parse(f, o->address, m.data, m.bytes, err,
                                    &d->filters);
            break;
        case HDF5_MSG_EXTERNAL_FILES:
            rc = hdf5_unsupported(err, o->address,
                                  "data in external files; they are never "
                                  "opened");
            break;
        default:
            m.type = order[i];
            rc = parse_fill(&m, d, err);
            break;
        }
    }
    return rc;
}

int hdf5_dataset_open(struct hdf5_file *f, uint64_t address,
                      struct infer_error *err, struct hdf5_dataset *out)
{
    struct hdf5_object object;
    int rc = hdf5_object_read(f, address, err, &object);

    memset(out, 0, sizeof *out);
    out->address = address;
    if (rc < 0)
        return rc;
    if (hdf5_object_kind(&object) != HDF5_DATASET)
        rc = hdf5_malformed(err, address, "this is not a dataset");
    if (rc == 0)
        rc = parse_messages(f, &object, out, err);
    if (rc == 0)
        rc = check_dataset(f, out, err);
    hdf5_object_clear(f, &object);
    return rc;
}

int hdf5_dataset_retype(struct hdf5_file *f, struct hdf5_dataset *d,
                        enum infer_dtype dtype, struct infer_error *err)
{
    if (!d->type.opaque || d->type.size != infer_dtype_size(dtype))
        return hdf5_unsupported(
            err, d->address, "data of type %s, %zu bytes each, as %s",
            d->type.kind == HDF5_UNSUPPORTED ? d->type.unsupported : "number",
            d->type.size, infer_dtype_name(dtype));
    d->type.kind = HDF5_NUMBER;
    d->type.dtype = dtype;
    d->type.big_endian = false;
    return check_dataset(f, d, err);
}

int hdf5_dataset_bytes(const struct hdf5_dataset *d, struct infer_error *err,
                       size_t *bytes)
{
    size_t count;
    const int rc = hdf5_count(&d->type, &d->space, err, &count);

    if (rc == 0)
        *bytes = count * d->type.size;
    return rc;
}

/* ---- chunks -------------------------------------------------------- */

struct gather {
    struct hdf5_file *f;
    const struct hdf5_dataset *d;
    unsigned char *out;
    size_t element, chunk_bytes;
    struct hdf5_scratch scratch;
};

/* Copies the part of a chunk that lies inside the dataset, row by row of the
 * last dimension. */
static void scatter(const struct gather *g, const struct hdf5_chunk *chunk,
                    const unsigned char *data)
{
    const struct hdf5_dataset *d = g->d;
    const int rank = d->chunk_rank, last = rank - 1;
    uint64_t begin[INFER_MAX_RANK], size[INFER_MAX_RANK] = {0};
    uint64_t at[INFER_MAX_RANK] = {0};

    for (int i = 0; i < rank; i++) {
        begin[i] = chunk->scaled[i] * d->chunk_dim[i];
        size[i] = (uint64_t)d->space.dim[i] - begin[i];
        if (size[i] > d->chunk_dim[i])
            size[i] = d->chunk_dim[i];
    }
    for (;;) {
        size_t from = 0, to = 0;
        for (int i = 0; i < rank; i++) {
            from = from * (size_t)d->chunk_dim[i] + (size_t)at[i];
            to = to * (size_t)d->space.dim[i] + (size_t)(begin[i] + at[i]);
        }
        memcpy(g->out + to * g->element, data + from * g->element,
               (size_t)size[last] * g->element);
        int i = last - 1;
        while (i >= 0 && ++at[i] == size[i])
            at[i--] = 0;
        if (i < 0)
            return;
    }
}

static int gather_chunk(void *user, const struct hdf5_chunk *chunk,
                        struct infer_error *err)
{
    struct gather *g = user;
    const struct hdf5_dataset *d = g->d;
    const unsigned char *in, *raw;
    uint32_t mask = chunk->mask;
    int rc = hdf5_block(g->f, chunk->address, chunk->bytes, "chunk", err, &in);

    if (rc < 0)
        return rc;
    for (int i = 0; i < d->chunk_rank && d->plain_edges; i++)
        if ((chunk->scaled[i] + 1) * d->chunk_dim[i] >
            (uint64_t)d->space.dim[i])
            mask = UINT32_MAX;
    rc = hdf5_filters_undo(g->f, &d->filters, mask, chunk->address, in,
                           (size_t)chunk->bytes, g->chunk_bytes, &g->scratch,
                           err, &raw);
    if (rc < 0)
        return rc;
    scatter(g, chunk, raw);
    return hdf5_work(g->f, g->chunk_bytes, err);
}

static int read_chunks(struct hdf5_file *f, const struct hdf5_dataset *d,
                       unsigned char *out, struct infer_error *err)
{
    struct gather g = {.f = f, .d = d, .out = out};
    bool good = element_bytes(&d->type, &g.element);
    int rc = 0;

    g.chunk_bytes = g.element;
    for (int i = 0; i < d->chunk_rank && good; i++)
        good =
            checked_mul(g.chunk_bytes, (size_t)d->chunk_dim[i], &g.chunk_bytes);
    if (!good || g.chunk_bytes > UINT32_MAX)
        return hdf5_unsupported(err, d->address, "chunks of 4 GiB and more");
    if (d->filters.count > 0) {
        /* Filters add a few bytes at most between one and the next. */
        void *a = NULL, *b = NULL;
        g.scratch.capacity = g.chunk_bytes + 4 * HDF5_MAX_FILTERS;
        rc = hdf5_alloc(f, g.scratch.capacity, err, &a);
        if (rc == 0)
            rc = hdf5_alloc(f, g.scratch.capacity, err, &b);
        g.scratch.a = a;
        g.scratch.b = b;
    }
    if (rc == 0)
        rc = hdf5_chunks_each(f, d, g.chunk_bytes, gather_chunk, &g, err);
    hdf5_release(f, g.scratch.a, g.scratch.capacity);
    hdf5_release(f, g.scratch.b, g.scratch.capacity);
    return rc;
}

/* ---- data ---------------------------------------------------------- */

/* Fills by doubling what is filled: arrays are large, values are small. */
static void fill(const struct hdf5_dataset *d, unsigned char *out, size_t bytes)
{
    size_t done = d->fill_bytes;

    if (d->fill == NULL)
        return;
    memcpy(out, d->fill, done); /* bytes is a multiple of fill_bytes, not 0 */
    while (done < bytes) {
        const size_t n = done < bytes - done ? done : bytes - done;
        memcpy(out + done, out, n);
        done += n;
    }
}

/* The whole array as it lies in the file, into zeroed memory. */
static int read_raw(struct hdf5_file *f, const struct hdf5_dataset *d,
                    unsigned char *out, size_t bytes, struct infer_error *err)
{
    const unsigned char *p;

    if (bytes == 0)
        return 0;
    int rc = hdf5_work(f, bytes, err);
    if (rc < 0)
        return rc;
    if (d->layout == HDF5_COMPACT) {
        memcpy(out, d->compact, bytes);
        return 0;
    }
    if (d->data_address == HDF5_UNDEFINED || d->layout == HDF5_CHUNKED)
        fill(d, out, bytes);
    if (d->layout == HDF5_CHUNKED)
        return read_chunks(f, d, out, err);
    if (d->data_address == HDF5_UNDEFINED)
        return 0;
    rc = hdf5_block(f, d->data_address, bytes, "data", err, &p);
    if (rc == 0)
        memcpy(out, p, bytes);
    return rc;
}

/* Where the data can be used in place. */
static unsigned char *in_place(const struct hdf5_file *f,
                               const struct hdf5_dataset *d, size_t bytes)
{
    if (d->layout != HDF5_CONTIGUOUS || d->data_address == HDF5_UNDEFINED ||
        bytes == 0 || !hdf5_is_host(&d->type) || d->type.dtype == INFER_BOOL)
        return NULL;
    unsigned char *p = f->data + d->data_address;
    return (uintptr_t)p % d->type.size == 0 ? p : NULL;
}

/* Arrays that are handed out count together, views as well (their users copy
 * them): a file could name the same bytes any number of times. */
static int deliver(struct hdf5_file *f, size_t bytes, struct infer_error *err)
{
    if (bytes > f->memory_limit - f->delivered)
        return error_set(err, INFER_EMEMORY,
                         "HDF5: an array of %zu bytes, after %zu, from a file "
                         "of %zu; the limit is %zu",
                         bytes, f->delivered, f->bytes, f->memory_limit);
    f->delivered += bytes;
    return 0;
}

/* Marks the pieces of memory below an array: those that it touches, and those
 * that lie in it as a whole.  A piece of both kinds holds two arrays. */
static bool claim(struct hdf5_file *f, const unsigned char *data, size_t bytes)
{
    const uintptr_t base = (uintptr_t)f->data / HDF5_CLAIM;
    const uintptr_t from = (uintptr_t)data, end = from + bytes;

    if (f->claimed == NULL)
        f->claimed = calloc(f->bytes / HDF5_CLAIM + 2, 1);
    if (f->claimed == NULL)
        return false;
    for (uintptr_t i = from / HDF5_CLAIM; bytes && i <= (end - 1) / HDF5_CLAIM;
         i++) {
        const bool whole =
            i * HDF5_CLAIM >= from && (i + 1) * HDF5_CLAIM <= end;
        unsigned char *at = &f->claimed[i - base];

        f->overlap |= *at == HDF5_WHOLE || (whole && *at != 0);
        *at = whole ? HDF5_WHOLE : HDF5_TOUCHED;
    }
    return true;
}

bool hdf5_arrays_are_apart(const struct hdf5_file *f)
{
    return !f->overlap;
}

int hdf5_dataset_numbers(struct hdf5_file *f, const struct hdf5_dataset *d,
                         struct infer_error *err, struct constant **out)
{
    int64_t dim[INFER_MAX_RANK];
    size_t bytes = 0;
    int rank;

    if (d->type.kind != HDF5_NUMBER)
        return hdf5_unsupported(
            err, d->address, "data of type %s; numbers are supported",
            d->type.kind == HDF5_UNSUPPORTED ? d->type.unsupported : "string");
    int rc = hdf5_shape(&d->type, &d->space, err, &rank, dim);
    if (rc == 0)
        rc = hdf5_dataset_bytes(d, err, &bytes);
    if (rc < 0)
        return rc;
    if (d->space.null) {
        rank = 1;
        dim[0] = 0;
    }
    rc = deliver(f, bytes, err);
    if (rc < 0)
        return rc;
    unsigned char *view = in_place(f, d, bytes);
    struct constant *c;
    if (view != NULL) {
        c = claim(f, view, bytes)
                ? constant_in_blob(d->type.dtype, rank, dim, f->blob, view)
                : NULL;
        if (c == NULL)
            return error_set(err, INFER_EMEMORY, "no memory for a tensor");
        *out = c;
        return 0;
    }
    c = constant_new(d->type.dtype, rank, dim);
    if (c == NULL)
        return error_set(err, INFER_EMEMORY,
                         "no memory for a tensor of %zu bytes", bytes);
    rc = read_raw(f, d, c->data, bytes, err);
    if (rc < 0) {
        constant_unref(c);
        return rc;
    }
    hdf5_to_host(&d->type, c->data, bytes / d->type.size);
    *out = c;
    return 0;
}

int hdf5_dataset_strings(struct hdf5_file *f, const struct hdf5_dataset *d,
                         struct infer_error *err, struct hdf5_strings *out)
{
    void *raw;
    size_t bytes = 0;

    memset(out, 0, sizeof *out);
    /* Nothing was checked of types that are not supported. */
    if (d->type.kind != HDF5_STRING && d->type.kind != HDF5_VLEN_STRING)
        return hdf5_unsupported(
            err, d->address, "data of type %s; strings are expected",
            d->type.kind == HDF5_UNSUPPORTED ? d->type.unsupported : "number");
    int rc = hdf5_dataset_bytes(d, err, &bytes);
    if (rc == 0)
        rc = hdf5_alloc(f, bytes, err, &raw);
    if (rc < 0)
        return rc;
    rc = read_raw(f, d, raw, bytes, err);
    if (rc == 0)
        rc = hdf5_decode_strings(f, &d->type, raw, bytes / d->type.size, err,
                                 out);
    hdf5_release(f, raw, bytes);
    return rc;
}
