/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long OpenMP's threads wait in a loop before they sleep.
 *
 * All threads of a run meet after every layer.  Where every thread has a core,
 * waiting in a loop is fastest; where other work shares the cores, a waiting
 * thread keeps the one that it waits for from its core, and a run takes many
 * times as long.  So the wait is chosen while the program runs: from the time
 * in which threads were ready but had no core.
 *
 * libgomp (GCC's OpenMP) waits shortly while it has more threads than cores
 * (GOMP_SPINCOUNT in its manual).  An idle team of a thread of our own makes
 * them more.  Other OpenMP libraries are not changed by it.  Nothing is done
 * where OMP_WAIT_POLICY or GOMP_SPINCOUNT is set.
 */
#ifndef LIBINFER_DEVICE_CPU_WAIT_H
#define LIBINFER_DEVICE_CPU_WAIT_H

#include <stdbool.h>

/* ---- the choice ---------------------------------------------------- */

struct cpu_wait {
    double at;     /* seconds of a clock: the last look */
    double waited; /* seconds: sum of all threads' waits at that time */
    double since;  /* of a short wait: when a thread last had no core */
    double left;   /* when the wait last became long again */
    double hold;   /* seconds without contention until it does */
    bool is_short; /* the choice */
};

/* Seconds between two looks. */
#define CPU_WAIT_PERIOD 0.05

/* A look at time `now` (seconds): the threads, `threads` of which share a run,
 * have waited for cores for `waited` seconds since they began.  Returns
 * w->is_short, changed where the last period says so. */
bool cpu_wait_choose(struct cpu_wait *w, double now, double waited,
                     int threads);

/* ---- the process --------------------------------------------------- */

/* Seconds that the threads of this process, those that live, have been ready to
 * run but had no core.  0 where the system does not say. */
double cpu_wait_measure(void);

/* A device with several threads is open, is closed.  The last one to be closed
 * makes the wait as long as it was. */
void cpu_wait_open(void);
void cpu_wait_close(void);
/* Called often in a run on the CPU: looks once in a period. */
void cpu_wait_look(int threads);
/* True while this file makes the waits short. */
bool cpu_wait_is_short(void);

#endif
