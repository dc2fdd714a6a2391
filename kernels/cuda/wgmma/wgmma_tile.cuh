/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolution on Hopper for many outputs: one persistent block a
 * multiprocessor, outputs and residuals through the copy engine.  wgmma.cuh
 * describes the product and the pipeline.
 *
 * Threads.  WGS consumer warpgroups, then one warpgroup whose first warp fills
 * the pipeline and whose second fetches residuals; its others only lend their
 * registers.  COOP consumers share a tile of BM = 64 * MT * COOP by BN, MT
 * times 64 rows each; WGS / COOP teams, one or two, take tiles in turn, so that
 * one's products run while the other stores.  A team starts on the pipeline
 * only when the other has seen its last k-tile: a barrier's parity tells a
 * phase from the one before, no more.  Registers: a producer thread keeps
 * PRODUCER, a consumer takes CONSUMER; times 128 threads each they make 65536
 * at most.
 *
 * Tiles.  Block b computes tiles b, b + gridDim.x, ...; channels fastest, so
 * that blocks that run together share pixels in L2.  With factors they are
 * counted from the last pixels to the first: the global pooling that made the
 * factors has read the last images last, which L2 still holds.
 *
 * Slots.  Finished outputs leave through EPI_STAGES slots a consumer, each 64
 * rows of 128 bytes of channels (wgmma_finish.cuh).  With a residual, its box
 * is fetched into the slot beforehand (loaded[], freed[] are the barriers) and
 * replaced in place.
 *
 * Moments (kernels/bn_stats.h), where BN_STATS is set: when all warps of a
 * consumer have filled a slot, each takes them of 16 of its columns
 * (wgmma_bn_stats.cuh).  A slot is filled again two barriers later at least.
 *
 * Bytes: STAGES * (BM + WEIGHTS * BN) * 128 + WGS * EPI_STAGES * 8192 +
 * barriers of 8 bytes, two a stage and two a slot.
 */
#ifndef KERNELS_CUDA_WGMMA_WGMMA_TILE_CUH
#define KERNELS_CUDA_WGMMA_WGMMA_TILE_CUH

#include "kernels/cuda/wgmma/wgmma.cuh"
#include "kernels/cuda/wgmma/wgmma_input_scale.cuh"
#include "kernels/cuda/wgmma/wgmma_finish.cuh"
#include "kernels/cuda/wgmma/wgmma_bn_stats.cuh"

template <typename M, int MT, int COOP, int WGS, int BN, int STAGES,
          int EPI_STAGES>
struct wgmma_tile {
    enum {
        COLUMNS = 128 / (int)sizeof(typename M::type), /* of a slot */
        USED = BN < COLUMNS ? BN : COLUMNS, /* of them; the rest is beside y */
        PARTS = BN / USED,
        BOXES = MT * PARTS, /* slots that a consumer's part of a tile fills */
        BM = 64 * MT * COOP,
        BACKWARDS = M::INPUT_SCALE,
        PINGPONG = WGS / COOP,
        ORDER_BARRIER =
            1,      /* the barrier that team 0 awaits; the next is team 1's */
        FILLED = 3, /* those of consumers whose slot is full */
        CONSUMERS = 128 * WGS,
        THREADS = CONSUMERS + 128,
        X_BYTES = BM * 128,
        W_BYTES = M::WEIGHTS * BN * 128,
        EPI_BYTES = 8192,
        EPI_AT = STAGES * (X_BYTES + W_BYTES),
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

/* A consumer's slots, and whether it has used one yet. */
struct wgmma_epilogue {
    struct pipeline_state pipe;
    bool used;
};

/* Sends a warp's 16 rows of a slot, the first of which is m, to where the copy
 * engine cannot write. */
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

/* v = the sums of box `box` of a consumer's part of a tile, 64 rows of a slot's
 * columns each.  Registers have no index, hence the choice. */
template <int MT, int BN, int N>
static __device__ __forceinline__ void
wgmma_pick(const float (&acc)[MT][BN / 2], int box, float (&v)[N])
{
    constexpr int PARTS = BN / 2 / N;

#pragma unroll
    for (int i = 0; i < N; i++)
        v[i] = acc[0][i];
#pragma unroll
    for (int b = 1; b < MT * PARTS; b++)
        if (box == b) {
#pragma unroll
            for (int i = 0; i < N; i++)
                v[i] = acc[b / PARTS][b % PARTS * N + i];
        }
}

/* Sends USED columns of sums, v, to (m, n) through the next slot. */
template <typename T, typename L, int EPI_STAGES, wgmma_epilogue_kind KIND>
static __device__ __forceinline__ void
wgmma_send(const struct wgmma_args &a, float *v, struct wgmma_epilogue *s,
           unsigned char *shared, uint32_t base, int group, int m, int n)
{
    const bool first = threadIdx.x % 32 == 0;
    const int rows = threadIdx.x / 32 % 4 * 16;
    const int at =
        L::EPI_AT + (group * EPI_STAGES + s->pipe.stage) * L::EPI_BYTES;
    const uint32_t loaded = base + L::LOADED + group * EPI_STAGES * 8;
    const uint32_t freed = base + L::FREED + group * EPI_STAGES * 8;
    constexpr int LAG = EPI_STAGES > 2 ? 1 : 0; /* stores left under way */
    const bool residual = KIND != WGMMA_CONVERT_ONLY && a.out.residual;

    if (residual) {
        mbarrier_wait(loaded + s->pipe.stage * 8, s->pipe.parity);
    } else {
        if (first)
            tma_store_wait_group<EPI_STAGES - 1>();
        __syncwarp();
    }
    wgmma_finish<T, L::USED / 8, KIND>(a.out, v, base + at);
    fence_proxy_async();
    __syncwarp();
    if (a.unaligned)
        wgmma_store_unaligned<T, L::USED>(a, shared + at + rows * 128, m + rows,
                                          n);
    if (first && !a.unaligned)
        tma_store_2d(&a.y, base + at + rows * 128, n, m + rows);
    if (first) {
        tma_store_commit_group();
        if (residual) {
            tma_store_wait_group<LAG>();
            if (LAG == 0 || s->used)
                mbarrier_arrive(freed + (s->pipe.stage + EPI_STAGES - LAG) %
                                            EPI_STAGES * 8);
        }
    }
    s->used = true;
    pipeline_next<EPI_STAGES>(&s->pipe);
}

/* Stores a consumer's part of a tile, which starts at (m0, n0), slot by slot;
 * each warp sends its own 16 rows.  The common activations are short, so that
 * registers are named in place; the others' instructions would leave their
 * cache, hence a loop. */
template <typename T, typename L, int MT, int BN, int EPI_STAGES>
static __device__ __forceinline__ void
wgmma_store(const struct wgmma_args &a, float (&acc)[MT][BN / 2],
            struct wgmma_epilogue *s, unsigned char *shared, uint32_t base,
            int group, int m0, int n0)
{
    if (unary_bends(a.out.epilogue.act.kind)) {
#pragma unroll
        for (int box = 0; box < L::BOXES; box++) {
            const int n = n0 + box % L::PARTS * L::USED;
            if (n < a.g.k)
                wgmma_send<T, L, EPI_STAGES, WGMMA_PIECEWISE_LINEAR>(
                    a, acc[box / L::PARTS] + box % L::PARTS * (L::USED / 2), s,
                    shared, base, group, m0 + box / L::PARTS * 64, n);
        }
        return;
    }
#pragma unroll 1
    for (int box = 0; box < L::BOXES; box++) {
        const int n = n0 + box % L::PARTS * L::USED;
        float v[L::USED / 2];
        if (n >= a.g.k)
            continue;
        wgmma_pick<MT, BN, L::USED / 2>(acc, box, v);
        wgmma_send<T, L, EPI_STAGES, WGMMA_ANY>(a, v, s, shared, base, group,
                                                m0 + box / L::PARTS * 64, n);
    }
}

/* The same with the moments of what is sent; there is no activation.  They are
 * stored at the end: the fence behind each slot waits for every store before
 * it. */
template <typename T, typename L, int MT, int BN, int EPI_STAGES>
static __device__ __forceinline__ void
wgmma_store_with_statistics(const struct wgmma_args &a,
                            float (&acc)[MT][BN / 2], struct wgmma_epilogue *s,
                            unsigned char *shared, uint32_t base, int group,
                            int m0, int n0)
{
    float kept[L::BOXES] = {};

    static_assert(EPI_STAGES > 1 && L::USED == 64,
                  "see above, wgmma_bn_stats.cuh");
#pragma unroll
    for (int box = 0; box < L::BOXES; box++) {
        const int n = n0 + box % L::PARTS * L::USED;
        const int m = m0 + box / L::PARTS * 64;
        const uint32_t slot =
            base + L::EPI_AT +
            (group * EPI_STAGES + s->pipe.stage) * L::EPI_BYTES;
        float *v = acc[box / L::PARTS] + box % L::PARTS * (L::USED / 2);
        if (n >= a.g.k)
            continue;
        wgmma_clear_rest<L::USED / 2>(v, a.g.m - m);
        wgmma_send<T, L, EPI_STAGES, WGMMA_CONVERT_ONLY>(a, v, s, shared, base,
                                                         group, m, n);
        named_barrier_sync(L::FILLED + group, 128);
        kept[box] = wgmma_stage_statistics<T>(slot, a.g.m - m);
    }
#pragma unroll
    for (int box = 0; box < L::BOXES; box++) {
        const int m = m0 + box / L::PARTS * 64;
        if (m < a.g.m)
            wgmma_store_statistics(a.bn_stats, a.g.k, m / 64,
                                   n0 + box % L::PARTS * L::USED, kept[box]);
    }
}

/* Fetches the residuals of all tiles, in the order in which wgmma_store() of
 * each consumer wants them. */
template <typename L, int MT, int COOP, int BN, int EPI_STAGES>
static __device__ __forceinline__ void
wgmma_fetch_residuals(const struct wgmma_args &a, uint32_t base)
{
    const int tiles = a.tiles_m * a.tiles_n;
    struct pipeline_state r = {0, 0},
                          other = {0, 0}; /* this team's, the other's */
    int role = 0;

    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const int m0 = wgmma_tile_m0<L>(a, tile), n0 = tile % a.tiles_n * BN;
        for (int i = 0; i < L::BOXES; i++) {
            const int n = n0 + i % L::PARTS * L::USED;
            if (n >= a.g.k)
                continue;
            for (int w = 0; w < COOP; w++) {
                const int group = role * COOP + w;
                const int slot = group * EPI_STAGES + r.stage;
                const uint32_t barrier = base + L::LOADED + slot * 8;
                mbarrier_wait(base + L::FREED + slot * 8, r.parity ^ 1);
                mbarrier_arrive_expect_tx(barrier, L::EPI_BYTES);
                tma_load_2d(base + L::EPI_AT + slot * L::EPI_BYTES, &a.residual,
                            barrier, n, m0 + (w * MT + i / L::PARTS) * 64);
            }
            pipeline_next<EPI_STAGES>(&r);
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

template <typename M, typename L, int MT, int COOP, int BN, int STAGES,
          int EPI_STAGES, bool BN_STATS>
static __device__ __forceinline__ void
wgmma_consume(const struct wgmma_args &a, unsigned char *shared, uint32_t base)
{
    const int tiles = a.tiles_m * a.tiles_n;
    const int group = warpgroup_index();
    const int role = group / COOP, member = group % COOP;
    struct pipeline_state pipe = {0, 0};
    struct wgmma_epilogue epilogue = {{0, 0}, false};

    pipeline_skip<STAGES>(&pipe, role * a.k_tiles);
    if (L::PINGPONG == 2 && role == 1)
        named_barrier_arrive(L::ORDER_BARRIER, 256);
    if (!a.known || M::INPUT_SCALE)
        launch_wait();
    for (int tile = blockIdx.x + role * gridDim.x; tile < tiles;
         tile += L::PINGPONG * gridDim.x) {
        const int m0 = wgmma_tile_m0<L>(a, tile), n0 = tile % a.tiles_n * BN;
        float acc[MT][BN / 2];
        struct wgmma_operand_state<M, MT> operand;
        wgmma_start_sums<MT, BN>(a.out.bias, a.g.k, n0, acc);
        wgmma_operand_begin(operand, a, m0 + member * MT * 64, 0);
        if (L::PINGPONG == 2)
            named_barrier_sync(L::ORDER_BARRIER + role, 256);
        wgmma_multiply<MT, BN, STAGES>(
            M(), acc, &pipe, shared, base, base + L::FULL, base + L::EMPTY,
            member * MT * 8192, L::X_BYTES, a.k_tiles,
            L::PINGPONG == 2 ? L::ORDER_BARRIER + 1 - role : 0, operand);
        pipeline_skip<STAGES>(&pipe, (L::PINGPONG - 1) * a.k_tiles);
        if (!epilogue.used)
            launch_wait();
        if constexpr (BN_STATS)
            wgmma_store_with_statistics<typename M::type, L, MT, BN,
                                        EPI_STAGES>(a, acc, &epilogue, shared,
                                                    base, group,
                                                    m0 + member * MT * 64, n0);
        else
            wgmma_store<typename M::type, L, MT, BN, EPI_STAGES>(
                a, acc, &epilogue, shared, base, group, m0 + member * MT * 64,
                n0);
    }
    if (threadIdx.x % 32 == 0)
        tma_store_wait_group<0>();
}

/* Fills the pipeline with the k-tiles of all tiles. */
template <typename M, typename L, int BN, int STAGES>
static __device__ __forceinline__ void wgmma_fill(const struct wgmma_args &a,
                                                  uint32_t base)
{
    const int tiles = a.tiles_m * a.tiles_n;
    const uint32_t full = base + L::FULL, empty = base + L::EMPTY;
    struct pipeline_state pipe = {0, 0};
    int ahead = 0;

    if constexpr (!M::B_MN_MAJOR) /* constant */
        ahead = wgmma_prefetch_weights<M, L::BM, BN, STAGES>(
            a, base, full, blockIdx.x % a.tiles_n * BN, 0, a.k_tiles);
    launch_wait();
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        wgmma_produce<M, L::BM, BN, STAGES>(
            a, &pipe, base, full, empty, wgmma_tile_m0<L>(a, tile),
            tile % a.tiles_n * BN, 0, a.k_tiles, ahead);
        ahead = 0;
    }
}

template <typename M, int MT, int COOP, int WGS, int BN, int STAGES,
          int EPI_STAGES, bool BN_STATS>
static __global__ void __launch_bounds__(128 * WGS + 128, 1)
    wgmma_tile_kernel(const __grid_constant__ struct wgmma_args a)
{
    typedef wgmma_tile<M, MT, COOP, WGS, BN, STAGES, EPI_STAGES> L;
    LAUNCH_SHARED(shared);
    const uint32_t base = ptx_shared(shared);

    if (threadIdx.x == 0) {
        tma_prefetch_descriptor(&a.x);
        tma_prefetch_descriptor(&a.w);
        if (!a.unaligned)
            tma_prefetch_descriptor(&a.y);
        if (a.out.residual)
            tma_prefetch_descriptor(&a.residual);
        for (int i = 0; i < STAGES; i++) {
            mbarrier_init(base + L::FULL + i * 8, 1);
            mbarrier_init(base + L::EMPTY + i * 8, 4 * COOP);
        }
        for (int i = 0; i < WGS * EPI_STAGES; i++) {
            mbarrier_init(base + L::LOADED + i * 8, 1);
            mbarrier_init(base + L::FREED + i * 8, 4);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    launch_release();
    if (threadIdx.x < L::CONSUMERS) {
        setmaxnreg_inc<L::CONSUMER>();
        wgmma_consume<M, L, MT, COOP, BN, STAGES, EPI_STAGES, BN_STATS>(
            a, shared, base);
    } else {
        setmaxnreg_dec<L::PRODUCER>();
        if (threadIdx.x == L::CONSUMERS) {
            wgmma_fill<M, L, BN, STAGES>(a, base);
        } else if (threadIdx.x == L::CONSUMERS + 32 && a.out.residual) {
            launch_wait();
            wgmma_fetch_residuals<L, MT, COOP, BN, EPI_STAGES>(a, base);
        }
    }
}

#endif
