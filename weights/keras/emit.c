/* SPDX-License-Identifier: Apache-2.0 */
/* Keras: from a parsed model to the graph: its inputs, and the walk over the
 * calls of its layers. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/json.h"
#include "weights/keras/keras.h"

/* NULL where absent or null. */
static const cJSON *item(const cJSON *config, const char *key)
{
    const cJSON *c = json_member(config, key);

    return c == NULL || cJSON_IsNull(c) ? NULL : c;
}

static int no_memory(struct keras_emit *k)
{
    keras_fail(k, INFER_EMEMORY, "no memory for the graph");
    return k->status;
}

/* ---- variables ----------------------------------------------------- */

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

static void name_layer_variables(struct keras_emit *k, struct keras_layer *l)
{
    k->layer = l;
    if (l->model != NULL)
        keras_name_variables(k, l->model);
    else if (check_policy(k, l) == 0 && l->class->variables != NULL)
        l->class->variables(k, l);
    for (int i = 0; i < l->n_inner && k->status == 0; i++)
        name_layer_variables(k, &l->inner[i]);
}

int keras_name_variables(struct keras_emit *k, struct keras_model *model)
{
    for (int i = 0; i < model->n_layers && k->status == 0; i++)
        name_layer_variables(k, &model->layer[i]);
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

/* An array among the arguments of a call. */
static struct keras_value array_value(struct keras_emit *k, const cJSON *array)
{
    struct constant *c = keras_array(k, json_member(array, "value"), false);
    const int rank = c ? c->rank : 0;

    if (c == NULL)
        return keras_fail(k, INFER_EUNSUPPORTED,
                          "an array among its arguments is none of numbers");
    return (struct keras_value){keras_constant(k, "array", c), rank, false};
}

static struct keras_value fetch(struct frame *f, struct keras_reference r)
{
    const int call = r.array ? -1 : call_of(f->m, r);
    struct keras_emit *k = f->k;

    if (k->status < 0)
        return keras_failed(k);
    if (r.array)
        return array_value(k, r.array);
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
    f->k->layer = l;
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
    r->out = calloc(KERAS_MAX_OUTPUTS, sizeof *r->out);
    if (r->out == NULL)
        no_memory(k);
    if (k->status == 0) {
        k->n_more = 0;
        if (is_input(l))
            r->out[0] = input_value(f, c->layer);
        else if (n == 0 || (l->class->max_in > 0 && n > l->class->max_in))
            keras_fail(k, INFER_EFORMAT, "%d inputs", n);
        else
            r->out[0] = l->class->emit(k, l, in, n);
        memcpy(r->out + 1, k->more, (size_t)k->n_more * sizeof *r->out);
        r->n_out = 1 + k->n_more;
    }
    free(in);
}

struct keras_value keras_emit_inner(struct keras_emit *k, struct keras_layer *l,
                                    const struct keras_value *in, int n)
{
    const struct keras_layer *own = k->layer;
    const int node = k->node;
    struct keras_value y = keras_failed(k), *out = NULL;
    int n_out = 0;

    k->layer = l;
    if (++k->n_calls > GRAPH_MAX_NODES)
        return keras_fail(k, INFER_EUNSUPPORTED, "more than %d calls of layers",
                          GRAPH_MAX_NODES);
    if (l->model != NULL) {
        const struct keras_call *call = k->call;

        emit_model(k, l->model, in, n, &out, &n_out);
        k->call = call;
        if (k->status == 0 && n_out != 1)
            keras_fail(k, INFER_EUNSUPPORTED, "%d outputs", n_out);
        else if (k->status == 0)
            y = out[0];
        free(out);
    } else if (k->status == 0 && l->class->emit == NULL) {
        keras_fail(k, INFER_EFORMAT, "an input inside a layer");
    } else if (k->status == 0) {
        y = l->class->emit(k, l, in, n);
    }
    k->layer = own;
    k->node = node;
    return k->status < 0 ? keras_failed(k) : y;
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
            const int from = c->in[i].array ? -1 : call_of(f->m, c->in[i]);
            k->layer = &f->m->layer[c->layer];
            if (c->in[i].array)
                continue;
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
static void survey(struct keras_emit *k, const struct keras_model *m);

static void survey_layer(struct keras_emit *k, const struct keras_layer *l)
{
    k->layer = l;
    if (l->model != NULL) {
        survey(k, l->model);
        return;
    }
    if (strstr(l->class_name, "1D") != NULL)
        k->has_1d = true;
    /* Flatten's word is about its own work only. */
    if (strcmp(l->class_name, "Flatten") != 0 &&
        !keras_channels_last(k, l->config))
        k->channels_first = true;
    for (int i = 0; i < l->n_inner && k->status == 0; i++)
        survey_layer(k, &l->inner[i]);
}

static void survey(struct keras_emit *k, const struct keras_model *m)
{
    for (int i = 0; i < m->n_layers && k->status == 0; i++)
        survey_layer(k, &m->layer[i]);
}

static bool crops(const struct graph_node *n, int rank)
{
    for (int d = 0; n->op == GRAPH_PAD && d < rank; d++)
        if (n->attr.pad.begin[d] < 0 || n->attr.pad.end[d] < 0)
            return true;
    return false;
}

/* A crop of all elements is an error in Keras.  Shapes that do not fit are told
 * where the graph is checked. */
static void check_crops(struct keras_emit *k)
{
    bool any = false;
    int rc;

    for (int i = 0; i < k->g->n_nodes; i++)
        any = any || crops(&k->g->node[i], INFER_MAX_RANK);
    rc = any ? graph_infer_shapes(k->g, NULL, NULL) : 0;
    if (rc == INFER_EMEMORY)
        no_memory(k);
    if (!any || rc < 0)
        return;
    for (int i = 0; i < k->g->n_nodes && k->status == 0; i++) {
        const struct graph_node *n = &k->g->node[i];
        const struct graph_value *y = &k->g->value[n->out[0]];

        if (!crops(n, y->rank))
            continue;
        for (int d = 1; d < y->rank; d++)
            if (y->dim[d] == 0)
                keras_fail(k, INFER_EFORMAT,
                           "layer '%s': the crop leaves nothing", n->name);
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
    if (k->status == 0)
        check_crops(k);
    free(out);
    return k->status;
}
