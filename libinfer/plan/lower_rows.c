/* SPDX-License-Identifier: Apache-2.0 */
/* Products and reductions over rows: what wants row-major tensors. */
#include <string.h>

#include "libinfer/plan/lower.h"

int lower_dense(const struct lower *l)
{
    struct plan_emit e;

    lower_begin(l, KERN_DENSE_FPROP, PLAN_ROWS, &e);
    return lower_end(l, &e);
}

int lower_layer_norm(const struct lower *l)
{
    struct plan_emit e;
    int rc;

    lower_begin(l, KERN_LAYER_NORM, PLAN_ROWS, &e);
    e.p.attr.norm = l->node->attr.norm;
    rc = lower_axis(l, l->node->attr.norm.axis, e.in[0].t.rank,
                    &e.p.attr.norm.axis);
    return rc < 0 ? rc : lower_end(l, &e);
}

int lower_matmul(const struct lower *l)
{
    struct plan_emit e;
    int i;

    lower_begin(l, KERN_MATMUL, PLAN_ROWS, &e);
    e.p.attr.matmul = l->node->attr.matmul;
    /* Batches are aligned, so that kernels see as many on both sides. */
    for (i = 0; i < 2; i++)
        e.in[i] = view_raise(&e.in[i], e.p.out[0].rank);
    return lower_end(l, &e);
}

/* Softmax over all dimensions from axis on, as ONNX had it before opset 13. */
static int softmax_flat(const struct lower *l, int axis)
{
    const struct view *x = lower_in(l, 0);
    int64_t dim[2] = {1, 1};
    struct plan_emit e;
    struct view flat, out;
    int i, rc;

    for (i = 0; i < x->t.rank; i++)
        dim[i >= axis] *= x->t.dim[i];
    rc = lower_reshape(l, x, 2, dim, &flat);
    if (rc < 0)
        return rc;
    lower_single(l, KERN_SOFTMAX, PLAN_ROWS, &flat, flat.t.dtype, 2, dim, &e);
    e.p.attr.softmax.axis = 1;
    e.p.attr.softmax.log = l->node->attr.axis.log;
    rc = plan_emit(l->plan, l->index, &e, l->err, &out);
    if (rc == 0)
        rc = lower_reshape(l, &out, x->t.rank, x->t.dim, &out);
    return rc < 0 ? rc : lower_set(l, 0, &out);
}

int lower_softmax(const struct lower *l)
{
    const struct graph_axis *a = &l->node->attr.axis;
    const int rank = lower_in(l, 0)->t.rank;
    struct plan_emit e;
    int axis, rc = lower_axis(l, a->axis, rank, &axis);

    if (rc < 0)
        return rc;
    if (a->flatten && axis != rank - 1)
        return softmax_flat(l, axis);
    lower_begin(l, KERN_SOFTMAX, PLAN_ROWS, &e);
    e.p.attr.softmax.axis = axis;
    e.p.attr.softmax.log = a->log;
    return lower_end(l, &e);
}

/* Emits a reduction whose result keeps size 1 in the dimensions of `axes`,
 * then takes those away where the graph's output lacks them. */
static int reduce_over(const struct lower *l, struct plan_emit *e,
                       uint32_t axes, bool keep)
{
    const struct view *x = &e->in[0];
    struct view out;
    int i, rc;

    e->p.out[0].rank = x->t.rank;
    for (i = 0; i < x->t.rank; i++)
        e->p.out[0].dim[i] = axes >> i & 1 ? 1 : x->t.dim[i];
    if (keep || axes == 0)
        return lower_end(l, e);
    e->value = -1;
    rc = plan_emit(l->plan, l->index, e, l->err, &out);
    if (rc < 0)
        return rc;
    for (i = x->t.rank - 1; i >= 0; i--)
        if (axes >> i & 1)
            out = view_drop(&out, i);
    return lower_set(l, 0, &out);
}

int lower_reduce(const struct lower *l)
{
    const struct graph_reduce *a = &l->node->attr.reduce;
    const int rank = lower_in(l, 0)->t.rank;
    struct plan_emit e;
    uint32_t axes = 0;
    bool done;
    int i, axis, rc;

    for (i = 0; i < a->n_axes; i++) {
        rc = lower_axis(l, a->axis[i], rank, &axis);
        if (rc < 0)
            return rc;
        axes |= 1u << axis;
    }
    if (a->n_axes == 0)
        axes = (1u << rank) - 1;
    if (a->kind == KERN_REDUCE_MEAN && rank > 2 && axes == (1u << rank) - 4) {
        rc = lower_squeeze(l, &done);
        if (rc < 0 || done)
            return rc;
    }
    lower_begin(l, KERN_REDUCE, PLAN_ROWS, &e);
    e.p.attr.reduce.kind = a->kind;
    e.p.attr.reduce.axes = axes;
    return reduce_over(l, &e, axes, a->keep_dims);
}

int lower_arg_reduce(const struct lower *l)
{
    const struct graph_axis *a = &l->node->attr.axis;
    struct plan_emit e;
    int axis, rc = lower_axis(l, a->axis, lower_in(l, 0)->t.rank, &axis);

    if (rc < 0)
        return rc;
    lower_begin(l, KERN_ARG_REDUCE, PLAN_ROWS, &e);
    e.p.attr.arg_reduce.axis = axis;
    e.p.attr.arg_reduce.min = a->min;
    e.p.attr.arg_reduce.select_last = a->select_last;
    return reduce_over(l, &e, 1u << axis, a->keep_dims);
}

int lower_gather(const struct lower *l)
{
    struct plan_emit e;
    int axis, rc = lower_axis(l, l->node->attr.axis.axis,
                              lower_in(l, 0)->t.rank, &axis);

    if (rc < 0)
        return rc;
    lower_begin(l, KERN_GATHER, PLAN_ROWS, &e);
    e.p.attr.gather.axis = axis;
    return lower_end(l, &e);
}
