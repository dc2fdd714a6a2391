/* SPDX-License-Identifier: Apache-2.0 */
/* Files of more than their formats allow: bytes, which are counted before they
 * are read, and layers, inputs and fields of texts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "tests/unit/test.h"
#include "weights/caffe/caffe.h"
#include "weights/darknet/darknet.h"
#include "weights/ncnn/ncnn.h"
#include "weights/weights.h"

extern const struct weights_format weights_format_onnx, weights_format_shards,
    weights_format_tensorflow;

TEST(test_sizes)
{
    static const struct {
        const struct weights_format *format;
        size_t bytes;
        const char *words;
    } rows[] = {
        {&weights_format_onnx, (size_t)1 << 31, "ends at 2 GiB"},
        {&weights_format_tensorflow, (size_t)1 << 31, "ends at 2 GiB"},
        {&weights_format_shards, (size_t)1 << 31,
         "an index of 2147483648 bytes"},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct weights_file file = {.path = "large"};
        unsigned char *data = calloc(64, 1);
        struct weights_options options;
        struct weights_import import;
        struct infer_error err = {0};

        assert_non_null(data);
        memcpy(data, "\x0a\x02\x0a\x00", 4);
        file.blob = blob_new(data, rows[i].bytes);
        assert_non_null(file.blob);
        weights_options_init(&options);
        weights_import_init(&import);
        assert_true(rows[i].format->read(&file, &options, &err, &import) < 0);
        if (!strstr(err.text, rows[i].words))
            fail_msg("%zu: %s", i, err.text);
        weights_import_clear(&import);
        weights_file_close(&file);
    }
}

typedef int read_two(const struct weights_file *net,
                     const struct weights_file *weights,
                     const struct weights_options *options,
                     struct infer_error *err, struct weights_import *out);

/* A network of `head`, then `times` times `line`, where %d is the number of the
 * repeat, then `tail`. */
TEST(test_many)
{
    static const struct {
        read_two *read;
        const char *head, *line, *tail;
        int times;
        const char *words;
    } rows[] = {
        {ncnn_read, "7767517\n40000 40000\nInput x0 0 1 x0\n",
         "AbsVal y%d 1 1 x0 y%d\n", "", 39999, "more than 32768 layers"},
        {ncnn_read, "7767517\n5000 5000\n", "Input x%d 0 1 x%d 0=4\n", "", 5000,
         "more than 4096 inputs"},
        {ncnn_read, "7767517\n5001 5001\nInput x 0 1 x 0=4\n",
         "AbsVal y%d 1 1 x y%d\n", "", 5000, "more than 4096 outputs"},
        {caffe_read, "", "x:%d\n", "", 1 << 20, "more than 1048576 fields"},
        {darknet_read,
         "[net]\nchannels=2\nheight=4\nwidth=4\n[maxpool]\nsize=1\nstride=1\n"
         "[route]\nlayers=",
         "-1,", "-1\n", 64, "more than 64 inputs"},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        const size_t room = 1000 + 64 * (size_t)rows[i].times;
        struct weights_file net = {.path = "net"},
                            weights = {.path = "weights"};
        char *text = malloc(room);
        struct weights_options options;
        struct weights_import import;
        struct infer_error err = {0};
        size_t n;

        assert_non_null(text);
        n = (size_t)snprintf(text, room, "%s", rows[i].head);
        for (int k = 0; k < rows[i].times; k++)
            n += (size_t)snprintf(text + n, room - n, rows[i].line, k, k);
        n += (size_t)snprintf(text + n, room - n, "%s", rows[i].tail);
        assert_true(n < room);
        net.blob = blob_new((unsigned char *)text, n);
        weights.blob = blob_new(calloc(64, 1), 20);
        assert_true(net.blob && weights.blob);
        weights_options_init(&options);
        weights_import_init(&import);
        assert_true(rows[i].read(&net, &weights, &options, &err, &import) < 0);
        if (!strstr(err.text, rows[i].words))
            fail_msg("%zu: %s", i, err.text);
        weights_import_clear(&import);
        weights_file_close(&net);
        weights_file_close(&weights);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sizes),
                                       cmocka_unit_test(test_many)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
