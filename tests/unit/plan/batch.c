/* SPDX-License-Identifier: Apache-2.0 */
/* Rows and variants of a GPU that do not depend on the batch, among rows that
 * are made up: none of them runs. */
#include <config.h>

#include <string.h>

#include "kernels/rows.h"
#include "libinfer/tune/rows.h"
#include "tests/unit/test.h"

static const int64_t batches[] = {1, 2, 7, 8, 64, 500};

static const struct kern_device gpu = {
    .kind = KERN_CUDA, .sm = 90, .threads = 1, .multiprocessors = 132};

/* Images as channels last, 16 channels to 32, 3x3. */
static struct kern_problem problem_of(int64_t images)
{
    struct kern_problem p = {.op = KERN_CONV_FPROP,
                             .n_in = 4,
                             .n_out = 1,
                             .constant_in = 1u << 1 | 1u << 2,
                             .deterministic = true};

    p.in[0] = kern_tensor_dense(INFER_F16, 4,
                                (const int64_t[]){images, 16, 9, 9}, KERN_NHWC);
    p.in[1] = kern_tensor_dense(INFER_F32, 4, (const int64_t[]){32, 16, 3, 3},
                                KERN_NCHW);
    p.in[2] = kern_tensor_dense(INFER_F32, 1, (const int64_t[]){32}, KERN_NCHW);
    p.in[3] = p.out[0] = kern_tensor_dense(
        INFER_F16, 4, (const int64_t[]){images, 32, 9, 9}, KERN_NHWC);
    p.attr.conv = (struct kern_conv){.groups = 1,
                                     .stride = {1, 1},
                                     .dilation = {1, 1},
                                     .pad_begin = {1, 1},
                                     .pad_end = {1, 1}};
    return p;
}

/* ---- rows ---------------------------------------------------------- */

static int64_t images_of(const struct kern_problem *p)
{
    return p->in[0].dim[0];
}

static int takes(const struct kern_problem *p, const struct kern_device *d,
                 struct infer_error *why)
{
    (void)p;
    (void)d;
    (void)why;
    return 0;
}

static int takes_few(const struct kern_problem *p, const struct kern_device *d,
                     struct infer_error *why)
{
    (void)d;
    (void)why;
    return images_of(p) < 8 ? 0 : INFER_EUNSUPPORTED;
}

/* The quickest of all. */
static double first(const struct kern_problem *p, const struct kern_device *d)
{
    (void)p;
    (void)d;
    return 1e-9;
}

/* Quick with one image. */
static double grows(const struct kern_problem *p, const struct kern_device *d)
{
    (void)d;
    return 1e-8 * (double)images_of(p);
}

/* Quick with more than 16. */
static double shrinks(const struct kern_problem *p, const struct kern_device *d)
{
    (void)d;
    return 1e-8 * (16.0 / (double)images_of(p) + 7);
}

static int three(const struct kern_problem *p, const struct kern_device *d,
                 struct infer_error *err)
{
    (void)p;
    (void)d;
    (void)err;
    return 3;
}

/* Variant 0, the best, splits its sums. */
static double variant_us(const struct kern_problem *p,
                         const struct kern_device *d, int variant)
{
    return grows(p, d) * (variant + 0.5);
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    (void)d;
    (void)err;
    if (e->variant == 0)
        e->flags |= KERN_OTHER_SUMS;
    return 0;
}

static int never(const struct kern_exec *e, const struct kern_args *args,
                 struct infer_error *err)
{
    (void)e;
    (void)args;
    (void)err;
    return INFER_EDEVICE;
}

static const struct kern_functions varies = {
    .supports = takes, .estimate = first, .launch = never};
static const struct kern_functions few = {
    .supports = takes_few, .estimate = first, .launch = never};
static const struct kern_functions one_image = {.supports = takes,
                                                .estimate = grows,
                                                .variants = three,
                                                .estimate_variant = variant_us,
                                                .prepare = prepare,
                                                .launch = never};
static const struct kern_functions many_images = {
    .supports = takes, .estimate = shrinks, .launch = never};

#define ROW(name_, flags_, fn_)                                                \
    {                                                                          \
        .name = name_, .op = KERN_CONV_FPROP, .backend = INFER_BACKEND_CUDA,   \
        .layout = KERN_NHWC, .dtype = INFER_F16, .acc = INFER_F32,             \
        .flags = flags_, .fn = &(fn_)                                          \
    }

static const struct kern_row rows[] = {
    ROW("varies", 0, varies),
    ROW("few", KERN_INVARIANT, few),
    ROW("one_image", KERN_INVARIANT, one_image),
    ROW("many_images", KERN_INVARIANT, many_images),
};

/* ---- tests --------------------------------------------------------- */

TEST(problem_has_the_same_batch)
{
    const struct kern_problem eight = problem_of(ROW_BATCH);

    for (size_t i = 0; i < COUNT(batches); i++) {
        struct kern_problem p = problem_of(batches[i]), got;

        p.in[0].stride[0] = batches[i] == 1 ? 5 : p.in[0].stride[0];
        row_at_batch(&p, batches[i], &got);
        assert_memory_equal(&got, &eight, sizeof got);
    }
}

/* Weights that are no constants would get more outputs than y has. */
TEST(problem_that_would_not_fit_stays)
{
    struct kern_problem p = problem_of(1), got;

    p.constant_in = 0;
    row_at_batch(&p, 1, &got);
    assert_memory_equal(&got, &p, sizeof got);
}

static const struct kern_row *best(int64_t images, bool invariant,
                                   const struct kern_problem *p)
{
    const struct row_query q = {.problem = p,
                                .device = &gpu,
                                .aligned = true,
                                .invariant = invariant,
                                .batch = invariant ? images : 0};

    return row_best(&q, ROW_TIER(INFER_BACKEND_CUDA), NULL, NULL);
}

TEST(row_does_not_depend_on_the_batch)
{
    for (size_t i = 0; i < COUNT(batches); i++) {
        const struct kern_problem p = problem_of(batches[i]);

        /* At 8 images one_image's variant 1 takes 12 of what many_images takes
         * 9. */
        assert_string_equal(best(batches[i], true, &p)->name, "many_images");
        assert_string_equal(best(batches[i], false, &p)->name, "varies");
    }
}

TEST(split_sums_are_passed_over)
{
    const struct kern_problem p = problem_of(64);
    const struct kern_row *row = kern_row_find("one_image");
    struct infer_error err = {0};
    struct kern_exec e;

    assert_int_equal(row_prepare_invariant(row, &p, &gpu, &err, &e), 0);
    assert_int_equal(e.variant, 1);
    assert_int_equal(e.flags & KERN_OTHER_SUMS, 0);
    kern_release(&e);
    /* A row whose sums may depend on the batch is prepared as ever. */
    assert_int_equal(
        row_prepare_invariant(kern_row_find("varies"), &p, &gpu, &err, &e), 0);
    assert_int_equal(e.variant, 0);
    kern_release(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(problem_has_the_same_batch),
        cmocka_unit_test(problem_that_would_not_fit_stays),
        cmocka_unit_test(row_does_not_depend_on_the_batch),
        cmocka_unit_test(split_sums_are_passed_over),
    };

    kern_rows_add(rows, COUNT(rows));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
