/* SPDX-License-Identifier: Apache-2.0 */
/* Shape inference: the rules of the operations, run in order. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/scalar.h"
#include "libinfer/graph/graph_check.h"
#include "libinfer/graph/graph_order.h"

/* Room for the ends of the node with the most of them. */
struct scratch {
    struct graph_type *in, *out;
    struct constant **data;
};

static int scratch_init(const struct graph *g, struct scratch *s)
{
    size_t in = 1, out = 1;
    int i;

    for (i = 0; i < g->n_nodes; i++) {
        if ((size_t)g->node[i].n_in > in)
            in = (size_t)g->node[i].n_in;
        if ((size_t)g->node[i].n_out > out)
            out = (size_t)g->node[i].n_out;
    }
    /* Rules look at optional inputs that a short list leaves out. */
    in += KERN_MAX_IN;
    s->in = calloc(in, sizeof(*s->in));
    s->out = calloc(out, sizeof(*s->out));
    s->data = calloc(in, sizeof(*s->data));
    return s->in != NULL && s->out != NULL && s->data != NULL ? INFER_OK
                                                              : INFER_EMEMORY;
}

static void scratch_clear(struct scratch *s)
{
    free(s->in);
    free(s->out);
    free(s->data);
}

static const struct graph_type unknown = {.rank = -1};

/* The types of values without a producer: inputs, constants, unbound
 * weights. */
static int start(const struct graph *g, const struct graph_shape *shapes,
                 struct graph_type *type, struct infer_error *err)
{
    int i, k, rc = INFER_OK;

    for (i = 0; i < g->n_values; i++) {
        const struct graph_value *v = &g->value[i];

        type[i] = unknown;
        if (v->name == NULL || v->producer >= 0)
            continue;
        type[i].dtype = v->dtype;
        type[i].rank = v->rank;
        memcpy(type[i].dim, v->dim, sizeof(v->dim));
    }
    for (i = 0; shapes != NULL && i < g->n_inputs; i++) {
        struct graph_type *t = &type[g->input[i]];
        struct graph_type given = {.dtype = t->dtype, .rank = shapes[i].rank};
        char have[OP_TEXT], want[OP_TEXT];
        bool fits = given.rank >= 0 && given.rank <= INFER_MAX_RANK &&
                    (t->rank < 0 || given.rank == t->rank);

        for (k = 0; fits && k < given.rank; k++) {
            given.dim[k] = shapes[i].dim[k];
            fits = given.dim[k] >= 0 &&
                   (t->rank < 0 || op_fits(t->dim[k], given.dim[k]));
        }
        if (fits) {
            *t = given;
            continue;
        }
        if (given.rank > INFER_MAX_RANK)
            given.rank = -1;
        for (k = 0; k < given.rank; k++)
            given.dim[k] = shapes[i].dim[k];
        rc = error_add(err, INFER_EARGUMENT,
                       "input '%.*s': shape %s is given, %s is needed",
                       GRAPH_SHOWN, g->value[g->input[i]].name,
                       op_text(&given, have), op_text(t, want));
    }
    return rc;
}

/* A residual is added element by element: no broadcasting. */
static int check_epilogue(const struct graph_node *n,
                          const struct graph_op_info *info,
                          const struct graph_type *in,
                          const struct graph_type *out, struct infer_error *err)
{
    char have[OP_TEXT], want[OP_TEXT];
    const struct graph_type *r;
    bool fits;
    int i;

    if (n->epilogue.act.kind != KERN_IDENTITY && out->dtype != INFER_NONE &&
        !scalar_is_float(out->dtype))
        return error_set(err, INFER_EFORMAT, "an activation of %s elements",
                         infer_dtype_name(out->dtype));
    if (info->max_in < 0 || n->n_in <= info->max_in || n->in[info->max_in] < 0)
        return INFER_OK;
    r = &in[info->max_in];
    if (r->rank < 0 || out->rank < 0)
        return INFER_OK;
    fits = r->rank == out->rank;
    for (i = 0; fits && i < r->rank; i++)
        fits = op_fits(r->dim[i], out->dim[i]);
    if (!fits)
        return error_set(err, INFER_EFORMAT, "residual is %s, the output %s",
                         op_text(r, have), op_text(out, want));
    return INFER_OK;
}

/* Sizes that no later arithmetic can trust. */
static int check_output(const struct graph_type *t, struct infer_error *err)
{
    char text[OP_TEXT];

    if (t->rank >= 0 && !op_is_possible(t))
        return error_set(err, INFER_EFORMAT, "output %s is too large",
                         op_text(t, text));
    return INFER_OK;
}

static int run_node(const struct graph *g, const struct graph_node *n,
                    struct scratch *s, struct graph_type *type,
                    struct infer_error *err)
{
    const struct graph_op_info *info = graph_op_info(n->op);
    struct graph_shape_args args = {
        .node = n,
        .attr = &n->attr,
        .n_in = n->n_in,
        .n_out = n->n_out,
        .in = s->in,
        .data = s->data,
        .out = s->out,
    };
    int i, rc;

    for (i = 0; i < n->n_in || i < KERN_MAX_IN; i++) {
        bool has = i < n->n_in && n->in[i] >= 0;

        s->in[i] = has ? type[n->in[i]] : unknown;
        s->data[i] = has ? g->value[n->in[i]].data : NULL;
    }
    for (i = 0; i < n->n_out; i++)
        s->out[i] = unknown;
    /* The residual is no business of the rule. */
    if (info->max_in >= 0 && args.n_in > info->max_in)
        args.n_in = info->max_in;
    rc = info->infer_shape(&args, err);
    if (rc == INFER_OK)
        rc = check_epilogue(n, info, s->in, &s->out[0], err);
    for (i = 0; rc == INFER_OK && i < n->n_out; i++)
        rc = check_output(&s->out[i], err);
    for (i = 0; rc == INFER_OK && i < n->n_out; i++)
        type[n->out[i]] = s->out[i];
    return rc;
}

int graph_run_shapes(const struct graph *g, const int *order, int count,
                     const struct graph_shape *shapes, struct graph_type *type,
                     struct infer_error *err)
{
    struct scratch s = {NULL, NULL, NULL};
    int rc = start(g, shapes, type, err), i;

    if (scratch_init(g, &s) < 0) {
        scratch_clear(&s);
        return error_add(err, INFER_EMEMORY, "out of memory");
    }
    for (i = 0; i < count; i++) {
        const struct graph_node *n = &g->node[order[i]];
        struct infer_error local;
        int one;

        if (graph_check_node(g, order[i], NULL) < 0)
            continue;
        error_clear(&local);
        one = run_node(g, n, &s, type, &local);
        if (one == INFER_OK)
            continue;
        error_prefix(&local, "node '%.*s' (%s)", GRAPH_SHOWN, n->name,
                     graph_op_info(n->op)->name);
        error_add(err, one, "%s", local.text);
        if (rc == INFER_OK)
            rc = one;
    }
    scratch_clear(&s);
    return rc;
}

static void write_back(struct graph *g, const struct graph_type *type)
{
    int i;

    for (i = 0; i < g->n_values; i++) {
        struct graph_value *v = &g->value[i];

        if (v->name == NULL)
            continue;
        v->dtype = type[i].dtype;
        v->rank = type[i].rank;
        memcpy(v->dim, type[i].dim, sizeof(v->dim));
    }
}

/* The faults that keep rules from running. */
static int check_nodes(const struct graph *g, struct infer_error *err)
{
    int i, rc = INFER_OK;

    for (i = 0; i < g->n_nodes; i++) {
        int one = g->node[i].op != GRAPH_NONE ? graph_check_node(g, i, err)
                                              : INFER_OK;

        if (rc == INFER_OK)
            rc = one;
    }
    return rc;
}

int graph_infer_shapes(struct graph *g, const struct graph_shape *shapes,
                       struct infer_error *err)
{
    size_t nodes = g->n_nodes > 0 ? (size_t)g->n_nodes : 1;
    size_t values = g->n_values > 0 ? (size_t)g->n_values : 1;
    int *order = malloc(nodes * sizeof(*order));
    struct graph_type *type = malloc(values * sizeof(*type));
    int count, one, rc;

    error_clear(err);
    if (order == NULL || type == NULL) {
        rc = error_set(err, INFER_EMEMORY, "out of memory");
        goto done;
    }
    rc = graph_order(g, order, &count, err);
    if (rc < 0)
        goto done;
    rc = check_nodes(g, err);
    one = graph_run_shapes(g, order, count, shapes, type, err);
    if (rc == INFER_OK)
        rc = one;
    if (rc == INFER_OK)
        write_back(g, type);
done:
    free(order);
    free(type);
    return rc;
}
