/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory of the library's own allocator or of the caller's. */
#ifndef KERNELS_BASE_HOST_MEMORY_H
#define KERNELS_BASE_HOST_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include "include/infer.h"

/* Alignment of every block in bytes: a cache line, the widest vector. */
#define HOST_MEMORY_ALIGN 64

/* The functions of infer_session_options; all zero: the C library's. */
struct host_memory {
    void *(*alloc)(void *user, size_t bytes, size_t align);
    void (*dealloc)(void *user, void *memory);
    void *user;
};

/* bytes may be 0; *out is not cleared.  EMEMORY; EARGUMENT where the caller's
 * allocator gave memory that is not aligned. */
int host_memory_alloc(const struct host_memory *m, size_t bytes,
                      struct infer_error *err, void **out);
/* Memory that the same allocator gave; NULL is fine. */
void host_memory_free(const struct host_memory *m, void *memory);
/* True if memory of one may be given back to the other. */
bool host_memory_equal(const struct host_memory *a,
                       const struct host_memory *b);

#endif
