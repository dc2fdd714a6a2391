/* SPDX-License-Identifier: Apache-2.0 */
/* Window operations and products of the reference, and batch norm on the
 * partial statistics of a convolution.  The expected values were computed with
 * PyTorch from the same inputs. */
#include "kernels/input_scale.h"
#include "tests/unit/kernels/ref_case.h"

TEST(test_conv2d)
{
    static const float e[] = {
        0,       0,       0,       0,       0.4375f, 0,       0.4375f, 0,
        0,       0.3125f, 0,       0,       2.3125f, 0.8125f, 0.6875f, 0,
        0.9375f, 3.25f,   0.0625f, 1.0625f, 0,       0.8125f, 1.1875f, 0,
        0,       1.25f,   0,       0,       2.5625f, 0,       0,       0,
        0.625f,  0.1875f, 0.4375f, 0,       0.8125f, 0.0625f, 0,       0.3125f,
        0,       1.25f,   0.9375f, 1.3125f, 0,       1.1875f, 0.9375f, 0.75f};
    struct ref_case *c = ref_new(KERN_CONV_FPROP);

    ref_ramp(c, 0, 7, 11, DIMS(1, 4, 4, 5));
    ref_ramp(c, 1, 5, 7, DIMS(4, 2, 3, 2));
    ref_ramp(c, 2, 3, 5, DIMS(4));
    c->p.attr.conv = (struct kern_conv){.groups = 2,
                                        .stride = {2, 1},
                                        .dilation = {1, 2},
                                        .pad_begin = {1, 0},
                                        .pad_end = {2, 1}};
    c->p.epilogue.act.kind = KERN_RELU;
    REF_EXPECT(c, e, 1, 4, 3, 4);
}

TEST(test_conv1d)
{
    static const float e[] = {0.25f,    0.4375f,  2,       -1.375f,  0.125f,
                              -1.0625f, -1.25f,   1.125f,  0.4375f,  0.9375f,
                              -1,       0.125f,   0,       -1.1875f, -1.6875f,
                              2.0625f,  0.25f,    1.9375f, -1.6875f, -0.8125f,
                              -0.375f,  -1.0625f, 1.8125f, -1.0625f};
    struct ref_case *c = ref_new(KERN_CONV_FPROP);

    ref_ramp(c, 0, 7, 11, DIMS(2, 2, 6));
    ref_ramp(c, 1, 5, 7, DIMS(3, 2, 3));
    c->p.attr.conv = (struct kern_conv){.groups = 1,
                                        .stride = {2},
                                        .dilation = {1},
                                        .pad_begin = {2},
                                        .pad_end = {1}};
    REF_EXPECT(c, e, 2, 3, 4);
}

TEST(test_conv3d)
{
    static const float e[] = {-0.625f, 0.3125f,  1.5f,    0.375f,
                              0.125f,  -1.6875f, -1.875f, -0.9375f,
                              1.25f,   -0.25f,   0.875f,  0.0625f,
                              0.5625f, -0.3125f, 0.6875f, -0.1875f};
    struct ref_case *c = ref_new(KERN_CONV_FPROP);

    ref_ramp(c, 0, 7, 11, DIMS(1, 2, 3, 3, 3));
    ref_ramp(c, 1, 5, 7, DIMS(2, 2, 2, 2, 2));
    c->p.attr.conv = (struct kern_conv){.groups = 1,
                                        .stride = {2, 1, 1},
                                        .dilation = {1, 1, 1},
                                        .pad_begin = {1, 0, 0},
                                        .pad_end = {1, 0, 0}};
    REF_EXPECT(c, e, 1, 2, 2, 2, 2);
}

TEST(test_depthwise)
{
    static const float e[] = {1.0625f,  -0.25f,   -0.8125f, -0.0625f,
                              0.75f,    -1.3125f, 0.75f,    -0.625f,
                              -0.8125f, 0.5f,     1.0625f,  -1.0625f};
    struct ref_case *c = ref_new(KERN_CONV_FPROP);

    ref_ramp(c, 0, 7, 11, DIMS(1, 3, 3, 3));
    ref_ramp(c, 1, 5, 7, DIMS(3, 1, 2, 2));
    c->p.attr.conv =
        (struct kern_conv){.groups = 3, .stride = {1, 1}, .dilation = {1, 1}};
    REF_EXPECT(c, e, 1, 3, 2, 2);
}

TEST(test_conv_transpose)
{
    static const float e[] = {
        0,        -0.5f, 0.125f,  -0.5f, -1.25f,   -0.5f, -0.25f,
        -3.0625f, -0.5f, 0.25f,   -0.5f, 0.9375f,  -0.5f, -0.8125f,
        -0.125f,  -0.5f, -1.25f,  -0.5f, -1.25f,   -0.5f, -0.125f,
        0.0625f,  -0.5f, 0.6875f, -0.5f, -0.5625f, -0.5f, -1.625f,
        -0.125f,  0.25f, 1.125f,  0.25f, -0.375f,  0.25f, 0.3125f,
        0.125f,   0.25f, -1.75f,  0.25f, 1.375f,   0.25f, -0.5f,
        0.125f,   0.25f, 1.4375f, 0.25f, -0.0625f, 0.25f, 0.375f,
        0.125f,   0.25f, -0.5f,   0.25f, 0.875f,   0.25f, -0.25f};
    struct ref_case *c = ref_new(KERN_CONV_TRANSPOSE_FPROP);

    ref_ramp(c, 0, 7, 11, DIMS(1, 4, 2, 3));
    ref_ramp(c, 1, 5, 7, DIMS(4, 1, 3, 2));
    ref_ramp(c, 2, 3, 5, DIMS(2));
    c->p.attr.conv = (struct kern_conv){.groups = 2,
                                        .stride = {2, 2},
                                        .dilation = {1, 2},
                                        .pad_begin = {1, 0},
                                        .pad_end = {1, 0}};
    REF_EXPECT(c, e, 1, 2, 4, 7);
}

TEST(test_dense)
{
    static const float e[] = {0.6875f,  1.125f,  -0.5625f, -0.125f,
                              -1.3125f, -0.375f, -1.125f,  -0.1875f};
    struct ref_case *c = ref_new(KERN_DENSE_FPROP);

    ref_ramp(c, 0, 7, 11, DIMS(2, 3));
    ref_ramp(c, 1, 5, 7, DIMS(4, 3));
    ref_ramp(c, 2, 3, 5, DIMS(4));
    REF_EXPECT(c, e, 2, 4);
}

TEST(test_matmul)
{
    static const float e[] = {
        0.5625f, -1,    -1.5f, 0.3125f, 0.8125f, 0.5625f, 0.1875f, -1.5f,
        -1.5f,   0.25f, -1.5f, 0.1875f, 0.25f,   -1.5f,   0.3125f, -1.5f};
    struct ref_case *c = ref_new(KERN_MATMUL);

    ref_ramp(c, 0, 7, 11, DIMS(2, 1, 2, 3));
    ref_ramp(c, 1, 5, 7, DIMS(2, 3, 2));
    c->p.attr.matmul.alpha = 1;
    REF_EXPECT(c, e, 2, 2, 2, 2);
}

/* A pool over 5x5 pixels (or fewer), with the same numbers in both dimensions.
 */
static struct ref_case *new_pool(enum kern_pool_kind kind, int window,
                                 int stride, int dilation, int pad)
{
    struct ref_case *c = ref_new(KERN_POOL_FPROP);

    ref_ramp(c, 0, 7, 11, DIMS(1, 1, 5, 5));
    c->p.attr.pool = (struct kern_pool){.kind = kind,
                                        .window = {window, window},
                                        .stride = {stride, stride},
                                        .dilation = {dilation, dilation},
                                        .pad_begin = {pad, pad},
                                        .pad_end = {pad, pad}};
    return c;
}

TEST(test_pool_max)
{
    static const float e[] = {1, 1.25f, 1.25f, 1, 1, 1.25f, 0.75f, 1, 0.5f};
    struct ref_case *c = new_pool(KERN_POOL_MAX, 3, 2, 1, 1);

    REF_EXPECT(c, e, 1, 1, 3, 3);
}

TEST(test_pool_max_ceil)
{
    static const float e[] = {1, 1.25f, 0.25f, 1, 0.75f, 0.5f};
    struct ref_case *c = new_pool(KERN_POOL_MAX, 2, 2, 1, 0);

    c->p.in[0].dim[3] = 4;
    REF_EXPECT(c, e, 1, 1, 3, 2);
}

TEST(test_pool_max_dilation)
{
    static const float e[] = {0.5f, 1.25f, 1.25f, 1, 1, 1, 0.75f, 0.5f, 1.25f};
    struct ref_case *c = new_pool(KERN_POOL_MAX, 2, 1, 2, 0);

    REF_EXPECT(c, e, 1, 1, 3, 3);
}

TEST(test_pool_average)
{
    static const float e[] = {
        -0.125f,       0.20833333f, 0.3125f, -0.29166667f, -0.11111111f,
        -0.083333333f, 0,           -0.125f, -0.25f};
    struct ref_case *c = new_pool(KERN_POOL_AVERAGE, 3, 2, 1, 1);

    REF_EXPECT(c, e, 1, 1, 3, 3);
}

TEST(test_pool_average_pad)
{
    static const float e[] = {
        -0.055555556f, 0.13888889f, 0.13888889f,   -0.19444444f, -0.11111111f,
        -0.055555556f, 0,           -0.083333333f, -0.11111111f};
    struct ref_case *c = new_pool(KERN_POOL_AVERAGE, 3, 2, 1, 1);

    c->p.attr.pool.count_include_pad = true;
    REF_EXPECT(c, e, 1, 1, 3, 3);
}

TEST(test_pool_average_ceil)
{
    static const float e[] = {-0.055555556f, 0.13888889f,  0.041666667f,
                              -0.19444444f,  -0.11111111f, -0.25f,
                              -0.083333333f, 0.041666667f, 0};
    struct ref_case *c = new_pool(KERN_POOL_AVERAGE, 3, 2, 1, 1);

    c->p.in[0].dim[3] = 4;
    c->p.in[0].dim[2] = 4;
    c->p.attr.pool.count_include_pad = true;
    REF_EXPECT(c, e, 1, 1, 3, 3);
}

/* y = act(x W^T + bias + r), and act(...) + r with residual_last. */
TEST(test_epilogue_order)
{
    static const float x[] = {1, 2}, w[] = {1, 1, -1, -1}, bias[] = {1, -1};
    static const float r[] = {-5, 5};
    static const float inside[] = {0, 1}, after[] = {-1, 5};

    for (int last = 0; last < 2; last++) {
        struct ref_case *c = ref_new(KERN_DENSE_FPROP);
        ref_in(c, 0, x, DIMS(1, 2));
        ref_in(c, 1, w, DIMS(2, 2));
        ref_in(c, 2, bias, DIMS(2));
        ref_in(c, 3, r, DIMS(1, 2));
        c->p.epilogue.act.kind = KERN_RELU;
        c->p.epilogue.residual_last = last == 1;
        ref_expect(c, last ? after : inside, 2, DIMS(1, 2));
    }
}

/* A window that holds nothing gives 0. */
TEST(test_pool_empty_window)
{
    static const float x[] = {-3}, e[] = {0, -3, 0};

    for (int kind = 0; kind < 2; kind++) {
        struct ref_case *c = ref_new(KERN_POOL_FPROP);
        ref_in(c, 0, x, DIMS(1, 1, 1));
        c->p.attr.pool = (struct kern_pool){.kind = (enum kern_pool_kind)kind,
                                            .window = {1},
                                            .stride = {1},
                                            .dilation = {1},
                                            .pad_begin = {1},
                                            .pad_end = {1}};
        REF_EXPECT(c, e, 1, 1, 3);
    }
}

/* Vectors count as a row and as a column; alpha scales. */
TEST(test_matmul_vectors)
{
    static const float m[] = {1, 2, 3, 4}, v[] = {10, 100};
    static const float row[] = {155, 210}, column[] = {105, 215};
    static const float dot[] = {5050}, transposed[] = {155, 210};
    struct ref_case *c = ref_new(KERN_MATMUL);

    c->p.attr.matmul.alpha = 0.5f;
    ref_in(c, 0, v, DIMS(2));
    ref_in(c, 1, m, DIMS(2, 2));
    REF_EXPECT(c, row, 2);
    c = ref_new(KERN_MATMUL);
    c->p.attr.matmul.alpha = 0.5f;
    ref_in(c, 0, m, DIMS(2, 2));
    ref_in(c, 1, v, DIMS(2));
    REF_EXPECT(c, column, 2);
    c = ref_new(KERN_MATMUL);
    c->p.attr.matmul.alpha = 0.5f;
    c->p.attr.matmul.transpose_a = true;
    ref_in(c, 0, m, DIMS(2, 2));
    ref_in(c, 1, v, DIMS(2));
    REF_EXPECT(c, transposed, 2);
    c = ref_new(KERN_MATMUL);
    c->p.attr.matmul.alpha = 0.5f;
    ref_in(c, 0, v, DIMS(2));
    ref_in(c, 1, v, DIMS(2));
    ref_out(c, INFER_F32, c->out, 0, NULL);
    assert_int_equal(ref_launch(c), 0);
    assert_float_equal(c->out[0], dot[0], 0);
    free(c);
}

/* ---- input scale --------------------------------------------------- */

/* Two images of two channels, one pixel and one pixel of padding; windows of
 * two.  The input is scaled before the sums. */
TEST(test_input_scale)
{
    static const float x[] = {1, 2, 3, 4}, w[] = {1, 10, 100, 1000};
    static const float scale[] = {2, 3, 5, -7};
    static const float e[] = {6020, 602, -27850, -2785};
    float y[4];
    struct ref_case *c = ref_new(KERN_CONV_FPROP);

    ref_in(c, 0, x, DIMS(2, 2, 1));
    ref_in(c, 1, w, DIMS(1, 2, 2));
    ref_in(c, INPUT_SCALE_IN, scale, DIMS(2, 2, 1));
    c->p.attr.conv = (struct kern_conv){.groups = 1,
                                        .stride = {1},
                                        .dilation = {1},
                                        .pad_begin = {1},
                                        .pad_end = {1}};
    ref_out(c, INFER_F32, y, DIMS(2, 1, 2));
    if (ref_launch(c) < 0)
        fail_msg("%s", c->err.text);
    assert_memory_equal(y, e, sizeof(e));
    c->p.in[INPUT_SCALE_IN].dim[2] = 2;
    ref_refused(c, INFER_EUNSUPPORTED, "factors has shape 2x2x2");
}

/* ---- bn_stats ------------------------------------------------------- */

/* Two channels of 2x2x3 pixels in blocks of 8: 1 2 .. 12, and their squares
 * less
 * 50.  The 1x1 window is the identity. */
static struct ref_case *make_bn_stats(float *y, float *bn_stats)
{
    static const float w[] = {1, 0, 0, 1};
    struct ref_case *c = ref_new(KERN_CONV_FPROP);

    for (int i = 0; i < 12; i++) {
        float *to = c->in[0] + i / 6 * 12 + i % 6;
        to[0] = (float)(i + 1);
        to[6] = (float)((i + 1) * (i + 1) - 50);
    }
    ref_in(c, 0, c->in[0], DIMS(2, 2, 2, 3));
    ref_in(c, 1, w, DIMS(2, 2, 1, 1));
    c->p.attr.conv =
        (struct kern_conv){.groups = 1, .stride = {1, 1}, .dilation = {1, 1}};
    ref_out(c, INFER_F32, y, DIMS(2, 2, 2, 3));
    c->p.out[1] = kern_tensor_dense(INFER_F32, DIMS(2, 2, 2), KERN_NCHW);
    c->args.out[1] = bn_stats;
    c->p.n_out = 2;
    return c;
}

TEST(test_bn_stats)
{
    /* Mean and squares of 1..8, then of 9..12. */
    static const float e[] = {4.5f, -24.5f, 42, 3570, 10.5f, 61.5f, 5, 2209};
    float y[24], bn_stats[8];
    struct ref_case *c = make_bn_stats(y, bn_stats);

    if (ref_launch(c) < 0)
        fail_msg("%s", c->err.text);
    assert_memory_equal(bn_stats, e, sizeof(e));
    c->p.out[1].dim[0] = 5; /* of 4, 4 and 4 pixels */
    ref_refused(c, INFER_EUNSUPPORTED, "no moments of 5 parts");
}

/* Batch norm gives the same from partial statistics as from the tensor. */
TEST(test_bn_stats_joined)
{
    static const float ones[] = {1, 1}, zeros[] = {0, 0};
    float y[24], bn_stats[8], norm[2][24], mean[2][2], inverse[2][2];
    struct ref_case *c = make_bn_stats(y, bn_stats);

    assert_int_equal(ref_launch(c), 0);
    free(c);
    for (int i = 0; i < 2; i++) {
        c = ref_new(KERN_BATCH_NORM_TRAIN);
        ref_in(c, 0, y, DIMS(2, 2, 2, 3));
        ref_in(c, 1, ones, DIMS(2));
        ref_in(c, 2, zeros, DIMS(2));
        if (i == 1)
            ref_in(c, 6, bn_stats, DIMS(2, 2, 2));
        ref_out(c, INFER_F32, norm[i], DIMS(2, 2, 2, 3));
        c->p.out[1] = c->p.out[2] = c->p.in[1];
        c->args.out[1] = mean[i];
        c->args.out[2] = inverse[i];
        c->p.n_out = 3;
        if (ref_launch(c) < 0)
            fail_msg("%s", c->err.text);
        free(c);
    }
    for (int k = 0; k < 2; k++) {
        assert_float_equal(mean[0][k], mean[1][k], 1e-6);
        assert_float_equal(inverse[0][k], inverse[1][k], 1e-7);
    }
    for (int k = 0; k < 24; k++)
        assert_float_equal(norm[0][k], norm[1][k], 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conv2d),
        cmocka_unit_test(test_conv1d),
        cmocka_unit_test(test_conv3d),
        cmocka_unit_test(test_depthwise),
        cmocka_unit_test(test_conv_transpose),
        cmocka_unit_test(test_dense),
        cmocka_unit_test(test_matmul),
        cmocka_unit_test(test_pool_max),
        cmocka_unit_test(test_pool_max_ceil),
        cmocka_unit_test(test_pool_max_dilation),
        cmocka_unit_test(test_pool_average),
        cmocka_unit_test(test_pool_average_pad),
        cmocka_unit_test(test_pool_average_ceil),
        cmocka_unit_test(test_epilogue_order),
        cmocka_unit_test(test_pool_empty_window),
        cmocka_unit_test(test_matmul_vectors),
        cmocka_unit_test(test_input_scale),
        cmocka_unit_test(test_bn_stats),
        cmocka_unit_test(test_bn_stats_joined),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
