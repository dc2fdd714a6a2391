/* SPDX-License-Identifier: Apache-2.0 */
/* The TensorFlow Lite reader: activations of floats beside weights of 8 bits,
 * against the integers of TensorFlow Lite's kernels, computed here. */
#include <math.h>

#include "tests/unit/weights/tflite/model.h"

#define COLUMNS 5

/* A row as the kernels quantise it: integers less their zero point, and what a
 * unit is. */
static double quantise(const float *x, int n, bool offset, int *q)
{
    double low = 0, high = 0, scale, zero = 0;

    for (int i = 0; i < n; i++) {
        low = fmin(low, (double)x[i]);
        high = fmax(high, (double)x[i]);
    }
    if (offset) {
        scale = (high - low) / 255;
        zero = scale > 0 ? round(-128 - low / scale) : 0;
    } else {
        scale = fmax(high, -low) / 127;
    }
    for (int i = 0; i < n; i++)
        q[i] = scale > 0
                   ? (int)(fmin(127, fmax(offset ? -128 : -127,
                                          round(zero + (double)x[i] / scale))) -
                           zero)
                   : 0;
    return scale;
}

static void must_give(const struct model *m, bool dynamic, const float *x,
                      int rank, const int64_t *dim, const double *want, int n)
{
    static struct flat f;
    const struct weights_options options = {.dynamic_range = dynamic};
    struct infer_error err = {0};
    struct graph *g = NULL;
    float y[16];

    model_write(m, &f);
    if (read_bytes(f.data, f.bytes, &options, &err, &g) < 0 ||
        graph_infer_shapes(g, NULL, &err) < 0)
        fail_msg("%s", err.text);
    run_model(g, x, rank, dim, y, (size_t)n);
    for (int i = 0; i < n; i++)
        if (!(fabs((double)y[i] - want[i]) <= 2e-5))
            fail_msg("output %d is %g, %g is due", i, (double)y[i], want[i]);
}

static const signed char weight[2 * COLUMNS] = {3,  -128, 7,  0,   127,
                                                90, 1,    -5, -44, 2};
static const float rows[3][COLUMNS] = {
    {0.3f, -1.25f, 2.5f, 0.01f, -0.77f}, {0}, {5, 1.5f, 2.25f, 4, 3.125f}};

/* FULLY_CONNECTED: each row by its own range. */
TEST(test_dense)
{
    static const float bias[2] = {0.5f, -2};
    double want[2][6];
    int q[COLUMNS];

    for (int offset = 0; offset < 2; offset++) {
        struct model m = {.n_ops = 0};
        struct model_op *o;
        int in[3], y;

        for (int r = 0; r < 3; r++) {
            const double scale = quantise(rows[r], COLUMNS, offset, q);

            for (int k = 0; k < 2; k++) {
                double sum = 0, real = 0;

                for (int c = 0; c < COLUMNS; c++) {
                    sum += q[c] * weight[k * COLUMNS + c];
                    real += (double)rows[r][c] * weight[k * COLUMNS + c];
                }
                want[1][2 * r + k] = sum * scale * 0.01 + (double)bias[k];
                want[0][2 * r + k] = real * 0.01 + (double)bias[k];
            }
        }
        in[0] = model_float(&m, "x", DIMS(3, COLUMNS), NULL);
        in[1] = model_quantised(&m, "w", TFLITE_INT8, DIMS(2, COLUMNS), weight,
                                0.01f, 0);
        in[2] = model_float(&m, "b", DIMS(2), bias);
        y = model_float(&m, "y", DIMS(3, 2), NULL);
        o = model_op(&m, 9, in, 3, y);
        model_option(o, 3, 1, (uint64_t)offset);
        model_io(&m, in[0], y);
        must_give(&m, true, rows[0], DIMS(3, COLUMNS), want[1], 6);
        must_give(&m, false, rows[0], DIMS(3, COLUMNS), want[0], 6);
    }
}

/* CONV_2D and DEPTHWISE_CONV_2D of 1x1: each image by its own range; with one
 * scale for several outputs by the magnitude. */
static void check_conv(bool depthwise, bool one_scale)
{
    struct model m = {.n_ops = 0};
    struct model_op *o;
    double want[6];
    int q[COLUMNS], in[2], y;
    const int64_t channels = depthwise ? 1 : COLUMNS;

    for (int r = 0; r < 3; r++) {
        const double scale = quantise(rows[r], (int)channels, !one_scale, q);

        for (int k = 0; k < 2; k++) {
            const double unit = one_scale || k == 0 ? 0.01 : 0.25;
            double sum = 0;

            for (int c = 0; c < channels; c++)
                sum += q[c] * weight[k * channels + c];
            want[2 * r + k] = sum * scale * unit;
        }
    }
    in[0] = model_float(&m, "x", DIMS(3, 1, 1, channels), NULL);
    in[1] = model_quantised(&m, "w", TFLITE_INT8, 4,
                            depthwise ? (const int64_t[]){1, 1, 1, 2}
                                      : (const int64_t[]){2, 1, 1, channels},
                            weight, 0.01f, 0);
    if (!one_scale) {
        m.tensor[in[1]].n_scales = 2;
        m.tensor[in[1]].scale[1] = 0.25f;
        m.tensor[in[1]].axis = depthwise ? 3 : 0;
    }
    y = model_float(&m, "y", DIMS(3, 1, 1, 2), NULL);
    o = model_op(&m, depthwise ? 4 : 3, in, 2, y);
    model_window(o, 0, 1, depthwise ? 4 : 3, 0);
    if (depthwise)
        model_option(o, 3, 4, 2);
    model_io(&m, in[0], y);
    if (depthwise) {
        const float x[3] = {rows[0][0], rows[1][0], rows[2][0]};

        must_give(&m, true, x, DIMS(3, 1, 1, 1), want, 6);
    } else {
        must_give(&m, true, rows[0], DIMS(3, COLUMNS, 1, 1), want, 6);
    }
}

TEST(test_convolutions)
{
    check_conv(false, false);
    check_conv(false, true);
    check_conv(true, false);
}

/* A recurrent layer is refused, not computed in another way. */
TEST(test_recurrent)
{
    static struct flat f;
    static const float b[1] = {0};
    const struct weights_options options = {.dynamic_range = true};
    struct model m = {.n_ops = 0};
    struct infer_error err = {0};
    struct graph *g = NULL;
    int in[5], y;

    in[0] = model_float(&m, "x", DIMS(1, 3, 1), NULL);
    in[1] = model_quantised(&m, "w", TFLITE_INT8, DIMS(1, 1), weight, 1, 0);
    in[2] = model_quantised(&m, "u", TFLITE_INT8, DIMS(1, 1), weight, 1, 0);
    in[3] = model_float(&m, "b", DIMS(1), b);
    in[4] = model_float(&m, "h", DIMS(1, 1), NULL);
    y = model_float(&m, "y", DIMS(1, 3, 1), NULL);
    model_op(&m, 35, in, 5, y);
    model_io(&m, in[0], y);
    model_write(&m, &f);
    assert_int_equal(read_bytes(f.data, f.bytes, &options, &err, &g),
                     INFER_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "without --dynamic-range"));
    graph_free(must_read(&m));
}

/* UINT8 weights beside floats are bytes with a sign, as TensorFlow reads them,
 * whatever their zero point is. */
TEST(test_bytes)
{
    static const unsigned char w[] = {255, 2, 128, 127};
    static const float x[] = {1, 10}, want[] = {9.5f, 571};
    struct model m = {.n_ops = 0};
    int in[2], y;

    in[0] = model_float(&m, "x", DIMS(1, 2), NULL);
    in[1] = model_quantised(&m, "w", TFLITE_UINT8, DIMS(2, 2), w, 0.5f, 128);
    y = model_float(&m, "y", DIMS(1, 2), NULL);
    model_op(&m, 9, in, 2, y);
    model_io(&m, in[0], y);
    float got[2];
    run_model(must_read(&m), x, DIMS(1, 2), got, 2);
    assert_float_equal(got[0], want[0], 0);
    assert_float_equal(got[1], want[1], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_dense),
        cmocka_unit_test(test_convolutions),
        cmocka_unit_test(test_recurrent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
