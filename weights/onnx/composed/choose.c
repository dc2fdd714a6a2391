/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX operators that go along an axis: running sums, the largest elements,
 * one-hot codes, sequences in reverse, parts of a fixed size. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/scalar.h"
#include "weights/onnx/composed/compose.h"

/* ---- CumSum, CumProd ----------------------------------------------- */

int onnx_import_cumulate(struct onnx_import *im)
{
    union graph_attr attr;
    int64_t axis = 0;
    int in, n = -1;

    onnx_arity(im, 2, 2);
    onnx_defaults(GRAPH_CUMULATE, &attr);
    onnx_flag(im, "exclusive", &attr.cumulate.exclusive);
    onnx_flag(im, "reverse", &attr.cumulate.reverse);
    attr.cumulate.product = im->param != 0;
    onnx_input_ints(im, 1, "the axis", 1, &axis, &n);
    in = compose_input(im, 0);
    if (im->rc == 0 &&
        (n != 1 || axis < -INFER_MAX_RANK || axis >= INFER_MAX_RANK))
        return onnx_fail(im, INFER_EFORMAT, "axis %lld", (long long)axis);
    attr.cumulate.axis = (int)axis;
    return onnx_emit(im, GRAPH_CUMULATE, &attr, &in, 1, 0, NULL);
}

/* ---- TopK ---------------------------------------------------------- */

int onnx_import_top_k(struct onnx_import *im)
{
    bool largest = true, sorted = true;
    union graph_attr attr;
    int64_t k = -1;
    int x, at, n = 1;

    onnx_arity(im, im->opset < 10 ? 1 : 2, im->opset < 10 ? 1 : 2);
    onnx_flag(im, "largest", &largest);
    onnx_flag(im, "sorted", &sorted); /* sorted is one of all orders */
    x = compose_input(im, 0);
    onnx_defaults(GRAPH_TOP_K, &attr);
    attr.top_k.axis = compose_axis(im, x, -1);
    if (im->opset < 10)
        onnx_int(im, "k", 0, INT32_MAX, &k);
    else
        onnx_input_ints(im, 1, "k", 1, &k, &n);
    if (im->rc == 0 && (n != 1 || k < 0 || k > INT32_MAX))
        return onnx_fail(im, INFER_EFORMAT, "k is %lld", (long long)k);
    attr.top_k.k = (int)k;
    attr.top_k.smallest = !largest;
    onnx_emit(im, GRAPH_TOP_K, &attr, &x, 1, onnx_has_output(im, 1) ? 1 : -1,
              &at);
    if (onnx_has_output(im, 0))
        compose_output(im, 0,
                       compose_gather_elements(im, x, at, attr.top_k.axis));
    return im->rc;
}

/* ---- one-hot codes ------------------------------------------------- */

/* 1 at the first largest element of each line, else 0. */
int onnx_import_hardmax(struct onnx_import *im)
{
    int64_t row[2] = {0, -1};
    union graph_attr attr;
    int x, flat, at, axis;

    onnx_arity(im, 1, 1);
    x = flat = compose_input(im, 0);
    axis = compose_axis(im, x, im->opset < 13 ? 1 : -1);
    if (im->opset < 13) { /* a matrix: dimensions before the axis, the others */
        for (int d = axis; d < compose_rank(im, x) && axis != 1; d++)
            if (!checked_mul_i64(row[1] < 0 ? 1 : row[1], compose_dim(im, x, d),
                                 &row[1]))
                return onnx_fail(im, INFER_EFORMAT, "the input overflows");
        row[0] = axis == 1 ? 0 : axis == 0 ? 1 : -1;
        flat = compose_reshape(im, x, 2, row);
        axis = 1;
    }
    onnx_defaults(GRAPH_ARG_REDUCE, &attr);
    attr.axis.axis = axis;
    attr.axis.keep_dims = true;
    onnx_emit(im, GRAPH_ARG_REDUCE, &attr, &flat, 1, -1, &at);
    at = compose_binary(im, KERN_EQUAL, at,
                        compose_count(im, compose_dim(im, flat, axis),
                                      compose_rank(im, flat), axis));
    at = compose_cast(im, compose_dtype(im, x), at);
    if (flat != x) {
        int64_t dim[INFER_MAX_RANK] = {row[0] == 0 ? 0 : -1};

        for (int d = 1; d < compose_rank(im, x); d++)
            dim[d] = compose_dim(im, x, d);
        at = compose_reshape(im, at, compose_rank(im, x), dim);
    }
    return compose_output(im, 0, at);
}

/* The one number of a constant, at most INT32_MAX; -1: no depth. */
static int64_t depth_of(const struct constant *c)
{
    const double real = scalar_load(c->dtype, c->data, 0);

    return real >= 0 && real <= INT32_MAX ? (int64_t)real : -1;
}

/* indices, depth, (off, on): a new dimension of `depth` elements, `on` at the
 * index, which counts from the end where it is negative. */
int onnx_import_one_hot(struct onnx_import *im)
{
    int stated, axis = 0, at, value, count, n = -1;
    struct constant *depth;
    int64_t size;

    onnx_arity(im, 3, 3);
    stated = onnx_axis(im, -1);
    onnx_input_constant(im, 1, &depth);
    at = compose_input(im, 0);
    value = compose_input(im, 2);
    compose_need_rank(im, value, 1, 1);
    if (compose_dim(im, value, 0) != 2)
        onnx_fail(im, INFER_EFORMAT, "%lld values, expected 2: off and on",
                  (long long)compose_dim(im, value, 0));
    if (im->rc == 0)
        im->rc = op_axis(stated, compose_rank(im, at) + 1, &axis, im->err);
    if (im->rc < 0)
        return im->rc;
    if (!depth || constant_count(depth) != 1)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "the depth must be a constant number");
    size = depth_of(depth);
    if (size < 1)
        return onnx_fail(im, INFER_EFORMAT, "a depth of %lld", (long long)size);
    at = compose_cast(im, INFER_I64, at);
    n = compose_binary(im, KERN_ADD, at, compose_integer(im, INFER_I64, size));
    at = compose_where(
        im,
        compose_binary(im, KERN_LESS, at, compose_integer(im, INFER_I64, 0)), n,
        at);
    at = compose_unsqueeze(im, at, axis);
    count = compose_count(im, size, compose_rank(im, at), axis);
    at = compose_binary(im, KERN_EQUAL, at, count);
    return compose_output(im, 0,
                          compose_where(im, at,
                                        compose_slice(im, value, 0, 1, 2, 1),
                                        compose_slice(im, value, 0, 0, 1, 1)));
}

/* ---- ReduceLogSumExp ----------------------------------------------- */

/* log of the sum of exp(x - top), plus top, over one axis.  A top that is
 * infinite is replaced by the largest number, so that nothing is NaN. */
static int log_sum_exp(struct onnx_import *im, int x, int axis)
{
    int top = compose_reduce(im, KERN_REDUCE_MAX, x, axis);

    top = compose_clip(im, -(double)FLT_MAX, (double)FLT_MAX, top);
    x = compose_unary(im, KERN_EXP, compose_binary(im, KERN_SUB, x, top));
    x = compose_reduce(im, KERN_REDUCE_SUM, x, axis);
    return compose_binary(im, KERN_ADD, compose_unary(im, KERN_LOG, x), top);
}

int onnx_import_log_sum_exp(struct onnx_import *im)
{
    int64_t axes[INFER_MAX_RANK];
    bool keep = true, noop = false;
    unsigned seen = 0;
    int x, n = 0;

    onnx_arity(im, 1, im->opset >= 18 ? 2 : 1);
    onnx_flag(im, "keepdims", &keep);
    onnx_flag(im, "noop_with_empty_axes", &noop);
    onnx_axes(im, "axes", 1, 18, axes, &n);
    x = compose_input(im, 0);
    if (n == 0 && !noop)
        for (; n < compose_rank(im, x); n++)
            axes[n] = n;
    for (int i = 0; i < n && im->rc == 0; i++) {
        int axis;

        if (axes[i] < -INFER_MAX_RANK || axes[i] >= INFER_MAX_RANK)
            return onnx_fail(im, INFER_EFORMAT, "axis %lld",
                             (long long)axes[i]);
        im->rc = op_axis_once((int)axes[i], compose_rank(im, x), &seen, &axis,
                              im->err);
        axes[i] = axis;
        if (im->rc == 0 && compose_free_dim(im, x, axis) == 0)
            return onnx_fail(im, INFER_EUNSUPPORTED,
                             "the extreme of an empty tensor");
        x = log_sum_exp(im, x, axis);
    }
    if (!keep && n > 0)
        onnx_emit_dims(im, GRAPH_SQUEEZE, x, n, axes, -1, &x);
    return compose_output(im, 0, x);
}

/* ---- ReverseSequence ----------------------------------------------- */

/* One length for each line, none beyond the lines where they are known. */
static int check_lengths(struct onnx_import *im, int batch, int time)
{
    const struct onnx_small *const *small;

    if (onnx_input_small(im, 1, &small) < 0)
        return im->rc;
    for (int p = 0; p < im->probes; p++) {
        struct graph_type x, length;

        onnx_input_type(im, 0, p, &x);
        if (onnx_input_type(im, 1, p, &length) < 0)
            return im->rc;
        if (length.rank != 1 || length.dim[0] != x.dim[batch])
            return onnx_fail(im, INFER_EFORMAT,
                             "%lld lengths for a batch of %lld",
                             (long long)(length.rank == 1 ? length.dim[0] : 0),
                             (long long)x.dim[batch]);
        for (int64_t k = 0; small && small[p]->i && k < small[p]->count; k++)
            if (small[p]->i[k] < 0 || small[p]->i[k] > x.dim[time])
                return onnx_fail(
                    im, INFER_EFORMAT, "length %lld of an axis of %lld",
                    (long long)small[p]->i[k], (long long)x.dim[time]);
    }
    return 0;
}

/* Element t of a line comes from length - 1 - t where t is below the length,
 * else from t. */
int onnx_import_reverse_sequence(struct onnx_import *im)
{
    int64_t time = 0, batch = 1, n, shape[INFER_MAX_RANK];
    int x, length, t, back, at, rank;

    onnx_arity(im, 2, 2);
    onnx_int(im, "time_axis", 0, 1, &time);
    onnx_int(im, "batch_axis", 0, 1, &batch);
    x = compose_input(im, 0);
    compose_need_rank(im, x, 2, INFER_MAX_RANK);
    if (im->rc == 0 && time == batch)
        return onnx_fail(im, INFER_EFORMAT, "time and batch are one axis");
    if (im->rc < 0 || check_lengths(im, (int)batch, (int)time) < 0)
        return im->rc;
    rank = compose_rank(im, x);
    n = compose_dim(im, x, (int)time);
    for (int d = 0; d < rank; d++)
        shape[d] = d == batch ? -1 : 1;
    length = compose_reshape(
        im, compose_cast(im, INFER_I64, compose_input(im, 1)), rank, shape);
    t = compose_count(im, n, rank, (int)time);
    back = compose_binary(
        im, KERN_SUB, length,
        compose_binary(im, KERN_ADD, t, compose_integer(im, INFER_I64, 1)));
    at = compose_where(im, compose_binary(im, KERN_LESS, t, length), back, t);
    for (int d = 0; d < rank; d++)
        shape[d] = d < 2 ? 1 : compose_dim(im, x, d);
    at = compose_expand(im, at, rank, shape);
    return compose_output(im, 0, compose_gather_elements(im, x, at, (int)time));
}

/* ---- CenterCropPad ------------------------------------------------- */

/* Dimension `axis` becomes `want` elements: its middle, or with zeros around
 * it. */
static int center(struct onnx_import *im, int x, int axis, int64_t want)
{
    const int64_t n = compose_dim(im, x, axis);

    if (im->rc == 0 && (want < 0 || want > INT32_MAX || n > INT32_MAX)) {
        onnx_fail(im, INFER_EFORMAT, "size %lld", (long long)want);
        return -1;
    }
    if (want < n)
        return compose_slice(im, x, axis, (n - want) / 2, (n - want) / 2 + want,
                             1);
    if (want == n)
        return x;
    return compose_pad(im, x, axis, (int)((want - n) / 2),
                       (int)(want - n - (want - n) / 2), 0);
}

int onnx_import_center_crop_pad(struct onnx_import *im)
{
    int64_t want[INFER_MAX_RANK], axes[INFER_MAX_RANK];
    int x, n = -1, n_axes = -1;
    unsigned seen = 0;

    onnx_arity(im, 2, 2);
    onnx_input_ints(im, 1, "the shape", INFER_MAX_RANK, want, &n);
    onnx_ints(im, "axes", INFER_MAX_RANK, axes, &n_axes);
    x = compose_input(im, 0);
    if (n_axes < 0)
        for (n_axes = 0; n_axes < compose_rank(im, x); n_axes++)
            axes[n_axes] = n_axes;
    if (im->rc == 0 && n != n_axes)
        return onnx_fail(im, INFER_EFORMAT, "%d sizes for %d axes", n, n_axes);
    for (int i = 0; i < n && im->rc == 0; i++) {
        int axis;

        if (axes[i] < -INFER_MAX_RANK || axes[i] >= INFER_MAX_RANK)
            return onnx_fail(im, INFER_EFORMAT, "axis %lld",
                             (long long)axes[i]);
        im->rc = op_axis_once((int)axes[i], compose_rank(im, x), &seen, &axis,
                              im->err);
        if (im->rc == 0)
            x = center(im, x, axis, want[i]);
    }
    return compose_output(im, 0, x);
}
