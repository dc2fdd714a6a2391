/* SPDX-License-Identifier: Apache-2.0 */
/* The protobuf reader: every wire type, and every way to malform one. */

#include "kernels/base/error.h"
#include "tests/unit/test.h"
#include "tests/unit/weights/protobuf_writer.h"
#include "weights/protobuf/protobuf.h"

/* First status below 1 while walking all fields; *fields counts them. */
static int walk(unsigned char *data, size_t size, int *fields,
                struct infer_error *err)
{
    struct pb_reader r;
    struct pb_field f;
    int status;

    error_clear(err);
    pb_open(&r, data, size);
    for (*fields = 0; (status = pb_next(&r, &f, err)) > 0; ++*fields)
        ;
    return status;
}

static void expect_bad(const void *bytes, size_t size, const char *text)
{
    unsigned char *copy = malloc(size + 1);
    struct infer_error err;
    int fields;

    assert_non_null(copy);
    memcpy(copy, bytes, size);
    assert_int_equal(walk(copy, size, &fields, &err), INFER_EFORMAT);
    if (!strstr(err.text, text))
        fail_msg("'%s' does not say '%s'", err.text, text);
    free(copy);
}
#define BAD(text, ...)                                                         \
    expect_bad((const unsigned char[]){__VA_ARGS__},                           \
               sizeof((const unsigned char[]){__VA_ARGS__}), text)

TEST(test_fields)
{
    struct pb_message m = {0};
    struct infer_error err;
    struct pb_reader r;
    struct pb_field f;

    pb_int(&m, 1, 300);
    pb_int(&m, 2, -1);
    pb_float(&m, 3, 1.0f);
    pb_tag(&m, 4, 1);
    pb_raw(&m, "\1\2\3\4\5\6\7\10", 8);
    pb_text(&m, 0x1fffffff, "abc");
    pb_open(&r, m.data, m.size);
    assert_int_equal(pb_next(&r, &f, &err), 1);
    assert_int_equal(f.number, 1);
    assert_int_equal(f.value, 300);
    assert_int_equal(pb_next(&r, &f, &err), 1);
    assert_true(f.value == UINT64_MAX);
    assert_int_equal(pb_next(&r, &f, &err), 1);
    assert_int_equal(f.wire, PB_FIXED32);
    assert_int_equal(f.value, 0x3f800000);
    assert_int_equal(pb_next(&r, &f, &err), 1);
    assert_true(f.value == UINT64_C(0x0807060504030201));
    assert_int_equal(pb_next(&r, &f, &err), 1);
    assert_int_equal(f.number, 0x1fffffff);
    assert_int_equal(f.span.bytes, 3);
    assert_memory_equal(f.span.data, "abc", 3);
    assert_int_equal(pb_next(&r, &f, &err), 0);
    pb_free(&m);
}

TEST(test_empty)
{
    struct infer_error err;
    int fields;

    assert_int_equal(walk((unsigned char *)"", 0, &fields, &err), 0);
    assert_int_equal(fields, 0);
}

TEST(test_varints)
{
    static unsigned char longest[] = {8,    0xff, 0xff, 0xff, 0xff, 0xff,
                                      0xff, 0xff, 0xff, 0xff, 1};
    static unsigned char padded[] = {8, 0x80, 0x80, 0};
    struct infer_error err;
    struct pb_reader r;
    struct pb_field f;

    pb_open(&r, longest, sizeof(longest));
    assert_int_equal(pb_next(&r, &f, &err), 1);
    assert_true(f.value == UINT64_MAX);
    /* a number may be spelled with more bytes than it needs */
    pb_open(&r, padded, sizeof(padded));
    assert_int_equal(pb_next(&r, &f, &err), 1);
    assert_int_equal(f.value, 0);
    BAD("number", 8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2);
    BAD("number", 8, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
        0);
    BAD("number", 8);
    BAD("number", 8, 0x80);
    BAD("tag", 0x80);
}

TEST(test_malformed)
{
    BAD("groups", 0x0b);
    BAD("groups", 0x0c);
    BAD("wire type", 0x0e, 0);
    BAD("wire type", 0x0f, 0);
    BAD("field number", 0x00, 0);
    BAD("field number", 0x80, 0x80, 0x80, 0x80, 0x10, 0);
    BAD("only 1", 0x0a, 2, 'x');
    BAD("length", 0x0a, 0x80);
    BAD("only 0", 0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        1);
    BAD("cut off", 0x0d, 1, 2, 3);
    BAD("cut off", 0x09, 1, 2, 3, 4, 5, 6, 7);
    BAD("byte 2", 8, 1, 0x0b); /* the offset of the fault */
}

TEST(test_packed)
{
    static unsigned char packed[] = {0x0a, 4, 1, 0xac, 2, 3};
    static unsigned char cut[] = {0x0a, 2, 1, 0x80};
    static unsigned char floats[] = {0x0a, 8, 0, 0, 128, 63, 0, 0, 0, 64};
    static unsigned char partial[] = {0x0a, 5, 0, 0, 128, 63, 0};
    struct infer_error err;
    struct pb_reader r;
    struct pb_field f;
    uint64_t v;
    size_t n, at = 0;

    pb_open(&r, packed, sizeof(packed));
    assert_int_equal(pb_next(&r, &f, &err), 1);
    assert_int_equal(pb_count(&r, &f, PB_VARINT, "x", &err, &n), 0);
    assert_int_equal(n, 3);
    assert_true(pb_item(&f, PB_VARINT, &at, &v) && v == 1);
    assert_true(pb_item(&f, PB_VARINT, &at, &v) && v == 300);
    assert_true(pb_item(&f, PB_VARINT, &at, &v) && v == 3);
    assert_false(pb_item(&f, PB_VARINT, &at, &v));
    pb_open(&r, cut, sizeof(cut));
    assert_int_equal(pb_next(&r, &f, &err), 1);
    assert_int_equal(pb_count(&r, &f, PB_VARINT, "x", &err, &n), INFER_EFORMAT);
    pb_open(&r, floats, sizeof(floats));
    assert_int_equal(pb_next(&r, &f, &err), 1);
    assert_int_equal(pb_count(&r, &f, PB_FIXED32, "x", &err, &n), 0);
    assert_int_equal(n, 2);
    pb_open(&r, partial, sizeof(partial));
    assert_int_equal(pb_next(&r, &f, &err), 1);
    assert_int_equal(pb_count(&r, &f, PB_FIXED32, "x", &err, &n),
                     INFER_EFORMAT);
}

/* Elements may also come one a field, and must then have their wire type. */
TEST(test_unpacked)
{
    struct pb_message m = {0};
    struct infer_error err;
    struct pb_reader r;
    struct pb_field f;
    uint64_t v;
    size_t n, at = 0;

    pb_int(&m, 1, 7);
    pb_open(&r, m.data, m.size);
    assert_int_equal(pb_next(&r, &f, &err), 1);
    assert_int_equal(pb_count(&r, &f, PB_VARINT, "x", &err, &n), 0);
    assert_int_equal(n, 1);
    assert_true(pb_item(&f, PB_VARINT, &at, &v) && v == 7);
    assert_false(pb_item(&f, PB_VARINT, &at, &v));
    assert_int_equal(pb_count(&r, &f, PB_FIXED32, "x", &err, &n),
                     INFER_EFORMAT);
    pb_free(&m);
}

TEST(test_depth)
{
    struct pb_message m = {0};
    struct infer_error err;
    struct pb_reader r, inner;
    struct pb_field f;
    int depth;

    for (depth = 0; depth < PB_MAX_DEPTH + 2; depth++) {
        struct pb_message outer = {0};

        pb_nested(&outer, 1, &m);
        m = outer;
    }
    pb_open(&r, m.data, m.size);
    for (depth = 0; depth < PB_MAX_DEPTH; depth++) {
        assert_int_equal(pb_next(&r, &f, &err), 1);
        assert_int_equal(pb_enter(&r, &f, &err, &inner), 0);
        r = inner;
    }
    assert_int_equal(pb_next(&r, &f, &err), 1);
    assert_int_equal(pb_enter(&r, &f, &err, &inner), INFER_EFORMAT);
    assert_non_null(strstr(err.text, "deeper"));
    pb_free(&m);
}

/* No input of three bytes makes it read outside them. */
TEST(test_exhaustive)
{
    struct infer_error err;
    unsigned char *b = malloc(3);
    int i, k, j, fields, status;

    assert_non_null(b);
    for (i = 0; i < 256; i++)
        for (k = 0; k < 256; k++)
            for (j = 0; j < 256; j += 15) {
                b[0] = (unsigned char)i;
                b[1] = (unsigned char)k;
                b[2] = (unsigned char)j;
                status = walk(b, 3, &fields, &err);
                assert_true(status == 0 || status == INFER_EFORMAT);
            }
    free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields),  cmocka_unit_test(test_empty),
        cmocka_unit_test(test_varints), cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_packed),  cmocka_unit_test(test_unpacked),
        cmocka_unit_test(test_depth),   cmocka_unit_test(test_exhaustive),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
