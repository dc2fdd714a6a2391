/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel table: tensors, figures, names, rows. */
#include "kernels/base/error.h"
#include "tests/unit/kernels/ref_case.h"

TEST(test_dense)
{
    const int64_t dim[] = {2, 3, 4, 5};
    const struct kern_tensor a =
        kern_tensor_dense(INFER_F32, 4, dim, KERN_NCHW);
    const struct kern_tensor b =
        kern_tensor_dense(INFER_F16, 4, dim, KERN_NHWC);
    const int64_t nchw[] = {60, 20, 5, 1}, nhwc[] = {60, 1, 15, 3};

    assert_memory_equal(a.stride, nchw, sizeof(nchw));
    assert_memory_equal(b.stride, nhwc, sizeof(nhwc));
    assert_true(kern_tensor_is_dense(&a, KERN_NCHW));
    assert_false(kern_tensor_is_dense(&a, KERN_NHWC));
    assert_true(kern_tensor_is_dense(&b, KERN_NHWC));
    assert_false(kern_tensor_is_dense(&b, KERN_NCHW));
    assert_int_equal(kern_tensor_count(&a), 120);
    assert_int_equal(kern_tensor_span(&a), 480);
    assert_int_equal(kern_tensor_span(&b), 240);
}

/* Where C or all of space is 1, and below rank 3, the layouts coincide; the
 * stride of a dimension of size 1 does not matter. */
TEST(test_dense_both)
{
    struct kern_tensor t =
        kern_tensor_dense(INFER_F32, 4, (int64_t[]){2, 7, 1, 1}, KERN_NHWC);
    const struct kern_tensor m =
        kern_tensor_dense(INFER_F32, 2, (int64_t[]){2, 7}, KERN_NHWC);

    t.stride[2] = 1234;
    assert_true(kern_tensor_is_dense(&t, KERN_NCHW));
    assert_true(kern_tensor_is_dense(&t, KERN_NHWC));
    assert_int_equal(m.stride[0], 7);
    assert_true(kern_tensor_is_dense(&m, KERN_NCHW));
    assert_true(kern_tensor_is_dense(&m, KERN_NHWC));
}

TEST(test_span)
{
    struct kern_tensor t =
        kern_tensor_dense(INFER_F32, 2, (int64_t[]){3, 4}, KERN_NCHW);

    t.stride[0] = -10;
    assert_int_equal(kern_tensor_span(&t), (20 + 3 + 1) * 4);
    t.stride[0] = 0;
    assert_int_equal(kern_tensor_span(&t), 16);
    t.dim[1] = 0;
    assert_int_equal(kern_tensor_span(&t), 0);
    t.rank = 0;
    assert_int_equal(kern_tensor_count(&t), 1);
    assert_int_equal(kern_tensor_span(&t), 4);
}

static struct kern_problem resnet_conv(void)
{
    struct kern_problem p = {.op = KERN_CONV_FPROP, .n_in = 2, .n_out = 1};

    p.in[0] =
        kern_tensor_dense(INFER_F32, 4, (int64_t[]){1, 64, 56, 56}, KERN_NHWC);
    p.in[1] =
        kern_tensor_dense(INFER_F32, 4, (int64_t[]){64, 64, 3, 3}, KERN_NCHW);
    p.out[0] = p.in[0];
    p.attr.conv = (struct kern_conv){.groups = 1,
                                     .stride = {1, 1},
                                     .dilation = {1, 1},
                                     .pad_begin = {1, 1},
                                     .pad_end = {1, 1}};
    return p;
}

TEST(test_figures)
{
    const struct kern_problem p = resnet_conv();

    assert_true(kern_problem_flops(&p) == 2.0 * 64 * 64 * 9 * 56 * 56);
    assert_true(kern_problem_bytes(&p) ==
                4.0 * (2 * 64 * 56 * 56 + 64 * 64 * 9));
}

TEST(test_format)
{
    struct kern_problem p = resnet_conv();
    char buf[128], small[8];

    assert_string_equal(kern_problem_format(&p, buf, sizeof(buf)),
                        "conv_fprop mb1ic64ih56oc64oh56kh3ph1 nhwc F32");
    p.in[0].dim[3] = 28;
    p.attr.conv.stride[1] = 2;
    p.attr.conv.dilation[0] = 2;
    p.epilogue.act.kind = KERN_RELU;
    assert_string_equal(kern_problem_format(&p, buf, sizeof(buf)),
                        "conv_fprop mb1ic64ih56iw28oc64oh56ow56kh3kw3sw2dh1"
                        "ph1pw1 +relu strided:nhwc F32");
    assert_string_equal(kern_problem_format(&p, small, sizeof(small)),
                        "conv_fp");
}

/* Every operation has a name and a reference; no two rows share one. */
TEST(test_table)
{
    assert_true(kern_row_count() >= KERN_OP_COUNT);
    assert_null(kern_row_at(kern_row_count()));
    assert_null(kern_row_find("no_such_row"));
    for (int op = 0; op < KERN_OP_COUNT; op++) {
        assert_non_null(kern_op_name((enum kern_op)op));
        assert_non_null(kern_reference_row((enum kern_op)op));
    }
    assert_string_equal(kern_op_name(KERN_OP_COUNT), "unknown");
    for (size_t i = 0; i < kern_row_count(); i++)
        assert_ptr_equal(kern_row_find(kern_row_at(i)->name), kern_row_at(i));
}

static int no_supports(const struct kern_problem *p,
                       const struct kern_device *d, struct infer_error *why)
{
    (void)p;
    (void)d;
    (void)why;
    return 0;
}

/* What holds for all rows is checked before a row is asked. */
TEST(test_row_checks)
{
    const struct kern_device cpu = {.kind = KERN_CPU, .threads = 1};
    const struct kern_device gpu = {.kind = KERN_CUDA, .sm = 80};
    const struct kern_functions fn = {.supports = no_supports};
    struct kern_row row = {.name = "row",
                           .op = KERN_CONV_FPROP,
                           .backend = INFER_BACKEND_REF,
                           .dtype = INFER_F32,
                           .fn = &fn};
    struct kern_problem p = resnet_conv();
    struct infer_error why;

    assert_int_equal(kern_row_supports(&row, &p, &cpu, &why), 0);
    assert_int_equal(kern_row_supports(&row, &p, &gpu, &why), -2);
    assert_non_null(strstr(why.text, "CPU only"));
    row.backend = INFER_BACKEND_CUDA;
    row.min_sm = 90;
    assert_int_equal(kern_row_supports(&row, &p, &cpu, &why), -2);
    assert_int_equal(kern_row_supports(&row, &p, &gpu, &why), -2);
    assert_non_null(strstr(why.text, "9.0"));
    row.min_sm = 80;
    assert_int_equal(kern_row_supports(&row, &p, &gpu, &why), 0);
    row.flags = KERN_NONDETERMINISTIC;
    assert_int_equal(kern_row_supports(&row, &p, &gpu, &why), 0);
    p.deterministic = true;
    assert_int_equal(kern_row_supports(&row, &p, &gpu, &why), -2);
    assert_non_null(strstr(why.text, "deterministic"));
    row.flags = 0;
    row.dtype = INFER_F16;
    assert_int_equal(kern_row_supports(&row, &p, &gpu, &why), -2);
    assert_non_null(strstr(why.text, "F16"));
    row.dtype = INFER_F32;
    row.op = KERN_UNARY;
    assert_int_equal(kern_row_supports(&row, &p, &gpu, &why), -2);
}

static int three_variants(const struct kern_problem *p,
                          const struct kern_device *d, struct infer_error *err)
{
    (void)p;
    (void)d;
    (void)err;
    return 3;
}

static int prepare_some(struct kern_exec *e, const struct kern_device *d,
                        struct infer_error *err)
{
    (void)d;
    if (e->variant >= 2)
        return error_set(err, INFER_EUNSUPPORTED, "variant %d is not for this",
                         e->variant);
    if (e->variant == 1)
        e->flags |= KERN_INEXACT;
    return 0;
}

/* A row without variants has the one numbered 0; with them, each is prepared
 * by its number and may be refused. */
TEST(test_variants)
{
    const struct kern_device cpu = {.kind = KERN_CPU, .threads = 1};
    const struct kern_problem p = resnet_conv();
    struct kern_functions fn = {.supports = no_supports};
    const struct kern_row row = {.name = "row",
                                 .op = KERN_CONV_FPROP,
                                 .backend = INFER_BACKEND_REF,
                                 .dtype = INFER_F32,
                                 .flags = KERN_STRIDED,
                                 .fn = &fn};
    struct kern_exec e;
    struct infer_error err;

    assert_int_equal(kern_variants(&row, &p, &cpu, &err), 1);
    assert_int_equal(kern_prepare_variant(&row, &p, &cpu, 0, &err, &e), 0);
    assert_int_equal(kern_prepare_variant(&row, &p, &cpu, 1, &err, &e), -2);
    assert_non_null(strstr(err.text, "variant 1"));
    fn.variants = three_variants;
    fn.prepare = prepare_some;
    assert_int_equal(kern_variants(&row, &p, &cpu, &err), 3);
    assert_int_equal(kern_prepare(&row, &p, &cpu, &err, &e), 0);
    assert_int_equal(e.variant, 0);
    assert_int_equal(e.flags, KERN_STRIDED);
    assert_int_equal(kern_prepare_variant(&row, &p, &cpu, 1, &err, &e), 0);
    assert_int_equal(e.variant, 1);
    assert_int_equal(e.flags, KERN_STRIDED | KERN_INEXACT);
    assert_int_equal(kern_prepare_variant(&row, &p, &cpu, 2, &err, &e), -2);
    assert_int_equal(kern_prepare_variant(&row, &p, &cpu, -1, &err, &e), -2);
}

TEST(test_release_zeroed)
{
    struct kern_exec e = {0};

    kern_release(&e);
    assert_null(e.row);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dense),
        cmocka_unit_test(test_dense_both),
        cmocka_unit_test(test_span),
        cmocka_unit_test(test_figures),
        cmocka_unit_test(test_format),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_row_checks),
        cmocka_unit_test(test_variants),
        cmocka_unit_test(test_release_zeroed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
