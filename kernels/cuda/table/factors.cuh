/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The product of expanded operands (expand.cuh) on Hopper's wgmma: BF16 in,
 * single precision out.
 *
 * The product.  Rows m are output pixels, columns n output channels, the depth
 * d = (r, s, c), c the joined channels in k-tiles of 64.  x comes through an
 * im2col tensor map, or a plain one, as in wgmma.cuh.  w lies as
 * [filter position][n][c]: row tap K + n of one matrix.  A phase of a gradient
 * reads every step-th filter position, from the last one back.  A tile has
 * columns of one group.  Where a group's channels end within a k-tile, x goes
 * on with those of the next group, and w with zeros.
 *
 * Threads.  WGS consumer warpgroups of 64 rows each and BN columns, then a warp
 * of which a thread fills the pipeline.  A block computes one tile; tiles count
 * columns fastest.
 *
 * Shared memory.  STAGES k-tiles of BM rows of x, then BN rows of w, 128 bytes
 * each in the 128-byte swizzle; barriers full[] and empty[] as in wgmma.cuh.
 * 128x256 196,672 bytes; 128x128 98,352 and 128x64 98,368, two blocks a
 * multiprocessor; 256x64 163,904.
 */
#ifndef KERNELS_CUDA_TABLE_FACTORS_CUH
#define KERNELS_CUDA_TABLE_FACTORS_CUH

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/table/conditional.h"
#include "kernels/cuda/wgmma/wgmma.cuh"

struct factors_args {
    CUtensorMap x, w;
    const struct factor_facts *facts;
    bool im2col;
    /* Of the outputs; extents and windows of this phase. */
    int m, k, q_stride, p_stride, pad_left, pad_top;
    struct fast_div by_q, by_p;
    int dilation_h, dilation_w;
    int r, s, per_position; /* r 0: no products at all */
    int kg, depth;          /* outputs and joined channels of a group */
    /* The filter's row at (i, j) is tap + i * tap_h + j * tap_w. */
    int tap, tap_h, tap_w;
    int tiles_n, tiles_group; /* columns of tiles: all, of a group */
    /* Output of pixel n, p, q and channel k. */
    int64_t y_stride[4], y_at, r_stride[4], r_at;
    bool pairs; /* two channels of y can be stored at a time */
    bool plain; /* neither bias nor residual nor activation */
    enum infer_dtype bias_type;
    int64_t bias_step;
    struct kern_epilogue epilogue;
    const void *bias;
    const float *residual;
    float *y;
};

template <int WGS_, int BN_, int STAGES_, int BLOCKS_> struct factors_tile {
    enum {
        WGS = WGS_,
        BN = BN_,
        STAGES = STAGES_,
        BLOCKS = BLOCKS_, /* of a multiprocessor */
        BM = 64 * WGS,
        CONSUMERS = 128 * WGS,
        THREADS = CONSUMERS + 32,
        STAGE = (BM + BN) * 128,
        FULL = STAGES * STAGE,
        EMPTY = FULL + STAGES * 8,
        SHARED = EMPTY + STAGES * 8
    };
};

/* ---- loading ------------------------------------------------------- */

template <typename L>
static __device__ __forceinline__ void
factors_produce(const struct factors_args &a, uint32_t base, int m0, int n0,
                int c0)
{
    struct pipeline_state pipe = {0, 0};
    uint32_t p, q;
    const int n = (int)a.by_p.divmod(a.by_q.divmod((uint32_t)m0, &q), &p);
    const int w = (int)q * a.q_stride - a.pad_left;
    const int h = (int)p * a.p_stride - a.pad_top;

    for (int r = 0; r < a.r; r++)
        for (int s = 0; s < a.s; s++) {
            const int row = (a.tap + r * a.tap_h + s * a.tap_w) * a.k + n0;
            for (int c = 0; c < a.per_position; c++) {
                const uint32_t stage = base + pipe.stage * L::STAGE;
                const uint32_t barrier = base + L::FULL + pipe.stage * 8;
                mbarrier_wait(base + L::EMPTY + pipe.stage * 8,
                              pipe.parity ^ 1);
                mbarrier_arrive_expect_tx(barrier, L::STAGE);
                if (a.im2col)
                    tma_load_im2col(stage, &a.x, barrier, c0 + c * 64, w, h, n,
                                    s * a.dilation_w, r * a.dilation_h);
                else
                    tma_load_2d(stage, &a.x, barrier, c0 + c * 64, m0);
                tma_load_2d(stage + L::BM * 128, &a.w, barrier, c * 64, row);
                pipeline_next<L::STAGES>(&pipe);
            }
        }
}

/* ---- results ------------------------------------------------------- */

static __device__ __noinline__ void factors_finish(const struct factors_args &a,
                                                   int64_t at, int64_t r_at,
                                                   int k, float sum)
{
    float r = 0;

    if (a.bias_type != INFER_NONE)
        sum += (float)load_any(a.bias_type, a.bias, k * a.bias_step);
    if (a.residual)
        r = a.residual[r_at + k * a.r_stride[3]];
    a.y[at + k * a.y_stride[3]] = apply_epilogue(a.epilogue, sum, r);
}

/* Rows g and g + 8 of this lane's warp, columns up to end. */
template <typename L>
static __device__ __forceinline__ void
factors_store(const struct factors_args &a, const float (&acc)[L::BN / 2],
              int m0, int n0, int end)
{
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;

#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int m = m0 + threadIdx.x / 32 * 16 + g + half * 8;
        if (m >= a.m)
            continue;
        uint32_t p, q;
        const uint32_t n = a.by_p.divmod(a.by_q.divmod((uint32_t)m, &q), &p);
        const int64_t at =
            a.y_at + n * a.y_stride[0] + p * a.y_stride[1] + q * a.y_stride[2];
        const int64_t r_at =
            a.r_at + n * a.r_stride[0] + p * a.r_stride[1] + q * a.r_stride[2];
#pragma unroll
        for (int j = 0; j < L::BN / 8; j++) {
            const int k = n0 + j * 8 + t * 2;
            const float *v = acc + j * 4 + half * 2;
            if (k >= end)
                continue;
            if (a.plain && a.pairs) {
                *reinterpret_cast<float2 *>(a.y + at + k) =
                    make_float2(v[0], v[1]);
            } else if (a.plain) {
                a.y[at + k * a.y_stride[3]] = v[0];
                if (k + 1 < end)
                    a.y[at + (k + 1) * a.y_stride[3]] = v[1];
            } else {
                factors_finish(a, at, r_at, k, v[0]);
                if (k + 1 < end)
                    factors_finish(a, at, r_at, k + 1, v[1]);
            }
        }
    }
}

/* ---- the kernel ---------------------------------------------------- */

template <typename L>
static __global__ void __launch_bounds__(L::THREADS, L::BLOCKS)
    factors_kernel(const __grid_constant__ struct factors_args a)
{
    LAUNCH_SHARED(shared);
    const uint32_t base = ptx_shared(shared);
    const int m0 = blockIdx.x / a.tiles_n * L::BM;
    const int tile_n = (int)blockIdx.x % a.tiles_n;
    const int of_group = tile_n / a.tiles_group;
    const int n0 = of_group * a.kg + tile_n % a.tiles_group * L::BN;

    if (threadIdx.x == 0) {
        tma_prefetch_descriptor(&a.x);
        tma_prefetch_descriptor(&a.w);
        for (int i = 0; i < L::STAGES; i++) {
            mbarrier_init(base + L::FULL + i * 8, 1);
            mbarrier_init(base + L::EMPTY + i * 8, 4 * L::WGS);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    launch_wait();
    if (!factor_facts_are_plain(*a.facts)) /* of all threads, or none */
        return;
    if (threadIdx.x >= L::CONSUMERS) {
        if (threadIdx.x == L::CONSUMERS)
            factors_produce<L>(a, base, m0, n0, of_group * a.depth);
        return;
    }
    const int group = warpgroup_index();
    struct pipeline_state pipe = {0, 0};
    struct wgmma_operand_state<wgmma_bf16, 1> operand = {
        0, 1, false
    };
    float acc[1][L::BN / 2] = {};
    if (a.r > 0)
        wgmma_multiply<L::STAGES>(wgmma_bf16(), acc, &pipe, shared, base,
                                  base + L::FULL, base + L::EMPTY, group * 8192,
                                  L::BM * 128, a.r * a.s * a.per_position, 0,
                                  operand);
    factors_store<L>(a, acc[0], m0, n0, (of_group + 1) * a.kg);
}

#endif
