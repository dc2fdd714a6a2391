/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of a graph's library, expanded where they are called. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "weights/tensorflow/graphdef.h"

/* ---- library ------------------------------------------------------- */

static int compare_names(const void *a, const void *b)
{
    const struct pb_span x = ((const struct tf_function *)a)->name;
    const struct pb_span y = ((const struct tf_function *)b)->name;
    const size_t n = x.bytes < y.bytes ? x.bytes : y.bytes;
    const int order = n ? memcmp(x.data, y.data, n) : 0;

    return order != 0 ? order : (x.bytes > y.bytes) - (x.bytes < y.bytes);
}

/* Name of an OpDef. */
static int signature_name(const struct pb_reader *outer,
                          const struct pb_field *field, struct infer_error *err,
                          struct pb_span *out)
{
    struct pb_reader r;
    struct pb_field f;
    int rc = pb_enter(outer, field, err, &r);

    while (rc >= 0 && (rc = pb_next(&r, &f, err)) > 0)
        if (f.number == 1 && f.wire == PB_BYTES)
            *out = f.span;
    return rc;
}

static int function_name(const struct tf_graph *g, struct pb_span function,
                         struct infer_error *err, struct pb_span *out)
{
    struct pb_reader r = tf_reader(g, function);
    struct pb_field f;
    int rc;

    *out = (struct pb_span){NULL, 0};
    while ((rc = pb_next(&r, &f, err)) > 0) {
        if (f.number == 1)
            rc = signature_name(&r, &f, err, out);
        if (rc < 0)
            return rc;
    }
    return rc;
}

int tf_read_library(struct tf_graph *g, struct pb_span library,
                    struct infer_error *err)
{
    struct pb_reader r = tf_reader(g, library);
    struct pb_field f;
    int rc, capacity = 0;

    if (g->function)
        return error_set(err, INFER_EFORMAT, "two libraries of functions");
    while ((rc = pb_next(&r, &f, err)) > 0) {
        struct tf_function function;

        if (f.number != 1)
            continue; /* gradients */
        rc = pb_expect(&r, &f, PB_BYTES, "a function", err);
        if (rc == 0)
            rc = function_name(g, f.span, err, &function.name);
        if (rc < 0)
            return rc;
        function.message = f.span;
        if (g->n_functions == capacity) {
            void *p;

            capacity = capacity ? 2 * capacity : 64;
            if (capacity > TF_MAX_NODES)
                return error_set(err, INFER_EUNSUPPORTED,
                                 "more than %d functions", TF_MAX_NODES);
            p = realloc(g->function, (size_t)capacity * sizeof *g->function);
            if (!p)
                return error_set(err, INFER_EMEMORY, "out of memory");
            g->function = p;
        }
        g->function[g->n_functions++] = function;
    }
    if (g->n_functions > 0)
        qsort(g->function, (size_t)g->n_functions, sizeof *g->function,
              compare_names);
    return rc;
}

static const struct tf_function *find_function(const struct tf_graph *g,
                                               struct pb_span name)
{
    const struct tf_function key = {.name = name};

    if (g->n_functions == 0)
        return NULL;
    return bsearch(&key, g->function, (size_t)g->n_functions,
                   sizeof *g->function, compare_names);
}

/* ---- calls --------------------------------------------------------- */

/* Name of a NameAttrList, the value `func` of an attribute. */
static int func_name(const struct tf_graph *g, struct pb_span value,
                     struct infer_error *err, struct pb_span *out)
{
    struct pb_reader r = tf_reader(g, value);
    struct pb_field f;
    int rc;

    while ((rc = pb_next(&r, &f, err)) > 0) {
        if (f.number == 10) /* a NameAttrList begins as an OpDef does */
            rc = signature_name(&r, &f, err, out);
        if (rc < 0)
            return rc;
    }
    return rc;
}

int tf_function_of(const struct tf_graph *g, int node, const char *attr,
                   struct infer_error *err, struct pb_span *out)
{
    struct pb_span value;
    const int rc = tf_attr_span(g, node, attr, err, &value);

    *out = (struct pb_span){NULL, 0};
    return rc < 0 ? rc : func_name(g, value, err, out);
}

int tf_called(const struct tf_graph *g, int node, struct infer_error *err,
              struct pb_span *out)
{
    const struct pb_span op = g->node[node].op;
    int rc;

    *out = (struct pb_span){NULL, 0};
    if (pb_span_is(op, "StatefulPartitionedCall") ||
        pb_span_is(op, "PartitionedCall")) {
        rc = tf_function_of(g, node, "f", err, out);
        return rc < 0 ? rc : 1;
    }
    *out = op;
    return find_function(g, op) != NULL;
}

/* The arguments and results of a function: names of an OpDef. */
struct signature {
    struct pb_span in[TF_MAX_ARGS], out[TF_MAX_RESULTS];
    /* Map `ret`: the results' names and what they are in the body. */
    struct pb_span ret[TF_MAX_RESULTS], value[TF_MAX_RESULTS];
    int n_in, n_out, n_ret;
};

/* Name of an ArgDef added to a list. */
static int add_argument(const struct pb_reader *outer,
                        const struct pb_field *field, struct pb_span *list,
                        int *n, int max, struct infer_error *err)
{
    int rc;

    if (*n == max)
        return error_set(err, INFER_EUNSUPPORTED,
                         "a function of more than %d arguments or results",
                         max);
    list[*n] = (struct pb_span){NULL, 0};
    rc = signature_name(outer, field, err, &list[*n]);
    if (rc == 0)
        ++*n;
    return rc;
}

static int read_op_def(const struct pb_reader *outer,
                       const struct pb_field *field, struct signature *s,
                       struct infer_error *err)
{
    struct pb_reader r;
    struct pb_field f;
    int rc = pb_enter(outer, field, err, &r);

    while (rc >= 0 && (rc = pb_next(&r, &f, err)) > 0) {
        if (f.number == 2)
            rc = add_argument(&r, &f, s->in, &s->n_in, TF_MAX_ARGS, err);
        else if (f.number == 3)
            rc = add_argument(&r, &f, s->out, &s->n_out, TF_MAX_RESULTS, err);
    }
    return rc;
}

static int read_ret(const struct pb_reader *outer, const struct pb_field *field,
                    struct signature *s, struct infer_error *err)
{
    struct pb_reader r;
    struct pb_field f;
    int rc = pb_enter(outer, field, err, &r);

    if (rc == 0 && s->n_ret == TF_MAX_RESULTS)
        rc = error_set(err, INFER_EUNSUPPORTED,
                       "a function of more than %d results", TF_MAX_RESULTS);
    if (rc < 0)
        return rc;
    s->ret[s->n_ret] = s->value[s->n_ret] = (struct pb_span){NULL, 0};
    while ((rc = pb_next(&r, &f, err)) > 0) {
        if (f.number == 1 && f.wire == PB_BYTES)
            s->ret[s->n_ret] = f.span;
        else if (f.number == 2 && f.wire == PB_BYTES)
            s->value[s->n_ret] = f.span;
    }
    s->n_ret++;
    return rc;
}

static int read_signature(const struct tf_graph *g, struct pb_span function,
                          struct signature *s, struct infer_error *err)
{
    struct pb_reader r = tf_reader(g, function);
    struct pb_field f;
    int rc;

    s->n_in = s->n_out = s->n_ret = 0;
    while ((rc = pb_next(&r, &f, err)) > 0) {
        if (f.number == 1)
            rc = read_op_def(&r, &f, s, err);
        else if (f.number == 4)
            rc = read_ret(&r, &f, s, err);
        if (rc < 0)
            return rc;
    }
    return rc;
}

/* A node for each argument, which is the call's input. */
static int add_arguments(struct tf_graph *g, int call,
                         const struct signature *s, struct tf_scope *scope,
                         struct infer_error *err)
{
    if (s->n_in != g->node[call].n_in)
        return error_set(err, INFER_EFORMAT,
                         "%d inputs for a function of %d arguments",
                         g->node[call].n_in, s->n_in);
    scope->first = g->n_nodes;
    scope->n_args = s->n_in;
    for (int i = 0; i < s->n_in; i++) {
        struct tf_node node = {.alias = true, .n_in = 1};
        const size_t skip = scope->prefix.bytes + 1;
        const size_t bytes = skip + s->in[i].bytes;
        unsigned char *p;

        if (bytes > ONNX_MAX_NAME || bytes > TF_MAX_NAMES - g->made)
            return error_set(err, INFER_EUNSUPPORTED,
                             "names of arguments take too much room");
        p = onnx_alloc(&g->arena, bytes);
        if (!p)
            return error_set(err, INFER_EMEMORY, "out of memory");
        g->made += bytes;
        memcpy(p, scope->prefix.data, skip - 1);
        p[skip - 1] = '/';
        if (s->in[i].bytes)
            memcpy(p + skip, s->in[i].data, s->in[i].bytes);
        node.name = (struct pb_span){p, bytes};
        node.op = (struct pb_span){(unsigned char *)"_Arg", 4};
        node.first = g->n_edges;
        int rc = tf_add_edge(g, g->edge[g->node[call].first + i], err);
        if (rc == 0)
            rc = tf_add_node(g, &node, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* The call becomes an alias of what its function returns. */
static int bind_results(struct tf_graph *g, int call, const struct signature *s,
                        const struct tf_scope *scope, struct infer_error *err)
{
    const int first = g->n_edges;

    for (int i = 0; i < s->n_out; i++) {
        struct tf_edge e;
        int k = 0, rc;

        while (k < s->n_ret && !tf_same(s->ret[k], s->out[i]))
            k++;
        if (k == s->n_ret)
            return error_set(err, INFER_EFORMAT, "result %d is not given", i);
        rc = tf_scope_tensor(g, scope, s->value[k], err, &e);
        if (rc == 0)
            rc = tf_add_edge(g, e, err);
        if (rc < 0)
            return rc;
    }
    g->node[call].first = first;
    g->node[call].n_in = s->n_out;
    g->node[call].alias = true;
    return 0;
}

static int expand(struct tf_graph *g, int call, const struct tf_function *f,
                  struct signature *s, int depth, struct infer_error *err)
{
    struct tf_scope scope = {.message = f->message,
                             .field = 3,
                             .prefix = g->node[call].name,
                             .depth = depth + 1};
    int rc;

    /* Each call reads the function again: small files could call large
     * functions very often. */
    g->scanned += f->message.bytes;
    if (depth >= TF_MAX_DEPTH)
        return error_set(err, INFER_EUNSUPPORTED,
                         "functions call each other deeper than %d",
                         TF_MAX_DEPTH);
    if (g->scanned > 64 * (uint64_t)g->blob->bytes + ((uint64_t)1 << 20))
        return error_set(err, INFER_EUNSUPPORTED,
                         "functions are called too often");
    rc = add_arguments(g, call, s, &scope, err);
    if (rc == 0)
        rc = tf_add_scope(g, &scope, err);
    if (rc == 0) {
        rc = read_signature(g, f->message, s, err);
        if (rc == 0)
            rc = bind_results(g, call, s, &scope, err);
    }
    free(scope.names.slot);
    return rc;
}

int tf_expand_call(struct tf_graph *g, int node, int depth,
                   struct infer_error *err)
{
    struct pb_span name;
    int rc;

    if (tf_is_loop(g->node[node].op))
        return tf_expand_loop(g, node, depth, err);
    rc = tf_called(g, node, err, &name);
    return rc <= 0 ? rc : tf_expand_function(g, node, name, depth, err);
}

int tf_expand_function(struct tf_graph *g, int node, struct pb_span name,
                       int depth, struct infer_error *err)
{
    const struct tf_function *f = find_function(g, name);
    struct signature *s;
    int rc;

    if (!f)
        return error_set(err, INFER_EFORMAT,
                         "%.*s: the library has no function '%.*s'",
                         PB_TEXT(g->node[node].name, 128), PB_TEXT(name, 128));
    s = malloc(sizeof *s);
    if (!s)
        return error_set(err, INFER_EMEMORY, "out of memory");
    rc = read_signature(g, f->message, s, err);
    if (rc == 0)
        rc = expand(g, node, f, s, depth, err);
    if (rc < 0)
        error_prefix(err, "function '%.*s'", PB_TEXT(name, 128));
    else
        g->n_expanded++;
    free(s);
    return rc;
}
