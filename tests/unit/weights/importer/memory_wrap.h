/* SPDX-License-Identifier: Apache-2.0 */
/* In the place of the allocator's functions (-Wl,--wrap=malloc and the like,
 * tests/Makefile.inc); once in a program. */
#ifndef TESTS_UNIT_WEIGHTS_IMPORTER_MEMORY_WRAP_H
#define TESTS_UNIT_WEIGHTS_IMPORTER_MEMORY_WRAP_H

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/test.h"
#include "tests/unit/weights/importer/memory_faults.h"

/* Of the linker; absent where a program is linked without the option. */
void *__real_malloc(size_t bytes) __attribute__((weak));
void *__real_calloc(size_t n, size_t bytes) __attribute__((weak));
void *__real_realloc(void *p, size_t bytes) __attribute__((weak));
char *__real_strdup(const char *text) __attribute__((weak));
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *p, size_t bytes);
char *__wrap_strdup(const char *text);

void *__wrap_malloc(size_t bytes)
{
    return memory_fault() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t n, size_t bytes)
{
    return memory_fault() ? NULL : __real_calloc(n, bytes);
}

void *__wrap_realloc(void *p, size_t bytes)
{
    return memory_fault() ? NULL : __real_realloc(p, bytes);
}

char *__wrap_strdup(const char *text)
{
    return memory_fault() ? NULL : __real_strdup(text);
}

/* Lines that allocate more often are left to MEMORY_FAULTS. */
#define MEMORY_MOST 5000

/* Whether two reports begin with the same line.  Later lines may say that
 * memory was out for what else was looked at. */
static bool same_reason(const char *a, const char *b)
{
    const size_t n = strcspn(a, "\n");

    return n == strcspn(b, "\n") && strncmp(a, b, n) == 0;
}

/* One allocation of a line's reader fails: it ends with EMEMORY, or as with
 * memory; `read` reads line number i of a table.  MEMORY_FAULTS=N: N of them,
 * and not one. */
static void check_without_memory(size_t i,
                                 int (*read)(size_t i, char *said, size_t room))
{
    const char *text = getenv("MEMORY_FAULTS");
    const long most = text ? atol(text) : 1;
    char said[2][1024] = {"", ""};
    long all;
    int rc;

    memory_faults = (struct memory_faults){0};
    rc = read(i, said[0], sizeof said[0]);
    all = memory_faults.count;
    if (!text && all > MEMORY_MOST)
        return; /* a long one */
    for (long k = 0; k < most && k < all; k++) {
        const long n = (long)i * 7919 + k * 104729;
        const long at = all <= most ? k : n % all;
        int now;

        memory_faults = (struct memory_faults){.fails = at + 1};
        now = read(i, said[1], sizeof said[1]);
        memory_faults = (struct memory_faults){0};
        if (now != INFER_EMEMORY &&
            (now != rc || !same_reason(said[0], said[1])))
            fail_msg("line %zu without allocation %ld of %ld: %d '%s'", i,
                     at + 1, all, now, said[1]);
    }
}

#endif
