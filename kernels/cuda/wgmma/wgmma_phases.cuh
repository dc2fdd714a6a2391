/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dgrad of a strided convolution on Hopper, in one launch.  wgmma.cuh describes
 * the product and the pipeline, wgmma_tile.cuh threads, ping-pong and
 * registers, which are the same here.
 *
 * Phases.  Pixels of dx whose rows and columns have the same remainder modulo
 * the strides see the same filter positions, every stride-th: they are a
 * convolution of dy of stride 1 with those, flipped.  For row
 * h = stride h' + a the first position is r0 = (a + pad) mod stride, the i-th
 * r0 + stride i, i < R' = ceil((R - r0) / stride), and
 * dx[h'] = sum over i of dy[h' + (a + pad - r0) / stride - i] w[r0 + stride i].
 *
 * Work.  A CTA computes BM pixels by BN channels of one phase after the other,
 * so that all CTAs have the same work, dy is in L2 from the previous phase, and
 * neighbours in dx are written soon after each other.  The consumers alternate
 * between phases (ping-pong).
 *
 * Outputs.  Pixels of a phase lie strides apart: each warp stages 16 of them by
 * 64 channels in its quarter of an epilogue stage, and writes them from there,
 * 16 bytes a lane, whole lines of 128 bytes.  Residuals are loaded the same way
 * before the products begin.
 */
#ifndef KERNELS_CUDA_WGMMA_WGMMA_PHASES_CUH
#define KERNELS_CUDA_WGMMA_WGMMA_PHASES_CUH

#include "kernels/cuda/strided.cuh"
#include "kernels/cuda/wgmma/wgmma_tile.cuh"

enum { WGMMA_MAX_PHASES = 4 };

struct wgmma_phase {
    int row, column;       /* of dx, below the strides */
    int r, s;              /* filter positions; none if one is 0 */
    int first_r, first_s;  /* the first position in the filter */
    int pad_top, pad_left; /* of dy, for the flipped filter */
    int p, q;              /* extents */
    int m;                 /* pixels of all images */
    int k_tiles;           /* r * s * per_position */
    struct fast_div by_p, by_q;
};

struct wgmma_phases_args {
    CUtensorMap dy[WGMMA_MAX_PHASES];
    CUtensorMap w;
    struct wgmma_phase phase[WGMMA_MAX_PHASES];
    int phases;
    int h, wide, k; /* dx: its extents and channels */
    int stride_h, stride_w;
    int window_s;     /* columns of the window */
    int per_position; /* k-tiles of a filter position */
    int tiles_m, tiles_n;
    const void *residual; /* NULL: none; may be dx */
    void *dx;
};

/* ---- pixels -------------------------------------------------------- */

/* The four pixels of a box of 64 that this lane moves, 16 bytes each: pixel
 * lane / 8 + 4 i of its warp's 16.  -1 past the last. */
static __device__ __forceinline__ void
wgmma_phase_pixels(const struct wgmma_phases_args &a,
                   const struct wgmma_phase &phase, int m0, int (&pixel)[4])
{
    const int lane = threadIdx.x % 32;
    const int m = m0 + threadIdx.x / 32 % 4 * 16 + lane % 16;
    int own = -1;

    if (m < phase.m) {
        uint32_t q, p;
        const uint32_t np = phase.by_q.divmod((uint32_t)m, &q);
        const uint32_t n = phase.by_p.divmod(np, &p);
        own = ((int)n * a.h + (int)p * a.stride_h + phase.row) * a.wide +
              (int)q * a.stride_w + phase.column;
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
        pixel[i] = __shfl_sync(0xffffffffu, own, lane / 8 + 4 * i);
}

/* Offset of this lane's 16 bytes of its i-th pixel in an epilogue stage. */
static __device__ __forceinline__ int wgmma_phase_at(int i)
{
    const int lane = threadIdx.x % 32, row = lane / 8 + 4 * i;

    return (threadIdx.x / 32 % 4 * 16 + row) * 128 +
           ((lane % 8 ^ row % 8) << 4);
}

/* The residuals of a consumer's part of a tile. */
template <typename L>
static __device__ __forceinline__ void
wgmma_phase_residuals(const struct wgmma_phases_args &a,
                      const struct wgmma_phase &phase, int m0, int n0,
                      uint4 (&r)[L::BOXES][4])
{
    typedef typename L::T T;

#pragma unroll
    for (int box = 0; box < L::BOXES; box++) {
        const int n = n0 + box % L::PARTS * 64 + threadIdx.x % 8 * 8;
        int pixel[4];
        wgmma_phase_pixels(a, phase, m0 + box / L::PARTS * 64, pixel);
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (pixel[i] >= 0 && n < a.k)
                r[box][i] = *(const uint4 *)((const T *)a.residual +
                                             (size_t)pixel[i] * a.k + n);
    }
}

/* ---- storing ------------------------------------------------------- */

/* Adds residuals, converts and stores a consumer's part of a tile. */
template <typename L>
static __device__ __forceinline__ void
wgmma_phase_store(const struct wgmma_phases_args &a,
                  const struct wgmma_phase &phase,
                  float (&acc)[L::MT][L::BN / 2], const uint4 (&r)[L::BOXES][4],
                  unsigned char *epi, uint32_t base, int m0, int n0)
{
    typedef typename L::T T;

#pragma unroll
    for (int box = 0; box < L::BOXES; box++) {
        const int n = n0 + box % L::PARTS * 64;
        float *v = acc[box / L::PARTS] + box % L::PARTS * 32;
        int pixel[4];
        if (n >= a.k)
            continue;
        __syncwarp(); /* the box before has been read */
        if (a.residual) {
#pragma unroll
            for (int i = 0; i < 4; i++)
                *(uint4 *)(epi + wgmma_phase_at(i)) = r[box][i];
            __syncwarp();
            wgmma_epi_stage<T, 8>::add(base, v);
            __syncwarp();
        }
        wgmma_epi_stage<T, 8>::store(base, v);
        wgmma_phase_pixels(a, phase, m0 + box / L::PARTS * 64, pixel);
        __syncwarp();
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const uint4 out = *(const uint4 *)(epi + wgmma_phase_at(i));
            const int column = n + threadIdx.x % 8 * 8;
            if (pixel[i] >= 0 && column < a.k)
                *(uint4 *)((T *)a.dx + (size_t)pixel[i] * a.k + column) = out;
        }
    }
}

/* ---- the kernel ---------------------------------------------------- */

template <typename L>
static __device__ __forceinline__ void
wgmma_phases_consume(const struct wgmma_phases_args &a, unsigned char *shared,
                     uint32_t base)
{
    typedef typename L::T T;
    const int tiles = a.tiles_m * a.tiles_n;
    const int group = warpgroup_index();
    const int role = group / L::COOP, member = group % L::COOP;
    const int epi = L::EPI_AT + group * L::EPI_BYTES;
    struct pipeline_state pipe = {0, 0};
    struct wgmma_operand_state<typename L::mode, L::MT> none = {
    };
    int order = 0;

    if (L::PINGPONG == 2 && role == 1)
        named_barrier_arrive(L::ORDER_BARRIER, 256);
    launch_wait();
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const int m0 = tile / a.tiles_n * L::BM, n0 = tile % a.tiles_n * L::BN;
        const int own = m0 + member * L::MT * 64;
        for (int f = 0; f < a.phases; f++) {
            const struct wgmma_phase &phase = a.phase[f];
            float acc[L::MT][L::BN / 2];
            uint4 r[L::BOXES][4] = {};
            if (m0 >= phase.m)
                continue;
            if (L::PINGPONG == 2 && order++ % 2 != role) {
                pipeline_skip<L::STAGES>(&pipe, phase.k_tiles);
                continue;
            }
            if (a.residual)
                wgmma_phase_residuals<L>(a, phase, own, n0, r);
            wgmma_start_sums<L::MT, L::BN>(NULL, a.k, n0, acc);
            if (L::PINGPONG == 2)
                named_barrier_sync(L::ORDER_BARRIER + role, 256);
            if (phase.k_tiles > 0)
                wgmma_multiply<L::STAGES>(
                    typename L::mode(), acc, &pipe, shared, base,
                    base + L::FULL, base + L::EMPTY, member * L::MT * 8192,
                    L::X_BYTES, phase.k_tiles,
                    L::PINGPONG == 2 ? L::ORDER_BARRIER + 1 - role : 0, none);
            else if (L::PINGPONG == 2)
                named_barrier_arrive(L::ORDER_BARRIER + 1 - role, 256);
            wgmma_phase_store<L>(a, phase, acc, r, shared + epi, base + epi,
                                 own, n0);
        }
    }
}

/* Loads the k-tiles of one phase: filter positions of dy forwards, of w
 * backwards. */
template <typename L>
static __device__ __forceinline__ void
wgmma_phases_produce(const struct wgmma_phases_args &a, int f,
                     struct pipeline_state *pipe, uint32_t base, int m0, int n0)
{
    const struct wgmma_phase &phase = a.phase[f];
    uint32_t q, p;
    const uint32_t np = phase.by_q.divmod((uint32_t)m0, &q);
    const int n = (int)phase.by_p.divmod(np, &p);
    const int w = (int)q - phase.pad_left, h = (int)p - phase.pad_top;

    for (int r = 0; r < phase.r; r++)
        for (int s = 0; s < phase.s; s++) {
            const int tap =
                (phase.first_r + a.stride_h * (phase.r - 1 - r)) * a.window_s +
                phase.first_s + a.stride_w * (phase.s - 1 - s);
            for (int c = 0; c < a.per_position; c++) {
                const uint32_t stage = base + pipe->stage * (L::STAGE);
                const uint32_t full = base + L::FULL + pipe->stage * 8;
                mbarrier_wait(base + L::EMPTY + pipe->stage * 8,
                              pipe->parity ^ 1);
                mbarrier_arrive_expect_tx(full, L::STAGE);
                wgmma_load_weights_mn_major<L::BN>(&a.w, stage + L::X_BYTES,
                                                   full, n0, tap, c * 64);
                tma_load_im2col(stage, &a.dy[f], full, c * 64, w, h, n, s, r);
                pipeline_next<L::STAGES>(pipe);
            }
        }
}

template <typename L>
static __device__ __forceinline__ void
wgmma_phases_fill(const struct wgmma_phases_args &a, uint32_t base)
{
    const int tiles = a.tiles_m * a.tiles_n;
    struct pipeline_state pipe = {0, 0};

    launch_wait();
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const int m0 = tile / a.tiles_n * L::BM, n0 = tile % a.tiles_n * L::BN;
        for (int f = 0; f < a.phases; f++)
            if (m0 < a.phase[f].m)
                wgmma_phases_produce<L>(a, f, &pipe, base, m0, n0);
    }
}

template <typename L>
static __global__ void __launch_bounds__(L::THREADS, 1)
    wgmma_phases_kernel(const __grid_constant__ struct wgmma_phases_args a)
{
    LAUNCH_SHARED(shared);
    const uint32_t base = ptx_shared(shared);

    static_assert(L::mode::B_MN_MAJOR && L::USED == 64, "see above");
    if (threadIdx.x == 0) {
        tma_prefetch_descriptor(&a.w);
        tma_prefetch_descriptor(&a.dy[0]);
        for (int i = 0; i < L::STAGES; i++) {
            mbarrier_init(base + L::FULL + i * 8, 1);
            mbarrier_init(base + L::EMPTY + i * 8, 4 * L::COOP);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    launch_release();
    if (threadIdx.x < L::CONSUMERS) {
        setmaxnreg_inc<L::CONSUMER>();
        wgmma_phases_consume<L>(a, shared, base);
    } else {
        setmaxnreg_dec<L::PRODUCER>();
        if (threadIdx.x == L::CONSUMERS)
            wgmma_phases_fill<L>(a, base);
    }
}

#endif
