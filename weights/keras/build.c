/* SPDX-License-Identifier: Apache-2.0 */
/* Keras: what layers build with: reading their configuration, adding nodes and
 * weights, changing the order of axes. */
#include <float.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/json.h"
#include "weights/keras/keras.h"

/* ---- failing ------------------------------------------------------- */

struct keras_value keras_failed(const struct keras_emit *k)
{
    return (struct keras_value){k->status < 0 ? k->status : INFER_EFORMAT, 0,
                                false};
}

struct keras_value keras_fail(struct keras_emit *k, int code, const char *fmt,
                              ...)
{
    char text[512];
    va_list args;

    if (k->status < 0)
        return keras_failed(k);
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (k->layer != NULL)
        error_set(k->err, code, "layer '%s' (%s): %s", k->layer->path,
                  k->layer->class_name, text);
    else
        error_set(k->err, code, "%s", text);
    k->status = code;
    return keras_failed(k);
}

static int no_memory(struct keras_emit *k)
{
    keras_fail(k, INFER_EMEMORY, "no memory for the graph");
    return k->status;
}

/* ---- reading configurations ---------------------------------------- */

/* NULL where absent or null. */
static const cJSON *item(const cJSON *config, const char *key)
{
    const cJSON *c = json_member(config, key);

    return c == NULL || cJSON_IsNull(c) ? NULL : c;
}

const char *keras_key(const cJSON *config, const char *a, const char *b)
{
    return item(config, a) != NULL ? a : b;
}

int keras_int(struct keras_emit *k, const cJSON *config, const char *key,
              int min, int max, int otherwise)
{
    const cJSON *c = item(config, key);
    int64_t n;

    if (c == NULL)
        return otherwise;
    if (!json_int64(c, min, max, &n)) {
        keras_fail(k, INFER_EFORMAT, "%s is not an integer from %d to %d", key,
                   min, max);
        return otherwise;
    }
    return (int)n;
}

double keras_double(struct keras_emit *k, const cJSON *config, const char *key,
                    double otherwise)
{
    const cJSON *c = item(config, key);

    /* Keras wraps some numbers: {"type": "ndarray", "value": 0.3} and, in
     * version 3, {"class_name": "__numpy__", "config": {"value": 0.3}}. */
    if (cJSON_IsObject(c))
        c = item(item(c, "config") ? item(c, "config") : c, "value");
    if (c == NULL)
        return otherwise;
    if (!cJSON_IsNumber(c) || !(c->valuedouble <= FLT_MAX) ||
        !(c->valuedouble >= -FLT_MAX)) {
        keras_fail(k, INFER_EFORMAT, "%s is not a number", key);
        return otherwise;
    }
    return c->valuedouble;
}

bool keras_bool(struct keras_emit *k, const cJSON *config, const char *key,
                bool otherwise)
{
    const cJSON *c = item(config, key);

    if (c == NULL)
        return otherwise;
    /* Keras takes any number for a truth value, as Python does. */
    if (cJSON_IsNumber(c))
        return c->valuedouble != 0;
    if (!cJSON_IsBool(c)) {
        keras_fail(k, INFER_EFORMAT, "%s is not true or false", key);
        return otherwise;
    }
    return cJSON_IsTrue(c);
}

void keras_ints(struct keras_emit *k, const cJSON *config, const char *key,
                int n, int min, int max, int otherwise, int *out)
{
    const cJSON *c = item(config, key);
    int i = 0;

    for (int j = 0; j < n; j++)
        out[j] = otherwise;
    if (c == NULL)
        return;
    if (cJSON_IsNumber(c)) {
        out[0] = keras_int(k, config, key, min, max, otherwise);
        for (i = 1; i < n; i++)
            out[i] = out[0];
        return;
    }
    for (const cJSON *e = cJSON_IsArray(c) ? c->child : NULL; e != NULL;
         e = e->next, i++) {
        int64_t v;
        if (i == n || !json_int64(e, min, max, &v))
            break;
        out[i] = (int)v;
        if (e->next == NULL && i == n - 1)
            return;
    }
    keras_fail(k, INFER_EFORMAT, "%s is not %d integers from %d to %d", key, n,
               min, max);
}

bool keras_keyword(struct keras_emit *k, const char *name)
{
    return k->call->kwargs != NULL &&
           keras_bool(k, k->call->kwargs, name, false);
}

bool keras_channels_last(struct keras_emit *k, const cJSON *config)
{
    const char *key = keras_key(config, "data_format", "dim_ordering");
    const cJSON *c = item(config, key);
    static const char *const last[] = {"channels_last", "tf", "default"};

    if (c == NULL)
        return true;
    for (size_t i = 0; i < 3 && cJSON_IsString(c); i++)
        if (strcmp(c->valuestring, last[i]) == 0)
            return true;
    if (!cJSON_IsString(c) || (strcmp(c->valuestring, "channels_first") != 0 &&
                               strcmp(c->valuestring, "th") != 0))
        keras_fail(k, INFER_EFORMAT,
                   "%s is not channels_last or channels_first", key);
    return false;
}

enum keras_padding keras_padding(struct keras_emit *k, const cJSON *config)
{
    const char *key = keras_key(config, "padding", "border_mode");
    const cJSON *c = item(config, key);
    static const char *const words[] = {"valid", "same", "causal"};

    if (c == NULL)
        return KERAS_VALID;
    for (int i = 0; i < 3 && cJSON_IsString(c); i++)
        if (strcmp(c->valuestring, words[i]) == 0)
            return (enum keras_padding)i;
    keras_fail(k, INFER_EUNSUPPORTED,
               "%s '%s'; valid, same and causal are supported", key,
               cJSON_IsString(c) ? c->valuestring : "(no word)");
    return KERAS_VALID;
}

/* ---- nodes --------------------------------------------------------- */

/* "layer", "layer/role", with ":call" for later calls of a shared layer. */
static void node_name(const struct keras_emit *k, const char *role, char *out,
                      size_t bytes)
{
    const char *path = k->layer ? k->layer->path : "model";

    if (k->node > 0)
        snprintf(out, bytes, "%s:%d%s%s", path, k->node, *role ? "/" : "",
                 role);
    else
        snprintf(out, bytes, "%s%s%s", path, *role ? "/" : "", role);
}

int keras_node(struct keras_emit *k, enum graph_op op, const char *role,
               const int *in, int n_in, int *node)
{
    char name[512];

    if (k->status < 0)
        return k->status;
    for (int i = 0; i < n_in; i++)
        if (in[i] < -1) /* -1 is an input left out */
            return no_memory(k);
    node_name(k, role, name, sizeof name);
    int out = graph_add_value(k->g, name);
    if (out == INFER_EARGUMENT)
        out = graph_add_value(k->g, NULL); /* the name is taken */
    if (out < 0)
        return no_memory(k);
    int n = graph_add_node(k->g, op, name, in, n_in, &out, 1);
    if (n == INFER_EARGUMENT)
        n = graph_add_node(k->g, op, NULL, in, n_in, &out, 1);
    if (n < 0)
        return no_memory(k);
    if (node != NULL)
        *node = n;
    return out;
}

int keras_unary(struct keras_emit *k, const char *role, int x,
                enum kern_unary_kind kind, float a, float b)
{
    int node;
    const int y = keras_node(k, GRAPH_UNARY, role, &x, 1, &node);

    if (y >= 0)
        k->g->node[node].attr.unary = (struct kern_unary){kind, a, b};
    return y;
}

struct keras_value keras_binary(struct keras_emit *k, const char *role,
                                struct keras_value x, int y,
                                enum kern_binary_kind kind)
{
    const int in[2] = {x.value, y};
    int node;

    x.value = keras_node(k, GRAPH_BINARY, role, in, 2, &node);
    if (x.value >= 0)
        k->g->node[node].attr.binary.kind = kind;
    return x;
}

int keras_cast_to(struct keras_emit *k, const char *role, int x,
                  enum infer_dtype to)
{
    int node;
    const int y = keras_node(k, GRAPH_CAST, role, &x, 1, &node);

    if (y >= 0)
        k->g->node[node].attr.cast.to = to;
    return y;
}

int keras_concat(struct keras_emit *k, const char *role, const int *x, int n,
                 int axis)
{
    int node;
    const int y =
        n == 1 ? x[0] : keras_node(k, GRAPH_CONCAT, role, x, n, &node);

    if (y >= 0 && n > 1)
        k->g->node[node].attr.axis.axis = axis;
    return y;
}

int keras_transpose(struct keras_emit *k, int x, int rank, const int *order)
{
    int node;
    const int y = keras_node(k, GRAPH_TRANSPOSE, "transpose", &x, 1, &node);

    if (y < 0)
        return y;
    struct graph_dims *d = &k->g->node[node].attr.dims;
    d->n = rank;
    for (int i = 0; i < rank; i++)
        d->dim[i] = order[i];
    return y;
}

struct keras_value keras_plain(struct keras_emit *k, struct keras_value x)
{
    int order[INFER_MAX_RANK] = {0};

    if (!x.swapped || k->status < 0)
        return x;
    for (int i = 1; i < x.rank - 1; i++)
        order[i] = i + 1;
    order[x.rank - 1] = 1;
    return (struct keras_value){keras_transpose(k, x.value, x.rank, order),
                                x.rank, false};
}

struct keras_value keras_swapped(struct keras_emit *k, struct keras_value x)
{
    int order[INFER_MAX_RANK] = {0};

    if (x.swapped || x.rank < 3 || k->status < 0)
        return x;
    order[1] = x.rank - 1;
    for (int i = 2; i < x.rank; i++)
        order[i] = i - 1;
    return (struct keras_value){keras_transpose(k, x.value, x.rank, order),
                                x.rank, true};
}

struct keras_value keras_in_format(struct keras_emit *k, struct keras_value x,
                                   bool channels_last)
{
    return channels_last ? keras_swapped(k, x) : keras_plain(k, x);
}

struct keras_value keras_spatial_input(struct keras_emit *k,
                                       const struct keras_layer *l,
                                       struct keras_value x)
{
    if (k->status < 0)
        return x;
    if (x.rank != l->class->arg + 2)
        return keras_fail(k, INFER_EFORMAT,
                          "its input has %d dimensions, %d are due", x.rank,
                          l->class->arg + 2);
    return keras_in_format(k, x, keras_channels_last(k, l->config));
}

/* ---- weights ------------------------------------------------------- */

struct constant *keras_filled(int64_t n, float value)
{
    struct constant *c = constant_new(INFER_F32, 1, &n);

    for (int64_t i = 0; c != NULL && i < n; i++)
        memcpy(c->data + (size_t)i * sizeof value, &value, sizeof value);
    return c;
}

int keras_constant(struct keras_emit *k, const char *suffix, struct constant *c)
{
    char name[512];

    if (k->status < 0) {
        constant_unref(c);
        return k->status;
    }
    if (c == NULL)
        return no_memory(k);
    snprintf(name, sizeof name, "%s.%s", k->layer->path, suffix);
    int v = graph_add_constant(k->g, name, constant_ref(c));
    if (v == INFER_EARGUMENT)
        v = graph_add_constant(k->g, NULL, constant_ref(c));
    constant_unref(c);
    return v < 0 ? no_memory(k) : v;
}

int keras_weight(struct keras_emit *k, struct keras_layer *l, int i,
                 const char *suffix, keras_convert_fn *convert)
{
    if (k->status < 0)
        return k->status;
    if (l->weight[i] >= 0)
        return l->weight[i];
    struct constant *c = l->variable[i].data;
    l->variable[i].data = NULL; /* the file's order is not needed again */
    if (convert != NULL && c != NULL) {
        struct constant *made = convert(k, l, c);
        if (k->apart && made != NULL && made->data != c->data)
            constant_give_back(c);
        else
            constant_unref(c);
        c = made;
    }
    l->weight[i] = keras_constant(k, suffix, c);
    return l->weight[i];
}

int keras_variable(const struct keras_layer *l, const char *name)
{
    for (int i = 0; i < l->n_variables; i++)
        if (strcmp(l->variable[i].name, name) == 0)
            return i;
    return -1;
}

void keras_add_variable_in(struct keras_layer *l, const char *group,
                           const char *name, bool trainable)
{
    if (l->n_variables < KERAS_MAX_VARIABLES)
        l->variable[l->n_variables++] =
            (struct keras_variable){name, group, trainable, NULL};
}

void keras_add_variable(struct keras_layer *l, const char *name, bool trainable)
{
    keras_add_variable_in(l, NULL, name, trainable);
}
