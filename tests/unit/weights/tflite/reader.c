/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TensorFlow Lite reader: networks written by hand against arithmetic
 * that is written out here, in the file's order of axes and, for integers, in
 * the integers of the reference kernels.  files.c has whole files.
 */
#include <math.h>
#include <stdio.h>

#include "tests/unit/weights/tflite/model.h"

/* ---- orders of axes ------------------------------------------------ */

static void to_planes(const float *x, int n, int h, int w, int c, float *y)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < c; k++)
            for (int p = 0; p < h * w; p++)
                y[(i * c + k) * h * w + p] = x[(i * h * w + p) * c + k];
}

static void assert_close(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(a[i] - b[i]) <= 1e-5f * (1 + fabsf(b[i]))))
            fail_msg("element %zu is %g, %g is due", i, (double)a[i],
                     (double)b[i]);
}

/* Pads before, of "same" padding. */
static int pad_before(int in, int window, int stride)
{
    const int out = (in + stride - 1) / stride;
    const int pads = (out - 1) * stride + window - in;

    return pads > 0 ? pads / 2 : 0;
}

/* ---- floats -------------------------------------------------------- */

#define H 7
#define W 6
#define C 3
#define K 4

/* Convolution 3x3, "same", stride 2, relu6; N,H,W,C in and out. */
static void conv_by_hand(const float *x, const float *w, const float *b,
                         int depth, float *y)
{
    const int oh = 4, ow = 3, top = pad_before(H, 3, 2),
              left = pad_before(W, 3, 2), outputs = depth ? 2 * C : K;

    for (int i = 0; i < oh * ow * outputs; i++) {
        const int k = i % outputs, q = i / outputs % ow, p = i / outputs / ow;
        double sum = (double)b[k];
        for (int r = 0; r < 3; r++)
            for (int s = 0; s < 3; s++) {
                const int u = 2 * p + r - top, v = 2 * q + s - left;
                if (u < 0 || u >= H || v < 0 || v >= W)
                    continue;
                for (int c = 0; c < C; c++) {
                    if (depth && c != k / 2)
                        continue;
                    sum += (double)x[(u * W + v) * C + c] *
                           (double)(depth ? w[(r * 3 + s) * 2 * C + k]
                                          : w[((k * 3 + r) * 3 + s) * C + c]);
                }
            }
        y[i] = (float)fmin(fmax(sum, 0), 6);
    }
}

static void conv_model(struct model *m, const float *w, const float *b,
                       bool depth)
{
    const int x = model_float(m, "x", DIMS(1, H, W, C), NULL);
    const int k = depth ? 2 * C : K;
    const int weight = depth ? model_float(m, "w", DIMS(1, 3, 3, 2 * C), w)
                             : model_float(m, "w", DIMS(K, 3, 3, C), w);
    const int bias = model_float(m, "b", DIMS(k), b);
    const int y = model_float(m, "y", DIMS(1, 4, 3, k), NULL);
    struct model_op *o = model_op(m, depth ? 4 : 3, IN(x, weight, bias), y);

    model_window(o, 0, 2, depth ? 4 : 3, TFLITE_RELU6);
    model_io(m, x, y);
}

static void check_conv(bool depth)
{
    const int k = depth ? 2 * C : K;
    float x[H * W * C], xp[H * W * C], w[K * 9 * C], b[2 * C];
    float y[12 * 6], want[12 * 6], wp[12 * 6];
    struct model m = {.n_ops = 0};
    struct graph *g;

    fill(x, H * W * C, 1);
    fill(w, K * 9 * C, 2);
    fill(b, 2 * C, 3);
    conv_model(&m, w, b, depth);
    g = must_read(&m);
    assert_int_equal(count_op(g, GRAPH_TRANSPOSE), 0);
    to_planes(x, 1, H, W, C, xp);
    run_model(g, xp, DIMS(1, C, H, W), y, (size_t)(12 * k));
    conv_by_hand(x, w, b, depth, want);
    to_planes(want, 1, 4, 3, k, wp);
    assert_close(y, wp, (size_t)(12 * k));
}

TEST(test_conv)
{
    check_conv(false);
}

TEST(test_depthwise)
{
    check_conv(true);
}

/* The batch of 1 is free: two pictures give what each gives. */
TEST(test_batch)
{
    float w[K * 9 * C], b[K], x[2 * C * H * W], y[2 * K * 12], one[K * 12];
    struct model m = {.n_ops = 0};
    struct graph *g;

    fill(w, K * 9 * C, 2);
    fill(b, K, 3);
    fill(x, 2 * C * H * W, 4);
    conv_model(&m, w, b, false);
    g = must_read(&m);
    assert_int_equal(g->value[g->input[0]].dim[0], -1);
    run_model(graph_copy(g), x, DIMS(2, C, H, W), y, 2 * K * 12);
    run_model(g, x + C * H * W, DIMS(1, C, H, W), one, K * 12);
    assert_close(y + K * 12, one, K * 12);
}

/* Average pooling leaves padding out of its count; a dense layer after it sees
 * the file's order of elements. */
TEST(test_pool_and_dense)
{
    float x[5 * 5 * 2], xp[50], w[3 * 18], pooled[18], want[3], y[3];
    const int32_t shape[2] = {1, 18};
    struct model m = {.n_ops = 0};
    struct model_op *o;
    int v[6];

    fill(x, 50, 5);
    fill(w, 54, 6);
    v[0] = model_float(&m, "x", DIMS(1, 5, 5, 2), NULL);
    v[1] = model_float(&m, "pooled", DIMS(1, 3, 3, 2), NULL);
    v[2] = model_ints(&m, "shape", DIMS(2), shape);
    v[3] = model_float(&m, "flat", DIMS(1, 18), NULL);
    v[4] = model_float(&m, "w", DIMS(3, 18), w);
    v[5] = model_float(&m, "y", DIMS(1, 3), NULL);
    o = model_op(&m, 1, IN(v[0]), v[1]);
    model_window(o, 0, 2, 5, TFLITE_NONE);
    model_option(o, 3, 4, 3);
    model_option(o, 4, 4, 3);
    model_op(&m, 22, IN(v[1], v[2]), v[3]);
    model_op(&m, 9, IN(v[3], v[4], -1), v[5]);
    model_io(&m, v[0], v[5]);
    for (int i = 0; i < 18; i++) {
        const int c = i % 2, q = i / 2 % 3, p = i / 6;
        double sum = 0;
        int n = 0;
        for (int u = 2 * p - 1; u <= 2 * p + 1; u++)
            for (int s = 2 * q - 1; s <= 2 * q + 1; s++)
                if (u >= 0 && u < 5 && s >= 0 && s < 5) {
                    sum += (double)x[(u * 5 + s) * 2 + c];
                    n++;
                }
        pooled[i] = (float)(sum / n);
    }
    for (int k = 0; k < 3; k++) {
        want[k] = 0;
        for (int i = 0; i < 18; i++)
            want[k] += pooled[i] * w[k * 18 + i];
    }
    to_planes(x, 1, 5, 5, 2, xp);
    run_model(must_read(&m), xp, DIMS(1, 2, 5, 5), y, 3);
    assert_close(y, want, 3);
}

/* SHAPE, STRIDED_SLICE, PACK and RESHAPE leave one reshape, for any batch. */
TEST(test_shape_arithmetic)
{
    const int32_t zero = 0, one = 1, six = 6;
    float x[18], y[18];
    struct model m = {.n_ops = 0};
    struct model_op *o;
    struct graph *g;
    int v[9];

    fill(x, 18, 7);
    v[0] = model_float(&m, "x", DIMS(1, 2, 3), NULL);
    v[1] = model_ints(&m, "shape", DIMS(3), NULL);
    v[2] = model_ints(&m, "zero", DIMS(1), &zero);
    v[3] = model_ints(&m, "one", DIMS(1), &one);
    v[4] = model_add(&m, "batch", TFLITE_INT32, 0, NULL, NULL);
    v[5] = model_add(&m, "six", TFLITE_INT32, 0, NULL, &six);
    v[6] = model_ints(&m, "target", DIMS(2), NULL);
    v[7] = model_float(&m, "y", DIMS(1, 6), NULL);
    model_op(&m, 77, IN(v[0]), v[1]);
    o = model_op(&m, 45, IN(v[1], v[2], v[3], v[3]), v[4]);
    model_option(o, 4, 4, 1); /* shrinks axis 0 */
    o = model_op(&m, 83, IN(v[4], v[5]), v[6]);
    model_option(o, 0, 4, 2);
    model_op(&m, 22, IN(v[0], v[6]), v[7]);
    model_io(&m, v[0], v[7]);
    g = must_read(&m);
    assert_int_equal(g->n_nodes, 1);
    assert_int_equal(g->node[0].op, GRAPH_RESHAPE);
    run_model(g, x, DIMS(3, 2, 3), y, 18);
    assert_close(y, x, 18);
}

/* A new shape of one row: its entries are the sizes, as in a list. */
TEST(test_shape_of_one_row)
{
    const int32_t shape[3] = {1, 3, 2};
    float x[6], y[6];
    struct model m = {.n_ops = 0};
    struct graph *g;
    int v[3];

    fill(x, 6, 7);
    v[0] = model_float(&m, "x", DIMS(1, 6), NULL);
    v[1] = model_ints(&m, "shape", DIMS(1, 3), shape);
    v[2] = model_float(&m, "y", DIMS(1, 3, 2), NULL);
    model_op(&m, 22, IN(v[0], v[1]), v[2]);
    model_io(&m, v[0], v[2]);
    g = must_read(&m);
    run_model(g, x, DIMS(1, 6), y, 6);
    assert_close(y, x, 6);
}

/* Weights of 16 bits behind DEQUANTIZE, and of 8 bits with a scale a row. */
TEST(test_small_weights)
{
    const uint16_t half[4] = {0x3c00, 0xc000, 0x3800, 0x4200}; /* 1 -2 .5 3 */
    const int8_t eight[4] = {10, -20, 30, 127};
    const float x[2] = {2, 1};
    struct model m = {.n_ops = 0};
    float y[2];
    int v[5];

    v[0] = model_float(&m, "x", DIMS(1, 2), NULL);
    v[1] = model_add(&m, "half", TFLITE_FLOAT16, DIMS(2, 2), half);
    v[2] = model_float(&m, "w", DIMS(2, 2), NULL);
    v[3] = model_float(&m, "y", DIMS(1, 2), NULL);
    model_op(&m, 6, IN(v[1]), v[2]);
    model_op(&m, 9, IN(v[0], v[2], -1), v[3]);
    model_io(&m, v[0], v[3]);
    run_model(must_read(&m), x, DIMS(1, 2), y, 2);
    assert_close(y, (const float[]){0, 4}, 2);

    m = (struct model){.n_ops = 0};
    v[0] = model_float(&m, "x", DIMS(1, 2), NULL);
    v[1] = model_quantised(&m, "w", TFLITE_INT8, DIMS(2, 2), eight, 0.5f, 0);
    m.tensor[v[1]].n_scales = 2;
    m.tensor[v[1]].scale[1] = 0.25f;
    v[2] = model_float(&m, "y", DIMS(1, 2), NULL);
    model_op(&m, 9, IN(v[0], v[1], -1), v[2]);
    model_io(&m, v[0], v[2]);
    run_model(must_read(&m), x, DIMS(1, 2), y, 2);
    assert_close(y, (const float[]){0, 46.75f}, 2);
}

/* A file that turns planes into N,H,W,C and back: its input stays planes, and
 * no transpose is left. */
TEST(test_planar)
{
    const int32_t in[4] = {0, 2, 3, 1}, back[4] = {0, 3, 1, 2};
    struct model m = {.n_ops = 0};
    struct graph *g;
    int v[6];

    v[0] = model_float(&m, "x", DIMS(1, 3, 8, 9), NULL);
    v[1] = model_ints(&m, "in", DIMS(4), in);
    v[2] = model_float(&m, "pixels", DIMS(1, 8, 9, 3), NULL);
    v[3] = model_float(&m, "pooled", DIMS(1, 4, 5, 3), NULL);
    v[4] = model_ints(&m, "back", DIMS(4), back);
    v[5] = model_float(&m, "y", DIMS(1, 3, 4, 5), NULL);
    model_op(&m, 39, IN(v[0], v[1]), v[2]);
    model_window(model_op(&m, 17, IN(v[2]), v[3]), 0, 2, 5, 0);
    model_option(&m.op[1], 3, 4, 2);
    model_option(&m.op[1], 4, 4, 2);
    model_op(&m, 39, IN(v[3], v[4]), v[5]);
    model_io(&m, v[0], v[5]);
    g = must_read(&m);
    assert_int_equal(g->n_nodes, 1);
    assert_int_equal(g->value[g->input[0]].dim[1], 3);
    assert_int_equal(g->value[g->output[0]].dim[3], 5);
    graph_free(g);
}

/* Half-way cases of each rule for nearest and bilinear resizing, against the
 * reference kernels' formulas. */
static void check_resize(int code, bool corners, bool centres)
{
    const int first = code == 23 ? 2 : 0;
    const int32_t size[2] = {1, 7};
    const float x[4] = {0, 10, 40, 90};
    struct model m = {.n_ops = 0};
    struct model_op *o;
    float want[7], y[7];
    int v[3];

    v[0] = model_float(&m, "x", DIMS(1, 1, 4, 1), NULL);
    v[1] = model_ints(&m, "size", DIMS(2), size);
    v[2] = model_float(&m, "y", DIMS(1, 1, 7, 1), NULL);
    o = model_op(&m, code, IN(v[0], v[1]), v[2]);
    model_option(o, first, 1, corners);
    model_option(o, first + 1, 1, centres);
    model_io(&m, v[0], v[2]);
    for (int i = 0; i < 7; i++) {
        const float scale = corners ? 3.0f / 6.0f : 4.0f / 7.0f;
        const float at = code == 97
                             ? ((float)i + (centres ? 0.5f : 0.0f)) * scale
                         : centres ? ((float)i + 0.5f) * scale - 0.5f
                                   : (float)i * scale;
        if (code == 97) {
            const int k = (int)(corners ? roundf(at) : floorf(at));
            want[i] = x[k < 3 ? k : 3];
        } else {
            const int low = (int)fmaxf(floorf(at), 0);
            const int high = (int)fminf(ceilf(at), 3);
            const float part = at - floorf(at);
            want[i] = at < 0
                          ? x[0]
                          : x[low < 3 ? low : 3] * (1 - part) + x[high] * part;
        }
    }
    run_model(must_read(&m), x, DIMS(1, 1, 1, 4), y, 7);
    assert_close(y, want, 7);
}

TEST(test_resize)
{
    for (int code = 23; code <= 97; code += 97 - 23) {
        check_resize(code, false, false);
        check_resize(code, true, false);
        check_resize(code, false, true);
    }
}

/* Channels of a picture joined, padded, cut and averaged: the file's axes. */
TEST(test_axes)
{
    const int32_t pads[8] = {0, 0, 1, 0, 0, 2, 0, 0}, axes[2] = {1, 2};
    const int32_t begin[4] = {0, 1, 0, 1}, size[4] = {-1, 2, 3, 4};
    float x[12], xp[12], y[4], want[4];
    struct model m = {.n_ops = 0};
    struct model_op *o;
    int v[9];

    fill(x, 12, 8);
    v[0] = model_float(&m, "x", DIMS(1, 2, 2, 3), NULL);
    v[1] = model_float(&m, "joined", DIMS(1, 2, 2, 6), NULL);
    v[2] = model_ints(&m, "pads", DIMS(4, 2), pads);
    v[3] = model_float(&m, "padded", DIMS(1, 3, 4, 6), NULL);
    v[4] = model_ints(&m, "begin", DIMS(4), begin);
    v[5] = model_ints(&m, "size", DIMS(4), size);
    v[6] = model_float(&m, "cut", DIMS(1, 2, 3, 4), NULL);
    v[7] = model_ints(&m, "axes", DIMS(2), axes);
    v[8] = model_float(&m, "y", DIMS(1, 4), NULL);
    o = model_op(&m, 2, IN(v[0], v[0]), v[1]);
    model_option(o, 0, 4, (uint32_t)-1);
    model_op(&m, 34, IN(v[1], v[2]), v[3]);
    model_op(&m, 65, IN(v[3], v[4], v[5]), v[6]);
    model_op(&m, 40, IN(v[6], v[7]), v[8]);
    model_io(&m, v[0], v[8]);
    for (int k = 0; k < 4; k++) {
        want[k] = 0;
        for (int p = 0; p < 4; p++)
            want[k] += x[p * 3 + (k + 1) % 3] / 6;
    }
    to_planes(x, 1, 2, 2, 3, xp);
    run_model(must_read(&m), xp, DIMS(1, 3, 2, 2), y, 4);
    assert_close(y, want, 4);
}

/* Two layers with one tensor of weights have one constant. */
TEST(test_shared_weights)
{
    const float w[4] = {1, 2, 3, 4}, x[2] = {1, 10};
    struct model m = {.n_ops = 0};
    struct graph *g;
    int v[4], constants = 0;
    float y[2];

    v[0] = model_float(&m, "x", DIMS(1, 2), NULL);
    v[1] = model_float(&m, "w", DIMS(2, 2), w);
    v[2] = model_float(&m, "h", DIMS(1, 2), NULL);
    v[3] = model_float(&m, "y", DIMS(1, 2), NULL);
    model_op(&m, 9, IN(v[0], v[1], -1), v[2]);
    model_op(&m, 9, IN(v[2], v[1], -1), v[3]);
    model_io(&m, v[0], v[3]);
    g = must_read(&m);
    for (int i = 0; i < g->n_values; i++)
        constants += g->value[i].data != NULL;
    assert_int_equal(constants, 1);
    run_model(g, x, DIMS(1, 2), y, 2);
    assert_close(y, (const float[]){107, 235}, 2);
}

/* ---- integers ------------------------------------------------------ */

/* gemmlowp's fixed-point arithmetic, as the reference kernels use it. */
static int32_t high_mul(int32_t a, int32_t b)
{
    const int64_t ab = (int64_t)a * b;
    const int64_t nudge = ab >= 0 ? 1 << 30 : 1 - (1 << 30);

    return (int32_t)((ab + nudge) / ((int64_t)1 << 31));
}

static int32_t divide_by_power(int32_t x, int exponent)
{
    const int32_t mask = (int32_t)(((int64_t)1 << exponent) - 1);
    const int32_t rest = x & mask, half = (mask >> 1) + (x < 0);

    return (x >> exponent) + (rest > half);
}

/* once: a single rounding, as the kernels of fully connected layers do. */
static int32_t requantised(int32_t sum, double factor, bool once)
{
    int exponent;
    const double m = frexp(factor, &exponent);
    const int32_t fixed = (int32_t)round(m * 2147483648.0);
    const int shift = 31 - exponent;

    assert_true(exponent <= 0);
    if (once)
        return (int32_t)(((int64_t)sum * fixed + ((int64_t)1 << (shift - 1))) >>
                         shift);
    return divide_by_power(high_mul(sum, fixed), -exponent);
}

static int clip(int v, int low, int high)
{
    return v < low ? low : v > high ? high : v;
}

/* 1x1 convolution or dense layer of integers, act with or without relu: all
 * but a few in a thousand equal, those off by 1. */
static void check_sums(int type, bool dense, int act)
{
    enum { N = 400, IN = 24, OUT = 8 };
    static float x[N * IN], xp[N * IN], y[N * OUT], yp[N * OUT];
    const bool sign = type == TFLITE_INT8;
    const int low = sign ? -128 : 0, high = sign ? 127 : 255;
    const int zx = sign ? -3 : 121, zy = sign ? 5 : 100, zw = sign ? 0 : 130;
    const float sx = 0.0123f, sy = 0.0457f;
    int8_t w[OUT * IN];
    int32_t b[OUT];
    struct model m = {.n_ops = 0};
    struct model_op *o;
    uint32_t state = 9;
    int v[4], off = 0;

    for (int i = 0; i < OUT * IN; i++)
        w[i] = (int8_t)(draw(&state) % 255);
    for (int i = 0; i < OUT; i++)
        b[i] = (int32_t)(draw(&state) % 4001) - 2000;
    for (int i = 0; i < N * IN; i++)
        x[i] = (float)(low + (int)(draw(&state) % 256));
    v[0] =
        dense ? model_quantised(&m, "x", type, DIMS(1, IN), NULL, sx, zx)
              : model_quantised(&m, "x", type, DIMS(1, N, 1, IN), NULL, sx, zx);
    v[1] = dense ? model_quantised(&m, "w", type, DIMS(OUT, IN), w, 0.011f, zw)
                 : model_quantised(&m, "w", type, DIMS(OUT, 1, 1, IN), w,
                                   0.011f, zw);
    if (sign && !dense) {
        m.tensor[v[1]].n_scales = OUT;
        for (int i = 0; i < OUT; i++)
            m.tensor[v[1]].scale[i] = 0.003f * (float)(i + 1);
    }
    v[2] = model_ints(&m, "b", DIMS(OUT), b);
    v[3] = dense ? model_quantised(&m, "y", type, DIMS(1, OUT), NULL, sy, zy)
                 : model_quantised(&m, "y", type, DIMS(1, N, 1, OUT), NULL, sy,
                                   zy);
    o = model_op(&m, dense ? 9 : 3, (int[]){v[0], v[1], v[2]}, 3, v[3]);
    if (dense)
        model_option(o, 0, 1, (uint64_t)act);
    else
        model_window(o, 1, 1, 3, act);
    model_io(&m, v[0], v[3]);
    if (dense) {
        run_model(must_read(&m), x, DIMS(N, IN), y, N * OUT);
    } else {
        to_planes(x, 1, N, 1, IN, xp);
        run_model(must_read(&m), xp, (int)4, (int64_t[]){1, IN, N, 1}, yp,
                  N * OUT);
        for (int i = 0; i < N * OUT; i++)
            y[i] = yp[i % OUT * N + i / OUT];
    }
    for (int i = 0; i < N * OUT; i++) {
        const int k = i % OUT;
        const double sw =
            (double)(m.tensor[v[1]].n_scales > 1 ? m.tensor[v[1]].scale[k]
                                                 : m.tensor[v[1]].scale[0]);
        int32_t sum = b[k];
        int want;
        for (int c = 0; c < IN; c++)
            sum += ((int)x[i / OUT * IN + c] - zx) *
                   ((sign ? w[k * IN + c] : (uint8_t)w[k * IN + c]) - zw);
        want = zy + requantised(sum, (double)sx * sw / (double)sy, dense);
        want = clip(want, act == TFLITE_RELU ? zy : low, high);
        if ((int)y[i] != want) {
            off++;
            if (fabsf(y[i] - (float)want) > 1)
                fail_msg("element %d is %g, %d is due", i, (double)y[i], want);
        }
    }
    if (off > N * OUT / 1000)
        fail_msg("%d of %d are off by 1", off, N * OUT);
}

TEST(test_integer_sums)
{
    for (int dense = 0; dense < 2; dense++) {
        check_sums(TFLITE_INT8, dense, TFLITE_NONE);
        check_sums(TFLITE_INT8, dense, TFLITE_RELU);
        check_sums(TFLITE_UINT8, dense, TFLITE_NONE);
        check_sums(TFLITE_UINT8, dense, TFLITE_RELU);
    }
}

/* The mean of integers is rounded from zero, on the integers of the file. */
TEST(test_integer_average)
{
    const float x[8] = {-128, -127, 3, 4, 5, 6, -7, -8};
    struct model m = {.n_ops = 0};
    float y[4];
    int v[2];

    v[0] = model_quantised(&m, "x", TFLITE_INT8, DIMS(1, 1, 8, 1), NULL, 0.1f,
                           -20);
    v[1] = model_quantised(&m, "y", TFLITE_INT8, DIMS(1, 1, 4, 1), NULL, 0.1f,
                           -20);
    model_window(model_op(&m, 1, IN(v[0]), v[1]), 1, 2, 5, 0);
    model_option(&m.op[0], 3, 4, 2);
    model_option(&m.op[0], 4, 4, 1);
    model_io(&m, v[0], v[1]);
    run_model(must_read(&m), x, DIMS(1, 1, 1, 8), y, 4);
    assert_close(y, (const float[]){-128, 4, 6, -8}, 4);
}

/* 24/49 above a large integer is below a half. */
TEST(test_integer_average_below_half)
{
    float x[49], y[1];
    struct model m = {.n_ops = 0};
    int v[2];

    for (int i = 0; i < 49; i++)
        x[i] = i < 24 ? 251 : 250;
    v[0] =
        model_quantised(&m, "x", TFLITE_UINT8, DIMS(1, 7, 7, 1), NULL, 0.1f, 0);
    v[1] =
        model_quantised(&m, "y", TFLITE_UINT8, DIMS(1, 1, 1, 1), NULL, 0.1f, 0);
    model_window(model_op(&m, 1, IN(v[0]), v[1]), 1, 7, 5, 0);
    model_option(&m.op[0], 3, 4, 7);
    model_option(&m.op[0], 4, 4, 7);
    model_io(&m, v[0], v[1]);
    run_model(must_read(&m), x, DIMS(1, 1, 7, 7), y, 1);
    assert_true(y[0] == 250);
}

/* What the reference kernel gives for some integers of 8 bits, scales 0.047
 * and 0.0314: computed by TensorFlow 2.21.0. */
TEST(test_integer_hard_swish)
{
    static const float x[16] = {-128, -100, -77, -61, -60, -48, -33, -20,
                                -7,   0,    3,   4,   15,  40,  77,  127};
    static const float want[16] = {-100, -100, -100, -100, -101, -108,
                                   -112, -111, -106, -102, -100, -99,
                                   -89,  -56,  11,   86};
    struct model m = {.n_ops = 0};
    float y[16];
    int v[2];

    v[0] = model_quantised(&m, "x", TFLITE_INT8, DIMS(1, 16), NULL, 0.047f, 3);
    v[1] =
        model_quantised(&m, "y", TFLITE_INT8, DIMS(1, 16), NULL, 0.0314f, -100);
    model_op(&m, 117, IN(v[0]), v[1]);
    model_io(&m, v[0], v[1]);
    run_model(must_read(&m), x, DIMS(1, 16), y, 16);
    for (int i = 0; i < 16; i++)
        assert_int_equal((int)y[i], (int)want[i]);
}

/* Two constants joined by code to one output, element by element. */
static void pair(int code, float sa, float sb, float sy, int *off, int *most)
{
    enum { N = 512 };
    static float x[N], y[N];
    int8_t other[N];
    const int za = 4, zb = -9, zy = -3;
    struct model m = {.n_ops = 0};
    uint32_t state = 17;
    int v[3];

    *off = *most = 0;
    for (int i = 0; i < N; i++) {
        x[i] = (float)((int)(draw(&state) % 256) - 128);
        other[i] = (int8_t)(draw(&state) % 256);
    }
    v[0] = model_quantised(&m, "a", TFLITE_INT8, DIMS(1, N), NULL, sa, za);
    v[1] = model_quantised(&m, "b", TFLITE_INT8, DIMS(1, N), other, sb, zb);
    v[2] = model_quantised(&m, "y", TFLITE_INT8, DIMS(1, N), NULL, sy, zy);
    model_op(&m, code, IN(v[0], v[1]), v[2]);
    model_io(&m, v[0], v[2]);
    run_model(must_read(&m), x, DIMS(1, N), y, N);
    for (int i = 0; i < N; i++) {
        const int32_t a = (int32_t)x[i] - za, b = other[i] - zb;
        int want;
        if (code == 18) {
            want = zy + requantised(a * b, (double)sa * sb / sy, false);
        } else {
            const double top = 2 * fmax((double)sa, (double)sb);
            const int32_t p = requantised(a * (1 << 20), sa / top, false);
            const int32_t q = requantised(b * (1 << 20), sb / top, false);
            want =
                zy + requantised(p + q, top / ((1 << 20) * (double)sy), false);
        }
        want = clip(want, -128, 127);
        *off += want != (int)y[i];
        if (abs(want - (int)y[i]) > *most)
            *most = abs(want - (int)y[i]);
    }
}

TEST(test_integer_pairs)
{
    int off, most;

    pair(18, 0.02f, 0.03f, 0.05f, &off, &most);
    assert_true(most <= 1 && off <= 1);
    pair(0, 0.021f, 0.0312f, 0.0477f, &off, &most);
    assert_true(most <= 1 && off <= 1);
}

/* ---- refusals ------------------------------------------------------ */

/* One line a cause, with its count; what follows a refused operator is not
 * listed. */
TEST(test_refusals)
{
    struct model m = {.n_ops = 0};
    struct infer_error err = {0};
    static struct flat f;
    struct graph *g = NULL;
    int v[5];

    for (int i = 0; i < 5; i++) {
        static const char *const names[] = {"x", "a", "b", "c", "y"};
        v[i] = model_float(&m, names[i], DIMS(1, 4), NULL);
    }
    model_op(&m, 103, IN(v[0]), v[1]);
    model_op(&m, 103, IN(v[0]), v[2]);
    model_op(&m, 32, IN(v[0]), v[3])->custom = "Detect";
    model_op(&m, 0, IN(v[1], v[2]), v[4]);
    model_io(&m, v[0], v[4]);
    model_write(&m, &f);
    assert_true(read_bytes(f.data, f.bytes, NULL, &err, &g) ==
                INFER_EUNSUPPORTED);
    assert_non_null(strstr(err.text,
                           "UNIQUE 'a': the operator is not supported "
                           "(and 1 more)"));
    assert_non_null(strstr(err.text, "CUSTOM Detect 'c'"));
    assert_null(strstr(err.text, "ADD"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conv),
        cmocka_unit_test(test_depthwise),
        cmocka_unit_test(test_batch),
        cmocka_unit_test(test_pool_and_dense),
        cmocka_unit_test(test_shape_arithmetic),
        cmocka_unit_test(test_shape_of_one_row),
        cmocka_unit_test(test_small_weights),
        cmocka_unit_test(test_planar),
        cmocka_unit_test(test_resize),
        cmocka_unit_test(test_axes),
        cmocka_unit_test(test_shared_weights),
        cmocka_unit_test(test_integer_sums),
        cmocka_unit_test(test_integer_average),
        cmocka_unit_test(test_integer_average_below_half),
        cmocka_unit_test(test_integer_hard_swish),
        cmocka_unit_test(test_integer_pairs),
        cmocka_unit_test(test_refusals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
