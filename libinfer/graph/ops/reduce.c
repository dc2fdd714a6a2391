/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax and reductions: attributes and shapes. */
#include "kernels/base/scalar.h"
#include "libinfer/graph/ops/op.h"

/* ---- softmax ------------------------------------------------------- */

int op_softmax_shape(struct graph_shape_args *args, struct infer_error *err)
{
    int rc = op_need_float(args, err), axis;

    if (rc == INFER_OK && args->in[0].rank >= 0)
        rc = op_axis(args->attr->axis.axis, args->in[0].rank, &axis, err);
    if (rc == INFER_OK)
        op_same(args);
    return rc;
}

/* ---- reductions ---------------------------------------------------- */

/* Leaves out the reduced dimensions, or gives them size 1. */
static void reduce_dims(const struct graph_type *x, unsigned axes, bool keep,
                        struct graph_type *out)
{
    int i;

    out->rank = 0;
    for (i = 0; i < x->rank; i++) {
        if ((axes >> i & 1) == 0)
            out->dim[out->rank++] = x->dim[i];
        else if (keep)
            out->dim[out->rank++] = 1;
    }
}

int op_reduce_shape(struct graph_shape_args *args, struct infer_error *err)
{
    const struct graph_reduce *attr = &args->attr->reduce;
    const struct graph_type *x = &args->in[0];
    unsigned axes = attr->n_axes == 0 ? ~0u : 0;
    int i, axis;

    args->out[0].dtype = x->dtype;
    if (x->rank < 0)
        return INFER_OK;
    for (i = 0; i < attr->n_axes; i++) {
        int rc = op_axis_once(attr->axis[i], x->rank, &axes, &axis, err);

        if (rc < 0)
            return rc;
    }
    reduce_dims(x, axes, attr->keep_dims, &args->out[0]);
    return INFER_OK;
}

bool op_reduce_separable(const struct graph_separable_args *args)
{
    const struct graph_reduce *r = &args->attr->reduce;

    return r->n_axes > 0 && op_separable_axes(args, r->axis, r->n_axes);
}

int op_arg_reduce_shape(struct graph_shape_args *args, struct infer_error *err)
{
    const struct graph_axis *attr = &args->attr->axis;
    const struct graph_type *x = &args->in[0];
    int axis, rc;

    args->out[0].dtype = INFER_I64;
    if (x->rank < 0)
        return INFER_OK;
    rc = op_axis(attr->axis, x->rank, &axis, err);
    if (rc < 0)
        return rc;
    if (x->dim[axis] == 0)
        return error_set(err, INFER_EFORMAT, "axis %d has no elements",
                         attr->axis);
    reduce_dims(x, 1u << axis, attr->keep_dims, &args->out[0]);
    return INFER_OK;
}
