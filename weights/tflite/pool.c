/* SPDX-License-Identifier: Apache-2.0 */
/* TensorFlow Lite: pooling and normalisation over channels. */
#include <math.h>

#include "weights/tflite/tflite.h"

static int positive(struct tflite_import *im, int id, const char *what)
{
    const int v = fb_i32(&im->op.options, id, 0);

    if (v >= 1 && v <= OP_MAX_STEP)
        return v;
    tflite_fail(im, INFER_EFORMAT, "%s %d", what, v);
    return 1;
}

static void geometry(struct tflite_import *im, struct graph_pool *pool)
{
    const int padding = fb_u8(&im->op.options, 0, 0);

    if (padding > 1)
        tflite_fail(im, INFER_EFORMAT, "padding %d", padding);
    pool->auto_pad = padding == 0 ? GRAPH_PAD_SAME_UPPER : GRAPH_PAD_EXPLICIT;
    pool->pool.stride[1] = positive(im, 1, "a horizontal stride of");
    pool->pool.stride[0] = positive(im, 2, "a vertical stride of");
    pool->pool.window[1] = positive(im, 3, "a width of");
    pool->pool.window[0] = positive(im, 4, "a height of");
    for (int i = 0; i < 2; i++)
        pool->pool.dilation[i] = 1;
}

/* Reads the operator.  False after an error. */
static bool begin(struct tflite_import *im, enum kern_pool_kind kind,
                  union graph_attr *attr)
{
    if (!tflite_arity(im, 1, 1))
        return false;
    if (tflite_rank(im, 0) != 4) {
        tflite_fail(im, INFER_EFORMAT, "its input has rank %d, 4 is due",
                    tflite_rank(im, 0));
        return false;
    }
    tflite_defaults(GRAPH_POOL, attr);
    attr->pool.pool.kind = kind;
    geometry(im, &attr->pool);
    return true;
}

void tflite_import_pool(struct tflite_import *im, int kind)
{
    const bool average = kind == KERN_POOL_AVERAGE;
    struct tflite_tensor in, out;
    union graph_attr attr;
    int x;

    if (!begin(im, (enum kern_pool_kind)kind, &attr))
        return;
    in = tflite_input_tensor(im, 0);
    out = tflite_output_tensor(im, 0);
    im->raw = tflite_is_quantised(&in) && tflite_same_quant(&in, &out);
    x = tflite_in(im, 0, true);
    x = tflite_emit(im, GRAPH_POOL, &attr, &x, 1);
    if (im->raw && im->status == 0) {
        const enum tflite_activation act = tflite_activation(im, 5);
        struct tflite_quant q = tflite_quant(im, &in);
        if (average)
            x = tflite_round_integers(im, x,
                                      (int64_t)attr.pool.pool.window[0] *
                                          attr.pool.pool.window[1],
                                      &q);
        tflite_quant_clip(im, act, &q);
        if (act != TFLITE_NONE)
            x = tflite_unary(im, x, KERN_CLIP, (float)q.low, (float)q.high);
    } else {
        x = tflite_fused(im, x, 5);
    }
    tflite_out(im, 0, x, true);
}

/* The root of the mean of squares. */
void tflite_import_l2_pool(struct tflite_import *im, int param)
{
    union graph_attr attr;
    int x;

    (void)param;
    if (!begin(im, KERN_POOL_AVERAGE, &attr))
        return;
    x = tflite_in(im, 0, true);
    x = tflite_binary(im, KERN_MUL, x, x);
    x = tflite_emit(im, GRAPH_POOL, &attr, &x, 1);
    x = tflite_plain_unary(im, x, KERN_SQRT);
    tflite_out(im, 0, tflite_fused(im, x, 5), true);
}

/* x / max(sqrt(sum of squares over the last axis), 1e-6) */
void tflite_import_l2_norm(struct tflite_import *im, int param)
{
    union graph_attr attr;
    const int rank = tflite_rank(im, 0);
    const bool swapped = tflite_is_swapped(im, 0);
    int x, length;

    (void)param;
    if (!tflite_arity(im, 1, 1))
        return;
    if (rank < 1) {
        tflite_fail(im, INFER_EFORMAT, "its input has rank 0");
        return;
    }
    x = tflite_in(im, 0, swapped);
    tflite_defaults(GRAPH_REDUCE, &attr);
    attr.reduce.kind = KERN_REDUCE_L2;
    attr.reduce.keep_dims = true;
    attr.reduce.n_axes = 1;
    attr.reduce.axis[0] = tflite_map_axis(rank - 1, rank, swapped);
    length = tflite_emit(im, GRAPH_REDUCE, &attr, &x, 1);
    length = tflite_unary(im, length, KERN_CLIP, 1e-6f, INFINITY);
    x = tflite_binary(im, KERN_DIV, x, length);
    tflite_out(im, 0, tflite_fused(im, x, 0), swapped);
}

/* The window reaches `radius` channels to both sides; alpha is not divided by
 * its size. */
void tflite_import_lrn(struct tflite_import *im, int param)
{
    const int radius = fb_i32(&im->op.options, 0, 0);
    union graph_attr attr;
    int x;

    (void)param;
    if (!tflite_arity(im, 1, 1))
        return;
    if (tflite_rank(im, 0) != 4 || radius < 0 || radius > 1 << 20) {
        tflite_fail(im, INFER_EFORMAT, "radius %d, input of rank %d", radius,
                    tflite_rank(im, 0));
        return;
    }
    tflite_defaults(GRAPH_LRN, &attr);
    attr.lrn.size = 2 * radius + 1;
    attr.lrn.bias = fb_f32(&im->op.options, 1, 0);
    attr.lrn.alpha = fb_f32(&im->op.options, 2, 0) * (float)attr.lrn.size;
    attr.lrn.beta = fb_f32(&im->op.options, 3, 0);
    if (!isfinite(attr.lrn.bias) || !isfinite(attr.lrn.alpha) ||
        !isfinite(attr.lrn.beta)) {
        tflite_fail(im, INFER_EFORMAT, "a parameter that is not finite");
        return;
    }
    x = tflite_in(im, 0, true);
    tflite_out(im, 0, tflite_emit(im, GRAPH_LRN, &attr, &x, 1), true);
}
