/* SPDX-License-Identifier: Apache-2.0 */
/* Element-wise operations: attributes and shapes. */
#include "kernels/base/scalar.h"
#include "libinfer/graph/ops/op.h"

/* ---- one argument -------------------------------------------------- */

int op_unary_shape(struct graph_shape_args *args, struct infer_error *err)
{
    enum kern_unary_kind kind = args->attr->unary.kind;
    int rc = INFER_OK;

    if (!kern_unary_info(kind)->any_type)
        rc = op_need_float(args, err);
    else if (kind == KERN_NOT && args->in[0].dtype != INFER_NONE &&
             args->in[0].dtype != INFER_BOOL)
        rc = error_set(err, INFER_EFORMAT, "input is %s, BOOL is needed",
                       infer_dtype_name(args->in[0].dtype));
    if (rc == INFER_OK)
        op_same(args);
    return rc;
}

/* ---- cast and dropout ---------------------------------------------- */

int op_cast_shape(struct graph_shape_args *args, struct infer_error *err)
{
    if (args->attr->cast.to == INFER_NONE)
        return error_set(err, INFER_EFORMAT, "cast to no type");
    op_same(args);
    args->out[0].dtype = args->attr->cast.to;
    return INFER_OK;
}

/* An identity: only training drops anything. */
int op_dropout_shape(struct graph_shape_args *args, struct infer_error *err)
{
    const float ratio = args->attr->dropout.ratio;

    if (!(ratio >= 0 && ratio < 1))
        return error_set(err, INFER_EFORMAT, "ratio %g is not in [0, 1)",
                         (double)ratio);
    op_same(args);
    return INFER_OK;
}

/* ---- several arguments --------------------------------------------- */

/* The type of a result of inputs i and k.  Floats of different widths meet
 * where weights are stored narrower than the network runs: then the one that
 * is no constant decides, else the wider.  Integers must agree. */
static int common_type(const struct graph_shape_args *args, int i, int k,
                       enum infer_dtype *out, struct infer_error *err)
{
    enum infer_dtype a = args->in[i].dtype, b = args->in[k].dtype;

    if (a == INFER_NONE || b == INFER_NONE || a == b) {
        *out = a == INFER_NONE ? b : a;
        return INFER_OK;
    }
    if (!scalar_is_float(a) || !scalar_is_float(b))
        return error_set(err, INFER_EFORMAT, "types %s and %s do not agree",
                         infer_dtype_name(a), infer_dtype_name(b));
    if ((args->data[i] != NULL) != (args->data[k] != NULL))
        *out = args->data[i] != NULL ? b : a;
    else
        *out = infer_dtype_size(a) >= infer_dtype_size(b) ? a : b;
    return INFER_OK;
}

int op_prelu_shape(struct graph_shape_args *args, struct infer_error *err)
{
    const struct graph_type *x = &args->in[0], *slope = &args->in[1];
    char xs[OP_TEXT], ss[OP_TEXT];
    struct graph_type wide = *x;
    int rc = op_need_float(args, err), i;
    bool fits;

    if (rc < 0)
        return rc;
    op_same(args);
    if (x->rank < 0 || slope->rank < 0)
        return INFER_OK;
    rc = op_broadcast(x, slope, &wide, err);
    if (rc < 0)
        return rc;
    /* One way only: the slope must not widen x. */
    fits = wide.rank == x->rank;
    for (i = 0; fits && i < x->rank; i++)
        fits = op_fits(wide.dim[i], x->dim[i]);
    if (!fits)
        return error_set(err, INFER_EFORMAT,
                         "slope is %s and does not broadcast to input %s",
                         op_text(slope, ss), op_text(x, xs));
    args->out[0] = wide;
    return INFER_OK;
}

int op_binary_shape(struct graph_shape_args *args, struct infer_error *err)
{
    enum kern_binary_kind kind = args->attr->binary.kind;
    struct graph_type *out = &args->out[0];
    int rc = common_type(args, 0, 1, &out->dtype, err);

    if (rc < 0)
        return rc;
    if ((kind == KERN_AND || kind == KERN_OR) && out->dtype != INFER_NONE &&
        out->dtype != INFER_BOOL)
        return error_set(err, INFER_EFORMAT, "inputs are %s, BOOL is needed",
                         infer_dtype_name(out->dtype));
    if (kern_binary_needs_integers(kind) && out->dtype != INFER_NONE &&
        !scalar_is_integer(out->dtype))
        return error_set(err, INFER_EFORMAT, "inputs are %s, not integers",
                         infer_dtype_name(out->dtype));
    if (kind >= KERN_EQUAL)
        out->dtype = INFER_BOOL;
    return op_broadcast(&args->in[0], &args->in[1], out, err);
}

int op_where_shape(struct graph_shape_args *args, struct infer_error *err)
{
    const struct graph_type *condition = &args->in[0];
    struct graph_type *out = &args->out[0];
    int rc = common_type(args, 1, 2, &out->dtype, err);

    if (rc < 0)
        return rc;
    if (condition->dtype != INFER_NONE && condition->dtype != INFER_BOOL)
        return error_set(err, INFER_EFORMAT, "condition is %s, BOOL is needed",
                         infer_dtype_name(condition->dtype));
    rc = op_broadcast(&args->in[1], &args->in[2], out, err);
    if (rc == INFER_OK)
        rc = op_broadcast(condition, out, out, err);
    return rc;
}
