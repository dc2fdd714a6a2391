/* SPDX-License-Identifier: Apache-2.0 */
/* Keras: how the configuration connects layers: calls, their arguments, and
 * references to tensors. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/json.h"
#include "weights/keras/keras.h"

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

struct keras_call *keras_new_call(struct keras_model *m, int layer)
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

int keras_add_reference(struct keras_reference **list, int *n,
                        struct keras_reference r, struct infer_error *err)
{
    /* Doubled at powers of two, so that the capacity need not be stored. */
    if ((*n & (*n - 1)) == 0) {
        void *grown = realloc(*list, (*n ? 2 * (size_t)*n : 1) * sizeof **list);
        if (grown == NULL)
            return keras_no_memory(err);
        *list = grown;
    }
    (*list)[(*n)++] = r;
    return 0;
}

/* One reference, a list, a dictionary, or any nesting of those. */
int keras_parse_references(const struct keras_model *m, const cJSON *json,
                           struct infer_error *err,
                           struct keras_reference **list, int *n)
{
    struct keras_reference r;
    int rc = 0;

    if (cJSON_IsArray(json) && cJSON_IsString(json->child)) {
        rc = parse_reference(m, json, err, &r);
        return rc < 0 ? rc : keras_add_reference(list, n, r, err);
    }
    if (!cJSON_IsArray(json) && !cJSON_IsObject(json))
        return error_set(err, INFER_EFORMAT,
                         "model '%s': inputs or outputs are not lists of "
                         "connections",
                         m->name);
    for (const cJSON *c = json->child; c != NULL && rc == 0; c = c->next)
        rc = keras_parse_references(m, c, err, list, n);
    return rc;
}

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

/* Keras 3: tensors stand anywhere in the arguments of a call, as
 * {"class_name": "__keras_tensor__", "config": {"keras_history": [...]}}.
 * word: the argument's name, where it is given by name. */
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
        return rc < 0 ? rc
                      : keras_add_reference(&call->in, &call->n_in, r, err);
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
        return keras_add_reference(&call->in, &call->n_in, r, err);
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
        return rc < 0 ? rc
                      : keras_add_reference(&call->in, &call->n_in, r, err);
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
        return rc < 0 ? rc
                      : keras_add_reference(&call->in, &call->n_in, r, err);
    }
    for (const cJSON *c = json->child; c != NULL && rc == 0; c = c->next) {
        struct keras_reference r;
        const cJSON *words = cJSON_GetArrayItem(c, 3);

        rc = parse_reference(m, c, err, &r);
        if (rc == 0)
            rc = keras_add_reference(&call->in, &call->n_in, r, err);
        if (rc == 0 && cJSON_IsObject(words)) {
            call->kwargs = words;
            rc = parse_old_words(m, l, words, "", err, call);
        }
    }
    return rc;
}

int keras_parse_calls(struct keras_model *m, int layer, const cJSON *inbound,
                      struct infer_error *err)
{
    struct keras_layer *l = &m->layer[layer];
    int rc = 0;

    l->first_call = m->n_calls;
    if (l->class != NULL && l->class->emit == NULL) {
        /* An input layer is one call without inputs. */
        if (keras_new_call(m, layer) == NULL)
            return keras_no_memory(err);
        l->n_calls = 1;
        return 0;
    }
    if (inbound != NULL && !cJSON_IsArray(inbound))
        return error_set(err, INFER_EFORMAT,
                         "layer '%s': inbound_nodes is no list", l->path);
    for (const cJSON *c = inbound ? inbound->child : NULL; c != NULL && rc == 0;
         c = c->next) {
        struct keras_call *call = keras_new_call(m, layer);
        if (call == NULL)
            return keras_no_memory(err);
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

int keras_check_references(struct keras_model *m, struct infer_error *err)
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
