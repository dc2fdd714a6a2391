/* SPDX-License-Identifier: Apache-2.0 */
/* --bench: times runs. */
#include "tools/infer/infer_tool.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/text.h"
#include "libinfer/device/device.h"
#include "libinfer/session.h"
#include "tools/load.h"
#include "tools/terminal.h"

/* Limit of timed runs; each takes more than a microsecond. */
#define MAX_RUNS 1000000

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Nearest-rank percentile p of sorted times: the smallest time that at least p
 * per cent of the runs do not exceed. */
static double percentile(const double *sorted, size_t n, double p)
{
    const size_t rank = (size_t)ceil(p * (double)n / 100);

    return sorted[rank == 0 ? 0 : rank <= n ? rank - 1 : n - 1];
}

static bool on_gpu(const struct tool_request *r)
{
    return r->session.device != NULL && text_begins(r->session.device, "cuda");
}

/* Fewer runs than this tell nothing of percentile p. */
static bool is_known(double p, size_t n)
{
    return p <= 50 || p >= 100 || (double)n * (100 - p) >= 100;
}

/* Where it ran: the device, and its runtime or the number of threads. */
struct place {
    char name[128], how[64];
};

static struct place place_of(const struct device *d)
{
    struct place p;

    if (d->ops->identify) {
        d->ops->identify(d, p.name, sizeof(p.name), p.how, sizeof(p.how));
    } else {
        device_cpu_name(p.name, sizeof(p.name));
        snprintf(p.how, sizeof(p.how), "%d thread%s", d->kern.threads,
                 d->kern.threads == 1 ? "" : "s");
    }
    return p;
}

/* Where and how it ran, so that a copied line says what it is worth. */
static void print_place(const struct tool_run *run)
{
    const struct tool_request *r = run->request;
    const struct place p = place_of(&run->session->device);

    cli_print("%s: %s, %s", r->model, p.name, p.how);
    cli_print(", backend %s, %s, libinfer %s\n",
              device_backend_names[r->session.backend],
              device_precision_names[r->session.precision], infer_version());
}

static void print_text(const struct tool_run *run, const double *sorted,
                       size_t n, int64_t batch)
{
    const struct tool_request *r = run->request;
    double sum = 0;
    size_t i;
    int k;

    for (i = 0; i < n; i++)
        sum += sorted[i];
    print_place(run);
    printf("batch %lld, %zu runs: min %.3f ms, mean %.3f ms", (long long)batch,
           n, 1e3 * sorted[0], 1e3 * sum / (double)n);
    for (k = 0; k < r->n_percentile; k++)
        if (is_known(r->percentile[k], n))
            printf(", p%g %.3f ms", r->percentile[k],
                   1e3 * percentile(sorted, n, r->percentile[k]));
        else
            printf(", p%g -", r->percentile[k]);
    printf(", %.1f images/s (median)\n",
           (double)batch / percentile(sorted, n, 50));
}

static cJSON *bench_json(const struct tool_run *run, const double *sorted,
                         size_t n, int64_t batch)
{
    const struct tool_request *r = run->request;
    const struct place p = place_of(&run->session->device);
    cJSON *json = cJSON_CreateObject(), *list;
    double sum = 0;
    size_t i;
    int k;

    for (i = 0; i < n; i++)
        sum += sorted[i];
    cJSON_AddStringToObject(json, "device", p.name);
    cJSON_AddStringToObject(json, "runtime", p.how);
    cJSON_AddStringToObject(json, "backend",
                            device_backend_names[r->session.backend]);
    cJSON_AddStringToObject(json, "precision",
                            device_precision_names[r->session.precision]);
    cJSON_AddStringToObject(json, "version", infer_version());
    cJSON_AddNumberToObject(json, "batch", (double)batch);
    cJSON_AddNumberToObject(json, "runs", (double)n);
    cJSON_AddNumberToObject(json, "min_ms", 1e3 * sorted[0]);
    cJSON_AddNumberToObject(json, "mean_ms", 1e3 * sum / (double)n);
    cJSON_AddNumberToObject(json, "median_ms", 1e3 * percentile(sorted, n, 50));
    list = cJSON_AddObjectToObject(json, "percentile_ms");
    for (k = 0; k < r->n_percentile; k++) {
        char name[32];

        snprintf(name, sizeof(name), "%g", r->percentile[k]);
        cJSON_AddNumberToObject(list, name,
                                1e3 * percentile(sorted, n, r->percentile[k]));
    }
    cJSON_AddNumberToObject(json, "images_per_second",
                            (double)batch / percentile(sorted, n, 50));
    cJSON_AddNumberToObject(json, "load_ms", 1e3 * run->load_seconds);
    cJSON_AddNumberToObject(json, "plan_ms", 1e3 * run->plan_seconds);
    cJSON_AddNumberToObject(json, "peak_bytes", (double)tool_peak_bytes());
    return json;
}

/* True while another timed run is to be made: --runs of them, or until the
 * duration is over. */
static bool goes_on(const struct tool_run *run, size_t n, double end)
{
    const int64_t runs = run->request->runs;

    return !terminal_interrupt() && n < MAX_RUNS &&
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
                     struct arrays *out, double *times, size_t *count,
                     struct infer_error *err)
{
    double end = cli_now() + run->request->warmup, before;
    size_t n = 0;
    int rc = INFER_OK;

    while (rc == INFER_OK && cli_now() < end && !terminal_interrupt())
        rc = infer_session_run(run->session, in->item, in->count, out->item,
                               out->count, err);
    end = cli_now() + run->request->duration;
    do {
        show_time(run, n, end);
        before = cli_now();
        if (rc == INFER_OK)
            rc = infer_session_run(run->session, in->item, in->count, out->item,
                                   out->count, err);
        times[n++] = cli_now() - before;
    } while (rc == INFER_OK && goes_on(run, n, end));
    *count = n;
    return rc;
}

/* GPU runs queued at a time. */
#define QUEUED 16

/* The same with inputs in GPU memory, timed by GPU events. */
static int time_repeats(struct tool_run *run, struct arrays *in,
                        struct arrays *out, double *times, size_t *count,
                        struct infer_error *err)
{
    double end = cli_now() + run->request->warmup;
    size_t n = 0;
    int rc = infer_session_run(run->session, in->item, in->count, out->item,
                               out->count, err);

    do {
        if (rc == INFER_OK)
            rc = infer_session_repeat(run->session, QUEUED, times, err);
    } while (rc == INFER_OK && cli_now() < end && !terminal_interrupt());
    end = cli_now() + run->request->duration;
    while (rc == INFER_OK && goes_on(run, n, end)) {
        const int left = run->request->runs > 0
                             ? (int)run->request->runs - (int)n
                             : MAX_RUNS - (int)n;
        const int queued = left < QUEUED ? left : QUEUED;

        show_time(run, n, end);
        rc = infer_session_repeat(run->session, queued, times + n, err);
        n += (size_t)queued;
    }
    *count = n;
    return rc;
}

int tool_bench(struct tool_run *run, struct infer_error *err)
{
    struct arrays in = {0}, out = {0};
    double *times = malloc(MAX_RUNS * sizeof(*times));
    double waited, start;
    size_t n = 0;
    int rc;

    if (times == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    terminal_catch_interrupts();
    rc = tool_prepare(run, &in, &out, err);
    waited = load_waited();
    start = cli_now();
    if (rc == INFER_OK)
        rc = (on_gpu(run->request) && !run->request->include_transfers
                  ? time_repeats
                  : time_runs)(run, &in, &out, times, &n, err);
    cli_progress_end(run->cli);
    if (rc == INFER_OK && n == 0 && !terminal_interrupt())
        rc = error_set(err, INFER_EARGUMENT, "--duration: too short for a run");
    if (rc == INFER_OK && n > 0) {
        int64_t batch = in.item[0].rank > 0 ? in.item[0].dim[0] : 1;

        qsort(times, n, sizeof(*times), compare_doubles);
        if (run->cli->json)
            run->result = bench_json(run, times, n, batch);
        else
            print_text(run, times, n, batch);
        if (!on_gpu(run->request))
            waited =
                load_note(run->cli, load_waited() - waited, cli_now() - start,
                          run->session->device.kern.threads);
        if (!on_gpu(run->request) && run->result != NULL)
            cJSON_AddNumberToObject(run->result, "waited", waited);
    }
    free(times);
    arrays_clear(&in);
    arrays_clear(&out);
    return rc;
}
