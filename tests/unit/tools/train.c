/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of train that need no network: random numbers, learning rates,
 * augmentation, the order of pictures, batches, the log. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/test.h"
#include "tools/train/data/augment.h"
#include "tools/train/data/data.h"
#include "tools/train/data/loader.h"
#include "tools/train/data/random.h"
#include "tools/train/log.h"
#include "tools/train/policy.h"

#define NEAR(a, b)                                                             \
    assert_true(fabs((a) - (double)(b)) <= 1e-12 + 1e-9 * fabs((double)(b)))

/* ---- random numbers ------------------------------------------------ */

TEST(random_depends_on_its_place)
{
    struct random a = random_at(7, RANDOM_SHUFFLE, 1);
    struct random again = random_at(7, RANDOM_SHUFFLE, 1);
    struct random place = random_at(7, RANDOM_SHUFFLE, 2);
    struct random use = random_at(7, RANDOM_AUGMENT, 1);
    struct random seed = random_at(8, RANDOM_SHUFFLE, 1);
    int same[3] = {0};

    for (int i = 0; i < 64; i++) {
        const uint32_t x = random_u32(&a);

        assert_int_equal(x, random_u32(&again));
        same[0] += x == random_u32(&place);
        same[1] += x == random_u32(&use);
        same[2] += x == random_u32(&seed);
    }
    for (int i = 0; i < 3; i++)
        assert_true(same[i] < 2);
}

TEST(random_is_uniform_and_normal)
{
    struct random r = random_at(1, RANDOM_WEIGHTS, 0);
    double sum = 0, squares = 0;
    int below[5] = {0};

    for (int i = 0; i < 50000; i++) {
        const double x = (double)random_normal(&r);
        const float u = random_unit(&r);

        sum += x;
        squares += x * x;
        below[random_below(&r, 5)]++;
        assert_true(u >= 0 && u < 1);
    }
    assert_true(fabs(sum / 50000) < 0.02);
    assert_true(fabs(squares / 50000 - 1) < 0.03);
    for (int i = 0; i < 5; i++)
        assert_true(abs(below[i] - 10000) < 500);
}

/* ---- learning rates ------------------------------------------------ */

/* Values by the formulas of PyTorch's schedulers and of Caffe. */
TEST(rates_are_as_published)
{
    struct policy p;

    policy_init(&p, POLICY_STEP, 0.1);
    p.mark[0] = 10;
    p.marks = 1;
    NEAR(policy_rate(&p, 9), 0.1);
    NEAR(policy_rate(&p, 25), 0.001);
    p.mark[1] = 15;
    p.marks = 2;
    NEAR(policy_rate(&p, 14), 0.01);
    NEAR(policy_rate(&p, 400), 0.001);
    policy_init(&p, POLICY_INV, 0.01);
    NEAR(policy_rate(&p, 10000), 0.01 * pow(2, -0.75));
    policy_init(&p, POLICY_EXP, 1);
    p.gamma = 0.5;
    NEAR(policy_rate(&p, 3), 0.125);
    policy_init(&p, POLICY_POLY, 1);
    p.total = 100;
    p.power = 2;
    NEAR(policy_rate(&p, 50), 0.25);
    policy_init(&p, POLICY_COSINE, 0.4);
    p.total = 100;
    NEAR(policy_rate(&p, 50), 0.2);
    NEAR(policy_rate(&p, 0), 0.4);
}

/* OneCycleLR(max_lr=0.01, total_steps=100): its first, highest and last. */
TEST(one_cycle_rises_and_falls)
{
    struct policy p;

    policy_init(&p, POLICY_ONECYCLE, 0.01);
    p.total = 100;
    NEAR(policy_rate(&p, 0), 0.0004);
    NEAR(policy_rate(&p, 29), 0.01);
    NEAR(policy_rate(&p, 99), 4e-8);
    assert_true(policy_rate(&p, 15) < 0.01 && policy_rate(&p, 15) > 0.0004);
}

TEST(warmup_comes_first)
{
    struct policy p;

    policy_init(&p, POLICY_COSINE, 1);
    p.warmup = 4;
    p.total = 14;
    NEAR(policy_rate(&p, 0), 0.25);
    NEAR(policy_rate(&p, 3), 1);
    NEAR(policy_rate(&p, 4), 1);
    NEAR(policy_rate(&p, 9), 0.5);
}

/* ---- augmentation -------------------------------------------------- */

TEST(words_of_augmentation)
{
    struct augment a;
    const char *bad = NULL;

    assert_true(augment_parse("flip,crop:2,cutout,affine:5", &a, &bad));
    assert_true(a.flip && a.crop == 2 && a.cutout == 8 && a.turn == 5);
    assert_true(augment_parse("none", &a, &bad));
    assert_false(a.flip);
    assert_false(augment_parse("flip,fly", &a, &bad));
    assert_string_equal(bad, "fly");
    assert_false(augment_parse("crop:-1", &a, &bad));
    assert_false(augment_parse("crop:2x", &a, &bad));
    assert_false(augment_parse("crop:2.5", &a, &bad));
    assert_false(augment_parse("crop:", &a, &bad));
    assert_false(augment_parse("affine:nan", &a, &bad));
    assert_false(augment_parse("affine:inf", &a, &bad));
    assert_false(augment_parse("affine:5:0.1:1e300", &a, &bad));
    assert_false(augment_parse("affine:5:0.1:0.1:1", &a, &bad));
    assert_false(augment_parse("", &a, &bad));
    assert_false(augment_parse("flip,", &a, &bad));
}

/* A flip reverses rows; a crop moves by at most its pad and brings zeros. */
TEST(pictures_change_as_asked)
{
    struct augment flip = {.flip = true}, crop = {.crop = 1};
    uint8_t scratch[12];
    int flipped = 0, moved = 0;

    for (uint64_t i = 0; i < 100; i++) {
        uint8_t x[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
        struct random r = random_at(1, RANDOM_AUGMENT, i);

        augment_apply(&flip, &r, x, 1, 3, 4, scratch);
        assert_true(x[0] == 1 || (x[0] == 4 && x[3] == 1 && x[11] == 9));
        flipped += x[0] == 4;
    }
    assert_in_range(flipped, 30, 70);
    for (uint64_t i = 0; i < 100; i++) {
        uint8_t x[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
        struct random r = random_at(1, RANDOM_AUGMENT, i);

        augment_apply(&crop, &r, x, 1, 3, 4, scratch);
        /* The middle comes from itself or a neighbour. */
        assert_true(x[5] == 6 || x[5] == 5 || x[5] == 7 || x[5] == 2 ||
                    x[5] == 10 || x[5] == 1 || x[5] == 3 || x[5] == 9 ||
                    x[5] == 11);
        moved += x[5] != 6;
    }
    assert_in_range(moved, 70, 99);
}

/* A square of zeros, cut off at the edges, in the same place of every plane. */
TEST(cutout_blanks_a_square)
{
    const struct augment a = {.cutout = 4};
    int whole = 0;

    for (uint64_t i = 0; i < 100; i++) {
        struct random r = random_at(1, RANDOM_AUGMENT, i);
        int left = 8, top = 8, right = -1, bottom = -1, blank = 0;
        uint8_t x[2 * 64], scratch[2 * 64];

        memset(x, 1, sizeof(x));
        augment_apply(&a, &r, x, 2, 8, 8, scratch);
        assert_memory_equal(x, x + 64, 64);
        for (int at = 0; at < 64; at++) {
            if (x[at] != 0)
                continue;
            left = at % 8 < left ? at % 8 : left;
            right = at % 8 > right ? at % 8 : right;
            top = at / 8 < top ? at / 8 : top;
            bottom = at / 8;
            blank++;
        }
        assert_in_range(right - left + 1, 2, 4);
        assert_in_range(bottom - top + 1, 2, 4);
        assert_int_equal(blank, (right - left + 1) * (bottom - top + 1));
        whole += blank == 16;
    }
    /* 5 of 8 places along each side: 39 in the mean. */
    assert_in_range(whole, 20, 60);
}

TEST(affine_of_nothing_is_the_picture)
{
    const struct augment a = {.affine = true};
    uint8_t x[12] = {1, 20, 3, 40, 5, 60, 7, 80, 9, 100, 11, 120};
    uint8_t was[12], scratch[12];
    struct random r = random_at(1, RANDOM_AUGMENT, 0);

    memcpy(was, x, sizeof(x));
    augment_apply(&a, &r, x, 1, 3, 4, scratch);
    assert_memory_equal(x, was, sizeof(x));
}

/* ---- batches ------------------------------------------------------- */

#define PICTURES 10

static void fill_set(struct data_set *set, uint8_t *pixels, int32_t *label)
{
    memset(set, 0, sizeof(*set));
    set->count = PICTURES;
    set->channels = 2;
    set->height = set->width = 1;
    set->classes = PICTURES;
    set->pixels = pixels;
    set->label = label;
    for (int i = 0; i < PICTURES; i++) {
        pixels[2 * i] = (uint8_t)i;
        pixels[2 * i + 1] = (uint8_t)(100 + i);
        label[i] = i;
    }
}

/* Pictures of folders are cut as infer cuts them: the middle of 112 pixels for
 * 109 begins at 2, the even one of 1 and 2. */
TEST(folders_fit_as_infer_does)
{
    static const char file[] = SOURCE_DIR "/samples/digits/images/3.png";
    struct data_set set = {.channels = 1,
                           .height = 109,
                           .width = 109,
                           .preprocess = {.resize = 112}};
    struct infer_image whole;
    struct infer_error err = {0};
    uint8_t cut[109 * 109];

    assert_int_equal(infer_image_load(file, 0, &err, &whole), 0);
    assert_int_equal(whole.width, 112);
    assert_int_equal(whole.channels, 1);
    set.preprocess.policy = GRAPH_RESIZE_SHORTER;
    assert_int_equal(data_decode(&set, file, cut, &err), 0);
    for (int y = 0; y < 109; y++)
        assert_memory_equal(cut + 109 * y, whole.pixels + 112 * (y + 2) + 2,
                            109);
    set.preprocess.policy = GRAPH_RESIZE_LETTERBOX;
    set.preprocess.fill = 77;
    set.height = 5;
    assert_int_equal(data_decode(&set, file, cut, &err), 0);
    assert_int_equal(cut[0], 77);
    assert_int_not_equal(cut[5 * 109 / 2], 77);
    set.preprocess.policy = GRAPH_RESIZE_NONE;
    assert_int_equal(data_decode(&set, file, cut, &err), INFER_EARGUMENT);
    assert_non_null(strstr(err.text, "3.png"));
    infer_image_free(&whole);
}

TEST(shuffles_are_permutations)
{
    uint32_t a[50], b[50];
    uint64_t seen = 0;
    int moved = 0;

    loader_order(5, 0, true, 50, a);
    loader_order(5, 1, true, 50, b);
    for (int i = 0; i < 50; i++) {
        seen |= (uint64_t)1 << a[i];
        moved += a[i] != b[i];
    }
    assert_int_equal(seen, ((uint64_t)1 << 50) - 1);
    assert_true(moved > 30);
    loader_order(5, 0, true, 50, b);
    assert_memory_equal(a, b, sizeof(a));
}

/* Every picture once an epoch, with its label; begun in the middle, the same
 * batches follow. */
TEST(batches_follow_from_their_number)
{
    uint8_t pixels[2 * PICTURES];
    int32_t label[PICTURES], first[3];
    struct data_set set;
    const struct loader_batch *b;
    struct loader *l;
    int seen = 0;

    fill_set(&set, pixels, label);
    const struct loader_options o = {
        .set = &set,
        .batch = 3,
        .seed = 1,
        .shuffle = true,
        .preprocess = {.scale = 1, .mean = {0, 100}, .std = {1, 1, 1, 1}}};
    assert_int_equal(loader_new(&o, NULL, &l), 0);
    assert_int_equal(loader_batches(l), 3);
    assert_int_equal(loader_start(l, 0, 0, NULL), 0);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(loader_next(l, NULL, &b), 0);
        assert_int_equal(b->count, 3);
        for (int k = 0; k < 3; k++) {
            const float *x = b->x;

            assert_true(x[2 * k] == (float)b->label[k]);
            assert_true(x[2 * k + 1] == (float)b->label[k]);
            seen |= i < 3 ? 1 << b->label[k] : 0;
        }
    }
    memcpy(first, b->label, sizeof(first)); /* epoch 1, batch 1 */
    assert_int_equal(__builtin_popcount((unsigned)seen), 9);
    assert_int_equal(loader_start(l, 1, 1, NULL), 0);
    assert_int_equal(loader_next(l, NULL, &b), 0);
    assert_memory_equal(first, b->label, sizeof(first));
    loader_free(l);
}

TEST(the_last_batch_is_filled_up)
{
    uint8_t pixels[2 * PICTURES];
    int32_t label[PICTURES];
    struct data_set set;
    const struct loader_batch *b = NULL;
    struct loader *l;

    fill_set(&set, pixels, label);
    const struct loader_options o = {
        .set = &set,
        .batch = 4,
        .whole = true,
        .preprocess = {.scale = 1, .std = {1, 1, 1, 1}}};
    assert_int_equal(loader_new(&o, NULL, &l), 0);
    assert_int_equal(loader_batches(l), 3);
    assert_int_equal(loader_start(l, 0, 0, NULL), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(loader_next(l, NULL, &b), 0);
    assert_int_equal(b->count, 2);
    assert_int_equal(b->label[1], 9);
    assert_int_equal(b->label[2], -1);
    loader_free(l);
}

/* ---- the log ------------------------------------------------------- */

TEST(a_plot_has_its_curves)
{
    struct log_row row[3] = {
        {.step = 1,
         .loss = 2,
         .accuracy = 0.1,
         .val_loss = NAN,
         .val_accuracy = NAN},
        {.step = 2,
         .loss = 1,
         .accuracy = 0.5,
         .val_loss = 1.5,
         .val_accuracy = 0.4},
        {.step = 3,
         .loss = 0.5,
         .accuracy = 0.9,
         .val_loss = 1,
         .val_accuracy = 0.8},
    };
    size_t bytes = 0;
    int circles = 0;
    char *svg = plot_svg("a<b>", row, 3, &bytes);

    assert_non_null(svg);
    assert_int_equal(bytes, strlen(svg));
    assert_non_null(strstr(svg, "polyline"));
    assert_null(strstr(svg, "nan"));
    assert_null(strstr(svg, "inf"));
    /* Title, ticks, axes, last values; a point for each validation. */
    assert_non_null(strstr(svg, ">a&#60;b&#62;<"));
    assert_non_null(strstr(svg, ">20<"));
    assert_non_null(strstr(svg, ">0.5<"));
    assert_non_null(strstr(svg, "accuracy, %<"));
    assert_non_null(strstr(svg, ">steps (3 steps: "));
    assert_non_null(strstr(svg, "validation 80.00 %<"));
    assert_non_null(strstr(svg, "training 0.5<"));
    for (const char *at = svg; (at = strstr(at, "<circle")) != NULL; at++)
        circles++;
    assert_int_equal(circles, 4);
    free(svg);
    row[1].val_loss = INFINITY; /* of statistics that overflow */
    svg = plot_svg("a<b>", row, 3, &bytes);
    assert_non_null(svg);
    assert_null(strstr(svg, "nan"));
    assert_null(strstr(svg, "inf"));
    free(svg);
    svg = plot_svg("a<b>", row, 0, &bytes); /* nothing yet */
    assert_non_null(svg);
    assert_null(strstr(svg, "nan"));
    free(svg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_depends_on_its_place),
        cmocka_unit_test(random_is_uniform_and_normal),
        cmocka_unit_test(rates_are_as_published),
        cmocka_unit_test(one_cycle_rises_and_falls),
        cmocka_unit_test(warmup_comes_first),
        cmocka_unit_test(words_of_augmentation),
        cmocka_unit_test(pictures_change_as_asked),
        cmocka_unit_test(cutout_blanks_a_square),
        cmocka_unit_test(affine_of_nothing_is_the_picture),
        cmocka_unit_test(folders_fit_as_infer_does),
        cmocka_unit_test(shuffles_are_permutations),
        cmocka_unit_test(batches_follow_from_their_number),
        cmocka_unit_test(the_last_batch_is_filled_up),
        cmocka_unit_test(a_plot_has_its_curves),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
