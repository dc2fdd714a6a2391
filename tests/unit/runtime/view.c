/* SPDX-License-Identifier: Apache-2.0 */
/* Views: reshapes, slices and permutations that move no element. */
#include "tests/unit/runtime/network.h"

#include "kernels/kern.h"
#include "libinfer/memory/view.h"

static struct view dense(int rank, const int64_t *dim, enum kern_layout layout)
{
    struct view v;
    size_t bytes;

    assert_int_equal(view_dense(0, INFER_F32, rank, dim, layout, &bytes, &v),
                     0);
    return v;
}

/* Element number i in logical order lies there. */
static int64_t place_of(const struct view *v, int64_t i)
{
    int64_t at = v->offset;

    for (int k = v->t.rank - 1; k >= 0; k--) {
        at += i % v->t.dim[k] * v->t.stride[k];
        i /= v->t.dim[k];
    }
    return at;
}

/* A reshape that succeeds keeps every element where it is. */
static void check_reshape(const struct view *v, bool possible, int rank,
                          const int64_t *dim)
{
    struct view w;

    assert_int_equal(view_reshape(v, rank, dim, &w), possible);
    if (!possible)
        return;
    assert_int_equal(w.t.rank, rank);
    assert_int_equal(kern_tensor_count(&w.t), kern_tensor_count(&v->t));
    for (int64_t i = 0; i < kern_tensor_count(&v->t); i++)
        assert_int_equal(place_of(v, i), place_of(&w, i));
}

static void test_reshape(void **unused)
{
    struct view nchw = dense(DIMS(2, 6, 4, 5), KERN_NCHW);
    struct view nhwc = dense(DIMS(2, 6, 4, 5), KERN_NHWC);
    struct view pooled = dense(DIMS(2, 6, 1, 1), KERN_NHWC);
    struct view flat = dense(DIMS(240), KERN_NCHW);
    struct view part = view_slice(&nchw, 1, 2, 1, 3);
    struct view every = view_slice(&nchw, 3, 4, -2, 3);
    struct view scalar = dense(0, NULL, KERN_NCHW);
    struct view none = dense(DIMS(2, 0, 3), KERN_NCHW);

    (void)unused;
    check_reshape(&nchw, true, DIMS(2, 120));
    check_reshape(&nchw, true, DIMS(240));
    check_reshape(&nchw, true, DIMS(1, 2, 1, 2, 3, 20, 1));
    check_reshape(&nchw, true, DIMS(12, 20));
    check_reshape(&flat, true, DIMS(2, 3, 4, 5, 2));
    check_reshape(&nhwc, true, DIMS(2, 6, 20));
    check_reshape(&nhwc, true, DIMS(2, 2, 3, 4, 5));
    check_reshape(&nhwc, false, DIMS(2, 120));
    check_reshape(&nhwc, false, DIMS(12, 20));
    check_reshape(&pooled, true, DIMS(2, 6));
    check_reshape(&pooled, true, DIMS(12));
    check_reshape(&part, true, DIMS(2, 60));
    check_reshape(&part, false, DIMS(120));
    check_reshape(&every, true, DIMS(48, 3));
    check_reshape(&every, false, DIMS(144));
    check_reshape(&scalar, true, DIMS(1, 1, 1));
    check_reshape(&none, false, DIMS(0));
}

static void test_layout(void **unused)
{
    struct view nchw = dense(DIMS(2, 6, 4, 5), KERN_NCHW);
    struct view nhwc = dense(DIMS(2, 6, 4, 5), KERN_NHWC);
    struct view part = view_slice(&nhwc, 1, 1, 1, 3);
    int64_t huge[3] = {INT64_C(1) << 40, INT64_C(1) << 40, 0};
    size_t bytes;
    struct view v;

    (void)unused;
    assert_int_equal(view_layout(&nchw.t), KERN_NCHW);
    assert_int_equal(view_layout(&nhwc.t), KERN_NHWC);
    assert_int_equal(view_layout(&part.t), KERN_NHWC);
    part = view_slice(&nchw, 1, 1, 1, 3);
    assert_int_equal(view_layout(&part.t), KERN_NCHW);
    assert_true(view_dense(0, INFER_F32, 3, huge, KERN_NCHW, &bytes, &v) < 0);
    assert_int_equal(
        view_dense(0, INFER_F32, DIMS(3, 0), KERN_NCHW, &bytes, &v), 0);
    assert_int_equal(bytes, 0);
}

/* Merging dimensions keeps the pairs of places of a copy. */
static void test_coalesce(void **unused)
{
    struct view a = dense(DIMS(2, 6, 4, 5), KERN_NCHW);
    struct view b = dense(DIMS(2, 6, 4, 5), KERN_NHWC), c = a, d = b;

    (void)unused;
    view_coalesce(&c.t, &d.t);
    assert_int_equal(c.t.rank, 3);
    for (int64_t i = 0; i < 240; i++) {
        assert_int_equal(place_of(&a, i), place_of(&c, i));
        assert_int_equal(place_of(&b, i), place_of(&d, i));
    }
    c = d = a;
    view_coalesce(&c.t, &d.t);
    assert_int_equal(c.t.rank, 1);
    c = d = dense(DIMS(1, 1), KERN_NCHW);
    view_coalesce(&c.t, &d.t);
    assert_int_equal(c.t.rank, 1);
    assert_int_equal(c.t.dim[0], 1);
}

static void test_gather_view(void **unused)
{
    float from[24], to[24];
    struct view v = dense(DIMS(2, 3, 4), KERN_NCHW);
    const int64_t order[3] = {2, 0, 1};

    (void)unused;
    for (int i = 0; i < 24; i++)
        from[i] = (float)i;
    v = view_permute(&v, order);
    v = view_slice(&v, 0, 3, -3, 2);
    assert_int_equal(view_reach_below(&v.t), 3);
    view_gather(&v.t, from + v.offset, INFER_F32, to);
    for (int i = 0; i < 12; i++) {
        int w = i / 6 == 0 ? 3 : 0, n = i / 3 % 2, c = i % 3;

        assert_true(to[i] == (float)(n * 12 + c * 4 + w));
    }
}

static void test_order_as(void **unused)
{
    const int64_t whole[4] = {2, 12, 5, 7}, split[5] = {2, 3, 4, 5, 7};
    struct view v = dense(4, whole, KERN_NHWC);
    struct kern_tensor t = kern_tensor_dense(INFER_F32, 5, split, KERN_NCHW);

    (void)unused;
    assert_true(view_reshape(&v, 5, split, &v));
    view_order_as(&v.t, &t);
    assert_memory_equal(t.stride, v.t.stride, 5 * sizeof t.stride[0]);
    t.dim[1] = 1; /* without one of them the others close up */
    view_order_as(&v.t, &t);
    assert_int_equal(t.stride[2], 1);
    assert_int_equal(t.stride[4], 4);
    assert_int_equal(t.stride[3], 28);
    assert_int_equal(t.stride[0], 140);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reshape),  cmocka_unit_test(test_layout),
        cmocka_unit_test(test_coalesce), cmocka_unit_test(test_gather_view),
        cmocka_unit_test(test_order_as),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
