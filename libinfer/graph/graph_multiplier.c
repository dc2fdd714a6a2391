/* SPDX-License-Identifier: Apache-2.0 */
/* The multiplier that a graph is meant to run with: the record, and its JSON in
 * the model file. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/json.h"
#include "libinfer/graph/graph.h"

/* Bytes of a name, and of the words for exact layers. */
#define MAX_NAME  63
#define MAX_WORDS 65535

void graph_multiplier_free(struct graph_multiplier *m)
{
    if (m == NULL)
        return;
    free(m->name);
    free(m->exact);
    free(m->accumulator);
    constant_unref(m->table);
    free(m);
}

void graph_set_multiplier(struct graph *g, struct graph_multiplier *m)
{
    graph_multiplier_free(g->multiplier);
    g->multiplier = m;
}

struct graph_multiplier *graph_multiplier_copy(const struct graph_multiplier *m)
{
    struct graph_multiplier *to = malloc(sizeof(*to));

    if (to == NULL)
        return NULL;
    *to = *m;
    to->name = m->name != NULL ? strdup(m->name) : NULL;
    to->exact = m->exact != NULL ? strdup(m->exact) : NULL;
    to->accumulator = m->accumulator != NULL ? strdup(m->accumulator) : NULL;
    if (m->table != NULL)
        constant_ref(m->table);
    if ((m->name != NULL && to->name == NULL) ||
        (m->exact != NULL && to->exact == NULL) ||
        (m->accumulator != NULL && to->accumulator == NULL)) {
        graph_multiplier_free(to);
        return NULL;
    }
    return to;
}

int graph_multiplier_set_table(struct graph_multiplier *m, struct constant *c,
                               struct infer_error *err)
{
    const int64_t side = INT64_C(1) << m->bits;

    if (c == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    if (c->dtype != INFER_I32 || c->rank != 2 || c->dim[0] != side ||
        c->dim[1] != side) {
        constant_unref(c);
        return error_add(err, INFER_EFORMAT,
                         "the table of multiplier '%s' is not I32 of %lld x "
                         "%lld entries",
                         m->name, (long long)side, (long long)side);
    }
    constant_unref(m->table);
    m->table = c;
    return INFER_OK;
}

/* ---- JSON ---------------------------------------------------------- */

cJSON *graph_multiplier_to_json(const struct graph_multiplier *m)
{
    cJSON *json = cJSON_CreateObject();

    if (!json_put(json, "name", cJSON_CreateString(m->name)) ||
        !json_put(json, "kind",
                  cJSON_CreateString(m->real ? "float" : "integer")) ||
        !json_put(json, "bits", cJSON_CreateNumber(m->bits)) ||
        (m->is_signed && !json_put(json, "signed", cJSON_CreateTrue())) ||
        (m->exact != NULL &&
         !json_put(json, "exact", cJSON_CreateString(m->exact))) ||
        (m->accumulator != NULL &&
         !json_put(json, "accumulator", cJSON_CreateString(m->accumulator)))) {
        cJSON_Delete(json);
        return NULL;
    }
    return json;
}

/* The first member that is unknown or of a wrong type, or NULL. */
static const cJSON *find_fault(const cJSON *json)
{
    const cJSON *item;

    cJSON_ArrayForEach(item, json)
    {
        const char *key = item->string;
        const bool text =
            strcmp(key, "name") == 0 || strcmp(key, "kind") == 0 ||
            strcmp(key, "exact") == 0 || strcmp(key, "accumulator") == 0;

        if (!(text && cJSON_IsString(item)) &&
            !(strcmp(key, "bits") == 0 && cJSON_IsNumber(item)) &&
            !(strcmp(key, "signed") == 0 && cJSON_IsBool(item)))
            return item;
    }
    return NULL;
}

/* Fills *m but for its texts. */
static int read_kind(const cJSON *json, struct infer_error *err,
                     struct graph_multiplier *m)
{
    const char *kind = json_string(json, "kind");
    int64_t bits;

    if (kind == NULL ||
        (strcmp(kind, "float") != 0 && strcmp(kind, "integer") != 0))
        return error_set(err, INFER_EFORMAT,
                         "\"kind\" is neither float nor integer");
    m->real = strcmp(kind, "float") == 0;
    m->is_signed = json_bool(json, "signed", false);
    if (m->real && m->is_signed)
        return error_set(err, INFER_EFORMAT, "\"signed\" is of integers");
    if (!json_int64(json_member(json, "bits"), m->real ? 1 : 2,
                    m->real ? GRAPH_MULTIPLIER_REAL_BITS
                            : GRAPH_MULTIPLIER_INTEGER_BITS,
                    &bits))
        return error_set(err, INFER_EFORMAT, "\"bits\" is no number from %s",
                         m->real ? "1 to 11" : "2 to 8");
    m->bits = (int)bits;
    return INFER_OK;
}

int graph_multiplier_from_json(const cJSON *json, struct infer_error *err,
                               struct graph_multiplier **out)
{
    const char *name = json_string(json, "name");
    const char *exact = json_string(json, "exact");
    const char *accumulator = json_string(json, "accumulator");
    const cJSON *fault = find_fault(json);
    struct graph_multiplier *m;
    int rc;

    if (!cJSON_IsObject(json))
        return error_set(err, INFER_EFORMAT, "not an object");
    if (fault != NULL)
        return error_set(err, INFER_EFORMAT,
                         "'%.100s' is not known or of a wrong type",
                         fault->string);
    if (name == NULL || name[0] == '\0' || strlen(name) > MAX_NAME)
        return error_set(err, INFER_EFORMAT,
                         "\"name\" is no text of 1 to %d bytes", MAX_NAME);
    if (exact != NULL && strlen(exact) > MAX_WORDS)
        return error_set(err, INFER_EFORMAT,
                         "\"exact\" is longer than %d bytes", MAX_WORDS);
    if (accumulator != NULL && strlen(accumulator) > MAX_NAME)
        return error_set(err, INFER_EFORMAT,
                         "\"accumulator\" is longer than %d bytes", MAX_NAME);
    m = calloc(1, sizeof(*m));
    if (m == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    rc = read_kind(json, err, m);
    if (rc == INFER_OK) {
        m->name = strdup(name);
        m->exact = exact != NULL ? strdup(exact) : NULL;
        m->accumulator = accumulator != NULL ? strdup(accumulator) : NULL;
        if (m->name == NULL || (exact != NULL && m->exact == NULL) ||
            (accumulator != NULL && m->accumulator == NULL))
            rc = error_set(err, INFER_EMEMORY, "out of memory");
    }
    if (rc < 0) {
        graph_multiplier_free(m);
        return rc;
    }
    *out = m;
    return INFER_OK;
}
