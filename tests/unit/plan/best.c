/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions with INFER_PRECISION_BEST: their types follow from the times in the
 * tuning cache, which the tests replace, and their outputs stay near. */
#include "libinfer/multiplier/multiplier.h"
#include "tests/unit/plan/quantised.h"
#include "tests/unit/runtime/tuning_file.h"

#include <cjson/cJSON.h>

#define CHANNELS 16

/* A convolution, a depthwise one, two more; the last one's output is float. */
static struct graph *four_layers(void)
{
    struct graph *g = graph_new();
    uint64_t state = 11;
    int x = input(g, "x", DIMS(2, 8, 12, 12));

    x = through(g, x, INFER_I8, 1 / 100.0f, 0);
    x = conv(g, &state, x, 8, CHANNELS, 1, -1, KERN_RELU);
    x = through(g, x, INFER_U8, 1 / 25.0f, 0);
    x = conv(g, &state, x, CHANNELS, CHANNELS, CHANNELS, -1, KERN_RELU);
    x = through(g, x, INFER_U8, 1 / 25.0f, 0);
    x = conv(g, &state, x, CHANNELS, CHANNELS, 1, -1, KERN_RELU);
    x = through(g, x, INFER_U8, 1 / 10.0f, 0);
    x = conv(g, &state, x, CHANNELS, 4, 1, -1, KERN_IDENTITY);
    assert_int_equal(graph_add_output(g, x), 0);
    return g;
}

/* ---- the cache ----------------------------------------------------- */

static cJSON *read_cache(void)
{
    static char text[1 << 18];
    FILE *f = fopen(tuning_path, "r");
    size_t got;
    cJSON *root;

    assert_non_null(f);
    got = fread(text, 1, sizeof text - 1, f);
    text[got] = '\0';
    fclose(f);
    root = cJSON_Parse(text);
    assert_non_null(root);
    return root;
}

static cJSON *entries_of(cJSON *root)
{
    cJSON *section = cJSON_GetObjectItem(root, "devices");

    assert_non_null(section);
    assert_non_null(section->child);
    return section->child;
}

static void write_cache(cJSON *root)
{
    char *text = cJSON_PrintUnformatted(root);

    assert_non_null(text);
    tuning_file_write(text);
    cJSON_free(text);
    cJSON_Delete(root);
}

static cJSON *types_of(cJSON *root)
{
    cJSON *e;

    cJSON_ArrayForEach(e, entries_of(root))
    {
        if (cJSON_IsObject(e) && cJSON_GetObjectItem(e, "bytes"))
            return e;
    }
    return NULL;
}

static void set_number(cJSON *of, const char *name, double value)
{
    assert_true(cJSON_ReplaceItemInObject(of, name, cJSON_CreateNumber(value)));
}

/* Microseconds of a step: a convolution takes 100 in floats and 20 in 8 bits,
 * the depthwise one 10 and 500. */
static double made_up(const char *key, double conversion)
{
    const bool bytes = strstr(key, "_i8_") || strstr(key, "_u8_");

    if (strstr(key, " by copy_cpu_scaled"))
        return conversion;
    if (strncmp(key, "conv", 4) != 0)
        return 0.5;
    if (strstr(key, "depthwise") || strstr(key, "g16"))
        return bytes ? 500 : 10;
    return bytes ? 20 : 100;
}

/* Puts made-up times into the file and takes the network's types out. */
static void replace_times(double conversion)
{
    cJSON *root = read_cache(), *section = entries_of(root), *e;
    cJSON *types = types_of(root);

    assert_non_null(types);
    cJSON_Delete(cJSON_DetachItemViaPointer(section, types));
    cJSON_ArrayForEach(e, section)
    {
        assert_true(cJSON_ReplaceItemInArray(
            e, 2, cJSON_CreateNumber(made_up(e->string, conversion))));
    }
    write_cache(root);
}

static void expect_types(const char *bytes)
{
    cJSON *root = read_cache(), *types = types_of(root);

    assert_non_null(types);
    assert_string_equal(cJSON_GetObjectItem(types, "bytes")->valuestring,
                        bytes);
    cJSON_Delete(root);
}

/* ---- sessions ------------------------------------------------------ */

struct lines {
    char text[8192];
};

static void keep_line(void *user, int level, const char *text)
{
    struct lines *l = user;
    const size_t used = strlen(l->text);

    (void)level;
    snprintf(l->text + used, sizeof l->text - used, "%s\n", text);
}

/* Convolutions in 8 bits. */
static int count_bytes(const struct infer_session *s)
{
    struct infer_layer_info layer;
    int n = 0;

    for (int i = 0; infer_session_layer(s, i, &layer) == 0; i++)
        n += strcmp(layer.op, "conv") == 0 &&
             (strstr(layer.kernel, "_i8_") || strstr(layer.kernel, "_u8_"));
    return n;
}

/* A run; *bytes: convolutions in 8 bits; *measured: by the tuner. */
static struct infer_array run_best(struct infer_model *model,
                                   const struct infer_array *x,
                                   struct lines *log, int *bytes, int *measured)
{
    struct infer_session_options options;
    struct infer_session *s = NULL;
    struct infer_error err = {0};
    struct infer_tuning_info info;
    struct infer_array y;

    infer_session_options_init(&options);
    options.precision = INFER_PRECISION_BEST;
    options.tune_cache = tuning_path;
    options.threads = 1;
    options.log = log ? keep_line : NULL;
    options.log_user = log;
    if (infer_session_create(model, &options, &err, &s) < 0)
        fail_msg("%s", err.text);
    y = run(s, x, 1, 0);
    *bytes = count_bytes(s);
    assert_int_equal(infer_session_tuning(s, &info), 0);
    *measured = info.measured;
    infer_session_close(&s);
    return y;
}

static void test_choice(void **unused)
{
    struct infer_model *model = model_of(four_layers());
    uint64_t state = 9;
    struct infer_array x = array_of(&state, DIMS(2, 8, 12, 12)), y, again;
    int bytes, measured;

    (void)unused;
    unlink(tuning_path);
    y = run_best(model, &x, NULL, &bytes, &measured);
    assert_true(measured > 0);
    /* Plans that lost the race take nothing with them. */
    again = run_best(model, &x, NULL, &bytes, &measured);
    assert_int_equal(measured, 0);
    assert_memory_equal(again.data, y.data, y.bytes);
    free(again.data);
    free(y.data);
    /* The depthwise layer in floats costs two conversions. */
    replace_times(1);
    y = run_best(model, &x, NULL, &bytes, &measured);
    free(y.data);
    expect_types("1011");
    /* Dear conversions: nothing goes to 8 bits and back. */
    replace_times(300);
    y = run_best(model, &x, NULL, &bytes, &measured);
    free(y.data);
    expect_types("0000");
    infer_model_close(&model);
    free(x.data);
}

static double squares(const struct infer_array *a, const struct infer_array *b)
{
    const float *x = a->data, *y = b->data;
    double sum = 0;

    assert_int_equal(a->bytes, b->bytes);
    for (size_t i = 0; i < a->bytes / sizeof *x; i++) {
        const double d = (double)x[i] - (double)y[i];

        sum += d * d;
    }
    return sum;
}

/* Whole runs decide between the cut's choice and the pure ones, and nothing is
 * measured again.  The error is about that of all layers in 8 bits, or less. */
static void test_whole_runs(void **unused)
{
    static const struct {
        double mixed, floats, all; /* microseconds */
        int bytes;                 /* layers in 8 bits */
    } cases[] = {{99.5, 100, 120, 0},
                 {80, 100, 40, 4},
                 {50, 100, 80, 3},
                 {50, 100, 49.9, 3},
                 {50, 50.2, 50, 0}};
    struct infer_model *model = model_of(four_layers());
    struct infer_session *narrow = session_of(model, INFER_BACKEND_AUTO, false);
    uint64_t state = 9;
    struct infer_array x = array_of(&state, DIMS(2, 8, 12, 12));
    struct infer_array all = run(narrow, &x, 1, 0), floats = {0}, y;
    int bytes, measured;

    (void)unused;
    unlink(tuning_path);
    y = run_best(model, &x, NULL, &bytes, &measured);
    free(y.data);
    replace_times(1);
    y = run_best(model, &x, NULL, &bytes, &measured);
    free(y.data);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cJSON *root = read_cache(), *types = types_of(root);
        struct lines log = {""};

        assert_non_null(types);
        set_number(types, "us", cases[i].mixed);
        set_number(types, "floats_us", cases[i].floats);
        set_number(types, "bytes_us", cases[i].all);
        write_cache(root);
        y = run_best(model, &x, &log, &bytes, &measured);
        assert_int_equal(bytes, cases[i].bytes);
        assert_int_equal(measured, 0);
        if (!strstr(log.text, "F32, 0.0100 ms in F32, 0.5000 in I8") ==
            (bytes < 4))
            fail_msg("log: %s", log.text);
        if (bytes == 4)
            assert_memory_equal(y.data, all.data, all.bytes);
        if (i == 0) {
            floats = y;
            assert_close(&floats, &all, 0.1);
            continue;
        }
        if (squares(&y, &floats) > 1.05 * squares(&all, &floats))
            fail_msg("error %g, all in 8 bits %g", squares(&y, &floats),
                     squares(&all, &floats));
        free(y.data);
    }
    infer_session_close(&narrow);
    infer_model_close(&model);
    free(x.data);
    free(all.data);
    free(floats.data);
}

/* A file without a ReLU between its layers: the integers have none below 0, and
 * all layers in floats compute the same. */
static void test_saturation(void **unused)
{
    struct graph *g = graph_new();
    uint64_t state = 11;
    int x = input(g, "x", DIMS(2, 8, 12, 12)), bytes, measured;
    struct infer_array in = array_of(&state, DIMS(2, 8, 12, 12)), y, expected;
    struct infer_model *model;
    struct infer_session *floats;
    cJSON *root, *types;

    (void)unused;
    x = through(g, x, INFER_I8, 1 / 100.0f, 0);
    x = conv(g, &state, x, 8, CHANNELS, 1, -1, KERN_IDENTITY);
    x = through(g, x, INFER_U8, 1 / 25.0f, 0);
    x = conv(g, &state, x, CHANNELS, 4, 1, -1, KERN_IDENTITY);
    assert_int_equal(graph_add_output(g, x), 0);
    model = model_of(g);
    floats = session_of(model, INFER_BACKEND_REF, true);
    expected = run(floats, &in, 1, 0);
    unlink(tuning_path);
    y = run_best(model, &in, NULL, &bytes, &measured);
    free(y.data);
    root = read_cache();
    types = types_of(root);
    assert_non_null(types);
    set_number(types, "us", 100);
    set_number(types, "floats_us", 1);
    set_number(types, "bytes_us", 100);
    write_cache(root);
    y = run_best(model, &in, NULL, &bytes, &measured);
    assert_int_equal(bytes, 0);
    assert_close(&y, &expected, 0.02);
    infer_session_close(&floats);
    infer_model_close(&model);
    free(in.data);
    free(y.data);
    free(expected.data);
}

/* A layer that the file keeps in floats, whose name would colour a terminal. */
static void test_names(void **unused)
{
    struct graph *g = graph_new();
    uint64_t state = 11;
    int x = input(g, "x", DIMS(2, 8, 12, 12)), bytes, measured;
    struct infer_array in = array_of(&state, DIMS(2, 8, 12, 12)), y;
    struct infer_model *model;
    struct lines log = {""};

    (void)unused;
    x = through(g, x, INFER_I8, 1 / 100.0f, 0);
    x = conv(g, &state, x, 8, CHANNELS, 1, -1, KERN_RELU);
    x = add_conv(g, &state, NULL, x, CHANNELS, 4, 3, 1, 1, -1);
    free(g->node[g->n_nodes - 1].name);
    g->node[g->n_nodes - 1].name = strdup("a\033[31mb");
    assert_int_equal(graph_add_output(g, x), 0);
    model = model_of(g);
    unlink(tuning_path);
    y = run_best(model, &in, &log, &bytes, &measured);
    if (strchr(log.text, '\033') ||
        !strstr(log.text,
                "types: a\\x1B[31mb: floats, not quantised in the file"))
        fail_msg("log: %s", log.text);
    infer_model_close(&model);
    free(in.data);
    free(y.data);
}

/* ---- refusals ------------------------------------------------------ */

static void test_refused(void **unused)
{
    struct infer_model *floats = model_of(small_network());
    struct infer_model *model = model_of(four_layers());
    struct infer_session_options o, plain;
    struct infer_session *s = NULL;
    struct infer_error err = {0};

    (void)unused;
    infer_session_options_init(&plain);
    plain.precision = INFER_PRECISION_BEST;
    o = plain;
    REFUSED(infer_session_create(floats, &o, &err, &s), INFER_EUNSUPPORTED,
            "--quantize=int8 --calibrate");
    o.deterministic = 1;
    REFUSED(infer_session_create(model, &o, &err, &s), INFER_EARGUMENT,
            "deterministic");
    o = plain;
    o.tune = 0;
    REFUSED(infer_session_create(model, &o, &err, &s), INFER_EARGUMENT,
            "tune 0");
    o = plain;
    o.keep_tensors = 1;
    REFUSED(infer_session_create(model, &o, &err, &s), INFER_EARGUMENT,
            "keep_tensors");
    o = plain;
    o.multiplier = "mitchell-7";
    REFUSED(infer_session_create(model, &o, &err, &s), INFER_EARGUMENT,
            "multiplier");
    o.multiplier = "none";
    assert_int_equal(infer_session_create(model, &o, &err, &s), 0);
    infer_session_close(&s);
    infer_model_close(&model);
    infer_model_close(&floats);
}

/* A multiplier in the file is left out if the caller says so, not silently. */
static void test_stored_multiplier(void **unused)
{
    struct graph *g = four_layers();
    struct infer_session_options o;
    struct infer_session *s = NULL;
    struct infer_error err = {0};
    struct infer_model *model;
    struct multiplier *m;

    (void)unused;
    assert_int_equal(multiplier_open("mitchell-7", &err, &m), 0);
    assert_int_equal(multiplier_store(m, NULL, g, &err), 0);
    multiplier_free(m);
    model = model_of(g);
    infer_session_options_init(&o);
    o.precision = INFER_PRECISION_BEST;
    REFUSED(infer_session_create(model, &o, &err, &s), INFER_EARGUMENT,
            "the model's multiplier");
    o.multiplier = "none";
    assert_int_equal(infer_session_create(model, &o, &err, &s), 0);
    infer_session_close(&s);
    infer_model_close(&model);
}

/* ---- memory -------------------------------------------------------- */

/* Where max_memory has no room for floats, all layers run in 8 bits, although
 * floats are the quicker ones. */
static void test_memory(void **unused)
{
    struct infer_model *model = model_of(four_layers());
    struct infer_session *narrow = session_of(model, INFER_BACKEND_AUTO, false);
    struct infer_session_options o;
    struct infer_session *s = NULL;
    struct infer_error err = {0};
    struct infer_memory_info memory;
    struct lines log = {""};
    uint64_t state = 9;
    struct infer_array x = array_of(&state, DIMS(2, 8, 12, 12));
    struct infer_array all = run(narrow, &x, 1, 0), y;
    int bytes, measured;

    (void)unused;
    assert_int_equal(infer_session_memory(narrow, &memory), 0);
    unlink(tuning_path);
    y = run_best(model, &x, NULL, &bytes, &measured);
    free(y.data);
    replace_times(300);
    infer_session_options_init(&o);
    o.threads = 1;
    o.precision = INFER_PRECISION_BEST;
    o.tune_cache = tuning_path;
    o.log = keep_line;
    o.log_user = &log;
    o.max_memory = memory.activations + memory.weights + memory.workspace;
    o.max_memory += o.max_memory / 4;
    if (infer_session_create(model, &o, &err, &s) < 0)
        fail_msg("%s", err.text);
    y = run(s, &x, 1, 0);
    assert_memory_equal(y.data, all.data, all.bytes);
    assert_int_equal(count_bytes(s), 4);
    if (!strstr(log.text, "types: all in 8 bits: memory is short for floats"))
        fail_msg("log: %s", log.text);
    infer_session_close(&s);
    infer_session_close(&narrow);
    infer_model_close(&model);
    free(x.data);
    free(y.data);
    free(all.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_whole_runs),
        cmocka_unit_test(test_saturation),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_stored_multiplier),
        cmocka_unit_test(test_memory),
    };

    return cmocka_run_group_tests(tests, tuning_file_set_up,
                                  tuning_file_tear_down);
}
