/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first convolution of a network on Hopper: few input channels.
 *
 * The product.  Rows m are 64 neighbouring pixels of an output row, columns n
 * up to 64 output channels.  A row of the window is S * C elements that lie
 * together; with one element before them where the window would start at an odd
 * one, and zero weights behind them, it makes G groups of 8.  The depth is
 * R * G groups, two a step; the last may be padding.  Weights are packed in
 * this order and stay in shared memory.
 *
 * Nothing is unfolded: a block's patch of the image is R rows of WORDS pairs of
 * elements, zeros where it leaves the image, and a lane reads its fragments of
 * operand A from there as pairs: pixel m starts step * m elements on.
 * With 3 pairs, the 8 rows x 4 lanes of a fragment cover 25 neighbouring words,
 * each in its own bank.  Where the step is odd, so is every other start, and a
 * pair is put together from two words.
 *
 * Threads.  WGS consumer warpgroups, which take tiles in turn, and a warp that
 * fetches patches, STAGES for each.  Block b computes tiles b, b + gridDim.x,
 * ..., along output rows.  Epilogue stages as in wgmma_finish.cuh, two a
 * consumer.
 *
 * Bytes: 8192 * K_TILES for weights, WGS * (2 * 8192 + STAGES * PATCH), PATCH =
 * R * WORDS * 4 up to a multiple of 128, and two barriers a stage and one more.
 */
#ifndef KERNELS_CUDA_WGMMA_WGMMA_STEM_CUH
#define KERNELS_CUDA_WGMMA_WGMMA_STEM_CUH

#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/wgmma/wgmma_finish.cuh"

struct wgmma_stem_args {
    CUtensorMap x, w, y;
    struct conv_geometry g;
    struct output_args out;
    int shift; /* elements before a row of the window: 0 or 1 */
    int lead;  /* pairs before that, since patches start at 16 bytes */
    int step;  /* elements from one output pixel to the next */
    int tiles_q, tiles;
};

/* Pairs of elements of a patch's row: up to 3 before it, up to 3 a pixel, in
 * 16-byte units. */
#define WGMMA_STEM_WORDS(groups) ((3 + 63 * 3 + (groups)*4 + 3) / 4 * 4)

template <typename T_, int R_, int G_> struct wgmma_stem {
    typedef T_ T;
    enum {
        R = R_,
        G = G_, /* groups of 8 elements of a row of the window */
        WGS = 3,
        STAGES = 4,
        CONSUMERS = 128 * WGS,
        THREADS = CONSUMERS + 32,
        STEPS = (R * G + 1) / 2,   /* of 16 elements of depth */
        K_TILES = (STEPS + 3) / 4, /* of 64 */
        WORDS = WGMMA_STEM_WORDS(G),
        PATCH = R * WORDS * 4,
        PATCH_STEP = (PATCH + 127) / 128 * 128,
        EPI_AT = K_TILES * 8192,
        PATCHES = EPI_AT + WGS * 2 * 8192,
        FULL = PATCHES + WGS * STAGES * PATCH_STEP,
        EMPTY = FULL + WGS * STAGES * 8,
        READY = EMPTY + WGS * STAGES * 8, /* the weights have arrived */
        SHARED = READY + 8
    };
};

/* The producer: the patches of all tiles of this CTA. */
template <typename L>
static __device__ __forceinline__ void
wgmma_stem_fetch(const struct wgmma_stem_args &a, uint32_t base)
{
    int i = 0;

    for (int tile = blockIdx.x; tile < a.tiles; tile += gridDim.x, i++) {
        const int q = tile % a.tiles_q * 64, np = tile / a.tiles_q;
        const int round = i / L::WGS, stage = round % L::STAGES;
        const int at = i % L::WGS * L::STAGES + stage;
        const uint32_t full = base + L::FULL + at * 8;
        mbarrier_wait(base + L::EMPTY + at * 8,
                      (uint32_t)(round / L::STAGES) & 1 ^ 1);
        mbarrier_arrive_expect_tx(full, L::PATCH);
        /* The first element is even: see shift. */
        tma_load_3d(base + L::PATCHES + at * L::PATCH_STEP, &a.x, full,
                    q * a.step / 2 - a.lead -
                        (a.g.pad_left * a.g.c + a.shift) / 2,
                    np % a.g.p * a.g.stride_h - a.g.pad_top, np / a.g.p);
    }
}

/* Masks of this lane's pair in each group: the elements that belong to a row of
 * the window. The others are cleared, since they may be infinite and 0 times
 * infinity is NaN. */
template <int G>
static __device__ __forceinline__ void
wgmma_stem_mask(const struct wgmma_stem_args &a, uint32_t (&mask)[G])
{
    const int end = a.shift + a.g.s * a.g.c;

#pragma unroll
    for (int i = 0; i < G; i++) {
        const int at = i * 8 + threadIdx.x % 4 * 2; /* low half of the pair */
        mask[i] = (at >= a.shift && at < end ? 0xffffu : 0) |
                  (at + 1 < end ? 0xffff0000u : 0);
    }
}

/* Two neighbouring elements; the first is the low half of word[0], or its high
 * half if bits is 16. straddle: true if any lane needs two words. */
static __device__ __forceinline__ uint32_t wgmma_stem_pair(const uint32_t *word,
                                                           bool straddle,
                                                           int bits)
{
    return straddle ? __funnelshift_r(word[0], word[1], bits) : word[0];
}

/* This lane's fragments of the 64 pixels of a patch. */
template <typename L>
static __device__ __forceinline__ void
wgmma_stem_load(const uint32_t *words, int step, bool straddle,
                const uint32_t (&mask)[L::G], uint32_t (&x)[L::STEPS][4])
{
    const int lane = threadIdx.x % 32;
    const int pixel = threadIdx.x / 32 % 4 * 16 + lane / 4;
    const uint32_t *low = words + pixel * step / 2 + lane % 4;
    const uint32_t *high = low + 4 * step;
    const int bits = pixel * step % 2 * 16;

#pragma unroll
    for (int i = 0; i < 2 * L::STEPS; i++) {
        const bool padding = i == L::R * L::G;
        const int at = i / L::G * L::WORDS + i % L::G * 4;
        x[i / 2][i % 2 * 2] =
            padding
                ? 0
                : wgmma_stem_pair(low + at, straddle, bits) & mask[i % L::G];
        x[i / 2][i % 2 * 2 + 1] =
            padding
                ? 0
                : wgmma_stem_pair(high + at, straddle, bits) & mask[i % L::G];
    }
#pragma unroll
    for (int i = 0; i < 4 * L::STEPS; i++)
        register_fence(x[i / 4][i % 4]);
}

template <typename L>
static __device__ __forceinline__ void
wgmma_stem_consume(const struct wgmma_stem_args &a, unsigned char *shared,
                   uint32_t base)
{
    const int group = warpgroup_index(), rows = threadIdx.x / 32 % 4 * 16;
    const bool first = threadIdx.x % 32 == 0;
    uint32_t mask[L::G];
    int round = 0;

    wgmma_stem_mask<L::G>(a, mask);
    mbarrier_wait(base + L::READY, 0);
    for (int tile = blockIdx.x + group * gridDim.x; tile < a.tiles;
         tile += L::WGS * gridDim.x, round++) {
        const int q = tile % a.tiles_q * 64 + rows, np = tile / a.tiles_q;
        const int at = group * L::STAGES + round % L::STAGES;
        const int epi = L::EPI_AT + (group * 2 + round % 2) * 8192;
        uint32_t x[L::STEPS][4];
        float acc[1][32];
        wgmma_start_sums<1, 64>(a.out.bias, a.g.k, 0, acc);
        mbarrier_wait(base + L::FULL + at * 8,
                      (uint32_t)(round / L::STAGES) & 1);
        const uint32_t *words =
            (const uint32_t *)(shared + L::PATCHES + at * L::PATCH_STEP) +
            a.lead;
        if (a.step % 2)
            wgmma_stem_load<L>(words, a.step, true, mask, x);
        else
            wgmma_stem_load<L>(words, a.step, false, mask, x);
        wgmma_arrive();
#pragma unroll
        for (int k = 0; k < L::STEPS; k++)
            wgmma_mma_rs(typename L::T(), acc[0], x[k],
                         smem_desc_k_major(base + k / 4 * 8192 + k % 4 * 32),
                         true);
        wgmma_commit_group();
        wgmma_wait_group<0>();
        __syncwarp();
        if (first) {
            mbarrier_arrive(base + L::EMPTY + at * 8);
            tma_store_wait_group<1>();
        }
        __syncwarp();
        wgmma_finish<typename L::T, 8, WGMMA_ANY>(a.out, acc[0], base + epi);
        fence_proxy_async();
        __syncwarp();
        if (first) {
            tma_store_3d(&a.y, base + epi + rows * 128, 0, q, np);
            tma_store_commit_group();
        }
    }
    if (first)
        tma_store_wait_group<0>();
}

template <typename L>
static __global__ void __launch_bounds__(L::THREADS, 1)
    wgmma_stem_kernel(const __grid_constant__ struct wgmma_stem_args a)
{
    LAUNCH_SHARED(shared);
    const uint32_t base = ptx_shared(shared);

    if (threadIdx.x == 0) {
        tma_prefetch_descriptor(&a.w);
        tma_prefetch_descriptor(&a.x);
        tma_prefetch_descriptor(&a.y);
        for (int i = 0; i < L::WGS * L::STAGES; i++) {
            mbarrier_init(base + L::FULL + i * 8, 1);
            mbarrier_init(base + L::EMPTY + i * 8, 4);
        }
        mbarrier_init(base + L::READY, 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    launch_release();
    if (threadIdx.x < L::CONSUMERS) {
        launch_wait();
        wgmma_stem_consume<L>(a, shared, base);
    } else if (threadIdx.x == L::CONSUMERS) {
        mbarrier_arrive_expect_tx(base + L::READY, L::K_TILES * 8192);
        for (int i = 0; i < L::K_TILES; i++)
            tma_load_2d(base + i * 8192, &a.w, base + L::READY, i * 64, 0);
        launch_wait();
        wgmma_stem_fetch<L>(a, base);
    }
}

#endif
