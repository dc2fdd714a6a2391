/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ONNX Det: determinants of square matrices, the last two dimensions.
 *
 * Elimination with the largest element of the first column as the pivot.  Each
 * step leaves a matrix that is smaller by a row and a column and multiplies the
 * result by the pivot, so that the graph grows with the matrix: large ones are
 * refused.
 */
#include "weights/onnx/composed/compose.h"

#define MOST 32

/* Rows or columns from `begin` on. */
static int from(struct onnx_import *im, int x, int axis, int64_t begin)
{
    return compose_slice(im, x, axis, begin, INT64_MAX, 1);
}

/* The pivot of x, n by n, with the sign of the rows that change places; *x
 * becomes what is left. */
static int eliminate(struct onnx_import *im, int *x, int64_t n)
{
    const int rank = compose_rank(im, *x), row = rank - 2, column = rank - 1;
    const int zero = compose_number(im, compose_dtype(im, *x), 0);
    const int one = compose_number(im, compose_dtype(im, *x), 1);
    const int first = compose_slice(im, *x, column, 0, 1, 1);
    union graph_attr attr;
    int at = -1, chosen, pivots, pivot, rest, factor, divisor;

    onnx_defaults(GRAPH_ARG_REDUCE, &attr);
    attr.axis.axis = row;
    attr.axis.keep_dims = true;
    rest = compose_unary(im, KERN_ABS, first);
    onnx_emit(im, GRAPH_ARG_REDUCE, &attr, &rest, 1, -1, &at);
    chosen =
        compose_binary(im, KERN_EQUAL, at, compose_count(im, n, rank, row));
    pivots = compose_reduce(im, KERN_REDUCE_SUM,
                            compose_where(im, chosen, *x, zero), row);
    pivot = compose_slice(im, pivots, column, 0, 1, 1);
    /* The first row takes the place of the pivot's. */
    rest = from(
        im, compose_where(im, chosen, compose_slice(im, *x, row, 0, 1, 1), *x),
        row, 1);
    divisor = compose_where(im, compose_binary(im, KERN_EQUAL, pivot, zero),
                            one, pivot);
    factor = compose_binary(im, KERN_DIV,
                            compose_slice(im, rest, column, 0, 1, 1), divisor);
    *x = compose_binary(
        im, KERN_SUB, from(im, rest, column, 1),
        compose_binary(im, KERN_MUL, factor, from(im, pivots, column, 1)));
    return compose_where(
        im,
        compose_binary(im, KERN_EQUAL, at, compose_integer(im, INFER_I64, 0)),
        pivot, compose_unary(im, KERN_NEG, pivot));
}

int onnx_import_det(struct onnx_import *im)
{
    int x, y = -1;
    int64_t n, axes[2];

    onnx_arity(im, 1, 1);
    x = compose_input(im, 0);
    compose_need_rank(im, x, 2, INFER_MAX_RANK);
    n = compose_dim(im, x, -1);
    if (im->rc == 0 && compose_dim(im, x, -2) != n)
        return onnx_fail(im, INFER_EFORMAT, "matrices of %lldx%lld",
                         (long long)compose_dim(im, x, -2), (long long)n);
    if (im->rc == 0 && (n < 1 || n > MOST))
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "matrices of %lldx%lld, at most %d", (long long)n,
                         (long long)n, MOST);
    for (; n > 1 && im->rc == 0; n--) {
        const int pivot = eliminate(im, &x, n);

        y = y < 0 ? pivot : compose_binary(im, KERN_MUL, y, pivot);
    }
    y = y < 0 ? x : compose_binary(im, KERN_MUL, y, x);
    axes[0] = compose_rank(im, x) - 2;
    axes[1] = compose_rank(im, x) - 1;
    return onnx_emit_dims(im, GRAPH_SQUEEZE, y, 2, axes, 0, NULL);
}
