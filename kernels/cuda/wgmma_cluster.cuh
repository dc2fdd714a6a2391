/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolution on Hopper for few outputs: the blocks of a cluster share a tile
 * of 64 x BN, each with its part of the depth, and add up through each other's
 * shared memory.  wgmma.cuh describes the product and the ring.
 *
 * Threads.  One consumer warpgroup and one warp that fills the ring. blockIdx.x
 * counts tiles, channels fastest, times the blocks of a cluster.
 *
 * The sum.  Each block finishes 64 / size rows of the tile.  Every block sends
 * its partial sums of those rows there: parts[from][row], rows of BN + 8 floats
 * (8 words from row to row spread the 4 rows of a half-warp's float2 stores
 * over all banks).  The owner adds the parts in the order of the ranks, so that
 * the result does not depend on timing, and stores 16 bytes a thread and step.
 *
 * Bytes: STAGES * (64 + WEIGHTS * BN) * 128 + 64 * (BN + 8) * 4 + 16 * STAGES.
 */
#ifndef KERNELS_CUDA_WGMMA_CLUSTER_CUH
#define KERNELS_CUDA_WGMMA_CLUSTER_CUH

#include "kernels/cuda/wgmma.cuh"

template <typename M, int BN, int STAGES> struct wgmma_cluster {
    enum {
        BM = 64,
        THREADS = 160,
        PITCH = BN + 8, /* floats of a row of sums */
        SUMS = STAGES * (BM + M::WEIGHTS * BN) * 128,
        FULL = SUMS + BM * PITCH * 4,
        EMPTY = FULL + STAGES * 8,
        SHARED = EMPTY + STAGES * 8
    };
};

/* Sends the sums to the owners of their rows. */
template <int BN, int PITCH>
static __device__ __forceinline__ void
wgmma_send_sums(const float (&acc)[BN / 2], uint32_t sums, int rank, int size)
{
    const int lane = threadIdx.x % 32, rows = 64 / size;

#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int row = threadIdx.x / 32 * 16 + half * 8 + lane / 4;
        const uint32_t to = hopper_peer(
            sums + ((rank * rows + row % rows) * PITCH + lane % 4 * 2) * 4,
            row / rows);
#pragma unroll
        for (int j = 0; j < BN / 8; j++)
            hopper_peer_store(to + j * 32, acc[j * 4 + half * 2],
                              acc[j * 4 + half * 2 + 1]);
    }
}

/* Finishes this block's rows of the tile at (m0, n0): N channels a step, 16
 * bytes of outputs. */
template <typename T, int BN, int PITCH>
static __device__ __forceinline__ void
wgmma_add_sums(const struct wgmma_args &a, const float *sums, int rank,
               int size, int m0, int n0)
{
    constexpr int N = 16 / (int)sizeof(T), PER_ROW = BN / N;
    const int rows = 64 / size;

    for (int i = threadIdx.x; i < rows * PER_ROW; i += 128) {
        const int row = i / PER_ROW, column = i % PER_ROW * N;
        const int m = m0 + rank * rows + row, n = n0 + column;
        float v[N];
        if (m >= a.g.m || n >= a.g.k)
            continue;
#pragma unroll
        for (int e = 0; e < N; e++)
            v[e] = 0;
#pragma unroll 4
        for (int from = 0; from < size; from++) {
            const float *part = sums + (from * rows + row) * PITCH + column;
#pragma unroll
            for (int e = 0; e < N; e += 4) {
                float four[4];
                load_floats<float, 4>(part + e, four);
                v[e] += four[0];
                v[e + 1] += four[1];
                v[e + 2] += four[2];
                v[e + 3] += four[3];
            }
        }
        if (a.apart)
            output_scalars<T, N>(a.out, m, n, a.g.k, v);
        else
            output_vector<T, N>(a.out, m, n, v);
    }
}

template <typename M, int BN, int STAGES>
static __global__ void __launch_bounds__(160)
    wgmma_cluster_kernel(const __grid_constant__ struct wgmma_args a)
{
    typedef wgmma_cluster<M, BN, STAGES> L;
    LAUNCH_SHARED(shared);
    const uint32_t base = ptx_shared(shared);
    const uint32_t full = base + L::FULL, empty = base + L::EMPTY;
    const int rank = hopper_cluster_rank(), size = hopper_cluster_size();
    const int tile = blockIdx.x / size;
    const int m0 = tile / a.tiles_n * L::BM, n0 = tile % a.tiles_n * BN;
    const int first = rank * a.chunks / size;
    const int end = (rank + 1) * a.chunks / size;
    struct wgmma_ring ring = {0, 0};

    if (threadIdx.x == 128) {
        hopper_prefetch(&a.w);
        hopper_prefetch(&a.x);
        for (int i = 0; i < STAGES; i++) {
            hopper_barrier_init(full + i * 8, 1);
            hopper_barrier_init(empty + i * 8, 4);
        }
        hopper_barrier_publish();
    }
    __syncthreads();
    hopper_cluster_arrive(); /* this block's memory is there */
    launch_release();
    if (threadIdx.x < 128) {
        float acc[1][BN / 2];
        wgmma_multiply<1, BN, STAGES>(M(), acc, &ring, shared, base, full,
                                      empty, 0, L::BM * 128, end - first, 0);
        hopper_cluster_wait();
        wgmma_send_sums<BN, L::PITCH>(acc[0], base + L::SUMS, rank, size);
    } else {
        if (threadIdx.x == 128) {
            const int ahead = wgmma_begin<M, L::BM, BN, STAGES>(a, base, full,
                                                                n0, first, end);
            launch_wait();
            wgmma_produce<M, L::BM, BN, STAGES>(a, &ring, base, full, empty, m0,
                                                n0, first, end, ahead);
        }
        __syncwarp();
        hopper_cluster_wait();
    }
    hopper_cluster_arrive();
    hopper_cluster_wait();
    if (threadIdx.x < 128) {
        launch_wait();
        wgmma_add_sums<typename M::type, BN, L::PITCH>(
            a, (const float *)(shared + L::SUMS), rank, size, m0, n0);
    }
}

#endif
