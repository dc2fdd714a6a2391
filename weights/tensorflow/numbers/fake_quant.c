/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FakeQuantWithMinMaxArgs, ...Vars and ...VarsPerChannel: x as the nearest of
 * 2^num_bits numbers between min and max, which are moved so that 0 is one of
 * them.
 */
#include <math.h>

#include "weights/onnx/composed/compose.h"
#include "weights/tensorflow/tensorflow.h"

/* The quantisation levels of one range, computed in floats as TensorFlow does.
 */
struct levels {
    float low, high, inverse, zero, scale;
};

static bool make_levels(float min, float max, float least, float most,
                        struct levels *g)
{
    float zero, nudged;

    if (min == 0 && max == 0) { /* everything becomes 0 */
        *g = (struct levels){0, 0, 1, 0, 1};
        return true;
    }
    if (!isfinite(min) || !isfinite(max) || !(min < max))
        return false;
    g->scale = (max - min) / (most - least);
    zero = least - min / g->scale;
    nudged = zero < least ? least : zero > most ? most : roundf(zero);
    g->low = (least - nudged) * g->scale;
    g->high = (most - nudged) * g->scale;
    g->inverse = 1.0f / g->scale;
    g->zero = floorf(-g->low * g->inverse + 0.5f);
    return isfinite(g->inverse);
}

/* Ranges: one of the attributes, or of two constant inputs. */
static int read_range(struct onnx_import *im, bool vars, int64_t i, float *min,
                      float *max)
{
    struct constant *low = NULL, *high = NULL;

    *min = -6;
    *max = 6;
    if (!vars) {
        onnx_float(im, "min", min);
        return onnx_float(im, "max", max);
    }
    if (onnx_input_constant(im, 1, &low) < 0 ||
        onnx_input_constant(im, 2, &high) < 0)
        return im->rc;
    if (!low || !high || low->dtype != INFER_F32 || high->dtype != INFER_F32)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "a range that is computed at run time");
    if (i >= constant_count(low) || i >= constant_count(high))
        return onnx_fail(im, INFER_EFORMAT, "no range for channel %lld",
                         (long long)i);
    *min = ((const float *)(const void *)low->data)[i];
    *max = ((const float *)(const void *)high->data)[i];
    return 0;
}

/* param: 0 attributes, 1 inputs, 2 inputs with one value for each entry of the
 * last axis. */
int tf_fake_quant(struct onnx_import *im)
{
    const int param = tf_row(im)->param;
    int64_t bits = 8, narrow = 0, n = 1;
    float *part[5] = {NULL};
    int value[5], x;

    onnx_arity(im, param ? 3 : 1, param ? 3 : 1);
    onnx_int(im, "num_bits", 2, 16, &bits);
    onnx_int(im, "narrow_range", 0, 1, &narrow);
    x = compose_input(im, 0);
    if (param == 2 && compose_need_rank(im, x, 1, INFER_MAX_RANK) == 0)
        n = compose_dim(im, x, -1);
    for (int k = 0; k < 5; k++)
        value[k] = compose_floats(im, 1, &n, &part[k]);
    for (int64_t i = 0; i < n && im->rc == 0; i++) {
        struct levels g;
        float min, max;

        if (read_range(im, param > 0, i, &min, &max) < 0)
            return im->rc;
        if (!make_levels(min, max, (float)narrow, (float)((1 << bits) - 1), &g))
            return onnx_fail(im, INFER_EFORMAT, "a range from %g to %g",
                             (double)min, (double)max);
        part[0][i] = g.low;
        part[1][i] = g.high;
        part[2][i] = g.inverse;
        part[3][i] = g.zero - 0.5f;
        part[4][i] = g.scale;
    }
    x = compose_binary(im, KERN_MIN, x, value[1]);
    x = compose_binary(im, KERN_MAX, x, value[0]);
    x = compose_binary(im, KERN_SUB, x, value[0]);
    x = compose_binary(im, KERN_MUL, x, value[2]);
    x = compose_binary(im, KERN_SUB, x, value[3]);
    x = compose_unary(im, KERN_FLOOR, x);
    x = compose_binary(im, KERN_MUL, x, value[4]);
    return compose_output(im, 0, x);
}
