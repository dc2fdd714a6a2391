/* SPDX-License-Identifier: Apache-2.0 */
/* kbench: files of problems, and samples of them. */

#include <string.h>
#include <unistd.h>

#include "tests/unit/test.h"
#include "tools/kbench/kbench.h"

static const char file[] = "kbench-population.txt";

static void write_lines(const char *text)
{
    FILE *f = fopen(file, "w");

    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static int collect(int64_t sample, uint64_t seed, bool dense,
                   struct kb_cases *out, struct infer_error *err)
{
    struct cli cli = {.seed = seed};
    struct kb_request r = {.cli = &cli,
                           .device = "cpu",
                           .layout = KERN_NHWC,
                           .sample = sample,
                           .batch = {1, 8, 64},
                           .n_batches = 3,
                           .n_populations = 1,
                           .population = {file},
                           .dir = {[KB_FPROP] = true},
                           .n_precisions = 1,
                           .precision = {kb_precision_find("fp32")}};

    kb_figures_init(&r.figures, KERN_CONV_FPROP);
    r.ops[KERN_CONV_FPROP] = true;
    r.ops[KERN_CONV_TRANSPOSE_FPROP] = true;
    r.ops[KERN_DENSE_FPROP] = dense;
    return kb_collect(&r, out, err);
}

static const char lines[] = "# SPDX-License-Identifier: Apache-2.0\n"
                            "\n"
                            "5 conv_fprop ic64ih56oc64oh56kh3ph1 +bias +relu\n"
                            "1 conv_fprop ic8ih8oc16oh8kh1\n"
                            "1 conv_transpose_fprop ic8ih8oc16oh16kh2sh2\n"
                            "90 dense_fprop ic512oc1000 +bias\n";

/* Without a sample each problem occurs at each batch. */
TEST(test_all)
{
    struct kb_cases cases = {0};
    struct infer_error err = {0};

    write_lines(lines);
    assert_int_equal(collect(0, 1, true, &cases, &err), 0);
    assert_int_equal(cases.count, 4 * 3);
    assert_int_equal(cases.item[0].p.in[0].dim[0], 1);
    assert_int_equal(cases.item[2].p.in[0].dim[0], 64);
    assert_int_equal(cases.item[0].p.epilogue.act.kind, KERN_RELU);
    assert_int_equal(cases.item[6].p.op, KERN_CONV_TRANSPOSE_FPROP);
    assert_int_equal(cases.item[11].p.op, KERN_DENSE_FPROP);
    kb_cases_clear(&cases);
    assert_int_equal(collect(0, 1, false, &cases, &err), 0);
    assert_int_equal(cases.count, 3 * 3);
    kb_cases_clear(&cases);
}

static bool same(const struct kb_cases *a, const struct kb_cases *b)
{
    bool equal = a->count == b->count;

    for (int i = 0; equal && i < a->count; i++)
        equal = strcmp(a->item[i].text, b->item[i].text) == 0;
    return equal;
}

/* The seed decides, nothing is drawn twice, weights count. */
TEST(test_sample)
{
    struct infer_error err = {0};
    int differ = 0, heavy = 0;

    write_lines(lines);
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct kb_cases a = {0}, b = {0}, other = {0}, one = {0};
        assert_int_equal(collect(3, seed, false, &a, &err), 0);
        assert_int_equal(collect(3, seed, false, &b, &err), 0);
        assert_int_equal(collect(3, seed + 100, false, &other, &err), 0);
        assert_int_equal(collect(1, seed, false, &one, &err), 0);
        assert_int_equal(a.count, 3);
        assert_true(same(&a, &b));
        differ += !same(&a, &other);
        heavy += one.item[0].p.in[0].dim[1] == 64;
        for (int i = 0; i < a.count; i++)
            for (int k = 0; k < i; k++)
                assert_true(a.item[i].p.op != a.item[k].p.op ||
                            a.item[i].p.in[0].dim[1] !=
                                a.item[k].p.in[0].dim[1]);
        kb_cases_clear(&a);
        kb_cases_clear(&b);
        kb_cases_clear(&other);
        kb_cases_clear(&one);
    }
    assert_true(differ > 30);
    /* 5 of 7: 28.6 expected. */
    assert_true(heavy > 20 && heavy < 37);
}

/* A large problem is drawn at a batch that fits. */
TEST(test_large)
{
    struct kb_cases cases = {0};
    struct infer_error err = {0};

    write_lines("1 conv_fprop ic512ih512oc512oh512kh3ph1\n");
    for (uint64_t seed = 1; seed < 10; seed++) {
        assert_int_equal(collect(1, seed, false, &cases, &err), 0);
        assert_int_equal(cases.count, 1);
        assert_true(cases.item[0].p.in[0].dim[0] < 64);
        kb_cases_clear(&cases);
    }
}

TEST(test_bad_lines)
{
    static const struct {
        const char *text, *message;
    } bad[] = {
        {"conv_fprop ic8ih8oc8oh8kh1\n", "line 1: a line is a weight"},
        {"# x\n0 conv_fprop ic8ih8oc8oh8kh1\n", "line 2: a line is a weight"},
        {"1 conv_fprop ic8ih8qq8\n", "line 1: problem: cannot read"},
        {"1\n", "line 1: a line is a weight"},
        {"1 \n", "line 1: problem: it is empty"},
        {"1 conv_transpose_fprop ic8ih1oc8kh1ph1\n", "leave no output"},
    };
    struct kb_cases cases = {0};
    struct infer_error err = {0};

    for (size_t i = 0; i < COUNT(bad); i++) {
        write_lines(bad[i].text);
        assert_int_equal(collect(0, 1, true, &cases, &err), INFER_EARGUMENT);
        if (!strstr(err.text, bad[i].message))
            fail_msg("%s: %s", bad[i].text, err.text);
        kb_cases_clear(&cases);
    }
    unlink(file);
    assert_int_equal(collect(0, 1, true, &cases, &err), INFER_EIO);
    kb_cases_clear(&cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all),
        cmocka_unit_test(test_sample),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_bad_lines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
