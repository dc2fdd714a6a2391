/* SPDX-License-Identifier: Apache-2.0 */
/* torch.export's archives: programs of PyTorch with their outputs, programs
 * written by hand, and damaged ones. */
#include "config.h"

#include "tests/unit/weights/formats_help.h"
#include "tests/unit/weights/keras_run.h"
#include "weights/aten/aten.h"

extern const struct weights_format weights_format_export;

#define DATA SOURCE_DIR "/tests/data/torch/"

/* ---- PyTorch's own ------------------------------------------------- */

static double difference_of(const char *name)
{
    struct weights_options options;
    struct weights_import program, io;
    struct infer_error err = {0};
    char path[512];
    double difference;

    weights_options_init(&options);
    weights_import_init(&program);
    weights_import_init(&io);
    snprintf(path, sizeof path, DATA "%s.npz", name);
    if (weights_read(path, &options, &err, &io) < 0)
        fail_msg("%s", err.text);
    snprintf(path, sizeof path, DATA "%s.pt2", name);
    if (weights_read(path, &options, &err, &program) < 0)
        fail_msg("%s", err.text);
    assert_string_equal(program.format, "pt2");
    difference = run_graph(program.graph, &io.dict);
    weights_import_clear(&program);
    weights_import_clear(&io);
    return difference;
}

TEST(test_pictures)
{
    assert_true(difference_of("pictures") <= 1e-5);
    assert_true(difference_of("pictures_core") <= 1e-5);
}

TEST(test_rows)
{
    assert_true(difference_of("rows") <= 1e-5);
    assert_true(difference_of("rows_core") <= 1e-5);
}

TEST(test_sequences)
{
    assert_true(difference_of("sequences") <= 1e-5);
}

TEST(test_functions)
{
    assert_true(difference_of("functions") <= 1e-5);
    assert_true(difference_of("functions_core") <= 1e-5);
}

TEST(test_cells)
{
    assert_true(difference_of("cells") <= 1e-5);
    assert_true(difference_of("cells_core") <= 1e-5);
}

/* The table is searched by halves. */
TEST(test_table_is_sorted)
{
    static const char *const names[] = {
#define ATEN_OP(name, parameters, view, function, onnx, param) name,
#include "weights/aten/ops.def"
#undef ATEN_OP
    };

    for (size_t i = 1; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i - 1], names[i]) >= 0)
            fail_msg("%s stands before %s", names[i - 1], names[i]);
}

/* ---- written by hand ----------------------------------------------- */

#define TENSOR(name)     "{\"as_tensor\":{\"name\":\"" name "\"}}"
#define ARG(name, value) "{\"name\":\"" name "\",\"arg\":" value "}"
#define NODE(op, args, out)                                                    \
    "{\"target\":\"torch.ops.aten." op "\",\"inputs\":[" args                  \
    "],\"outputs\":[" TENSOR(out) "],\"metadata\":{}}"
#define META(sizes)                                                            \
    "{\"dtype\":7,\"sizes\":[" sizes "],\"strides\":[{\"as_int\":4},"          \
    "{\"as_int\":1}],\"storage_offset\":{\"as_int\":0}}"
#define MODEL(nodes, output)                                                   \
    "{\"graph_module\":{\"graph\":{\"nodes\":[" nodes                          \
    "],\"tensor_values\":{\"x\":" META(                                        \
        "{\"as_expr\":{\"expr_str\":\"s0\"}},"                                 \
        "{\"as_int\":4}") "}},"                                                \
                          "\"signature\":{\"input_specs\":[{\"parameter\":{"   \
                          "\"arg\":{\"name\":\"p\"},"                          \
                          "\"parameter_name\":\"w\"}},{\"user_input\":{"       \
                          "\"arg\":" TENSOR(                                   \
                              "x") "}}],\"output_specs\":[{\"user_output\":{"  \
                                   "\"arg\":" TENSOR(output) "}}]}},"          \
                                                             "\"torch_"        \
                                                             "version\":\"2."  \
                                                             "9\"}"
#define CONFIG(tensors) "{\"config\":{" tensors "}}"
#define WEIGHT(sizes)                                                          \
    "\"w\":{\"path_name\":\"weight_0\",\"use_pickle\":false,\"tensor_"         \
    "meta\":" META(sizes) "}"
#define PLAIN "{\"as_int\":3},{\"as_int\":4}"

static const float values[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

static void make_archive(struct zipmaker *z, const char *model,
                         const char *config)
{
    zipmaker_add(z, "n/archive_format", "pt2", 3);
    zipmaker_add(z, "n/models/model.json", model, strlen(model));
    zipmaker_add(z, "n/data/weights/model_weights_config.json", config,
                 strlen(config));
    zipmaker_add(z, "n/data/weights/weight_0", values, sizeof values);
    zipmaker_end(z);
}

static void refused(const char *model, const char *config, const char *word)
{
    struct zipmaker z = {0};

    make_archive(&z, model, config);
    help_refused(&weights_format_export, z.file.data, z.file.bytes, word);
    zipmaker_clear(&z);
}

/* y = f(x) of two rows, by a program over x (N x 4) and w (3 x 4). */
static void gives(const char *model, int64_t n, const float *expected)
{
    const int64_t two[2] = {2, 4}, out[2] = {2, n};
    struct weights_import import;
    struct weights_dict io;
    struct constant *x = constant_new(INFER_F32, 2, two);
    struct constant *y = constant_new(INFER_F32, 2, out);
    struct zipmaker z = {0};
    struct infer_error err;

    assert_true(x && y);
    memcpy(x->data, values, x->bytes);
    memcpy(y->data, expected, y->bytes);
    weights_dict_init(&io);
    assert_int_equal(weights_dict_add(&io, "input0", x, &err), 0);
    assert_int_equal(weights_dict_add(&io, "output0", y, &err), 0);
    make_archive(&z, model, CONFIG(WEIGHT(PLAIN)));
    if (help_read(&weights_format_export, z.file.data, z.file.bytes, &err,
                  &import) < 0)
        fail_msg("%s", err.text);
    assert_true(run_graph(import.graph, &io) <= 1e-6);
    weights_import_clear(&import);
    weights_dict_clear(&io);
    zipmaker_clear(&z);
}

#define LINEAR                                                                 \
    NODE("linear.default",                                                     \
         ARG("input", TENSOR("x")) "," ARG("weight", TENSOR("p")), "y")
#define ADD(to, by, out)                                                       \
    NODE("add_.Tensor",                                                        \
         ARG("self", TENSOR(to)) "," ARG("other", "{\"as_int\":" by "}"), out)
#define SLICE(of, out)                                                         \
    NODE("slice.Tensor",                                                       \
         ARG("self", TENSOR(of)) "," ARG("dim", "{\"as_int\":1}") "," ARG(     \
             "start", "{\"as_int\":1}") "," ARG("end", "{\"as_int\":3}"),      \
         out)
#define COPY(of, out) NODE("clone.default", ARG("self", TENSOR(of)), out)

TEST(test_linear)
{
    static const float y[6] = {30, 70, 110, 70, 174, 278};

    gives(MODEL(LINEAR, "y"), 3, y);
}

#define ONE(op, of, out) NODE(op, ARG("self", TENSOR(of)), out)
#define TWO(op, a, b, out)                                                     \
    NODE(op, ARG("self", TENSOR(a)) "," ARG("other", TENSOR(b)), out)
/* 'low' is log 0, and 'high' its opposite. */
#define INFINITIES                                                             \
    TWO("sub.Tensor", "x", "x", "zero")                                        \
    "," ONE("log.default", "zero", "low") "," ONE("neg.default", "low", "high")

/* Of two infinities of one sign the sum is that one: exp(-inf) is 0. */
TEST(test_sums_of_infinities)
{
    static const float zeros[8] = {0};
    static const char *const models[] = {
        MODEL(INFINITIES "," TWO("logaddexp.default", "low", "low",
                                 "s") "," ONE("exp.default", "s", "y"),
              "y"),
        MODEL(INFINITIES "," TWO("logaddexp2.default", "low", "low",
                                 "s") "," ONE("exp.default", "s", "y"),
              "y"),
        MODEL(INFINITIES
              "," TWO("logaddexp.default", "high", "high", "s") "," ONE(
                  "neg.default", "s", "t") "," ONE("exp.default", "t", "y"),
              "y"),
        MODEL(INFINITIES
              "," TWO("logaddexp2.default", "high", "high", "s") "," ONE(
                  "neg.default", "s", "t") "," ONE("exp.default", "t", "y"),
              "y"),
    };

    for (size_t i = 0; i < COUNT(models); i++)
        gives(models[i], 4, zeros);
}

/* A write is seen under every name that reaches the memory. */
TEST(test_writes)
{
    static const float all[6] = {40, 80, 120, 80, 184, 288};
    static const float part[6] = {30, 80, 120, 70, 184, 288};

    gives(MODEL(LINEAR "," ADD("y", "10", "z"), "y"), 3, all);
    gives(MODEL(LINEAR "," ADD("y", "3", "z") "," ADD("y", "7", "u"), "z"), 3,
          all);
    gives(MODEL(LINEAR "," SLICE("y", "s") "," ADD("s", "10", "t"), "y"), 3,
          part);
    /* A copy has memory of its own. */
    gives(MODEL(LINEAR "," COPY("y", "c") "," ADD("c", "5",
                                                  "t") "," ADD("y", "10", "z"),
                "y"),
          3, all);
    /* Another view, which nobody has computed anew. */
    refused(MODEL(LINEAR "," SLICE("y", "s") "," ADD("y", "10",
                                                     "z") "," COPY("s", "t"),
                  "t"),
            CONFIG(WEIGHT(PLAIN)), "'s' was changed in place");
}

/* Who reads what a refused node would have written is refused, too: the node
 * is not left out as dead. */
TEST(test_refused_writes)
{
    refused(MODEL(LINEAR
                  "," NODE("no_such_.default", ARG("self", TENSOR("y")), "z"),
                  "y"),
            CONFIG(WEIGHT(PLAIN)), "no_such_ z: it is not supported");
    refused(MODEL(LINEAR "," SLICE("y", "s") "," NODE(
                      "no_such_.default", ARG("self", TENSOR("s")), "z"),
                  "y"),
            CONFIG(WEIGHT(PLAIN)), "no_such_ z: it is not supported");
}

/* ---- refused ------------------------------------------------------- */

TEST(test_refused)
{
    static const char *const good = CONFIG(WEIGHT(PLAIN));

    refused("{", good, "model.json");
    refused("{}", good, "no graph_module");
    refused(MODEL(NODE("no_such.default", ARG("self", TENSOR("x")), "y"), "y"),
            good, "no_such y: it is not supported");
    refused(MODEL(NODE("relu.default", ARG("self", TENSOR("q")), "y"), "y"),
            good, "'q'");
    refused(MODEL(NODE("relu.default", "", "y"), "y"), good,
            "argument 'self' is missing");
    refused(
        MODEL(NODE("relu.default", ARG("self", "{\"as_string\":\"a\"}"), "y"),
              "y"),
        good, "argument 'self' is no tensor");
    refused(MODEL(NODE("relu.default", ARG("self", "3"), "y"), "y"), good,
            "an argument is malformed");
    refused(MODEL(NODE("pad.default",
                       ARG("self", TENSOR("x")) "," ARG(
                           "pad", "{\"as_ints\":[-9223372036854775808,0]}"),
                       "y"),
                  "y"),
            good, "paddings of -9223372036854775808 and 0");
    refused(MODEL(NODE("roll.default",
                       ARG("self", TENSOR("x")) "," ARG(
                           "shifts", "{\"as_ints\":[-9223372036854775808]"
                                     "}") "," ARG("dims", "{\"as_ints\":[1]}"),
                       "y"),
                  "y"),
            good, "a shift of -9223372036854775808");
    refused(MODEL(NODE("repeat.default",
                       ARG("self", TENSOR("x")) "," ARG(
                           "repeats", "{\"as_ints\":[0,9007199254740992]}"),
                       "y"),
                  "y"),
            good, "an output of unknown or impossible size");
    refused(
        MODEL(
            NODE("scaled_dot_product_attention.default",
                 ARG("query", TENSOR("x")) "," ARG("key", TENSOR("x")) "," ARG(
                     "value", TENSOR("x")) "," ARG("dropout_p",
                                                   "{\"as_float\":0.5}"),
                 "y"),
            "y"),
        good, "attention with dropout");
    refused(MODEL(NODE("einsum.default",
                       ARG("equation", "{\"as_string\":\"\"}") "," ARG(
                           "tensors", "{\"as_tensors\":[{\"name\":\"x\"}]}"),
                       "y"),
                  "y"),
            good, "labels");
    refused(MODEL(LINEAR, "nothing"), good, "'nothing'");
    refused(MODEL(LINEAR "," LINEAR, "y"), good, "'y'");
    refused(MODEL(NODE("dropout.default",
                       ARG("input", TENSOR("x")) "," ARG("train",
                                                         "{\"as_bool\":true}"),
                       "y"),
                  "y"),
            good, "training mode");
}

TEST(test_bad_tensors)
{
    static const char *const model = MODEL(LINEAR, "y");

    refused(model, CONFIG(""), "'p'");
    refused(model, CONFIG(WEIGHT("{\"as_int\":4},{\"as_int\":4}")),
            "tensor 'w': it reaches beyond its storage");
    refused(model, CONFIG(WEIGHT("{\"as_int\":-3},{\"as_int\":4}")),
            "tensor 'w': its shape is malformed");
    refused(model, CONFIG(WEIGHT("{\"as_int\":4}")),
            "tensor 'w': its shape is malformed");
    refused(model,
            CONFIG(WEIGHT("{\"as_int\":9007199254740991},"
                          "{\"as_int\":9007199254740991}")),
            "tensor 'w': it reaches beyond its storage");
    refused(model,
            "{\"config\":{\"w\":{\"path_name\":\"../w\",\"tensor_meta\":{"
            "\"dtype\":7,\"sizes\":[],\"strides\":[],\"storage_offset\":"
            "{\"as_int\":0}}}}}",
            "no member 'data/weights/../w'");
    refused(model,
            "{\"config\":{\"w\":{\"path_name\":\"weight_0\",\"tensor_meta\":{"
            "\"dtype\":10,\"sizes\":[],\"strides\":[],\"storage_offset\":"
            "{\"as_int\":0}}}}}",
            "tensor 'w' has PyTorch's type 10");
}

/* Compiled packages and files of older versions are named as such. */
TEST(test_other_archives)
{
    struct zipmaker z = {0};

    zipmaker_add(&z, "archive_format", "pt2", 3);
    zipmaker_add(&z, "data/aotinductor/model/a.so", "x", 1);
    zipmaker_end(&z);
    help_refused(&weights_format_export, z.file.data, z.file.bytes,
                 "compiled code");
    zipmaker_clear(&z);
}

/* Every prefix is refused. */
TEST(test_truncated)
{
    struct zipmaker z = {0};

    make_archive(&z, MODEL(LINEAR, "y"), CONFIG(WEIGHT(PLAIN)));
    help_truncate(&weights_format_export, z.file.data, z.file.bytes);
    zipmaker_clear(&z);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pictures),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_sequences),
        cmocka_unit_test(test_functions),
        cmocka_unit_test(test_cells),
        cmocka_unit_test(test_table_is_sorted),
        cmocka_unit_test(test_linear),
        cmocka_unit_test(test_sums_of_infinities),
        cmocka_unit_test(test_writes),
        cmocka_unit_test(test_refused_writes),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_bad_tensors),
        cmocka_unit_test(test_other_archives),
        cmocka_unit_test(test_truncated),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
