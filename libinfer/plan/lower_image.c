/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution and pooling, and what a plan makes of special ones. */
#include <string.h>

#include "libinfer/plan/lower.h"

/* True for a 1x1 convolution of images of one pixel: a dense layer, for which a
 * GPU has faster kernels. */
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
    struct plan_emit e;
    bool dense, volume, done = false;
    int rc;

    if (lower_is_integer(l))
        return lower_integers(l);
    rc = lower_begin(l, &e);
    if (rc == 0)
        rc = lower_end_chain(l, &e, &done);
    if (rc == 0 && !done)
        rc = lower_defer_chain(l, &e, &done);
    if (rc < 0 || done)
        return rc;
    dense = is_dense_layer(l, &e);
    volume = !dense && lower_is_volume(l, &e);
    rc = lower_fuse_input_scale(
        l, !dense && !volume && !l->plan->config->products, &e);
    if (rc < 0)
        return rc;
    if (volume)
        return lower_volume(l, &e);
    return dense ? lower_as_dense(l, &e) : lower_end(l, &e);
}

/* True if the pooling is one mean a channel. */
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
    struct plan_emit e;
    bool done = false;
    int rc;

    if (lower_is_integer(l))
        return lower_scaled(l);
    rc = lower_begin(l, &e);
    if (rc == 0 && is_mean(&e.in[0].t, &e.p.attr.pool))
        rc = lower_squeeze(l, &done);
    return rc < 0 || done ? rc : lower_end(l, &e);
}
