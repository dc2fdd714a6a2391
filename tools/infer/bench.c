/* SPDX-License-Identifier: Apache-2.0 */
/* --bench, --profile, --report-memory: how long, where, how much. */
#include "tools/infer/infer_tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "kernels/error.h"

/* Timed runs at most; a run below a microsecond does not exist. */
#define MAX_RUNS 1000000

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The nearest-rank percentile of sorted times. */
static double percentile(const double *sorted, size_t n, double p)
{
    size_t rank = (size_t)(p / 100 * (double)n);

    return sorted[rank < n ? rank : n - 1];
}

/* The most memory that the program ever held.  The kernel's VmHWM starts anew
 * with each program, where ru_maxrss keeps that of a large parent. */
static size_t peak_bytes(void)
{
    unsigned long long kib = 0;
    struct rusage usage;
    char line[256];
    FILE *f = fopen("/proc/self/status", "r");

    while (f != NULL && fgets(line, sizeof(line), f) != NULL)
        if (sscanf(line, "VmHWM: %llu kB", &kib) == 1)
            break;
    if (f != NULL)
        fclose(f);
    if (kib > 0)
        return (size_t)kib * 1024;
    getrusage(RUSAGE_SELF, &usage);
    return (size_t)usage.ru_maxrss * 1024;
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

static void print_json(const struct tool_run *run, const double *sorted,
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
    cJSON_AddNumberToObject(json, "peak_bytes", (double)peak_bytes());
    cli_print_json(json);
}

/* Whole runs, arrays and all: for the warm-up, then until the duration is
 * over. */
static int time_runs(struct tool_run *run, struct arrays *in,
                     struct arrays *out, double *times, size_t *count,
                     struct infer_error *err)
{
    double end = cli_now() + run->request->warmup, before;
    size_t n = 0;
    int status = INFER_OK;

    while (status == INFER_OK && cli_now() < end)
        status = infer_session_run(run->session, in->item, in->count, out->item,
                                   out->count, err);
    end = cli_now() + run->request->duration;
    do {
        before = cli_now();
        if (status == INFER_OK)
            status = infer_session_run(run->session, in->item, in->count,
                                       out->item, out->count, err);
        times[n++] = cli_now() - before;
    } while (status == INFER_OK && n < MAX_RUNS && cli_now() < end);
    *count = n;
    return status;
}

/* Runs on a GPU that are queued together. */
#define QUEUED 16

/* The same on inputs that are on the GPU already, by its clock. */
static int time_repeats(struct tool_run *run, struct arrays *in,
                        struct arrays *out, double *times, size_t *count,
                        struct infer_error *err)
{
    double end = cli_now() + run->request->warmup;
    size_t n = 0;
    int status = infer_session_run(run->session, in->item, in->count, out->item,
                                   out->count, err);

    do {
        if (status == INFER_OK)
            status = infer_session_repeat(run->session, QUEUED, times, err);
    } while (status == INFER_OK && cli_now() < end);
    end = cli_now() + run->request->duration;
    while (status == INFER_OK && n + QUEUED <= MAX_RUNS && cli_now() < end) {
        status = infer_session_repeat(run->session, QUEUED, times + n, err);
        n += QUEUED;
    }
    *count = n;
    return status;
}

static bool on_gpu(const struct tool_request *r)
{
    return r->session.device != NULL &&
           strncmp(r->session.device, "cuda", 4) == 0;
}

int tool_bench(struct tool_run *run, struct infer_error *err)
{
    struct arrays in = {0}, out = {0};
    double *times = malloc(MAX_RUNS * sizeof(*times)), start = cli_now();
    size_t n = 0;
    int status;

    if (times == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    status = tool_make_inputs(run, &in, err);
    if (status == INFER_OK)
        status = infer_session_prepare(run->session, in.item, in.count, err);
    run->plan_seconds = cli_now() - start;
    if (status == INFER_OK)
        status = tool_make_outputs(run->session, run->model, &out, err);
    if (status == INFER_OK)
        status = (on_gpu(run->request) && !run->request->include_transfers
                      ? time_repeats
                      : time_runs)(run, &in, &out, times, &n, err);
    if (status == INFER_OK && n == 0)
        status =
            error_set(err, INFER_EARGUMENT, "--duration: too short for a run");
    if (status == INFER_OK) {
        int64_t batch = in.item[0].rank > 0 ? in.item[0].dim[0] : 1;

        qsort(times, n, sizeof(*times), compare_doubles);
        if (run->cli->json)
            print_json(run, times, n, batch);
        else
            print_text(run, times, n, batch);
    }
    free(times);
    arrays_clear(&in);
    arrays_clear(&out);
    return status;
}

/* ---- profile and memory -------------------------------------------- */

static double total_seconds(const struct infer_session *session)
{
    struct infer_layer_info layer;
    double total = 0;
    int i;

    for (i = 0; i < infer_session_layer_count(session); i++)
        if (infer_session_layer(session, i, &layer) == INFER_OK)
            total += layer.seconds;
    return total;
}

static double rate(double amount, double seconds)
{
    return seconds > 0 ? amount / seconds / 1e9 : 0;
}

static void print_profile_text(const struct infer_session *session)
{
    double total = total_seconds(session);
    struct infer_layer_info l;
    int i;

    printf("%4s %9s %6s %9s %8s  %-14s %-40s %s\n", "#", "ms", "%", "GFLOP/s",
           "GB/s", "op", "kernel", "node");
    for (i = 0; i < infer_session_layer_count(session); i++) {
        if (infer_session_layer(session, i, &l) < 0)
            continue;
        cli_print("%4d %9.4f %6.2f %9.1f %8.1f  %-14s %-40s %s\n", i,
                  1e3 * l.seconds, total > 0 ? 100 * l.seconds / total : 0,
                  rate(l.flops, l.seconds), rate(l.bytes, l.seconds), l.op,
                  l.kernel, l.name);
    }
    printf("     %9.4f ms in all\n", 1e3 * total);
}

static int write_profile(const struct infer_session *session, const char *path,
                         struct infer_error *err)
{
    cJSON *json = cJSON_CreateArray();
    struct infer_layer_info l;
    char *text;
    FILE *f;
    int i, bad;

    for (i = 0; i < infer_session_layer_count(session); i++) {
        cJSON *item = cJSON_CreateObject();

        if (infer_session_layer(session, i, &l) < 0) {
            cJSON_Delete(item);
            continue;
        }
        cJSON_AddStringToObject(item, "name", l.name);
        cJSON_AddStringToObject(item, "op", l.op);
        cJSON_AddStringToObject(item, "kernel", l.kernel);
        cJSON_AddNumberToObject(item, "ms", 1e3 * l.seconds);
        cJSON_AddNumberToObject(item, "flops", l.flops);
        cJSON_AddNumberToObject(item, "bytes", l.bytes);
        cJSON_AddItemToArray(json, item);
    }
    text = cJSON_Print(json);
    cJSON_Delete(json);
    if (text == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    f = fopen(path, "w");
    bad = f == NULL || fputs(text, f) < 0 || fputc('\n', f) < 0;
    if (f != NULL && fclose(f) != 0)
        bad = 1;
    cJSON_free(text);
    return bad ? error_set(err, INFER_EIO, "%s: %s", path, strerror(errno))
               : INFER_OK;
}

int tool_print_profile(const struct tool_run *run, struct infer_error *err)
{
    if (run->request->profile_file != NULL)
        return write_profile(run->session, run->request->profile_file, err);
    print_profile_text(run->session);
    return INFER_OK;
}

void tool_print_memory(const struct tool_run *run)
{
    struct infer_memory_info m;
    char text[32];

    if (infer_session_memory(run->session, &m) < 0)
        return;
    printf("activations  %s",
           cli_bytes((double)m.activations, text, sizeof(text)));
    printf(" (%s without reuse)\n",
           cli_bytes((double)m.activations_unshared, text, sizeof(text)));
    printf("weights      %s\n",
           cli_bytes((double)m.weights, text, sizeof(text)));
    printf("workspace    %s\n",
           cli_bytes((double)m.workspace, text, sizeof(text)));
    printf("peak of the process  %s\n",
           cli_bytes((double)peak_bytes(), text, sizeof(text)));
}
