/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows on cuDNN as far as they go without a GPU: cuDNN makes plans for a
 * device that is only described.  Whether the results are right is for
 * checkkern, on a GPU.  Skipped where the library is not found.
 */
#include <string.h>

#include "kernels/backend.h"
#include "tests/unit/kernels/cudnn_pretend.h"

static const struct kern_device device = {
    .kind = KERN_CUDA, .sm = 90, .multiprocessors = 132};

/* 3x3, stride 1, pads as given, 64 channels of 56x56. */
static struct kern_problem conv3x3(enum infer_dtype dtype, int pad_begin,
                                   int pad_end)
{
    const int64_t x[] = {1, 64, 56, 56}, w[] = {64, 64, 3, 3}, k[] = {64};
    const int64_t extent = 56 + pad_begin + pad_end - 2;
    const int64_t y[] = {1, 64, extent, extent};
    struct kern_problem p;

    memset(&p, 0, sizeof(p));
    p.op = KERN_CONV_FPROP;
    p.n_in = 3;
    p.n_out = 1;
    p.in[0] = kern_tensor_dense(dtype, 4, x, KERN_NHWC);
    p.in[1] = kern_tensor_dense(dtype, 4, w, KERN_NCHW);
    p.in[2] = kern_tensor_dense(INFER_F32, 1, k, KERN_NCHW);
    p.out[0] = kern_tensor_dense(dtype, 4, y, KERN_NHWC);
    p.constant_in = 2 | 4;
    p.attr.conv.groups = 1;
    for (int i = 0; i < 2; i++) {
        p.attr.conv.stride[i] = 1;
        p.attr.conv.dilation[i] = 1;
        p.attr.conv.pad_begin[i] = pad_begin;
        p.attr.conv.pad_end[i] = pad_end;
    }
    p.epilogue.act.kind = KERN_RELU;
    return p;
}

static int supports(const char *name, const struct kern_problem *p,
                    struct infer_error *why)
{
    const struct kern_row *row = kern_row_find(name);

    assert_non_null(row);
    return kern_row_supports(row, p, &device, why);
}

/* What is missing is named, and so is the library that is there. */
TEST(test_library)
{
    struct infer_error why = {0};
    const char *text =
        kern_backend_of(INFER_BACKEND_CUDNN)->library[0].version(&why);

    if (text)
        assert_int_equal(strncmp(text, "cuDNN 9.", 8), 0);
    else
        assert_non_null(strstr(why.text, "not found"));
}

/* The engines that round the bias. */
TEST(test_variants)
{
    const struct kern_row *row =
        kern_row_find("conv_fprop_nhwc_f16_cudnn_bias16");
    const struct kern_problem p = conv3x3(INFER_F16, 1, 1);
    struct infer_error err = {0};
    struct kern_exec first, e;

    SKIP_WITHOUT_CUDNN();
    if (supports(row->name, &p, &err) < 0)
        fail_msg("%s", err.text);
    const int n = kern_variants(row, &p, &device, &err);
    assert_true(n > 1);
    assert_int_equal(kern_prepare(row, &p, &device, &err, &first), 0);
    assert_true(first.variant_name[0] != '\0');
    /* Weights and the bias in 16 bits. */
    assert_int_equal(first.packed[1], 64 * 64 * 9 * 2);
    assert_int_equal(first.packed[2], 64 * 2);
    assert_true(first.flags & KERN_ROUNDS_BIAS);
    for (int i = 1; i < n; i++) {
        const int rc = kern_prepare_variant(row, &p, &device, i, &err, &e);
        if (rc == INFER_EUNSUPPORTED)
            continue;
        assert_int_equal(rc, 0);
        assert_string_not_equal(e.variant_name, first.variant_name);
        kern_release(&e);
    }
    assert_int_equal(kern_prepare_variant(row, &p, &device, n, &err, &e),
                     INFER_EUNSUPPORTED);
    kern_release(&first);
}

/* Strict single precision gets no engine that rounds factors. */
TEST(test_precision)
{
    struct kern_problem p = conv3x3(INFER_F32, 1, 1);
    struct infer_error err = {0};
    struct kern_exec e;

    SKIP_WITHOUT_CUDNN();
    assert_int_equal(supports("conv_fprop_nhwc_tf32_cudnn", &p, &err),
                     INFER_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "TF32"));
    assert_int_equal(kern_prepare(kern_row_find("conv_fprop_nhwc_f32_cudnn"),
                                  &p, &device, &err, &e),
                     0);
    assert_false(e.flags & KERN_TF32);
    kern_release(&e);
    p.allow_tf32 = true;
    assert_int_equal(kern_prepare(kern_row_find("conv_fprop_nhwc_tf32_cudnn"),
                                  &p, &device, &err, &e),
                     0);
    assert_true(e.flags & KERN_TF32);
    kern_release(&e);
}

static void check_deterministic(const struct kern_row *row,
                                struct kern_problem *p)
{
    struct infer_error err = {0};
    struct kern_exec e;

    p->deterministic = true;
    const int n = kern_variants(row, p, &device, &err);
    assert_true(n > 0);
    for (int i = 0; i < n; i++)
        if (kern_prepare_variant(row, p, &device, i, &err, &e) == 0) {
            assert_false(e.flags & KERN_NONDETERMINISTIC);
            kern_release(&e);
        }
}

TEST(test_deterministic)
{
    struct kern_problem p = conv3x3(INFER_F32, 1, 1);

    SKIP_WITHOUT_CUDNN();
    check_deterministic(kern_row_find("conv_fprop_nhwc_f32_cudnn"), &p);
}

/* TensorFlow's pads, which differ at both ends. */
TEST(test_pads)
{
    const struct kern_problem p = conv3x3(INFER_F16, 0, 1);
    struct infer_error err = {0};

    SKIP_WITHOUT_CUDNN();
    assert_int_equal(supports("conv_fprop_nhwc_f16_cudnn_bias16", &p, &err), 0);
}

TEST(test_refusals)
{
    struct kern_problem p = conv3x3(INFER_F32, 1, 1);
    struct infer_error err = {0};

    SKIP_WITHOUT_CUDNN();
    p.epilogue.act.kind = KERN_TANH;
    assert_int_equal(supports("conv_fprop_nhwc_f32_cudnn", &p, &err),
                     INFER_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "tanh"));
    p = conv3x3(INFER_F32, 1, 1);
    p.epilogue.act.kind = KERN_ERF;
    assert_int_equal(supports("conv_fprop_nhwc_f32_cudnn", &p, &err),
                     INFER_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "activation"));
    p = conv3x3(INFER_F32, 1, 1);
    p.constant_in = 0;
    assert_int_equal(supports("conv_fprop_nhwc_f32_cudnn", &p, &err),
                     INFER_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "constant"));
}

/* The gradient of conv3x3()'s weights or input, without its epilogue. */
static struct kern_problem gradient(enum kern_op op, enum infer_dtype dtype,
                                    int pad_begin, int pad_end)
{
    const struct kern_problem conv = conv3x3(dtype, pad_begin, pad_end);
    const struct kern_tensor *w = &conv.in[1];
    struct kern_problem p = conv;

    memset(p.in, 0, sizeof(p.in));
    memset(&p.epilogue, 0, sizeof(p.epilogue));
    p.op = op;
    p.n_in = 2;
    p.constant_in = 0;
    if (op == KERN_CONV_WGRAD) {
        p.in[0] = conv.in[0];
        p.in[1] = conv.out[0];
        p.out[0] = kern_tensor_dense(dtype, 4, w->dim, KERN_NHWC);
    } else {
        p.in[0] = conv.out[0];
        p.in[1] = kern_tensor_dense(dtype, 4, w->dim, KERN_NHWC);
        p.out[0] = conv.in[0];
    }
    return p;
}

/* As training has them: weights that change, and their gradient, lie channels
 * last; nothing is packed. */
TEST(test_gradients)
{
    static const struct {
        enum kern_op op;
        const char *row;
    } rows[] = {{KERN_CONV_DGRAD, "conv_transpose_fprop_nhwc_f16_cudnn"},
                {KERN_CONV_WGRAD, "conv_wgrad_nhwc_f16_cudnn"}};
    struct infer_error err = {0};
    struct kern_exec e;

    SKIP_WITHOUT_CUDNN();
    for (int i = 0; i < 2; i++) {
        const struct kern_row *row = kern_row_find(rows[i].row);
        struct kern_problem p = gradient(rows[i].op, INFER_F16, 1, 1);
        struct kern_tensor *w = i ? &p.out[0] : &p.in[1];
        if (kern_prepare(row, &p, &device, &err, &e) < 0)
            fail_msg("%s", err.text);
        assert_int_equal(e.packed[1], 0);
        kern_release(&e);
        check_deterministic(row, &p);
        *w = kern_tensor_dense(INFER_F16, 4, w->dim, KERN_NCHW);
        assert_int_equal(supports(row->name, &p, &err), INFER_EUNSUPPORTED);
        assert_non_null(strstr(err.text, "channels last"));
    }
}

static bool offers(const struct kern_problem *p, const char *engine)
{
    const struct kern_row *row = kern_row_find("conv_wgrad_nhwc_f32_cudnn");
    const size_t length = strlen(engine);
    struct infer_error err = {0};
    bool found = false;
    struct kern_exec e;
    const int n = kern_variants(row, p, &device, &err);

    assert_true(n > 0);
    for (int i = 0; i < n; i++)
        if (kern_prepare_variant(row, p, &device, i, &err, &e) == 0) {
            found = found || (strncmp(e.variant_name, engine, length) == 0 &&
                              (e.variant_name[length] == '\0' ||
                               e.variant_name[length] == ' '));
            kern_release(&e);
        }
    return found;
}

/* Engines that compute with other pads than were asked for. */
TEST(test_faulty)
{
    const struct kern_problem even = gradient(KERN_CONV_WGRAD, INFER_F32, 1, 1);
    const struct kern_problem uneven =
        gradient(KERN_CONV_WGRAD, INFER_F32, 0, 1);

    SKIP_WITHOUT_CUDNN();
    assert_true(offers(&even, "eng1"));
    assert_false(offers(&uneven, "eng1"));
    assert_false(offers(&uneven, "eng20"));
}

TEST(test_rotation)
{
    const struct kern_row *row =
        kern_row_find("conv_fprop_nhwc_f16_cudnn_bias16");
    struct kern_problem p = conv3x3(INFER_F16, 1, 1);
    struct infer_error err = {0};
    struct kern_exec second, first;

    SKIP_WITHOUT_CUDNN();
    assert_int_equal(kern_prepare_variant(row, &p, &device, 1, &err, &second),
                     0);
    p.allow_tf32 = true; /* another problem, of the same engines */
    first_engine = 1;
    assert_int_equal(kern_prepare(row, &p, &device, &err, &first), 0);
    first_engine = 0;
    assert_string_equal(first.variant_name, second.variant_name);
    kern_release(&first);
    kern_release(&second);
}

/* Rows that are there to be compared with are marked so, and only a program
 * that asks for them has them. */
TEST(test_baselines)
{
    const char name[] = "conv2d_fprop_nhwc_f32_cudnn_implicit_gemm";

    assert_null(kern_row_find(name));
    kern_baseline_add();
    const struct kern_row *row = kern_row_find(name);
    assert_non_null(row);
    assert_ptr_equal(kern_row_at(kern_row_count()), NULL);
    assert_true(row->flags & KERN_BASELINE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_library),   cmocka_unit_test(test_variants),
        cmocka_unit_test(test_precision), cmocka_unit_test(test_deterministic),
        cmocka_unit_test(test_pads),      cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_gradients), cmocka_unit_test(test_faulty),
        cmocka_unit_test(test_rotation),  cmocka_unit_test(test_baselines),
    };

    return cmocka_run_group_tests(tests, cudnn_set_up, NULL);
}
