/* SPDX-License-Identifier: Apache-2.0 */
/* F8E4M3: all codes and all roundings against PyTorch's, on the reference and
 * on the rows of the CPU that convert by themselves. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/base/dtype.h"
#include "kernels/base/scalar.h"
#include "kernels/cpu/bytes.h"
#include "tests/unit/kernels/float8_expected.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static float float_of(uint32_t bits)
{
    float v;

    memcpy(&v, &bits, sizeof v);
    return v;
}

static uint32_t bits_of(float v)
{
    uint32_t bits;

    memcpy(&bits, &v, sizeof bits);
    return bits;
}

/* NaN of any kind is equal to NaN. */
static void assert_value(float v, uint32_t expected)
{
    if (isnan(float_of(expected)))
        assert_true(isnan(v));
    else
        assert_int_equal(bits_of(v), expected);
}

static void test_values(void **unused)
{
    const struct bytes_scale s = {INFER_F8E4M3, 1, 0};
    uint8_t code[256];
    float v[256], apart[256];

    (void)unused;
    assert_int_equal(COUNT(value_bits), 256);
    for (int i = 0; i < 256; i++)
        code[i] = (uint8_t)i;
    bytes_load(&s, code, 1, v, 256);
    scalar_convert(INFER_F8E4M3, code, INFER_F32, apart, 256);
    for (int i = 0; i < 256; i++) {
        assert_value(scalar_f8e4m3[i], value_bits[i]);
        assert_value((float)scalar_load(INFER_F8E4M3, code, i), value_bits[i]);
        assert_value(v[i], value_bits[i]);
        assert_value(apart[i], value_bits[i]);
    }
    bytes_load(&s, code, 2, v, 128);
    for (int i = 0; i < 128; i++)
        assert_value(v[i], value_bits[2 * i]);
}

static void test_roundings(void **unused)
{
    const struct bytes_scale s = {INFER_F8E4M3, 1, 0};
    static float v[COUNT(cases)];
    static uint8_t y[COUNT(cases)];

    (void)unused;
    for (size_t i = 0; i < COUNT(cases); i++) {
        v[i] = float_of(cases[i].bits);
        assert_int_equal(scalar_to_f8e4m3(v[i]), cases[i].code);
    }
    bytes_store(&s, v, y, 1, COUNT(cases));
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_int_equal(y[i], cases[i].code);
}

/* A code becomes its value and the code again; NaN stays NaN. */
static void test_there_and_back(void **unused)
{
    const struct bytes_scale s = {INFER_F8E4M3, 1, 0};
    float v[256];
    uint8_t code[256];

    (void)unused;
    for (int i = 0; i < 256; i++) {
        v[i] = scalar_f8e4m3[i];
        if (!isnan(v[i]))
            assert_int_equal(scalar_to_f8e4m3(v[i]), i);
    }
    assert_int_equal(scalar_to_f8e4m3(NAN) & 0x7f, 0x7f);
    bytes_store(&s, v, code, 1, 256);
    for (int i = 0; i < 256; i++)
        if (isnan(v[i]))
            assert_int_equal(code[i] & 0x7f, 0x7f);
        else
            assert_int_equal(code[i], i);
}

static void test_type(void **unused)
{
    (void)unused;
    assert_string_equal(infer_dtype_name(INFER_F8E4M3), "F8_E4M3");
    assert_int_equal(infer_dtype_size(INFER_F8E4M3), 1);
    assert_int_equal(dtype_find("F8_E4M3"), INFER_F8E4M3);
    assert_true(scalar_is_float(INFER_F8E4M3));
    assert_false(scalar_is_integer(INFER_F8E4M3));
    assert_int_equal(scalar_load_i64(INFER_F8E4M3, "\xfe", 0), -448);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_roundings),
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_type),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
