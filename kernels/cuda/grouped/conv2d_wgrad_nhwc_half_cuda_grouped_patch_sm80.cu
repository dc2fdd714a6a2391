/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wgrad of 3x3 convolutions of many groups of few channels through mma.sync:
 * dw[k, r, s, c] = sum over pixels m of dy[m, k] x[m + (r, s), c], from patches
 * of the image in shared memory as those of grouped_patch.cuh.
 *
 * A warp has a column of 16 outputs and its 16 input channels: 9 x 16 x 16 sums
 * in registers, of which those whose output and channel are of one group are
 * stored.  A block has the warps of a slice of columns, and `down` such
 * rows of warps, each of which takes every down-th 16 pixels of a tile.  It
 * walks over its part of the tiles, the next one on its way while one is used;
 * at the end its rows of warps are added through shared memory in a fixed
 * order. Each block writes its sums to the workspace, parts[part][K][r, s, c],
 * and wgrad_sum() adds them in order: the same bits every time.
 *
 * Shared memory: two stages of a patch of x and of the tile of dy, whose pixels
 * take 32 bytes a column and 16 more; 16 bytes of zeros.  Pixels of a tile that
 * lie outside the image are zeros in dy, and read those zeros for x, which may
 * be infinite where they are.
 */
#include <math.h>

#include "kernels/cuda/conv/cost.h"
#include "kernels/cuda/conv/state.cuh"
#include "kernels/cuda/grouped/grouped_shape.cuh"
#include "kernels/cuda/mma/wgrad.cuh"

enum {
    GROUPED_WARPS = 8,
    GROUPED_SUMS = GROUPED_TAPS * 8, /* of a lane */
    GROUPED_ZEROS = 16
};

struct grouped_wgrad_args {
    struct grouped_patch_args p;
    const void *dy;
    float *parts;
    int stage, pitch;           /* bytes of a stage, and of a pixel of dy */
    int chunks;                 /* of 16 pixels of a tile */
    struct fast_div by_vectors; /* of a pixel of dy */
};

/* ---- copying ------------------------------------------------------- */

/* Starts the copy of a tile of dy, columns from `slice` on. */
static __device__ __forceinline__ void
grouped_copy_dy(const struct grouped_wgrad_args &a, int slice, int tile,
                int threads, uint32_t to)
{
    const struct grouped_patch_shape &s = a.p.s;
    const struct conv_geometry &g = s.g;
    const struct grouped_place t = grouped_place_at(a.p, tile);
    const uint16_t *image =
        (const uint16_t *)a.dy + (size_t)t.n * g.p * g.q * g.k;
    const int pixels = a.chunks * 16, last = s.high * s.wide - 1;
    const int apart = threads / (s.across * 2);
    uint32_t v;
    int m = (int)a.by_vectors.divmod(threadIdx.x, &v);
    const int column = slice + (int)v / 2;
    const int k = grouped_first(g, column) + (int)v % 2 * 8;
    const bool ours = column < s.columns && k < g.k;

    for (m = m < apart ? m : pixels; m < pixels; m += apart) {
        uint32_t right;
        const int p = t.p + (int)a.p.by_wide.divmod((uint32_t)m, &right);
        const int q = t.q + (int)right;
        const bool inside = ours && m <= last && p < g.p && q < g.q;

        ptx_cp_async<16>(to + m * a.pitch + v * 16,
                         image + (inside ? (p * g.q + q) * g.k + k : 0),
                         inside);
    }
}

static __device__ __forceinline__ void
grouped_copy_both(const struct grouped_wgrad_args &a,
                  const struct grouped_copier &own, int slice, int tile,
                  int threads, uint32_t to)
{
    if (tile < a.p.tiles) {
        grouped_copy(a.p, own, tile, to);
        grouped_copy_dy(a, slice, tile, threads, to + a.p.s.patch_bytes);
    }
    ptx_cp_async_commit();
}

/* ---- computing ----------------------------------------------------- */

/* 16 pixels.  The matrices of dy are (pixels 0-7, outputs 0-7), (0-7, 8-15),
 * (8-15, 0-7), (8-15, 8-15), those of x (pixels 0-7, channels 0-7), (8-15,
 * 0-7), (0-7, 8-15), (8-15, 8-15), all transposed.  EDGE: pixels of lanes that
 * are not `live` are zeros. */
template <typename T, bool EDGE>
static __device__ __forceinline__ void
grouped_wgrad_step(const struct grouped_patch_args &a, uint32_t dy,
                   uint32_t from, bool live, uint32_t zeros,
                   float (&sum)[GROUPED_TAPS][2][4])
{
    uint32_t fa[4];

    ptx_ldmatrix_x4_trans(fa, dy);
#pragma unroll
    for (int tap = 0; tap < GROUPED_TAPS; tap++) {
        uint32_t fb[4];
        ptx_ldmatrix_x4_trans(fb, EDGE && !live ? zeros : from + a.offset[tap]);
        ptx_mma(T(), sum[tap][0], fa, fb);
        ptx_mma(T(), sum[tap][1], fa, fb + 2);
    }
}

/* A tile, `column` of the slice and channels from byte c of a pixel on. */
template <typename T>
static __device__ __forceinline__ void
grouped_wgrad_tile(const struct grouped_wgrad_args &a, int tile, int column,
                   int c, int row, uint32_t stage, uint32_t zeros,
                   float (&sum)[GROUPED_TAPS][2][4])
{
    const struct grouped_patch_shape &s = a.p.s;
    const struct grouped_place t = grouped_place_at(a.p, tile);
    const int lane = threadIdx.x % 32, last = s.high * s.wide - 1;
    const uint32_t dy = stage + s.patch_bytes + column * 32 +
                        (lane / 16 * 8 + lane % 8) * a.pitch +
                        lane / 8 % 2 * 16;

#pragma unroll 1
    for (int i = row; i < a.chunks; i += s.down) {
        const int m = i * 16 + lane / 8 % 2 * 8 + lane % 8;
        uint32_t q;
        const int p = (int)a.p.by_wide.divmod((uint32_t)m, &q);
        const bool live = m <= last && t.p + p < s.g.p && t.q + (int)q < s.g.q;
        const uint32_t from = stage + c + lane / 16 * 16 +
                              p * s.g.stride_h * s.row_bytes + (int)q * s.pitch;

        if (__all_sync(0xffffffffu, live))
            grouped_wgrad_step<T, false>(a.p, dy + i * 16 * a.pitch, from, live,
                                         zeros, sum);
        else
            grouped_wgrad_step<T, true>(a.p, dy + i * 16 * a.pitch, from, live,
                                        zeros, sum);
    }
}

/* Adds up the rows of warps; row 0 has the result. */
static __device__ __forceinline__ void
grouped_join(float (&sum)[GROUPED_TAPS][2][4], int units, int unit, int row,
             int down, float *shared)
{
    for (int half = down / 2; half > 0; half /= 2) {
        float *at = shared + (row % half * units + unit) * GROUPED_SUMS * 32 +
                    threadIdx.x % 32;
        __syncthreads();
        if (row >= half && row < 2 * half) {
#pragma unroll
            for (int i = 0; i < GROUPED_SUMS; i++)
                at[i * 32] = sum[i / 8][i / 4 % 2][i % 4];
        }
        __syncthreads();
        if (row < half) {
#pragma unroll
            for (int i = 0; i < GROUPED_SUMS; i++)
                sum[i / 8][i / 4 % 2][i % 4] += at[i * 32];
        }
    }
}

/* Two neighbouring channels at a time where groups have an even number. */
static __device__ __forceinline__ void
grouped_store_sums(const struct grouped_wgrad_args &a, int column,
                   const float (&sum)[GROUPED_TAPS][2][4])
{
    const struct conv_geometry &g = a.p.s.g;
    const int lane = threadIdx.x % 32, end = grouped_end(g, column);
    const bool pairs = g.cg % 2 == 0;
    float *parts = a.parts + (size_t)blockIdx.y * g.k * GROUPED_TAPS * g.cg;

#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int k = grouped_first(g, column) + lane / 4 + i % 4 / 2 * 8;
        const int c =
            grouped_channel(g, column) + i / 4 * 8 + lane % 4 * 2 + i % 2;
        uint32_t in;
        const uint32_t group = a.p.by_cg.divmod((uint32_t)c, &in);

        if ((pairs && i % 2 == 1) || k >= end || c >= g.c ||
            a.p.by_kg.div((uint32_t)k) != group)
            continue;
        float *to = parts + k * (int)GROUPED_TAPS * g.cg + (int)in;
#pragma unroll
        for (int tap = 0; tap < GROUPED_TAPS; tap++, to += g.cg) {
            const float *from = &sum[tap][i / 4][i % 4];
            if (pairs && i % 2 == 0)
                *(float2 *)to = make_float2(from[0], from[1 - i % 2]);
            else
                *to = from[0];
        }
    }
}

template <typename T>
static __global__ void __launch_bounds__(GROUPED_WARPS * 32, 2)
    grouped_wgrad_kernel(const __grid_constant__ struct grouped_wgrad_args a)
{
    LAUNCH_SHARED(shared);
    const struct grouped_patch_shape &s = a.p.s;
    const int threads = s.across * s.down * 32, warp = threadIdx.x / 32;
    const int unit = warp % s.across, row = warp / s.across;
    const int slice = blockIdx.x * s.across;
    const int column = min(slice + unit, s.columns - 1);
    const int first = grouped_channel(s.g, slice);
    const int c = (grouped_channel(s.g, column) - first) * 2;
    const uint32_t stages = ptx_shared(shared), zeros = stages + 2 * a.stage;
    const struct grouped_copier own = grouped_copier_of(a.p, first, threads);
    float sum[GROUPED_TAPS][2][4] = {};

    if (threadIdx.x < GROUPED_ZEROS / 4)
        ((uint32_t *)(shared + 2 * a.stage))[threadIdx.x] = 0;
    launch_wait();
    grouped_copy_both(a, own, slice, blockIdx.y, threads, stages);
    for (int tile = blockIdx.y, now = 0; tile < a.p.tiles;
         tile += gridDim.y, now ^= 1) {
        ptx_cp_async_wait<0>();
        __syncthreads();
        grouped_copy_both(a, own, slice, tile + (int)gridDim.y, threads,
                          stages + (now ^ 1) * a.stage);
        grouped_wgrad_tile<T>(a, tile, column - slice, c, row,
                              stages + now * a.stage, zeros, sum);
    }
    grouped_join(sum, s.across, unit, row, s.down, (float *)shared);
    if (row == 0 && slice + unit < s.columns)
        grouped_store_sums(a, column, sum);
}

/* ---- limits -------------------------------------------------------- */

struct grouped_wgrad_state {
    struct grouped_patch_shape s;
    int tiles, ranges, stage, pitch, chunks, shared;
};

/* Tiles of 16 parts x down pixels. */
static bool grouped_wgrad_shape(struct grouped_wgrad_state *state, int parts,
                                int room)
{
    struct grouped_patch_shape *s = &state->s;
    const int pixels = GROUPED_N * parts * s->down;
    const int join = s->down / 2 * s->across * GROUPED_SUMS * 32 * 4;

    state->pitch = s->across * 32 + 16;
    if (!grouped_choose_tile(s, parts, room - 2 * pixels * state->pitch))
        return false;
    state->chunks = conv_ceil_div(s->high * s->wide, GROUPED_N);
    state->stage = s->patch_bytes + state->chunks * GROUPED_N * state->pitch;
    state->shared = 2 * state->stage + GROUPED_ZEROS;
    if (state->shared < join)
        state->shared = join;
    const int64_t tiles = (int64_t)s->g.n * s->tiles_p * s->tiles_q;
    if (tiles >= INT32_MAX / 2)
        return false;
    state->tiles = (int)tiles;
    return state->shared <= room;
}

/* Small tiles where large ones are too few for all multiprocessors. */
static bool grouped_wgrad_tiles(struct grouped_wgrad_state *state,
                                int multiprocessors, int room)
{
    bool found = false;

    for (int parts = 4; parts > 0; parts /= 2) {
        struct grouped_wgrad_state now = *state;
        if (!grouped_wgrad_shape(&now, parts, room))
            continue;
        found = true;
        *state = now;
        if ((int64_t)now.tiles * now.s.slices >= 2 * multiprocessors)
            break;
    }
    return found;
}

/* Microseconds of a tile, and of what one range writes for the second pass. */
static double grouped_wgrad_tile_us(const struct grouped_wgrad_state *state)
{
    const struct grouped_patch_shape &s = state->s;
    const int pixels = state->chunks * GROUPED_N;
    const int vectors = s.rows * s.width * s.range / 8 + pixels * s.across * 2;
    const int products = state->chunks * s.across * GROUPED_TAPS;

    return 0.4 + 0.43e-3 * vectors + 2.5e-3 * products;
}

static double grouped_wgrad_range_us(const struct conv_geometry *g)
{
    return (double)g->k * (int)GROUPED_TAPS * g->cg * 8 / 4e6;
}

/* Ranges of tiles, one a block: the more, the shorter is the walk over the
 * tiles, and the longer the second pass.  All have the same number of tiles, or
 * one less. */
static void grouped_wgrad_ranges(struct grouped_wgrad_state *state,
                                 int processors, int room)
{
    const int fit = (room + 1024) / (state->shared + 1024);
    const int blocks = (fit < 2 ? fit : 2) * processors / state->s.slices;
    const double best = sqrt(state->tiles * grouped_wgrad_tile_us(state) /
                             grouped_wgrad_range_us(&state->s.g));
    const int wanted = best < blocks ? (int)best : blocks;
    const int most = wanted < 1 ? 1 : wanted < 256 ? wanted : 256;

    state->ranges =
        conv_ceil_div(state->tiles, conv_ceil_div(state->tiles, most));
}

static int grouped_wgrad_read(const struct kern_problem *p,
                              const struct kern_device *d, int,
                              struct grouped_wgrad_state *state,
                              struct infer_error *why)
{
    struct grouped_patch_shape *s = &state->s;
    const struct conv_geometry &g = s->g;
    const int room =
        d->shared_per_block_optin ? d->shared_per_block_optin : 99 * 1024;
    const int processors = conv_multiprocessors(d);
    const int rc = wgrad_geometry(p, &s->g, why);

    if (rc < 0)
        return rc;
    s->f.n = s->f.h = s->f.w = 1;
    if (g.r != 3 || g.s != 3 || g.stride_h > 16 || g.stride_w > 16 ||
        g.dilation_h > 64 || g.dilation_w > 64)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes windows of 3 x 3, found %d x %d", g.r, g.s);
    const int together = g.kg < GROUPED_N ? GROUPED_N / g.kg * g.cg : g.cg;
    if (g.groups < 2 || together > GROUPED_N || g.kg > GROUPED_MAX_CHANNELS)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes two groups and more of which 16 outputs read "
                         "16 channels at most, found %d of %d to %d",
                         g.groups, g.cg, g.kg);
    if (together % 8 || (g.kg < GROUPED_N ? GROUPED_N % g.kg : g.kg % 8) ||
        g.c % 8 || g.k % 8)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes channels in eights and groups that begin at "
                         "multiples of 8 channels, one by one or as many as "
                         "have 16 outputs, found %d to %d",
                         g.cg, g.kg);
    if (!grouped_slice(s, 4))
        return error_set(why, INFER_EUNSUPPORTED, "groups are too wide");
    s->down = 1;
    while (2 * s->down * s->across <= GROUPED_WARPS)
        s->down *= 2;
    if (s->slices > 65535 || (int64_t)g.k * GROUPED_TAPS * g.cg > INT32_MAX ||
        !grouped_wgrad_tiles(state, processors, room))
        return error_set(why, INFER_EUNSUPPORTED,
                         "windows with dilation %d x %d reach too far, or "
                         "there are too few or too many pixels",
                         g.dilation_h, g.dilation_w);
    grouped_wgrad_ranges(state, processors, room);
    return 0;
}

/* As of grouped_patch_sm80, and the second pass. */
static double grouped_wgrad_estimate(const struct kern_problem *p,
                                     const struct kern_device *d)
{
    struct grouped_wgrad_state state = {};

    if (grouped_wgrad_read(p, d, 0, &state, NULL) < 0)
        return 1e30;
    const struct grouped_patch_shape &s = state.s;
    const double turns = conv_ceil_div(state.tiles, state.ranges);
    const double all = (double)state.tiles * s.slices / conv_multiprocessors(d);

    return 6 + (all > turns ? all : turns) * grouped_wgrad_tile_us(&state) +
           state.ranges * grouped_wgrad_range_us(&s.g) +
           cost_conv_bytes(p, &s.g) / 6.2e6;
}

static void grouped_wgrad_declare(struct kern_exec *e,
                                  const struct grouped_wgrad_state *state)
{
    const struct conv_geometry *g = &state->s.g;

    e->workspace = (size_t)state->ranges * (size_t)g->k * GROUPED_TAPS *
                   (size_t)g->cg * sizeof(float);
}

/* ---- launching ----------------------------------------------------- */

template <typename T>
static int grouped_wgrad_launch(const struct kern_exec *e,
                                const struct kern_args *args,
                                struct infer_error *err)
{
    const struct grouped_wgrad_state *state =
        (const struct grouped_wgrad_state *)e->state;
    const struct grouped_patch_shape *s = &state->s;
    const struct conv_geometry *g = &s->g;
    const struct wgrad_join_shape shape = {g->k, g->cg, g->r, g->s,
                                           state->ranges};
    struct grouped_wgrad_args a = {};

    grouped_args_of(s, &a.p);
    a.p.x = args->in[0];
    a.dy = args->in[1];
    a.parts = wgrad_target(e, &shape, args);
    a.stage = state->stage;
    a.pitch = state->pitch;
    a.chunks = state->chunks;
    a.by_vectors.init((uint32_t)s->across * 2);
    const int rc =
        launch_chained(grouped_wgrad_kernel<T>,
                       dim3((unsigned)s->slices, (unsigned)state->ranges),
                       dim3((unsigned)(s->across * s->down * 32)),
                       (size_t)state->shared, args->stream, a, err);
    return rc < 0 ? rc : wgrad_join(e, &shape, args, err);
}

#define GROUPED_WGRAD_ROW(symbol, T)                                           \
    KERN_FUNCTIONS(symbol) = {                                                 \
        .supports =                                                            \
            state_supports<struct grouped_wgrad_state, grouped_wgrad_read>,    \
        .estimate = grouped_wgrad_estimate,                                    \
        .prepare = state_prepare<struct grouped_wgrad_state,                   \
                                 grouped_wgrad_read, grouped_wgrad_declare>,   \
        .launch = grouped_wgrad_launch<T>,                                     \
        .release = cuda_state_release,                                         \
    };

GROUPED_WGRAD_ROW(conv2d_wgrad_nhwc_f16_cuda_grouped_patch_sm80, __half)
GROUPED_WGRAD_ROW(conv2d_wgrad_nhwc_bf16_cuda_grouped_patch_sm80, __nv_bfloat16)
