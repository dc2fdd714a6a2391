/* SPDX-License-Identifier: Apache-2.0 */
/* Short forms for operators that are several nodes; see compose.h. */
#include "weights/onnx/composed/compose.h"

#include <string.h>

#include "kernels/base/scalar.h"

/* ---- inputs and shapes --------------------------------------------- */

int compose_input(struct onnx_import *im, int i)
{
    int value = -1;

    onnx_input(im, i, &value);
    return value;
}

int compose_rank(const struct onnx_import *im, int value)
{
    return im->rc < 0 || value < 0 ? 0 : im->type[value][0].rank;
}

enum infer_dtype compose_dtype(const struct onnx_import *im, int value)
{
    return im->rc < 0 || value < 0 ? INFER_F32 : im->type[value][0].dtype;
}

int64_t compose_free_dim(struct onnx_import *im, int value, int d)
{
    const int rank = compose_rank(im, value);

    if (im->rc < 0 || value < 0)
        return 1;
    d += d < 0 ? rank : 0;
    if (d < 0 || d >= rank) {
        onnx_fail(im, INFER_EFORMAT, "a tensor of %d dimensions", rank);
        return 1;
    }
    for (int p = 1; p < im->probes; p++)
        if (im->type[value][p].dim[d] != im->type[value][0].dim[d])
            return -1;
    return im->type[value][0].dim[d];
}

int64_t compose_dim(struct onnx_import *im, int value, int d)
{
    const int64_t n = compose_free_dim(im, value, d);

    if (n >= 0)
        return n;
    onnx_fail(im, INFER_EUNSUPPORTED,
              "a dimension that must be fixed is free; --input-shape fixes "
              "free sizes");
    return 1;
}

int compose_need_rank(struct onnx_import *im, int value, int min, int max)
{
    const int rank = compose_rank(im, value);

    if (im->rc == 0 && value >= 0 && (rank < min || rank > max))
        return onnx_fail(im, INFER_EFORMAT,
                         "a tensor of %d dimensions, expected %d to %d", rank,
                         min, max);
    return im->rc;
}

int compose_axis(struct onnx_import *im, int value, int otherwise)
{
    const int stated = onnx_axis(im, otherwise);
    int axis = 0;

    if (im->rc == 0)
        im->rc = op_axis(stated, compose_rank(im, value), &axis, im->err);
    return im->rc < 0 ? 0 : axis;
}

/* ---- constants ----------------------------------------------------- */

static int add_constant(struct onnx_import *im, struct constant *c)
{
    int value = -1;

    onnx_add_constant(im, c, &value);
    return im->rc < 0 ? -1 : value;
}

int compose_number(struct onnx_import *im, enum infer_dtype dtype, double v)
{
    struct constant *c;

    if (onnx_new_constant(im, dtype, 0, NULL, &c) < 0)
        return -1;
    scalar_store(dtype, c->data, 0, v);
    return add_constant(im, c);
}

int compose_integer(struct onnx_import *im, enum infer_dtype dtype, int64_t v)
{
    struct constant *c;

    if (onnx_new_constant(im, dtype, 0, NULL, &c) < 0)
        return -1;
    scalar_store_i64(dtype, c->data, 0, v);
    return add_constant(im, c);
}

/* A constant whose elements the caller fills in; *data: NULL on failure. */
static int unfilled(struct onnx_import *im, enum infer_dtype dtype, int rank,
                    const int64_t *dim, void **data)
{
    struct constant *c;
    int value;

    *data = NULL;
    if (onnx_new_constant(im, dtype, rank, dim, &c) < 0)
        return -1;
    *data = c->data;
    value = add_constant(im, c);
    if (value < 0)
        *data = NULL; /* it is freed */
    return value;
}

int compose_floats(struct onnx_import *im, int rank, const int64_t *dim,
                   float **data)
{
    void *elements;
    const int value = unfilled(im, INFER_F32, rank, dim, &elements);

    *data = elements;
    return value;
}

int compose_i64(struct onnx_import *im, int rank, const int64_t *dim,
                int64_t **data)
{
    void *elements;
    const int value = unfilled(im, INFER_I64, rank, dim, &elements);

    *data = elements;
    return value;
}

int compose_equal(struct onnx_import *im, int64_t n, int64_t v)
{
    struct constant *c;

    return onnx_new_fill(im, INFER_I64, 1, &n, &v, &c) < 0
               ? -1
               : add_constant(im, c);
}

/* The same by nodes, which take no memory: ones and their sums, in floats. */
static int count_by_nodes(struct onnx_import *im, int rank, const int64_t *dim,
                          int axis)
{
    int64_t one[INFER_MAX_RANK];
    union graph_attr attr;
    float *data;
    int value;

    for (int d = 0; d < rank; d++)
        one[d] = 1;
    value = compose_floats(im, rank, one, &data);
    if (value < 0)
        return -1;
    data[0] = 1;
    onnx_emit_dims(im, GRAPH_EXPAND, value, rank, dim, -1, &value);
    onnx_defaults(GRAPH_CUMULATE, &attr);
    attr.cumulate.axis = axis;
    attr.cumulate.exclusive = true;
    onnx_emit(im, GRAPH_CUMULATE, &attr, &value, 1, -1, &value);
    return compose_cast(im, INFER_I64, value);
}

/* Constants of fewer entries are small; a float counts to the other bound. */
#define LEAST_BY_NODES (ONNX_MAX_SMALL + 1)
#define MOST_BY_NODES  (1 << 24)

int compose_count(struct onnx_import *im, int64_t n, int rank, int axis)
{
    int64_t dim[INFER_MAX_RANK], *data;
    int value;

    for (int d = 0; d < rank; d++)
        dim[d] = d == axis ? n : 1;
    if (n >= LEAST_BY_NODES && n <= MOST_BY_NODES)
        return count_by_nodes(im, rank, dim, axis);
    value = compose_i64(im, rank, dim, &data);
    for (int64_t k = 0; value >= 0 && k < n; k++)
        data[k] = k;
    return value;
}

int compose_filled(struct onnx_import *im, int64_t fill, int value, int d)
{
    const int64_t n = compose_free_dim(im, value, d);
    int x = compose_equal(im, n < 0 ? 1 : n, fill);

    if (n < 0)
        onnx_repeat_like(im, x, value, d < 0 ? d + compose_rank(im, value) : d,
                         &x);
    return im->rc < 0 ? -1 : x;
}

int compose_entries(struct onnx_import *im, int value, int d)
{
    const int64_t n = compose_free_dim(im, value, d);

    if (n >= 0)
        return compose_integer(im, INFER_I64, n);
    return compose_reduce(im, KERN_REDUCE_SUM, compose_filled(im, 1, value, d),
                          0);
}

int compose_count_of(struct onnx_import *im, int value, int d, int rank,
                     int axis)
{
    const int64_t n = compose_free_dim(im, value, d);
    int64_t shape[INFER_MAX_RANK];
    union graph_attr attr;
    int x;

    if (n >= 0)
        return compose_count(im, n, rank, axis);
    x = compose_filled(im, 1, value, d);
    onnx_defaults(GRAPH_CUMULATE, &attr);
    attr.cumulate.exclusive = true;
    onnx_emit(im, GRAPH_CUMULATE, &attr, &x, 1, -1, &x);
    for (int i = 0; i < rank; i++)
        shape[i] = i == axis ? -1 : 1;
    return rank == 1 ? x : compose_reshape(im, x, rank, shape);
}

/* ---- nodes --------------------------------------------------------- */

static int emit(struct onnx_import *im, enum graph_op op,
                const union graph_attr *attr, const int *in, int n)
{
    int value = -1;

    onnx_emit(im, op, attr, in, n, -1, &value);
    return value;
}

int compose_unary(struct onnx_import *im, enum kern_unary_kind kind, int x)
{
    const struct kern_unary f = kern_unary_default(kind);
    int value = -1;

    onnx_emit_unary(im, kind, f.a, f.b, x, -1, &value);
    return value;
}

int compose_linear(struct onnx_import *im, double a, double b, int x)
{
    int value = -1;

    onnx_emit_unary(im, KERN_LINEAR, (float)a, (float)b, x, -1, &value);
    return value;
}

int compose_clip(struct onnx_import *im, double low, double high, int x)
{
    int value = -1;

    onnx_emit_unary(im, KERN_CLIP, (float)low, (float)high, x, -1, &value);
    return value;
}

int compose_binary(struct onnx_import *im, enum kern_binary_kind kind, int a,
                   int b)
{
    int value = -1;

    onnx_emit_binary(im, kind, a, b, -1, &value);
    return value;
}

int compose_where(struct onnx_import *im, int condition, int a, int b)
{
    const int in[3] = {condition, a, b};

    return emit(im, GRAPH_WHERE, NULL, in, 3);
}

int compose_cast(struct onnx_import *im, enum infer_dtype to, int x)
{
    int value = -1;

    if (compose_dtype(im, x) == to)
        return x;
    onnx_emit_cast(im, to, x, -1, &value);
    return value;
}

static int dims(struct onnx_import *im, enum graph_op op, int x, int n,
                const int64_t *dim)
{
    int value = -1;

    if (n > INFER_MAX_RANK) {
        onnx_fail(im, INFER_EUNSUPPORTED, "more than %d dimensions",
                  INFER_MAX_RANK);
        return -1;
    }
    onnx_emit_dims(im, op, x, n, dim, -1, &value);
    return value;
}

int compose_reshape(struct onnx_import *im, int x, int n, const int64_t *dim)
{
    return dims(im, GRAPH_RESHAPE, x, n, dim);
}

int compose_transpose(struct onnx_import *im, int x, int n,
                      const int64_t *order)
{
    return dims(im, GRAPH_TRANSPOSE, x, n, order);
}

/* Dimension `from` moves to place `to`. */
static int move_dim(struct onnx_import *im, int x, int from, int to)
{
    const int rank = compose_rank(im, x);
    int64_t order[INFER_MAX_RANK];
    int n = 0;

    if (im->rc < 0 || rank < 3)
        return x;
    for (int d = 0; d < rank; d++)
        if (d != from)
            order[n++] = d;
    for (int d = rank - 1; d > to; d--)
        order[d] = order[d - 1];
    order[to] = from;
    return compose_transpose(im, x, rank, order);
}

int compose_channels_first(struct onnx_import *im, int x)
{
    return move_dim(im, x, compose_rank(im, x) - 1, 1);
}

int compose_channels_last(struct onnx_import *im, int x)
{
    return move_dim(im, x, 1, compose_rank(im, x) - 1);
}

int compose_swap(struct onnx_import *im, int x, int a, int b)
{
    const int rank = compose_rank(im, x);
    int64_t order[INFER_MAX_RANK];

    if (im->rc < 0 || a == b)
        return x;
    for (int d = 0; d < rank; d++)
        order[d] = d == a ? b : d == b ? a : d;
    return compose_transpose(im, x, rank, order);
}

int compose_expand(struct onnx_import *im, int x, int n, const int64_t *dim)
{
    return dims(im, GRAPH_EXPAND, x, n, dim);
}

int compose_unsqueeze(struct onnx_import *im, int x, int axis)
{
    const int64_t a = axis;

    return dims(im, GRAPH_UNSQUEEZE, x, 1, &a);
}

int compose_squeeze(struct onnx_import *im, int x, int axis)
{
    const int64_t a = axis;

    return dims(im, GRAPH_SQUEEZE, x, 1, &a);
}

int compose_slice(struct onnx_import *im, int x, int axis, int64_t begin,
                  int64_t end, int64_t step)
{
    union graph_attr attr;

    onnx_defaults(GRAPH_SLICE, &attr);
    attr.slice.n_axes = 1;
    attr.slice.axis[0] = axis;
    attr.slice.begin[0] = begin;
    attr.slice.end[0] = end;
    attr.slice.step[0] = step;
    return emit(im, GRAPH_SLICE, &attr, &x, 1);
}

int compose_concat(struct onnx_import *im, int n, const int *x, int axis)
{
    union graph_attr attr;

    if (n == 1)
        return x[0];
    onnx_defaults(GRAPH_CONCAT, &attr);
    attr.axis.axis = axis;
    return emit(im, GRAPH_CONCAT, &attr, x, n);
}

int compose_pad(struct onnx_import *im, int x, int axis, int before, int after,
                float value)
{
    union graph_attr attr;

    onnx_defaults(GRAPH_PAD, &attr);
    attr.pad.begin[axis] = before;
    attr.pad.end[axis] = after;
    attr.pad.value = value;
    return emit(im, GRAPH_PAD, &attr, &x, 1);
}

int compose_gather(struct onnx_import *im, int x, int index, int axis)
{
    const int in[2] = {x, index};
    union graph_attr attr;

    onnx_defaults(GRAPH_GATHER, &attr);
    attr.axis.axis = axis;
    return emit(im, GRAPH_GATHER, &attr, in, 2);
}

int compose_gather_elements(struct onnx_import *im, int x, int index, int axis)
{
    const int in[2] = {x, index};
    union graph_attr attr;

    onnx_defaults(GRAPH_GATHER_ELEMENTS, &attr);
    attr.axis.axis = axis;
    return emit(im, GRAPH_GATHER_ELEMENTS, &attr, in, 2);
}

int compose_scatter(struct onnx_import *im, int x, int index, int update,
                    int axis, enum kern_scatter_kind kind)
{
    const int in[3] = {x, index, update};
    union graph_attr attr;

    onnx_defaults(GRAPH_SCATTER_ELEMENTS, &attr);
    attr.scatter.axis = axis;
    attr.scatter.kind = kind;
    return emit(im, GRAPH_SCATTER_ELEMENTS, &attr, in, 3);
}

int compose_reduce(struct onnx_import *im, enum kern_reduce_kind kind, int x,
                   int axis)
{
    union graph_attr attr;

    onnx_defaults(GRAPH_REDUCE, &attr);
    attr.reduce.kind = kind;
    attr.reduce.keep_dims = true;
    attr.reduce.n_axes = 1;
    attr.reduce.axis[0] = axis;
    return emit(im, GRAPH_REDUCE, &attr, &x, 1);
}

int compose_softmax(struct onnx_import *im, int x, int axis)
{
    union graph_attr attr;

    onnx_defaults(GRAPH_SOFTMAX, &attr);
    attr.axis.axis = axis;
    return emit(im, GRAPH_SOFTMAX, &attr, &x, 1);
}

int compose_matmul(struct onnx_import *im, int a, int b, bool transpose_b,
                   float alpha)
{
    const int in[2] = {a, b};
    union graph_attr attr;

    onnx_defaults(GRAPH_MATMUL, &attr);
    attr.matmul.transpose_b = transpose_b;
    attr.matmul.alpha = alpha;
    return emit(im, GRAPH_MATMUL, &attr, in, 2);
}

int compose_output(struct onnx_import *im, int i, int value)
{
    return onnx_emit_unary(im, KERN_IDENTITY, 0, 0, value, i, NULL);
}
