/* SPDX-License-Identifier: Apache-2.0 */
/* COCO's average precision against pycocotools 2.0 on random boxes: crowds,
 * areas of all sizes, equal scores, more than 100 boxes of an image, categories
 * without objects and with crowds alone.  With three arguments (seed, objects,
 * boxes) it prints that case's values, which a script compares. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/test.h"
#include "tools/infer/average_precision.h"

#define CATEGORIES 6
#define VALUES     12

static uint64_t state;

static int next(int n)
{
    state =
        state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int)((state >> 33) % (uint64_t)n);
}

static void random_box(double *box)
{
    static const int most[3] = {20, 80, 300};
    const int k = most[next(3)];

    box[0] = next(400);
    box[1] = next(300);
    box[2] = 1 + next(k);
    box[3] = 1 + next(k);
}

static void random_truth(struct ap_truth *t)
{
    t->image = next(30);
    t->category = next(CATEGORIES);
    if (t->category == 4)
        t->category = 3;
    random_box(t->box);
    t->area = t->box[2] * t->box[3] * (50 + next(51)) / 100;
    t->crowd = next(10) == 0 || t->category == 5;
}

/* Of three boxes one lies anywhere, the others near an object. */
static void random_found(struct ap_found *f, const struct ap_truth *truth,
                         int n_truth)
{
    const struct ap_truth *t = &truth[next(n_truth)];
    const bool anywhere = next(3) == 0;

    f->image = anywhere ? next(30) : t->image;
    f->category = next(8) == 0 ? next(CATEGORIES) : t->category;
    if (anywhere)
        random_box(f->box);
    for (int i = 0; i < 4 && !anywhere; i++) {
        const int most = 1 + (int)t->box[2 + i % 2] / 8;

        f->box[i] = t->box[i] + next(2 * most + 1) - most;
        if (i >= 2 && f->box[i] < 1)
            f->box[i] = 1;
    }
    f->score = next(50) / 50.0;
}

static void measure(uint64_t seed, int n_truth, int n_found,
                    double value[VALUES])
{
    struct ap_truth *truth = calloc((size_t)n_truth, sizeof *truth);
    struct ap_found *found = calloc((size_t)n_found, sizeof *found);
    struct infer_error err = {0};
    struct ap_result r;
    int n = 0;

    assert_non_null(truth);
    assert_non_null(found);
    state = seed;
    for (int i = 0; i < n_truth; i++)
        random_truth(&truth[i]);
    for (int i = 0; i < n_found; i++) {
        random_found(&found[i], truth, n_truth);
        if (i % 5 == 0) /* one image has more than count */
            found[i].image = found[i].category = 0;
    }
    assert_int_equal(average_precision(truth, (size_t)n_truth, found,
                                       (size_t)n_found, CATEGORIES, &err, &r,
                                       NULL),
                     0);
    value[n++] = r.ap[AP_ALL];
    value[n++] = r.ap50;
    value[n++] = r.ap75;
    for (int size = AP_SMALL; size < AP_SIZES; size++)
        value[n++] = r.ap[size];
    for (int k = 0; k < 3; k++)
        value[n++] = r.ar[k];
    for (int size = AP_SMALL; size < AP_SIZES; size++)
        value[n++] = r.ar_size[size];
    free(truth);
    free(found);
}

static const struct {
    int seed, n_truth, n_found;
    double value[VALUES]; /* of pycocotools */
} cases[] = {
#include "tests/unit/tools/average_precision.def"
};

static void test_pycocotools(void **unused)
{
    double value[VALUES];

    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        measure((uint64_t)cases[i].seed, cases[i].n_truth, cases[i].n_found,
                value);
        for (int k = 0; k < VALUES; k++)
            if (!(value[k] - cases[i].value[k] <= 1e-12 &&
                  cases[i].value[k] - value[k] <= 1e-12))
                fail_msg("case %zu, value %d: %.17g, expected %.17g", i, k,
                         value[k], cases[i].value[k]);
    }
}

/* Nothing to find, and nothing found. */
static void test_none(void **unused)
{
    struct ap_truth truth = {.box = {1, 1, 50, 50}, .area = 2500};
    struct ap_found found = {.box = {1, 1, 50, 50}, .score = 1};
    struct infer_error err = {0};
    struct ap_result r;
    double by[2];

    (void)unused;
    assert_int_equal(average_precision(&truth, 0, &found, 1, 2, &err, &r, by),
                     0);
    assert_true(r.ap[AP_ALL] == -1 && r.ar[2] == -1 && by[0] == -1);
    assert_int_equal(average_precision(&truth, 1, &found, 0, 2, &err, &r, by),
                     0);
    assert_true(r.ap[AP_ALL] == 0 && by[0] == 0 && by[1] == -1);
    assert_int_equal(average_precision(&truth, 1, &found, 1, 2, &err, &r, by),
                     0);
    assert_true(r.ap[AP_ALL] > 1 - 1e-9 && r.ap[AP_SMALL] == -1);
    assert_true(r.ap[AP_MEDIUM] > 1 - 1e-9 && r.ar[0] > 1 - 1e-9);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pycocotools),
        cmocka_unit_test(test_none),
    };

    if (argc == 4) {
        double value[VALUES];

        measure(strtoull(argv[1], NULL, 10), atoi(argv[2]), atoi(argv[3]),
                value);
        for (int i = 0; i < VALUES; i++)
            printf("%.17g%s", value[i], i + 1 < VALUES ? " " : "\n");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
