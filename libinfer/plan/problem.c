/* SPDX-License-Identifier: Apache-2.0 */
/* From graph nodes to problems of kernels: a table of operations, and the
 * attributes of each with all extents known. */
#include "libinfer/plan/problem.h"

#include <string.h>

#include "kernels/base/error.h"
#include "libinfer/graph/ops/op.h"

/* One node that is described. */
struct asked {
    const struct graph *g;
    const struct graph_node *node;
    const struct graph_value *x, *y; /* first input, first output */
    struct infer_error *err;
};

typedef int attr_fn(const struct asked *a, struct kern_problem *p);

static const char *name_of(const struct graph_node *node)
{
    return node->name ? node->name : "";
}

static int named(const struct asked *a, int rc)
{
    if (rc < 0)
        error_prefix(a->err, "node '%s'", name_of(a->node));
    return rc;
}

int problem_axis(const struct graph_node *node, int axis, int rank,
                 struct infer_error *err, int *out)
{
    const int rc = op_axis(axis, rank, out, err);

    if (rc < 0)
        error_prefix(err, "node '%s'", name_of(node));
    return rc;
}

/* ---- windows ------------------------------------------------------- */

/* Spatial extents of a tensor N,C,spatial. */
static void spatial_of(const struct graph_value *v, int64_t *extent)
{
    for (int i = 2; i < v->rank && i - 2 < KERN_MAX_SPATIAL; i++)
        extent[i - 2] = v->dim[i];
}

static int check_spatial(const struct asked *a)
{
    const int n = a->x->rank - 2;

    if (n >= 1 && n <= KERN_MAX_SPATIAL)
        return 0;
    return error_set(a->err, INFER_EUNSUPPORTED,
                     "node '%s' (%s): input of rank %d (supported: 3 to %d)",
                     name_of(a->node), graph_op_info(a->node->op)->name,
                     a->x->rank, KERN_MAX_SPATIAL + 2);
}

static int conv(const struct asked *a, struct kern_problem *p)
{
    int64_t extent[KERN_MAX_SPATIAL], window[KERN_MAX_SPATIAL],
        out[KERN_MAX_SPATIAL];
    int rc = check_spatial(a);

    if (rc < 0)
        return rc;
    spatial_of(a->x, extent);
    spatial_of(&a->g->value[a->node->in[1]], window);
    rc = (p->op == KERN_CONV_FPROP ? op_conv_resolve
                                   : op_conv_transpose_resolve)(
        &a->node->attr.conv, a->x->rank - 2, extent, window, &p->attr.conv, out,
        a->err);
    return named(a, rc);
}

static int pool(const struct asked *a, struct kern_problem *p)
{
    int64_t extent[KERN_MAX_SPATIAL], out[KERN_MAX_SPATIAL];
    const int rc = check_spatial(a);

    if (rc < 0)
        return rc;
    spatial_of(a->x, extent);
    return named(a, op_pool_resolve(&a->node->attr.pool, a->x->rank - 2, extent,
                                    &p->attr.pool, out, a->err));
}

/* ---- normalisation ------------------------------------------------- */

static int norm(const struct asked *a, struct kern_problem *p)
{
    p->attr.norm = a->node->attr.norm;
    return 0;
}

static int layer_norm(const struct asked *a, struct kern_problem *p)
{
    p->attr.norm = a->node->attr.norm;
    return problem_axis(a->node, a->node->attr.norm.axis, a->x->rank, a->err,
                        &p->attr.norm.axis);
}

static int lrn(const struct asked *a, struct kern_problem *p)
{
    p->attr.lrn = a->node->attr.lrn;
    return 0;
}

/* ---- pointwise ----------------------------------------------------- */

static int plain(const struct asked *a, struct kern_problem *p)
{
    (void)a;
    (void)p;
    return 0;
}

static int unary(const struct asked *a, struct kern_problem *p)
{
    p->attr.unary = a->node->attr.unary;
    return 0;
}

static int binary(const struct asked *a, struct kern_problem *p)
{
    p->attr.binary = a->node->attr.binary;
    return 0;
}

static int requantize(const struct asked *a, struct kern_problem *p)
{
    p->attr.requantize = a->node->attr.requantize.requantize;
    return 0;
}

/* Its stream of random numbers is the network's to choose. */
static int dropout(const struct asked *a, struct kern_problem *p)
{
    p->attr.dropout.ratio = a->node->attr.dropout.ratio;
    return 0;
}

/* ---- rows ---------------------------------------------------------- */

static int matmul(const struct asked *a, struct kern_problem *p)
{
    p->attr.matmul = a->node->attr.matmul;
    return 0;
}

/* With `flatten`, as ONNX had it before opset 13, a softmax is taken over all
 * dimensions from the axis on: the input is a matrix. */
static int softmax(const struct asked *a, struct kern_problem *p)
{
    const struct graph_axis *s = &a->node->attr.axis;
    int axis, rc = problem_axis(a->node, s->axis, a->x->rank, a->err, &axis);

    if (rc < 0)
        return rc;
    p->attr.softmax.log = s->log;
    p->attr.softmax.axis = axis;
    if (!s->flatten || axis == a->x->rank - 1)
        return 0;
    p->attr.softmax.axis = 1;
    p->in[0].rank = 2;
    p->in[0].dim[0] = p->in[0].dim[1] = 1;
    for (int i = 0; i < a->x->rank; i++)
        p->in[0].dim[i >= axis] *= a->x->dim[i];
    p->out[0] = p->in[0];
    return 0;
}

/* The output of a reduction over these axes. */
static void keep_dims(const struct asked *a, uint32_t axes,
                      struct kern_problem *p)
{
    p->out[0].rank = a->x->rank;
    for (int i = 0; i < a->x->rank; i++)
        p->out[0].dim[i] = axes >> i & 1 ? 1 : a->x->dim[i];
}

static int reduce(const struct asked *a, struct kern_problem *p)
{
    const struct graph_reduce *r = &a->node->attr.reduce;
    uint32_t axes = r->n_axes == 0 ? (1u << a->x->rank) - 1 : 0;

    for (int i = 0; i < r->n_axes; i++) {
        int axis;
        const int rc =
            problem_axis(a->node, r->axis[i], a->x->rank, a->err, &axis);

        if (rc < 0)
            return rc;
        axes |= 1u << axis;
    }
    p->attr.reduce.kind = r->kind;
    p->attr.reduce.axes = axes;
    keep_dims(a, axes, p);
    return 0;
}

static int arg_reduce(const struct asked *a, struct kern_problem *p)
{
    const struct graph_axis *r = &a->node->attr.axis;
    const int rc = problem_axis(a->node, r->axis, a->x->rank, a->err,
                                &p->attr.arg_reduce.axis);

    if (rc < 0)
        return rc;
    p->attr.arg_reduce.min = r->min;
    p->attr.arg_reduce.select_last = r->select_last;
    keep_dims(a, 1u << p->attr.arg_reduce.axis, p);
    return 0;
}

static int gather(const struct asked *a, struct kern_problem *p)
{
    return problem_axis(a->node, a->node->attr.axis.axis, a->x->rank, a->err,
                        &p->attr.gather.axis);
}

static int scatter(const struct asked *a, struct kern_problem *p)
{
    p->attr.scatter.kind = a->node->attr.scatter.kind;
    return problem_axis(a->node, a->node->attr.scatter.axis, a->x->rank, a->err,
                        &p->attr.scatter.axis);
}

static int cumulate(const struct asked *a, struct kern_problem *p)
{
    const struct graph_cumulate *c = &a->node->attr.cumulate;

    p->attr.cumulate.exclusive = c->exclusive;
    p->attr.cumulate.reverse = c->reverse;
    p->attr.cumulate.product = c->product;
    return problem_axis(a->node, c->axis, a->x->rank, a->err,
                        &p->attr.cumulate.axis);
}

static int top_k(const struct asked *a, struct kern_problem *p)
{
    p->attr.top_k.smallest = a->node->attr.top_k.smallest;
    return problem_axis(a->node, a->node->attr.top_k.axis, a->x->rank, a->err,
                        &p->attr.top_k.axis);
}

static int nms(const struct asked *a, struct kern_problem *p)
{
    const struct graph_nms *n = &a->node->attr.nms;

    p->attr.nms = (struct kern_nms){n->center, n->iou, n->score};
    return 0;
}

static int recurrent(const struct asked *a, struct kern_problem *p)
{
    p->attr.recurrent = a->node->attr.recurrent;
    return 0;
}

/* ---- resampling ---------------------------------------------------- */

static int pad(const struct asked *a, struct kern_problem *p)
{
    p->attr.pad = a->node->attr.pad;
    return 0;
}

/* Sizes that the model states instead of scales become scales. */
static int resize(const struct asked *a, struct kern_problem *p)
{
    const struct graph_resize *r = &a->node->attr.resize;
    float *scale = p->attr.resize.scale;

    p->attr.resize = r->resize;
    for (int i = 0; i < a->x->rank; i++)
        if (r->n_sizes > 0 && a->x->dim[i] > 0)
            scale[i] = (float)((double)a->y->dim[i] / (double)a->x->dim[i]);
        else if (scale[i] == 0.0f)
            scale[i] = 1.0f;
    return 0;
}

/* ---- all operations ------------------------------------------------ */

/* Nodes that only move data have no line here: they are views and copies. */
static const struct {
    attr_fn *attr;
    enum kern_op op;
    enum plan_class class;
} table[GRAPH_OP_COUNT] = {
    [GRAPH_CONV] = {conv, KERN_CONV_FPROP, PLAN_IMAGE},
    [GRAPH_CONV_TRANSPOSE] = {conv, KERN_CONV_TRANSPOSE_FPROP, PLAN_IMAGE},
    [GRAPH_DENSE] = {plain, KERN_DENSE_FPROP, PLAN_ROWS},
    [GRAPH_MATMUL] = {matmul, KERN_MATMUL, PLAN_ROWS},
    [GRAPH_POOL] = {pool, KERN_POOL_FPROP, PLAN_IMAGE},
    [GRAPH_BATCH_NORM] = {norm, KERN_BATCH_NORM, PLAN_IMAGE},
    [GRAPH_SCALE_SHIFT] = {plain, KERN_SCALE_SHIFT, PLAN_IMAGE},
    [GRAPH_LAYER_NORM] = {layer_norm, KERN_LAYER_NORM, PLAN_ROWS},
    [GRAPH_GROUP_NORM] = {norm, KERN_GROUP_NORM, PLAN_IMAGE},
    [GRAPH_LRN] = {lrn, KERN_LRN, PLAN_IMAGE},
    [GRAPH_UNARY] = {unary, KERN_UNARY, PLAN_POINTWISE},
    [GRAPH_PRELU] = {plain, KERN_PRELU, PLAN_POINTWISE},
    [GRAPH_BINARY] = {binary, KERN_BINARY, PLAN_POINTWISE},
    [GRAPH_REQUANTIZE] = {requantize, KERN_REQUANTIZE, PLAN_POINTWISE},
    [GRAPH_WHERE] = {plain, KERN_WHERE, PLAN_POINTWISE},
    [GRAPH_DROPOUT] = {dropout, KERN_DROPOUT, PLAN_POINTWISE},
    [GRAPH_SOFTMAX] = {softmax, KERN_SOFTMAX, PLAN_ROWS},
    [GRAPH_REDUCE] = {reduce, KERN_REDUCE, PLAN_ROWS},
    [GRAPH_ARG_REDUCE] = {arg_reduce, KERN_ARG_REDUCE, PLAN_ROWS},
    [GRAPH_GATHER] = {gather, KERN_GATHER, PLAN_ROWS},
    [GRAPH_GATHER_ELEMENTS] = {gather, KERN_GATHER_ELEMENTS, PLAN_ROWS},
    [GRAPH_SCATTER_ELEMENTS] = {scatter, KERN_SCATTER_ELEMENTS, PLAN_ROWS},
    [GRAPH_CUMULATE] = {cumulate, KERN_CUMULATE, PLAN_ROWS},
    [GRAPH_TOP_K] = {top_k, KERN_TOP_K, PLAN_ROWS},
    [GRAPH_NMS] = {nms, KERN_NMS, PLAN_ROWS},
    [GRAPH_RECURRENT] = {recurrent, KERN_RECURRENT, PLAN_ROWS},
    [GRAPH_PAD] = {pad, KERN_PAD, PLAN_IMAGE},
    [GRAPH_RESIZE] = {resize, KERN_RESIZE, PLAN_IMAGE},
};

static void set_shape(const struct graph_value *v, struct kern_tensor *t)
{
    t->rank = v->rank;
    memcpy(t->dim, v->dim, sizeof v->dim);
}

int problem_of_node(const struct graph *g, const struct graph_node *node,
                    struct infer_error *err, struct kern_problem *p,
                    enum plan_class *class)
{
    const struct asked a = {g, node, &g->value[node->in[0]],
                            &g->value[node->out[0]], err};

    if (!table[node->op].attr)
        return error_set(err, INFER_EUNSUPPORTED, "node '%s': %s has no kernel",
                         name_of(node), graph_op_info(node->op)->name);
    p->op = table[node->op].op;
    p->n_out = 1;
    if (class)
        *class = table[node->op].class;
    set_shape(a.x, &p->in[0]);
    set_shape(a.y, &p->out[0]);
    return table[node->op].attr(&a, p);
}

/* ---- views --------------------------------------------------------- */

/* The next dim[axis] elements of v along an axis of the node. */
static int next_part(const struct graph_node *node, int axis,
                     const int64_t *dim, const struct view *v, int64_t *at,
                     struct infer_error *err, struct view *out)
{
    const int rc = problem_axis(node, axis, v->t.rank, err, &axis);

    if (rc < 0)
        return rc;
    *out = view_slice(v, axis, *at, 1, dim[axis]);
    *at += dim[axis];
    return 0;
}

static int slice(const struct graph_node *node, const struct view *v,
                 struct infer_error *err, struct view *out)
{
    const struct graph_slice *s = &node->attr.slice;

    for (int i = 0; i < s->n_axes; i++) {
        int64_t first, count;
        int axis, rc = problem_axis(node, s->axis[i], v->t.rank, err, &axis);

        if (rc == 0)
            rc = op_slice_resolve(s->begin[i], s->end[i], s->step[i],
                                  out->t.dim[axis], &first, &count, err);
        if (rc < 0)
            return rc;
        *out = view_slice(out, axis, first, s->step[i], count);
    }
    return 0;
}

void problem_transpose_order(const struct graph_node *node, int rank,
                             int64_t *order)
{
    const struct graph_dims *d = &node->attr.dims;

    for (int i = 0; i < rank; i++)
        order[i] = d->n > 0 ? d->dim[i] : rank - 1 - i;
}

static int no_views(const struct graph_node *node, struct infer_error *err)
{
    return error_set(err, INFER_EUNSUPPORTED, "node '%s': %s is no view",
                     name_of(node), graph_op_info(node->op)->name);
}

int problem_part(const struct graph *g, const struct graph_node *node, int k,
                 const struct view *x, int64_t *at, struct infer_error *err,
                 struct view *out)
{
    const struct graph_value *y = &g->value[node->out[k]];
    int64_t order[KERN_MAX_RANK];

    *out = *x;
    if (node->op == GRAPH_SLICE)
        return slice(node, x, err, out);
    if (node->op == GRAPH_SPLIT)
        return next_part(node, node->attr.split.axis, y->dim, x, at, err, out);
    if (node->op == GRAPH_TRANSPOSE) {
        problem_transpose_order(node, x->t.rank, order);
        *out = view_permute(x, order);
    } else if (node->op == GRAPH_EXPAND) {
        *out = view_raise(x, y->rank);
        *out = view_expand(out, y->dim);
    } else {
        return no_views(node, err);
    }
    return 0;
}

int problem_place(const struct graph *g, const struct graph_node *node, int k,
                  const struct view *y, int64_t *at, struct infer_error *err,
                  struct view *out)
{
    const struct graph_value *x = &g->value[node->in[k]];

    *out = *y;
    if (node->op == GRAPH_CONCAT)
        return next_part(node, node->attr.axis.axis, x->dim, y, at, err, out);
    if (node->op != GRAPH_PAD)
        return no_views(node, err);
    for (int i = 0; i < x->rank; i++)
        *out = view_slice(out, i, node->attr.pad.begin[i], 1, x->dim[i]);
    return 0;
}
