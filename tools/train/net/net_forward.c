/* SPDX-License-Identifier: Apache-2.0 */
/* The forward pass: from nodes to steps, once for training and once for
 * evaluation. */
#include "tools/train/net/net_forward.h"

#include <string.h>

#include "kernels/base/error.h"

int net_fwd_make(const struct forward *f, int value, struct view *out)
{
    const struct graph_value *v = &f->n->g->value[value];
    int rc = net_tensor(f->n, memory_of(f), f->n->options.dtype, v->rank,
                        v->dim, NET_LAYOUT, f->err, out);

    if (rc == 0)
        *slot(f, value) = *out;
    return rc;
}

int net_fwd_finish(const struct forward *f, struct net_emit *e)
{
    int rc = net_fwd_make(f, f->out, &e->out[0]);

    return rc < 0 ? rc : net_emit(f->n, e, f->err);
}

/* ---- layers -------------------------------------------------------- */

/* Matrices are read in the type of the activations, vectors in the masters'. */
static bool is_matrix(enum graph_op op, int i)
{
    return i == 1 && (op == GRAPH_CONV || op == GRAPH_CONV_TRANSPOSE ||
                      op == GRAPH_DENSE || op == GRAPH_PRELU);
}

int net_fwd_begin(const struct forward *f, struct net_emit *e)
{
    const struct graph *g = f->n->g;

    net_emit_begin(e, f->list, KERN_COPY, NET_FPROP, node_index(f));
    if (f->chain->act >= 0)
        e->p.epilogue.act = g->node[f->chain->act].attr.unary;
    for (int i = 0; i < f->node->n_in && i < KERN_MAX_IN; i++)
        e->in[i] = input(f, i, is_matrix(f->node->op, i));
    return problem_of_node(g, f->node, f->err, &e->p, NULL);
}

/* A node that is one launch, with an output of its own. */
static int layer(const struct forward *f)
{
    struct net_emit e;
    const int rc = net_fwd_begin(f, &e);

    return rc < 0 ? rc : net_fwd_finish(f, &e);
}

static int conv(const struct forward *f)
{
    struct net_emit e;
    int rc = net_fwd_begin(f, &e);

    if (rc == 0)
        rc = net_fwd_make(f, f->out, &e.out[0]);
    if (rc == 0)
        rc = net_add_bn_stats(f->n, f->out, &e, f->err);
    return rc < 0 ? rc : net_emit(f->n, &e, f->err);
}

/* On a GPU the rows that read weights unpacked, which change every step, are
 * those of convolutions. */
static int dense_as_conv(const struct forward *f)
{
    const struct view x = input(f, 0, false), w = input(f, 1, true);
    struct net_emit e;
    struct view y;
    int rc = net_fwd_make(f, f->out, &y);

    net_emit_begin(&e, f->list, KERN_CONV_FPROP, NET_FPROP, node_index(f));
    if (f->chain->act >= 0)
        e.p.epilogue.act = f->n->g->node[f->chain->act].attr.unary;
    e.p.attr.conv = net_pixel_conv();
    if (rc == 0)
        rc = net_as_pixels(f->node, &x, f->err, &e.in[0]);
    if (rc == 0)
        rc = net_as_pixels(f->node, &w, f->err, &e.in[1]);
    if (rc == 0)
        rc = net_as_pixels(f->node, &y, f->err, &e.out[0]);
    e.in[2] = input(f, 2, false);
    return rc < 0 ? rc : net_emit(f->n, &e, f->err);
}

static int dense(const struct forward *f)
{
    return f->n->options.device->ops->host_memory ? layer(f) : dense_as_conv(f);
}

static int softmax(const struct forward *f)
{
    struct net_emit e;
    struct view x, y;
    int rc = net_fwd_begin(f, &e);

    x = e.in[0];
    if (rc == 0)
        rc = net_tensor(f->n, memory_of(f), x.t.dtype, x.t.rank, x.t.dim,
                        view_layout(&x.t), f->err, &y);
    if (rc < 0)
        return rc;
    *slot(f, f->out) = y;
    rc = net_problem_view(f->node, &e.p.in[0], &x, f->err, &e.in[0]);
    if (rc == 0)
        rc = net_problem_view(f->node, &e.p.out[0], &y, f->err, &e.out[0]);
    return rc < 0 ? rc : net_emit(f->n, &e, f->err);
}

/* A fill and a copy, which move whole vectors where pixels keep their channels.
 */
static int pad_zeros(const struct forward *f, const struct kern_pad *a)
{
    const struct view x = input(f, 0, false);
    const int at = node_index(f);
    const struct view zero = view_raise(&f->n->zero, x.t.rank);
    struct view whole, part, from;
    int rc = net_fwd_make(f, f->out, &whole);

    from = view_expand(&zero, whole.t.dim);
    if (rc == 0)
        rc = net_copy(f->n, f->list, NET_FPROP, at, &from, &whole, f->err);
    part = whole;
    for (int i = 0; i < x.t.rank; i++)
        part = view_slice(&part, i, a->begin[i], 1, x.t.dim[i]);
    return rc < 0 ? rc
                  : net_copy(f->n, f->list, NET_FPROP, at, &x, &part, f->err);
}

bool net_fwd_pads_zeros(const struct forward *f, const struct kern_pad *a)
{
    bool ok = a->mode == KERN_PAD_CONSTANT && a->value == 0 &&
              !f->n->options.device->ops->host_memory;

    for (int i = 0; i < KERN_MAX_RANK; i++)
        ok = ok && a->begin[i] >= 0 && a->end[i] >= 0;
    return ok;
}

static int pad(const struct forward *f)
{
    return net_fwd_pads_zeros(f, &f->node->attr.pad)
               ? pad_zeros(f, &f->node->attr.pad)
               : layer(f);
}

static int reduce(const struct forward *f)
{
    const struct graph_value *y = &f->n->g->value[f->out];
    struct net_emit e;
    int rc = net_fwd_begin(f, &e);

    if (rc == 0)
        rc =
            net_tensor(f->n, memory_of(f), f->n->options.dtype, e.p.out[0].rank,
                       e.p.out[0].dim, KERN_NCHW, f->err, &e.out[0]);
    if (rc == 0)
        rc = net_emit(f->n, &e, f->err);
    /* The graph may lack the dimensions of size 1. */
    if (rc == 0 && !view_reshape(&e.out[0], y->rank, y->dim, slot(f, f->out)))
        rc =
            error_set(f->err, INFER_EUNSUPPORTED,
                      "node '%s': its shape cannot be followed", f->node->name);
    return rc;
}

/* Dropout is one launch in training and nothing in inference. */
static int dropout(const struct forward *f)
{
    struct net_emit e;
    int rc;

    if (f->list == NET_LIST_EVAL) {
        *slot(f, f->out) = input(f, 0, false);
        return 0;
    }
    rc = net_fwd_begin(f, &e);
    e.p.attr.dropout.stream = f->n->stream[e.node] = (uint32_t)f->n->dropouts++;
    e.in[1] = f->n->random;
    return rc < 0 ? rc : net_fwd_finish(f, &e);
}

/* ---- all nodes ----------------------------------------------------- */

static int lower(const struct forward *f)
{
    switch (f->node->op) {
    case GRAPH_CONV:
        return conv(f);
    case GRAPH_DENSE:
        return dense(f);
    case GRAPH_BATCH_NORM:
        return net_fwd_batch_norm(f);
    case GRAPH_CONV_TRANSPOSE:
    case GRAPH_LAYER_NORM:
    case GRAPH_GROUP_NORM:
    case GRAPH_SCALE_SHIFT:
    case GRAPH_PRELU:
    case GRAPH_RESIZE:
    case GRAPH_POOL:
    case GRAPH_UNARY:
    case GRAPH_BINARY:
    case GRAPH_LRN:
        return layer(f);
    case GRAPH_PAD:
        return pad(f);
    case GRAPH_REDUCE:
        return reduce(f);
    case GRAPH_DROPOUT:
        return dropout(f);
    case GRAPH_RESHAPE:
    case GRAPH_FLATTEN:
    case GRAPH_SQUEEZE:
    case GRAPH_UNSQUEEZE:
        return net_fwd_reshape(f);
    case GRAPH_CONCAT:
        return net_fwd_concat(f);
    case GRAPH_SLICE:
        return net_fwd_slice(f);
    case GRAPH_SPLIT:
        return net_fwd_split(f);
    case GRAPH_TRANSPOSE:
        return net_fwd_transpose(f);
    case GRAPH_EXPAND:
        return net_fwd_expand(f);
    case GRAPH_TILE:
        return net_fwd_tile(f);
    case GRAPH_SOFTMAX:
        return softmax(f);
    default:
        return error_set(f->err, INFER_EUNSUPPORTED,
                         "node '%s': %s cannot be trained", f->node->name,
                         graph_op_info(f->node->op)->name);
    }
}

/* Evaluation in 16 bits reads a 16-bit copy of the averages. */
static int copy_averages(struct net *n, struct infer_error *err)
{
    const int64_t count = n->role_begin[NET_FROZEN];
    struct view from;
    int rc;

    if (!n->options.average || n->flat[NET_HALF] < 0)
        return 0;
    memset(&from, 0, sizeof(from));
    from.buffer = n->flat[NET_AVERAGE];
    from.t = kern_tensor_dense(INFER_F32, 1, &count, KERN_NCHW);
    rc = net_tensor(n, NET_EVAL, n->options.dtype, 1, &count, KERN_NCHW, err,
                    &n->averages);
    return rc < 0 ? rc
                  : net_copy(n, NET_LIST_EVAL, NET_FPROP, -1, &from,
                             &n->averages, err);
}

/* The batch arrives in single precision. */
static int take_input(struct net *n, int list, struct infer_error *err)
{
    const int value = n->g->input[0];
    struct view *to = &n->value[value].view[list == NET_LIST_EVAL];
    const struct kern_tensor *t = &n->input.t;
    int rc;

    *to = n->input;
    if (t->dtype == n->options.dtype)
        return 0;
    rc = net_tensor(n, list == NET_LIST_EVAL ? NET_EVAL : NET_TRAIN,
                    n->options.dtype, t->rank, t->dim, NET_LAYOUT, err, to);
    return rc < 0 ? rc : net_copy(n, list, NET_FPROP, -1, &n->input, to, err);
}

int net_forward(struct net *n, int list, struct infer_error *err)
{
    struct infer_error one;
    int worst, rc;

    error_clear(err);
    worst = list == NET_LIST_EVAL ? copy_averages(n, err) : 0;
    if (worst == 0)
        worst = take_input(n, list, err);
    if (worst < 0)
        return worst;
    for (int i = 0; i < n->g->n_nodes; i++) {
        const struct net_chain *c = &n->chain[i];
        const struct forward f = {
            n, list, c, &n->g->node[c->head], n->g->node[i].out[0], &one};

        if (n->absorbed[i])
            continue;
        rc = lower(&f);
        if (rc == INFER_EMEMORY || rc == INFER_EDEVICE) {
            *err = one;
            return rc;
        }
        /* Nodes after one that failed cannot be lowered either. */
        if (rc < 0)
            return error_add(err, rc, "%s", one.text);
    }
    return 0;
}
