/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that grow. */
#ifndef KERNELS_BASE_ARRAY_H
#define KERNELS_BASE_ARRAY_H

#include <limits.h>
#include <stdlib.h>

#include "kernels/base/checked.h"

/* The array with room for one more element; doubles, so that adding stays
 * linear.  NULL, and the array stays as it was, without memory. */
static inline void *array_reserve(void *array, int count, int *capacity,
                                  size_t size)
{
    const size_t want = *capacity > 0 ? 2 * (size_t)*capacity : 16;
    size_t bytes;
    void *grown;

    if (count < *capacity)
        return array;
    if (want > INT_MAX || !checked_mul(want, size, &bytes))
        return NULL;
    grown = realloc(array, bytes);
    if (grown)
        *capacity = (int)want;
    return grown;
}

#endif
