/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that join, cut and pick along dimensions: attributes and
 * shapes. */
#include "kernels/base/scalar.h"
#include "libinfer/graph/ops/op.h"

/* ---- concat -------------------------------------------------------- */

/* Adds input i to the output, which has input 0's shape at first. */
static int join(struct graph_type *out, const struct graph_type *t, int i,
                int axis, struct infer_error *err)
{
    char os[OP_TEXT], ts[OP_TEXT];
    int k;

    if (out->dtype == INFER_NONE)
        out->dtype = t->dtype;
    if (t->dtype != INFER_NONE && t->dtype != out->dtype)
        return error_set(err, INFER_EFORMAT, "input %d is %s, input 0 is %s", i,
                         infer_dtype_name(t->dtype),
                         infer_dtype_name(out->dtype));
    if (t->rank != out->rank)
        goto mismatch;
    for (k = 0; k < t->rank; k++) {
        if (k == axis) {
            if (t->dim[k] < 0 || out->dim[k] < 0)
                out->dim[k] = -1;
            else if (!checked_add_i64(out->dim[k], t->dim[k], &out->dim[k]))
                return error_set(err, INFER_EFORMAT, "the output is too large");
        } else if (!op_fits(t->dim[k], out->dim[k])) {
            goto mismatch;
        } else if (out->dim[k] < 0) {
            out->dim[k] = t->dim[k];
        }
    }
    return INFER_OK;
mismatch:
    return error_set(err, INFER_EFORMAT,
                     "input %d is %s and does not fit behind %s along axis %d",
                     i, op_text(t, ts), op_text(out, os), axis);
}

int op_concat_shape(struct graph_shape_args *args, struct infer_error *err)
{
    struct graph_type *out = &args->out[0];
    int i, axis, rc;

    for (i = 0; i < args->n_in; i++)
        if (args->in[i].rank < 0) {
            out->dtype = args->in[0].dtype;
            return INFER_OK;
        }
    op_same(args);
    rc = op_axis(args->attr->axis.axis, out->rank, &axis, err);
    for (i = 1; rc == INFER_OK && i < args->n_in; i++)
        rc = join(out, &args->in[i], i, axis, err);
    return rc;
}

/* ---- split --------------------------------------------------------- */

/* The stated sizes, which must make up the whole dimension. */
static int check_sizes(const struct graph_split *attr, int n_out,
                       int64_t extent, struct infer_error *err)
{
    int64_t sum = 0;
    int i;

    if (attr->n_sizes != n_out)
        return error_set(err, INFER_EFORMAT,
                         "%d sizes are given for %d outputs", attr->n_sizes,
                         n_out);
    for (i = 0; i < n_out; i++) {
        if (attr->size[i] < 0)
            return error_set(err, INFER_EFORMAT, "size %d is out of range",
                             attr->size[i]);
        sum += attr->size[i]; /* of at most GRAPH_MAX_INPUTS integers */
    }
    if (!op_fits(sum, extent))
        return error_set(err, INFER_EFORMAT,
                         "sizes add up to %lld, the dimension has %lld",
                         (long long)sum, (long long)extent);
    return INFER_OK;
}

int op_split_shape(struct graph_shape_args *args, struct infer_error *err)
{
    const struct graph_split *attr = &args->attr->split;
    const struct graph_type *x = &args->in[0];
    int64_t extent = -1, part = -1;
    int i, axis = 0, rc = INFER_OK;

    if (x->rank >= 0) {
        rc = op_axis(attr->axis, x->rank, &axis, err);
        if (rc < 0)
            return rc;
        extent = x->dim[axis];
    }
    if (attr->n_sizes != 0)
        rc = check_sizes(attr, args->n_out, extent, err);
    if (rc < 0)
        return rc;
    if (extent >= 0)
        part = extent / args->n_out + (extent % args->n_out != 0);
    for (i = 0; i < args->n_out; i++) {
        args->out[i] = *x;
        if (x->rank < 0)
            continue;
        args->out[i].dim[axis] = attr->n_sizes != 0 ? attr->size[i] : part;
        if (attr->n_sizes == 0 && extent >= 0 && i == args->n_out - 1)
            args->out[i].dim[axis] = extent - part * i;
    }
    if (attr->n_sizes == 0 && extent >= 0 && extent < part * (args->n_out - 1))
        return error_set(err, INFER_EFORMAT,
                         "%lld elements do not split into %d parts",
                         (long long)extent, args->n_out);
    return INFER_OK;
}

bool op_split_separable(const struct graph_separable_args *args)
{
    return op_separable_axis(args, args->attr->split.axis);
}

/* ---- slice --------------------------------------------------------- */

/* An end of a slice as Python reads it: from the back where negative, then
 * moved into [low, high]. */
static int64_t clamp(int64_t at, int64_t extent, int64_t low, int64_t high)
{
    if (at < 0)
        at += extent;
    return at < low ? low : at > high ? high : at;
}

int op_slice_resolve(int64_t begin, int64_t end, int64_t step, int64_t extent,
                     int64_t *first, int64_t *count, struct infer_error *err)
{
    if (step == 0 || step < -OP_MAX_COUNT || step > OP_MAX_COUNT)
        return error_set(err, INFER_EFORMAT, "step %lld is not possible",
                         (long long)step);
    if (extent < 0) {
        /* The count in a free dimension is not known. */
        *first = begin < 0 ? -1 : begin;
        *count = -1;
        return INFER_OK;
    }
    if (step > 0) {
        *first = clamp(begin, extent, 0, extent);
        end = clamp(end, extent, 0, extent);
        *count = end > *first ? (end - *first - 1) / step + 1 : 0;
    } else {
        *first = clamp(begin, extent, -1, extent - 1);
        end = clamp(end, extent, -1, extent - 1);
        *count = *first > end ? (*first - end - 1) / -step + 1 : 0;
    }
    return INFER_OK;
}

int op_slice_shape(struct graph_shape_args *args, struct infer_error *err)
{
    const struct graph_slice *attr = &args->attr->slice;
    const struct graph_type *x = &args->in[0];
    unsigned seen = 0;
    int i, axis;

    op_same(args);
    for (i = 0; i < attr->n_axes; i++) {
        int64_t first, count;
        int rc = op_slice_resolve(attr->begin[i], attr->end[i], attr->step[i],
                                  -1, &first, &count, err);

        if (rc == INFER_OK && x->rank >= 0)
            rc = op_axis_once(attr->axis[i], x->rank, &seen, &axis, err);
        if (rc < 0)
            return rc;
        if (x->rank < 0)
            continue;
        rc = op_slice_resolve(attr->begin[i], attr->end[i], attr->step[i],
                              x->dim[axis], &first, &count, err);
        if (rc < 0)
            return rc;
        args->out[0].dim[axis] = count;
    }
    return INFER_OK;
}

bool op_slice_separable(const struct graph_separable_args *args)
{
    const struct graph_slice *s = &args->attr->slice;

    return op_separable_axes(args, s->axis, s->n_axes);
}

/* ---- gather -------------------------------------------------------- */

int op_need_indices(const struct constant *c, int64_t extent,
                    struct infer_error *err)
{
    int64_t n, i;

    if (c == NULL || c->data == NULL || extent < 0)
        return INFER_OK;
    n = constant_count(c);
    for (i = 0; i < n; i++) {
        int64_t at = scalar_load_i64(c->dtype, c->data, i);

        if (at < -extent || at >= extent)
            return error_set(err, INFER_EFORMAT,
                             "index %lld is outside a dimension of %lld",
                             (long long)at, (long long)extent);
    }
    return INFER_OK;
}

int op_need_index_type(const struct graph_shape_args *args,
                       struct infer_error *err)
{
    const enum infer_dtype dtype = args->in[1].dtype;

    if (dtype != INFER_NONE && dtype != INFER_I64 && dtype != INFER_I32)
        return error_set(err, INFER_EFORMAT,
                         "indices are %s, I64 or I32 is needed",
                         infer_dtype_name(dtype));
    return INFER_OK;
}

int op_gather_shape(struct graph_shape_args *args, struct infer_error *err)
{
    const struct graph_type *x = &args->in[0], *at = &args->in[1];
    struct graph_type *out = &args->out[0];
    int i, axis, rank, rc = op_need_index_type(args, err);

    if (rc < 0)
        return rc;
    out->dtype = x->dtype;
    if (x->rank < 0 || at->rank < 0)
        return INFER_OK;
    rc = op_axis(args->attr->axis.axis, x->rank, &axis, err);
    if (rc == INFER_OK)
        rc = op_need_indices(args->data[1], x->dim[axis], err);
    if (rc < 0)
        return rc;
    rank = x->rank - 1 + at->rank;
    if (rank > INFER_MAX_RANK)
        return error_set(err, INFER_EUNSUPPORTED,
                         "rank %d is above the highest supported, %d", rank,
                         INFER_MAX_RANK);
    out->rank = 0;
    for (i = 0; i < axis; i++)
        out->dim[out->rank++] = x->dim[i];
    for (i = 0; i < at->rank; i++)
        out->dim[out->rank++] = at->dim[i];
    for (i = axis + 1; i < x->rank; i++)
        out->dim[out->rank++] = x->dim[i];
    return INFER_OK;
}

bool op_gather_separable(const struct graph_separable_args *args)
{
    const bool first = !op_separable_axis(args, args->attr->axis.axis);

    /* Either the same indices apply to every entry, or every entry has indices
     * into one table. */
    return args->varies[0] ? !first && !args->varies[1]
                           : first && args->varies[1];
}

/* ---- depth and space ----------------------------------------------- */

static int check_block(const struct graph_shape_args *args,
                       struct infer_error *err)
{
    const struct graph_type *x = &args->in[0];
    char text[OP_TEXT];

    if (x->rank >= 0 && x->rank != 4)
        return error_set(err, INFER_EFORMAT, "input is %s, rank 4 is needed",
                         op_text(x, text));
    /* The bound keeps the square in range. */
    return op_need_range("block", args->attr->depth_space.block, 1, 1 << 15,
                         err);
}

int op_depth_to_space_shape(struct graph_shape_args *args,
                            struct infer_error *err)
{
    int64_t b = args->attr->depth_space.block;
    int64_t *dim = args->out[0].dim;
    int rc = check_block(args, err), i;

    op_same(args);
    if (rc < 0 || args->in[0].rank < 0)
        return rc;
    if (dim[1] >= 0 && dim[1] % (b * b) != 0)
        return error_set(err, INFER_EFORMAT,
                         "%lld channels do not divide into blocks of %lld "
                         "by %lld",
                         (long long)dim[1], (long long)b, (long long)b);
    if (dim[1] >= 0)
        dim[1] /= b * b;
    for (i = 2; i < 4; i++)
        if (dim[i] >= 0 && !checked_mul_i64(dim[i], b, &dim[i]))
            return error_set(err, INFER_EFORMAT, "the output is too large");
    return INFER_OK;
}

int op_space_to_depth_shape(struct graph_shape_args *args,
                            struct infer_error *err)
{
    int64_t b = args->attr->depth_space.block;
    int64_t *dim = args->out[0].dim;
    int rc = check_block(args, err), i;

    op_same(args);
    if (rc < 0 || args->in[0].rank < 0)
        return rc;
    for (i = 2; i < 4; i++) {
        if (dim[i] >= 0 && dim[i] % b != 0)
            return error_set(err, INFER_EFORMAT,
                             "an extent of %lld does not divide into blocks "
                             "of %lld",
                             (long long)dim[i], (long long)b);
        if (dim[i] >= 0)
            dim[i] /= b;
    }
    if (dim[1] >= 0 && !checked_mul_i64(dim[1], b * b, &dim[1]))
        return error_set(err, INFER_EFORMAT, "the output is too large");
    return INFER_OK;
}
