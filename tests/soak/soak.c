/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many at once, and for long:
 *
 *     soak MODEL THREADS RUNS CYCLES OPENS [BACKEND [DEVICE]]
 *
 * THREADS threads share one open model, each with a session of its own, and run
 * it RUNS times with batches of 1 to 3; then one thread creates and closes a
 * session CYCLES times, and opens and closes the model OPENS times.  Each
 * result must be the bits of the thread's first one with that batch.  Memory
 * of the process (VmRSS) and open files may not grow behind the first tenth of
 * each part.  BACKEND is auto (default) or ref, DEVICE cpu (default), cuda or
 * cuda:N.  Exit 1 if something differs, fails or grows.
 */
#include <dirent.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "include/infer.h"

#ifndef __has_feature /* gcc defines macros instead */
#define __has_feature(name) 0
#endif
/* Under a sanitizer memory grows by what it remembers. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) ||           \
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||     \
    __has_feature(memory_sanitizer)
#define GROWTH_KIB (1 << 30)
#else
#define GROWTH_KIB 1024
#endif

#define BATCHES     3
#define MAX_THREADS 256
#define FREE_EXTENT 32 /* of a free size that is not the batch */

/* Run times: bucket i counts those below 2^(i/4) us. */
#define BUCKETS 160

struct worker {
    pthread_t thread;
    struct infer_model *model;
    const struct infer_session_options *options;
    long runs;
    int number;
    bool failed;
    long bucket[BUCKETS];
};

static pthread_barrier_t barrier;

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static long resident_kib(void)
{
    FILE *f = fopen("/proc/self/status", "r");
    char line[128];
    long kib = -1;

    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "VmRSS: %ld", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib;
}

static int open_files(void)
{
    DIR *list = opendir("/proc/self/fd");
    int n = 0;

    while (list && readdir(list))
        n++;
    if (list)
        closedir(list);
    return n;
}

static bool fails(const char *what, const struct infer_error *err)
{
    fprintf(stderr, "soak: %s: %s\n", what, err->text);
    return false;
}

/* A dense array of this type and shape, free sizes set; false: no memory. */
static bool make_array(const struct infer_tensor_info *t, int batch,
                       struct infer_array *a)
{
    memset(a, 0, sizeof *a);
    a->dtype = t->dtype;
    a->rank = t->rank < 0 ? 0 : t->rank;
    a->bytes = infer_dtype_size(t->dtype);
    for (int i = 0; i < a->rank; i++) {
        a->dim[i] = t->dim[i] >= 0 ? t->dim[i] : i ? FREE_EXTENT : batch;
        a->bytes *= (size_t)a->dim[i];
    }
    a->data = calloc(1, a->bytes + 1);
    for (size_t i = 0; a->data && t->dtype == INFER_F32 && i < a->bytes / 4;
         i++)
        ((float *)a->data)[i] = (float)(i * 7 % 19) / 8 - 1;
    return a->data != NULL;
}

/* Inputs and outputs for one batch, and the first result. */
struct arrays {
    struct infer_array in[8], out[8];
    void *first[8];
    int inputs, outputs;
};

static void arrays_clear(struct arrays *a)
{
    for (int i = 0; i < 8; i++) {
        free(a->in[i].data);
        free(a->out[i].data);
        free(a->first[i]);
    }
    memset(a, 0, sizeof *a);
}

static bool arrays_make(struct worker *w, struct infer_session *s, int batch,
                        struct arrays *a)
{
    struct infer_tensor_info t;
    struct infer_error err = {0};

    memset(a, 0, sizeof *a);
    a->inputs = infer_model_input_count(w->model);
    a->outputs = infer_model_output_count(w->model);
    if (a->inputs > 8 || a->outputs > 8)
        return false;
    for (int i = 0; i < a->inputs; i++)
        if (infer_model_input(w->model, i, &t) < 0 ||
            !make_array(&t, batch, &a->in[i]))
            return false;
    if (infer_session_prepare(s, a->in, a->inputs, &err) < 0)
        return fails("prepare", &err);
    for (int i = 0; i < a->outputs; i++)
        if (infer_session_output(s, i, &t) < 0 ||
            !make_array(&t, batch, &a->out[i]))
            return false;
    return true;
}

static int bucket_of(double seconds)
{
    double limit = 1e-6;
    int i = 0;

    while (seconds >= limit && i < BUCKETS - 1) {
        limit *= 1.189207115002721; /* 2^(1/4) */
        i++;
    }
    return i;
}

/* One run; its bits are those of the first. */
static bool run_once(struct worker *w, struct infer_session *s,
                     struct arrays *a)
{
    struct infer_error err = {0};
    const double begin = now();

    if (infer_session_run(s, a->in, a->inputs, a->out, a->outputs, &err) < 0)
        return fails("run", &err);
    w->bucket[bucket_of(now() - begin)]++;
    for (int i = 0; i < a->outputs; i++) {
        if (!a->first[i]) {
            a->first[i] = malloc(a->out[i].bytes + 1);
            if (!a->first[i])
                return false;
            memcpy(a->first[i], a->out[i].data, a->out[i].bytes);
        }
        if (memcmp(a->first[i], a->out[i].data, a->out[i].bytes) != 0) {
            fprintf(stderr, "soak: thread %d: a run gives other bits\n",
                    w->number);
            return false;
        }
    }
    return true;
}

/* Waits twice behind the first tenth and at the end, so that main() can look at
 * memory. */
static void *work(void *user)
{
    struct worker *w = user;
    struct infer_session *s = NULL;
    struct arrays a[BATCHES] = {0};
    struct infer_error err = {0};
    bool ok = infer_session_create(w->model, w->options, &err, &s) == 0 ||
              fails("create", &err);

    for (int b = 0; ok && b < BATCHES; b++)
        ok = arrays_make(w, s, b + 1, &a[b]);
    for (long i = 0; i < w->runs; i++) {
        if (i == w->runs / 10) {
            pthread_barrier_wait(&barrier);
            pthread_barrier_wait(&barrier);
        }
        ok = ok && run_once(w, s, &a[(i + w->number) % BATCHES]);
    }
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    for (int b = 0; b < BATCHES; b++)
        arrays_clear(&a[b]);
    infer_session_close(&s);
    w->failed = !ok;
    return NULL;
}

/* The memory of a part: after its first tenth and at its end. */
static bool is_flat(const char *part, long before, int files, long n)
{
    const long after = resident_kib();
    const bool flat =
        after - before <= GROWTH_KIB && open_files() == files && before > 0;

    printf("%s: %ld, VmRSS %ld -> %ld KiB, %d -> %d files%s\n", part, n, before,
           after, files, open_files(), flat ? "" : ": GROWS");
    return flat;
}

static void print_times(const struct worker *w, int threads)
{
    static const double share[] = {0.5, 0.99, 0.999};
    long count[BUCKETS] = {0}, all = 0, below = 0;
    double limit = 1e-6;
    size_t next = 0;

    for (int t = 0; t < threads; t++)
        for (int i = 0; i < BUCKETS; i++) {
            count[i] += w[t].bucket[i];
            all += w[t].bucket[i];
        }
    printf("times of runs, below:");
    for (int i = 0; i < BUCKETS && next < 3; i++) {
        below += count[i];
        while (next < 3 && (double)below >= share[next] * (double)all)
            printf(" p%g %.3g ms", 100 * share[next++], 1e3 * limit);
        limit *= 1.189207115002721;
    }
    printf("\n");
}

static bool run_threads(struct infer_model *model,
                        const struct infer_session_options *o, int threads,
                        long runs)
{
    static struct worker w[MAX_THREADS];
    bool ok = true;
    long before;
    int files;

    if (threads < 1 || threads > MAX_THREADS ||
        pthread_barrier_init(&barrier, NULL, (unsigned)threads + 1) != 0)
        return false;
    for (int i = 0; i < threads; i++) {
        w[i] = (struct worker){
            .model = model, .options = o, .runs = runs, .number = i};
        if (pthread_create(&w[i].thread, NULL, work, &w[i]) != 0)
            exit(1);
    }
    pthread_barrier_wait(&barrier);
    before = resident_kib();
    files = open_files();
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    ok = is_flat("runs a thread", before, files, runs);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < threads; i++) {
        pthread_join(w[i].thread, NULL);
        ok = ok && !w[i].failed;
    }
    print_times(w, threads);
    return ok;
}

static bool cycle(struct infer_model *model,
                  const struct infer_session_options *o, long n)
{
    struct infer_error err = {0};
    long before = 0;
    int files = 0;

    for (long i = 0; i < n; i++) {
        struct infer_session *s = NULL;

        if (i == n / 10) {
            before = resident_kib();
            files = open_files();
        }
        if (infer_session_create(model, o, &err, &s) < 0)
            return fails("create", &err);
        infer_session_close(&s);
    }
    return n == 0 || is_flat("sessions", before, files, n);
}

static bool reopen(const char *path, long n)
{
    struct infer_error err = {0};
    long before = 0;
    int files = 0;

    for (long i = 0; i < n; i++) {
        struct infer_model *model = NULL;

        if (i == n / 10) {
            before = resident_kib();
            files = open_files();
        }
        if (infer_model_open(path, &err, &model) < 0)
            return fails(path, &err);
        infer_model_close(&model);
    }
    return n == 0 || is_flat("models", before, files, n);
}

int main(int argc, char **argv)
{
    struct infer_session_options o;
    struct infer_model *model = NULL;
    struct infer_error err = {0};
    bool ok;

    if (argc < 6 || argc > 8 || atol(argv[3]) < 10) {
        fprintf(stderr, "usage: soak MODEL THREADS RUNS CYCLES OPENS [BACKEND "
                        "[DEVICE]]\n");
        return 2;
    }
    infer_session_options_init(&o);
    o.threads = 1;
    o.tune = 0;
    o.tune_cache = "";
    if (argc > 6 && strcmp(argv[6], "ref") == 0)
        o.backend = INFER_BACKEND_REF;
    if (argc > 7)
        o.device = argv[7];
    if (infer_model_open(argv[1], &err, &model) < 0) {
        fails(argv[1], &err);
        return 2;
    }
    ok = run_threads(model, &o, atoi(argv[2]), atol(argv[3]));
    ok = cycle(model, &o, atol(argv[4])) && ok;
    infer_model_close(&model);
    ok = reopen(argv[1], atol(argv[5])) && ok;
    return !ok;
}
