/* SPDX-License-Identifier: Apache-2.0 */
/* The fast CPU backend: what the tools may ask of it beyond its rows. */
#ifndef KERNELS_ONEDNN_ONEDNN_H
#define KERNELS_ONEDNN_ONEDNN_H

#include <stdbool.h>

/* One line that names the library at run time, its version and the widest
 * vector instructions that it uses here, such as "oneDNN 2.6.3 (avx512_core)".
 * NULL where this build has no oneDNN.  The text is static. */
const char *kern_onednn_version(void);

/* For tests: the rows behave from now on as on a machine whose widest vectors
 * are those of "avx2" or "sse41".  To be called before any row is used.  False
 * where the name is another, or this build has no such rows. */
bool kern_onednn_limit(const char *isa);

#endif
