/* SPDX-License-Identifier: Apache-2.0 */
/* A graph as JSON.  The format is in model_file.h. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/json.h"
#include "libinfer/graph/graph_fields.h"
#include "libinfer/graph/graph_json.h"

static const char *const policies[] = {"exact", "shorter", "letterbox", "none",
                                       NULL};
static const char *const colors[] = {"rgb", "bgr", "gray", NULL};
static const char *const filters[] = {"bilinear", "nearest", "bicubic", NULL};

#define PRE_AT(member) offsetof(struct graph_preprocess, member)

const struct graph_field graph_preprocess_fields[] = {
    {.name = "policy",
     .type = GRAPH_FIELD_ENUM,
     .offset = PRE_AT(policy),
     .names = policies},
    {.name = "resize", .type = GRAPH_FIELD_INT, .offset = PRE_AT(resize)},
    {.name = "filter",
     .type = GRAPH_FIELD_ENUM,
     .offset = PRE_AT(filter),
     .names = filters},
    {.name = "color",
     .type = GRAPH_FIELD_ENUM,
     .offset = PRE_AT(color),
     .names = colors},
    {.name = "scale", .type = GRAPH_FIELD_FLOAT, .offset = PRE_AT(scale)},
    {.name = "mean",
     .type = GRAPH_FIELD_FLOATS,
     .offset = PRE_AT(mean),
     .count = 4},
    {.name = "std",
     .type = GRAPH_FIELD_FLOATS,
     .offset = PRE_AT(std),
     .count = 4},
    {.name = NULL},
};

struct graph_preprocess graph_preprocess_default(void)
{
    return (struct graph_preprocess){
        .present = true,
        .scale = 1,
        .std = {1, 1, 1, 1},
    };
}

/* Takes item over, also on failure; the key is not copied. */
static bool put(cJSON *object, const char *key, cJSON *item)
{
    if (cJSON_AddItemToObjectCS(object, key, item))
        return true;
    cJSON_Delete(item);
    return false;
}

static cJSON *shape_to_json(const struct graph_value *v)
{
    cJSON *shape = cJSON_CreateArray();
    int i;

    for (i = 0; shape != NULL && i < v->rank; i++)
        if (!json_append(shape, cJSON_CreateNumber((double)v->dim[i]))) {
            cJSON_Delete(shape);
            return NULL;
        }
    return shape;
}

/* dtype and shape, where they are known. */
static bool put_type(cJSON *object, const struct graph_value *v)
{
    if (v->dtype != INFER_NONE &&
        !put(object, "dtype", cJSON_CreateString(infer_dtype_name(v->dtype))))
        return false;
    return v->rank < 0 || put(object, "shape", shape_to_json(v));
}

static cJSON *preprocess_to_json(const struct graph_preprocess *p)
{
    struct graph_preprocess defaults = graph_preprocess_default();
    cJSON *object = cJSON_CreateObject();

    if (object == NULL ||
        !graph_fields_write(graph_preprocess_fields, p, &defaults, -1,
                            object) ||
        (p->fill != 0 &&
         !put(object, "fill", cJSON_CreateNumber((double)p->fill)))) {
        cJSON_Delete(object);
        return NULL;
    }
    return object;
}

static cJSON *input_to_json(const struct graph *g, int i)
{
    const struct graph_value *v = &g->value[g->input[i]];
    cJSON *object = cJSON_CreateObject();

    if (object == NULL || !put(object, "name", cJSON_CreateString(v->name)) ||
        !put_type(object, v) ||
        (g->preprocess[i].present &&
         !put(object, "preprocess", preprocess_to_json(&g->preprocess[i])))) {
        cJSON_Delete(object);
        return NULL;
    }
    return object;
}

/* ---- nodes --------------------------------------------------------- */

/* Names of values; null for an absent input. */
static cJSON *names_to_json(const struct graph *g, const int *value, int n)
{
    cJSON *array = cJSON_CreateArray();
    int i;

    for (i = 0; array != NULL && i < n; i++)
        if (!json_append(array, value[i] < 0 ? cJSON_CreateNull()
                                             : cJSON_CreateString(
                                                   g->value[value[i]].name))) {
            cJSON_Delete(array);
            return NULL;
        }
    return array;
}

/* Attributes that differ from their defaults, if any. */
static bool put_attr(cJSON *object, const struct graph *g,
                     const struct graph_node *n)
{
    int rank = n->n_in > 0 && n->in[0] >= 0 ? g->value[n->in[0]].rank : -1;
    cJSON *attr = cJSON_CreateObject();
    union graph_attr defaults;

    graph_fields_defaults(n->op, &n->attr, &defaults);
    /* The kind of a function must be read before its constants make sense. */
    if (attr == NULL ||
        (n->op == GRAPH_UNARY && n->attr.unary.kind != KERN_IDENTITY &&
         !put(attr, "kind",
              cJSON_CreateString(kern_unary_names[n->attr.unary.kind]))) ||
        !graph_fields_write(graph_op_info(n->op)->field, &n->attr, &defaults,
                            rank, attr)) {
        cJSON_Delete(attr);
        return false;
    }
    if (attr->child != NULL)
        return put(object, "attr", attr);
    cJSON_Delete(attr);
    return true;
}

static bool put_act(cJSON *object, const struct kern_unary *act)
{
    struct kern_unary defaults = graph_unary(act->kind);
    cJSON *item;

    if (act->kind == KERN_IDENTITY)
        return true;
    item = cJSON_CreateObject();
    if (item == NULL ||
        !put(item, "kind", cJSON_CreateString(kern_unary_names[act->kind])) ||
        !graph_fields_write(graph_act_fields, act, &defaults, -1, item)) {
        cJSON_Delete(item);
        return false;
    }
    return put(object, "act", item);
}

static cJSON *node_to_json(const struct graph *g, const struct graph_node *n)
{
    cJSON *object = cJSON_CreateObject();

    if (object == NULL || !put(object, "name", cJSON_CreateString(n->name)) ||
        !put(object, "op", cJSON_CreateString(graph_op_info(n->op)->name)) ||
        !put(object, "in", names_to_json(g, n->in, n->n_in)) ||
        !put(object, "out", names_to_json(g, n->out, n->n_out)) ||
        !put_attr(object, g, n) || !put_act(object, &n->epilogue.act) ||
        (n->epilogue.residual_last &&
         !put(object, "residual_last", cJSON_CreateTrue()))) {
        cJSON_Delete(object);
        return NULL;
    }
    return object;
}

/* ---- the whole ----------------------------------------------------- */

static cJSON *inputs_to_json(const struct graph *g)
{
    cJSON *array = cJSON_CreateArray();
    int i;

    for (i = 0; array != NULL && i < g->n_inputs; i++)
        if (!json_append(array, input_to_json(g, i))) {
            cJSON_Delete(array);
            return NULL;
        }
    return array;
}

static cJSON *nodes_to_json(const struct graph *g)
{
    cJSON *array = cJSON_CreateArray();
    int i;

    for (i = 0; array != NULL && i < g->n_nodes; i++)
        if (g->node[i].op != GRAPH_NONE &&
            !json_append(array, node_to_json(g, &g->node[i]))) {
            cJSON_Delete(array);
            return NULL;
        }
    return array;
}

static cJSON *labels_to_json(const struct graph *g)
{
    cJSON *array = cJSON_CreateArray();
    int i;

    for (i = 0; array != NULL && i < g->n_labels; i++)
        if (!json_append(array, cJSON_CreateString(g->label[i]))) {
            cJSON_Delete(array);
            return NULL;
        }
    return array;
}

static bool put_weight(cJSON *weights, const struct graph_value *v)
{
    cJSON *object = cJSON_CreateObject();

    if (object != NULL && put_type(object, v) &&
        cJSON_AddItemToObject(weights, v->name, object))
        return true;
    cJSON_Delete(object);
    return false;
}

/* The weights that have a shape but no data yet, an architecture's, or `all`.
 */
static bool put_weights(cJSON *json, const struct graph *g, bool all)
{
    size_t values = g->n_values > 0 ? (size_t)g->n_values : 1;
    unsigned char *given = calloc(values, 1);
    cJSON *weights = cJSON_CreateObject();
    bool ok = given != NULL && weights != NULL;
    int i;

    for (i = 0; ok && i < g->n_inputs; i++)
        given[g->input[i]] = 1;
    for (i = 0; ok && i < g->n_values; i++) {
        const struct graph_value *v = &g->value[i];

        if (v->name != NULL && v->producer < 0 && (all || v->data == NULL) &&
            !given[i] && v->rank >= 0)
            ok = put_weight(weights, v);
    }
    free(given);
    if (!ok || weights->child == NULL) {
        cJSON_Delete(weights);
        return ok;
    }
    return put(json, "weights", weights);
}

static struct cJSON *to_json(const struct graph *g, bool all)
{
    cJSON *json = cJSON_CreateObject();

    if (json == NULL ||
        !put(json, "infer", cJSON_CreateNumber(GRAPH_JSON_VERSION)) ||
        (g->name[0] != '\0' &&
         !put(json, "name", cJSON_CreateString(g->name))) ||
        !put(json, "inputs", inputs_to_json(g)) ||
        !put(json, "nodes", nodes_to_json(g)) ||
        !put(json, "outputs", names_to_json(g, g->output, g->n_outputs)) ||
        (g->task != NULL && !put(json, "task", cJSON_CreateString(g->task))) ||
        (g->n_labels > 0 && !put(json, "labels", labels_to_json(g))) ||
        !put_weights(json, g, all)) {
        cJSON_Delete(json);
        return NULL;
    }
    return json;
}

struct cJSON *graph_to_json(const struct graph *g)
{
    return to_json(g, false);
}

struct cJSON *graph_to_architecture(const struct graph *g)
{
    return to_json(g, true);
}
