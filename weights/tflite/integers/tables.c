/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TensorFlow Lite: functions of integers that its kernels look up.
 *
 * Those of 16 bits have tables of 257 or 513 entries and interpolate in fixed
 * point.  Here the result of each of the 65,536 integers is computed while
 * importing, and looked up at run time.
 */
#include <math.h>

#include "kernels/base/scalar.h"
#include "weights/tflite/tflite.h"

#define INTEGERS 65536
#define HALF     32768
#define STEPS    512

/* ---- looking up ---------------------------------------------------- */

int tflite_look_up(struct tflite_import *im, int x, int64_t low, int table)
{
    int both[2] = {table, -1};
    union graph_attr attr;

    if (low != 0)
        x = tflite_unary(im, x, KERN_LINEAR, 1, (float)-low);
    both[1] = tflite_cast(im, x, INFER_I32);
    tflite_defaults(GRAPH_GATHER, &attr);
    attr.axis.axis = 0;
    return tflite_emit(im, GRAPH_GATHER, &attr, both, 2);
}

/* The same in a table of 65,536 entries, as floats. */
static int look_up_wide(struct tflite_import *im, int x, int64_t low,
                        struct constant *table)
{
    const int t = tflite_add_constant(im, -1, table);

    return tflite_cast(im, tflite_look_up(im, x, low, t), INFER_F32);
}

static struct constant *wide_table(struct tflite_import *im)
{
    const int64_t n = INTEGERS;

    return tflite_constant_new(im, INFER_I16, 1, &n);
}

/* ---- LOGISTIC and TANH --------------------------------------------- */

/* 2^16 / (1 + exp(-i / 24)), less a quarter of what the chord to the next entry
 * is off in its middle. */
static int32_t sigmoid_entry(int i)
{
    double v[3];

    if (i >= 255)
        return 65535;
    for (int k = 0; k < 3; k++)
        v[k] = 65536 / (1 + exp(-(i + 0.5 * k) / 24));
    return (int32_t)floor(v[0] - ((v[0] + v[2]) / 2 - v[1]) / 2 + 0.5);
}

/* x to units of 2^-12 / 3: x m, shifted to the right. */
struct scaled {
    int32_t m;
    int shift;
};

/* Scales are taken for powers of two within a thousandth of the logarithm. */
static struct scaled scaled_of(float scale, int most_left)
{
    const float log2 = logf(scale) * (1.0f / logf(2.0f));
    const int left = 12 + (int)roundf(log2);
    struct scaled s = {0, 0};
    double m = (double)scale * 4096.0 * 3.0;

    if (fabsf(log2 - roundf(log2)) < 1e-3f && left >= 0 && left <= most_left) {
        s.m = 3 << left;
        return s;
    }
    for (; m <= 32767.0 / 2.0 && s.shift <= 30; m *= 2)
        s.shift++;
    s.m = m < 65535 ? (int32_t)m : 65535;
    return s;
}

/* The entry at `bits` more bits than entries have, in between. */
static int64_t between(const int32_t *entry, int64_t x, int bits)
{
    const int64_t at = x >> bits, part = x & ((1 << bits) - 1);

    if (at >= 255)
        return -1;
    return ((int64_t)entry[at] << bits) + part * (entry[at + 1] - entry[at]);
}

static int16_t logistic(const int32_t *entry, int64_t x)
{
    int64_t y = between(entry, x < 0 ? -x : x, 9);

    if (y < 0)
        y = 0x7fff << 10;
    y = x >= 0 ? y + (1 << 9) : (1 << 25) - y + (1 << 9) - 1;
    return (int16_t)(y >> 10);
}

static int16_t hyperbolic(const int32_t *entry, int64_t x)
{
    int64_t y = between(entry, x < 0 ? -x : x, 8);

    if (y < 0)
        y = 0xffff << 8;
    y = x >= 0 ? y - (1 << 23) + (1 << 7) : -y + (1 << 23) + (1 << 7) - 1;
    return (int16_t)(y >> 8);
}

bool tflite_wide_sigmoid(struct tflite_import *im, int kind)
{
    const struct tflite_tensor in = tflite_input_tensor(im, 0);
    const struct tflite_tensor out = tflite_output_tensor(im, 0);
    const bool tanh = kind == KERN_TANH;
    struct constant *table;
    int32_t entry[256];
    struct scaled s;
    int16_t *to;
    bool swapped;
    int x;

    if ((kind != KERN_SIGMOID && !tanh) || in.type != TFLITE_INT16 ||
        out.type != TFLITE_INT16 || !tflite_is_quantised(&in) ||
        !tflite_is_quantised(&out))
        return false;
    im->raw = true;
    s = scaled_of(tflite_quant(im, &in).scale, tanh ? 1 : 0);
    for (int i = 0; i < 256; i++)
        entry[i] = sigmoid_entry(i);
    table = wide_table(im);
    if (!table)
        return true;
    to = (int16_t *)(void *)table->data;
    for (int64_t i = -HALF; i < HALF; i++) {
        const int64_t half = s.shift > 0 ? (int64_t)1 << (s.shift - 1) : 0;
        const int64_t v = (i * s.m + half) >> s.shift;

        to[i + HALF] = tanh ? hyperbolic(entry, v) : logistic(entry, v);
    }
    x = tflite_in_any_order(im, &swapped);
    tflite_out(im, 0, look_up_wide(im, x, -HALF, table), swapped);
    return true;
}

/* ---- SOFTMAX ------------------------------------------------------- */

static double exponential(double x)
{
    return exp(x);
}

static double inverse(double x)
{
    return 1 / (1 + x);
}

/* f over `low` .. `low` + `range` in units of 2^-15, by the kernels' rule: from
 * each entry half of what the chord is off in its middle is taken, in whole
 * units. */
static void fill_steps(double (*f)(double), double low, double range,
                       int32_t *entry)
{
    const double step = range / STEPS, unit = 65536.0 / 2.0;

    for (int i = 0; i <= STEPS; i++) {
        const double v = round(f(low + i * step) * unit);
        const double next = f(low + (i + 1) * step) * unit;
        const double middle = round(f(low + i * step + step / 2) * unit);
        const double off = round((next + v) / 2) - middle;
        const double y =
            i < STEPS ? v - round(off / 2) : round(f(low + range) * unit);

        entry[i] = (int32_t)(y < -HALF ? -HALF : y > HALF - 1 ? HALF - 1 : y);
    }
}

/* Of the numbers low .. low + range, 65,536 of them. */
static struct constant *steps_table(struct tflite_import *im,
                                    double (*f)(double), double low,
                                    double range)
{
    struct constant *c = wide_table(im);
    int32_t entry[STEPS + 1];

    if (!c)
        return NULL;
    fill_steps(f, low, range, entry);
    for (int i = 0; i < INTEGERS; i++) {
        const int32_t *at = entry + (i >> 7);
        const int32_t slope = at[1] - at[0];

        ((int16_t *)(void *)c->data)[i] =
            (int16_t)(at[0] + ((slope * (i & 127) + 64) >> 7));
    }
    return c;
}

static int reduced(struct tflite_import *im, int x, enum kern_reduce_kind kind)
{
    union graph_attr attr;

    if (im->status < 0)
        return -1;
    tflite_defaults(GRAPH_REDUCE, &attr);
    attr.reduce.kind = kind;
    attr.reduce.keep_dims = true;
    attr.reduce.n_axes = 1;
    attr.reduce.axis[0] = tflite_value_type(im, x, 0)->rank - 1;
    return tflite_emit(im, GRAPH_REDUCE, &attr, &x, 1);
}

/* Sum of integers of 15 bits along the last axis, as I32: of their parts above
 * and below 8 bits. */
static int exact_sum(struct tflite_import *im, int x)
{
    struct tflite_halves h = tflite_halves(im, x);

    h.high = reduced(im, h.high, KERN_REDUCE_SUM);
    h.low = reduced(im, h.low, KERN_REDUCE_SUM);
    return tflite_joined(im, &h);
}

/* Powers of two from 2^15 on that are not above a sum of at least 2^14. */
#define POWERS 16

static int powers_below(struct tflite_import *im, int sum)
{
    const int64_t n = POWERS;
    struct constant *c = tflite_constant_new(im, INFER_I32, 1, &n);
    int x;

    for (int i = 0; c && i < POWERS; i++)
        ((int32_t *)(void *)c->data)[i] = (int32_t)1 << (15 + i);
    x = tflite_binary(im, KERN_GREATER_EQUAL, sum,
                      tflite_add_constant(im, -1, c));
    return reduced(im, tflite_cast(im, x, INFER_F32), KERN_REDUCE_SUM);
}

/* Entry i of the table: 2^(first - i), or first - i. */
static int by_powers(struct tflite_import *im, int powers, int first,
                     bool of_two)
{
    const int64_t n = POWERS + 1;
    struct constant *c = tflite_constant_new(im, INFER_I32, 1, &n);

    for (int i = 0; c && i <= POWERS; i++)
        ((int32_t *)(void *)c->data)[i] =
            of_two ? (int32_t)1 << (first - i) : first - i;
    return tflite_look_up(im, powers, 0, tflite_add_constant(im, -1, c));
}

static int requantised(struct tflite_import *im, int x, int multiplier,
                       int shift, int low, int high)
{
    const int in[3] = {x, multiplier, shift};
    union graph_attr attr;

    tflite_defaults(GRAPH_REQUANTIZE, &attr);
    attr.requantize = (struct graph_requantize){
        .requantize = {.low = low, .high = high, .once = true},
        .to = INFER_F32};
    return tflite_emit(im, GRAPH_REQUANTIZE, &attr, in, 3);
}

/* exp(x - max) of 15 bits; their sum 2^14 s, of which s lies between 1 and 2
 * times a power of two; the product with 1 / s. */
bool tflite_wide_softmax(struct tflite_import *im, float beta)
{
    const struct tflite_tensor in = tflite_input_tensor(im, 0);
    const struct tflite_tensor out = tflite_output_tensor(im, 0);
    struct tflite_quant q = {.low = 1 - INTEGERS, .high = 0};
    struct constant *inverses;
    int x, sum, powers, scale;
    double factor;

    if (in.type != TFLITE_INT16 || out.type != TFLITE_INT16 ||
        !tflite_is_quantised(&in) || !tflite_is_quantised(&out))
        return false;
    im->raw = true;
    factor = (double)(tflite_quant(im, &in).scale * beta) / (10.0 / 65535.0);
    if (!(factor > 0)) {
        tflite_fail(im, INFER_EUNSUPPORTED, "beta %g", (double)beta);
        return true;
    }
    x = tflite_in(im, 0, false);
    x = tflite_binary(im, KERN_SUB, x, reduced(im, x, KERN_REDUCE_MAX));
    x = tflite_requantise(im, x, &factor, 1, 0, 2, &q);
    x = look_up_wide(im, x, q.low, steps_table(im, exponential, -10, 10));
    sum = exact_sum(im, x);
    powers = powers_below(im, sum);
    scale = requantised(im, sum, by_powers(im, powers, POWERS, true),
                        tflite_integer(im, 17), INTEGERS, 2 * INTEGERS - 1);
    inverses = steps_table(im, inverse, 0, 1);
    scale = look_up_wide(im, scale, INTEGERS, inverses);
    x = requantised(im, x, tflite_cast(im, scale, INFER_I32),
                    by_powers(im, powers, 17, false), 0, HALF - 1);
    tflite_out(im, 0, x, false);
    return true;
}
