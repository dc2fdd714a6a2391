/* SPDX-License-Identifier: Apache-2.0 */
/* kbench: problems from words, from sweeps and from models. */

#include <string.h>

#include "kernels/base/text.h"
#include "tests/unit/test.h"
#include "tests/unit/tools/kbench_problem.h"

/* A printed line can be given back, and means the same. */
TEST(test_lines)
{
    static const char *const lines[] = {
        "conv_fprop mb32ic64ih56oc64oh56kh3ph1 nhwc F32",
        "conv_fprop mb1ic3ih224oc64oh112kh7sh2ph3 +bias +relu nhwc F32",
        "conv_fprop g32mb1ic32ih112oc32oh112kh3ph1 +bias +clip nhwc F32",
        "conv_fprop mb2ic8ih9iw17oc4oh9ow15kh3kw3ph1pw0 nhwc F32",
        "conv_fprop mb1ic8ih15oc4oh8kh3sh2dh3ph4 nhwc F32",
        "conv_fprop mb1ic4ih14oc8oh14kh1 +bias +residual +relu nhwc F32",
        "conv_fprop mb1ic4ih14oc8oh14kh1 +bias +silu +residual nhwc F32",
        "conv_fprop mb2ic8ih14oc8oh14kh1 +factors +bias nhwc F32",
        "pool_fprop mb2ic64ih112oh56kh3sh2ph1 max nhwc F32",
        "pool_fprop mb2ic64ih7oh1kh7 average nhwc F32",
        "conv_dgrad mb32ic64ih56oc128oh28kh3sh2ph1 nhwc F32",
        "conv_wgrad g8mb2ic8ih9oc16oh9kh3ph1 nhwc F32",
        "conv_transpose_fprop mb2ic16ih14oc8oh28kh2sh2 +bias +relu nhwc F32",
        "conv_transpose_fprop g4mb1ic16ih14oc8oh29kh4sh2ph1 nhwc F32",
    };
    char text[256];

    for (size_t i = 0; i < COUNT(lines); i++) {
        const struct kern_problem p = problem_of(lines[i], "fp32");
        const bool dgrad = text_begins(lines[i], "conv_dgrad");
        kb_problem_text(&p, dgrad ? KB_DGRAD : KB_FPROP, text, sizeof(text));
        if (i != 3) /* pads of 0 are not printed */
            assert_string_equal(text, lines[i]);
        assert_int_equal(kern_problem_check(&p, NULL), 0);
    }
}

/* The types that a line names are those of the run, or it is refused. */
TEST(test_line_types)
{
    static const char line[] = "conv_wgrad mb2ic8ih9oc16oh9kh3ph1 nhwc F16:F32";
    struct kb_figures f;
    struct kern_problem p = problem_of(line, "fp16");
    struct infer_error err = {0};
    char text[256];

    assert_int_equal(p.in[0].dtype, INFER_F16);
    assert_int_equal(p.out[0].dtype, INFER_F32);
    kb_problem_text(&p, KB_WGRAD, text, sizeof(text));
    assert_null(strstr(text, "F16 "));
    assert_non_null(strstr(text, "F16:F32"));
    kb_figures_init(&f, KERN_CONV_FPROP);
    assert_int_equal(kb_figures_parse(line, &f, &err), 0);
    assert_int_equal(
        kb_figures_problem(&f, kb_precision_find("fp32"), KERN_NHWC, &err, &p),
        INFER_EARGUMENT);
    assert_non_null(strstr(err.text, "F16"));
    kb_figures_init(&f, KERN_CONV_FPROP);
    assert_int_equal(kb_figures_parse("mb1ic8ih9oc8kh3 F16:F33", &f, &err),
                     INFER_EARGUMENT);
}

TEST(test_figures)
{
    struct kern_problem p = problem_of("mb4ic16ih32oc8kh3ph1", "fp16");
    struct kb_figures f;
    struct infer_error err;

    assert_int_equal(p.in[0].dtype, INFER_F16);
    assert_int_equal(p.out[0].dim[2], 32);
    assert_int_equal(p.attr.conv.pad_end[1], 1);
    /* TensorFlow's SAME: one row more at the end than in front. */
    p = problem_of("mb1ic3ih224oc32oh112kh3sh2", "fp32");
    assert_int_equal(p.attr.conv.pad_begin[0], 0);
    assert_int_equal(p.attr.conv.pad_end[0], 1);
    p = problem_of("mb1ic4ih8oc4kh3 +bias", "bf16");
    assert_int_equal(p.in[2].dtype, INFER_F32);
    assert_int_equal(p.constant_in, 6);
    p = problem_of("mb1ic4ih8oc4kh3", "tf32");
    assert_true(p.allow_tf32);
    /* Figures of the command line, and a window that does not fit. */
    kb_figures_init(&f, KERN_CONV_FPROP);
    assert_true(kb_figures_set(&f, "hw", 5));
    assert_true(kb_figures_set(&f, "rs", 7));
    assert_false(kb_figures_set(&f, "n", 0));
    assert_false(kb_figures_set(&f, "q", 1));
    assert_int_equal(
        kb_figures_problem(&f, kb_precision_find("fp32"), KERN_NHWC, &err, &p),
        INFER_EARGUMENT);
    assert_null(kb_precision_find("fp64"));
}

/* Backward problems have the tensors of the forward one in other places, and no
 * epilogue. */
TEST(test_directions)
{
    struct kern_problem p =
        problem_of("conv_dgrad mb4ic16ih32oc8oh16kh3sh2ph1 +relu", "fp16");
    const struct kb_request on_cpu = {.device = "cpu", .layout = KERN_NHWC};
    const struct kb_request on_gpu = {
        .device = "cuda:1", .layout = KERN_NHWC, .narrow_gradient = true};
    struct infer_error err = {0};
    struct kb_figures f;

    assert_int_equal(p.op, KERN_CONV_DGRAD);
    assert_int_equal(p.n_in, 2);
    assert_int_equal(p.epilogue.act.kind, KERN_IDENTITY);
    assert_int_equal(p.in[0].dim[1], 8);
    assert_int_equal(p.in[0].dim[2], 16);
    assert_int_equal(p.in[1].dim[0], 8);
    assert_int_equal(p.out[0].dim[1], 16);
    assert_int_equal(p.out[0].dim[2], 32);
    assert_int_equal(kern_problem_check(&p, NULL), 0);
    const double flops = kern_problem_flops(&p);
    p = problem_of("conv_wgrad mb4ic16ih32oc8oh16kh3sh2ph1 +bias", "fp16");
    assert_int_equal(p.op, KERN_CONV_WGRAD);
    assert_int_equal(p.n_in, 2);
    assert_int_equal(p.in[1].dim[1], 8);
    assert_int_equal(p.out[0].dtype, INFER_F32);
    assert_int_equal(p.out[0].dim[1], 16);
    assert_int_equal(kern_problem_check(&p, NULL), 0);
    assert_float_equal(kern_problem_flops(&p), flops, 1e-6 * flops);
    /* On a GPU the gradient lies as training has it there. */
    kb_problem_lay_weights(&on_cpu, KB_WGRAD, &p);
    assert_true(kern_tensor_is_dense(&p.out[0], KERN_NCHW));
    kb_problem_lay_weights(&on_gpu, KB_WGRAD, &p);
    assert_true(kern_tensor_is_dense(&p.out[0], KERN_NHWC));
    assert_int_equal(p.out[0].dtype, INFER_F16);
    assert_int_equal(kern_problem_check(&p, NULL), 0);
    p = problem_of("conv_dgrad mb4ic16ih32oc8oh16kh3sh2ph1", "fp16");
    kb_problem_lay_weights(&on_cpu, KB_DGRAD, &p);
    assert_true(kern_tensor_is_dense(&p.in[1], KERN_NCHW));
    assert_int_equal(p.constant_in, 1u << 1);
    kb_problem_lay_weights(&on_gpu, KB_DGRAD, &p);
    assert_true(kern_tensor_is_dense(&p.in[1], KERN_NHWC));
    assert_int_equal(p.constant_in, 0);
    assert_int_equal(kern_problem_check(&p, NULL), 0);
    /* Pooling has none here. */
    kb_figures_init(&f, KERN_POOL_FPROP);
    f.dir = KB_DGRAD;
    f.h = 8;
    assert_int_equal(
        kb_figures_problem(&f, kb_precision_find("fp32"), KERN_NHWC, &err, &p),
        INFER_EARGUMENT);
}

TEST(test_bad_lines)
{
    static const char *const lines[] = {
        "mb",
        "32",
        "mbx3",
        "mb1ic",
        "mb1zz3",
        "mb-1",
        "+nothing",
        "mb1 +",
        "mb99999999999999999999",
        "kh3 mb1ic0",
        "conv_fprop 3x",
        "g0mb1",
        "mb1ic4ih8oc4kh99999999",
    };

    for (size_t i = 0; i < COUNT(lines); i++) {
        struct infer_error err = {0};
        struct kb_figures f;
        kb_figures_init(&f, KERN_CONV_FPROP);
        if (kb_figures_parse(lines[i], &f, &err) != INFER_EARGUMENT)
            fail_msg("'%s' was taken", lines[i]);
        assert_true(err.text[0] != '\0');
    }
}

static void expect_sweep(const char *text, const char *name, int count,
                         const int64_t *value)
{
    struct infer_error err = {0};
    struct kb_sweep s;

    if (kb_sweep_parse(text, &s, &err) < 0)
        fail_msg("%s: %s", text, err.text);
    assert_string_equal(s.name, name);
    assert_int_equal(s.count, count);
    assert_memory_equal(s.value, value, (size_t)count * sizeof(*value));
}

TEST(test_sweeps)
{
    static const char *const bad[] = {
        "n",        "n=",    "=1",     "n=0:4",      "n=4:1",     "n=1:8:0",
        "n=1:8:x1", "z=1:4", "n=1,,2", "n=1:100000", "n=1:2:3:4", "n=a"};
    struct infer_error err;
    struct kb_sweep s;

    expect_sweep("n=1,4,16", "n", 3, (int64_t[]){1, 4, 16});
    expect_sweep("k=1:64:x4", "k", 4, (int64_t[]){1, 4, 16, 64});
    expect_sweep("hw=7:9", "hw", 3, (int64_t[]){7, 8, 9});
    expect_sweep("c=8:31:8", "c", 3, (int64_t[]){8, 16, 24});
    for (size_t i = 0; i < COUNT(bad); i++)
        if (kb_sweep_parse(bad[i], &s, &err) != INFER_EARGUMENT)
            fail_msg("'%s' was taken", bad[i]);
}

/* Every layer of a built-in network, repeats counted, epilogues fused. */
TEST(test_layers)
{
    struct kb_request r = {.device = "cpu", .layout = KERN_NHWC, .extent = 224};
    struct kb_cases cases = {0};
    struct infer_error err = {0};
    bool residual = false;
    int layers = 0;

    r.ops[KERN_CONV_FPROP] = true;
    if (kb_layers(&r, "resnet18", 8, KB_FPROP, kb_precision_find("fp16"),
                  &cases, &err))
        fail_msg("%s", err.text);
    for (int i = 0; i < cases.count; i++) {
        const struct kb_case *c = &cases.item[i];
        layers += c->count;
        assert_int_equal(c->p.in[0].dim[0], 8);
        assert_int_equal(c->p.in[0].dtype, INFER_F16);
        assert_int_equal(c->p.in[2].dtype, INFER_F32); /* folded batch norm */
        assert_int_equal(kern_problem_check(&c->p, NULL), 0);
        residual = residual || c->p.n_in == 4;
    }
    assert_int_equal(layers, 20);
    assert_int_equal(cases.count, 18);
    assert_true(residual);
    kb_cases_clear(&cases);
    if (kb_layers(&r, "resnet18", 8, KB_WGRAD, kb_precision_find("fp16"),
                  &cases, &err))
        fail_msg("%s", err.text);
    /* Without the epilogues some of them are the same. */
    assert_true(cases.count > 8 && cases.count < 18);
    for (int i = 0; i < cases.count; i++) {
        assert_int_equal(cases.item[i].p.op, KERN_CONV_WGRAD);
        assert_int_equal(kern_problem_check(&cases.item[i].p, NULL), 0);
    }
    kb_cases_clear(&cases);
    assert_int_equal(kb_layers(&r, "no-such-model", 1, KB_FPROP,
                               kb_precision_find("fp32"), &cases, &err) < 0,
                     1);
    assert_int_equal(cases.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),     cmocka_unit_test(test_line_types),
        cmocka_unit_test(test_figures),   cmocka_unit_test(test_directions),
        cmocka_unit_test(test_bad_lines), cmocka_unit_test(test_sweeps),
        cmocka_unit_test(test_layers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
