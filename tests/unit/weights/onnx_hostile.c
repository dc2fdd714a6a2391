/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX files that are wrong: each must be refused by name, or read where it is
 * only odd, without a crash, a leak or an unreasonable cost. */
#include "tests/unit/weights/onnx_model.h"

static void refuse_graph(struct pb_message g, int code, const char *words)
{
    must_refuse(model_of(&g, 13), code, words);
}

/* A small convolutional network with most kinds of field. */
static struct pb_message seed(void)
{
    struct pb_message g = EMPTY, a = EMPTY, b = EMPTY, m;
    static float w[2 * 1 * 3 * 3], d[3 * 8];
    int i;

    for (i = 0; i < 18; i++)
        w[i] = (float)i;
    graph_input(&g, "x", DIMS(1, 1, 4, 4));
    graph_output(&g, "y");
    graph_floats(&g, "w", DIMS(2, 1, 3, 3), w);
    graph_floats(&g, "d", DIMS(8, 3), d);
    graph_ints(&g, "t", DIMS(2), INTS(1, -1));
    attr_ints(&a, "pads", 4, INTS(1, 1, 0, 0));
    attr_text(&a, "auto_pad", "NOTSET");
    attr_int(&a, "group", 1);
    graph_node(&g, "Conv", "x w", "c", &a);
    graph_node(&g, "Relu", "c", "r", NULL);
    attr_ints(&b, "kernel_shape", 2, INTS(2, 2));
    graph_node(&g, "MaxPool", "r", "p", &b);
    graph_node(&g, "Reshape", "p t", "f", NULL);
    graph_node(&g, "MatMul", "f d", "y", NULL);
    m = model_of(&g, 13);
    pb_text(&m, 2, "test");
    return m;
}

/* ---- whole files --------------------------------------------------- */

TEST(test_seed)
{
    struct graph *g = must_read(seed());

    assert_output(g, 0, DIMS(-1, 3));
    graph_free(g);
}

/* Any outcome is fine but a crash, a leak, or an error without words. */
static void try_to_read(const struct pb_message *m)
{
    struct infer_error err;
    struct graph *g;

    read_at(NULL, m, NULL, &err, &g);
    graph_free(g);
}

TEST(test_truncated)
{
    struct pb_message m = seed();
    size_t whole = m.size;

    for (m.size = 0; m.size < whole; m.size++)
        try_to_read(&m);
    pb_free(&m);
}

TEST(test_bit_flips)
{
    struct pb_message m = seed();
    size_t i;
    int bit;

    for (i = 0; i < m.size; i++)
        for (bit = 0; bit < 8; bit++) {
            m.data[i] ^= (unsigned char)(1 << bit);
            try_to_read(&m);
            m.data[i] ^= (unsigned char)(1 << bit);
        }
    pb_free(&m);
}

TEST(test_bytes_set)
{
    static const unsigned char values[] = {0x00, 0x7f, 0x80, 0xff};
    struct pb_message m = seed();
    size_t i, k;

    for (i = 0; i < m.size; i++)
        for (k = 0; k < sizeof(values); k++) {
            unsigned char saved = m.data[i];

            m.data[i] = values[k];
            try_to_read(&m);
            m.data[i] = saved;
        }
    pb_free(&m);
}

TEST(test_no_graph)
{
    struct pb_message m = EMPTY;

    must_refuse(m, INFER_EFORMAT, "no graph");
    pb_int(&m, 1, 8);
    must_refuse(m, INFER_EFORMAT, "no graph");
}

/* Two-byte nodes and inputs must cost no more than a few bytes each. */
TEST(test_many_empty)
{
    static const unsigned fields[] = {1, 5, 11, 12};
    size_t i;
    int k;

    for (i = 0; i < COUNT(fields); i++) {
        struct pb_message g = EMPTY;
        char *zeros;
        size_t n = 6000000;

        zeros = malloc(n);
        assert_non_null(zeros);
        for (k = 0; k < (int)n; k += 2) {
            zeros[k] = (char)(fields[i] << 3 | 2);
            zeros[k + 1] = 0;
        }
        pb_raw(&g, zeros, n);
        free(zeros);
        refuse_graph(g, INFER_EFORMAT, "more than");
    }
}

/* A million tiny tensors that nobody uses. */
TEST(test_many_tensors)
{
    struct pb_message g = one_node("Relu", "x", DIMS(-1, 2), NULL);
    char name[16];
    struct graph *graph;
    int i;

    for (i = 0; i < 200000; i++) {
        struct pb_message t = EMPTY;

        snprintf(name, sizeof(name), "t%d", i);
        pb_int(&t, 2, ONNX_FLOAT);
        pb_text(&t, 8, name);
        pb_float(&t, 4, 1.0f);
        pb_nested(&g, 5, &t);
    }
    graph = must_read(model_of(&g, 13));
    assert_int_equal(graph->n_values, 2);
    graph_free(graph);
}

/* ---- versions ------------------------------------------------------ */

static void refuse_version(int ir, int opset, int code, const char *words)
{
    struct pb_message g = one_node("Relu", "x", DIMS(-1, 2), NULL), m = EMPTY;
    struct pb_message version = EMPTY;

    pb_int(&m, 1, ir);
    if (opset >= 0) {
        pb_int(&version, 2, opset);
        pb_nested(&m, 8, &version);
    }
    pb_nested(&m, 7, &g);
    must_refuse(m, code, words);
}

TEST(test_versions)
{
    struct pb_message g = one_node("Relu", "x", DIMS(-1, 2), NULL), m;
    struct pb_message version = EMPTY;

    refuse_version(8, -1, INFER_EFORMAT, "no version");
    refuse_version(8, 0, INFER_EFORMAT, "version 0");
    refuse_version(8, 999, INFER_EUNSUPPORTED, "opset 999");
    refuse_version(0, 13, INFER_EFORMAT, "IR version 0");
    refuse_version(1000, 13, INFER_EUNSUPPORTED, "IR version 1000");
    m = model_of(&g, 13);
    pb_int(&version, 2, 12);
    pb_nested(&m, 8, &version);
    must_refuse(m, INFER_EFORMAT, "two versions");
    g = one_node("Swish", "x", DIMS(-1, 2), NULL);
    refuse_graph(g, INFER_EUNSUPPORTED, "Swish does not exist");
    g = one_node("Upsample", "x", DIMS(-1, 2), NULL);
    refuse_graph(g, INFER_EUNSUPPORTED, "Upsample does not exist");
}

/* ---- what is not read ---------------------------------------------- */

TEST(test_not_read)
{
    static const char *const ops[] = {"StringConcat", "StringSplit",
                                      "NoSuchThing", ""};
    struct pb_message g, m, function = EMPTY, info = EMPTY;
    size_t i;

    for (i = 0; i < COUNT(ops); i++) {
        g = one_node(ops[i], "x", DIMS(-1, 2), NULL);
        refuse_graph(g, INFER_EUNSUPPORTED, *ops[i] ? ops[i] : "''");
    }
    g = one_node("Relu", "x", DIMS(-1, 2), NULL);
    m = model_of(&g, 13);
    pb_text(&function, 1, "Relu"); /* a function that makes no output */
    pb_nested(&m, 25, &function);
    must_refuse(m, INFER_EFORMAT, "a function of 0");
    g = one_node("Relu", "x", DIMS(-1, 2), NULL);
    m = model_of(&g, 13);
    pb_nested(&m, 20, &info);
    must_refuse(m, INFER_EUNSUPPORTED, "training");
}

/* Attributes of operators that ONNX took back, on a picture 1x2x3x4. */
static void refuse_removed(const char *op, struct pb_message *attr,
                           const char *words)
{
    struct pb_message g = one_node(op, "x", DIMS(-1, 2, 3, 4), attr);

    refuse_graph(g, INFER_EFORMAT, words);
}

TEST(test_removed)
{
    static const int64_t borders[][4] = {
        {0, 2, 0, 1}, {4, 0, 0, 0}, {0, 0, 5, 0}, {0, 3, 0, 0}};
    static const int64_t scales[][2] = {{4, 1}, {1, 5}};
    struct pb_message a = EMPTY, b = EMPTY, c = EMPTY, d = EMPTY, none = EMPTY;
    size_t i;

    refuse_removed("ImageScaler", &none, "one number for each channel");
    attr_floats(&a, "bias", 3, FLOATS(1, 2, 3));
    refuse_removed("ImageScaler", &a, "one number for each channel");
    attr_ints(&b, "bias", 2, INTS(1, 2));
    refuse_removed("ImageScaler", &b, "one number for each channel");
    attr_ints(&c, "border", 3, INTS(0, 0, 0));
    refuse_removed("Crop", &c, "border must be 4 numbers");
    attr_ints(&d, "border", 4, INTS(0, -1, 0, 0));
    refuse_removed("Crop", &d, "a border of -1");
    for (i = 0; i < COUNT(borders); i++) {
        struct pb_message e = EMPTY;

        attr_ints(&e, "border", 4, borders[i]);
        refuse_removed("Crop", &e, "do not fit");
    }
    for (i = 0; i < COUNT(scales); i++) {
        struct pb_message e = EMPTY;

        attr_ints(&e, "border", 4, INTS(0, 0, 0, 0));
        attr_ints(&e, "scale", 2, scales[i]);
        refuse_removed("Crop", &e, "do not fit");
    }
}

TEST(test_domains)
{
    struct pb_message g = EMPTY, n = EMPTY;

    graph_input(&g, "x", DIMS(-1, 2));
    graph_output(&g, "y");
    node_names(&n, 1, "x");
    node_names(&n, 2, "y");
    pb_text(&n, 4, "Relu");
    pb_text(&n, 7, "com.example");
    pb_nested(&g, 1, &n);
    refuse_graph(g, INFER_EUNSUPPORTED, "com.example");
}

/* ---- the graph ----------------------------------------------------- */

TEST(test_graph_faults)
{
    struct pb_message g = one_node("Relu", "nothing", DIMS(-1, 2), NULL);

    refuse_graph(g, INFER_EFORMAT,
                 "no node before it produces input 'nothing'");
    g = one_node("Relu", "y", DIMS(-1, 2), NULL); /* reads itself */
    refuse_graph(g, INFER_EFORMAT, "no node before it");
    g = one_node("Relu", "z", DIMS(-1, 2), NULL); /* a cycle, or out of order */
    graph_node(&g, "Relu", "y", "z", NULL);
    refuse_graph(g, INFER_EFORMAT, "no node before it");
    g = one_node("Relu", "x", DIMS(-1, 2), NULL);
    graph_node(&g, "Tanh", "x", "y", NULL);
    refuse_graph(g, INFER_EFORMAT, "produced twice");
    g = one_node("Relu", "x", DIMS(-1, 2), NULL);
    graph_node(&g, "Tanh", "x", "x", NULL);
    refuse_graph(g, INFER_EFORMAT, "produced twice");
    g = one_node("Relu", "x", DIMS(-1, 2), NULL);
    graph_output(&g, "z");
    refuse_graph(g, INFER_EFORMAT, "graph output 'z'");
    g = one_node("Relu", "x", DIMS(-1, 2), NULL);
    graph_input(&g, "x", DIMS(-1, 2));
    refuse_graph(g, INFER_EFORMAT, "input 'x'");
    g = one_node("Relu", "x", DIMS(-1, 2), NULL);
    graph_floats(&g, "w", DIMS(1), FLOATS(1));
    graph_floats(&g, "w", DIMS(1), FLOATS(1));
    refuse_graph(g, INFER_EFORMAT, "two initializers");
    g = one_node("Relu", "x", DIMS(-1, 2), NULL);
    graph_floats(&g, "", DIMS(1), FLOATS(1));
    refuse_graph(g, INFER_EFORMAT, "no name");
    g = one_node("Relu", "x", DIMS(-1, 2), NULL);
    graph_node(&g, "Relu", "x", "", NULL);
    refuse_graph(g, INFER_EFORMAT, "no output");
}

TEST(test_inputs)
{
    struct pb_message g = one_node("Relu", "x", DIMS(-1, -5), NULL);

    refuse_graph(g, INFER_EFORMAT, "dimension 1 is -5");
    g = one_node("Relu", "x", DIMS(-1, INT64_C(1) << 62), NULL);
    refuse_graph(g, INFER_EFORMAT, "dimension 1");
    g = one_node("Relu", "x", DIMS(2, 0), NULL);
    refuse_graph(g, INFER_EUNSUPPORTED, "empty");
    g = one_node("Relu", "x", DIMS(1, 1, 1, 1, 1, 1, 1, 1, 1), NULL);
    refuse_graph(g, INFER_EUNSUPPORTED, "dimensions");
    g = one_node("Relu", "x", DIMS(-1, INT32_MAX, INT32_MAX, INT32_MAX), NULL);
    refuse_graph(g, INFER_EUNSUPPORTED, "impossible size");
    {
        struct pb_message h = EMPTY, info = EMPTY;

        pb_text(&info, 1, "x");
        pb_nested(&h, 11, &info);
        graph_output(&h, "y");
        graph_node(&h, "Relu", "x", "y", NULL);
        refuse_graph(h, INFER_EUNSUPPORTED, "not a tensor");
    }
}

TEST(test_names)
{
    struct pb_message g = EMPTY, n = EMPTY;
    char *big = malloc(1 << 20);

    assert_non_null(big);
    memset(big, 'n', 1 << 20);
    graph_input(&g, "x", DIMS(-1, 2));
    graph_output(&g, "y");
    node_names(&n, 1, "x");
    node_names(&n, 2, "y");
    pb_text(&n, 4, "Relu");
    pb_bytes(&n, 3, big, 1 << 20);
    pb_nested(&g, 1, &n);
    refuse_graph(g, INFER_EFORMAT, "1048576 bytes");
    free(big);
    g = one_node("Relu", "x", DIMS(-1, 2), NULL);
    pb_bytes(&g, 2, "a\0b", 3);
    refuse_graph(g, INFER_EFORMAT, "UTF-8");
    g = one_node("Relu", "x", DIMS(-1, 2), NULL);
    pb_text(&g, 2, "\xed\xa0\x80");
    refuse_graph(g, INFER_EFORMAT, "UTF-8");
    /* control characters in a name are escaped in what people see */
    g = one_node("\033[2J", "x", DIMS(-1, 2), NULL);
    refuse_graph(g, INFER_EUNSUPPORTED, "\\x1B");
}

/* ---- attributes ---------------------------------------------------- */

TEST(test_attributes)
{
    struct pb_message a = EMPTY, inner = EMPTY, g;

    attr_text(&a, "alpha", "x");
    g = one_node("LeakyRelu", "x", DIMS(-1, 2), &a);
    refuse_graph(g, INFER_EFORMAT, "'alpha' has type 3");
    attr_float(&a, "alpha", 1);
    attr_float(&a, "alpha", 2);
    g = one_node("LeakyRelu", "x", DIMS(-1, 2), &a);
    refuse_graph(g, INFER_EFORMAT, "appears twice");
    attr_float(&a, "slope", 1);
    g = one_node("LeakyRelu", "x", DIMS(-1, 2), &a);
    refuse_graph(g, INFER_EUNSUPPORTED, "'slope' is not known");
    pb_text(&inner, 1, "alpha");
    pb_text(&inner, 21, "other");
    pb_nested(&a, 5, &inner);
    g = one_node("LeakyRelu", "x", DIMS(-1, 2), &a);
    refuse_graph(g, INFER_EFORMAT, "ref_attr_name");
    pb_text(&inner, 1, "alpha");
    pb_float(&inner, 2, 1);
    pb_int(&inner, 3, 1);
    pb_nested(&a, 5, &inner);
    g = one_node("LeakyRelu", "x", DIMS(-1, 2), &a);
    refuse_graph(g, INFER_EFORMAT, "two types");
    pb_text(&inner, 1, "alpha");
    pb_int(&inner, 2, 1); /* wrong wire type */
    pb_nested(&a, 5, &inner);
    g = one_node("LeakyRelu", "x", DIMS(-1, 2), &a);
    refuse_graph(g, INFER_EFORMAT, "wire type");
    attr_int(&a, "axis", 7);
    g = one_node("Concat", "x", DIMS(-1, 2), &a);
    refuse_graph(g, INFER_EFORMAT, "axis 7");
    g = one_node("Concat", "x", DIMS(-1, 2), NULL);
    refuse_graph(g, INFER_EFORMAT, "'axis' is missing");
}

/* An old file that states no attribute types. */
TEST(test_untyped_attribute)
{
    struct pb_message a = EMPTY, inner = EMPTY, g;
    struct graph *graph;

    pb_text(&inner, 1, "alpha");
    pb_float(&inner, 2, 0.25f);
    pb_nested(&a, 5, &inner);
    g = one_node("LeakyRelu", "x", DIMS(-1, 2), &a);
    graph = must_read(model_of(&g, 6));
    assert_true(the_node(graph, GRAPH_UNARY)->attr.unary.a == 0.25f);
    graph_free(graph);
}

/* ---- tensors ------------------------------------------------------- */

/* y = x + w with this TensorProto for w. */
static void refuse_tensor(struct pb_message t, int code, const char *words)
{
    struct pb_message g = one_node("Add", "x w", DIMS(-1, 4), NULL);

    pb_text(&t, 8, "w");
    pb_nested(&g, 5, &t);
    refuse_graph(g, code, words);
}

static struct pb_message tensor(int64_t dim, int type)
{
    struct pb_message t = EMPTY;

    pb_int(&t, 1, dim);
    pb_int(&t, 2, type);
    return t;
}

TEST(test_tensors)
{
    static const float f[4] = {1, 2, 3, 4};
    static const int bad_types[] = {8, 14, 15};
    struct pb_message t;
    size_t i;
    int k;

    refuse_tensor(tensor(-1, ONNX_FLOAT), INFER_EFORMAT, "dimension 0 is -1");
    t = tensor(INT64_C(1) << 62, ONNX_FLOAT);
    pb_int(&t, 1, 8);
    refuse_tensor(t, INFER_EFORMAT, "overflows");
    refuse_tensor(tensor(INT64_MAX, ONNX_FLOAT), INFER_EFORMAT, "overflows");
    refuse_tensor(tensor(4, ONNX_FLOAT), INFER_EFORMAT, "0 elements");
    refuse_tensor(tensor(4, 0), INFER_EFORMAT, "data type 0");
    refuse_tensor(tensor(4, 99), INFER_EFORMAT, "data type 99");
    for (i = 0; i < COUNT(bad_types); i++)
        refuse_tensor(tensor(4, bad_types[i]), INFER_EUNSUPPORTED,
                      onnx_type_name(bad_types[i]));
    t = tensor(4, ONNX_FLOAT);
    pb_bytes(&t, 9, f, 15);
    refuse_tensor(t, INFER_EFORMAT, "raw_data of 15 bytes");
    t = tensor(4, ONNX_FLOAT);
    pb_bytes(&t, 9, f, 16);
    pb_bytes(&t, 4, f, 16);
    refuse_tensor(t, INFER_EFORMAT, "both raw_data and typed");
    t = tensor(4, ONNX_FLOAT);
    pb_bytes(&t, 4, f, 12);
    refuse_tensor(t, INFER_EFORMAT, "3 elements");
    t = tensor(4, ONNX_FLOAT);
    for (k = 0; k < 4; k++)
        pb_int(&t, 7, k);
    refuse_tensor(t, INFER_EFORMAT, "FLOAT data in field 7");
    t = tensor(4, ONNX_FLOAT16);
    for (k = 0; k < 4; k++)
        pb_int(&t, 5, 65536);
    refuse_tensor(t, INFER_EFORMAT, "65536");
    t = tensor(4, ONNX_INT8);
    for (k = 0; k < 4; k++)
        pb_int(&t, 5, -129);
    refuse_tensor(t, INFER_EFORMAT, "-129");
    t = tensor(1, ONNX_FLOAT);
    for (k = 0; k < 9; k++)
        pb_int(&t, 1, 1);
    refuse_tensor(t, INFER_EUNSUPPORTED, "dimensions");
    t = tensor(4, ONNX_FLOAT);
    pb_int(&t, 14, 1);
    pb_bytes(&t, 9, f, 16);
    refuse_tensor(t, INFER_EFORMAT, "inside the file and outside");
}

/* ---- operators with impossible attributes -------------------------- */

static void refuse_conv(const char *name, int n, const int64_t *value,
                        const char *words)
{
    struct pb_message a = EMPTY, g;
    float w[18] = {0};

    attr_ints(&a, name, n, value);
    g = one_node("Conv", "x w", DIMS(-1, 1, 4, 4), &a);
    graph_floats(&g, "w", DIMS(2, 1, 3, 3), w);
    refuse_graph(g, INFER_EFORMAT, words);
}

TEST(test_conv)
{
    struct pb_message a = EMPTY, g;
    float w[50] = {0};

    refuse_conv("strides", 2, INTS(0, 1), "strides");
    refuse_conv("strides", 1, INTS(1), "1 entries");
    refuse_conv("dilations", 2, INTS(1, 0), "dilations");
    refuse_conv("pads", 3, INTS(1, 1, 1), "3 entries");
    refuse_conv("pads", 4, INTS(INT64_C(1) << 31, 0, 0, 0), "pads");
    refuse_conv("pads", 4, INTS(-1, 0, 0, 0), "pad");
    refuse_conv("kernel_shape", 2, INTS(5, 5), "kernel_shape");
    attr_int(&a, "group", 0);
    g = one_node("Conv", "x w", DIMS(-1, 1, 4, 4), &a);
    graph_floats(&g, "w", DIMS(2, 1, 3, 3), w);
    refuse_graph(g, INFER_EFORMAT, "group");
    attr_int(&a, "group", 3);
    g = one_node("Conv", "x w", DIMS(-1, 1, 4, 4), &a);
    graph_floats(&g, "w", DIMS(2, 1, 3, 3), w);
    refuse_graph(g, INFER_EFORMAT, "group");
    g = one_node("Conv", "x w", DIMS(-1, 1, 4, 4), NULL); /* leaves nothing */
    graph_floats(&g, "w", DIMS(2, 1, 5, 5), w);
    refuse_graph(g, INFER_EFORMAT, "does not fit");
    g = one_node("Conv", "x w", DIMS(-1, 1, 4, 4), NULL);
    graph_floats(&g, "w", DIMS(2, 1, 3), w);
    refuse_graph(g, INFER_EFORMAT, "rank 3");
    attr_text(&a, "auto_pad", "SAME_UPPER");
    attr_ints(&a, "pads", 4, INTS(1, 1, 1, 1));
    g = one_node("Conv", "x w", DIMS(-1, 1, 4, 4), &a);
    graph_floats(&g, "w", DIMS(2, 1, 3, 3), w);
    refuse_graph(g, INFER_EFORMAT, "both");
}

static void refuse_target(int n, const int64_t *target, const char *words)
{
    struct pb_message g = one_node("Reshape", "x t", DIMS(2, 6), NULL);

    graph_ints(&g, "t", 1, (const int64_t[]){n}, target);
    refuse_graph(g, INFER_EFORMAT, words);
}

TEST(test_shapes)
{
    struct pb_message a = EMPTY, g;
    float w[50] = {0};

    refuse_target(2, INTS(-1, -1), "second open size");
    refuse_target(3, INTS(2, 6, 0), "does not have");
    refuse_target(2, INTS(5, -1), "do not fit");
    refuse_target(2, INTS(3, 5), "do not fit");
    refuse_target(2, INTS(INT64_MAX, INT64_MAX), "overflows");
    refuse_target(2, INTS(-2, 6), "-2");
    refuse_target(9, INTS(1, 1, 1, 1, 1, 1, 1, 1, 12), "at most 8");
    g = one_node("Slice", "x b e a s", DIMS(2, 6), NULL);
    graph_ints(&g, "b", DIMS(1), INTS(0));
    graph_ints(&g, "e", DIMS(1), INTS(2));
    graph_ints(&g, "a", DIMS(1), INTS(1));
    graph_ints(&g, "s", DIMS(1), INTS(0));
    refuse_graph(g, INFER_EFORMAT, "step 0");
    g = one_node("Gather", "x i", DIMS(2, 6), NULL);
    graph_ints(&g, "i", DIMS(1), INTS(2));
    refuse_graph(g, INFER_EFORMAT, "index 2");
    attr_int(&a, "axis", -3);
    g = one_node("Gather", "x i", DIMS(2, 6), &a);
    graph_ints(&g, "i", DIMS(1), INTS(0));
    refuse_graph(g, INFER_EFORMAT, "axis -3");
    g = one_node("MatMul", "x w", DIMS(2, 6), NULL);
    graph_floats(&g, "w", DIMS(5, 5), w);
    refuse_graph(g, INFER_EFORMAT, "fit");
    attr_int(&a, "transB", 2);
    g = one_node("Gemm", "x w", DIMS(2, 6), &a);
    graph_floats(&g, "w", DIMS(6, 5), w);
    refuse_graph(g, INFER_EFORMAT, "transB");
    g = one_node("Pad", "x p", DIMS(2, 6), NULL);
    graph_ints(&g, "p", DIMS(4),
               INTS(INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX));
    refuse_graph(g, INFER_EFORMAT, "out of range");
    g = one_node("Resize", "x - s", DIMS(2, 6), NULL);
    graph_floats(&g, "s", DIMS(2), FLOATS(1e9f, 1e9f));
    must_refuse(model_of(&g, 13), INFER_EUNSUPPORTED, "impossible size");
    g = one_node("Resize", "x - s", DIMS(2, 6), NULL);
    graph_floats(&g, "s", DIMS(2), FLOATS(1, -1));
    refuse_graph(g, INFER_EFORMAT, "scale -1");
    attr_ints(&a, "perm", 2, INTS(0, 0));
    g = one_node("Transpose", "x", DIMS(2, 6), &a);
    refuse_graph(g, INFER_EFORMAT, "permutation");
}

/* Constants that a few bytes ask for are bounded together. */
TEST(test_generated)
{
    struct pb_message g = one_node("Add", "x w", DIMS(-1, 4), NULL), h = EMPTY;

    graph_input(&h, "x", DIMS(-1, 4));
    graph_output(&h, "y");
    graph_ints(&h, "s", DIMS(2), INTS(1 << 20, 1 << 20));
    graph_node(&h, "ConstantOfShape", "s", "w", NULL);
    graph_node(&h, "Add", "x w", "y", NULL);
    pb_free(&g);
    refuse_graph(h, INFER_EUNSUPPORTED, "too large to compute");
}

/* Nodes that each ask for a little arithmetic, without end. */
TEST(test_much_arithmetic)
{
    static int64_t zeros[4096];
    struct pb_message g = one_node("Relu", "x", DIMS(-1, 4), NULL), m;
    struct infer_error err;
    struct graph *graph;
    char in[32], out[32];
    int i;

    graph_ints(&g, "t0", DIMS(4096), zeros);
    for (i = 0; i < 20000; i++) {
        snprintf(in, sizeof(in), "t%d", i);
        snprintf(out, sizeof(out), "t%d", i + 1);
        graph_node(&g, "Neg", in, out, NULL);
    }
    m = model_of(&g, 13);
    read_at(NULL, &m, NULL, &err, &graph);
    graph_free(graph);
    pb_free(&m);
}

/* A large graph in which nothing fits must be refused in linear time. */
TEST(test_many_faults)
{
    struct pb_message g = EMPTY;
    char out[32];
    int i;

    graph_input(&g, "x", DIMS(-1, 2));
    graph_output(&g, "y");
    for (i = 0; i < ONNX_MAX_NODES; i++) {
        snprintf(out, sizeof(out), "t%d", i);
        graph_node(&g, "Relu", "q", out, NULL);
    }
    refuse_graph(g, INFER_EFORMAT, "no node before it");
}

TEST(test_constants)
{
    struct pb_message g = EMPTY, a = EMPTY;

    graph_input(&g, "x", DIMS(-1, 4));
    graph_output(&g, "y");
    attr_int(&a, "value_int", 1);
    attr_float(&a, "value_float", 1);
    graph_node(&g, "Constant", "", "c", &a);
    graph_node(&g, "Relu", "x", "y", NULL);
    refuse_graph(g, INFER_EFORMAT, "two values");
}

/* Arithmetic on numbers from the file: no overflow, no division by zero. */
TEST(test_arithmetic)
{
    static const char *const ops[] = {"Add", "Sub", "Mul", "Div",
                                      "Mod", "Max", "Min"};
    static const int64_t values[] = {INT64_MIN, INT64_MAX, -1, 0, 1};
    size_t i, k, j;

    for (i = 0; i < COUNT(ops); i++)
        for (k = 0; k < 5; k++)
            for (j = 0; j < 5; j++) {
                struct pb_message g = EMPTY, m;

                graph_input(&g, "x", DIMS(-1, 4));
                graph_output(&g, "y");
                graph_ints(&g, "a", DIMS(1), &values[k]);
                graph_ints(&g, "b", DIMS(1), &values[j]);
                graph_node(&g, ops[i], "a b", "t", NULL);
                graph_node(&g, "Reshape", "x t", "y", NULL);
                m = model_of(&g, 13);
                try_to_read(&m);
                pb_free(&m);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_seed),
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_bit_flips),
        cmocka_unit_test(test_bytes_set),
        cmocka_unit_test(test_no_graph),
        cmocka_unit_test(test_many_empty),
        cmocka_unit_test(test_many_tensors),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_not_read),
        cmocka_unit_test(test_removed),
        cmocka_unit_test(test_domains),
        cmocka_unit_test(test_graph_faults),
        cmocka_unit_test(test_inputs),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_attributes),
        cmocka_unit_test(test_untyped_attribute),
        cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_conv),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_generated),
        cmocka_unit_test(test_constants),
        cmocka_unit_test(test_much_arithmetic),
        cmocka_unit_test(test_many_faults),
        cmocka_unit_test(test_arithmetic),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
