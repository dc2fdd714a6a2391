/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A convolution of any window and the 1x1 behind it in one kernel, on Hopper.
 * wgmma.cuh describes the first product and its pipeline, wgmma_tile.cuh the
 * threads, ping-pong and registers, which are the same here.
 *
 * A consumer computes 128 pixels by all middle channels as a convolution of its
 * own would, but for the end: activated and rounded to 16 bits its sums are the
 * operand x of the second product, whose fragments have the layout of sums, so
 * that nothing leaves the registers.  The second product takes 64 outputs at a
 * time, a chunk of w2, which every tile needs as a whole: each consumer has a
 * ring of two chunks, which a warp of its own fills, together with the
 * residuals of the chunk.  While one consumer multiplies chunks and stores, the
 * other one's first product runs.
 *
 * A chunk in shared memory: for each 64 middle channels, 64 rows (outputs) of
 * 128 bytes in the 128-byte swizzle.  Channels past the last are zeros in w2,
 * and in x by selection: their sums were never defined.
 */
#ifndef KERNELS_CUDA_CHAIN_CHAIN_WGMMA_CUH
#define KERNELS_CUDA_CHAIN_CHAIN_WGMMA_CUH

#include "kernels/cuda/wgmma/wgmma_tile.cuh"

struct chain_wgmma_args {
    struct wgmma_args first;  /* its out: bias and activation of the middle */
    struct wgmma_args second; /* its w: w2, K rows of the middle channels */
};

/* BN: middle channels of a tile. */
template <typename T_, int BN_, int STAGES_, int EPI_STAGES_>
struct chain_wgmma_tile
    : wgmma_tile<wgmma_half<T_, 0>, 2, 1, 2, BN_, STAGES_, EPI_STAGES_> {
    typedef wgmma_tile<wgmma_half<T_, 0>, 2, 1, 2, BN_, STAGES_, EPI_STAGES_>
        tile;
    enum {
        STEPS = BN_ / 16, /* of depth, of the second product */
        OUTPUTS = 64,     /* of a chunk */
        RING = 2,         /* chunks of a consumer */
        CHUNK_BYTES = BN_ / 64 * 8192,
        RING_AT = ((int)tile::SHARED + 1023) / 1024 * 1024,
        RING_FULL = RING_AT + 2 * RING * CHUNK_BYTES,
        RING_EMPTY = RING_FULL + 2 * RING * 8,
        SHARED = RING_EMPTY + 2 * RING * 8
    };
};

/* ---- the middle ---------------------------------------------------- */

/* v, 32 activated sums of box `box`, as four steps of depth of the second
 * product.  channels: those that exist. */
template <typename L>
static __device__ __forceinline__ void
chain_wgmma_pack(const float *v, int box, int channels,
                 uint32_t (&x)[L::MT][L::STEPS][4])
{
    constexpr int PARTS = L::BN / 64;

#pragma unroll
    for (int i = 0; i < 16; i++) {
        const int step = box % PARTS * 4 + i / 4, e = i % 4;
        const bool any = step * 16 + e / 2 * 8 < channels;
        x[box / PARTS][step][e] =
            any ? wgmma_pair<typename L::T>(v[i * 2], v[i * 2 + 1]) : 0;
    }
}

/* The operand of the second product from the sums of the first. */
template <typename L, wgmma_epilogue_kind KIND>
static __device__ __forceinline__ void
chain_wgmma_middle(struct kern_unary act, int channels,
                   float (&acc)[L::MT][L::BN / 2],
                   uint32_t (&x)[L::MT][L::STEPS][4])
{
    constexpr int PARTS = L::BN / 64;

#pragma unroll
    for (int box = 0; box < L::MT * PARTS; box++) {
        float *v = acc[box / PARTS] + box % PARTS * 32;
        if constexpr (KIND == WGMMA_PIECEWISE_LINEAR)
            unary_piecewise_linear<32>(act, v);
        else
            unary_inline<32>(act, v);
        chain_wgmma_pack<L>(v, box, channels, x);
    }
#pragma unroll
    for (int i = 0; i < L::MT * L::STEPS * 4; i++)
        register_fence(x[i / 4 / L::STEPS][i / 4 % L::STEPS][i % 4]);
}

/* ---- the second product -------------------------------------------- */

/* 128 pixels from m0 on, chunk by chunk.  chunk: of the consumer's ring. */
template <typename L, wgmma_epilogue_kind KIND>
static __device__ __forceinline__ void
chain_wgmma_second(const struct chain_wgmma_args &a,
                   const uint32_t (&x)[L::MT][L::STEPS][4],
                   struct pipeline_state *chunk, struct wgmma_epilogue *s,
                   unsigned char *shared, uint32_t base, int role, int m0)
{
#pragma unroll 1
    for (int n = 0; n < a.second.g.k; n += L::OUTPUTS) {
        const int at = role * L::RING + chunk->stage;
        const uint64_t w =
            smem_desc_k_major(base + L::RING_AT + at * L::CHUNK_BYTES);
        float acc[L::MT][L::OUTPUTS / 2];
        wgmma_start_sums<L::MT, L::OUTPUTS>(a.second.out.bias, a.second.g.k, n,
                                            acc);
        mbarrier_wait(base + L::RING_FULL + at * 8, chunk->parity);
        wgmma_arrive();
#pragma unroll
        for (int k = 0; k < L::STEPS; k++)
#pragma unroll
            for (int mt = 0; mt < L::MT; mt++)
                wgmma_mma_rs(typename L::T(), acc[mt], x[mt][k],
                             w + k / 4 * (8192 >> 4) + k % 4 * 2, true);
        wgmma_commit_group();
        wgmma_wait_group<0>();
        if (threadIdx.x % 32 == 0)
            mbarrier_arrive(base + L::RING_EMPTY + at * 8);
        pipeline_next<L::RING>(chunk);
#pragma unroll
        for (int mt = 0; mt < L::MT; mt++)
            wgmma_send<L, KIND>(a.second, acc[mt], s, shared, base, role,
                                m0 + mt * 64, n);
    }
}

/* ---- the kernel ---------------------------------------------------- */

template <typename L, wgmma_epilogue_kind KIND>
static __device__ __forceinline__ void
chain_wgmma_consume(const struct chain_wgmma_args &a, unsigned char *shared,
                    uint32_t base)
{
    const struct wgmma_args &f = a.first;
    const int role = warpgroup_index();
    struct pipeline_state pipe = {0, 0}, chunk = {0, 0};
    struct wgmma_epilogue epilogue = {{0, 0}, false};

    pipeline_skip<L::STAGES>(&pipe, role * f.k_tiles);
    if (role == 1)
        named_barrier_arrive(L::ORDER_BARRIER, 256);
    if (!f.constant_bias || !a.second.constant_bias)
        launch_wait();
    for (int tile = blockIdx.x + role * gridDim.x; tile < f.tiles_m;
         tile += 2 * gridDim.x) {
        const int m0 = tile * L::BM;
        float acc[L::MT][L::BN / 2];
        uint32_t x[L::MT][L::STEPS][4];
        struct wgmma_operand_state<typename L::mode, L::MT> operand;
        wgmma_start_sums<L::MT, L::BN>(f.out.bias, f.g.k, 0, acc);
        wgmma_operand_begin(operand, f, m0, 0);
        named_barrier_sync(L::ORDER_BARRIER + role, 256);
        wgmma_multiply<L::STAGES>(typename L::mode(), acc, &pipe, shared, base,
                                  base + L::FULL, base + L::EMPTY, 0,
                                  L::X_BYTES, f.k_tiles,
                                  L::ORDER_BARRIER + 1 - role, operand);
        pipeline_skip<L::STAGES>(&pipe, f.k_tiles);
        chain_wgmma_middle<L, KIND>(f.out.epilogue.act, f.g.k, acc, x);
        if (!epilogue.used)
            launch_wait();
        chain_wgmma_second<L, KIND>(a, x, &chunk, &epilogue, shared, base, role,
                                    m0);
    }
    if (threadIdx.x % 32 == 0)
        tma_store_wait_group<0>();
}

/* Loads a chunk of w2. */
template <typename L>
static __device__ __forceinline__ void
chain_wgmma_load_chunk(const struct chain_wgmma_args &a, uint32_t base,
                       int role, struct pipeline_state *chunk, int n)
{
    const int at = role * L::RING + chunk->stage;
    const uint32_t full = base + L::RING_FULL + at * 8;
    const uint32_t to = base + L::RING_AT + at * L::CHUNK_BYTES;

    mbarrier_wait(base + L::RING_EMPTY + at * 8, chunk->parity ^ 1);
    mbarrier_arrive_expect_tx(full, L::CHUNK_BYTES);
#pragma unroll
    for (int j = 0; j < L::BN / 64; j++)
        tma_load_2d(to + j * 8192, &a.second.w, full, j * 64, n);
    pipeline_next<L::RING>(chunk);
}

/* Fills a consumer's ring and its epilogue stages with residuals, in the order
 * of chain_wgmma_second(). */
template <typename L>
static __device__ __forceinline__ void
chain_wgmma_feed(const struct chain_wgmma_args &a, uint32_t base, int role)
{
    struct pipeline_state chunk = {0, 0}, r = {0, 0};

    launch_wait();
    for (int tile = blockIdx.x + role * gridDim.x; tile < a.first.tiles_m;
         tile += 2 * gridDim.x)
        for (int n = 0; n < a.second.g.k; n += L::OUTPUTS) {
            chain_wgmma_load_chunk<L>(a, base, role, &chunk, n);
            for (int mt = 0; a.second.out.residual && mt < L::MT; mt++) {
                const int epi = role * L::EPI_STAGES + r.stage;
                const uint32_t barrier = base + L::LOADED + epi * 8;
                mbarrier_wait(base + L::FREED + epi * 8, r.parity ^ 1);
                mbarrier_arrive_expect_tx(barrier, L::EPI_BYTES);
                tma_load_2d(base + L::EPI_AT + epi * L::EPI_BYTES,
                            &a.second.residual, barrier, n,
                            tile * L::BM + mt * 64);
                pipeline_next<L::EPI_STAGES>(&r);
            }
        }
}

template <typename L, wgmma_epilogue_kind KIND>
static __global__ void __launch_bounds__(L::THREADS, 1)
    chain_wgmma_kernel(const __grid_constant__ struct chain_wgmma_args a)
{
    LAUNCH_SHARED(shared);
    const uint32_t base = ptx_shared(shared);

    if (threadIdx.x == 0) {
        tma_prefetch_descriptor(&a.first.x);
        tma_prefetch_descriptor(&a.first.w);
        tma_prefetch_descriptor(&a.second.w);
        for (int i = 0; i < L::STAGES; i++) {
            mbarrier_init(base + L::FULL + i * 8, 1);
            mbarrier_init(base + L::EMPTY + i * 8, 4);
        }
        for (int i = 0; i < 2 * L::EPI_STAGES; i++) {
            mbarrier_init(base + L::LOADED + i * 8, 1);
            mbarrier_init(base + L::FREED + i * 8, 4);
        }
        for (int i = 0; i < 2 * L::RING; i++) {
            mbarrier_init(base + L::RING_FULL + i * 8, 1);
            mbarrier_init(base + L::RING_EMPTY + i * 8, 4);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    launch_release();
    if (threadIdx.x < L::CONSUMERS) {
        setmaxnreg_inc<L::CONSUMER>();
        chain_wgmma_consume<L, KIND>(a, shared, base);
    } else {
        setmaxnreg_dec<L::PRODUCER>();
        if (threadIdx.x == L::CONSUMERS)
            wgmma_fill<L>(a.first, base);
        else if (threadIdx.x == L::CONSUMERS + 32)
            chain_wgmma_feed<L>(a, base, 0);
        else if (threadIdx.x == L::CONSUMERS + 64)
            chain_wgmma_feed<L>(a, base, 1);
    }
}

#endif
