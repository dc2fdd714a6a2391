/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX's Resize by TensorFlow's two rules of coordinates, and of opset 10. */
#include "tests/unit/weights/onnx_model.h"

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

    must_compute(&m, 13, DIMS(1, 1, 3, 3), PICTURE,
                 FLOATS(1.5f, 3.5f, 4.5f, 6.5f, 100, 100), 6);
    /* one entry: the middle of the region */
    m = resize("tf_crop_and_resize", "nearest",
               FLOATS(0, 0, 0.5f, 0, 1, 1, 1, 1), INTS(1, 1, 1, 3));
    must_compute(&m, 13, DIMS(1, 1, 3, 3), PICTURE, FLOATS(3, 4, 5), 3);
}

/* Entries 0 and 1 of 2 come from 0.75 and 2.25. */
TEST(test_half_pixel_for_nearest)
{
    struct pb_message m =
        resize("tf_half_pixel_for_nn", "nearest", NULL, INTS(1, 1, 3, 2));

    must_compute(&m, 11, DIMS(1, 1, 3, 3), PICTURE, FLOATS(1, 2, 4, 5, 7, 8),
                 6);
}

/* Rows 0 and 1 of 2 come from 0 and 1.43, columns of 4 from 0,
 * 0.71, 1.43, 2.14: the next row, the column before. */
TEST(test_opset_10)
{
    struct pb_message m = EMPTY, a = EMPTY;

    graph_input(&m, "x", DIMS(1, 1, 3, 3));
    graph_output(&m, "y");
    graph_floats(&m, "s", DIMS(4), FLOATS(1, 1, 0.7f, 1.4f));
    attr_text(&a, "mode", "nearest");
    graph_node(&m, "Resize", "x s", "y", &a);
    must_compute(&m, 10, DIMS(1, 1, 3, 3), PICTURE,
                 FLOATS(0, 0, 1, 2, 6, 6, 7, 8), 8);
}

/* Of 3 entries by 1.5 the standard's tests divide by 3.5, PyTorch by 3: also
 * where the height is free. */
TEST(test_corners)
{
    for (int k = 0; k < 4; k++) {
        struct pb_message m = EMPTY, a = EMPTY, file;
        const bool pytorch = k % 2 == 1, open = k > 1;
        const float one = pytorch ? 2.0f / 3 : 4.0f / 7;
        float y[4] = {0};

        graph_input(&m, "x", DIMS(1, 1, open ? -1 : 3, 1));
        graph_output(&m, "y");
        graph_floats(&m, "s", DIMS(4), FLOATS(1, 1, 1.5f, 1));
        attr_text(&a, "mode", "linear");
        attr_text(&a, "coordinate_transformation_mode", "align_corners");
        graph_node(&m, "Resize", "x - s", "y", &a);
        file = model_of(&m, 13);
        if (pytorch)
            pb_text(&file, 2, "pytorch");
        run_reference(must_read(file), DIMS(1, 1, 3, 1), FLOATS(0, 1, 2), y,
                      sizeof y);
        for (int i = 0; i < 4; i++)
            assert_float_equal(y[i], one * (float)i, 1e-6f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crop_and_resize),
        cmocka_unit_test(test_half_pixel_for_nearest),
        cmocka_unit_test(test_opset_10),
        cmocka_unit_test(test_corners),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
