/* SPDX-License-Identifier: Apache-2.0 */
/* How long threads wait in a loop: the choice, and the idle team behind it. */
#include <dirent.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "libinfer/device/cpu_wait.h"
#include "libinfer/device/device.h"
#include "tests/unit/test.h"

/* ---- the choice ---------------------------------------------------- */

struct course {
    struct cpu_wait w;
    double now, waited;
};

/* Periods of runs on two threads, which lack a core for this share of them.
 * Returns the seconds until the choice is `wanted`, or -1. */
static double until(struct course *c, double share, bool wanted, double most)
{
    const double start = c->now;

    while (c->now - start < most) {
        c->now += CPU_WAIT_PERIOD;
        c->waited += share * 2 * CPU_WAIT_PERIOD;
        if (cpu_wait_choose(&c->w, c->now, c->waited, 2) == wanted)
            return c->now - start;
    }
    return -1;
}

static struct course begin(void)
{
    struct course c = {.now = 1000, .waited = 7};

    assert_false(cpu_wait_choose(&c.w, c.now, c.waited, 2));
    return c;
}

static void stays_long_on_an_idle_machine(void **unused)
{
    struct course c = begin();

    (void)unused;
    assert_true(until(&c, 0.02, true, 30) < 0);
    assert_true(until(&c, 0.09, true, 30) < 0);
}

static void becomes_short_after_one_period(void **unused)
{
    struct course c = begin();

    (void)unused;
    assert_true(until(&c, 0.3, true, 1) <= 1.5 * CPU_WAIT_PERIOD);
    assert_true(until(&c, 0.05, false, 30) < 0);
}

static void becomes_long_when_others_are_done(void **unused)
{
    struct course c = begin();
    double first, second, later;

    (void)unused;
    until(&c, 0.8, true, 1);
    first = until(&c, 0, false, 10);
    assert_true(first > 0.9 && first < 1.2);
    /* At once again: held for longer. */
    until(&c, 0.8, true, 1);
    second = until(&c, 0, false, 10);
    assert_true(second > 1.9 && second < 2.2);
    /* Much later: as the first time. */
    assert_true(until(&c, 0, true, 6) < 0);
    until(&c, 0.8, true, 1);
    later = until(&c, 0, false, 10);
    assert_true(later > 0.9 && later < 1.2);
}

static void time_between_runs_is_no_run(void **unused)
{
    struct course c = begin();

    (void)unused;
    /* A thread of the program waited while nothing ran here. */
    c.now += 10;
    c.waited += 15;
    assert_false(cpu_wait_choose(&c.w, c.now, c.waited, 2));
    assert_true(until(&c, 0, true, 1) < 0);
}

/* ---- the team ------------------------------------------------------ */

static int thread_count(void)
{
    DIR *d = opendir("/proc/self/task");
    int n = -2; /* . and .. */

    if (d == NULL)
        return -1;
    while (readdir(d) != NULL)
        n++;
    closedir(d);
    return n;
}

static void *spin(void *end)
{
    while (!__atomic_load_n((bool *)end, __ATOMIC_RELAXED))
        ;
    return NULL;
}

/* Threads that compute without end, twice as many as cores, leave each other
 * without a core: looks make the wait short, and closing the device ends the
 * team. */
static void team_comes_and_goes(void **unused)
{
    const int n = 2 * device_cpu_cores() + 2;
    pthread_t *load = calloc((size_t)n, sizeof *load);
    struct infer_error err;
    struct device cpu;
    bool end = false;
    int before;

    (void)unused;
    assert_non_null(load);
    assert_int_equal(device_open("cpu", 2, NULL, &err, &cpu), 0);
    /* A sanitizer begins a thread of its own beside the first. */
    assert_int_equal(pthread_create(&load[0], NULL, spin, &(bool){true}), 0);
    pthread_join(load[0], NULL);
    before = thread_count();
    for (int i = 0; i < n; i++)
        assert_int_equal(pthread_create(&load[i], NULL, spin, &end), 0);
    for (int i = 0; i < 600 && !cpu_wait_is_short(); i++) {
        cpu_wait_look(2);
        usleep(10000);
    }
    __atomic_store_n(&end, true, __ATOMIC_RELAXED);
    for (int i = 0; i < n; i++)
        pthread_join(load[i], NULL);
    free(load);
    if (cpu_wait_measure() == 0) {
        device_close(&cpu);
        skip(); /* the system does not say who waited */
    }
    assert_true(cpu_wait_is_short());
    assert_true(thread_count() > before);
    device_close(&cpu);
    assert_false(cpu_wait_is_short());
    for (int i = 0; i < 500 && thread_count() > before; i++)
        usleep(10000);
    assert_true(thread_count() <= before);
}

static void a_policy_of_the_user_stays(void **unused)
{
    struct infer_error err;
    struct device cpu;

    (void)unused;
    assert_int_equal(setenv("OMP_WAIT_POLICY", "active", 1), 0);
    assert_int_equal(device_open("cpu", 2, NULL, &err, &cpu), 0);
    for (int i = 0; i < 30; i++) {
        cpu_wait_look(2);
        usleep(10000);
    }
    assert_false(cpu_wait_is_short());
    device_close(&cpu);
    unsetenv("OMP_WAIT_POLICY");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stays_long_on_an_idle_machine),
        cmocka_unit_test(becomes_short_after_one_period),
        cmocka_unit_test(becomes_long_when_others_are_done),
        cmocka_unit_test(time_between_runs_is_no_run),
        cmocka_unit_test(team_comes_and_goes),
        cmocka_unit_test(a_policy_of_the_user_stays),
    };

    unsetenv("OMP_WAIT_POLICY");
    unsetenv("GOMP_SPINCOUNT");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
