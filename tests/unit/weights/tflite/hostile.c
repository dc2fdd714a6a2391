/* SPDX-License-Identifier: Apache-2.0 */
/* TensorFlow Lite files that are wrong: each must be refused, or read where it
 * is only odd, without a crash, a leak or an unreasonable cost. */
#include "tests/unit/weights/tflite/model.h"

#include <stdio.h>

/* A small network with most kinds of object. */
static void seed(struct model *m)
{
    static const int32_t target[2] = {-1, 8}, pads[8] = {0, 0, 1, 1};
    static float w[2 * 3 * 3], d[3 * 8];
    struct model_op *o;
    int v[10];

    for (int i = 0; i < 18; i++)
        w[i] = d[i] = (float)i;
    *m = (struct model){.n_ops = 0};
    v[0] = model_float(m, "x", DIMS(1, 4, 4, 1), NULL);
    v[1] = model_ints(m, "pads", DIMS(4, 2), pads);
    v[2] = model_float(m, "p", DIMS(1, 6, 4, 1), NULL);
    v[3] = model_float(m, "w", DIMS(2, 3, 3, 1), w);
    v[4] = model_float(m, "c", DIMS(1, 4, 2, 2), NULL);
    v[5] = model_ints(m, "target", DIMS(2), target);
    v[6] = model_float(m, "f", DIMS(2, 8), NULL);
    v[7] = model_float(m, "d", DIMS(3, 8), d);
    v[8] = model_float(m, "g", DIMS(2, 3), NULL);
    v[9] = model_float(m, "y", DIMS(2, 3), NULL);
    model_op(m, 34, IN(v[0], v[1]), v[2]);
    o = model_op(m, 3, IN(v[2], v[3], -1), v[4]);
    model_window(o, 1, 1, 3, TFLITE_RELU);
    model_op(m, 22, IN(v[4], v[5]), v[6]);
    model_op(m, 9, IN(v[6], v[7], -1), v[8]);
    o = model_op(m, 25, IN(v[8]), v[9]);
    model_option(o, 0, 4, float_bits(1));
    model_io(m, v[0], v[9]);
}

/* Any outcome is fine but a crash, a leak, or an error without words. */
static void try_to_read(const void *data, size_t bytes)
{
    struct infer_error err = {0};
    struct graph *g = NULL;

    if (read_bytes(data, bytes, NULL, &err, &g) < 0)
        assert_true(err.text[0] != 0);
    else if (graph_infer_shapes(g, NULL, &err) < 0 ||
             graph_validate(g, &err) < 0)
        fail_msg("a graph that does not hold together: %s", err.text);
    graph_free(g);
}

TEST(test_seed)
{
    struct model m;

    seed(&m);
    graph_free(must_read(&m));
}

TEST(test_truncated)
{
    static struct flat f;
    struct model m;

    seed(&m);
    model_write(&m, &f);
    for (size_t n = 0; n < f.bytes; n++)
        try_to_read(f.data, n);
}

TEST(test_bit_flips)
{
    static struct flat f;
    struct model m;

    seed(&m);
    model_write(&m, &f);
    for (size_t i = 0; i < 8 * f.bytes; i++) {
        f.data[i / 8] ^= (unsigned char)(1u << i % 8);
        try_to_read(f.data, f.bytes);
        f.data[i / 8] ^= (unsigned char)(1u << i % 8);
    }
}

TEST(test_words_set)
{
    static const uint32_t values[] = {0, 1, 0x7fffffff, 0x80000000, 0xffffffff};
    static struct flat f;
    struct model m;

    seed(&m);
    model_write(&m, &f);
    for (size_t i = 0; i + 4 <= f.bytes; i += 4)
        for (size_t k = 0; k < COUNT(values); k++) {
            unsigned char old[4];
            memcpy(old, f.data + i, 4);
            memcpy(f.data + i, &values[k], 4);
            try_to_read(f.data, f.bytes);
            memcpy(f.data + i, old, 4);
        }
}

/* Files that TensorFlow wrote (tests/make/tflite_models.py --seeds), damaged at
 * places that differ from file to file. */
TEST(test_seed_files)
{
    static const char *const names[] = {"net", "int8", "half"};

    for (size_t i = 0; i < COUNT(names); i++) {
        struct weights_file file;
        struct infer_error err;
        char path[1024];
        snprintf(path, sizeof path, SOURCE_DIR "/tests/data/seed_%s.tflite",
                 names[i]);
        if (weights_file_read(path, 0, &err, &file) < 0)
            fail_msg("%s", err.text);
        unsigned char *data = file.blob->data;
        const size_t bytes = file.blob->bytes;
        try_to_read(data, bytes);
        for (size_t n = i; n < bytes; n += 17)
            try_to_read(data, n);
        for (size_t k = i; k < 8 * bytes; k += 11) {
            data[k / 8] ^= (unsigned char)(1u << k % 8);
            try_to_read(data, bytes);
            data[k / 8] ^= (unsigned char)(1u << k % 8);
        }
        weights_file_close(&file);
    }
}

/* ---- whole objects ------------------------------------------------- */

TEST(test_other_files)
{
    struct weights_file file = {"test", NULL};
    unsigned char *text = malloc(8);

    assert_non_null(text);
    memcpy(text, "....TFL2", 8);
    file.blob = blob_new(text, 8);
    assert_non_null(file.blob);
    assert_int_equal(weights_format_tflite.probe(&file), 0);
    text[7] = '3';
    assert_int_equal(weights_format_tflite.probe(&file), 100);
    file.blob->bytes = 7;
    assert_int_equal(weights_format_tflite.probe(&file), 0);
    file.blob->bytes = 8;
    weights_file_close(&file);
}

/* Tensors that are not there, produced twice, or used before. */
TEST(test_wiring)
{
    struct model m;

    seed(&m);
    m.op[1].in[0] = 99;
    must_refuse(&m, INFER_EFORMAT, "CONV_2D 'c': input 0 is tensor 99 of 10");
    seed(&m);
    m.op[1].out[0] = -5;
    must_refuse(&m, INFER_EFORMAT, "output 0 is missing");
    seed(&m);
    m.op[2].out[0] = m.op[1].out[0];
    must_refuse(&m, INFER_EFORMAT, "produced twice");
    seed(&m);
    m.op[1].in[0] = m.op[1].out[0];
    must_refuse(&m, INFER_EFORMAT, "nothing before it produces");
    seed(&m);
    m.output[0] = 77;
    must_refuse(&m, INFER_EFORMAT, "tensor 77 of 10 is used");
    seed(&m);
    m.n_outputs = 0;
    must_refuse(&m, INFER_EFORMAT, "no outputs");
    seed(&m);
    m.input[m.n_inputs++] = m.input[0];
    must_refuse(&m, INFER_EFORMAT, "two inputs are tensor 0");
}

TEST(test_tensors)
{
    struct model m;

    seed(&m);
    m.tensor[3].bytes -= 4;
    must_refuse(&m, INFER_EFORMAT, "which is not its shape");
    seed(&m);
    m.tensor[3].type = 5;
    must_refuse(&m, INFER_EUNSUPPORTED, "a constant that is STRING");
    seed(&m);
    m.tensor[0].dim[1] = -7;
    must_refuse(&m, INFER_EFORMAT, "tensor 0: dimension 1 is -7");
    seed(&m);
    m.tensor[0].dim[1] = 0;
    must_refuse(&m, INFER_EFORMAT, "input 'x' is empty");
    seed(&m);
    m.tensor[3].dim[0] = m.tensor[3].dim[1] = m.tensor[3].dim[2] = 0x7fffffff;
    must_refuse(&m, INFER_EFORMAT, "");
}

TEST(test_options)
{
    struct model m;

    seed(&m);
    m.op[1].option[0].value = 9;
    must_refuse(&m, INFER_EFORMAT, "CONV_2D 'c': padding 9");
    seed(&m);
    m.op[1].option[1].value = 0;
    must_refuse(&m, INFER_EFORMAT, "CONV_2D 'c': a horizontal stride of 0");
    seed(&m);
    m.op[1].option[3].value = 5;
    must_refuse(&m, INFER_EUNSUPPORTED, "fused activation 5");
    seed(&m);
    m.op[4].option[0].value = float_bits(1.0f / 0.0f);
    must_refuse(&m, INFER_EFORMAT, "SOFTMAX 'y': beta inf");
    seed(&m);
    m.op[0].code = 200;
    must_refuse(&m, INFER_EUNSUPPORTED, "operator number 200 is not known");
}

TEST(test_scales)
{
    static const int8_t w[4] = {1, 2, 3, 4};
    static const float bad[] = {0.0f, -1.0f, 1.0f / 0.0f, 1e38f, 1e-38f};
    struct model m;
    int v[3];

    for (size_t i = 0; i <= COUNT(bad); i++) {
        m = (struct model){.n_ops = 0};
        v[0] = model_quantised(&m, "x", TFLITE_INT8, DIMS(1, 2), NULL, 0.1f, 0);
        v[1] = model_quantised(&m, "w", TFLITE_INT8, DIMS(2, 2), w, 0.1f, 0);
        v[2] = model_quantised(&m, "y", TFLITE_INT8, DIMS(1, 2), NULL, 0.1f, 0);
        model_op(&m, 9, IN(v[0], v[1], -1), v[2]);
        model_io(&m, v[0], v[2]);
        if (i < COUNT(bad)) {
            m.tensor[v[2]].scale[0] = bad[i];
            must_refuse(&m, INFER_EFORMAT, "FULLY_CONNECTED 'y': scale");
        } else {
            m.tensor[v[1]].n_scales = 3;
            must_refuse(&m, INFER_EFORMAT, "3 scales");
            m.tensor[v[1]].n_scales = 1;
            m.tensor[v[0]].zero = 1000;
            must_refuse(&m, INFER_EFORMAT, "zero point 1000");
        }
    }
}

/* Offsets that lead out of the file, and tables that lie over each other. */
TEST(test_offsets)
{
    static struct flat f;
    struct infer_error err = {0};
    struct graph *g = NULL;
    struct model m;

    seed(&m);
    model_write(&m, &f);
    flat_put(&f, 0, 0x7ffffff0, 4);
    assert_int_equal(read_bytes(f.data, f.bytes, NULL, &err, &g),
                     INFER_EFORMAT);
    assert_non_null(strstr(err.text, "an offset at byte 0"));
    model_write(&m, &f);
    flat_put(&f, 0, 4, 4); /* the identifier as a table */
    assert_int_equal(read_bytes(f.data, f.bytes, NULL, &err, &g),
                     INFER_EFORMAT);
}

/* A small file that asks for much: a shape of 2^40 elements, repeats without
 * end, one buffer behind every tensor. */
TEST(test_much)
{
    static const int32_t dims[2] = {1 << 20, 1 << 20}, one = 1;
    struct model m = {.n_ops = 0};
    int v[4];

    v[0] = model_float(&m, "x", DIMS(1, 1), NULL);
    v[1] = model_ints(&m, "dims", DIMS(2), dims);
    v[2] = model_float(&m, "t", DIMS(1, 1), NULL);
    model_op(&m, 69, IN(v[0], v[1]), v[2]);
    model_io(&m, v[0], v[2]);
    {
        static struct flat f;
        model_write(&m, &f);
        try_to_read(f.data, f.bytes);
    }
    m = (struct model){.n_ops = 0};
    v[0] = model_float(&m, "x", DIMS(1, 1), NULL);
    v[1] = model_ints(&m, "dims", DIMS(2), dims);
    v[2] = model_add(&m, "one", TFLITE_INT32, 0, NULL, &one);
    v[3] = model_ints(&m, "y", DIMS(1, 1), NULL);
    model_op(&m, 94, IN(v[1], v[2]), v[3]);
    model_io(&m, v[0], v[3]);
    {
        static struct flat f;
        model_write(&m, &f);
        try_to_read(f.data, f.bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_seed),       cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_bit_flips),  cmocka_unit_test(test_words_set),
        cmocka_unit_test(test_seed_files), cmocka_unit_test(test_other_files),
        cmocka_unit_test(test_wiring),     cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_options),    cmocka_unit_test(test_scales),
        cmocka_unit_test(test_offsets),    cmocka_unit_test(test_much),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
