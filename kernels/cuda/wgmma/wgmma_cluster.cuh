/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolution on Hopper for few outputs: the blocks of a cluster share a tile
 * of BM x BN, each with its part of the depth, and add up through each other's
 * shared memory.  wgmma.cuh describes the product and the ring.
 *
 * Threads.  WGS consumer warpgroups, 64 rows each, and one warp that fills the
 * ring.  blockIdx.x counts tiles, channels fastest, times the blocks of a
 * cluster.
 *
 * The sum.  Each block finishes BM / size rows of the tile.  A block lays its
 * partial sums into the ring, which nothing needs any more, rows of BN + 8
 * floats (8 words from row to row spread the 4 rows of a half-warp's float2
 * stores over all banks), and the copy engine sends each owner its rows:
 * parts[from][row].  The owner adds the parts in the order of the ranks, so
 * that the result does not depend on timing, and stores 16 bytes a thread and
 * step.  The bias is where the first rank's sums start; the residuals of a
 * thread's first step are fetched before the products.
 *
 * Bytes: STAGES * (BM + WEIGHTS * BN) * 128 + BM * (BN + 8) * 4 + 16 * STAGES +
 * 8.
 */
#ifndef KERNELS_CUDA_WGMMA_WGMMA_CLUSTER_CUH
#define KERNELS_CUDA_WGMMA_WGMMA_CLUSTER_CUH

#include "kernels/cuda/wgmma/wgmma.cuh"
#include "kernels/cuda/wgmma/wgmma_input_scale.cuh"
#include "kernels/cuda/wgmma/wgmma_finish.cuh"

template <typename M, int WGS, int BN, int STAGES> struct wgmma_cluster {
    enum {
        BM = 64 * WGS,
        CONSUMERS = 128 * WGS,
        THREADS = CONSUMERS + 32,
        MEET = 1,                               /* the consumers' barrier */
        N = 16 / (int)sizeof(typename M::type), /* channels of a step */
        PER_ROW = BN / N,
        PITCH = BN + 8, /* floats of a row of sums */
        SUMS = STAGES * (BM + M::WEIGHTS * BN) * 128,
        SUM_BYTES = BM * PITCH * 4,
        FULL = SUMS + SUM_BYTES,
        EMPTY = FULL + STAGES * 8,
        SUMMED = EMPTY + STAGES * 8, /* all parts have come */
        SHARED = SUMMED + 8
    };
};

/* The residuals of a thread's first step. */
template <typename M, typename L>
static __device__ __forceinline__ void
wgmma_first_residuals(const struct wgmma_args &a, int rank, int size, int m0,
                      int n0, float (&r)[L::N])
{
    const int row = threadIdx.x / L::PER_ROW, rows = L::BM / size;
    const int m = m0 + rank * rows + row;
    const int n = n0 + threadIdx.x % L::PER_ROW * L::N;

    if (a.out.residual && !a.apart && row < rows && m < a.g.m && n < a.g.k)
        output_load_residual<typename M::type, L::N>(a.out, m, n, r);
}

/* Lays the sums into the ring. */
template <typename L, int BN>
static __device__ __forceinline__ void
wgmma_lay_sums(const float (&acc)[BN / 2], uint32_t base)
{
    const int lane = threadIdx.x % 32;
    const int row = threadIdx.x / 32 * 16 + lane / 4;
    const uint32_t to = base + (row * L::PITCH + lane % 4 * 2) * 4;

#pragma unroll
    for (int j = 0; j < BN / 8; j++) {
        hopper_store_pair(to + j * 32, acc[j * 4], acc[j * 4 + 1]);
        hopper_store_pair(to + j * 32 + 8 * L::PITCH * 4, acc[j * 4 + 2],
                          acc[j * 4 + 3]);
    }
}

/* Sends each other owner its rows of the sums. */
template <typename L>
static __device__ __forceinline__ void wgmma_send_sums(uint32_t base, int rank,
                                                       int size)
{
    const int owner = threadIdx.x, bytes = L::SUM_BYTES / size;

    if (owner < size && owner != rank)
        hopper_copy_to_peer(hopper_peer(base + L::SUMS + rank * bytes, owner),
                            base + owner * bytes, bytes,
                            hopper_peer(base + L::SUMMED, owner));
}

/* Finishes this block's rows of the tile at (m0, n0): N channels a step, 16
 * bytes of outputs.  own: what this block laid; r: the first step's residuals.
 */
template <typename M, typename L>
static __device__ __forceinline__ void
wgmma_add_sums(const struct wgmma_args &a, const float *own, const float *sums,
               int rank, int size, int m0, int n0, float (&r)[L::N])
{
    typedef typename M::type T;
    const int rows = L::BM / size, column = threadIdx.x % L::PER_ROW * L::N;
    struct output_args out = a.out;

    out.bias = NULL; /* added */
    for (int row = threadIdx.x / L::PER_ROW; row < rows;
         row += L::CONSUMERS / L::PER_ROW) {
        const int m = m0 + rank * rows + row, n = n0 + column;
        const bool later = row >= L::CONSUMERS / L::PER_ROW;
        float v[L::N];
        if (m >= a.g.m || n >= a.g.k)
            continue;
        if (out.residual && !a.apart && later)
            output_load_residual<T, L::N>(out, m, n, r);
#pragma unroll
        for (int e = 0; e < L::N; e++)
            v[e] = 0;
#pragma unroll 4
        for (int from = 0; from < size; from++) {
            const float *part = (from == rank ? own : sums) +
                                (from * rows + row) * L::PITCH + column;
#pragma unroll
            for (int e = 0; e < L::N; e += 4) {
                float four[4];
                load_floats<float, 4>(part + e, four);
                v[e] += four[0];
                v[e + 1] += four[1];
                v[e + 2] += four[2];
                v[e + 3] += four[3];
            }
        }
        if (a.apart)
            output_scalars<T, L::N>(out, m, n, a.g.k, v);
        else
            output_with_residual<T, L::N>(out, m, n, v, r);
    }
}

template <typename M, int WGS, int BN, int STAGES>
static __device__ __forceinline__ void
wgmma_cluster_consume(const struct wgmma_args &a, unsigned char *shared,
                      uint32_t base, int rank, int size, int m0, int n0,
                      int first, int chunks)
{
    typedef wgmma_cluster<M, WGS, BN, STAGES> L;
    struct wgmma_ring ring = {0, 0};
    struct wgmma_beside<M, 1> beside;
    float acc[1][BN / 2], r[L::N] = {};

    if (!a.known)
        launch_wait();
    wgmma_start_sums<1, BN>(rank == 0 ? a.out.bias : NULL, a.g.k, n0, acc);
    launch_wait();
    wgmma_begin_beside(beside, a, m0 + hopper_group() * 64, first);
    wgmma_first_residuals<M, L>(a, rank, size, m0, n0, r);
    wgmma_multiply<1, BN, STAGES>(M(), acc, &ring, shared, base, base + L::FULL,
                                  base + L::EMPTY, hopper_group() * 8192,
                                  L::BM * 128, chunks, 0, beside);
    if (size > 1)
        hopper_cluster_wait();          /* the peers' barriers are there */
    hopper_sync(L::MEET, L::CONSUMERS); /* nobody reads the ring any more */
    wgmma_lay_sums<L, BN>(acc[0], base);
    if (size > 1)
        hopper_publish();
    hopper_sync(L::MEET, L::CONSUMERS);
    if (size > 1) {
        wgmma_send_sums<L>(base, rank, size);
        hopper_barrier_wait(base + L::SUMMED, 0);
        hopper_cluster_arrive(); /* nothing comes from the peers any more */
    }
    wgmma_add_sums<M, L>(a, (const float *)shared,
                         (const float *)(shared + L::SUMS), rank, size, m0, n0,
                         r);
}

template <typename M, int WGS, int BN, int STAGES>
static __global__ void __launch_bounds__(128 * WGS + 32)
    wgmma_cluster_kernel(const __grid_constant__ struct wgmma_args a)
{
    typedef wgmma_cluster<M, WGS, BN, STAGES> L;
    LAUNCH_SHARED(shared);
    const uint32_t base = ptx_shared(shared);
    const uint32_t full = base + L::FULL, empty = base + L::EMPTY;
    const int rank = hopper_cluster_rank(), size = hopper_cluster_size();
    const int tile = blockIdx.x / size;
    const int m0 = tile / a.tiles_n * L::BM, n0 = tile % a.tiles_n * BN;
    const int first = rank * a.chunks / size;
    const int end = (rank + 1) * a.chunks / size;

    if (threadIdx.x == L::CONSUMERS) {
        hopper_prefetch(&a.w);
        hopper_prefetch(&a.x);
        for (int i = 0; i < STAGES; i++) {
            hopper_barrier_init(full + i * 8, 1);
            hopper_barrier_init(empty + i * 8, 4 * WGS);
        }
        hopper_barrier_init(base + L::SUMMED, 1);
        hopper_barrier_publish();
        hopper_barrier_expect(base + L::SUMMED,
                              L::SUM_BYTES / size * (size - 1));
    }
    __syncthreads();
    if (size > 1)
        hopper_cluster_arrive(); /* this block's barriers are there */
    launch_release();
    if (threadIdx.x < L::CONSUMERS) {
        wgmma_cluster_consume<M, WGS, BN, STAGES>(a, shared, base, rank, size,
                                                  m0, n0, first, end - first);
    } else {
        if (threadIdx.x == L::CONSUMERS) {
            struct wgmma_ring ring = {0, 0};
            const int ahead = wgmma_begin<M, L::BM, BN, STAGES>(a, base, full,
                                                                n0, first, end);
            launch_wait();
            wgmma_produce<M, L::BM, BN, STAGES>(a, &ring, base, full, empty, m0,
                                                n0, first, end, ahead);
        }
        __syncwarp();
        if (size > 1) {
            hopper_cluster_wait();
            hopper_cluster_arrive();
        }
    }
    if (size > 1)
        hopper_cluster_wait(); /* the peers have what this block sent */
}

#endif
