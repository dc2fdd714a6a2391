/* SPDX-License-Identifier: Apache-2.0 */
/* --bench: times runs. */
#include "tools/infer/infer_tool.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/text.h"

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

static void print_text(const struct tool_run *run, const double *sorted,
                       size_t n, int64_t batch)
{
    const struct tool_request *r = run->request;
    double sum = 0;
    size_t i;
    int k;

    for (i = 0; i < n; i++)
        sum += sorted[i];
    printf("batch %lld, %zu runs: min %.3f ms, mean %.3f ms", (long long)batch,
           n, 1e3 * sorted[0], 1e3 * sum / (double)n);
    for (k = 0; k < r->n_percentile; k++)
        printf(", p%g %.3f ms", r->percentile[k],
               1e3 * percentile(sorted, n, r->percentile[k]));
    printf(", %.1f images/s (median)\n",
           (double)batch / percentile(sorted, n, 50));
}

static cJSON *bench_json(const struct tool_run *run, const double *sorted,
                         size_t n, int64_t batch)
{
    const struct tool_request *r = run->request;
    cJSON *json = cJSON_CreateObject(), *list;
    double sum = 0;
    size_t i;
    int k;

    for (i = 0; i < n; i++)
        sum += sorted[i];
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

/* Runs with host arrays: the warm-up, then until the duration is over. */
static int time_runs(struct tool_run *run, struct arrays *in,
                     struct arrays *out, double *times, size_t *count,
                     struct infer_error *err)
{
    double end = cli_now() + run->request->warmup, before;
    size_t n = 0;
    int rc = INFER_OK;

    while (rc == INFER_OK && cli_now() < end)
        rc = infer_session_run(run->session, in->item, in->count, out->item,
                               out->count, err);
    end = cli_now() + run->request->duration;
    do {
        before = cli_now();
        if (rc == INFER_OK)
            rc = infer_session_run(run->session, in->item, in->count, out->item,
                                   out->count, err);
        times[n++] = cli_now() - before;
    } while (rc == INFER_OK && n < MAX_RUNS && cli_now() < end);
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
    } while (rc == INFER_OK && cli_now() < end);
    end = cli_now() + run->request->duration;
    while (rc == INFER_OK && n + QUEUED <= MAX_RUNS && cli_now() < end) {
        rc = infer_session_repeat(run->session, QUEUED, times + n, err);
        n += QUEUED;
    }
    *count = n;
    return rc;
}

static bool on_gpu(const struct tool_request *r)
{
    return r->session.device != NULL && text_begins(r->session.device, "cuda");
}

int tool_bench(struct tool_run *run, struct infer_error *err)
{
    struct arrays in = {0}, out = {0};
    double *times = malloc(MAX_RUNS * sizeof(*times));
    size_t n = 0;
    int rc;

    if (times == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    rc = tool_prepare(run, &in, &out, err);
    if (rc == INFER_OK)
        rc = (on_gpu(run->request) && !run->request->include_transfers
                  ? time_repeats
                  : time_runs)(run, &in, &out, times, &n, err);
    if (rc == INFER_OK && n == 0)
        rc = error_set(err, INFER_EARGUMENT, "--duration: too short for a run");
    if (rc == INFER_OK) {
        int64_t batch = in.item[0].rank > 0 ? in.item[0].dim[0] : 1;

        qsort(times, n, sizeof(*times), compare_doubles);
        if (run->cli->json)
            run->result = bench_json(run, times, n, batch);
        else
            print_text(run, times, n, batch);
    }
    free(times);
    arrays_clear(&in);
    arrays_clear(&out);
    return rc;
}
