/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a network of 24 MiB takes at most 1.2 times its weights and 4 MiB:
 * weights in another order of axes take the place of the file's.  The peak is
 * not measured under sanitizers, whose allocators keep what is freed. */
#define FLAT_BYTES (32 << 20)
#include "tests/unit/weights/tflite/model.h"

#include <malloc.h>
#include <stdio.h>

#include "tests/unit/weights/tensorflow/graphdef_writer.h"
#include "weights/kept.h"

extern const struct weights_format weights_format_onnx;
extern const struct weights_format weights_format_tensorflow;

#define LAYERS   6
#define CHANNELS 1024
#define WEIGHTS  ((size_t)LAYERS * CHANNELS * CHANNELS * sizeof(float))
/* Of the process, beside the weights. */
#define SLACK ((size_t)4 << 20)

/* ---- measuring ----------------------------------------------------- */

/* A line of /proc/self/status in bytes; 0 where there is none. */
static size_t status_bytes(const char *word)
{
    FILE *f = fopen("/proc/self/status", "r");
    unsigned long kib = 0;
    char line[256];

    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, word, strlen(word)) == 0)
            kib = strtoul(line + strlen(word), NULL, 10);
    if (f)
        fclose(f);
    return (size_t)kib << 10;
}

/* Forgets the peak so far; false where the system does not do that. */
static bool reset_peak(void)
{
    FILE *f = fopen("/proc/self/clear_refs", "w");
    bool good = f && fputs("5", f) >= 0;

    if (f)
        good = fclose(f) == 0 && good;
    return good && status_bytes("VmHWM:") > 0;
}

/* Peak while a file in memory is read, with the copy that the reader owns. */
static size_t peak_of(const struct weights_format *format, const void *data,
                      size_t bytes)
{
    struct weights_options options;
    struct weights_import import;
    struct weights_file file = {"memory", NULL};
    struct infer_error err = {0};
    unsigned char *copy;
    size_t before;

    assert_true(reset_peak());
    before = status_bytes("VmRSS:");
    copy = malloc(bytes);
    assert_non_null(copy);
    memcpy(copy, data, bytes);
    file.blob = blob_new(copy, bytes);
    assert_non_null(file.blob);
    weights_options_init(&options);
    weights_import_init(&import);
    if (format->read(&file, &options, &err, &import) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(import.graph->n_inputs, 1);
    weights_import_clear(&import);
    weights_file_close(&file);
    return status_bytes("VmHWM:") - before;
}

static void check_peak(const struct weights_format *format, const void *data,
                       size_t bytes)
{
    const size_t peak = peak_of(format, data, bytes);

    print_message("%zu KiB for %zu KiB of weights\n", peak >> 10,
                  WEIGHTS >> 10);
    assert_true(peak >= WEIGHTS);
    assert_true(peak <= WEIGHTS + WEIGHTS / 5 + SLACK);
}

/* For the start of a test: skips with a word where memory cannot be measured.
 */
static void require_measure(void)
{
#ifdef __SANITIZE_ADDRESS__
    print_message("skipped: AddressSanitizer keeps freed memory\n");
    skip();
#endif
    if (!reset_peak()) {
        print_message("skipped: no /proc/self/clear_refs\n");
        skip();
    }
}

static float *some_weights(void)
{
    float *w = malloc(WEIGHTS / LAYERS);

    assert_non_null(w);
    for (size_t i = 0; i < WEIGHTS / LAYERS / sizeof *w; i++)
        w[i] = (float)(i % 251) - 125;
    return w;
}

/* ---- formats ------------------------------------------------------- */

TEST(test_tflite)
{
    static struct flat f;
    struct model m = {.n_ops = 0};
    float *w;
    int x;

    require_measure();
    w = some_weights();
    x = model_float(&m, "x", DIMS(1, 1, 1, CHANNELS), NULL);
    m.input[m.n_inputs++] = x;
    for (int i = 0; i < LAYERS; i++) {
        static const char *const names[LAYERS] = {"a", "b", "c", "d", "e", "f"};
        const int v =
            model_float(&m, names[i], DIMS(CHANNELS, 1, 1, CHANNELS), w);
        const int y = model_float(&m, "y", DIMS(1, 1, 1, CHANNELS), NULL);

        model_window(model_op(&m, 3, IN(x, v, -1), y), 1, 1, 3, TFLITE_RELU);
        x = y;
    }
    m.output[m.n_outputs++] = x;
    model_write(&m, &f);
    free(w);
    check_peak(&weights_format_tflite, f.data, f.bytes);
}

TEST(test_tensorflow)
{
    static const int64_t one[4] = {1, 1, 1, 1};
    const int64_t dim[4] = {1, 1, CHANNELS, CHANNELS};
    const int64_t picture[4] = {-1, 4, 4, CHANNELS};
    struct pb_message m = {0};
    char last[16] = "x", name[16], filter[16];
    float *w;

    require_measure();
    w = some_weights();
    def_placeholder(&m, "x", 4, picture);
    for (int i = 0; i < LAYERS; i++) {
        struct pb_message node, tensor = {0}, attr = {0}, shape;

        snprintf(filter, sizeof filter, "w%d", i);
        node = def_node(filter, "Const", NULL, NULL);
        shape = def_shape(4, dim);
        pb_int(&tensor, 1, 1);
        pb_nested(&tensor, 2, &shape);
        pb_bytes(&tensor, 4, w, WEIGHTS / LAYERS);
        pb_nested(&attr, 8, &tensor);
        def_attr(&node, "value", &attr);
        def_type(&node, "dtype", 1);
        pb_nested(&m, 1, &node);
        snprintf(name, sizeof name, "y%d", i);
        node = def_node(name, "Conv2D", last, filter);
        def_ints(&node, "strides", 4, one);
        def_text(&node, "padding", "SAME");
        pb_nested(&m, 1, &node);
        memcpy(last, name, sizeof last);
    }
    free(w);
    check_peak(&weights_format_tensorflow, m.data, m.size);
    pb_free(&m);
}

/* Linear layers of sequences, as PyTorch's exporter writes them, with a free
 * batch and a free length: several attempts. */
TEST(test_onnx)
{
    struct pb_message m = {0}, g = {0}, opset = {0}, info[2] = {{0}, {0}};
    char last[16] = "x", name[16], matrix[16];
    float *w;

    require_measure();
    w = some_weights();
    for (int i = 0; i < LAYERS; i++) {
        struct pb_message node = {0}, tensor = {0};

        snprintf(name, sizeof name, i == LAYERS - 1 ? "y" : "y%d", i);
        snprintf(matrix, sizeof matrix, "w%d", i);
        pb_text(&node, 1, last);
        pb_text(&node, 1, matrix);
        pb_text(&node, 2, name);
        pb_text(&node, 4, "MatMul");
        pb_nested(&g, 1, &node);
        pb_int(&tensor, 1, CHANNELS);
        pb_int(&tensor, 1, CHANNELS);
        pb_int(&tensor, 2, 1);
        pb_text(&tensor, 8, matrix);
        pb_bytes(&tensor, 9, w, WEIGHTS / LAYERS);
        pb_nested(&g, 5, &tensor);
        memcpy(last, name, sizeof last);
    }
    free(w);
    for (int i = 0; i < 2; i++) {
        struct pb_message shape = {0}, tensor = {0}, type = {0};

        for (int d = 0; d < 3; d++) {
            struct pb_message size = {0};

            if (d == 2)
                pb_int(&size, 1, CHANNELS);
            else
                pb_text(&size, 2, d ? "length" : "batch");
            pb_nested(&shape, 1, &size);
        }
        pb_int(&tensor, 1, 1);
        pb_nested(&tensor, 2, &shape);
        pb_nested(&type, 1, &tensor);
        pb_text(&info[i], 1, i ? "y" : "x");
        pb_nested(&info[i], 2, &type);
        pb_nested(&g, i ? 12 : 11, &info[i]);
    }
    pb_int(&m, 1, 8);
    pb_int(&opset, 2, 17);
    pb_nested(&m, 7, &g);
    pb_nested(&m, 8, &opset);
    check_peak(&weights_format_onnx, m.data, m.size);
    pb_free(&m);
}

/* ---- parts --------------------------------------------------------- */

/* What is given back reads as zeros, and only whole pages of it are. */
TEST(test_give_back)
{
    const size_t bytes = 1 << 20;
    const int64_t dim[1] = {bytes / 2};
    unsigned char *data = malloc(bytes);
    struct blob *blob;
    const int64_t square[2] = {bytes / 1024, 512};
    struct constant *c, *other, *view;

    assert_non_null(data);
    memset(data, 7, bytes);
    blob = blob_new(data, bytes);
    assert_non_null(blob);
    c = constant_in_blob(INFER_U8, 1, dim, blob, data + bytes / 4);
    assert_non_null(c);
    other = constant_ref(c);
    constant_give_back(c); /* somebody else has it */
    assert_int_equal(data[bytes / 2], 7);
    view = constant_reshape(other, 2, square);
    assert_non_null(view);
    constant_give_back(constant_ref(view)); /* a view of another */
    constant_give_back(constant_ref(other));
    assert_int_equal(data[bytes / 2], 7);
    constant_unref(view);
    constant_give_back(other);
    assert_int_equal(data[bytes / 2], 0);
    assert_int_equal(data[bytes / 4 - 1], 7);
    assert_int_equal(data[3 * bytes / 4], 7);
    blob_unref(blob);
}

/* One tensor under its key: transposed, asked for as it was, in a third
 * order. */
TEST(test_kept)
{
    static const int64_t dim[3] = {2, 3, 5};
    static const int order[3] = {2, 0, 1}, swap[3] = {1, 0, 2};
    struct weights_kept k = {0};
    struct constant *c = constant_new(INFER_I32, 3, dim), *want, *got;
    char keys[300];

    assert_non_null(c);
    for (int i = 0; i < 30; i++)
        ((int32_t *)(void *)c->data)[i] = i;
    assert_null(weights_kept_get(&k, &keys[0]));
    for (size_t i = 0; i < sizeof keys; i++)
        assert_true(weights_kept_add(&k, &keys[i], c));
    for (int round = 0; round < 3; round++) {
        const int *way = round == 1 ? swap : order;

        want = constant_transpose(c, way);
        got = weights_kept_transpose(&k, &keys[17], way);
        assert_true(want && got);
        assert_memory_equal(got->dim, want->dim, sizeof dim);
        assert_memory_equal(got->data, want->data, want->bytes);
        constant_unref(got);
        constant_unref(want);
        got = weights_kept_get(&k, &keys[17]);
        assert_non_null(got);
        assert_memory_equal(got->data, c->data, c->bytes);
        constant_unref(got);
    }
    weights_kept_clear(&k);
    assert_int_equal(c->refs, 1);
    constant_unref(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_give_back), cmocka_unit_test(test_kept),
        cmocka_unit_test(test_tflite),    cmocka_unit_test(test_tensorflow),
        cmocka_unit_test(test_onnx),
    };

    /* Large blocks are mapped, whatever was freed before: what is freed goes
     * back to the system. */
    mallopt(M_MMAP_THRESHOLD, 1 << 17);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
