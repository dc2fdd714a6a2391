/* SPDX-License-Identifier: Apache-2.0 */
/* Multipliers in model files: there and back, what a session makes of them,
 * damaged and hostile files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/json.h"
#include "libinfer/graph/model_file.h"
#include "libinfer/model/model.h"
#include "libinfer/multiplier/multiplier.h"
#include "tests/unit/graph/data.h"
#include "tests/unit/test.h"

static char path[] = "multiplier-stored-XXXXXX";

static int set_up(void **state)
{
    const int fd = mkstemp(path);

    (void)state;
    return fd < 0 ? -1 : close(fd);
}

static int tear_down(void **state)
{
    (void)state;
    return remove(path);
}

/* Two dense layers of 3 numbers. */
static struct graph *two_layers(void)
{
    const int64_t x_dim[2] = {2, 3}, w_dim[2] = {3, 3};
    struct graph *g = graph_new();
    int at = graph_add_input(g, "x", INFER_F32, 2, x_dim);

    for (int layer = 0; layer < 2; layer++) {
        struct constant *w = constant_new(INFER_F32, 2, w_dim);
        char name[8];
        for (int i = 0; i < 9; i++)
            ((float *)(void *)w->data)[i] = 0.3f + 0.17f * (float)(i * 5 % 7);
        snprintf(name, sizeof name, "w%d", layer);
        const int in[2] = {at, graph_add_constant(g, name, w)};
        snprintf(name, sizeof name, "y%d", layer);
        at = graph_add_value(g, name);
        snprintf(name, sizeof name, "fc%d", layer);
        assert_true(graph_add_node(g, GRAPH_DENSE, name, in, 2, &at, 1) >= 0);
    }
    graph_add_output(g, at);
    return g;
}

/* Writes a model with the multiplier, or without (NULL). */
static void write_model(const char *multiplier, const char *exact)
{
    struct graph *g = two_layers();
    struct infer_error err = {0};
    struct multiplier *m = NULL;

    if (multiplier) {
        assert_int_equal(multiplier_open(multiplier, &err, &m), 0);
        assert_int_equal(multiplier_store(m, exact, g, &err), 0);
    }
    if (model_file_write(g, path, NULL, &err) < 0)
        fail_msg("%s", err.text);
    multiplier_free(m);
    graph_free(g);
}

/* Runs the written model with a session's options. */
static int run(const char *multiplier, const char *exact, float *y,
               struct infer_error *err)
{
    static float x[6] = {0.3f, -1.7f, 2.9f, 1.1f, -0.6f, 0.77f};
    struct infer_session_options o;
    struct infer_session *s = NULL;
    struct infer_model *model = NULL;
    struct infer_array in = {.name = "x",
                             .dtype = INFER_F32,
                             .rank = 2,
                             .dim = {2, 3},
                             .data = x,
                             .bytes = sizeof x};
    struct infer_array out = {
        .name = "y1", .dtype = INFER_F32, .data = y, .bytes = 6 * sizeof *y};
    int rc = infer_model_open(path, err, &model);

    infer_session_options_init(&o);
    o.multiplier = multiplier;
    o.multiplier_exact = exact;
    if (rc == 0)
        rc = infer_session_create(model, &o, err, &s);
    if (rc == 0)
        rc = infer_session_run(s, &in, 1, &out, 1, err);
    infer_session_close(&s);
    infer_model_close(&model);
    return rc;
}

static void expect_run(const char *multiplier, const char *exact, float *y)
{
    struct infer_error err = {0};

    if (run(multiplier, exact, y, &err) < 0)
        fail_msg("%s", err.text);
}

TEST(test_round_trip)
{
    static const char *const names[] = {"mbm-7", "drum-4", "exact-1",
                                        "broken-array-5-3", "mitchell-11"};
    struct infer_error err = {0};

    for (size_t i = 0; i < COUNT(names); i++) {
        struct multiplier *m, *back;
        struct graph *g;
        write_model(names[i], "first,fc?");
        assert_int_equal(multiplier_open(names[i], &err, &m), 0);
        assert_int_equal(model_file_read(path, &err, &g), 0);
        assert_string_equal(g->multiplier->exact, "first,fc?");
        struct graph *copy = graph_copy(g);
        graph_free(g);
        assert_int_equal(multiplier_stored(copy, &err, &back), 0);
        graph_free(copy);
        assert_string_equal(back->name, names[i]);
        assert_int_equal(back->bits, m->bits);
        assert_int_equal(back->kind, m->kind);
        assert_int_equal(back->crc, m->crc);
        assert_memory_equal(back->table, m->table, 4 * multiplier_entries(m));
        multiplier_free(back);
        multiplier_free(m);
    }
}

/* The stored multiplier is that of a session without options; options come
 * before it. */
TEST(test_session)
{
    float exact[6], approximate[6], last[6], y[6];
    struct infer_error err = {0};

    write_model(NULL, NULL);
    expect_run(NULL, NULL, exact);
    expect_run("mbm-3", NULL, approximate);
    expect_run("mbm-3", "fc1", last);
    assert_memory_not_equal(exact, approximate, sizeof y);
    assert_memory_not_equal(last, approximate, sizeof y);
    assert_true(run(NULL, "fc1", y, &err) == INFER_EARGUMENT);
    write_model("mbm-3", NULL);
    expect_run(NULL, NULL, y);
    assert_memory_equal(y, approximate, sizeof y);
    expect_run(NULL, "fc1", y);
    assert_memory_equal(y, last, sizeof y);
    expect_run("none", NULL, y);
    assert_memory_equal(y, exact, sizeof y);
    write_model("mbm-3", "last");
    expect_run(NULL, NULL, y);
    assert_memory_equal(y, last, sizeof y);
    expect_run(NULL, "first,last", y);
    assert_memory_equal(y, exact, sizeof y);
    expect_run("mbm-3", NULL, y);
    assert_memory_equal(y, approximate, sizeof y);
    write_model("mitchell-9", NULL);
    expect_run("none", NULL, y);
    assert_memory_equal(y, exact, sizeof y);
    assert_true(run("none", "first", y, &err) == INFER_EARGUMENT);
}

/* The accumulator is stored with the table. */
TEST(test_accumulator)
{
    float plain[6], sums[6], y[6];
    struct infer_error err = {0};
    struct graph *g;

    write_model("mbm-3", NULL);
    expect_run(NULL, NULL, plain);
    expect_run("mbm-3,acc=bf16", NULL, sums);
    assert_memory_not_equal(plain, sums, sizeof y);
    write_model("mbm-3,acc=bf16", NULL);
    expect_run(NULL, NULL, y);
    assert_memory_equal(y, sums, sizeof y);
    expect_run("mbm-3", NULL, y);
    assert_memory_equal(y, plain, sizeof y);
    assert_int_equal(run("mbm-3,acc=half", NULL, y, &err), INFER_EARGUMENT);
    /* A copy has it; a word that is none is refused. */
    assert_int_equal(model_file_read(path, &err, &g), 0);
    struct graph *copy = graph_copy(g);
    assert_string_equal(copy->multiplier->accumulator, "bf16");
    graph_free(g);
    struct multiplier *m = NULL;
    copy->multiplier->accumulator[0] = 'x';
    assert_int_equal(multiplier_stored(copy, &err, &m), INFER_EFORMAT);
    assert_null(m);
    graph_free(copy);
}

TEST(test_store_refused)
{
    struct graph *g = two_layers();
    struct infer_error err = {0};
    struct multiplier *m;
    const int64_t one = 1;

    assert_int_equal(multiplier_open("mbm-1", &err, &m), 0);
    assert_int_equal(multiplier_store(m, "fc7", g, &err), INFER_EARGUMENT);
    assert_null(g->multiplier);
    assert_int_equal(multiplier_store(m, NULL, g, &err), 0);
    /* The table's name is taken. */
    const int v = graph_add_constant(g, "infer.multiplier",
                                     constant_new(INFER_F32, 1, &one));
    graph_add_output(g, v);
    assert_int_equal(model_file_write(g, path, NULL, &err), INFER_EUNSUPPORTED);
    /* An entry that is no product. */
    struct multiplier *back = NULL;
    ((int32_t *)(void *)g->multiplier->table->data)[2] = 1 << 24;
    assert_int_equal(multiplier_stored(g, &err, &back), INFER_EFORMAT);
    assert_null(back);
    multiplier_free(m);
    graph_free(g);
}

/* ---- hostile records ----------------------------------------------- */

TEST(test_records)
{
    static const struct {
        const char *text, *says;
    } wrong[] = {
        {"3", "not an object"},
        {"[]", "not an object"},
        {"{}", "\"name\""},
        {"{\"name\":\"\",\"kind\":\"float\",\"bits\":3}", "\"name\""},
        {"{\"name\":\"a\",\"bits\":3}", "\"kind\""},
        {"{\"name\":\"a\",\"kind\":\"float\"}", "\"bits\""},
        {"{\"name\":\"a\",\"kind\":\"float\",\"bits\":0}", "1 to 11"},
        {"{\"name\":\"a\",\"kind\":\"float\",\"bits\":12}", "1 to 11"},
        {"{\"name\":\"a\",\"kind\":\"float\",\"bits\":2.5}", "1 to 11"},
        {"{\"name\":\"a\",\"kind\":\"integer\",\"bits\":9}", "2 to 8"},
        {"{\"name\":\"a\",\"kind\":\"integer\",\"bits\":-1e30}", "2 to 8"},
        {"{\"name\":\"a\",\"kind\":\"int\",\"bits\":8}", "\"kind\""},
        {"{\"name\":\"a\",\"kind\":\"float\",\"bits\":3,\"signed\":true}",
         "of integers"},
        {"{\"name\":\"a\",\"kind\":\"float\",\"bits\":\"3\"}", "'bits'"},
        {"{\"name\":\"a\",\"kind\":\"float\",\"bits\":3,\"x\":1}", "'x'"},
        {"{\"name\":\"a\",\"kind\":\"float\",\"bits\":3,\"exact\":[]}",
         "'exact'"},
    };

    for (size_t i = 0; i < COUNT(wrong); i++) {
        struct graph_multiplier *m = NULL;
        struct infer_error err = {0};
        cJSON *json = NULL;
        assert_int_equal(json_parse(wrong[i].text, strlen(wrong[i].text), false,
                                    &err, &json),
                         0);
        if (graph_multiplier_from_json(json, &err, &m) != INFER_EFORMAT)
            fail_msg("%s was read", wrong[i].text);
        if (!strstr(err.text, wrong[i].says))
            fail_msg("%s: %s", wrong[i].text, err.text);
        assert_null(m);
        cJSON_Delete(json);
    }
}

TEST(test_table_shapes)
{
    static const struct {
        enum infer_dtype dtype;
        int rank;
        int64_t dim[3];
    } wrong[] = {{INFER_I32, 2, {8, 4}},    {INFER_I32, 2, {4, 8}},
                 {INFER_F32, 2, {8, 8}},    {INFER_I32, 1, {64}},
                 {INFER_I32, 3, {8, 8, 1}}, {INFER_I32, 2, {0, 8}}};
    char name[] = "a";
    struct graph_multiplier m = {.name = name, .real = true, .bits = 3};
    struct infer_error err = {0};

    for (size_t i = 0; i < COUNT(wrong); i++) {
        struct constant *c =
            constant_new(wrong[i].dtype, wrong[i].rank, wrong[i].dim);
        err = (struct infer_error){0};
        assert_int_equal(graph_multiplier_set_table(&m, c, &err),
                         INFER_EFORMAT);
        assert_null(m.table);
    }
    assert_int_equal(graph_multiplier_set_table(&m, NULL, &err), INFER_EMEMORY);
}

/* Texts that are longer than a record's may be. */
TEST(test_long_texts)
{
    static const char *const rows[][2] = {
        {"{\"kind\":\"float\",\"bits\":3,\"name\":\"%s\"}", "\"name\""},
        {"{\"name\":\"a\",\"kind\":\"float\",\"bits\":3,\"exact\":\"%s\"}",
         "\"exact\" is longer"},
        {"{\"name\":\"a\",\"kind\":\"float\",\"bits\":3,"
         "\"accumulator\":\"%s\"}",
         "\"accumulator\" is longer"}};
    static char letters[70001], text[70200];

    memset(letters, 'a', sizeof letters - 1);
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct graph_multiplier *m = NULL;
        struct infer_error err = {0};
        cJSON *json = NULL;
        const int n = snprintf(text, sizeof text, rows[i][0], letters);

        assert_int_equal(json_parse(text, (size_t)n, false, &err, &json), 0);
        assert_int_equal(graph_multiplier_from_json(json, &err, &m),
                         INFER_EFORMAT);
        if (!strstr(err.text, rows[i][1]))
            fail_msg("%s", err.text);
        assert_null(m);
        cJSON_Delete(json);
    }
}

/* No changed bit of the file passes: neither of the record nor of the table. */
TEST(test_every_byte)
{
    write_model("mbm-1", "first");
    const struct data_bytes b = data_read(path);

    for (size_t i = 0; i < b.bytes; i++) {
        struct infer_error err = {0};
        float y[6];
        FILE *f = fopen(path, "wb");
        b.data[i] ^= (unsigned char)(1 << i % 8);
        assert_int_equal(fwrite(b.data, 1, b.bytes, f), b.bytes);
        assert_int_equal(fclose(f), 0);
        if (run(NULL, NULL, y, &err) == 0)
            fail_msg("byte %zu was changed and nobody noticed", i);
        b.data[i] ^= (unsigned char)(1 << i % 8);
    }
    free(b.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_session),
        cmocka_unit_test(test_accumulator),
        cmocka_unit_test(test_store_refused),
        cmocka_unit_test(test_records),
        cmocka_unit_test(test_long_texts),
        cmocka_unit_test(test_table_shapes),
        cmocka_unit_test(test_every_byte),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
