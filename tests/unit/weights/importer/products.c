/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX operators told by tables and sums: determinants, products of integers,
 * TensorFlow's two rules of Resize. */
#include <math.h>

#include "tests/unit/weights/onnx_model.h"

static void must_give(struct pb_message *m, int opset, int rank,
                      const int64_t *dim, const float *x, const float *want,
                      size_t n)
{
    float y[64] = {0};

    assert_true(n <= COUNT(y));
    run_reference(must_read(model_of(m, opset)), rank, dim, x, y, sizeof y);
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(y[i] - want[i]) <= 1e-5f * (1 + fabsf(want[i]))))
            fail_msg("element %zu is %g, expected %g", i, (double)y[i],
                     (double)want[i]);
}

/* ---- Det ----------------------------------------------------------- */

/* A zero on the diagonal, an odd permutation, a singular matrix. */
TEST(test_det)
{
    struct pb_message m = one_node("Det", "x", DIMS(-1, 3, 3), NULL);

    must_give(&m, 11, DIMS(3, 3, 3),
              FLOATS(0, 1, 2, 3, 0, 4, 5, 6, 0, /* 56 */
                     0, 1, 0, 1, 0, 0, 0, 0, 1, /* -1 */
                     1, 2, 3, 2, 4, 6, 5, 7, 9),
              FLOATS(56, -1, 0), 3);
}

TEST(test_det_of_one)
{
    struct pb_message m = one_node("Det", "x", DIMS(-1, 1, 1), NULL);

    must_give(&m, 11, DIMS(2, 1, 1), FLOATS(3, -4), FLOATS(3, -4), 2);
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
        must_give(&m, 13, DIMS(2, 2), FLOATS(4097, 4096, 4096, 4097),
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
        must_give(&m, 14, DIMS(2), FLOATS(1, 3), cases[i].y, 2);
    }
}

/* ---- Resize -------------------------------------------------------- */

static struct pb_message resize(const char *rule, const char *mode,
                                const float *region, const int64_t *size)
{
    struct pb_message m = EMPTY, a = EMPTY;

    graph_input(&m, "x", DIMS(1, 1, 3, 3));
    graph_output(&m, "y");
    if (region)
        graph_floats(&m, "r", DIMS(8), region);
    graph_ints(&m, "s", DIMS(4), size);
    attr_text(&a, "coordinate_transformation_mode", rule);
    attr_text(&a, "mode", mode);
    attr_float(&a, "extrapolation_value", 100);
    graph_node(&m, "Resize", region ? "x r - s" : "x - - s", "y", &a);
    return m;
}

#define PICTURE FLOATS(0, 1, 2, 3, 4, 5, 6, 7, 8)

/* From the first row's middle to half a row beyond the last. */
TEST(test_crop_and_resize)
{
    struct pb_message m =
        resize("tf_crop_and_resize", "linear",
               FLOATS(0, 0, 0.25f, 0, 1, 1, 1.25f, 1), INTS(1, 1, 3, 2));

    must_give(&m, 13, DIMS(1, 1, 3, 3), PICTURE,
              FLOATS(1.5f, 3.5f, 4.5f, 6.5f, 100, 100), 6);
    /* one entry: the middle of the region */
    m = resize("tf_crop_and_resize", "nearest",
               FLOATS(0, 0, 0.5f, 0, 1, 1, 1, 1), INTS(1, 1, 1, 3));
    must_give(&m, 13, DIMS(1, 1, 3, 3), PICTURE, FLOATS(3, 4, 5), 3);
}

/* Entries 0 and 1 of 2 come from 0.75 and 2.25. */
TEST(test_half_pixel_for_nearest)
{
    struct pb_message m =
        resize("tf_half_pixel_for_nn", "nearest", NULL, INTS(1, 1, 3, 2));

    must_give(&m, 11, DIMS(1, 1, 3, 3), PICTURE, FLOATS(1, 2, 4, 5, 7, 8), 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_det),
        cmocka_unit_test(test_det_of_one),
        cmocka_unit_test(test_integer_matmul),
        cmocka_unit_test(test_integers_wrap),
        cmocka_unit_test(test_crop_and_resize),
        cmocka_unit_test(test_half_pixel_for_nearest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
