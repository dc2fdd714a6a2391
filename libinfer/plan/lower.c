/* SPDX-License-Identifier: Apache-2.0 */
/* From graph operations to problems and views: the table, and what all rows
 * share. */
#include "kernels/table/product_factors.h"
#include "libinfer/plan/lower.h"

#include <string.h>

#include "kernels/base/error.h"
#include "kernels/problem.h"

static lower_fn *const table[GRAPH_OP_COUNT] = {
    [GRAPH_CONV] = lower_conv,
    [GRAPH_CONV_TRANSPOSE] = lower_conv_transpose,
    [GRAPH_DENSE] = lower_layer,
    [GRAPH_MATMUL] = lower_product,
    [GRAPH_POOL] = lower_pool,
    [GRAPH_BATCH_NORM] = lower_layer,
    [GRAPH_SCALE_SHIFT] = lower_scale_shift,
    [GRAPH_LAYER_NORM] = lower_layer,
    [GRAPH_GROUP_NORM] = lower_layer,
    [GRAPH_LRN] = lower_layer,
    [GRAPH_UNARY] = lower_unary,
    [GRAPH_PRELU] = lower_layer,
    [GRAPH_BINARY] = lower_binary,
    [GRAPH_REQUANTIZE] = lower_layer,
    [GRAPH_WHERE] = lower_layer,
    [GRAPH_CAST] = lower_cast,
    [GRAPH_QUANTIZE] = lower_quantize,
    [GRAPH_DEQUANTIZE] = lower_dequantize,
    [GRAPH_DROPOUT] = lower_identity,
    [GRAPH_SOFTMAX] = lower_layer,
    [GRAPH_REDUCE] = lower_reduce,
    [GRAPH_ARG_REDUCE] = lower_arg_reduce,
    [GRAPH_CONCAT] = lower_concat,
    [GRAPH_SPLIT] = lower_parts,
    [GRAPH_SLICE] = lower_parts,
    [GRAPH_RESHAPE] = lower_reshaped,
    [GRAPH_FLATTEN] = lower_reshaped,
    [GRAPH_SQUEEZE] = lower_reshaped,
    [GRAPH_UNSQUEEZE] = lower_reshaped,
    [GRAPH_TRANSPOSE] = lower_parts,
    [GRAPH_EXPAND] = lower_parts,
    [GRAPH_TILE] = lower_tile,
    [GRAPH_GATHER] = lower_gather,
    [GRAPH_GATHER_ELEMENTS] = lower_layer,
    [GRAPH_SCATTER_ELEMENTS] = lower_layer,
    [GRAPH_CUMULATE] = lower_layer,
    [GRAPH_TOP_K] = lower_layer,
    [GRAPH_NMS] = lower_layer,
    [GRAPH_RECURRENT] = lower_layer,
    [GRAPH_DEPTH_TO_SPACE] = lower_depth_to_space,
    [GRAPH_SPACE_TO_DEPTH] = lower_space_to_depth,
    [GRAPH_PAD] = lower_layer,
    [GRAPH_RESIZE] = lower_resize,
};

int lower_node(struct plan *plan, int node, struct infer_error *err)
{
    const struct lower l = {plan, &plan->g->node[node], node, err};

    return table[l.node->op](&l);
}

const struct view *lower_in(const struct lower *l, int i)
{
    if (i >= l->node->n_in || l->node->in[i] < 0)
        return NULL;
    return &l->plan->value[l->node->in[i]].view;
}

const struct graph_value *lower_out(const struct lower *l, int k)
{
    return &l->plan->g->value[l->node->out[k]];
}

int lower_set(const struct lower *l, int k, const struct view *v)
{
    plan_set(l->plan, l->node->out[k], v);
    return 0;
}

/* Nodes after a value's producer that are searched for its reader: planning
 * stays linear in the nodes. */
#define REACH 64

int lower_only_reader(const struct lower *l, int value)
{
    const struct graph *g = l->plan->g;
    int i, k;

    if (l->plan->value[value].uses != 1 || l->plan->value[value].concat >= 0)
        return -1;
    for (i = l->index + 1; i < g->n_nodes && i - l->index <= REACH; i++)
        for (k = 0; k < g->node[i].n_in; k++)
            if (g->node[i].op != GRAPH_NONE && g->node[i].in[k] == value)
                return k == 0 ? i : -1;
    return -1;
}

/* Kernels of these see dimensions of size 1 where an input broadcasts. */
static bool raises(const struct plan_emit *e)
{
    return e->class == PLAN_POINTWISE || e->p.op == KERN_MATMUL;
}

int lower_begin(const struct lower *l, struct plan_emit *e)
{
    const struct graph_op_info *info = graph_op_info(l->node->op);
    int rc;

    memset(e, 0, sizeof *e);
    rc = problem_of_node(l->plan->g, l->node, l->err, &e->p, &e->class);
    if (rc < 0)
        return rc;
    e->p.epilogue = l->node->epilogue;
    e->value = l->node->out[0];
    e->residual = -1;
    /* Of what lies beyond the kernel's inputs, the shape alone counts. */
    for (int i = 0; i < l->node->n_in && i < kern_op_info(e->p.op)->in.max;
         i++) {
        const struct view *v = lower_in(l, i);

        if (!v)
            continue;
        e->in[i] = raises(e) ? view_raise(v, e->p.out[0].rank) : *v;
        e->p.n_in = i + 1;
        if (i == info->max_in)
            e->residual = i;
    }
    e->p.out[0].dtype = plan_dtype(l->plan, lower_out(l, 0)->dtype);
    if (l->plan->config->products && !l->plan->config->products->integers &&
        kern_op_takes_table(e->p.op) && !l->plan->exact_layers[l->index]) {
        const struct plan_products *products = l->plan->config->products;
        const int beside = product_factors_in(e->p.op);
        e->in[PRODUCT_TABLE_IN] = plan_products_view(l->plan);
        e->p.n_in = PRODUCT_TABLE_IN + 1;
        if (products->factors > 0 || products->accumulated) {
            e->in[beside] = products->accumulated
                                ? plan_accumulator_view(l->plan)
                                : plan_factors_view(l->plan);
            if (e->p.n_in <= beside)
                e->p.n_in = beside + 1;
        }
    }
    return 0;
}

static bool same_shape(const struct kern_tensor *t, int rank,
                       const int64_t *dim)
{
    return t->rank == rank &&
           memcmp(t->dim, dim, (size_t)rank * sizeof dim[0]) == 0;
}

int lower_end(const struct lower *l, const struct plan_emit *e)
{
    struct view out;
    int rc = plan_emit(l->plan, l->index, e, l->err, &out);

    return rc < 0 ? rc : lower_set(l, 0, &out);
}

/* The kernel sees other dims than the graph. */
static int lower_reshaping(const struct lower *l, struct plan_emit *e)
{
    const struct kern_tensor *x = &e->p.in[0];
    const struct graph_value *y = lower_out(l, 0);
    const struct view given = e->in[0];
    struct view out;
    int rc = lower_reshape(l, &given, x->rank, x->dim, &e->in[0]);

    e->value = -1;
    if (rc == 0)
        rc = plan_emit(l->plan, l->index, e, l->err, &out);
    if (rc == 0)
        rc = lower_reshape(l, &out, y->rank, y->dim, &out);
    return rc < 0 ? rc : lower_set(l, 0, &out);
}

int lower_layer(const struct lower *l)
{
    struct plan_emit e;
    int rc;

    if (lower_is_integer(l))
        return lower_integers(l);
    rc = lower_begin(l, &e);
    if (rc < 0)
        return rc;
    return same_shape(&e.p.in[0], lower_in(l, 0)->t.rank, lower_in(l, 0)->t.dim)
               ? lower_end(l, &e)
               : lower_reshaping(l, &e);
}

bool lower_is_last(const struct view *v)
{
    return v->t.rank > 2 && v->t.stride[v->t.rank - 1] != 1;
}

int lower_copy_reshaped(const struct lower *l, const struct view *v,
                        const struct view *to, bool *done)
{
    struct view as_v;
    int rc;

    *done = false;
    if (!view_reshape(to, v->t.rank, v->t.dim, &as_v))
        return 0;
    rc = plan_copy_to(l->plan, l->index, v, &as_v, l->err);
    *done = rc == 0;
    return rc;
}

/* A channels-last tensor of the new dims, filled from v, where v does not have
 * its last dimension innermost and the new dims can be split into v's: channel
 * shuffles then stay channels last. */
static int reshape_last(const struct lower *l, const struct view *v, int rank,
                        const int64_t *dim, bool *done, struct view *out)
{
    int rc;

    *done = false;
    if (rank < 3 || !lower_is_last(v))
        return 0;
    rc = plan_buffer(l->plan, l->index, v->t.dtype, rank, dim, KERN_NHWC,
                     l->err, out);
    return rc < 0 ? rc : lower_copy_reshaped(l, v, out, done);
}

int lower_reshape(const struct lower *l, const struct view *v, int rank,
                  const int64_t *dim, struct view *out)
{
    struct view dense;
    bool done;
    int rc;

    if (view_reshape(v, rank, dim, out))
        return 0;
    if (kern_tensor_count(&v->t) == 0)
        return plan_buffer(l->plan, l->index, v->t.dtype, rank, dim, KERN_NCHW,
                           l->err, out);
    rc = reshape_last(l, v, rank, dim, &done, out);
    if (rc < 0 || done)
        return rc;
    rc = plan_dense(l->plan, l->index, v, KERN_NCHW, l->err, &dense);
    if (rc < 0)
        return rc;
    if (!view_reshape(&dense, rank, dim, out))
        return error_set(l->err, INFER_EFORMAT,
                         "node '%s': shapes before and after do not agree",
                         l->node->name ? l->node->name : "");
    return 0;
}
