/* SPDX-License-Identifier: Apache-2.0 */
/* Which row computes a problem, and how its tensors lie for it. */
#include "libinfer/plan/plan_choice.h"

#include <string.h>

#include "kernels/base/error.h"

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

/* Operations on rows whose output can lie like their input. */
static bool follows_input(enum kern_op op)
{
    return op == KERN_SOFTMAX || op == KERN_REDUCE || op == KERN_ARG_REDUCE ||
           op == KERN_LAYER_NORM;
}

/* The first convolution may read the picture as it comes: with so few
 * channels both layouts cost the same. */
#define FEW_CHANNELS 4

static int attempts(const struct plan_emit *e, const struct kern_row *row,
                    struct plan_attempt a[4])
{
    const struct kern_tensor *x = leader(e);
    bool nchw = kern_tensor_is_dense(x, KERN_NCHW);
    bool nhwc = kern_tensor_is_dense(x, KERN_NHWC);
    enum kern_layout lead = nchw && nhwc ? row->layout : view_layout(x);
    bool there = row->layout == KERN_NHWC ? nhwc : nchw;
    int n = 0;

    switch (e->class) {
    case PLAN_IMAGE:
        if (row->flags & KERN_STRIDED)
            a[n++] = (struct plan_attempt){true, lead, lead};
        else if (there || !(nchw || nhwc) ||
                 (e->p.op == KERN_CONV_FPROP && x->dim[1] <= FEW_CHANNELS))
            a[n++] = (struct plan_attempt){true, row->layout, row->layout};
        a[n++] = (struct plan_attempt){false, row->layout, row->layout};
        a[n++] = (struct plan_attempt){true, row->layout, row->layout};
        break;
    case PLAN_POINTWISE:
        a[n++] = (struct plan_attempt){true, lead, lead};
        a[n++] = (struct plan_attempt){false, lead, lead};
        a[n++] = (struct plan_attempt){false, row->layout, row->layout};
        a[n++] = (struct plan_attempt){false, KERN_NCHW, KERN_NCHW};
        break;
    case PLAN_ROWS:
        if (follows_input(e->p.op))
            a[n++] = (struct plan_attempt){true, lead, lead};
        a[n++] = (struct plan_attempt){true, KERN_NCHW, KERN_NCHW};
        a[n++] = (struct plan_attempt){false, KERN_NCHW, KERN_NCHW};
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
        else if (plan->buffer[e->in[i].buffer].memory == PLAN_CONSTANT)
            p->constant_in |= 1u << i;
    }
    p->out[0] = kern_tensor_dense(e->p.out[0].dtype, e->p.out[0].rank,
                                  e->p.out[0].dim, a->out);
}

bool plan_supports(const struct plan *plan, const struct kern_row *row,
                   const struct kern_problem *p, struct infer_error *why)
{
    return kern_row_supports(row, p, &plan->config->device->kern, why) == 0;
}

/* Kernels of a GPU read and write up to this many bytes at once. */
#define GPU_ALIGN 16

/* Buffers are aligned; a view that starts inside one may not be. */
static bool is_aligned(const struct plan *plan, const struct view *v)
{
    const int64_t size = (int64_t)infer_dtype_size(v->t.dtype);

    return plan->config->device->ops->host_memory || size == 0 ||
           plan->buffer[v->buffer].memory == PLAN_CONSTANT ||
           v->offset * size % GPU_ALIGN == 0;
}

bool plan_takes(const struct plan *plan, const struct kern_row *row,
                const struct kern_problem *p, const struct view *in,
                const struct view *out)
{
    bool good = (row->flags & KERN_STRIDED) || is_aligned(plan, out);
    int i;

    for (i = 0; i < p->n_in && good; i++)
        good = in[i].t.dtype == INFER_NONE || (row->flags & KERN_STRIDED) ||
               is_aligned(plan, &in[i]);
    return good && plan_supports(plan, row, p, NULL);
}

/* The same for a way that may copy inputs first; the output is a buffer of its
 * own. */
static bool takes_attempt(const struct plan *plan, const struct kern_row *row,
                          const struct plan_emit *e,
                          const struct plan_attempt *a,
                          const struct kern_problem *p, struct infer_error *why)
{
    int i;

    for (i = 0; i < p->n_in; i++)
        if (e->in[i].t.dtype != INFER_NONE && !(row->flags & KERN_STRIDED) &&
            !plan_moves(e, i, a) && !is_aligned(plan, &e->in[i])) {
            error_set(why, INFER_EUNSUPPORTED,
                      "%s takes inputs aligned to %d bytes", row->name,
                      GPU_ALIGN);
            return false;
        }
    return plan_supports(plan, row, p, why);
}

const struct kern_row *plan_best_row(const struct plan *plan,
                                     const struct kern_problem *p,
                                     enum infer_backend backend,
                                     const struct view *in,
                                     const struct view *out, double *us)
{
    const struct kern_row *best = NULL;
    size_t r;

    *us = 0;
    for (r = 0; r < kern_row_count(); r++) {
        const struct kern_row *row = kern_row_at(r);
        double estimate;

        if (row->op != p->op || row->backend != backend ||
            (row->flags & KERN_BASELINE) || (best && !row->estimate) ||
            !plan_takes(plan, row, p, in, out))
            continue;
        estimate =
            row->estimate ? row->estimate(p, &plan->config->device->kern) : 0;
        if (!best || *us == 0 || estimate < *us) {
            best = row;
            *us = estimate;
        }
    }
    return best;
}

/* Whether the row has nothing to say about the problem that would be worth more
 * than what another has said: it is for another type. */
static bool is_beside(const struct kern_row *row, const struct plan_emit *e,
                      const struct infer_error *why)
{
    return row->dtype != INFER_NONE && row->dtype != e->in[0].t.dtype &&
           (!why || why->text[0]);
}

bool plan_find(const struct plan *plan, const struct plan_emit *e,
               enum infer_backend backend, bool baselines,
               struct infer_error *why, struct plan_choice *out)
{
    struct plan_attempt a[4];
    size_t r;
    int i, n;

    for (r = 0; r < kern_row_count(); r++) {
        const struct kern_row *row = kern_row_at(r);

        if (row->op != e->p.op || row->backend != backend ||
            ((row->flags & KERN_BASELINE) != 0) != baselines ||
            is_beside(row, e, why))
            continue;
        n = attempts(e, row, a);
        for (i = 0; i < n; i++) {
            build(plan, e, &a[i], &out->problem);
            if (!takes_attempt(plan, row, e, &a[i], &out->problem, why))
                continue;
            out->row = row;
            out->attempt = a[i];
            return true;
        }
    }
    return false;
}
