/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timing: candidates take turns, round after round, so that what changes over
 * time (clocks, heat, other processes) meets all of them.
 *
 * On a GPU a round of a candidate is one replay of a recorded series of
 * launches between two events: what a launch costs the CPU does not count.  On
 * a CPU it is a series of launches on the monotonic clock.  A candidate that a
 * single launch or the first rounds show to be far behind is dropped, so that
 * the time goes to those that matter.
 */
#include <stdlib.h>

#include "kernels/base/error.h"
#include "libinfer/device/cpu_wait.h"
#include "tools/kbench/bench.h"

/* Shortest round of a candidate, seconds; MAX_SERIES launches at most. */
#define GPU_ROUND  200e-6
#define CPU_ROUND  2e-3
#define MAX_SERIES 64

/* Drops a candidate whose single launch, less the cost of an event, or later
 * whose median of the first rounds takes this many times the best one. */
#define FAR_BEHIND 4.0
#define EVENT_COST 8e-6
#define BEHIND     1.8
#define TRIAL      3 /* rounds */

static bool has_events(const struct bench *b)
{
    return b->plan->device->ops->mark != NULL;
}

/* ---- one series ---------------------------------------------------- */

static int launch_series(struct bench *b, struct candidate *k, int n,
                         struct infer_error *err)
{
    int rc = 0;

    for (int i = 0; rc == 0 && i < n; i++)
        rc = bench_launch(b, k, i % b->sets, err);
    return rc;
}

/* Records the series; candidates that cannot be recorded are launched one by
 * one. */
static void record(struct bench *b, struct candidate *k)
{
    const struct device *d = b->plan->device;
    struct infer_error why;

    if (!d->ops->replay || k->launches < 2)
        return;
    if (d->ops->record_begin(d, &why) == 0 &&
        device_record_end(d, launch_series(b, k, k->launches, &why), &why,
                          &k->graph) < 0)
        k->graph = NULL;
}

static int run_series(struct bench *b, struct candidate *k,
                      struct infer_error *err)
{
    const struct device *d = b->plan->device;

    return k->graph ? d->ops->replay(d, k->graph, err)
                    : launch_series(b, k, k->launches, err);
}

/* Seconds of the series between events, after all earlier work. */
static int time_series(struct bench *b, struct candidate *k,
                       struct infer_error *err, double *seconds)
{
    const struct device *d = b->plan->device;
    const double start = cli_now();
    int rc = has_events(b) ? d->ops->mark(d, 0, err) : 0;

    if (rc == 0)
        rc = run_series(b, k, err);
    if (rc == 0 && has_events(b))
        rc = d->ops->mark(d, 1, err);
    if (rc == 0)
        rc = d->ops->end(d, err);
    *seconds = cli_now() - start;
    if (rc == 0 && has_events(b))
        rc = d->ops->elapsed(d, 1, err, seconds);
    *seconds /= k->launches;
    return rc;
}

static void keep(struct candidate *k, double seconds)
{
    k->times[k->n_times++] = seconds;
}

/* ---- before the rounds --------------------------------------------- */

/* Times one launch: sets the launches a round, and drops slow candidates. */
static int time_once(struct bench *b, struct candidate *k, double *best,
                     struct infer_error *err)
{
    const double round = has_events(b) ? GPU_ROUND : CPU_ROUND;
    double seconds = 0;

    k->times = calloc((size_t)b->plan->rounds + 2, sizeof(*k->times));
    if (!k->times)
        return error_set(err, INFER_EMEMORY, "out of memory");
    k->launches = 1;
    const int rc = time_series(b, k, err, &seconds);
    if (rc < 0)
        return rc;
    if (*best == 0 || seconds < *best)
        *best = seconds;
    keep(k, seconds);
    const double n = seconds > 0 ? round / seconds + 1 : MAX_SERIES;
    k->launches = n > MAX_SERIES ? MAX_SERIES : (int)n;
    return 0;
}

static void drop(struct bench *b, struct candidate *k)
{
    struct kb_result *r = bench_result(b, k);

    r->state = KB_DROPPED;
    r->time = kb_stats_of(k->times, k->n_times);
    r->launches = k->launches;
    k->out = true;
}

/* The first times of the fastest on each side; baselines are never dropped for
 * being slower than ours. */
static void fastest(const struct bench *b, double best[KB_SIDES])
{
    for (int s = 0; s < KB_SIDES; s++)
        best[s] = 0;
    for (int i = 0; i < b->count; i++) {
        const struct candidate *k = &b->candidate[i];
        const int side = bench_result(b, k)->side;
        if (k->out || k->n_times == 0)
            continue;
        double sorted[8];
        const int n = k->n_times < 8 ? k->n_times : 8;
        for (int t = 0; t < n; t++)
            sorted[t] = k->times[t];
        const double median = kb_stats_of(sorted, n).median;
        if (best[side] == 0 || median < best[side])
            best[side] = median;
    }
}

static void drop_slow(struct bench *b, double factor, double allowance)
{
    double best[KB_SIDES];

    fastest(b, best);
    for (int i = 0; i < b->count; i++) {
        struct candidate *k = &b->candidate[i];
        if (k->out || k->n_times == 0)
            continue;
        struct kb_stats s;
        double sorted[8];
        const int n = k->n_times < 8 ? k->n_times : 8;
        for (int t = 0; t < n; t++)
            sorted[t] = k->times[t];
        s = kb_stats_of(sorted, n);
        if (s.median > factor * best[bench_result(b, k)->side] + allowance) {
            if (allowance > 0) /* the single launch */
                k->launches = 1;
            drop(b, k);
        }
    }
}

/* ---- rounds -------------------------------------------------------- */

/* Times each candidate once, between events of its own. */
static int run_round_events(struct bench *b, bool count,
                            struct infer_error *err)
{
    const struct device *d = b->plan->device;
    int rc = d->ops->begin(d, err), device = 0;

    for (int i = 0; rc == 0 && i < b->count; i++) {
        struct candidate *k = &b->candidate[i];
        struct infer_error why = {0};
        if (k->out)
            continue;
        int r = d->ops->mark(d, 2 * i, &why);
        if (r == 0)
            r = run_series(b, k, &why);
        if (r == 0)
            r = d->ops->mark(d, 2 * i + 1, &why);
        if (r < 0)
            rc = device = bench_fail(b, k, &why, err);
    }
    if (rc == 0)
        rc = d->ops->end(d, err);
    for (int i = 0; rc == 0 && count && i < b->count; i++) {
        struct candidate *k = &b->candidate[i];
        double seconds;
        if (k->out)
            continue;
        rc = d->ops->elapsed(d, 2 * i + 1, err, &seconds);
        if (rc == 0)
            keep(k, seconds / k->launches);
    }
    return device < 0 ? device : rc;
}

static int run_round_clock(struct bench *b, bool count, struct infer_error *err)
{
    int rc = 0;

    for (int i = 0; rc == 0 && i < b->count; i++) {
        struct candidate *k = &b->candidate[i];
        struct infer_error why = {0};
        double seconds = 0;
        if (k->out)
            continue;
        if (time_series(b, k, &why, &seconds) < 0)
            rc = bench_fail(b, k, &why, err);
        else if (count)
            keep(k, seconds);
    }
    return rc;
}

static int run_rounds(struct bench *b, struct infer_error *err)
{
    const double end = cli_now() + b->plan->time_limit;
    int rc = 0;

    /* The first round warms up. */
    for (int round = -1; rc == 0 && round < b->plan->rounds; round++) {
        /* On a CPU threads wait as they do in a session. */
        if (!has_events(b) && b->plan->device->kern.threads > 1)
            cpu_wait_look(b->plan->device->kern.threads);
        rc = has_events(b) ? run_round_events(b, round >= 0, err)
                           : run_round_clock(b, round >= 0, err);
        if (round + 1 == TRIAL && b->plan->rounds > TRIAL)
            drop_slow(b, BEHIND, 0);
        if (round + 1 >= TRIAL && cli_now() > end)
            break;
    }
    return rc;
}

int bench_time(struct bench *b, struct infer_error *err)
{
    const struct device *d = b->plan->device;
    double best = 0;
    int rc = d->ops->begin(d, err);

    for (int i = 0; rc == 0 && i < b->count; i++) {
        struct candidate *k = &b->candidate[i];
        struct infer_error why = {0};
        if (!k->out && time_once(b, k, &best, &why) < 0)
            rc = bench_fail(b, k, &why, err);
    }
    drop_slow(b, FAR_BEHIND, has_events(b) ? EVENT_COST : 1e-6);
    for (int i = 0; i < b->count; i++) {
        struct candidate *k = &b->candidate[i];
        k->n_times = k->out ? k->n_times : 0;
        if (!k->out)
            record(b, k);
    }
    if (rc == 0)
        rc = run_rounds(b, err);
    for (int i = 0; i < b->count; i++) {
        struct candidate *k = &b->candidate[i];
        struct kb_result *r = bench_result(b, k);
        if (k->out || k->n_times == 0)
            continue;
        r->state = KB_TIMED;
        r->time = kb_stats_of(k->times, k->n_times);
        r->launches = k->launches;
    }
    return rc;
}
