/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Common to Hopper's convolution kernels: the product, the pipeline of k-tiles
 * and its producer thread.
 *
 * The product.  Rows m are output pixels, columns n output channels, the depth
 * d = (r, s, c) with c padded to whole k-tiles in the packed weights.  A k-tile
 * is 128 bytes of channels of one filter position (r, s): 128 of 8 bits, 64
 * halves or 32 floats.  TMA finds the windows itself through an im2col
 * tensor map; a 1x1 window with neither stride nor pads is a plain matrix. Both
 * fill with zeros outside the image, past the last channel and past the last
 * pixel.  Of weights only rows that exist are loaded: rows of zeros cost more
 * than others (128 outputs in a tile of 256 took 244 us, 256 of them 167;
 * H100).  What lies in their place is multiplied, too, and never stored.
 *
 * The pipeline.  STAGES k-tiles of BM rows of x, then BN rows of w, 128 bytes
 * each in the 128-byte swizzle, which needs 1024-byte alignment.  full[i]: the
 * producer arrives once and expects the bytes of the stage; the phase ends when
 * they have arrived.  empty[i]: one lane of each consumer warp arrives when its
 * products have read the stage.
 */
#ifndef KERNELS_CUDA_WGMMA_WGMMA_CUH
#define KERNELS_CUDA_WGMMA_WGMMA_CUH

#include "kernels/cuda/conv/output.cuh"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/quant/end.cuh"
#include "kernels/cuda/quant/wgmma_products.cuh"
#include "kernels/cuda/tf32.cuh"
#include "kernels/cuda/strided.cuh"

extern "C" {
#include "kernels/cuda/wgmma/tensor_map.h"
}

struct wgmma_args {
    CUtensorMap x, w;
    CUtensorMap w_tail;      /* of the columns of a tile that is not whole */
    CUtensorMap y, residual; /* of the epilogue's TMA stores and loads */
    struct conv_geometry g;
    struct output_args out;
    int im2col;        /* x is an im2col tensor map, else a matrix */
    int constant_bias; /* no kernel of the stream writes it */
    int unaligned;     /* y is not aligned to 16 bytes: no TMA stores */
    int per_position;  /* k-tiles of one filter position (r, s) */
    int k_tiles;       /* of the whole depth */
    int tiles_m, tiles_n;
    float *bn_stats;         /* partial statistics; NULL: none */
    const void *input_scale; /* [n][c]; NULL: none (wgmma_input_scale.cuh) */
    struct fast_div pixels;  /* of an image, for the input scale */
    struct quant_end quant;  /* of 8 bits (wgmma_8bit.cuh) */
};

/* ---- types --------------------------------------------------------- */

/* WEIGHTS: matrices of packed weights; HALF: of 16 bits; BYTES: of 8 bits;
 * B_MN_MAJOR: dgrad,
 * whose weights lie as in training, w[channel of d][filter position][n], may
 * have changed since the launch before, and are read with the filter flipped.
 * INPUT_SCALE: x is multiplied with a scale in registers
 * (wgmma_input_scale.cuh). */
template <typename T, int MN_MAJOR> struct wgmma_half {
    typedef T type;
    typedef float sum;
    enum {
        WEIGHTS = 1,
        HALF = 1,
        BYTES = 0,
        B_MN_MAJOR = MN_MAJOR,
        INPUT_SCALE = 0
    };
};
typedef wgmma_half<__half, 0> wgmma_f16;
typedef wgmma_half<__nv_bfloat16, 0> wgmma_bf16;
typedef wgmma_half<__half, 1> wgmma_f16_mn_major;
typedef wgmma_half<__nv_bfloat16, 1> wgmma_bf16_mn_major;
/* Operands rounded to TF32: x by TMA, w when it is packed. */
struct wgmma_tf32 {
    typedef float type, sum;
    enum { WEIGHTS = 1, HALF = 0, BYTES = 0, B_MN_MAJOR = 0, INPUT_SCALE = 0 };
};
/* Single precision: x = big + small, both TF32 to nearest, likewise w, which is
 * packed as two matrices. x w = small big + big small + big big; the term left
 * out is below 2^-21 of a product. */
struct wgmma_tf32x3 {
    typedef float type, sum;
    enum { WEIGHTS = 2, HALF = 0, BYTES = 0, B_MN_MAJOR = 0, INPUT_SCALE = 0 };
};
/* Pixels of U8 or I8, weights of I8, sums of 32 bits (wgmma_8bit.cuh). */
template <typename T> struct wgmma_bytes {
    typedef T type;
    typedef int sum;
    enum { WEIGHTS = 1, HALF = 0, BYTES = 1, B_MN_MAJOR = 0, INPUT_SCALE = 0 };
};
typedef wgmma_bytes<uint8_t> wgmma_u8;
typedef wgmma_bytes<int8_t> wgmma_i8;
/* F8E4M3.  Tensor cores keep 13 bits behind the point of the largest term of a
 * sum, so that each k-tile has sums of its own. */
struct wgmma_e4m3 {
    typedef float8 type;
    typedef float sum;
    enum { WEIGHTS = 1, HALF = 0, BYTES = 1, B_MN_MAJOR = 0, INPUT_SCALE = 0 };
};

/* ---- the pipeline -------------------------------------------------- */

/* The next stage of a pipeline and the parity of its phase. */
struct pipeline_state {
    int stage;
    uint32_t parity;
};

template <int STAGES>
static __device__ __forceinline__ void pipeline_next(struct pipeline_state *r)
{
    if (++r->stage == STAGES) {
        r->stage = 0;
        r->parity ^= 1;
    }
}

/* Skips n stages. */
template <int STAGES>
static __device__ __forceinline__ void pipeline_skip(struct pipeline_state *r,
                                                     int n)
{
    const int to = r->stage + n;

    r->stage = to % STAGES;
    r->parity ^= (uint32_t)(to / STAGES) & 1;
}

/* Loads BN columns from n0 on of 64 depths from d on of one filter position:
 * boxes of 64 columns. */
template <int BN>
static __device__ __forceinline__ void
wgmma_load_weights_mn_major(const CUtensorMap *w, uint32_t to, uint32_t barrier,
                            int n0, int tap, int d, int boxes = BN / 64)
{
#pragma unroll
    for (int j = 0; j < BN / 64; j++)
        if (j < boxes)
            tma_load_3d(to + j * 8192, w, barrier, n0 + j * 64, tap, d);
}

/* Starts the load of k-tile i of the weights into a stage: chunk c of the
 * channels of filter position `tap`.  A division here would be what a k-tile
 * takes: one thread fills the pipeline. */
template <typename L>
static __device__ __forceinline__ void
wgmma_load_weights(const struct wgmma_args &a, uint32_t stage, uint32_t barrier,
                   int i, int tap, int c, int n0)
{
    const int width = 128 / (int)sizeof(typename L::T);
    const int columns = min((int)L::BN, a.g.k - n0);

    if constexpr (L::mode::B_MN_MAJOR) {
        const int boxes = (columns + 63) / 64;
        mbarrier_arrive_expect_tx(barrier, L::BM * 128 + boxes * 8192);
        wgmma_load_weights_mn_major<L::BN>(&a.w, stage + L::BM * 128, barrier,
                                           n0, a.g.r * a.g.s - 1 - tap,
                                           c * width, boxes);
    } else {
        const CUtensorMap *w = columns == L::BN ? &a.w : &a.w_tail;
        mbarrier_arrive_expect_tx(barrier,
                                  (L::BM + L::mode::WEIGHTS * columns) * 128);
#pragma unroll
        for (int j = 0; j < L::mode::WEIGHTS; j++)
            tma_load_2d(stage + (L::BM + j * L::BN) * 128, w, barrier,
                        i * width, n0 + j * a.g.k);
    }
}

/* Starts the loads of the weights, K-major ones, of the first k-tiles before
 * the kernel waits for the previous one, which does not write them. Returns
 * their number. */
template <typename L>
static __device__ __forceinline__ int
wgmma_prefetch_weights(const struct wgmma_args &a, uint32_t base, uint32_t full,
                       int n0, int first, int end)
{
    const int ahead = min((int)L::STAGES, end - first);

    for (int i = 0; i < ahead; i++)
        wgmma_load_weights<L>(a, base + i * L::STAGE, full + i * 8, first + i,
                              0, 0, n0);
    return ahead;
}

/* Fills the pipeline with k-tiles first .. end - 1 of the tile at (m0, n0); the
 * weights of the first `ahead` k-tiles are in flight. full and empty: addresses
 * of the barriers. */
template <typename L>
static __device__ __forceinline__ void
wgmma_produce(const struct wgmma_args &a, struct pipeline_state *pipe,
              uint32_t base, uint32_t full, uint32_t empty, int m0, int n0,
              int first, int end, int ahead)
{
    const int width = 128 / (int)sizeof(typename L::T);
    const int q = m0 % a.g.q, np = m0 / a.g.q;
    const int w = q * a.g.stride_w - a.g.pad_left;
    const int h = np % a.g.p * a.g.stride_h - a.g.pad_top;
    const int n = np / a.g.p;
    int c = first % a.per_position;
    int s = first / a.per_position % a.g.s, r = first / a.per_position / a.g.s;

    for (int i = first; i < end; i++) {
        const uint32_t stage = base + pipe->stage * L::STAGE;
        const uint32_t barrier = full + pipe->stage * 8;
        if (i - first >= ahead) {
            mbarrier_wait(empty + pipe->stage * 8, pipe->parity ^ 1);
            wgmma_load_weights<L>(a, stage, barrier, i, r * a.g.s + s, c, n0);
        }
        if (a.im2col)
            tma_load_im2col(stage, &a.x, barrier, c * width, w, h, n,
                            s * a.g.dilation_w, r * a.g.dilation_h);
        else
            tma_load_2d(stage, &a.x, barrier, c * width, m0);
        pipeline_next<L::STAGES>(pipe);
        if (++c == a.per_position) {
            c = 0;
            if (++s == a.g.s) {
                s = 0;
                r++;
            }
        }
    }
}

/* ---- products ------------------------------------------------------ */

/* What a warpgroup knows of its k-tiles: at: the next one's number within its
 * filter position; halved: the last one of a position has channels in its first
 * half alone.  wgmma_input_scale.cuh keeps registers of operands instead.
 * wgmma_operand_begin() takes the first of its MT times 64 pixels and its first
 * k-tile. */
template <typename M, int MT> struct wgmma_operand_state {
    int at, per_position;
    bool halved;
};

template <typename M, int MT>
static __device__ __forceinline__ void
wgmma_operand_begin(struct wgmma_operand_state<M, MT> &b,
                    const struct wgmma_args &a, int, int k_tile)
{
    const int bytes = a.g.cg * (int)sizeof(typename M::type) % 128;

    b.per_position = a.per_position;
    b.at = k_tile % a.per_position;
    b.halved = !M::B_MN_MAJOR && bytes > 0 && bytes <= 64;
}

/* True if the second half of the next k-tile is zeros. */
template <typename M, int MT>
static __device__ __forceinline__ bool
wgmma_operand_next(struct wgmma_operand_state<M, MT> &b)
{
    if (!b.halved)
        return false;
    const bool last = b.at + 1 == b.per_position;
    b.at = last ? 0 : b.at + 1;
    return last;
}

#ifndef WGMMA_STEPS
#define WGMMA_STEPS 4
#endif

template <typename M, typename S, int N>
static __device__ __forceinline__ void wgmma_issue(S (&d)[N], uint64_t x,
                                                   uint64_t w)
{
    if constexpr (M::B_MN_MAJOR)
        wgmma_mma_b_mn_major(typename M::type(), d, x, w, true);
    else
        wgmma_mma(typename M::type(), d, x, w, true);
}

/* A group of products: STEPS times 32 bytes of depth; 64 rows are 8192. */
template <typename M, int STEPS, typename S, int MT, int N>
static __device__ __forceinline__ void wgmma_issue_steps(S (&acc)[MT][N],
                                                         uint64_t x, uint64_t w)
{
    const int w_step = (M::B_MN_MAJOR ? 2048 : 32) >> 4;

    wgmma_arrive();
#pragma unroll
    for (int k = 0; k < STEPS; k++)
#pragma unroll
        for (int mt = 0; mt < MT; mt++)
            wgmma_issue<M>(acc[mt], x + k * 2 + mt * (8192 >> 4),
                           w + k * w_step);
    wgmma_commit_group();
}

/* The main loop: adds k_tiles k-tiles of the pipeline to acc, MT times 64 rows
 * by BN = 2 N columns. x of this warpgroup lies x_at bytes into a stage, w at
 * w_at. One group of products stays in flight while the next k-tile is awaited.
 * order_barrier, unless 0: the named barrier of 256 threads to arrive at when
 * the last products are issued. */
template <int STAGES, typename S, int MT, int N, typename M>
static __device__ __forceinline__ void
wgmma_multiply(M, S (&acc)[MT][N], struct pipeline_state *pipe,
               const unsigned char *, uint32_t base, uint32_t full,
               uint32_t empty, int x_at, int w_at, int k_tiles,
               int order_barrier, struct wgmma_operand_state<M, MT> &operand)
{
    const int stage_bytes = w_at + 2 * N * 128;
    const bool first_lane = threadIdx.x % 32 == 0;
    int before = 0; /* stage whose products may be in flight */

    for (int i = 0; i < k_tiles; i++) {
        const uint32_t stage = base + pipe->stage * stage_bytes;
        const uint64_t x = smem_desc_k_major(stage + x_at);
        const uint64_t w = M::B_MN_MAJOR ? smem_desc_mn_major(stage + w_at)
                                         : smem_desc_k_major(stage + w_at);
        const bool half = wgmma_operand_next(operand);
        mbarrier_wait(full + pipe->stage * 8, pipe->parity);
        if (half)
            wgmma_issue_steps<M, 2>(acc, x, w);
        else
            wgmma_issue_steps<M, 4>(acc, x, w);
        wgmma_wait_group<1>();
        if (i > 0 && first_lane)
            mbarrier_arrive(empty + before * 8);
        before = pipe->stage;
        pipeline_next<STAGES>(pipe);
    }
    if (order_barrier)
        named_barrier_arrive(order_barrier, 256);
    wgmma_wait_group<0>();
    if (first_lane)
        mbarrier_arrive(empty + before * 8);
}

/* The products of a k-tile, STEPS times 32 bytes deep, of 64 rows. */
template <int STEPS, int N>
static __device__ __forceinline__ void wgmma_issue_part(float (&part)[N],
                                                        uint64_t x, uint64_t w)
{
    wgmma_arrive();
#pragma unroll
    for (int k = 0; k < STEPS; k++)
        wgmma_mma(float8(), part, x + k * 2, w + k * 2, k > 0);
    wgmma_commit_group();
}

/* The main loop of F8E4M3: 64 rows after the other, each of whose k-tiles has
 * sums of its own, which are added in round-to-nearest arithmetic while the
 * products of another warpgroup run; or of the next rows, where registers are
 * enough for their sums too. */
template <int STAGES, int MT, int N>
static __device__ __forceinline__ void
wgmma_multiply(wgmma_e4m3, float (&acc)[MT][N], struct pipeline_state *pipe,
               const unsigned char *, uint32_t base, uint32_t full,
               uint32_t empty, int x_at, int w_at, int k_tiles,
               int order_barrier,
               struct wgmma_operand_state<wgmma_e4m3, MT> &operand)
{
    constexpr int PARTS = MT == 2 && N <= 32 ? 2 : 1;
    const int stage_bytes = w_at + 2 * N * 128;
    const bool first_lane = threadIdx.x % 32 == 0;
    float part[PARTS][N];

    for (int i = 0; i < k_tiles; i++) {
        const uint32_t stage = base + pipe->stage * stage_bytes;
        const uint64_t x = smem_desc_k_major(stage + x_at);
        const uint64_t w = smem_desc_k_major(stage + w_at);
        const bool half = wgmma_operand_next(operand);
        mbarrier_wait(full + pipe->stage * 8, pipe->parity);
#pragma unroll
        for (int mt = 0; mt < MT; mt += PARTS) {
#pragma unroll
            for (int j = 0; j < PARTS; j++) {
                const uint64_t rows = x + (mt + j) * (8192 >> 4);
                if (half)
                    wgmma_issue_part<2>(part[j], rows, w);
                else
                    wgmma_issue_part<4>(part[j], rows, w);
            }
#pragma unroll
            for (int j = 0; j < PARTS; j++) {
                if (j + 1 < PARTS)
                    wgmma_wait_group<1>();
                else
                    wgmma_wait_group<0>();
                if (mt + j + 1 == MT && first_lane)
                    mbarrier_arrive(empty + pipe->stage * 8);
#pragma unroll
                for (int e = 0; e < N; e++)
                    acc[mt + j][e] += part[j][e];
            }
        }
        pipeline_next<STAGES>(pipe);
    }
    if (order_barrier)
        named_barrier_arrive(order_barrier, 256);
}

/* Loads this lane's fragments of 64 rows of a k-tile of x, split: four steps of
 * depth. */
static __device__ __forceinline__ void wgmma_load_split(const unsigned char *x,
                                                        uint32_t (&big)[4][4],
                                                        uint32_t (&small)[4][4])
{
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const unsigned char *row =
        x + (threadIdx.x / 32 % 4 * 16 + g) * 128 + t * 4;

#pragma unroll
    for (int k = 0; k < 4; k++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int vector = (k * 2 + e / 2) ^ g; /* of 16 bytes, swizzled */
            tf32_split(*(const uint32_t *)(row + e % 2 * 1024 + (vector << 4)),
                       &big[k][e], &small[k][e]);
        }
}

/* The main loop in single precision. Tensor cores truncate their sums, so each
 * k-tile has sums of its own, which are added in round-to-nearest arithmetic;
 * small products come first, so that few truncations are of the full size. */
template <int STAGES, int MT, int N>
static __device__ __forceinline__ void
wgmma_multiply(wgmma_tf32x3, float (&acc)[MT][N], struct pipeline_state *pipe,
               const unsigned char *shared, uint32_t base, uint32_t full,
               uint32_t empty, int x_at, int w_at, int k_tiles,
               int order_barrier,
               struct wgmma_operand_state<wgmma_tf32x3, MT> &)
{
    enum { STEPS = WGMMA_STEPS };
    const int stage_bytes = w_at + 4 * N * 128;
    const bool first_lane = threadIdx.x % 32 == 0;
    float part[N];

    for (int i = 0; i < k_tiles; i++) {
        const int stage = pipe->stage * stage_bytes;
        const uint64_t w = smem_desc_k_major(base + stage + w_at);
        const uint64_t w_small = w + (2 * N * 128 >> 4);
        uint32_t big[4][4], small[4][4];
        mbarrier_wait(full + pipe->stage * 8, pipe->parity);
        wgmma_load_split(shared + stage + x_at, big, small);
#pragma unroll
        for (int from = 0; from < 4; from += STEPS) {
            wgmma_arrive();
#pragma unroll
            for (int k = from; k < from + STEPS; k++) {
                wgmma_mma_rs(0.0f, part, small[k], w + k * 2, k > from);
                wgmma_mma_rs(0.0f, part, big[k], w_small + k * 2, true);
            }
#pragma unroll
            for (int k = from; k < from + STEPS; k++)
                wgmma_mma_rs(0.0f, part, big[k], w + k * 2, true);
            wgmma_commit_group();
            wgmma_wait_group<0>();
            if (from + STEPS == 4 && first_lane)
                mbarrier_arrive(empty + pipe->stage * 8);
#pragma unroll
            for (int j = 0; j < N; j++)
                acc[0][j] += part[j];
        }
        pipeline_next<STAGES>(pipe);
    }
    if (order_barrier)
        named_barrier_arrive(order_barrier, 256);
}

#endif
