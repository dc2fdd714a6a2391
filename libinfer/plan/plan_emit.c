/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From one problem on views to steps.
 *
 * For each tier of backends and each of its rows, a few ways to lay the tensors
 * out are put to the row's supports() (plan_choice.c); the first that it takes
 * is used, after copies of the inputs that lie otherwise.  Baseline rows are
 * asked where no other computes a problem.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/array.h"
#include "kernels/base/error.h"
#include "kernels/problem.h"
#include "libinfer/plan/plan.h"
#include "libinfer/plan/plan_choice.h"

/* ---- steps --------------------------------------------------------- */

/* Computed once, before the first run. */
static bool is_steady(const struct plan *plan, const struct view *v)
{
    const int memory = plan->buffers.at[v->buffer].memory;

    return memory == PLAN_CONSTANT || memory == PLAN_KEPT ||
           memory == PLAN_PRODUCTS;
}

static bool inputs_steady(const struct plan *plan, const struct view *in,
                          int n_in)
{
    int i;

    for (i = 0; i < n_in; i++)
        if (in[i].t.dtype != INFER_NONE && !is_steady(plan, &in[i]))
            return false;
    return true;
}

/* A buffer that nothing wrote yet, and all of which the view covers. */
static bool is_fresh(const struct plan *plan, const struct view *v)
{
    const struct plan_buffer *b = &plan->buffers.at[v->buffer];

    return b->memory == PLAN_ARENA && b->first == INT_MAX &&
           (size_t)kern_tensor_count(&v->t) * infer_dtype_size(v->t.dtype) ==
               b->bytes;
}

static int add_step(struct plan *plan, int node, const struct kern_row *row,
                    const struct kern_problem *p, const struct view *in,
                    const struct view *out, bool is_main,
                    struct infer_error *err)
{
    struct plan_step *s = calloc(1, sizeof *s);
    int rc;

    if (!s)
        return error_set(err, INFER_EMEMORY, "plan: out of memory");
    s->exec.row = row;
    memcpy(&s->exec.problem, p, sizeof *p);
    s->node = node;
    s->main = is_main;
    s->out[0] = *out;
    s->once = is_fresh(plan, out) && inputs_steady(plan, in, p->n_in);
    if (s->once)
        plan->buffers.at[out->buffer].memory = PLAN_KEPT;
    memcpy(s->in, in, (size_t)p->n_in * sizeof in[0]);
    rc = plan_append(&plan->steps, &plan->buffers, s, err);
    if (rc < 0)
        free(s);
    return rc;
}

/* ---- where the output goes ----------------------------------------- */

/* The input that the output may overwrite, as kern.h allows it, or -1: in[0]
 * of element-wise operations, the residual of a convolution. */
static int overwritable(const struct plan_emit *e)
{
    const int i = kern_op_in_place(e->p.op, 0);

    if (i != kern_op_residual(e->p.op))
        return i;
    return e->p.op == KERN_CONV_FPROP || e->p.op == KERN_CHAIN ? e->residual
                                                               : -1;
}

static bool same_strides(const struct kern_tensor *a,
                         const struct kern_tensor *b)
{
    int i;

    if (a->rank != b->rank)
        return false;
    for (i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i] ||
            (a->dim[i] > 1 && a->stride[i] != b->stride[i]))
            return false;
    return true;
}

/* The input that the output overwrites, or -1. No other step reads that buffer
 * afterwards, nor this step through another input. */
static int in_place(const struct plan *plan, const struct plan_emit *e,
                    const struct plan_choice *c, const struct view *in)
{
    const struct kern_tensor *out = &c->problem.out[0];
    const int over = overwritable(e);
    const struct plan_buffer *b;
    int i;

    if (over < 0 || plan->config->keep_tensors)
        return -1;
    b = &plan->buffers.at[in[over].buffer];
    if (b->memory != PLAN_ARENA || b->pending != 1 ||
        infer_dtype_size(in[over].t.dtype) != infer_dtype_size(out->dtype) ||
        !same_strides(&in[over].t, out))
        return -1;
    for (i = 0; i < c->problem.n_in; i++)
        if (i != over && in[i].t.dtype != INFER_NONE &&
            in[i].buffer == in[over].buffer)
            return -1;
    return over;
}

/* Estimate of a copy in microseconds: its launch, and its bytes at 2 TB/s. */
static double copy_estimate(const struct plan *plan,
                            const struct kern_tensor *t)
{
    return 3 + 2e-6 * plan_count(plan, t) * (double)infer_dtype_size(t->dtype);
}

/* Writes to the value's place in a concatenation if a row of the same tier
 * takes that output and is not slower than writing elsewhere and copying. */
static int try_dest(struct plan *plan, const struct plan_emit *e,
                    struct plan_choice *c, const struct view *in,
                    struct infer_error *err, bool *done, struct view *out)
{
    struct plan_value *v = &plan->value[e->value];
    const struct kern_tensor *want = &e->p.out[0];
    const struct kern_row *row;
    struct row_query q;
    struct kern_problem p;
    struct view dest, dense;
    double here, there;
    int rc;

    rc = plan_concat_dest(plan, e->value, c->attempt.out, err, &dest);
    if (rc < 0)
        return rc;
    if (dest.t.dtype != want->dtype || dest.t.rank != want->rank ||
        memcmp(dest.t.dim, want->dim,
               (size_t)want->rank * sizeof want->dim[0]) != 0)
        return 0;
    memcpy(&p, &c->problem, sizeof p);
    p.out[0] = dest.t;
    q = plan_query(plan, &p, in, &dest);
    row = row_best(&q, c->tier, NULL, &there);
    if (!row)
        return 0;
    dense = dest; /* in a buffer of its own; any aligned offset will do */
    dense.offset = 0;
    dense.t = c->problem.out[0];
    q = plan_query(plan, &c->problem, in, &dense);
    (void)row_best(&q, c->tier, NULL, &here);
    if (here > 0 && (there == 0 || there > here + copy_estimate(plan, want)))
        return 0;
    c->row = row;
    memcpy(&c->problem, &p, sizeof p);
    v->in_dest = true;
    *out = dest;
    *done = true;
    return 0;
}

static int place_output(struct plan *plan, int node, const struct plan_emit *e,
                        struct plan_choice *c, const struct view *in,
                        struct infer_error *err, struct view *out)
{
    const struct kern_tensor *t = &e->p.out[0];
    bool done = false;
    int over, rc;

    if (e->into && same_strides(&e->into->t, &c->problem.out[0])) {
        *out = *e->into;
        return 0;
    }
    if (e->value >= 0 && plan->value[e->value].concat >= 0 &&
        !inputs_steady(plan, in, c->problem.n_in)) {
        rc = try_dest(plan, e, c, in, err, &done, out);
        if (rc < 0 || done)
            return rc;
    }
    over = in_place(plan, e, c, in);
    if (over >= 0) {
        *out = in[over];
        out->t.dtype = t->dtype;
        /* Remembered copies of the old contents are stale. */
        plan->buffers.at[out->buffer].copies = -1;
        return 0;
    }
    rc = plan_buffer(plan, node, t->dtype, t->rank, t->dim, c->attempt.out, err,
                     out);
    /* Not ordered anew: an axis of which one entry is left no longer says where
     * it lay. */
    if (rc == 0 && c->attempt.follows)
        memcpy(out->t.stride, c->problem.out[0].stride, sizeof out->t.stride);
    return rc;
}

static int emit_choice(struct plan *plan, int node, const struct plan_emit *e,
                       struct plan_choice *c, struct infer_error *err,
                       struct view *out)
{
    struct view in[KERN_MAX_IN];
    const struct kern_row *best;
    struct row_query q;
    int i, rc;

    memset(in, 0, sizeof in);
    for (i = 0; i < e->p.n_in; i++) {
        in[i] = e->in[i];
        if (!plan_moves(e, i, &c->attempt))
            continue;
        rc = plan_dense(plan, node, &e->in[i], c->attempt.layout, err, &in[i]);
        if (rc < 0)
            return rc;
    }
    rc = place_output(plan, node, e, c, in, err, out);
    if (rc < 0)
        return rc;
    q = plan_query(plan, &c->problem, in, out);
    best = row_best(&q, c->tier, NULL, NULL);
    return add_step(plan, node, best ? best : c->row, &c->problem, in, out,
                    true, err);
}

/* ---- epilogues that a backend does not fuse ------------------------ */

static bool has_epilogue(const struct plan_emit *e)
{
    return e->p.epilogue.act.kind != KERN_IDENTITY || e->residual >= 0;
}

void plan_single(enum kern_op op, enum plan_class class, const struct view *in,
                 enum infer_dtype dtype, int rank, const int64_t *dim,
                 struct plan_emit *e)
{
    memset(e, 0, sizeof *e);
    e->class = class;
    e->p.op = op;
    e->p.n_in = e->p.n_out = 1;
    e->in[0] = *in;
    e->p.out[0].dtype = dtype;
    e->p.out[0].rank = rank;
    memcpy(e->p.out[0].dim, dim, (size_t)rank * sizeof dim[0]);
    e->value = -1;
    e->residual = -1;
}

/* Emits a step that is the last reader of y, its in[0]. */
static int emit_over(struct plan *plan, int node, const struct plan_emit *e,
                     struct infer_error *err, struct view *y)
{
    const int buffer = y->buffer;
    const int64_t pending = plan->buffers.at[buffer].pending;
    int rc;

    plan->buffers.at[buffer].pending = 1;
    rc = plan_emit(plan, node, e, err, y);
    plan->buffers.at[buffer].pending = pending;
    return rc;
}

static int emit_activation(struct plan *plan, int node, struct view *y,
                           const struct kern_unary *act, int value,
                           struct infer_error *err)
{
    struct plan_emit u;

    plan_single(KERN_UNARY, PLAN_POINTWISE, y, y->t.dtype, y->t.rank, y->t.dim,
                &u);
    u.p.attr.unary = *act;
    u.value = value;
    return emit_over(plan, node, &u, err, y);
}

static int emit_sum(struct plan *plan, int node, struct view *y,
                    const struct view *residual, const struct kern_unary *act,
                    int value, struct infer_error *err)
{
    struct plan_emit b;

    plan_single(KERN_BINARY, PLAN_POINTWISE, y, y->t.dtype, y->t.rank, y->t.dim,
                &b);
    b.p.attr.binary.kind = KERN_ADD;
    if (act)
        b.p.epilogue.act = *act;
    b.p.n_in = 2;
    b.in[1] = *residual;
    b.value = value;
    return emit_over(plan, node, &b, err, y);
}

/* Emits the operation without its epilogue, then the epilogue as separate
 * steps. */
static int emit_split(struct plan *plan, int node, const struct plan_emit *e,
                      struct plan_choice *c, const struct plan_emit *bare,
                      struct infer_error *err, struct view *out)
{
    const struct kern_unary *act = &e->p.epilogue.act;
    bool last = e->p.epilogue.residual_last;
    struct view y;
    int rc = emit_choice(plan, node, bare, c, err, &y);

    if (rc < 0)
        return rc;
    if (e->residual < 0) {
        rc = emit_activation(plan, node, &y, act, e->value, err);
    } else if (act->kind == KERN_IDENTITY || !last) {
        rc = emit_sum(plan, node, &y, &e->in[e->residual], act, e->value, err);
    } else {
        rc = emit_activation(plan, node, &y, act, -1, err);
        if (rc == 0)
            rc = emit_sum(plan, node, &y, &e->in[e->residual], NULL, e->value,
                          err);
    }
    *out = y;
    return rc;
}

static void make_bare(const struct plan_emit *e, struct plan_emit *bare)
{
    memcpy(bare, e, sizeof *bare);
    memset(&bare->p.epilogue, 0, sizeof bare->p.epilogue);
    if (e->residual >= 0)
        memset(&bare->in[e->residual], 0, sizeof bare->in[0]);
    while (bare->p.n_in > 0 && bare->in[bare->p.n_in - 1].t.dtype == INFER_NONE)
        bare->p.n_in--;
    bare->residual = -1;
    bare->value = -1;
}

/* ---- entry --------------------------------------------------------- */

/* Reports that no row computes the node and returns a view of the right shape,
 * so that the nodes after it are checked too. */
static int emit_nothing(struct plan *plan, int node, const struct plan_emit *e,
                        const struct infer_error *why, struct infer_error *err,
                        struct view *out)
{
    const struct graph_node *n = &plan->g->node[node];
    const struct kern_tensor *t = &e->p.out[0];
    const struct row_tiers *tiers = &plan->config->tiers;
    const bool strict = tiers->strict && kern_op_info(e->p.op)->product;

    plan->failed++;
    error_add(err, INFER_EUNSUPPORTED, "node '%s' (%s): no kernel%s%s%s%s",
              n->name ? n->name : "", graph_op_info(n->op)->name,
              strict ? " of backend " : "",
              strict ? device_backend_names[__builtin_ctz(tiers->tier[0])] : "",
              why->text[0] ? ": " : "", why->text);
    return plan_buffer(plan, node, t->dtype, t->rank, t->dim, KERN_NCHW, err,
                       out);
}

static int widen_vectors(struct plan *plan, int node, struct plan_emit *e,
                         struct infer_error *err)
{
    int i, rc = 0;

    for (i = 0; rc == 0 && i < e->p.n_in; i++) {
        const struct view v = e->in[i];

        if (!kern_op_is_vector(e->p.op, i) ||
            (v.t.dtype != INFER_F16 && v.t.dtype != INFER_BF16))
            continue;
        if (plan->buffers.at[v.buffer].memory == PLAN_CONSTANT) {
            rc = plan_constant_as(plan, &v, INFER_F32, err, &e->in[i]);
            continue;
        }
        rc = plan_buffer(plan, node, INFER_F32, v.t.rank, v.t.dim, KERN_NCHW,
                         err, &e->in[i]);
        if (rc == 0)
            rc = plan_copy_to(plan, node, &v, &e->in[i], err);
    }
    return rc;
}

int plan_tiers(const struct plan *plan, enum kern_op op)
{
    const struct row_tiers *t = &plan->config->tiers;

    return t->strict && kern_op_info(op)->product ? 1 : t->n;
}

/* Emits the node through one tier, its epilogue as steps of their own where the
 * tier fuses none; 1: it has no row for it. */
static int emit_through(struct plan *plan, int node, const struct plan_emit *e,
                        uint32_t tier, bool baselines, struct infer_error *why,
                        struct infer_error *err, struct view *out)
{
    struct plan_emit bare;
    struct plan_choice c;

    if (plan_find(plan, e, tier, baselines, why, &c))
        return emit_choice(plan, node, e, &c, err, out);
    if (!has_epilogue(e))
        return 1;
    make_bare(e, &bare);
    if (plan_find(plan, &bare, tier, baselines, NULL, &c))
        return emit_split(plan, node, e, &c, &bare, err, out);
    return 1;
}

static int emit_any(struct plan *plan, int node, const struct plan_emit *e,
                    struct infer_error *err, struct view *out)
{
    const uint32_t *tier = plan->config->tiers.tier;
    const int n = plan_tiers(plan, e->p.op);
    struct infer_error why;
    int i, rc = 1;

    why.text[0] = '\0';
    for (i = 0; i < n && rc > 0; i++)
        rc = emit_through(plan, node, e, tier[i], false, &why, err, out);
    for (i = 0; i < n && rc > 0; i++)
        rc = emit_through(plan, node, e, tier[i], true, NULL, err, out);
    return rc > 0 ? emit_nothing(plan, node, e, &why, err, out) : rc;
}

int plan_emit(struct plan *plan, int node, const struct plan_emit *e,
              struct infer_error *err, struct view *out)
{
    struct plan_emit wide;
    int64_t images;
    int rc;

    if (kern_tensor_count(&e->p.out[0]) == 0)
        return plan_buffer(plan, node, e->p.out[0].dtype, e->p.out[0].rank,
                           e->p.out[0].dim, KERN_NCHW, err, out);
    if (plan_in_parts(plan, e, &images))
        return plan_emit_parts(plan, node, e, images, err, out);
    if (plan->config->precision == INFER_PRECISION_FP32 ||
        plan->config->precision == INFER_PRECISION_TF32)
        return emit_any(plan, node, e, err, out);
    memcpy(&wide, e, sizeof wide);
    rc = widen_vectors(plan, node, &wide, err);
    return rc < 0 ? rc : emit_any(plan, node, &wide, err, out);
}

/* ---- copies -------------------------------------------------------- */

/* The row for a copy: the merged form is put to a row before the plain
 * one, since more kernels walk few dimensions. */
const struct kern_row *plan_find_copy(const struct plan *plan,
                                      struct kern_problem *p, bool aligned)
{
    const struct plan_config *config = plan->config;
    struct kern_problem merged;
    struct row_query q = plan_ask(plan, p);

    q.aligned = aligned;
    memcpy(&merged, p, sizeof merged);
    view_coalesce(&merged.in[0], &merged.out[0]);
    for (int i = 0; i < config->tiers.n; i++)
        for (size_t r = 0; r < kern_row_count(); r++) {
            const struct kern_row *row = kern_row_at(r);

            if (!row_is_of(row, config->tiers.tier[i], KERN_COPY))
                continue;
            q.problem = &merged;
            if (row_takes(&q, row, NULL)) {
                memcpy(p, &merged, sizeof *p);
                return row;
            }
            q.problem = p;
            if (row_takes(&q, row, NULL))
                return row;
        }
    return NULL;
}

/* Adds the step of a copy; *taken: whether a row computes it. */
static int emit_copy(struct plan *plan, int node, const struct view *from,
                     const struct view *to, const struct kern_quant *quant,
                     struct infer_error *err, bool *taken)
{
    struct kern_problem p;
    const struct kern_row *row;
    struct view in[KERN_MAX_IN];

    *taken = true;
    if (kern_tensor_count(&from->t) == 0)
        return 0;
    memset(&p, 0, sizeof p);
    p.op = KERN_COPY;
    p.n_in = p.n_out = 1;
    p.in[0] = from->t;
    p.out[0] = to->t;
    if (quant)
        p.quant = *quant;
    p.deterministic = plan->config->deterministic;
    memset(in, 0, sizeof in);
    in[0] = *from;
    row = plan_find_copy(plan, &p, plan_query(plan, &p, in, to).aligned);
    *taken = row != NULL;
    if (!row)
        return 0;
    return add_step(plan, node, row, &p, in, to, quant != NULL, err);
}

int plan_copy_scaled(struct plan *plan, int node, const struct view *from,
                     const struct view *to, const struct kern_quant *quant,
                     struct infer_error *err, bool *taken)
{
    return emit_copy(plan, node, from, to, quant, err, taken);
}

int plan_copy_to(struct plan *plan, int node, const struct view *from,
                 const struct view *to, struct infer_error *err)
{
    bool taken;
    const int rc = emit_copy(plan, node, from, to, NULL, err, &taken);

    if (rc == 0 && !taken) {
        plan->failed++;
        error_add(err, INFER_EUNSUPPORTED,
                  "no kernel copies %s to %s (rank %d)",
                  infer_dtype_name(from->t.dtype),
                  infer_dtype_name(to->t.dtype), from->t.rank);
    }
    return rc;
}

static int remember_copy(struct plan *plan, const struct view *from,
                         const struct view *to, struct infer_error *err)
{
    void *copy = array_reserve(plan->copy, plan->n_copies,
                               &plan->copies_capacity, sizeof *plan->copy);

    if (!copy)
        return error_set(err, INFER_EMEMORY, "plan: out of memory");
    plan->copy = copy;
    plan->copy[plan->n_copies] =
        (struct plan_copy){*from, *to, plan->buffers.at[from->buffer].copies};
    plan->buffers.at[from->buffer].copies = plan->n_copies++;
    return 0;
}

int plan_dense(struct plan *plan, int node, const struct view *v,
               enum kern_layout layout, struct infer_error *err,
               struct view *out)
{
    struct view copy;
    int i, rc;

    if (kern_tensor_is_dense(&v->t, layout)) {
        *out = *v;
        return 0;
    }
    for (i = plan->buffers.at[v->buffer].copies; i >= 0; i = plan->copy[i].next)
        if (view_same(&plan->copy[i].from, v) &&
            kern_tensor_is_dense(&plan->copy[i].to.t, layout)) {
            *out = plan->copy[i].to;
            return 0;
        }
    rc = plan_buffer(plan, node, v->t.dtype, v->t.rank, v->t.dim, layout, err,
                     &copy);
    if (rc == 0)
        rc = plan_copy_to(plan, node, v, &copy, err);
    if (rc == 0)
        rc = remember_copy(plan, v, &copy, err);
    if (rc == 0)
        *out = copy;
    return rc;
}
