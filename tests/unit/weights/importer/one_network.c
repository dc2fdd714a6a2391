/* SPDX-License-Identifier: Apache-2.0 */
/* One network, written in every format that holds a network by
 * tests/make/one_network.py, gives the same output from each of them. */
#include "tests/unit/test.h"
#include "tests/unit/weights/keras_run.h"

#define FOLDER SOURCE_DIR "/tests/data/network/"

static const char *const files[] = {
    "net.onnx", "net.pt2",    "net.keras",    "net.h5",  "saved/saved_model.pb",
    "net.pb",   "net.tflite", "net.prototxt", "net.cfg", "net.param",
};

static void read_file(const char *name, struct weights_import *out)
{
    struct weights_options options;
    struct infer_error err = {0};
    char path[4096];

    weights_options_init(&options);
    weights_import_init(out);
    snprintf(path, sizeof path, FOLDER "%s", name);
    if (weights_read(path, &options, &err, out) < 0)
        fail_msg("%s", err.text);
}

/* The largest difference is rounding: outputs are probabilities. */
TEST(test_same_output)
{
    struct weights_import io;
    double worst = 0;

    read_file("net.npz", &io);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct weights_import import;
        double d;

        read_file(files[i], &import);
        if (import.graph == NULL)
            fail_msg("%s: no graph", files[i]);
        assert_int_equal(import.graph->n_inputs, 1);
        assert_int_equal(import.graph->n_outputs, 1);
        d = run_graph(import.graph, &io.dict);
        if (!(d <= 1e-6))
            fail_msg("%s: differs by %g", files[i], d);
        worst = fmax(worst, d);
        weights_import_clear(&import);
    }
    print_message("largest difference %.1e\n", worst);
    weights_import_clear(&io);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_output)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
