/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of least ranks, those that are stacked, diagonals, and rotations by
 * 90 degrees. */
#include "kernels/base/error.h"
#include "weights/aten/aten.h"

/* x with at least this rank: leading ones, of rank 3 one behind. */
static struct pb_span at_least(struct onnx_import *im, struct pb_span x,
                               int rank)
{
    static const int64_t ones[3] = {1, 1, 1};
    static const int64_t around[2] = {0, 2};
    const int own = aten_rank(im, x);

    if (own >= rank || im->rc < 0)
        return x;
    if (own == 0)
        return ATEN_STEP(im, "Reshape", NULL, x, aten_list(im, rank, ones));
    if (own == 2)
        return ATEN_STEP(im, "Unsqueeze", NULL, x, aten_list1(im, 2));
    return rank == 2
               ? ATEN_STEP(im, "Unsqueeze", NULL, x, aten_list1(im, 0))
               : ATEN_STEP(im, "Unsqueeze", NULL, x, aten_list(im, 2, around));
}

/* One tensor, or each of a list. param: the rank. */
int aten_at_least(struct onnx_import *im)
{
    const int rank = aten_row(im)->param;
    const char *const name = aten_has(im, "tensors") ? "tensors" : "self";
    const struct aten_arg *list = aten_find(im, name);
    struct pb_span x[64];
    int n;

    if (!list || list->kind != ATEN_LIST)
        return aten_same(im, 0, at_least(im, aten_tensor(im, name), rank));
    n = aten_tensors(im, name, 64, x);
    for (int i = 0; i < n && im->rc == 0; i++)
        aten_same(im, i, at_least(im, x[i], rank));
    return im->rc;
}

/* param 0: along the first dimension of matrices, 1: along the second (vectors
 * along their own), 2: along the third, 3: vectors are columns. */
int aten_stacked(struct onnx_import *im)
{
    const int way = aten_row(im)->param;
    struct aten_attrs a = {.n = 0};
    struct pb_span x[256];
    const int n = aten_tensors(im, "tensors", 256, x);
    static const int64_t column[2] = {-1, 1};
    int axis = way == 3 ? 1 : way;

    if (im->rc < 0 || n == 0)
        return onnx_fail(im, INFER_EFORMAT, "an empty list of tensors");
    if (way == 1 && aten_rank(im, x[0]) < 2)
        axis = 0;
    aten_promote(im, n, x);
    for (int i = 0; i < n && im->rc == 0; i++)
        if (way == 3 && aten_rank(im, x[i]) < 2)
            x[i] =
                ATEN_STEP(im, "Reshape", NULL, x[i], aten_list(im, 2, column));
        else
            x[i] = at_least(im, x[i], way == 0 ? 2 : way == 2 ? 3 : 1);
    aten_set_int(&a, "axis", axis);
    return aten_give(im, 0, "Concat", &a, n, x);
}

/* ---- diagonals ----------------------------------------------------- */

/* Dimensions a and b moved behind the others. */
static struct pb_span behind(struct onnx_import *im, struct pb_span x, int a,
                             int b)
{
    const int rank = aten_rank(im, x);
    int64_t order[INFER_MAX_RANK];
    int n = 0;

    for (int d = 0; d < rank; d++)
        if (d != a && d != b)
            order[n++] = d;
    order[n++] = a;
    order[n++] = b;
    return aten_permute(im, x, n, order);
}

/* The entries (i, i + offset) of dimensions a and b, as the last dimension. */
static struct pb_span diagonal(struct onnx_import *im, struct pb_span x,
                               int64_t offset, int a, int b)
{
    const int64_t rows = aten_dim(im, x, a), columns = aten_dim(im, x, b);
    const int rank = aten_rank(im, x);
    int64_t shape[INFER_MAX_RANK], first, step, n;

    if (im->rc < 0 || a == b || rows < 1 || columns < 1 || offset >= columns ||
        offset <= -rows) {
        onnx_fail(im, INFER_EUNSUPPORTED,
                  "diagonal %lld of a matrix of %lld by %lld",
                  (long long)offset, (long long)rows, (long long)columns);
        return x;
    }
    n = offset < 0 ? rows + offset : columns - offset;
    if (n > (offset < 0 ? columns : rows))
        n = offset < 0 ? columns : rows;
    first = offset < 0 ? -offset * columns : offset;
    step = columns + 1;
    x = behind(im, x, a, b);
    for (int d = 0; d < rank - 2; d++)
        shape[d] = 0;
    shape[rank - 2] = -1;
    x = ATEN_STEP(im, "Reshape", NULL, x, aten_list(im, rank - 1, shape));
    return ATEN_STEP(im, "Slice", NULL, x, aten_list1(im, first),
                     aten_list1(im, first + (n - 1) * step + 1),
                     aten_list1(im, rank - 2), aten_list1(im, step));
}

int aten_diagonal(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");
    const int rank = aten_rank(im, x);

    return aten_same(im, 0,
                     diagonal(im, x, aten_int(im, "offset", 0),
                              aten_axis(im, "dim1", rank, 0),
                              aten_axis(im, "dim2", rank, 1)));
}

int aten_trace(struct onnx_import *im)
{
    struct pb_span x = diagonal(im, aten_tensor(im, "self"), 0, 0, 1);
    struct aten_attrs a = {.n = 0};

    if (im->rc == 0 && !aten_is_float(aten_type_of(im, x)))
        x = aten_cast(im, x, INFER_I64);
    aten_set_int(&a, "keepdims", 0);
    return ATEN_LAST(im, "ReduceSum", &a, x);
}

/* Rows of a matrix whose diagonal is given. */
#define MAX_MATRIX 65536

/* The last dimension as diagonal `offset` of matrices of zeros, whose rows and
 * columns become dimensions a and b. */
static struct pb_span embedded(struct onnx_import *im, struct pb_span x,
                               int64_t offset, int a, int b)
{
    const int rank = aten_rank(im, x);
    const int64_t n = aten_dim(im, x, -1);
    const bool far = offset < -MAX_MATRIX || offset > MAX_MATRIX;
    const int64_t size = far ? 0 : n + (offset < 0 ? -offset : offset);
    int64_t pads[2 * (INFER_MAX_RANK + 1)] = {0}, order[INFER_MAX_RANK];
    const int64_t square[2] = {size, size};
    struct aten_attrs eye = {.n = 0};
    struct pb_span mask;
    int k = 0;

    if (im->rc < 0 || n < 1 || far || size > MAX_MATRIX || a == b ||
        rank + 1 > INFER_MAX_RANK) {
        onnx_fail(im, INFER_EUNSUPPORTED,
                  "a diagonal of %lld elements, moved by %lld", (long long)n,
                  (long long)offset);
        return x;
    }
    /* Entry i stands in row i, or above the diagonal in column i. */
    x = ATEN_STEP(im, "Unsqueeze", NULL, x,
                  aten_list1(im, offset < 0 ? -2 : -1));
    pads[2 * (rank + 1) - (offset < 0 ? 1 : 2)] = size - n;
    x = ATEN_STEP(im, "Pad", NULL, x, aten_list(im, 2 * (rank + 1), pads),
                  aten_scalar(im, aten_type_of(im, x), 0));
    aten_set_int(&eye, "k", offset);
    mask = ATEN_STEP(im, "Expand", NULL, aten_scalar(im, INFER_F32, 0),
                     aten_list(im, 2, square));
    mask = aten_cast(im, ATEN_STEP(im, "EyeLike", &eye, mask), INFER_BOOL);
    x = ATEN_STEP(im, "Where", NULL, mask, x,
                  aten_scalar(im, aten_type_of(im, x), 0));
    for (int d = 0; d < rank + 1; d++)
        order[d] = d == a ? rank - 1 : d == b ? rank : k++;
    return aten_permute(im, x, rank + 1, order);
}

int aten_diag_embed(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");
    const int rank = aten_rank(im, x) + 1;

    return aten_same(im, 0,
                     embedded(im, x, aten_int(im, "offset", 0),
                              aten_axis(im, "dim1", rank, -2),
                              aten_axis(im, "dim2", rank, -1)));
}

/* The diagonal of a matrix, or the matrix of one (param 1: always). */
int aten_diag(struct onnx_import *im)
{
    const int64_t offset =
        aten_int(im, aten_has(im, "offset") ? "offset" : "diagonal", 0);
    struct pb_span x = aten_tensor(im, "self");

    if (aten_row(im)->param)
        x = ATEN_STEP(im, "Reshape", NULL, x, aten_list1(im, -1));
    return aten_same(im, 0,
                     aten_rank(im, x) == 1 ? embedded(im, x, offset, 0, 1)
                                           : diagonal(im, x, offset, 0, 1));
}

/* ---- order of axes ------------------------------------------------- */

/* The last two dimensions change places. */
int aten_matrix_transpose(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");
    const int rank = aten_rank(im, x);

    if (rank == 1)
        return onnx_fail(im, INFER_EFORMAT, "a matrix of rank 1");
    return rank < 2 ? aten_same(im, 0, x)
                    : aten_same(im, 0, behind(im, x, rank - 1, rank - 2));
}

static struct pb_span flipped(struct onnx_import *im, struct pb_span x,
                              int64_t axis)
{
    return ATEN_STEP(im, "Slice", NULL, x, aten_list1(im, -1),
                     aten_list1(im, INT64_MIN), aten_list1(im, axis),
                     aten_list1(im, -1));
}

/* k quarters of a turn in the plane of two dimensions. */
int aten_rot90(struct onnx_import *im)
{
    struct pb_span x = aten_tensor(im, "self");
    const int rank = aten_rank(im, x);
    const int64_t k = ((aten_int(im, "k", 1) % 4) + 4) % 4;
    int64_t axis[2] = {0, 1}, order[INFER_MAX_RANK];

    const int n = aten_ints(im, "dims", 2, axis);

    if (n < 0) {
        axis[0] = 0;
        axis[1] = 1;
    }
    for (int i = 0; i < 2; i++) {
        axis[i] += axis[i] < 0 ? rank : 0;
        if (im->rc < 0 || axis[i] < 0 || axis[i] >= rank)
            return onnx_fail(im, INFER_EFORMAT, "dimensions of a turn");
    }
    if (n == 0 || n == 1 || axis[0] == axis[1])
        return onnx_fail(im, INFER_EFORMAT, "a turn within one dimension");
    for (int d = 0; d < rank; d++)
        order[d] = d;
    order[axis[0]] = axis[1];
    order[axis[1]] = axis[0];
    if (k >= 2)
        x = flipped(im, x, axis[0]);
    if (k == 2)
        x = flipped(im, x, axis[1]);
    if (k == 1)
        x = flipped(im, x, axis[1]);
    return aten_same(im, 0, k % 2 ? aten_permute(im, x, rank, order) : x);
}

/* ---- differences --------------------------------------------------- */

/* n times: each entry less the one before it. */
int aten_diff(struct onnx_import *im)
{
    struct pb_span part[3];
    struct aten_attrs a = {.n = 0};
    struct pb_span x = aten_tensor(im, "self");
    const int axis = aten_axis(im, "dim", aten_rank(im, x), -1);
    const int64_t n = aten_int(im, "n", 1);
    int parts = 0;

    if (aten_has(im, "prepend"))
        part[parts++] = aten_tensor(im, "prepend");
    part[parts++] = x;
    if (aten_has(im, "append"))
        part[parts++] = aten_tensor(im, "append");
    aten_set_int(&a, "axis", axis);
    /* Without a difference there is nothing before or after it either. */
    if (parts > 1 && n != 0)
        x = aten_step(im, "Concat", &a, parts, part);
    if (im->rc == 0 && (n < 0 || n > 16))
        return onnx_fail(im, INFER_EUNSUPPORTED, "%lld differences",
                         (long long)n);
    for (int64_t i = 0; i < n && im->rc == 0; i++) {
        const bool truth = aten_type_of(im, x) == INFER_BOOL;

        part[0] = aten_cut(im, x, axis, 1, INT64_MAX);
        part[1] = aten_cut(im, x, axis, 0, -1);
        x = aten_step(im, truth ? "Xor" : "Sub", NULL, 2, part);
    }
    return aten_same(im, 0, x);
}
