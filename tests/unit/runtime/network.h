/* SPDX-License-Identifier: Apache-2.0 */
/* Small networks built in code, and runs of them, for the runtime's tests. */
#ifndef TESTS_UNIT_RUNTIME_NETWORK_H
#define TESTS_UNIT_RUNTIME_NETWORK_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "include/infer.h"
#include "libinfer/graph/graph.h"
#include "libinfer/model/model.h"
#include "tests/unit/test.h"

/* Numbers from a fixed sequence: xorshift, so that failures repeat. */
static inline uint32_t random_bits(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (uint32_t)(*state >> 32);
}

static inline float random_real(uint64_t *state)
{
    return (float)(random_bits(state) % 2001) / 1000.0f - 1.0f;
}

static inline int random_below(uint64_t *state, int n)
{
    return (int)(random_bits(state) % (uint32_t)n);
}

static inline int input(struct graph *g, const char *name, int rank,
                        const int64_t *dim)
{
    int v = graph_add_input(g, name, INFER_F32, rank, dim);

    assert_true(v >= 0);
    return v;
}

/* A constant of random values in -1 .. 1. */
static inline int weights(struct graph *g, uint64_t *state, int rank,
                          const int64_t *dim)
{
    struct constant *c = constant_new(INFER_F32, rank, dim);
    int64_t i;
    int v;

    assert_non_null(c);
    for (i = 0; i < constant_count(c); i++)
        ((float *)(void *)c->data)[i] = random_real(state);
    v = graph_add_constant(g, NULL, c);
    assert_true(v >= 0);
    return v;
}

/* A node with one output; returns the value, and the node in *node. */
static inline int add(struct graph *g, enum graph_op op, const char *name,
                      const int *in, int n_in, int *node)
{
    int out = graph_add_value(g, name), n;

    assert_true(out >= 0);
    n = graph_add_node(g, op, NULL, in, n_in, &out, 1);
    assert_true(n >= 0);
    if (node)
        *node = n;
    return out;
}

static inline int add_conv(struct graph *g, uint64_t *state, const char *name,
                           int x, int64_t c, int64_t k, int64_t r, int stride,
                           int groups, int residual)
{
    int w = weights(g, state, DIMS(k, c / groups, r, r));
    int b = weights(g, state, DIMS(k));
    int in[4] = {x, w, b, residual}, node, v;

    v = add(g, GRAPH_CONV, name, in, residual >= 0 ? 4 : 3, &node);
    g->node[node].attr.conv.conv.groups = groups;
    for (int i = 0; i < 2; i++) {
        g->node[node].attr.conv.conv.stride[i] = stride;
        g->node[node].attr.conv.conv.pad_begin[i] = (int)r / 2;
        g->node[node].attr.conv.conv.pad_end[i] = (int)r / 2;
    }
    return v;
}

static inline int add_unary(struct graph *g, const char *name, int x,
                            enum kern_unary_kind kind)
{
    int node, v = add(g, GRAPH_UNARY, name, IN(x), &node);

    g->node[node].attr.unary = graph_unary(kind);
    return v;
}

static inline int add_binary(struct graph *g, const char *name, int a, int b,
                             enum kern_binary_kind kind)
{
    int node, v = add(g, GRAPH_BINARY, name, IN(a, b), &node);

    g->node[node].attr.binary.kind = kind;
    return v;
}

static inline int add_concat(struct graph *g, const char *name, const int *in,
                             int n_in, int axis)
{
    int node, v = add(g, GRAPH_CONCAT, name, in, n_in, &node);

    g->node[node].attr.axis.axis = axis;
    return v;
}

/* A bit of everything: conv+relu, max pool, two branches concatenated, a
 * residual convolution, global pool, flatten, dense, softmax.  Batch free. */
static inline struct graph *small_network(void)
{
    struct graph *g = graph_new();
    uint64_t state = 88172645463325252u;
    int node, x, a, b, c, y, w, bias;

    assert_non_null(g);
    x = input(g, "x", DIMS(-1, 3, 16, 16));
    y = add_conv(g, &state, "stem", x, 3, 8, 3, 1, 1, -1);
    g->node[g->n_nodes - 1].epilogue.act = graph_unary(KERN_RELU);
    y = add(g, GRAPH_POOL, "pool", IN(y), &node);
    for (int i = 0; i < 2; i++) {
        g->node[node].attr.pool.pool.window[i] = 3;
        g->node[node].attr.pool.pool.stride[i] = 2;
        g->node[node].attr.pool.pool.pad_begin[i] = 1;
    }
    a = add_conv(g, &state, "branch1", y, 8, 8, 1, 1, 1, -1);
    b = add_conv(g, &state, "branch3", y, 8, 8, 3, 1, 8, -1);
    c = add_concat(g, "joined", IN(a, b), 1);
    y = add_conv(g, &state, "block", c, 16, 16, 3, 1, 1, c);
    g->node[g->n_nodes - 1].epilogue.act = graph_unary(KERN_RELU);
    y = add(g, GRAPH_POOL, "global", IN(y), &node);
    g->node[node].attr.pool.pool.kind = KERN_POOL_AVERAGE;
    y = add(g, GRAPH_FLATTEN, "flat", IN(y), NULL);
    w = weights(g, &state, DIMS(10, 16));
    bias = weights(g, &state, DIMS(10));
    y = add(g, GRAPH_DENSE, "logits", IN(y, w, bias), NULL);
    y = add(g, GRAPH_SOFTMAX, "probability", IN(y), NULL);
    assert_int_equal(graph_add_output(g, y), 0);
    return g;
}

/* Two 3x3 convolutions of images of 3x12x12, the second with so many outputs.
 */
static inline struct graph *two_convolutions(int64_t outputs)
{
    struct graph *g = graph_new();
    uint64_t state = 88172645463325252u;
    int x, y;

    assert_non_null(g);
    x = input(g, "x", DIMS(-1, 3, 12, 12));
    y = add_conv(g, &state, "first", x, 3, 8, 3, 1, 1, -1);
    y = add_conv(g, &state, "second", y, 8, outputs, 3, 1, 1, -1);
    assert_int_equal(graph_add_output(g, y), 0);
    return g;
}

static inline struct infer_model *model_of(struct graph *g)
{
    struct infer_model *model = NULL;
    struct infer_error err = {0};

    if (model_from_graph(g, &err, &model) < 0)
        fail_msg("%s", err.text);
    return model;
}

static inline struct infer_session *
session_of(struct infer_model *model, enum infer_backend backend, bool keep)
{
    struct infer_session_options options;
    struct infer_session *session = NULL;
    struct infer_error err = {0};

    infer_session_options_init(&options);
    options.backend = backend;
    options.keep_tensors = keep;
    if (infer_session_create(model, &options, &err, &session) < 0)
        fail_msg("%s", err.text);
    return session;
}

/* An array of random values; data is to be freed. */
static inline struct infer_array array_of(uint64_t *state, int rank,
                                          const int64_t *dim)
{
    struct infer_array a = {.dtype = INFER_F32, .rank = rank};
    int64_t count = 1, i;
    float *data;

    for (int k = 0; k < rank; k++)
        count *= a.dim[k] = dim[k];
    data = malloc((size_t)count * sizeof *data);
    assert_non_null(data);
    for (i = 0; i < count; i++)
        data[i] = random_real(state);
    a.data = data;
    a.bytes = (size_t)count * sizeof *data;
    return a;
}

/* Runs with one output, whose data is to be freed. */
static inline struct infer_array run(struct infer_session *session,
                                     const struct infer_array *in, int n_in,
                                     int output)
{
    struct infer_tensor_info info;
    struct infer_array out = {0};
    struct infer_error err = {0};
    size_t bytes;

    if (infer_session_prepare(session, in, n_in, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(infer_session_output(session, output, &info), 0);
    bytes = infer_dtype_size(info.dtype);
    for (int k = 0; k < info.rank; k++)
        bytes *= (size_t)info.dim[k];
    out.name = info.name;
    out.data = malloc(bytes ? bytes : 1);
    assert_non_null(out.data);
    out.bytes = bytes;
    if (infer_session_run(session, in, n_in, &out, 1, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(out.bytes, bytes);
    return out;
}

/* Largest difference of two F32 arrays of equal shape relative to the largest
 * value; a NaN anywhere fails. */
static inline void assert_close(const struct infer_array *a,
                                const struct infer_array *b, double tolerance)
{
    const float *x = a->data, *y = b->data;
    double largest = 1;
    size_t i, n = a->bytes / sizeof *x;

    assert_int_equal(a->bytes, b->bytes);
    assert_int_equal(a->rank, b->rank);
    assert_memory_equal(a->dim, b->dim, sizeof a->dim);
    for (i = 0; i < n; i++)
        if ((double)y[i] > largest || -(double)y[i] > largest)
            largest = y[i] < 0 ? -(double)y[i] : (double)y[i];
    for (i = 0; i < n; i++) {
        double d = (double)x[i] - (double)y[i];

        if (!((d < 0 ? -d : d) <= tolerance * largest))
            fail_msg("element %zu: %g, expected %g", i, (double)x[i],
                     (double)y[i]);
    }
}

/* Number of layers whose operation has this name. */
static inline int count_layers(const struct infer_session *session,
                               const char *op)
{
    struct infer_layer_info layer;
    int i, n = 0;

    for (i = 0; i < infer_session_layer_count(session); i++) {
        assert_int_equal(infer_session_layer(session, i, &layer), 0);
        n += strcmp(layer.op, op) == 0;
    }
    return n;
}

/* A call fails with this code and a text in which this part stands. */
#define REFUSED(call, code, part)                                              \
    do {                                                                       \
        err.text[0] = '\0';                                                    \
        assert_int_equal(call, code);                                          \
        if (!strstr(err.text, part))                                           \
            fail_msg("no \"%s\" in \"%s\"", part, err.text);                   \
    } while (0)

#endif
