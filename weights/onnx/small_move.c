/* SPDX-License-Identifier: Apache-2.0 */
/* What only moves the elements of small tensors: see small.h. */
#include "weights/onnx/small.h"

#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"

int small_reshape(struct onnx_import *im, const struct onnx_small *a, int rank,
                  const int64_t *dim, struct infer_error *err,
                  struct onnx_small **out)
{
    int64_t k;
    int status = onnx_small_new(im, a->dtype, rank, dim, err, out);

    if (status <= 0)
        return status;
    if ((*out)->count != a->count)
        return error_set(err, INFER_EFORMAT, "%lld elements cannot become %lld",
                         (long long)a->count, (long long)(*out)->count);
    for (k = 0; k < a->count; k++)
        small_copy(a, k, *out, k);
    return 1;
}

int small_view(struct onnx_import *im, const struct onnx_small *a, int rank,
               const int64_t *dim, int64_t start, const int64_t *step,
               struct infer_error *err, struct onnx_small **out)
{
    int64_t k;
    int d, status = onnx_small_new(im, a->dtype, rank, dim, err, out);

    if (status <= 0)
        return status;
    for (k = 0; k < (*out)->count; k++) {
        int64_t rest = k, from = start;

        for (d = rank - 1; d >= 0; d--) {
            from += rest % dim[d] * step[d];
            rest /= dim[d];
        }
        small_copy(a, from, *out, k);
    }
    return 1;
}

/* Elements in one step of `axis`, that is, in all dimensions after it. */
static int64_t inner_count(const struct onnx_small *a, int axis)
{
    int64_t n = 1;
    int d;

    for (d = axis + 1; d < a->rank; d++)
        n *= a->dim[d];
    return n;
}

int small_concat(struct onnx_import *im, const struct onnx_small *const *in,
                 int n, int axis, struct infer_error *err,
                 struct onnx_small **out)
{
    int64_t dim[INFER_MAX_RANK], at = 0, k, inner;
    int i, d, status;

    memcpy(dim, in[0]->dim, sizeof(dim));
    for (i = 1; i < n; i++) {
        if (in[i]->dtype != in[0]->dtype || in[i]->rank != in[0]->rank)
            return error_set(err, INFER_EFORMAT,
                             "inputs of different rank or type");
        for (d = 0; d < in[0]->rank; d++)
            if (d != axis && in[i]->dim[d] != in[0]->dim[d])
                return error_set(err, INFER_EFORMAT,
                                 "inputs of different shapes");
        if (!checked_add_i64(dim[axis], in[i]->dim[axis], &dim[axis]))
            return error_set(err, INFER_EFORMAT, "the shape overflows");
    }
    status = onnx_small_new(im, in[0]->dtype, in[0]->rank, dim, err, out);
    if (status <= 0 || (*out)->count == 0)
        return status;
    inner = inner_count(*out, axis);
    for (i = 0; i < n; i++) {
        int64_t width = in[i]->dim[axis] * inner;

        for (k = 0; k < in[i]->count; k++)
            small_copy(in[i], k, *out,
                       k / width * (dim[axis] * inner) + at + k % width);
        at += width;
    }
    return 1;
}

int small_gather(struct onnx_import *im, const struct onnx_small *a,
                 const struct onnx_small *index, int axis,
                 struct infer_error *err, struct onnx_small **out)
{
    int64_t dim[2 * INFER_MAX_RANK], inner = inner_count(a, axis), k;
    int rank = 0, d, status;

    for (d = 0; d < axis; d++)
        dim[rank++] = a->dim[d];
    for (d = 0; d < index->rank; d++)
        dim[rank++] = index->dim[d];
    for (d = axis + 1; d < a->rank; d++)
        dim[rank++] = a->dim[d];
    if (!index->i)
        return error_set(err, INFER_EFORMAT, "indices must be integers");
    for (k = 0; k < index->count; k++)
        if (index->i[k] < -a->dim[axis] || index->i[k] >= a->dim[axis])
            return error_set(err, INFER_EFORMAT,
                             "index %lld is outside a dimension of %lld",
                             (long long)index->i[k], (long long)a->dim[axis]);
    if (rank > INFER_MAX_RANK)
        return 0;
    status = onnx_small_new(im, a->dtype, rank, dim, err, out);
    if (status <= 0)
        return status;
    for (k = 0; k < (*out)->count; k++) {
        int64_t which = index->i[k / inner % index->count];
        int64_t outer = k / inner / index->count;

        if (which < 0)
            which += a->dim[axis];
        small_copy(a, (outer * a->dim[axis] + which) * inner + k % inner, *out,
                   k);
    }
    return 1;
}

int small_fill(struct onnx_import *im, const struct onnx_small *value, int rank,
               const int64_t *dim, struct infer_error *err,
               struct onnx_small **out)
{
    int64_t k;
    int status = onnx_small_new(im, value->dtype, rank, dim, err, out);

    if (status <= 0)
        return status;
    for (k = 0; k < (*out)->count; k++)
        small_copy(value, 0, *out, k);
    return 1;
}
