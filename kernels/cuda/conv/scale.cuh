/* SPDX-License-Identifier: Apache-2.0 */
/* Two adjacent numbers of 16 bits times their scale (kernels/input_scale.h),
 * each product rounded to the type. */
#ifndef KERNELS_CUDA_CONV_SCALE_CUH
#define KERNELS_CUDA_CONV_SCALE_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>
#include <string.h>

extern "C" {
#include "kernels/input_scale.h"
}

template <typename PAIR>
static __device__ __forceinline__ uint32_t scale_words(uint32_t x,
                                                       uint32_t factor)
{
    PAIR a, b;

    memcpy(&a, &x, sizeof(a));
    memcpy(&b, &factor, sizeof(b));
    a = __hmul2(a, b);
    memcpy(&x, &a, sizeof(x));
    return x;
}

static __device__ __forceinline__ uint32_t scale_pair(__half, uint32_t x,
                                                      uint32_t factor)
{
    return scale_words<__half2>(x, factor);
}

static __device__ __forceinline__ uint32_t scale_pair(__nv_bfloat16, uint32_t x,
                                                      uint32_t factor)
{
    return scale_words<__nv_bfloat162>(x, factor);
}

#endif
