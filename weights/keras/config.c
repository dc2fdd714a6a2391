/* SPDX-License-Identifier: Apache-2.0 */
/* Keras: the model configuration, from JSON to layers and calls.
 *
 * Classes are known by class_name through an allow-list; "module" and
 * "registered_name" are only looked at to refuse what is not Keras' own, and
 * nothing in the configuration is ever evaluated. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/json.h"
#include "weights/keras/keras.h"

/* ---- classes ------------------------------------------------------- */

static const struct keras_class classes[] = {
#define NONE              NULL
#define KERAS_INPUT(name) {name, 0, 0, false, NULL, NULL},
#define KERAS_LAYER(name, max_in, arg, variables, emit)                        \
    {name, max_in, arg, false, variables, emit},
#define KERAS_FUNCTION(name, max_in, arg, emit)                                \
    {name, max_in, arg, true, NULL, emit},
#include "weights/keras/layers.def"
#undef KERAS_LAYER
#undef KERAS_FUNCTION
#undef KERAS_INPUT
#undef NONE
};

const struct keras_class *keras_class_find(const char *name)
{
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (strcmp(classes[i].name, name) == 0)
            return &classes[i];
    return NULL;
}

bool keras_is_model(const char *class_name)
{
    return strcmp(class_name, "Sequential") == 0 ||
           strcmp(class_name, "Functional") == 0 ||
           strcmp(class_name, "Model") == 0;
}

/* True for what Keras' own classes state: module null or keras..., registered
 * name null or the class itself. */
static bool is_own(const cJSON *layer, const char *class_name)
{
    static const char *const modules[] = {
        "keras", "tf_keras", "tensorflow.python.keras", "tensorflow.keras"};
    const char *module = json_string(layer, "module");
    const char *registered = json_string(layer, "registered_name");

    if (registered != NULL && strcmp(registered, class_name) != 0)
        return false;
    if (module == NULL)
        return true;
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
        const size_t n = strlen(modules[i]);
        if (strncmp(module, modules[i], n) == 0 &&
            (module[n] == '\0' || module[n] == '.'))
            return true;
    }
    return false;
}

/* Two functions of keras.ops have the class name of a layer; .h5 does not say
 * whose module it is, but their configurations differ. */
static const struct keras_class *find_class(const cJSON *config,
                                            const char *class_name)
{
    if (strcmp(class_name, "Dot") == 0 && !json_member(config, "axes"))
        class_name = "ops.Dot";
    else if (strcmp(class_name, "Average") == 0 && json_member(config, "axis"))
        class_name = "ops.Average";
    return keras_class_find(class_name);
}

/* True where the file says that this is a function of keras.ops: by its module,
 * or by a call as only Keras 3 writes it.  Else a layer of the user's own may
 * have the function's name: Keras 1 and 2 do not state modules. */
static bool is_function(const cJSON *layer)
{
    static const char *const modules[] = {"keras.src.ops", "keras.ops"};
    const char *module = json_string(layer, "module");
    const cJSON *calls = json_member(layer, "inbound_nodes");

    for (size_t i = 0; module && i < sizeof modules / sizeof *modules; i++)
        if (strncmp(module, modules[i], strlen(modules[i])) == 0)
            return true;
    return cJSON_IsArray(calls) && json_member(calls->child, "args") != NULL;
}

static bool is_supported(const cJSON *layer, const char *class_name)
{
    const struct keras_class *class =
        find_class(json_member(layer, "config"), class_name);

    return class != NULL && (!class->function || is_function(layer));
}

/* One line of the report, or false where the layer is fine. */
static bool report_unsupported(const cJSON *layer, const char *class_name,
                               const char *name, struct infer_error *err)
{
    if (!is_own(layer, class_name))
        error_add(err, INFER_EUNSUPPORTED,
                  "layer '%s': custom class %s; only Keras' own layers are "
                  "supported",
                  name, class_name);
    else if (strcmp(class_name, "Lambda") == 0)
        error_add(err, INFER_EUNSUPPORTED,
                  "layer '%s': Lambda holds Python code, which is never run",
                  name);
    else if (!keras_is_model(class_name) && !is_supported(layer, class_name))
        error_add(err, INFER_EUNSUPPORTED,
                  "layer '%s': class %s is not supported", name, class_name);
    else
        return false;
    return true;
}

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

static int no_memory(struct infer_error *err)
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

/* References are kept by name until all layers are known. */
static int find_layer(const struct keras_model *m, const char *name)
{
    int low = 0, high = m->n_layers;

    while (low < high) {
        const int mid = low + (high - low) / 2;
        const int order = strcmp(name, m->layer[m->by_name[mid]].name);
        if (order == 0)
            return m->by_name[mid];
        if (order < 0)
            high = mid;
        else
            low = mid + 1;
    }
    return -1;
}

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
        return no_memory(err);
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
        return no_memory(p->err);
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
        return no_memory(p->err);
    if (report_unsupported(json, class_name, l->path, p->err)) {
        p->unsupported = true;
        return 0;
    }
    l->class = find_class(config, class_name);
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

    return l == NULL ? no_memory(p->err)
                     : fill_layer(p, l, m->n_layers - 1, json, path);
}

static struct keras_call *new_call(struct keras_model *m, int layer)
{
    if (m->n_calls == m->calls_capacity) {
        const int wanted = m->calls_capacity ? 2 * m->calls_capacity : 16;
        void *grown = realloc(m->call, (size_t)wanted * sizeof *m->call);
        if (grown == NULL)
            return NULL;
        m->call = grown;
        m->calls_capacity = wanted;
    }
    struct keras_call *c = &m->call[m->n_calls++];
    memset(c, 0, sizeof *c);
    c->layer = layer;
    c->number_at = -1;
    return c;
}

/* ---- references ---------------------------------------------------- */

/* ["name", node, tensor, ...] */
static int parse_reference(const struct keras_model *m, const cJSON *json,
                           struct infer_error *err, struct keras_reference *out)
{
    const cJSON *name = cJSON_IsArray(json) ? json->child : NULL;
    const cJSON *node = name ? name->next : NULL;
    const cJSON *tensor = node ? node->next : NULL;
    int64_t n = 0, t = 0;

    if (!cJSON_IsString(name) || !json_int64(node, 0, 1000000, &n) ||
        !json_int64(tensor, 0, 1000000, &t))
        return error_set(err, INFER_EFORMAT,
                         "model '%s': a connection is not [layer, node, "
                         "tensor]",
                         m->name);
    out->word = NULL;
    out->array = NULL;
    out->layer = find_layer(m, name->valuestring);
    out->node = (int)n;
    out->tensor = (int)t;
    if (out->layer < 0)
        return error_set(err, INFER_EFORMAT,
                         "model '%s': no layer is called '%s'", m->name,
                         name->valuestring);
    return 0;
}

static int add_reference(struct keras_reference **list, int *n,
                         struct keras_reference r, struct infer_error *err)
{
    /* Doubled at powers of two, so that the capacity need not be stored. */
    if ((*n & (*n - 1)) == 0) {
        void *grown = realloc(*list, (*n ? 2 * (size_t)*n : 1) * sizeof **list);
        if (grown == NULL)
            return no_memory(err);
        *list = grown;
    }
    (*list)[(*n)++] = r;
    return 0;
}

/* One reference, a list, a dictionary, or any nesting of those. */
static int parse_references(const struct keras_model *m, const cJSON *json,
                            struct infer_error *err,
                            struct keras_reference **list, int *n)
{
    struct keras_reference r;
    int rc = 0;

    if (cJSON_IsArray(json) && cJSON_IsString(json->child)) {
        rc = parse_reference(m, json, err, &r);
        return rc < 0 ? rc : add_reference(list, n, r, err);
    }
    if (!cJSON_IsArray(json) && !cJSON_IsObject(json))
        return error_set(err, INFER_EFORMAT,
                         "model '%s': inputs or outputs are not lists of "
                         "connections",
                         m->name);
    for (const cJSON *c = json->child; c != NULL && rc == 0; c = c->next)
        rc = parse_references(m, c, err, list, n);
    return rc;
}

/* Keras 3: tensors stand anywhere in the arguments of a call, as
 * {"class_name": "__keras_tensor__", "config": {"keras_history": [...]}}. */
/* Layers whose tensors may be given by name. */
static bool takes_words(const struct keras_layer *l)
{
    static keras_emit_fn *const takers[] = {keras_recurrent,
                                            keras_bidirectional,
                                            keras_multi_head, keras_attention};

    for (size_t i = 0; l->class && i < sizeof takers / sizeof *takers; i++)
        if (l->class->emit == takers[i])
            return true;
    return false;
}

static bool takes_number(const struct keras_layer *l)
{
    return l->class != NULL &&
           (l->class->emit == keras_merge || l->class->emit == keras_compare ||
            l->class->emit == keras_where ||
            l->class->emit == keras_number_max ||
            l->class->emit == keras_pair_function);
}

/* Layers that read all arguments but the first themselves, unless the second
 * one is a tensor. */
static bool takes_first(const struct keras_layer *l, const cJSON *args)
{
    static keras_emit_fn *const takers[] = {
        keras_get_item, keras_take, keras_quantile, keras_slice_function};
    const cJSON *second = args->child ? args->child->next : NULL;
    const char *word = json_string(second, "class_name");

    for (size_t i = 0; l->class && i < sizeof takers / sizeof *takers; i++)
        if (l->class->emit == takers[i])
            return word == NULL || strcmp(word, "__keras_tensor__") != 0;
    return false;
}

/* word: the argument's name, where it is given by name. */
static int parse_arguments(const struct keras_model *m,
                           const struct keras_layer *l, const cJSON *json,
                           const char *word, struct infer_error *err,
                           struct keras_call *call)
{
    const bool keyword = word != NULL;
    const char *class_name = json_string(json, "class_name");
    int rc = 0;

    if (class_name != NULL && strcmp(class_name, "__keras_tensor__") == 0) {
        struct keras_reference r;
        const cJSON *history =
            json_member(json_member(json, "config"), "keras_history");
        if (keyword && !takes_words(l))
            return error_set(err, INFER_EUNSUPPORTED,
                             "layer '%s': a tensor as keyword argument '%s'",
                             l->path, word);
        rc = parse_reference(m, history, err, &r);
        r.word = word;
        return rc < 0 ? rc : add_reference(&call->in, &call->n_in, r, err);
    }
    if (!keyword && class_name &&
        (strcmp(class_name, "__numpy__") == 0 ||
         strcmp(class_name, "__tensor__") == 0)) {
        const struct keras_reference r = {.layer = -1,
                                          .array = json_member(json, "config")};

        /* Without an array it would be output 0 of layer -1. */
        if (json_member(r.array, "value") == NULL)
            return error_set(err, INFER_EFORMAT,
                             "layer '%s': an array among its arguments has no "
                             "value",
                             l->path);
        return add_reference(&call->in, &call->n_in, r, err);
    }
    if (cJSON_IsArray(json) || cJSON_IsObject(json)) {
        for (const cJSON *c = json->child; c != NULL && rc == 0; c = c->next)
            rc = parse_arguments(m, l, c, word, err, call);
        return rc;
    }
    if (keyword || cJSON_IsNull(json))
        return 0; /* "training": false and the like */
    if (cJSON_IsNumber(json) && takes_number(l) && call->number_at < 0 &&
        call->n_in < 3) {
        call->number_at = call->n_in;
        call->number = json->valuedouble;
        return 0;
    }
    return error_set(err, INFER_EUNSUPPORTED,
                     "layer '%s': an argument of its call is no tensor",
                     l->path);
}

/* The tensors among the keywords of a call: [name, node, tensor], or lists of
 * those. */
static int parse_old_words(const struct keras_model *m,
                           const struct keras_layer *l, const cJSON *json,
                           const char *word, struct infer_error *err,
                           struct keras_call *call)
{
    int rc = 0;

    if (cJSON_IsArray(json) && cJSON_IsString(json->child) &&
        cJSON_IsNumber(json->child->next) &&
        find_layer(m, json->child->valuestring) >= 0) {
        struct keras_reference r;

        if (!takes_words(l))
            return error_set(err, INFER_EUNSUPPORTED,
                             "layer '%s': a tensor as keyword argument '%s'",
                             l->path, word);
        rc = parse_reference(m, json, err, &r);
        r.word = word;
        return rc < 0 ? rc : add_reference(&call->in, &call->n_in, r, err);
    }
    for (const cJSON *c =
             cJSON_IsArray(json) || cJSON_IsObject(json) ? json->child : NULL;
         c != NULL && rc == 0; c = c->next)
        rc = parse_old_words(m, l, c, c->string ? c->string : word, err, call);
    return rc;
}

/* Keras 1 and 2: a call is a list of [name, node, tensor, {keywords}]. */
static int parse_old_call(const struct keras_model *m,
                          const struct keras_layer *l, const cJSON *json,
                          struct infer_error *err, struct keras_call *call)
{
    int rc = 0;

    if (cJSON_IsString(json->child)) { /* one input, not in a list */
        struct keras_reference r;
        rc = parse_reference(m, json, err, &r);
        return rc < 0 ? rc : add_reference(&call->in, &call->n_in, r, err);
    }
    for (const cJSON *c = json->child; c != NULL && rc == 0; c = c->next) {
        struct keras_reference r;
        const cJSON *words = cJSON_GetArrayItem(c, 3);

        rc = parse_reference(m, c, err, &r);
        if (rc == 0)
            rc = add_reference(&call->in, &call->n_in, r, err);
        if (rc == 0 && cJSON_IsObject(words)) {
            call->kwargs = words;
            rc = parse_old_words(m, l, words, "", err, call);
        }
    }
    return rc;
}

static int parse_calls(struct keras_model *m, int layer, const cJSON *inbound,
                       struct infer_error *err)
{
    struct keras_layer *l = &m->layer[layer];
    int rc = 0;

    l->first_call = m->n_calls;
    if (l->class != NULL && l->class->emit == NULL) {
        /* An input layer is one call without inputs. */
        if (new_call(m, layer) == NULL)
            return no_memory(err);
        l->n_calls = 1;
        return 0;
    }
    if (inbound != NULL && !cJSON_IsArray(inbound))
        return error_set(err, INFER_EFORMAT,
                         "layer '%s': inbound_nodes is no list", l->path);
    for (const cJSON *c = inbound ? inbound->child : NULL; c != NULL && rc == 0;
         c = c->next) {
        struct keras_call *call = new_call(m, layer);
        if (call == NULL)
            return no_memory(err);
        l->n_calls++;
        const cJSON *args = json_member(c, "args");
        const cJSON *kwargs = json_member(c, "kwargs");
        if (args != NULL) {
            const bool indexed = takes_first(l, args);

            call->args = args;
            call->kwargs = kwargs;
            /* What stands in the brackets of x[...] is no tensor. */
            rc = parse_arguments(m, l, indexed ? args->child : args, NULL, err,
                                 call);
            for (const cJSON *a = kwargs ? kwargs->child : NULL;
                 a != NULL && rc == 0; a = a->next)
                rc = parse_arguments(m, l, a, a->string ? a->string : "", err,
                                     call);
        } else if (cJSON_IsArray(c)) {
            rc = parse_old_call(m, l, c, err, call);
        } else {
            rc = error_set(err, INFER_EFORMAT, "layer '%s': a call is no list",
                           l->path);
        }
    }
    return rc;
}

/* A model inside a model counts its calls from 1 where it was made by
 * connecting layers (its own making is call 0), else from 0.  Which it is
 * shows in the highest number that is used. */
static int check_reference(struct keras_model *m,
                           const struct keras_reference *r,
                           struct infer_error *err)
{
    struct keras_layer *l = &m->layer[r->layer];

    if (l->model != NULL && r->node == l->n_calls)
        l->node_offset = 1;
    else if (r->node >= l->n_calls)
        return error_set(err, INFER_EFORMAT,
                         "layer '%s' is called %d times, call %d is used",
                         l->path, l->n_calls, r->node);
    return 0;
}

static int check_references(struct keras_model *m, struct infer_error *err)
{
    int rc = 0;

    for (int i = 0; i < m->n_calls && rc == 0; i++)
        for (int k = 0; k < m->call[i].n_in && rc == 0; k++)
            rc = m->call[i].in[k].array
                     ? 0
                     : check_reference(m, &m->call[i].in[k], err);
    for (int i = 0; i < m->n_outputs && rc == 0; i++)
        rc = check_reference(m, &m->output[i], err);
    for (int i = 0; i < m->n_inputs && rc == 0; i++) {
        const struct keras_layer *l = &m->layer[m->input[i].layer];
        if (l->class == NULL || l->class->emit != NULL)
            rc = error_set(err, INFER_EFORMAT,
                           "model '%s': its input '%s' is no input layer",
                           m->name, l->path);
    }
    return rc;
}

static int parse_functional(struct parse *p, struct keras_model *m,
                            const cJSON *layers)
{
    const cJSON *inputs = json_member(m->config, "input_layers");
    const cJSON *outputs = json_member(m->config, "output_layers");
    int rc = sort_layers(m, p->err), i = 0;

    for (const cJSON *c = layers->child; c != NULL && rc == 0; c = c->next)
        rc = parse_calls(m, i++, json_member(c, "inbound_nodes"), p->err);
    if (rc == 0)
        rc = parse_references(m, inputs, p->err, &m->input, &m->n_inputs);
    if (rc == 0)
        rc = parse_references(m, outputs, p->err, &m->output, &m->n_outputs);
    if (rc == 0 && (m->n_inputs == 0 || m->n_outputs == 0))
        rc = error_set(p->err, INFER_EFORMAT,
                       "model '%s' has no inputs or no outputs", m->name);
    return rc < 0 ? rc : check_references(m, p->err);
}

/* A chain: each layer takes the one before. */
static int parse_sequential(struct parse *p, struct keras_model *m)
{
    int rc = sort_layers(m, p->err);

    for (int i = 0; i < m->n_layers && rc == 0; i++) {
        struct keras_layer *l = &m->layer[i];
        struct keras_call *call = new_call(m, i);
        if (call == NULL)
            return no_memory(p->err);
        l->first_call = i;
        l->n_calls = 1;
        if (i > 0 && l->class != NULL && l->class->emit == NULL)
            rc = error_set(p->err, INFER_EFORMAT,
                           "model '%s': an input layer after the first",
                           m->name);
        else if (i > 0)
            rc =
                add_reference(&call->in, &call->n_in,
                              (struct keras_reference){.layer = i - 1}, p->err);
    }
    if (rc == 0 && m->n_layers == 0)
        rc = error_set(p->err, INFER_EFORMAT, "model '%s' has no layers",
                       m->name);
    if (rc == 0)
        rc = add_reference(&m->output, &m->n_outputs,
                           (struct keras_reference){.layer = m->n_layers - 1},
                           p->err);
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
        return no_memory(p->err);
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
    if (!keras_is_model(class_name) || !is_own(json, class_name))
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
