/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that reduce dimensions, and those along one. */
#include <math.h>

#include "kernels/base/error.h"
#include "weights/aten/aten.h"

/* The reduced dimensions as an input; empty: all of them. */
static struct pb_span axes_of(struct onnx_import *im)
{
    int64_t axis[INFER_MAX_RANK];
    const int n = aten_ints(im, "dim", INFER_MAX_RANK, axis);

    return n <= 0 ? aten_no_input() : aten_list(im, n, axis);
}

static struct pb_span reduced(struct onnx_import *im, const char *op,
                              struct pb_span x, struct pb_span axes, bool keep)
{
    struct aten_attrs a = {.n = 0};

    aten_set_int(&a, "keepdims", keep);
    return ATEN_STEP(im, op, &a, x, axes);
}

static int give_reduced(struct onnx_import *im, int i, const char *op,
                        struct pb_span x, struct pb_span axes, bool keep)
{
    struct aten_attrs a = {.n = 0};

    aten_set_int(&a, "keepdims", keep);
    return aten_give(im, i, op, &a, ATEN_N(x, axes));
}

/* Sums and products of truths and integers are integers of 64 bits. */
int aten_reduce(struct onnx_import *im)
{
    struct pb_span x = aten_tensor(im, "self");
    enum infer_dtype to = aten_dtype(im, "dtype");
    const enum infer_dtype own = aten_type_of(im, x);

    if (to == INFER_NONE && aten_row(im)->param && !aten_is_float(own))
        to = INFER_I64;
    if (to != INFER_NONE)
        x = aten_cast(im, x, to);
    return give_reduced(im, 0, aten_row(im)->onnx, x, axes_of(im),
                        aten_flag(im, "keepdim", false));
}

/* Whether any (ReduceMax) or every (ReduceMin) element is true. */
int aten_any(struct onnx_import *im)
{
    struct pb_span x = aten_cast(im, aten_tensor(im, "self"), INFER_BOOL);

    x = aten_cast(im, x, INFER_I32);
    x = reduced(im, aten_row(im)->onnx, x, axes_of(im),
                aten_flag(im, "keepdim", false));
    return aten_same(im, 0, aten_cast(im, x, INFER_BOOL));
}

/* The largest of all, of rows (with their places), or of two tensors.
 * param 0: max, 1: min. */
int aten_max(struct onnx_import *im)
{
    static const char *const reduce[] = {"ReduceMax", "ReduceMin"};
    static const char *const place[] = {"ArgMax", "ArgMin"};
    static const char *const two[] = {"Max", "Min"};
    const int kind = aten_row(im)->param;
    const struct aten_arg *dim = aten_find(im, "dim");
    const bool keep = aten_flag(im, "keepdim", false);
    struct aten_attrs a = {.n = 0};
    struct pb_span x, in[2];

    if (aten_has(im, "other")) {
        aten_operands(im, "self", "other", in);
        return aten_give(im, 0, two[kind], NULL, 2, in);
    }
    x = aten_tensor(im, "self");
    if (!dim)
        return give_reduced(im, 0, reduce[kind], x, aten_no_input(), false);
    give_reduced(im, 0, reduce[kind], x, axes_of(im), keep);
    aten_set_int(&a, "axis", aten_axis(im, "dim", aten_rank(im, x), 0));
    aten_set_int(&a, "keepdims", keep);
    return aten_give(im, 1, place[kind], &a, ATEN_N(x));
}

int aten_arg_max(struct onnx_import *im)
{
    struct pb_span x = aten_tensor(im, "self");
    struct aten_attrs a = {.n = 0};

    if (!aten_has(im, "dim")) {
        x = ATEN_STEP(im, "Reshape", NULL, x, aten_list1(im, -1));
        aten_set_int(&a, "keepdims", 0);
        aten_set_int(&a, "axis", 0);
        return ATEN_LAST(im, aten_row(im)->onnx, &a, x);
    }
    aten_set_int(&a, "axis", aten_axis(im, "dim", aten_rank(im, x), 0));
    aten_set_int(&a, "keepdims", aten_flag(im, "keepdim", false));
    return ATEN_LAST(im, aten_row(im)->onnx, &a, x);
}

/* ---- variance ------------------------------------------------------ */

/* Elements that are reduced to one, as a number of x's type. */
static struct pb_span count_of(struct onnx_import *im, struct pb_span x,
                               struct pb_span mean)
{
    const struct pb_span all = ATEN_STEP(im, "Size", NULL, x);
    const struct pb_span rest = ATEN_STEP(im, "Size", NULL, mean);

    return aten_cast(im, ATEN_STEP(im, "Div", NULL, all, rest),
                     aten_type_of(im, x));
}

/* The sum of squares by the count less the correction; param bit 0: its root,
 * bit 1: the mean is an output as well. */
int aten_variance(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");
    const double correction =
        aten_number(im, "correction", aten_flag(im, "unbiased", true) ? 1 : 0);
    const bool keep = aten_flag(im, "keepdim", false);
    const int param = aten_row(im)->param;
    const struct pb_span axes = axes_of(im);
    struct pb_span mean = reduced(im, "ReduceMean", x, axes, true), y, count;

    y = ATEN_STEP(im, "Sub", NULL, x, mean);
    y = ATEN_STEP(im, "Mul", NULL, y, y);
    if (correction == 0) {
        y = reduced(im, "ReduceMean", y, axes, keep);
    } else {
        y = reduced(im, "ReduceSum", y, axes, keep);
        count = ATEN_STEP(im, "Sub", NULL, count_of(im, x, mean),
                          aten_scalar(im, aten_type_of(im, x), correction));
        y = ATEN_STEP(im, "Div", NULL, y, count);
    }
    if (param & 1)
        aten_give(im, 0, "Sqrt", NULL, 1, &y);
    else
        aten_same(im, 0, y);
    return param & 2 ? give_reduced(im, 1, "ReduceMean", x, axes, keep)
                     : im->rc;
}

/* ---- norms --------------------------------------------------------- */

int aten_vector_norm(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self"), axes = axes_of(im);
    const double p = aten_number(im, aten_row(im)->onnx, 2);
    const bool keep = aten_flag(im, "keepdim", false);
    struct pb_span y;

    if (p == 2)
        return give_reduced(im, 0, "ReduceL2", x, axes, keep);
    if (p == 1)
        return give_reduced(im, 0, "ReduceL1", x, axes, keep);
    y = ATEN_STEP(im, "Abs", NULL, x);
    if (isinf(p))
        return give_reduced(im, 0, p > 0 ? "ReduceMax" : "ReduceMin", y, axes,
                            keep);
    if (!(p > 0))
        return onnx_fail(im, INFER_EUNSUPPORTED, "a norm of order %g", p);
    y = ATEN_STEP(im, "Pow", NULL, y, aten_scalar(im, aten_type_of(im, x), p));
    y = reduced(im, "ReduceSum", y, axes, keep);
    return ATEN_LAST(im, "Pow", NULL, y,
                     aten_scalar(im, aten_type_of(im, x), 1 / p));
}

/* ---- along one dimension ------------------------------------------- */

int aten_softmax(struct onnx_import *im)
{
    const enum infer_dtype to = aten_dtype(im, "dtype");
    struct pb_span x = aten_tensor(im, "self");
    struct aten_attrs a = {.n = 0};

    if (to != INFER_NONE)
        x = aten_cast(im, x, to);
    aten_set_int(&a, "axis", aten_axis(im, "dim", aten_rank(im, x), -1));
    return ATEN_LAST(im, aten_row(im)->onnx, &a, x);
}

int aten_cumsum(struct onnx_import *im)
{
    enum infer_dtype to = aten_dtype(im, "dtype");
    struct pb_span x = aten_tensor(im, "self");

    if (to == INFER_NONE && !aten_is_float(aten_type_of(im, x)))
        to = INFER_I64;
    if (to != INFER_NONE)
        x = aten_cast(im, x, to);
    return ATEN_LAST(
        im, "CumSum", NULL, x,
        aten_scalar(im, INFER_I64, aten_axis(im, "dim", aten_rank(im, x), 0)));
}
