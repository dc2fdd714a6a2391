/* SPDX-License-Identifier: Apache-2.0 */
/* Hashing of names from untrusted files. */
#ifndef KERNELS_BASE_HASH_H
#define KERNELS_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* SipHash-1-3 under a key drawn once a process: nobody outside can make names
 * that collide.  Values differ from run to run, so no result may depend on
 * their order. */
uint64_t hash_bytes(const void *data, size_t bytes);
uint64_t hash_name(const char *name);

#endif
