/* SPDX-License-Identifier: Apache-2.0 */
/* --bench: times runs. */
#include "tools/infer/infer_tool.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/base/error.h"
#include "kernels/base/text.h"
#include "libinfer/session.h"
#include "tools/load.h"
#include "tools/terminal.h"

static bool on_gpu(const struct tool_request *r)
{
    return r->session.device != NULL && text_begins(r->session.device, "cuda");
}

/* True while another timed run is to be made: --runs of them, or until the
 * duration is over. */
static bool goes_on(const struct tool_run *run, size_t n, double end)
{
    const int64_t runs = run->request->runs;

    return !terminal_interrupt() && n < BENCH_MAX_RUNS &&
           (runs > 0 ? n < (size_t)runs : cli_now() < end);
}

/* Milliseconds of the duration that are over, or runs. */
static void show_time(const struct tool_run *run, size_t n, double end)
{
    const double all = run->request->duration;

    if (run->request->runs > 0) {
        cli_progress(run->cli, "time runs", n, (uint64_t)run->request->runs);
        return;
    }
    cli_progress(run->cli, "time runs",
                 (uint64_t)(1e3 * fmax(0, all - (end - cli_now()))),
                 (uint64_t)(1e3 * all));
}

/* Runs with host arrays: the warm-up, then until the duration is over. */
static int time_runs(struct tool_run *run, struct arrays *in,
                     struct arrays *out, struct bench_times *t,
                     struct infer_error *err)
{
    double end = cli_now() + run->request->warmup, before;
    int rc = INFER_OK;

    while (rc == INFER_OK && cli_now() < end && !terminal_interrupt())
        rc = infer_session_run(run->session, in->item, in->count, out->item,
                               out->count, err);
    end = cli_now() + run->request->duration;
    do {
        show_time(run, t->count, end);
        before = cli_now();
        if (rc == INFER_OK)
            rc = infer_session_run(run->session, in->item, in->count, out->item,
                                   out->count, err);
        t->run[t->count++] = cli_now() - before;
    } while (rc == INFER_OK && goes_on(run, t->count, end));
    return rc;
}

/* GPU runs queued at a time. */
#define QUEUED 16

/* The same with inputs in GPU memory, timed by GPU events. */
static int time_repeats(struct tool_run *run, struct arrays *in,
                        struct arrays *out, struct bench_times *t,
                        struct infer_error *err)
{
    const int64_t runs = run->request->runs;
    double end = cli_now() + run->request->warmup;
    int rc = infer_session_run(run->session, in->item, in->count, out->item,
                               out->count, err);

    do {
        if (rc == INFER_OK)
            rc = infer_session_repeat(run->session, QUEUED, t->run, err);
    } while (rc == INFER_OK && cli_now() < end && !terminal_interrupt());
    end = cli_now() + run->request->duration;
    while (rc == INFER_OK && goes_on(run, t->count, end)) {
        const int left =
            (int)(runs > 0 ? runs : BENCH_MAX_RUNS) - (int)t->count;
        const int queued = left < QUEUED ? left : QUEUED;

        show_time(run, t->count, end);
        rc = infer_session_repeat(run->session, queued, t->run + t->count, err);
        t->count += (size_t)queued;
    }
    return rc;
}

/* One session, one run after the other. */
static int time_session(struct tool_run *run, struct bench_times *t,
                        struct infer_error *err)
{
    const struct tool_request *r = run->request;
    struct arrays in = {0}, out = {0};
    int rc = tool_prepare(run, &in, &out, err);
    const double start = cli_now();

    if (rc == INFER_OK)
        rc = (on_gpu(r) && !r->include_transfers ? time_repeats : time_runs)(
            run, &in, &out, t, err);
    t->elapsed = cli_now() - start;
    if (rc == INFER_OK)
        t->batch = in.item[0].rank > 0 ? in.item[0].dim[0] : 1;
    arrays_clear(&in);
    arrays_clear(&out);
    return rc;
}

int tool_bench(struct tool_run *run, struct infer_error *err)
{
    const struct tool_request *r = run->request;
    struct bench_times t = {.streams = 1};
    double waited, start;
    int rc;

    if (on_gpu(r) && !r->include_transfers && (r->streams > 0 || r->rate > 0))
        return error_set(err, INFER_EARGUMENT,
                         "--streams and --rate time whole runs: on a GPU add "
                         "--include-transfers");
    t.run = malloc(BENCH_MAX_RUNS * sizeof(*t.run));
    if (t.run == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    terminal_catch_interrupts();
    waited = load_waited();
    start = cli_now();
    rc = (r->streams > 0 || r->rate > 0 ? bench_streams : time_session)(run, &t,
                                                                        err);
    waited = load_waited() - waited;
    cli_progress_end(run->cli);
    if (rc == INFER_OK && t.count == 0 && !terminal_interrupt())
        rc = error_set(err, INFER_EARGUMENT, "--duration: too short for a run");
    if (rc == INFER_OK && t.count > 0) {
        const int threads = run->session->device.kern.threads;

        /* With a rate, threads wait for arrivals too. */
        waited = on_gpu(r) || r->rate > 0
                     ? 0
                     : load_note(run->cli, waited, cli_now() - start,
                                 threads * t.streams);
        rc = bench_report(run, &t, waited, err);
    }
    free(t.run);
    return rc;
}
