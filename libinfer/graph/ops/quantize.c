/* SPDX-License-Identifier: Apache-2.0 */
/* Quantisation and its inverse. */
#include "kernels/base/scalar.h"
#include "libinfer/graph/ops/op.h"

/* True for types of 8 and 16 bits that scales stand for. */
static bool is_short(enum infer_dtype t)
{
    return t == INFER_I8 || t == INFER_U8 || t == INFER_I16 || t == INFER_U16 ||
           t == INFER_F8E4M3;
}

/* Input i is one number, or a vector along the axis. */
static int need_numbers(const struct graph_shape_args *args, int i,
                        const char *what, struct infer_error *err)
{
    const struct graph_type *t = &args->in[i], *x = &args->in[0];
    char text[OP_TEXT];
    int axis, rc;

    if (!op_has(args, i) || t->rank < 0 || t->rank == 0 ||
        (t->rank == 1 && t->dim[0] == 1))
        return INFER_OK;
    if (t->rank > 1)
        return error_set(err, INFER_EFORMAT,
                         "%s is %s, expected one number or a vector", what,
                         op_text(t, text));
    if (x->rank < 0)
        return INFER_OK;
    rc = op_axis(args->attr->quantize.axis, x->rank, &axis, err);
    if (rc == INFER_OK && !op_fits(t->dim[0], x->dim[axis]))
        rc = error_set(err, INFER_EFORMAT,
                       "%s has %lld entries, dimension %d of the input %lld",
                       what, (long long)t->dim[0], axis,
                       (long long)x->dim[axis]);
    return rc;
}

static int need_scaling(const struct graph_shape_args *args,
                        struct infer_error *err)
{
    const enum infer_dtype scale = args->in[1].dtype;
    int rc = need_numbers(args, 1, "scale", err);

    if (rc == INFER_OK)
        rc = need_numbers(args, 2, "zero point", err);
    if (rc == INFER_OK && scale != INFER_NONE && !scalar_is_float(scale))
        rc = error_set(err, INFER_EFORMAT,
                       "scale is %s, a floating type is needed",
                       infer_dtype_name(scale));
    return rc;
}

int op_quantize_shape(struct graph_shape_args *args, struct infer_error *err)
{
    const enum infer_dtype to = args->attr->quantize.to;
    const enum infer_dtype x = args->in[0].dtype;
    const enum infer_dtype zero =
        op_has(args, 2) ? args->in[2].dtype : INFER_NONE;

    if (!is_short(to))
        return error_set(err, INFER_EFORMAT,
                         "%s is no type of 8 or 16 bits to quantise to",
                         to == INFER_NONE ? "none" : infer_dtype_name(to));
    if (x != INFER_NONE && (!scalar_is_float(x) || x == INFER_F8E4M3))
        return error_set(err, INFER_EFORMAT,
                         "input is %s, a wider floating type is needed",
                         infer_dtype_name(x));
    if (zero != INFER_NONE && zero != to)
        return error_set(err, INFER_EFORMAT, "zero point is %s, expected %s",
                         infer_dtype_name(zero), infer_dtype_name(to));
    op_same(args);
    args->out[0].dtype = to;
    return need_scaling(args, err);
}

int op_dequantize_shape(struct graph_shape_args *args, struct infer_error *err)
{
    const enum infer_dtype x = args->in[0].dtype;
    const enum infer_dtype zero =
        op_has(args, 2) ? args->in[2].dtype : INFER_NONE;

    if (x != INFER_NONE && !is_short(x) && x != INFER_I32)
        return error_set(err, INFER_EFORMAT,
                         "input is %s, a type of 8 or 16 bits or I32 is needed",
                         infer_dtype_name(x));
    if (x != INFER_NONE && zero != INFER_NONE && zero != x)
        return error_set(err, INFER_EFORMAT, "zero point is %s, expected %s",
                         infer_dtype_name(zero), infer_dtype_name(x));
    op_same(args);
    args->out[0].dtype = INFER_F32;
    return need_scaling(args, err);
}

/* Element by element; a vector runs along another dimension than the batch. */
bool op_quantize_separable(const struct graph_separable_args *args)
{
    for (int i = 1; i < args->n_in; i++) {
        if (args->varies[i])
            return false;
        if (args->in[i] && args->in[i]->rank == 1 && args->in[i]->dim[0] > 1 &&
            !op_separable_axis(args, args->attr->quantize.axis))
            return false;
    }
    return true;
}

/* All inputs broadcast to each other. */
int op_requantize_shape(struct graph_shape_args *args, struct infer_error *err)
{
    const struct graph_requantize *a = &args->attr->requantize;
    const enum infer_dtype x = args->in[0].dtype;
    struct graph_type wide = args->in[0];
    int rc = INFER_OK;

    if (a->to != INFER_F32 && a->to != INFER_I32)
        return error_set(err, INFER_EFORMAT, "to is neither F32 nor I32");
    if (a->requantize.left < 0 || a->requantize.left > 31 ||
        a->requantize.low > a->requantize.high)
        return error_set(
            err, INFER_EFORMAT, "shift by %d to the left, bounds %d and %d",
            a->requantize.left, a->requantize.low, a->requantize.high);
    if (x != INFER_NONE && !scalar_is_float(x) && x != INFER_I32)
        return error_set(err, INFER_EFORMAT, "input is %s, not floats or I32",
                         infer_dtype_name(x));
    args->out[0].rank = -1;
    args->out[0].dtype = a->to;
    for (int i = 0; i < args->n_in && rc == INFER_OK; i++) {
        if (!op_has(args, i))
            continue;
        if (i > 0 && args->in[i].dtype != INFER_NONE &&
            args->in[i].dtype != INFER_I32)
            return error_set(err, INFER_EFORMAT,
                             "multiplier, shift or addend is %s, expected I32",
                             infer_dtype_name(args->in[i].dtype));
        if (args->in[i].rank < 0)
            return INFER_OK;
        if (i > 0) {
            const struct graph_type before = wide;
            rc = op_broadcast(&before, &args->in[i], &wide, err);
        }
    }
    if (rc == INFER_OK) {
        args->out[0] = wide;
        args->out[0].dtype = a->to;
    }
    return rc;
}
