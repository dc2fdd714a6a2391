/* SPDX-License-Identifier: Apache-2.0 */
/* Loops over the boxes of torchvision's detectors (tests/make/regions.py), and
 * limits of values. */
#include "tests/unit/test.h"
#include "tests/unit/weights/keras_run.h"

#define FOLDER SOURCE_DIR "/tests/data/regions/"

static int read_file(const char *name, struct infer_error *err,
                     struct weights_import *out)
{
    struct weights_options options;
    char path[4096];

    weights_options_init(&options);
    weights_import_init(out);
    snprintf(path, sizeof path, FOLDER "%s", name);
    return weights_read(path, &options, err, out);
}

static void must_match(const char *name, int outputs)
{
    struct weights_import import, io;
    struct infer_error err = {0};
    char file[64];
    double d;

    snprintf(file, sizeof file, "%s.npz", name);
    assert_int_equal(read_file(file, &err, &io), 0);
    snprintf(file, sizeof file, "%s.onnx", name);
    if (read_file(file, &err, &import) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(import.graph->n_outputs, outputs);
    d = run_graph(import.graph, &io.dict);
    if (!(d <= 1e-5))
        fail_msg("%s: differs by %g", file, d);
    weights_import_clear(&import);
    weights_import_clear(&io);
}

TEST(test_masks)
{
    must_match("masks", 1);
}

TEST(test_keypoints)
{
    must_match("keypoints", 2);
}

/* A body of the same operators that pastes at other places. */
TEST(test_another_loop)
{
    struct weights_import import;
    struct infer_error err = {0};

    assert_int_equal(read_file("other.onnx", &err, &import),
                     INFER_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "Resize"));
    assert_non_null(strstr(err.text, "must not depend on data"));
    weights_import_clear(&import);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_masks),
        cmocka_unit_test(test_keypoints),
        cmocka_unit_test(test_another_loop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
