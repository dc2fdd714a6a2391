/* SPDX-License-Identifier: Apache-2.0 */
/*
 * match-activations: functions that exporters spell out as arithmetic.
 *
 *   clip, relu       max and min with numbers, clips of clips
 *   hard_sigmoid     s * clip(a x + b, lo, hi) + t, whatever the order
 *   silu             x * sigmoid(x)
 *   hard_swish       x * hard_sigmoid(x); x * clip(x + 3, 0, 6) / 6
 *   gelu             x / 2 * (1 + erf(x / sqrt 2)), and with tanh
 *   leaky_relu       prelu with one slope
 *   x * x, 1 / x     powers of 2 and of -1, which are these bit for bit
 */
#include "weights/passes/pass.h"

#include <math.h>

#include "kernels/base/scalar.h"

/* Numbers that become part of the result agree to fp32. */
static bool same(double x, double want)
{
    return fabs(x - want) <= 4e-7;
}

/* ---- scalar arithmetic --------------------------------------------- */

/* Takes off one operation with a number: value = a * x + b with the operand in
 * *x; false where the value is not made like that. */
static bool strip_scalar(const struct pass *p, int value, int *x, double *a,
                         double *b)
{
    const struct graph *g = p->g;
    int node = value < 0 ? -1 : g->value[value].producer;
    enum kern_binary_kind kind;
    int variable, constant;
    bool swapped;
    double k;

    if (node < 0 || !pass_plain(&g->node[node]) || g->node[node].n_in < 1)
        return false;
    *a = 1;
    *b = 0;
    if (pass_unary(p, node, KERN_LINEAR)) {
        *a = (double)g->node[node].attr.unary.a;
        *b = (double)g->node[node].attr.unary.b;
        *x = g->node[node].in[0];
        return true;
    }
    if (!pass_binary_constant(p, node, &variable, &constant, &swapped) ||
        !pass_scalar(p, constant, &k) ||
        !pass_same_shape(&g->value[variable], &g->value[g->node[node].out[0]]))
        return false;
    *x = variable;
    kind = g->node[node].attr.binary.kind;
    return pass_linear(kind, swapped, k, a, b) && (kind != KERN_DIV || k != 0);
}

/* value = a * x + b through up to two such operations, at least none. */
static void strip_scalars(const struct pass *p, int value, int *x, double *a,
                          double *b)
{
    double a1, b1;
    int y;

    *x = value;
    *a = 1;
    *b = 0;
    for (int i = 0; i < 2 && strip_scalar(p, *x, &y, &a1, &b1); i++) {
        *b += *a * b1;
        *a *= a1;
        *x = y;
    }
}

static int become_unary(struct pass *p, int node, int x,
                        enum kern_unary_kind kind, double a, double b)
{
    int rc = pass_become(p, node, GRAPH_UNARY, &x, 1);

    if (rc < 0)
        return rc;
    p->g->node[node].attr.unary.kind = kind;
    p->g->node[node].attr.unary.a = (float)a;
    p->g->node[node].attr.unary.b = (float)b;
    pass_note(p, 0, "%s is %s", p->g->node[node].name, kern_unary_names[kind]);
    return 1;
}

/* ---- clip and relu ------------------------------------------------- */

/* The bounds of a node that clips its input. */
static bool clip_bounds(const struct pass *p, int node, int *x, double *low,
                        double *high)
{
    const struct graph_node *n = &p->g->node[node];
    int constant;
    bool swapped;
    double k;

    if (!pass_plain(n))
        return false;
    *low = -INFINITY;
    *high = INFINITY;
    if (n->op == GRAPH_UNARY) {
        *x = n->in[0];
        if (n->attr.unary.kind == KERN_RELU) {
            *low = 0;
            return true;
        }
        *low = (double)n->attr.unary.a;
        *high = (double)n->attr.unary.b;
        return n->attr.unary.kind == KERN_CLIP && *low <= *high;
    }
    if (n->op != GRAPH_BINARY ||
        (n->attr.binary.kind != KERN_MIN && n->attr.binary.kind != KERN_MAX) ||
        !pass_binary_constant(p, node, x, &constant, &swapped) ||
        !pass_scalar(p, constant, &k) || isnan(k) ||
        !pass_same_shape(&p->g->value[*x], &p->g->value[n->out[0]]))
        return false;
    if (n->attr.binary.kind == KERN_MIN)
        *high = k;
    else
        *low = k;
    return true;
}

static double clamp(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

static int become_clip(struct pass *p, int node, int x, double low, double high)
{
    if (low == 0 && high == INFINITY)
        return become_unary(p, node, x, KERN_RELU, 0, 0);
    return become_unary(p, node, x, KERN_CLIP, low, high);
}

static int match_clip(struct pass *p, int node)
{
    const struct graph *g = p->g;
    double low, high, low1, high1;
    int x, x1, before;
    bool joined = false;

    if (!pass_is_float(&g->value[g->node[node].out[0]]) ||
        !clip_bounds(p, node, &x, &low, &high))
        return 0;
    before = g->value[x].producer;
    if (before >= 0 && pass_reader(p, x) == node &&
        clip_bounds(p, before, &x1, &low1, &high1)) {
        /* clip(clip(x, l1, h1), l, h): both ends through the second one. */
        low1 = clamp(low1, low, high);
        high1 = clamp(high1, low, high);
        low = low1;
        high = high1;
        x = x1;
        joined = true;
    }
    /* A single clip or relu is in its normal form already. */
    if (!joined && (g->node[node].op == GRAPH_UNARY &&
                    (g->node[node].attr.unary.kind == KERN_RELU || low != 0 ||
                     high != INFINITY)))
        return 0;
    return become_clip(p, node, x, low, high);
}

/* ---- hard sigmoid -------------------------------------------------- */

/* value = a1 * clip(a x + b, lo, hi) + b1 with range 0 .. 1: gives the slope
 * and offset of hard_sigmoid.  Both numbers are of the formula
 * clip(slope x + offset, 0, 1). */
static bool hard_gate(const struct pass *p, int value, double scale,
                      double shift, int *x, double *slope, double *offset)
{
    double a, b, low, high;
    int node = value < 0 ? -1 : p->g->value[value].producer;
    int y;

    if (node < 0 || !clip_bounds(p, node, &y, &low, &high) || scale <= 0 ||
        !isfinite(low) || !isfinite(high))
        return false;
    if (!same(scale * low + shift, 0) || !same(scale * high + shift, 1))
        return false;
    strip_scalars(p, y, x, &a, &b);
    *slope = scale * a;
    *offset = scale * b + shift;
    return isfinite(*slope) && isfinite(*offset) && *slope != 0;
}

static int match_hard_sigmoid(struct pass *p, int node)
{
    const struct graph_node *n = &p->g->node[node];
    double a, b, slope, offset;
    int value, x;

    if (n->op != GRAPH_BINARY && n->op != GRAPH_UNARY)
        return 0;
    if (!pass_is_float(&p->g->value[n->out[0]]) || !pass_plain(n))
        return 0;
    strip_scalars(p, n->out[0], &value, &a, &b);
    if (!hard_gate(p, value, a, b, &x, &slope, &offset))
        return 0;
    /* clip(x, 0, 1) itself is best left alone. */
    if (x == value || (slope == 1 && offset == 0) || x == n->out[0])
        return 0;
    if (!pass_same_shape(&p->g->value[x], &p->g->value[n->out[0]]))
        return 0;
    return become_unary(p, node, x, KERN_HARD_SIGMOID, slope, offset);
}

/* ---- silu and hard swish ------------------------------------------- */

static int match_gate(struct pass *p, int node)
{
    const struct graph *g = p->g;
    const struct graph_node *n = &g->node[node];

    if (!pass_binary(p, node, KERN_MUL))
        return 0;
    for (int side = 0; side < 2; side++) {
        int x = n->in[side];
        int gate = pass_producer(p, n->in[!side], GRAPH_UNARY);
        const struct kern_unary *u;

        if (x < 0 || gate < 0 || g->node[gate].in[0] != x ||
            !pass_plain(&g->node[gate]))
            continue;
        u = &g->node[gate].attr.unary;
        if (u->kind == KERN_SIGMOID)
            return become_unary(p, node, x, KERN_SILU, 1, 0);
        if (u->kind == KERN_HARD_SIGMOID &&
            pass_near(&g->value[x], (double)u->a, 1.0 / 6) && u->b == 0.5f)
            return become_unary(p, node, x, KERN_HARD_SWISH, 0, 0);
    }
    return 0;
}

/* x * clip(x + 3, 0, 6), scaled by a sixth afterwards. */
static int match_scaled_gate(struct pass *p, int node)
{
    const struct graph *g = p->g;
    double a, b, slope, offset;
    int product, mul, gated;

    if (!strip_scalar(p, g->node[node].out[0], &product, &a, &b) || b != 0)
        return 0;
    mul = pass_producer(p, product, GRAPH_BINARY);
    if (mul < 0 || !pass_binary(p, mul, KERN_MUL))
        return 0;
    for (int side = 0; side < 2; side++) {
        int x = g->node[mul].in[side];

        if (x >= 0 &&
            hard_gate(p, g->node[mul].in[!side], a, 0, &gated, &slope,
                      &offset) &&
            gated == x && pass_near(&g->value[x], slope, 1.0 / 6) &&
            pass_near(&g->value[x], offset, 0.5) &&
            pass_same_shape(&g->value[x], &g->value[g->node[node].out[0]]))
            return become_unary(p, node, x, KERN_HARD_SWISH, 0, 0);
    }
    return 0;
}

/* ---- gelu ---------------------------------------------------------- */

/* A product of at most two variables and any numbers. */
struct product {
    double number;
    int factor[3];
    int count; /* 4: too many */
};

static void collect(const struct pass *p, int value, int depth,
                    struct product *out)
{
    const struct graph *g = p->g;
    int node = value < 0 ? -1 : g->value[value].producer;
    double a, b;
    int x;

    if (depth > 0 && strip_scalar(p, value, &x, &a, &b) && b == 0) {
        out->number *= a;
        collect(p, x, depth - 1, out);
        return;
    }
    if (depth > 0 && node >= 0 && pass_binary(p, node, KERN_MUL)) {
        collect(p, g->node[node].in[0], depth - 1, out);
        collect(p, g->node[node].in[1], depth - 1, out);
        return;
    }
    if (out->count < 3)
        out->factor[out->count++] = value;
    else
        out->count = 4;
}

/* value = 1 + f(y); gives y. */
static bool one_plus(const struct pass *p, int value, enum kern_unary_kind f,
                     int *y)
{
    double a, b;
    int inner, node;

    if (!strip_scalar(p, value, &inner, &a, &b) || a != 1 || b != 1)
        return false;
    node = pass_producer(p, inner, GRAPH_UNARY);
    if (!pass_unary(p, node, f))
        return false;
    *y = p->g->node[node].in[0];
    return true;
}

/* value = x^3 */
static bool is_cube(const struct pass *p, int value, int x)
{
    struct product cube = {1, {-1, -1, -1}, 0};
    int node = value < 0 ? -1 : p->g->value[value].producer;

    if (node >= 0 && pass_binary(p, node, KERN_POW))
        return p->g->node[node].in[0] == x &&
               pass_is_scalar(p, p->g->node[node].in[1], 3);
    collect(p, value, 3, &cube);
    return cube.count == 3 && same(cube.number, 1) && cube.factor[0] == x &&
           cube.factor[1] == x && cube.factor[2] == x;
}

/* value = 0.044715 x^3: as a number times a power, or as products. */
static bool is_cubic_term(const struct pass *p, int value, int x)
{
    struct product term = {1, {-1, -1, -1}, 0};

    collect(p, value, 4, &term);
    if (!pass_near(&p->g->value[x], term.number, 0.044715))
        return false;
    if (term.count == 3)
        return term.factor[0] == x && term.factor[1] == x &&
               term.factor[2] == x;
    return term.count == 1 && is_cube(p, term.factor[0], x);
}

/* value = sqrt(2 / pi) * (x + 0.044715 x^3) */
static bool is_tanh_argument(const struct pass *p, int value, int x)
{
    const struct graph *g = p->g;
    struct product outer = {1, {-1, -1, -1}, 0};
    int add;

    collect(p, value, 3, &outer);
    if (outer.count != 1 ||
        !pass_near(&g->value[x], outer.number, 0.7978845608))
        return false;
    add = pass_producer(p, outer.factor[0], GRAPH_BINARY);
    if (add < 0 || !pass_binary(p, add, KERN_ADD))
        return false;
    for (int side = 0; side < 2; side++)
        if (g->node[add].in[side] == x &&
            is_cubic_term(p, g->node[add].in[!side], x))
            return true;
    return false;
}

static bool is_erf_argument(const struct pass *p, int value, int x)
{
    struct product inner = {1, {-1, -1, -1}, 0};

    collect(p, value, 2, &inner);
    return inner.count == 1 && inner.factor[0] == x &&
           pass_near(&p->g->value[x], inner.number, 0.7071067812);
}

static int match_gelu(struct pass *p, int node)
{
    const struct graph_node *n = &p->g->node[node];
    struct product whole = {1, {-1, -1, -1}, 0};

    if (n->op != GRAPH_BINARY && n->op != GRAPH_UNARY)
        return 0;
    if (!pass_is_float(&p->g->value[n->out[0]]))
        return 0;
    collect(p, n->out[0], 4, &whole);
    if (whole.count != 2 || !same(whole.number, 0.5))
        return 0;
    for (int side = 0; side < 2; side++) {
        int x = whole.factor[side];
        int y;

        if (x < 0 || !pass_same_shape(&p->g->value[x], &p->g->value[n->out[0]]))
            continue;
        if (one_plus(p, whole.factor[!side], KERN_ERF, &y) &&
            is_erf_argument(p, y, x))
            return become_unary(p, node, x, KERN_GELU, 0, 0);
        if (one_plus(p, whole.factor[!side], KERN_TANH, &y) &&
            is_tanh_argument(p, y, x))
            return become_unary(p, node, x, KERN_GELU_TANH, 0, 0);
    }
    return 0;
}

/* ---- prelu --------------------------------------------------------- */

static int match_prelu(struct pass *p, int node)
{
    const struct graph_node *n = &p->g->node[node];
    const struct constant *slope;
    double first;

    if (n->op != GRAPH_PRELU || !pass_plain(n))
        return 0;
    slope = pass_constant(p, n, 1);
    if (!slope || constant_count(slope) < 1 ||
        !pass_same_shape(&p->g->value[n->in[0]], &p->g->value[n->out[0]]))
        return 0;
    first = scalar_load(slope->dtype, slope->data, 0);
    for (int64_t i = 1; i < constant_count(slope); i++)
        if (scalar_load(slope->dtype, slope->data, i) != first)
            return 0;
    return become_unary(p, node, n->in[0], KERN_LEAKY_RELU, first, 0);
}

/* ---- powers --------------------------------------------------------- */

static int match_power(struct pass *p, int node)
{
    const struct graph_node *n = &p->g->node[node];
    int variable, constant, rc;
    bool swapped;
    double power;

    if (!pass_binary(p, node, KERN_POW) ||
        !pass_binary_constant(p, node, &variable, &constant, &swapped) ||
        swapped || !pass_scalar(p, constant, &power) ||
        !scalar_is_float(p->g->value[variable].dtype) ||
        !pass_same_shape(&p->g->value[variable], &p->g->value[n->out[0]]))
        return 0;
    if (power == -1)
        return become_unary(p, node, variable, KERN_RECIPROCAL, 0, 0);
    if (power != 2)
        return 0;
    rc = pass_become(p, node, GRAPH_BINARY, (int[]){variable, variable}, 2);
    if (rc < 0)
        return rc;
    p->g->node[node].attr.binary.kind = KERN_MUL;
    pass_note(p, 0, "%s is a product", p->g->node[node].name);
    return 1;
}

int pass_match_activations(struct pass *p, int node)
{
    static int (*const match[])(struct pass *, int) = {
        match_gelu, match_gate,  match_scaled_gate, match_hard_sigmoid,
        match_clip, match_prelu, match_power,
    };
    int rc = 0;

    for (size_t i = 0; i < sizeof(match) / sizeof(match[0]) && rc == 0; i++)
        rc = match[i](p, node);
    return rc;
}
