/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax and reductions: attributes and shapes. */
#include "kernels/base/scalar.h"
#include "libinfer/graph/ops/op.h"

/* ---- softmax ------------------------------------------------------- */

static const struct graph_field softmax_fields[] = {
    OP_FIELD("axis", INT, axis.axis),
    OP_FIELD("log", BOOL, axis.log),
    OP_FIELD("flatten", BOOL, axis.flatten),
    OP_END,
};

static void softmax_defaults(union graph_attr *attr)
{
    attr->axis.axis = -1;
}

static int softmax_shape(struct graph_shape_args *args, struct infer_error *err)
{
    int status = op_need_float(args, err), axis;

    if (status == INFER_OK && args->in[0].rank >= 0)
        status = op_axis(args->attr->axis.axis, args->in[0].rank, &axis, err);
    if (status == INFER_OK)
        op_same(args);
    return status;
}

static bool softmax_separable(const struct graph_separable_args *args)
{
    return op_separable_axis(args, args->attr->axis.axis);
}

const struct graph_op_info graph_op_softmax = {
    .name = "softmax",
    .inputs = "x",
    .min_in = 1,
    .max_in = 1,
    .min_out = 1,
    .max_out = 1,
    .field = softmax_fields,
    .defaults = softmax_defaults,
    .infer_shape = softmax_shape,
    .apart = softmax_separable,
};

/* ---- reductions ---------------------------------------------------- */

static const struct graph_field reduce_fields[] = {
    OP_ENUM("kind", reduce.kind, kern_reduce_names),
    OP_COUNTED("axes", INTN, reduce.axis, reduce.n_axes, INFER_MAX_RANK),
    OP_FIELD("keep_dims", BOOL, reduce.keep_dims),
    OP_END,
};

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

static int reduce_shape(struct graph_shape_args *args, struct infer_error *err)
{
    const struct graph_reduce *attr = &args->attr->reduce;
    const struct graph_type *x = &args->in[0];
    unsigned axes = attr->n_axes == 0 ? ~0u : 0;
    int i, axis;

    args->out[0].dtype = x->dtype;
    if (x->rank < 0)
        return INFER_OK;
    for (i = 0; i < attr->n_axes; i++) {
        int status = op_axis(attr->axis[i], x->rank, &axis, err);

        if (status < 0)
            return status;
        if (axes >> axis & 1)
            return error_set(err, INFER_EFORMAT, "axis %d is given twice",
                             attr->axis[i]);
        axes |= 1u << axis;
    }
    reduce_dims(x, axes, attr->keep_dims, &args->out[0]);
    return INFER_OK;
}

static bool reduce_separable(const struct graph_separable_args *args)
{
    const struct graph_reduce *r = &args->attr->reduce;
    int i;

    for (i = 0; i < r->n_axes; i++)
        if (!op_separable_axis(args, r->axis[i]))
            return false;
    return r->n_axes > 0;
}

const struct graph_op_info graph_op_reduce = {
    .name = "reduce",
    .inputs = "x",
    .min_in = 1,
    .max_in = 1,
    .min_out = 1,
    .max_out = 1,
    .field = reduce_fields,
    .infer_shape = reduce_shape,
    .apart = reduce_separable,
};

static const struct graph_field arg_reduce_fields[] = {
    OP_FIELD("axis", INT, axis.axis),
    OP_FIELD("min", BOOL, axis.min),
    OP_FIELD("select_last", BOOL, axis.select_last),
    OP_FIELD("keep_dims", BOOL, axis.keep_dims),
    OP_END,
};

static int arg_reduce_shape(struct graph_shape_args *args,
                            struct infer_error *err)
{
    const struct graph_axis *attr = &args->attr->axis;
    const struct graph_type *x = &args->in[0];
    int axis, status;

    args->out[0].dtype = INFER_I64;
    if (x->rank < 0)
        return INFER_OK;
    status = op_axis(attr->axis, x->rank, &axis, err);
    if (status < 0)
        return status;
    if (x->dim[axis] == 0)
        return error_set(err, INFER_EFORMAT, "axis %d has no elements",
                         attr->axis);
    reduce_dims(x, 1u << axis, attr->keep_dims, &args->out[0]);
    return INFER_OK;
}

static bool arg_reduce_separable(const struct graph_separable_args *args)
{
    return op_separable_axis(args, args->attr->axis.axis);
}

const struct graph_op_info graph_op_arg_reduce = {
    .name = "arg_reduce",
    .inputs = "x",
    .min_in = 1,
    .max_in = 1,
    .min_out = 1,
    .max_out = 1,
    .field = arg_reduce_fields,
    .infer_shape = arg_reduce_shape,
    .apart = arg_reduce_separable,
};
