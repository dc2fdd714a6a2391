/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dense layers of up to 128 rows (small m) on Hopper, whose weights come from
 * memory: each weight is used once, so that the bytes in flight set the pace.
 *
 * y^T = w x^T by wgmma: 64 outputs of the weights are operand A, the rows of x
 * operand B, so that few rows make a narrow product and not a half empty one.
 * pack() stores the weights as they lie in shared memory: tiles of 64 outputs,
 * each of k-tiles of 64 deep, 8 KiB, in the 128-byte swizzle; a k-tile is one
 * bulk copy.
 *
 * Threads.  Four warps multiply, one loads weights, one loads x through a
 * tensor map, 64 deep at a time.  TMA takes time for rows outside the tensor
 * too, so boxes end with the last eight rows; the rest of a stage makes sums
 * that are not stored.  The CTAs of a cluster share a tile's depth (split-K).
 * blockIdx.x counts tiles times those.
 *
 * The pipelines.  Weights have W stages and x has X, since weights come from
 * memory and x, which all tiles read, from the L2 cache.  full[i]: the producer
 * expects the bytes, the phase ends when they have arrived; empty[i]: a lane of
 * each of the four warps arrives when its products have read the stage.  DEEP
 * pipelines take a multiprocessor's shared memory, others half of it: a GPU of
 * 132 multiprocessors holds 66 clusters of 2 deep CTAs, but 15 of 8, which
 * would make a second wave.
 *
 * The sum.  Each CTA stores its partial sums into the pipelines' memory, which
 * is free by then, as rows of 68 floats (4 words beyond 64 spread the 8 outputs
 * x 4 pairs of rows of a fragment over all banks).  Each CTA finishes a part of
 * the rows and adds the others' sums in the order of the depth, so that the
 * result does not depend on timing.  The sum starts from the bias.
 *
 * Bytes: W * 8192 + X * ROWS * 128 + 16 * (W + X).
 */
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/conv/state.cuh"
#include "kernels/cuda/wgmma/wgmma.cuh"
#include "kernels/cuda/wgmma/wgmma_finish.cuh"

extern "C" {
#include "kernels/base/scalar.h"
}

#define SMALLM_OUTPUTS 64 /* of a tile */
#define SMALLM_DEPTH   64 /* of a k-tile */
#define SMALLM_K_TILE  8192
#define SMALLM_ROWS    128 /* at most */
#define SMALLM_THREADS 192
#define SMALLM_STEP    4 /* outputs that a thread finishes at a time */

struct smallm_args {
    CUtensorMap x;
    const unsigned char *w;
    int m;
    int box; /* rows that are copied */
    int k_tiles;
    int constant_bias; /* the bias is constant: no kernel of the stream writes
                          it */
    int wide;          /* outputs can be written SMALLM_STEP at a time */
    struct output_args out;
};

template <int ROWS, int DEEP> struct smallm_layout {
    enum {
        X_BYTES = ROWS * 128,
        /* Of 232,448 or 115,712 bytes, in multiples of 1024. */
        W = DEEP ? (ROWS == 128  ? 14
                    : ROWS == 64 ? 18
                                 : 20)
                 : (ROWS == 128  ? 6
                    : ROWS == 64 ? 9
                                 : 10),
        X = ((DEEP ? 224 : 112) * 1024 - W * SMALLM_K_TILE) / X_BYTES,
        X_AT = W * SMALLM_K_TILE,
        W_FULL = X_AT + X * X_BYTES,
        W_EMPTY = W_FULL + W * 8,
        X_FULL = W_EMPTY + W * 8,
        X_EMPTY = X_FULL + X * 8,
        SHARED = X_EMPTY + X * 8,
        PITCH = SMALLM_OUTPUTS + 4 /* floats of a row of sums */
    };
};

/* ---- the kernel ---------------------------------------------------- */

/* A block's tile and its share of the depth. */
struct smallm_block {
    int rank, size; /* in the cluster */
    int tile;
    int first, count; /* k-tiles */
};

static __device__ __forceinline__ struct smallm_block
smallm_block_of(const struct smallm_args &a)
{
    struct smallm_block b;

    b.rank = cluster_rank();
    b.size = cluster_size();
    b.tile = (int)blockIdx.x / b.size;
    b.first = b.rank * a.k_tiles / b.size;
    b.count = (b.rank + 1) * a.k_tiles / b.size - b.first;
    return b;
}

template <typename L>
static __device__ __forceinline__ void
smallm_fetch_weights(const struct smallm_args &a, const struct smallm_block &b,
                     uint32_t base)
{
    const unsigned char *const from =
        a.w + ((size_t)b.tile * a.k_tiles + b.first) * SMALLM_K_TILE;
    struct pipeline_state pipe = {0, 0};

    for (int i = 0; i < b.count; i++) {
        const uint32_t full = base + L::W_FULL + pipe.stage * 8;
        mbarrier_wait(base + L::W_EMPTY + pipe.stage * 8, pipe.parity ^ 1);
        mbarrier_arrive_expect_tx(full, SMALLM_K_TILE);
        tma_load_bulk(base + pipe.stage * SMALLM_K_TILE,
                      from + (size_t)i * SMALLM_K_TILE, full, SMALLM_K_TILE);
        pipeline_next<L::W>(&pipe);
    }
}

template <typename L>
static __device__ __forceinline__ void
smallm_fetch_x(const struct smallm_args &a, const struct smallm_block &b,
               uint32_t base)
{
    struct pipeline_state pipe = {0, 0};

    for (int i = 0; i < b.count; i++) {
        const uint32_t full = base + L::X_FULL + pipe.stage * 8;
        mbarrier_wait(base + L::X_EMPTY + pipe.stage * 8, pipe.parity ^ 1);
        mbarrier_arrive_expect_tx(full, a.box * 128);
        tma_load_2d(base + L::X_AT + pipe.stage * L::X_BYTES, &a.x, full,
                    (b.first + i) * SMALLM_DEPTH, 0);
        pipeline_next<L::X>(&pipe);
    }
}

/* Adds all k-tiles: sums as a product leaves them, outputs by rows.  One group
 * of products stays in flight while the next k-tile is awaited. */
template <typename T, typename L, int ROWS>
static __device__ __forceinline__ void
smallm_multiply(const struct smallm_block &b, uint32_t base,
                float (&acc)[ROWS / 2])
{
    const bool first_lane = threadIdx.x % 32 == 0;
    struct pipeline_state w = {0, 0}, x = {0, 0};
    uint32_t w_before = 0, x_before = 0;

#pragma unroll
    for (int i = 0; i < ROWS / 2; i++)
        acc[i] = 0;
    for (int i = 0; i < b.count; i++) {
        const uint64_t left = smem_desc_k_major(base + w.stage * SMALLM_K_TILE);
        const uint64_t right =
            smem_desc_k_major(base + L::X_AT + x.stage * L::X_BYTES);
        mbarrier_wait(base + L::W_FULL + w.stage * 8, w.parity);
        mbarrier_wait(base + L::X_FULL + x.stage * 8, x.parity);
        wgmma_arrive();
#pragma unroll
        for (int k = 0; k < 4; k++) /* 32 bytes of depth */
            wgmma_mma(T(), acc, left + k * 2, right + k * 2, true);
        wgmma_commit_group();
        wgmma_wait_group<1>();
        if (i > 0 && first_lane) {
            mbarrier_arrive(w_before);
            mbarrier_arrive(x_before);
        }
        w_before = base + L::W_EMPTY + w.stage * 8;
        x_before = base + L::X_EMPTY + x.stage * 8;
        pipeline_next<L::W>(&w);
        pipeline_next<L::X>(&x);
    }
    wgmma_wait_group<0>();
}

/* Stores a warpgroup's sums: sums[row][output]. */
template <typename L, int ROWS>
static __device__ __forceinline__ void
smallm_stage_sums(const float (&acc)[ROWS / 2], float *sums)
{
    const int lane = threadIdx.x % 32;
    float *const to =
        sums + lane % 4 * 2 * L::PITCH + threadIdx.x / 32 * 16 + lane / 4;

#pragma unroll
    for (int j = 0; j < ROWS / 8; j++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            to[(j * 8 + e % 2) * L::PITCH + e / 2 * 8] = acc[j * 4 + e];
}

/* Four floats of shared memory, of this or another CTA of the cluster. */
static __device__ __forceinline__ float4 smallm_load_peer(uint32_t from)
{
    float4 v = {0, 0, 0, 0};

#if HOPPER
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(from)
                 : "memory");
#endif
    return v;
}

/* The biases of the outputs that this thread finishes. */
static __device__ __forceinline__ void
smallm_load_bias(const struct smallm_args &a, int n, float (&bias)[SMALLM_STEP])
{
#pragma unroll
    for (int e = 0; e < SMALLM_STEP; e++)
        bias[e] = a.out.bias && n + e < a.out.k ? __ldg(a.out.bias + n + e) : 0;
}

/* Adds and stores this block's part of the rows, from output n on.  sums: the
 * address of this thread's outputs of row 0. */
template <typename T, typename L>
static __device__ __forceinline__ void
smallm_finish(const struct smallm_args &a, const struct smallm_block &b,
              uint32_t sums, int n, const float (&bias)[SMALLM_STEP])
{
    const int per_row = SMALLM_OUTPUTS / SMALLM_STEP;
    const int rows = (a.m + b.size - 1) / b.size;
    const int end = min(a.m, (b.rank + 1) * rows);
    struct output_args out = a.out;

    out.bias = NULL; /* added */
    if (n >= a.out.k)
        return;
    for (int row = b.rank * rows + threadIdx.x / per_row; row < end;
         row += SMALLM_THREADS / per_row) {
        float v[SMALLM_STEP];
#pragma unroll
        for (int e = 0; e < SMALLM_STEP; e++)
            v[e] = bias[e];
#pragma unroll 4
        for (int r = 0; r < b.size; r++) {
            const float4 part = smallm_load_peer(
                cluster_map_shared(sums + row * L::PITCH * 4, r));
            v[0] += part.x;
            v[1] += part.y;
            v[2] += part.z;
            v[3] += part.w;
        }
        if (a.wide)
            output_vector<T, SMALLM_STEP>(out, row, n, v);
        else
            output_scalars<T, SMALLM_STEP>(out, row, n, a.out.k, v);
    }
}

template <typename L>
static __device__ __forceinline__ void
smallm_init_barriers(const struct smallm_args &a, uint32_t base)
{
    tma_prefetch_descriptor(&a.x);
    for (int i = 0; i < L::W; i++) {
        mbarrier_init(base + L::W_FULL + i * 8, 1);
        mbarrier_init(base + L::W_EMPTY + i * 8, 4);
    }
    for (int i = 0; i < L::X; i++) {
        mbarrier_init(base + L::X_FULL + i * 8, 1);
        mbarrier_init(base + L::X_EMPTY + i * 8, 4);
    }
    fence_mbarrier_init();
}

/* Cluster barrier: stores to shared memory before it are visible after it. */
static __device__ __forceinline__ void smallm_cluster_sync(int size)
{
    __syncthreads();
    if (size > 1) {
        cluster_arrive();
        cluster_wait();
    }
}

/* Waits until the peers have read this CTA's sums; it orders no stores. */
static __device__ __forceinline__ void smallm_cluster_release(int size)
{
#if HOPPER
    if (size > 1) {
        asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
        cluster_wait();
    }
#endif
}

template <typename T, int ROWS, int DEEP>
static __global__ void __launch_bounds__(SMALLM_THREADS)
    smallm_kernel(const __grid_constant__ struct smallm_args a)
{
    typedef smallm_layout<ROWS, DEEP> L;
    LAUNCH_SHARED(shared);
    const uint32_t base = ptx_shared(shared);
    const struct smallm_block b = smallm_block_of(a);
    const int warp = threadIdx.x / 32;
    const int column =
        threadIdx.x % (SMALLM_OUTPUTS / SMALLM_STEP) * SMALLM_STEP;
    const int n = b.tile * SMALLM_OUTPUTS + column;
    float bias[SMALLM_STEP];

    if (threadIdx.x == 128)
        smallm_init_barriers<L>(a, base);
    __syncthreads();
    launch_release();
    if (warp == 4) { /* constant */
        if (threadIdx.x == 128)
            smallm_fetch_weights<L>(a, b, base);
        __syncwarp();
    }
    if (!a.constant_bias)
        launch_wait();
    smallm_load_bias(a, n, bias);
    launch_wait();
    if (warp < 4) {
        float acc[ROWS / 2];
        smallm_multiply<T, L, ROWS>(b, base, acc);
        named_barrier_sync(1, 128); /* all products have read the pipeline */
        smallm_stage_sums<L, ROWS>(acc, (float *)shared);
    } else if (warp == 5) {
        if (threadIdx.x == 160)
            smallm_fetch_x<L>(a, b, base);
        __syncwarp();
    }
    smallm_cluster_sync(b.size);
    smallm_finish<T, L>(a, b, base + column * 4, n, bias);
    smallm_cluster_release(b.size);
}

/* ---- configuration ------------------------------------------------- */

struct smallm_state {
    struct conv_geometry g;
    int k_tiles, tiles;
    int rows, cluster, deep;
};

/* CTAs of a cluster: as many as are resident at once, with two k-tiles or more
 * each; with few k-tiles, 8 would exchange more sums than they save.  Variant 1
 * has half of 4 or 8. */
static int smallm_cluster(const struct smallm_state *s,
                          const struct kern_device *d)
{
    int size = s->k_tiles < 32 ? 4 : 8;

    while (size > 1 && ((int64_t)size * s->tiles > conv_multiprocessors(d) ||
                        s->k_tiles < 2 * size))
        size /= 2;
    return size;
}

static int smallm_read(const struct kern_problem *p,
                       const struct kern_device *d, int variant,
                       struct smallm_state *s, struct infer_error *why)
{
    int rc = conv_geometry_read_pitched(p, &s->g, why);

    if (rc < 0)
        return rc;
    s->k_tiles = conv_ceil_div(s->g.c, SMALLM_DEPTH);
    s->tiles = conv_ceil_div(s->g.k, SMALLM_OUTPUTS);
    s->rows = s->g.m <= 32 ? 32 : s->g.m <= 64 ? 64 : SMALLM_ROWS;
    s->cluster = smallm_cluster(s, d);
    if (variant > (s->cluster > 2))
        return error_set(why, INFER_EUNSUPPORTED, "has no variant %d", variant);
    s->cluster >>= variant;
    s->deep = s->cluster <= 2;
    rc = conv_weights_packable(p, why);
    if (rc == 0)
        rc = wgmma_check_device(d, why);
    if (rc < 0)
        return rc;
    if (s->g.m < 1 || s->g.m > SMALLM_ROWS)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes 1 to %d rows, found %d", SMALLM_ROWS, s->g.m);
    if (s->g.k < 1 || s->g.c < 1 || s->g.c % 8 || s->g.x_pitch % 8)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes inputs in 8s, rows that lie multiples of 8 "
                         "apart, and outputs, found %d, %d and %d",
                         s->g.c, s->g.x_pitch, s->g.k);
    return 0;
}

static int smallm_variants(const struct kern_problem *p,
                           const struct kern_device *d, struct infer_error *err)
{
    struct smallm_state s;
    const int rc = smallm_read(p, d, 0, &s, err);

    return rc < 0 ? rc : s.cluster > 2 ? 2 : 1;
}

/* Microseconds (fitted to an H200): the latency of the kernel and of the sum,
 * which grows with the rows and the CTAs of a cluster; and the k-tiles of a
 * CTA, which memory paces as long as the pipelines are deep enough for the rows
 * of x. */
static double smallm_estimate(const struct kern_problem *p,
                              const struct kern_device *d)
{
    struct smallm_state s;

    if (smallm_read(p, d, 0, &s, NULL) < 0)
        return 1e30;
    const int blocks = s.tiles * s.cluster, resident = conv_multiprocessors(d);
    const double sharing = 1 + (s.deep ? 0.0015 : 0.006) * s.g.m;
    const double memory = 0.00184 * (blocks < resident ? blocks : resident);
    const double k_tile = (memory > 0.12 ? memory : 0.12) * sharing;
    const double latency = (s.deep ? 2.3 : 2.8) + 0.007 * s.g.m;

    return latency + (s.rows > 64 ? 1 : 0) +
           conv_ceil_div(blocks, resident) * k_tile * s.k_tiles / s.cluster;
}

/* ---- preparing ----------------------------------------------------- */

static void smallm_declare(struct kern_exec *e, const struct smallm_state *s)
{
    snprintf(e->variant_name, sizeof(e->variant_name), "cluster%d", s->cluster);
    e->packed[CONV_W] = (size_t)s->tiles * (size_t)s->k_tiles * SMALLM_K_TILE;
}

static const auto smallm_supports =
    state_supports<struct smallm_state, smallm_read>;
static const auto smallm_prepare =
    state_prepare<struct smallm_state, smallm_read, smallm_declare>;

/* Output n's weights, 16 bytes at a time; dst: its row of the first k-tile. */
static void smallm_pack_row(const struct smallm_state *s, enum infer_dtype from,
                            const unsigned char *src, enum infer_dtype to,
                            int n, unsigned char *dst)
{
    for (int k = 0; k < s->g.c; k += 8) {
        const int k_tile = k / SMALLM_DEPTH, v = k % SMALLM_DEPTH / 8;

        scalar_convert(from, src + (size_t)k * infer_dtype_size(from), to,
                       dst + (size_t)k_tile * SMALLM_K_TILE + (v ^ n % 8) * 16,
                       8);
    }
}

static int smallm_pack(const struct kern_exec *e, int i, const void *src,
                       void *dst, struct infer_error *err)
{
    const struct smallm_state *s = (const struct smallm_state *)e->state;
    const enum infer_dtype from = e->problem.in[i].dtype;
    const size_t row = (size_t)s->g.c * infer_dtype_size(from);

    (void)err;
    memset(dst, 0, e->packed[i]);
    for (int n = 0; n < s->g.k; n++) {
        const size_t tile = (size_t)(n / SMALLM_OUTPUTS);

        smallm_pack_row(s, from, (const unsigned char *)src + (size_t)n * row,
                        e->problem.in[CONV_X].dtype, n,
                        (unsigned char *)dst +
                            tile * (size_t)s->k_tiles * SMALLM_K_TILE +
                            n % SMALLM_OUTPUTS * 128);
    }
    return 0;
}

/* ---- launching ----------------------------------------------------- */

template <typename T, int ROWS, int DEEP>
static int smallm_start(const struct smallm_state *s,
                        const struct smallm_args *a, void *stream,
                        struct infer_error *err)
{
    typedef smallm_layout<ROWS, DEEP> L;

    return launch_clusters(smallm_kernel<T, ROWS, DEEP>, s->tiles * s->cluster,
                           s->cluster, SMALLM_THREADS, L::SHARED, stream, *a,
                           err);
}

template <typename T, int ROWS>
static int smallm_start_rows(const struct smallm_state *s,
                             const struct smallm_args *a, void *stream,
                             struct infer_error *err)
{
    return s->deep ? smallm_start<T, ROWS, 1>(s, a, stream, err)
                   : smallm_start<T, ROWS, 0>(s, a, stream, err);
}

template <typename T>
static int smallm_launch(const struct kern_exec *e,
                         const struct kern_args *args, struct infer_error *err)
{
    const struct smallm_state *s = (const struct smallm_state *)e->state;
    const int step = SMALLM_STEP * (int)sizeof(T);
    struct smallm_args a;

    memset(&a, 0, sizeof(a));
    a.w = (const unsigned char *)args->in[CONV_W];
    a.m = s->g.m;
    a.box = conv_round_up(s->g.m, 8);
    a.k_tiles = s->k_tiles;
    a.out = output_of(e, args, s->g.k);
    a.out.y_pitch = s->g.y_pitch;
    a.out.r_pitch = s->g.r_pitch;
    a.constant_bias = !a.out.bias || (e->problem.constant_in & 1u << CONV_BIAS);
    a.wide = output_is_wide(&a.out, SMALLM_STEP) &&
             (uintptr_t)a.out.y % step == 0 &&
             (uintptr_t)a.out.residual % step == 0;
    const int rc = tensor_map_matrix(
        &a.x, tensor_map_type_of(e->problem.in[CONV_X].dtype), args->in[CONV_X],
        s->g.m, s->g.c, s->g.x_pitch, a.box, err);
    if (rc < 0)
        return rc;
    return s->rows == 32 ? smallm_start_rows<T, 32>(s, &a, args->stream, err)
           : s->rows == 64
               ? smallm_start_rows<T, 64>(s, &a, args->stream, err)
               : smallm_start_rows<T, SMALLM_ROWS>(s, &a, args->stream, err);
}

STATE_ROW(dense_fprop_f16_cuda_smallm_sm90, smallm, __half, smallm_variants)
STATE_ROW(dense_fprop_bf16_cuda_smallm_sm90, smallm, __nv_bfloat16,
          smallm_variants)
