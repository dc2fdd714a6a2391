/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX operators told by sums of products: determinants, products of integers.
 */
#include "tests/unit/weights/onnx_model.h"

/* ---- Det ----------------------------------------------------------- */

/* A zero on the diagonal, an odd permutation, a singular matrix. */
TEST(test_det)
{
    struct pb_message m = one_node("Det", "x", DIMS(-1, 3, 3), NULL);

    must_compute(&m, 11, DIMS(3, 3, 3),
                 FLOATS(0, 1, 2, 3, 0, 4, 5, 6, 0, /* 56 */
                        0, 1, 0, 1, 0, 0, 0, 0, 1, /* -1 */
                        1, 2, 3, 2, 4, 6, 5, 7, 9),
                 FLOATS(56, -1, 0), 3);
}

TEST(test_det_of_one)
{
    struct pb_message m = one_node("Det", "x", DIMS(-1, 1, 1), NULL);

    must_compute(&m, 11, DIMS(2, 1, 1), FLOATS(3, -4), FLOATS(3, -4), 2);
}

/* ---- integers ------------------------------------------------------ */

static void cast_node(struct pb_message *g, const char *in, const char *out,
                      int type)
{
    struct pb_message a = EMPTY;

    attr_int(&a, "to", type);
    graph_node(g, "Cast", in, out, &a);
}

/* Terms beyond 2^24, where a product of floats would round: 4097^2 is
 * 16785409. */
TEST(test_integer_matmul)
{
    for (int vector = 0; vector < 2; vector++) {
        struct pb_message m = EMPTY;

        graph_input(&m, "x", DIMS(2, 2));
        graph_output(&m, "y");
        cast_node(&m, "x", "i", ONNX_INT64);
        if (vector)
            graph_ints(&m, "w", DIMS(2), INTS(4097, -4096));
        else
            graph_ints(&m, "w", DIMS(2, 2), INTS(4097, 1, -4096, 0));
        graph_node(&m, "MatMul", "i w", "p", NULL);
        cast_node(&m, "p", "y", ONNX_FLOAT);
        must_compute(&m, 13, DIMS(2, 2), FLOATS(4097, 4096, 4096, 4097),
                     vector ? FLOATS(8193, 0) : FLOATS(8193, 4097, 0, 4096),
                     vector ? 2 : 4);
    }
}

/* Sums of 32 bits wrap at run time as they do while folding. */
TEST(test_integers_wrap)
{
    static const struct {
        const char *op;
        int64_t other;
        float y[2];
    } cases[] = {
        {"Add", 2147483647, {-2147483648.0f, -2147483646.0f}},
        {"Sub", -2147483647, {-2147483648.0f, -2147483646.0f}},
        {"Mul", 1073741824, {1073741824.0f, -1073741824.0f}},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct pb_message m = EMPTY;

        graph_input(&m, "x", DIMS(2));
        graph_output(&m, "y");
        cast_node(&m, "x", "i", ONNX_INT32);
        graph_ints(&m, "wide", 0, NULL, &cases[i].other);
        cast_node(&m, "wide", "w", ONNX_INT32);
        graph_node(&m, cases[i].op, "i w", "r", NULL);
        cast_node(&m, "r", "y", ONNX_FLOAT);
        must_compute(&m, 14, DIMS(2), FLOATS(1, 3), cases[i].y, 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_det),
        cmocka_unit_test(test_det_of_one),
        cmocka_unit_test(test_integer_matmul),
        cmocka_unit_test(test_integers_wrap),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
