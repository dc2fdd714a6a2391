/* SPDX-License-Identifier: Apache-2.0 */
/* The ONNX reader on metadata: pictures, and what Ultralytics writes. */
#include <math.h>
#include <string.h>

#include "tests/unit/weights/onnx_model.h"

/* A model of one input of `channels` channels with two words of metadata
 * ("": none). */
static struct graph *with_metadata(int channels, const char *format,
                                   const char *range)
{
    static const char *const key[2] = {"Image.BitmapPixelFormat",
                                       "Image.NominalPixelRange"};
    const char *const value[2] = {format, range};
    const int64_t dim[4] = {-1, channels, 8, 8};
    struct pb_message g = one_node("Relu", "x", 4, dim, NULL);
    struct pb_message m = model_of(&g, 17);

    for (int i = 0; i < 2; i++) {
        struct pb_message entry = EMPTY;

        if (!value[i][0])
            continue;
        pb_text(&entry, 1, key[i]);
        pb_text(&entry, 2, value[i]);
        pb_nested(&m, 14, &entry);
    }
    return must_read(m);
}

TEST(test_picture_metadata)
{
    static const struct {
        int channels;
        const char *format, *range;
        bool present;
        enum graph_color color;
        float black, white; /* what the network gets */
    } c[] = {
        {3, "", "", false, GRAPH_RGB, 0, 0},
        {3, "Bgr8", "NominalRange_0_255", true, GRAPH_BGR, 0, 255},
        {3, "Bgr8", "", true, GRAPH_BGR, 0, 255},
        {3, "Rgb8", "Normalized_0_1", true, GRAPH_RGB, 0, 1},
        {3, "", "Normalized_1_1", true, GRAPH_RGB, -1, 1},
        {1, "Gray8", "NominalRange_16_235", true, GRAPH_GRAY, 16, 235},
        {1, "Rgb8", "Normalized_0_1", false, GRAPH_RGB, 0, 0},
        {3, "Rgb8", "Unheard", false, GRAPH_RGB, 0, 0},
        {4, "Rgba8", "Normalized_0_1", false, GRAPH_RGB, 0, 0},
    };

    for (size_t i = 0; i < COUNT(c); i++) {
        struct graph *g = with_metadata(c[i].channels, c[i].format, c[i].range);
        const struct graph_preprocess *p = &g->preprocess[0];

        assert_int_equal(p->present, c[i].present);
        if (c[i].present) {
            assert_int_equal(p->color, c[i].color);
            assert_float_equal((0 * p->scale - p->mean[0]) / p->std[0],
                               c[i].black, 1e-4);
            assert_float_equal((255 * p->scale - p->mean[0]) / p->std[0],
                               c[i].white, 1e-4);
        }
        graph_free(g);
    }
}

/* A model of one input of 3 x rows x columns, whose output is rows x
 * 3*columns, with words of metadata: pairs of key and value, then NULL. */
static struct graph *with_words(int64_t rows, int64_t columns,
                                const char *const *words)
{
    const int64_t dim[4] = {-1, 3, rows, columns};
    struct pb_message g = {0}, m;

    graph_input(&g, "x", 4, dim);
    graph_ints(&g, "shape", 1, INTS(3), INTS(0, rows, -1));
    graph_node(&g, "Reshape", "x shape", "y", NULL);
    graph_output(&g, "y");
    m = model_of(&g, 17);
    for (; words[0]; words += 2) {
        struct pb_message entry = EMPTY;

        pb_text(&entry, 1, words[0]);
        pb_text(&entry, 2, words[1]);
        pb_nested(&m, 14, &entry);
    }
    return must_read(m);
}

#define WORDS(...)                                                             \
    {                                                                          \
        "stride", "32", __VA_ARGS__, NULL                                      \
    }

/* Exports of Ultralytics: task and fit by the words and the first output. */
TEST(test_ultralytics)
{
    static const char two[] = "{0: 'a', 1: 'b'}";
    static const struct {
        int64_t rows, columns; /* of the output: rows x 3*columns */
        const char *words[12];
        const char *task; /* NULL: none */
        enum graph_resize_policy policy;
    } c[] = {
        {6, 8, WORDS("names", two, "task", "detect"), "detect:yolov8",
         GRAPH_RESIZE_LETTERBOX},
        {300, 2, WORDS("names", two, "task", "detect"), "detect:end2end",
         GRAPH_RESIZE_LETTERBOX},
        {300, 2, WORDS("names", two, "task", "detect", "head", "RTDETRDecoder"),
         "detect:rtdetr:chosen", GRAPH_RESIZE_EXACT},
        {300, 3, WORDS("names", "['a', 'b', 'c', 'd', 'e']"), "detect:rtdetr",
         GRAPH_RESIZE_EXACT},
        {300, 3, WORDS("names", "['a', 'b', 'c', 'd']"), "detect:yolov5",
         GRAPH_RESIZE_LETTERBOX},
        {38, 8, WORDS("names", two, "task", "segment"), "detect:yoloseg",
         GRAPH_RESIZE_LETTERBOX},
        {7, 8, WORDS("names", two, "task", "obb"), "detect:yoloobb",
         GRAPH_RESIZE_LETTERBOX},
        {27, 8, WORDS("names", two, "task", "pose", "kpt_shape", "[7, 3]"),
         "detect:yolopose:7x3", GRAPH_RESIZE_LETTERBOX},
        {27, 8, WORDS("names", two, "task", "pose"), NULL,
         GRAPH_RESIZE_LETTERBOX},
        {9, 8, WORDS("names", two, "task", "classify"), "classify",
         GRAPH_RESIZE_SHORTER},
        {9, 8, WORDS("names", two, "task", "detect"), NULL,
         GRAPH_RESIZE_LETTERBOX},
    };

    for (size_t i = 0; i < COUNT(c); i++) {
        struct graph *g = with_words(c[i].rows, c[i].columns, c[i].words);

        assert_true(g->preprocess[0].present);
        assert_int_equal(g->preprocess[0].policy, c[i].policy);
        assert_int_equal(g->preprocess[0].fill, 114);
        assert_float_equal(g->preprocess[0].scale * 255, 1, 1e-6);
        if (c[i].task)
            assert_string_equal(g->task, c[i].task);
        else
            assert_null(g->task);
        assert_in_range(g->n_labels, 2, 5);
        graph_free(g);
    }
}

/* Names as Python prints them; what is no such text names nothing. */
TEST(test_ultralytics_names)
{
    static const char *const bad[] = {"",
                                      "{",
                                      "{}",
                                      "[",
                                      "{0: 'a'",
                                      "{1: 'a'}",
                                      "{0: 'a', 2: 'b'}",
                                      "{0: a}",
                                      "{0: 'a\\",
                                      "['a' 'b']",
                                      "{0 'a'}",
                                      "{0: '\xff'}",
                                      "[99999999999999999999]",
                                      "{99999999999999999999: 'a'}"};
    const char *words[] = {"stride", "32", "names",
                           "{0: 'it\\'s', 1: \"d'oh\", 2 : 'gr\xc3\xbc"
                           "n',}",
                           NULL};
    struct graph *g = with_words(7, 8, words);

    assert_null(g->task);
    assert_int_equal(g->n_labels, 0); /* the comma wants another name */
    graph_free(g);
    words[3] = "{0: 'it\\'s', 1: \"d'oh\", 2 : 'gr\xc3\xbc"
               "n' }";
    g = with_words(7, 8, words);
    assert_int_equal(g->n_labels, 3);
    assert_string_equal(g->label[0], "it's");
    assert_string_equal(g->label[1], "d'oh");
    assert_string_equal(g->label[2], "gr\xc3\xbc"
                                     "n");
    assert_string_equal(g->task, "detect:yolov8");
    graph_free(g);
    words[3] = "{0: '0', 1: '1', 2: '2'}"; /* numbers are no names */
    g = with_words(7, 8, words);
    assert_int_equal(g->n_labels, 0);
    assert_string_equal(g->task, "detect:yolov8");
    graph_free(g);
    for (size_t i = 0; i < COUNT(bad); i++) {
        words[3] = bad[i];
        g = with_words(7, 8, words);
        assert_int_equal(g->n_labels, 0);
        assert_null(g->task);
        assert_false(g->preprocess[0].present);
        graph_free(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_picture_metadata),
        cmocka_unit_test(test_ultralytics),
        cmocka_unit_test(test_ultralytics_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
