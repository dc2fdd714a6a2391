/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ONNX GatherND, GatherElements, ScatterND and ScatterElements of constant
 * indices, Trilu, EyeLike.
 *
 * Such indices are usual in convolutional networks: masks of shifted
 * windows, position codes, pools to sizes that do not divide.  A gather over
 * several dimensions is then a gather from the flattened tensor, and a scatter
 * is a gather from the tensor and its updates, one behind the other.
 */
#include <limits.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/scalar.h"
#include "weights/onnx/onnx.h"

/* ---- shapes and indices -------------------------------------------- */

/* The shape of input i, of which the dimensions [first, last) are the same at
 * all probes and not empty.  last < 0: to the end. */
static int fixed_shape(struct onnx_import *im, int i, int first, int last,
                       struct graph_type *out)
{
    struct graph_type t;

    onnx_input_type(im, i, 0, out);
    for (int p = 0; p < im->probes && onnx_input_type(im, i, p, &t) == 0; p++)
        for (int d = first; d < (last < 0 ? t.rank : last); d++)
            if (d >= t.rank || t.dim[d] < 1 || t.dim[d] != out->dim[d])
                return onnx_fail(im, INFER_EUNSUPPORTED,
                                 "dimension %d of input %d must be fixed; "
                                 "--input-shape fixes free sizes",
                                 d, i);
    return im->rc;
}

static int64_t product(const int64_t *dim, int n)
{
    int64_t count;

    return checked_count(n, dim, &count) ? count : INT64_MAX;
}

/* Input i as constant integers, at least one; NULL after an error. */
static const struct constant *index_constant(struct onnx_import *im, int i)
{
    struct constant *c;

    onnx_input_constant(im, i, &c);
    if (!c)
        onnx_fail(im, INFER_EUNSUPPORTED,
                  "indices must be constant, but are computed at run time");
    else if (c->dtype != INFER_I64 && c->dtype != INFER_I32)
        onnx_fail(im, INFER_EFORMAT, "indices of type %s",
                  infer_dtype_name(c->dtype));
    else if (c->rank < 1 || constant_count(c) < 1)
        onnx_fail(im, INFER_EUNSUPPORTED, "no indices");
    return im->rc < 0 ? NULL : c;
}

/* Element k of the indices for a dimension of `extent` elements; negative ones
 * count from its end. */
static int64_t one_index(struct onnx_import *im, const struct constant *c,
                         int64_t k, int64_t extent)
{
    const int64_t value = scalar_load_i64(c->dtype, c->data, k);
    const int64_t at = value < 0 ? value + extent : value;

    if (at >= 0 && at < extent)
        return at;
    onnx_fail(im, INFER_EFORMAT, "index %lld in a dimension of %lld elements",
              (long long)value, (long long)extent);
    return 0;
}

/* Tuple k of n indices as one index into the n dimensions dim, joined. */
static int64_t tuple_index(struct onnx_import *im, const struct constant *c,
                           int64_t k, int n, const int64_t *dim)
{
    int64_t at = 0;

    for (int j = 0; j < n; j++)
        at = at * dim[j] + one_index(im, c, k * n + j, dim[j]);
    return at;
}

/* Place in a tensor of shape t that element k of the indices stands for: its
 * own place, but for its value along `axis`. */
static int64_t element_index(struct onnx_import *im, const struct constant *c,
                             int64_t k, const struct graph_type *t, int axis)
{
    int64_t rest = k, at = 0, place[INFER_MAX_RANK];

    for (int d = c->rank - 1; d >= 0; d--) {
        place[d] = rest % c->dim[d];
        rest /= c->dim[d];
    }
    place[axis] = one_index(im, c, k, t->dim[axis]);
    for (int d = 0; d < t->rank; d++)
        at = at * t->dim[d] + place[d];
    return at;
}

static int64_t *indices(const struct constant *c)
{
    return (int64_t *)(void *)c->data;
}

/* ---- emitting ------------------------------------------------------ */

/* The value in another shape; at most one dimension is -1. */
static int reshaped(struct onnx_import *im, int value, int n,
                    const int64_t *dim, int out, int *result)
{
    return onnx_emit_dims(im, GRAPH_RESHAPE, value, n, dim, out, result);
}

/* The rows of `value`, along its dimension 0, that a constant (taken over)
 * lists. */
static int gathered(struct onnx_import *im, int value, struct constant *rows,
                    int *result)
{
    union graph_attr attr;
    int in[2] = {value, -1};

    onnx_defaults(GRAPH_GATHER, &attr);
    attr.axis.axis = 0;
    onnx_add_constant(im, rows, &in[1]);
    return onnx_emit(im, GRAPH_GATHER, &attr, in, 2, -1, result);
}

/* Appends the dimensions of input 0 from `from` on to dim[0 .. *n).  One that
 * is free becomes -1. */
static int append_rest(struct onnx_import *im, int from, int64_t *dim, int *n)
{
    struct graph_type t, first;
    int open = 0;

    onnx_input_type(im, 0, 0, &first);
    for (int d = from; d < first.rank && im->rc == 0; d++) {
        if (*n == INFER_MAX_RANK)
            return onnx_fail(im, INFER_EUNSUPPORTED,
                             "a result of more than %d dimensions",
                             INFER_MAX_RANK);
        dim[*n] = first.dim[d];
        for (int p = 1; p < im->probes; p++)
            if (onnx_input_type(im, 0, p, &t) == 0 && t.dim[d] != first.dim[d])
                dim[*n] = -1;
        open += dim[(*n)++] < 0;
    }
    if (open > 1)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "%d free sizes behind the indexed ones; --input-shape "
                         "fixes them",
                         open);
    return im->rc;
}

/* ---- GatherND ------------------------------------------------------ */

/* One index a tuple, into the joined dimensions [0, batch + n) of t. */
static struct constant *tuple_rows(struct onnx_import *im,
                                   const struct constant *c,
                                   const struct graph_type *t, int batch)
{
    const int n = (int)c->dim[c->rank - 1];
    const int64_t tuples = product(c->dim, c->rank - 1);
    const int64_t each = tuples / product(t->dim, batch);
    const int64_t extent = product(t->dim + batch, n);
    struct constant *rows;

    if (onnx_new_constant(im, INFER_I64, c->rank - 1, c->dim, &rows) < 0)
        return NULL;
    for (int64_t k = 0; k < tuples; k++)
        indices(rows)[k] =
            k / each * extent + tuple_index(im, c, k, n, t->dim + batch);
    return rows;
}

int onnx_constant_gather_nd(struct onnx_import *im)
{
    int64_t batch = 0, dim[INFER_MAX_RANK], flat[INFER_MAX_RANK];
    const struct constant *c;
    struct constant *rows;
    struct graph_type t;
    int value, n, used, n_flat = 1;

    onnx_arity(im, 2, 2);
    onnx_int(im, "batch_dims", 0, INFER_MAX_RANK, &batch);
    c = index_constant(im, 1);
    onnx_input_type(im, 0, 0, &t);
    if (im->rc < 0)
        return im->rc;
    n = c->rank - 1;
    if (batch > n || c->dim[n] > t.rank - batch)
        return onnx_fail(im, INFER_EFORMAT,
                         "tuples of %lld indices and batch_dims %lld for %d "
                         "dimensions",
                         (long long)c->dim[n], (long long)batch, t.rank);
    used = (int)(batch + c->dim[n]);
    fixed_shape(im, 0, 0, used, &t);
    for (int d = 0; d < (int)batch; d++)
        if (c->dim[d] != t.dim[d])
            onnx_fail(im, INFER_EFORMAT,
                      "batch dimension %d has %lld indices and %lld elements",
                      d, (long long)c->dim[d], (long long)t.dim[d]);
    onnx_input(im, 0, &value);
    memcpy(dim, c->dim, sizeof dim);
    append_rest(im, used, dim, &n);
    append_rest(im, used, flat, &n_flat);
    if (im->rc < 0)
        return im->rc;
    flat[0] = product(t.dim, used);
    rows = tuple_rows(im, c, &t, (int)batch);
    reshaped(im, value, n_flat, flat, -1, &value);
    gathered(im, value, rows, &value);
    return reshaped(im, value, n, dim, 0, NULL);
}

/* ---- along an axis ------------------------------------------------- */

/* What GatherElements and ScatterElements share: data of a fixed shape, and
 * constant indices that fit into it. */
struct elements {
    struct graph_type t;
    const struct constant *c;
    int axis, value;
};

static int read_elements(struct onnx_import *im, struct elements *e)
{
    const int axis = onnx_axis(im, 0);

    e->c = index_constant(im, 1);
    fixed_shape(im, 0, 0, -1, &e->t);
    onnx_input(im, 0, &e->value);
    if (im->rc == 0)
        im->rc = op_axis(axis, e->t.rank, &e->axis, im->err);
    if (im->rc == 0 && e->c->rank != e->t.rank)
        onnx_fail(im, INFER_EFORMAT,
                  "indices of %d dimensions into a tensor of %d", e->c->rank,
                  e->t.rank);
    for (int d = 0; im->rc == 0 && d < e->t.rank; d++)
        if (d != e->axis && e->c->dim[d] > e->t.dim[d])
            onnx_fail(im, INFER_EFORMAT,
                      "dimension %d has %lld indices and %lld elements", d,
                      (long long)e->c->dim[d], (long long)e->t.dim[d]);
    return im->rc;
}

int onnx_constant_gather_elements(struct onnx_import *im)
{
    const int64_t all = -1;
    struct constant *rows;
    struct elements e;
    int value;

    onnx_arity(im, 2, 2);
    if (read_elements(im, &e) < 0 ||
        onnx_new_constant(im, INFER_I64, e.c->rank, e.c->dim, &rows) < 0)
        return im->rc;
    for (int64_t k = 0; k < constant_count(e.c); k++)
        indices(rows)[k] = element_index(im, e.c, k, &e.t, e.axis);
    reshaped(im, e.value, 1, &all, -1, &value);
    gathered(im, value, rows, &value);
    return reshaped(im, value, e.c->rank, e.c->dim, 0, NULL);
}

/* ---- scattering ---------------------------------------------------- */

/* A scatter under way: the result has the shape t and is `rows` rows of
 * `width` elements.  Row i comes from row from[i] of the data and the updates,
 * one behind the other. */
struct scatter {
    const struct graph_type *t;
    int64_t rows, width;
    struct constant *from;
};

/* No row is updated so far; `updates` rows of updates are there. */
static int begin_scatter(struct onnx_import *im, struct scatter *s,
                         int64_t updates)
{
    static const char *const words[] = {"none", NULL};
    struct graph_type t = {.rank = -1};
    int64_t wanted;
    int word;

    onnx_word(im, "reduction", words, &word);
    if (fixed_shape(im, 2, 0, -1, &t) < 0)
        return im->rc;
    if (!checked_mul_i64(updates, s->width, &wanted) ||
        product(t.dim, t.rank) != wanted)
        return onnx_fail(im, INFER_EFORMAT,
                         "%lld updates do not fit %lld indices",
                         (long long)product(t.dim, t.rank), (long long)updates);
    if (onnx_new_constant(im, INFER_I64, 1, &s->rows, &s->from) < 0)
        return im->rc;
    for (int64_t k = 0; k < s->rows; k++)
        indices(s->from)[k] = k;
    return 0;
}

/* Row `row` comes from update k.  ONNX leaves the order of two updates of one
 * element open, so that they are refused. */
static void take_update(struct onnx_import *im, struct scatter *s, int64_t row,
                        int64_t k)
{
    if (indices(s->from)[row] != row)
        onnx_fail(im, INFER_EUNSUPPORTED, "two updates of the same element");
    indices(s->from)[row] = s->rows + k;
}

static int end_scatter(struct onnx_import *im, const struct scatter *s)
{
    const int64_t flat[2] = {-1, s->width};
    union graph_attr attr;
    int part[2] = {-1, -1}, value = -1;

    onnx_defaults(GRAPH_CONCAT, &attr);
    attr.axis.axis = 0;
    for (int i = 0; i < 2; i++) {
        onnx_input(im, 2 * i, &part[i]);
        reshaped(im, part[i], 2, flat, -1, &part[i]);
    }
    onnx_emit(im, GRAPH_CONCAT, &attr, part, 2, -1, &value);
    gathered(im, value, s->from, &value);
    return reshaped(im, value, s->t->rank, s->t->dim, 0, NULL);
}

int onnx_constant_scatter_nd(struct onnx_import *im)
{
    const struct constant *c;
    struct graph_type t;
    struct scatter s;
    int64_t tuples;
    int n;

    onnx_arity(im, 3, 3);
    c = index_constant(im, 1);
    if (fixed_shape(im, 0, 0, -1, &t) < 0 || !c)
        return im->rc;
    if (c->dim[c->rank - 1] > t.rank)
        return onnx_fail(im, INFER_EFORMAT,
                         "tuples of %lld indices into %d dimensions",
                         (long long)c->dim[c->rank - 1], t.rank);
    n = (int)c->dim[c->rank - 1];
    tuples = product(c->dim, c->rank - 1);
    s.t = &t;
    s.rows = product(t.dim, n);
    s.width = product(t.dim + n, t.rank - n);
    if (begin_scatter(im, &s, tuples) < 0)
        return im->rc;
    for (int64_t k = 0; k < tuples; k++)
        take_update(im, &s, tuple_index(im, c, k, n, t.dim), k);
    return end_scatter(im, &s);
}

int onnx_constant_scatter_elements(struct onnx_import *im)
{
    struct elements e;
    struct scatter s;

    onnx_arity(im, 3, 3);
    if (read_elements(im, &e) < 0)
        return im->rc;
    s.t = &e.t;
    s.rows = product(e.t.dim, e.t.rank);
    s.width = 1;
    if (begin_scatter(im, &s, constant_count(e.c)) < 0)
        return im->rc;
    for (int64_t k = 0; k < constant_count(e.c); k++)
        take_update(im, &s, element_index(im, e.c, k, &e.t, e.axis), k);
    return end_scatter(im, &s);
}

/* ---- triangles and diagonals --------------------------------------- */

/* True for each element (i, j) of a matrix that Trilu keeps. */
static struct constant *triangle(struct onnx_import *im, const int64_t *dim,
                                 bool upper, int64_t k)
{
    struct constant *mask;

    if (onnx_new_constant(im, INFER_BOOL, 2, dim, &mask) < 0)
        return NULL;
    for (int64_t i = 0; i < dim[0]; i++)
        for (int64_t j = 0; j < dim[1]; j++)
            mask->data[i * dim[1] + j] = upper ? j - i >= k : j - i <= k;
    return mask;
}

/* The elements above or below a diagonal; the others become 0. */
int onnx_import_trilu(struct onnx_import *im)
{
    struct constant *zero, *mask;
    bool upper = true;
    struct graph_type t;
    int64_t k = 0;
    int in[3], n = 1;

    onnx_arity(im, 1, 2);
    onnx_flag(im, "upper", &upper);
    onnx_input_ints(im, 1, "k", 1, &k, &n);
    onnx_input_type(im, 0, 0, &t);
    onnx_input(im, 0, &in[1]);
    if (im->rc < 0)
        return im->rc;
    if (t.rank < 2)
        return onnx_fail(im, INFER_EFORMAT, "an input of %d dimensions",
                         t.rank);
    /* Beyond INT32_MAX every diagonal lies outside of the matrix. */
    k = k > INT32_MAX ? INT32_MAX : k < -INT32_MAX ? -INT32_MAX : k;
    if (fixed_shape(im, 0, t.rank - 2, t.rank, &t) < 0 ||
        onnx_new_constant(im, im->type[in[1]][0].dtype, 0, NULL, &zero) < 0)
        return im->rc;
    onnx_add_constant(im, zero, &in[2]);
    mask = triangle(im, t.dim + t.rank - 2, upper, k);
    onnx_add_constant(im, mask, &in[0]);
    return onnx_emit(im, GRAPH_WHERE, NULL, in, 3, 0, NULL);
}

/* Ones on a diagonal of a matrix of the input's shape. */
int onnx_import_eye_like(struct onnx_import *im)
{
    int64_t k = 0, type = 0;
    enum infer_dtype dtype;
    struct constant *c;
    struct graph_type t;

    onnx_arity(im, 1, 1);
    onnx_int(im, "k", INT32_MIN, INT32_MAX, &k);
    onnx_int(im, "dtype", 0, INT32_MAX, &type);
    if (fixed_shape(im, 0, 0, -1, &t) < 0)
        return im->rc;
    if (t.rank != 2)
        return onnx_fail(im, INFER_EFORMAT, "an input of %d dimensions",
                         t.rank);
    dtype = type ? onnx_dtype(type) : t.dtype;
    if (dtype == INFER_NONE)
        return onnx_fail(im, INFER_EUNSUPPORTED, "data type %lld (%s)",
                         (long long)type, onnx_type_name(type));
    if (onnx_new_constant(im, dtype, 2, t.dim, &c) < 0)
        return im->rc;
    for (int64_t i = 0; i < t.dim[0]; i++)
        if (i + k >= 0 && i + k < t.dim[1])
            scalar_store(dtype, c->data, i * t.dim[1] + i + k, 1.0);
    return onnx_set_constant(im, 0, c);
}
