/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradient of a convolution's weights on Hopper's warpgroup products, fed by
 * the copy engine.
 *
 * The product.  dw[k, n] = sum over pixels m of dy[m, k] x[m, n].  Columns n
 * are blocks of 64 channels of one tap (r, s) of the window.  A block owns BM x
 * BN weights and a range of pixels, which it walks in k-tiles of 64.  Both
 * operands lie as in memory, 64 pixels of 64 channels a box, pixels down: the
 * products take them transposed.  Windows are found by the copy engine's im2col
 * mode, as in wgmma.cuh; a 1x1 window with neither stride nor pads is a plain
 * matrix. What lies outside the image, past the last channel or past the last
 * pixel is zeros.  Each range writes its sums to the workspace,
 * parts[range][K][r, s, c], and wgrad_sum() adds them in order: the same bits
 * every time.
 *
 * Threads.  Two consumer warpgroups, then one of which a thread fills the
 * pipeline. WM consumers share the rows, 64 each; 2 / WM the columns.
 *
 * Shared memory.  STAGES k-tiles of BM / 64 boxes of dy and BN / 64 of x, 8192
 * bytes each in the 128-byte swizzle; barriers full[] and empty[] as in
 * wgmma.cuh.  At most 200 KiB.
 */
#include <stdlib.h>

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
    float *parts;
};

template <int WM, int BN, int STAGES> struct wgmma_wgrad_tile {
    enum {
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

template <int WM, int BN, int STAGES>
static __device__ __forceinline__ void fill(const struct wgmma_wgrad_args &a,
                                            uint32_t base, int k0, int block,
                                            int first, int end)
{
    typedef wgmma_wgrad_tile<WM, BN, STAGES> P;
    struct pipeline_state pipe = {0, 0};
    int c[BN / 64], r[BN / 64], s[BN / 64];

#pragma unroll
    for (int j = 0; j < BN / 64; j++) {
        /* Blocks past the last repeat it; nobody stores them. */
        const int at = min(block + j, a.columns - 1), tap = at / a.per_position;
        c[j] = at % a.per_position * 64;
        s[j] = tap % a.g.s * a.g.dilation_w;
        r[j] = tap / a.g.s * a.g.dilation_h;
    }
    for (int i = first; i < end; i++) {
        const uint32_t stage = base + pipe.stage * P::STAGE;
        const uint32_t barrier = base + P::FULL + pipe.stage * 8;
        const int m0 = i * 64, np = m0 / a.g.q;
        const int w = m0 % a.g.q * a.g.stride_w - a.g.pad_left;
        const int h = np % a.g.p * a.g.stride_h - a.g.pad_top;
        mbarrier_wait(base + P::EMPTY + pipe.stage * 8, pipe.parity ^ 1);
        mbarrier_arrive_expect_tx(barrier, P::STAGE);
#pragma unroll
        for (int j = 0; j < WM; j++)
            tma_load_2d(stage + j * BOX, &a.dy, barrier, k0 + j * 64, m0);
#pragma unroll
        for (int j = 0; j < BN / 64; j++) {
            const uint32_t to = stage + P::DY_BYTES + j * BOX;
            if (a.im2col)
                tma_load_im2col(to, &a.x, barrier, c[j], w, h, np / a.g.p, s[j],
                                r[j]);
            else
                tma_load_2d(to, &a.x, barrier, c[j], m0);
        }
        pipeline_next<STAGES>(&pipe);
    }
}

/* ---- computing ----------------------------------------------------- */

template <typename T, int WM, int BN, int STAGES>
static __device__ __forceinline__ void
multiply(float (&acc)[wgmma_wgrad_tile<WM, BN, STAGES>::N / 2], uint32_t base,
         int dy_at, int x_at, int k_tiles)
{
    typedef wgmma_wgrad_tile<WM, BN, STAGES> P;
    const bool first_lane = threadIdx.x % 32 == 0;
    struct pipeline_state pipe = {0, 0};
    int before = 0; /* stage whose products may be under way */

    for (int i = 0; i < k_tiles; i++) {
        const uint32_t stage = base + pipe.stage * P::STAGE;
        const uint64_t dy = smem_desc_mn_major(stage + dy_at);
        const uint64_t x = smem_desc_mn_major(stage + x_at);
        mbarrier_wait(base + P::FULL + pipe.stage * 8, pipe.parity);
        wgmma_arrive();
#pragma unroll
        for (int k = 0; k < 4; k++)
            wgmma_mma_ab_mn_major(T(), acc, dy + k * (2048 >> 4),
                                  x + k * (2048 >> 4), i + k > 0);
        wgmma_commit_group();
        wgmma_wait_group<1>();
        if (i > 0 && first_lane)
            mbarrier_arrive(base + P::EMPTY + before * 8);
        before = pipe.stage;
        pipeline_next<STAGES>(&pipe);
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

template <typename T, int WM, int BN, int STAGES>
static __global__ void __launch_bounds__(384, 1)
    wgmma_wgrad_kernel(const __grid_constant__ struct wgmma_wgrad_args a)
{
    typedef wgmma_wgrad_tile<WM, BN, STAGES> P;
    LAUNCH_SHARED(shared);
    const uint32_t base = ptx_shared(shared);
    /* Tiles first: blocks that run together share pixels in L2. */
    const int range = (int)blockIdx.x / a.tiles, tile = blockIdx.x % a.tiles;
    const int k0 = tile / a.tiles_n * P::BM;
    const int block = tile % a.tiles_n * (BN / 64);
    const int first = range * a.k_tiles_per_range;
    const int end = min(first + a.k_tiles_per_range, a.k_tiles);

    if (threadIdx.x == 0) {
        tma_prefetch_descriptor(&a.x);
        tma_prefetch_descriptor(&a.dy);
        for (int i = 0; i < STAGES; i++) {
            mbarrier_init(base + P::FULL + i * 8, 1);
            mbarrier_init(base + P::EMPTY + i * 8, 8);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x < P::CONSUMERS) {
        const int group = warpgroup_index();
        const int wm = WM == 2 ? group : 0, wn = WM == 2 ? 0 : group;
        float acc[P::N / 2];
        setmaxnreg_inc<240>();
        multiply<T, WM, BN, STAGES>(acc, base, wm * BOX,
                                    P::DY_BYTES + wn * (P::N / 64) * BOX,
                                    end - first);
        store<P::N>(a, range, k0 + wm * 64, block + wn * (P::N / 64), acc);
    } else {
        setmaxnreg_dec<24>();
        if (threadIdx.x == P::CONSUMERS)
            fill<WM, BN, STAGES>(a, base, k0, block, first, end);
    }
}

/* ---- limits -------------------------------------------------------- */

enum shape { SHAPE_128x256, SHAPE_128x128, SHAPE_128x64, SHAPE_64x256, SHAPES };

static const struct {
    int bm, bn;
} figures[SHAPES] = {{128, 256}, {128, 128}, {128, 64}, {64, 256}};

struct wgmma_wgrad_state {
    struct conv_geometry g;
    enum shape shape;
    int im2col, per_position, columns, tiles_n, tiles;
    int k_tiles, k_tiles_per_range, ranges;
    double cycles; /* of the whole, roughly */
};

/* What a map of windows can say of one axis: corners of 8 bits, offsets below
 * 256, strides up to 8. */
static bool axis_fits(int extent, int outputs, int window, int stride,
                      int dilation, int pad)
{
    const int upper = tensor_map_upper(extent, outputs, stride, pad);

    return (int64_t)(window - 1) * dilation <= 255 && stride <= 8 &&
           pad >= -127 && pad <= 128 && upper >= -128 && upper <= 127;
}

static int read_problem(const struct kern_problem *p,
                        const struct kern_device *d,
                        struct wgmma_wgrad_state *s, struct infer_error *why)
{
    const struct conv_geometry *g = &s->g;
    int r = wgrad_geometry(p, &s->g, why);

    if (r == 0)
        r = wgmma_check_device(d, why);
    if (r < 0)
        return r;
    if (g->groups != 1 || g->c % 8 || g->k % 8 || g->c < 32 || g->k < 32)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes one group, inputs and outputs in 8s from 32 "
                         "on, found %d groups of %d to %d channels",
                         g->groups, g->cg, g->kg);
    s->im2col = g->r != 1 || g->s != 1 || g->stride_h != 1 ||
                g->stride_w != 1 || g->p != g->h || g->q != g->w ||
                g->pad_top || g->pad_left;
    if (s->im2col &&
        !(axis_fits(g->h, g->p, g->r, g->stride_h, g->dilation_h, g->pad_top) &&
          axis_fits(g->w, g->q, g->s, g->stride_w, g->dilation_w, g->pad_left)))
        return error_set(why, INFER_EUNSUPPORTED,
                         "window, stride or pads are too large for the copy "
                         "engine");
    s->per_position = conv_ceil_div(g->c, 64);
    s->columns = g->r * g->s * s->per_position;
    s->k_tiles = conv_ceil_div(g->m, 64);
    return 0;
}

/* Cycles of a k-tile: 2048 products each, or what comes from L2, 48 bytes. */
static double k_tile_cycles(const struct wgmma_wgrad_state *s, int shape)
{
    const int bm = figures[shape].bm, bn = figures[shape].bn;
    const double products = bm * bn / 32 / 0.85;
    const double bytes = (bm + bn) * 128 / 48.0;
    const int tiles =
        conv_ceil_div(s->g.k, bm) * conv_ceil_div(s->columns, bn / 64);

    return tiles * (products > bytes ? products : bytes);
}

/* Ranges of pixels, four k-tiles or more each: as many as make the rounds of
 * tiles and the passes over the parts, at 2000 bytes a cycle, shortest. */
static void choose_ranges(const struct kern_device *d, double cycles,
                          struct wgmma_wgrad_state *s)
{
    const double part = 8.0 * s->g.k * s->g.r * s->g.s * s->g.c / 2000;
    const int sms = conv_multiprocessors(d);
    double best = 0;

    s->ranges = 0;
    for (int ranges = 1; ranges <= 256 && 4 * ranges <= s->k_tiles + 3;
         ranges++) {
        const int each = conv_ceil_div(s->k_tiles, ranges);
        const int waves = conv_ceil_div(s->tiles * ranges, sms);
        const double time =
            waves * (each * cycles / s->tiles + 3000) + ranges * part;
        if (s->ranges == 0 || time < best) {
            best = time;
            s->ranges = ranges;
        }
    }
    s->cycles = best;
    s->k_tiles_per_range = conv_ceil_div(s->k_tiles, s->ranges);
    s->ranges = conv_ceil_div(s->k_tiles, s->k_tiles_per_range);
}

static void choose(const struct kern_device *d, struct wgmma_wgrad_state *s)
{
    double best = k_tile_cycles(s, 0);

    s->shape = SHAPE_128x256;
    for (int i = 1; i < SHAPES; i++)
        if (k_tile_cycles(s, i) < best) {
            best = k_tile_cycles(s, i);
            s->shape = (enum shape)i;
        }
    s->tiles_n = conv_ceil_div(s->columns, figures[s->shape].bn / 64);
    s->tiles = conv_ceil_div(s->g.k, figures[s->shape].bm) * s->tiles_n;
    choose_ranges(d, best, s);
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    struct wgmma_wgrad_state s = {};

    return read_problem(p, d, &s, why);
}

/* At 1.7 GHz, two launches aside. */
static double estimate(const struct kern_problem *p,
                       const struct kern_device *d)
{
    struct wgmma_wgrad_state s = {};

    if (read_problem(p, d, &s, NULL) < 0)
        return 1e30;
    choose(d, &s);
    return 5 + s.cycles / 1700;
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    struct wgmma_wgrad_state *s =
        (struct wgmma_wgrad_state *)calloc(1, sizeof(*s));
    const int r =
        s ? read_problem(&e->problem, d, s, err)
          : error_set(err, INFER_EMEMORY, "%s: no memory", e->row->name);

    if (r < 0) {
        free(s);
        return r;
    }
    choose(d, s);
    e->state = s;
    e->workspace =
        (size_t)s->ranges * (size_t)s->g.k * (size_t)s->g.depth * sizeof(float);
    return 0;
}

/* ---- launching ----------------------------------------------------- */

template <typename T, int WM, int BN, int STAGES>
static int run(const struct wgmma_wgrad_state *s,
               const struct wgmma_wgrad_args *a, void *stream,
               struct infer_error *err)
{
    typedef wgmma_wgrad_tile<WM, BN, STAGES> P;

    return launch_kernel(wgmma_wgrad_kernel<T, WM, BN, STAGES>,
                         dim3(s->tiles * s->ranges), P::THREADS, P::SHARED,
                         stream, *a, err);
}

template <typename T>
static int run_shape(const struct wgmma_wgrad_state *s,
                     const struct wgmma_wgrad_args *a, void *stream,
                     struct infer_error *err)
{
    switch (s->shape) {
    case SHAPE_128x256:
        return run<T, 2, 256, 4>(s, a, stream, err);
    case SHAPE_128x128:
        return run<T, 2, 128, 6>(s, a, stream, err);
    case SHAPE_128x64:
        return run<T, 2, 64, 8>(s, a, stream, err);
    default:
        return run<T, 1, 256, 5>(s, a, stream, err);
    }
}

template <typename T>
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
    int r;

    a.g = s->g;
    a.im2col = s->im2col;
    a.per_position = s->per_position;
    a.columns = s->columns;
    a.k_tiles = s->k_tiles;
    a.k_tiles_per_range = s->k_tiles_per_range;
    a.tiles_n = s->tiles_n;
    a.tiles = s->tiles;
    a.parts = (float *)args->workspace;
    r = s->im2col ? tensor_map_im2col(&a.x, type, args->in[0], &s->g, 64, err)
                  : tensor_map_matrix(&a.x, type, args->in[0], s->g.m, s->g.c,
                                      s->g.c, 64, err);
    if (r == 0)
        r = tensor_map_matrix(&a.dy, type, args->in[1], s->g.m, s->g.k, s->g.k,
                              64, err);
    if (r == 0)
        r = run_shape<T>(s, &a, args->stream, err);
    return r < 0 ? r : wgrad_join(e, &shape, args, err);
}

WGRAD_HALF_ROW(conv2d_wgrad_nhwc_f16_cuda_wgmma_sm90, estimate, launch<__half>)
WGRAD_HALF_ROW(conv2d_wgrad_nhwc_bf16_cuda_wgmma_sm90, estimate,
               launch<__nv_bfloat16>)
