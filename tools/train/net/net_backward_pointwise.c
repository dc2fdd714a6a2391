/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of arithmetic on two tensors, which may be broadcast to each other,
 * and of softmax. */
#include "tools/train/net/net_rules.h"

/* ---- broadcasting -------------------------------------------------- */

uint32_t net_bwd_axes(const struct view *g, const int64_t *dim)
{
    uint32_t axes = 0;

    for (int i = 0; i < g->t.rank; i++)
        if (dim[i] != g->t.dim[i])
            axes |= 1u << i;
    return axes;
}

void net_bwd_give_sum(const struct lowering *b, int i, const struct view *g,
                      const int64_t *dim, enum kern_layout layout,
                      const char *otherwise)
{
    const struct view to = input(b, i, false);
    struct view sum =
        net_tensor(b->n, NET_TRAIN, g->t.dtype, g->t.rank, dim, layout);

    net_sum(b->n, b->where, g, net_bwd_axes(g, dim), &sum, false);
    sum = net_reshape(b->n, b->node, &sum, to.t.rank, to.t.dim, otherwise);
    net_bwd_give(b, i, &sum);
}

void net_bwd_unbroadcast(const struct lowering *b, int i, const struct view *g,
                         bool give)
{
    const struct view to = input(b, i, false);
    const int lead = g->t.rank - to.t.rank;
    int64_t dim[KERN_MAX_RANK];

    for (int d = 0; d < g->t.rank; d++)
        dim[d] = d < lead ? 1 : to.t.dim[d - lead];
    if (net_bwd_axes(g, dim) != 0 || lead != 0)
        net_bwd_give_sum(b, i, g, dim, view_layout(&g->t),
                         "its broadcast cannot be undone");
    else
        (give ? net_grad_give : net_grad_add)(b->n, b->where.node, source(b, i),
                                              g);
}

/* ---- arithmetic ---------------------------------------------------- */

/* A fresh tensor of dy's shape that holds kind(x, y). */
static struct view binary(const struct lowering *b, enum kern_binary_kind kind,
                          const struct view *x, const struct view *y)
{
    const struct view out = net_like(b->n, &b->dy);

    net_binary(b->n, b->where, kind, x, y, &out);
    return out;
}

static struct view negate(const struct lowering *b, const struct view *x)
{
    const struct kern_unary f = {.kind = KERN_NEG};
    const struct view out = net_like(b->n, &b->dy);

    net_unary(b->n, b->where, f, x, &out);
    return out;
}

/* The gradient of operand i before what was broadcast is summed. */
typedef struct view operand_rule(const struct lowering *b, int i);

static struct view add_grad(const struct lowering *b, int i)
{
    (void)i;
    return b->dy;
}

static struct view sub_grad(const struct lowering *b, int i)
{
    return i == 0 ? b->dy : negate(b, &b->dy);
}

static struct view mul_grad(const struct lowering *b, int i)
{
    const struct view other = input(b, 1 - i, false);

    return binary(b, KERN_MUL, &b->dy, &other);
}

/* y = a / c: dy / c for a, -dy y / c for c. */
static struct view div_grad(const struct lowering *b, int i)
{
    const struct view divisor = input(b, 1, false);
    struct view g = b->dy;

    if (i == 1) {
        g = binary(b, KERN_MUL, &b->dy, &b->y);
        g = negate(b, &g);
    }
    return binary(b, KERN_DIV, &g, &divisor);
}

/* dy where the operand is the extreme one; for equal operands the first gets
 * dy. */
static struct view extreme_grad(const struct lowering *b, int i)
{
    const struct view x = input(b, 0, false), y = input(b, 1, false);
    const bool max = b->node->attr.binary.kind == KERN_MAX;
    const struct view mask =
        binary(b,
               i == 0 ? (max ? KERN_GREATER_EQUAL : KERN_LESS_EQUAL)
                      : (max ? KERN_LESS : KERN_GREATER),
               &x, &y);

    return binary(b, KERN_MUL, &b->dy, &mask);
}

/* NULL: the kind has no gradient. */
static operand_rule *operand_rule_of(enum kern_binary_kind kind)
{
    static const struct {
        enum kern_binary_kind kind;
        operand_rule *rule;
    } rules[] = {{KERN_ADD, add_grad},     {KERN_SUB, sub_grad},
                 {KERN_MUL, mul_grad},     {KERN_DIV, div_grad},
                 {KERN_MIN, extreme_grad}, {KERN_MAX, extreme_grad}};

    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (rules[i].kind == kind)
            return rules[i].rule;
    return NULL;
}

bool net_bwd_has_binary(enum kern_binary_kind kind)
{
    return operand_rule_of(kind) != NULL;
}

void net_bwd_binary(const struct lowering *b)
{
    operand_rule *rule = operand_rule_of(b->node->attr.binary.kind);

    for (int i = 0; i < 2; i++)
        if (wants(b, i)) {
            const struct view g = rule(b, i);

            net_bwd_unbroadcast(
                b, i, &g, g.buffer != b->dy.buffer || i == 1 || !wants(b, 1));
        }
}

/* ---- softmax ------------------------------------------------------- */

/* The sum of x over the axis, which keeps size 1. */
static struct view sum_axis(const struct lowering *b, const struct view *x,
                            int axis)
{
    int64_t dim[KERN_MAX_RANK];
    struct view out;

    for (int i = 0; i < x->t.rank; i++)
        dim[i] = i == axis ? 1 : x->t.dim[i];
    out = net_tensor(b->n, NET_TRAIN, x->t.dtype, x->t.rank, dim, KERN_NCHW);
    net_sum(b->n, b->where, x, 1u << axis, &out, false);
    return out;
}

/* dx = y (dy - sum(dy y)); of the logarithm, dx = dy - exp(y) sum(dy). */
static void softmax_grad(const struct lowering *b, const struct view *y,
                         const struct view *dy, int axis, const struct view *dx)
{
    const bool log = b->node->attr.axis.log;
    struct view sum;

    if (!log)
        net_binary(b->n, b->where, KERN_MUL, dy, y, dx);
    sum = sum_axis(b, log ? dy : dx, axis);
    if (log) {
        net_unary(b->n, b->where, (struct kern_unary){.kind = KERN_EXP}, y, dx);
        net_binary(b->n, b->where, KERN_MUL, dx, &sum, dx);
        net_binary(b->n, b->where, KERN_SUB, dy, dx, dx);
    } else {
        net_binary(b->n, b->where, KERN_SUB, dy, &sum, dx);
        net_binary(b->n, b->where, KERN_MUL, dx, y, dx);
    }
}

void net_bwd_softmax(const struct lowering *b)
{
    const struct net_launch e = net_bwd_begin(b, KERN_SOFTMAX);
    const struct kern_tensor *t = &e.p.out[0];
    const struct view y = net_problem_view(b->n, b->node, t, &b->y);
    const struct view dy = net_problem_view(b->n, b->node, t, &b->dy);
    const struct view fresh = net_like(b->n, &b->dy);
    const struct view dx = net_problem_view(b->n, b->node, t, &fresh);

    softmax_grad(b, &y, &dy, e.p.attr.softmax.axis, &dx);
    net_bwd_give(b, 0, &fresh);
}
