/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of an array of a type and shape from an untrusted file. */
#ifndef KERNELS_BASE_ARRAY_BYTES_H
#define KERNELS_BASE_ARRAY_BYTES_H

#include "include/infer.h"
#include "kernels/base/checked.h"

/* SIZE_MAX where they do not fit or a size is below 0: more than any limit, and
 * no file's count. */
static inline size_t array_bytes(enum infer_dtype dtype, int rank,
                                 const int64_t *dim)
{
    size_t bytes = 0;
    int64_t count;

    if (!checked_count(rank, dim, &count) ||
        !checked_mul((size_t)count, infer_dtype_size(dtype), &bytes))
        return SIZE_MAX;
    return bytes;
}

#endif
