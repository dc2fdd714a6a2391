/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TensorFlow Lite: layers whose activations have 16 bits ("16x8").
 *
 * Their kernels sum products in 64 bits, which floats do not hold.  Here an
 * activation is 256 high + low, where low is -128 .. 127, and a layer is two of
 * the same weights; sums of each are exact as those of 8 bits are.  A node
 * requantize of wide sums joins them.
 */
#include <math.h>
#include <stdlib.h>

#include "kernels/base/scalar.h"
#include "weights/tflite/tflite.h"

#define PART 256

struct tflite_halves tflite_halves(struct tflite_import *im, int x)
{
    struct tflite_halves h = {.bits = 8};
    int whole;

    h.high = tflite_unary(im, x, KERN_LINEAR, 1.0f / PART, 0.5f);
    h.high = tflite_plain_unary(im, h.high, KERN_FLOOR);
    whole = tflite_unary(im, h.high, KERN_LINEAR, PART, 0);
    h.low = tflite_binary(im, KERN_SUB, x, whole);
    return h;
}

struct tflite_halves tflite_bias_halves(struct tflite_import *im, int i)
{
    const struct tflite_halves none = {-1, -1, 8};
    const struct constant *c = tflite_fixed(im, i);
    struct constant *to[2];
    struct tflite_halves h = none;

    if (im->status < 0)
        return none;
    if (!c || (c->dtype != INFER_I32 && c->dtype != INFER_I64)) {
        tflite_fail(im, INFER_EUNSUPPORTED, "a bias that is %s",
                    tflite_type_name(tflite_input_tensor(im, i).type));
        return none;
    }
    for (int k = 0; k < 2; k++)
        to[k] = tflite_constant_new(im, k == 0 ? INFER_I32 : INFER_F32, c->rank,
                                    c->dim);
    for (int64_t k = 0; k < constant_count(c) && im->status == 0; k++) {
        const int64_t b = scalar_load_i64(c->dtype, c->data, k);
        const int64_t most = (int64_t)1 << 38;
        int64_t low;

        if (b < -most || b > most) {
            tflite_fail(im, INFER_EUNSUPPORTED, "a bias of %lld", (long long)b);
            break;
        }
        low = (b & (PART - 1)) - (b & (PART / 2) ? PART : 0);
        scalar_store_i64(INFER_I32, to[0]->data, k, (b - low) / PART);
        scalar_store_i64(INFER_F32, to[1]->data, k, low);
    }
    if (im->status < 0) {
        constant_unref(to[0]);
        constant_unref(to[1]);
        return none;
    }
    h.high = tflite_add_constant(im, tflite_input_index(im, i), to[0]);
    h.low = tflite_add_constant(im, -1, to[1]);
    return h;
}

int tflite_integer(struct tflite_import *im, int32_t v)
{
    struct constant *c = tflite_constant_new(im, INFER_I32, 0, NULL);

    if (c)
        *(int32_t *)(void *)c->data = v;
    return tflite_add_constant(im, -1, c);
}

int tflite_joined(struct tflite_import *im, const struct tflite_halves *h)
{
    int x = tflite_cast(im, h->high, INFER_I32);

    x = tflite_binary(im, KERN_MUL, x, tflite_integer(im, PART));
    return tflite_binary(im, KERN_ADD, x, tflite_cast(im, h->low, INFER_I32));
}

int tflite_requantise_wide(struct tflite_import *im,
                           const struct tflite_halves *h, const double *factor,
                           int64_t n, int axis, bool matrix,
                           const struct tflite_quant *q)
{
    const struct graph_requantize how = {.requantize = {.left = h->bits,
                                                        .low = (int)q->low,
                                                        .high = (int)q->high,
                                                        .once = matrix,
                                                        .wide = true},
                                         .to = INFER_F32};
    struct tflite_factor *f;
    int x;

    if (im->status < 0)
        return -1;
    f = calloc((size_t)n + 1, sizeof *f);
    if (!f)
        return tflite_fail(im, INFER_EMEMORY, "out of memory");
    for (int64_t i = 0; i < n; i++) {
        f[i] = tflite_factor(factor[i]);
        if (f[i].shift > 7)
            tflite_fail(im, INFER_EFORMAT, "scales whose quotient is %g",
                        factor[i]);
        /* The kernels keep 15 bits of it, but that of dense layers. */
        if (!matrix)
            f[i].multiplier =
                f[i].multiplier < 0x7fff0000
                    ? (int32_t)((uint32_t)(f[i].multiplier + (1 << 15)) >>
                                16 << 16)
                    : 0x7fff0000;
    }
    x = tflite_multiply(im, h->high, tflite_cast(im, h->low, INFER_I32), f, n,
                        axis, &how);
    free(f);
    return x;
}
