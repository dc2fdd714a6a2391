/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolution of few outputs: a batch of 1 to 8, a late stage; common to fprop
 * and dgrad.  Such a launch is made of latencies, which this kernel takes once
 * each where igemm.cuh takes them in every step.
 *
 * The product is that of igemm.cuh: rows m are pixels, columns n channels, the
 * depth d = (r, s, c).  A block owns BM x BN outputs and holds the whole depth
 * of both operands in shared memory: every copy is in flight before the first
 * is waited for.  Each k-tile has a barrier on which the copies arrive, so that
 * products begin with the first k-tile.
 *
 * Weights.  fprop's are packed: rows of the whole depth, one a channel n,
 * copied before the kernel in front has ended.  dgrad's change, and are read as
 * they lie, [k][r][s][c]: rows of all channels n, one a position of the depth,
 * of the flipped window; ldmatrix transposes them.
 *
 * Shared memory.  k-tiles of BM rows of 128 bytes, swizzled as in igemm.cuh;
 * then BN such rows of packed weights, or 64 rows of BN + 8 others, an odd
 * number of 16-byte units, so that ldmatrix has no conflicts.  Afterwards the
 * same memory takes the warps' sums, WARPS_K tiles of BM rows of BN + 8 floats.
 * Behind both lie the barriers.
 *
 * Threads, computing.  WARPS_M x WARPS_N x WARPS_K warps; the last divide the
 * depth, in turns of 16: a step waits for the product before it, so that a deep
 * product is a chain of waits, which WARPS_K shortens.
 *
 * Threads, finishing.  Thread t finishes vectors t, t + THREADS and on, of 8
 * channels: the same channels in all its vectors, so that biases stand in
 * registers from the beginning, residuals since the wait, and the activation is
 * chosen once.
 */
#ifndef KERNELS_CUDA_MMA_WHOLE_DEPTH_CUH
#define KERNELS_CUDA_MMA_WHOLE_DEPTH_CUH

#include "kernels/cuda/conv/output.cuh"
#include "kernels/cuda/conv/pixel.cuh"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/mma/igemm.cuh"
#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/strided.cuh"

#define WHOLE_DEPTH_K_TILE 64 /* elements: rows of 128 bytes */
#define WHOLE_DEPTH_ROW    128

struct whole_depth_args {
    const void *x, *w;
    int k_tiles;
    int barriers; /* where they lie in shared memory, in bytes */
    bool bias_is_constant;
    struct fast_div channels; /* of x, of weights as they lie */
    struct output_args out;
    struct conv_geometry g;
};

template <typename T_, int BM_, int BN_, int WARPS_M_, int WARPS_N_,
          int WARPS_K_, bool PACKED_ = true>
struct whole_depth_tile {
    typedef T_ T;
    enum {
        BM = BM_,
        BN = BN_,
        WARPS_M = WARPS_M_,
        WARPS_N = WARPS_N_,
        WARPS_K = WARPS_K_,
        PACKED = PACKED_,
        THREADS = 32 * WARPS_M * WARPS_N * WARPS_K,
        LINE = BN * 2 + 16, /* bytes of a row of weights as they lie */
        WEIGHTS = PACKED ? BN * WHOLE_DEPTH_ROW : WHOLE_DEPTH_K_TILE * LINE,
        STAGE = BM * WHOLE_DEPTH_ROW + WEIGHTS, /* bytes of a k-tile */
        PITCH = BN + 8,                         /* floats of a staged row */
        SUMS = WARPS_K * BM * PITCH * 4,        /* bytes */
        MT = BM / WARPS_M / 16,                 /* m16 tiles of a warp */
        NT = BN / WARPS_N / 8,                  /* n8 tiles of a warp */
        STEP = THREADS / 8,       /* rows that are copied at once */
        COLUMNS = BN / 8,         /* vectors of a row of outputs */
        ROWS = THREADS / COLUMNS, /* of outputs that are finished at once */
        VECTORS = (BM + ROWS - 1) / ROWS /* of a thread */
    };
    static_assert(BM % STEP == 0 && (!PACKED || BN % STEP == 0), "");
    static_assert(!(PACKED ? 0 : WHOLE_DEPTH_K_TILE % ROWS), "");
    static_assert(NT % 2 == 0 && VECTORS >= 1, "");
    static_assert(THREADS % COLUMNS == 0, "");
};

/* ---- copying ------------------------------------------------------- */

/* Starts the copies of all packed weights. */
template <typename L>
static __device__ __forceinline__ void
whole_depth_copy_weights(const struct whole_depth_args &a, int n0,
                         uint32_t base)
{
    typedef typename L::T T;
    const int v = threadIdx.x % 8, row = threadIdx.x / 8;
    const int pitch = a.k_tiles * WHOLE_DEPTH_K_TILE;

#pragma unroll
    for (int i = 0; i < L::BN / L::STEP; i++) {
        const int at = row + i * L::STEP;
        const bool ok = n0 + at < a.g.k;
        const T *from = (const T *)a.w + (ok ? (n0 + at) * pitch + v * 8 : 0);
        uint32_t to = base + L::BM * WHOLE_DEPTH_ROW +
                      igemm_swizzle<WHOLE_DEPTH_ROW>(at, v);
        for (int k = 0; k < a.k_tiles; k++) {
            ptx_cp_async<16>(to, from, ok);
            to += L::STAGE;
            from += ok ? WHOLE_DEPTH_K_TILE : 0;
        }
    }
}

/* Starts the copies of a k-tile's weights as they lie.  A thread takes vector
 * t % COLUMNS of rows t / COLUMNS, ROWS further and on. */
template <typename L>
static __device__ __forceinline__ void
whole_depth_copy_lines(const struct whole_depth_args &a, int n0, int k_tile,
                       uint32_t to)
{
    typedef typename L::T T;
    const int n = (int)threadIdx.x % L::COLUMNS * 8;
    const int row = (int)threadIdx.x / L::COLUMNS, taps = a.g.r * a.g.s;

#pragma unroll
    for (int i = 0; i < WHOLE_DEPTH_K_TILE / L::ROWS; i++) {
        const int at = row + i * L::ROWS;
        const int d = k_tile * WHOLE_DEPTH_K_TILE + at;
        const bool ok = d < a.g.depth && n0 + n < a.g.k;
        uint32_t k;
        const int tap = (int)a.channels.divmod((uint32_t)d, &k);
        const int line = ((int)k * taps + taps - 1 - tap) * a.g.k + n0 + n;
        ptx_cp_async<16>(to + at * L::LINE + n * 2,
                         (const T *)a.w + (ok ? line : 0), ok);
    }
}

/* The copies of earlier cp.async of this thread arrive when they are done. */
static __device__ __forceinline__ void whole_depth_arrive(uint32_t barrier)
{
    HOPPER_ASM(
        "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier)
        : "memory");
}

/* The rows of x that a thread copies, a vector of each k-tile.  Where the
 * window is 1x1, row m is pixel m, and its h only tells whether it exists. */
template <typename L> struct whole_depth_rows {
    enum { N = L::BM / L::STEP };
    struct conv_pixel pixel[N];
};

template <typename L, bool POINTWISE>
static __device__ __forceinline__ void
whole_depth_find_rows(const struct whole_depth_args &a, int m0,
                      struct whole_depth_rows<L> *rows)
{
#pragma unroll
    for (int i = 0; i < whole_depth_rows<L>::N; i++) {
        const int m = m0 + (int)threadIdx.x / 8 + i * L::STEP;
        if (POINTWISE)
            rows->pixel[i] = {m * a.g.x_pitch + (int)threadIdx.x % 8 * 8,
                              m < a.g.m, 0};
        else
            rows->pixel[i] = conv_pixel_at(a.g, m, 0);
    }
}

template <typename L, bool POINTWISE>
static __device__ __forceinline__ void
whole_depth_copy(const struct whole_depth_args &a,
                 const struct whole_depth_rows<L> &rows,
                 struct conv_depth depth, int n0, uint32_t base)
{
    typedef typename L::T T;
    const int v = threadIdx.x % 8, row = threadIdx.x / 8;
    uint32_t to[whole_depth_rows<L>::N], barrier = base + a.barriers;

#pragma unroll
    for (int i = 0; i < whole_depth_rows<L>::N; i++)
        to[i] = base + igemm_swizzle<WHOLE_DEPTH_ROW>(row + i * L::STEP, v);
#pragma unroll 2
    for (int k = 0; k < a.k_tiles; k++) {
        const int c = k * WHOLE_DEPTH_K_TILE;
        const int tap = POINTWISE ? c : conv_tap_offset(a.g, depth);
#pragma unroll
        for (int i = 0; i < whole_depth_rows<L>::N; i++) {
            const struct conv_pixel &p = rows.pixel[i];
            const bool ok = POINTWISE ? p.h && c + v * 8 < a.g.c
                                      : conv_inside(a.g, p.h, p.w, depth);
            ptx_cp_async<16>(to[i], (const T *)a.x + (ok ? p.offset + tap : 0),
                             ok);
            to[i] += L::STAGE;
        }
        if constexpr (!L::PACKED)
            whole_depth_copy_lines<L>(
                a, n0, k, base + k * L::STAGE + L::BM * WHOLE_DEPTH_ROW);
        whole_depth_arrive(barrier + k * 8);
        if (!POINTWISE)
            conv_depth_advance(a.g, &depth, WHOLE_DEPTH_K_TILE);
    }
}

/* ---- computing ----------------------------------------------------- */

/* Two n8 tiles of a step's weights, from channel `column` of the tile on. */
template <typename L>
static __device__ __forceinline__ void
whole_depth_load_weights(uint32_t from, int column, int step, uint32_t (&to)[4])
{
    const int lane = threadIdx.x % 32;

    if constexpr (L::PACKED)
        ptx_ldmatrix_x4(to, from + igemm_swizzle<WHOLE_DEPTH_ROW>(
                                       column + lane % 8 + lane / 16 * 8,
                                       step * 2 + lane / 8 % 2));
    else
        ptx_ldmatrix_x4_trans(
            to, from + (step * 16 + lane / 8 % 2 * 8 + lane % 8) * L::LINE +
                    (column + lane / 16 * 8) * 2);
}

/* Adds this warp's steps of all k-tiles. */
template <typename L>
static __device__ __forceinline__ void
whole_depth_multiply(const struct whole_depth_args &args, uint32_t base,
                     float (&acc)[L::MT][L::NT][4])
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int part = warp % L::WARPS_K, tile = warp / L::WARPS_K;
    const int row_a = tile / L::WARPS_N * L::MT * 16 + lane % 16;
    const int column = tile % L::WARPS_N * L::NT * 8;

#pragma unroll 2
    for (int k = 0; k < args.k_tiles; k++) {
        const uint32_t a = base + k * L::STAGE;
        const uint32_t b = a + L::BM * WHOLE_DEPTH_ROW;
        mbarrier_wait(base + args.barriers + k * 8, 0);
#pragma unroll
        for (int turn = 0; turn < 4 / L::WARPS_K; turn++) {
            const int step = turn * L::WARPS_K + part;
            uint32_t fa[L::MT][4], fb[L::NT][2];
#pragma unroll
            for (int i = 0; i < L::MT; i++)
                ptx_ldmatrix_x4(fa[i],
                                a + igemm_swizzle<WHOLE_DEPTH_ROW>(
                                        row_a + i * 16, step * 2 + lane / 16));
#pragma unroll
            for (int j = 0; j < L::NT; j += 2) {
                uint32_t four[4];
                whole_depth_load_weights<L>(b, column + j * 8, step, four);
                fb[j][0] = four[0];
                fb[j][1] = four[1];
                fb[j + 1][0] = four[2];
                fb[j + 1][1] = four[3];
            }
#pragma unroll
            for (int i = 0; i < L::MT; i++)
#pragma unroll
                for (int j = 0; j < L::NT; j++)
                    ptx_mma(typename L::T(), acc[i][j], fa[i], fb[j]);
        }
    }
}

template <typename L>
static __device__ __forceinline__ void
whole_depth_stage_sums(const float (&acc)[L::MT][L::NT][4], float *sums)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int part = warp % L::WARPS_K, tile = warp / L::WARPS_K;
    const int row = tile / L::WARPS_N * L::MT * 16 + lane / 4;
    const int column = tile % L::WARPS_N * L::NT * 8 + lane % 4 * 2;

#pragma unroll
    for (int i = 0; i < L::MT; i++)
#pragma unroll
        for (int j = 0; j < L::NT; j++) {
            float *to = sums + (part * L::BM + row + i * 16) * L::PITCH +
                        column + j * 8;
            *(float2 *)to = make_float2(acc[i][j][0], acc[i][j][1]);
            *(float2 *)(to + 8 * L::PITCH) =
                make_float2(acc[i][j][2], acc[i][j][3]);
        }
}

/* ---- finishing ----------------------------------------------------- */

/* A thread's outputs: vectors of the same 8 channels k of pixels m, m + step
 * and on. */
template <typename L> struct whole_depth_outputs {
    int row, m, k;
    bool any; /* of these channels */
    float bias[8];
    uint4 residual[L::VECTORS];
};

template <typename L>
static __device__ __forceinline__ void
whole_depth_load_bias(const struct whole_depth_args &a,
                      struct whole_depth_outputs<L> *o)
{
#pragma unroll
    for (int j = 0; j < 8; j++)
        o->bias[j] = 0;
    if (a.out.bias && o->any) {
        load_floats<float, 4>(a.out.bias + o->k, o->bias);
        load_floats<float, 4>(a.out.bias + o->k + 4, o->bias + 4);
    }
}

template <typename L>
static __device__ __forceinline__ void
whole_depth_load_residual(const struct whole_depth_args &a,
                          struct whole_depth_outputs<L> *o)
{
    typedef typename L::T T;

#pragma unroll
    for (int i = 0; i < L::VECTORS; i++) {
        const int m = o->m + i * L::ROWS;
        if (a.out.residual && o->any && m < a.g.m)
            o->residual[i] = *(const uint4 *)((const T *)a.out.residual +
                                              (size_t)m * a.out.r_pitch + o->k);
    }
}

/* Adds the residuals to N values where they come before the activation, or
 * behind it. */
template <typename L>
static __device__ __forceinline__ void
whole_depth_add_residual(const struct whole_depth_outputs<L> &o, float *v)
{
    float r[8];

#pragma unroll
    for (int i = 0; i < L::VECTORS; i++) {
        load_floats<typename L::T, 8>((const typename L::T *)&o.residual[i], r);
#pragma unroll
        for (int j = 0; j < 8; j++)
            v[i * 8 + j] += r[j];
    }
}

template <typename L>
static __device__ __forceinline__ void
whole_depth_finish(const struct whole_depth_args &a,
                   const struct whole_depth_outputs<L> &o, const float *sums)
{
    typedef typename L::T T;
    const bool last = a.out.epilogue.residual_last;
    float v[L::VECTORS * 8];

    if (!o.any)
        return;
#pragma unroll
    for (int i = 0; i < L::VECTORS; i++) {
#pragma unroll
        for (int j = 0; j < 8; j++)
            v[i * 8 + j] = o.bias[j];
#pragma unroll
        for (int part = 0; part < L::WARPS_K; part++) {
            const float *from =
                sums + (part * L::BM + o.row + i * L::ROWS) * L::PITCH +
                threadIdx.x % L::COLUMNS * 8;
            float s[8];
            load_floats<float, 4>(from, s);
            load_floats<float, 4>(from + 4, s + 4);
#pragma unroll
            for (int j = 0; j < 8; j++)
                v[i * 8 + j] += s[j];
        }
    }
    if (a.out.residual && !last)
        whole_depth_add_residual<L>(o, v);
    unary_inline<L::VECTORS * 8>(a.out.epilogue.act, v);
    if (a.out.residual && last)
        whole_depth_add_residual<L>(o, v);
#pragma unroll
    for (int i = 0; i < L::VECTORS; i++)
        if (o.any && o.m + i * L::ROWS < a.g.m)
            store_floats<T, 8>((T *)a.out.y +
                                   (size_t)(o.m + i * L::ROWS) * a.out.y_pitch +
                                   o.k,
                               v + i * 8);
}

/* Has the arguments that the end needs in the constant cache before the wait:
 * a line that is not there costs some 200 cycles. */
static __device__ __forceinline__ void
whole_depth_touch(const struct output_args &o)
{
    asm volatile("" ::"l"(o.y), "r"(o.y_pitch), "r"(o.r_pitch),
                 "r"((int)o.epilogue.act.kind), "f"(o.epilogue.act.a),
                 "f"(o.epilogue.act.b), "r"((int)o.epilogue.residual_last));
}

/* ---- the kernel ---------------------------------------------------- */

template <typename L, bool POINTWISE>
static __global__ void __launch_bounds__(L::THREADS)
    whole_depth_kernel(const __grid_constant__ struct whole_depth_args a)
{
    typedef typename L::T T;
    LAUNCH_SHARED(shared);
    const int m0 = blockIdx.y * L::BM, n0 = blockIdx.x * L::BN;
    const uint32_t base = ptx_shared(shared);
    float acc[L::MT][L::NT][4] = {};
    struct whole_depth_rows<L> rows;
    struct whole_depth_outputs<L> out;
    struct conv_depth depth = {};

    for (int k = threadIdx.x; k < a.k_tiles; k += L::THREADS)
        mbarrier_init(base + a.barriers + k * 8, L::THREADS);
    if constexpr (L::PACKED)
        whole_depth_copy_weights<L>(a, n0, base);
    whole_depth_find_rows<L, POINTWISE>(a, m0, &rows);
    if (!POINTWISE)
        depth = conv_depth_at(a.g, (int)threadIdx.x % 8 * 8);
    out.row = (int)threadIdx.x / L::COLUMNS;
    out.m = m0 + out.row;
    out.k = n0 + (int)threadIdx.x % L::COLUMNS * 8;
    out.any = out.k < a.g.k && out.row < L::BM;
    if (a.bias_is_constant)
        whole_depth_load_bias<L>(a, &out);
    whole_depth_touch(a.out);
    __syncthreads();
    launch_wait();
    whole_depth_copy<L, POINTWISE>(a, rows, depth, n0, base);
    if (!a.bias_is_constant)
        whole_depth_load_bias<L>(a, &out);
    whole_depth_load_residual<L>(a, &out);
    whole_depth_multiply<L>(a, base, acc);
    __syncthreads();
    whole_depth_stage_sums<L>(acc, (float *)shared);
    __syncthreads();
    whole_depth_finish<L>(a, out, (const float *)shared);
}

#endif
