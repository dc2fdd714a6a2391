/* SPDX-License-Identifier: Apache-2.0 */
/* Constants: axes in another order in place, and fills that are written late.
 */
#include <stdlib.h>
#include <string.h>

#include "libinfer/graph/constant.h"
#include "tests/unit/test.h"

static struct constant *numbered(enum infer_dtype dtype, int rank,
                                 const int64_t *dim)
{
    struct constant *c = constant_new(dtype, rank, dim);

    assert_non_null(c);
    for (size_t i = 0; i < c->bytes / 4; i++)
        ((uint32_t *)(void *)c->data)[i] = (uint32_t)(i * 2654435761u);
    return c;
}

static void check_equal(const struct constant *a, const struct constant *b)
{
    assert_int_equal(a->dtype, b->dtype);
    assert_int_equal(a->rank, b->rank);
    assert_memory_equal(a->dim, b->dim, (size_t)a->rank * sizeof *a->dim);
    assert_memory_equal(a->data, b->data, a->bytes);
}

/* ---- in place ------------------------------------------------------ */

TEST(test_in_place)
{
    static const struct {
        int rank;
        int64_t dim[5];
        int order[5];
    } row[] = {
        {4, {3, 3, 128, 256}, {3, 2, 0, 1}}, /* a filter of TensorFlow */
        {4, {1, 1, 1024, 2048}, {3, 2, 0, 1}},
        {4, {5, 1, 96, 640}, {3, 2, 0, 1}},
        {5, {2, 3, 2, 64, 512}, {4, 3, 0, 1, 2}},
        {4, {3, 2, 128, 400}, {3, 0, 1, 2}},
        {2, {2048, 1000}, {1, 0}}, /* a dense layer */
        {2, {16, 16384}, {1, 0}},
    };

    for (size_t i = 0; i < COUNT(row); i++) {
        struct constant *c = numbered(INFER_F32, row[i].rank, row[i].dim);
        struct constant *want = constant_transpose(c, row[i].order);

        assert_non_null(want);
        assert_true(constant_transpose_here(c, row[i].order));
        check_equal(c, want);
        constant_unref(want);
        constant_unref(c);
    }
}

/* Shared, viewed, small, of another width or order, and of sizes without a
 * divisor: all stay. */
TEST(test_not_in_place)
{
    const int order[2] = {1, 0}, same[2] = {0, 1};
    struct constant *c = numbered(INFER_F32, DIMS(1024, 1024)), *view;
    struct constant *copy = constant_transpose(c, same);

    constant_ref(c);
    assert_false(constant_transpose_here(c, order));
    constant_unref(c);
    assert_false(constant_transpose_here(c, same));
    check_equal(c, copy);
    constant_unref(copy);
    constant_unref(c);
    c = numbered(INFER_F32, DIMS(64, 64));
    assert_false(constant_transpose_here(c, order));
    constant_unref(c);
    c = numbered(INFER_I64, DIMS(1024, 1024));
    assert_false(constant_transpose_here(c, order));
    constant_unref(c);
    c = numbered(INFER_F32, DIMS(1031, 1021)); /* both are primes */
    assert_false(constant_transpose_here(c, order));
    constant_unref(c);
    c = constant_new_fill(INFER_F32, DIMS(1024, 1024), "abcd");
    assert_false(constant_transpose_here(c, order));
    view = constant_transpose(c, order);
    assert_true(view->unfilled);
    constant_fill(view);
    assert_memory_equal(view->data + view->bytes - 4, "abcd", 4);
    constant_unref(view);
    constant_unref(c);
}

/* ---- fills --------------------------------------------------------- */

TEST(test_fills)
{
    const float half = 0.5f;
    const double zero = 0;
    struct constant *c = constant_new_fill(INFER_F32, DIMS(7, 3), &half), *d;

    assert_true(c->unfilled);
    d = constant_convert(c, INFER_F64);
    assert_non_null(d);
    constant_fill(c);
    constant_fill(c);
    constant_fill(d);
    constant_fill(NULL);
    for (int i = 0; i < 21; i++) {
        assert_true(((float *)(void *)c->data)[i] == half);
        assert_true(((double *)(void *)d->data)[i] == 0.5);
    }
    constant_unref(d);
    constant_unref(c);
    c = constant_new_fill(INFER_F64, DIMS(0, 3), &zero);
    constant_fill(c);
    constant_unref(c);
    c = constant_new_fill(INFER_BOOL, DIMS(0, 3), "\1");
    assert_true(c->unfilled);
    constant_fill(c);
    assert_false(c->unfilled);
    constant_unref(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_not_in_place),
        cmocka_unit_test(test_fills),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
