/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of a row and of the layouts of its tensors. */
#include "libinfer/plan/plan_choice.h"

#include <string.h>

#include "kernels/op.h"
#include "kernels/problem.h"
#include "kernels/rows.h"

/* The input whose layout the output follows. */
static const struct kern_tensor *leader(const struct plan_emit *e)
{
    const struct kern_tensor *out = &e->p.out[0];
    int i;

    if (e->class == PLAN_POINTWISE)
        for (i = 0; i < e->p.n_in; i++) {
            const struct kern_tensor *t = &e->in[i].t;

            if (t->dtype != INFER_NONE && t->rank == out->rank &&
                memcmp(t->dim, out->dim, (size_t)t->rank * sizeof t->dim[0]) ==
                    0)
                return t;
        }
    return &e->in[0].t;
}

/* Channels up to which a convolution reads its input in either layout at the
 * same cost: the first one reads the picture without a copy. */
#define FEW_CHANNELS 4

static struct plan_attempt way(bool as_is, enum kern_layout layout,
                               enum kern_layout out)
{
    return (struct plan_attempt){as_is, layout, out, false};
}

/* Whether the output may lie as the leading input does, whose strides are of
 * neither layout: strided rows walk memory in the order of the output. */
static bool follows_any(const struct plan_emit *e, const struct kern_row *row)
{
    const struct kern_tensor *x = leader(e);
    bool ordered = x->rank == e->p.out[0].rank;

    for (int i = 0; i < x->rank; i++)
        ordered = ordered && (x->dim[i] == 1 || x->stride[i] != 0);
    return ordered && (row->flags & KERN_STRIDED) != 0 &&
           (e->class == PLAN_POINTWISE ||
            (e->class == PLAN_ROWS && kern_op_info(e->p.op)->follows_layout));
}

static int attempts(const struct plan *plan, const struct plan_emit *e,
                    const struct kern_row *row, struct plan_attempt a[5])
{
    const struct kern_tensor *x = leader(e);
    bool nchw = kern_tensor_is_dense(x, KERN_NCHW);
    bool nhwc = kern_tensor_is_dense(x, KERN_NHWC);
    enum kern_layout lead = nchw && nhwc ? row->layout : view_layout(x);
    bool there = row->layout == KERN_NHWC ? nhwc : nchw;
    int n = 0;

    if (!nchw && !nhwc && follows_any(e, row))
        a[n++] = (struct plan_attempt){true, lead, lead, true};
    switch (e->class) {
    case PLAN_IMAGE:
        if (plan->config->channels_last && (row->flags & KERN_STRIDED))
            a[n++] = way(true, KERN_NHWC, KERN_NHWC);
        else if (row->flags & KERN_STRIDED)
            a[n++] = way(true, lead, lead);
        else if (there || !(nchw || nhwc) ||
                 (e->p.op == KERN_CONV_FPROP && x->dim[1] <= FEW_CHANNELS))
            a[n++] = way(true, row->layout, row->layout);
        a[n++] = way(false, row->layout, row->layout);
        a[n++] = way(true, row->layout, row->layout);
        break;
    case PLAN_POINTWISE:
        a[n++] = way(true, lead, lead);
        a[n++] = way(false, lead, lead);
        a[n++] = way(false, row->layout, row->layout);
        a[n++] = way(false, KERN_NCHW, KERN_NCHW);
        break;
    case PLAN_ROWS:
        if (kern_op_info(e->p.op)->follows_layout)
            a[n++] = way(true, lead, lead);
        a[n++] = way(true, KERN_NCHW, KERN_NCHW);
        a[n++] = way(false, KERN_NCHW, KERN_NCHW);
        break;
    }
    return n;
}

/* Inputs that may be copied into another layout: not weights. */
static bool is_movable(const struct plan_emit *e, int i)
{
    return e->class != PLAN_IMAGE || i == 0 || i == e->residual;
}

bool plan_moves(const struct plan_emit *e, int i, const struct plan_attempt *a)
{
    return !a->as_is && e->in[i].t.dtype != INFER_NONE && is_movable(e, i) &&
           !kern_tensor_is_dense(&e->in[i].t, a->layout);
}

static void build(const struct plan *plan, const struct plan_emit *e,
                  const struct plan_attempt *a, struct kern_problem *p)
{
    int i;

    memcpy(p, &e->p, sizeof *p);
    p->n_out = 1;
    p->deterministic = plan->config->deterministic;
    p->allow_tf32 = plan->config->precision == INFER_PRECISION_TF32;
    for (i = 0; i < p->n_in; i++) {
        const struct kern_tensor *t = &e->in[i].t;

        p->in[i] = *t;
        if (t->dtype == INFER_NONE)
            continue;
        if (plan_moves(e, i, a))
            p->in[i] = kern_tensor_dense(t->dtype, t->rank, t->dim, a->layout);
        else if (plan->buffers.at[e->in[i].buffer].memory == PLAN_CONSTANT)
            p->constant_in |= 1u << i;
    }
    p->out[0] = kern_tensor_dense(e->p.out[0].dtype, e->p.out[0].rank,
                                  e->p.out[0].dim, a->out);
    if (a->follows)
        view_order_as(leader(e), &p->out[0]);
}

static bool is_aligned(const struct plan *plan, const struct view *v)
{
    return plan->buffers.at[v->buffer].memory == PLAN_CONSTANT ||
           row_view_is_aligned(plan->config->device, v->t.dtype, v->offset);
}

struct row_query plan_ask(const struct plan *plan, const struct kern_problem *p)
{
    return (struct row_query){
        .problem = p,
        .device = &plan->asked,
        .aligned = true,
        .invariant = plan->config->deterministic,
        .batch = plan_is_batch_invariant(plan) ? plan->batch : 0};
}

const struct kern_device *plan_device(const struct plan *plan,
                                      const struct kern_row *row)
{
    return kern_row_is_invariant(row) ? &plan->config->device->kern
                                      : &plan->asked;
}

struct row_query plan_query(const struct plan *plan,
                            const struct kern_problem *p, const struct view *in,
                            const struct view *out)
{
    struct row_query q = plan_ask(plan, p);

    q.aligned = is_aligned(plan, out);

    for (int i = 0; i < p->n_in && q.aligned; i++)
        q.aligned = in[i].t.dtype == INFER_NONE || is_aligned(plan, &in[i]);
    return q;
}

/* The same for an attempt, which may copy inputs first; the output is a buffer
 * of its own. */
static struct row_query attempt_query(const struct plan *plan,
                                      const struct plan_emit *e,
                                      const struct plan_attempt *a,
                                      const struct kern_problem *p)
{
    struct row_query q = plan_ask(plan, p);

    for (int i = 0; i < p->n_in && q.aligned; i++)
        q.aligned = e->in[i].t.dtype == INFER_NONE || plan_moves(e, i, a) ||
                    is_aligned(plan, &e->in[i]);
    return q;
}

/* True if the row is for another type: its reason is not worth asking for once
 * another row has given one. */
static bool is_other_type(const struct kern_row *row, const struct plan_emit *e,
                          const struct infer_error *why)
{
    return row->dtype != INFER_NONE && row->dtype != e->in[0].t.dtype &&
           (!why || why->text[0]);
}

/* True if the row is for a table of products and none was asked for: it may not
 * give the reason. */
static bool is_for_table(const struct kern_row *row,
                         const struct kern_problem *p)
{
    return (row->flags & KERN_PRODUCT_TABLE) && !product_table_of(p);
}

bool plan_find(const struct plan *plan, const struct plan_emit *e,
               uint32_t tier, bool baselines, struct infer_error *why,
               struct plan_choice *out)
{
    struct plan_attempt a[5];

    for (size_t r = 0; r < kern_row_count(); r++) {
        const struct kern_row *row = kern_row_at(r);

        if (!row_is_of(row, tier, e->p.op) ||
            ((row->flags & KERN_BASELINE) != 0) != baselines ||
            is_other_type(row, e, why))
            continue;
        struct infer_error *const say = is_for_table(row, &e->p) ? NULL : why;
        const int n = attempts(plan, e, row, a);
        for (int i = 0; i < n; i++) {
            build(plan, e, &a[i], &out->problem);
            const struct row_query q =
                attempt_query(plan, e, &a[i], &out->problem);
            if (!row_takes(&q, row, say))
                continue;
            out->row = row;
            out->tier = tier;
            out->attempt = a[i];
            return true;
        }
    }
    return false;
}
