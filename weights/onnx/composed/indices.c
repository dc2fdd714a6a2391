/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ONNX GatherND, GatherElements, ScatterND and ScatterElements whose indices
 * are computed or whose sizes are free; Compress and NonZero of constants.
 *
 * Tuples of indices become one index into the joined dimensions.
 */
#include <string.h>

#include "kernels/base/scalar.h"
#include "weights/onnx/composed/compose.h"

/* True where the indices are constant, there are some, and the data's shape is
 * the same at every probe. */
static bool is_constant(struct onnx_import *im)
{
    struct graph_type t, first;
    struct constant *c;

    if (onnx_input_constant(im, 1, &c) < 0 || !c || constant_count(c) == 0)
        return false;
    onnx_input_type(im, 0, 0, &first);
    for (int p = 1; p < im->probes && onnx_input_type(im, 0, p, &t) == 0; p++)
        if (t.rank != first.rank ||
            memcmp(t.dim, first.dim, (size_t)t.rank * sizeof(t.dim[0])) != 0)
            return false;
    return im->rc == 0;
}

/* ---- one index an element ------------------------------------------ */

int onnx_import_gather_elements(struct onnx_import *im)
{
    union graph_attr attr;

    onnx_arity(im, 2, 2);
    if (is_constant(im) || im->rc < 0)
        return onnx_constant_gather_elements(im);
    onnx_defaults(GRAPH_GATHER_ELEMENTS, &attr);
    attr.axis.axis = onnx_axis(im, 0);
    return onnx_emit_node(im, GRAPH_GATHER_ELEMENTS, &attr, 2);
}

/* Attribute 'reduction'. */
static int read_kind(struct onnx_import *im, enum kern_scatter_kind *kind)
{
    /* in the order of enum kern_scatter_kind */
    static const char *const words[] = {"none", "add", "mul",
                                        "min",  "max", NULL};
    int word = 0;

    onnx_word(im, "reduction", words, &word);
    *kind = (enum kern_scatter_kind)word;
    return im->rc;
}

int onnx_import_scatter_elements(struct onnx_import *im)
{
    enum kern_scatter_kind kind;
    union graph_attr attr;

    onnx_arity(im, 3, 3);
    if (read_kind(im, &kind) < 0)
        return im->rc;
    if ((kind == KERN_SCATTER_SET && is_constant(im)) || im->rc < 0)
        return onnx_constant_scatter_elements(im);
    onnx_defaults(GRAPH_SCATTER_ELEMENTS, &attr);
    attr.scatter.axis = onnx_axis(im, 0);
    attr.scatter.kind = kind;
    return onnx_emit_node(im, GRAPH_SCATTER_ELEMENTS, &attr, 3);
}

/* ---- tuples of indices --------------------------------------------- */

/* Element j of each tuple as an index from 0 on; extent: I64 of one element. */
static int tuple_entry(struct onnx_import *im, int index, int j, int extent)
{
    const int i =
        compose_squeeze(im, compose_slice(im, index, -1, j, j + 1, 1), -1);

    return compose_where(
        im, compose_binary(im, KERN_LESS, i, compose_integer(im, INFER_I64, 0)),
        compose_binary(im, KERN_ADD, i, extent), i);
}

/* Elements of the dimensions [0, used) of x fit an index. */
static int check_extent(struct onnx_import *im, int x, int used)
{
    for (int p = 0; p < im->probes && im->rc == 0; p++) {
        int64_t n = 1;

        for (int d = 0; d < used; d++)
            if (!checked_mul_i64(n, im->type[x][p].dim[d], &n))
                return onnx_fail(im, INFER_EFORMAT, "the input overflows");
    }
    return im->rc;
}

/* Tuples of indices into the dimensions from `batch` on of x as one index into
 * the dimensions [0, batch + n), joined, where *n is their length. */
static int join_tuples(struct onnx_import *im, int x, int index, int batch,
                       int *n)
{
    const int rank = compose_rank(im, index);
    int extent = -1, at = -1;

    *n = 0;
    if (compose_need_rank(im, index, 1 + batch, INFER_MAX_RANK) < 0)
        return -1;
    if (compose_dim(im, index, -1) < 1 ||
        compose_dim(im, index, -1) > compose_rank(im, x) - batch) {
        onnx_fail(im, INFER_EFORMAT,
                  "tuples of %lld indices and batch_dims %d for %d dimensions",
                  (long long)compose_dim(im, index, -1), batch,
                  compose_rank(im, x));
        return -1;
    }
    *n = (int)compose_dim(im, index, -1);
    index = compose_cast(im, INFER_I64, index);
    check_extent(im, x, batch + *n);
    for (int j = *n - 1; j >= -batch && im->rc == 0; j--) {
        const int size = compose_entries(im, x, batch + j);
        int part =
            j >= 0 ? tuple_entry(im, index, j, size)
                   : compose_count_of(im, x, batch + j, rank - 1, batch + j);

        if (extent >= 0)
            part = compose_binary(im, KERN_MUL, part, extent);
        at = at < 0 ? part : compose_binary(im, KERN_ADD, at, part);
        extent = extent < 0 ? size : compose_binary(im, KERN_MUL, extent, size);
    }
    return at;
}

/* Appends sizes of a value's dimensions; a free one is -1, once. */
static void append_dims(struct onnx_import *im, int value, int from, int to,
                        int64_t *dim, int *n)
{
    for (int d = from; d < to && im->rc == 0; d++) {
        if (*n == INFER_MAX_RANK)
            onnx_fail(im, INFER_EUNSUPPORTED, "more than %d dimensions",
                      INFER_MAX_RANK);
        else
            dim[(*n)++] = compose_free_dim(im, value, d);
    }
}

/* x with its first `used` dimensions joined. */
static int join_rows(struct onnx_import *im, int x, int used)
{
    int64_t dim[INFER_MAX_RANK] = {1};
    int n = 1;

    if (used == 1)
        return x;
    for (int d = 0; d < used; d++) {
        const int64_t size = compose_free_dim(im, x, d);

        dim[0] = size < 0 || dim[0] < 0 ? -1 : dim[0] * size;
    }
    append_dims(im, x, used, compose_rank(im, x), dim, &n);
    return compose_reshape(im, x, n, dim);
}

int onnx_import_gather_nd(struct onnx_import *im)
{
    int64_t batch = 0, dim[INFER_MAX_RANK];
    int x, index, at, n, rank = 0;

    onnx_arity(im, 2, 2);
    if (is_constant(im) || im->rc < 0)
        return onnx_constant_gather_nd(im);
    onnx_int(im, "batch_dims", 0, INFER_MAX_RANK, &batch);
    x = compose_input(im, 0);
    index = compose_input(im, 1);
    at = join_tuples(im, x, index, (int)batch, &n);
    append_dims(im, index, 0, compose_rank(im, index) - 1, dim, &rank);
    append_dims(im, x, (int)batch + n, compose_rank(im, x), dim, &rank);
    x = compose_gather(im, join_rows(im, x, (int)batch + n), at, 0);
    return compose_output(
        im, 0,
        compose_rank(im, x) == rank ? x : compose_reshape(im, x, rank, dim));
}

/* Rows of all that lies behind the tuples: x as R,W, updates as K,W, and the
 * indices of the rows as K,1, the same for each element of a row. */
static int scatter_flat(struct onnx_import *im, int x, int at, int n,
                        enum kern_scatter_kind kind)
{
    int64_t dim[INFER_MAX_RANK], flat[2] = {-1, 1}, each[2] = {1, 1};
    int y, update, rank = 0;

    append_dims(im, x, 0, compose_rank(im, x), dim, &rank);
    for (int d = n; d < rank && im->rc == 0; d++)
        flat[1] *= compose_dim(im, x, d);
    each[1] = flat[1];
    if (im->rc == 0 && flat[1] == 0)
        return compose_output(im, 0, x);
    update = compose_reshape(im, compose_input(im, 2), 2, flat);
    y = compose_reshape(im, x, 2, flat);
    at = compose_reshape(im, at, 2, (const int64_t[]){-1, 1});
    at = compose_expand(im, at, 2, each);
    y = compose_scatter(im, y, at, update, 0, kind);
    return compose_output(im, 0, compose_reshape(im, y, rank, dim));
}

/* The same along the first dimension of x, whose others may be free. */
static int scatter_along(struct onnx_import *im, int x, int at,
                         enum kern_scatter_kind kind)
{
    const int update = compose_input(im, 2), rank = compose_rank(im, x);
    int64_t want[ONNX_PROBES][INFER_MAX_RANK], each[INFER_MAX_RANK] = {-1};

    if (im->rc < 0)
        return im->rc;
    for (int d = 1; d < rank; d++)
        each[d] = 1;
    for (int p = 0; p < im->probes; p++)
        memcpy(want[p], im->type[update][p].dim, sizeof want[p]);
    at = compose_reshape(im, at, rank, each);
    onnx_emit_expand(im, at, want, rank, -1, &at);
    return compose_output(im, 0, compose_scatter(im, x, at, update, 0, kind));
}

int onnx_import_scatter_nd(struct onnx_import *im)
{
    enum kern_scatter_kind kind;
    bool free_rows = false;
    int x, at, n;

    onnx_arity(im, 3, 3);
    if (read_kind(im, &kind) < 0)
        return im->rc;
    if ((kind == KERN_SCATTER_SET && is_constant(im)) || im->rc < 0)
        return onnx_constant_scatter_nd(im);
    x = compose_input(im, 0);
    at = join_tuples(im, x, compose_input(im, 1), 0, &n);
    for (int d = n; d < compose_rank(im, x); d++)
        free_rows = free_rows || compose_free_dim(im, x, d) < 0;
    if (free_rows && n == 1 && compose_rank(im, at) == 1 &&
        compose_rank(im, compose_input(im, 2)) == compose_rank(im, x))
        return scatter_along(im, x, at, kind);
    return scatter_flat(im, x, at, n, kind);
}

/* ---- choices that are constant ------------------------------------- */

/* Elements, or entries along an axis, where a constant condition holds. */
int onnx_import_compress(struct onnx_import *im)
{
    const bool flat = !onnx_has_attr(im, "axis");
    const int64_t line = -1;
    int64_t count = 0, n, *data;
    struct constant *c;
    int x, axis, at;

    onnx_arity(im, 2, 2);
    onnx_input_constant(im, 1, &c);
    x = compose_input(im, 0);
    axis = compose_axis(im, x, 0);
    if (im->rc < 0)
        return im->rc;
    if (!c || !scalar_is_integer(c->dtype))
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "a condition that is computed at run time leaves a "
                         "number of elements that nobody knows");
    if (flat)
        x = compose_reshape(im, x, 1, &line);
    for (int64_t i = 0; i < constant_count(c); i++)
        count += scalar_load_i64(c->dtype, c->data, i) != 0;
    at = compose_i64(im, 1, &count, &data);
    n = compose_dim(im, x, flat ? 0 : axis);
    for (int64_t i = 0; at >= 0 && i < constant_count(c); i++)
        if (scalar_load_i64(c->dtype, c->data, i) != 0) {
            if (i >= n)
                return onnx_fail(im, INFER_EFORMAT,
                                 "a condition of %lld elements for %lld",
                                 (long long)constant_count(c), (long long)n);
            *data++ = i;
        }
    return compose_output(im, 0, compose_gather(im, x, at, flat ? 0 : axis));
}

/* Indices of the elements of a constant that are not 0, a row a dimension. */
int onnx_import_non_zero(struct onnx_import *im)
{
    struct constant *c, *r;
    int64_t dim[2], at = 0;

    onnx_arity(im, 1, 1);
    if (onnx_input_constant(im, 0, &c) < 0)
        return im->rc;
    if (!c)
        return onnx_counted_non_zero(im);
    dim[0] = c->rank;
    dim[1] = 0;
    for (int64_t i = 0; i < constant_count(c); i++)
        dim[1] += scalar_load(c->dtype, c->data, i) != 0;
    if (onnx_new_constant(im, INFER_I64, 2, dim, &r) < 0)
        return im->rc;
    for (int64_t i = 0; i < constant_count(c); i++) {
        int64_t rest = i;

        if (scalar_load(c->dtype, c->data, i) == 0)
            continue;
        for (int d = c->rank - 1; d >= 0; d--) {
            scalar_store_i64(INFER_I64, r->data, d * dim[1] + at,
                             rest % c->dim[d]);
            rest /= c->dim[d];
        }
        at++;
    }
    return onnx_set_constant(im, 0, r);
}

/* ---- TensorScatter ------------------------------------------------- */

/* The update takes the place of entries of the cache, from an index of each
 * picture on, or from the first one. */
int onnx_import_tensor_scatter(struct onnx_import *im)
{
    static const char *const modes[] = {"linear", "circular", NULL};
    int64_t dim[INFER_MAX_RANK], n, room;
    int cache, update, index, axis, rank, mode = 0;

    onnx_arity(im, 2, 3);
    onnx_word(im, "mode", modes, &mode);
    cache = compose_input(im, 0);
    update = compose_input(im, 1);
    rank = compose_rank(im, cache);
    axis = compose_axis(im, cache, -2);
    n = compose_dim(im, update, axis);
    room = compose_dim(im, cache, axis);
    if (im->rc == 0 && (axis == 0 || n > room))
        return onnx_fail(im, INFER_EFORMAT, "%lld entries of axis %d for %lld",
                         (long long)n, axis, (long long)room);
    if (!onnx_has_input(im, 2)) {
        const int both[2] = {update,
                             compose_slice(im, cache, axis, n, INT64_MAX, 1)};

        return compose_output(
            im, 0, n == room ? update : compose_concat(im, 2, both, axis));
    }
    for (int d = 0; d < rank; d++)
        dim[d] = d == 0 ? -1 : 1;
    index = compose_reshape(
        im, compose_cast(im, INFER_I64, compose_input(im, 2)), rank, dim);
    index =
        compose_binary(im, KERN_ADD, index, compose_count(im, n, rank, axis));
    if (mode == 1)
        index = compose_binary(im, KERN_MOD, index,
                               compose_integer(im, INFER_I64, room));
    for (int d = 0; d < rank; d++)
        dim[d] = d == 0 || d == axis ? 1 : compose_dim(im, update, d);
    index = compose_expand(im, index, rank, dim);
    return compose_output(
        im, 0,
        compose_scatter(im, cache, index, update, axis, KERN_SCATTER_SET));
}
