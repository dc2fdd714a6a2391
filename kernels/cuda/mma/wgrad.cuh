/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wgrad on tensor cores through mma.sync (sm_80).
 *
 * The product.  dw[k, n] = sum over pixels m of dy[m, k] x[m, n], where m
 * counts the output pixels and n = (r, s, c) the window of one group, channels
 * innermost.  A block owns BK x BN weights and a range of pixels, which it
 * walks in k-tiles of 32; blockIdx.x counts tiles, y groups, z ranges of
 * pixels. Each range writes its sums to the workspace, parts[range][K][N], and
 * a second kernel adds the ranges in order: the same bits every time.  A single
 * range writes dw itself, where dw lies in that order.
 *
 * Shared memory.  STAGES k-tiles of 32 rows of BK values of dy and 32 of BN of
 * x, pixels down, as they lie in memory.  16-bit types: panels of 64 (or 32)
 * columns, 16-byte vectors swizzled as igemm.cuh does, read transposed by
 * ldmatrix.  32-bit types: rows of B + 8 floats, so that the 4 rows by 8
 * columns of a fragment fall on 32 banks, read one by one.
 *
 * Threads, copying.  A thread copies one column vector of rows that are
 * THREADS / vectors apart; where in the window the column lies is worked out
 * once, where in the image the pixel lies for each row.  NARROW: one element a
 * time through registers, for any number of channels.
 *
 * Threads, computing.  WARPS_M x WARPS_N warps, m16n8 instructions, m the
 * output channels.
 */
#ifndef KERNELS_CUDA_MMA_WGRAD_CUH
#define KERNELS_CUDA_MMA_WGRAD_CUH

#include "kernels/cuda/mma/igemm.cuh"
#include "kernels/cuda/strided.cuh"

#define WGRAD_DEPTH 32 /* pixels of a k-tile */

struct wgrad_args {
    struct conv_geometry g;
    struct fast_div p, q; /* of the output pixels */
    const void *x, *dy;
    float *parts;
    int n;       /* r * s * cg */
    int k_tiles; /* of all pixels */
    int k_tiles_per_range, tiles_n;
};

/* ---- shape --------------------------------------------------------- */

/* NARROW: channels that are no whole vectors, copied one by one. */
template <typename M, int BK_, int BN_, int STAGES_, int WARPS_M_, int WARPS_N_,
          int NARROW_ = 0>
struct wgrad_tile {
    typedef M mode;
    typedef typename M::type T;
    enum {
        BK = BK_,
        BN = BN_,
        STAGES = STAGES_,
        WARPS_M = WARPS_M_,
        WARPS_N = WARPS_N_,
        NARROW = NARROW_,
        THREADS = 32 * WARPS_M * WARPS_N,
        LANE = 16 / (int)sizeof(T),
        A_BYTES = WGRAD_DEPTH * (M::WIDE ? (BK + 8) * 4 : BK * 2),
        B_BYTES = WGRAD_DEPTH * (M::WIDE ? (BN + 8) * 4 : BN * 2),
        STAGE = A_BYTES + B_BYTES,
        SHARED = STAGES * STAGE,
        WM = BK / WARPS_M,
        WN = BN / WARPS_N,
        MT = WM / 16,
        NT = WN / 8
    };
};

/* Byte offset of vector v of row i of an operand of B columns. */
template <typename M, int B>
static __device__ __forceinline__ int wgrad_at(int i, int v)
{
    const int ROW = B >= 64 ? 128 : 64, per = ROW / 16;

    if (M::WIDE)
        return i * (B + 8) * 4 + v * 16;
    return v / per * (WGRAD_DEPTH * ROW) + igemm_swizzle<ROW>(i, v % per);
}

/* ---- copying ------------------------------------------------------- */

/* Offset in x of the top left pixel of window m, and where that lies. */
static __device__ __forceinline__ struct conv_pixel
wgrad_pixel(const struct wgrad_args &a, int m, int group)
{
    struct conv_pixel at = {0, -(1 << 30), 0};

    if (m < a.g.m) {
        uint32_t p, q;
        uint32_t n = a.q.divmod((uint32_t)m, &q);
        n = a.p.divmod(n, &p);
        at.h = (int)p * a.g.stride_h - a.g.pad_top;
        at.w = (int)q * a.g.stride_w - a.g.pad_left;
        at.offset =
            (((int)n * a.g.h + at.h) * a.g.w + at.w) * a.g.c + group * a.g.cg;
    }
    return at;
}

/* A position in the window; past the last, one that lies in no image. */
static __device__ __forceinline__ struct conv_depth
wgrad_column(const struct wgrad_args &a, int n)
{
    if (n < a.n)
        return conv_depth_at(a.g, n);
    return {a.g.r, 0, 0};
}

template <typename L>
static __device__ __forceinline__ void
wgrad_copy(const struct wgrad_args &a, int group, int k0,
           const struct conv_depth &d, int k_tile, uint32_t stage)
{
    typedef typename L::T T;
    const int va = L::BK / L::LANE, vb = L::BN / L::LANE;
    const int step_a = L::THREADS / va, step_b = L::THREADS / vb;
    const int k = k0 + (int)threadIdx.x % va * L::LANE;
    const int tap = conv_tap_offset(a.g, d);
    const int m0 = k_tile * WGRAD_DEPTH;

#pragma unroll
    for (int i = 0; i < WGRAD_DEPTH; i += step_a) {
        const int row = i + (int)threadIdx.x / va, m = m0 + row;
        const bool ok = m < a.g.m && k < a.g.kg;
        const T *from =
            (const T *)a.dy +
            (ok ? (size_t)m * a.g.k + group * a.g.kg + k : (size_t)0);
        ptx_cp_async<16>(
            stage + wgrad_at<typename L::mode, L::BK>(row, threadIdx.x % va),
            from, ok);
    }
#pragma unroll
    for (int i = 0; i < WGRAD_DEPTH; i += step_b) {
        const int row = i + (int)threadIdx.x / vb;
        const struct conv_pixel at = wgrad_pixel(a, m0 + row, group);
        const bool ok = conv_inside(a.g, at.h, at.w, d);
        const T *from = (const T *)a.x + (ok ? at.offset + tap : 0);
        ptx_cp_async<16>(
            stage + L::A_BYTES +
                wgrad_at<typename L::mode, L::BN>(row, threadIdx.x % vb),
            from, ok);
    }
}

template <typename L>
static __device__ __forceinline__ void
wgrad_copy_narrow(const struct wgrad_args &a, int group, int k0,
                  const struct conv_depth &d, int k_tile, unsigned char *stage)
{
    typedef typename L::T T;
    const int step_a = L::THREADS / L::BK, step_b = L::THREADS / L::BN;
    const int ka = threadIdx.x % L::BK, nb = threadIdx.x % L::BN;
    const int tap = conv_tap_offset(a.g, d);
    const int m0 = k_tile * WGRAD_DEPTH;

    for (int row = threadIdx.x / L::BK; row < WGRAD_DEPTH; row += step_a) {
        const int m = m0 + row;
        T v = from_float<T>(0);
        if (m < a.g.m && k0 + ka < a.g.kg)
            v = ((const T *)a.dy)[(size_t)m * a.g.k + group * a.g.kg + k0 + ka];
        ((T *)(stage + wgrad_at<typename L::mode, L::BK>(
                           row, ka / L::LANE)))[ka % L::LANE] = v;
    }
    for (int row = threadIdx.x / L::BN; row < WGRAD_DEPTH; row += step_b) {
        const struct conv_pixel at = wgrad_pixel(a, m0 + row, group);
        T v = from_float<T>(0);
        if (conv_inside(a.g, at.h, at.w, d))
            v = ((const T *)a.x)[at.offset + tap];
        ((T *)(stage + L::A_BYTES +
               wgrad_at<typename L::mode, L::BN>(
                   row, nb / L::LANE)))[nb % L::LANE] = v;
    }
}

/* ---- computing ----------------------------------------------------- */

/* Fragments of 16 pixels from 16-bit panels.  Lane l addresses row l % 8 of
 * matrix l / 8: of dy (pixels 0-7, channels 0-7), (0-7, 8-15), (8-15, 0-7),
 * (8-15, 8-15); of x (0-7, 0-7), (8-15, 0-7), (0-7, 8-15), (8-15, 8-15). */
template <typename L>
static __device__ __forceinline__ void
wgrad_load_half(uint32_t stage, int step, int column_a, int column_b,
                uint32_t (&fa)[L::MT][4], uint32_t (&fb)[L::NT][2])
{
    const int lane = threadIdx.x % 32;

#pragma unroll
    for (int i = 0; i < L::MT; i++)
        ptx_ldmatrix_x4_trans(
            fa[i], stage + wgrad_at<typename L::mode, L::BK>(
                               step * 16 + lane / 16 * 8 + lane % 8,
                               (column_a + i * 16) / 8 + lane / 8 % 2));
#pragma unroll
    for (int j = 0; j < L::NT; j += 2) {
        uint32_t four[4];
        ptx_ldmatrix_x4_trans(four,
                              stage + L::A_BYTES +
                                  wgrad_at<typename L::mode, L::BN>(
                                      step * 16 + lane / 8 % 2 * 8 + lane % 8,
                                      (column_b + j * 8) / 8 + lane / 16));
        fb[j][0] = four[0];
        fb[j][1] = four[1];
        fb[j + 1][0] = four[2];
        fb[j + 1][1] = four[3];
    }
}

/* Fragments of 8 pixels from rows of floats: lane 4g + t holds channels g and
 * g + 8, pixels t and t + 4. */
template <typename L>
static __device__ __forceinline__ void
wgrad_load_float(const unsigned char *stage, int step, int column_a,
                 int column_b, uint32_t (&fa)[L::MT][4],
                 uint32_t (&fb)[L::NT][2])
{
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const uint32_t *a =
        (const uint32_t *)stage + (step * 8 + t) * (L::BK + 8) + column_a + g;
    const uint32_t *b = (const uint32_t *)(stage + L::A_BYTES) +
                        (step * 8 + t) * (L::BN + 8) + column_b + g;

#pragma unroll
    for (int i = 0; i < L::MT; i++) {
        fa[i][0] = a[i * 16];
        fa[i][1] = a[i * 16 + 8];
        fa[i][2] = a[i * 16 + 4 * (L::BK + 8)];
        fa[i][3] = a[i * 16 + 8 + 4 * (L::BK + 8)];
    }
#pragma unroll
    for (int j = 0; j < L::NT; j++) {
        fb[j][0] = b[j * 8];
        fb[j][1] = b[j * 8 + 4 * (L::BN + 8)];
    }
}

template <typename L>
static __device__ __forceinline__ void
wgrad_multiply(float (&acc)[L::MT][L::NT][4], uint32_t (&fa)[L::MT][4],
               uint32_t (&fb)[L::NT][2])
{
    if (L::mode::SPLIT) {
        igemm_multiply_split<L>(acc, fa, fb);
        return;
    }
    if (L::mode::WIDE) {
#pragma unroll
        for (int i = 0; i < L::MT; i++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                fa[i][e] = tf32_round(fa[i][e]);
#pragma unroll
        for (int j = 0; j < L::NT; j++)
#pragma unroll
            for (int e = 0; e < 2; e++)
                fb[j][e] = tf32_round(fb[j][e]);
    }
    igemm_multiply<L>(acc, fa, fb);
}

/* Tensor cores truncate their sums: to keep single precision, each k-tile has
 * sums of its own, which are added in round-to-nearest arithmetic. */
template <typename L>
static __device__ __forceinline__ void
wgrad_k_tile(float (&acc)[L::MT][L::NT][4], const unsigned char *stage)
{
    const int warp = threadIdx.x / 32;
    const int column_a = warp / L::WARPS_N * L::WM;
    const int column_b = warp % L::WARPS_N * L::WN;
    float part[L::MT][L::NT][4];

#pragma unroll
    for (int i = 0; i < L::MT; i++)
#pragma unroll
        for (int j = 0; j < L::NT; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                part[i][j][e] = L::mode::SPLIT ? 0 : acc[i][j][e];
#pragma unroll
    for (int step = 0; step < WGRAD_DEPTH / (L::mode::WIDE ? 8 : 16); step++) {
        uint32_t fa[L::MT][4], fb[L::NT][2];
        if constexpr (L::mode::WIDE)
            wgrad_load_float<L>(stage, step, column_a, column_b, fa, fb);
        else
            wgrad_load_half<L>(ptx_shared(stage), step, column_a, column_b, fa,
                               fb);
        wgrad_multiply<L>(part, fa, fb);
    }
#pragma unroll
    for (int i = 0; i < L::MT; i++)
#pragma unroll
        for (int j = 0; j < L::NT; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                acc[i][j][e] =
                    (L::mode::SPLIT ? acc[i][j][e] : 0) + part[i][j][e];
}

template <typename L>
static __device__ __forceinline__ void
wgrad_store(const struct wgrad_args &a, int group, int k0, int n0,
            const float (&acc)[L::MT][L::NT][4])
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int k = k0 + warp / L::WARPS_N * L::WM + lane / 4;
    const int n = n0 + warp % L::WARPS_N * L::WN + lane % 4 * 2;
    float *parts = a.parts + (size_t)blockIdx.z * a.g.k * a.n;

#pragma unroll
    for (int i = 0; i < L::MT; i++)
#pragma unroll
        for (int j = 0; j < L::NT; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int kk = k + i * 16 + e / 2 * 8, nn = n + j * 8 + e % 2;
                if (kk < a.g.kg && nn < a.n)
                    parts[(size_t)(group * a.g.kg + kk) * a.n + nn] =
                        acc[i][j][e];
            }
}

template <typename L>
static __global__ void __launch_bounds__(L::THREADS)
    wgrad_kernel(const __grid_constant__ struct wgrad_args a)
{
    LAUNCH_SHARED(shared);
    const int k0 = (int)(blockIdx.x / a.tiles_n) * L::BK;
    const int n0 = (int)(blockIdx.x % a.tiles_n) * L::BN;
    const int group = blockIdx.y;
    const int first = blockIdx.z * a.k_tiles_per_range;
    const int count = min(a.k_tiles_per_range, a.k_tiles - first);
    const int columns = L::NARROW ? L::BN : L::BN / L::LANE;
    const struct conv_depth d = wgrad_column(
        a, n0 + (int)threadIdx.x % columns * (L::NARROW ? 1 : (int)L::LANE));
    float acc[L::MT][L::NT][4] = {};

    launch_wait();
    if (L::NARROW) {
        for (int i = 0; i < count; i++) {
            __syncthreads(); /* the k-tile before has been read */
            wgrad_copy_narrow<L>(a, group, k0, d, first + i, shared);
            __syncthreads();
            wgrad_k_tile<L>(acc, shared);
        }
    } else {
#pragma unroll
        for (int i = 0; i < L::STAGES - 1; i++) {
            if (i < count)
                wgrad_copy<L>(a, group, k0, d, first + i,
                              ptx_shared(shared) + i * L::STAGE);
            ptx_cp_async_commit();
        }
        for (int i = 0; i < count; i++) {
            const int ahead = i + L::STAGES - 1;
            ptx_cp_async_wait<L::STAGES - 2>();
            __syncthreads();
            if (ahead < count)
                wgrad_copy<L>(a, group, k0, d, first + ahead,
                              ptx_shared(shared) +
                                  ahead % L::STAGES * L::STAGE);
            ptx_cp_async_commit();
            wgrad_k_tile<L>(acc, shared + i % L::STAGES * L::STAGE);
        }
    }
    wgrad_store<L>(a, group, k0, n0, acc);
}

/* ---- the ranges' sum ----------------------------------------------- */

/* dw = residual + the partial sums of all ranges.  A block of 256 threads is
 * 256 / rows weights by `rows` lanes of ranges, added in shared memory in a
 * fixed order. linear: dw, and the residual, lie in the order of the partial
 * sums. */
struct wgrad_sum_args {
    const float *parts;
    int count; /* K * n */
    int n, cg, s, ranges, rows;
    bool linear;
    int64_t stride[4], r_stride[4]; /* k, c, r, s */
    enum infer_dtype type, r_type;  /* r_type NONE: no residual */
    const void *residual;
    void *dw;
};

static __device__ __forceinline__ int64_t wgrad_offset(
    const struct wgrad_sum_args &a, int64_t at, const int64_t (&stride)[4])
{
    if (a.linear)
        return at;
    const int i = (int)at, k = i / a.n, n = i % a.n, rs = n / a.cg,
              c = n % a.cg;
    return k * stride[0] + c * stride[1] + rs / a.s * stride[2] +
           rs % a.s * stride[3];
}

static __global__ void __launch_bounds__(256)
    wgrad_sum(const __grid_constant__ struct wgrad_sum_args a)
{
    __shared__ float joined[256];
    const int wide = 256 / a.rows;
    const int lane = threadIdx.x % wide, row = threadIdx.x / wide;
    const int64_t i = blockIdx.x * (int64_t)wide + lane;
    float sum = 0;

    launch_wait();
    if (i < a.count)
#pragma unroll 8
        for (int z = row; z < a.ranges; z += a.rows)
            sum += a.parts[(size_t)z * a.count + i];
    joined[threadIdx.x] = sum;
    __syncthreads();
    if (row != 0 || i >= a.count)
        return;
    for (int z = 1; z < a.rows; z++)
        sum += joined[z * wide + lane];
    if (a.r_type != INFER_NONE)
        sum += (float)load_any(a.r_type, a.residual,
                               wgrad_offset(a, i, a.r_stride));
    if (a.type == INFER_F32)
        ((float *)a.dw)[wgrad_offset(a, i, a.stride)] = sum;
    else
        store_any(a.type, a.dw, wgrad_offset(a, i, a.stride), (double)sum);
}

/* ---- the host's part ----------------------------------------------- */

/* Reads the geometry of the convolution whose weights' gradient is wanted. */
static inline int wgrad_geometry(const struct kern_problem *p,
                                 struct conv_geometry *g,
                                 struct infer_error *why)
{
    struct kern_problem fprop = *p;

    fprop.op = KERN_CONV_FPROP;
    fprop.n_in = 2;
    fprop.in[1] = p->out[0];
    fprop.out[0] = p->in[1];
    const int rc = conv_geometry_read(&fprop, g, why);
    if (rc < 0)
        return rc;
    if (p->in[0].rank != 4)
        return error_set(why, INFER_EUNSUPPORTED, "takes 2 spatial dimensions");
    if (!cuda_is_real(p->out[0].dtype) ||
        (kern_problem_in(p, 2) && !cuda_is_real(p->in[2].dtype)))
        return error_set(why, INFER_EUNSUPPORTED,
                         "dw and what is added to it are F32, F16 or BF16");
    if (g->m < 1 || kern_tensor_count(&p->in[1]) > INT32_MAX)
        return error_set(why, INFER_EUNSUPPORTED,
                         "dy has no elements, or 2^31 or more");
    return 0;
}

/* Microseconds of the second pass besides its bytes: its launch, and the wait
 * for the first. */
#define WGRAD_JOIN_US 2.5

/* True if a single range of pixels may write dw itself: dw is F32, lies in the
 * order of the partial sums, and nothing is added to it. */
static inline bool wgrad_is_plain(const struct kern_problem *p)
{
    return p->out[0].dtype == INFER_F32 && !kern_problem_in(p, 2) &&
           kern_tensor_is_dense(&p->out[0], KERN_NHWC);
}

/* Extents of the weights, and the ranges of the first pass. */
struct wgrad_join_shape {
    int k, cg, r, s, ranges;
};

/* Where the first pass writes: dw, or the partial sums in the workspace.  Pairs
 * of floats are stored at once. */
static inline float *wgrad_target(const struct kern_exec *e,
                                  const struct wgrad_join_shape *shape,
                                  const struct kern_args *args)
{
    const bool plain = shape->ranges == 1 && wgrad_is_plain(&e->problem) &&
                       (uintptr_t)args->out[0] % 8 == 0;

    return (float *)(plain ? args->out[0] : args->workspace);
}

/* Launches the second pass, unless the first one has written dw: adds the
 * partial sums in the workspace. */
static inline int wgrad_join(const struct kern_exec *e,
                             const struct wgrad_join_shape *shape,
                             const struct kern_args *args,
                             struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *r = kern_problem_in(p, 2);
    struct wgrad_sum_args a = {};

    if (wgrad_target(e, shape, args) == args->out[0])
        return 0;
    a.parts = (const float *)args->workspace;
    a.n = shape->r * shape->s * shape->cg;
    a.count = shape->k * a.n;
    a.cg = shape->cg;
    a.s = shape->s;
    a.ranges = shape->ranges;
    /* Each thread has some ranges of its own, up to 8 threads a weight. */
    a.rows = 1;
    while (a.rows < 8 && a.rows * 4 <= a.ranges)
        a.rows *= 2;
    a.linear = kern_tensor_is_dense(&p->out[0], KERN_NHWC) &&
               (!r || kern_tensor_is_dense(r, KERN_NHWC));
    for (int i = 0; i < 4; i++) {
        a.stride[i] = p->out[0].stride[i];
        a.r_stride[i] = r ? r->stride[i] : 0;
    }
    a.type = p->out[0].dtype;
    a.r_type = r ? r->dtype : INFER_NONE;
    a.residual = args->in[2];
    a.dw = args->out[0];
    return launch_chained(wgrad_sum, dim3(cuda_blocks(a.count, 256 / a.rows)),
                          dim3(256), 0, args->stream, a, err);
}

#endif
