/* SPDX-License-Identifier: Apache-2.0 */
/* The TensorFlow reader: graphs written by hand, real files, damaged files.
 *
 * The seed of tests/data is always read and damaged.  TEST_DATA adds real
 * graphs; TENSORFLOW_FILES names a folder that tests/make/tensorflow_models.py
 * filled. */
#include "tests/unit/graph/data.h"

#include <stdbool.h>
#include <unistd.h>

#include "tests/unit/weights/tensorflow/graphdef_reader.h"
#include "tests/unit/weights/tensorflow/graphdef_writer.h"
#include "tests/unit/weights/keras_run.h"
#include "weights/tensorflow/tensorflow.h"

extern const struct weights_format weights_format_onnx;

#define SEED SOURCE_DIR "/tests/data/seed_graph"

/* ---- reading ------------------------------------------------------- */

/* Reads a file and compares it with arrays: the largest relative difference. */
static double check_file(const char *path, const struct weights_dict *io)
{
    struct weights_options options;
    struct weights_import import;
    struct infer_error err = {0};
    double difference;

    weights_options_init(&options);
    weights_import_init(&import);
    if (weights_read(path, &options, &err, &import) < 0) {
        print_error("%s\n", err.text);
        return INFINITY;
    }
    assert_string_equal(import.format, "tensorflow");
    difference = run_graph(import.graph, io);
    weights_import_clear(&import);
    return difference;
}

/* Arrays of an .npz file; those named in names[] become input0, output0. */
static int read_arrays(const char *path, const char *const *names,
                       struct weights_dict *io)
{
    struct weights_options options;
    struct weights_import import;
    struct infer_error err = {0};

    weights_options_init(&options);
    weights_import_init(&import);
    weights_dict_init(io);
    if (weights_read(path, &options, &err, &import) < 0)
        fail_msg("%s", err.text);
    for (size_t i = 0; i < import.dict.count; i++) {
        const struct weights_entry *e = &import.dict.entry[i];
        const char *name = e->name;

        if (names)
            name = strcmp(name, names[0]) == 0   ? "input0"
                   : strcmp(name, names[1]) == 0 ? "output0"
                                                 : name;
        assert_int_equal(
            weights_dict_add(io, name, constant_ref(e->value), &err), 0);
    }
    weights_import_clear(&import);
    return 0;
}

/* ---- made files ---------------------------------------------------- */

TEST(test_seed)
{
    struct weights_dict io;

    read_arrays(SEED ".npz", NULL, &io);
    assert_true(check_file(SEED ".pb", &io) <= 1e-5);
    weights_dict_clear(&io);
}

/* Operators that pick elements and count along axes, in one graph. */
TEST(test_selection)
{
    struct weights_dict io;

    read_arrays(SOURCE_DIR "/tests/data/seed_select.npz", NULL, &io);
    assert_true(check_file(SOURCE_DIR "/tests/data/seed_select.pb", &io) <=
                1e-5);
    weights_dict_clear(&io);
}

/* Volumes, blocks and shifts. */
TEST(test_volumes)
{
    struct weights_dict io;

    read_arrays(SOURCE_DIR "/tests/data/tensorflow/volumes.npz", NULL, &io);
    assert_true(check_file(SOURCE_DIR "/tests/data/tensorflow/volumes.pb",
                           &io) <= 1e-5);
    weights_dict_clear(&io);
}

TEST(test_made_models)
{
    const char *folder = getenv("TENSORFLOW_FILES");
    struct dirent **names;
    int models = 0, wrong = 0;

    if (folder == NULL) {
        print_message("skipped: TENSORFLOW_FILES is not set "
                      "(tests/make/tensorflow_models.py)\n");
        skip();
    }
    const int n = scandir(folder, &names, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        char path[4096], arrays[4096];
        struct weights_dict io;
        char *dot = strrchr(names[i]->d_name, '.');
        if (dot != NULL && strcmp(dot, ".npz") == 0) {
            *dot = 0;
            snprintf(arrays, sizeof arrays, "%s/%s.npz", folder,
                     names[i]->d_name);
            snprintf(path, sizeof path, "%s/%s.pb", folder, names[i]->d_name);
            if (access(path, R_OK) != 0)
                snprintf(path, sizeof path, "%s/%s/saved_model.pb", folder,
                         names[i]->d_name);
            read_arrays(arrays, NULL, &io);
            const double difference = check_file(path, &io);
            if (!(difference <= 1e-5)) {
                print_error("%s: %g\n", names[i]->d_name, difference);
                wrong++;
            }
            weights_dict_clear(&io);
            models++;
        }
        free(names[i]);
    }
    free(names);
    print_message("%d models\n", models);
    assert_int_equal(wrong, 0);
    assert_true(models >= 90);
}

/* ---- real files ---------------------------------------------------- */

static const struct {
    const char *file, *arrays, *input, *output;
} real[] = {
    {"fsrcnn-pb/FSRCNN_x2.pb", "fsrcnn-pb/reference/FSRCNN_x2.pb.tf-graph.npz",
     "in_IteratorGetNext", "out_NCHW_output_0"},
    {"fsrcnn-pb/FSRCNN_x3.pb", "fsrcnn-pb/reference/FSRCNN_x3.pb.tf-graph.npz",
     "in_IteratorGetNext", "out_NCHW_output_0"},
    {"kws-mcu-pb/CNN_S.pb",
     "kws-mcu-pb/reference/CNN_S.pb.tf-graph.fingerprint.npz", "in_Reshape_0",
     "out_labels_softmax_0"},
    {"kws-mcu-pb/DS_CNN_S.pb",
     "kws-mcu-pb/reference/DS_CNN_S.pb.tf-graph.fingerprint.npz",
     "in_Reshape_0", "out_labels_softmax_0"},
    {"tfapprox-resnet8-pb/resnet_8.pb",
     "tfapprox-resnet8-pb/reference/resnet_8.pb.tf-graph.npz", "in_input",
     "out_resnet_tower_0_fully_connected_dense_BiasAdd_0"},
    {"mlperf-tiny-kws/kws_ref_model/saved_model.pb",
     "mlperf-tiny-kws/reference/kws_ref_model_saved_model.pb.savedmodel.npz",
     "in_input_1", "out_dense"},
};

/* The features of a speech network lie flat in the recorded arrays. */
static void shape_features(struct weights_dict *io)
{
    const int64_t dim[3] = {1, 49, 10};

    for (size_t i = 0; i < io->count; i++) {
        struct constant *c = io->entry[i].value;
        if (strcmp(io->entry[i].name, "input0") != 0 || c->rank != 2)
            continue;
        io->entry[i].value = constant_reshape(c, 3, dim);
        assert_non_null(io->entry[i].value);
        constant_unref(c);
    }
}

TEST(test_real_files)
{
    char path[4096], arrays[4096], name[512];

    for (size_t i = 0; i < COUNT(real); i++) {
        const char *const names[] = {real[i].input, real[i].output};
        struct weights_dict io;

        snprintf(name, sizeof name, "weights-formats/%s", real[i].file);
        if (!data_path(name, path, sizeof path)) {
            print_message("skipped: TEST_DATA has no %s\n", name);
            skip();
        }
        snprintf(name, sizeof name, "weights-formats/%s", real[i].arrays);
        assert_non_null(data_path(name, arrays, sizeof arrays));
        read_arrays(arrays, names, &io);
        shape_features(&io);
        const double difference = check_file(path, &io);
        print_message("%s: %g\n", real[i].file, difference);
        assert_true(difference <= 1e-5);
        weights_dict_clear(&io);
    }
}

TEST(test_real_refusals)
{
    static const struct {
        const char *file, *words;
    } refused[] = {
        {"kws-mcu-pb/GRU_S.pb", "(9 nodes)"},
        {"kws-mcu-pb/LSTM_S.pb", "control flow (a loop or a condition)"},
        {"tfapprox-resnet8-pb/resnet_8_quant.pb", "QuantizedConv2D"},
    };
    char path[4096], name[512];

    for (size_t i = 0; i < COUNT(refused); i++) {
        struct weights_options options;
        struct weights_import import;
        struct infer_error err = {0};

        snprintf(name, sizeof name, "weights-formats/%s", refused[i].file);
        if (!data_path(name, path, sizeof path))
            skip();
        weights_options_init(&options);
        weights_import_init(&import);
        assert_int_equal(weights_read(path, &options, &err, &import),
                         INFER_EUNSUPPORTED);
        if (!strstr(err.text, refused[i].words))
            fail_msg("%s", err.text);
    }
}

/* ---- recognition --------------------------------------------------- */

static int probe(const struct weights_format *format, const void *data,
                 size_t bytes)
{
    unsigned char *copy = malloc(bytes + 1);
    struct weights_file file = {.path = "memory"};
    int score;

    memcpy(copy, data, bytes);
    file.blob = blob_new(copy, bytes);
    score = format->probe(&file);
    weights_file_close(&file);
    return score;
}

TEST(test_recognised)
{
    struct data_bytes b = data_read(SEED ".pb");
    const char onnx[] = "\x08\x07\x12\x07pytorch\x3a\x00";
    const char caffe[] = "\x0a\x05LeNet\x12\x02\x0a\x00";
    const char saved[] = "\x08\x01\x12\x06\x0a\x00\x12\x02\x0a\x00";

    assert_true(probe(&weights_format_tensorflow, b.data, b.bytes) > 80);
    assert_int_equal(probe(&weights_format_onnx, b.data, b.bytes), 0);
    assert_int_equal(probe(&weights_format_tensorflow, onnx, sizeof onnx - 1),
                     0);
    assert_int_equal(probe(&weights_format_tensorflow, caffe, sizeof caffe - 1),
                     0);
    assert_true(probe(&weights_format_tensorflow, saved, sizeof saved - 1) >
                probe(&weights_format_onnx, saved, sizeof saved - 1));
    free(b.data);
}

/* The table is searched by halves. */
TEST(test_table_is_sorted)
{
#define TF_OP(name, layout, function, onnx, param) name,
    static const char *const names[] = {
#include "weights/tensorflow/ops.def"
    };
#undef TF_OP

    for (size_t i = 1; i < COUNT(names); i++)
        assert_true(strcmp(names[i - 1], names[i]) < 0);
    for (size_t i = 0; i < COUNT(names); i++) {
        const struct pb_span s = {(unsigned char *)names[i], strlen(names[i])};
        assert_non_null(tf_op_find(s));
    }
}

/* ---- graphs written by hand ---------------------------------------- */

/* A picture of one channel through a 1x1 convolution that doubles. */
static void add_convolution(struct pb_message *g, const char *padding)
{
    static const float two = 2.0f;
    struct pb_message n;

    def_placeholder(g, "x", 4, (const int64_t[]){-1, 2, 2, 1});
    def_floats(g, "w", 4, (const int64_t[]){1, 1, 1, 1}, &two, 1);
    n = def_node("y", "Conv2D", "x", "w");
    def_ints(&n, "strides", 4, (const int64_t[]){1, 1, 1, 1});
    if (padding)
        def_text(&n, "padding", padding);
    pb_nested(g, 1, &n);
}

TEST(test_convolution)
{
    struct pb_message m = {0};
    struct graph *g;

    add_convolution(&m, "SAME");
    g = def_read_graph(&m);
    assert_int_equal(g->n_inputs, 1);
    assert_string_equal(g->value[g->input[0]].name, "x");
    assert_string_equal(g->value[g->output[0]].name, "y");
    /* N,C,H,W */
    assert_int_equal(g->value[g->input[0]].dim[1], 1);
    assert_int_equal(g->value[g->output[0]].dim[1], 1);
    assert_int_equal(g->value[g->output[0]].dim[3], 2);
    graph_free(g);
}

/* Nodes may stand in any order, and what nothing needs is not looked at. */
TEST(test_order_and_dead_nodes)
{
    struct pb_message m = {0}, n;
    struct graph *g;

    n = def_node("z", "Relu", "y", NULL);
    pb_nested(&m, 1, &n);
    n = def_node("y", "Neg", "x:0", NULL);
    pb_nested(&m, 1, &n);
    n = def_node("save", "SaveV2", "y", NULL);
    pb_nested(&m, 1, &n);
    n = def_node("init", "NoOp", "^save", NULL);
    pb_nested(&m, 1, &n);
    def_placeholder(&m, "x", 2, (const int64_t[]){-1, 3});
    g = def_read_graph(&m);
    assert_int_equal(g->n_nodes, 2);
    assert_string_equal(g->value[g->output[0]].name, "z");
    graph_free(g);
}

/* Identities leave no node, and the output keeps the name of the last one. */
TEST(test_identities)
{
    struct pb_message m = {0}, n;
    struct graph *g;

    def_placeholder(&m, "x", 2, (const int64_t[]){-1, 3});
    n = def_node("i", "Identity", "x", NULL);
    pb_nested(&m, 1, &n);
    n = def_node("y", "Tanh", "i", NULL);
    pb_nested(&m, 1, &n);
    n = def_node("out", "Identity", "y", NULL);
    pb_nested(&m, 1, &n);
    g = def_read_graph(&m);
    assert_int_equal(g->n_nodes, 1);
    assert_string_equal(g->value[g->output[0]].name, "out");
    graph_free(g);
}

/* Keras' GELU is told by it. */
TEST(test_erfc)
{
    static const float x[4] = {-2, 0, 0.5f, 3};
    const int64_t dim[2] = {1, 4};
    struct pb_message m = {0}, n;
    struct weights_dict io;
    struct infer_error err;
    struct constant *in = constant_new(INFER_F32, 2, dim);
    struct constant *out = constant_new(INFER_F32, 2, dim);
    struct graph *g;

    assert_true(in && out);
    for (int i = 0; i < 4; i++) {
        ((float *)in->data)[i] = x[i];
        ((float *)out->data)[i] = (float)erfc((double)x[i]);
    }
    weights_dict_init(&io);
    assert_int_equal(weights_dict_add(&io, "input0", in, &err), 0);
    assert_int_equal(weights_dict_add(&io, "output0", out, &err), 0);
    def_placeholder(&m, "x", 2, (const int64_t[]){-1, 4});
    n = def_node("y", "Erfc", "x", NULL);
    pb_nested(&m, 1, &n);
    g = def_read_graph(&m);
    assert_true(run_graph(g, &io) <= 1e-6);
    graph_free(g);
    weights_dict_clear(&io);
}

/* 1 where the bits of x that are in the mask are below 0. */
static struct pb_message sign_bits(int mask)
{
    struct pb_message m = {0}, n;

    def_placeholder(&m, "x", 2, (const int64_t[]){-1, 6});
    def_int32s(&m, 1, "mask", 0, NULL, &(const int){mask}, 1);
    def_int32s(&m, 1, "zero", 0, NULL, &(const int){0}, 1);
    n = def_node("bits", "Bitcast", "x", NULL);
    def_type(&n, "T", TF_FLOAT);
    def_type(&n, "type", TF_INT32);
    pb_nested(&m, 1, &n);
    n = def_node("sign", "BitwiseAnd", "bits", "mask");
    pb_nested(&m, 1, &n);
    n = def_node("negative", "Less", "sign", "zero");
    pb_nested(&m, 1, &n);
    n = def_node("y", "Cast", "negative", NULL);
    def_type(&n, "DstT", TF_FLOAT);
    pb_nested(&m, 1, &n);
    return m;
}

/* Keras tells -0 from 0 by its sign; no other bit of a float is computed. */
TEST(test_sign_bits)
{
    static const float x[6] = {-2, -0.0f, 0, 3, -INFINITY, 1e-30f};
    static const float y[6] = {1, 1, 0, 0, 1, 0};
    const int64_t dim[2] = {1, 6};
    struct weights_dict io;
    struct infer_error err;
    struct constant *in = constant_new(INFER_F32, 2, dim);
    struct constant *out = constant_new(INFER_F32, 2, dim);
    struct pb_message m = sign_bits(INT32_MIN);
    struct graph *g;

    assert_true(in && out);
    memcpy(in->data, x, sizeof x);
    memcpy(out->data, y, sizeof y);
    weights_dict_init(&io);
    assert_int_equal(weights_dict_add(&io, "input0", in, &err), 0);
    assert_int_equal(weights_dict_add(&io, "output0", out, &err), 0);
    g = def_read_graph(&m);
    assert_true(run_graph(g, &io) <= 0);
    graph_free(g);
    weights_dict_clear(&io);
    m = sign_bits(255);
    def_refused(&m, INFER_EUNSUPPORTED, "other than their sign");
}

/* One value of a constant stands for all; the limit holds for all of them. */
TEST(test_splat)
{
    static const float three = 3.0f;
    struct pb_message m = {0}, n;
    struct graph *g;
    float value[4];

    def_placeholder(&m, "x", 2, (const int64_t[]){-1, 4});
    def_floats(&m, "c", 1, (const int64_t[]){4}, &three, 1);
    n = def_node("y", "Add", "x", "c");
    pb_nested(&m, 1, &n);
    g = def_read_graph(&m);
    for (int v = 0; v < g->n_values; v++)
        if (g->value[v].data != NULL) {
            memcpy(value, g->value[v].data->data, sizeof value);
            assert_true(value[0] == 3 && value[3] == 3);
        }
    graph_free(g);

    def_placeholder(&m, "x", 2, (const int64_t[]){-1, 4});
    def_floats(&m, "c", 3, (const int64_t[]){1 << 20, 1 << 12, 4}, &three, 1);
    n = def_node("y", "Add", "x", "c");
    pb_nested(&m, 1, &n);
    def_refused(&m, INFER_EUNSUPPORTED, "Add y: ");
}

/* ---- refusals ------------------------------------------------------ */

TEST(test_refusals)
{
    struct pb_message m = {0}, n;

    add_convolution(&m, NULL);
    def_refused(&m, INFER_EFORMAT, "Conv2D y: attribute 'padding' is missing");
    add_convolution(&m, "SIDEWAYS");
    def_refused(&m, INFER_EUNSUPPORTED, "'SIDEWAYS'");

    def_placeholder(&m, "x", 2, (const int64_t[]){-1, 3});
    n = def_node("y", "Quux", "x", NULL);
    pb_nested(&m, 1, &n);
    n = def_node("z", "Quux", "y", NULL);
    pb_nested(&m, 1, &n);
    def_refused(&m, INFER_EUNSUPPORTED,
                "Quux y: the operator is not supported (2 nodes)");

    def_placeholder(&m, "x", 2, (const int64_t[]){-1, 3});
    n = def_node("y", "Relu", "nowhere", NULL);
    pb_nested(&m, 1, &n);
    def_refused(&m, INFER_EFORMAT, "Relu y: no node is named 'nowhere'");

    def_placeholder(&m, "x", 2, (const int64_t[]){-1, 3});
    n = def_node("y", "Relu", "x:7", NULL);
    pb_nested(&m, 1, &n);
    def_refused(&m, INFER_EFORMAT, "'x:7'");

    def_placeholder(&m, "x", 2, (const int64_t[]){-1, 3});
    def_placeholder(&m, "x", 2, (const int64_t[]){-1, 3});
    def_refused(&m, INFER_EFORMAT, "two nodes are named 'x'");

    def_placeholder(&m, "x", 2, (const int64_t[]){-1, 3});
    n = def_node("y", "Softmax", "x", NULL);
    def_text(&n, "surprise", "yes");
    pb_nested(&m, 1, &n);
    def_refused(&m, INFER_EUNSUPPORTED, "'surprise'");
}

TEST(test_cycles)
{
    struct pb_message m = {0}, n;

    def_placeholder(&m, "x", 2, (const int64_t[]){-1, 3});
    n = def_node("a", "Add", "x", "b");
    pb_nested(&m, 1, &n);
    n = def_node("b", "Relu", "a", NULL);
    pb_nested(&m, 1, &n);
    n = def_node("c", "Relu", "b", NULL);
    pb_nested(&m, 1, &n);
    def_refused(&m, INFER_EFORMAT, "is part of a cycle");

    n = def_node("a", "Identity", "b", NULL);
    pb_nested(&m, 1, &n);
    n = def_node("b", "Identity", "a", NULL);
    pb_nested(&m, 1, &n);
    n = def_node("c", "Relu", "b", NULL);
    pb_nested(&m, 1, &n);
    def_refused(&m, INFER_EFORMAT, "is part of a cycle");
}

/* Functions that call each other, ever more of them. */
TEST(test_function_bomb)
{
    struct pb_message m = {0}, library = {0}, n;

    for (int i = 0; i < 40; i++) {
        struct pb_message f = {0}, signature = {0}, ret = {0};
        char name[16], inner[16];

        snprintf(name, sizeof name, "f%d", i);
        snprintf(inner, sizeof inner, "f%d", i + 1);
        pb_text(&signature, 1, name);
        for (int k = 2; k <= 3; k++) {
            struct pb_message arg = {0};
            pb_text(&arg, 1, k == 2 ? "a" : "r");
            pb_nested(&signature, (unsigned)k, &arg);
        }
        pb_nested(&f, 1, &signature);
        for (int k = 0; k < 2; k++) {
            n = def_node(k ? "q" : "p", i == 39 ? "Relu" : inner,
                         k ? "p:o:0" : "a", NULL);
            pb_nested(&f, 3, &n);
        }
        pb_text(&ret, 1, "r");
        pb_text(&ret, 2, "q:o:0");
        pb_nested(&f, 4, &ret);
        pb_nested(&library, 1, &f);
    }
    def_placeholder(&m, "x", 2, (const int64_t[]){-1, 3});
    n = def_node("y", "f0", "x", NULL);
    pb_nested(&m, 1, &n);
    pb_nested(&m, 2, &library);
    def_refused(&m, INFER_EUNSUPPORTED, "function");
}

/* ---- damage -------------------------------------------------------- */

/* Cut off at every byte, and one bit of each byte flipped: read or refused. */
TEST(test_damaged_seed)
{
    struct data_bytes b = data_read(SEED ".pb");
    struct infer_error err;
    int refused = 0;

    for (size_t i = 0; i < b.bytes; i++) {
        struct graph *g = NULL;

        if (def_read(b.data, i, &g, &err) < 0)
            refused++;
        else
            graph_free(g);
    }
    assert_true(refused > (int)b.bytes / 2);
    for (size_t i = 0; i < b.bytes; i++) {
        struct graph *g = NULL;
        const unsigned char old = b.data[i];

        b.data[i] = (unsigned char)(old ^ 1u << i % 8);
        if (def_read(b.data, b.bytes, &g, &err) == 0)
            graph_free(g);
        b.data[i] = old;
    }
    free(b.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_seed),
        cmocka_unit_test(test_selection),
        cmocka_unit_test(test_volumes),
        cmocka_unit_test(test_made_models),
        cmocka_unit_test(test_real_files),
        cmocka_unit_test(test_real_refusals),
        cmocka_unit_test(test_recognised),
        cmocka_unit_test(test_table_is_sorted),
        cmocka_unit_test(test_convolution),
        cmocka_unit_test(test_order_and_dead_nodes),
        cmocka_unit_test(test_identities),
        cmocka_unit_test(test_splat),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_cycles),
        cmocka_unit_test(test_function_bomb),
        cmocka_unit_test(test_damaged_seed),
        cmocka_unit_test(test_erfc),
        cmocka_unit_test(test_sign_bits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
