/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU: plain memory, launches that finish before they return. */
#include "config.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

#include "kernels/base/denormals.h"
#include "kernels/base/host_memory.h"
#include "libinfer/device/cpu_wait.h"
#include "libinfer/device/device.h"
#include "libinfer/memory/arena.h"

_Static_assert(HOST_MEMORY_ALIGN % ARENA_ALIGN == 0, "an arena is aligned");

static int cpu_alloc(const struct device *d, size_t bytes,
                     struct infer_error *err, void **out)
{
    return host_memory_alloc(&d->host, bytes, err, out);
}

static void cpu_free(const struct device *d, void *memory)
{
    host_memory_free(&d->host, memory);
}

static int cpu_copy(const struct device *d, void *dst, const void *src,
                    size_t bytes, struct infer_error *err)
{
    (void)d;
    (void)err;
    if (bytes > 0)
        memcpy(dst, src, bytes);
    return 0;
}

/* What the thread had when its run began. */
static _Thread_local uint64_t word_before;
static _Thread_local bool runs;

static int cpu_begin(const struct device *d, struct infer_error *err)
{
    (void)d;
    (void)err;
    if (!runs)
        word_before = denormals_word();
    runs = true;
    denormals_flush();
    return 0;
}

static int cpu_end(const struct device *d, struct infer_error *err)
{
    (void)d;
    (void)err;
    if (runs)
        denormals_restore(word_before);
    runs = false;
    return 0;
}

static void cpu_give_up(const struct device *d, const struct infer_error *err)
{
    (void)err;
    (void)cpu_end(d, NULL);
}

/* Times depend on how many threads share the work as well. */
static int cpu_describe(const struct device *d, struct infer_error *err,
                        char *text, size_t bytes)
{
    char name[64];

    (void)err;
    snprintf(text, bytes, "cpu, %s, %d thread%s",
             device_cpu_name(name, sizeof name), d->kern.threads,
             d->kern.threads == 1 ? "" : "s");
    return 0;
}

static void cpu_close(struct device *d)
{
    if (d->kern.threads > 1)
        cpu_wait_close();
}

const struct device_ops device_cpu = {
    .name = "cpu",
    .host_memory = true,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .copy_in = cpu_copy,
    .copy_out = cpu_copy,
    .copy_within = cpu_copy,
    .begin = cpu_begin,
    .end = cpu_end,
    .give_up = cpu_give_up,
    .describe = cpu_describe,
    .close = cpu_close,
};

const char *device_cpu_name(char *text, size_t bytes)
{
#if defined(__x86_64__) || defined(__i386__)
    unsigned int word[12] = {0}, i;
    char name[sizeof word + 1] = "";
    const char *start = name;

    /* Leaves 0x80000002 to 4 hold the brand, four words each. */
    if ((unsigned int)__get_cpuid_max(0x80000000, NULL) >= 0x80000004) {
        for (i = 0; i < 3; i++)
            __get_cpuid(0x80000002 + i, &word[4 * i], &word[4 * i + 1],
                        &word[4 * i + 2], &word[4 * i + 3]);
        memcpy(name, word, sizeof word);
        name[sizeof word] = '\0';
    }
    while (*start == ' ')
        start++;
    snprintf(text, bytes, "%s", *start ? start : "unknown x86");
#else
    snprintf(text, bytes, "not x86");
#endif
    return text;
}

int device_cpu_cores(void)
{
    long n;
#ifdef __linux__
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return CPU_COUNT(&set);
#endif
    n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

/* All threads of a run meet after every layer, and one that waits for its core
 * delays all: ResNet-50 of batch 1 took 7.5 ms with 28 threads on 32 cores and
 * 496 with 31, while two other processes ran.  Of many cores, some are left to
 * other processes. */
int device_cpu_threads(void)
{
    const int cores = device_cpu_cores();

    return cores - cores / 8;
}
