/* SPDX-License-Identifier: Apache-2.0 */
/* Squeeze and excitation as one step: which graphs become one, which do not,
 * and that the result stays. */
#include <config.h>

#include "libinfer/device/device.h"
#include "tests/unit/runtime/network.h"

#define N        3
#define CHANNELS 12
#define HIDDEN   4
#define OUTPUTS  12
#define SIDE     6

/* How a network says it, and what stands in the way. */
enum {
    BY_REDUCE = 1 << 0, /* a reduction for the mean */
    DROPPED = 1 << 1,   /* whose dimensions go; then dense layers */
    SEPARABLE = 1 << 2, /* activations are nodes of their own */
    IMAGES = 1 << 3,    /* reshaped back to an image before the layers */
    NO_BIAS = 1 << 4,
    NO_ACT = 1 << 5,
    ALONE = 1 << 6,       /* no product behind it */
    JOINED = 1 << 7,      /* its output is a part of a concatenation */
    MAXIMUM = 1 << 8,     /* from here on: not one step */
    WINDOW = 1 << 9,      /* the mean is not over the whole image */
    READ_MEAN = 1 << 10,  /* the mean is an output too */
    READ_TWICE = 1 << 11, /* the first layer's result is read twice */
    PADDED = 1 << 12,
    GROUPED = 1 << 13,
    RESIDUAL = 1 << 14,
    UNKNOWN = 1 << 15 /* weights are an input */
};

struct made {
    struct graph *g;
    uint64_t state;
    int how, mean, hidden, n_inputs;
};

static int add_mean(struct made *m, int x)
{
    int node, v;

    if (m->how & (BY_REDUCE | DROPPED)) {
        v = add(m->g, GRAPH_REDUCE, "mean", IN(x), &node);
        struct graph_reduce *a = &m->g->node[node].attr.reduce;
        a->kind = m->how & MAXIMUM ? KERN_REDUCE_MAX : KERN_REDUCE_MEAN;
        a->keep_dims = !(m->how & DROPPED);
        a->n_axes = 2;
        a->axis[0] = -1;
        a->axis[1] = 2;
        return v;
    }
    v = add(m->g, GRAPH_POOL, "mean", IN(x), &node);
    struct kern_pool *a = &m->g->node[node].attr.pool.pool;
    a->kind = m->how & MAXIMUM ? KERN_POOL_MAX : KERN_POOL_AVERAGE;
    if (m->how & WINDOW)
        for (int i = 0; i < 2; i++) {
            a->window[i] = SIDE - 1;
            a->stride[i] = SIDE;
            a->dilation[i] = 1;
        }
    return v;
}

static int add_layer(struct made *m, const char *name, int x, int c, int k,
                     enum kern_unary_kind act)
{
    const bool dense = (m->how & (DROPPED | IMAGES)) == DROPPED;
    const int groups = m->how & GROUPED ? 2 : 1;
    int in[4] = {x, -1, -1, -1}, node, v;

    if (dense)
        in[1] = weights(m->g, &m->state, DIMS(k, c));
    else if (m->how & UNKNOWN && k == HIDDEN) {
        in[1] = input(m->g, "w", DIMS(HIDDEN, CHANNELS, 1, 1));
        m->n_inputs = 2;
    } else
        in[1] = weights(m->g, &m->state, DIMS(k, c / groups, 1, 1));
    if (!(m->how & NO_BIAS))
        in[2] = weights(m->g, &m->state, DIMS(k));
    if (m->how & RESIDUAL && k == OUTPUTS)
        in[3] = m->mean;
    v = add(m->g, dense ? GRAPH_DENSE : GRAPH_CONV, name, in,
            in[3] >= 0 ? 4 : 3, &node);
    if (!dense) {
        m->g->node[node].attr.conv.conv.groups = groups;
        if (m->how & PADDED)
            for (int i = 0; i < 2; i++) {
                m->g->node[node].attr.conv.conv.stride[i] = 3;
                m->g->node[node].attr.conv.conv.pad_begin[i] = 1;
            }
    }
    if (m->how & SEPARABLE)
        return add_unary(m->g, NULL, v, act);
    if (!(m->how & NO_ACT))
        m->g->node[node].epilogue.act = graph_unary(act);
    return v;
}

static int reshape(struct made *m, int x, int c, int rank)
{
    int node, v = add(m->g, GRAPH_RESHAPE, NULL, IN(x), &node);
    struct graph_dims *a = &m->g->node[node].attr.dims;

    a->n = rank;
    for (int i = 0; i < rank; i++)
        a->dim[i] = i == 1 ? c : 1;
    a->dim[0] = -1;
    return v;
}

/* A convolution, squeeze and excitation of its result, and a last layer. */
static struct graph *network(int how, int *n_inputs)
{
    struct made m = {graph_new(), 88172645463325252u, how, -1, -1, 1};
    int x, y, z;

    x = input(m.g, "x", DIMS(-1, CHANNELS, SIDE, SIDE));
    x = add_conv(m.g, &m.state, "stem", x, CHANNELS, CHANNELS, 3, 1, 1, -1);
    y = m.mean = add_mean(&m, x);
    if (how & IMAGES)
        y = reshape(&m, y, CHANNELS, 4);
    y = m.hidden = add_layer(&m, "less", y, CHANNELS, HIDDEN, KERN_SILU);
    y = add_layer(&m, "more", y, HIDDEN, OUTPUTS, KERN_SIGMOID);
    if ((how & (DROPPED | IMAGES)) == DROPPED)
        y = reshape(&m, y, OUTPUTS, 4);
    z = y;
    if (!(how & ALONE))
        y = add_binary(m.g, "gated", x, y, KERN_MUL);
    if (how & JOINED)
        y = add_concat(m.g, "joined", IN(z, add_unary(m.g, NULL, z, KERN_ABS)),
                       1);
    assert_true(graph_add_output(m.g, y) >= 0);
    if (how & READ_MEAN)
        assert_true(graph_add_output(m.g, m.mean) >= 0);
    if (how & READ_TWICE)
        assert_true(graph_add_output(
                        m.g, add_unary(m.g, NULL, m.hidden, KERN_ABS)) >= 0);
    *n_inputs = m.n_inputs;
    return m.g;
}

/* Steps of squeeze and excitation in a session of this backend, whose results
 * must be those of the graph node by node. */
static int check(int how, enum infer_backend backend)
{
    uint64_t seed = 5;
    int n_inputs, layers;
    struct infer_model *model = model_of(network(how, &n_inputs));
    struct infer_session *s = session_of(model, backend, false);
    struct infer_session *whole = session_of(model, INFER_BACKEND_REF, true);
    struct infer_array in[2] = {array_of(&seed, DIMS(N, CHANNELS, SIDE, SIDE)),
                                array_of(&seed, DIMS(HIDDEN, CHANNELS, 1, 1))};
    struct infer_array a = run(s, in, n_inputs, 0);
    struct infer_array b = run(whole, in, n_inputs, 0);

    assert_close(&a, &b, 1e-5);
    assert_int_equal(count_layers(whole, "squeeze"), 0);
    layers = count_layers(s, "squeeze");
    if (layers > 0) {
        assert_int_equal(count_layers(s, "pool") + count_layers(s, "reduce") +
                             count_layers(s, "dense"),
                         0);
        assert_int_equal(count_layers(s, "conv"), 1);
    }
    for (int i = 0; i < 2; i++)
        free(in[i].data);
    free(a.data);
    free(b.data);
    infer_session_close(&s);
    infer_session_close(&whole);
    infer_model_close(&model);
    return layers;
}

TEST(test_taken)
{
    static const int hows[] = {
        0,
        BY_REDUCE,
        DROPPED,
        DROPPED | IMAGES,
        SEPARABLE,
        DROPPED | SEPARABLE,
        NO_BIAS,
        NO_ACT,
        ALONE,
        BY_REDUCE | NO_BIAS | SEPARABLE | ALONE,
        JOINED,
        JOINED | DROPPED,
        JOINED | ALONE,
    };

    for (size_t i = 0; i < COUNT(hows); i++)
        if (check(hows[i], INFER_BACKEND_REF) != 1)
            fail_msg("0x%x: is not one step", (unsigned)hows[i]);
}

TEST(test_left)
{
    static const int hows[] = {
        MAXIMUM,   MAXIMUM | BY_REDUCE,
        READ_MEAN, READ_TWICE,
        PADDED,    GROUPED,
        RESIDUAL,  UNKNOWN,
        WINDOW,
    };

    for (size_t i = 0; i < COUNT(hows); i++)
        if (check(hows[i], INFER_BACKEND_REF) != 0)
            fail_msg("0x%x: is one step", (unsigned)hows[i]);
}

/* A backend without a row for it keeps its own kernels. */
TEST(test_other_backend)
{
    if (!device_has_rows(INFER_BACKEND_ONEDNN))
        skip();
    assert_int_equal(check(0, INFER_BACKEND_ONEDNN), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_taken),
        cmocka_unit_test(test_left),
        cmocka_unit_test(test_other_backend),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
