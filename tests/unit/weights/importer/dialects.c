/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX files as exporters differ in writing them: weights of 4 bits and of
 * 8-bit floats, functions of one name, sums of integers, nodes that nobody
 * needs. */
#include <math.h>
#include <string.h>

#include "tests/unit/weights/onnx_model.h"
#include "weights/narrow.h"

/* Runs x -> y on four numbers. */
static void must_give(struct pb_message m, const float *x, int n,
                      const float *want)
{
    struct graph *g = must_read(m);
    float y[64] = {0};

    run_reference(g, DIMS(1, 4), x, y, sizeof y);
    for (int i = 0; i < n; i++)
        if (!(fabsf(y[i] - want[i]) <= 1e-6f * fabsf(want[i])) &&
            !(isnan(want[i]) && isnan(y[i])))
            fail_msg("element %d is %g, expected %g", i, (double)y[i],
                     (double)want[i]);
}

/* y = x + dequantised w, of 4 elements and a scale of 0.5. */
static struct pb_message narrow(int type, const void *packed, size_t bytes,
                                bool typed)
{
    struct pb_message m = EMPTY, t = EMPTY;

    graph_input(&m, "x", DIMS(1, 4));
    graph_output(&m, "y");
    if (typed) {
        pb_int(&t, 1, 4);
        pb_int(&t, 2, type);
        pb_text(&t, 8, "w");
        for (size_t i = 0; i < bytes; i++)
            pb_int(&t, 5, ((const unsigned char *)packed)[i]);
    } else {
        t = tensor_raw("w", type, DIMS(4), packed, bytes);
    }
    pb_nested(&m, 5, &t);
    graph_floats(&m, "s", 0, NULL, FLOATS(0.5f));
    graph_node(&m, "DequantizeLinear", "w s", "d", NULL);
    graph_node(&m, "Add", "x d", "y", NULL);
    return model_of(&m, 21);
}

TEST(test_narrow_types)
{
    static const struct {
        int type;
        unsigned char packed[4];
        size_t bytes;
        float value[4];
    } cases[] = {
        {NARROW_INT4, {0x71, 0x8f}, 2, {1, 7, -1, -8}},
        {NARROW_UINT4, {0x71, 0x8f}, 2, {1, 7, 15, 8}},
        {NARROW_INT2, {0xb1}, 1, {1, 0, -1, -2}},
        {NARROW_UINT2, {0xb1}, 1, {1, 0, 3, 2}},
        /* one, the largest, the smallest, not a number */
        {NARROW_FLOAT8E4M3FN,
         {0x38, 0x7e, 0x81, 0x7f},
         4,
         {1, 448, -0x1p-9f, NAN}},
        {NARROW_FLOAT8E4M3FNUZ,
         {0x40, 0x7f, 0x81, 0x80},
         4,
         {1, 240, -0x1p-10f, NAN}},
        {NARROW_FLOAT8E5M2,
         {0x3c, 0x7b, 0x81, 0x7d},
         4,
         {1, 57344, -0x1p-16f, NAN}},
        {NARROW_FLOAT8E5M2FNUZ,
         {0x40, 0x7f, 0x81, 0x80},
         4,
         {1, 57344, -0x1p-17f, NAN}},
        {NARROW_FLOAT4E2M1, {0x72, 0x91}, 2, {1, 6, 0.5f, -0.5f}},
        {NARROW_FLOAT8E8M0, {127, 128, 126, 255}, 4, {1, 2, 0.5f, NAN}},
    };

    for (size_t i = 0; i < COUNT(cases); i++)
        for (int typed = 0; typed < 2; typed++) {
            float want[4];

            for (int k = 0; k < 4; k++)
                want[k] = 3 + cases[i].value[k] / 2;
            must_give(
                narrow(cases[i].type, cases[i].packed, cases[i].bytes, typed),
                FLOATS(3, 3, 3, 3), 4, want);
        }
}

/* Other operators would compute in other types than the file says. */
TEST(test_narrow_refused)
{
    const unsigned char packed[2] = {0x71, 0x8f};
    struct pb_message m = EMPTY, t;

    must_refuse(narrow(NARROW_INT4, packed, 1, false), INFER_EFORMAT,
                "raw_data of 1 bytes, the shape needs 2");
    must_refuse(narrow(NARROW_INT4, packed, 1, true), INFER_EFORMAT,
                "1 elements");
    t = tensor_raw("w", NARROW_INT4, DIMS(4), packed, 2);
    graph_input(&m, "x", DIMS(1, 4));
    graph_output(&m, "y");
    pb_nested(&m, 5, &t);
    graph_node(&m, "Add", "x w", "y", NULL);
    must_refuse(model_of(&m, 21), INFER_EUNSUPPORTED, "less than 8 bits");
}

/* my.Act with an overload: x + 1 or x - 1. */
static void add_overload(struct pb_message *model, const char *op,
                         const char *overload)
{
    struct pb_message f = EMPTY, g = EMPTY;

    graph_node(&g, op, "p p", "r", NULL);
    pb_text(&f, 1, "Act");
    pb_text(&f, 4, "p");
    pb_text(&f, 5, "r");
    pb_bytes(&f, 7, g.data + 2, g.size - 2); /* the node without its tag */
    pb_text(&f, 10, "my");
    if (overload)
        pb_text(&f, 13, overload);
    pb_free(&g);
    pb_nested(model, 25, &f);
}

TEST(test_overloads)
{
    static const char *const overloads[] = {NULL, "other"};

    for (int i = 0; i < 2; i++) {
        struct pb_message g = EMPTY, n = EMPTY, m;

        graph_input(&g, "x", DIMS(1, 4));
        graph_output(&g, "y");
        node_names(&n, 1, "x");
        node_names(&n, 2, "y");
        pb_text(&n, 4, "Act");
        pb_text(&n, 7, "my");
        if (overloads[i])
            pb_text(&n, 8, overloads[i]);
        pb_nested(&g, 1, &n);
        m = model_of(&g, 17);
        add_overload(&m, "Mul", NULL);
        add_overload(&m, "Add", "other");
        must_give(m, FLOATS(1, 2, 3, 5), 4,
                  i ? FLOATS(2, 4, 6, 10) : FLOATS(1, 4, 9, 25));
    }
}

/* 1,000 products of 255 and 127 and one of 255 and 1: no F32 holds the sum,
 * 32,385,255. */
TEST(test_long_sums)
{
    enum { TERMS = 1001 };
    struct pb_message m = EMPTY, t;
    signed char w[TERMS];

    for (int conv = 0; conv < 2; conv++) {
        memset(w, 127, sizeof w);
        w[TERMS - 1] = 1;
        graph_input(&m, "x", DIMS(1, 4));
        graph_output(&m, "y");
        t = tensor_raw("w", ONNX_INT8, 3, INTS(1, TERMS, 1), w, sizeof w);
        pb_nested(&m, 5, &t);
        /* One of the numbers, as bytes, TERMS times. */
        graph_ints(&m, "shape", DIMS(3),
                   conv ? INTS(1, TERMS, 1) : INTS(1, 1, TERMS));
        graph_ints(&m, "one", DIMS(1), INTS(1));
        t = (struct pb_message)EMPTY;
        attr_int(&t, "to", ONNX_UINT8);
        graph_node(&m, "ReduceMax", "x", "m", NULL);
        graph_node(&m, "Reshape", "m one", "r", NULL);
        graph_node(&m, "Expand", "r shape", "e", NULL);
        graph_node(&m, "Cast", "e", "a", &t);
        graph_node(&m, conv ? "ConvInteger" : "MatMulInteger", "a w", "s",
                   NULL);
        t = (struct pb_message)EMPTY;
        attr_int(&t, "to", ONNX_INT32);
        graph_node(&m, "Cast", "s", "i", &t);
        /* What is beyond 2^24 shows in the lowest bits. */
        t = tensor_raw("base", ONNX_INT32, 0, NULL, (int32_t[]){32385000}, 4);
        pb_nested(&m, 5, &t);
        graph_node(&m, "Sub", "i base", "d", NULL);
        t = (struct pb_message)EMPTY;
        attr_int(&t, "to", ONNX_FLOAT);
        graph_node(&m, "Cast", "d", "y", &t);
        must_give(model_of(&m, 17), FLOATS(1, 255, 3, 4), 1, FLOATS(255));
        m = (struct pb_message)EMPTY;
    }
}

/* Without axes a batch of 1 is squeezed too. */
TEST(test_squeeze_of_all)
{
    struct pb_message m = EMPTY;
    struct graph *g;

    graph_input(&m, "x", DIMS(1, 4, 1));
    graph_output(&m, "y");
    graph_node(&m, "Squeeze", "x", "y", NULL);
    g = must_read(model_of(&m, 17));
    assert_output(g, 0, DIMS(4));
    graph_free(g);
}

/* A node that no output needs may be of any kind; a broken one may not. */
TEST(test_dead_nodes)
{
    for (int broken = 0; broken < 2; broken++) {
        struct pb_message m = EMPTY;

        graph_input(&m, "x", DIMS(1, 4));
        graph_output(&m, "y");
        graph_node(&m, "Neg", "x", "y", NULL);
        graph_node(&m, "Foo", broken ? "nowhere" : "x", "a", NULL);
        graph_node(&m, "Relu", "a", "b", NULL);
        if (broken)
            graph_node(&m, "Add", "nowhere", "c", NULL);
        if (broken)
            must_refuse(model_of(&m, 17), INFER_EUNSUPPORTED, "Foo");
        else
            must_give(model_of(&m, 17), FLOATS(1, 2, 3, 4), 4,
                      FLOATS(-1, -2, -3, -4));
    }
}

/* ONNX Runtime's quantizer writes scales of one number as lists, whose axis
 * may be none of the tensor. */
TEST(test_scale_of_one)
{
    static const unsigned char bytes[4] = {128, 130, 124, 255}, zero = 128;
    struct pb_message m = EMPTY, t;

    graph_input(&m, "x", DIMS(1, 4));
    graph_output(&m, "y");
    t = tensor_raw("b", ONNX_UINT8, DIMS(4), bytes, 4);
    pb_nested(&m, 5, &t);
    t = tensor_raw("z", ONNX_UINT8, DIMS(1), &zero, 1);
    pb_nested(&m, 5, &t);
    graph_floats(&m, "s", DIMS(1), FLOATS(0.5f));
    graph_node(&m, "DequantizeLinear", "b s z", "d", NULL);
    graph_node(&m, "QuantizeLinear", "d s z", "q", NULL);
    graph_node(&m, "DequantizeLinear", "q s z", "e", NULL);
    graph_node(&m, "Add", "x e", "y", NULL);
    must_give(model_of(&m, 13), FLOATS(1, 1, 1, 1), 4, FLOATS(1, 2, -1, 64.5f));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_narrow_types),
        cmocka_unit_test(test_scale_of_one),
        cmocka_unit_test(test_narrow_refused),
        cmocka_unit_test(test_overloads),
        cmocka_unit_test(test_long_sums),
        cmocka_unit_test(test_squeeze_of_all),
        cmocka_unit_test(test_dead_nodes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
