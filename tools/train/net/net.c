/* SPDX-License-Identifier: Apache-2.0 */
/* Making a network from a graph: shapes, checks, lists, memory. */
#include "tools/train/net/net.h"

#include <stdlib.h>
#include <string.h>

/* ---- the graph ----------------------------------------------------- */

/* An epilogue that the file carries becomes nodes of its own, so that there is
 * one way to say a thing. */
static int split_activation(struct graph *g, int node)
{
    const struct kern_unary act = g->node[node].epilogue.act;
    const int old = g->node[node].out[0];
    int fresh, added;

    if (act.kind == KERN_IDENTITY)
        return 0;
    fresh = graph_add_value(g, NULL);
    if (fresh < 0)
        return fresh;
    g->node[node].out[0] = fresh;
    g->node[node].epilogue.act = graph_unary(KERN_IDENTITY);
    g->value[fresh].producer = node;
    g->value[old].producer = -1;
    added = graph_add_node(g, GRAPH_UNARY, NULL, &fresh, 1, &old, 1);
    if (added < 0)
        return added;
    g->node[added].attr.unary = act;
    return 0;
}

static int split_epilogues(struct graph *g, struct infer_error *err)
{
    const int nodes = g->n_nodes;

    for (int i = 0; i < nodes; i++) {
        const struct graph_op_info *info = graph_op_info(g->node[i].op);

        if (g->node[i].op == GRAPH_NONE)
            continue;
        if (info->residual && g->node[i].n_in > info->max_in)
            return error_set(err, INFER_EUNSUPPORTED,
                             "node '%s' adds a residual: train takes networks "
                             "as they are before wconv has fused them",
                             g->node[i].name);
        if (split_activation(g, i) < 0)
            return error_set(err, INFER_EMEMORY, "out of memory");
    }
    return 0;
}

/* Scores are trained: a softmax at the end is part of the loss. */
static int find_logits(struct net *n, struct infer_error *err)
{
    struct graph *g = n->g;
    const int out = g->n_outputs == 1 ? g->output[0] : -1;
    const int producer = out >= 0 ? g->value[out].producer : -1;

    if (g->n_outputs != 1 || g->n_inputs != 1)
        return error_set(err, INFER_EUNSUPPORTED,
                         "the network has %d inputs and %d outputs; train "
                         "takes one of each",
                         g->n_inputs, g->n_outputs);
    if (producer >= 0 && g->node[producer].op == GRAPH_SOFTMAX) {
        g->output[0] = g->node[producer].in[0];
        graph_remove_node(g, producer);
    }
    return 0;
}

/* The shapes of one batch, all known. */
static int set_shapes(struct net *n, struct infer_error *err)
{
    const struct graph_value *in = &n->g->value[n->g->input[0]];
    struct graph_shape shape = {.rank = in->rank};

    if (in->rank != 4)
        return error_set(err, INFER_EUNSUPPORTED,
                         "input '%s' is no picture (N,C,H,W)", in->name);
    memcpy(shape.dim, in->dim, sizeof(shape.dim));
    shape.dim[0] = n->options.batch;
    return graph_infer_shapes(n->g, &shape, err);
}

static int check_logits(struct net *n, struct infer_error *err)
{
    const struct graph_value *v;

    n->logits = n->g->output[0];
    v = &n->g->value[n->logits];
    if (v->rank != 2 || v->dim[0] != n->options.batch)
        return error_set(err, INFER_EUNSUPPORTED,
                         "output '%s' does not hold scores (N,classes); train "
                         "takes classifiers",
                         v->name);
    n->classes = v->dim[1];
    return 0;
}

static int check_nodes(const struct net *n, struct infer_error *err)
{
    int rc = 0;

    error_clear(err);
    for (int i = 0; i < n->g->n_nodes; i++)
        if (!net_has_backward(&n->g->node[i]))
            rc = error_add(
                err, INFER_EUNSUPPORTED, "node '%s': %s cannot be trained",
                n->g->node[i].name, graph_op_info(n->g->node[i].op)->name);
    return rc;
}

static void mark_gradients(struct net *n)
{
    for (int i = 0; i < n->g->n_nodes; i++) {
        const struct graph_node *node = &n->g->node[i];
        bool needs = false;

        for (int k = 0; k < node->n_in; k++)
            if (node->in[k] >= 0)
                needs = needs || n->value[node->in[k]].needs_grad ||
                        net_is_trained(n, n->value[node->in[k]].param);
        for (int k = 0; k < node->n_out; k++)
            n->value[node->out[k]].needs_grad = needs;
    }
}

/* ---- what stays ---------------------------------------------------- */

/* Part of a fixed buffer. */
static struct view part(int buffer, enum infer_dtype dtype, int64_t offset,
                        int64_t count)
{
    struct view v = {.buffer = buffer, .offset = offset};

    v.t = kern_tensor_dense(dtype, 1, &count, KERN_NCHW);
    return v;
}

static void fixed(struct net *n)
{
    const struct graph_value *in = &n->g->value[n->g->input[0]];
    const int64_t batch = n->options.batch;
    const enum infer_dtype type = net_wide(n);

    n->input = net_tensor(n, NET_FIXED, type, in->rank, in->dim, NET_LAYOUT);
    n->label = net_vector(n, NET_FIXED, INFER_I32, batch);
    n->state = net_vector(n, NET_FIXED, INFER_F32, KERN_STEP_SIZE);
    n->norm = net_vector(n, NET_FIXED, INFER_F32, 1);
    n->zero = net_vector(n, NET_FIXED, type, 1);
    n->control = net_buffer(n, NET_FIXED, 24); /* seed, place, rate */
    n->metrics = net_buffer(n, NET_FIXED,
                            (2 * (size_t)batch + 1) * infer_dtype_size(type));
    n->random = part(n->control, INFER_U64, 0, 2);
    n->rate = part(n->control, INFER_F32, 4, 1);
    n->loss = part(n->metrics, type, 0, batch);
    n->hit = part(n->metrics, type, batch, batch);
    n->stop = part(n->metrics, type, 2 * batch, 1);
    n->host_metrics = calloc(2 * (size_t)batch + 1, sizeof(double));
    if (!n->host_metrics)
        net_fail(n, INFER_EMEMORY, "out of memory");
}

static void tables(struct net *n)
{
    const size_t nodes = (size_t)n->g->n_nodes + 1;

    n->value = calloc((size_t)n->g->n_values + 1, sizeof(*n->value));
    n->mean = calloc(nodes, sizeof(*n->mean));
    n->deviation = calloc(nodes, sizeof(*n->deviation));
    n->variance = calloc(nodes, sizeof(*n->variance));
    n->relu_mask = calloc(nodes, sizeof(*n->relu_mask));
    n->stream = calloc(nodes, sizeof(*n->stream));
    if (!n->value || !n->mean || !n->deviation || !n->variance ||
        !n->relu_mask || !n->stream)
        net_fail(n, INFER_EMEMORY, "out of memory");
    for (int i = 0; n->value && i < n->g->n_values; i++)
        n->value[i].param = -1;
}

/* ---- making -------------------------------------------------------- */

static int prepare_graph(struct net *n, struct infer_error *err)
{
    int rc = split_epilogues(n->g, err);

    if (rc == 0)
        rc = find_logits(n, err);
    if (rc == 0 && graph_remove_dead(n->g) < 0)
        rc = error_set(err, INFER_EMEMORY, "out of memory");
    if (rc == 0)
        rc = graph_compact(n->g, err);
    if (rc == 0)
        rc = set_shapes(n, err);
    if (rc == 0)
        rc = check_logits(n, err);
    return rc < 0 ? rc : check_nodes(n, err);
}

static void make_lists(struct net *n)
{
    net_forward(n, NET_LIST_TRAIN);
    net_loss(n, NET_LIST_TRAIN);
    net_backward(n);
    if (n->options.update)
        net_make_update(n);
    net_forward(n, NET_LIST_EVAL);
    net_loss(n, NET_LIST_EVAL);
    net_add_exchange(n);
}

static void make(struct net *n)
{
    net_check(n, prepare_graph(n, n->err));
    if (n->rc == 0)
        tables(n);
    if (n->rc == 0)
        net_find_params(n);
    if (n->rc == 0)
        net_find_chains(n);
    if (n->rc < 0)
        return;
    fixed(n);
    net_constants(n);
    net_products(n);
    mark_gradients(n);
    make_lists(n);
    net_fit(n);
    net_place(n);
}

/* Room for what a run copies, so that it allocates nothing. */
static int reserve(struct net *n, struct infer_error *err)
{
    const struct device *d = n->options.device;
    const size_t batch = n->buffers.at[n->input.buffer].bytes +
                         n->buffers.at[n->label.buffer].bytes + 24 +
                         2 * n->buffers.at[n->metrics].bytes +
                         KERN_STEP_SIZE * sizeof(float);

    return d->ops->reserve ? d->ops->reserve(d, batch, 8, err) : 0;
}

int net_new(struct graph *g, const struct net_options *options,
            struct infer_error *err, struct net **out)
{
    static const float state[KERN_STEP_SIZE] = {[KERN_STEP_LOSS_SCALE] = 1};
    struct net *n = calloc(1, sizeof(*n));
    int rc;

    if (!n) {
        graph_free(g);
        return error_set(err, INFER_EMEMORY, "out of memory");
    }
    n->g = g;
    n->options = *options;
    row_tiers_choose(options->device, options->backend, &n->tiers);
    for (int i = 0; i < NET_MEMORIES; i++)
        n->flat[i] = -1;
    n->err = err;
    make(n);
    n->err = NULL;
    rc = n->rc < 0 ? n->rc : net_write_state(n, state, err);
    if (rc == 0)
        rc = reserve(n, err);
    if (rc < 0) {
        net_free(n);
        return rc;
    }
    *out = n;
    return 0;
}

static void free_list(struct net *n, struct net_list *l)
{
    const struct device *d = n->options.device;

    plan_free_steps(&l->steps);
    if (l->recorded)
        d->ops->graph_free(d, l->recorded);
}

void net_free(struct net *n)
{
    if (!n)
        return;
    const struct device *d = n->options.device;

    for (int l = 0; l < NET_LISTS; l++)
        free_list(n, &n->list[l]);
    if (n->step)
        d->ops->graph_free(d, n->step);
    for (int memory = NET_FIXED; memory < NET_MEMORIES; memory++)
        d->ops->free(d, n->base[memory]);
    d->ops->free(d, n->arena);
    if (d->ops->free_host)
        d->ops->free_host(d, n->host);
    else
        free(n->host);
    d->ops->free(d, n->workspace);
    d->ops->free(d, n->side_workspace);
    d->ops->free(d, n->packed);
    for (int i = 0; i < n->n_params; i++)
        free(n->param[i].name);
    free(n->param);
    free(n->value);
    free(n->chain);
    free(n->absorbed);
    free(n->exact_layers);
    free(n->mean);
    free(n->deviation);
    free(n->relu_mask);
    free(n->variance);
    free(n->stream);
    free(n->buffers.at);
    free(n->host_metrics);
    graph_free(n->g);
    free(n);
}
