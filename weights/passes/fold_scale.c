/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fold-scale: multiplications and additions with constants, one number a
 * channel or one for all, go into the layer before or after them; what
 * remains of a chain of them becomes one scale_shift (or one linear function
 * where all are single numbers).
 */
#include "weights/passes/pass.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/base/scalar.h"

/* y = a[c] x + b[c] along dimension `axis` of x. */
struct affine {
    int x; /* value */
    int axis;
    int64_t n;
    double *a, *b; /* n each, one allocation at a */
    bool scalar;   /* all channels alike */
};

static void release(struct affine *f)
{
    free(f->a);
    f->a = f->b = NULL;
}

static bool all_finite(const struct affine *f)
{
    return pass_fits(INFER_F64, f->n, f->a) && pass_fits(INFER_F64, f->n, f->b);
}

/* True if a chain may become one function of this type: a product of scales
 * outside the type's normal range would lose digits that the single steps
 * keep. */
static bool fits_chain(const struct affine *f, enum infer_dtype dtype)
{
    double most = dtype == INFER_F16 ? 1e4 : 1e30;

    if (!pass_fits(dtype, f->n, f->a) || !pass_fits(dtype, f->n, f->b))
        return false;
    for (int64_t i = 0; i < f->n; i++)
        if (f->a[i] != 0 && (fabs(f->a[i]) > most || fabs(f->a[i]) < 1 / most))
            return false;
    return true;
}

/* Fills a and b from a constant k: the four kinds of arithmetic. */
static bool from_binary(struct affine *f, enum kern_binary_kind kind,
                        bool swapped)
{
    /* a holds the constant on entry. */
    for (int64_t i = 0; i < f->n; i++)
        if (!pass_linear(kind, swapped, f->a[i], &f->a[i], &f->b[i]))
            return false;
    return true;
}

static bool read_binary(const struct pass *p, int node, struct affine *f)
{
    const struct graph_value *v = p->g->value;
    const struct graph_node *n = &p->g->node[node];
    const struct constant *c;
    int variable, constant;
    bool swapped;

    if (!pass_binary_constant(p, node, &variable, &constant, &swapped) ||
        pass_residual(n) >= 0)
        return false;
    c = pass_value_constant(p, constant);
    f->x = variable;
    f->scalar = constant_count(c) == 1;
    return pass_same_shape(&v[variable], &v[n->out[0]]) &&
           pass_channel_operand(&v[variable], f->axis, c, f->n, f->a) &&
           from_binary(f, n->attr.binary.kind, swapped);
}

static bool read_unary(const struct graph_node *n, struct affine *f)
{
    const struct kern_unary *u = &n->attr.unary;

    if (u->kind != KERN_LINEAR && u->kind != KERN_NEG)
        return false;
    f->x = n->in[0];
    f->scalar = true;
    for (int64_t i = 0; i < f->n; i++) {
        f->a[i] = u->kind == KERN_NEG ? -1 : (double)u->a;
        f->b[i] = u->kind == KERN_NEG ? 0 : (double)u->b;
    }
    return true;
}

static bool read_scale_shift(const struct pass *p, const struct graph_node *n,
                             struct affine *f)
{
    const struct constant *scale = pass_constant(p, n, 1);
    const struct constant *shift = pass_constant(p, n, 2);

    if ((!scale && pass_input(n, 1) >= 0) ||
        (!shift && pass_input(n, 2) >= 0) || pass_residual(n) >= 0)
        return false;
    /* Its channels are those of dimension 1. */
    if (f->axis != 1 || (scale && constant_count(scale) != f->n) ||
        (shift && constant_count(shift) != f->n))
        return false;
    f->x = n->in[0];
    f->scalar = false;
    for (int64_t i = 0; i < f->n; i++) {
        f->a[i] = scale ? scalar_load(scale->dtype, scale->data, i) : 1;
        f->b[i] = shift ? scalar_load(shift->dtype, shift->data, i) : 0;
    }
    return true;
}

/* Reads a node as an affine function along f->axis of f->n channels, without
 * its activation.  Returns 1 (release() it), 0 or an error. */
static int read_affine(struct pass *p, int node, struct affine *f)
{
    const struct graph_node *n = &p->g->node[node];
    bool ok;

    if (n->op != GRAPH_BINARY && n->op != GRAPH_UNARY &&
        n->op != GRAPH_SCALE_SHIFT)
        return 0;
    if (!pass_is_float(&p->g->value[n->out[0]]))
        return 0;
    f->a = malloc((size_t)f->n * 2 * sizeof(*f->a));
    if (!f->a)
        return pass_no_memory(p);
    f->b = f->a + f->n;
    if (n->op == GRAPH_BINARY)
        ok = read_binary(p, node, f);
    else if (n->op == GRAPH_UNARY)
        ok = read_unary(n, f);
    else
        ok = read_scale_shift(p, n, f);
    if (!ok || !all_finite(f)) {
        release(f);
        return 0;
    }
    return 1;
}

/* The first input that is not a constant. */
static int variable_input(const struct pass *p, const struct graph_node *n)
{
    if (n->n_in < 1)
        return -1;
    if (n->op == GRAPH_BINARY && n->n_in == 2 &&
        pass_value_constant(p, n->in[0]))
        return n->in[1];
    return n->in[0];
}

/* ---- into the layer before ----------------------------------------- */

/* The node that makes x, if `reader` is the only reader of x; also through a
 * transpose.  *through is that transpose, or -1. */
static int layer_before(const struct pass *p, int x, int reader, int *through)
{
    const struct graph *g = p->g;
    int before = x < 0 ? -1 : g->value[x].producer;

    *through = -1;
    if (before < 0 || pass_reader(p, x) != reader)
        return -1;
    if (g->node[before].op != GRAPH_TRANSPOSE)
        return before;
    *through = before;
    x = g->node[before].in[0];
    return pass_reader(p, x) == before ? g->value[x].producer : -1;
}

/* The index of dimension `axis` after a transpose; -1 where its order is not
 * given. */
static int axis_after(const struct pass *p, int transpose, int axis)
{
    const struct graph_dims *order = &p->g->node[transpose].attr.dims;

    for (int i = 0; i < order->n; i++)
        if (order->dim[i] == axis)
            return i;
    return -1;
}

static int fold_before(struct pass *p, int node)
{
    struct graph *g = p->g;
    int x = variable_input(p, &g->node[node]);
    int through;
    int layer = layer_before(p, x, node, &through);
    struct affine f;
    int rc;

    if (layer < 0)
        return 0;
    f.n = pass_output_channels(p, layer, &f.axis);
    if (f.n < 1)
        return 0;
    if (through >= 0)
        f.axis = axis_after(p, through, f.axis);
    if (f.axis < 0)
        return 0;
    rc = read_affine(p, node, &f);
    if (rc <= 0)
        return rc;
    rc = f.x == x ? pass_scale_outputs(p, layer, f.n, f.a, f.b) : 0;
    release(&f);
    if (rc <= 0)
        return rc;
    pass_note(p, 0, "%s into %s", g->node[node].name, g->node[layer].name);
    g->node[layer].epilogue = g->node[node].epilogue;
    pass_absorb(p, through >= 0 ? through : layer, node);
    return 1;
}

/* ---- into the layer after ------------------------------------------ */

static int fold_after(struct pass *p, int node)
{
    struct graph *g = p->g;
    const struct graph_node *n = &g->node[node];
    int x = variable_input(p, n);
    int layer = n->n_out == 1 ? pass_reader(p, n->out[0]) : -1;
    const struct graph_value *v;
    struct affine f;
    int rc;

    if (layer < 0 || x < 0 || !pass_plain(n) ||
        g->node[layer].in[0] != n->out[0] ||
        (g->node[layer].op != GRAPH_CONV && g->node[layer].op != GRAPH_DENSE &&
         g->node[layer].op != GRAPH_CONV_TRANSPOSE))
        return 0;
    v = &g->value[x];
    f.axis = g->node[layer].op == GRAPH_DENSE ? v->rank - 1 : 1;
    if (v->rank < 2 || v->dim[f.axis] < 1)
        return 0;
    f.n = v->dim[f.axis];
    rc = read_affine(p, node, &f);
    if (rc <= 0)
        return rc;
    rc = f.x == x ? pass_scale_inputs(p, layer, f.n, f.a, f.b) : 0;
    release(&f);
    if (rc <= 0)
        return rc;
    rc = pass_set_input(p, layer, 0, x);
    if (rc < 0)
        return rc;
    pass_note(p, 0, "%s into %s after it", g->node[node].name,
              g->node[layer].name);
    pass_kill(p, node);
    return 1;
}

/* ---- chains -------------------------------------------------------- */

static int become_linear(struct pass *p, int node, const struct affine *f)
{
    struct kern_epilogue epilogue = p->g->node[node].epilogue;
    int rc;

    /* A linear function has no place for an activation. */
    if (epilogue.act.kind != KERN_IDENTITY)
        return 0;
    rc = pass_become(p, node, GRAPH_UNARY, &f->x, 1);
    if (rc < 0)
        return rc;
    p->g->node[node].attr.unary.kind = KERN_LINEAR;
    p->g->node[node].attr.unary.a = (float)f->a[0];
    p->g->node[node].attr.unary.b = (float)f->b[0];
    return 1;
}

static int become_scale_shift(struct pass *p, int node, const struct affine *f)
{
    struct graph *g = p->g;
    struct kern_epilogue epilogue = g->node[node].epilogue;
    enum infer_dtype dtype = g->value[f->x].dtype;
    int in[3] = {f->x, -1, -1};
    int rc;

    in[1] = pass_add_vector(p, g->node[node].name, ".scale", dtype, f->n, f->a);
    if (in[1] < 0)
        return in[1];
    in[2] = pass_add_vector(p, g->node[node].name, ".shift", dtype, f->n, f->b);
    if (in[2] < 0)
        return in[2];
    rc = pass_become(p, node, GRAPH_SCALE_SHIFT, in, 3);
    if (rc < 0)
        return rc;
    g->node[node].epilogue = epilogue;
    return 1;
}

/* second(first(x)) as one function. */
static void compose(struct affine *first, const struct affine *second)
{
    for (int64_t i = 0; i < first->n; i++) {
        first->a[i] *= second->a[i];
        first->b[i] = second->a[i] * first->b[i] + second->b[i];
    }
    first->scalar = first->scalar && second->scalar;
}

static int join(struct pass *p, int before, int node, struct affine *first,
                const struct affine *second)
{
    struct graph *g = p->g;
    int rc;

    compose(first, second);
    if (!fits_chain(first, g->value[first->x].dtype))
        return 0;
    pass_note(p, 0, "%s and %s", g->node[before].name, g->node[node].name);
    if (first->scalar)
        rc = become_linear(p, node, first);
    else
        rc = become_scale_shift(p, node, first);
    return rc;
}

static int merge_chain(struct pass *p, int node)
{
    struct graph *g = p->g;
    const struct graph_node *n = &g->node[node];
    int x = variable_input(p, n);
    int before = x < 0 ? -1 : g->value[x].producer;
    struct affine first, second;
    int rc;

    if (before < 0 || pass_reader(p, x) != node ||
        !pass_plain(&g->node[before]) || g->value[x].rank < 2 ||
        g->value[x].dim[1] < 1 || pass_residual(n) >= 0)
        return 0;
    first.axis = second.axis = 1;
    first.n = second.n = g->value[x].dim[1];
    rc = read_affine(p, node, &second);
    if (rc <= 0)
        return rc;
    rc = second.x == x && !pass_reaches_jump(p, n->out[0])
             ? read_affine(p, before, &first)
             : 0;
    if (rc > 0) {
        rc = join(p, before, node, &first, &second);
        release(&first);
    }
    release(&second);
    return rc;
}

int pass_fold_scale(struct pass *p, int node)
{
    int rc = fold_before(p, node);

    if (rc == 0)
        rc = fold_after(p, node);
    if (rc == 0)
        rc = merge_chain(p, node);
    return rc;
}
