/* SPDX-License-Identifier: Apache-2.0 */
/* Keras: the model configuration, from JSON to layers and models (calls.c has
 * what connects them).  Nothing in it is ever evaluated. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/json.h"
#include "weights/keras/keras.h"

/* ---- memory -------------------------------------------------------- */

static void layer_clear(struct keras_layer *l)
{
    for (int v = 0; v < l->n_variables; v++)
        constant_unref(l->variable[v].data);
    for (int i = 0; i < l->n_inner; i++)
        layer_clear(&l->inner[i]);
    free(l->inner);
    keras_model_free(l->model);
    free(l->path);
}

void keras_model_free(struct keras_model *model)
{
    if (model == NULL)
        return;
    for (int i = 0; i < model->n_layers; i++)
        layer_clear(&model->layer[i]);
    for (int i = 0; i < model->n_calls; i++)
        free(model->call[i].in);
    free(model->layer);
    free(model->by_name);
    free(model->call);
    free(model->input);
    free(model->output);
    free(model);
}

int keras_no_memory(struct infer_error *err)
{
    return error_set(err, INFER_EMEMORY, "no memory for the configuration");
}

/* ---- parsing ------------------------------------------------------- */

struct parse {
    struct infer_error *err;
    int depth;
    int n_layers;     /* of all models together */
    bool unsupported; /* some class is; the report is in err */
};

struct named {
    const char *name;
    int index;
};

static int compare_named(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name,
                  ((const struct named *)b)->name);
}

static int sort_layers(struct keras_model *m, struct infer_error *err)
{
    const size_t n = (size_t)m->n_layers;
    struct named *list = calloc(n + 1, sizeof *list);
    int rc = 0;

    m->by_name = calloc(n + 1, sizeof *m->by_name);
    if (list == NULL || m->by_name == NULL) {
        free(list);
        return keras_no_memory(err);
    }
    for (size_t i = 0; i < n; i++)
        list[i] = (struct named){m->layer[i].name, (int)i};
    qsort(list, n, sizeof *list, compare_named);
    for (size_t i = 0; i < n; i++) {
        m->by_name[i] = list[i].index;
        if (i > 0 && strcmp(list[i - 1].name, list[i].name) == 0 && rc == 0)
            rc = error_set(err, INFER_EFORMAT, "two layers are called '%s'",
                           list[i].name);
    }
    free(list);
    return rc;
}

static int parse_model(struct parse *p, const cJSON *json, const char *path,
                       struct keras_model **out);

static char *join(const char *prefix, const char *name)
{
    const size_t a = strlen(prefix), b = strlen(name);
    char *s = malloc(a + b + 2);

    if (s == NULL)
        return NULL;
    snprintf(s, a + b + 2, "%s%s%s", prefix, a > 0 ? "/" : "", name);
    return s;
}

static void init_layer(struct keras_layer *l)
{
    memset(l, 0, sizeof *l);
    for (int i = 0; i < KERAS_MAX_VARIABLES; i++)
        l->weight[i] = -1;
}

static struct keras_layer *new_layer(struct keras_model *m)
{
    if (m->n_layers == m->layers_capacity) {
        const int wanted = m->layers_capacity ? 2 * m->layers_capacity : 16;
        void *grown = realloc(m->layer, (size_t)wanted * sizeof *m->layer);
        if (grown == NULL)
            return NULL;
        m->layer = grown;
        m->layers_capacity = wanted;
    }
    struct keras_layer *l = &m->layer[m->n_layers++];
    init_layer(l);
    return l;
}

static int fill_layer(struct parse *p, struct keras_layer *l, int number,
                      const cJSON *json, const char *path);

/* The layers that a layer holds: TimeDistributed and others one, Bidirectional
 * two, of which the second may be told by the first. */
static int parse_inner(struct parse *p, struct keras_layer *l)
{
    const bool two = l->class->emit == keras_bidirectional;
    const cJSON *json = json_member(l->config, "layer"), *second;
    int rc = 0;

    if (!two && l->class->emit != keras_time_distributed &&
        l->class->emit != keras_spectral)
        return 0;
    if (p->depth == KERAS_MAX_DEPTH)
        return error_set(p->err, INFER_EUNSUPPORTED,
                         "layers inside layers deeper than %d",
                         KERAS_MAX_DEPTH);
    l->inner = calloc(KERAS_MAX_INNER, sizeof *l->inner);
    if (l->inner == NULL)
        return keras_no_memory(p->err);
    l->n_inner = two ? 2 : 1;
    p->depth++;
    rc = fill_layer(p, &l->inner[0], 0, json, l->path);
    l->inner[0].group = two ? "forward_layer" : "layer";
    if (two && rc == 0) {
        second = json_member(l->config, "backward_layer");
        if (!cJSON_IsObject(second))
            second = json;
        rc = fill_layer(p, &l->inner[1], 1, second, l->path);
        l->inner[1].group = "backward_layer";
    }
    p->depth--;
    return rc;
}

/* {"class_name": "Conv2D", "config": {"name": ..., ...}, ...} */
static int fill_layer(struct parse *p, struct keras_layer *l, int number,
                      const cJSON *json, const char *path)
{
    const char *class_name = json_string(json, "class_name");
    const cJSON *config = json_member(json, "config");
    const char *name = json_string(config, "name");

    if (name == NULL)
        name = json_string(json, "name");
    if (name == NULL && class_name != NULL && keras_is_model(class_name))
        name = class_name; /* Keras 1: the configuration is a bare list */
    if (class_name == NULL || config == NULL || name == NULL || *name == '\0')
        return error_set(p->err, INFER_EFORMAT,
                         "layer %d of the model has no class, name or "
                         "configuration",
                         number);
    if (++p->n_layers > KERAS_MAX_LAYERS)
        return error_set(p->err, INFER_EUNSUPPORTED, "more than %d layers",
                         KERAS_MAX_LAYERS);
    init_layer(l);
    l->name = name;
    l->class_name = class_name;
    l->config = config;
    l->trainable = json_bool(config, "trainable", true);
    l->path = join(path, name);
    if (l->path == NULL)
        return keras_no_memory(p->err);
    if (keras_report_class(json, class_name, l->path, p->err)) {
        p->unsupported = true;
        return 0;
    }
    l->class = keras_class_of(config, class_name);
    if (!keras_is_model(class_name))
        return parse_inner(p, l);
    struct keras_model *inner;
    const int rc = parse_model(p, json, l->path, &inner);
    if (rc == 0)
        l->model = inner;
    return rc;
}

static int parse_layer(struct parse *p, struct keras_model *m,
                       const cJSON *json, const char *path)
{
    struct keras_layer *l = new_layer(m);

    return l == NULL ? keras_no_memory(p->err)
                     : fill_layer(p, l, m->n_layers - 1, json, path);
}

static int parse_functional(struct parse *p, struct keras_model *m,
                            const cJSON *layers)
{
    const cJSON *inputs = json_member(m->config, "input_layers");
    const cJSON *outputs = json_member(m->config, "output_layers");
    int rc = sort_layers(m, p->err), i = 0;

    for (const cJSON *c = layers->child; c != NULL && rc == 0; c = c->next)
        rc = keras_parse_calls(m, i++, json_member(c, "inbound_nodes"), p->err);
    if (rc == 0)
        rc = keras_parse_references(m, inputs, p->err, &m->input, &m->n_inputs);
    if (rc == 0)
        rc = keras_parse_references(m, outputs, p->err, &m->output,
                                    &m->n_outputs);
    if (rc == 0 && (m->n_inputs == 0 || m->n_outputs == 0))
        rc = error_set(p->err, INFER_EFORMAT,
                       "model '%s' has no inputs or no outputs", m->name);
    return rc < 0 ? rc : keras_check_references(m, p->err);
}

/* A chain: each layer takes the one before. */
static int parse_sequential(struct parse *p, struct keras_model *m)
{
    int rc = sort_layers(m, p->err);

    for (int i = 0; i < m->n_layers && rc == 0; i++) {
        struct keras_layer *l = &m->layer[i];
        struct keras_call *call = keras_new_call(m, i);
        if (call == NULL)
            return keras_no_memory(p->err);
        l->first_call = i;
        l->n_calls = 1;
        if (i > 0 && l->class != NULL && l->class->emit == NULL)
            rc = error_set(p->err, INFER_EFORMAT,
                           "model '%s': an input layer after the first",
                           m->name);
        else if (i > 0)
            rc = keras_add_reference(&call->in, &call->n_in,
                                     (struct keras_reference){.layer = i - 1},
                                     p->err);
    }
    if (rc == 0 && m->n_layers == 0)
        rc = error_set(p->err, INFER_EFORMAT, "model '%s' has no layers",
                       m->name);
    if (rc == 0)
        rc = keras_add_reference(
            &m->output, &m->n_outputs,
            (struct keras_reference){.layer = m->n_layers - 1}, p->err);
    return rc;
}

static int parse_model(struct parse *p, const cJSON *json, const char *path,
                       struct keras_model **out)
{
    const char *class_name = json_string(json, "class_name");
    const cJSON *config = json_member(json, "config");
    const cJSON *layers =
        cJSON_IsArray(config) ? config : json_member(config, "layers");
    const char *name = json_string(config, "name");
    int rc = 0;

    if (p->depth == KERAS_MAX_DEPTH)
        return error_set(p->err, INFER_EUNSUPPORTED,
                         "models inside models deeper than %d",
                         KERAS_MAX_DEPTH);
    if (!cJSON_IsArray(layers))
        return error_set(p->err, INFER_EFORMAT,
                         "model '%s' has no list of layers",
                         name ? name : class_name);
    struct keras_model *m = calloc(1, sizeof *m);
    if (m == NULL)
        return keras_no_memory(p->err);
    m->name = name ? name : "model";
    m->class_name = class_name;
    m->config = config;
    m->sequential = strcmp(class_name, "Sequential") == 0;
    p->depth++;
    for (const cJSON *c = layers->child; c != NULL && rc == 0; c = c->next)
        rc = parse_layer(p, m, c, path);
    /* With unknown classes the connections do not matter any more. */
    if (rc == 0 && !p->unsupported)
        rc = m->sequential ? parse_sequential(p, m)
                           : parse_functional(p, m, layers);
    p->depth--;
    if (rc < 0) {
        keras_model_free(m);
        return rc;
    }
    *out = m;
    return 0;
}

int keras_model_parse(const cJSON *json, struct infer_error *err,
                      struct keras_model **out)
{
    struct parse p = {.err = err};
    const char *class_name = json_string(json, "class_name");
    struct keras_model *m;

    error_clear(err);
    if (class_name == NULL)
        return error_set(err, INFER_EFORMAT,
                         "the configuration names no class");
    if (!keras_is_model(class_name) || !keras_is_own(json, class_name))
        return error_set(err, INFER_EUNSUPPORTED,
                         "the model is of class %s; Sequential and Functional "
                         "models are supported",
                         class_name);
    const int rc = parse_model(&p, json, "", &m);
    if (rc < 0)
        return rc;
    if (p.unsupported) {
        keras_model_free(m);
        return INFER_EUNSUPPORTED;
    }
    *out = m;
    return 0;
}
