/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that join, cut or rename dimensions: reshape, flatten, squeeze,
 * transpose, expand, tile.  Those that move elements are in arrange.c. */
#include "libinfer/graph/ops/op.h"

/* ---- reshape ------------------------------------------------------- */

/* Reads the target: fills the stated dimensions of out, sets *rest to the one
 * that takes the rest (-1: none), and sets the copied dimensions of in to 1. */
static int read_target(const struct graph_dims *dims, struct graph_type *in,
                       struct graph_type *out, int *rest,
                       struct infer_error *err)
{
    int i;

    *rest = -1;
    out->rank = dims->n;
    for (i = 0; i < dims->n; i++) {
        int64_t d = dims->dim[i];

        if (d < -1 || d > OP_MAX_COUNT)
            return error_set(err, INFER_EFORMAT, "size %lld is out of range",
                             (long long)d);
        if (d == -1 && *rest >= 0)
            return error_set(err, INFER_EFORMAT, "two sizes are -1");
        if (d == -1)
            *rest = i;
        out->dim[i] = d == 0 ? -1 : d;
        if (d != 0)
            continue;
        if (in->rank >= 0 && i >= in->rank)
            return error_set(err, INFER_EFORMAT,
                             "size 0 copies dimension %d of a tensor of rank "
                             "%d",
                             i, in->rank);
        if (in->rank >= 0) {
            out->dim[i] = in->dim[i];
            /* Copied on both sides, so it cancels, free or not. */
            in->dim[i] = 1;
        }
    }
    return INFER_OK;
}

int op_reshape_resolve(const struct graph_dims *dims,
                       const struct graph_type *in, struct graph_type *out,
                       struct infer_error *err)
{
    struct graph_type left = *in, right;
    char ls[OP_TEXT], rs[OP_TEXT];
    int64_t have = -1, want;
    int rest, i, rc;

    if (dims->n < 0 || dims->n > INFER_MAX_RANK)
        return error_set(err, INFER_EFORMAT, "%d sizes are given", dims->n);
    out->dtype = in->dtype;
    rc = read_target(dims, &left, out, &rest, err);
    if (rc < 0)
        return rc;
    /* The stated dimensions of the target, without the copied ones. */
    right = *out;
    for (i = 0; i < right.rank; i++)
        if (dims->dim[i] == 0 || i == rest)
            right.dim[i] = 1;
    rc = op_product(&right, 0, right.rank, &want, err);
    if (rc == INFER_OK && in->rank >= 0)
        rc = op_product(&left, 0, left.rank, &have, err);
    if (rc < 0)
        return rc;
    /* A free dimension that is not copied leaves the rest free. */
    if (have < 0)
        return INFER_OK;
    if (rest >= 0 ? want == 0 || have % want != 0 : have != want)
        return error_set(err, INFER_EFORMAT,
                         "a tensor of shape %s cannot have shape %s",
                         op_text(in, ls), op_text(out, rs));
    if (rest >= 0)
        out->dim[rest] = have / want;
    return INFER_OK;
}

/* Dimension k of input 1, -1 where it is not known. */
static int size_like(const struct graph_shape_args *args, int k, int64_t *out,
                     struct infer_error *err)
{
    *out = -1;
    if (!op_has(args, 1))
        return error_set(err, INFER_EFORMAT,
                         "a size of a tensor that is "
                         "missing");
    if (args->in[1].rank < 0)
        return INFER_OK;
    if (k >= args->in[1].rank)
        return error_set(err, INFER_EFORMAT,
                         "dimension %d of a tensor of rank %d", k,
                         args->in[1].rank);
    *out = args->in[1].dim[k];
    return INFER_OK;
}

/* Sizes of the target that are known where others are not. */
static void known_sizes(const struct graph_dims *dims,
                        const struct graph_type *in, struct graph_type *out)
{
    out->dtype = in->dtype;
    out->rank = dims->n;
    for (int i = 0; i < dims->n; i++)
        out->dim[i] = dims->dim[i] > 0                    ? dims->dim[i]
                      : dims->dim[i] == 0 && i < in->rank ? in->dim[i]
                                                          : -1;
}

int op_reshape_shape(struct graph_shape_args *args, struct infer_error *err)
{
    struct graph_dims dims = args->attr->dims;
    bool open = false;

    for (int i = 0; i < dims.n && i < INFER_MAX_RANK; i++) {
        const int64_t k = GRAPH_EXPAND_LIKE(0) - dims.dim[i];
        int rc;

        if (k < 0 || k >= INFER_MAX_RANK)
            continue;
        rc = size_like(args, (int)k, &dims.dim[i], err);
        if (rc < 0)
            return rc;
        if (dims.dim[i] == 0)
            return error_set(err, INFER_EFORMAT, "a size of 0");
        open = open || dims.dim[i] < 0;
    }
    if (!open)
        return op_reshape_resolve(&dims, &args->in[0], &args->out[0], err);
    if (dims.n < 0 || dims.n > INFER_MAX_RANK)
        return error_set(err, INFER_EFORMAT, "%d sizes are given", dims.n);
    known_sizes(&dims, &args->in[0], &args->out[0]);
    return INFER_OK;
}

/* ---- flatten ------------------------------------------------------- */

/* Two dimensions: the product before the axis, and from it on. */
int op_flatten_shape(struct graph_shape_args *args, struct infer_error *err)
{
    const struct graph_type *x = &args->in[0];
    struct graph_type *out = &args->out[0];
    int axis = args->attr->axis.axis, rc;

    out->dtype = x->dtype;
    if (x->rank < 0) {
        out->rank = 2;
        out->dim[0] = out->dim[1] = -1;
        return INFER_OK;
    }
    if (axis < -x->rank || axis > x->rank)
        return error_set(err, INFER_EFORMAT,
                         "axis %d is outside a tensor of rank %d", axis,
                         x->rank);
    if (axis < 0)
        axis += x->rank;
    out->rank = 2;
    rc = op_product(x, 0, axis, &out->dim[0], err);
    if (rc == INFER_OK)
        rc = op_product(x, axis, x->rank, &out->dim[1], err);
    return rc;
}

/* ---- squeeze and unsqueeze ----------------------------------------- */

/* The axes as bits; each in range of rank and given once. */
static int axis_bits(const struct graph_dims *dims, int rank, unsigned *out,
                     struct infer_error *err)
{
    int i, axis;

    *out = 0;
    for (i = 0; i < dims->n; i++) {
        int rc = op_need_range("axis", dims->dim[i], -INFER_MAX_RANK,
                               INFER_MAX_RANK - 1, err);

        if (rc == INFER_OK)
            rc = op_axis_once((int)dims->dim[i], rank, out, &axis, err);
        if (rc < 0)
            return rc;
    }
    return INFER_OK;
}

int op_squeeze_shape(struct graph_shape_args *args, struct infer_error *err)
{
    const struct graph_type *x = &args->in[0];
    struct graph_type *out = &args->out[0];
    bool all = args->attr->dims.n == 0;
    unsigned bits;
    int i, rc;

    out->dtype = x->dtype;
    if (x->rank < 0)
        return INFER_OK;
    rc = axis_bits(&args->attr->dims, x->rank, &bits, err);
    if (rc < 0)
        return rc;
    out->rank = 0;
    for (i = 0; i < x->rank; i++) {
        bool named = bits >> i & 1;

        if (named && x->dim[i] >= 0 && x->dim[i] != 1)
            return error_set(err, INFER_EFORMAT,
                             "dimension %d has size %lld, not 1", i,
                             (long long)x->dim[i]);
        if (all && x->dim[i] < 0) {
            /* Even the rank depends on a size that is not known. */
            out->rank = -1;
            return INFER_OK;
        }
        if (!named && !(all && x->dim[i] == 1))
            out->dim[out->rank++] = x->dim[i];
    }
    return INFER_OK;
}

/* The axes count in the output. */
int op_unsqueeze_shape(struct graph_shape_args *args, struct infer_error *err)
{
    const struct graph_type *x = &args->in[0];
    struct graph_type *out = &args->out[0];
    int rank = x->rank + args->attr->dims.n, i, from = 0, rc;
    unsigned bits;

    out->dtype = x->dtype;
    if (x->rank < 0)
        return INFER_OK;
    if (rank > INFER_MAX_RANK)
        return error_set(err, INFER_EUNSUPPORTED,
                         "rank %d is above the highest supported, %d", rank,
                         INFER_MAX_RANK);
    rc = axis_bits(&args->attr->dims, rank, &bits, err);
    if (rc < 0)
        return rc;
    out->rank = rank;
    for (i = 0; i < rank; i++)
        out->dim[i] = bits >> i & 1 ? 1 : x->dim[from++];
    return INFER_OK;
}

/* ---- transpose ----------------------------------------------------- */

/* Dimension i of the output is dimension order[i] of the input; without an
 * order, the reverse. */
int op_transpose_shape(struct graph_shape_args *args, struct infer_error *err)
{
    const struct graph_dims *order = &args->attr->dims;
    const struct graph_type *x = &args->in[0];
    struct graph_type *out = &args->out[0];
    unsigned seen = 0;
    int i;

    out->dtype = x->dtype;
    if (x->rank < 0)
        return INFER_OK;
    if (order->n != 0 && order->n != x->rank)
        return error_set(err, INFER_EFORMAT,
                         "order has %d entries for a tensor of rank %d",
                         order->n, x->rank);
    out->rank = x->rank;
    for (i = 0; i < x->rank; i++) {
        int64_t from = order->n == 0 ? x->rank - 1 - i : order->dim[i];

        if (from < 0 || from >= x->rank || seen >> from & 1)
            return error_set(err, INFER_EFORMAT,
                             "order is no permutation of 0 .. %d", x->rank - 1);
        seen |= 1u << from;
        out->dim[i] = x->dim[from];
    }
    return INFER_OK;
}

bool op_transpose_separable(const struct graph_separable_args *args)
{
    const struct graph_dims *order = &args->attr->dims;

    return order->n > 0 ? order->dim[0] == 0 : args->in[0]->rank == 1;
}

/* ---- expand and tile ----------------------------------------------- */

/* The sizes decide, and input 1 gives nothing but those. */
bool op_expand_separable(const struct graph_separable_args *args)
{
    (void)args;
    return true;
}

int op_expand_shape(struct graph_shape_args *args, struct infer_error *err)
{
    const struct graph_dims *dims = &args->attr->dims;
    const struct graph_type *x = &args->in[0];
    struct graph_type target = {.rank = dims->n};
    int i;

    for (i = 0; i < dims->n; i++) {
        int rc = op_need_range("size", dims->dim[i],
                               GRAPH_EXPAND_LIKE(INFER_MAX_RANK - 1),
                               OP_MAX_COUNT, err);

        if (rc == 0 && dims->dim[i] <= GRAPH_EXPAND_LIKE(0))
            rc = size_like(args, (int)(GRAPH_EXPAND_LIKE(0) - dims->dim[i]),
                           &target.dim[i], err);
        else
            target.dim[i] = dims->dim[i] == -1 ? 1 : dims->dim[i];
        if (rc < 0)
            return rc;
    }
    args->out[0].dtype = x->dtype;
    return op_broadcast(x, &target, &args->out[0], err);
}

int op_tile_shape(struct graph_shape_args *args, struct infer_error *err)
{
    const struct graph_dims *repeats = &args->attr->dims;
    const struct graph_type *x = &args->in[0];
    int i;

    for (i = 0; i < repeats->n; i++) {
        int rc =
            op_need_range("repeats", repeats->dim[i], 0, OP_MAX_COUNT, err);

        if (rc < 0)
            return rc;
    }
    op_same(args);
    if (x->rank < 0)
        return INFER_OK;
    if (repeats->n != x->rank)
        return error_set(err, INFER_EFORMAT,
                         "%d repeats are given for a tensor of rank %d",
                         repeats->n, x->rank);
    for (i = 0; i < x->rank; i++)
        if (x->dim[i] >= 0 &&
            !checked_mul_i64(x->dim[i], repeats->dim[i], &args->out[0].dim[i]))
            return error_set(err, INFER_EFORMAT, "the output is too large");
    return INFER_OK;
}
