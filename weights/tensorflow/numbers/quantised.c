/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dequantize, in which quantised graphs of TensorFlow 1 keep their weights, and
 * QuantizeAndDequantize, which training for integers leaves in a graph.
 *
 * Ranges are constants.  Dequantize has three ways: by steps of the range from
 * its smallest number (MIN_COMBINED), the same with the smallest number moved
 * to a whole step (MIN_FIRST), or by the larger end alone (SCALED).
 */
#include <float.h>
#include <math.h>

#include "weights/onnx/composed/compose.h"
#include "weights/tensorflow/tensorflow.h"

/* The one number that input i holds. */
static float constant_number(struct onnx_import *im, int i)
{
    struct constant *c = NULL;

    onnx_input_constant(im, i, &c);
    if (!c || c->dtype != INFER_F32 || constant_count(c) != 1) {
        onnx_fail(im, INFER_EUNSUPPORTED,
                  "a range that is computed at run time, or one a channel");
        return 0;
    }
    return *(const float *)(const void *)c->data;
}

static int read_range(struct onnx_import *im, double *min, double *max)
{
    *min = (double)constant_number(im, 1);
    *max = (double)constant_number(im, 2);
    if (im->rc == 0 && (!isfinite(*min) || !isfinite(*max) || !(*min <= *max)))
        onnx_fail(im, INFER_EFORMAT, "a range from %g to %g", *min, *max);
    return im->rc;
}

/* Smallest and largest number of a type that is quantised. */
static int ends(struct onnx_import *im, enum infer_dtype dtype, double *low,
                double *high)
{
    switch ((int)dtype) {
    case INFER_U8:
        *low = 0;
        *high = 255;
        return 0;
    case INFER_I8:
        *low = -128;
        *high = 127;
        return 0;
    case INFER_I32:
        *low = -2147483648.0;
        *high = 2147483647.0;
        return 0;
    default:
        return onnx_fail(im, INFER_EUNSUPPORTED, "quantised numbers of type %s",
                         infer_dtype_name(dtype));
    }
}

int tf_dequantize(struct onnx_import *im)
{
    static const char *const words[] = {"MIN_COMBINED", "MIN_FIRST", "SCALED",
                                        NULL};
    double min, max, low = 0, high = 1, step, first;
    int64_t axis = -1;
    int mode = 0, x;

    onnx_arity(im, 3, 3);
    onnx_word(im, "mode", words, &mode);
    onnx_int(im, "axis", -1, -1, &axis);
    onnx_ignore(im, "narrow_range");
    onnx_ignore(im, "dtype");
    x = compose_input(im, 0);
    if (im->rc < 0 || read_range(im, &min, &max) < 0 ||
        ends(im, compose_dtype(im, x), &low, &high) < 0)
        return im->rc;
    step = (max - min) / (high - low);
    first = min - low * step;
    if (mode == 1 && step > 0)
        first = round(min / step) * step - low * step;
    if (mode == 2) {
        bool narrow = false;

        onnx_flag(im, "narrow_range", &narrow);
        step = max / high;
        if (low + narrow != 0 && min / (low + narrow) > step)
            step = min / (low + narrow);
        first = 0;
    }
    x = compose_cast(im, INFER_F32, x);
    return compose_output(im, 0, compose_linear(im, step, first, x));
}

/* x as the nearest of 2^num_bits numbers, 0 among them.  param: inputs; three
 * where num_bits is an attribute. */
int tf_quantize_and_dequantize(struct onnx_import *im)
{
    static const char *const words[] = {"HALF_TO_EVEN", "HALF_UP", NULL};
    const int n = tf_row(im)->param;
    bool is_signed = true, given = n == 4, narrow = false;
    int64_t bits = 8, axis = -1;
    double min, max, low, high, from_low, from_high, step;
    int word = 0, x;

    onnx_arity(im, n, n);
    onnx_flag(im, "signed_input", &is_signed);
    onnx_flag(im, "range_given", &given);
    onnx_flag(im, "narrow_range", &narrow);
    onnx_word(im, "round_mode", words, &word);
    onnx_int(im, "axis", -1, -1, &axis);
    if (n == 3)
        onnx_int(im, "num_bits", 2, 16, &bits);
    else
        tf_axis(im, 3, &bits);
    if (im->rc == 0 && !given)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "a range of each tensor of its own");
    if (im->rc < 0 || read_range(im, &min, &max) < 0)
        return im->rc;
    if (bits < 2 || bits > 16)
        return onnx_fail(im, INFER_EUNSUPPORTED, "%lld bits", (long long)bits);
    low = is_signed ? -(double)(1 << (bits - 1)) + narrow : narrow;
    high = (double)(1 << (is_signed ? bits - 1 : bits)) - 1;
    from_low = low * min > 0 ? min / low : 0;
    from_high = high * max > 0 ? max / high : 0;
    step = fmax(from_low, from_high);
    x = compose_input(im, 0);
    if (!(step > FLT_MIN))
        return compose_output(im, 0, compose_linear(im, 0, 0, x));
    x = compose_clip(im, low * step, high * step, x);
    x = compose_linear(im, 1 / step, word ? 0.5 : 0, x);
    x = compose_unary(im, word ? KERN_FLOOR : KERN_ROUND, x);
    return compose_output(im, 0, compose_linear(im, step, 0, x));
}
