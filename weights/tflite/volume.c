/* SPDX-License-Identifier: Apache-2.0 */
/* TensorFlow Lite: convolutions of volumes N,D,H,W,C in floats; filters lie as
 * D,R,S,C,K, those of the transposed one as D,R,S,K,C. */
#include "kernels/base/checked.h"
#include "weights/tflite/tflite.h"

#define ACTIVATION 4 /* its field in the options */

static const int order[5] = {4, 3, 0, 1, 2};

static bool check(struct tflite_import *im, int x)
{
    const struct tflite_tensor in = tflite_input_tensor(im, x);
    const struct tflite_tensor w = tflite_input_tensor(im, 1);

    if (im->status == 0 && (tflite_rank(im, x) != 5 || tflite_rank(im, 1) != 5))
        tflite_fail(im, INFER_EFORMAT,
                    "input and weights of rank %d and %d; 5 and 5 are due",
                    tflite_rank(im, x), tflite_rank(im, 1));
    if (im->status == 0 &&
        (tflite_is_quantised(&in) || tflite_is_quantised(&w)))
        tflite_fail(im, INFER_EUNSUPPORTED, "integers in volumes");
    return im->status == 0;
}

static int field(struct tflite_import *im, int id, int otherwise)
{
    const int v = fb_i32(&im->op.options, id, otherwise);

    if (v >= 1 && v <= OP_MAX_STEP)
        return v;
    tflite_fail(im, INFER_EFORMAT, "a stride or dilation of %d", v);
    return 1;
}

/* Fields: padding, strides of depth, width, height, activation, dilations in
 * the same order. */
static void geometry(struct tflite_import *im, struct graph_conv *conv)
{
    static const int place[3] = {0, 2, 1};
    const int padding = fb_u8(&im->op.options, 0, 0);

    if (padding > 1)
        tflite_fail(im, INFER_EFORMAT, "padding %d", padding);
    conv->auto_pad = padding == 0 ? GRAPH_PAD_SAME_UPPER : GRAPH_PAD_EXPLICIT;
    for (int i = 0; i < 3; i++) {
        conv->conv.stride[place[i]] = field(im, 1 + i, 0);
        conv->conv.dilation[place[i]] = field(im, 5 + i, 1);
    }
}

static void finish(struct tflite_import *im, enum graph_op op,
                   const union graph_attr *attr, const int *in, int n)
{
    int x = tflite_emit(im, op, attr, in, n);

    x = tflite_fused(im, x, ACTIVATION);
    tflite_out(im, 0, x, true);
}

static void conv(struct tflite_import *im)
{
    union graph_attr attr;
    struct graph_type x, w;
    int in[3], n = 2;

    if (!tflite_arity(im, 2, 3) || !check(im, 0))
        return;
    x = tflite_type(im, 0, 0);
    w = tflite_type(im, 1, 0);
    if (w.dim[3] < 1 || x.dim[4] % w.dim[3] != 0 || x.dim[4] > INT32_MAX) {
        tflite_fail(im, INFER_EFORMAT,
                    "%lld channels of weights for %lld of its input",
                    (long long)w.dim[3], (long long)x.dim[4]);
        return;
    }
    tflite_defaults(GRAPH_CONV, &attr);
    geometry(im, &attr.conv);
    attr.conv.conv.groups = (int)(x.dim[4] / w.dim[3]);
    in[0] = tflite_in(im, 0, true);
    in[1] = tflite_weight(im, 1, order, false);
    if (tflite_has(im, 2))
        in[n++] = tflite_in(im, 2, false);
    finish(im, GRAPH_CONV, &attr, in, n);
}

/* The output's extent is stated.  With "same" padding the pads are those of the
 * convolution from the output to the input. */
static bool pads(struct tflite_import *im, struct graph_conv *c)
{
    const bool same = c->auto_pad == GRAPH_PAD_SAME_UPPER;
    const struct graph_type w = tflite_type(im, 1, 0);

    c->auto_pad = GRAPH_PAD_EXPLICIT;
    for (int p = 0; p < im->probes && im->status == 0; p++) {
        const struct graph_type x = tflite_type(im, 2, p);
        int64_t out[5];

        if (tflite_ints_at(im, 0, p, "the shape of its output", 5, out) != 5) {
            tflite_fail(im, INFER_EFORMAT, "its output has no five sizes");
            return false;
        }
        for (int d = 0; d < 3 && im->status == 0; d++) {
            int64_t reach, all;

            if (!checked_mul_i64(w.dim[d] - 1, c->conv.dilation[d], &reach) ||
                !checked_mul_i64(x.dim[1 + d] - 1, c->conv.stride[d], &all) ||
                !checked_add_i64(all, reach + 1, &all) || out[1 + d] < 1 ||
                out[1 + d] > INT32_MAX || all > INT32_MAX) {
                tflite_fail(im, INFER_EFORMAT, "an output of impossible size");
                return false;
            }
            all -= out[1 + d];
            if (p > 0 && all != (int64_t)c->conv.pad_begin[d] +
                                    c->conv.pad_end[d] - c->output_pad[d])
                tflite_fail(im, INFER_EUNSUPPORTED,
                            "pads that depend on the size of the input");
            c->conv.pad_begin[d] = same && all > 0 ? (int)(all / 2) : 0;
            c->conv.pad_end[d] =
                all > 0 ? (int)(all - c->conv.pad_begin[d]) : 0;
            c->output_pad[d] = all < 0 ? (int)-all : 0;
        }
    }
    return im->status == 0;
}

/* Inputs: shape of the output, weights, x, bias. */
static void conv_transpose(struct tflite_import *im)
{
    union graph_attr attr;
    int in[3], n = 2;

    if (!tflite_arity(im, 3, 4) || !check(im, 2))
        return;
    tflite_defaults(GRAPH_CONV_TRANSPOSE, &attr);
    geometry(im, &attr.conv);
    if (!pads(im, &attr.conv))
        return;
    in[0] = tflite_in(im, 2, true);
    in[1] = tflite_weight(im, 1, order, false);
    if (tflite_has(im, 3))
        in[n++] = tflite_in(im, 3, false);
    finish(im, GRAPH_CONV_TRANSPOSE, &attr, in, n);
}

void tflite_import_volume(struct tflite_import *im, int transposed)
{
    if (transposed)
        conv_transpose(im);
    else
        conv(im);
}
