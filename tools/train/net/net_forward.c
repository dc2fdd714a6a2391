/* SPDX-License-Identifier: Apache-2.0 */
/* The way forward: from nodes to launches, once as training computes them and
 * once as inference does. */
#include "tools/train/net/net_forward.h"

#include <string.h>

#include "kernels/base/error.h"
#include "libinfer/graph/ops/op.h"

int net_fwd_make(const struct forward *f, int value, struct view *out)
{
    const struct graph_value *v = &f->n->g->value[value];
    int rc = net_tensor(f->n, home(f), f->n->options.dtype, v->rank, v->dim,
                        NET_LAYOUT, f->err, out);

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

typedef int conv_attr_fn(const struct net *n, const struct graph_node *node,
                         struct kern_conv *out, struct infer_error *err);

/* A convolution, plain or transposed. */
static int conv(const struct forward *f, enum kern_op op, conv_attr_fn *attr)
{
    struct net_emit e;
    int rc;

    begin(f, op, &e);
    rc = attr(f->n, f->node, &e.p.attr.conv, f->err);
    if (rc < 0)
        return rc;
    e.in[0] = input(f, 0, false);
    e.in[1] = input(f, 1, true);
    e.in[2] = input(f, 2, false);
    rc = net_fwd_make(f, f->out, &e.out[0]);
    if (rc == 0 && op == KERN_CONV_FPROP)
        rc = net_add_bn_stats(f->n, f->out, &e, f->err);
    return rc < 0 ? rc : net_emit(f->n, &e, f->err);
}

/* The GPU's rows for weights that change are those of convolutions. */
static int dense_as_conv(const struct forward *f)
{
    const struct view x = input(f, 0, false), w = input(f, 1, true);
    struct net_emit e;
    struct view y;
    int rc = net_fwd_make(f, f->out, &y);

    begin(f, KERN_CONV_FPROP, &e);
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
    struct net_emit e;

    if (!f->n->options.device->ops->host_memory)
        return dense_as_conv(f);
    begin(f, KERN_DENSE_FPROP, &e);
    e.in[0] = input(f, 0, false);
    e.in[1] = input(f, 1, true);
    e.in[2] = input(f, 2, false);
    return net_fwd_finish(f, &e);
}

/* Layer and group norm, and scale and shift. */
static int norm(const struct forward *f, enum kern_op op)
{
    struct net_emit e;
    int rc = 0;

    begin(f, op, &e);
    for (int i = 0; i < 3; i++)
        e.in[i] = input(f, i, false);
    if (op != KERN_SCALE_SHIFT)
        rc = net_norm_attr(f->node, e.in[0].t.rank, &e.p.attr.norm, f->err);
    return rc < 0 ? rc : net_fwd_finish(f, &e);
}

static int prelu(const struct forward *f)
{
    struct net_emit e;

    begin(f, KERN_PRELU, &e);
    e.in[0] = input(f, 0, false);
    e.in[1] = input(f, 1, true);
    return net_fwd_finish(f, &e);
}

static int resize(const struct forward *f)
{
    struct net_emit e;

    begin(f, KERN_RESIZE, &e);
    e.p.attr.resize = net_resize_attr(f->n, f->node);
    e.in[0] = input(f, 0, false);
    return net_fwd_finish(f, &e);
}

static int pool(const struct forward *f)
{
    struct net_emit e;
    int rc;

    begin(f, KERN_POOL_FPROP, &e);
    rc = net_pool_attr(f->n, f->node, &e.p.attr.pool, f->err);
    if (rc < 0)
        return rc;
    e.in[0] = input(f, 0, false);
    return net_fwd_finish(f, &e);
}

static int unary(const struct forward *f)
{
    struct net_emit e;

    begin(f, KERN_UNARY, &e);
    e.p.attr.unary = f->node->attr.unary;
    e.in[0] = input(f, 0, false);
    return net_fwd_finish(f, &e);
}

static int binary(const struct forward *f)
{
    struct net_emit e;

    begin(f, KERN_BINARY, &e);
    e.p.attr.binary = f->node->attr.binary;
    e.in[0] = input(f, 0, false);
    e.in[1] = input(f, 1, false);
    return net_fwd_finish(f, &e);
}

static int softmax(const struct forward *f)
{
    const struct view x = input(f, 0, false);
    struct net_emit e;
    struct view y;
    int rc = net_tensor(f->n, home(f), x.t.dtype, x.t.rank, x.t.dim,
                        view_layout(&x.t), f->err, &y);

    *slot(f, f->out) = y;
    begin(f, KERN_SOFTMAX, &e);
    e.p.attr.softmax.log = f->node->attr.axis.log;
    if (rc == 0)
        rc = net_softmax_view(f->node, &x, f->err, &e.p.attr.softmax.axis,
                              &e.in[0]);
    if (rc == 0)
        rc = net_softmax_view(f->node, &y, f->err, &e.p.attr.softmax.axis,
                              &e.out[0]);
    return rc < 0 ? rc : net_emit(f->n, &e, f->err);
}

static int lrn(const struct forward *f)
{
    struct net_emit e;

    begin(f, KERN_LRN, &e);
    e.p.attr.lrn = f->node->attr.lrn;
    e.in[0] = input(f, 0, false);
    return net_fwd_finish(f, &e);
}

/* Zeros round a copy move whole vectors where pixels are what they were. */
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
    struct net_emit e;

    if (net_fwd_pads_zeros(f, &f->node->attr.pad))
        return pad_zeros(f, &f->node->attr.pad);
    begin(f, KERN_PAD, &e);
    e.p.attr.pad = f->node->attr.pad;
    e.in[0] = input(f, 0, false);
    return net_fwd_finish(f, &e);
}

static int reduce(const struct forward *f)
{
    const struct graph_reduce *a = &f->node->attr.reduce;
    const struct view x = input(f, 0, false);
    int64_t dim[KERN_MAX_RANK];
    struct net_emit e;
    int rc, axis;

    begin(f, KERN_REDUCE, &e);
    e.p.attr.reduce.kind = a->kind;
    e.p.attr.reduce.axes = a->n_axes == 0 ? (1u << x.t.rank) - 1 : 0;
    for (int i = 0; i < a->n_axes; i++) {
        rc = op_axis(a->axis[i], x.t.rank, &axis, f->err);
        if (rc < 0)
            return rc;
        e.p.attr.reduce.axes |= 1u << axis;
    }
    for (int i = 0; i < x.t.rank; i++)
        dim[i] = e.p.attr.reduce.axes >> i & 1 ? 1 : x.t.dim[i];
    rc = net_tensor(f->n, home(f), f->n->options.dtype, x.t.rank, dim,
                    KERN_NCHW, f->err, &e.out[0]);
    if (rc < 0)
        return rc;
    e.in[0] = x;
    rc = net_emit(f->n, &e, f->err);
    /* The dimensions of size 1 go where the graph lacks them. */
    if (rc == 0 && !view_reshape(&e.out[0], f->n->g->value[f->out].rank,
                                 f->n->g->value[f->out].dim, slot(f, f->out)))
        rc =
            error_set(f->err, INFER_EUNSUPPORTED,
                      "node '%s': its shape cannot be followed", f->node->name);
    return rc;
}

/* Dropout is one launch in training and nothing in inference. */
static int dropout(const struct forward *f)
{
    struct net_emit e;

    if (f->list == NET_LIST_EVAL) {
        *slot(f, f->out) = input(f, 0, false);
        return 0;
    }
    begin(f, KERN_DROPOUT, &e);
    e.p.attr.dropout.ratio = f->node->attr.dropout.ratio;
    e.p.attr.dropout.stream = f->n->stream[e.node] = (uint32_t)f->n->dropouts++;
    e.in[0] = input(f, 0, false);
    e.in[1] = f->n->random;
    return net_fwd_finish(f, &e);
}

/* ---- all nodes ----------------------------------------------------- */

static int lower(const struct forward *f)
{
    switch (f->node->op) {
    case GRAPH_CONV:
        return conv(f, KERN_CONV_FPROP, net_conv_attr);
    case GRAPH_DENSE:
        return dense(f);
    case GRAPH_BATCH_NORM:
        return net_fwd_batch_norm(f);
    case GRAPH_CONV_TRANSPOSE:
        return conv(f, KERN_CONV_TRANSPOSE_FPROP, net_conv_transpose_attr);
    case GRAPH_LAYER_NORM:
        return norm(f, KERN_LAYER_NORM);
    case GRAPH_GROUP_NORM:
        return norm(f, KERN_GROUP_NORM);
    case GRAPH_SCALE_SHIFT:
        return norm(f, KERN_SCALE_SHIFT);
    case GRAPH_PRELU:
        return prelu(f);
    case GRAPH_RESIZE:
        return resize(f);
    case GRAPH_POOL:
        return pool(f);
    case GRAPH_UNARY:
        return unary(f);
    case GRAPH_BINARY:
        return binary(f);
    case GRAPH_LRN:
        return lrn(f);
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
        /* What follows a node that failed cannot be lowered either. */
        if (rc < 0)
            return error_add(err, rc, "%s", one.text);
    }
    return 0;
}
