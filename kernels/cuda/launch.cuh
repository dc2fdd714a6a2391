/* SPDX-License-Identifier: Apache-2.0 */
/* Launching kernels that take one struct by value. */
#ifndef KERNELS_CUDA_LAUNCH_CUH
#define KERNELS_CUDA_LAUNCH_CUH

#include "kernels/cuda/cuda_rt.h"

/* Dynamic shared memory of the block, aligned for TMA's swizzle. */
#define LAUNCH_SHARED(name)                                                    \
    extern __shared__ __align__(1024) unsigned char name[]

/* ---- chains -------------------------------------------------------- */

/* A chained kernel (compute capability 9.0 and up) may be started while the one
 * before it in its stream still runs: what a launch costs, and what the kernel
 * does before launch_wait(), is hidden.  Every thread calls launch_wait()
 * before it reads what a kernel may have written, or writes anything; only
 * constants may be read earlier.  The next kernel may be started when all
 * blocks of this one have called it or launch_release(), or ended.  Kernels of
 * others need not wait: device_launch() puts a fence in front of them. */
static __device__ __forceinline__ void launch_release(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

static __device__ __forceinline__ void launch_wait(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;\n\t"
                 "griddepcontrol.wait;" ::
                     : "memory");
#endif
}

/* launch_kernel() for a kernel that calls launch_wait(). */
template <typename Args>
static int launch_chained(void (*kernel)(const Args), dim3 grid, dim3 threads,
                          size_t shared, void *stream, Args args,
                          struct infer_error *err)
{
    const void *entry = reinterpret_cast<const void *>(kernel);
    void *list[] = {&args};
    cudaLaunchAttribute attribute = {};
    cudaLaunchConfig_t config = {};

    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    config.gridDim = grid;
    config.blockDim = threads;
    config.dynamicSmemBytes = shared;
    config.stream = (cudaStream_t)stream;
    config.attrs = &attribute;
    config.numAttrs = cuda_can_chain() ? 1 : 0;
    return cuda_launch(&config, entry, list, err);
}

/* Launches on the caller's current device; neither allocates nor waits. */
template <typename Args>
static int launch_kernel(void (*kernel)(const Args), dim3 grid,
                         unsigned threads, size_t shared, void *stream,
                         Args args, struct infer_error *err)
{
    const void *entry = reinterpret_cast<const void *>(kernel);
    void *list[] = {&args};
    cudaLaunchConfig_t config = {};

    config.gridDim = grid;
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared;
    config.stream = (cudaStream_t)stream;
    return cuda_launch(&config, entry, list, err);
}

/* launch_chained() in clusters of `cluster` blocks, of which a grid of `blocks`
 * is a multiple: the blocks of a cluster run together and see each other's
 * shared memory.  Clusters of 1 are launched as by launch_chained(), larger
 * ones need compute capability 9.0. */
template <typename Args>
static int launch_clusters(void (*kernel)(const Args), int blocks, int cluster,
                           unsigned threads, size_t shared, void *stream,
                           Args args, struct infer_error *err)
{
    const void *entry = reinterpret_cast<const void *>(kernel);
    void *list[] = {&args};
    cudaLaunchAttribute attributes[2] = {};
    cudaLaunchConfig_t config = {};

    if (cluster == 1)
        return launch_chained(kernel, dim3((unsigned)blocks), dim3(threads),
                              shared, stream, args, err);
    attributes[0].id = cudaLaunchAttributeClusterDimension;
    attributes[0].val.clusterDim.x = (unsigned)cluster;
    attributes[0].val.clusterDim.y = 1;
    attributes[0].val.clusterDim.z = 1;
    attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[1].val.programmaticStreamSerializationAllowed = 1;
    config.gridDim = dim3((unsigned)blocks);
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared;
    config.stream = (cudaStream_t)stream;
    config.attrs = attributes;
    config.numAttrs = cuda_can_chain() ? 2 : 1;
    return cuda_launch(&config, entry, list, err);
}

#endif
