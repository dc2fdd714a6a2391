/* SPDX-License-Identifier: Apache-2.0 */
/* Norms, functions, reductions and moves of the reference.
 * The expected values were computed with PyTorch and numpy from the same
 * inputs. */
#include <math.h>

#include "kernels/quant/quant.h"
#include "tests/unit/kernels/ref_case.h"

TEST(test_batch_norm)
{
    static const float e[] = {
        0.39951905f, -1.1160254f, -0.25f,      -1.7655445f,
        0.25f,       -0.1972136f, 0.5854102f,  0.1381966f,
        0,           0,           0,           0,
        -1.1160254f, -0.25f,      -1.7655445f, -0.89951905f,
        -0.1972136f, 0.5854102f,  0.1381966f,  -0.30901699f,
        0,           0,           0,           0};
    struct ref_case *c = ref_new(KERN_BATCH_NORM);

    ref_ramp(c, 0, 7, 11, DIMS(2, 3, 2, 2));
    ref_ramp(c, 1, 5, 7, DIMS(3));
    ref_ramp(c, 2, 2, 3, DIMS(3));
    ref_ramp(c, 3, 3, 5, DIMS(3));
    ref_in(c, 4, (const float[]){0.5f, 1, 2}, DIMS(3));
    c->p.attr.norm.epsilon = 0.25f;
    REF_EXPECT(c, e, 2, 3, 2, 2);
}

TEST(test_layer_norm)
{
    static const float e[] = {0.48479281f,  0.51261142f,  -0.25f, -0.15652854f,
                              -0.64999808f, -0.44999104f, -0.25f, 0.59999872f,
                              0.04216857f,  1.0130521f,   -0.25f, 1.0220883f,
                              -0.64999808f, -0.44999104f, -0.25f, 0.59999872f,
                              0.04216857f,  1.0130521f,   -0.25f, 1.0220883f,
                              -1.2831324f,  0.1295181f,   -0.25f, 0.13855429f};
    struct ref_case *c = ref_new(KERN_LAYER_NORM);

    ref_ramp(c, 0, 7, 11, DIMS(2, 3, 2, 2));
    ref_ramp(c, 1, 5, 7, DIMS(2, 2));
    ref_ramp(c, 2, 3, 5, DIMS(2, 2));
    c->p.attr.norm = (struct kern_norm){.epsilon = 1e-5f, .axis = 2};
    REF_EXPECT(c, e, 2, 3, 2, 2);
}

TEST(test_rms_norm)
{
    static const float e[] = {0.98479281f,  0.26261142f,  0, -0.65652854f,
                              -0.29417058f, -0.58834116f, 0, 0,
                              0.84016278f,  0.42008139f,  0, 0.70013565f,
                              -0.51449091f, -0.34299394f, 0, -0.17149697f,
                              0.70277644f,  0.62469017f,  0, 0.62469017f,
                              -0.72057078f, -0.16012684f, 0, -0.32025368f};
    struct ref_case *c = ref_new(KERN_LAYER_NORM);

    ref_ramp(c, 0, 7, 11, DIMS(2, 3, 2, 2));
    ref_ramp(c, 1, 5, 7, DIMS(2, 2));
    c->p.attr.norm =
        (struct kern_norm){.epsilon = 1e-5f, .axis = 2, .rms = true};
    REF_EXPECT(c, e, 2, 3, 2, 2);
}

TEST(test_group_norm)
{
    static const float e[] = {
        0.71876225f, -0.90625408f, 0.022326679f, -1.6026897f,
        0.3660726f,  -0.25298125f, 0.83036298f,  0.21130913f,
        -0.25f,      -0.25f,       -0.25f,       -0.25f,
        0.1738024f,  0.78782141f,  -0.28671186f, 0.32730715f};
    struct ref_case *c = ref_new(KERN_GROUP_NORM);

    ref_ramp(c, 0, 7, 11, DIMS(1, 4, 2, 2));
    ref_ramp(c, 1, 5, 7, DIMS(4));
    ref_ramp(c, 2, 3, 5, DIMS(4));
    c->p.attr.norm = (struct kern_norm){.epsilon = 1e-5f, .groups = 2};
    REF_EXPECT(c, e, 1, 4, 2, 2);
}

static struct ref_case *new_squeeze(void)
{
    struct ref_case *c = ref_new(KERN_SQUEEZE_EXCITE);

    ref_ramp(c, 0, 7, 11, DIMS(2, 3, 2, 2));
    ref_ramp(c, 1, 5, 7, DIMS(2, 3));
    ref_ramp(c, 2, 3, 5, DIMS(4, 2));
    ref_ramp(c, 3, 2, 5, DIMS(2));
    ref_ramp(c, 4, 4, 7, DIMS(4));
    c->p.attr.squeeze_excite.act = (struct kern_unary){KERN_SILU, 1, 0};
    c->p.epilogue.act.kind = KERN_SIGMOID;
    return c;
}

TEST(test_squeeze)
{
    static const float e[] = {0.33936749f, 0.57176014f, 0.37845191f,
                              0.6127831f,  0.34142816f, 0.56046484f,
                              0.39443937f, 0.61569042f};
    static const int64_t narrow[] = {2, 2}, wide[] = {4, 3};
    struct ref_case *c = new_squeeze();

    REF_EXPECT(c, e, 2, 4, 1, 1);
    c = new_squeeze();
    ref_out(c, INFER_F32, c->out, DIMS(2, 4, 2, 1));
    ref_refused(c, INFER_EUNSUPPORTED, "output has shape 2x4x2x1");
    c = new_squeeze();
    ref_out(c, INFER_F32, c->out, DIMS(2, 4, 1, 1));
    ref_ramp(c, 1, 5, 7, 2, narrow);
    ref_refused(c, INFER_EUNSUPPORTED, "weights take 2 and 2 values");
    c = new_squeeze();
    ref_out(c, INFER_F32, c->out, DIMS(2, 4, 1, 1));
    ref_ramp(c, 2, 5, 7, 2, wide);
    ref_refused(c, INFER_EUNSUPPORTED, "weights take 3 and 3 values");
    c = new_squeeze();
    ref_out(c, INFER_F32, c->out, DIMS(2, 4, 1, 1));
    ref_ramp(c, 4, 5, 7, DIMS(3));
    ref_refused(c, INFER_EUNSUPPORTED, "bias2 has shape 3");
    c = new_squeeze();
    ref_out(c, INFER_F32, c->out, DIMS(2, 4, 1, 1));
    c->p.attr.squeeze_excite.act.kind = KERN_UNARY_COUNT;
    ref_refused(c, INFER_EUNSUPPORTED, "unknown function");
}

TEST(test_lrn_odd)
{
    static const float e[] = {-0.69494265f, 0.27330509f, -0.26881233f,
                              0.68326273f,  0.13016148f, -0.40239419f,
                              0.54775812f,  0,           -0.55240673f,
                              0.42801967f};
    struct ref_case *c = ref_new(KERN_LRN);

    ref_ramp(c, 0, 7, 11, DIMS(1, 5, 1, 2));
    c->p.attr.lrn =
        (struct kern_lrn){.size = 5, .alpha = 0.5f, .beta = 0.75f, .bias = 2};
    REF_EXPECT(c, e, 1, 5, 1, 2);
}

TEST(test_lrn_even)
{
    static const float e[] = {-1.0673938f, 0.41143044f, -0.39716004f,
                              1.0285761f,  0.20664958f, -0.60356168f,
                              0.84195343f, 0,           -0.84589701f,
                              0.71273538f};
    struct ref_case *c = ref_new(KERN_LRN);

    ref_ramp(c, 0, 7, 11, DIMS(1, 5, 1, 2));
    c->p.attr.lrn =
        (struct kern_lrn){.size = 4, .alpha = 0.5f, .beta = 0.75f, .bias = 1};
    REF_EXPECT(c, e, 1, 5, 1, 2);
}

TEST(test_softmax)
{
    static const float e[] = {0.13160165f, 0.29381477f, 0.27860069f,
                              0.62200588f, 0.58979766f, 0.084179342f,
                              0.70331398f, 0.29381477f, 0.095183196f,
                              0.62200588f, 0.20150283f, 0.084179342f};
    struct ref_case *c = ref_new(KERN_SOFTMAX);

    ref_ramp(c, 0, 7, 11, DIMS(2, 3, 2));
    c->p.attr.softmax.axis = 1;
    REF_EXPECT(c, e, 2, 3, 2);
}

TEST(test_log_softmax)
{
    static const float e[] = {-2.3502066f,  -0.47407698f, -0.47407698f,
                              -0.47407698f, -0.47407698f, -0.47407698f,
                              -0.10020656f, -0.97407698f, -0.97407698f,
                              -0.97407698f, -0.97407698f, -0.97407698f};
    struct ref_case *c = ref_new(KERN_SOFTMAX);

    ref_ramp(c, 0, 7, 11, DIMS(2, 3, 2));
    c->p.attr.softmax.log = true;
    REF_EXPECT(c, e, 2, 3, 2);
}

struct unary_case {
    enum kern_unary_kind kind;
    float e[7];
};

TEST(test_unary)
{
    static const float x[] = {-3, -1, -0.5f, 0, 0.5f, 1, 4};
    static const struct {
        enum kern_unary_kind kind;
        float a, b;
    } parameters[] = {
        {KERN_LEAKY_RELU, 0.1f, 0}, {KERN_CLIP, -0.75f, 2},
        {KERN_SILU, 1, 0},          {KERN_HARD_SIGMOID, 0.2f, 0.5f},
        {KERN_ELU, 0.5f, 0},        {KERN_SELU, 1.67326319f, 1.05070102f},
        {KERN_CELU, 2, 0},          {KERN_THRESHOLDED_RELU, 0.5f, 0},
        {KERN_LINEAR, 2, -1},
    };
    static const struct unary_case cases[] = {
        {KERN_IDENTITY, {-3, -1, -0.5f, 0, 0.5f, 1, 4}},
        {KERN_RELU, {0, 0, 0, 0, 0.5f, 1, 4}},
        {KERN_LEAKY_RELU, {-0.3f, -0.1f, -0.05f, 0, 0.5f, 1, 4}},
        {KERN_CLIP, {-0.75f, -0.75f, -0.5f, 0, 0.5f, 1, 2}},
        {KERN_SIGMOID,
         {0.047425873f, 0.26894142f, 0.37754067f, 0.5f, 0.62245933f,
          0.73105858f, 0.98201379f}},
        {KERN_TANH,
         {-0.99505475f, -0.76159416f, -0.46211716f, 0, 0.46211716f, 0.76159416f,
          0.9993293f}},
        {KERN_SILU,
         {-0.14227762f, -0.26894142f, -0.18877033f, 0, 0.31122967f, 0.73105858f,
          3.9280552f}},
        {KERN_HARD_SIGMOID, {0, 0.3f, 0.4f, 0.5f, 0.6f, 0.7f, 1}},
        {KERN_HARD_SWISH,
         {-0, -0.33333333f, -0.20833333f, 0, 0.29166667f, 0.66666667f, 4}},
        {KERN_ELU, {-0.47510647f, -0.31606028f, -0.19673467f, 0, 0.5f, 1, 4}},
        {KERN_SELU,
         {-1.6705687f, -1.1113307f, -0.69175819f, 0, 0.52535049f, 1.050701f,
          4.2028039f}},
        {KERN_CELU, {-1.5537397f, -0.78693868f, -0.44239843f, 0, 0.5f, 1, 4}},
        {KERN_SOFTPLUS,
         {0.048587352f, 0.31326169f, 0.47407698f, 0.69314718f, 0.97407698f,
          1.3132617f, 4.0181499f}},
        {KERN_SOFTSIGN,
         {-0.75f, -0.5f, -0.33333333f, 0, 0.33333333f, 0.5f, 0.8f}},
        {KERN_MISH,
         {-0.14564746f, -0.30340146f, -0.22074377f, 0, 0.37524521f, 0.86509839f,
          3.9974128f}},
        {KERN_GELU,
         {-0.0040496941f, -0.15865525f, -0.15426877f, 0, 0.34573123f,
          0.84134475f, 3.9998733f}},
        {KERN_GELU_TANH,
         {-0.0036373921f, -0.15880801f, -0.15428599f, 0, 0.34571401f,
          0.84119199f, 3.9999298f}},
        {KERN_THRESHOLDED_RELU, {0, 0, 0, 0, 0, 1, 4}},
        {KERN_LINEAR, {-7, -3, -2, -1, 0, 1, 7}},
        {KERN_ERF,
         {-0.99997791f, -0.84270079f, -0.52049988f, 0, 0.52049988f, 0.84270079f,
          0.99999998f}},
        {KERN_EXP,
         {0.049787068f, 0.36787944f, 0.60653066f, 1, 1.6487213f, 2.7182818f,
          54.59815f}},
        {KERN_ABS, {3, 1, 0.5f, 0, 0.5f, 1, 4}},
        {KERN_NEG, {3, 1, 0.5f, -0, -0.5f, -1, -4}},
        {KERN_SIGN, {-1, -1, -1, 0, 1, 1, 1}},
        {KERN_FLOOR, {-3, -1, -1, 0, 0, 1, 4}},
        {KERN_CEIL, {-3, -1, -0, 0, 1, 1, 4}},
        {KERN_ROUND, {-3, -1, -0, 0, 0, 1, 4}},
        {KERN_NOT, {0, 0, 0, 1, 0, 0, 0}},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct ref_case *c = ref_new(KERN_UNARY);
        c->p.attr.unary.kind = cases[i].kind;
        for (size_t j = 0; j < COUNT(parameters); j++)
            if (parameters[j].kind == cases[i].kind) {
                c->p.attr.unary.a = parameters[j].a;
                c->p.attr.unary.b = parameters[j].b;
            }
        ref_in(c, 0, x, DIMS(7));
        ref_expect(c, cases[i].e, 7, DIMS(7));
    }
}

TEST(test_unary_positive)
{
    static const float x[] = {0.25f, 1, 2, 9};
    static const enum kern_unary_kind kinds[] = {KERN_LOG, KERN_SQRT,
                                                 KERN_RECIPROCAL};
    static const float e[][4] = {
        {-1.3862944f, 0, 0.69314718f, 2.1972246f},
        {0.5f, 1, 1.4142136f, 3},
        {4, 1, 0.5f, 0.11111111f},
    };

    for (size_t i = 0; i < COUNT(kinds); i++) {
        struct ref_case *c = ref_new(KERN_UNARY);
        c->p.attr.unary.kind = kinds[i];
        ref_in(c, 0, x, DIMS(4));
        ref_expect(c, e[i], 4, DIMS(4));
    }
}

TEST(test_reduce)
{
    static const float e[KERN_REDUCE_KIND_COUNT][3] = {
        [KERN_REDUCE_MEAN] = {0.0625f, 0.125f, -0.5f},
        [KERN_REDUCE_SUM] = {0.25f, 0.5f, -2},
        [KERN_REDUCE_MAX] = {1, 1.25f, 0.25f},
        [KERN_REDUCE_MIN] = {-1.25f, -1, -1.25f},
        [KERN_REDUCE_PROD] = {0, 0.46875f, -0.05859375f},
        [KERN_REDUCE_L1] = {2.75f, 3.5f, 2.5f},
        [KERN_REDUCE_L2] = {1.677051f, 1.8371173f, 1.5f},
    };

    for (int kind = 0; kind < KERN_REDUCE_KIND_COUNT; kind++) {
        struct ref_case *c = ref_new(KERN_REDUCE);
        c->p.attr.reduce.kind = (enum kern_reduce_kind)kind;
        c->p.attr.reduce.axes = 5;
        ref_ramp(c, 0, 7, 11, DIMS(2, 3, 2));
        ref_expect(c, e[kind], 3, DIMS(1, 3, 1));
    }
}

/* numpy: the remainder has the divisor's sign; comparisons give 0 and 1. */
TEST(test_binary)
{
    static const float a[] = {-7, 2, 0}, b[] = {2, -3};
    static const struct {
        enum kern_binary_kind kind;
        float e[6]; /* rows a, columns b */
    } cases[] = {
        {KERN_ADD, {-5, -10, 4, -1, 2, -3}},
        {KERN_SUB, {-9, -4, 0, 5, -2, 3}},
        {KERN_MUL, {-14, 21, 4, -6, 0, 0}},
        {KERN_DIV, {-3.5f, 2.33333333f, 1, -0.66666667f, 0, 0}},
        {KERN_MIN, {-7, -7, 2, -3, 0, -3}},
        {KERN_MAX, {2, -3, 2, 2, 2, 0}},
        {KERN_MOD, {1, -1, 0, -1, 0, 0}},
        {KERN_EQUAL, {0, 0, 1, 0, 0, 0}},
        {KERN_LESS, {1, 1, 0, 0, 1, 0}},
        {KERN_LESS_EQUAL, {1, 1, 1, 0, 1, 0}},
        {KERN_GREATER, {0, 0, 0, 1, 0, 1}},
        {KERN_GREATER_EQUAL, {0, 0, 1, 1, 0, 1}},
        {KERN_AND, {1, 1, 1, 1, 0, 0}},
        {KERN_OR, {1, 1, 1, 1, 1, 1}},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct ref_case *c = ref_new(KERN_BINARY);
        c->p.attr.binary.kind = cases[i].kind;
        ref_in(c, 0, a, DIMS(3, 1));
        ref_in(c, 1, b, DIMS(2));
        ref_expect(c, cases[i].e, 6, DIMS(3, 2));
    }
}

TEST(test_power)
{
    static const float a[] = {2, 9, -2, 0}, b[] = {-1, 0.5f, 3, 0};
    static const float e[] = {0.5f, 3, -8, 1};
    struct ref_case *c = ref_new(KERN_BINARY);

    c->p.attr.binary.kind = KERN_POW;
    ref_in(c, 0, a, DIMS(4));
    ref_in(c, 1, b, DIMS(4));
    REF_EXPECT(c, e, 4);
}

/* Exact where double is not, wrapping where int64 is not enough, and never a
 * trap. */
TEST(test_binary_integers)
{
    static const int64_t big = INT64_C(9007199254740993); /* 2^53 + 1 */
    static const struct {
        enum kern_binary_kind kind;
        int64_t a, b, e;
    } cases[] = {
        {KERN_ADD, 9007199254740992, 1, 9007199254740993},
        {KERN_ADD, INT64_MAX, 1, INT64_MIN},
        {KERN_ADD, INT64_MIN, -1, INT64_MAX},
        {KERN_SUB, 0, INT64_MIN, INT64_MIN},
        {KERN_SUB, -2, INT64_MAX, INT64_MAX},
        {KERN_MUL, 3037000500, -3037000500, 9223372036709301616},
        {KERN_DIV, -7, 2, -3},
        {KERN_DIV, 5, 0, 0},
        {KERN_DIV, INT64_MIN, -1, INT64_MIN},
        {KERN_MOD, -7, 2, 1},
        {KERN_MOD, 7, -2, -1},
        {KERN_MOD, 7, 0, 0},
        {KERN_MOD, INT64_MIN, -1, 0},
        {KERN_POW, 3, 33, 5559060566555523},
        {KERN_POW, -2, 3, -8},
        {KERN_POW, 2, -1, 0},
        {KERN_POW, -1, -3, -1},
        {KERN_MAX, 9007199254740993, 9007199254740992, 9007199254740993},
    };

    assert_true(big == cases[0].e);
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct ref_case *c = ref_new(KERN_BINARY);
        int64_t out = 0;
        c->p.attr.binary.kind = cases[i].kind;
        ref_data(c, 0, INFER_I64, &cases[i].a, DIMS(1));
        ref_data(c, 1, INFER_I64, &cases[i].b, DIMS(1));
        ref_out(c, INFER_I64, &out, DIMS(1));
        assert_int_equal(ref_launch(c), 0);
        if (out != cases[i].e)
            fail_msg("case %d: %lld, expected %lld", (int)i, (long long)out,
                     (long long)cases[i].e);
        free(c);
    }
}

TEST(test_prelu_where)
{
    static const float x[] = {-2, 3, -4, 5}, slope[] = {0.5f, 2};
    static const float prelu[] = {-1, 3, -8, 5};
    static const uint8_t condition[] = {1, 0};
    static const float b[] = {9};
    static const float where[] = {-2, 9, -4, 9};
    struct ref_case *c = ref_new(KERN_PRELU);

    ref_in(c, 0, x, DIMS(1, 2, 2));
    ref_in(c, 1, slope, DIMS(2, 1));
    REF_EXPECT(c, prelu, 1, 2, 2);
    c = ref_new(KERN_WHERE);
    ref_data(c, 0, INFER_BOOL, condition, DIMS(2));
    ref_in(c, 1, x, DIMS(2, 2));
    ref_in(c, 2, b, DIMS(1));
    REF_EXPECT(c, where, 2, 2);
}

TEST(test_arg_reduce)
{
    static const float x[] = {3, 1, 3, 1, 2, 2};
    static const int64_t e[4][2] = {{0, 1}, {2, 2}, {1, 0}, {1, 0}};

    for (int i = 0; i < 4; i++) {
        struct ref_case *c = ref_new(KERN_ARG_REDUCE);
        int64_t out[2] = {-1, -1};
        c->p.attr.arg_reduce.axis = 1;
        c->p.attr.arg_reduce.min = i >= 2;
        c->p.attr.arg_reduce.select_last = i % 2;
        ref_in(c, 0, x, DIMS(2, 3));
        ref_out(c, INFER_I64, out, DIMS(2, 1));
        assert_int_equal(ref_launch(c), 0);
        assert_memory_equal(out, e[i], sizeof(out));
        free(c);
    }
}

TEST(test_gather)
{
    static const float x[] = {1, 2, 3, 4, 5, 6};
    static const int64_t list[] = {2, -3, -1, 0};
    static const float e[] = {3, 1, 3, 1, 6, 4, 6, 4};
    struct ref_case *c = ref_new(KERN_GATHER);

    c->p.attr.gather.axis = 1;
    ref_in(c, 0, x, DIMS(2, 3));
    ref_data(c, 1, INFER_I64, list, DIMS(2, 2));
    REF_EXPECT(c, e, 2, 2, 2);
}

/* An index outside is named; nothing is read there. */
TEST(test_gather_outside)
{
    static const float x[] = {1, 2, 3};
    static const int32_t lists[] = {3, -4};
    static const char *const words[] = {"index 3 ", "index -4 "};

    for (int i = 0; i < 2; i++) {
        struct ref_case *c = ref_new(KERN_GATHER);
        ref_in(c, 0, x, DIMS(3));
        ref_data(c, 1, INFER_I32, &lists[i], DIMS(1));
        ref_out(c, INFER_F32, c->out, DIMS(1));
        ref_refused(c, INFER_EARGUMENT, words[i]);
    }
}

TEST(test_pad)
{
    static const float x[] = {1, 2, 3, 4};
    static const float constant[] = {7, 7, 1, 2, 3};
    static const float reflect[] = {2, 3, 4, 3, 2, 1, 2, 3, 4, 3, 2, 1, 2};
    static const float edge[] = {1, 1, 1, 2, 3, 4, 4};
    static const float wrap[] = {4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2};
    static const struct {
        enum kern_pad_mode mode;
        int begin, end;
        const float *e;
    } cases[] = {
        {KERN_PAD_CONSTANT, 2, -1, constant},
        {KERN_PAD_REFLECT, 5, 4, reflect},
        {KERN_PAD_EDGE, 2, 1, edge},
        {KERN_PAD_WRAP, 5, 2, wrap},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct ref_case *c = ref_new(KERN_PAD);
        const int64_t n = 4 + cases[i].begin + cases[i].end;
        c->p.attr.pad.mode = cases[i].mode;
        c->p.attr.pad.begin[0] = cases[i].begin;
        c->p.attr.pad.end[0] = cases[i].end;
        c->p.attr.pad.value = 7;
        ref_in(c, 0, x, DIMS(4));
        ref_expect(c, cases[i].e, (size_t)n, DIMS(n));
    }
}

/* Truncation toward zero, saturation, truth. */
TEST(test_copy_types)
{
    static const float x[] = {-1.75f, 1.75f, 300, 0};
    static const uint8_t bytes[] = {0, 1, 255, 0}, truth[] = {1, 1, 1, 0};
    static const int32_t words[] = {-1, 1, 300, 0};
    unsigned char out[16];
    struct ref_case *c = ref_new(KERN_COPY);

    ref_in(c, 0, x, DIMS(4));
    ref_out(c, INFER_U8, out, DIMS(4));
    assert_int_equal(ref_launch(c), 0);
    assert_memory_equal(out, bytes, 4);
    ref_out(c, INFER_BOOL, out, DIMS(4));
    assert_int_equal(ref_launch(c), 0);
    assert_memory_equal(out, truth, 4);
    ref_out(c, INFER_I32, out, DIMS(4));
    assert_int_equal(ref_launch(c), 0);
    assert_memory_equal(out, words, 16);
    free(c);
}

/* Reversed, transposed and repeated views of 1 2 3 4 5 6. */
TEST(test_copy_strides)
{
    static const float x[] = {1, 2, 3, 4, 5, 6};
    static const float reversed[] = {6, 5, 4, 3, 2, 1};
    static const float transposed[] = {1, 4, 2, 5, 3, 6};
    static const float repeated[] = {1, 1, 2, 2, 3, 3};
    struct ref_case *c = ref_new(KERN_COPY);

    ref_in(c, 0, x + 5, DIMS(6));
    c->p.in[0].stride[0] = -1;
    REF_EXPECT(c, reversed, 6);
    c = ref_new(KERN_COPY);
    ref_in(c, 0, x, DIMS(3, 2));
    c->p.in[0].stride[0] = 1;
    c->p.in[0].stride[1] = 3;
    REF_EXPECT(c, transposed, 3, 2);
    c = ref_new(KERN_COPY);
    ref_in(c, 0, x, DIMS(3, 2));
    c->p.in[0].stride[0] = 1;
    c->p.in[0].stride[1] = 0;
    REF_EXPECT(c, repeated, 3, 2);
}

/* Far below 0, where the stated g of SiLU and its kin is exp(-60) and not 0. */
TEST(test_smooth_far)
{
    static const enum kern_unary_kind kinds[] = {
        KERN_SILU, KERN_GELU, KERN_GELU_TANH, KERN_HARD_SWISH};
    static const float far[] = {-100,   -1e15f, -1e20f,
                                -1e25f, -3e38f, -INFINITY};

    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        const struct kern_unary f = {.kind = kinds[k], .a = 1};

        for (size_t i = 0; i < sizeof far / sizeof far[0]; i++)
            assert_float_equal(quant_act(&f, far[i]), 0, 2e-8);
        assert_float_equal(quant_act(&f, 1e25f), 1e25f, 1e18f);
        assert_true(isnan(quant_act(&f, NAN)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batch_norm),
        cmocka_unit_test(test_layer_norm),
        cmocka_unit_test(test_rms_norm),
        cmocka_unit_test(test_group_norm),
        cmocka_unit_test(test_squeeze),
        cmocka_unit_test(test_lrn_odd),
        cmocka_unit_test(test_lrn_even),
        cmocka_unit_test(test_softmax),
        cmocka_unit_test(test_log_softmax),
        cmocka_unit_test(test_unary),
        cmocka_unit_test(test_unary_positive),
        cmocka_unit_test(test_reduce),
        cmocka_unit_test(test_binary),
        cmocka_unit_test(test_power),
        cmocka_unit_test(test_binary_integers),
        cmocka_unit_test(test_prelu_where),
        cmocka_unit_test(test_arg_reduce),
        cmocka_unit_test(test_gather),
        cmocka_unit_test(test_gather_outside),
        cmocka_unit_test(test_pad),
        cmocka_unit_test(test_copy_types),
        cmocka_unit_test(test_copy_strides),
        cmocka_unit_test(test_smooth_far),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
