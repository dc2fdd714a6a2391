/* SPDX-License-Identifier: Apache-2.0 */
/* The tuning cache, and choices by measurement on the CPU. */
#include "config.h"

#include "tests/unit/runtime/network.h"
#include "tests/unit/runtime/tuning_file.h"

#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "kernels/backend.h"
#include "libinfer/tune/tune_private.h"

static char *read_file(void)
{
    char *text = calloc(1, 1 << 16);
    FILE *f = fopen(tuning_path, "r");

    assert_non_null(text);
    assert_non_null(f);
    assert_true(fread(text, 1, (1 << 16) - 1, f) > 0);
    fclose(f);
    return text;
}

static struct tune_cache *cache_of(const char *label)
{
    struct infer_error err = {0};
    struct tune_cache *c = NULL;

    assert_int_equal(tune_cache_open(tuning_path, label, &err, &c), 0);
    return c;
}

static void add_entry(struct tune_cache *c, const char *key, const char *row,
                      int variant)
{
    const struct tune_entry e = {
        .best = {row, variant, variant ? "engine" : "", 1.5e-6, ""}};
    struct infer_error err = {0};

    assert_int_equal(tune_cache_add(c, key, &e, &err), 0);
}

static void test_round_trip(void **unused)
{
    struct tune_cache *c = cache_of("card");
    struct tune_entry e;

    (void)unused;
    assert_string_equal(tune_cache_note(c), "");
    assert_false(tune_cache_find(c, "one", &e));
    add_entry(c, "one", "row_a", 0);
    add_entry(c, "two", "row_b", 3);
    add_entry(c, "one", "row_c", 0); /* measured anew */
    assert_true(tune_cache_find(c, "one", &e));
    assert_string_equal(e.best.row, "row_c");
    tune_cache_write(c);
    assert_string_equal(tune_cache_note(c), "");
    tune_cache_close(c);

    c = cache_of("card");
    assert_true(tune_cache_find(c, "one", &e));
    assert_string_equal(e.best.row, "row_c");
    assert_true(tune_cache_find(c, "two", &e));
    assert_string_equal(e.best.row, "row_b");
    assert_int_equal(e.best.variant, 3);
    assert_string_equal(e.best.variant_name, "engine");
    tune_cache_close(c);
}

/* How an entry was searched, and what came near to it. */
static void test_search(void **unused)
{
    struct tune_entry e = {.best = {.row = "row_a", .variant_name = ""},
                           .exhaustive = "oneDNN 9.9"};
    struct tune_cache *c = cache_of("card");
    struct infer_error err = {0};

    (void)unused;
    for (int i = 0; i < 2; i++) {
        const struct tune_stored way = {"row_n", i + 5, "near", (i + 2) * 1e-6,
                                        i ? "lib 1.2" : NULL};

        e.near[e.n_near++] = way;
    }
    assert_int_equal(tune_cache_add(c, "thorough", &e, &err), 0);
    add_entry(c, "plain", "row_b", 0);
    tune_cache_write(c);
    tune_cache_close(c);

    c = cache_of("card");
    assert_true(tune_cache_find(c, "thorough", &e));
    assert_string_equal(e.exhaustive, "oneDNN 9.9");
    assert_false(e.imported);
    assert_int_equal(e.n_near, 2);
    for (int i = 0; i < 2; i++) {
        assert_string_equal(e.near[i].row, "row_n");
        assert_int_equal(e.near[i].variant, i + 5);
        assert_string_equal(e.near[i].variant_name, "near");
        if (i)
            assert_string_equal(e.near[i].libraries, "lib 1.2");
        else
            assert_null(e.near[i].libraries);
        assert_true(e.near[i].seconds > (i + 1.99) * 1e-6 &&
                    e.near[i].seconds < (i + 2.01) * 1e-6);
    }
    assert_true(tune_cache_find(c, "plain", &e));
    assert_null(e.exhaustive);
    assert_int_equal(e.n_near, 0);
    tune_cache_close(c);
    unlink(tuning_path);
}

/* Two processes, and two devices, keep what the other wrote. */
static void test_shared(void **unused)
{
    struct tune_cache *a = cache_of("card"), *b = cache_of("card");
    struct tune_cache *other = cache_of("another card");
    struct tune_entry e;

    (void)unused;
    assert_false(tune_cache_find(other, "one", &e));
    add_entry(a, "from a", "row_a", 0);
    add_entry(b, "from b", "row_b", 0);
    add_entry(other, "from a", "row_z", 0);
    tune_cache_write(a);
    tune_cache_write(b);
    tune_cache_write(other);
    tune_cache_close(a);
    tune_cache_close(b);
    tune_cache_close(other);
    a = cache_of("card");
    assert_true(tune_cache_find(a, "from a", &e));
    assert_string_equal(e.best.row, "row_a");
    assert_true(tune_cache_find(a, "from b", &e));
    tune_cache_close(a);
}

static void check_ignored(const char *text)
{
    struct tune_cache *c;
    struct tune_entry e;
    char *kept;

    tuning_file_write(text);
    c = cache_of("card");
    assert_non_null(strstr(tune_cache_note(c), "ignored"));
    kept = read_file(); /* nothing is written where nothing is new */
    assert_string_equal(kept, text);
    free(kept);
    add_entry(c, "new", "row_a", 0);
    tune_cache_write(c);
    tune_cache_close(c);
    c = cache_of("card");
    assert_string_equal(tune_cache_note(c), "");
    assert_true(tune_cache_find(c, "new", &e));
    tune_cache_close(c);
}

/* What was taken travels as text, and stands for what the file says. */
static void test_text(void **unused)
{
    struct tune_cache *a = cache_of("card"), *b = cache_of("card");
    struct tune_cache *other = cache_of("another card");
    struct infer_error err = {0};
    struct tune_entry e;
    char *text;

    (void)unused;
    add_entry(a, "taken", "row_a", 2);
    add_entry(a, "left", "row_a", 0);
    add_entry(b, "taken", "row_b", 0);
    assert_int_equal(tune_cache_use(a, "taken", &err), 0);
    assert_int_equal(tune_cache_use(a, "unknown", &err), 0);
    text = tune_cache_text(a);
    assert_non_null(text);
    assert_int_equal(tune_cache_import(b, text, &err), 0);
    assert_int_equal(tune_cache_import(other, text, &err), 0);
    free(text);
    assert_true(tune_cache_find(b, "taken", &e));
    assert_string_equal(e.best.row, "row_a");
    assert_int_equal(e.best.variant, 2);
    assert_true(e.best.seconds > 1.49e-6 && e.best.seconds < 1.51e-6);
    assert_true(e.imported);
    assert_false(tune_cache_find(b, "left", &e));
    assert_false(tune_cache_find(other, "taken", &e));
    assert_true(tune_cache_import(b, "{\"libinfer_tuning\": 7}", &err) < 0);
    assert_true(tune_cache_import(b, "nonsense", &err) < 0);
    /* Until it is measured anew. */
    add_entry(b, "taken", "row_c", 0);
    assert_true(tune_cache_find(b, "taken", &e));
    assert_string_equal(e.best.row, "row_c");
    assert_false(e.imported);
    tune_cache_close(a);
    tune_cache_close(b);
    tune_cache_close(other);
}

static void test_damaged(void **unused)
{
    (void)unused;
    check_ignored("{\"libinfer_tuning\": 3, \"devices\": {");
    check_ignored("{\"libinfer_tuning\": 2, \"devices\": {}}");
}

/* A name that was meant for another option costs nobody a file. */
static void check_kept(const char *text)
{
    struct tune_cache *c;
    char *kept;

    tuning_file_write(text);
    c = cache_of("card");
    assert_non_null(strstr(tune_cache_note(c), "ignored"));
    add_entry(c, "new", "row_a", 0);
    tune_cache_write(c);
    assert_non_null(strstr(tune_cache_note(c), "not written"));
    tune_cache_close(c);
    kept = read_file();
    assert_string_equal(kept, text);
    free(kept);
    unlink(tuning_path);
}

static void test_something_else(void **unused)
{
    (void)unused;
    check_kept("{\"something\": \"else\"}");
    check_kept("[1, 2, 3]");
    check_kept("\xff\xfe");
    check_kept("no JSON");
}

/* Entries of many networks are read in a time that grows as their number does:
 * milliseconds, where looking for each of them in a list took seconds. */
static void test_many(void **unused)
{
    struct tune_cache *c = cache_of("card");
    struct tune_entry e;
    clock_t start;
    char *text, *at;
    FILE *f;
    int i;

    (void)unused;
    add_entry(c, "one", "row_a", 0);
    tune_cache_write(c);
    tune_cache_close(c);
    text = read_file();
    at = strstr(text, "\"one\"");
    assert_non_null(at);
    f = fopen(tuning_path, "w");
    assert_non_null(f);
    fprintf(f, "%.*s", (int)(at - text), text);
    for (i = 0; i < 20000; i++)
        fprintf(f, "\"key %d\": [\"row_b\", %d, 1, \"\"],\n", i, i);
    fprintf(f, "%s", at);
    assert_int_equal(fclose(f), 0);
    free(text);

    start = clock();
    c = cache_of("card");
    assert_true(clock() - start < CLOCKS_PER_SEC);
    assert_true(tune_cache_find(c, "key 19999", &e));
    assert_int_equal(e.best.variant, 19999);
    assert_null(e.exhaustive); /* entries of four elements */
    assert_int_equal(e.n_near, 0);
    assert_true(tune_cache_find(c, "one", &e));
    tune_cache_close(c);
    unlink(tuning_path);
}

/* Entries that make no sense are passed over one by one. */
static void test_bad_entries(void **unused)
{
    struct tune_entry near = {.best = {.row = "row_a", .variant_name = ""},
                              .n_near = 1,
                              .near = {{.row = "row_c", .variant_name = ""}}};
    struct infer_error err = {0};
    struct tune_cache *c;
    struct tune_entry e;
    char *text, *quote;

    (void)unused;
    unlink(tuning_path);
    c = cache_of("card");
    add_entry(c, "good", "row_a", 0);
    add_entry(c, "turned", "row_b", 0);
    assert_int_equal(tune_cache_add(c, "near turned", &near, &err), 0);
    tune_cache_write(c);
    tune_cache_close(c);
    text = read_file();
    quote = strstr(text, "\"row_b\"");
    assert_non_null(quote);
    memcpy(quote, "1234567", 7); /* a number in place of the name */
    quote = strstr(text, "\"row_c\"");
    assert_non_null(quote);
    memcpy(quote, "1234567", 7);
    tuning_file_write(text);
    free(text);
    c = cache_of("card");
    assert_string_equal(tune_cache_note(c), "");
    assert_true(tune_cache_find(c, "good", &e));
    assert_false(tune_cache_find(c, "turned", &e));
    assert_false(tune_cache_find(c, "near turned", &e));
    tune_cache_close(c);
}

static void test_unwritable(void **unused)
{
    struct infer_error err = {0};
    struct tune_cache *c = NULL;
    char inside[128];

    (void)unused;
    /* A file where a folder should be. */
    snprintf(inside, sizeof inside, "%s/below.json", tuning_path);
    assert_int_equal(tune_cache_open(inside, "card", &err, &c), 0);
    add_entry(c, "one", "row_a", 0);
    tune_cache_write(c);
    assert_non_null(strstr(tune_cache_note(c), "not written"));
    tune_cache_close(c);
    /* No file at all. */
    assert_int_equal(tune_cache_open("", "card", &err, &c), 0);
    assert_string_equal(tune_cache_path(c), "");
    add_entry(c, "one", "row_a", 0);
    tune_cache_write(c);
    assert_string_equal(tune_cache_note(c), "");
    tune_cache_close(c);
}

/* ---- sessions ------------------------------------------------------ */

/* Steps are reported one by one, up to all. */
struct course {
    int done, total;
};

static void follow(void *user, int done, int total)
{
    struct course *c = user;

    assert_int_equal(done, c->done + 1);
    assert_true(done <= total);
    c->done = done;
    c->total = total;
}

static struct infer_array tuned_run(struct infer_model *model, int tune,
                                    int threads, struct infer_tuning_info *info)
{
    struct infer_session_options options;
    struct infer_session *session = NULL;
    struct infer_error err = {0};
    uint64_t state = 42;
    struct infer_array x = array_of(&state, DIMS(2, 3, 12, 12)), y;
    struct course course = {0, 0};

    infer_session_options_init(&options);
    options.tune = tune;
    options.progress = follow;
    options.progress_user = &course;
    options.threads = threads;
    options.tune_cache = tuning_path;
    assert_int_equal(infer_session_create(model, &options, &err, &session), 0);
    y = run(session, &x, 1, 0);
    assert_int_equal(course.done, course.total);
    assert_int_equal(course.total > 0, tune > 0);
    assert_int_equal(infer_session_tuning(session, info), 0);
    infer_session_close(&session);
    free(x.data);
    return y;
}

static void test_sessions(void **unused)
{
    struct infer_model *model = model_of(two_convolutions(8));
    struct infer_tuning_info info;
    struct infer_array plain, first, second, third;

    (void)unused;
    unlink(tuning_path);
    plain = tuned_run(model, 0, 1, &info);
    assert_int_equal(info.measured + info.cached, 0);
    assert_int_equal(access(tuning_path, F_OK), -1);
    first = tuned_run(model, 2, 1, &info);
    assert_close(&first, &plain, 1e-5);
    assert_true(info.measured > 0);
    assert_int_equal(access(tuning_path, F_OK), 0);
    second = tuned_run(model, 2, 1, &info);
    assert_int_equal(info.measured, 0);
    assert_close(&second, &first, 0);
    /* What is fastest for one thread need not be so for two. */
    third = tuned_run(model, 2, 2, &info);
    assert_int_equal(info.cached, 0);
    assert_close(&third, &plain, 1e-5);
    free(plain.data);
    free(first.data);
    free(second.data);
    free(third.data);
    infer_model_close(&model);
}

/* The file's entries as a plain search would have left them. */
static void make_plain(void)
{
    char *text = read_file(), *at;
    int n = 0;

    for (at = text; (at = strstr(at, "\"exhaustive\"")); n++)
        memcpy(at, "\"once\"      ", 12);
    assert_true(n > 0);
    tuning_file_write(text);
    free(text);
}

/* A plain entry does not do for an exhaustive search, and gives way. */
static void test_more_thorough(void **unused)
{
    struct infer_model *model = model_of(two_convolutions(8));
    struct infer_tuning_info info;
    struct infer_array y;
    int measured;

    (void)unused;
    unlink(tuning_path);
    y = tuned_run(model, 2, 1, &info);
    free(y.data);
    measured = info.measured;
    make_plain();
    y = tuned_run(model, 2, 1, &info);
    free(y.data);
    assert_int_equal(info.measured, measured);
    assert_int_equal(info.cached, 0);
    y = tuned_run(model, 2, 1, &info);
    free(y.data);
    assert_int_equal(info.measured, 0);
    assert_int_equal(info.cached, measured);
    infer_model_close(&model);
}

/* A row that leaves infinities behind, and what it found before it. */
static bool found_infinity;
static int launches;

static int supports_all(const struct kern_problem *p,
                        const struct kern_device *d, struct infer_error *why)
{
    (void)p;
    (void)d;
    (void)why;
    return 0;
}

static int overflow(const struct kern_exec *e, const struct kern_args *args,
                    struct infer_error *err)
{
    const int64_t n = e->problem.in[0].dim[0];
    const float *x = args->in[0];
    float *y = args->out[0];
    int64_t i;

    (void)err;
    launches++;
    for (i = 0; i < n; i++)
        if (!isfinite(x[i]))
            found_infinity = true;
    for (i = 0; i < n; i++)
        y[i] = INFINITY;
    return 0;
}

/* What a row is timed with is no other's result. */
static void test_inputs_stay(void **unused)
{
    static const struct kern_functions fn = {.supports = supports_all,
                                             .launch = overflow};
    static const struct kern_row row = {.name = "overflow",
                                        .op = KERN_UNARY,
                                        .backend = INFER_BACKEND_REF,
                                        .fn = &fn};
    static const int64_t sizes[] = {700000, 300000, 600000};
    const struct kern_row *rows[] = {&row};
    double estimate = 0, limit = 0;
    const struct tune_candidates candidates = {rows, &estimate, &limit, 1};
    const struct row_tiers tiers = {.n = 1,
                                    .tier = {ROW_TIER(INFER_BACKEND_REF)}};
    struct infer_error err = {0};
    struct tune_choice choice;
    struct device cpu;
    struct tuner *t;
    size_t i;

    (void)unused;
    found_infinity = false;
    launches = 0;
    assert_int_equal(device_open("cpu", 1, NULL, &err, &cpu), 0);
    assert_int_equal(
        tuner_open(TUNE_EXHAUSTIVE, tuning_path, &cpu, &tiers, &err, &t), 0);
    for (i = 0; i < COUNT(sizes); i++) {
        struct kern_problem p = {.op = KERN_UNARY, .n_in = 1, .n_out = 1};

        p.in[0] = p.out[0] =
            kern_tensor_dense(INFER_F32, 1, &sizes[i], KERN_NCHW);
        assert_int_equal(tuner_choose(t, &p, &candidates, &err, &choice), 0);
    }
    assert_true(launches >= 6);
    assert_false(found_infinity);
    tuner_close(t);
    device_close(&cpu);
}

/* A choice that calls a library holds for the library's version alone. */
static void test_libraries(void **unused)
{
#ifdef HAVE_ONEDNN
    const char *const row = "conv_fprop_nhwc_f32_onednn";
    const char *const now = kern_backend_libraries(INFER_BACKEND_ONEDNN);
    struct tune_choice c;

    (void)unused;
    assert_non_null(strstr(now, "oneDNN "));
    assert_true(
        tune_choice_of(&(struct tune_stored){row, 0, "", 1e-6, now}, &c));
    assert_string_equal(tune_stored_of(&c).libraries, now);
    assert_false(tune_choice_of(
        &(struct tune_stored){row, 0, "", 1e-6, "oneDNN 0.9.0"}, &c));
    assert_false(
        tune_choice_of(&(struct tune_stored){row, 0, "", 1e-6, NULL}, &c));
    assert_true(tune_choice_of(
        &(struct tune_stored){"conv_fprop_ref", 0, "", 1e-6, NULL}, &c));
    assert_string_equal(tune_stored_of(&c).libraries, "");
#else
    (void)unused;
    skip();
#endif
}

/* A convolution of 128 images, 64 -> 64 channels, 56x56 pixels, 3x3: 29.6
 * GFLOP. */
static struct kern_problem large_convolution(enum infer_dtype dtype)
{
    const int64_t x[] = {128, 64, 56, 56}, w[] = {64, 64, 3, 3};
    struct kern_problem p = {.op = KERN_CONV_FPROP, .n_in = 2, .n_out = 1};

    p.in[0] = p.out[0] = kern_tensor_dense(dtype, 4, x, KERN_NHWC);
    p.in[1] = kern_tensor_dense(dtype, 4, w, KERN_NCHW);
    p.attr.conv.groups = 1;
    for (int i = 0; i < 2; i++) {
        p.attr.conv.stride[i] = p.attr.conv.dilation[i] = 1;
        p.attr.conv.pad_begin[i] = p.attr.conv.pad_end[i] = 1;
    }
    assert_int_equal(kern_problem_check(&p, NULL), 0);
    return p;
}

/* An H100: 132 multiprocessors at 1.98 GHz, 5120 bits at 2.619 GHz. */
static void test_bound(void **unused)
{
    const struct device_rates r =
        device_rates_of_gpu(90, 132, 1.98e9, 2.619e9, 5120);
    const struct device_rates old =
        device_rates_of_gpu(70, 80, 1.53e9, 0.877e9, 4096);
    const struct device_rates none = {0};
    struct kern_problem p = large_convolution(INFER_F16);
    const double flops = 2.0 * 128 * 56 * 56 * 64 * 64 * 9;
    const double halves = 2.0 * (2 * 128.0 * 64 * 56 * 56 + 64 * 64 * 9);

    (void)unused;
    /* NVIDIA's data sheets: 3.35 TB/s, 67 and 989 TFLOP/s (at 1.83 GHz);
     * 0.9 TB/s, 15.7 and 125. */
    assert_true(fabs(r.bandwidth / 3.35e12 - 1) < 0.01);
    assert_true(fabs(r.vector / 67e12 - 1) < 0.01);
    assert_true(fabs(r.tensor / 989e12 * 1.83 / 1.98 - 1) < 0.01);
    assert_true(fabs(old.bandwidth / 0.9e12 - 1) < 0.01);
    assert_true(fabs(old.vector / 15.7e12 - 1) < 0.01);
    assert_true(fabs(old.tensor / 125e12 - 1) < 0.01);
    /* Bytes are the bound of this problem in F16, products in F32. */
    assert_true(fabs(device_rates_bound(&r, &p) / (halves / r.bandwidth) - 1) <
                1e-6);
    p = large_convolution(INFER_F32);
    assert_true(fabs(device_rates_bound(&r, &p) / (flops / r.vector) - 1) <
                1e-6);
    p.allow_tf32 = true;
    assert_true(fabs(device_rates_bound(&r, &p) / (2 * halves / r.bandwidth) -
                     1) < 1e-6);
    assert_true(device_rates_bound(&none, &p) == 0);
}

/* Rows of later tiers are measured where the first is far from the bound. */
static void test_later(void **unused)
{
    const struct kern_problem p = large_convolution(INFER_F16);
    struct device gpu = {
        .rates = device_rates_of_gpu(90, 132, 1.98e9, 2.619e9, 5120)};
    struct tuner t = {.mode = TUNE_ON, .pool = {.device = &gpu}};
    const double bound = device_rates_bound(&gpu.rates, &p);

    (void)unused;
    assert_true(bound > 20e-6 && bound < 40e-6);
    assert_false(tuner_wants_later(&t, &p, 2.5 * bound));
    assert_true(tuner_wants_later(&t, &p, 4 * bound));
    /* What nothing could be measured of. */
    assert_true(tuner_wants_later(&t, &p, TUNE_PRUNED));
    t.mode = TUNE_EXHAUSTIVE;
    assert_true(tuner_wants_later(&t, &p, bound));
    t.mode = TUNE_ON;
    gpu.rates = (struct device_rates){0};
    assert_false(tuner_wants_later(&t, &p, 1));
}

static void test_options(void **unused)
{
    struct infer_model *model = model_of(two_convolutions(8));
    struct infer_session_options options;
    struct infer_session *session = NULL;
    struct infer_error err = {0};
    struct infer_tuning_info info;

    (void)unused;
    infer_session_options_init(&options);
    options.tune = 3;
    assert_int_equal(infer_session_create(model, &options, &err, &session),
                     INFER_EARGUMENT);
    assert_int_equal(infer_session_tuning(NULL, &info), INFER_EARGUMENT);
    infer_model_close(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_search),
        cmocka_unit_test(test_shared),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_something_else),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_bad_entries),
        cmocka_unit_test(test_unwritable),
        cmocka_unit_test(test_sessions),
        cmocka_unit_test(test_more_thorough),
        cmocka_unit_test(test_inputs_stay),
        cmocka_unit_test(test_libraries),
        cmocka_unit_test(test_bound),
        cmocka_unit_test(test_later),
        cmocka_unit_test(test_options),
    };

    return cmocka_run_group_tests(tests, tuning_file_set_up,
                                  tuning_file_tear_down);
}
