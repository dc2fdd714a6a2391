/* SPDX-License-Identifier: Apache-2.0 */
/* Text from strangers, words that are nearly right, and how names end. */
#include <string.h>

#include "kernels/base/text.h"
#include "tests/unit/test.h"

/* Examples of RFC 3629 and one of every fault it names. */
TEST(test_utf8)
{
    static const struct {
        const char *text;
        size_t length;
        uint32_t code;
    } row[] = {
        {"A", 1, 'A'},
        {"\xc3\xa9", 2, 0xe9},
        {"\xe2\x89\xa2", 3, 0x2262},
        {"\xf0\xa3\x8e\xb4", 4, 0x233b4},
        {"\xf4\x8f\xbf\xbf", 4, 0x10ffff},
        {"\xc0\x80", 0, 0},         /* overlong */
        {"\xe0\x80\xaf", 0, 0},     /* overlong */
        {"\xed\xa0\x80", 0, 0},     /* a surrogate */
        {"\xf4\x90\x80\x80", 0, 0}, /* beyond the last */
        {"\xe2\x89", 0, 0},         /* cut short */
        {"\xc3(", 0, 0},
        {"\x80", 0, 0},
        {"\xff", 0, 0},
    };
    uint32_t code;

    for (size_t i = 0; i < COUNT(row); i++) {
        const size_t bytes = strlen(row[i].text);

        code = 0;
        assert_int_equal(text_utf8(row[i].text, bytes, &code), row[i].length);
        if (row[i].length > 0)
            assert_int_equal(code, row[i].code);
        assert_int_equal(text_is_utf8(row[i].text, bytes), row[i].length > 0);
    }
    assert_int_equal(text_utf8("", 1, &code), 1);
    assert_int_equal(code, 0);
    assert_true(text_is_utf8("", 0));
}

TEST(test_escape)
{
    char out[64], small[8];

    assert_int_equal(text_escape(out, sizeof(out), "a\nb"), 3);
    assert_string_equal(out, "a\nb");
    text_escape(out, sizeof(out), "\x1b[2J\xc3\xa9\xff");
    assert_string_equal(out, "\\x1B[2J\xc3\xa9\\xFF");
    /* The mark that writes what follows from right to left. */
    text_escape(out, sizeof(out), "a\xe2\x80\xae");
    assert_null(strstr(out, "\xe2\x80\xae"));
    /* Lines of a message: its format's, or those of a report handed on. */
    text_escape_message(out, sizeof(out), "%s: absent", "a\nb: absent");
    assert_string_equal(out, "a\\x0Ab: absent");
    text_escape_message(out, sizeof(out), "%s", "a\nb");
    assert_string_equal(out, "a\nb");
    text_escape_message(out, sizeof(out), "%d\n%d", "1\n2");
    assert_string_equal(out, "1\n2");
    /* A piece that does not fit whole is left out. */
    assert_int_equal(text_escape(small, sizeof(small), "abcde\xff"), 5);
    assert_string_equal(small, "abcde");
}

TEST(test_distance)
{
    char a[101], b[101];

    assert_int_equal(text_distance("", ""), 0);
    assert_int_equal(text_distance("", "abc"), 3);
    assert_int_equal(text_distance("kitten", "sitting"), 3);
    assert_int_equal(text_distance("sitting", "kitten"), 3);
    /* What comes behind 63 letters does not count. */
    memset(a, 'x', 100);
    memset(b, 'x', 100);
    a[100] = b[100] = '\0';
    b[70] = 'y';
    assert_int_equal(text_distance(a, b), 0);
}

TEST(test_ends)
{
    assert_true(text_begins("cuda:0", "cuda"));
    assert_true(text_begins("cuda", ""));
    assert_false(text_begins("cud", "cuda"));
    assert_true(text_ends("a.npy", ".npy"));
    assert_true(text_ends(".npy", ".npy"));
    assert_false(text_ends("npy", ".npy"));
    assert_false(text_ends("a.npy.gz", ".npy"));
    assert_true(text_part_ends("a.npy.gz", 5, ".npy"));
    assert_false(text_part_ends("a.npy", 3, ".npy"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_utf8),
        cmocka_unit_test(test_escape),
        cmocka_unit_test(test_distance),
        cmocka_unit_test(test_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
