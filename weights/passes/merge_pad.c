/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge-pad: explicit padding becomes the padding of the window operation
 * that reads it.
 *
 *   conv           value 0; its own padding is zero too
 *   average pool   value 0, counted as elements: count_include_pad
 *   max pool       a value that never wins: -infinity, or 0 where no element
 *                  can be negative
 */
#include "weights/passes/pass.h"

#include <float.h>
#include <math.h>

/* A node is looked through this many operations for its range. */
#define MAX_DEPTH 8

static bool nonnegative_function(const struct kern_unary *u)
{
    return u->kind == KERN_RELU || u->kind == KERN_SIGMOID ||
           u->kind == KERN_HARD_SIGMOID || u->kind == KERN_SOFTPLUS ||
           u->kind == KERN_EXP || u->kind == KERN_ABS || u->kind == KERN_SQRT ||
           (u->kind == KERN_CLIP && u->a >= 0);
}

/* True where no element of the value can be negative. */
static bool nonnegative(const struct pass *p, int value, int depth)
{
    const struct graph_node *n;

    if (value < 0 || p->g->value[value].producer < 0 || depth == 0)
        return false;
    n = &p->g->node[p->g->value[value].producer];
    if (n->epilogue.act.kind != KERN_IDENTITY)
        return nonnegative_function(&n->epilogue.act) &&
               !n->epilogue.residual_last;
    if (pass_residual(n) >= 0)
        return false;
    if (n->op == GRAPH_UNARY)
        return nonnegative_function(&n->attr.unary);
    if (n->op == GRAPH_SOFTMAX)
        return !n->attr.axis.log;
    if (n->op == GRAPH_POOL || n->op == GRAPH_DROPOUT ||
        n->op == GRAPH_RESHAPE || n->op == GRAPH_TRANSPOSE ||
        n->op == GRAPH_SLICE)
        return nonnegative(p, n->in[0], depth - 1);
    if (n->op != GRAPH_CONCAT || n->n_in > 16)
        return false;
    for (int i = 0; i < n->n_in; i++)
        if (!nonnegative(p, n->in[i], depth - 2 > 0 ? depth - 2 : 0))
            return false;
    return n->n_in > 0;
}

/* Constant padding of spatial dimensions, none of it negative. */
static bool spatial_padding(const struct graph_node *n, int rank)
{
    const struct kern_pad *pad = &n->attr.pad;

    if (pad->mode != KERN_PAD_CONSTANT || rank < 3 ||
        rank > 2 + KERN_MAX_SPATIAL)
        return false;
    for (int i = 0; i < rank; i++)
        if (pad->begin[i] < 0 || pad->end[i] < 0 ||
            (i < 2 && (pad->begin[i] != 0 || pad->end[i] != 0)))
            return false;
    return true;
}

/* Adds the pads of a Pad node to those of a window; false, and nothing
 * changed, where a window could then lie in padding alone. */
static bool add_pads(const struct kern_pad *pad, int spatial,
                     const int64_t *window, const int *dilation, int *begin,
                     int *end)
{
    for (int i = 0; i < spatial; i++) {
        int64_t extent = (window[i] - 1) * (dilation[i] ? dilation[i] : 1) + 1;

        if ((int64_t)begin[i] + pad->begin[2 + i] >= extent ||
            (int64_t)end[i] + pad->end[2 + i] >= extent)
            return false;
    }
    for (int i = 0; i < spatial; i++) {
        begin[i] += pad->begin[2 + i];
        end[i] += pad->end[2 + i];
    }
    return true;
}

static bool into_conv(const struct pass *p, struct graph_node *n,
                      const struct graph_node *pad)
{
    struct graph_conv *conv = &n->attr.conv;
    const struct graph_value *x = &p->g->value[pad->in[0]];
    const struct graph_value *w = &p->g->value[n->in[1]];
    int spatial = x->rank - 2;

    if (pad->attr.pad.value != 0 || w->rank != x->rank ||
        (conv->auto_pad != GRAPH_PAD_EXPLICIT &&
         conv->auto_pad != GRAPH_PAD_VALID))
        return false;
    if (conv->auto_pad == GRAPH_PAD_VALID) {
        conv->auto_pad = GRAPH_PAD_EXPLICIT;
        for (int i = 0; i < KERN_MAX_SPATIAL; i++)
            conv->conv.pad_begin[i] = conv->conv.pad_end[i] = 0;
    }
    return add_pads(&pad->attr.pad, spatial, w->dim + 2, conv->conv.dilation,
                    conv->conv.pad_begin, conv->conv.pad_end);
}

static bool padded(const struct graph_pool *pool, int spatial)
{
    if (pool->auto_pad != GRAPH_PAD_EXPLICIT)
        return pool->auto_pad != GRAPH_PAD_VALID;
    for (int i = 0; i < spatial; i++)
        if (pool->pool.pad_begin[i] != 0 || pool->pool.pad_end[i] != 0)
            return true;
    return false;
}

/* Whether a maximum over padding of this value is the maximum without it. */
static bool never_wins(const struct pass *p, const struct graph_node *pad)
{
    float value = pad->attr.pad.value;

    if (value <= -FLT_MAX)
        return true;
    return value == 0 && nonnegative(p, pad->in[0], MAX_DEPTH);
}

static bool into_pool(const struct pass *p, struct graph_node *n,
                      const struct graph_node *pad)
{
    struct graph_pool *pool = &n->attr.pool;
    int spatial = p->g->value[pad->in[0]].rank - 2;
    bool average = pool->pool.kind == KERN_POOL_AVERAGE;
    int64_t window[KERN_MAX_SPATIAL] = {0};

    /* With ceil mode the number of windows depends on what is padding; with
     * pads of its own an average tells the two kinds apart. */
    if (pool->ceil_mode || pool->pool.window[0] == 0)
        return false;
    if (average && (pad->attr.pad.value != 0 ||
                    (padded(pool, spatial) && !pool->pool.count_include_pad)))
        return false;
    if (!average && !never_wins(p, pad))
        return false;
    if (pool->auto_pad != GRAPH_PAD_EXPLICIT) {
        if (padded(pool, spatial))
            return false;
        pool->auto_pad = GRAPH_PAD_EXPLICIT;
        for (int i = 0; i < spatial; i++)
            pool->pool.pad_begin[i] = pool->pool.pad_end[i] = 0;
    }
    for (int i = 0; i < spatial; i++)
        window[i] = pool->pool.window[i];
    if (!add_pads(&pad->attr.pad, spatial, window, pool->pool.dilation,
                  pool->pool.pad_begin, pool->pool.pad_end))
        return false;
    if (average)
        pool->pool.count_include_pad = true;
    return true;
}

int pass_merge_pad(struct pass *p, int node)
{
    struct graph *g = p->g;
    struct graph_node *n = &g->node[node];
    const struct graph_node *pad;
    int before, rc;

    if (n->op != GRAPH_CONV && n->op != GRAPH_POOL)
        return 0;
    before = pass_producer(p, n->in[0], GRAPH_PAD);
    if (before < 0)
        return 0;
    pad = &g->node[before];
    if (pad->n_in < 1 || !spatial_padding(pad, g->value[pad->in[0]].rank))
        return 0;
    if (n->op == GRAPH_CONV ? !into_conv(p, n, pad) : !into_pool(p, n, pad))
        return 0;
    pass_note(p, 0, "%s into %s", pad->name, n->name);
    rc = pass_set_input(p, node, 0, pad->in[0]);
    return rc < 0 ? rc : 1;
}
