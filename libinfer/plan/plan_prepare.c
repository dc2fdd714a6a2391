/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a plan runnable: prepares kernels, packs constants, computes what
 * depends on constants alone, sets pointers. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backend.h"
#include "kernels/base/error.h"
#include "libinfer/plan/plan.h"

const char *plan_step_name(const struct plan *plan,
                           const struct plan_step *step)
{
    const struct graph *g = plan->g;
    const struct graph_node *n;

    if (step->node < 0)
        return ""; /* an output that is an input or a constant */
    n = &g->node[step->node];
    if (n->name)
        return n->name;
    return g->value[n->out[0]].name;
}

/* ---- constants ----------------------------------------------------- */

/* A constant that a step reads.  Reading a file, checking it and packing are
 * work for several cores; each constant is loaded on one. */
struct load {
    struct plan_step *step;
    int input;
    size_t bytes; /* in the file */
    size_t held;  /* of host memory until it is on a GPU, about */
};

/* Host memory of constants on their way to a GPU; a larger one goes alone. Two
 * of ResNet-50's largest in fp32, 512 x 512 x 3 x 3, fit. */
#define MOST_HELD ((size_t)54 << 20)

struct loading {
    struct plan *plan;
    struct load *load;
    int64_t n;
    bool limited;
    size_t held;
    pthread_mutex_t mutex;
    pthread_cond_t freed;
    int64_t failed; /* the first of the list that did, or n */
    struct infer_error err;
};

int plan_load_constant(struct plan *plan, const struct kern_exec *exec,
                       const struct view *v, int i, struct infer_error *err,
                       struct packed **out)
{
    const struct plan_config *config = plan->config;
    struct packed_cache *cache = model_packed(config->model);
    struct plan_buffer *b = &plan->buffers.at[v->buffer];
    const struct constant *c = plan->g->value[b->value].data;
    int rc = 0;

    if (exec->packed[i] > 0)
        rc = packed_for(cache, b->value, c, exec, i, v->offset, config->device,
                        err, out);
    else if (!b->plain)
        rc = packed_plain(cache, b->value, c, v->t.dtype, config->device, err,
                          &b->plain);
    if (rc < 0)
        error_prefix(err, "weights '%s'", plan->g->value[b->value].name);
    return rc;
}

/* Waits until there is room for a constant. */
static void take_room(struct loading *all, size_t bytes)
{
    if (!all->limited)
        return;
    pthread_mutex_lock(&all->mutex);
    while (all->held > 0 && all->held + bytes > MOST_HELD)
        pthread_cond_wait(&all->freed, &all->mutex);
    all->held += bytes;
    pthread_mutex_unlock(&all->mutex);
}

static void give_room(struct loading *all, size_t bytes)
{
    if (!all->limited)
        return;
    pthread_mutex_lock(&all->mutex);
    all->held -= bytes;
    pthread_cond_broadcast(&all->freed);
    pthread_mutex_unlock(&all->mutex);
}

static void load_one(void *context, int64_t i)
{
    struct loading *all = context;
    struct plan_step *s = all->load[i].step;
    const int k = all->load[i].input;
    struct infer_error err;
    int rc;

    take_room(all, all->load[i].held);
    rc = plan_load_constant(all->plan, &s->exec, &s->in[k], k, &err,
                            &s->packed[k]);
    give_room(all, all->load[i].held);
    if (rc == 0)
        return;
    pthread_mutex_lock(&all->mutex);
    if (i < all->failed) {
        all->failed = i;
        all->err = err;
    }
    pthread_mutex_unlock(&all->mutex);
}

/* Lists packed constants once a step and plain ones once a buffer. */
static int64_t list_loads(const struct plan *plan, struct load *load)
{
    bool *seen = calloc((size_t)plan->buffers.n + 1, sizeof *seen);
    int64_t n = 0;
    int i, k;

    if (!seen)
        return -1;
    for (i = 0; i < plan->steps.n; i++) {
        struct plan_step *s = plan->steps.at[i];

        for (k = 0; k < s->exec.problem.n_in; k++) {
            const int b = s->in[k].buffer;
            const struct constant *c;

            if (s->in[k].t.dtype == INFER_NONE ||
                plan->buffers.at[b].memory != PLAN_CONSTANT ||
                (s->exec.packed[k] == 0 && seen[b]))
                continue;
            c = plan->g->value[plan->buffers.at[b].value].data;
            seen[b] = seen[b] || s->exec.packed[k] == 0;
            load[n].step = s;
            load[n].input = k;
            load[n].bytes = c->bytes;
            load[n++].held =
                s->exec.packed[k] +
                (size_t)constant_count(c) * infer_dtype_size(s->in[k].t.dtype);
        }
    }
    free(seen);
    return n;
}

/* Largest first: threads then finish together, and the memory that a thread
 * needs in addition to the packed bytes is least when those are most. */
static int compare_loads(const void *a, const void *b)
{
    const struct load *x = a, *y = b;

    return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

static int load_constants(struct plan *plan, struct infer_error *err)
{
    const struct device *d = plan->config->device;
    struct loading all = {.plan = plan};
    int rc = 0;

    all.load =
        calloc((size_t)plan->steps.n * KERN_MAX_IN + 1, sizeof *all.load);
    all.n = all.load ? list_loads(plan, all.load) : -1;
    all.limited = !d->ops->host_memory;
    if (all.n < 0 || pthread_mutex_init(&all.mutex, NULL) != 0) {
        free(all.load);
        return error_set(err, INFER_EMEMORY, "plan: out of memory");
    }
    if (pthread_cond_init(&all.freed, NULL) != 0) {
        pthread_mutex_destroy(&all.mutex);
        free(all.load);
        return error_set(err, INFER_EMEMORY, "plan: out of memory");
    }
    qsort(all.load, (size_t)all.n, sizeof *all.load, compare_loads);
    all.failed = all.n;
    kern_cpu_each(d->loaders > 0 ? d->loaders : 1, all.n, load_one, &all);
    if (all.failed < all.n) {
        rc = all.err.code;
        if (err)
            *err = all.err;
    }
    pthread_cond_destroy(&all.freed);
    pthread_mutex_destroy(&all.mutex);
    free(all.load);
    return rc;
}

/* ---- kernels ------------------------------------------------------- */

void plan_count_workspace(struct plan *plan)
{
    int i;

    plan->workspace_bytes = 0;
    for (i = 0; i < plan->steps.n; i++)
        if (plan->steps.at[i]->exec.workspace > plan->workspace_bytes)
            plan->workspace_bytes = plan->steps.at[i]->exec.workspace;
}

static int prepare_step(struct plan *plan, struct plan_step *s,
                        struct infer_error *err)
{
    struct kern_problem problem;
    int rc;

    if (!s->choice.row)
        s->choice.row = s->exec.row;
    memcpy(&problem, &s->exec.problem, sizeof problem);
    rc = plan_is_batch_invariant(plan)
             ? row_prepare_invariant(s->choice.row, &problem, &plan->asked, err,
                                     &s->exec)
             : tuner_prepare(&s->choice, &problem,
                             plan_device(plan, s->choice.row), err, &s->exec);
    if (rc < 0) {
        const struct kern_row *row = s->choice.row;

        s->exec.row = row;
        memcpy(&s->exec.problem, &problem, sizeof problem);
        error_prefix(err, "node '%s' (%s)", plan_step_name(plan, s), row->name);
        return rc;
    }
    s->prepared = true;
    return 0;
}

static int prepare_steps(struct plan *plan, struct infer_error *err)
{
    int i, rc = 0;

    for (i = 0; rc == 0 && i < plan->steps.n; i++)
        rc = prepare_step(plan, plan->steps.at[i], err);
    plan_count_workspace(plan);
    return rc;
}

/* ---- pointers ------------------------------------------------------ */

void *plan_locate(const struct plan *plan, const struct view *v)
{
    const struct plan_buffer *b = &plan->buffers.at[v->buffer];
    const ptrdiff_t at =
        (ptrdiff_t)(v->offset * (int64_t)infer_dtype_size(v->t.dtype));
    /* Only steps write, and none writes to constants and inputs. */
    unsigned char *const base[] = {
        [PLAN_ARENA] = (unsigned char *)(uintptr_t)plan->bound_arena,
        [PLAN_KEPT] = plan->kept,
        [PLAN_CONSTANT] =
            b->plain ? (unsigned char *)(uintptr_t)packed_data(b->plain) : NULL,
        [PLAN_PRODUCTS] =
            plan->config->products ? plan->config->products->entry : NULL,
        [PLAN_INPUT] = NULL};
    unsigned char *from = base[b->memory];

    return from ? from + b->offset + at : NULL;
}

static void *locate(const void *user, const struct view *v)
{
    return plan_locate(user, v);
}

static void bind_step(const struct plan *plan, struct plan_step *s,
                      void *workspace)
{
    plan_bind_step(s, locate, plan, workspace, plan->config->device);
}

void plan_forget_recording(struct plan *plan)
{
    if (plan->graph)
        plan->config->device->ops->graph_free(plan->config->device,
                                              plan->graph);
    plan->graph = NULL;
    plan->bound_runs = 0;
}

void plan_bind(struct plan *plan, void *arena, void *workspace)
{
    int i;

    if (plan->bound_arena == arena && plan->bound_workspace == workspace)
        return;
    plan_forget_recording(plan);
    plan->bound_arena = arena;
    plan->bound_workspace = workspace;
    for (i = 0; i < plan->n_run; i++)
        bind_step(plan, plan->run[i], workspace);
}

/* Lists the steps of a run and the arguments that follow the caller's
 * arrays. */
static int list_run(struct plan *plan, struct infer_error *err)
{
    int i, k, n = 0;

    plan->run = calloc((size_t)plan->steps.n + 1, sizeof(struct plan_step *));
    for (i = 0; i < plan->steps.n; i++)
        for (k = 0; k < plan->steps.at[i]->exec.problem.n_in; k++)
            if (plan->steps.at[i]->in[k].t.dtype != INFER_NONE)
                n += plan->buffers.at[plan->steps.at[i]->in[k].buffer].memory ==
                     PLAN_INPUT;
    plan->patch = calloc((size_t)n + 1, sizeof *plan->patch);
    if (!plan->run || !plan->patch)
        return error_set(err, INFER_EMEMORY, "plan: out of memory");
    for (i = 0; i < plan->steps.n; i++) {
        struct plan_step *s = plan->steps.at[i];

        if (!s->once)
            plan->run[plan->n_run++] = s;
        for (k = 0; k < s->exec.problem.n_in; k++) {
            const struct plan_buffer *b = &plan->buffers.at[s->in[k].buffer];
            struct plan_patch *p = &plan->patch[plan->n_patches];

            if (s->in[k].t.dtype == INFER_NONE || b->memory != PLAN_INPUT)
                continue;
            p->slot = &s->args.in[k];
            p->input = b->value;
            p->bytes =
                (size_t)s->in[k].offset * infer_dtype_size(s->in[k].t.dtype);
            plan->n_patches++;
        }
    }
    return 0;
}

/* ---- steps on constants -------------------------------------------- */

static int run_once(struct plan *plan, struct infer_error *err)
{
    const struct device *d = plan->config->device;
    void *workspace = NULL;
    int i, rc = 0;

    if (plan->kept_bytes > 0)
        rc = d->ops->alloc(d, plan->kept_bytes, err, &plan->kept);
    if (rc == 0 && plan->kept_bytes > 0 && plan->workspace_bytes > 0)
        rc = d->ops->alloc(d, plan->workspace_bytes, err, &workspace);
    if (rc == 0)
        rc = d->ops->begin(d, err);
    for (i = 0; rc == 0 && i < plan->steps.n; i++) {
        struct plan_step *s = plan->steps.at[i];

        if (!s->once)
            continue;
        bind_step(plan, s, workspace);
        rc = plan_launch_step(plan, s, err);
    }
    if (rc == 0)
        rc = d->ops->end(d, err);
    d->ops->free(d, workspace);
    return rc;
}

/* ---- entry --------------------------------------------------------- */

static int compare_packed(const void *a, const void *b)
{
    const struct packed *x = *(struct packed *const *)a;
    const struct packed *y = *(struct packed *const *)b;

    return ((uintptr_t)x > (uintptr_t)y) - ((uintptr_t)x < (uintptr_t)y);
}

/* Sums the bytes of the plan's constants; a shared one counts once. */
static int count_weights(struct plan *plan, struct infer_error *err)
{
    size_t capacity =
        (size_t)plan->steps.n * KERN_MAX_IN + (size_t)plan->buffers.n + 1;
    struct packed **all = calloc(capacity, sizeof(struct packed *));
    size_t n = 0, i;
    int k;

    if (!all)
        return error_set(err, INFER_EMEMORY, "plan: out of memory");
    for (i = 0; i < (size_t)plan->steps.n; i++)
        for (k = 0; k < KERN_MAX_IN; k++)
            if (plan->steps.at[i]->packed[k])
                all[n++] = plan->steps.at[i]->packed[k];
    for (i = 0; i < (size_t)plan->buffers.n; i++)
        if (plan->buffers.at[i].plain)
            all[n++] = plan->buffers.at[i].plain;
    qsort(all, n, sizeof(struct packed *), compare_packed);
    plan->weight_bytes = plan->kept_bytes;
    for (i = 0; i < n; i++)
        if (i == 0 || all[i] != all[i - 1])
            plan->weight_bytes += packed_bytes(all[i]);
    free(all);
    return 0;
}

static void settle(const struct device *d)
{
    for (int i = 0; i < INFER_BACKEND_COUNT; i++) {
        const struct kern_backend *b = kern_backend_of((enum infer_backend)i);

        if (b->device == d->kern.kind && b->settle)
            b->settle();
    }
}

int plan_prepare(struct plan *plan, struct infer_error *err)
{
    int rc = plan_tune(plan, err);

    if (rc == 0)
        rc = prepare_steps(plan, err);
    if (rc == 0)
        rc = plan_check_budget(plan, err);
    if (rc == 0)
        rc = load_constants(plan, err);
    packed_cache_trim(model_packed(plan->config->model),
                      &plan->config->device->host);
    settle(plan->config->device);
    if (rc == 0)
        rc = list_run(plan, err);
    if (rc == 0)
        rc = run_once(plan, err);
    if (rc == 0)
        rc = plan_refine(plan, err);
    if (rc == 0)
        rc = count_weights(plan, err);
    plan->prepared = rc == 0;
    return rc;
}
