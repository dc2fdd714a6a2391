/* SPDX-License-Identifier: Apache-2.0 */
/* Types of the inputs of TorchScript: what a trace recorded, what the user
 * states, and operators that depend on one that neither does. */
#include "config.h"

#include "tests/unit/weights/formats_help.h"
#include "tests/unit/weights/keras_run.h"
#include "weights/torchscript/script.h"

extern const struct weights_format weights_format_torchscript;

/* An object of __torch__.M without attributes. */
static const char object[] = "\x80\x02"
                             "c__torch__\nM\n)\x81}b.";

#define CLASS(inputs, body)                                                    \
    "class M(Module):\n  __parameters__ = []\n  __buffers__ = []\n"            \
    "  def forward(self: __torch__.M,\n    " inputs ") -> Tensor:\n" body

#define TENSOR(storage, key, sizes, strides)                                   \
    "ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\n" storage    \
    "Storage\nX\1\0\0\0" key "X\3\0\0\0cpuK\x08tQK\0(" sizes "t(" strides      \
    "t\x89"                                                                    \
    "ccollections\nOrderedDict\n)RtR"

/* {"forward": [...]}, as torch.jit.save() writes it. */
#define TRACED(tensors)                                                        \
    "\x80\x02"                                                                 \
    "ctorch.jit._pickle\nrestore_type_tag\n(}(X\7\0\0\0forward](" tensors      \
    "euX\4\0\0\0DicttR."

struct given {
    const char *traced; /* the pickle, or NULL */
    size_t bytes;
    struct weights_input_type type[2];
    int n_types;
    struct weights_input_shape shape[2];
    int n_shapes;
};

static int read_code(const char *code, const struct given *given,
                     struct infer_error *err, struct weights_import *out)
{
    struct weights_options options;
    struct zipmaker z = {0};
    struct weights_file file = {"memory", NULL};
    int rc;

    zipmaker_add(&z, "n/data.pkl", object, sizeof object - 1);
    zipmaker_add(&z, "n/constants.pkl", "\x80\2).", 4);
    zipmaker_add(&z, "n/code/__torch__.py", code, strlen(code));
    if (given->traced)
        zipmaker_add(&z, "n/traced_inputs.pkl", given->traced, given->bytes);
    zipmaker_end(&z);
    file.blob = help_blob(z.file.data, z.file.bytes);
    weights_options_init(&options);
    weights_import_init(out);
    options.input_count = given->n_shapes;
    options.input_shape = given->shape;
    options.input_type_count = given->n_types;
    options.input_type = given->type;
    err->text[0] = 0;
    rc = weights_format_torchscript.read(&file, &options, err, out);
    weights_file_close(&file);
    zipmaker_clear(&z);
    return rc;
}

static void refused(const char *code, const struct given *given,
                    const char *word)
{
    struct weights_import import;
    struct infer_error err;
    const int rc = read_code(code, given, &err, &import);

    weights_import_clear(&import);
    if (rc >= 0)
        fail_msg("%s: accepted, but '%s' was expected", code, word);
    if (!strstr(err.text, word))
        fail_msg("'%s' was expected in: %s", word, err.text);
}

/* The type that an input has. */
static enum infer_dtype type_of(const char *code, const struct given *given,
                                int input)
{
    struct weights_import import;
    struct infer_error err;
    enum infer_dtype dtype;

    if (read_code(code, given, &err, &import) < 0)
        fail_msg("%s: %s", code, err.text);
    dtype = import.graph->value[import.graph->input[input]].dtype;
    weights_import_clear(&import);
    return dtype;
}

static void add(struct weights_dict *io, const char *name,
                enum infer_dtype dtype, const int64_t *dim, const float *value)
{
    struct constant *c = constant_new(dtype, 2, dim);
    struct infer_error err;

    assert_non_null(c);
    for (int64_t i = 0; i < constant_count(c); i++)
        scalar_store(dtype, c->data, i, value[i]);
    assert_int_equal(weights_dict_add(io, name, c, &err), 0);
}

#define SHAPES .shape = {{"x", 2, {2, 4}}, {"m", 2, {2, 2}}}, .n_shapes = 2

static const char attention[] =
    CLASS("x: Tensor,\n    m: Tensor",
          "    return torch.scaled_dot_product_attention(x, x, x, m)\n");

/* Each row of the mask chooses one row, which is the result. */
static void attends(const struct given *given)
{
    static const int64_t x_dim[] = {2, 4}, m_dim[] = {2, 2};
    static const float x[] = {1, 2, 3, 4, 5, 6, 7, 8}, m[] = {0, 1, 1, 0};
    static const float y[] = {5, 6, 7, 8, 1, 2, 3, 4};
    struct weights_import import;
    struct weights_dict io;
    struct infer_error err;

    weights_dict_init(&io);
    add(&io, "input0", INFER_F32, x_dim, x);
    add(&io, "input1", INFER_BOOL, m_dim, m);
    add(&io, "output0", INFER_F32, x_dim, y);
    if (read_code(attention, given, &err, &import) < 0)
        fail_msg("%s", err.text);
    assert_true(run_graph(import.graph, &io) <= 1e-6);
    weights_import_clear(&import);
    weights_dict_clear(&io);
}

TEST(test_mask_of_attention)
{
    static const char traced[] =
        TRACED(TENSOR("Float", "0", "K\2K\4", "K\4K\1")
                   TENSOR("Bool", "1", "K\2K\2", "K\2K\1"));
    const struct given none = {SHAPES};
    const struct given truth = {
        .type = {{"m", INFER_BOOL}}, .n_types = 1, SHAPES};
    const struct given floats = {
        .type = {{"m", INFER_F32}}, .n_types = 1, SHAPES};
    const struct given trace = {.traced = traced, .bytes = sizeof traced - 1};
    const struct given wrong = {.traced = traced,
                                .bytes = sizeof traced - 1,
                                .type = {{NULL, INFER_F32}, {"m", INFER_F32}},
                                .n_types = 2};

    refused(attention, &none, "type of input 'm'");
    refused(attention, &none, "--input-type=m:BOOL");
    attends(&truth);
    assert_int_equal(type_of(attention, &floats, 1), INFER_F32);
    /* Types and sizes of the trace; the user cannot state others. */
    attends(&trace);
    refused(attention, &wrong, "input 'm' is of type BOOL by the file");
}

/* Another pickle beside the code is as none. */
TEST(test_traces_of_no_use)
{
    static const char *const other[] = {"\x80\x02}.", "\x80\x02N.", TRACED(""),
                                        "\x80\x02"
                                        "cos\nsystem\n.",
                                        "x"};

    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        const size_t bytes = i == 2 ? sizeof TRACED("") - 1 : strlen(other[i]);
        const struct given given = {.traced = other[i], .bytes = bytes, SHAPES};

        refused(attention, &given, "type of input 'm'");
    }
}

#define TWO "x: Tensor,\n    m: Tensor"

/* Where the type of m decides what an operator does. */
TEST(test_operators_that_depend_on_types)
{
    static const char *const rows[] = {
        "    return torch.mul(x, torch.bitwise_not(m))\n",
        "    return torch.mul(x, torch.__and__(m, torch.gt(x, 0)))\n",
        "    return torch.mul(x, torch.bitwise_or(torch.neg(m), 1))\n",
        "    return torch.index(x, [torch.view(m, [-1])])\n",
        "    return torch.add(m, torch.gt(x, 0))\n",
        "    return torch.matmul(torch.add(m, m), x)\n",
        "    y = torch.cat([m, m], 1)\n"
        "    return torch.scaled_dot_product_attention(x, x, x, "
        "torch.slice(y, 1, 0, 2))\n",
        "    y = torch.pad(m, [1, 0], \"constant\", 1.)\n"
        "    return torch.scaled_dot_product_attention(x, x, x, "
        "torch.slice(y, 1, 0, 2))\n",
        "    y = torch.full_like(m, 1.)\n"
        "    return torch.scaled_dot_product_attention(x, x, x, y)\n",
        "    return torch.mul(x, float(bool(ops.prim.dtype(m))))\n",
        "    if torch.__contains__([11, 0], ops.prim.dtype(m)):\n"
        "      y = x\n    else:\n      y = torch.neg(x)\n    return y\n",
        "    if torch.eq(torch.add(ops.prim.dtype(m), 0), 11):\n"
        "      y = x\n    else:\n      y = torch.neg(x)\n    return y\n",
        "    if torch.is_floating_point(m):\n      y = x\n    else:\n"
        "      y = torch.neg(x)\n    return y\n",
        "    if torch.ne(ops.prim.dtype(m), 11):\n      y = x\n    else:\n"
        "      y = torch.neg(x)\n    return y\n"};
    const struct given none = {SHAPES};
    char code[1024];

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(code, sizeof code, "%s%s", CLASS(TWO, ""), rows[i]);
        refused(code, &none, "input 'm'");
        refused(code, &none, "--input-type=m:");
    }
}

/* Where it makes no difference, or an operator tells it. */
TEST(test_operators_that_do_not)
{
    static const struct {
        const char *body;
        enum infer_dtype dtype;
    } rows[] = {
        {"    return torch.add(torch.matmul(m, x), x)\n", INFER_F32},
        {"    return torch.scaled_dot_product_attention(x, x, x, "
         "torch.mul(torch.rsub(m, 1), -10000.))\n",
         INFER_F32},
        {"    return torch.scaled_dot_product_attention(x, x, x, "
         "torch.to(m, 6))\n",
         INFER_F32},
        {"    return torch.scaled_dot_product_attention(x, x, x, "
         "torch.eq(m, 0))\n",
         INFER_F32},
        {"    return torch.masked_fill(torch.matmul(x, torch.t(x)), m, 0)\n",
         INFER_BOOL},
        {"    return torch.where(m, torch.matmul(x, torch.t(x)), 0.)\n",
         INFER_BOOL},
        {"    if torch.__not__(torch.is_floating_point(m)):\n"
         "      ops.prim.RaiseException(\"no\")\n    else:\n      pass\n"
         "    return torch.matmul(m, x)\n",
         INFER_F32}};
    const struct given none = {SHAPES};
    char code[1024];

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(code, sizeof code, "%s%s", CLASS(TWO, ""), rows[i].body);
        assert_int_equal(type_of(code, &none, 1), rows[i].dtype);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mask_of_attention),
        cmocka_unit_test(test_traces_of_no_use),
        cmocka_unit_test(test_operators_that_depend_on_types),
        cmocka_unit_test(test_operators_that_do_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
