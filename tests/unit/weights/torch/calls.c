/* SPDX-License-Identifier: Apache-2.0 */
/* The few calls that a pickle of weights may make: each argument is demanded,
 * in its place and of its kind. */
#include "tests/unit/weights/formats_help.h"
#include "weights/pytorch/pickle.h"

#define MOST_ARGS 8

/* Values, as text of the pickle protocol 0 where there is one. */
#define NONE    "N"
#define FALSE_  "\x89"
#define DICT    "}"
#define BYTES   "C\4abcd"
#define DTYPE   "cnumpy\ndtype\n(Vf4\n\x89\x88tR"
#define SIZE    "ctorch\nSize\n"
#define ORDERED "ccollections\nOrderedDict\n)R"
#define STORAGE "(Vstorage\nctorch\nFloatStorage\nV0\nVcpu\nI1\ntQ"
#define REBUILD "ctorch._utils\n_rebuild_tensor_v2\n"
#define TENSOR  REBUILD "(" STORAGE "I0\n(I1\nt(I1\nt" FALSE_ ORDERED "tR"
#define ARRAY                                                                  \
    "cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntC\1btR"

/* A call is `before`, the arguments between "(" and "t", and `after`. */
static const struct call {
    const char *before, *after;
    const char *word; /* of a refusal */
    const char *good[MOST_ARGS];
    /* Another value of each, which is refused; NULL: any will do. */
    const char *bad[MOST_ARGS], *worse[MOST_ARGS];
    int least, most; /* arguments */
} calls[] = {
    {REBUILD,
     "R",
     "a tensor",
     {STORAGE, "I0\n", "(I1\nt", "(I1\nt", FALSE_, ORDERED, DICT},
     {NONE, "I-1\n", NONE, NONE},
     {"I0\n", NONE, "(I-1\nt", "(Nt"},
     4,
     7},
    {"ctorch._utils\n_rebuild_tensor_v3\n",
     "R",
     "a tensor",
     {STORAGE, "I0\n", "(I1\nt", "(I1\nt", FALSE_, ORDERED, "ctorch\nfloat32\n",
      DICT},
     {NONE, "I-1\n", NONE, NONE, NULL, NULL, NONE},
     {"I0\n", NONE, "(I-1\nt", "(Nt", NULL, NULL, SIZE},
     7,
     8},
    {"ctorch._utils\n_rebuild_parameter_with_state\n",
     "R",
     "a parameter",
     {TENSOR, FALSE_, ORDERED, DICT},
     {NONE},
     {STORAGE},
     3,
     4},
    {"ctorch._tensor\n_rebuild_from_type_v2\n",
     "R",
     "a tensor",
     {REBUILD, "ctorch\nTensor\n",
      "(" STORAGE "I0\n(I1\nt(I1\nt" FALSE_ ORDERED "t", DICT},
     {NONE, NONE, NONE},
     {SIZE, "I0\n", "]"},
     4,
     4},
    {SIZE, "R", "a tuple", {"(I1\nt"}, {NONE}, {DICT}, 0, 1},
    {"cbuiltins\nset\n", "R", "a sequence", {"]"}, {NONE}, {DICT}, 0, 1},
    {"ccollections\nOrderedDict\n",
     "R",
     "a dictionary",
     {"((Va\nI1\ntt"},
     {"(I1\nt"},
     {"((I1\ntt"},
     0,
     1},
    {"ccollections\nCounter\n",
     "R",
     "a dictionary",
     {DICT},
     {"I1\n"},
     {"Va\n"},
     0,
     1},
    {"c_codecs\nencode\n",
     "R",
     "_codecs.encode",
     {"V\\u00e9a\n", "Vlatin1\n"},
     {NONE, NONE},
     {"V\\u0100\n", "Vutf8\n"},
     2,
     2},
    {"cbuiltins\nbytes\n",
     "R",
     "it cannot have",
     {BYTES},
     {NONE},
     {"I1\n"},
     0,
     1},
    {"ccopyreg\n_reconstructor\n",
     "R",
     "copyreg._reconstructor",
     {"cargparse\nNamespace\n", "cbuiltins\nobject\n", NONE},
     {NONE},
     {SIZE},
     3,
     3},
    {"ctorch.jit._pickle\nrestore_type_tag\n",
     "R",
     "restore_type_tag",
     {"]", "VList[int]\n"},
     {0},
     {0},
     2,
     2},
    {"cnumpy\ndtype\n",
     "R",
     "numpy.dtype",
     {"Vf4\n", FALSE_, FALSE_},
     {NONE},
     {"I4\n"},
     1,
     MOST_ARGS},
    {"cnumpy.core.multiarray\nscalar\n",
     "R",
     "a numpy scalar",
     {DTYPE, BYTES},
     {NONE},
     {"Vf4\n"},
     1,
     2},
    {"cnumpy._core.multiarray\n_reconstruct\n",
     "R",
     "a numpy array",
     {"cnumpy\nndarray\n", "(I0\nt", "C\1b"},
     {NONE},
     {SIZE},
     3,
     3},
    {"cnumpy.core.numeric\n_frombuffer\n",
     "R",
     "a numpy array",
     {BYTES, DTYPE, "(I1\nt", "VF\n"},
     {NONE, NONE, NONE, NONE},
     {"I1\n", "Vf4\n", "(I-1\nt", "VX\n"},
     4,
     4},
    {DTYPE,
     "b",
     "the state of a numpy.dtype",
     {"I3\n", "V<\n", NONE, NONE, NONE, "I-1\n", "I-1\n", "I0\n"},
     {NULL, NONE},
     {NULL, "I1\n"},
     5,
     MOST_ARGS},
    {ARRAY,
     "b",
     "the state of a numpy array",
     {"I1\n", "(I1\nt", DTYPE, FALSE_, BYTES},
     {NONE, NONE, NONE, NONE, NONE},
     {"Va\n", "(I-1\nt", "Vf4\n", "Va\n", "I1\n"},
     5,
     5},
    {"",
     "Q",
     "",
     {"Vstorage\n", "ctorch\nFloatStorage\n", "V0\n", "Vcpu\n", "I1\n",
      "(V1\nI0\nI1\nt"},
     {"Vother\n", NONE, NONE, NONE, "I-1\n", "I1\n"},
     {NONE, SIZE, "I0\n", "I0\n", NONE, "(I1\nI0\nI1\nt"},
     5,
     6},
    {"(Vstorage\nctorch\nFloatStorage\nV0\nVcpu\nI1\n",
     "tQ",
     "a view of a storage",
     {"V1\n", "I0\n", "I1\n"},
     {NONE, NONE, NONE},
     {"I1\n", "I-1\n", "I-1\n"},
     3,
     3},
};

struct stream {
    char data[2048];
    size_t bytes;
};

static void add(struct stream *s, const char *text)
{
    const size_t n = strlen(text);

    assert_true(s->bytes + n < sizeof s->data);
    memcpy(s->data + s->bytes, text, n);
    s->bytes += n;
}

/* The call with `count` of its arguments, more of None, the one at `changed` by
 * another value. */
static void make(struct stream *s, const struct call *c, int count, int changed,
                 const char *other)
{
    s->bytes = 0;
    add(s, "\x80\3");
    add(s, c->before);
    add(s, "(");
    for (int i = 0; i < count; i++)
        add(s, i == changed                          ? other
               : i < MOST_ARGS && c->good[i] != NULL ? c->good[i]
                                                     : NONE);
    add(s, "t");
    add(s, c->after);
    add(s, ".");
}

static int try_stream(const struct stream *s, struct infer_error *err)
{
    struct blob *blob = help_blob(s->data, s->bytes);
    struct pickle pickle;
    int rc = pickle_read(blob->data, s->bytes, err, &pickle);

    if (rc == 0)
        pickle_clear(&pickle);
    blob_unref(blob);
    return rc;
}

static void refused(const struct call *c, int count, int changed,
                    const char *other)
{
    struct infer_error err;
    struct stream s;

    make(&s, c, count, changed, other);
    if (try_stream(&s, &err) >= 0)
        fail_msg("%s: accepted with %d arguments, %d changed", c->word, count,
                 changed);
    if (!strstr(err.text, c->word))
        fail_msg("'%s' was expected in: %s", c->word, err.text);
}

TEST(test_calls)
{
    for (size_t i = 0; i < COUNT(calls); i++) {
        const struct call *c = &calls[i];
        struct infer_error err;
        struct stream s;

        for (int n = c->least; n <= c->most; n++) {
            make(&s, c, n, -1, NULL);
            if (try_stream(&s, &err) < 0)
                fail_msg("%s: %s", c->word, err.text);
        }
        if (c->least > 0)
            refused(c, c->least - 1, -1, NULL);
        if (c->most < MOST_ARGS)
            refused(c, c->most + 1, -1, NULL);
        for (int k = 0; k < MOST_ARGS; k++) {
            const int n = k < c->least ? c->least : k + 1;

            if (c->bad[k] != NULL)
                refused(c, n, k, c->bad[k]);
            if (c->worse[k] != NULL)
                refused(c, n, k, c->worse[k]);
        }
    }
}

/* What stands round the calls. */
TEST(test_objects)
{
    static const struct {
        const char *stream, *word; /* NULL: accepted */
    } cases[] = {
        {"c__torch__\nNet\n)\x81}b", NULL},
        {"c__torch__\nNet\n)\x81(}Ntb", NULL},
        {"c__torch__\nNet\n)\x81Nb", NULL},
        {"c__torch__\nNet\n)\x81I1\nb", "the state of an object"},
        {"c__torch__\nNet\n)\x81}b}b", "the state of an object"},
        {"c__torch__\nNet\n(I1\nt\x81", "with arguments"},
        {"c__torch__\nNet\n)R", "no weights need"},
        {"ctorch\nTensor\n)R", "no weights need"},
        {"cbuiltins\nint\n)\x81", "no weights need"},
        {"I1\n)R", "has no name"},
        {"ctorch\nSize\nI1\nR", "has no name"},
        {"I1\n}b", "takes none"},
        {TENSOR "I1\nb", "takes none"},
        {DTYPE "I1\nb", "takes none"},
        {ARRAY "}b", "takes none"},
        {ARRAY "(I1\n(I0\nt" DTYPE FALSE_ "]tb", NULL},
        {ARRAY "(I1\n(I1\nt" DTYPE FALSE_ BYTES
               "tb(I1\n(I1\nt" DTYPE FALSE_ BYTES "tb",
         "the state of a numpy array"},
        {REBUILD "(" STORAGE "I0\n(I1\nt(I1\nI1\ntNNtR",
         "1 sizes and 2 strides"},
        {REBUILD
         "(" STORAGE
         "I0\n(I1\nI1\nI1\nI1\nI1\nI1\nI1\nI1\nI1\nI1\nI1\nt(I1\nI1\nI1\nI1\n"
         "I1\nI1\nI1\nI1\nI1\nI1\nI1\ntNNtR",
         "rank 11"},
        {"(Vmodule\nc__torch__\nNet\nVfile\nVsource\ntQ", NULL},
        {"(Vmodule\nI1\nVfile\nVsource\ntQ", "outside the pickle"},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct infer_error err;
        struct stream s = {.bytes = 0};
        int rc;

        add(&s, "\x80\3");
        add(&s, cases[i].stream);
        add(&s, ".");
        rc = try_stream(&s, &err);
        if (rc < 0 && cases[i].word == NULL)
            fail_msg("%zu: %s", i, err.text);
        if (rc >= 0 && cases[i].word != NULL)
            fail_msg("%zu: accepted, but '%s' was expected", i, cases[i].word);
        if (rc < 0 && !strstr(err.text, cases[i].word))
            fail_msg("%zu: '%s' was expected in: %s", i, cases[i].word,
                     err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_calls),
                                       cmocka_unit_test(test_objects)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
