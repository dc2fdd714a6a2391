/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolution on Hopper for many outputs: one persistent CTA a multiprocessor,
 * outputs and residuals through TMA.  wgmma.cuh describes the product and the
 * pipeline.
 *
 * Threads.  WGS consumer warpgroups, then one producer warpgroup, whose first
 * warp fills the pipeline and whose second loads residuals; its other warps
 * only lend their registers.  COOP consumers cooperate on a tile of BM = 64 *
 * MT * COOP by BN, MT times 64 rows each.  PINGPONG = WGS / COOP is 1, or 2:
 * then the two take tiles alternately, and the products of one run during the
 * epilogue of the other.  Each starts on the pipeline only when the other has
 * seen its last k-tile (ORDER_BARRIER): the parity of a barrier tells a phase
 * from the previous one, no more.  Registers: a producer thread keeps PRODUCER,
 * a consumer takes CONSUMER; times 128 threads each they make 65536 at most.
 *
 * Tiles.  CTA b computes tiles b, b + gridDim.x, ...; channels fastest, so that
 * CTAs that run together share pixels in L2.  With an input scale the tiles are
 * counted from the last pixels to the first: the global pooling that computes
 * the scale has read the last images last, and they are still in L2.
 *
 * Epilogue.  Finished outputs leave through EPI_STAGES stages a consumer, each
 * 64 rows of 128 bytes of channels (wgmma_finish.cuh).  A residual is loaded
 * into the stage beforehand (barriers loaded[] and freed[]) and replaced in
 * place.
 *
 * Partial statistics (kernels/bn_stats.h), if BN_STATS is set: when all warps
 * of a consumer have filled a stage, each computes those of 16 of its columns
 * (wgmma_bn_stats.cuh).  A stage is refilled two barriers later at least.
 *
 * Bytes: STAGES * (BM + WEIGHTS * BN) * 128 + WGS * EPI_STAGES * 8192 +
 * barriers of 8 bytes, two a stage and two an epilogue stage.
 */
#ifndef KERNELS_CUDA_WGMMA_WGMMA_TILE_CUH
#define KERNELS_CUDA_WGMMA_WGMMA_TILE_CUH

#include "kernels/cuda/wgmma/wgmma.cuh"
#include "kernels/cuda/wgmma/wgmma_input_scale.cuh"
#include "kernels/cuda/wgmma/wgmma_finish.cuh"
#include "kernels/cuda/wgmma/wgmma_8bit.cuh"
#include "kernels/cuda/wgmma/wgmma_bn_stats.cuh"

template <typename M, int MT_, int COOP_, int WGS_, int BN_, int STAGES_,
          int EPI_STAGES_>
struct wgmma_tile {
    typedef M mode;
    typedef typename M::type T;
    typedef typename M::sum sum;
    enum {
        MT = MT_,
        COOP = COOP_,
        WGS = WGS_,
        BN = BN_,
        STAGES = STAGES_,
        EPI_STAGES = EPI_STAGES_,
        CLUSTER = 0,
        TWO_FIT = 0, /* one CTA a multiprocessor */
        COLUMNS =
            128 / (int)sizeof(typename M::type), /* of an epilogue stage */
        USED =
            BN < COLUMNS ? BN : COLUMNS, /* of them; the rest lies outside y */
        PARTS = BN / USED,
        BOXES = MT * PARTS, /* stages that a consumer's part of a tile fills */
        BM = 64 * MT * COOP,
        BACKWARDS = M::INPUT_SCALE,
        PINGPONG = WGS / COOP,
        ORDER_BARRIER = 1, /* of role 0; the next is role 1's */
        FILLED = 3,        /* one a consumer: its stage is full */
        CONSUMERS = 128 * WGS,
        THREADS = CONSUMERS + 128,
        X_BYTES = BM * 128,
        W_BYTES = M::WEIGHTS * BN * 128,
        EPI_BYTES = 8192,
        STAGE = X_BYTES + W_BYTES,
        EPI_AT = STAGES * STAGE,
        FULL = EPI_AT + WGS * EPI_STAGES * EPI_BYTES,
        EMPTY = FULL + STAGES * 8,
        LOADED = EMPTY + STAGES * 8,
        FREED = LOADED + WGS * EPI_STAGES * 8,
        SHARED = FREED + WGS * EPI_STAGES * 8,
        PRODUCER = WGS == 2 ? 24 : 32,
        CONSUMER = WGS == 2 ? 240 : 160
    };
};

/* The first pixel of a tile. */
template <typename L>
static __device__ __forceinline__ int wgmma_tile_m0(const struct wgmma_args &a,
                                                    int tile)
{
    const int row = tile / a.tiles_n;

    return (L::BACKWARDS ? a.tiles_m - 1 - row : row) * L::BM;
}

/* ---- outputs ------------------------------------------------------- */

/* A consumer's epilogue stages, and whether it has used one yet. */
struct wgmma_epilogue {
    struct pipeline_state pipe;
    bool used;
};

/* Stores a warp's 16 rows of an epilogue stage, from row m on, element by
 * element: TMA cannot write a y that is not aligned. */
template <typename T, int COLUMNS>
static __device__ __forceinline__ void
wgmma_store_unaligned(const struct wgmma_args &a, const unsigned char *rows,
                      int m, int n)
{
    for (int i = threadIdx.x % 32; i < 16 * COLUMNS; i += 32) {
        const int row = i / COLUMNS, column = i % COLUMNS;
        const int byte = column * (int)sizeof(T);
        const unsigned char *from =
            rows + row * 128 + (((byte >> 4) ^ (row & 7)) << 4) + (byte & 15);
        if (m + row < a.g.m && n + column < a.g.k)
            ((T *)a.out.y)[(size_t)(m + row) * a.out.y_pitch + n + column] =
                *(const T *)from;
    }
    __syncwarp();
}

/* v = the sums of box `box` of a consumer's part of a tile, each 64 rows by the
 * columns of an epilogue stage.  Registers cannot be indexed, hence the
 * selection. */
template <typename L, int N, typename S>
static __device__ __forceinline__ void
wgmma_pick(const S (&acc)[L::MT][L::BN / 2], int box, S (&v)[N])
{
    constexpr int PARTS = L::BN / 2 / N;

#pragma unroll
    for (int i = 0; i < N; i++)
        v[i] = acc[0][i];
#pragma unroll
    for (int b = 1; b < L::MT * PARTS; b++)
        if (box == b) {
#pragma unroll
            for (int i = 0; i < N; i++)
                v[i] = acc[b / PARTS][b % PARTS * N + i];
        }
}

/* Stores USED columns of sums, v, at (m, n) through the next epilogue stage. */
template <typename L, wgmma_epilogue_kind KIND, bool SMOOTH = false>
static __device__ __forceinline__ void
wgmma_send(const struct wgmma_args &a, typename L::sum *v,
           struct wgmma_epilogue *s, unsigned char *shared, uint32_t base,
           int group, int m, int n)
{
    const bool first = threadIdx.x % 32 == 0;
    const int rows = threadIdx.x / 32 % 4 * 16;
    const int at =
        L::EPI_AT + (group * L::EPI_STAGES + s->pipe.stage) * L::EPI_BYTES;
    const uint32_t loaded = base + L::LOADED + group * L::EPI_STAGES * 8;
    const uint32_t freed = base + L::FREED + group * L::EPI_STAGES * 8;
    constexpr int LAG = L::EPI_STAGES > 2 ? 1 : 0; /* stores left in flight */
    const bool residual = KIND != WGMMA_CONVERT_ONLY && a.out.residual;

    if (residual) {
        mbarrier_wait(loaded + s->pipe.stage * 8, s->pipe.parity);
    } else {
        if (first)
            tma_store_wait_group<L::EPI_STAGES - 1>();
        __syncwarp();
    }
    if constexpr (SMOOTH)
        wgmma_finish_straight<L::USED / 16, QUANT_SMOOTH>(a, v, base + at, n);
    else if constexpr (L::mode::BYTES)
        wgmma_finish_bytes<L::USED / 16>(a, v, base + at, n);
    else
        wgmma_finish<typename L::T, L::USED / 8, KIND>(a.out, v, base + at);
    fence_proxy_async();
    __syncwarp();
    if (a.unaligned)
        wgmma_store_unaligned<typename L::T, L::USED>(
            a, shared + at + rows * 128, m + rows, n);
    if (first && !a.unaligned)
        tma_store_2d(&a.y, base + at + rows * 128, n, m + rows);
    if (first) {
        tma_store_commit_group();
        if (residual) {
            tma_store_wait_group<LAG>();
            if (LAG == 0 || s->used)
                mbarrier_arrive(freed + (s->pipe.stage + L::EPI_STAGES - LAG) %
                                            L::EPI_STAGES * 8);
        }
    }
    s->used = true;
    pipeline_next<L::EPI_STAGES>(&s->pipe);
}

/* Stores a consumer's part of a tile, which starts at (m0, n0), stage by stage;
 * each warp stores its own 16 rows.  The activation is piecewise linear, which
 * is short enough to unroll the loop. */
template <typename L>
static __device__ __forceinline__ void
wgmma_store_unrolled(const struct wgmma_args &a,
                     typename L::sum (&acc)[L::MT][L::BN / 2],
                     struct wgmma_epilogue *s, unsigned char *shared,
                     uint32_t base, int group, int m0, int n0)
{
#pragma unroll
    for (int box = 0; box < L::BOXES; box++) {
        const int n = n0 + box % L::PARTS * L::USED;
        if (n < a.g.k)
            wgmma_send<L, WGMMA_PIECEWISE_LINEAR>(
                a, acc[box / L::PARTS] + box % L::PARTS * (L::USED / 2), s,
                shared, base, group, m0 + box / L::PARTS * 64, n);
    }
}

/* The same with any activation, whose instructions would not fit the
 * instruction cache if the loop were unrolled. */
template <typename L>
static __device__ __forceinline__ void
wgmma_store(const struct wgmma_args &a, float (&acc)[L::MT][L::BN / 2],
            struct wgmma_epilogue *s, unsigned char *shared, uint32_t base,
            int group, int m0, int n0)
{
    if (unary_is_piecewise_linear(a.out.epilogue.act.kind)) {
        wgmma_store_unrolled<L>(a, acc, s, shared, base, group, m0, n0);
        return;
    }
#pragma unroll 1
    for (int box = 0; box < L::BOXES; box++) {
        const int n = n0 + box % L::PARTS * L::USED;
        float v[L::USED / 2];
        if (n >= a.g.k)
            continue;
        wgmma_pick<L, L::USED / 2>(acc, box, v);
        wgmma_send<L, WGMMA_ANY>(a, v, s, shared, base, group,
                                 m0 + box / L::PARTS * 64, n);
    }
}

/* The same of integers with a smooth activation, likewise not unrolled. */
template <typename L>
static __device__ __forceinline__ void
wgmma_store_smooth(const struct wgmma_args &a,
                   const int (&acc)[L::MT][L::BN / 2], struct wgmma_epilogue *s,
                   unsigned char *shared, uint32_t base, int group, int m0,
                   int n0)
{
#pragma unroll 1
    for (int box = 0; box < L::BOXES; box++) {
        const int n = n0 + box % L::PARTS * L::USED;
        int v[L::USED / 2];
        if (n >= a.g.k)
            continue;
        wgmma_pick<L, L::USED / 2>(acc, box, v);
        wgmma_send<L, WGMMA_PIECEWISE_LINEAR, true>(
            a, v, s, shared, base, group, m0 + box / L::PARTS * 64, n);
    }
}

/* The same with partial statistics of the outputs; there is no activation. They
 * are stored at the end: the fence after each stage waits for every store
 * before it. */
template <typename L>
static __device__ __forceinline__ void
wgmma_store_with_statistics(const struct wgmma_args &a,
                            float (&acc)[L::MT][L::BN / 2],
                            struct wgmma_epilogue *s, unsigned char *shared,
                            uint32_t base, int group, int m0, int n0)
{
    float kept[L::BOXES] = {};

    static_assert(L::EPI_STAGES > 1 && L::USED == 64,
                  "see above, wgmma_bn_stats.cuh");
#pragma unroll
    for (int box = 0; box < L::BOXES; box++) {
        const int n = n0 + box % L::PARTS * L::USED;
        const int m = m0 + box / L::PARTS * 64;
        const uint32_t epi =
            base + L::EPI_AT +
            (group * L::EPI_STAGES + s->pipe.stage) * L::EPI_BYTES;
        float *v = acc[box / L::PARTS] + box % L::PARTS * (L::USED / 2);
        if (n >= a.g.k)
            continue;
        wgmma_clear_rest<L::USED / 2>(v, a.g.m - m);
        wgmma_send<L, WGMMA_CONVERT_ONLY>(a, v, s, shared, base, group, m, n);
        named_barrier_sync(L::FILLED + group, 128);
        kept[box] = wgmma_stage_statistics<typename L::T>(epi, a.g.m - m);
    }
#pragma unroll
    for (int box = 0; box < L::BOXES; box++) {
        const int m = m0 + box / L::PARTS * 64;
        if (m < a.g.m)
            wgmma_store_statistics(a.bn_stats, a.g.k, m / 64,
                                   n0 + box % L::PARTS * L::USED, kept[box]);
    }
}

/* Loads the residuals of all tiles, in the order in which wgmma_store() of each
 * consumer uses them. */
template <typename L>
static __device__ __forceinline__ void
wgmma_fetch_residuals(const struct wgmma_args &a, uint32_t base)
{
    const int tiles = a.tiles_m * a.tiles_n;
    struct pipeline_state r = {0, 0},
                          other = {0, 0}; /* this role's, the other's */
    int role = 0;

    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const int m0 = wgmma_tile_m0<L>(a, tile), n0 = tile % a.tiles_n * L::BN;
        for (int i = 0; i < L::BOXES; i++) {
            const int n = n0 + i % L::PARTS * L::USED;
            if (n >= a.g.k)
                continue;
            for (int w = 0; w < L::COOP; w++) {
                const int group = role * L::COOP + w;
                const int epi = group * L::EPI_STAGES + r.stage;
                const uint32_t barrier = base + L::LOADED + epi * 8;
                mbarrier_wait(base + L::FREED + epi * 8, r.parity ^ 1);
                mbarrier_arrive_expect_tx(barrier, L::EPI_BYTES);
                tma_load_2d(base + L::EPI_AT + epi * L::EPI_BYTES, &a.residual,
                            barrier, n, m0 + (w * L::MT + i / L::PARTS) * 64);
            }
            pipeline_next<L::EPI_STAGES>(&r);
        }
        if (L::PINGPONG == 2) {
            const struct pipeline_state next = other;
            other = r;
            r = next;
            role ^= 1;
        }
    }
}

/* ---- the kernel ---------------------------------------------------- */

template <typename L, bool BN_STATS, bool SMOOTH>
static __device__ __forceinline__ void
wgmma_consume(const struct wgmma_args &a, unsigned char *shared, uint32_t base)
{
    const int tiles = a.tiles_m * a.tiles_n;
    const int group = warpgroup_index();
    const int role = group / L::COOP, member = group % L::COOP;
    struct pipeline_state pipe = {0, 0};
    struct wgmma_epilogue epilogue = {{0, 0}, false};

    pipeline_skip<L::STAGES>(&pipe, role * a.k_tiles);
    if (L::PINGPONG == 2 && role == 1)
        named_barrier_arrive(L::ORDER_BARRIER, 256);
    if (!a.constant_bias || L::mode::INPUT_SCALE)
        launch_wait();
    for (int tile = blockIdx.x + role * gridDim.x; tile < tiles;
         tile += L::PINGPONG * gridDim.x) {
        const int m0 = wgmma_tile_m0<L>(a, tile), n0 = tile % a.tiles_n * L::BN;
        typename L::sum acc[L::MT][L::BN / 2];
        struct wgmma_operand_state<typename L::mode, L::MT> operand;
        if constexpr (L::mode::BYTES)
            wgmma_start_8bit<L::MT, L::BN>(a.quant.offset, a.g.k, n0, acc);
        else
            wgmma_start_sums<L::MT, L::BN>(a.out.bias, a.g.k, n0, acc);
        wgmma_operand_begin(operand, a, m0 + member * L::MT * 64, 0);
        if (L::PINGPONG == 2)
            named_barrier_sync(L::ORDER_BARRIER + role, 256);
        wgmma_multiply<L::STAGES>(
            typename L::mode(), acc, &pipe, shared, base, base + L::FULL,
            base + L::EMPTY, member * L::MT * 8192, L::X_BYTES, a.k_tiles,
            L::PINGPONG == 2 ? L::ORDER_BARRIER + 1 - role : 0, operand);
        pipeline_skip<L::STAGES>(&pipe, (L::PINGPONG - 1) * a.k_tiles);
        if (!epilogue.used)
            launch_wait();
        if constexpr (BN_STATS)
            wgmma_store_with_statistics<L>(a, acc, &epilogue, shared, base,
                                           group, m0 + member * L::MT * 64, n0);
        else if constexpr (SMOOTH)
            wgmma_store_smooth<L>(a, acc, &epilogue, shared, base, group,
                                  m0 + member * L::MT * 64, n0);
        else if constexpr (L::mode::BYTES)
            wgmma_store_unrolled<L>(a, acc, &epilogue, shared, base, group,
                                    m0 + member * L::MT * 64, n0);
        else
            wgmma_store<L>(a, acc, &epilogue, shared, base, group,
                           m0 + member * L::MT * 64, n0);
    }
    if (threadIdx.x % 32 == 0)
        tma_store_wait_group<0>();
}

/* The producer: the k-tiles of all tiles. */
template <typename L>
static __device__ __forceinline__ void wgmma_fill(const struct wgmma_args &a,
                                                  uint32_t base)
{
    const int tiles = a.tiles_m * a.tiles_n;
    const uint32_t full = base + L::FULL, empty = base + L::EMPTY;
    struct pipeline_state pipe = {0, 0};
    int ahead = 0;

    if constexpr (!L::mode::B_MN_MAJOR) /* constant */
        ahead = wgmma_prefetch_weights<L>(
            a, base, full, blockIdx.x % a.tiles_n * L::BN, 0, a.k_tiles);
    launch_wait();
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        wgmma_produce<L>(a, &pipe, base, full, empty, wgmma_tile_m0<L>(a, tile),
                         tile % a.tiles_n * L::BN, 0, a.k_tiles, ahead);
        ahead = 0;
    }
}

/* BN_STATS: partial statistics; SMOOTH: of integers, the activation is one of
 * kernels/quant/act.h. */
template <typename L, bool BN_STATS, bool SMOOTH = false>
static __global__ void __launch_bounds__(L::THREADS, 1)
    wgmma_tile_kernel(const __grid_constant__ struct wgmma_args a)
{
    LAUNCH_SHARED(shared);
    const uint32_t base = ptx_shared(shared);

    if (threadIdx.x == 0) {
        tma_prefetch_descriptor(&a.x);
        tma_prefetch_descriptor(&a.w);
        if (!L::mode::B_MN_MAJOR && a.g.k % L::BN != 0)
            tma_prefetch_descriptor(&a.w_tail);
        if (!a.unaligned)
            tma_prefetch_descriptor(&a.y);
        if (a.out.residual)
            tma_prefetch_descriptor(&a.residual);
        for (int i = 0; i < L::STAGES; i++) {
            mbarrier_init(base + L::FULL + i * 8, 1);
            mbarrier_init(base + L::EMPTY + i * 8, 4 * L::COOP);
        }
        for (int i = 0; i < L::WGS * L::EPI_STAGES; i++) {
            mbarrier_init(base + L::LOADED + i * 8, 1);
            mbarrier_init(base + L::FREED + i * 8, 4);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    launch_release();
    if (threadIdx.x < L::CONSUMERS) {
        setmaxnreg_inc<L::CONSUMER>();
        wgmma_consume<L, BN_STATS, SMOOTH>(a, shared, base);
    } else {
        setmaxnreg_dec<L::PRODUCER>();
        if (threadIdx.x == L::CONSUMERS) {
            wgmma_fill<L>(a, base);
        } else if (threadIdx.x == L::CONSUMERS + 32 && a.out.residual) {
            launch_wait();
            wgmma_fetch_residuals<L>(a, base);
        }
    }
}

#endif
