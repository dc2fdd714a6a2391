/* SPDX-License-Identifier: Apache-2.0 */
/* Diagonals of matrices, which are the last two dimensions, and bands about the
 * main one. */
#include "kernels/base/checked.h"
#include "weights/onnx/composed/compose.h"
#include "weights/tensorflow/tensorflow.h"

/* Diagonals below `lower` and above `upper` are 0; negative: none is. */
int tf_band_part(struct onnx_import *im)
{
    const struct onnx_attr up = tf_set_int("upper", 1);
    const struct onnx_attr down = tf_set_int("upper", 0);
    struct pb_span in[2], out = tf_temp(im, "lower");
    int64_t lower = -1, upper = -1;

    onnx_arity(im, 3, 3);
    tf_axis(im, 1, &lower);
    tf_axis(im, 2, &upper);
    if (im->rc < 0)
        return im->rc;
    in[0] = im->node->in[0];
    if (upper >= 0) {
        in[1] = onnx_step_ints(im, 0, 1, &upper);
        onnx_step(im, "Trilu", in, 2, out, &down, 1);
        in[0] = out;
    }
    if (lower < 0)
        return tf_last(im, "Identity", in, 1, NULL, 0);
    lower = -lower;
    in[1] = onnx_step_ints(im, 0, 1, &lower);
    return tf_last(im, "Trilu", in, 2, &up, 1);
}

/* Other diagonals than the main one are refused: input `at`, if there is one.
 */
static int main_diagonal(struct onnx_import *im, int at)
{
    int64_t k[2] = {0, 0};
    int n = 1;

    onnx_ignore(im, "align"); /* of several diagonals */
    if (im->node->n_in > at)
        onnx_input_ints(im, at, "the diagonal", 2, k, &n);
    if (im->rc == 0 && (k[0] != 0 || k[1] != 0))
        onnx_fail(im, INFER_EUNSUPPORTED, "another diagonal than the main one");
    return im->rc;
}

/* n x n: where a row and a column have the same number. */
static int identity(struct onnx_import *im, int64_t n)
{
    const int64_t dim[2] = {n, n};
    float *data = NULL;
    int x;

    if (im->rc == 0 && n > 4096)
        onnx_fail(im, INFER_EUNSUPPORTED, "a matrix of %lld rows",
                  (long long)n);
    x = compose_floats(im, 2, dim, &data);
    for (int64_t i = 0; im->rc == 0 && i < n; i++)
        data[i * n + i] = 1;
    return compose_cast(im, INFER_BOOL, x);
}

int tf_diag_part(struct onnx_import *im)
{
    int64_t rows, columns, least, count, shape[INFER_MAX_RANK] = {0};
    int x, rank;

    onnx_arity(im, 1, 3);
    main_diagonal(im, 1);
    x = compose_input(im, 0);
    if (compose_need_rank(im, x, 2, INFER_MAX_RANK) < 0)
        return im->rc;
    rank = compose_rank(im, x);
    rows = compose_dim(im, x, -2);
    columns = compose_dim(im, x, -1);
    if (im->rc < 0)
        return im->rc;
    if (!checked_mul_i64(rows, columns, &count))
        return onnx_fail(im, INFER_EUNSUPPORTED, "a matrix of %lldx%lld",
                         (long long)rows, (long long)columns);
    least = rows < columns ? rows : columns;
    shape[rank - 2] = count;
    x = compose_reshape(im, x, rank - 1, shape);
    x = compose_slice(im, x, rank - 2, 0, (least - 1) * (columns + 1) + 1,
                      columns + 1);
    return compose_output(im, 0, x);
}

/* Vectors as the diagonals of matrices of zeros, or of another number. */
int tf_diag(struct onnx_import *im)
{
    int64_t size[2] = {-1, -1};
    int x, rest, n = 1;

    onnx_arity(im, 1, 5);
    main_diagonal(im, 1);
    for (int i = 0; i < 2 && im->node->n_in > 2 + i; i++)
        onnx_input_ints(im, 2 + i, "the size of a matrix", 1, &size[i], &n);
    x = compose_input(im, 0);
    if (compose_need_rank(im, x, 1, INFER_MAX_RANK - 1) < 0)
        return im->rc;
    if (size[0] != -1 || size[1] != -1)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "matrices that are larger than their diagonal");
    n = compose_rank(im, x);
    rest = im->node->n_in > 4
               ? compose_cast(im, compose_dtype(im, x), compose_input(im, 4))
               : compose_number(im, compose_dtype(im, x), 0);
    x = compose_where(im, identity(im, compose_dim(im, x, -1)),
                      compose_unsqueeze(im, x, n), rest);
    return compose_output(im, 0, x);
}

/* Square matrices with their diagonals replaced. */
int tf_set_diag(struct onnx_import *im)
{
    int x, diagonal;

    onnx_arity(im, 2, 3);
    main_diagonal(im, 2);
    x = compose_input(im, 0);
    diagonal = compose_input(im, 1);
    if (compose_need_rank(im, x, 2, INFER_MAX_RANK) < 0 ||
        compose_need_rank(im, diagonal, 1, INFER_MAX_RANK - 1) < 0)
        return im->rc;
    if (compose_dim(im, x, -1) != compose_dim(im, x, -2) && im->rc == 0)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "the diagonal of a matrix that is not square");
    x = compose_where(
        im, identity(im, compose_dim(im, x, -1)),
        compose_unsqueeze(im, diagonal, compose_rank(im, diagonal)), x);
    return compose_output(im, 0, x);
}
