/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Repeats of an architecture file, written out before the graph is read.
 *
 * An entry of "nodes" with the member "repeat" stands for so many copies of its
 * own "nodes".  Strings in them may hold {variable}, {variable+1} and
 * {variable-1}; a string that is nothing but {variable} becomes the variable's
 * value, a number or a list too.  The variables: "as" counts from "from",
 * "each" has one value a copy, and x is the tensor that a copy begins with: "x"
 * for the first, then the first output of the last node of the copy before.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/json.h"
#include "libinfer/graph/graph.h"
#include "libinfer/graph/graph_json.h"

#define SHOWN 100 /* longest name in a message */
/* Bytes that the copies may take: as much as the largest graph of a few hundred
 * bytes a node. */
#define MAX_COPIED ((size_t)32 << 20)

/* Variables of a repeat, inside those of the repeats around it. */
struct scope {
    const struct scope *outer;
    const char *index_name;
    int64_t index;
    const cJSON *each; /* lists, one value a copy; or NULL */
    int copy;
    const char *x; /* the tensor that this copy begins with; or NULL */
};

struct expander {
    struct infer_error *err;
    int rc;
    size_t copied; /* bytes so far */
    int nodes;
    cJSON *weights;
};

static int fault(struct expander *e, const char *what, const char *name)
{
    if (e->rc == 0)
        e->rc = error_set(e->err, INFER_EFORMAT, "repeat: %s '%.*s'", what,
                          SHOWN, name);
    return e->rc;
}

static int out_of_memory(struct expander *e)
{
    e->rc = error_set(e->err, INFER_EMEMORY, "out of memory");
    return e->rc;
}

static bool spend(struct expander *e, size_t bytes)
{
    if (e->rc != 0 || bytes > MAX_COPIED - e->copied) {
        fault(e, "the copies are larger than", "32 MiB");
        return false;
    }
    e->copied += bytes;
    return true;
}

/* ---- variables ------------------------------------------------------ */

/* Value of the variable: *item, or *number where item stays NULL, or *text.
 * False if there is none of that name. */
struct value {
    const cJSON *item;
    const char *text;
    int64_t number;
};

static bool look_up(const struct scope *s, const char *name, struct value *v)
{
    memset(v, 0, sizeof(*v));
    for (; s; s = s->outer) {
        const cJSON *list = s->each ? json_member(s->each, name) : NULL;

        if (s->index_name && strcmp(s->index_name, name) == 0) {
            v->number = s->index;
            return true;
        }
        if (list) {
            v->item = cJSON_GetArrayItem(list, s->copy);
            return v->item != NULL;
        }
        if (s->x && strcmp(name, "x") == 0) {
            v->text = s->x;
            return true;
        }
    }
    return false;
}

/* The text of a value with `more` added to a number; -1 if it has none. */
static int value_text(const struct value *v, int64_t more, char *buf,
                      size_t bytes)
{
    int64_t number = v->number;

    if (v->text || cJSON_IsString(v->item)) {
        if (more != 0)
            return -1;
        return snprintf(buf, bytes, "%s",
                        v->text ? v->text : v->item->valuestring);
    }
    if (v->item && !json_int64(v->item, INT32_MIN, INT32_MAX, &number))
        return -1;
    return snprintf(buf, bytes, "%" PRId64, number + more);
}

/* {name}, {name+n} or {name-n} at *at, which moves behind it. */
static bool parse_reference(const char **at, char name[64], int64_t *more)
{
    const char *p = *at + 1;
    size_t n = 0;
    bool minus;

    for (; (isalnum((unsigned char)*p) || *p == '_') && n < 63; p++)
        name[n++] = *p;
    name[n] = '\0';
    *more = 0;
    minus = *p == '-';
    if (minus || *p == '+')
        for (p++; isdigit((unsigned char)*p) && *more < 100000; p++)
            *more = *more * 10 + (*p - '0');
    if (minus)
        *more = -*more;
    if (n == 0 || *p != '}')
        return false;
    *at = p + 1;
    return true;
}

/* The string with its variables replaced; malloc()ed, NULL after a fault. */
static char *substitute(struct expander *e, const struct scope *s,
                        const char *text)
{
    const size_t room = GRAPH_MAX_NAME + 1;
    char *out = malloc(room);
    size_t used = 0;

    if (!out) {
        out_of_memory(e);
        return NULL;
    }
    for (const char *p = text; *p && used < room;) {
        char name[64];
        struct value v;
        int64_t more;
        int n;

        if (*p != '{') {
            out[used++] = *p++;
            continue;
        }
        n = parse_reference(&p, name, &more) && look_up(s, name, &v)
                ? value_text(&v, more, out + used, room - used)
                : -1;
        if (n < 0) {
            fault(e, "no variable with such a value in", text);
            break;
        }
        used += (size_t)n;
    }
    if (e->rc == 0 && used >= room)
        fault(e, "a name is too long:", text);
    if (e->rc != 0) {
        free(out);
        return NULL;
    }
    out[used] = '\0';
    return out;
}

/* ---- copies --------------------------------------------------------- */

static cJSON *copy_item(struct expander *e, const struct scope *s,
                        const cJSON *item);

/* Members or entries of a container, copied into `to`. */
static bool copy_children(struct expander *e, const struct scope *s,
                          const cJSON *from, cJSON *to)
{
    const cJSON *child;

    cJSON_ArrayForEach(child, from)
    {
        cJSON *copy = copy_item(e, s, child);
        char *key =
            copy && child->string ? substitute(e, s, child->string) : NULL;

        if (!copy || (child->string && !key) ||
            !(key ? cJSON_AddItemToObject(to, key, copy)
                  : cJSON_AddItemToArray(to, copy))) {
            if (e->rc == 0)
                out_of_memory(e);
            cJSON_Delete(copy);
            free(key);
            return false;
        }
        free(key);
    }
    return true;
}

static cJSON *copy_string(struct expander *e, const struct scope *s,
                          const char *text)
{
    const char *end = text;
    char name[64];
    struct value v;
    int64_t more;
    char *out;
    cJSON *copy;

    if (*text == '{' && parse_reference(&end, name, &more) && *end == '\0' &&
        look_up(s, name, &v) && !v.text && !cJSON_IsString(v.item)) {
        int64_t number = v.number;

        if (!v.item || json_int64(v.item, INT32_MIN, INT32_MAX, &number))
            return cJSON_CreateNumber((double)(number + more));
        if (more == 0)
            return copy_item(e, NULL, v.item);
        fault(e, "only an integer can be added to in", text);
        return NULL;
    }
    out = substitute(e, s, text);
    copy = out && spend(e, strlen(out)) ? cJSON_CreateString(out) : NULL;
    free(out);
    return copy;
}

/* s NULL: as it is. */
static cJSON *copy_item(struct expander *e, const struct scope *s,
                        const cJSON *item)
{
    cJSON *copy;

    if (!spend(e, sizeof(*item)))
        return NULL;
    if (cJSON_IsString(item) && s)
        return copy_string(e, s, item->valuestring);
    if (!cJSON_IsArray(item) && !cJSON_IsObject(item))
        return cJSON_Duplicate(item, false);
    copy = cJSON_IsArray(item) ? cJSON_CreateArray() : cJSON_CreateObject();
    if (copy && !copy_children(e, s, item, copy)) {
        cJSON_Delete(copy);
        return NULL;
    }
    return copy;
}

/* ---- repeats -------------------------------------------------------- */

static int expand_list(struct expander *e, const struct scope *s,
                       const cJSON *nodes, cJSON *to);

static bool is_repeat(const cJSON *node)
{
    return json_member(node, "repeat") != NULL;
}

/* Every member known, every list as long as there are copies. */
static int check_repeat(struct expander *e, const cJSON *node, int64_t count)
{
    static const char *const known[] = {"repeat", "as",    "from",   "each",
                                        "x",      "nodes", "weights"};
    const cJSON *item;

    cJSON_ArrayForEach(item, node)
    {
        size_t i = 0;

        while (i < sizeof(known) / sizeof(*known) &&
               strcmp(known[i], item->string) != 0)
            i++;
        if (i == sizeof(known) / sizeof(*known))
            return fault(e, "this field is not known:", item->string);
    }
    cJSON_ArrayForEach(item, json_member(node, "each"))
    {
        if (!cJSON_IsArray(item) || cJSON_GetArraySize(item) != count)
            return fault(e, "not one value a copy:",
                         item->string ? item->string : "each");
    }
    if (!cJSON_IsArray(json_member(node, "nodes")))
        return fault(e, "no list:", "nodes");
    return 0;
}

/* The weights of one copy go beside those of the whole file. */
static int add_weights(struct expander *e, const struct scope *s,
                       const cJSON *weights)
{
    if (!weights)
        return 0;
    if (!cJSON_IsObject(weights) || !e->weights)
        return fault(e, "no object:", "weights");
    copy_children(e, s, weights, e->weights);
    return e->rc;
}

/* The first output of the last node; NULL if there is none. */
static const char *last_output(const cJSON *nodes)
{
    const cJSON *last = nodes->child ? nodes->child->prev : NULL;

    return last ? cJSON_GetStringValue(
                      cJSON_GetArrayItem(json_member(last, "out"), 0))
                : NULL;
}

/* x, which begins the first copy, with the variables of the repeats around. */
static int first_x(struct expander *e, const struct scope *s, const cJSON *node,
                   char **out)
{
    const cJSON *x = json_member(node, "x");

    *out = NULL;
    if (!x)
        return 0;
    if (!cJSON_IsString(x))
        return fault(e, "no name:", "x");
    *out = substitute(e, s, x->valuestring);
    return e->rc;
}

/* An integer, or a string that becomes one. */
static int read_integer(struct expander *e, const struct scope *s,
                        const cJSON *item, int64_t least, int64_t most,
                        const char *what, int64_t *out)
{
    cJSON *copy = item ? copy_item(e, s, item) : NULL;
    const bool good = json_int64(copy, least, most, out);

    cJSON_Delete(copy);
    return good ? 0 : fault(e, "no integer, or out of range:", what);
}

static int expand_repeat(struct expander *e, const struct scope *outer,
                         const cJSON *node, cJSON *to)
{
    struct scope s = {.outer = outer,
                      .index_name = json_string(node, "as"),
                      .each = json_member(node, "each")};
    int64_t first = 0, count = 0;
    char *x = NULL;

    if (read_integer(e, outer, json_member(node, "repeat"), 0, GRAPH_MAX_NODES,
                     "repeat", &count) < 0 ||
        (json_member(node, "from") &&
         read_integer(e, outer, json_member(node, "from"), INT32_MIN, INT32_MAX,
                      "from", &first) < 0))
        return e->rc;
    if (check_repeat(e, node, count) < 0 || first_x(e, outer, node, &x) < 0)
        return e->rc;
    s.x = x;
    for (s.copy = 0; s.copy < count && e->rc == 0; s.copy++) {
        s.index = first + s.copy;
        /* A copy without nodes costs time too. */
        if (!spend(e, sizeof(*node)) ||
            expand_list(e, &s, json_member(node, "nodes"), to) < 0 ||
            add_weights(e, &s, json_member(node, "weights")) < 0)
            break;
        if (s.x && last_output(to))
            s.x = last_output(to);
    }
    free(x);
    return e->rc;
}

static int expand_list(struct expander *e, const struct scope *s,
                       const cJSON *nodes, cJSON *to)
{
    const cJSON *node;

    cJSON_ArrayForEach(node, nodes)
    {
        cJSON *copy;

        if (is_repeat(node)) {
            if (expand_repeat(e, s, node, to) < 0)
                return e->rc;
            continue;
        }
        if (++e->nodes > GRAPH_MAX_NODES)
            return fault(e, "more nodes than a graph may have,", "32768");
        copy = copy_item(e, s, node);
        if (!copy || !cJSON_AddItemToArray(to, copy))
            return e->rc != 0 ? e->rc : out_of_memory(e);
    }
    return e->rc;
}

static bool has_repeat(const cJSON *nodes)
{
    const cJSON *node;

    cJSON_ArrayForEach(node, nodes)
    {
        if (is_repeat(node))
            return true;
    }
    return false;
}

int graph_expand_repeats(cJSON *json, struct infer_error *err)
{
    struct expander e = {.err = err};
    const cJSON *nodes = json_member(json, "nodes");
    cJSON *to;

    if (!cJSON_IsArray(nodes) || !has_repeat(nodes))
        return 0;
    if (!json_member(json, "weights") &&
        !cJSON_AddObjectToObject(json, "weights"))
        return out_of_memory(&e);
    e.weights = cJSON_GetObjectItemCaseSensitive(json, "weights");
    if (!cJSON_IsObject(e.weights))
        e.weights = NULL;
    to = cJSON_CreateArray();
    if (!to)
        return out_of_memory(&e);
    if (expand_list(&e, NULL, nodes, to) < 0) {
        cJSON_Delete(to);
        return e.rc;
    }
    if (!cJSON_ReplaceItemInObjectCaseSensitive(json, "nodes", to)) {
        cJSON_Delete(to);
        return out_of_memory(&e);
    }
    return 0;
}
