/* SPDX-License-Identifier: Apache-2.0 */
/* Operators of TensorFlow that are several nodes of the graph, on numbers whose
 * results are known. */
#include "tests/unit/graph/data.h"

#include <math.h>

#include "tests/unit/weights/keras_run.h"
#include "tests/unit/weights/tensorflow/graphdef_reader.h"
#include "tests/unit/weights/tensorflow/graphdef_writer.h"
#include "weights/tensorflow/tensorflow.h"

#define MOST 36

/* A constant beside the input x; n 0: none.  Integers where whole; a scalar
 * where rank is 0. */
struct beside {
    int rank;
    int64_t dim[4];
    float value[MOST];
    bool whole;
};

struct case_ {
    const char *op;
    int rank; /* of x, and of the result */
    int64_t x_dim[4];
    float x[MOST];
    int n; /* constants */
    struct beside in[4];
    const char *flag;              /* a true attribute, or NULL */
    const char *word[2];           /* name and text of an attribute */
    const char *lists[3], *number; /* names; every list is {1, 2, 2, 1} */
    int64_t number_is;
    int y_rank;
    int64_t y_dim[4];
    float y[MOST];
};

#define SQUARE .rank = 2, .x_dim = {3, 3}, .x = {1, 2, 3, 4, 5, 6, 7, 8, 9}
#define SCALAR(v)                                                              \
    {                                                                          \
        .rank = 0, .value = {v}, .whole = true                                 \
    }
#define REAL(v)                                                                \
    {                                                                          \
        .rank = 0, .value = { v }                                              \
    }
#define PICTURE .rank = 4, .x_dim = {1, 2, 3, 1}, .x = {1, 2, 3, 4, 5, 6}

static const struct case_ cases[] = {
    {.op = "MatrixBandPart",
     SQUARE,
     .n = 2,
     .in = {SCALAR(1), SCALAR(0)},
     .y_rank = 2,
     .y_dim = {3, 3},
     .y = {1, 0, 0, 4, 5, 0, 0, 8, 9}},
    {.op = "MatrixBandPart",
     SQUARE,
     .n = 2,
     .in = {SCALAR(-1), SCALAR(1)},
     .y_rank = 2,
     .y_dim = {3, 3},
     .y = {1, 2, 0, 4, 5, 6, 7, 8, 9}},
    {.op = "MatrixDiagPart",
     .rank = 2,
     .x_dim = {2, 3},
     .x = {1, 2, 3, 4, 5, 6},
     .y_rank = 1,
     .y_dim = {2},
     .y = {1, 5}},
    {.op = "MatrixDiagPart",
     .rank = 2,
     .x_dim = {3, 2},
     .x = {1, 2, 3, 4, 5, 6},
     .y_rank = 1,
     .y_dim = {2},
     .y = {1, 4}},
    {.op = "MatrixDiag",
     .rank = 1,
     .x_dim = {2},
     .x = {3, 4},
     .y_rank = 2,
     .y_dim = {2, 2},
     .y = {3, 0, 0, 4}},
    {.op = "MatrixDiagV3",
     .rank = 1,
     .x_dim = {2},
     .x = {3, 4},
     .n = 4,
     .in = {SCALAR(0), SCALAR(-1), SCALAR(-1), REAL(-7)},
     .y_rank = 2,
     .y_dim = {2, 2},
     .y = {3, -7, -7, 4}},
    {.op = "MatrixSetDiag",
     SQUARE,
     .n = 1,
     .in = {{.rank = 1, .dim = {3}, .value = {-1, -2, -3}}},
     .y_rank = 2,
     .y_dim = {3, 3},
     .y = {-1, 2, 3, 4, -2, 6, 7, 8, -3}},
    {.op = "DivNoNan",
     .rank = 1,
     .x_dim = {3},
     .x = {1, 2, 3},
     .n = 1,
     .in = {{.rank = 1, .dim = {3}, .value = {2, 0, -1}}},
     .y_rank = 1,
     .y_dim = {3},
     .y = {0.5f, 0, -3}},
    {.op = "Xdivy",
     .rank = 1,
     .x_dim = {3},
     .x = {0, 2, 3},
     .n = 1,
     .in = {{.rank = 1, .dim = {3}, .value = {0, 4, -1}}},
     .y_rank = 1,
     .y_dim = {3},
     .y = {0, 0.5f, -3}},
    {.op = "Cumprod",
     .rank = 1,
     .x_dim = {4},
     .x = {1, 2, 3, 4},
     .n = 1,
     .in = {SCALAR(0)},
     .flag = "exclusive",
     .y_rank = 1,
     .y_dim = {4},
     .y = {1, 1, 2, 6}},
    {.op = "TensorScatterSub",
     .rank = 2,
     .x_dim = {3, 2},
     .x = {1, 2, 3, 4, 5, 6},
     .n = 2,
     .in = {{.rank = 2, .dim = {2, 1}, .value = {2, 0}, .whole = true},
            {.rank = 2, .dim = {2, 2}, .value = {1, 1, 2, 2}}},
     .y_rank = 2,
     .y_dim = {3, 2},
     .y = {-1, 0, 3, 4, 4, 5}},
    {.op = "TensorScatterMax",
     .rank = 1,
     .x_dim = {3},
     .x = {1, 5, 3},
     .n = 2,
     .in = {{.rank = 2, .dim = {2, 1}, .value = {2, 1}, .whole = true},
            {.rank = 1, .dim = {2}, .value = {4, 4}}},
     .y_rank = 1,
     .y_dim = {3},
     .y = {1, 5, 4}},
    /* Steps of 1 from -4 to 3, halves to even. */
    {.op = "QuantizeAndDequantizeV4",
     .rank = 1,
     .x_dim = {4},
     .x = {-1.3f, 0.251f, 0.5f, 4},
     .n = 2,
     .in = {REAL(-1), REAL(3)},
     .flag = "range_given",
     .number = "num_bits",
     .number_is = 3,
     .y_rank = 1,
     .y_dim = {4},
     .y = {-1, 0, 0, 3}},
    {.op = "CropAndResize",
     PICTURE,
     .n = 3,
     .in = {{.rank = 2,
             .dim = {2, 4},
             .value = {0, 0, 1, 1, 0.5f, 0.25f, 2, 0.75f}},
            {.rank = 1, .dim = {2}, .value = {0, 0}, .whole = true},
            {.rank = 1, .dim = {2}, .value = {2, 2}, .whole = true}},
     .y_rank = 4,
     .y_dim = {2, 2, 2, 1},
     .y = {1, 3, 4, 6, 3, 4, 0, 0}},
    {.op = "ExtractImagePatches",
     .rank = 4,
     .x_dim = {1, 3, 3, 1},
     .x = {1, 2, 3, 4, 5, 6, 7, 8, 9},
     .lists = {"ksizes", "rates", "strides"},
     .word = {"padding", "SAME"},
     .y_rank = 4,
     .y_dim = {1, 2, 2, 4},
     .y = {0, 0, 0, 5, 0, 0, 5, 0, 0, 5, 0, 0, 5, 0, 0, 0}},
    {.op = "AdjustContrastv2",
     PICTURE,
     .n = 1,
     .in = {REAL(2)},
     .y_rank = 4,
     .y_dim = {1, 2, 3, 1},
     .y = {-1.5f, 0.5f, 2.5f, 4.5f, 6.5f, 8.5f}},
    /* Twice as large by triangles: quarters between neighbours. */
    {.op = "ScaleAndTranslate",
     PICTURE,
     .n = 3,
     .in = {{.rank = 1, .dim = {2}, .value = {2, 4}, .whole = true},
            {.rank = 1, .dim = {2}, .value = {1, 2}},
            {.rank = 1, .dim = {2}, .value = {0, -1}}},
     .word = {"kernel_type", "triangle"},
     .y_rank = 4,
     .y_dim = {1, 2, 4, 1},
     .y = {1.25f, 1.75f, 2.25f, 2.75f, 4.25f, 4.75f, 5.25f, 5.75f}},
};

static void add_constant(struct pb_message *m, const char *name,
                         const struct beside *b)
{
    int32_t whole[MOST];
    int64_t n = 1;

    for (int i = 0; i < b->rank; i++)
        n *= b->dim[i];
    for (int64_t i = 0; i < n; i++)
        whole[i] = (int32_t)b->value[i];
    if (b->whole)
        def_int32s(m, 1, name, b->rank, b->dim, whole, (int)n);
    else
        def_floats(m, name, b->rank, b->dim, b->value, (int)n);
}

static struct graph *build(const struct case_ *c)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    static const int64_t window[] = {1, 2, 2, 1};
    struct pb_message m = {0}, n = def_node("y", c->op, "x", NULL), value;

    def_placeholder(&m, "x", c->rank, c->x_dim);
    for (int i = 0; i < c->n; i++) {
        add_constant(&m, names[i], &c->in[i]);
        pb_text(&n, 3, names[i]);
    }
    if (c->flag) {
        value = (struct pb_message){0};
        pb_int(&value, 5, 1);
        def_attr(&n, c->flag, &value);
    }
    if (c->number) {
        value = (struct pb_message){0};
        pb_int(&value, 3, c->number_is);
        def_attr(&n, c->number, &value);
    }
    if (c->word[0])
        def_text(&n, c->word[0], c->word[1]);
    for (int i = 0; i < 3 && c->lists[i]; i++)
        def_ints(&n, c->lists[i], 4, window);
    pb_nested(&m, 1, &n);
    return def_read_graph(&m);
}

TEST(test_values)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct case_ *const c = &cases[i];
        struct constant *in = constant_new(INFER_F32, c->rank, c->x_dim);
        struct constant *out = constant_new(INFER_F32, c->y_rank, c->y_dim);
        struct graph *g = build(c);
        struct weights_dict io;
        struct infer_error err;
        double difference;

        assert_true(in && out);
        memcpy(in->data, c->x, in->bytes);
        memcpy(out->data, c->y, out->bytes);
        weights_dict_init(&io);
        assert_int_equal(weights_dict_add(&io, "input0", in, &err), 0);
        assert_int_equal(weights_dict_add(&io, "output0", out, &err), 0);
        difference = run_graph(g, &io);
        if (!(difference <= 1e-6))
            fail_msg("case %zu, %s: %g of the largest value", i, c->op,
                     difference);
        weights_dict_clear(&io);
        graph_free(g);
    }
}

/* ---- sizes that are known in the run alone ------------------------- */

/* The result for one row of n numbers 1, 2, ... beside what is expected. */
static double padded(const struct graph *g, int64_t n, const float *want,
                     int64_t columns)
{
    const int64_t x_dim[2] = {1, n}, y_dim[2] = {1, columns};
    struct constant *in = constant_new(INFER_F32, 2, x_dim);
    struct constant *out = constant_new(INFER_F32, 2, y_dim);
    struct weights_dict io;
    struct infer_error err;
    double difference;

    assert_true(in && out);
    for (int64_t i = 0; i < n; i++)
        ((float *)in->data)[i] = (float)(i + 1);
    memcpy(out->data, want, out->bytes);
    weights_dict_init(&io);
    assert_int_equal(weights_dict_add(&io, "input0", in, &err), 0);
    assert_int_equal(weights_dict_add(&io, "output0", out, &err), 0);
    difference = run_graph(g, &io);
    weights_dict_clear(&io);
    return difference;
}

/* Pads that mirror three entries of a free axis: one of two has too few. */
TEST(test_symmetric_pads_of_a_free_axis)
{
    static const int64_t shape[2] = {-1, -1}, pairs[2] = {2, 2};
    static const int32_t pads[4] = {0, 0, 3, 1};
    static const float four[8] = {3, 2, 1, 1, 2, 3, 4, 4};
    static const float three[7] = {3, 2, 1, 1, 2, 3, 3};
    struct pb_message m = {0}, n = def_node("y", "MirrorPad", "x", "pads");
    struct graph *g;

    def_placeholder(&m, "x", 2, shape);
    def_int32s(&m, 1, "pads", 2, pairs, pads, 4);
    def_text(&n, "mode", "SYMMETRIC");
    pb_nested(&m, 1, &n);
    g = def_read_graph(&m);
    assert_true(padded(g, 4, four, 8) <= 1e-6);
    assert_true(padded(g, 3, three, 7) <= 1e-6);
    assert_true(isinf(padded(g, 2, three, 6)));
    graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_symmetric_pads_of_a_free_axis),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
