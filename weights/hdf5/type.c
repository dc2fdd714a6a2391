/* SPDX-License-Identifier: Apache-2.0 */
/* HDF5: datatypes and dataspaces, and turning stored elements into those of
 * the host. */
#include <string.h>

#include "weights/hdf5/internal.h"

static bool host_is_big(void)
{
    const uint16_t one = 1;
    unsigned char first;

    memcpy(&first, &one, 1);
    return first == 0;
}

/* ---- datatypes ----------------------------------------------------- */

/* Class 0: byte order in bit 0, sign in bit 3; bit offset and precision. */
static int parse_integer(uint64_t address, unsigned bits, struct hdf5_cursor *c,
                         struct infer_error *err, struct hdf5_type *out)
{
    static const enum infer_dtype dtypes[2][9] = {
        {[1] = INFER_U8, [2] = INFER_U16, [4] = INFER_U32, [8] = INFER_U64},
        {[1] = INFER_I8, [2] = INFER_I16, [4] = INFER_I32, [8] = INFER_I64}};
    const uint64_t offset = hdf5_uint(c, 2), precision = hdf5_uint(c, 2);

    if (c->bad || out->size == 0)
        return hdf5_malformed(err, address, "integer type cut short");
    out->kind = HDF5_NUMBER;
    out->big_endian = bits & 1;
    out->dtype = out->size <= 8 ? dtypes[bits >> 3 & 1][out->size] : INFER_NONE;
    if (out->dtype == INFER_NONE || offset != 0 || precision != out->size * 8) {
        out->kind = HDF5_UNSUPPORTED;
        out->unsupported = "integer of odd width";
    }
    return 0;
}

/* Class 1: only the IEEE formats and bfloat16, recognised by all fields. */
static int parse_float(uint64_t address, unsigned bits, struct hdf5_cursor *c,
                       struct infer_error *err, struct hdf5_type *out)
{
    static const struct {
        size_t size;
        unsigned exponent_at, exponent_bits, mantissa_bits;
        uint32_t bias;
        enum infer_dtype dtype;
    } formats[] = {{2, 10, 5, 10, 15, INFER_F16},
                   {2, 7, 8, 7, 127, INFER_BF16},
                   {4, 23, 8, 23, 127, INFER_F32},
                   {8, 52, 11, 52, 1023, INFER_F64}};
    const uint64_t offset = hdf5_uint(c, 2), precision = hdf5_uint(c, 2);
    const unsigned exponent_at = (unsigned)hdf5_uint(c, 1);
    const unsigned exponent_bits = (unsigned)hdf5_uint(c, 1);
    const unsigned mantissa_at = (unsigned)hdf5_uint(c, 1);
    const unsigned mantissa_bits = (unsigned)hdf5_uint(c, 1);
    const uint32_t bias = (uint32_t)hdf5_uint(c, 4);

    if (c->bad)
        return hdf5_malformed(err, address, "float type cut short");
    out->kind = HDF5_UNSUPPORTED;
    out->unsupported = "float that is not IEEE 754";
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        /* Byte order is in bits 0 and 6 (VAX sets both), normalisation in 4
         * and 5 (2: leading one implied), the sign's place in 8 to 15. */
        if (out->size != formats[i].size || offset != 0 ||
            precision != out->size * 8 || (bits & 0x40) != 0 ||
            (bits >> 4 & 3) != 2 || (bits >> 8 & 255) != out->size * 8 - 1 ||
            exponent_at != formats[i].exponent_at ||
            exponent_bits != formats[i].exponent_bits || mantissa_at != 0 ||
            mantissa_bits != formats[i].mantissa_bits ||
            bias != formats[i].bias)
            continue;
        out->kind = HDF5_NUMBER;
        out->dtype = formats[i].dtype;
        out->big_endian = bits & 1;
    }
    return 0;
}

static int parse_type(struct hdf5_file *f, uint64_t address,
                      struct hdf5_cursor *c, int depth, struct infer_error *err,
                      struct hdf5_type *out);

/* Class 8, h5py's booleans: an enumeration of FALSE and TRUE over one byte.
 * Other enumerations are their numbers. */
static int parse_enum(struct hdf5_file *f, uint64_t address, unsigned version,
                      unsigned members, struct hdf5_cursor *c, int depth,
                      struct infer_error *err, struct hdf5_type *out)
{
    const size_t size = out->size;
    bool is_bool = members == 2;
    int rc = parse_type(f, address, c, depth + 1, err, out);

    if (rc < 0)
        return rc;
    if (out->kind != HDF5_NUMBER || out->array_rank != 0 || out->size != size)
        return hdf5_malformed(err, address,
                              "enumeration over something else than integers");
    for (unsigned i = 0; i < members; i++) {
        static const char *const words[] = {"FALSE", "TRUE"};
        const size_t left = hdf5_left(c);
        const unsigned char *end = left ? memchr(c->at, 0, left) : NULL;
        if (end == NULL)
            return hdf5_malformed(err, address, "enumeration cut short");
        size_t n = (size_t)(end - c->at) + 1;
        if (is_bool && strcmp((const char *)c->at, words[i]) != 0)
            is_bool = false;
        if (version < 3)
            n = (n + 7) / 8 * 8;
        hdf5_skip(c, n);
    }
    const unsigned char *values = hdf5_skip(c, members * size);
    if (c->bad)
        return hdf5_malformed(err, address, "enumeration cut short");
    if (is_bool && size == 1 && values[0] == 0 && values[1] == 1)
        out->dtype = INFER_BOOL;
    return 0;
}

/* Class 10: number of dimensions, their sizes (4 each; version 2 adds
 * permutations), the base type. */
static int parse_array(struct hdf5_file *f, uint64_t address, unsigned version,
                       struct hdf5_cursor *c, int depth,
                       struct infer_error *err, struct hdf5_type *out)
{
    const size_t size = out->size;
    const int rank = (int)hdf5_uint(c, 1);
    int64_t dim[INFER_MAX_RANK];
    size_t count = 1, bytes;

    if (version == 2)
        hdf5_skip(c, 3);
    if (rank < 1 || rank > 32)
        return hdf5_malformed(err, address, "array type of rank %d", rank);
    if (rank > INFER_MAX_RANK)
        return hdf5_unsupported(err, address, "array type of rank %d", rank);
    for (int i = 0; i < rank; i++) {
        dim[i] = (int64_t)hdf5_uint(c, 4);
        if (!checked_mul(count, (size_t)dim[i], &count))
            return hdf5_malformed(err, address, "array type overflows");
    }
    if (version == 2)
        hdf5_skip(c, 4 * (size_t)rank);
    const int rc = parse_type(f, address, c, depth + 1, err, out);
    if (rc < 0 || out->kind == HDF5_UNSUPPORTED)
        return rc;
    if (out->array_rank != 0) {
        out->kind = HDF5_UNSUPPORTED;
        out->unsupported = "array of arrays";
        return 0;
    }
    if (!checked_mul(count, out->size, &bytes) || bytes != size)
        return hdf5_malformed(err, address,
                              "array type of %zu bytes for %zu elements of "
                              "%zu",
                              size, count, out->size);
    out->array_rank = rank;
    memcpy(out->array_dim, dim, sizeof dim);
    return 0;
}

/* Class 9.  Strings are heap references: bytes (4), collection, index (4). */
static int parse_vlen(struct hdf5_file *f, uint64_t address, unsigned bits,
                      struct infer_error *err, struct hdf5_type *out)
{
    if ((bits & 15) != 1) {
        out->kind = HDF5_UNSUPPORTED;
        out->unsupported = "variable-length sequence";
        return 0;
    }
    if (out->size != 8 + (size_t)f->offset_size)
        return hdf5_malformed(err, address,
                              "variable-length string of %zu bytes", out->size);
    out->kind = HDF5_VLEN_STRING;
    return 0;
}

/* Class and version (1), class bits (3), size (4), properties. */
static int parse_type(struct hdf5_file *f, uint64_t address,
                      struct hdf5_cursor *c, int depth, struct infer_error *err,
                      struct hdf5_type *out)
{
    static const char *const words[16] = {
        [2] = "time",      [4] = "bit field", [5] = "opaque",
        [6] = "compound",  [7] = "reference", [11] = "complex",
        [12] = "class 12", [13] = "class 13", [14] = "class 14",
        [15] = "class 15"};
    const unsigned head = (unsigned)hdf5_uint(c, 1);
    const unsigned bits = (unsigned)hdf5_uint(c, 3);
    const unsigned class = head & 15, version = head >> 4;

    memset(out, 0, sizeof *out);
    out->size = (size_t)hdf5_uint(c, 4);
    if (c->bad || depth > 4)
        return hdf5_malformed(err, address, "datatype cut short or too deep");
    if (version < 1 || version > 5)
        return hdf5_malformed(err, address, "datatype version %u", version);
    if (out->size == 0)
        return hdf5_malformed(err, address, "datatype of size 0");
    switch (class) {
    case 0:
        return parse_integer(address, bits, c, err, out);
    case 1:
        return parse_float(address, bits, c, err, out);
    case 3:
        out->kind = HDF5_STRING;
        out->space_padded = (bits & 15) == 2;
        return 0;
    case 8:
        return parse_enum(f, address, version, bits & 0xffff, c, depth, err,
                          out);
    case 9:
        return parse_vlen(f, address, bits, err, out);
    case 10:
        return parse_array(f, address, version, c, depth, err, out);
    default:
        out->kind = HDF5_UNSUPPORTED;
        out->unsupported = words[class];
        out->opaque = class == 5;
        return 0;
    }
}

int hdf5_type_parse(struct hdf5_file *f, uint64_t address,
                    const unsigned char *data, size_t bytes,
                    struct infer_error *err, struct hdf5_type *out)
{
    struct hdf5_cursor c = hdf5_cursor(data, bytes);

    return parse_type(f, address, &c, 0, err, out);
}

/* ---- dataspaces ---------------------------------------------------- */

/* Version, rank, flags (1: maxima follow), version 1: reserved (5), version 2:
 * kind (0 scalar, 1 simple, 2 null); sizes; maxima. */
int hdf5_space_parse(struct hdf5_file *f, uint64_t address,
                     const unsigned char *data, size_t bytes,
                     struct infer_error *err, struct hdf5_space *out)
{
    struct hdf5_cursor c = hdf5_cursor(data, bytes);
    const unsigned version = (unsigned)hdf5_uint(&c, 1);
    const int rank = (int)hdf5_uint(&c, 1);
    const unsigned flags = (unsigned)hdf5_uint(&c, 1);
    unsigned kind = rank > 0;

    memset(out, 0, sizeof *out);
    if (version == 1)
        hdf5_skip(&c, 5);
    else
        kind = (unsigned)hdf5_uint(&c, 1);
    if (c.bad || version < 1 || version > 2 || kind > 2 || rank > 32 ||
        (kind != 1 && rank != 0))
        return hdf5_malformed(err, address,
                              "dataspace of version %u, kind %u, rank %d",
                              version, kind, rank);
    if (rank > INFER_MAX_RANK)
        return hdf5_unsupported(err, address,
                                "dataspace of rank %d; at most %d", rank,
                                INFER_MAX_RANK);
    out->null = kind == 2;
    out->rank = rank;
    const uint64_t unlimited = f->length_size == 8
                                   ? UINT64_MAX
                                   : ((uint64_t)1 << 8 * f->length_size) - 1;
    for (int i = 0; i < 2 * rank; i++) {
        if (i >= rank && !(flags & 1)) {
            out->max_dim[i - rank] = out->dim[i - rank];
            continue;
        }
        const uint64_t n = hdf5_length(&c, f);
        if (i >= rank && n == unlimited)
            out->max_dim[i - rank] = -1;
        else if (n > INT64_MAX ||
                 (i >= rank && n < (uint64_t)out->dim[i - rank]))
            return hdf5_malformed(err, address, "%s of dimension %d is %llu",
                                  i < rank ? "size" : "maximum", i % rank,
                                  (unsigned long long)n);
        else
            *(i < rank ? &out->dim[i] : &out->max_dim[i - rank]) = (int64_t)n;
    }
    if (c.bad)
        return hdf5_malformed(err, address, "dataspace cut short");
    return 0;
}

int hdf5_shape(const struct hdf5_type *type, const struct hdf5_space *space,
               struct infer_error *err, int *rank, int64_t *dim)
{
    const int n = space->rank + type->array_rank;

    if (n > INFER_MAX_RANK)
        return hdf5_unsupported(err, HDF5_UNDEFINED,
                                "array of rank %d; at most %d", n,
                                INFER_MAX_RANK);
    for (int i = 0; i < n; i++)
        dim[i] =
            i < space->rank ? space->dim[i] : type->array_dim[i - space->rank];
    *rank = n;
    return 0;
}

int hdf5_count(const struct hdf5_type *type, const struct hdf5_space *space,
               struct infer_error *err, size_t *count)
{
    int64_t inner, outer, n;
    size_t bytes;

    if (space->null) {
        *count = 0;
        return 0;
    }
    if (!checked_count(space->rank, space->dim, &outer) ||
        !checked_count(type->array_rank, type->array_dim, &inner) ||
        !checked_mul_i64(outer, inner, &n) ||
        !checked_mul((size_t)n, type->size, &bytes) || bytes > PTRDIFF_MAX)
        return error_set(err, INFER_EMEMORY, "HDF5: an array's size overflows");
    *count = (size_t)n;
    return 0;
}

/* ---- elements ------------------------------------------------------ */

bool hdf5_is_host(const struct hdf5_type *type)
{
    return type->size == 1 || type->big_endian == host_is_big();
}

void hdf5_to_host(const struct hdf5_type *type, unsigned char *data,
                  size_t count)
{
    const size_t size = type->size;

    if (type->dtype == INFER_BOOL)
        for (size_t i = 0; i < count; i++)
            data[i] = data[i] != 0;
    if (hdf5_is_host(type))
        return;
    for (unsigned char *p = data; count > 0; count--, p += size) {
        for (size_t i = 0; i < size / 2; i++) {
            const unsigned char swap = p[i];
            p[i] = p[size - 1 - i];
            p[size - 1 - i] = swap;
        }
    }
}

/* Where one string lies. */
static int locate_string(struct hdf5_file *f, const struct hdf5_type *type,
                         const unsigned char *element, struct infer_error *err,
                         const unsigned char **text, size_t *bytes)
{
    if (type->kind == HDF5_STRING) {
        const unsigned char *end = memchr(element, 0, type->size);
        *text = element;
        *bytes = end ? (size_t)(end - element) : type->size;
        while (type->space_padded && *bytes && element[*bytes - 1] == ' ')
            --*bytes;
        return 0;
    }
    struct hdf5_cursor c = hdf5_cursor(element, type->size);
    const uint64_t length = hdf5_uint(&c, 4);
    const uint64_t collection = hdf5_address(&c, f);
    const uint64_t index = hdf5_uint(&c, 4);
    *text = element;
    *bytes = 0;
    if (length == 0 || collection == 0 || collection == HDF5_UNDEFINED)
        return 0; /* an empty string has no object */
    size_t held;
    const int rc = hdf5_global_object(f, collection, index, err, text, &held);
    if (rc < 0)
        return rc;
    if (length > held)
        return hdf5_malformed(err, collection,
                              "string of %llu bytes in a heap object of %zu",
                              (unsigned long long)length, held);
    const unsigned char *end = memchr(*text, 0, (size_t)length);
    *bytes = end ? (size_t)(end - *text) : (size_t)length;
    /* One terminator may be counted; text after a NUL is not a string. */
    if (end != NULL && *bytes + 1 != length)
        return hdf5_malformed(err, collection, "string with NUL inside");
    return 0;
}

int hdf5_decode_strings(struct hdf5_file *f, const struct hdf5_type *type,
                        const unsigned char *data, size_t count,
                        struct infer_error *err, struct hdf5_strings *out)
{
    size_t total = 0;
    int rc;

    memset(out, 0, sizeof *out);
    if (type->kind != HDF5_STRING && type->kind != HDF5_VLEN_STRING)
        return hdf5_unsupported(
            err, HDF5_UNDEFINED, "strings are expected, the type is %s",
            type->kind == HDF5_NUMBER ? "numeric" : type->unsupported);
    /* Two rounds: measure, then copy into one block. */
    for (size_t i = 0; i < count; i++) {
        const unsigned char *text;
        size_t n;
        rc = locate_string(f, type, data + i * type->size, err, &text, &n);
        if (rc < 0)
            return rc;
        if (!checked_add(total, n + 1, &total))
            return error_set(err, INFER_EMEMORY, "HDF5: strings overflow");
    }
    size_t index_bytes;
    if (!checked_mul(count, sizeof(char *) + sizeof(size_t), &index_bytes) ||
        !checked_add(total, index_bytes, &out->charged))
        return error_set(err, INFER_EMEMORY, "HDF5: strings overflow");
    void *memory;
    rc = hdf5_alloc(f, out->charged, err, &memory);
    if (rc < 0)
        return rc;
    out->text = memory;
    out->bytes = (size_t *)(void *)(out->text + count);
    char *at = (char *)(out->bytes + count);
    for (size_t i = 0; i < count; i++) {
        const unsigned char *text;
        size_t n;
        rc = locate_string(f, type, data + i * type->size, err, &text, &n);
        if (rc < 0) {
            hdf5_strings_clear(f, out);
            return rc;
        }
        memcpy(at, text, n);
        at[n] = '\0';
        out->text[i] = at;
        out->bytes[i] = n;
        at += n + 1;
    }
    out->count = count;
    return 0;
}

void hdf5_strings_clear(struct hdf5_file *f, struct hdf5_strings *strings)
{
    hdf5_release(f, strings->text, strings->charged);
    memset(strings, 0, sizeof *strings);
}
