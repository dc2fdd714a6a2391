/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes with masks, points and angles (libinfer/task/decoders_parts.c). */
#include "tests/unit/task/run.h"

#include "libinfer/image/image.h"
#include "libinfer/task/draw.h"

#define MASKS 32
#define MAP   16 /* side of the prototypes */

/* ---- masks --------------------------------------------------------- */

/* Prototype 1 is positive right of the middle, prototype 3 below it. */
static void add_prototypes(struct run *r)
{
    float *p = run_add(r, "output1", DIMS(1, MASKS, MAP, MAP));

    for (int y = 0; y < MAP; y++)
        for (int x = 0; x < MAP; x++) {
            p[(1 * MAP + y) * MAP + x] = x < MAP / 2 ? -1 : 1;
            p[(3 * MAP + y) * MAP + x] = y < MAP / 2 ? -1 : 1;
        }
}

/* The mask of b in a picture of twice the input's size. */
static void check_mask(const struct run *r, struct task_box b, int inside,
                       int outside)
{
    const struct preprocess_window window = {0, 0, 2, 2};
    uint8_t *mask = malloc(4 * SIDE * SIDE);
    struct task_boxes boxes = {&b, 1};
    const struct infer_image picture = {.width = 2 * SIDE, .height = 2 * SIDE};
    struct infer_error err;
    int area = 0;

    assert_non_null(mask);
    task_place(&window, &picture, &boxes);
    memset(mask, 7, 4 * SIDE * SIDE);
    assert_int_equal(
        task_mask(&r->o, &b, &window, 2 * SIDE, 2 * SIDE, mask, &err), 0);
    for (int i = 0; i < 4 * SIDE * SIDE; i++) {
        assert_in_range(mask[i], 0, 1);
        area += mask[i];
    }
    assert_int_equal(mask[inside], 1);
    assert_int_equal(mask[outside], 0);
    assert_int_equal(area, 2 * 20 * 2 * 10);
    free(mask);
}

TEST(test_masks_of_anchors)
{
    struct run r;
    struct task_boxes b;
    struct infer_error err;
    float *y;

    run_begin(&r);
    y = run_add(&r, "output0", DIMS(1, 4 + 2 + MASKS, CELLS));
    for (int i = 0; i < 2; i++) { /* the worse is dropped */
        y[0 * CELLS + 5 + i] = 32;
        y[1 * CELLS + 5 + i] = 32;
        y[2 * CELLS + 5 + i] = 20;
        y[3 * CELLS + 5 + i] = 20;
        y[5 * CELLS + 5 + i] = 0.5f + 0.1f * (float)i;
        y[(6 + 1) * CELLS + 5 + i] = (float)i; /* right half */
    }
    add_prototypes(&r);
    b = decode(&r, "yoloseg");
    assert_int_equal(b.count, 1);
    check_box(&b.box[0], 1, 0.6, 22, 22, 42, 42);
    assert_int_equal(b.box[0].n_coefs, MASKS);
    /* x 64..84 and y 44..84 of the picture. */
    check_mask(&r, b.box[0], 50 * 2 * SIDE + 70, 50 * 2 * SIDE + 60);
    b.box[0].n_coefs = 0;
    assert_int_equal(task_mask(&r.o, &b.box[0],
                               &(struct preprocess_window){0, 0, 1, 1}, 1, 1,
                               &(uint8_t){0}, &err),
                     INFER_EUNSUPPORTED);
    free(b.box);
    run_end(&r);
}

/* Rows of chosen boxes; those that overlap stay. */
TEST(test_masks_of_chosen)
{
    struct run r;
    struct task_boxes b;
    float *y;

    run_begin(&r);
    y = run_add(&r, "output0", DIMS(1, 100, 6 + MASKS));
    for (int i = 0; i < 2; i++) {
        PUT(y + i * (6 + MASKS), 22, 22, 42, 42, 0.9 - 0.1 * i, 3);
        y[i * (6 + MASKS) + 6 + 3] = 2; /* lower half */
    }
    add_prototypes(&r);
    b = decode(&r, "yoloseg");
    assert_int_equal(b.count, 2);
    check_box(&b.box[1], 3, 0.8, 22, 22, 42, 42);
    check_mask(&r, b.box[0], 70 * 2 * SIDE + 60, 50 * 2 * SIDE + 60);
    free(b.box);
    run_end(&r);
}

/* ---- points -------------------------------------------------------- */

static struct task_boxes decode_as(struct run *r, const char *word, int rc)
{
    const struct task_limits limits = {.score = -1, .iou = 0.45f};
    struct task_boxes boxes = {0};
    struct infer_error err;
    struct task task;

    assert_int_equal(task_parse(word, &err, &task), 0);
    assert_int_equal(task_detect(&task, &r->o, &limits, &err, &boxes), rc);
    return boxes;
}

/* One class, 17 points: known by its shape. */
TEST(test_person)
{
    const struct preprocess_window window = {-4, 0, 2, 2};
    const struct infer_image picture = {.width = 2 * SIDE, .height = 2 * SIDE};
    struct run r;
    struct task_boxes b;
    float *y;

    run_begin(&r);
    y = run_add(&r, "output0", DIMS(1, 5 + 51, CELLS));
    PUT(y, 0);
    for (int f = 0; f < 5; f++)
        y[f * CELLS + 7] = (const float[]){32, 30, 10, 20, 0.75f}[f];
    y[(5 + 48) * CELLS + 7] = 11; /* the last point */
    y[(5 + 49) * CELLS + 7] = 12;
    y[(5 + 50) * CELLS + 7] = 0.5f;
    b = decode(&r, "yolopose");
    assert_int_equal(b.count, 1);
    check_box(&b.box[0], 0, 0.75, 27, 20, 37, 40);
    assert_int_equal(b.box[0].n_points, 17);
    assert_true(b.box[0].point_scores);
    task_place(&window, &picture, &b);
    assert_float_equal(b.box[0].point[16][0], 14, 1e-4);
    assert_float_equal(b.box[0].point[16][1], 24, 1e-4);
    assert_float_equal(b.box[0].point[16][2], 0.5, 1e-4);
    free(b.box);
    run_end(&r);
}

/* Other counts are told by the detail; the shape must have room for them. */
TEST(test_point_shapes)
{
    static const char *const bad[] = {
        "detect:yolopose:0x2",  "detect:yolopose:3x4",  "detect:yolopose:3",
        "detect:yolopose:3x2x", "detect:yolopose:-3x2", "detect:yolopose:134x2",
        "detect:yolopose:9x2",  "detect:yolopose"};
    struct run r;
    struct task_boxes b;
    float *y;

    run_begin(&r);
    y = run_add(&r, "output0", DIMS(1, 4 + 2 + 6, CELLS));
    y[5 * CELLS + 9] = 0.5f;
    y[(6 + 5) * CELLS + 9] = 13;
    b = decode_as(&r, "detect:yolopose:3x2", 0);
    assert_int_equal(b.count, 1);
    assert_int_equal(b.box[0].label, 1);
    assert_int_equal(b.box[0].n_points, 3);
    assert_false(b.box[0].point_scores);
    assert_float_equal(b.box[0].point[2][1], 13, 0);
    free(b.box);
    for (size_t i = 0; i < COUNT(bad); i++)
        decode_as(&r, bad[i], INFER_EUNSUPPORTED);
    run_end(&r);
}

/* ---- angles -------------------------------------------------------- */

TEST(test_oriented)
{
    struct run r;
    struct task_boxes b;
    float *y;

    run_begin(&r);
    y = run_add(&r, "output0", DIMS(1, 4 + 2 + 1, CELLS));
    for (int i = 0; i < 3; i++) { /* the third stands across the others */
        const double angle = i < 2 ? 0.5236 : 0.5236 + 1.5708;
        const double v[] = {32 + 0.5 * i, 30, 40, 8, 0, 0.9 - 0.1 * i, angle};

        for (int f = 0; f < 7; f++)
            y[f * CELLS + 20 + i] = (float)v[f];
    }
    b = decode_as(&r, "detect:yoloobb", 0);
    assert_int_equal(b.count, 2);
    assert_true(b.box[0].oriented);
    /* 20 cos 30 + 4 sin 30 and 20 sin 30 + 4 cos 30 round (32, 30). */
    check_box(&b.box[0], 1, 0.9, 32 - 19.3205, 30 - 13.4641, 32 + 19.3205,
              30 + 13.4641);
    assert_float_equal(b.box[0].corner[1][0], 32 + 17.3205 - -2, 1e-2);
    assert_float_equal(b.box[1].score, 0.7, 1e-4);
    free(b.box);
    run_end(&r);
}

TEST(test_rtdetr_chosen)
{
    struct run r;
    struct task_boxes b;
    float *y;

    run_begin(&r);
    y = run_add(&r, "output0", DIMS(1, 300, 6));
    PUT(y, 0.5, 0.5, 0.25, 0.5, 0.75, 13);
    b = decode_as(&r, "detect:rtdetr:chosen", 0);
    assert_int_equal(b.count, 1);
    check_box(&b.box[0], 13, 0.75, 24, 16, 40, 48);
    free(b.box);
    decode_as(&r, "detect:rtdetr:other", INFER_EUNSUPPORTED);
    run_end(&r);
}

/* Nothing is written outside the pixels, wherever points and corners lie. */
TEST(test_draw_parts)
{
    static const float at[] = {-1e9f, -1, 0, 7, 19, 20, 1e9f};
    struct infer_image image;

    assert_int_equal(image_new(20, 10, 3, NULL, &image), 0);
    for (size_t i = 0; i < COUNT(at); i++)
        for (size_t k = 0; k < COUNT(at); k++) {
            struct task_box b = {.n_points = 17, .oriented = true};

            for (int n = 0; n < 17; n++) {
                b.point[n][0] = at[(i + (size_t)n) % COUNT(at)];
                b.point[n][1] = at[(k + 2 * (size_t)n) % COUNT(at)];
                b.corner[n % 4][0] = b.point[n][0];
                b.corner[n % 4][1] = b.point[n][1];
            }
            draw_box(&image, &b, "");
        }
    memset(image.pixels, 0, 20 * 10 * 3);
    draw_mask(&image, (const uint8_t[200]){[199] = 1}, 4);
    assert_int_equal(image.pixels[0], 0);
    assert_true(image.pixels[3 * 199] | image.pixels[3 * 199 + 1] |
                image.pixels[3 * 199 + 2]);
    draw_legend(&image, 0, 3, "longer than the picture");
    draw_legend(&image, 100, 3, "below it");
    assert_true(image.pixels[0] | image.pixels[1] | image.pixels[2]);
    infer_image_free(&image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_masks_of_anchors),
        cmocka_unit_test(test_masks_of_chosen),
        cmocka_unit_test(test_person),
        cmocka_unit_test(test_point_shapes),
        cmocka_unit_test(test_oriented),
        cmocka_unit_test(test_rtdetr_chosen),
        cmocka_unit_test(test_draw_parts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
