/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wgrad on Hopper's wgmma, fed by TMA.
 *
 * The product.  dw[k, n] = sum over pixels m of dy[m, k] x[m, n].  Columns n
 * are blocks of 64 channels of one filter position (r, s).  A CTA owns BM x BN
 * weights and a range of pixels (split-K), whose k-tiles are 64 pixels.  Both
 * operands lie as in memory, boxes of 64 pixels of 64 channels, and are
 * MN-major: wgmma transposes them.  Windows come from an im2col tensor map, as
 * in wgmma.cuh; a 1x1 window with neither stride nor pads is a plain matrix.
 * TMA fills with zeros outside the image, past the last channel and past the
 * last pixel.  Each range writes its partial sums to the workspace,
 * parts[range][K][r, s, c], and wgrad_sum() adds them in order: the same bits
 * every time.  A single range writes dw itself (wgrad_target()).
 *
 * Threads.  Two consumer warpgroups, then one of which a thread fills the
 * pipeline.  WM consumers share the rows, 64 each; 2 / WM the columns.
 *
 * Shared memory.  STAGES k-tiles of BM / 64 boxes of dy and BN / 64 of x, 8192
 * bytes each in the 128-byte swizzle; barriers full[] and empty[] as in
 * wgmma.cuh.  At most 200 KiB.
 */
#include "kernels/cuda/conv/family.cuh"
#include "kernels/cuda/conv/state.cuh"
#include "kernels/cuda/mma/wgrad.cuh"
#include "kernels/cuda/wgmma/wgmma.cuh"
#include "kernels/cuda/wgmma/wgmma_finish.cuh"

#define BOX 8192 /* bytes of 64 pixels of 64 channels */

struct wgmma_wgrad_args {
    CUtensorMap x, dy;
    struct conv_geometry g;
    int im2col;                /* x is a map of windows, not of rows */
    int per_position, columns; /* blocks of 64: of a tap, of the window */
    int k_tiles, k_tiles_per_range;
    int tiles_n, tiles;
    struct fast_div by_p, by_q; /* of the output pixels */
    float *parts;
};

template <typename T_, int WM_, int BN_, int STAGES_> struct wgmma_wgrad_tile {
    typedef T_ T;
    enum {
        WM = WM_,
        BN = BN_,
        STAGES = STAGES_,
        BM = 64 * WM,
        WN = 2 / WM,
        N = BN / WN, /* columns of a consumer */
        CONSUMERS = 256,
        THREADS = CONSUMERS + 128,
        DY_BYTES = BM * 128,
        STAGE = DY_BYTES + BN * 128,
        FULL = STAGES * STAGE,
        EMPTY = FULL + STAGES * 8,
        SHARED = EMPTY + STAGES * 8
    };
};

/* ---- filling ------------------------------------------------------- */

template <typename P>
static __device__ __forceinline__ void fill(const struct wgmma_wgrad_args &a,
                                            uint32_t base, int k0, int block,
                                            int first, int end)
{
    struct pipeline_state pipe = {0, 0};
    int c[P::BN / 64], r[P::BN / 64], s[P::BN / 64];

#pragma unroll
    for (int j = 0; j < P::BN / 64; j++) {
        /* Columns past the last load the last again; they are not stored. */
        const int at = min(block + j, a.columns - 1), tap = at / a.per_position;
        c[j] = at % a.per_position * 64;
        s[j] = tap % a.g.s * a.g.dilation_w;
        r[j] = tap / a.g.s * a.g.dilation_h;
    }
    for (int i = first; i < end; i++) {
        const uint32_t stage = base + pipe.stage * P::STAGE;
        const uint32_t barrier = base + P::FULL + pipe.stage * 8;
        const int m0 = i * 64;
        uint32_t p, q;
        const uint32_t n = a.by_p.divmod(a.by_q.divmod((uint32_t)m0, &q), &p);
        const int w = (int)q * a.g.stride_w - a.g.pad_left;
        const int h = (int)p * a.g.stride_h - a.g.pad_top;
        mbarrier_wait(base + P::EMPTY + pipe.stage * 8, pipe.parity ^ 1);
        mbarrier_arrive_expect_tx(barrier, P::STAGE);
#pragma unroll
        for (int j = 0; j < P::WM; j++)
            tma_load_2d(stage + j * BOX, &a.dy, barrier, k0 + j * 64, m0);
#pragma unroll
        for (int j = 0; j < P::BN / 64; j++) {
            const uint32_t to = stage + P::DY_BYTES + j * BOX;
            if (a.im2col)
                tma_load_im2col(to, &a.x, barrier, c[j], w, h, (int)n, s[j],
                                r[j]);
            else
                tma_load_2d(to, &a.x, barrier, c[j], m0);
        }
        pipeline_next<P::STAGES>(&pipe);
    }
}

/* ---- computing ----------------------------------------------------- */

template <typename P>
static __device__ __forceinline__ void multiply(float (&acc)[P::N / 2],
                                                uint32_t base, int dy_at,
                                                int x_at, int k_tiles)
{
    const bool first_lane = threadIdx.x % 32 == 0;
    struct pipeline_state pipe = {0, 0};
    int before = 0; /* stage whose products may be in flight */

    for (int i = 0; i < k_tiles; i++) {
        const uint32_t stage = base + pipe.stage * P::STAGE;
        const uint64_t dy = smem_desc_mn_major(stage + dy_at);
        const uint64_t x = smem_desc_mn_major(stage + x_at);
        mbarrier_wait(base + P::FULL + pipe.stage * 8, pipe.parity);
        wgmma_arrive();
#pragma unroll
        for (int k = 0; k < 4; k++)
            wgmma_mma_ab_mn_major(typename P::T(), acc, dy + k * (2048 >> 4),
                                  x + k * (2048 >> 4), i + k > 0);
        wgmma_commit_group();
        wgmma_wait_group<1>();
        if (i > 0 && first_lane)
            mbarrier_arrive(base + P::EMPTY + before * 8);
        before = pipe.stage;
        pipeline_next<P::STAGES>(&pipe);
    }
    wgmma_wait_group<0>();
}

/* Rows k on, blocks of 64 columns from `block` on, of one range. */
template <int N>
static __device__ __forceinline__ void store(const struct wgmma_wgrad_args &a,
                                             int range, int k0, int block,
                                             const float (&acc)[N / 2])
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const int k = k0 + warp * 16 + lane / 4;
    const size_t row = (size_t)a.g.r * a.g.s * a.g.c;
    float *parts = a.parts + (size_t)range * a.g.k * row;

#pragma unroll
    for (int b = 0; b < N / 64; b++) {
        const int at = block + b, tap = at / a.per_position;
        const int c0 = at % a.per_position * 64 + lane % 4 * 2;
        float *to = parts + (size_t)tap * a.g.c;
        if (at >= a.columns)
            continue;
#pragma unroll
        for (int j = 0; j < 8; j++) {
            const float *v = acc + (b * 8 + j) * 4;
            const int c = c0 + j * 8;
            if (c < a.g.c && k < a.g.k)
                *(float2 *)(to + k * row + c) = make_float2(v[0], v[1]);
            if (c < a.g.c && k + 8 < a.g.k)
                *(float2 *)(to + (k + 8) * row + c) = make_float2(v[2], v[3]);
        }
    }
}

template <typename P>
static __global__ void __launch_bounds__(384, 1)
    wgmma_wgrad_kernel(const __grid_constant__ struct wgmma_wgrad_args a)
{
    LAUNCH_SHARED(shared);
    const uint32_t base = ptx_shared(shared);
    /* Tiles first: blocks that run together share pixels in L2. */
    const int range = (int)blockIdx.x / a.tiles, tile = blockIdx.x % a.tiles;
    const int k0 = tile / a.tiles_n * P::BM;
    const int block = tile % a.tiles_n * (P::BN / 64);
    const int first = range * a.k_tiles_per_range;
    const int end = min(first + a.k_tiles_per_range, a.k_tiles);

    if (threadIdx.x == 0) {
        tma_prefetch_descriptor(&a.x);
        tma_prefetch_descriptor(&a.dy);
        for (int i = 0; i < P::STAGES; i++) {
            mbarrier_init(base + P::FULL + i * 8, 1);
            mbarrier_init(base + P::EMPTY + i * 8, 8);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    launch_release();
    if (threadIdx.x < P::CONSUMERS) {
        const int group = warpgroup_index();
        const int wm = P::WM == 2 ? group : 0, wn = P::WM == 2 ? 0 : group;
        float acc[P::N / 2];
        setmaxnreg_inc<240>();
        multiply<P>(acc, base, wm * BOX, P::DY_BYTES + wn * (P::N / 64) * BOX,
                    end - first);
        launch_wait();
        store<P::N>(a, range, k0 + wm * 64, block + wn * (P::N / 64), acc);
    } else {
        setmaxnreg_dec<24>();
        if (threadIdx.x == P::CONSUMERS) {
            launch_wait();
            fill<P>(a, base, k0, block, first, end);
        }
    }
}

/* ---- limits -------------------------------------------------------- */

struct wgmma_wgrad_state {
    struct conv_tiled tiled;
    struct conv_geometry g;
    int im2col, per_position, columns, tiles_n, tiles;
    int k_tiles, k_tiles_per_range, ranges;
    double cycles; /* of the whole, estimated */
};

static int read_problem(const struct kern_problem *p,
                        const struct kern_device *d, int,
                        struct wgmma_wgrad_state *s, struct infer_error *why)
{
    const struct conv_geometry *g = &s->g;
    int rc = wgrad_geometry(p, &s->g, why);

    if (rc == 0)
        rc = wgmma_check_device(d, why);
    if (rc < 0)
        return rc;
    if (g->groups != 1 || g->c % 8 || g->k % 8 || g->c < 32 || g->k < 32)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes one group, inputs and outputs in 8s from 32 "
                         "on, found %d groups of %d to %d channels",
                         g->groups, g->cg, g->kg);
    s->im2col = tensor_map_needs_im2col(g);
    if (s->im2col && tensor_map_check_im2col(g, why) < 0)
        return INFER_EUNSUPPORTED;
    s->per_position = conv_ceil_div(g->c, 64);
    s->columns = g->r * g->s * s->per_position;
    s->k_tiles = conv_ceil_div(g->m, 64);
    return 0;
}

/* ---- heuristic ----------------------------------------------------- */

/* Tiles of P that cover the weights. */
template <typename P> static int tiles_of(const struct wgmma_wgrad_state *s)
{
    return conv_ceil_div(s->g.k, P::BM) * conv_ceil_div(s->columns, P::BN / 64);
}

/* Cycles of one k-tile of all tiles: 2048 products each, or 48 bytes from L2,
 * whichever takes longer. */
template <typename P>
static double k_tile_cycles(const struct wgmma_wgrad_state *s)
{
    const int bm = P::BM, bn = P::BN;
    const double products = bm * bn / 32 / 0.85;
    const double bytes = (bm + bn) * 128 / 48.0;

    return tiles_of<P>(s) * (products > bytes ? products : bytes);
}

/* Ranges of pixels, four k-tiles or more each: the number for which the waves
 * of tiles and the passes over the partial sums, at 2000 bytes a cycle, are
 * shortest.  plain: one range needs no second pass. */
static void choose_ranges(const struct kern_device *d, double cycles,
                          bool plain, struct wgmma_wgrad_state *s)
{
    const double join = WGRAD_JOIN_US * 1700;
    const double part = 8.0 * s->g.k * s->g.r * s->g.s * s->g.c / 2000;
    const int sms = conv_multiprocessors(d);
    double best = 0;

    s->ranges = 0;
    for (int ranges = 1; ranges <= 256 && 4 * ranges <= s->k_tiles + 3;
         ranges++) {
        const int each = conv_ceil_div(s->k_tiles, ranges);
        const int waves = conv_ceil_div(s->tiles * ranges, sms);
        const double time =
            waves * (each * cycles / s->tiles + 3000) +
            (plain && ranges == 1 ? part / 2 : ranges * part + join);
        if (s->ranges == 0 || time < best) {
            best = time;
            s->ranges = ranges;
        }
    }
    s->cycles = best;
    s->k_tiles_per_range = conv_ceil_div(s->k_tiles, s->ranges);
    s->ranges = conv_ceil_div(s->k_tiles, s->k_tiles_per_range);
}

template <typename P>
static int configure(const struct kern_problem *p, const struct kern_device *d,
                     int, struct wgmma_wgrad_state *s, struct infer_error *why)
{
    const int rc = read_problem(p, d, 0, s, why);

    if (rc < 0)
        return rc;
    s->tiles_n = conv_ceil_div(s->columns, P::BN / 64);
    s->tiles = tiles_of<P>(s);
    choose_ranges(d, k_tile_cycles<P>(s), wgrad_is_plain(p), s);
    return 0;
}

/* Microseconds at 1.7 GHz, and the launch. */
template <typename P>
static double estimate(const struct kern_problem *p,
                       const struct kern_device *d, int)
{
    struct wgmma_wgrad_state s = {};

    return configure<P>(p, d, 0, &s, NULL) < 0 ? 1e30 : 2.5 + s.cycles / 1700;
}

template <typename P>
static double rank(const struct kern_problem *p, const struct kern_device *d,
                   int)
{
    struct wgmma_wgrad_state s = {};

    return read_problem(p, d, 0, &s, NULL) < 0 ? 1e30 : k_tile_cycles<P>(&s);
}

/* ---- preparing ----------------------------------------------------- */

static void declare(struct kern_exec *e, const struct wgmma_wgrad_state *s)
{
    e->workspace =
        (size_t)s->ranges * (size_t)s->g.k * (size_t)s->g.depth * sizeof(float);
}

/* ---- launching ----------------------------------------------------- */

template <typename P>
static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct wgmma_wgrad_state *s =
        (const struct wgmma_wgrad_state *)e->state;
    const struct wgrad_join_shape shape = {s->g.k, s->g.c, s->g.r, s->g.s,
                                           s->ranges};
    const enum tensor_map_type type =
        tensor_map_type_of(e->problem.in[0].dtype);
    struct wgmma_wgrad_args a = {};
    int rc;

    a.g = s->g;
    a.im2col = s->im2col;
    a.per_position = s->per_position;
    a.columns = s->columns;
    a.k_tiles = s->k_tiles;
    a.k_tiles_per_range = s->k_tiles_per_range;
    a.tiles_n = s->tiles_n;
    a.tiles = s->tiles;
    a.by_p.init((uint32_t)s->g.p);
    a.by_q.init((uint32_t)s->g.q);
    a.parts = wgrad_target(e, &shape, args);
    rc = s->im2col ? tensor_map_im2col(&a.x, type, args->in[0], &s->g, 64, err)
                   : tensor_map_matrix(&a.x, type, args->in[0], s->g.m, s->g.c,
                                       s->g.c, 64, err);
    if (rc == 0)
        rc = tensor_map_matrix(&a.dy, type, args->in[1], s->g.m, s->g.k, s->g.k,
                               64, err);
    if (rc == 0)
        rc = launch_chained(wgmma_wgrad_kernel<P>, dim3(s->tiles * s->ranges),
                            P::THREADS, P::SHARED, args->stream, a, err);
    return rc < 0 ? rc : wgrad_join(e, &shape, args, err);
}

/* ---- tiles --------------------------------------------------------- */

#define WGRAD_TILE(name, ...)                                                  \
    {                                                                          \
        name, 0, state_supports<struct wgmma_wgrad_state, read_problem>,       \
            estimate<__VA_ARGS__>, rank<__VA_ARGS__>, NULL,                    \
            state_prepare<struct wgmma_wgrad_state, configure<__VA_ARGS__>,    \
                          declare>,                                            \
            NULL, launch<__VA_ARGS__>                                          \
    }

/* Outputs x columns of a tile. */
template <typename T>
static const struct conv_tile tiles[] = {
    WGRAD_TILE("128x256", wgmma_wgrad_tile<T, 2, 256, 4>),
    WGRAD_TILE("128x128", wgmma_wgrad_tile<T, 2, 128, 6>),
    WGRAD_TILE("128x64", wgmma_wgrad_tile<T, 2, 64, 8>),
    WGRAD_TILE("64x256", wgmma_wgrad_tile<T, 1, 256, 5>),
};

CONV_FAMILY_OF_FEW(conv2d_wgrad_nhwc_f16_cuda_wgmma_sm90, tiles<__half>)
CONV_FAMILY_OF_FEW(conv2d_wgrad_nhwc_bf16_cuda_wgmma_sm90, tiles<__nv_bfloat16>)
