/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ONNX QuantizeLinear, DequantizeLinear and the operators on quantised tensors,
 * in float arithmetic: integers of 8 and 16 bits are exact there, and so are
 * their sums up to 2^24.  F8E4M3 has no integers: it is rounded by casts.
 */
#include <math.h>
#include <string.h>

#include "kernels/base/scalar.h"
#include "weights/narrow.h"
#include "weights/onnx/composed/compose.h"
#include "weights/onnx/window.h"

/* Parts of a sum of products of integers, each of them exact in F32. */
#define MAX_PIECES 256

/* ---- ranges and scales --------------------------------------------- */

/* What a type of 8 or 16 bits holds. */
static int range_of(struct onnx_import *im, enum infer_dtype t, double *low,
                    double *high)
{
    const int bits = 8 * (int)infer_dtype_size(t);
    const double top =
        ldexp(1, t == INFER_I8 || t == INFER_I16 ? bits - 1 : bits);

    *low = t == INFER_I8 || t == INFER_I16 ? -top : 0;
    *high = top - 1;
    if (im->rc == 0 && t != INFER_I8 && t != INFER_U8 && t != INFER_I16 &&
        t != INFER_U16)
        onnx_fail(im, INFER_EUNSUPPORTED, "quantised values of %s",
                  infer_dtype_name(t));
    return im->rc;
}

/* A scale or zero point of blocks along the axis, expanded to x. */
static int spread(struct onnx_import *im, int value, int x, int axis,
                  int64_t block)
{
    const int rank = compose_rank(im, x);
    int64_t dim[INFER_MAX_RANK + 1];

    if (im->rc < 0)
        return value;
    compose_need_rank(im, value, rank, rank);
    for (int d = 0; d <= rank; d++)
        dim[d] = d == axis + 1 ? block : 1;
    value = compose_expand(im, compose_unsqueeze(im, value, axis + 1), rank + 1,
                           dim);
    for (int d = 0; d < rank; d++)
        dim[d] = d == axis ? -1 : compose_dim(im, x, d);
    value = compose_reshape(im, value, rank, dim);
    /* The last block may be shorter. */
    return compose_slice(im, value, axis, 0, compose_dim(im, x, axis), 1);
}

struct scaling {
    int x, scale, zero; /* zero: -1 where absent */
    int axis;
    int64_t block;         /* entries of the axis that share a scale; 0: all */
    enum infer_dtype type; /* of the zero point; INFER_NONE without one */
    int narrow;            /* its type in narrow.h, or 0 */
};

/* A list of one number, which holds for all elements whatever the axis says, as
 * that number. */
static int as_number(struct onnx_import *im, int value)
{
    return value >= 0 && compose_rank(im, value) == 1 &&
                   compose_free_dim(im, value, 0) == 1
               ? compose_squeeze(im, value, 0)
               : value;
}

/* A zero point has the shape of its scale. */
static void check_zero(struct onnx_import *im, const struct scaling *s)
{
    const int rank = compose_rank(im, s->scale);

    if (im->rc < 0 || s->zero < 0)
        return;
    if (compose_rank(im, s->zero) != rank ||
        (rank == 1 &&
         compose_free_dim(im, s->zero, 0) != compose_free_dim(im, s->scale, 0)))
        onnx_fail(im, INFER_EFORMAT,
                  "the zero point has not the shape of the scale");
}

/* A constant scale is finite, and not 0 where it divides.  Dequantised by 0, a
 * channel is 0, which files of dead channels have. */
static void check_scale(struct onnx_import *im, const struct scaling *s,
                        bool divides)
{
    struct constant *c =
        im->rc >= 0 && s->scale >= 0 ? im->g->value[s->scale].data : NULL;

    if (onnx_fill(im, c) < 0 || !c || !c->data || !scalar_is_float(c->dtype))
        return;
    for (int64_t i = 0; i < constant_count(c); i++) {
        const double v = scalar_load(c->dtype, c->data, i);

        if (!isfinite(v) || (divides && v == 0)) {
            onnx_fail(im, INFER_EFORMAT, "element %lld of the scale is %g",
                      (long long)i, v);
            return;
        }
    }
}

static int read_scaling(struct onnx_import *im, struct scaling *s, bool divides)
{
    s->block = 0;
    onnx_arity(im, 2, 3);
    s->x = compose_input(im, 0);
    s->axis = onnx_axis(im, 1);
    onnx_int(im, "block_size", 0, INT32_MAX, &s->block);
    s->scale = compose_input(im, 1);
    check_scale(im, s, divides);
    s->zero = compose_input(im, 2);
    s->type = s->zero < 0 ? INFER_NONE : compose_dtype(im, s->zero);
    s->narrow = onnx_input_narrow(im, 2);
    if (s->block == 0) {
        s->scale = as_number(im, s->scale);
        s->zero = as_number(im, s->zero);
        check_zero(im, s);
    }
    if (im->rc < 0)
        return im->rc;
    if (compose_rank(im, s->scale) > 0 && compose_rank(im, s->x) > 0)
        im->rc = op_axis(s->axis, compose_rank(im, s->x), &s->axis, im->err);
    else
        s->axis = 0;
    return im->rc;
}

/* Scale and zero point of blocks, expanded to x; the latter as F32. */
static void spread_blocks(struct onnx_import *im, struct scaling *s)
{
    s->scale = spread(im, s->scale, s->x, s->axis, s->block);
    if (s->zero >= 0)
        s->zero = compose_cast(im, INFER_F32,
                               spread(im, s->zero, s->x, s->axis, s->block));
}

/* One node that quantises to a type, or dequantises. */
static int emit_scaling(struct onnx_import *im, enum graph_op op,
                        const struct scaling *s, enum infer_dtype to)
{
    const int in[3] = {s->x, s->scale, s->zero};
    union graph_attr attr;

    if (im->rc < 0)
        return im->rc;
    onnx_defaults(op, &attr);
    attr.quantize.axis = s->axis;
    if (op == GRAPH_QUANTIZE)
        attr.quantize.to = to;
    return onnx_emit(im, op, &attr, in, s->zero < 0 ? 2 : 3, 0, NULL);
}

/* x / scale to the nearest integer, halves to even, plus zero, in a range; or
 * to the nearest F8E4M3, which the cast does. */
static int quantize(struct onnx_import *im, int x, int scale, int zero,
                    enum infer_dtype to)
{
    double low, high;

    if (to == INFER_F8E4M3) {
        x = compose_binary(im, KERN_DIV, x, scale);
        return compose_cast(
            im, to, zero < 0 ? x : compose_binary(im, KERN_ADD, x, zero));
    }
    range_of(im, to, &low, &high);
    x = compose_unary(im, KERN_ROUND, compose_binary(im, KERN_DIV, x, scale));
    if (zero >= 0)
        x = compose_binary(im, KERN_ADD, x, zero);
    return compose_cast(im, to, compose_clip(im, low, high, x));
}

/* A value of one number an entry of the axis, as 1,..,n,1,..,1. */
static int along_axis(struct onnx_import *im, int value,
                      const struct scaling *s)
{
    int64_t dim[INFER_MAX_RANK];
    const int rank = compose_rank(im, s->x);

    if (value < 0 || compose_rank(im, value) != 1)
        return value;
    for (int d = 0; d < rank; d++)
        dim[d] = d == s->axis ? -1 : 1;
    return compose_reshape(im, value, rank, dim);
}

/* To a type of narrow.h. */
static int quantize_narrow(struct onnx_import *im, struct scaling *s)
{
    const struct narrow_limits l = narrow_limits(s->narrow);
    int x = s->x;

    if (s->block > 0) {
        spread_blocks(im, s);
    } else {
        s->scale = along_axis(im, s->scale, s);
        s->zero = along_axis(im, s->zero, s);
    }
    x = compose_binary(im, KERN_DIV, x, s->scale);
    if (!l.integer) { /* whose zero point is 0 */
        x = compose_narrow_float(im, x, s->narrow);
    } else {
        onnx_ignore(im, "saturate"); /* of floats */
        x = compose_unary(im, KERN_ROUND, x);
        if (s->zero >= 0)
            x = compose_binary(im, KERN_ADD, x,
                               compose_cast(im, INFER_F32, s->zero));
        x = compose_clip(im, l.is_signed ? -l.largest - 1 : 0, l.largest, x);
        x = compose_cast(im, narrow_dtype(s->narrow), x);
    }
    compose_output(im, 0, x);
    return onnx_set_narrow(im, s->narrow);
}

/* What becomes NaN in F8E4M3 without saturation: 464 is in the middle of 448
 * and 480, which is the code of NaN, and 448's is even. */
#define BEYOND_F8E4M3 464

int onnx_f8_not_saturated(struct onnx_import *im, int x, int scale)
{
    int size = compose_unary(im, KERN_ABS, x);

    if (scale >= 0)
        size = compose_binary(im, KERN_DIV, size, scale);
    return compose_where(
        im,
        compose_binary(im, KERN_GREATER, size,
                       compose_number(im, INFER_F32, BEYOND_F8E4M3)),
        compose_number(im, INFER_F32, NAN), x);
}

int onnx_import_quantize(struct onnx_import *im)
{
    struct scaling s;
    double low, high;
    int64_t stated = 0, saturate = 1;

    onnx_ignore(im, "precision");
    onnx_int(im, "output_dtype", 0, INT32_MAX, &stated);
    if (read_scaling(im, &s, true) < 0)
        return im->rc;
    if (s.type == INFER_NONE) {
        s.type = stated ? onnx_dtype(stated) : INFER_U8;
        s.narrow = narrow_dtype(stated) != INFER_NONE ? (int)stated : 0;
    }
    if (scalar_is_integer(compose_dtype(im, s.x)))
        s.x = compose_cast(im, INFER_F32, s.x);
    if (s.narrow != 0)
        return quantize_narrow(im, &s);
    onnx_int(im, "saturate", 0, 1, &saturate); /* of 8-bit floats */
    if (s.type != INFER_F8E4M3)
        range_of(im, s.type, &low, &high);
    if (s.block != 0)
        spread_blocks(im, &s);
    if (s.type == INFER_F8E4M3 && !saturate)
        s.x = onnx_f8_not_saturated(
            im, s.x, s.block == 0 ? along_axis(im, s.scale, &s) : s.scale);
    if (s.block == 0)
        return emit_scaling(im, GRAPH_QUANTIZE, &s, s.type);
    return compose_output(im, 0, quantize(im, s.x, s.scale, s.zero, s.type));
}

int onnx_import_dequantize(struct onnx_import *im)
{
    struct scaling s;

    onnx_ignore(im, "output_dtype"); /* all floats are computed in one type */
    if (read_scaling(im, &s, false) < 0)
        return im->rc;
    if (s.block == 0 && compose_dtype(im, s.x) == INFER_F32) {
        s.scale = along_axis(im, s.scale, &s);
        s.zero = along_axis(im, s.zero, &s);
        return compose_output(im, 0,
                              compose_binary(im, KERN_MUL,
                                             compose_centred(im, s.x, s.zero),
                                             s.scale));
    }
    if (s.block == 0)
        return emit_scaling(im, GRAPH_DEQUANTIZE, &s, INFER_F32);
    spread_blocks(im, &s);
    return compose_output(im, 0,
                          compose_binary(im, KERN_MUL,
                                         compose_centred(im, s.x, s.zero),
                                         s.scale));
}

int compose_centred(struct onnx_import *im, int x, int zero)
{
    x = compose_cast(im, INFER_F32, x);
    return zero < 0 ? x
                    : compose_binary(im, KERN_SUB, x,
                                     compose_cast(im, INFER_F32, zero));
}

int compose_dequantize(struct onnx_import *im, int x, int scale, int zero,
                       int axis)
{
    const int in[3] = {x, scale, zero};
    union graph_attr attr;
    int y = -1;

    if (im->rc < 0)
        return -1;
    onnx_defaults(GRAPH_DEQUANTIZE, &attr);
    attr.quantize.axis = axis;
    onnx_emit(im, GRAPH_DEQUANTIZE, &attr, in, zero < 0 ? 2 : 3, -1, &y);
    return y;
}

int compose_quantize(struct onnx_import *im, int x, int scale, int zero,
                     enum infer_dtype to)
{
    const int in[3] = {x, scale, zero};
    union graph_attr attr;
    double low, high;
    int y = -1;

    if (range_of(im, to, &low, &high) < 0)
        return -1;
    onnx_defaults(GRAPH_QUANTIZE, &attr);
    attr.quantize.axis = 0;
    attr.quantize.to = to;
    onnx_emit(im, GRAPH_QUANTIZE, &attr, in, zero < 0 ? 2 : 3, -1, &y);
    return y;
}

int compose_quantize_dynamically(struct onnx_import *im, int x, int *scale,
                                 int *zero)
{
    int64_t axes[INFER_MAX_RANK];
    const int n = compose_rank(im, x);
    int low = x, high = x, none;

    for (int d = 0; d < n; d++) {
        axes[d] = d;
        low = compose_reduce(im, KERN_REDUCE_MIN, low, d);
        high = compose_reduce(im, KERN_REDUCE_MAX, high, d);
    }
    if (n > 0) {
        onnx_emit_dims(im, GRAPH_SQUEEZE, low, n, axes, -1, &low);
        onnx_emit_dims(im, GRAPH_SQUEEZE, high, n, axes, -1, &high);
    }
    none = compose_number(im, INFER_F32, 0);
    low = compose_binary(im, KERN_MIN, low, none);
    high = compose_binary(im, KERN_MAX, high, none);
    *scale =
        compose_binary(im, KERN_DIV, compose_binary(im, KERN_SUB, high, low),
                       compose_number(im, INFER_F32, 255));
    *zero =
        compose_unary(im, KERN_NEG, compose_binary(im, KERN_DIV, low, *scale));
    *zero = compose_unary(im, KERN_ROUND, compose_clip(im, 0, 255, *zero));
    return quantize(im, x, *scale, *zero, INFER_U8);
}

/* y, its scale and its zero point. */
int onnx_import_dynamic_quantize(struct onnx_import *im)
{
    int y, scale, zero;

    onnx_arity(im, 1, 1);
    y = compose_quantize_dynamically(im, compose_input(im, 0), &scale, &zero);
    if (onnx_has_output(im, 1))
        compose_output(im, 1, scale);
    if (onnx_has_output(im, 2))
        compose_output(im, 2, compose_cast(im, INFER_U8, zero));
    return compose_output(im, 0, y);
}

/* ---- products ------------------------------------------------------ */

/* As many products of integers of these types, less their zero points, as have
 * a sum that is exact in F32. */
static int64_t exact_terms(struct onnx_import *im, int a, int b)
{
    const size_t bits = 8 * (infer_dtype_size(compose_dtype(im, a)) +
                             infer_dtype_size(compose_dtype(im, b)));

    return bits > 24 ? 0 : (int64_t)1 << (24 - bits);
}

/* The entries of an axis in pieces of at most `most`; of a piece, f gives the
 * sums as F32.  Their total, as I32. */
static int sum_of_pieces(struct onnx_import *im, int a, int axis_a, int b,
                         int axis_b, int64_t most,
                         int (*f)(struct onnx_import *, int a, int b,
                                  const void *),
                         const void *context)
{
    const int64_t n = compose_dim(im, a, axis_a);
    int total = -1;

    if (im->rc == 0 && (most < 1 || n > MAX_PIECES * most))
        onnx_fail(im, INFER_EUNSUPPORTED,
                  "sums of integers beyond 2^24, where floats are not exact");
    for (int64_t i = 0; i < n && im->rc == 0; i += most) {
        const int64_t end = n - i < most ? n : i + most;
        int y = n <= most ? f(im, a, b, context)
                          : f(im, compose_slice(im, a, axis_a, i, end, 1),
                              compose_slice(im, b, axis_b, i, end, 1), context);

        y = compose_cast(im, INFER_I32, y);
        total = i == 0 ? y : compose_binary(im, KERN_ADD, total, y);
    }
    return total;
}

/* A zero point of one number, or one a row: of a matrix' rows. */
static int zero_of_rows(struct onnx_import *im, int i)
{
    const int zero = compose_input(im, i);

    return zero >= 0 && compose_rank(im, zero) == 1 &&
                   compose_dim(im, zero, 0) > 1
               ? compose_unsqueeze(im, zero, 1)
               : zero;
}

static int multiply(struct onnx_import *im, int a, int b, const void *context)
{
    (void)context;
    return compose_matmul(im, a, b, false, 1);
}

int onnx_import_matmul_integer(struct onnx_import *im)
{
    int64_t most;
    int a, b, y;
    bool row, column;

    onnx_arity(im, 2, 4);
    a = compose_input(im, 0);
    b = compose_input(im, 1);
    compose_need_rank(im, a, 1, INFER_MAX_RANK);
    compose_need_rank(im, b, 1, INFER_MAX_RANK);
    row = compose_rank(im, a) == 1;
    column = compose_rank(im, b) == 1;
    if (row)
        a = compose_unsqueeze(im, a, 0);
    if (column)
        b = compose_unsqueeze(im, b, 1);
    most = exact_terms(im, a, b);
    a = compose_centred(im, a, zero_of_rows(im, 2));
    b = compose_centred(im, b, compose_input(im, 3));
    y = sum_of_pieces(im, a, compose_rank(im, a) - 1, b,
                      compose_rank(im, b) - 2, most, multiply, NULL);
    if (column)
        y = compose_squeeze(im, y, -1);
    if (row)
        y = compose_squeeze(im, y, column ? -1 : -2);
    return compose_output(im, 0, y);
}

/* Scales of inputs 1 and 4 over that of input 6. */
static int joint_scale(struct onnx_import *im, int by_channel)
{
    const int both =
        compose_binary(im, KERN_MUL, compose_input(im, 1), by_channel);

    return compose_binary(im, KERN_DIV, both, compose_input(im, 6));
}

/* y scale, rounded into the type of the zero point, input 7. */
static int requantize(struct onnx_import *im, int y, int scale)
{
    const int zero = compose_input(im, 7);

    y = compose_binary(im, KERN_MUL, y, scale);
    return quantize(im, y, compose_number(im, INFER_F32, 1),
                    compose_cast(im, INFER_F32, zero), compose_dtype(im, zero));
}

int onnx_import_qlinear_matmul(struct onnx_import *im)
{
    int a, b, y;

    onnx_arity(im, 8, 8);
    a = compose_input(im, 0);
    b = compose_input(im, 3);
    compose_need_rank(im, a, 2, INFER_MAX_RANK);
    compose_need_rank(im, b, 2, INFER_MAX_RANK);
    if (im->rc == 0 && compose_rank(im, compose_input(im, 1)) > 0 &&
        compose_dim(im, compose_input(im, 1), 0) > 1)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "a scale for each row of the first matrix");
    y = compose_matmul(im, compose_centred(im, a, zero_of_rows(im, 2)),
                       compose_centred(im, b, compose_input(im, 5)), false, 1);
    return compose_output(
        im, 0, requantize(im, y, joint_scale(im, compose_input(im, 4))));
}

/* A vector along the output's channels as C,1,1 or C,1,1,1 (weights). */
static int along_channels(struct onnx_import *im, int value, int ones)
{
    int64_t dim[INFER_MAX_RANK] = {-1, 1, 1, 1, 1};

    return value < 0 || compose_rank(im, value) == 0
               ? value
               : compose_reshape(im, value, 1 + ones, dim);
}

static int convolve(struct onnx_import *im, int x, int w, const void *context)
{
    const int in[2] = {x, w};
    int y = -1;

    onnx_emit(im, GRAPH_CONV, context, in, 2, -1, &y);
    return y;
}

/* Attributes of the convolution whose weight is an input, and both operands
 * less their zero points. */
static void read_convolution(struct onnx_import *im, int weight, int x_zero,
                             int w_zero, int *spatial, union graph_attr *attr,
                             int *x, int *w)
{
    onnx_defaults(GRAPH_CONV, attr);
    onnx_spatial_rank(im, spatial);
    onnx_conv_attributes(im, *spatial, weight, &attr->conv);
    *x = compose_centred(im, compose_input(im, 0), x_zero);
    *w = compose_centred(im, compose_input(im, weight),
                         along_channels(im, w_zero, *spatial + 1));
}

int onnx_import_conv_integer(struct onnx_import *im)
{
    union graph_attr attr;
    int x, w, spatial = 1;
    int64_t most, window = 1;

    onnx_arity(im, 2, 4);
    x = compose_input(im, 0);
    w = compose_input(im, 1);
    for (int d = 2; d < compose_rank(im, w) && window <= INT32_MAX; d++)
        window *= compose_dim(im, w, d);
    most = window < 1 ? 0 : exact_terms(im, x, w) / window;
    read_convolution(im, 1, compose_input(im, 2), compose_input(im, 3),
                     &spatial, &attr, &x, &w);
    if (im->rc == 0 && attr.conv.conv.groups > 1) {
        if (most < compose_dim(im, w, 1))
            return onnx_fail(im, INFER_EUNSUPPORTED,
                             "sums of a group of channels beyond 2^24");
        return compose_output(
            im, 0, compose_cast(im, INFER_I32, convolve(im, x, w, &attr)));
    }
    return compose_output(im, 0,
                          sum_of_pieces(im, x, 1, w, 1, most, convolve, &attr));
}

int onnx_import_qlinear_conv(struct onnx_import *im)
{
    union graph_attr attr;
    bool last = false; /* in the domain com.microsoft */
    int x, w, y, bias, spatial = 1;

    onnx_arity(im, 8, 9);
    onnx_flag(im, "channels_last", &last);
    read_convolution(im, 3, compose_input(im, 2), compose_input(im, 5),
                     &spatial, &attr, &x, &w);
    y = convolve(im, last ? compose_channels_first(im, x) : x, w, &attr);
    bias = compose_input(im, 8);
    if (bias >= 0)
        y = compose_binary(
            im, KERN_ADD, y,
            compose_cast(im, INFER_F32, along_channels(im, bias, spatial)));
    y = requantize(
        im, y,
        joint_scale(im, along_channels(im, compose_input(im, 4), spatial)));
    return compose_output(im, 0, last ? compose_channels_last(im, y) : y);
}
