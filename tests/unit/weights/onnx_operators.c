/* SPDX-License-Identifier: Apache-2.0 */
/* The ONNX reader on models of one operator, written by hand: what becomes of
 * it, its constants and its attributes. */
#include <math.h>
#include <string.h>

#include "kernels/base/scalar.h"
#include "tests/unit/weights/onnx_model.h"

static void assert_floats(const struct constant *c, const float *want)
{
    int64_t i;

    assert_int_equal(c->dtype, INFER_F32);
    for (i = 0; i < constant_count(c); i++)
        assert_true(((const float *)(const void *)c->data)[i] == want[i]);
}

/* alpha, beta and the transposes end up in weight (K,C) and bias. */
TEST(test_gemm)
{
    struct pb_message m = EMPTY, a = EMPTY;
    const struct graph_node *n;
    struct graph *g;

    graph_input(&m, "x", DIMS(-1, 2));
    graph_output(&m, "y");
    graph_floats(&m, "w", DIMS(2, 3), FLOATS(1, 2, 3, 4, 5, 6));
    graph_floats(&m, "c", DIMS(1, 3), FLOATS(1, 2, 3));
    attr_float(&a, "alpha", 2.0f);
    attr_float(&a, "beta", 0.5f);
    graph_node(&m, "Gemm", "x w c", "y", &a);
    g = must_read(model_of(&m, 13));
    n = the_node(g, GRAPH_DENSE);
    assert_int_equal(n->n_in, 3);
    assert_floats(g->value[n->in[1]].data, FLOATS(2, 8, 4, 10, 6, 12));
    assert_floats(g->value[n->in[2]].data, FLOATS(0.5f, 1, 1.5f));
    assert_output(g, 0, DIMS(-1, 3));
    graph_free(g);
}

/* Weights that lie as dense wants them stay the tensors that they are: two
 * layers share them, under their names. */
TEST(test_gemm_names)
{
    struct pb_message m = EMPTY, a = EMPTY, b = EMPTY;
    const struct graph_node *n;
    struct graph *g;

    graph_input(&m, "x", DIMS(-1, 2));
    graph_output(&m, "y");
    graph_floats(&m, "fc.weight", DIMS(2, 2), FLOATS(1, 2, 3, 4));
    graph_floats(&m, "fc.bias", DIMS(2), FLOATS(1, 2));
    attr_int(&a, "transB", 1);
    graph_node(&m, "Gemm", "x fc.weight fc.bias", "z", &a);
    attr_int(&b, "transB", 1);
    graph_node(&m, "Gemm", "z fc.weight fc.bias", "y", &b);
    g = must_read(model_of(&m, 13));
    n = &g->node[g->n_nodes - 1];
    assert_string_equal(g->value[n->in[1]].name, "fc.weight");
    assert_string_equal(g->value[n->in[2]].name, "fc.bias");
    assert_int_equal(g->node[0].in[1], n->in[1]);
    assert_int_equal(g->node[0].in[2], n->in[2]);
    assert_output(g, 0, DIMS(-1, 2));
    graph_free(g);
}

/* A matrix that is computed makes a product; one addend is no bias. */
TEST(test_gemm_product)
{
    struct pb_message m = EMPTY, a = EMPTY;
    struct graph *g;

    graph_input(&m, "x", DIMS(4, 2));
    graph_input(&m, "w", DIMS(3, 4));
    graph_input(&m, "c", DIMS(2, 3));
    graph_output(&m, "y");
    attr_int(&a, "transA", 1);
    attr_int(&a, "transB", 1);
    attr_float(&a, "beta", 0.0f);
    graph_node(&m, "Gemm", "x w c", "y", &a);
    g = must_read(model_of(&m, 13));
    assert_true(the_node(g, GRAPH_MATMUL)->attr.matmul.transpose_a);
    assert_int_equal(g->n_nodes, 1); /* beta 0: c does not matter */
    assert_output(g, 0, DIMS(2, 3));
    graph_free(g);
}

TEST(test_matmul)
{
    struct pb_message m = one_node("MatMul", "x w", DIMS(-1, 5, 2), NULL);
    struct graph *g;

    graph_floats(&m, "w", DIMS(2, 3), FLOATS(1, 2, 3, 4, 5, 6));
    g = must_read(model_of(&m, 13));
    assert_floats(weight_of(g, GRAPH_DENSE), FLOATS(1, 4, 2, 5, 3, 6));
    assert_output(g, 0, DIMS(-1, 5, 3));
    graph_free(g);
}

/* Limits as attributes, as inputs, and as inputs of which one is absent. */
TEST(test_clip)
{
    struct pb_message a = EMPTY, m;
    struct kern_unary u;
    struct graph *g;

    attr_float(&a, "min", 0.0f);
    attr_float(&a, "max", 6.0f);
    g = read_one("Clip", 6, DIMS(-1, 4), &a);
    u = the_node(g, GRAPH_UNARY)->attr.unary;
    assert_true(u.kind == KERN_CLIP && u.a == 0.0f && u.b == 6.0f);
    graph_free(g);
    m = one_node("Clip", "x - high", DIMS(-1, 4), NULL);
    graph_floats(&m, "high", 0, NULL, FLOATS(6));
    g = must_read(model_of(&m, 13));
    u = the_node(g, GRAPH_UNARY)->attr.unary;
    assert_true(u.kind == KERN_CLIP && u.a < -3e38f && u.b == 6.0f);
    graph_free(g);
}

/* Axes as an attribute before opset 13, as an input later. */
TEST(test_axes)
{
    struct pb_message a = EMPTY, m;
    struct graph *g;

    attr_ints(&a, "axes", 2, INTS(2, -1));
    g = read_one("Squeeze", 11, DIMS(-1, 3, 1, 1), &a);
    assert_output(g, 0, DIMS(-1, 3));
    graph_free(g);
    m = one_node("Squeeze", "x a", DIMS(-1, 3, 1, 1), NULL);
    graph_ints(&m, "a", DIMS(1), INTS(3));
    g = must_read(model_of(&m, 13));
    assert_output(g, 0, DIMS(-1, 3, 1));
    graph_free(g);
    g = read_one("Squeeze", 13, DIMS(-1, 3, 1, 1), NULL);
    assert_output(g, 0, DIMS(-1, 3)); /* the batch is not squeezed */
    graph_free(g);
    m = one_node("ReduceMean", "x a", DIMS(-1, 3, 5, 7), NULL);
    graph_ints(&m, "a", DIMS(2), INTS(2, 3));
    g = must_read(model_of(&m, 18));
    assert_output(g, 0, DIMS(-1, 3, 1, 1));
    graph_free(g);
}

/* How the axes of a reduction are given. */
enum axes { AXES_ABSENT, AXES_EMPTY };

static void reduce_to(const char *op, int opset, enum axes axes, bool noop,
                      int count, const float *want)
{
    static const float x[6] = {1, 2, 3, 4, 5, 6};
    struct pb_message m, attr = EMPTY;
    const bool by_input = opset >= 18 || strcmp(op, "ReduceSum") == 0;
    const int64_t none = 0;
    float y[6];
    int i, rank;

    if (noop)
        attr_int(&attr, "noop_with_empty_axes", 1);
    if (axes == AXES_EMPTY && !by_input)
        attr_ints(&attr, "axes", 0, NULL);
    m = one_node(op, axes == AXES_EMPTY && by_input ? "x a" : "x", DIMS(2, 3),
                 &attr);
    if (axes == AXES_EMPTY && by_input)
        graph_ints(&m, "a", 1, &none, &none);
    rank = run_reference(must_read(model_of(&m, opset)), DIMS(2, 3), x, y,
                         sizeof(y));
    assert_int_equal(rank, 2);
    for (i = 0; i < count; i++)
        if (!(fabsf(y[i] - want[i]) <= 1e-5f * fabsf(want[i])))
            fail_msg("%s, opset %d, %s, noop %d: %g at %d, not %g", op, opset,
                     axes == AXES_EMPTY ? "empty axes" : "no axes", noop,
                     (double)y[i], i, (double)want[i]);
}

/* Without axes everything is reduced, unless noop_with_empty_axes says that
 * nothing is; a list of none is the same as no list. */
TEST(test_empty_axes)
{
    static const struct {
        const char *op;
        float all, each[6];
    } row[] = {
        {"ReduceSum", 21, {1, 2, 3, 4, 5, 6}},
        {"ReduceMean", 3.5f, {1, 2, 3, 4, 5, 6}},
        {"ReduceMax", 6, {1, 2, 3, 4, 5, 6}},
        {"ReduceMin", 1, {1, 2, 3, 4, 5, 6}},
        {"ReduceProd", 720, {1, 2, 3, 4, 5, 6}},
        {"ReduceL1", 21, {1, 2, 3, 4, 5, 6}},
        {"ReduceL2", 9.5393920f, {1, 2, 3, 4, 5, 6}},
        {"ReduceSumSquare", 91, {1, 4, 9, 16, 25, 36}},
        {"ReduceLogSum",
         3.0445224f,
         {0, 0.6931472f, 1.0986123f, 1.3862944f, 1.6094379f, 1.7917595f}},
    };
    size_t i;

    for (i = 0; i < COUNT(row); i++) {
        reduce_to(row[i].op, 11, AXES_ABSENT, false, 1, &row[i].all);
        reduce_to(row[i].op, 18, AXES_ABSENT, false, 1, &row[i].all);
        reduce_to(row[i].op, 18, AXES_EMPTY, false, 1, &row[i].all);
        reduce_to(row[i].op, 18, AXES_ABSENT, true, 6, row[i].each);
        reduce_to(row[i].op, 18, AXES_EMPTY, true, 6, row[i].each);
    }
    reduce_to("ReduceSum", 13, AXES_EMPTY, true, 6, row[0].each);
}

/* The same where the tensor is known while converting. */
TEST(test_empty_axes_folded)
{
    static const float x[2] = {1, 1}, one[2] = {3, 3}, both[2] = {6, 6};
    int noop, i;

    for (noop = 0; noop < 2; noop++) {
        struct pb_message m = EMPTY, attr = EMPTY;
        const float *want = noop ? one : both;
        float y[2];

        graph_input(&m, "x", DIMS(1, 2));
        graph_output(&m, "y");
        graph_floats(&m, "c", DIMS(2), FLOATS(3, 3));
        if (noop)
            attr_int(&attr, "noop_with_empty_axes", 1);
        graph_node(&m, "ReduceSum", "c", "s", &attr);
        graph_node(&m, "Mul", "x s", "y", NULL);
        i = run_reference(must_read(model_of(&m, 13)), DIMS(1, 2), x, y,
                          sizeof(y));
        assert_int_equal(i, 2);
        for (i = 0; i < 2; i++)
            assert_true(y[i] == want[i]);
    }
}

/* The constant that a node of opset 17 becomes while converting. */
static struct constant *folded(const char *op, const char *in, struct graph **g,
                               struct pb_message *m)
{
    const struct graph_value *y;

    graph_output(m, "y");
    graph_node(m, op, in, "y", NULL);
    *g = must_read(model_of(m, 17));
    assert_int_equal((*g)->n_nodes, 0);
    y = &(*g)->value[(*g)->output[0]];
    assert_non_null(y->data);
    return y->data;
}

/* Results beyond 64 bits wrap, as int64 does in ONNX. */
TEST(test_folded_integers_wrap)
{
    static const struct {
        const char *op;
        int64_t a[2], b[2], y[2];
    } row[] = {
        {"Add", {INT64_MAX, 5}, {1, 6}, {INT64_MIN, 11}},
        {"Add", {INT64_MAX, INT64_MIN}, {0, 0}, {INT64_MAX, INT64_MIN}},
        {"Add", {INT64_MIN, 0}, {-1, 0}, {INT64_MAX, 0}},
        {"Sub", {INT64_MIN, 5}, {1, 6}, {INT64_MAX, -1}},
        {"Sub", {0, -2}, {INT64_MIN, INT64_MAX}, {INT64_MIN, INT64_MAX}},
        {"Mul", {INT64_MAX, 3}, {2, 4}, {-2, 12}},
        {"Mul", {INT64_MIN, INT64_MAX}, {-1, -1}, {INT64_MIN, -INT64_MAX}},
        {"Div", {INT64_MIN, INT64_MAX}, {-1, 1}, {INT64_MIN, INT64_MAX}},
        {"Div", {7, INT64_MIN}, {-1, 1}, {-7, INT64_MIN}},
        {"Max", {INT64_MAX, 1}, {-1, 2}, {INT64_MAX, 2}},
        {"Neg", {INT64_MIN, 4}, {0, 0}, {INT64_MIN, -4}},
        {"Abs", {INT64_MIN, -4}, {0, 0}, {INT64_MIN, 4}},
        {"ReduceSum", {INT64_MAX, 2}, {0, 0}, {INT64_MIN + 1, 0}},
        {"ReduceProd", {INT64_MAX, 2}, {0, 0}, {-2, 0}},
    };
    size_t i;

    for (i = 0; i < COUNT(row); i++) {
        const bool binary = strlen(row[i].op) == 3 && row[i].op[0] != 'N' &&
                            strcmp(row[i].op, "Abs") != 0;
        struct pb_message m = EMPTY;
        struct constant *y;
        struct graph *g;

        graph_ints(&m, "a", DIMS(2), row[i].a);
        if (binary)
            graph_ints(&m, "b", DIMS(2), row[i].b);
        y = folded(row[i].op, binary ? "a b" : "a", &g, &m);
        assert_int_equal(y->dtype, INFER_I64);
        if (memcmp(y->data, row[i].y, y->bytes) != 0)
            fail_msg("%s, row %zu: %lld", row[i].op, i,
                     (long long)((int64_t *)(void *)y->data)[0]);
        graph_free(g);
    }
}

/* Rows and columns: the elements that wrap are found through the broadcast. */
TEST(test_folded_broadcast_wraps)
{
    static const int64_t a[2] = {INT64_MAX, 1}, b[3] = {0, 1, 2};
    static const int64_t want[6] = {INT64_MAX,     1, INT64_MIN, 2,
                                    INT64_MIN + 1, 3};
    struct pb_message m = EMPTY;
    struct constant *y;
    struct graph *g;

    graph_ints(&m, "a", DIMS(2), a);
    graph_ints(&m, "b", DIMS(3, 1), b);
    y = folded("Add", "b a", &g, &m);
    assert_int_equal(y->bytes, sizeof(want));
    assert_memory_equal(y->data, want, sizeof(want));
    graph_free(g);
}

/* -0.0 keeps its sign through everything that is computed while converting. */
TEST(test_folded_negative_zero)
{
    static const struct {
        const char *op, *in;
        float y;
    } row[] = {
        {"Identity", "n", -0.0f},
        {"Neg", "z", -0.0f},
        {"Neg", "n", 0.0f},
        {"Add", "n n", -0.0f},
        {"Add", "n z", 0.0f},
        {"Sub", "n z", -0.0f},
        {"Mul", "n one", -0.0f},
        {"Mul", "z minus", -0.0f},
        {"Div", "n one", -0.0f},
        {"Ceil", "small", -0.0f},
        {"Round", "small", -0.0f},
        {"Sqrt", "n", -0.0f},
        {"Where", "yes n z", -0.0f},
        {"Reshape", "n i", -0.0f},
        {"Transpose", "n", -0.0f},
        {"Expand", "n i", -0.0f},
        {"Gather", "n yes", -0.0f},
        {"ReduceSum", "n", -0.0f},
        {"ReduceMax", "n", -0.0f},
        {"ReduceProd", "n", -0.0f},
        {"Range", "ns ones ones", -0.0f},
        {"Squeeze", "n", -0.0f},
    };
    size_t i;

    for (i = 0; i < COUNT(row); i++) {
        const unsigned char yes = 1;
        struct pb_message m = EMPTY, t;
        struct constant *y;
        struct graph *g;

        graph_floats(&m, "n", DIMS(1), FLOATS(-0.0f));
        graph_floats(&m, "ns", 0, NULL, FLOATS(-0.0f));
        graph_floats(&m, "z", DIMS(1), FLOATS(0.0f));
        graph_floats(&m, "one", DIMS(1), FLOATS(1));
        graph_floats(&m, "ones", 0, NULL, FLOATS(1));
        graph_floats(&m, "minus", DIMS(1), FLOATS(-1));
        graph_floats(&m, "small", DIMS(1), FLOATS(-0.25f));
        graph_ints(&m, "i", DIMS(1), INTS(1));
        if (strcmp(row[i].op, "Gather") == 0) {
            graph_ints(&m, "yes", DIMS(1), INTS(0));
        } else {
            t = tensor_raw("yes", ONNX_BOOL, DIMS(1), &yes, 1);
            pb_nested(&m, 5, &t);
        }
        y = folded(row[i].op, row[i].in, &g, &m);
        assert_int_equal(y->bytes, sizeof(float));
        if (memcmp(y->data, &row[i].y, sizeof(float)) != 0)
            fail_msg("%s(%s) is %g", row[i].op, row[i].in,
                     (double)*(float *)(void *)y->data);
        graph_free(g);
    }
}

TEST(test_softmax)
{
    struct graph *g = read_one("Softmax", 11, DIMS(-1, 3, 4), NULL);

    assert_int_equal(the_node(g, GRAPH_SOFTMAX)->attr.axis.axis, 1);
    assert_true(the_node(g, GRAPH_SOFTMAX)->attr.axis.flatten);
    graph_free(g);
    g = read_one("Softmax", 13, DIMS(-1, 3, 4), NULL);
    assert_int_equal(the_node(g, GRAPH_SOFTMAX)->attr.axis.axis, -1);
    assert_false(the_node(g, GRAPH_SOFTMAX)->attr.axis.flatten);
    graph_free(g);
}

TEST(test_pads)
{
    struct pb_message a = EMPTY;
    struct kern_pool pool;
    struct graph *g;

    attr_ints(&a, "kernel_shape", 2, INTS(3, 5));
    attr_ints(&a, "pads", 4, INTS(0, 1, 2, 3));
    attr_ints(&a, "strides", 2, INTS(2, 1));
    g = read_one("MaxPool", 12, DIMS(-1, 3, 9, 9), &a);
    pool = the_node(g, GRAPH_POOL)->attr.pool.pool;
    assert_int_equal(pool.pad_begin[0], 0);
    assert_int_equal(pool.pad_begin[1], 1);
    assert_int_equal(pool.pad_end[0], 2);
    assert_int_equal(pool.pad_end[1], 3);
    assert_output(g, 0, DIMS(-1, 3, 5, 9));
    graph_free(g);
}

/* Before opset 11 the value is an attribute; maxima are padded by -infinity. */
TEST(test_pad_by_infinity)
{
    struct pb_message a = EMPTY, m;
    float y[4];

    attr_ints(&a, "pads", 4, INTS(0, 1, 0, 1));
    attr_float(&a, "value", -INFINITY);
    m = one_node("Pad", "x", DIMS(-1, 2), &a);
    run_reference(must_read(model_of(&m, 10)), DIMS(1, 2), FLOATS(3, 4), y,
                  sizeof y);
    assert_true(y[0] == -INFINITY && y[1] == 3 && y[2] == 4 &&
                y[3] == -INFINITY);
}

TEST(test_dropout)
{
    struct pb_message m = EMPTY;
    struct graph *g;

    graph_input(&m, "x", DIMS(-1, 4));
    graph_output(&m, "y");
    graph_node(&m, "Dropout", "x", "y mask", NULL);
    g = must_read(model_of(&m, 13));
    the_node(g, GRAPH_DROPOUT);
    graph_free(g);
}

/* Sizes that follow the input through Shape become scales. */
TEST(test_resize_open_size)
{
    struct pb_message m = EMPTY, a = EMPTY, mode = EMPTY;
    const struct graph_resize *r;
    struct graph *g;

    graph_input(&m, "x", DIMS(-1, 3, -1, -1));
    graph_output(&m, "y");
    graph_ints(&m, "by", DIMS(4), INTS(1, 1, 2, 2));
    graph_node(&m, "Shape", "x", "s", NULL);
    graph_node(&m, "Mul", "s by", "t", NULL);
    attr_text(&mode, "mode", "linear");
    graph_node(&m, "Resize", "x - - t", "y", &mode);
    (void)a;
    g = must_read(model_of(&m, 13));
    r = &the_node(g, GRAPH_RESIZE)->attr.resize;
    assert_int_equal(r->n_sizes, 0);
    assert_true(r->resize.scale[2] == 2.0f && r->resize.scale[1] == 1.0f);
    assert_int_equal(r->resize.mode, KERN_BILINEAR);
    graph_free(g);
}

/* Operators that ONNX took back: a picture 1x2x3x4 of 0, 1, 2, ... through
 * each.  Takes attr over. */
static void removed(const char *op, int opset, struct pb_message *attr,
                    int count, const float *want)
{
    struct pb_message m = one_node(op, "x", DIMS(-1, 2, 3, 4), attr);
    float x[24], y[24];
    int i, rank;

    for (i = 0; i < 24; i++)
        x[i] = (float)i;
    rank = run_reference(must_read(model_of(&m, opset)), DIMS(1, 2, 3, 4), x, y,
                         sizeof(y));
    assert_int_equal(rank, 4);
    for (i = 0; i < count; i++)
        if (y[i] != want[i])
            fail_msg("%s: %g at %d, not %g", op, (double)y[i], i,
                     (double)want[i]);
}

TEST(test_removed)
{
    struct pb_message a = EMPTY, b = EMPTY, c = EMPTY, d = EMPTY, e = EMPTY;
    float want[24];
    int i;

    for (i = 0; i < 24; i++)
        want[i] = 150 * (float)i - 3;
    attr_float(&a, "alpha", 150);
    attr_float(&a, "beta", -3);
    removed("Affine", 7, &a, 24, want);
    for (i = 0; i < 24; i++)
        want[i] = (float)i;
    removed("Affine", 13, &b, 24, want);
    for (i = 0; i < 24; i++)
        want[i] = 2 * (float)i + (i < 12 ? -5 : 7);
    attr_float(&c, "scale", 2);
    attr_floats(&c, "bias", 2, FLOATS(-5, 7));
    removed("ImageScaler", 7, &c, 24, want);
    /* left, top, right, bottom */
    attr_ints(&d, "border", 4, INTS(2, 1, 1, 0));
    removed("Crop", 7, &d, 4, FLOATS(6, 10, 18, 22));
    /* with the height and width of what stays */
    attr_ints(&e, "border", 4, INTS(1, 1, 0, 0));
    attr_ints(&e, "scale", 2, INTS(1, 2));
    removed("Crop", 7, &e, 4, FLOATS(5, 6, 17, 18));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gemm),
        cmocka_unit_test(test_gemm_names),
        cmocka_unit_test(test_gemm_product),
        cmocka_unit_test(test_matmul),
        cmocka_unit_test(test_clip),
        cmocka_unit_test(test_axes),
        cmocka_unit_test(test_empty_axes),
        cmocka_unit_test(test_empty_axes_folded),
        cmocka_unit_test(test_folded_integers_wrap),
        cmocka_unit_test(test_folded_broadcast_wraps),
        cmocka_unit_test(test_folded_negative_zero),
        cmocka_unit_test(test_softmax),
        cmocka_unit_test(test_pads),
        cmocka_unit_test(test_pad_by_infinity),
        cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_resize_open_size),
        cmocka_unit_test(test_removed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
