/* SPDX-License-Identifier: Apache-2.0 */
/* Integer arithmetic that saturates, as that of the reference does. */
#ifndef KERNELS_CUDA_INTEGER_CUH
#define KERNELS_CUDA_INTEGER_CUH

#include <stdint.h>

static __device__ int64_t integer_add(int64_t a, int64_t b)
{
    const int64_t r = (int64_t)((uint64_t)a + (uint64_t)b);

    if (((a ^ r) & (b ^ r)) < 0)
        return a < 0 ? INT64_MIN : INT64_MAX;
    return r;
}

static __device__ int64_t integer_multiply(int64_t a, int64_t b)
{
    const int64_t low = (int64_t)((uint64_t)a * (uint64_t)b);

    if (__mul64hi(a, b) != low >> 63)
        return (a < 0) != (b < 0) ? INT64_MIN : INT64_MAX;
    return low;
}

#endif
