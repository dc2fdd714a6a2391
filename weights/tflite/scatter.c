/* SPDX-License-Identifier: Apache-2.0 */
/* TensorFlow Lite: SCATTER_ND. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/scalar.h"
#include "weights/tflite/tflite.h"

/* What the inputs have to be: indices of count tuples, a row of the shape
 * without its first n dimensions for each. */
static bool check_scatter(struct tflite_import *im, const int64_t *shape,
                          int rank, int *n, int64_t *count, int64_t *row)
{
    const struct graph_type at = tflite_type(im, 0, 0);
    const struct graph_type update = tflite_type(im, 1, 0);
    int64_t size;

    for (int p = 1; p < im->probes && im->status == 0; p++) {
        const struct graph_type a = tflite_type(im, 0, p);
        const struct graph_type u = tflite_type(im, 1, p);

        if (memcmp(a.dim, at.dim, (size_t)at.rank * sizeof *a.dim) != 0 ||
            memcmp(u.dim, update.dim, (size_t)update.rank * sizeof *u.dim) != 0)
            tflite_fail(im, INFER_EUNSUPPORTED, "indices of a free size");
    }
    if (im->status < 0)
        return false;
    *n = at.rank > 0 && at.dim[at.rank - 1] <= rank ? (int)at.dim[at.rank - 1]
                                                    : 0;
    if (*n < 1 || !checked_count(at.rank - 1, at.dim, count) ||
        !checked_count(rank - *n, shape + *n, row) ||
        !checked_count(update.rank, update.dim, &size) || *row < 1 ||
        *count < 1 || size / *row != *count || size % *row != 0) {
        tflite_fail(im, INFER_EFORMAT,
                    "no tuples of 1 to %d indices with an update each", rank);
        return false;
    }
    return true;
}

/* Row r of n constant indices, as one index; -1 after a refusal. */
static int64_t flat_row(struct tflite_import *im, const struct constant *c,
                        int64_t r, int n, const int64_t *size)
{
    int64_t at = 0;

    for (int j = 0; j < n; j++) {
        const int64_t v = scalar_load_i64(c->dtype, c->data, r * n + j);

        if (v < 0 || v >= size[j])
            return tflite_fail(im, INFER_EFORMAT,
                               "index %lld in a dimension of %lld",
                               (long long)v, (long long)size[j]);
        at = at * size[j] + v;
    }
    return at;
}

/* Indices that are constant lie inside.  *once: they are, and no two are the
 * same. */
static int check_rows(struct tflite_import *im, int64_t count, int n,
                      const int64_t *size, int64_t rows, bool *once)
{
    const struct constant *c = tflite_fixed(im, 0);
    unsigned char *seen;

    *once = false;
    if (!c || im->status < 0 || !scalar_is_integer(c->dtype))
        return im->status;
    seen = calloc(1, (size_t)rows);
    if (!seen)
        return tflite_fail(im, INFER_EMEMORY, "out of memory");
    *once = true;
    for (int64_t r = 0; r < count && im->status == 0; r++) {
        const int64_t at = flat_row(im, c, r, n, size);

        if (at >= 0) {
            *once &= !seen[at];
            seen[at] = 1;
        }
    }
    free(seen);
    return im->status;
}

/* The operator takes quantised tensors for integers: it leaves the integer 0 in
 * the gaps and adds integers, in 8 bits that overflow. */
static int check_integers(struct tflite_import *im, bool once, int64_t *zero)
{
    const struct tflite_tensor in = tflite_input_tensor(im, 1);
    const struct tflite_tensor out = tflite_output_tensor(im, 0);

    *zero = 0;
    if (im->status < 0 ||
        (!tflite_is_quantised(&in) && !tflite_is_quantised(&out)))
        return im->status;
    if (!tflite_same_quant(&in, &out))
        return tflite_fail(im, INFER_EUNSUPPORTED,
                           "updates and result of different scales");
    if (!once)
        return tflite_fail(im, INFER_EUNSUPPORTED,
                           "sums of quantised updates in one place");
    im->raw = true;
    *zero = tflite_quant(im, &in).zero;
    return im->status;
}

/* Indices, updates, shape: zeros, to which each update is added, or which it
 * replaces where it is an integer that no other one meets. */
void tflite_import_scatter_nd(struct tflite_import *im, int param)
{
    int64_t shape[INFER_MAX_RANK], rows = 0, count = 0, row = 0;
    int64_t dim[2], zero = 0;
    struct constant *zeros;
    union graph_attr attr;
    int in[3], n = 0, rank, x;
    bool once = false;

    (void)param;
    if (!tflite_arity(im, 3, 3))
        return;
    rank = tflite_ints(im, 2, "the shape", INFER_MAX_RANK, shape);
    for (int d = 0; d < rank; d++)
        if (shape[d] < 1)
            tflite_fail(im, INFER_EFORMAT, "a size of %lld",
                        (long long)shape[d]);
    if (im->status < 0 || !check_scatter(im, shape, rank, &n, &count, &row))
        return;
    x = tflite_flat_index(im, 0, n, shape, &rows);
    if (im->status < 0 || check_rows(im, count, n, shape, rows, &once) < 0 ||
        check_integers(im, once, &zero) < 0)
        return;
    dim[0] = rows;
    dim[1] = row;
    in[2] = tflite_in(im, 1, false);
    if (im->status < 0)
        return;
    zeros =
        tflite_constant_new(im, tflite_value_type(im, in[2], 0)->dtype, 2, dim);
    if (!zeros)
        return;
    memset(zeros->data, 0, zeros->bytes);
    for (int64_t i = 0; zero != 0 && i < rows * row; i++)
        scalar_store(zeros->dtype, zeros->data, i, -(double)zero);
    in[0] = tflite_add_constant(im, -1, zeros);
    dim[0] = count;
    dim[1] = 1;
    x = tflite_dims(im, GRAPH_RESHAPE, x, 2, dim);
    dim[1] = row;
    in[1] = tflite_dims(im, GRAPH_EXPAND, x, 2, dim);
    in[2] = tflite_dims(im, GRAPH_RESHAPE, in[2], 2, dim);
    tflite_defaults(GRAPH_SCATTER_ELEMENTS, &attr);
    attr.scatter.axis = 0;
    attr.scatter.kind = im->raw ? KERN_SCATTER_SET : KERN_SCATTER_ADD;
    x = tflite_emit(im, GRAPH_SCATTER_ELEMENTS, &attr, in, 3);
    tflite_out(im, 0, tflite_dims(im, GRAPH_RESHAPE, x, rank, shape), false);
}
