/* SPDX-License-Identifier: Apache-2.0 */
/* Keras: from a parsed model to the graph, and the helpers of layers. */
#include <float.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/error.h"
#include "libinfer/json.h"
#include "weights/keras.h"

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

void keras_add_variable(struct keras_layer *l, const char *name, bool trainable)
{
    if (l->n_variables < KERAS_MAX_VARIABLES)
        l->variable[l->n_variables++] =
            (struct keras_variable){name, trainable, NULL};
}

/* The policy under which a layer computes; what it stores is read by type. */
static int check_policy(struct keras_emit *k, const struct keras_layer *l)
{
    static const char *const known[] = {
        "float32",        "float16", "bfloat16", "float64", "mixed_float16",
        "mixed_bfloat16", "uint8",   "int32",    "floatx"};
    const cJSON *c = item(l->config, "dtype");
    const char *word = NULL;

    if (cJSON_IsObject(c))
        word = json_string(json_member(c, "config"), "name");
    else if (cJSON_IsString(c))
        word = c->valuestring;
    if (c == NULL)
        return 0;
    for (size_t i = 0; word && i < sizeof known / sizeof *known; i++)
        if (strcmp(word, known[i]) == 0)
            return 0;
    keras_fail(k, INFER_EUNSUPPORTED, "data type policy '%s'",
               word ? word : "(no name)");
    return k->status;
}

int keras_name_variables(struct keras_emit *k, struct keras_model *model)
{
    for (int i = 0; i < model->n_layers && k->status == 0; i++) {
        struct keras_layer *l = &model->layer[i];
        k->layer = l;
        if (l->model != NULL)
            keras_name_variables(k, l->model);
        else if (check_policy(k, l) == 0 && l->class->variables != NULL)
            l->class->variables(k, l);
    }
    k->layer = NULL;
    return k->status;
}

/* ---- inputs -------------------------------------------------------- */

/* The shape that an input layer, or the first layer of an old Sequential
 * model, states: with the batch, -1 where free. */
static const cJSON *stated_shape(const struct keras_model *m,
                                 const struct keras_layer *l)
{
    static const char *const keys[] = {"batch_shape", "batch_input_shape"};

    for (size_t i = 0; i < 2; i++)
        if (item(l->config, keys[i]) != NULL)
            return item(l->config, keys[i]);
    if (l->model != NULL && l->model->n_layers > 0) {
        const struct keras_model *inner = l->model;
        const int first = inner->sequential ? 0 : inner->input[0].layer;
        return stated_shape(inner, &inner->layer[first]);
    }
    return cJSON_IsObject(m->config) ? item(m->config, "build_input_shape")
                                     : NULL;
}

/* --input-shape for this input, by name or position; its dimensions stand in
 * for those that the file leaves free. */
static void apply_option(struct keras_emit *k, const char *name, int rank,
                         int64_t *dim)
{
    const struct weights_options *o = k->options;

    for (int i = 0; o != NULL && i < o->input_count; i++) {
        const struct weights_input_shape *s = &o->input_shape[i];
        if (s->name ? strcmp(s->name, name) != 0 : i != k->g->n_inputs)
            continue;
        if (s->rank != rank) {
            keras_fail(k, INFER_EARGUMENT,
                       "--input-shape has rank %d, the model wants %d", s->rank,
                       rank);
            return;
        }
        for (int d = 0; d < rank; d++) {
            if (dim[d] >= 0 && s->dim[d] >= 0 && s->dim[d] != dim[d])
                keras_fail(k, INFER_EARGUMENT,
                           "--input-shape has %lld in dimension %d (N,C,H,W), "
                           "the model wants %lld",
                           (long long)s->dim[d], d, (long long)dim[d]);
            else if (dim[d] < 0)
                dim[d] = s->dim[d];
        }
        return;
    }
}

static struct keras_value add_input(struct keras_emit *k,
                                    const struct keras_model *m,
                                    const struct keras_layer *l)
{
    const cJSON *shape = stated_shape(m, l);
    int64_t dim[INFER_MAX_RANK], plain[INFER_MAX_RANK];
    int rank = 0;

    for (const cJSON *c = cJSON_IsArray(shape) ? shape->child : NULL; c != NULL;
         c = c->next) {
        if (rank == 5)
            return keras_fail(k, INFER_EUNSUPPORTED,
                              "inputs of more than 5 dimensions");
        plain[rank] = -1;
        if (!cJSON_IsNull(c) && !json_int64(c, 0, INT32_MAX, &plain[rank]))
            return keras_fail(k, INFER_EFORMAT,
                              "dimension %d of its input is no size", rank);
        rank++;
    }
    if (rank < 2)
        return keras_fail(k, INFER_EFORMAT,
                          "the model does not state the shape of its input");
    /* Pictures are channels last unless a layer says otherwise; a matrix is a
     * sequence only where layers for sequences are. */
    const bool swapped =
        !k->channels_first && (rank > 3 || (rank == 3 && k->has_1d));
    dim[0] = -1; /* any batch */
    for (int i = 1; i < rank; i++)
        dim[i] = !swapped ? plain[i] : i == 1 ? plain[rank - 1] : plain[i - 1];
    apply_option(k, l->name, rank, dim);
    if (k->status < 0)
        return keras_failed(k);
    const int v = graph_add_input(k->g, l->path, INFER_F32, rank, dim);
    if (v < 0) {
        no_memory(k);
        return keras_failed(k);
    }
    return (struct keras_value){v, rank, swapped};
}

/* ---- the walk ------------------------------------------------------ */

/* Results of the calls of one model while it is emitted.  A model inside has
 * a frame of its own at each of its calls; its outputs are its call's. */
struct frame {
    struct keras_emit *k;
    struct keras_model *m;
    const struct keras_value *in; /* NULL for the outermost model */
    int n_in;
    struct result {
        struct keras_value *out;
        int n_out;
        enum { FRESH, OPEN, DONE } state;
    } * result;
    int *stack; /* calls under way: a path, so each call once */
};

static int emit_model(struct keras_emit *k, struct keras_model *m,
                      const struct keras_value *in, int n_in,
                      struct keras_value **out, int *n_out);

/* The call that a reference means. */
static int call_of(const struct keras_model *m, struct keras_reference r)
{
    const struct keras_layer *l = &m->layer[r.layer];
    const int node = r.node - l->node_offset;

    return node >= 0 && node < l->n_calls ? l->first_call + node : -1;
}

static struct keras_value fetch(struct frame *f, struct keras_reference r)
{
    const int call = call_of(f->m, r);
    struct keras_emit *k = f->k;

    if (k->status < 0)
        return keras_failed(k);
    if (call < 0 || r.tensor >= f->result[call].n_out) {
        k->layer = &f->m->layer[r.layer];
        return keras_fail(k, INFER_EFORMAT, "output %d of call %d is used",
                          r.tensor, r.node);
    }
    return f->result[call].out[r.tensor];
}

static bool is_input(const struct keras_layer *l)
{
    return l->class != NULL && l->class->emit == NULL;
}

/* The value of an input layer: the caller's, or a new input of the graph. */
static struct keras_value input_value(struct frame *f, int layer)
{
    struct keras_emit *k = f->k;

    if (f->in == NULL)
        return add_input(k, f->m, &f->m->layer[layer]);
    if (f->m->sequential && f->n_in == 1)
        return f->in[0];
    for (int i = 0; i < f->m->n_inputs; i++)
        if (f->m->input[i].layer == layer)
            return f->in[i];
    return keras_fail(k, INFER_EFORMAT, "is no input of its model");
}

static struct keras_value *gather_inputs(struct frame *f,
                                         const struct keras_call *c, int *n_in)
{
    const struct keras_layer *l = &f->m->layer[c->layer];
    struct keras_value *in = calloc((size_t)c->n_in + 1, sizeof *in);

    if (in == NULL) {
        no_memory(f->k);
        return NULL;
    }
    for (int i = 0; i < c->n_in; i++)
        in[i] = fetch(f, c->in[i]);
    *n_in = c->n_in;
    /* A Sequential model may start without an input layer. */
    if (f->m->sequential && c->n_in == 0 && !is_input(l)) {
        in[0] = input_value(f, c->layer);
        *n_in = 1;
    }
    f->k->layer = l;
    return in;
}

static void emit_call(struct frame *f, int index)
{
    struct keras_emit *k = f->k;
    const struct keras_call *c = &f->m->call[index];
    struct keras_layer *l = &f->m->layer[c->layer];
    struct result *r = &f->result[index];
    int n = 0;

    k->layer = l;
    k->call = c;
    k->node = index - l->first_call;
    /* Models inside models may be called any number of times each. */
    if (++k->n_calls > GRAPH_MAX_NODES)
        keras_fail(k, INFER_EUNSUPPORTED, "more than %d calls of layers",
                   GRAPH_MAX_NODES);
    struct keras_value *in = gather_inputs(f, c, &n);
    if (k->status == 0 && l->model != NULL) {
        emit_model(k, l->model, in, n, &r->out, &r->n_out);
        free(in);
        return;
    }
    r->out = calloc(1, sizeof *r->out);
    if (r->out == NULL)
        no_memory(k);
    if (k->status == 0) {
        r->n_out = 1;
        if (is_input(l))
            r->out[0] = input_value(f, c->layer);
        else if (n == 0 || (l->class->max_in > 0 && n > l->class->max_in))
            keras_fail(k, INFER_EFORMAT, "%d inputs", n);
        else
            r->out[0] = l->class->emit(k, l, in, n);
    }
    free(in);
}

/* Depth first without recursion: layer lists may stand in any order. */
static void emit_from(struct frame *f, int call)
{
    struct keras_emit *k = f->k;
    int depth = 0;

    f->stack[depth++] = call;
    while (depth > 0 && k->status == 0) {
        const int index = f->stack[depth - 1];
        const struct keras_call *c = &f->m->call[index];
        struct result *r = &f->result[index];
        bool ready = true;
        if (r->state == DONE) {
            depth--;
            continue;
        }
        r->state = OPEN;
        for (int i = 0; i < c->n_in && ready; i++) {
            const int from = call_of(f->m, c->in[i]);
            k->layer = &f->m->layer[c->layer];
            if (from < 0) {
                keras_fail(k, INFER_EFORMAT, "takes call %d of '%s'",
                           c->in[i].node, f->m->layer[c->in[i].layer].path);
                return;
            }
            if (f->result[from].state == DONE)
                continue;
            if (f->result[from].state == OPEN) {
                keras_fail(k, INFER_EFORMAT, "is part of a cycle");
                return;
            }
            f->stack[depth++] = from;
            ready = false;
        }
        if (!ready)
            continue;
        emit_call(f, index);
        r->state = DONE;
        depth--;
    }
}

static int collect_outputs(struct frame *f, struct keras_value **out,
                           int *n_out)
{
    const int n = f->m->n_outputs;

    *out = calloc((size_t)n, sizeof **out);
    if (*out == NULL)
        return no_memory(f->k);
    *n_out = n;
    for (int i = 0; i < n; i++)
        (*out)[i] = fetch(f, f->m->output[i]);
    return f->k->status;
}

static int emit_model(struct keras_emit *k, struct keras_model *m,
                      const struct keras_value *in, int n_in,
                      struct keras_value **out, int *n_out)
{
    struct frame f = {k, m, in, n_in, NULL, NULL};

    f.result = calloc((size_t)m->n_calls, sizeof *f.result);
    f.stack = calloc((size_t)m->n_calls + 1, sizeof *f.stack);
    if (f.result == NULL || f.stack == NULL)
        no_memory(k);
    if (in != NULL && n_in != (m->sequential ? 1 : m->n_inputs))
        keras_fail(k, INFER_EFORMAT, "is a model of %d inputs and gets %d",
                   m->sequential ? 1 : m->n_inputs, n_in);
    for (int i = 0; i < m->n_calls && k->status == 0; i++) {
        k->layer = &m->layer[m->call[i].layer];
        if (m->call[i].n_in > GRAPH_MAX_INPUTS)
            keras_fail(k, INFER_EUNSUPPORTED, "%d inputs; at most %d",
                       m->call[i].n_in, GRAPH_MAX_INPUTS);
    }
    /* Inputs first, in the model's order: they are the graph's. */
    for (int i = 0; i < m->n_inputs && k->status == 0; i++)
        emit_from(&f, m->layer[m->input[i].layer].first_call);
    for (int i = 0; i < m->n_outputs && k->status == 0; i++) {
        const int call = call_of(m, m->output[i]);
        if (call < 0)
            keras_fail(k, INFER_EFORMAT, "model '%s': output %d does not exist",
                       m->name, i);
        else
            emit_from(&f, call);
    }
    if (k->status == 0)
        collect_outputs(&f, out, n_out);
    for (int i = 0; f.result != NULL && i < m->n_calls; i++)
        free(f.result[i].out);
    free(f.result);
    free(f.stack);
    return k->status;
}

/* What of the model decides how its inputs lie. */
static void survey(struct keras_emit *k, const struct keras_model *m)
{
    for (int i = 0; i < m->n_layers && k->status == 0; i++) {
        const struct keras_layer *l = &m->layer[i];
        k->layer = l;
        if (l->model != NULL) {
            survey(k, l->model);
            continue;
        }
        const size_t n = strlen(l->class_name);
        if (n > 2 && strstr(l->class_name, "1D") != NULL)
            k->has_1d = true;
        /* Flatten's word is about its own work only. */
        if (strcmp(l->class_name, "Flatten") != 0 &&
            !keras_channels_last(k, l->config))
            k->channels_first = true;
    }
}

int keras_emit_model(struct keras_emit *k, struct keras_model *model)
{
    struct keras_value *out = NULL;
    int n = 0;

    survey(k, model);
    if (k->status == 0)
        emit_model(k, model, NULL, 0, &out, &n);
    k->layer = NULL;
    k->node = 0;
    for (int i = 0; i < n && k->status == 0; i++) {
        int v = out[i].value;
        /* An output may be an input as it is, or stand in the list twice. */
        if (graph_is_output(k->g, v) || k->g->value[v].producer < 0)
            v = keras_unary(k, "output", v, KERN_IDENTITY, 0, 0);
        if (v >= 0 && graph_add_output(k->g, v) < 0)
            no_memory(k);
    }
    free(out);
    return k->status;
}
