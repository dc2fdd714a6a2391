/* SPDX-License-Identifier: Apache-2.0 */
/* See net.h. */
#include "tests/unit/weights/passes/net.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "libinfer/model/model.h"

#define MAX_OUTPUTS 4

/* ---- building ------------------------------------------------------ */

void net_begin(struct net *net, uint64_t seed)
{
    net->g = graph_new();
    net->seed = seed * 2654435769u + 1;
    assert_non_null(net->g);
}

void net_end(struct net *net)
{
    graph_free(net->g);
    net->g = NULL;
}

double net_random(struct net *net)
{
    /* xorshift64 */
    net->seed ^= net->seed << 13;
    net->seed ^= net->seed >> 7;
    net->seed ^= net->seed << 17;
    return (double)(net->seed >> 11) / 4503599627370496.0 - 1;
}

int net_input(struct net *net, int rank, const int64_t *dim)
{
    int value = graph_add_input(net->g, NULL, INFER_F32, rank, dim);

    assert_true(value >= 0);
    return value;
}

static int add_constant(struct net *net, int rank, const int64_t *dim,
                        double scale, double shift)
{
    struct constant *c = constant_new(INFER_F32, rank, dim);
    int value;

    assert_non_null(c);
    for (int64_t i = 0; i < constant_count(c); i++)
        scalar_store(INFER_F32, c->data, i, net_random(net) * scale + shift);
    value = graph_add_constant(net->g, NULL, c);
    assert_true(value >= 0);
    return value;
}

int net_start(struct net *net, uint64_t seed, int rank, const int64_t *dim)
{
    net_begin(net, seed);
    return net_input(net, rank, dim);
}

int net_weight(struct net *net, int rank, const int64_t *dim)
{
    return add_constant(net, rank, dim, 1, 0);
}

int net_positive(struct net *net, int rank, const int64_t *dim)
{
    return add_constant(net, rank, dim, 0.5, 1);
}

int net_fill(struct net *net, double x, int rank, const int64_t *dim)
{
    return add_constant(net, rank, dim, 0, x);
}

int net_number(struct net *net, double x)
{
    return net_fill(net, x, 0, NULL);
}

int net_node(struct net *net, enum graph_op op, const int *in, int n_in)
{
    int out = graph_add_value(net->g, NULL);

    assert_true(out >= 0);
    assert_true(graph_add_node(net->g, op, NULL, in, n_in, &out, 1) >= 0);
    return out;
}

struct graph_node *net_latest(struct net *net)
{
    return &net->g->node[net->g->n_nodes - 1];
}

union graph_attr *net_attr(struct net *net)
{
    return &net_latest(net)->attr;
}

int net_conv(struct net *net, int x, int out, int in, int kernel, int pad)
{
    int w = net_weight(net, DIMS(out, in, kernel, kernel));
    int b = net_weight(net, DIMS(out));
    int y = net_node(net, GRAPH_CONV, IN(x, w, b));

    for (int i = 0; i < 2; i++) {
        net_attr(net)->conv.conv.pad_begin[i] = pad;
        net_attr(net)->conv.conv.pad_end[i] = pad;
    }
    return y;
}

int net_batch_norm(struct net *net, int x, int channels)
{
    int scale = net_weight(net, DIMS(channels));
    int shift = net_weight(net, DIMS(channels));
    int mean = net_weight(net, DIMS(channels));
    int var = net_positive(net, DIMS(channels));

    return net_node(net, GRAPH_BATCH_NORM, IN(x, scale, shift, mean, var));
}

int net_dense(struct net *net, int x, int out, int in)
{
    int w = net_weight(net, DIMS(out, in));
    int b = net_weight(net, DIMS(out));

    return net_node(net, GRAPH_DENSE, IN(x, w, b));
}

int net_unary(struct net *net, int x, enum kern_unary_kind kind)
{
    int y = net_node(net, GRAPH_UNARY, IN(x));

    net_attr(net)->unary = graph_unary(kind);
    return y;
}

int net_binary(struct net *net, enum kern_binary_kind kind, int a, int b)
{
    int y = net_node(net, GRAPH_BINARY, IN(a, b));

    net_attr(net)->binary.kind = kind;
    return y;
}

static void set_dims(struct graph_dims *dims, int n, const int64_t *dim)
{
    dims->n = n;
    for (int i = 0; i < n; i++)
        dims->dim[i] = dim[i];
}

int net_transpose(struct net *net, int x, int rank, const int64_t *order)
{
    int y = net_node(net, GRAPH_TRANSPOSE, IN(x));

    set_dims(&net_attr(net)->dims, rank, order);
    return y;
}

int net_reshape(struct net *net, int x, int rank, const int64_t *dim)
{
    int y = net_node(net, GRAPH_RESHAPE, IN(x));

    set_dims(&net_attr(net)->dims, rank, dim);
    return y;
}

int net_reduce(struct net *net, int x, enum kern_reduce_kind kind, int n_axes,
               const int64_t *axis, bool keep_dims)
{
    int y = net_node(net, GRAPH_REDUCE, IN(x));

    net_attr(net)->reduce.kind = kind;
    net_attr(net)->reduce.keep_dims = keep_dims;
    net_attr(net)->reduce.n_axes = n_axes;
    for (int i = 0; i < n_axes; i++)
        net_attr(net)->reduce.axis[i] = (int)axis[i];
    return y;
}

void net_output(struct net *net, int value)
{
    assert_true(graph_add_output(net->g, value) >= 0);
}

int net_count(const struct net *net, enum graph_op op)
{
    int n = 0;

    for (int i = 0; i < net->g->n_nodes; i++)
        n += net->g->node[i].op == op;
    return n;
}

/* ---- running ------------------------------------------------------- */

struct result {
    int count;
    struct infer_array array[MAX_OUTPUTS];
};

static void free_result(struct result *r)
{
    for (int i = 0; i < r->count; i++)
        free(r->array[i].data);
}

/* Random data for every input; absolute values where asked.  A free dimension
 * is 2. */
static void fill_inputs(const struct graph *g, uint64_t seed, bool absolute,
                        struct infer_array *in)
{
    struct net random = {NULL, seed};

    for (int i = 0; i < g->n_inputs; i++) {
        const struct graph_value *v = &g->value[g->input[i]];
        size_t count = 1;
        float *data;

        memset(&in[i], 0, sizeof(in[i]));
        in[i].dtype = INFER_F32;
        in[i].rank = v->rank;
        for (int d = 0; d < v->rank; d++) {
            in[i].dim[d] = v->dim[d] < 0 ? 2 : v->dim[d];
            count *= (size_t)in[i].dim[d];
        }
        data = malloc(count * sizeof(*data));
        assert_non_null(data);
        for (size_t e = 0; e < count; e++) {
            data[e] = (float)(net_random(&random) * 3);
            if (absolute)
                data[e] = fabsf(data[e]);
        }
        in[i].data = data;
        in[i].bytes = count * sizeof(*data);
    }
}

/* Runs a graph (taken over) on the reference backend. */
static void run(struct graph *g, uint64_t seed, bool absolute,
                struct result *out)
{
    struct infer_session_options options;
    struct infer_session *session = NULL;
    struct infer_model *model = NULL;
    struct infer_array in[4];
    struct infer_error err;
    int n_in = g->n_inputs;

    assert_in_range(n_in, 0, 4);
    assert_in_range(g->n_outputs, 1, MAX_OUTPUTS);
    memset(out, 0, sizeof(*out));
    out->count = g->n_outputs;
    fill_inputs(g, seed, absolute, in);
    infer_session_options_init(&options);
    options.backend = INFER_BACKEND_REF;
    options.threads = 1;
    err.text[0] = 0;
    if (model_from_graph(g, &err, &model) < 0 ||
        infer_session_create(model, &options, &err, &session) < 0 ||
        infer_session_run(session, in, n_in, out->array, out->count, &err) < 0)
        fail_msg("%s", err.text);
    for (int i = 0; i < out->count; i++) {
        out->array[i].data = calloc(1, out->array[i].bytes + 1);
        assert_non_null(out->array[i].data);
    }
    if (infer_session_run(session, in, n_in, out->array, out->count, &err) < 0)
        fail_msg("%s", err.text);
    infer_session_close(&session);
    infer_model_close(&model);
    for (int i = 0; i < n_in; i++)
        free(in[i].data);
}

/* ---- the magnitude network ----------------------------------------- */

static void make_absolute(struct graph *g, int value, double sign)
{
    struct constant *c = constant_writable(g->value[value].data);

    assert_non_null(c);
    g->value[value].data = c;
    if (scalar_is_float(c->dtype))
        for (int64_t i = 0; i < constant_count(c); i++)
            scalar_store(c->dtype, c->data, i,
                         sign * fabs(scalar_load(c->dtype, c->data, i)));
}

/* A function that bounds another one on absolute values, in itself and in its
 * slope: |x| where |f(x)| <= |x|, else |x| + 1. */
static struct kern_unary bounding(const struct kern_unary *u)
{
    struct kern_unary bound = graph_unary(KERN_LINEAR);

    bound.a = 1;
    bound.b = 0;
    switch (u->kind) {
    case KERN_LINEAR:
        bound.a = fabsf(u->a);
        bound.b = fabsf(u->b);
        break;
    case KERN_IDENTITY:
    case KERN_RELU:
    case KERN_LEAKY_RELU:
    case KERN_TANH:
    case KERN_SILU:
    case KERN_HARD_SWISH:
    case KERN_GELU:
    case KERN_GELU_TANH:
    case KERN_ABS:
    case KERN_NEG:
        break;
    default:
        bound.b = 1;
        break;
    }
    return bound;
}

static struct graph *magnitude(const struct graph *from)
{
    struct graph *g = graph_copy(from);

    assert_non_null(g);
    for (int v = 0; v < g->n_values; v++)
        if (g->value[v].data)
            make_absolute(g, v, 1);
    for (int i = 0; i < g->n_nodes; i++) {
        struct graph_node *n = &g->node[i];

        if (n->epilogue.act.kind != KERN_IDENTITY)
            n->epilogue.act = bounding(&n->epilogue.act);
        if (n->op == GRAPH_UNARY && n->attr.unary.kind != KERN_SQRT &&
            n->attr.unary.kind != KERN_RECIPROCAL)
            n->attr.unary = bounding(&n->attr.unary);
        if (n->op == GRAPH_BINARY && (n->attr.binary.kind == KERN_SUB ||
                                      n->attr.binary.kind == KERN_MIN ||
                                      n->attr.binary.kind == KERN_MAX))
            n->attr.binary.kind = KERN_ADD;
        if (n->op == GRAPH_BATCH_NORM)
            make_absolute(g, n->in[3], -1);
    }
    return g;
}

/* ---- comparing ----------------------------------------------------- */

static void compare(const struct result *before, const struct result *after,
                    const struct result *size, double bound)
{
    assert_int_equal(before->count, after->count);
    for (int i = 0; i < before->count; i++) {
        const struct infer_array *b = &before->array[i];
        const struct infer_array *a = &after->array[i];
        size_t count = b->bytes / infer_dtype_size(b->dtype);

        assert_int_equal(b->dtype, a->dtype);
        assert_int_equal(b->rank, a->rank);
        for (int d = 0; d < b->rank; d++)
            assert_int_equal(b->dim[d], a->dim[d]);
        for (size_t e = 0; e < count; e++) {
            double x = scalar_load(b->dtype, b->data, (int64_t)e);
            double y = scalar_load(a->dtype, a->data, (int64_t)e);
            double m = scalar_load(size->array[i].dtype, size->array[i].data,
                                   (int64_t)e);

            /* Written so that a NaN fails. */
            if (!(fabs(x - y) <= bound * fabs(m)))
                fail_msg("output %d element %zu: %.9g before, %.9g after, "
                         "magnitude %.9g, bound %.3g",
                         i, e, x, y, m, bound * fabs(m));
        }
    }
}

static int count_events(const struct pass_report *report, const char *pass)
{
    int n = 0;

    for (size_t i = 0; i < report->count; i++)
        n += strcmp(report->event[i].pass, pass) == 0;
    return n;
}

/* Runs the passes of which name is one and the others are disabled; NULL: all
 * of them.  Returns the number of events of that name. */
static int run_passes(struct net *net, const char *name)
{
    const char *disabled[64] = {NULL};
    struct pass_options options;
    struct pass_report report;
    struct infer_error err;
    size_t n = 0;
    int events;

    pass_options_init(&options);
    for (size_t i = 0; name && i < pass_count(); i++)
        if (strcmp(pass_at(i)->name, name) != 0)
            disabled[n++] = pass_at(i)->name;
    assert_true(n < 64);
    if (name)
        assert_non_null(pass_find(name));
    options.disabled = disabled;
    pass_report_init(&report);
    err.text[0] = 0;
    if (weights_run_passes(net->g, &options, &report, &err) < 0)
        fail_msg("%s", err.text);
    if (graph_validate(net->g, &err) < 0)
        fail_msg("%s", err.text);
    events = name ? count_events(&report, name) : (int)report.count;
    pass_report_clear(&report);
    return events;
}

static void check(struct net *net, const char *pass, int changes, double factor)
{
    const uint64_t seed = net->seed | 1;
    struct result before, after, size;
    int nodes = net->g->n_nodes;
    int events;

    run(graph_copy(net->g), seed, false, &before);
    run(magnitude(net->g), seed, true, &size);
    events = run_passes(net, pass);
    run(graph_copy(net->g), seed, false, &after);
    compare(&before, &after, &size, factor * 4 * (nodes + 1) * 5.97e-8);
    free_result(&before);
    free_result(&after);
    free_result(&size);
    if (changes < 0)
        assert_int_not_equal(events, 0);
    else
        assert_int_equal(events, changes);
}

void net_check(struct net *net, const char *pass, int changes, double factor)
{
    check(net, pass, changes, factor);
}

void net_check_all(struct net *net, double factor)
{
    check(net, NULL, -1, factor);
}

void net_refuses(struct net *net, const char *pass)
{
    check(net, pass, 0, 1);
}

void net_refuses_unrun(struct net *net, const char *pass)
{
    assert_int_equal(run_passes(net, pass), 0);
}
