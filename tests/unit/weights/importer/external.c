/* SPDX-License-Identifier: Apache-2.0 */
/* The ONNX reader on models whose tensors lie in files beside them. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/weights/onnx_model.h"

static void write_file(const char *path, const void *data, size_t bytes)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, bytes, f), bytes);
    assert_int_equal(fclose(f), 0);
}

static void external_key(struct pb_message *t, const char *key,
                         const char *value)
{
    struct pb_message e = EMPTY;

    pb_text(&e, 1, key);
    pb_text(&e, 2, value);
    pb_nested(t, 13, &e);
}

/* y = x + w, w outside; NULL leaves a key out. */
static struct pb_message external_model(const char *location,
                                        const char *offset, const char *length)
{
    struct pb_message m = one_node("Add", "x w", DIMS(-1, 4), NULL);
    struct pb_message t = tensor_head(ONNX_FLOAT);

    if (location)
        external_key(&t, "location", location);
    if (offset)
        external_key(&t, "offset", offset);
    if (length)
        external_key(&t, "length", length);
    pb_int(&t, 14, 1);
    pb_nested(&m, 5, &t);
    return model_of(&m, 13);
}

struct folder {
    char path[64], model[128];
};

static void expect_external(const struct folder *f, struct pb_message m,
                            const char *words)
{
    struct infer_error err;
    struct graph *g;
    int status = read_at(f->model, &m, NULL, &err, &g);

    pb_free(&m);
    if (!words) {
        if (status < 0)
            fail_msg("%s", err.text);
        assert_weight(g, INFER_F32);
        return;
    }
    graph_free(g);
    assert_true(status < 0);
    if (!strstr(err.text, words))
        fail_msg("'%s' does not say '%s'", err.text, words);
}

static void in_folder(const struct folder *f, const char *name, char *path)
{
    snprintf(path, 256, "%s/%s", f->path, name);
}

static void make_folder(struct folder *f)
{
    static const float data[] = {9, -1.5f, -0.5f, 0.5f, 1.5f};
    char path[256], other[256];

    snprintf(f->path, sizeof(f->path), "/tmp/onnx-test-XXXXXX");
    assert_non_null(mkdtemp(f->path));
    in_folder(f, "model.onnx", f->model);
    in_folder(f, "w.bin", path);
    write_file(path, data, sizeof(data));
    in_folder(f, "link.bin", other);
    assert_int_equal(symlink("w.bin", other), 0);
    in_folder(f, "sub", other);
    assert_int_equal(mkdir(other, 0700), 0);
    in_folder(f, "sub/w.bin", other);
    write_file(other, data, sizeof(data));
    in_folder(f, "up", other);
    assert_int_equal(symlink("sub", other), 0);
    in_folder(f, "fifo", other);
    assert_int_equal(mkfifo(other, 0600), 0);
    in_folder(f, "first.bin", path);
    write_file(path, data, sizeof(data));
    in_folder(f, "second.bin", other);
    assert_int_equal(link(path, other), 0);
}

static void remove_folder(const struct folder *f)
{
    static const char *const names[] = {"w.bin", "link.bin",  "sub/w.bin",
                                        "up",    "fifo",      "first.bin",
                                        "sub",   "second.bin"};
    char path[256];
    size_t i;

    for (i = 0; i < COUNT(names); i++) {
        in_folder(f, names[i], path);
        assert_int_equal(remove(path), 0);
    }
    assert_int_equal(rmdir(f->path), 0);
}

TEST(test_external)
{
    struct folder f;
    struct pb_message m;
    char path[300];
    size_t i;
    static const struct {
        const char *location, *offset, *length, *words;
    } cases[] = {
        {"w.bin", "4", "16", NULL},
        {"./sub//w.bin", "4", NULL, NULL},
        {"w.bin", "8", "16", "the file has 20"},
        {"w.bin", "99999999999", NULL, "the file has 20"},
        {"w.bin", "18446744073709551615", NULL, "no byte count"},
        {"w.bin", "-4", NULL, "no byte count"},
        {"w.bin", "", NULL, "no byte count"},
        {"w.bin", "4", "12", "the shape needs 16"},
        {"w.bin", "4", "x", "no byte count"},
        {NULL, NULL, NULL, "without a location"},
        {"", NULL, NULL, "is empty"},
        {"missing.bin", NULL, NULL, "missing.bin"},
        {"../w.bin", NULL, NULL, "leaves"},
        {"sub/../../w.bin", NULL, NULL, "leaves"},
        {"sub/..", NULL, NULL, "leaves"},
        {"/etc/passwd", NULL, NULL, "absolute"},
        {"link.bin", NULL, NULL, "link"},
        {"up/w.bin", NULL, NULL, "link"},
        {"w.bin/x", NULL, NULL, "link"},
        {"fifo", NULL, NULL, "regular"},
        {"sub", NULL, NULL, "regular"},
        {".", NULL, NULL, "regular"},
        {"first.bin", NULL, NULL, "hard link"},
        {"sub\\w.bin", NULL, NULL, "backslash"},
        {"file://w.bin", NULL, NULL, "URL"},
        {"w.bin\n", NULL, NULL, "control"},
    };

    make_folder(&f);
    for (i = 0; i < COUNT(cases); i++)
        expect_external(
            &f,
            external_model(cases[i].location, cases[i].offset, cases[i].length),
            cases[i].words);
    snprintf(path, sizeof(path), "%s/w.bin", f.path);
    expect_external(&f, external_model(path, NULL, NULL), "absolute");
    m = external_model("w.bin", NULL, NULL);
    must_refuse(m, INFER_EUNSUPPORTED, "without a folder");
    remove_folder(&f);
}

/* Sums of x and n weights of 4 values, from these offsets of w.bin. */
static struct pb_message external_sums(const char *const *offset, int n)
{
    struct pb_message g = EMPTY;
    char last[16] = "x";
    int i;

    graph_input(&g, "x", DIMS(-1, 4));
    for (i = 0; i < n; i++) {
        struct pb_message t = EMPTY;
        char in[40], out[16], name[16];

        snprintf(name, sizeof(name), "w%d", i);
        snprintf(in, sizeof(in), "%s %s", last, name);
        snprintf(out, sizeof(out), "v%d", i);
        graph_node(&g, "Add", in, out, NULL);
        memcpy(last, out, sizeof(last));
        pb_int(&t, 1, 4);
        pb_int(&t, 2, ONNX_FLOAT);
        pb_text(&t, 8, name);
        external_key(&t, "location", "w.bin");
        external_key(&t, "offset", offset[i]);
        pb_int(&t, 14, 1);
        pb_nested(&g, 5, &t);
    }
    graph_output(&g, last);
    return model_of(&g, 13);
}

/* Weights of 16 bytes in a file of 20: equal ranges are read once, different
 * ones may not be more than the file. */
TEST(test_external_shared)
{
    static const char *const same[] = {"4", "4", "4"};
    static const char *const more[] = {"4", "0"};
    struct infer_error err;
    struct pb_message m;
    struct folder f;
    struct graph *g = NULL;

    make_folder(&f);
    m = external_sums(same, COUNT(same));
    assert_int_equal(read_at(f.model, &m, NULL, &err, &g), 0);
    graph_free(g);
    pb_free(&m);
    m = external_sums(more, COUNT(more));
    assert_int_equal(read_at(f.model, &m, NULL, &err, &g), INFER_EFORMAT);
    assert_non_null(strstr(err.text, "more bytes of a file than it has"));
    pb_free(&m);
    remove_folder(&f);
}

/* y = x w + v, where w and v are one range of a file: that w is turned into the
 * weight of a layer leaves v as it is. */
TEST(test_external_turned)
{
    enum { N = 136 };
    static const char *const names[] = {"w", "v"};
    static float x[N * N], w[N * N], y[N * N];
    struct pb_message m = EMPTY;
    struct infer_error err;
    struct graph *g = NULL;
    struct folder f;
    char path[160];

    make_folder(&f);
    for (int i = 0; i < N * N; i++)
        w[i] = (float)(i % 101);
    for (int i = 0; i < N; i++)
        x[i * N + (i + 1) % N] = 1;
    snprintf(path, sizeof path, "%s/turned.bin", f.path);
    write_file(path, w, sizeof w);
    graph_input(&m, "x", DIMS(N, N));
    graph_output(&m, "y");
    for (size_t i = 0; i < COUNT(names); i++) {
        struct pb_message t = EMPTY;

        pb_int(&t, 1, N);
        pb_int(&t, 1, N);
        pb_int(&t, 2, ONNX_FLOAT);
        pb_text(&t, 8, names[i]);
        external_key(&t, "location", "turned.bin");
        pb_int(&t, 14, 1);
        pb_nested(&m, 5, &t);
    }
    graph_node(&m, "MatMul", "x w", "a", NULL);
    graph_node(&m, "Add", "a v", "y", NULL);
    m = model_of(&m, 13);
    if (read_at(f.model, &m, NULL, &err, &g) < 0)
        fail_msg("%s", err.text);
    pb_free(&m);
    run_reference(g, DIMS(N, N), x, y, sizeof y);
    for (int i = 0; i < N * N; i++) {
        const float want = w[(i / N + 1) % N * N + i % N] + w[i];

        if (!(fabsf(y[i] - want) <= 1e-4f))
            fail_msg("element %d is %g, expected %g", i, (double)y[i],
                     (double)want);
    }
    assert_int_equal(remove(path), 0);
    remove_folder(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_external),
        cmocka_unit_test(test_external_shared),
        cmocka_unit_test(test_external_turned),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
