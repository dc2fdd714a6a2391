/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TensorFlow Lite: quantised tensors, q = round(x / s) + z.
 *
 * Sums of products of whole numbers are exact in single precision up to 2^24.
 * What follows a sum is the arithmetic of the reference kernels in fixed point,
 * with factors of 31 bits, as nodes requantize.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/scalar.h"
#include "weights/tflite/tflite.h"

/* The graph rounds halves to even.  A factor this far above 1 makes them more
 * than halves, and is too small to move anything else that lies within the
 * range of a quantised number. */
#define AWAY (1.0f + 0x1p-21f)

bool tflite_is_quantised(const struct tflite_tensor *t)
{
    return t->scale.count > 0 &&
           (t->type == TFLITE_INT8 || t->type == TFLITE_UINT8 ||
            t->type == TFLITE_INT16);
}

static bool good_scale(float s)
{
    return s > 1e-12f && s < 1e12f; /* their products are finite */
}

struct tflite_quant tflite_quant(struct tflite_import *im,
                                 const struct tflite_tensor *t)
{
    struct tflite_quant q = {1, 0, -1, 1};
    const int64_t low = t->type == TFLITE_INT8    ? -128
                        : t->type == TFLITE_UINT8 ? 0
                                                  : -32768;
    const int64_t high = t->type == TFLITE_INT8    ? 127
                         : t->type == TFLITE_UINT8 ? 255
                                                   : 32767;

    if (t->scale.count != 1 || t->zero_point.count > 1) {
        tflite_fail(im, INFER_EUNSUPPORTED,
                    "a tensor with %zu scales and %zu zero points that is no "
                    "weight",
                    t->scale.count, t->zero_point.count);
        return q;
    }
    q.scale = fb_list_f32(&t->scale, 0);
    if (t->zero_point.count == 1)
        q.zero = fb_list_i64(&t->zero_point, 0);
    if (!good_scale(q.scale) || q.zero < low || q.zero > high) {
        tflite_fail(im, INFER_EFORMAT, "scale %g and zero point %lld",
                    (double)q.scale, (long long)q.zero);
        return (struct tflite_quant){1, 0, -1, 1};
    }
    q.low = low - q.zero;
    q.high = high - q.zero;
    return q;
}

bool tflite_same_quant(const struct tflite_tensor *a,
                       const struct tflite_tensor *b)
{
    const bool qa = tflite_is_quantised(a), qb = tflite_is_quantised(b);

    if (!qa || !qb)
        return qa == qb;
    if (a->type != b->type || a->scale.count != 1 || b->scale.count != 1 ||
        a->zero_point.count > 1 || b->zero_point.count > 1)
        return false;
    return fb_list_f32(&a->scale, 0) == fb_list_f32(&b->scale, 0) &&
           (a->zero_point.count ? fb_list_i64(&a->zero_point, 0) : 0) ==
               (b->zero_point.count ? fb_list_i64(&b->zero_point, 0) : 0);
}

bool tflite_same_kind(const struct tflite_tensor *a,
                      const struct tflite_tensor *b)
{
    return a->type == b->type && tflite_same_quant(a, b);
}

void tflite_quant_clip(struct tflite_import *im, enum tflite_activation act,
                       struct tflite_quant *q)
{
    double low = -INFINITY, high = INFINITY;

    switch (act) {
    case TFLITE_NONE:
        return;
    case TFLITE_RELU:
        low = 0;
        break;
    case TFLITE_RELU_N1_TO_1:
        low = -1;
        high = 1;
        break;
    case TFLITE_RELU6:
        low = 0;
        high = 6;
        break;
    case TFLITE_TANH:
        tflite_fail(im, INFER_EUNSUPPORTED, "a tanh fused into integers");
        return;
    }
    low = round(low / (double)q->scale);
    high = round(high / (double)q->scale);
    if (low > (double)q->low)
        q->low = low < (double)q->high ? (int64_t)low : q->high;
    if (high < (double)q->high)
        q->high = high > (double)q->low ? (int64_t)high : q->low;
}

/* Bounds are whole: clipping comes before rounding, where it fuses. */
static int clip_and_round(struct tflite_import *im, int x,
                          const struct tflite_quant *q)
{
    x = tflite_unary(im, x, KERN_CLIP, (float)q->low, (float)q->high);
    return tflite_plain_unary(im, x, KERN_ROUND);
}

int tflite_quantise(struct tflite_import *im, int x,
                    const struct tflite_quant *q)
{
    x = tflite_unary(im, x, KERN_LINEAR, AWAY / q->scale, 0);
    return clip_and_round(im, x, q);
}

/* sign(x) floor(|x| + h), where h is the number below 1/2: 1/2 itself would
 * make 1 of that number, while a half plus h is rounded up. */
int tflite_round_away(struct tflite_import *im, int x)
{
    int y = tflite_plain_unary(im, x, KERN_ABS);

    y = tflite_unary(im, y, KERN_LINEAR, 1, 0x1.fffffep-2f);
    y = tflite_plain_unary(im, y, KERN_FLOOR);
    return tflite_binary(im, KERN_MUL, y, tflite_plain_unary(im, x, KERN_SIGN));
}

/* The kernel's quotient: the product with 1/s differs from it in the last bit,
 * which moves numbers near a half. */
int tflite_quantise_floats(struct tflite_import *im, int x,
                           const struct tflite_quant *q)
{
    x = tflite_binary(im, KERN_DIV, x, tflite_scalar(im, q->scale));
    x = tflite_round_away(im, x);
    return tflite_unary(im, x, KERN_CLIP, (float)q->low, (float)q->high);
}

/* ---- constants ----------------------------------------------------- */

struct constant *tflite_dequantised(struct tflite_import *im,
                                    const struct tflite_tensor *t,
                                    const struct constant *c, bool raw)
{
    const int64_t n = (int64_t)t->scale.count;
    struct constant *to = tflite_constant_new(im, INFER_F32, c->rank, c->dim);
    const bool signs = im->signed_weights && t->type == TFLITE_UINT8;
    int64_t inner = 1, count;
    float *y;

    if (!to)
        return NULL;
    if (n > 1) {
        const int a = t->quantised_axis;
        if (a < 0 || a >= c->rank || c->dim[a] != n) {
            tflite_fail(im, INFER_EFORMAT,
                        "%lld scales along dimension %d of its weights",
                        (long long)n, a);
            constant_unref(to);
            return NULL;
        }
        for (int d = a + 1; d < c->rank; d++)
            inner *= c->dim[d]; /* the constant has that many elements */
    }
    count = constant_count(c);
    y = (float *)(void *)to->data;
    for (int64_t i = 0; i < count; i++) {
        const size_t k = n > 1 ? (size_t)(i / inner % n) : 0;
        const int64_t zero =
            signs                      ? 0
            : k < t->zero_point.count  ? fb_list_i64(&t->zero_point, k)
            : t->zero_point.count == 1 ? fb_list_i64(&t->zero_point, 0)
                                       : 0;
        const double q = signs ? (double)(int8_t)c->data[i]
                               : scalar_load(c->dtype, c->data, i);
        const float v = (float)(q - (double)zero);
        y[i] = raw ? v : v * fb_list_f32(&t->scale, k);
    }
    return to;
}

/* ---- after a sum --------------------------------------------------- */

/* Integers of one dimension, or one for all, that broadcast to x. */
static int integers(struct tflite_import *im, int x, const int32_t *v,
                    int64_t n, int axis)
{
    int64_t dim[INFER_MAX_RANK];
    struct constant *c;
    int rank;

    if (im->status < 0)
        return -1;
    rank = tflite_value_type(im, x, 0)->rank;
    for (int i = 0; i < rank; i++)
        dim[i] = 1;
    for (int64_t i = 1; i < n; i++)
        if (v[i] != v[0]) {
            dim[axis < 0 ? rank + axis : axis] = n;
            break;
        }
    c = tflite_constant_new(im, INFER_I32, rank, dim);
    if (c)
        memcpy(c->data, v, (size_t)constant_count(c) * sizeof *v);
    return tflite_add_constant(im, -1, c);
}

struct tflite_factor tflite_factor(double v)
{
    struct tflite_factor f = {0, 0};
    int64_t bits = llround(ldexp(frexp(v, &f.shift), 31));

    if (bits == (int64_t)1 << 31) {
        bits /= 2;
        f.shift++;
    }
    f.multiplier = (int32_t)bits;
    if (f.shift < -31)
        return (struct tflite_factor){0, 0};
    return f.shift > 30 ? (struct tflite_factor){INT32_MAX, 30} : f;
}

int tflite_multiply(struct tflite_import *im, int x, int addend,
                    const struct tflite_factor *factor, int64_t n, int axis,
                    const struct graph_requantize *how)
{
    union graph_attr attr = {.requantize = *how};
    int32_t *v;
    int in[4] = {x, -1, -1, addend};

    if (im->status < 0)
        return -1;
    v = calloc((size_t)n + 1, sizeof *v);
    if (!v)
        return tflite_fail(im, INFER_EMEMORY, "out of memory");
    for (int64_t i = 0; i < n; i++)
        v[i] = factor[i].multiplier;
    in[1] = integers(im, x, v, n, axis);
    for (int64_t i = 0; i < n; i++)
        v[i] = factor[i].shift;
    in[2] = integers(im, x, v, n, axis);
    free(v);
    return tflite_emit(im, GRAPH_REQUANTIZE, &attr, in, addend < 0 ? 3 : 4);
}

static int requantise(struct tflite_import *im, int x,
                      const struct tflite_factor *factor, int64_t n, int axis,
                      int roundings, const struct tflite_quant *q)
{
    const struct graph_requantize how = {.requantize = {.low = (int)q->low,
                                                        .high = (int)q->high,
                                                        .once = roundings == 1},
                                         .to = INFER_F32};

    return tflite_multiply(im, x, -1, factor, n, axis, &how);
}

int tflite_requantise(struct tflite_import *im, int x, const double *factor,
                      int64_t n, int axis, int roundings,
                      const struct tflite_quant *q)
{
    struct tflite_factor *f;

    if (im->status < 0)
        return -1;
    f = calloc((size_t)n + 1, sizeof *f);
    if (!f)
        return tflite_fail(im, INFER_EMEMORY, "out of memory");
    for (int64_t i = 0; i < n; i++)
        f[i] = tflite_factor(factor[i]);
    x = requantise(im, x, f, n, axis, roundings, q);
    free(f);
    return x;
}

/* The kernels fold 1/n into the factor's 31 bits: they shift it by the whole
 * part of n's logarithm, and divide. */
int tflite_requantise_mean(struct tflite_import *im, int x, double factor,
                           int64_t n, const struct tflite_quant *q)
{
    struct tflite_factor f = tflite_factor(factor);
    int shift = 0;

    while (n >> shift > 1)
        shift++;
    if (shift > 31 + f.shift)
        shift = 31 + f.shift < 0 ? 0 : 31 + f.shift;
    f.multiplier = (int32_t)(((int64_t)f.multiplier << shift) / n);
    f.shift -= shift;
    return requantise(im, x, &f, 1, 0, 2, q);
}

/* The factor moves halves up in spite of the error of x, and leaves the next
 * fraction of n below a half where it is: it moves the largest q by a quarter
 * of 1 / n at most. */
int tflite_round_integers(struct tflite_import *im, int x, int64_t n,
                          const struct tflite_quant *q)
{
    const double largest = (double)(q->high - q->low);
    const double more = 0.25 / ((double)n * largest);
    const float away = more > 0x1p-14   ? 1.0f + 0x1p-14f
                       : more < 0x1p-21 ? AWAY
                                        : (float)(1 + more);

    x = tflite_unary(im, x, KERN_LINEAR, away, (float)q->zero * away);
    x = tflite_plain_unary(im, x, KERN_ROUND);
    if (q->zero == 0)
        return x;
    return tflite_unary(im, x, KERN_LINEAR, 1, (float)-q->zero);
}

/* ---- FAKE_QUANT ---------------------------------------------------- */

/* To the nearest of 2^bits numbers between min and max, which are moved so that
 * 0 is one of them. */
void tflite_import_fake_quant(struct tflite_import *im, int param)
{
    const float min = fb_f32(&im->op.options, 0, 0);
    const float max = fb_f32(&im->op.options, 1, 0);
    const int bits = fb_i32(&im->op.options, 2, 0);
    const float least = fb_bool(&im->op.options, 3) ? 1 : 0;
    float most, scale, zero;
    bool swapped;
    int x;

    (void)param;
    if (!tflite_arity(im, 1, 1))
        return;
    if (!(min <= 0 && max >= 0 && min < max) || !isfinite(max - min) ||
        bits < 2 || bits > 16) {
        tflite_fail(im, INFER_EFORMAT, "%d bits for %g to %g", bits,
                    (double)min, (double)max);
        return;
    }
    most = (float)((1 << bits) - 1);
    scale = (max - min) / (most - least);
    zero = least - min / scale;
    zero = zero < least ? least : zero > most ? most : roundf(zero);
    x = tflite_in_any_order(im, &swapped);
    x = tflite_unary(im, x, KERN_CLIP, (least - zero) * scale,
                     (most - zero) * scale);
    x = tflite_unary(im, x, KERN_LINEAR, 1, -(least - zero) * scale);
    x = tflite_unary(im, x, KERN_LINEAR, 1.0f / scale, 0);
    x = tflite_round_away(im, x);
    x = tflite_unary(im, x, KERN_LINEAR, scale, (least - zero) * scale);
    tflite_out(im, 0, x, swapped);
}
