/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CUDA runtime, cuDNN, cuBLASLt and NCCL that need no GPU and fail when asked
 * to: linked into a test in the place of the real ones.
 *
 * Device memory is host memory.  Kernels compute nothing.  Each launch, copy to
 * the device and call of a library that would launch is mixed into `trace`, and
 * a copy from the device delivers bytes made of it: equal results mean equal
 * launches in the same order.  A recorded graph repeats its launches when it
 * is launched.  The fence (kernels/cuda/fence.cu) is left out: it may be
 * launched more often than needed.
 */
#ifndef TESTS_FAULTS_GPU_STANDIN_H
#define TESTS_FAULTS_GPU_STANDIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum standin_kind {
    STANDIN_MEMORY, /* of the device */
    STANDIN_PINNED,
    STANDIN_STREAM,
    STANDIN_EVENT,
    STANDIN_GRAPH,
    STANDIN_HANDLE,     /* of cuDNN and cuBLASLt: kept for the process's life */
    STANDIN_DESCRIPTOR, /* of these two */
    STANDIN_COMMUNICATOR,
    STANDIN_KINDS
};

/* How a chosen call fails. */
enum standin_fault {
    STANDIN_MEMORY_OUT, /* as for lack of memory */
    STANDIN_PLAIN,      /* another error, which harms nothing else */
    STANDIN_STICKY      /* the context is lost: all later calls fail as well */
};

struct standin {
    long calls;  /* of functions that can fail, so far */
    long nth;    /* the call to fail, from 1; 0: none */
    bool onward; /* and all later ones */
    enum standin_fault fault;
    const char *failed; /* first function that failed; NULL: none */
    long live[STANDIN_KINDS];
    long misuses; /* frees of what is not there, and the like */
    uint64_t trace;
    int devices;
};
extern struct standin standin;

extern const char *const standin_kinds[STANDIN_KINDS];

/* True if this call is to fail. */
bool standin_fails(const char *function);
/* An object of the kind is made; bytes > 0 of cleared memory. */
void *standin_make(enum standin_kind kind, size_t bytes);
/* It is destroyed; counts a misuse if there is none at the address. */
void standin_drop(enum standin_kind kind, void *object);
bool standin_has(enum standin_kind kind, const void *object);
/* Whether the bytes lie in one object of the kind. */
bool standin_holds(enum standin_kind kind, const void *from, size_t bytes);
/* Work for the device, recorded or run. */
void standin_work(const void *what, size_t bytes);

/* ---- order.c: what streams wait for --------------------------------- */

/* Work, or a copy between the device and the host's pinned memory, is given to
 * a stream.  A copy back counts as a misuse unless another one has written
 * these very bytes of the host and the stream waits for it. */
void standin_order_work(const void *stream);
void standin_order_copy(const void *stream, const void *dst, const void *src,
                        size_t bytes);
void standin_order_record(const void *event, const void *stream);
void standin_order_wait(const void *stream, const void *event);
/* A capture of the stream begins; false at its end: another stream has work
 * that the stream does not wait for. */
void standin_order_begin(const void *stream);
bool standin_order_joined(const void *stream);
/* Copies to the host and back so far. */
extern long standin_copies[2];

#endif
