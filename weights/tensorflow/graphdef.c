/* SPDX-License-Identifier: Apache-2.0 */
/* GraphDef: nodes, their names and their inputs. */
#include "weights/tensorflow/graphdef.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "kernels/base/hash.h"

static int out_of_memory(struct infer_error *err)
{
    return error_set(err, INFER_EMEMORY, "out of memory");
}

/* ---- texts --------------------------------------------------------- */

bool tf_same(struct pb_span a, struct pb_span b)
{
    return a.bytes == b.bytes &&
           (a.bytes == 0 || memcmp(a.data, b.data, a.bytes) == 0);
}

struct pb_reader tf_reader(const struct tf_graph *g, struct pb_span span)
{
    struct pb_reader r;

    pb_open(&r, g->blob->data, g->blob->bytes);
    r.at = span.bytes ? span.data : g->blob->data; /* absent: no bytes */
    r.end = r.at + span.bytes;
    return r;
}

/* ---- names --------------------------------------------------------- */

static size_t find_slot(const struct tf_graph *g, const struct tf_names *names,
                        struct pb_span name, size_t skip)
{
    size_t i = (size_t)hash_bytes(name.data, name.bytes) & (names->slots - 1);

    while (names->slot[i]) {
        struct pb_span own = g->node[names->slot[i] - 1].name;

        /* Nodes of a function carry their call's name in front. */
        if (own.bytes >= skip) {
            own.data += skip;
            own.bytes -= skip;
        }
        if (tf_same(own, name))
            break;
        i = (i + 1) & (names->slots - 1);
    }
    return i;
}

/* Bytes of a scope's prefix and the slash after it. */
static size_t prefix_bytes(const struct tf_scope *s)
{
    return s->prefix.bytes ? s->prefix.bytes + 1 : 0;
}

static int scope_find(const struct tf_graph *g, const struct tf_scope *s,
                      struct pb_span name)
{
    if (s->names.slots == 0 || name.bytes == 0)
        return -1;
    return (int)s->names.slot[find_slot(g, &s->names, name, prefix_bytes(s))] -
           1;
}

/* Hashes the nodes of a scope by their names in it. */
static int index_names(const struct tf_graph *g, struct tf_scope *s,
                       struct infer_error *err)
{
    const size_t skip = prefix_bytes(s);
    size_t slots = 16;

    while (slots < 2 * (size_t)(g->n_nodes - s->first))
        slots *= 2;
    s->names.slot = calloc(slots, sizeof *s->names.slot);
    if (!s->names.slot)
        return out_of_memory(err);
    s->names.slots = slots;
    for (int i = s->first; i < g->n_nodes; i++) {
        struct pb_span name = g->node[i].name;
        size_t at;

        name.data += skip;
        name.bytes -= skip;
        at = find_slot(g, &s->names, name, skip);
        if (s->names.slot[at])
            return error_set(err, INFER_EFORMAT, "two nodes are named '%.*s'",
                             PB_TEXT(name, 128));
        s->names.slot[at] = (uint32_t)i + 1;
    }
    return 0;
}

int tf_find(const struct tf_graph *g, struct pb_span name)
{
    const struct tf_scope outermost = {.names = g->names};

    return scope_find(g, &outermost, name);
}

/* ---- nodes and edges ----------------------------------------------- */

static int grow(void **array, int *capacity, int count, size_t each, int max,
                const char *what, struct infer_error *err)
{
    if (count < *capacity)
        return 0;
    if (count >= max)
        return error_set(err, INFER_EUNSUPPORTED, "more than %d %s", max, what);
    const int more = *capacity ? *capacity * 2 : 128;
    void *p = realloc(*array, (size_t)more * each);
    if (!p)
        return out_of_memory(err);
    *array = p;
    *capacity = more;
    return 0;
}

int tf_add_node(struct tf_graph *g, const struct tf_node *node,
                struct infer_error *err)
{
    void *p = g->node;
    const int rc = grow(&p, &g->nodes_capacity, g->n_nodes, sizeof *g->node,
                        TF_MAX_NODES, "nodes", err);

    g->node = p;
    if (rc < 0)
        return rc;
    g->node[g->n_nodes] = *node;
    return g->n_nodes++;
}

int tf_add_edge(struct tf_graph *g, struct tf_edge e, struct infer_error *err)
{
    void *p = g->edge;
    const int rc = grow(&p, &g->edges_capacity, g->n_edges, sizeof *g->edge,
                        TF_MAX_EDGES, "inputs of nodes", err);

    g->edge = p;
    if (rc == 0)
        g->edge[g->n_edges++] = e;
    return rc;
}

/* prefix/name, or name itself where there is no prefix. */
static int full_name(struct tf_graph *g, const struct tf_scope *s,
                     struct pb_span *name, struct infer_error *err)
{
    const size_t skip = prefix_bytes(s);
    const size_t bytes = skip + name->bytes;
    unsigned char *p;

    if (name->bytes == 0)
        return error_set(err, INFER_EFORMAT, "a node has no name");
    if (bytes > ONNX_MAX_NAME)
        return error_set(err, INFER_EFORMAT, "a name of %zu bytes", bytes);
    if (skip == 0)
        return 0;
    if (bytes > TF_MAX_NAMES - g->made)
        return error_set(err, INFER_EUNSUPPORTED,
                         "names of functions' nodes take more than %zu MiB",
                         TF_MAX_NAMES >> 20);
    p = onnx_alloc(&g->arena, bytes);
    if (!p)
        return out_of_memory(err);
    g->made += bytes;
    memcpy(p, s->prefix.data, s->prefix.bytes);
    p[skip - 1] = '/';
    memcpy(p + skip, name->data, name->bytes);
    *name = (struct pb_span){p, bytes};
    return 0;
}

/* Operators whose output k is their input k. */
static bool is_alias(struct pb_span op)
{
    static const char *const names[] = {
        "Identity",        "IdentityN",     "StopGradient",
        "PreventGradient", "Snapshot",      "EnsureShape",
        "ReadVariableOp",  "CheckNumerics", "DebugIdentity"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (pb_span_is(op, names[i]))
            return true;
    return false;
}

static int read_node(struct tf_graph *g, struct tf_scope *s,
                     struct pb_span message, struct infer_error *err)
{
    struct pb_reader r = tf_reader(g, message);
    struct tf_node node = {.message = message};
    struct pb_field f;
    int rc;

    while ((rc = pb_next(&r, &f, err)) > 0) {
        if (f.number != 1 && f.number != 2)
            continue;
        if (pb_expect(&r, &f, PB_BYTES, "a part of a node", err) < 0)
            return INFER_EFORMAT;
        if (f.number == 1)
            node.name = f.span;
        else
            node.op = f.span;
    }
    if (rc == 0)
        rc = full_name(g, s, &node.name, err);
    if (rc < 0)
        return rc;
    node.alias = is_alias(node.op);
    return tf_add_node(g, &node, err);
}

/* ---- inputs -------------------------------------------------------- */

/* A number of at most 6 digits at the end of text; -1 for anything else. */
static int small_number(const unsigned char *p, size_t n)
{
    int value = 0;

    if (n == 0 || n > 6)
        return -1;
    for (size_t i = 0; i < n; i++) {
        if (p[i] < '0' || p[i] > '9')
            return -1;
        value = 10 * value + (p[i] - '0');
    }
    return value;
}

static const unsigned char *find_colon(struct pb_span s)
{
    return s.bytes ? memchr(s.data, ':', s.bytes) : NULL;
}

/* The outputs of these operators have names of their own; of all others the
 * number in a function's reference counts from the first one. */
static int named_output(struct pb_span op, struct pb_span output)
{
    static const struct {
        const char *op, *first;
    } several[] = {{"FusedBatchNorm", "y"},   {"FusedBatchNormV2", "y"},
                   {"FusedBatchNormV3", "y"}, {"TopKV2", "values"},
                   {"TopK", "values"},        {"MaxPoolWithArgmax", "output"},
                   {"Unique", "y"},           {"DecodeWav", "audio"}};

    for (size_t i = 0; i < sizeof several / sizeof *several; i++)
        if (pb_span_is(op, several[i].op))
            return pb_span_is(output, several[i].first) ? 0 : 1;
    return 0;
}

int tf_scope_tensor(const struct tf_graph *g, const struct tf_scope *s,
                    struct pb_span text, struct infer_error *err,
                    struct tf_edge *out)
{
    const unsigned char *colon = find_colon(text);
    struct pb_span name = text, rest = {NULL, 0};

    out->port = 0;
    if (colon) {
        name.bytes = (size_t)(colon - text.data);
        rest.data = text.data + name.bytes + 1;
        rest.bytes = text.bytes - name.bytes - 1;
    }
    out->node = scope_find(g, s, name);
    if (out->node < 0)
        return error_set(err, INFER_EFORMAT, "no node is named '%.*s'",
                         PB_TEXT(name, 128));
    if (colon && s->prefix.bytes) {
        struct pb_span output = rest;

        colon = find_colon(rest);
        if (!colon)
            return error_set(err, INFER_EFORMAT,
                             "input '%.*s' gives no number of an output",
                             PB_TEXT(text, 128));
        output.bytes = (size_t)(colon - rest.data);
        rest.data += output.bytes + 1;
        rest.bytes -= output.bytes + 1;
        out->port = named_output(g->node[out->node].op, output);
    }
    if (colon) {
        const int number = small_number(rest.data, rest.bytes);

        if (number < 0)
            return error_set(err, INFER_EFORMAT,
                             "input '%.*s' gives no number of an output",
                             PB_TEXT(text, 128));
        out->port += number;
    }
    return 0;
}

int tf_tensor(const struct tf_graph *g, struct pb_span text,
              struct infer_error *err, struct tf_edge *out)
{
    const struct tf_scope outermost = {.names = g->names};

    return tf_scope_tensor(g, &outermost, text, err, out);
}

/* Inputs that begin with ^ only order the nodes. */
static int read_inputs(struct tf_graph *g, const struct tf_scope *s, int node,
                       struct infer_error *err)
{
    struct pb_reader r = tf_reader(g, g->node[node].message);
    struct pb_field f;
    int rc;

    g->node[node].first = g->n_edges;
    while ((rc = pb_next(&r, &f, err)) > 0) {
        struct tf_edge e;

        if (f.number != 3)
            continue;
        if (pb_expect(&r, &f, PB_BYTES, "an input", err) < 0)
            return INFER_EFORMAT;
        if (f.span.bytes > 0 && f.span.data[0] == '^')
            continue;
        rc = tf_scope_tensor(g, s, f.span, err, &e);
        if (rc == 0)
            rc = tf_add_edge(g, e, err);
        if (rc < 0) {
            error_prefix(err, "%.*s %.*s", PB_TEXT(g->node[node].op, 128),
                         PB_TEXT(g->node[node].name, 128));
            return rc;
        }
        g->node[node].n_in++;
    }
    return rc;
}

/* ---- scopes -------------------------------------------------------- */

int tf_add_scope(struct tf_graph *g, struct tf_scope *s,
                 struct infer_error *err)
{
    struct pb_reader r = tf_reader(g, s->message);
    struct pb_field f;
    int rc;

    while ((rc = pb_next(&r, &f, err)) > 0) {
        if (f.number != s->field)
            continue;
        rc = pb_expect(&r, &f, PB_BYTES, "a node", err);
        if (rc == 0)
            rc = read_node(g, s, f.span, err);
        if (rc < 0)
            return rc;
    }
    s->end = g->n_nodes;
    if (rc == 0)
        rc = index_names(g, s, err);
    for (int i = s->first + s->n_args; i < s->end && rc == 0; i++)
        rc = read_inputs(g, s, i, err);
    for (int i = s->first + s->n_args; i < s->end && rc == 0; i++)
        rc = tf_expand_call(g, i, s->depth, err);
    return rc;
}

static int read_versions(struct tf_graph *g, const struct pb_reader *outer,
                         const struct pb_field *field, struct infer_error *err)
{
    struct pb_reader r;
    struct pb_field f;
    int rc = pb_enter(outer, field, err, &r);

    if (rc < 0)
        return rc;
    while ((rc = pb_next(&r, &f, err)) > 0)
        if (f.number == 1 && f.wire == PB_VARINT)
            g->producer = (int64_t)f.value;
    return rc;
}

/* Everything of the message but its nodes. */
static int read_rest(struct tf_graph *g, struct pb_span span,
                     struct infer_error *err)
{
    struct pb_reader r = tf_reader(g, span);
    struct pb_field f;
    int rc;

    while ((rc = pb_next(&r, &f, err)) > 0) {
        if (f.number == 2) {
            rc = pb_expect(&r, &f, PB_BYTES, "a library", err);
            if (rc == 0)
                rc = tf_read_library(g, f.span, err);
        } else if (f.number == 4) {
            rc = read_versions(g, &r, &f, err);
        }
        if (rc < 0)
            return rc;
    }
    return rc;
}

int tf_graph_open(struct blob *blob, struct pb_span span,
                  struct infer_error *err, struct tf_graph *g)
{
    struct tf_scope outermost = {.message = span, .field = 1};
    int rc;

    memset(g, 0, sizeof *g);
    if (blob->bytes > INT32_MAX)
        return error_set(err, INFER_EFORMAT,
                         "%zu bytes; a protobuf message ends at 2 GiB",
                         blob->bytes);
    g->blob = blob_ref(blob);
    rc = read_rest(g, span, err);
    if (rc == 0)
        rc = tf_add_scope(g, &outermost, err);
    g->names = outermost.names;
    g->n_outer = outermost.end;
    if (rc == 0 && g->n_nodes == 0)
        rc = error_set(err, INFER_EFORMAT, "the graph has no nodes");
    if (rc < 0)
        tf_graph_close(g);
    return rc;
}

void tf_graph_close(struct tf_graph *g)
{
    free(g->node);
    free(g->edge);
    free(g->function);
    free(g->names.slot);
    onnx_arena_clear(&g->arena);
    blob_unref(g->blob);
    memset(g, 0, sizeof *g);
}

/* ---- looking things up --------------------------------------------- */

int tf_resolve(struct tf_graph *g, struct tf_edge e, struct infer_error *err,
               struct tf_edge *out)
{
    struct tf_edge at = e, next;

    for (int steps = 0; g->node[at.node].alias; steps++) {
        const struct tf_node *n = &g->node[at.node];

        if (at.port >= n->n_in)
            return error_set(err, INFER_EFORMAT,
                             "output %d of %.*s does not exist", at.port,
                             PB_TEXT(n->name, 128));
        if (steps > g->n_nodes)
            return error_set(err, INFER_EFORMAT, "%.*s is part of a cycle",
                             PB_TEXT(n->name, 128));
        at = g->edge[n->first + at.port];
    }
    *out = at;
    for (at = e; g->node[at.node].alias; at = next) {
        next = g->edge[g->node[at.node].first + at.port];
        g->edge[g->node[at.node].first + at.port] = *out;
    }
    return 0;
}

int tf_input(struct tf_graph *g, int node, int i, struct infer_error *err,
             struct tf_edge *out)
{
    const struct tf_node *n = &g->node[node];

    if (i >= n->n_in)
        return error_set(err, INFER_EFORMAT, "input %d is missing", i);
    return tf_resolve(g, g->edge[n->first + i], err, out);
}

int tf_attr_span(const struct tf_graph *g, int node, const char *name,
                 struct infer_error *err, struct pb_span *out)
{
    struct pb_reader r = tf_reader(g, g->node[node].message), entry;
    struct pb_field f, part;
    int rc;

    *out = (struct pb_span){NULL, 0};
    while ((rc = pb_next(&r, &f, err)) > 0) {
        struct pb_span key = {NULL, 0}, value = {NULL, 0};

        if (f.number != 5)
            continue;
        rc = pb_enter(&r, &f, err, &entry);
        while (rc >= 0 && (rc = pb_next(&entry, &part, err)) > 0) {
            if (part.number == 1 && part.wire == PB_BYTES)
                key = part.span;
            else if (part.number == 2 && part.wire == PB_BYTES)
                value = part.span;
        }
        if (rc < 0)
            return rc;
        if (pb_span_is(key, name))
            *out = value;
    }
    return rc;
}
