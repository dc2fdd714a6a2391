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

/* Inputs 1 .. n-1 are vectors with one element per channel. */
static int check_vectors(const struct graph_shape_args *args,
                         const char *const *names, struct infer_error *err)
{
    int64_t c = -1;
    int rc = op_need_float(args, err), i;

    if (rc == INFER_OK)
        rc = channels(args, &c, err);
    for (i = 1; rc == INFER_OK && names[i] != NULL; i++)
        rc = op_need_vector(args, i, names[i], c, err);
    return rc;
}

/* ---- batch norm ---------------------------------------------------- */

int op_batch_norm_shape(struct graph_shape_args *args, struct infer_error *err)
{
    static const char *const names[] = {"x",    "scale",    "shift",
                                        "mean", "variance", NULL};
    int rc = check_epsilon(args->attr->norm.epsilon, err);

    if (rc == INFER_OK)
        rc = check_vectors(args, names, err);
    if (rc == INFER_OK)
        op_same(args);
    return rc;
}

int op_scale_shift_shape(struct graph_shape_args *args, struct infer_error *err)
{
    static const char *const names[] = {"x", "scale", "shift", NULL};
    int rc = check_vectors(args, names, err);

    if (rc == INFER_OK)
        op_same(args);
    return rc;
}

/* ---- layer norm ---------------------------------------------------- */

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

int op_layer_norm_shape(struct graph_shape_args *args, struct infer_error *err)
{
    int rc = check_epsilon(args->attr->norm.epsilon, err), axis;

    if (rc == INFER_OK)
        rc = op_need_float(args, err);
    if (rc < 0)
        return rc;
    op_same(args);
    if (args->in[0].rank < 0)
        return INFER_OK;
    rc = op_axis(args->attr->norm.axis, args->in[0].rank, &axis, err);
    if (rc == INFER_OK)
        rc = check_tail(args, 1, axis, err);
    if (rc == INFER_OK)
        rc = check_tail(args, 2, axis, err);
    return rc;
}

bool op_layer_norm_separable(const struct graph_separable_args *args)
{
    return op_separable_first(args) &&
           op_separable_axis(args, args->attr->norm.axis);
}

/* ---- group norm ---------------------------------------------------- */

int op_group_norm_shape(struct graph_shape_args *args, struct infer_error *err)
{
    static const char *const names[] = {"x", "scale", "shift", NULL};
    const struct kern_norm *attr = &args->attr->norm;
    int rc = check_epsilon(attr->epsilon, err);
    int64_t c = -1;

    if (rc == INFER_OK)
        rc = op_need_range("groups", attr->groups, 1, OP_MAX_STEP, err);
    if (rc == INFER_OK)
        rc = check_vectors(args, names, err);
    if (rc == INFER_OK)
        rc = channels(args, &c, err);
    if (rc < 0)
        return rc;
    if (c >= 0 && c % attr->groups != 0)
        return error_set(err, INFER_EFORMAT,
                         "%lld channels do not divide into %d groups",
                         (long long)c, attr->groups);
    op_same(args);
    return INFER_OK;
}

/* ---- local response ------------------------------------------------ */

int op_lrn_shape(struct graph_shape_args *args, struct infer_error *err)
{
    const struct kern_lrn *attr = &args->attr->lrn;
    int64_t c = -1;
    int rc = op_need_range("size", attr->size, 1, OP_MAX_STEP, err);

    if (rc == INFER_OK)
        rc = op_need_float(args, err);
    if (rc == INFER_OK)
        rc = channels(args, &c, err);
    if (rc < 0)
        return rc;
    if (!isfinite(attr->alpha) || !isfinite(attr->beta) ||
        !isfinite(attr->bias))
        return error_set(err, INFER_EFORMAT,
                         "alpha, beta or bias is not finite");
    op_same(args);
    return INFER_OK;
}
