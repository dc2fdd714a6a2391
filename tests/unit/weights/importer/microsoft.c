/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX: operators of the domain com.microsoft, which ONNX Runtime's optimiser
 * and quantizer write, and losses; files whose nodes are in another order. */
#include <math.h>
#include <string.h>

#include "tests/unit/weights/onnx_model.h"

/* A node of the domain; takes attr over, which may be NULL. */
static void node(struct pb_message *g, const char *op, const char *in,
                 const char *out, struct pb_message *attr)
{
    struct pb_message a = EMPTY;

    if (attr)
        pb_raw(&a, attr->data, attr->size);
    pb_text(&a, 7, "com.microsoft");
    if (attr)
        pb_free(attr);
    graph_node(g, op, in, out, &a);
}

/* Runs x -> y. */
static void must_give(struct pb_message m, int rank, const int64_t *dim,
                      const float *x, int n, const float *want)
{
    float y[64] = {0};

    run_reference(must_read(m), rank, dim, x, y, sizeof y);
    for (int i = 0; i < n; i++)
        if (!(fabsf(y[i] - want[i]) <= 1e-5f * fmaxf(1, fabsf(want[i]))))
            fail_msg("element %d is %g, expected %g", i, (double)y[i],
                     (double)want[i]);
}

static struct pb_message x_to_y(int rank, const int64_t *dim)
{
    struct pb_message m = EMPTY;

    graph_input(&m, "x", rank, dim);
    graph_output(&m, "y");
    return m;
}

/* Integers of 8 bits without sign. */
static void bytes(struct pb_message *m, const char *name, int rank,
                  const int64_t *dim, const unsigned char *data)
{
    struct pb_message t =
        tensor_raw(name, ONNX_UINT8, rank, dim, data, count_of(rank, dim));

    pb_nested(m, 5, &t);
}

/* ---- floats -------------------------------------------------------- */

TEST(test_fused_conv)
{
    struct pb_message m = x_to_y(DIMS(1, 1, 4)), a = EMPTY;

    graph_floats(&m, "w", DIMS(1, 1, 1), FLOATS(2));
    graph_floats(&m, "b", DIMS(1), FLOATS(1));
    graph_floats(&m, "z", DIMS(1, 1, 4), FLOATS(0, 1, 0, -20));
    attr_text(&a, "activation", "LeakyRelu");
    attr_floats(&a, "activation_params", 1, FLOATS(0.5f));
    node(&m, "FusedConv", "x w b z", "y", &a);
    must_give(model_of(&m, 12), DIMS(1, 1, 4), FLOATS(1, 2, -3, 4), 4,
              FLOATS(3, 6, -2.5f, -5.5f));
    m = x_to_y(DIMS(1, 1, 4));
    graph_floats(&m, "w", DIMS(1, 1, 1), FLOATS(2));
    attr_text(&a, "activation", "Selu");
    node(&m, "FusedConv", "x w", "y", &a);
    must_refuse(model_of(&m, 12), INFER_EUNSUPPORTED, "activation 'Selu'");
}

TEST(test_fused_products)
{
    struct pb_message m = x_to_y(DIMS(1, 2)), a = EMPTY;

    graph_floats(&m, "w", DIMS(2, 2), FLOATS(1, 2, 3, 4));
    attr_int(&a, "transB", 1);
    attr_float(&a, "alpha", 0.5f);
    node(&m, "FusedMatMul", "x w", "y", &a);
    must_give(model_of(&m, 12), DIMS(1, 2), FLOATS(2, -6), 2, FLOATS(-5, -9));
    m = x_to_y(DIMS(1, 2));
    graph_floats(&m, "w", DIMS(2, 2), FLOATS(1, 2, 3, 4));
    graph_floats(&m, "c", DIMS(2), FLOATS(4, 40));
    attr_text(&a, "activation", "Relu");
    attr_float(&a, "beta", 0.5f);
    node(&m, "FusedGemm", "x w c", "y", &a);
    must_give(model_of(&m, 12), DIMS(1, 2), FLOATS(2, -6), 2, FLOATS(0, 0));
}

TEST(test_gelu)
{
    const float x[4] = {-2, -0.5f, 0, 3};
    float erf[4], fast[4], quick[4];
    struct pb_message m = x_to_y(DIMS(1, 4));

    for (int i = 0; i < 4; i++) {
        const float b = x[i] + 1;

        erf[i] = b / 2 * (1 + erff(b / sqrtf(2)));
        fast[i] =
            b / 2 * (1 + tanhf(0.7978845608f * (b + 0.044715f * b * b * b)));
        quick[i] = x[i] / (1 + expf(-1.702f * x[i]));
    }
    graph_floats(&m, "b", DIMS(4), FLOATS(1, 1, 1, 1));
    node(&m, "BiasGelu", "x b", "y", NULL);
    must_give(model_of(&m, 12), DIMS(1, 4), x, 4, erf);
    m = x_to_y(DIMS(1, 4));
    graph_floats(&m, "b", DIMS(4), FLOATS(1, 1, 1, 1));
    node(&m, "FastGelu", "x b", "y", NULL);
    must_give(model_of(&m, 12), DIMS(1, 4), x, 4, fast);
    m = x_to_y(DIMS(1, 4));
    /* Some writers leave the domain out. */
    graph_node(&m, "QuickGelu", "x", "y", NULL);
    must_give(model_of(&m, 12), DIMS(1, 4), x, 4, quick);
}

TEST(test_skip_norm)
{
    for (int rms = 0; rms < 2; rms++) {
        const float sum[2] = {4, 8};
        struct pb_message m = x_to_y(DIMS(1, 2)), a = EMPTY;
        float want[2];

        for (int i = 0; i < 2; i++)
            want[i] = (rms ? sum[i] / sqrtf(40) : (sum[i] - 6) / 2) * 3 +
                      (rms ? 0 : 1) + sum[i];
        graph_floats(&m, "skip", DIMS(1, 2), FLOATS(2, 4));
        graph_floats(&m, "g", DIMS(2), FLOATS(3, 3));
        graph_floats(&m, "b", DIMS(2), FLOATS(1, 1));
        attr_float(&a, "epsilon", 0);
        node(&m,
             rms ? "SkipSimplifiedLayerNormalization"
                 : "SkipLayerNormalization",
             rms ? "x skip g" : "x skip g b", "n - - s", &a);
        graph_node(&m, "Add", "n s", "y", NULL);
        must_give(model_of(&m, 12), DIMS(1, 2), FLOATS(2, 4), 2, want);
    }
}

/* One head of two values; key 1 is masked in the second run. */
static void check_attention(bool joint, bool masked)
{
    static const float x[4] = {1, 0.5f, -1, 2};
    struct pb_message m = x_to_y(DIMS(1, 2, 2)), a = EMPTY;
    const int32_t seen[2] = {1, 0};
    float want[4];

    for (int q = 0; q < 2; q++) {
        float e[2];

        for (int k = 0; k < 2; k++)
            e[k] =
                masked && k == 1
                    ? 0
                    : expf((x[2 * q] * x[2 * k] + x[2 * q + 1] * x[2 * k + 1]) /
                           sqrtf(2));
        for (int d = 0; d < 2; d++)
            want[2 * q + d] = (e[0] * x[d] + e[1] * x[2 + d]) / (e[0] + e[1]);
    }
    attr_int(&a, "num_heads", 1);
    if (masked) {
        struct pb_message t =
            tensor_raw("mask", ONNX_INT32, DIMS(1, 2), seen, sizeof seen);

        pb_nested(&m, 5, &t);
    }
    if (joint) {
        graph_floats(&m, "w", DIMS(2, 6),
                     FLOATS(1, 0, 1, 0, 1, 0, 0, 1, 0, 1, 0, 1));
        node(&m, "Attention", masked ? "x w - mask" : "x w", "y", &a);
    } else {
        node(&m, "MultiHeadAttention", masked ? "x x x - mask" : "x x x", "y",
             &a);
    }
    must_give(model_of(&m, 12), DIMS(1, 2, 2), x, 4, want);
}

TEST(test_attention)
{
    for (int i = 0; i < 4; i++)
        check_attention(i & 1, i & 2);
}

/* ---- integers ------------------------------------------------------ */

/* x in steps of 0.5 from -64 on: q = 2 x + 128. */
static struct pb_message quantized(int rank, const int64_t *dim)
{
    struct pb_message m = x_to_y(rank, dim);
    const unsigned char zero = 128, low = 10;

    graph_floats(&m, "s", 0, NULL, FLOATS(0.5f));
    graph_floats(&m, "t", 0, NULL, FLOATS(0.25f));
    bytes(&m, "z", 0, NULL, &zero);
    bytes(&m, "l", 0, NULL, &low);
    graph_node(&m, "QuantizeLinear", "x s z", "q", NULL);
    return m;
}

TEST(test_integer_functions)
{
    const float x[4] = {1, -0.5f, 2, -3};
    struct pb_message m = quantized(DIMS(1, 4)), a = EMPTY;

    node(&m, "QLinearAdd", "q s z q s z t l", "r", NULL);
    graph_node(&m, "DequantizeLinear", "r t l", "y", NULL);
    /* Nothing below -2.5 is left with a zero point of 10. */
    must_give(model_of(&m, 12), DIMS(1, 4), x, 4, FLOATS(2, -1, 4, -2.5f));
    m = quantized(DIMS(1, 4));
    node(&m, "QLinearMul", "q s z q s z t l", "r", NULL);
    graph_node(&m, "DequantizeLinear", "r t l", "y", NULL);
    must_give(model_of(&m, 12), DIMS(1, 4), x, 4, FLOATS(1, 0.25f, 4, 9));
    m = quantized(DIMS(1, 4));
    attr_float(&a, "alpha", 0.5f);
    node(&m, "QLinearLeakyRelu", "q s z t l", "r", &a);
    graph_node(&m, "DequantizeLinear", "r t l", "y", NULL);
    must_give(model_of(&m, 12), DIMS(1, 4), x, 4, FLOATS(1, -0.25f, 2, -1.5f));
    m = quantized(DIMS(1, 4));
    attr_int(&a, "axis", 1);
    node(&m, "QLinearConcat", "t l q s z q s z", "r", &a);
    graph_node(&m, "DequantizeLinear", "r t l", "y", NULL);
    must_give(model_of(&m, 12), DIMS(1, 4), x, 8,
              FLOATS(1, -0.5f, 2, -2.5f, 1, -0.5f, 2, -2.5f));
}

TEST(test_integer_pools)
{
    const float x[4] = {1, 10, 3, 30};
    struct pb_message m = quantized(DIMS(1, 1, 2, 2)), a = EMPTY;

    attr_int(&a, "channels_last", 1);
    node(&m, "QLinearGlobalAveragePool", "q s z s z", "r", &a);
    graph_node(&m, "DequantizeLinear", "r s z", "y", NULL);
    must_give(model_of(&m, 12), DIMS(1, 1, 2, 2), x, 2, FLOATS(2, 20));
    m = quantized(DIMS(1, 1, 2, 2));
    attr_ints(&a, "kernel_shape", 2, INTS(1, 2));
    node(&m, "QLinearAveragePool", "q s z s z", "r", &a);
    graph_node(&m, "DequantizeLinear", "r s z", "y", NULL);
    must_give(model_of(&m, 12), DIMS(1, 1, 2, 2), x, 2, FLOATS(5.5f, 16.5f));
}

TEST(test_integer_products)
{
    const unsigned char w[4] = {1, 2, 3, 4}, one = 1;
    const float x[2] = {2, -3};
    struct pb_message m = quantized(DIMS(1, 2));

    /* (2, -3) (0 1, 2 3) in steps of 0.5 and 2: (4 - 12, ...) */
    bytes(&m, "w", DIMS(2, 2), w);
    bytes(&m, "o", 0, NULL, &one);
    graph_floats(&m, "u", 0, NULL, FLOATS(2));
    graph_floats(&m, "b", DIMS(2), FLOATS(100, 200));
    node(&m, "MatMulIntegerToFloat", "q w s u z o b", "y", NULL);
    must_give(model_of(&m, 12), DIMS(1, 2), x, 2, FLOATS(88, 186));
    m = quantized(DIMS(1, 2));
    bytes(&m, "w", DIMS(2, 2), w);
    bytes(&m, "o", 0, NULL, &one);
    graph_floats(&m, "u", 0, NULL, FLOATS(2));
    node(&m, "QGemm", "q s z w u o", "y", NULL);
    must_give(model_of(&m, 12), DIMS(1, 2), x, 2, FLOATS(-12, -14));
    /* 255 steps from 0 to 255 are exact. */
    m = x_to_y(DIMS(1, 2));
    bytes(&m, "w", DIMS(2, 2), w);
    graph_floats(&m, "u", 0, NULL, FLOATS(2));
    node(&m, "DynamicQuantizeMatMul", "x w u", "y", NULL);
    must_give(model_of(&m, 12), DIMS(1, 2), FLOATS(255, 10), 2,
              FLOATS(570, 1100));
}

/* ---- losses -------------------------------------------------------- */

TEST(test_losses)
{
    const float x[4] = {1, 3, 2, 2};
    const float p = logf(1 + expf(-2)), h = logf(2);
    struct pb_message m = x_to_y(DIMS(2, 2)), a = EMPTY;

    graph_ints(&m, "t", DIMS(2), INTS(1, 0));
    graph_floats(&m, "w", DIMS(2), FLOATS(3, 1));
    graph_node(&m, "SoftmaxCrossEntropyLoss", "x t w", "y", NULL);
    must_give(model_of(&m, 13), DIMS(2, 2), x, 1, FLOATS((p + 3 * h) / 4));
    m = x_to_y(DIMS(2, 2));
    graph_ints(&m, "t", DIMS(2), INTS(-1, 0));
    attr_int(&a, "ignore_index", -1);
    graph_node(&m, "SoftmaxCrossEntropyLoss", "x t", "y", &a);
    must_give(model_of(&m, 13), DIMS(2, 2), x, 1, &h);
    m = x_to_y(DIMS(2, 2));
    graph_ints(&m, "t", DIMS(2), INTS(1, 0));
    attr_text(&a, "reduction", "none");
    graph_node(&m, "NegativeLogLikelihoodLoss", "x t", "y", &a);
    must_give(model_of(&m, 13), DIMS(2, 2), x, 2, FLOATS(-3, -2));
}

/* ---- order and versions -------------------------------------------- */

TEST(test_order)
{
    struct pb_message m = x_to_y(DIMS(1, 4));

    graph_node(&m, "Add", "b x", "y", NULL);
    graph_node(&m, "Abs", "a", "b", NULL);
    graph_node(&m, "Neg", "x", "a", NULL);
    must_give(model_of(&m, 13), DIMS(1, 4), FLOATS(1, -2, 3, -4), 4,
              FLOATS(2, 0, 6, 0));
    m = x_to_y(DIMS(1, 4)); /* a cycle */
    graph_node(&m, "Add", "b x", "a", NULL);
    graph_node(&m, "Abs", "a", "b", NULL);
    graph_node(&m, "Neg", "b", "y", NULL);
    must_refuse(model_of(&m, 13), INFER_EFORMAT, "no node before it");
}

/* A model of other operators alone need not say which version of ONNX's it
 * wants; one of these must. */
TEST(test_versions)
{
    for (int plain = 0; plain < 2; plain++) {
        struct pb_message m = EMPTY, version = EMPTY, g = x_to_y(DIMS(1, 4));

        if (plain)
            graph_node(&g, "Relu", "x", "y", NULL);
        else
            node(&g, "Gelu", "x", "y", NULL);
        pb_int(&m, 1, 8);
        pb_text(&version, 1, "com.microsoft");
        pb_int(&version, 2, 1);
        pb_nested(&m, 8, &version);
        pb_nested(&m, 7, &g);
        if (plain)
            must_refuse(m, INFER_EFORMAT, "no version of the ONNX operators");
        else
            must_give(m, DIMS(1, 4), FLOATS(0, 0, 0, 0), 4, FLOATS(0, 0, 0, 0));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fused_conv),
        cmocka_unit_test(test_fused_products),
        cmocka_unit_test(test_gelu),
        cmocka_unit_test(test_skip_norm),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_integer_functions),
        cmocka_unit_test(test_integer_pools),
        cmocka_unit_test(test_integer_products),
        cmocka_unit_test(test_losses),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_versions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
