/* SPDX-License-Identifier: Apache-2.0 */
/* What sessions take and return: types of elements, names, several inputs and
 * outputs. */
#include "tests/unit/runtime/network.h"

#include <math.h>

#include "kernels/base/denormals.h"
#include "kernels/base/scalar.h"

/* y = x * w in F16: computed in F32, declared and returned as F16. */
static void test_half(void **unused)
{
    struct graph *g = graph_new();
    const int64_t dim[2] = {1, 4};
    struct constant *c = constant_new(INFER_F16, 2, dim);
    float data[4] = {1.5f, -2, 0.25f, 3};
    uint16_t half[4], result[4];
    struct infer_model *model;
    struct infer_session *s;
    struct infer_array in = {.dtype = INFER_F32, .rank = 2, .dim = {1, 4}};
    struct infer_array out = {.data = result, .bytes = sizeof result};
    int x, w, y;

    (void)unused;
    for (int i = 0; i < 4; i++) {
        ((uint16_t *)(void *)c->data)[i] = scalar_to_f16((float)(i + 1));
        half[i] = scalar_to_f16(data[i]);
    }
    x = graph_add_input(g, "x", INFER_F16, 2, dim);
    w = graph_add_constant(g, "w", c);
    y = add_binary(g, "y", x, w, KERN_MUL);
    graph_add_output(g, y);
    model = model_of(g);
    s = session_of(model, INFER_BACKEND_AUTO, false);
    for (int as_half = 0; as_half < 2; as_half++) {
        memset(result, 0, sizeof result);
        in.dtype = as_half ? INFER_F16 : INFER_F32;
        in.data = as_half ? (void *)half : (void *)data;
        in.bytes = as_half ? sizeof half : sizeof data;
        assert_int_equal(infer_session_run(s, &in, 1, &out, 1, NULL), 0);
        assert_int_equal(out.dtype, INFER_F16);
        for (int i = 0; i < 4; i++)
            assert_int_equal(result[i],
                             scalar_to_f16(data[i] * (float)(i + 1)));
    }
    infer_session_close(&s);
    infer_model_close(&model);
}

/* The reference that rounds to 16 bits departs by roundings, of bfloat16 by
 * some eight times as much as of halves, and takes and returns the model's
 * types. */
static void test_rounding(void **unused)
{
    const enum infer_precision precision[] = {INFER_PRECISION_FP16,
                                              INFER_PRECISION_BF16};
    struct infer_model *model = model_of(small_network());
    struct infer_session *exact = session_of(model, INFER_BACKEND_REF, false);
    uint64_t state = 23;
    struct infer_array x = array_of(&state, DIMS(2, 3, 16, 16));
    struct infer_array want = run(exact, &x, 1, 0);
    double worst[2] = {0};

    (void)unused;
    for (int k = 0; k < 2; k++) {
        struct infer_session_options o;
        struct infer_session *s = NULL;
        struct infer_array y;

        infer_session_options_init(&o);
        o.backend = INFER_BACKEND_REF;
        o.precision = precision[k];
        assert_int_equal(infer_session_create(model, &o, NULL, &s), 0);
        y = run(s, &x, 1, 0);
        assert_int_equal(y.dtype, INFER_F32);
        for (int i = 0; i < 20; i++)
            worst[k] = fmax(worst[k], fabs((double)((float *)y.data)[i] -
                                           (double)((float *)want.data)[i]));
        free(y.data);
        infer_session_close(&s);
    }
    assert_true(worst[0] > 0x1p-20 && worst[0] < 0x1p-8);
    assert_true(worst[1] > 2 * worst[0] && worst[1] < 0x1p-5);
    free(want.data);
    free(x.data);
    infer_session_close(&exact);
    infer_model_close(&model);
}

/* The graph's own rounding to half precision is kept. */
static void test_cast_through_half(void **unused)
{
    struct graph *g = graph_new();
    struct infer_model *model;
    struct infer_session *s;
    uint64_t state = 17;
    struct infer_array x = array_of(&state, DIMS(1, 100)), y;
    int v, node;

    (void)unused;
    v = input(g, "x", DIMS(1, 100));
    v = add(g, GRAPH_CAST, "half", IN(v), &node);
    g->node[node].attr.cast.to = INFER_F16;
    v = add(g, GRAPH_CAST, "wide", IN(v), &node);
    g->node[node].attr.cast.to = INFER_F32;
    graph_add_output(g, v);
    model = model_of(g);
    s = session_of(model, INFER_BACKEND_AUTO, false);
    y = run(s, &x, 1, 0);
    for (int i = 0; i < 100; i++) {
        float expected = scalar_from_f16(scalar_to_f16(((float *)x.data)[i]));

        assert_memory_equal(&((float *)y.data)[i], &expected, sizeof expected);
    }
    free(x.data);
    free(y.data);
    infer_session_close(&s);
    infer_model_close(&model);
}

/* Outputs that are an input, a constant and a view, and inputs by name. */
static void test_plain_outputs(void **unused)
{
    struct graph *g = graph_new();
    struct infer_model *model;
    struct infer_session *s;
    uint64_t state = 18;
    struct infer_array a = array_of(&state, DIMS(2, 3));
    struct infer_array b = array_of(&state, DIMS(2, 3)), in[2], out[4] = {0};
    float o[4][6], constant[6];
    int x, y, w, t, d;

    (void)unused;
    x = input(g, "x", DIMS(2, 3));
    y = input(g, "y", DIMS(2, 3));
    w = weights(g, &state, DIMS(2, 3));
    t = add(g, GRAPH_TRANSPOSE, "t", IN(x), NULL);
    d = add_binary(g, "d", x, y, KERN_SUB);
    graph_add_output(g, x);
    graph_add_output(g, w);
    graph_add_output(g, t);
    graph_add_output(g, d);
    memcpy(constant, g->value[w].data->data, sizeof constant);
    model = model_of(g);
    s = session_of(model, INFER_BACKEND_AUTO, false);
    a.name = "x";
    b.name = "y";
    in[0] = b;
    in[1] = a;
    for (int i = 0; i < 4; i++) {
        out[i].data = o[i];
        out[i].bytes = sizeof o[i];
    }
    for (int round = 0; round < 2; round++) {
        memset(o, 0, sizeof o);
        assert_int_equal(infer_session_run(s, in, 2, out, 4, NULL), 0);
        assert_memory_equal(o[0], a.data, sizeof o[0]);
        assert_memory_equal(o[1], constant, sizeof constant);
        assert_int_equal(out[2].dim[0], 3);
        for (int i = 0; i < 6; i++) {
            const float *p = a.data, *q = b.data;
            float difference = p[i] - q[i];

            assert_memory_equal(&o[2][i], &p[i % 2 * 3 + i / 2], 4);
            assert_memory_equal(&o[3][i], &difference, 4);
        }
    }
    /* Constants are not computed again and again: only what depends on the
     * inputs is a layer. */
    assert_int_equal(infer_session_layer_count(s), 3);
    in[0] = a;
    assert_int_equal(infer_session_run(s, in, 2, NULL, 0, NULL),
                     INFER_EARGUMENT);
    free(a.data);
    free(b.data);
    infer_session_close(&s);
    infer_model_close(&model);
}

/* Integers are taken for reals, but reals not for integers. */
static void test_integer_input(void **unused)
{
    struct graph *g = graph_new();
    const int64_t dim[1] = {3};
    const float real[3] = {1, 2, 3};
    const uint8_t byte[3] = {1, 0, 255};
    int64_t result[3];
    struct infer_array in = {.dtype = INFER_F32,
                             .rank = 1,
                             .dim = {3},
                             .data = (void *)real,
                             .bytes = sizeof real};
    struct infer_array out = {.data = result, .bytes = sizeof result};
    struct infer_model *model;
    struct infer_session *s;
    struct infer_error err;
    int x, y;

    (void)unused;
    x = graph_add_input(g, "index", INFER_I64, 1, dim);
    y = add_binary(g, "twice", x, x, KERN_ADD);
    graph_add_output(g, y);
    model = model_of(g);
    s = session_of(model, INFER_BACKEND_AUTO, false);
    REFUSED(infer_session_run(s, &in, 1, &out, 1, &err), INFER_EARGUMENT,
            "'index': type F32, expected I64");
    in.dtype = INFER_U8;
    in.data = (void *)byte;
    in.bytes = sizeof byte;
    assert_int_equal(infer_session_run(s, &in, 1, &out, 1, &err), 0);
    assert_int_equal(result[0], 2);
    assert_int_equal(result[2], 510);
    infer_session_close(&s);
    infer_model_close(&model);
}

/* ---- denormals ----------------------------------------------------- */

/* They count as zero in a run, on every thread, and the caller's thread has its
 * own setting afterwards. */
static void test_denormals(void **unused)
{
    static float value[64 * 1024];
    const int64_t dim[2] = {64, 1024};
    struct graph *g = graph_new();
    int v = add_unary(g, "double", input(g, "x", 2, dim), KERN_LINEAR);
    struct infer_model *model;
    struct infer_session *s;
    struct infer_array x = {
        .dtype = INFER_F32, .rank = 2, .data = value, .bytes = sizeof value};
    const uint64_t word = denormals_word();

    (void)unused;
    if (DENORMALS_ZERO == 0)
        skip();
    memcpy(x.dim, dim, sizeof dim);
    for (size_t i = 0; i < sizeof value / sizeof value[0]; i++)
        value[i] = 1e-40f;
    g->node[g->value[v].producer].attr.unary.a = 2;
    graph_add_output(g, v);
    model = model_of(g);
    s = session_of(model, INFER_BACKEND_AUTO, false);
    x = run(s, &x, 1, 0);
    for (size_t i = 0; i < x.bytes / sizeof(float); i++)
        assert_true(((float *)x.data)[i] == 0);
    assert_int_equal(denormals_word(), word);
    free(x.data);
    infer_session_close(&s);
    infer_model_close(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_half),
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_cast_through_half),
        cmocka_unit_test(test_plain_outputs),
        cmocka_unit_test(test_integer_input),
        cmocka_unit_test(test_denormals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
