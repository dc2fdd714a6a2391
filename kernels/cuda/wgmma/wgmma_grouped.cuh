/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grouped convolution on Hopper: the persistent tiles of wgmma_tile.cuh, each
 * of pixels by channels of one group.
 *
 * Tiles.  tiles_n = groups * tiles of a group; CTA b computes tiles b, b +
 * gridDim.x, ..., channels fastest, so that CTAs that run together read the
 * same pixels.
 *
 * Groups are a dimension of the tensor maps of x, of y and of the residual
 * (tensor_map_groups.h): a load fills with zeros past the last channel of its
 * group, a store drops what lies there.  Rows of weights are those of all
 * groups, one after another.
 *
 * Threads, registers, barriers and shared memory are those of wgmma_tile.cuh.
 */
#ifndef KERNELS_CUDA_WGMMA_WGMMA_GROUPED_CUH
#define KERNELS_CUDA_WGMMA_WGMMA_GROUPED_CUH

#include "kernels/cuda/wgmma/wgmma_tile.cuh"

struct wgmma_grouped_args {
    CUtensorMap x, w;
    CUtensorMap w_tail; /* of the last columns of a group */
    CUtensorMap y, residual;
    struct conv_geometry g;
    struct output_args out;
    int constant_bias; /* no kernel of the stream writes it */
    int per_position;  /* k-tiles of one filter position (r, s) */
    int k_tiles;       /* of the whole depth */
    int tiles_m, tiles_n;
    struct fast_div columns; /* by tiles_n */
    struct fast_div each;    /* by the tiles of a group's channels */
};

/* Where a tile lies: its first pixel, its group, and its first channel there.
 */
struct wgmma_grouped_place {
    int m, group, n;
};

template <typename L>
static __device__ __forceinline__ struct wgmma_grouped_place
wgmma_grouped_at(const struct wgmma_grouped_args &a, int tile)
{
    uint32_t column, n;
    const uint32_t m = a.columns.divmod((uint32_t)tile, &column);
    const uint32_t group = a.each.divmod(column, &n);

    return {(int)m * (int)L::BM, (int)group, (int)n * (int)L::BN};
}

/* ---- loading ------------------------------------------------------- */

/* tma_load_im2col() from a map whose images are a spatial dimension. */
static __device__ __forceinline__ void
wgmma_grouped_load(uint32_t to, const CUtensorMap *map, uint32_t barrier, int c,
                   int w, int h, int n, int group, int s, int r)
{
    HOPPER_ASM("cp.async.bulk.tensor.5d.shared::cluster.global.im2col"
               ".mbarrier::complete_tx::bytes [%0], "
               "[%1, {%3, %4, %5, %6, %7}], [%2], {%8, %9, %10};" ::"r"(to),
               "l"(map), "r"(barrier), "r"(c), "r"(w), "r"(h), "r"(n),
               "r"(group), "h"((uint16_t)s), "h"((uint16_t)r), "h"((uint16_t)0)
               : "memory");
}

/* Starts the load of k-tile i of a tile's weights into a stage. */
template <typename L>
static __device__ __forceinline__ void
wgmma_grouped_weights(const struct wgmma_grouped_args &a, uint32_t stage,
                      uint32_t barrier, int i,
                      const struct wgmma_grouped_place &at)
{
    const int columns = min((int)L::BN, a.g.kg - at.n);

    mbarrier_arrive_expect_tx(barrier, (L::BM + columns) * 128);
    tma_load_2d(stage + L::BM * 128, columns == L::BN ? &a.w : &a.w_tail,
                barrier, i * 64, at.group * a.g.kg + at.n);
}

/* The producer: the k-tiles of all tiles.  The weights of the first ones are
 * constant and loaded before the kernel waits for the previous one. */
template <typename L>
static __device__ __forceinline__ void
wgmma_grouped_fill(const struct wgmma_grouped_args &a, uint32_t base)
{
    const int tiles = a.tiles_m * a.tiles_n;
    const uint32_t full = base + L::FULL, empty = base + L::EMPTY;
    struct pipeline_state pipe = {0, 0};
    int ahead = min((int)L::STAGES, a.k_tiles);

    for (int i = 0; i < ahead; i++)
        wgmma_grouped_weights<L>(a, base + i * L::STAGE, full + i * 8, i,
                                 wgmma_grouped_at<L>(a, blockIdx.x));
    launch_wait();
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const struct wgmma_grouped_place at = wgmma_grouped_at<L>(a, tile);
        const int q = at.m % a.g.q, np = at.m / a.g.q;
        const int w = q * a.g.stride_w - a.g.pad_left;
        const int h = np % a.g.p * a.g.stride_h - a.g.pad_top;
        int i = 0;

        for (int r = 0; r < a.g.r; r++)
            for (int s = 0; s < a.g.s; s++)
                for (int c = 0; c < a.per_position; c++, i++) {
                    const uint32_t stage = base + pipe.stage * L::STAGE;
                    const uint32_t barrier = full + pipe.stage * 8;

                    if (i >= ahead) {
                        mbarrier_wait(empty + pipe.stage * 8, pipe.parity ^ 1);
                        wgmma_grouped_weights<L>(a, stage, barrier, i, at);
                    }
                    wgmma_grouped_load(stage, &a.x, barrier, c * 64, w, h,
                                       np / a.g.p, at.group, s * a.g.dilation_w,
                                       r * a.g.dilation_h);
                    pipeline_next<L::STAGES>(&pipe);
                }
        ahead = 0;
    }
}

/* Loads the residuals of all tiles, in the order in which the consumers use
 * them (wgmma_fetch_residuals()). */
template <typename L>
static __device__ __forceinline__ void
wgmma_grouped_residuals(const struct wgmma_grouped_args &a, uint32_t base)
{
    const int tiles = a.tiles_m * a.tiles_n;
    struct pipeline_state r = {0, 0}, other = {0, 0};
    int role = 0;

    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const struct wgmma_grouped_place at = wgmma_grouped_at<L>(a, tile);

        for (int i = 0; i < L::BOXES; i++) {
            const int n = at.n + i % L::PARTS * L::USED;
            if (n >= a.g.kg)
                continue;
            for (int w = 0; w < L::COOP; w++) {
                const int epi = (role * L::COOP + w) * L::EPI_STAGES + r.stage;
                const uint32_t barrier = base + L::LOADED + epi * 8;
                mbarrier_wait(base + L::FREED + epi * 8, r.parity ^ 1);
                mbarrier_arrive_expect_tx(barrier, L::EPI_BYTES);
                tma_load_3d(base + L::EPI_AT + epi * L::EPI_BYTES, &a.residual,
                            barrier, n, at.group,
                            at.m + (w * L::MT + i / L::PARTS) * 64);
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

/* ---- outputs ------------------------------------------------------- */

/* Stores USED columns of sums, v, at pixel m and channel n of a group through
 * the next epilogue stage (wgmma_send()). */
template <typename L, wgmma_epilogue_kind KIND>
static __device__ __forceinline__ void
wgmma_grouped_send(const struct wgmma_grouped_args &a, float *v,
                   struct wgmma_epilogue *s, uint32_t base, int consumer, int m,
                   int group, int n)
{
    const bool first = threadIdx.x % 32 == 0;
    const int rows = threadIdx.x / 32 % 4 * 16;
    const uint32_t at =
        base + L::EPI_AT +
        (consumer * L::EPI_STAGES + s->pipe.stage) * L::EPI_BYTES;
    const uint32_t loaded = base + L::LOADED + consumer * L::EPI_STAGES * 8;
    const uint32_t freed = base + L::FREED + consumer * L::EPI_STAGES * 8;
    constexpr int LAG = L::EPI_STAGES > 2 ? 1 : 0; /* stores left in flight */

    if (a.out.residual) {
        mbarrier_wait(loaded + s->pipe.stage * 8, s->pipe.parity);
    } else {
        if (first)
            tma_store_wait_group<L::EPI_STAGES - 1>();
        __syncwarp();
    }
    wgmma_finish<typename L::T, L::USED / 8, KIND>(a.out, v, at);
    fence_proxy_async();
    __syncwarp();
    if (first) {
        tma_store_3d(&a.y, at + rows * 128, n, group, m + rows);
        tma_store_commit_group();
        if (a.out.residual) {
            tma_store_wait_group<LAG>();
            if (LAG == 0 || s->used)
                mbarrier_arrive(freed + (s->pipe.stage + L::EPI_STAGES - LAG) %
                                            L::EPI_STAGES * 8);
        }
    }
    s->used = true;
    pipeline_next<L::EPI_STAGES>(&s->pipe);
}

/* Stores a consumer's part of a tile, from pixel m on.  A piecewise linear
 * activation is short enough to unroll the loop (wgmma_store()). */
template <typename L>
static __device__ __forceinline__ void
wgmma_grouped_store(const struct wgmma_grouped_args &a,
                    float (&acc)[L::MT][L::BN / 2], struct wgmma_epilogue *s,
                    uint32_t base, int consumer, int m,
                    const struct wgmma_grouped_place &at)
{
    if (unary_is_piecewise_linear(a.out.epilogue.act.kind)) {
#pragma unroll
        for (int box = 0; box < L::BOXES; box++) {
            const int n = at.n + box % L::PARTS * L::USED;
            if (n < a.g.kg)
                wgmma_grouped_send<L, WGMMA_PIECEWISE_LINEAR>(
                    a, acc[box / L::PARTS] + box % L::PARTS * (L::USED / 2), s,
                    base, consumer, m + box / L::PARTS * 64, at.group, n);
        }
        return;
    }
#pragma unroll 1
    for (int box = 0; box < L::BOXES; box++) {
        const int n = at.n + box % L::PARTS * L::USED;
        float v[L::USED / 2];
        if (n >= a.g.kg)
            continue;
        wgmma_pick<L, L::USED / 2>(acc, box, v);
        wgmma_grouped_send<L, WGMMA_ANY>(a, v, s, base, consumer,
                                         m + box / L::PARTS * 64, at.group, n);
    }
}

/* ---- the kernel ---------------------------------------------------- */

template <typename L>
static __device__ __forceinline__ void
wgmma_grouped_consume(const struct wgmma_grouped_args &a, unsigned char *shared,
                      uint32_t base)
{
    const int tiles = a.tiles_m * a.tiles_n;
    const int consumer = warpgroup_index();
    const int role = consumer / L::COOP, member = consumer % L::COOP;
    const int bytes = a.g.cg * 2 % 128;
    struct pipeline_state pipe = {0, 0};
    struct wgmma_epilogue epilogue = {{0, 0}, false};

    pipeline_skip<L::STAGES>(&pipe, role * a.k_tiles);
    if (L::PINGPONG == 2 && role == 1)
        named_barrier_arrive(L::ORDER_BARRIER, 256);
    if (!a.constant_bias)
        launch_wait();
    for (int tile = blockIdx.x + role * gridDim.x; tile < tiles;
         tile += L::PINGPONG * gridDim.x) {
        const struct wgmma_grouped_place at = wgmma_grouped_at<L>(a, tile);
        float acc[L::MT][L::BN / 2];
        struct wgmma_operand_state<typename L::mode, L::MT> operand;

        operand.at = 0;
        operand.per_position = a.per_position;
        operand.halved = bytes > 0 && bytes <= 64;
        /* Columns past the group's last channel are those of the next one. */
        wgmma_start_sums<L::MT, L::BN>(a.out.bias, a.g.k,
                                       at.group * a.g.kg + at.n, acc);
        if (L::PINGPONG == 2)
            named_barrier_sync(L::ORDER_BARRIER + role, 256);
        wgmma_multiply<L::STAGES>(
            typename L::mode(), acc, &pipe, shared, base, base + L::FULL,
            base + L::EMPTY, member * L::MT * 8192, L::X_BYTES, a.k_tiles,
            L::PINGPONG == 2 ? L::ORDER_BARRIER + 1 - role : 0, operand);
        pipeline_skip<L::STAGES>(&pipe, (L::PINGPONG - 1) * a.k_tiles);
        if (!epilogue.used)
            launch_wait();
        wgmma_grouped_store<L>(a, acc, &epilogue, base, consumer,
                               at.m + member * L::MT * 64, at);
    }
    if (threadIdx.x % 32 == 0)
        tma_store_wait_group<0>();
}

template <typename L>
static __global__ void __launch_bounds__(L::THREADS, 1)
    wgmma_grouped_kernel(const __grid_constant__ struct wgmma_grouped_args a)
{
    LAUNCH_SHARED(shared);
    const uint32_t base = ptx_shared(shared);

    if (threadIdx.x == 0) {
        tma_prefetch_descriptor(&a.x);
        tma_prefetch_descriptor(&a.w);
        if (a.g.kg % L::BN != 0)
            tma_prefetch_descriptor(&a.w_tail);
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
        wgmma_grouped_consume<L>(a, shared, base);
    } else {
        setmaxnreg_dec<L::PRODUCER>();
        if (threadIdx.x == L::CONSUMERS) {
            wgmma_grouped_fill<L>(a, base);
        } else if (threadIdx.x == L::CONSUMERS + 32 && a.out.residual) {
            launch_wait();
            wgmma_grouped_residuals<L>(a, base);
        }
    }
}

#endif
