/* SPDX-License-Identifier: Apache-2.0 */
/* Measures how long threads lack a core, and shortens their waits by an idle
 * team of OpenMP threads. */
#define _GNU_SOURCE 1 /* getdents64() */
#include "config.h"

#include "libinfer/device/cpu_wait.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kernels/backend.h"
#include "libinfer/device/device.h"

/* Shares of the threads' time without a core: from MUCH on waits become short,
 * below LITTLE there is no contention. */
#define MUCH   0.1
#define LITTLE 0.03
/* Seconds without contention after which waits become long again: HOLD at
 * first, twice as long (at most HOLD_MOST) where contention came back within
 * HOLD_AGAIN seconds. */
#define HOLD       1.0
#define HOLD_MOST  16.0
#define HOLD_AGAIN 4.0
/* A look after so many seconds begins anew: there was no run meanwhile. */
#define GAP 1.0

/* ---- the choice ---------------------------------------------------- */

static void become_short(struct cpu_wait *w, double now)
{
    if (w->hold == 0 || now - w->left > HOLD_AGAIN)
        w->hold = HOLD;
    else if (w->hold < HOLD_MOST)
        w->hold *= 2;
    w->is_short = true;
    w->since = now;
}

bool cpu_wait_choose(struct cpu_wait *w, double now, double waited, int threads)
{
    const double seconds = now - w->at;
    const double part = (waited - w->waited) / (seconds * threads);

    if (w->at == 0 || seconds > GAP) {
        /* The first look of these runs. */
    } else if (!w->is_short && part >= MUCH) {
        become_short(w, now);
    } else if (w->is_short && part >= LITTLE) {
        w->since = now;
    } else if (w->is_short && now - w->since >= w->hold) {
        w->is_short = false;
        w->left = now;
    }
    w->at = now;
    w->waited = waited;
    return w->is_short;
}

/* ---- measurement --------------------------------------------------- */

#ifdef __linux__
/* A run allocates nothing, so these files are read without the C library's
 * streams. */

/* Nanoseconds on a core, nanoseconds without one (schedstat of Linux). */
static double waited_of(int threads, const char *thread)
{
    char text[64], *wait;
    ssize_t n;
    int f;

    snprintf(text, sizeof text, "%.20s/schedstat", thread);
    f = openat(threads, text, O_RDONLY | O_CLOEXEC);
    if (f < 0)
        return 0;
    n = read(f, text, sizeof text - 1);
    close(f);
    text[n < 0 ? 0 : n] = '\0';
    wait = strchr(text, ' ');
    return wait ? 1e-9 * strtod(wait, NULL) : 0;
}

/* The entries that getdents64() put into `bytes` bytes at `entries`. */
static double waited_of_all(int threads, const char *entries, ssize_t bytes)
{
    double sum = 0;

    for (ssize_t i = 0; i < bytes;) {
        const struct dirent64 *entry = (const struct dirent64 *)(entries + i);

        if (entry->d_name[0] != '.')
            sum += waited_of(threads, entry->d_name);
        i += entry->d_reclen;
    }
    return sum;
}

double cpu_wait_measure(void)
{
    _Alignas(struct dirent64) char entries[4096];
    int threads = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    double sum = 0;
    ssize_t bytes;

    if (threads < 0)
        return 0;
    while ((bytes = getdents64(threads, entries, sizeof entries)) > 0)
        sum += waited_of_all(threads, entries, bytes);
    close(threads);
    return sum;
}
#else
double cpu_wait_measure(void)
{
    return 0;
}
#endif

/* Seconds of a clock that costs a few nanoseconds to read. */
static double now_coarse(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- an idle team -------------------------------------------------- */

/* Threads of an idle team at most. */
#define TEAM 64

/* All but next_ms and is_short under the lock. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t change;
    struct cpu_wait wait;
    int devices; /* open ones with several threads */
    bool given;  /* the wait is the user's choice, or cannot be changed */
    bool busy;   /* a team begins or ends: another thread leaves it alone */
    bool end;    /* the team, or a trial thread, is to end */
    int threads; /* of the team */
    pthread_t team;
    pid_t process; /* in which the team lives: not a fork of it */
    long next_ms;  /* of the coarse clock */
    bool is_short;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER,
           .change = PTHREAD_COND_INITIALIZER};

static void nothing(void)
{
}

static void *wait_for_end(void *none)
{
    (void)none;
    pthread_mutex_lock(&state.lock);
    while (!state.end)
        pthread_cond_wait(&state.change, &state.lock);
    pthread_mutex_unlock(&state.lock);
    return NULL;
}

/* The team belongs to the thread that began it and ends with it. */
static void *be_idle(void *none)
{
    kern_cpu_all(state.threads, nothing);
    return wait_for_end(none);
}

/* A thread that gets no signals of the program. */
static bool begin_thread(pthread_t *thread, void *(*fn)(void *))
{
    sigset_t all, before;
    bool ok;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    ok = pthread_create(thread, NULL, fn, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ok;
}

/* Under the lock, which is released meanwhile. */
static void end_thread(pthread_t thread)
{
    state.end = true;
    pthread_cond_broadcast(&state.change);
    pthread_mutex_unlock(&state.lock);
    pthread_join(thread, NULL);
    pthread_mutex_lock(&state.lock);
    state.end = false;
}

/* libgomp ends the process where it gets no thread: so they are tried first. */
static bool has_room_for(int threads)
{
    pthread_t trial[TEAM];
    int n = 0;

    while (n < threads && begin_thread(&trial[n], wait_for_end))
        n++;
    for (int i = 0; i < n; i++)
        end_thread(trial[i]);
    return n == threads;
}

/* The threads of the runs and those of the team are more than the cores. */
static void make_short(int threads)
{
    const int team = device_cpu_cores() - threads + 2;

    state.threads = team < 2 ? 2 : team;
    state.given = state.threads > TEAM || !has_room_for(state.threads) ||
                  !begin_thread(&state.team, be_idle);
    state.process = getpid();
    __atomic_store_n(&state.is_short, !state.given, __ATOMIC_RELAXED);
}

static void make_long(void)
{
    __atomic_store_n(&state.is_short, false, __ATOMIC_RELAXED);
    if (state.process == getpid())
        end_thread(state.team);
}

/* ---- the process --------------------------------------------------- */

void cpu_wait_open(void)
{
    pthread_mutex_lock(&state.lock);
    if (state.devices++ == 0)
        state.given = getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT");
    pthread_mutex_unlock(&state.lock);
}

void cpu_wait_close(void)
{
    pthread_mutex_lock(&state.lock);
    while (state.busy)
        pthread_cond_wait(&state.change, &state.lock);
    if (--state.devices == 0) {
        if (state.is_short)
            make_long();
        state.wait = (struct cpu_wait){0};
    }
    pthread_mutex_unlock(&state.lock);
}

/* Under the lock. */
static void look(double now, int threads)
{
    if (cpu_wait_choose(&state.wait, now, cpu_wait_measure(), threads) ==
        state.is_short)
        return;
    state.busy = true;
    if (state.is_short)
        make_long();
    else
        make_short(threads);
    state.busy = false;
    pthread_cond_broadcast(&state.change);
}

void cpu_wait_look(int threads)
{
    const double now = now_coarse();
    const long ms = (long)(1e3 * now);

    if (ms < __atomic_load_n(&state.next_ms, __ATOMIC_RELAXED) ||
        pthread_mutex_trylock(&state.lock) != 0)
        return;
    if (!state.given && !state.busy && state.devices > 0 && ms >= state.next_ms)
        look(now, threads);
    __atomic_store_n(&state.next_ms, ms + (long)(1e3 * CPU_WAIT_PERIOD),
                     __ATOMIC_RELAXED);
    pthread_mutex_unlock(&state.lock);
}

bool cpu_wait_is_short(void)
{
    return __atomic_load_n(&state.is_short, __ATOMIC_RELAXED);
}
