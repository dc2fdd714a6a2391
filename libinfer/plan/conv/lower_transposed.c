/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transposed convolutions on a GPU whose windows do not overlap: the stride is
 * the window, as where a U-Net doubles a picture.
 *
 * Every output pixel is a product with one position of the window, so that all
 * are a convolution 1x1 with R S times as many outputs, position by position.
 * One copy puts them where they belong, in a concatenation if that reads them.
 */
#include <string.h>

#include "libinfer/plan/conv/weights.h"

enum { X = 0, W = 1, BIAS = 2 };

/* Channels that one access of the copy moves, at least. */
#define LEAST_CHANNELS 4

static bool is_own(const struct lower *l, int i)
{
    const int v = i < l->node->n_in ? l->node->in[i] : -1;

    return v < 0 || (l->plan->g->value[v].data && l->plan->value[v].uses == 1);
}

static bool fits(const struct lower *l, const struct plan_emit *e)
{
    const struct plan_config *config = l->plan->config;
    const struct kern_conv *c = &e->p.attr.conv;
    const struct kern_tensor *x = &e->in[X].t, *w = &e->in[W].t;
    const struct kern_tensor *y = &e->p.out[0];
    bool ok = config->apart && !config->products && x->rank == 4 &&
              c->groups == 1 && e->residual < 0 && e->p.n_in > W &&
              is_own(l, W) && is_own(l, BIAS) &&
              y->dim[1] % LEAST_CHANNELS == 0 && kern_tensor_count(x) > 0;

    for (int i = 0; ok && i < 2; i++)
        ok = c->stride[i] == w->dim[i + 2] && c->pad_begin[i] == 0 &&
             c->pad_end[i] == 0 && c->dilation[i] == 1 &&
             y->dim[i + 2] == x->dim[i + 2] * c->stride[i];
    return ok;
}

/* R S K,C of C,K,R,S. */
static int64_t position_first(int64_t i, const int64_t *dim)
{
    const int64_t inputs = dim[0], outputs = dim[1], window = dim[2] * dim[3];
    const int64_t c = i % inputs, k = i / inputs % outputs,
                  at = i / inputs / outputs;

    return (c * outputs + k) * window + at;
}

/* K numbers again and again. */
static int64_t repeated(int64_t i, const int64_t *dim)
{
    return i % dim[0];
}

/* y[N, R S K, H, W] as N,K,H,R,W,S. */
static struct view by_position(const struct view *y, int64_t r, int64_t s)
{
    static const int64_t order[6] = {0, 3, 4, 1, 5, 2};
    struct view v = view_split(y, 1, r);

    v = view_split(&v, 2, s);
    return view_permute(&v, order);
}

/* y[N, K, H R, W S] as the same. */
static struct view by_pixel(const struct view *y, int64_t h, int64_t w)
{
    const struct view rows = view_split(y, 2, h);

    return view_split(&rows, 4, w);
}

/* Where the result goes: a place in a concatenation, or a buffer. */
static int place(const struct lower *l, enum infer_dtype dtype,
                 struct view *out)
{
    const struct graph_value *y = lower_out(l, 0);
    struct plan_value *v = &l->plan->value[l->node->out[0]];
    int rc;

    if (v->concat >= 0 && v->uses == 1 && !l->plan->integers) {
        rc = plan_concat_dest(l->plan, l->node->out[0], KERN_NHWC, l->err, out);
        if (rc < 0)
            return rc;
        v->in_dest = out->t.dtype == dtype;
        if (v->in_dest)
            return 0;
    }
    return plan_buffer(l->plan, l->index, dtype, y->rank, y->dim, KERN_NHWC,
                       l->err, out);
}

static int lower_products(const struct lower *l, struct plan_emit *e)
{
    const struct kern_tensor *w = &e->in[W].t, x = e->in[X].t;
    const int64_t r = w->dim[2], s = w->dim[3];
    const int64_t outputs = r * s * w->dim[1];
    const int64_t w_dim[4] = {outputs, w->dim[0], 1, 1};
    const int64_t y_dim[4] = {x.dim[0], outputs, x.dim[2], x.dim[3]};
    struct kern_conv *c = &e->p.attr.conv;
    struct view products, out, from, to;
    int rc = lower_turn_weights(l, l->node->in[W], 4, w_dim, position_first);

    if (rc < 0)
        return rc;
    e->in[W] = *lower_in(l, W);
    if (e->in[BIAS].t.dtype != INFER_NONE) {
        rc = lower_turn_weights(l, l->node->in[BIAS], 1, &outputs, repeated);
        if (rc < 0)
            return rc;
        e->in[BIAS] = *lower_in(l, BIAS);
    }
    e->p.op = KERN_CONV_FPROP;
    memset(c, 0, sizeof *c);
    c->groups = 1;
    for (int i = 0; i < KERN_MAX_SPATIAL; i++)
        c->stride[i] = c->dilation[i] = 1;
    memcpy(e->p.out[0].dim, y_dim, sizeof y_dim);
    e->value = -1;
    rc = plan_emit(l->plan, l->index, e, l->err, &products);
    if (rc == 0)
        rc = place(l, products.t.dtype, &out);
    if (rc < 0)
        return rc;
    from = by_position(&products, r, s);
    to = by_pixel(&out, x.dim[2], x.dim[3]);
    rc = plan_copy_to(l->plan, l->index, &from, &to, l->err);
    return rc < 0 ? rc : lower_set(l, 0, &out);
}

int lower_conv_transpose(const struct lower *l)
{
    struct plan_emit e;
    int rc;

    if (lower_is_integer(l))
        return lower_integers(l);
    rc = lower_begin(l, &e);
    if (rc < 0)
        return rc;
    return fits(l, &e) ? lower_products(l, &e) : lower_layer(l);
}
