/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Choosing kernels in their network.
 *
 * The network begins with the fastest choice of each problem by itself.  First
 * the choices without measuring are tried all at once.  Then, problem by
 * problem in the order of their time, the choices that were nearly as fast are
 * tried. All steps of a problem have the same choice.  The trial and the
 * current network are timed by turns, so that a drifting clock meets both; a
 * trial that is faster in most turns is committed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "libinfer/tune/tune_private.h"

/* Seconds of the search.  With the measurement of each problem a first start of
 * ResNet-50 then stays within 2 s; problems are tried the longest first, so
 * that most of the gain comes early. */
#define TIME_BUDGET       1.0
#define EXHAUSTIVE_BUDGET 30.0
/* The longest run (seconds) whose steps overlap so much that the search pays;
 * an exhaustive search takes runs of EXHAUSTIVE_FACTOR times that. */
#define SHORT_RUN         2e-3
#define EXHAUSTIVE_FACTOR 10

/* How often all problems are gone through at most: a later choice may change
 * what an earlier one is worth. */
#define PASSES 2

/*
 * A trial is dropped where it wins fewer than `least` of so many turns, and
 * committed where it wins `enough`.  Of two equally fast choices the new one is
 * then committed once in a hundred trials.  GAIN is the least part of a run
 * that a choice must save.
 */
static const struct stage {
    int turns, least, enough;
} stages[] = {{4, 2, 5}, {15, 10, 13}, {45, 31, 31}};
#define STAGES    3
#define MAX_TURNS 45
#define GAIN      0.002

/* A choice that made a run longer by this part is not tried in a later pass. */
#define PRUNE_LOSS 0.01

/* The problem's own choice, the rule's, and those nearly as fast. */
#define MAX_OPTIONS (TUNE_NEAR + 2)

struct problem {
    char key[TUNE_KEY];
    int step;       /* the first that has it */
    double seconds; /* of all of them, each by itself */
    struct tune_choice option[MAX_OPTIONS];
    bool pruned[MAX_OPTIONS];
    int n_options, rule,
        at; /* rule: index of the rule's; at: the current one */
};

struct search {
    struct tuner *t;
    const struct tune_network *n;
    struct problem *problem, **order;
    int n_problems;
    int *of; /* problem of each step */
    char key[64];
    double deadline, alone, seconds;
};

/* ---- problems ------------------------------------------------------ */

static void close_search(struct search *s)
{
    free(s->problem);
    free(s->order);
    free(s->of);
}

static void find_problems(struct search *s)
{
    const struct tune_network *n = s->n;
    int i, k;

    for (i = 0; i < n->n_steps; i++) {
        struct problem *p = &s->problem[s->n_problems];

        tune_key(n->step[i].problem, p->key, sizeof p->key);
        for (k = 0; strcmp(s->problem[k].key, p->key) != 0; k++)
            ;
        s->of[i] = k;
        s->problem[k].seconds += n->step[i].choice.seconds;
        if (k < s->n_problems)
            continue;
        p->step = i;
        s->order[s->n_problems++] = p;
    }
}

/* The network is known by its problems and by the choices that it begins
 * with: when one of them is measured anew, so is the network. */
static void name_network(struct search *s)
{
    const struct tune_network *n = s->n;
    uint64_t hash = TUNE_HASH;
    int i;

    for (i = 0; i < n->n_steps; i++) {
        const struct tune_choice *c = &n->step[i].choice;
        const char *key = s->problem[s->of[i]].key;

        hash = tune_hash(hash, key, strlen(key) + 1);
        hash = tune_hash(hash, c->row->name, strlen(c->row->name) + 1);
        hash = tune_hash(hash, &c->variant, sizeof c->variant);
    }
    snprintf(s->key, sizeof s->key, "network of %d steps #%016llx", n->n_steps,
             (unsigned long long)hash);
}

static bool open_search(struct tuner *t, const struct tune_network *n,
                        struct search *s)
{
    const size_t count = (size_t)n->n_steps + 1;

    *s = (struct search){.t = t, .n = n};
    s->problem = calloc(count, sizeof *s->problem);
    s->order = calloc(count, sizeof(struct problem *));
    s->of = calloc(count, sizeof *s->of);
    if (!s->problem || !s->order || !s->of) {
        close_search(s);
        return false;
    }
    find_problems(s);
    name_network(s);
    return true;
}

/* True if every step of the problem may have the choice. */
static bool is_taken(const struct search *s, const struct problem *p,
                     const struct tune_choice *c)
{
    const struct tune_network *n = s->n;
    int i;

    if (c->row->op != n->step[p->step].problem->op)
        return false;
    for (i = p->step; i < n->n_steps; i++)
        if (&s->problem[s->of[i]] == p && !n->takes(n->user, i, c->row))
            return false;
    return true;
}

/* Gives all steps of the problem a choice. */
static void set(const struct search *s, const struct problem *p,
                const struct tune_choice *c)
{
    int i;

    for (i = p->step; i < s->n->n_steps; i++)
        if (&s->problem[s->of[i]] == p)
            memcpy(&s->n->step[i].choice, c, sizeof *c);
}

/* ---- what may be tried --------------------------------------------- */

/* Adds a choice that is not there yet; returns its index. */
static int add_option(const struct search *s, struct problem *p,
                      const struct tune_choice *c)
{
    int i;

    for (i = 0; i < p->n_options; i++)
        if (tune_same(&p->option[i], c))
            return i;
    if (i > 0 && !is_taken(s, p, c))
        return 0;
    memcpy(&p->option[p->n_options], c, sizeof *c);
    return p->n_options++;
}

/* What came near to the choice of the problem; returns how many. */
static int read_near(const struct tuner *t, const struct kern_problem *p,
                     struct tune_choice out[TUNE_NEAR])
{
    struct tune_entry entry;
    char key[TUNE_KEY];
    int i, n = 0;

    tune_key(p, key, sizeof key);
    if (!tune_cache_find(t->cache, key, &entry))
        return 0;
    for (i = 0; i < entry.n_near; i++)
        n += tune_choice_of(&entry.near[i], &out[n]);
    return n;
}

/* Returns how many alternatives there are. */
static int find_options(const struct search *s)
{
    struct tune_choice near[TUNE_NEAR];
    int i, k, n, choices = 0;

    for (i = 0; i < s->n_problems; i++) {
        struct problem *p = &s->problem[i];
        const struct tune_step *step = &s->n->step[p->step];

        add_option(s, p, &step->choice);
        if (step->choice.seconds <= 0)
            continue; /* not measured: nothing to choose from */
        p->rule = add_option(s, p, &step->rule);
        n = read_near(s->t, step->problem, near);
        for (k = 0; k < n; k++)
            add_option(s, p, &near[k]);
        choices += p->n_options - 1;
    }
    return choices;
}

static double times(const struct tuner *t)
{
    return tuner_mode(t) == TUNE_EXHAUSTIVE ? EXHAUSTIVE_FACTOR : 1;
}

/* Of its steps, each by itself. */
static double run_seconds(const struct tune_network *n)
{
    double seconds = 0;
    int i;

    for (i = 0; i < n->n_steps; i++)
        seconds += n->step[i].choice.seconds;
    return seconds;
}

bool tuner_may_refine(struct tuner *t, const struct tune_network *n)
{
    struct search s;
    bool may;

    if (tuner_mode(t) == TUNE_OFF || tuner_mode(t) == TUNE_TIMES ||
        run_seconds(n) > SHORT_RUN * times(t) || !open_search(t, n, &s))
        return false;
    may = find_options(&s) > 0;
    close_search(&s);
    return may;
}

/* ---- trials -------------------------------------------------------- */

static int compare_seconds(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(const double *seconds, int n)
{
    double sorted[MAX_TURNS];

    memcpy(sorted, seconds, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, compare_seconds);
    return sorted[n / 2];
}

/* Turns of a trial so far. */
struct turns {
    double stands[MAX_TURNS], tried[MAX_TURNS];
    int n;
};

/* The part of its time that the network would save by the trial. */
static double gain(const struct turns *t)
{
    return 1 - median(t->tried, t->n) / median(t->stands, t->n);
}

/* Whether the trial is quicker. */
static int compare(const struct search *s, struct infer_error *err,
                   struct turns *t)
{
    const struct tune_network *n = s->n;
    int i, k, rc;

    t->n = 0;
    for (i = 0; i < STAGES; i++) {
        int wins = 0;

        rc = n->time(n->user, stages[i].turns - t->n, err, &t->stands[t->n],
                     &t->tried[t->n]);
        if (rc < 0)
            return rc;
        t->n = stages[i].turns;
        for (k = 0; k < t->n; k++)
            wins += t->tried[k] < t->stands[k];
        if (wins >= stages[i].enough)
            return gain(t) > GAIN;
        if (wins < stages[i].least)
            return 0;
    }
    return 0;
}

/* Times the network with the choices that its steps have now: 1 where they are
 * committed, else 0, and the caller restores the steps.  *gained: the part of a
 * run that they save. */
static int trial(struct search *s, struct infer_error *err, double *gained)
{
    const struct tune_network *n = s->n;
    struct turns turns;
    int rc = n->ready(n->user, err);

    *gained = 0;
    if (rc != 0)
        return rc < 0 ? rc : 0;
    rc = compare(s, err, &turns);
    if (rc < 0)
        return rc;
    n->commit(n->user, rc);
    *gained = gain(&turns);
    if (s->alone <= 0)
        s->alone = median(turns.stands, turns.n);
    s->seconds = median(rc ? turns.tried : turns.stands, turns.n);
    return rc;
}

/* Tries the choices without measuring, all at once. */
static int try_rule(struct search *s, struct infer_error *err)
{
    bool differs = false;
    double gained;
    int i, rc;

    for (i = 0; i < s->n_problems; i++)
        differs = differs || s->problem[i].rule != 0;
    if (!differs)
        return 0;
    for (i = 0; i < s->n_problems; i++)
        set(s, &s->problem[i], &s->problem[i].option[s->problem[i].rule]);
    rc = trial(s, err, &gained);
    for (i = 0; i < s->n_problems; i++) {
        struct problem *p = &s->problem[i];

        if (rc > 0)
            p->at = p->rule;
        set(s, p, &p->option[p->at]);
    }
    return rc;
}

/* Returns 1 where another choice was committed. */
static int try_problem(struct search *s, struct problem *p,
                       struct infer_error *err)
{
    int i, rc = 0, changed = 0;
    double gained;

    for (i = 0; rc >= 0 && i < p->n_options; i++) {
        if (i == p->at || p->pruned[i] || s->n->now(s->n->user) >= s->deadline)
            continue;
        set(s, p, &p->option[i]);
        rc = trial(s, err, &gained);
        p->pruned[i] = gained < -PRUNE_LOSS;
        if (rc > 0) {
            p->at = i;
            changed = 1;
        }
        set(s, p, &p->option[p->at]);
    }
    return rc < 0 ? rc : changed;
}

static int longest_first(const void *a, const void *b)
{
    const struct problem *x = *(struct problem *const *)a;
    const struct problem *y = *(struct problem *const *)b;

    return (x->seconds < y->seconds) - (x->seconds > y->seconds);
}

static int try_all(struct search *s, struct infer_error *err)
{
    int pass, i, rc = try_rule(s, err), changed = 1;

    qsort(s->order, (size_t)s->n_problems, sizeof(struct problem *),
          longest_first);
    for (pass = 0; rc >= 0 && changed && pass < PASSES; pass++) {
        changed = 0;
        for (i = 0; rc >= 0 && i < s->n_problems; i++) {
            rc = try_problem(s, s->order[i], err);
            changed = changed || rc > 0;
        }
    }
    return rc < 0 ? rc : 0;
}

/* ---- the cache ----------------------------------------------------- */

static int remember(const struct search *s, struct infer_error *err,
                    int *exchanged)
{
    struct tune_network_entry entry = {.seconds = s->seconds,
                                       .alone = s->alone,
                                       .exhaustive = tuner_thoroughness(s->t)};
    struct tune_substitution *list =
        calloc((size_t)s->n_problems + 1, sizeof *list);
    int i, rc;

    if (!list)
        return error_set(err, INFER_EMEMORY, "tuning: out of memory");
    for (i = 0; i < s->n_problems; i++) {
        const struct problem *p = &s->problem[i];

        if (p->at == 0)
            continue;
        list[entry.n].problem = p->key;
        list[entry.n++].choice = tune_stored_of(&p->option[p->at]);
    }
    entry.substitution = list;
    rc = tune_cache_add_network(s->t->cache, s->key, &entry, err);
    *exchanged = entry.n;
    free(list);
    return rc;
}

int tuner_refine(struct tuner *t, const struct tune_network *n,
                 struct infer_error *err)
{
    const double start = n->now(n->user);
    struct search s;
    int exchanged = 0, rc;

    if (!open_search(t, n, &s))
        return error_set(err, INFER_EMEMORY, "tuning: out of memory");
    s.deadline = start + (tuner_mode(t) == TUNE_EXHAUSTIVE ? EXHAUSTIVE_BUDGET
                                                           : TIME_BUDGET);
    find_options(&s);
    rc = try_all(&s, err);
    if (rc == 0)
        rc = remember(&s, err, &exchanged);
    t->info.exchanged += exchanged;
    t->info.seconds += n->now(n->user) - start;
    close_search(&s);
    return rc;
}

/* Reads the choices of all problems from the cache; false where one of them may
 * not be taken. */
static bool read_choices(const struct search *s)
{
    struct tune_stored known;
    int i;

    for (i = 0; i < s->n_problems; i++) {
        struct problem *p = &s->problem[i];

        if (!tune_cache_substitution(s->t->cache, s->key, p->key, &known))
            continue;
        if (!tune_choice_of(&known, &p->option[0]) ||
            !is_taken(s, p, &p->option[0]))
            return false;
        p->n_options = 1;
    }
    return true;
}

bool tuner_recall(struct tuner *t, const struct tune_network *n)
{
    struct tune_network_entry entry;
    bool known = false;
    struct search s;
    int i;

    if (tuner_mode(t) == TUNE_OFF || tuner_mode(t) == TUNE_TIMES ||
        run_seconds(n) > SHORT_RUN * EXHAUSTIVE_FACTOR ||
        !open_search(t, n, &s))
        return false;
    if (tune_cache_find_network(t->cache, s.key, &entry) &&
        tuner_trusts(t, entry.exhaustive))
        known = read_choices(&s);
    for (i = 0; known && i < s.n_problems; i++)
        if (s.problem[i].n_options > 0) {
            set(&s, &s.problem[i], &s.problem[i].option[0]);
            t->info.exchanged++;
        }
    close_search(&s);
    return known;
}
