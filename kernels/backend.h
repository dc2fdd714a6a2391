/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The backends: queries of the runtime and the tools beyond rows.  Above
 * kernels/ this header stands for all of them; only code that calls CUDA itself
 * includes kernels/cuda/cuda_rt.h.
 */
#ifndef KERNELS_BACKEND_H
#define KERNELS_BACKEND_H

#include <stdint.h>

#include "kernels/kern.h"

/* A vendor's library that a backend calls. */
struct kern_library {
    const char *name; /* "cuDNN" */
    /* "cuDNN 9.19.0", or NULL with the reason where the library is not found.
     * Loads the library if it is loaded at run time.  The text is static. */
    const char *(*version)(struct infer_error *why);
};

struct kern_backend {
    enum kern_device_kind device; /* where its rows run */
    /* Ends at the first without a name; none where the backend has no rows in
     * this build. */
    struct kern_library library[3];
    /* Optional.  Loads the libraries that rows cannot do without.  0, or
     * EDEVICE with the reason. */
    int (*open)(struct infer_error *why);
    /* Optional.  All kernels of a plan are prepared: gives back the memory that
     * only preparing needed. */
    void (*settle)(void);
};

/* One entry for each value of the enumeration, also for backends that are not
 * part of this build. */
const struct kern_backend *kern_backend_of(enum infer_backend backend);

/* "cuDNN 9.19.0, cuBLAS 13.1.0": the libraries of a backend with their
 * versions, "no NAME" where one is not found; "" for a backend without.  Loads
 * them.  The text is static. */
const char *kern_backend_libraries(enum infer_backend backend);

/* Adds the rows that only serve as baselines.  For kbench and checkkern, which
 * link libbaseline.la; libinfer does not have them. */
void kern_baseline_add(void);

/* Calls fn(context, i) for i = 0 .. n - 1 in any order on up to `threads` of
 * the threads that CPU rows use, or on the caller's alone in a build without
 * OpenMP.  Rows that fn calls run on the thread that they are called from. */
void kern_cpu_each(int threads, int64_t n, void (*fn)(void *context, int64_t i),
                   void *context);
/* Calls fn once on each of `threads` of these threads, the caller's included.
 */
void kern_cpu_all(int threads, void (*fn)(void));

#endif
