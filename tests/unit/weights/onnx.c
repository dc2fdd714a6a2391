/* SPDX-License-Identifier: Apache-2.0 */
/* The ONNX reader on models written by hand: batch, constants, reports. */
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/scalar.h"
#include "libinfer/model/model.h"
#include "tests/unit/weights/onnx_model.h"

/* ---- table --------------------------------------------------------- */

TEST(test_table)
{
#define ONNX_OP(name, since, until, function, param) name,
    static const char *const names[] = {
#include "weights/onnx/ops.def"
    };
#undef ONNX_OP
    size_t i, n = COUNT(names);

    for (i = 0; i < n; i++) {
        if (i > 0)
            assert_true(strcmp(names[i - 1], names[i]) < 0);
        assert_non_null(onnx_op_find(names[i]));
        assert_string_equal(onnx_op_find(names[i])->name, names[i]);
    }
    assert_null(onnx_op_find("StringSplit"));
    assert_null(onnx_op_find(""));
}

/* ---- batch --------------------------------------------------------- */

TEST(test_named_batch)
{
    struct graph *g = read_one("Relu", 13, DIMS(-1, 3, 8, 8), NULL);

    assert_output(g, 0, DIMS(-1, 3, 8, 8));
    assert_int_equal(the_node(g, GRAPH_UNARY)->attr.unary.kind, KERN_RELU);
    graph_free(g);
}

/* A literal batch of 1 means any; a literal 2 means 2. */
TEST(test_literal_batch)
{
    struct graph *g = read_one("Relu", 13, DIMS(1, 3, 8, 8), NULL);

    assert_output(g, 0, DIMS(-1, 3, 8, 8));
    graph_free(g);
    g = read_one("Relu", 13, DIMS(2, 3, 8, 8), NULL);
    assert_output(g, 0, DIMS(2, 3, 8, 8));
    graph_free(g);
}

/* Two inputs of which only one could have a batch: it stays 1. */
TEST(test_batch_that_stays)
{
    struct pb_message m = EMPTY;
    struct graph *g;

    graph_input(&m, "x", DIMS(1, 4));
    graph_output(&m, "y");
    graph_floats(&m, "w", DIMS(3, 4),
                 FLOATS(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
    graph_node(&m, "Add", "x w", "y", NULL);
    g = must_read(model_of(&m, 13));
    assert_output(g, 0, DIMS(3, 4));
    assert_int_equal(g->value[g->input[0]].dim[0], 1);
    graph_free(g);
}

/* Shapes that work out for any batch, but sums that would run over it. */
TEST(test_batch_that_would_mix)
{
    struct pb_message m = EMPTY, a = EMPTY;
    struct graph *g;

    attr_int(&a, "axis", 0);
    g = read_one("Softmax", 13, DIMS(1, 4), &a);
    assert_output(g, 0, DIMS(1, 4));
    graph_free(g);
    attr_int(&a, "axis", 0);
    g = read_one("Softmax", 11, DIMS(1, 4), &a);
    assert_output(g, 0, DIMS(1, 4));
    graph_free(g);
    graph_input(&m, "x", DIMS(1, 4));
    graph_output(&m, "y");
    graph_node(&m, "ReduceMean", "x", "mean", NULL);
    graph_node(&m, "Sub", "x mean", "y", NULL);
    g = must_read(model_of(&m, 13));
    assert_output(g, 0, DIMS(1, 4));
    graph_free(g);
    graph_input(&m, "x", DIMS(1, 4));
    graph_output(&m, "y");
    graph_node(&m, "Transpose", "x", "t", NULL);
    graph_node(&m, "MatMul", "t x", "q", NULL);
    graph_node(&m, "MatMul", "x q", "y", NULL);
    g = must_read(model_of(&m, 13));
    assert_output(g, 0, DIMS(1, 4));
    graph_free(g);
}

static struct graph *reshaped(int rank, const int64_t *dim, int n,
                              const int64_t *target)
{
    struct pb_message m = one_node("Reshape", "x t", rank, dim, NULL);

    graph_ints(&m, "t", 1, (const int64_t[]){n}, target);
    return must_read(model_of(&m, 13));
}

TEST(test_reshape)
{
    struct graph *g = reshaped(DIMS(1, 4, 2, 2), 2, INTS(1, 16));

    assert_output(g, 0, DIMS(-1, 16));
    assert_int_equal(the_node(g, GRAPH_RESHAPE)->attr.dims.dim[0], 0);
    graph_free(g);
    g = reshaped(DIMS(-1, 4, 2, 2), 3, INTS(0, -1, 2));
    assert_output(g, 0, DIMS(-1, 8, 2));
    graph_free(g);
    g = reshaped(DIMS(-1, 4, 2, 2), 2, INTS(-1, 8));
    assert_output(g, 0, DIMS(-1, 8));
    assert_int_equal(the_node(g, GRAPH_RESHAPE)->attr.dims.dim[0], -1);
    graph_free(g);
    /* the batch disappears, so it can only be the stated 1 */
    g = reshaped(DIMS(1, 4, 2, 2), 1, INTS(16));
    assert_output(g, 0, DIMS(16));
    graph_free(g);
}

static void node_int(struct pb_message *g, const char *op, const char *in,
                     const char *out, const char *name, int64_t value)
{
    struct pb_message a = EMPTY;

    attr_int(&a, name, value);
    graph_node(g, op, in, out, &a);
}

/* ShuffleNet's way: Shape, Gather, Unsqueeze, Concat, Reshape. */
TEST(test_shape_glue)
{
    struct pb_message m = EMPTY, a = EMPTY;
    struct graph *g;

    graph_input(&m, "x", DIMS(-1, 6, 4, 4));
    graph_output(&m, "y");
    graph_ints(&m, "zero", 0, NULL, INTS(0));
    graph_ints(&m, "two", DIMS(1), INTS(2));
    graph_ints(&m, "rest", DIMS(3), INTS(3, 4, 4));
    graph_node(&m, "Shape", "x", "s", NULL);
    node_int(&m, "Gather", "s zero", "n", "axis", 0);
    attr_ints(&a, "axes", 1, INTS(0));
    graph_node(&m, "Unsqueeze", "n", "n1", &a);
    node_int(&m, "Concat", "n1 two rest", "t", "axis", 0);
    graph_node(&m, "Reshape", "x t", "y", NULL);
    g = must_read(model_of(&m, 11));
    assert_output(g, 0, DIMS(-1, 2, 3, 4, 4));
    assert_int_equal(g->n_nodes, 1);
    graph_free(g);
}

/* A target of 2 N: arithmetic on the batch. */
TEST(test_batch_arithmetic)
{
    struct pb_message m = EMPTY, a = EMPTY;
    struct graph *g;

    graph_input(&m, "x", DIMS(-1, 6, 4));
    graph_output(&m, "y");
    graph_ints(&m, "start", DIMS(1), INTS(0));
    graph_ints(&m, "end", DIMS(1), INTS(1));
    graph_ints(&m, "two", DIMS(1), INTS(2));
    graph_ints(&m, "rest", DIMS(2), INTS(3, 4));
    graph_node(&m, "Shape", "x", "s", NULL);
    graph_node(&m, "Slice", "s start end", "n", NULL);
    graph_node(&m, "Mul", "n two", "n2", NULL);
    attr_int(&a, "axis", 0);
    graph_node(&m, "Concat", "n2 rest", "t", &a);
    graph_node(&m, "Reshape", "x t", "y", NULL);
    g = must_read(model_of(&m, 13));
    assert_output(g, 0, DIMS(-1, 3, 4));
    assert_int_equal(the_node(g, GRAPH_RESHAPE)->attr.dims.dim[0], -1);
    graph_free(g);
}

/* torch.export writes a reshape as a gather of 0, 1, 2, ... */
TEST(test_counting_gather)
{
    struct pb_message m = EMPTY, a = EMPTY;
    struct graph *g;

    graph_input(&m, "x", DIMS(-1, 3));
    graph_output(&m, "y");
    graph_ints(&m, "zero", 0, NULL, INTS(0));
    graph_ints(&m, "one", 0, NULL, INTS(1));
    graph_ints(&m, "three", 0, NULL, INTS(3));
    graph_ints(&m, "flat", DIMS(1), INTS(-1));
    graph_ints(&m, "last", DIMS(1), INTS(1));
    graph_ints(&m, "row", DIMS(3), INTS(0, 1, 2));
    graph_node(&m, "Reshape", "x flat", "v", NULL);
    graph_node(&m, "Shape", "x", "s", NULL);
    attr_int(&a, "axis", 0);
    graph_node(&m, "Gather", "s zero", "n", &a);
    graph_node(&m, "Range", "zero n one", "r", NULL);
    graph_node(&m, "Mul", "r three", "r3", NULL);
    graph_node(&m, "Unsqueeze", "r3 last", "c", NULL);
    graph_node(&m, "Add", "c row", "i", NULL);
    graph_node(&m, "Gather", "v i", "y", NULL);
    g = must_read(model_of(&m, 13));
    assert_output(g, 0, DIMS(-1, 3));
    assert_int_equal(g->n_nodes, 2);
    assert_int_equal(g->node[1].op, GRAPH_RESHAPE);
    graph_free(g);
}

/* A number computed from the batch cannot be data. */
TEST(test_batch_as_data)
{
    struct pb_message m = EMPTY, a = EMPTY;

    graph_input(&m, "x", DIMS(-1, 4));
    graph_output(&m, "y");
    graph_node(&m, "Size", "x", "n", NULL);
    attr_int(&a, "to", ONNX_FLOAT);
    graph_node(&m, "Cast", "n", "f", &a);
    graph_node(&m, "Mul", "x f", "y", NULL);
    must_refuse(model_of(&m, 13), INFER_EUNSUPPORTED, "depends on the batch");
}

TEST(test_given_shape)
{
    struct weights_input_shape shape = {"x", 4, {-1, 3, 20, 24}};
    struct weights_options options;
    struct pb_message m = one_node("Relu", "x", DIMS(-1, 3, -1, -1), NULL);
    struct infer_error err;
    struct graph *g;

    weights_options_init(&options);
    options.input_count = 1;
    options.input_shape = &shape;
    m = model_of(&m, 13);
    assert_int_equal(read_at(NULL, &m, &options, &err, &g), 0);
    assert_int_equal(graph_infer_shapes(g, NULL, &err), 0);
    assert_output(g, 0, DIMS(-1, 3, 20, 24));
    graph_free(g);
    shape.rank = 3;
    assert_int_equal(read_at(NULL, &m, &options, &err, &g), INFER_EARGUMENT);
    pb_free(&m);
}

/* x * s with s of the caller. */
TEST(test_given_value)
{
    static const double numbers[3] = {2, 3, 4};
    static const struct {
        int rank;
        int64_t dim[2];
        int count, rc;
        float want[3];
    } cases[] = {{0, {0}, 1, 0, {2, 2, 2}},
                 {1, {-1}, 3, 0, {2, 3, 4}},
                 {2, {-1, 3}, 3, 0, {2, 3, 4}},
                 {2, {1, 3}, 1, 0, {2, 2, 2}},
                 {1, {3}, 2, INFER_EARGUMENT, {0}}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct weights_input_value value = {"s", cases[i].count, numbers,
                                            false};
        struct pb_message m = EMPTY;
        struct weights_options options;
        const float x[3] = {1, 1, 1};
        struct infer_error err;
        struct graph *g;
        float y[3];

        graph_input(&m, "x", DIMS(1, 3));
        graph_input(&m, "s", cases[i].rank, cases[i].dim);
        graph_output(&m, "y");
        graph_node(&m, "Mul", "x s", "y", NULL);
        weights_options_init(&options);
        options.input_value_count = 1;
        options.input_value = &value;
        m = model_of(&m, 13);
        assert_int_equal(read_at(NULL, &m, &options, &err, &g), cases[i].rc);
        assert_true(value.used);
        pb_free(&m);
        if (cases[i].rc < 0) {
            assert_non_null(strstr(err.text, "has 3 elements, 2 are given"));
            continue;
        }
        assert_int_equal(g->n_inputs, 1);
        run_reference(g, DIMS(1, 3), x, y, sizeof y);
        assert_memory_equal(y, cases[i].want, sizeof y);
    }
}

/* Values that an input cannot hold; an input that is there twice. */
TEST(test_given_value_refused)
{
    static const struct {
        int type, times;
        double number;
        int rc;
        const char *words;
    } cases[] = {
        {7, 1, 1.5, INFER_EARGUMENT, "input 's' is I64, which cannot hold 1.5"},
        {7, 1, NAN, INFER_EARGUMENT, "cannot hold nan"},
        {7, 1, 1e30, INFER_EARGUMENT, "cannot hold 1e+30"},
        {2, 1, 300, INFER_EARGUMENT, "input 's' is U8, which cannot hold 300"},
        {2, 1, -1, INFER_EARGUMENT, "cannot hold -1"},
        {9, 1, 0.5, INFER_EARGUMENT, "input 's' is BOOL"},
        {22, 1, 1, INFER_EUNSUPPORTED, "of less than 8 bits"},
        {7, 2, 1, INFER_EFORMAT, "two inputs are named 's'"}};

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct weights_input_value value = {"s", 1, &cases[i].number, false};
        struct pb_message m = EMPTY, a = EMPTY;
        struct weights_options options;
        struct infer_error err;
        struct graph *g = NULL;

        graph_input(&m, "x", DIMS(1, 3));
        for (int k = 0; k < cases[i].times; k++)
            graph_info(&m, 11, "s", cases[i].type, 0, NULL);
        graph_output(&m, "y");
        attr_int(&a, "to", ONNX_FLOAT);
        graph_node(&m, "Cast", "s", "f", &a);
        graph_node(&m, "Mul", "x f", "y", NULL);
        weights_options_init(&options);
        options.input_value_count = 1;
        options.input_value = &value;
        m = model_of(&m, 13);
        assert_int_equal(read_at(NULL, &m, &options, &err, &g), cases[i].rc);
        if (!strstr(err.text, cases[i].words))
            fail_msg("%s", err.text);
        pb_free(&m);
    }
}

/* ---- constants ----------------------------------------------------- */

/* A large payload is not copied, wherever it starts in the file. */
TEST(test_payload_in_place)
{
    enum { K = 16, C = 8 };
    float data[K * C];
    size_t shift, i;

    for (i = 0; i < K * C; i++)
        data[i] = (float)i;
    for (shift = 0; shift < 8; shift++) {
        char padding[9] = "aaaaaaaa";
        struct pb_message m = EMPTY;
        struct graph *g;
        const struct constant *c;

        padding[shift] = 0;
        graph_input(&m, "x", DIMS(-1, C));
        pb_text(&m, 10, padding); /* doc_string */
        graph_output(&m, "y");
        graph_floats(&m, "w", DIMS(K, C), data);
        {
            struct pb_message a = EMPTY;

            attr_int(&a, "transB", 1);
            graph_node(&m, "Gemm", "x w", "y", &a);
        }
        g = must_read(model_of(&m, 13));
        c = weight_of(g, GRAPH_DENSE);
        assert_non_null(c->blob);
        assert_int_equal((uintptr_t)c->data % sizeof(float), 0);
        assert_memory_equal(c->data, data, sizeof(data));
        graph_free(g);
    }
}

/* Builds y = x + w from a ready TensorProto of four elements. */
static struct graph *add_tensor(struct pb_message t)
{
    struct pb_message m = one_node("Add", "x w", DIMS(-1, 4), NULL);

    pb_nested(&m, 5, &t);
    return must_read(model_of(&m, 13));
}

/* The same numbers in every field that may hold them. */
TEST(test_typed_data)
{
    static const float f[] = {-1.5f, -0.5f, 0.5f, 1.5f};
    static const double d[] = {-1.5, -0.5, 0.5, 1.5};
    struct pb_message t = tensor_head(ONNX_FLOAT);
    int i;

    pb_bytes(&t, 4, f, sizeof(f)); /* packed */
    assert_weight(add_tensor(t), INFER_F32);
    t = tensor_head(ONNX_FLOAT);
    for (i = 0; i < 4; i++)
        pb_float(&t, 4, f[i]);
    assert_weight(add_tensor(t), INFER_F32);
    t = tensor_head(ONNX_FLOAT16);
    for (i = 0; i < 4; i++)
        pb_int(&t, 5, scalar_to_f16(f[i]));
    assert_weight(add_tensor(t), INFER_F16);
    t = tensor_head(ONNX_BFLOAT16);
    for (i = 0; i < 4; i++)
        pb_int(&t, 5, scalar_to_bf16(f[i]));
    assert_weight(add_tensor(t), INFER_BF16);
    t = tensor_head(ONNX_DOUBLE); /* computed in single precision */
    pb_bytes(&t, 10, d, sizeof(d));
    assert_weight(add_tensor(t), INFER_F32);
}

/* IR versions below 4 list initializers as inputs too. */
TEST(test_initializer_input)
{
    struct pb_message m = one_node("Mul", "x w", DIMS(-1, 4), NULL);
    struct graph *g;

    graph_input(&m, "w", DIMS(4));
    graph_floats(&m, "w", DIMS(4), FLOATS(1, 2, 3, 4));
    g = must_read(model_of(&m, 8));
    assert_int_equal(g->n_inputs, 1);
    graph_free(g);
}

/* A second graph message adds to the first. */
TEST(test_merged_graphs)
{
    struct pb_message first = EMPTY, second = EMPTY, m;
    struct graph *g;

    graph_input(&first, "x", DIMS(-1, 4));
    graph_node(&first, "Relu", "x", "h", NULL);
    graph_output(&second, "y");
    graph_node(&second, "Tanh", "h", "y", NULL);
    m = model_of(&first, 13);
    pb_nested(&m, 7, &second);
    g = must_read(m);
    assert_int_equal(g->n_nodes, 2);
    graph_free(g);
}

/* ---- reports ------------------------------------------------------- */

/* All faults stand in one report; what depends on a refused node does not. */
TEST(test_all_faults)
{
    struct pb_message m = EMPTY, copy;
    struct infer_error err;
    struct graph *g;

    graph_input(&m, "x", DIMS(-1, 4));
    graph_output(&m, "y");
    graph_node(&m, "StringSplit", "x", "a", NULL);
    graph_node(&m, "Relu", "a", "b", NULL);
    graph_node(&m, "NonMaxSuppression", "x", "c", NULL);
    graph_node(&m, "Add", "b c", "y", NULL);
    copy = model_of(&m, 13);
    assert_int_equal(read_at(NULL, &copy, NULL, &err, &g), INFER_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "StringSplit"));
    assert_non_null(strstr(err.text, "NonMaxSuppression"));
    assert_non_null(strstr(err.text, "opset 13"));
    assert_null(strstr(err.text, "Relu"));
    assert_null(strstr(err.text, "Add"));
    pb_free(&copy);
}

/* Open sizes are named only where stating them would change the answer. */
TEST(test_open_sizes_hint)
{
    struct pb_message m = EMPTY, copy;
    struct infer_error err;
    struct graph *g;

    graph_input(&m, "x", DIMS(1, 3, -1, -1));
    graph_output(&m, "y");
    graph_node(&m, "StringSplit", "x", "y", NULL);
    copy = model_of(&m, 13);
    assert_int_equal(read_at(NULL, &copy, NULL, &err, &g), INFER_EUNSUPPORTED);
    assert_null(strstr(err.text, "--input-shape"));
    pb_free(&copy);
    graph_input(&m, "x", DIMS(1, 3, -1, -1));
    graph_output(&m, "y");
    graph_ints(&m, "shape", 1, INTS(2), INTS(1, 108));
    graph_node(&m, "Reshape", "x shape", "y", NULL);
    must_refuse(model_of(&m, 13), INFER_EFORMAT, "--input-shape fixes them");
}

TEST(test_probe)
{
    struct pb_message m = one_node("Relu", "x", DIMS(-1, 4), NULL);
    struct weights_file file = {NULL, NULL};
    static const char *const others[] = {"\x89PNG\r\n\x1a\n",
                                         "PK\3\4 and more of a zip file",
                                         "\x89HDF\r\n\x1a\n",
                                         "\x93NUMPY\1",
                                         "{\"a\": 1}",
                                         "\x80\2.",
                                         ""};
    size_t i;

    m = model_of(&m, 13);
    file.blob = blob_new(m.data, m.size);
    assert_true(weights_format_onnx.probe(&file) >= 90);
    blob_unref(file.blob);
    for (i = 0; i < COUNT(others); i++) {
        char *copy = strdup(others[i]);

        assert_non_null(copy);
        file.blob = blob_new(copy, strlen(copy));
        assert_int_equal(weights_format_onnx.probe(&file), 0);
        blob_unref(file.blob);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_named_batch),
        cmocka_unit_test(test_literal_batch),
        cmocka_unit_test(test_batch_that_stays),
        cmocka_unit_test(test_batch_that_would_mix),
        cmocka_unit_test(test_reshape),
        cmocka_unit_test(test_shape_glue),
        cmocka_unit_test(test_batch_arithmetic),
        cmocka_unit_test(test_counting_gather),
        cmocka_unit_test(test_batch_as_data),
        cmocka_unit_test(test_given_shape),
        cmocka_unit_test(test_given_value),
        cmocka_unit_test(test_given_value_refused),
        cmocka_unit_test(test_payload_in_place),
        cmocka_unit_test(test_typed_data),
        cmocka_unit_test(test_initializer_input),
        cmocka_unit_test(test_merged_graphs),
        cmocka_unit_test(test_all_faults),
        cmocka_unit_test(test_open_sizes_hint),
        cmocka_unit_test(test_probe),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
