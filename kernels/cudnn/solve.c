/* SPDX-License-Identifier: Apache-2.0 */
/* Makes plans of recipes and caches cuDNN's answer for each problem: see
 * solve.h. */
#include "kernels/cudnn/solve.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/problem.h"
#include "kernels/test_hooks.h"

/* Entries without users that are kept, at most. */
#define CASES_KEPT 256
/* Alignment of the areas of the workspace, bytes. */
#define ROUND 256

/* A problem and cuDNN's answer. */
struct known {
    struct known *next;
    const struct cudnn_recipe *recipe;
    int ordinal;
    struct kern_problem problem;
    int users;              /* prepared states */
    struct infer_error why; /* code 0: the subgraphs compute it */
    unsigned opening;       /* cudnn_openings() when it was solved */
    int n_subgraphs;
    struct cudnn_graph subgraph[2];
    struct cudnn_plan plan[2]; /* of the first engine that works, */
    int first[2];              /* which is this one */
    size_t scratch;
};

struct state {
    struct known *known;
    struct cudnn_plan own;         /* of another variant than the first */
    const struct cudnn_plan *plan; /* of subgraph 0 */
    int ordinal;
};

/* Guards the list and all that is planned; launches do not need it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct known *all_known;

/* ---- the device that plans are made for --------------------------- */

struct planning {
    struct cudnn_target target;
    struct cudnn_lane *lane;
};

static int planning_begin(int ordinal, struct infer_error *err,
                          struct planning *out)
{
    memset(out, 0, sizeof(*out));
    out->target.device = KERN_TEST_HOOK(cudnn_device);
    if (out->target.device)
        return 0;
    return cudnn_enter_planning(ordinal, err, &out->lane, &out->target.handle);
}

static void planning_end(struct planning *p)
{
    if (p->lane)
        cudnn_leave(p->lane);
}

/* ---- solving ------------------------------------------------------- */

static void drop_subgraphs(struct known *k)
{
    for (int i = 0; i < 2; i++)
        if (k->subgraph[i].lib) {
            cudnn_plan_free(k->subgraph[i].lib, &k->plan[i]);
            cudnn_graph_free(&k->subgraph[i]);
        }
    k->n_subgraphs = 0;
}

static void known_free(struct known *k)
{
    drop_subgraphs(k);
    free(k);
}

/* Builds subgraph i and makes the first plan that works. */
static int solve_subgraph(struct known *k, int i, enum cudnn_subgraph which,
                          const struct cudnn_library *lib,
                          const struct cudnn_target *target,
                          struct infer_error *err)
{
    const bool ieee = k->recipe->products && which != CUDNN_SECOND &&
                      k->problem.in[0].dtype == INFER_F32 && !k->recipe->tf32;
    struct cudnn_graph *g = &k->subgraph[i];
    int rc;

    cudnn_graph_init(g, lib, ieee, err);
    g->rounds_bias = k->recipe->rounds_bias;
    k->recipe->build(&k->problem, which, g);
    rc = cudnn_graph_finish(g, target, k->problem.deterministic);
    if (rc < 0)
        return rc;
    if (i == 0)
        cudnn_order_engines(g->engine, sizeof(*g->engine), g->n_engines);
    for (int e = 0; e < g->n_engines; e++) {
        rc = cudnn_plan_new(g, e, target, err, &k->plan[i]);
        k->first[i] = e;
        if (rc == 0 || rc == INFER_EMEMORY)
            break;
    }
    return rc;
}

/* The whole problem, or else its two subgraphs.  Whatever cuDNN says against it
 * is a reason to refuse it, but not that there is no memory, which may be there
 * the next time. */
static int solve(struct known *k, struct infer_error *err)
{
    const struct cudnn_library *lib = cudnn_library(err);
    struct planning planning;
    int rc;

    if (!lib)
        return INFER_EDEVICE;
    rc = planning_begin(k->ordinal, err, &planning);
    if (rc < 0)
        return rc;
    k->n_subgraphs = 1;
    rc = solve_subgraph(k, 0, CUDNN_WHOLE, lib, &planning.target, &k->why);
    k->scratch =
        rc < 0 && k->recipe->scratch ? k->recipe->scratch(&k->problem) : 0;
    if (k->scratch > 0) {
        drop_subgraphs(k);
        rc = solve_subgraph(k, 0, CUDNN_FIRST, lib, &planning.target, &k->why);
        if (rc == 0)
            rc = solve_subgraph(k, 1, CUDNN_SECOND, lib, &planning.target,
                                &k->why);
        k->n_subgraphs = 2;
    }
    if (rc < 0)
        drop_subgraphs(k);
    else
        error_clear(&k->why);
    planning_end(&planning);
    return rc == INFER_EMEMORY ? error_set(err, rc, "%s", k->why.text) : 0;
}

/* ---- known problems ------------------------------------------------ */

/* Drops the oldest of too many entries without users; the list is newest
 * first. */
static void trim(void)
{
    struct known **at = &all_known, **last = NULL;
    int unused = 0;

    for (; *at; at = &(*at)->next)
        if ((*at)->users == 0) {
            last = at;
            unused++;
        }
    if (unused > CASES_KEPT && last) {
        struct known *k = *last;
        *last = k->next;
        known_free(k);
    }
}

static struct known *recall(const struct cudnn_recipe *r,
                            const struct kern_problem *p, int ordinal)
{
    struct known *k = all_known;

    while (k && !(k->recipe == r && k->ordinal == ordinal &&
                  memcmp(&k->problem, p, sizeof(*p)) == 0))
        k = k->next;
    return k;
}

/* The entry of a problem, solved now if it is new; the list is locked.  Fails
 * only for reasons that are not the problem's. */
static int look_up(const struct cudnn_recipe *r, const struct kern_problem *p,
                   int ordinal, struct infer_error *err, struct known **out)
{
    struct known *k = recall(r, p, ordinal);
    int rc;

    *out = k;
    /* cuDNN has many codes for what it does not support, and a fault that is
     * over may have had the same: the next session asks again. */
    if (k && k->why.code == INFER_EDEVICE && k->users == 0 &&
        k->opening != cudnn_openings()) {
        k->opening = cudnn_openings();
        error_clear(&k->why);
        rc = solve(k, err);
        if (rc < 0)
            error_set(&k->why, INFER_EDEVICE, "cuDNN: not asked again");
        return rc;
    }
    if (k)
        return 0;
    k = calloc(1, sizeof(*k));
    if (!k)
        return error_set(err, INFER_EMEMORY, "cuDNN: out of memory");
    k->recipe = r;
    k->ordinal = ordinal;
    k->opening = cudnn_openings();
    memcpy(&k->problem, p, sizeof(*p));
    rc = solve(k, err);
    if (rc < 0) {
        known_free(k);
        return rc;
    }
    k->next = all_known;
    all_known = k;
    trim();
    *out = k;
    return 0;
}

/* ---- rows ---------------------------------------------------------- */

/* tanh in the kernels that cuDNN makes is good to 6e-6 (9.19): not single
 * precision, and in 16 bits not where a sum after it may cancel. */
static int check_activation(const struct cudnn_recipe *r,
                            const struct kern_problem *p,
                            struct infer_error *why)
{
    const enum kern_unary_kind kind = p->epilogue.act.kind;

    const int residual = kern_op_residual(p->op);
    const bool cancels = p->epilogue.residual_last && residual >= 0 &&
                         kern_problem_in(p, residual) != NULL;

    if (!cudnn_graph_knows(kind))
        return error_set(why, INFER_EUNSUPPORTED,
                         "cuDNN has no such activation");
    if ((kind == KERN_TANH || kind == KERN_GELU_TANH) && !r->tf32 &&
        (p->out[0].dtype == INFER_F32 || cancels))
        return error_set(why, INFER_EUNSUPPORTED,
                         "cuDNN's tanh does not reach single precision");
    return 0;
}

int cudnn_recipe_supports(const struct cudnn_recipe *r,
                          const struct kern_problem *p,
                          const struct kern_device *d, struct infer_error *why)
{
    struct infer_error err = {0};
    struct known *k;
    int rc = r->check(p, why);

    if (rc == 0)
        rc = check_activation(r, p, why);
    if (rc < 0)
        return rc;
    pthread_mutex_lock(&lock);
    rc = look_up(r, p, d->ordinal, &err, &k);
    if (rc == 0 && k->why.code != 0)
        rc = error_set(&err, INFER_EUNSUPPORTED, "%s", k->why.text);
    pthread_mutex_unlock(&lock);
    return rc < 0 ? error_set(why, INFER_EUNSUPPORTED, "%s", err.text) : 0;
}

int cudnn_recipe_variants(const struct cudnn_recipe *r,
                          const struct kern_problem *p,
                          const struct kern_device *d, struct infer_error *err)
{
    struct known *k;

    pthread_mutex_lock(&lock);
    int n = look_up(r, p, d->ordinal, err, &k);
    if (n == 0 && k->why.code == 0)
        n = k->subgraph[0].n_engines - k->first[0];
    else if (n == 0)
        n = error_set(err, INFER_EUNSUPPORTED, "%s", k->why.text);
    pthread_mutex_unlock(&lock);
    return n;
}

/* The plan of variant v: that of the first engine that works for 0, then those
 * of the engines after it. */
static int choose(struct known *k, int v, struct infer_error *err,
                  struct state *s)
{
    struct planning planning;
    int rc;

    s->plan = &k->plan[0];
    if (v == 0)
        return 0;
    if (v >= k->subgraph[0].n_engines - k->first[0])
        return error_set(err, INFER_EUNSUPPORTED, "cuDNN: no variant %d", v);
    rc = planning_begin(k->ordinal, err, &planning);
    if (rc < 0)
        return rc;
    rc = cudnn_plan_new(&k->subgraph[0], k->first[0] + v, &planning.target, err,
                        &s->own);
    planning_end(&planning);
    s->plan = &s->own;
    return rc == INFER_EMEMORY ? rc : cudnn_refuse(err, rc);
}

static size_t round_up(size_t n)
{
    return (n + ROUND - 1) / ROUND * ROUND;
}

static void fill(struct kern_exec *e, const struct known *k,
                 const struct state *s)
{
    const struct cudnn_engine *engine =
        &k->subgraph[0].engine[k->first[0] + e->variant];
    size_t most = s->plan->workspace;

    if (k->n_subgraphs > 1 && k->plan[1].workspace > most)
        most = k->plan[1].workspace;
    e->workspace = round_up(k->scratch) + most;
    e->flags |= engine->flags;
    /* Engine 29 of cuDNN 9.19 leaves 2^-10 in sums of small integers. */
    if (k->recipe->tf32)
        e->flags |= KERN_TF32 | KERN_INEXACT;
    memcpy(e->variant_name, engine->name, sizeof(e->variant_name));
}

int cudnn_recipe_prepare(const struct cudnn_recipe *r, struct kern_exec *e,
                         const struct kern_device *d, struct infer_error *err)
{
    struct state *s = calloc(1, sizeof(*s));
    struct known *k;
    int rc;

    if (!s)
        return error_set(err, INFER_EMEMORY, "cuDNN: out of memory");
    s->ordinal = d->ordinal;
    pthread_mutex_lock(&lock);
    rc = look_up(r, &e->problem, d->ordinal, err, &k);
    if (rc == 0)
        rc = choose(k, e->variant, err, s);
    if (rc == 0 && !KERN_TEST_HOOK(cudnn_device))
        rc = cudnn_hold(d->ordinal, err);
    if (rc == 0) {
        s->known = k;
        k->users++;
        fill(e, k, s);
    } else if (k) {
        cudnn_plan_free(k->subgraph[0].lib, &s->own);
    }
    pthread_mutex_unlock(&lock);
    if (rc < 0) {
        free(s);
        return rc;
    }
    e->state = s;
    return 0;
}

static void *pointer_of(const struct cudnn_graph *g,
                        const struct kern_args *args, int64_t uid)
{
    if (uid >= CUDNN_VALUE)
        return (void *)(uintptr_t)&g->value[uid - CUDNN_VALUE];
    if (uid == CUDNN_OUT)
        return args->out[0];
    if (uid == CUDNN_SCRATCH)
        return args->workspace;
    return (void *)(uintptr_t)args->in[uid - CUDNN_IN];
}

static int run_subgraph(const struct cudnn_graph *g,
                        const struct cudnn_plan *plan, cudnnHandle_t handle,
                        const struct kern_args *args, void *workspace,
                        struct infer_error *err)
{
    void *pointer[CUDNN_MAX_TENSORS];

    for (int i = 0; i < g->n_uids; i++)
        pointer[i] = pointer_of(g, args, g->uid[i]);
    return cudnn_plan_run(g, plan, handle, pointer, workspace, err);
}

int cudnn_recipe_launch(const struct kern_exec *e, const struct kern_args *args,
                        struct infer_error *err)
{
    const struct state *s = e->state;
    const struct known *k = s->known;
    unsigned char *workspace = args->workspace;
    struct cudnn_lane *lane;
    cudnnHandle_t handle;
    int rc = cudnn_enter(s->ordinal, args->stream, err, &lane, &handle);

    if (rc < 0)
        return rc;
    if (workspace)
        workspace += round_up(k->scratch);
    rc = run_subgraph(&k->subgraph[0], s->plan, handle, args, workspace, err);
    if (rc == 0 && k->n_subgraphs > 1)
        rc = run_subgraph(&k->subgraph[1], &k->plan[1], handle, args, workspace,
                          err);
    cudnn_leave(lane);
    return rc;
}

void cudnn_recipe_release(struct kern_exec *e)
{
    struct state *s = e->state;

    if (!s)
        return;
    pthread_mutex_lock(&lock);
    cudnn_plan_free(s->known->subgraph[0].lib, &s->own);
    s->known->users--;
    if (!KERN_TEST_HOOK(cudnn_device))
        cudnn_unhold(s->ordinal);
    pthread_mutex_unlock(&lock);
    free(s);
    e->state = NULL;
}

/* ---- epilogues ----------------------------------------------------- */

bool cudnn_has_epilogue(const struct kern_problem *p, int bias, int residual)
{
    return bias >= 0 || residual >= 0 || p->epilogue.act.kind != KERN_IDENTITY;
}

enum step { STEP_RESIDUAL, STEP_BIAS, STEP_ACT };

/* cuDNN's own order is residual, bias, activation. */
static int list_steps(const struct kern_problem *p, int bias, int residual,
                      enum step step[3])
{
    const bool last = p->epilogue.residual_last;
    int n = 0;

    if (residual >= 0 && !last)
        step[n++] = STEP_RESIDUAL;
    if (bias >= 0)
        step[n++] = STEP_BIAS;
    if (p->epilogue.act.kind != KERN_IDENTITY)
        step[n++] = STEP_ACT;
    if (residual >= 0 && last)
        step[n++] = STEP_RESIDUAL;
    if (n == 0)
        step[n++] = STEP_ACT; /* the identity */
    return n;
}

void cudnn_add_epilogue(struct cudnn_graph *g, const struct kern_problem *p,
                        const struct cudnn_shape *shape, int bias, int residual,
                        cudnnBackendDescriptor_t v)
{
    int64_t vector[CUDNN_MAX_RANK] = {1, shape->dim[1], 1, 1, 1};
    struct cudnn_shape out = *shape;
    enum step step[3];
    const int n = list_steps(p, bias, residual, step);

    g->adds = residual >= 0 && p->op == KERN_DENSE_FPROP &&
              p->out[0].dtype == INFER_BF16;
    out.dtype = cudnn_dtype(p->out[0].dtype);
    const struct cudnn_shape b = cudnn_shape_nhwc(
        g->rounds_bias ? out.dtype : CUDNN_DATA_FLOAT, shape->rank, vector);
    for (int i = 0; i < n; i++) {
        cudnnBackendDescriptor_t y =
            i + 1 < n ? cudnn_graph_virtual(g, shape)
                      : cudnn_graph_tensor(g, &out, CUDNN_OUT);
        if (step[i] == STEP_ACT)
            cudnn_graph_unary(g, &p->epilogue.act, shape, v, y);
        else if (step[i] == STEP_BIAS)
            cudnn_graph_add(g, v, cudnn_graph_tensor(g, &b, CUDNN_IN + bias),
                            y);
        else
            cudnn_graph_add(
                g, v, cudnn_graph_tensor(g, &out, CUDNN_IN + residual), y);
        v = y;
    }
}
