/* SPDX-License-Identifier: Apache-2.0 */
/* --bench with --streams and --rate: several sessions of one model at work at
 * the same time, each in a thread of its own, and runs that arrive at fixed
 * times, as frames of a camera do. */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "kernels/base/error.h"
#include "libinfer/session.h"
#include "tools/infer/infer_tool.h"
#include "tools/terminal.h"

struct crowd;

struct stream {
    struct tool_run run; /* with a session of its own */
    struct arrays in, out;
    struct crowd *crowd;
    pthread_t thread;
    int rc;
    struct infer_error err;
};

/* What the streams share, under the mutex. */
struct crowd {
    const struct tool_request *request;
    struct bench_times *times;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int warm, ended;   /* streams */
    bool begun, stop;  /* the timed runs; after a failure */
    double start, end; /* of the timed runs */
    size_t next;       /* runs that were begun */
    int count;
    struct stream *stream;
};

static int run_once(struct stream *s)
{
    return infer_session_run(s->run.session, s->in.item, s->in.count,
                             s->out.item, s->out.count, &s->err);
}

/* Arrival of run i: all at the start without a rate. */
static double arrival(const struct crowd *c, size_t i)
{
    return c->start + (c->times->rate > 0 ? (double)i / c->times->rate : 0);
}

/* Number of arrivals until the end. */
static size_t arrivals(const struct crowd *c)
{
    const int64_t runs = c->request->runs;

    return runs > 0 ? (size_t)runs
                    : (size_t)ceil(c->times->rate * c->request->duration);
}

/* Takes the next run, *index; false where there is none, or none in time. */
static bool take_run(struct crowd *c, size_t *index)
{
    bool more;

    pthread_mutex_lock(&c->mutex);
    *index = c->next;
    more = !c->stop && !terminal_interrupt() && c->next < BENCH_MAX_RUNS &&
           (c->request->runs > 0
                ? c->next < (size_t)c->request->runs
                : cli_now() < c->end && arrival(c, c->next) < c->end);
    if (more)
        c->next++;
    pthread_mutex_unlock(&c->mutex);
    return more;
}

/* Sleeps until cli_now() is `until`; a signal ends it. */
static void sleep_until(double until)
{
    double left = until - cli_now();

    while (left > 0 && !terminal_interrupt()) {
        const struct timespec t = {(time_t)left,
                                   (long)(1e9 * (left - floor(left)))};

        nanosleep(&t, NULL);
        left = until - cli_now();
    }
}

static void add_time(struct crowd *c, double seconds)
{
    pthread_mutex_lock(&c->mutex);
    c->times->run[c->times->count++] = seconds;
    pthread_mutex_unlock(&c->mutex);
}

/* Warms up, waits for the others, runs. */
static void *work(void *p)
{
    struct stream *s = p;
    struct crowd *c = s->crowd;
    const double warm = cli_now() + c->request->warmup;
    size_t i;

    do
        s->rc = run_once(s);
    while (s->rc == INFER_OK && cli_now() < warm && !terminal_interrupt());
    pthread_mutex_lock(&c->mutex);
    c->warm++;
    c->stop = c->stop || s->rc < 0;
    pthread_cond_broadcast(&c->changed);
    while (!c->begun)
        pthread_cond_wait(&c->changed, &c->mutex);
    pthread_mutex_unlock(&c->mutex);
    while (s->rc == INFER_OK && take_run(c, &i)) {
        double before;

        sleep_until(arrival(c, i));
        if (terminal_interrupt())
            break;
        before = c->times->rate > 0 ? arrival(c, i) : cli_now();
        s->rc = run_once(s);
        if (s->rc == INFER_OK)
            add_time(c, cli_now() - before);
    }
    pthread_mutex_lock(&c->mutex);
    c->stop = c->stop || s->rc < 0;
    c->ended++;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->mutex);
    return NULL;
}

/* Waits 0.1 s for a change; called with the mutex. */
static void wait_briefly(struct crowd *c)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_nsec += 100000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    pthread_cond_timedwait(&c->changed, &c->mutex, &t);
}

/* Starts the clock once all are warm, and shows how far they are. */
static void conduct(struct crowd *c, const struct cli *cli)
{
    const int64_t runs = c->request->runs;

    pthread_mutex_lock(&c->mutex);
    while (c->warm < c->count)
        pthread_cond_wait(&c->changed, &c->mutex);
    c->start = cli_now();
    c->end = c->start + c->request->duration;
    c->begun = true;
    pthread_cond_broadcast(&c->changed);
    while (c->ended < c->count) {
        const size_t done = c->times->count;
        const double over = cli_now() - c->start;

        pthread_mutex_unlock(&c->mutex);
        if (runs > 0)
            cli_progress(cli, "time runs", done, (uint64_t)runs);
        else
            cli_progress(cli, "time runs", (uint64_t)(1e3 * over),
                         (uint64_t)(1e3 * c->request->duration));
        pthread_mutex_lock(&c->mutex);
        if (c->ended < c->count)
            wait_briefly(c);
    }
    c->times->elapsed = cli_now() - c->start;
    pthread_mutex_unlock(&c->mutex);
}

/* A session of its own for each stream.  The first run of each comes before
 * the threads: a GPU records its launches in the second. */
static int open_streams(struct tool_run *run, struct crowd *c,
                        struct infer_error *err)
{
    struct infer_session_options options = run->request->session;
    int rc = INFER_OK;

    /* Streams share the threads that one session would have. */
    if (options.threads == 0) {
        options.threads = run->session->device.kern.threads / c->count;
        options.threads = options.threads > 0 ? options.threads : 1;
    }
    infer_session_close(&run->session);
    for (int i = 0; rc == INFER_OK && i < c->count; i++) {
        struct stream *s = &c->stream[i];

        s->crowd = c;
        s->run = *run;
        rc = infer_session_create(run->model, &options, err, &s->run.session);
        if (rc == INFER_OK)
            rc = tool_prepare(&s->run, &s->in, &s->out, err);
        for (int k = 0; rc == INFER_OK && k < 2; k++) {
            rc = run_once(s);
            if (rc < 0)
                *err = s->err;
        }
    }
    run->plan_seconds = c->stream[0].run.plan_seconds;
    return rc;
}

static int start_threads(struct crowd *c, const struct cli *cli,
                         struct infer_error *err)
{
    int rc = INFER_OK, i;

    for (i = 0; i < c->count; i++)
        if (pthread_create(&c->stream[i].thread, NULL, work, &c->stream[i]) !=
            0) {
            rc = error_set(err, INFER_EMEMORY, "%d threads: cannot start more",
                           i);
            break;
        }
    pthread_mutex_lock(&c->mutex);
    c->stop = c->stop || rc < 0;
    c->count = i;
    pthread_mutex_unlock(&c->mutex);
    conduct(c, cli);
    while (i-- > 0) {
        pthread_join(c->stream[i].thread, NULL);
        if (rc == INFER_OK && c->stream[i].rc < 0) {
            rc = c->stream[i].rc;
            *err = c->stream[i].err;
        }
    }
    return rc;
}

int bench_streams(struct tool_run *run, struct bench_times *t,
                  struct infer_error *err)
{
    const struct tool_request *r = run->request;
    struct crowd c = {.request = r, .times = t};
    const int streams = r->streams > 0 ? r->streams : 1;
    int rc;

    t->streams = streams;
    t->rate = r->rate;
    c.count = streams;
    c.stream = calloc((size_t)streams, sizeof(*c.stream));
    if (c.stream == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    pthread_mutex_init(&c.mutex, NULL);
    pthread_cond_init(&c.changed, NULL);
    rc = open_streams(run, &c, err);
    if (rc == INFER_OK)
        rc = start_threads(&c, run->cli, err);
    if (rc == INFER_OK) {
        const struct infer_array *in = &c.stream[0].in.item[0];

        t->batch = in->rank > 0 ? in->dim[0] : 1;
        if (t->rate > 0 && !terminal_interrupt()) {
            t->waiting = arrivals(&c) - t->count;
            t->elapsed = fmax(t->elapsed, (double)t->count / t->rate);
        }
    }
    run->session = c.stream[0].run.session;
    for (int i = 0; i < streams; i++) {
        arrays_clear(&c.stream[i].in);
        arrays_clear(&c.stream[i].out);
        if (i > 0)
            infer_session_close(&c.stream[i].run.session);
    }
    pthread_cond_destroy(&c.changed);
    pthread_mutex_destroy(&c.mutex);
    free(c.stream);
    return rc;
}
