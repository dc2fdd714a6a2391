/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that select along an axis: elements by their indices, running
 * sums, the largest elements, boxes. */
#include "kernels/base/scalar.h"
#include "libinfer/graph/ops/op.h"

/* ---- elements by their indices ------------------------------------- */

/* Input 1 names elements of input 0 along an axis: *axis counts from the front,
 * and is -1 where a rank is not known. */
static int check_elements(const struct graph_shape_args *args, int stated,
                          int *axis, struct infer_error *err)
{
    const struct graph_type *x = &args->in[0], *at = &args->in[1];
    char xs[OP_TEXT], as[OP_TEXT];
    int rc = op_need_index_type(args, err);

    *axis = -1;
    if (rc < 0 || x->rank < 0 || at->rank < 0)
        return rc;
    rc = op_axis(stated, x->rank, axis, err);
    if (rc == 0)
        rc = op_need_indices(args->data[1], x->dim[*axis], err);
    if (rc < 0)
        return rc;
    if (at->rank != x->rank)
        return error_set(err, INFER_EFORMAT,
                         "indices %s and input %s differ in rank",
                         op_text(at, as), op_text(x, xs));
    for (int i = 0; i < x->rank; i++)
        if (i != *axis && x->dim[i] >= 0 && at->dim[i] > x->dim[i])
            return error_set(err, INFER_EFORMAT,
                             "indices %s exceed input %s in dimension %d",
                             op_text(at, as), op_text(x, xs), i);
    return INFER_OK;
}

int op_gather_elements_shape(struct graph_shape_args *args,
                             struct infer_error *err)
{
    int axis;
    const int rc = check_elements(args, args->attr->axis.axis, &axis, err);

    args->out[0] = args->in[1];
    args->out[0].dtype = args->in[0].dtype;
    return rc;
}

int op_scatter_elements_shape(struct graph_shape_args *args,
                              struct infer_error *err)
{
    const struct graph_type *at = &args->in[1], *update = &args->in[2];
    const enum infer_dtype x = args->in[0].dtype;
    char us[OP_TEXT], as[OP_TEXT];
    int axis;
    const int rc = check_elements(args, args->attr->scatter.axis, &axis, err);
    bool fits = at->rank < 0 || update->rank < 0 || at->rank == update->rank;

    if (rc < 0)
        return rc;
    if (x != INFER_NONE && update->dtype != INFER_NONE && x != update->dtype &&
        !(scalar_is_float(x) && scalar_is_float(update->dtype)))
        return error_set(err, INFER_EFORMAT, "updates of %s for %s",
                         infer_dtype_name(update->dtype), infer_dtype_name(x));
    for (int i = 0; fits && i < at->rank && i < update->rank; i++)
        fits = op_fits(at->dim[i], update->dim[i]);
    if (!fits)
        return error_set(err, INFER_EFORMAT, "updates %s for indices %s",
                         op_text(update, us), op_text(at, as));
    op_same(args);
    return INFER_OK;
}

/* Each entry of a batch has indices of its own. */
bool op_elements_separable(const struct graph_separable_args *args)
{
    for (int i = 0; i < args->n_in; i++)
        if (!args->varies[i])
            return false;
    return op_separable_axis(args, args->attr->axis.axis);
}

_Static_assert(offsetof(struct graph_axis, axis) == 0 &&
                   offsetof(struct graph_scatter, axis) == 0,
               "op_elements_separable() reads one axis for both operations");

/* ---- along a line -------------------------------------------------- */

int op_cumulate_shape(struct graph_shape_args *args, struct infer_error *err)
{
    int axis;

    op_same(args);
    if (args->in[0].dtype == INFER_BOOL)
        return error_set(err, INFER_EFORMAT, "input is BOOL");
    return args->in[0].rank < 0 ? INFER_OK
                                : op_axis(args->attr->cumulate.axis,
                                          args->in[0].rank, &axis, err);
}

bool op_cumulate_separable(const struct graph_separable_args *args)
{
    return op_separable_axis(args, args->attr->cumulate.axis);
}

int op_top_k_shape(struct graph_shape_args *args, struct infer_error *err)
{
    const int k = args->attr->top_k.k;
    struct graph_type *y = &args->out[0];
    int axis, rc = op_need_range("k", k, 0, INT32_MAX, err);

    op_same(args);
    y->dtype = INFER_I64;
    if (rc < 0 || y->rank < 0)
        return rc;
    rc = op_axis(args->attr->top_k.axis, y->rank, &axis, err);
    if (rc < 0)
        return rc;
    if (y->dim[axis] >= 0 && k > y->dim[axis])
        return error_set(err, INFER_EFORMAT,
                         "%d are to be chosen among %lld elements", k,
                         (long long)y->dim[axis]);
    y->dim[axis] = k;
    return INFER_OK;
}

bool op_top_k_separable(const struct graph_separable_args *args)
{
    return op_separable_axis(args, args->attr->top_k.axis);
}

/* ---- boxes --------------------------------------------------------- */

/* At most `most` boxes of a class, and no more than there are. */
static int rows_of(const struct graph_type *scores, int most, int64_t *rows,
                   struct infer_error *err)
{
    const int64_t n = scores->dim[2] < most ? scores->dim[2] : most;

    *rows = -1;
    if (scores->dim[0] < 0 || scores->dim[1] < 0 || scores->dim[2] < 0)
        return INFER_OK;
    if (!checked_mul_i64(scores->dim[0], scores->dim[1], rows) ||
        !checked_mul_i64(*rows, n, rows) || *rows > OP_MAX_COUNT)
        return error_set(err, INFER_EFORMAT, "the output is too large");
    return INFER_OK;
}

int op_nms_shape(struct graph_shape_args *args, struct infer_error *err)
{
    const struct graph_type *boxes = &args->in[0], *scores = &args->in[1];
    const struct graph_nms *a = &args->attr->nms;
    struct graph_type *y = &args->out[0];
    char bs[OP_TEXT], ss[OP_TEXT];
    int rc = op_need_range("most", a->most, 0, INT32_MAX, err);

    if (rc == 0)
        rc = op_need_float(args, err);
    if (rc < 0)
        return rc;
    if (a->iou != a->iou || a->score != a->score)
        return error_set(err, INFER_EFORMAT, "a threshold is NaN");
    y->dtype = INFER_I64;
    y->rank = 2;
    y->dim[0] = -1;
    y->dim[1] = 3;
    if (boxes->rank < 0 || scores->rank < 0)
        return INFER_OK;
    if (boxes->rank != 3 || scores->rank != 3 || !op_fits(boxes->dim[2], 4) ||
        !op_fits(boxes->dim[0], scores->dim[0]) ||
        !op_fits(boxes->dim[1], scores->dim[2]))
        return error_set(err, INFER_EFORMAT,
                         "boxes %s and scores %s, expected NxBx4 and NxCxB",
                         op_text(boxes, bs), op_text(scores, ss));
    return rows_of(scores, a->most, &y->dim[0], err);
}
