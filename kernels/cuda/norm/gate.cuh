/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gate that all blocks of a kernel pass together: none goes on before the
 * last has come.  All of them must be able to be there at once, or those that
 * wait keep out those that they wait for: at most one a multiprocessor.
 *
 * A gate is two counters in the device's memory, zero when the program starts
 * and again whenever a kernel has passed.  A prepared problem has GATE_TURNS of
 * them and takes another for each launch, so that as many launches of it may
 * run at once.  GATE_GROUPS problems have their own; beyond that two share,
 * which matters only to launches that run at the same time.
 */
#ifndef KERNELS_CUDA_NORM_GATE_CUH
#define KERNELS_CUDA_NORM_GATE_CUH

#include "kernels/cuda/cuda_rt.h"

#define GATE_GROUPS 1024
#define GATE_TURNS  8

struct gate {
    unsigned arrived, passed;
};

static __device__ struct gate gates[GATE_GROUPS * GATE_TURNS];

/* What a thread has written before is what all threads of all blocks read
 * behind, with gate_load(). */
static __device__ __forceinline__ void gate_pass(unsigned number)
{
    struct gate *g = &gates[number];

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

static __device__ __forceinline__ float gate_load(const float *p)
{
    return __ldcg(p);
}

/* ---- the host's side ----------------------------------------------- */

/* A group of gates for a prepared problem. */
static inline unsigned gate_group(void)
{
    static unsigned next;

    return __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED) % GATE_GROUPS;
}

/* The gate of the next launch; *turn is the problem's, from 0 on. */
static inline unsigned gate_next(unsigned group, unsigned *turn)
{
    return group * GATE_TURNS +
           __atomic_fetch_add(turn, 1, __ATOMIC_RELAXED) % GATE_TURNS;
}

#endif
