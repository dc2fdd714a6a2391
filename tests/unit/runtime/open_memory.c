/* SPDX-License-Identifier: Apache-2.0 */
/* Models in memory of the caller's, the log, and helpers for scores. */
#include <math.h>
#include <unistd.h>

#include "libinfer/graph/model_file.h"
#include "tests/unit/runtime/network.h"

/* The bytes of a model file, which no file holds any more. */
static unsigned char *bytes_of(struct graph *g, size_t *bytes)
{
    char path[] = "open-memory-XXXXXX.infer";
    const int fd = mkstemps(path, 6);
    struct infer_error err = {0};
    void *data = NULL;

    assert_true(fd >= 0);
    if (model_file_write(g, path, NULL, &err) < 0 ||
        file_read_all(path, 1 << 20, &err, &data, bytes) < 0)
        fail_msg("%s", err.text);
    close(fd);
    unlink(path);
    graph_free(g);
    return data;
}

static void count_release(void *user)
{
    ++*(int *)user;
}

/* Results equal those of the graph; the bytes are needed until the last of
 * model and sessions is closed. */
TEST(test_run)
{
    uint64_t state = 7;
    struct infer_array x = array_of(&state, DIMS(2, 3, 16, 16)), want, got;
    struct infer_model *model = model_of(small_network());
    struct infer_session *s = session_of(model, INFER_BACKEND_REF, false);
    struct infer_error err = {0};
    int released = 0;
    size_t bytes;

    want = run(s, &x, 1, 0);
    infer_session_close(&s);
    infer_model_close(&model);
    unsigned char *data = bytes_of(small_network(), &bytes);
    if (infer_model_open_memory(data, bytes, count_release, &released, &err,
                                &model) < 0)
        fail_msg("%s", err.text);
    s = session_of(model, INFER_BACKEND_REF, false);
    infer_model_close(&model);
    assert_int_equal(released, 0);
    got = run(s, &x, 1, 0);
    assert_memory_equal(got.data, want.data, want.bytes);
    infer_session_close(&s);
    assert_int_equal(released, 1);
    free(got.data);
    free(want.data);
    free(x.data);
    free(data);
}

/* Every refusal releases the bytes once. */
/* What a caller may get wrong about a model is an error, not a crash. */
TEST(test_arguments)
{
    struct infer_model *model = NULL, *none = NULL;
    struct infer_error err = {0};
    struct infer_tensor_info info;
    size_t bytes;
    unsigned char *data = bytes_of(small_network(), &bytes);
    int released = 0;

    assert_int_equal(infer_model_open(NULL, &err, &model), INFER_EARGUMENT);
    assert_non_null(strstr(err.text, "no file name given"));
    assert_int_equal(infer_model_open("x", &err, NULL), INFER_EARGUMENT);
    assert_non_null(strstr(err.text, "no place for it given"));
    assert_int_equal(infer_model_open_memory(NULL, bytes, count_release,
                                             &released, &err, &model),
                     INFER_EARGUMENT);
    assert_non_null(strstr(err.text, "no bytes given"));
    assert_int_equal(infer_model_open_memory(data, bytes, count_release,
                                             &released, &err, NULL),
                     INFER_EARGUMENT);
    assert_int_equal(released, 2);
    assert_int_equal(
        infer_model_open_memory(data, bytes, NULL, NULL, &err, &model), 0);
    for (int i = 0; i < 2; i++) {
        int (*describe)(const struct infer_model *, int,
                        struct infer_tensor_info *) =
            i ? infer_model_output : infer_model_input;

        assert_int_equal(describe(model, 0, &info), 0);
        assert_int_equal(info.rank, 4 - 2 * i);
        assert_int_equal(describe(NULL, 0, &info), INFER_EARGUMENT);
        assert_int_equal(describe(model, 0, NULL), INFER_EARGUMENT);
        assert_int_equal(describe(model, -1, &info), INFER_EARGUMENT);
        assert_int_equal(describe(model, 1, &info), INFER_EARGUMENT);
    }
    assert_null(infer_model_label(model, 0));
    assert_null(infer_model_label(model, -1));
    assert_null(infer_model_label(NULL, 0));
    assert_int_equal(infer_model_label_count(NULL), 0);
    assert_int_equal(infer_model_input_count(NULL), 0);
    assert_int_equal(infer_model_output_count(NULL), 0);
    assert_string_equal(infer_model_name(NULL), "");
    infer_model_close(&none);
    infer_model_close(NULL);
    infer_model_close(&model);
    assert_null(model);
    free(data);
}

TEST(test_refused)
{
    struct infer_model *model = NULL;
    struct infer_error err = {0};
    int released = 0;
    size_t bytes;
    unsigned char *data = bytes_of(small_network(), &bytes);

    REFUSED(infer_model_open_memory(NULL, bytes, count_release, &released, &err,
                                    &model),
            INFER_EARGUMENT, "no bytes");
    assert_int_equal(released, 1);
    REFUSED(infer_model_open_memory(data, bytes, count_release, &released, &err,
                                    NULL),
            INFER_EARGUMENT, "no place");
    assert_int_equal(released, 2);
    for (size_t n = 0; n < bytes; n += n < 16 ? 1 : 97) {
        unsigned char *part = malloc(n ? n : 1); /* ASan sees what is read */
        const int before = released;

        memcpy(part, data, n);
        REFUSED(infer_model_open_memory(part, n, count_release, &released, &err,
                                        &model),
                INFER_EFORMAT, "model in memory: ");
        assert_int_equal(released, before + 1);
        free(part);
    }
    assert_null(model);
    free(data);
}

/* A bit of the weights that changes is noticed when they are packed. */
TEST(test_damaged)
{
    struct infer_model *model = NULL;
    struct infer_session *s;
    struct infer_error err = {0};
    uint64_t state = 3;
    struct infer_array x = array_of(&state, DIMS(1, 3, 16, 16));
    size_t bytes;
    unsigned char *data = bytes_of(small_network(), &bytes);

    data[bytes - 3] ^= 4;
    if (infer_model_open_memory(data, bytes, NULL, NULL, &err, &model) < 0)
        fail_msg("%s", err.text);
    s = session_of(model, INFER_BACKEND_REF, false);
    REFUSED(infer_session_run(s, &x, 1, NULL, 0, &err), INFER_EFORMAT,
            "CRC-32");
    infer_session_close(&s);
    infer_model_close(&model);
    free(x.data);
    free(data);
}

/* ---- the log ------------------------------------------------------- */

struct lines {
    int count[INFER_LOG_DEBUG + 1];
    char info[2][256];
};

static void take_line(void *user, int level, const char *text)
{
    struct lines *l = user;

    assert_true(level >= INFER_LOG_WARNING && level <= INFER_LOG_DEBUG);
    assert_null(strchr(text, '\n'));
    if (level == INFER_LOG_INFO && l->count[level] < 2)
        snprintf(l->info[l->count[level]], sizeof l->info[0], "%s", text);
    l->count[level]++;
}

TEST(test_log)
{
    struct infer_model *model = model_of(small_network());
    struct infer_session_options o;
    struct infer_session *s = NULL;
    struct infer_error err = {0};
    struct lines lines = {0};
    uint64_t state = 5;
    struct infer_array x = array_of(&state, DIMS(1, 3, 16, 16));

    infer_session_options_init(&o);
    o.backend = INFER_BACKEND_REF;
    o.log = take_line;
    o.log_user = &lines;
    if (infer_session_create(model, &o, &err, &s) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(lines.count[INFER_LOG_INFO], 1);
    assert_non_null(strstr(lines.info[0], "backend ref, precision fp32"));
    assert_int_equal(infer_session_run(s, &x, 1, NULL, 0, &err), 0);
    assert_int_equal(lines.count[INFER_LOG_INFO], 2);
    assert_non_null(strstr(lines.info[1], "plan for 1x3x16x16: "));
    assert_int_equal(lines.count[INFER_LOG_DEBUG],
                     infer_session_layer_count(s));
    assert_int_equal(infer_session_run(s, &x, 1, NULL, 0, &err), 0);
    assert_int_equal(lines.count[INFER_LOG_INFO], 2); /* the same plan */
    assert_int_equal(lines.count[INFER_LOG_WARNING], 0);
    infer_session_close(&s);
    infer_model_close(&model);
    free(x.data);
}

/* ---- scores -------------------------------------------------------- */

TEST(test_scores)
{
    float v[] = {9, 9, 9, 9, 1, NAN, 3, 3};
    struct infer_array a = {.dtype = INFER_F32,
                            .rank = 2,
                            .dim = {2, 4},
                            .data = v,
                            .bytes = sizeof v};
    struct infer_error err = {0};
    int64_t place[5];
    double value[5], p[4];

    assert_int_equal(infer_array_top_k(&a, 1, 5, place, value, &err), 4);
    assert_int_equal(place[0], 2); /* equal ones keep their order */
    assert_int_equal(place[1], 3);
    assert_int_equal(place[2], 0);
    assert_int_equal(place[3], 1); /* NaN */
    assert_true(value[2] == 1 && isnan(value[3]));
    assert_int_equal(infer_array_top_k(&a, 1, 1, place, NULL, &err), 1);
    assert_int_equal(place[0], 2);
    assert_int_equal(infer_array_top_k(&a, 0, 0, NULL, NULL, &err), 0);
    v[5] = 3;
    assert_int_equal(infer_array_softmax(&a, 1, p, 4, &err), 0);
    const double sum = exp(-2) + 3;
    assert_true(fabs(p[0] - exp(-2) / sum) < 1e-15);
    assert_true(fabs(p[3] - 1 / sum) < 1e-15);
    v[4] = INFINITY; /* all of the probability, and no NaN */
    assert_int_equal(infer_array_softmax(&a, 1, p, 4, &err), 0);
    assert_true(p[0] == 1 && p[1] == 0);
    REFUSED(infer_array_softmax(&a, 2, p, 4, &err), INFER_EARGUMENT,
            "entry 2 asked for, there are 2");
    REFUSED(infer_array_softmax(&a, 1, p, 3, &err), INFER_EARGUMENT,
            "3 probabilities, expected 4");
    REFUSED(infer_array_top_k(&a, 1, -1, place, NULL, &err), INFER_EARGUMENT,
            "-1 places");
    a.bytes--;
    REFUSED(infer_array_top_k(&a, 1, 1, place, NULL, &err), INFER_EARGUMENT,
            "31 bytes");
    a.data = NULL;
    REFUSED(infer_array_top_k(&a, 1, 1, place, NULL, &err), INFER_EARGUMENT,
            "no data");
}

/* Boxes 0 and 1 share 80 of 120, boxes 0 and 2 share 50 of 150. */
static void test_nms(void **unused)
{
    const float box[][4] = {{0, 0, 10, 10}, {2, 0, 12, 10}, {5, 0, 15, 10},
                            {0, 0, 10, 10}, {NAN, 0, 1, 1}, {3, 3, 3, 9},
                            {3, 3, 3, 9}};
    const float score[] = {0.8f, 0.9f, 0.7f, 0.8f, 1, 0.5f, 0.5f};
    const int32_t label[] = {0, 0, 0, 1, 0, 0, 0};
    struct infer_error err = {0};
    int keep[7];

    (void)unused;
    /* 1 covers 0 (2/3) and 2 (7/13); the empty boxes cover nothing. */
    assert_int_equal(infer_nms(box[0], score, label, 7, 0, 0.5f, keep, &err),
                     4);
    assert_int_equal(keep[0], 1);
    assert_int_equal(keep[1], 3); /* of another class */
    assert_int_equal(keep[2], 5);
    assert_int_equal(keep[3], 6);
    assert_int_equal(infer_nms(box[0], score, label, 7, 0.6f, 0.6f, keep, &err),
                     3);
    assert_int_equal(keep[2], 2);
    assert_int_equal(infer_nms(box[0], score, NULL, 7, 0.6f, 0.6f, keep, &err),
                     2);
    assert_int_equal(infer_nms(box[0], score, NULL, 7, 0.6f, 1, keep, &err), 4);
    assert_int_equal(keep[1], 0); /* equal scores keep their order */
    assert_int_equal(keep[2], 3);
    assert_int_equal(infer_nms(NULL, NULL, NULL, 0, 0, 0, NULL, NULL), 0);
    REFUSED(infer_nms(NULL, score, NULL, 7, 0, 0.5f, keep, &err),
            INFER_EARGUMENT, "NULL");
    REFUSED(infer_nms(box[0], score, NULL, 7, 0, NAN, keep, &err),
            INFER_EARGUMENT, "iou");
}

static void test_bytes(void **unused)
{
    struct infer_tensor_info info = {
        .dtype = INFER_F16, .rank = 3, .dim = {2, 3, 5}};

    (void)unused;
    assert_int_equal(infer_tensor_info_bytes(&info), 60);
    info.dim[1] = 0;
    assert_int_equal(infer_tensor_info_bytes(&info), 0);
    info.dim[1] = -1; /* free */
    assert_int_equal(infer_tensor_info_bytes(&info), 0);
    info.dim[0] = info.dim[1] = INT64_MAX;
    assert_int_equal(infer_tensor_info_bytes(&info), 0);
    info.rank = 0;
    assert_int_equal(infer_tensor_info_bytes(&info), 2);
    info.dtype = INFER_NONE;
    assert_int_equal(infer_tensor_info_bytes(&info), 0);
    info.rank = INFER_MAX_RANK + 1;
    assert_int_equal(infer_tensor_info_bytes(&info), 0);
    assert_int_equal(infer_tensor_info_bytes(NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_run),     cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_log),     cmocka_unit_test(test_scores),
        cmocka_unit_test(test_nms),     cmocka_unit_test(test_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
