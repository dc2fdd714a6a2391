/* SPDX-License-Identifier: Apache-2.0 */
/* The way forward: from nodes to launches, once as training computes them and
 * once as inference does. */
#include "tools/train/net.h"

#include <string.h>

#include "kernels/error.h"
#include "kernels/moments.h"
#include "libinfer/ops/op.h"

/* One node, or one chain, being lowered. */
struct forward {
    struct net *n;
    int list;
    const struct net_chain *chain;
    const struct graph_node *node; /* the head */
    int out;                       /* value that the chain ends in */
    struct infer_error *err;
};

static enum net_home home(const struct forward *f)
{
    return f->list == NET_LIST_EVAL ? NET_EVAL : NET_TRAIN;
}

static struct view *slot(const struct forward *f, int value)
{
    return &f->n->value[value].view[f->list == NET_LIST_EVAL];
}

/* A fresh tensor for a value; integers keep their type. */
static int make(const struct forward *f, int value, struct view *out)
{
    const struct graph_value *v = &f->n->g->value[value];
    int rc = net_tensor(f->n, home(f), f->n->options.dtype, v->rank, v->dim,
                        NET_LAYOUT, f->err, out);

    if (rc == 0)
        *slot(f, value) = *out;
    return rc;
}

static struct view input(const struct forward *f, int i, bool matrix)
{
    return i < f->node->n_in
               ? net_operand(f->n, f->list, f->node->in[i], matrix)
               : net_operand(f->n, f->list, -1, false);
}

static void begin(const struct forward *f, enum kern_op op, struct net_emit *e)
{
    net_emit_begin(e, f->list, op, NET_FPROP, (int)(f->node - f->n->g->node));
    if (f->chain->act >= 0)
        e->p.epilogue.act = f->n->g->node[f->chain->act].attr.unary;
}

/* Emits a problem whose only output is the chain's. */
static int finish(const struct forward *f, struct net_emit *e)
{
    int rc = make(f, f->out, &e->out[0]);

    return rc < 0 ? rc : net_emit(f->n, e, f->err);
}

/* ---- layers -------------------------------------------------------- */

/* Whether a batch norm that takes the batch's statistics, and nothing else,
 * reads what the node gives. */
static bool feeds_norm(const struct forward *f)
{
    const int user = graph_single_user(f->n->g, f->out);

    return f->list == NET_LIST_TRAIN && user >= 0 &&
           f->n->g->node[user].op == GRAPH_BATCH_NORM &&
           f->n->g->node[user].in[0] == f->out &&
           !net_norm_is_frozen(f->n, &f->n->g->node[user]);
}

/* Whether moments pay that row `with` gives, where `without` would be taken
 * else: half of what the batch norm need not read any more, on an H200 as in
 * the estimates, may go into another row.  Rows that estimate nothing are as
 * quick with them as without. */
static bool moments_pay(const struct kern_row *with, struct kern_problem *p,
                        const struct kern_row *without,
                        const struct kern_device *d)
{
    const struct kern_tensor moments = p->out[1];
    const double bytes = (double)kern_tensor_span(&p->out[0]);
    double time;

    if (!with || !without || !with->estimate || !without->estimate)
        return with && with == without;
    time = with->estimate(p, d);
    p->out[1].dtype = INFER_NONE;
    time -= without->estimate(p, d);
    p->out[1] = moments;
    return time <= bytes / 4e6 / 2;
}

/* Asks for the moments of the output where they pay. */
static int add_moments(const struct forward *f, struct net_emit *e)
{
    struct net *n = f->n;
    const struct kern_tensor *y = &e->out[0].t;
    const enum infer_dtype type =
        n->options.dtype == INFER_F64 ? INFER_F64 : INFER_F32;
    const int64_t pixels = kern_tensor_count(y) / y->dim[1];
    const int64_t dim[3] = {moments_parts(MOMENTS_PART, pixels), 2, y->dim[1]};
    const struct kern_row *without = net_row(n, e), *with;
    bool pay;
    int rc;

    e->out[1].t = kern_tensor_dense(type, 3, dim, KERN_NCHW);
    with = net_row(n, e);
    pay = moments_pay(with, &e->p, without, &n->options.device->kern);
    memset(&e->out[1], 0, sizeof(e->out[1]));
    if (!pay)
        return 0;
    rc = net_tensor(n, NET_TRAIN, type, 3, dim, KERN_NCHW, f->err, &e->out[1]);
    n->value[f->out].moments = e->out[1];
    return rc;
}

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
    rc = make(f, f->out, &e.out[0]);
    if (rc == 0 && op == KERN_CONV_FPROP && feeds_norm(f))
        rc = add_moments(f, &e);
    return rc < 0 ? rc : net_emit(f->n, &e, f->err);
}

/* The GPU's rows for weights that change are those of convolutions. */
static int dense_as_conv(const struct forward *f)
{
    const struct view x = input(f, 0, false), w = input(f, 1, true);
    struct net_emit e;
    struct view y;
    int rc = make(f, f->out, &y);

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
    return finish(f, &e);
}

/* ReLU's way back asks only which elements of y are above 0: a bit each, where
 * the rows that are taken both ways know such.  e: the way forward. */
static int keep_signs(const struct forward *f, struct net_emit *e)
{
    struct net *n = f->n;
    const int act = f->chain->act;
    struct view *signs = &n->signs[e->node];
    struct net_emit forth = *e, without = *e, back, by_sign;
    struct kern_tensor t = e->out[0].t;
    int rc;

    if (act < 0 || n->g->node[act].attr.unary.kind != KERN_RELU ||
        t.dim[1] % 8 != 0 || !n->value[f->out].needs_grad)
        return 0;
    t.dim[1] /= 8;
    rc = net_tensor(n, NET_TRAIN, INFER_U8, t.rank, t.dim, NET_LAYOUT, f->err,
                    signs);
    if (rc < 0)
        return rc;
    forth.out[5] = *signs;
    net_batch_norm_dgrad(n, f->chain, &e->out[0], &e->out[0], false, &back);
    net_batch_norm_dgrad(n, f->chain, &e->out[0], &e->out[0], true, &by_sign);
    back.out[0] = by_sign.out[0] = e->out[0];
    back.out[1] = back.out[2] = by_sign.out[1] = by_sign.out[2] = e->in[1];
    if (net_row(n, &forth) == net_row(n, &without) &&
        net_row(n, &by_sign) == net_row(n, &back))
        e->out[5] = *signs;
    else
        signs->t.dtype = INFER_NONE;
    return 0;
}

/* Statistics of the batch in training; running ones are moved in place. */
static int norm_of_batch(const struct forward *f, struct net_emit *e)
{
    struct net *n = f->n;
    const int at = e->node;
    const int64_t channels = e->in[0].t.dim[1];
    const enum infer_dtype type = e->in[1].t.dtype;
    int rc;

    e->p.attr.norm.momentum = n->options.bn_momentum;
    rc = net_tensor(n, NET_TRAIN, type, 1, &channels, KERN_NCHW, f->err,
                    &n->mean[at]);
    if (rc == 0)
        rc = net_tensor(n, NET_TRAIN, type, 1, &channels, KERN_NCHW, f->err,
                        &n->deviation[at]);
    if (rc < 0)
        return rc;
    e->out[1] = n->mean[at];
    e->out[2] = n->deviation[at];
    e->out[3] = e->in[3];
    e->out[4] = e->in[4];
    rc = make(f, f->out, &e->out[0]);
    if (rc == 0)
        rc = keep_signs(f, e);
    return rc < 0 ? rc : net_emit(n, e, f->err);
}

/* The same where the batch is that of all processes. */
static int norm_of_all(const struct forward *f, struct net_emit *e)
{
    const int rc = make(f, f->out, &e->out[0]);

    return rc < 0 ? rc : net_sync_norm(f->n, e, f->err);
}

static int batch_norm(const struct forward *f)
{
    const bool train =
        f->list == NET_LIST_TRAIN && !net_norm_is_frozen(f->n, f->node);
    struct net_emit e;

    begin(f, train ? KERN_BATCH_NORM_TRAIN : KERN_BATCH_NORM, &e);
    e.p.attr.norm = f->node->attr.norm;
    for (int i = 0; i < 5; i++)
        e.in[i] = input(f, i, false);
    e.in[5] = net_operand(f->n, f->list, f->chain->residual, false);
    if (!train)
        return finish(f, &e);
    e.in[6] = f->n->value[f->node->in[0]].moments;
    return net_syncs_norms(f->n) ? norm_of_all(f, &e) : norm_of_batch(f, &e);
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
    return rc < 0 ? rc : finish(f, &e);
}

static int prelu(const struct forward *f)
{
    struct net_emit e;

    begin(f, KERN_PRELU, &e);
    e.in[0] = input(f, 0, false);
    e.in[1] = input(f, 1, true);
    return finish(f, &e);
}

static int resize(const struct forward *f)
{
    struct net_emit e;

    begin(f, KERN_RESIZE, &e);
    e.p.attr.resize = net_resize_attr(f->n, f->node);
    e.in[0] = input(f, 0, false);
    return finish(f, &e);
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
    return finish(f, &e);
}

static int unary(const struct forward *f)
{
    struct net_emit e;

    begin(f, KERN_UNARY, &e);
    e.p.attr.unary = f->node->attr.unary;
    e.in[0] = input(f, 0, false);
    return finish(f, &e);
}

static int binary(const struct forward *f)
{
    struct net_emit e;

    begin(f, KERN_BINARY, &e);
    e.p.attr.binary = f->node->attr.binary;
    e.in[0] = input(f, 0, false);
    e.in[1] = input(f, 1, false);
    return finish(f, &e);
}

static int lrn(const struct forward *f)
{
    struct net_emit e;

    begin(f, KERN_LRN, &e);
    e.p.attr.lrn = f->node->attr.lrn;
    e.in[0] = input(f, 0, false);
    return finish(f, &e);
}

/* Zeros round a copy move whole vectors where pixels are what they were. */
static int pad_zeros(const struct forward *f, const struct kern_pad *a)
{
    const struct view x = input(f, 0, false);
    const int at = (int)(f->node - f->n->g->node);
    const struct view zero = view_raise(&f->n->zero, x.t.rank);
    struct view whole, part, from;
    int rc = make(f, f->out, &whole);

    from = view_expand(&zero, whole.t.dim);
    if (rc == 0)
        rc = net_copy(f->n, f->list, NET_FPROP, at, &from, &whole, f->err);
    part = whole;
    for (int i = 0; i < x.t.rank; i++)
        part = view_slice(&part, i, a->begin[i], 1, x.t.dim[i]);
    return rc < 0 ? rc
                  : net_copy(f->n, f->list, NET_FPROP, at, &x, &part, f->err);
}

static bool pads_zeros(const struct forward *f, const struct kern_pad *a)
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

    if (pads_zeros(f, &f->node->attr.pad))
        return pad_zeros(f, &f->node->attr.pad);
    begin(f, KERN_PAD, &e);
    e.p.attr.pad = f->node->attr.pad;
    e.in[0] = input(f, 0, false);
    return finish(f, &e);
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
    return finish(f, &e);
}

/* ---- moving data --------------------------------------------------- */

/* The same elements in the same logical order under other dimensions: a view
 * where the picture has one pixel, else a row-major copy. */
static int reshape(const struct forward *f)
{
    const struct graph_value *to = &f->n->g->value[f->out];
    const struct view x = input(f, 0, false);
    struct view copy;
    int rc;

    if (view_reshape(&x, to->rank, to->dim, slot(f, f->out)))
        return 0;
    rc = net_tensor(f->n, home(f), x.t.dtype, x.t.rank, x.t.dim, KERN_NCHW,
                    f->err, &copy);
    if (rc == 0)
        rc = net_copy(f->n, f->list, NET_FPROP, (int)(f->node - f->n->g->node),
                      &x, &copy, f->err);
    if (rc < 0)
        return rc;
    if (!view_reshape(&copy, to->rank, to->dim, slot(f, f->out)))
        return error_set(f->err, INFER_EFORMAT,
                         "node '%s': shapes before and after do not agree",
                         f->node->name);
    return 0;
}

static int concat(const struct forward *f)
{
    struct view whole;
    int64_t at = 0;
    int axis, rc = make(f, f->out, &whole);

    if (rc == 0)
        rc = op_axis(f->node->attr.axis.axis, whole.t.rank, &axis, f->err);
    for (int i = 0; rc == 0 && i < f->node->n_in; i++) {
        const struct view x = input(f, i, false);
        const struct view part = view_slice(&whole, axis, at, 1, x.t.dim[axis]);

        at += x.t.dim[axis];
        rc = net_copy(f->n, f->list, NET_FPROP, (int)(f->node - f->n->g->node),
                      &x, &part, f->err);
    }
    return rc;
}

/* What reads it next copies it with zeros round it: no need to copy twice. */
static bool is_copied_next(const struct forward *f)
{
    const int user = graph_single_user(f->n->g, f->out);
    const struct graph_node *node = user >= 0 ? &f->n->g->node[user] : NULL;

    return node && node->op == GRAPH_PAD && pads_zeros(f, &node->attr.pad);
}

static int slice(const struct forward *f)
{
    const struct graph_slice *s = &f->node->attr.slice;
    struct view v = input(f, 0, false), whole;
    int64_t first, count;
    int axis, rc = 0;

    for (int i = 0; rc == 0 && i < s->n_axes; i++) {
        rc = op_axis(s->axis[i], v.t.rank, &axis, f->err);
        if (rc == 0)
            rc = op_slice_resolve(s->begin[i], s->end[i], s->step[i],
                                  v.t.dim[axis], &first, &count, f->err);
        if (rc == 0)
            v = view_slice(&v, axis, first, s->step[i], count);
    }
    if (rc == 0 && is_copied_next(f)) {
        *slot(f, f->out) = v;
        return 0;
    }
    if (rc == 0)
        rc = make(f, f->out, &whole);
    return rc < 0
               ? rc
               : net_copy(f->n, f->list, NET_FPROP,
                          (int)(f->node - f->n->g->node), &v, &whole, f->err);
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
        return batch_norm(f);
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
        return reshape(f);
    case GRAPH_CONCAT:
        return concat(f);
    case GRAPH_SLICE:
        return slice(f);
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
