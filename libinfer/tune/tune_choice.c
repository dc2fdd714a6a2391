/* SPDX-License-Identifier: Apache-2.0 */
/* The choice for one problem: which rows are candidates, their measurement, and
 * what the cache remembers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/quant/quant.h"
#include "libinfer/tune/tune_private.h"

/* Rows, and variants that have estimates of their own, whose estimate is more
 * than this many times the lowest of their tier are not measured, except in an
 * exhaustive search. */
#define PRUNE_RATIO 5.0

/* Most variants of a row that are tried outside an exhaustive search, unless
 * they have estimates: a row offers its best first, and a vendor's library is
 * slow to prepare each. */
#define MAX_VARIANTS 8
/* Seconds of measuring after which a vendor's row is tried only where no other
 * row takes the problem, and only in its first variant: vendors' libraries
 * compile kernels while they prepare.  An exhaustive search has no budget. */
#define TIME_BUDGET 10.0

/* A kernel is far from what the device could do if it takes more than this many
 * times the roofline bound and this many seconds more, which latencies explain.
 * A problem without a fast row takes 10 to 1,000 times the bound. */
#define FAR_RATIO   3.0
#define FAR_SECONDS 25e-6

/* False if an input holds indices: random numbers would be out of range.  The
 * ReLU bit masks of a batch norm's gradient may be random, and so may 8 bits
 * that have a scale. */
static bool is_measurable(const struct kern_problem *p)
{
    const bool scaled = quant_of(p) || quant_is_scaled(p);

    for (int i = 0; i < p->n_in; i++) {
        const enum infer_dtype dtype = p->in[i].dtype;
        const bool mask = dtype == INFER_U8 && p->op == KERN_BATCH_NORM_DGRAD;

        if (dtype != INFER_NONE && !tune_is_real(dtype) && !mask &&
            !(scaled && quant_is_byte(dtype)))
            return false;
    }
    return p->n_in > 0;
}

static bool may_take(const struct row_query *q, const struct kern_row *row,
                     const struct tune_choice *given)
{
    return row == given->row || row_takes(q, row, NULL);
}

static void collect(const struct row_query *q, uint32_t tier,
                    const struct tune_choice *given, struct tune_candidates *c)
{
    size_t i;

    for (i = 0; i < kern_row_count(); i++) {
        const struct kern_row *row = kern_row_at(i);

        if (!row_is_of(row, tier, q->problem->op) ||
            (row->flags & KERN_BASELINE) || !may_take(q, row, given))
            continue;
        c->row[c->n] = row;
        c->estimate[c->n++] =
            row->fn->estimate ? row->fn->estimate(q->problem, q->device) : 0;
    }
}

/* Drops candidates from `from` on that the estimates rule out; rows that make
 * none are measured. */
static void prune(struct tune_candidates *c, int from)
{
    double lowest = 0;
    int i, n = from;

    for (i = from; i < c->n; i++)
        if (c->estimate[i] > 0 && (lowest == 0 || c->estimate[i] < lowest))
            lowest = c->estimate[i];
    if (lowest == 0)
        return;
    for (i = from; i < c->n; i++)
        if (c->estimate[i] <= PRUNE_RATIO * lowest) {
            c->row[n] = c->row[i];
            c->limit[n] = PRUNE_RATIO * lowest;
            c->estimate[n++] = c->estimate[i];
        }
    c->n = n;
}

/* Reads the problem's choice from the cache, unless this tuner's search is more
 * thorough than the one that found it. */
static bool read_known(const struct tuner *t, const struct kern_problem *p,
                       struct tune_choice *out)
{
    struct tune_entry entry;
    char key[TUNE_KEY];

    tune_key(p, key, sizeof key);
    return tune_cache_find(t->cache, key, &entry) &&
           (entry.imported || tuner_trusts(t, entry.exhaustive)) &&
           tune_choice_of(&entry.best, out);
}

/* The choice of the cache, where it may be taken.  Only its row is asked; the
 * other rows' libraries stay unloaded. */
static bool find_known(const struct tuner *t, const struct row_query *q,
                       const uint32_t *tier, int n, struct tune_choice *choice)
{
    struct tune_choice known;
    uint32_t all = 0;

    for (int i = 0; i < n; i++)
        all |= tier[i];
    if (!read_known(t, q->problem, &known) ||
        !row_is_of(known.row, all, q->problem->op) ||
        !may_take(q, known.row, choice))
        return false;
    memcpy(choice, &known, sizeof known);
    return true;
}

/* ---- measuring ----------------------------------------------------- */

/* A choice is near the fastest up to NEAR times its seconds and up to
 * NEAR_SECONDS more, which a neighbour may win by starting early: of the
 * choices that networks took on an H200 none was slower by more than 1.75 us.
 */
#define NEAR         1.3
#define NEAR_SECONDS 2e-6

/* The fastest choices so far, in order. */
struct leaderboard {
    struct tune_choice at[1 + TUNE_NEAR];
    int n;
};

static double best_of(const struct leaderboard *f)
{
    return f->n > 0 ? f->at[0].seconds : TUNE_PRUNED;
}

/* Of two equally fast choices the earlier one stays first. */
static void enter(struct leaderboard *f, const struct tune_choice *c)
{
    int i = f->n;

    if (f->n <= TUNE_NEAR)
        f->n++;
    else if (f->at[--i].seconds <= c->seconds)
        return;
    for (; i > 0 && f->at[i - 1].seconds > c->seconds; i--)
        memcpy(&f->at[i], &f->at[i - 1], sizeof *c);
    memcpy(&f->at[i], c, sizeof *c);
}

/* Measures one variant; one that cannot be prepared is passed over. */
static int measure(struct tuner *t, const struct kern_row *row, int variant,
                   const struct kern_problem *p, struct leaderboard *board,
                   struct infer_error *err)
{
    struct tune_choice c = {.row = row, .variant = variant};
    struct kern_exec e;
    int rc = 0;

    if (kern_prepare_variant(row, p, &t->pool.device->kern, variant, NULL, &e) <
        0)
        return 0;
    c.seconds = TUNE_PRUNED;
    if (!p->deterministic || !(e.flags & KERN_NONDETERMINISTIC))
        rc = tune_measure(&t->pool, &e, best_of(board), err, &c.seconds);
    if (rc == 0 && c.seconds < TUNE_PRUNED) {
        memcpy(c.variant_name, e.variant_name, sizeof c.variant_name);
        enter(board, &c);
    }
    kern_release(&e);
    return rc;
}

/* True if one of the rows is not of a vendor's library. */
static bool has_own(const struct tune_candidates *c)
{
    for (int i = 0; i < c->n; i++)
        if (c->row[i]->backend != INFER_BACKEND_CUDNN)
            return true;
    return false;
}

bool tuner_wants_later(const struct tuner *t, const struct kern_problem *p,
                       double seconds)
{
    const double bound = device_rates_bound(&t->pool.device->rates, p);

    return t->mode == TUNE_EXHAUSTIVE ||
           (bound > 0 && seconds > FAR_RATIO * bound + FAR_SECONDS);
}

/* How many variants of a row are tried. */
static int variants_of(const struct tuner *t, const struct kern_problem *p,
                       const struct kern_row *row, bool own)
{
    const bool late =
        t->info.seconds > TIME_BUDGET && row->backend == INFER_BACKEND_CUDNN;
    int n;

    if (t->mode == TUNE_EXHAUSTIVE)
        return kern_variants(row, p, &t->pool.device->kern, NULL);
    if (late && own)
        return 0;
    n = kern_variants(row, p, &t->pool.device->kern, NULL);
    if (late && n > 1)
        return 1;
    return n > MAX_VARIANTS && !row->fn->estimate_variant ? MAX_VARIANTS : n;
}

/* True for a variant whose estimate is above the limit, unless that is 0. */
static bool is_pruned(const struct tuner *t, const struct kern_problem *p,
                      const struct kern_row *row, int variant, double limit)
{
    return limit > 0 && row->fn->estimate_variant &&
           row->fn->estimate_variant(p, &t->pool.device->kern, variant) > limit;
}

/* Measures the candidates from `from` on. */
static int measure_from(struct tuner *t, const struct kern_problem *p,
                        const struct tune_candidates *c, int from,
                        struct infer_error *err, struct leaderboard *board)
{
    const bool own = has_own(c);
    int rc = 0;

    for (int i = from; rc == 0 && i < c->n; i++) {
        const int variants = variants_of(t, p, c->row[i], own);

        for (int k = 0; rc == 0 && k < variants; k++)
            if (!is_pruned(t, p, c->row[i], k, c->limit[i]))
                rc = measure(t, c->row[i], k, p, board, err);
    }
    return rc;
}

/* ---- the cache ----------------------------------------------------- */

static int take_known(struct tuner *t, const struct kern_problem *p,
                      struct infer_error *err)
{
    char key[TUNE_KEY];

    t->info.cached++;
    tune_key(p, key, sizeof key);
    return tune_cache_use(t->cache, key, err);
}

/* A problem that must be computed alike in every run keeps its own choice in
 * every network: only the fastest is remembered. */
static int remember(struct tuner *t, const struct kern_problem *p,
                    const char *key, const struct leaderboard *f,
                    struct infer_error *err)
{
    struct tune_entry entry = {.best = tune_stored_of(&f->at[0]),
                               .exhaustive = tuner_thoroughness(t)};
    int i, rc;

    for (i = 1; i < f->n && !p->deterministic; i++)
        if (f->at[i].seconds <= NEAR * f->at[0].seconds &&
            f->at[i].seconds <= f->at[0].seconds + NEAR_SECONDS)
            entry.near[entry.n_near++] = tune_stored_of(&f->at[i]);
    rc = tune_cache_add(t->cache, key, &entry, err);
    return rc < 0 ? rc : tune_cache_use(t->cache, key, err);
}

/* The end of a search that began at `start`, seconds, and ended with rc. */
static int conclude(struct tuner *t, const struct kern_problem *p,
                    const struct leaderboard *board, double start, int rc,
                    struct infer_error *err, struct tune_choice *out)
{
    char key[TUNE_KEY];

    tune_key(p, key, sizeof key);
    t->info.seconds += tune_now() - start;
    if (rc < 0) {
        error_prefix(err, "measuring %s", key);
        return rc;
    }
    if (board->n == 0)
        return 0;
    t->info.measured++;
    memcpy(out, &board->at[0], sizeof *out);
    /* As the cache will give it. */
    out->seconds =
        1e-6 * ((double)(int64_t)(board->at[0].seconds * 1e8 + 0.5) / 100);
    return remember(t, p, key, board, err);
}

int tuner_choose(struct tuner *t, const struct kern_problem *p,
                 const struct tune_candidates *c, struct infer_error *err,
                 struct tune_choice *out)
{
    struct leaderboard board = {.n = 0};
    const double start = tune_now();
    const int rc = measure_from(t, p, c, 0, err, &board);

    *out = (struct tune_choice){.row = c->row[0]};
    return conclude(t, p, &board, start, rc, err, out);
}

/* ---- choosing ------------------------------------------------------ */

/* True if the candidates are one row that computes the problem in one way. */
static bool is_only_way(const struct row_query *q,
                        const struct tune_candidates *c)
{
    return c->n == 1 &&
           kern_variants(c->row[0], q->problem, q->device, NULL) < 2;
}

/* Asks tier by tier: rows of a later one are asked whether they take the
 * problem, for which a vendor's library is loaded, only where that is wanted.
 */
static int choose(struct tuner *t, const struct row_query *q,
                  const uint32_t *tier, int n, struct tune_candidates *c,
                  struct infer_error *err, struct tune_choice *choice)
{
    const bool all = tuner_mode(t) == TUNE_EXHAUSTIVE;
    struct leaderboard board = {.n = 0};
    const double start = tune_now();
    int measured = 0, rc = 0;

    for (int i = 0; rc == 0 && i < n; i++) {
        const bool last = i + 1 == n;
        const int from = c->n;

        if (from > 0 && !tuner_wants_later(t, q->problem, best_of(&board)))
            break;
        collect(q, tier[i], choice, c);
        if (!all)
            prune(c, from);
        if (last ? is_only_way(q, c) : all)
            continue;
        rc = measure_from(t, q->problem, c, measured, err, &board);
        measured = c->n;
    }
    return conclude(t, q->problem, &board, start, rc, err, choice);
}

int tuner_pick(struct tuner *t, const struct row_query *q, const uint32_t *tier,
               int n, struct infer_error *err, struct tune_choice *choice)
{
    struct tune_candidates c = {0};
    int rc;

    if (tuner_mode(t) == TUNE_OFF || tuner_mode(t) == TUNE_TIMES ||
        !is_measurable(q->problem))
        return 0;
    if (find_known(t, q, tier, n, choice))
        return take_known(t, q->problem, err);
    c.row = calloc(kern_row_count(), sizeof(const struct kern_row *));
    c.estimate = calloc(kern_row_count(), sizeof *c.estimate);
    c.limit = calloc(kern_row_count(), sizeof *c.limit);
    if (!c.row || !c.estimate || !c.limit)
        rc = error_set(err, INFER_EMEMORY, "tuning: out of memory");
    else
        rc = choose(t, q, tier, n, &c, err, choice);
    free(c.row);
    free(c.estimate);
    free(c.limit);
    return rc;
}

/* ---- the time of one choice ---------------------------------------- */

/* Measurements of a choice, of which the least counts: a CPU has neighbours. */
#define REPEATS 3

/* The least of some measurements; *seconds: 0 where there are none. */
static int measure_choice(struct tuner *t, const struct kern_problem *p,
                          const struct tune_choice *choice,
                          struct infer_error *err, double *seconds)
{
    const int repeats = t->pool.device->ops->replay ? 1 : REPEATS;
    struct kern_exec e;
    int rc = 0;

    *seconds = 0;
    if (tuner_prepare(choice, p, &t->pool.device->kern, NULL, &e) < 0)
        return 0;
    for (int i = 0; rc == 0 && i < repeats; i++) {
        double now;

        rc = tune_measure(&t->pool, &e, TUNE_PRUNED, err, &now);
        if (rc == 0 && now < TUNE_PRUNED && (*seconds == 0 || now < *seconds))
            *seconds = now;
    }
    kern_release(&e);
    return rc;
}

/* The key of a row's time, whichever row the problem's own entry names. */
static void time_key(const struct kern_problem *p, const struct kern_row *row,
                     char *key, size_t bytes)
{
    char problem[TUNE_KEY];

    tune_key(p, problem, sizeof problem);
    snprintf(key, bytes, "%s by %s", problem, row->name);
}

int tuner_seconds(struct tuner *t, const struct kern_problem *p,
                  const struct tune_choice *choice, struct infer_error *err,
                  double *seconds)
{
    struct tune_choice timed = *choice;
    const double start = tune_now();
    struct tune_entry entry;
    char key[TUNE_KEY + 128];
    int rc;

    *seconds = choice->seconds;
    if (*seconds > 0 || !is_measurable(p))
        return 0;
    time_key(p, choice->row, key, sizeof key);
    if (tune_cache_find(t->cache, key, &entry) &&
        entry.best.variant == choice->variant) {
        *seconds = entry.best.seconds;
        t->info.cached++;
        return tune_cache_use(t->cache, key, err);
    }
    rc = measure_choice(t, p, choice, err, seconds);
    t->info.seconds += tune_now() - start;
    if (rc < 0 || *seconds == 0)
        return rc;
    t->info.measured++;
    timed.seconds = *seconds;
    entry = (struct tune_entry){.best = tune_stored_of(&timed)};
    rc = tune_cache_add(t->cache, key, &entry, err);
    return rc < 0 ? rc : tune_cache_use(t->cache, key, err);
}

int tuner_prepare(const struct tune_choice *choice,
                  const struct kern_problem *p, const struct kern_device *d,
                  struct infer_error *err, struct kern_exec *out)
{
    if (choice->variant > 0 &&
        kern_prepare_variant(choice->row, p, d, choice->variant, NULL, out) ==
            0) {
        if (strcmp(out->variant_name, choice->variant_name) == 0)
            return 0;
        kern_release(out);
    }
    return kern_prepare(choice->row, p, d, err, out);
}
