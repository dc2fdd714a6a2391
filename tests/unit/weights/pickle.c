/* SPDX-License-Identifier: Apache-2.0 */
/* The pickle machine: what it builds, and what it must refuse. */
#include "tests/unit/weights/formats_help.h"
#include "weights/pytorch/pickle.h"

/* A stream with NULs in it: its text and its length. */
#define S(text) (text), sizeof(text) - 1

static int try_stream(const char *data, size_t bytes, struct infer_error *err)
{
    struct blob *blob = help_blob(data, bytes); /* exact bounds for ASan */
    struct pickle pickle;
    int rc = pickle_read(blob->data, bytes, err, &pickle);

    if (rc == 0)
        pickle_clear(&pickle);
    blob_unref(blob);
    return rc;
}

static void refused(const char *data, size_t bytes, const char *word)
{
    struct infer_error err;

    if (try_stream(data, bytes, &err) >= 0)
        fail_msg("accepted, but '%s' was expected", word);
    if (!strstr(err.text, word))
        fail_msg("'%s' was expected in: %s", word, err.text);
}

static struct pickle *read_stream(const char *data, size_t bytes)
{
    static struct pickle pickle;
    struct infer_error err;

    if (pickle_read((const unsigned char *)data, bytes, &err, &pickle) < 0)
        fail_msg("%s", err.text);
    return &pickle;
}

static const struct pickle_node *root(const struct pickle *p)
{
    return pickle_at(p, p->root);
}

/* ---- values -------------------------------------------------------- */

TEST(test_integers)
{
    static const struct {
        const char *stream;
        size_t bytes;
        int64_t value;
    } cases[] = {
        {S("\x80\2K\xff."), 255},
        {S("\x80\2M\xff\xff."), 65535},
        {S("\x80\2J\xff\xff\xff\xff."), -1},
        {S("\x80\2\x8a\0."), 0},
        {S("\x80\2\x8a\1\xff."), -1},
        {S("\x80\2\x8a\2\xff\0."), 255},
        {S("\x80\2\x8a\10\0\0\0\0\0\0\0\x80."), INT64_MIN},
        {S("\x80\2\x8b\2\0\0\0\0\x80."), -32768},
        {S("I-12\n."), -12},
        {S("I01\n."), 1}, /* True */
        {S("L9223372036854775807L\n."), INT64_MAX},
        {S("L-9223372036854775808L\n."), INT64_MIN},
    };
    size_t i;

    for (i = 0; i < COUNT(cases); i++) {
        struct pickle *p = read_stream(cases[i].stream, cases[i].bytes);

        assert_true(root(p)->kind == PICKLE_INT ||
                    root(p)->kind == PICKLE_BOOL);
        assert_true(root(p)->u.integer == cases[i].value);
        assert_int_equal(p->used, cases[i].bytes);
        pickle_clear(p);
    }
    struct pickle *p = read_stream(S("L9223372036854775808\n."));
    assert_int_equal(root(p)->kind, PICKLE_BIGINT);
    pickle_clear(p);
    p = read_stream(S("\x80\2\x8a\11\1\2\3\4\5\6\7\10\11."));
    assert_int_equal(root(p)->kind, PICKLE_BIGINT);
    pickle_clear(p);
}

TEST(test_text)
{
    static const struct {
        const char *stream;
        size_t bytes;
        const char *value;
    } cases[] = {
        {S("\x80\2X\3\0\0\0abc."), "abc"},
        {S("\x80\4\x8c\3"
           "abc."),
         "abc"},
        {S("\x80\4\x8d\3\0\0\0\0\0\0\0abc."), "abc"},
        {S("\x80\2U\3abc."), "abc"},
        {S("S'a\\x62\\143\\n'\n."), "abc\n"},
        {S("S\"it's\"\n."), "it's"},
        {S("Va\\u00e4\\U0001F600\xe4\n."), "a\xc3\xa4\xf0\x9f\x98\x80\xc3\xa4"},
    };
    size_t i;

    for (i = 0; i < COUNT(cases); i++) {
        struct pickle *p = read_stream(cases[i].stream, cases[i].bytes);

        assert_true(pickle_is(root(p), cases[i].value));
        pickle_clear(p);
    }
    struct pickle *p = read_stream(S("\x80\2U\1\xff.")); /* bytes of Python 2 */
    assert_int_equal(root(p)->kind, PICKLE_BYTES);
    pickle_clear(p);
    p = read_stream(S("G?\xf8\0\0\0\0\0\0."));
    assert_true(root(p)->u.number == 1.5);
    pickle_clear(p);
    p = read_stream(S("F-1.5e3\n."));
    assert_true(root(p)->u.number == -1500.0);
    pickle_clear(p);
}

TEST(test_containers)
{
    struct pickle *p;

    p = read_stream(S("\x80\2}q\0(X\1\0\0\0aK\1X\1\0\0\0bK\2u."));
    assert_int_equal(root(p)->kind, PICKLE_DICT);
    assert_int_equal(root(p)->count, 4);
    assert_int_equal(
        pickle_at(p, (uint32_t)pickle_find(p, root(p), "b"))->u.integer, 2);
    assert_int_equal(pickle_find(p, root(p), "c"), -1);
    pickle_clear(p);
    p = read_stream(S("(lp0\nI1\naI2\na."));
    assert_int_equal(root(p)->kind, PICKLE_LIST);
    assert_int_equal(root(p)->count, 2);
    pickle_clear(p);
    p = read_stream(S("\x80\4\x8f\x94(K\1K\2K\3\x90."));
    assert_int_equal(root(p)->kind, PICKLE_SET);
    assert_int_equal(root(p)->count, 3);
    pickle_clear(p);
    p = read_stream(S("\x80\2ccollections\nOrderedDict\n)RX\1\0\0\0aK\1s}b."));
    assert_int_equal(root(p)->kind, PICKLE_DICT);
    assert_int_equal(root(p)->count, 2);
    pickle_clear(p);
}

/* Python 2: OrderedDict([['a', 1]]) */
TEST(test_pairs)
{
    struct pickle *p =
        read_stream(S("\x80\2ccollections\nOrderedDict\n](](U\1aK\1ee\x85R."));

    assert_int_equal(root(p)->kind, PICKLE_DICT);
    assert_int_equal(
        pickle_at(p, (uint32_t)pickle_find(p, root(p), "a"))->u.integer, 1);
    pickle_clear(p);
}

TEST(test_tensor)
{
    struct pickle *p = read_stream(
        S("\x80\2ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storage"
          "ctorch\nFloatStorage\nX\1\0\0\0000X\3\0\0\0cpuK\6tQK\0K\2K\3\x86"
          "K\3K\1\x86\x89"
          "ccollections\nOrderedDict\n)RtR."));
    const struct pickle_node *storage;

    assert_int_equal(root(p)->kind, PICKLE_TENSOR);
    storage = pickle_at(p, root(p)->u.item[PICKLE_TENSOR_STORAGE]);
    assert_int_equal(storage->kind, PICKLE_STORAGE);
    assert_int_equal(storage->dtype, INFER_F32);
    assert_true(
        pickle_is(pickle_at(p, storage->u.item[PICKLE_STORAGE_KEY]), "0"));
    assert_int_equal(pickle_at(p, root(p)->u.item[PICKLE_TENSOR_SIZE])->count,
                     2);
    pickle_clear(p);
}

/* ---- names --------------------------------------------------------- */

TEST(test_names)
{
    struct infer_error err;

    refused(S("\x80\2cos\nsystem\nX\2\0\0\0ls\x85R."), "os.system");
    refused(S("cposix\nsystem\n(S'ls'\ntR."), "posix.system");
    refused(S("\x80\2cbuiltins\neval\n."), "builtins.eval");
    refused(S("\x80\2c__builtin__\ngetattr\n."), "getattr");
    refused(S("\x80\2cbuiltins\n__import__\n."), "__import__");
    refused(S("\x80\2csubprocess\nPopen\n."), "subprocess.Popen");
    refused(S("\x80\2ctorch._utils\0x\n_rebuild_tensor_v2\n."), "loads");
    refused(S("\x80\2ctorch._utils.x\n_rebuild_tensor_v2\n."), "loads");
    refused(S("\x80\2ctorch.storage\n_load_from_bytes\n."), "_load_from_bytes");
    refused(S("\x80\4\x8c\2os\x8c\6system\x93."), "os.system");
    /* Known by the memo, and computed. */
    refused(S("\x80\4\x8c\2os\x94\x8c\6system\x94h\0h\1\x93."), "os.system");
    refused(S("\x80\4]\x8c\6system\x93."), "not written as text");
    refused(S("\x80\4]\x94h\0\x8c\6system\x93."), "not written as text");
    refused(S("\x80\4\x8c\2osN0\x8c\6system\x93."), "not written as text");
    /* Everything is named at once, though the end is garbage. */
    assert_int_equal(try_stream(S("\x80\2ca\nb\ncc\nd\nca\nb\n\xff\xff"), &err),
                     INFER_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "a.b"));
    assert_non_null(strstr(err.text, "c.d"));
    assert_null(strstr(strstr(err.text, "a.b") + 3, "a.b"));
}

TEST(test_forbidden)
{
    refused(S("(ios\nsystem\n."), "opcode 0x69");
    refused(S("\x80\2(ccollections\nOrderedDict\no."), "opcode 0x6f");
    refused(S("\x80\4)\x92."), "opcode 0x92");
    refused(S("\x80\2\x82\1."), "opcode 0x82");
    refused(S("\x80\2\x83\1\0."), "opcode 0x83");
    refused(S("\x80\2\x84\1\0\0\0."), "opcode 0x84");
    refused(S("\x80\5\x97."), "opcode 0x97");
    refused(S("\x80\5\x98."), "opcode 0x98");
    refused(S("Pabc\n."), "opcode 0x50");
    refused(S("\x80\2\xfe."), "unknown opcode");
}

TEST(test_calls)
{
    refused(S("\x80\2K\1)R."), "no name");
    refused(S("\x80\2ctorch\nFloatStorage\n)R."), "it would call");
    refused(S("\x80\2ctorch\nfloat32\n)R."), "it would call");
    refused(S("\x80\2cbuiltins\nint\n)R."), "it would call");
    refused(S("\x80\2ctorch\nTensor\n)\x81."), "object of a class");
    refused(S("\x80\2K\1)\x81."), "object of a class");
    refused(S("\x80\2]}b."), "takes none");
    refused(S("\x80\2K\1}b."), "takes none");
    refused(S("\x80\2c_codecs\nencode\nX\1\0\0\0aX\3\0\0\0hex\x86R."), "hex");
    refused(S("\x80\2c_codecs\nencode\nX\3\0\0\0\xe2\x82\xac"
              "X\6\0\0\0latin1\x86R."),
            "arguments");
    refused(S("\x80\2ctorch._utils\n_rebuild_tensor_v2\n)R."), "arguments");
    refused(S("\x80\2ctorch._utils\n_rebuild_parameter\n(K\1\x89NtR."),
            "arguments");
    refused(S("\x80\2K\1Q."), "arguments");
    refused(S("\x80\2X\7\0\0\0storage\x85Q."), "arguments");
    refused(
        S("\x80\2(X\7\0\0\0storageX\1\0\0\0xX\1\0\0\0000X\3\0\0\0cpuK\1tQ."),
        "a storage");
    refused(S("\x80\2(X\7\0\0\0storagectorch\nfloat32\nX\1\0\0\0000X\3\0\0\0cp"
              "uK\1tQ."),
            "a storage");
    refused(S("\x80\2(X\7\0\0\0storagectorch\nFloatStorage\nK\0X\3\0\0\0cp"
              "uK\1tQ."),
            "a storage");
    refused(S("\x80\2(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0000X\3\0"
              "\0\0cpuJ\xff\xff\xff\xfftQ."),
            "a storage");
    refused(S("\x80\2(X\6\0\0\0modulectorch\nTensor\nX\1\0\0\0aX\1\0\0\0btQ."),
            "outside the pickle");
}

/* ---- the machine --------------------------------------------------- */

/* Every opcode that takes something off an empty stack, or one with a mark. */
TEST(test_underflow)
{
    static const char takers[] = "01Q2RbadelstuRh\x81\x85\x86\x87\x90\x91\x93"
                                 "\x94qrgjp";
    char stream[8];
    size_t i;

    for (i = 0; i < sizeof takers - 1; i++) {
        struct infer_error err;

        snprintf(stream, sizeof stream, "%c", takers[i]);
        memcpy(stream + 1, "\1\0\0\0.", 5);
        assert_true(try_stream(stream, 6, &err) < 0);
        stream[0] = '(';
        stream[1] = takers[i];
        memcpy(stream + 2, "\1\0\0\0.", 5);
        assert_true(try_stream(stream, 7, &err) < 0);
    }
    refused(S("\x80\2."), "other than one value");
    refused(S("\x80\2NN."), "other than one value");
    refused(S("\x80\2N(."), "other than one value");
    refused(S("\x80\2(."), "other than one value");
    refused(S("\x80\2N(K\1R."), "too few");
}

TEST(test_targets)
{
    refused(S("\x80\2]K\1K\2s."), "cannot hold");
    refused(S("\x80\2](K\1K\2u."), "cannot hold");
    refused(S("\x80\2)(K\1K\2u."), "cannot hold");
    refused(S("\x80\2}K\1a."), "cannot hold");
    refused(S("\x80\2}(K\1e."), "cannot hold");
    refused(S("\x80\2N(K\1e."), "cannot hold");
    refused(S("\x80\2}(K\1u."), "without a value");
    refused(S("\x80\2(K\1d."), "without a value");
    refused(S("\x80\2(e."), "too few");
}

TEST(test_framing)
{
    refused(S(""), "no STOP");
    refused(S("\x80\2N"), "no STOP");
    refused(S("\x80\6N."), "protocol 6");
    refused(S("\x80\2N\x80\2."), "second header");
    refused(S("\x80\2X\5\0\0\0ab."), "cut short");
    refused(S("\x80\2X\xff\xff\xff\xff."), "cut short");
    refused(S("\x80\4\x8d\0\0\0\0\0\0\0\x80."), "cut short");
    refused(S("\x80\4\x8e\xff\xff\xff\xff\xff\xff\xff\xff."), "cut short");
    refused(S("\x80\2\x8b\xff\xff\xff\xff."), "cut short");
    refused(S("\x80\2\x8b\xff\xff\xff\x7f."), "cut short");
    refused(S("\x80\2T\xff\xff\xff\xff."), "cut short");
    refused(S("\x80\4\x95\xff\0\0\0\0\0\0\0N."), "longer than");
    refused(S("\x80\4\x95\xff\xff\xff\xff\xff\xff\xff\xffN."), "longer than");
    refused(S("\x80\4\x95\13\0\0\0\0\0\0\0\x95\1\0\0\0\0\0\0\0N."),
            "inside a frame");
    refused(S("\x80\4\x95\1\0\0\0\0\0\0\0K\1."), "in two");
    refused(S("I12"), "cut short");
    refused(S("I1x\n."), "malformed");
    refused(S("I\n."), "malformed");
    refused(S("F1,5\n."), "malformed");
    refused(S("F\n."), "malformed");
    refused(S("F0x10\n."), "malformed");
    refused(S("S'abc\n."), "malformed");
    refused(S("S'a\\xg0'\n."), "malformed");
    refused(S("Va\\u12\n."), "malformed");
    refused(S("Va\\ud800\n."), "malformed");
    refused(S("\x80\2X\1\0\0\0\xff."), "not UTF-8");
}

TEST(test_memo)
{
    struct pickle *p;

    refused(S("\x80\2h\0."), "memo");
    refused(S("\x80\2Nq\0h\1."), "memo");
    refused(S("\x80\2Nr\xff\xff\xff\xff."), "memo"); /* 4 G slots */
    refused(S("Np99999999999\n."), "memo");
    refused(S("Np-1\n."), "memo");
    refused(S("Np\n."), "memo");
    p = read_stream(S("\x80\2Nr\x00\x80\0\0."));
    assert_true(p->charged < 1 << 20);
    pickle_clear(p);
    p = read_stream(S("\x80\2]q\1h\1a.")); /* a list that holds itself */
    assert_int_equal(root(p)->count, 1);
    assert_int_equal(root(p)->u.item[0], p->root);
    pickle_clear(p);
}

/* Streams that are cheap to write and dear to build. */
TEST(test_bombs)
{
    size_t n = 1000000, i;
    char *stream = malloc(2 * n + 64);
    struct infer_error err;
    struct maker m = {0};

    assert_non_null(stream);
    /* ((((...)))), 300,000 deep; a million deep takes too much memory. */
    stream[0] = ')';
    memset(stream + 1, '\x85', n);
    stream[n + 1] = '.';
    assert_int_equal(try_stream(stream, n + 2, &err), INFER_EMEMORY);
    stream[300001] = '.';
    assert_int_equal(try_stream(stream, 300002, &err), 0);
    /* A million marks. */
    memset(stream, '(', n);
    stream[n] = '.';
    assert_true(try_stream(stream, n + 1, &err) < 0);
    /* A decimal integer of a million digits. */
    stream[0] = 'I';
    memset(stream + 1, '9', n);
    memcpy(stream + 1 + n, "\n.", 2);
    assert_true(try_stream(stream, n + 3, &err) < 0);
    free(stream);
    /* Each level copies the one before it twice: 2^60 items, were it not for
     * the budget. */
    maker_text(&m, "](K\1K\2K\3K\4eq");
    maker_int(&m, 0, 1);
    maker_text(&m, "0");
    for (i = 0; i < 60; i++) {
        maker_text(&m, "cbuiltins\nlist\nh");
        maker_int(&m, i, 1);
        maker_text(&m, "\x85Rq");
        maker_int(&m, i + 1, 1);
        maker_text(&m, "(h");
        maker_int(&m, i, 1);
        maker_text(&m, "h");
        maker_int(&m, i, 1);
        maker_text(&m, "e0");
    }
    maker_text(&m, "N.");
    assert_int_equal(try_stream((char *)m.data, m.bytes, &err), 0);
    m.bytes = 0;
    /* One list of 1,000 items, copied 100,000 times. */
    maker_text(&m, "](");
    for (i = 0; i < 1000; i++)
        maker_text(&m, "N");
    maker_text(&m, "eq");
    maker_int(&m, 0, 1);
    maker_text(&m, "0cbuiltins\nlist\nq");
    maker_int(&m, 1, 1);
    maker_text(&m, "0h");
    maker_int(&m, 0, 1);
    maker_text(&m, "\x85q");
    maker_int(&m, 2, 1);
    maker_text(&m, "0N");
    for (i = 0; i < 100000; i++) {
        maker_bytes(&m, "h\1h\2R0", 6);
    }
    maker_text(&m, ".");
    assert_int_equal(try_stream((char *)m.data, m.bytes, &err), INFER_EMEMORY);
    maker_clear(&m);
}

/* Damage of a stream that has a bit of everything. */
TEST(test_damage)
{
    static const char seed[] =
        "\x80\2}q\0(X\1\0\0\0aq\1ctorch._utils\n_rebuild_tensor_v2\nq\2((X\7\0"
        "\0\0storageq\3ctorch\nFloatStorage\nq\4X\1\0\0\0000q\5X\3\0\0\0cpuq"
        "\6K\6tq\7QK\0K\2K\3\x86q\10K\3K\1\x86q\11\x89"
        "ccollections\nOrderedDi"
        "ct\nq\12)Rq\13tq\14Rq\15X\1\0\0\0bq\16cnumpy.core.multiarray\nscalar"
        "\nq\17cnumpy\ndtype\nq\20X\2\0\0\0f8q\21K\0K\1\x87q\22Rq\23(K\3X\1\0"
        "\0\0<q\24NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tq\25bc_codecs\nen"
        "code\nq\26X\x0a\0\0\0\0\0\0\0\0\0\0\0\xc3\xb0q\27X\6\0\0\0latin1q"
        "\30\x86q\31Rq\32\x86q\33Rq\34u.";
    size_t bytes = sizeof seed - 1, i;
    struct infer_error err;
    char copy[sizeof seed];

    if (try_stream(seed, bytes, &err) < 0)
        fail_msg("%s", err.text);
    for (i = 0; i < bytes; i++)
        assert_true(try_stream(seed, i, &err) < 0);
    memcpy(copy, seed, sizeof copy);
    for (i = 0; i < bytes * 8; i++) {
        copy[i / 8] ^= (char)(1 << i % 8);
        try_stream(copy, bytes, &err);
        copy[i / 8] ^= (char)(1 << i % 8);
    }
    for (i = 0; i < bytes * 256; i++) { /* every byte, every value */
        copy[i / 256] = (char)(i % 256);
        try_stream(copy, bytes, &err);
        copy[i / 256] = seed[i / 256];
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers),   cmocka_unit_test(test_text),
        cmocka_unit_test(test_containers), cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_tensor),     cmocka_unit_test(test_names),
        cmocka_unit_test(test_forbidden),  cmocka_unit_test(test_calls),
        cmocka_unit_test(test_underflow),  cmocka_unit_test(test_targets),
        cmocka_unit_test(test_framing),    cmocka_unit_test(test_memo),
        cmocka_unit_test(test_bombs),      cmocka_unit_test(test_damage),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
