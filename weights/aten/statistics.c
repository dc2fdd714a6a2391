/* SPDX-License-Identifier: Apache-2.0 */
/* Counts, extremes, medians, and sums that pass over NaN. */
#include "kernels/base/error.h"
#include "weights/aten/aten.h"

static struct pb_span axes_of(struct onnx_import *im)
{
    int64_t axis[INFER_MAX_RANK];
    const int n = aten_ints(im, "dim", INFER_MAX_RANK, axis);

    return n <= 0 ? aten_no_input() : aten_list(im, n, axis);
}

int aten_count_nonzero(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");
    struct aten_attrs a = {.n = 0};

    aten_set_int(&a, "keepdims", 0);
    return ATEN_LAST(im, "ReduceSum", &a,
                     aten_cast(im, aten_cast(im, x, INFER_BOOL), INFER_I64),
                     axes_of(im));
}

/* param 1: the mean of what is not NaN. */
int aten_nan_sum(struct onnx_import *im)
{
    const enum infer_dtype to = aten_dtype(im, "dtype");
    struct pb_span x = aten_tensor(im, "self"), nan, n;
    enum infer_dtype dtype = aten_type_of(im, x);
    const struct pb_span axes = axes_of(im);
    struct aten_attrs a = {.n = 0};

    if (im->rc == 0 && !aten_is_float(dtype))
        x = aten_cast(im, x, dtype = INFER_I64);
    aten_set_int(&a, "keepdims", aten_flag(im, "keepdim", false));
    if (aten_is_float(dtype)) {
        nan = ATEN_STEP(im, "IsNaN", NULL, x);
        x = ATEN_STEP(im, "Where", NULL, nan, aten_scalar(im, dtype, 0), x);
    }
    if (to != INFER_NONE)
        x = aten_cast(im, x, to);
    if (!aten_row(im)->param || !aten_is_float(dtype))
        return ATEN_LAST(im, "ReduceSum", &a, x, axes);
    n = aten_cast(im, ATEN_STEP(im, "Not", NULL, nan), aten_type_of(im, x));
    return ATEN_LAST(im, "Div", NULL, ATEN_STEP(im, "ReduceSum", &a, x, axes),
                     ATEN_STEP(im, "ReduceSum", &a, n, axes));
}

/* The least and the greatest. */
int aten_min_max(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self"), axes = axes_of(im);
    struct aten_attrs a = {.n = 0};

    aten_set_int(&a, "keepdims", aten_flag(im, "keepdim", false));
    aten_give(im, 0, "ReduceMin", &a, ATEN_N(x, axes));
    return aten_give(im, 1, "ReduceMax", &a, ATEN_N(x, axes));
}

int aten_cumprod(struct onnx_import *im)
{
    enum infer_dtype to = aten_dtype(im, "dtype");
    struct pb_span x = aten_tensor(im, "self");
    const int rank = aten_rank(im, x);

    if (to == INFER_NONE && !aten_is_float(aten_type_of(im, x)))
        to = INFER_I64;
    if (to != INFER_NONE)
        x = aten_cast(im, x, to);
    if (rank == 0)
        return aten_same(im, 0, x);
    return ATEN_LAST(im, "CumProd", NULL, x,
                     aten_scalar(im, INFER_I64, aten_axis(im, "dim", rank, 0)));
}

/* The k-th least of a dimension and its place; param 1: the median, which of
 * two is the lesser.  A median of all has no place. */
int aten_kth_value(struct onnx_import *im)
{
    const bool median = aten_row(im)->param;
    const bool all = median && !aten_has(im, "dim");
    const bool keep = aten_flag(im, "keepdim", false);
    struct pb_span x = aten_tensor(im, "self"), part[2];
    struct onnx_attr attr[2];
    struct aten_attrs a = {.n = 0};
    int axis;
    int64_t size, k;

    if (all)
        x = ATEN_STEP(im, "Reshape", NULL, x, aten_list1(im, -1));
    if (aten_rank(im, x) == 0)
        return onnx_fail(im, INFER_EUNSUPPORTED, "a tensor of rank 0");
    axis = all ? 0 : aten_axis(im, "dim", aten_rank(im, x), -1);
    size = aten_dim(im, x, axis);
    if (im->rc == 0 && size < 1)
        return onnx_fail(im, INFER_EUNSUPPORTED, "a dimension of a free size");
    k = median ? (size + 1) / 2 : aten_int(im, "k", 1);
    if (im->rc < 0 || k < 1 || k > size)
        return onnx_fail(im, INFER_EFORMAT, "place %lld of %lld", (long long)k,
                         (long long)size);
    aten_set_int(&a, "axis", axis);
    aten_set_int(&a, "largest", 0);
    attr[0] = a.item[0];
    attr[1] = a.item[1];
    part[0] = onnx_fresh_name(im, (struct pb_span){(unsigned char *)"kth", 3});
    part[1] = onnx_fresh_name(im, (struct pb_span){(unsigned char *)"kth", 3});
    onnx_steps(im, "TopK", (struct pb_span[]){x, aten_list1(im, k)}, 2, part, 2,
               attr, 2);
    for (int i = 0; i < (all ? 1 : 2) && im->rc == 0; i++) {
        part[i] = aten_cut(im, part[i], axis, k - 1, k);
        if (!keep)
            part[i] =
                ATEN_STEP(im, "Squeeze", NULL, part[i], aten_list1(im, axis));
        aten_same(im, i, part[i]);
    }
    return im->rc;
}

/* Rows in ascending order along the first dimension. */
int aten_msort(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");
    struct pb_span part[2];
    struct aten_attrs a = {.n = 0};

    if (aten_rank(im, x) == 0)
        return aten_same(im, 0, x);
    aten_set_int(&a, "axis", 0);
    aten_set_int(&a, "largest", 0);
    part[0] = onnx_fresh_name(im, (struct pb_span){(unsigned char *)"row", 3});
    part[1] = onnx_fresh_name(im, (struct pb_span){(unsigned char *)"row", 3});
    onnx_steps(im, "TopK",
               (struct pb_span[]){x, aten_list1(im, aten_dim(im, x, 0))}, 2,
               part, 2, a.item, 2);
    return aten_same(im, 0, part[0]);
}
