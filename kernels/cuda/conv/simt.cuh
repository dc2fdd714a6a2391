/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implicit GEMM convolution with plain multiply-adds in single precision: any
 * GPU, any channels, groups, strides, dilations and pads.
 *
 * The product.  Rows m are output pixels, columns n the output channels of one
 * group, the depth d = (r, s, c).  A block of 256 threads owns BM x BN outputs
 * and walks the depth 16 at a time.  blockIdx.x counts tiles, channels
 * fastest; blockIdx.z counts groups.
 *
 * Shared memory, floats, two of each so that a k-tile is fetched while the last
 * one is used: x[16][BM + 4] (transposed, so that a thread reads its pixels as
 * float4; 4 more keep rows on 16 bytes and spread the transposing stores) and
 * w[16][BN].  Besides a table of BM pixels of 16 bytes.  Bytes:
 * 2 * 16 * (BM + 4 + BN) * 4 + BM * 16; 36,096 for 128 x 128.
 *
 * Threads, fetching.  VECTOR adjacent channels an access (4 where cg is a
 * multiple of 4, else 1).  Thread t takes depth t % (16 / VECTOR) of every
 * 256 / (16 / VECTOR)-th pixel: one depth position a thread, advanced without
 * division.  Weights are packed depth-major, 4 channels an access.
 *
 * Threads, computing.  Thread t holds TM x TN sums: pixels 4 (t / TX) .. + 3
 * (and the same BM / 2 further where TM is 8), channels TNP (t % TX) .. in the
 * same way, where TX = BN / TN and TNP = min(TN, 4).
 */
#ifndef KERNELS_CUDA_CONV_SIMT_CUH
#define KERNELS_CUDA_CONV_SIMT_CUH

#include "kernels/cuda/conv/family.cuh"
#include "kernels/cuda/conv/output.cuh"
#include "kernels/cuda/conv/pixel.cuh"
#include "kernels/cuda/conv/state.cuh"
#include "kernels/cuda/launch.cuh"

#define SIMT_THREADS 256
#define SIMT_K_TILE  16

struct simt_args {
    struct conv_geometry g;
    const void *x;
    const float *w; /* [group][depth_pad][kg_pad] */
    int depth_pad, kg_pad;
    int tiles_n;
    struct output_args out;
};

template <typename T_, int BM_, int BN_, int TM_, int TN_, int VECTOR_>
struct simt_tile {
    typedef T_ T;
    enum {
        BM = BM_,
        BN = BN_,
        TM = TM_,
        TN = TN_,
        VECTOR = VECTOR_,
        PITCH = BM + 4,
        TX = BN / TN,
        TMP = TM < 4 ? TM : 4, /* adjacent pixels, channels of a thread */
        TNP = TN < 4 ? TN : 4,
        COLUMNS = SIMT_K_TILE / VECTOR,
        STEP = SIMT_THREADS / COLUMNS,
        X_COPIES = BM / STEP,
        W_VECTORS = SIMT_K_TILE * BN / 4,
        W_COPIES = (W_VECTORS + SIMT_THREADS - 1) / SIMT_THREADS,
        STAGE = SIMT_K_TILE * (PITCH + BN), /* floats */
        SHARED = 2 * STAGE * 4 + BM * 16
    };
};

/* ---- fetching ------------------------------------------------------ */

template <typename L>
static __device__ __forceinline__ void
simt_fetch_x(const struct simt_args &a, const int4 *table,
             const struct conv_depth &d, float (&to)[L::X_COPIES][L::VECTOR])
{
    const int tap = conv_tap_offset(a.g, d), row = threadIdx.x / L::COLUMNS;

#pragma unroll
    for (int i = 0; i < L::X_COPIES; i++) {
        const int4 p = table[row + i * L::STEP];
        if (conv_inside(a.g, p.y, p.z, d)) {
            load_floats<typename L::T, L::VECTOR>(
                (const typename L::T *)a.x + (p.x + tap), to[i]);
        } else {
#pragma unroll
            for (int j = 0; j < L::VECTOR; j++)
                to[i][j] = 0;
        }
    }
}

template <typename L>
static __device__ __forceinline__ void
simt_put_x(const float (&from)[L::X_COPIES][L::VECTOR], float *x)
{
    const int row = threadIdx.x / L::COLUMNS;
    const int d = threadIdx.x % L::COLUMNS * L::VECTOR;

#pragma unroll
    for (int i = 0; i < L::X_COPIES; i++)
#pragma unroll
        for (int j = 0; j < L::VECTOR; j++)
            x[(d + j) * L::PITCH + row + i * L::STEP] = from[i][j];
}

/* Depth `at` on, channels n0 on. */
template <typename L>
static __device__ __forceinline__ void
simt_fetch_w(const struct simt_args &a, const float *w, int at, int n0,
             float4 (&to)[L::W_COPIES])
{
#pragma unroll
    for (int i = 0; i < L::W_COPIES; i++) {
        const int v = threadIdx.x + i * SIMT_THREADS;
        const int d = v / (L::BN / 4), n = n0 + v % (L::BN / 4) * 4;
        to[i] = make_float4(0, 0, 0, 0);
        if (v < L::W_VECTORS && n < a.kg_pad)
            to[i] =
                __ldg((const float4 *)(w + (size_t)(at + d) * a.kg_pad + n));
    }
}

template <typename L>
static __device__ __forceinline__ void
simt_put_w(const float4 (&from)[L::W_COPIES], float *w)
{
#pragma unroll
    for (int i = 0; i < L::W_COPIES; i++) {
        const int v = threadIdx.x + i * SIMT_THREADS;
        if (v < L::W_VECTORS)
            ((float4 *)w)[v] = from[i];
    }
}

/* ---- computing ----------------------------------------------------- */

/* Part i of a thread's pixels or channels: TMP of them, BM / 2 apart. */
template <typename L>
static __device__ __forceinline__ void
simt_k_tile(const float *x, const float *w, float (&acc)[L::TM][L::TN])
{
    const int ty = threadIdx.x / L::TX, tx = threadIdx.x % L::TX;

#pragma unroll
    for (int d = 0; d < SIMT_K_TILE; d++) {
        float fx[L::TM], fw[L::TN];
#pragma unroll
        for (int i = 0; i < L::TM; i += L::TMP)
            load_floats<float, L::TMP>(x + d * L::PITCH + ty * L::TMP +
                                           i / L::TMP * (L::BM / 2),
                                       fx + i);
#pragma unroll
        for (int j = 0; j < L::TN; j += L::TNP)
            load_floats<float, L::TNP>(
                w + d * L::BN + tx * L::TNP + j / L::TNP * (L::BN / 2), fw + j);
#pragma unroll
        for (int i = 0; i < L::TM; i++)
#pragma unroll
            for (int j = 0; j < L::TN; j++)
                acc[i][j] = fmaf(fx[i], fw[j], acc[i][j]);
    }
}

template <typename L>
static __device__ __forceinline__ void simt_finish(const struct simt_args &a,
                                                   int m0, int n0, int group,
                                                   float (&acc)[L::TM][L::TN])
{
    const int ty = threadIdx.x / L::TX, tx = threadIdx.x % L::TX;
    const bool whole = a.g.kg % L::TNP == 0;

#pragma unroll
    for (int i = 0; i < L::TM; i++) {
        const int m = m0 + ty * L::TMP + i % L::TMP + i / L::TMP * (L::BM / 2);
#pragma unroll
        for (int j = 0; j < L::TN; j += L::TNP) {
            const int n = n0 + tx * L::TNP + j / L::TNP * (L::BN / 2);
            if (m >= a.g.m || n >= a.g.kg)
                continue;
            if (whole)
                output_vector<typename L::T, L::TNP>(
                    a.out, m, group * a.g.kg + n, &acc[i][j]);
            else
                output_scalars<typename L::T, L::TNP>(
                    a.out, m, group * a.g.kg + n, (group + 1) * a.g.kg,
                    &acc[i][j]);
        }
    }
}

/* ---- the kernel ---------------------------------------------------- */

template <typename L>
static __global__ void __launch_bounds__(SIMT_THREADS)
    simt_kernel(const __grid_constant__ struct simt_args a)
{
    LAUNCH_SHARED(shared);
    float *stage = (float *)shared;
    int4 *table = (int4 *)(shared + 2 * L::STAGE * 4);
    const int m0 = (int)(blockIdx.x / a.tiles_n) * L::BM;
    const int n0 = (int)(blockIdx.x % a.tiles_n) * L::BN, group = blockIdx.z;
    const float *w = a.w + (size_t)group * a.depth_pad * a.kg_pad;

    for (int i = threadIdx.x; i < L::BM; i += SIMT_THREADS) {
        const struct conv_pixel p = conv_pixel_at(a.g, m0 + i, group);
        table[i] = make_int4(p.offset, p.h, p.w, 0);
    }
    __syncthreads();
    launch_wait();

    struct conv_depth depth =
        conv_depth_at(a.g, (int)threadIdx.x % L::COLUMNS * L::VECTOR);
    float fx[L::X_COPIES][L::VECTOR];
    float4 fw[L::W_COPIES];
    float acc[L::TM][L::TN] = {};

    simt_fetch_x<L>(a, table, depth, fx);
    simt_fetch_w<L>(a, w, 0, n0, fw);
    simt_put_x<L>(fx, stage);
    simt_put_w<L>(fw, stage + SIMT_K_TILE * L::PITCH);
    __syncthreads();
    for (int at = 0; at < a.depth_pad; at += SIMT_K_TILE) {
        const bool more = at + SIMT_K_TILE < a.depth_pad;
        const float *now = stage + at / SIMT_K_TILE % 2 * L::STAGE;
        float *next = stage + (at / SIMT_K_TILE + 1) % 2 * L::STAGE;
        if (more) {
            conv_depth_advance(a.g, &depth, SIMT_K_TILE);
            simt_fetch_x<L>(a, table, depth, fx);
            simt_fetch_w<L>(a, w, at + SIMT_K_TILE, n0, fw);
        }
        simt_k_tile<L>(now, now + SIMT_K_TILE * L::PITCH, acc);
        if (more) {
            simt_put_x<L>(fx, next);
            simt_put_w<L>(fw, next + SIMT_K_TILE * L::PITCH);
        }
        __syncthreads();
    }
    simt_finish<L>(a, m0, n0, group, acc);
}

/* ---- the host's side ----------------------------------------------- */

struct simt_state {
    struct conv_tiled tiled;
    struct conv_geometry g;
    int depth_pad, kg_pad;
};

static int simt_supports(const struct kern_problem *p,
                         const struct kern_device *d, struct infer_error *why)
{
    struct conv_geometry g;
    const int rc = conv_geometry_read(p, &g, why);

    (void)d;
    return rc < 0 ? rc : conv_weights_packable(p, why);
}

/* Waves of blocks; 0.4 TFLOP/s a multiprocessor where the tile is full. */
template <typename L>
static double simt_estimate(const struct kern_problem *p,
                            const struct kern_device *d, int)
{
    struct conv_geometry g;

    if (conv_geometry_read(p, &g, NULL) < 0)
        return 1e30;
    const int bm = L::BM, bn = L::BN, sums = L::TM * L::TN;
    const double blocks =
        (double)conv_ceil_div(g.m, bm) * conv_ceil_div(g.kg, bn) * g.groups;
    const double wave = 2.0 * conv_multiprocessors(d);
    const double waves = blocks <= wave / 2 ? 0.5
                         : blocks <= wave   ? 1
                                            : blocks / wave;
    const double rate = sums >= 64 ? 0.26 : sums >= 16 ? 0.2 : 0.15;
    return 3 + waves * (2 + 4e-6 * bm * bn * (g.depth + 16.0) / rate);
}

static int simt_read(const struct kern_problem *p, const struct kern_device *,
                     int, struct simt_state *s, struct infer_error *why)
{
    const int rc = conv_geometry_read(p, &s->g, why);

    if (rc < 0)
        return rc;
    s->depth_pad = conv_round_up(s->g.depth, SIMT_K_TILE);
    s->kg_pad = conv_round_up(s->g.kg, 4);
    return 0;
}

static void simt_declare(struct kern_exec *e, const struct simt_state *s)
{
    e->packed[CONV_W] = (size_t)s->g.groups * (size_t)s->depth_pad *
                        (size_t)s->kg_pad * sizeof(float);
}

static int simt_pack(const struct kern_exec *e, int i, const void *src,
                     void *dst, struct infer_error *err)
{
    const struct simt_state *s = (const struct simt_state *)e->state;

    (void)err;
    conv_pack_columns(&s->g, e->problem.in[i].dtype, src, s->depth_pad,
                      s->kg_pad, (float *)dst);
    return 0;
}

template <typename L>
static int simt_launch(const struct kern_exec *e, const struct kern_args *args,
                       struct infer_error *err)
{
    typedef simt_tile<typename L::T, L::BM, L::BN, L::TM, L::TN, 1> narrow;
    const struct simt_state *s = (const struct simt_state *)e->state;
    struct simt_args a;

    if (s->g.m == 0)
        return 0;
    a.g = s->g;
    a.x = args->in[CONV_X];
    a.w = (const float *)args->in[CONV_W];
    a.depth_pad = s->depth_pad;
    a.kg_pad = s->kg_pad;
    a.tiles_n = conv_ceil_div(s->g.kg, L::BN);
    a.out = output_of(e, args, s->g.k);
    const dim3 grid(conv_ceil_div(s->g.m, L::BM) * a.tiles_n, 1, s->g.groups);
    return launch_chained(
        s->g.cg % 4 == 0 ? simt_kernel<L> : simt_kernel<narrow>, grid,
        dim3(SIMT_THREADS), L::SHARED, args->stream, a, err);
}

/* ---- tiles --------------------------------------------------------- */

#define SIMT_TILE(name, ...)                                                   \
    {                                                                          \
        name, 0, simt_supports, simt_estimate<__VA_ARGS__>, NULL, NULL,        \
            state_prepare<struct simt_state, simt_read, simt_declare>,         \
            simt_pack, simt_launch<__VA_ARGS__>                                \
    }

/* Pixels x channels of a block; 128x16 is for groups of few channels. */
template <typename T>
static const struct conv_tile simt_conv_tiles[] = {
    SIMT_TILE("128x128", simt_tile<T, 128, 128, 8, 8, 4>),
    SIMT_TILE("64x64", simt_tile<T, 64, 64, 4, 4, 4>),
    SIMT_TILE("128x16", simt_tile<T, 128, 16, 4, 2, 4>),
};

template <typename T>
static const struct conv_tile simt_dense_tiles[] = {
    SIMT_TILE("64x64", simt_tile<T, 64, 64, 4, 4, 4>),
};

#endif
