/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks whose outputs are values: depth, embeddings, landmarks. */
#include "tests/unit/task/run.h"

#include "libinfer/image/image.h"
#include "libinfer/task/draw.h"

/* A picture of twice the input's size. */
static const struct preprocess_window twice = {0, 0, 2, 2};

TEST(test_words)
{
    static const struct {
        const char *word;
        enum task_kind kind;
        const char *detail;
    } known[] = {{"depth", TASK_DEPTH, NULL},
                 {"embedding", TASK_EMBEDDING, NULL},
                 {"landmarks", TASK_LANDMARKS, NULL},
                 {"landmarks:3", TASK_LANDMARKS, "3"}};
    struct infer_error err;
    struct task task;

    for (size_t i = 0; i < COUNT(known); i++) {
        assert_int_equal(task_parse(known[i].word, &err, &task), 0);
        assert_int_equal(task.kind, known[i].kind);
        if (known[i].detail != NULL)
            assert_string_equal(task.detail, known[i].detail);
    }
    assert_int_equal(task_parse("landmarks:4", &err, &task), INFER_EARGUMENT);
    assert_non_null(strstr(err.text, "embedding"));
}

/* A plane that rises by 1 a cell to the right stays one at another size. */
TEST(test_depth)
{
    enum { WIDE = 2 * SIDE };
    static float value[WIDE * WIDE];
    struct preprocess_window w = twice;
    struct infer_error err;
    struct run r;
    float *map;

    run_begin(&r);
    map = run_add(&r, "depth", DIMS(1, 1, SIDE / 2, SIDE / 2));
    for (int i = 0; i < SIDE / 2 * (SIDE / 2); i++)
        map[i] = (float)(i % (SIDE / 2));
    assert_int_equal(task_depth(&r.o, &w, WIDE, WIDE, value, &err), 0);
    for (int y = 0; y < WIDE; y += 7)
        for (int x = 2; x < WIDE - 2; x++)
            assert_float_equal(value[y * WIDE + x], (x + 0.5) / 4 - 0.5, 1e-5);
    assert_float_equal(value[0], 0, 0);
    /* The left half of the picture is cut off before the network. */
    w.left = SIDE / 2;
    assert_int_equal(task_depth(&r.o, &w, WIDE, WIDE, value, &err), 0);
    assert_true(isnan(value[SIDE - 1]));
    assert_float_equal(value[SIDE], 0, 1e-5);
    r.array[0].dim[1] = 2;
    assert_int_equal(task_depth(&r.o, &w, WIDE, WIDE, value, &err),
                     INFER_EUNSUPPORTED);
    run_end(&r);
}

TEST(test_embedding)
{
    struct infer_error err;
    struct run r;
    float *value, *out;
    int64_t n;

    run_begin(&r);
    r.o.batch = 3;
    r.o.entry = 1;
    value = run_add(&r, "features", DIMS(3, 5, 1, 1));
    for (int i = 0; i < 15; i++)
        value[i] = (float)i;
    assert_int_equal(task_embedding(&r.o, &err, &out, &n), 0);
    assert_int_equal(n, 5);
    for (int i = 0; i < 5; i++)
        assert_float_equal(out[i], 5 + i, 0);
    free(out);
    r.o.batch = 4;
    assert_int_equal(task_embedding(&r.o, &err, &out, &n), INFER_EUNSUPPORTED);
    run_end(&r);
}

/* Reads the points of an output and checks the last one. */
static void check_points(const char *word, int rank, const int64_t *dim,
                         const float *values, int n, int count, float x,
                         float y, float score)
{
    struct task_landmarks l;
    struct infer_error err;
    struct task task;
    struct run r;

    run_begin(&r);
    memcpy(run_add(&r, "points", rank, dim), values,
           (size_t)n * sizeof *values);
    assert_int_equal(task_parse(word, &err, &task), 0);
    assert_int_equal(task_landmarks(&task, &r.o, &twice, &err, &l), 0);
    assert_int_equal(l.count, count);
    assert_float_equal(l.point[count - 1][0], x, 1e-4);
    assert_float_equal(l.point[count - 1][1], y, 1e-4);
    assert_float_equal(l.point[count - 1][2], score, 1e-6);
    free(l.point);
    run_end(&r);
}

TEST(test_landmarks)
{
    static const float pixels[] = {10, 20, 30, 40, 50, 60};
    static const float relative[] = {0.5f, 0.25f, 0.9f, 1, 0.5f, 0.75f};
    static float map[2 * 8 * 8];
    struct task_landmarks l;
    struct infer_error err;
    struct task task;
    struct run r;

    check_points("landmarks", DIMS(1, 6), pixels, 6, 3, 100, 120, 1);
    check_points("landmarks", DIMS(1, 3, 2), pixels, 6, 3, 100, 120, 1);
    check_points("landmarks:3", DIMS(1, 6), pixels, 6, 2, 80, 100, 60);
    check_points("landmarks", DIMS(1, 2, 3), relative, 6, 2, 2 * SIDE, SIDE,
                 0.75f);
    /* Row 3, column 6 of 8 in the second map. */
    map[64 + 3 * 8 + 6] = 0.5f;
    check_points("landmarks", DIMS(1, 2, 8, 8), map, 128, 2,
                 6.5f / 8 * SIDE * 2, 3.5f / 8 * SIDE * 2, 0.5f);

    run_begin(&r);
    run_add(&r, "points", DIMS(1, 5));
    assert_int_equal(task_parse("landmarks", &err, &task), 0);
    assert_int_equal(task_landmarks(&task, &r.o, &twice, &err, &l),
                     INFER_EUNSUPPORTED);
    run_end(&r);
}

/* Points beyond the picture, and none at all. */
TEST(test_draw_landmarks)
{
    float point[][3] = {{-1e30f, 5, 1}, {NAN, INFINITY, 1}, {3, 3, 0.4f}};
    struct infer_image image;

    assert_int_equal(image_new(20, 10, 3, NULL, &image), 0);
    draw_landmarks(&image, point, 3);
    assert_int_equal(image.pixels[3 * (3 * 20 + 3)], 0);
    point[2][2] = 0.5f;
    draw_landmarks(&image, point, 3);
    assert_int_not_equal(image.pixels[3 * (3 * 20 + 3)] |
                             image.pixels[3 * (3 * 20 + 3) + 1] |
                             image.pixels[3 * (3 * 20 + 3) + 2],
                         0);
    infer_image_free(&image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),          cmocka_unit_test(test_depth),
        cmocka_unit_test(test_embedding),      cmocka_unit_test(test_landmarks),
        cmocka_unit_test(test_draw_landmarks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
