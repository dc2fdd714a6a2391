/* SPDX-License-Identifier: Apache-2.0 */
/* Detectors with boxes in grids of cells: outputs with one box, and that box.
 */
#include "tests/unit/task/run.h"

/* Without a batch; 235 priors, that of 48 pixels in column 2, row 1 of stride
 * 16 is number 192 + 2 * 6 + 1. */
TEST(test_yunet2021)
{
    const int at = 205;
    struct run r;
    struct task_boxes b;
    float *loc, *conf, *iou;

    run_begin(&r);
    loc = run_add(&r, "loc", DIMS(235, 14));
    conf = run_add(&r, "conf", DIMS(235, 2));
    iou = run_add(&r, "iou", DIMS(235, 1));
    conf[2 * at + 1] = 0.81f;
    iou[at] = 1.5f; /* counts as 1 */
    PUT(loc + 14 * at, -1, 1, 0, 0, 0.5, -0.5);
    assert_int_equal(task_recognise(&r.o).kind, TASK_DETECT);
    b = decode(&r, "yunet2021");
    assert_int_equal(b.count, 1);
    check_box(&b.box[0], 0, 0.9, 40 - 4.8 - 24, 24 + 4.8 - 24, 40 - 4.8 + 24,
              24 + 4.8 + 24);
    assert_int_equal(b.box[0].n_points, 5);
    assert_float_equal(b.box[0].point[0][0], 42.4, 1e-4);
    assert_float_equal(b.box[0].point[0][1], 21.6, 1e-4);
    free(b.box);
    run_end(&r);
}

TEST(test_yunet)
{
    static const char *const names[] = {
        "cls_8",  "cls_16",  "cls_32",  "obj_8", "obj_16", "obj_32",
        "bbox_8", "bbox_16", "bbox_32", "kps_8", "kps_16", "kps_32"};
    static const int64_t rows[] = {64, 16, 4}, columns[] = {1, 1, 4, 10};
    struct run r;
    struct task_boxes b;
    float *y[12];

    run_begin(&r);
    for (int i = 0; i < 12; i++)
        y[i] = run_add(&r, names[i], DIMS(1, rows[i % 3], columns[i / 3]));
    y[1][6] = 1; /* stride 16: column 2, row 1 */
    y[4][6] = 0.81f;
    PUT(y[7] + 4 * 6, 0.5, 0.5, 0, 0);
    PUT(y[10] + 10 * 6, 0.25, 0.5);
    b = decode(&r, "yunet");
    assert_int_equal(b.count, 1);
    check_box(&b.box[0], 0, 0.9, 32, 16, 48, 32);
    assert_int_equal(b.box[0].n_points, 5);
    assert_float_equal(b.box[0].point[0][0], 36, 1e-4);
    assert_float_equal(b.box[0].point[0][1], 24, 1e-4);
    free(b.box);
    run_end(&r);
}

TEST(test_nanodet)
{
    static const int64_t rows[] = {64, 16, 4};
    struct run r;
    struct task_boxes b;
    float *y[6];

    run_begin(&r);
    for (int i = 0; i < 6; i++)
        y[i] = run_add(&r, "y", DIMS(1, rows[i / 2], i % 2 ? 32 : 80));
    y[0][80 * 9 + 3] = 0.6f; /* stride 8: column 1, row 1 */
    for (int side = 0; side < 4; side++)
        y[1][32 * 9 + 8 * side + side] = 100; /* distance: side strides */
    b = decode(&r, "nanodet");
    assert_int_equal(b.count, 1);
    check_box(&b.box[0], 3, 0.6, 12, 12 - 8, 12 + 16, 12 + 24);
    free(b.box);
    run_end(&r);
}

TEST(test_darknet)
{
    const struct task_limits limits = {.score = 0.2f, .iou = 0.45f};
    static const char *const malformed[] = {
        "detect:darknet",           "detect:darknet:",
        "detect:darknet:1",         "detect:darknet:1*2",
        "detect:darknet:1*2,3,4",   "detect:darknet:1*2,3/",
        "detect:darknet:nan*2,3",   "detect:darknet:1*2,3x",
        "detect:darknet:1*2,3,4,5", "detect:darknet:1*/1*2,3",
    };
    struct task_boxes b;
    struct infer_error err;
    struct task task;
    struct run r;
    float *y;

    run_begin(&r);
    y = run_add(&r, "y", DIMS(1, 7, 4, 4));
    for (int i = 0; i < 16; i++)
        y[4 * 16 + i] = -50;
    y[4 * 16 + 5] = 50; /* column 1, row 1; the centre of its cell */
    y[5 * 16 + 5] = -50;
    y[2 * 16 + 5] = logf(2);
    assert_int_equal(task_parse("detect:darknet:1.2*8,4", &err, &task), 0);
    assert_int_equal(task_detect(&task, &r.o, &limits, &err, &b), 0);
    assert_int_equal(b.count, 1);
    check_box(&b.box[0], 1, 0.5, 24 - 8, 24 - 2, 24 + 8, 24 + 2);
    free(b.box);
    for (size_t i = 0; i < COUNT(malformed); i++) {
        assert_int_equal(task_parse(malformed[i], &err, &task), 0);
        assert_int_equal(task_detect(&task, &r.o, &limits, &err, &b),
                         INFER_EUNSUPPORTED);
    }
    run_end(&r);
}

/* An unnamed decoder is found, or the error names what there is. */
TEST(test_find_decoder)
{
    struct task task = {.kind = TASK_DETECT};
    struct infer_error err;
    struct run r;

    run_begin(&r);
    run_add(&r, "strange", DIMS(1, 2, 3, 4));
    assert_int_equal(task_find_decoder(&r.o, &task, &err), INFER_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "strange"));
    run_end(&r);
}

/* The second picture of a batch has its own boxes. */
TEST(test_batch)
{
    struct run r;
    struct task_boxes b;
    float *y;

    run_begin(&r);
    y = run_add(&r, "output0", DIMS(2, 300, 6));
    r.o.batch = 2;
    r.o.entry = 1;
    PUT(y + 300 * 6, 1, 2, 3, 4, 0.9, 7);
    b = decode(&r, "end2end");
    assert_int_equal(b.count, 1);
    free(b.box);
    run_end(&r);
}

/* Boxes in pixels of one anchor a cell: three grids, and one (by name alone,
 * since tokens of transformers have that shape). */
TEST(test_yolox_pixels)
{
    const struct task_limits limits = {.score = -1, .iou = 0.45f};
    struct infer_error err;
    struct task task;
    struct run r;
    struct task_boxes b;
    float *y;

    run_begin(&r);
    y = run_add(&r, "y", DIMS(1, CELLS, 7));
    PUT(y + 7 * 20, 30, 20, 16, 8, 0.5, 0, 0.8);
    b = decode(&r, "yolox");
    assert_int_equal(b.count, 1);
    check_box(&b.box[0], 1, 0.4, 30 - 8, 20 - 4, 30 + 8, 20 + 4);
    free(b.box);
    run_end(&r);
    run_begin(&r);
    y = run_add(&r, "y", DIMS(1, 16, 7));
    PUT(y + 7 * 9, 30, 20, 16, 8, 1, 0.5, 0);
    assert_int_equal(task_recognise(&r.o).kind, TASK_CLASSIFY);
    assert_int_equal(task_parse("detect:yolox", &err, &task), 0);
    assert_int_equal(task_detect(&task, &r.o, &limits, &err, &b), 0);
    assert_int_equal(b.count, 1);
    check_box(&b.box[0], 0, 0.5, 30 - 8, 20 - 4, 30 + 8, 20 + 4);
    free(b.box);
    run_end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_yunet2021),    cmocka_unit_test(test_yunet),
        cmocka_unit_test(test_nanodet),      cmocka_unit_test(test_darknet),
        cmocka_unit_test(test_find_decoder), cmocka_unit_test(test_batch),
        cmocka_unit_test(test_yolox_pixels),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
