/* SPDX-License-Identifier: Apache-2.0 */
/* Counts what the process allocates from the C library: to be included by one
 * file of a program. */
#ifndef TESTS_UNIT_MEMORY_ALLOCATIONS_H
#define TESTS_UNIT_MEMORY_ALLOCATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h> /* __GLIBC__ */

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) &&                    \
    !defined(__SANITIZE_THREAD__)
#define COUNT_ALLOCATIONS 1

static int allocations;
static size_t largest_allocation; /* bytes */

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *p, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);
void *malloc(size_t bytes);
void *calloc(size_t n, size_t bytes);
void *realloc(void *p, size_t bytes);
int posix_memalign(void **out, size_t align, size_t bytes);
void *aligned_alloc(size_t align, size_t bytes);

static void count(size_t bytes)
{
    size_t largest = __atomic_load_n(&largest_allocation, __ATOMIC_RELAXED);

    __atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED);
    while (bytes > largest && !__atomic_compare_exchange_n(
                                  &largest_allocation, &largest, bytes, true,
                                  __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

void *malloc(size_t bytes)
{
    count(bytes);
    return __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
    count(n * bytes);
    return __libc_calloc(n, bytes);
}

void *realloc(void *p, size_t bytes)
{
    count(bytes);
    return __libc_realloc(p, bytes);
}

int posix_memalign(void **out, size_t align, size_t bytes)
{
    count(bytes);
    *out = __libc_memalign(align, bytes);
    return *out ? 0 : 12; /* ENOMEM */
}

void *aligned_alloc(size_t align, size_t bytes)
{
    count(bytes);
    return __libc_memalign(align, bytes);
}
#endif

#endif
