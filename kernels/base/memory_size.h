/* SPDX-License-Identifier: Apache-2.0 */
/* The size of this machine's memory. */
#ifndef KERNELS_BASE_MEMORY_SIZE_H
#define KERNELS_BASE_MEMORY_SIZE_H

#include <stdint.h>

/* Bytes of physical memory; 8 GiB where the system does not say. */
uint64_t memory_size(void);

#endif
