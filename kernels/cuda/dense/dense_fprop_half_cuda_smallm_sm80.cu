/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dense layers of few rows (small m), whose weights come from memory: each
 * weight is used once, so that the bytes in flight set the pace.
 *
 * y^T = w x^T by mma.sync: 16 outputs by 16 deep of the weights are operand A,
 * 8 rows of x operand B.  pack() stores the weights in the order of the warps'
 * reads: tiles of 32 outputs, each of k-tiles of 32 deep, 2 KiB, each of four
 * fragments (16 outputs, half the depth) of 16 bytes a lane.  The order of the
 * depth within a k-tile does not matter as long as x and w agree, so lane
 * 4 g + t takes 16 bytes of row g of x, depths 8 t .. 8 t + 7, which are its
 * parts of two products: halves 0 .. 3 of the first, 4 .. 7 of the second.
 *
 * Threads.  Eight warps: COOP of them stand side by side, 32 outputs each, and
 * 8 / COOP share the depth, k-tile by k-tile (split-K); the CTAs of a cluster
 * share it too.  blockIdx.x counts CTAs of 32 COOP outputs times those of a
 * cluster.
 *
 * The pipeline.  Each stage holds a k-tile of weights a warp, read by the lane
 * that copied it, and the rows of x of those k-tiles, which COOP warps share.
 * Two CTAs fit a multiprocessor, so that the next kernel's first weights are
 * loaded while this one ends.
 *
 * The sum.  Each warp stores its partial sums into the pipeline's memory, which
 * is free by then, as rows of 36 floats (4 words beyond 32 spread a fragment's
 * rows over the banks), and each thread adds those of an output in the order of
 * the depth, so that the result does not depend on timing.  The first partial
 * sums start with the bias.
 *
 * Bytes: STAGES * (8 * 2048 + 8 / COOP * ROWS * 64).
 */
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/conv/output.cuh"
#include "kernels/cuda/conv/state.cuh"
#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/wgmma/wgmma_finish.cuh"

extern "C" {
#include "kernels/base/scalar.h"
}

#define SMALLM_WARPS    8
#define SMALLM_THREADS  (SMALLM_WARPS * 32)
#define SMALLM_OUTPUTS  32 /* of a warp */
#define SMALLM_DEPTH    32 /* of a k-tile */
#define SMALLM_K_TILE   2048
#define SMALLM_FRAGMENT 512
#define SMALLM_ROWS     16 /* at most */
/* Bytes up to which two CTAs fit a multiprocessor of compute capability 9.0:
 * half of 233,472, of which the driver takes 1,024 a CTA. */
#define SMALLM_SHARED 115712

struct smallm_args {
    const void *x, *w;
    int m, c, x_pitch;
    int k_tiles, tiles;
    int constant_bias; /* the bias is constant: no kernel of the stream writes
                          it */
    struct output_args out;
};

template <int ROWS, int COOP> struct smallm_layout {
    enum {
        SPLIT = SMALLM_WARPS / COOP, /* warps that share the depth */
        PARTS = ROWS / 8,
        OWN = (PARTS + COOP - 1) / COOP, /* parts of x that a warp copies */
        X = SMALLM_WARPS * SMALLM_K_TILE,
        STAGE = X + SPLIT * PARTS * SMALLM_FRAGMENT,
        STAGES = SMALLM_SHARED / STAGE,
        PITCH = SMALLM_OUTPUTS + 4,
        SUMS = ROWS * PITCH, /* floats of a warp */
        SHARED = STAGES * STAGE
    };
};

/* ---- the kernel ---------------------------------------------------- */

/* A warp's place in the block and its share of the product. */
struct smallm_warp {
    int lane, warp, member, part; /* of the coop; of the depth */
    int tile;                     /* of 32 outputs */
    int first, end, steps;        /* k-tiles of the block; of each warp */
};

template <int COOP>
static __device__ __forceinline__ struct smallm_warp
smallm_warp_of(const struct smallm_args &a, int rank, int size)
{
    const int split = SMALLM_WARPS / COOP;
    struct smallm_warp s;

    s.lane = threadIdx.x % 32;
    s.warp = threadIdx.x / 32;
    s.member = s.warp % COOP;
    s.part = s.warp / COOP;
    s.tile = (int)blockIdx.x / size * COOP + s.member;
    s.first = (int)((int64_t)rank * a.k_tiles / size);
    s.end = (int)((int64_t)(rank + 1) * a.k_tiles / size);
    s.steps = (s.end - s.first + split - 1) / split;
    return s;
}

/* The weights of step i, or zeros. */
template <typename L>
static __device__ __forceinline__ void
smallm_copy_weights(const struct smallm_args &a, const struct smallm_warp &s,
                    uint32_t stage, int i)
{
    const int k_tile = s.first + i * L::SPLIT + s.part;
    const char *const from =
        (const char *)a.w +
        ((size_t)s.tile * a.k_tiles + k_tile) * SMALLM_K_TILE + s.lane * 16;
    const uint32_t to = stage + s.warp * SMALLM_K_TILE + s.lane * 16;
    const bool valid = k_tile < s.end && s.tile < a.tiles;

#pragma unroll
    for (int j = 0; j < SMALLM_K_TILE / SMALLM_FRAGMENT; j++)
        ptx_cp_async<16>(to + j * SMALLM_FRAGMENT, from + j * SMALLM_FRAGMENT,
                         valid);
}

/* Where this lane's 16 bytes of part q of x are in step i; NULL for zeros. */
template <typename T, typename L>
static __device__ __forceinline__ const T *
smallm_x_at(const struct smallm_args &a, const struct smallm_warp &s, int q,
            int i)
{
    const int k_tile = s.first + i * L::SPLIT + s.part;
    const int row = q * 8 + s.lane / 4;
    const int k = k_tile * SMALLM_DEPTH + s.lane % 4 * 8;

    if (k_tile >= s.end || row >= a.m || k >= a.c)
        return NULL;
    return (const T *)a.x + (size_t)row * a.x_pitch + k;
}

/* Offset of part q of x in a stage. */
template <typename L>
static __device__ __forceinline__ int
smallm_x_offset(const struct smallm_warp &s, int q)
{
    return L::X + (s.part * L::PARTS + q) * SMALLM_FRAGMENT + s.lane * 16;
}

template <typename T, typename L, int COOP>
static __device__ __forceinline__ void
smallm_copy_x(const struct smallm_args &a, const struct smallm_warp &s,
              uint32_t stage, int i)
{
#pragma unroll
    for (int j = 0; j < L::OWN; j++) {
        const int q = s.member + j * COOP;
        if (q < L::PARTS) {
            const T *const from = smallm_x_at<T, L>(a, s, q, i);
            ptx_cp_async<16>(stage + smallm_x_offset<L>(s, q),
                             from ? from : (const T *)a.x, from != NULL);
        }
    }
}

/* The same for the first stages, whose weights are in flight: through
 * registers, since cp.async groups complete in order. */
template <typename T, typename L, int COOP>
static __device__ __forceinline__ void
smallm_first_x(const struct smallm_args &a, const struct smallm_warp &s,
               unsigned char *shared)
{
    uint4 v[L::STAGES - 1][L::OWN];

#pragma unroll
    for (int i = 0; i < L::STAGES - 1; i++)
#pragma unroll
        for (int j = 0; j < L::OWN; j++) {
            const int q = s.member + j * COOP;
            const T *const from =
                q < L::PARTS ? smallm_x_at<T, L>(a, s, q, i) : NULL;
            v[i][j] = make_uint4(0, 0, 0, 0);
            if (from)
                v[i][j] = *(const uint4 *)from;
        }
#pragma unroll
    for (int i = 0; i < L::STAGES - 1; i++)
#pragma unroll
        for (int j = 0; j < L::OWN; j++) {
            const int q = s.member + j * COOP;
            if (q < L::PARTS)
                *(uint4 *)(shared + i * L::STAGE + smallm_x_offset<L>(s, q)) =
                    v[i][j];
        }
}

/* Initialises the sums, with the bias in the first warp of the depth. */
template <int PARTS>
static __device__ __forceinline__ void
smallm_start(const struct smallm_args &a, const struct smallm_warp &s,
             bool first, float (&acc)[2][PARTS][4])
{
#pragma unroll
    for (int j = 0; j < 2; j++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int n = s.tile * SMALLM_OUTPUTS + 16 * j + 8 * h + s.lane / 4;
            const float b =
                first && a.out.bias && n < a.out.k ? __ldg(a.out.bias + n) : 0;
#pragma unroll
            for (int q = 0; q < PARTS; q++)
                acc[j][q][2 * h] = acc[j][q][2 * h + 1] = b;
        }
}

/* Adds a k-tile.  w: four fragments; x: this lane's of part 0.  Products that
 * add to the same sums stand as far apart as they can. */
template <typename T, int PARTS>
static __device__ __forceinline__ void
smallm_multiply(const uint4 (&w)[4], const unsigned char *x,
                float (&acc)[2][PARTS][4])
{
    uint4 v[PARTS];

#pragma unroll
    for (int q = 0; q < PARTS; q++)
        v[q] = *(const uint4 *)(x + q * SMALLM_FRAGMENT);
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
        for (int q = 0; q < PARTS; q++) {
            const uint32_t b[2] = {half ? v[q].z : v[q].x,
                                   half ? v[q].w : v[q].y};
#pragma unroll
            for (int j = 0; j < 2; j++) {
                const uint4 f = w[2 * j + half];
                const uint32_t part[4] = {f.x, f.y, f.z, f.w};
                ptx_mma(T(), acc[j][q], part, b);
            }
        }
}

/* All steps of this warp. */
template <typename T, typename L, int COOP>
static __device__ __forceinline__ void
smallm_steps(const struct smallm_args &a, const struct smallm_warp &s,
             unsigned char *shared, float (&acc)[2][L::PARTS][4])
{
    const uint32_t base = ptx_shared(shared);
    int now = 0, next = L::STAGES - 1;

    for (int i = 0; i < s.steps; i++) {
        const unsigned char *const stage = shared + now * L::STAGE;
        uint4 w[4];

        ptx_cp_async_wait<L::STAGES - 2>();
        /* The previous stage has been read, and x has arrived. */
        if (COOP > 1)
            __syncthreads();
        else
            __syncwarp();
#pragma unroll
        for (int f = 0; f < 4; f++)
            w[f] = *(const uint4 *)(stage + s.warp * SMALLM_K_TILE +
                                    f * SMALLM_FRAGMENT + s.lane * 16);
        if (i + L::STAGES - 1 < s.steps) {
            smallm_copy_weights<L>(a, s, base + next * L::STAGE,
                                   i + L::STAGES - 1);
            smallm_copy_x<T, L, COOP>(a, s, base + next * L::STAGE,
                                      i + L::STAGES - 1);
        }
        ptx_cp_async_commit();
        smallm_multiply<T, L::PARTS>(w, stage + smallm_x_offset<L>(s, 0), acc);
        now = now + 1 < L::STAGES ? now + 1 : 0;
        next = next + 1 < L::STAGES ? next + 1 : 0;
    }
}

/* Stores a warp's sums: sums[row][output]. */
template <int PARTS, int PITCH>
static __device__ __forceinline__ void
smallm_stage_sums(const float (&acc)[2][PARTS][4], int lane, float *sums)
{
#pragma unroll
    for (int j = 0; j < 2; j++)
#pragma unroll
        for (int q = 0; q < PARTS; q++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                sums[(q * 8 + lane % 4 * 2 + e % 2) * PITCH + j * 16 +
                     e / 2 * 8 + lane / 4] = acc[j][q][e];
}

static __device__ __forceinline__ float smallm_load_peer(uint32_t from)
{
    float v = 0;

#if HOPPER
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(from));
#endif
    return v;
}

/* Adds and stores this block's part of the outputs. */
template <typename T, typename L, int COOP>
static __device__ __forceinline__ void
smallm_finish(const struct smallm_args &a, const float *sums, int rank,
              int size, int n0)
{
    const int width = COOP * SMALLM_OUTPUTS;
    struct output_args out = a.out;

    out.bias = NULL; /* added */
    for (int i = rank * SMALLM_THREADS + threadIdx.x; i < a.m * width;
         i += size * SMALLM_THREADS) {
        const int row = i / width, column = i % width;
        const float *const own = sums + column / SMALLM_OUTPUTS * L::SUMS +
                                 row * L::PITCH + column % SMALLM_OUTPUTS;
        float v = 0;
        if (n0 + column >= a.out.k)
            continue;
#pragma unroll 4
        for (int r = 0; r < size; r++) {
            const uint32_t peer =
                size > 1 ? cluster_map_shared(ptx_shared(own), r) : 0;
#pragma unroll
            for (int p = 0; p < L::SPLIT; p++)
                v += size > 1 ? smallm_load_peer(peer + p * COOP * L::SUMS * 4)
                              : own[p * COOP * L::SUMS];
        }
        output_vector<T, 1>(out, row, n0 + column, &v);
    }
}

template <typename T, int ROWS, int COOP>
static __global__ void __launch_bounds__(SMALLM_THREADS, 2)
    smallm_kernel(const __grid_constant__ struct smallm_args a)
{
    typedef smallm_layout<ROWS, COOP> L;
    LAUNCH_SHARED(shared);
    const int rank = cluster_rank(), size = cluster_size();
    const struct smallm_warp s = smallm_warp_of<COOP>(a, rank, size);
    float *const sums = (float *)shared;
    float acc[2][L::PARTS][4];

#pragma unroll
    for (int i = 0; i < L::STAGES - 1; i++) {
        smallm_copy_weights<L>(a, s, ptx_shared(shared) + i * L::STAGE, i);
        ptx_cp_async_commit();
    }
    if (!a.constant_bias)
        launch_wait();
    smallm_start<L::PARTS>(a, s, rank == 0 && s.part == 0, acc);
    launch_wait();
    smallm_first_x<T, L, COOP>(a, s, shared);
    smallm_steps<T, L, COOP>(a, s, shared, acc);
    ptx_cp_async_wait<0>();
    __syncthreads(); /* all products have read the pipeline */
    smallm_stage_sums<L::PARTS, L::PITCH>(acc, s.lane, sums + s.warp * L::SUMS);
    if (size > 1) {
        cluster_arrive();
        cluster_wait();
    } else {
        __syncthreads();
    }
    smallm_finish<T, L, COOP>(a, sums, rank, size,
                              (s.tile - s.member) * SMALLM_OUTPUTS);
    if (size > 1) { /* the peers have read this block's sums */
        cluster_arrive();
        cluster_wait();
    }
}

/* ---- configuration ------------------------------------------------- */

struct smallm_state {
    struct conv_geometry g;
    int k_tiles, tiles;
    int rows, coop, cluster;
};

/* CTAs of a cluster: as many as are resident at once, `each` a multiprocessor,
 * with a k-tile or more a warp. 8 of 32 outputs were slower than 4. */
static int smallm_cluster(const struct smallm_state *s, int coop, int each,
                          const struct kern_device *d)
{
    const int tiles = conv_ceil_div(s->tiles, coop);
    const int resident = each * conv_multiprocessors(d);
    int size = wgmma_check_device(d, NULL) < 0 ? 1 : coop == 1 ? 4 : 8;

    while (size > 1 && ((int64_t)size * tiles > resident ||
                        s->k_tiles < size * SMALLM_WARPS / coop))
        size /= 2;
    return size;
}

/* The variants, the best first: outputs of a CTA by 32s, and CTAs a
 * multiprocessor; 0: no cluster, since its sums cost more than they save in
 * small layers. */
static const struct {
    int coop, each;
} smallm_choices[] = {{1, 1}, {1, 2}, {4, 1}, {1, 0}};
#define SMALLM_CHOICES 4

/* Fills in the variant; returns how many there are up to it. */
static int smallm_choose(struct smallm_state *s, int variant,
                         const struct kern_device *d)
{
    int coop[SMALLM_CHOICES], cluster[SMALLM_CHOICES], n = 0;

    for (int i = 0; i < SMALLM_CHOICES && n <= variant; i++) {
        bool is_new = true;

        coop[n] = smallm_choices[i].coop;
        cluster[n] = smallm_cluster(s, coop[n], smallm_choices[i].each, d);
        for (int j = 0; j < n; j++)
            if (coop[j] == coop[n] && cluster[j] == cluster[n])
                is_new = false;
        if (is_new)
            n++;
    }
    s->coop = coop[n - 1];
    s->cluster = cluster[n - 1];
    return n;
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
    s->rows = s->g.m <= 8 ? 8 : SMALLM_ROWS;
    if (smallm_choose(s, variant, d) <= variant)
        return error_set(why, INFER_EUNSUPPORTED, "has no variant %d", variant);
    rc = conv_weights_packable(p, why);
    if (rc < 0)
        return rc;
    if (s->g.m < 1 || s->g.m > SMALLM_ROWS)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes 1 to %d rows, found %d", SMALLM_ROWS, s->g.m);
    if (s->g.c % 8 || s->g.x_pitch % 8)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes inputs in 8s, and rows that lie multiples of 8 "
                         "apart, found %d and %d",
                         s->g.c, s->g.x_pitch);
    return 0;
}

static int smallm_variants(const struct kern_problem *p,
                           const struct kern_device *d, struct infer_error *err)
{
    struct smallm_state s;
    const int rc = smallm_read(p, d, 0, &s, err);

    return rc < 0 ? rc : smallm_choose(&s, SMALLM_CHOICES - 1, d);
}

/* Microseconds (fitted to an H200): the bytes of the weights, or the latency of
 * the rows, whichever is longer; the shorter is not hidden completely. */
static double smallm_estimate(const struct kern_problem *p,
                              const struct kern_device *d)
{
    struct conv_geometry g;

    (void)d;
    if (conv_geometry_read_pitched(p, &g, NULL) < 0)
        return 1e30;
    const double latency = 2.8 + 0.13 * g.m;
    const double bytes = 2.0 * g.c * g.k / 4.3e6;
    const double second = g.m > 8 ? 1.8 : 0; /* part of the rows */
    return bytes > latency ? bytes + 0.13 * latency + second
                           : latency + 0.6 * bytes;
}

/* ---- preparing ----------------------------------------------------- */

static void smallm_declare(struct kern_exec *e, const struct smallm_state *s)
{
    snprintf(e->variant_name, sizeof(e->variant_name), "n%d cluster%d",
             s->coop * SMALLM_OUTPUTS, s->cluster);
    e->packed[CONV_W] = (size_t)s->tiles * (size_t)s->k_tiles * SMALLM_K_TILE;
}

static const auto smallm_supports =
    state_supports<struct smallm_state, smallm_read>;
static const auto smallm_prepare =
    state_prepare<struct smallm_state, smallm_read, smallm_declare>;

/* Two elements, converted. */
static void smallm_pack_pair(enum infer_dtype from, const void *src, size_t at,
                             enum infer_dtype to, uint16_t *dst)
{
    if (from == to) {
        memcpy(dst, (const uint16_t *)src + at, 2 * sizeof(*dst));
        return;
    }
    for (int i = 0; i < 2; i++)
        scalar_store(to, dst, i, scalar_load(from, src, (int64_t)at + i));
}

/* Output n's weights; dst: its lane's fragment of the first k-tile. */
static void smallm_pack_row(const struct smallm_state *s, enum infer_dtype from,
                            const void *src, enum infer_dtype to, int n,
                            uint16_t *dst)
{
    for (int k = 0; k < s->g.c; k += 4) {
        const int k_tile = k / SMALLM_DEPTH, t = k % SMALLM_DEPTH / 8;
        const size_t at = (size_t)n * (size_t)s->g.c + (size_t)k;
        uint16_t *const lane = dst + (size_t)k_tile * (SMALLM_K_TILE / 2) +
                               k % 8 / 4 * (SMALLM_FRAGMENT / 2) + t * 8;

        smallm_pack_pair(from, src, at, to, lane);
        smallm_pack_pair(from, src, at + 2, to, lane + 4);
    }
}

/* Lane 4 g + t of a fragment holds, as two words of two each, depths of outputs
 * g (words 0 and 2) and g + 8 (words 1 and 3). */
static int smallm_pack(const struct kern_exec *e, int i, const void *src,
                       void *dst, struct infer_error *err)
{
    const struct smallm_state *s = (const struct smallm_state *)e->state;

    (void)err;
    memset(dst, 0, e->packed[i]);
    for (int n = 0; n < s->g.k; n++) {
        const int tile = n / SMALLM_OUTPUTS, j = n % SMALLM_OUTPUTS / 16;
        uint16_t *const k_tile = (uint16_t *)dst + (size_t)tile *
                                                       (size_t)s->k_tiles *
                                                       (SMALLM_K_TILE / 2);

        smallm_pack_row(s, e->problem.in[i].dtype, src,
                        e->problem.in[CONV_X].dtype, n,
                        k_tile + j * 2 * (SMALLM_FRAGMENT / 2) + n % 8 * 32 +
                            n % 16 / 8 * 2);
    }
    return 0;
}

/* ---- launching ----------------------------------------------------- */

template <typename T, int ROWS, int COOP>
static int smallm_start_kernel(const struct smallm_state *s,
                               const struct smallm_args *a, void *stream,
                               struct infer_error *err)
{
    typedef smallm_layout<ROWS, COOP> L;
    const int blocks = conv_ceil_div(s->tiles, COOP);

    return launch_clusters(smallm_kernel<T, ROWS, COOP>, blocks * s->cluster,
                           s->cluster, SMALLM_THREADS, L::SHARED, stream, *a,
                           err);
}

template <typename T>
static int smallm_launch(const struct kern_exec *e,
                         const struct kern_args *args, struct infer_error *err)
{
    const struct smallm_state *s = (const struct smallm_state *)e->state;
    void *const to = args->stream;
    struct smallm_args a;

    a.x = args->in[CONV_X];
    a.w = args->in[CONV_W];
    a.m = s->g.m;
    a.c = s->g.c;
    a.x_pitch = s->g.x_pitch;
    a.k_tiles = s->k_tiles;
    a.tiles = s->tiles;
    a.out = output_of(e, args, s->g.k);
    a.out.y_pitch = s->g.y_pitch;
    a.out.r_pitch = s->g.r_pitch;
    a.constant_bias = !a.out.bias || (e->problem.constant_in & 1u << CONV_BIAS);
    if (s->rows == 8)
        return s->coop == 1 ? smallm_start_kernel<T, 8, 1>(s, &a, to, err)
                            : smallm_start_kernel<T, 8, 4>(s, &a, to, err);
    return s->coop == 1
               ? smallm_start_kernel<T, SMALLM_ROWS, 1>(s, &a, to, err)
               : smallm_start_kernel<T, SMALLM_ROWS, 4>(s, &a, to, err);
}

STATE_ROW(dense_fprop_f16_cuda_smallm_sm80, smallm, __half, smallm_variants)
STATE_ROW(dense_fprop_bf16_cuda_smallm_sm80, smallm, __nv_bfloat16,
          smallm_variants)
