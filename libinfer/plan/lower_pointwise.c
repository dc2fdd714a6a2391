/* SPDX-License-Identifier: Apache-2.0 */
/* Element-wise nodes that may need no step, and casts. */
#include "libinfer/plan/lower.h"

int lower_identity(const struct lower *l)
{
    return lower_set(l, 0, lower_in(l, 0));
}

int lower_unary(const struct lower *l)
{
    return l->node->attr.unary.kind == KERN_IDENTITY ? lower_identity(l)
                                                     : lower_layer(l);
}

int lower_binary(const struct lower *l)
{
    if (lower_is_integer(l))
        return lower_scaled(l);
    return lower_defer_scale(l) ? 0 : lower_layer(l);
}

int lower_scale_shift(const struct lower *l)
{
    return lower_is_integer(l) ? lower_scaled(l) : lower_layer(l);
}

/* Rounds to half precision where the graph says so, although such values are
 * kept in single precision. */
static int round_through(const struct lower *l, enum infer_dtype narrow,
                         const struct view *in, struct view *out)
{
    enum kern_layout layout = view_layout(&in->t);
    struct view half;
    int rc = plan_buffer(l->plan, l->index, narrow, in->t.rank, in->t.dim,
                         layout, l->err, &half);

    if (rc == 0)
        rc = plan_copy_to(l->plan, l->index, in, &half, l->err);
    if (rc == 0)
        rc = plan_buffer(l->plan, l->index, INFER_F32, in->t.rank, in->t.dim,
                         layout, l->err, out);
    if (rc == 0)
        rc = plan_copy_to(l->plan, l->index, &half, out, l->err);
    return rc;
}

int lower_cast(const struct lower *l)
{
    const struct view *x = lower_in(l, 0);
    enum infer_dtype to = lower_out(l, 0)->dtype;
    enum infer_dtype from = l->plan->g->value[l->node->in[0]].dtype;
    enum infer_dtype kept = plan_dtype(l->plan, to);
    struct view out;
    int rc;

    if (from == to)
        return lower_identity(l);
    if (kept == INFER_F32 && to != INFER_F32)
        rc = round_through(l, to, x, &out);
    else if (x->t.dtype == kept)
        return lower_identity(l); /* reals are kept in one type anyway */
    else {
        rc = plan_buffer(l->plan, l->index, kept, x->t.rank, x->t.dim,
                         view_layout(&x->t), l->err, &out);
        if (rc == 0)
            rc = plan_copy_to(l->plan, l->index, x, &out, l->err);
    }
    return rc < 0 ? rc : lower_set(l, 0, &out);
}
