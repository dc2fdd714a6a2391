/* SPDX-License-Identifier: Apache-2.0 */
/* A graph from untrusted JSON: strict, and every fault is listed.  The format
 * is in model_file.h. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/json.h"
#include "libinfer/graph/graph_fields.h"
#include "libinfer/graph/graph_json.h"
#include "libinfer/graph/op_hint.h"
#include "libinfer/graph/ops/op.h"

#define SHOWN 100 /* longest name in a message */

struct reader {
    struct graph *g;
    struct infer_error *err;
    int rc; /* the first fault's code; EMEMORY stops everything */
};

static void fault(struct reader *r, const char *fmt, ...) ERROR_PRINTF(2, 3);

static void fault(struct reader *r, const char *fmt, ...)
{
    char text[1024];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    error_add(r->err, INFER_EFORMAT, "%s", text);
    if (r->rc == INFER_OK)
        r->rc = INFER_EFORMAT;
}

static void out_of_memory(struct reader *r)
{
    r->rc = graph_no_room(r->g, r->err);
}

static bool stopped(const struct reader *r)
{
    return r->rc == INFER_EMEMORY;
}

/* ---- members ------------------------------------------------------- */

/* Every member must be one of the known words (at most 32), once. */
static void check_members(struct reader *r, const cJSON *object,
                          const char *where, const char *const *known)
{
    unsigned seen = 0;
    const cJSON *item;

    cJSON_ArrayForEach(item, object)
    {
        int i = 0;

        while (known[i] != NULL && strcmp(known[i], item->string) != 0)
            i++;
        if (known[i] == NULL)
            fault(r, "%s: field '%.*s' is not known", where, SHOWN,
                  item->string);
        else if (seen >> i & 1)
            fault(r, "%s: field '%s' stands twice", where, known[i]);
        else
            seen |= 1u << i;
    }
}

/* A member that must be a list; an empty one where it is not. */
static const cJSON *need_array(struct reader *r, const cJSON *object,
                               const char *key, const char *where)
{
    const cJSON *item = json_member(object, key);

    if (cJSON_IsArray(item))
        return item;
    fault(r, item == NULL ? "%s: '%s' is missing" : "%s: '%s' is not a list",
          where, key);
    return NULL;
}

static const char *need_string(struct reader *r, const cJSON *object,
                               const char *key, const char *where)
{
    const cJSON *item = json_member(object, key);
    const char *text = cJSON_GetStringValue(item);

    if (text != NULL && text[0] != '\0')
        return text;
    if (item == NULL)
        fault(r, "%s: '%s' is missing", where, key);
    else if (text == NULL)
        fault(r, "%s: '%s' is not a string", where, key);
    else
        fault(r, "%s: '%s' is empty", where, key);
    return NULL;
}

/* dtype and shape of an input or a weight; unknown if absent. */
static bool read_type(struct reader *r, const cJSON *object, const char *where,
                      struct graph_type *out)
{
    const cJSON *dtype = json_member(object, "dtype"), *item;
    const cJSON *shape = json_member(object, "shape");
    int faults_before = r->rc;

    out->dtype = INFER_NONE;
    out->rank = -1;
    if (dtype != NULL) {
        const char *name = cJSON_GetStringValue(dtype);

        out->dtype = name != NULL ? dtype_find(name) : INFER_NONE;
        if (out->dtype == INFER_NONE) {
            fault(r, "%s: dtype '%.20s' is not known", where,
                  name != NULL ? name : "");
            return false;
        }
    }
    if (shape == NULL)
        return true;
    if (!cJSON_IsArray(shape) || cJSON_GetArraySize(shape) > INFER_MAX_RANK) {
        fault(r, "%s: shape is not a list of at most %d sizes", where,
              INFER_MAX_RANK);
        return false;
    }
    out->rank = 0;
    cJSON_ArrayForEach(item, shape)
    {
        if (!json_int64(item, -1, OP_MAX_COUNT, &out->dim[out->rank])) {
            fault(r, "%s: size %d of the shape is out of range", where,
                  out->rank);
            return false;
        }
        out->rank++;
    }
    return r->rc == faults_before;
}

/* ---- inputs and weights -------------------------------------------- */

static void read_preprocess(struct reader *r, const cJSON *object,
                            const char *where, struct graph_preprocess *out)
{
    static const char *const others[] = {"fill", NULL};
    const cJSON *fill = json_member(object, "fill");
    int64_t value;
    int rc;

    *out = graph_preprocess_default();
    rc = graph_fields_read(graph_preprocess_fields, object, others, where, out,
                           r->err);
    if (r->rc == INFER_OK)
        r->rc = rc;
    if (fill == NULL)
        return;
    if (json_int64(fill, 0, UINT8_MAX, &value))
        out->fill = (uint8_t)value;
    else
        fault(r, "%s: fill is not 0 .. 255", where);
}

static void read_input(struct reader *r, const cJSON *object, int number)
{
    static const char *const known[] = {"name", "dtype", "shape", "preprocess",
                                        NULL};
    const char *name;
    struct graph_type type;
    const cJSON *pre;
    char where[SHOWN + 32];
    int value;

    snprintf(where, sizeof(where), "input %d", number);
    if (!cJSON_IsObject(object)) {
        fault(r, "%s: not an object", where);
        return;
    }
    check_members(r, object, where, known);
    name = need_string(r, object, "name", where);
    if (json_member(object, "dtype") == NULL)
        fault(r, "%s: 'dtype' is missing", where);
    if (!read_type(r, object, where, &type) || name == NULL)
        return;
    snprintf(where, sizeof(where), "input '%.*s'", SHOWN, name);
    value = graph_add_input(r->g, name, type.dtype, type.rank, type.dim);
    if (value == INFER_EMEMORY)
        out_of_memory(r);
    else if (value < 0)
        fault(r, "%s: stands twice, or is one of too many", where);
    pre = json_member(object, "preprocess");
    if (value >= 0 && pre != NULL)
        read_preprocess(r, pre, where, &r->g->preprocess[r->g->n_inputs - 1]);
}

static void read_weight(struct reader *r, const cJSON *object)
{
    static const char *const known[] = {"dtype", "shape", NULL};
    const char *name = object->string;
    struct graph_type type;
    char where[SHOWN + 32];
    int value, i;

    snprintf(where, sizeof(where), "weight '%.*s'", SHOWN, name);
    if (!cJSON_IsObject(object)) {
        fault(r, "%s: not an object", where);
        return;
    }
    check_members(r, object, where, known);
    if (!read_type(r, object, where, &type))
        return;
    value = graph_add_value(r->g, name);
    if (value == INFER_EMEMORY) {
        out_of_memory(r);
    } else if (value < 0) {
        fault(r, "%s: stands twice, or is an input", where);
    } else {
        r->g->value[value].dtype = type.dtype;
        r->g->value[value].rank = type.rank;
        for (i = 0; i < type.rank; i++)
            r->g->value[value].dim[i] = type.dim[i];
    }
}

static void read_weights(struct reader *r, const cJSON *weights)
{
    const cJSON *item;

    if (weights == NULL)
        return;
    if (!cJSON_IsObject(weights)) {
        fault(r, "graph: 'weights' is not an object");
        return;
    }
    cJSON_ArrayForEach(item, weights)
    {
        if (stopped(r))
            return;
        read_weight(r, item);
    }
}

/* ---- nodes --------------------------------------------------------- */

/* "node 'conv1'", or its number where it has no name. */
static void node_text(const cJSON *object, int number, char *text, size_t bytes)
{
    const char *name = json_string(object, "name");

    if (name != NULL)
        snprintf(text, bytes, "node '%.*s'", SHOWN, name);
    else
        snprintf(text, bytes, "node %d", number);
}

/* The first walk makes the values that nodes produce, so that the second can
 * tell them from weights. */
static void read_outputs_of(struct reader *r, const cJSON *object, int number)
{
    const cJSON *out, *item;
    char where[SHOWN + 32];

    node_text(object, number, where, sizeof(where));
    if (!cJSON_IsObject(object)) {
        fault(r, "%s: not an object", where);
        return;
    }
    out = need_array(r, object, "out", where);
    cJSON_ArrayForEach(item, out)
    {
        const char *name = cJSON_GetStringValue(item);
        int value;

        if (name == NULL || name[0] == '\0') {
            fault(r, "%s: an output is not a name", where);
            continue;
        }
        value = graph_add_value(r->g, name);
        if (value == INFER_EMEMORY) {
            out_of_memory(r);
            return;
        }
        if (value < 0)
            fault(r, "%s: '%.*s' is produced twice, or is an input or a weight",
                  where, SHOWN, name);
    }
}

/* Reads a list of names into *out (malloc()ed).  A name that is not there
 * becomes a weight where `weights`; null is -1 where `weights`.  Returns the
 * length, or -1 after a fault. */
static int read_names(struct reader *r, const cJSON *array, bool weights,
                      const char *where, int **out)
{
    int n = cJSON_GetArraySize(array), i = 0;
    const cJSON *item;

    *out = NULL;
    if (n > GRAPH_MAX_INPUTS) {
        fault(r, "%s: %d names, at most %d are supported", where, n,
              GRAPH_MAX_INPUTS);
        return -1;
    }
    *out = malloc((n > 0 ? (size_t)n : 1) * sizeof(**out));
    if (*out == NULL) {
        out_of_memory(r);
        return -1;
    }
    cJSON_ArrayForEach(item, array)
    {
        const char *name = cJSON_GetStringValue(item);
        int value = -1;

        if (!(weights && cJSON_IsNull(item)) &&
            (name == NULL || name[0] == '\0')) {
            fault(r, "%s: entry %d of a list is not a name", where, i);
            return -1;
        }
        if (name != NULL) {
            value = graph_find_value(r->g, name);
            if (value < 0 && weights)
                value = graph_add_value(r->g, name);
            if (value == INFER_EMEMORY) {
                out_of_memory(r);
                return -1;
            }
            if (value < 0) {
                fault(r, "%s: '%.*s' is produced by nothing", where, SHOWN,
                      name);
                return -1;
            }
        }
        (*out)[i++] = value;
    }
    return n;
}

/* Attributes, activation and residual_last. */
static void read_details(struct reader *r, const cJSON *object,
                         const char *where, struct graph_node *n)
{
    const cJSON *attr = json_member(object, "attr");
    const cJSON *act = json_member(object, "act");
    const cJSON *last = json_member(object, "residual_last");
    int rc = INFER_OK;

    if (attr != NULL && n->op == GRAPH_UNARY)
        rc = graph_act_read(attr, where, &n->attr.unary, r->err);
    else if (attr != NULL)
        rc = graph_fields_read(graph_op_info(n->op)->field, attr, NULL, where,
                               &n->attr, r->err);
    if (r->rc == INFER_OK)
        r->rc = rc;
    if (act != NULL) {
        rc = graph_act_read(act, where, &n->epilogue.act, r->err);
        if (r->rc == INFER_OK)
            r->rc = rc;
    }
    if (last != NULL && !cJSON_IsBool(last))
        fault(r, "%s: residual_last is not true or false", where);
    n->epilogue.residual_last = cJSON_IsTrue(last);
}

static void read_node(struct reader *r, const cJSON *object, int number)
{
    static const char *const known[] = {
        "name", "op", "in", "out", "attr", "act", "residual_last", NULL};
    const char *name, *op_name;
    enum graph_op op = GRAPH_NONE;
    int *in = NULL, *out = NULL, n_in = -1, n_out = -1, node;
    const cJSON *list;
    char where[SHOWN + 32], hint[160];

    if (!cJSON_IsObject(object))
        return; /* said already */
    node_text(object, number, where, sizeof(where));
    check_members(r, object, where, known);
    name = need_string(r, object, "name", where);
    op_name = need_string(r, object, "op", where);
    if (op_name != NULL) {
        op = graph_op_find(op_name);
        if (op == GRAPH_NONE)
            fault(r, "%s: operation '%.*s' is not known%s", where, SHOWN,
                  op_name, graph_op_hint(op_name, hint, sizeof(hint)));
    }
    list = need_array(r, object, "in", where);
    if (list != NULL)
        n_in = read_names(r, list, true, where, &in);
    /* Faults of this list are known from the first walk. */
    list = json_member(object, "out");
    if (r->rc == INFER_OK && cJSON_IsArray(list))
        n_out = read_names(r, list, false, where, &out);
    if (name != NULL && op != GRAPH_NONE && n_in >= 0 && n_out >= 0) {
        node = graph_add_node(r->g, op, name, in, n_in, out, n_out);
        if (node == INFER_EMEMORY)
            out_of_memory(r);
        else if (node < 0)
            fault(r, "%s: the name stands twice, or there is no output", where);
        else
            read_details(r, object, where, &r->g->node[node]);
    } else if (op != GRAPH_NONE && !stopped(r)) {
        /* The node cannot be made, but its attributes can be looked at. */
        struct graph_node spare = {.op = op,
                                   .attr = graph_op_info(op)->defaults};

        read_details(r, object, where, &spare);
    }
    free(in);
    free(out);
}

/* ---- the whole ----------------------------------------------------- */

static void read_labels(struct reader *r, const cJSON *labels)
{
    const cJSON *item;
    int n;

    if (labels == NULL)
        return;
    if (!cJSON_IsArray(labels)) {
        fault(r, "graph: 'labels' is not a list");
        return;
    }
    n = cJSON_GetArraySize(labels);
    r->g->label = calloc(n > 0 ? (size_t)n : 1, sizeof(*r->g->label));
    if (r->g->label == NULL) {
        out_of_memory(r);
        return;
    }
    cJSON_ArrayForEach(item, labels)
    {
        const char *text = cJSON_GetStringValue(item);

        if (text == NULL) {
            fault(r, "graph: label %d is not a string", r->g->n_labels);
            return;
        }
        r->g->label[r->g->n_labels] = strdup(text);
        if (r->g->label[r->g->n_labels] == NULL) {
            out_of_memory(r);
            return;
        }
        r->g->n_labels++;
    }
}

static void read_inputs(struct reader *r, const cJSON *json)
{
    const cJSON *inputs = need_array(r, json, "inputs", "graph"), *item;
    int i = 0;

    cJSON_ArrayForEach(item, inputs)
    {
        if (stopped(r))
            return;
        read_input(r, item, i++);
    }
}

static void read_nodes(struct reader *r, const cJSON *json)
{
    const cJSON *nodes = need_array(r, json, "nodes", "graph"), *item;
    int i = 0;

    if (cJSON_GetArraySize(nodes) > GRAPH_MAX_NODES) {
        fault(r, "graph: more nodes than the limit of %d", GRAPH_MAX_NODES);
        return;
    }
    cJSON_ArrayForEach(item, nodes)
    {
        if (stopped(r))
            return;
        read_outputs_of(r, item, i++);
    }
    i = 0;
    cJSON_ArrayForEach(item, nodes)
    {
        if (stopped(r))
            return;
        read_node(r, item, i++);
    }
}

static void read_outputs(struct reader *r, const cJSON *json)
{
    const cJSON *list = need_array(r, json, "outputs", "graph");
    int *output = NULL, n, i;

    if (list == NULL || stopped(r))
        return;
    /* An output may be a constant: a weight that no node has named. */
    n = read_names(r, list, true, "outputs", &output);
    for (i = 0; i < n; i++) {
        int rc = graph_add_output(r->g, output[i]);

        if (rc == INFER_EMEMORY)
            out_of_memory(r);
        else if (rc < 0)
            fault(r, "output %d is no name or stands twice", i);
    }
    free(output);
}

/* The version first: another one may mean anything. */
static int check_version(const cJSON *json, struct infer_error *err)
{
    int64_t version;

    if (!json_int64(json_member(json, "infer"), 1, INT32_MAX, &version))
        return error_set(err, INFER_EFORMAT,
                         "graph: 'infer' (the version) is missing or not a "
                         "positive integer");
    if (version > GRAPH_JSON_VERSION)
        return error_set(err, INFER_EUNSUPPORTED,
                         "graph: version %lld is newer than this library reads "
                         "(up to %d)",
                         (long long)version, GRAPH_JSON_VERSION);
    return INFER_OK;
}

/* A member of the graph that is a text, if it is there. */
static void read_text(struct reader *r, const cJSON *json, const char *member,
                      char **to)
{
    const cJSON *item = json_member(json, member);

    if (item == NULL)
        return;
    if (!cJSON_IsString(item)) {
        fault(r, "graph: '%s' is not a string", member);
        return;
    }
    free(*to);
    *to = strdup(item->valuestring);
    if (*to == NULL)
        out_of_memory(r);
}

static void read_graph(struct reader *r, const cJSON *json)
{
    static const char *const known[] = {"infer",  "name",    "inputs",
                                        "nodes",  "task",    "outputs",
                                        "labels", "weights", NULL};

    check_members(r, json, "graph", known);
    read_text(r, json, "name", &r->g->name);
    if (!stopped(r))
        read_text(r, json, "task", &r->g->task);
    if (stopped(r))
        return;
    read_inputs(r, json);
    if (!stopped(r))
        read_weights(r, json_member(json, "weights"));
    if (!stopped(r))
        read_nodes(r, json);
    if (!stopped(r))
        read_outputs(r, json);
    if (!stopped(r))
        read_labels(r, json_member(json, "labels"));
}

int graph_from_json(const struct cJSON *json, struct infer_error *err,
                    struct graph **out)
{
    struct reader r = {.err = err};

    error_clear(err);
    if (!cJSON_IsObject(json))
        return error_set(err, INFER_EFORMAT, "graph: not a JSON object");
    r.rc = check_version(json, err);
    if (r.rc < 0)
        return r.rc;
    r.g = graph_new();
    if (r.g == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    read_graph(&r, json);
    if (r.rc < 0) {
        graph_free(r.g);
        return r.rc;
    }
    *out = r.g;
    return INFER_OK;
}
