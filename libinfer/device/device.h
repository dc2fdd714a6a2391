/* SPDX-License-Identifier: Apache-2.0 */
/* Where a session's memory lies and how its steps are run: the only place of
 * the runtime that knows one device from another. */
#ifndef LIBINFER_DEVICE_DEVICE_H
#define LIBINFER_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

#include "include/infer.h"
#include "kernels/base/host_memory.h"
#include "kernels/kern.h"
#include "libinfer/device/device_rates.h"

struct device;
struct device_state;

/* A recorded sequence of launches (a CUDA graph). */
struct device_graph;

struct device_ops {
    const char *name; /* "cpu" */
    /* Kernels read and write host memory: inputs are used where they lie. */
    bool host_memory;
    /* 64-byte aligned and not cleared; bytes > 0.  alloc() and free() use no
     * state: memory may outlive the session that asked for it. */
    int (*alloc)(const struct device *d, size_t bytes, struct infer_error *err,
                 void **out);
    void (*free)(const struct device *d, void *memory); /* NULL is fine */
    /* Host to device and back, in order with the launches between begin and
     * end.  The host memory may be reused after copy_in(); that of copy_out()
     * is filled after end(), or at once outside a run. */
    int (*copy_in)(const struct device *d, void *dst, const void *src,
                   size_t bytes, struct infer_error *err);
    int (*copy_out)(const struct device *d, void *dst, const void *src,
                    size_t bytes, struct infer_error *err);
    int (*copy_within)(const struct device *d, void *dst, const void *src,
                       size_t bytes, struct infer_error *err);
    /* Round every run; after end all results are in place. */
    int (*begin)(const struct device *d, struct infer_error *err);
    int (*end)(const struct device *d, struct infer_error *err);

    /* The rest is NULL where a device does not need it. */

    /* Whether kernels can use memory of a caller's at this address; EARGUMENT
     * where it is the host's or another device's. */
    int (*check_memory)(const struct device *d, const void *memory,
                        struct infer_error *err);

    /* Name and driver, or threads: on which measured times depend. */
    int (*describe)(const struct device *d, struct infer_error *err, char *text,
                    size_t bytes);

    /* Name and runtime for people: "NVIDIA H200" and "CUDA runtime 13.0, driver
     * for CUDA 13.0". */
    void (*identify)(const struct device *d, char *name, size_t name_bytes,
                     char *runtime, size_t runtime_bytes);

    /* Makes the device the calling thread's current one. */
    int (*enter)(const struct device *d, struct infer_error *err);
    /* Makes room for `copies` copies of `bytes` in all a run, so that a run
     * allocates nothing. */
    int (*reserve)(const struct device *d, size_t bytes, int copies,
                   struct infer_error *err);
    /* Host memory to build an array in that copy_in() takes next; only in a
     * run, within the reserved size. */
    int (*stage)(const struct device *d, size_t bytes, struct infer_error *err,
                 void **out);
    /* Host memory of the caller's that the device reads by itself: what
     * copy_in_later() takes from it must stay as it is until end(). */
    int (*alloc_host)(const struct device *d, size_t bytes,
                      struct infer_error *err, void **out);
    void (*free_host)(const struct device *d, void *memory); /* NULL is fine */
    int (*copy_in_later)(const struct device *d, void *dst, const void *src,
                         size_t bytes, struct infer_error *err);
    /* Copies between the device's memory and that of alloc_host(), on a stream
     * of branch(). */
    int (*copy_beside)(const struct device *d, void *dst, const void *src,
                       size_t bytes, void *stream, struct infer_error *err);
    /* Ends a run that failed; err says why.  Remembers the cause where the
     * device is of no use from now on: every later call then fails with it. */
    void (*give_up)(const struct device *d, const struct infer_error *err);
    /* Launches between record_begin() and record_end() are not run but
     * recorded; replay() runs them.  out NULL: the recording is dropped. */
    int (*record_begin)(const struct device *d, struct infer_error *err);
    int (*record_end)(const struct device *d, struct infer_error *err,
                      struct device_graph **out);
    int (*replay)(const struct device *d, struct device_graph *graph,
                  struct infer_error *err);
    void (*graph_free)(const struct device *d, struct device_graph *graph);
    /* Called before a launch of a row of this backend into the stream: makes it
     * wait for the end of the work before it, if it may not overlap it. */
    int (*order)(const struct device *d, enum infer_backend backend,
                 void *stream, struct infer_error *err);
    /* A second stream in addition to the first: launches on *stream wait for
     * what was launched before branch(), those on the device's own stream for
     * none of them until rejoin().  Recorded, they are branches of the
     * graph. */
    int (*branch)(const struct device *d, struct infer_error *err,
                  void **stream);
    int (*rejoin)(const struct device *d, struct infer_error *err);
    /* Marks 0, 1, ... among the launches; after end(), the seconds from mark
     * index - 1 to mark index. */
    int (*mark)(const struct device *d, int index, struct infer_error *err);
    int (*elapsed)(const struct device *d, int index, struct infer_error *err,
                   double *seconds);
    void (*close)(struct device *d);
};

struct device {
    const struct device_ops *ops;
    struct kern_device kern;
    void *stream; /* handed to every launch */
    struct device_rates rates;
    int loaders; /* CPU threads that read, convert and pack constants */
    struct host_memory host; /* device_open() leaves it zero */
    struct device_state *state;
};

/* name, threads, stream: as in infer_session_options.
 * EARGUMENT (no such name), EDEVICE (not here). */
int device_open(const char *name, int threads, void *stream,
                struct infer_error *err, struct device *out);
void device_close(struct device *d); /* also one that is all zero */

/* Launches the prepared graph after all work of its stream. */
int device_launch(const struct device *d, const struct kern_exec *exec,
                  const struct kern_args *args, struct infer_error *err);

/* Ends a recording of launches, of which rc is the result; one that failed is
 * dropped. */
int device_record_end(const struct device *d, int rc, struct infer_error *err,
                      struct device_graph **out);

/* True if a launch of a row of this backend into the stream needs a fence
 * before it.  *foreign is the stream whose last kernel is a library's, NULL
 * where none is known to be, and is set for the next launch. */
bool device_needs_fence(const void **foreign, enum infer_backend backend,
                        const void *stream);

/* Words for enum infer_backend and enum infer_precision, by their values;
 * NULL-terminated. */
extern const char *const device_backend_names[INFER_BACKEND_COUNT + 1];
extern const char *const device_precision_names[];

/* True if this build has kernels of the backend. */
bool device_has_rows(enum infer_backend backend);
/* Whether a backend that was named can compute on the device; AUTO: 0.
 * EARGUMENT (no backend), EDEVICE (not here, or of another device). */
int device_check_backend(const struct device *d, enum infer_backend backend,
                         struct infer_error *err);

extern const struct device_ops device_cpu;
/* What the processor calls itself, "not x86" where it has no way to.  Returns
 * text. */
const char *device_cpu_name(char *text, size_t bytes);
/* Cores that the process may use, at least 1. */
int device_cpu_cores(void);
/* Threads of a run where the caller does not say: all cores, but one in eight
 * where there are eight and more. */
int device_cpu_threads(void);

/* libinfer/device/device_cuda.c, in builds with CUDA. */
int device_cuda_open(int ordinal, void *stream, struct infer_error *err,
                     struct device *out);
/* Line i of a report, without a line feed: the runtime, then one line for each
 * GPU of this machine or the reason for there being none.  False after the
 * last. */
bool device_cuda_line(int i, char *text, size_t bytes);

#endif
