/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU: plain memory, launches that finish before they return. */
#include "config.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/error.h"
#include "libinfer/arena.h"
#include "libinfer/device.h"

static int cpu_alloc(const struct device *d, size_t bytes,
                     struct infer_error *err, void **out)
{
    void *memory;

    (void)d;
    if (posix_memalign(&memory, ARENA_ALIGN, bytes) != 0)
        return error_set(err, INFER_EMEMORY, "out of memory: %zu bytes", bytes);
    *out = memory;
    return 0;
}

static void cpu_free(const struct device *d, void *memory)
{
    (void)d;
    free(memory);
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

static int cpu_nothing(const struct device *d, struct infer_error *err)
{
    (void)d;
    (void)err;
    return 0;
}

const struct device_ops device_cpu = {
    .name = "cpu",
    .host_memory = true,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .copy_in = cpu_copy,
    .copy_out = cpu_copy,
    .copy_within = cpu_copy,
    .begin = cpu_nothing,
    .end = cpu_nothing,
};

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
