/* SPDX-License-Identifier: Apache-2.0 */
/* Whole networks, as torch.save(network) writes them: the tensors of their
 * state_dict() are found, and nothing is called. */
#include "config.h"

#include "tests/unit/weights/pickle_writer.h"

#define LINEAR "ctorch.nn.modules.linear\nLinear\n"

/* An object of a class: its attributes follow, then put_built(). */
static void put_object(struct maker *m, const char *class)
{
    maker_text(m, class);
    maker_text(m, ")\x81}(");
}

static void put_built(struct maker *m)
{
    maker_text(m, "ub");
}

static void put_part(struct maker *m, const char *name)
{
    put_text(m, name);
    maker_text(m, "}(");
}

/* A layer with the weight, and a buffer of the same storage. */
static void put_layer(struct maker *m, const char *class, const char *hidden)
{
    put_object(m, class);
    put_part(m, "_parameters");
    put_text(m, "weight");
    put_tensor(m, &honest);
    put_text(m, "bias");
    maker_text(m, "Nu");
    put_part(m, "_buffers");
    put_text(m, "mean");
    put_tensor(m, &honest);
    maker_text(m, "u");
    put_text(m, "_non_persistent_buffers_set");
    maker_text(m, "c__builtin__\nset\n](");
    if (hidden)
        put_text(m, hidden);
    maker_text(m, "e\x85R");
    put_part(m, "_modules");
    maker_text(m, "u");
    put_text(m, "in_features");
    maker_text(m, "K\4");
    put_built(m);
}

/* A user's class with two layers, one of which is there under two names. */
static void put_network(struct maker *m, const char *hidden)
{
    put_object(m, "c__main__\nNet\n");
    put_part(m, "_parameters");
    maker_text(m, "u");
    put_part(m, "_buffers");
    maker_text(m, "u");
    put_part(m, "_modules");
    put_text(m, "one");
    put_layer(m, LINEAR, hidden);
    maker_text(m, "q\1");
    put_text(m, "two");
    maker_text(m, "h\1u");
    put_text(m, "activation");
    maker_text(m, "ctorch.nn.functional\nrelu\n");
    put_text(m, "order");
    maker_text(m, "ctimm.layers.format\nFormat\n");
    put_text(m, "NCHW");
    maker_text(m, "\x85R");
    put_built(m);
}

static int read_made(struct maker *m, struct infer_error *err,
                     struct weights_import *import)
{
    struct zipmaker z = {0};
    int rc;

    make_zip(&z, m, values, sizeof values);
    rc = help_read(PT, z.file.data, z.file.bytes, err, import);
    zipmaker_clear(&z);
    maker_clear(m);
    return rc;
}

static void names_are(const struct weights_import *import, size_t count,
                      const char *const *name)
{
    assert_int_equal(import->dict.count, count);
    for (size_t i = 0; i < count; i++)
        help_tensor(import, name[i], 2, honest.size);
}

TEST(test_names_of_state_dict)
{
    static const char *const all[] = {"one.weight", "one.mean", "two.weight",
                                      "two.mean"};
    static const char *const kept[] = {"one.weight", "two.weight"};
    struct weights_import import;
    struct infer_error err;
    struct maker m = {0};

    maker_text(&m, "\x80\2");
    put_network(&m, NULL);
    maker_text(&m, ".");
    assert_int_equal(read_made(&m, &err, &import), 0);
    names_are(&import, 4, all);
    weights_import_clear(&import);
    /* A buffer that state_dict() leaves out. */
    maker_text(&m, "\x80\2");
    put_network(&m, "mean");
    maker_text(&m, ".");
    assert_int_equal(read_made(&m, &err, &import), 0);
    names_are(&import, 2, kept);
    weights_import_clear(&import);
    /* In a checkpoint, as a class with its source. */
    maker_text(&m, "\x80\2}(");
    put_text(&m, "epoch");
    maker_text(&m, "K\3");
    put_text(&m, "model");
    maker_text(&m, "(");
    put_text(&m, "module");
    maker_text(&m, LINEAR);
    put_text(&m, "linear.py");
    put_text(&m, "class Linear");
    maker_text(&m, "tQ0");
    put_network(&m, "mean");
    maker_text(&m, "u.");
    assert_int_equal(read_made(&m, &err, &import), 0);
    names_are(&import, 2, kept);
    weights_import_clear(&import);
}

static void refused(const char *before, const char *after, const char *word)
{
    struct weights_import import;
    struct infer_error err;
    struct maker m = {0};
    int rc;

    maker_text(&m, "\x80\2(");
    maker_text(&m, before);
    put_network(&m, NULL);
    maker_text(&m, after);
    maker_text(&m, "t.");
    rc = read_made(&m, &err, &import);
    assert_true(rc == INFER_EUNSUPPORTED || rc == INFER_EFORMAT);
    if (!strstr(err.text, word))
        fail_msg("expected '%s': %s", word, err.text);
}

/* A network does not open the door to calls. */
TEST(test_nothing_is_called)
{
    refused("cos\nsystem\n\x8c\2ls\x85R", "", "call os.system()");
    refused("", "cos\nsystem\n\x8c\2ls\x85R", "call os.system()");
    refused("", "cbuiltins\neval\nK\1\x85R", "builtins.eval()");
    refused("", "c__main__\nNet\n)R", "call __main__.Net()");
    refused("", "csubprocess\nPopen\nK\1\x85\x81",
            "subprocess.Popen with arguments");
    refused("", "ctorch.nn.modules.x\ny\n)\x81K\1b", "state of an object");
    refused("", "ctorch.nn.modules.x\ny\n)\x81}b}b", "state of an object");
    refused("", "ctorch.nn.modules.x\n\xff\n)\x81", "not UTF-8");
    refused("", "(ios\nsystem\n", "opcode 0x69");
}

/* TorchScript keeps tensors and modules as attributes of one kind. */
static int read_script(bool tensors, struct infer_error *err,
                       struct weights_import *import)
{
    struct zipmaker z = {0};
    struct maker m = {0};
    int rc;

    maker_text(&m, "\x80\2");
    put_object(&m, "c__torch__.net\nNet\n");
    put_text(&m, "training");
    maker_text(&m, "\x89");
    put_text(&m, "sizes");
    maker_text(&m, "ctorch.jit._pickle\nbuild_intlist\n]K\1a\x85R");
    put_text(&m, "conv");
    put_object(&m, "c__torch__.torch.nn.modules.conv.___torch_mangle_0\n"
                   "Conv2d\n");
    if (tensors) {
        put_text(&m, "weight");
        put_tensor(&m, &honest);
    }
    put_built(&m);
    put_built(&m);
    maker_text(&m, ".");
    zipmaker_add(&z, "net/data.pkl", m.data, m.bytes);
    zipmaker_add(&z, "net/data/0", values, sizeof values);
    zipmaker_add(&z, "net/code/__torch__/net.py", "op_version_set = 1\n", 19);
    zipmaker_add(&z, "net/constants.pkl", "\x80\2).", 4);
    zipmaker_end(&z);
    rc = help_read(PT, z.file.data, z.file.bytes, err, import);
    zipmaker_clear(&z);
    maker_clear(&m);
    return rc;
}

TEST(test_script)
{
    static const char *const names[] = {"conv.weight"};
    struct weights_import import;
    struct infer_error err;

    assert_int_equal(read_script(true, &err, &import), 0);
    names_are(&import, 1, names);
    assert_non_null(strstr(import.detail, "TorchScript"));
    weights_import_clear(&import);
    /* One whose weights are in constants.pkl. */
    assert_int_equal(read_script(false, &err, &import), INFER_EFORMAT);
    assert_non_null(strstr(err.text, "TorchScript program"));
    weights_import_clear(&import);
}

/* A module that holds itself, and parts that are no dictionaries. */
TEST(test_odd_modules)
{
    struct weights_import import;
    struct infer_error err;
    struct maker m = {0};

    maker_text(&m, "\x80\2");
    maker_text(&m, LINEAR ")\x81q\1}(");
    put_part(&m, "_parameters");
    maker_text(&m, "u");
    put_part(&m, "_buffers");
    maker_text(&m, "u");
    put_part(&m, "_modules");
    put_text(&m, "a");
    maker_text(&m, "h\1uub.");
    assert_int_equal(read_made(&m, &err, &import), INFER_EFORMAT);
    assert_non_null(strstr(err.text, "nested"));
    maker_text(&m, "\x80\2" LINEAR ")\x81}(");
    put_text(&m, "_parameters");
    maker_text(&m, "K\1");
    put_part(&m, "_buffers");
    maker_text(&m, "u");
    put_part(&m, "_modules");
    maker_text(&m, "uub.");
    assert_int_equal(read_made(&m, &err, &import), INFER_EFORMAT);
    assert_non_null(strstr(err.text, "no tensor"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_of_state_dict),
        cmocka_unit_test(test_nothing_is_called),
        cmocka_unit_test(test_odd_modules),
        cmocka_unit_test(test_script),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
