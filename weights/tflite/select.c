/* SPDX-License-Identifier: Apache-2.0 */
/* TensorFlow Lite: operators that pick elements by value or by index, and
 * blocks of space that become a batch. */
#include <stdlib.h>

#include "kernels/base/checked.h"
#include "kernels/base/scalar.h"
#include "weights/tflite/tflite.h"

/* An integer as a scalar of the graph. */
static int integer(struct tflite_import *im, int64_t v)
{
    return tflite_cast(im, tflite_scalar(im, (float)v), INFER_I64);
}

/* The one integer of input i. */
static int64_t number(struct tflite_import *im, int i, const char *what)
{
    int64_t v = 0;

    if (tflite_ints(im, i, what, 1, &v) != 1 && im->status == 0)
        tflite_fail(im, INFER_EFORMAT, "%s is no number", what);
    return v;
}

/* ---- TOPK_V2, CUMSUM ----------------------------------------------- */

void tflite_import_top_k(struct tflite_import *im, int param)
{
    union graph_attr attr;
    int in[2], at;
    int64_t k;

    (void)param;
    if (!tflite_arity(im, 2, 2))
        return;
    k = number(im, 1, "k");
    if (im->status == 0 && (k < 0 || k > INT32_MAX))
        tflite_fail(im, INFER_EFORMAT, "k is %lld", (long long)k);
    in[0] = tflite_in(im, 0, false);
    tflite_defaults(GRAPH_TOP_K, &attr);
    attr.top_k.axis = -1;
    attr.top_k.k = (int)k;
    at = in[1] = tflite_emit(im, GRAPH_TOP_K, &attr, in, 1);
    tflite_defaults(GRAPH_GATHER_ELEMENTS, &attr);
    attr.axis.axis = -1;
    tflite_out(im, 0, tflite_emit(im, GRAPH_GATHER_ELEMENTS, &attr, in, 2),
               false);
    if (im->op.n_out > 1)
        tflite_out(im, 1, tflite_cast(im, at, INFER_I32), false);
}

void tflite_import_cumsum(struct tflite_import *im, int param)
{
    union graph_attr attr;
    int64_t axis;
    int x;

    (void)param;
    if (!tflite_arity(im, 2, 2))
        return;
    axis = number(im, 1, "the axis");
    x = tflite_in(im, 0, false);
    tflite_defaults(GRAPH_CUMULATE, &attr);
    attr.cumulate.axis = tflite_axis(im, axis, tflite_rank(im, 0));
    attr.cumulate.exclusive = fb_bool(&im->op.options, 0);
    attr.cumulate.reverse = fb_bool(&im->op.options, 1);
    tflite_out(im, 0, tflite_emit(im, GRAPH_CUMULATE, &attr, &x, 1), false);
}

/* ---- ONE_HOT ------------------------------------------------------- */

/* Indices, depth, and the numbers at the index and elsewhere. */
void tflite_import_one_hot(struct tflite_import *im, int param)
{
    int64_t depth, axis, dim[INFER_MAX_RANK];
    int x, in[3], rank;
    float *count;

    (void)param;
    if (!tflite_arity(im, 4, 4))
        return;
    depth = number(im, 1, "the depth");
    rank = tflite_rank(im, 0) + 1;
    axis = fb_i32(&im->op.options, 0, 0);
    axis = axis == -1 ? rank - 1 : tflite_axis(im, axis, rank);
    if (im->status == 0 &&
        (depth < 1 || depth > 1 << 20 || rank > INFER_MAX_RANK))
        tflite_fail(im, INFER_EUNSUPPORTED, "a depth of %lld",
                    (long long)depth);
    if (im->status < 0)
        return;
    count = malloc((size_t)depth * sizeof *count);
    if (!count) {
        tflite_fail(im, INFER_EMEMORY, "out of memory");
        return;
    }
    for (int64_t k = 0; k < depth; k++)
        count[k] = (float)k;
    for (int d = 0; d < rank; d++)
        dim[d] = d == axis ? depth : 1;
    x = tflite_dims(im, GRAPH_UNSQUEEZE, tflite_in(im, 0, false), 1, &axis);
    x = tflite_cast(im, x, INFER_F32);
    in[0] =
        tflite_binary(im, KERN_EQUAL, x,
                      tflite_dims(im, GRAPH_RESHAPE,
                                  tflite_vector(im, count, depth), rank, dim));
    free(count);
    in[1] = tflite_in(im, 2, false);
    in[2] = tflite_in(im, 3, false);
    tflite_out(im, 0, tflite_emit(im, GRAPH_WHERE, NULL, in, 3), false);
}

/* ---- GATHER_ND ----------------------------------------------------- */

/* Sizes of the first n dimensions, which have to be fixed. */
static bool leading(struct tflite_import *im, int n, int64_t *size)
{
    for (int d = 0; d < n; d++) {
        size[d] = tflite_type(im, 0, 0).dim[d];
        if (size[d] != tflite_type(im, 0, im->probes - 1).dim[d])
            tflite_fail(im, INFER_EUNSUPPORTED, "indices of a free size");
    }
    return im->status == 0;
}

int tflite_flat_index(struct tflite_import *im, int i, int n,
                      const int64_t *size, int64_t *rows)
{
    const int64_t last = tflite_rank(im, i) - 1;
    const int index = tflite_cast(im, tflite_in(im, i, false), INFER_I64);
    int64_t stride = 1;
    int at = -1;

    for (int j = n - 1; j >= 0; j--) {
        int part = tflite_slice(im, index, (int)last, j, j + 1);

        part = tflite_dims(im, GRAPH_SQUEEZE, part, 1, &last);
        if (stride > 1)
            part = tflite_binary(im, KERN_MUL, part, integer(im, stride));
        at = at < 0 ? part : tflite_binary(im, KERN_ADD, at, part);
        if (!checked_mul_i64(stride, size[j], &stride) || stride > 1 << 24)
            return tflite_fail(im, INFER_EUNSUPPORTED, "more than 2^24 rows");
    }
    *rows = stride;
    return at;
}

void tflite_import_gather_nd(struct tflite_import *im, int param)
{
    int64_t size[INFER_MAX_RANK], dim[INFER_MAX_RANK];
    struct graph_type x, at;
    union graph_attr attr;
    int in[2], n, rank = 1;

    (void)param;
    if (!tflite_arity(im, 2, 2))
        return;
    x = tflite_type(im, 0, 0);
    at = tflite_type(im, 1, 0);
    n = at.rank > 0 && at.dim[at.rank - 1] <= x.rank ? (int)at.dim[at.rank - 1]
                                                     : 0;
    if (im->status == 0 && n < 1)
        tflite_fail(im, INFER_EFORMAT, "no tuples of 1 to %d indices", x.rank);
    if (im->status < 0 || !leading(im, n, size))
        return;
    in[1] = tflite_flat_index(im, 1, n, size, &dim[0]);
    for (int d = n; d < x.rank; d++)
        dim[rank++] = x.dim[d] == tflite_type(im, 0, im->probes - 1).dim[d]
                          ? x.dim[d]
                          : -1;
    in[0] = tflite_dims(im, GRAPH_RESHAPE, tflite_in(im, 0, false), rank, dim);
    tflite_defaults(GRAPH_GATHER, &attr);
    attr.axis.axis = 0;
    tflite_out(im, 0, tflite_emit(im, GRAPH_GATHER, &attr, in, 2), false);
}

/* ---- SPACE_TO_BATCH_ND, BATCH_TO_SPACE_ND -------------------------- */

/* Blocks of m dimensions behind the batch, and amounts before and behind. */
struct blocks {
    int m, rank;
    int64_t size[INFER_MAX_RANK], amount[2 * INFER_MAX_RANK];
};

/* The integers of a table of m rows of two; how many there are, or -1. */
static int read_amounts(struct tflite_import *im, int64_t *out)
{
    const struct constant *c = tflite_fixed(im, 2);
    const int64_t n = c ? constant_count(c) : -1;

    if (im->status < 0)
        return -1;
    if (!c || !scalar_is_integer(c->dtype) || n > 2 * INFER_MAX_RANK)
        return tflite_fail(im, INFER_EUNSUPPORTED,
                           "the amounts must be constant integers");
    for (int64_t k = 0; k < n; k++)
        out[k] = scalar_load_i64(c->dtype, c->data, k);
    return (int)n;
}

static bool read_blocks(struct tflite_import *im, struct blocks *b)
{
    int n;

    if (!tflite_arity(im, 3, 3))
        return false;
    b->rank = tflite_rank(im, 0);
    b->m = tflite_ints(im, 1, "the block", INFER_MAX_RANK, b->size);
    n = read_amounts(im, b->amount);
    if (im->status == 0 && (b->m < 1 || n != 2 * b->m || b->m >= b->rank ||
                            b->rank + b->m > INFER_MAX_RANK))
        tflite_fail(im, INFER_EUNSUPPORTED,
                    "%d blocks and %d amounts for rank %d", b->m, n, b->rank);
    for (int i = 0; i < b->m && im->status == 0; i++)
        if (b->size[i] < 1 || b->size[i] > INT16_MAX || b->amount[2 * i] < 0 ||
            b->amount[2 * i] > INT16_MAX || b->amount[2 * i + 1] < 0 ||
            b->amount[2 * i + 1] > INT16_MAX)
            tflite_fail(im, INFER_EFORMAT, "a block of %lld with %lld and %lld",
                        (long long)b->size[i], (long long)b->amount[2 * i],
                        (long long)b->amount[2 * i + 1]);
    return im->status == 0;
}

/* Dimension d of a value, which has to be fixed. */
static int64_t fixed_dim(struct tflite_import *im, int x, int d)
{
    int64_t n;

    if (im->status < 0)
        return 1;
    n = tflite_value_type(im, x, 0)->dim[d];
    if (n != tflite_value_type(im, x, im->probes - 1)->dim[d])
        tflite_fail(im, INFER_EUNSUPPORTED, "blocks of a free size");
    return n;
}

void tflite_import_space_to_batch(struct tflite_import *im, int param)
{
    int64_t split[INFER_MAX_RANK] = {0}, join[INFER_MAX_RANK] = {-1};
    int64_t order[INFER_MAX_RANK];
    union graph_attr attr;
    struct blocks b;
    int x;

    (void)param;
    if (!read_blocks(im, &b))
        return;
    x = tflite_in(im, 0, false);
    tflite_defaults(GRAPH_PAD, &attr);
    for (int i = 0; i < b.m; i++) {
        attr.pad.begin[1 + i] = (int)b.amount[2 * i];
        attr.pad.end[1 + i] = (int)b.amount[2 * i + 1];
    }
    x = tflite_emit(im, GRAPH_PAD, &attr, &x, 1);
    for (int d = 1; d < b.rank && im->status == 0; d++) {
        const int64_t n = fixed_dim(im, x, d);

        if (d > b.m) {
            split[d + b.m] = join[d] = n;
            order[d + b.m] = d + b.m;
            continue;
        }
        if (n % b.size[d - 1] != 0)
            tflite_fail(im, INFER_EFORMAT, "blocks of %lld in %lld",
                        (long long)b.size[d - 1], (long long)n);
        split[2 * d - 1] = join[d] = n / b.size[d - 1];
        split[2 * d] = b.size[d - 1];
        order[d - 1] = 2 * d;
        order[b.m + d] = 2 * d - 1;
    }
    order[b.m] = 0;
    x = tflite_dims(im, GRAPH_RESHAPE, x, b.rank + b.m, split);
    x = tflite_dims(im, GRAPH_TRANSPOSE, x, b.rank + b.m, order);
    tflite_out(im, 0, tflite_dims(im, GRAPH_RESHAPE, x, b.rank, join), false);
}

void tflite_import_batch_to_space(struct tflite_import *im, int param)
{
    int64_t split[INFER_MAX_RANK], join[INFER_MAX_RANK] = {0};
    int64_t order[INFER_MAX_RANK];
    union graph_attr attr;
    struct blocks b;
    int x;

    (void)param;
    if (!read_blocks(im, &b))
        return;
    x = tflite_in(im, 0, false);
    tflite_defaults(GRAPH_SLICE, &attr);
    split[b.m] = -1;
    order[0] = b.m;
    for (int d = 1; d < b.rank && im->status == 0; d++) {
        const int64_t n = fixed_dim(im, x, d);

        split[b.m + d] = join[d] = n;
        if (d > b.m) {
            order[b.m + d] = b.m + d;
            continue;
        }
        split[d - 1] = b.size[d - 1];
        join[d] *= b.size[d - 1];
        order[2 * d - 1] = b.m + d;
        order[2 * d] = d - 1;
        if (b.amount[2 * d - 2] + b.amount[2 * d - 1] == 0)
            continue;
        attr.slice.axis[attr.slice.n_axes] = d;
        attr.slice.begin[attr.slice.n_axes] = b.amount[2 * d - 2];
        attr.slice.end[attr.slice.n_axes] = join[d] - b.amount[2 * d - 1];
        attr.slice.step[attr.slice.n_axes++] = 1;
    }
    x = tflite_dims(im, GRAPH_RESHAPE, x, b.rank + b.m, split);
    x = tflite_dims(im, GRAPH_TRANSPOSE, x, b.rank + b.m, order);
    x = tflite_dims(im, GRAPH_RESHAPE, x, b.rank, join);
    if (attr.slice.n_axes > 0)
        x = tflite_emit(im, GRAPH_SLICE, &attr, &x, 1);
    tflite_out(im, 0, x, false);
}
