/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/base/host_memory.h"

#include <stdint.h>
#include <stdlib.h>

#include "kernels/base/error.h"
#include "kernels/base/memory_size.h"

#define GIB 1073741824.0

static int alloc_own(size_t bytes, struct infer_error *err, void **out)
{
    void *memory;

    /* The system may promise more than there is, and kill the process when it
     * is used. */
    if (bytes > memory_size())
        return error_set(err, INFER_EMEMORY,
                         "%.1f GiB are needed, this machine has %.1f",
                         (double)bytes / GIB, (double)memory_size() / GIB);
    if (posix_memalign(&memory, HOST_MEMORY_ALIGN, bytes) != 0)
        return error_set(err, INFER_EMEMORY, "out of memory: %zu bytes", bytes);
    *out = memory;
    return 0;
}

int host_memory_alloc(const struct host_memory *m, size_t bytes,
                      struct infer_error *err, void **out)
{
    void *memory;

    if (bytes == 0)
        bytes = 1;
    if (!m->alloc)
        return alloc_own(bytes, err, out);
    memory = m->alloc(m->user, bytes, HOST_MEMORY_ALIGN);
    if (!memory)
        return error_set(err, INFER_EMEMORY,
                         "options.alloc: no memory for %zu bytes", bytes);
    if ((uintptr_t)memory % HOST_MEMORY_ALIGN != 0) {
        m->dealloc(m->user, memory);
        return error_set(err, INFER_EARGUMENT,
                         "options.alloc: the address of %zu bytes is no "
                         "multiple of %d",
                         bytes, HOST_MEMORY_ALIGN);
    }
    *out = memory;
    return 0;
}

void host_memory_free(const struct host_memory *m, void *memory)
{
    if (!m->alloc)
        free(memory);
    else if (memory)
        m->dealloc(m->user, memory);
}

bool host_memory_equal(const struct host_memory *a, const struct host_memory *b)
{
    return a->alloc == b->alloc && a->dealloc == b->dealloc &&
           a->user == b->user;
}
