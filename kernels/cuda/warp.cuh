/* SPDX-License-Identifier: Apache-2.0 */
/* What the 32 threads of a warp find out together: the same result in each,
 * always joined in the same order.  All of them take part. */
#ifndef KERNELS_CUDA_WARP_CUH
#define KERNELS_CUDA_WARP_CUH

static __device__ __forceinline__ float warp_max(float v)
{
    for (int step = 16; step > 0; step /= 2)
        v = fmaxf(v, __shfl_xor_sync(~0u, v, step));
    return v;
}

/* T: float or double. */
template <typename T> static __device__ __forceinline__ T warp_sum(T v)
{
    for (int step = 16; step > 0; step /= 2)
        v += __shfl_xor_sync(~0u, v, step);
    return v;
}

#endif
