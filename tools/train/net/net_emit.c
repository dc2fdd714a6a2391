/* SPDX-License-Identifier: Apache-2.0 */
/* From one problem on views to a launch: the choice of a row. */
#include "tools/train/net/net.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/problem.h"

const char *const net_stage_names[] = {"fprop",    "loss",   "dgrad", "wgrad",
                                       "exchange", "update", NULL};

/* ---- buffers ------------------------------------------------------- */

int net_buffer(struct net *n, enum net_memory memory, size_t bytes,
               struct infer_error *err)
{
    return plan_add_buffer(&n->buffers, memory, bytes, err);
}

int net_tensor(struct net *n, enum net_memory memory, enum infer_dtype dtype,
               int rank, const int64_t *dim, enum kern_layout layout,
               struct infer_error *err, struct view *out)
{
    size_t bytes;
    int buffer;

    if (view_dense(0, dtype, rank, dim, layout, &bytes, out) < 0)
        return error_set(err, INFER_EMEMORY,
                         "a tensor of the network is beyond all memory");
    buffer = net_buffer(n, memory, bytes, err);
    if (buffer < 0)
        return buffer;
    out->buffer = buffer;
    return 0;
}

/* ---- choosing ------------------------------------------------------ */

/* Inputs that are parameters, which a step on a CPU may repack; one bit each.
 */
static uint32_t weight_inputs(const struct net *n, const struct net_emit *e)
{
    uint32_t bits = 0;

    if (!n->options.device->ops->host_memory ||
        (e->p.op != KERN_CONV_FPROP && e->p.op != KERN_DENSE_FPROP &&
         e->p.op != KERN_CONV_TRANSPOSE_FPROP))
        return 0;
    for (int i = 1; i < KERN_MAX_IN && i < 3; i++)
        if (e->in[i].t.dtype != INFER_NONE)
            bits |= 1u << i;
    return bits;
}

/* Rows that read weights unpacked come before rows of the same tier that read
 * them packed, which costs a pass over the weights every step. */
static const struct kern_row *choose(const struct net *n,
                                     const struct net_emit *e,
                                     struct kern_problem *p,
                                     struct infer_error *why)
{
    const struct row_query q = {p, &n->options.device->kern, true};
    const uint32_t weights = weight_inputs(n, e);
    const uint32_t *tier = n->tiers.tier;
    const struct kern_row *row;

    for (int i = 0; i < n->tiers.n; i++) {
        p->constant_in = 0;
        row = row_best(&q, tier[i], why, NULL);
        if (!row && weights && tier[i] != ROW_TIER(INFER_BACKEND_REF)) {
            p->constant_in = weights;
            row = row_best(&q, tier[i], why, NULL);
        }
        if (row)
            return row;
    }
    return NULL;
}

/* A query for the problem on the views of e. */
static struct row_query query(const struct net *n, const struct net_emit *e)
{
    const struct device *d = n->options.device;
    struct row_query q = {&e->p, &d->kern, true};

    for (int i = 0; i < KERN_MAX_IN; i++)
        q.aligned = q.aligned &&
                    row_view_is_aligned(d, e->in[i].t.dtype, e->in[i].offset);
    for (int i = 0; i < KERN_MAX_OUT; i++)
        q.aligned = q.aligned &&
                    row_view_is_aligned(d, e->out[i].t.dtype, e->out[i].offset);
    return q;
}

/* The fastest row by measurement, if the network has a tuner.  Vendors'
 * libraries compete only in an exhaustive search on a GPU with no backend
 * named: making their plans takes longer than most runs would win back.
 * Otherwise the rows of the tier that the fixed rule takes compete: a CPU's
 * reference is far slower in any case. */
static int tune(const struct net *n, const struct net_emit *e,
                struct infer_error *err, struct tune_choice *choice)
{
    const bool all = n->options.device->kern.kind == KERN_CUDA &&
                     n->options.backend == INFER_BACKEND_AUTO &&
                     tuner_mode(n->options.tuner) == TUNE_EXHAUSTIVE;
    const struct row_query q = query(n, e);
    const uint32_t *tier = n->tiers.tier;

    if (all)
        return tuner_pick(n->options.tuner, &q, tier, n->tiers.n, err, choice);
    while (!row_is_of(choice->row, *tier, e->p.op))
        tier++;
    return tuner_pick(n->options.tuner, &q, tier, 1, err, choice);
}

/* ---- problems ------------------------------------------------------ */

void net_emit_begin(struct net_emit *e, int list, enum kern_op op,
                    enum net_stage stage, int node)
{
    memset(e, 0, sizeof(*e));
    e->p.op = op;
    e->list = list;
    e->stage = stage;
    e->node = node;
}

static void describe(const struct net *n, struct net_emit *e)
{
    struct kern_problem *p = &e->p;

    p->n_in = p->n_out = 0;
    for (int i = 0; i < KERN_MAX_IN; i++) {
        p->in[i] = e->in[i].t;
        if (p->in[i].dtype != INFER_NONE)
            p->n_in = i + 1;
    }
    for (int i = 0; i < KERN_MAX_OUT; i++) {
        p->out[i] = e->out[i].t;
        if (p->out[i].dtype != INFER_NONE)
            p->n_out = i + 1;
    }
    /* Processes that exchange gradients must compute the same weights. A
     * measured choice must not change bits either: a resumed run equals one
     * that was not interrupted. */
    p->deterministic = n->options.deterministic ||
                       tuner_mode(n->options.tuner) != TUNE_OFF ||
                       (e->list == NET_LIST_UPDATE && n->options.exchange);
    p->allow_tf32 = n->options.allow_tf32;
}

/* ---- launches ------------------------------------------------------ */

static int no_row(const struct net *n, const struct net_emit *e,
                  const struct infer_error *why, struct infer_error *err)
{
    const char *name = e->node >= 0 && n->g->node[e->node].name
                           ? n->g->node[e->node].name
                           : "";
    char text[512];

    kern_problem_format(&e->p, text, sizeof(text));
    return error_set(err, INFER_EUNSUPPORTED,
                     "node '%s' (%s): no kernel for %s: %s", name,
                     net_stage_names[e->stage], text,
                     why->text[0] ? why->text : "there is none at all");
}

const struct kern_row *net_row(const struct net *n, struct net_emit *e)
{
    describe(n, e);
    return choose(n, e, &e->p, NULL);
}

int net_seconds(const struct net *n, struct net_emit *e,
                struct infer_error *err, double *out)
{
    struct tune_choice choice = {.row = net_row(n, e)};
    const int rc = choice.row ? tune(n, e, err, &choice) : 0;

    *out = choice.seconds;
    return rc;
}

static struct plan_step *new_step(enum net_stage stage, int node,
                                  struct infer_error *err)
{
    struct plan_step *step = calloc(1, sizeof *step);

    if (!step) {
        error_set(err, INFER_EMEMORY, "out of memory");
        return NULL;
    }
    step->stage = stage;
    step->node = node;
    return step;
}

/* Also keeps the buffers of a step on the side stream to the end of its list.
 */
static void count_workspace(struct net *n, const struct plan_step *step)
{
    const size_t bytes = step->exec.workspace;

    if (bytes > n->workspace_bytes)
        n->workspace_bytes = bytes;
    if (!step->side)
        return;
    for (int i = 0; i < KERN_MAX_IN; i++)
        plan_touch(&n->buffers, &step->in[i], INT_MAX);
    for (int i = 0; i < KERN_MAX_OUT; i++)
        plan_touch(&n->buffers, &step->out[i], INT_MAX);
    if (bytes > n->side_bytes)
        n->side_bytes = bytes;
}

int net_emit(struct net *n, struct net_emit *e, struct infer_error *err)
{
    struct infer_error why;
    struct plan_step *step;
    int rc;

    why.text[0] = '\0';
    describe(n, e);
    /* Reasons are put together only when they are needed: that takes longer
     * than all checks. */
    const struct kern_row *rule = choose(n, e, &e->p, NULL);
    if (!rule) {
        (void)choose(n, e, &e->p, &why);
        return no_row(n, e, &why, err);
    }
    step = new_step(e->stage, e->node, err);
    if (!step)
        return INFER_EMEMORY;
    memcpy(step->in, e->in, sizeof step->in);
    memcpy(step->out, e->out, sizeof step->out);
    step->side = e->side;
    step->choice.row = rule;
    rc = tune(n, e, err, &step->choice);
    if (rc == 0)
        rc = tuner_prepare(&step->choice, &e->p, &n->options.device->kern, err,
                           &step->exec);
    step->prepared = rc == 0;
    if (rc == 0)
        rc = plan_append(&n->list[e->list].steps, &n->buffers, step, err);
    if (rc < 0) {
        if (step->prepared)
            kern_release(&step->exec);
        free(step);
        return rc;
    }
    count_workspace(n, step);
    return 0;
}

int net_emit_transfer(struct net *n, int list, enum net_transfer kind, int node,
                      const struct view *array, struct infer_error *err)
{
    struct plan_step *step = new_step(NET_EXCHANGE, node, err);
    int rc;

    if (!step)
        return INFER_EMEMORY;
    step->in[0] = *array;
    step->transfer = kind;
    rc = plan_append(&n->list[list].steps, &n->buffers, step, err);
    if (rc < 0)
        free(step);
    return rc;
}

int net_copy(struct net *n, int list, enum net_stage stage, int node,
             const struct view *from, const struct view *to,
             struct infer_error *err)
{
    struct net_emit e;

    net_emit_begin(&e, list, KERN_COPY, stage, node);
    e.in[0] = *from;
    e.out[0] = *to;
    return net_emit(n, &e, err);
}
