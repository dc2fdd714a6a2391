/* SPDX-License-Identifier: Apache-2.0 */
/* Element-wise operations: attributes and shapes. */
#include "kernels/base/scalar.h"
#include "libinfer/graph/ops/op.h"

/* ---- one argument -------------------------------------------------- */

static const struct graph_field unary_fields[] = {
    OP_ENUM("kind", unary.kind, kern_unary_names),
    OP_FIELD("a", FLOAT, unary.a),
    OP_FIELD("b", FLOAT, unary.b),
    OP_END,
};

static int unary_shape(struct graph_shape_args *args, struct infer_error *err)
{
    enum kern_unary_kind kind = args->attr->unary.kind;
    int status = INFER_OK;

    if (!kern_unary_info(kind)->any_type)
        status = op_need_float(args, err);
    else if (kind == KERN_NOT && args->in[0].dtype != INFER_NONE &&
             args->in[0].dtype != INFER_BOOL)
        status = error_set(err, INFER_EFORMAT, "input is %s, BOOL is needed",
                           infer_dtype_name(args->in[0].dtype));
    if (status == INFER_OK)
        op_same(args);
    return status;
}

const struct graph_op_info graph_op_unary = {
    .name = "unary",
    .inputs = "x",
    .min_in = 1,
    .max_in = 1,
    .min_out = 1,
    .max_out = 1,
    .field = unary_fields,
    .infer_shape = unary_shape,
    .apart = op_separable_sizes,
};

/* ---- cast and dropout ---------------------------------------------- */

static const char *const dtype_names[] = {
    [INFER_NONE] = "none", [INFER_F64] = "F64",   [INFER_F32] = "F32",
    [INFER_F16] = "F16",   [INFER_BF16] = "BF16", [INFER_I64] = "I64",
    [INFER_I32] = "I32",   [INFER_I16] = "I16",   [INFER_I8] = "I8",
    [INFER_U64] = "U64",   [INFER_U32] = "U32",   [INFER_U16] = "U16",
    [INFER_U8] = "U8",     [INFER_BOOL] = "BOOL", [INFER_DTYPE_COUNT] = NULL,
};

static const struct graph_field cast_fields[] = {
    OP_ENUM("to", cast.to, dtype_names),
    OP_END,
};

static int cast_shape(struct graph_shape_args *args, struct infer_error *err)
{
    if (args->attr->cast.to == INFER_NONE)
        return error_set(err, INFER_EFORMAT, "cast to no type");
    op_same(args);
    args->out[0].dtype = args->attr->cast.to;
    return INFER_OK;
}

const struct graph_op_info graph_op_cast = {
    .name = "cast",
    .inputs = "x",
    .min_in = 1,
    .max_in = 1,
    .min_out = 1,
    .max_out = 1,
    .field = cast_fields,
    .infer_shape = cast_shape,
    .apart = op_separable_sizes,
};

static const struct graph_field dropout_fields[] = {
    OP_FIELD("ratio", FLOAT, dropout.ratio),
    OP_END,
};

static void dropout_defaults(union graph_attr *attr)
{
    attr->dropout.ratio = 0.5f;
}

/* An identity: only training drops anything. */
static int dropout_shape(struct graph_shape_args *args, struct infer_error *err)
{
    const float ratio = args->attr->dropout.ratio;

    if (!(ratio >= 0 && ratio < 1))
        return error_set(err, INFER_EFORMAT, "ratio %g is not in [0, 1)",
                         (double)ratio);
    op_same(args);
    return INFER_OK;
}

const struct graph_op_info graph_op_dropout = {
    .name = "dropout",
    .inputs = "x",
    .min_in = 1,
    .max_in = 1,
    .min_out = 1,
    .max_out = 1,
    .field = dropout_fields,
    .defaults = dropout_defaults,
    .infer_shape = dropout_shape,
    .apart = op_separable_sizes,
};

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

static int prelu_shape(struct graph_shape_args *args, struct infer_error *err)
{
    const struct graph_type *x = &args->in[0], *slope = &args->in[1];
    char xs[OP_TEXT], ss[OP_TEXT];
    struct graph_type wide = *x;
    int status = op_need_float(args, err), i;
    bool fits;

    if (status < 0)
        return status;
    op_same(args);
    if (x->rank < 0 || slope->rank < 0)
        return INFER_OK;
    status = op_broadcast(x, slope, &wide, err);
    if (status < 0)
        return status;
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

const struct graph_op_info graph_op_prelu = {
    .name = "prelu",
    .inputs = "x slope",
    .min_in = 2,
    .max_in = 2,
    .min_out = 1,
    .max_out = 1,
    .infer_shape = prelu_shape,
    .apart = op_separable_broadcast,
};

static const struct graph_field binary_fields[] = {
    OP_ENUM("kind", binary.kind, kern_binary_names),
    OP_END,
};

static int binary_shape(struct graph_shape_args *args, struct infer_error *err)
{
    enum kern_binary_kind kind = args->attr->binary.kind;
    struct graph_type *out = &args->out[0];
    int status = common_type(args, 0, 1, &out->dtype, err);

    if (status < 0)
        return status;
    if ((kind == KERN_AND || kind == KERN_OR) && out->dtype != INFER_NONE &&
        out->dtype != INFER_BOOL)
        return error_set(err, INFER_EFORMAT, "inputs are %s, BOOL is needed",
                         infer_dtype_name(out->dtype));
    if (kind >= KERN_EQUAL)
        out->dtype = INFER_BOOL;
    return op_broadcast(&args->in[0], &args->in[1], out, err);
}

const struct graph_op_info graph_op_binary = {
    .name = "binary",
    .inputs = "a b",
    .min_in = 2,
    .max_in = 2,
    .min_out = 1,
    .max_out = 1,
    .residual = true,
    .activation = true,
    .field = binary_fields,
    .infer_shape = binary_shape,
    .apart = op_separable_broadcast,
};

static int where_shape(struct graph_shape_args *args, struct infer_error *err)
{
    const struct graph_type *condition = &args->in[0];
    struct graph_type *out = &args->out[0];
    int status = common_type(args, 1, 2, &out->dtype, err);

    if (status < 0)
        return status;
    if (condition->dtype != INFER_NONE && condition->dtype != INFER_BOOL)
        return error_set(err, INFER_EFORMAT, "condition is %s, BOOL is needed",
                         infer_dtype_name(condition->dtype));
    status = op_broadcast(&args->in[1], &args->in[2], out, err);
    if (status == INFER_OK)
        status = op_broadcast(condition, out, out, err);
    return status;
}

const struct graph_op_info graph_op_where = {
    .name = "where",
    .inputs = "condition a b",
    .min_in = 3,
    .max_in = 3,
    .min_out = 1,
    .max_out = 1,
    .infer_shape = where_shape,
    .apart = op_separable_broadcast,
};
