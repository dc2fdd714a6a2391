/* SPDX-License-Identifier: Apache-2.0 */
/* Factors of products: their number, and that they give every product. */
#include <stdlib.h>

#include "kernels/base/scalar.h"
#include "kernels/table/product_factors.h"
#include "libinfer/multiplier/multiplier.h"
#include "tests/unit/test.h"

/* rank: 0 where there are no factors. */
static const struct expected {
    const char *name;
    int rank;
} expected[] = {
    {"exact-1", 1},
    {"exact-7", 1},
    {"exact-8", 0},
    {"drum-3", 1},
    {"drum-4", 1},
    {"drum-6", 1},
    {"drum-8", 1},
    {"mitchell-1", 2},
    {"mitchell-3", 8},
    {"mitchell-4", 16},
    {"mitchell-5", 0},
    {"mitchell-7", 0},
    {"mbm-3", 8},
    {"mbm-4", 16},
    {"rounded-3", 8},
    {"truncated-3", 8},
    {"rounded-7", 0},
    {"accurate-3-4", 8},
    {"broken-array-3-2", 3},
    {"broken-array-7-7", 8},
};

static double factor(const uint16_t *factors, size_t at)
{
    return scalar_load(INFER_BF16, factors, (int64_t)at);
}

static void test_names(void **state)
{
    (void)state;
    for (size_t n = 0; n < COUNT(expected); n++) {
        struct infer_error err = {0};
        struct multiplier *m = NULL;
        uint16_t *factors = NULL;

        assert_int_equal(multiplier_named(expected[n].name, &err, &m), 0);
        const size_t side = (size_t)1 << m->bits;
        const int found = multiplier_factors(m, &err, &factors);
        if (found != expected[n].rank)
            fail_msg("%s: %d factors, expected %d", expected[n].name, found,
                     expected[n].rank);
        const size_t rank = (size_t)found;
        for (size_t a = 0; a < side && rank > 0; a++)
            for (size_t b = 0; b < side; b++) {
                double sum = 0;
                for (size_t i = 0; i < rank; i++)
                    sum += factor(factors, a * rank + i) *
                           factor(factors, (side + b) * rank + i);
                if (sum != multiplier_product(m, (int)a, (int)b))
                    fail_msg("%s: %zu times %zu is %g by its factors",
                             expected[n].name, a, b, sum);
            }
        free(factors);
        multiplier_free(m);
    }
}

/* A table that is not symmetric: the first operand decides. */
static void test_columns(void **state)
{
    const uint32_t one_and_half = UINT32_C(1) << 22;
    uint16_t factors[2 * 4 * PRODUCT_FACTORS_MOST];
    uint32_t table[16];

    (void)state;
    for (uint32_t a = 0; a < 4; a++)
        for (uint32_t b = 0; b < 4; b++)
            table[b * 4 + a] = a == 3 && b > 0 ? one_and_half : 0;
    assert_int_equal(product_factors_find(table, 1, 4, 2, factors), 2);
    for (size_t a = 0; a < 4; a++)
        for (size_t b = 0; b < 4; b++) {
            const double sum =
                factor(factors, a * 2) * factor(factors, (4 + b) * 2) +
                factor(factors, a * 2 + 1) * factor(factors, (4 + b) * 2 + 1);
            assert_true(sum == (a == 3 && b > 0 ? 1.5 : 1));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_columns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
