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
    {"exact-1", 1},          {"exact-7", 1},          {"exact-8", 4},
    {"exact-10", 4},         {"exact-11", 0},         {"drum-3", 1},
    {"drum-4", 1},           {"drum-6", 1},           {"drum-8", 1},
    {"mitchell-1", 2},       {"mitchell-3", 8},       {"mitchell-4", 16},
    {"mitchell-5", 0},       {"mitchell-7", 0},       {"mbm-3", 8},
    {"mbm-4", 16},           {"rounded-3", 8},        {"truncated-3", 8},
    {"rounded-7", 0},        {"accurate-3-4", 8},     {"broken-array-3-2", 3},
    {"broken-array-7-7", 8}, {"broken-array-7-9", 6}, {"broken-array-9-9", 12},
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

/* The entry of a product of two significands of 8 bits. */
static uint32_t entry_of(uint32_t product)
{
    const bool carry = product >= 1u << 15;

    return ((uint32_t)carry << 23) | (product - (carry ? 1u << 15 : 1u << 14))
                                         << (carry ? 8 : 9);
}

/* Circuits of 8 bits that leave out or replace gates. */
static uint32_t circuit(int kind, uint32_t a, uint32_t b)
{
    const uint32_t exact = a * b;

    switch (kind) {
    case 0: /* two products of two bits each are missing */
        return exact - 4 * ((a & a >> 1 & 1) & (b >> 1 & b >> 2 & 1)) -
               ((a >> 3 & 1) & (b >> 2 & 1));
    case 1: /* vectors of more than 8 bits, which take two factors */
        return exact - 2 * (a >> 6 & 1) - (b >> 6 & b >> 3 & b >> 1 & 1) -
               (a >> 6 & 1) * 3 * b;
    case 2: /* no vector has two rows */
        return exact + (a * 2654435761u ^ b * 40503u) % 61;
    default: /* columns of few sets, rows of many */
        return exact + (b >> 1 & 1) * ((a * 2654435761u >> 20) % 61);
    }
}

static void test_circuits(void **state)
{
    static const int rank[] = {3, 4, 0, 2};
    uint32_t *table = malloc(4 << 14);
    uint16_t *factors = malloc((2 * 2 * PRODUCT_FACTORS_MOST) << 7);

    (void)state;
    for (int kind = 0; kind < (int)COUNT(rank); kind++) {
        for (uint32_t a = 0; a < 128; a++)
            for (uint32_t b = 0; b < 128; b++)
                table[a << 7 | b] = entry_of(circuit(kind, 128 + a, 128 + b));
        const int r = product_factors_find(table, 128, 1, 7, factors);
        if (r != rank[kind])
            fail_msg("circuit %d: %d factors, expected %d", kind, r,
                     rank[kind]);
        for (size_t a = 0; a < 128; a++)
            for (size_t b = 0; b < 128 && r > 0; b++) {
                double sum = 0;
                for (size_t i = 0; i < (size_t)r; i++)
                    sum += factor(factors, a * (size_t)r + i) *
                           factor(factors, (128 + b) * (size_t)r + i);
                if (sum * 16384 !=
                    circuit(kind, 128 + (uint32_t)a, 128 + (uint32_t)b))
                    fail_msg("circuit %d: %zu times %zu is %g", kind, a, b,
                             sum * 16384);
            }
    }
    free(table);
    free(factors);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_circuits),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_columns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
