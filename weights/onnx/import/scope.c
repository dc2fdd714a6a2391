/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs within the graph: bodies of If, Loop and Scan, and functions that the
 * model defines.  Their nodes are imported one by one like those of the model.
 *
 * A body may be imported many times, and the two branches of an If may use the
 * same names.  So each import of a body is a scope: names that are defined in
 * it stand for fresh ones, and other names are looked for outside.  A function
 * sees nothing outside.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/hash.h"
#include "weights/onnx/onnx.h"

#define MAX_DEPTH 32
/* Nodes of all bodies together, each time that they are imported. */
#define MAX_BODY_NODES ((size_t)3 << 14)

struct scope_name {
    struct pb_span own, global;
    bool used;
};

struct onnx_scope {
    const struct onnx_scope *outer;
    const struct onnx_function *function; /* NULL: a body */
    const struct onnx_node *call;         /* of the function */
    int depth;
    struct scope_name *slot;
    size_t count, slots;
};

/* ---- names --------------------------------------------------------- */

static bool same(struct pb_span a, struct pb_span b)
{
    return a.bytes == b.bytes &&
           (a.bytes == 0 || memcmp(a.data, b.data, a.bytes) == 0);
}

static struct scope_name *find_slot(struct scope_name *slot, size_t slots,
                                    struct pb_span name)
{
    size_t i = (size_t)hash_bytes(name.data, name.bytes) & (slots - 1);

    while (slot[i].used && !same(slot[i].own, name))
        i = (i + 1) & (slots - 1);
    return &slot[i];
}

static bool grow(struct onnx_scope *s)
{
    size_t slots = s->slots ? s->slots * 2 : 32;
    struct scope_name *slot;

    if (s->count * 2 < s->slots)
        return true;
    slot = calloc(slots, sizeof *slot);
    if (!slot)
        return false;
    for (size_t i = 0; i < s->slots; i++)
        if (s->slot[i].used)
            *find_slot(slot, slots, s->slot[i].own) = s->slot[i];
    free(s->slot);
    s->slot = slot;
    s->slots = slots;
    return true;
}

/* In this scope `own` stands for `global`; a name that is there stays. */
static int define(struct onnx_import *im, struct onnx_scope *s,
                  struct pb_span own, struct pb_span global)
{
    struct scope_name *at;

    if (im->rc < 0)
        return im->rc;
    if (!grow(s))
        return onnx_no_memory(im);
    at = find_slot(s->slot, s->slots, own);
    if (!at->used) {
        *at = (struct scope_name){own, global, true};
        s->count++;
    }
    return 0;
}

/* What a name stands for where the innermost scope is s. */
static struct pb_span resolve(struct onnx_import *im,
                              const struct onnx_scope *s, struct pb_span name)
{
    const struct scope_name *at;

    if (name.bytes == 0)
        return name;
    for (; s; s = s->outer) {
        at = s->slots ? find_slot(s->slot, s->slots, name) : NULL;
        if (at && at->used)
            return at->global;
        if (s->function) /* a name that nothing has */
            return onnx_fresh_name(im, name);
    }
    return name;
}

/* A fresh name for one that the scope defines. */
static struct pb_span define_fresh(struct onnx_import *im, struct onnx_scope *s,
                                   struct pb_span name)
{
    const struct scope_name *at;

    if (name.bytes == 0 || im->rc < 0)
        return name;
    at = s->slots ? find_slot(s->slot, s->slots, name) : NULL;
    if (at && at->used)
        return at->global;
    define(im, s, name, onnx_fresh_name(im, name));
    return im->rc < 0 ? name : find_slot(s->slot, s->slots, name)->global;
}

/* ---- attributes of a function's call ------------------------------- */

/* The attribute that `ref` asks for: of the call, or the function's default.
 * 1: *out is set; 0: there is none. */
static int call_attr(struct onnx_import *im, const struct onnx_scope *s,
                     struct pb_span ref, struct onnx_attr *out)
{
    for (int i = 0; i < s->call->n_attr; i++) {
        struct onnx_attr *a = &s->call->attr[i];

        if (pb_span_is(ref, a->name)) {
            a->used = true;
            *out = *a;
            return 1;
        }
    }
    for (size_t i = 0; i < s->function->attr.count; i++) {
        im->rc = onnx_attr_parse(im->model, s->function->attr.item[i],
                                 &im->scratch, im->err, out);
        if (im->rc < 0 || pb_span_is(ref, out->name))
            return im->rc < 0 ? im->rc : 1;
    }
    return 0;
}

/* Puts the call's attributes in place of those that refer to them. */
static int fill_attributes(struct onnx_import *im, struct onnx_node *node)
{
    const struct onnx_scope *s = im->scope;
    int kept = 0, rc;

    while (s && !s->function)
        s = s->outer;
    for (int i = 0; i < node->n_attr; i++) {
        struct onnx_attr own = node->attr[i];

        if (own.ref.bytes > 0) {
            if (!s)
                return onnx_fail(im, INFER_EFORMAT,
                                 "attribute '%s' refers to a function's "
                                 "(ref_attr_name) outside a function",
                                 own.name);
            rc = call_attr(im, s, own.ref, &node->attr[i]);
            if (rc < 0)
                return rc;
            if (rc == 0) /* absent in the call, so absent here */
                continue;
            node->attr[i].name = own.name;
            node->attr[i].used = false;
        }
        node->attr[kept++] = node->attr[i];
    }
    node->n_attr = kept;
    return 0;
}

int onnx_scope_node(struct onnx_import *im, struct onnx_node *node)
{
    for (int i = 0; im->scope && i < node->n_in; i++)
        node->in[i] = resolve(im, im->scope, node->in[i]);
    for (int i = 0; im->scope && i < node->n_out; i++)
        node->out[i] = define_fresh(im, im->scope, node->out[i]);
    return im->rc < 0 ? im->rc : fill_attributes(im, node);
}

/* ---- bodies -------------------------------------------------------- */

/* Name of input or output i of a body. */
static int part_name(struct onnx_import *im, const struct onnx_scope *s,
                     struct pb_span item, struct pb_span *out)
{
    struct onnx_value_info info;

    *out = item;
    if (s->function || im->rc < 0)
        return im->rc;
    im->rc = onnx_value_info_parse(im->model, item, im->err, &info);
    *out = info.name;
    return im->rc;
}

static int add_inputs(struct onnx_import *im, struct onnx_scope *s,
                      const struct onnx_graph *body, const struct pb_span *arg,
                      int n)
{
    struct pb_span name;

    for (int i = 0; i < (int)body->input.count && im->rc == 0; i++)
        if (part_name(im, s, body->input.item[i], &name) == 0 && name.bytes > 0)
            define(im, s, name, i < n ? arg[i] : (struct pb_span){NULL, 0});
    return im->rc;
}

static int add_initializers(struct onnx_import *im, struct onnx_scope *s,
                            const struct onnx_list *list,
                            const struct onnx_list *names, bool is_sparse)
{
    for (size_t i = 0; i < list->count && im->rc == 0; i++) {
        const struct pb_span own = names->item[i];
        struct pb_span name;
        int v;

        if (own.bytes == 0)
            return onnx_fail(im, INFER_EFORMAT, "initializer %zu has no name",
                             i);
        name = define_fresh(im, s, own);
        if (im->rc < 0 || onnx_value_get(im, name, &v) < 0)
            return im->rc;
        if (im->value[v].state != ONNX_UNKNOWN)
            return onnx_fail(im, INFER_EFORMAT,
                             "two tensors of a body are named '%.*s'",
                             PB_TEXT(own, 128));
        im->value[v].state = ONNX_LAZY;
        im->value[v].tensor = list->item[i];
        im->value[v].is_sparse = is_sparse;
    }
    return im->rc;
}

static int find_results(struct onnx_import *im, const struct onnx_scope *s,
                        const struct onnx_graph *body, struct pb_span *result,
                        int n)
{
    for (int i = 0; i < n; i++) {
        struct pb_span own;
        int v;

        if (part_name(im, s, body->output.item[i], &own) < 0)
            return im->rc;
        result[i] = resolve(im, s, own);
        v = onnx_value_find(im, result[i]);
        if (im->rc == 0 && (v < 0 || im->value[v].state == ONNX_UNKNOWN))
            onnx_fail(im, INFER_EFORMAT, "nothing produces output '%.*s'",
                      PB_TEXT(own, 128));
        if (im->rc < 0)
            return im->rc;
        im->skip |= im->value[v].state == ONNX_FAILED;
    }
    return 0;
}

/* Inputs, initializers, nodes and outputs, in the scope s. */
static int run(struct onnx_import *im, struct onnx_scope *s,
               const struct onnx_graph *body, const struct pb_span *arg,
               int n_args, struct pb_span *result, int n_results)
{
    const struct onnx_node *own = im->node;
    const struct onnx_arena scratch = im->scratch;
    struct onnx_scope *const outer = im->scope;
    const int emitted = im->emitted;
    int refused = 0;

    if (add_inputs(im, s, body, arg, n_args) < 0 ||
        add_initializers(im, s, &body->initializer, &body->initializer_name,
                         false) < 0 ||
        add_initializers(im, s, &body->sparse, &body->sparse_name, true) < 0)
        return im->rc;
    im->scratch = (struct onnx_arena){NULL};
    im->scope = s;
    im->rc = onnx_import_list(im, &body->node, &refused);
    im->scope = outer;
    onnx_arena_clear(&im->scratch);
    im->scratch = scratch;
    im->node = own;
    im->emitted = emitted;
    im->skip |= refused < 0;
    return im->rc < 0 || im->skip
               ? im->rc
               : find_results(im, s, body, result, n_results);
}

static int run_in_scope(struct onnx_import *im, const struct onnx_graph *body,
                        const struct onnx_function *function,
                        const struct pb_span *arg, int n_args,
                        struct pb_span *result, int n_results)
{
    struct onnx_scope s = {.outer = im->scope,
                           .function = function,
                           .call = function ? im->node : NULL,
                           .depth = im->scope ? im->scope->depth + 1 : 1};

    if (im->rc < 0)
        return im->rc;
    if (s.depth > MAX_DEPTH)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "more than %d graphs in one another", MAX_DEPTH);
    if (body->node.count > MAX_BODY_NODES - im->body_nodes)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "more than %zu nodes once loops are unrolled and "
                         "functions put in place",
                         MAX_BODY_NODES);
    im->body_nodes += body->node.count;
    run(im, &s, body, arg, n_args, result, n_results);
    free(s.slot);
    return im->rc;
}

int onnx_import_body(struct onnx_import *im, const struct onnx_graph *body,
                     const struct pb_span *arg, int n_args,
                     struct pb_span *result, int n_results)
{
    if ((int)body->input.count != n_args || (int)body->output.count < n_results)
        return onnx_fail(im, INFER_EFORMAT,
                         "a body of %zu inputs and %zu outputs, expected %d "
                         "and %d",
                         body->input.count, body->output.count, n_args,
                         n_results);
    return run_in_scope(im, body, NULL, arg, n_args, result, n_results);
}

int onnx_body_attr(struct onnx_import *im, const char *name,
                   const struct onnx_graph **out)
{
    const struct onnx_attr *a = onnx_attr(im, name);

    if (im->rc < 0)
        return im->rc;
    if (!im->model)
        return onnx_fail(im, INFER_EUNSUPPORTED, "a graph in another format");
    if (!a || a->type != ONNX_ATTR_GRAPH)
        return onnx_fail(im, INFER_EFORMAT, "attribute '%s' %s", name,
                         a ? "is no graph" : "is missing");
    return im->rc = onnx_model_body(im->model, a->s, im->err, out);
}

/* ---- functions ----------------------------------------------------- */

const struct onnx_function *onnx_function_find(const struct onnx_import *im)
{
    const struct onnx_node *n = im->node;

    for (size_t i = 0; im->model && i < im->model->functions; i++) {
        const struct onnx_function *f = &im->model->function[i];

        if (pb_span_is(f->graph.name, n->op) &&
            pb_span_is(f->domain, n->domain) && same(f->overload, n->overload))
            return f;
    }
    return NULL;
}

int onnx_import_function(struct onnx_import *im, const struct onnx_function *f)
{
    const int64_t opset = im->opset;
    const int n = im->node->n_out;
    struct pb_span *result;

    if (im->node->n_in > (int)f->graph.input.count ||
        n > (int)f->graph.output.count)
        return onnx_fail(im, INFER_EFORMAT,
                         "%d inputs and %d outputs for a function of %zu and "
                         "%zu",
                         im->node->n_in, n, f->graph.input.count,
                         f->graph.output.count);
    result = onnx_alloc(&im->scratch, (size_t)n * sizeof *result);
    if (!result)
        return onnx_no_memory(im);
    for (int i = 0; i < im->node->n_attr; i++)
        im->node->attr[i].used = true;
    if (f->opset > 0)
        im->opset = f->opset;
    run_in_scope(im, &f->graph, f, im->node->in, im->node->n_in, result, n);
    im->opset = opset;
    for (int i = 0; i < n && im->rc == 0 && !im->skip; i++)
        if (onnx_has_output(im, i))
            onnx_step(im, "Identity", &result[i], 1, im->node->out[i], NULL, 0);
    return im->rc;
}
