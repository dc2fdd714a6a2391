/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on images: windows, normalisation over channels, resampling. */
#include <string.h>

#include "kernels/base/error.h"
#include "libinfer/graph/ops/op.h"
#include "libinfer/plan/lower.h"

/* Spatial extents of a tensor N,C,spatial. */
static int spatial_of(const struct kern_tensor *t, int64_t *extent)
{
    int i;

    for (i = 2; i < t->rank && i - 2 < KERN_MAX_SPATIAL; i++)
        extent[i - 2] = t->dim[i];
    return t->rank - 2;
}

static int named(const struct lower *l, int rc)
{
    if (rc < 0)
        error_prefix(l->err, "node '%s'", l->node->name ? l->node->name : "");
    return rc;
}

static int check_spatial(const struct lower *l, const struct view *x)
{
    int n = x->t.rank - 2;

    if (n >= 1 && n <= KERN_MAX_SPATIAL)
        return 0;
    return error_set(l->err, INFER_EUNSUPPORTED,
                     "node '%s' (%s): input of rank %d (supported: 3 to %d)",
                     l->node->name ? l->node->name : "",
                     graph_op_info(l->node->op)->name, x->t.rank,
                     KERN_MAX_SPATIAL + 2);
}

/* A convolution of single pixels with a window of one: a dense layer, for which
 * a GPU has quicker kernels. */
static bool is_dense_layer(const struct lower *l, const struct plan_emit *e)
{
    const struct kern_tensor *x = &e->in[0].t, *w = &e->in[1].t;
    int i;

    if (l->plan->config->device->ops->host_memory || e->p.attr.conv.groups != 1)
        return false;
    for (i = 2; i < x->rank; i++)
        if (x->dim[i] != 1 || w->dim[i] != 1 || e->p.out[0].dim[i] != 1)
            return false;
    return true;
}

static int lower_as_dense(const struct lower *l, struct plan_emit *e)
{
    const struct graph_value *y = lower_out(l, 0);
    struct view out;
    int i, rc = 0;

    e->class = PLAN_ROWS;
    e->p.op = KERN_DENSE_FPROP;
    memset(&e->p.attr, 0, sizeof e->p.attr);
    e->value = -1;
    e->p.out[0].rank = 2;
    for (i = 0; rc == 0 && i < e->p.n_in; i++) {
        const struct view v = e->in[i];

        if (v.t.dtype != INFER_NONE && v.t.rank > 2)
            rc = lower_reshape(l, &v, 2, v.t.dim, &e->in[i]);
    }
    if (rc == 0)
        rc = plan_emit(l->plan, l->index, e, l->err, &out);
    if (rc == 0)
        rc = lower_reshape(l, &out, y->rank, y->dim, &out);
    return rc < 0 ? rc : lower_set(l, 0, &out);
}

int lower_conv(const struct lower *l)
{
    const struct view *x = lower_in(l, 0), *w = lower_in(l, 1);
    int64_t extent[KERN_MAX_SPATIAL], window[KERN_MAX_SPATIAL],
        out[KERN_MAX_SPATIAL];
    struct plan_emit e;
    bool dense;
    int rc = check_spatial(l, x);

    if (rc < 0)
        return rc;
    lower_begin(l, KERN_CONV_FPROP, PLAN_IMAGE, &e);
    spatial_of(&w->t, window);
    rc = op_conv_resolve(&l->node->attr.conv, spatial_of(&x->t, extent), extent,
                         window, &e.p.attr.conv, out, l->err);
    if (rc < 0)
        return named(l, rc);
    dense = is_dense_layer(l, &e);
    rc = lower_fuse_input_scale(l, !dense, &e);
    if (rc < 0)
        return rc;
    return dense ? lower_as_dense(l, &e) : lower_end(l, &e);
}

int lower_conv_transpose(const struct lower *l)
{
    const struct view *x = lower_in(l, 0), *w = lower_in(l, 1);
    int64_t extent[KERN_MAX_SPATIAL], window[KERN_MAX_SPATIAL],
        out[KERN_MAX_SPATIAL];
    struct plan_emit e;
    int rc = check_spatial(l, x);

    if (rc < 0)
        return rc;
    lower_begin(l, KERN_CONV_TRANSPOSE_FPROP, PLAN_IMAGE, &e);
    spatial_of(&w->t, window);
    rc = op_conv_transpose_resolve(&l->node->attr.conv,
                                   spatial_of(&x->t, extent), extent, window,
                                   &e.p.attr.conv, out, l->err);
    return rc < 0 ? named(l, rc) : lower_end(l, &e);
}

/* One mean a channel. */
static bool is_mean(const struct kern_tensor *x, const struct kern_pool *a)
{
    int i;

    for (i = 0; i < x->rank - 2; i++)
        if (a->window[i] != x->dim[i + 2] || a->pad_begin[i] != 0 ||
            a->pad_end[i] != 0 || (a->window[i] > 1 && a->dilation[i] != 1))
            return false;
    return a->kind == KERN_POOL_AVERAGE;
}

int lower_pool(const struct lower *l)
{
    const struct view *x = lower_in(l, 0);
    int64_t extent[KERN_MAX_SPATIAL], out[KERN_MAX_SPATIAL];
    struct plan_emit e;
    bool done = false;
    int rc = check_spatial(l, x);

    if (rc < 0)
        return rc;
    lower_begin(l, KERN_POOL_FPROP, PLAN_IMAGE, &e);
    rc = op_pool_resolve(&l->node->attr.pool, spatial_of(&x->t, extent), extent,
                         &e.p.attr.pool, out, l->err);
    if (rc < 0)
        return named(l, rc);
    if (is_mean(&x->t, &e.p.attr.pool))
        rc = lower_squeeze(l, &done);
    return rc < 0 || done ? rc : lower_end(l, &e);
}

/* Batch norm, scale and shift, group norm: one parameter a channel. */
int lower_norm(const struct lower *l)
{
    enum kern_op op = l->node->op == GRAPH_BATCH_NORM    ? KERN_BATCH_NORM
                      : l->node->op == GRAPH_SCALE_SHIFT ? KERN_SCALE_SHIFT
                                                         : KERN_GROUP_NORM;
    struct plan_emit e;

    lower_begin(l, op, PLAN_IMAGE, &e);
    if (op != KERN_SCALE_SHIFT)
        e.p.attr.norm = l->node->attr.norm;
    return lower_end(l, &e);
}

int lower_lrn(const struct lower *l)
{
    struct plan_emit e;

    lower_begin(l, KERN_LRN, PLAN_IMAGE, &e);
    e.p.attr.lrn = l->node->attr.lrn;
    return lower_end(l, &e);
}

int lower_pad(const struct lower *l)
{
    struct plan_emit e;

    lower_begin(l, KERN_PAD, PLAN_IMAGE, &e);
    e.p.attr.pad = l->node->attr.pad;
    return lower_end(l, &e);
}

int lower_resize(const struct lower *l)
{
    const struct graph_resize *a = &l->node->attr.resize;
    const struct view *x = lower_in(l, 0);
    const struct graph_value *out = lower_out(l, 0);
    struct plan_emit e;
    int i;

    lower_begin(l, KERN_RESIZE, PLAN_IMAGE, &e);
    e.p.attr.resize = a->resize;
    for (i = 0; i < x->t.rank; i++)
        if (a->n_sizes > 0 && x->t.dim[i] > 0)
            e.p.attr.resize.scale[i] =
                (float)((double)out->dim[i] / (double)x->t.dim[i]);
        else if (e.p.attr.resize.scale[i] == 0.0f)
            e.p.attr.resize.scale[i] = 1.0f;
    return lower_end(l, &e);
}
