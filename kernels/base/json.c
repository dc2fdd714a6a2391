/* SPDX-License-Identifier: Apache-2.0 */
/* Strict JSON: the check of json_scan.c, then cJSON, then what only the
 * parsed tree shows (duplicate keys, numbers too large for a double). */
#include "kernels/base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "kernels/base/hash.h"
#include "kernels/base/json_scan.h"
#include "kernels/base/text.h"

/* Integers up to here are exact in a double. */
#define EXACT (INT64_C(1) << 53)

/* ---- NaN and Infinity ---------------------------------------------- */

/* A copy of a checked text with every such token replaced by null, which is
 * at most one character longer.  Inside strings nothing changes. */
static char *without_nan(const char *text, size_t bytes, size_t tokens,
                         size_t *out_bytes)
{
    static const char null[4] = {'n', 'u', 'l', 'l'};
    size_t room, used = 0, i = 0;
    bool in_string = false;
    char *copy;

    if (!checked_add(bytes, tokens, &room))
        return NULL;
    copy = malloc(room > 0 ? room : 1);
    if (copy == NULL)
        return NULL;
    while (i < bytes) {
        size_t skip = 0;

        if (in_string && text[i] == '\\') {
            copy[used++] = text[i++];
        } else if (text[i] == '"') {
            in_string = !in_string;
        } else if (!in_string && text[i] == 'N') {
            skip = strlen("NaN");
        } else if (!in_string && text[i] == 'I') {
            skip = strlen("Infinity");
        } else if (!in_string && text[i] == '-' && text[i + 1] == 'I') {
            skip = strlen("-Infinity");
        }
        if (skip > 0) {
            memcpy(copy + used, null, sizeof(null));
            used += sizeof(null);
            i += skip;
        } else {
            copy[used++] = text[i++];
        }
    }
    *out_bytes = used;
    return copy;
}

/* ---- the parsed tree ----------------------------------------------- */

static int duplicate(const char *key, struct infer_error *err)
{
    return error_set(err, INFER_EFORMAT, "JSON: key '%.200s' stands twice",
                     key);
}

/* Few members: each against each. */
static int check_small(const cJSON *object, struct infer_error *err)
{
    const cJSON *a, *b;

    for (a = object->child; a != NULL; a = a->next)
        for (b = a->next; b != NULL; b = b->next)
            if (strcmp(a->string, b->string) == 0)
                return duplicate(a->string, err);
    return INFER_OK;
}

/* Many members: a hash table of those seen, half of it empty at least. */
static int check_large(const cJSON *object, size_t members,
                       struct infer_error *err)
{
    const cJSON **slot, *item;
    size_t size = 64;
    int rc = INFER_OK;

    while (size < members * 2)
        size *= 2;
    slot = calloc(size, sizeof(*slot));
    if (slot == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    for (item = object->child; item != NULL; item = item->next) {
        size_t at = (size_t)hash_name(item->string) & (size - 1);

        while (slot[at] != NULL && strcmp(slot[at]->string, item->string) != 0)
            at = (at + 1) & (size - 1);
        if (slot[at] != NULL) {
            rc = duplicate(item->string, err);
            break;
        }
        slot[at] = item;
    }
    free(slot);
    return rc;
}

static int check_keys(const cJSON *object, struct infer_error *err)
{
    const cJSON *item;
    size_t members = 0;

    for (item = object->child; item != NULL; item = item->next)
        members++;
    return members <= 8 ? check_small(object, err)
                        : check_large(object, members, err);
}

static int check_item(const cJSON *item, struct infer_error *err)
{
    if (cJSON_IsNumber(item) && !isfinite(item->valuedouble))
        return error_set(err, INFER_EFORMAT, "JSON: a number is out of range");
    if (cJSON_IsObject(item))
        return check_keys(item, err);
    return INFER_OK;
}

/* Visits every value; the depth is bounded by the scan before. */
static int check_tree(const cJSON *root, struct infer_error *err)
{
    const cJSON *stack[JSON_MAX_DEPTH + 1];
    const cJSON *item = root;
    int depth = 0;

    while (item != NULL) {
        int rc = check_item(item, err);

        if (rc < 0)
            return rc;
        if (item->child != NULL) {
            stack[depth++] = item;
            item = item->child;
            continue;
        }
        while (item->next == NULL && depth > 0)
            item = stack[--depth];
        item = depth > 0 || item != root ? item->next : NULL;
    }
    return INFER_OK;
}

int json_parse_within(const char *text, size_t bytes, size_t room,
                      bool allow_nan, struct infer_error *err, cJSON **out)
{
    size_t not_finite = 0;
    char *copy = NULL;
    cJSON *root;
    int rc = json_scan(text, bytes, room, allow_nan, &not_finite, err);

    if (rc < 0)
        return rc;
    if (not_finite > 0) {
        copy = without_nan(text, bytes, not_finite, &bytes);
        if (copy == NULL)
            return error_set(err, INFER_EMEMORY, "out of memory");
        text = copy;
    }
    root = cJSON_ParseWithLengthOpts(text, bytes, NULL, 0);
    free(copy);
    /* The grammar is checked already. */
    if (root == NULL)
        return error_set(err, INFER_EMEMORY,
                         "out of memory for a JSON text of %zu bytes", bytes);
    rc = check_tree(root, err);
    if (rc < 0) {
        cJSON_Delete(root);
        return rc;
    }
    *out = root;
    return INFER_OK;
}

int json_parse(const char *text, size_t bytes, bool allow_nan,
               struct infer_error *err, cJSON **out)
{
    return json_parse_within(text, bytes, bytes, allow_nan, err, out);
}

/* ---- members ------------------------------------------------------- */

const cJSON *json_member(const cJSON *object, const char *key)
{
    if (!cJSON_IsObject(object))
        return NULL;
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

const char *json_string(const cJSON *object, const char *key)
{
    return cJSON_GetStringValue(json_member(object, key));
}

bool json_bool(const cJSON *object, const char *key, bool otherwise)
{
    const cJSON *item = json_member(object, key);

    return cJSON_IsBool(item) ? cJSON_IsTrue(item) : otherwise;
}

bool json_int64(const cJSON *item, int64_t min, int64_t max, int64_t *out)
{
    int64_t value;

    if (!cJSON_IsNumber(item) || !(fabs(item->valuedouble) <= (double)EXACT))
        return false;
    value = (int64_t)item->valuedouble;
    if ((double)value != item->valuedouble || value < min || value > max)
        return false;
    *out = value;
    return true;
}

double json_double(const cJSON *object, const char *key, double otherwise)
{
    const cJSON *item = json_member(object, key);

    return cJSON_IsNumber(item) ? item->valuedouble : otherwise;
}

bool json_is_utf8(const char *text, size_t bytes)
{
    return text_is_utf8(text, bytes) && memchr(text, 0, bytes) == NULL;
}

/* ---- building ------------------------------------------------------ */

bool json_put(cJSON *object, const char *key, cJSON *item)
{
    if (cJSON_AddItemToObject(object, key, item))
        return true;
    cJSON_Delete(item);
    return false;
}

bool json_append(cJSON *array, cJSON *item)
{
    if (cJSON_AddItemToArray(array, item))
        return true;
    cJSON_Delete(item);
    return false;
}
