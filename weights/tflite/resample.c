/* SPDX-License-Identifier: Apache-2.0 */
/* TensorFlow Lite: padding, resizing, depth and space, reductions. */
#include <math.h>
#include <string.h>

#include "kernels/base/scalar.h"
#include "weights/tflite/tflite.h"

/* ---- padding ------------------------------------------------------- */

/* Input 1: a pair of amounts an axis. */
static bool amounts(struct tflite_import *im, bool swapped,
                    struct kern_pad *pad)
{
    const struct constant *c = tflite_fixed(im, 1);
    const int rank = tflite_rank(im, 0);

    if (im->status < 0)
        return false;
    if (!c) {
        tflite_fail(im, INFER_EUNSUPPORTED, "pads must be constant");
        return false;
    }
    if (c->rank != 2 || c->dim[0] != rank || c->dim[1] != 2 ||
        !scalar_is_integer(c->dtype)) {
        tflite_fail(im, INFER_EFORMAT, "pads are no %d pairs of integers",
                    rank);
        return false;
    }
    for (int i = 0; i < rank; i++) {
        const int64_t begin = scalar_load_i64(c->dtype, c->data, 2 * i);
        const int64_t end = scalar_load_i64(c->dtype, c->data, 2 * i + 1);
        const int a = tflite_map_axis(i, rank, swapped);
        if (begin < 0 || begin > OP_MAX_STEP || end < 0 || end > OP_MAX_STEP) {
            tflite_fail(im, INFER_EFORMAT, "pads %lld and %lld",
                        (long long)begin, (long long)end);
            return false;
        }
        pad->begin[a] = (int)begin;
        pad->end[a] = (int)end;
    }
    return true;
}

static void pad(struct tflite_import *im, enum kern_pad_mode mode, float value)
{
    const bool swapped = tflite_is_swapped(im, 0);
    union graph_attr attr;
    int x;

    tflite_defaults(GRAPH_PAD, &attr);
    attr.pad.mode = mode;
    attr.pad.value = value;
    if (!amounts(im, swapped, &attr.pad))
        return;
    x = tflite_in(im, 0, swapped);
    tflite_out(im, 0, tflite_emit(im, GRAPH_PAD, &attr, &x, 1), swapped);
}

/* Of integers the pad is the zero point, which is 0 here. */
void tflite_import_pad(struct tflite_import *im, int valued)
{
    const struct constant *c;
    struct tflite_tensor t;
    double value = 0;

    if (!tflite_arity(im, valued ? 3 : 2, valued ? 3 : 2))
        return;
    if (valued) {
        c = tflite_fixed(im, 2);
        if (!c || constant_count(c) != 1) {
            tflite_fail(im, INFER_EUNSUPPORTED,
                        "the value of the pads must be a constant number");
            return;
        }
        value = scalar_load(c->dtype, c->data, 0);
        if (isnan(value)) {
            tflite_fail(im, INFER_EFORMAT, "pads that are not a number");
            return;
        }
        t = tflite_input_tensor(im, 2);
        if (tflite_is_quantised(&t)) {
            const struct tflite_quant q = tflite_quant(im, &t);
            value = (double)q.scale * (value - (double)q.zero);
        }
    }
    pad(im, KERN_PAD_CONSTANT, (float)value);
}

/* `count` entries of an axis from `begin` down to `end`.  An axis of a free
 * size that has fewer is refused by the reshape. */
static int backwards(struct tflite_import *im, int x, int axis, int64_t begin,
                     int64_t end, int count)
{
    int64_t shape[INFER_MAX_RANK] = {0};
    union graph_attr attr;

    tflite_defaults(GRAPH_SLICE, &attr);
    attr.slice = (struct graph_slice){.n_axes = 1,
                                      .axis = {axis},
                                      .begin = {begin},
                                      .end = {end},
                                      .step = {-1}};
    x = tflite_emit(im, GRAPH_SLICE, &attr, &x, 1);
    if (im->status < 0)
        return -1;
    shape[axis] = count;
    return tflite_dims(im, GRAPH_RESHAPE, x, tflite_value_type(im, x, 0)->rank,
                       shape);
}

/* Whether the pads are at most as wide as the axes whose sizes are known. */
static bool fits_mirror(struct tflite_import *im, bool swapped,
                        const struct kern_pad *pad)
{
    const struct graph_type t = tflite_type(im, 0, 0);

    for (int i = 0; i < t.rank; i++) {
        const int a = tflite_map_axis(i, t.rank, swapped);
        bool known = true;

        for (int p = 1; p < im->probes; p++)
            known &= tflite_type(im, 0, p).dim[i] == t.dim[i];
        if (known && (pad->begin[a] > t.dim[i] || pad->end[a] > t.dim[i])) {
            tflite_fail(im, INFER_EFORMAT, "pads %d and %d mirror %lld entries",
                        pad->begin[a], pad->end[a], (long long)t.dim[i]);
            return false;
        }
    }
    return true;
}

/* Mirrors with the entries at the ends repeated. */
static void pad_symmetric(struct tflite_import *im)
{
    const bool swapped = tflite_is_swapped(im, 0);
    struct kern_pad pad = {.mode = KERN_PAD_CONSTANT};
    union graph_attr attr;
    int x;

    if (!amounts(im, swapped, &pad) || !fits_mirror(im, swapped, &pad))
        return;
    x = tflite_in(im, 0, swapped);
    for (int d = 0; d < INFER_MAX_RANK; d++) {
        int part[3], n = 0;

        if (pad.begin[d] > 0)
            part[n++] =
                backwards(im, x, d, pad.begin[d] - 1, INT64_MIN, pad.begin[d]);
        part[n++] = x;
        if (pad.end[d] > 0)
            part[n++] =
                backwards(im, x, d, -1, -(int64_t)pad.end[d] - 1, pad.end[d]);
        tflite_defaults(GRAPH_CONCAT, &attr);
        attr.axis.axis = d;
        if (n > 1)
            x = tflite_emit(im, GRAPH_CONCAT, &attr, part, n);
    }
    tflite_out(im, 0, x, swapped);
}

void tflite_import_mirror_pad(struct tflite_import *im, int param)
{
    const unsigned mode = fb_u8(&im->op.options, 0, 0);

    (void)param;
    if (!tflite_arity(im, 2, 2))
        return;
    if (mode == 0)
        pad(im, KERN_PAD_REFLECT, 0);
    else if (mode == 1)
        pad_symmetric(im);
    else
        tflite_fail(im, INFER_EUNSUPPORTED, "mirror mode %u", mode);
}

/* ---- resizing ------------------------------------------------------ */

/* The size of the output, as a scale where it follows a free input. */
static bool target_size(struct tflite_import *im, struct graph_resize *r)
{
    int64_t size[2], other[2];
    const struct graph_type x = tflite_type(im, 0, 0);

    if (tflite_ints_at(im, 1, 0, "the size", 2, size) != 2) {
        tflite_fail(im, INFER_EFORMAT, "no height and width");
        return false;
    }
    for (int i = 0; i < 2; i++)
        if (size[i] < 1 || size[i] > INT32_MAX) {
            tflite_fail(im, INFER_EFORMAT, "a size of %lld",
                        (long long)size[i]);
            return false;
        }
    r->n_sizes = 4;
    for (int i = 0; i < 2; i++)
        r->size[2 + i] = size[i];
    if (tflite_fixed(im, 1))
        return true;
    /* Whole multiples of the input at every probe. */
    r->n_sizes = 0;
    for (int i = 0; i < 2; i++) {
        const int64_t times = size[i] / x.dim[1 + i];

        r->resize.scale[2 + i] = (float)times;
    }
    for (int p = 0; p < im->probes; p++) {
        const struct graph_type t = tflite_type(im, 0, p);
        if (tflite_ints_at(im, 1, p, "the size", 2, other) != 2)
            return false;
        for (int i = 0; i < 2; i++)
            if (other[i] != t.dim[1 + i] * (size[i] / x.dim[1 + i])) {
                tflite_fail(im, INFER_EUNSUPPORTED,
                            "a size that is no multiple of its input's");
                return false;
            }
    }
    return true;
}

/* ---- resizing of integers ------------------------------------------ */

/* The reference kernel for signed integers of 8 bits has weights of 10 bits a
 * dimension and rounds their sum of 28 bits once, halves away from zero.  Here
 * a dimension is a product with the matrix of its weights; between the two the
 * integers are split into 10 bits and the rest, so that floats hold every sum.
 */
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

static bool has_bilinear_integers(struct tflite_import *im,
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

static int bilinear_integers(struct tflite_import *im, int x,
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

/* Nearest: floor((i + 1/2) scale) with centres at a half, floor(i scale)
 * without, and halves up with corners in place. */
void tflite_import_resize(struct tflite_import *im, int mode)
{
    const int first = mode == KERN_BILINEAR ? 2 : 0;
    const bool corners = fb_bool(&im->op.options, first);
    const bool centres = fb_bool(&im->op.options, first + 1);
    union graph_attr attr;
    struct kern_resize *r = &attr.resize.resize;
    struct tflite_tensor in, out;
    int x;

    if (!tflite_arity(im, 2, 2))
        return;
    if (tflite_rank(im, 0) != 4 || (corners && centres)) {
        tflite_fail(im, INFER_EFORMAT, "an input of rank %d%s",
                    tflite_rank(im, 0),
                    corners ? ", or corners and centres both aligned" : "");
        return;
    }
    tflite_defaults(GRAPH_RESIZE, &attr);
    memset(&attr.resize, 0, sizeof attr.resize);
    for (int i = 0; i < INFER_MAX_RANK; i++)
        r->scale[i] = 1;
    r->mode = (enum kern_resize_mode)mode;
    r->coord = corners   ? KERN_ALIGN_CORNERS
               : centres ? KERN_HALF_PIXEL
                         : KERN_ASYMMETRIC;
    r->nearest =
        corners || centres ? KERN_ROUND_PREFER_CEIL : KERN_FLOOR_NEAREST;
    if (!target_size(im, &attr.resize))
        return;
    in = tflite_input_tensor(im, 0);
    out = tflite_output_tensor(im, 0);
    im->raw = tflite_is_quantised(&in) && tflite_same_quant(&in, &out);
    x = tflite_in(im, 0, true);
    if (im->raw && mode == KERN_BILINEAR && attr.resize.n_sizes > 0 &&
        has_bilinear_integers(im, &in, attr.resize.size + 2)) {
        const struct tflite_quant q = tflite_quant(im, &in);
        x = bilinear_integers(im, x, &q, attr.resize.size + 2, corners,
                              centres);
        tflite_out(im, 0, x, true);
        return;
    }
    x = tflite_emit(im, GRAPH_RESIZE, &attr, &x, 1);
    if (im->raw && mode == KERN_BILINEAR && im->status == 0) {
        const struct tflite_quant q = tflite_quant(im, &in);
        x = tflite_round_integers(im, x, 64, &q);
    }
    tflite_out(im, 0, x, true);
}

void tflite_import_depth_space(struct tflite_import *im, int op)
{
    union graph_attr attr;
    int x;

    if (!tflite_arity(im, 1, 1))
        return;
    if (tflite_rank(im, 0) != 4) {
        tflite_fail(im, INFER_EFORMAT, "an input of rank %d",
                    tflite_rank(im, 0));
        return;
    }
    tflite_defaults((enum graph_op)op, &attr);
    attr.depth_space.block = fb_i32(&im->op.options, 0, 0);
    attr.depth_space.crd = false;
    x = tflite_in(im, 0, true);
    tflite_out(im, 0, tflite_emit(im, (enum graph_op)op, &attr, &x, 1), true);
}

/* ---- reductions ---------------------------------------------------- */

/* Whether what is left of N,C,spatial without the axes is in the file's
 * order, and if not, whether it still is N,C,spatial. */
static bool left_swapped(const bool *gone, int rank)
{
    bool space = false;

    for (int i = 1; i < rank - 1; i++)
        space = space || !gone[i];
    return space && !gone[rank - 1];
}

/* Elements that each result of a reduction is made of; 0 where that depends on
 * a free size or the sum of so many integers would not be exact. */
static int64_t reduced(struct tflite_import *im, const bool *gone)
{
    int64_t first = 0;

    for (int p = 0; p < im->probes; p++) {
        const struct graph_type t = tflite_type(im, 0, p);
        int64_t n = 1;

        for (int d = 0; d < t.rank && n <= 65536; d++)
            n *= gone[d] ? t.dim[d] : 1;
        if (p > 0 && n != first)
            return 0;
        first = n;
    }
    return first <= 65536 ? first : 0;
}

/* A sum of integers of 16 bits, as I32: of their halves. */
static int wide_sum(struct tflite_import *im, const union graph_attr *attr,
                    int x)
{
    struct tflite_halves h = tflite_halves(im, x);

    h.high = tflite_emit(im, GRAPH_REDUCE, attr, &h.high, 1);
    h.low = tflite_emit(im, GRAPH_REDUCE, attr, &h.low, 1);
    return tflite_joined(im, &h);
}

void tflite_import_reduce(struct tflite_import *im, int kind)
{
    const bool keep = fb_bool(&im->op.options, 0);
    bool swapped, truth, gone[INFER_MAX_RANK] = {false};
    int axis[2 * INFER_MAX_RANK], rank, n, x;
    struct tflite_tensor in, out;
    union graph_attr attr;
    int64_t count = 0;

    if (!tflite_arity(im, 2, 2))
        return;
    rank = tflite_rank(im, 0);
    n = tflite_axes(im, 1, rank, axis);
    if (n < 0)
        return;
    swapped = tflite_is_swapped(im, 0) && n > 0;
    tflite_defaults(GRAPH_REDUCE, &attr);
    attr.reduce.kind = (enum kern_reduce_kind)kind;
    attr.reduce.keep_dims = keep;
    attr.reduce.n_axes = n;
    for (int i = 0; i < n; i++) {
        attr.reduce.axis[i] = tflite_map_axis(axis[i], rank, swapped);
        gone[axis[i]] = true;
    }
    /* Without the batch the rest is not N,C,spatial. */
    if (swapped && !keep && gone[0] && left_swapped(gone, rank)) {
        swapped = false;
        for (int i = 0; i < n; i++)
            attr.reduce.axis[i] = axis[i];
    }
    in = tflite_input_tensor(im, 0);
    out = tflite_output_tensor(im, 0);
    if (kind == KERN_REDUCE_MEAN && n > 0 && tflite_is_quantised(&in) &&
        tflite_is_quantised(&out))
        count = reduced(im, gone);
    im->raw = count > 0;
    if (count > 0)
        attr.reduce.kind = KERN_REDUCE_SUM;
    x = tflite_in(im, 0, swapped);
    truth = im->status == 0 && tflite_type(im, 0, 0).dtype == INFER_BOOL;
    if (truth)
        x = tflite_cast(im, x, INFER_F32);
    if (count > 0 && in.type == TFLITE_INT16)
        x = wide_sum(im, &attr, x);
    else if (n > 0)
        x = tflite_emit(im, GRAPH_REDUCE, &attr, &x, 1);
    else
        x = tflite_plain_unary(im, x, KERN_IDENTITY);
    if (count > 0 && im->status == 0) {
        const struct tflite_quant from = tflite_quant(im, &in),
                                  to = tflite_quant(im, &out);
        x = tflite_requantise_mean(im, x, (double)from.scale / (double)to.scale,
                                   count, &to);
    }
    if (truth)
        x = tflite_cast(im, x, INFER_BOOL);
    tflite_out(im, 0, x, swapped && (keep || left_swapped(gone, rank)));
}

void tflite_import_arg(struct tflite_import *im, int min)
{
    const struct tflite_tensor out = tflite_output_tensor(im, 0);
    bool gone[INFER_MAX_RANK] = {false}, swapped;
    union graph_attr attr;
    int64_t axis;
    int rank, x;

    if (!tflite_arity(im, 2, 2))
        return;
    rank = tflite_rank(im, 0);
    if (tflite_ints(im, 1, "the axis", 1, &axis) != 1) {
        tflite_fail(im, INFER_EFORMAT, "no axis");
        return;
    }
    axis = tflite_axis(im, axis, rank);
    if (im->status < 0)
        return;
    swapped = tflite_is_swapped(im, 0) && axis != 0;
    gone[axis] = true;
    tflite_defaults(GRAPH_ARG_REDUCE, &attr);
    attr.axis.axis = tflite_map_axis((int)axis, rank, swapped);
    attr.axis.min = min;
    attr.axis.keep_dims = false;
    x = tflite_in(im, 0, swapped);
    x = tflite_emit(im, GRAPH_ARG_REDUCE, &attr, &x, 1);
    x = tflite_cast(im, x, out.type == TFLITE_INT32 ? INFER_I32 : INFER_I64);
    tflite_out(im, 0, x, swapped && left_swapped(gone, rank));
}
