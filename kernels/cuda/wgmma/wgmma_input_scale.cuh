/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products on Hopper of an input times its scale (kernels/input_scale.h): from
 * shared memory to registers, times the scale of its image and channels, and
 * from there to wgmma.
 *
 * The order of channels within a k-tile does not matter as long as x and w
 * agree.  So lane 4 g + t takes channels 16 t .. 16 t + 15 of pixels g and g +
 * 8 of its warp's 16, two vectors of 16 bytes each and as many of the scale:
 * words 4 v + 2 j and 4 v + 2 j + 1 of its row's eight are its words t and t +
 * 4 in step 2 v + j.  wgmma_input_scale_channel() orders the packed weights
 * likewise. Eight lanes, two rows of x, read all 32 banks: vector 2 t + v of
 * row g lies at (2 t + v) ^ g.
 *
 * The product of x and its scale is rounded to 16 bits, as a kernel of its own
 * would store it.  Channels past the last are zeros in both.
 */
#ifndef KERNELS_CUDA_WGMMA_WGMMA_INPUT_SCALE_CUH
#define KERNELS_CUDA_WGMMA_WGMMA_INPUT_SCALE_CUH

#include "kernels/cuda/conv/scale.cuh"
#include "kernels/cuda/wgmma/wgmma.cuh"

template <typename T> struct wgmma_input_scale {
    typedef T type;
    typedef float sum;
    enum { WEIGHTS = 1, HALF = 1, BYTES = 0, B_MN_MAJOR = 0, INPUT_SCALE = 1 };
};

/* The channel of depth d of a k-tile of 64: d = 16 k + 8 u + 2 t + h is channel
 * 16 t + 4 k + 2 u + h. */
static inline int wgmma_input_scale_channel(int d)
{
    const int k = d / 16, u = d / 8 % 2, t = d / 2 % 4;

    return 16 * t + 4 * k + 2 * u + d % 2;
}

/* ---- factors ------------------------------------------------------- */

/* Addresses of the scale of this lane's pixels, its values for the next k-tile,
 * and the lane's first channel there. Pixels past the last take the last one's
 * scale and are not stored. */
template <typename T, int MT>
struct wgmma_operand_state<wgmma_input_scale<T>, MT> {
    const T *from[MT][2];
    uint4 factor[MT][2][2];
    int c, end;
};

/* Loads the scale of the next k-tile. */
template <typename T, int MT>
static __device__ __forceinline__ void
wgmma_load_input_scale(struct wgmma_operand_state<wgmma_input_scale<T>, MT> &b)
{
#pragma unroll
    for (int i = 0; i < 4 * MT; i++) {
        const int mt = i / 4, e = i / 2 % 2, v = i % 2, at = b.c + v * 8;
        b.factor[mt][e][v] = at < b.end ? *(const uint4 *)(b.from[mt][e] + at)
                                        : make_uint4(0, 0, 0, 0);
    }
}

template <typename T, int MT>
static __device__ __forceinline__ void
wgmma_operand_begin(struct wgmma_operand_state<wgmma_input_scale<T>, MT> &b,
                    const struct wgmma_args &a, int m, int k_tile)
{
    const int row = m + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;

#pragma unroll
    for (int i = 0; i < 2 * MT; i++) {
        const int pixel = min(row + i / 2 * 64 + i % 2 * 8, a.g.m - 1);
        const size_t image = a.pixels.div((uint32_t)pixel);
        b.from[i / 2][i % 2] = (const T *)a.input_scale + image * a.g.c;
    }
    b.c = k_tile * 64 + threadIdx.x % 4 * 16;
    b.end = a.g.c;
    wgmma_load_input_scale(b);
}

/* ---- products ------------------------------------------------------ */

/* Loads this lane's fragments of MT times 64 rows of a k-tile, times the scale:
 * x[mt] is four steps of depth. */
template <typename T, int MT>
static __device__ __forceinline__ void
wgmma_load_scaled(const unsigned char *k_tile, const uint4 (&factor)[MT][2][2],
                  uint32_t (&x)[MT][4][4])
{
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const unsigned char *row = k_tile + (threadIdx.x / 32 % 4 * 16 + g) * 128;

#pragma unroll
    for (int i = 0; i < 4 * MT; i++) {
        const int mt = i / 4, e = i / 2 % 2, v = i % 2;
        const uint4 f = factor[mt][e][v];
        const uint4 w = *(const uint4 *)(row + mt * 8192 + e * 1024 +
                                         (((2 * t + v) ^ g) << 4));
        x[mt][2 * v][e] = scale_pair(T(), w.x, f.x);
        x[mt][2 * v][2 + e] = scale_pair(T(), w.y, f.y);
        x[mt][2 * v + 1][e] = scale_pair(T(), w.z, f.z);
        x[mt][2 * v + 1][2 + e] = scale_pair(T(), w.w, f.w);
    }
#pragma unroll
    for (int i = 0; i < 16 * MT; i++)
        register_fence(x[i / 16][i / 4 % 4][i % 4]);
}

/* As wgmma_multiply() of plain halves; the scale of the next k-tile is loaded
 * while the products of this one run. */
template <int STAGES, int MT, int N, typename T>
static __device__ __forceinline__ void
wgmma_multiply(wgmma_input_scale<T>, float (&acc)[MT][N],
               struct pipeline_state *pipe, const unsigned char *shared,
               uint32_t base, uint32_t full, uint32_t empty, int x_at, int w_at,
               int k_tiles, int order_barrier,
               struct wgmma_operand_state<wgmma_input_scale<T>, MT> &operand)
{
    const int stage_bytes = w_at + 2 * N * 128;

    for (int i = 0; i < k_tiles; i++) {
        const int stage = pipe->stage * stage_bytes;
        const uint64_t w = smem_desc_k_major(base + stage + w_at);
        uint32_t x[MT][4][4];
        mbarrier_wait(full + pipe->stage * 8, pipe->parity);
        wgmma_load_scaled<T, MT>(shared + stage + x_at, operand.factor, x);
        wgmma_arrive();
#pragma unroll
        for (int k = 0; k < 4; k++)
#pragma unroll
            for (int mt = 0; mt < MT; mt++)
                wgmma_mma_rs(T(), acc[mt], x[mt][k], w + k * 2, true);
        wgmma_commit_group();
        operand.c += 64;
        wgmma_load_input_scale(operand);
        wgmma_wait_group<0>();
        if (threadIdx.x % 32 == 0)
            mbarrier_arrive(empty + pipe->stage * 8);
        pipeline_next<STAGES>(pipe);
    }
    if (order_barrier)
        named_barrier_arrive(order_barrier, 256);
}

#endif
