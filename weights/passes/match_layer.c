/* SPDX-License-Identifier: Apache-2.0 */
/*
 * match-layers: layers that exporters spell out.
 *
 *   global pooling    a mean (or maximum) over all spatial dimensions
 *   dense             a matrix product with a constant matrix
 *   depth_to_space    reshape to blocks, transpose, reshape
 */
#include "weights/passes/pass.h"

#include <string.h>

/* ---- global pooling ------------------------------------------------ */

/* The axes are exactly the spatial dimensions of x. */
static bool all_spatial(const struct graph_reduce *r,
                        const struct graph_value *x)
{
    unsigned seen = 0;

    if (x->rank < 3 || x->rank > 2 + KERN_MAX_SPATIAL)
        return false;
    for (int i = 0; i < r->n_axes; i++) {
        int axis = r->axis[i] < 0 ? r->axis[i] + x->rank : r->axis[i];

        if (axis < 0 || axis >= x->rank)
            return false;
        seen |= 1u << axis;
    }
    return seen == (1u << x->rank) - 4;
}

static void global_pool(struct graph_node *n, enum kern_pool_kind kind)
{
    struct graph_pool *pool = &n->attr.pool;

    pool->pool.kind = kind;
    pool->pool.count_include_pad = false;
    pool->auto_pad = GRAPH_PAD_EXPLICIT;
    pool->ceil_mode = false;
    for (int i = 0; i < KERN_MAX_SPATIAL; i++) {
        pool->pool.window[i] = 0;
        pool->pool.stride[i] = 1;
        pool->pool.dilation[i] = 1;
        pool->pool.pad_begin[i] = pool->pool.pad_end[i] = 0;
    }
}

static int match_global_pool(struct pass *p, int node)
{
    struct graph *g = p->g;
    struct graph_node *n = &g->node[node];
    struct graph_reduce reduce;
    enum kern_pool_kind kind;
    int x, pooled, rc;

    if (n->op != GRAPH_REDUCE || n->n_in != 1 || !pass_plain(n))
        return 0;
    reduce = n->attr.reduce;
    if (reduce.kind != KERN_REDUCE_MEAN && reduce.kind != KERN_REDUCE_MAX)
        return 0;
    kind = reduce.kind == KERN_REDUCE_MEAN ? KERN_POOL_AVERAGE : KERN_POOL_MAX;
    x = n->in[0];
    if (!pass_is_float(&g->value[x]) || !all_spatial(&reduce, &g->value[x]))
        return 0;
    if (reduce.keep_dims) {
        rc = pass_become(p, node, GRAPH_POOL, &x, 1);
        if (rc < 0)
            return rc;
        global_pool(&g->node[node], kind);
    } else {
        /* The reduction was to N,C: pool, then flatten. */
        pooled = pass_add_node(p, GRAPH_POOL, &x, 1);
        if (pooled < 0)
            return pooled;
        global_pool(&g->node[g->value[pooled].producer], kind);
        rc = pass_become(p, node, GRAPH_FLATTEN, &pooled, 1);
        if (rc < 0)
            return rc;
        g->node[node].attr.axis.axis = 1;
    }
    pass_note(p, 0, "%s is global pooling", g->node[node].name);
    return 1;
}

/* ---- dense --------------------------------------------------------- */

/* The matrix of a product as weights K,C: transposed where it came as C,K.
 * A value, or an error. */
static int dense_weight(struct pass *p, int node, bool transposed)
{
    static const int order[2] = {1, 0};
    const struct graph_node *n = &p->g->node[node];
    struct constant *c = pass_constant(p, n, 1);
    int value = n->in[1];

    if (transposed)
        return value;
    c = constant_transpose(c, order);
    if (!c)
        return pass_no_memory(p);
    if (pass_reader(p, value) == node) {
        pass_put_constant(p, value, c);
        return value;
    }
    return pass_add_constant(p, p->g->value[value].name, ".transposed", c);
}

static int match_dense(struct pass *p, int node)
{
    struct graph *g = p->g;
    struct graph_node *n = &g->node[node];
    const struct constant *w;
    int in[2], rc;

    if (n->op != GRAPH_MATMUL || n->n_in != 2 || !pass_plain(n) ||
        n->attr.matmul.transpose_a || n->attr.matmul.alpha != 1.0f)
        return 0;
    w = pass_constant(p, n, 1);
    if (!w || w->rank != 2 || !pass_is_float(&g->value[n->in[0]]) ||
        g->value[n->in[0]].rank < 2 || pass_value_constant(p, n->in[0]))
        return 0;
    in[0] = n->in[0];
    in[1] = dense_weight(p, node, n->attr.matmul.transpose_b);
    if (in[1] < 0)
        return in[1];
    rc = pass_become(p, node, GRAPH_DENSE, in, 2);
    if (rc < 0)
        return rc;
    pass_note(p, 0, "%s is a dense layer", g->node[node].name);
    return 1;
}

/* ---- depth to space ------------------------------------------------ */

/* Whether `order` is `want`, both of six entries. */
static bool has_order(const struct graph_dims *order, const int *want)
{
    for (int i = 0; i < 6; i++)
        if (order->n != 6 || order->dim[i] != want[i])
            return false;
    return true;
}

/* The block size where blocks (rank 6) split channels of x as wanted and y
 * joins them again; else 0. */
static int block_size(const struct graph_value *x, const struct graph_value *b,
                      const struct graph_value *y, bool crd)
{
    int64_t block;

    if (x->rank != 4 || b->rank != 6 || y->rank != 4)
        return 0;
    for (int i = 1; i < 6; i++)
        if (b->dim[i] < 1)
            return 0;
    block = crd ? b->dim[2] : b->dim[1];
    if (block < 2 || block > INT32_MAX || b->dim[crd ? 3 : 2] != block)
        return 0;
    /* Batch, rows and columns stay where they are. */
    if (b->dim[0] != x->dim[0] || b->dim[4] != x->dim[2] ||
        b->dim[5] != x->dim[3] || y->dim[0] != x->dim[0] ||
        y->dim[1] != b->dim[crd ? 1 : 3] || y->dim[2] != x->dim[2] * block ||
        y->dim[3] != x->dim[3] * block)
        return 0;
    return (int)block;
}

static int match_depth_to_space(struct pass *p, int node)
{
    /* N,C,r,r,H,W to N,C,H,r,W,r; and N,r,r,C,H,W to N,C,H,r,W,r. */
    static const int crd_order[6] = {0, 1, 4, 2, 5, 3};
    static const int dcr_order[6] = {0, 3, 4, 1, 5, 2};
    struct graph *g = p->g;
    const struct graph_node *n = &g->node[node];
    int transpose, reshape, block, x, rc;
    bool crd;

    if (n->op != GRAPH_RESHAPE)
        return 0;
    transpose = pass_producer(p, n->in[0], GRAPH_TRANSPOSE);
    if (transpose < 0)
        return 0;
    crd = has_order(&g->node[transpose].attr.dims, crd_order);
    if (!crd && !has_order(&g->node[transpose].attr.dims, dcr_order))
        return 0;
    reshape = pass_producer(p, g->node[transpose].in[0], GRAPH_RESHAPE);
    if (reshape < 0)
        return 0;
    x = g->node[reshape].in[0];
    block = block_size(&g->value[x], &g->value[g->node[reshape].out[0]],
                       &g->value[n->out[0]], crd);
    if (block == 0)
        return 0;
    rc = pass_become(p, node, GRAPH_DEPTH_TO_SPACE, &x, 1);
    if (rc < 0)
        return rc;
    g->node[node].attr.depth_space.block = block;
    g->node[node].attr.depth_space.crd = crd;
    pass_note(p, 0, "%s is depth to space", g->node[node].name);
    return 1;
}

int pass_match_layers(struct pass *p, int node)
{
    int rc = match_global_pool(p, node);

    if (rc == 0)
        rc = match_dense(p, node);
    if (rc == 0)
        rc = match_depth_to_space(p, node);
    return rc;
}
