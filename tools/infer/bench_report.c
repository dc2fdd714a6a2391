/* SPDX-License-Identifier: Apache-2.0 */
/* --bench: prints what was measured, and compares it with an earlier run. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/json.h"
#include "libinfer/device/device.h"
#include "libinfer/graph/constant.h"
#include "libinfer/session.h"
#include "tools/infer/infer_tool.h"

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Nearest-rank percentile p of sorted times: the smallest time that at least p
 * per cent of the runs do not exceed. */
static double percentile(const struct bench_times *t, double p)
{
    const size_t n = t->count, rank = (size_t)ceil(p * (double)n / 100);

    return t->run[rank == 0 ? 0 : rank <= n ? rank - 1 : n - 1];
}

/* Fewer runs than this tell nothing of percentile p. */
static bool is_known(double p, size_t n)
{
    return p <= 50 || p >= 100 || (double)n * (100 - p) >= 100;
}

static double mean_of(const struct bench_times *t)
{
    double sum = 0;

    for (size_t i = 0; i < t->count; i++)
        sum += t->run[i];
    return sum / (double)t->count;
}

/* One session alone: by its median, which other work on the machine disturbs
 * least.  Several: images of all over the time of all. */
static double images_per_second(const struct bench_times *t)
{
    const double batch = (double)t->batch;

    return t->streams == 1 && t->rate <= 0
               ? batch / percentile(t, 50)
               : batch * (double)t->count / t->elapsed;
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

/* ---- histogram ----------------------------------------------------- */

#define BINS 12

/* Equal steps from the least time to the 99th percentile; the last bin also
 * counts what is above. */
struct histogram {
    double from, step;
    size_t count[BINS];
};

static struct histogram histogram_of(const struct bench_times *t)
{
    struct histogram h = {.from = t->run[0]};

    h.step = fmax((percentile(t, 99) - h.from) / BINS, 1e-9);
    for (size_t i = 0; i < t->count; i++) {
        const double bin = (t->run[i] - h.from) / h.step;

        h.count[bin < BINS ? (int)bin : BINS - 1]++;
    }
    return h;
}

static void print_histogram(const struct bench_times *t)
{
    const struct histogram h = histogram_of(t);
    size_t most = 1;

    for (int i = 0; i < BINS; i++)
        most = h.count[i] > most ? h.count[i] : most;
    for (int i = 0; i < BINS; i++) {
        const int bar = (int)ceil(40.0 * (double)h.count[i] / (double)most);

        printf("%9.3f ms%s %8zu %.*s\n", 1e3 * (h.from + i * h.step),
               i == BINS - 1 ? "+" : " ", h.count[i], bar,
               "########################################");
    }
}

static void add_histogram(cJSON *json, const struct bench_times *t)
{
    const struct histogram h = histogram_of(t);
    cJSON *list = cJSON_AddArrayToObject(json, "histogram");

    for (int i = 0; i < BINS; i++) {
        cJSON *bin = cJSON_CreateObject();

        cJSON_AddNumberToObject(bin, "from_ms", 1e3 * (h.from + i * h.step));
        cJSON_AddNumberToObject(bin, "runs", (double)h.count[i]);
        json_append(list, bin);
    }
}

/* ---- text and JSON ------------------------------------------------- */

/* Where and how it ran, so that a copied line says what it is worth. */
static void print_place(const struct tool_run *run, int streams)
{
    const struct tool_request *r = run->request;
    const struct place p = place_of(&run->session->device);

    cli_print("%s: %s, ", r->model, p.name);
    if (streams > 1)
        cli_print("%d streams of ", streams);
    cli_print("%s, backend %s, %s, libinfer %s\n", p.how,
              device_backend_names[r->session.backend],
              device_precision_names[r->session.precision], infer_version());
}

static void print_text(const struct tool_run *run, const struct bench_times *t)
{
    const struct tool_request *r = run->request;
    const bool median = t->streams == 1 && t->rate <= 0;

    print_place(run, t->streams);
    printf("batch %lld, %zu runs: min %.3f ms, mean %.3f ms",
           (long long)t->batch, t->count, 1e3 * t->run[0], 1e3 * mean_of(t));
    for (int k = 0; k < r->n_percentile; k++)
        if (is_known(r->percentile[k], t->count))
            printf(", p%g %.3f ms", r->percentile[k],
                   1e3 * percentile(t, r->percentile[k]));
        else
            printf(", p%g -", r->percentile[k]);
    printf(", %.1f images/s%s\n", images_per_second(t),
           median ? " (median)" : "");
    if (t->rate > 0)
        printf("%g runs/s were to begin, %.1f/s were done; times are from the "
               "arrival to the result\n",
               t->rate, (double)t->count / t->elapsed);
    if (t->waiting > 0)
        printf("%zu arrivals were still waiting at the end: the rate is more "
               "than this can do\n",
               t->waiting);
    if (r->histogram)
        print_histogram(t);
}

static cJSON *bench_json(const struct tool_run *run,
                         const struct bench_times *t)
{
    const struct tool_request *r = run->request;
    const struct place p = place_of(&run->session->device);
    cJSON *json = cJSON_CreateObject(), *list;

    cJSON_AddStringToObject(json, "model", r->model);
    cJSON_AddStringToObject(json, "device", p.name);
    cJSON_AddStringToObject(json, "runtime", p.how);
    cJSON_AddStringToObject(json, "backend",
                            device_backend_names[r->session.backend]);
    cJSON_AddStringToObject(json, "precision",
                            device_precision_names[r->session.precision]);
    cJSON_AddStringToObject(json, "version", infer_version());
    cJSON_AddNumberToObject(json, "batch", (double)t->batch);
    cJSON_AddNumberToObject(json, "streams", t->streams);
    if (t->rate > 0) {
        cJSON_AddNumberToObject(json, "rate", t->rate);
        cJSON_AddNumberToObject(json, "waiting", (double)t->waiting);
    }
    cJSON_AddNumberToObject(json, "runs", (double)t->count);
    cJSON_AddNumberToObject(json, "seconds", t->elapsed);
    cJSON_AddNumberToObject(json, "min_ms", 1e3 * t->run[0]);
    cJSON_AddNumberToObject(json, "mean_ms", 1e3 * mean_of(t));
    cJSON_AddNumberToObject(json, "median_ms", 1e3 * percentile(t, 50));
    list = cJSON_AddObjectToObject(json, "percentile_ms");
    for (int k = 0; k < r->n_percentile; k++) {
        char name[32];

        snprintf(name, sizeof(name), "%g", r->percentile[k]);
        cJSON_AddNumberToObject(list, name,
                                1e3 * percentile(t, r->percentile[k]));
    }
    cJSON_AddNumberToObject(json, "images_per_second", images_per_second(t));
    if (r->histogram)
        add_histogram(json, t);
    cJSON_AddNumberToObject(json, "load_ms", 1e3 * run->load_seconds);
    cJSON_AddNumberToObject(json, "plan_ms", 1e3 * run->plan_seconds);
    cJSON_AddNumberToObject(json, "peak_bytes", (double)tool_peak_bytes());
    return json;
}

/* ---- an earlier run ------------------------------------------------ */

/* Largest document of --bench --json, with --profile of many layers. */
#define MAX_BYTES ((uint64_t)1 << 28)

/* Members whose difference makes two runs hard to compare. */
static const char *const conditions[] = {"model",   "device",    "runtime",
                                         "backend", "precision", "batch",
                                         "streams", "rate",      "version"};

/* Times that are compared, and the throughput. */
static const struct {
    const char *member, *name;
} figures[] = {{"min_ms", "min, ms"},
               {"median_ms", "median, ms"},
               {"mean_ms", "mean, ms"},
               {"images_per_second", "images/s"}};

static double number_of(const cJSON *json, const char *member)
{
    const cJSON *item = json_member(json, member);

    return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

static int read_bench(const char *path, struct infer_error *err, cJSON **out)
{
    int rc = file_read_json(path, MAX_BYTES, err, out);

    if (rc == INFER_OK && !(number_of(*out, "median_ms") > 0)) {
        cJSON_Delete(*out);
        *out = NULL;
        rc = error_set(err, INFER_EFORMAT,
                       "%s: not what infer --bench --json wrote", path);
    }
    return rc;
}

/* Times before over times now: above 1 is faster.  0: one is missing. */
static double ratio_of(const cJSON *then, const cJSON *now, const char *member)
{
    const double a = number_of(then, member), b = number_of(now, member);

    if (!(a > 0) || !(b > 0))
        return 0;
    return strcmp(member, "images_per_second") == 0 ? b / a : a / b;
}

static void note_conditions(const struct cli *cli, const cJSON *then,
                            const cJSON *now)
{
    for (size_t i = 0; i < sizeof(conditions) / sizeof(*conditions); i++) {
        const cJSON *a = json_member(then, conditions[i]);
        const cJSON *b = json_member(now, conditions[i]);
        char *before, *after;

        if ((a == NULL && b == NULL) || cJSON_Compare(a, b, true))
            continue;
        before = a ? cli_json_text(a, true) : strdup("none");
        after = b ? cli_json_text(b, true) : strdup("none");
        if (cli->verbosity >= 0 && before != NULL && after != NULL)
            cli_error(cli, "note: %s: %s before, %s now", conditions[i], before,
                      after);
        free(before);
        free(after);
    }
}

/* Prints `now` beside `then`, or adds the ratios to `now`. */
static int compare(const struct cli *cli, const struct tool_request *r,
                   const cJSON *then, cJSON *now, struct infer_error *err)
{
    const double median = ratio_of(then, now, "median_ms");
    cJSON *ratios = cli->json ? cJSON_CreateObject() : NULL;

    note_conditions(cli, then, now);
    if (!cli->json)
        cli_print("%-12s %10s %10s %8s   (%s)\n", "", "before", "now",
                  "speedup", r->compare_with);
    for (size_t i = 0; i < sizeof(figures) / sizeof(*figures); i++) {
        const char *member = figures[i].member;
        const double ratio = ratio_of(then, now, member);

        if (cli->json)
            cJSON_AddNumberToObject(ratios, member, ratio);
        else
            printf("%-12s %10.3f %10.3f %8.3f\n", figures[i].name,
                   number_of(then, member), number_of(now, member), ratio);
    }
    if (cli->json) {
        cJSON_AddStringToObject(now, "compared_with", r->compare_with);
        json_put(now, "speedup", ratios);
    }
    if (r->fail_below > 0 && !(median >= r->fail_below))
        return error_set(err, INFER_EMISMATCH,
                         "the median is %.3f times as fast as in %s: "
                         "--fail-below=%g",
                         median, r->compare_with, r->fail_below);
    return INFER_OK;
}

int bench_compare_files(struct cli *cli, const struct tool_request *r,
                        const char *path, struct infer_error *err)
{
    cJSON *then = NULL, *now = NULL;
    int rc = read_bench(r->compare_with, err, &then);

    if (rc == INFER_OK)
        rc = read_bench(path, err, &now);
    if (rc == INFER_OK)
        rc = compare(cli, r, then, now, err);
    if (now != NULL && cli->json)
        cli_print_json(now, false);
    else
        cJSON_Delete(now);
    cJSON_Delete(then);
    return rc;
}

int bench_report(struct tool_run *run, struct bench_times *t, double waited,
                 struct infer_error *err)
{
    cJSON *then = NULL, *now;
    int rc = INFER_OK;

    qsort(t->run, t->count, sizeof(*t->run), compare_doubles);
    now = bench_json(run, t);
    cJSON_AddNumberToObject(now, "waited", waited);
    if (!run->cli->json)
        print_text(run, t);
    if (run->request->compare_with != NULL)
        rc = read_bench(run->request->compare_with, err, &then);
    if (then != NULL)
        rc = compare(run->cli, run->request, then, now, err);
    cJSON_Delete(then);
    if (run->cli->json)
        run->result = now;
    else
        cJSON_Delete(now);
    return rc;
}
