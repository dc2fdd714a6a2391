/* SPDX-License-Identifier: Apache-2.0 */
/* TorchScript's archives: programs of PyTorch with their outputs, programs
 * written by hand, and damaged ones. */
#include "config.h"

#include "tests/unit/weights/formats_help.h"
#include "tests/unit/weights/keras_run.h"
#include "weights/torchscript/script.h"

extern const struct weights_format weights_format_torchscript;

#define DATA SOURCE_DIR "/tests/data/torch/"

/* ---- PyTorch's own ------------------------------------------------- */

/* shape: of the input; NULL: what the reader finds. */
static double difference_of(const char *name,
                            const struct weights_input_shape *shape)
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
    options.input_count = shape ? 1 : 0;
    options.input_shape = shape;
    snprintf(path, sizeof path, DATA "%s.pt", name);
    if (weights_read(path, &options, &err, &program) < 0)
        fail_msg("%s", err.text);
    assert_string_equal(program.format, "torchscript");
    difference = run_graph(program.graph, &io.dict);
    weights_import_clear(&program);
    weights_import_clear(&io);
    return difference;
}

TEST(test_programs)
{
    const struct weights_input_shape whole = {NULL, 4, {2, 3, 9, 8}};
    const struct weights_input_shape batch = {NULL, 4, {-1, 3, 9, 8}};

    assert_true(difference_of("traced", &whole) <= 1e-5);
    assert_true(difference_of("traced", &batch) <= 1e-5);
    assert_true(difference_of("scripted", &whole) <= 1e-5);
    assert_true(difference_of("scripted", &batch) <= 1e-5);
    assert_true(difference_of("frozen", &whole) <= 1e-5);
}

/* A convolution says how many channels the input has; the rest is free. */
TEST(test_shape_of_a_convolution)
{
    struct weights_options options;
    struct weights_import program;
    struct infer_error err = {0};
    const struct graph_value *x;

    assert_true(difference_of("frozen", NULL) <= 1e-5);
    weights_options_init(&options);
    assert_int_equal(weights_read(DATA "frozen.pt", &options, &err, &program),
                     0);
    x = &program.graph->value[program.graph->input[0]];
    assert_int_equal(x->rank, 4);
    assert_int_equal(x->dim[0], -1);
    assert_int_equal(x->dim[1], 3);
    assert_int_equal(x->dim[2], -1);
    weights_import_clear(&program);
}

/* Without a program, or where it is not wanted: the tensors. */
TEST(test_weights_alone)
{
    struct weights_options options;
    struct weights_import import;
    struct infer_error err = {0};

    weights_options_init(&options);
    options.bare = true;
    assert_int_equal(weights_read(DATA "scripted.pt", &options, &err, &import),
                     0);
    assert_null(import.graph);
    assert_non_null(weights_dict_find(&import.dict, "b.1.c.weight"));
    weights_import_clear(&import);
}

/* ---- written by hand ----------------------------------------------- */

/* An object of __torch__.M with the attributes k = 3 and list = [2, 5]. */
static const char object[] = "\x80\x02"
                             "c__torch__\nM\n)\x81}("
                             "X\x01\0\0\0kK\x03"
                             "X\x04\0\0\0list(K\x02K\x05l"
                             "ub.";

#define CLASS(body)                                                            \
    "class M(Module):\n  __parameters__ = []\n  __buffers__ = []\n  k : int\n" \
    "  list : List[int]\n"                                                     \
    "  def forward(self: __torch__.M,\n    x: Tensor) -> Tensor:\n" body

/* A tuple of one layer of XNNPACK: weights of 4 rows and columns, no bias,
 * outputs from -2 on.  Its storage is constants/0. */
static const char packed[] =
    "\x80\2(c__torch__.torch.classes.xnnpack\nLinearOpContext\n)\x81("
    "ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storage"
    "ctorch\nFloatStorage\nX\1\0\0\0"
    "0X\3\0\0\0cpuK\x10tQK\0"
    "(K\4K\4t(K\4K\1t\x89"
    "ccollections\nOrderedDict\n)RtR"
    "NG\xc0\0\0\0\0\0\0\0Ntbt.";

static void make_archive(struct zipmaker *z, const char *code)
{
    float w[16] = {0};

    for (int i = 0; i < 4; i++)
        w[5 * i] = 2;
    zipmaker_add(z, "n/data.pkl", object, sizeof object - 1);
    if (strstr(code, "prepacked")) {
        zipmaker_add(z, "n/constants.pkl", packed, sizeof packed - 1);
        zipmaker_add(z, "n/constants/0", (const char *)w, sizeof w);
    } else {
        zipmaker_add(z, "n/constants.pkl", "\x80\2).", 4);
    }
    zipmaker_add(z, "n/code/__torch__.py", code, strlen(code));
    zipmaker_end(z);
}

static int read_code(const char *code, int64_t rows, struct infer_error *err,
                     struct weights_import *out)
{
    const struct weights_input_shape shape = {NULL, 2, {rows, 4}};
    struct weights_options options;
    struct zipmaker z = {0};
    struct weights_file file = {"memory", NULL};
    int rc;

    make_archive(&z, code);
    file.blob = help_blob(z.file.data, z.file.bytes);
    weights_options_init(&options);
    weights_import_init(out);
    options.input_count = 1;
    options.input_shape = &shape;
    err->text[0] = 0;
    rc = weights_format_torchscript.read(&file, &options, err, out);
    weights_file_close(&file);
    zipmaker_clear(&z);
    return rc;
}

static void refused(const char *code, const char *word)
{
    struct weights_import import;
    struct infer_error err;
    const int rc = read_code(code, -1, &err, &import);

    weights_import_clear(&import);
    if (rc >= 0)
        fail_msg("%s: accepted, but '%s' was expected", code, word);
    if (!strstr(err.text, word))
        fail_msg("'%s' was expected in: %s", word, err.text);
}

/* The program computes factor * x + term, for a free batch as well. */
static void gives_from(const char *code, float factor, float term, int64_t rows)
{
    const int64_t two[2] = {2, 4};
    struct weights_import import;
    struct weights_dict io;
    struct constant *x = constant_new(INFER_F32, 2, two);
    struct constant *y = constant_new(INFER_F32, 2, two);
    struct infer_error err;

    assert_true(x && y);
    for (int i = 0; i < 8; i++) {
        ((float *)x->data)[i] = (float)(i - 3);
        ((float *)y->data)[i] = factor * (float)(i - 3) + term;
    }
    weights_dict_init(&io);
    assert_int_equal(weights_dict_add(&io, "input0", x, &err), 0);
    assert_int_equal(weights_dict_add(&io, "output0", y, &err), 0);
    if (read_code(code, rows, &err, &import) < 0)
        fail_msg("%s: %s", code, err.text);
    if (!(run_graph(import.graph, &io) <= 1e-6))
        fail_msg("%s: not %g", code, (double)term);
    weights_import_clear(&import);
    weights_dict_clear(&io);
}

static void gives(const char *code, float factor, float term)
{
    gives_from(code, factor, term, 2);
    gives_from(code, factor, term, -1);
}

TEST(test_statements)
{
    gives(CLASS("    return torch.mul(x, 2)\n"), 2, 0);
    gives("op_version_set = 1\n" CLASS("    return torch.mul(x, 2)\n"), 2, 0);
    gives(CLASS("    y, z, = [x, 3]\n    return torch.mul(y, z)\n"), 3, 0);
    gives(CLASS("    y, z = x, 3\n    return torch.add(y, z)\n"), 1, 3);
    gives(CLASS("    if torch.eq(torch.dim(x), 2):\n      y = torch.neg(x)\n"
                "    else:\n      y = x\n    return y\n"),
          -1, 0);
    gives(CLASS("    y = x\n    for i in range(3):\n"
                "      y = torch.add(y, i)\n    return y\n"),
          1, 3);
    gives(CLASS("    y = x\n    n = 0\n    go = True\n    while go:\n"
                "      y = torch.add(y, 1)\n      n0 = torch.add(n, 1)\n"
                "      go, n = torch.lt(n0, 4), n0\n    return y\n"),
          1, 4);
    /* An attribute of the file, and one that the program sets. */
    gives(CLASS("    self.k = torch.add(self.k, (self.list)[1])\n"
                "    return torch.add(x, self.k)\n"),
          1, 8);
    /* What raises is not taken where a condition is not known. */
    gives_from(CLASS("    if torch.eq(torch.size(x, 0), 2):\n      pass\n"
                     "    else:\n      ops.prim.RaiseException(\"no\")\n"
                     "    return x\n"),
               1, 0, -1);
    gives(CLASS("    y = torch.add_(x, 1)\n    z = torch.mul_(y, 2)\n"
                "    return x\n"),
          2, 2);
}

#define NO_GRAD     "__torch__.torch.autograd.grad_mode.no_grad"
#define AUTOCAST    "__torch__.torch.amp.autocast_mode.autocast"
#define MADE(class) "    c = " class ".__new__(" class ")\n"

/* Gradients are of no concern; another type of computing is. */
TEST(test_context_managers)
{
    gives(CLASS(MADE(NO_GRAD) "    with c:\n      y = torch.neg(x)\n"
                              "      z = torch.mul(y, 2)\n    return z\n"),
          -2, 0);
    gives(CLASS(MADE(NO_GRAD) "    with c:\n      return torch.neg(x)\n"), -1,
          0);
    gives(CLASS(MADE(AUTOCAST) "    c._enabled = False\n"
                               "    with c:\n      y = torch.neg(x)\n"
                               "    return y\n"),
          -1, 0);
    refused(CLASS(MADE(AUTOCAST) "    c._enabled = True\n"
                                 "    with c:\n      y = torch.neg(x)\n"
                                 "    return y\n"),
            ":10: 'with' of '" AUTOCAST "' is not supported");
    refused(CLASS(MADE(AUTOCAST) "    with c:\n      pass\n    return x\n"),
            ":9: 'with' of '" AUTOCAST "' is not supported");
}

/* What optimize_for_mobile() makes of a dense layer: 2 x, but not below -2. */
TEST(test_packed_layers)
{
    gives(CLASS("    y = ops.prepacked.linear_clamp_run(torch.relu(x), "
                "CONSTANTS.c0)\n"
                "    z = ops.prepacked.linear_clamp_run(torch.mul(x, -1), "
                "CONSTANTS.c0)\n"
                "    return torch.sub(torch.add(torch.mul(x, 2), y), "
                "torch.add(torch.mul(torch.relu(x), 2), "
                "torch.sub(z, torch.clamp(torch.mul(x, -2), -2))))\n"),
          2, 0);
    refused(CLASS("    return ops.prepacked.conv2d_clamp_run(x, "
                  "CONSTANTS.c0)\n"),
            "ops.prepacked.conv2d_clamp_run is not supported");
    refused(CLASS("    return ops.prepacked.linear_clamp_run(x, x)\n"),
            "ops.prepacked.linear_clamp_run is not supported");
}

/* x is -3 to 4 in two rows: how many a mask chooses is known at run time. */
TEST(test_masks)
{
#define INDEX_OF(mask) "annotate(List[Optional[Tensor]], [" mask "])"
#define ABOVE          INDEX_OF("torch.gt(x, 0)")
#define ROWS           INDEX_OF("torch.gt(torch.select(x, 1, 0), 0)")
    gives(CLASS("    return torch.add(x, torch.sum(torch.index(x, " ABOVE
                ")))\n"),
          1, 10);
    gives(
        CLASS("    return torch.add(x, torch.sum(torch.index(x, " ROWS ")))\n"),
        1, 10);
    gives(CLASS("    return torch.add(x, torch.sum(torch.nonzero("
                "torch.gt(x, 0))))\n"),
          1, 10);
    gives(CLASS("    return torch.add(x, torch.sum(torch.masked_select(x, "
                "torch.gt(x, 0))))\n"),
          1, 10);
    gives_from(CLASS("    y = torch.argsort(torch.index(x, " ABOVE
                     "), -1, True)\n"
                     "    return torch.add(x, torch.select(y, 0, 0))\n"),
               1, 3, 2);
    gives(CLASS("    y = torch.index_put_(x, " INDEX_OF(
              "torch.lt(x, 9)") ", "
                                "torch.full([1], 7.))\n    return x\n"),
          0, 7);
    gives(CLASS("    y = ops.torchvision.nms(x, torch.select(x, 1, 0), 0.5)\n"
                "    return torch.add(x, torch.select(y, 0, 0))\n"),
          1, 1);
    gives(CLASS("    y = torch.index(x, " ABOVE ")\n"
                "    n = torch.size(y, 0)\n"
                "    z = torch.pad(y, [0, torch.rsub(n, 9)])\n"
                "    return torch.add(x, torch.sum(torch.reshape(z, "
                "[3, 3])))\n"),
          1, 10);
    /* That number as a number. */
    refused(CLASS("    n = torch.size(torch.index(x, " ABOVE "), 0)\n"
                  "    return torch.slice(x, 0, 0, n)\n"),
            "how many entries a tensor has");
    refused(CLASS("    n = torch.size(torch.index(x, " ABOVE "), 0)\n"
                  "    return torch.mul(x, n)\n"),
            "how many entries a tensor has");
    refused(CLASS("    y = torch.index(x, " ABOVE ")\n"
                  "    n = torch.sub(torch.size(y, 0), 1)\n"
                  "    return torch.slice(y, 0, 0, n)\n"),
            "ends depends on the batch");
    refused(
        CLASS("    r = torch.select(x, 0, 0)\n"
              "    n = torch.size(torch.index(r, " INDEX_OF(
                  "torch.gt(r, 0)") "), 0)\n"
                                    "    y = torch.reshape(r, [1, 1, 4, 1])\n"
                                    "    z = torch.adaptive_avg_pool2d(y, [n, "
                                    "1])\n"
                                    "    return torch.mul(x, torch.sum(z))\n"),
        "a pool to a size that is computed");
    /* Bytes are a mask, too. */
    gives(CLASS("    y = torch.index(x, " INDEX_OF(
              "torch.to(torch.gt(x, 0), 0)") ")\n"
                                             "    return torch.add(x, "
                                             "torch.sum(y))\n"),
          1, 10);
    gives(CLASS("    y = torch.index_put_(x, " INDEX_OF(
              "torch.to(torch.lt(x, 9), 0)") ", "
                                             "torch.full([1], 7.))\n    return "
                                             "x\n"),
          0, 7);
#undef INDEX_OF
#undef ABOVE
#undef ROWS
}

/* Windows along an axis of free size: row 0, the mean of both, and row 1. */
TEST(test_pools_to_a_size)
{
#define PICTURE "    y = torch.unsqueeze(torch.unsqueeze(x, 0), 0)\n"
#define ENDS                                                                   \
    "    z = torch.slice(y, 2, 0, 9, 2)\n"                                     \
    "    return torch.squeeze(torch.squeeze(z, 0), 0)\n"
    gives(CLASS(PICTURE "    y = torch.adaptive_avg_pool2d(y, [3, 4])\n" ENDS),
          1, 0);
    gives(CLASS(PICTURE
                "    y = torch.adaptive_avg_pool2d(y, [3, 4])\n"
                "    z = torch.sub(torch.select(y, 2, 1), torch.select(y, 2, "
                "0))\n    return torch.add(x, torch.select(z, 1, 0))\n"),
          1, 2);
    gives(CLASS(PICTURE
                "    y, i, = torch.adaptive_max_pool2d(y, [3, 4])\n" ENDS),
          1, 0);
    gives(CLASS(PICTURE
                "    y, i, = torch.adaptive_max_pool2d(y, [3, 4])\n"
                "    z = torch.sub(torch.select(y, 2, 1), torch.select(y, 2, "
                "0))\n    return torch.add(x, torch.select(z, 1, 0))\n"),
          1, 4);
    /* Row 1 is infinite, which window 0 does not see. */
    gives(CLASS(PICTURE
                "    y = torch.exp(torch.mul(y, 1000))\n"
                "    p = torch.adaptive_avg_pool2d(y, [3, 4])\n"
                "    z = torch.sub(torch.select(p, 2, 0), torch.select(y, 2, "
                "0))\n    return torch.add(x, torch.select(z, 1, 0))\n"),
          1, 0);
#undef PICTURE
#undef ENDS
}

/* Enumerators are their values. */
TEST(test_enumerations)
{
#define COLOURS "class Colour(Enum):\n  RED = \"red\"\n  BLUE = \"blue\"\n"
    gives(COLOURS CLASS("    if torch.eq(__torch__.Colour.RED, \"red\"):\n"
                        "      y = torch.mul(x, 2)\n"
                        "    else:\n      y = x\n    return y\n"),
          2, 0);
    gives(COLOURS CLASS("    if torch.eq(__torch__.Colour.RED, "
                        "__torch__.Colour.BLUE):\n"
                        "      y = torch.mul(x, 2)\n"
                        "    else:\n      y = x\n    return y\n"),
          1, 0);
    refused(COLOURS CLASS("    if torch.eq(__torch__.Colour.PINK, 1):\n"
                          "      y = x\n    else:\n      y = x\n"
                          "    return y\n"),
            "no enumerator is named");
#undef COLOURS
}

TEST(test_values)
{
    /* -7 // 2 = -4, -7 % 3 = 2 */
    gives(CLASS("    return torch.add(x, torch.add(torch.floordiv(-7, 2), "
                "torch.remainder(-7, 3)))\n"),
          1, -2);
    gives(CLASS("    y = annotate(List[int], [])\n"
                "    _0 = torch.append(y, 4)\n    _1 = torch.append(y, 5)\n"
                "    return torch.add(x, (y)[-1])\n"),
          1, 5);
    gives(
        CLASS("    d = {\"a\": 1, \"b\": 7}\n    torch._set_item(d, \"a\", 2)\n"
              "    return torch.add(x, torch.mul(d[\"a\"], d[\"b\"]))\n"),
        1, 14);
    gives(CLASS("    y = torch.slice([1, 2, 3, 4], 1, 3)\n"
                "    return torch.add(x, torch.add((y)[0], torch.len(y)))\n"),
          1, 4);
    gives(CLASS("    return torch.mul(x, float(torch.size(x, 1)))\n"), 4, 0);
    gives(CLASS("    y = torch.view(x, [torch.size(x, 0), 2, 2])\n"
                "    return torch.view(y, [int(torch.size(y, 0)), -1])\n"),
          1, 0);
    /* A size that is free is an integer, too. */
    gives(CLASS("    if isinstance(torch.size(x, 0), int):\n"
                "      y = torch.mul(x, 2)\n    else:\n      y = x\n"
                "    return y\n"),
          2, 0);
    gives(CLASS("    a, b, = torch.chunk(x, 2, 1)\n"
                "    return torch.cat([a, b], 1)\n"),
          1, 0);
}

/* Lists, dictionaries and numbers of the language: `n` of each program is the
 * number behind it. */
TEST(test_containers)
{
    static const struct {
        const char *body;
        float n;
    } rows[] = {
        {"y = torch.slice([1, 2, 3, 4], 0, 4, 2)\n    n = (y)[1]", 3},
        {"y = torch.slice([1, 2, 3], 1, 3, 9223372036854775807)\n"
         "    n = torch.len(y)",
         1},
        {"y = torch.slice([1, 2, 3], -2)\n    n = (y)[0]", 2},
        {"y = torch.slice([1, 2, 3], 7, 9)\n    n = torch.len(y)", 0},
        {"y = torch.slice([1, 2, 3], None, None, -1)\n    n = (y)[0]", 3},
        {"y = torch.slice([1, 2, 3], None, None, -1)\n"
         "    n = torch.add(torch.mul(torch.len(y), 10), (y)[2])",
         31},
        {"y = torch.slice([1, 2, 3, 4, 5], -2, 0, -2)\n"
         "    n = torch.add(torch.mul(torch.len(y), 10), (y)[1])",
         22},
        {"y = torch.slice([1, 2, 3], 9, -9, -9223372036854775807)\n"
         "    n = torch.add(torch.mul(torch.len(y), 10), (y)[0])",
         13},
        {"y = torch.slice([1, 2, 3], 0, 2, -1)\n    n = torch.len(y)", 0},
        {"y = [1, 2]\n    _0 = torch.extend(y, y)\n    n = torch.sum(y)", 6},
        {"y = [1, 2]\n    _0 = torch.add_(y, [4])\n    n = torch.sum(y)", 7},
        {"y = [1, 3]\n    torch.insert(y, 1, 2)\n    n = (y)[1]", 2},
        {"y = [1, 3]\n    torch.insert(y, 9223372036854775807, 2)\n"
         "    n = (y)[2]",
         2},
        {"y = [1, 3]\n    torch.insert(y, -1, 2)\n    n = (y)[1]", 2},
        {"y = [1, 2, 3]\n    n = torch.pop(y)", 3},
        {"y = [1, 2, 3]\n    _0 = torch.pop(y, 0)\n    n = (y)[0]", 2},
        {"y = [1, 2, 3]\n    torch.reverse(y)\n    n = (y)[0]", 3},
        {"y = torch.list([1, 2])\n    n = torch.len(y)", 2},
        {"y = torch.copy([5, 2])\n    n = (y)[0]", 5},
        {"y = torch.mul([1, 2], 3)\n    n = torch.len(y)", 6},
        {"y = torch.mul(2, [1, 2])\n    n = torch.len(y)", 4},
        {"y = torch.add([1], [2, 3])\n    n = (y)[2]", 3},
        {"n = torch.max([1, 7, 3])", 7},
        {"n = torch.min([4, 2, 3])", 2},
        {"n = torch.max(3, 4)", 4},
        {"n = torch.min(3, 4)", 3},
        {"n = int(torch.__contains__([1, 2], 2))", 1},
        {"n = int(torch.__contains__([1, 2], 3))", 0},
        {"d = {1: 5, 2: 6}\n    n = (torch.keys(d))[1]", 2},
        {"d = {1: 5, 2: 6}\n    n = (torch.values(d))[1]", 6},
        {"d = {1: 5, 2: 6}\n    n = ((torch.items(d))[1])[1]", 6},
        {"d = {1: 5}\n    n = int(torch.__contains__(d, 1))", 1},
        {"d = {1: 5}\n    torch._set_item(d, 3, 4)\n    n = torch.len(d)", 2},
        {"y = [1, 2]\n    torch._set_item(y, -1, 9)\n    n = (y)[1]", 9},
        {"n = torch.__range_length(2, 9, 3)", 3},
        {"n = torch.__range_length(9, 2, -2)", 4},
        {"n = torch.__range_length(3, 3, 1)", 0},
        {"n = torch.__derive_index(2, 9, -2)", 5},
        {"n = torch.len(\"four\")", 4},
        {"n = torch.len(x)", 2},
        {"n = int(torch.all([True, False]))", 0},
        {"n = int(torch.any([True, False]))", 1},
        {"n = int(torch.eq([1, 2], [1, 2]))", 1},
        {"n = int(torch.ne([1, 2], [1, 3]))", 1},
        {"n = int(torch.eq(\"a\", \"b\"))", 0},
        {"n = int(torch.eq(None, 3))", 0},
        {"n = int(torch.__is__(None, None))", 1},
        {"n = int(torch.__isnot__(None, None))", 0},
        {"n = int(torch.__not__(False))", 1},
        {"n = int(torch.__and__(True, False))", 0},
        {"n = int(torch.__or__(True, False))", 1},
        {"n = int(torch.le(2, 2))", 1},
        {"n = int(torch.ge(1, 2))", 0},
        {"n = torch.pow(2, 5)", 32},
        {"n = torch.remainder(7, -3)", -2},
        {"n = torch.floordiv(7, -2)", -4},
        {"n = int(torch.div(7, 2))", 3},
        {"n = torch.floor(3.7)", 3},
        {"n = torch.ceil(3.2)", 4},
        {"n = int(torch.sqrt(16.))", 4},
        {"n = int(float(3))", 3},
        {"n = torch.numel(x)", 8},
        {"n = torch.dim(x)", 2},
        {"n = (torch.size(x))[1]", 4},
        {"n = torch.size(x, -1)", 4},
        {"n = int(torch.is_floating_point(x))", 1},
        {"n = int(torch.is_complex(x))", 0},
        {"n = int(torch.item(torch.tensor(3)))", 3},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[1024];

        snprintf(text, sizeof text,
                 CLASS("    %s\n    return torch.add(x, n)\n"), rows[i].body);
        gives_from(text, 1, rows[i].n, 2);
    }
}

TEST(test_containers_refused)
{
    static const struct {
        const char *body, *word;
    } rows[] = {
        {"y = torch.slice([1, 2], 0, 2, 0)", "a slice by steps of 0"},
        {"y = torch.slice([1, 2], torch.size(x, 0))", "depends on"},
        {"y = ([1, 2])[2]", "index 2 of 2 items"},
        {"y = ([1, 2])[-3]", "index -3 of 2 items"},
        {"y = torch.pop(annotate(List[int], []))", "index -1 of 0 items"},
        {"y = ({1: 2})[3]", "a dictionary has no such key"},
        {"torch._set_item([1], 1, 2)", "index 1 of 1 items"},
        {"y = torch.mul([1], 65537)", "more than 65536 items"},
        {"y = torch.remainder(1, 0)", "division by zero"},
        {"y = torch.neg(torch.sub(-9223372036854775807, 1))", "64 bits"},
        {"y = torch.mul(9223372036854775807, 2)", "64 bits"},
        {"y = torch.pow(10, 30)", "64 bits"},
        {"y = int(1e300)", "64 bits"},
        {"y = torch._unwrap_optional(None)", "None where a value is needed"},
        {"y = [1]\n    _0 = torch.append(y, y)\n    z = torch.eq(y, y)",
         "nested too deep"},
        {"y = [1]\n    _0 = torch.append(y, y)\n    z = torch.sum(y)",
         "too long or too deep"},
        {"y = [1]\n    _0 = torch.append(y, y)\n    z = torch.tensor(y)",
         "a list that is no tensor"},
        {"y = torch.size(x, 2)", "dimension 2"},
        {"y = (3)(x)", "a call of what is no name"},
        {"y = 3\n    z = y(x)", "a call of 'y'"},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[1024];

        snprintf(text, sizeof text, CLASS("    %s\n    return x\n"),
                 rows[i].body);
        refused(text, rows[i].word);
    }
}

/* Functions of the file, classes made by the program, and tuples with names. */
TEST(test_calls)
{
    gives("def twice(x: Tensor,\n    by: int=2) -> Tensor:\n"
          "  return torch.mul(x, by)\n" CLASS(
              "    f = __torch__.twice\n    return f(f(x, ), 5, )\n"),
          10, 0);
    gives("class T(NamedTuple):\n  a : Tensor\n  b : int\n" CLASS(
              "    t = __torch__.T(x, 6)\n"
              "    return torch.add((t)[0], (t)[1])\n"),
          1, 6);
    gives("class C:\n  v : int\n"
          "  def __init__(self: __torch__.C,\n    v: int) -> NoneType:\n"
          "    self.v = v\n    return None\n" CLASS(
              "    c = __torch__.C.__new__(__torch__.C)\n"
              "    _0 = (c).__init__(9, )\n"
              "    return torch.add(x, c.v)\n"),
          1, 9);
}

/* ---- refused ------------------------------------------------------- */

TEST(test_refused)
{
    refused("class M(Module):\n  pass\n", "no forward()");
    refused(CLASS("    return torch.no_such(x)\n"),
            "code/__torch__.py:8: torch.no_such: it is not supported");
    refused(CLASS("    return ops.mine.op(x)\n"),
            "code/__torch__.py:8: ops.mine.op is not supported");
    refused(CLASS("    return y\n"), ":8: nothing is named 'y'");
    refused(CLASS("    return self.z\n"), "has no attribute 'z'");
    refused(CLASS("    if bool(torch.gt(torch.sum(x), 0)):\n      pass\n"
                  "    else:\n      pass\n    return x\n"),
            ":8: a condition that depends on data");
    refused(CLASS("    if torch.gt(torch.size(x, 0), 1):\n      pass\n"
                  "    else:\n      pass\n    return x\n"),
            ":8: a condition that depends on a free size");
    refused(CLASS("    for i in range(torch.size(x, 0)):\n      pass\n"
                  "    return x\n"),
            ":8: a loop whose turns depend on a free size");
    refused(CLASS("    ops.prim.RaiseException(\"bad input\")\n"
                  "    return x\n"),
            ":8: the program raises 'bad input'");
    /* A text that is not known is equal to none. */
    refused(CLASS("    t = torch.format(\"{:x}\", 3)\n"
                  "    if torch.eq(t, \"3\"):\n      pass\n"
                  "    else:\n      pass\n    return x\n"),
            ":9: whether two such values are equal is not known");
    refused(CLASS("    return __torch__.nothing(x, )\n"),
            "the archive has no '__torch__.nothing'");
    refused(CLASS("    return CONSTANTS.c0\n"), "no constant 'c0'");
    refused(CLASS("    return torch.floordiv(1, 0)\n"), "division by zero");
    refused(CLASS("    return torch.add(9223372036854775807, 1)\n"),
            "beyond 64 bits");
    refused(CLASS("    return 3\n"), "an output that is no tensor");
    refused("class M(Module):\n  __forward_hooks__ = [\"h\", ]\n"
            "  def forward(self,\n    x: Tensor) -> Tensor:\n    return x\n",
            "hooks of the whole network");
    refused("class M(Module):\n  def forward(self,\n    x: Tensor,\n"
            "    n: int) -> Tensor:\n    return x\n",
            "input 'n' is no tensor");
}

/* Each at its line. */
TEST(test_syntax)
{
    refused(CLASS("    return torch.add(x, 1\n"), "code/__torch__.py:");
    refused(CLASS("    return x +\n"), ":8: a character");
    refused(CLASS("   return (x\n"), "code/__torch__.py:");
    refused(CLASS("    with x as y:\n      pass\n"), ":8: a ':' is missing");
    refused(CLASS("    with x:\n      pass\n"),
            ":8: 'with' of a value that is no object");
    refused(CLASS("    y = \"abc\n    return x\n"), ":8: a text has no end");
    refused(CLASS("    y = \"\\q\"\n    return x\n"), ":8: a text has");
    refused(CLASS("    y = 3j\n    return x\n"), ":8: complex numbers");
    refused(CLASS("    y = 99999999999999999999\n    return x\n"),
            ":8: a number is malformed");
    refused(CLASS("    3 = x\n    return x\n"), ":8: the target");
    refused(CLASS("    = x\n    return x\n"), ":8: an expression is missing");
    refused(CLASS("    for i in x:\n      pass\n    return x\n"),
            ":8: a loop over something other than range()");
    refused(CLASS("      y = x\n    return x\n"), "code/__torch__.py:");
    refused(CLASS("    return x\n   z = x\n"), "between two blocks");
    refused(CLASS("    y = ]\n"), "a bracket is closed");
}

/* Programs that would not end, or take all memory. */
TEST(test_limits)
{
    char *text = malloc(20000);
    size_t n;

    assert_non_null(text);
    refused(CLASS("    while True:\n      pass\n    return x\n"),
            "more than 1048576 steps");
    refused(CLASS("    for i in range(9000000000):\n      pass\n"
                  "    return x\n"),
            "steps");
    refused(CLASS("    return (self).forward(x, )\n"), "nested too deep");
    refused(CLASS("    y = torch.mul([1], 4611686018427387904)\n"
                  "    return x\n"),
            "a list of more than 65536 items");
    refused(CLASS("    y = [1]\n    while True:\n"
                  "      _0 = torch.append(y, y)\n    return x\n"),
            "65536 items");
    refused(CLASS("    while True:\n      y = torch.neg(x)\n    return x\n"),
            "more than 24576 operators");
    n = (size_t)sprintf(text, CLASS("    return "));
    memset(text + n, '(', 5000);
    strcpy(text + n + 5000, "x\n");
    refused(text, "nested too deep");
    for (size_t i = 0; i < 5000; i++)
        memcpy(text + n + 2 * i, ".a", 2);
    text[n] = 'x';
    strcpy(text + n + 10000, "\n");
    refused(text, "nested too deep");
    free(text);
}

/* A list of names that is searched again and again; more memory than the file
 * and 44 MiB. */
TEST(test_limits_of_names)
{
    enum { METHODS = 2000, ITEMS = 600000 };
    char *text = malloc(3 * ITEMS + 1000);
    size_t n;

    assert_non_null(text);
    n = (size_t)sprintf(text, CLASS("    for i in range(100000):\n"
                                    "      y = (self).g0(x, )\n"
                                    "    return x\n"));
    for (int i = 0; i < METHODS; i++)
        n += (size_t)sprintf(text + n,
                             "  def g%d(self: __torch__.M,\n"
                             "    x: Tensor) -> Tensor:\n    return x\n",
                             i);
    refused(text, "more than 1048576 steps");
    n = (size_t)sprintf(text, CLASS(""));
    for (int i = 0; i < ITEMS; i++)
        n += (size_t)sprintf(text + n, "%s%s", i % 1000 ? "1," : "    y = [",
                             i % 1000 == 999 ? "]\n" : "");
    strcpy(text + n, "    return x\n");
    refused(text, "its file");
    free(text);
}

/* An input whose shape nothing tells. */
TEST(test_shape_is_missing)
{
    struct zipmaker z = {0};

    make_archive(&z, CLASS("    return torch.mul(x, 2)\n"));
    help_refused(&weights_format_torchscript, z.file.data, z.file.bytes,
                 "does not state the shape of its input 'x'");
    zipmaker_clear(&z);
}

/* Every prefix is refused. */
TEST(test_truncated)
{
    struct zipmaker z = {0};

    make_archive(&z, CLASS("    return torch.mul(x, 2)\n"));
    help_truncate(&weights_format_torchscript, z.file.data, z.file.bytes);
    zipmaker_clear(&z);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_programs),
        cmocka_unit_test(test_shape_of_a_convolution),
        cmocka_unit_test(test_weights_alone),
        cmocka_unit_test(test_statements),
        cmocka_unit_test(test_context_managers),
        cmocka_unit_test(test_packed_layers),
        cmocka_unit_test(test_masks),
        cmocka_unit_test(test_pools_to_a_size),
        cmocka_unit_test(test_enumerations),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_containers),
        cmocka_unit_test(test_containers_refused),
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_syntax),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_limits_of_names),
        cmocka_unit_test(test_shape_is_missing),
        cmocka_unit_test(test_truncated),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
