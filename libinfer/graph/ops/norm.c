/* SPDX-License-Identifier: Apache-2.0 */
/* Normalisation and scaling by channel: attributes and shapes. */
#include <math.h>

#include "libinfer/graph/ops/op.h"

static int check_epsilon(float epsilon, struct infer_error *err)
{
    if (!isfinite(epsilon) || epsilon < 0)
        return error_set(err, INFER_EFORMAT,
                         "epsilon %g is not a finite number from 0 on",
                         (double)epsilon);
    return INFER_OK;
}

/* x has channels in dimension 1: their number, or -1. */
static int channels(const struct graph_shape_args *args, int64_t *c,
                    struct infer_error *err)
{
    const struct graph_type *x = &args->in[0];
    char text[OP_TEXT];

    if (x->rank >= 0 && x->rank < 2)
        return error_set(err, INFER_EFORMAT, "input is %s and has no channels",
                         op_text(x, text));
    *c = x->rank < 0 ? -1 : x->dim[1];
    return INFER_OK;
}

/* Inputs 1 .. n-1 are vectors with one element a channel. */
static int check_vectors(const struct graph_shape_args *args,
                         const char *const *names, struct infer_error *err)
{
    int64_t c = -1;
    int status = op_need_float(args, err), i;

    if (status == INFER_OK)
        status = channels(args, &c, err);
    for (i = 1; status == INFER_OK && names[i] != NULL; i++)
        status = op_need_vector(args, i, names[i], c, err);
    return status;
}

/* ---- batch norm ---------------------------------------------------- */

static const struct graph_field batch_norm_fields[] = {
    OP_FIELD("epsilon", FLOAT, norm.epsilon),
    OP_END,
};

static void norm_defaults(union graph_attr *attr)
{
    attr->norm.epsilon = 1e-5f;
    attr->norm.axis = -1;
    attr->norm.groups = 1;
}

static int batch_norm_shape(struct graph_shape_args *args,
                            struct infer_error *err)
{
    static const char *const names[] = {"x",    "scale",    "shift",
                                        "mean", "variance", NULL};
    int status = check_epsilon(args->attr->norm.epsilon, err);

    if (status == INFER_OK)
        status = check_vectors(args, names, err);
    if (status == INFER_OK)
        op_same(args);
    return status;
}

const struct graph_op_info graph_op_batch_norm = {
    .name = "batch_norm",
    .inputs = "x scale shift mean variance",
    .min_in = 5,
    .max_in = 5,
    .min_out = 1,
    .max_out = 1,
    .residual = true,
    .activation = true,
    .field = batch_norm_fields,
    .defaults = norm_defaults,
    .infer_shape = batch_norm_shape,
    .apart = op_separable_first,
};

static int scale_shift_shape(struct graph_shape_args *args,
                             struct infer_error *err)
{
    static const char *const names[] = {"x", "scale", "shift", NULL};
    int status = check_vectors(args, names, err);

    if (status == INFER_OK)
        op_same(args);
    return status;
}

const struct graph_op_info graph_op_scale_shift = {
    .name = "scale_shift",
    .inputs = "x [scale] [shift]",
    .min_in = 1,
    .max_in = 3,
    .min_out = 1,
    .max_out = 1,
    .residual = true,
    .activation = true,
    .infer_shape = scale_shift_shape,
    .apart = op_separable_first,
};

/* ---- layer norm ---------------------------------------------------- */

static const struct graph_field layer_norm_fields[] = {
    OP_FIELD("axis", INT, norm.axis),
    OP_FIELD("epsilon", FLOAT, norm.epsilon),
    OP_FIELD("rms", BOOL, norm.rms),
    OP_END,
};

/* Scale and shift have the shape of x from the axis on. */
static int check_tail(const struct graph_shape_args *args, int i, int axis,
                      struct infer_error *err)
{
    const struct graph_type *x = &args->in[0], *t = &args->in[i];
    char xs[OP_TEXT], ts[OP_TEXT];
    bool fits;
    int k;

    if (!op_has(args, i) || t->rank < 0)
        return INFER_OK;
    fits = t->rank == x->rank - axis;
    for (k = 0; fits && k < t->rank; k++)
        fits = op_fits(t->dim[k], x->dim[axis + k]);
    if (!fits)
        return error_set(err, INFER_EFORMAT,
                         "%s is %s and does not fit input %s from axis %d on",
                         i == 1 ? "scale" : "shift", op_text(t, ts),
                         op_text(x, xs), axis);
    return INFER_OK;
}

static int layer_norm_shape(struct graph_shape_args *args,
                            struct infer_error *err)
{
    int status = check_epsilon(args->attr->norm.epsilon, err), axis;

    if (status == INFER_OK)
        status = op_need_float(args, err);
    if (status < 0)
        return status;
    op_same(args);
    if (args->in[0].rank < 0)
        return INFER_OK;
    status = op_axis(args->attr->norm.axis, args->in[0].rank, &axis, err);
    if (status == INFER_OK)
        status = check_tail(args, 1, axis, err);
    if (status == INFER_OK)
        status = check_tail(args, 2, axis, err);
    return status;
}

static bool layer_norm_separable(const struct graph_separable_args *args)
{
    return op_separable_first(args) &&
           op_separable_axis(args, args->attr->norm.axis);
}

const struct graph_op_info graph_op_layer_norm = {
    .name = "layer_norm",
    .inputs = "x [scale] [shift]",
    .min_in = 1,
    .max_in = 3,
    .min_out = 1,
    .max_out = 1,
    .field = layer_norm_fields,
    .defaults = norm_defaults,
    .infer_shape = layer_norm_shape,
    .apart = layer_norm_separable,
};

/* ---- group norm ---------------------------------------------------- */

static const struct graph_field group_norm_fields[] = {
    OP_FIELD("groups", INT, norm.groups),
    OP_FIELD("epsilon", FLOAT, norm.epsilon),
    OP_END,
};

static int group_norm_shape(struct graph_shape_args *args,
                            struct infer_error *err)
{
    static const char *const names[] = {"x", "scale", "shift", NULL};
    const struct kern_norm *attr = &args->attr->norm;
    int status = check_epsilon(attr->epsilon, err);
    int64_t c = -1;

    if (status == INFER_OK)
        status = op_need_range("groups", attr->groups, 1, OP_MAX_STEP, err);
    if (status == INFER_OK)
        status = check_vectors(args, names, err);
    if (status == INFER_OK)
        status = channels(args, &c, err);
    if (status < 0)
        return status;
    if (c >= 0 && c % attr->groups != 0)
        return error_set(err, INFER_EFORMAT,
                         "%lld channels do not divide into %d groups",
                         (long long)c, attr->groups);
    op_same(args);
    return INFER_OK;
}

const struct graph_op_info graph_op_group_norm = {
    .name = "group_norm",
    .inputs = "x [scale] [shift]",
    .min_in = 1,
    .max_in = 3,
    .min_out = 1,
    .max_out = 1,
    .field = group_norm_fields,
    .defaults = norm_defaults,
    .infer_shape = group_norm_shape,
    .apart = op_separable_first,
};

/* ---- local response ------------------------------------------------ */

static const struct graph_field lrn_fields[] = {
    OP_FIELD("size", INT, lrn.size),
    OP_FIELD("alpha", FLOAT, lrn.alpha),
    OP_FIELD("beta", FLOAT, lrn.beta),
    OP_FIELD("bias", FLOAT, lrn.bias),
    OP_END,
};

static void lrn_defaults(union graph_attr *attr)
{
    attr->lrn.size = 5;
    attr->lrn.alpha = 1e-4f;
    attr->lrn.beta = 0.75f;
    attr->lrn.bias = 1;
}

static int lrn_shape(struct graph_shape_args *args, struct infer_error *err)
{
    const struct kern_lrn *attr = &args->attr->lrn;
    int64_t c = -1;
    int status = op_need_range("size", attr->size, 1, OP_MAX_STEP, err);

    if (status == INFER_OK)
        status = op_need_float(args, err);
    if (status == INFER_OK)
        status = channels(args, &c, err);
    if (status < 0)
        return status;
    if (!isfinite(attr->alpha) || !isfinite(attr->beta) ||
        !isfinite(attr->bias))
        return error_set(err, INFER_EFORMAT,
                         "alpha, beta or bias is not finite");
    op_same(args);
    return INFER_OK;
}

const struct graph_op_info graph_op_lrn = {
    .name = "lrn",
    .inputs = "x",
    .min_in = 1,
    .max_in = 1,
    .min_out = 1,
    .max_out = 1,
    .field = lrn_fields,
    .defaults = lrn_defaults,
    .infer_shape = lrn_shape,
    .apart = op_separable_first,
};
