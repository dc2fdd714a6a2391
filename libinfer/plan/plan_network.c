/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan as the network of tune_network.c: its runs are recorded and replayed
 * as they will be later, on memory of their own.
 *
 * A step with another choice is prepared as a spare step, its weights packed
 * anew, and swapped with the plan's.  The one that is not kept is released.
 */
#include <stdlib.h>
#include <string.h>

#include "libinfer/plan/plan.h"

/* Bytes of workspace beyond what the plan needs that a trial may take. */
#define MORE_WORKSPACE ((size_t)32 << 20)

/* A network runs for SERIES_TIME (seconds) or MAX_SERIES times between two
 * marks: the device's clock ticks in parts of a microsecond. */
#define SERIES_TIME 0.3e-3
#define MAX_SERIES  8

/* A prepared step that is not in the plan. */
struct spare {
    bool there;
    struct kern_exec exec;
    struct packed *packed[KERN_MAX_IN];
    struct tune_choice choice;
};

struct trials {
    struct plan *plan;
    struct tune_network network;
    struct plan_step **step; /* of the plan, one for each of the network's */
    struct spare *spare;     /* likewise */
    void *arena, *workspace;
    size_t workspace_bytes;
    int series;
    struct device_graph *stands, *tried;
};

/* ---- the network --------------------------------------------------- */

static bool takes(void *user, int step, const struct kern_row *row)
{
    const struct trials *t = user;
    const struct plan_step *s = t->step[step];

    const struct row_query q =
        plan_query(t->plan, &s->exec.problem, s->in, s->out);

    return row_takes(&q, row, NULL);
}

static double now(void *user)
{
    (void)user;
    return tune_now();
}

static void close_network(struct trials *t)
{
    free(t->network.step);
    free(t->step);
    free(t->spare);
}

static void add_step(struct trials *t, struct plan_step *s)
{
    struct tune_step *to = &t->network.step[t->network.n_steps];

    t->step[t->network.n_steps++] = s;
    to->problem = &s->exec.problem;
    to->rule.row = s->rule;
    memcpy(&to->choice, &s->choice, sizeof to->choice);
}

static bool open_network(struct plan *plan, struct trials *t)
{
    const size_t n = (size_t)plan->steps.n + 1;
    int i;

    *t = (struct trials){.plan = plan};
    t->network.user = t;
    t->network.takes = takes;
    t->network.now = now;
    t->network.step = calloc(n, sizeof *t->network.step);
    t->step = calloc(n, sizeof(struct plan_step *));
    t->spare = calloc(n, sizeof *t->spare);
    if (!t->network.step || !t->step || !t->spare) {
        close_network(t);
        return false;
    }
    for (i = 0; i < plan->steps.n; i++)
        if (!plan->steps.at[i]->once)
            add_step(t, plan->steps.at[i]);
    return true;
}

/* True if the device records runs and no input is an integer that might be an
 * index: random numbers would be out of range. */
static bool may_refine(const struct plan *plan)
{
    const struct device_ops *ops = plan->config->device->ops;
    const struct graph *g = plan->g;

    for (int i = 0; i < g->n_inputs; i++) {
        const enum infer_dtype dtype = g->value[g->input[i]].dtype;

        if (!tune_is_real(dtype) && dtype != INFER_U8)
            return false;
    }
    return tuner_mode(plan->config->tuner) != TUNE_OFF && ops->replay &&
           ops->mark && g->n_inputs > 0;
}

void plan_recall(struct plan *plan)
{
    struct trials t;
    int i;

    if (!may_refine(plan) || !open_network(plan, &t))
        return;
    plan->recalled = tuner_recall(plan->config->tuner, &t.network);
    for (i = 0; plan->recalled && i < t.network.n_steps; i++) {
        memcpy(&t.step[i]->choice, &t.network.step[i].choice,
               sizeof t.step[i]->choice);
        t.step[i]->exec.row = t.step[i]->choice.row;
    }
    close_network(&t);
}

/* ---- spare steps --------------------------------------------------- */

static bool is_constant(const struct plan *plan, const struct plan_step *s,
                        int i)
{
    return s->in[i].t.dtype != INFER_NONE &&
           plan->buffers.at[s->in[i].buffer].memory == PLAN_CONSTANT;
}

static void free_spare(const struct trials *t, struct spare *spare)
{
    struct packed_cache *cache = model_packed(t->plan->config->model);
    int i;

    if (!spare->there)
        return;
    kern_release(&spare->exec);
    for (i = 0; i < KERN_MAX_IN; i++)
        packed_unref(cache, spare->packed[i]);
    memset(spare, 0, sizeof *spare);
}

static void free_spares(const struct trials *t)
{
    int i;

    for (i = 0; i < t->network.n_steps; i++)
        free_spare(t, &t->spare[i]);
}

/* 1 if the choice cannot be prepared or memory is short. */
static int make_spare(const struct trials *t, int i, struct infer_error *err)
{
    const struct plan_step *s = t->step[i];
    struct spare *spare = &t->spare[i];
    int k, rc = 0;

    spare->choice = t->network.step[i].choice;
    if (tuner_prepare(&spare->choice, &s->exec.problem,
                      &t->plan->config->device->kern, NULL, &spare->exec) < 0)
        return 1;
    spare->there = true;
    if (spare->exec.workspace > t->workspace_bytes)
        return 1;
    for (k = 0; rc == 0 && k < s->exec.problem.n_in; k++)
        if (is_constant(t->plan, s, k))
            rc = plan_load_constant(t->plan, &spare->exec, &s->in[k], k, err,
                                    &spare->packed[k]);
    return rc == INFER_EMEMORY ? 1 : rc;
}

static int make_spares(const struct trials *t, struct infer_error *err)
{
    int i, rc = 0;

    for (i = 0; rc == 0 && i < t->network.n_steps; i++)
        if (!tune_same(&t->network.step[i].choice, &t->step[i]->choice))
            rc = make_spare(t, i, err);
    return rc;
}

static void swap_bytes(void *a, void *b, size_t bytes)
{
    unsigned char *x = a, *y = b;

    while (bytes-- > 0) {
        const unsigned char byte = x[bytes];

        x[bytes] = y[bytes];
        y[bytes] = byte;
    }
}

/* Swaps the plan's steps with the spare ones. */
static void swap_spares(const struct trials *t)
{
    struct plan *plan = t->plan;
    int i;

    for (i = 0; i < t->network.n_steps; i++) {
        struct plan_step *s = t->step[i];
        struct spare *spare = &t->spare[i];

        if (!spare->there)
            continue;
        swap_bytes(&s->exec, &spare->exec, sizeof s->exec);
        swap_bytes(s->packed, spare->packed, sizeof s->packed);
        swap_bytes(&s->choice, &spare->choice, sizeof s->choice);
    }
    plan->bound_arena = NULL;
    plan_bind(plan, t->arena, t->workspace);
}

/* ---- time ---------------------------------------------------------- */

static int launch(const struct plan *plan, struct infer_error *err)
{
    const struct device *d = plan->config->device;
    int rc = d->ops->begin(d, err);

    if (rc == 0)
        rc = plan_launch(plan, err);
    return rc < 0 ? rc : d->ops->end(d, err);
}

/* Launches first, which loads the kernels. */
static int record(const struct plan *plan, struct infer_error *err,
                  struct device_graph **out)
{
    const struct device *d = plan->config->device;
    int rc = launch(plan, err);

    if (rc == 0)
        rc = d->ops->begin(d, err);
    if (rc == 0)
        rc = plan_record(plan, err, out);
    return rc < 0 ? rc : d->ops->end(d, err);
}

static int replay(const struct trials *t, struct device_graph *graph,
                  struct infer_error *err)
{
    const struct device *d = t->plan->config->device;
    int i, rc = 0;

    for (i = 0; rc == 0 && i < t->series; i++)
        rc = d->ops->replay(d, graph, err);
    return rc;
}

/* One series of each without marks warms up. */
static int replay_turns(const struct trials *t, int n, struct infer_error *err)
{
    const struct device *d = t->plan->config->device;
    int i, rc = replay(t, t->stands, err);

    if (rc == 0)
        rc = replay(t, t->tried, err);
    if (rc == 0)
        rc = d->ops->mark(d, 0, err);
    for (i = 0; rc == 0 && i < 2 * n; i++) {
        rc = replay(t, i % 2 == 0 ? t->stands : t->tried, err);
        if (rc == 0)
            rc = d->ops->mark(d, i + 1, err);
    }
    return rc;
}

static int time_runs(void *user, int n, struct infer_error *err, double *stands,
                     double *tried)
{
    const struct trials *t = user;
    const struct device *d = t->plan->config->device;
    int i, rc = d->ops->begin(d, err);

    if (rc == 0)
        rc = replay_turns(t, n, err);
    if (rc == 0)
        rc = d->ops->end(d, err);
    for (i = 0; rc == 0 && i < 2 * n; i++) {
        double *to = i % 2 == 0 ? &stands[i / 2] : &tried[i / 2];

        rc = d->ops->elapsed(d, i + 1, err, to);
        *to /= t->series;
    }
    return rc;
}

static int ready(void *user, struct infer_error *err)
{
    struct trials *t = user;
    int rc = make_spares(t, err);

    if (rc != 0) {
        free_spares(t);
        return rc;
    }
    swap_spares(t);
    return record(t->plan, err, &t->tried);
}

static void commit(void *user, bool stands)
{
    struct trials *t = user;
    const struct device *d = t->plan->config->device;

    d->ops->graph_free(d, stands ? t->stands : t->tried);
    if (stands)
        t->stands = t->tried;
    else
        swap_spares(t);
    t->tried = NULL;
    free_spares(t);
}

/* ---- memory -------------------------------------------------------- */

/* False if the memory for trials cannot be had in addition to the weights. */
static bool reserve(struct trials *t)
{
    const struct plan *plan = t->plan;
    const struct device *d = plan->config->device;
    const size_t bytes = plan->arena_bytes > 0 ? plan->arena_bytes : 1;

    t->workspace_bytes = plan->workspace_bytes + MORE_WORKSPACE;
    return d->ops->alloc(d, t->workspace_bytes, NULL, &t->workspace) == 0 &&
           d->ops->alloc(d, bytes, NULL, &t->arena) == 0 &&
           tune_fill(d, t->arena, bytes, NULL) == 0;
}

/* Points the plan at the memory, inputs included. */
static void bind_plan(const struct trials *t)
{
    struct plan *plan = t->plan;
    int i;

    plan_bind(plan, t->arena, t->workspace);
    for (i = 0; i < plan->n_patches; i++) {
        const struct plan_patch *p = &plan->patch[i];
        const int buffer = plan->input_buffer[p->input];

        *p->slot = (const unsigned char *)t->arena +
                   plan->buffers.at[buffer].offset + p->bytes;
    }
}

/* Frees plain constants whose only readers now read them packed. */
static void drop_unread(struct plan *plan)
{
    struct packed_cache *cache = model_packed(plan->config->model);
    int b, i, k;

    for (b = 0; b < plan->buffers.n; b++) {
        bool read = false;

        for (i = 0; plan->buffers.at[b].plain && !read && i < plan->steps.n;
             i++)
            for (k = 0; k < plan->steps.at[i]->exec.problem.n_in; k++)
                read = read || (is_constant(plan, plan->steps.at[i], k) &&
                                plan->steps.at[i]->in[k].buffer == b &&
                                plan->steps.at[i]->exec.packed[k] == 0);
        if (read)
            continue;
        packed_unref(cache, plan->buffers.at[b].plain);
        plan->buffers.at[b].plain = NULL;
    }
}

static void finish(struct trials *t)
{
    struct plan *plan = t->plan;
    const struct device *d = plan->config->device;

    if (t->stands)
        d->ops->graph_free(d, t->stands);
    if (t->tried)
        d->ops->graph_free(d, t->tried);
    free_spares(t);
    d->ops->free(d, t->arena);
    d->ops->free(d, t->workspace);
    plan->bound_arena = plan->bound_workspace = NULL;
    plan->bound_runs = 0;
    drop_unread(plan);
    plan_count_workspace(plan);
    packed_cache_trim(model_packed(plan->config->model),
                      &plan->config->device->host);
    tuner_finish(plan->config->tuner);
}

/* ---- entry --------------------------------------------------------- */

static int refine(struct trials *t, struct infer_error *err)
{
    const struct device *d = t->plan->config->device;
    double seconds = 0;
    int i, rc;

    for (i = 0; i < t->network.n_steps; i++)
        seconds += t->network.step[i].choice.seconds;
    t->series = (int)(SERIES_TIME / (seconds > 1e-6 ? seconds : 1e-6)) + 1;
    if (t->series > MAX_SERIES)
        t->series = MAX_SERIES;
    t->network.ready = ready;
    t->network.time = time_runs;
    t->network.commit = commit;
    bind_plan(t);
    rc = record(t->plan, err, &t->stands);
    if (rc == 0)
        rc = tuner_refine(t->plan->config->tuner, &t->network, err);
    if (rc < 0 && d->ops->give_up)
        d->ops->give_up(d, err);
    return rc;
}

int plan_refine(struct plan *plan, struct infer_error *err)
{
    struct tuner *tuner = plan->config->tuner;
    struct trials t;
    int rc = 0;

    if (plan->recalled || !may_refine(plan) || !open_network(plan, &t))
        return 0;
    if (tuner_may_refine(tuner, &t.network)) {
        if (reserve(&t))
            rc = refine(&t, err);
        finish(&t);
    }
    close_network(&t);
    return rc;
}
