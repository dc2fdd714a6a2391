/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that several of ONNX's compute: of two tensors, of lists of
 * tensors, of windows. */
#include <math.h>
#include <string.h>

#include "kernels/base/error.h"
#include "weights/aten/aten.h"

static struct pb_span reduced(struct onnx_import *im, const char *op,
                              struct pb_span x, struct pb_span axes, bool keep)
{
    struct aten_attrs a = {.n = 0};

    aten_set_int(&a, "keepdims", keep);
    return ATEN_STEP(im, op, &a, x, axes);
}

/* ---- two tensors --------------------------------------------------- */

/* x1 x2 / (max(|x1|, eps) max(|x2|, eps)) */
int aten_cosine_similarity(struct onnx_import *im)
{
    struct pb_span x[2], axis, norm[2], eps;

    aten_operands(im, "x1", "x2", x);
    axis = aten_list1(im, aten_int(im, "dim", 1));
    eps = aten_scalar(im, aten_type_of(im, x[0]), aten_number(im, "eps", 1e-8));
    for (int i = 0; i < 2; i++)
        norm[i] = ATEN_STEP(im, "Max", NULL,
                            reduced(im, "ReduceL2", x[i], axis, false), eps);
    return ATEN_LAST(im, "Div", NULL,
                     reduced(im, "ReduceSum",
                             ATEN_STEP(im, "Mul", NULL, x[0], x[1]), axis,
                             false),
                     ATEN_STEP(im, "Mul", NULL, norm[0], norm[1]));
}

/* |x1 - x2 + eps| of order 1 or 2, along the last dimension. */
int aten_pairwise_distance(struct onnx_import *im)
{
    const double p = aten_number(im, "p", 2);
    struct aten_attrs a = {.n = 0};
    struct pb_span x[2], y;

    if (im->rc < 0 || !(p == 1 || p == 2))
        return onnx_fail(im, INFER_EUNSUPPORTED, "a distance of order %g", p);
    aten_operands(im, "x1", "x2", x);
    y = ATEN_STEP(
        im, "Add", NULL, ATEN_STEP(im, "Sub", NULL, x[0], x[1]),
        aten_scalar(im, aten_type_of(im, x[0]), aten_number(im, "eps", 1e-6)));
    aten_set_int(&a, "keepdims", aten_flag(im, "keepdim", false));
    return ATEN_LAST(im, p == 1 ? "ReduceL1" : "ReduceL2", &a, y,
                     aten_list1(im, -1));
}

/* max(a, b) + log(1 + exp(-|a - b|)) */
int aten_logaddexp(struct onnx_import *im)
{
    struct pb_span x[2], y;

    aten_operands(im, "self", "other", x);
    y = ATEN_STEP(im, "Abs", NULL, ATEN_STEP(im, "Sub", NULL, x[0], x[1]));
    /* Equal infinities have no difference. */
    y = ATEN_STEP(im, "Where", NULL, aten_step(im, "Equal", NULL, 2, x),
                  aten_scalar(im, aten_type_of(im, x[0]), 0), y);
    y = ATEN_STEP(im, "Exp", NULL, ATEN_STEP(im, "Neg", NULL, y));
    y = ATEN_STEP(im, "Log", NULL,
                  ATEN_STEP(im, "Add", NULL, y,
                            aten_scalar(im, aten_type_of(im, x[0]), 1)));
    return ATEN_LAST(im, "Add", NULL, y, aten_step(im, "Max", NULL, 2, x));
}

/* The product of each element of one vector with each of another. */
int aten_outer(struct onnx_import *im)
{
    struct pb_span x[2];

    aten_operands(im, "self", aten_row(im)->onnx, x);
    return ATEN_LAST(im, "Mul", NULL,
                     ATEN_STEP(im, "Unsqueeze", NULL, x[0], aten_list1(im, 1)),
                     x[1]);
}

int aten_dot(struct onnx_import *im)
{
    struct aten_attrs a = {.n = 0};
    struct pb_span x[2];

    aten_operands(im, "self", aten_row(im)->onnx, x);
    aten_set_int(&a, "keepdims", 0);
    return ATEN_LAST(im, "ReduceSum", &a,
                     ATEN_STEP(im, "Mul", NULL, x[0], x[1]));
}

/* v g / |v|, the norm over all dimensions but one; the norm is an output of
 * _weight_norm_interface. */
int aten_weight_norm(struct onnx_import *im)
{
    const struct pb_span v = aten_tensor(im, "v"), g = aten_tensor(im, "g");
    const int rank = aten_rank(im, v);
    const int64_t dim = aten_int(im, "dim", 0);
    int64_t axis[INFER_MAX_RANK];
    struct pb_span norm;
    int n = 0;

    if (im->rc < 0 || dim < -1 || dim >= rank)
        return onnx_fail(im, INFER_EFORMAT, "dimension %lld of %d",
                         (long long)dim, rank);
    for (int d = 0; d < rank; d++)
        if (d != dim)
            axis[n++] = d;
    norm = n ? reduced(im, "ReduceL2", v, aten_list(im, n, axis), dim >= 0)
             : ATEN_STEP(im, "Abs", NULL, v);
    aten_same(im, 1, norm);
    return ATEN_LAST(im, "Mul", NULL, v, ATEN_STEP(im, "Div", NULL, g, norm));
}

/* ---- lists of tensors ---------------------------------------------- */

/* Parts between indices, or so many of nearly equal size. */
int aten_tensor_split(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");
    const char *const name = aten_has(im, "indices") ? "indices" : "sections";
    const struct aten_arg *how = aten_find(im, name);
    const int rank = aten_rank(im, x);
    /* The row has the dimension where the node has none; vectors have one. */
    const int axis =
        aten_axis(im, "dim", rank, rank < 2 ? 0 : aten_row(im)->param);
    const int64_t size = aten_dim(im, x, axis);
    int64_t at[ATEN_MAX_ARGS + 1], n;

    if (im->rc < 0 || !how)
        return onnx_fail(im, INFER_EFORMAT, "no parts");
    at[0] = 0;
    if (how->kind == ATEN_LIST) {
        n = aten_ints(im, name, ATEN_MAX_ARGS - 1, at + 1) + 1;
    } else {
        n = aten_int(im, name, 1);
        if (im->rc < 0 || n < 1 || n >= ATEN_MAX_ARGS || size < 0)
            return onnx_fail(im, INFER_EUNSUPPORTED,
                             "%lld parts of a dimension of size %lld",
                             (long long)n, (long long)size);
        if (aten_row(im)->name[1] == 's' && size % n)
            return onnx_fail(im, INFER_EFORMAT,
                             "%lld equal parts of a dimension of size %lld",
                             (long long)n, (long long)size);
        for (int64_t i = 1; i < n; i++)
            at[i] = at[i - 1] + size / n + (i <= size % n);
    }
    for (int64_t i = 0; i < n && im->rc == 0; i++)
        aten_give(im, (int)i, "Slice", NULL,
                  ATEN_N(x, aten_list1(im, at[i]),
                         aten_list1(im, i + 1 < n ? at[i + 1] : INT64_MAX),
                         aten_list1(im, axis)));
    return im->rc;
}

/* Output i: vector i along dimension i of a grid of all of them. */
int aten_meshgrid(struct onnx_import *im)
{
    const struct pb_span how = aten_text(im, "indexing");
    const bool swapped = pb_span_is(how, "xy");
    struct pb_span x[INFER_MAX_RANK], size[INFER_MAX_RANK], shape;
    const int n = aten_tensors(im, "tensors", INFER_MAX_RANK, x);
    struct aten_attrs axis = {.n = 0};

    if (im->rc < 0 || n < 1)
        return onnx_fail(im, INFER_EFORMAT, "a grid of no tensors");
    if (how.bytes && !swapped && !pb_span_is(how, "ij"))
        return onnx_fail(im, INFER_EFORMAT, "a grid by '%.*s'",
                         PB_TEXT(how, 64));
    for (int i = 0; i < n; i++)
        if (aten_rank(im, x[i]) > 1)
            return onnx_fail(im, INFER_EFORMAT, "a grid of a tensor of rank %d",
                             aten_rank(im, x[i]));
    for (int i = 0; i < n; i++)
        size[swapped && i < 2 && n > 1 ? 1 - i : i] =
            ATEN_STEP(im, "Reshape", NULL, ATEN_STEP(im, "Size", NULL, x[i]),
                      aten_list1(im, 1));
    aten_set_int(&axis, "axis", 0);
    shape = aten_step(im, "Concat", &axis, n, size);
    for (int i = 0; i < n && im->rc == 0; i++) {
        int64_t own[INFER_MAX_RANK];

        for (int d = 0; d < n; d++)
            own[d] = 1;
        own[swapped && i < 2 && n > 1 ? 1 - i : i] = -1;
        aten_give(
            im, i, "Expand", NULL,
            ATEN_N(ATEN_STEP(im, "Reshape", NULL, x[i], aten_list(im, n, own)),
                   shape));
    }
    return im->rc;
}

/* All tensors in the shape that they have together. */
int aten_broadcast_tensors(struct onnx_import *im)
{
    struct pb_span x[64], shape;
    const int n = aten_tensors(im, "tensors", 64, x);

    if (im->rc < 0 || n < 1)
        return onnx_fail(im, INFER_EFORMAT, "no tensors");
    shape = ATEN_STEP(im, "Shape", NULL, x[0]);
    for (int i = 1; i < n; i++)
        shape = ATEN_STEP(im, "Shape", NULL,
                          ATEN_STEP(im, "Expand", NULL, x[i], shape));
    for (int i = 0; i < n && im->rc == 0; i++)
        aten_give(im, i, "Expand", NULL, ATEN_N(x[i], shape));
    return im->rc;
}

/* ---- windows and repeats ------------------------------------------- */

/* Windows of an axis, which become the last dimension. */
int aten_unfold(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");
    const int rank = aten_rank(im, x);
    const int axis = aten_axis(im, "dimension", rank, 0);
    const int64_t entries = aten_dim(im, x, axis);
    const int64_t size = aten_int(im, "size", 1),
                  step = aten_int(im, "step", 1);
    int64_t order[INFER_MAX_RANK], dim[2], n;
    struct aten_attrs a = {.n = 0};
    struct constant *index;
    struct pb_span y;

    if (im->rc < 0 || entries < size || size < 1 || step < 1 ||
        rank >= INFER_MAX_RANK)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "windows of %lld entries of a dimension of %lld",
                         (long long)size, (long long)entries);
    dim[0] = n = (entries - size) / step + 1;
    dim[1] = size;
    if (onnx_new_constant(im, INFER_I64, 2, dim, &index) < 0)
        return im->rc;
    for (int64_t i = 0; i < n * size; i++)
        ((int64_t *)index->data)[i] = i / size * step + i % size;
    aten_set_int(&a, "axis", axis);
    y = ATEN_STEP(im, "Gather", &a, x, onnx_step_constant(im, index));
    for (int d = 0; d < rank; d++)
        order[d] = d <= axis ? d : d + 1;
    order[rank] = axis + 1;
    return aten_same(im, 0, aten_permute(im, y, rank + 1, order));
}

/* As repeat(), with 1 for dimensions in front that are not given. */
int aten_tile(struct onnx_import *im)
{
    struct pb_span x = aten_tensor(im, "self");
    const int rank = aten_rank(im, x);
    int64_t given[INFER_MAX_RANK], all[INFER_MAX_RANK];
    const int n = aten_ints(im, "dims", INFER_MAX_RANK, given);
    const int wide = n > rank ? n : rank;

    if (im->rc < 0 || n < 0)
        return onnx_fail(im, INFER_EFORMAT, "no repeats");
    for (int d = 0; d < wide; d++)
        all[d] = d < wide - n ? 1 : given[d - (wide - n)];
    for (int d = rank; d < wide; d++)
        x = ATEN_STEP(im, "Unsqueeze", NULL, x, aten_list1(im, 0));
    return ATEN_LAST(im, "Tile", NULL, x, aten_list(im, wide, all));
}

/* ---- affine grids, truths of classes ------------------------------- */

int aten_affine_grid(struct onnx_import *im)
{
    struct aten_attrs a = {.n = 0};

    aten_set_int(&a, "align_corners", aten_flag(im, "align_corners", false));
    return ATEN_LAST(im, "AffineGrid", &a, aten_tensor(im, "theta"),
                     aten_sizes(im, "size", 0, 0));
}

int aten_one_hot(struct onnx_import *im)
{
    const int64_t n = aten_int(im, "num_classes", -1);
    const struct pb_span x = aten_tensor(im, "self");

    if (im->rc < 0 || n < 1)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "a number of classes that depends on data");
    if (aten_type_of(im, x) != INFER_I64)
        return onnx_fail(im, INFER_EFORMAT, "classes that are %s",
                         infer_dtype_name(aten_type_of(im, x)));
    return ATEN_LAST(im, "OneHot", NULL, x,
                     aten_scalar(im, INFER_I64, (double)n),
                     aten_list(im, 2, (int64_t[]){0, 1}));
}

/* The order of the sorted elements. */
int aten_argsort(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");
    const int axis = aten_axis(im, "dim", aten_rank(im, x), -1);
    struct pb_span out[2] = {onnx_fresh_name(im, im->node->out[0]),
                             im->node->out[0]};
    struct aten_attrs a = {.n = 0};

    aten_set_int(&a, "axis", axis);
    aten_set_int(&a, "largest", aten_flag(im, "descending", false));
    return onnx_steps(
        im, "TopK",
        (struct pb_span[]){x, aten_cut(im, ATEN_STEP(im, "Shape", NULL, x), 0,
                                       axis, axis + 1)},
        2, out, 2, a.item, a.n);
}
