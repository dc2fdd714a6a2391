/* SPDX-License-Identifier: Apache-2.0 */
/* Another order of a vendor's engines (kernels/test_hooks.h).  A problem's
 * first variant is tried so without preparing the usual first one, which may
 * take half a second to compile. */
#ifndef TESTS_ENGINE_ORDER_H
#define TESTS_ENGINE_ORDER_H

#include <stddef.h>

/* The calling thread's engines begin with this number, counted round; 0 is the
 * usual order. */
static _Thread_local int first_engine;

static inline void reverse_engines(unsigned char *at, size_t size, int count)
{
    for (int i = 0; i < count / 2; i++) {
        unsigned char *a = at + (size_t)i * size;
        unsigned char *b = at + (size_t)(count - 1 - i) * size;
        for (size_t k = 0; k < size; k++) {
            const unsigned char c = a[k];
            a[k] = b[k];
            b[k] = c;
        }
    }
}

static inline void order_engines(void *engine, size_t size, int count)
{
    unsigned char *at = engine;
    const int n = count > 0 ? first_engine % count : 0;

    if (n == 0)
        return;
    reverse_engines(at, size, n);
    reverse_engines(at + (size_t)n * size, size, count - n);
    reverse_engines(at, size, count);
}

#endif
