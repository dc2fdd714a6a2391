/* SPDX-License-Identifier: Apache-2.0 */
/* Steps between nodes dequantize and quantize run on integers: the same bits
 * on every CPU backend and on a GPU, and 2 % of the outputs from arithmetic in
 * floats (which a session that keeps every tensor does), where a rounding
 * between layers may fall on the next integer. */
#include <math.h>

#include "tests/unit/plan/quantised.h"

/* Two convolutions, a depthwise one with a residual, and a dense layer whose
 * output stays float.  With `reader`, floats of the residual are read too. */
static struct graph *chain(bool reader, enum kern_unary_kind act)
{
    struct graph *g = graph_new();
    uint64_t state = 3;
    int x = input(g, "x", DIMS(2, 5, 6, 7)), a, b, w;

    x = through(g, x, INFER_I8, 1 / 100.0f, 7);
    a = conv(g, &state, x, 5, 18, 1, -1, act);
    a = through(g, a, INFER_U8, 1 / 40.0f, 0);
    b = conv(g, &state, a, 18, 18, 18, a, act);
    b = through(g, b, INFER_U8, 1 / 30.0f, 3);
    b = add(g, GRAPH_FLATTEN, NULL, IN(b), NULL);
    b = through(g, b, INFER_U8, 1 / 30.0f, 3);
    w = quantised_weights(g, &state, DIMS(4, 18 * 42));
    b = add(g, GRAPH_DENSE, "y", IN(b, w), NULL);
    assert_int_equal(graph_add_output(g, b), 0);
    if (reader)
        assert_int_equal(graph_add_output(g, a), 1);
    return g;
}

/* A pool of 3x3 pixels, every second. */
static int pool(struct graph *g, int x, enum kern_pool_kind kind)
{
    int node;
    const int v = add(g, GRAPH_POOL, NULL, IN(x), &node);
    struct kern_pool *p = &g->node[node].attr.pool.pool;

    p->kind = kind;
    for (int i = 0; i < 2; i++) {
        p->window[i] = 3;
        p->stride[i] = 2;
        p->pad_begin[i] = p->pad_end[i] = 1;
    }
    return v;
}

/* Pools, a concatenation of two scales, a sum, a shuffle of channels and a mean
 * between convolutions. */
static struct graph *mixed(void)
{
    struct graph *g = graph_new();
    uint64_t state = 5;
    int x = input(g, "x", DIMS(2, 5, 6, 7)), a, b, node;

    x = through(g, x, INFER_I8, 1 / 100.0f, 7);
    x = conv(g, &state, x, 5, 18, 1, -1, KERN_RELU);
    x = through(g, x, INFER_U8, 1 / 40.0f, 2);
    a = through(g, pool(g, x, KERN_POOL_MAX), INFER_U8, 1 / 40.0f, 2);
    b = through(g, pool(g, x, KERN_POOL_AVERAGE), INFER_U8, 1 / 70.0f, 0);
    a = through(g, add_concat(g, NULL, IN(a, b), 1), INFER_U8, 1 / 40.0f, 2);
    b = conv(g, &state, a, 36, 36, 4, -1, KERN_IDENTITY);
    b = through(g, b, INFER_I8, 1 / 20.0f, -3);
    a = add_binary(g, NULL, a, b, KERN_ADD);
    g->node[g->n_nodes - 1].epilogue.act = graph_unary(KERN_RELU);
    a = through(g, a, INFER_U8, 1 / 25.0f, 0);
    a = add(g, GRAPH_SPACE_TO_DEPTH, NULL, IN(a), &node);
    g->node[node].attr.depth_space.block = 1;
    a = through(g, a, INFER_U8, 1 / 25.0f, 0);
    a = add(g, GRAPH_REDUCE, NULL, IN(a), &node);
    g->node[node].attr.reduce.kind = KERN_REDUCE_MEAN;
    g->node[node].attr.reduce.n_axes = 2;
    g->node[node].attr.reduce.axis[0] = 2;
    g->node[node].attr.reduce.axis[1] = 3;
    a = through(g, a, INFER_I8, 1 / 60.0f, 1);
    b = quantised_weights(g, &state, DIMS(4, 36));
    a = add(g, GRAPH_DENSE, "y", IN(a, b), NULL);
    assert_int_equal(graph_add_output(g, a), 0);
    return g;
}

/* A gate of one number a channel, a scale and shift, a resize to twice the size
 * and smooth activations between convolutions. */
static struct graph *gated(void)
{
    struct graph *g = graph_new();
    uint64_t state = 7;
    int x = input(g, "x", DIMS(2, 5, 6, 7)), a, b, node;

    x = through(g, x, INFER_I8, 1 / 100.0f, 7);
    a = conv(g, &state, x, 5, 20, 1, -1, KERN_SILU);
    a = through(g, a, INFER_I8, 1 / 40.0f, -90);
    b = add(g, GRAPH_REDUCE, NULL, IN(a), &node);
    g->node[node].attr.reduce.kind = KERN_REDUCE_MEAN;
    g->node[node].attr.reduce.n_axes = 2;
    g->node[node].attr.reduce.axis[0] = 2;
    g->node[node].attr.reduce.axis[1] = 3;
    g->node[node].attr.reduce.keep_dims = true;
    b = add(g, GRAPH_UNARY, NULL, IN(b), &node);
    g->node[node].attr.unary = graph_unary(KERN_SIGMOID);
    a = add_binary(g, NULL, a, b, KERN_MUL);
    a = through(g, a, INFER_I8, 1 / 30.0f, -80);
    b = weights(g, &state, DIMS(20));
    a = add(g, GRAPH_SCALE_SHIFT, NULL, IN(a, b, weights(g, &state, DIMS(20))),
            &node);
    g->node[node].epilogue.act = graph_unary(KERN_RELU);
    a = through(g, a, INFER_U8, 1 / 90.0f, 3);
    a = add(g, GRAPH_RESIZE, NULL, IN(a), &node);
    g->node[node].attr.resize.resize.mode = KERN_NEAREST;
    g->node[node].attr.resize.resize.scale[2] = 2;
    g->node[node].attr.resize.resize.scale[3] = 3;
    a = through(g, a, INFER_U8, 1 / 90.0f, 3);
    b = conv(g, &state, a, 20, 20, 20, a, KERN_HARD_SWISH);
    g->node[g->n_nodes - 1].epilogue.residual_last = true;
    a = through(g, b, INFER_U8, 1 / 60.0f, 40);
    a = conv(g, &state, a, 20, 9, 1, -1, KERN_GELU);
    assert_int_equal(graph_add_output(g, a), 0);
    return g;
}

static struct infer_array run_graph(struct graph *g, enum infer_backend backend,
                                    bool keep, int output, int *layers)
{
    const int64_t dim[4] = {2, 5, 6, 7};
    struct infer_model *model = model_of(g);
    struct infer_session *s = session_of(model, backend, keep);
    uint64_t state = 9;
    struct infer_array x = array_of(&state, 4, dim), y;

    y = run(s, &x, 1, output);
    *layers = infer_session_layer_count(s);
    infer_session_close(&s);
    infer_model_close(&model);
    free(x.data);
    return y;
}

static struct infer_array run_chain(bool reader, enum kern_unary_kind act,
                                    enum infer_backend backend, bool keep,
                                    int output, int *layers)
{
    return run_graph(chain(reader, act), backend, keep, output, layers);
}

static void test_chain(void **unused)
{
    (void)unused;
    for (int reader = 0; reader < 2; reader++) {
        int few, same, many;
        struct infer_array fast =
            run_chain(reader, KERN_RELU, INFER_BACKEND_AUTO, false, 0, &few);
        struct infer_array ref =
            run_chain(reader, KERN_RELU, INFER_BACKEND_REF, false, 0, &same);
        struct infer_array floats =
            run_chain(reader, KERN_RELU, INFER_BACKEND_REF, true, 0, &many);

        assert_int_equal(fast.bytes, ref.bytes);
        assert_memory_equal(fast.data, ref.data, ref.bytes);
        assert_close(&fast, &floats, 0.02);
        /* Scales, roundings and limits of two tensors are no steps. */
        assert_true(few + 6 <= many);
        free(fast.data);
        free(ref.data);
        free(floats.data);
    }
}

/* The reference's bits, near the network in floats, in so many steps. */
static void check_network(struct graph *(*make)(void), int steps)
{
    int few, same, many;
    struct infer_array fast =
        run_graph(make(), INFER_BACKEND_AUTO, false, 0, &few);
    struct infer_array ref =
        run_graph(make(), INFER_BACKEND_REF, false, 0, &same);
    struct infer_array floats =
        run_graph(make(), INFER_BACKEND_REF, true, 0, &many);

    assert_int_equal(fast.bytes, ref.bytes);
    assert_memory_equal(fast.data, ref.data, ref.bytes);
    assert_close(&fast, &floats, 0.02);
    assert_int_equal(few, steps);
    free(fast.data);
    free(ref.data);
    free(floats.data);
}

/* No tensor but the input and the output is float: a step each for the input,
 * two convolutions, two pools, the sum, the shuffle, the mean and the dense
 * layer, and a copy for each part of the concatenation. */
static void test_mixed(void **unused)
{
    (void)unused;
    check_network(mixed, 11);
}

/* A step each for the input, three convolutions, the mean, the sigmoid, the
 * product, the scale, the resize, and the output's order of dimensions.  Floats
 * differ where roundings do. */
static void test_gated(void **unused)
{
    (void)unused;
    check_network(gated, 10);
}

/* Output 0 on a GPU, or false: there is none. */
static bool run_on_gpu(struct graph *g, struct infer_array *out)
{
    const int64_t dim[4] = {2, 5, 6, 7};
    struct infer_model *model = model_of(g);
    struct infer_session_options o;
    struct infer_session *s = NULL;
    struct infer_error err = {0};
    uint64_t state = 9;
    struct infer_array x = array_of(&state, 4, dim);

    infer_session_options_init(&o);
    o.device = "cuda";
    o.tune = 0;
    const int rc = infer_session_create(model, &o, &err, &s);
    if (rc == 0)
        *out = run(s, &x, 1, 0);
    else if (rc != INFER_EDEVICE || getenv("INFER_REQUIRE_GPU"))
        fail_msg("%s", err.text);
    infer_session_close(&s);
    infer_model_close(&model);
    free(x.data);
    return rc == 0;
}

/* A GPU gives the reference's bits. */
static void test_gpu(void **unused)
{
    struct graph *const graph[] = {chain(false, KERN_RELU), mixed()};
    struct graph *const same[] = {chain(false, KERN_RELU), mixed()};
    bool found = true;

    (void)unused;
    for (size_t i = 0; i < COUNT(graph); i++) {
        int layers;
        struct infer_array ref =
            run_graph(same[i], INFER_BACKEND_REF, false, 0, &layers);
        struct infer_array gpu;

        if (run_on_gpu(graph[i], &gpu)) {
            assert_int_equal(gpu.bytes, ref.bytes);
            assert_memory_equal(gpu.data, ref.data, ref.bytes);
            free(gpu.data);
        } else {
            found = false;
        }
        free(ref.data);
    }
    if (!found)
        skip();
}

/* Smooth functions are part of the layer: the reference's bits. */
static void test_smooth(void **unused)
{
    static const enum kern_unary_kind kinds[] = {
        KERN_SIGMOID,    KERN_TANH, KERN_SILU,     KERN_HARD_SIGMOID,
        KERN_HARD_SWISH, KERN_GELU, KERN_GELU_TANH};

    (void)unused;
    for (size_t i = 0; i < COUNT(kinds); i++) {
        int few, same, many;
        struct infer_array fast =
            run_chain(false, kinds[i], INFER_BACKEND_AUTO, false, 0, &few);
        struct infer_array ref =
            run_chain(false, kinds[i], INFER_BACKEND_REF, false, 0, &same);
        struct infer_array floats =
            run_chain(false, kinds[i], INFER_BACKEND_REF, true, 0, &many);

        assert_int_equal(fast.bytes, ref.bytes);
        assert_memory_equal(fast.data, ref.data, ref.bytes);
        assert_close(&fast, &floats, 0.02);
        assert_true(few + 6 <= many);
        free(fast.data);
        free(ref.data);
        free(floats.data);
    }
}

/* A function that integer kernels do not know is still applied to real values,
 * before they are quantised. */
static void test_activation(void **unused)
{
    int layers;
    struct infer_array fast =
        run_chain(false, KERN_SOFTPLUS, INFER_BACKEND_AUTO, false, 0, &layers);
    struct infer_array floats =
        run_chain(false, KERN_SOFTPLUS, INFER_BACKEND_REF, true, 0, &layers);

    (void)unused;
    assert_close(&fast, &floats, 0.02);
    free(fast.data);
    free(floats.data);
}

/* Weights of 8 bits that a layer on integers and one in floats share. */
static struct graph *shared(bool floats_first)
{
    struct graph *g = graph_new();
    uint64_t state = 3;
    const int x = input(g, "x", DIMS(2, 5, 6, 7));
    const int w = quantised_weights(g, &state, DIMS(8, 5, 1, 1));
    const int narrow = through(g, x, INFER_I8, 1 / 100.0f, 7);
    const int a =
        add(g, GRAPH_CONV, "a", IN(floats_first ? x : narrow, w), NULL);
    const int b =
        add(g, GRAPH_CONV, "b", IN(floats_first ? narrow : x, w), NULL);

    assert_int_equal(graph_add_output(g, a), 0);
    assert_int_equal(graph_add_output(g, b), 1);
    return g;
}

/* One of the two layers is on integers, the other reads floats. */
static void test_shared_weights(void **unused)
{
    (void)unused;
    for (int i = 0; i < 4; i++) {
        struct infer_model *model = model_of(shared(i / 2));
        struct infer_session *s = session_of(model, INFER_BACKEND_AUTO, false);
        struct infer_layer_info layer;
        uint64_t state = 9;
        struct infer_array x = array_of(&state, DIMS(2, 5, 6, 7)), y, floats;
        int steps, layers[2] = {0, 0};

        y = run(s, &x, 1, i % 2);
        for (int k = 0; infer_session_layer(s, k, &layer) == 0; k++)
            if (strcmp(layer.op, "conv") == 0)
                layers[strstr(layer.kernel, "_i8_") != NULL]++;
        assert_int_equal(layers[0], 1);
        assert_int_equal(layers[1], 1);
        floats =
            run_graph(shared(i / 2), INFER_BACKEND_REF, true, i % 2, &steps);
        assert_close(&y, &floats, 0.001);
        infer_session_close(&s);
        infer_model_close(&model);
        free(x.data);
        free(y.data);
        free(floats.data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chain),
        cmocka_unit_test(test_mixed),
        cmocka_unit_test(test_gated),
        cmocka_unit_test(test_smooth),
        cmocka_unit_test(test_gpu),
        cmocka_unit_test(test_activation),
        cmocka_unit_test(test_shared_weights),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
