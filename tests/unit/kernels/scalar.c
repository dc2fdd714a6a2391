/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions between 16 and 32 bits: one element against the definition, and
 * arrays against one element. */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/scalar.h"
#include "tests/unit/test.h"

#define HALVES 65536

static float float_of(uint32_t bits)
{
    float f;

    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint32_t bits_of(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* IEEE 754-2008, 3.4: sign, exponent and fraction of a half as a number. */
static double value_of(unsigned half)
{
    const int exponent = half >> 10 & 31, fraction = half & 1023;
    const double size = exponent == 0 ? ldexp(fraction, -24)
                                      : ldexp(1024 + fraction, exponent - 25);

    return half & 0x8000 ? -size : size;
}

static void test_from_f16(void **unused)
{
    (void)unused;
    for (unsigned h = 0; h < HALVES; h++) {
        const float f = scalar_from_f16((uint16_t)h);

        if ((h & 0x7c00) != 0x7c00)
            assert_true((double)f == value_of(h));
        else if (h & 0x3ff)
            assert_true(isnan(f));
        else
            assert_true(isinf(f));
        assert_int_equal(signbit(f) != 0, h >> 15);
    }
}

/* Each half, the numbers halfway to the next one, and their neighbours. */
static void test_to_f16(void **unused)
{
    (void)unused;
    for (unsigned h = 0; h < 0x7c00; h++) {
        const float half = (float)value_of(h);
        /* Above the largest, what would be the next: infinity. */
        const double next = h == 0x7bff ? 65536 : value_of(h + 1);
        const float middle = (float)((half + next) / 2);
        const unsigned even = h & 1 ? h + 1 : h;

        assert_int_equal(scalar_to_f16(half), h);
        assert_int_equal(scalar_to_f16(-half), h | 0x8000);
        assert_int_equal(scalar_to_f16(middle), even);
        assert_int_equal(scalar_to_f16(nextafterf(middle, 0)), h);
        assert_int_equal(scalar_to_f16(nextafterf(middle, 1e6f)), h + 1);
    }
    assert_int_equal(scalar_to_f16(INFINITY), 0x7c00);
    assert_int_equal(scalar_to_f16(-INFINITY), 0xfc00);
    assert_int_equal(scalar_to_f16(NAN) & 0x7e00, 0x7e00);
}

static void test_to_bf16(void **unused)
{
    (void)unused;
    for (uint32_t b = 0; b < 0x7f80; b++) {
        const uint32_t bits = b << 16;

        assert_int_equal(scalar_to_bf16(float_of(bits)), b);
        assert_int_equal(scalar_to_bf16(float_of(bits | 0x7fff)), b);
        assert_int_equal(scalar_to_bf16(float_of(bits | 0x8000)), b + (b & 1));
        assert_int_equal(scalar_to_bf16(float_of(bits | 0x8001)), b + 1);
        assert_true(bits_of(scalar_from_bf16((uint16_t)b)) == bits);
    }
    /* A NaN whose payload is below the cut stays one. */
    assert_int_equal(scalar_to_bf16(float_of(0x7f800001)), 0x7fc0);
}

/* Every 509th pattern of 32 bits, those of all halves, and lengths with a
 * rest. */
static void test_arrays(void **unused)
{
    enum { N = 4099 };
    float *wide = malloc(HALVES * sizeof *wide);
    uint16_t *narrow = malloc(HALVES * sizeof *narrow);
    uint64_t pattern = 0;
    float x[N];

    (void)unused;
    assert_non_null(wide);
    assert_non_null(narrow);
    for (unsigned h = 0; h < HALVES; h++)
        narrow[h] = (uint16_t)h;
    scalar_convert(INFER_F16, narrow, INFER_F32, wide, HALVES);
    for (unsigned h = 0; h < HALVES; h++)
        assert_true(bits_of(wide[h]) == bits_of(scalar_from_f16((uint16_t)h)));
    while (pattern < UINT64_C(1) << 32) {
        for (int i = 0; i < N; i++, pattern += 509)
            x[i] = float_of((uint32_t)pattern);
        scalar_convert(INFER_F32, x, INFER_F16, narrow, N);
        for (int i = 0; i < N; i++)
            assert_int_equal(narrow[i], scalar_to_f16(x[i]));
        scalar_convert(INFER_F32, x, INFER_BF16, narrow, N);
        for (int i = 0; i < N; i++)
            assert_int_equal(narrow[i], scalar_to_bf16(x[i]));
    }
    free(wide);
    free(narrow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_from_f16),
        cmocka_unit_test(test_to_f16),
        cmocka_unit_test(test_to_bf16),
        cmocka_unit_test(test_arrays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
