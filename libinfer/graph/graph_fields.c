/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes through their field tables.  A field is addressed by an offset
 * into its struct, so everything here moves through memcpy(). */
#include "libinfer/graph/graph_fields.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/json.h"
#include "libinfer/graph/ops/op.h"

_Static_assert(sizeof(enum kern_unary_kind) == sizeof(int) &&
                   sizeof(enum graph_auto_pad) == sizeof(int) &&
                   sizeof(enum infer_dtype) == sizeof(int),
               "GRAPH_FIELD_ENUM reads enums as int");

const struct graph_field graph_act_fields[] = {
    {.name = "kind",
     .type = GRAPH_FIELD_ENUM,
     .offset = offsetof(struct kern_unary, kind),
     .names = kern_unary_names},
    {.name = "a",
     .type = GRAPH_FIELD_FLOAT,
     .offset = offsetof(struct kern_unary, a)},
    {.name = "b",
     .type = GRAPH_FIELD_FLOAT,
     .offset = offsetof(struct kern_unary, b)},
    {.name = NULL},
};

void graph_fields_defaults(enum graph_op op, const union graph_attr *attr,
                           union graph_attr *out)
{
    *out = graph_op_info(op)->defaults;
    if (op == GRAPH_UNARY)
        out->unary = graph_unary(attr->unary.kind);
}

/* ---- elements ------------------------------------------------------ */

static int load_int(const void *base, size_t offset, int i)
{
    int value;

    memcpy(&value, (const char *)base + offset + (size_t)i * sizeof(value),
           sizeof(value));
    return value;
}

static void store_int(void *base, size_t offset, int i, int value)
{
    memcpy((char *)base + offset + (size_t)i * sizeof(value), &value,
           sizeof(value));
}

static float load_float(const void *base, size_t offset, int i)
{
    float value;

    memcpy(&value, (const char *)base + offset + (size_t)i * sizeof(value),
           sizeof(value));
    return value;
}

static int64_t load_int64(const void *base, size_t offset, int i)
{
    int64_t value;

    memcpy(&value, (const char *)base + offset + (size_t)i * sizeof(value),
           sizeof(value));
    return value;
}

static void store_int64(void *base, size_t offset, int i, int64_t value)
{
    memcpy((char *)base + offset + (size_t)i * sizeof(value), &value,
           sizeof(value));
}

static bool load_bool(const void *base, size_t offset)
{
    bool value;

    memcpy(&value, (const char *)base + offset, sizeof(value));
    return value;
}

static size_t element_size(const struct graph_field *f)
{
    switch (f->type) {
    case GRAPH_FIELD_BOOL:
        return sizeof(bool);
    case GRAPH_FIELD_INT64S:
    case GRAPH_FIELD_SIZES:
        return sizeof(int64_t);
    case GRAPH_FIELD_FLOAT:
    case GRAPH_FIELD_FLOATS:
        return sizeof(float);
    case GRAPH_FIELD_INT:
    case GRAPH_FIELD_INTS:
    case GRAPH_FIELD_INTN:
    case GRAPH_FIELD_PADS:
    case GRAPH_FIELD_ENUM:
        break;
    }
    return sizeof(int);
}

static bool is_counted(const struct graph_field *f)
{
    return f->type == GRAPH_FIELD_INT64S || f->type == GRAPH_FIELD_INTN;
}

static bool is_list(const struct graph_field *f)
{
    return is_counted(f) || f->type == GRAPH_FIELD_INTS ||
           f->type == GRAPH_FIELD_FLOATS || f->type == GRAPH_FIELD_SIZES ||
           f->type == GRAPH_FIELD_PADS;
}

/* Beyond 2^53 a JSON number is no longer exact; extents are smaller, so that
 * clamping a bound of a slice to it changes nothing. */
static int64_t bounded(int64_t value)
{
    return value > OP_MAX_COUNT    ? OP_MAX_COUNT
           : value < -OP_MAX_COUNT ? -OP_MAX_COUNT
                                   : value;
}

/* True if entry i is equal in both; of pads, the begin and the end. */
static bool same_entry(const struct graph_field *f, const void *a,
                       const void *b, int i)
{
    size_t size = element_size(f), at = f->offset + (size_t)i * size;

    if (f->type == GRAPH_FIELD_INT64S || f->type == GRAPH_FIELD_SIZES)
        return bounded(load_int64(a, f->offset, i)) ==
               bounded(load_int64(b, f->offset, i));
    if (memcmp((const char *)a + at, (const char *)b + at, size) != 0)
        return false;
    at += (size_t)f->count * size;
    return f->type != GRAPH_FIELD_PADS ||
           memcmp((const char *)a + at, (const char *)b + at, size) == 0;
}

/* ---- checking ------------------------------------------------------ */

static int word_count(const char *const *names)
{
    int n = 0;

    while (names[n] != NULL)
        n++;
    return n;
}

static int check_field(const struct graph_field *f, const void *base,
                       const char *where, struct infer_error *err)
{
    int n = f->type == GRAPH_FIELD_FLOATS ? f->count : 1, i;

    if (f->type == GRAPH_FIELD_ENUM) {
        int word = load_int(base, f->offset, 0);

        if (word < 0 || word >= word_count(f->names))
            return error_add(err, INFER_EFORMAT, "%s: %s %d is outside 0 .. %d",
                             where, f->name, word, word_count(f->names) - 1);
    }
    if (is_counted(f)) {
        int length = load_int(base, f->count_offset, 0);

        if (length < 0 || length > f->count)
            return error_add(err, INFER_EFORMAT,
                             "%s: %s has %d entries, at most %d are possible",
                             where, f->name, length, f->count);
    }
    if (f->type == GRAPH_FIELD_FLOAT || f->type == GRAPH_FIELD_FLOATS)
        for (i = 0; i < n; i++)
            if (isnan(load_float(base, f->offset, i)))
                return error_add(err, INFER_EFORMAT, "%s: %s is NaN", where,
                                 f->name);
    return INFER_OK;
}

int graph_fields_check(const struct graph_field *field, const void *base,
                       const char *where, struct infer_error *err)
{
    int rc = INFER_OK;

    for (; field != NULL && field->name != NULL; field++) {
        int one = check_field(field, base, where, err);

        if (rc == INFER_OK)
            rc = one;
    }
    return rc;
}

/* ---- writing ------------------------------------------------------- */

cJSON *graph_float_to_json(float value)
{
    char text[32];
    int digits;

    if (isinf(value))
        return cJSON_CreateString(value > 0 ? "inf" : "-inf");
    /* The double nearest the shortest decimal: 0.1f is written 0.1 and not
     * 0.10000000149011612.  Nine digits always suffice. */
    for (digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value)
            break;
    }
    return cJSON_CreateNumber(strtod(text, NULL));
}

static cJSON *entry_to_json(const struct graph_field *f, const void *base,
                            int i)
{
    switch (f->type) {
    case GRAPH_FIELD_BOOL:
        return cJSON_CreateBool(load_bool(base, f->offset));
    case GRAPH_FIELD_INT64S:
    case GRAPH_FIELD_SIZES:
        return cJSON_CreateNumber(
            (double)bounded(load_int64(base, f->offset, i)));
    case GRAPH_FIELD_FLOAT:
    case GRAPH_FIELD_FLOATS:
        return graph_float_to_json(load_float(base, f->offset, i));
    case GRAPH_FIELD_ENUM:
        return cJSON_CreateString(f->names[load_int(base, f->offset, 0)]);
    case GRAPH_FIELD_INT:
    case GRAPH_FIELD_INTS:
    case GRAPH_FIELD_INTN:
    case GRAPH_FIELD_PADS:
        break;
    }
    return cJSON_CreateNumber(load_int(base, f->offset, i));
}

/* How many entries of a list are written.  Those past the spatial rank (or the
 * rank) do not count; where it is not known, defaults at the end are left
 * out. */
static int list_length(const struct graph_field *f, const void *base,
                       const void *defaults, int rank)
{
    int n = f->count;

    if (is_counted(f))
        return load_int(base, f->count_offset, 0);
    if (rank >= 0 && f->count == KERN_MAX_SPATIAL)
        rank = rank > 2 ? rank - 2 : 0;
    if (rank >= 0)
        return rank < n ? rank : n;
    while (n > 0 && same_entry(f, base, defaults, n - 1))
        n--;
    return n;
}

static cJSON *list_to_json(const struct graph_field *f, const void *base, int n)
{
    cJSON *list = cJSON_CreateArray();
    int total = f->type == GRAPH_FIELD_PADS ? 2 * n : n, i;

    for (i = 0; list != NULL && i < total; i++) {
        cJSON *item = entry_to_json(f, base, i < n ? i : i - n + f->count);

        if (!cJSON_AddItemToArray(list, item)) {
            cJSON_Delete(item);
            cJSON_Delete(list);
            return NULL;
        }
    }
    return list;
}

/* True if the field has its default.  The first of several lists with one
 * length (first) also carries the length. */
static bool is_default(const struct graph_field *f, const void *base,
                       const void *defaults, int n, bool first)
{
    int i;

    if (is_counted(f) && first)
        return n == load_int(defaults, f->count_offset, 0);
    for (i = 0; i < n; i++)
        if (!same_entry(f, base, defaults, i))
            return false;
    return true;
}

bool graph_fields_write(const struct graph_field *field, const void *base,
                        const void *defaults, int rank, cJSON *object)
{
    size_t count_seen = SIZE_MAX;

    for (; field != NULL && field->name != NULL; field++) {
        int n = is_list(field) ? list_length(field, base, defaults, rank) : 1;
        bool first = !is_counted(field) || field->count_offset != count_seen;
        cJSON *item;

        if (is_counted(field))
            count_seen = field->count_offset;
        if (is_default(field, base, defaults, n, first))
            continue;
        item = is_list(field) ? list_to_json(field, base, n)
                              : entry_to_json(field, base, 0);
        if (!cJSON_AddItemToObjectCS(object, field->name, item)) {
            cJSON_Delete(item);
            return false;
        }
    }
    return true;
}

/* ---- reading ------------------------------------------------------- */

bool graph_float_from_json(const cJSON *item, float *out)
{
    const char *word = cJSON_GetStringValue(item);

    if (word != NULL && strcmp(word, "inf") == 0) {
        *out = INFINITY;
        return true;
    }
    if (word != NULL && strcmp(word, "-inf") == 0) {
        *out = -INFINITY;
        return true;
    }
    /* All that rounds to a finite float: nine digits of FLT_MAX read back as a
     * little more than it. */
    if (!cJSON_IsNumber(item) || !(fabs(item->valuedouble) < 0x1.ffffffp127))
        return false;
    *out = (float)item->valuedouble;
    return true;
}

/* One entry; false where the item is of another type or out of range. */
static bool entry_from_json(const struct graph_field *f, const cJSON *item,
                            void *base, int i)
{
    float number;
    int64_t value;

    switch (f->type) {
    case GRAPH_FIELD_INT64S:
    case GRAPH_FIELD_SIZES:
        if (!json_int64(item, -OP_MAX_COUNT, OP_MAX_COUNT, &value))
            return false;
        store_int64(base, f->offset, i, value);
        return true;
    case GRAPH_FIELD_FLOAT:
    case GRAPH_FIELD_FLOATS:
        if (!graph_float_from_json(item, &number))
            return false;
        memcpy((char *)base + f->offset + (size_t)i * sizeof(number), &number,
               sizeof(number));
        return true;
    case GRAPH_FIELD_BOOL:
    case GRAPH_FIELD_INT:
    case GRAPH_FIELD_INTS:
    case GRAPH_FIELD_INTN:
    case GRAPH_FIELD_PADS:
    case GRAPH_FIELD_ENUM:
        break;
    }
    if (!json_int64(item, INT_MIN, INT_MAX, &value))
        return false;
    store_int(base, f->offset, i, (int)value);
    return true;
}

static const char *entry_type(const struct graph_field *f)
{
    return f->type == GRAPH_FIELD_FLOAT || f->type == GRAPH_FIELD_FLOATS
               ? "a number"
               : "an integer";
}

/* State of graph_fields_read() from field to field. */
struct reading {
    void *base;
    const char *where;
    struct infer_error *err;
    size_t count_offset; /* of the latest list with a length, */
    int count;           /* and that length */
};

static int read_array(struct reading *r, const struct graph_field *f,
                      const cJSON *array)
{
    bool pads = f->type == GRAPH_FIELD_PADS;
    int n = cJSON_GetArraySize(array), most = f->count, i = 0;
    const cJSON *item;

    if (pads && n % 2 != 0)
        return error_add(r->err, INFER_EFORMAT,
                         "%s: %s has %d entries, as many ends as begins are "
                         "expected",
                         r->where, f->name, n);
    if (n > (pads ? 2 * most : most))
        return error_add(r->err, INFER_EFORMAT,
                         "%s: %s has %d entries, at most %d are possible",
                         r->where, f->name, n, pads ? 2 * most : most);
    if (is_counted(f)) {
        if (f->count_offset == r->count_offset && n != r->count)
            return error_add(r->err, INFER_EFORMAT,
                             "%s: %s has %d entries, the list before it %d",
                             r->where, f->name, n, r->count);
        r->count_offset = f->count_offset;
        r->count = n;
        store_int(r->base, f->count_offset, 0, n);
    }
    cJSON_ArrayForEach(item, array)
    {
        int to = pads && i >= n / 2 ? i - n / 2 + f->count : i;

        if (!entry_from_json(f, item, r->base, to))
            return error_add(r->err, INFER_EFORMAT,
                             "%s: entry %d of %s is not %s in range", r->where,
                             i, f->name, entry_type(f));
        i++;
    }
    return INFER_OK;
}

/* A list may be given as one number where its length is fixed: all alike. */
static int read_list(struct reading *r, const struct graph_field *f,
                     const cJSON *item)
{
    int total = f->type == GRAPH_FIELD_PADS ? 2 * f->count : f->count, i;

    if (cJSON_IsArray(item))
        return read_array(r, f, item);
    for (i = 0; i < total; i++)
        if (is_counted(f) || !entry_from_json(f, item, r->base, i))
            return error_add(r->err, INFER_EFORMAT,
                             "%s: %s is not a list of numbers in range",
                             r->where, f->name);
    return INFER_OK;
}

/* All words into text, for a message. */
static const char *list_words(const char *const *names, char *text,
                              size_t bytes)
{
    size_t used = 0;

    text[0] = '\0';
    for (; *names != NULL && used < bytes; names++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%s",
                                 used > 0 ? ", " : "", *names);
    return text;
}

static int read_word(struct reading *r, const struct graph_field *f,
                     const cJSON *item)
{
    const char *word = cJSON_GetStringValue(item);
    char words[512];
    int i;

    for (i = 0; word != NULL && f->names[i] != NULL; i++)
        if (strcmp(f->names[i], word) == 0) {
            store_int(r->base, f->offset, 0, i);
            return INFER_OK;
        }
    if (word == NULL)
        return error_add(r->err, INFER_EFORMAT, "%s: %s is not a string",
                         r->where, f->name);
    return error_add(r->err, INFER_EFORMAT,
                     "%s: %s '%.60s' is not known (supported: %s)", r->where,
                     f->name, word, list_words(f->names, words, sizeof(words)));
}

static int read_field(struct reading *r, const struct graph_field *f,
                      const cJSON *item)
{
    bool flag;

    if (is_list(f))
        return read_list(r, f, item);
    if (f->type == GRAPH_FIELD_ENUM)
        return read_word(r, f, item);
    if (f->type == GRAPH_FIELD_BOOL) {
        if (!cJSON_IsBool(item))
            return error_add(r->err, INFER_EFORMAT,
                             "%s: %s is not true or false", r->where, f->name);
        flag = cJSON_IsTrue(item);
        memcpy((char *)r->base + f->offset, &flag, sizeof(flag));
        return INFER_OK;
    }
    if (!entry_from_json(f, item, r->base, 0))
        return error_add(r->err, INFER_EFORMAT, "%s: %s is not %s in range",
                         r->where, f->name, entry_type(f));
    return INFER_OK;
}

/* True if a key is a field or one of the other words. */
static bool is_known(const struct graph_field *field, const char *const *others,
                     const char *key)
{
    for (; field != NULL && field->name != NULL; field++)
        if (strcmp(field->name, key) == 0)
            return true;
    for (; others != NULL && *others != NULL; others++)
        if (strcmp(*others, key) == 0)
            return true;
    return false;
}

int graph_fields_read(const struct graph_field *field, const cJSON *object,
                      const char *const *others, const char *where, void *base,
                      struct infer_error *err)
{
    struct reading r = {base, where, err, SIZE_MAX, 0};
    const struct graph_field *f;
    const cJSON *item;
    int rc = INFER_OK, one;

    if (!cJSON_IsObject(object))
        return error_add(err, INFER_EFORMAT, "%s: not an object", where);
    cJSON_ArrayForEach(item, object)
    {
        if (is_known(field, others, item->string))
            continue;
        one = error_add(err, INFER_EFORMAT, "%s: field '%.60s' is not known",
                        where, item->string);
        if (rc == INFER_OK)
            rc = one;
    }
    for (f = field; f != NULL && f->name != NULL; f++) {
        item = json_member(object, f->name);
        one = item != NULL ? read_field(&r, f, item) : INFER_OK;
        if (rc == INFER_OK)
            rc = one;
    }
    return rc;
}

int graph_act_read(const cJSON *object, const char *where,
                   struct kern_unary *out, struct infer_error *err)
{
    const char *kind = json_string(object, "kind");
    int i;

    /* The kind first: the defaults of the constants depend on it. */
    for (i = 0; kind != NULL && kern_unary_names[i] != NULL; i++)
        if (strcmp(kern_unary_names[i], kind) == 0)
            *out = graph_unary((enum kern_unary_kind)i);
    return graph_fields_read(graph_act_fields, object, NULL, where, out, err);
}
