/* SPDX-License-Identifier: Apache-2.0 */
/* An empty kernel outside of the chain (launch.cuh): it starts when the kernels
 * before it have ended, and the next launch starts when it has ended. */
#include "kernels/cuda/launch.cuh"

static __global__ void fence_kernel(void)
{
}

extern "C" int cuda_fence(void *stream, struct infer_error *err)
{
    cudaLaunchConfig_t config = {};

    if (!cuda_can_chain())
        return 0;
    config.gridDim = config.blockDim = dim3(1);
    config.stream = (cudaStream_t)stream;
    return cuda_launch(&config, (const void *)fence_kernel, NULL, err);
}
