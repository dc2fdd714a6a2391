/* SPDX-License-Identifier: Apache-2.0 */
/* The memory that this process may use. */
#ifndef KERNELS_BASE_MEMORY_SIZE_H
#define KERNELS_BASE_MEMORY_SIZE_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes of physical memory (8 GiB where the system does not say), or of the
 * limit of the process's control group or addresses (RLIMIT_AS), if that is
 * lower.  The control group is read once. */
uint64_t memory_size(void);

/* Lowest memory limit of the control groups that `groups` lists in the form of
 * /proc/self/cgroup, below `mount` (/sys/fs/cgroup); versions 1 and 2.
 * UINT64_MAX: none. */
uint64_t memory_group_limit(const char *groups, const char *mount);

#endif
