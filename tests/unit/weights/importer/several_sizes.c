/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX models whose free sizes are told apart: those of several inputs, the
 * larger and the smaller one, what strides of 3 leave. */
#include "tests/unit/weights/onnx_model.h"

/* An input whose dimensions behind the batch and the channels are free, of
 * these names. */
static void named_input(struct pb_message *g, const char *name,
                        const char *first, const char *second)
{
    const char *const symbol[] = {"n", NULL, first, second};
    struct pb_message info = EMPTY, tensor = EMPTY, shape = EMPTY, kind = EMPTY;

    for (int i = 0; i < 4; i++) {
        struct pb_message d = EMPTY;

        if (symbol[i])
            pb_text(&d, 2, symbol[i]);
        else
            pb_int(&d, 1, 1);
        pb_nested(&shape, 1, &d);
    }
    pb_int(&tensor, 1, ONNX_FLOAT);
    pb_nested(&tensor, 2, &shape);
    pb_nested(&kind, 1, &tensor);
    pb_text(&info, 1, name);
    pb_nested(&info, 2, &kind);
    pb_nested(g, 11, &info);
}

/* Inputs x and g; "size" is height and width of `of`, h and w its scalars. */
static struct pb_message pictures(const char *of, bool both)
{
    struct pb_message m = EMPTY;

    named_input(&m, "x", "h", "w");
    if (both)
        named_input(&m, "g", "gh", "gw");
    graph_output(&m, "y");
    graph_ints(&m, "two", 0, NULL, INTS(2));
    graph_ints(&m, "three", 0, NULL, INTS(3));
    graph_ints(&m, "last", DIMS(2), INTS(2, 3));
    graph_ints(&m, "first", DIMS(2), INTS(0, 1));
    graph_node(&m, "Shape", of, "shape", NULL);
    graph_node(&m, "Gather", "shape last", "size", NULL);
    graph_node(&m, "Gather", "shape two", "h", NULL);
    graph_node(&m, "Gather", "shape three", "w", NULL);
    return m;
}

/* Status at these sizes of x and g; out: height and width of the result. */
static int shape_at(const struct graph *g, const int64_t *x, const int64_t *y,
                    int64_t *out)
{
    const struct graph_shape shape[2] = {{4, {2, 1, x[0], x[1]}},
                                         {4, {2, 1, y[0], y[1]}}};
    struct graph *copy = graph_copy(g);
    struct infer_error err;
    int rc;

    assert_non_null(copy);
    rc = graph_infer_shapes(copy, shape, &err);
    if (rc == 0)
        memcpy(out, copy->value[copy->output[0]].dim + 2, 2 * sizeof *out);
    graph_free(copy);
    return rc;
}

/* A size that is given for one input is that of the same name in another,
 * unless that has a shape of its own. */
TEST(test_given_size_by_name)
{
    struct weights_input_shape shape[] = {{"g", 4, {2, 1, 5, 7}},
                                          {"x", 4, {-1, 1, 6, 7}}};
    struct weights_options options;
    struct pb_message m = EMPTY;

    weights_options_init(&options);
    named_input(&m, "x", "h", "w");
    named_input(&m, "g", "h", "gw");
    graph_output(&m, "y");
    graph_node(&m, "Relu", "x", "y", NULL);
    graph_node(&m, "Relu", "g", "z", NULL);
    m = model_of(&m, 13);
    options.input_shape = shape;
    for (options.input_count = 1; options.input_count < 3;
         options.input_count++) {
        const bool own = options.input_count == 2;
        const int64_t want[4] = {own ? -1 : 2, 1, own ? 6 : 5, own ? 7 : -1};
        struct infer_error err;
        struct graph *g;

        assert_int_equal(read_at(NULL, &m, &options, &err, &g), 0);
        assert_memory_equal(g->value[g->input[0]].dim, want, sizeof want);
        assert_memory_equal(g->value[g->input[1]].dim, shape[0].dim,
                            sizeof want);
        graph_free(g);
    }
    pb_free(&m);
}

/* Squeeze without axes leaves an open batch out where that is 1: what counts
 * axes from the front behind it would be another thing then. */
TEST(test_batch_left_out)
{
    for (int slice = 0; slice < 2; slice++) {
        struct pb_message m = EMPTY;

        graph_input(&m, "x", DIMS(-1, 4));
        graph_output(&m, "y");
        graph_ints(&m, "zero", DIMS(1), INTS(slice ? 0 : -1));
        graph_ints(&m, "begin", DIMS(1), INTS(0));
        graph_ints(&m, "end", DIMS(1), INTS(2));
        graph_node(&m, "Squeeze", "x", "s", NULL);
        graph_node(&m, "Slice", "s begin end zero", "t", NULL);
        graph_node(&m, "Relu", "t", "y", NULL);
        if (slice)
            must_refuse(model_of(&m, 13), INFER_EUNSUPPORTED,
                        "'t' depends on free sizes");
        else
            graph_free(must_read(model_of(&m, 13)));
    }
}

/* x is brought to the size of g. */
TEST(test_guide)
{
    struct pb_message m = pictures("g", true), a = EMPTY;
    int64_t out[2];
    struct graph *g;

    graph_node(&m, "Shape", "x", "own", NULL);
    graph_node(&m, "Gather", "own first", "front", NULL);
    attr_int(&a, "axis", 0);
    graph_node(&m, "Concat", "front size", "all", &a);
    graph_node(&m, "Resize", "x - - all", "y", NULL);
    g = must_read(model_of(&m, 13));
    assert_int_equal(shape_at(g, INTS(8, 9), INTS(16, 11), out), 0);
    assert_int_equal(out[0], 16);
    assert_int_equal(out[1], 11);
    graph_free(g);
}

/* A sum needs its inputs to have one size, which the graph then asks for. */
TEST(test_sum)
{
    struct pb_message m = pictures("x", true);
    int64_t out[2];
    struct graph *g;

    graph_node(&m, "Add", "x g", "y", NULL);
    g = must_read(model_of(&m, 13));
    assert_int_equal(shape_at(g, INTS(8, 9), INTS(8, 9), out), 0);
    assert_true(shape_at(g, INTS(8, 9), INTS(8, 11), out) < 0);
    graph_free(g);
}

/* The smaller of two inputs' sizes is that of neither. */
TEST(test_smaller_input)
{
    struct pb_message m = pictures("g", true);

    graph_ints(&m, "none", DIMS(2), INTS(0, 0));
    graph_node(&m, "Shape", "x", "own", NULL);
    graph_node(&m, "Gather", "own last", "large", NULL);
    graph_node(&m, "Min", "large size", "end", NULL);
    graph_node(&m, "Slice", "x none end last", "y", NULL);
    must_refuse(model_of(&m, 13), INFER_EUNSUPPORTED, "--input-shape");
}

/* Element 0 of the network's only output at an input of this size of ones. */
static float number_at(const struct graph *g, int64_t h, int64_t w)
{
    float x[64], y[64] = {0};
    struct graph *copy = graph_copy(g);

    assert_non_null(copy);
    for (size_t i = 0; i < COUNT(x); i++)
        x[i] = 1;
    run_reference(copy, DIMS(1, 1, h, w), x, y, sizeof y);
    return y[0];
}

static void must_number(struct graph *g, int64_t h, int64_t w, double want)
{
    const double got = (double)number_at(g, h, w);

    if (!(got == want || fabs(got - want) <= 1e-6))
        fail_msg("%dx%d: %g, expected %g", (int)h, (int)w, got, want);
}

/* x / max(h, w): either may be the larger one. */
TEST(test_larger)
{
    struct pb_message m = pictures("x", false), a = EMPTY;
    struct graph *g;

    graph_node(&m, "Max", "h w", "most", NULL);
    attr_int(&a, "to", ONNX_FLOAT);
    graph_node(&m, "Cast", "most", "real", &a);
    graph_node(&m, "Div", "x real", "y", NULL);
    g = must_read(model_of(&m, 13));
    must_number(g, 4, 8, 1.0 / 8);
    must_number(g, 8, 2, 1.0 / 8);
    graph_free(g);
}

/* x / max(h, 32), of a height below and above. */
TEST(test_at_least)
{
    struct pb_message m = pictures("x", false), a = EMPTY;
    struct graph *g;

    graph_ints(&m, "least", 0, NULL, INTS(32));
    graph_node(&m, "Max", "h least", "most", NULL);
    attr_int(&a, "to", ONNX_FLOAT);
    graph_node(&m, "Cast", "most", "real", &a);
    graph_node(&m, "Div", "x real", "y", NULL);
    g = must_read(model_of(&m, 13));
    must_number(g, 4, 8, 1.0 / 32);
    must_number(g, 50, 1, 1.0 / 50);
    graph_free(g);
}

/* A comparison that has one result at all sizes tried, and a condition of it.
 */
TEST(test_below)
{
    struct pb_message m = pictures("x", false), a = EMPTY;

    graph_ints(&m, "most", 0, NULL, INTS(32));
    graph_node(&m, "Less", "h most", "below", NULL);
    attr_int(&a, "to", ONNX_FLOAT);
    graph_node(&m, "Cast", "below", "real", &a);
    graph_node(&m, "Add", "x real", "y", NULL);
    must_refuse(model_of(&m, 13), INFER_EUNSUPPORTED,
                "is one number at the free sizes");
}

/* Padded to a square: no tensor has the larger of two sizes. */
TEST(test_square)
{
    struct pb_message m = pictures("x", false), a = EMPTY;

    graph_ints(&m, "none", DIMS(6), INTS(0, 0, 0, 0, 0, 0));
    graph_node(&m, "Max", "h w", "most", NULL);
    graph_node(&m, "Sub", "most size", "lack", NULL);
    attr_int(&a, "axis", 0);
    graph_node(&m, "Concat", "none lack", "pads", &a);
    graph_node(&m, "Pad", "x pads", "y", NULL);
    must_refuse(model_of(&m, 13), INFER_EUNSUPPORTED, "--input-shape");
}

/* 1 / (h % 2) is infinite at every other height. */
TEST(test_infinite)
{
    struct pb_message m = pictures("x", false), a = EMPTY;
    struct graph *g;

    graph_node(&m, "Mod", "h two", "odd", NULL);
    attr_int(&a, "to", ONNX_FLOAT);
    graph_node(&m, "Cast", "odd", "real", &a);
    graph_node(&m, "Reciprocal", "real", "times", NULL);
    graph_node(&m, "Mul", "x times", "y", NULL);
    g = must_read(model_of(&m, 13));
    must_number(g, 5, 4, 1);
    must_number(g, 6, 4, (double)INFINITY);
    graph_free(g);
}

/* A third of the picture, half of that rounded up, padded to a multiple of
 * 4. */
TEST(test_third_and_half)
{
    struct pb_message m = EMPTY, a = EMPTY;
    int64_t out[2];
    struct graph *g;

    named_input(&m, "x", "h", "w");
    graph_output(&m, "y");
    graph_ints(&m, "last", DIMS(2), INTS(2, 3));
    graph_ints(&m, "four", 0, NULL, INTS(4));
    graph_ints(&m, "none", DIMS(6), INTS(0, 0, 0, 0, 0, 0));
    attr_ints(&a, "kernel_shape", DIMS(3, 3));
    attr_ints(&a, "strides", DIMS(3, 3));
    graph_node(&m, "MaxPool", "x", "third", &a);
    attr_ints(&a, "kernel_shape", DIMS(2, 2));
    attr_ints(&a, "strides", DIMS(2, 2));
    attr_int(&a, "ceil_mode", 1);
    graph_node(&m, "MaxPool", "third", "half", &a);
    graph_node(&m, "Shape", "half", "shape", NULL);
    graph_node(&m, "Gather", "shape last", "size", NULL);
    graph_node(&m, "Neg", "size", "less", NULL);
    graph_node(&m, "Mod", "less four", "lack", NULL);
    attr_int(&a, "axis", 0);
    graph_node(&m, "Concat", "none lack", "pads", &a);
    graph_node(&m, "Pad", "half pads", "y", NULL);
    g = must_read(model_of(&m, 13));
    for (int64_t h = 15; h < 96; h++) {
        const int64_t size[2] = {h, 200 - h};

        assert_int_equal(shape_at(g, size, size, out), 0);
        for (int d = 0; d < 2; d++)
            assert_int_equal(out[d], ((size[d] / 3 + 1) / 2 + 3) / 4 * 4);
    }
    graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_given_size_by_name),
        cmocka_unit_test(test_batch_left_out),
        cmocka_unit_test(test_guide),
        cmocka_unit_test(test_sum),
        cmocka_unit_test(test_smaller_input),
        cmocka_unit_test(test_larger),
        cmocka_unit_test(test_at_least),
        cmocka_unit_test(test_below),
        cmocka_unit_test(test_square),
        cmocka_unit_test(test_infinite),
        cmocka_unit_test(test_third_and_half),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
