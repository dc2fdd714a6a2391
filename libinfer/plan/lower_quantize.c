/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quantisation and its inverse as steps in single precision, whatever the
 * session's precision: integers of 16 bits are exact there, and the copy to
 * F8E4M3 rounds and limits.  A tensor of 8 bits
 * with one scale is one step where the backend has a row for copies with
 * scales; it has rows for the steps of all others, and all of them round alike.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "kernels/quant/quant.h"
#include "libinfer/plan/integers.h"

/* v in another type, as it lies; *out may be v itself. */
static int convert(const struct lower *l, const struct view *v,
                   enum infer_dtype to, struct view *out)
{
    const struct view from = *v;
    int rc;

    *out = from;
    if (from.t.dtype == to)
        return 0;
    if (l->plan->buffers.at[from.buffer].memory == PLAN_CONSTANT &&
        scalar_is_float(from.t.dtype) && scalar_is_float(to))
        return plan_constant_as(l->plan, &from, to, l->err, out);
    rc = plan_buffer(l->plan, l->index, to, from.t.rank, from.t.dim,
                     view_layout(&from.t), l->err, out);
    return rc < 0 ? rc : plan_copy_to(l->plan, l->index, &from, out, l->err);
}

/* Input i, one number or a vector along the axis, in single precision and
 * broadcast to x. */
static int numbers(const struct lower *l, int i, const struct view *x,
                   struct view *out)
{
    const int axis = l->node->attr.quantize.axis;
    struct view v;
    int rc = convert(l, lower_in(l, i), INFER_F32, &v);

    if (rc < 0)
        return rc;
    *out = v;
    out->t.rank = x->t.rank;
    for (int d = 0; d < x->t.rank; d++) {
        out->t.dim[d] = 1;
        out->t.stride[d] = 1;
    }
    if (v.t.rank == 1 && v.t.dim[0] > 1) {
        const int d = axis < 0 ? axis + x->t.rank : axis;

        out->t.dim[d] = v.t.dim[0];
        out->t.stride[d] = v.t.stride[0];
    }
    return 0;
}

/* x = x kind b; the result may take x's place. */
static int combine(const struct lower *l, enum kern_binary_kind kind,
                   const struct view *b, struct view *x)
{
    struct plan_emit e;

    plan_single(KERN_BINARY, PLAN_POINTWISE, x, INFER_F32, x->t.rank, x->t.dim,
                &e);
    e.p.attr.binary.kind = kind;
    e.p.n_in = 2;
    e.in[1] = *b;
    return plan_emit(l->plan, l->index, &e, l->err, x);
}

static int apply(const struct lower *l, const struct kern_unary *f,
                 struct view *x)
{
    struct plan_emit e;

    plan_single(KERN_UNARY, PLAN_POINTWISE, x, INFER_F32, x->t.rank, x->t.dim,
                &e);
    e.p.attr.unary = *f;
    return plan_emit(l->plan, l->index, &e, l->err, x);
}

/* x kind the numbers of input i, which may be absent. */
static int combine_input(const struct lower *l, enum kern_binary_kind kind,
                         int i, struct view *x)
{
    struct view b;
    int rc;

    if (!lower_in(l, i))
        return 0;
    rc = numbers(l, i, x, &b);
    return rc < 0 ? rc : combine(l, kind, &b, x);
}

static struct kern_unary clip_to(enum infer_dtype to)
{
    struct kern_unary clip = graph_unary(KERN_CLIP);
    const bool sign = to == INFER_I8 || to == INFER_I16;
    const int bits = 8 * (int)infer_dtype_size(to);

    clip.a = sign ? -(float)(1 << (bits - 1)) : 0;
    clip.b = (float)((1 << (sign ? bits - 1 : bits)) - 1);
    return clip;
}

/* A step from x to bytes, or from bytes, with the node's only scale, into a
 * new buffer; *taken: whether there is a row for it. */
static int scale_at_once(const struct lower *l, const struct view *x,
                         enum infer_dtype to, bool *taken, struct view *out)
{
    const bool back = !quant_is_byte(to);
    /* Pictures go to layers that take them channels last. */
    const enum kern_layout layout =
        !back && x->t.rank == 4 ? KERN_NHWC : view_layout(&x->t);
    struct kern_quant q = {0};
    int rc;

    *taken = quant_is_byte(back ? x->t.dtype : to) &&
             integers_scale(l->plan->g, l->node, back ? &q.x_scale : &q.y_scale,
                            back ? &q.x_zero : &q.y_zero);
    if (!*taken)
        return 0;
    rc = plan_buffer(l->plan, l->index, to, x->t.rank, x->t.dim, layout, l->err,
                     out);
    return rc < 0
               ? rc
               : plan_copy_scaled(l->plan, l->index, x, out, &q, l->err, taken);
}

int lower_quantize(const struct lower *l)
{
    const enum infer_dtype to = l->node->attr.quantize.to;
    const struct kern_unary nearest = graph_unary(KERN_ROUND);
    const bool is_integer = to != INFER_F8E4M3;
    struct view x, y;
    bool taken = false;
    int rc;

    if (lower_is_integer(l))
        return lower_set(l, 0, lower_in(l, 0));
    x = *lower_in(l, 0);
    rc = scale_at_once(l, &x, to, &taken, &y);
    if (rc == 0 && !taken && x.t.dtype != INFER_F32) {
        rc = convert(l, lower_in(l, 0), INFER_F32, &x);
        if (rc == 0)
            rc = scale_at_once(l, &x, to, &taken, &y);
    }
    if (rc < 0 || taken)
        return rc < 0 ? rc : lower_set(l, 0, &y);
    rc = combine_input(l, KERN_DIV, 1, &x);
    if (rc == 0 && is_integer)
        rc = apply(l, &nearest, &x);
    if (rc == 0)
        rc = combine_input(l, KERN_ADD, 2, &x);
    if (rc == 0 && is_integer) {
        const struct kern_unary clip = clip_to(to);

        rc = apply(l, &clip, &x);
    }
    if (rc == 0)
        rc = convert(l, &x, to, &x);
    return rc < 0 ? rc : lower_set(l, 0, &x);
}

/* ---- constants ----------------------------------------------------- */

/* Bytes of constant input i in memory; *out stays NULL where it is absent. */
static int load(const struct lower *l, int i, struct constant **out)
{
    *out = NULL;
    return i < l->node->n_in && l->node->in[i] >= 0
               ? constant_in_memory(l->plan->g->value[l->node->in[i]].data,
                                    &l->plan->config->device->host, l->err, out)
               : 0;
}

/* Element i, or the only one, of a scale or zero point. */
static float number(const struct constant *c, int64_t i, float absent)
{
    return c ? (float)scalar_load(c->dtype, c->data,
                                  constant_count(c) > 1 ? i : 0)
             : absent;
}

static void dequantize(const struct constant *q, const struct constant *scale,
                       const struct constant *zero, int axis,
                       struct constant *y)
{
    float *to = (float *)(void *)y->data;
    int64_t inner = 1, along;

    axis = axis < 0 ? axis + q->rank : axis;
    for (int d = axis + 1; d < q->rank; d++)
        inner *= q->dim[d];
    along = axis < q->rank ? q->dim[axis] : 1;
    for (int64_t i = 0; i < constant_count(q); i++) {
        const int64_t k = i / inner % along;

        to[i] =
            ((float)scalar_load(q->dtype, q->data, i) - number(zero, k, 0)) *
            number(scale, k, 1);
    }
}

/* Weights become floats when planning, so that kernels can pack them. */
static int dequantize_constant(const struct lower *l)
{
    const int value = l->node->out[0];
    struct constant *q, *scale = NULL, *zero = NULL, *y = NULL;
    int rc = load(l, 0, &q);

    if (rc == 0)
        rc = load(l, 1, &scale);
    if (rc == 0)
        rc = load(l, 2, &zero);
    if (rc == 0) {
        y = constant_new_in(&l->plan->config->device->host, INFER_F32, q->rank,
                            q->dim);
        if (!y)
            rc = error_set(l->err, INFER_EMEMORY, "plan: out of memory");
        else
            dequantize(q, scale, zero, l->node->attr.quantize.axis, y);
    }
    constant_unref(q);
    constant_unref(scale);
    constant_unref(zero);
    if (rc < 0)
        return rc;
    l->plan->g->value[value].data = y;
    return plan_set_constant(l->plan, value, l->err);
}

static bool is_constant(const struct lower *l)
{
    for (int i = 0; i < l->node->n_in; i++)
        if (l->node->in[i] >= 0 && !l->plan->g->value[l->node->in[i]].data)
            return false;
    return !graph_is_output(l->plan->g, l->node->out[0]);
}

/* Marks the values that steps on integers read. */
static void mark_read(const struct plan *plan, bool *read)
{
    for (int i = 0; i < plan->g->n_nodes; i++) {
        const struct graph_node *n = &plan->g->node[i];

        for (int k = 0; plan->integers[i] && k < n->n_in; k++)
            if (n->in[k] >= 0)
                read[n->in[k]] = true;
    }
}

int plan_dequantize_constants(struct plan *plan, struct infer_error *err)
{
    bool *read = calloc((size_t)plan->g->n_values + 1, sizeof *read);
    int rc = 0;

    if (!read)
        return error_set(err, INFER_EMEMORY, "plan: out of memory");
    mark_read(plan, read);
    for (int i = 0; rc == 0 && i < plan->g->n_nodes; i++) {
        struct graph_node *n = &plan->g->node[i];
        const struct lower l = {plan, n, i, err};

        if (n->op != GRAPH_DEQUANTIZE || plan->integers[i] || !is_constant(&l))
            continue;
        rc = dequantize_constant(&l);
        /* A step on integers finds its weights through the node. */
        if (!read[n->out[0]])
            n->op = GRAPH_NONE;
    }
    free(read);
    return rc;
}

int lower_dequantize(const struct lower *l)
{
    struct view x;
    bool taken = false;
    int rc;

    if (l->plan->g->value[l->node->out[0]].data)
        return 0; /* plan_dequantize_constants() */
    if (lower_is_integer(l))
        return lower_set(l, 0, lower_in(l, 0));
    rc = scale_at_once(l, lower_in(l, 0), plan_dtype(l->plan, INFER_F32),
                       &taken, &x);
    if (rc == 0 && !taken && plan_dtype(l->plan, INFER_F32) != INFER_F32)
        rc = scale_at_once(l, lower_in(l, 0), INFER_F32, &taken, &x);
    if (rc == 0 && !taken)
        rc = convert(l, lower_in(l, 0), INFER_F32, &x);
    if (rc == 0 && !taken)
        rc = combine_input(l, KERN_SUB, 2, &x);
    if (rc == 0 && !taken)
        rc = combine_input(l, KERN_MUL, 1, &x);
    if (rc == 0)
        rc = convert(l, &x, plan_dtype(l->plan, INFER_F32), &x);
    return rc < 0 ? rc : lower_set(l, 0, &x);
}
