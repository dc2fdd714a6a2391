/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolution on Hopper for few outputs: the CTAs of a cluster share a tile of
 * BM x BN, each with its part of the depth (split-K), and add up their partial
 * sums through distributed shared memory.  wgmma.cuh describes the product and
 * the pipeline.
 *
 * Threads.  WGS consumer warpgroups, 64 rows each, and one producer warp.
 * blockIdx.x counts tiles, channels fastest, times the CTAs of a cluster.
 *
 * The sum.  Each CTA finishes BM / size rows of the tile.  A CTA stores its
 * partial sums into the pipeline's memory, which is free by then, rows of BN +
 * 8 floats (8 words from row to row spread the 4 rows of a half-warp's float2
 * stores over all banks), and bulk copies send each owner its rows:
 * parts[from][row].  The owner adds them in the order of the ranks, so that the
 * result does not depend on timing, and stores 16 bytes a thread and step.  The
 * first rank's sums start with the bias; the residuals of a thread's first step
 * are loaded before the products.
 *
 * Bytes: STAGES * (BM + WEIGHTS * BN) * 128 + BM * (BN + 8) * 4 + 16 * STAGES +
 * 8.
 */
#ifndef KERNELS_CUDA_WGMMA_WGMMA_CLUSTER_CUH
#define KERNELS_CUDA_WGMMA_WGMMA_CLUSTER_CUH

#include "kernels/cuda/wgmma/wgmma.cuh"
#include "kernels/cuda/wgmma/wgmma_input_scale.cuh"
#include "kernels/cuda/wgmma/wgmma_8bit.cuh"
#include "kernels/cuda/wgmma/wgmma_finish.cuh"

/* Bytes of shared memory up to which two CTAs fit a multiprocessor: half of
 * 233,472, of which the driver takes 1,024 a CTA. */
#define WGMMA_SHARED_TWO_CTAS 115712

template <typename M, int WGS_, int BN_, int STAGES_> struct wgmma_cluster {
    typedef M mode;
    typedef typename M::type T;
    typedef typename M::sum sum;
    enum {
        WGS = WGS_,
        BN = BN_,
        STAGES = STAGES_,
        CLUSTER = 1,
        BM = 64 * WGS,
        CONSUMERS = 128 * WGS,
        THREADS = CONSUMERS + 32,
        CONSUMER_BARRIER = 1,                   /* the consumers' barrier */
        N = 16 / (int)sizeof(typename M::type), /* channels of a step */
        PER_ROW = BN / N,
        PITCH = BN + 8,                       /* floats of a row of sums */
        STAGE = (BM + M::WEIGHTS * BN) * 128, /* bytes */
        SUMS = STAGES * STAGE,
        SUM_BYTES = BM * PITCH * 4,
        FULL = SUMS + SUM_BYTES,
        EMPTY = FULL + STAGES * 8,
        SUMMED = EMPTY + STAGES * 8, /* all partial sums have arrived */
        SHARED = SUMMED + 8,
        TWO_FIT = SHARED <= WGMMA_SHARED_TWO_CTAS,
        DEEP = !TWO_FIT && STAGES > 5
    };
};

/* The residuals of a thread's first step. */
template <typename L>
static __device__ __forceinline__ void
wgmma_first_residuals(const struct wgmma_args &a, int rank, int size, int m0,
                      int n0, float (&r)[L::N])
{
    const int row = threadIdx.x / L::PER_ROW, rows = L::BM / size;
    const int m = m0 + rank * rows + row;
    const int n = n0 + threadIdx.x % L::PER_ROW * L::N;

    if (a.out.residual && !a.unaligned && row < rows && m < a.g.m && n < a.g.k)
        output_load_residual<typename L::T, L::N>(a.out, m, n, r);
}

/* Stores the partial sums into the pipeline's memory. */
template <typename L>
static __device__ __forceinline__ void
wgmma_stage_partials(const float (&acc)[L::BN / 2], uint32_t base)
{
    const int lane = threadIdx.x % 32;
    const int row = threadIdx.x / 32 * 16 + lane / 4;
    const uint32_t to = base + (row * L::PITCH + lane % 4 * 2) * 4;

#pragma unroll
    for (int j = 0; j < L::BN / 8; j++) {
        st_shared_v2(to + j * 32, acc[j * 4], acc[j * 4 + 1]);
        st_shared_v2(to + j * 32 + 8 * L::PITCH * 4, acc[j * 4 + 2],
                     acc[j * 4 + 3]);
    }
}

/* Sends each other owner its rows of the partial sums. */
template <typename L>
static __device__ __forceinline__ void wgmma_send_partials(uint32_t base,
                                                           int rank, int size)
{
    const int owner = threadIdx.x, bytes = L::SUM_BYTES / size;

    if (owner < size && owner != rank)
        cluster_copy(cluster_map_shared(base + L::SUMS + rank * bytes, owner),
                     base + owner * bytes, bytes,
                     cluster_map_shared(base + L::SUMMED, owner));
}

/* Finishes this CTA's rows of the tile at (m0, n0): N channels a step, 16 bytes
 * of outputs. own: this CTA's partial sums; r: the first step's residuals. */
template <typename L>
static __device__ __forceinline__ void
wgmma_reduce_partials(const struct wgmma_args &a, const float *own,
                      const float *sums, int rank, int size, int m0, int n0,
                      float (&r)[L::N])
{
    typedef typename L::T T;
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
        if (out.residual && !a.unaligned && later)
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
        if (a.unaligned)
            output_scalars<T, L::N>(out, m, n, a.g.k, v);
        else
            output_with_residual<T, L::N>(out, m, n, v, r);
    }
}

/* SMOOTH: of integers, the activation is one of kernels/quant/act.h. */
template <typename L, bool SMOOTH>
static __device__ __forceinline__ void
wgmma_cluster_consume(const struct wgmma_args &a, unsigned char *shared,
                      uint32_t base, int rank, int size, int m0, int n0,
                      int first, int k_tiles)
{
    struct pipeline_state pipe = {0, 0};
    struct wgmma_operand_state<typename L::mode, 1> operand;
    typename L::sum acc[1][L::BN / 2];
    float r[L::N] = {};

    if (!a.constant_bias)
        launch_wait();
    if constexpr (L::mode::BYTES)
        wgmma_start_8bit<1, L::BN>(rank == 0 ? a.quant.offset : NULL, a.g.k, n0,
                                   acc);
    else
        wgmma_start_sums<1, L::BN>(rank == 0 ? a.out.bias : NULL, a.g.k, n0,
                                   acc);
    launch_wait();
    wgmma_operand_begin(operand, a, m0 + warpgroup_index() * 64, first);
    if constexpr (!L::mode::BYTES)
        wgmma_first_residuals<L>(a, rank, size, m0, n0, r);
    wgmma_multiply<L::STAGES>(typename L::mode(), acc, &pipe, shared, base,
                              base + L::FULL, base + L::EMPTY,
                              warpgroup_index() * 8192, L::BM * 128, k_tiles, 0,
                              operand);
    if (size > 1)
        cluster_wait(); /* the peers' barriers are initialised */
    named_barrier_sync(L::CONSUMER_BARRIER,
                       L::CONSUMERS); /* all products are done */
    if constexpr (L::mode::BYTES)
        wgmma_stage_8bit<L::BN, L::PITCH>(acc[0], base);
    else
        wgmma_stage_partials<L>(acc[0], base);
    if (size > 1)
        fence_proxy_async();
    named_barrier_sync(L::CONSUMER_BARRIER, L::CONSUMERS);
    if (size > 1) {
        wgmma_send_partials<L>(base, rank, size);
        mbarrier_wait(base + L::SUMMED, 0);
        cluster_arrive(); /* all of the peers' sums are here */
    }
    if constexpr (L::mode::BYTES)
        wgmma_reduce_8bit<L, SMOOTH>(
            a, (const typename L::sum *)shared,
            (const typename L::sum *)(shared + L::SUMS), rank, size, m0, n0);
    else
        wgmma_reduce_partials<L>(a, (const float *)shared,
                                 (const float *)(shared + L::SUMS), rank, size,
                                 m0, n0, r);
}

template <typename L, bool SMOOTH = false>
static __global__ void __launch_bounds__(L::THREADS)
    wgmma_cluster_kernel(const __grid_constant__ struct wgmma_args a)
{
    LAUNCH_SHARED(shared);
    const uint32_t base = ptx_shared(shared);
    const uint32_t full = base + L::FULL, empty = base + L::EMPTY;
    const int rank = cluster_rank(), size = cluster_size();
    const int tile = blockIdx.x / size;
    const int m0 = tile / a.tiles_n * L::BM, n0 = tile % a.tiles_n * L::BN;
    const int first = rank * a.k_tiles / size;
    const int end = (rank + 1) * a.k_tiles / size;

    if (threadIdx.x == L::CONSUMERS) {
        tma_prefetch_descriptor(a.g.k % L::BN == 0 ? &a.w : &a.w_tail);
        tma_prefetch_descriptor(&a.x);
        for (int i = 0; i < L::STAGES; i++) {
            mbarrier_init(full + i * 8, 1);
            mbarrier_init(empty + i * 8, 4 * L::WGS);
        }
        mbarrier_init(base + L::SUMMED, 1);
        fence_mbarrier_init();
        mbarrier_arrive_expect_tx(base + L::SUMMED,
                                  L::SUM_BYTES / size * (size - 1));
    }
    __syncthreads();
    if (size > 1)
        cluster_arrive(); /* this CTA's barriers are initialised */
    launch_release();
    if (threadIdx.x < L::CONSUMERS) {
        wgmma_cluster_consume<L, SMOOTH>(a, shared, base, rank, size, m0, n0,
                                         first, end - first);
    } else {
        if (threadIdx.x == L::CONSUMERS) {
            struct pipeline_state pipe = {0, 0};
            int ahead = 0;
            if constexpr (!L::mode::B_MN_MAJOR) /* constant */
                ahead =
                    wgmma_prefetch_weights<L>(a, base, full, n0, first, end);
            launch_wait();
            wgmma_produce<L>(a, &pipe, base, full, empty, m0, n0, first, end,
                             ahead);
        }
        __syncwarp();
        if (size > 1) {
            cluster_wait();
            cluster_arrive();
        }
    }
    if (size > 1)
        cluster_wait(); /* the peers have received this CTA's sums */
}

#endif
