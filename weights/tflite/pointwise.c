/* SPDX-License-Identifier: Apache-2.0 */
/* TensorFlow Lite: element-wise operators and softmax. */
#include <math.h>
#include <string.h>

#include "kernels/base/scalar.h"
#include "weights/tflite/tflite.h"

/* ---- one argument -------------------------------------------------- */

void tflite_import_unary(struct tflite_import *im, int kind)
{
    bool swapped;
    int x;

    if (!tflite_arity(im, 1, 1) || tflite_wide_sigmoid(im, kind))
        return;
    x = tflite_in_any_order(im, &swapped);
    x = tflite_plain_unary(im, x, (enum kern_unary_kind)kind);
    tflite_out(im, 0, x, swapped);
}

/* Integers of one scale as those of another, within the bounds of q. */
static int rescale(struct tflite_import *im, int x,
                   const struct tflite_tensor *in, const struct tflite_quant *q)
{
    const struct tflite_quant from = tflite_quant(im, in);
    const double factor = (double)(from.scale / q->scale);

    return tflite_requantise(im, x, &factor, 1, 0, 2, q);
}

/* Whether input 0 and the output are integers with scales: they stay so. */
static bool stays_integer(struct tflite_import *im, struct tflite_tensor *in,
                          struct tflite_tensor *out)
{
    *in = tflite_input_tensor(im, 0);
    *out = tflite_output_tensor(im, 0);
    im->raw = tflite_is_quantised(in) && tflite_is_quantised(out);
    return im->raw;
}

/* The magnitude of integers is one before it takes the output's scale. */
void tflite_import_abs(struct tflite_import *im, int param)
{
    struct tflite_tensor in, out;
    struct tflite_quant q;
    bool swapped;
    int x;

    (void)param;
    if (!tflite_arity(im, 1, 1))
        return;
    if (stays_integer(im, &in, &out))
        q = tflite_quant(im, &out);
    x = tflite_in_any_order(im, &swapped);
    x = tflite_plain_unary(im, x, KERN_ABS);
    if (im->raw)
        x = tflite_same_quant(&in, &out)
                ? tflite_unary(im, x, KERN_CLIP, (float)q.low, (float)q.high)
                : rescale(im, x, &in, &q);
    tflite_out(im, 0, x, swapped);
}

/* Between tensors of equal scales integers are only clipped. */
void tflite_import_relu(struct tflite_import *im, int act)
{
    struct tflite_tensor in, out;
    struct tflite_quant q;
    float low = act == TFLITE_RELU_N1_TO_1 ? -1 : 0;
    float high = act == TFLITE_RELU ? INFINITY : act == TFLITE_RELU6 ? 6 : 1;
    bool swapped;
    int x;

    if (!tflite_arity(im, 1, 1))
        return;
    if (stays_integer(im, &in, &out)) {
        q = tflite_quant(im, &out);
        tflite_quant_clip(im, (enum tflite_activation)act, &q);
        low = (float)q.low;
        high = (float)q.high;
    }
    x = tflite_in_any_order(im, &swapped);
    if (im->raw && !tflite_same_quant(&in, &out))
        x = rescale(im, x, &in, &q);
    else if (act == TFLITE_RELU && !im->raw)
        x = tflite_plain_unary(im, x, KERN_RELU);
    else
        x = tflite_unary(im, x, KERN_CLIP, low, high);
    tflite_out(im, 0, x, swapped);
}

void tflite_import_relu_0_to_1(struct tflite_import *im, int param)
{
    bool swapped;
    int x;

    (void)param;
    if (!tflite_arity(im, 1, 1))
        return;
    x = tflite_in_any_order(im, &swapped);
    tflite_out(im, 0, tflite_unary(im, x, KERN_CLIP, 0, 1), swapped);
}

/* Both sides have a factor of their own; of their sum one part is 0.  slope: a
 * value that the negative side is multiplied with, or -1. */
static int leaky_integers(struct tflite_import *im, int x, int slope,
                          float alpha, const struct tflite_tensor *in,
                          const struct tflite_tensor *out)
{
    const struct tflite_quant from = tflite_quant(im, in),
                              to = tflite_quant(im, out);
    const double up = (double)(from.scale / to.scale);
    const double down = (double)(from.scale * fabsf(alpha) / to.scale);
    int above, below;

    above = tflite_unary(im, x, KERN_CLIP, 0, INFINITY);
    above = tflite_requantise(im, above, &up, 1, 0, 2, &to);
    below = tflite_unary(im, x, KERN_CLIP, -INFINITY, 0);
    if (slope >= 0)
        below = tflite_binary(im, KERN_MUL, below, slope);
    if (alpha < 0)
        below = tflite_plain_unary(im, below, KERN_NEG);
    if (alpha != 0)
        below = tflite_requantise(im, below, &down, 1, 0, 2, &to);
    return alpha != 0 ? tflite_binary(im, KERN_ADD, above, below) : above;
}

void tflite_import_leaky_relu(struct tflite_import *im, int param)
{
    const float alpha = fb_f32(&im->op.options, 0, 0);
    struct tflite_tensor in, out;
    bool swapped;
    int x;

    (void)param;
    if (!tflite_arity(im, 1, 1))
        return;
    if (!isfinite(alpha)) {
        tflite_fail(im, INFER_EFORMAT, "alpha %g", (double)alpha);
        return;
    }
    in = tflite_input_tensor(im, 0);
    out = tflite_output_tensor(im, 0);
    im->raw = tflite_is_quantised(&in) && tflite_is_quantised(&out);
    x = tflite_in_any_order(im, &swapped);
    x = im->raw ? leaky_integers(im, x, -1, alpha, &in, &out)
                : tflite_unary(im, x, KERN_LEAKY_RELU, alpha, 0);
    tflite_out(im, 0, x, swapped);
}

void tflite_import_gelu(struct tflite_import *im, int param)
{
    bool swapped;
    int x;

    (void)param;
    if (!tflite_arity(im, 1, 1))
        return;
    x = tflite_in_any_order(im, &swapped);
    x = tflite_plain_unary(
        im, x, fb_bool(&im->op.options, 0) ? KERN_GELU_TANH : KERN_GELU);
    tflite_out(im, 0, x, swapped);
}

void tflite_import_rsqrt(struct tflite_import *im, int param)
{
    bool swapped;
    int x;

    (void)param;
    if (!tflite_arity(im, 1, 1))
        return;
    x = tflite_in_any_order(im, &swapped);
    x = tflite_plain_unary(im, x, KERN_SQRT);
    x = tflite_plain_unary(im, x, KERN_RECIPROCAL);
    tflite_out(im, 0, x, swapped);
}

void tflite_import_cast(struct tflite_import *im, int param)
{
    const struct tflite_tensor out = tflite_output_tensor(im, 0);
    const enum infer_dtype to = tflite_dtype(out.type);
    bool swapped;
    int x;

    (void)param;
    if (!tflite_arity(im, 1, 1))
        return;
    if (to == INFER_NONE) {
        tflite_fail(im, INFER_EUNSUPPORTED, "a cast to what is %s",
                    tflite_type_name(out.type));
        return;
    }
    x = tflite_in_any_order(im, &swapped);
    x = tflite_cast(im, x, scalar_is_float(to) ? INFER_F32 : to);
    tflite_out(im, 0, x, swapped);
}

/* ---- to and from integers ------------------------------------------ */

/* Weights of fewer bits stay constants. */
void tflite_import_dequantize(struct tflite_import *im, int param)
{
    const struct constant *c = tflite_fixed(im, 0);
    struct constant *known[TFLITE_PROBES], *to;
    struct tflite_tensor t;
    bool swapped;
    int x;

    (void)param;
    if (!tflite_arity(im, 1, 1))
        return;
    t = tflite_input_tensor(im, 0);
    if (!c) {
        x = tflite_in_any_order(im, &swapped);
        tflite_out(im, 0, x, swapped);
        return;
    }
    if (tflite_is_quantised(&t)) {
        to = tflite_dequantised(im, &t, c, false);
    } else {
        to = tflite_constant_new(im, INFER_F32, c->rank, c->dim);
        if (to)
            scalar_convert(c->dtype, c->data, INFER_F32, to->data,
                           (size_t)constant_count(c));
    }
    if (!to)
        return;
    for (int p = 0; p < TFLITE_PROBES; p++)
        known[p] = p == 0 ? to : constant_ref(to);
    tflite_out_known(im, 0, known);
}

/* From floats, or from integers to others: there the kernels round as they do
 * after a sum. */
void tflite_import_quantize(struct tflite_import *im, int param)
{
    struct tflite_tensor in, out;
    struct tflite_quant from, to;
    double factor;
    bool swapped;
    int x;

    (void)param;
    if (!tflite_arity(im, 1, 1))
        return;
    in = tflite_input_tensor(im, 0);
    out = tflite_output_tensor(im, 0);
    if (!tflite_is_quantised(&out)) {
        tflite_fail(im, INFER_EUNSUPPORTED, "an output that is %s",
                    tflite_type_name(out.type));
        return;
    }
    im->raw = tflite_is_quantised(&in);
    x = tflite_in_any_order(im, &swapped);
    to = tflite_quant(im, &out);
    if (!im->raw && im->status == 0) {
        im->raw = true;
        x = tflite_quantise_floats(im, x, &to);
    } else if (im->status == 0) {
        from = tflite_quant(im, &in);
        factor = (double)from.scale / (double)to.scale;
        x = tflite_requantise(im, x, &factor, 1, 0, 2, &to);
    }
    tflite_out(im, 0, x, swapped);
}

/* ---- several arguments --------------------------------------------- */

/* The order in which inputs first .. n-1 are combined, and their rank. */
static bool common(struct tflite_import *im, int n, int *rank)
{
    bool any = false;

    *rank = 0;
    for (int i = 0; i < n; i++) {
        const int r = tflite_rank(im, i);
        any = any || tflite_is_swapped(im, i);
        if (r > *rank)
            *rank = r;
    }
    return any && *rank >= 3;
}

/* MUL of integers rounds as after a sum. */
static bool multiply_integers(struct tflite_import *im, int kind)
{
    const struct tflite_tensor a = tflite_input_tensor(im, 0);
    const struct tflite_tensor b = tflite_input_tensor(im, 1);
    const struct tflite_tensor out = tflite_output_tensor(im, 0);
    struct tflite_quant qa, qb, q;
    double factor;
    bool swapped;
    int rank, in[2], x;

    if (kind != KERN_MUL || !tflite_is_quantised(&a) ||
        !tflite_is_quantised(&b) || !tflite_is_quantised(&out))
        return false;
    im->raw = true;
    qa = tflite_quant(im, &a);
    qb = tflite_quant(im, &b);
    q = tflite_quant(im, &out);
    factor = (double)(qa.scale * qb.scale / q.scale);
    tflite_quant_clip(im, tflite_activation(im, 0), &q);
    swapped = common(im, 2, &rank);
    for (int i = 0; i < 2; i++) {
        in[i] = tflite_operand(im, i, rank, swapped);
        if (a.type == TFLITE_INT16) /* products of 30 bits */
            in[i] = tflite_cast(im, in[i], INFER_I32);
    }
    x = tflite_binary(im, KERN_MUL, in[0], in[1]);
    tflite_out(im, 0, tflite_requantise(im, x, &factor, 1, 0, 2, &q), swapped);
    return true;
}

static bool is_power_of_two(float v)
{
    int exponent;

    return frexp((double)v, &exponent) == 0.5;
}

/* ADD and SUB of integers: both are brought to a scale that leaves `left` more
 * bits, then their sum to the output's.  Files of 16 bits may ask for shifts
 * alone where all scales are powers of two. */
static bool add_integers(struct tflite_import *im, int kind)
{
    const struct tflite_tensor t[2] = {tflite_input_tensor(im, 0),
                                       tflite_input_tensor(im, 1)};
    const struct tflite_tensor out = tflite_output_tensor(im, 0);
    const int left = out.type == TFLITE_INT16 ? 15 : 20;
    struct graph_requantize how = {
        .requantize = {.left = left, .low = INT32_MIN, .high = INT32_MAX},
        .to = INFER_I32};
    struct tflite_quant from[2], q;
    struct tflite_factor f;
    double largest;
    bool swapped;
    int rank, x[2];

    if ((kind != KERN_ADD && kind != KERN_SUB) || !tflite_is_quantised(&t[0]) ||
        !tflite_is_quantised(&t[1]) || !tflite_is_quantised(&out) ||
        t[0].type != out.type || t[1].type != out.type)
        return false;
    for (int i = 0; i < 2; i++)
        from[i] = tflite_quant(im, &t[i]);
    q = tflite_quant(im, &out);
    if (out.type == TFLITE_INT16 && fb_u8(&im->op.options, 1, 1) != 0 &&
        is_power_of_two(from[0].scale) && is_power_of_two(from[1].scale) &&
        is_power_of_two(q.scale))
        return false;
    im->raw = true;
    tflite_quant_clip(im, tflite_activation(im, 0), &q);
    swapped = common(im, 2, &rank);
    largest = 2 * fmax((double)from[0].scale, (double)from[1].scale);
    x[0] = x[1] = -1;
    for (int i = 0; i < 2 && im->status == 0; i++) {
        f = tflite_factor((double)from[i].scale / largest);
        x[i] = tflite_multiply(im, tflite_operand(im, i, rank, swapped),
                               kind == KERN_ADD && i == 1 ? x[0] : -1, &f, 1, 0,
                               &how);
    }
    if (kind == KERN_SUB)
        x[1] = tflite_binary(im, KERN_SUB, x[0], x[1]);
    f = tflite_factor(largest / ldexp((double)q.scale, left));
    how.requantize =
        (struct kern_requantize){.low = (int)q.low, .high = (int)q.high};
    how.to = INFER_F32;
    tflite_out(im, 0, tflite_multiply(im, x[1], -1, &f, 1, 0, &how), swapped);
    return true;
}

/* Operators with a fused activation. */
static bool has_activation(int code)
{
    return code == 0 || code == 18 || code == 41 || code == 42;
}

void tflite_import_binary(struct tflite_import *im, int kind)
{
    bool swapped;
    int rank, a, b, x;

    if (!tflite_arity(im, 2, 2) || multiply_integers(im, kind) ||
        add_integers(im, kind))
        return;
    swapped = common(im, 2, &rank);
    a = tflite_operand(im, 0, rank, swapped);
    b = tflite_operand(im, 1, rank, swapped);
    x = tflite_binary(im, (enum kern_binary_kind)kind, a, b);
    if (has_activation(im->op.code))
        x = tflite_fused(im, x, 0);
    tflite_out(im, 0, x, swapped);
}

void tflite_import_not_equal(struct tflite_import *im, int param)
{
    bool swapped;
    int rank, x;

    (void)param;
    if (!tflite_arity(im, 2, 2))
        return;
    swapped = common(im, 2, &rank);
    x = tflite_binary(im, KERN_EQUAL, tflite_operand(im, 0, rank, swapped),
                      tflite_operand(im, 1, rank, swapped));
    tflite_out(im, 0, tflite_plain_unary(im, x, KERN_NOT), swapped);
}

/* The square of a difference of 8 bits: both sides take a scale that leaves 7
 * more bits, and the square of 30 bits the output's. */
static bool difference_integers(struct tflite_import *im)
{
    const struct tflite_tensor t[2] = {tflite_input_tensor(im, 0),
                                       tflite_input_tensor(im, 1)};
    const struct tflite_tensor out = tflite_output_tensor(im, 0);
    struct graph_requantize how = {
        .requantize = {.left = 7, .low = INT32_MIN, .high = INT32_MAX},
        .to = INFER_I32};
    struct tflite_quant from[2], q;
    struct tflite_factor f;
    double largest;
    bool swapped;
    int rank, x[2];

    for (int i = 0; i < 2; i++)
        if (t[i].type != TFLITE_INT8 || !tflite_is_quantised(&t[i]))
            return false;
    if (out.type != TFLITE_INT8 || !tflite_is_quantised(&out))
        return false;
    for (int i = 0; i < 2; i++)
        from[i] = tflite_quant(im, &t[i]);
    q = tflite_quant(im, &out);
    im->raw = true;
    swapped = common(im, 2, &rank);
    largest = 2 * fmax((double)from[0].scale, (double)from[1].scale);
    for (int i = 0; i < 2; i++) {
        f = tflite_factor((double)from[i].scale / largest);
        x[i] = tflite_multiply(im, tflite_operand(im, i, rank, swapped), -1, &f,
                               1, 0, &how);
    }
    x[0] = tflite_binary(im, KERN_SUB, x[0], x[1]);
    x[0] = tflite_binary(im, KERN_MUL, x[0], x[0]);
    largest = largest * largest / ((double)(1 << 14) * (double)q.scale);
    x[0] = tflite_requantise(im, x[0], &largest, 1, 0, 2, &q);
    tflite_out(im, 0, x[0], swapped);
    return true;
}

/* x^2 of one input, (a - b)^2 of two. */
void tflite_import_square(struct tflite_import *im, int difference)
{
    bool swapped;
    int rank, x;

    if (!tflite_arity(im, difference ? 2 : 1, difference ? 2 : 1) ||
        (difference && difference_integers(im)))
        return;
    swapped = common(im, difference ? 2 : 1, &rank);
    x = tflite_operand(im, 0, rank, swapped);
    if (difference)
        x = tflite_binary(im, KERN_SUB, x,
                          tflite_operand(im, 1, rank, swapped));
    tflite_out(im, 0, tflite_binary(im, KERN_MUL, x, x), swapped);
}

/* Down, not towards zero: (a - a mod b) / b of integers. */
void tflite_import_floor_div(struct tflite_import *im, int param)
{
    bool swapped;
    int rank, a, b, x;

    (void)param;
    if (!tflite_arity(im, 2, 2))
        return;
    swapped = common(im, 2, &rank);
    a = tflite_operand(im, 0, rank, swapped);
    b = tflite_operand(im, 1, rank, swapped);
    if (im->status < 0)
        return;
    if (scalar_is_integer(tflite_value_type(im, a, 0)->dtype)) {
        x = tflite_binary(im, KERN_MOD, a, b);
        x = tflite_binary(im, KERN_SUB, a, x);
        x = tflite_binary(im, KERN_DIV, x, b);
    } else {
        x = tflite_binary(im, KERN_DIV, a, b);
        x = tflite_plain_unary(im, x, KERN_FLOOR);
    }
    tflite_out(im, 0, x, swapped);
}

void tflite_import_add_n(struct tflite_import *im, int param)
{
    const int n = im->op.n_in;
    bool swapped;
    int rank, x;

    (void)param;
    if (!tflite_arity(im, 1, GRAPH_MAX_INPUTS))
        return;
    swapped = common(im, n, &rank);
    x = tflite_operand(im, 0, rank, swapped);
    for (int i = 1; i < n && im->status == 0; i++)
        x = tflite_binary(im, KERN_ADD, x,
                          tflite_operand(im, i, rank, swapped));
    tflite_out(im, 0, x, swapped);
}

/* SELECT takes a condition of rank 1 as one of rows. */
void tflite_import_select(struct tflite_import *im, int broadcasts)
{
    bool swapped;
    int rank, in[3], x;

    if (!tflite_arity(im, 3, 3))
        return;
    swapped = common(im, 3, &rank);
    if (!broadcasts && tflite_rank(im, 0) == 1 && rank > 1) {
        tflite_fail(im, INFER_EUNSUPPORTED, "a condition for each row");
        return;
    }
    for (int i = 0; i < 3; i++)
        in[i] = tflite_operand(im, i, rank, swapped);
    x = tflite_emit(im, GRAPH_WHERE, NULL, in, 3);
    tflite_out(im, 0, x, swapped);
}

/* The slope's shape lacks the batch: one a channel, or one an element. */
void tflite_import_prelu(struct tflite_import *im, int param)
{
    struct tflite_tensor from, slope, to;
    bool swapped;
    int rank, in[2], x;

    (void)param;
    if (!tflite_arity(im, 2, 2))
        return;
    from = tflite_input_tensor(im, 0);
    slope = tflite_input_tensor(im, 1);
    to = tflite_output_tensor(im, 0);
    im->raw = tflite_is_quantised(&from) && tflite_is_quantised(&slope) &&
              slope.scale.count == 1 && tflite_is_quantised(&to);
    swapped = common(im, 2, &rank);
    in[0] = tflite_operand(im, 0, rank, swapped);
    in[1] = tflite_operand(im, 1, rank, swapped);
    x = im->raw ? leaky_integers(im, in[0], in[1],
                                 tflite_quant(im, &slope).scale, &from, &to)
                : tflite_emit(im, GRAPH_PRELU, NULL, in, 2);
    tflite_out(im, 0, x, swapped);
}

/* ---- softmax ------------------------------------------------------- */

/* Over the last axis. */
void tflite_import_softmax(struct tflite_import *im, int log)
{
    const float beta = log ? 1 : fb_f32(&im->op.options, 0, 0);
    union graph_attr attr;
    bool swapped;
    int x, rank;

    if (!tflite_arity(im, 1, 1))
        return;
    rank = tflite_rank(im, 0);
    if (rank < 1 || !isfinite(beta)) {
        tflite_fail(im, INFER_EFORMAT, "beta %g, input of rank %d",
                    (double)beta, rank);
        return;
    }
    if (!log && tflite_wide_softmax(im, beta))
        return;
    x = tflite_in_any_order(im, &swapped);
    if (beta != 1)
        x = tflite_unary(im, x, KERN_LINEAR, beta, 0);
    tflite_defaults(GRAPH_SOFTMAX, &attr);
    attr.axis.axis = tflite_map_axis(rank - 1, rank, swapped);
    attr.axis.log = log;
    x = tflite_emit(im, GRAPH_SOFTMAX, &attr, &x, 1);
    tflite_out(im, 0, x, swapped);
}
