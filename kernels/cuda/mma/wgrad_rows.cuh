/* SPDX-License-Identifier: Apache-2.0 */
/* The host's side of the tensor-core weight gradients: limits, choice of the
 * tile, ranges of pixels, launch.  A row offers its tiles as variants, the one
 * that wastes least first. */
#ifndef KERNELS_CUDA_MMA_WGRAD_ROWS_CUH
#define KERNELS_CUDA_MMA_WGRAD_ROWS_CUH

#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/mma/wgrad.cuh"

enum wgrad_shape {
    WGRAD_128x128,
    WGRAD_64x64,
    WGRAD_32x64,
    WGRAD_NARROW,
    WGRAD_SHAPES
};

/* k, n of a tile and how much of the peak it reaches, per cent. */
static const struct wgrad_figures {
    int bk, bn, percent;
    const char *name;
} wgrad_figures[WGRAD_SHAPES] = {
    {128, 128, 100, "128x128"},
    {64, 64, 65, "64x64"},
    {32, 64, 45, "32x64"},
    {64, 64, 20, "64x64 narrow"},
};

struct wgrad_state {
    struct conv_geometry g;
    enum wgrad_shape shape;
    int n, k_tiles, k_tiles_per_range, ranges, tiles_n, tiles;
};

/* ---- limits -------------------------------------------------------- */

/* The tiles that a problem can use, the cheapest first. */
static inline int wgrad_candidates(const struct conv_geometry *g,
                                   bool wide_type, enum wgrad_shape *out)
{
    const int lane = wide_type ? 4 : 8;
    const bool vectors = g->cg % lane == 0 && g->kg % lane == 0;
    double cost[WGRAD_SHAPES];
    int count = 0;

    for (int i = 0; i < WGRAD_SHAPES; i++) {
        const struct wgrad_figures *f = &wgrad_figures[i];
        if ((i != WGRAD_NARROW && !vectors) ||
            (i == WGRAD_128x128 && wide_type))
            continue;
        const double c = (double)conv_round_up(g->kg, f->bk) *
                         conv_round_up(g->r * g->s * g->cg, f->bn) / f->percent;
        int at = count++;
        while (at > 0 && cost[at - 1] > c) {
            cost[at] = cost[at - 1];
            out[at] = out[at - 1];
            at--;
        }
        cost[at] = c;
        out[at] = (enum wgrad_shape)i;
    }
    return count;
}

static inline bool wgrad_wide(const struct kern_problem *p)
{
    return p->in[0].dtype == INFER_F32;
}

static inline int wgrad_variants(const struct kern_problem *p,
                                 const struct kern_device *d,
                                 struct infer_error *err)
{
    enum wgrad_shape shape[WGRAD_SHAPES];
    struct conv_geometry g;
    const int r = wgrad_geometry(p, &g, err);

    (void)d;
    return r < 0 ? r : wgrad_candidates(&g, wgrad_wide(p), shape);
}

static inline int wgrad_supports(const struct kern_problem *p,
                                 const struct kern_device *d,
                                 struct infer_error *why)
{
    struct conv_geometry g;

    (void)d;
    return wgrad_geometry(p, &g, why);
}

/* ---- preparing ----------------------------------------------------- */

/* Ranges of pixels: three blocks a multiprocessor, 4 k-tiles or more each; and
 * no more than 256, so that the second pass stays small. */
static inline void wgrad_plan(const struct kern_device *d,
                              struct wgrad_state *s)
{
    const struct wgrad_figures *f = &wgrad_figures[s->shape];

    s->n = s->g.r * s->g.s * s->g.cg;
    s->tiles_n = conv_ceil_div(s->n, f->bn);
    s->tiles = conv_ceil_div(s->g.kg, f->bk) * s->tiles_n;
    s->k_tiles = conv_ceil_div(s->g.m, WGRAD_DEPTH);
    const int64_t blocks = (int64_t)s->tiles * s->g.groups;
    int64_t ranges = 3 * (int64_t)conv_multiprocessors(d) / blocks;
    ranges = ranges < s->k_tiles / 4 ? ranges : s->k_tiles / 4;
    ranges = ranges < 256 ? ranges : 256;
    ranges = ranges > 1 ? ranges : 1;
    s->k_tiles_per_range = conv_ceil_div(s->k_tiles, (int)ranges);
    s->ranges = conv_ceil_div(s->k_tiles, s->k_tiles_per_range);
}

static inline int wgrad_prepare(struct kern_exec *e,
                                const struct kern_device *d,
                                struct infer_error *err)
{
    struct wgrad_state *s = (struct wgrad_state *)calloc(1, sizeof(*s));
    enum wgrad_shape shape[WGRAD_SHAPES];
    int r = s ? wgrad_geometry(&e->problem, &s->g, err)
              : error_set(err, INFER_EMEMORY, "%s: no memory", e->row->name);
    const int count =
        r < 0 ? 0 : wgrad_candidates(&s->g, wgrad_wide(&e->problem), shape);

    if (r == 0 && e->variant >= count)
        r = error_set(err, INFER_EUNSUPPORTED, "%s has no variant %d",
                      e->row->name, e->variant);
    if (r < 0) {
        free(s);
        return r;
    }
    s->shape = shape[e->variant];
    wgrad_plan(d, s);
    snprintf(e->variant_name, sizeof(e->variant_name), "%s",
             wgrad_figures[s->shape].name);
    e->workspace =
        (size_t)s->ranges * (size_t)s->g.k * (size_t)s->n * sizeof(float);
    e->state = s;
    return 0;
}

/* ---- launching ----------------------------------------------------- */

template <typename M, int BK, int BN, int STAGES, int WARPS_M, int WARPS_N,
          int NARROW>
static int wgrad_run(const struct wgrad_state *s, const struct wgrad_args *a,
                     void *stream, struct infer_error *err)
{
    typedef wgrad_tile<M, BK, BN, STAGES, WARPS_M, WARPS_N> L;
    const dim3 grid(s->tiles, s->g.groups, s->ranges);

    return launch_kernel(
        wgrad_kernel<M, BK, BN, STAGES, WARPS_M, WARPS_N, NARROW>, grid,
        L::THREADS, NARROW ? L::STAGE : L::SHARED, stream, *a, err);
}

template <typename M>
static int wgrad_dispatch(const struct wgrad_state *s,
                          const struct wgrad_args *a, void *stream,
                          struct infer_error *err)
{
    const int stages = M::WIDE ? 3 : 4;

    if constexpr (!M::WIDE)
        if (s->shape == WGRAD_128x128)
            return wgrad_run<M, 128, 128, 4, 2, 4, 0>(s, a, stream, err);
    if (s->shape == WGRAD_64x64)
        return wgrad_run<M, 64, 64, stages, 2, 2, 0>(s, a, stream, err);
    if (s->shape == WGRAD_32x64)
        return wgrad_run<M, 32, 64, stages, 1, 4, 0>(s, a, stream, err);
    return wgrad_run<M, 64, 64, 2, 2, 2, 1>(s, a, stream, err);
}

template <typename M>
static int wgrad_launch(const struct kern_exec *e, const struct kern_args *args,
                        struct infer_error *err)
{
    const struct wgrad_state *s = (const struct wgrad_state *)e->state;
    const struct wgrad_join_shape shape = {s->g.k, s->g.cg, s->g.r, s->g.s,
                                           s->ranges};
    struct wgrad_args a = {};

    a.g = s->g;
    a.p.init((uint32_t)s->g.p);
    a.q.init((uint32_t)s->g.q);
    a.x = args->in[0];
    a.dy = args->in[1];
    a.parts = (float *)args->workspace;
    a.n = s->n;
    a.k_tiles = s->k_tiles;
    a.k_tiles_per_range = s->k_tiles_per_range;
    a.tiles_n = s->tiles_n;
    const int r = wgrad_dispatch<M>(s, &a, args->stream, err);
    return r < 0 ? r : wgrad_join(e, &shape, args, err);
}

#define WGRAD_ROW(symbol, m)                                                   \
    const struct kern_functions symbol = {                                     \
        .supports = wgrad_supports,                                            \
        .variants = wgrad_variants,                                            \
        .prepare = wgrad_prepare,                                              \
        .launch = wgrad_launch<m>,                                             \
        .release = cuda_state_release,                                         \
    };

#endif
