/* SPDX-License-Identifier: Apache-2.0 */
/* The index of readers and the editing of nodes; see pass.h. */
#include "weights/passes/pass.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/scalar.h"

/* ---- the index ----------------------------------------------------- */

static int grow(struct pass *p, int need)
{
    int capacity = p->capacity;
    int *readers;
    int64_t *sum;
    unsigned char *is_output;

    if (need <= capacity)
        return 0;
    capacity = need + need / 4 + 64;
    readers = realloc(p->readers, (size_t)capacity * sizeof(*readers));
    if (readers)
        p->readers = readers;
    sum = realloc(p->reader_sum, (size_t)capacity * sizeof(*sum));
    if (sum)
        p->reader_sum = sum;
    is_output = realloc(p->is_output, (size_t)capacity);
    if (is_output)
        p->is_output = is_output;
    if (!readers || !sum || !is_output)
        return pass_no_memory(p);
    for (int v = p->capacity; v < capacity; v++) {
        p->readers[v] = 0;
        p->reader_sum[v] = 0;
        p->is_output[v] = 0;
    }
    p->capacity = capacity;
    return 0;
}

static void count(struct pass *p, int value, int node, int by)
{
    if (value < 0)
        return;
    p->readers[value] += by;
    p->reader_sum[value] += (int64_t)by * node;
}

static void close_pass(struct pass *p)
{
    free(p->readers);
    free(p->reader_sum);
    free(p->is_output);
    memset(p, 0, sizeof(*p));
}

static int open_pass(struct pass *p, struct graph *g,
                     struct pass_report *report, struct infer_error *err,
                     const char *name)
{
    int rc;

    memset(p, 0, sizeof(*p));
    p->g = g;
    p->report = report;
    p->err = err;
    p->name = name;
    rc = grow(p, g->n_values);
    if (rc < 0) {
        close_pass(p);
        return rc;
    }
    for (int n = 0; n < g->n_nodes; n++)
        if (g->node[n].op != GRAPH_NONE)
            for (int i = 0; i < g->node[n].n_in; i++)
                count(p, g->node[n].in[i], n, 1);
    for (int i = 0; i < g->n_outputs; i++) {
        p->readers[g->output[i]]++;
        p->is_output[g->output[i]] = 1;
    }
    return 0;
}

/* Nodes that a visit adds are not visited. */
static int visit_all(struct pass *p, int (*visit)(struct pass *p, int node))
{
    int n_nodes = p->g->n_nodes, changes = 0, rc = 0;

    for (int n = 0; n < n_nodes && rc >= 0; n++) {
        if (p->g->node[n].op == GRAPH_NONE)
            continue;
        rc = visit(p, n);
        if (rc > 0)
            changes++;
    }
    return rc < 0 ? rc : changes;
}

int pass_run(const struct pass_row *row, struct graph *g,
             struct pass_report *report, struct infer_error *err)
{
    struct pass p;
    int rc = open_pass(&p, g, report, err, row->name);

    if (rc < 0)
        return rc;
    rc = row->visit ? visit_all(&p, row->visit) : row->whole(&p);
    close_pass(&p);
    return rc;
}

int pass_no_memory(struct pass *p)
{
    graph_no_room(p->g, p->err);
    error_prefix(p->err, "pass %s", p->name);
    return INFER_EMEMORY;
}

/* ---- looking ------------------------------------------------------- */

int pass_reader(const struct pass *p, int value)
{
    if (value < 0 || p->readers[value] != 1 || p->is_output[value])
        return -1;
    return (int)p->reader_sum[value];
}

int pass_producer(const struct pass *p, int value, enum graph_op op)
{
    int node;

    if (value < 0)
        return -1;
    node = p->g->value[value].producer;
    if (node < 0 || p->g->node[node].op != op)
        return -1;
    return node;
}

int pass_input(const struct graph_node *n, int i)
{
    return i < n->n_in ? n->in[i] : -1;
}

struct constant *pass_value_constant(const struct pass *p, int value)
{
    struct constant *c;

    if (value < 0 || p->g->value[value].producer >= 0)
        return NULL;
    c = p->g->value[value].data;
    return c && c->data ? c : NULL;
}

struct constant *pass_constant(const struct pass *p, const struct graph_node *n,
                               int i)
{
    return pass_value_constant(p, pass_input(n, i));
}

bool pass_scalar(const struct pass *p, int value, double *out)
{
    const struct constant *c = pass_value_constant(p, value);

    if (!c || constant_count(c) != 1)
        return false;
    *out = scalar_load(c->dtype, c->data, 0);
    return true;
}

bool pass_is_scalar(const struct pass *p, int value, double want)
{
    double x;

    return pass_scalar(p, value, &x) && x == want;
}

bool pass_binary(const struct pass *p, int node, enum kern_binary_kind kind)
{
    const struct graph_node *n;

    if (node < 0)
        return false;
    n = &p->g->node[node];
    return n->op == GRAPH_BINARY && n->n_in == 2 &&
           n->attr.binary.kind == kind && pass_plain(n);
}

bool pass_binary_constant(const struct pass *p, int node, int *variable,
                          int *constant, bool *swapped)
{
    const struct graph_node *n = &p->g->node[node];
    bool first;

    if (n->op != GRAPH_BINARY || n->n_in != 2 || n->in[0] < 0 || n->in[1] < 0)
        return false;
    first = pass_value_constant(p, n->in[0]) != NULL;
    if (first == (pass_value_constant(p, n->in[1]) != NULL))
        return false;
    *swapped = first;
    *constant = n->in[first ? 0 : 1];
    *variable = n->in[first ? 1 : 0];
    return true;
}

bool pass_linear(enum kern_binary_kind kind, bool swapped, double k, double *a,
                 double *b)
{
    *a = 1;
    *b = 0;
    switch (kind) {
    case KERN_ADD:
        *b = k;
        return true;
    case KERN_SUB:
        *a = swapped ? -1 : 1;
        *b = swapped ? k : -k;
        return true;
    case KERN_MUL:
        *a = k;
        return true;
    case KERN_DIV:
        *a = 1 / k;
        return !swapped;
    case KERN_POW:
    case KERN_MIN:
    case KERN_MAX:
    case KERN_MOD:
    case KERN_BIT_AND:
    case KERN_BIT_OR:
    case KERN_BIT_XOR:
    case KERN_SHIFT_LEFT:
    case KERN_SHIFT_RIGHT:
    case KERN_EQUAL:
    case KERN_LESS:
    case KERN_LESS_EQUAL:
    case KERN_GREATER:
    case KERN_GREATER_EQUAL:
    case KERN_AND:
    case KERN_OR:
    case KERN_BINARY_COUNT:
        break;
    }
    return false;
}

bool pass_unary(const struct pass *p, int node, enum kern_unary_kind kind)
{
    return node >= 0 && p->g->node[node].op == GRAPH_UNARY &&
           p->g->node[node].attr.unary.kind == kind &&
           pass_plain(&p->g->node[node]);
}

int pass_residual(const struct graph_node *n)
{
    const struct graph_op_info *info = graph_op_info(n->op);

    if (!info->residual || info->max_in < 0)
        return -1;
    return pass_input(n, info->max_in);
}

bool pass_is_reshape(const struct graph_node *n)
{
    return n->op == GRAPH_RESHAPE || n->op == GRAPH_FLATTEN ||
           n->op == GRAPH_SQUEEZE || n->op == GRAPH_UNSQUEEZE;
}

bool pass_plain(const struct graph_node *n)
{
    return n->epilogue.act.kind == KERN_IDENTITY && pass_residual(n) < 0;
}

bool pass_same_shape(const struct graph_value *a, const struct graph_value *b)
{
    if (a->rank < 0 || a->rank != b->rank)
        return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i])
            return false;
    return true;
}

bool pass_known_shape(const struct graph_value *v)
{
    if (v->rank < 0)
        return false;
    for (int i = 0; i < v->rank; i++)
        if (v->dim[i] < 0)
            return false;
    return true;
}

bool pass_is_float(const struct graph_value *v)
{
    return scalar_is_float(v->dtype);
}

bool pass_near(const struct graph_value *v, double x, double want)
{
    /* A half keeps 11 bits, a bfloat 8; fp32 formulas are written with seven
     * digits or more. */
    double relative = v->dtype == INFER_F16    ? 1.0 / 2048
                      : v->dtype == INFER_BF16 ? 1.0 / 256
                                               : 4e-7;

    return fabs(x - want) <= fabs(want) * relative;
}

bool pass_fits(enum infer_dtype dtype, int64_t n, const double *x)
{
    double limit = dtype == INFER_F16   ? 65504.0
                   : dtype == INFER_F64 ? 1e308
                                        : 3.3e38;

    /* Written so that a NaN does not fit. */
    for (int64_t i = 0; x && i < n; i++)
        if (!(fabs(x[i]) <= limit))
            return false;
    return true;
}

bool pass_channel_operand(const struct graph_value *tensor, int axis,
                          const struct constant *c, int64_t channels,
                          double *out)
{
    int64_t n = constant_count(c);
    int extra;

    if (tensor->rank < 0 || axis >= tensor->rank || c->rank > tensor->rank)
        return false;
    if (n != 1) {
        /* Dimension d of c lies under dimension d + extra of the tensor. */
        extra = tensor->rank - c->rank;
        if (n != channels || tensor->dim[axis] != channels || axis < extra ||
            c->dim[axis - extra] != channels)
            return false;
    }
    for (int64_t k = 0; k < channels; k++)
        out[k] = scalar_load(c->dtype, c->data, n == 1 ? 0 : k);
    return true;
}

/* ---- changing ------------------------------------------------------ */

int pass_set_input(struct pass *p, int node, int i, int value)
{
    struct graph_node *n = &p->g->node[node];

    if (i >= n->n_in) {
        int *in = realloc(n->in, (size_t)(i + 1) * sizeof(*in));

        if (!in)
            return pass_no_memory(p);
        n->in = in;
        while (n->n_in <= i)
            n->in[n->n_in++] = -1;
    }
    count(p, n->in[i], node, -1);
    n->in[i] = value;
    count(p, value, node, 1);
    return 0;
}

int pass_become(struct pass *p, int node, enum graph_op op, const int *in,
                int n_in)
{
    struct graph_node *n = &p->g->node[node];
    int *copy = malloc((size_t)(n_in > 0 ? n_in : 1) * sizeof(*copy));

    if (!copy)
        return pass_no_memory(p);
    for (int i = 0; i < n->n_in; i++)
        count(p, n->in[i], node, -1);
    for (int i = 0; i < n_in; i++) {
        copy[i] = in[i];
        count(p, in[i], node, 1);
    }
    free(n->in);
    n->in = copy;
    n->n_in = n_in;
    n->op = op;
    n->attr = graph_op_info(op)->defaults;
    memset(&n->epilogue, 0, sizeof(n->epilogue));
    return 0;
}

void pass_kill(struct pass *p, int node)
{
    const struct graph_node *n = &p->g->node[node];

    for (int i = 0; i < n->n_in; i++)
        count(p, n->in[i], node, -1);
    graph_remove_node(p->g, node);
}

void pass_absorb(struct pass *p, int node, int last)
{
    struct graph *g = p->g;
    int old = g->node[node].out[0];
    int taken = g->node[last].out[0];

    /* The two outputs change places; the old one goes with `last`. */
    g->node[node].out[0] = taken;
    g->node[last].out[0] = old;
    g->value[taken].producer = node;
    g->value[old].producer = last;
    pass_kill(p, last);
}

int pass_add_node(struct pass *p, enum graph_op op, const int *in, int n_in)
{
    int value = graph_add_value(p->g, NULL);
    int node, rc;

    if (value < 0)
        return pass_no_memory(p);
    rc = grow(p, p->g->n_values);
    if (rc < 0)
        return rc;
    node = graph_add_node(p->g, op, NULL, in, n_in, &value, 1);
    if (node < 0)
        return pass_no_memory(p);
    for (int i = 0; i < n_in; i++)
        count(p, in[i], node, 1);
    return value;
}

int pass_add_constant(struct pass *p, const char *base, const char *suffix,
                      struct constant *c)
{
    size_t bytes = strlen(base) + strlen(suffix) + 1;
    char *name = malloc(bytes);
    int value, rc;

    if (!name) {
        constant_unref(c);
        return pass_no_memory(p);
    }
    snprintf(name, bytes, "%s%s", base, suffix);
    if (graph_find_value(p->g, name) >= 0) {
        free(name);
        name = NULL;
    }
    value = graph_add_constant(p->g, name, c);
    free(name);
    if (value < 0)
        return pass_no_memory(p);
    rc = grow(p, p->g->n_values);
    return rc < 0 ? rc : value;
}

int pass_add_vector(struct pass *p, const char *base, const char *suffix,
                    enum infer_dtype dtype, int64_t n, const double *x)
{
    struct constant *c = constant_new(dtype, 1, &n);

    if (!c)
        return pass_no_memory(p);
    for (int64_t i = 0; i < n; i++)
        scalar_store(dtype, c->data, i, x[i]);
    return pass_add_constant(p, base, suffix, c);
}

void pass_put_constant(struct pass *p, int value, struct constant *c)
{
    struct graph_value *v = &p->g->value[value];

    if (v->data != c)
        constant_unref(v->data);
    v->data = c;
    v->dtype = c->dtype;
    v->rank = c->rank;
    memcpy(v->dim, c->dim, sizeof(v->dim));
}

struct constant *pass_edit_constant(struct pass *p, int node, int i)
{
    int value = p->g->node[node].in[i];
    struct constant *c = p->g->value[value].data;

    if (pass_reader(p, value) != node) {
        /* Others read it as it is: this node gets a copy. */
        value = pass_add_constant(p, p->g->value[value].name, ".folded",
                                  constant_ref(c));
        if (value < 0 || pass_set_input(p, node, i, value) < 0)
            return NULL;
    }
    c = constant_writable(c);
    if (!c) {
        pass_no_memory(p);
        return NULL;
    }
    p->g->value[value].data = c;
    return c;
}
