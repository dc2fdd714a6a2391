/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checkkern [--row=GLOB,..] [--op=GLOB] [--dtype=TYPE] [--seed=N]
 *           [--problem=K[.DRAW]] [--count=N] [--max-mflop=N]
 *           [--time-limit=SECONDS] [--shard=I/N] [--threads=N]
 *           [--backend=NAME] [--isa=avx512|avx2|sse41] [--random-only]
 *           [--separate] [--multiplier=NAME] [--verbose] [--list]
 *
 * A row is checked on the fixed list of its operation, then on --count random
 * problems in each type that it takes (40; 20 in each where a row takes any,
 * which is each kind of function once): problems that it supports, drawn until
 * there are so many or its share of --time-limit is used up; a row that is
 * short of them is not good.  --shard takes every Nth problem of each row,
 * listed and random, so that processes share the work evenly; sharded.py runs
 * them and sums what they print.  --threads shares it further: on a GPU
 * threads do not wait for each other as processes do.  --separate gives every
 * buffer on a GPU an allocation of its own, for compute-sanitizer.
 * --isa narrows the rows of the CPU to vectors of that kind.  --multiplier
 * checks the rows that take tables of products with that of one multiplier.
 * Exit: 0 all agree, 1 usage, 3 a row is wrong, short or was not checked,
 * 77 no row could be checked for lack of hardware.
 */
#include "config.h"

#ifdef HAVE_ONEDNN
#include <dnnl.h>
#endif
#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/backend.h"
#include "kernels/test_hooks.h"
#include "tests/checkkern/checkkern.h"

#define EXIT_WRONG 3
#define EXIT_SKIP  77

struct options {
    const char *row, *op;   /* globs; of rows several */
    const char *backend;    /* NULL: all */
    uint64_t seed;          /* 0: from the clock */
    long problem, draw;     /* -1: all */
    long count;             /* random problems a row and type; 0: default */
    enum infer_dtype dtype; /* of rows that take any; INFER_NONE: all */
    double max_flops;
    double time_limit; /* seconds, all rows together */
    int shard, shards, threads;
    bool random_only, verbose, list;
};

struct totals {
    int rows, checked, failed, skipped, short_rows;
};

/* Random problems of a row and type, those of a row that takes any type, and
 * the most operations of a problem.  Code under a sanitizer takes several times
 * as long; what it reads and writes depends on shapes, not on sizes. */
#ifdef __SANITIZE_ADDRESS__
#define COUNT_DEFAULT  4
#define COUNT_ANY_TYPE 2
#define MAX_FLOPS      2e6
#else
#define COUNT_DEFAULT  40
#define COUNT_ANY_TYPE 20
#define MAX_FLOPS      4e6
#endif

static const char usage[] =
    "usage: checkkern [--row=GLOB,..] [--op=GLOB] [--dtype=TYPE] [--seed=N]\n"
    "                 [--problem=K[.DRAW]] [--count=N] [--max-mflop=N]\n"
    "                 [--time-limit=SECONDS] [--shard=I/N] [--threads=N]\n"
    "                 [--backend=NAME] [--isa=avx512|avx2|sse41] "
    "[--random-only]\n"
    "                 [--separate] [--multiplier=NAME] [--verbose] "
    "[--list]\n";

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

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

/* "7" or "7.3" */
static bool parse_problem(struct options *o, const char *text)
{
    char word[32];
    const size_t n = strcspn(text, ".");
    uint64_t number, draw = 0;

    if (n >= sizeof(word))
        return false;
    memcpy(word, text, n);
    word[n] = '\0';
    if (!parse_number(word, &number) || number >= INT32_MAX ||
        (text[n] == '.' && !parse_number(text + n + 1, &draw)) ||
        draw >= INT32_MAX)
        return false;
    o->problem = (long)number;
    o->draw = (long)draw;
    return true;
}

/* "0/4" */
static bool parse_shard(struct options *o, const char *text)
{
    char end;

    return sscanf(text, "%d/%d%c", &o->shard, &o->shards, &end) == 2 &&
           o->shard >= 0 && o->shard < o->shards;
}

static bool parse_dtype(struct options *o, const char *text)
{
    for (int t = INFER_F64; t < INFER_DTYPE_COUNT; t++)
        if (strcmp(text, infer_dtype_name((enum infer_dtype)t)) == 0) {
            o->dtype = (enum infer_dtype)t;
            return true;
        }
    return false;
}

/* The rows behave as on a machine with vectors of this kind at most. */
static bool limit_isa(const char *isa)
{
    if (strcmp(isa, "avx512") == 0)
        kern_test_hooks.isa = TEST_ISA_AVX512;
    else if (strcmp(isa, "avx2") == 0)
        kern_test_hooks.isa = TEST_ISA_AVX2;
    else if (strcmp(isa, "sse41") == 0)
        kern_test_hooks.isa = TEST_ISA_SSE41;
    else
        return false;
#ifdef HAVE_ONEDNN
    return dnnl_set_max_cpu_isa(kern_test_hooks.isa == TEST_ISA_AVX512
                                    ? dnnl_cpu_isa_avx512_core
                                : kern_test_hooks.isa == TEST_ISA_AVX2
                                    ? dnnl_cpu_isa_avx2
                                    : dnnl_cpu_isa_sse41) == dnnl_success;
#else
    return true;
#endif
}

static bool parse(struct options *o, const char *arg)
{
    const char *v;
    uint64_t n;

    if (strcmp(arg, "--list") == 0)
        return o->list = true;
    if (strcmp(arg, "--separate") == 0) {
        guarded_separate();
        return true;
    }
    if (strcmp(arg, "--verbose") == 0)
        return o->verbose = true;
    if (strcmp(arg, "--random-only") == 0)
        return o->random_only = true;
    if ((v = value_of(arg, "--row")))
        return (o->row = v) != NULL;
    if ((v = value_of(arg, "--op")))
        return (o->op = v) != NULL;
    if ((v = value_of(arg, "--backend")))
        return (o->backend = v) != NULL;
    if ((v = value_of(arg, "--isa")))
        return limit_isa(v);
    if ((v = value_of(arg, "--multiplier"))) {
        struct infer_error err = {0};
        if (!multiplier_use(v, &err))
            fprintf(stderr, "checkkern: %s\n", err.text);
        return multiplier_in_use();
    }
    if ((v = value_of(arg, "--seed")) && parse_number(v, &n)) {
        o->seed = n;
        return true;
    }
    if ((v = value_of(arg, "--problem")))
        return parse_problem(o, v);
    if ((v = value_of(arg, "--shard")))
        return parse_shard(o, v);
    if ((v = value_of(arg, "--dtype")))
        return parse_dtype(o, v);
    if ((v = value_of(arg, "--threads")) && parse_number(v, &n) && n > 0 &&
        n <= 256) {
        o->threads = (int)n;
        return true;
    }
    if ((v = value_of(arg, "--time-limit")) && parse_number(v, &n) && n > 0) {
        o->time_limit = (double)n;
        return true;
    }
    if ((v = value_of(arg, "--count")) && parse_number(v, &n) && n > 0 &&
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

/* Whether one of several patterns, with commas between them, matches. */
static bool matches(const char *patterns, const char *name)
{
    char one[128];

    for (const char *at = patterns; *at;) {
        const size_t n = strcspn(at, ",");
        snprintf(one, sizeof(one), "%.*s", (int)n, at);
        if (fnmatch(one, name, 0) == 0)
            return true;
        at += n + (at[n] == ',');
    }
    return false;
}

static bool selected(const struct options *o, const struct kern_row *row)
{
    return (!o->row || matches(o->row, row->name)) &&
           (!o->backend ||
            strcmp(o->backend, device_backend_names[row->backend]) == 0) &&
           (!o->op || fnmatch(o->op, kern_op_name(row->op), 0) == 0);
}

/* Needs a GPU. */
static bool is_gpu_row(const struct kern_row *row)
{
    return row->backend == INFER_BACKEND_CUDA ||
           row->backend == INFER_BACKEND_CUDNN;
}

/* ---- one problem --------------------------------------------------- */

/* After so many numbers without a problem that the row takes, there is none to
 * be found; after so many failures it is wrong enough. */
#define MISSES   40
#define FAILURES 10

static enum verdict check_one(const struct options *o, struct check *c,
                              bool drawn)
{
    struct kern_problem p;
    char line[512];

    problem_make(c->row, &c->id, &p);
    if (kern_problem_flops(&p) > o->max_flops ||
        (drawn && !problem_is_small(&c->id, &p)) ||
        (multiplier_in_use() && !multiplier_give(c->row, &p)))
        return VERDICT_REFUSED;
    if (o->verbose)
        printf("  %d.%d %s\n", c->id.number, c->id.draw,
               kern_problem_format(&p, line, sizeof(line)));
    return check_problem(c, &p);
}

/* Draws until the row takes one; every refusal on the way is looked at. */
static enum verdict check_drawn(const struct options *o, struct check *c)
{
    enum verdict v = VERDICT_REFUSED;

    for (int draw = 0; draw < PROBLEM_DRAWS && v == VERDICT_REFUSED; draw++) {
        c->id.draw = draw;
        v = check_one(o, c, true);
    }
    return v;
}

/* ---- one row ------------------------------------------------------- */

struct tally {
    int checked, failed, asked;
};

/* A row of this run and what its threads have found so far.  Its place among
 * the rows moves the shards on, so that none gets the same problems of all. */
struct job {
    const struct kern_row *row;
    int place;
    int done; /* threads */
    struct tally listed, random[INFER_DTYPE_COUNT];
    int exact, infinite, single;
    double worst;
};

/* A thread: a shard of the shard. */
struct worker {
    struct options o;
    struct run *run;
    struct device gpu;
    bool broken; /* nothing runs on the GPU any more */
};

struct run {
    const struct options *o;
    struct job *job;
    int n;
    double end;
    struct totals t;
    pthread_mutex_t lock; /* of jobs' findings, totals and the output */
};

static void count(struct tally *t, enum verdict v)
{
    t->checked += v == VERDICT_OK;
    t->failed += v == VERDICT_FAILED;
}

static void add(struct tally *sum, const struct tally *t)
{
    sum->checked += t->checked;
    sum->failed += t->failed;
    sum->asked += t->asked;
}

/* Each round of problems begins with another shard: what repeats every few
 * numbers, such as the kind of a function, does not fall to one shard alone. */
static bool is_ours(const struct options *o, const struct job *j, int problem)
{
    return (problem + problem / o->shards + j->place) % o->shards == o->shard;
}

static struct tally check_listed(const struct options *o, const struct job *j,
                                 struct check *c)
{
    struct tally t = {0};

    c->id.draw = 0;
    c->id.dtype = INFER_NONE;
    for (int k = 0; k < problem_fixed_count(c->row->op); k++) {
        if (o->random_only || !is_ours(o, j, k))
            continue;
        c->id.number = k;
        count(&t, check_one(o, c, false));
    }
    return t;
}

static long count_of(const struct options *o, const struct kern_row *row)
{
    if (o->count > 0)
        return o->count;
    return row->dtype != INFER_NONE ? COUNT_DEFAULT : COUNT_ANY_TYPE;
}

/* Our share of --count problems. */
static struct tally check_random(const struct options *o, const struct job *j,
                                 struct check *c, double deadline)
{
    const int first = problem_fixed_count(c->row->op);
    const long n = count_of(o, c->row);
    struct tally t = {0};
    int misses = 0;

    for (int k = 0; k < n; k++)
        t.asked += is_ours(o, j, k);
    for (int k = 0; t.checked + t.failed < t.asked && misses < MISSES &&
                    t.failed < FAILURES && now() <= deadline;
         k++) {
        if (!is_ours(o, j, k))
            continue;
        c->id.number = first + k;
        const enum verdict v = check_drawn(o, c);
        misses = v == VERDICT_REFUSED ? misses + 1 : 0;
        count(&t, v);
    }
    return t;
}

/* The types that a row is checked in: its own, or one after the other. */
static int types_of(const struct options *o, const struct kern_row *row,
                    enum infer_dtype type[INFER_DTYPE_COUNT])
{
    int n = 0;

    if (row->dtype != INFER_NONE) {
        type[0] = row->dtype;
        return 1;
    }
    for (int t = INFER_F64; t < INFER_DTYPE_COUNT; t++)
        if (o->dtype == INFER_NONE || o->dtype == (enum infer_dtype)t)
            type[n++] = (enum infer_dtype)t;
    return n;
}

/* Our share of a row; what is found goes to *out. */
static void check_share(struct worker *w, struct job *j, struct check *c,
                        double deadline, struct job *out)
{
    enum infer_dtype type[INFER_DTYPE_COUNT];
    const int types = types_of(&w->o, j->row, type);

    if (!w->broken)
        out->listed = check_listed(&w->o, j, c);
    for (int i = 0; i < types; i++) {
        const double left = deadline - now();
        c->id.dtype = j->row->dtype != INFER_NONE ? INFER_NONE : type[i];
        out->random[type[i]] = check_random(
            &w->o, j, c, w->broken ? -1 : now() + left / (types - i));
    }
    out->exact = c->exact;
    out->infinite = c->infinite;
    out->single = c->single;
    out->worst = c->worst;
}

/* ---- what was found ------------------------------------------------ */

/* Random problems by type, "F32 40, F16 39 of 40"; a row of any type need not
 * take all of them. */
static struct tally print_types(const struct job *j, char *text, size_t bytes)
{
    struct tally sum = {0};
    size_t used = 0;

    for (int i = 0; i < INFER_DTYPE_COUNT; i++) {
        const struct tally *t = &j->random[i];
        const bool taken =
            t->checked + t->failed > 0 || j->row->dtype == (enum infer_dtype)i;
        if (t->asked == 0 || !taken)
            continue;
        add(&sum, t);
        used += (size_t)snprintf(
            text + used, bytes - used, "%s %s %d", used ? "," : "",
            infer_dtype_name((enum infer_dtype)i), t->checked);
        if (t->checked < t->asked)
            used +=
                (size_t)snprintf(text + used, bytes - used, " of %d", t->asked);
    }
    return sum;
}

static void print_row(const struct options *o, const struct job *j,
                      struct totals *all)
{
    char text[512] = "";
    const struct tally random = print_types(j, text, sizeof(text));
    const int failed = j->listed.failed + random.failed;
    const int checked = j->listed.checked + random.checked;
    /* A shard may have none of a row's problems. */
    const bool is_short = random.checked + random.failed < random.asked ||
                          (checked + failed == 0 && o->shards == 1);

    const char *verdict = failed ? "not ok" : is_short ? "short" : "ok";
    char passes[128];
    if (multiplier_in_use())
        snprintf(passes, sizeof(passes), "%d passes on single terms",
                 j->single);
    else
        snprintf(passes, sizeof(passes), "%d on integers, %d with infinities",
                 j->exact, j->infinite);
    if (checked + failed > 0 || is_short)
        printf("%s %s: %d listed, at random%s; %s, worst %.2g of the "
               "tolerance\n",
               verdict, j->row->name, j->listed.checked,
               text[0] ? text : " none", passes, j->worst);
    fflush(stdout);
    all->checked += checked;
    all->failed += failed;
    all->short_rows += is_short;
    all->rows++;
}

/* Adds a thread's findings; the last one prints them all. */
static void add_findings(struct run *r, struct job *j, const struct job *mine)
{
    pthread_mutex_lock(&r->lock);
    add(&j->listed, &mine->listed);
    for (int i = 0; i < INFER_DTYPE_COUNT; i++)
        add(&j->random[i], &mine->random[i]);
    j->exact += mine->exact;
    j->infinite += mine->infinite;
    j->single += mine->single;
    j->worst = fmax(j->worst, mine->worst);
    if (++j->done == r->o->threads)
        print_row(r->o, j, &r->t);
    pthread_mutex_unlock(&r->lock);
}

/* One problem again, whatever its work. */
static void replay(const struct options *o, struct check *c, struct totals *all)
{
    struct tally t = {0};

    c->id.number = (int)o->problem;
    c->id.draw = (int)o->draw;
    c->id.dtype = o->dtype;
    count(&t, check_one(o, c, INFINITY));
    printf("%s %s: worst %.2g of the tolerance\n",
           t.failed    ? "not ok"
           : t.checked ? "ok"
                       : "refused",
           c->row->name, c->worst);
    all->checked += t.checked;
    all->failed += t.failed;
    all->rows++;
}

/* ---- all rows ------------------------------------------------------ */

/* The rows of this run. */
static int select_rows(const struct options *o, bool have_gpu, const char *why,
                       struct job *out, struct totals *t)
{
    int n = 0;

    for (size_t i = 0; i < kern_row_count(); i++) {
        const struct kern_row *row = kern_row_at(i);
        if (!selected(o, row))
            continue;
        if (is_gpu_row(row) && !have_gpu) {
            printf("skip %s: %s\n", row->name, why);
            t->skipped++;
        } else {
            out[n] = (struct job){.row = row, .place = n};
            n++;
        }
    }
    return n;
}

/* Some faults of a kernel leave a device on which nothing runs any more. */
static bool is_usable(const struct device *d, struct infer_error *err)
{
    const bool ok = d->ops->begin(d, err) == 0 && d->ops->end(d, err) == 0;

    if (!ok && d->ops->give_up)
        d->ops->give_up(d, err);
    return ok;
}

static void check_row(struct worker *w, struct job *j, double deadline)
{
    const struct kern_device cpu = {.kind = KERN_CPU, .threads = 2};
    const bool on_gpu = is_gpu_row(j->row);
    struct check c = {.row = j->row,
                      .device = on_gpu ? &w->gpu.kern : &cpu,
                      .gpu = on_gpu ? &w->gpu : NULL,
                      .id = {.seed = w->o.seed},
                      .verbose = w->o.verbose};
    struct job mine = {0};
    struct infer_error err = {0};
    int failed;

    if (w->o.problem >= 0) {
        replay(&w->o, &c, &w->run->t);
        return;
    }
    check_share(w, j, &c, deadline, &mine);
    failed = mine.listed.failed;
    for (int i = 0; i < INFER_DTYPE_COUNT; i++)
        failed += mine.random[i].failed;
    if (on_gpu && failed && !w->broken && !is_usable(&w->gpu, &err)) {
        fprintf(stderr, "FAIL: the GPU is of no use after %s: %s\n",
                j->row->name, err.text);
        w->broken = true;
    }
    add_findings(w->run, j, &mine);
}

static void *work(void *argument)
{
    struct worker *w = argument;
    struct run *r = w->run;

    for (int i = 0; i < r->n; i++)
        check_row(w, &r->job[i], now() + (r->end - now()) / (r->n - i));
    guarded_pool_close();
    return NULL;
}

/* Each thread has a stream of its own.  One that cannot be started does its
 * share here. */
static void run_threads(struct run *r, struct worker *w, int n, bool have_gpu)
{
    pthread_t *thread = calloc((size_t)n, sizeof(*thread));
    bool *started = calloc((size_t)n, sizeof(*started));
    struct infer_error err = {0};

    for (int i = 0; i < n; i++) {
        w[i].o = *r->o;
        w[i].o.shard = r->o->shard * n + i;
        w[i].o.shards = r->o->shards * n;
        w[i].run = r;
        if (have_gpu && device_open("cuda", 0, NULL, &err, &w[i].gpu) < 0) {
            fprintf(stderr, "FAIL: %s\n", err.text);
            w[i].broken = true;
        }
    }
    for (int i = 1; i < n && thread && started; i++)
        started[i] = pthread_create(&thread[i], NULL, work, &w[i]) == 0;
    for (int i = 0; i < n; i++)
        if (started && started[i])
            pthread_join(thread[i], NULL);
        else
            work(&w[i]);
    for (int i = 0; i < n; i++)
        device_close(&w[i].gpu);
    free(thread);
    free(started);
}

static int verdict_of(const struct totals *t)
{
    const char *require = getenv("INFER_REQUIRE_GPU");

    if (t->failed || t->short_rows ||
        (t->skipped && require && strcmp(require, "1") == 0))
        return EXIT_WRONG;
    if (t->checked > 0)
        return 0;
    if (t->skipped > 0)
        return EXIT_SKIP;
    fprintf(stderr, "FAIL: nothing was checked\n");
    return EXIT_WRONG;
}

static bool find_gpu(struct infer_error *why)
{
    struct device d = {0};
    const bool found = device_open("cuda", 0, NULL, why, &d) == 0;

    device_close(&d);
    return found;
}

static int run(const struct options *o)
{
    struct run r = {.o = o, .lock = PTHREAD_MUTEX_INITIALIZER};
    struct worker *w = calloc((size_t)o->threads, sizeof(*w));
    struct infer_error why = {0};
    const bool have_gpu = find_gpu(&why);

    r.job = calloc(kern_row_count() + 1, sizeof(*r.job));
    printf("seed %" PRIu64 "\n", o->seed);
    if (r.job && w) {
        r.n = select_rows(o, have_gpu, why.text, r.job, &r.t);
        r.end = now() + o->time_limit;
        run_threads(&r, w, o->threads, have_gpu);
    }
    free(r.job);
    free(w);
    printf("%d rows, %d problems checked, %d failed, %d rows skipped, %d rows "
           "short of random problems\n",
           r.t.rows, r.t.checked, r.t.failed, r.t.skipped, r.t.short_rows);
    return verdict_of(&r.t);
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
    struct options o = {.seed = 1,
                        .problem = -1,
                        .max_flops = MAX_FLOPS,
                        .time_limit = 1e9,
                        .shards = 1,
                        .threads = 1};

    kern_baseline_add();
    for (int i = 1; i < argc; i++)
        if (!parse(&o, argv[i])) {
            fprintf(stderr, "checkkern: unknown option '%s'\n%s", argv[i],
                    usage);
            return 1;
        }
    if (o.seed == 0)
        o.seed = (uint64_t)time(NULL);
    if (o.problem >= 0)
        o.threads = 1;
    if (o.list) {
        list(&o);
        return 0;
    }
    const int code = run(&o);
    multiplier_done();
    return code;
}
