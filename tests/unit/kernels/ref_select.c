/* SPDX-License-Identifier: Apache-2.0 */
/* The reference of operations that select along an axis, and of the functions
 * of angles, on values worked out by hand. */
#include <math.h>

#include "tests/unit/kernels/ref_case.h"

TEST(test_gather_elements)
{
    static const float x[] = {1, 2, 3, 4, 5, 6};
    static const int64_t list[] = {2, -3, 0, 1};
    static const float e[] = {3, 1, 4, 5};
    struct ref_case *c = ref_new(KERN_GATHER_ELEMENTS);

    c->p.attr.gather.axis = 1;
    ref_in(c, 0, x, DIMS(2, 3));
    ref_data(c, 1, INFER_I64, list, DIMS(2, 2));
    REF_EXPECT(c, e, 2, 2);
}

/* Two updates of one element: the later one stays, or both count. */
TEST(test_scatter_elements)
{
    static const float x[] = {1, 2, 3, 4}, update[] = {10, -20, 30};
    static const int32_t list[] = {1, 1, -1};
    static const float e[][4] = {{1, -20, 3, 30},
                                 {1, -8, 3, 34},
                                 {1, -400, 3, 120},
                                 {1, -20, 3, 4},
                                 {1, 10, 3, 30}};

    for (int kind = 0; kind <= KERN_SCATTER_MAX; kind++) {
        struct ref_case *c = ref_new(KERN_SCATTER_ELEMENTS);
        c->p.attr.scatter.kind = (enum kern_scatter_kind)kind;
        ref_in(c, 0, x, DIMS(4));
        ref_data(c, 1, INFER_I32, list, DIMS(3));
        ref_in(c, 2, update, DIMS(3));
        ref_expect(c, e[kind], 4, DIMS(4));
    }
}

TEST(test_outside)
{
    static const float x[] = {1, 2, 3};
    static const int64_t lists[] = {3, -4};
    static const char *const words[] = {"index 3 ", "index -4 "};
    static const enum kern_op ops[] = {KERN_GATHER_ELEMENTS,
                                       KERN_SCATTER_ELEMENTS};

    for (int i = 0; i < 4; i++) {
        struct ref_case *c = ref_new(ops[i / 2]);
        ref_in(c, 0, x, DIMS(3));
        ref_data(c, 1, INFER_I64, &lists[i % 2], DIMS(1));
        if (i >= 2)
            ref_in(c, 2, x, DIMS(1));
        ref_out(c, INFER_F32, c->out, DIMS(i < 2 ? 1 : 3));
        ref_refused(c, INFER_EARGUMENT, words[i % 2]);
    }
}

TEST(test_cumulate)
{
    static const float x[] = {1, 2, 3, 4, 5, 6};
    static const struct {
        bool exclusive, reverse, product;
        float e[6];
    } cases[] = {
        {false, false, false, {1, 3, 6, 4, 9, 15}},
        {true, false, false, {0, 1, 3, 0, 4, 9}},
        {false, true, false, {6, 5, 3, 15, 11, 6}},
        {true, true, false, {5, 3, 0, 11, 6, 0}},
        {false, false, true, {1, 2, 6, 4, 20, 120}},
        {true, true, true, {6, 3, 1, 30, 6, 1}},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct ref_case *c = ref_new(KERN_CUMULATE);
        c->p.attr.cumulate.axis = 1;
        c->p.attr.cumulate.exclusive = cases[i].exclusive;
        c->p.attr.cumulate.reverse = cases[i].reverse;
        c->p.attr.cumulate.product = cases[i].product;
        ref_in(c, 0, x, DIMS(2, 3));
        ref_expect(c, cases[i].e, 6, DIMS(2, 3));
    }
}

/* Equal elements keep their order; NaN is the largest. */
TEST(test_top_k)
{
    static const float x[] = {2, NAN, 5, 2, 5, -1};
    static const int64_t e[2][4] = {{1, 2, 4, 0}, {5, 0, 3, 2}};

    for (int i = 0; i < 2; i++) {
        struct ref_case *c = ref_new(KERN_TOP_K);
        int64_t out[4] = {-1, -1, -1, -1};
        c->p.attr.top_k.smallest = i == 1;
        ref_in(c, 0, x, DIMS(6));
        ref_out(c, INFER_I64, out, DIMS(4));
        assert_int_equal(ref_launch(c), 0);
        assert_memory_equal(out, e[i], sizeof(out));
        free(c);
    }
}

/* Box 1 overlaps box 0 by 9/11 and is dropped; box 3 has its corners swapped.
 * The second class keeps nothing but box 2, of the score above 0.5. */
TEST(test_nms)
{
    static const float boxes[] = {0, 0,  10, 10, 0,  1,  10, 11,
                                  0, 20, 10, 30, 10, 50, 0,  40};
    static const float scores[] = {0.9f, 0.8f, 0.7f, 0.95f,
                                   0.1f, 0.2f, 0.6f, 0.5f};
    static const int64_t e[] = {0, 0, 3, 0,  0,  0,  0,  0,  2,
                                0, 1, 2, -1, -1, -1, -1, -1, -1};
    struct ref_case *c = ref_new(KERN_NMS);
    int64_t out[18];

    c->p.attr.nms.iou = 0.5f;
    c->p.attr.nms.score = 0.5f;
    ref_in(c, 0, boxes, DIMS(1, 4, 4));
    ref_in(c, 1, scores, DIMS(1, 2, 4));
    ref_out(c, INFER_I64, out, DIMS(6, 3));
    assert_int_equal(ref_launch(c), 0);
    assert_memory_equal(out, e, sizeof(out));
    free(c);
}

/* Middle, width and height: the same two boxes, which overlap by 9/11. */
TEST(test_nms_center)
{
    static const float boxes[] = {5, 5, 10, 10, 6, 5, 10, 10};
    static const float scores[] = {0.5f, 0.6f};
    static const float limit[] = {0.8f, 0.82f};

    for (int i = 0; i < 2; i++) {
        struct ref_case *c = ref_new(KERN_NMS);
        int64_t out[6];
        c->p.attr.nms.center = true;
        c->p.attr.nms.iou = limit[i];
        ref_in(c, 0, boxes, DIMS(1, 2, 4));
        ref_in(c, 1, scores, DIMS(1, 1, 2));
        ref_out(c, INFER_I64, out, DIMS(2, 3));
        assert_int_equal(ref_launch(c), 0);
        assert_int_equal(out[2], 1);
        assert_int_equal(out[5], i ? 0 : -1);
        free(c);
    }
}

TEST(test_angles)
{
    static const float x[] = {-0.5f, 0.5f}, above[] = {1.5f, 3};
    static const struct {
        enum kern_unary_kind kind;
        float e[2];
    } cases[] = {
        {KERN_SIN, {-0.47942554f, 0.47942554f}},
        {KERN_COS, {0.87758256f, 0.87758256f}},
        {KERN_TAN, {-0.54630249f, 0.54630249f}},
        {KERN_ASIN, {-0.52359878f, 0.52359878f}},
        {KERN_ACOS, {2.09439510f, 1.04719755f}},
        {KERN_ATAN, {-0.46364761f, 0.46364761f}},
        {KERN_SINH, {-0.52109531f, 0.52109531f}},
        {KERN_COSH, {1.12762597f, 1.12762597f}},
        {KERN_ASINH, {-0.48121183f, 0.48121183f}},
        {KERN_ATANH, {-0.54930614f, 0.54930614f}},
        {KERN_ACOSH, {0.96242365f, 1.76274717f}},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct ref_case *c = ref_new(KERN_UNARY);
        c->p.attr.unary.kind = cases[i].kind;
        ref_in(c, 0, cases[i].kind == KERN_ACOSH ? above : x, DIMS(2));
        ref_expect(c, cases[i].e, 2, DIMS(2));
    }
}

TEST(test_bits)
{
    static const struct {
        enum kern_binary_kind kind;
        int64_t a, b, e;
    } cases[] = {
        {KERN_BIT_AND, 12, 10, 8},
        {KERN_BIT_OR, 12, 10, 14},
        {KERN_BIT_XOR, -1, 10, -11},
        {KERN_SHIFT_LEFT, 3, 4, 48},
        {KERN_SHIFT_LEFT, -1, 63, INT64_MIN},
        {KERN_SHIFT_LEFT, 5, 64, 0},
        {KERN_SHIFT_LEFT, 5, -1, 0},
        {KERN_SHIFT_RIGHT, -8, 1, -4},
        {KERN_SHIFT_RIGHT, -8, 64, -1},
        {KERN_SHIFT_RIGHT, 8, -1, 0},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct ref_case *c = ref_new(KERN_BINARY);
        int64_t out = 0;
        c->p.attr.binary.kind = cases[i].kind;
        ref_data(c, 0, INFER_I64, &cases[i].a, DIMS(1));
        ref_data(c, 1, INFER_I64, &cases[i].b, DIMS(1));
        ref_out(c, INFER_I64, &out, DIMS(1));
        assert_int_equal(ref_launch(c), 0);
        assert_true(out == cases[i].e);
        free(c);
    }
}

/* Reals have no bits here, and nothing may follow. */
TEST(test_bits_refused)
{
    static const float x[] = {1, 2};
    struct ref_case *c = ref_new(KERN_BINARY);

    c->p.attr.binary.kind = KERN_BIT_AND;
    ref_in(c, 0, x, DIMS(2));
    ref_in(c, 1, x, DIMS(2));
    ref_out(c, INFER_F32, c->out, DIMS(2));
    ref_refused(c, INFER_EUNSUPPORTED, "takes integers");
}

/* A kind that no row knows is refused before anything runs, alone and behind
 * another operation. */
TEST(test_unknown_function)
{
    static const float x[] = {1, 2};

    for (int i = 0; i < 2; i++) {
        struct ref_case *c = ref_new(i ? KERN_BINARY : KERN_UNARY);
        if (i)
            c->p.epilogue.act.kind = KERN_UNARY_COUNT;
        else
            c->p.attr.unary.kind = KERN_UNARY_COUNT;
        ref_in(c, 0, x, DIMS(2));
        if (i)
            ref_in(c, 1, x, DIMS(2));
        ref_out(c, INFER_F32, c->out, DIMS(2));
        ref_refused(c, INFER_EUNSUPPORTED, "unknown function");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gather_elements),
        cmocka_unit_test(test_scatter_elements),
        cmocka_unit_test(test_outside),
        cmocka_unit_test(test_cumulate),
        cmocka_unit_test(test_top_k),
        cmocka_unit_test(test_nms),
        cmocka_unit_test(test_nms_center),
        cmocka_unit_test(test_angles),
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_bits_refused),
        cmocka_unit_test(test_unknown_function),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
