/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TensorFlow Lite files against what TensorFlow's interpreter gave: real ones
 * where TEST_DATA is set, those of tests/data, and those of the folder that
 * TFLITE_FILES names, which tests/make/tflite_models.py fills.
 */
#include <dirent.h>
#include <math.h>
#include <stdio.h>

#include "kernels/base/scalar.h"
#include "tests/unit/weights/keras_run.h"
#include "tests/unit/weights/tflite/model.h"
#include "weights/passes.h"

/* ---- real files ---------------------------------------------------- */

#define FORMATS "weights-formats/"

/* The first array of an .npz whose name begins with a word. */
static struct constant *array_of(const struct weights_dict *d,
                                 const char *begin)
{
    for (size_t i = 0; i < d->count; i++)
        if (strncmp(d->entry[i].name, begin, strlen(begin)) == 0)
            return constant_convert(d->entry[i].value, INFER_F32);
    fail_msg("no array is called %s...", begin);
    return NULL;
}

/* Largest difference from the recorded output, and how many differ by 1/2. */
static double file_difference(const char *folder, const char *model,
                              const char *arrays, int *unequal)
{
    const char *data = getenv("TEST_DATA");
    struct weights_import import, io;
    struct infer_error err = {0};
    struct pass_options options;
    struct constant *x, *want, *s;
    char path[1024];
    double worst = 0;
    float *y;

    snprintf(path, sizeof path, "%s/" FORMATS "%s/%s", data, folder, model);
    if (weights_read(path, NULL, &err, &import) < 0)
        fail_msg("%s", err.text);
    assert_string_equal(import.format, "tflite");
    snprintf(path, sizeof path, "%s/" FORMATS "%s/reference/%s", data, folder,
             arrays);
    if (weights_read(path, NULL, &err, &io) < 0)
        fail_msg("%s", err.text);
    pass_options_init(&options);
    if (weights_run_passes(import.graph, &options, NULL, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(count_op(import.graph, GRAPH_TRANSPOSE), 0);
    x = array_of(&io.dict, "in_");
    want = array_of(&io.dict, "out_");
    if (x->rank == 4) {
        static const int order[4] = {0, 3, 1, 2};
        s = constant_transpose(x, order);
        constant_unref(x);
        x = s;
    }
    y = malloc(want->bytes);
    assert_non_null(y);
    run_model(import.graph, (const float *)(const void *)x->data, x->rank,
              x->dim, y, want->bytes / sizeof *y);
    import.graph = NULL;
    *unequal = 0;
    for (int64_t i = 0; i < constant_count(want); i++) {
        const double d =
            fabs((double)y[i] - scalar_load(INFER_F32, want->data, i));
        worst = d <= worst ? worst : d;
        *unequal += d > 0.5;
    }
    free(y);
    constant_unref(x);
    constant_unref(want);
    weights_import_clear(&import);
    weights_import_clear(&io);
    return worst;
}

TEST(test_files)
{
    static const struct {
        const char *folder, *model, *arrays;
        double most; /* difference of an element */
        int unequal;
    } files[] = {
        {"mlperf-tiny-resnet", "pretrainedResnet.tflite",
         "pretrainedResnet.tflite.tflite.npz", 2e-6, 0},
        {"mlperf-tiny-ad", "ad01_fp32.tflite", "ad01_fp32.tflite.tflite.npz",
         1e-4, 0},
        {"tinymaix-mbnet96", "mbnet96_0.25_f.tflite",
         "mbnet96_0.25_f.tflite.tflite.npz", 2e-6, 0},
        /* Its kernels round the activations to eight bits. */
        {"mlperf-tiny-kws", "kws_ref_model_float32.tflite",
         "kws_ref_model_float32.tflite.tflite.npz", 1e-3, 0},
        {"mobilenet-v1-tflite", "mobilenet_v1_0.25_128_quant.tflite",
         "mobilenet_v1_0.25_128_quant.tflite.tflite.npz", 1, 1},
        {"tflite-micro", "person_detect.tflite",
         "person_detect.tflite.tflite-micro.npz", 0, 0},
        {"tflite-micro", "micro_speech_quantized.tflite",
         "micro_speech_quantized.tflite.tflite.npz", 0, 0},
        {"mlperf-tiny-resnet", "pretrainedResnet_quant.tflite",
         "pretrainedResnet_quant.tflite.tflite.npz", 1, 1},
        {"mlperf-tiny-kws", "kws_ref_model.tflite",
         "kws_ref_model.tflite.tflite.npz", 1, 1},
        {"mlperf-tiny-ad", "ad01_int8.tflite", "ad01_int8.tflite.tflite.npz", 1,
         1},
        {"tinymaix-mbnet96", "mbnet96_0.25_q.tflite",
         "mbnet96_0.25_q.tflite.tflite.npz", 2, 10},
    };

    if (!getenv("TEST_DATA")) {
        print_message("TEST_DATA is not set: skipped\n");
        skip();
    }
    for (size_t i = 0; i < COUNT(files); i++) {
        int unequal;
        const double d = file_difference(files[i].folder, files[i].model,
                                         files[i].arrays, &unequal);
        print_message("    %s: %g, %d unequal\n", files[i].model, d, unequal);
        if (!(d <= files[i].most) || unequal > files[i].unequal)
            fail_msg("%s: %g, %d unequal", files[i].model, d, unequal);
    }
}

/* ---- files that the script made ------------------------------------ */

/* Relative to the largest output: floats, and integers that may be off by one
 * or two after several layers. */
static double allowed(const char *name)
{
    if (strncmp(name, "q_", 2) == 0 || strstr(name, "int8"))
        return 0.02;
    return strstr(name, "hybrid") ? 0.02 : 1e-5;
}

static bool check_made(const char *folder, const char *name)
{
    const int n = (int)(strlen(name) - strlen(".tflite"));
    struct weights_import import, io;
    struct infer_error err = {0};
    char path[1024];
    double d;

    snprintf(path, sizeof path, "%s/%.*s.npz", folder, n, name);
    if (weights_read(path, NULL, &err, &io) < 0)
        fail_msg("%s", err.text);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (weights_read(path, NULL, &err, &import) < 0) {
        print_message("    %s\n", err.text);
        weights_import_clear(&io);
        return false;
    }
    d = run_graph(import.graph, &io.dict);
    weights_import_clear(&import);
    weights_import_clear(&io);
    if (d <= allowed(name))
        return true;
    print_message("    %s: %g\n", name, d);
    return false;
}

/* Integers whose roundings are those of the reference kernels. */
TEST(test_roundings)
{
    static const char *const names[] = {"q_add_int8",    "q_leaky_int8",
                                        "q_means_int8",  "q_prelu_int8",
                                        "q_resize_int8", "q_up_int8"};

    for (size_t i = 0; i < COUNT(names); i++) {
        struct weights_import import, io;
        struct infer_error err = {0};
        char path[1024];

        snprintf(path, sizeof path, SOURCE_DIR "/tests/data/tflite/%s.npz",
                 names[i]);
        if (weights_read(path, NULL, &err, &io) < 0)
            fail_msg("%s", err.text);
        snprintf(path, sizeof path, SOURCE_DIR "/tests/data/tflite/%s.tflite",
                 names[i]);
        if (weights_read(path, NULL, &err, &import) < 0)
            fail_msg("%s", err.text);
        if (run_graph(import.graph, &io.dict) != 0)
            fail_msg("%s: other integers", names[i]);
        weights_import_clear(&import);
        weights_import_clear(&io);
    }
}

/* Some of them are kept: operators that pick, blocks, the end of an SSD. */
TEST(test_selection)
{
    static const char *const names[] = {
        "detection5.tflite",    "detection60.tflite", "top_k_at.tflite",
        "cumsumreverse.tflite", "one_hot1.tflite",    "gather_nd2.tflite",
        "b2s.tflite",           "any.tflite",         "volumes.tflite"};

    for (size_t i = 0; i < COUNT(names); i++)
        assert_true(check_made(SOURCE_DIR "/tests/data/tflite", names[i]));
}

/* Damaged options of a custom operator are an error or other numbers, whichever
 * bit it is. */
TEST(test_custom_options)
{
    static unsigned char data[8192];
    const char *path = SOURCE_DIR "/tests/data/tflite/detection5.tflite";
    FILE *file = fopen(path, "rb");
    size_t at = 0, bytes;

    assert_non_null(file);
    bytes = fread(data, 1, sizeof data, file);
    fclose(file);
    while (at + 320 < bytes && memcmp(data + at, "max_detections", 14) != 0)
        at++;
    for (size_t i = at; i < at + 320 && i < bytes; i++) {
        const unsigned char was = data[i];

        for (int bit = 0; bit < 8; bit++) {
            struct infer_error err = {0};
            struct graph *g = NULL;

            data[i] = was ^ (unsigned char)(1 << bit);
            if (read_bytes(data, bytes, NULL, &err, &g) == 0)
                graph_free(g);
            else
                assert_true(err.text[0] != 0);
        }
        data[i] = was;
    }
}

TEST(test_made_files)
{
    const char *folder = getenv("TFLITE_FILES");
    struct dirent **names;
    int good = 0, all = 0;

    if (!folder) {
        print_message("skipped: TFLITE_FILES is not set "
                      "(tests/make/tflite_models.py)\n");
        skip();
    }
    const int n = scandir(folder, &names, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        const char *dot = strrchr(names[i]->d_name, '.');
        if (dot && strcmp(dot, ".tflite") == 0) {
            all++;
            good += check_made(folder, names[i]->d_name);
        }
        free(names[i]);
    }
    free(names);
    print_message("%d of %d models\n", good, all);
    assert_true(all >= 100);
    assert_int_equal(good, all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_roundings),
        cmocka_unit_test(test_selection),
        cmocka_unit_test(test_custom_options),
        cmocka_unit_test(test_made_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
