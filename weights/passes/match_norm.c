/* SPDX-License-Identifier: Apache-2.0 */
/*
 * match-layer-norm: layer normalisation spelled out.
 *
 *   PyTorch      d = x - mean(x);  d / sqrt(mean(d^2) + eps) [* g] [+ b]
 *   TensorFlow   r = 1 / sqrt(mean((x - m)^2) + eps) [* g], m = mean(x);
 *                x * r + (b - m * r)
 *
 * A layer_norm without scale or shift takes up the multiplication and the
 * addition that follow it.
 */
#include "weights/passes/pass.h"

#include <string.h>

/* value = mean(x) over the dimensions axis .. rank-1, kept; gives x. */
static bool mean_of(const struct pass *p, int value, int *x, int *axis)
{
    int node = pass_producer(p, value, GRAPH_REDUCE);
    const struct graph_reduce *r;
    unsigned seen = 0;
    int rank, first;

    if (node < 0 || !pass_plain(&p->g->node[node]))
        return false;
    r = &p->g->node[node].attr.reduce;
    *x = p->g->node[node].in[0];
    rank = p->g->value[*x].rank;
    if (r->kind != KERN_REDUCE_MEAN || !r->keep_dims || r->n_axes < 1 ||
        rank < 1)
        return false;
    for (int i = 0; i < r->n_axes; i++) {
        int a = r->axis[i] < 0 ? r->axis[i] + rank : r->axis[i];

        if (a < 0 || a >= rank)
            return false;
        seen |= 1u << a;
    }
    first = rank - r->n_axes;
    *axis = first;
    return first >= 0 && seen == ((1u << rank) - 1) - ((1u << first) - 1);
}

static int binary_of(const struct pass *p, int value, enum kern_binary_kind k)
{
    int node = pass_producer(p, value, GRAPH_BINARY);

    return node >= 0 && pass_binary(p, node, k) ? node : -1;
}

/* value = f(y) */
static bool function_of(const struct pass *p, int value,
                        enum kern_unary_kind kind, int *y)
{
    int node = pass_producer(p, value, GRAPH_UNARY);

    if (!pass_unary(p, node, kind))
        return false;
    *y = p->g->node[node].in[0];
    return true;
}

/* value = y^2, written as a power or a product. */
static bool square_of(const struct pass *p, int value, int *y)
{
    int node = binary_of(p, value, KERN_POW);

    if (node >= 0) {
        *y = p->g->node[node].in[0];
        return pass_is_scalar(p, p->g->node[node].in[1], 2);
    }
    node = binary_of(p, value, KERN_MUL);
    if (node < 0 || p->g->node[node].in[0] != p->g->node[node].in[1])
        return false;
    *y = p->g->node[node].in[0];
    return true;
}

/* value = sqrt(var + epsilon); gives var. */
static bool deviation_of(const struct pass *p, int value, int *var,
                         double *epsilon)
{
    int sum, add, constant;
    bool swapped;

    if (!function_of(p, value, KERN_SQRT, &sum))
        return false;
    add = binary_of(p, sum, KERN_ADD);
    return add >= 0 && pass_binary_constant(p, add, var, &constant, &swapped) &&
           pass_scalar(p, constant, epsilon) && *epsilon >= 0;
}

/* d = x - mean(x) */
static bool centred(const struct pass *p, int d, int *x, int *mean, int *axis)
{
    int sub = binary_of(p, d, KERN_SUB);
    int of;

    if (sub < 0)
        return false;
    *x = p->g->node[sub].in[0];
    *mean = p->g->node[sub].in[1];
    return mean_of(p, *mean, &of, axis) && of == *x;
}

/* var = mean of (x - mean(x))^2 over the same dimensions. */
static bool variance(const struct pass *p, int var, int *d, int *x, int *mean,
                     int *axis)
{
    int squared, other_axis;

    return mean_of(p, var, &squared, axis) && square_of(p, squared, d) &&
           centred(p, *d, x, mean, &other_axis) && other_axis == *axis;
}

static bool keeps_shape(const struct pass *p, int node, int x)
{
    return pass_same_shape(&p->g->value[x],
                           &p->g->value[p->g->node[node].out[0]]);
}

static int become_layer_norm(struct pass *p, int node, int x, int axis,
                             double epsilon)
{
    int rc = pass_become(p, node, GRAPH_LAYER_NORM, &x, 1);

    if (rc < 0)
        return rc;
    p->g->node[node].attr.norm.axis = axis;
    p->g->node[node].attr.norm.epsilon = (float)epsilon;
    p->g->node[node].attr.norm.rms = false;
    pass_note(p, 0, "%s is layer normalisation", p->g->node[node].name);
    return 1;
}

static int match_division(struct pass *p, int node)
{
    const struct graph_node *n = &p->g->node[node];
    double epsilon;
    int var, d, x, mean, axis;

    if (!pass_binary(p, node, KERN_DIV) || n->in[1] < 0 ||
        !pass_is_float(&p->g->value[n->out[0]]) ||
        !deviation_of(p, n->in[1], &var, &epsilon) ||
        !variance(p, var, &d, &x, &mean, &axis) || d != n->in[0] ||
        !keeps_shape(p, node, x))
        return 0;
    return become_layer_norm(p, node, x, axis, epsilon);
}

/* ---- TensorFlow ---------------------------------------------------- */

/* value = [gamma *] 1 / sqrt(var + epsilon) */
static bool rate(const struct pass *p, int value, int *gamma, int *var,
                 double *epsilon)
{
    int mul = binary_of(p, value, KERN_MUL);
    int inverse = value, variable, deviation;
    bool swapped;

    *gamma = -1;
    if (mul >= 0) {
        if (!pass_binary_constant(p, mul, &variable, gamma, &swapped))
            return false;
        inverse = variable;
    }
    return function_of(p, inverse, KERN_RECIPROCAL, &deviation) &&
           deviation_of(p, deviation, var, epsilon);
}

/* value = beta - mean * r; gives beta. */
static bool offset(const struct pass *p, int value, int mean, int r, int *beta)
{
    int sub = binary_of(p, value, KERN_SUB);
    int mul;

    if (sub < 0)
        return false;
    *beta = p->g->node[sub].in[0];
    mul = binary_of(p, p->g->node[sub].in[1], KERN_MUL);
    if (mul < 0 || !pass_value_constant(p, *beta))
        return false;
    return (p->g->node[mul].in[0] == mean && p->g->node[mul].in[1] == r) ||
           (p->g->node[mul].in[0] == r && p->g->node[mul].in[1] == mean);
}

/* A constant of exactly the shape of the normalised dimensions. */
static bool covers(const struct pass *p, int constant, int x, int axis)
{
    const struct constant *c = pass_value_constant(p, constant);
    const struct graph_value *v = &p->g->value[x];
    int extra;

    if (!c)
        return false;
    extra = c->rank - (v->rank - axis);
    if (extra < 0)
        return false;
    for (int i = 0; i < c->rank; i++)
        if (c->dim[i] != (i < extra ? 1 : v->dim[axis + i - extra]))
            return false;
    return true;
}

/* The constant in the shape that layer_norm wants.  A value or an error. */
static int normalised_operand(struct pass *p, int constant, int x, int axis)
{
    struct constant *c = pass_value_constant(p, constant);
    const struct graph_value *v = &p->g->value[x];
    struct constant *to;

    if (c->rank == v->rank - axis)
        return constant;
    to = constant_new(c->dtype, v->rank - axis, v->dim + axis);
    if (!to)
        return pass_no_memory(p);
    memcpy(to->data, c->data, c->bytes);
    return pass_add_constant(p, p->g->value[constant].name, ".flat", to);
}

static int set_operand(struct pass *p, int node, int i, int constant, int x,
                       int axis)
{
    int value = normalised_operand(p, constant, x, axis);

    return value < 0 ? value : pass_set_input(p, node, i, value);
}

static int match_rates(struct pass *p, int node)
{
    const struct graph *g = p->g;
    const struct graph_node *n = &g->node[node];

    if (!pass_binary(p, node, KERN_ADD) || !pass_is_float(&g->value[n->out[0]]))
        return 0;
    for (int side = 0; side < 2; side++) {
        int mul = binary_of(p, n->in[side], KERN_MUL);

        for (int r_side = 0; mul >= 0 && r_side < 2; r_side++) {
            int r = g->node[mul].in[r_side];
            int gamma, beta, var, d, x, mean, axis, rc;
            double epsilon;

            if (!rate(p, r, &gamma, &var, &epsilon) ||
                !variance(p, var, &d, &x, &mean, &axis) ||
                x != g->node[mul].in[!r_side] || !keeps_shape(p, node, x) ||
                !offset(p, n->in[!side], mean, r, &beta) ||
                (gamma >= 0 && !covers(p, gamma, x, axis)) ||
                !covers(p, beta, x, axis))
                continue;
            rc = become_layer_norm(p, node, x, axis, epsilon);
            if (rc > 0 && gamma >= 0)
                rc = set_operand(p, node, 1, gamma, x, axis);
            if (rc >= 0)
                rc = set_operand(p, node, 2, beta, x, axis);
            return rc < 0 ? rc : 1;
        }
    }
    return 0;
}

/* ---- scale and shift ----------------------------------------------- */

int pass_norm_before(const struct pass *p, int node, enum graph_op op,
                     int *constant, int *which)
{
    const struct graph *g = p->g;
    const struct graph_node *n = &g->node[node];
    int variable, norm;
    bool swapped;

    if (n->op != GRAPH_BINARY || !pass_plain(n) ||
        (n->attr.binary.kind != KERN_MUL && n->attr.binary.kind != KERN_ADD) ||
        !pass_binary_constant(p, node, &variable, constant, &swapped))
        return -1;
    norm = pass_producer(p, variable, op);
    *which = n->attr.binary.kind == KERN_MUL ? 1 : 2;
    return norm < 0 || pass_reader(p, variable) != node ||
                   !pass_plain(&g->node[norm]) ||
                   pass_input(&g->node[norm], 2) >= 0 ||
                   (*which == 1 && pass_input(&g->node[norm], 1) >= 0)
               ? -1
               : norm;
}

/* layer_norm * gamma, then + beta. */
static int take_operand(struct pass *p, int node)
{
    struct graph *g = p->g;
    int constant, which, variable, axis, rc;
    const int norm =
        pass_norm_before(p, node, GRAPH_LAYER_NORM, &constant, &which);

    if (norm < 0)
        return 0;
    variable = g->node[norm].out[0];
    axis = g->node[norm].attr.norm.axis;
    if (axis < 0)
        axis += g->value[variable].rank;
    if (axis < 0 || !covers(p, constant, variable, axis))
        return 0;
    rc = set_operand(p, norm, which, constant, variable, axis);
    if (rc < 0)
        return rc;
    pass_note(p, 0, "%s into %s", g->node[node].name, g->node[norm].name);
    pass_absorb(p, norm, node);
    return 1;
}

int pass_match_layer_norm(struct pass *p, int node)
{
    int rc = match_division(p, node);

    if (rc == 0)
        rc = match_rates(p, node);
    if (rc == 0)
        rc = take_operand(p, node);
    return rc;
}
