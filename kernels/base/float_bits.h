/* SPDX-License-Identifier: Apache-2.0 */
/* The bits of a number of single precision, in C and in CUDA. */
#ifndef KERNELS_BASE_FLOAT_BITS_H
#define KERNELS_BASE_FLOAT_BITS_H

#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define FLOAT_BITS_FUNCTION static __host__ __device__ __forceinline__
#else
/* Always inline: loops over them must vectorise for each processor. */
#define FLOAT_BITS_FUNCTION static inline __attribute__((always_inline))
#endif

FLOAT_BITS_FUNCTION uint32_t float_bits(float v)
{
#ifdef __CUDA_ARCH__
    return __float_as_uint(v);
#else
    uint32_t bits;

    memcpy(&bits, &v, sizeof bits);
    return bits;
#endif
}

FLOAT_BITS_FUNCTION float float_of_bits(uint32_t bits)
{
#ifdef __CUDA_ARCH__
    return __uint_as_float(bits);
#else
    float v;

    memcpy(&v, &bits, sizeof v);
    return v;
#endif
}

#endif
