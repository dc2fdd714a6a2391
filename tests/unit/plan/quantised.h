/* SPDX-License-Identifier: Apache-2.0 */
/* Layers on integers of 8 bits, between nodes quantize and dequantize. */
#ifndef TESTS_UNIT_PLAN_QUANTISED_H
#define TESTS_UNIT_PLAN_QUANTISED_H

#include "tests/unit/runtime/network.h"

static inline int constant_of(struct graph *g, enum infer_dtype dtype, int rank,
                              const int64_t *dim, struct constant **c)
{
    int v;

    *c = constant_new(dtype, rank, dim);
    assert_non_null(*c);
    v = graph_add_constant(g, NULL, *c);
    assert_true(v >= 0);
    return v;
}

static inline int number(struct graph *g, float value)
{
    struct constant *c;
    const int v = constant_of(g, INFER_F32, 0, NULL, &c);

    *(float *)(void *)c->data = value;
    return v;
}

static inline int zero_point(struct graph *g, enum infer_dtype dtype, int value)
{
    struct constant *c;
    const int v = constant_of(g, dtype, 0, NULL, &c);

    c->data[0] = (unsigned char)value;
    return v;
}

/* x quantised and dequantised: what its readers read. */
static inline int through(struct graph *g, int x, enum infer_dtype to,
                          float scale, int zero)
{
    const int s = number(g, scale), z = zero_point(g, to, zero);
    int node, q = add(g, GRAPH_QUANTIZE, NULL, IN(x, s, z), &node);

    g->node[node].attr.quantize.to = to;
    return add(g, GRAPH_DEQUANTIZE, NULL, IN(q, s, z), NULL);
}

/* Weights of I8, a scale for each of the k outputs. */
static inline int quantised_weights(struct graph *g, uint64_t *state, int rank,
                                    const int64_t *dim)
{
    struct constant *w, *s;
    const int q = constant_of(g, INFER_I8, rank, dim, &w);
    const int scale = constant_of(g, INFER_F32, 1, dim, &s);
    int node, v;

    for (int64_t i = 0; i < constant_count(w); i++)
        w->data[i] = (unsigned char)random_bits(state);
    for (int64_t i = 0; i < dim[0]; i++)
        ((float *)(void *)s->data)[i] = 0.002f + 0.0001f * (float)i;
    v = add(g, GRAPH_DEQUANTIZE, NULL, IN(q, scale), &node);
    g->node[node].attr.quantize.axis = 0;
    return v;
}

/* A convolution of 3x3 with these weights, as they are read, and a bias. */
static inline int conv_by(struct graph *g, uint64_t *state, int x, int w,
                          int64_t k, int groups, int residual,
                          enum kern_unary_kind act)
{
    const int b = weights(g, state, DIMS(k));
    int in[4] = {x, w, b, residual}, node;
    const int v = add(g, GRAPH_CONV, NULL, in, residual >= 0 ? 4 : 3, &node);

    g->node[node].attr.conv.conv.groups = groups;
    for (int i = 0; i < 2; i++)
        g->node[node].attr.conv.conv.pad_begin[i] =
            g->node[node].attr.conv.conv.pad_end[i] = 1;
    g->node[node].epilogue.act = graph_unary(act);
    return v;
}

static inline int conv(struct graph *g, uint64_t *state, int x, int64_t c,
                       int64_t k, int groups, int residual,
                       enum kern_unary_kind act)
{
    const int w = quantised_weights(g, state, DIMS(k, c / groups, 3, 3));

    return conv_by(g, state, x, w, k, groups, residual, act);
}

#endif
