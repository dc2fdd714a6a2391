/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Giving back the pages of oneDNN's own code.
 *
 * Making primitives walks through some 6 MiB of the library: generators and
 * descriptors that running the primitives never sees again, as much as the
 * activations of a small network.  The pages are clean, so a process may let
 * go of them at any time; those that a run needs come back from the page cache,
 * a microsecond for sixteen of them.
 */
#include "config.h"

#include "kernels/onednn/pages.h"

#ifdef __linux__

#include <dnnl.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* Whether the address lies in one of the object's segments. */
static bool holds(const struct dl_phdr_info *object, uintptr_t address)
{
    size_t i;

    for (i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &object->dlpi_phdr[i];

        if (p->p_type == PT_LOAD &&
            address - (object->dlpi_addr + p->p_vaddr) < p->p_memsz)
            return true;
    }
    return false;
}

/* Of segments that are never written, whole pages. */
static void drop(const struct dl_phdr_info *object, uintptr_t page)
{
    size_t i;

    for (i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &object->dlpi_phdr[i];
        const uintptr_t begin = object->dlpi_addr + p->p_vaddr;
        const uintptr_t from = (begin + page - 1) & ~(page - 1);
        const uintptr_t to = (begin + p->p_filesz) & ~(page - 1);

        if (p->p_type == PT_LOAD && !(p->p_flags & PF_W) && to > from)
            /* Only advice: nothing is lost where it is not taken. */
            (void)madvise((void *)from, to - from, MADV_DONTNEED);
    }
}

static int visit(struct dl_phdr_info *object, size_t bytes, void *page)
{
    (void)bytes;
    if (!holds(object, (uintptr_t)&dnnl_primitive_create))
        return 0;
    drop(object, *(uintptr_t *)page);
    return 1;
}

void onednn_drop_pages(void)
{
    const long size = sysconf(_SC_PAGESIZE);
    uintptr_t page = (uintptr_t)size;

    if (size > 0)
        dl_iterate_phdr(visit, &page);
}

#else

void onednn_drop_pages(void)
{
}

#endif
