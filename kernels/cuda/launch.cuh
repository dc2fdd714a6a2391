/* SPDX-License-Identifier: Apache-2.0 */
/* Launching kernels that take one struct by value. */
#ifndef KERNELS_CUDA_LAUNCH_CUH
#define KERNELS_CUDA_LAUNCH_CUH

#include "kernels/cuda/cuda.h"

/* Dynamic shared memory of the block, aligned for the copy engine's swizzle. */
#define LAUNCH_SHARED(name)                                                    \
    extern __shared__ __align__(1024) unsigned char name[]

/* Launches on the caller's current device; neither allocates nor waits. */
template <typename Args>
static int launch_kernel(void (*kernel)(const Args), dim3 grid,
                         unsigned threads, size_t shared, void *stream,
                         Args args, struct infer_error *err)
{
    const void *entry = reinterpret_cast<const void *>(kernel);
    void *list[] = {&args};

    if (shared > 48 * 1024) /* beyond that a kernel has to ask */
        CUDA_TRY(err, cudaFuncSetAttribute(
                          entry, cudaFuncAttributeMaxDynamicSharedMemorySize,
                          (int)shared));
    CUDA_TRY(err, cudaLaunchKernel(entry, grid, dim3(threads), list, shared,
                                   (cudaStream_t)stream));
    return CUDA_LAUNCHED(err);
}

#endif
