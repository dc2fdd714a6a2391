/* SPDX-License-Identifier: Apache-2.0 */
/* The forward pass: from nodes to steps, once for training and once for
 * evaluation. */
#include "tools/train/net/net_rules.h"

struct view net_fwd_make(const struct lowering *f, int value)
{
    const struct graph_value *v = &f->n->g->value[value];

    return *slot(f, value) = net_tensor(f->n, memory_of(f), f->n->options.dtype,
                                        v->rank, v->dim, NET_LAYOUT);
}

void net_fwd_finish(const struct lowering *f, struct net_launch *e)
{
    e->out[0] = net_fwd_make(f, f->out);
    net_launch(f->n, e);
}

/* ---- layers -------------------------------------------------------- */

/* Matrices are read in the type of the activations, vectors in the masters'. */
static bool is_matrix(enum graph_op op, int i)
{
    return i == 1 && (op == GRAPH_CONV || op == GRAPH_CONV_TRANSPOSE ||
                      op == GRAPH_DENSE || op == GRAPH_PRELU);
}

/* A launch with the chain's activation. */
static struct net_launch begin(const struct lowering *f, enum kern_op op)
{
    struct net_launch e = net_begin_launch(f->where, op);

    if (f->chain->act >= 0)
        e.p.epilogue.act = f->n->g->node[f->chain->act].attr.unary;
    return e;
}

struct net_launch net_fwd_begin(const struct lowering *f)
{
    struct net_launch e = begin(f, KERN_COPY);

    for (int i = 0; i < f->node->n_in && i < KERN_MAX_IN; i++)
        e.in[i] = input(f, i, is_matrix(f->node->op, i));
    net_check(f->n,
              problem_of_node(f->n->g, f->node, net_err(f->n), &e.p, NULL));
    return e;
}

/* A node that is one launch, with an output of its own. */
static void layer(const struct lowering *f)
{
    struct net_launch e = net_fwd_begin(f);

    net_fwd_finish(f, &e);
}

static void conv(const struct lowering *f)
{
    struct net_launch e = net_fwd_begin(f);

    e.out[0] = net_fwd_make(f, f->out);
    net_add_bn_stats(f->n, f->out, &e);
    net_launch(f->n, &e);
}

/* On a GPU the rows that read weights unpacked, which change every step, are
 * those of convolutions. */
static void dense_as_conv(const struct lowering *f)
{
    const struct view x = input(f, 0, false), w = input(f, 1, true);
    struct net_launch e = begin(f, KERN_CONV_FPROP);
    const struct view y = net_fwd_make(f, f->out);

    e.p.attr.conv = net_pixel_conv();
    e.in[0] = net_as_pixels(f->n, f->node, &x);
    e.in[1] = net_as_pixels(f->n, f->node, &w);
    e.out[0] = net_as_pixels(f->n, f->node, &y);
    e.in[2] = input(f, 2, false);
    net_launch(f->n, &e);
}

static void dense(const struct lowering *f)
{
    (f->n->options.device->ops->host_memory ? layer : dense_as_conv)(f);
}

static void resize(const struct lowering *f)
{
    if (f->node->n_in > 1)
        net_fail(f->n, INFER_EUNSUPPORTED,
                 "node '%s': a resize to the size of another tensor cannot be "
                 "trained",
                 f->node->name);
    layer(f);
}

static void softmax(const struct lowering *f)
{
    struct net_launch e = net_fwd_begin(f);
    const struct view x = e.in[0];
    const struct view y = net_tensor(f->n, memory_of(f), x.t.dtype, x.t.rank,
                                     x.t.dim, view_layout(&x.t));

    *slot(f, f->out) = y;
    e.in[0] = net_problem_view(f->n, f->node, &e.p.in[0], &x);
    e.out[0] = net_problem_view(f->n, f->node, &e.p.out[0], &y);
    net_launch(f->n, &e);
}

/* Rows of a transposed picture stay where its pixels' channels lie. */
static void layer_norm(const struct lowering *f)
{
    struct net_launch e = net_fwd_begin(f);
    const struct kern_tensor *x = &e.in[0].t;

    e.out[0] = *slot(f, f->out) = net_tensor(f->n, memory_of(f), x->dtype,
                                             x->rank, x->dim, view_layout(x));
    net_launch(f->n, &e);
}

/* A fill and a copy, which move whole vectors where pixels keep their channels.
 */
static void pad_zeros(const struct lowering *f)
{
    const struct view x = input(f, 0, false);
    const struct view whole = net_fwd_make(f, f->out);
    struct view part;
    int64_t at = 0;

    net_fill_zero(f->n, f->where, &whole);
    net_check(f->n, problem_place(f->n->g, f->node, 0, &whole, &at,
                                  net_err(f->n), &part));
    net_copy(f->n, f->where, &x, &part);
}

bool net_fwd_pads_zeros(const struct lowering *f, const struct kern_pad *a)
{
    bool ok = a->mode == KERN_PAD_CONSTANT && a->value == 0 &&
              !f->n->options.device->ops->host_memory;

    for (int i = 0; i < KERN_MAX_RANK; i++)
        ok = ok && a->begin[i] >= 0 && a->end[i] >= 0;
    return ok;
}

static void pad(const struct lowering *f)
{
    (net_fwd_pads_zeros(f, &f->node->attr.pad) ? pad_zeros : layer)(f);
}

static void reduce(const struct lowering *f)
{
    const struct graph_value *y = &f->n->g->value[f->out];
    struct net_launch e = net_fwd_begin(f);

    e.out[0] = net_tensor(f->n, memory_of(f), f->n->options.dtype,
                          e.p.out[0].rank, e.p.out[0].dim, KERN_NCHW);
    net_launch(f->n, &e);
    /* The graph may lack the dimensions of size 1. */
    *slot(f, f->out) = net_reshape(f->n, f->node, &e.out[0], y->rank, y->dim,
                                   "its shape cannot be followed");
}

/* Dropout is one launch in training and nothing in inference. */
static void dropout(const struct lowering *f)
{
    struct net_launch e;

    if (f->where.list == NET_LIST_EVAL) {
        *slot(f, f->out) = input(f, 0, false);
        return;
    }
    e = net_fwd_begin(f);
    e.p.attr.dropout.stream = f->n->stream[f->where.node] =
        (uint32_t)f->n->dropouts++;
    e.in[1] = f->n->random;
    net_fwd_finish(f, &e);
}

/* ---- all nodes ----------------------------------------------------- */

/* NULL: the operation cannot be trained. */
static net_rule *const rules[GRAPH_OP_COUNT] = {
    [GRAPH_CONV] = conv,
    [GRAPH_DENSE] = dense,
    [GRAPH_BATCH_NORM] = net_fwd_batch_norm,
    [GRAPH_CONV_TRANSPOSE] = layer,
    [GRAPH_LAYER_NORM] = layer_norm,
    [GRAPH_GROUP_NORM] = layer,
    [GRAPH_SCALE_SHIFT] = layer,
    [GRAPH_PRELU] = layer,
    [GRAPH_RESIZE] = resize,
    [GRAPH_POOL] = layer,
    [GRAPH_UNARY] = layer,
    [GRAPH_BINARY] = layer,
    [GRAPH_LRN] = layer,
    [GRAPH_PAD] = pad,
    [GRAPH_REDUCE] = reduce,
    [GRAPH_DROPOUT] = dropout,
    [GRAPH_RESHAPE] = net_fwd_reshape,
    [GRAPH_FLATTEN] = net_fwd_reshape,
    [GRAPH_SQUEEZE] = net_fwd_reshape,
    [GRAPH_UNSQUEEZE] = net_fwd_reshape,
    [GRAPH_CONCAT] = net_fwd_concat,
    [GRAPH_SLICE] = net_fwd_parts,
    [GRAPH_SPLIT] = net_fwd_parts,
    [GRAPH_TRANSPOSE] = net_fwd_parts,
    [GRAPH_EXPAND] = net_fwd_parts,
    [GRAPH_TILE] = net_fwd_tile,
    [GRAPH_SOFTMAX] = softmax,
};

/* Evaluation in 16 bits reads a 16-bit copy of the averages. */
static void copy_averages(struct net *n)
{
    const struct net_where where = {NET_LIST_EVAL, NET_FPROP, -1};
    const int64_t count = n->role_begin[NET_FROZEN];
    const struct view from = net_range(n, NET_AVERAGE, INFER_F32, 0, count);

    if (!n->options.average || n->flat[NET_HALF] < 0)
        return;
    n->averages = net_vector(n, NET_EVAL, n->options.dtype, count);
    net_copy(n, where, &from, &n->averages);
}

/* The batch arrives in single precision. */
static void take_input(struct net *n, int list)
{
    const int value = n->g->input[0];
    struct view *to = &n->value[value].view[list == NET_LIST_EVAL];
    const struct net_where where = {list, NET_FPROP, -1};
    const struct kern_tensor *t = &n->input.t;

    *to = n->input;
    if (t->dtype == n->options.dtype)
        return;
    *to = net_tensor(n, list == NET_LIST_EVAL ? NET_EVAL : NET_TRAIN,
                     n->options.dtype, t->rank, t->dim, NET_LAYOUT);
    net_copy(n, where, &n->input, to);
}

void net_forward(struct net *n, int list)
{
    if (list == NET_LIST_EVAL)
        copy_averages(n);
    take_input(n, list);
    for (int i = 0; n->rc == 0 && i < n->g->n_nodes; i++) {
        const struct net_chain *c = &n->chain[i];
        const struct lowering f = {.n = n,
                                   .where = {list, NET_FPROP, c->head},
                                   .chain = c,
                                   .node = &n->g->node[c->head],
                                   .out = n->g->node[i].out[0]};

        if (n->absorbed[i])
            continue;
        if (rules[f.node->op])
            rules[f.node->op](&f);
        else
            net_fail(n, INFER_EUNSUPPORTED, "node '%s': %s cannot be trained",
                     f.node->name, graph_op_info(f.node->op)->name);
    }
}
