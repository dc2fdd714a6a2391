/* SPDX-License-Identifier: Apache-2.0 */
/* Readers of layer lists: nodes, shapes and constants. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/array_bytes.h"
#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "kernels/base/text.h"
#include "libinfer/graph/ops/op.h"
#include "weights/layers/layers.h"

/* ---- failing ------------------------------------------------------- */

int layers_fail(struct layers *b, int code, const char *fmt, ...)
{
    char text[512];
    va_list args;

    if (b->status < 0)
        return b->status;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    b->status = code;
    if (b->kind.bytes > 0)
        error_set(b->err, code, "OP %.*s '%s': %s", LAYERS_SHOW(b->kind),
                  b->name, text);
    else
        error_set(b->err, code, "%s", text);
    return code;
}

int layers_no_room(struct layers *b)
{
    if (b->status == 0)
        b->status = graph_no_room(b->g, b->err);
    return b->status;
}

/* A name as UTF-8; what is not becomes question marks, what does not fit is cut
 * off. */
static void copy_name(char *out, size_t room, struct layers_text name)
{
    size_t at = 0, used = 0;

    while (at < name.bytes) {
        uint32_t code = 0;
        const size_t n = text_utf8(name.data + at, name.bytes - at, &code);
        const size_t bytes = n > 0 ? n : 1;

        if (used + bytes >= room)
            break;
        if (n == 0 || code == 0)
            out[used] = '?';
        else
            memcpy(out + used, name.data + at, bytes);
        used += bytes;
        at += bytes;
    }
    out[used] = '\0';
}

void layers_begin(struct layers *b, struct layers_text kind,
                  struct layers_text name)
{
    copy_name(b->name, sizeof(b->name), name);
    b->kind = kind;
}

/* ---- shapes -------------------------------------------------------- */

int layers_rank(const struct layers *b, int value)
{
    return value >= 0 ? b->g->value[value].rank : -1;
}

int64_t layers_dim(const struct layers *b, int value, int i)
{
    if (value < 0 || i < 0 || i >= b->g->value[value].rank)
        return -1;
    return b->g->value[value].dim[i];
}

int64_t layers_known(struct layers *b, int value, int i)
{
    const int64_t n = layers_dim(b, value, i);

    if (n < 0)
        layers_fail(b, INFER_EUNSUPPORTED,
                    "needs the size of dimension %d of its input: state it "
                    "with --input-shape",
                    i);
    return n;
}

int64_t layers_count(struct layers *b, int value, int from)
{
    int64_t n = 1;
    int i;

    for (i = from; i < layers_rank(b, value); i++) {
        const int64_t d = layers_known(b, value, i);

        if (d < 0)
            return -1;
        if (!checked_mul_i64(n, d, &n)) {
            layers_fail(b, INFER_EFORMAT, "its input is too large");
            return -1;
        }
    }
    return n;
}

/* The shape rule of one node; its outputs get their types. */
static int infer_node(struct layers *b, int node)
{
    const struct graph_node *n = &b->g->node[node];
    const size_t in = (size_t)n->n_in + KERN_MAX_IN, out = (size_t)n->n_out;
    struct graph_type *type = calloc(in + out, sizeof(*type));
    struct constant **data = calloc(in, sizeof(*data));
    struct graph_shape_args args = {
        .node = n, .attr = &n->attr, .n_in = n->n_in, .n_out = n->n_out};
    struct infer_error err = {0};
    int i, rc;

    if (type == NULL || data == NULL) {
        free(type);
        free(data);
        return layers_no_room(b);
    }
    for (i = 0; (size_t)i < in + out; i++)
        type[i].rank = -1;
    for (i = 0; i < n->n_in; i++) {
        const struct graph_value *v =
            n->in[i] >= 0 ? &b->g->value[n->in[i]] : NULL;

        if (v == NULL)
            continue;
        type[i].dtype = v->dtype;
        type[i].rank = v->rank;
        memcpy(type[i].dim, v->dim, sizeof(v->dim));
        data[i] = v->data;
    }
    args.in = type;
    args.data = data;
    args.out = type + in;
    rc = graph_op_info(n->op)->infer_shape(&args, &err);
    if (rc < 0)
        layers_fail(b, rc, "%s", err.text);
    for (i = 0; rc == 0 && i < n->n_out; i++) {
        const struct graph_type *t = &args.out[i];
        struct graph_value *v = &b->g->value[n->out[i]];

        if (!op_is_possible(t))
            rc = layers_fail(b, INFER_EFORMAT,
                             "its output is of unknown or impossible size");
        v->dtype = t->dtype;
        v->rank = t->rank;
        memcpy(v->dim, t->dim, sizeof(v->dim));
    }
    free(type);
    free(data);
    return rc;
}

/* ---- inputs and outputs -------------------------------------------- */

static const struct weights_input_shape *given_shape(const struct layers *b,
                                                     struct layers_text name)
{
    const struct weights_options *o = b->options;
    int i;

    for (i = 0; o != NULL && i < o->input_count; i++) {
        const struct weights_input_shape *s = &o->input_shape[i];

        if (s->name ? layers_text_is(name, s->name) : i == b->g->n_inputs)
            return s;
    }
    return NULL;
}

int layers_input(struct layers *b, struct layers_text name, int rank,
                 const int64_t *dim)
{
    const struct weights_input_shape *given = given_shape(b, name);
    int64_t shape[INFER_MAX_RANK], count;
    char text[256];
    int i, v;

    if (b->status < 0)
        return b->status;
    if (b->g->n_inputs == GRAPH_MAX_INPUTS)
        return layers_fail(b, INFER_EUNSUPPORTED, "more than %d inputs",
                           GRAPH_MAX_INPUTS);
    memcpy(shape, dim, (size_t)rank * sizeof(*dim));
    if (given != NULL && given->rank != rank)
        return layers_fail(b, INFER_EARGUMENT,
                           "--input-shape has rank %d, the model wants %d",
                           given->rank, rank);
    for (i = 1; given != NULL && i < rank; i++) {
        if (i == 1 && given->dim[i] >= 0 && shape[i] >= 0 &&
            given->dim[i] != shape[i])
            return layers_fail(
                b, INFER_EARGUMENT,
                "--input-shape has %lld in dimension 1, the model wants %lld",
                (long long)given->dim[i], (long long)shape[i]);
        if (i > 1 || shape[i] < 0)
            shape[i] = given->dim[i];
    }
    shape[0] = -1; /* any batch */
    for (i = 1, count = 1; i < rank; i++)
        if (shape[i] != -1 &&
            (shape[i] < 1 || !checked_mul_i64(count, shape[i], &count) ||
             count > OP_MAX_COUNT))
            return layers_fail(b, INFER_EFORMAT,
                               "input '%.*s' has an impossible size",
                               LAYERS_SHOW(name));
    copy_name(text, sizeof(text), name);
    v = graph_add_input(b->g, text, INFER_F32, rank, shape);
    if (v == INFER_EARGUMENT)
        return layers_fail(b, INFER_EFORMAT, "two inputs are named '%s'", text);
    return v < 0 ? layers_no_room(b) : v;
}

/* Takes a name from the inner value that has it. */
static void free_name(struct layers *b, const char *name)
{
    const int old = graph_find_value(b->g, name);
    char text[320];

    if (old < 0 || b->g->value[old].producer < 0 || graph_is_output(b->g, old))
        return;
    snprintf(text, sizeof(text), "%s/inner", name);
    if (graph_rename_value(b->g, old, text) < 0)
        return; /* the output keeps its layer's name */
}

int layers_output(struct layers *b, int value, struct layers_text name)
{
    char text[256];
    int v = value;

    if (b->status < 0)
        return b->status;
    if (b->g->n_outputs == GRAPH_MAX_INPUTS)
        return layers_fail(b, INFER_EUNSUPPORTED, "more than %d outputs",
                           GRAPH_MAX_INPUTS);
    /* An input or a constant as it is, or an output twice. */
    if (b->g->value[v].producer < 0 || graph_is_output(b->g, v))
        v = layers_unary(b, "output", v, KERN_IDENTITY, 0, 0);
    copy_name(text, sizeof(text), name);
    if (v >= 0 && text[0] != '\0' && strcmp(b->g->value[v].name, text) != 0) {
        free_name(b, text);
        (void)graph_rename_value(b->g, v, text); /* may be taken */
    }
    if (v >= 0 && graph_add_output(b->g, v) < 0)
        return layers_no_room(b);
    return v;
}

/* ---- nodes --------------------------------------------------------- */

union graph_attr layers_defaults(enum graph_op op)
{
    return graph_op_info(op)->defaults;
}

/* A value called "layer/role", or by a fresh name where that is taken. */
static int new_value(struct layers *b, const char *role)
{
    char name[320];
    int v;

    snprintf(name, sizeof(name), "%s%s%s", b->name, *role ? "/" : "", role);
    v = name[0] != '\0' ? graph_add_value(b->g, name) : INFER_EARGUMENT;
    if (v == INFER_EARGUMENT)
        v = graph_add_value(b->g, NULL);
    return v < 0 ? layers_no_room(b) : v;
}

int layers_emit_all(struct layers *b, enum graph_op op, const char *role,
                    const union graph_attr *attr, const int *in, int n_in,
                    int *out, int n_out)
{
    int i, node;

    if (b->status < 0)
        return b->status;
    for (i = 0; i < n_out; i++) {
        out[i] = new_value(b, role);
        if (out[i] < 0)
            return out[i];
    }
    node = graph_add_node(b->g, op, b->g->value[out[0]].name, in, n_in, out,
                          n_out);
    if (node == INFER_EARGUMENT)
        node = graph_add_node(b->g, op, NULL, in, n_in, out, n_out);
    if (node < 0)
        return layers_no_room(b);
    if (attr != NULL)
        b->g->node[node].attr = *attr;
    return infer_node(b, node);
}

int layers_emit(struct layers *b, enum graph_op op, const char *role,
                const union graph_attr *attr, const int *in, int n_in)
{
    int out = -1;
    const int rc = layers_emit_all(b, op, role, attr, in, n_in, &out, 1);

    return rc < 0 ? rc : out;
}

int layers_unary(struct layers *b, const char *role, int x,
                 enum kern_unary_kind kind, float a, float c)
{
    union graph_attr attr = layers_defaults(GRAPH_UNARY);

    /* Products of numbers of the file; a clip may be open at an end. */
    if (kind != KERN_CLIP && !(isfinite(a) && isfinite(c)))
        return layers_fail(b, INFER_EFORMAT, "a parameter is not finite");
    attr.unary = (struct kern_unary){kind, a, c};
    return layers_emit(b, GRAPH_UNARY, role, &attr, &x, 1);
}

int layers_binary(struct layers *b, const char *role,
                  enum kern_binary_kind kind, int x, int y)
{
    union graph_attr attr = layers_defaults(GRAPH_BINARY);
    const int in[2] = {x, y};

    attr.binary.kind = kind;
    return layers_emit(b, GRAPH_BINARY, role, &attr, in, 2);
}

int layers_dims(struct layers *b, enum graph_op op, const char *role, int x,
                int n, const int64_t *dim)
{
    union graph_attr attr = layers_defaults(op);

    attr.dims.n = n;
    memcpy(attr.dims.dim, dim, (size_t)n * sizeof(*dim));
    return layers_emit(b, op, role, &attr, &x, 1);
}

int layers_flatten(struct layers *b, const char *role, int x)
{
    union graph_attr attr = layers_defaults(GRAPH_FLATTEN);

    if (layers_rank(b, x) == 2)
        return x;
    attr.axis.axis = 1;
    return layers_emit(b, GRAPH_FLATTEN, role, &attr, &x, 1);
}

int layers_slice(struct layers *b, const char *role, int x, int axis,
                 int64_t begin, int64_t end, int64_t step)
{
    union graph_attr attr = layers_defaults(GRAPH_SLICE);

    attr.slice.n_axes = 1;
    attr.slice.axis[0] = axis;
    attr.slice.begin[0] = begin;
    attr.slice.end[0] = end;
    attr.slice.step[0] = step;
    return layers_emit(b, GRAPH_SLICE, role, &attr, &x, 1);
}

/* By a list of the channels in their new order. */
static int shuffle_by_index(struct layers *b, int x, int64_t c, int64_t groups)
{
    union graph_attr attr = layers_defaults(GRAPH_GATHER);
    struct constant *order = layers_new(b, INFER_I64, 1, &c);
    int64_t i, from;
    int in[2];

    if (order == NULL)
        return b->status;
    for (i = 0; i < c; i++) {
        from = i % groups * (c / groups) + i / groups;
        memcpy(order->data + (size_t)i * sizeof(from), &from, sizeof(from));
    }
    attr.axis.axis = 1;
    in[0] = x;
    in[1] = layers_constant(b, "order", order);
    return layers_emit(b, GRAPH_GATHER, "", &attr, in, 2);
}

int layers_shuffle(struct layers *b, int x, int64_t groups)
{
    static const int64_t order[] = {0, 2, 1, 3, 4};
    const int64_t c = layers_known(b, x, 1);
    const int64_t h = layers_dim(b, x, 2), w = layers_dim(b, x, 3);
    const int64_t back[] = {0, c, h, w};
    int64_t dim[] = {0, groups, 0, h, w};

    if (b->status < 0)
        return b->status;
    if (c % groups != 0)
        return layers_fail(b, INFER_EFORMAT, "%lld channels in %lld groups",
                           (long long)c, (long long)groups);
    if (h < 0 || w < 0)
        return shuffle_by_index(b, x, c, groups);
    dim[2] = c / groups;
    x = layers_dims(b, GRAPH_RESHAPE, "groups", x, 5, dim);
    x = layers_dims(b, GRAPH_TRANSPOSE, "shuffle", x, 5, order);
    return layers_dims(b, GRAPH_RESHAPE, "", x, 4, back);
}

int layers_lrn_within(struct layers *b, int x, int size, float alpha,
                      float beta, float bias)
{
    union graph_attr attr = layers_defaults(GRAPH_POOL);
    int y, power;

    attr.pool.pool.kind = KERN_POOL_AVERAGE;
    attr.pool.pool.count_include_pad = true;
    for (int i = 0; i < 2; i++) {
        attr.pool.pool.window[i] = size;
        attr.pool.pool.pad_begin[i] = attr.pool.pool.pad_end[i] =
            (size - 1) / 2;
    }
    y = layers_binary(b, "square", KERN_MUL, x, x);
    y = layers_emit(b, GRAPH_POOL, "mean", &attr, &y, 1);
    y = layers_unary(b, "sum", y, KERN_LINEAR, alpha, bias);
    power = layers_filled(b, "power", 1, -beta);
    y = layers_binary(b, "factor", KERN_POW, y, power);
    return layers_binary(b, "", KERN_MUL, x, y);
}

/* ---- constants ----------------------------------------------------- */

int layers_constant(struct layers *b, const char *suffix, struct constant *c)
{
    char name[320];
    int v;

    if (b->status < 0) {
        constant_unref(c);
        return b->status;
    }
    if (c == NULL)
        return layers_no_room(b);
    snprintf(name, sizeof(name), "%s.%s", b->name, suffix);
    v = graph_add_constant(b->g, name, constant_ref(c));
    if (v == INFER_EARGUMENT)
        v = graph_add_constant(b->g, NULL, constant_ref(c));
    constant_unref(c);
    return v < 0 ? layers_no_room(b) : v;
}

int layers_unbound(struct layers *b, const char *suffix, int rank,
                   const int64_t *dim)
{
    struct graph_value *v;
    char name[320];
    int value;

    if (b->status < 0)
        return b->status;
    snprintf(name, sizeof(name), "%s.%s", b->name, suffix);
    value = graph_add_value(b->g, name);
    if (value == INFER_EARGUMENT)
        value = graph_add_value(b->g, NULL);
    if (value < 0)
        return layers_no_room(b);
    v = &b->g->value[value];
    v->dtype = INFER_F32;
    v->rank = rank;
    memcpy(v->dim, dim, (size_t)rank * sizeof(*dim));
    return value;
}

struct constant *layers_new(struct layers *b, enum infer_dtype dtype, int rank,
                            const int64_t *dim)
{
    struct constant *c = NULL;
    const size_t bytes = array_bytes(dtype, rank, dim);

    if (b->status < 0)
        return NULL;
    if (bytes > LAYERS_MAX_MADE - b->made) {
        layers_fail(b, INFER_EUNSUPPORTED,
                    "constants that no file holds would take over %zu bytes",
                    LAYERS_MAX_MADE);
        return NULL;
    }
    b->made += bytes;
    c = constant_new(dtype, rank, dim);
    if (c == NULL)
        layers_no_room(b);
    return c;
}

int layers_filled(struct layers *b, const char *suffix, int64_t n, float value)
{
    struct constant *c = layers_new(b, INFER_F32, 1, &n);
    int64_t i;

    if (c == NULL)
        return b->status;
    for (i = 0; i < n; i++)
        memcpy(c->data + (size_t)i * sizeof(value), &value, sizeof(value));
    return layers_constant(b, suffix, c);
}

struct constant *layers_floats(struct blob *blob, unsigned char *data, int rank,
                               const int64_t *dim)
{
    struct constant *c;
    int64_t count;

    /* Of a shape that overflows neither makes a constant. */
    if (checked_count(rank, dim, &count) && count > 0 &&
        (uintptr_t)data % sizeof(float) == 0)
        return constant_in_blob(INFER_F32, rank, dim, blob, data);
    c = constant_new(INFER_F32, rank, dim);
    if (c != NULL && c->bytes > 0)
        memcpy(c->data, data, c->bytes);
    return c;
}
