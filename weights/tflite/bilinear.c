/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TensorFlow Lite: RESIZE_BILINEAR of signed integers of 8 bits.  The reference
 * kernel has weights of 10 bits a dimension and rounds their sum of 28 bits
 * once, halves away from zero.  Here a dimension is a product with the matrix
 * of its weights; between the two the integers are split into 10 bits and the
 * rest, so that floats hold every sum.
 */
#include <stdlib.h>

#include "weights/tflite/tflite.h"

#define ONE 1024
/* A matrix larger than this would outweigh what it makes exact. */
#define MOST_WEIGHTS (1 << 20)

/* (to,from): row i has the weights of output i. */
static int matrix(struct tflite_import *im, int64_t from, int64_t to,
                  bool corners, bool centres)
{
    const int64_t dim[2] = {to, from};
    struct constant *c = tflite_constant_new(im, INFER_F32, 2, dim);
    float *w;
    int64_t scale = (ONE * from + to / 2) / to;

    if (!c)
        return -1;
    w = (float *)(void *)c->data;
    if (corners && to > 1)
        scale = (ONE * (from - 1) + (to - 1) / 2) / (to - 1);
    for (int64_t i = 0; i < to * from; i++)
        w[i] = 0;
    for (int64_t i = 0; i < to; i++) {
        const int64_t at = i * scale + (centres ? scale / 2 - ONE / 2 : 0);
        int64_t low = at / ONE, high = (at + ONE - 1) / ONE;

        if (low < 0)
            low = 0;
        if (high > from - 1)
            high = from - 1;
        if (low > high) /* behind the last one */
            low = high;
        w[i * from + low] += (float)(ONE - (at - ONE * low));
        w[i * from + high] += (float)(at - ONE * low);
    }
    return tflite_add_constant(im, -1, c);
}

static int product(struct tflite_import *im, int a, int b, bool transpose_b)
{
    const int in[2] = {a, b};
    union graph_attr attr;

    tflite_defaults(GRAPH_MATMUL, &attr);
    attr.matmul.transpose_b = transpose_b;
    return tflite_emit(im, GRAPH_MATMUL, &attr, in, 2);
}

bool tflite_has_bilinear_integers(struct tflite_import *im,
                                  const struct tflite_tensor *in,
                                  const int64_t *size)
{
    const struct graph_type x = tflite_type(im, 0, 0);

    if (im->status < 0 || in->type != TFLITE_INT8)
        return false;
    for (int i = 1; i <= 2; i++) {
        for (int p = 1; p < im->probes; p++)
            if (tflite_type(im, 0, p).dim[i] != x.dim[i])
                return false;
        if (x.dim[i] < 1 || size[i - 1] > MOST_WEIGHTS / x.dim[i])
            return false;
    }
    return true;
}

int tflite_bilinear_integers(struct tflite_import *im, int x,
                             const struct tflite_quant *q, const int64_t *size,
                             bool corners, bool centres)
{
    const struct graph_type t = tflite_type(im, 0, 0);
    /* Half of a number doubled: the factor 1. */
    const struct tflite_factor one = {1 << 30, 0}, last = {1 << 30, -20};
    struct graph_requantize how = {
        .requantize = {.left = 11, .low = INT32_MIN, .high = INT32_MAX},
        .to = INFER_I32};
    int high, low, rows;

    if (im->status < 0)
        return -1;
    x = tflite_unary(im, x, KERN_LINEAR, 1, (float)q->zero);
    x = product(im, x, matrix(im, t.dim[2], size[1], corners, centres), true);
    high = tflite_unary(im, x, KERN_LINEAR, 1.0f / ONE, 0);
    high = tflite_plain_unary(im, high, KERN_FLOOR);
    low = tflite_unary(im, high, KERN_LINEAR, -ONE, 0);
    low = tflite_binary(im, KERN_ADD, low, x);
    rows = matrix(im, t.dim[1], size[0], corners, centres);
    high = product(im, rows, high, false);
    low = tflite_cast(im, product(im, rows, low, false), INFER_I32);
    x = tflite_multiply(im, high, low, &one, 1, 0, &how);
    how.requantize = (struct kern_requantize){.left = 1,
                                              .low = (int)(q->low + q->zero),
                                              .high = (int)(q->high + q->zero)};
    how.to = INFER_F32;
    x = tflite_multiply(im, x, -1, &last, 1, 0, &how);
    return tflite_unary(im, x, KERN_LINEAR, 1, (float)-q->zero);
}
