/* SPDX-License-Identifier: Apache-2.0 */
/* The TensorFlow Lite reader: numbers of operators as TensorFlow Lite's
 * reference kernels give them. */
#include <math.h>

#include "tests/unit/weights/tflite/model.h"

static void must_give(const struct model *m, const float *x, int rank,
                      const int64_t *dim, const float *want, int n)
{
    static struct flat f;
    struct infer_error err = {0};
    struct graph *g = NULL;
    float y[64];

    model_write(m, &f);
    if (read_bytes(f.data, f.bytes, NULL, &err, &g) < 0 ||
        graph_infer_shapes(g, NULL, &err) < 0)
        fail_msg("%s", err.text);
    run_model(g, x, rank, dim, y, (size_t)n);
    for (int i = 0; i < n; i++)
        if (!(fabsf(y[i] - want[i]) <= 1e-6f * fabsf(want[i])))
            fail_msg("output %d is %g, %g is due", i, (double)y[i],
                     (double)want[i]);
}

/* QUANTIZE, to the integer: quotients right below a half, at it, and above. */
TEST(test_quantise)
{
    static const float scale = 0.0437f;
    float x[60], want[60];
    struct model m = {.n_ops = 0};
    int in[1], y;

    for (int i = 0; i < 60; i++) {
        const float half = (float)(i / 3) * 5 + 0.5f;
        const float sign = i % 2 ? -1.0f : 1.0f;

        x[i] = half * scale;
        while (i % 3 == 0 && x[i] / scale >= half)
            x[i] = nextafterf(x[i], 0);
        while (i % 3 == 2 && x[i] / scale <= half)
            x[i] = nextafterf(x[i], 1000);
        x[i] *= sign;
        want[i] = fminf(127, fmaxf(-128, roundf(x[i] / scale) + 3));
    }
    in[0] = model_float(&m, "x", DIMS(1, 60), NULL);
    y = model_quantised(&m, "y", TFLITE_INT8, DIMS(1, 60), NULL, scale, 3);
    model_op(&m, 114, in, 1, y);
    model_io(&m, in[0], y);
    must_give(&m, x, DIMS(1, 60), want, 60);
}

/* Layers of 16-bit activations, whose sums pass 2^24 and whose bias 2^32, to
 * the integer, as TensorFlow 2.21's reference kernels give them. */
TEST(test_wide)
{
    enum { C = 400 };
    static const float want[] = {2188, 32767, -32768, 598};
    static const int64_t bias[] = {0, 12345678901, -98765432101, 77};
    static int8_t w[4 * C];
    static float x[C];

    for (int i = 0; i < C; i++)
        x[i] = (float)(i * 7919 % 65536 - 32768);
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < C; i++)
            w[k * C + i] = (int8_t)((i * i * 31 + 17 * k) % 255 - 127);
    for (int dense = 0; dense < 2; dense++) {
        const int64_t of_x[4] = {1, dense ? C : 1, 1, C};
        const int64_t of_w[4] = {4, dense ? C : 1, 1, C};
        const int64_t of_y[4] = {1, dense ? 4 : 1, 1, 4};
        const int64_t swapped[4] = {1, C, 1, 1};
        const int rank = dense ? 2 : 4;
        struct model m = {.n_ops = 0};
        struct model_op *o;
        int in[3], y;

        in[0] = model_quantised(&m, "x", TFLITE_INT16, rank, of_x, NULL,
                                0.0003f, 0);
        in[1] = model_quantised(&m, "w", TFLITE_INT8, rank, of_w, w, 0.005f, 0);
        in[2] = model_quantised(&m, "b", TFLITE_INT64, DIMS(4), bias,
                                0.0003f * 0.005f, 0);
        y = model_quantised(&m, "y", TFLITE_INT16, rank, of_y, NULL, 0.005f, 0);
        o = model_op(&m, dense ? 9 : 3, in, 3, y);
        if (!dense)
            model_window(o, 1, 1, 3, 0);
        model_io(&m, in[0], y);
        must_give(&m, x, rank, swapped, want, 4);
    }
}

/* Products of 2,000 numbers of 16 bits, whose sum has 41 bits, likewise. */
TEST(test_wide_products)
{
    enum { C = 2000 };
    static const float want[] = {20006, 13335, 21850, -21851};
    static int16_t w[4 * C];
    static float x[C];
    struct model m = {.n_ops = 0};
    int in[2], y;

    for (int i = 0; i < C; i++)
        x[i] = (float)(32767 - i % 7);
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < C; i++)
            w[k * C + i] = (int16_t)(k == 0   ? 30000 + i % 3
                                     : k == 1 ? 20000 - i % 5
                                     : k == 2 ? 32767
                                              : -32768);
    in[0] =
        model_quantised(&m, "x", TFLITE_INT16, DIMS(1, 1, C), NULL, 1e-4f, 0);
    in[1] = model_quantised(&m, "w", TFLITE_INT16, DIMS(1, 4, C), w, 1e-4f, 0);
    y = model_quantised(&m, "y", TFLITE_INT16, DIMS(1, 1, 4), NULL, 0.98269f,
                        0);
    model_option(model_op(&m, 126, in, 2, y), 1, 1, 1);
    model_io(&m, in[0], y);
    must_give(&m, x, DIMS(1, 1, C), want, 4);
}

/* Functions of 16 bits that the kernels look up, likewise. */
TEST(test_tables)
{
    static const float x[] = {-32768, -20000, -3333, -1,    0,
                              1,      777,    5000,  12345, 32767};
    static const struct {
        int code;
        float scale, want[10];
    } cases[] = {
        {14,
         0x1p-12f,
         {11, 247, 10063, 16382, 16384, 16386, 17933, 25303, 31234, 32757}},
        {14,
         0.0003f,
         {2, 81, 8814, 16381, 16384, 16387, 18285, 26790, 31980, 32766}},
        {28,
         0x1p-11f,
         {-32767, -32767, -30333, -16, 0, 16, 11868, 32275, 32767, 32767}},
        {28,
         0.0002f,
         {-32767, -32746, -19095, -5, 0, 5, 5050, 24956, 32302, 32767}},
        {25, 0.0002f, {2, 2, 23, 45, 45, 45, 53, 124, 537, 31893}},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct model m = {.n_ops = 0};
        struct model_op *o;
        int in[1], y;

        in[0] = model_quantised(&m, "x", TFLITE_INT16, DIMS(1, 10), NULL,
                                cases[i].scale, 0);
        y = model_quantised(&m, "y", TFLITE_INT16, DIMS(1, 10), NULL, 0x1p-15f,
                            0);
        o = model_op(&m, cases[i].code, in, 1, y);
        if (cases[i].code == 25)
            model_option(o, 0, 4, float_bits(1));
        model_io(&m, in[0], y);
        must_give(&m, x, DIMS(1, 10), cases[i].want, 10);
    }
}

/* Rows of updates are added, two of them in one place. */
TEST(test_scatter)
{
    static const int32_t at[] = {1, 0, 0, 1, 1, 0}, shape[] = {2, 2, 2};
    static const float x[] = {1, 2, 3, 4, 5, 6};
    struct model m = {.n_ops = 0};
    int in[3], y;

    in[0] = model_ints(&m, "at", DIMS(3, 2), at);
    in[1] = model_float(&m, "x", DIMS(3, 2), NULL);
    in[2] = model_ints(&m, "shape", DIMS(3), shape);
    y = model_float(&m, "y", DIMS(2, 2, 2), NULL);
    model_op(&m, 122, in, 3, y);
    model_io(&m, in[1], y);
    must_give(&m, x, DIMS(3, 2), (const float[]){0, 0, 3, 4, 6, 8, 0, 0}, 8);
}

/* Of integers the gaps hold 0, which is 5 by this scale and zero point. */
TEST(test_scatter_quantised)
{
    static const int32_t at[] = {2, 0}, shape[] = {4, 2};
    static const float x[] = {1, 2, 3, -4};
    struct model m = {.n_ops = 0};
    int in[3], first, y;

    first = model_float(&m, "x", DIMS(2, 2), NULL);
    in[0] = model_ints(&m, "at", DIMS(2, 1), at);
    in[1] = model_quantised(&m, "q", TFLITE_INT8, DIMS(2, 2), NULL, 0.5f, -10);
    in[2] = model_ints(&m, "shape", DIMS(2), shape);
    y = model_quantised(&m, "y", TFLITE_INT8, DIMS(4, 2), NULL, 0.5f, -10);
    model_op(&m, 114, &first, 1, in[1]);
    model_op(&m, 122, in, 3, y);
    model_io(&m, first, y);
    must_give(&m, x, DIMS(2, 2), (const float[]){-4, -18, 0, 0, -8, -6, 0, 0},
              8);
}

/* ---- DENSIFY ------------------------------------------------------- */

/* Weights of 2 x 4: 0 1 0 2, 3 0 0 0. */
static void sparse_model(struct model *m, struct model_sparse *s)
{
    static const float weight[] = {1, 2, 3};
    int in[2], y;

    *m = (struct model){.n_ops = 0};
    *s = (struct model_sparse){.order = {0, 1},
                               .size = {2, 4},
                               .segments = {0, 2, 3},
                               .indices = {1, 3, 0},
                               .n_segments = 3,
                               .n_indices = 3};
    in[1] = model_float(m, "packed", DIMS(2, 4), weight);
    m->tensor[in[1]].bytes = sizeof weight;
    m->tensor[in[1]].sparse = s;
    y = model_float(m, "w", DIMS(2, 4), NULL);
    model_op(m, 124, &in[1], 1, y);
    in[0] = model_float(m, "x", DIMS(1, 4), NULL);
    in[1] = y;
    y = model_float(m, "y", DIMS(1, 2), NULL);
    model_op(m, 9, in, 2, y);
    model_io(m, in[0], y);
}

TEST(test_densify)
{
    static const float x[] = {10, 20, 30, 40};
    struct model_sparse s;
    struct model m;

    sparse_model(&m, &s);
    must_give(&m, x, DIMS(1, 4), (const float[]){100, 30}, 2);
    /* By columns: 0 2 0 3, 1 0 0 0. */
    s = (struct model_sparse){.order = {1, 0},
                              .size = {4, 2},
                              .segments = {0, 1, 2, 2, 3},
                              .indices = {1, 0, 0},
                              .n_segments = 5,
                              .n_indices = 3};
    must_give(&m, x, DIMS(1, 4), (const float[]){160, 10}, 2);
}

TEST(test_damaged)
{
    struct model_sparse s;
    struct model m;

    sparse_model(&m, &s);
    s.indices[1] = 4;
    must_refuse(&m, INFER_EFORMAT, "an index out of range");
    sparse_model(&m, &s);
    s.segments[1] = 4;
    must_refuse(&m, INFER_EFORMAT, "segments out of order");
    sparse_model(&m, &s);
    s.n_segments = 2;
    must_refuse(&m, INFER_EFORMAT, "segments end early");
    sparse_model(&m, &s);
    s.segments[2] = 2;
    must_refuse(&m, INFER_EFORMAT, "elements are left over");
    sparse_model(&m, &s);
    m.tensor[0].bytes = 8;
    must_refuse(&m, INFER_EFORMAT, "its elements end early");
    sparse_model(&m, &s);
    s.order[1] = 0;
    must_refuse(&m, INFER_EFORMAT, "levels out of order");
    sparse_model(&m, &s);
    s.size[0] = 3;
    must_refuse(&m, INFER_EFORMAT, "a level of another size");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantise),
        cmocka_unit_test(test_wide),
        cmocka_unit_test(test_wide_products),
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_scatter),
        cmocka_unit_test(test_scatter_quantised),
        cmocka_unit_test(test_densify),
        cmocka_unit_test(test_damaged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
