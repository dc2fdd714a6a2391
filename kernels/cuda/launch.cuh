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

/* Launches on the caller's current device, in clusters of `cluster` blocks;
 * neither allocates nor waits.  entry takes what `args` points to. */
static inline int launch_entry(const void *entry, dim3 grid, dim3 threads,
                               int cluster, bool chained, size_t shared,
                               void *stream, void *args,
                               struct infer_error *err)
{
    cudaLaunchAttribute attributes[2] = {};
    cudaLaunchConfig_t config = {};

    config.gridDim = grid;
    config.blockDim = threads;
    config.dynamicSmemBytes = shared;
    config.stream = (cudaStream_t)stream;
    config.attrs = attributes;
    if (cluster > 1) {
        cudaLaunchAttribute *a = &attributes[config.numAttrs++];
        a->id = cudaLaunchAttributeClusterDimension;
        a->val.clusterDim.x = (unsigned)cluster;
        a->val.clusterDim.y = a->val.clusterDim.z = 1;
    }
    if (chained && cuda_can_chain()) {
        cudaLaunchAttribute *a = &attributes[config.numAttrs++];
        a->id = cudaLaunchAttributeProgrammaticStreamSerialization;
        a->val.programmaticStreamSerializationAllowed = 1;
    }
    return cuda_launch(&config, entry, &args, err);
}

/* For a kernel that calls launch_wait(). */
template <typename Args>
static int launch_chained(void (*kernel)(const Args), dim3 grid, dim3 threads,
                          size_t shared, void *stream, Args args,
                          struct infer_error *err)
{
    return launch_entry(reinterpret_cast<const void *>(kernel), grid, threads,
                        1, true, shared, stream, &args, err);
}

template <typename Args>
static int launch_kernel(void (*kernel)(const Args), dim3 grid, dim3 threads,
                         size_t shared, void *stream, Args args,
                         struct infer_error *err)
{
    return launch_entry(reinterpret_cast<const void *>(kernel), grid, threads,
                        1, false, shared, stream, &args, err);
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
    return launch_entry(reinterpret_cast<const void *>(kernel), blocks, threads,
                        cluster, true, shared, stream, &args, err);
}

#endif
