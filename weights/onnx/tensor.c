/* SPDX-License-Identifier: Apache-2.0 */
/* TensorProto to constant: raw and typed payloads, in place where possible. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "weights/narrow.h"
#include "weights/onnx/proto.h"

/* Smaller payloads are copied: a reference would cost as much. */
#define SMALL_BYTES 64

/* ---- types --------------------------------------------------------- */

/* Typed payload fields of TensorProto. */
enum { FLOAT_DATA = 4, INT32_DATA = 5, INT64_DATA = 7, DOUBLE_DATA = 10 };
enum { UINT64_DATA = 11 };

static const struct {
    const char *name;
    enum infer_dtype dtype;
    uint32_t field; /* where its typed payload lies */
} data_types[] = {
    {"UNDEFINED", INFER_NONE, 0},
    {"FLOAT", INFER_F32, FLOAT_DATA},
    {"UINT8", INFER_U8, INT32_DATA},
    {"INT8", INFER_I8, INT32_DATA},
    {"UINT16", INFER_U16, INT32_DATA},
    {"INT16", INFER_I16, INT32_DATA},
    {"INT32", INFER_I32, INT32_DATA},
    {"INT64", INFER_I64, INT64_DATA},
    {"STRING", INFER_NONE, 0},
    {"BOOL", INFER_BOOL, INT32_DATA},
    {"FLOAT16", INFER_F16, INT32_DATA},
    {"DOUBLE", INFER_F64, DOUBLE_DATA},
    {"UINT32", INFER_U32, UINT64_DATA},
    {"UINT64", INFER_U64, UINT64_DATA},
    {"COMPLEX64", INFER_NONE, 0},
    {"COMPLEX128", INFER_NONE, 0},
    {"BFLOAT16", INFER_BF16, INT32_DATA},
    {"FLOAT8E4M3FN", INFER_F8E4M3, INT32_DATA},
    {"FLOAT8E4M3FNUZ", INFER_NONE, INT32_DATA},
    {"FLOAT8E5M2", INFER_NONE, INT32_DATA},
    {"FLOAT8E5M2FNUZ", INFER_NONE, INT32_DATA},
    {"UINT4", INFER_NONE, INT32_DATA},
    {"INT4", INFER_NONE, INT32_DATA},
    {"FLOAT4E2M1", INFER_NONE, INT32_DATA},
    {"FLOAT8E8M0", INFER_NONE, INT32_DATA},
    {"UINT2", INFER_NONE, INT32_DATA},
    {"INT2", INFER_NONE, INT32_DATA},
};
#define N_TYPES ((int64_t)(sizeof(data_types) / sizeof(data_types[0])))

enum infer_dtype onnx_dtype(int64_t data_type)
{
    if (data_type < 0 || data_type >= N_TYPES)
        return INFER_NONE;
    return data_types[data_type].dtype;
}

const char *onnx_type_name(int64_t data_type)
{
    if (data_type < 0 || data_type >= N_TYPES)
        return "unknown";
    return data_types[data_type].name;
}

static enum pb_wire element_wire(uint32_t field)
{
    return field == FLOAT_DATA    ? PB_FIXED32
           : field == DOUBLE_DATA ? PB_FIXED64
                                  : PB_VARINT;
}

/* ---- layout -------------------------------------------------------- */

struct external {
    struct pb_span location;
    uint64_t offset, length;
    bool has_location, has_offset, has_length;
};

/* Everything about a tensor but its elements. */
struct layout {
    struct pb_span name, span;
    int64_t data_type;
    int rank;
    int64_t dim[INFER_MAX_RANK];
    int64_t count;
    bool narrow;  /* of a type in narrow.h */
    size_t bytes; /* of the payload */
    bool is_external, has_raw;
    struct external external;
    struct pb_field raw;
    uint32_t typed;         /* number of the typed field that was seen */
    size_t typed_count;     /* its elements */
    int chunks;             /* and in how many pieces they come */
    struct pb_field packed; /* the last piece */
};

static int add_dims(const struct pb_reader *r, const struct pb_field *f,
                    struct infer_error *err, struct layout *t)
{
    size_t n, at = 0;
    uint64_t bits;
    int rc = pb_count(r, f, PB_VARINT, "dimensions", err, &n);

    if (rc < 0)
        return rc;
    if (n > (size_t)(INFER_MAX_RANK - t->rank))
        return error_set(err, INFER_EUNSUPPORTED, "more than %d dimensions",
                         INFER_MAX_RANK);
    while (pb_item(f, PB_VARINT, &at, &bits)) {
        if ((int64_t)bits < 0)
            return error_set(err, INFER_EFORMAT, "dimension %d is %lld",
                             t->rank, (long long)(int64_t)bits);
        t->dim[t->rank++] = (int64_t)bits;
    }
    return 0;
}

static int add_typed(const struct pb_reader *r, const struct pb_field *f,
                     struct infer_error *err, struct layout *t)
{
    size_t n;
    int rc = pb_count(r, f, element_wire(f->number), "tensor data", err, &n);

    if (rc < 0)
        return rc;
    if (t->typed != 0 && t->typed != f->number)
        return error_set(err, INFER_EFORMAT,
                         "data of two kinds (fields %u and %u)", t->typed,
                         f->number);
    t->typed = f->number;
    t->typed_count += n;
    t->chunks++;
    t->packed = *f;
    return 0;
}

/* A decimal number of at most 19 digits. */
static bool decimal(struct pb_span s, uint64_t *out)
{
    uint64_t value = 0;
    size_t i;

    if (s.bytes == 0 || s.bytes > 19)
        return false;
    for (i = 0; i < s.bytes; i++) {
        if (s.data[i] < '0' || s.data[i] > '9')
            return false;
        value = value * 10 + (uint64_t)(s.data[i] - '0');
    }
    *out = value;
    return true;
}

static int external_number(struct pb_span value, const char *what, bool *has,
                           uint64_t *out, struct infer_error *err)
{
    if (*has)
        return error_set(err, INFER_EFORMAT, "external data: '%s' twice", what);
    if (!decimal(value, out))
        return error_set(err, INFER_EFORMAT,
                         "external data: %s '%.*s' is no byte count", what,
                         PB_TEXT(value, 32));
    *has = true;
    return 0;
}

static int external_entry(struct pb_span key, struct pb_span value,
                          struct external *e, struct infer_error *err)
{
    if (pb_span_is(key, "location")) {
        if (e->has_location)
            return error_set(err, INFER_EFORMAT,
                             "external data: 'location' twice");
        e->has_location = true;
        e->location = value;
        return 0;
    }
    if (pb_span_is(key, "offset"))
        return external_number(value, "offset", &e->has_offset, &e->offset,
                               err);
    if (pb_span_is(key, "length"))
        return external_number(value, "length", &e->has_length, &e->length,
                               err);
    if (pb_span_is(key, "checksum"))
        return 0; /* SHA-1 of the whole file; not a defence, so not read */
    return error_set(err, INFER_EFORMAT, "external data: unknown key '%.*s'",
                     PB_TEXT(key, 64));
}

/* StringStringEntryProto: key and value. */
static int entry_field(void *user, const struct pb_reader *r,
                       const struct pb_field *f, struct infer_error *err)
{
    struct pb_span *entry = user;

    if (f->number != 1 && f->number != 2)
        return 0;
    entry[f->number - 1] = f->span;
    return pb_expect(r, f, PB_BYTES, "external data", err);
}

static int layout_field(void *user, const struct pb_reader *r,
                        const struct pb_field *f, struct infer_error *err)
{
    struct pb_span entry[2] = {{NULL, 0}, {NULL, 0}};
    struct layout *t = user;
    int rc = 0;

    switch (f->number) {
    case 1:
        return add_dims(r, f, err, t);
    case 2:
        rc = pb_expect(r, f, PB_VARINT, "data_type", err);
        t->data_type = (int64_t)f->value;
        return rc;
    case 3:
        return error_set(err, INFER_EUNSUPPORTED, "segmented tensor");
    case FLOAT_DATA:
    case INT32_DATA:
    case INT64_DATA:
    case DOUBLE_DATA:
    case UINT64_DATA:
        return add_typed(r, f, err, t);
    case 8:
        rc = pb_expect(r, f, PB_BYTES, "a name", err);
        t->name = f->span;
        return rc;
    case 9:
        rc = pb_expect(r, f, PB_BYTES, "raw_data", err);
        t->has_raw = true;
        t->raw = *f;
        return rc;
    case 13:
        rc = pb_each_in(r, f, entry_field, entry, err);
        return rc < 0 ? rc
                      : external_entry(entry[0], entry[1], &t->external, err);
    case 14:
        rc = pb_expect(r, f, PB_VARINT, "data_location", err);
        if (rc == 0 && f->value > 1)
            return error_set(err, INFER_EFORMAT, "data_location %llu",
                             (unsigned long long)f->value);
        t->is_external = f->value == 1;
        return rc;
    default:
        return 0;
    }
}

static int check_payload(const struct layout *t, struct infer_error *err)
{
    if (t->is_external) {
        if (t->has_raw || t->typed)
            return error_set(err, INFER_EFORMAT,
                             "data both inside the file and outside");
        return 0;
    }
    if (t->has_raw && t->typed)
        return error_set(err, INFER_EFORMAT, "both raw_data and typed data");
    if (t->has_raw && t->raw.span.bytes != t->bytes)
        return error_set(err, INFER_EFORMAT,
                         "raw_data of %zu bytes, the shape needs %zu",
                         t->raw.span.bytes, t->bytes);
    if (t->has_raw)
        return 0;
    if (t->typed && t->typed != data_types[t->data_type].field)
        return error_set(err, INFER_EFORMAT, "%s data in field %u",
                         onnx_type_name(t->data_type), t->typed);
    if (t->typed_count != (t->narrow ? t->bytes : (uint64_t)t->count))
        return error_set(err, INFER_EFORMAT,
                         "%zu elements, the shape needs %lld", t->typed_count,
                         (long long)t->count);
    return 0;
}

/* Reads all fields, then checks type, size and that there is one payload. */
static int read_layout(struct pb_reader *r, struct infer_error *err,
                       struct layout *t)
{
    int rc = pb_each(r, layout_field, t, err);
    enum infer_dtype dtype;

    if (rc < 0)
        return rc;
    t->narrow = narrow_dtype(t->data_type) != INFER_NONE;
    dtype = t->narrow ? INFER_U8 : onnx_dtype(t->data_type);
    if (dtype == INFER_NONE)
        return error_set(err,
                         t->data_type > 0 && t->data_type < N_TYPES
                             ? INFER_EUNSUPPORTED
                             : INFER_EFORMAT,
                         "data type %lld (%s)", (long long)t->data_type,
                         onnx_type_name(t->data_type));
    if (!checked_count(t->rank, t->dim, &t->count) ||
        !checked_mul((size_t)t->count, infer_dtype_size(dtype), &t->bytes))
        return error_set(err, INFER_EFORMAT, "the shape overflows");
    if (t->narrow)
        t->bytes = narrow_bytes(t->data_type, t->count);
    return check_payload(t, err);
}

/* ---- elements ------------------------------------------------------ */

/* Smallest and largest value of what int32_data may hold for a type. */
static void int_range(enum infer_dtype dtype, int64_t *min, int64_t *max)
{
    switch (dtype) {
    case INFER_I8:
        *min = INT8_MIN;
        *max = INT8_MAX;
        break;
    case INFER_I16:
        *min = INT16_MIN;
        *max = INT16_MAX;
        break;
    case INFER_U8:
    case INFER_F8E4M3: /* bit patterns */
        *min = 0;
        *max = UINT8_MAX;
        break;
    case INFER_U16:
    case INFER_F16: /* bit patterns */
    case INFER_BF16:
        *min = 0;
        *max = UINT16_MAX;
        break;
    case INFER_BOOL:
        *min = 0;
        *max = 1;
        break;
    case INFER_U32:
        *min = 0;
        *max = UINT32_MAX;
        break;
    case INFER_I32:
        *min = INT32_MIN;
        *max = INT32_MAX;
        break;
    default:
        *min = INT64_MIN;
        *max = INT64_MAX;
        break;
    }
}

/* Stores element i from the bits of its wire form. */
static int store_element(enum infer_dtype dtype, uint64_t bits, int64_t i,
                         void *data, struct infer_error *err)
{
    int64_t value = (int64_t)bits, min, max;
    uint16_t half;

    if (dtype == INFER_F32 || dtype == INFER_F64) {
        size_t size = infer_dtype_size(dtype);
        uint32_t low = (uint32_t)bits;

        memcpy((unsigned char *)data + (size_t)i * size,
               dtype == INFER_F32 ? (void *)&low : (void *)&bits, size);
        return 0;
    }
    /* Some writers store a negative int32 without sign extension. */
    if (dtype == INFER_I32 && bits <= UINT32_MAX && bits > INT32_MAX)
        value = (int64_t)bits - ((int64_t)1 << 32);
    int_range(dtype, &min, &max);
    if (value < min || value > max)
        return error_set(err, INFER_EFORMAT,
                         "element %lld is %lld, outside its type", (long long)i,
                         (long long)value);
    if (dtype == INFER_F16 || dtype == INFER_BF16) {
        half = (uint16_t)value;
        memcpy((unsigned char *)data + (size_t)i * sizeof(half), &half,
               sizeof(half));
        return 0;
    }
    if (dtype == INFER_F8E4M3)
        ((unsigned char *)data)[i] = (unsigned char)value;
    else if (dtype == INFER_U64)
        memcpy((unsigned char *)data + (size_t)i * sizeof(bits), &bits,
               sizeof(bits));
    else
        scalar_store_i64(dtype, data, i, value);
    return 0;
}

static int store_typed(struct pb_reader *r, const struct layout *t,
                       struct constant *c, struct infer_error *err)
{
    enum pb_wire wire = element_wire(t->typed);
    struct pb_field f;
    int64_t i = 0;
    int rc;

    while ((rc = pb_next(r, &f, err)) > 0) {
        size_t at = 0;
        uint64_t bits;

        if (f.number != t->typed)
            continue;
        while (pb_item(&f, wire, &at, &bits)) {
            rc = store_element(c->dtype, bits, i++, c->data, err);
            if (rc < 0)
                return rc;
        }
    }
    return rc;
}

/* A reference into the file, after a move into alignment that overwrites
 * nothing but the payload's own tag and length.  NULL where that does not
 * do. */
static struct constant *in_place(struct blob *blob, enum infer_dtype dtype,
                                 const struct layout *t,
                                 const struct pb_field *f)
{
    size_t size = infer_dtype_size(dtype);
    size_t shift = (uintptr_t)f->span.data % size;
    unsigned char *data = f->span.data - shift;

    if (t->bytes < SMALL_BYTES || shift > (size_t)(f->span.data - f->tag))
        return NULL;
    if (shift)
        memmove(data, f->span.data, t->bytes);
    return constant_in_blob(dtype, t->rank, t->dim, blob, data);
}

static int load_external(struct onnx_model *m, const struct layout *t,
                         struct infer_error *err, struct constant **out)
{
    const struct external *e = &t->external;
    struct infer_tensor_info shape;

    if (!m || !m->path)
        return error_set(err, INFER_EUNSUPPORTED,
                         "external data without a folder to look in");
    if (!e->has_location)
        return error_set(err, INFER_EFORMAT,
                         "external data without a location");
    if (e->has_length && e->length != t->bytes)
        return error_set(err, INFER_EFORMAT,
                         "external data of %llu bytes, the shape needs %zu",
                         (unsigned long long)e->length, t->bytes);
    memset(&shape, 0, sizeof(shape));
    shape.dtype = t->narrow ? INFER_U8 : onnx_dtype(t->data_type);
    shape.rank = t->narrow ? 1 : t->rank;
    memcpy(shape.dim, t->dim, sizeof(shape.dim));
    if (t->narrow)
        shape.dim[0] = (int64_t)t->bytes;
    return weights_external_load(
        m->path,
        (struct weights_location){(const char *)e->location.data,
                                  e->location.bytes},
        e->offset, &shape, t->bytes, &m->external, err, out);
}

/* Any byte but 0 means true; the rest of the program relies on 0 and 1. */
static void normalise_bool(struct constant *c)
{
    size_t i;

    if (c->dtype == INFER_BOOL)
        for (i = 0; i < c->bytes; i++)
            c->data[i] = c->data[i] != 0;
}

/* A copy of the payload in memory of its own; that of a narrow type as bytes.
 */
static int copied(struct pb_reader r, const struct layout *t,
                  struct infer_error *err, struct constant **out)
{
    const int64_t bytes = (int64_t)t->bytes;
    struct constant *c =
        t->narrow ? constant_new(INFER_U8, 1, &bytes)
                  : constant_new(onnx_dtype(t->data_type), t->rank, t->dim);
    int rc = 0;

    if (!c)
        return error_set(err, INFER_EMEMORY,
                         "no memory for %zu bytes of tensor data", t->bytes);
    if (t->has_raw && t->bytes)
        memcpy(c->data, t->raw.span.data, t->bytes);
    else if (t->typed)
        rc = store_typed(&r, t, c, err);
    if (rc < 0)
        constant_unref(c);
    else
        *out = c;
    return rc;
}

/* The tensor of a narrow type from its bytes, which are released. */
static int unpack(const struct layout *t, struct constant *bytes,
                  struct infer_error *err, struct constant **out)
{
    *out = narrow_unpack(t->data_type, t->rank, t->dim, bytes->data);
    constant_unref(bytes);
    return *out ? 0 : error_set(err, INFER_EMEMORY, "out of memory");
}

/* m is NULL where there is no folder for external data; r stands at the start
 * of the message. */
static int build(struct onnx_model *m, struct blob *blob, struct pb_reader r,
                 const struct layout *t, struct infer_error *err,
                 struct constant **out)
{
    enum infer_dtype dtype = onnx_dtype(t->data_type);
    struct constant *c = NULL;
    int rc = 0;

    if (t->is_external)
        rc = load_external(m, t, err, &c);
    else if (t->narrow)
        rc = copied(r, t, err, &c);
    else if (t->has_raw)
        c = in_place(blob, dtype, t, &t->raw);
    else if (t->chunks == 1 && element_wire(t->typed) != PB_VARINT &&
             t->packed.wire == PB_BYTES)
        c = in_place(blob, dtype, t, &t->packed);
    if (rc == 0 && !c)
        rc = copied(r, t, err, &c);
    if (rc < 0)
        return rc;
    if (t->narrow)
        return unpack(t, c, err, out);
    normalise_bool(c);
    *out = c;
    return 0;
}

static void name_error(const struct layout *t, struct infer_error *err)
{
    error_prefix(err, "tensor '%.*s'", PB_TEXT(t->name, 128));
}

int onnx_tensor_read(struct blob *blob, struct infer_error *err,
                     struct constant **out)
{
    struct pb_reader r, again;
    struct layout t;
    int rc;

    memset(&t, 0, sizeof(t));
    pb_open(&r, blob->data, blob->bytes);
    again = r;
    rc = read_layout(&r, err, &t);
    if (rc == 0)
        rc = build(NULL, blob, again, &t, err, out);
    if (rc < 0)
        name_error(&t, err);
    return rc;
}

int onnx_tensor_name(const struct onnx_model *m, struct pb_span span,
                     struct infer_error *err, struct pb_span *out)
{
    struct pb_reader r = onnx_reader(m, span);
    struct pb_field f;
    int rc;

    out->data = NULL;
    out->bytes = 0;
    while ((rc = pb_next(&r, &f, err)) > 0) {
        if (f.number != 8)
            continue;
        if (pb_expect(&r, &f, PB_BYTES, "a name", err) < 0)
            return INFER_EFORMAT;
        *out = f.span;
    }
    return rc;
}

/* ---- the tensors loaded so far ------------------------------------- */

struct onnx_loaded {
    unsigned char *key;      /* where the message lies */
    struct constant *value;  /* NULL: only its transpose is there */
    struct constant *turned; /* of a matrix, or NULL */
    int narrow;              /* its type in narrow.h, or 0 */
};

static struct onnx_loaded *loaded_slot(struct onnx_loaded *table, size_t slots,
                                       const unsigned char *key)
{
    size_t i = (size_t)((uintptr_t)key * 0x9e3779b97f4a7c15u) & (slots - 1);

    while (table[i].key && table[i].key != key)
        i = (i + 1) & (slots - 1);
    return &table[i];
}

/* Keeps the table at most half full. */
static bool loaded_grow(struct onnx_model *m)
{
    size_t slots = m->loaded_slots ? m->loaded_slots * 2 : 64, i;
    struct onnx_loaded *table;

    if (m->loaded_count * 2 < m->loaded_slots)
        return true;
    table = calloc(slots, sizeof(*table));
    if (!table)
        return false;
    for (i = 0; i < m->loaded_slots; i++)
        if (m->loaded[i].key)
            *loaded_slot(table, slots, m->loaded[i].key) = m->loaded[i];
    free(m->loaded);
    m->loaded = table;
    m->loaded_slots = slots;
    return true;
}

/* Dimensions of a matrix, transposed. */
static const int swap[] = {1, 0};

int onnx_tensor_load(struct onnx_model *m, struct pb_span span,
                     struct infer_error *err, struct constant **out)
{
    struct pb_reader r = onnx_reader(m, span);
    struct onnx_loaded *slot;
    struct layout t;
    int rc;

    if (!loaded_grow(m))
        return error_set(err, INFER_EMEMORY, "out of memory");
    slot = loaded_slot(m->loaded, m->loaded_slots, span.data);
    if (slot->key) {
        if (!slot->value)
            slot->value = constant_transpose(slot->turned, swap);
        *out = slot->value;
        return *out ? 0 : error_set(err, INFER_EMEMORY, "out of memory");
    }
    memset(&t, 0, sizeof(t));
    rc = read_layout(&r, err, &t);
    if (rc == 0)
        rc = build(m, m->blob, onnx_reader(m, span), &t, err, &slot->value);
    if (rc < 0) {
        name_error(&t, err);
        return rc;
    }
    if (t.is_external)
        m->external_bytes += t.bytes;
    slot->narrow = t.narrow ? (int)t.data_type : 0;
    slot->key = span.data;
    m->loaded_count++;
    *out = slot->value;
    return 0;
}

struct constant *onnx_tensor_turned(const struct onnx_model *m,
                                    struct pb_span span)
{
    return m->loaded_slots == 0
               ? NULL
               : loaded_slot(m->loaded, m->loaded_slots, span.data)->turned;
}

struct constant *onnx_tensor_turn(struct onnx_model *m, struct pb_span span)
{
    struct onnx_loaded *slot =
        loaded_slot(m->loaded, m->loaded_slots, span.data);

    if (!slot->turned)
        slot->turned = constant_transpose(slot->value, swap);
    if (slot->turned) {
        /* Another tensor may name the same range of a file. */
        if (!weights_external_give_back(&m->external, slot->value))
            constant_give_back(slot->value);
        slot->value = NULL;
    }
    return slot->turned;
}

int onnx_tensor_narrow(const struct onnx_model *m, struct pb_span span)
{
    return m->loaded_slots == 0
               ? 0
               : loaded_slot(m->loaded, m->loaded_slots, span.data)->narrow;
}

void onnx_tensors_clear(struct onnx_model *m)
{
    size_t i;

    for (i = 0; i < m->loaded_slots; i++)
        if (m->loaded[i].key) {
            constant_unref(m->loaded[i].value);
            constant_unref(m->loaded[i].turned);
        }
    free(m->loaded);
}
