/* SPDX-License-Identifier: Apache-2.0 */
/* infer_detect.h: boxes of a program's own run. */
#include "include/infer_detect.h"

#include "libinfer/graph/model_file.h"
#include "libinfer/model/model.h"
#include "tests/unit/task/run.h"

/* A model with one output, which is not run. */
static struct infer_model *model_of(const char *input, const char *task)
{
    struct infer_model *model = NULL;
    struct infer_error err;
    struct graph *g;
    char text[512];

    snprintf(text, sizeof text,
             "{\"infer\": 1, \"name\": \"n\", \"inputs\": [{\"name\": \"x\", "
             "\"dtype\": \"F32\", \"shape\": [%s]}], \"nodes\": [{\"name\": "
             "\"r\", \"op\": \"unary\", \"in\": [\"x\"], \"out\": [\"y\"], "
             "\"attr\": {\"kind\": \"relu\"}}], \"outputs\": [\"y\"], "
             "\"task\": \"%s\", \"weights\": {}}",
             input, task);
    if (model_file_parse_arch(text, strlen(text), &err, &g) < 0 ||
        model_from_graph(g, &err, &model) < 0)
        fail_msg("%s", err.text);
    return model;
}

static void put_box(float *y, int cell, double x, double score)
{
    y[0 * CELLS + cell] = (float)x;
    y[1 * CELLS + cell] = 30;
    y[2 * CELLS + cell] = 10;
    y[3 * CELLS + cell] = 20;
    y[4 * CELLS + cell] = (float)score;
}

/* Decodes the one output of a run as boxes of a picture of so many pixels. */
static void detect(const struct infer_model *model, const struct run *r,
                   int width, const struct infer_detect_options *options,
                   int count, struct infer_boxes *b)
{
    const struct infer_image picture = {width, SIDE, 3, NULL};
    struct infer_error err;

    if (infer_detect(model, r->array, 1, &picture, options, &err, b) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(b->count, count);
}

static void refused(const struct infer_model *model, struct infer_array *out,
                    int n, const struct infer_detect_options *options, int code,
                    const char *words)
{
    const struct infer_image picture = {SIDE, SIDE, 3, NULL};
    struct infer_boxes b = {NULL, 3};
    struct infer_error err;
    const int rc = infer_detect(model, out, n, &picture, options, &err, &b);

    if (rc != code || !strstr(err.text, words))
        fail_msg("%d: %s; expected %d: %s", rc, err.text, code, words);
    assert_int_equal(b.count, 0);
    assert_null(b.box);
}

/* YOLOv8's rows in an input of 64 x 64, a picture twice as wide. */
TEST(test_boxes)
{
    struct infer_model *model = model_of("-1, 3, 64, 64", "detect");
    struct infer_detect_options options;
    struct infer_boxes b;
    struct run r;
    float *y;

    run_begin(&r);
    y = run_add(&r, NULL, DIMS(1, 6, CELLS));
    put_box(y, 5, 20, 0.8);
    put_box(y, 6, 21, 0.9); /* overlaps */
    put_box(y, 9, 50, 0.3);
    detect(model, &r, 2 * SIDE, NULL, 2, &b);
    assert_float_equal(b.box[0].score, 0.9, 1e-6);
    assert_float_equal(b.box[0].left, 2 * 16, 1e-4);
    assert_float_equal(b.box[0].right, 2 * 26, 1e-4);
    assert_float_equal(b.box[0].top, 20, 1e-4);
    assert_float_equal(b.box[0].bottom, 40, 1e-4);
    assert_int_equal(b.box[0].label, 0);
    assert_int_equal(b.box[0].n_points, 0);
    assert_null(b.box[0].point);
    assert_float_equal(b.box[1].left, 2 * 45, 1e-4);
    infer_boxes_free(&b);
    assert_null(b.box);
    infer_detect_options_init(&options);
    options.score = 0.85f;
    detect(model, &r, 2 * SIDE, &options, 1, &b);
    infer_boxes_free(&b);
    options.score = 0.1f;
    options.iou = 1;
    detect(model, &r, 2 * SIDE, &options, 3, &b);
    infer_boxes_free(&b);
    run_end(&r);
    infer_model_close(&model);
}

/* Posed boxes: 2 points with scores, the second picture of two. */
TEST(test_points)
{
    struct infer_model *model = model_of("2, 3, -1, -1", "detect:pose");
    const int64_t hw[2] = {SIDE, SIDE};
    struct infer_detect_options options;
    struct infer_boxes b;
    struct run r;
    float *y;

    run_begin(&r);
    y = run_add(&r, "any", DIMS(2, 5 + 17 * 3, CELLS));
    y += (5 + 17 * 3) * CELLS;
    put_box(y, 5, 20, 0.8);
    y[5 * CELLS + 5] = 18;
    y[6 * CELLS + 5] = 25;
    y[7 * CELLS + 5] = 0.75f;
    infer_detect_options_init(&options);
    options.batch = 2;
    options.entry = 1;
    refused(model, r.array, 1, &options, INFER_EARGUMENT, "shape_hw");
    options.shape_hw = hw;
    options.task = "detect";
    detect(model, &r, SIDE, &options, 1, &b);
    assert_int_equal(b.box[0].n_points, 17);
    assert_float_equal(b.box[0].point[0], 18, 1e-4);
    assert_float_equal(b.box[0].point[1], 25, 1e-4);
    assert_float_equal(b.box[0].point[2], 0.75, 1e-4);
    infer_boxes_free(&b);
    options.entry = 0;
    detect(model, &r, SIDE, &options, 0, &b);
    infer_boxes_free(&b);
    run_end(&r);
    infer_model_close(&model);
}

TEST(test_refused)
{
    const struct infer_image none = {0, 0, 0, NULL};
    struct infer_model *model = model_of("1, 3, 64, 64", "detect");
    struct infer_model *rows = model_of("1, 10", "detect");
    struct infer_model *classes = model_of("1, 3, 64, 64", "classify");
    struct infer_detect_options options;
    struct infer_boxes b;
    struct infer_error err;
    struct run r;

    run_begin(&r);
    run_add(&r, "y", DIMS(1, 6, CELLS));
    refused(model, r.array, 2, NULL, INFER_EARGUMENT, "the model has 1");
    refused(model, NULL, 1, NULL, INFER_EARGUMENT, "0 outputs");
    refused(rows, r.array, 1, NULL, INFER_EARGUMENT, "no picture");
    refused(classes, r.array, 1, NULL, INFER_EARGUMENT, "task classify");
    r.array[0].bytes--;
    refused(model, r.array, 1, NULL, INFER_EARGUMENT, "'y' has no data");
    r.array[0].bytes++;
    infer_detect_options_init(&options);
    options.entry = 1;
    refused(model, r.array, 1, &options, INFER_EARGUMENT, "picture 1 of 1");
    options.entry = 0;
    options.task = "detect:none";
    refused(model, r.array, 1, &options, INFER_EARGUMENT, "yolov8");
    struct {
        struct infer_detect_options options;
        unsigned char more[8];
    } newer = {.more = {0}};
    infer_detect_options_init_sized(&newer.options, sizeof newer);
    assert_int_equal(newer.options.size, sizeof newer);
    newer.more[7] = 1;
    refused(model, r.array, 1, &newer.options, INFER_EUNSUPPORTED, "is set");
    options.size = 0;
    refused(model, r.array, 1, &options, INFER_EARGUMENT, "size 0");
    r.array[0].dim[1] = 3;
    refused(model, r.array, 1, NULL, INFER_EUNSUPPORTED, "decoder");
    assert_int_equal(infer_detect(model, r.array, 1, &none, NULL, &err, &b),
                     INFER_EARGUMENT);
    assert_int_equal(infer_detect(model, r.array, 1, &none, NULL, &err, NULL),
                     INFER_EARGUMENT);
    infer_boxes_free(NULL);
    run_end(&r);
    infer_model_close(&model);
    infer_model_close(&rows);
    infer_model_close(&classes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_boxes),
        cmocka_unit_test(test_points),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
