/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checkkern [--row=GLOB] [--op=GLOB] [--seed=N] [--problem=K] [--count=N]
 *           [--max-mflop=N] [--isa=avx2|sse41] [--verbose] [--list]
 *
 * --isa narrows the rows of the CPU to vectors of that kind.
 * Exit: 0 all agree, 1 usage, 3 a row is wrong or nothing was checked,
 * 77 no row could be checked for lack of hardware.
 */
#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/onednn/onednn.h"
#include "tests/checkkern/checkkern.h"

#define EXIT_WRONG 3
#define EXIT_SKIP  77

struct options {
    const char *row, *op; /* globs */
    uint64_t seed;        /* 0: from the clock */
    long problem;         /* -1: all */
    long count;           /* random problems a row, behind the fixed list */
    double max_flops;
    bool verbose, list;
};

struct totals {
    int rows, checked, failed, skipped;
};

static const char usage[] =
    "usage: checkkern [--row=GLOB] [--op=GLOB] [--seed=N] [--problem=K]\n"
    "                 [--count=N] [--max-mflop=N] [--isa=avx2|sse41]\n"
    "                 [--verbose] [--list]\n";

/* ---- options ------------------------------------------------------- */

static const char *value_of(const char *arg, const char *name)
{
    const size_t n = strlen(name);

    return strncmp(arg, name, n) == 0 && arg[n] == '=' ? arg + n + 1 : NULL;
}

static bool parse_number(const char *text, uint64_t *out)
{
    char *end;

    errno = 0;
    *out = strtoull(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && text[0] != '-';
}

static bool parse(struct options *o, const char *arg)
{
    const char *v;
    uint64_t n;

    if (strcmp(arg, "--list") == 0)
        return o->list = true;
    if (strcmp(arg, "--verbose") == 0)
        return o->verbose = true;
    if ((v = value_of(arg, "--row")))
        return (o->row = v) != NULL;
    if ((v = value_of(arg, "--op")))
        return (o->op = v) != NULL;
    if ((v = value_of(arg, "--isa")))
        return kern_onednn_limit(v);
    if ((v = value_of(arg, "--seed")) && parse_number(v, &n)) {
        o->seed = n;
        return true;
    }
    if ((v = value_of(arg, "--problem")) && parse_number(v, &n) &&
        n < INT32_MAX) {
        o->problem = (long)n;
        return true;
    }
    if ((v = value_of(arg, "--count")) && parse_number(v, &n) &&
        n < INT32_MAX / 2) {
        o->count = (long)n;
        return true;
    }
    if ((v = value_of(arg, "--max-mflop")) && parse_number(v, &n)) {
        o->max_flops = (double)n * 1e6;
        return true;
    }
    return false;
}

/* ---- rows ---------------------------------------------------------- */

static bool selected(const struct options *o, const struct kern_row *row)
{
    return (!o->row || fnmatch(o->row, row->name, 0) == 0) &&
           (!o->op || fnmatch(o->op, kern_op_name(row->op), 0) == 0);
}

/* Needs a GPU. */
static bool is_gpu_row(const struct kern_row *row)
{
    return row->backend == INFER_BACKEND_CUDA ||
           row->backend == INFER_BACKEND_CUDNN;
}

static bool check_one(const struct options *o, struct check *c, int k,
                      int *checked)
{
    struct kern_problem p;
    char line[512];

    problem_make(c->row, c->seed, k, &p);
    /* A replay is not held to the limit on work. */
    if (o->problem < 0 && kern_problem_flops(&p) > o->max_flops)
        return true;
    c->problem = k;
    if (o->verbose)
        printf("  %d %s\n", k, kern_problem_format(&p, line, sizeof(line)));
    const enum verdict v = check_problem(c, &p);
    *checked += v == VERDICT_OK;
    return v != VERDICT_FAILED;
}

static void check_row(const struct options *o, const struct kern_row *row,
                      const struct device *gpu, struct totals *t)
{
    const struct kern_device cpu = {.kind = KERN_CPU, .threads = 2};
    struct check c = {.row = row,
                      .device = gpu ? &gpu->kern : &cpu,
                      .gpu = gpu,
                      .seed = o->seed,
                      .verbose = o->verbose};
    const int first = o->problem < 0 ? 0 : (int)o->problem;
    const int last = o->problem < 0
                         ? problem_fixed_count(row->op) + (int)o->count
                         : first + 1;
    int checked = 0, failed = 0;

    for (int k = first; k < last; k++)
        failed += !check_one(o, &c, k, &checked);
    printf("%s %s: %d of %d problems, %d on integers, worst %.2g of the "
           "tolerance\n",
           failed || !checked ? "not ok" : "ok", row->name, checked,
           last - first, c.exact, c.worst);
    if (checked == 0 && failed == 0 && o->problem < 0) {
        fprintf(stderr, "FAIL %s: not one problem was checked\n", row->name);
        failed = 1;
    }
    t->checked += checked;
    t->failed += failed;
    t->rows++;
}

static int run(const struct options *o)
{
    const char *require = getenv("INFER_REQUIRE_GPU");
    struct totals t = {0};
    struct infer_error why = {0};
    struct device gpu = {0};
    const bool have_gpu = device_open("cuda", 0, NULL, &why, &gpu) == 0;

    printf("seed %" PRIu64 "\n", o->seed);
    for (size_t i = 0; i < kern_row_count(); i++) {
        const struct kern_row *row = kern_row_at(i);
        if (!selected(o, row))
            continue;
        if (!is_gpu_row(row) || have_gpu) {
            check_row(o, row, is_gpu_row(row) ? &gpu : NULL, &t);
            continue;
        }
        printf("skip %s: %s\n", row->name, why.text);
        t.skipped++;
    }
    device_close(&gpu);
    printf("%d rows, %d problems checked, %d failed, %d rows skipped\n", t.rows,
           t.checked, t.failed, t.skipped);
    if (t.failed || (t.skipped && require && strcmp(require, "1") == 0))
        return EXIT_WRONG;
    if (t.checked > 0)
        return 0;
    if (t.skipped > 0)
        return EXIT_SKIP;
    fprintf(stderr, "FAIL: nothing was checked\n");
    return EXIT_WRONG;
}

static void list(const struct options *o)
{
    for (size_t i = 0; i < kern_row_count(); i++) {
        const struct kern_row *row = kern_row_at(i);
        if (selected(o, row))
            printf("%-40s %-22s %s\n", row->name, kern_op_name(row->op),
                   infer_dtype_name(row->dtype));
    }
}

int main(int argc, char **argv)
{
    struct options o = {
        .seed = 1, .problem = -1, .count = 40, .max_flops = 4e6};

    for (int i = 1; i < argc; i++)
        if (!parse(&o, argv[i])) {
            fprintf(stderr, "checkkern: unknown option '%s'\n%s", argv[i],
                    usage);
            return 1;
        }
    if (o.seed == 0)
        o.seed = (uint64_t)time(NULL);
    if (o.list) {
        list(&o);
        return 0;
    }
    return run(&o);
}
