/* SPDX-License-Identifier: Apache-2.0 */
/* The fast CPU backend: what the tools may ask of it beyond its rows. */
#ifndef KERNELS_ONEDNN_ONEDNN_H
#define KERNELS_ONEDNN_ONEDNN_H

#include <stdbool.h>
#include <stdint.h>

/* One line that names the library at run time, its version and the widest
 * vector instructions that it uses here, such as "oneDNN 2.6.3 (avx512_core)".
 * NULL where this build has no oneDNN.  The text is static. */
const char *kern_onednn_version(void);

/* Calls fn(context, i) for i = 0 .. n - 1 on that many threads of the backend,
 * in whatever order; on the calling thread alone where this build has no such
 * backend.  Inside, rows pack on the thread that they are called from. */
void kern_onednn_each(int threads, int64_t n,
                      void (*fn)(void *context, int64_t i), void *context);

/* All primitives of a plan are made: gives back what only making them needed.
 */
void kern_onednn_settle(void);

/* For tests: the rows behave from now on as on a machine whose widest vectors
 * are those of "avx2" or "sse41".  To be called before any row is used.  False
 * where the name is another, or this build has no such rows. */
bool kern_onednn_limit(const char *isa);

#endif
