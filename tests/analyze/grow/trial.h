/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of one subject in processes of their own, with a check removed or none
 * (tests/analyze/mutate.py numbers the checks of the instrumented sources).
 * A check is killed by a subject if the subject ends in another way without it.
 */
#ifndef TESTS_ANALYZE_GROW_TRIAL_H
#define TESTS_ANALYZE_GROW_TRIAL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* Of mutate.py. */
extern unsigned char mutant_seen[1 << 16];
extern int mutant;

#define TRIAL_CHECKS  (1 << 13)
#define TRIAL_MET     64 /* checks of one run that are recorded */
#define TRIAL_TEXT    1100
#define TRIAL_SECONDS 10 /* of processor time */
#define TRIAL_BYTES   (UINT64_C(3) << 30)
#define TRIAL_TRIES   40 /* subjects for one check */

/* The sanitizers take memory of their own. */
#ifdef __SANITIZE_ADDRESS__
#define TRIAL_SANITIZED true
#else
#define TRIAL_SANITIZED false
#endif

/* How a run ended. */
struct trial {
    bool done;  /* not ended by a signal, an assertion or a limit */
    int signal; /* that ended it, or 0 */
    int code;
    char said[TRIAL_TEXT];
    int met[TRIAL_MET], n_met;
    uint64_t seen;     /* hash of the checks that were evaluated */
    long peak_kib, ms; /* of the process: memory and processor time */
};

static unsigned char trial_killed[TRIAL_CHECKS], trial_tries[TRIAL_CHECKS];
static unsigned char trial_ever[TRIAL_CHECKS];
static struct trial *trial_shared;

/* Runs the subject; its end is in *out. */
static void trial_run(int removed, void (*run)(void *subject, struct trial *),
                      void *subject, struct trial *out)
{
    if (!trial_shared)
        trial_shared = mmap(NULL, sizeof *trial_shared, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(trial_shared, 0, sizeof *trial_shared);
    fflush(NULL);
    const pid_t child = fork();
    if (child < 0) {
        perror("fork");
        exit(1);
    }
    if (child == 0) {
        struct trial *t = trial_shared;
        struct rusage used;

        setrlimit(RLIMIT_CPU, &(struct rlimit){TRIAL_SECONDS, TRIAL_SECONDS});
        if (!TRIAL_SANITIZED)
            setrlimit(RLIMIT_AS, &(struct rlimit){TRIAL_BYTES, TRIAL_BYTES});
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        memset(mutant_seen, 0, TRIAL_CHECKS);
        mutant = removed;
        run(subject, t);
        getrusage(RUSAGE_SELF, &used);
        t->peak_kib = used.ru_maxrss;
        t->ms = used.ru_utime.tv_sec * 1000 + used.ru_utime.tv_usec / 1000;
        t->seen = UINT64_C(14695981039346656037);
        for (int i = 0; i < TRIAL_CHECKS; i++) {
            if (mutant_seen[i])
                t->seen = (t->seen ^ (uint64_t)(i * 4 + mutant_seen[i])) *
                          UINT64_C(1099511628211);
            if (mutant_seen[i] & 2 && t->n_met < TRIAL_MET)
                t->met[t->n_met++] = i;
        }
        t->done = true;
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    *out = *trial_shared;
    out->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

/* What a stranger may cost: refused within twice the bytes and 64 MiB, and in
 * a second.  More is told. */
static bool trial_cheap(const struct trial *t, bool refused, size_t bytes,
                        const char *name)
{
    const bool large =
        !TRIAL_SANITIZED && t->peak_kib > 2 * (long)(bytes >> 10) + (64 << 10);

    if (t->done && !(refused && large) && t->ms <= 1000)
        return true;
    printf("%s: signal %d, %ld MiB, %ld ms: %s\n", name, t->signal,
           t->peak_kib >> 10, t->ms, t->said);
    fflush(stdout);
    return false;
}

/* Whether each of these checks is still killed. */
static bool trial_all(const int *check, int n, const struct trial *base,
                      void (*run)(void *subject, struct trial *), void *subject,
                      bool (*differs)(const struct trial *base,
                                      const struct trial *now))
{
    struct trial now;

    for (int i = 0; i < n; i++) {
        trial_run(check[i], run, subject, &now);
        if (now.done && !differs(base, &now))
            return false;
    }
    return true;
}

/* Tries the checks that the subject met and that none has killed yet; the
 * number of those that it kills, which are in killed[].  differs() says whether
 * a reader of the result would notice. */
static int trial_kill(const struct trial *base,
                      void (*run)(void *subject, struct trial *), void *subject,
                      bool (*differs)(const struct trial *base,
                                      const struct trial *now),
                      int killed[TRIAL_MET])
{
    int n_killed = 0;

    for (int i = 0; i < base->n_met; i++) {
        const int n = base->met[i];
        struct trial now;

        trial_ever[n] = 1;
        if (trial_killed[n] || trial_tries[n] >= TRIAL_TRIES)
            continue;
        trial_tries[n]++;
        trial_run(n, run, subject, &now);
        if (now.done && !differs(base, &now))
            continue;
        trial_killed[n] = 1;
        killed[n_killed++] = n;
    }
    return n_killed;
}

/* A file with the numbers of the checks that are killed. */
static void trial_load(const char *path)
{
    FILE *f = path ? fopen(path, "r") : NULL;
    int n;

    while (f && fscanf(f, "%d", &n) == 1)
        trial_killed[n & (TRIAL_CHECKS - 1)] = 1;
    if (f)
        fclose(f);
}

static void trial_save(const char *path)
{
    FILE *f = path ? fopen(path, "w") : NULL;

    for (int n = 0; f && n < TRIAL_CHECKS; n++)
        if (trial_killed[n])
            fprintf(f, "%d\n", n);
    if (f)
        fclose(f);
}

/* A set of hashes; once it is rather full, nothing is new. */
static bool trial_new(uint64_t hash)
{
    static uint64_t set[1 << 18];
    static size_t count;
    size_t at = hash % (1 << 18);

    if (count == (1 << 18) - (1 << 16))
        return false;
    while (set[at] && set[at] != hash)
        at = (at + 1) % (1 << 18);
    if (set[at])
        return false;
    count++;
    set[at] = hash;
    return true;
}

static unsigned trial_state = 12345;

static unsigned trial_random(unsigned n)
{
    trial_state ^= trial_state << 13;
    trial_state ^= trial_state >> 17;
    trial_state ^= trial_state << 5;
    return n ? trial_state % n : 0;
}

static double trial_cpu(void)
{
    struct rusage self, children;

    getrusage(RUSAGE_SELF, &self);
    getrusage(RUSAGE_CHILDREN, &children);
    return (double)(self.ru_utime.tv_sec + self.ru_stime.tv_sec +
                    children.ru_utime.tv_sec + children.ru_stime.tv_sec);
}

#endif
