/* SPDX-License-Identifier: Apache-2.0 */
/* The size of this machine's memory. */
#include "kernels/base/memory_size.h"

#include <unistd.h>

uint64_t memory_size(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);

    if (pages <= 0 || page <= 0)
        return (uint64_t)8 << 30;
    return (uint64_t)pages * (uint64_t)page;
}
