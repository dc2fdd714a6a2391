/* SPDX-License-Identifier: Apache-2.0 */
/*
 * While loops whose number of iterations the file tells, written out: the body
 * is expanded once an iteration, whose results are the next one's arguments.
 * Keras' recurrent layers are such loops over time steps.
 *
 * The condition is a function of the loop's variables.  It is expanded as well
 * in each iteration and evaluated on what is known of them: counters that begin
 * with a constant, bounds that are constants or sizes of inputs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "weights/tensorflow/tensorflow.h"

/* Bytes of nodes that the conditions of a file may read, all together; a node
 * is read again in each iteration (about a second). */
#define MAX_LOOKED_AT ((uint64_t)1 << 29)
/* What a visit of a node costs besides its bytes. */
#define VISIT 64
/* Bytes of a node that is read: name, inputs, attributes, at most a small list
 * of integers.  Larger ones are weights. */
#define MAX_NODE 8192
/* From a node to those it is computed from. */
#define MAX_CHAIN 64
/* Elements of a constant that is looked at: an order of axes. */
#define MAX_LIST TF_MAX_LIST

struct loop {
    struct tf_edge *edge; /* the variables before the next iteration */
    struct tf_edge *next;
    int64_t *value; /* of those that are known */
    bool *known;
    int n;
};

/* ---- numbers that the file tells ----------------------------------- */

/* Appends the integers of one field of a TensorProto. */
static bool add_ints(const struct pb_field *f, int64_t *out, int *n)
{
    uint64_t bits;
    size_t at = 0;

    while (pb_item(f, PB_VARINT, &at, &bits)) {
        if (*n == MAX_LIST)
            return false;
        out[(*n)++] = (int64_t)bits;
    }
    return true;
}

/* Little-endian integers of 4 or 8 bytes. */
static bool add_content(struct pb_span s, size_t width, int64_t *out, int *n)
{
    if (s.bytes > MAX_LIST * width || s.bytes % width != 0)
        return false;
    for (size_t at = 0; at < s.bytes; at += width) {
        uint64_t bits = 0;

        for (size_t k = width; k-- > 0;)
            bits = bits << 8 | s.data[at + k];
        out[(*n)++] =
            width == 4 ? (int64_t)(int32_t)(uint32_t)bits : (int64_t)bits;
    }
    return true;
}

/* The last value stands for all that follow; none at all is 0. */
static bool repeat_last(const struct tf_graph *g, struct pb_span shape,
                        int64_t *out, int *n)
{
    int64_t dim[INFER_MAX_RANK], count;
    int rank;

    if (tf_shape_parse(g, shape, &rank, dim, NULL) < 0 || rank < 0 ||
        !checked_count(rank, dim, &count) || count < *n || count > MAX_LIST)
        return false;
    for (; *n < count; ++*n)
        out[*n] = *n > 0 ? out[*n - 1] : 0;
    return true;
}

static bool tensor_ints(const struct tf_graph *g, struct pb_span tensor,
                        int64_t *out, int *n)
{
    struct pb_span content = {NULL, 0}, shape = {NULL, 0};
    struct pb_reader r = tf_reader(g, tensor);
    uint64_t type = 0;
    struct pb_field f;
    bool good = true;
    int rc;

    *n = 0;
    while (good && (rc = pb_next(&r, &f, NULL)) > 0) {
        if (f.number == 1 && f.wire == PB_VARINT)
            type = f.value;
        else if (f.number == 2 && f.wire == PB_BYTES)
            shape = f.span;
        else if (f.number == 4 && f.wire == PB_BYTES)
            content = f.span;
        else if (f.number == 7 || f.number == 10 || f.number == 11)
            good = add_ints(&f, out, n);
    }
    if (!good || (type != TF_INT32 && type != TF_INT64 && type != TF_BOOL))
        return false;
    if (content.bytes == 0)
        return repeat_last(g, shape, out, n);
    return *n == 0 && type != TF_BOOL &&
           add_content(content, type == TF_INT32 ? 4 : 8, out, n);
}

/* True where a node may be read: it is small, and there is work left. */
static bool look_at(struct tf_graph *g, int node)
{
    const size_t bytes = g->node[node].message.bytes;

    g->looked_at += VISIT + (bytes <= MAX_NODE ? bytes : 0);
    return bytes <= MAX_NODE && g->looked_at <= MAX_LOOKED_AT;
}

/* The integers of a small Const. */
static bool const_ints(struct tf_graph *g, int node, int64_t *out, int *n)
{
    struct pb_span value, tensor = {NULL, 0};
    struct pb_reader r;
    struct pb_field f;

    if (!pb_span_is(g->node[node].op, "Const") || !look_at(g, node) ||
        tf_attr_span(g, node, "value", NULL, &value) < 0)
        return false;
    r = tf_reader(g, value);
    while (pb_next(&r, &f, NULL) > 0)
        if (f.number == 8 && f.wire == PB_BYTES)
            tensor = f.span;
    return tensor_ints(g, tensor, out, n) && *n > 0;
}

static bool scalar(struct tf_graph *g, const struct loop *l, struct tf_edge e,
                   int depth, int64_t *out);

bool tf_input_ints(struct tf_graph *g, int node, int i, int64_t *out, int *n)
{
    struct tf_edge e;

    return tf_input(g, node, i, NULL, &e) == 0 && const_ints(g, e.node, out, n);
}

/* Dimension `axis` of a placeholder, where it is fixed. */
static bool placeholder_size(struct tf_graph *g, int node, int64_t axis,
                             int64_t *out)
{
    int64_t dim[INFER_MAX_RANK];
    struct pb_span value;
    struct pb_reader r;
    struct pb_field f;
    int rank = -1;

    if (!look_at(g, node) || tf_attr_span(g, node, "shape", NULL, &value) < 0)
        return false;
    r = tf_reader(g, value);
    while (pb_next(&r, &f, NULL) > 0)
        if (f.number == 7 && f.wire == PB_BYTES &&
            tf_shape_parse(g, f.span, &rank, dim, NULL) < 0)
            return false;
    if (axis < 0 || axis >= rank || dim[axis] < 0)
        return false;
    *out = dim[axis];
    return true;
}

/* Dimension `axis` of a tensor: of an input, behind what keeps or permutes
 * sizes. */
static bool size_of(struct tf_graph *g, struct tf_edge e, int64_t axis,
                    int64_t *out)
{
    static const char *const keep[] = {
        "Relu", "Relu6", "Tanh", "Sigmoid", "ReverseV2", "BiasAdd", "Cast"};

    for (int steps = 0; steps < MAX_CHAIN; steps++) {
        int64_t perm[MAX_LIST];
        struct pb_span op;
        bool same = false;
        int n;

        g->looked_at += VISIT;
        if (g->looked_at > MAX_LOOKED_AT || tf_resolve(g, e, NULL, &e) < 0 ||
            e.port != 0)
            return false;
        op = g->node[e.node].op;
        if (pb_span_is(op, "Placeholder"))
            return placeholder_size(g, e.node, axis, out);
        for (size_t i = 0; i < sizeof keep / sizeof *keep; i++)
            same |= pb_span_is(op, keep[i]);
        if (pb_span_is(op, "Transpose")) {
            if (!tf_input_ints(g, e.node, 1, perm, &n) || axis < 0 || axis >= n)
                return false;
            axis = perm[axis];
        } else if (!same) {
            return false;
        }
        if (tf_input(g, e.node, 0, NULL, &e) < 0)
            return false;
    }
    return false;
}

/* One element of Shape: StridedSlice with shrink_axis_mask 1. */
static bool sliced_size(struct tf_graph *g, int node, int64_t *out)
{
    int64_t begin[MAX_LIST], shrink = 0;
    struct tf_edge e;
    bool found;
    int n;

    return tf_input(g, node, 0, NULL, &e) == 0 && e.port == 0 &&
           pb_span_is(g->node[e.node].op, "Shape") && look_at(g, node) &&
           tf_input_ints(g, node, 1, begin, &n) && n == 1 &&
           tf_attr_int(g, node, "shrink_axis_mask", &shrink, &found, NULL) ==
               0 &&
           shrink == 1 && tf_input(g, e.node, 0, NULL, &e) == 0 &&
           size_of(g, e, begin[0], out);
}

/* ---- arithmetic ---------------------------------------------------- */

enum sum { ADD, SUB, MUL, MIN, MAX, LT, LE, GT, GE, EQ, NE, AND, OR };

static bool compute(enum sum kind, int64_t a, int64_t b, int64_t *out)
{
    switch (kind) {
    case ADD:
        return !__builtin_add_overflow(a, b, out);
    case SUB:
        return !__builtin_sub_overflow(a, b, out);
    case MUL:
        return !__builtin_mul_overflow(a, b, out);
    case MIN:
        *out = a < b ? a : b;
        return true;
    case MAX:
        *out = a > b ? a : b;
        return true;
    case LT:
        *out = a < b;
        return true;
    case LE:
        *out = a <= b;
        return true;
    case GT:
        *out = a > b;
        return true;
    case GE:
        *out = a >= b;
        return true;
    case EQ:
        *out = a == b;
        return true;
    case NE:
        *out = a != b;
        return true;
    case AND:
        *out = a && b;
        return true;
    case OR:
        *out = a || b;
        return true;
    }
    return false;
}

static bool find_sum(struct pb_span op, enum sum *out)
{
    static const struct {
        const char *op;
        enum sum kind;
    } sums[] = {{"AddV2", ADD},       {"Add", ADD},      {"Sub", SUB},
                {"Mul", MUL},         {"Minimum", MIN},  {"Maximum", MAX},
                {"Less", LT},         {"LessEqual", LE}, {"Greater", GT},
                {"GreaterEqual", GE}, {"Equal", EQ},     {"NotEqual", NE},
                {"LogicalAnd", AND},  {"LogicalOr", OR}};

    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
        if (pb_span_is(op, sums[i].op)) {
            *out = sums[i].kind;
            return true;
        }
    return false;
}

/* The integer or truth that an edge holds, where it is known. */
static bool scalar(struct tf_graph *g, const struct loop *l, struct tf_edge e,
                   int depth, int64_t *out)
{
    struct tf_edge a, b;
    int64_t x[MAX_LIST], y;
    struct pb_span op;
    enum sum kind;
    int n;

    g->looked_at += VISIT + (uint64_t)l->n; /* variables to compare with */
    if (depth > MAX_CHAIN || g->looked_at > MAX_LOOKED_AT ||
        tf_resolve(g, e, NULL, &e) < 0 || e.port != 0)
        return false;
    for (int i = 0; i < l->n; i++)
        if (l->known[i] && l->edge[i].node == e.node && l->edge[i].port == 0) {
            *out = l->value[i];
            return true;
        }
    op = g->node[e.node].op;
    if (const_ints(g, e.node, x, &n)) {
        *out = x[0];
        return n == 1;
    }
    if (pb_span_is(op, "StridedSlice"))
        return sliced_size(g, e.node, out);
    if (pb_span_is(op, "LogicalNot")) {
        if (tf_input(g, e.node, 0, NULL, &a) < 0 ||
            !scalar(g, l, a, depth + 1, &y))
            return false;
        *out = !y;
        return true;
    }
    /* Keras bounds its loops by the maximum of a number. */
    if (pb_span_is(op, "Max") || pb_span_is(op, "Min"))
        return tf_input(g, e.node, 0, NULL, &a) == 0 &&
               scalar(g, l, a, depth + 1, out);
    return find_sum(op, &kind) && tf_input(g, e.node, 0, NULL, &a) == 0 &&
           tf_input(g, e.node, 1, NULL, &b) == 0 &&
           scalar(g, l, a, depth + 1, &x[0]) &&
           scalar(g, l, b, depth + 1, &y) && compute(kind, x[0], y, out);
}

/* ---- iterations ---------------------------------------------------- */

/* A call of a function with the loop's variables; its node. */
static int add_call(struct tf_graph *g, int node, const struct loop *l,
                    const char *word, int iteration, struct infer_error *err,
                    int *out)
{
    const struct pb_span name = g->node[node].name;
    struct tf_node call = {.n_in = l->n, .first = g->n_edges};
    char text[32];
    const size_t n =
        (size_t)snprintf(text, sizeof text, "/%s%d", word, iteration);
    unsigned char *p;
    int rc = 0;

    if (name.bytes + n > ONNX_MAX_NAME ||
        name.bytes + n > TF_MAX_NAMES - g->made)
        return error_set(err, INFER_EUNSUPPORTED,
                         "names of loops take too much room");
    p = onnx_alloc(&g->arena, name.bytes + n);
    if (!p)
        return error_set(err, INFER_EMEMORY, "out of memory");
    g->made += name.bytes + n;
    if (name.bytes)
        memcpy(p, name.data, name.bytes);
    memcpy(p + name.bytes, text, n);
    call.name = (struct pb_span){p, name.bytes + n};
    call.op = (struct pb_span){(unsigned char *)"PartitionedCall", 15};
    for (int i = 0; i < l->n && rc == 0; i++)
        rc = tf_add_edge(g, l->edge[i], err);
    if (rc == 0)
        rc = tf_add_node(g, &call, err);
    *out = g->n_nodes - 1;
    return rc < 0 ? rc : 0;
}

/* What one iteration makes of the variables. */
static int iterate(struct tf_graph *g, int node, struct loop *l,
                   struct pb_span body, int iteration, int depth,
                   struct infer_error *err)
{
    struct tf_edge *swap;
    int call, rc = add_call(g, node, l, "round", iteration, err, &call);

    if (rc == 0)
        rc = tf_expand_function(g, call, body, depth, err);
    if (rc == 0 && g->node[call].n_in != l->n)
        rc = error_set(err, INFER_EFORMAT,
                       "the body of a loop of %d variables has %d results",
                       l->n, g->node[call].n_in);
    for (int i = 0; i < l->n && rc == 0; i++)
        rc = tf_input(g, call, i, err, &l->next[i]);
    if (rc < 0)
        return rc;
    /* All are evaluated on the variables before the iteration. */
    int64_t *value = malloc((size_t)l->n * sizeof *value);
    bool *known = calloc((size_t)l->n, sizeof *known);
    if (value && known) {
        for (int i = 0; i < l->n; i++)
            known[i] = scalar(g, l, l->next[i], 0, &value[i]);
        memcpy(l->value, value, (size_t)l->n * sizeof *value);
        memcpy(l->known, known, (size_t)l->n * sizeof *known);
    } else {
        rc = error_set(err, INFER_EMEMORY, "out of memory");
    }
    free(value);
    free(known);
    swap = l->edge;
    l->edge = l->next;
    l->next = swap;
    return rc;
}

/* 1: another iteration, 0: none, *unknown set where nothing tells. */
static int ask(struct tf_graph *g, int node, const struct loop *l,
               struct pb_span condition, int iteration, int depth,
               struct infer_error *err, bool *unknown)
{
    struct tf_edge e;
    int64_t more = 0;
    int call, rc = add_call(g, node, l, "condition", iteration, err, &call);

    if (rc == 0)
        rc = tf_expand_function(g, call, condition, depth, err);
    if (rc == 0)
        rc = tf_input(g, call, 0, err, &e);
    if (rc < 0)
        return rc;
    *unknown = !scalar(g, l, e, 0, &more);
    return more != 0;
}

static int bind(struct tf_graph *g, int node, const struct loop *l,
                struct infer_error *err)
{
    const int first = g->n_edges;

    for (int i = 0; i < l->n; i++) {
        const int rc = tf_add_edge(g, l->edge[i], err);
        if (rc < 0)
            return rc;
    }
    g->node[node].first = first;
    g->node[node].n_in = l->n;
    g->node[node].alias = true;
    return 0;
}

static int write_out(struct tf_graph *g, int node, struct loop *l, int depth,
                     struct infer_error *err)
{
    struct pb_span condition, body;
    bool unknown = false;
    int rc = tf_function_of(g, node, "cond", err, &condition);

    if (rc == 0)
        rc = tf_function_of(g, node, "body", err, &body);
    for (int i = 0; i < l->n && rc == 0; i++) {
        rc = tf_input(g, node, i, err, &l->edge[i]);
        if (rc == 0)
            l->known[i] =
                scalar(g, &(struct loop){.n = 0}, l->edge[i], 0, &l->value[i]);
    }
    for (int k = 0; rc == 0; k++) {
        rc = ask(g, node, l, condition, k, depth, err, &unknown);
        if (rc <= 0 || unknown)
            break;
        /* What is left is refused where it is imported. */
        if (k == TF_MAX_ITERATIONS)
            return 0;
        rc = iterate(g, node, l, body, k, depth, err);
    }
    if (rc < 0 || unknown)
        return rc < 0 ? rc : 0;
    return bind(g, node, l, err);
}

bool tf_is_loop(struct pb_span op)
{
    return pb_span_is(op, "While") || pb_span_is(op, "StatelessWhile");
}

int tf_expand_loop(struct tf_graph *g, int node, int depth,
                   struct infer_error *err)
{
    const size_t n = (size_t)g->node[node].n_in;
    struct loop l = {.n = (int)n};
    int rc;

    l.edge = calloc(n + 1, sizeof *l.edge);
    l.next = calloc(n + 1, sizeof *l.next);
    l.value = calloc(n + 1, sizeof *l.value);
    l.known = calloc(n + 1, sizeof *l.known);
    rc = l.edge && l.next && l.value && l.known && n > 0
             ? write_out(g, node, &l, depth, err)
         : n > 0 ? error_set(err, INFER_EMEMORY, "out of memory")
                 : error_set(err, INFER_EFORMAT, "a loop without variables");
    if (rc < 0)
        error_prefix(err, "While %.*s", PB_TEXT(g->node[node].name, 128));
    free(l.edge);
    free(l.next);
    free(l.value);
    free(l.known);
    return rc;
}

int tf_loop(struct onnx_import *im)
{
    return onnx_fail(im, INFER_EUNSUPPORTED,
                     "a loop whose number of iterations (at most %d) the file "
                     "does not tell",
                     TF_MAX_ITERATIONS);
}
