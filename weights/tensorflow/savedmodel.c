/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SavedModel: saved_model.pb holds one MetaGraphDef or more, each with a graph,
 * the signatures under which it is called, and what restores its variables.
 *
 * What is restored into which variable is read off the graph: an assignment
 * whose value comes from RestoreV2, which lists the names in the bundle.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "weights/tensorflow/tensorflow.h"

/* ---- messages ------------------------------------------------------ */

struct meta_graph {
    struct pb_span message, graph;
    struct pb_span signature; /* SignatureDef */
    bool serve;               /* has the tag "serve" */
};

static int read_tags(const struct pb_reader *outer,
                     const struct pb_field *field, struct meta_graph *m,
                     struct infer_error *err)
{
    struct pb_reader r;
    struct pb_field f;
    int rc = pb_enter(outer, field, err, &r);

    while (rc >= 0 && (rc = pb_next(&r, &f, err)) > 0)
        if (f.number == 4 && f.wire == PB_BYTES && pb_span_is(f.span, "serve"))
            m->serve = true;
    return rc;
}

/* An entry of a map from names to messages. */
static int read_pair(const struct pb_reader *outer,
                     const struct pb_field *field, struct pb_span *key,
                     struct pb_span *value, struct infer_error *err)
{
    struct pb_reader r;
    struct pb_field f;
    int rc = pb_enter(outer, field, err, &r);

    *key = *value = (struct pb_span){NULL, 0};
    while (rc >= 0 && (rc = pb_next(&r, &f, err)) > 0) {
        if (f.number == 1 && f.wire == PB_BYTES)
            *key = f.span;
        else if (f.number == 2 && f.wire == PB_BYTES)
            *value = f.span;
    }
    return rc;
}

/* "serving_default", or the first signature that computes something. */
static int read_signature(const struct pb_reader *outer,
                          const struct pb_field *field, struct meta_graph *m,
                          bool *found, struct infer_error *err)
{
    struct pb_span key, value;
    const int rc = read_pair(outer, field, &key, &value, err);

    if (rc < 0)
        return rc;
    if (pb_span_is(key, "serving_default")) {
        m->signature = value;
        *found = true;
    } else if (!*found && m->signature.bytes == 0 && key.bytes > 0 &&
               !pb_span_is(key, "__saved_model_init_op")) {
        m->signature = value;
    }
    return 0;
}

static int read_meta_graph(const struct pb_reader *outer,
                           const struct pb_field *field, struct meta_graph *m,
                           struct infer_error *err)
{
    struct pb_reader r;
    struct pb_field f;
    bool found = false;
    int rc = pb_enter(outer, field, err, &r);

    memset(m, 0, sizeof *m);
    while (rc >= 0 && (rc = pb_next(&r, &f, err)) > 0) {
        if (f.number == 1) {
            rc = read_tags(&r, &f, m, err);
        } else if (f.number == 2) {
            rc = pb_expect(&r, &f, PB_BYTES, "a graph", err);
            m->graph = f.span;
        } else if (f.number == 5) {
            rc = read_signature(&r, &f, m, &found, err);
        }
    }
    return rc;
}

/* The graph that serves, or the first one. */
static int find_meta_graph(struct blob *blob, struct meta_graph *out,
                           struct infer_error *err)
{
    struct meta_graph m;
    struct pb_reader r;
    struct pb_field f;
    int rc, n = 0;

    memset(out, 0, sizeof *out);
    pb_open(&r, blob->data, blob->bytes);
    while ((rc = pb_next(&r, &f, err)) > 0) {
        if (f.number != 2)
            continue;
        rc = read_meta_graph(&r, &f, &m, err);
        if (rc < 0)
            return rc;
        if (n++ == 0 || (m.serve && !out->serve))
            *out = m;
    }
    if (rc < 0)
        return rc;
    if (out->graph.bytes == 0)
        return error_set(err, INFER_EFORMAT, "the SavedModel has no graph");
    if (out->signature.bytes == 0)
        return error_set(err, INFER_EUNSUPPORTED,
                         "the SavedModel has no signature: its functions "
                         "cannot be told apart");
    return 0;
}

/* ---- signature ----------------------------------------------------- */

/* Name of the tensor of a TensorInfo. */
static int tensor_name(const struct tf_graph *g, struct pb_span info,
                       struct pb_span *out, struct infer_error *err)
{
    struct pb_reader r = tf_reader(g, info);
    struct pb_field f;
    int rc;

    *out = (struct pb_span){NULL, 0};
    while ((rc = pb_next(&r, &f, err)) > 0)
        if (f.number == 1 && f.wire == PB_BYTES)
            *out = f.span;
    return rc;
}

static int add_end(struct tf_import *tf, bool input, struct pb_span key,
                   struct pb_span info, struct infer_error *err)
{
    struct tf_graph *g = &tf->graph;
    struct pb_span name;
    struct tf_edge e;
    int rc = tensor_name(g, info, &name, err);

    if (rc == 0)
        rc = tf_tensor(g, name, err, &e);
    if (rc == 0)
        rc = tf_resolve(g, e, err, &e);
    if (rc == 0 && input && !tf_is_input(g, e.node))
        rc = error_set(err, INFER_EUNSUPPORTED, "it is no placeholder");
    if (rc == 0)
        rc = input ? tf_add_input(tf, e, key, err)
                   : tf_add_output(tf, e, key, err);
    if (rc < 0)
        error_prefix(err, "%s '%.*s' of the signature",
                     input ? "input" : "output", PB_TEXT(key, 128));
    return rc;
}

static int compare_ends(const void *a, const void *b)
{
    const struct pb_span x = ((const struct tf_io *)a)->name;
    const struct pb_span y = ((const struct tf_io *)b)->name;
    const size_t n = x.bytes < y.bytes ? x.bytes : y.bytes;
    const int order = n ? memcmp(x.data, y.data, n) : 0;

    return order != 0 ? order : (x.bytes > y.bytes) - (x.bytes < y.bytes);
}

/* Maps have no order: inputs and outputs stand in that of their names. */
static int read_ends(struct tf_import *tf, struct pb_span signature,
                     struct infer_error *err)
{
    struct pb_reader r = tf_reader(&tf->graph, signature);
    struct pb_field f;
    int rc;

    while ((rc = pb_next(&r, &f, err)) > 0) {
        struct pb_span key, value;

        if (f.number != 1 && f.number != 2)
            continue;
        rc = read_pair(&r, &f, &key, &value, err);
        if (rc == 0)
            rc = add_end(tf, f.number == 1, key, value, err);
        if (rc < 0)
            return rc;
    }
    if (rc == 0 && tf->n_outputs == 0)
        rc = error_set(err, INFER_EFORMAT, "the signature has no outputs");
    if (tf->n_inputs > 0)
        qsort(tf->input, (size_t)tf->n_inputs, sizeof *tf->input, compare_ends);
    if (tf->n_outputs > 0)
        qsort(tf->output, (size_t)tf->n_outputs, sizeof *tf->output,
              compare_ends);
    return rc;
}

/* ---- variables ----------------------------------------------------- */

/* The texts of one constant, which the assignments of a restore share. */
struct texts {
    int node; /* -1: none yet */
    struct pb_span *text;
    int n, capacity;
};

static int read_texts(const struct tf_graph *g, struct pb_span tensor,
                      struct texts *t, struct infer_error *err)
{
    struct pb_reader r = tf_reader(g, tensor);
    struct pb_field f;
    int rc;

    while ((rc = pb_next(&r, &f, err)) > 0) {
        if (f.number != 8 || f.wire != PB_BYTES)
            continue;
        if (t->n == t->capacity) {
            const int capacity = t->capacity ? 2 * t->capacity : 64;
            void *p;

            if (capacity > TF_MAX_NODES)
                return error_set(err, INFER_EUNSUPPORTED,
                                 "more than %d variables", TF_MAX_NODES);
            p = realloc(t->text, (size_t)capacity * sizeof *t->text);
            if (!p)
                return error_set(err, INFER_EMEMORY, "out of memory");
            t->text = p;
            t->capacity = capacity;
        }
        t->text[t->n++] = f.span;
    }
    return rc;
}

static int const_texts(const struct tf_graph *g, int node, struct texts *t,
                       struct infer_error *err)
{
    struct pb_span value;
    struct pb_reader r;
    struct pb_field f;
    int rc;

    if (t->node == node)
        return 0;
    t->node = node;
    t->n = 0;
    rc = tf_attr_span(g, node, "value", err, &value);
    if (rc < 0)
        return rc;
    r = tf_reader(g, value);
    while (rc >= 0 && (rc = pb_next(&r, &f, err)) > 0)
        if (f.number == 8 && f.wire == PB_BYTES)
            rc = read_texts(g, f.span, t, err);
    return rc;
}

static bool is_variable(const struct tf_node *n)
{
    return pb_span_is(n->op, "VarHandleOp") ||
           pb_span_is(n->op, "VariableV2") || pb_span_is(n->op, "Variable");
}

/* An assignment: its variable becomes an entry of the bundle. */
static int restore(struct tf_import *tf, int assign, struct texts *t,
                   struct infer_error *err)
{
    struct tf_graph *g = &tf->graph;
    struct tf_edge variable, value, names;
    struct pb_span entry;
    int rc;

    if (tf_input(g, assign, 0, NULL, &variable) < 0 ||
        tf_input(g, assign, 1, NULL, &value) < 0 ||
        !pb_span_is(g->node[value.node].op, "RestoreV2") ||
        tf_input(g, value.node, 1, NULL, &names) < 0)
        return 0; /* an initialiser */
    rc = const_texts(g, names.node, t, err);
    if (rc < 0)
        return rc;
    if (value.port < t->n && is_variable(&g->node[variable.node]) &&
        tf_bundle_find(&tf->bundle, t->text[value.port], &entry)) {
        g->node[variable.node].message = entry;
        g->node[variable.node].restored = true;
    }
    return 0;
}

static int restore_variables(struct tf_import *tf, struct infer_error *err)
{
    struct tf_graph *g = &tf->graph;
    struct texts t = {.node = -1};
    bool any = false;
    int rc = 0;

    for (int i = 0; i < g->n_nodes && !any; i++)
        any = is_variable(&g->node[i]);
    if (!any)
        return 0;
    rc = tf_bundle_open(tf->path, err, &tf->bundle);
    for (int i = 0; i < g->n_nodes && rc == 0; i++)
        if (pb_span_is(g->node[i].op, "AssignVariableOp") ||
            pb_span_is(g->node[i].op, "Assign"))
            rc = restore(tf, i, &t, err);
    free(t.text);
    return rc;
}

/* ---- the whole ----------------------------------------------------- */

bool tf_saved_model_probe(struct blob *blob)
{
    const unsigned char *p = blob->data;
    size_t i = 3;

    /* Schema version 1, then a MetaGraphDef: its first field has number 1 or
     * 2 and is a message. */
    if (blob->bytes < 8 || p[0] != 0x08 || p[1] != 1 || p[2] != 0x12)
        return false;
    while (i < 8 && p[i] & 0x80)
        i++;
    return i + 1 < blob->bytes && (p[i + 1] == 0x0a || p[i + 1] == 0x12);
}

int tf_saved_model_open(struct blob *blob, const char *path,
                        struct infer_error *err, struct tf_import *tf)
{
    struct meta_graph m;
    int rc = find_meta_graph(blob, &m, err);

    tf->path = path;
    if (rc == 0)
        rc = tf_graph_open(blob, m.graph, err, &tf->graph);
    if (rc == 0)
        rc = tf_take_defaults(&tf->graph, err);
    if (rc == 0)
        rc = restore_variables(tf, err);
    if (rc == 0)
        rc = read_ends(tf, m.signature, err);
    return rc;
}
