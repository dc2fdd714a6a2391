/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implicit GEMM convolution on tensor cores through mma.sync (sm_80).
 *
 * The product.  Rows m are output pixels, columns n the output channels of one
 * group, the depth d = (r, s, c).  Nothing is unfolded in memory: the address
 * of x[m, d] is worked out while copying to shared memory.  A block owns a tile
 * of BM x BN outputs and walks the depth in k-tiles of ROW bytes (64 or 128) a
 * row; blockIdx.x counts tiles, channels fastest (neighbours share pixels in
 * L2), blockIdx.z counts groups and, within a group, split-K's parts.
 *
 * Shared memory.  STAGES k-tiles of BM + BN rows of ROW bytes.  A row holds
 * ROW/16 vectors of 16 bytes; vector v of row i lies at v ^ f(i), where f(i)
 * is i % 8 for 128-byte rows and i / 2 % 4 for 64-byte rows: then the eight
 * rows that an ldmatrix phase reads, one vector each, cover all 32 banks.
 * Afterwards the same memory stages the tile of sums, BM rows of BN + 8 floats:
 * 8 words from row to row spread the 4 rows of a half-warp's float2 stores over
 * all banks.  Bytes: max(STAGES * (BM + BN) * ROW, BM * (BN + 8) * 4), and the
 * tile's biases, BN floats.
 *
 * Threads, copying.  Thread t copies vector t % (ROW/16) of rows t / (ROW/16)
 * and every THREADS / (ROW/16) further, of both operands: one depth position
 * (r, s, c) a thread, advanced by a k-tile at a time without division.  VECTOR
 * is the width of one copy: 16 bytes need cg to be a multiple of 16 bytes;
 * narrower ones take any cg and keep the pixels' table in shared memory
 * (16 bytes a row) because a thread then copies too many rows for registers.
 * Pixels outside the image and depths beyond the window are filled with zeros
 * by the copy itself.
 *
 * Threads, computing.  WARPS_M x WARPS_N warps, each a tile of WM x WN from
 * m16n8 instructions: 32 bytes of depth an instruction (16 halves or 8 TF32),
 * so one ldmatrix layout serves every type.
 *
 * TF32X3 keeps single precision: x = big + small, both TF32 to nearest, and
 * x w = big big + big small + small big; what is dropped is below 2^-21 of a
 * product.  Tensor cores truncate their sums, so each step of 8 has sums of its
 * own, which are added in round-to-nearest arithmetic.
 */
#ifndef KERNELS_CUDA_MMA_IGEMM_CUH
#define KERNELS_CUDA_MMA_IGEMM_CUH

#include "kernels/cuda/conv/pixel.cuh"
#include "kernels/cuda/mma/igemm_finish.cuh"
#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/quant/end.cuh"
#include "kernels/cuda/quant/mma.cuh"
#include "kernels/cuda/tf32.cuh"

struct igemm_args {
    struct conv_geometry g;
    const void *x, *w; /* w: rows of `pitch` elements, one an output channel */
    float *parts;      /* split-K's parts, NULL where the tile is finished */
    int pitch;         /* elements, a multiple of a k-tile */
    int k_tiles;       /* of the whole depth */
    int splits, k_tiles_per_split;
    int tiles_n;
    enum igemm_end end;
    bool bias_is_constant; /* and can be read before the kernel in front ends */
    struct output_args out;
    struct quant_end quant; /* of 8 bits */
};

/* ---- types --------------------------------------------------------- */

/* SPLIT: each product as three of TF32; WIDE: of 32 bits; QUANT: 8 bits
 * (quant/end.cuh); PARTS: a k-tile has sums of its own, which are added in
 * round-to-nearest arithmetic; PEAK: tenths of a TFLOP/s that a multiprocessor
 * of an H200 reaches with the largest tile. */
struct igemm_f16 {
    typedef __half type;
    typedef float sum;
    enum { SPLIT = 0, WIDE = 0, QUANT = 0, PARTS = 0, PEAK = 20 };
};
struct igemm_bf16 {
    typedef __nv_bfloat16 type;
    typedef float sum;
    enum { SPLIT = 0, WIDE = 0, QUANT = 0, PARTS = 0, PEAK = 20 };
};
struct igemm_tf32 {
    typedef float type;
    typedef float sum;
    enum { SPLIT = 0, WIDE = 1, QUANT = 0, PARTS = 0, PEAK = 10 };
};
struct igemm_tf32x3 {
    typedef float type;
    typedef float sum;
    enum { SPLIT = 1, WIDE = 1, QUANT = 0, PARTS = 0, PEAK = 3 };
};
/* Pixels of U8 or I8, weights of I8. */
template <typename X> struct igemm_bytes {
    typedef X type;
    typedef int sum;
    enum { SPLIT = 0, WIDE = 0, QUANT = 1, PARTS = 0, PEAK = 40 };
};
typedef igemm_bytes<uint8_t> igemm_u8;
typedef igemm_bytes<int8_t> igemm_i8;
/* F8E4M3.  Tensor cores of sm_89 keep 13 bits behind the point of sums. */
struct igemm_e4m3 {
    typedef float8 type;
    typedef float sum;
    enum { SPLIT = 0, WIDE = 0, QUANT = 1, PARTS = 1, PEAK = 40 };
};

/* ---- tiles --------------------------------------------------------- */

/* VECTOR: bytes of one copy of x. */
template <typename M, int BM_, int BN_, int ROW_, int STAGES_, int WARPS_M_,
          int WARPS_N_, int VECTOR_>
struct igemm_tile {
    typedef M mode;
    typedef typename M::type T;
    typedef typename M::sum sum;
    enum {
        BM = BM_,
        BN = BN_,
        ROW = ROW_,
        STAGES = STAGES_,
        WARPS_M = WARPS_M_,
        WARPS_N = WARPS_N_,
        VECTOR = VECTOR_,
        THREADS = 32 * WARPS_M * WARPS_N,
        K_TILE = ROW / (int)sizeof(T), /* elements of depth */
        STAGE = (BM + BN) * ROW,       /* bytes */
        PITCH = BN + 8,                /* floats of a staged row */
        PIPE = STAGES * STAGE > BM *PITCH * 4 ? STAGES *STAGE : BM *PITCH * 4,
        TABLE = VECTOR == 16 ? 0 : BM * 16,
        SHARED = PIPE + TABLE + BN * 4,
        WM = BM / WARPS_M,
        WN = BN / WARPS_N,
        MT = WM / 16, /* m16 tiles of a warp */
        NT = WN / 8,  /* n8 tiles of a warp */
        /* Copies of 16 bytes. */
        VECTORS = ROW / 16,
        STEP = THREADS / VECTORS,
        A_COPIES = BM / STEP,
        B_COPIES = BN / STEP,
        /* Narrow copies of x. */
        NARROW = ROW / VECTOR,
        NARROW_STEP = THREADS / NARROW,
        NARROW_COPIES = BM / NARROW_STEP
    };
};

/* Byte offset of vector v of row i in a k-tile. */
template <int ROW>
static __device__ __forceinline__ int igemm_swizzle(int i, int v)
{
    return i * ROW + ((v ^ (ROW == 128 ? i & 7 : (i >> 1) & 3)) << 4);
}

/* ---- copying ------------------------------------------------------- */

/* The rows of x that one thread copies: 16 bytes of each of A_COPIES. */
template <typename L> struct igemm_wide_rows {
    struct conv_pixel pixel[L::A_COPIES];
};

template <typename L>
static __device__ __forceinline__ void
igemm_copy_wide(const struct igemm_args &a,
                const struct igemm_wide_rows<L> &rows,
                const struct conv_depth &d, uint32_t stage)
{
    typedef typename L::T T;
    const int v = threadIdx.x % L::VECTORS, row = threadIdx.x / L::VECTORS;
    const int tap = conv_tap_offset(a.g, d);

#pragma unroll
    for (int i = 0; i < L::A_COPIES; i++) {
        const bool ok = conv_inside(a.g, rows.pixel[i].h, rows.pixel[i].w, d);
        const T *from = (const T *)a.x + (ok ? rows.pixel[i].offset + tap : 0);
        const uint32_t to = stage + igemm_swizzle<L::ROW>(row + i * L::STEP, v);
        if constexpr (L::mode::QUANT)
            ptx_cp_async<16>(to, ok ? (const void *)from : a.quant.blank, true);
        else
            ptx_cp_async<16>(to, from, ok);
    }
}

/* The same with copies of VECTOR bytes (1 and 2: through a register). */
template <typename L>
static __device__ __forceinline__ void
igemm_copy_narrow(const struct igemm_args &a, const int4 *table,
                  const struct conv_depth &d, unsigned char *k_tile)
{
    typedef typename L::T T;
    const int v = threadIdx.x % L::NARROW, row = threadIdx.x / L::NARROW;
    const int tap = conv_tap_offset(a.g, d), byte = v * L::VECTOR;

#pragma unroll 4
    for (int i = 0; i < L::NARROW_COPIES; i++) {
        const int at = row + i * L::NARROW_STEP;
        const int4 p = table[at];
        const bool ok = conv_inside(a.g, p.y, p.z, d);
        const T *from = (const T *)a.x + (ok ? p.x + tap : 0);
        unsigned char *to =
            k_tile + igemm_swizzle<L::ROW>(at, byte / 16) + byte % 16;
        if constexpr (L::mode::QUANT) {
            from = ok ? from : (const T *)a.quant.blank;
            if constexpr (L::VECTOR >= 4)
                ptx_cp_async<L::VECTOR>(ptx_shared(to), from, true);
            else
                *to = *(const unsigned char *)from;
        } else if (L::VECTOR >= 4) {
            ptx_cp_async<(L::VECTOR < 4 ? 4 : (int)L::VECTOR)>(ptx_shared(to),
                                                               from, ok);
        } else {
            *(uint16_t *)to =
                ok ? __ldg((const unsigned short *)from) : (uint16_t)0;
        }
    }
}

/* Weights: always whole vectors, the packed rows are padded. */
template <typename L>
static __device__ __forceinline__ void
igemm_copy_weights(const struct igemm_args &a, int group, int n0, int k_tile,
                   uint32_t stage)
{
    typedef typename L::T T;
    const int v = threadIdx.x % L::VECTORS, row = threadIdx.x / L::VECTORS;

#pragma unroll
    for (int i = 0; i < L::B_COPIES; i++) {
        const int n = n0 + row + i * L::STEP;
        const bool ok = n < a.g.kg;
        const T *from =
            (const T *)a.w +
            (ok ? (size_t)(group * a.g.kg + n) * a.pitch +
                      (size_t)k_tile * L::K_TILE + v * (16 / (int)sizeof(T))
                : 0);
        ptx_cp_async<16>(stage + igemm_swizzle<L::ROW>(row + i * L::STEP, v),
                         from, ok);
    }
}

/* ---- computing ----------------------------------------------------- */

template <typename L, typename S>
static __device__ __forceinline__ void
igemm_multiply(S (&acc)[L::MT][L::NT][4], const uint32_t (&fa)[L::MT][4],
               const uint32_t (&fb)[L::NT][2])
{
#pragma unroll
    for (int i = 0; i < L::MT; i++)
#pragma unroll
        for (int j = 0; j < L::NT; j++)
            ptx_mma(typename L::T(), acc[i][j], fa[i], fb[j]);
}

/* Three products, the small ones first.  Tensor cores truncate their sums, so
 * those of a step are added to the others in round-to-nearest arithmetic. */
template <typename L>
static __device__ __forceinline__ void
igemm_multiply_split(float (&acc)[L::MT][L::NT][4], uint32_t (&fa)[L::MT][4],
                     uint32_t (&fb)[L::NT][2])
{
    uint32_t small_a[L::MT][4], small_b[L::NT][2];
    float part[L::MT][L::NT][4] = {};

#pragma unroll
    for (int i = 0; i < L::MT; i++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            tf32_split(fa[i][e], &fa[i][e], &small_a[i][e]);
#pragma unroll
    for (int j = 0; j < L::NT; j++)
#pragma unroll
        for (int e = 0; e < 2; e++)
            tf32_split(fb[j][e], &fb[j][e], &small_b[j][e]);
    igemm_multiply<L>(part, small_a, fb);
    igemm_multiply<L>(part, fa, small_b);
    igemm_multiply<L>(part, fa, fb);
#pragma unroll
    for (int i = 0; i < L::MT; i++)
#pragma unroll
        for (int j = 0; j < L::NT; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                acc[i][j][e] += part[i][j][e];
}

/* Adds one k-tile: stage holds BM rows of x, then BN rows of w. */
template <typename L>
static __device__ __forceinline__ void
    igemm_add_k_tile(typename L::sum (&acc)[L::MT][L::NT][4], uint32_t stage)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int row_a = warp / L::WARPS_N * L::WM + lane % 16;
    const int row_b = warp % L::WARPS_N * L::WN + lane % 8 + lane / 16 * 8;
    const uint32_t stage_b = stage + L::BM * L::ROW;

#pragma unroll
    for (int step = 0; step < L::ROW / 32; step++) {
        uint32_t fa[L::MT][4], fb[L::NT][2];
#pragma unroll
        for (int i = 0; i < L::MT; i++)
            ptx_ldmatrix_x4(
                fa[i], stage + igemm_swizzle<L::ROW>(row_a + i * 16,
                                                     step * 2 + lane / 16));
#pragma unroll
        for (int j = 0; j < L::NT; j += 2) {
            uint32_t four[4];
            ptx_ldmatrix_x4(
                four, stage_b + igemm_swizzle<L::ROW>(row_b + j * 8,
                                                      step * 2 + lane / 8 % 2));
            fb[j][0] = four[0];
            fb[j][1] = four[1];
            fb[j + 1][0] = four[2];
            fb[j + 1][1] = four[3];
        }
        if constexpr (L::mode::SPLIT) {
            igemm_multiply_split<L>(acc, fa, fb);
        } else {
            if (L::mode::WIDE) { /* weights are rounded when they are packed */
#pragma unroll
                for (int i = 0; i < L::MT; i++)
#pragma unroll
                    for (int e = 0; e < 4; e++)
                        fa[i][e] = tf32_round(fa[i][e]);
            }
            igemm_multiply<L>(acc, fa, fb);
        }
    }
}

/* The same, by sums of the k-tile's own where the type wants them. */
template <typename L>
static __device__ __forceinline__ void
    igemm_k_tile(typename L::sum (&acc)[L::MT][L::NT][4], uint32_t stage)
{
    if constexpr (L::mode::PARTS) {
        typename L::sum part[L::MT][L::NT][4] = {};

        igemm_add_k_tile<L>(part, stage);
#pragma unroll
        for (int i = 0; i < L::MT; i++)
#pragma unroll
            for (int j = 0; j < L::NT; j++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    acc[i][j][e] += part[i][j][e];
    } else {
        igemm_add_k_tile<L>(acc, stage);
    }
}

/* ---- the tile's end ------------------------------------------------ */

/* Two sums to shared memory. */
template <typename S>
static __device__ __forceinline__ void igemm_put(void *to, S x, S y)
{
    const vec<S, 2> pair = {{x, y}};

    store_vec<S, 2>((S *)to, pair);
}

template <typename L>
static __device__ __forceinline__ void
igemm_stage_sums(const typename L::sum (&acc)[L::MT][L::NT][4], float *tile)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int row = warp / L::WARPS_N * L::WM + lane / 4;
    const int column = warp % L::WARPS_N * L::WN + lane % 4 * 2;

#pragma unroll
    for (int i = 0; i < L::MT; i++)
#pragma unroll
        for (int j = 0; j < L::NT; j++) {
            float *to = tile + (row + i * 16) * L::PITCH + column + j * 8;
            igemm_put(to, acc[i][j][0], acc[i][j][1]);
            igemm_put(to + 8 * L::PITCH, acc[i][j][2], acc[i][j][3]);
        }
}

/* Biases of channels n0 and on of the group; 0 where there are none. */
template <typename L>
static __device__ __forceinline__ void
igemm_load_biases(const struct igemm_args &a, int group, int n0, float *bias)
{
    for (int i = threadIdx.x; i < L::BN; i += L::THREADS)
        bias[i] = a.out.bias && n0 + i < a.g.kg
                      ? a.out.bias[group * a.g.kg + n0 + i]
                      : 0;
}

/* SMOOTH: of 8 bits, the activation is one of kernels/quant/act.h. */
template <typename L, bool SMOOTH>
static __device__ __forceinline__ void
igemm_finish(const struct igemm_args &a, const float *tile, const float *bias,
             int m0, int n0, int group, int split)
{
    typedef typename L::T T;
    enum { N = igemm_lane<T>::N };
    const struct igemm_place at = {m0, min((int)L::BM, a.g.m - m0),
                                   group * a.g.kg + n0,
                                   min((int)L::BN, a.g.kg - n0)};

    if (a.parts) {
        igemm_store_parts<T, L::BN, L::THREADS>(
            a.parts + (size_t)split * a.g.m * a.g.k, a.g.k, at, tile, L::PITCH);
        return;
    }
    if constexpr (L::mode::QUANT)
        quant_store_tile<L::BN, L::THREADS, SMOOTH>(
            a.quant, a.out, (const typename L::sum *)tile, L::PITCH, at.m,
            at.rows, at.k, at.columns, a.g.kg);
    else if (a.end == IGEMM_VECTORS)
        igemm_store_vectors<T, N, L::BN, L::THREADS>(a.out, at, tile, L::PITCH,
                                                     bias);
    else if (a.end == IGEMM_HALF_VECTORS)
        igemm_store_vectors<T, N / 2, L::BN, L::THREADS>(a.out, at, tile,
                                                         L::PITCH, bias);
    else if (a.end == IGEMM_QUARTER_VECTORS)
        igemm_store_vectors<T, N / 4, L::BN, L::THREADS>(a.out, at, tile,
                                                         L::PITCH, bias);
    else if (a.end == IGEMM_FLAT)
        igemm_store_flat<T, L::THREADS>(a.out, at, tile, L::PITCH, bias);
    else
        igemm_store_scalars<T, L::THREADS>(a.out, at, tile, L::PITCH, bias);
}

/* ---- padding ------------------------------------------------------- */

/* The pixels of x, `pitch` elements apart, with their channels padded by zeros
 * to whole vectors. */
struct igemm_padding_args {
    const void *x;
    void *to;
    int pixels, channels, pitch;
    int vectors; /* of a padded pixel */
};

/* One vector of N elements a thread. */
template <typename T, int N>
static __global__ void __launch_bounds__(256)
    igemm_padding(const __grid_constant__ struct igemm_padding_args a)
{
    const int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x;
    const int64_t pixel = i / a.vectors;
    const int c = (int)(i % a.vectors) * N;
    const T *from = (const T *)a.x + pixel * a.pitch + c;
    vec<T, N> v;

    launch_wait();
    if (pixel >= a.pixels)
        return;
#pragma unroll
    for (int j = 0; j < N; j++)
        v.at[j] = c + j < a.channels ? from[j] : T();
    store_vec<T, N>((T *)a.to + i * N, v);
}

/* ---- the kernel ---------------------------------------------------- */

template <typename L, bool SMOOTH>
static __global__ void __launch_bounds__(L::THREADS)
    igemm_kernel(const __grid_constant__ struct igemm_args a)
{
    typedef typename L::T T;
    LAUNCH_SHARED(shared);
    const int m0 = (int)(blockIdx.x / a.tiles_n) * L::BM;
    const int n0 = (int)(blockIdx.x % a.tiles_n) * L::BN;
    const int group = blockIdx.z / a.splits, split = blockIdx.z % a.splits;
    const int first = split * a.k_tiles_per_split;
    const int count = min(a.k_tiles_per_split, a.k_tiles - first);
    const uint32_t base = ptx_shared(shared);
    int4 *table = (int4 *)(shared + L::PIPE);
    float *bias = (float *)(shared + L::PIPE + L::TABLE);

    struct igemm_wide_rows<L> rows;
    struct conv_depth depth;
    if (L::VECTOR == 16) {
#pragma unroll
        for (int i = 0; i < L::A_COPIES; i++)
            rows.pixel[i] = conv_pixel_at(
                a.g, m0 + (int)threadIdx.x / L::VECTORS + i * L::STEP, group);
        depth = conv_depth_at(a.g, first * L::K_TILE +
                                       (int)threadIdx.x % L::VECTORS *
                                           (16 / (int)sizeof(T)));
    } else {
        for (int i = threadIdx.x; i < L::BM; i += L::THREADS) {
            const struct conv_pixel p = conv_pixel_at(a.g, m0 + i, group);
            table[i] = make_int4(p.offset, p.h, p.w, 0);
        }
        depth = conv_depth_at(a.g, first * L::K_TILE +
                                       (int)threadIdx.x % L::NARROW *
                                           (L::VECTOR / (int)sizeof(T)));
        __syncthreads();
    }

    typename L::sum acc[L::MT][L::NT][4];
#pragma unroll
    for (int i = 0; i < L::MT; i++)
#pragma unroll
        for (int j = 0; j < L::NT; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                acc[i][j][e] = 0;

                /* k-tile i lies in stage i % STAGES.  The copies of a k-tile
                 * start when the barrier has shown that every warp is done with
                 * the k-tile that lay there before.  Weights are constant:
                 * those of the first k-tiles need not wait for the previous
                 * layer. */
#define IGEMM_COPY_WEIGHTS(i)                                                  \
    igemm_copy_weights<L>(a, group, n0, first + (i),                           \
                          base + (i) % L::STAGES * L::STAGE + L::BM * L::ROW)
#define IGEMM_COPY(i)                                                          \
    do {                                                                       \
        const int stage_at = (i) % L::STAGES * L::STAGE;                       \
        if (L::VECTOR == 16)                                                   \
            igemm_copy_wide<L>(a, rows, depth, base + stage_at);               \
        else                                                                   \
            igemm_copy_narrow<L>(a, table, depth, shared + stage_at);          \
        conv_depth_advance(a.g, &depth, L::K_TILE);                            \
    } while (0)

#pragma unroll
    for (int i = 0; i < L::STAGES - 1; i++)
        if (i < count)
            IGEMM_COPY_WEIGHTS(i);
    if (a.bias_is_constant && !L::mode::QUANT)
        igemm_load_biases<L>(a, group, n0, bias);
    launch_wait();
#pragma unroll
    for (int i = 0; i < L::STAGES - 1; i++) {
        if (i < count)
            IGEMM_COPY(i);
        ptx_cp_async_commit();
    }
    if (!a.bias_is_constant && !L::mode::QUANT)
        igemm_load_biases<L>(a, group, n0, bias);
    for (int i = 0; i < count; i++) {
        ptx_cp_async_wait<L::STAGES - 2>();
        __syncthreads();
        if (i + L::STAGES - 1 < count) {
            IGEMM_COPY_WEIGHTS(i + L::STAGES - 1);
            IGEMM_COPY(i + L::STAGES - 1);
        }
        ptx_cp_async_commit();
        igemm_k_tile<L>(acc, base + i % L::STAGES * L::STAGE);
    }
#undef IGEMM_COPY
#undef IGEMM_COPY_WEIGHTS

    /* No copy is in flight: those past the last k-tile were never started. */
    __syncthreads();
    igemm_stage_sums<L>(acc, (float *)shared);
    __syncthreads();
    igemm_finish<L, SMOOTH>(a, (const float *)shared, bias, m0, n0, group,
                            split);
}

#endif
