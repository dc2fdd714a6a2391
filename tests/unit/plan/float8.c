/* SPDX-License-Identifier: Apache-2.0 */
/* Steps between nodes dequantize and quantize of F8E4M3 run in 8 bits: as near
 * to the reference, on CPUs and on a GPU, as one rounding to 4 bits, and to
 * arithmetic in floats (a session that keeps every tensor). */
#include "tests/unit/plan/quantised.h"

/* One rounding of a sum may fall on the next value: 2^-4 of it. */
#define CLOSE 0.07

/* x quantised and dequantised, with a zero point of this code. */
static int through_float8(struct graph *g, int x, float scale, int zero)
{
    return through(g, x, INFER_F8E4M3, scale, zero);
}

/* Weights from -15 to 15 in codes, a scale for each of the k outputs. */
static int float8_weights(struct graph *g, uint64_t *state, int rank,
                          const int64_t *dim)
{
    struct constant *w, *s;
    const int q = constant_of(g, INFER_F8E4M3, rank, dim, &w);
    const int scale = constant_of(g, INFER_F32, 1, dim, &s);
    int node, v;

    for (int64_t i = 0; i < constant_count(w); i++) {
        const unsigned bits = random_bits(state);

        w->data[i] = (unsigned char)((bits >> 8 & 0x80) | bits % 0x58);
    }
    for (int64_t i = 0; i < dim[0]; i++)
        ((float *)(void *)s->data)[i] = 0.02f + 0.001f * (float)i;
    v = add(g, GRAPH_DEQUANTIZE, NULL, IN(q, scale), &node);
    g->node[node].attr.quantize.axis = 0;
    return v;
}

static int float8_conv(struct graph *g, uint64_t *state, int x, int64_t c,
                       int64_t k, int groups, int residual)
{
    const int w = float8_weights(g, state, DIMS(k, c / groups, 3, 3));

    return conv_by(g, state, x, w, k, groups, residual, KERN_RELU);
}

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

/* Two convolutions, the second depthwise with a residual, pools, a
 * concatenation of two scales, a sum and a dense layer. */
static struct graph *network(int zero)
{
    struct graph *g = graph_new();
    uint64_t state = 3;
    int x = input(g, "x", DIMS(2, 5, 6, 7)), a, b;

    x = through_float8(g, x, 1 / 448.0f, zero);
    a = float8_conv(g, &state, x, 5, 16, 1, -1);
    a = through_float8(g, a, 1 / 32.0f, 0);
    b = float8_conv(g, &state, a, 16, 16, 16, a);
    b = through_float8(g, b, 1 / 16.0f, 0);
    a = through_float8(g, pool(g, b, KERN_POOL_MAX), 1 / 16.0f, 0);
    b = through_float8(g, pool(g, b, KERN_POOL_AVERAGE), 1 / 50.0f, 0);
    a = through_float8(g, add_binary(g, NULL, a, b, KERN_ADD), 1 / 16.0f, 0);
    a = through_float8(g, add_concat(g, NULL, IN(a, b), 1), 1 / 16.0f, 0);
    a = add(g, GRAPH_FLATTEN, NULL, IN(a), NULL);
    a = through_float8(g, a, 1 / 16.0f, 0);
    b = float8_weights(g, &state, DIMS(4, 32 * 12));
    a = add(g, GRAPH_DENSE, "y", IN(a, b), NULL);
    assert_int_equal(graph_add_output(g, a), 0);
    return g;
}

static struct infer_array run_graph(int zero, enum infer_backend backend,
                                    bool keep, int *layers)
{
    const int64_t dim[4] = {2, 5, 6, 7};
    struct infer_model *model = model_of(network(zero));
    struct infer_session *s = session_of(model, backend, keep);
    uint64_t state = 9;
    struct infer_array x = array_of(&state, 4, dim), y;

    y = run(s, &x, 1, 0);
    *layers = infer_session_layer_count(s);
    infer_session_close(&s);
    infer_model_close(&model);
    free(x.data);
    return y;
}

/* No tensor but the input and the output is float: a step each for the input,
 * two convolutions, two pools, the sum, the two parts of the concatenation, the
 * flattening from channels last, and the dense layer. */
static void test_network(void **unused)
{
    int few, same, many;
    struct infer_array fast = run_graph(0, INFER_BACKEND_AUTO, false, &few);
    struct infer_array ref = run_graph(0, INFER_BACKEND_REF, false, &same);
    struct infer_array floats = run_graph(0, INFER_BACKEND_REF, true, &many);

    (void)unused;
    assert_close(&fast, &ref, CLOSE);
    assert_close(&ref, &floats, CLOSE);
    assert_int_equal(same, 10);
    assert_true(same < many);
    free(fast.data);
    free(ref.data);
    free(floats.data);
}

/* A zero point that is not 0 (code 0x38 is 1) is no case for these steps; it
 * is computed in floats all the same. */
static void test_zero_point(void **unused)
{
    int few, many;
    struct infer_array ref = run_graph(0x38, INFER_BACKEND_REF, false, &few);
    struct infer_array floats = run_graph(0x38, INFER_BACKEND_REF, true, &many);

    (void)unused;
    assert_close(&ref, &floats, CLOSE);
    free(ref.data);
    free(floats.data);
}

static void test_gpu(void **unused)
{
    const int64_t dim[4] = {2, 5, 6, 7};
    struct infer_model *model = model_of(network(0));
    struct infer_session_options o;
    struct infer_session *s = NULL;
    struct infer_error err = {0};
    uint64_t state = 9;
    struct infer_array x = array_of(&state, 4, dim), y, ref;
    int layers;

    (void)unused;
    infer_session_options_init(&o);
    o.device = "cuda";
    o.tune = 0;
    const int rc = infer_session_create(model, &o, &err, &s);
    if (rc == 0) {
        y = run(s, &x, 1, 0);
        ref = run_graph(0, INFER_BACKEND_REF, false, &layers);
        assert_close(&y, &ref, CLOSE);
        assert_int_equal(infer_session_layer_count(s), 10);
        free(y.data);
        free(ref.data);
    } else if (rc != INFER_EDEVICE || getenv("INFER_REQUIRE_GPU")) {
        fail_msg("%s", err.text);
    }
    infer_session_close(&s);
    infer_model_close(&model);
    free(x.data);
    if (rc < 0)
        skip();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_network),
        cmocka_unit_test(test_zero_point),
        cmocka_unit_test(test_gpu),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
