/* SPDX-License-Identifier: Apache-2.0 */
/* What outputs say of a picture: words of tasks, recognition, decoders of
 * boxes, maps of classes, pictures, drawing. */
#include "tests/unit/task/run.h"

#include <unistd.h>

#include <cjson/cJSON.h>

#include "libinfer/image/image.h"
#include "libinfer/task/draw.h"

/* ---- words --------------------------------------------------------- */

TEST(test_words)
{
    struct infer_error err;
    struct task task;

    assert_int_equal(task_parse("segment", &err, &task), 0);
    assert_int_equal(task.kind, TASK_SEGMENT);
    assert_int_equal(task_parse("detect", &err, &task), 0);
    assert_null(task.decoder);
    assert_int_equal(task_parse("detect:darknet:1*2,3", &err, &task), 0);
    assert_non_null(task.decoder);
    assert_string_equal(task.detail, "1*2,3");
    assert_int_equal(task_parse("detect:yolo", &err, &task), INFER_EARGUMENT);
    assert_non_null(strstr(err.text, "yolov8"));
    assert_int_equal(task_parse("", &err, &task), INFER_EARGUMENT);
}

/* ---- recognition --------------------------------------------------- */

static enum task_kind kind_of(int rank, const int64_t *dim)
{
    struct run r;
    enum task_kind kind;

    run_begin(&r);
    run_add(&r, "y", rank, dim);
    kind = task_recognise(&r.o).kind;
    run_end(&r);
    return kind;
}

TEST(test_recognises_by_shape)
{
    assert_int_equal(kind_of(DIMS(1, 1000)), TASK_CLASSIFY);
    assert_int_equal(kind_of(DIMS(1, 6)), TASK_CLASSIFY);
    assert_int_equal(kind_of(DIMS(1, 10, 1, 1)), TASK_CLASSIFY);
    assert_int_equal(kind_of(DIMS(1, 50, 768)), TASK_CLASSIFY);
    assert_int_equal(kind_of(DIMS(1, 3, SIDE, SIDE)), TASK_IMAGE);
    assert_int_equal(kind_of(DIMS(1, 3, 2 * SIDE, 2 * SIDE)), TASK_IMAGE);
    assert_int_equal(kind_of(DIMS(1, 21, SIDE, SIDE)), TASK_SEGMENT);
    assert_int_equal(kind_of(DIMS(1, 21, SIDE / 8, SIDE / 8)), TASK_SEGMENT);
    assert_int_equal(kind_of(DIMS(1, 21, 4, 4)), TASK_CLASSIFY);
    assert_int_equal(kind_of(DIMS(1, 84, CELLS)), TASK_DETECT);
}

#define TEXT 128

/* Of a graph, by shapes alone; a stored word goes first, without its detail. */
static bool text_of(int height, int out, const char *word, char *text)
{
    static const char form[] =
        "{'infer': 1, 'inputs': [{'name': 'x', 'dtype': 'F32',"
        " 'shape': [-1, 3, %d, 64]}], 'outputs': ['y'],"
        " 'nodes': [{'name': 'n', 'op': 'resize', 'in': ['x'], 'out': ['y'],"
        " 'attr': {'size': [0, 0, %d, %d]}}]}";
    struct infer_error err;
    char json[512];
    struct graph *g;
    cJSON *tree;
    bool known;

    snprintf(json, sizeof json, form, height, out, out);
    for (char *c = json; *c; c++)
        if (*c == '\'')
            *c = '"';
    tree = cJSON_Parse(json);
    if (graph_from_json(tree, &err, &g) < 0 ||
        graph_infer_shapes(g, NULL, &err) < 0)
        fail_msg("%s", err.text);
    cJSON_Delete(tree);
    if (word != NULL)
        g->task = strdup(word);
    known = task_text(g, "file", text, TEXT);
    graph_free(g);
    return known;
}

TEST(test_text_of_graphs)
{
    char text[TEXT];

    assert_true(text_of(64, 128, NULL, text));
    assert_string_equal(text, "image (by the outputs)");
    assert_true(text_of(64, 1, NULL, text));
    assert_string_equal(text, "classify (by the outputs)");
    assert_true(text_of(64, 2, NULL, text)); /* too coarse for a picture */
    assert_non_null(strstr(text, "not recognised: output 'y' is no list"));
    assert_false(text_of(-1, 128, NULL, text)); /* a free height */
    assert_true(text_of(-1, 128, "detect:darknet:1*2,3", text));
    assert_string_equal(text, "detect:darknet (file)");
    assert_true(text_of(64, 128, "segment", text));
    assert_string_equal(text, "segment (file)");
}

/* Grids of two strides are no maps of classes. */
TEST(test_grids_are_no_map)
{
    struct run r;

    run_begin(&r);
    run_add(&r, "a", DIMS(1, 255, 8, 8));
    run_add(&r, "b", DIMS(1, 255, 16, 16));
    assert_int_equal(task_recognise(&r.o).kind, TASK_CLASSIFY);
    run_end(&r);
}

/* ---- boxes in rows ------------------------------------------------- */

TEST(test_yolov8)
{
    struct run r;
    struct task_boxes b;
    float *y;

    run_begin(&r);
    y = run_add(&r, "output0", DIMS(1, 6, CELLS));
    for (int i = 0; i < 2; i++) { /* two boxes of class 1 that overlap */
        y[0 * CELLS + 5 + i] = 20 + (float)i;
        y[1 * CELLS + 5 + i] = 30;
        y[2 * CELLS + 5 + i] = 10;
        y[3 * CELLS + 5 + i] = 20;
        y[5 * CELLS + 5 + i] = 0.8f + 0.1f * (float)i;
    }
    y[0 * CELLS + 9] = 21; /* another class in the same place */
    y[1 * CELLS + 9] = 30;
    y[2 * CELLS + 9] = 10;
    y[3 * CELLS + 9] = 20;
    y[4 * CELLS + 9] = 0.5f;
    y[4 * CELLS + 10] = NAN;
    y[4 * CELLS + 11] = 0.99f; /* no box: infinite */
    y[2 * CELLS + 11] = INFINITY;
    b = decode(&r, "yolov8");
    assert_int_equal(b.count, 2);
    check_box(&b.box[0], 1, 0.9, 16, 20, 26, 40);
    check_box(&b.box[1], 0, 0.5, 16, 20, 26, 40);
    free(b.box);
    run_end(&r);
}

TEST(test_yolov5)
{
    struct run r;
    struct task_boxes b;
    float *y;

    run_begin(&r);
    y = run_add(&r, "output", DIMS(1, 3 * CELLS, 7));
    PUT(y + 7 * 100, 32, 32, 8, 4, 0.5, 0.2, 0.8);
    b = decode(&r, "yolov5");
    assert_int_equal(b.count, 1);
    check_box(&b.box[0], 1, 0.4, 28, 30, 36, 34);
    free(b.box);
    run_end(&r);
}

TEST(test_yolox)
{
    struct run r;
    struct task_boxes b;
    float *y;

    run_begin(&r);
    y = run_add(&r, "output", DIMS(1, CELLS, 7));
    /* Stride 16, column 1, row 2: cell 64 + 2 * 4 + 1. */
    PUT(y + 7 * (64 + 9), 0.5, 0.25, 0, log(2), 1, 0.9, 0.1);
    b = decode(&r, "yolox");
    assert_int_equal(b.count, 1);
    check_box(&b.box[0], 0, 0.9, 24 - 8, 36 - 16, 24 + 8, 36 + 16);
    free(b.box);
    run_end(&r);
}

TEST(test_end2end)
{
    struct run r;
    struct task_boxes b;
    float *y;

    run_begin(&r);
    y = run_add(&r, "output0", DIMS(1, 300, 6));
    PUT(y, 1, 2, 3, 4, 0.9, 7, 1, 2, 3, 5, 0.95, 7);
    b = decode(&r, "end2end");
    assert_int_equal(b.count, 2); /* overlaps are its own business */
    check_box(&b.box[0], 7, 0.95, 1, 2, 3, 5);
    free(b.box);
    run_end(&r);
}

TEST(test_rtdetr)
{
    struct run r;
    struct task_boxes b;
    float *y;

    run_begin(&r);
    y = run_add(&r, "output0", DIMS(1, 300, 4 + 20));
    PUT(y, 0.5, 0.5, 0.25, 0.5);
    y[4 + 13] = 0.75f;
    b = decode(&r, "rtdetr");
    assert_int_equal(b.count, 1);
    check_box(&b.box[0], 13, 0.75, 24, 16, 40, 48);
    free(b.box);
    run_end(&r);
}

TEST(test_detr)
{
    struct run r;
    struct task_boxes b;
    float *logits, *boxes;

    run_begin(&r);
    logits = run_add(&r, "logits", DIMS(1, 100, 3));
    boxes = run_add(&r, "pred_boxes", DIMS(1, 100, 4));
    for (int i = 0; i < 100; i++)
        logits[3 * i + 2] = 20; /* no object */
    PUT(logits, 0, 800, 798);   /* exp(800) is beyond every number */
    PUT(boxes, 0.5, 0.5, 1, 1);
    b = decode(&r, "detr");
    assert_int_equal(b.count, 1);
    check_box(&b.box[0], 1, 1 / (1 + exp(-2)), 0, 0, SIDE, SIDE);
    free(b.box);
    run_end(&r);
}

/* Two outputs: relative boxes with the background among the scores, then
 * pixels with scores of independent classes. */
TEST(test_scored)
{
    struct run r;
    struct task_boxes b;
    float *boxes, *scores;

    run_begin(&r);
    scores = run_add(&r, "scores", DIMS(1, 60, 2));
    boxes = run_add(&r, "boxes", DIMS(1, 60, 4));
    for (int i = 0; i < 60; i++)
        scores[2 * i] = 1;
    PUT(scores + 2 * 7, 0.25, 0.75);
    PUT(boxes + 4 * 7, 0.25, 0.5, 0.5, 1);
    b = decode(&r, "scored");
    assert_int_equal(b.count, 1);
    check_box(&b.box[0], 0, 0.75, 16, 32, 32, 64);
    free(b.box);
    PUT(scores + 2 * 8, 0.9, 0.9);
    PUT(boxes + 4 * 8, 3, 4, 13, 14);
    b = decode(&r, "scored");
    assert_int_equal(b.count, 60); /* the others' scores of 1 stand now */
    free(b.box);
    run_end(&r);
}

TEST(test_listed)
{
    struct run r;
    struct task_boxes b;
    float *boxes, *scores;
    int64_t *labels;

    run_begin(&r);
    boxes = run_add(&r, "boxes", DIMS(2, 4));
    labels = (int64_t *)(void *)run_add(&r, "labels", DIMS(4));
    r.array[1].dtype = INFER_I64;
    r.array[1].dim[0] = 2;
    scores = run_add(&r, "scores", DIMS(2));
    PUT(boxes, 1, 2, 3, 4, 5, 6, 7, 8);
    labels[1] = 17;
    PUT(scores, 0.1, 0.9);
    b = decode(&r, "listed");
    assert_int_equal(b.count, 1);
    check_box(&b.box[0], 17, 0.9, 5, 6, 7, 8);
    free(b.box);
    run_end(&r);
}

/* With the number of boxes as a fourth output. */
TEST(test_listed_count)
{
    struct run r;
    struct task_boxes b;
    float *boxes, *scores;
    int64_t *labels;

    run_begin(&r);
    boxes = run_add(&r, "boxes", DIMS(2, 4));
    labels = (int64_t *)(void *)run_add(&r, "labels", DIMS(4));
    r.array[1].dtype = INFER_I64;
    r.array[1].dim[0] = 2;
    scores = run_add(&r, "scores", DIMS(2));
    run_add(&r, "boxes.count", DIMS(1));
    r.array[3].dtype = INFER_I64;
    PUT(boxes, 1, 2, 3, 4, 5, 6, 7, 8);
    labels[1] = 17;
    PUT(scores, 0, 0.9);
    b = decode(&r, "listed");
    assert_int_equal(b.count, 1);
    check_box(&b.box[0], 17, 0.9, 5, 6, 7, 8);
    free(b.box);
    run_end(&r);
}

/* ---- the way back to the picture ----------------------------------- */

TEST(test_place)
{
    const struct infer_image picture = {.width = 200, .height = 100};
    const struct graph_preprocess letterbox = {.policy =
                                                   GRAPH_RESIZE_LETTERBOX},
                                  shorter = {.policy = GRAPH_RESIZE_SHORTER,
                                             .resize = 100};
    struct task_box box = {.left = 0, .top = 16, .right = 32, .bottom = 40};
    struct task_boxes boxes = {&box, 1};
    struct preprocess_window w;

    /* 200x100 becomes 64x32 with bars of 16 above and below. */
    w = preprocess_window_of(&letterbox, &picture, SIDE, SIDE);
    task_place(&w, &picture, &boxes);
    check_box(&box, 0, 0, 0, 0, 100, 75);
    /* The centre 64x64 of 200x100. */
    box = (struct task_box){.left = 0, .top = 0, .right = 64, .bottom = 90};
    w = preprocess_window_of(&shorter, &picture, SIDE, SIDE);
    task_place(&w, &picture, &boxes);
    check_box(&box, 0, 0, 68, 18, 132, 100);
}

/* ---- maps and pictures --------------------------------------------- */

TEST(test_segment)
{
    const struct infer_image picture = {.width = 128, .height = 64};
    const struct graph_preprocess p = {.policy = GRAPH_RESIZE_LETTERBOX};
    int label[64 * 128], classes;
    struct preprocess_window w;
    struct infer_error err;
    struct run r;
    float *y;

    run_begin(&r);
    y = run_add(&r, "y", DIMS(1, 3, SIDE, SIDE));
    for (int i = 0; i < SIDE * SIDE; i++) /* class 2 on the right half */
        y[(i % SIDE < SIDE / 2 ? 1 : 2) * SIDE * SIDE + i] = 1;
    w = preprocess_window_of(&p, &picture, SIDE, SIDE);
    assert_int_equal(task_segment(&r.o, &w, 128, 64, label, &classes, &err), 0);
    assert_int_equal(classes, 3);
    for (int i = 0; i < 64 * 128; i++)
        assert_int_equal(label[i], i % 128 < 64 ? 1 : 2);
    run_end(&r);
    run_begin(&r);
    run_add(&r, "y", DIMS(1, 3, 4, 5, 6));
    assert_int_equal(task_segment(&r.o, &w, 128, 64, label, &classes, &err),
                     INFER_EUNSUPPORTED);
    run_end(&r);
}

/* A picture through a network that changes nothing is that picture. */
TEST(test_image)
{
    struct graph_preprocess p = {.present = true,
                                 .policy = GRAPH_RESIZE_NONE,
                                 .color = GRAPH_BGR,
                                 .scale = 1.0f / 255,
                                 .mean = {0.5f, 0.4f, 0.3f, 0},
                                 .std = {0.2f, 0.3f, 0.4f, 1}};
    struct infer_image picture, out;
    struct infer_error err;
    struct run r;
    float *y;

    run_begin(&r);
    y = run_add(&r, "y", DIMS(1, 3, SIDE, SIDE));
    assert_int_equal(image_new(SIDE, SIDE, 3, &err, &picture), 0);
    for (int i = 0; i < SIDE * SIDE * 3; i++)
        picture.pixels[i] = (uint8_t)(i * 7);
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < SIDE * SIDE; i++)
            y[c * SIDE * SIDE + i] =
                picture.pixels[3 * i + preprocess_source(&p, c, 3)] *
                    preprocess_scale(&p, c) +
                preprocess_shift(&p, c);
    y[0] = NAN;
    assert_int_equal(task_image(&r.o, &p, &picture, &err, &out), 0);
    assert_int_equal(out.pixels[2], 0);
    out.pixels[2] = picture.pixels[2];
    assert_memory_equal(out.pixels, picture.pixels, SIDE * SIDE * 3);
    infer_image_free(&out);
    infer_image_free(&picture);
    run_end(&r);
}

/* Luminance twice as large, colours kept: a picture of one colour stays it. */
TEST(test_image_of_luminance)
{
    struct graph_preprocess p = {
        .present = true, .scale = 1, .std = {1, 1, 1, 1}, .color = GRAPH_GRAY};
    struct infer_image picture, out;
    struct infer_error err;
    struct run r;
    float *y;

    run_begin(&r);
    r.o.channels = 1;
    y = run_add(&r, "y", DIMS(1, 1, 2 * SIDE, 2 * SIDE));
    for (int i = 0; i < 4 * SIDE * SIDE; i++)
        y[i] = (float)(0.299 * 200 + 0.587 * 100 + 0.114 * 50);
    assert_int_equal(image_new(SIDE, SIDE, 3, &err, &picture), 0);
    for (int i = 0; i < SIDE * SIDE; i++)
        memcpy(picture.pixels + 3 * i, "\xc8\x64\x32", 3);
    assert_int_equal(task_image(&r.o, &p, &picture, &err, &out), 0);
    assert_int_equal(out.width, 2 * SIDE);
    assert_int_equal(out.channels, 3);
    for (int i = 0; i < 4 * SIDE * SIDE; i++) {
        assert_in_range(out.pixels[3 * i], 199, 201);
        assert_in_range(out.pixels[3 * i + 1], 99, 101);
        assert_in_range(out.pixels[3 * i + 2], 49, 51);
    }
    infer_image_free(&out);
    infer_image_free(&picture);
    run_end(&r);
}

/* ---- drawing and writing ------------------------------------------- */

/* Nothing is written outside the pixels, however the box lies. */
TEST(test_draw)
{
    static const float sides[] = {-1e9f, -3, 0, 5, 19, 40, 1e9f};
    struct infer_image image;
    const uint8_t *p;

    assert_int_equal(image_new(20, 10, 3, NULL, &image), 0);
    for (size_t i = 0; i < COUNT(sides); i++)
        for (size_t k = 0; k < COUNT(sides); k++) {
            const struct task_box b = {.left = sides[i],
                                       .top = sides[k],
                                       .right = sides[k],
                                       .bottom = sides[i],
                                       .n_points = 1,
                                       .point = {{sides[i], sides[k]}}};

            for (int row = 0; row < 3; row++)
                draw_box_row(&image, &b, "\xe2\x82\xac long label 100%", row);
        }
    memset(image.pixels, 0, 20 * 10 * 3);
    draw_box(&image, &(struct task_box){.right = 19, .bottom = 9}, "");
    p = image.pixels + 3 * (9 * 20 + 19);
    assert_true(p[0] | p[1] | p[2]); /* the right lower corner */
    infer_image_free(&image);
}

/* Rows of text go down from above the box, and stay within the picture. */
TEST(test_text_rows)
{
    const struct infer_image image = {
        .width = 100, .height = 80, .channels = 3};
    const struct task_box b = {
        .left = 90, .top = 40, .right = 99, .bottom = 60};
    const struct draw_place above = draw_place_of(&image, &b, "dog", 0);
    const struct draw_place below = draw_place_of(&image, &b, "dog", 1);
    const struct draw_place next = draw_place_of(&image, &b, "dog", 2);

    assert_int_equal(above.bottom, 40);
    assert_int_equal(below.top, 40);
    assert_int_equal(next.top, below.bottom);
    assert_int_equal(above.right, 100); /* moved to the left */
    assert_true(above.left > 70 && above.left == below.left);
    assert_int_equal(
        draw_place_of(&image, &(struct task_box){.top = 3}, "", 0).top, 0);
}

TEST(test_png_round_trip)
{
    char path[] = "/tmp/libinfer-task-XXXXXX";
    struct infer_image image, back;
    struct infer_error err;
    const int fd = mkstemp(path);

    assert_true(fd >= 0);
    close(fd);
    for (int channels = 1; channels <= 3; channels += 2) {
        assert_int_equal(image_new(37, 11, channels, &err, &image), 0);
        for (int i = 0; i < 37 * 11 * channels; i++)
            image.pixels[i] = (uint8_t)(i * i);
        assert_int_equal(image_write_png(&image, path, &err), 0);
        assert_int_equal(infer_image_load(path, 0, &err, &back), 0);
        assert_int_equal(back.channels, channels);
        assert_memory_equal(back.pixels, image.pixels,
                            (size_t)(37 * 11 * channels));
        infer_image_free(&back);
        infer_image_free(&image);
    }
    unlink(path);
    assert_int_equal(image_new(2, 2, 3, &err, &image), 0);
    assert_int_equal(image_write_png(&image, "/nowhere/x.png", &err),
                     INFER_EIO);
    infer_image_free(&image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_recognises_by_shape),
        cmocka_unit_test(test_grids_are_no_map),
        cmocka_unit_test(test_yolov8),
        cmocka_unit_test(test_yolov5),
        cmocka_unit_test(test_yolox),
        cmocka_unit_test(test_end2end),
        cmocka_unit_test(test_rtdetr),
        cmocka_unit_test(test_detr),
        cmocka_unit_test(test_scored),
        cmocka_unit_test(test_listed),
        cmocka_unit_test(test_listed_count),
        cmocka_unit_test(test_place),
        cmocka_unit_test(test_segment),
        cmocka_unit_test(test_text_of_graphs),
        cmocka_unit_test(test_image),
        cmocka_unit_test(test_image_of_luminance),
        cmocka_unit_test(test_draw),
        cmocka_unit_test(test_text_rows),
        cmocka_unit_test(test_png_round_trip),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
