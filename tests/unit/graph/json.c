/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON layer: what RFC 8259 allows and what it does not, in the manner of
 * JSONTestSuite (y_, n_ and i_ files), and the limits that untrusted texts
 * meet. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/base/json.h"
#include "tests/unit/test.h"

static int parse(const char *text, size_t bytes, struct infer_error *err,
                 cJSON **out)
{
    /* A copy of exactly this size: reading past it is found. */
    char *copy = malloc(bytes > 0 ? bytes : 1);
    int status;

    assert_non_null(copy);
    memcpy(copy, text, bytes);
    status = json_parse(copy, bytes, false, err, out);
    free(copy);
    return status;
}

static void expect_ok(const char *text)
{
    struct infer_error err;
    cJSON *json = NULL;

    if (parse(text, strlen(text), &err, &json) < 0)
        fail_msg("refused: %.60s: %s", text, err.text);
    cJSON_Delete(json);
}

static void expect_refused(const char *text, size_t bytes)
{
    struct infer_error err;
    cJSON *json = NULL;
    int status = parse(text, bytes, &err, &json);

    if (status == 0) {
        cJSON_Delete(json);
        fail_msg("accepted: %.60s", text);
    }
    assert_int_equal(status, INFER_EFORMAT);
    assert_non_null(strstr(err.text, "JSON"));
    assert_null(json);
}

TEST(test_accepted)
{
    static const char *const texts[] = {
        "null",
        " true ",
        "\t\r\nfalse",
        "0",
        "-0",
        "-0.0",
        "1e5",
        "1E-5",
        "1.5e+300",
        "123456789012345678901234567890",
        "1e-400",
        "\"\"",
        "[]",
        "{}",
        "[ ]",
        "{ }",
        "[1,2 , 3]",
        "{\"a\":1,\"b\":{\"a\":2}}",
        "\"\\u00e9\\n\\t\\b\\f\\r\\/\\\\\\\"\"",
        "\"\\ud83d\\ude00\"",
        "\"\xf0\x9f\x98\x80\"",
        "\"\xef\xbf\xbf\"",
        "\"\x7f\"",
        "{\"\":0}",
        "[[],{},[[]]]",
        "\"\xe2\x80\xa8\"",
        "{\"a\":1,\"A\":2}",
    };
    size_t i;

    for (i = 0; i < COUNT(texts); i++)
        expect_ok(texts[i]);
}

TEST(test_refused)
{
    static const char *const texts[] = {
        "",
        " ",
        "[",
        "]",
        "{",
        "}",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "{\"a\":1,",
        "{\"a\":1,}",
        "{a:1}",
        "{'a':1}",
        "{\"a\" 1}",
        "{1:1}",
        "{\"a\":1 \"b\":2}",
        "[1}",
        "{\"a\":1]",
        "nul",
        "nulll",
        "True",
        "NULL",
        "undefined",
        "nan",
        "NaN",
        "Infinity",
        "-Infinity",
        "inf",
        "-",
        "+1",
        ".5",
        "1.",
        "1.e5",
        "1e",
        "1e+",
        "00",
        "01",
        "-01",
        "0x10",
        "1_000",
        "1e400",
        "-1e400",
        "- 1",
        "1 2",
        "\"",
        "\"a",
        "\"\\",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\\u0000\"",
        "\"a\nb\"",
        "\"\x01\"",
        "\"\\ud800\"",
        "\"\\ud800\\u0041\"",
        "\"\\udc00\"",
        "\"\\ud800x\"",
        "\"\x80\"",
        "\"\xc0\xaf\"",
        "\"\xc1\xbf\"",
        "\"\xe0\x80\xaf\"",
        "\"\xed\xa0\x80\"",
        "\"\xf4\x90\x80\x80\"",
        "\"\xf8\x88\x80\x80\x80\"",
        "\"\xe2\x82\"",
        "\xef\xbb\xbf{}",
        "\xff\xfe{\0}",
        "{}x",
        "[]]",
        "// c\n1",
        "/* c */1",
        "1 # c",
        "{\"a\":1,\"a\":1}",
        "{\"a\":1,\"\\u0061\":1}",
        "[{\"b\":{\"x\":1,\"y\":2,\"x\":3}}]",
        "\f1",
        ("\xc2\xa0"
         "1"),
        "[1]\x01",
    };
    size_t i;

    for (i = 0; i < COUNT(texts); i++)
        expect_refused(texts[i], strlen(texts[i]));
    expect_refused("[\0]", 3);
    expect_refused("\"a\0b\"", 5);
    expect_refused("1\0", 2);
}

/* Every beginning of a text that is no text itself. */
TEST(test_truncated)
{
    static const char text[] = "{\"a\":[1.5e3,true,null,\"\\u00e9\\ud83d\\ude00"
                               "\xc3\xa9\"],\"b\":{\"c\":[]}}";
    size_t i;

    for (i = 0; i < sizeof(text) - 1; i++)
        expect_refused(text, i);
    expect_ok(text);
}

TEST(test_values)
{
    static const char text[] =
        "{\"i\":-7,\"f\":0.5,\"s\":\"h\\u00e9\",\"t\":true,\"big\":1e17,"
        "\"exact\":9007199254740992,\"half\":1.5}";
    struct infer_error err;
    cJSON *json;
    int64_t n = 99;

    assert_int_equal(parse(text, strlen(text), &err, &json), 0);
    assert_true(json_int64(json_member(json, "i"), -7, 7, &n));
    assert_int_equal(n, -7);
    assert_false(json_int64(json_member(json, "i"), 0, 7, &n));
    assert_true(json_int64(json_member(json, "exact"), 0, INT64_MAX, &n));
    assert_int_equal(n, 9007199254740992);
    assert_false(json_int64(json_member(json, "big"), 0, INT64_MAX, &n));
    assert_false(json_int64(json_member(json, "half"), 0, 7, &n));
    assert_false(json_int64(json_member(json, "s"), 0, 7, &n));
    assert_false(json_int64(NULL, 0, 7, &n));
    assert_string_equal(json_string(json, "s"), "h\xc3\xa9");
    assert_null(json_string(json, "i"));
    assert_null(json_string(json, "none"));
    assert_true(json_bool(json, "t", false));
    assert_true(json_bool(json, "i", true));
    assert_true(json_double(json, "f", 1) == 0.5);
    assert_true(json_double(json, "s", 1) == 1);
    assert_null(json_member(json->child, "a"));
    cJSON_Delete(json);
}

TEST(test_python_nan)
{
    static const char text[] = "[NaN,Infinity,-Infinity,\"NaN -Infinity "
                               "\\\"NaN\\\"\",{\"I\":NaN}]";
    struct infer_error err;
    cJSON *json;

    assert_int_equal(json_parse(text, strlen(text), true, &err, &json), 0);
    assert_int_equal(cJSON_GetArraySize(json), 5);
    assert_true(cJSON_IsNull(json->child));
    assert_true(cJSON_IsNull(json->child->next));
    assert_true(cJSON_IsNull(json->child->next->next));
    assert_string_equal(json->child->next->next->next->valuestring,
                        "NaN -Infinity \"NaN\"");
    assert_true(cJSON_IsNull(json_member(json->child->prev, "I")));
    cJSON_Delete(json);
    assert_int_equal(json_parse("[nan]", 5, true, &err, &json), INFER_EFORMAT);
    assert_int_equal(json_parse("[-NaN]", 6, true, &err, &json), INFER_EFORMAT);
    assert_int_equal(json_parse(text, strlen(text), false, &err, &json),
                     INFER_EFORMAT);
}

/* n times open, then n times close. */
static char *nested(size_t n, const char *open, const char *close)
{
    size_t a = strlen(open), b = strlen(close), i;
    char *text = malloc(n * (a + b) + 2);

    assert_non_null(text);
    for (i = 0; i < n; i++)
        memcpy(text + i * a, open, a);
    text[n * a] = '1';
    for (i = 0; i < n; i++)
        memcpy(text + n * a + 1 + i * b, close, b);
    text[n * (a + b) + 1] = '\0';
    return text;
}

TEST(test_depth)
{
    static const size_t deep[] = {65, 1000, 100000, 10000000};
    char *text = nested(64, "[", "]");
    size_t i;

    expect_ok(text);
    free(text);
    text = nested(64, "{\"a\":", "}");
    expect_ok(text);
    free(text);
    for (i = 0; i < COUNT(deep); i++) {
        text = nested(deep[i], "[", "]");
        expect_refused(text, strlen(text));
        expect_refused(text, deep[i]);
        free(text);
        text = nested(deep[i], "{\"a\":", "}");
        expect_refused(text, strlen(text));
        free(text);
    }
}

TEST(test_long_number)
{
    char *text = malloc(1000001);

    assert_non_null(text);
    memset(text, '7', 1000000);
    text[63] = '\0';
    expect_ok(text);
    text[63] = '7';
    text[64] = '\0';
    expect_refused(text, 64);
    text[64] = '7';
    expect_refused(text, 1000000);
    free(text);
}

TEST(test_too_many_values)
{
    size_t values = 10000000, bytes = values * 2 + 1;
    char *text = malloc(bytes);
    struct infer_error err;
    cJSON *json;
    size_t i;

    assert_non_null(text);
    for (i = 0; i < values; i++)
        memcpy(text + 2 * i, ",0", 2);
    text[0] = '[';
    text[bytes - 1] = ']';
    assert_int_equal(json_parse(text, bytes, false, &err, &json),
                     INFER_EFORMAT);
    assert_non_null(strstr(err.text, "more values"));
    free(text);
}

/* An object of n members "kNNNNNN": 1; the last key may repeat the first. */
static char *object_of(int n, bool repeat)
{
    char *text = malloc((size_t)n * 16 + 16), *at = text;
    int i;

    assert_non_null(text);
    for (i = 0; i < n; i++)
        at += sprintf(at, "%c\"k%d\":1", i > 0 ? ',' : '{',
                      repeat && i == n - 1 ? 0 : i);
    strcpy(at, "}");
    return text;
}

static double seconds_to_parse(int members)
{
    char *text = object_of(members, false);
    struct timespec from, to;
    struct infer_error err;
    double best = 1e9;
    cJSON *json;
    int i;

    for (i = 0; i < 3; i++) {
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
        assert_int_equal(json_parse(text, strlen(text), false, &err, &json), 0);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
        cJSON_Delete(json);
        if ((double)(to.tv_sec - from.tv_sec) +
                1e-9 * (double)(to.tv_nsec - from.tv_nsec) <
            best)
            best = (double)(to.tv_sec - from.tv_sec) +
                   1e-9 * (double)(to.tv_nsec - from.tv_nsec);
    }
    free(text);
    return best;
}

TEST(test_duplicates)
{
    static const int sizes[] = {2, 8, 9, 100, 20000};
    struct infer_error err;
    cJSON *json;
    size_t i;

    for (i = 0; i < COUNT(sizes); i++) {
        char *text = object_of(sizes[i], false);

        expect_ok(text);
        free(text);
        text = object_of(sizes[i], true);
        assert_int_equal(json_parse(text, strlen(text), false, &err, &json),
                         INFER_EFORMAT);
        assert_non_null(strstr(err.text, "key 'k0' stands twice"));
        free(text);
    }
}

/* Quadratic work would take 256 times as long for 16 times the text; caches
 * and a busy machine get a factor of 4. */
TEST(test_linear_time)
{
    double small = seconds_to_parse(10000), large = seconds_to_parse(160000);

    if (large > 64 * small && large > 0.5)
        fail_msg("10,000 members: %g s, 160,000: %g s", small, large);
}

TEST(test_utf8)
{
    assert_true(json_is_utf8("", 0));
    assert_true(json_is_utf8("a\xc3\xa9", 3));
    assert_false(json_is_utf8("a\xc3\xa9", 2));
    assert_false(json_is_utf8("a\0b", 3));
    assert_false(json_is_utf8("\xed\xb0\x80", 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepted),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_python_nan),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_long_number),
        cmocka_unit_test(test_too_many_values),
        cmocka_unit_test(test_duplicates),
        cmocka_unit_test(test_linear_time),
        cmocka_unit_test(test_utf8),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
