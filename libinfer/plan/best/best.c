/* SPDX-License-Identifier: Apache-2.0 */
/* The types of a network's layers: recalled, or by costs.c, cut.c and race.c.
 */
#include "libinfer/plan/best/best.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backend.h"
#include "kernels/base/error.h"
#include "kernels/quant/quant.h"
#include "libinfer/plan/best/costs.h"

/* A plan replaces one with more layers in floats if it takes at most this part
 * of its time: what is less is noise. */
#define GAIN 0.99

/* All layers in floats; the cut's choice; all that can in 8 bits. */
enum { FLOATS, MIXED, BYTES, PLANS };

struct best {
    const struct plan_config *config;
    struct graph_shape *shape; /* of each input */
    struct plan *given;        /* all that can in 8 bits, unprepared */
    struct costs costs;
    bool *on[PLANS]; /* of each layer of the cut */
    char key[64];
    double seconds[PLANS]; /* of a run; 0: not known */
    int chosen;            /* of PLANS */
    bool measured;         /* the costs are */
    bool left_out[PLANS];  /* there is no memory for it */
    bool alone;            /* BYTES, since there is no memory to compare it */
    best_log_fn *log;
    void *user;
};

/* True of a layer whose input and weights the file has in 8 bits. */
static bool is_quantised(const struct graph *g, const struct graph_node *n)
{
    if (n->op != GRAPH_CONV && n->op != GRAPH_DENSE)
        return false;
    for (int k = 0; k < 2; k++) {
        const int d =
            k < n->n_in && n->in[k] >= 0 ? g->value[n->in[k]].producer : -1;

        if (d < 0 || g->node[d].op != GRAPH_DEQUANTIZE ||
            g->node[d].in[0] < 0 ||
            !quant_is_byte(g->value[g->node[d].in[0]].dtype))
            return false;
    }
    return true;
}

bool best_has_bytes(const struct graph *g)
{
    for (int i = 0; i < g->n_nodes; i++)
        if (is_quantised(g, &g->node[i]))
            return true;
    return false;
}

/* ---- plans --------------------------------------------------------- */

/* A plan whose layers have these types. */
static int make_plan(const struct best *b, const struct plan_config *config,
                     const bool *on, struct infer_error *err, struct plan **out)
{
    bool *bytes = calloc((size_t)b->given->g->n_nodes + 1, sizeof *bytes);
    int rc;

    if (!bytes)
        return error_set(err, INFER_EMEMORY, "types: out of memory");
    for (int i = 0; i < b->costs.cut.n; i++)
        bytes[b->costs.node[i]] = on[i];
    rc = plan_new_as(config, b->shape, bytes, err, out);
    free(bytes);
    return rc;
}

static bool same(const struct best *b, int i, int k)
{
    return memcmp(b->on[i], b->on[k],
                  (size_t)b->costs.cut.n * sizeof *b->on[i]) == 0;
}

/* ---- the cache ----------------------------------------------------- */

/* The problems of the plan in 8 bits tell a network from others; which backends
 * compete, and the versions of the libraries that the plan calls, decide what
 * is fastest. */
static void set_key(struct best *b)
{
    const struct row_tiers *tiers = &b->config->tiers;
    const int precision = (int)b->config->precision;
    uint64_t hash = tune_hash(TUNE_HASH, &precision, sizeof precision);
    char key[TUNE_KEY];

    hash = tune_hash(hash, tiers->tier, (size_t)tiers->n * sizeof *tiers->tier);
    for (int i = 0; i < b->given->steps.n; i++) {
        const struct plan_step *s = b->given->steps.at[i];
        const char *libraries =
            s->choice.row ? kern_backend_libraries(s->choice.row->backend) : "";

        tune_key(&s->exec.problem, key, sizeof key);
        hash = tune_hash(hash, key, strlen(key));
        hash = tune_hash(hash, libraries, strlen(libraries));
    }
    snprintf(b->key, sizeof b->key, "types of %d layers #%016llx",
             b->costs.cut.n, (unsigned long long)hash);
}

static bool recall(struct best *b)
{
    const size_t n = (size_t)b->costs.cut.n;
    struct tune_types types;

    if (!tuner_recall_types(b->config->tuner, b->key, &types) ||
        strlen(types.bytes) != n)
        return false;
    for (size_t i = 0; i < n; i++)
        b->on[MIXED][i] = types.bytes[i] == '1';
    b->seconds[FLOATS] = types.floats;
    b->seconds[BYTES] = types.all;
    b->seconds[MIXED] = types.seconds;
    return true;
}

static int remember(const struct best *b, struct infer_error *err)
{
    const int n = b->costs.cut.n;
    char *bytes = calloc((size_t)n + 1, 1);
    const struct tune_types types = {.bytes = bytes,
                                     .seconds = b->seconds[MIXED],
                                     .floats = b->seconds[FLOATS],
                                     .all = b->seconds[BYTES]};
    int rc;

    if (!bytes)
        return error_set(err, INFER_EMEMORY, "types: out of memory");
    for (int i = 0; i < n; i++)
        bytes[i] = b->on[MIXED][i] ? '1' : '0';
    rc = tuner_remember_types(b->config->tuner, b->key, &types, err);
    tuner_finish(b->config->tuner);
    free(bytes);
    return rc;
}

/* ---- the choice ---------------------------------------------------- */

/* Measures steps by themselves.  Chains of convolutions are left to the whole
 * runs: their steps belong to two layers. */
static int measure(struct best *b, struct infer_error *err)
{
    struct plan_config config = *b->config;
    struct plan *floats = NULL, *bytes = NULL;
    int rc;

    config.chains = false;
    rc = make_plan(b, &config, b->on[FLOATS], err, &floats);
    if (rc == 0)
        rc = make_plan(b, &config, b->on[BYTES], err, &bytes);
    if (rc == 0)
        rc = costs_measure(&b->costs, bytes, floats, err);
    b->measured = rc == 0;
    plan_free(floats);
    plan_free(bytes);
    tuner_finish(b->config->tuner);
    return rc;
}

/* The quickest by whole runs.  Inputs that hold indices are not run: the sum of
 * the steps tells, which the cut has made least. */
static void decide(struct best *b)
{
    b->chosen = b->seconds[FLOATS] > 0 && !b->left_out[FLOATS] ? FLOATS
                : b->left_out[MIXED]                           ? BYTES
                                                               : MIXED;
    for (int i = 0; i < PLANS; i++)
        if (b->seconds[i] < GAIN * b->seconds[b->chosen])
            b->chosen = i;
}

/* The pure choice that the cut's is equal to; else itself. */
static int twin_of_mixed(const struct best *b)
{
    return same(b, MIXED, FLOATS)  ? FLOATS
           : same(b, MIXED, BYTES) ? BYTES
                                   : MIXED;
}

/* Gives up what a plan that is gone left behind. */
static void forget_plan(const struct best *b)
{
    packed_cache_trim(model_packed(b->config->model), &b->config->device->host);
    if (b->config->exceeded)
        *b->config->exceeded = false;
}

/* A prepared plan of choice i; none where memory is short for it and it has
 * floats: a choice with fewer of them may have room. */
static int enter(struct best *b, int i, struct infer_error *err,
                 struct plan **out)
{
    int rc = make_plan(b, b->config, b->on[i], err, out);

    if (rc == 0)
        rc = plan_prepare(*out, err);
    if (rc != INFER_EMEMORY || i == BYTES)
        return rc;
    plan_free(*out);
    *out = NULL;
    b->left_out[i] = true;
    forget_plan(b);
    return 0;
}

/* Prepares the plans that differ and runs them by turns; the chosen one stays
 * in *out. */
static int race(struct best *b, struct infer_error *err, struct plan **out)
{
    const int twin = twin_of_mixed(b);
    struct plan *plan[PLANS] = {NULL}, *entrant[PLANS];
    double seconds[PLANS];
    int n = 0, rc = 0;

    for (int i = 0; rc == 0 && i < PLANS; i++) {
        if (i == MIXED && twin != MIXED)
            continue;
        rc = enter(b, i, err, &plan[i]);
        if (plan[i])
            entrant[n++] = plan[i];
    }
    if (rc == 0)
        rc = best_race(entrant, n, err, seconds);
    for (int i = PLANS; rc == 0 && i-- > 0;)
        b->seconds[i] = plan[i] ? seconds[--n] : (double)INFINITY;
    b->seconds[MIXED] = b->seconds[twin];
    b->left_out[MIXED] = b->left_out[twin];
    b->alone = b->left_out[FLOATS] && b->left_out[MIXED];
    decide(b);
    for (int i = 0; i < PLANS; i++)
        if (rc == 0 && i == (b->chosen == MIXED ? twin : b->chosen))
            *out = plan[i];
        else
            plan_free(plan[i]);
    return rc;
}

/* ---- the report ---------------------------------------------------- */

/* The text has names of files: control characters are replaced. */
static void say(const struct best *b, int level, const char *text)
{
    struct infer_error line;

    error_set(&line, 0, "%s", text);
    b->log(b->user, level, line.text);
}

static const char *name_of(const struct graph *g, const struct graph_node *n)
{
    return n->name ? n->name : g->value[n->out[0]].name;
}

/* The type of a layer and its times. */
static void tell_layer(const struct best *b, const struct graph_node *n, int l,
                       char *text, size_t bytes)
{
    const struct graph *g = b->given->g;
    const char *wide = infer_dtype_name(plan_dtype(b->given, INFER_F32));
    const int weights = g->node[g->value[n->in[1]].producer].in[0];
    const char *narrow = infer_dtype_name(g->value[weights].dtype);
    const bool on = b->on[b->chosen][l];
    const double floats = b->costs.cut.floats[l];
    const double on_bytes = b->costs.cut.bytes[l];
    const char *why = on == (on_bytes < floats)   ? ""
                      : same(b, b->chosen, MIXED) ? ", with its neighbours"
                                                  : ", by whole runs";

    if (on_bytes >= COSTS_NEVER)
        snprintf(text, bytes, "types: %.200s: %s, a part of a step in floats",
                 name_of(g, n), on ? narrow : wide);
    else
        snprintf(text, bytes, "types: %.200s: %s, %.4f ms in %s, %.4f in %s%s",
                 name_of(g, n), on ? narrow : wide, 1e3 * floats, wide,
                 1e3 * on_bytes, narrow, why);
}

/* Layers of the graph that have weights, in its order. */
static void tell_layers(const struct best *b)
{
    const struct graph *g = model_graph(b->config->model);

    for (int i = 0; i < g->n_nodes; i++) {
        const struct graph_node *n = &g->node[i];
        char text[512];

        if (n->op != GRAPH_CONV && n->op != GRAPH_DENSE)
            continue;
        if (b->costs.layer[i] < 0)
            snprintf(text, sizeof text, "types: %.200s: floats, %s",
                     name_of(g, n),
                     is_quantised(g, n) ? "no kernel of 8 bits"
                                        : "not quantised in the file");
        else
            tell_layer(b, n, b->costs.layer[i], text, sizeof text);
        say(b, INFER_LOG_DEBUG, text);
    }
}

static void tell(const struct best *b)
{
    int on = 0;
    char text[256];

    if (b->alone) {
        say(b, INFER_LOG_INFO,
            "types: all in 8 bits: memory is short for floats as well");
        return;
    }
    if (b->measured)
        tell_layers(b);
    for (int i = 0; i < b->costs.cut.n; i++)
        on += b->on[b->chosen][i];
    if (b->left_out[FLOATS]) {
        snprintf(text, sizeof text,
                 "types: %d of %d steps in 8 bits; a run takes %.4f ms, %.4f "
                 "all in 8 bits; memory is short for all in floats",
                 on, b->costs.cut.n, 1e3 * b->seconds[b->chosen],
                 1e3 * b->seconds[BYTES]);
        say(b, INFER_LOG_INFO, text);
        return;
    }
    snprintf(
        text, sizeof text,
        "types: %d of %d steps in 8 bits; a run takes %.4f ms, %.4f all in "
        "floats, %.4f all in 8 bits",
        on, b->costs.cut.n, 1e3 * b->seconds[b->chosen],
        1e3 * b->seconds[FLOATS], 1e3 * b->seconds[BYTES]);
    say(b, INFER_LOG_INFO, text);
}

/* ---- entry --------------------------------------------------------- */

static int open_choice(struct best *b, struct infer_error *err)
{
    const struct graph *g = b->given->g;
    int rc = costs_open(&b->costs, b->given, err);

    b->shape = calloc((size_t)g->n_inputs + 1, sizeof *b->shape);
    if (rc == 0 && !b->shape)
        rc = error_set(err, INFER_EMEMORY, "types: out of memory");
    for (int i = 0; rc == 0 && i < g->n_inputs; i++) {
        const struct graph_value *v = &g->value[g->input[i]];

        b->shape[i].rank = v->rank;
        memcpy(b->shape[i].dim, v->dim, (size_t)v->rank * sizeof v->dim[0]);
    }
    for (int i = 0; rc == 0 && i < PLANS; i++) {
        b->on[i] = calloc((size_t)b->costs.cut.n + 1, sizeof *b->on[i]);
        if (!b->on[i])
            rc = error_set(err, INFER_EMEMORY, "types: out of memory");
    }
    for (int i = 0; rc == 0 && i < b->costs.cut.n; i++)
        b->on[BYTES][i] = true;
    return rc;
}

/* Chooses by times, and makes the chosen plan prepared. */
static int choose_quickest(struct best *b, struct infer_error *err,
                           struct plan **out)
{
    int rc = 0;

    set_key(b);
    if (recall(b)) {
        if (b->log) /* times for the report: they are in the cache as well */
            rc = measure(b, err);
        /* The session that remembered may have had more memory. */
        do {
            decide(b);
            if (rc == 0)
                rc = enter(b, b->chosen, err, out);
            if (rc == 0 && !*out)
                b->seconds[b->chosen] = (double)INFINITY;
        } while (rc == 0 && !*out);
        return rc;
    }
    rc = measure(b, err);
    if (rc == 0)
        rc = cut_choose(&b->costs.cut, err, b->on[MIXED]);
    if (rc == 0)
        rc = race(b, err, out);
    /* Another session may have more memory. */
    return rc < 0 || b->left_out[FLOATS] || b->left_out[MIXED]
               ? rc
               : remember(b, err);
}

/* The same; where memory is short for any plan with floats, all in 8 bits,
 * which is not remembered either. */
static int choose(struct best *b, struct infer_error *err, struct plan **out)
{
    const struct plan_config *config = b->config;
    int rc = choose_quickest(b, err, out);

    if (rc != INFER_EMEMORY)
        return rc;
    plan_free(*out);
    *out = NULL;
    forget_plan(b);
    b->alone = true;
    b->chosen = BYTES;
    rc = make_plan(b, config, b->on[BYTES], err, out);
    if (rc == 0)
        rc = plan_prepare(*out, err);
    return rc;
}

int best_prepare(struct plan *plan, best_log_fn *log, void *user,
                 struct infer_error *err)
{
    struct best b = {
        .config = plan->config, .given = plan, .log = log, .user = user};
    struct plan *chosen = NULL, swapped;
    int rc = open_choice(&b, err);

    if (rc == 0)
        rc = choose(&b, err, &chosen);
    if (rc == 0 && log)
        tell(&b);
    if (rc == 0) {
        swapped = *plan;
        *plan = *chosen;
        *chosen = swapped;
    }
    plan_free(chosen);
    packed_cache_trim(model_packed(b.config->model), &b.config->device->host);
    costs_free(&b.costs);
    free(b.shape);
    for (int i = 0; i < PLANS; i++)
        free(b.on[i]);
    return rc;
}
