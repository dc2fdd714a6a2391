/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ONNX SparseTensorProto: the elements that are not 0, where they lie, and the
 * shape.  Indices are positions in the flattened tensor, one an element, or
 * rows of coordinates.  The constant is dense.
 */
#include <string.h>

#include "kernels/base/scalar.h"
#include "weights/onnx/onnx.h"

struct sparse {
    struct pb_span values, indices;
    bool has_values, has_indices;
    int rank;
    int64_t dim[INFER_MAX_RANK];
};

static int sparse_field(void *user, const struct pb_reader *r,
                        const struct pb_field *f, struct infer_error *err)
{
    struct sparse *s = user;
    size_t n, at = 0;
    uint64_t bits;

    if (f->number == 1 || f->number == 2) {
        bool *has = f->number == 1 ? &s->has_values : &s->has_indices;

        if (pb_expect(r, f, PB_BYTES, "a sparse tensor", err) < 0)
            return INFER_EFORMAT;
        if (*has)
            return error_set(err, INFER_EFORMAT,
                             "a sparse tensor has two lists of one kind");
        *has = true;
        *(f->number == 1 ? &s->values : &s->indices) = f->span;
    } else if (f->number == 3) {
        if (pb_count(r, f, PB_VARINT, "dimensions", err, &n) < 0)
            return INFER_EFORMAT;
        if (n > (size_t)(INFER_MAX_RANK - s->rank))
            return error_set(err, INFER_EUNSUPPORTED, "more than %d dimensions",
                             INFER_MAX_RANK);
        while (pb_item(f, PB_VARINT, &at, &bits)) {
            if ((int64_t)bits < 0)
                return error_set(err, INFER_EFORMAT, "dimension %d is %lld",
                                 s->rank, (long long)(int64_t)bits);
            s->dim[s->rank++] = (int64_t)bits;
        }
    }
    return 0;
}

int onnx_sparse_name(const struct onnx_model *m, struct pb_span span,
                     struct infer_error *err, struct pb_span *out)
{
    struct pb_reader r = onnx_reader(m, span);
    struct sparse s = {.rank = 0};
    int rc = pb_each(&r, sparse_field, &s, err);

    if (rc == 0 && !s.has_values)
        rc = error_set(err, INFER_EFORMAT, "a sparse tensor without values");
    return rc < 0 ? rc : onnx_tensor_name(m, s.values, err, out);
}

/* Entry k of the list of indices as a position in the flattened tensor; -1
 * where it is outside. */
static int64_t position(const struct sparse *s, const struct constant *index,
                        int64_t count, int64_t k)
{
    int64_t at = 0;

    if (index->rank == 1) {
        at = scalar_load_i64(INFER_I64, index->data, k);
        return at < 0 || at >= count ? -1 : at;
    }
    for (int d = 0; d < s->rank; d++) {
        const int64_t i =
            scalar_load_i64(INFER_I64, index->data, k * s->rank + d);

        if (i < 0 || i >= s->dim[d])
            return -1;
        at = at * s->dim[d] + i;
    }
    return at;
}

static int check_lists(struct onnx_import *im, const struct sparse *s,
                       const struct constant *value,
                       const struct constant *index)
{
    const int64_t n = constant_count(value);

    if (value->rank != 1 || index->dtype != INFER_I64 || index->rank < 1 ||
        index->rank > 2 || index->dim[0] != n ||
        (index->rank == 2 && index->dim[1] != s->rank))
        return onnx_fail(im, INFER_EFORMAT,
                         "the indices of a sparse tensor do not fit its %lld "
                         "values",
                         (long long)n);
    return 0;
}

/* Zeros of so many bytes take no memory (constant_new_fill()), but for those on
 * a page with a value. */
#define MAPPED_BYTES ((size_t)1 << 20)

static void charge(struct onnx_import *im, const struct constant *c,
                   const struct constant *value)
{
    const uint64_t pages = (uint64_t)constant_count(value) * 4096;
    const uint64_t bytes =
        pages < c->bytes && c->bytes >= MAPPED_BYTES ? pages : c->bytes;

    if (im->rc == 0)
        onnx_charge(im, bytes);
}

int onnx_sparse_load(struct onnx_import *im, struct pb_span span,
                     struct constant **out)
{
    struct pb_reader r = onnx_reader(im->model, span);
    struct sparse s = {.rank = 0};
    struct constant *value, *index, *c;
    int64_t count;

    im->rc = pb_each(&r, sparse_field, &s, im->err);
    if (im->rc == 0 && (!s.has_values || !s.has_indices))
        onnx_fail(im, INFER_EFORMAT,
                  "a sparse tensor without values or indices");
    if (im->rc == 0)
        im->rc = onnx_tensor_load(im->model, s.values, im->err, &value);
    if (im->rc == 0)
        im->rc = onnx_tensor_load(im->model, s.indices, im->err, &index);
    if (im->rc == 0 && onnx_tensor_narrow(im->model, s.values) != 0)
        onnx_fail(im, INFER_EUNSUPPORTED, "a sparse tensor of a narrow type");
    if (im->rc < 0 || check_lists(im, &s, value, index) < 0 ||
        onnx_new_fill(im, value->dtype, s.rank, s.dim, NULL, &c) < 0)
        return im->rc;
    count = constant_count(c);
    charge(im, c, value);
    if (im->rc == 0)
        constant_fill(c);
    for (int64_t k = 0; k < constant_count(value) && im->rc == 0; k++) {
        const size_t size = infer_dtype_size(value->dtype);
        const int64_t at = position(&s, index, count, k);

        if (at < 0)
            onnx_fail(im, INFER_EFORMAT,
                      "index %lld of a sparse tensor is outside it",
                      (long long)k);
        else
            memcpy((char *)c->data + (size_t)at * size,
                   (const char *)value->data + (size_t)k * size, size);
    }
    if (im->rc < 0)
        constant_unref(c);
    else
        *out = c;
    return im->rc;
}
