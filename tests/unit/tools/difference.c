/* SPDX-License-Identifier: Apache-2.0 */
/* How far arrays lie apart: what is infinite or no number must neither hide a
 * difference nor be one. */
#include <math.h>

#include "tests/unit/test.h"
#include "tools/difference.h"

#define N 4

static struct difference of(const float *found, const float *expected)
{
    struct difference d;

    difference_of(INFER_F32, found, INFER_F32, expected, N, &d);
    return d;
}

static void test_numbers(void **unused)
{
    const float x[N] = {1, 2, 3, 4}, y[N] = {1, 2.5f, -8, 4};
    const struct difference d = of(x, y);

    (void)unused;
    assert_int_equal(d.count, 2);
    assert_int_equal(d.at, 2);
    assert_true(d.max_abs == 11 && d.scale == 8 && d.max_rel == 11.0 / 8);
    assert_true(d.found == 3 && d.expected == -8);
}

static void test_equal(void **unused)
{
    const float x[N] = {NAN, INFINITY, -INFINITY, 0};
    const struct difference d = of(x, x);

    (void)unused;
    assert_int_equal(d.count, 0);
    assert_int_equal(d.finite, 1);
    assert_true(d.max_abs == 0 && d.max_rel == 0);
}

/* An infinite value that is expected is no scale for the others. */
static void test_not_hidden(void **unused)
{
    const float x[N] = {INFINITY, 2, 3, 4}, y[N] = {INFINITY, 2, 30, 4};
    const struct difference d = of(x, y);

    (void)unused;
    assert_int_equal(d.count, 1);
    assert_true(d.max_abs == 27 && d.scale == 30 && d.max_rel == 0.9);
}

static void check_infinite(float found, float expected)
{
    const float x[N] = {1, found, 1, 1}, y[N] = {1, expected, 1, 1};
    const struct difference d = of(x, y);

    assert_int_equal(d.count, 1);
    assert_int_equal(d.at, 1);
    assert_true(isinf(d.max_abs) && isinf(d.max_rel));
}

static void test_infinite(void **unused)
{
    (void)unused;
    check_infinite(1, INFINITY);
    check_infinite(INFINITY, 1);
    check_infinite(INFINITY, -INFINITY);
    check_infinite(NAN, 1);
    check_infinite(1, NAN);
    check_infinite(NAN, INFINITY);
}

static void test_types(void **unused)
{
    const uint8_t x[N] = {1, 2, 3, 4};
    const int64_t y[N] = {1, 2, 3, 5};
    struct difference d;

    (void)unused;
    difference_of(INFER_U8, x, INFER_I64, y, N, &d);
    assert_int_equal(d.count, 1);
    assert_true(d.max_abs == 1 && d.max_rel == 0.2);
    difference_of(INFER_U8, x, INFER_I64, y, 0, &d);
    assert_int_equal(d.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),    cmocka_unit_test(test_equal),
        cmocka_unit_test(test_not_hidden), cmocka_unit_test(test_infinite),
        cmocka_unit_test(test_types),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
