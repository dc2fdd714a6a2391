/* SPDX-License-Identifier: Apache-2.0 */
/* Products of vectors and matrices beyond mm and bmm, and distances. */
#include <math.h>

#include "kernels/base/error.h"
#include "weights/aten/aten.h"

/* beta self + alpha y */
static int give_added(struct onnx_import *im, struct pb_span y)
{
    const double beta = aten_number(im, "beta", 1);
    const double alpha = aten_number(im, "alpha", 1);
    struct pb_span self = aten_tensor(im, "self");

    if (alpha != 1)
        y = aten_mul(im, y, alpha);
    if (beta == 0)
        return aten_same(im, 0, y);
    if (beta != 1)
        self = aten_mul(im, self, beta);
    return ATEN_LAST(im, "Add", NULL, self, y);
}

int aten_addmv(struct onnx_import *im)
{
    return give_added(im, ATEN_STEP(im, "MatMul", NULL, aten_tensor(im, "mat"),
                                    aten_tensor(im, "vec")));
}

/* The sum of the products of a batch. */
int aten_addbmm(struct onnx_import *im)
{
    struct aten_attrs a = {.n = 0};
    struct pb_span y = ATEN_STEP(im, "MatMul", NULL, aten_tensor(im, "batch1"),
                                 aten_tensor(im, "batch2"));

    aten_set_int(&a, "keepdims", 0);
    return give_added(im, ATEN_STEP(im, "ReduceSum", &a, y, aten_list1(im, 0)));
}

/* The product of every entry of one vector and every one of another. */
int aten_addr(struct onnx_import *im)
{
    return give_added(
        im, ATEN_STEP(im, "Mul", NULL,
                      ATEN_STEP(im, "Unsqueeze", NULL, aten_tensor(im, "vec1"),
                                aten_list1(im, 1)),
                      aten_tensor(im, "vec2")));
}

/* Sums of products over the last dimension of both. */
int aten_inner(struct onnx_import *im)
{
    struct pb_span in[2], y;
    int64_t order[INFER_MAX_RANK], flat[2] = {-1, 0};
    struct pb_span part[2];
    struct aten_attrs end = {.n = 0}, axis = {.n = 0};
    int rank[2];

    aten_operands(im, "self", "other", in);
    for (int i = 0; i < 2; i++)
        rank[i] = aten_rank(im, in[i]);
    if (rank[0] == 0 || rank[1] == 0)
        return aten_give(im, 0, "Mul", NULL, 2, in);
    flat[1] = aten_dim(im, in[1], -1);
    if (im->rc < 0 || flat[1] < 1)
        return onnx_fail(im, INFER_EUNSUPPORTED, "vectors of a free size");
    if (rank[1] == 1)
        return aten_give(im, 0, "MatMul", NULL, 2, in);
    y = ATEN_STEP(im, "Reshape", NULL, in[1], aten_list(im, 2, flat));
    order[0] = 1;
    order[1] = 0;
    y = ATEN_STEP(im, "MatMul", NULL, in[0], aten_permute(im, y, 2, order));
    aten_set_int(&end, "end", -1);
    aten_set_int(&axis, "axis", 0);
    part[0] = ATEN_STEP(im, "Shape", &end, in[0]);
    part[1] = ATEN_STEP(im, "Shape", &end, in[1]);
    return ATEN_LAST(im, "Reshape", NULL, y,
                     rank[0] == 1 ? part[1]
                                  : aten_step(im, "Concat", &axis, 2, part));
}

/* x with the n dimensions of `moved` first or last, the others in order. */
static struct pb_span contracted(struct onnx_import *im, struct pb_span x,
                                 int n, const int64_t *moved, bool first,
                                 struct pb_span *kept)
{
    const int rank = aten_rank(im, x);
    int64_t order[INFER_MAX_RANK], others[INFER_MAX_RANK], sum = 1;
    int64_t shape[2];
    int k = 0, m = 0;

    for (int d = 0; d < rank; d++) {
        bool is_moved = false;

        for (int i = 0; i < n; i++)
            is_moved = is_moved || moved[i] == d;
        if (!is_moved)
            others[m++] = d;
    }
    for (int i = 0; i < n && first; i++)
        order[k++] = moved[i];
    for (int i = 0; i < m; i++)
        order[k++] = others[i];
    for (int i = 0; i < n && !first; i++)
        order[k++] = moved[i];
    for (int i = 0; i < n && im->rc == 0; i++) {
        const int64_t size = aten_dim(im, x, (int)moved[i]);

        if (size < 1 || size > INT64_MAX / sum)
            onnx_fail(im, INFER_EUNSUPPORTED, "a sum over a free dimension");
        else
            sum *= size;
    }
    if (im->rc < 0 || m + n != rank) {
        onnx_fail(im, INFER_EFORMAT, "dimensions of a product");
        return x;
    }
    x = aten_permute(im, x, rank, order);
    *kept = aten_no_input();
    if (m > 0) {
        struct aten_attrs part = {.n = 0};

        aten_set_int(&part, "start", first ? n : 0);
        aten_set_int(&part, "end", first ? rank : m);
        *kept = ATEN_STEP(im, "Shape", &part, x);
    }
    shape[first ? 0 : 1] = sum;
    shape[first ? 1 : 0] = -1;
    return ATEN_STEP(im, "Reshape", NULL, x, aten_list(im, 2, shape));
}

/* Sums of products over some dimensions of each. */
int aten_tensordot(struct onnx_import *im)
{
    struct pb_span in[2], kept[2] = {{NULL, 0}}, part[2], y;
    static const char *const names[2] = {"dims_self", "dims_other"};
    struct aten_attrs axis = {.n = 0};
    int64_t dims[2][INFER_MAX_RANK];
    int n[2], parts = 0;

    aten_operands(im, "self", "other", in);
    for (int i = 0; i < 2; i++) {
        const int rank = aten_rank(im, in[i]);

        n[i] = aten_ints(im, names[i], rank, dims[i]);
        for (int k = 0; k < n[i]; k++)
            dims[i][k] += dims[i][k] < 0 ? rank : 0;
    }
    if (im->rc < 0 || n[0] < 1 || n[0] != n[1])
        return onnx_fail(im, INFER_EUNSUPPORTED, "a product without sums");
    in[0] = contracted(im, in[0], n[0], dims[0], false, &kept[0]);
    in[1] = contracted(im, in[1], n[1], dims[1], true, &kept[1]);
    y = aten_step(im, "MatMul", NULL, 2, in);
    for (int i = 0; i < 2; i++)
        if (kept[i].bytes)
            part[parts++] = kept[i];
    aten_set_int(&axis, "axis", 0);
    if (parts == 0)
        return ATEN_LAST(im, "Reshape", NULL, y, aten_list(im, 0, NULL));
    return ATEN_LAST(im, "Reshape", NULL, y,
                     parts == 1 ? part[0]
                                : aten_step(im, "Concat", &axis, 2, part));
}

/* Matrices one after the other. */
int aten_chain_matmul(struct onnx_import *im)
{
    struct pb_span x[64], y;
    const int n = aten_tensors(
        im, aten_has(im, "matrices") ? "matrices" : "tensors", 64, x);

    if (im->rc < 0 || n < 1)
        return onnx_fail(im, INFER_EFORMAT, "no matrices");
    y = x[0];
    for (int i = 1; i < n; i++)
        y = ATEN_STEP(im, "MatMul", NULL, y, x[i]);
    return aten_same(im, 0, y);
}

/* a x b of vectors of three along a dimension, the first of size 3 if none is
 * named (param 1: the last). */
int aten_cross(struct onnx_import *im)
{
    static const int64_t next[3] = {1, 2, 0}, last[3] = {2, 0, 1};
    struct aten_attrs a = {.n = 0};
    struct pb_span in[2], side[2];
    int axis = 0, rank;

    aten_operands(im, "self", "other", in);
    rank = aten_rank(im, in[0]);
    if (aten_has(im, "dim") || aten_row(im)->param)
        axis = aten_axis(im, "dim", rank, -1);
    else
        while (axis < rank - 1 && aten_dim(im, in[0], axis) != 3)
            axis++;
    if (im->rc == 0 && aten_dim(im, in[0], axis) != 3)
        return onnx_fail(im, INFER_EFORMAT, "vectors of other than 3 elements");
    aten_set_int(&a, "axis", axis);
    for (int i = 0; i < 2; i++)
        side[i] = ATEN_STEP(im, "Mul", NULL,
                            ATEN_STEP(im, "Gather", &a, in[0],
                                      aten_list(im, 3, i ? last : next)),
                            ATEN_STEP(im, "Gather", &a, in[1],
                                      aten_list(im, 3, i ? next : last)));
    return aten_give(im, 0, "Sub", NULL, 2, side);
}

/* Every number of one tensor times the whole of the other, as blocks. */
int aten_kron(struct onnx_import *im)
{
    struct pb_span in[2], shape;
    int64_t odd[INFER_MAX_RANK], even[INFER_MAX_RANK], ones[INFER_MAX_RANK];
    int rank[2], most;

    aten_operands(im, "self", "other", in);
    for (int i = 0; i < 2; i++)
        rank[i] = aten_rank(im, in[i]);
    most = rank[0] > rank[1] ? rank[0] : rank[1];
    if (im->rc < 0 || 2 * most > INFER_MAX_RANK)
        return onnx_fail(im, INFER_EUNSUPPORTED, "tensors of rank %d", most);
    for (int d = 0; d < most; d++) {
        ones[d] = d;
        odd[d] = 2 * d + 1;
        even[d] = 2 * d;
    }
    for (int i = 0; i < 2; i++)
        if (rank[i] < most)
            in[i] = ATEN_STEP(im, "Unsqueeze", NULL, in[i],
                              aten_list(im, most - rank[i], ones));
    shape = ATEN_STEP(im, "Mul", NULL, ATEN_STEP(im, "Shape", NULL, in[0]),
                      ATEN_STEP(im, "Shape", NULL, in[1]));
    in[0] = ATEN_STEP(im, "Unsqueeze", NULL, in[0], aten_list(im, most, odd));
    in[1] = ATEN_STEP(im, "Unsqueeze", NULL, in[1], aten_list(im, most, even));
    return ATEN_LAST(im, "Reshape", NULL, aten_step(im, "Mul", NULL, 2, in),
                     shape);
}

/* Output o: x1' w[o] x2 + bias[o]. */
int aten_bilinear(struct onnx_import *im)
{
    static const int64_t order[3] = {1, 0, 2};
    const struct pb_span one = aten_tensor(im, "input1");
    const struct pb_span two = aten_tensor(im, "input2");
    const struct pb_span w = aten_tensor(im, "weight");
    const struct pb_span bias = aten_optional(im, "bias");
    const int rank = aten_rank(im, one);
    int64_t dim[INFER_MAX_RANK + 1] = {0}, flat[2];
    struct aten_attrs a = {.n = 0};
    struct pb_span y;

    if (im->rc < 0 || aten_rank(im, w) != 3 || rank < 1 ||
        rank >= INFER_MAX_RANK)
        return onnx_fail(im, INFER_EUNSUPPORTED, "inputs of rank %d", rank);
    for (int i = 0; i < 3; i++)
        if (aten_dim(im, w, i) < 1 || aten_dim(im, w, i) > INT32_MAX)
            return onnx_fail(im, INFER_EUNSUPPORTED, "weights of a free size");
    dim[rank - 1] = aten_dim(im, w, 0); /* 0 before it: as it is */
    dim[rank] = aten_dim(im, w, 2);
    flat[0] = aten_dim(im, w, 1);
    flat[1] = dim[rank - 1] * dim[rank];
    y = ATEN_STEP(im, "Reshape", NULL, aten_permute(im, w, 3, order),
                  aten_list(im, 2, flat));
    y = ATEN_STEP(im, "MatMul", NULL, one, y);
    y = ATEN_STEP(im, "Reshape", NULL, y, aten_list(im, rank + 1, dim));
    y = ATEN_STEP(im, "Mul", NULL, y,
                  ATEN_STEP(im, "Unsqueeze", NULL, two, aten_list1(im, -2)));
    aten_set_int(&a, "keepdims", 0);
    y = ATEN_STEP(im, "ReduceSum", &a, y, aten_list1(im, -1));
    return bias.bytes ? ATEN_LAST(im, "Add", NULL, y, bias)
                      : aten_same(im, 0, y);
}

/* ---- distances ----------------------------------------------------- */

/* The p-norm of x over an axis, or over all of it (axis -1). */
static struct pb_span norm_of(struct onnx_import *im, struct pb_span x,
                              double p, int axis)
{
    const struct pb_span axes =
        axis < 0 ? aten_no_input() : aten_list1(im, axis);
    struct aten_attrs a = {.n = 0};
    const enum infer_dtype dtype = aten_type_of(im, x);

    aten_set_int(&a, "keepdims", 0);
    if (p == 2)
        return ATEN_STEP(im, "ReduceL2", &a, x, axes);
    if (p == 1)
        return ATEN_STEP(im, "ReduceL1", &a, x, axes);
    x = ATEN_STEP(im, "Abs", NULL, x);
    if (isinf(p))
        return ATEN_STEP(im, p > 0 ? "ReduceMax" : "ReduceMin", &a, x, axes);
    if (!(p > 0)) {
        onnx_fail(im, INFER_EUNSUPPORTED, "a norm of order %g", p);
        return x;
    }
    x = ATEN_STEP(im, "Pow", NULL, x, aten_scalar(im, dtype, p));
    x = ATEN_STEP(im, "ReduceSum", &a, x, axes);
    return ATEN_STEP(im, "Pow", NULL, x, aten_scalar(im, dtype, 1 / p));
}

int aten_dist(struct onnx_import *im)
{
    struct pb_span in[2];

    aten_operands(im, "self", "other", in);
    return aten_same(im, 0,
                     norm_of(im, aten_step(im, "Sub", NULL, 2, in),
                             aten_number(im, "p", 2), -1));
}

/* The distance of every row of one to every row of the other. */
int aten_cdist(struct onnx_import *im)
{
    const struct pb_span one = ATEN_STEP(
        im, "Unsqueeze", NULL, aten_tensor(im, "x1"), aten_list1(im, -2));
    const struct pb_span two = ATEN_STEP(
        im, "Unsqueeze", NULL, aten_tensor(im, "x2"), aten_list1(im, -3));
    const struct pb_span x = ATEN_STEP(im, "Sub", NULL, one, two);

    return aten_same(
        im, 0, norm_of(im, x, aten_number(im, "p", 2), aten_rank(im, x) - 1));
}

/* Sums over some dimensions of a product of three tensors, each of which gets
 * dimensions of 1. */
int aten_trilinear(struct onnx_import *im)
{
    static const char *const names[3] = {"i1", "i2", "i3"};
    static const char *const lists[3] = {"expand1", "expand2", "expand3"};
    int64_t axes[INFER_MAX_RANK];
    struct aten_attrs a = {.n = 0};
    struct pb_span x[3];
    int n;

    for (int i = 0; i < 3; i++) {
        x[i] = aten_tensor(im, names[i]);
        n = aten_ints(im, lists[i], INFER_MAX_RANK, axes);
        if (n > 0)
            x[i] =
                ATEN_STEP(im, "Unsqueeze", NULL, x[i], aten_list(im, n, axes));
    }
    n = aten_ints(im, "sumdim", INFER_MAX_RANK, axes);
    x[0] = ATEN_STEP(im, "Mul", NULL, ATEN_STEP(im, "Mul", NULL, x[0], x[1]),
                     x[2]);
    aten_set_int(&a, "keepdims", 0);
    return n > 0 ? ATEN_LAST(im, "ReduceSum", &a, x[0], aten_list(im, n, axes))
                 : aten_same(im, 0, x[0]);
}
