/* SPDX-License-Identifier: Apache-2.0 */
/* kbench: verification of kernels, and the bench as a whole. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/scalar.h"
#include "kernels/reference.h"
#include "tests/unit/test.h"
#include "tests/unit/tools/kbench_problem.h"
#include "tools/verify/verify.h"

#define SEED 7

/* The whole output by the reference, in the problem's own storage. */
static void *whole_output(const struct kern_problem *p)
{
    struct kern_args args = {0};
    struct kb_values v;
    struct infer_error err;

    assert_true(kb_values_new(&v, p, SEED));
    for (int i = 0; i < p->n_in; i++) {
        if (p->in[i].dtype == INFER_NONE)
            continue;
        const size_t size = infer_dtype_size(p->in[i].dtype);
        const int64_t n = kern_tensor_count(&p->in[i]);
        char *data = malloc((size_t)n * size);
        for (int64_t k = 0; k < n; k++)
            memcpy(data + (size_t)k * size,
                   (char *)v.pool[i] + (size_t)(k % KB_PERIOD) * size, size);
        args.in[i] = data;
    }
    args.out[0] = malloc(kern_tensor_span(&p->out[0]));
    assert_int_equal(kern_reference_run(p, &args, &err), 0);
    for (int i = 0; i < p->n_in; i++)
        free((void *)(uintptr_t)args.in[i]);
    kb_values_free(&v);
    return args.out[0];
}

static const struct kern_row our_row = {
    .name = "conv_ours", .op = KERN_CONV_FPROP, .backend = INFER_BACKEND_CUDA};

/* The right output passes and a value changed anywhere in the sample fails;
 * all says whether the sample is the whole output. */
static void expect_verified(const char *line, const char *precision, bool all)
{
    const struct kern_problem p = problem_of(line, precision);
    const enum infer_dtype dtype = p.out[0].dtype;
    const struct kern_exec exec = {.row = &our_row};
    struct infer_error err = {0};
    struct kb_verification verification;
    char text[384];
    double worst = 0;
    char *y = whole_output(&p);

    if (kb_verification_new(&p, SEED, &verification, &err) < 0)
        fail_msg("%s: %s", line, err.text);
    assert_true(verification.count > 0);
    assert_int_equal(verification.count == kern_tensor_count(&p.out[0]), all);
    if (!kb_verification_check(&verification, &p, &exec, y, &worst, text,
                               sizeof(text)))
        fail_msg("%s: %s", line, text);
    assert_true(worst < 1);
    for (int64_t k = 0; k < verification.count;
         k += 1 + verification.count / 7) {
        const int64_t at = verification.offset[k];
        const double right = scalar_load(dtype, y, at);
        bool inside = false;
        for (int r = 0; r < verification.n_ranges; r++)
            inside = inside ||
                     (at >= verification.range[r][0] &&
                      at < verification.range[r][0] + verification.range[r][1]);
        assert_true(inside);
        scalar_store(dtype, y, at, right + 0.5);
        assert_false(kb_verification_check(&verification, &p, &exec, y, &worst,
                                           text, sizeof(text)));
        scalar_store(dtype, y, at, NAN);
        assert_false(kb_verification_check(&verification, &p, &exec, y, &worst,
                                           text, sizeof(text)));
        scalar_store(dtype, y, at, right);
    }
    assert_true(kb_verification_check(&verification, &p, &exec, y, &worst, text,
                                      sizeof(text)));
    kb_verification_free(&verification);
    free(y);
}

TEST(test_verification)
{
    expect_verified("mb2ic8ih9oc12kh3ph1 +bias +residual +relu", "fp32", true);
    expect_verified("mb2ic8ih9oc12kh3ph1 +bias", "fp16", true);
    /* Pixels: strides, dilation, groups, pads that differ, a residual. */
    expect_verified(
        "g2mb3ic48ih30iw33oc64oh15ow17kh3kw3sh2sw2dh1dw1ph2pw1 +bias "
        "+relu +residual",
        "fp32", false);
    expect_verified("mb2ic64ih28oc64oh28kh3ph1 +bias", "bf16", false);
    expect_verified("mb3ic64ih28oc64oh28kh3ph1 +factors +bias", "fp32", false);
    /* Backward: patches with zeros between, of each remainder of the stride;
     * pairs of channels, within their groups. */
    expect_verified("conv_dgrad mb2ic8ih9oc12oh9kh3ph1", "fp32", true);
    expect_verified("conv_dgrad mb3ic64ih30iw33oc96oh15ow11kh3kw5sh2sw3ph1pw2",
                    "fp32", false);
    expect_verified("conv_dgrad g4mb4ic128ih28oc256oh28kh3dh1ph2", "bf16",
                    false);
    expect_verified("conv_wgrad mb2ic4ih9oc6oh5kh3sh2ph1", "fp32", true);
    expect_verified("conv_wgrad mb4ic48ih28oc64oh14kh3sh2ph1", "fp16", false);
    expect_verified("conv_wgrad g32mb8ic64ih28oc96oh28kh5ph2", "fp32", false);
    /* Images: the first and the last. */
    expect_verified("pool_fprop mb9ic64ih56oh56kh7ph3 max", "fp32", false);
}

/* Kernels that go through a transform are held to its bound. */
TEST(test_verification_transform)
{
    const struct kern_problem p =
        problem_of("mb2ic64ih28oc64oh28kh3ph1", "fp32");
    const struct kern_row row = {
        .name = "conv2d_fprop_nchw_f32_cudnn_winograd_nonfused"};
    const struct kern_exec exec = {.row = &row};
    struct infer_error err = {0};
    struct kb_verification verification;
    char *y = whole_output(&p), text[384];
    double worst = 0;

    assert_int_equal(kb_verification_new(&p, SEED, &verification, &err), 0);
    assert_non_null(verification.tol[KB_WINOGRAD]);
    assert_non_null(verification.tol[KB_FOURIER]);
    const double right = scalar_load(INFER_F32, y, verification.offset[0]);
    for (int off = 0; off < 2; off++) {
        scalar_store(INFER_F32, y, verification.offset[0],
                     right +
                         (off ? 1.2 : 0.8) * verification.tol[KB_WINOGRAD][0]);
        assert_int_equal(kb_verification_check(&verification, &p, &exec, y,
                                               &worst, text, sizeof(text)),
                         !off);
    }
    kb_verification_free(&verification);
    free(y);
}

/* The bench as a whole: every candidate is right and has a time. */
TEST(test_bench)
{
    const struct kern_problem p = problem_of("mb1ic8ih12oc8kh3ph1", "fp32");
    struct kb_cases cases = {0};
    struct kb_pool pool = {0};
    struct device cpu;
    struct infer_error err = {0};
    struct kb_verification verification;

    assert_int_equal(device_open("cpu", 1, NULL, &err, &cpu), 0);
    struct kb_case *c =
        kb_cases_add(&cases, &p, KB_FPROP, kb_precision_find("fp32"));
    const struct kb_plan plan = {.device = &cpu,
                                 .pool = &pool,
                                 .backend = {[INFER_BACKEND_REF] = true,
                                             [INFER_BACKEND_CPU] = true,
                                             [INFER_BACKEND_ONEDNN] = true},
                                 .cache_bytes = 1 << 20,
                                 .cold = true,
                                 .rounds = 3,
                                 .time_limit = 1,
                                 .seed = SEED};
    assert_int_equal(kb_verification_new(&p, SEED, &verification, &err), 0);
    assert_int_equal(kb_bench(&plan, &verification, c, &err), 0);
    assert_true(c->n_results >= 1);
    assert_true(c->best[KB_REFERENCE] >= 0);
    for (int i = 0; i < c->n_results; i++) {
        const struct kb_result *r = &c->result[i];
        assert_true(r->state == KB_TIMED || r->state == KB_DROPPED);
        assert_true(r->time.median > 0 && r->time.min <= r->time.p95);
        assert_true(r->worst < 1);
    }
    /* Values of another seed are not what this verification expects. */
    struct kb_plan other = plan;
    other.seed = SEED + 1;
    struct kb_case *d =
        kb_cases_add(&cases, &p, KB_FPROP, kb_precision_find("fp32"));
    assert_int_equal(kb_bench(&other, &verification, d, &err), 0);
    for (int i = 0; i < d->n_results; i++)
        assert_int_equal(d->result[i].state, KB_WRONG);
    assert_int_equal(d->best[KB_REFERENCE], -1);
    kb_verification_free(&verification);
    kb_cases_clear(&cases);
    device_close(&cpu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_verification),
        cmocka_unit_test(test_verification_transform),
        cmocka_unit_test(test_bench),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
