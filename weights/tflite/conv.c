/* SPDX-License-Identifier: Apache-2.0 */
/* TensorFlow Lite: convolutions and fully connected layers. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/scalar.h"
#include "weights/tflite/tflite.h"

enum { X, W, BIAS };

/* ---- what integers and floats share -------------------------------- */

/* How a layer computes: on q - z where its tensors are quantised. */
struct layer {
    bool integers, wide; /* wide: activations of 16 bits */
    int low;             /* their sums' lower halves (wide.c) */
    struct tflite_quant x, y;
    double *factor; /* one a channel of the output */
    int64_t channels;
};

/* The factor s1 s2 / s3 of each channel. */
static bool factors(struct tflite_import *im, struct layer *l)
{
    const struct tflite_tensor w = tflite_input_tensor(im, W);
    const size_t n = w.scale.count;

    l->factor = calloc((size_t)l->channels + 1, sizeof *l->factor);
    if (!l->factor) {
        tflite_fail(im, INFER_EMEMORY, "out of memory");
        return false;
    }
    if (n != 1 && (int64_t)n != l->channels) {
        tflite_fail(im, INFER_EFORMAT, "%zu scales for %lld channels", n,
                    (long long)l->channels);
        return false;
    }
    for (int64_t i = 0; i < l->channels; i++) {
        const float s = fb_list_f32(&w.scale, n == 1 ? 0 : (size_t)i);
        if (!(s >= 0 && s < 1e12f)) {
            tflite_fail(im, INFER_EFORMAT, "weight scale %g", (double)s);
            return false;
        }
        l->factor[i] = (double)l->x.scale * (double)s / (double)l->y.scale;
    }
    return true;
}

static bool open_layer(struct tflite_import *im, int x, int64_t channels,
                       int act, struct layer *l)
{
    const struct tflite_tensor in = tflite_input_tensor(im, x);
    const struct tflite_tensor w = tflite_input_tensor(im, W);
    const struct tflite_tensor out = tflite_output_tensor(im, 0);

    *l = (struct layer){.channels = channels, .low = -1};
    l->integers = tflite_is_quantised(&in) && tflite_is_quantised(&w) &&
                  tflite_is_quantised(&out);
    if (im->status < 0)
        return false;
    if (!l->integers)
        return true;
    im->raw = true;
    l->wide = in.type == TFLITE_INT16;
    l->x = tflite_quant(im, &in);
    l->y = tflite_quant(im, &out);
    tflite_quant_clip(im, tflite_activation(im, act), &l->y);
    return im->status == 0 && factors(im, l);
}

/* Bias i as floats: integers have the scale s1 s2. */
static int bias(struct tflite_import *im, int i, const struct layer *l)
{
    const struct tflite_tensor t = tflite_input_tensor(im, i);
    const struct constant *c = tflite_fixed(im, i);
    struct constant *to;

    if (im->status < 0)
        return -1;
    if (!c || (scalar_is_float(c->dtype) && !l->integers))
        return tflite_in(im, i, false);
    if ((c->dtype != INFER_I32 && c->dtype != INFER_I64) ||
        (!l->integers && t.scale.count == 0))
        return tflite_fail(im, INFER_EUNSUPPORTED, "a bias that is %s",
                           tflite_type_name(t.type));
    to = tflite_constant_new(im, INFER_F32, c->rank, c->dim);
    if (!to)
        return -1;
    for (int64_t k = 0; k < constant_count(c); k++) {
        double b = (double)scalar_load_i64(c->dtype, c->data, k);
        if (!l->integers)
            b *= (double)fb_list_f32(&t.scale,
                                     (size_t)k < t.scale.count ? (size_t)k : 0);
        scalar_store(INFER_F32, to->data, k, b);
    }
    return tflite_add_constant(im, tflite_input_index(im, i), to);
}

/* The sum of x and a bias of I32, one a channel, as I32. */
static int with_bias(struct tflite_import *im, int x, int b, bool picture)
{
    const int64_t dim[3] = {-1, 1, 1};

    x = tflite_cast(im, x, INFER_I32);
    if (picture)
        b = tflite_dims(im, GRAPH_RESHAPE, b, 3, dim);
    return tflite_binary(im, KERN_ADD, x, b);
}

/* The layer's products and bias b, an input or -1.  scale: that of activations
 * which are rounded at run time, or -1. */
static int layer_node(struct tflite_import *im, struct layer *l,
                      enum graph_op op, const union graph_attr *attr, int x,
                      int weight, int b, int scale, bool picture)
{
    struct tflite_halves h, add = {-1, -1, 8};
    int in[3] = {x, weight, -1};

    if (l->wide) {
        h = tflite_halves(im, x);
        if (b >= 0)
            add = tflite_bias_halves(im, b);
        in[X] = h.low;
        in[BIAS] = add.low;
        l->low = tflite_emit(im, op, attr, in, b >= 0 ? 3 : 2);
        in[X] = h.high;
        x = tflite_emit(im, op, attr, in, 2);
        return b < 0 ? x : with_bias(im, x, add.high, picture);
    }
    if (b >= 0)
        in[BIAS] = bias(im, b, l);
    x = tflite_emit(im, op, attr, in, b >= 0 && scale < 0 ? 3 : 2);
    return scale < 0 ? x
                     : tflite_scaled_from_8(im, x, scale, W, in[BIAS], picture);
}

/* Whether sums of activations of 16 bits have 32: so the bias says. */
static bool sums_32(struct tflite_import *im, int b)
{
    return tflite_has(im, b) && tflite_input_tensor(im, b).type == TFLITE_INT32;
}

/* The activation, or the step back to integers; closes the layer, whose bias is
 * input b.  The kernels of convolutions round twice, those of matrices and of
 * 16 bits once. */
static void finish(struct tflite_import *im, struct layer *l, int x, int b,
                   int act, bool matrix)
{
    const struct tflite_halves h = {x, l->low, 8};
    const int axis = matrix ? -1 : 1;

    if (l->wide && im->status == 0)
        x = sums_32(im, b)
                ? tflite_requantise(im, tflite_joined(im, &h), l->factor,
                                    l->channels, axis, 2, &l->y)
                : tflite_requantise_wide(im, &h, l->factor, l->channels, axis,
                                         matrix, &l->y);
    else if (l->integers && im->status == 0)
        x = tflite_requantise(im, x, l->factor, l->channels, axis,
                              matrix ? 1 : 2, &l->y);
    else
        x = tflite_fused(im, x, act);
    tflite_out(im, 0, x, !matrix);
    free(l->factor);
    l->factor = NULL;
}

/* ---- attributes ---------------------------------------------------- */

static int positive(struct tflite_import *im, int id, int otherwise,
                    const char *what)
{
    const int v = fb_i32(&im->op.options, id, otherwise);

    if (v >= 1 && v <= OP_MAX_STEP)
        return v;
    tflite_fail(im, INFER_EFORMAT, "%s %d", what, v);
    return 1;
}

/* Padding, strides and dilation lie in the first fields of the options. */
static void geometry(struct tflite_import *im, int dilation,
                     struct graph_conv *conv)
{
    const int padding = fb_u8(&im->op.options, 0, 0);

    if (padding > 1)
        tflite_fail(im, INFER_EFORMAT, "padding %d", padding);
    conv->auto_pad = padding == 0 ? GRAPH_PAD_SAME_UPPER : GRAPH_PAD_EXPLICIT;
    conv->conv.stride[1] = positive(im, 1, 0, "a horizontal stride of");
    conv->conv.stride[0] = positive(im, 2, 0, "a vertical stride of");
    if (dilation < 0)
        return;
    conv->conv.dilation[1] =
        positive(im, dilation, 1, "a horizontal dilation of");
    conv->conv.dilation[0] =
        positive(im, dilation + 1, 1, "a vertical dilation of");
}

static bool check_ranks(struct tflite_import *im, int x)
{
    const int rank = tflite_rank(im, x), of_weights = tflite_rank(im, W);

    if (im->status == 0 && (rank != 4 || of_weights != 4))
        tflite_fail(im, INFER_EFORMAT,
                    "input and weights of rank %d and %d; 4 and 4 are due",
                    rank, of_weights);
    return im->status == 0;
}

/* ---- convolutions -------------------------------------------------- */

/* (K,R,S,C/groups) */
static int conv_weight(struct tflite_import *im, const struct graph_type *x,
                       bool raw, struct graph_conv *conv)
{
    static const int order[4] = {0, 3, 1, 2};
    const struct graph_type w = tflite_type(im, W, 0);

    if (w.dim[3] < 1 || x->dim[3] % w.dim[3] != 0)
        return tflite_fail(im, INFER_EFORMAT,
                           "%lld channels of weights for %lld of its input",
                           (long long)w.dim[3], (long long)x->dim[3]);
    conv->conv.groups = (int)(x->dim[3] / w.dim[3]);
    return tflite_weight(im, W, order, raw);
}

/* (1,R,S,C*multiplier): output c*multiplier + m belongs to channel c. */
static int depthwise_weight(struct tflite_import *im,
                            const struct graph_type *x, bool raw,
                            struct graph_conv *conv)
{
    static const int order[4] = {3, 0, 1, 2};
    const struct graph_type w = tflite_type(im, W, 0);

    if (w.dim[0] != 1 || x->dim[3] < 1 || w.dim[3] % x->dim[3] != 0 ||
        x->dim[3] > INT32_MAX)
        return tflite_fail(im, INFER_EFORMAT,
                           "weights of %lldx%lldx%lldx%lld for %lld channels",
                           (long long)w.dim[0], (long long)w.dim[1],
                           (long long)w.dim[2], (long long)w.dim[3],
                           (long long)x->dim[3]);
    conv->conv.groups = (int)x->dim[3];
    return tflite_weight(im, W, order, raw);
}

/* Whether TensorFlow Lite rounds activations by their magnitude, as its kernels
 * for a scale a channel do; where all scales are equal it takes the kernel for
 * one scale, but for groups. */
static bool is_per_channel(struct tflite_import *im, int depthwise)
{
    const struct tflite_tensor w = tflite_input_tensor(im, W);
    const struct graph_type x = tflite_type(im, X, 0);

    if (depthwise || w.dim[3] != x.dim[3])
        return true;
    for (size_t i = 1; i < w.scale.count; i++)
        if (fb_list_f32(&w.scale, i) < fb_list_f32(&w.scale, 0) ||
            fb_list_f32(&w.scale, i) > fb_list_f32(&w.scale, 0))
            return true;
    return false;
}

void tflite_import_conv(struct tflite_import *im, int depthwise)
{
    const int act = depthwise ? 4 : 3;
    union graph_attr attr;
    struct graph_type t;
    struct layer l;
    int in[2], scale = -1, x;
    bool hybrid;

    if (!tflite_arity(im, 2, 3) || !check_ranks(im, X))
        return;
    hybrid = tflite_is_hybrid(im, X, W);
    t = tflite_type(im, W, 0);
    if (!open_layer(im, X, t.dim[depthwise ? 3 : 0], act, &l)) {
        free(l.factor);
        return;
    }
    tflite_defaults(GRAPH_CONV, &attr);
    geometry(im, depthwise ? 5 : 4, &attr.conv);
    t = tflite_type(im, X, 0);
    in[X] = tflite_in(im, X, true);
    if (hybrid) /* an image: by its own range */
        in[X] = tflite_rounded_to_8(im, in[X], 1, is_per_channel(im, depthwise),
                                    &scale);
    in[W] = depthwise
                ? depthwise_weight(im, &t, l.integers || hybrid, &attr.conv)
                : conv_weight(im, &t, l.integers || hybrid, &attr.conv);
    x = layer_node(im, &l, GRAPH_CONV, &attr, in[X], in[W],
                   tflite_has(im, BIAS) ? BIAS : -1, scale, true);
    finish(im, &l, x, BIAS, act, false);
}

/* ---- transposed convolution ---------------------------------------- */

/* The output's extent is stated.  With "same" padding the pads are those of
 * the forward convolution from the output to the input. */
static void transposed_pads(struct tflite_import *im, struct graph_conv *conv)
{
    const bool same = fb_u8(&im->op.options, 0, 0) == 0;
    const struct graph_type w = tflite_type(im, W, 0);
    int64_t extra[2] = {0, 0};

    conv->auto_pad = GRAPH_PAD_EXPLICIT;
    for (int p = 0; p < im->probes && im->status == 0; p++) {
        const struct graph_type x = tflite_type(im, 2, p);
        int64_t out[4];
        if (tflite_ints_at(im, 0, p, "the shape of its output", 4, out) != 4) {
            tflite_fail(im, INFER_EFORMAT, "its output has no four sizes");
            return;
        }
        for (int i = 0; i < 2; i++) {
            int64_t e;
            if (!checked_mul_i64(x.dim[1 + i] - 1, conv->conv.stride[i], &e) ||
                !checked_add_i64(e, w.dim[1 + i], &e) || out[1 + i] < 1 ||
                out[1 + i] > INT32_MAX || e > INT32_MAX) {
                tflite_fail(im, INFER_EFORMAT, "an output of impossible size");
                return;
            }
            e = out[1 + i] - e;
            if (p > 0 && e != extra[i])
                tflite_fail(im, INFER_EUNSUPPORTED,
                            "pads that depend on the size of the input");
            extra[i] = e;
        }
    }
    for (int i = 0; i < 2; i++) {
        const int64_t pads = extra[i] < 0 ? -extra[i] : 0;
        conv->conv.pad_begin[i] = same ? (int)(pads / 2) : 0;
        conv->conv.pad_end[i] = (int)(pads - (same ? pads / 2 : 0));
        conv->output_pad[i] = extra[i] > 0 ? (int)extra[i] : 0;
    }
}

/* MediaPipe's Convolution2DTransposeBias: x, weights (K,R,S,C), bias; its
 * options are padding (1: same, 2: valid), and strides, as integers of C.  The
 * output has the size that the file states. */
void tflite_import_transposed_bias(struct tflite_import *im, int param)
{
    static const int order[4] = {3, 0, 1, 2};
    const unsigned char *data = im->op.custom_options.count >= 12
                                    ? fb_list_data(&im->op.custom_options)
                                    : NULL;
    const struct tflite_tensor out = tflite_output_tensor(im, 0);
    struct graph_type x, w;
    union graph_attr attr;
    int32_t option[3];
    int in[3];

    (void)param;
    if (!tflite_arity(im, 3, 3) || !check_ranks(im, 0))
        return;
    for (int i = 0; i < 3 && data; i++)
        option[i] =
            (int32_t)((uint32_t)data[4 * i] | (uint32_t)data[4 * i + 1] << 8 |
                      (uint32_t)data[4 * i + 2] << 16 |
                      (uint32_t)data[4 * i + 3] << 24);
    if (!data || (option[0] != 1 && option[0] != 2) || option[1] < 1 ||
        option[2] < 1 || option[1] > OP_MAX_STEP || option[2] > OP_MAX_STEP ||
        out.rank != 4) {
        tflite_fail(im, INFER_EFORMAT, "options of %zu bytes",
                    im->op.custom_options.count);
        return;
    }
    tflite_defaults(GRAPH_CONV_TRANSPOSE, &attr);
    x = tflite_type(im, 0, 0);
    w = tflite_type(im, W, 0);
    attr.conv.auto_pad = GRAPH_PAD_EXPLICIT;
    for (int i = 0; i < 2; i++) {
        const int stride = option[2 - i];
        const int64_t full = (x.dim[1 + i] - 1) * stride + w.dim[1 + i];
        const int64_t pads = full - out.dim[1 + i];

        if (x.dim[1 + i] > INT32_MAX / stride || pads > INT32_MAX ||
            pads < -(int64_t)stride ||
            x.dim[1 + i] != tflite_type(im, 0, im->probes - 1).dim[1 + i]) {
            tflite_fail(im, INFER_EUNSUPPORTED, "an output of %lld for %lld",
                        (long long)out.dim[1 + i], (long long)x.dim[1 + i]);
            return;
        }
        attr.conv.conv.stride[i] = stride;
        attr.conv.conv.pad_begin[i] =
            pads > 0 && option[0] == 1 ? (int)(pads / 2) : 0;
        attr.conv.conv.pad_end[i] =
            pads > 0 ? (int)pads - attr.conv.conv.pad_begin[i] : 0;
        attr.conv.output_pad[i] = pads < 0 ? (int)-pads : 0;
    }
    in[0] = tflite_in(im, 0, true);
    in[1] = tflite_weight(im, W, order, false);
    in[2] = tflite_in(im, BIAS, false);
    tflite_out(im, 0, tflite_emit(im, GRAPH_CONV_TRANSPOSE, &attr, in, 3),
               true);
}

/* Inputs: shape of the output, weights (K,R,S,C), x, bias. */
void tflite_import_transpose_conv(struct tflite_import *im, int param)
{
    static const int order[4] = {3, 0, 1, 2};
    union graph_attr attr;
    struct layer l;
    int in[2], scale = -1, x;
    bool hybrid;

    (void)param;
    if (!tflite_arity(im, 3, 4) || !check_ranks(im, 2))
        return;
    hybrid = tflite_is_hybrid(im, 2, W);
    if (!open_layer(im, 2, tflite_type(im, W, 0).dim[0], 3, &l)) {
        free(l.factor);
        return;
    }
    tflite_defaults(GRAPH_CONV_TRANSPOSE, &attr);
    geometry(im, -1, &attr.conv);
    transposed_pads(im, &attr.conv);
    in[0] = tflite_in(im, 2, true);
    if (hybrid)
        in[0] = tflite_rounded_to_8(im, in[0], 1, true, &scale);
    in[1] = tflite_weight(im, W, order, l.integers || hybrid);
    x = layer_node(im, &l, GRAPH_CONV_TRANSPOSE, &attr, in[0], in[1],
                   tflite_has(im, 3) ? 3 : -1, scale, true);
    finish(im, &l, x, 3, 3, false);
}

/* ---- fully connected ----------------------------------------------- */

/* Rows of as many elements as the weights have columns. */
static int as_rows(struct tflite_import *im, int64_t columns)
{
    const struct graph_type t = tflite_type(im, X, 0);
    struct graph_type target[TFLITE_PROBES];
    int64_t count;

    if (im->status < 0)
        return -1;
    if (t.rank == 2 && t.dim[1] == columns)
        return tflite_in(im, X, false);
    for (int p = 0; p < im->probes; p++) {
        const struct graph_type x = tflite_type(im, X, p);
        if (!checked_count(x.rank, x.dim, &count) || count % columns != 0)
            return tflite_fail(im, INFER_EFORMAT,
                               "its input does not divide into rows of %lld",
                               (long long)columns);
        target[p].rank = 2;
        target[p].dim[0] = count / columns;
        target[p].dim[1] = columns;
    }
    return tflite_reshape_to(im, tflite_in(im, X, false), target);
}

void tflite_import_fully_connected(struct tflite_import *im, int param)
{
    const int format = fb_u8(&im->op.options, 1, 0);
    const bool keep = fb_bool(&im->op.options, 2);
    struct layer l = {.integers = false};
    struct graph_type w;
    int in[2], scale = -1, rank, x;
    bool hybrid;

    (void)param;
    if (!tflite_arity(im, 2, 3))
        return;
    hybrid = tflite_is_hybrid(im, X, W);
    w = tflite_type(im, W, 0);
    rank = tflite_rank(im, X);
    if (im->status == 0 && format != 0)
        tflite_fail(im, INFER_EUNSUPPORTED, "weights in shuffled order");
    if (im->status == 0 && (w.rank != 2 || w.dim[1] < 1 || rank < 1))
        tflite_fail(im, INFER_EFORMAT, "weights of rank %d, input of rank %d",
                    w.rank, rank);
    if (im->status < 0 || !open_layer(im, X, w.dim[0], 0, &l)) {
        free(l.factor);
        return;
    }
    in[X] = keep && tflite_type(im, X, 0).dim[rank - 1] == w.dim[1]
                ? tflite_in(im, X, false)
                : as_rows(im, w.dim[1]);
    if (hybrid && im->status == 0)
        in[X] = tflite_rounded_to_8(im, in[X],
                                    tflite_value_type(im, in[X], 0)->rank - 1,
                                    fb_bool(&im->op.options, 3), &scale);
    in[W] = tflite_weight(im, W, NULL, l.integers || hybrid);
    x = layer_node(im, &l, GRAPH_DENSE, NULL, in[X], in[W],
                   tflite_has(im, BIAS) ? BIAS : -1, scale, false);
    finish(im, &l, x, BIAS, 0, true);
}

/* Sums of products of 16 bits, of the halves' products: of the high ones 2^16,
 * of one of each (middle) 2^8, and of the low ones.  Each has 14 bits and those
 * of the number of products, so that the middle one is split too: 32 bits hold
 * what is above 2^16 and what is below for up to 2^16 products. */
static struct tflite_halves wide_products(struct tflite_import *im,
                                          const union graph_attr *attr,
                                          const int *in)
{
    struct tflite_halves h[2], sums = {.bits = 16};
    int pair[2], part[4], middle, above, below;

    for (int i = 0; i < 2; i++)
        h[i] = tflite_halves(im, in[i]);
    for (int i = 0; i < 4; i++) {
        pair[0] = i & 2 ? h[0].high : h[0].low;
        pair[1] = i & 1 ? h[1].high : h[1].low;
        part[i] = tflite_emit(im, GRAPH_MATMUL, attr, pair, 2);
        part[i] = tflite_cast(im, part[i], INFER_I32);
    }
    middle = tflite_binary(im, KERN_ADD, part[1], part[2]);
    above = tflite_binary(im, KERN_SHIFT_RIGHT, middle, tflite_integer(im, 8));
    below = tflite_binary(im, KERN_BIT_AND, middle, tflite_integer(im, 255));
    below = tflite_binary(im, KERN_MUL, below, tflite_integer(im, 256));
    sums.high = tflite_binary(im, KERN_ADD, part[3], above);
    sums.low = tflite_binary(im, KERN_ADD, part[0], below);
    return sums;
}

static bool multiply_integers(struct tflite_import *im,
                              const union graph_attr *attr)
{
    const struct tflite_tensor a = tflite_input_tensor(im, 0);
    const struct tflite_tensor b = tflite_input_tensor(im, 1);
    const struct tflite_tensor out = tflite_output_tensor(im, 0);
    struct tflite_halves sums;
    struct tflite_quant q;
    double factor;
    int in[2], x;

    if (!tflite_is_quantised(&a) || !tflite_is_quantised(&b) ||
        !tflite_is_quantised(&out) || a.type != b.type)
        return false;
    im->raw = true;
    q = tflite_quant(im, &out);
    factor = (double)(tflite_quant(im, &a).scale * tflite_quant(im, &b).scale) /
             (double)q.scale;
    in[0] = tflite_in(im, 0, false);
    in[1] = tflite_in(im, 1, false);
    if (a.type == TFLITE_INT16) {
        sums = wide_products(im, attr, in);
        x = tflite_requantise_wide(im, &sums, &factor, 1, 0, false, &q);
    } else {
        x = tflite_emit(im, GRAPH_MATMUL, attr, in, 2);
        x = tflite_requantise(im, x, &factor, 1, 0, 2, &q);
    }
    tflite_out(im, 0, x, false);
    return true;
}

void tflite_import_batch_matmul(struct tflite_import *im, int param)
{
    union graph_attr attr;
    int in[2];

    (void)param;
    if (!tflite_arity(im, 2, 2))
        return;
    if (tflite_is_hybrid(im, 0, 1)) {
        tflite_fail(im, INFER_EUNSUPPORTED,
                    "activations of a matrix product are not rounded at run "
                    "time: without --dynamic-range its weights become floats");
        return;
    }
    tflite_defaults(GRAPH_MATMUL, &attr);
    attr.matmul.transpose_a = fb_bool(&im->op.options, 0);
    attr.matmul.transpose_b = fb_bool(&im->op.options, 1);
    if (multiply_integers(im, &attr))
        return;
    in[0] = tflite_in(im, 0, false);
    in[1] = tflite_in(im, 1, false);
    tflite_out(im, 0, tflite_emit(im, GRAPH_MATMUL, &attr, in, 2), false);
}
