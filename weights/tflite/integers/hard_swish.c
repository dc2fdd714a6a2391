/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TensorFlow Lite: HARD_SWISH.  Of integers of 8 bits the reference kernel
 * computes in fixed point of 16 bits, whose roundings no formula on floats
 * repeats: the result of each of the 256 integers is computed here, and looked
 * up at run time.
 */
#include <math.h>

#include "weights/tflite/tflite.h"

#define INTEGERS 256
#define TOP      INT16_MAX

/* m 2^(exponent - 15), where m is below 2^15. */
struct fixed {
    int32_t m;
    int exponent;
};

static struct fixed fixed_of(double v)
{
    struct fixed f = {0, 0};
    int64_t wide;

    wide = llround(ldexp(frexp(v, &f.exponent), 31));
    if (wide == (int64_t)1 << 31) {
        wide /= 2;
        f.exponent++;
    }
    if (f.exponent < -31)
        f = (struct fixed){0, 0};
    else
        f.m = wide >= INT32_MAX - (1 << 15)
                  ? TOP
                  : (int32_t)((wide + (1 << 15)) >> 16);
    return f;
}

static int32_t saturated(int64_t v)
{
    return (int32_t)(v > TOP ? TOP : v < -TOP - 1 ? -TOP - 1 : v);
}

/* a b / 2^15, rounded or cut off toward zero. */
static int32_t high_product(int32_t a, int32_t b, bool rounded)
{
    const int64_t ab = (int64_t)a * b;
    const int32_t half = !rounded ? 0 : ab >= 0 ? 1 << 14 : 1 - (1 << 14);

    return saturated((ab + half) / (1 << 15));
}

/* x / 2^n to the nearest integer, halves away from zero. */
static int32_t divide(int32_t x, int n)
{
    const double v = ldexp((double)x, -n);

    return (int32_t)(v < 0 ? -floor(-v + 0.5) : floor(v + 0.5));
}

/* The result less its zero point, of an integer less its own. */
static int64_t result(int64_t x, struct fixed gate, struct fixed scale,
                      const struct tflite_quant *to)
{
    const int32_t fine = saturated(x * 128);
    const int32_t scaled = high_product(fine, scale.m, true);
    int32_t g = fine;
    int64_t y;

    if (gate.exponent > 0) {
        const int by = gate.exponent > 16 ? 15 : gate.exponent - 1;

        g = saturated(g * ((int64_t)1 << by));
    }
    g = high_product(g, gate.m, true);
    if (gate.exponent > 0)
        g = saturated((int64_t)g * 2);
    else
        g = divide(g, -gate.exponent);
    g = (g + (1 << 15)) >> 1;
    y = high_product(g, scaled, false);
    if (scale.exponent <= 0)
        y = divide((int32_t)y, -scale.exponent);
    else
        y *= (int64_t)1 << (scale.exponent > 16 ? 16 : scale.exponent);
    return y < to->low ? to->low : y > to->high ? to->high : y;
}

static void by_table(struct tflite_import *im, const struct tflite_tensor *in,
                     const struct tflite_tensor *out)
{
    const struct tflite_quant from = tflite_quant(im, in);
    const struct tflite_quant to = tflite_quant(im, out);
    const float fine = from.scale / 128;
    float table[INTEGERS];
    bool swapped;
    int x;

    if (im->status < 0)
        return;
    im->raw = true;
    for (int i = 0; i < INTEGERS; i++)
        table[i] = (float)result(from.low + i,
                                 fixed_of((double)(fine / (3.0f / 32768.0f))),
                                 fixed_of((double)(fine / to.scale)), &to);
    x = tflite_in_any_order(im, &swapped);
    x = tflite_look_up(im, x, from.low, tflite_vector(im, table, INTEGERS));
    tflite_out(im, 0, x, swapped);
}

void tflite_import_hard_swish(struct tflite_import *im, int param)
{
    struct tflite_tensor in, out;
    bool swapped;
    int x;

    (void)param;
    if (!tflite_arity(im, 1, 1))
        return;
    in = tflite_input_tensor(im, 0);
    out = tflite_output_tensor(im, 0);
    if (in.type == out.type &&
        (in.type == TFLITE_INT8 || in.type == TFLITE_UINT8) &&
        tflite_is_quantised(&in) && tflite_is_quantised(&out)) {
        by_table(im, &in, &out);
        return;
    }
    x = tflite_in_any_order(im, &swapped);
    tflite_out(im, 0, tflite_plain_unary(im, x, KERN_HARD_SWISH), swapped);
}
