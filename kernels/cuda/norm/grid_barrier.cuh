/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A barrier of all blocks of a grid.  All blocks must be resident at once, or
 * those that wait keep out those that they wait for: at most one block a
 * multiprocessor.
 *
 * A barrier is two counters in the device's memory: the blocks that have
 * arrived, zero between kernels, and the kernels that have passed.  A prepared
 * problem has BARRIER_LAUNCHES
 * of them and takes the next for each launch, so that as many launches of it
 * may run at once.  BARRIER_GROUPS problems have their own; beyond that two
 * share a group, which matters only to launches that run at the same time.
 */
#ifndef KERNELS_CUDA_NORM_GRID_BARRIER_CUH
#define KERNELS_CUDA_NORM_GRID_BARRIER_CUH

#include "kernels/cuda/cuda_rt.h"

#define BARRIER_GROUPS   1024
#define BARRIER_LAUNCHES 8

struct grid_barrier {
    unsigned arrived, passed;
};

static __device__ struct grid_barrier
    grid_barriers[BARRIER_GROUPS * BARRIER_LAUNCHES];

/* All threads of all blocks see what any thread wrote before the barrier, if
 * they read it with grid_barrier_load(). */
static __device__ __forceinline__ void grid_barrier_wait(unsigned number)
{
    struct grid_barrier *g = &grid_barriers[number];

    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        const unsigned blocks = gridDim.x * gridDim.y * gridDim.z;
        const unsigned before = *(volatile unsigned *)&g->passed;
        __threadfence(); /* read before this block is counted */
        if (atomicAdd(&g->arrived, 1) == blocks - 1) {
            g->arrived = 0;
            __threadfence();
            atomicAdd(&g->passed, 1);
        } else {
            while (*(volatile unsigned *)&g->passed == before)
                ;
        }
        __threadfence();
    }
    __syncthreads();
}

static __device__ __forceinline__ float grid_barrier_load(const float *p)
{
    return __ldcg(p);
}

/* ---- host ---------------------------------------------------------- */

/* The barriers of a prepared problem. */
static inline unsigned grid_barrier_group(void)
{
    static unsigned next;

    return __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED) % BARRIER_GROUPS;
}

/* The barrier of the next launch; *launches counts those of the problem. */
static inline unsigned grid_barrier_next(unsigned group, unsigned *launches)
{
    return group * BARRIER_LAUNCHES +
           __atomic_fetch_add(launches, 1, __ATOMIC_RELAXED) % BARRIER_LAUNCHES;
}

#endif
