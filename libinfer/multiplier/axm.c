/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our own form, .axm: one line of JSON that ends with a newline, then the
 * table, 4^bits entries of 4 bytes, least byte first.
 *
 *     {"axm":1,"name":"mitchell-7","kind":"float","bits":7,"signed":false,
 *      "crc32":3735928559,"errors":{"rate":...,"mean":...,...}}
 *
 * The line begins with {"axm": as above.  Entries are those of struct
 * multiplier.  The errors are for readers; reading does not trust them.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/file_write.h"
#include "kernels/base/json.h"
#include "kernels/base/product_table.h"
#include "libinfer/multiplier/multiplier.h"

#define MAGIC      "{\"axm\":"
#define MAX_HEADER 4096
#define VERSION    1

bool multiplier_is_axm(const unsigned char *data, size_t bytes)
{
    return bytes >= strlen(MAGIC) && memcmp(data, MAGIC, strlen(MAGIC)) == 0;
}

/* ---- reading ------------------------------------------------------- */

static int refuse(struct infer_error *err, const char *path, const char *what)
{
    return error_set(err, INFER_EFORMAT, "%s: %s", path, what);
}

/* The table's kind, bits, signedness and name; no table yet. */
static int read_header(const char *path, const cJSON *root,
                       struct infer_error *err, struct multiplier *out,
                       int64_t *crc)
{
    const char *kind = json_string(root, "kind");
    const char *name = json_string(root, "name");
    int64_t version, bits;

    if (!json_int64(json_member(root, "axm"), 1, INT32_MAX, &version))
        return refuse(err, path, "its version \"axm\" is no number");
    if (version != VERSION)
        return error_set(err, INFER_EUNSUPPORTED,
                         "%s: version %lld of .axm (supported: %d)", path,
                         (long long)version, VERSION);
    if (!kind || (strcmp(kind, "float") != 0 && strcmp(kind, "integer") != 0))
        return refuse(err, path, "\"kind\" is neither float nor integer");
    out->kind =
        strcmp(kind, "float") == 0 ? MULTIPLIER_FLOAT : MULTIPLIER_INTEGER;
    const bool real = out->kind == MULTIPLIER_FLOAT;
    if (!json_int64(json_member(root, "bits"), real ? 1 : 2,
                    real ? PRODUCT_TABLE_MAX_BITS : 8, &bits))
        return error_set(err, INFER_EFORMAT,
                         "%s: \"bits\" is no number from %s", path,
                         real ? "1 to 11" : "2 to 8");
    if (!json_int64(json_member(root, "crc32"), 0, UINT32_MAX, crc))
        return refuse(err, path, "\"crc32\" is no number of 32 bits");
    out->bits = (int)bits;
    out->is_signed = !real && json_bool(root, "signed", false);
    multiplier_set_name(out, name ? name : "", name ? strlen(name) : 0);
    return 0;
}

/* Products of 8 bits fit into 17; entries of floating point into 24. */
static bool entry_is_sound(const struct multiplier *m, int32_t v)
{
    return m->kind == MULTIPLIER_FLOAT ? v >= 0 && v < 1 << 24
                                       : v >= -65536 && v <= 65535;
}

int multiplier_check_entries(const struct multiplier *m, const char *name,
                             struct infer_error *err)
{
    for (size_t i = 0; i < multiplier_entries(m); i++)
        if (!entry_is_sound(m, m->table[i]))
            return error_set(err, INFER_EFORMAT,
                             "%s: entry %zu is %d, which is no product", name,
                             i, (int)m->table[i]);
    return 0;
}

static int read_table(const char *path, const unsigned char *data,
                      struct infer_error *err, struct multiplier *m)
{
    for (size_t i = 0; i < multiplier_entries(m); i++, data += 4)
        m->table[i] =
            (int32_t)(data[0] | (uint32_t)data[1] << 8 |
                      (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24);
    return multiplier_check_entries(m, path, err);
}

int multiplier_read_axm(const char *path, const unsigned char *data,
                        size_t bytes, struct infer_error *err,
                        struct multiplier **out)
{
    const unsigned char *end =
        memchr(data, '\n', bytes < MAX_HEADER ? bytes : MAX_HEADER);
    struct multiplier head = {.form = ".axm"}, *m = NULL;
    cJSON *root = NULL;
    int64_t crc = 0;

    if (!end)
        return refuse(err, path, "its first line, the header, does not end");
    const size_t line = (size_t)(end - data), rest = bytes - line - 1;
    int rc = json_parse((const char *)data, line, false, err, &root);
    if (rc < 0) {
        error_prefix(err, "%s", path);
        return rc;
    }
    rc = read_header(path, root, err, &head, &crc);
    cJSON_Delete(root);
    if (rc == 0 && rest != 4 * multiplier_entries(&head))
        rc = error_set(err, INFER_EFORMAT,
                       "%s: a table of %d bits has %zu bytes, found %zu", path,
                       head.bits, 4 * multiplier_entries(&head), rest);
    if (rc == 0 && !(m = multiplier_new(head.kind, head.bits)))
        rc = error_set(err, INFER_EMEMORY, "%s: out of memory", path);
    if (rc == 0) {
        head.table = m->table;
        *m = head;
        rc = read_table(path, end + 1, err, m);
    }
    if (rc == 0) {
        multiplier_seal(m);
        if (m->crc != (uint32_t)crc)
            rc = refuse(err, path, "the table's CRC-32 is not the header's");
    }
    if (rc < 0) {
        multiplier_free(m);
        return rc;
    }
    *out = m;
    return 0;
}

/* ---- writing ------------------------------------------------------- */

static bool put(cJSON *object, const char *key, cJSON *value)
{
    if (value && cJSON_AddItemToObject(object, key, value))
        return true;
    cJSON_Delete(value);
    return false;
}

static bool put_errors(cJSON *root, const struct multiplier *m)
{
    struct multiplier_errors e;
    cJSON *errors = cJSON_AddObjectToObject(root, "errors");

    multiplier_measure(m, NULL, NULL, &e);
    return errors && put(errors, "rate", cJSON_CreateNumber(e.rate)) &&
           put(errors, "mean", cJSON_CreateNumber(e.mean)) &&
           put(errors, "mean_absolute", cJSON_CreateNumber(e.mean_absolute)) &&
           put(errors, "worst", cJSON_CreateNumber(e.worst)) &&
           put(errors, "mean_relative", cJSON_CreateNumber(e.mean_relative)) &&
           put(errors, "worst_relative",
               cJSON_CreateNumber(e.worst_relative)) &&
           put(errors, "relative_bias", cJSON_CreateNumber(e.relative_bias));
}

/* The first line without its newline; to be freed. */
static char *header_of(const struct multiplier *m)
{
    cJSON *root = cJSON_CreateObject();
    const bool real = m->kind == MULTIPLIER_FLOAT;
    char *text = NULL;

    if (root && put(root, "axm", cJSON_CreateNumber(VERSION)) &&
        put(root, "name", cJSON_CreateString(m->name)) &&
        put(root, "kind", cJSON_CreateString(real ? "float" : "integer")) &&
        put(root, "bits", cJSON_CreateNumber(m->bits)) &&
        put(root, "signed", cJSON_CreateBool(m->is_signed)) &&
        put(root, "crc32", cJSON_CreateNumber(m->crc)) && put_errors(root, m))
        text = cJSON_PrintUnformatted(root);
    cJSON_Delete(root);
    return text;
}

int multiplier_write(const struct multiplier *m, const char *path,
                     struct infer_error *err)
{
    const size_t n = multiplier_entries(m);
    unsigned char *table = malloc(4 * n);
    char *header = header_of(m);
    int rc;

    if (!table || !header) {
        rc = error_set(err, INFER_EMEMORY, "%s: out of memory", path);
    } else {
        for (size_t i = 0; i < 4 * n; i++)
            table[i] = (unsigned char)((uint32_t)m->table[i / 4] >> i % 4 * 8);
        const struct file_part part[] = {
            {header, strlen(header)}, {"\n", 1}, {table, 4 * n}};
        rc = file_replace(path, part, 3, true, err);
    }
    free(table);
    cJSON_free(header);
    return rc;
}
