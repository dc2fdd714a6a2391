/* SPDX-License-Identifier: Apache-2.0 */
/* Detectors of faces and of centres: outputs with one box, and that box. */
#include "tests/unit/task/run.h"

static void check_point(const struct task_box *b, int k, double x, double y)
{
    assert_true(k < b->n_points);
    assert_float_equal(b->point[k][0], x, 1e-3);
    assert_float_equal(b->point[k][1], y, 1e-3);
}

/* Rows of InsightFace's export, grouped by kind: stride 16, column 1, row 2,
 * the second anchor. */
TEST(test_scrfd_rows)
{
    static const int64_t rows[] = {128, 32, 8}, columns[] = {1, 4, 10};
    struct run r;
    struct task_boxes b;
    float *y[9];
    const int at = (2 * 4 + 1) * 2 + 1;

    run_begin(&r);
    for (int i = 0; i < 9; i++)
        y[i] = run_add(&r, "out", DIMS(1, rows[i % 3], columns[i / 3]));
    y[1][at] = 0.75f;
    PUT(y[4] + 4 * at, 0.5, 1, 1.5, 2);
    PUT(y[7] + 10 * at, -0.25, 0.5, 0, 0, 0, 0, 0, 0, 1, -1);
    b = decode(&r, "scrfd");
    assert_int_equal(b.count, 1);
    check_box(&b.box[0], 0, 0.75, 16 - 8, 32 - 16, 16 + 24, 32 + 32);
    assert_int_equal(b.box[0].n_points, 5);
    check_point(&b.box[0], 0, 16 - 4, 32 + 8);
    check_point(&b.box[0], 4, 32, 16);
    free(b.box);
    run_end(&r);
}

/* Planes without points, logits: ncnn's form, boxes first. */
TEST(test_scrfd_planes)
{
    struct run r;
    struct task_boxes b;
    float *box[3], *score[3];

    run_begin(&r);
    for (int k = 0; k < 3; k++) {
        const int64_t side = SIDE / (8 << k);

        box[k] = run_add(&r, "out", DIMS(1, 8, side, side));
        score[k] = run_add(&r, "out", DIMS(1, 2, side, side));
        for (int i = 0; i < 2 * side * side; i++)
            score[k][i] = -9;
    }
    score[0][64 + 8 * 3 + 5] = 9; /* stride 8: anchor 1, column 5, row 3 */
    for (int c = 0; c < 4; c++)
        box[0][(4 + c) * 64 + 8 * 3 + 5] = (float)(1 + c);
    b = decode(&r, "scrfd");
    assert_int_equal(b.count, 1);
    check_box(&b.box[0], 0, 1 / (1 + exp(-9)), 40 - 8, 24 - 16, 40 + 24,
              24 + 32);
    assert_int_equal(b.box[0].n_points, 0);
    free(b.box);
    run_end(&r);
    /* Other numbers of rows are another network's. */
    run_begin(&r);
    for (int i = 0; i < 6; i++)
        run_add(&r, "out", DIMS(1, i < 3 ? 63 : 64, i < 3 ? 1 : 4));
    assert_int_not_equal(task_recognise(&r.o).kind, TASK_DETECT);
    run_end(&r);
}

/* Of sides 16 and 32 at 64 cells of stride 8, and so on: 168 anchors.  Anchor
 * 19 is the larger one of column 1, row 1. */
static void put_retinaface(struct run *r, double score)
{
    float *points, *box, *conf;

    run_begin(r);
    points = run_add(r, "landmarks", DIMS(1, 168, 10));
    box = run_add(r, "boxes", DIMS(1, 168, 4));
    conf = run_add(r, "scores", DIMS(1, 168, 2));
    for (int i = 0; i < 168; i++)
        conf[2 * i] = score > 1 ? 4 : 1;
    PUT(conf + 2 * 19, score > 1 ? 0 : 1 - score, score);
    PUT(box + 4 * 19, 1, -1, 5 * log(2), 0);
    PUT(points + 10 * 19, 0, 0, 2, -2);
}

TEST(test_retinaface)
{
    const struct task_limits limits = {.score = -1, .iou = 0.45f};
    static const char *const malformed[] = {"16,32",
                                            "16,32/64,128/256,512,",
                                            "16,32/64,128/0,512",
                                            "1,2,3,4,5/6/7",
                                            "a/b/c",
                                            "16/64/256"};
    struct infer_error err;
    struct task task;
    struct task_boxes b;
    struct run r;

    put_retinaface(&r, 0.9);
    b = decode(&r, "retinaface");
    assert_int_equal(b.count, 1);
    check_box(&b.box[0], 0, 0.9, 15.2 - 32, 8.8 - 16, 15.2 + 32, 8.8 + 16);
    check_point(&b.box[0], 1, 12 + 6.4, 12 - 6.4);
    free(b.box);
    /* Other sides, by the detail. */
    assert_int_equal(
        task_parse("detect:retinaface:10,20/32,64/128,256", &err, &task), 0);
    assert_int_equal(task_detect(&task, &r.o, &limits, &err, &b), 0);
    check_box(&b.box[0], 0, 0.9, 14 - 20, 10 - 10, 14 + 20, 10 + 10);
    free(b.box);
    for (size_t i = 0; i < COUNT(malformed); i++) {
        char word[64];

        snprintf(word, sizeof word, "detect:retinaface:%s", malformed[i]);
        assert_int_equal(task_parse(word, &err, &task), 0);
        assert_int_equal(task_detect(&task, &r.o, &limits, &err, &b),
                         INFER_EUNSUPPORTED);
    }
    run_end(&r);
    /* Logits. */
    put_retinaface(&r, 3);
    b = decode(&r, "retinaface");
    assert_int_equal(b.count, 1);
    assert_float_equal(b.box[0].score, 1 / (1 + exp(-3)), 1e-5);
    free(b.box);
    run_end(&r);
}

/* Strides 8 (2 anchors) and 16 (6): row 128 + 6 * 5 + 2 is column 1, row 1. */
TEST(test_blazeface)
{
    const int at = 128 + 6 * 5 + 2;
    struct run r;
    struct task_boxes b;
    float *box, *score;

    run_begin(&r);
    score = run_add(&r, "classificators", DIMS(1, 224, 1));
    box = run_add(&r, "regressors", DIMS(1, 224, 16));
    for (int i = 0; i < 224; i++)
        score[i] = -100;
    score[at] = 2;
    PUT(box + 16 * at, 3, -4, 20, 10, 1, 2);
    b = decode(&r, "blazeface");
    assert_int_equal(b.count, 1);
    check_box(&b.box[0], 0, 1 / (1 + exp(-2)), 27 - 10, 20 - 5, 27 + 10,
              20 + 5);
    assert_int_equal(b.box[0].n_points, 6);
    check_point(&b.box[0], 0, 25, 26);
    free(b.box);
    run_end(&r);
    run_begin(&r);
    run_add(&r, "scores", DIMS(1, 225, 1));
    run_add(&r, "boxes", DIMS(1, 225, 16));
    assert_int_not_equal(task_recognise(&r.o).kind, TASK_DETECT);
    run_end(&r);
}

/* Maps of 16 x 16: the peak of class 1 in column 3, row 2; its neighbour has a
 * smaller score. */
TEST(test_centernet)
{
    const struct task_limits limits = {.score = -1, .iou = 0.45f};
    struct infer_error err;
    struct task task;
    struct run r;
    struct task_boxes b;
    float *heat, *sides, *offset;
    const int at = 2 * 16 + 3;

    run_begin(&r);
    offset = run_add(&r, "reg", DIMS(1, 2, 16, 16));
    heat = run_add(&r, "hm", DIMS(1, 3, 16, 16));
    sides = run_add(&r, "wh", DIMS(1, 2, 16, 16));
    heat[256 + at] = 0.8f;
    heat[256 + at + 17] = 0.7f;
    sides[at] = 4;
    sides[256 + at] = 2;
    offset[at] = 0.5f;
    offset[256 + at] = 0.25f;
    b = decode(&r, "centernet");
    assert_int_equal(b.count, 1);
    check_box(&b.box[0], 1, 0.8, 14 - 8, 9 - 4, 14 + 8, 9 + 4);
    free(b.box);
    /* Without names it is a map unless the decoder is named. */
    for (int i = 0; i < 3; i++)
        r.array[i].name = "y";
    assert_int_equal(task_recognise(&r.o).kind, TASK_SEGMENT);
    assert_int_equal(task_parse("detect:centernet", &err, &task), 0);
    assert_int_equal(task_detect(&task, &r.o, &limits, &err, &b),
                     INFER_EUNSUPPORTED); /* the second has three planes */
    run_end(&r);
}

/* Both names have "center", and the offset comes behind. */
TEST(test_centernet_names)
{
    struct run r;
    struct task_boxes b;
    float *heat, *sides;
    const int at = 2 * 16 + 3;

    run_begin(&r);
    heat = run_add(&r, "center_heatmap", DIMS(1, 2, 16, 16));
    sides = run_add(&r, "wh", DIMS(1, 2, 16, 16));
    run_add(&r, "center_offset", DIMS(1, 2, 16, 16));
    heat[256 + at] = 0.8f;
    sides[at] = 4;
    sides[256 + at] = 2;
    b = decode(&r, "centernet");
    assert_int_equal(b.count, 1);
    check_box(&b.box[0], 1, 0.8, 12 - 8, 8 - 4, 12 + 8, 8 + 4);
    free(b.box);
    run_end(&r);
}

TEST(test_centerface)
{
    struct run r;
    struct task_boxes b;
    float *heat, *sides, *offset, *points;
    const int at = 2 * 16 + 3;

    run_begin(&r);
    heat = run_add(&r, "537", DIMS(1, 1, 16, 16));
    sides = run_add(&r, "538", DIMS(1, 2, 16, 16));
    offset = run_add(&r, "539", DIMS(1, 2, 16, 16));
    points = run_add(&r, "540", DIMS(1, 10, 16, 16));
    heat[at] = 0.6f;
    sides[at] = logf(2);       /* height: 8 pixels */
    sides[256 + at] = logf(4); /* width: 16 pixels */
    offset[at] = 0.25f;        /* y */
    offset[256 + at] = -0.5f;  /* x */
    points[at] = 0.5f;         /* y of the first, in heights */
    points[256 + at] = 0.25f;  /* x of the first, in widths */
    b = decode(&r, "centerface");
    assert_int_equal(b.count, 1);
    check_box(&b.box[0], 0, 0.6, 12 - 8, 11 - 4, 12 + 8, 11 + 4);
    check_point(&b.box[0], 0, 4 + 4, 7 + 4);
    free(b.box);
    run_end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scrfd_rows),
        cmocka_unit_test(test_scrfd_planes),
        cmocka_unit_test(test_retinaface),
        cmocka_unit_test(test_blazeface),
        cmocka_unit_test(test_centernet),
        cmocka_unit_test(test_centernet_names),
        cmocka_unit_test(test_centerface),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
