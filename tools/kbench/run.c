/* SPDX-License-Identifier: Apache-2.0 */
/* One run from the problems to the reports. */
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backend.h"
#include "kernels/base/error.h"
#include "kernels/base/memory_size.h"
#include "tools/kbench/kbench.h"
#include "tools/load.h"
#include "tools/terminal.h"

/* Of a CPU, at most; also where the system does not say. */
#define LAST_LEVEL_CACHE ((size_t)32 << 20)

/* Of a GPU's memory, shared by all cases. */
#define POOL ((size_t)6 << 30)

struct run {
    const struct kb_request *request;
    struct device device, cpu; /* cpu: for its backends in addition to a GPU */
    struct kb_pool pool, no_pool;
    struct kb_cases cases;
    struct kb_verification *verification; /* one a case */
    struct kb_peaks peaks;
    struct kb_machine machine;
};

/* ---- devices ------------------------------------------------------- */

/* Limits the cache size: a virtual machine reports that of the whole socket. */
static size_t cpu_cache(void)
{
#ifdef _SC_LEVEL3_CACHE_SIZE
    const long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);

    if (bytes > 0 && (size_t)bytes < LAST_LEVEL_CACHE)
        return (size_t)bytes;
#endif
    return LAST_LEVEL_CACHE;
}

static enum kern_device_kind device_of(int backend)
{
    return kern_backend_of((enum infer_backend)backend)->device;
}

/* What the command line names; without a word all of the device but the
 * reference.  onednn includes the rows that compete with it. */
static void choose_backends(const struct kb_request *r,
                            enum kern_device_kind kind, struct kb_plan *plan)
{
    bool any = false;

    for (int i = 0; i < INFER_BACKEND_COUNT; i++)
        any = any || r->backend[i];
    for (int i = 0; i < INFER_BACKEND_COUNT; i++)
        plan->backend[i] = (any ? r->backend[i] : i != INFER_BACKEND_REF) &&
                           device_of(i) == kind;
    if (plan->backend[INFER_BACKEND_ONEDNN])
        plan->backend[INFER_BACKEND_CPU] = true;
}

static struct kb_plan make_plan(struct run *run, const struct device *d)
{
    const struct kb_request *r = run->request;
    const bool gpu = d->kern.kind == KERN_CUDA;
    struct kb_plan plan = {.device = d,
                           .pool = gpu ? &run->pool : &run->no_pool,
                           .kernels = r->kernels,
                           .cold = r->cold,
                           .cache_bytes = gpu ? d->kern.l2_bytes : cpu_cache(),
                           .rounds = r->rounds,
                           .every_kernel = r->every_kernel,
                           .variants = r->variants,
                           .time_limit = r->time_limit,
                           .prepare_limit = r->prepare_limit,
                           .seed = r->cli->seed};

    choose_backends(r, d->kern.kind, &plan);
    return plan;
}

/* Refuses a pattern that matches no row. */
static int check_kernels(const char *pattern, struct infer_error *err)
{
    for (size_t i = 0; pattern && i < kern_row_count(); i++)
        if (fnmatch(pattern, kern_row_at(i)->name, 0) == 0)
            return 0;
    return pattern ? error_set(err, INFER_EARGUMENT,
                               "--kernels: '%s' matches no kernel of this "
                               "build",
                               pattern)
                   : 0;
}

static int open_devices(struct run *run, struct infer_error *err)
{
    const struct kb_request *r = run->request;
    int rc = check_kernels(r->kernels, err);

    if (rc == 0)
        rc = device_open(r->device, r->threads, NULL, err, &run->device);
    if (rc < 0)
        return rc;
    if (run->device.kern.kind == KERN_CPU) {
        for (int i = 0; i < INFER_BACKEND_COUNT; i++)
            if (r->backend[i] && device_of(i) == KERN_CUDA)
                return error_set(err, INFER_EDEVICE,
                                 "backend %s: needs --device=cuda",
                                 device_backend_names[i]);
        for (int i = 0; i < r->n_precisions; i++)
            if (r->precision[i]->dtype != INFER_F32 &&
                !r->backend[INFER_BACKEND_REF])
                return error_set(err, INFER_EUNSUPPORTED,
                                 "precision %s: on a CPU only --backends=ref "
                                 "computes it",
                                 r->precision[i]->name);
        return 0;
    }
    void *memory;
    struct infer_error ignored;
    if (run->device.ops->alloc(&run->device, POOL, &ignored, &memory) == 0) {
        run->pool.memory = memory;
        run->pool.bytes = POOL;
    }
    for (int i = 0; i < INFER_BACKEND_COUNT; i++)
        if (r->backend[i] && device_of(i) == KERN_CPU)
            return device_open("cpu", r->threads, NULL, err, &run->cpu);
    return 0;
}

/* ---- measuring ----------------------------------------------------- */

/* The verification data of all cases first, on all cores: the device waits for
 * nothing afterwards. */
static int prove(struct run *run, struct infer_error *err)
{
    const int n = run->cases.count;
    int failed = 0;

    run->verification = calloc((size_t)n + 1, sizeof(*run->verification));
    if (!run->verification)
        return error_set(err, INFER_EMEMORY, "out of memory");
#pragma omp parallel for schedule(dynamic)
    for (int i = 0; i < n; i++) {
        struct infer_error why = {0};
        const int rc =
            kb_verification_new(&run->cases.item[i].p, run->request->cli->seed,
                                &run->verification[i], &why);
#pragma omp critical
        if (rc < 0 && failed == 0) {
            failed = rc;
            error_set(err, rc, "%s: %s", run->cases.item[i].text, why.text);
        }
    }
    return failed;
}

static int bench_case(struct run *run, int i, struct infer_error *err)
{
    const struct kb_request *r = run->request;
    struct kb_case *c = &run->cases.item[i];
    const struct device *each[] = {&run->device, &run->cpu};
    int rc = 0;

    for (int d = 0; rc == 0 && d < 2; d++) {
        if (!each[d]->ops)
            continue;
        struct kb_plan plan = make_plan(run, each[d]);
        if (c->flops > 1e6 * r->reference_limit)
            plan.backend[INFER_BACKEND_REF] = false;
        rc = kb_bench(&plan, &run->verification[i], c, err);
    }
    kb_peaks_apply(&run->peaks, r->cold, c);
    return rc;
}

/* True if a kernel does as many multiply-adds as the problem says: false for
 * Winograd and FFT, which oneDNN does not announce. */
static bool does_all(const struct kb_result *r)
{
    return r->state == KB_TIMED && !(r->flags & KERN_INEXACT) &&
           !strstr(r->row->name, "winograd") &&
           (r->side == KB_OURS || r->row->backend == INFER_BACKEND_CUDNN);
}

/* Raises the peak to that of a faster kernel of this kind. */
static void raise_peaks(struct run *run)
{
    for (int i = 0; i < run->cases.count; i++) {
        const struct kb_case *c = &run->cases.item[i];
        struct kb_peak *peak =
            &run->peaks.flops[kb_precision_index(c->precision)];
        for (int k = 0; k < c->n_results; k++) {
            const struct kb_result *r = &c->result[k];
            const double rate = kb_rate(c->flops, r->time.median);
            if (!does_all(r) || rate <= peak->value)
                continue;
            char name[100];
            peak->value = rate;
            snprintf(peak->how, sizeof(peak->how), "%s on %.50s",
                     kb_kernel_text(r, name, sizeof(name)), c->text);
        }
    }
    for (int i = 0; i < run->cases.count; i++)
        kb_peaks_apply(&run->peaks, run->request->cold, &run->cases.item[i]);
}

/* Drops the problems from number `from` on, which were not measured. */
static void forget(struct run *run, int from)
{
    for (int i = from; i < run->cases.count; i++) {
        free(run->cases.item[i].result);
        kb_verification_free(&run->verification[i]);
    }
    run->cases.count = from;
}

/* True if a report goes to standard output; nothing else is then printed. */
static bool is_quiet(const struct kb_request *r)
{
    const char *const path[] = {r->csv, r->json, r->html};
    bool quiet = r->cli->verbosity < 0;

    for (int i = 0; i < 3; i++)
        quiet = quiet || (path[i] && strcmp(path[i], "-") == 0);
    return quiet;
}

static int measure(struct run *run, struct infer_error *err)
{
    const struct kb_request *r = run->request;
    const struct kb_plan plan = make_plan(run, &run->device);
    const struct kb_report head = {
        r, &run->cases, &run->peaks, &run->machine, NULL, NULL};
    int rc = kb_peaks_measure(&plan, r->precision, r->n_precisions, &run->peaks,
                              err);

    if (rc == 0 && !is_quiet(r))
        kb_text_head(&head);
    if (rc == 0)
        rc = prove(run, err);
    const double start = cli_now(), waited = load_waited();
    for (int i = 0; rc == 0 && i < run->cases.count; i++) {
        cli_progress(r->cli, "problems", (uint64_t)i,
                     (uint64_t)run->cases.count);
        rc = bench_case(run, i, err);
        if (terminal_interrupt() || rc < 0)
            forget(run, i + 1);
    }
    cli_progress_end(r->cli);
    if (rc == 0 && run->device.kern.kind == KERN_CPU)
        run->machine.waited =
            load_note(r->cli, load_waited() - waited, cli_now() - start,
                      run->device.kern.threads);
    raise_peaks(run);
    return rc;
}

/* ---- reports ------------------------------------------------------- */

static int by_ratio(const void *a, const void *b)
{
    const double x = ((const struct kb_case *)a)->ratio;
    const double y = ((const struct kb_case *)b)->ratio;

    return (x > y) - (x < y);
}

static double slowest(const struct kb_case *c)
{
    return c->best[KB_OURS] >= 0 ? c->result[c->best[KB_OURS]].time.median : 0;
}

static int by_time(const void *a, const void *b)
{
    const double x = slowest(a), y = slowest(b);

    return (x < y) - (x > y);
}

/* Checks before the run, without changing them, that the output files can be
 * written. */
static int check_files(const struct kb_request *r, struct infer_error *err)
{
    const char *const path[] = {r->csv, r->json, r->html};
    struct infer_error one;
    int rc = 0;

    error_clear(err);
    for (int i = 0; i < 3; i++)
        if (cli_try_file(path[i], &one) < 0)
            rc = error_add(err, one.code, "%s", one.text);
    return rc;
}

/* Writes to standard output or atomically to a file. */
static int put_report(const char *path, const struct file_part *text,
                      struct infer_error *err)
{
    if (strcmp(path, "-") != 0)
        return cli_write_file(path, text, 1, err);
    if (fwrite(text->data, 1, text->bytes, stdout) == text->bytes &&
        fflush(stdout) == 0)
        return 0;
    return error_set(err, INFER_EIO, "standard output: %s", strerror(errno));
}

/* Adds faults to the report. */
static int write_file(const char *path, const struct kb_report *report,
                      void (*write)(const struct kb_report *, FILE *),
                      struct infer_error *err)
{
    struct infer_error one;
    char *text = NULL;
    size_t bytes = 0;
    int rc;

    if (!path)
        return 0;
    FILE *f = open_memstream(&text, &bytes);
    bool good = f != NULL;
    if (good) {
        write(report, f);
        good = ferror(f) == 0;
        good = fclose(f) == 0 && good;
    }
    rc = good ? put_report(path, &(struct file_part){text, bytes}, &one)
              : error_set(&one, INFER_EMEMORY, "%s: out of memory", path);
    free(text);
    return rc < 0 ? error_add(err, rc, "%s", one.text) : 0;
}

static void write_json(const struct kb_report *report, FILE *f)
{
    cJSON *json = kb_json(report);
    char *text = json ? cli_json_text(json, false) : NULL;

    cJSON_Delete(json);
    if (text)
        fprintf(f, "%s\n", text);
    free(text);
}

/* Writes all reports, even if one fails. */
static int write_reports(const struct run *run, const struct kb_report *report,
                         struct infer_error *err)
{
    const struct kb_request *r = run->request;

    if (!is_quiet(r)) {
        if (!r->all && run->cases.count > 1)
            printf("\n%6s %9s %5s %9s %5s  %s\n", "ratio", "ours", "floor",
                   "baseline", "floor", "problem, layers, fastest kernel");
        for (int i = 0; i < run->cases.count; i++)
            kb_text_case(report, &run->cases.item[i]);
        kb_text_summary(report);
        kb_text_change(report);
    }
    error_clear(err);
    const int csv = write_file(r->csv, report, kb_csv, err);
    const int json = write_file(r->json, report, write_json, err);
    const int html = write_file(r->html, report, kb_html, err);
    return csv < 0 ? csv : json < 0 ? json : html;
}

/* 3 if a kernel is wrong or a ratio too low. */
static enum cli_exit verdict(const struct run *run)
{
    const struct kb_request *r = run->request;
    enum cli_exit code = CLI_OK;

    for (int i = 0; i < run->cases.count; i++) {
        const struct kb_case *c = &run->cases.item[i];
        for (int k = 0; k < c->n_results; k++)
            if (c->result[k].state == KB_WRONG)
                code = CLI_MISMATCH;
        if (c->ratio > 0 && c->ratio < r->fail_below)
            code = CLI_MISMATCH;
    }
    return code;
}

/* Refuses a run that could not have failed. */
static int check_results(const struct run *run, struct infer_error *err)
{
    int results = 0, ratios = 0;

    for (int i = 0; i < run->cases.count; i++) {
        results += run->cases.item[i].n_results;
        ratios += run->cases.item[i].ratio > 0;
    }
    if (terminal_interrupt())
        return 0;
    if (results == 0)
        return error_set(err, INFER_EUNSUPPORTED,
                         "none of the kernels that were asked for takes any of "
                         "the problems%s",
                         run->request->backend[INFER_BACKEND_REF]
                             ? ""
                             : " (--backends=ref adds the reference)");
    if (run->request->fail_below > 0 && ratios == 0)
        return error_set(err, INFER_EMISMATCH,
                         "--fail-below: no problem has kernels of ours and of "
                         "a baseline");
    return 0;
}

static int report(struct run *run, struct infer_error *err)
{
    struct kb_summary summary;
    struct kb_change change = {0};

    if (run->request->sort != KB_SORT_NONE)
        qsort(run->cases.item, (size_t)run->cases.count,
              sizeof(*run->cases.item),
              run->request->sort == KB_SORT_TIME ? by_time : by_ratio);
    if (kb_summarise(&run->cases, &summary) < 0)
        return error_set(err, INFER_EMEMORY, "out of memory");
    int rc = run->request->before ? kb_change_of(&run->cases, &change) : 0;
    const struct kb_report report = {
        run->request,  &run->cases, &run->peaks,
        &run->machine, &summary,    run->request->before ? &change : NULL};
    if (rc == 0)
        rc = write_reports(run, &report, err);
    else
        error_set(err, rc, "out of memory");
    kb_change_free(&change);
    kb_summary_free(&summary);
    return rc;
}

static void close_run(struct run *run)
{
    for (int i = 0; run->verification && i < run->cases.count; i++)
        kb_verification_free(&run->verification[i]);
    free(run->verification);
    kb_cases_clear(&run->cases);
    if (run->pool.memory)
        run->device.ops->free(&run->device, run->pool.memory);
    device_close(&run->device);
    device_close(&run->cpu);
}

static int list_problems(const struct kb_request *r, struct infer_error *err)
{
    struct kb_cases cases = {0};
    const int rc = kb_collect(r, &cases, err);

    for (int i = 0; rc == 0 && i < cases.count; i++)
        cli_print("%s x%d\n", cases.item[i].text, cases.item[i].count);
    kb_cases_clear(&cases);
    return rc;
}

/* Refuses problems whose tensors do not fit into the memory of this machine:
 * before anything is measured, and with all their names. */
static int check_memory(const struct run *run, struct infer_error *err)
{
    const double most = (double)memory_size();
    int rc = 0;

    error_clear(err);
    if (run->device.kern.kind != KERN_CPU)
        return 0;
    for (int i = 0; i < run->cases.count; i++) {
        const struct kb_case *c = &run->cases.item[i];
        const double bytes = kern_problem_bytes(&c->p);
        char need[32], there[32];

        if (bytes > most)
            rc = error_add(err, INFER_EMEMORY,
                           "%s: %s of tensors, but this machine has %s of "
                           "memory",
                           c->text, cli_bytes(bytes, need, sizeof(need)),
                           cli_bytes(most, there, sizeof(there)));
    }
    return rc;
}

int kb_run(const struct kb_request *r, const char *command,
           struct infer_error *err, enum cli_exit *code)
{
    struct run run = {.request = r};
    struct infer_error later = {0};

    if (r->list)
        return list_problems(r, err);
    terminal_catch_interrupts();
    int rc = check_files(r, err);

    if (rc == 0)
        rc = open_devices(&run, err);

    if (rc == 0)
        rc = kb_collect(r, &run.cases, err);
    if (rc == 0)
        rc = check_memory(&run, err);
    if (rc == 0 && r->before)
        rc = kb_compare(r->before, r->cold, &run.cases, err);
    if (rc == 0) {
        kb_machine_describe(&run.device, command, &run.machine);
        rc = measure(&run, err);
        /* Reports what was measured before the device failed. */
        const int written = rc == 0 || rc == INFER_EDEVICE
                                ? report(&run, rc == 0 ? err : &later)
                                : 0;
        if (rc == 0)
            rc = written;
    }
    if (rc == 0)
        rc = check_results(&run, err);
    *code = verdict(&run);
    if (*code == CLI_OK && terminal_interrupt())
        *code = (enum cli_exit)terminal_interrupt_code();
    close_run(&run);
    return rc;
}
