/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the shape rules: axes, broadcasting, sliding windows, checks. */
#include <stdio.h>
#include <string.h>

#include "kernels/base/scalar.h"
#include "libinfer/graph/ops/op.h"

int op_axis(int axis, int rank, int *out, struct infer_error *err)
{
    if (axis < -rank || axis >= rank)
        return error_set(err, INFER_EFORMAT,
                         "axis %d is outside a tensor of rank %d", axis, rank);
    *out = axis < 0 ? axis + rank : axis;
    return INFER_OK;
}

int op_axis_once(int axis, int rank, unsigned *seen, int *out,
                 struct infer_error *err)
{
    int rc = op_axis(axis, rank, out, err);

    if (rc < 0)
        return rc;
    if (*seen >> *out & 1)
        return error_set(err, INFER_EFORMAT, "axis %d is given twice", axis);
    *seen |= 1u << *out;
    return INFER_OK;
}

const char *op_text(const struct graph_type *t, char buf[OP_TEXT])
{
    size_t used = 0;
    int i;

    if (t->rank <= 0) {
        snprintf(buf, OP_TEXT, "%s", t->rank == 0 ? "scalar" : "unknown");
        return buf;
    }
    for (i = 0; i < t->rank; i++) {
        const char *x = i > 0 ? "x" : "";

        if (t->dim[i] < 0)
            used += (size_t)snprintf(buf + used, OP_TEXT - used, "%s?", x);
        else
            used += (size_t)snprintf(buf + used, OP_TEXT - used, "%s%lld", x,
                                     (long long)t->dim[i]);
    }
    return buf;
}

/* ---- checks -------------------------------------------------------- */

int op_need_range(const char *what, int64_t value, int64_t min, int64_t max,
                  struct infer_error *err)
{
    if (value < min || value > max)
        return error_set(err, INFER_EFORMAT, "%s %lld is outside %lld .. %lld",
                         what, (long long)value, (long long)min,
                         (long long)max);
    return INFER_OK;
}

int op_need_float(const struct graph_shape_args *args, struct infer_error *err)
{
    int i;

    for (i = 0; i < args->n_in; i++)
        if (args->in[i].dtype != INFER_NONE &&
            !scalar_is_float(args->in[i].dtype))
            return error_set(err, INFER_EFORMAT,
                             "input %d is %s, a floating type is needed", i,
                             infer_dtype_name(args->in[i].dtype));
    return INFER_OK;
}

int op_need_spatial(const struct graph_type *x, struct infer_error *err)
{
    char text[OP_TEXT];

    if (x->rank >= 0 && (x->rank < 3 || x->rank > 2 + KERN_MAX_SPATIAL))
        return error_set(err, INFER_EFORMAT,
                         "input is %s, rank 3, 4 or 5 is needed",
                         op_text(x, text));
    return INFER_OK;
}

int op_need_vector(const struct graph_shape_args *args, int i, const char *what,
                   int64_t n, struct infer_error *err)
{
    const struct graph_type *t;
    char text[OP_TEXT];

    if (!op_has(args, i))
        return INFER_OK;
    t = &args->in[i];
    if (t->rank < 0 || (t->rank == 1 && op_fits(t->dim[0], n)))
        return INFER_OK;
    if (n < 0)
        return error_set(err, INFER_EFORMAT, "%s is %s, expected a vector",
                         what, op_text(t, text));
    return error_set(err, INFER_EFORMAT, "%s is %s, expected %lld", what,
                     op_text(t, text), (long long)n);
}

/* ---- types --------------------------------------------------------- */

void op_same(const struct graph_shape_args *args)
{
    args->out[0] = args->in[0];
}

int op_product(const struct graph_type *t, int from, int to, int64_t *out,
               struct infer_error *err)
{
    bool unknown = false;
    int64_t n = 1;
    int i;

    for (i = from; i < to; i++) {
        if (t->dim[i] < 0)
            unknown = true;
        else if (!checked_mul_i64(n, t->dim[i], &n))
            return error_set(err, INFER_EFORMAT, "the shape is too large");
    }
    *out = unknown ? -1 : n;
    return INFER_OK;
}

bool op_is_possible(const struct graph_type *t)
{
    int64_t count;

    if (t->rank < 0 || t->rank > INFER_MAX_RANK)
        return false;
    /* Beside a dimension of 0 the product says nothing of the others. */
    for (int i = 0; i < t->rank; i++)
        if (t->dim[i] > OP_MAX_COUNT)
            return false;
    return op_product(t, 0, t->rank, &count, NULL) == 0 &&
           count <= OP_MAX_COUNT;
}

/* Two dimensions that broadcast; -1 where the result is not known.  A free one
 * against a size above 1 must turn out to be 1 or that size. */
static bool broadcast_dim(int64_t a, int64_t b, int64_t *out)
{
    *out = a == 1 || (a < 0 && b != 1) ? b : a;
    return a == b || a == 1 || b == 1 || a < 0 || b < 0;
}

int op_broadcast(const struct graph_type *a, const struct graph_type *b,
                 struct graph_type *out, struct infer_error *err)
{
    struct graph_type result = *out;
    int rank = a->rank > b->rank ? a->rank : b->rank, i;

    if (a->rank < 0 || b->rank < 0) {
        out->rank = -1;
        return INFER_OK;
    }
    result.rank = rank;
    for (i = 0; i < rank; i++) {
        int ia = i - (rank - a->rank), ib = i - (rank - b->rank);
        char left[OP_TEXT], right[OP_TEXT];

        if (!broadcast_dim(ia < 0 ? 1 : a->dim[ia], ib < 0 ? 1 : b->dim[ib],
                           &result.dim[i]))
            return error_set(err, INFER_EFORMAT,
                             "shapes %s and %s do not broadcast",
                             op_text(a, left), op_text(b, right));
    }
    *out = result;
    return INFER_OK;
}

/* ---- sliding windows ----------------------------------------------- */

int op_window_effective(const struct op_window *w, int64_t *out,
                        struct infer_error *err)
{
    int64_t n;

    if (!checked_mul_i64(w->window - 1, w->dilation, &n) || n >= OP_MAX_COUNT)
        return error_set(err, INFER_EFORMAT,
                         "a window of %lld with dilation %d is too large",
                         (long long)w->window, w->dilation);
    *out = n + 1;
    return INFER_OK;
}

int op_window_split(int64_t total, bool more_at_begin, struct op_window *w,
                    struct infer_error *err)
{
    int64_t less = total / 2;

    if (total > OP_MAX_STEP)
        return error_set(err, INFER_EFORMAT,
                         "automatic padding by %lld is too large",
                         (long long)total);
    w->pad_begin = (int)(more_at_begin ? total - less : less);
    w->pad_end = (int)(total - w->pad_begin);
    return INFER_OK;
}

int op_window_check(const struct op_window *w, struct infer_error *err)
{
    int rc = op_need_range("stride", w->stride, 1, OP_MAX_STEP, err);

    if (rc == INFER_OK)
        rc = op_need_range("dilation", w->dilation, 1, OP_MAX_STEP, err);
    if (rc == INFER_OK)
        rc = op_need_range("pad", w->pad_begin, 0, OP_MAX_STEP, err);
    if (rc == INFER_OK)
        rc = op_need_range("pad", w->pad_end, 0, OP_MAX_STEP, err);
    if (rc == INFER_OK && w->window == 0)
        rc = error_set(err, INFER_EFORMAT, "the window is empty");
    return rc;
}

/* TensorFlow's SAME: as many outputs as strides begin in the input. */
static int same_extent(bool lower, struct op_window *w, int64_t *extent,
                       struct infer_error *err)
{
    int64_t effective = 1, total;
    int rc;

    w->pad_begin = w->pad_end = 0;
    *extent = w->in < 0 ? -1 : (w->in + w->stride - 1) / w->stride;
    if (w->in < 0 || w->window < 0)
        return INFER_OK;
    rc = op_window_effective(w, &effective, err);
    if (rc < 0)
        return rc;
    /* No overflow: (extent - 1) * stride < in, and both terms are below
     * OP_MAX_COUNT. */
    total = (*extent - 1) * w->stride + effective - w->in;
    return op_window_split(total > 0 ? total : 0, lower, w, err);
}

int op_window_extent(enum graph_auto_pad auto_pad, bool ceil_mode,
                     struct op_window *w, int64_t *extent,
                     struct infer_error *err)
{
    int64_t effective = 1, room, n;
    int rc = op_window_check(w, err);

    if (rc < 0)
        return rc;
    if (w->in > OP_MAX_COUNT)
        return error_set(err, INFER_EFORMAT, "the input is too large");
    if (auto_pad == GRAPH_PAD_SAME_UPPER || auto_pad == GRAPH_PAD_SAME_LOWER)
        return same_extent(auto_pad == GRAPH_PAD_SAME_LOWER, w, extent, err);
    if (auto_pad == GRAPH_PAD_VALID)
        w->pad_begin = w->pad_end = 0;
    *extent = -1;
    if (w->in < 0 || w->window < 0)
        return INFER_OK;
    rc = op_window_effective(w, &effective, err);
    if (rc < 0)
        return rc;
    room = w->in + w->pad_begin + w->pad_end - effective;
    if (room < 0)
        return error_set(err, INFER_EFORMAT,
                         "a window of %lld does not fit into %lld with "
                         "padding %d and %d",
                         (long long)effective, (long long)w->in, w->pad_begin,
                         w->pad_end);
    n = room / w->stride + 1;
    /* The last window must start inside the input or the left padding. */
    if (ceil_mode && room % w->stride != 0)
        n++;
    if (ceil_mode && (n - 1) * w->stride >= w->in + w->pad_begin)
        n--;
    *extent = n;
    return INFER_OK;
}

/* ---- batches ------------------------------------------------------- */

bool op_separable_sizes(const struct graph_separable_args *args)
{
    return args->n_in == 1;
}

bool op_separable_first(const struct graph_separable_args *args)
{
    int i;

    for (i = 1; i < args->n_in && i < args->residual; i++)
        if (args->varies[i])
            return false;
    return args->varies[0] && args->in[0]->rank >= 2;
}

bool op_separable_broadcast(const struct graph_separable_args *args)
{
    int i;

    for (i = 0; i < args->n_in; i++)
        if (args->varies[i] && args->in[i]->rank != args->out->rank)
            return false;
    return true;
}

bool op_separable_axis(const struct graph_separable_args *args, int axis)
{
    return axis != 0 && axis != -args->in[0]->rank;
}

bool op_separable_axes(const struct graph_separable_args *args, const int *axis,
                       int n)
{
    int i;

    for (i = 0; i < n; i++)
        if (!op_separable_axis(args, axis[i]))
            return false;
    return true;
}

bool op_axis_separable(const struct graph_separable_args *args)
{
    return op_separable_axis(args, args->attr->axis.axis);
}
