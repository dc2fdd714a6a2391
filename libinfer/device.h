/* SPDX-License-Identifier: Apache-2.0 */
/* Where a session's memory lies and how its steps are run: the only place of
 * the runtime that knows one device from another. */
#ifndef LIBINFER_DEVICE_H
#define LIBINFER_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/kern.h"
#include "libinfer/infer.h"

struct device;

struct device_ops {
    const char *name; /* "cpu" */
    /* Kernels read and write host memory: inputs are used where they lie. */
    bool host_memory;
    /* 64-byte aligned and not cleared; bytes > 0. */
    int (*alloc)(const struct device *d, size_t bytes, struct infer_error *err,
                 void **out);
    void (*free)(const struct device *d, void *memory); /* NULL is fine */
    /* Host to device and back, in order with the launches between begin and
     * end. */
    int (*copy_in)(const struct device *d, void *dst, const void *src,
                   size_t bytes, struct infer_error *err);
    int (*copy_out)(const struct device *d, void *dst, const void *src,
                    size_t bytes, struct infer_error *err);
    /* Round every run; after end all results are in place. */
    int (*begin)(const struct device *d, struct infer_error *err);
    int (*end)(const struct device *d, struct infer_error *err);
};

struct device {
    const struct device_ops *ops;
    struct kern_device kern;
    void *stream; /* handed to every launch */
};

/* name: as in infer_session_options.  threads 0: all cores this process may
 * use.  EARGUMENT (no such name), EDEVICE (not here). */
int device_open(const char *name, int threads, struct infer_error *err,
                struct device *out);

extern const struct device_ops device_cpu;
/* Cores that the process may use, at least 1. */
int device_cpu_cores(void);

#endif
