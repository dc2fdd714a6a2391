/* SPDX-License-Identifier: Apache-2.0 */
/* The host's side of the tensor-core wgrad: limits, ranges of pixels, launch
 * and the tiles, which are the rows' variants (tiles.h). */
#ifndef KERNELS_CUDA_MMA_WGRAD_ROWS_CUH
#define KERNELS_CUDA_MMA_WGRAD_ROWS_CUH

#include "kernels/cuda/conv/family.cuh"
#include "kernels/cuda/conv/state.cuh"
#include "kernels/cuda/mma/wgrad.cuh"

struct wgrad_state {
    struct conv_tiled tiled;
    struct conv_geometry g;
    int n, k_tiles, k_tiles_per_range, ranges, tiles_n, tiles;
    bool chained; /* the first launch */
};

template <typename L>
static int wgrad_supports(const struct kern_problem *p,
                          const struct kern_device *d, struct infer_error *why)
{
    struct conv_geometry g;
    const int rc = wgrad_geometry(p, &g, why);

    (void)d;
    if (rc < 0)
        return rc;
    if (!L::NARROW && (g.cg % L::LANE || g.kg % L::LANE))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes channels in %ds, found %d to %d a group",
                         (int)L::LANE, g.cg, g.kg);
    return 0;
}

/* ---- preparing ----------------------------------------------------- */

/* Ranges of pixels: three blocks a multiprocessor, 4 k-tiles or more each; and
 * no more than 256, so that the second pass stays small. */
static inline void wgrad_choose_ranges(const struct kern_device *d,
                                       struct wgrad_state *s)
{
    const int64_t blocks = (int64_t)s->tiles * s->g.groups;
    int64_t ranges = 3 * (int64_t)conv_multiprocessors(d) / blocks;

    ranges = ranges < s->k_tiles / 4 ? ranges : s->k_tiles / 4;
    ranges = ranges < 256 ? ranges : 256;
    ranges = ranges > 1 ? ranges : 1;
    s->k_tiles_per_range = conv_ceil_div(s->k_tiles, (int)ranges);
    s->ranges = conv_ceil_div(s->k_tiles, s->k_tiles_per_range);
}

template <typename L>
static int wgrad_read(const struct kern_problem *p, const struct kern_device *d,
                      int, struct wgrad_state *s, struct infer_error *why)
{
    const int rc = wgrad_geometry(p, &s->g, why);

    if (rc < 0)
        return rc;
    s->n = s->g.r * s->g.s * s->g.cg;
    s->tiles_n = conv_ceil_div(s->n, L::BN);
    s->tiles = conv_ceil_div(s->g.kg, L::BK) * s->tiles_n;
    s->k_tiles = conv_ceil_div(s->g.m, WGRAD_DEPTH);
    wgrad_choose_ranges(d, s);
    /* Many blocks are better not chained: 24 to 144 channels, 56x56, batch 64
     * took 45 us chained, 36.6 otherwise (H200). */
    s->chained =
        (int64_t)s->tiles * s->g.groups * s->ranges <= conv_multiprocessors(d);
    return 0;
}

static inline void wgrad_declare(struct kern_exec *e,
                                 const struct wgrad_state *s)
{
    e->workspace =
        (size_t)s->ranges * (size_t)s->g.k * (size_t)s->n * sizeof(float);
}

/* ---- estimate ------------------------------------------------------ */

/* Microseconds: launches, the k-tiles that a multiprocessor walks through, NS
 * nanoseconds each where up to BLOCKS of its blocks share it, and the sums that
 * are written and, if there are several ranges, read again.  Fitted to
 * measurements on an H200: 16-bit types to 640, with a standard deviation of 15
 * %, 32-bit types to 152, with 13 to 21 %. */
template <typename L, int NS, int BLOCKS>
static double wgrad_estimate(const struct kern_problem *p,
                             const struct kern_device *d, int)
{
    struct wgrad_state s = {};

    if (wgrad_supports<L>(p, d, NULL) < 0 ||
        wgrad_read<L>(p, d, 0, &s, NULL) < 0)
        return 1e30;
    const double blocks = (double)s.tiles * s.g.groups * s.ranges;
    const double rounds = blocks / (BLOCKS * conv_multiprocessors(d));
    const double sums = 4e-6 * s.g.k * s.n * (s.ranges > 1 ? 2 * s.ranges : 1);

    return 3.3 + 1e-3 * NS * s.k_tiles_per_range * (rounds > 1 ? rounds : 1) +
           sums / 1.46;
}

/* ---- launching ----------------------------------------------------- */

template <typename L>
static int wgrad_launch(const struct kern_exec *e, const struct kern_args *args,
                        struct infer_error *err)
{
    const struct wgrad_state *s = (const struct wgrad_state *)e->state;
    const struct wgrad_join_shape shape = {s->g.k, s->g.cg, s->g.r, s->g.s,
                                           s->ranges};
    const dim3 grid(s->tiles, s->g.groups, s->ranges);
    struct wgrad_args a = {};

    a.g = s->g;
    a.p.init((uint32_t)s->g.p);
    a.q.init((uint32_t)s->g.q);
    a.x = args->in[0];
    a.dy = args->in[1];
    a.parts = wgrad_target(e, &shape, args);
    a.n = s->n;
    a.k_tiles = s->k_tiles;
    a.k_tiles_per_range = s->k_tiles_per_range;
    a.tiles_n = s->tiles_n;
    const size_t shared = L::NARROW ? L::STAGE : L::SHARED;
    const int rc = s->chained
                       ? launch_chained(wgrad_kernel<L>, grid, L::THREADS,
                                        shared, args->stream, a, err)
                       : launch_kernel(wgrad_kernel<L>, grid, L::THREADS,
                                       shared, args->stream, a, err);
    return rc < 0 ? rc : wgrad_join(e, &shape, args, err);
}

/* ---- tiles --------------------------------------------------------- */

/* name, percent of the peak, nanoseconds of a k-tile and blocks that share a
 * multiprocessor (wgrad_estimate()), arguments of wgrad_tile. */
#define WGRAD_TILE(name, percent, ns, blocks, ...)                             \
    {                                                                          \
        name, percent, wgrad_supports<wgrad_tile<__VA_ARGS__>>,                \
            wgrad_estimate<wgrad_tile<__VA_ARGS__>, ns, blocks>, NULL, NULL,   \
            state_prepare<struct wgrad_state,                                  \
                          wgrad_read<wgrad_tile<__VA_ARGS__>>, wgrad_declare>, \
            NULL, wgrad_launch<wgrad_tile<__VA_ARGS__>>                        \
    }

/* Output channels x columns of a block. */
template <typename M>
static const struct conv_tile wgrad_half_tiles[] = {
    WGRAD_TILE("128x128", 100, 1130, 2, M, 128, 128, 4, 2, 4),
    WGRAD_TILE("64x64", 65, 450, 2, M, 64, 64, 4, 2, 2),
    WGRAD_TILE("32x64", 45, 510, 3, M, 32, 64, 4, 1, 4),
    WGRAD_TILE("128x32", 55, 450, 2, M, 128, 32, 4, 4, 1),
    WGRAD_TILE("64x32", 40, 370, 3, M, 64, 32, 4, 4, 1),
    WGRAD_TILE("64x64 narrow", 20, 4900, 3, M, 64, 64, 2, 2, 2, 1),
};

template <typename M>
static const struct conv_tile wgrad_float_tiles[] = {
    WGRAD_TILE("64x64", 65, M::SPLIT ? 1180 : 1000, M::SPLIT ? 1 : 2, M, 64, 64,
               3, 2, 2),
    WGRAD_TILE("32x64", 45, M::SPLIT ? 840 : 380, 1, M, 32, 64, 3, 1, 4),
    WGRAD_TILE("64x64 narrow", 20, M::SPLIT ? 5100 : 4800, M::SPLIT ? 2 : 4, M,
               64, 64, 2, 2, 2, 1),
};

#endif
