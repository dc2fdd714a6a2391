/* SPDX-License-Identifier: Apache-2.0 */
/* Whole runs of several plans of one network, by turns, so that a drifting
 * clock meets all. */
#include "libinfer/plan/best/best.h"

#include <stdlib.h>

#include "kernels/base/error.h"

/* A turn is as many runs of a plan as take TURN seconds, at most MAX_RUNS.
 * Turns go on for BUDGET seconds, from MIN_TURNS to MAX_TURNS of each plan. */
#define TURN      2e-3
#define MAX_RUNS  16
#define BUDGET    2.0
#define MIN_TURNS 3
#define MAX_TURNS 15

struct entrant {
    struct plan *plan;
    struct device_graph *graph; /* on a device that records */
    int runs;                   /* a turn */
    double turn[MAX_TURNS];     /* seconds of a run */
};

struct race {
    const struct device *device;
    struct entrant *entrant;
    int n, turns;
    void *arena, *workspace;
};

static bool is_real(const struct plan *plan)
{
    const struct graph *g = plan->g;
    bool real = g->n_inputs > 0;

    for (int i = 0; i < g->n_inputs; i++) {
        const enum infer_dtype dtype = g->value[g->input[i]].dtype;

        real = real && (tune_is_real(dtype) || dtype == INFER_U8);
    }
    return real;
}

/* Memory for the largest of the plans. */
static int reserve(struct race *r, struct infer_error *err)
{
    size_t arena = 1, workspace = 1;
    int rc;

    for (int i = 0; i < r->n; i++) {
        const struct plan *plan = r->entrant[i].plan;

        if (plan->arena_bytes > arena)
            arena = plan->arena_bytes;
        if (plan->workspace_bytes > workspace)
            workspace = plan->workspace_bytes;
    }
    rc = r->device->ops->alloc(r->device, arena, err, &r->arena);
    if (rc == 0)
        rc = r->device->ops->alloc(r->device, workspace, err, &r->workspace);
    return rc < 0 ? rc : tune_fill(r->device, r->arena, arena, err);
}

/* Points the plan at the memory, inputs included. */
static void bind(const struct race *r, struct plan *plan)
{
    plan_bind(plan, r->arena, r->workspace);
    for (int i = 0; i < plan->n_patches; i++) {
        const struct plan_patch *p = &plan->patch[i];
        const int buffer = plan->input_buffer[p->input];

        *p->slot = (const unsigned char *)r->arena +
                   plan->buffers.at[buffer].offset + p->bytes;
    }
}

static int launch(const struct race *r, struct entrant *e,
                  struct infer_error *err)
{
    return e->graph ? r->device->ops->replay(r->device, e->graph, err)
                    : plan_launch(e->plan, err);
}

/* Seconds of a run in one turn. */
static int take_turn(const struct race *r, struct entrant *e,
                     struct infer_error *err, double *seconds)
{
    const struct device_ops *ops = r->device->ops;
    const double start = tune_now();
    int rc = ops->begin(r->device, err);

    if (rc == 0 && ops->mark)
        rc = ops->mark(r->device, 0, err);
    for (int i = 0; rc == 0 && i < e->runs; i++)
        rc = launch(r, e, err);
    if (rc == 0 && ops->mark)
        rc = ops->mark(r->device, 1, err);
    if (rc == 0)
        rc = ops->end(r->device, err);
    *seconds = tune_now() - start;
    if (rc == 0 && ops->mark)
        rc = ops->elapsed(r->device, 1, err, seconds);
    *seconds /= e->runs;
    return rc;
}

/* Runs a plan for the first time, which loads its kernels, and records it. */
static int get_ready(const struct race *r, struct entrant *e,
                     struct infer_error *err)
{
    const struct device_ops *ops = r->device->ops;
    double seconds;
    int rc;

    bind(r, e->plan);
    e->runs = 1;
    rc = take_turn(r, e, err, &seconds);
    if (rc == 0 && ops->replay) {
        rc = ops->begin(r->device, err);
        if (rc == 0)
            rc = plan_record(e->plan, err, &e->graph);
        if (rc == 0)
            rc = ops->end(r->device, err);
    }
    if (rc == 0)
        rc = take_turn(r, e, err, &seconds);
    if (rc == 0 && seconds > 0 && TURN / seconds > 1)
        e->runs =
            TURN / seconds < MAX_RUNS ? (int)(TURN / seconds) + 1 : MAX_RUNS;
    return rc;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static int run(struct race *r, struct infer_error *err)
{
    const double start = tune_now();
    int rc = 0;

    for (int i = 0; rc == 0 && i < r->n; i++)
        rc = get_ready(r, &r->entrant[i], err);
    while (rc == 0 && r->turns < MAX_TURNS &&
           (r->turns < MIN_TURNS || tune_now() - start < BUDGET)) {
        for (int i = 0; rc == 0 && i < r->n; i++)
            rc = take_turn(r, &r->entrant[i], err,
                           &r->entrant[i].turn[r->turns]);
        r->turns++;
    }
    return rc;
}

int best_race(struct plan *const *plan, int n, struct infer_error *err,
              double *seconds)
{
    struct race r = {.device = plan[0]->config->device, .n = n};
    const struct device_ops *ops = r.device->ops;
    int rc = 0;

    for (int i = 0; i < n; i++)
        seconds[i] = 0;
    if (!is_real(plan[0]))
        return 0;
    r.entrant = calloc((size_t)n, sizeof *r.entrant);
    if (!r.entrant)
        return error_set(err, INFER_EMEMORY, "plan: out of memory");
    for (int i = 0; i < n; i++)
        r.entrant[i].plan = plan[i];
    rc = reserve(&r, err);
    if (rc == 0) {
        rc = run(&r, err);
        if (rc < 0 && ops->give_up)
            ops->give_up(r.device, err);
    }
    for (int i = 0; i < n; i++) {
        struct entrant *e = &r.entrant[i];

        if (rc == 0) {
            qsort(e->turn, (size_t)r.turns, sizeof e->turn[0], compare);
            seconds[i] = e->turn[r.turns / 2];
        }
        if (e->graph)
            ops->graph_free(r.device, e->graph);
        e->plan->bound_arena = e->plan->bound_workspace = NULL;
        e->plan->bound_runs = 0;
    }
    ops->free(r.device, r.arena);
    ops->free(r.device, r.workspace);
    free(r.entrant);
    return rc;
}
