/* SPDX-License-Identifier: Apache-2.0 */
/* COCO's annotations: the text is cut into the elements of its three lists, and
 * each is parsed by itself. */
#include "tools/infer/coco_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/json.h"
#include "libinfer/graph/constant.h"

#define MAX_BYTES ((uint64_t)4 << 30)

/* ---- cutting ------------------------------------------------------- */

static const char *skip_space(const char *p)
{
    return p + strspn(p, " \t\r\n");
}

/* The end of a string that begins at p; NULL: it has none. */
static const char *skip_string(const char *p)
{
    for (p++; *p != '"'; p++) {
        if (*p == '\\' && p[1] != '\0')
            p++;
        else if (*p == '\0')
            return NULL;
    }
    return p + 1;
}

/* The end of the value at p; NULL: there is none, or a bracket is not closed.
 * What lies between its ends is checked by who parses it. */
static const char *skip_value(const char *p)
{
    size_t depth = 0;

    do {
        if (*p == '"') {
            p = skip_string(p);
            if (p == NULL)
                return NULL;
            continue;
        }
        if (*p == '\0')
            return NULL;
        if (*p == '[' || *p == '{') {
            depth++;
        } else if (*p == ']' || *p == '}') {
            if (depth == 0) /* no value at all */
                return NULL;
            depth--;
        } else if (depth == 0) {
            const size_t length = strcspn(p, " \t\r\n,]}[{\"");

            return length > 0 ? p + length : NULL;
        }
        p++;
    } while (depth > 0);
    return p;
}

/* ---- elements ------------------------------------------------------ */

/* What malloc() adds to a string, and the step of its sizes. */
#define STRING_BYTES 32

/* Counts an element of few bytes of text that takes many. */
static int take_room(struct coco_file *f, size_t bytes, struct infer_error *err)
{
    if (bytes > f->room)
        return error_set(err, INFER_EFORMAT,
                         "more elements than the limit: in memory they would "
                         "take %zu MiB more than the text",
                         COCO_FREE_BYTES >> 20);
    f->room -= bytes;
    return INFER_OK;
}

/* Room for one more of `count` items; doubles at powers of two. */
static void *grow(void *items, size_t count, size_t bytes)
{
    if ((count & (count - 1)) != 0)
        return items;
    return count > SIZE_MAX / 2 / bytes
               ? NULL
               : realloc(items, (count > 0 ? 2 * count : 1) * bytes);
}

static int add_entry(struct coco_file *f, struct coco_entries *to,
                     const cJSON *json, const char *key,
                     struct infer_error *err)
{
    const char *name = json_string(json, key);
    struct coco_entry *more, *e;
    const int rc =
        take_room(f, sizeof *e + STRING_BYTES + (name ? strlen(name) : 0), err);

    if (rc < 0)
        return rc;
    more = grow(to->item, to->count, sizeof *more);
    if (more == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    to->item = more;
    e = &more[to->count];
    if (name == NULL ||
        !json_int64(json_member(json, "id"), INT64_MIN, INT64_MAX, &e->id))
        return error_set(err, INFER_EFORMAT, "no whole number 'id' or no '%s'",
                         key);
    e->name = strdup(name);
    if (e->name == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    to->count++;
    return INFER_OK;
}

static int add_image(struct coco_file *f, const cJSON *json,
                     struct infer_error *err)
{
    return add_entry(f, &f->images, json, "file_name", err);
}

static int add_category(struct coco_file *f, const cJSON *json,
                        struct infer_error *err)
{
    return add_entry(f, &f->categories, json, "name", err);
}

static int add_truth(struct coco_file *f, const cJSON *json,
                     struct infer_error *err)
{
    const cJSON *box = json_member(json, "bbox"), *number;
    const cJSON *crowd = json_member(json, "iscrowd");
    const int rc = take_room(f, sizeof *f->truth + sizeof *f->ids, err);
    void *truth, *ids = NULL;
    struct ap_truth *t;
    int n = 0;

    if (rc < 0)
        return rc;
    truth = grow(f->truth, f->n_truth, sizeof *f->truth);
    if (truth != NULL) {
        f->truth = truth;
        ids = grow(f->ids, f->n_truth, sizeof *f->ids);
    }
    if (ids == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    f->ids = ids;
    t = &f->truth[f->n_truth];
    memset(t, 0, sizeof *t);
    cJSON_ArrayForEach(number, box)
    {
        if (n < 4 && cJSON_IsNumber(number))
            t->box[n] = number->valuedouble;
        n += cJSON_IsNumber(number) ? 1 : 5;
    }
    if (!cJSON_IsArray(box) || n != 4)
        return error_set(err, INFER_EFORMAT,
                         "'bbox' is not left, top, width and height");
    if (!json_int64(json_member(json, "image_id"), INT64_MIN, INT64_MAX,
                    &f->ids[f->n_truth][0]) ||
        !json_int64(json_member(json, "category_id"), INT64_MIN, INT64_MAX,
                    &f->ids[f->n_truth][1]))
        return error_set(err, INFER_EFORMAT,
                         "'image_id' or 'category_id' is no whole number");
    t->area = json_double(json, "area", t->box[2] * t->box[3]);
    t->crowd = cJSON_IsTrue(crowd) ||
               (cJSON_IsNumber(crowd) && crowd->valuedouble != 0);
    f->n_truth++;
    return INFER_OK;
}

static const struct section {
    const char *key;
    int (*add)(struct coco_file *f, const cJSON *json, struct infer_error *err);
} sections[] = {{"\"images\"", add_image},
                {"\"categories\"", add_category},
                {"\"annotations\"", add_truth}};

/* Reads the elements of a list whose '[' is at p; sets *end behind its ']'. */
static int read_list(struct coco_file *f, const struct section *s,
                     const char *p, const char **end, struct infer_error *err)
{
    size_t number = 0;
    int rc = INFER_OK;

    *end = NULL;
    p = skip_space(p + 1);
    while (rc == INFER_OK && *p != ']') {
        const char *begin = p;
        cJSON *json = NULL;

        p = skip_value(p);
        if (p == NULL)
            return error_set(err, INFER_EFORMAT, "%s: the list has no end",
                             s->key);
        rc = json_parse(begin, (size_t)(p - begin), true, err, &json);
        if (rc == INFER_OK)
            rc = s->add(f, json, err);
        cJSON_Delete(json);
        if (rc < 0) {
            error_prefix(err, "%s, element %zu", s->key, number);
            return rc;
        }
        number++;
        p = skip_space(p);
        if (*p == ',')
            p = skip_space(p + 1);
        else if (*p != ']')
            return error_set(err, INFER_EFORMAT,
                             "%s: no comma behind element %zu", s->key,
                             number - 1);
    }
    *end = p + 1;
    return rc;
}

/* Reads the members of the outer object. */
static int read_members(struct coco_file *f, const char *p, unsigned *seen,
                        struct infer_error *err)
{
    for (p = skip_space(p + 1); *p != '}';) {
        const char *key = p, *end = *p == '"' ? skip_string(p) : NULL;

        if (end == NULL)
            return error_set(err, INFER_EFORMAT, "no JSON object");
        p = skip_space(end);
        if (*p != ':')
            return error_set(err, INFER_EFORMAT, "no ':' behind a key");
        p = skip_space(p + 1);
        for (unsigned i = 0; i < 3; i++) {
            const size_t length = strlen(sections[i].key);

            if (*p != '[' || length != (size_t)(end - key) ||
                memcmp(key, sections[i].key, length) != 0)
                continue;
            if (*seen & 1u << i)
                return error_set(err, INFER_EFORMAT, "%s stands there twice",
                                 sections[i].key);
            *seen |= 1u << i;
            const int rc = read_list(f, &sections[i], p, &p, err);
            if (rc < 0)
                return rc;
            key = NULL;
            break;
        }
        if (key != NULL)
            p = skip_value(p);
        if (p == NULL)
            return error_set(err, INFER_EFORMAT, "a value has no end");
        p = skip_space(p);
        if (*p == ',')
            p = skip_space(p + 1);
        else if (*p != '}')
            return error_set(err, INFER_EFORMAT, "no comma behind a value");
    }
    if (*skip_space(p + 1) != '\0')
        return error_set(err, INFER_EFORMAT, "text behind the JSON object");
    return INFER_OK;
}

/* ---- ids ----------------------------------------------------------- */

static int by_id(const void *a, const void *b)
{
    const struct coco_entry *x = a, *y = b;

    return x->id == y->id ? 0 : x->id < y->id ? -1 : 1;
}

static int sort_entries(struct coco_entries *e, const char *what,
                        struct infer_error *err)
{
    if (e->count == 0 || e->count > INT32_MAX)
        return error_set(err, INFER_EFORMAT, "%zu %s", e->count, what);
    qsort(e->item, e->count, sizeof *e->item, by_id);
    for (size_t i = 1; i < e->count; i++)
        if (e->item[i].id == e->item[i - 1].id)
            return error_set(err, INFER_EFORMAT,
                             "two of the %s have id %" PRId64, what,
                             e->item[i].id);
    return INFER_OK;
}

static int index_of(const struct coco_entries *e, int64_t id)
{
    const struct coco_entry wanted = {.id = id};
    const struct coco_entry *found =
        bsearch(&wanted, e->item, e->count, sizeof *e->item, by_id);

    return found ? (int)(found - e->item) : -1;
}

static int resolve(struct coco_file *f, struct infer_error *err)
{
    size_t n = 0;
    int rc = sort_entries(&f->images, "images", err);

    if (rc == INFER_OK)
        rc = sort_entries(&f->categories, "categories", err);
    for (size_t i = 0; rc == INFER_OK && i < f->n_truth; i++) {
        struct ap_truth *t = &f->truth[i];

        t->image = index_of(&f->images, f->ids[i][0]);
        t->category = index_of(&f->categories, f->ids[i][1]);
        if (t->image >= 0 && t->category >= 0)
            f->truth[n++] = *t;
    }
    f->n_truth = n;
    free(f->ids);
    f->ids = NULL;
    return rc;
}

int coco_file_read(const char *path, struct infer_error *err,
                   struct coco_file *out)
{
    unsigned seen = 0;
    void *data = NULL;
    size_t bytes = 0;
    int rc;

    memset(out, 0, sizeof *out);
    rc = file_read_all(path, MAX_BYTES, err, &data, &bytes);
    if (rc < 0)
        return rc;
    out->room =
        bytes > SIZE_MAX - COCO_FREE_BYTES ? bytes : bytes + COCO_FREE_BYTES;
    const char *text = skip_space(data);
    if (*text != '{' || strlen(data) != bytes)
        rc = error_set(err, INFER_EFORMAT, "no JSON object");
    if (rc == INFER_OK)
        rc = read_members(out, text, &seen, err);
    for (unsigned i = 0; rc == INFER_OK && i < 3; i++)
        if (!(seen & 1u << i))
            rc = error_set(err, INFER_EFORMAT,
                           "no list %s: not COCO's annotations",
                           sections[i].key);
    free(data);
    if (rc == INFER_OK)
        rc = resolve(out, err);
    if (rc < 0)
        error_prefix(err, "%s", path);
    return rc;
}

static void clear_entries(struct coco_entries *e)
{
    for (size_t i = 0; i < e->count; i++)
        free(e->item[i].name);
    free(e->item);
}

void coco_file_clear(struct coco_file *f)
{
    clear_entries(&f->images);
    clear_entries(&f->categories);
    free(f->truth);
    free(f->ids);
    memset(f, 0, sizeof *f);
}
