/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of arithmetic on two tensors, which may be broadcast to each other,
 * and of softmax. */
#include "tools/train/net/net_backward.h"

#include "kernels/base/error.h"

int net_bwd_unbroadcast(const struct backward *b, int i, const struct view *g,
                        bool give)
{
    const struct view to = input(b, i, false);
    const int lead = g->t.rank - to.t.rank;
    struct net_emit e;
    struct view sum;
    int64_t dim[KERN_MAX_RANK];
    int rc;

    begin(b, KERN_REDUCE, NET_DGRAD, &e);
    e.p.attr.reduce.kind = KERN_REDUCE_SUM;
    for (int d = 0; d < g->t.rank; d++) {
        dim[d] = d < lead ? 1 : to.t.dim[d - lead];
        if (dim[d] != g->t.dim[d])
            e.p.attr.reduce.axes |= 1u << d;
    }
    if (e.p.attr.reduce.axes == 0 && lead == 0)
        return (give ? net_grad_give : net_grad_add)(b->n, b->at, source(b, i),
                                                     g, b->err);
    e.in[0] = *g;
    rc = net_tensor(b->n, NET_TRAIN, g->t.dtype, g->t.rank, dim,
                    view_layout(&g->t), b->err, &e.out[0]);
    if (rc == 0)
        rc = net_emit(b->n, &e, b->err);
    if (rc < 0)
        return rc;
    if (!view_reshape(&e.out[0], to.t.rank, to.t.dim, &sum))
        return error_set(b->err, INFER_EUNSUPPORTED,
                         "node '%s': its broadcast cannot be undone",
                         b->node->name);
    return net_grad_give(b->n, b->at, source(b, i), &sum, b->err);
}

/* ---- arithmetic ---------------------------------------------------- */

/* A fresh tensor of dy's shape that holds kind(a, b). */
static int compute(const struct backward *b, enum kern_binary_kind kind,
                   const struct view *x, const struct view *y, struct view *out)
{
    struct net_emit e;
    int rc;

    begin(b, KERN_BINARY, NET_DGRAD, &e);
    e.p.attr.binary.kind = kind;
    e.in[0] = *x;
    e.in[1] = *y;
    rc = net_like(b->n, &b->dy, b->err, &e.out[0]);
    *out = e.out[0];
    return rc < 0 ? rc : net_emit(b->n, &e, b->err);
}

static int negate(const struct backward *b, const struct view *x,
                  struct view *out)
{
    struct net_emit e;
    int rc;

    begin(b, KERN_UNARY, NET_DGRAD, &e);
    e.p.attr.unary.kind = KERN_NEG;
    e.in[0] = *x;
    rc = net_like(b->n, &b->dy, b->err, &e.out[0]);
    *out = e.out[0];
    return rc < 0 ? rc : net_emit(b->n, &e, b->err);
}

/* y = a / c: dy / c for a, -dy y / c for c. */
static int quotient_grad(const struct backward *b, int i, struct view *out)
{
    const struct view divisor = input(b, 1, false);
    struct view g = b->dy, product;
    int rc = 0;

    if (i == 1) {
        rc = compute(b, KERN_MUL, &b->dy, &b->y, &product);
        if (rc == 0)
            rc = negate(b, &product, &g);
    }
    return rc < 0 ? rc : compute(b, KERN_DIV, &g, &divisor, out);
}

/* dy where the operand is the extreme one; for equal operands the first gets
 * dy. */
static int extreme_grad(const struct backward *b, int i, struct view *out)
{
    const struct view x = input(b, 0, false), y = input(b, 1, false);
    const bool max = b->node->attr.binary.kind == KERN_MAX;
    struct view mask;
    int rc = compute(b,
                     i == 0 ? (max ? KERN_GREATER_EQUAL : KERN_LESS_EQUAL)
                            : (max ? KERN_LESS : KERN_GREATER),
                     &x, &y, &mask);

    return rc < 0 ? rc : compute(b, KERN_MUL, &b->dy, &mask, out);
}

/* The gradient of operand i before what was broadcast is summed. */
static int operand_grad(const struct backward *b, int i, struct view *out)
{
    const struct view other = input(b, 1 - i, false);

    switch (b->node->attr.binary.kind) {
    case KERN_SUB:
        if (i == 1)
            return negate(b, &b->dy, out);
        break;
    case KERN_MUL:
        return compute(b, KERN_MUL, &b->dy, &other, out);
    case KERN_DIV:
        return quotient_grad(b, i, out);
    case KERN_MIN:
    case KERN_MAX:
        return extreme_grad(b, i, out);
    default:
        break;
    }
    *out = b->dy;
    return 0;
}

int net_bwd_binary(const struct backward *b)
{
    struct view g;
    int rc = 0;

    for (int i = 0; rc == 0 && i < 2; i++) {
        if (!wants(b, i))
            continue;
        rc = operand_grad(b, i, &g);
        if (rc == 0)
            rc = net_bwd_unbroadcast(
                b, i, &g, g.buffer != b->dy.buffer || i == 1 || !wants(b, 1));
    }
    return rc;
}

/* ---- softmax ------------------------------------------------------- */

/* The sum of x over the axis, which keeps size 1. */
static int sum_axis(const struct backward *b, const struct view *x, int axis,
                    struct view *out)
{
    int64_t dim[KERN_MAX_RANK];
    struct net_emit e;
    int rc;

    for (int i = 0; i < x->t.rank; i++)
        dim[i] = i == axis ? 1 : x->t.dim[i];
    begin(b, KERN_REDUCE, NET_DGRAD, &e);
    e.p.attr.reduce.kind = KERN_REDUCE_SUM;
    e.p.attr.reduce.axes = 1u << axis;
    e.in[0] = *x;
    rc = net_tensor(b->n, NET_TRAIN, x->t.dtype, x->t.rank, dim, KERN_NCHW,
                    b->err, &e.out[0]);
    *out = e.out[0];
    return rc < 0 ? rc : net_emit(b->n, &e, b->err);
}

/* to = kind(a, c); to may be a. */
static int into(const struct backward *b, enum kern_binary_kind kind,
                const struct view *a, const struct view *c,
                const struct view *to)
{
    struct net_emit e;

    begin(b, KERN_BINARY, NET_DGRAD, &e);
    e.p.attr.binary.kind = kind;
    e.in[0] = *a;
    e.in[1] = *c;
    e.out[0] = *to;
    return net_emit(b->n, &e, b->err);
}

/* dx = y (dy - sum(dy y)); of the logarithm, dx = dy - exp(y) sum(dy). */
static int softmax_grad(const struct backward *b, const struct view *y,
                        const struct view *dy, int axis, const struct view *dx)
{
    struct net_emit e;
    struct view sum;
    int rc;

    if (b->node->attr.axis.log) {
        begin(b, KERN_UNARY, NET_DGRAD, &e);
        e.p.attr.unary.kind = KERN_EXP;
        e.in[0] = *y;
        e.out[0] = *dx;
        rc = sum_axis(b, dy, axis, &sum);
        if (rc == 0)
            rc = net_emit(b->n, &e, b->err);
        if (rc == 0)
            rc = into(b, KERN_MUL, dx, &sum, dx);
        return rc < 0 ? rc : into(b, KERN_SUB, dy, dx, dx);
    }
    rc = into(b, KERN_MUL, dy, y, dx);
    if (rc == 0)
        rc = sum_axis(b, dx, axis, &sum);
    if (rc == 0)
        rc = into(b, KERN_SUB, dy, &sum, dx);
    return rc < 0 ? rc : into(b, KERN_MUL, dx, y, dx);
}

int net_bwd_softmax(const struct backward *b)
{
    struct view y, dy, dx, fresh;
    struct net_emit e;
    const struct kern_tensor *t = &e.p.out[0];
    int rc = net_bwd_begin(b, KERN_SOFTMAX, &e);

    if (rc == 0)
        rc = net_problem_view(b->node, t, &b->y, b->err, &y);
    if (rc == 0)
        rc = net_problem_view(b->node, t, &b->dy, b->err, &dy);
    if (rc == 0)
        rc = net_like(b->n, &b->dy, b->err, &fresh);
    if (rc == 0)
        rc = net_problem_view(b->node, t, &fresh, b->err, &dx);
    if (rc == 0)
        rc = softmax_grad(b, &y, &dy, e.p.attr.softmax.axis, &dx);
    return rc < 0 ? rc
                  : net_grad_give(b->n, b->at, source(b, 0), &fresh, b->err);
}
